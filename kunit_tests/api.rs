// SPDX-License-Identifier: GPL-2.0

//! The two implementations: what ib_core exports, and the C original.

#![expect(
    dead_code,
    reason = "two crates share this file, and neither uses all of it"
)]

use kernel::prelude::*;

use crate::bindings;

/// One implementation.
#[derive(Clone, Copy)]
pub(crate) struct Api {
    /// `rdma_rw_ctx_init`.
    pub(crate) init: unsafe extern "C" fn(
        *mut bindings::rdma_rw_ctx,
        *mut bindings::ib_qp,
        u32,
        *mut bindings::scatterlist,
        u32,
        u32,
        u64,
        u32,
        bindings::dma_data_direction,
    ) -> c_int,
    /// `rdma_rw_ctx_init_bvec`.
    pub(crate) init_bvec: unsafe extern "C" fn(
        *mut bindings::rdma_rw_ctx,
        *mut bindings::ib_qp,
        u32,
        *const bindings::bio_vec,
        u32,
        bindings::bvec_iter,
        u64,
        u32,
        bindings::dma_data_direction,
    ) -> c_int,
    /// `rdma_rw_ctx_signature_init`.
    pub(crate) signature_init: unsafe extern "C" fn(
        *mut bindings::rdma_rw_ctx,
        *mut bindings::ib_qp,
        u32,
        *mut bindings::scatterlist,
        u32,
        *mut bindings::scatterlist,
        u32,
        *mut bindings::ib_sig_attrs,
        u64,
        u32,
        bindings::dma_data_direction,
    ) -> c_int,
    /// `rdma_rw_ctx_wrs`.
    pub(crate) wrs: unsafe extern "C" fn(
        *mut bindings::rdma_rw_ctx,
        *mut bindings::ib_qp,
        u32,
        *mut bindings::ib_cqe,
        *mut bindings::ib_send_wr,
    ) -> *mut bindings::ib_send_wr,
    /// `rdma_rw_ctx_post`.
    pub(crate) post: unsafe extern "C" fn(
        *mut bindings::rdma_rw_ctx,
        *mut bindings::ib_qp,
        u32,
        *mut bindings::ib_cqe,
        *mut bindings::ib_send_wr,
    ) -> c_int,
    /// `rdma_rw_ctx_destroy`.
    pub(crate) destroy: unsafe extern "C" fn(
        *mut bindings::rdma_rw_ctx,
        *mut bindings::ib_qp,
        u32,
        *mut bindings::scatterlist,
        u32,
        bindings::dma_data_direction,
    ),
    /// `rdma_rw_ctx_destroy_bvec`.
    pub(crate) destroy_bvec: unsafe extern "C" fn(
        *mut bindings::rdma_rw_ctx,
        *mut bindings::ib_qp,
        u32,
        *const bindings::bio_vec,
        u32,
        bindings::dma_data_direction,
    ),
    /// `rdma_rw_ctx_destroy_signature`.
    pub(crate) destroy_signature: unsafe extern "C" fn(
        *mut bindings::rdma_rw_ctx,
        *mut bindings::ib_qp,
        u32,
        *mut bindings::scatterlist,
        u32,
        *mut bindings::scatterlist,
        u32,
        bindings::dma_data_direction,
    ),
    /// `rdma_rw_mr_factor`.
    pub(crate) mr_factor: unsafe extern "C" fn(*mut bindings::ib_device, u32, u32) -> u32,
    /// `rdma_rw_max_send_wr`.
    pub(crate) max_send_wr: unsafe extern "C" fn(*mut bindings::ib_device, u32, u32, u32) -> u32,
    /// What ib_core alone calls, where that can be reached.
    pub(crate) inner: Option<Inner>,
}

impl Api {
    /// Functions of several implementations: who makes contexts, who chains and posts them, and
    /// who releases them.
    pub(crate) const fn of(makes: &Self, chains: &Self, releases: &Self) -> Self {
        Self {
            wrs: chains.wrs,
            post: chains.post,
            destroy: releases.destroy,
            destroy_bvec: releases.destroy_bvec,
            destroy_signature: releases.destroy_signature,
            ..*makes
        }
    }
}

/// Functions that are not exported.
#[derive(Clone, Copy)]
pub(crate) struct Inner {
    /// `rdma_rw_init_qp`.
    pub(crate) init_qp:
        unsafe extern "C" fn(*mut bindings::ib_device, *mut bindings::ib_qp_init_attr),
    /// `rdma_rw_init_mrs`.
    pub(crate) init_mrs:
        unsafe extern "C" fn(*mut bindings::ib_qp, *mut bindings::ib_qp_init_attr) -> c_int,
    /// `rdma_rw_cleanup_mrs`.
    pub(crate) cleanup_mrs: unsafe extern "C" fn(*mut bindings::ib_qp),
}

/// What ib_core has.
pub(crate) static EXPORTED: Api = Api {
    init: bindings::rdma_rw_ctx_init,
    init_bvec: bindings::rdma_rw_ctx_init_bvec,
    signature_init: bindings::rdma_rw_ctx_signature_init,
    wrs: bindings::rdma_rw_ctx_wrs,
    post: bindings::rdma_rw_ctx_post,
    destroy: bindings::rdma_rw_ctx_destroy,
    destroy_bvec: bindings::rdma_rw_ctx_destroy_bvec,
    destroy_signature: bindings::rdma_rw_ctx_destroy_signature,
    mr_factor: bindings::rdma_rw_mr_factor,
    max_send_wr: bindings::rdma_rw_max_send_wr,
    #[cfg(not(MODULE))]
    inner: Some(Inner {
        init_qp: bindings::rdma_rw_init_qp,
        init_mrs: bindings::rdma_rw_init_mrs,
        cleanup_mrs: bindings::rdma_rw_cleanup_mrs,
    }),
    #[cfg(MODULE)]
    inner: None,
};

/// The C original.
pub(crate) static REFEREE: Api = Api {
    init: bindings::c_rdma_rw_ctx_init,
    init_bvec: bindings::c_rdma_rw_ctx_init_bvec,
    signature_init: bindings::c_rdma_rw_ctx_signature_init,
    wrs: bindings::c_rdma_rw_ctx_wrs,
    post: bindings::c_rdma_rw_ctx_post,
    destroy: bindings::c_rdma_rw_ctx_destroy,
    destroy_bvec: bindings::c_rdma_rw_ctx_destroy_bvec,
    destroy_signature: bindings::c_rdma_rw_ctx_destroy_signature,
    mr_factor: bindings::c_rdma_rw_mr_factor,
    max_send_wr: bindings::c_rdma_rw_max_send_wr,
    inner: Some(Inner {
        init_qp: bindings::c_rdma_rw_init_qp,
        init_mrs: bindings::c_rdma_rw_init_mrs,
        cleanup_mrs: bindings::c_rdma_rw_cleanup_mrs,
    }),
};
