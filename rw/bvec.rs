// SPDX-License-Identifier: GPL-2.0

//! Arrays of `bio_vec`: the caller's, a cursor over them, and their mapping piece by piece.

use core::mem::MaybeUninit;
use core::slice;

use kernel::prelude::*;

use super::{
    dma::{
        self,
        unmap_sges,
        Segment, //
    },
    multi::{
        Filled,
        Segments, //
    },
    pages::Pages,
    Device,
    Direction, //
};
use crate::bindings;

/// An array of `bio_vec` and the part of it that is to be transferred, as a caller gives it.
///
/// Also a cursor: what it yields, it leaves behind.
///
/// # Invariants
///
/// - The pages that the entries name stay as long as this value or anything made from it is in use.
/// - `done` is not more than the length of the first of `bvecs`, or 0.
#[derive(Clone)]
pub(crate) struct BvecSource<'a> {
    /// Entries that are not done.
    bvecs: &'a [bindings::bio_vec],
    /// Bytes of the first of them that are done.
    done: u32,
    /// Bytes left to transfer.
    left: u32,
    /// Number of entries of the whole array.
    #[cfg(rdma_rw_takeover)]
    nr_array: u32,
}

/// Contiguous memory within one `bio_vec`.
pub(crate) struct Piece {
    page: *const bindings::page,
    offset: u32,
    len: u32,
}

impl Piece {
    /// Page that [`Piece::offset`] counts from; the memory may reach into pages behind it.
    #[inline]
    pub(super) fn page(&self) -> *const bindings::page {
        self.page
    }

    /// Offset from the start of the page, in bytes.
    #[inline]
    pub(super) fn offset(&self) -> u32 {
        self.offset
    }

    /// Length in bytes, never 0.
    #[inline]
    pub(super) fn len(&self) -> u32 {
        self.len
    }

    /// Where the piece lies before it is mapped.
    #[inline]
    pub(super) fn segment(&self, pages: &Pages) -> Segment {
        Segment {
            addr: pages.address(self.page, self.offset),
            len: self.len,
        }
    }
}

impl BvecSource<'_> {
    /// Takes a C array and iterator.
    ///
    /// # Errors
    ///
    /// `EINVAL` without an array, without bytes to transfer, or where the iterator starts behind
    /// the array.
    ///
    /// # Safety
    ///
    /// `bvecs` must be null or an array of `nr_bvec` entries, which stays, as do the pages they
    /// name, while the result is in use.
    #[inline]
    pub(crate) unsafe fn from_raw(
        bvecs: *const bindings::bio_vec,
        nr_bvec: u32,
        iter: bindings::bvec_iter,
    ) -> Result<Self> {
        if bvecs.is_null() || iter.bi_size == 0 {
            return Err(EINVAL);
        }

        // SAFETY: By this function's safety requirement; the pointer is not null.
        let bvecs = unsafe { slice::from_raw_parts(bvecs, nr_bvec as usize) };
        let mut bvecs = bvecs.get(iter.bi_idx as usize..).ok_or(EINVAL)?;
        let mut done = iter.bi_offset;

        // An iterator may stand at the end of an entry.
        loop {
            let (bvec, rest) = bvecs.split_first().ok_or(EINVAL)?;
            if done < bvec.bv_len {
                break;
            }
            done = done.wrapping_sub(bvec.bv_len);
            bvecs = rest;
        }

        // INVARIANT: By this function's safety requirement.
        Ok(Self {
            bvecs,
            done,
            left: iter.bi_size,
            #[cfg(rdma_rw_takeover)]
            nr_array: nr_bvec,
        })
    }

    /// The piece of a transfer within the one entry of an array; none for any other transfer, and
    /// for none at all.
    ///
    /// # Safety
    ///
    /// As for [`BvecSource::from_raw`].
    #[inline(always)]
    pub(crate) unsafe fn only_piece(
        bvecs: *const bindings::bio_vec,
        nr_bvec: u32,
        iter: bindings::bvec_iter,
    ) -> Option<Piece> {
        if nr_bvec != 1 || iter.bi_idx != 0 || iter.bi_size == 0 {
            return None;
        }

        // SAFETY: By this function's safety requirement.
        let bvec = unsafe { bvecs.as_ref() }?;
        let len = bvec.bv_len.checked_sub(iter.bi_offset)?;

        (iter.bi_size <= len).then(|| Piece {
            page: bvec.bv_page,
            offset: bvec.bv_offset.wrapping_add(iter.bi_offset),
            len: iter.bi_size,
        })
    }

    /// Number of entries that are not done.
    #[inline]
    pub(super) fn nr_bvecs(&self) -> u32 {
        // CAST: The array had a count of 32 bits.
        self.bvecs.len() as u32
    }

    /// Bytes left to transfer.
    #[inline]
    pub(super) fn left(&self) -> u32 {
        self.left
    }

    /// The next piece to transfer; none where all are done.
    ///
    /// # Errors
    ///
    /// `EINVAL` where the array ends before all bytes are done.
    #[inline]
    pub(super) fn next_piece(&mut self) -> Result<Option<Piece>> {
        while self.left != 0 {
            let (bvec, rest) = self.bvecs.split_first().ok_or(EINVAL)?;
            let piece = Piece {
                page: bvec.bv_page,
                offset: bvec.bv_offset.wrapping_add(self.done),
                // By the type invariant there are not more bytes done than there are.
                len: bvec.bv_len.wrapping_sub(self.done).min(self.left),
            };

            // A piece ends where its entry or the whole transfer does: the entry is done with.
            self.bvecs = rest;
            self.done = 0;
            self.left = self.left.wrapping_sub(piece.len);
            if piece.len != 0 {
                return Ok(Some(piece));
            }
        }
        Ok(None)
    }
}

/// The pieces of a transfer, each mapped as it is reached: by the DMA API, or where the device
/// works with kernel addresses, not at all.
pub(super) struct MappedPieces<'a, const DMA: bool> {
    pages: Pages,
    dir: Direction,
    source: BvecSource<'a>,
}

impl<'a, const DMA: bool> MappedPieces<'a, DMA> {
    /// The pieces of a source.
    ///
    /// # Errors
    ///
    /// `EINVAL` where there are none.
    #[inline]
    pub(super) fn new(device: &'a Device, dir: Direction, source: BvecSource<'a>) -> Result<Self> {
        let page = source.bvecs.first().ok_or(EINVAL)?.bv_page;

        Ok(Self {
            pages: Pages::new(device, page),
            dir,
            source,
        })
    }

    /// Maps a piece.
    #[inline(always)]
    fn map(&self, piece: Piece) -> Result<Segment> {
        let segment = piece.segment(&self.pages);

        if DMA {
            dma::map(self.pages.dma_device(), self.dir, segment)
        } else {
            Ok(segment)
        }
    }
}

// SAFETY: The SGEs are written one after the other, and counted.
unsafe impl<const DMA: bool> Segments for MappedPieces<'_, DMA> {
    // C frees `map.sges` alone of such a context, and finds the mappings there.
    const SGES_FIRST: bool = true;

    // An entry of the array has one piece at the most.
    #[inline]
    fn bound(&self) -> u32 {
        #[cfg(rdma_rw_takeover)]
        {
            // As many as C looks at, those before the first one that is used included.
            self.source.nr_array
        }
        #[cfg(not(rdma_rw_takeover))]
        {
            self.source.nr_bvecs()
        }
    }

    #[inline]
    fn only(&mut self) -> Result<Option<Segment>> {
        let mut rest = self.source.clone();

        match rest.next_piece()? {
            Some(piece) if rest.left == 0 => self.map(piece).map(Some),
            _ => Ok(None),
        }
    }

    // Out of line, so that the loop has all registers.
    #[inline(never)]
    fn fill(&mut self, sges: &mut [MaybeUninit<bindings::ib_sge>], lkey: u32) -> Filled {
        // What is written may lie anywhere, as far as the compiler knows, but not in here.
        let mut source = self.source.clone();
        let mut filled = Filled {
            nr: 0,
            len: 0,
            result: Ok(()),
        };

        for sge in sges {
            let segment = match source.next_piece() {
                Ok(Some(piece)) => self.map(piece),
                Ok(None) => break,
                Err(e) => Err(e),
            };

            match segment {
                Ok(segment) => {
                    sge.write(segment.sge(lkey));
                    // Not more than there are SGEs, and a transfer has a length of 32 bits.
                    filled.nr = filled.nr.wrapping_add(1);
                    filled.len = filled.len.wrapping_add(u64::from(segment.len));
                }
                Err(e) => {
                    filled.result = Err(e);
                    break;
                }
            }
        }
        self.source = source;
        filled
    }

    #[inline]
    fn finish(&self) -> Result {
        if self.source.left == 0 {
            Ok(())
        } else {
            Err(EINVAL)
        }
    }

    #[cfg(rdma_rw_takeover)]
    fn spare(&mut self) -> Result<Segment> {
        // SAFETY: The page is there as long as this code is.
        let page = unsafe { bindings::rdma_rw_c_spare_page() };

        self.map(Piece {
            page,
            offset: 0,
            // CAST: 64 KiB at most.
            len: kernel::page::PAGE_SIZE as u32,
        })
    }

    #[inline]
    fn undo(&self, sges: &[bindings::ib_sge]) {
        // SAFETY: These are the segments that `fill` mapped, and no context has them yet.
        unsafe { unmap_sges(self.pages.dma_device(), self.dir, sges) };
    }
}
