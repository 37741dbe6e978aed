// SPDX-License-Identifier: GPL-2.0
/*
 * The kernel tree's own rw.c under names of the cross suite's. Nothing of it
 * is changed but the names of its functions, which are not exported either,
 * and that its parameter is set by a function.
 */
#include <linux/dma-mapping.h>
#include <linux/export.h>
#include <linux/moduleparam.h>

#define rdma_rw_ctx_init		cross_rdma_rw_ctx_init
#define rdma_rw_ctx_init_bvec		cross_rdma_rw_ctx_init_bvec
#define rdma_rw_ctx_signature_init	cross_rdma_rw_ctx_signature_init
#define rdma_rw_ctx_wrs			cross_rdma_rw_ctx_wrs
#define rdma_rw_ctx_post		cross_rdma_rw_ctx_post
#define rdma_rw_ctx_destroy		cross_rdma_rw_ctx_destroy
#define rdma_rw_ctx_destroy_bvec	cross_rdma_rw_ctx_destroy_bvec
#define rdma_rw_ctx_destroy_signature	cross_rdma_rw_ctx_destroy_signature
#define rdma_rw_mr_factor		cross_rdma_rw_mr_factor
#define rdma_rw_max_send_wr		cross_rdma_rw_max_send_wr
#define rdma_rw_init_qp			cross_rdma_rw_init_qp
#define rdma_rw_init_mrs		cross_rdma_rw_init_mrs
#define rdma_rw_cleanup_mrs		cross_rdma_rw_cleanup_mrs

#undef EXPORT_SYMBOL
#define EXPORT_SYMBOL(name)
#undef module_param_named
#define module_param_named(name, value, type, perm)
#undef MODULE_PARM_DESC
#define MODULE_PARM_DESC(name, description)

/* From drivers/infiniband/core of the tree that this is built in. */
#include "rw.c"

void cross_rdma_rw_set_force_mr(bool force_mr);
void cross_rdma_rw_set_force_mr(bool force_mr)
{
	rdma_rw_force_mr = force_mr;
}
