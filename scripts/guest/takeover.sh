# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0
#
# The module on a kernel that knows nothing of it: nvmet serves verified I/O
# over rxe, the module takes the API over in the middle of it, and gives it
# back in the middle of it. Environment: MIB.
# shellcheck source=scripts/guest/lib.sh
. /payload/guest/lib.sh
# shellcheck source=scripts/guest/nvmf.sh
. /payload/guest/nvmf.sh
# shellcheck source=scripts/guest/switching.sh
. /payload/guest/switching.sh

# ios: the requests that the disks have completed.
ios() { echo $(($(requests 1 "$DISK0" "$DISK1") + $(requests 5 "$DISK0" "$DISK1"))); }

# goes_on N TEXT: waits for N requests more, and tells the time that took.
more_ios() { (($(ios) >= target)); }
goes_on() {
	local start=$EPOCHREALTIME target=$(($(ios) + $1))
	wait_for 120 "I/O, $2" more_ios
	traffic_check
	step "$2: $(awk -v n="$1" -v a="$start" -v b="$EPOCHREALTIME" \
		'BEGIN { printf "%d requests in %.1f s, no error", n, b - a }')"
}

# stall: the longest time without a completed request, in milliseconds, as a
# watcher in the background sees it.
watch_stalls() {
	local now last last_ios=0 longest=0 n
	last=${EPOCHREALTIME/./}
	while [[ ! -e $TRAFFIC/watched ]]; do
		n=$(ios)
		now=${EPOCHREALTIME/./}
		if ((n != last_ios)); then
			last_ios=$n
			last=$now
		elif ((now - last > longest)); then
			longest=$((now - last))
		fi
		echo $((longest / 1000)) >"$TRAFFIC/stall"
		sleep 0.1
	done
}

step "kernel $(uname -r), as it comes from Debian"
rdma_up rxe
require_implementation c
target_up
host_up
traffic_start "$MIB" "$DISK0" "$DISK1"
watch_stalls &
watcher=$!
goes_on 500 "C serves NVMe over RDMA"

take_over
step "insmod rdma_rw.ko: Rust has taken over"
goes_on 500 "Rust serves it"
made=$(contexts made) adopted=$(contexts adopted)
while read -r line; do
	step "  $line"
done <"$CONTEXTS"
((made >= 100)) || fail "Rust has made $made contexts only"

give_back
step "unloaded: C is back, after $made contexts in Rust, where $adopted of C's ended"
goes_on 500 "C serves it again"
: >"$TRAFFIC/watched"
wait "$watcher"
stall=$(<"$TRAFFIC/stall")
traffic_stop
step "$((WRITTEN >> 20)) MiB written, $((VERIFIED >> 20)) MiB read back and verified; longest pause $stall ms"
record made="$made" adopted="$adopted" stall="$stall" kernel="$(uname -r)"

host_down
target_down
unload nvme-core
rdma_down
