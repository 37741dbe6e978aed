# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0
#
# The suite over a real link (kunit_tests/loopback.rs), in the guest: a job of
# guest-run. It needs kunit.autorun=1 on the kernel's command line. The results,
# KTAP, are in `loopback.ktap`. Environment: IMPL, DEV.
# shellcheck source=scripts/guest/lib.sh
. /payload/guest/lib.sh

SUITE=/sys/kernel/debug/kunit/rdma_rw_loopback/results

rdma_up "$DEV"
require_implementation "$IMPL"
forced=0
[[ $DEV != *-mr ]] || forced=1
rust=0
[[ $IMPL != rust ]] || rust=1

step "the loopback suite over $DEV"
modprobe rdma_rw_loopback address="$ADDRESS" force_mr="$forced" rust="$rust"
cp "$SUITE" "$RESULTS/loopback.ktap"
unload rdma_rw_loopback
rdma_down

sed -n 's/^ *# paths: \(.* MiB compared\)$/==> \1/p' "$RESULTS/loopback.ktap"
grep -E '^ +(not ok|ok .*# SKIP .)' "$RESULTS/loopback.ktap" | sed 's/^ */==> /' || :
sed -n 's/^# Totals: pass:\([0-9]*\) fail:\([0-9]*\) skip:\([0-9]*\) .*/==> \1 passed, \2 failed, \3 skipped/p' \
	"$RESULTS/loopback.ktap"
grep -qE '^ok .*rdma_rw_loopback$' "$RESULTS/loopback.ktap" || fail "the suite did not pass"
