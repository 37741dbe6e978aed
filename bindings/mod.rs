// SPDX-License-Identifier: GPL-2.0

//! What C declares, as `bindgen` sees it, and the proof that the C compiler sees the same.
//!
//! C headers: [`include/rdma/rw.h`](srctree/include/rdma/rw.h),
//! [`include/rdma/ib_verbs.h`](srctree/include/rdma/ib_verbs.h),
//! [`include/rdma/mr_pool.h`](srctree/include/rdma/mr_pool.h).

#[allow(
    clippy::all,
    clippy::as_underscore,
    clippy::cast_lossless,
    clippy::ptr_as_ptr,
    clippy::ref_as_ptr,
    clippy::undocumented_unsafe_blocks,
    dead_code,
    improper_ctypes,
    missing_docs,
    non_camel_case_types,
    non_snake_case,
    non_upper_case_globals,
    unreachable_pub,
    unsafe_op_in_unsafe_fn,
    reason = "generated code follows the headers, not the guidelines"
)]
mod generated {
    use kernel::ffi;

    // Blocklisted, so that they become `usize` and `isize` on every architecture.
    type __kernel_size_t = usize;
    type __kernel_ssize_t = isize;
    type __kernel_ptrdiff_t = isize;

    include!(concat!(env!("RDMA_RW_GENERATED"), "/bindings_generated.rs"));
}

pub(crate) use generated::*;

/// `struct rdma_rw_reg_ctx`, which the header declares inside `struct rdma_rw_ctx`.
pub(crate) use generated::rdma_rw_ctx__bindgen_ty_1_rdma_rw_reg_ctx as rdma_rw_reg_ctx;

/// Layouts as the C compiler sees them, from `bindings/layout.c`.
#[allow(dead_code, reason = "constants without a name do not count as a use")]
mod c_layout {
    include!(concat!(env!("RDMA_RW_GENERATED"), "/layout_generated.rs"));
}

/// Compares sizes and offsets with those of the C compiler; what differs does not build.
macro_rules! same_layout {
    ($($name:ident: $ty:ty $(, $($field:tt).+)?;)*) => {
        $(const _: () = assert!(
            same_layout!(@value $ty $(, $($field).+)?) == c_layout::$name,
            concat!(stringify!($name), ": bindgen and the C compiler disagree"),
        );)*
    };
    (@value $ty:ty) => { ::core::mem::size_of::<$ty>() };
    (@value $ty:ty, $($field:tt).+) => { ::core::mem::offset_of!($ty, $($field).+) };
}

same_layout! {
    SIZE_CTX: rdma_rw_ctx;
    AT_CTX_NR_OPS: rdma_rw_ctx, nr_ops;
    AT_CTX_TYPE: rdma_rw_ctx, type_;
    AT_CTX_SINGLE_SGE: rdma_rw_ctx, __bindgen_anon_1.single.sge;
    AT_CTX_SINGLE_WR: rdma_rw_ctx, __bindgen_anon_1.single.wr;
    AT_CTX_MAP_SGES: rdma_rw_ctx, __bindgen_anon_1.map.sges;
    AT_CTX_MAP_WRS: rdma_rw_ctx, __bindgen_anon_1.map.wrs;
    AT_CTX_IOVA_STATE: rdma_rw_ctx, __bindgen_anon_1.iova.state;
    AT_CTX_IOVA_SGE: rdma_rw_ctx, __bindgen_anon_1.iova.sge;
    AT_CTX_IOVA_WR: rdma_rw_ctx, __bindgen_anon_1.iova.wr;
    AT_CTX_IOVA_MAPPED_LEN: rdma_rw_ctx, __bindgen_anon_1.iova.mapped_len;
    AT_CTX_REG: rdma_rw_ctx, __bindgen_anon_1.reg;

    SIZE_REG: rdma_rw_reg_ctx;
    AT_REG_SGE: rdma_rw_reg_ctx, sge;
    AT_REG_WR: rdma_rw_reg_ctx, wr;
    AT_REG_REG_WR: rdma_rw_reg_ctx, reg_wr;
    AT_REG_INV_WR: rdma_rw_reg_ctx, inv_wr;
    AT_REG_MR: rdma_rw_reg_ctx, mr;
    AT_REG_SGT: rdma_rw_reg_ctx, sgt;

    SIZE_SGE: ib_sge;
    SIZE_SEND_WR: ib_send_wr;
    AT_SEND_WR_CQE: ib_send_wr, __bindgen_anon_1.wr_cqe;
    AT_SEND_WR_SG_LIST: ib_send_wr, sg_list;
    AT_SEND_WR_NUM_SGE: ib_send_wr, num_sge;
    AT_SEND_WR_OPCODE: ib_send_wr, opcode;
    AT_SEND_WR_SEND_FLAGS: ib_send_wr, send_flags;
    AT_SEND_WR_EX: ib_send_wr, ex;
    SIZE_RDMA_WR: ib_rdma_wr;
    AT_RDMA_WR_REMOTE_ADDR: ib_rdma_wr, remote_addr;
    AT_RDMA_WR_RKEY: ib_rdma_wr, rkey;
    SIZE_REG_WR: ib_reg_wr;
    AT_REG_WR_MR: ib_reg_wr, mr;
    AT_REG_WR_KEY: ib_reg_wr, key;
    AT_REG_WR_ACCESS: ib_reg_wr, access;

    AT_QP_DEVICE: ib_qp, device;
    AT_QP_PD: ib_qp, pd;
    AT_QP_MR_LOCK: ib_qp, mr_lock;
    AT_QP_MRS_USED: ib_qp, mrs_used;
    AT_QP_RDMA_MRS: ib_qp, rdma_mrs;
    AT_QP_SIG_MRS: ib_qp, sig_mrs;
    AT_QP_MAX_WRITE_SGE: ib_qp, max_write_sge;
    AT_QP_MAX_READ_SGE: ib_qp, max_read_sge;
    AT_QP_INTEGRITY_EN: ib_qp, integrity_en;
    AT_PD_DEVICE: ib_pd, device;
    AT_PD_LKEY: ib_pd, local_dma_lkey;

    AT_DEVICE_DMA_DEVICE: ib_device, dma_device;
    AT_DEVICE_PORT_DATA: ib_device, port_data;
    AT_DEVICE_ATTRS: ib_device, attrs;
    AT_DEVICE_PORT_CNT: ib_device, phys_port_cnt;
    SIZE_PORT_DATA: ib_port_data;
    AT_PORT_CAP_FLAGS: ib_port_data, immutable.core_cap_flags;
    AT_ATTR_MAX_QP_WR: ib_device_attr, max_qp_wr;
    AT_ATTR_MAX_SGE_RD: ib_device_attr, max_sge_rd;
    AT_ATTR_MAX_SGL_RD: ib_device_attr, max_sgl_rd;
    AT_ATTR_FR_PAGES: ib_device_attr, max_fast_reg_page_list_len;
    AT_ATTR_PI_FR_PAGES: ib_device_attr, max_pi_fast_reg_page_list_len;

    SIZE_INIT_ATTR: ib_qp_init_attr;
    AT_INIT_ATTR_CREATE_FLAGS: ib_qp_init_attr, create_flags;
    AT_INIT_ATTR_PORT_NUM: ib_qp_init_attr, port_num;
    AT_INIT_ATTR_MAX_SEND_WR: ib_qp_init_attr, cap.max_send_wr;
    AT_INIT_ATTR_MAX_RDMA_CTXS: ib_qp_init_attr, cap.max_rdma_ctxs;

    AT_MR_LKEY: ib_mr, lkey;
    AT_MR_RKEY: ib_mr, rkey;
    AT_MR_IOVA: ib_mr, iova;
    AT_MR_LENGTH: ib_mr, length;
    AT_MR_NEED_INVAL: ib_mr, need_inval;
    AT_MR_QP_ENTRY: ib_mr, __bindgen_anon_1.qp_entry;
    AT_MR_SIG_ATTRS: ib_mr, sig_attrs;
    SIZE_SIG_ATTRS: ib_sig_attrs;
    AT_SIG_ATTRS_META_LENGTH: ib_sig_attrs, meta_length;
    AT_SIG_ATTRS_WIRE: ib_sig_attrs, wire;

    SIZE_SG: scatterlist;
    AT_SG_OFFSET: scatterlist, offset;
    AT_SG_LENGTH: scatterlist, length;
    AT_SG_DMA_ADDRESS: scatterlist, dma_address;
    SIZE_SGT: sg_table;
    AT_SGT_NENTS: sg_table, nents;
    AT_SGT_ORIG_NENTS: sg_table, orig_nents;
    SIZE_BVEC: bio_vec;
    AT_BVEC_LEN: bio_vec, bv_len;
    AT_BVEC_OFFSET: bio_vec, bv_offset;
    SIZE_BVEC_ITER: bvec_iter;
    AT_BVEC_ITER_SIZE: bvec_iter, bi_size;
    AT_BVEC_ITER_IDX: bvec_iter, bi_idx;
    AT_BVEC_ITER_OFFSET: bvec_iter, bi_offset;
    SIZE_PAGE: page;
    SIZE_IOVA_STATE: dma_iova_state;
}
