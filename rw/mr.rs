// SPDX-License-Identifier: GPL-2.0

//! MRs taken from the pools of a QP.

use core::mem;
use core::ptr::NonNull;

use super::Qp;
use crate::bindings;

/// The MR pools of a QP.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Pool {
    /// `rdma_mrs`: MRs for data alone.
    Data,
    /// `sig_mrs`: MRs for data with protection information.
    Integrity,
}

impl Pool {
    /// What the pool is called in messages.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Data => "data",
            Self::Integrity => "integrity",
        }
    }

    /// The list of a QP that is this pool.
    #[inline]
    pub(super) fn list(self, qp: &Qp) -> *mut bindings::list_head {
        let raw = qp.as_raw();

        // SAFETY: A `Qp` lies over a valid queue pair.
        unsafe {
            match self {
                Self::Data => &raw mut (*raw).rdma_mrs,
                Self::Integrity => &raw mut (*raw).sig_mrs,
            }
        }
    }
}

/// An MR that is out of its pool; goes back on drop.
///
/// # Invariants
///
/// `raw` is valid, was taken from `pool` of `qp`, and nobody else uses it.
pub(super) struct Mr<'a> {
    qp: &'a Qp,
    pool: Pool,
    raw: NonNull<bindings::ib_mr>,
}

impl<'a> Mr<'a> {
    /// Takes an MR; none where the pool is empty. Never waits.
    #[inline]
    pub(super) fn take(qp: &'a Qp, pool: Pool) -> Option<Self> {
        // SAFETY: The QP is valid and the list is a pool of it.
        let raw = unsafe { bindings::ib_mr_pool_get(qp.as_raw(), pool.list(qp)) };

        // INVARIANT: What a pool hands out is valid and the taker's alone.
        NonNull::new(raw).map(|raw| Self { qp, pool, raw })
    }

    /// Takes charge of an MR that [`Mr::keep`] gave to a context.
    ///
    /// # Safety
    ///
    /// `raw` must come from `keep` of an MR of this pool of `qp`, and be in nobody else's charge.
    #[inline]
    pub(super) unsafe fn from_kept(qp: &'a Qp, pool: Pool, raw: NonNull<bindings::ib_mr>) -> Self {
        // INVARIANT: By this function's safety requirement.
        Self { qp, pool, raw }
    }

    /// The MR as C takes it.
    #[inline]
    pub(super) fn as_raw(&self) -> *mut bindings::ib_mr {
        self.raw.as_ptr()
    }

    /// Leaves the MR out of its pool, in the charge of whoever keeps the pointer.
    #[inline]
    pub(super) fn keep(self) -> NonNull<bindings::ib_mr> {
        let raw = self.raw;

        mem::forget(self);
        raw
    }
}

impl Drop for Mr<'_> {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: By the type invariant the MR is out of this pool of this QP.
        unsafe {
            bindings::ib_mr_pool_put(self.qp.as_raw(), self.pool.list(self.qp), self.raw.as_ptr());
        }
    }
}
