// SPDX-License-Identifier: GPL-2.0

//! One SGE in one work request, both within the context itself.

use kernel::ffi::c_int;

use super::{
    dma::Segment,
    Slot,
    Transfer, //
};

/// Makes a context for one mapped segment.
#[inline(always)]
pub(super) fn init(slot: &mut Slot<'_>, transfer: &Transfer<'_>, segment: Segment) -> c_int {
    slot.write_single(transfer, segment);
    1
}
