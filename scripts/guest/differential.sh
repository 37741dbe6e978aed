# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0
#
# The differential suite (kunit_tests/differential.rs) on a device behind the
# guest's emulated IOMMU, with ib_core.force_mr=0 and =1: a job of guest-run
# --machine iommu. It needs kunit.autorun=1 on the kernel's command line. The
# results, KTAP, are in differential-FORCE.ktap. Environment: COUNT, for each
# of the two, and SEED.
# shellcheck source=scripts/guest/lib.sh
. /payload/guest/lib.sh

DMA=/sys/kernel/debug/dma-api

# The edu device, and how its DMA goes.
edu=$(grep -lx 0x11e8 /sys/bus/pci/devices/*/device) || fail "there is no edu device"
domain=$(cat "${edu%/device}/iommu_group/type")
[[ $domain == DMA* && $domain != DMA-direct ]] || fail "the edu device's IOMMU does not translate: $domain"
step "an edu device in an IOMMU domain of type $domain"

for force in 0 1; do
	modprobe ib_core force_mr="$force"
	require_implementation rust
	free=$(cat $DMA/num_free_entries)
	step "$COUNT cases of seed $SEED, force_mr=$force"
	modprobe rdma_rw_differential count="$COUNT" seed="$SEED"
	cp /sys/kernel/debug/kunit/rdma_rw_differential/results "$RESULTS/differential-$force.ktap"
	unload rdma_rw_differential
	# What the DMA debugging code has seen mapped is unmapped.
	[[ $(cat $DMA/error_count) == 0 ]] || fail "the DMA debugging code has found errors"
	[[ $(cat $DMA/num_free_entries) == "$free" ]] || fail "DMA mappings are left"
	unload ib_core
	grep -E '^ok .*rdma_rw_differential$' "$RESULTS/differential-$force.ktap" >/dev/null ||
		fail "the suite did not pass with force_mr=$force"
done
