# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0
#
# The KUnit suites on the mock device, in the guest: a job of guest-run. They
# run once for every word of FORCE_MR, a value of ib_core's force_mr; what they
# print, KTAP, is in `kunit-FORCE_MR.ktap`. Environment: IMPL, FORCE_MR.
# shellcheck source=scripts/guest/lib.sh
. /payload/guest/lib.sh

DEBUG=/sys/kernel/debug

# Allocations that may sleep can be made to fail, and there is no word of it.
for fault in failslab fail_page_alloc; do
	echo N >"$DEBUG/$fault/ignore-gfp-wait"
	echo 0 >"$DEBUG/$fault/verbose"
done
# What fails is what kmalloc() gives. dma-debug has a slab of its own, and
# switches itself off where that fails it.
for cache in /sys/kernel/slab/kmalloc-*; do
	echo 1 >"$cache/failslab"
done
echo Y >"$DEBUG/failslab/cache-filter"

require_machine
for force in $FORCE_MR; do
	step "the suites, rdma_rw in ${IMPL^}, force_mr=$force"
	modprobe ib_core force_mr="$force"
	require_implementation "$IMPL"
	echo 1 >"$DEBUG/clear_warn_once"
	before=$(dmesg | wc -l)
	modprobe rdma_rw_kunit
	dmesg -t | tail -n "+$((before + 1))" >"$RESULTS/kunit-$force.ktap"
	# The tests have to know what they run on.
	grep -qx "rdma_rw_kunit: rdma_rw is in ${IMPL^}, force_mr=$force" "$RESULTS/kunit-$force.ktap" ||
		fail "the suites say that they ran on something else"
	unload rdma_rw_kunit ib_core
done
