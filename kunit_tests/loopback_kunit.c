// SPDX-License-Identifier: GPL-2.0
/*
 * Data over a real link: two QPs of one device, connected with each other by
 * rdma_cm, and everything the RDMA READ/WRITE API can do between them, with
 * the bytes that arrive compared. The link has to be there; the module
 * parameter `address` is an IPv4 address of it.
 *
 * The bodies are in loopback.rs.
 */
#include <kunit/test.h>
#include <linux/inet.h>
#include <linux/module.h>
#include <linux/random.h>

#include "loopback.h"

static char *address;
module_param(address, charp, 0);
MODULE_PARM_DESC(address, "IPv4 address of the RDMA link to test over");

static bool force_mr;
module_param(force_mr, bool, 0);
MODULE_PARM_DESC(force_mr, "ib_core has been loaded with force_mr");

static bool rust;
module_param(rust, bool, 0);
MODULE_PARM_DESC(rust, "ib_core registers lists with gaps and joins neighbours");

/* Long enough for an emulated machine. */
#define PATIENCE (60 * HZ)

int rdma_rw_loopback_address(struct sockaddr_in *sin)
{
	/* A connection that has failed may still hold its port. */
	static u16 port = 18515;

	memset(sin, 0, sizeof(*sin));
	sin->sin_family = AF_INET;
	sin->sin_port = htons(port++);
	if (!address || !in4_pton(address, -1, (u8 *)&sin->sin_addr, -1, NULL))
		return -EINVAL;
	return 0;
}

bool rdma_rw_loopback_force_mr(void)
{
	return force_mr;
}

bool rdma_rw_loopback_rust(void)
{
	return rust;
}

/* The test case that runs. */
static struct kunit *running;

void rdma_rw_loopback_print(const char *text)
{
	kunit_info(running, "%s", text);
}

void rdma_rw_loopback_init_completion(struct completion *completion)
{
	init_completion(completion);
}

bool rdma_rw_loopback_wait(struct completion *completion)
{
	return wait_for_completion_timeout(completion, PATIENCE);
}

struct rdma_cm_id *rdma_rw_loopback_create_id(rdma_cm_event_handler handler,
					      void *context)
{
	return rdma_create_id(&init_net, handler, context, RDMA_PS_TCP,
			      IB_QPT_RC);
}

struct ib_pd *rdma_rw_loopback_alloc_pd(struct ib_device *device)
{
	/* One key for the whole of the remote memory, however large. */
	return ib_alloc_pd(device, IB_PD_UNSAFE_GLOBAL_RKEY);
}

struct ib_cq *rdma_rw_loopback_alloc_cq(struct ib_device *device, int nr_cqe)
{
	return ib_alloc_cq(device, NULL, nr_cqe, 0, IB_POLL_WORKQUEUE);
}

int rdma_rw_loopback_post_recv(struct ib_qp *qp, const struct ib_recv_wr *wr)
{
	return ib_post_recv(qp, wr, NULL);
}

int rdma_rw_loopback_post_send(struct ib_qp *qp, const struct ib_send_wr *wr)
{
	return ib_post_send(qp, wr, NULL);
}

struct page *rdma_rw_loopback_alloc_pages(unsigned int order)
{
	return alloc_pages(GFP_KERNEL, order);
}

void rdma_rw_loopback_free_pages(struct page *page, unsigned int order)
{
	__free_pages(page, order);
}

void *rdma_rw_loopback_page_address(const struct page *page)
{
	return page_address(page);
}

void rdma_rw_loopback_random(void *buffer, size_t size)
{
	get_random_bytes(buffer, size);
}

/* ------------------------------------------------------------------ cases */

/* Sizes around everything that a transfer is cut into. */
static const struct rdma_rw_loopback_case sizes[] = {
	{ .unit = RDMA_RW_LOOPBACK_BYTE, .nr = 1 },
	{ .unit = RDMA_RW_LOOPBACK_BYTE, .nr = 2 },
	{ .unit = RDMA_RW_LOOPBACK_BYTE, .nr = 511 },
	{ .unit = RDMA_RW_LOOPBACK_PAGE, .nr = 1, .extra = -1 },
	{ .unit = RDMA_RW_LOOPBACK_PAGE, .nr = 1 },
	{ .unit = RDMA_RW_LOOPBACK_PAGE, .nr = 1, .extra = 1 },
	{ .unit = RDMA_RW_LOOPBACK_PAGE, .nr = 2, .extra = -1 },
	{ .unit = RDMA_RW_LOOPBACK_PAGE, .nr = 2 },
	{ .unit = RDMA_RW_LOOPBACK_PAGE, .nr = 2, .extra = 1 },
	{ .unit = RDMA_RW_LOOPBACK_WR, .nr = 1, .extra = -1 },
	{ .unit = RDMA_RW_LOOPBACK_WR, .nr = 1 },
	{ .unit = RDMA_RW_LOOPBACK_WR, .nr = 1, .extra = 1 },
	{ .unit = RDMA_RW_LOOPBACK_WR, .nr = 2, .extra = -1 },
	{ .unit = RDMA_RW_LOOPBACK_WR, .nr = 2, .extra = 1 },
	{ .unit = RDMA_RW_LOOPBACK_MR, .nr = 1, .extra = -1 },
	{ .unit = RDMA_RW_LOOPBACK_MR, .nr = 1 },
	{ .unit = RDMA_RW_LOOPBACK_MR, .nr = 1, .extra = 1 },
	{ .unit = RDMA_RW_LOOPBACK_MR, .nr = 2, .extra = 1 },
	{ .unit = RDMA_RW_LOOPBACK_ALL, .nr = 1, .extra = -4095 },
	{ .unit = RDMA_RW_LOOPBACK_ALL, .nr = 1 },
};

static const struct rdma_rw_loopback_case offsets[] = {
	{ .unit = RDMA_RW_LOOPBACK_PAGE, .nr = 3, .offset = 1 },
	{ .unit = RDMA_RW_LOOPBACK_PAGE, .nr = 3, .offset = 511 },
	{ .unit = RDMA_RW_LOOPBACK_PAGE, .nr = 3, .offset = 4095 },
	{ .unit = RDMA_RW_LOOPBACK_PAGE, .nr = 3, .offset = 4096 },
	{ .unit = RDMA_RW_LOOPBACK_PAGE, .nr = 3, .offset = 4097 },
	{ .unit = RDMA_RW_LOOPBACK_PAGE, .nr = 3, .offset = 8192 },
	{ .unit = RDMA_RW_LOOPBACK_PAGE, .nr = 3, .offset = 12287 },
	{ .unit = RDMA_RW_LOOPBACK_MR, .nr = 1, .extra = 4096, .offset = 4097 },
};

static const struct rdma_rw_loopback_case forms[] = {
	{ false, false, RDMA_RW_LOOPBACK_PAGE, 3, 77 },
	{ false, true, RDMA_RW_LOOPBACK_PAGE, 3, 77 },
	{ true, false, RDMA_RW_LOOPBACK_PAGE, 3, 77 },
	{ true, true, RDMA_RW_LOOPBACK_PAGE, 3, 77 },
};

static const struct rdma_rw_loopback_case chained_sizes[] = {
	{ false, false, RDMA_RW_LOOPBACK_BYTE, 1 },
	{ false, false, RDMA_RW_LOOPBACK_WR, 2, 1 },
	{ false, false, RDMA_RW_LOOPBACK_ALL, 1 },
	{ true, false, RDMA_RW_LOOPBACK_BYTE, 1 },
	{ true, false, RDMA_RW_LOOPBACK_WR, 2, 1 },
	{ true, false, RDMA_RW_LOOPBACK_ALL, 1 },
};

static const struct rdma_rw_loopback_case siw_offsets[] = {
	{ false, true, RDMA_RW_LOOPBACK_PAGE, 3, 0, 1 },
	{ false, true, RDMA_RW_LOOPBACK_PAGE, 3, 0, 511 },
};

static void describe(const struct rdma_rw_loopback_case *param, char *text)
{
	static const char *const units[] = { "B", "page", "WR", "MR", "all" };
	int len;

	len = scnprintf(text, KUNIT_PARAM_DESC_SIZE, "%s %s %u %s",
			param->read ? "READ" : "WRITE",
			param->bvec ? "bvec" : "sg", param->nr,
			units[param->unit]);
	if (param->extra)
		len += scnprintf(text + len, KUNIT_PARAM_DESC_SIZE - len,
				 " %+d", param->extra);
	if (param->offset)
		scnprintf(text + len, KUNIT_PARAM_DESC_SIZE - len,
			  " offset %u", param->offset);
}

/*
 * Each of @nr cases as READ and as WRITE, of a scatterlist and, as far as
 * there is room in @made, of an array of bio_vec.
 */
static const void *next_of(struct rdma_rw_loopback_case *made, size_t nr_made,
			   const struct rdma_rw_loopback_case *cases, size_t nr,
			   const struct rdma_rw_loopback_case *prev, char *desc)
{
	size_t i = prev ? prev - made + 1 : 0;

	if (i == nr_made)
		return NULL;

	made[i] = cases[i % nr];
	made[i].read = i / nr % 2;
	made[i].bvec = i / nr / 2;
	describe(&made[i], desc);
	return &made[i];
}

static const void *transfers_gen_params(struct kunit *test, const void *prev,
					char *desc)
{
	static struct rdma_rw_loopback_case made[4 * ARRAY_SIZE(sizes)];

	return next_of(made, ARRAY_SIZE(made), sizes, ARRAY_SIZE(sizes), prev,
		       desc);
}

static const void *offsets_gen_params(struct kunit *test, const void *prev,
				      char *desc)
{
	static struct rdma_rw_loopback_case made[2 * ARRAY_SIZE(offsets)];

	return next_of(made, ARRAY_SIZE(made), offsets, ARRAY_SIZE(offsets),
		       prev, desc);
}

KUNIT_ARRAY_PARAM(forms, forms, describe);
KUNIT_ARRAY_PARAM(chained_sizes, chained_sizes, describe);
KUNIT_ARRAY_PARAM(siw_offsets, siw_offsets, describe);

static struct rdma_rw_loopback *loopback;

static int loopback_suite_init(struct kunit_suite *suite)
{
	struct rdma_rw_loopback_report report = {};
	int ret;

	/* Without a link the cases are skipped. */
	if (!address)
		return 0;

	ret = rdma_rw_loopback_up(&loopback, &report);
	if (ret)
		pr_err("%s: no connection: %s (%d)\n", suite->name, report.text,
		       ret);
	return ret;
}

static void loopback_suite_exit(struct kunit_suite *suite)
{
	if (loopback)
		rdma_rw_loopback_down(loopback);
	loopback = NULL;
}

static void run(struct kunit *test, rdma_rw_loopback_body *body)
{
	struct rdma_rw_loopback_report report = {};
	int ret;

	if (!loopback)
		kunit_skip(test, "no RDMA link is named by the parameter address");

	running = test;
	ret = body(loopback, test->param_value, &report);
	if (ret == RDMA_RW_LOOPBACK_SKIP)
		kunit_skip(test, "%s", report.text);
	if (ret)
		KUNIT_FAIL(test, "%s (%d)", report.text, ret);
}

#define BODY(name)                                                           \
	static void name(struct kunit *test)                                 \
	{                                                                    \
		run(test, rdma_rw_loopback_##name);                          \
	}

BODY(transfer)
BODY(offset)
BODY(siw_offset)
BODY(chained)
BODY(in_flight)
BODY(qp_error)
BODY(paths)

static struct kunit_case loopback_cases[] = {
	KUNIT_CASE_PARAM(transfer, transfers_gen_params),
	KUNIT_CASE_PARAM(offset, offsets_gen_params),
	KUNIT_CASE_PARAM(siw_offset, siw_offsets_gen_params),
	KUNIT_CASE_PARAM(chained, chained_sizes_gen_params),
	KUNIT_CASE_PARAM(in_flight, forms_gen_params),
	KUNIT_CASE_PARAM(qp_error, forms_gen_params),
	KUNIT_CASE(paths),
	{}
};

static struct kunit_suite loopback_suite = {
	.name = "rdma_rw_loopback",
	.suite_init = loopback_suite_init,
	.suite_exit = loopback_suite_exit,
	.test_cases = loopback_cases,
};

kunit_test_suite(loopback_suite);

MODULE_DESCRIPTION("RDMA READ/WRITE API over a real link");
MODULE_LICENSE("GPL");
