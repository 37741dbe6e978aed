# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0
#
# Contexts that go from C to Rust and back, on the mock device: the cross suite
# against the module that has taken over. What it prints, KTAP, is in
# cross-FORCE_MR.ktap.
# shellcheck source=scripts/guest/lib.sh
. /payload/guest/lib.sh
# shellcheck source=scripts/guest/switching.sh
. /payload/guest/switching.sh

# The others are about one implementation alone.
SUITE=ib_core_rw_cross
printf %s "$SUITE" >/sys/module/kunit/parameters/filter_glob

require_machine
for force in 0 1; do
	step "the cross suite, force_mr=$force"
	modprobe ib_core force_mr="$force"
	require_implementation c
	take_over
	made=$(contexts made) adopted=$(contexts adopted)
	before=$(dmesg | wc -l)
	modprobe rdma_rw_kunit
	dmesg -t | tail -n "+$((before + 1))" >"$RESULTS/cross-$force.ktap"
	made=$(($(contexts made) - made)) adopted=$(($(contexts adopted) - adopted))
	alive=$(contexts alive)
	unload rdma_rw_kunit
	give_back
	unload ib_core
	read -r passed failed skipped < <(sed -nE 's/^# Totals: pass:([0-9]+) fail:([0-9]+) skip:([0-9]+) .*/\1 \2 \3/p' \
		"$RESULTS/cross-$force.ktap")
	if ! grep -qE "^ok [0-9]+ $SUITE" "$RESULTS/cross-$force.ktap" || ((failed || !passed)); then
		grep -E 'not ok|#' "$RESULTS/cross-$force.ktap" | head -n 40
		fail "the cross suite"
	fi
	step "$passed passed, $skipped skipped; $made contexts made in Rust, $adopted of C's released there"
	record cross_passed="$passed" cross_skipped="$skipped" made="$made" adopted="$adopted" alive="$alive"
	# Some of those that Rust makes are released by C, which nobody counts.
	require "made > 0" "adopted > 0" "alive >= 0"
done
