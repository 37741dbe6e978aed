// SPDX-License-Identifier: GPL-2.0

//! Guards of DMA mappings.

use core::mem;
use core::num::NonZeroU32;

use kernel::error::to_result;
use kernel::prelude::*;

use super::{
    bvec::Piece,
    Device,
    Direction,
    SgSource, //
};
use crate::bindings;

/// Memory as the device sees it.
#[derive(Clone, Copy)]
pub(super) struct Segment {
    /// DMA address, or kernel address for a software device.
    pub(super) addr: u64,
    /// Length in bytes.
    pub(super) len: u32,
}

impl Segment {
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
}

impl<'a> MappedSg<'a> {
    /// Maps a list.
    ///
    /// # Errors
    ///
    /// `EIO` where a software device can map nothing of it, else the DMA API's error.
    #[inline]
    pub(super) fn new(device: &'a Device, list: SgSource, dir: Direction) -> Result<Self> {
        let nents = match device.dma_device() {
            #[cfg(CONFIG_INFINIBAND_VIRT_DMA)]
            None => {
                // SAFETY: The device and the list are valid.
                // CAST: A list's count fits an `int` by the invariant of `SgSource`, and so does
                // the count of what is mapped of it, which is not negative.
                unsafe {
                    bindings::ib_dma_virt_map_sg(
                        device.as_raw(),
                        list.as_raw(),
                        list.nents().get() as i32,
                    ) as u32
                }
            }
            #[cfg(not(CONFIG_INFINIBAND_VIRT_DMA))]
            None => 0,
            Some(dma_device) => {
                let mut table = bindings::sg_table {
                    sgl: list.as_raw(),
                    nents: 0,
                    orig_nents: list.nents().get(),
                };

                // SAFETY: The device and the list are valid.
                to_result(unsafe {
                    bindings::dma_map_sgtable(dma_device.as_raw(), &mut table, dir.as_raw(), 0)
                })?;
                table.nents
            }
        };

        Ok(Self {
            device,
            list,
            nents: NonZeroU32::new(nents).ok_or(EIO)?,
            dir,
        })
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

/// Maps physical pages given by pointers to their `struct page`.
///
/// The address of a page is a linear function of its pointer, so only the first page of a transfer
/// has to be asked for.
#[derive(Clone, Copy)]
pub(super) struct PageMapper<'a> {
    device: &'a Device,
    dir: Direction,
    #[cfg(any(CONFIG_FLATMEM, CONFIG_SPARSEMEM_VMEMMAP))]
    first: usize,
    #[cfg(any(CONFIG_FLATMEM, CONFIG_SPARSEMEM_VMEMMAP))]
    base: u64,
}

impl<'a> PageMapper<'a> {
    /// A mapper for transfers that start with `piece`.
    #[inline]
    pub(super) fn new(device: &'a Device, dir: Direction, piece: &Piece) -> Self {
        #[cfg(any(CONFIG_FLATMEM, CONFIG_SPARSEMEM_VMEMMAP))]
        {
            Self {
                device,
                dir,
                first: piece.page() as usize,
                base: page_address(device, piece.page()),
            }
        }
        #[cfg(not(any(CONFIG_FLATMEM, CONFIG_SPARSEMEM_VMEMMAP)))]
        {
            let _ = piece;
            Self { device, dir }
        }
    }

    /// Where a piece lies: its kernel address for a software device, else its physical address.
    #[inline]
    pub(super) fn address(&self, piece: &Piece) -> u64 {
        #[cfg(any(CONFIG_FLATMEM, CONFIG_SPARSEMEM_VMEMMAP))]
        let page = {
            const SIZE: usize = mem::size_of::<bindings::page>();
            // CAST: The distance of two pointers into the map of pages has a sign and is a
            // multiple of the size of its elements.
            let distance = (piece.page() as usize).wrapping_sub(self.first) as isize;
            let pages = if SIZE.is_power_of_two() {
                distance >> SIZE.trailing_zeros()
            } else {
                // CAST: A constant far below the limit.
                distance.wrapping_div(SIZE as isize)
            };

            // CAST: Two's complement, so that a page before the first wraps to its place.
            self.base
                .wrapping_add((pages as u64) << kernel::page::PAGE_SHIFT)
        };
        #[cfg(not(any(CONFIG_FLATMEM, CONFIG_SPARSEMEM_VMEMMAP)))]
        let page = page_address(self.device, piece.page());

        page.wrapping_add(u64::from(piece.offset()))
    }

    /// Maps a piece for DMA. A software device works with the kernel address.
    ///
    /// # Errors
    ///
    /// `ENOMEM` where the DMA API has no mapping to give.
    #[inline]
    pub(super) fn map(&self, piece: &Piece) -> Result<Segment> {
        let address = self.address(piece);
        let len = piece.len();
        let Some(dma_device) = self.device.dma_device() else {
            return Ok(Segment { addr: address, len });
        };

        // SAFETY: The device is valid, and the caller's pages stay until the transfer is over.
        let addr = unsafe {
            bindings::dma_map_phys(
                dma_device.as_raw(),
                address,
                len as usize,
                self.dir.as_raw(),
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
        Ok(Segment { addr, len })
    }
}

/// Address of a page: in the kernel's memory for a software device, else physical.
#[inline]
fn page_address(device: &Device, page: *const bindings::page) -> u64 {
    // SAFETY: The pages of a transfer are valid, by the safety requirement of `BvecSource`.
    unsafe {
        match device.dma_device() {
            None => bindings::rdma_rw_c_page_virt(page),
            Some(_) => bindings::rdma_rw_c_page_phys(page),
        }
    }
}

/// Unmaps what [`PageMapper::map`] mapped for these SGEs.
///
/// # Safety
///
/// The SGEs must hold mappings made for this device and direction, in nobody else's charge.
#[inline]
pub(super) unsafe fn unmap_sges(device: &Device, dir: Direction, sges: &[bindings::ib_sge]) {
    if let Some(dma_device) = device.dma_device() {
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
