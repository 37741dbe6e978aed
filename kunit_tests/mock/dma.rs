// SPDX-License-Identifier: GPL-2.0

//! DMA operations that know every mapping, and hand out addresses that are nothing else's.

use kernel::prelude::*;

use super::{
    due,
    Dma,
    Inner,
    State,
    PAGE, //
};
use crate::bindings;

/// A piece of memory mapped for DMA.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mapping {
    /// Address that the device uses.
    pub(crate) iova: u64,
    /// Address of the memory.
    pub(crate) phys: u64,
    /// Length in bytes.
    pub(crate) len: u64,
    /// Direction.
    dir: bindings::dma_data_direction,
    /// The list that it is part of, and its number of entries; or neither.
    list: (usize, i32),
}

/// The operations.
pub(super) fn ops() -> Result<KBox<bindings::dma_map_ops>> {
    // SAFETY: All members are optional functions, for which zeroes mean that there are none.
    let mut ops: KBox<bindings::dma_map_ops> =
        unsafe { KBox::new(core::mem::zeroed(), GFP_KERNEL)? };

    ops.map_phys = Some(map_phys);
    ops.unmap_phys = Some(unmap_phys);
    ops.map_sg = Some(map_sg);
    ops.unmap_sg = Some(unmap_sg);
    Ok(ops)
}

/// The device behind a `struct device` of ours.
fn inner<'a>(dev: *mut bindings::device) -> &'a Inner {
    // SAFETY: The DMA device has the state as its driver data, and goes before the state does.
    unsafe { &*(*dev).driver_data.cast() }
}

impl State {
    /// Finds room for `len` bytes that lie like `phys` in their first page, apart from all others.
    fn take_iova(&mut self, phys: u64, len: u64) -> u64 {
        let page = u64::from(PAGE);
        let iova = self.next_iova + phys % page;

        self.next_iova = (iova + len).next_multiple_of(page) + page;
        iova
    }

    /// The mapping that an address lies in.
    pub(super) fn mapping(&self, addr: u64) -> Option<&Mapping> {
        self.mappings
            .iter()
            .find(|m| addr.checked_sub(m.iova).is_some_and(|off| off < m.len))
    }
}

/// Maps a piece of memory.
///
/// # Safety
///
/// The arguments must be what `struct dma_map_ops` asks for, of a device of ours.
unsafe extern "C" fn map_phys(
    dev: *mut bindings::device,
    phys: bindings::phys_addr_t,
    size: usize,
    dir: bindings::dma_data_direction,
    _attrs: c_ulong,
) -> bindings::dma_addr_t {
    let mut state = inner(dev).lock();
    let len = size as u64;

    if due(&mut state.plan.map).is_some() {
        return bindings::dma_addr_t::MAX;
    }
    if len == 0 {
        state.fault("a mapping of no bytes", phys);
        return bindings::dma_addr_t::MAX;
    }

    let iova = state.take_iova(phys, len);
    let mapping = Mapping {
        iova,
        phys,
        len,
        dir,
        list: (0, 0),
    };
    if state.mappings.push_within_capacity(mapping).is_err() {
        return bindings::dma_addr_t::MAX;
    }
    state.counts.map_phys += 1;
    iova
}

/// Undoes [`map_phys`].
///
/// # Safety
///
/// The arguments must be what `struct dma_map_ops` asks for, of a device of ours.
unsafe extern "C" fn unmap_phys(
    dev: *mut bindings::device,
    addr: bindings::dma_addr_t,
    size: usize,
    dir: bindings::dma_data_direction,
    _attrs: c_ulong,
) {
    let mut state = inner(dev).lock();
    let found = state
        .mappings
        .iter()
        .position(|m| m.iova == addr && m.len == size as u64 && m.dir == dir && m.list == (0, 0));

    state.counts.unmap_phys += 1;
    match found {
        Some(i) => {
            let _ = state.mappings.remove(i);
        }
        None => state.fault("the end of a mapping that does not exist", addr),
    }
}

/// The entries of a list.
///
/// # Safety
///
/// `sg` must head a list of at least `nents` entries.
pub(super) unsafe fn entries(
    sg: *mut bindings::scatterlist,
    nents: i32,
) -> impl Iterator<Item = *mut bindings::scatterlist> {
    let mut next = sg;

    (0..nents).map(move |_| {
        let this = next;

        // SAFETY: By this function's safety requirement; null behind the last entry.
        next = unsafe { bindings::rdma_rw_kunit_sg_next(this) };
        this
    })
}

/// Maps a list.
///
/// # Safety
///
/// The arguments must be what `struct dma_map_ops` asks for, of a device of ours.
unsafe extern "C" fn map_sg(
    dev: *mut bindings::device,
    sg: *mut bindings::scatterlist,
    nents: c_int,
    dir: bindings::dma_data_direction,
    _attrs: c_ulong,
) -> c_int {
    let inner = inner(dev);
    let coalesce = inner.profile.dma == Dma::Ours { coalesce: true };
    let mut state = inner.lock();

    if let Some(e) = due(&mut state.plan.map) {
        return e.to_errno();
    }
    if state.mappings.iter().any(|m| m.list.0 == sg as usize) {
        state.fault("a list mapped twice", sg as u64);
    }

    let page = u64::from(PAGE);
    let mut out = sg;
    let mut nr_out = 0;
    // Of the entry that may still grow.
    let mut end = None;
    // SAFETY: The caller hands in such a list.
    for this in unsafe { entries(sg, nents) } {
        // SAFETY: As above.
        let (phys, len) = unsafe {
            (
                bindings::rdma_rw_kunit_sg_phys(this),
                u64::from((*this).length),
            )
        };

        // Only at the bounds of pages can different memory be one to the device.
        let joins = coalesce && phys % page == 0 && end.is_some_and(|end: u64| end % page == 0);
        let iova = match end {
            Some(end) if joins => {
                state.next_iova = (end + len).next_multiple_of(page) + page;
                // SAFETY: The entry before this one.
                unsafe { grow(out, len) };
                end
            }
            _ => {
                let iova = state.take_iova(phys, len);

                if nr_out != 0 {
                    // SAFETY: There are not more entries than were handed in.
                    out = unsafe { bindings::rdma_rw_kunit_sg_next(out) };
                }
                nr_out += 1;
                // SAFETY: As above.
                unsafe { set(out, iova, len) };
                iova
            }
        };
        end = Some(iova + len);

        let mapping = Mapping {
            iova,
            phys,
            len,
            dir,
            list: (sg as usize, nents),
        };
        if state.mappings.push_within_capacity(mapping).is_err() {
            state.mappings.retain(|m| m.list.0 != sg as usize);
            return ENOMEM.to_errno();
        }
    }
    state.counts.map_sg += 1;
    nr_out
}

/// Writes the DMA side of an entry.
///
/// # Safety
///
/// `sg` must be valid.
unsafe fn set(sg: *mut bindings::scatterlist, iova: u64, len: u64) {
    // SAFETY: By this function's safety requirement.
    unsafe {
        (*sg).dma_address = iova;
        #[cfg(CONFIG_NEED_SG_DMA_LENGTH)]
        {
            // CAST: As long as the memory.
            (*sg).dma_length = len as u32;
        }
    }
    let _ = len;
}

/// Lengthens the DMA side of an entry.
///
/// # Safety
///
/// `sg` must be valid.
unsafe fn grow(sg: *mut bindings::scatterlist, len: u64) {
    #[cfg(CONFIG_NEED_SG_DMA_LENGTH)]
    // SAFETY: By this function's safety requirement.
    unsafe {
        // CAST: Tests do not map that much.
        (*sg).dma_length += len as u32;
    }
    let _ = (sg, len);
}

/// Undoes [`map_sg`].
///
/// # Safety
///
/// The arguments must be what `struct dma_map_ops` asks for, of a device of ours.
unsafe extern "C" fn unmap_sg(
    dev: *mut bindings::device,
    sg: *mut bindings::scatterlist,
    nents: c_int,
    dir: bindings::dma_data_direction,
    _attrs: c_ulong,
) {
    let mut state = inner(dev).lock();
    let found = state
        .mappings
        .iter()
        .find(|m| m.list.0 == sg as usize)
        .copied();

    state.counts.unmap_sg += 1;
    match found {
        Some(m) if m.list.1 == nents && m.dir == dir => {}
        Some(_) => state.fault("a list unmapped otherwise than mapped", sg as u64),
        None => state.fault("the end of a list's mapping that does not exist", sg as u64),
    }
    state.mappings.retain(|m| m.list.0 != sg as usize);
}

impl Mapping {
    /// Whether the device may read the memory rather than write it.
    pub(super) fn outgoing(&self) -> bool {
        self.dir == bindings::dma_data_direction_DMA_TO_DEVICE
    }
}
