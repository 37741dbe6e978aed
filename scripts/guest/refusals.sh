# shellcheck shell=bash disable=SC2119
# SPDX-License-Identifier: GPL-2.0
#
# Loads modules that must not load, and one that must: every file NAME.ko of
# the job, with what the kernel is to say in NAME.want; `fits` is the one that
# loads, where there is one. Environment: IMPL.
# shellcheck source=scripts/guest/lib.sh
. /payload/guest/lib.sh
# shellcheck source=scripts/guest/switching.sh
. /payload/guest/switching.sh

modprobe ib_core
require_implementation "$IMPL"

refused=0
for want in /payload/files/*.want; do
	name=$(basename "$want" .want)
	before=$(dmesg | wc -l)
	if insmod "/payload/files/$name.ko" 2>"$RESULTS/$name.err"; then
		fail "$name: it was loaded"
	fi
	dmesg -t | tail -n "+$((before + 1))" >"$RESULTS/$name.dmesg"
	grep -qF "$(<"$want")" "$RESULTS/$name.dmesg" || {
		cat "$RESULTS/$name.dmesg"
		fail "$name: the kernel does not say why: $(<"$want")"
	}
	stock_functions || fail "$name: it was refused, and something of it is there"
	step "$name: $(cat "$RESULTS/$name.err")"
	step "$name: $(grep -F -m 1 "$(<"$want")" "$RESULTS/$name.dmesg")"
	refused=$((refused + 1))
done
((refused > 0)) || fail "there was nothing to refuse"
record refused="$refused"

if [[ -f /payload/files/fits.ko ]]; then
	MODULE=/payload/files/fits.ko
	take_over
	! insmod "$MODULE" 2>"$RESULTS/twice.err" || fail "it was loaded twice"
	grep -q 'File exists' "$RESULTS/twice.err" || fail "twice: $(cat "$RESULTS/twice.err")"
	step "twice: $(cat "$RESULTS/twice.err")"
	[[ $(</sys/module/rdma_rw/parameters/state) == active ]] || fail "the first one suffers from the second"
	give_back
	record twice=1

	# What ib_core was told to do is to be done here too.
	unload ib_core
	modprobe ib_core force_mr=1
	take_over
	[[ $(</sys/module/rdma_rw/parameters/force_mr) == Y ]] || fail "force_mr of ib_core does not count here"
	give_back
	step "force_mr=1 of ib_core counts here too"
	record inherited=1
fi
