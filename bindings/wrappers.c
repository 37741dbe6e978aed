// SPDX-License-Identifier: GPL-2.0
/*
 * Inline functions of the kernel's headers, made callable from Rust. Only what
 * is called once a context stands here: loops over entries run in Rust.
 */
#include "bindings_helper.h"

int rdma_rw_c_post_send(struct ib_qp *qp, const struct ib_send_wr *wr,
			const struct ib_send_wr **bad_wr)
{
	return ib_post_send(qp, wr, bad_wr);
}

void *rdma_rw_c_kmalloc(size_t size)
{
	return kmalloc(size, GFP_KERNEL);
}

void *rdma_rw_c_kzalloc(size_t size)
{
	return kzalloc(size, GFP_KERNEL);
}

/* Most contexts have one registration, whose size need not be looked up. */
void *rdma_rw_c_alloc_regs(u32 nr)
{
	if (nr == 1)
		return kzalloc_obj(struct rdma_rw_reg_ctx);
	return kzalloc_objs(struct rdma_rw_reg_ctx, nr);
}

/*
 * How long a mapping may be that does for several of neighbours in memory; 0
 * where it might fail though those do not, or be other than they are.
 */
u32 rdma_rw_c_max_merged(struct device *dev)
{
	if (get_dma_ops(dev) || use_dma_iommu(dev) || dma_max_mapping_size(dev) != SIZE_MAX ||
	    dma_get_seg_boundary(dev) < SZ_2M - 1)
		return 0;
	return dma_get_max_seg_size(dev);
}

u64 rdma_rw_c_page_phys(const struct page *page)
{
	return page_to_phys(page);
}

u64 rdma_rw_c_page_virt(const struct page *page)
{
	return (uintptr_t)page_address(page);
}
