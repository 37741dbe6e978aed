// SPDX-License-Identifier: GPL-2.0

//! How many MRs and send queue entries contexts take.
//!
//! These numbers, the choice of path in [`super::transfer`] and the pools of [`super::mr_pools`]
//! have to agree, or send queues overflow. All of them ask [`Device::may_use_mrs`] and
//! [`Device::mr_pages`].

use core::num::NonZeroU32;

use super::{
    device::{
        force_mr,
        Protocol, //
    },
    warn_on_once,
    Device, //
};
use crate::bindings;

/// Divides and rounds up.
#[inline]
pub(super) fn div_round_up(n: u32, by: NonZeroU32) -> u32 {
    match n.checked_add(by.get() - 1) {
        Some(sum) => sum / by,
        // `by` is not 1 here, so the quotient is at most half of `u32::MAX`.
        None => (n / by).wrapping_add(u32::from(n % by != 0)),
    }
}

/// See [`crate::rdma_rw_mr_factor`].
pub(crate) fn mr_factor(device: &Device, port_num: u32, max_pages: u32) -> u32 {
    /// For a port that there is not; apart, so that nothing is kept across the warning elsewhere.
    #[cold]
    #[inline(never)]
    fn warned(device: &Device, port_num: u32, max_pages: u32) -> u32 {
        mr_factor_of(device, device.protocol(port_num), max_pages)
    }

    match device.protocol_of(port_num) {
        Some(protocol) => mr_factor_of(device, protocol, max_pages),
        None => warned(device, port_num, max_pages),
    }
}

#[inline(always)]
fn mr_factor_of(device: &Device, protocol: Protocol, max_pages: u32) -> u32 {
    /// Apart, so that the other way is without a jump.
    #[cold]
    #[inline(never)]
    fn of_mrs(device: &Device, max_pages: u32) -> u32 {
        div_round_up(max_pages, device.mr_pages(false))
    }

    if cfg!(rdma_rw_takeover) && force_mr() && !device.has_use_for_mrs(protocol) {
        // C gets the QP back one day, and may do without MRs then.
        let pages = device.mr_pages(false).min(device.max_sge_rd());

        div_round_up(max_pages, pages)
    } else if device.may_use_mrs(protocol) {
        of_mrs(device, max_pages)
    } else {
        div_round_up(max_pages, device.max_sge_rd())
    }
}

/// See [`crate::rdma_rw_max_send_wr`].
pub(crate) fn max_send_wr(
    device: &Device,
    port_num: u32,
    max_rdma_ctxs: u32,
    create_flags: u32,
) -> u32 {
    /// As in [`mr_factor`].
    #[cold]
    #[inline(never)]
    fn warned(device: &Device, port_num: u32, max_rdma_ctxs: u32) -> u32 {
        max_send_wr_of(device.may_use_mrs(device.protocol(port_num)), max_rdma_ctxs)
    }

    if has_integrity(create_flags) {
        return max_send_wr_of(true, max_rdma_ctxs);
    }
    match device.protocol_of(port_num) {
        Some(protocol) => max_send_wr_of(device.may_use_mrs(protocol), max_rdma_ctxs),
        None => warned(device, port_num, max_rdma_ctxs),
    }
}

#[inline(always)]
fn max_send_wr_of(use_mrs: bool, max_rdma_ctxs: u32) -> u32 {
    /// Apart, as in [`mr_factor_of`].
    #[cold]
    #[inline(never)]
    fn of_mrs(max_rdma_ctxs: u32) -> u32 {
        // The transfer itself, and the invalidation and the registration of an MR.
        max_rdma_ctxs.saturating_mul(3)
    }

    if use_mrs {
        of_mrs(max_rdma_ctxs)
    } else {
        max_rdma_ctxs
    }
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
