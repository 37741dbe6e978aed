# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0
#
# Loads the benchmark, /payload/files/rdma_rw_bench.ko, once for every word of
# RUNS, and keeps what it prints. A run is MODE:SET[:PARAMETER=VALUE...]; a run
# of the set `force` has ib_core loaded with force_mr=1. Environment: IMPL, RUNS.
# shellcheck source=scripts/guest/lib.sh
. /payload/guest/lib.sh

for run in $RUNS; do
	IFS=: read -ra words <<<"$run"
	step "${words[*]}"
	if [[ ${words[1]} == force ]]; then
		modprobe ib_core force_mr=1
	else
		modprobe ib_core
	fi
	grep -F '[ib_core]' /proc/kallsyms >/tmp/symbols
	rust=$(grep -c ' _R.*7rdma_rw' /tmp/symbols || :)
	case $IMPL in
	c) ((rust == 0)) ;;
	rust) ((rust > 0)) ;;
	esac || fail "this guest was to run rdma_rw in $IMPL, but ib_core has $rust Rust functions"
	lines=$(dmesg | wc -l)
	insmod /payload/files/rdma_rw_bench.ko "mode=${words[0]}" "set=${words[1]}" "${words[@]:2}"
	dmesg | tail -n "+$((lines + 1))" | sed -n "s/.*rdma_rw_bench: /run=${words[0]} /p" >>"$RESULTS/bench"
	tail -n 1 "$RESULTS/bench" | grep -qx "run=${words[0]} end mode=${words[0]} set=${words[1]} ret=0 failed=0" ||
		fail "the benchmark failed: $(grep -m 3 FAILED "$RESULTS/bench" || tail -n 1 "$RESULTS/bench")"
	rmmod rdma_rw_bench
	unload ib_core
done
{
	uname -r
	grep -m 1 '^model name' /proc/cpuinfo
	grep -m 1 '^flags' /proc/cpuinfo
	grep . /sys/devices/system/cpu/vulnerabilities/*
} >"$RESULTS/machine"
