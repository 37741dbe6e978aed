// SPDX-License-Identifier: GPL-2.0

//! Allocations that end up in a context, where C frees them with `kfree()` just as Rust does.

use core::alloc::Layout;
use core::mem;
use core::ptr::NonNull;

use kernel::ffi::c_void;
use kernel::prelude::*;

use crate::bindings;

/// Largest allocation for two arrays at once. Beyond that, what `kmalloc()` adds to reach its next
/// size, which it clears, costs more than a second allocation.
pub(super) const ONE_ALLOCATION: usize = kernel::page::PAGE_SIZE / 2;

/// An allocation of `kmalloc()`; freed on drop.
///
/// # Invariants
///
/// The pointer is the start of an allocation that nobody else has.
pub(super) struct Memory(NonNull<u8>);

impl Memory {
    /// Allocates memory for a layout, whose size must not be 0, and does not clear it. May sleep.
    #[inline]
    pub(super) fn new(layout: Layout) -> Result<Self> {
        // The alignment of any type of C is the least that `kmalloc()` gives.
        // SAFETY: There is nothing to be wrong with a size.
        Self::from_c(unsafe { bindings::rdma_rw_c_kmalloc(layout.size()) })
    }

    /// The same, cleared.
    #[inline]
    pub(super) fn zeroed(layout: Layout) -> Result<Self> {
        // SAFETY: As above.
        Self::from_c(unsafe { bindings::rdma_rw_c_kzalloc(layout.size()) })
    }

    /// Memory for `nr` registrations, not 0, cleared. May sleep.
    #[inline]
    pub(super) fn for_regs(nr: u32) -> Result<Self> {
        // SAFETY: As above.
        Self::from_c(unsafe { bindings::rdma_rw_c_alloc_regs(nr) })
    }

    /// What an allocation has come to.
    #[inline]
    fn from_c(start: *mut c_void) -> Result<Self> {
        // INVARIANT: What was allocated is the caller's alone.
        Ok(Self(NonNull::new(start.cast()).ok_or(ENOMEM)?))
    }

    /// Start of the memory.
    #[inline]
    pub(super) fn start(&self) -> NonNull<u8> {
        self.0
    }

    /// Leaves the memory to whoever has a pointer to its start.
    #[inline]
    pub(super) fn keep(self) {
        mem::forget(self);
    }
}

impl Drop for Memory {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: By the type invariant.
        unsafe { kfree(self.0.as_ptr()) };
    }
}

/// Frees an allocation, or nothing where the pointer is null.
///
/// # Safety
///
/// `memory` must be null or the start of an allocation of `kmalloc()` that goes out of use.
#[inline]
pub(super) unsafe fn kfree<T>(memory: *mut T) {
    // SAFETY: By this function's safety requirement.
    unsafe { bindings::kfree(memory.cast()) };
}
