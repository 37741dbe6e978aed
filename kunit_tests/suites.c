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

static struct kunit_case rdma_rw_deviations_cases[] = {
	PARAM(d1_offset),
	CASE(d1_no_entries),
	PARAM(d2_no_sges),
	CASE(d2_no_mr_pages),
	CASE(d4_invalidated_key),
	PARAM(d5_post),
	PARAM(d6_no_completion),
	PARAM(d7_other_end),
	PARAM(d8_misfit),
	CASE(d8_behind),
	CASE(d9_4_gib),
	CASE(remote_end),
	PARAM(d10_destroy),
	CASE(d13_no_range),
	CASE(d14_not_a_context),
	PARAM(d16_empty),
	CASE(d16_other_ways),
	CASE(no_port),
	CASE(no_direction),
	{}
};

static struct kunit_suite rdma_rw_deviations = SUITE(deviations);

static struct kunit_case rdma_rw_signature_cases[] = {
	PARAM(signature),
	CASE(signature_fails),
	{}
};

static struct kunit_suite rdma_rw_signature = SUITE(signature);

static struct kunit_case rdma_rw_failures_cases[] = {
	PARAM(dma_fails),
	PARAM(no_mr),
	PARAM(mr_fails),
	PARAM(no_memory),
	PARAM(no_leak),
	PARAM(iova_fails),
	CASE(apart),
	{}
};

static struct kunit_suite rdma_rw_failures = SUITE(failures);

static struct kunit_case rdma_rw_lifecycle_cases[] = {
	PARAM(unposted),
	PARAM(chained_again),
	PARAM(send_after),
	CASE(chain_of_contexts),
	CASE(mr_reused),
	CASE(both_ways),
	CASE(nr_ops),
	CASE(pool_exhausted),
	CASE(two_qps),
	CASE(threads),
	CASE(memory_reused),
	{}
};

static struct kunit_suite rdma_rw_lifecycle = SUITE(lifecycle);

static struct kunit_case rdma_rw_cross_cases[] = {
	PARAM(crossed),
	PARAM(crossed_again),
	PARAM(crossed_reuse),
	{}
};

static struct kunit_suite rdma_rw_cross = SUITE(cross);

kunit_test_suites(&rdma_rw_sizing, &rdma_rw_golden, &rdma_rw_signature,
		  &rdma_rw_deviations, &rdma_rw_failures, &rdma_rw_lifecycle,
		  &rdma_rw_cross);

MODULE_DESCRIPTION("KUnit tests of the RDMA READ/WRITE API");
MODULE_LICENSE("GPL");
