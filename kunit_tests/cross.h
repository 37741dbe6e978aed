/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The kernel tree's own rw.c beside what ib_core exports, for contexts that go
 * from one to the other: cross_referee.c.
 */
#ifndef _RDMA_RW_TESTS_CROSS_H
#define _RDMA_RW_TESTS_CROSS_H

#include <rdma/rw.h>

extern typeof(rdma_rw_ctx_init) cross_rdma_rw_ctx_init;
extern typeof(rdma_rw_ctx_init_bvec) cross_rdma_rw_ctx_init_bvec;
extern typeof(rdma_rw_ctx_signature_init) cross_rdma_rw_ctx_signature_init;
extern typeof(rdma_rw_ctx_wrs) cross_rdma_rw_ctx_wrs;
extern typeof(rdma_rw_ctx_post) cross_rdma_rw_ctx_post;
extern typeof(rdma_rw_ctx_destroy) cross_rdma_rw_ctx_destroy;
extern typeof(rdma_rw_ctx_destroy_bvec) cross_rdma_rw_ctx_destroy_bvec;
extern typeof(rdma_rw_ctx_destroy_signature) cross_rdma_rw_ctx_destroy_signature;

/* Its own force_mr. */
void cross_rdma_rw_set_force_mr(bool force_mr);

#endif
