# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0
#
# NFS over RDMA: knfsd exports a file system, the client of the same guest
# mounts it as v3 and as v4.2, with small and with large transfers.
# Environment: IMPL, DEV, FILE_MIB.
# shellcheck source=scripts/guest/lib.sh
. /payload/guest/lib.sh

SERVED=/srv/export
MOUNT=/mnt/nfs

server_up() {
	null_block nullb0 512
	mke2fs -q -F -t ext4 /dev/nullb0
	mkdir -p "$SERVED" "$MOUNT"
	mount /dev/nullb0 "$SERVED"
	modprobe rpcrdma
	modprobe nfsd
	mountpoint -q /proc/fs/nfsd || mount -t nfsd nfsd /proc/fs/nfsd
	mkdir -p /run/rpcbind /run/sendsigs.omit.d /var/lib/nfs/v4recovery
	rpcbind -w
	# Nobody has state to reclaim from a server that has just come up.
	echo 10 >/proc/fs/nfsd/nfsv4leasetime
	echo 10 >/proc/fs/nfsd/nfsv4gracetime
	exportfs -o rw,insecure,no_root_squash,no_subtree_check,fsid=1 "$ADDRESS/24:$SERVED"
	rpc.mountd
	rpc.nfsd --no-udp 4
	echo "rdma 20049" >/proc/fs/nfsd/portlist
	[[ ! -e /proc/fs/nfsd/v4_end_grace ]] || echo Y >/proc/fs/nfsd/v4_end_grace
}

server_down() {
	rpc.nfsd 0
	exportfs -ua
	pkill -x rpc.mountd
	pkill -x rpcbind
	wait_for 20 "the end of the export" umount "$SERVED"
	umount /proc/fs/nfsd
	unload nfsd rpcrdma
	no_null_block nullb0
}

# round VERSION BYTES MIB: everything, with rsize and wsize of BYTES.
round() {
	local options=vers=$1,proto=rdma,port=20049,rsize=$2,wsize=$2
	[[ $1 != 3 ]] || options+=,nolock,mountproto=tcp
	step "v$1, transfers of $2 bytes"
	mount -t nfs -o "$options" "$ADDRESS:$SERVED" "$MOUNT"
	grep -q " $MOUNT nfs.*proto=rdma" /proc/mounts || fail "the mount is not over RDMA"
	file_io "$MOUNT" "$SERVED" "$3"
	umount "$MOUNT"
}

rdma_up "$DEV"
require_implementation "$IMPL"
server_up
paths_start
rust_calls round 3 65536 1
for version in 3 4.2; do
	for size in 4096 65536 1048576; do
		round "$version" "$size" "${FILE_MIB:-8}"
	done
done
paths_stop
server_down
unload nfsv3 nfsv4 nfs
rdma_down
require_paths "$DEV" bvec
