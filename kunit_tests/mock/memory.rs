// SPDX-License-Identifier: GPL-2.0

//! Local memory: pages that a device knows of, so that it can tell them from anything else.

use core::ptr::NonNull;
use core::slice;

use kernel::prelude::*;

use super::{
    Dma,
    Mock,
    PAGE, //
};
use crate::bindings;

/// Word number `i` of an endless pattern.
pub(crate) fn pattern(seed: u64, i: u64) -> u64 {
    (i ^ seed.rotate_left(32))
        .wrapping_add(1)
        .wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

/// Memory that transfers may touch.
#[derive(Clone, Copy)]
pub(super) struct Region {
    pub(super) start: usize,
    pub(super) len: usize,
}

/// Contiguous pages; freed on drop.
pub(crate) struct Pages<'a> {
    mock: &'a Mock,
    page: NonNull<bindings::page>,
    order: u32,
}

impl<'a> Pages<'a> {
    /// Allocates so many pages in one piece.
    pub(crate) fn new(mock: &'a Mock, nr: u32) -> Result<Self> {
        let order = nr.max(1).next_power_of_two().trailing_zeros();
        // SAFETY: There is nothing to be kept.
        let page = NonNull::new(unsafe {
            if Self::of_peer(mock) {
                bindings::rdma_rw_kunit_alloc_peer_pages(order)
            } else {
                bindings::rdma_rw_kunit_alloc_pages(order)
            }
        });
        let this = Self {
            mock,
            page: page.ok_or(ENOMEM)?,
            order,
        };

        mock.inner
            .lock()
            .regions
            .push_within_capacity(Region {
                start: this.start() as usize,
                len: this.len(),
            })
            .map_err(|_| ENOMEM)?;
        Ok(this)
    }

    /// Whether a device's local memory is that of a PCI function.
    fn of_peer(mock: &Mock) -> bool {
        matches!(mock.inner.profile.dma, Dma::Peer { .. })
    }

    /// The `n`th page.
    pub(crate) fn page(&self, n: u32) -> *mut bindings::page {
        // SAFETY: Arithmetic on page frame numbers.
        unsafe { bindings::rdma_rw_kunit_nth_page(self.page.as_ptr(), n as usize) }
    }

    /// First byte.
    pub(crate) fn start(&self) -> *mut u8 {
        // SAFETY: The pages are allocated.
        unsafe { bindings::rdma_rw_kunit_page_address(self.page.as_ptr()).cast() }
    }

    /// Number of bytes.
    pub(crate) fn len(&self) -> usize {
        (PAGE as usize) << self.order
    }

    /// The bytes.
    pub(crate) fn bytes(&mut self) -> &mut [u8] {
        // SAFETY: The pages are allocated, and the device moves bytes only within a post.
        unsafe { slice::from_raw_parts_mut(self.start(), self.len()) }
    }
}

impl Drop for Pages<'_> {
    fn drop(&mut self) {
        let start = self.start() as usize;

        self.mock
            .inner
            .lock()
            .regions
            .retain(|region| region.start != start);
        // SAFETY: Allocated in the same way, with this order.
        unsafe {
            if Self::of_peer(self.mock) {
                bindings::rdma_rw_kunit_free_peer_pages(self.page.as_ptr(), self.order);
            } else {
                bindings::rdma_rw_kunit_free_pages(self.page.as_ptr(), self.order);
            }
        }
    }
}
