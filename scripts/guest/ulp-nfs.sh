# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0
#
# NFS over RDMA: knfsd exports a file system, the client of the same guest
# mounts it as v3 and as v4.2, with small and with large transfers.
# Environment: IMPL, DEV, FILE_MIB, FAULTS; VERSIONS, if not both.
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
	mkdir -p /run/rpcbind /run/rpc_pipefs /var/lib/nfs/nfsdcld
	mount -t rpc_pipefs sunrpc /run/rpc_pipefs
	rpcbind -w
	# It knows that no client has state to reclaim, so there is no grace
	# period to wait for.
	nfsdcld
	exportfs -o rw,insecure,no_root_squash,no_subtree_check,fsid=1 "$ADDRESS/24:$SERVED"
	rpc.mountd
	# After a restart clients get so long to reclaim their state.
	echo 10 >/proc/fs/nfsd/nfsv4leasetime
	echo 10 >/proc/fs/nfsd/nfsv4gracetime
	server_on
}
server_on() {
	rpc.nfsd 4
	echo "rdma 20049" >/proc/fs/nfsd/portlist
}
server_off() { rpc.nfsd 0; }

server_down() {
	server_off
	exportfs -ua
	pkill -x rpc.mountd
	pkill -x nfsdcld
	pkill -x rpcbind
	wait_for 20 "the end of the export" umount "$SERVED"
	umount /proc/fs/nfsd /run/rpc_pipefs
	unload nfsd rpcrdma
	no_null_block nullb0
}

# nfs_mount VERSION BYTES: with rsize and wsize of BYTES.
nfs_mount() {
	local options=vers=$1,proto=rdma,port=20049,rsize=$2,wsize=$2
	[[ $1 != 3 ]] || options+=,nolock,mountproto=tcp
	mount -t nfs -o "$options" "$ADDRESS:$SERVED" "$MOUNT"
	grep -q " $MOUNT nfs.*proto=rdma" /proc/mounts || fail "the mount is not over RDMA"
}

# round VERSION BYTES MIB
round() {
	step "v$1, transfers of $2 bytes"
	nfs_mount "$1" "$2"
	file_io "$MOUNT" "$SERVED" "$3"
	umount "$MOUNT"
}

rdma_up "$DEV"
require_implementation "$IMPL"
server_up
paths_start
rust_calls round 3 65536 1
# Small transfers of large files take long and show nothing new.
for version in ${VERSIONS:-3 4.2}; do
	round "$version" 4096 1
	round "$version" 65536 4
	round "$version" 1048576 "$FILE_MIB"
done
if [[ ${FAULTS:-} ]]; then
	nfs_mount 4.2 65536
	faults "$MOUNT/load" server_off server_on
	umount "$MOUNT"
fi
paths_stop
server_down
unload nfsv3 nfsv4 nfs
rdma_down
require_paths "$DEV" bvec
