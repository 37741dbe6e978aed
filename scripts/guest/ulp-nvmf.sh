# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0
#
# NVMe over Fabrics: nvmet exports a null_blk device and a file, the host
# side of the same guest connects to them. Environment: IMPL, DEV, MIB,
# FILESYSTEMS.
# shellcheck source=scripts/guest/lib.sh
. /payload/guest/lib.sh

NQN=nqn.2014-08.org.nvmexpress:uuid:rdma-rw
SUBSYSTEM=$CONFIGFS/nvmet/subsystems/$NQN
PORT=$CONFIGFS/nvmet/ports/1

target_up() {
	local n=1 path
	block_backstores_up
	modprobe nvmet-rdma
	mkdir "$SUBSYSTEM"
	echo 1 >"$SUBSYSTEM/attr_allow_any_host"
	for path in "$BLOCK" "$FILE"; do
		mkdir "$SUBSYSTEM/namespaces/$n"
		echo "$path" >"$SUBSYSTEM/namespaces/$n/device_path"
		echo 1 >"$SUBSYSTEM/namespaces/$n/enable"
		n=$((n + 1))
	done
	mkdir "$PORT"
	echo rdma >"$PORT/addr_trtype"
	echo ipv4 >"$PORT/addr_adrfam"
	echo "$ADDRESS" >"$PORT/addr_traddr"
	echo 4420 >"$PORT/addr_trsvcid"
	# Without in-capsule data every byte goes through rdma_rw.
	echo 0 >"$PORT/param_inline_data_size"
	ln -s "$SUBSYSTEM" "$PORT/subsystems/$NQN"
}

target_down() {
	local n
	rm "$PORT/subsystems/$NQN"
	rmdir "$PORT"
	for n in 1 2; do
		echo 0 >"$SUBSYSTEM/namespaces/$n/enable"
		rmdir "$SUBSYSTEM/namespaces/$n"
	done
	rmdir "$SUBSYSTEM"
	unload nvmet-rdma nvmet
	block_backstores_down
}

# namespace ID: its device; the numbers in the names are not the IDs.
namespace() {
	local file
	for file in /sys/block/nvme*/nsid; do
		file=$(grep -lx "$1" "$file") || continue
		file=$(dirname "$file")
		[[ -b /dev/${file##*/} ]] && echo "/dev/${file##*/}" && return
	done
	return 1
}

host_up() {
	modprobe nvme-core io_timeout=120
	modprobe nvme-rdma
	nvme connect -t rdma -a "$ADDRESS" -s 4420 -n "$NQN" --keep-alive-tmo=60
	wait_for 20 "the first namespace" namespace 1
	wait_for 20 "the second namespace" namespace 2
	DISK0=$(namespace 1)
	DISK1=$(namespace 2)
}

host_down() {
	nvme disconnect -n "$NQN"
	unload nvme-rdma nvme-fabrics
}

rdma_up "$DEV"
require_implementation "$IMPL"
target_up
paths_start
host_up
block_io nvmf "$BLOCK=$DISK0" "$FILE=$DISK1"
host_down
paths_stop
target_down
# Both sides use it.
unload nvme-core
rdma_down
require_paths "$DEV" sg
require_contexts
