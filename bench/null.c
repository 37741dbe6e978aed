// SPDX-License-Identifier: GPL-2.0
/*
 * Functions with the signatures of the API that do nothing. The benchmark calls
 * them as it calls the others, and subtracts what that costs: passing the
 * arguments, the call, and reading the clock.
 */
#include "bench.h"

BENCH_DECLARE_SG_INIT(null_ctx_init)
{
	return 1;
}

BENCH_DECLARE_SG_DESTROY(null_ctx_destroy)
{
}

BENCH_DECLARE_BVEC_INIT(null_ctx_init_bvec)
{
	return 1;
}

BENCH_DECLARE_BVEC_DESTROY(null_ctx_destroy_bvec)
{
}

BENCH_DECLARE_PI_INIT(null_ctx_signature_init)
{
	return 1;
}

BENCH_DECLARE_PI_DESTROY(null_ctx_destroy_signature)
{
}

BENCH_DECLARE_WRS(null_ctx_wrs)
{
	return chain_wr;
}

unsigned int null_mr_factor(struct ib_device *device, u32 port_num, unsigned int maxpages)
{
	return 1;
}

unsigned int null_max_send_wr(struct ib_device *dev, u32 port_num, unsigned int max_rdma_ctxs,
			      u32 create_flags)
{
	return 1;
}
