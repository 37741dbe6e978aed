// SPDX-License-Identifier: GPL-2.0

//! How many MRs and send queue entries contexts take.
//!
//! These numbers, the choice of path in [`super::transfer`] and the pools of [`super::mr_pools`]
//! have to agree, or send queues overflow. All of them ask [`Device::may_use_mrs`] and
//! [`Device::mr_pages`].

use core::num::NonZeroU32;

use super::{
    device::force_mr,
    warn_on_once,
    Device, //
};
use crate::bindings;

/// Divides and rounds up.
#[inline]
pub(super) fn div_round_up(n: u32, by: NonZeroU32) -> u32 {
    // With `by` of 1 there is no remainder, otherwise the quotient is at most half of `u32::MAX`:
    // the sum does not wrap.
    (n / by).wrapping_add(u32::from(n % by != 0))
}

/// See [`crate::rdma_rw_mr_factor`].
pub(crate) fn mr_factor(device: &Device, port_num: u32, max_pages: u32) -> u32 {
    let pages = if device.has_use_for_mrs(port_num) {
        device.mr_pages(false)
    } else if !force_mr() {
        device.max_sge_rd()
    } else if cfg!(rdma_rw_takeover) {
        // C gets the QP back one day, and may do without MRs then.
        device.mr_pages(false).min(device.max_sge_rd())
    } else {
        device.mr_pages(false)
    };

    div_round_up(max_pages, pages)
}

/// See [`crate::rdma_rw_max_send_wr`].
pub(crate) fn max_send_wr(
    device: &Device,
    port_num: u32,
    max_rdma_ctxs: u32,
    create_flags: u32,
) -> u32 {
    // The transfer itself, and where MRs come into play their invalidation and registration.
    let per_ctx = if has_integrity(create_flags) || device.may_use_mrs(port_num) {
        3
    } else {
        1
    };

    max_rdma_ctxs.saturating_mul(per_ctx)
}

/// See [`crate::rdma_rw_init_qp`].
pub(crate) fn init_qp(device: &Device, attr: &mut bindings::ib_qp_init_attr) {
    warn_on_once!(attr.port_num == 0);

    let cap = &mut attr.cap;
    let rdma_wrs = max_send_wr(device, attr.port_num, cap.max_rdma_ctxs, attr.create_flags);

    // Where the device has less than is needed, callers live with what there is.
    cap.max_send_wr = cap
        .max_send_wr
        .saturating_add(rdma_wrs)
        .min(device.max_qp_wr());
}

/// Whether a QP made with these flags carries protection information.
pub(super) fn has_integrity(create_flags: u32) -> bool {
    // CAST: The C type of the constant has a sign for the sake of another flag.
    create_flags & bindings::ib_qp_create_flags_IB_QP_CREATE_INTEGRITY_EN as u32 != 0
}
