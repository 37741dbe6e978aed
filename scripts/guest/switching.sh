# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0
#
# Taking over with the module and giving back, while there is traffic. Source
# it after lib.sh; the module and scripts/unload are among the job's files.
# shellcheck disable=SC2119,SC2120

MODULE=/payload/files/rdma_rw.ko
CONTEXTS=/sys/kernel/debug/rdma_rw/contexts

# stock_functions: whether ib_core's own functions serve the API.
stock_functions() { [[ ! -d /sys/module/rdma_rw && ! -d /sys/kernel/livepatch/rdma_rw ]]; }

in_charge() { [[ $(</sys/module/rdma_rw/parameters/state) == active ]]; }

# take_over [PARAMETER...]: loads the module and waits until it is in charge.
take_over() {
	insmod "$MODULE" "$@"
	wait_for 120 "taking over" in_charge
}

# give_back: disables and unloads it.
give_back() {
	bash /payload/files/unload --timeout 240 >>"$RESULTS/unload.log" 2>&1 || {
		tail -n 5 "$RESULTS/unload.log"
		fail "unloading"
	}
	stock_functions || fail "the module is unloaded, and still there"
}

# contexts COLUMN [PATH]: what the module has counted: made, alive or adopted.
# Without a process for it, each of which takes long among all the traffic.
contexts() {
	local column=$1 path=${2:-} at='' n=0 i
	local -a word
	while read -ra word; do
		if [[ ${word[0]} == path ]]; then
			for i in "${!word[@]}"; do
				[[ ${word[i]} != "$column" ]] || at=$i
			done
		elif [[ $at && (-z $path || ${word[0]} == "$path") ]]; then
			n=$((n + word[at]))
		fi
	done <"$CONTEXTS"
	echo "$n"
}

# contexts_rise N: waits until the module has made N contexts more.
made_at_least() { (($(contexts made) >= $1)); }
contexts_rise() { wait_for 120 "$1 contexts in Rust" made_at_least $(($(contexts made) + $1)); }

# ------------------------------------------------------------------- traffic
#
# One fio after the other on each disk or file, each of which writes its part of
# it at random and verifies all of that, until told to stop. Two of them keep the
# wire busy while one fio starts.

TRAFFIC=/run/traffic
TRAFFIC_PIDS=()

# traffic_on NAME TARGET OFFSET_MIB MIB: where TOLERANT is set, I/O that ends in an
# error, but not with other data, is noted and begun anew. fio looks for a file of
# commands, here where none but itself does: KCSAN reports what several processes
# that look up one missing file do to its dentry.
traffic_on() {
	local n=0 split=$SPLIT_4096 status errors
	[[ ! -b $2 || $(cat "/sys/block/${2##*/}/queue/logical_block_size") != 512 ]] || split=$SPLIT_512
	mkdir "$TRAFFIC/commands-$1"
	while [[ ! -e $TRAFFIC/stop ]]; do
		status=0
		TMPDIR=$TRAFFIC/commands-$1 fio --name="$1" --filename="$2" \
			--offset="${3}m" --size="${4}m" --ioengine=libaio --direct=1 \
			--rw=randwrite --bssplit="$split" --iodepth=16 \
			--verify=crc32c --verify_fatal=1 --randseed=$((n * 7 + 1)) --output-format=json \
			>"$TRAFFIC/$1.json" 2>"$TRAFFIC/$1.err" || status=$?
		n=$((n + 1))
		# fio begins with what it has to say, and ends with JSON.
		errors=$(sed -n '/^{/,$p' "$TRAFFIC/$1.json" | jq -r '[.jobs[].error | select(. != 0)] | join(" ")') || status=1
		# EIO, and ENOMEM, which NFS hands on as it is.
		if [[ $errors =~ ^(5|12)$ && ${TOLERANT:-} ]]; then
			echo "fio $n" >>"$TRAFFIC/$1.errors"
			continue
		elif [[ $errors || $status != 0 ]]; then
			cp "$TRAFFIC/$1".* "$RESULTS/"
			echo "$1: fio $n: error ${errors:-none}, status $status" >>"$TRAFFIC/failed"
			return 1
		fi
		jq -r '[.jobs[] | .write.io_bytes, .read.io_bytes, .write.total_ios + .read.total_ios] | @tsv' \
			"$TRAFFIC/$1.json" >>"$TRAFFIC/$1.done"
	done
}

# traffic_start MIB TARGET...
traffic_start() {
	local mib=$1 n=0 disk
	shift
	rm -rf "$TRAFFIC"
	mkdir "$TRAFFIC"
	for disk; do
		: >"$TRAFFIC/t$n.done"
		traffic_on "t$n" "$disk" 0 "$mib" &
		TRAFFIC_PIDS+=($!)
		n=$((n + 1))
	done
}

# traffic_check: fails if some of it has failed.
traffic_check() {
	[[ ! -e $TRAFFIC/failed ]] || fail "traffic: $(cat "$TRAFFIC/failed")"
}

# traffic_figures: sets WRITTEN, VERIFIED (bytes) and REQUESTS, of the fios that
# have ended.
traffic_figures() {
	read -r WRITTEN VERIFIED REQUESTS < <(cat "$TRAFFIC"/*.done |
		awk '{ w += $1; r += $2; n += $3 } END { printf "%d %d %d\n", w, r, n }')
}

# traffic_stop: lets the last ones finish, and records the figures.
traffic_stop() {
	local pid
	: >"$TRAFFIC/stop"
	for pid in "${TRAFFIC_PIDS[@]}"; do
		wait "$pid" || fail "traffic: $(cat "$TRAFFIC/failed" 2>/dev/null || echo "ended with $?")"
	done
	TRAFFIC_PIDS=()
	traffic_check
	traffic_figures
	record written="$WRITTEN" read="$VERIFIED" requests="$REQUESTS" \
		io_errors="$(find "$TRAFFIC" -name '*.errors' -exec cat {} + | wc -l)"
	((VERIFIED > 0 && WRITTEN > 0)) || fail "there was no traffic"
}

# --------------------------------------------------------------------- leaks

# slabs NAME: notes the objects that are in use in the caches of kmalloc(), once
# what nobody uses has been given back. What a processor keeps to hand out counts
# as in use, a whole page of it; the least of some readings is without that.
slabs() {
	local cache i
	sync
	echo 3 >/proc/sys/vm/drop_caches
	for i in 1 2 3 4 5; do
		sleep 1
		for cache in /sys/kernel/slab/kmalloc-*/shrink; do
			echo 1 >"$cache"
		done
		awk '$1 ~ /^kmalloc-[0-9]/ { print $1, $2 }' /proc/slabinfo
	done | awk '!($1 in least) || $2 < least[$1] { least[$1] = $2 }
		END { for (cache in least) print cache, least[cache] }' >"$RESULTS/slabinfo"
	# What is freed through RCU waits for some seconds.
	sleep 6
	callers >"$RESULTS/callers-$1"
	# Where the callers are known, what the kernel keeps does not count.
	awk -v kept="$KEPT" '
		FILENAME == ARGV[1] {
			traced[$1] += ($3 ~ kept ? 0 : $2)
			next
		}
		{ print $1, $1 in traced ? traced[$1] : $2 }' "$RESULTS/callers-$1" "$RESULTS/slabinfo" |
		sort >"$RESULTS/slabs-$1"
}

# What the kernel keeps by itself, by a function in the stack of the allocation,
# seen with C alone as well:
#   setup_callback_client  NFSv4's channel from nfsd back to a client, over RDMA:
#                          there is a new transport with each new session, and
#                          the old one stays
KEPT='(^|<)setup_callback_client(<|$)'

# callers: who allocated what is in use in the caches of kmalloc() that keep that
# (slab_debug=U on the kernel's command line): cache, objects, call stack.
callers() {
	local traces
	for traces in /sys/kernel/debug/slab/kmalloc-*/alloc_traces; do
		[[ -e $traces ]] || continue
		awk -v cache="$(basename "${traces%/*}")" '
			$1 ~ /^[0-9]+$/ { stack = ""; count = $1; next }
			NF == 0 { if (count) objects[stack] += count; count = 0; next }
			stack != "" || $1 !~ /^_*k[a-z]*alloc|^kmem|^_*slab_/ {
				sub(/[+].*/, "", $1)
				stack = stack (stack == "" ? "" : "<") $1
			}
			END { for (stack in objects) print cache, objects[stack], stack }' "$traces"
	done | sort
}

# slab_growth: records by how many objects the cache has grown that grew most,
# from `slabs before` to `slabs after`, prints all that have changed, and whose
# they are.
slab_growth() {
	join "$RESULTS/slabs-before" "$RESULTS/slabs-after" >"$RESULTS/slabs"
	awk '$2 != $3 { printf "%s: %d objects before, %d after\n", $1, $2, $3 }' "$RESULTS/slabs"
	record "$(awk '{ grown = $3 - $2; if (grown > worst) worst = grown } END { print "slab_growth=" worst + 0 }' \
		"$RESULTS/slabs")"
	awk '{ key = $1 " " $3 }
		FILENAME == ARGV[1] { before[key] = $2; next }
		$2 - before[key] >= 5 { print $2 - before[key], "more of", key }' \
		"$RESULTS/callers-before" "$RESULTS/callers-after" | sort -rn | head -n 20
}

# mrs: the MRs of the device.
mrs() { rdma -j resource show dev0 | jq '.[0].mr'; }
