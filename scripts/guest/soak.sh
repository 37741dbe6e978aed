# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0
#
# NVMe-oF, NFS and iSER at once over one device, each verifying all that it
# writes, while one thing after the other happens to them: allocations of the
# targets and of rdma_rw fail, the link goes away, sessions are reset, targets
# leave and come back, and the module takes over from C and gives back. After
# each of these every stream has to verify all of its data once more. The order
# is random, from SEED. Environment: DEV, MINUTES, SEED, MIB.
# shellcheck source=scripts/guest/lib.sh
. /payload/guest/lib.sh
# shellcheck source=scripts/guest/switching.sh
. /payload/guest/switching.sh

# nfsd tells the client of what it has no memory for, and that is an I/O error.
TOLERANT=1
# A response to a logout can fail on siw, where isert, with C in charge, releases
# a command that is in use.
ULPS=(nvmf nfs)
[[ $DEV == siw ]] || ULPS+=(iser)
NFS_MOUNT=/mnt/nfs

# ulp ULP CMD...: runs CMD with the functions of a ULP, which have the same
# names for each, and with disks of its own.
ulp() (
	BLOCK=/dev/nullb-$1 FILE=/var/tmp/disk-$1
	# shellcheck source=/dev/null
	. "/payload/guest/$1.sh"
	shift
	"$@"
)

up_nvmf() {
	ulp nvmf target_up
	ulp nvmf host_up
	STREAMS+=("$(ulp nvmf namespace 1)" "$(ulp nvmf namespace 2)")
}
up_iser() {
	ulp iser target_up
	ulp iser initiator_up
	STREAMS+=("$(scsi_disk 0)" "$(scsi_disk 1)")
}
up_nfs() {
	ulp nfs server_up
	ulp nfs nfs_mount 4.2 262144
	STREAMS+=("$NFS_MOUNT/0" "$NFS_MOUNT/1")
}

down_nvmf() {
	ulp nvmf host_down
	ulp nvmf target_down
	unload nvme-core
}
down_iser() {
	ulp iser eval 'scsi_disks; initiator_down'
	ulp iser target_down
}
down_nfs() {
	umount "$NFS_MOUNT"
	ulp nfs server_down
	unload nfsv4 nfs
}

# ------------------------------------------------------------- what happens

# text MODULE [REGEX]: the addresses of its functions, first and last.
text() {
	awk -v module="[$1]" -v re="${2:-.}" '
		$4 == module && $2 ~ /^[tT]$/ && $3 ~ re {
			if (!first || $1 < first) first = $1
			if ($1 > last) last = $1
		}
		END { print "0x" first, "0x" last }' /proc/kallsyms
}

# faults_in PAGES MODULE [REGEX]: for a while lets one in 5 allocations fail that
# come from the functions of a module, and one in PAGES of those of whole pages.
faults_in() {
	local kind start end left debug
	read -r start end < <(text "${@:2}")
	for kind in "${!FAULTS[@]}"; do
		debug=/sys/kernel/debug/$kind
		echo 32 >"$debug/stacktrace-depth"
		echo "$start" >"$debug/require-start"
		echo "$end" >"$debug/require-end"
		echo 1000000 >"$debug/times"
		echo 5 >"$debug/interval"
		[[ $kind == failslab ]] || echo "$1" >"$debug/interval"
		echo 100 >"$debug/probability"
	done
	sleep 5
	for kind in "${!FAULTS[@]}"; do
		debug=/sys/kernel/debug/$kind
		echo 0 >"$debug/probability"
		read -r left <"$debug/times"
		FAULTS[$kind]=$((FAULTS[$kind] + 1000000 - left))
	done
}

event_module() {
	if [[ -d /sys/module/rdma_rw ]]; then
		MADE=$((MADE + $(contexts made)))
		give_back
	else
		take_over
	fi
}
event_rdma_rw() {
	if [[ -d /sys/module/rdma_rw ]]; then
		faults_in 5 rdma_rw
	else
		faults_in 5 ib_core '^rdma_rw_'
	fi
}
# A target takes hundreds of pages for a request, which is tried again a few
# times only.
event_nvmet() { faults_in 1000 nvmet_rdma; }
event_isert() { faults_in 1000 ib_isert; }
event_nfsd() { faults_in 1000 rpcrdma '^svc_rdma_'; }
event_link() {
	link_down
	sleep 2
	link_up
}
event_reset() { echo 1 | tee /sys/class/nvme/nvme*/reset_controller; }
event_nvmet_away() { away nvmf target_off target_on; }
event_isert_away() { away iser target_off target_on; }
event_nfsd_away() { away nfs server_off server_on; }
away() {
	ulp "$1" "$2"
	sleep 2
	ulp "$1" "$3"
}

# A QP of siw's that fails can lose a request in flight, and then the target
# waits for it for ever, with C as well: nothing is to fail a QP there. nvmet
# only tells the host of a request for which it has no memory.
EVENTS=(module nvmet)
[[ $DEV == siw ]] || EVENTS+=(rdma_rw isert nfsd link reset nvmet_away isert_away nfsd_away)

# passes STREAM: sets PASSES to how often a stream has verified its data.
passes() {
	local -a lines
	mapfile -t lines <"$1"
	PASSES=${#lines[@]}
}

# Two passes more: the first may have begun before the event. Or none will come.
recovered() {
	local stream
	[[ ! -e $TRAFFIC/failed ]] || return 0
	for stream in "${!BEFORE[@]}"; do
		passes "$stream"
		((PASSES >= BEFORE[$stream] + 2)) || return 1
	done
}

# event NAME: lets it happen, and waits until all is well again.
declare -A BEFORE=() COUNT=() FAULTS=([failslab]=0 [fail_page_alloc]=0)
MADE=0 TOTAL=0
event() {
	local stream
	"event_$1"
	for stream in "$TRAFFIC"/*.done; do
		passes "$stream"
		BEFORE[$stream]=$PASSES
	done
	wait_for 600 "verified data on every stream after: $1" recovered
	traffic_check
	COUNT[$1]=$((${COUNT[$1]:-0} + 1))
	TOTAL=$((TOTAL + 1))
}

# round: everything once, in random order.
round() {
	local -a left=("${EVENTS[@]}")
	local i
	while ((${#left[@]})); do
		i=$((RANDOM % ${#left[@]}))
		event "${left[i]}"
		left=("${left[@]:0:i}" "${left[@]:i + 1}")
		((SECONDS < END)) || return 0
	done
}

# The order is the same for the same SEED.
RANDOM=$SEED
for kind in "${!FAULTS[@]}"; do
	echo N >"/sys/kernel/debug/$kind/ignore-gfp-wait"
	echo 0 >"/sys/kernel/debug/$kind/verbose"
done
echo 0 >/sys/kernel/debug/fail_page_alloc/min-order

rdma_up "$DEV"
require_implementation c
STREAMS=()
for name in "${ULPS[@]}"; do
	"up_$name"
done
step "the first round, to warm up"
END=$((SECONDS + 3600))
traffic_start "$MIB" "${STREAMS[@]}"
round
traffic_stop
slabs before

step "$MINUTES minutes"
COUNT=() FAULTS=([failslab]=0 [fail_page_alloc]=0) MADE=0 TOTAL=0
END=$((SECONDS + MINUTES * 60))
traffic_start "$MIB" "${STREAMS[@]}"
while ((SECONDS < END)); do
	round
	traffic_figures
	step "$TOTAL events, ${FAULTS[failslab]} and ${FAULTS[fail_page_alloc]} faults, $((VERIFIED >> 20)) MiB verified"
done
[[ ! -d /sys/module/rdma_rw ]] || event module
traffic_stop
slabs after

for name in "${ULPS[@]}"; do
	"down_$name"
done
for name in "${EVENTS[@]}"; do
	record "event_$name=${COUNT[$name]:-0}"
done
record minutes="$MINUTES" events="$TOTAL" faults_slab="${FAULTS[failslab]}" \
	faults_page="${FAULTS[fail_page_alloc]}" made="$MADE" mrs_left="$(mrs)"
slab_growth
rdma_down
require "mrs_left == 0" "made > 0" "faults_slab > 0"
((MINUTES < 10)) || require "faults_page > 0" "slab_growth < events"
