// SPDX-License-Identifier: GPL-2.0

//! Calls that size queues and fill pools.

use core::mem::MaybeUninit;
use core::ptr;

use crate::api::Api;
use crate::bindings;
use crate::differential_case::{
    Case,
    Config, //
};
use crate::differential_deviations::{
    d2,
    d3,
    rounds_up_past_32_bits,
    D, //
};
use crate::differential_run::Runner;
use crate::differential_trace::Label;

/// What a count of 32 bits ends at.
const NO_MORE: u64 = u32::MAX as u64;

impl Runner {
    pub(crate) fn mr_factor(&mut self, case: &Case, max_pages: u32, api: &Api, referee: bool) {
        let uses_mrs = self.uses_mrs(&case.config, false);
        let limit = if uses_mrs {
            case.config.mr_pages
        } else {
            case.config.max_sge_rd
        };

        if referee && d2(limit) {
            self.count(D::D2);
            self.state.attrs().max_fast_reg_page_list_len = case.config.mr_pages.max(1);
            self.state.attrs().max_sge_rd = case.config.max_sge_rd.max(1);
        }
        let by = if uses_mrs { limit.min(256) } else { limit }.max(1);
        let nr = if referee && rounds_up_past_32_bits(max_pages, by) {
            self.count(D::RoundsUp);
            max_pages.div_ceil(by)
        } else {
            // SAFETY: The device is valid.
            unsafe { (api.mr_factor)(self.device(), case.config.port, max_pages) }
        };
        if nr != max_pages.div_ceil(by) {
            self.wrong("another number of MRs than the pages need");
        }
        self.note(Label::Return, nr.into());
        self.state.attrs().max_fast_reg_page_list_len = case.config.mr_pages;
        self.state.attrs().max_sge_rd = case.config.max_sge_rd;
    }

    /// Whether contexts of a QP may use MRs, and its queue has room for that.
    fn uses_mrs(&self, config: &Config, integrity: bool) -> bool {
        integrity || config.speaks_iwarp() || config.max_sgl_rd != 0 || self.ground.force_mr
    }

    /// Entries of a send queue that so many contexts take, in a number without an end.
    fn send_wrs(&self, config: &Config, ctxs: u32, integrity: bool) -> u64 {
        let each = if self.uses_mrs(config, integrity) {
            3
        } else {
            1
        };

        u64::from(ctxs) * each
    }

    pub(crate) fn max_send_wr(&mut self, case: &Case, ctxs: u32, integrity: bool, api: &Api) {
        let flags = create_flags(integrity);
        // SAFETY: The device is valid.
        let nr = unsafe { (api.max_send_wr)(self.device(), case.config.port, ctxs, flags) };

        if u64::from(nr) != self.send_wrs(&case.config, ctxs, integrity).min(NO_MORE) {
            self.wrong("another number of work requests than the contexts need");
        }
        self.note(Label::MaxSendWr, nr.into());
    }

    pub(crate) fn init_qp(
        &mut self,
        case: &Case,
        ctxs: u32,
        send_wr: u32,
        integrity: bool,
        api: &Api,
        referee: bool,
    ) {
        let Some(inner) = &api.inner else {
            return;
        };
        let mut attr = qp_attr(&case.config, ctxs, integrity);
        attr.cap.max_send_wr = send_wr;

        let all = u64::from(send_wr) + self.send_wrs(&case.config, ctxs, integrity);
        if referee && d3(all) {
            self.count(D::D3);
            attr.cap.max_send_wr = case.config.max_qp_wr;
        } else {
            // SAFETY: The device and the attributes are valid.
            unsafe { (inner.init_qp)(self.device(), &mut attr) };
        }
        if u64::from(attr.cap.max_send_wr) != all.min(case.config.max_qp_wr.into()) {
            self.wrong("the send queue has another size than its contexts need");
        }
        self.note(Label::MaxSendWr, attr.cap.max_send_wr.into());
    }

    pub(crate) fn pools(
        &mut self,
        case: &Case,
        ctxs: u32,
        integrity: bool,
        bad: u8,
        api: &Api,
        referee: bool,
    ) {
        let Some(inner) = &api.inner else {
            return;
        };
        let mut attr = qp_attr(&case.config, ctxs, integrity);
        let limit = if integrity {
            case.config.pi_pages
        } else {
            case.config.mr_pages
        };

        if referee && d2(limit) {
            self.count(D::D2);
            self.state.attrs().max_fast_reg_page_list_len = case.config.mr_pages.max(1);
            self.state.attrs().max_pi_fast_reg_page_list_len = case.config.pi_pages.max(1);
        }
        if bad != u8::MAX {
            self.state.bad_alloc = bad.into();
        }

        let qp: *mut bindings::ib_qp = &mut *self.state.other_qp;
        // SAFETY: The QP and the attributes are valid, and no context has an MR of it.
        unsafe {
            let ret = (inner.init_mrs)(qp, &mut attr);
            self.note(Label::Return, ret as u64);
            (inner.cleanup_mrs)(qp);
            self.note(Label::MrsUsed, (*qp).mrs_used as u64);
            if !ptr::eq((*qp).rdma_mrs.next, &raw const (*qp).rdma_mrs)
                || !ptr::eq((*qp).sig_mrs.next, &raw const (*qp).sig_mrs)
            {
                self.wrong("a pool was not emptied");
            }
            if self.state.allocated != 0 {
                self.wrong("an MR was not freed, or one too many");
            }
        }
        self.state.bad_alloc = u32::MAX;
        self.state.attrs().max_fast_reg_page_list_len = case.config.mr_pages;
        self.state.attrs().max_pi_fast_reg_page_list_len = case.config.pi_pages;
    }
}

pub(crate) fn create_flags(integrity: bool) -> u32 {
    if integrity {
        bindings::ib_qp_create_flags_IB_QP_CREATE_INTEGRITY_EN as u32
    } else {
        0
    }
}

pub(crate) fn qp_attr(config: &Config, ctxs: u32, integrity: bool) -> bindings::ib_qp_init_attr {
    // SAFETY: Numbers and pointers alone.
    let mut attr: bindings::ib_qp_init_attr = unsafe { MaybeUninit::zeroed().assume_init() };

    attr.cap.max_rdma_ctxs = ctxs;
    attr.create_flags = create_flags(integrity);
    attr.port_num = config.port;
    attr
}
