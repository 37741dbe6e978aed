// SPDX-License-Identifier: GPL-2.0

//! Filling and emptying the MR pools of a QP.

use core::mem;

use kernel::error::to_result;
use kernel::prelude::*;

use super::{
    mr::Pool,
    sizing,
    Qp, //
};
use crate::bindings;

/// A pool that has been filled; emptied on drop.
struct Filled<'a> {
    qp: &'a Qp,
    pool: Pool,
}

impl<'a> Filled<'a> {
    /// Fills a pool with `nr` MRs of `pages` pages each.
    fn new(qp: &'a Qp, pool: Pool, nr: u32, pages: u32) -> Result<Self> {
        let (kind, meta_pages) = match pool {
            Pool::Data => (bindings::ib_mr_type_IB_MR_TYPE_MEM_REG, 0),
            Pool::Integrity => (bindings::ib_mr_type_IB_MR_TYPE_INTEGRITY, pages),
        };
        let list = pool.list(qp);

        // SAFETY: The QP and its list are valid, and the list belongs to the QP. After an error
        // the pool is empty again.
        to_result(unsafe {
            bindings::ib_mr_pool_init(
                qp.as_raw(),
                list,
                i32::try_from(nr)?,
                kind,
                pages,
                meta_pages,
            )
        })
        .inspect_err(|_| {
            pr_err!(
                "no {nr} MRs of {pages} pages for a QP's {} pool\n",
                pool.name()
            )
        })?;

        Ok(Self { qp, pool })
    }

    /// Leaves the MRs with the QP.
    fn keep(self) {
        mem::forget(self);
    }
}

impl Drop for Filled<'_> {
    fn drop(&mut self) {
        // SAFETY: The QP and its list are valid. The MRs go back where they came from.
        unsafe { bindings::ib_mr_pool_destroy(self.qp.as_raw(), self.pool.list(self.qp)) };
    }
}

/// See [`crate::rdma_rw_init_mrs`].
pub(crate) fn fill(qp: &Qp, attr: &bindings::ib_qp_init_attr) -> Result {
    let device = qp.device();
    let nr = attr.cap.max_rdma_ctxs;
    let integrity = sizing::has_integrity(attr.create_flags);

    if nr == 0 || !(integrity || device.may_use_mrs(device.protocol(attr.port_num))) {
        return Ok(());
    }

    // The send queue was sized by C, without a thought of MRs.
    if cfg!(rdma_rw_takeover)
        && !integrity
        && !device.has_use_for_mrs(device.protocol(attr.port_num))
    {
        let wrs = sizing::max_send_wr(device, attr.port_num, nr, attr.create_flags);

        if attr.cap.max_send_wr < wrs.min(device.max_qp_wr()) {
            return Ok(());
        }
    }

    let pages = device.mr_pages(integrity).get();
    let data = Filled::new(qp, Pool::Data, nr, pages)?;

    if integrity {
        Filled::new(qp, Pool::Integrity, nr, pages)?.keep();
    }
    data.keep();
    Ok(())
}

/// See [`crate::rdma_rw_cleanup_mrs`].
pub(crate) fn empty(qp: &Qp) {
    // Dropping the guards is what empties the pools, filled or not.
    for pool in [Pool::Integrity, Pool::Data] {
        drop(Filled { qp, pool });
    }
}
