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

# watch_pauses: tells, in the background, the longest time without a completed
# request of each phase, in milliseconds.
watch_pauses() {
	local phase='' now last=0 n seen=0 longest=0
	while [[ ! -e $TRAFFIC/watched ]]; do
		n=$(ios)
		now=${EPOCHREALTIME/./}
		if [[ $(<"$TRAFFIC/phase") != "$phase" ]]; then
			phase=$(<"$TRAFFIC/phase")
			last=$now longest=0
		fi
		if ((now - last > longest)); then
			longest=$((now - last))
			echo $((longest / 1000)) >"$TRAFFIC/pause-$phase"
		fi
		if ((n != seen)); then
			seen=$n
			last=$now
		fi
		sleep 0.05
	done
}
phase() { echo "$1" >"$TRAFFIC/phase"; }
pause() { cat "$TRAFFIC/pause-$1" 2>/dev/null || echo 0; }

step "kernel $(uname -r), as it comes from Debian"
rdma_up rxe
require_implementation c
target_up
host_up
traffic_start "$MIB" "$DISK0" "$DISK1"
phase c
watch_pauses &
watcher=$!
goes_on 500 "C serves NVMe over RDMA"

phase switch
take_over
phase rust
step "insmod rdma_rw.ko: Rust has taken over"
goes_on 500 "Rust serves it"
cp "$CONTEXTS" "$RESULTS/contexts"
CONTEXTS=$RESULTS/contexts
made=$(contexts made) adopted=$(contexts adopted)
while read -r line; do
	step "  $line"
done <"$CONTEXTS"
((made >= 100)) || fail "Rust has made $made contexts only"

phase switch-back
give_back
phase c-again
step "unloaded: C is back"
goes_on 500 "C serves it again"
: >"$TRAFFIC/watched"
wait "$watcher"
traffic_stop
step "$((WRITTEN >> 20)) MiB written, $((VERIFIED >> 20)) MiB read back and verified"
step "longest pause: $(pause c) ms under C, $(pause switch) ms at the switch to Rust, $(pause rust) ms under Rust, $(pause switch-back) ms at the switch back"
record made="$made" adopted="$adopted" kernel="$(uname -r)" pause_c="$(pause c)" \
	pause_switch="$(pause switch)" pause_rust="$(pause rust)" pause_switch_back="$(pause switch-back)"

host_down
target_down
unload nvme-core
rdma_down
