# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0
#
# iSER: see iser.sh. Environment: IMPL, DEV, MIB, FILESYSTEMS, FAULTS;
# UNSOLICITED=BYTES.
# shellcheck source=scripts/guest/lib.sh
. /payload/guest/lib.sh
# shellcheck source=scripts/guest/iser.sh
. /payload/guest/iser.sh

rdma_up "$DEV"
require_implementation "$IMPL"
target_up
paths_start
initiator_up
block_io iser "$BLOCK=$DISK0" "$FILE=$DISK1"
faults "$DISK0" target_off target_on
initiator_down
paths_stop
target_down
rdma_down
require_paths "$DEV" sg
if [[ ${UNSOLICITED:-} ]]; then
	require "sg_offset > 0"
else
	require_contexts
fi
