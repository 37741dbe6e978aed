// SPDX-License-Identifier: GPL-2.0

//! One SGE in one work request, both within the context itself.

use kernel::ffi::c_int;
use kernel::prelude::*;

use super::{
    dma::{
        PageMapper,
        Segment, //
    },
    BvecSource,
    Slot,
    Transfer, //
};

/// Makes a context for one mapped segment.
#[inline]
pub(super) fn init(slot: &mut Slot<'_>, transfer: &Transfer<'_>, segment: Segment) -> c_int {
    slot.write_single(transfer, segment);
    1
}

/// Maps the one entry of a source and makes a context for it.
///
/// # Errors
///
/// `EINVAL` where the entry holds less than the transfer asks for, `ENOMEM` where it cannot be
/// mapped.
#[inline]
pub(super) fn init_bvec(
    slot: &mut Slot<'_>,
    transfer: &Transfer<'_>,
    mut source: BvecSource<'_>,
) -> Result<c_int> {
    let piece = source.next_piece()?.ok_or(EINVAL)?;
    if source.left() != 0 {
        return Err(EINVAL);
    }

    let mapper = PageMapper::new(transfer.qp.device(), transfer.dir, &piece);
    Ok(init(slot, transfer, mapper.map(&piece)?))
}
