# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0
#
# What whole requests cost in a guest whose clock counts instructions: reads
# and writes of NVMe over Fabrics and of NFS, over rxe, client and server in
# one. Each is run with some number of requests and with six times as many; the
# difference of both is what the requests cost, without what it takes to start
# and to end. Environment: IMPL, ROUNDS, PATHS_ONLY (nvmf or nfs).
# shellcheck source=scripts/guest/lib.sh
. /payload/guest/lib.sh
# shellcheck source=scripts/guest/nvmf.sh
. /payload/guest/nvmf.sh

SERVED=/srv/export
MOUNT=/mnt/nfs
# The size of what is read and written, in MiB.
MIB=32
ROUNDS=${ROUNDS:-3}

# An instruction takes a nanosecond of the time that is not idle.
BUSY=/sys/module/rdma_rw_bench/parameters/busy

# requests_of PATH RW SIZE NUMBER: that many of SIZE KiB, one after the other:
# how requests overlap would be different every time.
requests_of() {
	fio --name=bench --filename="$1" --ioengine=psync --direct=1 --rw="$2" --bs="$3k" \
		--gtod_reduce=1 --disk_util=0 --size="${MIB}m" --io_size="$(($4 * $3))k" --norandommap --randrepeat=1 \
		--thread --output="$RESULTS/fio" >/dev/null
	(($(sed -n 's/.*issued rwts: total=\([0-9]*\),\([0-9]*\),.*/\1 + \2/p' "$RESULTS/fio") == $4)) ||
		fail "fio did not make $4 requests"
}

# timed COMMAND...: sets SPENT to the instructions it took.
timed() {
	local start
	start=$(<"$BUSY")
	"$@"
	SPENT=$(($(<"$BUSY") - start))
}

# watched COMMAND...: sets WATCHED to the contexts and work requests it made.
watched() {
	insmod /payload/files/rdma_rw_bench.ko mode=watch
	"$@"
	rmmod rdma_rw_bench
	WATCHED=$(dmesg | sed -n 's/.*rdma_rw_bench: watched \(.*missed=0\)$/\1/p' | tail -n 1)
	[[ $WATCHED == *"refused=0"* ]] || fail "contexts were refused or missed: $(dmesg | grep watched | tail -n 1)"
}

# measure NAME PATH RW SIZE NUMBER
measure() {
	local name=$1 round few
	shift
	step "$name"
	# These are the warm-up, too.
	watched requests_of "$@"
	insmod /payload/files/rdma_rw_bench.ko mode=off
	for ((round = 0; round < ROUNDS; round++)); do
		timed requests_of "$@"
		few=$SPENT
		timed requests_of "${@:1:3}" "$(($4 * 6))"
		echo "scenario=$name requests=$(($4 * 5)) instructions=$((SPENT - few)) counted=$4 $WATCHED" \
			>>"$RESULTS/bench"
	done
	rmmod rdma_rw_bench
}

nvmf() {
	# No file is wanted here, and no other sizes.
	target_up
	host_up
	measure nvmf-4k-randread "$DISK0" randread 4 1000
	measure nvmf-4k-randwrite "$DISK0" randwrite 4 1000
	measure nvmf-128k-randread "$DISK0" randread 128 100
	measure nvmf-128k-randwrite "$DISK0" randwrite 128 100
	host_down
	target_down
	unload nvme-core
}

nfs() {
	null_block nullb1 $((MIB * 2))
	mke2fs -q -F -t ext4 -O ^has_journal /dev/nullb1
	mkdir -p "$SERVED" "$MOUNT" /run/rpcbind /run/rpc_pipefs
	mount /dev/nullb1 "$SERVED"
	fallocate -l "${MIB}m" "$SERVED/file"
	head -c "${MIB}M" /dev/zero >"$SERVED/file"
	modprobe rpcrdma
	modprobe nfsd
	mountpoint -q /proc/fs/nfsd || mount -t nfsd nfsd /proc/fs/nfsd
	mount -t rpc_pipefs sunrpc /run/rpc_pipefs
	rpcbind -w
	exportfs -o rw,async,insecure,no_root_squash,no_subtree_check,fsid=1 "$ADDRESS/24:$SERVED"
	rpc.mountd
	rpc.nfsd 4
	echo "rdma 20049" >/proc/fs/nfsd/portlist
	mount -t nfs -o "vers=3,nolock,mountproto=tcp,proto=rdma,port=20049,rsize=1048576,wsize=1048576" \
		"$ADDRESS:$SERVED" "$MOUNT"
	measure nfs-1m-read "$MOUNT/file" read 1024 15
	measure nfs-1m-write "$MOUNT/file" write 1024 15
	umount "$MOUNT"
	rpc.nfsd 0
	exportfs -ua
	pkill -x rpc.mountd
	pkill -x rpcbind
	wait_for 20 "the end of the export" umount "$SERVED"
	umount /proc/fs/nfsd /run/rpc_pipefs
	unload nfsd rpcrdma
	no_null_block nullb1
}

rdma_up rxe
require_implementation "$IMPL"
for path in ${PATHS_ONLY:-nvmf nfs}; do
	"$path"
done
unload nfsv3 nfs
rdma_down
