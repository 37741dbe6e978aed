// SPDX-License-Identifier: GPL-2.0

//! Runs a case through one side, and compares the sides.

use core::mem::{
    swap,
    MaybeUninit, //
};
use core::ptr;

use kernel::prelude::*;

use crate::bindings;
use crate::differential_case::{
    Case,
    Config,
    End,
    Entry,
    Form,
    Ground,
    Init,
    Op,
    MAX_ENTRIES,
    PAGE,
    SLOTS, //
};
use crate::differential_deviations::{
    d1,
    d10,
    d13,
    d15,
    d2,
    d3,
    d5,
    d6,
    d7,
    d8,
    d9,
    fills_pages,
    misfit,
    mrs_needed,
    rounds_up_past_32_bits,
    Kind,
    Misfit,
    Needed,
    Segment,
    D, //
};
use crate::differential_device::{
    next_entry,
    State,
    PORT,
    REMOTE_KEY, //
};
use crate::differential_trace::{
    Label,
    Trace, //
};

/// A registration of a context.
type RegCtx = bindings::rdma_rw_ctx__bindgen_ty_1_rdma_rw_reg_ctx;

/// One implementation.
struct Api {
    init: unsafe extern "C" fn(
        *mut bindings::rdma_rw_ctx,
        *mut bindings::ib_qp,
        u32,
        *mut bindings::scatterlist,
        u32,
        u32,
        u64,
        u32,
        bindings::dma_data_direction,
    ) -> c_int,
    init_bvec: unsafe extern "C" fn(
        *mut bindings::rdma_rw_ctx,
        *mut bindings::ib_qp,
        u32,
        *const bindings::bio_vec,
        u32,
        bindings::bvec_iter,
        u64,
        u32,
        bindings::dma_data_direction,
    ) -> c_int,
    signature_init: unsafe extern "C" fn(
        *mut bindings::rdma_rw_ctx,
        *mut bindings::ib_qp,
        u32,
        *mut bindings::scatterlist,
        u32,
        *mut bindings::scatterlist,
        u32,
        *mut bindings::ib_sig_attrs,
        u64,
        u32,
        bindings::dma_data_direction,
    ) -> c_int,
    wrs: unsafe extern "C" fn(
        *mut bindings::rdma_rw_ctx,
        *mut bindings::ib_qp,
        u32,
        *mut bindings::ib_cqe,
        *mut bindings::ib_send_wr,
    ) -> *mut bindings::ib_send_wr,
    post: unsafe extern "C" fn(
        *mut bindings::rdma_rw_ctx,
        *mut bindings::ib_qp,
        u32,
        *mut bindings::ib_cqe,
        *mut bindings::ib_send_wr,
    ) -> c_int,
    destroy: unsafe extern "C" fn(
        *mut bindings::rdma_rw_ctx,
        *mut bindings::ib_qp,
        u32,
        *mut bindings::scatterlist,
        u32,
        bindings::dma_data_direction,
    ),
    destroy_bvec: unsafe extern "C" fn(
        *mut bindings::rdma_rw_ctx,
        *mut bindings::ib_qp,
        u32,
        *const bindings::bio_vec,
        u32,
        bindings::dma_data_direction,
    ),
    destroy_signature: unsafe extern "C" fn(
        *mut bindings::rdma_rw_ctx,
        *mut bindings::ib_qp,
        u32,
        *mut bindings::scatterlist,
        u32,
        *mut bindings::scatterlist,
        u32,
        bindings::dma_data_direction,
    ),
    mr_factor: unsafe extern "C" fn(*mut bindings::ib_device, u32, u32) -> u32,
    max_send_wr: unsafe extern "C" fn(*mut bindings::ib_device, u32, u32, u32) -> u32,
    inner: Option<Inner>,
}

/// Functions that are not exported.
struct Inner {
    init_qp: unsafe extern "C" fn(*mut bindings::ib_device, *mut bindings::ib_qp_init_attr),
    init_mrs: unsafe extern "C" fn(*mut bindings::ib_qp, *mut bindings::ib_qp_init_attr) -> c_int,
    cleanup_mrs: unsafe extern "C" fn(*mut bindings::ib_qp),
}

/// What ib_core has.
static EXPORTED: Api = Api {
    init: bindings::rdma_rw_ctx_init,
    init_bvec: bindings::rdma_rw_ctx_init_bvec,
    signature_init: bindings::rdma_rw_ctx_signature_init,
    wrs: bindings::rdma_rw_ctx_wrs,
    post: bindings::rdma_rw_ctx_post,
    destroy: bindings::rdma_rw_ctx_destroy,
    destroy_bvec: bindings::rdma_rw_ctx_destroy_bvec,
    destroy_signature: bindings::rdma_rw_ctx_destroy_signature,
    mr_factor: bindings::rdma_rw_mr_factor,
    max_send_wr: bindings::rdma_rw_max_send_wr,
    #[cfg(not(MODULE))]
    inner: Some(Inner {
        init_qp: bindings::rdma_rw_init_qp,
        init_mrs: bindings::rdma_rw_init_mrs,
        cleanup_mrs: bindings::rdma_rw_cleanup_mrs,
    }),
    #[cfg(MODULE)]
    inner: None,
};

/// The C original.
static REFEREE: Api = Api {
    init: bindings::c_rdma_rw_ctx_init,
    init_bvec: bindings::c_rdma_rw_ctx_init_bvec,
    signature_init: bindings::c_rdma_rw_ctx_signature_init,
    wrs: bindings::c_rdma_rw_ctx_wrs,
    post: bindings::c_rdma_rw_ctx_post,
    destroy: bindings::c_rdma_rw_ctx_destroy,
    destroy_bvec: bindings::c_rdma_rw_ctx_destroy_bvec,
    destroy_signature: bindings::c_rdma_rw_ctx_destroy_signature,
    mr_factor: bindings::c_rdma_rw_mr_factor,
    max_send_wr: bindings::c_rdma_rw_max_send_wr,
    inner: Some(Inner {
        init_qp: bindings::c_rdma_rw_init_qp,
        init_mrs: bindings::c_rdma_rw_init_mrs,
        cleanup_mrs: bindings::c_rdma_rw_cleanup_mrs,
    }),
};

/// Names of the paths, by the tag of a context.
pub(crate) const PATHS: [&str; 5] = ["single", "multi", "MR", "signature", "IOVA"];
const SINGLE: u8 = 0;
const MULTI: u8 = 1;
const REGISTERED: u8 = 2;
const SIGNATURE: u8 = 3;

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

/// A context in a place of its own, and its lists.
struct Slot {
    ctx: KBox<MaybeUninit<bindings::rdma_rw_ctx>>,
    live: bool,
    init: Init,
    /// Work requests that init has promised, unless a failed post has changed that.
    promised: Option<u32>,
    /// The chain that was made last.
    head: *mut bindings::ib_send_wr,
    /// It goes on with that of another context.
    goes_on: bool,
    kind: Option<Kind>,
    /// The device is to like the first run of this context.
    expect: bool,
    sg: KVVec<bindings::scatterlist>,
    prot: KVVec<bindings::scatterlist>,
    bvecs: KVVec<bindings::bio_vec>,
    /// Entries that the C original was told, and where they start.
    bvec_first: usize,
    bvec_count: usize,
    /// Addresses that the device has been given.
    addrs: [u64; 4],
}

/// A side that has nothing to compare any more; what the other one has to return.
struct Alone {
    ret: i32,
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
    slots: [Slot; SLOTS],
    pub(crate) reached: Reached,
    /// Trace of what ib_core has; that of the referee is the device's.
    pub(crate) exported: Trace,
    /// The call that runs.
    call: usize,
    wrong: Option<(usize, &'static str)>,
    attrs: KBox<bindings::ib_sig_attrs>,
    /// Counting is on.
    pub(crate) counting: bool,
}

fn direction(read: bool) -> bindings::dma_data_direction {
    if read {
        bindings::dma_data_direction_DMA_FROM_DEVICE
    } else {
        bindings::dma_data_direction_DMA_TO_DEVICE
    }
}

impl Slot {
    fn new() -> Result<Self> {
        Ok(Self {
            ctx: KBox::new_uninit(GFP_KERNEL)?,
            live: false,
            init: Init {
                slot: 0,
                form: Form::Sg,
                read: false,
                first: 0,
                count: 0,
                surplus: 0,
                offset: 0,
                idx: 0,
                size: 0,
                prot: 0,
                strip: false,
                table: 0,
                remote: 0,
                huge: false,
            },
            promised: None,
            head: ptr::null_mut(),
            goes_on: false,
            kind: None,
            expect: false,
            sg: KVVec::with_capacity(2 * MAX_ENTRIES, GFP_KERNEL)?,
            prot: KVVec::with_capacity(2 * MAX_ENTRIES, GFP_KERNEL)?,
            bvecs: KVVec::with_capacity(MAX_ENTRIES + 1, GFP_KERNEL)?,
            bvec_first: 0,
            bvec_count: 0,
            addrs: [0; 4],
        })
    }

    fn tag(&self) -> u8 {
        // SAFETY: Only asked for where init has written it.
        unsafe { (*self.ctx.as_ptr()).type_ }
    }

    fn nr_ops(&self) -> u32 {
        // SAFETY: As above.
        unsafe { (*self.ctx.as_ptr()).nr_ops }
    }

    /// The registrations of the context.
    fn regs(&mut self) -> &mut [RegCtx] {
        if !matches!(self.tag(), REGISTERED | SIGNATURE) {
            return &mut [];
        }
        // SAFETY: Such a context has an array of that many.
        unsafe {
            core::slice::from_raw_parts_mut(
                (*self.ctx.as_mut_ptr()).__bindgen_anon_1.reg,
                self.nr_ops() as usize,
            )
        }
    }

    /// The last work request of the context.
    fn last(&mut self) -> *mut bindings::ib_send_wr {
        let nr = self.nr_ops() as usize;
        let tag = self.tag();
        let ctx = self.ctx.as_mut_ptr();

        // SAFETY: The member of the union goes by the tag.
        unsafe {
            let union = &raw mut (*ctx).__bindgen_anon_1;

            match tag {
                SINGLE => &raw mut (*union).single.wr.wr,
                MULTI => &raw mut (*(*union).map.wrs.add(nr - 1)).wr,
                REGISTERED | SIGNATURE => &raw mut (*(*union).reg.add(nr - 1)).wr.wr,
                _ => &raw mut (*union).iova.wr.wr,
            }
        }
    }
}

/// Writes a scatterlist over entries of memory that begins at a page, in tables of `table` entries.
fn write_list(
    list: &mut KVVec<bindings::scatterlist>,
    pages: *mut bindings::page,
    entries: &[Entry],
    table: usize,
) {
    list.clear();
    for (i, entry) in entries.iter().enumerate() {
        if table != 0 && i != 0 && i % table == 0 {
            // The address of the element behind this one.
            let next = list.as_ptr().wrapping_add(list.len() + 1) as usize;

            // There is room for twice as many as there are.
            let _ = list.push_within_capacity(element(next | bindings::SG_CHAIN as usize, 0, 0));
        }
        let page = pages.wrapping_add((entry.start / PAGE) as usize) as usize;
        let _ = list.push_within_capacity(element(page, (entry.start % PAGE) as u32, entry.len));
    }
    if let Some(last) = list.last_mut() {
        last.page_link |= bindings::SG_END as usize;
    }
}

fn element(page_link: usize, offset: u32, length: u32) -> bindings::scatterlist {
    bindings::scatterlist {
        page_link,
        offset,
        length,
        // What is not mapped yet is not to be looked at.
        dma_address: 0xdead_dead_dead_0000,
        #[cfg(CONFIG_NEED_SG_DMA_LENGTH)]
        dma_length: 0xdead,
        #[cfg(CONFIG_NEED_SG_DMA_FLAGS)]
        dma_flags: 0,
    }
}

fn write_bvec(list: &mut KVVec<bindings::bio_vec>, pages: *mut bindings::page, entries: &[Entry]) {
    list.clear();
    for entry in entries {
        let _ = list.push_within_capacity(bindings::bio_vec {
            bv_page: pages.wrapping_add((entry.start / PAGE) as usize),
            bv_len: entry.len,
            bv_offset: (entry.start % PAGE) as u32,
        });
    }
}

impl Runner {
    pub(crate) fn new() -> Result<KBox<Self>> {
        let mut state = State::new()?;
        let mut ground = state.ground();

        // Only force_mr makes a context of such a device take three work requests.
        state.reset(&Config::NEW, false);
        // SAFETY: The device is valid.
        ground.force_mr =
            unsafe { bindings::rdma_rw_max_send_wr(&mut (*state.device).raw, PORT, 1, 0) == 3 };
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
            },
            GFP_KERNEL,
        )?)
    }

    /// Runs a case through both sides.
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

    fn count(&mut self, d: D) {
        if self.counting {
            self.reached.amended[d as usize] += 1;
        }
    }

    /// Something is as it must not be.
    fn wrong(&mut self, what: &'static str) {
        if self.wrong.is_none() {
            self.wrong = Some((self.call, what));
        }
    }

    fn note(&mut self, label: Label, value: u64) {
        self.state.trace.add(label, value);
    }

    fn run(&mut self, case: &Case, referee: bool) -> Option<Alone> {
        let api = if referee { &REFEREE } else { &EXPORTED };
        let mut alone = None;

        self.wrong = None;
        self.state.reset(&case.config, referee);
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
        self.state.trace.muted = alone.is_some();
        self.note(Label::Call, case.nr_ops as u64);
        for i in 0..SLOTS {
            let form = self.slots[i].init.form;
            if self.slots[i].live {
                self.destroy(i, form, api, referee);
            }
        }
        if self.state.qp.mrs_used != 0 {
            self.wrong("MRs have not gone back to their pools");
        }
        if self.state.mapped() != 0 {
            self.wrong("something is still mapped");
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

    fn step(
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
            Op::Destroy { slot, form } => {
                if self.slots[slot as usize].live {
                    self.destroy(slot as usize, form, api, referee);
                }
            }
            Op::MrFactor { max_pages } => self.mr_factor(case, max_pages, api, referee),
            Op::MaxSendWr { ctxs, integrity } => {
                // SAFETY: The device is valid.
                let nr = unsafe {
                    (api.max_send_wr)(self.device(), PORT, ctxs, create_flags(integrity))
                };
                self.note(Label::MaxSendWr, nr.into());
            }
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

    fn device(&mut self) -> *mut bindings::ib_device {
        // SAFETY: The device is valid.
        unsafe { &mut (*self.state.device).raw }
    }

    // -------------------------------------------------------------- sizing

    fn mr_factor(&mut self, case: &Case, max_pages: u32, api: &Api, referee: bool) {
        let uses_mrs = case.config.iwarp || case.config.max_sgl_rd != 0 || self.ground.force_mr;
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
            unsafe { (api.mr_factor)(self.device(), PORT, max_pages) }
        };
        self.note(Label::Return, nr.into());
        self.state.attrs().max_fast_reg_page_list_len = case.config.mr_pages;
        self.state.attrs().max_sge_rd = case.config.max_sge_rd;
    }

    fn init_qp(
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
        let mut attr = qp_attr(ctxs, integrity);
        attr.cap.max_send_wr = send_wr;

        let uses_mrs =
            integrity || case.config.iwarp || case.config.max_sgl_rd != 0 || self.ground.force_mr;
        if referee && d3(send_wr, ctxs, if uses_mrs { 3 } else { 1 }) {
            self.count(D::D3);
            attr.cap.max_send_wr = case.config.max_qp_wr;
        } else {
            // SAFETY: The device and the attributes are valid.
            unsafe { (inner.init_qp)(self.device(), &mut attr) };
        }
        self.note(Label::MaxSendWr, attr.cap.max_send_wr.into());
    }

    fn pools(&mut self, case: &Case, ctxs: u8, integrity: bool, bad: u8, api: &Api, referee: bool) {
        let Some(inner) = &api.inner else {
            return;
        };
        let mut attr = qp_attr(ctxs.into(), integrity);
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
        }
        self.state.bad_alloc = u32::MAX;
        self.state.attrs().max_fast_reg_page_list_len = case.config.mr_pages;
        self.state.attrs().max_pi_fast_reg_page_list_len = case.config.pi_pages;
    }

    // ---------------------------------------------------------------- init

    fn init(
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

        let ret = if referee {
            self.referee_init(case, i)?
        } else {
            // What is mapped of an array before its end is found does not count.
            let short = init.form == Form::Bvec && Needed::of(list, init).short;
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
            // SAFETY: The MRs of a context are ours.
            slot.expect = slot
                .regs()
                .iter()
                .all(|reg| unsafe { State::is_consistent(reg.mr) });
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
    fn call_init(&mut self, api: &Api, i: usize) -> i32 {
        let qp: *mut bindings::ib_qp = &mut *self.state.qp;
        let slot = &mut self.slots[i];
        let init = &slot.init;
        let ctx = slot.ctx.as_mut_ptr();
        let dir = direction(init.read);
        let rkey = REMOTE_KEY + i as u32;

        // SAFETY: Everything is valid and outlives the context.
        unsafe {
            match init.form {
                Form::Sg => (api.init)(
                    ctx,
                    qp,
                    PORT,
                    slot.sg.as_mut_ptr(),
                    u32::from(init.count) - u32::from(init.surplus),
                    init.offset,
                    init.remote,
                    rkey,
                    dir,
                ),
                Form::Bvec => (api.init_bvec)(
                    ctx,
                    qp,
                    PORT,
                    slot.bvecs.as_ptr().add(slot.bvec_first),
                    slot.bvec_count as u32,
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
                    (api.signature_init)(
                        ctx,
                        qp,
                        PORT,
                        slot.sg.as_mut_ptr(),
                        init.count.into(),
                        slot.prot.as_mut_ptr(),
                        init.prot.into(),
                        attrs,
                        init.remote,
                        rkey,
                        dir,
                    )
                }
            }
        }
    }

    /// SGEs that a work request of the QP may have.
    fn max_sge(&mut self, read: bool) -> &mut u32 {
        if read {
            &mut self.state.qp.max_read_sge
        } else {
            &mut self.state.qp.max_write_sge
        }
    }

    /// Whether a transfer must use MRs.
    fn requires_mr(&self, case: &Case, init: &Init) -> bool {
        self.ground.force_mr || (init.read && case.config.iwarp)
    }

    /// The init of the C original, amended where it is known to fall short.
    fn referee_init(&mut self, case: &Case, i: usize) -> Result<i32, Alone> {
        let config = &case.config;
        let init = self.slots[i].init;

        // What C divides by.
        let limit = if config.integrity {
            config.pi_pages
        } else {
            config.mr_pages
        };
        self.state.attrs().max_fast_reg_page_list_len = config.mr_pages.max(1);
        self.state.attrs().max_pi_fast_reg_page_list_len = config.pi_pages.max(1);
        let no_sge = d2(*self.max_sge(init.read));
        if no_sge && init.form == Form::Bvec && !self.requires_mr(case, &init) {
            let list = case.list(&init);
            let needed = Needed::of(list, &init);
            // A range of IOVA space needs one SGE, which is not asked for.
            let range = self.ground.real
                && list.len() > init.idx as usize + 1
                && init.size != 0
                && !needed.short
                && fills_pages(list, &needed);

            if !range {
                self.count(D::D2);
                return Ok(EINVAL.to_errno());
            }
        }
        if no_sge {
            *self.max_sge(init.read) = 1;
        }

        let mark = self.state.mark();
        let mut ret = match init.form {
            Form::Sg => self.referee_init_sg(case, i),
            Form::Bvec => self.referee_init_bvec(case, i),
            Form::Signature => Ok(self.referee_init_signature(case, i)),
        };

        if ret.is_err() {
            // The call is left to the other side, with all that it asks of the DMA layer.
            self.state.rewind(mark);
        }
        if let Ok(made) = ret {
            let direct = made > 0 && !matches!(self.slots[i].tag(), REGISTERED | SIGNATURE);

            if no_sge && direct && init.form != Form::Bvec {
                self.count(D::D2);
                self.slots[i].live = true;
                self.destroy_as(i, init.form, &REFEREE);
                self.slots[i].live = false;
                ret = Ok(EINVAL.to_errno());
            } else if d2(limit) && !direct {
                self.count(D::D2);
            }
        }

        *self.max_sge(init.read) = if init.read {
            config.read_sge
        } else {
            config.write_sge
        };
        self.state.attrs().max_fast_reg_page_list_len = config.mr_pages;
        self.state.attrs().max_pi_fast_reg_page_list_len = config.pi_pages;
        ret
    }

    fn referee_init_sg(&mut self, case: &Case, i: usize) -> Result<i32, Alone> {
        let init = self.slots[i].init;
        let list = case.list(&init);
        let told = &list[..list.len() - init.surplus as usize];

        if d1(told, init.offset) {
            self.count(D::D1);
            let list = self.slots[i].sg.as_mut_ptr();
            return Ok(self
                .with_mapped(list, told.len(), init.read, |_, _| EIO.to_errno())
                .unwrap_or_else(|e| e.to_errno()));
        }

        let mark = self.state.mark();
        let mut ret = self.call_init(&REFEREE, i);
        if ret == EINVAL.to_errno() {
            let list = self.slots[i].sg.as_mut_ptr();

            ret = self.referee_misfit(case, i, list, told.len(), init.offset, |this| {
                this.state.rewind(mark);
                this.state.attrs().max_sgl_rd = 0;
                let ret = this.call_init(&REFEREE, i);
                this.state.attrs().max_sgl_rd = case.config.max_sgl_rd;
                ret
            })?;
        }
        if ret > 0 && self.slots[i].tag() == MULTI {
            self.amend_remote(i);
        }
        Ok(ret)
    }

    /// C has found that memory cannot be registered. Returns what it should have returned, from
    /// `direct` where an MR is not a must.
    fn referee_misfit(
        &mut self,
        case: &Case,
        i: usize,
        list: *mut bindings::scatterlist,
        nents: usize,
        offset: u32,
        direct: impl FnOnce(&mut Self) -> i32,
    ) -> Result<i32, Alone> {
        let init = self.slots[i].init;
        let limit = case.config.limit().max(1) as usize;
        let mut segments = KVec::new();

        // Quietly: C has been through this.
        let mark = self.state.mark();
        self.state.trace.muted = true;
        self.state.dma_maps = u32::MAX / 2;
        let found = self.with_mapped(list, nents, init.read, |list, mapped| {
            let mut sg = list;
            let mut skip = u64::from(offset);

            for k in 0..mapped {
                // SAFETY: The list has that many mapped entries.
                let (addr, len) = unsafe { ((*sg).dma_address, u64::from(dma_len(sg))) };

                if skip < len {
                    let segment = Segment {
                        addr: addr + skip,
                        len: len - skip,
                    };
                    if segments.push(segment, GFP_KERNEL).is_err() {
                        return 0;
                    }
                    skip = 0;
                } else {
                    skip -= len;
                }
                if k + 1 < mapped {
                    // SAFETY: This is not the last one.
                    sg = unsafe { next_entry(sg) };
                }
            }
            1
        });
        self.state.trace.muted = false;
        self.state.rewind(mark);
        if found != Ok(1) {
            self.wrong("the list cannot be looked at");
            return Ok(EINVAL.to_errno());
        }

        let required = self.requires_mr(case, &init);
        let preferred = init.form == Form::Sg
            && init.read
            && case.config.max_sgl_rd != 0
            && segments.len() > case.config.max_sgl_rd as usize;
        match misfit(&segments, limit) {
            // The device has refused what it could take, and an MR is a must.
            None if !preferred || required => return Ok(EINVAL.to_errno()),
            None | Some(Misfit::Gap) => self.count(D::D12),
            Some(Misfit::Long) => self.count(D::D11),
        }
        if !required {
            return Ok(direct(self));
        }

        // As many MRs as it takes, from the pool in order.
        let needed = mrs_needed(&segments, limit) as usize;
        let mut free = 0;
        let mut invalidations = 0;
        for mr in self.state.pool().take(needed) {
            free += 1;
            invalidations += i32::from(mr.raw.need_inval);
        }
        if free < needed {
            return Ok(EAGAIN.to_errno());
        }
        Err(Alone {
            ret: 2 * needed as i32 + invalidations,
        })
    }

    /// Makes remote addresses right that C has computed with 32 bits.
    fn amend_remote(&mut self, i: usize) {
        let slot = &mut self.slots[i];
        let base = slot.init.remote;
        let mut before = 0u64;
        let mut amended = false;

        for k in 0..slot.nr_ops() as usize {
            // SAFETY: The context has that many work requests, with so many SGEs.
            unsafe {
                let wr = (*slot.ctx.as_mut_ptr()).__bindgen_anon_1.map.wrs.add(k);

                if d9(before) {
                    (*wr).remote_addr = base.wrapping_add(before);
                    amended = true;
                }
                for sge in 0..(*wr).wr.num_sge as usize {
                    before += u64::from((*(*wr).wr.sg_list.add(sge)).length);
                }
            }
        }
        if amended {
            self.count(D::D9);
        }
    }

    fn referee_init_bvec(&mut self, case: &Case, i: usize) -> Result<i32, Alone> {
        let init = self.slots[i].init;
        let list = case.list(&init);
        if list.is_empty() || init.size == 0 {
            return Ok(self.call_init(&REFEREE, i));
        }

        let needed = Needed::of(list, &init);
        if d8(list, &init, &needed) {
            self.count(D::D8);
            if needed.short {
                return Ok(EINVAL.to_errno());
            }

            // The entries that are needed, and no others.
            let slot = &mut self.slots[i];
            let pages = self.state.page(i);
            slot.bvecs.clear();
            for entry in &list[needed.first..needed.end] {
                if entry.len != 0 {
                    let _ = slot.bvecs.push_within_capacity(bindings::bio_vec {
                        bv_page: pages.wrapping_add((entry.start / PAGE) as usize),
                        bv_len: entry.len,
                        bv_offset: (entry.start % PAGE) as u32,
                    });
                }
            }
            slot.bvec_count = slot.bvecs.len();
            slot.init.idx = 0;
            slot.init.offset = needed.offset;
        }

        let mark = self.state.mark();
        let mut ret = self.call_init(&REFEREE, i);
        if ret == EINVAL.to_errno() && self.requires_mr(case, &init) {
            // The list that C has made of it.
            let pieces = self.pieces(case, &init, &needed);
            let slot = &mut self.slots[i];
            write_list(&mut slot.prot, self.state.page(i), &pieces, 0);
            let list = slot.prot.as_mut_ptr();
            let nents = pieces.len();

            ret = self.referee_misfit(case, i, list, nents, 0, |_| EINVAL.to_errno())?;
        } else if !self.requires_mr(case, &init) && d13(self.ground.real, ret, list, &needed) {
            self.count(D::D13);
            self.state.rewind(mark);
            // SAFETY: There is nothing to be wrong.
            unsafe { bindings::rdma_rw_referee_refuse_iova(true) };
            ret = self.call_init(&REFEREE, i);
            // SAFETY: As above.
            unsafe { bindings::rdma_rw_referee_refuse_iova(false) };
        }
        // The slot tells of the case again.
        self.slots[i].init = init;
        Ok(ret)
    }

    /// What is to be moved of an array, entry by entry.
    fn pieces(&self, case: &Case, init: &Init, needed: &Needed) -> KVec<Entry> {
        let mut pieces = KVec::new();

        Self::each_piece(case, init, needed, |entry| {
            // An array that is not whole shows in what is made of it.
            let _ = pieces.push(entry, GFP_KERNEL);
        });
        pieces
    }

    /// Calls a function for each of them.
    fn each_piece(case: &Case, init: &Init, needed: &Needed, mut each: impl FnMut(Entry)) {
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

    fn referee_init_signature(&mut self, case: &Case, i: usize) -> i32 {
        let init = self.slots[i].init;
        let (data, prot) = (case.list(&init).len(), case.prot(&init).len());
        if !d15(&case.config, data, prot) {
            return self.call_init(&REFEREE, i);
        }

        // Rust maps, counts, and unmaps in the reverse order where there are too many.
        self.count(D::D15);
        let limit = case.config.limit().max(1) as usize;
        let (sg, prot_sg) = (
            self.slots[i].sg.as_mut_ptr(),
            self.slots[i].prot.as_mut_ptr(),
        );
        let mark = self.state.mark();
        let mut fits = false;
        let ret = self.with_mapped_in(sg, data, init.read, |this, _, mapped_data| {
            if prot == 0 {
                fits = mapped_data <= limit;
                return Ok(EINVAL.to_errno());
            }
            this.with_mapped_in(prot_sg, prot, init.read, |_, _, mapped_prot| {
                fits = mapped_data.max(mapped_prot) <= limit;
                Ok(EINVAL.to_errno())
            })
        });
        if !fits {
            return ret.unwrap_or_else(|e| e.to_errno());
        }

        self.state.rewind(mark);
        let most = data.max(prot) as u32;
        self.state.attrs().max_fast_reg_page_list_len = most;
        self.state.attrs().max_pi_fast_reg_page_list_len = most;
        self.call_init(&REFEREE, i)
    }

    /// Calls a function while a list is mapped, with its number of mapped entries.
    fn with_mapped(
        &mut self,
        list: *mut bindings::scatterlist,
        nents: usize,
        read: bool,
        body: impl FnOnce(*mut bindings::scatterlist, usize) -> i32,
    ) -> Result<i32> {
        self.with_mapped_in(list, nents, read, |_, list, mapped| Ok(body(list, mapped)))
    }

    /// The same, for a function that goes on with this.
    fn with_mapped_in(
        &mut self,
        list: *mut bindings::scatterlist,
        nents: usize,
        read: bool,
        body: impl FnOnce(&mut Self, *mut bindings::scatterlist, usize) -> Result<i32>,
    ) -> Result<i32> {
        let device = self.device();
        let dir = direction(read);

        // SAFETY: The device and the list are valid.
        unsafe {
            let dma_device = (*device).dma_device;
            if dma_device.is_null() {
                let mapped = bindings::ib_dma_virt_map_sg(device, list, nents as i32);

                return body(self, list, mapped as usize);
            }

            let mut table = bindings::sg_table {
                sgl: list,
                nents: 0,
                orig_nents: nents as u32,
            };
            kernel::error::to_result(bindings::dma_map_sgtable(dma_device, &mut table, dir, 0))?;
            let ret = body(self, list, table.nents as usize);
            bindings::dma_unmap_sg_attrs(dma_device, list, nents as i32, dir, 0);
            ret
        }
    }

    // ------------------------------------------------------------- running

    /// Calls a function for each piece of local memory that a context moves, in order.
    fn each_moved(&self, case: &Case, i: usize, mut each: impl FnMut(Entry)) {
        let init = &self.slots[i].init;
        let list = case.list(init);

        match init.form {
            Form::Sg => {
                let mut skip = init.offset;

                for entry in &list[..list.len() - init.surplus as usize] {
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
    fn prepare(&mut self, case: &Case, i: usize) {
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
    fn verify(&mut self, case: &Case, i: usize) {
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
    fn end(
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

    /// Puts right what the C original would leave in a chain, before it makes it anew.
    fn amend_end(&mut self, i: usize, kind: Kind) {
        if !d7(self.slots[i].kind, kind) {
            return;
        }
        self.count(D::D7);
        // SAFETY: The context is alive.
        unsafe {
            let last = self.slots[i].last();

            (*last).next = ptr::null_mut();
            (*last).send_flags = 0;
            (*last).__bindgen_anon_1.wr_cqe = ptr::null_mut();
        }
    }

    fn wrs(&mut self, case: &Case, i: usize, end: End, run: bool, api: &Api, referee: bool) {
        let (cqe, wr, kind, other) = self.end(i, end);

        if referee {
            self.amend_end(i, kind);
        }
        let qp: *mut bindings::ib_qp = &mut *self.state.qp;
        // SAFETY: The context is alive, and all else valid.
        let head = unsafe { (api.wrs)(self.slots[i].ctx.as_mut_ptr(), qp, PORT, cqe, wr) };
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
    fn done(&mut self, case: &Case, i: usize) {
        let expect = core::mem::take(&mut self.slots[i].expect);

        if self.state.fine {
            self.verify(case, i);
        } else if expect {
            self.wrong("the device does not like the chain");
        }
    }

    /// Remembers addresses that the device is given, to see them go.
    fn remember(&mut self, i: usize) {
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

    fn post(
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
        // SAFETY: The context is alive, and all else valid.
        let ret = unsafe { (api.post)(self.slots[i].ctx.as_mut_ptr(), qp, PORT, cqe, wr) };
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

    /// What a post that failed after some work requests should have left.
    fn amend_post(&mut self, i: usize, before: &[(u32, bool)], posted: usize) {
        let mut at = 0;
        let mut next: *mut bindings::ib_send_wr = ptr::null_mut();
        let regs = self.slots[i].regs();

        for (reg, &(key, registered)) in regs.iter_mut().zip(before) {
            let reads = reg.wr.wr.opcode == bindings::ib_wr_opcode_IB_WR_RDMA_READ_WITH_INV;
            let invalidated = registered && at < posted;
            at += usize::from(registered);
            let now = at < posted;
            let moved = at + 1 < posted;
            at += 2;

            // SAFETY: The MRs of a context are valid, and ours.
            let mr = unsafe { State::mr(reg.mr) };
            if now {
                mr.raw.need_inval = !(moved && reads);
            } else {
                mr.raw.need_inval = registered && !invalidated;
                mr.raw.lkey = key;
                mr.raw.rkey = key;
            }
        }

        // The chain is to begin with an invalidation wherever that is needed by now.
        for reg in regs.iter_mut().rev() {
            // SAFETY: As above.
            let mr = unsafe { State::mr(reg.mr) };

            reg.wr.wr.next = next;
            reg.reg_wr.wr.next = &mut reg.wr.wr;
            next = &mut reg.reg_wr.wr;
            if mr.raw.need_inval {
                reg.inv_wr.opcode = bindings::ib_wr_opcode_IB_WR_LOCAL_INV;
                reg.inv_wr.ex.invalidate_rkey = mr.raw.lkey;
                reg.inv_wr.next = next;
                next = &mut reg.inv_wr;
            } else {
                reg.inv_wr.next = ptr::null_mut();
            }
        }
    }

    fn destroy(&mut self, i: usize, form: Form, api: &Api, referee: bool) {
        let init = self.slots[i].init;

        if d10(&init, form) && referee {
            self.count(D::D10);
        }
        self.destroy_as(i, if referee { init.form } else { form }, api);
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

    fn destroy_as(&mut self, i: usize, form: Form, api: &Api) {
        let qp: *mut bindings::ib_qp = &mut *self.state.qp;
        let slot = &mut self.slots[i];
        let init = &slot.init;
        let ctx = slot.ctx.as_mut_ptr();
        let dir = direction(init.read);
        // A destroy of another form is told whatever is at hand.
        let nr_sg = match init.form {
            Form::Sg => u32::from(init.count) - u32::from(init.surplus),
            Form::Signature => init.count.into(),
            Form::Bvec => 1,
        };

        // SAFETY: The context is alive.
        unsafe {
            match form {
                Form::Sg => (api.destroy)(ctx, qp, PORT, slot.sg.as_mut_ptr(), nr_sg, dir),
                Form::Bvec => (api.destroy_bvec)(
                    ctx,
                    qp,
                    PORT,
                    slot.bvecs.as_ptr().add(slot.bvec_first),
                    slot.bvec_count as u32,
                    dir,
                ),
                Form::Signature => (api.destroy_signature)(
                    ctx,
                    qp,
                    PORT,
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

/// Length of a mapped entry.
///
/// # Safety
///
/// `sg` must be valid.
unsafe fn dma_len(sg: *const bindings::scatterlist) -> u32 {
    // SAFETY: By this function's safety requirement.
    unsafe {
        #[cfg(CONFIG_NEED_SG_DMA_LENGTH)]
        {
            (*sg).dma_length
        }
        #[cfg(not(CONFIG_NEED_SG_DMA_LENGTH))]
        {
            (*sg).length
        }
    }
}

fn create_flags(integrity: bool) -> u32 {
    if integrity {
        bindings::ib_qp_create_flags_IB_QP_CREATE_INTEGRITY_EN as u32
    } else {
        0
    }
}

fn qp_attr(ctxs: u32, integrity: bool) -> bindings::ib_qp_init_attr {
    // SAFETY: Numbers and pointers alone.
    let mut attr: bindings::ib_qp_init_attr = unsafe { MaybeUninit::zeroed().assume_init() };

    attr.cap.max_rdma_ctxs = ctxs;
    attr.create_flags = create_flags(integrity);
    attr.port_num = PORT;
    attr
}
