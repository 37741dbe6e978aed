// SPDX-License-Identifier: GPL-2.0

//! Views of the devices and QPs that C hands over.

use core::mem::{
    self,
    offset_of,
    size_of, //
};
use core::num::NonZeroU32;

use kernel::types::Opaque;

use super::warn_on_once;
use crate::bindings;

/// Largest MR that is asked for, in pages, whatever the device offers: 1 MiB of 4 KiB pages.
const MAX_MR_PAGES: u32 = 256;

/// Way of a transfer as the local memory sees it, numbered as `enum dma_data_direction`.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub(crate) enum Direction {
    /// RDMA WRITE: the device reads local memory.
    Write = bindings::dma_data_direction_DMA_TO_DEVICE,
    /// RDMA READ: the device fills local memory.
    Read = bindings::dma_data_direction_DMA_FROM_DEVICE,
}

impl Direction {
    /// The direction of a C value; none where the value names no transfer.
    #[inline]
    pub(crate) fn from_raw(dir: bindings::dma_data_direction) -> Option<Self> {
        match dir {
            bindings::dma_data_direction_DMA_TO_DEVICE
            | bindings::dma_data_direction_DMA_FROM_DEVICE => {
                // SAFETY: These are the numbers of the two directions.
                Some(unsafe { mem::transmute::<bindings::dma_data_direction, Self>(dir) })
            }
            _ => None,
        }
    }

    /// The direction as the DMA API takes it.
    #[inline]
    pub(crate) fn as_raw(self) -> bindings::dma_data_direction {
        self as bindings::dma_data_direction
    }

    /// 0 for a WRITE and 1 for a READ: which of two it is, without a branch.
    #[inline(always)]
    pub(super) fn nth(self) -> u32 {
        self.as_raw().wrapping_sub(Self::Write.as_raw())
    }
}

const _: () = assert!(
    bindings::dma_data_direction_DMA_FROM_DEVICE == bindings::dma_data_direction_DMA_TO_DEVICE + 1,
    "the two directions do not follow each other"
);

/// What a port speaks, as far as RDMA READs and WRITEs care.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Protocol {
    /// iWARP: the target of a READ must be registered for remote access, and a READ can invalidate
    /// that registration.
    Iwarp,
    /// InfiniBand and RoCE: any local memory will do.
    Other,
}

/// An RDMA device, `struct ib_device`.
///
/// # Invariants
///
/// Lies over a valid `struct ib_device`.
#[repr(transparent)]
pub(crate) struct Device(Opaque<bindings::ib_device>);

impl Device {
    /// Views a C device.
    ///
    /// # Safety
    ///
    /// `raw` must be valid for `'a`.
    #[inline]
    pub(crate) unsafe fn from_raw<'a>(raw: *mut bindings::ib_device) -> &'a Self {
        // SAFETY: The caller promises validity, and the representation is transparent.
        // INVARIANT: So the view lies over a valid device.
        unsafe { &*raw.cast() }
    }

    /// The device as C takes it.
    #[inline]
    pub(crate) fn as_raw(&self) -> *mut bindings::ib_device {
        self.0.get()
    }

    /// What a port speaks.
    ///
    /// A port that the device does not have is a broken caller: one warning, and it counts as
    /// [`Protocol::Other`].
    #[inline]
    pub(crate) fn protocol(&self, port_num: u32) -> Protocol {
        let protocol = self.protocol_of(port_num);

        warn_on_once!(protocol.is_none());
        protocol.unwrap_or(Protocol::Other)
    }

    /// Protocol of a port; none where the device does not have the port.
    #[inline]
    pub(crate) fn protocol_of(&self, port_num: u32) -> Option<Protocol> {
        let raw = self.as_raw();

        // SAFETY: By the type invariant. The count is set before the device is registered.
        let ports = unsafe { (*raw).phys_port_cnt };
        if port_num > ports {
            return None;
        }

        // An allocation is smaller than 4 GiB, so this does not wrap for a port that there is.
        // CAST: The size of an element is a small number.
        let offset = port_num.wrapping_mul(size_of::<bindings::ib_port_data>() as u32);

        // SAFETY: By the type invariant; `port_data` has an element for every port number from 0
        // to `phys_port_cnt`, and its capabilities do not change while the device is registered.
        let caps = unsafe {
            (*(*raw).port_data.byte_add(offset as usize))
                .immutable
                .core_cap_flags
        };

        Some(if caps & bindings::RDMA_CORE_CAP_PROT_IWARP != 0 {
            Protocol::Iwarp
        } else {
            Protocol::Other
        })
    }

    /// Whether contexts of a port may use MRs, and queues and pools are sized for that.
    #[inline]
    pub(crate) fn may_use_mrs(&self, protocol: Protocol) -> bool {
        protocol == Protocol::Iwarp || self.max_sgl_rd() | u32::from(force_mr()) != 0
    }

    /// Whether some transfers are better made with MRs on a port, or cannot be without.
    #[inline]
    pub(crate) fn has_use_for_mrs(&self, protocol: Protocol) -> bool {
        protocol == Protocol::Iwarp || self.max_sgl_rd() != 0
    }

    /// Number of pages an MR is made for; never 0, so that it can be divided by.
    ///
    /// `integrity` asks for the limit of MRs that carry protection information.
    #[inline]
    pub(crate) fn mr_pages(&self, integrity: bool) -> NonZeroU32 {
        // SAFETY: By the type invariant; attributes do not change while the device is registered.
        let attrs = unsafe { &(*self.as_raw()).attrs };
        let limit = if integrity {
            attrs.max_pi_fast_reg_page_list_len
        } else {
            attrs.max_fast_reg_page_list_len
        };

        NonZeroU32::new(limit.min(MAX_MR_PAGES)).unwrap_or(NonZeroU32::MIN)
    }

    /// Number of SGEs an RDMA READ may have on this device; a device that names none counts as one
    /// that takes 1.
    #[inline]
    pub(crate) fn max_sge_rd(&self) -> NonZeroU32 {
        // SAFETY: By the type invariant; attributes do not change while the device is registered.
        NonZeroU32::new(unsafe { (*self.as_raw()).attrs.max_sge_rd }).unwrap_or(NonZeroU32::MIN)
    }

    /// Number of DMA entries from which on an RDMA READ is better registered; 0 for no such number.
    #[inline]
    pub(crate) fn max_sgl_rd(&self) -> u32 {
        // SAFETY: By the type invariant; attributes do not change while the device is registered.
        unsafe { (*self.as_raw()).attrs.max_sgl_rd }
    }

    /// Largest send queue of this device.
    #[inline]
    pub(crate) fn max_qp_wr(&self) -> u32 {
        // SAFETY: By the type invariant; attributes do not change while the device is registered.
        unsafe { (*self.as_raw()).attrs.max_qp_wr }
    }

    /// The device that does the DMA; none for a software device that works with kernel addresses.
    #[inline]
    pub(crate) fn dma_device(&self) -> Option<DmaDevice> {
        // SAFETY: By the type invariant; set before the device is registered.
        let raw = unsafe { (*self.as_raw()).dma_device };

        if cfg!(CONFIG_INFINIBAND_VIRT_DMA) && raw.is_null() {
            None
        } else {
            // INVARIANT: What a registered device names as its DMA device is valid.
            Some(DmaDevice(raw))
        }
    }
}

/// The `struct device` that an RDMA device does its DMA through.
///
/// # Invariants
///
/// Valid as long as the RDMA device that named it.
#[derive(Clone, Copy)]
pub(crate) struct DmaDevice(*mut bindings::device);

impl DmaDevice {
    /// The device as the DMA API takes it.
    #[inline]
    pub(crate) fn as_raw(self) -> *mut bindings::device {
        self.0
    }
}

/// Whether every transfer is to use MRs, by the module parameter `force_mr`.
#[inline]
pub(crate) fn force_mr() -> bool {
    // SAFETY: The parameter cannot be changed once the module is loaded.
    unsafe { bindings::rdma_rw_force_mr }
}

const _: () = assert!(
    offset_of!(bindings::ib_qp, max_read_sge)
        == offset_of!(bindings::ib_qp, max_write_sge) + size_of::<u32>(),
    "the two limits do not follow each other"
);

/// A queue pair, `struct ib_qp`.
///
/// # Invariants
///
/// Lies over a valid `struct ib_qp`, whose device and protection domain are valid too.
#[repr(transparent)]
pub(crate) struct Qp(Opaque<bindings::ib_qp>);

impl Qp {
    /// Views a C queue pair.
    ///
    /// # Safety
    ///
    /// `raw` must be valid for `'a`, as must its device and protection domain.
    #[inline]
    pub(crate) unsafe fn from_raw<'a>(raw: *mut bindings::ib_qp) -> &'a Self {
        // SAFETY: The caller promises validity, and the representation is transparent.
        // INVARIANT: So the view lies over a valid queue pair.
        unsafe { &*raw.cast() }
    }

    /// The queue pair as C takes it.
    #[inline]
    pub(crate) fn as_raw(&self) -> *mut bindings::ib_qp {
        self.0.get()
    }

    /// The device of this QP.
    #[inline]
    pub(crate) fn device(&self) -> &Device {
        // SAFETY: By the type invariant; the device is the same for the QP's whole life.
        unsafe { Device::from_raw((*self.as_raw()).device) }
    }

    /// Key that covers all local memory in an SGE.
    #[inline]
    pub(crate) fn local_dma_lkey(&self) -> u32 {
        // SAFETY: By the type invariant; the key does not change.
        unsafe { (*(*self.as_raw()).pd).local_dma_lkey }
    }

    /// Number of SGEs a work request of this direction may have; none for a QP that takes none.
    #[inline]
    pub(crate) fn max_sge(&self, dir: Direction) -> Option<NonZeroU32> {
        let raw = self.as_raw();

        // SAFETY: By the type invariant; the limits are set when the QP is created, and next to each
        // other.
        NonZeroU32::new(unsafe {
            raw.byte_add(offset_of!(bindings::ib_qp, max_write_sge))
                .cast::<u32>()
                .add(dir.nth() as usize)
                .read()
        })
    }

    /// Whether `force_mr` counts for this QP: one that C made without it has no MRs.
    #[inline]
    pub(crate) fn is_forced(&self) -> bool {
        force_mr() && (!cfg!(rdma_rw_takeover) || self.has_mrs())
    }

    /// Whether there are MRs for data, be they in the pool or out of it.
    ///
    /// Nothing holds them still, but a pool that looks empty between two looks is a busy one, whose
    /// QP can do without an MR this once.
    fn has_mrs(&self) -> bool {
        let raw = self.as_raw();

        // SAFETY: By the type invariant. Other processors may change what is read, each of which
        // is a word.
        unsafe {
            let pool = &raw mut (*raw).rdma_mrs;

            (&raw const (*raw).mrs_used).read_volatile() != 0
                || (&raw const (*pool).next).read_volatile() != pool
        }
    }

    /// Number of pages that one of this QP's MRs takes.
    #[inline]
    pub(crate) fn mr_pages(&self) -> NonZeroU32 {
        // SAFETY: By the type invariant; set when the QP is created.
        let integrity = unsafe { (*self.as_raw()).integrity_en };

        self.device().mr_pages(integrity)
    }
}
