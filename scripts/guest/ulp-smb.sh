# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0
#
# SMB Direct: ksmbd serves a share, the kernel's client of the same guest
# mounts it as SMB 3.1.1 over RDMA. Environment: IMPL, DEV, FILE_MIB, FAULTS;
# QUICK for little.
# shellcheck source=scripts/guest/lib.sh
. /payload/guest/lib.sh

SERVED=/srv/share
MOUNT=/mnt/smb

server_up() {
	served_up "$SERVED"
	mkdir -p "$MOUNT" /etc/ksmbd
	chmod 777 "$SERVED"
	cat >/etc/ksmbd/ksmbd.conf <<-END
	[global]
		netbios name = guest
		server min protocol = SMB3_11
	[share]
		path = $SERVED
		read only = no
	END
	ksmbd.adduser -a -p secret user
	modprobe ksmbd
	ksmbd.mountd
	wait_for 20 "the server" ss -Hltn 'sport = :445'
}

server_down() {
	# ksmbd wakes the threads that listen, which end, and only then takes a
	# reference to each. They cannot run before on the processor that is doing so.
	local thread threads
	threads=$(pgrep '^ksmbd-smbdirect') || fail "no thread of ksmbd listens"
	for thread in $threads; do
		taskset -p -c 0 "$thread" >/dev/null || fail "ksmbd's thread $thread stays where it is"
	done
	taskset -c 0 chrt --fifo 1 ksmbd.control -s
	served_down "$SERVED"
	unload ksmbd
}

smb_mount() {
	mount -t cifs -o "vers=3.1.1,rdma,username=user,password=secret,cache=strict" "//$ADDRESS/share" "$MOUNT"
	grep -q " $MOUNT cifs.*[ ,]rdma[, ]" /proc/mounts || fail "the mount is not over RDMA"
}

# round MIB
round() {
	step "SMB 3.1.1, files of up to $1 MiB"
	smb_mount
	file_io "$MOUNT" "$SERVED" "$1"
	umount "$MOUNT"
}

rdma_up "$DEV"
require_implementation "$IMPL"
server_up
paths_start
rust_calls round 1
[[ ${QUICK:-} ]] || round "$FILE_MIB"
if [[ ${FAULTS:-} ]]; then
	smb_mount
	faults "$MOUNT/load"
	umount "$MOUNT"
fi
paths_stop
server_down
unload cifs
rdma_down
require_paths "$DEV" sg
