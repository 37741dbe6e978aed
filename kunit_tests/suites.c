// SPDX-License-Identifier: GPL-2.0
/*
 * The suites. The bodies of their cases are in Rust, see rdma_rw_tests.rs.
 */
#include <kunit/test.h>
#include <linux/module.h>

#include "suites.h"

/* A case, and one with parameters. */
#define CASE(test)						\
	{ .run_case = rdma_rw_kunit_##test, .name = #test,	\
	  .module_name = KBUILD_MODNAME }
#define PARAM(test)						\
	{ .run_case = rdma_rw_kunit_##test, .name = #test,	\
	  .generate_params = rdma_rw_kunit_##test##_params,	\
	  .module_name = KBUILD_MODNAME }

#define SUITE(suite)						\
	{ .name = "ib_core_rw_" #suite,				\
	  .suite_init = rdma_rw_kunit_begin,			\
	  .suite_exit = rdma_rw_kunit_end,			\
	  .test_cases = rdma_rw_##suite##_cases }

static struct kunit_case rdma_rw_sizing_cases[] = {
	PARAM(mr_factor),
	PARAM(max_send_wr),
	PARAM(init_qp),
	PARAM(pools),
	CASE(pools_fail),
	{}
};

static struct kunit_suite rdma_rw_sizing = SUITE(sizing);

static struct kunit_case rdma_rw_golden_cases[] = {
	PARAM(transfer_sg),
	PARAM(transfer_bvec),
	PARAM(transfer_iommu),
	{}
};

static struct kunit_suite rdma_rw_golden = SUITE(golden);

kunit_test_suites(&rdma_rw_sizing, &rdma_rw_golden);

MODULE_DESCRIPTION("KUnit tests of the RDMA READ/WRITE API");
MODULE_LICENSE("GPL");
