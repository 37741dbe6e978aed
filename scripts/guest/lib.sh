# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0
#
# What the jobs inside the guest share: the RDMA device, the proof of which
# implementation runs, the counters of the paths it takes, verified I/O, and
# the record of the results. Source it first:
#
#	. /payload/guest/lib.sh
set -euo pipefail

RESULTS=/results
TRACING=/sys/kernel/tracing
CONFIGFS=/sys/kernel/config
# The addresses of the guest, from those for documentation (RFC 5737, 3849).
ADDRESS=192.0.2.1
ADDRESS6=2001:db8::1

# step TEXT: the host shows it while the guest runs.
step() { echo "==> $*"; }

# fail TEXT: ends the job.
fail() {
	echo "==> FAILED: $*"
	exit 1
}

trap 'echo "==> FAILED: line $LINENO: ${BASH_COMMAND%%$NEWLINE*}"' ERR
set -E
NEWLINE=$'\n'

# record NAME=VALUE...: keeps figures for the host's table.
record() { printf '%s\n' "$@" >>"$RESULTS/record"; }

# wait_for SECONDS TEXT CMD...: polls until CMD succeeds.
wait_for() {
	local end=$((SECONDS + $1)) text=$2
	shift 2
	until "$@" >/tmp/wait_for 2>&1; do
		((SECONDS < end)) || {
			cat /tmp/wait_for
			fail "$text did not come about"
		}
		sleep 0.1
	done
}

# -------------------------------------------------------------------- device

# require_machine: on --machine iommu, fails without an edu and an ivshmem device
# whose DMA the IOMMU translates: what needs one would be skipped.
require_machine() {
	local name id device domain
	[[ $MACHINE == iommu ]] || return 0
	while read -r name id; do
		device=$(grep -lx "$id" /sys/bus/pci/devices/*/device) || fail "there is no $name device"
		domain=$(cat "${device%/device}/iommu_group/type")
		[[ $domain == DMA* && $domain != DMA-direct ]] ||
			fail "the $name device's IOMMU does not translate: $domain"
		step "an $name device in an IOMMU domain of type $domain"
	done <<-END
		edu 0x11e8
		ivshmem 0x1110
	END
}

# rdma_up DEV: loads ib_core and brings up one RDMA device on a dummy network
# device. DEV is rxe, rxe-mr (rxe with ib_core.force_mr=1) or siw.
rdma_up() {
	local dev=$1 type=${1%-mr} driver
	case $type in
	rxe) driver=rdma_rxe ;;
	siw) driver=siw ;;
	*) fail "unknown device $dev" ;;
	esac
	if [[ $dev == *-mr ]]; then
		modprobe ib_core force_mr=1
		[[ $(dmesg | grep -c 'ib_core: unknown parameter') == 0 ]] || fail "ib_core does not know force_mr"
	else
		modprobe ib_core
	fi
	modprobe dummy numdummies=0
	ip link add rdma0 address 02:00:00:00:00:01 mtu 9000 type dummy
	ip link set rdma0 up
	ip address add "$ADDRESS/24" dev rdma0
	ip address add "$ADDRESS6/64" dev rdma0 nodad
	modprobe "$driver"
	rdma link add dev0 type "$type" netdev rdma0
	wait_for 10 "an active port" eval 'rdma link show dev0/1 | grep -q "state ACTIVE"'
	# A GID that carries the address is what rdma_cm looks for.
	if [[ $type == rxe ]]; then
		wait_for 10 "a GID of $ADDRESS" grep -rqs "$(printf '%02x%02x:%02x%02x' ${ADDRESS//./ })" \
			/sys/class/infiniband/dev0/ports/1/gids
	fi
	record device="$dev"
}

# rdma_down: takes everything of rdma_up out again; fails if something still
# holds it.
rdma_down() {
	rdma link delete dev0
	ip link delete rdma0
	unload rdma_rxe siw ib_core
}

# unload MODULE...: removes modules, first those that use them.
unload() {
	local module holder
	for module in "${@//-/_}"; do
		for holder in "/sys/module/$module/holders"/*; do
			[[ ! -e $holder ]] || unload "${holder##*/}"
		done
		[[ ! -d /sys/module/$module ]] ||
			wait_for 20 "unloading of $module" rmmod "$module"
	done
}

# ------------------------------------------------------------ implementation

# The functions of the ib_core that require_implementation has seen, and which of
# them are Rust's: those carry the name of their crate.
SYMBOLS=/run/ib_core-functions
RUST_SYMBOL='^_R.*7rdma_rw'

# require_implementation IMPL: fails unless that is what runs.
require_implementation() {
	local found=none rust
	# The kernel takes long to print them all.
	{ grep -F '[ib_core]' /proc/kallsyms || :; } | awk '$2 ~ /^[tT]$/ { print $3 }' >"$SYMBOLS"
	rust=$(grep -c "$RUST_SYMBOL" "$SYMBOLS" || :)
	if (($(grep -cx rdma_rw_ctx_init "$SYMBOLS" || :) == 1)); then
		if ((rust)); then found=rust; else found=c; fi
	fi
	[[ $found == "$1" ]] || fail "this guest was to run rdma_rw in $1, but its ib_core has: $found"
	record impl="$found" rust_symbols="$rust"
}

# --------------------------------------------------------------------- paths
#
# A probe at the return of each init function reads the tag of the context it
# has set up: an offset of the structure in the kernel's own header, so the
# count does not ask the implementation what it believes to have done. The
# events go to a buffer of their own, of which nothing may be lost.

PATHS=$TRACING/instances/rdma_rw

# The tags of struct rdma_rw_ctx.
TAGS=(single multi mr sig iova)

paths_start() {
	# shellcheck disable=SC2016 # the dollar is the probe's
	local context='type=+4($arg1):u8 ops=+0($arg1):u32'
	mkdir "$PATHS"
	echo 16384 >"$PATHS/buffer_size_kb"
	{
		echo "r64:rdma_rw/sg ib_core:rdma_rw_ctx_init $context cnt=\$arg5:u32 off=\$arg6:u32 dir=\$arg9:u32 ret=\$retval:s32"
		# The iterator is on the stack, three words of it.
		echo "r64:rdma_rw/bvec ib_core:rdma_rw_ctx_init_bvec $context cnt=\$arg5:u32 dir=\$arg11:u32 ret=\$retval:s32"
		echo "r64:rdma_rw/signature ib_core:rdma_rw_ctx_signature_init $context cnt=\$arg5:u32 dir=\$arg11:u32 ret=\$retval:s32"
	} >>"$TRACING/kprobe_events"
	echo 1 >"$PATHS/events/rdma_rw/enable"
}

# paths_stop: records how often each path was taken, by form and direction,
# and fails if a call went uncounted.
paths_stop() {
	local lost missed
	echo 0 >"$PATHS/events/rdma_rw/enable"
	lost=$(cat "$PATHS"/per_cpu/cpu*/stats | awk '/^(overrun|dropped events|commit overrun):/ { n += $NF } END { print n + 0 }')
	missed=$(awk '$1 ~ /^(sg|bvec|signature)$/ { n += $3 } END { print n + 0 }' "$TRACING/kprobe_profile")
	awk -v tags="${TAGS[*]}" '
		BEGIN { split(tags, tag, " "); split("read write", dirs, " "); split("sg bvec signature", forms, " ") }
		match($0, / (sg|bvec|signature): /) {
			form = substr($0, RSTART + 1, RLENGTH - 3)
			for (i = 1; i <= NF; i++) {
				n = index($i, "=")
				if (n)
					v[substr($i, 1, n - 1)] = substr($i, n + 1)
			}
			if (v["ret"] <= 0) {
				failed++
				errors[v["ret"]]++
				next
			}
			name = tag[v["type"] + 1]
			total[name]++
			form_total[form]++
			wrs += v["ret"]
			dir = v["dir"] == 1 ? "write" : "read"
			by_dir[dir "_" name]++
			if (form == "sg" && v["off"] > 0)
				offset++
		}
		END {
			for (i in tag)
				print "path_" tag[i] "=" total[tag[i]] + 0
			for (i in tag)
				for (j in dirs)
					print "path_" dirs[j] "_" tag[i] "=" by_dir[dirs[j] "_" tag[i]] + 0
			for (i in forms)
				print "form_" forms[i] "=" form_total[forms[i]] + 0
			for (i in errors)
				print "init_error" i "=" errors[i]
			print "init_failed=" failed + 0
			print "sg_offset=" offset + 0
			print "wrs=" wrs + 0
		}' "$PATHS/trace" >>"$RESULTS/record"
	printf -- '-:rdma_rw/%s\n' sg bvec signature >>"$TRACING/kprobe_events"
	rmdir "$PATHS"
	[[ $lost == 0 ]] || fail "$lost events of the path counters were lost"
	[[ $missed == 0 ]] || fail "the path counters missed $missed calls"
}

# figure NAME: a recorded figure, 0 where there is none.
figure() {
	local value
	value=$(sed -n "s/^$1=//p" "$RESULTS/record" | tail -n 1)
	echo "${value:-0}"
}

# require EXPRESSION...: each has to hold, as arithmetic over the figures.
require() (
	while IFS='=' read -r name value; do
		if [[ $name =~ ^[a-z_]+$ && $value =~ ^-?[0-9]+$ ]]; then
			declare -i "$name=$value"
		fi
	done <"$RESULTS/record"
	for expression; do
		((expression)) || {
			grep -E '^[a-z_]+=-?[0-9]+$' "$RESULTS/record"
			fail "not so: $expression"
		}
	done
)

# require_paths DEV FORM: what DEV has to take, and nothing else: rxe needs no
# memory registration unless forced to, siw needs it for RDMA READ. FORM is the
# form of the API that the ULP uses: sg or bvec.
require_paths() {
	local other=bvec error
	[[ $2 == sg ]] || other=sg
	require "form_$2 > 0" "form_$other == 0" "path_sig == 0" "path_iova == 0" \
		"path_read_single + path_read_multi + path_read_mr > 0" \
		"path_write_single + path_write_multi + path_write_mr > 0"
	case $1 in
	rxe) require "path_single > 0" "path_multi > 0" "path_mr == 0" ;;
	rxe-mr) require "path_single == 0" "path_multi == 0" "path_mr > 0" ;;
	siw) require "path_read_single + path_read_multi == 0" "path_read_mr > 0" "path_write_mr == 0" ;;
	esac
	# An empty MR pool (-EAGAIN) is for the caller to wait for; nothing else
	# may have failed.
	error=$(sed -n 's/^init_error\(.*\)=.*/\1/p' "$RESULTS/record" | grep -vx -- -11 || :)
	[[ -z $error ]] || fail "rdma_rw failed with error $error"
}

# rust_calls CMD...: runs CMD with a probe on every Rust function of rdma_rw
# that has a symbol, and records how often they were entered.
rust_calls() {
	local name n=0 hits
	while read -r name; do
		n=$((n + 1))
		echo "p:rdma_rw_rust/f$n ib_core:$name" >>"$TRACING/kprobe_events"
	done < <(grep "$RUST_SYMBOL" "$SYMBOLS" || :)
	if ((n == 0)); then
		"$@"
		record rust_calls=0
		return
	fi
	mkdir "$TRACING/instances/rust"
	echo 1 >"$TRACING/instances/rust/events/rdma_rw_rust/enable"
	"$@"
	echo 0 >"$TRACING/instances/rust/events/rdma_rw_rust/enable"
	hits=$(awk '$1 ~ /^f[0-9]+$/ { n += $2 } END { print n + 0 }' "$TRACING/kprobe_profile")
	rmdir "$TRACING/instances/rust"
	for ((; n > 0; n--)); do
		echo "-:rdma_rw_rust/f$n" >>"$TRACING/kprobe_events"
	done
	record rust_calls="$hits"
	((hits > 0)) || fail "no Rust function of ib_core was entered"
}

# ---------------------------------------------------------------- verified I/O

# Sizes from 512 B or 4 KiB to 1 MiB; the weights are of requests, so most
# bytes are in large ones and most requests are small.
SPLIT_512=512/16:1k/8:4k/16:16k/16:64k/14:128k/10:256k/8:512k/6:1m/6
SPLIT_4096=4k/24:16k/20:36k/10:64k/14:128k/12:256k/8:512k/6:1m/6

# fio_job MIB WHICH DEVICE...: prints a job that writes four areas of MIB MiB
# of each device, sequentially and at random, at depths of 1 and of 32, and
# reads them back. A device is LOCAL=REMOTE: its data is written and read as
# REMOTE; WHICH says which one the job is to use.
fio_job() {
	local mib=$1 which=$2 area=0 pattern depth device i name split
	shift 2
	cat <<-END
	[global]
	ioengine=libaio
	direct=1
	verify=crc32c
	verify_fatal=1
	size=${mib}m
	END
	[[ $which == remote ]] || echo verify_only=1
	for pattern in write randwrite; do
		for depth in 1 32; do
			i=0
			for device; do
				name=${device#*=}
				split=$SPLIT_4096
				[[ $(cat "/sys/block/${name##*/}/queue/logical_block_size") != 512 ]] || split=$SPLIT_512
				[[ $which == remote ]] || name=${device%%=*}
				echo "[$pattern-$depth-$i]"
				((i)) || echo stonewall
				cat <<-END
				filename=$name
				bssplit=$split
				rw=$pattern
				iodepth=$depth
				offset=$((area * mib))m
				END
				i=$((i + 1))
			done
			area=$((area + 1))
		done
	done
}

# requests FIELD DEVICE...: sum of a field of the block devices' statistics.
requests() {
	local field=$1 device
	shift
	for device; do
		device=${device##*/}
		cat "/sys/block/$device/stat"
	done | awk -v f="$field" '{ n += $f } END { print n + 0 }'
}

# run_fio NAME: runs $RESULTS/NAME.fio.
run_fio() {
	fio --output-format=json --output="$RESULTS/$1.json" "$RESULTS/$1.fio" >"$RESULTS/$1.log" 2>&1 || {
		cat "$RESULTS/$1.log"
		jq -r '.jobs[] | select(.error != 0) | "\(.jobname): error \(.error)"' "$RESULTS/$1.json" || :
		fail "fio $1"
	}
	jq -e '(.jobs | length) > 0 and all(.jobs[]; .error == 0)' "$RESULTS/$1.json" >/dev/null ||
		fail "fio $1 reports an error"
}

# verified_io NAME MIB LOCAL=REMOTE...: such a job; then the data is verified
# once more where the target keeps it, past RDMA, so that two faults that
# undo each other do not pass. Records the volume.
verified_io() {
	local name=$1 mib=$2 device
	local -a remotes=()
	shift 2
	for device; do
		remotes+=("${device#*=}")
	done
	fio_job "$mib" remote "$@" >"$RESULTS/$name.fio"
	run_fio "$name"
	fio_job "$mib" local "$@" >"$RESULTS/$name-local.fio"
	for device in "${remotes[@]}"; do
		blockdev --flushbufs "$device"
	done
	run_fio "$name-local"
	record "$(jq -r '"written=\([.jobs[].write.io_bytes] | add)\nread=\([.jobs[].read.io_bytes] | add)"' "$RESULTS/$name.json")"
}

# some_io DEVICE: a little of everything.
some_io() {
	fio --name=some --filename="$1" --ioengine=libaio --direct=1 --rw=randwrite \
		--bssplit="$SPLIT_512" --size=4m --iodepth=8 --verify=crc32c --output=/dev/null
}

# block_io NAME LOCAL=REMOTE LOCAL=REMOTE: what every block ULP does with its
# two devices: MIB MiB a pattern, a depth and a device; if FILESYSTEMS is set,
# file systems too.
block_io() {
	local disk0=${2#*=} disk1=${3#*=} writes reads
	rust_calls some_io "$disk0"
	step "writing and verifying $((MIB * 8)) MiB"
	writes=$(requests 5 "$disk0" "$disk1")
	reads=$(requests 1 "$disk0" "$disk1")
	verified_io "$1" "$MIB" "$2" "$3"
	record block_writes=$(($(requests 5 "$disk0" "$disk1") - writes)) \
		block_reads=$(($(requests 1 "$disk0" "$disk1") - reads))
	require "written >= $MIB * 8 * 1048576" "read >= $MIB * 8 * 1048576"
	if [[ ${FILESYSTEMS:-} ]]; then
		step "file systems"
		filesystem_io ext4 "$disk0"
		filesystem_io xfs "$disk1"
	fi
}

# require_contexts: every request of the block layer was a context: a write is
# an RDMA READ of the target, a read an RDMA WRITE.
require_contexts() {
	require "path_read_single + path_read_multi + path_read_mr >= block_writes" \
		"path_write_single + path_write_multi + path_write_mr >= block_reads"
}

# ---------------------------------------------------------------------- faults

# fault NAME TARGET DOWN UP: while reads and writes go to TARGET, a device or a
# file of 8 MiB, runs DOWN, waits, runs UP. The load may stall or fail; after UP
# verified I/O has to work again.
fault() {
	local name=$1 target=$2 load
	step "fault: $name"
	fio --name=load --filename="$target" --ioengine=libaio --direct=1 --rw=randrw --bs=64k \
		--size=8m --iodepth=16 --thread --time_based --runtime=600 --output=/dev/null >/tmp/load 2>&1 &
	load=$!
	sleep 2
	$3
	sleep 3
	$4
	kill -KILL "$load" 2>/dev/null || :
	wait "$load" || :
	wait_for 120 "I/O after the fault" some_io "$target"
	record "fault_$name=1"
}

# Faults that need nothing of the ULP.
no_fault() { :; }
kill_load() { kill -KILL "$load" || fail "the load ended by itself"; }
link_down() { echo 0 >/sys/class/net/rdma0/carrier; }
link_up() { echo 1 >/sys/class/net/rdma0/carrier; }

# faults TARGET [DOWN UP]: kills the initiator's process, takes the link away
# and, with DOWN and UP, the target.
faults() {
	[[ ${FAULTS:-} ]] || return 0
	fault killed "$1" kill_load no_fault
	fault link "$1" link_down link_up
	(($# > 1)) || return 0
	# Where a QP of siw's fails with requests in flight, it can lose one, and
	# nvmet and isert wait for it for ever, over C as well.
	if [[ $DEV == siw ]]; then
		step "fault: target: left out, since siw loses what is in flight"
		record fault_target=0
		return
	fi
	fault target "$1" "$2" "$3"
}

# ------------------------------------------------------------------ backstores

# null_block NAME MIB: a null_blk device that keeps its data: /dev/NAME.
null_block() {
	local dir=$CONFIGFS/nullb/$1
	modprobe null_blk nr_devices=0
	mkdir "$dir"
	echo "$2" >"$dir/size"
	echo 512 >"$dir/blocksize"
	echo 1 >"$dir/memory_backed"
	echo 1 >"$dir/power"
	wait_for 5 "/dev/$1" test -b "/dev/$1"
}

# no_null_block NAME
no_null_block() {
	echo 0 >"$CONFIGFS/nullb/$1/power"
	rmdir "$CONFIGFS/nullb/$1"
}

# served_up DIR: mounts what a file server is to serve, on a null_blk device.
# served_down DIR.
served_up() {
	null_block "${BLOCK#/dev/}" 512
	mke2fs -q -F -t ext4 "$BLOCK"
	mkdir -p "$1"
	mount "$BLOCK" "$1"
}
served_down() {
	wait_for 20 "the end of what was served" umount "$1"
	no_null_block "${BLOCK#/dev/}"
}

# What a target exports: a null_blk device and, a block target, a file.
BLOCK=${BLOCK:-/dev/nullb0}
FILE=${FILE:-/var/tmp/disk}

# block_backstores_up: big enough for the four areas of fio_job, and for the
# 300 MiB that mkfs.xfs insists on. block_backstores_down.
block_backstores_up() {
	local mib=$((MIB * 4 > 320 ? MIB * 4 : 320))
	null_block "${BLOCK#/dev/}" "$mib"
	truncate -s "${mib}M" "$FILE"
}
block_backstores_down() {
	no_null_block "${BLOCK#/dev/}"
	rm "$FILE"
}

# ------------------------------------------------- LIO, the targets of SCSI

LIO=$CONFIGFS/target

# lio_up: the backstores as LIO knows them.
lio_up() {
	block_backstores_up
	modprobe target_core_mod
	modprobe target_core_iblock
	modprobe target_core_file
	mkdir -p "$LIO/core/iblock_0/block" "$LIO/core/fileio_0/file"
	echo "udev_path=$BLOCK" >"$LIO/core/iblock_0/block/control"
	echo "fd_dev_name=$FILE,fd_dev_size=$(stat -c %s "$FILE")" >"$LIO/core/fileio_0/file/control"
	echo 1 >"$LIO/core/iblock_0/block/enable"
	echo 1 >"$LIO/core/fileio_0/file/enable"
}

# lio_luns TPG: maps them, as LUN 0 and 1 of a target's portal group.
lio_luns() {
	mkdir "$1/lun/lun_0" "$1/lun/lun_1"
	ln -s "$LIO/core/iblock_0/block" "$1/lun/lun_0/"
	ln -s "$LIO/core/fileio_0/file" "$1/lun/lun_1/"
}
lio_no_luns() {
	rm "$1/lun/lun_0/block" "$1/lun/lun_1/file"
	rmdir "$1/lun/lun_0" "$1/lun/lun_1"
}

lio_down() {
	rmdir "$LIO/core/iblock_0/block" "$LIO/core/fileio_0/file"
	rmdir "$LIO/core/iblock_0" "$LIO/core/fileio_0"
	unload target_core_iblock target_core_file target_core_mod
	block_backstores_down
}

# scsi_disk LUN: the device of a LUN, once the disk is there.
scsi_disk() {
	local dir
	for dir in /sys/class/scsi_device/*:"$1"/device/block/*; do
		[[ -b /dev/${dir##*/} ]] && echo "/dev/${dir##*/}" && return
	done
	return 1
}

# scsi_disks: sets DISK0 and DISK1 to the devices of LUN 0 and 1.
scsi_disks() {
	modprobe sd_mod
	wait_for 20 "LUN 0" scsi_disk 0
	wait_for 20 "LUN 1" scsi_disk 1
	DISK0=$(scsi_disk 0)
	DISK1=$(scsi_disk 1)
}

# scsi_disks_off: what a careful administrator does before a logout.
scsi_disks_off() {
	local disk
	for disk in "$DISK0" "$DISK1"; do
		echo 1 >"/sys/block/${disk#/dev/}/device/delete"
	done
}

# ---------------------------------------------------------------- file systems

# filesystem_io TYPE DEVICE: makes a file system, copies a tree into it,
# mounts it anew and compares.
filesystem_io() {
	local dir=/mnt/filesystem tree=/usr/sbin
	modprobe -q "$1" || :
	mkdir -p "$dir"
	case $1 in
	ext4) mke2fs -q -F -t ext4 "$2" ;;
	xfs) mkfs.xfs -q -f "$2" ;;
	esac
	mount -t "$1" "$2" "$dir"
	cp -a "$tree" "$dir/tree"
	umount "$dir"
	blockdev --flushbufs "$2"
	mount -t "$1" "$2" "$dir"
	diff -r --no-dereference "$tree" "$dir/tree"
	umount "$dir"
	record "filesystem_$1=1"
}

# file_io DIR SERVED MIB: writes files of every kind of size to the mounted
# DIR, looks at them where the server keeps them, SERVED, and reads them back
# with cold caches; then several writers at once, mmap, truncation and
# appending. MIB is the size of the largest file.
file_io() {
	local dir=$1 served=$2 mib=$3 size i written=0
	local source=/tmp/random
	local bytes=$((mib * 1048576 + 4096))
	# The writers below want 6 MiB.
	((bytes > 6 * 1048576)) || bytes=$((6 * 1048576))
	(($(stat -c %s "$source" 2>/dev/null || echo 0) >= bytes)) ||
		head -c "$bytes" /dev/urandom >"$source"

	for size in 0 1 4095 4096 4097 $((129 * 1024)) $((1024 * 1024 + 1)) $((mib * 1048576)); do
		tail -c "+$((size % 4000 + 1))" "$source" | head -c "$size" >"/tmp/want" || :
		[[ $(stat -c %s /tmp/want) == "$size" ]] || fail "no content for $size bytes"
		cp /tmp/want "$dir/size-$size"
		sync -f "$dir"
		cmp /tmp/want "$served/size-$size"
		drop_caches
		cmp /tmp/want "$dir/size-$size"
		written=$((written + size))
	done

	for i in 1 2 3 4; do
		dd if="$source" of="$dir/shared" bs=64k count=16 skip=$((i * 16)) seek=$((i * 16)) \
			conv=notrunc,fsync status=none &
		dd if="$source" of="$dir/own-$i" bs=64k count=16 conv=fsync status=none &
	done
	wait
	drop_caches
	cmp -i $((16 * 65536)) -n $((64 * 65536)) "$source" "$dir/shared"
	for i in 1 2 3 4; do
		cmp -n $((16 * 65536)) "$source" "$dir/own-$i"
		cmp -n $((16 * 65536)) "$source" "$served/own-$i"
	done
	written=$((written + 8 * 16 * 65536))

	fio --name=mmap --ioengine=mmap --filename="$dir/mmap" --size=2m --rw=randwrite --bs=4k \
		--verify=crc32c --verify_fatal=1 --output="$RESULTS/mmap.log"

	cp /tmp/want "$dir/cut"
	truncate -s 5000 "$dir/cut"
	head -c 5000 "$source" >>"$dir/cut"
	{
		head -c 5000 /tmp/want
		head -c 5000 "$source"
	} >/tmp/cut
	drop_caches
	cmp /tmp/cut "$dir/cut"
	cmp /tmp/cut "$served/cut"
	rm -f "$dir"/size-* "$dir"/own-* "$dir/shared" "$dir/mmap" "$dir/cut"

	WRITTEN=$((${WRITTEN:-0} + written))
	record written="$WRITTEN" read="$WRITTEN"
}

# drop_caches: empties the page cache, the client's and the server's.
drop_caches() {
	sync
	# 4 is to tell the kernel log no more; the sum of both is refused.
	echo 4 >/proc/sys/vm/drop_caches
	echo 3 >/proc/sys/vm/drop_caches
}
