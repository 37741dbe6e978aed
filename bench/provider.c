// SPDX-License-Identifier: GPL-2.0
/*
 * RDMA devices for the benchmark: registered with ib_core, with real protection
 * domains, queue pairs and MR pools, and no data path at all. What ib_core asks
 * of a driver while contexts are made and destroyed, which is to map an MR, is
 * done as drivers do it: ib_sg_to_pages() with a callback that stores a page.
 */
#include <linux/dma-mapping.h>
#include <linux/pci.h>
#include <linux/platform_device.h>
#include <linux/slab.h>

#include "bench.h"

/* MRs of a pool, and pages of an MR. */
#define BENCH_MRS	64
#define BENCH_MR_PAGES	256

/* ib_core wants to know sizes. */
struct bench_pd { struct ib_pd ib; };
struct bench_cq { struct ib_cq ib; };
struct bench_qp { struct ib_qp ib; };

struct bench_mr {
	struct ib_mr ib;
	u32 nr_pages;
	u32 max_pages;
	u64 pages[];
};

/* How the profiles differ; what is not said is 0. */
static const struct bench_attrs {
	const char *name;
	u32 cap_flags;
	u32 max_sge_rd;
	u32 max_sgl_rd;
	u32 mrs;
	bool integrity;
	bool empty;
} bench_attrs[] = {
	/* As rxe: no MRs, software DMA. */
	[BENCH_PLAIN] = {
		.name = "plain", .cap_flags = RDMA_CORE_PORT_RAW_PACKET,
		.max_sge_rd = BENCH_MAX_SGE, .mrs = BENCH_MRS,
	},
	/* As siw: iWARP, so that every READ takes MRs. */
	[BENCH_IWARP] = {
		.name = "iwarp", .cap_flags = RDMA_CORE_CAP_PROT_IWARP,
		.max_sge_rd = 1, .mrs = BENCH_MRS,
	},
	/* As mlx5: long READs prefer MRs. */
	[BENCH_SGL] = {
		.name = "sgl", .cap_flags = RDMA_CORE_PORT_RAW_PACKET,
		.max_sge_rd = BENCH_MAX_SGE, .max_sgl_rd = 16, .mrs = BENCH_MRS,
	},
	[BENCH_SGL_EMPTY] = {
		.name = "empty", .cap_flags = RDMA_CORE_PORT_RAW_PACKET,
		.max_sge_rd = BENCH_MAX_SGE, .max_sgl_rd = 16, .mrs = 1, .empty = true,
	},
	[BENCH_PI] = {
		.name = "pi", .cap_flags = RDMA_CORE_PORT_RAW_PACKET,
		.max_sge_rd = BENCH_MAX_SGE, .mrs = BENCH_MRS, .integrity = true,
	},
	/* A device that reaches memory at its physical addresses. */
	[BENCH_DIRECT] = {
		.name = "direct", .cap_flags = RDMA_CORE_PORT_RAW_PACKET,
		.max_sge_rd = BENCH_MAX_SGE, .mrs = BENCH_MRS,
	},
	/* A device behind an IOMMU. */
	[BENCH_IOMMU] = {
		.name = "iommu", .cap_flags = RDMA_CORE_PORT_RAW_PACKET,
		.max_sge_rd = BENCH_MAX_SGE, .mrs = BENCH_MRS,
	},
};

static const struct bench_attrs *attrs_of(struct ib_device *ib)
{
	return &bench_attrs[container_of(ib, struct bench_device, ib)->profile];
}

static int bench_query_device(struct ib_device *ib, struct ib_device_attr *attr,
			      struct ib_udata *udata)
{
	const struct bench_attrs *attrs = attrs_of(ib);

	attr->max_qp = 64;
	attr->max_qp_wr = 65536;
	attr->max_send_sge = BENCH_MAX_SGE;
	attr->max_recv_sge = 1;
	attr->max_cq = 64;
	attr->max_cqe = 65536;
	attr->max_mr = 65536;
	attr->max_pd = 64;
	attr->max_sge_rd = attrs->max_sge_rd;
	attr->max_sgl_rd = attrs->max_sgl_rd;
	attr->max_fast_reg_page_list_len = BENCH_MR_PAGES;
	attr->max_pi_fast_reg_page_list_len = attrs->integrity ? BENCH_MR_PAGES : 0;
	attr->kernel_cap_flags = IBK_LOCAL_DMA_LKEY;
	if (attrs->integrity)
		attr->kernel_cap_flags |= IBK_INTEGRITY_HANDOVER;
	return 0;
}

static int bench_query_port(struct ib_device *ib, u32 port_num, struct ib_port_attr *attr)
{
	attr->state = IB_PORT_ACTIVE;
	attr->phys_state = IB_PORT_PHYS_STATE_LINK_UP;
	attr->max_mtu = IB_MTU_4096;
	attr->active_mtu = IB_MTU_4096;
	attr->active_width = IB_WIDTH_4X;
	attr->active_speed = IB_SPEED_EDR;
	return 0;
}

static int bench_get_port_immutable(struct ib_device *ib, u32 port_num,
				    struct ib_port_immutable *immutable)
{
	immutable->core_cap_flags = attrs_of(ib)->cap_flags;
	return 0;
}

static int bench_alloc_pd(struct ib_pd *pd, struct ib_udata *udata)
{
	return 0;
}

static int bench_dealloc_pd(struct ib_pd *pd, struct ib_udata *udata)
{
	return 0;
}

static int bench_create_cq(struct ib_cq *cq, const struct ib_cq_init_attr *attr,
			   struct uverbs_attr_bundle *attrs)
{
	return 0;
}

static int bench_destroy_cq(struct ib_cq *cq, struct ib_udata *udata)
{
	return 0;
}

static int bench_create_qp(struct ib_qp *qp, struct ib_qp_init_attr *attr, struct ib_udata *udata)
{
	return 0;
}

static int bench_destroy_qp(struct ib_qp *qp, struct ib_udata *udata)
{
	return 0;
}

static struct ib_mr *new_mr(u32 max_pages)
{
	static atomic_t keys = ATOMIC_INIT(0);
	struct bench_mr *mr = kzalloc(struct_size(mr, pages, max_pages), GFP_KERNEL);

	if (!mr)
		return ERR_PTR(-ENOMEM);

	mr->max_pages = max_pages;
	mr->ib.lkey = atomic_inc_return(&keys) << 8;
	mr->ib.rkey = mr->ib.lkey;
	return &mr->ib;
}

static struct ib_mr *bench_alloc_mr(struct ib_pd *pd, enum ib_mr_type type, u32 max_num_sg)
{
	return new_mr(max_num_sg);
}

static struct ib_mr *bench_alloc_mr_integrity(struct ib_pd *pd, u32 max_num_data_sg,
					      u32 max_num_meta_sg)
{
	return new_mr(max_num_data_sg + max_num_meta_sg);
}

static int bench_dereg_mr(struct ib_mr *mr, struct ib_udata *udata)
{
	kfree(container_of(mr, struct bench_mr, ib));
	return 0;
}

static int bench_set_page(struct ib_mr *ib, u64 addr)
{
	struct bench_mr *mr = container_of(ib, struct bench_mr, ib);

	if (mr->nr_pages == mr->max_pages)
		return -ENOMEM;

	mr->pages[mr->nr_pages++] = addr;
	return 0;
}

static int bench_map_mr_sg(struct ib_mr *mr, struct scatterlist *sg, int nents,
			   unsigned int *offset)
{
	container_of(mr, struct bench_mr, ib)->nr_pages = 0;
	return ib_sg_to_pages(mr, sg, nents, offset, bench_set_page);
}

static int bench_map_mr_sg_pi(struct ib_mr *mr, struct scatterlist *data, int data_nents,
			      unsigned int *data_offset, struct scatterlist *meta, int meta_nents,
			      unsigned int *meta_offset)
{
	u64 iova, length;

	container_of(mr, struct bench_mr, ib)->nr_pages = 0;
	if (ib_sg_to_pages(mr, data, data_nents, data_offset, bench_set_page) != data_nents)
		return -ENOMEM;

	mr->sig_attrs->meta_length = 0;
	if (!meta_nents)
		return 0;

	iova = mr->iova;
	length = mr->length;
	if (ib_sg_to_pages(mr, meta, meta_nents, meta_offset, bench_set_page) != meta_nents)
		return -ENOMEM;

	mr->sig_attrs->meta_length = mr->length;
	mr->length += length;
	mr->iova = iova;
	return 0;
}

static const struct ib_device_ops bench_ops = {
	.owner = THIS_MODULE,
	.driver_id = RDMA_DRIVER_UNKNOWN,

	.alloc_mr = bench_alloc_mr,
	.alloc_mr_integrity = bench_alloc_mr_integrity,
	.alloc_pd = bench_alloc_pd,
	.create_cq = bench_create_cq,
	.create_qp = bench_create_qp,
	.dealloc_pd = bench_dealloc_pd,
	.dereg_mr = bench_dereg_mr,
	.destroy_cq = bench_destroy_cq,
	.destroy_qp = bench_destroy_qp,
	.get_port_immutable = bench_get_port_immutable,
	.map_mr_sg = bench_map_mr_sg,
	.map_mr_sg_pi = bench_map_mr_sg_pi,
	.query_device = bench_query_device,
	.query_port = bench_query_port,

	INIT_RDMA_OBJ_SIZE(ib_cq, bench_cq, ib),
	INIT_RDMA_OBJ_SIZE(ib_pd, bench_pd, ib),
	INIT_RDMA_OBJ_SIZE(ib_qp, bench_qp, ib),
};

/*
 * The devices that DMA is mapped for. The IOMMU of the emulated machine has an
 * edu device behind it that nothing else uses.
 */
#define BENCH_EDU_VENDOR	0x1234
#define BENCH_EDU_DEVICE	0x11e8

static struct device *dma_device_get(enum bench_profile profile)
{
	struct platform_device *platform;
	struct pci_dev *pci;
	struct device *dev;
	int ret;

	switch (profile) {
	case BENCH_DIRECT:
		platform = platform_device_register_simple("rdma_rw_bench", PLATFORM_DEVID_NONE,
							   NULL, 0);
		if (IS_ERR(platform))
			return ERR_CAST(platform);
		dev = &platform->dev;
		ret = dma_coerce_mask_and_coherent(dev, DMA_BIT_MASK(64));
		break;
	case BENCH_IOMMU:
		pci = pci_get_device(BENCH_EDU_VENDOR, BENCH_EDU_DEVICE, NULL);
		if (!pci)
			return ERR_PTR(-ENODEV);
		dev = &pci->dev;
		ret = dma_set_mask_and_coherent(dev, DMA_BIT_MASK(64));
		break;
	default:
		return NULL;
	}
	if (ret)
		return ERR_PTR(ret);

	dma_set_max_seg_size(dev, SZ_2G);
	return dev;
}

static void dma_device_put(enum bench_profile profile, struct device *dev)
{
	if (profile == BENCH_DIRECT)
		platform_device_unregister(to_platform_device(dev));
	else if (profile == BENCH_IOMMU)
		put_device(dev);
}

/* Opens a profile: device, protection domain, completion queue, queue pair. */
int bench_port_open(struct bench_port *port, enum bench_profile profile)
{
	const struct bench_attrs *attrs = &bench_attrs[profile];
	struct ib_qp_init_attr init = {
		.qp_type = IB_QPT_RC,
		.sq_sig_type = IB_SIGNAL_REQ_WR,
		.port_num = 1,
		.create_flags = attrs->integrity ? IB_QP_CREATE_INTEGRITY_EN : 0,
		.cap = {
			.max_send_wr = 16,
			.max_recv_wr = 16,
			.max_send_sge = BENCH_MAX_SGE,
			.max_recv_sge = 1,
			.max_rdma_ctxs = attrs->mrs,
		},
	};
	struct device *dma_device;
	struct ib_device *ib;
	struct ib_mr *mr;
	char name[IB_DEVICE_NAME_MAX];
	int ret;

	dma_device = dma_device_get(profile);
	if (IS_ERR(dma_device))
		return PTR_ERR(dma_device);

	port->dev = ib_alloc_device(bench_device, ib);
	if (!port->dev) {
		ret = -ENOMEM;
		goto put_dma_device;
	}
	ib = &port->dev->ib;
	port->dev->profile = profile;
	ib->phys_port_cnt = 1;
	ib->num_comp_vectors = 1;
	ib->node_type = RDMA_NODE_UNSPECIFIED;
	ib->local_dma_lkey = 0x5a5a5a5a;
	ib_set_device_ops(ib, &bench_ops);
	/* iWARP ports belong to a network device. */
	if (attrs->cap_flags & RDMA_CORE_CAP_PROT_IWARP) {
		ret = ib_device_set_netdev(ib, init_net.loopback_dev, 1);
		if (ret)
			goto dealloc_device;
	}
	snprintf(name, sizeof(name), "bench_%s", attrs->name);
	ret = ib_register_device(ib, name, dma_device);
	if (ret)
		goto dealloc_device;

	port->pd = ib_alloc_pd(ib, 0);
	if (IS_ERR(port->pd)) {
		ret = PTR_ERR(port->pd);
		goto unregister_device;
	}
	port->cq = ib_alloc_cq(ib, port, 16, 0, IB_POLL_DIRECT);
	if (IS_ERR(port->cq)) {
		ret = PTR_ERR(port->cq);
		goto dealloc_pd;
	}
	init.send_cq = port->cq;
	init.recv_cq = port->cq;
	port->qp = ib_create_qp(port->pd, &init);
	if (IS_ERR(port->qp)) {
		ret = PTR_ERR(port->qp);
		goto free_cq;
	}

	INIT_LIST_HEAD(&port->taken);
	while (attrs->empty) {
		mr = ib_mr_pool_get(port->qp, &port->qp->rdma_mrs);
		if (!mr)
			break;
		list_add(&mr->qp_entry, &port->taken);
	}
	return 0;

free_cq:
	ib_free_cq(port->cq);
dealloc_pd:
	ib_dealloc_pd(port->pd);
unregister_device:
	ib_unregister_device(ib);
dealloc_device:
	ib_dealloc_device(ib);
put_dma_device:
	dma_device_put(profile, dma_device);
	return ret;
}

void bench_port_close(struct bench_port *port)
{
	struct ib_device *ib = &port->dev->ib;
	struct device *dma_device = ib->dma_device;
	enum bench_profile profile = port->dev->profile;
	struct ib_mr *mr;

	while (!list_empty(&port->taken)) {
		mr = list_first_entry(&port->taken, struct ib_mr, qp_entry);
		list_del(&mr->qp_entry);
		ib_mr_pool_put(port->qp, &port->qp->rdma_mrs, mr);
	}
	ib_destroy_qp(port->qp);
	ib_free_cq(port->cq);
	ib_dealloc_pd(port->pd);
	ib_unregister_device(ib);
	ib_dealloc_device(ib);
	dma_device_put(profile, dma_device);
}
