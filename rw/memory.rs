// SPDX-License-Identifier: GPL-2.0

//! Allocations that end up in a context, where C frees them with `kfree()` just as Rust does.

use core::alloc::Layout;
use core::mem;
use core::ptr::NonNull;
use core::slice;

use kernel::prelude::*;

use crate::bindings;

/// An allocation of `kmalloc()`, not zeroed; freed on drop.
///
/// # Invariants
///
/// The pointer is the start of an allocation that nobody else has.
pub(super) struct Memory(NonNull<u8>);

impl Memory {
    /// Allocates memory for a layout, whose size must not be 0. May sleep.
    #[inline]
    pub(super) fn new(layout: Layout) -> Result<Self> {
        // The alignment of any type of C is the least that `kmalloc()` gives.
        // SAFETY: There is nothing to be wrong with a size.
        let start = unsafe { bindings::rdma_rw_c_kmalloc(layout.size()) };

        // INVARIANT: What was allocated is this caller's alone.
        Ok(Self(NonNull::new(start.cast()).ok_or(ENOMEM)?))
    }

    /// Start of the memory.
    #[inline]
    pub(super) fn start(&self) -> NonNull<u8> {
        self.0
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

/// A growing array in one allocation.
///
/// # Invariants
///
/// The allocation has room for `capacity` elements, of which the first `len` are written.
pub(super) struct Array<T: Copy> {
    _memory: Memory,
    start: NonNull<T>,
    len: u32,
    capacity: u32,
}

impl<T: Copy> Array<T> {
    /// An empty array with room for `capacity` elements, not 0. May sleep.
    #[inline]
    pub(super) fn new(capacity: u32) -> Result<Self> {
        let memory = Memory::new(Layout::array::<T>(capacity as usize).map_err(|_| ENOMEM)?)?;

        // INVARIANT: The layout says as much.
        Ok(Self {
            start: memory.start().cast(),
            _memory: memory,
            len: 0,
            capacity,
        })
    }

    /// Adds an element, which is made in its place. Moves the others where there is no room, which
    /// may sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM`, with the array as it was.
    #[inline]
    pub(super) fn push_with(&mut self, element: impl FnOnce() -> T) -> Result {
        if self.len >= self.capacity {
            self.grow()?;
        }

        // SAFETY: By the type invariant there is room for this element.
        unsafe { self.start.add(self.len as usize).write(element()) };
        // INVARIANT: One more is written. The sum is at most `capacity`.
        self.len = self.len.wrapping_add(1);
        Ok(())
    }

    /// Makes room for as many elements again as there are.
    #[cold]
    fn grow(&mut self) -> Result {
        let mut larger = Self::new(self.capacity.checked_mul(2).ok_or(ENOMEM)?)?;

        // SAFETY: Both are arrays of their own, with that many elements or more.
        unsafe {
            larger
                .start
                .copy_from_nonoverlapping(self.start, self.len as usize);
        }
        // INVARIANT: That many elements are written.
        larger.len = self.len;
        *self = larger;
        Ok(())
    }

    /// The elements.
    #[inline]
    pub(super) fn as_mut_slice(&mut self) -> &mut [T] {
        // SAFETY: By the type invariant.
        unsafe { slice::from_raw_parts_mut(self.start.as_ptr(), self.len as usize) }
    }

    /// Number of elements.
    #[inline]
    pub(super) fn len(&self) -> u32 {
        self.len
    }

    /// Leaves the array to whoever has a pointer to its first element, which is the start of the
    /// allocation.
    #[inline]
    pub(super) fn keep(self) {
        mem::forget(self);
    }
}
