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
    ctx::{
        OWN_FORMS,
        SGES_IN_PLACE, //
    },
    dma::Segment,
    memory::{
        Memory,
        ONE_ALLOCATION, //
    },
    sizing::div_round_up,
    wr,
    Slot,
    Transfer, //
};
use crate::bindings;

/// Local memory as a series of segments, mapped for DMA.
///
/// # Safety
///
/// An implementation writes the SGEs that it says it has, from the first one on.
pub(super) unsafe trait Segments {
    /// Whether all is to be in one allocation, as it is in C.
    const AT_ONCE: bool;

    /// Whether C takes the SGEs of a context for the start of its one allocation. It frees the two
    /// forms of a context by different pointers.
    const SGES_FIRST: bool;

    /// Number of segments that there are left at the most; 0 exactly where none is.
    fn bound(&self) -> u32;

    /// Number of SGEs that a context needs room for, `nr` of which are written already.
    #[inline]
    fn room(&self, nr: u32) -> u32 {
        // Either is part of a number of entries that has 32 bits.
        nr.wrapping_add(self.bound())
    }

    /// Whether it looks as if there were fewer segments than the bound, which it then may not be.
    fn is_dense(&self) -> bool;

    /// The segment that there is where the bound is 1.
    ///
    /// # Errors
    ///
    /// As [`Segments::result`] says.
    fn only(&mut self) -> Result<Segment>;

    /// Writes SGEs with the key `lkey` for the next segments: all that are left, or as many as
    /// there are SGEs. Returns how many, and the bytes that they cover.
    ///
    /// Their mappings are the caller's to give back, through [`Segments::undo`] or the destroy of a
    /// context.
    fn fill(&mut self, sges: &mut [MaybeUninit<bindings::ib_sge>], lkey: u32) -> (usize, u64);

    /// Why the last [`Segments::fill`] has not written more, if not for the end of the memory or of
    /// the SGEs.
    fn result(&self) -> Result;

    /// A segment for an SGE that no work request has, with a mapping like the others.
    #[cfg(rdma_rw_takeover)]
    fn spare(&mut self) -> Result<Segment>;

    /// Gives back the mappings of these SGEs, which are all that have been written.
    fn undo(&self, sges: &[bindings::ib_sge]);
}

/// SGEs in the making; mappings undone and memory freed on drop.
///
/// # Invariants
///
/// - `sges` has room for `room` SGEs: in the context, or in `memory`.
/// - The first `nr_sges` of them are written, and hold all segments that `source` has yielded.
struct Table<S: Segments> {
    source: S,
    sges: *mut bindings::ib_sge,
    room: usize,
    nr_sges: usize,
    memory: Option<Memory>,
}

impl<S: Segments> Table<S> {
    /// Writes SGEs for what is left of the source, until there are `most` in all. Returns the bytes
    /// that the new ones cover.
    #[inline(always)]
    fn fill(&mut self, most: usize, lkey: u32) -> Result<u64> {
        let room = most.min(self.room).wrapping_sub(self.nr_sges);
        // SAFETY: There is room for that many more SGEs, and whether they are written does not
        // matter.
        let sges = unsafe { slice::from_raw_parts_mut(self.sges.add(self.nr_sges).cast(), room) };
        let (nr, len) = self.source.fill(sges, lkey);

        // INVARIANT: That many more are written.
        self.nr_sges = self.nr_sges.wrapping_add(nr);
        self.source.result()?;
        Ok(len)
    }

    /// Moves the SGEs from the context to an allocation.
    ///
    /// # Safety
    ///
    /// `sges` must be in `memory`, with room for `room` SGEs, not fewer than are written.
    #[inline(always)]
    unsafe fn move_to(&mut self, memory: Memory, sges: *mut bindings::ib_sge, room: u32) {
        for i in 0..self.nr_sges {
            // SAFETY: By this function's safety requirement, and the type invariant.
            unsafe { sges.add(i).write(*self.sges.add(i)) };
        }
        // There is none to be dropped.
        mem::forget(mem::replace(&mut self.memory, Some(memory)));
        // INVARIANT: By this function's safety requirement.
        self.sges = sges;
        self.room = room as usize;
    }

    /// Makes room for `room` SGEs in an allocation of their own.
    #[inline(always)]
    fn move_sges(&mut self, room: u32) -> Result {
        let memory = Memory::new(layout_of::<bindings::ib_sge>(room)?)?;
        let sges = memory.start().as_ptr().cast();

        // SAFETY: The layout says as much.
        unsafe { self.move_to(memory, sges, room) };
        Ok(())
    }

    /// Makes room for `room` SGEs and `nr_wrs` work requests. Returns the latter, with their own
    /// allocation if they have one.
    #[inline(always)]
    fn move_all(
        &mut self,
        room: u32,
        nr_wrs: u32,
    ) -> Result<(*mut bindings::ib_rdma_wr, Option<Memory>)> {
        let sges = layout_of::<bindings::ib_sge>(room)?;
        let wrs = layout_of::<bindings::ib_rdma_wr>(nr_wrs)?;
        let (both, behind) = if S::SGES_FIRST {
            sges.extend(wrs)
        } else {
            wrs.extend(sges)
        }
        .map_err(|_| ENOMEM)?;

        // Not cleared: every field is written, and nobody reads what lies between them.
        if !S::AT_ONCE && both.size() > ONE_ALLOCATION {
            let own = Memory::new(wrs)?;

            self.move_sges(room)?;
            return Ok((own.start().as_ptr().cast(), Some(own)));
        }

        let memory = Memory::new(both)?;
        let first = memory.start().as_ptr();
        // SAFETY: `extend` places the second array inside the layout.
        let second = unsafe { first.add(behind) };
        let (sges, wrs) = if S::SGES_FIRST {
            (first, second)
        } else {
            (second, first)
        };

        // SAFETY: The layouts say as much.
        unsafe { self.move_to(memory, sges.cast(), room) };
        Ok((wrs.cast(), None))
    }

    /// Leaves everything to a context with its work request in place.
    #[inline(always)]
    fn keep_one_wr(self, slot: &mut Slot<'_>, transfer: &Transfer<'_>) -> c_int {
        // SAFETY: By the type invariant. They are in the context as long as there is room in it, and
        // at the start of an allocation otherwise.
        // CAST: A count of SGEs has 32 bits.
        unsafe { slot.write_one_wr(transfer, self.sges, self.nr_sges as u32) };
        mem::forget(self);
        1
    }

    /// Writes the SGEs that are left and the work requests over all of them, of which there is room
    /// for as many as the SGEs fill. The SGEs that are there already are part of the first one, and
    /// cover `len` bytes. Returns the number of work requests.
    #[inline(always)]
    fn fill_wrs(
        &mut self,
        wrs: *mut bindings::ib_rdma_wr,
        transfer: &Transfer<'_>,
        max_sge: NonZeroU32,
        mut len: u64,
    ) -> Result<u32> {
        let lkey = transfer.qp.local_dma_lkey();
        let max_sge = max_sge.get() as usize;
        let mut remote = transfer.remote;
        let mut start = 0;
        let mut nr_wrs = 0u32;

        loop {
            let more = self.fill(max_sge.wrapping_add(start), lkey)?;
            let nr = self.nr_sges.wrapping_sub(start);
            if nr == 0 {
                break;
            }

            // SAFETY: All work requests but the last have as many SGEs as they can, so that there
            // are not more of them than there is room for. Where there is one before, it is
            // written.
            unsafe {
                let this = wrs.add(nr_wrs as usize);

                // CAST: A limit of SGEs has 32 bits.
                this.write(wr::rdma_wr(
                    transfer.dir,
                    remote,
                    self.sges.add(start),
                    nr as u32,
                ));
                if nr_wrs != 0 {
                    (*this.sub(1)).wr.next = &raw mut (*this).wr;
                }
            }
            nr_wrs = nr_wrs.wrapping_add(1);
            if nr < max_sge {
                break;
            }
            // Counts of 32 bits of lengths of 32 bits do not wrap.
            remote = remote.advanced(len.wrapping_add(more));
            len = 0;
            start = self.nr_sges;
        }
        Ok(nr_wrs)
    }

    /// Writes the SGEs that are left over where an array is longer than its transfer: C unmaps one
    /// for each entry of the array, should the context end there.
    #[cfg(rdma_rw_takeover)]
    fn fill_spare(&mut self, lkey: u32) -> Result {
        while self.nr_sges < self.room {
            let segment = self.source.spare()?;

            // SAFETY: By the type invariant there is room.
            unsafe { self.sges.add(self.nr_sges).write(segment.sge(lkey)) };
            // INVARIANT: One more is written.
            self.nr_sges = self.nr_sges.wrapping_add(1);
        }
        Ok(())
    }

    /// Moves the SGEs to the start of their allocation.
    #[cold]
    fn move_to_start(&mut self) {
        if let Some(memory) = &self.memory {
            let sges = memory.start().as_ptr().cast();

            // SAFETY: There is room for them further on, so there is at the start.
            unsafe { ptr::copy(self.sges, sges, self.nr_sges) };
            self.sges = sges;
        }
    }

    /// Leaves everything to a context of `nr_wrs` work requests, which may have an allocation of
    /// their own, and returns their number.
    #[inline(always)]
    fn keep(
        self,
        slot: &mut Slot<'_>,
        (wrs, own): (*mut bindings::ib_rdma_wr, Option<Memory>),
        nr_wrs: u32,
    ) -> c_int {
        let owned = if S::SGES_FIRST || own.is_some() {
            self.sges
        } else {
            ptr::null_mut()
        };

        // CAST: A count of SGEs has 32 bits.
        slot.write_multi(owned, wrs, nr_wrs, self.nr_sges as u32);
        mem::forget((self, own));
        // CAST: Far below the limit, since the requests lie in one allocation.
        nr_wrs as c_int
    }
}

impl<S: Segments> Drop for Table<S> {
    #[inline(always)]
    fn drop(&mut self) {
        // SAFETY: By the type invariant.
        let sges = unsafe { slice::from_raw_parts(self.sges, self.nr_sges) };

        self.source.undo(sges);
    }
}

/// Layout of an array.
#[inline(always)]
fn layout_of<T>(nr: u32) -> Result<Layout> {
    Layout::array::<T>(nr as usize).map_err(|_| ENOMEM)
}

/// Makes a context for a series of segments. The slot knows the remote memory.
///
/// # Errors
///
/// `EINVAL` for a QP without SGEs, `ENOMEM`, or what the segments say.
#[inline(always)]
pub(super) fn init<S: Segments>(
    slot: &mut Slot<'_>,
    transfer: &Transfer<'_>,
    mut source: S,
) -> Result<c_int> {
    let max_sge = transfer.qp.max_sge(transfer.dir).ok_or(EINVAL)?;

    if source.bound() == 1 {
        let segment = source.only()?;

        return Ok(slot.lend().write_single(transfer, segment));
    }

    let most = max_sge.get() as usize;
    let lkey = transfer.qp.local_dma_lkey();
    let room = SGES_IN_PLACE.min(most);
    // INVARIANT: The context has that much room, and nothing is written yet.
    let mut table = Table {
        sges: slot.sges().as_mut_ptr().cast(),
        source,
        room,
        nr_sges: 0,
        memory: None,
    };
    let mut len = 0;

    // In the context itself, if that is or may be enough.
    // CAST: Not more than there are SGEs in place.
    if OWN_FORMS && (table.source.bound() <= room as u32 || table.source.is_dense()) {
        len = table.fill(room, lkey)?;
        if table.source.bound() == 0 {
            return Ok(table.keep_one_wr(slot, transfer));
        }
    }

    // CAST: As above.
    let all = table.source.room(table.nr_sges as u32);
    if OWN_FORMS && all <= max_sge.get() {
        table.move_sges(all)?;
        table.fill(most, lkey)?;
        return Ok(table.keep_one_wr(slot, transfer));
    }

    let wrs = table.move_all(all, div_round_up(all, max_sge))?;
    let nr_wrs = table.fill_wrs(wrs.0, transfer, max_sge, len)?;
    if OWN_FORMS && nr_wrs == 1 {
        // One has proved to be enough.
        table.move_to_start();
        return Ok(table.keep_one_wr(slot, transfer));
    }
    #[cfg(rdma_rw_takeover)]
    table.fill_spare(lkey)?;
    Ok(table.keep(slot, wrs, nr_wrs))
}
