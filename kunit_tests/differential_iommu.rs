// SPDX-License-Identifier: GPL-2.0

//! A simulated IOMMU, as far as the DMA API knows it.

use core::ptr;

use kernel::prelude::*;

use crate::bindings;
use crate::differential_case::{
    ARENA,
    PAGE, //
};
use crate::differential_device::State;
use crate::differential_trace::Label;

/// First address that the simulated IOMMU hands out, and the pages that it has.
pub(crate) const IOVA: u64 = 1 << 40;
pub(crate) const IOVA_PAGES: usize = 1 << 14;

/// The simulated IOMMU.
pub(crate) struct Iommu {
    /// Physical address of each page and, in its lower bits, the direction that it is mapped for; 0
    /// where nothing is mapped.
    pub(crate) table: KVVec<u64>,
    /// Page that comes next.
    pub(crate) next: usize,
    /// Pages that are mapped.
    pub(crate) mapped: usize,
    /// Something was unmapped that was not mapped, or for another direction.
    pub(crate) misused: bool,
}

/// A point that a side can be put back to, as to what the DMA layer was asked for.
#[derive(Clone, Copy)]
pub(crate) struct Mark {
    pub(crate) trace: usize,
    pub(crate) dma_maps: u32,
    pub(crate) next: usize,
}

impl State {
    pub(crate) fn mark(&self) -> Mark {
        Mark {
            trace: self.trace.len(),
            dma_maps: self.dma_maps,
            next: self.iommu.next,
        }
    }

    /// As if nothing had been asked of the DMA layer since; all must have been given back.
    pub(crate) fn rewind(&mut self, mark: Mark) {
        self.trace.truncate(mark.trace);
        self.dma_maps = mark.dma_maps;
        self.iommu.next = mark.next;
    }

    pub(crate) fn note_dma(&mut self, call: u64, phys: u64, len: u64) {
        let place = self.place(phys).unwrap_or(u64::MAX);

        self.trace.add(Label::DmaCall, call);
        self.trace.add(Label::DmaAddr, place);
        self.trace.add(Label::DmaLength, len);
    }

    /// Whether a DMA mapping is to fail.
    pub(crate) fn dma_fails(&mut self) -> bool {
        let this = self.dma_maps;

        self.dma_maps += 1;
        this == u32::from(self.config.bad_dma_map) && self.config.bad_dma_map != u8::MAX
    }

    /// Maps memory to the next pages of the IOMMU.
    pub(crate) fn iommu_map(
        &mut self,
        phys: u64,
        len: u64,
        dir: bindings::dma_data_direction,
    ) -> Option<u64> {
        let first = self.iommu.next;
        let nr = ((phys % PAGE + len).div_ceil(PAGE)) as usize;
        if first + nr > IOVA_PAGES {
            return None;
        }

        for i in 0..nr {
            let page = (phys & !(PAGE - 1)) + i as u64 * PAGE;

            self.iommu.table[first + i] = page | u64::from(dir);
        }
        self.iommu.next += nr;
        self.iommu.mapped += nr;
        Some(IOVA + first as u64 * PAGE + phys % PAGE)
    }

    pub(crate) fn iommu_unmap(&mut self, addr: u64, len: u64, dir: bindings::dma_data_direction) {
        let first = (addr.wrapping_sub(IOVA) / PAGE) as usize;
        let nr = ((addr % PAGE + len).div_ceil(PAGE)) as usize;

        for i in first..first + nr {
            match self.iommu.table.get_mut(i) {
                Some(entry) if *entry & (PAGE - 1) == u64::from(dir) => {
                    *entry = 0;
                    self.iommu.mapped -= 1;
                }
                _ => self.iommu.misused = true,
            }
        }
    }
}

/// The state behind the simulated IOMMU's device.
///
/// # Safety
///
/// `dev` must be that.
pub(crate) unsafe fn iommu_state<'a>(dev: *mut bindings::device) -> &'a mut State {
    // SAFETY: By this function's safety requirement.
    unsafe { &mut *(*dev).driver_data.cast() }
}

/// Maps memory.
///
/// # Safety
///
/// As the DMA API calls its operations, for the device of a [`State`].
pub(crate) unsafe extern "C" fn map_phys(
    dev: *mut bindings::device,
    phys: bindings::phys_addr_t,
    len: usize,
    dir: bindings::dma_data_direction,
    _attrs: c_ulong,
) -> bindings::dma_addr_t {
    // SAFETY: The device is ours.
    let state = unsafe { iommu_state(dev) };

    state.note_dma(0x10 | u64::from(dir), phys, len as u64);
    if state.dma_fails() {
        return bindings::dma_addr_t::MAX;
    }
    state
        .iommu_map(phys, len as u64, dir)
        .unwrap_or(bindings::dma_addr_t::MAX)
}

/// Unmaps memory.
///
/// # Safety
///
/// As the DMA API calls its operations, for the device of a [`State`].
pub(crate) unsafe extern "C" fn unmap_phys(
    dev: *mut bindings::device,
    addr: bindings::dma_addr_t,
    len: usize,
    dir: bindings::dma_data_direction,
    _attrs: c_ulong,
) {
    // SAFETY: The device is ours.
    let state = unsafe { iommu_state(dev) };
    let phys = state.translate(addr).unwrap_or(0);

    state.note_dma(0x20 | u64::from(dir), phys, len as u64);
    state.iommu_unmap(addr, len as u64, dir);
}

/// The entry after another.
///
/// # Safety
///
/// `sg` must be a valid entry and not the last of its list.
pub(crate) unsafe fn next_entry(sg: *mut bindings::scatterlist) -> *mut bindings::scatterlist {
    let (chain, end) = (bindings::SG_CHAIN as usize, bindings::SG_END as usize);

    // SAFETY: An entry that is not the last is followed by another element of its table.
    unsafe {
        let next = sg.add(1);
        let link = (*next).page_link;

        if link & chain != 0 {
            (link & !(chain | end)) as *mut bindings::scatterlist
        } else {
            next
        }
    }
}

/// Physical address of an entry.
///
/// # Safety
///
/// It must be in one of the arenas of `state`.
pub(crate) unsafe fn entry_phys(state: &State, sg: *const bindings::scatterlist) -> u64 {
    // SAFETY: By this function's safety requirement.
    unsafe {
        let page = (*sg).page_link & !3;
        let arena = state.arenas.iter().find(|arena| {
            (page.wrapping_sub(arena.page as usize)) / size_of::<bindings::page>()
                < (ARENA / PAGE) as usize
        });
        let Some(arena) = arena else {
            return 0;
        };
        let nr = (page - arena.page as usize) / size_of::<bindings::page>();

        arena.phys + nr as u64 * PAGE + u64::from((*sg).offset)
    }
}

/// Lays a list out in one range, entry after entry, and joins those that meet on the border of a
/// page, as the kernel's own IOMMU code does.
///
/// # Safety
///
/// As the DMA API calls its operations, for the device of a [`State`].
pub(crate) unsafe extern "C" fn map_sg(
    dev: *mut bindings::device,
    list: *mut bindings::scatterlist,
    nents: c_int,
    dir: bindings::dma_data_direction,
    _attrs: c_ulong,
) -> c_int {
    // SAFETY: The device is ours, and the list has that many entries.
    unsafe {
        let state = iommu_state(dev);
        let first = state.iommu.next;
        let mapped = state.iommu.mapped;

        state.note_dma(0x30 | u64::from(dir), entry_phys(state, list), nents as u64);
        if state.dma_fails() {
            return ENOMEM.to_errno();
        }

        let mut sg = list;
        let mut out: *mut bindings::scatterlist = ptr::null_mut();
        let mut count = 0;
        let mut end = None;
        for i in 0..nents {
            let phys = entry_phys(state, sg);
            let len = u64::from((*sg).length);
            let Some(addr) = state.iommu_map(phys, len, dir) else {
                let next = core::mem::replace(&mut state.iommu.next, first);

                state.iommu.table[first..next].fill(0);
                state.iommu.mapped = mapped;
                return ENOMEM.to_errno();
            };

            if end == Some(addr) && addr % PAGE == 0 && u64::from((*out).dma_length) + len < 1 << 31
            {
                (*out).dma_length += len as u32;
            } else {
                out = if out.is_null() { list } else { next_entry(out) };
                (*out).dma_address = addr;
                (*out).dma_length = len as u32;
                count += 1;
            }
            end = Some(addr + len);
            if i + 1 < nents {
                sg = next_entry(sg);
            }
        }
        if count < nents {
            // What follows is not mapped.
            let rest = next_entry(out);

            (*rest).dma_length = 0;
        }
        count
    }
}

/// Unmaps a list.
///
/// # Safety
///
/// As the DMA API calls its operations, for the device of a [`State`].
pub(crate) unsafe extern "C" fn unmap_sg(
    dev: *mut bindings::device,
    list: *mut bindings::scatterlist,
    nents: c_int,
    dir: bindings::dma_data_direction,
    _attrs: c_ulong,
) {
    // SAFETY: The device is ours, and the list has that many entries.
    unsafe {
        let state = iommu_state(dev);

        state.note_dma(0x40 | u64::from(dir), entry_phys(state, list), nents as u64);
        let mut sg = list;
        for i in 0..nents {
            if (*sg).dma_length == 0 {
                break;
            }
            state.iommu_unmap((*sg).dma_address, (*sg).dma_length.into(), dir);
            if i + 1 < nents {
                sg = next_entry(sg);
            }
        }
    }
}
