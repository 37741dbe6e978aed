// SPDX-License-Identifier: GPL-2.0

//! What may become of a call that breaks the rules: an error, with nothing left behind, or a right
//! result. There is no other side to compare with here.

use core::ptr;

use kernel::prelude::*;

use crate::api::Api;
use crate::bindings;
use crate::differential_case::{
    Call,
    Case,
    Damage,
    Dma,
    Form,
    Init, //
    ARENA,
};
use crate::differential_deviations::{
    d1,
    Needed, //
};
use crate::differential_random::Random;
use crate::differential_run::Runner;

/// What the arguments of an init alone say about its result.
enum Due {
    /// Nothing.
    Open,
    /// It is an error.
    Refusal,
    /// It is this error.
    Error(Error),
}

impl Due {
    fn of(case: &Case, init: &Init) -> Self {
        let abuse = &init.abuse;

        if abuse.direction.is_some() {
            return Self::Error(EINVAL);
        }
        if init.form == Form::Bvec {
            // A number that is not that of the array is 0.
            return if abuse.no_list || abuse.count.is_some() || init.size == 0 {
                Self::Error(EINVAL)
            } else if Needed::of(case.list(init), init).short {
                Self::Refusal
            } else {
                Self::Open
            };
        }

        if let Some(e) = no_list(abuse.no_list, init.told_count()) {
            return Self::Error(e);
        }
        if init.form == Form::Sg {
            return if d1(case.told(init), init.offset) {
                Self::Refusal
            } else {
                Self::Open
            };
        }

        let prot = match init.told_prot_count() {
            0 => None,
            count => no_list(abuse.no_prot, count),
        };
        prot.or(abuse.no_attrs.then_some(EINVAL))
            .map_or(Self::Open, Self::Error)
    }

    /// Whether a result is what is due.
    fn allows(&self, ret: i32) -> bool {
        let refused = [EIO, EAGAIN, ENOMEM, EINVAL]
            .iter()
            .any(|e| e.to_errno() == ret);

        match self {
            Self::Open => ret > 0 || refused,
            Self::Refusal => refused,
            Self::Error(e) => ret == e.to_errno(),
        }
    }
}

/// The error for a pointer and a number that make no scatterlist.
fn no_list(null: bool, count: u32) -> Option<Error> {
    if null || i32::try_from(count).is_err() {
        Some(EINVAL)
    } else if count == 0 {
        Some(EIO)
    } else {
        None
    }
}

/// Makes attributes of protection information that make no sense, but for what says whether it is on
/// the wire.
pub(crate) fn abuse_attrs(attrs: &mut bindings::ib_sig_attrs, init: &Init) {
    let mut rnd = Random::new(init.abuse.attrs.into(), 0);

    attrs.check_mask = rnd.next() as u8;
    attrs.meta_length = rnd.next() as i32;
    for domain in [&mut attrs.mem, &mut attrs.wire] {
        domain.sig_type = rnd.next() as u32 | bindings::ib_signature_type_IB_SIG_TYPE_T10_DIF;
        domain.sig.dif.bg_type = rnd.next() as u32;
        domain.sig.dif.pi_interval = rnd.next() as u16;
        domain.sig.dif.ref_tag = rnd.next() as u32;
        domain.sig.dif.apptag_check_mask = rnd.next() as u16;
    }
    if init.strip {
        attrs.wire.sig_type = bindings::ib_signature_type_IB_SIG_TYPE_NONE;
    }
}

impl Runner {
    /// Judges the result of an init, and finds out whether its memory is there to be moved.
    pub(crate) fn judge(&mut self, case: &Case, i: usize, ret: i32) {
        let config = &case.config;
        let init = self.slots[i].init;
        let due = Due::of(case, &init);

        if !due.allows(ret) {
            self.wrong("the init did not end as its arguments say");
        }
        if ret > 0 {
            self.slots[i].init.huge |= !self.has_memory(case, i);
        } else if matches!(due, Due::Open)
            && config.dma == Dma::Virtual
            && init.form != Form::Signature
            && !self.requires_mr(case, &init)
            && *self.max_sge(init.read) != 0
        {
            self.wrong("an init was refused that needs nothing but memory");
        }
    }

    /// Whether all that a context moves is there, on both sides.
    fn has_memory(&self, case: &Case, i: usize) -> bool {
        let mut all = 0;
        let mut there = true;

        self.each_moved(case, i, |entry| {
            there &= entry.start + u64::from(entry.len) <= ARENA;
            all += u64::from(entry.len);
        });
        there && all <= ARENA
    }

    /// Calls a function with what is no context: nothing may come of it.
    pub(crate) fn no_context(&mut self, i: usize, damage: Damage, call: Call, api: &Api) {
        let slot = &mut self.slots[i];
        let place = slot.ctx.as_mut_ptr();

        if !slot.live {
            // SAFETY: It is memory of that size.
            unsafe { ptr::write_bytes(place, 0xaa, 1) };
        }
        // SAFETY: It is written, by an init or above.
        let head = unsafe { ((*place).type_, (*place).nr_ops) };
        let ctx = match damage {
            Damage::Null => ptr::null_mut(),
            Damage::Tag(_) | Damage::NoOps => place,
        };
        // SAFETY: It is memory of a context.
        unsafe {
            match damage {
                Damage::Tag(tag) => (*place).type_ = tag,
                Damage::NoOps => ((*place).type_, (*place).nr_ops) = (head.0 & 3, 0),
                Damage::Null => {}
            }
        }

        let before = (self.state.held(), self.state.chains);
        let qp: *mut bindings::ib_qp = &mut *self.state.qp;
        let cqe: *mut bindings::ib_cqe = &mut *self.state.cqe;
        let wr = self.state.caller_wr();
        let port = self.state.config.port;
        let is_right = match call {
            // SAFETY: What is no context is not looked at but for its head.
            Call::Wrs => ptr::eq(unsafe { (api.wrs)(ctx, qp, port, cqe, wr) }, wr),
            // SAFETY: As above.
            Call::Post => unsafe { (api.post)(ctx, qp, port, cqe, wr) == EINVAL.to_errno() },
            Call::Destroy(form) => {
                self.destroy_as(ctx, i, form, None, api);
                true
            }
        };

        // SAFETY: As above.
        unsafe { ((*place).type_, (*place).nr_ops) = head };
        if !is_right || (self.state.held(), self.state.chains) != before {
            self.wrong("something came of what is no context");
        }
    }
}
