# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0
#
# iSER, target and initiator in one guest: LIO's isert exports a null_blk
# device and a file, and open-iscsi logs in. Source it after lib.sh. MIB sizes
# the backstores; UNSOLICITED=BYTES lets the initiator send that much ahead of
# the target's request, which gives rdma_rw an offset into the scatterlist.

IQN=iqn.2003-01.org.linux-iscsi.rdma-rw:target
TARGET=$LIO/iscsi/$IQN
TPG=$TARGET/tpgt_1
PORTAL=$ADDRESS:3260

target_up() {
	lio_up
	modprobe iscsi_target_mod
	modprobe ib_isert
	mkdir -p "$LIO/iscsi" "$TARGET" "$TPG"
	lio_luns "$TPG"
	echo 1 >"$TPG/attrib/generate_node_acls"
	echo 0 >"$TPG/attrib/demo_mode_write_protect"
	echo 0 >"$TPG/attrib/authentication"
	# LIO wants a portal over TCP before it makes one over iSER of it. siw
	# listens on a TCP port as well, so the former has to live where it is
	# not in the way: in a network namespace of its own.
	ip netns add tcp
	ip -n tcp link set lo up
	ip -n tcp address add "$ADDRESS/32" dev lo
	nsenter --net=/run/netns/tcp mkdir "$TPG/np/$PORTAL"
	echo 1 >"$TPG/np/$PORTAL/iser"
	if [[ ${UNSOLICITED:-} ]]; then
		echo Yes >"$TPG/param/ImmediateData"
		echo No >"$TPG/param/InitialR2T"
		echo "$UNSOLICITED" >"$TPG/param/FirstBurstLength"
	else
		echo No >"$TPG/param/ImmediateData"
		echo Yes >"$TPG/param/InitialR2T"
	fi
	target_on
}
target_on() { echo 1 >"$TPG/enable"; }
target_off() { echo 0 >"$TPG/enable"; }

target_down() {
	target_off
	echo 0 >"$TPG/np/$PORTAL/iser"
	rmdir "$TPG/np/$PORTAL"
	ip netns delete tcp
	lio_no_luns "$TPG"
	rmdir "$TPG" "$TARGET" "$LIO/iscsi"
	unload ib_isert iscsi_target_mod
	lio_down
}

node() { iscsiadm -m node -T "$IQN" -p "$PORTAL" "$@"; }

initiator_up() {
	local immediate=No r2t=Yes
	if [[ ${UNSOLICITED:-} ]]; then
		immediate=Yes
		r2t=No
	fi
	modprobe ib_iser
	echo "InitiatorName=iqn.1993-08.org.debian:rdma-rw" >/etc/iscsi/initiatorname.iscsi
	iscsid
	node -I iser -o new
	node -o update -n 'node.session.iscsi.ImmediateData' -v "$immediate"
	node -o update -n 'node.session.iscsi.InitialR2T' -v "$r2t"
	node -o update -n 'node.session.cmds_max' -v 64
	[[ -z ${UNSOLICITED:-} ]] ||
		node -o update -n 'node.session.iscsi.FirstBurstLength' -v "$UNSOLICITED"
	node --login
	scsi_disks
}

initiator_down() {
	scsi_disks_off
	node --logout
	iscsiadm -k 0
	unload ib_iser
}
