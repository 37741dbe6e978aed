// SPDX-License-Identifier: GPL-2.0

//! Arrays of `bio_vec`: the caller's, a cursor over them, and their mapping piece by piece.

use core::mem::MaybeUninit;
use core::slice;

use kernel::prelude::*;

use super::{
    dma::{
        unmap_sges,
        PageMapper, //
    },
    multi::{
        Filled,
        Segments, //
    },
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
/// The pages that the entries name stay as long as this value or anything made from it is in use.
#[derive(Clone)]
pub(crate) struct BvecSource<'a> {
    /// Entries from the current one on.
    bvecs: &'a [bindings::bio_vec],
    /// Bytes of the current entry that are done.
    done: u32,
    /// Bytes left to transfer.
    left: u32,
    /// Number of entries of the whole array.
    #[cfg(rdma_rw_takeover)]
    nr_array: u32,
}

/// Contiguous memory within one `bio_vec`.
pub(super) struct Piece {
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

        // INVARIANT: By this function's safety requirement.
        Ok(Self {
            bvecs: match bvecs.get(iter.bi_idx as usize..) {
                None | Some([]) => return Err(EINVAL),
                Some(bvecs) => bvecs,
            },
            done: iter.bi_offset,
            left: iter.bi_size,
            #[cfg(rdma_rw_takeover)]
            nr_array: nr_bvec,
        })
    }

    /// Number of entries from the current one on.
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
        if self.left == 0 {
            return Ok(None);
        }

        loop {
            let (bvec, rest) = self.bvecs.split_first().ok_or(EINVAL)?;
            if let Some(len @ 1..) = bvec.bv_len.checked_sub(self.done) {
                let piece = Piece {
                    page: bvec.bv_page,
                    offset: bvec.bv_offset.wrapping_add(self.done),
                    len: len.min(self.left),
                };

                // Neither sum nor difference wraps: `piece.len` is at most what either has left.
                self.left = self.left.wrapping_sub(piece.len);
                self.done = self.done.wrapping_add(piece.len);
                return Ok(Some(piece));
            }

            self.done = self.done.wrapping_sub(bvec.bv_len);
            self.bvecs = rest;
        }
    }
}

/// The pieces of a transfer, each mapped as it is reached.
pub(super) struct MappedPieces<'a> {
    device: &'a Device,
    dir: Direction,
    mapper: PageMapper<'a>,
    source: BvecSource<'a>,
    #[cfg(rdma_rw_takeover)]
    nr_array: u32,
}

impl<'a> MappedPieces<'a> {
    /// Starts at the first piece of a source.
    ///
    /// # Errors
    ///
    /// `EINVAL` where there is no piece.
    #[inline]
    pub(super) fn new(device: &'a Device, dir: Direction, source: BvecSource<'a>) -> Result<Self> {
        let first = source.clone().next_piece()?.ok_or(EINVAL)?;

        Ok(Self {
            device,
            dir,
            mapper: PageMapper::new(device, dir, &first),
            #[cfg(rdma_rw_takeover)]
            nr_array: source.nr_array,
            source,
        })
    }
}

// SAFETY: The SGEs are written one after the other, and counted.
unsafe impl Segments for MappedPieces<'_> {
    // C frees `map.sges` alone of such a context, and finds the mappings there.
    const SGES_FIRST: bool = true;

    // An entry of the array has one piece at the most, since a piece ends where its entry does.
    #[inline]
    fn bound(&self) -> u32 {
        #[cfg(rdma_rw_takeover)]
        {
            // As many as C looks at, those before the first one that is used included.
            self.nr_array
        }
        #[cfg(not(rdma_rw_takeover))]
        {
            self.source.nr_bvecs()
        }
    }

    #[inline]
    fn fill(&mut self, sges: &mut [MaybeUninit<bindings::ib_sge>], lkey: u32) -> Filled {
        let mut filled = Filled {
            nr: 0,
            len: 0,
            result: Ok(()),
        };

        for sge in sges {
            let segment = match self.source.next_piece() {
                Ok(Some(piece)) => self.mapper.map(&piece),
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
        filled
    }

    #[inline]
    fn finish(&self) -> Result {
        if self.source.left() == 0 {
            Ok(())
        } else {
            Err(EINVAL)
        }
    }

    #[cfg(rdma_rw_takeover)]
    fn spare(&mut self) -> Result<super::dma::Segment> {
        // SAFETY: The page is there as long as this code is.
        let page = unsafe { bindings::rdma_rw_c_spare_page() };

        self.mapper.map(&Piece {
            page,
            offset: 0,
            // CAST: 64 KiB at most.
            len: kernel::page::PAGE_SIZE as u32,
        })
    }

    #[inline]
    fn undo(&self, sges: &[bindings::ib_sge]) {
        // SAFETY: These are the segments that `fill` mapped, and no context has them yet.
        unsafe { unmap_sges(self.device, self.dir, sges) };
    }
}
