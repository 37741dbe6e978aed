# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0
#
# SRP: LIO's srpt exports a null_blk device and a file, ib_srp logs in through
# the RDMA connection manager. Environment: IMPL, DEV, MIB, FILESYSTEMS, FAULTS.
# shellcheck source=scripts/guest/lib.sh
. /payload/guest/lib.sh

CM_PORT=5555

target_up() {
	lio_up
	modprobe ib_srpt
	mkdir -p "$LIO/srpt"
	echo "$CM_PORT" >"$LIO/srpt/discovery_auth/rdma_cm_port"
	TARGET=$LIO/srpt/$(cat /sys/class/infiniband/dev0/node_guid)
	TPG=$TARGET/tpgt_1
	mkdir "$TARGET" "$TPG"
	lio_luns "$TPG"
	# srpt has no demo mode: the initiator needs an entry, by its address.
	ACL=$TPG/acls/$ADDRESS
	mkdir "$ACL" "$ACL/lun_0" "$ACL/lun_1"
	ln -s "$TPG/lun/lun_0" "$ACL/lun_0/"
	ln -s "$TPG/lun/lun_1" "$ACL/lun_1/"
	target_on
}
target_on() { echo 1 >"$TPG/enable"; }
target_off() { echo 0 >"$TPG/enable"; }

target_down() {
	target_off
	rm "$ACL/lun_0/lun_0" "$ACL/lun_1/lun_1"
	rmdir "$ACL/lun_0" "$ACL/lun_1" "$ACL"
	lio_no_luns "$TPG"
	rmdir "$TPG" "$TARGET"
	echo 0 >"$LIO/srpt/discovery_auth/rdma_cm_port"
	rmdir "$LIO/srpt"
	unload ib_srpt
	lio_down
}

initiator_up() {
	local guid
	guid=$(sed 's/^0x//' /sys/module/ib_srpt/parameters/srpt_service_guid)
	# Without immediate data every byte goes through rdma_rw.
	modprobe ib_srp use_imm_data=0 reconnect_delay=1
	wait_for 10 "the SRP host" test -e /sys/class/infiniband_srp/srp-dev0-1
	echo "id_ext=$guid,ioc_guid=$guid,dest=$ADDRESS:$CM_PORT" \
		>/sys/class/infiniband_srp/srp-dev0-1/add_target
	scsi_disks
}

initiator_down() {
	local port
	scsi_disks_off
	for port in /sys/class/srp_remote_ports/*; do
		echo 1 >"$port/delete"
	done
	unload ib_srp
}

rdma_up "$DEV"
require_implementation "$IMPL"
target_up
paths_start
initiator_up
block_io srp "$BLOCK=$DISK0" "$FILE=$DISK1"
faults "$DISK0" target_off target_on
initiator_down
paths_stop
target_down
rdma_down
require_paths "$DEV" sg
require_contexts
