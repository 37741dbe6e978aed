# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0
#
# NVMe over Fabrics, target and host in one guest: nvmet exports a null_blk
# device and a file, and the host side connects to them. Source it after
# lib.sh. MIB sizes the backstores.
# shellcheck disable=SC2034,SC2119,SC2120,SC2153

NQN=nqn.2014-08.org.nvmexpress:uuid:rdma-rw
SUBSYSTEM=$CONFIGFS/nvmet/subsystems/$NQN
PORT=$CONFIGFS/nvmet/ports/1

target_up() {
	local n=1 path
	block_backstores_up
	# Both sides use it. Every connection is to have disks of its own.
	modprobe nvme-core io_timeout=120 multipath=N
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
	target_on
}
target_on() { ln -s "$SUBSYSTEM" "$PORT/subsystems/$NQN"; }
target_off() { rm "$PORT/subsystems/$NQN"; }

target_down() {
	local n
	target_off
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

host_connect() {
	nvme connect -t rdma -a "$ADDRESS" -s 4420 -n "$NQN" --keep-alive-tmo=60 --reconnect-delay=1 "$@"
}

host_up() {
	modprobe nvme-rdma
	host_connect
	wait_for 20 "the first namespace" namespace 1
	wait_for 20 "the second namespace" namespace 2
	DISK0=$(namespace 1)
	DISK1=$(namespace 2)
}

host_down() {
	nvme disconnect -n "$NQN"
	unload nvme-rdma nvme-fabrics
}
