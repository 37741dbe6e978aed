// SPDX-License-Identifier: GPL-2.0

//! A device with a queue pair, and what every test wants of it at the end.

use core::mem::offset_of;
use core::ptr::{
    self,
    NonNull, //
};

use kernel::error::from_err_ptr;
use kernel::prelude::*;
use kernel::str::CStrExt;

use crate::bindings;
use crate::kunit::Test;
use crate::mock::{
    Mock,
    Profile, //
};
use crate::target;

/// What a queue pair is created with.
#[derive(Clone, Copy, Debug)]
pub(crate) struct QpSpec {
    /// `max_send_sge`.
    pub(crate) sges: u32,
    /// `max_rdma_ctxs`.
    pub(crate) ctxs: u32,
    /// `max_send_wr`, apart from what contexts need.
    pub(crate) wrs: u32,
    /// With `IB_QP_CREATE_INTEGRITY_EN`.
    pub(crate) integrity: bool,
}

impl QpSpec {
    /// One with as many SGEs as the device offers and room for `ctxs` contexts.
    pub(crate) const fn of(profile: &Profile, ctxs: u32) -> Self {
        Self {
            sges: profile.max_sge,
            ctxs,
            wrs: 64,
            integrity: false,
        }
    }

    /// The same with another number of SGEs.
    pub(crate) const fn sges(mut self, sges: u32) -> Self {
        self.sges = sges;
        self
    }

    /// The same for protection information.
    pub(crate) const fn integrity(mut self) -> Self {
        self.integrity = true;
        self
    }
}

/// The name that ib_core keeps for the owner of an object.
fn owner() -> *const c_char {
    c"rdma_rw_kunit".as_char_ptr()
}

/// A queue pair; destroyed on drop.
pub(crate) struct Qp {
    raw: NonNull<bindings::ib_qp>,
    /// MRs in its pools when it was new.
    pool: (u32, u32),
}

impl Qp {
    /// The queue pair as C takes it.
    pub(crate) fn as_raw(&self) -> *mut bindings::ib_qp {
        self.raw.as_ptr()
    }

    /// Number of MRs that are out of their pool.
    pub(crate) fn mrs_used(&self) -> i32 {
        // SAFETY: It is valid, and nobody else uses it while a test looks.
        unsafe { (*self.as_raw()).mrs_used }
    }

    /// Number of MRs in the pool for data, and in that for protection information.
    pub(crate) fn pools(&self) -> (u32, u32) {
        let len = |list: *mut bindings::list_head| {
            let mut n = 0;
            // SAFETY: A list of a queue pair that nobody else uses while a test looks.
            unsafe {
                let mut next = (*list).next;

                while !ptr::eq(next, list) {
                    n += 1;
                    next = (*next).next;
                }
            }
            n
        };

        // SAFETY: It is valid.
        unsafe {
            (
                len(&raw mut (*self.as_raw()).rdma_mrs),
                len(&raw mut (*self.as_raw()).sig_mrs),
            )
        }
    }

    /// Takes MRs out of the pool for data until `left` are there.
    pub(crate) fn drain(&self, left: u32) -> Result<Drained<'_>> {
        // SAFETY: It is valid.
        let pool = unsafe { &raw mut (*self.as_raw()).rdma_mrs };

        self.drain_pool(pool, self.pools().0.saturating_sub(left))
    }

    /// The same for the pool for protection information.
    pub(crate) fn drain_signature(&self, left: u32) -> Result<Drained<'_>> {
        // SAFETY: It is valid.
        let pool = unsafe { &raw mut (*self.as_raw()).sig_mrs };

        self.drain_pool(pool, self.pools().1.saturating_sub(left))
    }

    /// Takes so many MRs out of a pool.
    fn drain_pool(&self, pool: *mut bindings::list_head, nr: u32) -> Result<Drained<'_>> {
        let mut drained = Drained {
            qp: self,
            pool,
            mrs: KVVec::with_capacity(nr as usize, GFP_KERNEL)?,
        };

        for _ in 0..nr {
            // SAFETY: It is valid, and the list is a pool of it.
            let mr = unsafe { bindings::ib_mr_pool_get(self.as_raw(), pool) };

            if mr.is_null() {
                return Err(EINVAL);
            }
            let _ = drained.mrs.push_within_capacity(mr);
        }
        Ok(drained)
    }

    /// Sum of the keys of all MRs of the pool for data, and number of those that have to be
    /// invalidated before their next use.
    pub(crate) fn mr_state(&self) -> (u64, u32) {
        let mut state = (0, 0);

        // SAFETY: A list of a queue pair that nobody else uses while a test looks, of MRs.
        unsafe {
            let list = &raw mut (*self.as_raw()).rdma_mrs;
            let mut next = (*list).next;

            while !ptr::eq(next, list) {
                let mr = next
                    .byte_sub(offset_of!(bindings::ib_mr, __bindgen_anon_1.qp_entry))
                    .cast::<bindings::ib_mr>();

                state.0 += u64::from((*mr).lkey);
                state.1 += u32::from((*mr).need_inval);
                next = (*next).next;
            }
        }
        state
    }
}

impl Drop for Qp {
    fn drop(&mut self) {
        // SAFETY: It is valid, and its user is done with it.
        unsafe { bindings::ib_destroy_qp_user(self.as_raw(), ptr::null_mut()) };
    }
}

/// MRs that are kept from their pool; they go back on drop.
pub(crate) struct Drained<'a> {
    qp: &'a Qp,
    pool: *mut bindings::list_head,
    mrs: KVVec<*mut bindings::ib_mr>,
}

impl Drop for Drained<'_> {
    fn drop(&mut self) {
        for mr in self.mrs.iter().rev() {
            // SAFETY: They were taken from this pool.
            unsafe { bindings::ib_mr_pool_put(self.qp.as_raw(), self.pool, *mr) };
        }
    }
}

/// A protection domain; deallocated on drop.
struct Pd(NonNull<bindings::ib_pd>);

impl Drop for Pd {
    fn drop(&mut self) {
        // SAFETY: It is valid, and what was made in it is gone.
        unsafe { bindings::ib_dealloc_pd_user(self.0.as_ptr(), ptr::null_mut()) };
    }
}

/// A completion queue; destroyed on drop.
struct Cq(NonNull<bindings::ib_cq>);

impl Drop for Cq {
    fn drop(&mut self) {
        // SAFETY: It is valid, and what used it is gone.
        unsafe { bindings::ib_destroy_cq_user(self.0.as_ptr(), ptr::null_mut()) };
    }
}

/// A device with a queue pair.
///
/// The order of the members is that in which they are taken down.
pub(crate) struct Rig {
    pub(crate) qp: Qp,
    pd: Pd,
    cq: Cq,
    pub(crate) mock: Mock,
}

/// The object behind a pointer that may be an error, or null.
fn object<T>(raw: *mut T) -> Result<NonNull<T>> {
    NonNull::new(from_err_ptr(raw.cast::<c_void>())?.cast()).ok_or(ENOMEM)
}

impl Rig {
    /// Registers a device and creates a queue pair of it.
    pub(crate) fn new(profile: Profile, spec: QpSpec) -> Result<Self> {
        let mock = Mock::new(profile)?;
        // rw.c names an old key.
        mock.invalidate_by_sge(!target::get()?.is_rust());
        // SAFETY: The device is registered.
        let pd = Pd(object(unsafe {
            bindings::__ib_alloc_pd(mock.as_raw(), 0, owner())
        })?);
        let attr = bindings::ib_cq_init_attr {
            cqe: 16,
            // SAFETY: Numbers.
            ..unsafe { core::mem::zeroed() }
        };
        // SAFETY: The device is registered. There is nobody to be called.
        let cq = Cq(object(unsafe {
            bindings::__ib_create_cq(mock.as_raw(), None, None, ptr::null_mut(), &attr, owner())
        })?);
        let qp = create_qp(&pd, &cq, spec)?;

        Ok(Self { qp, pd, cq, mock })
    }

    /// Creates another queue pair.
    pub(crate) fn add_qp(&self, spec: QpSpec) -> Result<Qp> {
        create_qp(&self.pd, &self.cq, spec)
    }

    /// What every test wants at its end: no mapping left, all MRs in their pools, and a device that
    /// has nothing to complain about.
    #[track_caller]
    pub(crate) fn finish(&self, test: &Test) {
        test.expect_eq("number of mappings left", self.mock.live_mappings(), 0);
        test.expect_eq("number of MRs out of their pool", self.qp.mrs_used(), 0);
        test.expect_eq("MRs in the pools", self.qp.pools(), self.qp.pool);
        self.expect_no_faults(test);
    }

    /// Fails the test if the device has something to complain about.
    #[track_caller]
    pub(crate) fn expect_no_faults(&self, test: &Test) {
        if let (nr, Some(first)) = self.mock.take_faults() {
            test.fail(fmt!(
                "the device found {nr} faults, first: {} ({:#x})",
                first.what,
                first.value
            ));
        }
    }
}

/// Creates a queue pair.
fn create_qp(pd: &Pd, cq: &Cq, spec: QpSpec) -> Result<Qp> {
    // SAFETY: Zeroes mean no pointers and numbers of 0.
    let mut attr: bindings::ib_qp_init_attr = unsafe { core::mem::zeroed() };

    attr.send_cq = cq.0.as_ptr();
    attr.recv_cq = cq.0.as_ptr();
    attr.qp_type = bindings::ib_qp_type_IB_QPT_RC;
    attr.sq_sig_type = bindings::ib_sig_type_IB_SIGNAL_REQ_WR;
    attr.port_num = 1;
    attr.cap.max_send_wr = spec.wrs;
    attr.cap.max_send_sge = spec.sges;
    attr.cap.max_rdma_ctxs = spec.ctxs;
    if spec.integrity {
        // CAST: A flag.
        attr.create_flags = bindings::ib_qp_create_flags_IB_QP_CREATE_INTEGRITY_EN as u32;
    }
    // SAFETY: The PD and the CQ are valid.
    let raw = object(unsafe { bindings::ib_create_qp_kernel(pd.0.as_ptr(), &mut attr, owner()) })?;
    let mut qp = Qp { raw, pool: (0, 0) };

    qp.pool = qp.pools();
    Ok(qp)
}
