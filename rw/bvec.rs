// SPDX-License-Identifier: GPL-2.0

//! Arrays of `bio_vec`: the caller's, a cursor over them, and their mapping piece by piece.

use core::mem::{
    self,
    MaybeUninit, //
};
use core::ops::Range;
use core::slice::{
    self,
    Iter,
    IterMut, //
};

use kernel::prelude::*;

use super::{
    ctx::OWN_FORMS,
    device::DmaDevice,
    dma::{
        self,
        unmap_sges,
        Segment, //
    },
    multi::Segments,
    pages::Pages,
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
        if nr_bvec != 1 {
            return None;
        }

        // SAFETY: By this function's safety requirement.
        let bvec = unsafe { bvecs.as_ref() }?;
        let most = bvec.bv_len.checked_sub(iter.bi_offset)?;

        // Of the first entry, and not 0 nor more than there is. The two are next to each other, and
        // looked at as one.
        let asked = u64::from(iter.bi_idx) << 32 | u64::from(iter.bi_size);
        (asked.wrapping_sub(1) < u64::from(most)).then(|| Piece {
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
    #[cfg(CONFIG_IOMMU_DMA)]
    #[inline]
    pub(super) fn left(&self) -> u32 {
        self.left
    }

    /// The next piece to transfer; none where all are done.
    ///
    /// # Errors
    ///
    /// `EINVAL` where the array ends before all bytes are done.
    #[inline(always)]
    pub(super) fn next_piece(&mut self) -> Result<Option<Piece>> {
        let done = mem::take(&mut self.done);

        self.next_behind(done)
    }

    /// [`BvecSource::next_piece`] where no byte of the next entry is done.
    #[cfg(CONFIG_IOMMU_DMA)]
    #[inline(always)]
    pub(super) fn next_whole(&mut self) -> Result<Option<Piece>> {
        self.next_behind(0)
    }

    /// The next piece, where `done` bytes of the next entry are done.
    #[inline(always)]
    fn next_behind(&mut self, mut done: u32) -> Result<Option<Piece>> {
        while self.left != 0 {
            let (bvec, rest) = self.bvecs.split_first().ok_or(EINVAL)?;
            let piece = Piece {
                page: bvec.bv_page,
                offset: bvec.bv_offset.wrapping_add(done),
                // By the type invariant there are not more bytes done than there are.
                len: bvec.bv_len.wrapping_sub(done).min(self.left),
            };

            // A piece ends where its entry or the whole transfer does: the entry is done with.
            self.bvecs = rest;
            self.left = self.left.wrapping_sub(piece.len);
            done = 0;
            if piece.len != 0 {
                return Ok(Some(piece));
            }
        }
        Ok(None)
    }
}

/// The pieces of a transfer as segments, each mapped as it is reached: by the DMA API, or where the
/// device works with kernel addresses, not at all.
///
/// Pieces that follow each other in memory are one segment where the device can tell no difference:
/// not where the DMA API has more to do than to take their addresses, and neither beyond the
/// device's limit nor across [`BLOCK`]s. Not so for C, which unmaps an SGE for each entry.
///
/// # Invariants
///
/// No byte of the first of the entries that are left is done.
pub(super) struct MappedPieces<'a, const DMA: bool> {
    pages: Pages,
    /// Largest segment of several pieces, once it is known.
    most: Option<u32>,
    dir: Direction,
    source: BvecSource<'a>,
    /// What comes before that, not mapped yet; of length 0 at the end.
    next: Segment,
    result: Result,
}

impl<'a, const DMA: bool> MappedPieces<'a, DMA> {
    /// The pieces of a source.
    ///
    /// # Errors
    ///
    /// `EINVAL` where there are none.
    #[inline(always)]
    pub(super) fn new(
        dma_device: Option<DmaDevice>,
        dir: Direction,
        mut source: BvecSource<'a>,
    ) -> Result<Self> {
        let first = source.next_piece()?.ok_or(EINVAL)?;
        let pages = Pages::new(dma_device, first.page);

        // INVARIANT: A piece ends where its entry does.
        Ok(Self {
            next: first.segment(&pages),
            pages,
            most: None,
            dir,
            source,
            result: Ok(()),
        })
    }

    /// Whether a segment that starts there may go on with the `len` bytes at `addr`, which follow it
    /// in memory.
    #[inline(always)]
    fn may_go_on(&mut self, start: u64, addr: u64, len: u32) -> bool {
        let all = addr.wrapping_sub(start).wrapping_add(u64::from(len));

        OWN_FORMS && (!DMA || addr & (BLOCK - 1) != 0 && all <= self.most())
    }

    /// Length of the largest segment of several pieces.
    fn most(&mut self) -> u64 {
        let Some(dma_device) = self.pages.dma_device() else {
            return u64::MAX;
        };
        // SAFETY: The device is valid.
        let limit = || unsafe { bindings::rdma_rw_c_max_merged(dma_device.as_raw()) };

        u64::from(*self.most.get_or_insert_with(limit))
    }

    /// Maps a run of memory and writes its SGE, so that another run can start at `next`. Returns
    /// whether there was room for the SGE.
    #[inline(always)]
    fn start_anew(
        &self,
        run: &mut Range<u64>,
        sges: &mut IterMut<'_, MaybeUninit<bindings::ib_sge>>,
        next: u64,
        lkey: u32,
    ) -> Result<bool> {
        if sges.len() == 0 {
            return Ok(false);
        }

        // An SGE that is taken is a segment that is mapped.
        let segment = self.map(segment(run))?;
        if let Some(sge) = sges.next() {
            sge.write(segment.sge(lkey));
        }
        *run = next..next;
        Ok(true)
    }

    /// Fills SGEs with the run, the entries and the bytes of them that are left, as far as there is
    /// room, and leaves in these what is still to be done.
    #[inline(always)]
    fn fill_from(
        &mut self,
        entries: &mut Iter<'_, bindings::bio_vec>,
        left: &mut u32,
        run: &mut Range<u64>,
        sges: &mut IterMut<'_, MaybeUninit<bindings::ib_sge>>,
        lkey: u32,
    ) -> Result {
        // What is written may lie anywhere, as far as the compiler knows, but not in here.
        let pages = self.pages;

        if *left != 0 {
            // Entries in whole, which is all but the last one.
            let addr = loop {
                let mut rest = entries.clone();
                let entry = rest.next().ok_or(EINVAL)?;
                let len = entry.bv_len;
                let addr = pages.address(entry.bv_page, entry.bv_offset);

                if len >= *left {
                    break addr;
                }
                if addr == run.end && self.may_go_on(run.start, addr, len) {
                    run.end = run.end.wrapping_add(u64::from(len));
                } else if len != 0 {
                    if !self.start_anew(run, sges, addr, lkey)? {
                        return Ok(());
                    }
                    run.end = addr.wrapping_add(u64::from(len));
                }
                *entries = rest;
                *left = left.wrapping_sub(len);
            };

            // The last one, or what is left of it.
            if (addr != run.end || !self.may_go_on(run.start, addr, *left))
                && !self.start_anew(run, sges, addr, lkey)?
            {
                return Ok(());
            }
            run.end = addr.wrapping_add(u64::from(*left));
            *left = 0;
        }
        if !run.is_empty() {
            let end = run.end;
            self.start_anew(run, sges, end, lkey)?;
        }
        Ok(())
    }

    /// Maps a segment.
    #[inline(always)]
    fn map(&self, segment: Segment) -> Result<Segment> {
        if DMA {
            dma::map(self.pages.dma_device(), self.dir, segment)
        } else {
            Ok(segment)
        }
    }
}

/// A run of memory as a segment.
#[inline(always)]
fn segment(run: &Range<u64>) -> Segment {
    Segment {
        addr: run.start,
        // CAST: Not longer than the transfer, whose length has 32 bits.
        len: run.end.wrapping_sub(run.start) as u32,
    }
}

/// Size of blocks of physical memory that segments of a device that does DMA do not cross. Memory
/// of a peer device is mapped into the kernel in such blocks, so that one has memory of one kind.
const BLOCK: u64 = 2 << 20;

// SAFETY: The SGEs are written one after the other, and counted.
unsafe impl<const DMA: bool> Segments for MappedPieces<'_, DMA> {
    const AT_ONCE: bool = true;

    // C frees `map.sges` alone of such a context, and finds the mappings there.
    const SGES_FIRST: bool = !OWN_FORMS;

    // An entry of the array has one piece at the most.
    #[inline(always)]
    fn bound(&self) -> u32 {
        // Where the array is too short, the end of it is still to be found.
        let more = if self.source.left == 0 {
            0
        } else {
            self.source.nr_bvecs().max(1)
        };

        // What comes next is of an entry that is not counted any more.
        more.wrapping_add(u32::from(self.next.len != 0))
    }

    // As many as C looks at, those before the first one that is used included.
    #[cfg(rdma_rw_takeover)]
    fn room(&self, _nr: u32) -> u32 {
        self.source.nr_array
    }

    #[inline(always)]
    fn only(&mut self) -> Result<Segment> {
        self.map(self.next)
    }

    #[inline(always)]
    fn is_dense(&self) -> bool {
        OWN_FORMS
            && self.source.bvecs.first().is_some_and(|bvec| {
                self.next.end() == self.pages.address(bvec.bv_page, bvec.bv_offset)
            })
    }

    // Out of line, so that the loop has all registers.
    #[inline(never)]
    fn fill(&mut self, sges: &mut [MaybeUninit<bindings::ib_sge>], lkey: u32) -> (usize, u64) {
        let mut entries = self.source.bvecs.iter();
        let mut left = self.source.left;
        let mut run = self.next.addr..self.next.end();
        let before = run
            .end
            .wrapping_sub(run.start)
            .wrapping_add(u64::from(left));
        let all = sges.len();
        let mut sges = sges.iter_mut();

        self.result = self.fill_from(&mut entries, &mut left, &mut run, &mut sges, lkey);

        let after = run
            .end
            .wrapping_sub(run.start)
            .wrapping_add(u64::from(left));

        self.next = segment(&run);
        self.source.left = left;
        self.source.bvecs = entries.as_slice();
        // What is left becomes less.
        (all.wrapping_sub(sges.len()), before.wrapping_sub(after))
    }

    #[inline(always)]
    fn result(&self) -> Result {
        self.result
    }

    #[cfg(rdma_rw_takeover)]
    fn spare(&mut self) -> Result<Segment> {
        // SAFETY: The page is there as long as this code is.
        let page = unsafe { bindings::rdma_rw_c_spare_page() };
        let piece = Piece {
            page,
            offset: 0,
            // CAST: 64 KiB at most.
            len: kernel::page::PAGE_SIZE as u32,
        };

        self.map(piece.segment(&self.pages))
    }

    #[inline(always)]
    fn undo(&self, sges: &[bindings::ib_sge]) {
        if DMA {
            // SAFETY: These are the segments that `fill` mapped, and no context has them yet.
            unsafe { unmap_sges(self.pages.dma_device(), self.dir, sges) };
        }
    }
}
