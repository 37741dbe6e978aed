// SPDX-License-Identifier: GPL-2.0

//! One MR over data and its protection information.

use core::ptr;

use kernel::error::to_result;
use kernel::ffi::c_int;
use kernel::prelude::*;

use super::{
    dma::MappedSg,
    registered::{
        mapped_len,
        Kind,
        Registrations, //
    },
    Slot,
    Transfer, //
};
use crate::bindings;

/// Size of the pages that data and protection information are registered in.
const PAGE_SIZE: u32 = 4096;

/// Makes a context for mapped data and protection information.
///
/// # Errors
///
/// `EINVAL` where either has more entries than an MR takes, or an empty one, `EAGAIN` where the pool
/// is empty, `ENOMEM`, or the device's error.
pub(super) fn init(
    slot: &mut Slot<'_>,
    transfer: &Transfer<'_>,
    data: &MappedSg<'_>,
    prot: Option<&MappedSg<'_>>,
    attrs: &bindings::ib_sig_attrs,
) -> Result<c_int> {
    let limit = transfer.qp.mr_pages().get();
    let nents = data.nents().get();
    let (prot_sgl, prot_nents) = match prot {
        Some(prot) => (prot.as_raw(), prot.nents().get()),
        None => (ptr::null_mut(), 0),
    };

    if nents > limit || prot_nents > limit {
        pr_err!("{nents} data and {prot_nents} protection entries, but an MR takes {limit}\n");
        return Err(EINVAL);
    }

    if !data.is_filled() || prot.is_some_and(|prot| !prot.is_filled()) {
        return Err(EINVAL);
    }

    let mut regs = Registrations::new(transfer.qp, Kind::Integrity, 1)?;
    let mr = regs.take_mr()?;

    // SAFETY: An integrity MR has attributes of its own, and it is nobody else's. Both lists are
    // mapped and have that many entries.
    // CAST: Both counts are at most that of the largest MR.
    to_result(unsafe {
        (*(*mr.as_raw()).sig_attrs).clone_from(attrs);
        bindings::ib_map_mr_sg_pi(
            mr.as_raw(),
            data.as_raw(),
            nents as c_int,
            ptr::null_mut(),
            prot_sgl,
            prot_nents as c_int,
            ptr::null_mut(),
            PAGE_SIZE,
        )
    })
    .inspect_err(|_| pr_err!("a device takes no MR of {nents} and {prot_nents} entries\n"))?;

    let mut len = mapped_len(&mr);
    if attrs.wire.sig_type == bindings::ib_signature_type_IB_SIG_TYPE_NONE {
        // What is not on the wire is not transferred. The device set this when it mapped the MR.
        // SAFETY: As above.
        len = len.wrapping_sub(unsafe { (*(*mr.as_raw()).sig_attrs).meta_length } as u32);
    }

    regs.push(mr, transfer, transfer.protocol(), transfer.remote, len)?;
    // For a destroy that does not name it.
    let prot = bindings::sg_table {
        sgl: prot_sgl,
        nents: prot_nents,
        orig_nents: prot.map_or(0, |prot| prot.orig_nents().get()),
    };
    Ok(regs.keep(slot, prot))
}
