// SPDX-License-Identifier: GPL-2.0
/*
 * The kernel tree's own rw.c, compiled a second time under other names, to be
 * timed beside the implementation that ib_core has.
 */
#include <linux/export.h>
#include <linux/moduleparam.h>

#define rdma_rw_ctx_init		reference_ctx_init
#define rdma_rw_ctx_destroy		reference_ctx_destroy
#define rdma_rw_ctx_init_bvec		reference_ctx_init_bvec
#define rdma_rw_ctx_destroy_bvec	reference_ctx_destroy_bvec
#define rdma_rw_ctx_signature_init	reference_ctx_signature_init
#define rdma_rw_ctx_destroy_signature	reference_ctx_destroy_signature
#define rdma_rw_ctx_wrs			reference_ctx_wrs
#define rdma_rw_ctx_post		reference_ctx_post
#define rdma_rw_mr_factor		reference_mr_factor
#define rdma_rw_max_send_wr		reference_max_send_wr
#define rdma_rw_init_qp			reference_init_qp
#define rdma_rw_init_mrs		reference_init_mrs
#define rdma_rw_cleanup_mrs		reference_cleanup_mrs
#define rdma_rw_force_mr		reference_force_mr

#undef EXPORT_SYMBOL
#define EXPORT_SYMBOL(symbol)

#include "rw.c"
