// SPDX-License-Identifier: GPL-2.0

//! Runs a case through one side, and compares the sides.

use core::mem::{
    swap,
    MaybeUninit, //
};
use core::ptr;

use kernel::prelude::*;

use crate::api::{
    Api,
    EXPORTED,
    REFEREE, //
};
use crate::bindings;
use crate::differential_case::{
    Case,
    Config,
    End,
    Entry,
    Form,
    Ground,
    Init,
    Op, //
    SLOTS,
};
use crate::differential_deviations::{
    d10,
    d5,
    d6,
    d8,
    Kind,
    Needed, //
    D,
};
use crate::differential_device::{
    State, //
    PORT,
    REMOTE_KEY,
};
use crate::differential_referee::Alone;
use crate::differential_slot::{
    direction,
    write_bvec,
    write_list,
    Slot, //
};
use crate::differential_trace::{
    Label,
    Trace, //
};
use crate::hostile_oracle::abuse_attrs;

/// Names of the paths, by the tag of a context.
pub(crate) const PATHS: [&str; 5] = ["single", "multi", "MR", "signature", "IOVA"];

/// What has been reached.
#[derive(Clone, Copy)]
pub(crate) struct Reached {
    /// Contexts, by READ and WRITE and by path.
    pub(crate) paths: [[u64; PATHS.len()]; 2],
    /// Inits that failed, by error: EIO, EAGAIN, ENOMEM, EINVAL, other.
    pub(crate) errors: [u64; 5],
    /// Cases and calls that a predicate amended.
    pub(crate) amended: [u64; D::NR],
    /// Cases in which the comparison ended early.
    pub(crate) alone: u64,
    /// Calls.
    pub(crate) calls: u64,
}

impl Reached {
    pub(crate) const fn new() -> Self {
        Self {
            paths: [[0; PATHS.len()]; 2],
            errors: [0; 5],
            amended: [0; D::NR],
            alone: 0,
            calls: 0,
        }
    }
}

/// What is wrong.
#[derive(Clone, Copy)]
pub(crate) enum Finding {
    /// The sides differ at a place of their traces.
    Differ(usize),
    /// The side alone, the C one or not, does what it must not do, in a call.
    Wrong {
        referee: bool,
        call: usize,
        what: &'static str,
    },
}

/// Both sides, and what they run on.
pub(crate) struct Runner {
    pub(crate) state: KBox<State>,
    pub(crate) ground: Ground,
    pub(crate) slots: [Slot; SLOTS],
    pub(crate) reached: Reached,
    /// Trace of what ib_core has; that of the referee is the device's.
    pub(crate) exported: Trace,
    /// The call that runs.
    pub(crate) call: usize,
    pub(crate) wrong: Option<(usize, &'static str)>,
    pub(crate) attrs: KBox<bindings::ib_sig_attrs>,
    /// Counting is on.
    pub(crate) counting: bool,
    /// Cases are of callers who break the rules, and run through what ib_core has alone.
    pub(crate) hostile: bool,
}

/// A pointer, or null in its place.
fn or_null<T>(pointer: *mut T, null: bool) -> *mut T {
    if null {
        ptr::null_mut()
    } else {
        pointer
    }
}

impl Runner {
    pub(crate) fn new(hostile: bool) -> Result<KBox<Self>> {
        let mut state = State::new()?;
        let mut ground = state.ground();

        // Only force_mr makes a context of such a device take three work requests.
        state.reset(&Config::NEW, false);
        // SAFETY: The device is valid.
        let nr = unsafe { bindings::rdma_rw_max_send_wr(&mut (*state.device).raw, PORT, 1, 0) };
        ground.force_mr = nr == 3;
        // SAFETY: There is nothing to be wrong.
        unsafe { bindings::rdma_rw_referee_set_force_mr(ground.force_mr) };

        // SAFETY: All zeroes are a value.
        let attrs: bindings::ib_sig_attrs = unsafe { MaybeUninit::zeroed().assume_init() };
        Ok(KBox::new(
            Self {
                state,
                ground,
                slots: [Slot::new()?, Slot::new()?, Slot::new()?],
                reached: Reached::new(),
                exported: Trace::new()?,
                call: 0,
                wrong: None,
                attrs: KBox::new(attrs, GFP_KERNEL)?,
                counting: false,
                hostile,
            },
            GFP_KERNEL,
        )?)
    }

    /// Runs a case through both sides, or through the one that is to stand it.
    pub(crate) fn check(&mut self, case: &Case) -> Option<Finding> {
        // This side is never the one that is left.
        self.run(case, false);
        if let Some((call, what)) = self.wrong {
            return Some(Finding::Wrong {
                referee: false,
                call,
                what,
            });
        }
        if self.hostile {
            return None;
        }
        swap(&mut self.exported, &mut self.state.trace);

        let alone = self.run(case, true);
        if let Some((call, what)) = self.wrong {
            return Some(Finding::Wrong {
                referee: true,
                call,
                what,
            });
        }
        let theirs = &self.state.trace;
        if let Some(at) = self
            .exported
            .difference(theirs, alone.as_ref().map(|_| theirs.len()))
        {
            return Some(Finding::Differ(at));
        }

        if let Some(alone) = alone {
            let ret = (theirs.len()..self.exported.len())
                .filter_map(|i| self.exported.get(i))
                .find(|(label, _)| *label == Label::Return);

            if ret != Some((Label::Return, alone.ret as u64)) {
                return Some(Finding::Differ(theirs.len()));
            }
        }
        None
    }

    pub(crate) fn count(&mut self, d: D) {
        if self.counting {
            self.reached.amended[d as usize] += 1;
        }
    }

    /// Something is as it must not be.
    pub(crate) fn wrong(&mut self, what: &'static str) {
        if self.wrong.is_none() {
            self.wrong = Some((self.call, what));
        }
    }

    pub(crate) fn note(&mut self, label: Label, value: u64) {
        self.state.trace.add(label, value);
    }

    pub(crate) fn run(&mut self, case: &Case, referee: bool) -> Option<Alone> {
        let api = if referee { &REFEREE } else { &EXPORTED };
        let mut alone = None;

        self.wrong = None;
        self.state.reset(&case.config, referee);
        self.state.trace.muted = self.hostile;
        self.state.stale_keys = 0;
        for slot in &mut self.slots {
            slot.live = false;
        }

        for (call, op) in case.ops().iter().enumerate() {
            self.call = call;
            self.note(Label::Call, call as u64);
            if self.counting && !referee {
                self.reached.calls += 1;
            }
            if let Err(end) = self.step(case, op, api, referee) {
                alone = Some(end);
                break;
            }
        }

        // What a case leaves behind goes, as what it is.
        self.call = case.nr_ops;
        self.state.trace.muted |= alone.is_some();
        self.note(Label::Call, case.nr_ops as u64);
        for i in 0..SLOTS {
            let form = self.slots[i].init.form;
            if self.slots[i].live {
                self.destroy(i, form, None, api, referee);
            }
        }
        if self.state.qp.mrs_used != 0 {
            self.wrong("MRs have not gone back to their pools");
        }
        if !self.state.pools_are_whole() {
            self.wrong("MRs are missing in their pools, or too many");
        }
        if self.state.mapped() != 0 {
            self.wrong("something is still mapped");
        }
        if self.state.iommu.misused {
            self.wrong("something was unmapped that was not mapped so");
        }
        if self.state.trace.full {
            self.wrong("the trace is too long");
        }
        if referee && self.state.stale_keys != 0 {
            self.count(D::D4);
        }
        if alone.is_some() && self.counting {
            self.reached.alone += 1;
        }
        alone
    }

    pub(crate) fn step(
        &mut self,
        case: &Case,
        op: &Op,
        api: &'static Api,
        referee: bool,
    ) -> Result<(), Alone> {
        match *op {
            Op::Init(ref init) => {
                // A context that is still alive is not written over.
                if !self.slots[init.slot as usize].live {
                    self.init(case, init, api, referee)?;
                }
            }
            Op::Wrs { slot, end, run } => {
                if self.slots[slot as usize].live {
                    self.wrs(case, slot as usize, end, run, api, referee);
                }
            }
            Op::Post {
                slot,
                end,
                stop,
                says,
            } => {
                if self.slots[slot as usize].live {
                    let stop = stop.map(|stop| (stop as usize, says));
                    self.post(case, slot as usize, end, stop, api, referee);
                }
            }
            Op::Destroy {
                slot,
                form,
                direction,
            } => {
                if self.slots[slot as usize].live {
                    self.destroy(slot as usize, form, direction, api, referee);
                }
            }
            Op::NoContext { slot, damage, call } => {
                self.no_context(slot as usize, damage, call, api);
            }
            Op::MrFactor { max_pages } => self.mr_factor(case, max_pages, api, referee),
            Op::MaxSendWr { ctxs, integrity } => self.max_send_wr(case, ctxs, integrity, api),
            Op::InitQp {
                ctxs,
                send_wr,
                integrity,
            } => self.init_qp(case, ctxs, send_wr, integrity, api, referee),
            Op::Pools {
                ctxs,
                integrity,
                bad,
            } => self.pools(case, ctxs, integrity, bad, api, referee),
        }
        Ok(())
    }

    pub(crate) fn device(&mut self) -> *mut bindings::ib_device {
        // SAFETY: The device is valid.
        unsafe { &mut (*self.state.device).raw }
    }

    pub(crate) fn init(
        &mut self,
        case: &Case,
        init: &Init,
        api: &'static Api,
        referee: bool,
    ) -> Result<(), Alone> {
        let i = init.slot as usize;
        let list = case.list(init);
        let slot = &mut self.slots[i];
        let pages = self.state.page(i);

        slot.init = *init;
        slot.kind = None;
        slot.head = ptr::null_mut();
        slot.goes_on = false;
        slot.bvec_first = 0;
        slot.bvec_count = list.len();
        slot.addrs = [0; 4];
        match init.form {
            Form::Bvec => write_bvec(&mut slot.bvecs, pages, list),
            Form::Sg | Form::Signature => {
                write_list(&mut slot.sg, pages, list, init.table.into());
            }
        }
        write_list(&mut slot.prot, pages, case.prot(init), init.table.into());
        // A context need not be initialised.
        // SAFETY: It is memory of that size.
        unsafe { ptr::write_bytes(slot.ctx.as_mut_ptr(), 0xaa, 1) };
        self.state.set_window(i, init.remote);
        let held = self.state.held();

        let ret = if referee {
            self.referee_init(case, i)?
        } else {
            // What is mapped of an array before its end is found does not count.
            let short = !self.hostile && init.form == Form::Bvec && Needed::of(list, init).short;
            let mark = self.state.mark();
            if short {
                self.state.dma_maps = u32::MAX / 2;
            }
            let ret = self.call_init(api, i);
            if short {
                self.state.rewind(mark);
            }
            ret
        };
        self.note(Label::Return, ret as u64);
        if ret <= 0 && self.state.held() != held {
            self.wrong("an init that was refused has left something behind");
        }
        if self.hostile {
            self.judge(case, i, ret);
        }

        if ret > 0 {
            let slot = &mut self.slots[i];
            let tag = slot.tag();
            let nr_ops = slot.nr_ops();

            slot.live = true;
            slot.promised = Some(ret as u32);
            if tag as usize >= PATHS.len() {
                self.wrong("the context has no known type");
                return Ok(());
            }
            // What is made for another port is not for this one.
            slot.expect = case.config.speaks_iwarp() == case.config.iwarp
                && slot.regs().iter().all(|reg| {
                    // SAFETY: The MRs of a context are ours.
                    unsafe { State::is_consistent(reg.mr) }
                });
            let exact = init.form != Form::Bvec || !d8(list, init, &Needed::of(list, init));
            if exact {
                self.note(Label::Type, tag.into());
            }
            self.note(Label::NrOps, nr_ops.into());
            for reg in 0..self.slots[i].regs().len() {
                // SAFETY: As above.
                let mr = unsafe { State::mr_index(self.slots[i].regs()[reg].mr) };
                self.note(Label::Mr, mr.into());
            }
            if self.counting && !referee {
                self.reached.paths[usize::from(init.read)][tag as usize] += 1;
            }
        } else if self.counting && !referee {
            let at = match Error::from_errno(ret) {
                e if e == EIO => 0,
                e if e == EAGAIN => 1,
                e if e == ENOMEM => 2,
                e if e == EINVAL => 3,
                _ => 4,
            };
            self.reached.errors[at] += 1;
        }
        if ret == 0 {
            self.wrong("init returned 0");
        }
        self.state.note_mrs();
        Ok(())
    }

    /// The init of one side, with the input of the case.
    pub(crate) fn call_init(&mut self, api: &Api, i: usize) -> i32 {
        let qp: *mut bindings::ib_qp = &mut *self.state.qp;
        let port = self.state.config.port;
        let slot = &mut self.slots[i];
        let init = &slot.init;
        let ctx = slot.ctx.as_mut_ptr();
        let dir = init.abuse.direction.unwrap_or(direction(init.read));
        let rkey = REMOTE_KEY + i as u32;
        let sg = or_null(slot.sg.as_mut_ptr(), init.abuse.no_list);
        let prot = or_null(slot.prot.as_mut_ptr(), init.abuse.no_prot);

        // SAFETY: Everything is valid and outlives the context, but for what is null. No list has
        // fewer entries than its number says, unless that is more than an `int` holds.
        unsafe {
            match init.form {
                Form::Sg => (api.init)(
                    ctx,
                    qp,
                    port,
                    sg,
                    init.told_count(),
                    init.offset,
                    init.remote,
                    rkey,
                    dir,
                ),
                Form::Bvec => (api.init_bvec)(
                    ctx,
                    qp,
                    port,
                    or_null(
                        slot.bvecs.as_mut_ptr().add(slot.bvec_first),
                        init.abuse.no_list,
                    ),
                    init.abuse.count.unwrap_or(slot.bvec_count as u32),
                    bindings::bvec_iter {
                        bi_sector: 0,
                        bi_size: init.size,
                        bi_idx: init.idx,
                        bi_offset: init.offset,
                    },
                    init.remote,
                    rkey,
                    dir,
                ),
                Form::Signature => {
                    let attrs = &mut *self.attrs;

                    attrs.check_mask = 0xf0 | i as u8;
                    attrs.mem.sig_type = bindings::ib_signature_type_IB_SIG_TYPE_T10_DIF;
                    attrs.mem.sig.dif.ref_tag = init.remote as u32;
                    attrs.wire.sig_type = if init.strip {
                        bindings::ib_signature_type_IB_SIG_TYPE_NONE
                    } else {
                        bindings::ib_signature_type_IB_SIG_TYPE_T10_DIF
                    };
                    attrs.wire.sig.dif.pi_interval = init.first;
                    attrs.meta_length = -1;
                    if init.abuse.attrs != 0 {
                        abuse_attrs(attrs, init);
                    }
                    (api.signature_init)(
                        ctx,
                        qp,
                        port,
                        sg,
                        init.told_count(),
                        prot,
                        init.told_prot_count(),
                        or_null(attrs, init.abuse.no_attrs),
                        init.remote,
                        rkey,
                        dir,
                    )
                }
            }
        }
    }

    /// SGEs that a work request of the QP may have.
    pub(crate) fn max_sge(&mut self, read: bool) -> &mut u32 {
        if read {
            &mut self.state.qp.max_read_sge
        } else {
            &mut self.state.qp.max_write_sge
        }
    }

    /// Whether a transfer must use MRs.
    pub(crate) fn requires_mr(&self, case: &Case, init: &Init) -> bool {
        self.ground.force_mr || (init.read && case.config.speaks_iwarp())
    }

    /// Calls a function for each of them.
    pub(crate) fn each_piece(
        case: &Case,
        init: &Init,
        needed: &Needed,
        mut each: impl FnMut(Entry),
    ) {
        let mut offset = needed.offset;
        let mut left = init.size;

        for entry in &case.list(init)[needed.first..needed.end] {
            let len = (entry.len - offset).min(left);

            if len != 0 {
                each(Entry {
                    start: entry.start + u64::from(offset),
                    len,
                });
            }
            offset = 0;
            left -= len;
        }
    }

    /// Calls a function for each piece of local memory that a context moves, in order.
    pub(crate) fn each_moved(&self, case: &Case, i: usize, mut each: impl FnMut(Entry)) {
        let init = &self.slots[i].init;
        let list = case.list(init);

        match init.form {
            Form::Sg => {
                let mut skip = init.offset;

                for entry in case.told(init) {
                    if skip >= entry.len {
                        skip -= entry.len;
                        continue;
                    }
                    each(Entry {
                        start: entry.start + u64::from(skip),
                        len: entry.len - skip,
                    });
                    skip = 0;
                }
            }
            Form::Bvec => Self::each_piece(case, init, &Needed::of(list, init), each),
            Form::Signature => {
                list.iter().copied().for_each(&mut each);
                if !init.strip {
                    case.prot(init).iter().copied().for_each(each);
                }
            }
        }
    }

    /// Makes what a context is to write something else.
    pub(crate) fn prepare(&mut self, case: &Case, i: usize) {
        if self.slots[i].init.huge {
            return;
        }
        let mut len = 0;
        if self.slots[i].init.read {
            let mut ranges = KVec::new();

            self.each_moved(case, i, |entry| {
                let _ = ranges.push(entry, GFP_KERNEL);
            });
            for entry in &ranges {
                self.state.clear_local(i, entry.start, entry.len.into());
            }
        } else {
            self.each_moved(case, i, |entry| len += u64::from(entry.len));
            self.state.clear_target(i, len);
        }
        self.state.moved(i);
    }

    /// All bytes of a context have arrived, and no others were moved.
    pub(crate) fn verify(&mut self, case: &Case, i: usize) {
        let read = self.slots[i].init.read;
        let moved = self.state.moved(i);
        let mut at = 0u64;
        let mut same = true;

        if self.slots[i].init.huge {
            return;
        }
        self.each_moved(case, i, |entry| {
            let len = u64::from(entry.len);
            let remote = if read {
                self.state.source()
            } else {
                self.state.target(i)
            };

            same &= remote.get(at as usize..(at + len) as usize)
                == Some(self.state.local(i, entry.start, len));
            at += len;
        });
        if !same {
            self.wrong("other bytes have arrived than were sent");
        }
        if moved != at {
            self.wrong("more or fewer bytes were moved than asked for");
        }
    }

    /// What stands at the end of a chain: an entry, a work request, and the context that is the
    /// work request's, if any.
    pub(crate) fn end(
        &mut self,
        i: usize,
        end: End,
    ) -> (
        *mut bindings::ib_cqe,
        *mut bindings::ib_send_wr,
        Kind,
        Option<usize>,
    ) {
        let cqe: *mut bindings::ib_cqe = &mut *self.state.cqe;
        let none: *mut bindings::ib_send_wr = ptr::null_mut();

        match end {
            End::Slot(other) => {
                let other = other as usize;
                let slot = &self.slots[other];

                if other != i
                    && slot.live
                    && !slot.init.huge
                    && !slot.head.is_null()
                    && !slot.goes_on
                {
                    (none.cast(), slot.head, Kind::Wr, Some(other))
                } else {
                    (cqe, none, Kind::Cqe, None)
                }
            }
            End::Cqe => (cqe, none, Kind::Cqe, None),
            End::Wr { cqe: true } => (cqe, self.state.caller_wr(), Kind::Wr, None),
            End::Wr { cqe: false } => (none.cast(), self.state.caller_wr(), Kind::Wr, None),
            End::Nothing => (none.cast(), none, Kind::Nothing, None),
        }
    }

    pub(crate) fn wrs(
        &mut self,
        case: &Case,
        i: usize,
        end: End,
        run: bool,
        api: &Api,
        referee: bool,
    ) {
        let (cqe, wr, kind, other) = self.end(i, end);

        if referee {
            self.amend_end(i, kind);
        }
        let qp: *mut bindings::ib_qp = &mut *self.state.qp;
        let ctx = self.slots[i].ctx.as_mut_ptr();
        // SAFETY: The context is alive, and all else valid.
        let head = unsafe { (api.wrs)(ctx, qp, case.config.port, cqe, wr) };
        if referee && d6(!cqe.is_null(), !wr.is_null()) {
            self.count(D::D6);
            // SAFETY: The context is alive.
            unsafe { (*self.slots[i].last()).send_flags = 0 };
        }

        let slot = &mut self.slots[i];
        slot.kind = Some(kind);
        slot.head = head;
        slot.goes_on = other.is_some();
        self.state.end = wr;
        self.state.note_chain(head);
        self.state.end = ptr::null();
        if self.slots[i]
            .promised
            .is_some_and(|nr| nr != self.state.count)
        {
            self.wrong("the chain is not as long as init has promised");
        }
        if other.is_none() {
            self.remember(i);
        }

        if run && !self.slots[i].init.huge {
            self.prepare(case, i);
            if let Some(other) = other {
                self.prepare(case, other);
            }
            if let Some(other) = other {
                // One that the device does not like spoils the other.
                let both = self.slots[i].expect && self.slots[other].expect;

                self.slots[i].expect = both;
                self.slots[other].expect = both;
            }
            self.state.fine = true;
            self.state.run(head, usize::MAX);
            self.done(case, i);
            if let Some(other) = other {
                self.done(case, other);
            }
        }
        self.state.note_mrs();
    }

    /// The device has run a context.
    pub(crate) fn done(&mut self, case: &Case, i: usize) {
        let expect = core::mem::take(&mut self.slots[i].expect);

        if self.state.fine {
            self.verify(case, i);
        } else if expect {
            self.wrong("the device does not like the chain");
        }
    }

    /// Remembers addresses that the device is given, to see them go.
    pub(crate) fn remember(&mut self, i: usize) {
        let mut wr = self.slots[i].head;
        for k in 0..self.slots[i].addrs.len() {
            // SAFETY: A chain has valid work requests, with so many SGEs.
            unsafe {
                let addr = match wr.as_ref() {
                    None => break,
                    Some(wr) if wr.num_sge > 0 && !wr.sg_list.is_null() => (*wr.sg_list).addr,
                    Some(_) => 0,
                };
                self.slots[i].addrs[k] = addr;
                wr = (*wr).next;
            }
        }
    }

    pub(crate) fn post(
        &mut self,
        case: &Case,
        i: usize,
        end: End,
        stop: Option<(usize, bool)>,
        api: &Api,
        referee: bool,
    ) {
        let end = match end {
            // The other context would not know that it was not posted.
            End::Slot(_) => End::Wr { cqe: false },
            end => end,
        };
        let (cqe, wr, kind, _) = self.end(i, end);

        if self.slots[i].init.huge {
            return;
        }
        if referee && d6(!cqe.is_null(), !wr.is_null()) {
            self.count(D::D6);
            self.note(Label::Return, EINVAL.to_errno() as u64);
            self.state.note_mrs();
            return;
        }
        if referee {
            self.amend_end(i, kind);
        }

        // What is registered before, by the chain.
        let mut before = KVec::new();
        for reg in self.slots[i].regs() {
            // SAFETY: The MRs of a context are valid.
            let state = unsafe { ((*reg.mr).lkey, !reg.inv_wr.next.is_null()) };
            if before.push(state, GFP_KERNEL).is_err() {
                self.wrong("no memory");
                return;
            }
        }

        self.prepare(case, i);
        self.state.stop = stop;
        self.state.end = wr;
        self.state.fine = true;
        let qp: *mut bindings::ib_qp = &mut *self.state.qp;
        let ctx = self.slots[i].ctx.as_mut_ptr();
        // SAFETY: The context is alive, and all else valid.
        let ret = unsafe { (api.post)(ctx, qp, case.config.port, cqe, wr) };
        self.state.stop = None;
        self.state.end = ptr::null();
        self.note(Label::Return, ret as u64);
        if !d6(!cqe.is_null(), !wr.is_null()) {
            self.slots[i].kind = Some(kind);
            self.slots[i].head = ptr::null_mut();
        }

        if ret == 0 {
            self.done(case, i);
        } else if !before.is_empty() {
            // What is registered by now has to be invalidated the next time.
            self.slots[i].promised = None;
            if referee && d5(ret, before.len()) {
                self.count(D::D5);
                let posted = stop.map_or(0, |(stop, says)| if says { stop } else { 0 });
                self.amend_post(i, &before, posted);
            }
        }
        self.state.note_mrs();
    }

    pub(crate) fn destroy(
        &mut self,
        i: usize,
        form: Form,
        direction: Option<u32>,
        api: &Api,
        referee: bool,
    ) {
        let init = self.slots[i].init;

        if d10(&init, form) && referee {
            self.count(D::D10);
        }
        let ctx = self.slots[i].ctx.as_mut_ptr();
        let form = if referee { init.form } else { form };
        self.destroy_as(ctx, i, form, direction, api);
        self.slots[i].live = false;
        self.slots[i].head = ptr::null_mut();

        for addr in self.slots[i].addrs {
            if addr != 0 && self.state.is_mapped(addr) {
                self.wrong("memory is still mapped");
            }
        }
        self.note(Label::Mapped, self.state.mapped() as u64);
        self.state.note_mrs();
        self.state.note_pools();
    }

    /// Destroys the context of a slot, or hands what is none over to a destroy, as some form.
    pub(crate) fn destroy_as(
        &mut self,
        ctx: *mut bindings::rdma_rw_ctx,
        i: usize,
        form: Form,
        none: Option<u32>,
        api: &Api,
    ) {
        let qp: *mut bindings::ib_qp = &mut *self.state.qp;
        let port = self.state.config.port;
        let slot = &mut self.slots[i];
        let init = &slot.init;
        let dir = none.unwrap_or(direction(init.read));
        // A destroy of another form is told whatever is at hand.
        let nr_sg = match init.form {
            Form::Sg | Form::Signature => init.told_count(),
            Form::Bvec => 1,
        };

        // SAFETY: The context is alive, or known as none.
        unsafe {
            match form {
                Form::Sg => (api.destroy)(ctx, qp, port, slot.sg.as_mut_ptr(), nr_sg, dir),
                Form::Bvec => (api.destroy_bvec)(
                    ctx,
                    qp,
                    port,
                    slot.bvecs.as_ptr().add(slot.bvec_first),
                    slot.bvec_count as u32,
                    dir,
                ),
                Form::Signature => (api.destroy_signature)(
                    ctx,
                    qp,
                    port,
                    slot.sg.as_mut_ptr(),
                    nr_sg,
                    slot.prot.as_mut_ptr(),
                    init.prot.into(),
                    dir,
                ),
            }
        }
    }
}
