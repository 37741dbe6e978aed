# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0
#
# What whole requests cost in a guest whose clock counts instructions: reads
# and writes of NVMe over Fabrics and of NFS, over rxe, client and server in
# one, one request after the other. A request is what happens from the call of a
# function in the target to the one for the next request.
# Environment: IMPL.
# shellcheck source=scripts/guest/lib.sh
. /payload/guest/lib.sh
# shellcheck source=scripts/guest/nvmf.sh
. /payload/guest/nvmf.sh

SERVED=/srv/export
MOUNT=/mnt/nfs
# The size of what is read and written, in MiB.
MIB=32

# requests_of PATH RW SIZE NUMBER: that many of SIZE KiB, one after the other:
# how requests overlap would be different every time.
requests_of() {
	fio --name=bench --filename="$1" --ioengine=psync --direct=1 --rw="$2" --bs="$3k" \
		--gtod_reduce=1 --disk_util=0 --size="${MIB}m" --io_size="$(($4 * $3))k" --norandommap --randrepeat=1 \
		--thread --output="$RESULTS/fio" >/dev/null
	(($(sed -n 's/.*issued rwts: total=\([0-9]*\),\([0-9]*\),.*/\1 + \2/p' "$RESULTS/fio") == $4)) ||
		fail "fio did not make $4 requests"
}

# said COMMAND... -- PARAMETER...: runs the command with the module loaded, and
# sets SAID to what that has to say about it.
said() {
	local -a command=()
	while [[ $1 != -- ]]; do
		command+=("$1")
		shift
	done
	shift
	insmod /payload/files/rdma_rw_bench.ko "$@"
	"${command[@]}"
	rmmod rdma_rw_bench
	SAID=$(dmesg | sed -n 's/.*rdma_rw_bench: //p' | tail -n 1)
}

# measure NAME FUNCTION PATH RW SIZE NUMBER
measure() {
	local few=$(($6 / 5)) watched calls per periods
	step "$1"
	# The warm-up, too.
	said requests_of "${@:3:3}" "$few" -- mode=watch "at=$2"
	[[ $SAID == watched*" refused=0 missed=0" ]] || fail "contexts were refused or missed: $SAID"
	watched=${SAID#watched }
	calls=${watched#calls=}
	calls=${calls%% *}
	# A target is called to be kept alive, too.
	per=$((calls / few))
	((calls - per * few <= few / 50)) || fail "$2 was called $calls times for $few requests"
	said requests_of "${@:3}" -- mode=period "at=$2" "per=$per"
	[[ $SAID == periods=* ]] || fail "no periods: $SAID"
	periods=${SAID#periods=}
	periods=${periods%% *}
	((periods >= $6 - 1 && periods <= $6 + $6 / 50)) || fail "there were $periods periods for $6 requests"
	echo "scenario=$1 counted=$few $watched $SAID" >>"$RESULTS/bench"
}

nvmf() {
	# No file is wanted here, and no other sizes.
	target_up
	host_up
	measure nvmf-4k-randread nvmet_req_init "$DISK0" randread 4 6000
	measure nvmf-4k-randwrite nvmet_req_init "$DISK0" randwrite 4 6000
	measure nvmf-128k-randread nvmet_req_init "$DISK0" randread 128 2000
	measure nvmf-128k-randwrite nvmet_req_init "$DISK0" randwrite 128 2000
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
	measure nfs-1m-read nfsd3_proc_read "$MOUNT/file" read 1024 100
	measure nfs-1m-write nfsd3_proc_write "$MOUNT/file" write 1024 100
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
for path in nvmf nfs; do
	"$path"
done
unload nfsv3 nfs
rdma_down
