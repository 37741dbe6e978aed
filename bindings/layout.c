// SPDX-License-Identifier: GPL-2.0
/*
 * Sizes and offsets as the kernel's C compiler lays them out. Never linked:
 * its assembly becomes layout_generated.rs, and bindings/mod.rs refuses to
 * build where bindgen saw anything else.
 */
#define COMPILE_OFFSETS
#include <linux/kbuild.h>

#include "bindings_helper.h"

#define SIZE(name, type)	DEFINE(SIZE_##name, sizeof(type))
#define AT(name, type, field)	DEFINE(AT_##name, offsetof(type, field))

static void __used rdma_rw_layout(void)
{
	SIZE(CTX, struct rdma_rw_ctx);
	AT(CTX_NR_OPS, struct rdma_rw_ctx, nr_ops);
	AT(CTX_TYPE, struct rdma_rw_ctx, type);
	AT(CTX_SINGLE_SGE, struct rdma_rw_ctx, single.sge);
	AT(CTX_SINGLE_WR, struct rdma_rw_ctx, single.wr);
	AT(CTX_MAP_SGES, struct rdma_rw_ctx, map.sges);
	AT(CTX_MAP_WRS, struct rdma_rw_ctx, map.wrs);
	AT(CTX_IOVA_STATE, struct rdma_rw_ctx, iova.state);
	AT(CTX_IOVA_SGE, struct rdma_rw_ctx, iova.sge);
	AT(CTX_IOVA_WR, struct rdma_rw_ctx, iova.wr);
	AT(CTX_IOVA_MAPPED_LEN, struct rdma_rw_ctx, iova.mapped_len);
	AT(CTX_REG, struct rdma_rw_ctx, reg);

	SIZE(REG, struct rdma_rw_reg_ctx);
	AT(REG_SGE, struct rdma_rw_reg_ctx, sge);
	AT(REG_WR, struct rdma_rw_reg_ctx, wr);
	AT(REG_REG_WR, struct rdma_rw_reg_ctx, reg_wr);
	AT(REG_INV_WR, struct rdma_rw_reg_ctx, inv_wr);
	AT(REG_MR, struct rdma_rw_reg_ctx, mr);
	AT(REG_SGT, struct rdma_rw_reg_ctx, sgt);

	SIZE(SGE, struct ib_sge);
	SIZE(SEND_WR, struct ib_send_wr);
	AT(SEND_WR_CQE, struct ib_send_wr, wr_cqe);
	AT(SEND_WR_SG_LIST, struct ib_send_wr, sg_list);
	AT(SEND_WR_NUM_SGE, struct ib_send_wr, num_sge);
	AT(SEND_WR_OPCODE, struct ib_send_wr, opcode);
	AT(SEND_WR_SEND_FLAGS, struct ib_send_wr, send_flags);
	AT(SEND_WR_EX, struct ib_send_wr, ex);
	SIZE(RDMA_WR, struct ib_rdma_wr);
	AT(RDMA_WR_REMOTE_ADDR, struct ib_rdma_wr, remote_addr);
	AT(RDMA_WR_RKEY, struct ib_rdma_wr, rkey);
	SIZE(REG_WR, struct ib_reg_wr);
	AT(REG_WR_MR, struct ib_reg_wr, mr);
	AT(REG_WR_KEY, struct ib_reg_wr, key);
	AT(REG_WR_ACCESS, struct ib_reg_wr, access);

	AT(QP_DEVICE, struct ib_qp, device);
	AT(QP_PD, struct ib_qp, pd);
	AT(QP_MR_LOCK, struct ib_qp, mr_lock);
	AT(QP_MRS_USED, struct ib_qp, mrs_used);
	AT(QP_RDMA_MRS, struct ib_qp, rdma_mrs);
	AT(QP_SIG_MRS, struct ib_qp, sig_mrs);
	AT(QP_MAX_WRITE_SGE, struct ib_qp, max_write_sge);
	AT(QP_MAX_READ_SGE, struct ib_qp, max_read_sge);
	AT(QP_INTEGRITY_EN, struct ib_qp, integrity_en);
	AT(PD_DEVICE, struct ib_pd, device);
	AT(PD_LKEY, struct ib_pd, local_dma_lkey);

	AT(DEVICE_DMA_DEVICE, struct ib_device, dma_device);
	AT(DEVICE_PORT_DATA, struct ib_device, port_data);
	AT(DEVICE_ATTRS, struct ib_device, attrs);
	AT(DEVICE_PORT_CNT, struct ib_device, phys_port_cnt);
	SIZE(PORT_DATA, struct ib_port_data);
	AT(PORT_CAP_FLAGS, struct ib_port_data, immutable.core_cap_flags);
	AT(ATTR_MAX_QP_WR, struct ib_device_attr, max_qp_wr);
	AT(ATTR_MAX_SGE_RD, struct ib_device_attr, max_sge_rd);
	AT(ATTR_MAX_SGL_RD, struct ib_device_attr, max_sgl_rd);
	AT(ATTR_FR_PAGES, struct ib_device_attr, max_fast_reg_page_list_len);
	AT(ATTR_PI_FR_PAGES, struct ib_device_attr, max_pi_fast_reg_page_list_len);

	SIZE(INIT_ATTR, struct ib_qp_init_attr);
	AT(INIT_ATTR_CREATE_FLAGS, struct ib_qp_init_attr, create_flags);
	AT(INIT_ATTR_PORT_NUM, struct ib_qp_init_attr, port_num);
	AT(INIT_ATTR_MAX_SEND_WR, struct ib_qp_init_attr, cap.max_send_wr);
	AT(INIT_ATTR_MAX_RDMA_CTXS, struct ib_qp_init_attr, cap.max_rdma_ctxs);

	AT(MR_LKEY, struct ib_mr, lkey);
	AT(MR_RKEY, struct ib_mr, rkey);
	AT(MR_IOVA, struct ib_mr, iova);
	AT(MR_LENGTH, struct ib_mr, length);
	AT(MR_NEED_INVAL, struct ib_mr, need_inval);
	AT(MR_QP_ENTRY, struct ib_mr, qp_entry);
	AT(MR_SIG_ATTRS, struct ib_mr, sig_attrs);
	SIZE(SIG_ATTRS, struct ib_sig_attrs);
	AT(SIG_ATTRS_META_LENGTH, struct ib_sig_attrs, meta_length);
	AT(SIG_ATTRS_WIRE, struct ib_sig_attrs, wire);

	SIZE(SG, struct scatterlist);
	AT(SG_OFFSET, struct scatterlist, offset);
	AT(SG_LENGTH, struct scatterlist, length);
	AT(SG_DMA_ADDRESS, struct scatterlist, dma_address);
	SIZE(SGT, struct sg_table);
	AT(SGT_NENTS, struct sg_table, nents);
	AT(SGT_ORIG_NENTS, struct sg_table, orig_nents);
	SIZE(BVEC, struct bio_vec);
	AT(BVEC_LEN, struct bio_vec, bv_len);
	AT(BVEC_OFFSET, struct bio_vec, bv_offset);
	SIZE(BVEC_ITER, struct bvec_iter);
	AT(BVEC_ITER_SIZE, struct bvec_iter, bi_size);
	AT(BVEC_ITER_IDX, struct bvec_iter, bi_idx);
	AT(BVEC_ITER_OFFSET, struct bvec_iter, bi_offset);
	SIZE(PAGE, struct page);
	SIZE(IOVA_STATE, struct dma_iova_state);
}
