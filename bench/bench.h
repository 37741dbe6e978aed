/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What the parts of the benchmark share.
 */
#ifndef _RDMA_RW_BENCH_H
#define _RDMA_RW_BENCH_H

#include <linux/bvec.h>
#include <linux/scatterlist.h>
#include <rdma/ib_verbs.h>
#include <rdma/rw.h>

/* What every transfer names as its remote memory. */
#define BENCH_REMOTE_ADDR	0x100000000ull
#define BENCH_REMOTE_KEY	0x1234u

/* SGEs in a work request. */
#define BENCH_MAX_SGE		32

/* Devices that a transfer can run on; provider.c says what they are. */
enum bench_profile {
	BENCH_PLAIN,
	BENCH_IWARP,
	BENCH_SGL,
	BENCH_SGL_EMPTY,
	BENCH_PI,
	BENCH_DIRECT,
	BENCH_IOMMU,
	BENCH_NR_PROFILES,
};

/* A device with what it takes to make contexts. */
struct bench_device {
	struct ib_device ib;
	enum bench_profile profile;
};

struct bench_port {
	struct bench_device *dev;
	struct ib_pd *pd;
	struct ib_cq *cq;
	struct ib_qp *qp;
	/* MRs taken out of the pool to leave it empty. */
	struct list_head taken;
};

int bench_port_open(struct bench_port *port, enum bench_profile profile);
void bench_port_close(struct bench_port *port);

/*
 * Functions with the signatures of the API. null_* do nothing: what it takes to
 * call them is what it takes to call any. floor_* are the floor (floor.c).
 * reference_* are the kernel tree's own rw.c, where that is compiled a second
 * time (reference.c).
 */
#define BENCH_DECLARE_SG_INIT(name)						\
	int name(struct rdma_rw_ctx *ctx, struct ib_qp *qp, u32 port_num,	\
		 struct scatterlist *sg, u32 sg_cnt, u32 sg_offset,		\
		 u64 remote_addr, u32 rkey, enum dma_data_direction dir)
#define BENCH_DECLARE_SG_DESTROY(name)						\
	void name(struct rdma_rw_ctx *ctx, struct ib_qp *qp, u32 port_num,	\
		  struct scatterlist *sg, u32 sg_cnt, enum dma_data_direction dir)
#define BENCH_DECLARE_BVEC_INIT(name)						\
	int name(struct rdma_rw_ctx *ctx, struct ib_qp *qp, u32 port_num,	\
		 const struct bio_vec *bvecs, u32 nr_bvec, struct bvec_iter iter,	\
		 u64 remote_addr, u32 rkey, enum dma_data_direction dir)
#define BENCH_DECLARE_BVEC_DESTROY(name)					\
	void name(struct rdma_rw_ctx *ctx, struct ib_qp *qp, u32 port_num,	\
		  const struct bio_vec *bvecs, u32 nr_bvec,			\
		  enum dma_data_direction dir)
#define BENCH_DECLARE_PI_INIT(name)						\
	int name(struct rdma_rw_ctx *ctx, struct ib_qp *qp, u32 port_num,	\
		 struct scatterlist *sg, u32 sg_cnt,				\
		 struct scatterlist *prot_sg, u32 prot_sg_cnt,			\
		 struct ib_sig_attrs *sig_attrs,				\
		 u64 remote_addr, u32 rkey, enum dma_data_direction dir)
#define BENCH_DECLARE_PI_DESTROY(name)						\
	void name(struct rdma_rw_ctx *ctx, struct ib_qp *qp, u32 port_num,	\
		  struct scatterlist *sg, u32 sg_cnt,				\
		  struct scatterlist *prot_sg, u32 prot_sg_cnt,			\
		  enum dma_data_direction dir)
#define BENCH_DECLARE_WRS(name)							\
	struct ib_send_wr *name(struct rdma_rw_ctx *ctx, struct ib_qp *qp,	\
				u32 port_num, struct ib_cqe *cqe,		\
				struct ib_send_wr *chain_wr)

#define BENCH_DECLARE_API(prefix)						\
	BENCH_DECLARE_SG_INIT(prefix##_ctx_init);				\
	BENCH_DECLARE_SG_DESTROY(prefix##_ctx_destroy);				\
	BENCH_DECLARE_BVEC_INIT(prefix##_ctx_init_bvec);			\
	BENCH_DECLARE_BVEC_DESTROY(prefix##_ctx_destroy_bvec);			\
	BENCH_DECLARE_PI_INIT(prefix##_ctx_signature_init);			\
	BENCH_DECLARE_PI_DESTROY(prefix##_ctx_destroy_signature);		\
	BENCH_DECLARE_WRS(prefix##_ctx_wrs);					\
	unsigned int prefix##_mr_factor(struct ib_device *device, u32 port_num,	\
					unsigned int maxpages);			\
	unsigned int prefix##_max_send_wr(struct ib_device *dev, u32 port_num,	\
					  unsigned int max_rdma_ctxs,		\
					  u32 create_flags)

BENCH_DECLARE_API(null);
BENCH_DECLARE_API(reference);

BENCH_DECLARE_SG_INIT(floor_sg_single_init);
BENCH_DECLARE_SG_DESTROY(floor_sg_single_destroy);
BENCH_DECLARE_SG_INIT(floor_sg_multi_init);
BENCH_DECLARE_SG_DESTROY(floor_sg_multi_destroy);
BENCH_DECLARE_SG_INIT(floor_sg_mr_init);
BENCH_DECLARE_SG_DESTROY(floor_sg_mr_destroy);
BENCH_DECLARE_BVEC_INIT(floor_bvec_single_init);
BENCH_DECLARE_BVEC_DESTROY(floor_bvec_single_destroy);
BENCH_DECLARE_BVEC_INIT(floor_bvec_multi_init);
BENCH_DECLARE_BVEC_DESTROY(floor_bvec_multi_destroy);
BENCH_DECLARE_BVEC_INIT(floor_bvec_merged_init);
BENCH_DECLARE_BVEC_INIT(floor_bvec_mr_init);
BENCH_DECLARE_BVEC_DESTROY(floor_bvec_mr_destroy);
BENCH_DECLARE_BVEC_INIT(floor_bvec_iova_init);
BENCH_DECLARE_BVEC_DESTROY(floor_bvec_iova_destroy);
BENCH_DECLARE_PI_INIT(floor_pi_init);
BENCH_DECLARE_PI_DESTROY(floor_pi_destroy);
BENCH_DECLARE_WRS(floor_single_wrs);
BENCH_DECLARE_WRS(floor_multi_wrs);
BENCH_DECLARE_WRS(floor_iova_wrs);
BENCH_DECLARE_WRS(floor_mr_wrs);
unsigned int floor_mr_factor(struct ib_device *device, u32 port_num, unsigned int maxpages);
unsigned int floor_max_send_wr(struct ib_device *dev, u32 port_num, unsigned int max_rdma_ctxs,
			       u32 create_flags);

#endif
