# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0
#
# NFS over RDMA, as v3 and as v4.2, with small and with large transfers: see
# nfs.sh. Environment: IMPL, DEV, FILE_MIB, FAULTS; QUICK for one of them.
# shellcheck source=scripts/guest/lib.sh
. /payload/guest/lib.sh
# shellcheck source=scripts/guest/nfs.sh
. /payload/guest/nfs.sh

# round VERSION BYTES MIB: mounts, and does everything with files.
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
if [[ ${QUICK:-} ]]; then
	round 4.2 1048576 "$FILE_MIB"
else
	# Small transfers of large files take long and show nothing new.
	for version in 3 4.2; do
		round "$version" 4096 1
		round "$version" 65536 4
		round "$version" 1048576 "$FILE_MIB"
	done
fi
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
