// SPDX-License-Identifier: GPL-2.0
/*
 * What only C can say for the Rust implementation of rdma_rw inside ib_core:
 * the exports and the module parameter.
 */
#include <linux/export.h>
#include <linux/moduleparam.h>
#include <rdma/rw.h>

#include "bindings/bindings_helper.h"

bool rdma_rw_force_mr;
module_param_named(force_mr, rdma_rw_force_mr, bool, 0);
MODULE_PARM_DESC(force_mr, "Register memory for every RDMA READ and WRITE, also where the device does without");

EXPORT_SYMBOL(rdma_rw_ctx_init);
EXPORT_SYMBOL(rdma_rw_ctx_init_bvec);
EXPORT_SYMBOL(rdma_rw_ctx_signature_init);
EXPORT_SYMBOL(rdma_rw_ctx_wrs);
EXPORT_SYMBOL(rdma_rw_ctx_post);
EXPORT_SYMBOL(rdma_rw_ctx_destroy);
EXPORT_SYMBOL(rdma_rw_ctx_destroy_bvec);
EXPORT_SYMBOL(rdma_rw_ctx_destroy_signature);
EXPORT_SYMBOL(rdma_rw_mr_factor);
EXPORT_SYMBOL(rdma_rw_max_send_wr);
