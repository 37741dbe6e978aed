# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0
#
# Random cases (kunit_tests/differential.rs) in the guest, with
# ib_core.force_mr=0 and =1: a job of guest-run. On --machine iommu the device is
# one behind the guest's emulated IOMMU, else it has a simulated one. It needs
# kunit.autorun=1 and kunit.filter_glob=SUITE on the kernel's command line. The
# results, KTAP, are in cases-FORCE.ktap. Environment: SUITE, COUNT, for each of
# the two, and SEED.
# shellcheck source=scripts/guest/lib.sh
. /payload/guest/lib.sh

DMA=/sys/kernel/debug/dma-api

# dma_debug FILE: what the kernel's DMA debugging says, nothing without an IOMMU.
dma_debug() { [[ $MACHINE != iommu ]] || cat "$DMA/$1"; }

require_machine

for force in 0 1; do
	modprobe ib_core force_mr="$force"
	require_implementation rust
	free=$(dma_debug num_free_entries)
	step "$SUITE: $COUNT cases of seed $SEED, force_mr=$force"
	modprobe rdma_rw_differential count="$COUNT" seed="$SEED"
	cp "/sys/kernel/debug/kunit/$SUITE/results" "$RESULTS/cases-$force.ktap"
	unload rdma_rw_differential
	# What the DMA debugging code has seen mapped is unmapped.
	[[ $(dma_debug error_count) =~ ^0?$ ]] || fail "the DMA debugging code has found errors"
	[[ $(dma_debug num_free_entries) == "$free" ]] || fail "DMA mappings are left"
	unload ib_core
	grep -E "^ok .*$SUITE\$" "$RESULTS/cases-$force.ktap" >/dev/null ||
		fail "the suite did not pass with force_mr=$force"
done
