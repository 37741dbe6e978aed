// SPDX-License-Identifier: GPL-2.0

//! As many SGEs as there are segments, in work requests of as many SGEs as the QP takes.
//!
//! Scatterlists and `bio_vec` arrays share one builder; what tells them apart is their
//! [`Segments`].

use core::alloc::Layout;
use core::mem::{
    self,
    MaybeUninit, //
};
use core::num::NonZeroU32;
use core::ptr;
use core::slice;

use kernel::ffi::c_int;
use kernel::prelude::*;

use super::{
    dma::Segment,
    memory::Memory,
    sizing::div_round_up,
    wr,
    Slot,
    Transfer, //
};
use crate::bindings;

/// Largest single allocation for both SGEs and work requests. Beyond that, what `kmalloc()` adds to
/// reach its next size costs more than a second allocation.
const ONE_ALLOCATION: usize = kernel::page::PAGE_SIZE / 2;

/// What [`Segments::fill`] has done.
pub(super) struct Filled {
    /// Number of SGEs written.
    pub(super) nr: usize,
    /// Bytes that they cover.
    pub(super) len: u64,
    /// Why there are not more, if not for the end of the memory or of the SGEs.
    pub(super) result: Result,
}

/// Local memory as a series of segments, mapped for DMA.
///
/// # Safety
///
/// An implementation writes the SGEs that it says it has, from the first one on.
pub(super) unsafe trait Segments {
    /// Whether the SGEs stand before the work requests in the context's allocation. C frees the
    /// two forms of a context by different pointers.
    const SGES_FIRST: bool;

    /// Number of segments that there are at the most.
    fn bound(&self) -> u32;

    /// The one segment that there is, mapped; none where there are more. No others are left then.
    fn only(&mut self) -> Result<Option<Segment>>;

    /// Writes SGEs with the key `lkey` for the next segments: all that are left, or as many as
    /// there are SGEs. Their mappings are the caller's to give back, through [`Segments::undo`] or
    /// the destroy of a context, also where the result is an error.
    fn fill(&mut self, sges: &mut [MaybeUninit<bindings::ib_sge>], lkey: u32) -> Filled;

    /// Whether all that is to be transferred has been filled in.
    ///
    /// # Errors
    ///
    /// `EINVAL` where there are no segments left for the rest.
    fn finish(&self) -> Result;

    /// A segment for an SGE that no work request has, with a mapping like the others.
    #[cfg(rdma_rw_takeover)]
    fn spare(&mut self) -> Result<Segment>;

    /// Gives back the mappings of these SGEs, which are all that have been written.
    fn undo(&self, sges: &[bindings::ib_sge]);
}

/// SGEs and work requests in the making; mappings undone and memory freed on drop.
///
/// # Invariants
///
/// - `sges` has room for `capacity` SGEs, and `wrs` for as many work requests as those fill: both
///   in `_memory`, or `sges` in `own_sges` where there is one.
/// - The first `nr_sges` SGEs and `nr_wrs` work requests are written, and hold all segments that
///   `source` has yielded.
struct Table<S: Segments> {
    source: S,
    _memory: Memory,
    own_sges: Option<Memory>,
    sges: *mut bindings::ib_sge,
    wrs: *mut bindings::ib_rdma_wr,
    capacity: usize,
    nr_sges: usize,
    nr_wrs: u32,
}

impl<S: Segments> Table<S> {
    /// Makes room for the segments of a source.
    #[inline]
    fn new(source: S, max_sge: NonZeroU32) -> Result<Self> {
        let bound = source.bound();
        let sges = Layout::array::<bindings::ib_sge>(bound as usize).map_err(|_| ENOMEM)?;
        let wrs = Layout::array::<bindings::ib_rdma_wr>(div_round_up(bound, max_sge) as usize)
            .map_err(|_| ENOMEM)?;
        let (layout, behind) = if S::SGES_FIRST {
            sges.extend(wrs)
        } else {
            wrs.extend(sges)
        }
        .map_err(|_| ENOMEM)?;

        // Not zeroed: every field is written, and nobody reads what lies between them.
        // INVARIANT: There is room for both by the layouts; nothing is yielded yet.
        if !S::SGES_FIRST && layout.size() > ONE_ALLOCATION {
            let own = Memory::new(sges)?;
            let memory = Memory::new(wrs)?;

            return Ok(Self {
                source,
                sges: own.start().as_ptr().cast(),
                wrs: memory.start().as_ptr().cast(),
                _memory: memory,
                own_sges: Some(own),
                capacity: bound as usize,
                nr_sges: 0,
                nr_wrs: 0,
            });
        }

        let memory = Memory::new(layout)?;
        let first = memory.start().as_ptr();
        // SAFETY: `extend` places the second array inside the layout.
        let second = unsafe { first.add(behind) };
        let (sges, wrs) = if S::SGES_FIRST {
            (first, second)
        } else {
            (second, first)
        };

        Ok(Self {
            source,
            _memory: memory,
            own_sges: None,
            sges: sges.cast(),
            wrs: wrs.cast(),
            capacity: bound as usize,
            nr_sges: 0,
            nr_wrs: 0,
        })
    }

    /// Writes all segments and the work requests over them.
    #[inline]
    fn fill(&mut self, transfer: &Transfer<'_>, max_sge: NonZeroU32) -> Result {
        let lkey = transfer.qp.local_dma_lkey();
        let max_sge = max_sge.get() as usize;
        let mut remote = transfer.remote;

        loop {
            let room = self.capacity.wrapping_sub(self.nr_sges).min(max_sge);
            // SAFETY: Within the array by the type invariant, or one behind its end.
            let first = unsafe { self.sges.add(self.nr_sges) };
            // SAFETY: There is room for that many more SGEs, and whether they are written does not
            // matter.
            let sges = unsafe { slice::from_raw_parts_mut(first.cast(), room) };
            let filled = self.source.fill(sges, lkey);

            // INVARIANT: That many more are written. The sum is at most `capacity`.
            self.nr_sges = self.nr_sges.wrapping_add(filled.nr);
            filled.result?;
            if filled.nr == 0 {
                return self.source.finish();
            }

            // CAST: A limit of SGEs has 32 bits.
            self.push_wr(wr::rdma_wr(transfer.dir, remote, first, filled.nr as u32));
            if filled.nr < max_sge {
                return self.source.finish();
            }
            remote = remote.advanced(filled.len);
        }
    }

    /// Writes the SGEs that are left over where an array is longer than its transfer: C unmaps one
    /// for each entry of the array, should the context end there.
    #[cfg(rdma_rw_takeover)]
    fn fill_spare(&mut self, lkey: u32) -> Result {
        while self.nr_sges < self.capacity {
            let segment = self.source.spare()?;

            // SAFETY: By the type invariant there is room.
            unsafe { self.sges.add(self.nr_sges).write(segment.sge(lkey)) };
            // INVARIANT: One more is written.
            self.nr_sges = self.nr_sges.wrapping_add(1);
        }
        Ok(())
    }

    /// Writes another work request, over SGEs that no other one has, and links it to the last.
    #[inline]
    fn push_wr(&mut self, wr: bindings::ib_rdma_wr) {
        // SAFETY: All work requests but the last have as many SGEs as they can, so that there are
        // not more of them than there is room for.
        let this = unsafe { self.wrs.add(self.nr_wrs as usize) };

        // SAFETY: As above; where there is one before, it is written.
        unsafe {
            this.write(wr);
            if self.nr_wrs != 0 {
                (*this.sub(1)).wr.next = &raw mut (*this).wr;
            }
        }
        // INVARIANT: One more is written.
        self.nr_wrs = self.nr_wrs.wrapping_add(1);
    }

    /// Leaves everything to a context and returns its number of work requests.
    #[inline]
    fn keep(self, slot: &mut Slot<'_>) -> c_int {
        let owned_sges = if S::SGES_FIRST || self.own_sges.is_some() {
            self.sges
        } else {
            ptr::null_mut()
        };

        // CAST: A count of SGEs has 32 bits.
        slot.write_multi(owned_sges, self.wrs, self.nr_wrs, self.nr_sges as u32);
        // CAST: Far below the limit, since the requests lie in one allocation.
        let count = self.nr_wrs as c_int;
        mem::forget(self);
        count
    }
}

impl<S: Segments> Drop for Table<S> {
    fn drop(&mut self) {
        // SAFETY: By the type invariant.
        let sges = unsafe { slice::from_raw_parts(self.sges, self.nr_sges) };

        self.source.undo(sges);
    }
}

/// Makes a context for a series of segments.
///
/// # Errors
///
/// `ENOMEM`, or what the segments say.
#[inline]
pub(super) fn init<S: Segments>(
    mut slot: Slot<'_>,
    transfer: Transfer<'_>,
    segments: S,
    max_sge: NonZeroU32,
) -> Result<c_int> {
    let mut table = Table::new(segments, max_sge)?;

    table.fill(&transfer, max_sge)?;
    #[cfg(rdma_rw_takeover)]
    table.fill_spare(transfer.qp.local_dma_lkey())?;
    Ok(table.keep(&mut slot))
}
