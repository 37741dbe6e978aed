// SPDX-License-Identifier: GPL-2.0

//! KUnit tests of the RDMA READ/WRITE API.
//!
//! They call what ib_core exports, so that they run against the C implementation just as against
//! this one. [`mock`] is the device that they run on, [`rig`] a queue pair of it, [`lists`] local
//! memory and [`ctx`] a context; the other modules are suites, which `suites.c` lists.

mod api;
mod bindings;
mod cross;
mod ctx;
mod deviations;
mod failures;
mod golden;
mod kunit;
mod lifecycle;
mod lists;
mod mock;
mod rig;
mod signature;
mod sizing;
mod target;

use kernel::prelude::*;
use kernel::sync::atomic::Relaxed;

/// Prefix of messages printed through the kernel crate's `pr_*!` macros.
const __LOG_PREFIX: &[u8] = b"rdma_rw_kunit\0";

kunit::kunit_cases! {
    sizing:
    mr_factor for MR_FACTOR,
    max_send_wr for MAX_SEND_WR,
    init_qp for INIT_QP,
    pools for POOLS,
    pools_fail,
}

kunit::kunit_cases! {
    golden:
    transfer_sg for TRANSFER_SG,
    transfer_bvec for TRANSFER_BVEC,
    transfer_iommu for TRANSFER_IOMMU,
}

kunit::kunit_cases! {
    deviations:
    d1_offset for D1_OFFSET,
    d1_no_entries,
    d2_no_sges for D2_NO_SGES,
    d2_no_mr_pages,
    d4_invalidated_key,
    d5_post for D5_POST,
    d6_no_completion for ENDS,
    d7_other_end for ENDS,
    d8_misfit for D8_MISFIT,
    d8_behind,
    d9_4_gib,
    remote_end,
    d10_destroy for D10_DESTROY,
    d13_no_range,
    d14_not_a_context,
    d16_empty for D16_EMPTY,
    d16_other_ways,
    no_port,
    no_direction,
}

kunit::kunit_cases! {
    signature:
    signature for SIGNATURE,
    signature_fails,
}

kunit::kunit_cases! {
    failures:
    dma_fails for INITS,
    no_mr for INITS,
    mr_fails for INITS,
    no_memory for INITS,
    no_leak for INITS,
    iova_fails for IOVA_FAILS,
    apart,
}

kunit::kunit_cases! {
    lifecycle:
    unposted for LIVES,
    chained_again for LIVES,
    send_after for LIVES,
    chain_of_contexts,
    mr_reused,
    both_ways,
    nr_ops,
    pool_exhausted,
    two_qps,
    threads,
    memory_reused,
}

kunit::kunit_cases! {
    cross:
    crossed for KINDS,
    crossed_again for FAILING,
    crossed_reuse for REUSED,
}

/// Begins a suite: counts paths from 0.
#[no_mangle]
extern "C" fn rdma_rw_kunit_begin(_suite: *mut bindings::kunit_suite) -> c_int {
    for path in &ctx::PATHS {
        path.store(0, Relaxed);
    }
    match target::get() {
        Ok(_) => 0,
        Err(e) => e.to_errno(),
    }
}

/// Ends a suite: says which paths its contexts took.
#[no_mangle]
extern "C" fn rdma_rw_kunit_end(_suite: *mut bindings::kunit_suite) {
    let [single, multi, mr, signature, iova] = &ctx::PATHS;

    pr_info!(
        "paths: single={} multi={} mr={} signature={} iova={}\n",
        single.load(Relaxed),
        multi.load(Relaxed),
        mr.load(Relaxed),
        signature.load(Relaxed),
        iova.load(Relaxed),
    );
}
