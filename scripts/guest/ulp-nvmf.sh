# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0
#
# NVMe over Fabrics: nvmet exports a null_blk device and a file, the host
# side of the same guest connects to them. Environment: IMPL, DEV, MIB,
# FILESYSTEMS, FAULTS.
# shellcheck source=scripts/guest/lib.sh
. /payload/guest/lib.sh
# shellcheck source=scripts/guest/nvmf.sh
. /payload/guest/nvmf.sh

rdma_up "$DEV"
require_implementation "$IMPL"
target_up
paths_start
host_up
block_io nvmf "$BLOCK=$DISK0" "$FILE=$DISK1"
faults "$DISK0" target_off target_on
host_down
paths_stop
target_down
# Both sides use it.
unload nvme-core
rdma_down
require_paths "$DEV" sg
require_contexts
