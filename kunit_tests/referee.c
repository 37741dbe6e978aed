// SPDX-License-Identifier: GPL-2.0
/*
 * The kernel tree's own rw.c, compiled a second time, as a module of its own.
 * Nothing of it is changed but the names of its functions.
 */
#include <linux/dma-mapping.h>
#include <linux/export.h>
#include <linux/module.h>

#define rdma_rw_ctx_init		c_rdma_rw_ctx_init
#define rdma_rw_ctx_init_bvec		c_rdma_rw_ctx_init_bvec
#define rdma_rw_ctx_signature_init	c_rdma_rw_ctx_signature_init
#define rdma_rw_ctx_wrs			c_rdma_rw_ctx_wrs
#define rdma_rw_ctx_post		c_rdma_rw_ctx_post
#define rdma_rw_ctx_destroy		c_rdma_rw_ctx_destroy
#define rdma_rw_ctx_destroy_bvec	c_rdma_rw_ctx_destroy_bvec
#define rdma_rw_ctx_destroy_signature	c_rdma_rw_ctx_destroy_signature
#define rdma_rw_mr_factor		c_rdma_rw_mr_factor
#define rdma_rw_max_send_wr		c_rdma_rw_max_send_wr
#define rdma_rw_init_qp			c_rdma_rw_init_qp
#define rdma_rw_init_mrs		c_rdma_rw_init_mrs
#define rdma_rw_cleanup_mrs		c_rdma_rw_cleanup_mrs

static bool refuse_iova;

static bool try_iova(struct device *dev, struct dma_iova_state *state,
		     phys_addr_t phys, size_t size)
{
	return !refuse_iova && dma_iova_try_alloc(dev, state, phys, size);
}

#define dma_iova_try_alloc try_iova

/* From drivers/infiniband/core of the tree that this is built in. */
#include "rw.c"
#include "referee.h"

/* What rw.c has for ib_core alone. */
EXPORT_SYMBOL_GPL(rdma_rw_init_qp);
EXPORT_SYMBOL_GPL(rdma_rw_init_mrs);
EXPORT_SYMBOL_GPL(rdma_rw_cleanup_mrs);

void rdma_rw_referee_set_force_mr(bool force_mr)
{
	rdma_rw_force_mr = force_mr;
}
EXPORT_SYMBOL_GPL(rdma_rw_referee_set_force_mr);

void rdma_rw_referee_refuse_iova(bool refuse)
{
	refuse_iova = refuse;
}
EXPORT_SYMBOL_GPL(rdma_rw_referee_refuse_iova);

MODULE_DESCRIPTION("The C original of the RDMA READ/WRITE API, for tests");
MODULE_LICENSE("GPL");
