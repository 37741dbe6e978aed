/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What bindgen reads: the headers of ib_core and of the DMA API, and the few
 * declarations of our own that Rust and C share.
 */
#ifndef _RDMA_RW_BINDINGS_HELPER_H
#define _RDMA_RW_BINDINGS_HELPER_H

#include <linux/bvec.h>
#include <linux/dma-mapping.h>
#include <linux/dma-map-ops.h>
#include <linux/iommu-dma.h>
#include <linux/scatterlist.h>
#include <linux/slab.h>
#include <rdma/ib_verbs.h>
#include <rdma/mr_pool.h>
#include <rdma/rw.h>

/* Module parameter force_mr; constant once the module is loaded. */
extern bool rdma_rw_force_mr;

/* wrappers.c: inline functions of the kernel that Rust calls once a context. */
int rdma_rw_c_post_send(struct ib_qp *qp, const struct ib_send_wr *wr,
			const struct ib_send_wr **bad_wr);
void *rdma_rw_c_kmalloc(size_t size);
void *rdma_rw_c_kzalloc(size_t size);
void *rdma_rw_c_alloc_regs(u32 nr);
u32 rdma_rw_c_max_merged(struct device *dev);
u64 rdma_rw_c_page_phys(const struct page *page);
u64 rdma_rw_c_page_virt(const struct page *page);

/* takeover/: only where this project takes over from C on a running kernel. */
extern u32 rdma_rw_c_load;
void rdma_rw_c_count_made(struct rdma_rw_ctx *ctx);
void rdma_rw_c_count_released(struct rdma_rw_ctx *ctx);
struct page *rdma_rw_c_spare_page(void);

#endif
