/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What suites.c lists.
 */
#ifndef _RDMA_RW_TESTS_SUITES_H
#define _RDMA_RW_TESTS_SUITES_H

#include <kunit/test.h>

#define DECLARE_CASE(test) \
	void rdma_rw_kunit_##test(struct kunit *context)
#define DECLARE_PARAM(test) \
	DECLARE_CASE(test); \
	const void *rdma_rw_kunit_##test##_params(struct kunit *context, \
						  const void *prev, char *desc)

int rdma_rw_kunit_begin(struct kunit_suite *suite);
void rdma_rw_kunit_end(struct kunit_suite *suite);

DECLARE_PARAM(mr_factor);
DECLARE_PARAM(max_send_wr);
DECLARE_PARAM(init_qp);
DECLARE_PARAM(pools);
DECLARE_CASE(pools_fail);

DECLARE_PARAM(transfer_sg);
DECLARE_PARAM(transfer_bvec);
DECLARE_PARAM(transfer_iommu);

DECLARE_PARAM(d1_offset);
DECLARE_CASE(d1_no_entries);
DECLARE_PARAM(d2_no_sges);
DECLARE_CASE(d2_no_mr_pages);
DECLARE_CASE(d4_invalidated_key);
DECLARE_PARAM(d5_post);
DECLARE_PARAM(d6_no_completion);
DECLARE_PARAM(d7_other_end);
DECLARE_PARAM(d8_misfit);
DECLARE_CASE(d8_behind);
DECLARE_CASE(d9_4_gib);
DECLARE_CASE(remote_end);
DECLARE_PARAM(d10_destroy);
DECLARE_CASE(d13_no_range);
DECLARE_CASE(d14_not_a_context);
DECLARE_PARAM(d16_empty);
DECLARE_CASE(d16_other_ways);
DECLARE_CASE(no_port);
DECLARE_CASE(no_direction);

DECLARE_PARAM(signature);
DECLARE_CASE(signature_fails);

DECLARE_PARAM(dma_fails);
DECLARE_PARAM(no_mr);
DECLARE_PARAM(mr_fails);
DECLARE_PARAM(no_memory);
DECLARE_PARAM(no_leak);
DECLARE_PARAM(iova_fails);
DECLARE_CASE(apart);

DECLARE_PARAM(unposted);
DECLARE_PARAM(chained_again);
DECLARE_PARAM(send_after);
DECLARE_CASE(chain_of_contexts);
DECLARE_CASE(mr_reused);
DECLARE_CASE(both_ways);
DECLARE_CASE(nr_ops);
DECLARE_CASE(pool_exhausted);
DECLARE_CASE(two_qps);
DECLARE_CASE(threads);
DECLARE_CASE(memory_reused);

DECLARE_PARAM(crossed);
DECLARE_PARAM(crossed_again);
DECLARE_PARAM(crossed_reuse);

#endif
