# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0
#
# NFS over RDMA, server and client in one guest: knfsd exports a file system on
# a null_blk device. Source it after lib.sh.

SERVED=/srv/export
MOUNT=/mnt/nfs

server_up() {
	served_up "$SERVED"
	mkdir -p "$MOUNT"
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
	served_down "$SERVED"
	umount /proc/fs/nfsd /run/rpc_pipefs
	unload nfsd rpcrdma
}

# nfs_mount VERSION BYTES: with rsize and wsize of BYTES.
nfs_mount() {
	local options=vers=$1,proto=rdma,port=20049,rsize=$2,wsize=$2
	[[ $1 != 3 ]] || options+=,nolock,mountproto=tcp
	mount -t nfs -o "$options" "$ADDRESS:$SERVED" "$MOUNT"
	grep -q " $MOUNT nfs.*proto=rdma" /proc/mounts || fail "the mount is not over RDMA"
}
