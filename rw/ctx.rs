// SPDX-License-Identifier: GPL-2.0

//! The context in its caller's memory: writing it, chaining and posting it, and taking it apart.

use core::marker::PhantomData;
use core::mem::{
    self,
    offset_of,
    size_of,
    MaybeUninit, //
};
use core::ptr::{
    self,
    NonNull, //
};
use core::slice;

use kernel::error::to_result;
use kernel::ffi::c_int;
use kernel::prelude::*;

use super::{
    count,
    device::DmaDevice,
    dma::{
        unmap_sges,
        MappedSg,
        Segment, //
    },
    memory::kfree,
    registered::{
        self,
        Kind, //
    },
    transfer::{
        Remote,
        Transfer, //
    },
    warn_on_once,
    wr,
    Device,
    Direction,
    Qp,
    SgSource, //
};
use crate::bindings;

/// How a caller hears of the end of a chain.
#[derive(Clone, Copy)]
pub(crate) enum Completion {
    /// By this completion entry, for which the last work request is signalled.
    Notify(NonNull<bindings::ib_cqe>),
    /// By whatever this work request does, which goes after those of the context.
    Chain(NonNull<bindings::ib_send_wr>),
}

impl Completion {
    /// What the two pointers of the C interface ask for; none where both are null.
    #[inline]
    pub(crate) fn from_raw(
        cqe: *mut bindings::ib_cqe,
        chain_wr: *mut bindings::ib_send_wr,
    ) -> Option<Self> {
        match NonNull::new(chain_wr) {
            Some(wr) => Some(Self::Chain(wr)),
            None => NonNull::new(cqe).map(Self::Notify),
        }
    }

    /// Ends a chain of work requests this way.
    ///
    /// # Safety
    ///
    /// `last` must be valid.
    #[inline(always)]
    pub(crate) unsafe fn end_chain(self, last: *mut bindings::ib_send_wr) {
        // SAFETY: By this function's safety requirement.
        unsafe {
            match self {
                Self::Chain(wr) => end_chain(last, wr.as_ptr(), ptr::null_mut(), 0),
                Self::Notify(cqe) => {
                    let signalled = bindings::ib_send_flags_IB_SEND_SIGNALED;

                    end_chain(last, ptr::null_mut(), cqe.as_ptr(), signalled);
                }
            }
        }
    }
}

/// Which member of the union of `struct rdma_rw_ctx` is in use: its `type`, as C numbers it.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
enum Tag {
    /// `single`.
    Single = 0,
    /// `map`.
    Multi = 1,
    /// `reg`, with MRs for data.
    Registered = 2,
    /// `reg`, with one MR for data and protection information.
    Signature = 3,
    /// `iova`.
    Iova = 4,
}

impl Tag {
    /// The tag of a C value.
    #[inline]
    fn from_raw(raw: u8) -> Option<Self> {
        Some(match raw {
            0 => Self::Single,
            1 => Self::Multi,
            2 => Self::Registered,
            3 => Self::Signature,
            4 => Self::Iova,
            _ => return None,
        })
    }
}

/// Whether contexts are this implementation's alone. Else C may chain and release them, and takes
/// them for what its own init makes.
pub(super) const OWN_FORMS: bool = !cfg!(rdma_rw_takeover);

/// What a context begins with: `nr_ops` and `type`, and the room behind the latter.
#[repr(C)]
struct Head {
    nr_ops: u32,
    tag: u8,
    rest: [u8; HEAD_REST],
}

/// Bytes between `type` and the union.
const HEAD_REST: usize = size_of::<u64>() - size_of::<u32>() - size_of::<u8>();

const _: () = assert!(
    offset_of!(bindings::rdma_rw_ctx, nr_ops) == offset_of!(Head, nr_ops)
        && offset_of!(bindings::rdma_rw_ctx, type_) == offset_of!(Head, tag)
        && offset_of!(bindings::rdma_rw_ctx, __bindgen_anon_1) == size_of::<Head>(),
    "a context does not begin with a word of these"
);

impl Head {
    /// The head of a context as one word, with nothing in the rest.
    #[inline(always)]
    const fn word(tag: Tag, nr_ops: u32) -> u64 {
        Self::word_of(tag as u8, nr_ops, 0)
    }

    /// A head as one word.
    #[inline(always)]
    const fn word_of(tag: u8, nr_ops: u32, rest: u8) -> u64 {
        // SAFETY: Any bytes are a word, and there are no others.
        unsafe {
            mem::transmute::<Self, u64>(Self {
                nr_ops,
                tag,
                rest: [rest; HEAD_REST],
            })
        }
    }

    /// Where a context has its head.
    #[inline(always)]
    fn place(ctx: *mut bindings::rdma_rw_ctx) -> *mut u64 {
        ctx.cast()
    }

    /// What a head that was read says, whatever there may be in the rest that is not said here.
    #[inline(always)]
    fn known(word: u64) -> u64 {
        if cfg!(rdma_rw_takeover) {
            word & Self::word_of(u8::MAX, u32::MAX, 0)
        } else {
            word
        }
    }
}

/// Number of SGEs that the union has room for besides a work request. C has but one there.
pub(super) const SGES_IN_PLACE: usize = if OWN_FORMS && cfg!(CONFIG_64BIT) {
    2
} else {
    1
};

/// A context with one work request, in the place of the union. Its SGEs are here as well or, if
/// there are too many, in an allocation; the work request knows.
#[repr(C)]
struct InPlace {
    sges: [bindings::ib_sge; SGES_IN_PLACE],
    wr: bindings::ib_rdma_wr,
}

const _: () = assert!(
    OWN_FORMS
        || offset_of!(InPlace, wr)
            == offset_of!(bindings::rdma_rw_ctx__bindgen_ty_1__bindgen_ty_1, wr),
    "C has its work request elsewhere"
);

impl InPlace {
    /// Where a context has it.
    ///
    /// # Safety
    ///
    /// `ctx` must be within an allocation of a whole context.
    #[inline(always)]
    unsafe fn of(ctx: *mut bindings::rdma_rw_ctx) -> *mut Self {
        // SAFETY: By this function's safety requirement, and the check of the room.
        unsafe { (&raw mut (*ctx).__bindgen_anon_1).cast() }
    }
}

/// Where the memory of a context comes from: its own note, so that it knows its destroy.
///
/// Stands in the room that all members of the union but `iova` leave behind them, right behind the
/// last field of [`InPlace`]. C does not know of it.
#[derive(Clone, Copy)]
#[repr(C, packed(4))]
struct Origin {
    /// Number of entries of the list; for an array, of SGEs with a mapping of their own, or whether
    /// registrations are an allocation of their own.
    nents: u32,
    /// The caller's scatterlist; null for an array of `bio_vec`.
    list: *mut bindings::scatterlist,
    /// Tells a note from what C leaves there.
    #[cfg(rdma_rw_takeover)]
    seal: u32,
}

/// Bytes of the union that lie before an [`Origin`].
const ORIGIN_AT: usize =
    offset_of!(InPlace, wr) + offset_of!(bindings::ib_rdma_wr, rkey) + size_of::<u32>();

const _: () = assert!(
    ORIGIN_AT + size_of::<Origin>() <= size_of::<bindings::rdma_rw_ctx__bindgen_ty_1>()
        && ORIGIN_AT >= size_of::<bindings::rdma_rw_ctx__bindgen_ty_1__bindgen_ty_2>(),
    "the union has no room left"
);

impl Origin {
    /// Where a context has its note.
    ///
    /// # Safety
    ///
    /// `ctx` must be within an allocation of a whole context.
    #[inline(always)]
    unsafe fn place(ctx: *mut bindings::rdma_rw_ctx) -> *mut Self {
        // SAFETY: By this function's safety requirement, and the check above.
        unsafe {
            (&raw mut (*ctx).__bindgen_anon_1)
                .cast::<u8>()
                .add(ORIGIN_AT)
                .cast()
        }
    }

    /// A note for a context that is otherwise written.
    ///
    /// # Safety
    ///
    /// `ctx` must be readable.
    #[inline(always)]
    unsafe fn new(
        ctx: *const bindings::rdma_rw_ctx,
        list: *mut bindings::scatterlist,
        nents: u32,
    ) -> Self {
        #[cfg(not(rdma_rw_takeover))]
        let _ = ctx;
        Self {
            list,
            nents,
            // SAFETY: By this function's safety requirement.
            #[cfg(rdma_rw_takeover)]
            seal: unsafe { Self::seal(ctx, list, nents) },
        }
    }

    /// The note that a context has, if it has one.
    ///
    /// # Safety
    ///
    /// `ctx` must be readable.
    #[inline(always)]
    unsafe fn of(ctx: *mut bindings::rdma_rw_ctx) -> Option<Self> {
        // SAFETY: By this function's safety requirement; any bytes will do.
        unsafe {
            let origin = Self::place(ctx).read_unaligned();

            origin.is_sealed(ctx).then_some(origin)
        }
    }

    /// Whether this note, found in a context, is one. Where there is no C, everything is.
    ///
    /// # Safety
    ///
    /// `ctx` must be readable.
    #[inline(always)]
    unsafe fn is_sealed(&self, ctx: *const bindings::rdma_rw_ctx) -> bool {
        #[cfg(rdma_rw_takeover)]
        // SAFETY: By this function's safety requirement.
        unsafe {
            self.seal == Self::seal(ctx, self.list, self.nents)
        }
        #[cfg(not(rdma_rw_takeover))]
        {
            let _ = ctx;
            true
        }
    }

    /// What a note of this content in this context is sealed with, while this module is loaded. A
    /// context that C has written over an older one differs from it in what the seal covers, or is
    /// of the same tag and has the same allocation: a caller who reuses it for a transfer of the
    /// same form. What is freed is the same then; what is unmapped, the caller has to say.
    ///
    /// # Safety
    ///
    /// `ctx` must be readable.
    #[cfg(rdma_rw_takeover)]
    #[inline]
    unsafe fn seal(
        ctx: *const bindings::rdma_rw_ctx,
        list: *mut bindings::scatterlist,
        nents: u32,
    ) -> u32 {
        // SAFETY: By this function's safety requirement; any bytes will do.
        let first: u64 = unsafe { (&raw const (*ctx).__bindgen_anon_1).cast::<u64>().read() };
        // SAFETY: As above.
        let tag = unsafe { (*ctx).type_ };
        // SAFETY: Set before anything runs here.
        let load = u64::from(unsafe { bindings::rdma_rw_c_load });
        let mixed = (ctx as u64)
            ^ load.rotate_left(32)
            ^ (list as u64).rotate_left(17)
            ^ first.rotate_left(34)
            ^ u64::from(nents).rotate_left(51)
            ^ u64::from(tag);

        // CAST: The upper half of the product.
        (mixed.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as u32
    }
}

/// A scatterlist of a caller as C gives it, and its number of entries.
type RawList = (*mut bindings::scatterlist, u32);

/// Which init has made a context, and so which destroy is its own.
enum Form {
    /// `rdma_rw_ctx_init()`, over this list.
    Sg(RawList),
    /// `rdma_rw_ctx_init_bvec()`, with this many SGEs in an allocation.
    Bvec(u32),
    /// `rdma_rw_ctx_signature_init()`, over these lists of data and protection information.
    Signature(RawList, RawList),
    /// An init of C, which leaves no note: the caller's word counts.
    Unknown,
}

/// Memory that a context is to be written to.
///
/// A context points into itself, so it is written where it will stay.
///
/// # Invariants
///
/// `raw` is writable for `'a` and does not move before the context is destroyed.
pub(crate) struct Slot<'a> {
    raw: NonNull<bindings::rdma_rw_ctx>,
    list: Option<SgSource>,
    memory: PhantomData<&'a mut bindings::rdma_rw_ctx>,
}

impl<'a> Slot<'a> {
    /// Takes a caller's memory, which need not be initialised.
    ///
    /// # Safety
    ///
    /// `raw` must be writable, not null, and stay in place until the context is destroyed.
    #[inline]
    pub(crate) unsafe fn from_raw(raw: *mut bindings::rdma_rw_ctx) -> Self {
        // INVARIANT: By this function's safety requirement.
        Self {
            // SAFETY: By this function's safety requirement.
            raw: unsafe { NonNull::new_unchecked(raw) },
            list: None,
            memory: PhantomData,
        }
    }

    /// The same memory, for a context over a scatterlist of its caller.
    #[inline]
    pub(super) fn of_list(self, list: SgSource) -> Self {
        Self {
            list: Some(list),
            ..self
        }
    }

    /// The same memory, for one that may leave it as it is.
    #[inline(always)]
    pub(super) fn lend(&mut self) -> Slot<'_> {
        Slot {
            raw: self.raw,
            list: self.list,
            memory: PhantomData,
        }
    }

    /// Notes where the context's memory comes from, once all the rest is written: an array's
    /// context has `nr_sges` SGEs with a mapping of their own.
    #[inline(always)]
    fn write_origin(&mut self, nr_sges: u32) {
        let (list, nents) = match &self.list {
            Some(list) => (list.as_raw(), list.nents().get()),
            None => (ptr::null_mut(), nr_sges),
        };
        let ctx = self.raw.as_ptr();

        // SAFETY: By the type invariant; the note lies within the union, behind what is written.
        unsafe { Origin::place(ctx).write_unaligned(Origin::new(ctx, list, nents)) };
    }

    /// Writes what all contexts have, and returns the context for the rest.
    #[inline(always)]
    fn write_head(&mut self, tag: Tag, nr_ops: u32) -> *mut bindings::rdma_rw_ctx {
        let ctx = self.raw.as_ptr();

        // SAFETY: By the type invariant.
        unsafe {
            Head::place(ctx).write(Head::word(tag, nr_ops));
            count::made(ctx);
        }
        ctx
    }

    /// Room for SGEs in the context itself.
    #[inline(always)]
    pub(super) fn sges(&mut self) -> &mut [MaybeUninit<bindings::ib_sge>; SGES_IN_PLACE] {
        // SAFETY: By the type invariant. Whether they are written does not matter.
        unsafe { &mut *(&raw mut (*InPlace::of(self.raw.as_ptr())).sges).cast() }
    }

    /// Writes the remote memory of a context with its work request in place.
    #[inline(always)]
    pub(crate) fn write_remote(&mut self, remote: Remote) {
        // SAFETY: By the type invariant.
        unsafe {
            let wr = &raw mut (*InPlace::of(self.raw.as_ptr())).wr;

            (*wr).remote_addr = remote.addr;
            (*wr).rkey = remote.rkey;
        }
    }

    /// Writes the rest of a context of one SGE, whose remote memory is written. Returns its number of
    /// work requests.
    #[inline(always)]
    pub(super) fn write_single(mut self, transfer: &Transfer<'_>, segment: Segment) -> c_int {
        let lkey = transfer.qp.local_dma_lkey();
        let [sge, ..] = self.sges();
        let sge: *mut _ = sge.write(segment.sge(lkey));

        // SAFETY: The SGE has just been written, and stays where it is.
        unsafe { self.write_in_place(Tag::Single, transfer.dir, sge, 1) };
        1
    }

    /// Writes what of a context of one SGE does not depend on where its memory is mapped, so that it
    /// need not be kept until that is known. The remote memory is written.
    #[inline(always)]
    pub(super) fn prepare_single(mut self, transfer: &Transfer<'_>) -> Prepared<'a> {
        let lkey = transfer.qp.local_dma_lkey();
        let [sge, ..] = self.sges();
        let sge = sge.as_mut_ptr();

        // SAFETY: By the type invariant.
        unsafe {
            (*sge).lkey = lkey;
            self.write_in_place_wr(transfer.dir, sge, 1);
        }
        if OWN_FORMS {
            self.write_origin(1);
        }
        Prepared(self)
    }

    /// Writes the rest of a context of `nr_sges` SGEs in one work request, whose remote memory is
    /// written. The SGEs stand in the context, as [`Slot::sges`] gives them, or are an allocation.
    ///
    /// # Safety
    ///
    /// `sges` must be so many SGEs, more than one, or one in the context. An allocation is the
    /// context's from here on.
    #[inline(always)]
    pub(super) unsafe fn write_one_wr(
        &mut self,
        transfer: &Transfer<'_>,
        sges: *mut bindings::ib_sge,
        nr_sges: u32,
    ) {
        let tag = if nr_sges == 1 {
            Tag::Single
        } else {
            Tag::Multi
        };

        // SAFETY: By this function's safety requirement.
        unsafe { self.write_in_place(tag, transfer.dir, sges, nr_sges) };
    }

    /// Writes the rest of a context with its work request in place, whose remote memory is written.
    ///
    /// # Safety
    ///
    /// As for [`Slot::write_one_wr`].
    #[inline(always)]
    unsafe fn write_in_place(
        &mut self,
        tag: Tag,
        dir: Direction,
        sges: *mut bindings::ib_sge,
        nr_sges: u32,
    ) {
        self.write_head(tag, 1);
        // SAFETY: By this function's safety requirement.
        unsafe { self.write_in_place_wr(dir, sges, nr_sges) };
        self.write_origin(nr_sges);
    }

    /// Writes the work request of such a context, but for the remote memory.
    ///
    /// # Safety
    ///
    /// As for [`Slot::write_one_wr`], but that the SGEs may be written later.
    #[inline(always)]
    unsafe fn write_in_place_wr(
        &mut self,
        dir: Direction,
        sges: *mut bindings::ib_sge,
        nr_sges: u32,
    ) {
        // SAFETY: By the type invariant.
        unsafe {
            let wr = &raw mut (*InPlace::of(self.raw.as_ptr())).wr.wr;

            // In forms of our own nobody looks at these two before the end of the chain is written,
            // and this is the end.
            if !OWN_FORMS {
                (*wr).next = ptr::null_mut();
                (*wr).__bindgen_anon_1.wr_cqe = ptr::null_mut();
            }
            (*wr).sg_list = sges;
            // CAST: A QP's limit of SGEs is a small number.
            (*wr).num_sge = nr_sges as i32;
            (*wr).opcode = wr::opcode(dir);
            (*wr).send_flags = 0;
            (*wr).ex.invalidate_rkey = 0;
        }
    }

    /// Writes a context of `nr_wrs` linked work requests over `nr_sges` SGEs.
    ///
    /// `wrs` is an allocation, as is `sges` where it is not null, and both are the context's from
    /// here on. A context for C has one allocation where it is of an array, and that is `sges`.
    #[inline(always)]
    pub(super) fn write_multi(
        &mut self,
        sges: *mut bindings::ib_sge,
        wrs: *mut bindings::ib_rdma_wr,
        nr_wrs: u32,
        nr_sges: u32,
    ) {
        let ctx = self.write_head(Tag::Multi, nr_wrs);

        // SAFETY: By the type invariant.
        unsafe {
            let map = &raw mut (*ctx).__bindgen_anon_1.map;

            (*map).sges = sges;
            (*map).wrs = wrs;
        }
        self.write_origin(nr_sges);
    }

    /// Writes a context of `nr` linked registrations. `own` says whether they are an allocation, or
    /// lie in that of the list which the first of them has.
    #[inline(always)]
    pub(super) fn write_registered(
        &mut self,
        kind: Kind,
        regs: *mut bindings::rdma_rw_reg_ctx,
        nr: u32,
        own: bool,
    ) {
        let tag = match kind {
            Kind::Data => Tag::Registered,
            Kind::Integrity => Tag::Signature,
        };
        let ctx = self.write_head(tag, nr);

        // SAFETY: By the type invariant.
        unsafe { (*ctx).__bindgen_anon_1.reg = regs };
        self.write_origin(u32::from(own));
    }

    /// Writes a context of one IOVA range.
    #[cfg(CONFIG_IOMMU_DMA)]
    #[inline]
    pub(super) fn write_iova(&mut self, transfer: &Transfer<'_>, range: super::iova::Range) {
        let ctx = self.write_head(Tag::Iova, 1);
        let (state, linked) = range.keep();
        let segment = Segment {
            addr: state.addr,
            // CAST: A transfer has a length of 32 bits.
            len: linked as u32,
        };

        // SAFETY: By the type invariant.
        unsafe {
            let iova = &raw mut (*ctx).__bindgen_anon_1.iova;

            (*iova).state = state;
            (*iova).mapped_len = linked;
            (*iova).sge = segment.sge(transfer.qp.local_dma_lkey());
            (*iova).wr = wr::rdma_wr(transfer.dir, transfer.remote, &raw mut (*iova).sge, 1);
        }
    }
}

/// A [`Slot`] with all of a context of one SGE but the memory of that, and so no context yet: one
/// that init has not made has no operations.
pub(super) struct Prepared<'a>(Slot<'a>);

impl Prepared<'_> {
    /// Makes a context of it, over this memory. Returns its number of work requests.
    #[inline(always)]
    pub(super) fn over(self, segment: Segment) -> c_int {
        let Self(mut slot) = self;
        let [sge, ..] = slot.sges();
        let sge = sge.as_mut_ptr();

        // SAFETY: By the type invariant of the slot.
        unsafe {
            (*sge).addr = segment.addr;
            (*sge).length = segment.len;
        }
        slot.write_head(Tag::Single, 1);
        // C's own fields are part of its seal.
        if !OWN_FORMS {
            slot.write_origin(1);
        }
        1
    }
}

/// The registration of a context that has no more than this one.
///
/// # Invariants
///
/// It is valid, as is its MR, and in the use of this context alone.
pub(crate) struct OneReg(*mut bindings::rdma_rw_reg_ctx);

impl OneReg {
    /// [`Context::chain_wrs`] for its context.
    #[inline(always)]
    pub(crate) fn chain_wrs(self, completion: Completion) -> *mut bindings::ib_send_wr {
        // SAFETY: By the type invariant; and the last work request is valid.
        unsafe {
            let (first, last) = registered::arm(slice::from_mut(&mut *self.0));

            completion.end_chain(last);
            first
        }
    }
}

/// A context that an init has made.
///
/// # Invariants
///
/// - The member of the union that `tag` names is in use, and all it points to is valid.
/// - `single`, and where [`OWN_FORMS`] `multi` with one operation, are an [`InPlace`], whose SGEs
///   are in it or an allocation.
/// - Other `multi`: `wrs` and `sges` are allocations each, or `sges` is null and the SGEs lie behind
///   the work requests. A context of an array for C has one allocation, `sges`, with the work
///   requests behind the SGEs.
/// - `registered` and `signature`: `reg` has `nr_ops` elements, not 0. The first one's `sgt` has the
///   scatterlist that the context owns, if any, or with protection information the caller's list of
///   that. `reg` is an allocation but where [`OWN_FORMS`] a context of an array has noted a 0 as its
///   number of entries: then it lies in that of the scatterlist.
pub(crate) struct Context<'a> {
    raw: NonNull<bindings::rdma_rw_ctx>,
    tag: Tag,
    memory: PhantomData<&'a mut bindings::rdma_rw_ctx>,
}

impl Context<'_> {
    /// Takes a caller's context.
    ///
    /// None, with one warning, where it has no known tag or no operations.
    ///
    /// # Safety
    ///
    /// `raw` must be readable, and where an init of this API has written it, in nobody else's use.
    #[inline]
    pub(crate) unsafe fn from_raw(raw: *mut bindings::rdma_rw_ctx) -> Option<Self> {
        // SAFETY: By this function's safety requirement.
        let (raw, nr_ops, tag) = unsafe { (NonNull::new(raw)?, (*raw).nr_ops, (*raw).type_) };
        let Some(tag) = Tag::from_raw(tag).filter(|_| nr_ops != 0) else {
            warn_on_once!(true);
            return None;
        };

        // INVARIANT: This is a context that an init has written.
        Some(Self {
            raw,
            tag,
            memory: PhantomData,
        })
    }

    /// Number of operations: work requests, or registrations.
    #[inline]
    fn nr_ops(&self) -> u32 {
        // SAFETY: By the type invariant.
        unsafe { (*self.raw.as_ptr()).nr_ops }
    }

    /// The registrations of a context that has some.
    #[inline]
    fn regs(&mut self) -> &mut [bindings::rdma_rw_reg_ctx] {
        match self.tag {
            // SAFETY: By the type invariant.
            Tag::Registered | Tag::Signature => unsafe {
                let regs = (*self.raw.as_ptr()).__bindgen_anon_1.reg;

                slice::from_raw_parts_mut(regs, self.nr_ops() as usize)
            },
            _ => &mut [],
        }
    }

    /// The work request of a context that is known to have but one, which stands in its place; none
    /// for all others, and for what is no context.
    ///
    /// # Safety
    ///
    /// As for [`Context::from_raw`].
    #[inline(always)]
    pub(crate) unsafe fn only_wr(
        raw: *mut bindings::rdma_rw_ctx,
    ) -> Option<*mut bindings::ib_send_wr> {
        if raw.is_null() {
            return None;
        }

        // SAFETY: By this function's safety requirement.
        unsafe {
            let head = Head::known(Head::place(raw).read());

            (head == Head::word(Tag::Single, 1) || OWN_FORMS && head == Head::word(Tag::Multi, 1))
                .then(|| &raw mut (*InPlace::of(raw)).wr.wr)
        }
    }

    /// A context that is known to have one registration and no more; none for all others, and for
    /// what is no context.
    ///
    /// # Safety
    ///
    /// As for [`Context::from_raw`].
    #[inline(always)]
    pub(crate) unsafe fn of_one_reg(raw: *mut bindings::rdma_rw_ctx) -> Option<OneReg> {
        /// In which the two tags differ.
        const EITHER: u64 = Head::word(Tag::Registered, 0) ^ Head::word(Tag::Signature, 0);

        if raw.is_null() {
            return None;
        }

        // SAFETY: By this function's safety requirement.
        unsafe {
            let head = Head::known(Head::place(raw).read());

            // INVARIANT: A context with such a head is one that an init has written.
            (head | EITHER == Head::word(Tag::Registered, 1) | EITHER)
                .then(|| OneReg((*raw).__bindgen_anon_1.reg))
        }
    }

    /// Whether the work request stands in its place, and with it the SGEs or a pointer to them.
    #[inline]
    fn is_in_place(&self) -> bool {
        match self.tag {
            Tag::Single => true,
            Tag::Multi => OWN_FORMS && self.nr_ops() == 1,
            Tag::Registered | Tag::Signature | Tag::Iova => false,
        }
    }

    /// First and last RDMA work request of a context without registrations.
    #[inline]
    fn rdma_wrs(&self) -> (*mut bindings::ib_rdma_wr, *mut bindings::ib_rdma_wr) {
        let ctx = self.raw.as_ptr();

        // SAFETY: By the type invariant. A context of several work requests has at least one.
        unsafe {
            let union = &raw mut (*ctx).__bindgen_anon_1;
            let (first, nr) = match self.tag {
                Tag::Single | Tag::Multi if self.is_in_place() => {
                    (&raw mut (*InPlace::of(ctx)).wr, 1)
                }
                Tag::Single | Tag::Multi => ((*union).map.wrs, self.nr_ops()),
                Tag::Iova => (&raw mut (*union).iova.wr, 1),
                Tag::Registered | Tag::Signature => (&raw mut (*(*union).reg).wr, 1),
            };

            (first, first.add(nr.wrapping_sub(1) as usize))
        }
    }

    /// Direction that the context was made for.
    pub(crate) fn direction(&self) -> Direction {
        // SAFETY: By the type invariant.
        match unsafe { (*self.rdma_wrs().0).wr.opcode } {
            bindings::ib_wr_opcode_IB_WR_RDMA_WRITE => Direction::Write,
            _ => Direction::Read,
        }
    }

    /// Readies the context's work requests for being posted, and returns the first and the last.
    #[inline(always)]
    fn ready(&mut self) -> (*mut bindings::ib_send_wr, *mut bindings::ib_send_wr) {
        match self.tag {
            Tag::Single | Tag::Multi | Tag::Iova => {
                let (first, last) = self.rdma_wrs();

                // SAFETY: By the type invariant both are valid.
                unsafe { (&raw mut (*first).wr, &raw mut (*last).wr) }
            }
            // SAFETY: The MRs are valid and in this context's use alone, by the type invariant.
            Tag::Registered | Tag::Signature => unsafe { registered::arm(self.regs()) },
        }
    }

    /// Chains the work requests and ends the chain as asked for. Returns the first one. See
    /// [`crate::rdma_rw_ctx_wrs`].
    #[inline(always)]
    pub(crate) fn chain_wrs(mut self, completion: Completion) -> *mut bindings::ib_send_wr {
        let (first, last) = self.ready();

        // SAFETY: The last work request is valid.
        unsafe { completion.end_chain(last) };
        first
    }

    /// Chains the work requests of a caller who does not want to hear of their completion: they end
    /// unsignalled. Returns the first one.
    #[cold]
    pub(crate) fn chain_wrs_unheard(mut self) -> *mut bindings::ib_send_wr {
        let (first, last) = self.ready();

        // SAFETY: The last work request is valid.
        unsafe { end_chain(last, ptr::null_mut(), ptr::null_mut(), 0) };
        first
    }

    /// Chains the work requests and posts them. See [`crate::rdma_rw_ctx_post`].
    ///
    /// # Errors
    ///
    /// The device's error. Then MRs whose registration was not posted are as they were before.
    #[inline]
    pub(crate) fn post(&mut self, qp: &Qp, completion: Completion) -> Result {
        let (first, last) = self.ready();
        let mut bad: *const bindings::ib_send_wr = ptr::null();

        // SAFETY: The last work request is valid.
        unsafe { completion.end_chain(last) };

        // SAFETY: The QP and all of the chain are valid.
        to_result(unsafe { bindings::rdma_rw_c_post_send(qp.as_raw(), first, &mut bad) })
            // SAFETY: The registrations are armed, and in this context's use alone.
            .inspect_err(|_| unsafe { registered::disarm(self.regs(), bad) })
    }

    /// Which init has made this context.
    #[inline]
    fn form(&mut self) -> Form {
        match self.tag {
            Tag::Iova => return Form::Bvec(0),
            Tag::Single | Tag::Multi | Tag::Registered | Tag::Signature => {}
        }

        let Some(origin) = self.origin() else {
            return match self.tag {
                Tag::Signature => Form::Signature((ptr::null_mut(), 0), (ptr::null_mut(), 0)),
                _ => Form::Unknown,
            };
        };

        let list = (origin.list, origin.nents);
        match (self.tag, self.regs().first()) {
            (Tag::Signature, Some(reg)) => Form::Signature(list, (reg.sgt.sgl, reg.sgt.orig_nents)),
            _ if list.0.is_null() => Form::Bvec(list.1),
            _ => Form::Sg(list),
        }
    }

    /// The one work request, with its SGEs, of a context that is known to have it in its place and
    /// be of the init that `of_list` tells; none for all others.
    ///
    /// # Safety
    ///
    /// As for [`Context::from_raw`].
    #[inline(always)]
    unsafe fn in_place(raw: *mut bindings::rdma_rw_ctx, of_list: bool) -> Option<*mut InPlace> {
        // SAFETY: By this function's safety requirement. A context that has such a work request is
        // one that an init has written.
        unsafe {
            Self::only_wr(raw)?;
            (Origin::of(raw)?.list.is_null() != of_list).then(|| InPlace::of(raw))
        }
    }

    /// Releases a context made from a scatterlist where that ends with one call at the most. Returns
    /// whether it did; any other context is as it was.
    ///
    /// # Safety
    ///
    /// As for [`Context::from_raw`]; the device must be done with the context, and `qp` and `dir`,
    /// if it is a direction, must be those of its init, whose list must still be there.
    #[inline(always)]
    pub(crate) unsafe fn release_sg_at_once(
        raw: *mut bindings::rdma_rw_ctx,
        qp: &Qp,
        list: RawList,
        dir: bindings::dma_data_direction,
    ) -> bool {
        // SAFETY: By this function's safety requirement.
        unsafe {
            let (Some(in_place), Some(dir)) = (Self::in_place(raw, true), Direction::from_raw(dir))
            else {
                return false;
            };

            if qp.device().dma_device().is_none() {
                count::released(raw);
                free_sges(in_place);
            } else if has_its_sges(in_place) {
                count::released(raw);
                unmap_list(raw, qp.device(), list, dir);
            } else {
                return false;
            }
        }
        true
    }

    /// The same for a context made from an array of `bio_vec`.
    ///
    /// # Safety
    ///
    /// As there.
    #[inline(always)]
    pub(crate) unsafe fn release_bvec_at_once(
        raw: *mut bindings::rdma_rw_ctx,
        qp: &Qp,
        dir: bindings::dma_data_direction,
    ) -> bool {
        let dma_device = qp.device().dma_device();

        // SAFETY: By this function's safety requirement. SGEs have a mapping each.
        unsafe {
            let (Some(in_place), Some(dir)) =
                (Self::in_place(raw, false), Direction::from_raw(dir))
            else {
                return false;
            };

            if dma_device.is_none() {
                count::released(raw);
                free_sges(in_place);
            } else if (*in_place).wr.wr.num_sge == 1 && has_its_sges(in_place) {
                let [sge, ..] = &(*in_place).sges;

                count::released(raw);
                unmap_sges(dma_device, dir, slice::from_ref(sge));
            } else {
                return false;
            }
        }
        true
    }

    /// Whether a context is known to have one registration and to be made from a scatterlist.
    ///
    /// # Safety
    ///
    /// As for [`Context::from_raw`].
    #[inline(always)]
    pub(crate) unsafe fn is_one_reg_of_list(raw: *mut bindings::rdma_rw_ctx) -> bool {
        if raw.is_null() {
            return false;
        }

        // SAFETY: By this function's safety requirement. A context with such a head is one that an
        // init has written.
        unsafe {
            Head::known(Head::place(raw).read()) == Head::word(Tag::Registered, 1)
                && Origin::of(raw).is_some_and(|origin| !origin.list.is_null())
        }
    }

    /// Releases such a context.
    ///
    /// # Safety
    ///
    /// As for [`Context::release_sg_at_once`]; the context must be such a one.
    #[inline(always)]
    pub(crate) unsafe fn release_one_reg(
        raw: *mut bindings::rdma_rw_ctx,
        qp: &Qp,
        list: RawList,
        dir: Direction,
    ) {
        // SAFETY: By this function's safety requirement. The registrations of a list are an
        // allocation.
        unsafe {
            let reg = (*raw).__bindgen_anon_1.reg;

            count::released(raw);
            registered::put(qp, Kind::Data, &*reg);
            kfree(reg);
            unmap_list(raw, qp.device(), list, dir);
        }
    }

    /// Releases a context made from a scatterlist. See [`crate::rdma_rw_ctx_destroy`].
    ///
    /// One of another form is released as what it is, with one warning.
    ///
    /// # Safety
    ///
    /// The device must be done with the context, and `qp` and `list` must be those of its init.
    #[inline(always)]
    pub(crate) unsafe fn destroy_sg(self, qp: &Qp, list: RawList, dir: Direction) {
        // What is what it is taken for need not be looked at again.
        if self.origin().is_some_and(|origin| !origin.list.is_null())
            && matches!(self.tag, Tag::Single | Tag::Multi | Tag::Registered)
        {
            let raw = self.raw.as_ptr();
            // SAFETY: By this function's safety requirement; the note has a list.
            unsafe {
                self.release_all_but_list(qp);
                unmap_list(raw, qp.device(), list, dir);
            }
        } else {
            // SAFETY: As above.
            unsafe { self.destroy_other_sg(qp, list, dir) };
        }
    }

    /// [`Context::destroy_sg`] for a context of another form, or an unknown one.
    ///
    /// # Safety
    ///
    /// As there.
    #[inline(never)]
    unsafe fn destroy_other_sg(mut self, qp: &Qp, list: RawList, dir: Direction) {
        let form = self.form();

        warn_on_once!(matches!(form, Form::Bvec(_) | Form::Signature(..)));
        // SAFETY: By this function's safety requirement; notes are of the context's own init.
        unsafe {
            match form {
                // A list of its own tells an array.
                Form::Unknown if self.table().is_some() => self.release_bvec(qp, 0, dir),
                Form::Sg(_) | Form::Unknown => self.release_sg(qp, list, dir),
                Form::Bvec(nr_sges) => self.release_bvec(qp, nr_sges, dir),
                Form::Signature(_, prot) => self.release_signature(qp, list, prot, dir),
            }
        }
    }

    /// The context's own note of where its memory comes from, if it has one.
    #[inline(always)]
    fn origin(&self) -> Option<Origin> {
        // SAFETY: By the type invariant.
        unsafe { Origin::of(self.raw.as_ptr()) }
    }

    /// Releases a context made from an array of `bio_vec`. See
    /// [`crate::rdma_rw_ctx_destroy_bvec`].
    ///
    /// One of another form is released as what it is, with one warning.
    ///
    /// # Safety
    ///
    /// The device must be done with the context, and `qp` and `nr_bvec` must be those of its init.
    #[inline(always)]
    pub(crate) unsafe fn destroy_bvec(self, qp: &Qp, nr_bvec: u32, dir: Direction) {
        match self.origin() {
            // What is what it is taken for need not be looked at again.
            Some(origin)
                if OWN_FORMS
                    && origin.list.is_null()
                    && matches!(self.tag, Tag::Single | Tag::Multi | Tag::Registered) =>
            {
                // SAFETY: By this function's safety requirement.
                unsafe { self.release_bvec(qp, origin.nents, dir) };
            }
            // SAFETY: As above.
            _ => unsafe { self.destroy_other_bvec(qp, nr_bvec, dir) },
        }
    }

    /// [`Context::destroy_bvec`] for a range, for a context of another form, or an unknown one.
    ///
    /// # Safety
    ///
    /// As there.
    #[inline(never)]
    unsafe fn destroy_other_bvec(mut self, qp: &Qp, nr_bvec: u32, dir: Direction) {
        let form = self.form();

        warn_on_once!(matches!(form, Form::Sg(_) | Form::Signature(..)));
        // SAFETY: By this function's safety requirement; notes are of the context's own init.
        unsafe {
            match form {
                // Both sides map an SGE for each entry; a note may be of an older context.
                Form::Bvec(_) | Form::Unknown if cfg!(rdma_rw_takeover) => {
                    self.release_bvec(qp, nr_bvec, dir);
                }
                Form::Bvec(nr_sges) => self.release_bvec(qp, nr_sges, dir),
                Form::Unknown => self.release_bvec(qp, nr_bvec, dir),
                Form::Sg(list) => self.release_sg(qp, list, dir),
                Form::Signature(data, prot) => self.release_signature(qp, data, prot, dir),
            }
        }
    }

    /// Releases a context with protection information. See
    /// [`crate::rdma_rw_ctx_destroy_signature`].
    ///
    /// One of another form is released as what it is, with one warning.
    ///
    /// # Safety
    ///
    /// The device must be done with the context, and `qp` and both lists must be those of its init.
    #[inline(always)]
    pub(crate) unsafe fn destroy_signature(
        self,
        qp: &Qp,
        data: RawList,
        prot: RawList,
        dir: Direction,
    ) {
        // SAFETY: By this function's safety requirement. No other init makes such a context.
        unsafe {
            if self.tag == Tag::Signature {
                self.release_signature(qp, data, prot, dir);
            } else {
                self.destroy_other_signature(qp, data, dir);
            }
        }
    }

    /// [`Context::destroy_signature`] for a context of another form.
    ///
    /// # Safety
    ///
    /// As there.
    #[inline(never)]
    unsafe fn destroy_other_signature(mut self, qp: &Qp, data: RawList, dir: Direction) {
        warn_on_once!(true);
        // SAFETY: By this function's safety requirement; notes are of the context's own init.
        unsafe {
            match self.form() {
                Form::Bvec(nr_sges) => self.release_bvec(qp, nr_sges, dir),
                _ => self.release_sg(qp, data, dir),
            }
        }
    }

    /// Releases a context over a scatterlist of its caller.
    ///
    /// # Safety
    ///
    /// The device must be done with the context, whose form this must be, and `qp`, `list` and
    /// `dir` must be those of its init.
    #[inline(always)]
    unsafe fn release_sg(self, qp: &Qp, list: RawList, dir: Direction) {
        // SAFETY: By this function's safety requirement.
        unsafe {
            self.release_all_but_list(qp);
            if let Some(dma_device) = qp.device().dma_device() {
                unmap_sg(dma_device, list, dir);
            }
        }
    }

    /// Releases what a context over a scatterlist of its caller has besides the mapping of that.
    ///
    /// # Safety
    ///
    /// As for [`Context::release_sg`].
    #[inline(always)]
    unsafe fn release_all_but_list(self, qp: &Qp) {
        // SAFETY: By this function's safety requirement.
        unsafe {
            count::released(self.raw.as_ptr());
            match self.tag {
                Tag::Single | Tag::Multi | Tag::Iova => self.free_direct(true),
                Tag::Registered | Tag::Signature => self.release_regs(qp),
            }
        }
    }

    /// Frees what a context of SGEs has allocated.
    ///
    /// # Safety
    ///
    /// The device must be done with the context, and nobody may look at it any more. `of_list` must
    /// say whether it was made from a scatterlist.
    #[inline]
    unsafe fn free_direct(&self, of_list: bool) {
        // SAFETY: By this function's safety requirement, and the type invariant.
        unsafe {
            if self.is_in_place() {
                free_sges(InPlace::of(self.raw.as_ptr()));
            } else if self.tag == Tag::Multi {
                let (sges, wrs) = self.map();

                if OWN_FORMS || of_list {
                    kfree(wrs);
                }
                if !sges.is_null() {
                    kfree(sges);
                }
            }
        }
    }

    /// Releases a context over an array of `bio_vec`, with `nr_sges` SGEs if they are in an
    /// allocation.
    ///
    /// # Safety
    ///
    /// The device must be done with the context, whose form this must be, and `qp` and `dir` must
    /// be those of its init.
    #[inline(always)]
    unsafe fn release_bvec(mut self, qp: &Qp, nr_sges: u32, dir: Direction) {
        let device = qp.device();

        // SAFETY: By this function's safety requirement, and the type invariant: every SGE has a
        // mapping of its own.
        unsafe {
            count::released(self.raw.as_ptr());
            match self.tag {
                Tag::Single | Tag::Multi => {
                    let nr = if self.tag == Tag::Single { 1 } else { nr_sges };
                    let sges = slice::from_raw_parts(self.sges(), nr as usize);

                    unmap_sges(device.dma_device(), dir, sges);
                    self.free_direct(false);
                }
                Tag::Registered | Tag::Signature => match self.table() {
                    Some(table) => self.release_regs_and(qp, table, dir),
                    None => self.release_regs(qp),
                },
                Tag::Iova => self.release_iova(device, dir),
            }
        }
    }

    /// Releases a context with protection information.
    ///
    /// # Safety
    ///
    /// The device must be done with the context, whose form this must be, and `qp`, the lists and
    /// `dir` must be those of its init.
    #[inline(always)]
    unsafe fn release_signature(self, qp: &Qp, data: RawList, prot: RawList, dir: Direction) {
        // SAFETY: By this function's safety requirement.
        unsafe {
            count::released(self.raw.as_ptr());
            self.release_regs(qp);
            if let Some(dma_device) = qp.device().dma_device() {
                unmap_sg(dma_device, prot, dir);
                unmap_sg(dma_device, data, dir);
            }
        }
    }

    /// First SGE of a context of SGEs.
    #[inline]
    fn sges(&self) -> *mut bindings::ib_sge {
        // SAFETY: By the type invariant. A context has at least one work request.
        unsafe {
            if OWN_FORMS || self.is_in_place() {
                (*self.rdma_wrs().0).wr.sg_list
            } else {
                self.map().0
            }
        }
    }

    /// SGEs and work requests of a context of several, as far as they are allocations of their own.
    #[inline]
    fn map(&self) -> (*mut bindings::ib_sge, *mut bindings::ib_rdma_wr) {
        // SAFETY: By the type invariant.
        unsafe {
            let map = &raw const (*self.raw.as_ptr()).__bindgen_anon_1.map;

            ((*map).sges, (*map).wrs)
        }
    }

    /// The scatterlist that the context owns, if any.
    #[inline]
    fn table(&mut self) -> Option<bindings::sg_table> {
        match (self.tag, self.regs().first()) {
            (Tag::Registered, Some(reg)) if !reg.sgt.sgl.is_null() => Some(reg.sgt),
            _ => None,
        }
    }

    /// Gives all MRs of a context of registrations back.
    ///
    /// # Safety
    ///
    /// The device must be done with the context, nobody may use it any more, and `qp` must be that
    /// of its init.
    #[inline(always)]
    unsafe fn put_mrs(&mut self, qp: &Qp) {
        let kind = match self.tag {
            Tag::Signature => Kind::Integrity,
            _ => Kind::Data,
        };

        for reg in self.regs().iter() {
            // SAFETY: By this function's safety requirement.
            unsafe { registered::put(qp, kind, reg) };
        }
    }

    /// Releases a context of registrations that owns no scatterlist.
    ///
    /// # Safety
    ///
    /// As for [`Context::put_mrs`].
    #[inline(always)]
    unsafe fn release_regs(mut self, qp: &Qp) {
        // SAFETY: By this function's safety requirement; by the type invariant the registrations are
        // an allocation.
        unsafe {
            self.put_mrs(qp);
            kfree(self.regs().as_mut_ptr());
        }
    }

    /// Releases a context of registrations that owns this scatterlist.
    ///
    /// # Safety
    ///
    /// As for [`Context::put_mrs`]; `dir` must be that of the context's init.
    #[inline(always)]
    unsafe fn release_regs_and(mut self, qp: &Qp, table: bindings::sg_table, dir: Direction) {
        // SAFETY: By this function's safety requirement; by the type invariant the registrations are
        // an allocation, or lie in that of the list.
        unsafe {
            let in_list = OWN_FORMS && (*Origin::place(self.raw.as_ptr())).nents == 0;
            let regs = self.regs().as_mut_ptr();

            self.put_mrs(qp);
            registered::release_table(qp.device(), dir, table);
            if !in_list {
                kfree(regs);
            }
        }
    }

    /// Unlinks and frees the IOVA range.
    ///
    /// # Safety
    ///
    /// The device must be done with the context, and be the one of its init, as must `dir`.
    #[inline]
    unsafe fn release_iova(self, device: &Device, dir: Direction) {
        #[cfg(CONFIG_IOMMU_DMA)]
        if let Some(dma_device) = device.dma_device() {
            // SAFETY: By the type invariant this is the member in use, and its range was kept.
            drop(unsafe {
                let iova = &raw const (*self.raw.as_ptr()).__bindgen_anon_1.iova;

                super::iova::Range::from_kept(dma_device, (*iova).state, (*iova).mapped_len, dir)
            });
        }
        #[cfg(not(CONFIG_IOMMU_DMA))]
        let _ = (device, dir);
    }
}

/// Frees the SGEs of a context with one work request, if they are an allocation.
///
/// # Safety
///
/// The member must be in use, and nobody may look at its SGEs any more.
#[inline(always)]
unsafe fn free_sges(in_place: *mut InPlace) {
    // SAFETY: By this function's safety requirement.
    unsafe {
        if !has_its_sges(in_place) {
            kfree((*in_place).wr.wr.sg_list);
        }
    }
}

/// Whether the SGEs are in the context with their work request, and not an allocation.
///
/// # Safety
///
/// The member must be in use.
#[inline(always)]
unsafe fn has_its_sges(in_place: *mut InPlace) -> bool {
    // SAFETY: By this function's safety requirement.
    let sges = unsafe { (*in_place).wr.wr.sg_list };

    // SAFETY: As above.
    !OWN_FORMS || ptr::eq(sges, unsafe { &raw const (*in_place).sges }.cast())
}

/// Ends a chain of work requests. Whatever an earlier end has left is overwritten.
///
/// # Safety
///
/// `last` must be valid.
#[inline]
unsafe fn end_chain(
    last: *mut bindings::ib_send_wr,
    next: *mut bindings::ib_send_wr,
    cqe: *mut bindings::ib_cqe,
    flags: bindings::ib_send_flags,
) {
    // SAFETY: By this function's safety requirement.
    unsafe {
        (*last).next = next;
        (*last).__bindgen_anon_1.wr_cqe = cqe;
        (*last).send_flags = flags;
    }
}

/// Unmaps the list of a context that has a note of one, or seems to. Where there is C beside this,
/// the note may be of an older context, which C has written over: the caller's word counts.
///
/// # Safety
///
/// `list`, and that of the note where there is no C, must be that of the context's init, which must
/// still be there, mapped for this device and direction.
#[inline(always)]
unsafe fn unmap_list(
    raw: *mut bindings::rdma_rw_ctx,
    device: &Device,
    list: RawList,
    dir: Direction,
) {
    // SAFETY: By this function's safety requirement. A note has what a list has told.
    unsafe {
        #[cfg(rdma_rw_takeover)]
        {
            let _ = raw;
            if let Ok(list) = SgSource::from_raw(list.0, list.1) {
                drop(MappedSg::from_kept(device, list, dir));
            }
        }
        #[cfg(not(rdma_rw_takeover))]
        {
            let _ = list;
            let origin = Origin::place(raw).read_unaligned();
            let list = SgSource::from_parts(origin.list, origin.nents);

            drop(MappedSg::from_kept(device, list, dir));
        }
    }
}

/// Unmaps a caller's list that init mapped.
///
/// # Safety
///
/// The list must be null, empty, or mapped for this device and direction.
#[inline]
unsafe fn unmap_sg(dma_device: DmaDevice, list: RawList, dir: Direction) {
    let (list, nents) = list;
    let Ok(nents) = i32::try_from(nents) else {
        return;
    };

    if !list.is_null() && nents != 0 {
        // SAFETY: By this function's safety requirement.
        unsafe {
            bindings::dma_unmap_sg_attrs(dma_device.as_raw(), list, nents, dir.as_raw(), 0);
        }
    }
}
