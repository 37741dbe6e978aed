/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The form of this project that takes the API over on a running kernel, and
 * gives it back when it is unloaded.
 */
#ifndef _RDMA_RW_TAKEOVER_H
#define _RDMA_RW_TAKEOVER_H

#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <rdma/rw.h>

#include "../bindings/bindings_helper.h"

/* The functions of ib_core that are taken over. */
enum takeover_func {
	RDMA_RW_CTX_INIT,
	RDMA_RW_CTX_INIT_BVEC,
	RDMA_RW_CTX_SIGNATURE_INIT,
	RDMA_RW_CTX_WRS,
	RDMA_RW_CTX_POST,
	RDMA_RW_CTX_DESTROY,
	RDMA_RW_CTX_DESTROY_BVEC,
	RDMA_RW_CTX_DESTROY_SIGNATURE,
	RDMA_RW_MR_FACTOR,
	RDMA_RW_MAX_SEND_WR,
	RDMA_RW_INIT_QP,
	RDMA_RW_INIT_MRS,
	RDMA_RW_CLEANUP_MRS,
	NR_TAKEOVER_FUNCS
};

/* The functions that make, chain and release contexts, of one side or the other. */
struct rdma_rw_side {
	const char *name;
	typeof(rdma_rw_ctx_init) *init;
	typeof(rdma_rw_ctx_init_bvec) *init_bvec;
	typeof(rdma_rw_ctx_signature_init) *signature_init;
	typeof(rdma_rw_ctx_wrs) *wrs;
	typeof(rdma_rw_ctx_destroy) *destroy;
	typeof(rdma_rw_ctx_destroy_bvec) *destroy_bvec;
	typeof(rdma_rw_ctx_destroy_signature) *destroy_signature;
};

/* proof.c */
int takeover_proof(const struct rdma_rw_side *c, const struct rdma_rw_side *rust);

/* counters.c */
void takeover_counters_init(void);
void takeover_counters_exit(void);
void takeover_counters_start(void);
void takeover_counters_settled(void);
/* Contexts made, and those of them that are alive, of all paths. */
void takeover_counters_read(u64 *made, s64 *alive);

#endif
