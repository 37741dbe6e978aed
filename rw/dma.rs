// SPDX-License-Identifier: GPL-2.0

//! Guards of DMA mappings.

use core::mem;
use core::num::NonZeroU32;

use kernel::error::to_result;
use kernel::ffi::c_int;
use kernel::prelude::*;

use super::{
    device::DmaDevice,
    sgl::{
        are_filled,
        Mapped,
        View, //
    },
    warn_on_once,
    Device,
    Direction,
    SgSource, //
};
use crate::bindings;

/// Memory as the device sees it.
#[derive(Clone, Copy)]
pub(super) struct Segment {
    /// DMA address, or kernel address for a software device; before it is mapped, as [`Pages`] has
    /// it.
    ///
    /// [`Pages`]: super::pages::Pages
    pub(super) addr: u64,
    /// Length in bytes.
    pub(super) len: u32,
}

impl Segment {
    /// Address behind the last byte.
    #[inline(always)]
    pub(super) fn end(self) -> u64 {
        self.addr.wrapping_add(u64::from(self.len))
    }

    /// The memory behind its first `offset` bytes, which must not be more than there are.
    #[inline(always)]
    pub(super) fn without(self, offset: u32) -> Self {
        Self {
            addr: self.addr.wrapping_add(u64::from(offset)),
            len: self.len.wrapping_sub(offset),
        }
    }

    /// An SGE over this memory.
    #[inline]
    pub(super) fn sge(self, lkey: u32) -> bindings::ib_sge {
        bindings::ib_sge {
            addr: self.addr,
            length: self.len,
            lkey,
        }
    }
}

/// A scatterlist mapped for DMA; unmapped on drop.
pub(super) struct MappedSg<'a> {
    device: &'a Device,
    list: SgSource,
    nents: NonZeroU32,
    dir: Direction,
    /// Whether no entry is empty, where that is known.
    filled: Option<bool>,
}

impl<'a> MappedSg<'a> {
    /// Maps a list.
    ///
    /// # Errors
    ///
    /// The DMA API's error.
    #[inline(always)]
    pub(super) fn new(device: &'a Device, list: SgSource, dir: Direction) -> Result<Self> {
        match device.dma_device() {
            None => Ok(Self {
                device,
                list,
                nents: list.nents(),
                dir,
                filled: Some(list.map_virtual()),
            }),
            Some(dma_device) => Self::for_dma(device, dma_device, list, dir),
        }
    }

    /// Maps a list for a device that does DMA, through `dma_device`.
    ///
    /// # Errors
    ///
    /// The DMA API's error.
    #[inline(always)]
    pub(super) fn for_dma(
        device: &'a Device,
        dma_device: DmaDevice,
        list: SgSource,
        dir: Direction,
    ) -> Result<Self> {
        let mut table = bindings::sg_table {
            sgl: list.as_raw(),
            nents: 0,
            orig_nents: list.nents().get(),
        };

        // SAFETY: The device and the list are valid.
        check(unsafe {
            bindings::dma_map_sgtable(dma_device.as_raw(), &mut table, dir.as_raw(), 0)
        })?;
        Ok(Self {
            device,
            list,
            nents: NonZeroU32::new(table.nents).ok_or(EIO)?,
            dir,
            filled: None,
        })
    }

    /// The memory of the first entry behind its first `offset` bytes.
    ///
    /// # Errors
    ///
    /// `EIO`, with one warning, where there is none.
    #[inline(always)]
    pub(super) fn first(&self, offset: u32) -> Result<Segment> {
        // SAFETY: The first entry is mapped.
        let segment = unsafe { Mapped.segment(self.as_raw()) };

        if warn_on_once!(offset >= segment.len) {
            return Err(EIO);
        }
        Ok(segment.without(offset))
    }

    /// Takes charge of a mapping that [`MappedSg::keep`] left with a context.
    ///
    /// # Safety
    ///
    /// The list must be mapped for this device and direction, by an earlier `new` that was kept,
    /// and be in nobody else's charge.
    #[inline]
    pub(super) unsafe fn from_kept(device: &'a Device, list: SgSource, dir: Direction) -> Self {
        Self {
            device,
            list,
            nents: list.nents(),
            dir,
            filled: None,
        }
    }

    /// First entry of the list.
    #[inline]
    pub(super) fn as_raw(&self) -> *mut bindings::scatterlist {
        self.list.as_raw()
    }

    /// Number of entries, before any DMA coalescing.
    #[inline]
    pub(super) fn orig_nents(&self) -> NonZeroU32 {
        self.list.nents()
    }

    /// Number of entries as mapped.
    #[inline]
    pub(super) fn nents(&self) -> NonZeroU32 {
        self.nents
    }

    /// Whether no entry is empty. To register one, a device would use up a page that has no bytes of
    /// the transfer, and those that follow would land there.
    #[inline]
    pub(super) fn is_filled(&self) -> bool {
        match self.filled {
            Some(filled) => filled,
            // SAFETY: That many entries are mapped.
            None => unsafe { are_filled(self.as_raw(), self.nents) },
        }
    }

    /// Leaves the list mapped, in the charge of whoever destroys the context.
    #[inline]
    pub(super) fn keep(self) {
        mem::forget(self);
    }
}

impl Drop for MappedSg<'_> {
    #[inline]
    fn drop(&mut self) {
        if let Some(dma_device) = self.device.dma_device() {
            // SAFETY: The list was mapped for this device and direction, with this many entries.
            // CAST: They fit an `int` by the invariant of `SgSource`.
            unsafe {
                bindings::dma_unmap_sg_attrs(
                    dma_device.as_raw(),
                    self.list.as_raw(),
                    self.list.nents().get() as i32,
                    self.dir.as_raw(),
                    0,
                );
            }
        }
    }
}

/// Maps memory for DMA by its address before that. A software device works with the latter.
///
/// # Errors
///
/// `ENOMEM` where the DMA API has no mapping to give.
#[inline]
pub(super) fn map(
    dma_device: Option<DmaDevice>,
    dir: Direction,
    memory: Segment,
) -> Result<Segment> {
    let Some(dma_device) = dma_device else {
        return Ok(memory);
    };

    // SAFETY: The device is valid, and the caller's pages stay until the transfer is over.
    let addr = unsafe {
        bindings::dma_map_phys(
            dma_device.as_raw(),
            memory.addr,
            memory.len as usize,
            dir.as_raw(),
            0,
        )
    };

    // SAFETY: The device is valid.
    #[cfg(CONFIG_DMA_API_DEBUG)]
    unsafe {
        bindings::debug_dma_mapping_error(dma_device.as_raw(), addr);
    }

    // The value of DMA_MAPPING_ERROR.
    if addr == bindings::dma_addr_t::MAX {
        return Err(ENOMEM);
    }
    Ok(Segment { addr, ..memory })
}

/// The result of a C function that returns 0 or a negative error.
#[inline]
pub(super) fn check(ret: c_int) -> Result {
    if ret == 0 {
        Ok(())
    } else {
        to_result(ret)
    }
}

/// Unmaps what [`map`] mapped for these SGEs.
///
/// # Safety
///
/// The SGEs must hold mappings made for this device and direction, in nobody else's charge.
#[inline]
pub(super) unsafe fn unmap_sges(
    dma_device: Option<DmaDevice>,
    dir: Direction,
    sges: &[bindings::ib_sge],
) {
    if let Some(dma_device) = dma_device {
        for sge in sges {
            // SAFETY: By this function's safety requirement.
            unsafe {
                bindings::dma_unmap_phys(
                    dma_device.as_raw(),
                    sge.addr,
                    sge.length as usize,
                    dir.as_raw(),
                    0,
                );
            }
        }
    }
}
