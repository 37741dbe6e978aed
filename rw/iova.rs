// SPDX-License-Identifier: GPL-2.0

//! All pieces of a transfer in one contiguous range of IOVA space: one SGE, one IOTLB sync.

use kernel::ffi::c_int;
use kernel::prelude::*;

use super::{
    BvecSource,
    Slot,
    Transfer, //
};

#[cfg(CONFIG_IOMMU_DMA)]
pub(super) use self::range::Range;

#[cfg(CONFIG_IOMMU_DMA)]
use super::pages::{
    Pages,
    IN_PAGE, //
};

/// A range of IOVA space and what is linked into it.
#[cfg(CONFIG_IOMMU_DMA)]
mod range {
    use core::mem;

    use kernel::prelude::*;

    use crate::bindings;
    use crate::rw::{
        device::DmaDevice,
        dma::{
            check,
            Segment, //
        },
        Direction, //
    };

    /// A range of IOVA space; unlinked and freed on drop.
    ///
    /// # Invariants
    ///
    /// `state` is an allocated range of `device`, of which the first `linked` bytes are linked.
    pub(in crate::rw) struct Range {
        device: DmaDevice,
        state: bindings::dma_iova_state,
        linked: usize,
        dir: Direction,
    }

    impl Range {
        /// Takes a range for `len` bytes of which the first lies at the physical address `phys`;
        /// none where the device has no IOMMU in translating mode, or no room.
        #[inline]
        pub(in crate::rw) fn new(
            device: DmaDevice,
            dir: Direction,
            phys: u64,
            len: usize,
        ) -> Option<Self> {
            let mut state = bindings::dma_iova_state { addr: 0, __size: 0 };

            // SAFETY: The device is valid.
            let taken =
                unsafe { bindings::dma_iova_try_alloc(device.as_raw(), &mut state, phys, len) };

            // Not `then_some()`: a range that was not taken must not be dropped.
            // INVARIANT: Nothing of the new range is linked.
            taken.then(|| Self {
                device,
                state,
                linked: 0,
                dir,
            })
        }

        /// Takes charge of a range that [`Range::keep`] gave to a context.
        ///
        /// # Safety
        ///
        /// The arguments must be those of a kept range, and in nobody else's charge.
        #[inline]
        pub(in crate::rw) unsafe fn from_kept(
            device: DmaDevice,
            state: bindings::dma_iova_state,
            linked: usize,
            dir: Direction,
        ) -> Self {
            // INVARIANT: By this function's safety requirement.
            Self {
                device,
                state,
                linked,
                dir,
            }
        }

        /// Links memory behind what is linked already, from the start of a page to the start of
        /// another but for both ends of the range.
        ///
        /// # Errors
        ///
        /// The DMA API's error.
        #[inline(always)]
        pub(in crate::rw) fn link(&mut self, memory: Segment) -> Result {
            let Segment { addr: phys, len } = memory;

            // SAFETY: The device and the range are valid.
            check(unsafe {
                bindings::dma_iova_link(
                    self.device.as_raw(),
                    &mut self.state,
                    phys,
                    self.linked,
                    len as usize,
                    self.dir.as_raw(),
                    0,
                )
            })?;

            // INVARIANT: That much more is linked. A transfer has a length of 32 bits.
            self.linked = self.linked.wrapping_add(len as usize);
            Ok(())
        }

        /// Makes everything linked visible to the device.
        #[inline]
        pub(in crate::rw) fn sync(&mut self) -> Result {
            // SAFETY: The device and the range are valid, and that much is linked.
            check(unsafe {
                bindings::dma_iova_sync(self.device.as_raw(), &mut self.state, 0, self.linked)
            })
        }

        /// Leaves the range to a context.
        #[inline]
        pub(in crate::rw) fn keep(self) -> (bindings::dma_iova_state, usize) {
            let kept = (self.state, self.linked);

            mem::forget(self);
            kept
        }
    }

    impl Drop for Range {
        #[inline]
        fn drop(&mut self) {
            // SAFETY: By the type invariant.
            unsafe {
                bindings::dma_iova_destroy(
                    self.device.as_raw(),
                    &mut self.state,
                    self.linked,
                    self.dir.as_raw(),
                    0,
                );
            }
        }
    }
}

/// Links the pieces of a source into one range and makes a context for it; none where the device
/// or the memory does not allow for one.
///
/// # Errors
///
/// `EINVAL` where the array holds less than the transfer asks for.
#[cfg(CONFIG_IOMMU_DMA)]
#[inline(never)]
pub(super) fn init(
    mut slot: Slot<'_>,
    transfer: Transfer<'_>,
    source: BvecSource<'_>,
) -> Result<Option<c_int>> {
    // A copy has no place in memory that it would have to be kept in.
    let mut source = source.clone();
    let Some(dma_device) = transfer.qp.device().dma_device() else {
        return Ok(None);
    };
    let len = source.left();
    let Some(first) = source.next_piece()? else {
        return Ok(None);
    };
    let pages = Pages::new(Some(dma_device), first.page());
    let phys = first.segment(&pages).addr;
    let Some(mut range) = Range::new(dma_device, transfer.dir, phys, len as usize) else {
        return Ok(None);
    };

    // A range can only start and end within a page. The DMA API warns where it is asked for more.
    let mut piece = first;
    loop {
        if range.link(piece.segment(&pages)).is_err() {
            return Ok(None);
        }

        let Some(next) = source.next_whole()? else {
            break;
        };
        // Where the last piece ends in its page, so does it in the range.
        let end = piece.offset().wrapping_add(piece.len());
        // CAST: Bits within a page.
        if (end | next.offset()) & IN_PAGE as u32 != 0 {
            return Ok(None);
        }
        piece = next;
    }
    if range.sync().is_err() {
        return Ok(None);
    }

    slot.write_iova(&transfer, range);
    Ok(Some(1))
}

/// Without a DMA layer over IOMMUs there are no ranges to be had.
#[cfg(not(CONFIG_IOMMU_DMA))]
#[inline]
pub(super) fn init(
    _slot: Slot<'_>,
    _transfer: Transfer<'_>,
    _source: BvecSource<'_>,
) -> Result<Option<c_int>> {
    Ok(None)
}
