// SPDX-License-Identifier: GPL-2.0

//! Counting contexts, in the form of this project that takes over from C on a running kernel. In
//! the other one there is nothing to this.

use crate::bindings;

/// Counts a context that has just been given its tag.
///
/// # Safety
///
/// `ctx` must be writable, with a tag that is known.
#[inline]
pub(super) unsafe fn made(ctx: *mut bindings::rdma_rw_ctx) {
    #[cfg(rdma_rw_takeover)]
    // SAFETY: By this function's safety requirement.
    unsafe {
        bindings::rdma_rw_c_count_made(ctx);
    }
    let _ = ctx;
}

/// Counts a context that is about to be released, by whichever side it was made.
///
/// # Safety
///
/// As for [`made`].
#[inline]
pub(super) unsafe fn released(ctx: *mut bindings::rdma_rw_ctx) {
    #[cfg(rdma_rw_takeover)]
    // SAFETY: By this function's safety requirement.
    unsafe {
        bindings::rdma_rw_c_count_released(ctx);
    }
    let _ = ctx;
}
