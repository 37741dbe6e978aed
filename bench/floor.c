// SPDX-License-Identifier: GPL-2.0
/*
 * The floor: the least that a context can cost. For each path a function that
 * makes the outside calls which cannot be done without (map for DMA, allocate
 * where the context itself has no room, get, map and put an MR) and stores the
 * fields that a device reads, in a loop over the entries. It checks nothing,
 * knows the path beforehand, handles no error and forgets what it would take to
 * clean up after one. Nothing of this is fit for use.
 */
#include <linux/dma-mapping.h>
#include <linux/slab.h>

#include "bench.h"

/* What the room of the context itself is used for. */
struct floor_ctx {
	u32 nr_ops;
	union {
		struct {
			struct ib_rdma_wr wr;
			/* Two SGEs need no allocation. */
			struct ib_sge sges[2];
		} one;
		struct {
			struct ib_rdma_wr *wrs;
			struct ib_sge *sges;
			bool apart;
			/* A single work request needs none. */
			struct ib_rdma_wr wr;
		} map;
		struct {
			struct dma_iova_state state;
			size_t len;
			struct ib_rdma_wr wr;
			struct ib_sge sge;
		} iova;
		struct {
			struct rdma_rw_reg_ctx *regs;
			struct scatterlist *sg;
			u32 nents;
		} mr;
	};
};

static_assert(sizeof(struct floor_ctx) <= sizeof(struct rdma_rw_ctx));

static inline struct floor_ctx *floor_of(struct rdma_rw_ctx *ctx)
{
	return (struct floor_ctx *)ctx;
}

static inline struct scatterlist *next(struct scatterlist *sg)
{
	sg++;
	return unlikely(sg_is_chain(sg)) ? sg_chain_ptr(sg) : sg;
}

static inline void set_wr(struct ib_rdma_wr *wr, struct ib_rdma_wr *behind, struct ib_sge *sges,
			  u32 nr, u64 remote_addr, u32 rkey, enum dma_data_direction dir)
{
	wr->wr.next = &behind->wr;
	wr->wr.wr_cqe = NULL;
	wr->wr.sg_list = sges;
	wr->wr.num_sge = nr;
	wr->wr.opcode = dir == DMA_TO_DEVICE ? IB_WR_RDMA_WRITE : IB_WR_RDMA_READ;
	wr->wr.send_flags = 0;
	wr->wr.ex.imm_data = 0;
	wr->remote_addr = remote_addr;
	wr->rkey = rkey;
}

static inline void set_end(struct ib_send_wr *last, struct ib_cqe *cqe)
{
	last->next = NULL;
	last->wr_cqe = cqe;
	last->send_flags = IB_SEND_SIGNALED;
}

/*
 * Makes room for SGEs and work requests. Sizes are rounded up to powers of two,
 * and cleared whole: many of both are cheaper apart.
 */
static inline struct ib_sge *alloc_map(struct floor_ctx *ctx, u32 nr)
{
	u32 nr_wrs = (nr + BENCH_MAX_SGE - 1) / BENCH_MAX_SGE;
	size_t sges = nr * sizeof(struct ib_sge), wrs = nr_wrs * sizeof(struct ib_rdma_wr);

	ctx->nr_ops = nr_wrs;
	ctx->map.apart = nr_wrs > 4;
	if (nr_wrs == 1) {
		ctx->map.sges = kmalloc(sges, GFP_KERNEL);
		ctx->map.wrs = &ctx->map.wr;
	} else if (ctx->map.apart) {
		ctx->map.sges = kmalloc(sges, GFP_KERNEL);
		ctx->map.wrs = kmalloc(wrs, GFP_KERNEL);
	} else {
		ctx->map.sges = kmalloc(sges + wrs, GFP_KERNEL);
		ctx->map.wrs = (void *)(ctx->map.sges + nr);
	}
	return ctx->map.sges;
}

static inline void free_map(struct floor_ctx *ctx)
{
	if (ctx->map.apart)
		kfree(ctx->map.wrs);
	kfree(ctx->map.sges);
}

/* ------------------------------------------------------------ one or two SGEs */

BENCH_DECLARE_SG_INIT(floor_sg_single_init)
{
	struct floor_ctx *floor = floor_of(ctx);
	struct scatterlist *second;

	sg_cnt = ib_dma_map_sg_attrs(qp->device, sg, sg_cnt, dir, 0);
	floor->one.sges[0].addr = sg_dma_address(sg);
	floor->one.sges[0].length = sg_dma_len(sg);
	floor->one.sges[0].lkey = qp->pd->local_dma_lkey;
	if (sg_cnt == 2) {
		second = next(sg);
		floor->one.sges[1].addr = sg_dma_address(second);
		floor->one.sges[1].length = sg_dma_len(second);
		floor->one.sges[1].lkey = qp->pd->local_dma_lkey;
	}
	floor->nr_ops = 1;
	set_wr(&floor->one.wr, NULL, floor->one.sges, sg_cnt, remote_addr, rkey, dir);
	return 1;
}

BENCH_DECLARE_SG_DESTROY(floor_sg_single_destroy)
{
	ib_dma_unmap_sg(qp->device, sg, sg_cnt, dir);
}

BENCH_DECLARE_BVEC_INIT(floor_bvec_single_init)
{
	struct floor_ctx *floor = floor_of(ctx);
	u32 i;

	for (i = 0; i < nr_bvec; i++) {
		struct bio_vec bvec = bvecs[i];

		floor->one.sges[i].addr = ib_dma_map_bvec(qp->device, &bvec, dir);
		floor->one.sges[i].length = bvec.bv_len;
		floor->one.sges[i].lkey = qp->pd->local_dma_lkey;
	}
	floor->nr_ops = 1;
	set_wr(&floor->one.wr, NULL, floor->one.sges, nr_bvec, remote_addr, rkey, dir);
	return 1;
}

BENCH_DECLARE_BVEC_DESTROY(floor_bvec_single_destroy)
{
	struct floor_ctx *floor = floor_of(ctx);
	u32 i;

	if (ib_uses_virt_dma(qp->device))
		return;
	for (i = 0; i < floor->one.wr.wr.num_sge; i++)
		ib_dma_unmap_bvec(qp->device, floor->one.sges[i].addr, floor->one.sges[i].length,
				  dir);
}

/* Neighbours in memory as one SGE: how little a contiguous array can cost. */
BENCH_DECLARE_BVEC_INIT(floor_bvec_merged_init)
{
	struct floor_ctx *floor = floor_of(ctx);
	struct bio_vec whole = bvecs[0];
	u32 i;

	for (i = 1; i < nr_bvec; i++) {
		if (bvecs[i].bv_page != bvecs[i - 1].bv_page + 1)
			return -EINVAL;
		whole.bv_len += bvecs[i].bv_len;
	}
	floor->one.sges[0].addr = ib_dma_map_bvec(qp->device, &whole, dir);
	floor->one.sges[0].length = whole.bv_len;
	floor->one.sges[0].lkey = qp->pd->local_dma_lkey;
	floor->nr_ops = 1;
	set_wr(&floor->one.wr, NULL, floor->one.sges, 1, remote_addr, rkey, dir);
	return 1;
}

BENCH_DECLARE_WRS(floor_single_wrs)
{
	struct floor_ctx *floor = floor_of(ctx);

	set_end(&floor->one.wr.wr, cqe);
	return &floor->one.wr.wr;
}

/* ------------------------------------------------------------------ many SGEs */

BENCH_DECLARE_SG_INIT(floor_sg_multi_init)
{
	struct floor_ctx *floor = floor_of(ctx);
	u32 lkey = qp->pd->local_dma_lkey, left, n, i;
	struct ib_rdma_wr *wr;
	struct ib_sge *sge;

	left = ib_dma_map_sg_attrs(qp->device, sg, sg_cnt, dir, 0);
	sge = alloc_map(floor, left);
	for (wr = floor->map.wrs; left; wr++, left -= n) {
		u64 end = remote_addr;

		n = min(left, BENCH_MAX_SGE);
		set_wr(wr, n < left ? wr + 1 : NULL, sge, n, remote_addr, rkey, dir);
		for (i = 0; i < n; i++, sge++, sg = next(sg)) {
			sge->addr = sg_dma_address(sg);
			sge->length = sg_dma_len(sg);
			sge->lkey = lkey;
			end += sge->length;
		}
		remote_addr = end;
	}
	return floor->nr_ops;
}

BENCH_DECLARE_SG_DESTROY(floor_sg_multi_destroy)
{
	free_map(floor_of(ctx));
	ib_dma_unmap_sg(qp->device, sg, sg_cnt, dir);
}

BENCH_DECLARE_BVEC_INIT(floor_bvec_multi_init)
{
	struct floor_ctx *floor = floor_of(ctx);
	struct device *dma_device = qp->device->dma_device;
	u32 lkey = qp->pd->local_dma_lkey, left = nr_bvec, n, i;
	struct ib_sge *sge = alloc_map(floor, nr_bvec);
	const struct bio_vec *bvec = bvecs;
	struct ib_rdma_wr *wr;

	for (wr = floor->map.wrs; left; wr++, left -= n) {
		u64 end = remote_addr;

		n = min(left, BENCH_MAX_SGE);
		set_wr(wr, n < left ? wr + 1 : NULL, sge, n, remote_addr, rkey, dir);
		for (i = 0; i < n; i++, sge++, bvec++) {
			if (!dma_device)
				sge->addr = (uintptr_t)page_address(bvec->bv_page) +
					    bvec->bv_offset;
			else
				sge->addr = dma_map_phys(dma_device, bvec_phys(bvec), bvec->bv_len,
							 dir, 0);
			sge->length = bvec->bv_len;
			sge->lkey = lkey;
			end += bvec->bv_len;
		}
		remote_addr = end;
	}
	return floor->nr_ops;
}

BENCH_DECLARE_BVEC_DESTROY(floor_bvec_multi_destroy)
{
	struct floor_ctx *floor = floor_of(ctx);
	struct device *dma_device = qp->device->dma_device;
	struct ib_sge *sge = floor->map.sges;
	u32 i;

	if (dma_device) {
		for (i = 0; i < nr_bvec; i++)
			dma_unmap_phys(dma_device, sge[i].addr, sge[i].length, dir, 0);
	}
	free_map(floor);
}

BENCH_DECLARE_WRS(floor_multi_wrs)
{
	struct floor_ctx *floor = floor_of(ctx);

	set_end(&floor->map.wrs[floor->nr_ops - 1].wr, cqe);
	return &floor->map.wrs[0].wr;
}

/* ------------------------------------------------------------------------ MRs */

/* Pages in an MR of any device here. */
#define FLOOR_MR_PAGES	256

static inline void set_reg(struct rdma_rw_reg_ctx *reg, struct rdma_rw_reg_ctx *prev,
			   struct ib_mr *mr, u64 length, enum ib_wr_opcode opcode,
			   enum ib_wr_opcode reg_opcode, u64 remote_addr, u32 rkey, int access)
{
	reg->mr = mr;
	reg->sge.addr = mr->iova;
	reg->sge.length = length;

	reg->inv_wr.next = mr->need_inval ? &reg->reg_wr.wr : NULL;
	reg->inv_wr.wr_cqe = NULL;
	reg->inv_wr.sg_list = NULL;
	reg->inv_wr.num_sge = 0;
	reg->inv_wr.opcode = IB_WR_LOCAL_INV;
	reg->inv_wr.send_flags = 0;
	reg->inv_wr.ex.invalidate_rkey = mr->lkey;

	reg->reg_wr.wr.next = &reg->wr.wr;
	reg->reg_wr.wr.wr_cqe = NULL;
	reg->reg_wr.wr.sg_list = NULL;
	reg->reg_wr.wr.num_sge = 0;
	reg->reg_wr.wr.opcode = reg_opcode;
	reg->reg_wr.wr.send_flags = 0;
	reg->reg_wr.mr = mr;
	reg->reg_wr.access = access;

	reg->wr.wr.next = NULL;
	reg->wr.wr.wr_cqe = NULL;
	reg->wr.wr.sg_list = &reg->sge;
	reg->wr.wr.num_sge = 1;
	reg->wr.wr.opcode = opcode;
	reg->wr.wr.send_flags = 0;
	reg->wr.wr.ex.invalidate_rkey = mr->lkey;
	reg->wr.remote_addr = remote_addr;
	reg->wr.rkey = rkey;

	if (prev)
		prev->wr.wr.next = reg->inv_wr.next ? &reg->inv_wr : &reg->reg_wr.wr;
}

static inline int map_mrs(struct floor_ctx *floor, struct ib_qp *qp,
			  struct scatterlist *sg, u32 left,
			  u64 remote_addr, u32 rkey, enum dma_data_direction dir)
{
	bool iwarp = rdma_protocol_iwarp(qp->device, 1);
	enum ib_wr_opcode opcode = dir == DMA_TO_DEVICE ? IB_WR_RDMA_WRITE :
				   iwarp ? IB_WR_RDMA_READ_WITH_INV : IB_WR_RDMA_READ;
	int access = IB_ACCESS_LOCAL_WRITE | (iwarp ? IB_ACCESS_REMOTE_WRITE : 0);
	u32 nr = (left + FLOOR_MR_PAGES - 1) / FLOOR_MR_PAGES, n, i;
	struct rdma_rw_reg_ctx *regs, *reg, *prev = NULL;
	int count = 0;

	regs = kmalloc_objs(*regs, nr);
	for (reg = regs;; prev = reg++) {
		struct ib_mr *mr = ib_mr_pool_get(qp, &qp->rdma_mrs);
		u32 offset = 0;

		n = min(left, FLOOR_MR_PAGES);
		ib_map_mr_sg(mr, sg, n, &offset, PAGE_SIZE);
		set_reg(reg, prev, mr, mr->length, opcode, IB_WR_REG_MR, remote_addr, rkey, access);
		count += reg->inv_wr.next ? 3 : 2;
		left -= n;
		if (!left)
			break;
		remote_addr += mr->length;
		for (i = 0; i < n; i++)
			sg = next(sg);
	}
	floor->nr_ops = nr;
	floor->mr.regs = regs;
	return count;
}

static inline void put_mrs(struct floor_ctx *floor, struct ib_qp *qp, struct list_head *pool)
{
	struct rdma_rw_reg_ctx *regs = floor->mr.regs;
	u32 i;

	for (i = 0; i < floor->nr_ops; i++)
		ib_mr_pool_put(qp, pool, regs[i].mr);
	kfree(regs);
}

BENCH_DECLARE_SG_INIT(floor_sg_mr_init)
{
	sg_cnt = ib_dma_map_sg_attrs(qp->device, sg, sg_cnt, dir, 0);
	return map_mrs(floor_of(ctx), qp, sg, sg_cnt, remote_addr, rkey, dir);
}

BENCH_DECLARE_SG_DESTROY(floor_sg_mr_destroy)
{
	put_mrs(floor_of(ctx), qp, &qp->rdma_mrs);
	ib_dma_unmap_sg(qp->device, sg, sg_cnt, dir);
}

BENCH_DECLARE_BVEC_INIT(floor_bvec_mr_init)
{
	struct floor_ctx *floor = floor_of(ctx);
	struct scatterlist *sg = kmalloc_array(nr_bvec, sizeof(*sg), GFP_KERNEL);
	u32 i;

	for (i = 0; i < nr_bvec; i++) {
		sg[i].page_link = (unsigned long)bvecs[i].bv_page;
		sg[i].offset = bvecs[i].bv_offset;
		sg[i].length = bvecs[i].bv_len;
	}
	sg[nr_bvec - 1].page_link |= SG_END;
	floor->mr.sg = sg;
	i = ib_dma_map_sg_attrs(qp->device, sg, nr_bvec, dir, 0);
	return map_mrs(floor, qp, sg, i, remote_addr, rkey, dir);
}

BENCH_DECLARE_BVEC_DESTROY(floor_bvec_mr_destroy)
{
	struct floor_ctx *floor = floor_of(ctx);

	put_mrs(floor, qp, &qp->rdma_mrs);
	ib_dma_unmap_sg(qp->device, floor->mr.sg, nr_bvec, dir);
	kfree(floor->mr.sg);
}

BENCH_DECLARE_WRS(floor_mr_wrs)
{
	struct floor_ctx *floor = floor_of(ctx);
	struct rdma_rw_reg_ctx *regs = floor->mr.regs, *reg = regs;
	u32 i;

	for (i = 0; i < floor->nr_ops; i++, reg++) {
		struct ib_mr *mr = reg->mr;
		u32 key = (mr->lkey & ~0xff) | ((mr->lkey + 1) & 0xff);

		mr->need_inval = reg->wr.wr.opcode != IB_WR_RDMA_READ_WITH_INV;
		mr->lkey = key;
		mr->rkey = key;
		reg->reg_wr.key = key;
		reg->sge.lkey = key;
		reg->wr.wr.ex.invalidate_rkey = key;
	}
	set_end(&reg[-1].wr.wr, cqe);
	return regs->inv_wr.next ? &regs->inv_wr : &regs->reg_wr.wr;
}

/* ----------------------------------------------------------------------- IOVA */

BENCH_DECLARE_BVEC_INIT(floor_bvec_iova_init)
{
	struct floor_ctx *floor = floor_of(ctx);
	struct device *dma_device = qp->device->dma_device;
	size_t len = 0;
	u32 i;

	dma_iova_try_alloc(dma_device, &floor->iova.state, bvec_phys(bvecs), iter.bi_size);
	for (i = 0; i < nr_bvec; i++) {
		dma_iova_link(dma_device, &floor->iova.state, bvec_phys(&bvecs[i]), len,
			      bvecs[i].bv_len, dir, 0);
		len += bvecs[i].bv_len;
	}
	dma_iova_sync(dma_device, &floor->iova.state, 0, len);
	floor->iova.len = len;
	floor->iova.sge.addr = floor->iova.state.addr;
	floor->iova.sge.length = len;
	floor->iova.sge.lkey = qp->pd->local_dma_lkey;
	floor->nr_ops = 1;
	set_wr(&floor->iova.wr, NULL, &floor->iova.sge, 1, remote_addr, rkey, dir);
	return 1;
}

BENCH_DECLARE_BVEC_DESTROY(floor_bvec_iova_destroy)
{
	struct floor_ctx *floor = floor_of(ctx);

	dma_iova_destroy(qp->device->dma_device, &floor->iova.state, floor->iova.len, dir, 0);
}

BENCH_DECLARE_WRS(floor_iova_wrs)
{
	struct floor_ctx *floor = floor_of(ctx);

	set_end(&floor->iova.wr.wr, cqe);
	return &floor->iova.wr.wr;
}

/* ------------------------------------------------------ protection information */

BENCH_DECLARE_PI_INIT(floor_pi_init)
{
	struct floor_ctx *floor = floor_of(ctx);
	struct rdma_rw_reg_ctx *reg;
	struct ib_mr *mr;
	u64 length;

	ib_dma_map_sg_attrs(qp->device, sg, sg_cnt, dir, 0);
	if (prot_sg_cnt)
		ib_dma_map_sg_attrs(qp->device, prot_sg, prot_sg_cnt, dir, 0);
	reg = kmalloc_obj(*reg);
	mr = ib_mr_pool_get(qp, &qp->sig_mrs);
	*mr->sig_attrs = *sig_attrs;
	ib_map_mr_sg_pi(mr, sg, sg_cnt, NULL, prot_sg, prot_sg_cnt, NULL, SZ_4K);
	length = mr->length;
	if (sig_attrs->wire.sig_type == IB_SIG_TYPE_NONE)
		length -= mr->sig_attrs->meta_length;
	set_reg(reg, NULL, mr, length, dir == DMA_TO_DEVICE ? IB_WR_RDMA_WRITE : IB_WR_RDMA_READ,
		IB_WR_REG_MR_INTEGRITY, remote_addr, rkey, IB_ACCESS_LOCAL_WRITE);
	floor->nr_ops = 1;
	floor->mr.regs = reg;
	return reg->inv_wr.next ? 3 : 2;
}

BENCH_DECLARE_PI_DESTROY(floor_pi_destroy)
{
	put_mrs(floor_of(ctx), qp, &qp->sig_mrs);
	if (prot_sg_cnt)
		ib_dma_unmap_sg(qp->device, prot_sg, prot_sg_cnt, dir);
	ib_dma_unmap_sg(qp->device, sg, sg_cnt, dir);
}

/* --------------------------------------------------------------------- sizing */

unsigned int floor_mr_factor(struct ib_device *device, u32 port_num, unsigned int maxpages)
{
	return DIV_ROUND_UP(maxpages, device->attrs.max_sge_rd);
}

unsigned int floor_max_send_wr(struct ib_device *dev, u32 port_num, unsigned int max_rdma_ctxs,
			       u32 create_flags)
{
	return max_rdma_ctxs;
}
