// SPDX-License-Identifier: GPL-2.0

//! The verbs of the device.

use core::ptr;

use kernel::prelude::*;

use crate::bindings;
use crate::differential_case::Refusal;
use crate::differential_device::{
    zeroed,
    Device,
    Mr,
    State, //
    PROT_PAGES,
};
use crate::differential_trace::Label;

/// The state behind what C hands over.
///
/// # Safety
///
/// `device` must be the one of a [`State`], which nobody else uses during the call.
pub(crate) unsafe fn state<'a>(device: *mut bindings::ib_device) -> &'a mut State {
    // SAFETY: By this function's safety requirement.
    unsafe { &mut *(*device.cast::<Device>()).state }
}

/// Carries out a chain, as far as it is told to.
///
/// # Safety
///
/// As ib_core calls a verb: with valid pointers to what this device has made.
pub(crate) unsafe extern "C" fn post_send(
    qp: *mut bindings::ib_qp,
    first: *const bindings::ib_send_wr,
    bad: *mut *const bindings::ib_send_wr,
) -> c_int {
    // SAFETY: The QP is ours.
    let state = unsafe { state((*qp).device) };
    let (stop, says) = match state.stop {
        Some((stop, true)) => (stop, true),
        // A device that does not name what it stopped at has posted nothing.
        Some((_, false)) => (0, false),
        None => (usize::MAX, true),
    };

    state.note_chain(first);
    let stopped = state.run(first, stop);
    if stopped.is_null() {
        return 0;
    }
    // SAFETY: C hands over a place.
    unsafe { *bad = if says { stopped } else { ptr::null() } };
    ENOMEM.to_errno()
}

/// Adds a page of data to an MR.
///
/// # Safety
///
/// As ib_core calls a verb: with valid pointers to what this device has made.
pub(crate) unsafe extern "C" fn set_page(raw: *mut bindings::ib_mr, page: u64) -> c_int {
    // SAFETY: The MR is ours.
    let mr = unsafe { Mr::from_raw(raw) };

    if mr.nr_pages == mr.limit {
        return ENOMEM.to_errno();
    }
    mr.pages[mr.nr_pages as usize] = page;
    mr.nr_pages += 1;
    0
}

/// Adds a page of protection information to an MR.
///
/// # Safety
///
/// As ib_core calls a verb: with valid pointers to what this device has made.
pub(crate) unsafe extern "C" fn set_prot_page(raw: *mut bindings::ib_mr, page: u64) -> c_int {
    // SAFETY: The MR is ours.
    let mr = unsafe { Mr::from_raw(raw) };

    if mr.nr_prot == mr.limit || mr.nr_prot as usize == PROT_PAGES {
        return ENOMEM.to_errno();
    }
    mr.prot[mr.nr_prot as usize] = page;
    mr.nr_prot += 1;
    0
}

/// Maps a list into an MR, as far as it takes pages.
///
/// # Safety
///
/// As ib_core calls a verb: with valid pointers to what this device has made.
pub(crate) unsafe extern "C" fn map_mr_sg(
    raw: *mut bindings::ib_mr,
    sg: *mut bindings::scatterlist,
    nents: c_int,
    offset: *mut c_uint,
) -> c_int {
    // SAFETY: The MR is ours, and its list mapped.
    unsafe {
        let mr = Mr::from_raw(raw);
        let state = state((*raw).device);
        let refused = state.mr_maps == u32::from(state.config.bad_mr_map)
            && state.config.bad_mr_map != u8::MAX;

        state.mr_maps += 1;
        mr.nr_pages = 0;
        mr.nr_prot = 0;
        let taken = bindings::ib_sg_to_pages(raw, sg, nents, offset, Some(set_page));
        mr.data_len = mr.raw.length;
        match state.config.refusal {
            _ if !refused => taken,
            Refusal::Short => taken - 1,
            Refusal::Error => ENOMEM.to_errno(),
            Refusal::Nothing => 0,
            Refusal::Least => c_int::MIN,
        }
    }
}

/// Maps data and protection information into an MR.
///
/// # Safety
///
/// As ib_core calls a verb: with valid pointers to what this device has made.
pub(crate) unsafe extern "C" fn map_mr_sg_pi(
    raw: *mut bindings::ib_mr,
    data: *mut bindings::scatterlist,
    nr_data: c_int,
    data_offset: *mut c_uint,
    prot: *mut bindings::scatterlist,
    nr_prot: c_int,
    prot_offset: *mut c_uint,
) -> c_int {
    // SAFETY: The MR is ours, and its lists mapped.
    unsafe {
        let mr = Mr::from_raw(raw);
        let state = state((*raw).device);
        let refused = state.mr_maps == u32::from(state.config.bad_mr_map)
            && state.config.bad_mr_map != u8::MAX;

        state.mr_maps += 1;
        if refused {
            return EIO.to_errno();
        }

        mr.nr_pages = 0;
        mr.nr_prot = 0;
        let mut prot_len = 0;
        if nr_prot != 0 {
            if bindings::ib_sg_to_pages(raw, prot, nr_prot, prot_offset, Some(set_prot_page))
                != nr_prot
            {
                return EINVAL.to_errno();
            }
            prot_len = mr.raw.length;
            mr.prot_start = mr.raw.iova;
        }
        if bindings::ib_sg_to_pages(raw, data, nr_data, data_offset, Some(set_page)) != nr_data {
            return EINVAL.to_errno();
        }
        mr.data_len = mr.raw.length;
        mr.raw.length += prot_len;
        mr.sig_attrs.meta_length = prot_len as c_int;
    }
    0
}

/// Makes an MR for a pool that is filled by what is tested.
///
/// # Safety
///
/// The PD must be ours.
pub(crate) unsafe fn alloc(
    pd: *mut bindings::ib_pd,
    kind: u32,
    pages: u32,
) -> *mut bindings::ib_mr {
    // SAFETY: By this function's safety requirement.
    let state = unsafe { state((*pd).device) };

    state.trace.add(Label::MrType, kind.into());
    state.trace.add(Label::MrSize, pages.into());
    state.allocs += 1;
    if state.allocs - 1 == state.bad_alloc {
        return ENOMEM.to_ptr();
    }
    // SAFETY: All zeroes are a value.
    match unsafe { zeroed::<Mr>() } {
        Ok(mr) => {
            state.allocated += 1;
            KBox::into_raw(mr).cast()
        }
        Err(e) => e.to_ptr(),
    }
}

/// Makes an MR for data.
///
/// # Safety
///
/// As ib_core calls a verb: with valid pointers to what this device has made.
pub(crate) unsafe extern "C" fn alloc_mr(
    pd: *mut bindings::ib_pd,
    kind: bindings::ib_mr_type,
    pages: u32,
) -> *mut bindings::ib_mr {
    // SAFETY: The PD is ours.
    unsafe { alloc(pd, kind, pages) }
}

/// Makes an MR for data and protection information.
///
/// # Safety
///
/// As ib_core calls a verb: with valid pointers to what this device has made.
pub(crate) unsafe extern "C" fn alloc_mr_integrity(
    pd: *mut bindings::ib_pd,
    pages: u32,
    prot_pages: u32,
) -> *mut bindings::ib_mr {
    // SAFETY: The PD is ours.
    unsafe {
        state((*pd).device)
            .trace
            .add(Label::MrSize, prot_pages.into());
        alloc(pd, bindings::ib_mr_type_IB_MR_TYPE_INTEGRITY, pages)
    }
}

/// Frees an MR.
///
/// # Safety
///
/// As ib_core calls a verb: with valid pointers to what this device has made.
pub(crate) unsafe extern "C" fn dereg_mr(
    raw: *mut bindings::ib_mr,
    _udata: *mut bindings::ib_udata,
) -> c_int {
    // SAFETY: The MR was made by `alloc`, and goes.
    unsafe {
        let state = state((*raw).device);

        state.trace.add(Label::MrType, u64::from((*raw).type_) << 8);
        state.allocated -= 1;
        drop(KBox::from_raw(raw.cast::<Mr>()));
    }
    0
}
