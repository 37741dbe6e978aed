# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0
#
# The suite over a real link (kunit_tests/loopback.rs), in the guest: a job of
# guest-run. It needs kunit.autorun=1 on the kernel's command line. The results,
# KTAP, of each of DEVS are in `loopback-DEV.ktap`. Environment: IMPL, DEVS.
# shellcheck source=scripts/guest/lib.sh
. /payload/guest/lib.sh

SUITE=/sys/kernel/debug/kunit/rdma_rw_loopback/results

# over DEV: runs the suite.
over() {
	local dev=$1 forced=0 rust=0 ktap=$RESULTS/loopback-$1.ktap
	[[ $dev != *-mr ]] || forced=1
	[[ $IMPL != rust ]] || rust=1
	rdma_up "$dev"
	require_implementation "$IMPL"
	step "the loopback suite over $dev"
	modprobe rdma_rw_loopback address="$ADDRESS" force_mr="$forced" rust="$rust"
	cp "$SUITE" "$ktap"
	unload rdma_rw_loopback
	rdma_down
	sed -n 's/^ *# paths: \(.* MiB compared\)$/==> \1/p' "$ktap"
	grep -E '^ +(not ok|ok .*# SKIP .)' "$ktap" | sed 's/^ */==> /' || :
	sed -n 's/^# Totals: pass:\([0-9]*\) fail:\([0-9]*\) skip:\([0-9]*\) .*/==> \1 passed, \2 failed, \3 skipped/p' "$ktap"
}

for dev in $DEVS; do
	over "$dev"
done
for dev in $DEVS; do
	grep -qE '^ok .*rdma_rw_loopback$' "$RESULTS/loopback-$dev.ktap" || fail "the suite did not pass over $dev"
done
