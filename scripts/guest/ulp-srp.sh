# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0
#
# SRP: LIO's srpt exports a null_blk device and a file, ib_srp logs in through
# the RDMA connection manager. Environment: IMPL, DEV, MIB, FILESYSTEMS, FAULTS.
# shellcheck source=scripts/guest/lib.sh
. /payload/guest/lib.sh

CM_PORT=5555
# ADDRESS6 as srpt spells it.
INITIATOR=2001:0db8:0000:0000:0000:0000:0000:0001

# The connection is one of IPv6. srpt listens on every address of both families
# at once, and where siw is told of a peer by such a listener, rdma_cm does not
# find the device of an IPv4 address.

target_up() {
	lio_up
	modprobe ib_srpt
	mkdir -p "$LIO/srpt"
	echo "$CM_PORT" >"$LIO/srpt/discovery_auth/rdma_cm_port"
	TARGET=$LIO/srpt/$(cut -d: -f5-8 /sys/class/infiniband/dev0/ports/1/gids/0)
	TPG=$TARGET/tpgt_1
	mkdir "$TARGET" "$TPG"
	lio_luns "$TPG"
	# srpt has no demo mode: the initiator needs an entry, by its address,
	# which is that of the target here.
	ACL=$TPG/acls/$INITIATOR
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

# login TARGET: srpt sends as soon as it has accepted a connection. When that
# overtakes siw's reading of the reply, siw takes it for a breach of protocol
# and gives up, so one login may not be enough.
login() { echo "$1" >/sys/class/infiniband_srp/srp-dev0-1/add_target; }

initiator_up() {
	local guid
	guid=$(sed 's/^0x//' /sys/module/ib_srpt/parameters/srpt_service_guid)
	# Without immediate data every byte goes through rdma_rw.
	modprobe ib_srp use_imm_data=0 reconnect_delay=1 ch_count=1
	wait_for 10 "the SRP host" test -e /sys/class/infiniband_srp/srp-dev0-1
	wait_for 60 "a login" login "id_ext=$guid,ioc_guid=$guid,dest=[$ADDRESS6]:$CM_PORT"
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
