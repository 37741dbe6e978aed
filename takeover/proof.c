// SPDX-License-Identifier: GPL-2.0
/*
 * Proof on the running kernel that contexts can cross the switch: contexts of
 * every kind that a device without an IOMMU can have are made, chained and
 * released on a device that is not there, by ib_core and by this module in
 * all combinations. Whoever does what, it has to come to the same.
 */
#include "takeover.h"

#include <linux/gfp.h>
#include <linux/scatterlist.h>
#include <linux/slab.h>

enum bench_shape {
	SG_SINGLE, SG_MULTI, SG_MR, BVEC_SINGLE, BVEC_MULTI, BVEC_MR, SIGNATURE, NR_SHAPES
};

static const char * const shape_names[] = {
	[SG_SINGLE] = "scatterlist of one entry",
	[SG_MULTI] = "scatterlist",
	[SG_MR] = "scatterlist to register",
	[BVEC_SINGLE] = "bio_vec",
	[BVEC_MULTI] = "bio_vec array",
	[BVEC_MR] = "bio_vec array to register",
	[SIGNATURE] = "scatterlist with protection information",
};

#define NR_ENTRIES	3
#define ENTRY_SIZE	512
#define NR_MRS		2
/* Of one context: invalidation, registration and READ for every MR. */
#define MAX_WRS		(3 * NR_MRS)
#define META_LENGTH	8
#define PORT		1
#define REMOTE_ADDR	0x123456789000ULL
#define RKEY		0x4711

/* What a device is told to do, without the addresses of where it is told. */
struct wr_image {
	struct ib_sge sges[2];
	u64 remote_addr;
	struct ib_cqe *cqe;
	struct ib_mr *mr;
	u32 rkey, key, inval_key;
	int opcode, send_flags, num_sge, access;
};

struct outcome {
	int ret, nr_wrs;
	u32 nr_ops;
	u8 type;
	struct wr_image wrs[MAX_WRS];
};

struct bench {
	struct ib_device dev;
	struct ib_port_data port_data[PORT + 1];
	struct ib_pd pd;
	struct ib_qp qp;
	struct ib_mr mrs[NR_MRS], sig_mr;
	struct ib_sig_attrs mr_sig_attrs, sig_attrs;
	struct scatterlist sg[NR_ENTRIES], prot_sg[1];
	struct bio_vec bvecs[NR_ENTRIES];
	struct rdma_rw_ctx ctx;
	struct ib_cqe cqe;
	struct outcome want, got;
	void *page;
};

static int bench_map_mr_sg(struct ib_mr *mr, struct scatterlist *sgl, int nents,
			   unsigned int *offset)
{
	struct scatterlist *sg;
	int i;

	mr->iova = sg_dma_address(sgl);
	mr->length = 0;
	for_each_sg(sgl, sg, nents, i)
		mr->length += sg_dma_len(sg);
	return nents;
}

static int bench_map_mr_sg_pi(struct ib_mr *mr, struct scatterlist *data, int data_nents,
			      unsigned int *data_offset, struct scatterlist *meta,
			      int meta_nents, unsigned int *meta_offset)
{
	bench_map_mr_sg(mr, data, data_nents, data_offset);
	mr->length += META_LENGTH;
	mr->sig_attrs->meta_length = META_LENGTH;
	return 0;
}

static void bench_init(struct bench *b)
{
	int i;

	b->dev.phys_port_cnt = PORT;
	b->dev.port_data = b->port_data;
	b->dev.ops.map_mr_sg = bench_map_mr_sg;
	b->dev.ops.map_mr_sg_pi = bench_map_mr_sg_pi;
	b->dev.attrs.max_sge_rd = 2;
	b->dev.attrs.max_fast_reg_page_list_len = DIV_ROUND_UP(NR_ENTRIES, NR_MRS);
	b->dev.attrs.max_pi_fast_reg_page_list_len = b->dev.attrs.max_fast_reg_page_list_len;
	b->pd.device = &b->dev;
	b->pd.local_dma_lkey = 0x815;
	b->qp.device = &b->dev;
	b->qp.pd = &b->pd;
	b->qp.max_read_sge = 2;
	b->qp.max_write_sge = 2;
	spin_lock_init(&b->qp.mr_lock);

	sg_init_table(b->sg, NR_ENTRIES);
	for (i = 0; i < NR_ENTRIES; i++) {
		/* With gaps between them. */
		sg_set_buf(&b->sg[i], b->page + 2 * i * ENTRY_SIZE, ENTRY_SIZE);
		bvec_set_virt(&b->bvecs[i], b->page + 2 * i * ENTRY_SIZE, ENTRY_SIZE);
	}
	sg_init_one(b->prot_sg, b->page + ENTRY_SIZE, META_LENGTH);
}

/* All is as before any context. */
static void bench_reset(struct bench *b, enum bench_shape shape)
{
	struct ib_mr *mr;

	b->port_data[PORT].immutable.core_cap_flags =
		shape == SG_MR || shape == BVEC_MR ? RDMA_CORE_CAP_PROT_IWARP :
						     RDMA_CORE_CAP_PROT_ROCE;
	b->qp.mrs_used = 0;
	b->qp.integrity_en = shape == SIGNATURE;
	INIT_LIST_HEAD(&b->qp.rdma_mrs);
	INIT_LIST_HEAD(&b->qp.sig_mrs);
	for (mr = b->mrs; mr < b->mrs + NR_MRS; mr++) {
		mr->device = &b->dev;
		mr->lkey = 0x100 * (mr - b->mrs + 1);
		mr->rkey = mr->lkey;
		/* One of them is to be invalidated first. */
		mr->need_inval = mr == b->mrs;
		list_add_tail(&mr->qp_entry, &b->qp.rdma_mrs);
	}
	mr = &b->sig_mr;
	mr->device = &b->dev;
	mr->type = IB_MR_TYPE_INTEGRITY;
	mr->sig_attrs = &b->mr_sig_attrs;
	mr->lkey = 0xab00;
	mr->rkey = mr->lkey;
	mr->need_inval = true;
	list_add_tail(&mr->qp_entry, &b->qp.sig_mrs);
	/* Neither side may count on zeroes. */
	memset(&b->ctx, 0xa5, sizeof(b->ctx));
}

static int make(struct bench *b, enum bench_shape shape, const struct rdma_rw_side *side)
{
	int nr = shape == SG_SINGLE || shape == BVEC_SINGLE || shape == SIGNATURE ? 1 : NR_ENTRIES;
	struct bvec_iter iter = { .bi_size = nr * ENTRY_SIZE };

	switch (shape) {
	case SG_SINGLE:
	case SG_MULTI:
	case SG_MR:
		return side->init(&b->ctx, &b->qp, PORT, b->sg, nr, 0, REMOTE_ADDR, RKEY,
				  DMA_FROM_DEVICE);
	case BVEC_SINGLE:
	case BVEC_MULTI:
	case BVEC_MR:
		return side->init_bvec(&b->ctx, &b->qp, PORT, b->bvecs, nr, iter, REMOTE_ADDR,
				       RKEY, DMA_FROM_DEVICE);
	default:
		return side->signature_init(&b->ctx, &b->qp, PORT, b->sg, nr, b->prot_sg, 1,
					    &b->sig_attrs, REMOTE_ADDR, RKEY, DMA_FROM_DEVICE);
	}
}

static void release(struct bench *b, enum bench_shape shape, const struct rdma_rw_side *side)
{
	int nr = shape == SG_SINGLE || shape == BVEC_SINGLE || shape == SIGNATURE ? 1 : NR_ENTRIES;

	switch (shape) {
	case SG_SINGLE:
	case SG_MULTI:
	case SG_MR:
		side->destroy(&b->ctx, &b->qp, PORT, b->sg, nr, DMA_FROM_DEVICE);
		break;
	case BVEC_SINGLE:
	case BVEC_MULTI:
	case BVEC_MR:
		side->destroy_bvec(&b->ctx, &b->qp, PORT, b->bvecs, nr, DMA_FROM_DEVICE);
		break;
	default:
		side->destroy_signature(&b->ctx, &b->qp, PORT, b->sg, nr, b->prot_sg, 1,
					DMA_FROM_DEVICE);
	}
}

static void image(struct wr_image *image, const struct ib_send_wr *wr)
{
	image->opcode = wr->opcode;
	image->send_flags = wr->send_flags;
	image->num_sge = wr->num_sge;
	image->cqe = wr->wr_cqe;
	if (wr->num_sge > 0)
		memcpy(image->sges, wr->sg_list,
		       min_t(size_t, wr->num_sge, ARRAY_SIZE(image->sges)) * sizeof(*image->sges));

	switch (wr->opcode) {
	case IB_WR_RDMA_READ:
	case IB_WR_RDMA_READ_WITH_INV:
		/* The key that is invalidated with it C leaves behind that of the MR. */
		image->remote_addr = rdma_wr(wr)->remote_addr;
		image->rkey = rdma_wr(wr)->rkey;
		break;
	case IB_WR_REG_MR:
	case IB_WR_REG_MR_INTEGRITY:
		image->mr = reg_wr(wr)->mr;
		image->key = reg_wr(wr)->key;
		image->access = reg_wr(wr)->access;
		break;
	case IB_WR_LOCAL_INV:
		image->inval_key = wr->ex.invalidate_rkey;
		break;
	default:
		break;
	}
}

/* Where the first work request of a context lies, by the kernel's header. */
static const struct ib_send_wr *first_wr(const struct rdma_rw_ctx *ctx, enum bench_shape shape)
{
	/* Both sides register everything then. */
	if (rdma_rw_force_mr)
		shape = SG_MR;

	switch (shape) {
	case SG_SINGLE:
	case BVEC_SINGLE:
		return &ctx->single.wr.wr;
	case SG_MULTI:
	case BVEC_MULTI:
		return &ctx->map.wrs->wr;
	default:
		/* Its MR is to be invalidated. */
		return &ctx->reg->inv_wr;
	}
}

/* One life of a context; what it came to goes to the outcome. */
static bool live(struct bench *b, enum bench_shape shape, const struct rdma_rw_side *maker,
		 const struct rdma_rw_side *chainer, const struct rdma_rw_side *releaser,
		 struct outcome *outcome)
{
	const struct ib_send_wr *wr;
	bool in_place;

	memset(outcome, 0, sizeof(*outcome));
	bench_reset(b, shape);
	outcome->ret = make(b, shape, maker);
	if (outcome->ret <= 0)
		return false;
	outcome->nr_ops = b->ctx.nr_ops;
	outcome->type = b->ctx.type;
	wr = chainer->wrs(&b->ctx, &b->qp, PORT, &b->cqe, NULL);
	in_place = wr == first_wr(&b->ctx, shape);
	for (; wr && outcome->nr_wrs < MAX_WRS; wr = wr->next)
		image(&outcome->wrs[outcome->nr_wrs++], wr);
	release(b, shape, releaser);

	return in_place && !wr && outcome->nr_wrs == outcome->ret && b->qp.mrs_used == 0 &&
	       list_count_nodes(&b->qp.rdma_mrs) == NR_MRS &&
	       list_count_nodes(&b->qp.sig_mrs) == 1;
}

/*
 * Who makes, who chains and who releases: a bit each, set for this module. Both
 * have to agree on their own before one gets hold of the other's contexts.
 */
static const unsigned int combinations[] = { 0, 7, 1, 2, 3, 4, 5, 6 };

int takeover_proof(const struct rdma_rw_side *c, const struct rdma_rw_side *rust)
{
	struct bench *b = kzalloc(sizeof(*b), GFP_KERNEL);
	enum bench_shape shape;
	int ret = -ENOMEM;

	if (!b)
		return ret;
	b->page = (void *)get_zeroed_page(GFP_KERNEL);
	if (!b->page)
		goto out;
	bench_init(b);

	ret = 0;
	for (shape = 0; shape < NR_SHAPES && !ret; shape++) {
		int i;

		for (i = 0; i < ARRAY_SIZE(combinations); i++) {
			unsigned int who = combinations[i];
			const struct rdma_rw_side *maker = who & 4 ? rust : c;
			const struct rdma_rw_side *chainer = who & 2 ? rust : c;
			const struct rdma_rw_side *releaser = who & 1 ? rust : c;
			struct outcome *outcome = who ? &b->got : &b->want;

			if (live(b, shape, maker, chainer, releaser, outcome) &&
			    (!who || !memcmp(&b->want, &b->got, sizeof(b->want))))
				continue;
			pr_err("a context over a %s does not come to the same when made by %s, chained by %s and released by %s\n",
			       shape_names[shape], maker->name, chainer->name, releaser->name);
			ret = -ENOEXEC;
			break;
		}
	}
	free_page((unsigned long)b->page);
out:
	kfree(b);
	return ret;
}
