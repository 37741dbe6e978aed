// SPDX-License-Identifier: GPL-2.0
/*
 * Benchmark of the RDMA READ/WRITE API.
 *
 * Each scenario is a transfer on a device of provider.c, made and taken apart
 * by the functions that ib_core exports, by the floor (floor.c), and by
 * functions that do nothing (null.c), whose cost is subtracted. Nothing is
 * posted. The results go to the kernel log, one line each, as NAME=VALUE; what
 * fails says so in a line with "FAILED".
 *
 *	mode=count	ticks of the clock for every phase, median of many; under
 *			an emulator whose clock counts instructions these are
 *			instructions. Then allocations and lock acquisitions.
 *	mode=time	wall time of whole contexts, in rounds that alternate
 *			between the implementations.
 *	mode=hammer	contexts a second of all processors on one queue pair.
 *	mode=watch	contexts and work requests that others make until the module
 *			is unloaded, and how often they call the function AT.
 *	mode=period	ticks from a call of AT to the next one, or to the one PER
 *			after it, until the module is unloaded: the quartiles, and
 *			the mean of what is between these.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/kprobes.h>
#include <linux/kthread.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/slab.h>
#include <linux/sort.h>
#include <linux/timekeeping.h>
#include <linux/tracepoint.h>
#ifdef CONFIG_TRACEPOINTS
#include <trace/events/kmem.h>
#endif

#include "bench.h"

#ifdef MODULE
static char *mode = "count";
#else
static char *mode = "off";
#endif
module_param(mode, charp, 0444);
MODULE_PARM_DESC(mode, "What to measure: count, time, hammer, watch, period or off");

static char *set = "main";
module_param(set, charp, 0444);
MODULE_PARM_DESC(set, "Scenarios: main, scale, or force where ib_core has force_mr=1");

static char *only = "";
module_param(only, charp, 0444);
MODULE_PARM_DESC(only, "Only scenarios whose name contains this");

static unsigned int repeats = 100;
module_param(repeats, uint, 0444);
MODULE_PARM_DESC(repeats, "mode=count: number of measurements");

static unsigned int rounds = 50;
module_param(rounds, uint, 0444);
MODULE_PARM_DESC(rounds, "mode=time: number of rounds");

static unsigned int chunk_us = 200;
module_param(chunk_us, uint, 0444);
MODULE_PARM_DESC(chunk_us, "mode=time: duration of a measurement, in microseconds");

static unsigned int contexts = 50000;
module_param(contexts, uint, 0444);
MODULE_PARM_DESC(contexts, "mode=hammer: contexts of each processor");

static char *function;
module_param_named(at, function, charp, 0444);
MODULE_PARM_DESC(at, "mode=watch, mode=period: function that is called for each request");

static unsigned int per = 1;
module_param(per, uint, 0444);
MODULE_PARM_DESC(per, "mode=period: number of its calls for a request");

/* Phases of a context; the total is measured by itself. */
enum phase { INIT, WRS, DESTROY, TOTAL, NR_PHASES };

static const char * const phase_names[] = { "init", "wrs", "destroy", "total" };

/* Contexts that come before the first one measured. */
#define WARM_UP		32

/* ------------------------------------------------------------------- counters */

/* Allocations and lock acquisitions of the task that is being measured. */
static struct task_struct *counted;
static u32 nr_allocations, nr_frees, nr_locks;
static const void *last_allocation;

/* The clock of mode=count. */
static __always_inline u64 ticks(void)
{
#ifdef CONFIG_X86_64
	return __builtin_ia32_rdtsc();
#else
	return get_cycles();
#endif
}

/* The counters as if they were a clock: allocations below, locks above. */
static __always_inline u64 events(void)
{
	return READ_ONCE(nr_allocations) | (u64)READ_ONCE(nr_locks) << 32;
}

/* --------------------------------------------------------------------- methods */

/* A transfer, with a context for it. */
struct job {
	struct rdma_rw_ctx ctx;
	struct ib_qp *qp;
	struct ib_device *device;
	struct scatterlist *sg;
	u32 nents;
	struct scatterlist *prot;
	u32 prot_nents;
	struct ib_sig_attrs *sig;
	struct bio_vec *bvecs;
	struct bvec_iter iter;
	enum dma_data_direction dir;
	struct ib_cqe cqe;
};

/* Where a measurement goes. */
struct samples {
	u32 *at[NR_PHASES];
};

/* One implementation of one form of the API. */
struct method {
	/* Measures so many contexts. */
	int (*measure)(struct job *job, struct samples *samples, u32 n);
	/* Counts the events of one. */
	int (*count)(struct job *job, u64 stamps[NR_PHASES + 1]);
	/* Makes and destroys so many, and returns the last result. */
	int (*run)(struct job *job, u32 n);
	/* Makes one, chains it, and leaves it. */
	int (*make)(struct job *job, struct ib_send_wr **first);
	void (*unmake)(struct job *job);
};

#define sg_init_args(j)	\
	&(j)->ctx, (j)->qp, 1, (j)->sg, (j)->nents, 0, BENCH_REMOTE_ADDR, BENCH_REMOTE_KEY, (j)->dir
#define sg_destroy_args(j) \
	&(j)->ctx, (j)->qp, 1, (j)->sg, (j)->nents, (j)->dir
#define bvec_init_args(j) \
	&(j)->ctx, (j)->qp, 1, (j)->bvecs, (j)->nents, (j)->iter, BENCH_REMOTE_ADDR, \
	BENCH_REMOTE_KEY, (j)->dir
#define bvec_destroy_args(j) \
	&(j)->ctx, (j)->qp, 1, (j)->bvecs, (j)->nents, (j)->dir
#define pi_init_args(j)	\
	&(j)->ctx, (j)->qp, 1, (j)->sg, (j)->nents, (j)->prot, (j)->prot_nents, (j)->sig, \
	BENCH_REMOTE_ADDR, BENCH_REMOTE_KEY, (j)->dir
#define pi_destroy_args(j) \
	&(j)->ctx, (j)->qp, 1, (j)->sg, (j)->nents, (j)->prot, (j)->prot_nents, (j)->dir
#define wrs_args(j) \
	&(j)->ctx, (j)->qp, 1, &(j)->cqe, NULL

/*
 * All methods are made from this, so that the code around the calls is the
 * same, and the calls are direct ones.
 */
#define DEFINE_METHOD(name, form, init, wrs, destroy)					\
static __always_inline int name##_once(struct job *job, u64 (*stamp)(void), u64 *at)	\
{											\
	int ret;									\
											\
	at[INIT] = stamp();								\
	ret = init(form##_init_args(job));						\
	at[WRS] = stamp();								\
	if (ret < 0)									\
		return ret;								\
	wrs(wrs_args(job));								\
	at[DESTROY] = stamp();								\
	destroy(form##_destroy_args(job));						\
	at[TOTAL] = stamp();								\
	return ret;									\
}											\
											\
static noinline int name##_run(struct job *job, u32 n)					\
{											\
	int ret = 0;									\
											\
	for (; n; n--) {								\
		ret = init(form##_init_args(job));					\
		if (ret < 0)								\
			break;								\
		wrs(wrs_args(job));							\
		destroy(form##_destroy_args(job));					\
	}										\
	return ret;									\
}											\
											\
static noinline int name##_measure(struct job *job, struct samples *samples, u32 n)	\
{											\
	u64 at[NR_PHASES], start, end;							\
	int ret;									\
	u32 i;										\
											\
	ret = name##_run(job, WARM_UP);							\
	for (i = 0; i < n && ret >= 0; i++) {						\
		ret = name##_once(job, ticks, at);					\
		samples->at[INIT][i] = at[WRS] - at[INIT];				\
		samples->at[WRS][i] = at[DESTROY] - at[WRS];				\
		samples->at[DESTROY][i] = at[TOTAL] - at[DESTROY];			\
	}										\
	for (i = 0; i < n && ret >= 0; i++) {						\
		start = ticks();							\
		ret = init(form##_init_args(job));					\
		if (ret < 0)								\
			break;								\
		wrs(wrs_args(job));							\
		destroy(form##_destroy_args(job));					\
		end = ticks();								\
		samples->at[TOTAL][i] = end - start;					\
	}										\
	return ret;									\
}											\
											\
static noinline int name##_count(struct job *job, u64 *at)				\
{											\
	return name##_once(job, events, at);						\
}											\
											\
static noinline int name##_make(struct job *job, struct ib_send_wr **first)		\
{											\
	int ret = init(form##_init_args(job));						\
											\
	if (ret >= 0)									\
		*first = wrs(wrs_args(job));						\
	return ret;									\
}											\
											\
static noinline void name##_unmake(struct job *job)					\
{											\
	destroy(form##_destroy_args(job));						\
}											\
											\
static const struct method name = {							\
	.measure = name##_measure,							\
	.count = name##_count,								\
	.run = name##_run,								\
	.make = name##_make,								\
	.unmake = name##_unmake,							\
}

/* The sizing functions make no context, so that they have one phase. */
#define DEFINE_SIZING(name, expression)							\
static noinline int name##_run(struct job *job, u32 n)					\
{											\
	int ret = 0;									\
											\
	for (; n; n--)									\
		ret = expression;							\
	return ret;									\
}											\
											\
static noinline int name##_measure(struct job *job, struct samples *samples, u32 n)	\
{											\
	u64 start, end;									\
	int ret = 0;									\
	u32 i;										\
											\
	for (i = 0; i < n; i++) {							\
		start = ticks();							\
		ret = expression;							\
		end = ticks();								\
		samples->at[TOTAL][i] = end - start;					\
	}										\
	return ret;									\
}											\
											\
static const struct method name = {							\
	.measure = name##_measure,							\
	.run = name##_run,								\
}

DEFINE_METHOD(api_sg, sg, rdma_rw_ctx_init, rdma_rw_ctx_wrs, rdma_rw_ctx_destroy);
DEFINE_METHOD(api_bvec, bvec, rdma_rw_ctx_init_bvec, rdma_rw_ctx_wrs, rdma_rw_ctx_destroy_bvec);
DEFINE_METHOD(api_pi, pi, rdma_rw_ctx_signature_init, rdma_rw_ctx_wrs,
	      rdma_rw_ctx_destroy_signature);
DEFINE_METHOD(null_sg, sg, null_ctx_init, null_ctx_wrs, null_ctx_destroy);
DEFINE_METHOD(null_bvec, bvec, null_ctx_init_bvec, null_ctx_wrs, null_ctx_destroy_bvec);
DEFINE_METHOD(null_pi, pi, null_ctx_signature_init, null_ctx_wrs, null_ctx_destroy_signature);
DEFINE_METHOD(floor_sg_single, sg, floor_sg_single_init, floor_single_wrs,
	      floor_sg_single_destroy);
DEFINE_METHOD(floor_sg_multi, sg, floor_sg_multi_init, floor_multi_wrs, floor_sg_multi_destroy);
DEFINE_METHOD(floor_sg_mr, sg, floor_sg_mr_init, floor_mr_wrs, floor_sg_mr_destroy);
DEFINE_METHOD(floor_bvec_single, bvec, floor_bvec_single_init, floor_single_wrs,
	      floor_bvec_single_destroy);
DEFINE_METHOD(floor_bvec_merged, bvec, floor_bvec_merged_init, floor_single_wrs,
	      floor_bvec_single_destroy);
DEFINE_METHOD(floor_bvec_multi, bvec, floor_bvec_multi_init, floor_multi_wrs,
	      floor_bvec_multi_destroy);
DEFINE_METHOD(floor_bvec_mr, bvec, floor_bvec_mr_init, floor_mr_wrs, floor_bvec_mr_destroy);
DEFINE_METHOD(floor_pi, pi, floor_pi_init, floor_mr_wrs, floor_pi_destroy);

DEFINE_SIZING(api_factor, rdma_rw_mr_factor(job->device, 1, 256));
DEFINE_SIZING(null_factor, null_mr_factor(job->device, 1, 256));
DEFINE_SIZING(floor_factor, floor_mr_factor(job->device, 1, 256));
DEFINE_SIZING(api_send_wr, rdma_rw_max_send_wr(job->device, 1, 128, 0));
DEFINE_SIZING(null_send_wr, null_max_send_wr(job->device, 1, 128, 0));
DEFINE_SIZING(floor_send_wr, floor_max_send_wr(job->device, 1, 128, 0));

#ifdef CONFIG_IOMMU_DMA
DEFINE_METHOD(floor_bvec_iova, bvec, floor_bvec_iova_init, floor_iova_wrs,
	      floor_bvec_iova_destroy);
#else
/* Without it there is no IOMMU profile either. */
#define floor_bvec_iova floor_bvec_multi
#endif

/* Where the C code has been compiled along, it is an implementation of its own. */
#ifdef CONFIG_UML
DEFINE_METHOD(reference_sg, sg, reference_ctx_init, reference_ctx_wrs, reference_ctx_destroy);
DEFINE_METHOD(reference_bvec, bvec, reference_ctx_init_bvec, reference_ctx_wrs,
	      reference_ctx_destroy_bvec);
DEFINE_METHOD(reference_pi, pi, reference_ctx_signature_init, reference_ctx_wrs,
	      reference_ctx_destroy_signature);
DEFINE_SIZING(reference_factor, reference_mr_factor(job->device, 1, 256));
DEFINE_SIZING(reference_send_wr, reference_max_send_wr(job->device, 1, 128, 0));
#define REFERENCE(method) (&reference_##method)
#else
#define REFERENCE(method) NULL
#endif

/* ------------------------------------------------------------------- scenarios */

enum form { SG, BVEC, PI, FACTOR, SEND_WR };

static const struct form_methods {
	const struct method *null, *api, *reference;
} forms[] = {
	[SG] = { &null_sg, &api_sg, REFERENCE(sg) },
	[BVEC] = { &null_bvec, &api_bvec, REFERENCE(bvec) },
	[PI] = { &null_pi, &api_pi, REFERENCE(pi) },
	[FACTOR] = { &null_factor, &api_factor, REFERENCE(factor) },
	[SEND_WR] = { &null_send_wr, &api_send_wr, REFERENCE(send_wr) },
};

struct scenario {
	const char *name;
	const char *set;
	enum form form;
	enum bench_profile profile;
	enum dma_data_direction dir;
	/* Pages of the transfer, an entry each. */
	u32 nents;
	/* Entries of protection information. */
	u32 prot;
	/* The pages are neighbours in memory. */
	bool contiguous;
	const struct method *floor;
};

#define W DMA_TO_DEVICE
#define R DMA_FROM_DEVICE
#define SCENARIO(_name, _form, _profile, _dir, _nents, _floor, ...) {			\
	.name = _name, .set = "main", .form = _form, .profile = BENCH_##_profile,	\
	.dir = _dir, .nents = _nents, .floor = &floor_##_floor, __VA_ARGS__ }
#define BOTH(_name, _form, _profile, _nents, _floor, ...)				\
	SCENARIO(_name "-write", _form, _profile, W, _nents, _floor, __VA_ARGS__),	\
	SCENARIO(_name "-read", _form, _profile, R, _nents, _floor, __VA_ARGS__)
#define SCALE(_nents, _floor)								\
	SCENARIO("sg-" #_nents, SG, PLAIN, W, _nents, sg_##_floor, .set = "scale"),	\
	SCENARIO("bvec-" #_nents, BVEC, PLAIN, W, _nents, bvec_##_floor, .set = "scale")

static const struct scenario scenarios[] = {
	BOTH("sg-single", SG, PLAIN, 1, sg_single),
	BOTH("sg-multi-2", SG, PLAIN, 2, sg_single),
	BOTH("sg-multi-8", SG, PLAIN, 8, sg_multi),
	BOTH("sg-multi-32", SG, PLAIN, 32, sg_multi),
	BOTH("sg-multi-64", SG, PLAIN, 64, sg_multi),
	BOTH("sg-multi-256", SG, PLAIN, 256, sg_multi),
	BOTH("sg-multi-1024", SG, PLAIN, 1024, sg_multi),
	BOTH("sg-direct-1", SG, DIRECT, 1, sg_single),
	BOTH("sg-direct-32", SG, DIRECT, 32, sg_multi),
	BOTH("sg-direct-256", SG, DIRECT, 256, sg_multi),
	SCENARIO("sg-iommu-16-read", SG, IOMMU, R, 16, sg_single),
	SCENARIO("sg-iommu-256-read", SG, IOMMU, R, 256, sg_single),
	SCENARIO("sg-mr-1-read", SG, IWARP, R, 1, sg_mr),
	SCENARIO("sg-mr-16-read", SG, IWARP, R, 16, sg_mr),
	SCENARIO("sg-mr-256-read", SG, IWARP, R, 256, sg_mr),
	SCENARIO("sg-mr-4x256-read", SG, IWARP, R, 1024, sg_mr),
	SCENARIO("sg-mr-16x256-read", SG, IWARP, R, 4096, sg_mr),
	SCENARIO("sg-mr-inv-32-read", SG, SGL, R, 32, sg_mr),
	SCENARIO("sg-mr-inv-256-read", SG, SGL, R, 256, sg_mr),
	SCENARIO("sg-mr-inv-4x256-read", SG, SGL, R, 1024, sg_mr),
	SCENARIO("sg-pool-empty-32-read", SG, SGL_EMPTY, R, 32, sg_multi),
	SCENARIO("sg-pool-empty-256-read", SG, SGL_EMPTY, R, 256, sg_multi),
	BOTH("bvec-single", BVEC, PLAIN, 1, bvec_single),
	BOTH("bvec-multi-2", BVEC, PLAIN, 2, bvec_single),
	BOTH("bvec-multi-8", BVEC, PLAIN, 8, bvec_multi),
	BOTH("bvec-multi-32", BVEC, PLAIN, 32, bvec_multi),
	BOTH("bvec-multi-64", BVEC, PLAIN, 64, bvec_multi),
	BOTH("bvec-multi-256", BVEC, PLAIN, 256, bvec_multi),
	BOTH("bvec-contiguous-256", BVEC, PLAIN, 256, bvec_merged, .contiguous = true),
	BOTH("bvec-direct-1", BVEC, DIRECT, 1, bvec_single),
	BOTH("bvec-direct-32", BVEC, DIRECT, 32, bvec_multi),
	BOTH("bvec-direct-256", BVEC, DIRECT, 256, bvec_multi),
	BOTH("bvec-direct-contiguous-256", BVEC, DIRECT, 256, bvec_merged, .contiguous = true),
	SCENARIO("bvec-mr-1-read", BVEC, IWARP, R, 1, bvec_mr),
	SCENARIO("bvec-mr-16-read", BVEC, IWARP, R, 16, bvec_mr),
	SCENARIO("bvec-mr-256-read", BVEC, IWARP, R, 256, bvec_mr),
	BOTH("bvec-iommu-1", BVEC, IOMMU, 1, bvec_single),
	BOTH("bvec-iova-16", BVEC, IOMMU, 16, bvec_iova),
	BOTH("bvec-iova-256", BVEC, IOMMU, 256, bvec_iova),
	BOTH("pi-8", PI, PI, 8, pi, .prot = 1),
	BOTH("pi-none-8", PI, PI, 8, pi),
	SCENARIO("mr-factor", FACTOR, PLAIN, W, 0, factor),
	SCENARIO("max-send-wr", SEND_WR, PLAIN, W, 0, send_wr),

	SCALE(1, single), SCALE(2, single), SCALE(4, multi), SCALE(8, multi), SCALE(16, multi),
	SCALE(32, multi), SCALE(64, multi), SCALE(128, multi), SCALE(256, multi),
	SCALE(512, multi), SCALE(1024, multi), SCALE(2048, multi), SCALE(4096, multi),

	BOTH("sg-force-1", SG, PLAIN, 1, sg_mr, .set = "force"),
	BOTH("sg-force-16", SG, PLAIN, 16, sg_mr, .set = "force"),
	BOTH("sg-force-256", SG, PLAIN, 256, sg_mr, .set = "force"),
	BOTH("sg-force-4x256", SG, PLAIN, 1024, sg_mr, .set = "force"),
	BOTH("bvec-force-16", BVEC, PLAIN, 16, bvec_mr, .set = "force"),
	BOTH("bvec-force-256", BVEC, PLAIN, 256, bvec_mr, .set = "force"),
};

static struct bench_port ports[BENCH_NR_PROFILES];
static int port_errors[BENCH_NR_PROFILES];
static bool failed;

#define fail(scenario, fmt, ...) do {							\
	pr_err("scenario=%s FAILED " fmt "\n", (scenario)->name, ##__VA_ARGS__);	\
	failed = true;									\
} while (0)

/* ---------------------------------------------------------------------- memory */

/* Blocks of neighbouring pages. Of each, every other page is used where the
 * pages of a transfer are not to be neighbours.
 */
#define BLOCK_ORDER	min(10, MAX_PAGE_ORDER)
#define BLOCK_PAGES	BIT(BLOCK_ORDER)
#define MAX_NENTS	4096u

static struct page *blocks[2 * MAX_NENTS / 256];

static struct page *page_of(const struct scenario *scenario, u32 i)
{
	u32 n = scenario->contiguous ? i : 2 * i;
	struct page **block = &blocks[n / BLOCK_PAGES];

	if (!*block)
		*block = alloc_pages(GFP_KERNEL, BLOCK_ORDER);
	return *block ? *block + n % BLOCK_PAGES : NULL;
}

static void free_blocks(void)
{
	u32 i;

	for (i = 0; i < ARRAY_SIZE(blocks); i++) {
		if (blocks[i])
			__free_pages(blocks[i], BLOCK_ORDER);
	}
}

struct job_memory {
	struct sg_table sg, prot;
	struct ib_sig_attrs sig;
};

static int fill_table(const struct scenario *scenario, struct sg_table *table, u32 nents, u32 len)
{
	struct scatterlist *sg;
	int ret, i;

	ret = sg_alloc_table(table, nents, GFP_KERNEL);
	if (ret)
		return ret;
	for_each_sg(table->sgl, sg, nents, i) {
		struct page *page = page_of(scenario, i);

		if (!page)
			return -ENOMEM;
		sg_set_page(sg, page, len, 0);
	}
	return 0;
}

static void job_put(struct job *job, struct job_memory *memory)
{
	sg_free_table(&memory->sg);
	sg_free_table(&memory->prot);
	kvfree(job->bvecs);
	kfree(memory);
	kfree(job);
}

static struct job *job_get(const struct scenario *scenario, struct job_memory **memory)
{
	struct bench_port *port = &ports[scenario->profile];
	struct job_memory *m = kzalloc(sizeof(*m), GFP_KERNEL);
	struct job *job = kzalloc(sizeof(*job), GFP_KERNEL);
	int ret = 0;
	u32 i;

	if (!m || !job) {
		kfree(m);
		kfree(job);
		return ERR_PTR(-ENOMEM);
	}
	job->qp = port->qp;
	job->device = &port->dev->ib;
	job->dir = scenario->dir;
	job->nents = scenario->nents;
	if (scenario->nents && scenario->form != BVEC)
		ret = fill_table(scenario, &m->sg, scenario->nents, PAGE_SIZE);
	if (scenario->prot && !ret)
		ret = fill_table(scenario, &m->prot, scenario->prot, scenario->nents * 64);
	if (scenario->form == BVEC && !ret) {
		job->bvecs = kvcalloc(scenario->nents, sizeof(*job->bvecs), GFP_KERNEL);
		for (i = 0; job->bvecs && i < scenario->nents; i++) {
			struct page *page = page_of(scenario, i);

			if (!page)
				ret = -ENOMEM;
			bvec_set_page(&job->bvecs[i], page, PAGE_SIZE, 0);
		}
		job->iter.bi_size = scenario->nents * PAGE_SIZE;
		if (!job->bvecs)
			ret = -ENOMEM;
	}
	if (ret) {
		job_put(job, m);
		return ERR_PTR(ret);
	}
	job->sg = m->sg.sgl;
	job->prot = m->prot.sgl;
	job->prot_nents = scenario->prot;
	/* Nothing on the wire, T10-DIF in memory. */
	m->sig.mem.sig_type = IB_SIG_TYPE_T10_DIF;
	m->sig.wire.sig_type = scenario->prot ? IB_SIG_TYPE_NONE : IB_SIG_TYPE_T10_DIF;
	job->sig = &m->sig;
	*memory = m;
	return job;
}

/* ----------------------------------------------------------------------- check */

/*
 * What comes out must be a chain of as many work requests as init says, that
 * moves every byte once, in order, and ends with the completion.
 */
static void check(const struct scenario *scenario, const char *impl, const struct method *method,
		  struct job *job)
{
	u32 wrs = 0, sges = 0, regs = 0, invs = 0;
	u64 bytes = 0, want = (u64)scenario->nents * PAGE_SIZE;
	struct ib_send_wr *wr, *last = NULL;
	int ret, i;

	if (!method->make)
		return;

	ret = method->make(job, &wr);
	if (ret < 0) {
		fail(scenario, "impl=%s init=%d", impl, ret);
		return;
	}
	for (; wr; wr = wr->next) {
		last = wr;
		wrs++;
		switch (wr->opcode) {
		case IB_WR_REG_MR:
		case IB_WR_REG_MR_INTEGRITY:
			regs++;
			break;
		case IB_WR_LOCAL_INV:
			invs++;
			break;
		default:
			if (rdma_wr(wr)->remote_addr != BENCH_REMOTE_ADDR + bytes ||
			    rdma_wr(wr)->rkey != BENCH_REMOTE_KEY)
				fail(scenario, "impl=%s remote_addr=%llx", impl,
				     rdma_wr(wr)->remote_addr);
			for (i = 0; i < wr->num_sge; i++)
				bytes += wr->sg_list[i].length;
			sges += wr->num_sge;
		}
	}
	if (wrs != ret || bytes != want || last->wr_cqe != &job->cqe ||
	    !(last->send_flags & IB_SEND_SIGNALED))
		fail(scenario, "impl=%s wrs=%u instead of %d, bytes=%llu instead of %llu", impl,
		     wrs, ret, bytes, want);
	method->unmake(job);
	pr_info("scenario=%s impl=%s wrs=%u sges=%u regs=%u invs=%u bytes=%llu\n", scenario->name,
		impl, wrs, sges, regs, invs, bytes);
}

/* ------------------------------------------------------------------ mode=count */

static int compare(const void *a, const void *b)
{
	u32 x = *(const u32 *)a, y = *(const u32 *)b;

	return x < y ? -1 : x > y;
}

struct summary {
	u32 median, min, max, same;
};

static struct summary summarise(u32 *samples, u32 n)
{
	struct summary summary;
	u32 i;

	sort(samples, n, sizeof(*samples), compare, NULL);
	summary.median = samples[n / 2];
	summary.min = samples[0];
	summary.max = samples[n - 1];
	summary.same = 0;
	for (i = 0; i < n; i++)
		summary.same += samples[i] == summary.median;
	return summary;
}

/* Measures, and takes what the caller's own code costs off all but the null. */
static void measure(const struct scenario *scenario, const char *impl, const struct method *method,
		    struct job *job, struct samples *samples, u32 overhead[NR_PHASES])
{
	bool null = method == forms[scenario->form].null;
	struct summary s;
	enum phase phase;
	int ret;

	ret = method->measure(job, samples, repeats);
	if (ret < 0) {
		fail(scenario, "impl=%s init=%d", impl, ret);
		return;
	}
	for (phase = method->make ? INIT : TOTAL; phase < NR_PHASES; phase++) {
		s = summarise(samples->at[phase], repeats);
		if (null) {
			overhead[phase] = s.median;
			continue;
		}
		pr_info("scenario=%s impl=%s phase=%s ticks=%d min=%d max=%d same=%u of=%u overhead=%u\n",
			scenario->name, impl, phase_names[phase],
			(int)(s.median - overhead[phase]), (int)(s.min - overhead[phase]),
			(int)(s.max - overhead[phase]), s.same, repeats, overhead[phase]);
	}
}

#if defined(CONFIG_KPROBES) && defined(CONFIG_TRACEPOINTS)
/* A large allocation passes two of these events. */
static void allocated(const void *ptr)
{
	if (current != counted || !ptr || ptr == last_allocation)
		return;
	last_allocation = ptr;
	nr_allocations++;
}

static void freed(const void *ptr)
{
	if (current != counted || !ptr)
		return;
	last_allocation = NULL;
	nr_frees++;
}

static void probe_kmalloc(void *data, unsigned long call_site, const void *ptr, size_t bytes_req,
			  size_t bytes_alloc, gfp_t gfp_flags, int node)
{
	allocated(ptr);
}

static void probe_kmem_cache_alloc(void *data, unsigned long call_site, const void *ptr,
				   struct kmem_cache *s, gfp_t gfp_flags, int node)
{
	allocated(ptr);
}

static void probe_kfree(void *data, unsigned long call_site, const void *ptr)
{
	freed(ptr);
}

static void probe_kmem_cache_free(void *data, unsigned long call_site, const void *ptr,
				  const struct kmem_cache *s)
{
	freed(ptr);
}

static int probe_lock(struct kprobe *probe, struct pt_regs *regs)
{
	if (current == counted)
		nr_locks++;
	return 0;
}

static struct kprobe lock_probes[] = {
	{ .symbol_name = "_raw_spin_lock", .pre_handler = probe_lock },
	{ .symbol_name = "_raw_spin_lock_bh", .pre_handler = probe_lock },
	{ .symbol_name = "_raw_spin_lock_irq", .pre_handler = probe_lock },
	{ .symbol_name = "_raw_spin_lock_irqsave", .pre_handler = probe_lock },
};

static int counters_start(void)
{
	int ret;
	u32 i;

	for (i = 0; i < ARRAY_SIZE(lock_probes); i++) {
		ret = register_kprobe(&lock_probes[i]);
		if (ret) {
			pr_err("FAILED to probe %s: %d\n", lock_probes[i].symbol_name, ret);
			while (i--)
				unregister_kprobe(&lock_probes[i]);
			return ret;
		}
	}
	WARN_ON(register_trace_kmalloc(probe_kmalloc, NULL));
	WARN_ON(register_trace_kmem_cache_alloc(probe_kmem_cache_alloc, NULL));
	WARN_ON(register_trace_kfree(probe_kfree, NULL));
	WARN_ON(register_trace_kmem_cache_free(probe_kmem_cache_free, NULL));
	counted = current;
	return 0;
}

static void counters_stop(void)
{
	u32 i;

	counted = NULL;
	unregister_trace_kmalloc(probe_kmalloc, NULL);
	unregister_trace_kmem_cache_alloc(probe_kmem_cache_alloc, NULL);
	unregister_trace_kfree(probe_kfree, NULL);
	unregister_trace_kmem_cache_free(probe_kmem_cache_free, NULL);
	tracepoint_synchronize_unregister();
	for (i = 0; i < ARRAY_SIZE(lock_probes); i++)
		unregister_kprobe(&lock_probes[i]);
}
#else
static int counters_start(void)
{
	return -EOPNOTSUPP;
}

static void counters_stop(void)
{
}
#endif

/* The least of some contexts: interrupts take locks, too. */
static void count(const struct scenario *scenario, const char *impl, const struct method *method,
		  struct job *job)
{
	u32 allocations[NR_PHASES] = {}, locks[NR_PHASES] = {}, frees;
	u64 at[NR_PHASES];
	enum phase phase;
	int i, ret;

	if (!method->count)
		return;

	method->run(job, WARM_UP);
	for (i = 0; i < 16; i++) {
		u32 alloc_total = 0, lock_total = 0;

		frees = nr_frees;
		ret = method->count(job, at);
		if (ret < 0) {
			fail(scenario, "impl=%s init=%d", impl, ret);
			return;
		}
		frees = nr_frees - frees;
		for (phase = INIT; phase < NR_PHASES; phase++) {
			u64 n = phase == TOTAL ? 0 : at[phase + 1] - at[phase];
			u32 a = phase == TOTAL ? alloc_total : (u32)n;
			u32 l = phase == TOTAL ? lock_total : n >> 32;

			alloc_total += a;
			lock_total += l;
			if (!i || a < allocations[phase])
				allocations[phase] = a;
			if (!i || l < locks[phase])
				locks[phase] = l;
		}
	}
	/* An IOMMU's address ranges are freed in bulk, later. */
	if (frees < allocations[TOTAL] && scenario->profile != BENCH_IOMMU)
		fail(scenario, "impl=%s allocations=%u frees=%u", impl, allocations[TOTAL], frees);
	for (phase = INIT; phase < NR_PHASES; phase++)
		pr_info("scenario=%s impl=%s phase=%s allocations=%u locks=%u\n", scenario->name,
			impl, phase_names[phase], allocations[phase], locks[phase]);
}

/* ------------------------------------------------------------------- mode=time */

static u64 time_of(const struct method *method, struct job *job, u32 n)
{
	u64 start = ktime_get_ns();

	method->run(job, n);
	return ktime_get_ns() - start;
}

/* One line a round, with nanoseconds of a thousand contexts. */
static void time_rounds(const struct scenario *scenario, struct job *job)
{
	const struct form_methods *form = &forms[scenario->form];
	const struct method *methods[] = { form->api, form->reference, scenario->floor };
	static const char * const names[] = { "api", "reference", "floor" };
	u64 ns[ARRAY_SIZE(methods)], once;
	u32 n, round, i, k;

	form->api->run(job, WARM_UP);
	once = time_of(form->api, job, 64) / 64;
	n = max_t(u64, 16, div64_u64(chunk_us * 1000ull, once ?: 1));
	for (round = 0; round < rounds; round++) {
		for (i = 0; i < ARRAY_SIZE(methods); i++) {
			/* Every order comes up equally often. */
			k = (round & 1 ? ARRAY_SIZE(methods) - 1 - i : i) + round / 2;
			k %= ARRAY_SIZE(methods);
			if (!methods[k])
				continue;
			methods[k]->run(job, 4);
			ns[k] = time_of(methods[k], job, n) * 1000 / n;
		}
		for (i = 0; i < ARRAY_SIZE(methods); i++) {
			if (methods[i])
				pr_info("scenario=%s impl=%s round=%u contexts=%u picoseconds=%llu\n",
					scenario->name, names[i], round, n, ns[i]);
		}
	}
}

/* ----------------------------------------------------------------- mode=hammer */

struct hammer {
	const struct method *method;
	struct job *job;
	struct completion *go;
	struct completion done;
	int ret;
};

static int hammer_thread(void *data)
{
	struct hammer *hammer = data;

	wait_for_completion(hammer->go);
	hammer->ret = hammer->method->run(hammer->job, contexts);
	complete(&hammer->done);
	return 0;
}

static void hammer(const struct scenario *scenario, const char *impl, const struct method *method,
		   u32 nr)
{
	struct job_memory *memories[8];
	struct hammer hammers[8] = {};
	struct task_struct *task;
	DECLARE_COMPLETION_ONSTACK(go);
	u32 i, started = 0;
	u64 start, ns;

	nr = min_t(u32, nr, ARRAY_SIZE(hammers));
	for (i = 0; i < nr; i++) {
		hammers[i].method = method;
		hammers[i].go = &go;
		init_completion(&hammers[i].done);
		hammers[i].job = job_get(scenario, &memories[i]);
		if (IS_ERR(hammers[i].job)) {
			fail(scenario, "out of memory");
			break;
		}
		task = kthread_create_on_cpu(hammer_thread, &hammers[i],
					     cpumask_nth(i, cpu_online_mask),
					     "rdma_rw_bench/%u");
		if (IS_ERR(task)) {
			job_put(hammers[i].job, memories[i]);
			fail(scenario, "no thread");
			break;
		}
		wake_up_process(task);
		started++;
	}
	start = ktime_get_ns();
	complete_all(&go);
	for (i = 0; i < started; i++) {
		wait_for_completion(&hammers[i].done);
		if (hammers[i].ret < 0)
			fail(scenario, "impl=%s init=%d", impl, hammers[i].ret);
	}
	ns = ktime_get_ns() - start;
	for (i = 0; i < started; i++)
		job_put(hammers[i].job, memories[i]);
	pr_info("scenario=%s impl=%s processors=%u contexts=%u nanoseconds=%llu\n", scenario->name,
		impl, nr, nr * contexts, ns);
}

/* ------------------------------------------------------------------ mode=watch */

#ifdef CONFIG_KRETPROBES
static atomic64_t nr_contexts, nr_wrs, nr_refused;
static atomic_t nr_calls;

/* Every init function returns the number of work requests, or an error. */
static int init_returned(struct kretprobe_instance *instance, struct pt_regs *regs)
{
	int ret = regs_return_value(regs);

	if (ret > 0) {
		atomic64_inc(&nr_contexts);
		atomic64_add(ret, &nr_wrs);
	} else {
		atomic64_inc(&nr_refused);
	}
	return 0;
}

static struct kretprobe init_probes[] = {
	{ .kp.symbol_name = "rdma_rw_ctx_init", .handler = init_returned, .maxactive = 64 },
	{ .kp.symbol_name = "rdma_rw_ctx_init_bvec", .handler = init_returned, .maxactive = 64 },
};

static int called(struct kprobe *probe, struct pt_regs *regs)
{
	atomic_inc(&nr_calls);
	return 0;
}

static struct kprobe call_probe;

/* Probes AT. */
static int probe_calls(kprobe_pre_handler_t handler)
{
	call_probe.symbol_name = function;
	call_probe.pre_handler = handler;
	return function ? register_kprobe(&call_probe) : -EINVAL;
}

static int watch_start(void)
{
	int ret;
	u32 i;

	ret = probe_calls(called);
	if (ret)
		return ret;

	for (i = 0; i < ARRAY_SIZE(init_probes); i++) {
		ret = register_kretprobe(&init_probes[i]);
		if (ret) {
			while (i--)
				unregister_kretprobe(&init_probes[i]);
			unregister_kprobe(&call_probe);
			return ret;
		}
	}
	return 0;
}

static void watch_stop(void)
{
	u32 i, missed = 0;

	for (i = 0; i < ARRAY_SIZE(init_probes); i++) {
		unregister_kretprobe(&init_probes[i]);
		missed += init_probes[i].nmissed;
	}
	unregister_kprobe(&call_probe);
	pr_info("watched calls=%d contexts=%lld wrs=%lld refused=%lld missed=%lu\n",
		atomic_read(&nr_calls), atomic64_read(&nr_contexts), atomic64_read(&nr_wrs),
		atomic64_read(&nr_refused), missed + call_probe.nmissed);
}

/* ----------------------------------------------------------------- mode=period */

/*
 * When AT was called, as far as there is room. It is a function of the target,
 * which is the same whatever ib_core has: what a probe costs depends on where
 * it lies.
 */
#define MAX_PERIODS	16384
static u64 *called_at;

static int called_now(struct kprobe *probe, struct pt_regs *regs)
{
	int i = atomic_inc_return(&nr_calls) - 1;

	if (i < MAX_PERIODS)
		called_at[i] = ticks();
	return 0;
}

static int period_start(void)
{
	int ret;

	if (!per)
		return -EINVAL;
	called_at = kvcalloc(MAX_PERIODS, sizeof(*called_at), GFP_KERNEL);
	if (!called_at)
		return -ENOMEM;

	ret = probe_calls(called_now);
	if (ret)
		kvfree(called_at);
	return ret;
}

static int by_size(const void *a, const void *b)
{
	return cmp_int(*(const u64 *)a, *(const u64 *)b);
}

static void period_stop(void)
{
	u64 middle = 0;
	u32 i, nr;

	unregister_kprobe(&call_probe);

	nr = min(atomic_read(&nr_calls), MAX_PERIODS) / per;
	nr -= !!nr;
	for (i = 0; i < nr; i++)
		called_at[i] = called_at[(i + 1) * per] - called_at[i * per];
	sort(called_at, nr, sizeof(*called_at), by_size, NULL);
	for (i = nr / 4; i < nr - nr / 4; i++)
		middle += called_at[i];
	if (nr)
		pr_info("periods=%u middle=%llu least=%llu quarter=%llu median=%llu three_quarters=%llu most=%llu\n",
			nr, div_u64(middle, nr - nr / 4 * 2), called_at[0], called_at[nr / 4],
			called_at[nr / 2], called_at[nr - nr / 4 - 1], called_at[nr - 1]);
	kvfree(called_at);
}
#else
static int watch_start(void)
{
	return -EOPNOTSUPP;
}

static void watch_stop(void)
{
}

static int period_start(void)
{
	return -EOPNOTSUPP;
}

static void period_stop(void)
{
}
#endif

/* ------------------------------------------------------------------------ main */

static bool wanted(const struct scenario *scenario)
{
	return !strcmp(scenario->set, set) && strstr(scenario->name, only);
}

typedef void (*scenario_fn)(const struct scenario *scenario, struct job *job, void *data);

/* Calls something for each scenario that can be made here. */
static void visit_scenarios(scenario_fn what, void *data)
{
	const struct scenario *scenario;
	struct job_memory *memory;
	struct job *job;

	for (scenario = scenarios; scenario < scenarios + ARRAY_SIZE(scenarios); scenario++) {
		if (!wanted(scenario))
			continue;
		if (port_errors[scenario->profile])
			continue;
		job = job_get(scenario, &memory);
		if (IS_ERR(job)) {
			fail(scenario, "memory=%ld", PTR_ERR(job));
			continue;
		}
		what(scenario, job, data);
		job_put(job, memory);
		cond_resched();
	}
}

static void measure_scenario(const struct scenario *scenario, struct job *job, void *samples)
{
	const struct form_methods *form = &forms[scenario->form];
	u32 overhead[NR_PHASES] = {};

	check(scenario, "api", form->api, job);
	check(scenario, "floor", scenario->floor, job);
	measure(scenario, "null", form->null, job, samples, overhead);
	measure(scenario, "api", form->api, job, samples, overhead);
	measure(scenario, "floor", scenario->floor, job, samples, overhead);
}

static void count_scenario(const struct scenario *scenario, struct job *job, void *data)
{
	count(scenario, "api", forms[scenario->form].api, job);
	count(scenario, "floor", scenario->floor, job);
}

static void time_scenario(const struct scenario *scenario, struct job *job, void *data)
{
	const struct form_methods *form = &forms[scenario->form];

	check(scenario, "api", form->api, job);
	check(scenario, "floor", scenario->floor, job);
	if (form->reference)
		check(scenario, "reference", form->reference, job);
	time_rounds(scenario, job);
}

static void hammer_scenario(const struct scenario *scenario, struct job *job, void *data)
{
	u32 nr, round;

	for (nr = 1; nr <= num_online_cpus(); nr++) {
		for (round = 0; round < 5; round++) {
			hammer(scenario, "api", forms[scenario->form].api, nr);
			hammer(scenario, "floor", scenario->floor, nr);
		}
	}
}

static int mode_count(void)
{
	struct samples samples;
	u32 *room = kvcalloc(NR_PHASES * repeats, sizeof(*room), GFP_KERNEL);
	enum phase phase;

	if (!room)
		return -ENOMEM;

	for (phase = INIT; phase < NR_PHASES; phase++)
		samples.at[phase] = room + phase * repeats;
	visit_scenarios(measure_scenario, &samples);
	kvfree(room);

	/* Probes slow down what they look at. */
	if (!counters_start()) {
		visit_scenarios(count_scenario, NULL);
		counters_stop();
	}
	return 0;
}

static int run(void)
{
	if (!strcmp(mode, "count")) {
		if (!repeats)
			return -EINVAL;
		return mode_count();
	}
	if (!strcmp(mode, "time")) {
		visit_scenarios(time_scenario, NULL);
		return 0;
	}
	if (!strcmp(mode, "hammer")) {
		visit_scenarios(hammer_scenario, NULL);
		return 0;
	}
	return -EINVAL;
}

static int __init bench_init(void)
{
	enum bench_profile profile;
	int ret;

	if (!strcmp(mode, "off"))
		return 0;
	if (!strcmp(mode, "watch"))
		return watch_start();
	if (!strcmp(mode, "period"))
		return period_start();

	for (profile = 0; profile < BENCH_NR_PROFILES; profile++) {
		ret = bench_port_open(&ports[profile], profile);
		port_errors[profile] = ret;
		if (ret)
			pr_info("profile %u is not to be had: %d\n", profile, ret);
	}
	pr_info("begin mode=%s set=%s\n", mode, set);
	ret = run();
	pr_info("end mode=%s set=%s ret=%d failed=%d\n", mode, set, ret, failed);
	for (profile = 0; profile < BENCH_NR_PROFILES; profile++) {
		if (!port_errors[profile])
			bench_port_close(&ports[profile]);
	}
	free_blocks();
	return ret;
}
module_init(bench_init);

static void __exit bench_exit(void)
{
	if (!strcmp(mode, "watch"))
		watch_stop();
	if (!strcmp(mode, "period"))
		period_stop();
}
module_exit(bench_exit);

MODULE_DESCRIPTION("Benchmark of the RDMA READ/WRITE API");
MODULE_LICENSE("GPL");
