# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0
#
# ROUNDS rounds of taking over from C and giving back, with verified I/O over
# nvmet and rxe all the while. Every fifth round has force_mr=1; every fourth
# opens another connection under one implementation and closes it under the
# other, some of them with force_mr=1. Environment: ROUNDS, MIB.
# shellcheck source=scripts/guest/lib.sh
. /payload/guest/lib.sh
# shellcheck source=scripts/guest/nvmf.sh
. /payload/guest/nvmf.sh
# shellcheck source=scripts/guest/switching.sh
. /payload/guest/switching.sh

# returned: contexts of Rust's that C got to release, as the kernel log tells.
returned() {
	dmesg | sed -nE 's/.*rdma_rw: .*, with ([0-9]+) for it to release$/\1/p' |
		awk '{ n += $1 } END { print n + 0 }'
}

# errors: requests of the disks that have failed or were tried again, as the
# kernel log tells.
errors() { dmesg | grep -cE 'I/O error|nvme.*(timeout|reconnect|error recovery)' || :; }

# repeated: requests that rxe has got twice. It repeats what takes more than a
# second, and a READ of memory that its owner has invalidated meanwhile ends the
# connection, whoever posted it.
repeated() { cat /sys/class/infiniband/dev0/ports/1/hw_counters/duplicate_request; }

# second_open, second_io, second_close: another connection to the target, and
# with it other QPs.
SECOND=
second_open() {
	local before after
	before=$(echo /sys/class/nvme/nvme*)
	host_connect --duplicate-connect
	for after in /sys/class/nvme/nvme*; do
		[[ " $before " == *" $after "* ]] || SECOND=${after##*/}
	done
	[[ $SECOND ]] || fail "there is no second connection"
	wait_for 20 "its disk" compgen -G "/dev/${SECOND}n*"
}
# What it writes is outside of the traffic's part of the disk.
second_io() {
	local disk
	disk=$(compgen -G "/dev/${SECOND}n*" | head -n 1)
	fio --name=second --filename="$disk" --offset="${MIB}m" --size=2m --ioengine=libaio --direct=1 \
		--rw=randwrite --bssplit="$SPLIT_4096" --iodepth=8 --verify=crc32c --verify_fatal=1 \
		--output="$RESULTS/second.log" || fail "I/O on the second connection"
}
second_close() {
	nvme disconnect -d "$SECOND"
	SECOND=
}

# round N
forced_mrs=0 adopted=0 made=0 opened_by_rust=0 opened_by_c=0
round() {
	local n=$1 parameters=()
	((n % 5 && n % 16)) || parameters=(force_mr=1)
	if ((n % 8 == 4)); then
		second_open
		second_io
		opened_by_c=$((opened_by_c + 1))
	fi
	take_over "${parameters[@]}"
	contexts_rise 64
	if ((n % 8 == 0)); then
		second_open
		second_io
		opened_by_rust=$((opened_by_rust + 1))
	elif [[ $SECOND ]]; then
		second_io
		second_close
	fi
	made=$((made + $(contexts made)))
	adopted=$((adopted + $(contexts adopted)))
	forced_mrs=$((forced_mrs + $(contexts made mr)))
	give_back
	if [[ $SECOND ]]; then
		second_io
		second_close
	fi
	traffic_check
}

rdma_up rxe
require_implementation c
target_up
host_up

step "the first rounds, to warm up"
traffic_start "$MIB" "$DISK0" "$DISK1"
for ((n = 1; n <= 8; n++)); do
	round "$n"
done
traffic_stop
slabs before
mrs_before=$(mrs)
returned_before=$(returned)

step "$ROUNDS rounds"
made=0 adopted=0 forced_mrs=0 opened_by_c=0 opened_by_rust=0
traffic_start "$MIB" "$DISK0" "$DISK1"
for ((n = 1; n <= ROUNDS; n++)); do
	round "$n"
	traffic_figures
	((n % 10)) || step "round $n: $made contexts in Rust, where $adopted of C's ended; $((VERIFIED >> 20)) MiB verified"
done
traffic_stop
slabs after
mrs_after=$(mrs)
errors=$(errors)
repeated=$(repeated)
returned=$(($(returned) - returned_before))

host_down
target_down
unload nvme-core
rdma_down

record rounds="$ROUNDS" made="$made" adopted="$adopted" returned="$returned" forced_mrs="$forced_mrs" \
	opened_by_c="$opened_by_c" opened_by_rust="$opened_by_rust" errors="$errors" \
	repeated="$repeated" mrs_before="$mrs_before" mrs_after="$mrs_after"
((errors == 0 || repeated == 0)) ||
	step "rxe has repeated $repeated requests: look whether the machine has too much to do besides"
require "errors == 0" "made >= 64 * rounds" "mrs_before == mrs_after"
# A long run meets each of these; a short one may not.
((ROUNDS < 20)) || require "adopted > 0" "returned > 0" "forced_mrs > 0" "opened_by_c > 0" "opened_by_rust > 0"

# What leaks once a round has a cache that grows by that.
slab_growth
((ROUNDS < 50)) || require "slab_growth < rounds"
step "$ROUNDS rounds, $((VERIFIED >> 20)) MiB verified, $errors errors, slab growth $(figure slab_growth)"
