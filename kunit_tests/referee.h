/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The kernel tree's own rw.c under other names: the C original beside what
 * ib_core exports, whichever implementation that is.
 */
#ifndef _RDMA_RW_REFEREE_H
#define _RDMA_RW_REFEREE_H

#include <rdma/rw.h>

extern typeof(rdma_rw_ctx_init) c_rdma_rw_ctx_init;
extern typeof(rdma_rw_ctx_init_bvec) c_rdma_rw_ctx_init_bvec;
extern typeof(rdma_rw_ctx_signature_init) c_rdma_rw_ctx_signature_init;
extern typeof(rdma_rw_ctx_wrs) c_rdma_rw_ctx_wrs;
extern typeof(rdma_rw_ctx_post) c_rdma_rw_ctx_post;
extern typeof(rdma_rw_ctx_destroy) c_rdma_rw_ctx_destroy;
extern typeof(rdma_rw_ctx_destroy_bvec) c_rdma_rw_ctx_destroy_bvec;
extern typeof(rdma_rw_ctx_destroy_signature) c_rdma_rw_ctx_destroy_signature;
extern typeof(rdma_rw_mr_factor) c_rdma_rw_mr_factor;
extern typeof(rdma_rw_max_send_wr) c_rdma_rw_max_send_wr;
extern typeof(rdma_rw_init_qp) c_rdma_rw_init_qp;
extern typeof(rdma_rw_init_mrs) c_rdma_rw_init_mrs;
extern typeof(rdma_rw_cleanup_mrs) c_rdma_rw_cleanup_mrs;

/* The referee's own force_mr. */
void rdma_rw_referee_set_force_mr(bool force_mr);
/* Whether it is to find that the DMA layer has no IOVA range for it. */
void rdma_rw_referee_refuse_iova(bool refuse);

#endif
