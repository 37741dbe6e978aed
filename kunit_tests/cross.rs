// SPDX-License-Identifier: GPL-2.0

//! Contexts that go from one implementation to the other, as they do when a running kernel is
//! switched over: of every tag, made, chained or posted, and released by what ib_core exports and
//! by the C original in all combinations.
//!
//! The module that takes over from C knows all of these. The form within ib_core has no C beside
//! it: it takes every context that it is to release for one of its own, and writes some in a way
//! that C does not know.

use core::ptr;

use kernel::prelude::*;

use crate::api::{
    Api,
    EXPORTED,
    REFEREE, //
};
use crate::bindings;
use crate::ctx::{
    atomically,
    chain,
    post_chain,
    Ctx,
    Dir,
    Tag, //
};
use crate::kunit::{
    Param,
    Test, //
};
use crate::lists::{
    bvec_iter,
    is_pattern,
    Local,
    SgList,
    Shape, //
};
use crate::mock::{
    Dma,
    Profile,
    PAGE,
    REMOTE_ADDR, //
};
use crate::rig::{
    QpSpec,
    Rig, //
};
use crate::target::{
    self,
    none, //
};

use Dir::{
    Read,
    Write, //
};
use Shape::{
    Each,
    Pages, //
};

/// A combination of implementations.
struct Crossing {
    name: &'static str,
    api: Api,
    /// The referee makes.
    referee_makes: bool,
    /// The referee chains.
    referee_chains: bool,
    /// The referee releases.
    referee_releases: bool,
}

impl Crossing {
    /// Whether both have a part in it.
    fn is_mixed(&self) -> bool {
        self.referee_makes != self.referee_chains || self.referee_chains != self.referee_releases
    }
}

/// A combination by its three implementations.
macro_rules! crossing {
    (@is_referee REFEREE) => {
        true
    };
    (@is_referee EXPORTED) => {
        false
    };
    ($makes:ident, $chains:ident, $releases:ident) => {
        Crossing {
            name: concat!(
                stringify!($makes),
                ", ",
                stringify!($chains),
                ", ",
                stringify!($releases)
            ),
            api: Api::of(&$makes, &$chains, &$releases),
            referee_makes: crossing!(@is_referee $makes),
            referee_chains: crossing!(@is_referee $chains),
            referee_releases: crossing!(@is_referee $releases),
        }
    };
}

static CROSSINGS: [Crossing; 8] = [
    crossing!(REFEREE, REFEREE, REFEREE),
    crossing!(EXPORTED, EXPORTED, EXPORTED),
    crossing!(REFEREE, REFEREE, EXPORTED),
    crossing!(REFEREE, EXPORTED, REFEREE),
    crossing!(REFEREE, EXPORTED, EXPORTED),
    crossing!(EXPORTED, REFEREE, REFEREE),
    crossing!(EXPORTED, REFEREE, EXPORTED),
    crossing!(EXPORTED, EXPORTED, REFEREE),
];

/// What the exported functions are.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Exported {
    /// Those of rw.c.
    C,
    /// Those of this project within ib_core.
    Rust,
    /// Those of this project's module, which has taken over from the former.
    Takeover,
}

impl Exported {
    /// Finds out by a READ on an iWARP port, which is registered: this project names the key that
    /// the MR is going to have, C the one that it has.
    fn get() -> Result<Self> {
        if target::get()?.is_rust() {
            return Ok(Self::Rust);
        }

        let rig = Rig::new(SIW, QpSpec::of(&SIW, 1))?;
        let local = Local::new(&rig.mock, Pages(1))?;
        let list = local.sg()?;
        let mut ctx = Ctx::new(&rig.qp)?;

        ctx.init(&list, 0, REMOTE_ADDR, Read)?;
        let mr = ctx.mr(0);
        // SAFETY: The context has a registration, with an MR that is its own.
        let ahead = unsafe {
            let reg = (*ctx.as_raw()).__bindgen_anon_1.reg;

            (*reg).wr.wr.ex.invalidate_rkey != (*mr).lkey
        };
        Ok(if ahead { Self::Takeover } else { Self::C })
    }
}

/// How local memory is handed over.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    /// A scatterlist.
    Sg,
    /// An array of `bio_vec`.
    Bvec,
    /// A scatterlist with protection information.
    Signature,
}

/// What C makes of the memory of a kind of context.
#[derive(Clone, Copy, PartialEq, Eq)]
enum InC {
    /// The same.
    Same,
    /// An error, `EINVAL`.
    Refused,
    /// What no test should see: a complaint of the kernel, or of the device.
    Untried,
}

/// A kind of context.
pub(crate) struct Kind {
    name: &'static str,
    profile: Profile,
    dir: Dir,
    shape: Shape,
    form: Form,
    tag: Tag,
    /// With `force_mr`.
    forced: Tag,
    in_c: InC,
    /// Entries at the end of the memory that are not transferred.
    spare: u32,
}

impl Param for Kind {
    fn name(&self) -> &'static str {
        self.name
    }
}

const fn kind(
    name: &'static str,
    profile: Profile,
    (dir, form): (Dir, Form),
    shape: Shape,
    tag: Tag,
) -> Kind {
    Kind {
        name,
        profile,
        dir,
        shape,
        form,
        tag,
        forced: match form {
            Form::Signature => Tag::Signature,
            Form::Sg | Form::Bvec => Tag::Mr,
        },
        in_c: InC::Same,
        spare: 0,
    }
}

impl Kind {
    /// Over memory that C refuses: what it never makes, it has to chain and release.
    const fn refused(mut self) -> Self {
        self.in_c = InC::Refused;
        self
    }

    /// Over memory that C is better not asked to make a context of.
    const fn untried(mut self) -> Self {
        self.in_c = InC::Untried;
        self
    }

    /// With so many entries at the end of the memory that are not transferred.
    const fn spare(mut self, entries: u32) -> Self {
        self.spare = entries;
        self
    }
}

const RXE: Profile = Profile::RXE;
const SIW: Profile = Profile::SIW.mr_pages(2);
const MLX5: Profile = Profile::MLX5;
/// DMA that knows all mappings.
const OURS: Dma = Dma::Ours { coalesce: false };
/// The same, making one entry of adjacent pages.
const COALESCED: Dma = Dma::Ours { coalesce: true };

/// Entries with gaps between them.
const GAPS: Shape = Each(4, (512, 512));

const SG_WRITE: (Dir, Form) = (Write, Form::Sg);
const SG_READ: (Dir, Form) = (Read, Form::Sg);
const BVEC_WRITE: (Dir, Form) = (Write, Form::Bvec);
const BVEC_READ: (Dir, Form) = (Read, Form::Bvec);
const SIG_WRITE: (Dir, Form) = (Write, Form::Signature);
const SIG_READ: (Dir, Form) = (Read, Form::Signature);

#[rustfmt::skip]
pub(crate) static KINDS: &[Kind] = &[
    kind("sg, single, WRITE", RXE, SG_WRITE, Pages(1), Tag::Single),
    kind("sg, single, READ", RXE, SG_READ, Pages(1), Tag::Single),
    kind("sg, multi, WRITE", SIW, SG_WRITE, Pages(8), Tag::Multi),
    kind("sg, multi, READ", RXE, SG_READ, Pages(40), Tag::Multi),
    kind("sg, MR, READ", SIW, SG_READ, Pages(5), Tag::Mr),
    kind("sg, MR preferred", MLX5, SG_READ, Pages(20), Tag::Mr),
    kind("bvec, single, WRITE", RXE, BVEC_WRITE, Pages(1), Tag::Single),
    kind("bvec, single, READ", RXE, BVEC_READ, Pages(1), Tag::Single),
    kind("bvec, multi, WRITE", SIW, BVEC_WRITE, Pages(8), Tag::Multi),
    kind("bvec, multi, READ", RXE, BVEC_READ, Pages(40), Tag::Multi),
    kind("bvec, MR, READ", SIW, BVEC_READ, Pages(5), Tag::Mr),
    kind("signature, WRITE", MLX5, SIG_WRITE, Pages(2), Tag::Signature),
    kind("signature, READ", MLX5, SIG_READ, Pages(2), Tag::Signature),
    kind("DMA: sg, single", RXE.dma(OURS), SG_READ, Pages(1), Tag::Single),
    kind("DMA: sg, multi", RXE.dma(OURS), SG_WRITE, Pages(40), Tag::Multi),
    kind("DMA: sg, MR", SIW.dma(OURS), SG_READ, Pages(5), Tag::Mr),
    kind("DMA: bvec, single", RXE.dma(OURS), BVEC_READ, Pages(1), Tag::Single),
    kind("DMA: bvec, multi", RXE.dma(OURS), BVEC_WRITE, Pages(40), Tag::Multi),
    kind("DMA: bvec, MR", SIW.dma(OURS), BVEC_READ, Pages(5), Tag::Mr),
    kind("DMA: signature", MLX5.dma(OURS), SIG_READ, Pages(2), Tag::Signature),
    kind("IOMMU: sg, multi", RXE.dma(Dma::Pci), SG_READ, Pages(17), Tag::Multi),
    kind("IOMMU: bvec, single", RXE.dma(Dma::Pci), BVEC_READ, Pages(1), Tag::Single),
    kind("IOMMU: bvec, range, WRITE", RXE.dma(Dma::Pci), BVEC_WRITE, Pages(9), Tag::Iova),
    kind("IOMMU: bvec, range, READ", RXE.dma(Dma::Pci), BVEC_READ, Pages(9), Tag::Iova),
    kind("IOMMU: sg, MR", Profile::SIW.dma(Dma::Pci), SG_READ, Pages(5), Tag::Mr),
    kind("IOMMU: bvec, MR", Profile::SIW.dma(Dma::Pci), BVEC_READ, Pages(5), Tag::Mr),
    // An array that is longer than its transfer: C releases as many SGEs as it has entries.
    kind("D8: bvec, multi", RXE, BVEC_READ, Pages(40), Tag::Multi).spare(7).untried(),
    kind("D8: DMA: bvec, multi", RXE.dma(OURS), BVEC_WRITE, Pages(40), Tag::Multi)
        .spare(7)
        .untried(),
    kind("D8: DMA: bvec, MR", SIW.dma(OURS), BVEC_READ, Pages(6), Tag::Mr).spare(1).untried(),
    // Entries of more pages than an MR has.
    kind("D11: sg, MR", SIW, SG_READ, Each(2, (0, 3 * PAGE)), Tag::Mr).refused(),
    kind("D11: DMA: bvec, MR", SIW.dma(OURS), BVEC_READ, Each(2, (0, 3 * PAGE)), Tag::Mr).refused(),
    kind("D11: IOMMU: sg, MR", SIW.dma(Dma::Pci), SG_READ, Pages(5), Tag::Mr).refused(),
    kind("D11: IOMMU: bvec, MR", SIW.dma(Dma::Pci), BVEC_READ, Pages(5), Tag::Mr).refused(),
    // Entries that do not end or begin with a page.
    kind("D12: sg, MR", Profile::SIW, SG_READ, GAPS, Tag::Mr).refused(),
    kind("D12: DMA: bvec, MR", Profile::SIW.dma(OURS), BVEC_READ, GAPS, Tag::Mr).refused(),
    // No range takes them.
    kind("D13: IOMMU: bvec, multi", RXE.dma(Dma::Pci), BVEC_WRITE, GAPS, Tag::Multi).untried(),
    // Entries that DMA makes fewer.
    kind("D15: signature", MLX5.pi_pages(4).dma(COALESCED), SIG_WRITE, Pages(8), Tag::Signature)
        .refused(),
];

/// What becomes of a context between its init and its destroy.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Life {
    /// Nothing.
    Idle,
    /// It is chained, and its caller posts the chain.
    Run,
    /// It is posted.
    Posted,
}

/// Seeds of the two sides.
const HERE: u64 = 21;
const THERE: u64 = 22;

/// Bytes of data that a piece of protection information stands for, and its own.
const INTERVAL: u32 = 512;
const PI: u32 = 8;

/// Local memory, and what it is handed over as.
struct Memory<'a> {
    data: Local<'a>,
    /// Bytes of it that are transferred.
    len: u64,
    list: SgList,
    bvecs: KVVec<bindings::bio_vec>,
    prot: SgList,
    prot_len: u64,
    _prot: Local<'a>,
}

impl<'a> Memory<'a> {
    fn new(rig: &'a Rig, kind: &Kind) -> Result<Self> {
        let data = Local::new(&rig.mock, kind.shape)?;
        let spare = data.len() / u64::from(data.nents()) * u64::from(kind.spare);
        // CAST: Tests do not move that much.
        let prot_len = data.len() as u32 / INTERVAL * PI;
        let prot = Local::new(&rig.mock, Each(1, (0, prot_len.max(PI))))?;

        Ok(Self {
            list: data.sg()?,
            bvecs: data.bvecs()?,
            len: data.len() - spare,
            data,
            prot: prot.sg()?,
            prot_len: prot_len.into(),
            _prot: prot,
        })
    }
}

/// Makes a context of a kind.
fn make(ctx: &mut Ctx<'_>, kind: &Kind, memory: &Memory<'_>) -> Result<u32> {
    match kind.form {
        Form::Sg => ctx.init(&memory.list, 0, REMOTE_ADDR, kind.dir),
        Form::Bvec => ctx.init_bvec(
            &memory.bvecs,
            bvec_iter(0, 0, memory.len),
            REMOTE_ADDR,
            kind.dir,
        ),
        Form::Signature => {
            // SAFETY: All members are numbers.
            let mut attrs: bindings::ib_sig_attrs = unsafe { core::mem::zeroed() };
            let t10_dif = bindings::ib_signature_type_IB_SIG_TYPE_T10_DIF;

            attrs.mem.sig_type = t10_dif;
            attrs.mem.sig.dif.pi_interval = INTERVAL as u16;
            attrs.wire.sig_type = t10_dif;
            attrs.wire.sig.dif.pi_interval = INTERVAL as u16;
            ctx.init_signature(
                &memory.list,
                Some(&memory.prot),
                &mut attrs,
                REMOTE_ADDR,
                kind.dir,
            )
        }
    }
}

/// A device for a kind of context; none where this kernel or machine has no such.
fn rig(kind: &Kind) -> Result<Option<Rig>> {
    let mut spec = QpSpec::of(&kind.profile, 4);

    if kind.form == Form::Signature {
        spec = spec.integrity();
    }
    match Rig::new(kind.profile, spec) {
        Err(e) if e == EOPNOTSUPP => Ok(None),
        rig => rig.map(Some),
    }
}

/// All combinations, one after the other on the same queue pair.
pub(crate) fn crossed(test: &Test, kind: &Kind) -> Result {
    let target = target::get()?;
    let exported = Exported::get()?;
    let Some(rig) = rig(kind)? else {
        return test.skip(c"this kernel or machine has no such DMA");
    };
    if kind.in_c == InC::Untried && exported == Exported::C {
        return test.skip(c"rw.c makes something else of that");
    }
    if kind.spare != 0 && exported == Exported::Rust {
        return test.skip(c"ib_core has no C beside it that looks at all of the array");
    }
    let mut memory = Memory::new(&rig, kind)?;

    // SAFETY: No context of the referee exists.
    unsafe { bindings::rdma_rw_referee_set_force_mr(target.force_mr) };
    // What the form within ib_core writes as C does not.
    let alone = match target.pick((kind.tag, kind.forced)) {
        Tag::Single | Tag::Multi => true,
        Tag::Mr => kind.form == Form::Bvec,
        _ => false,
    };
    for crossing in &CROSSINGS {
        let c_makes = crossing.referee_makes || exported == Exported::C;
        let c_chains = crossing.referee_chains || exported == Exported::C;

        match kind.in_c {
            InC::Refused if c_makes => {
                refused(test, &rig, kind, &memory, crossing)?;
                continue;
            }
            InC::Untried if c_makes => continue,
            InC::Same | InC::Refused | InC::Untried => {}
        }
        let adopts = crossing.referee_makes && !crossing.referee_releases;
        if exported == Exported::Rust && (adopts || crossing.is_mixed() && alone) {
            continue;
        }
        // Where all that counts is C, a READ names an old key to be invalidated.
        rig.mock.invalidate_by_sge(c_makes && c_chains);
        for life in [Life::Idle, Life::Run, Life::Posted] {
            live(test, &rig, kind, &mut memory, crossing, life)?;
        }
    }
    drop(memory);
    rig.finish(test);
    Ok(())
}

/// A context that C does not make.
fn refused(
    test: &Test,
    rig: &Rig,
    kind: &Kind,
    memory: &Memory<'_>,
    crossing: &'static Crossing,
) -> Result {
    let mut ctx = Ctx::of(&crossing.api, &rig.qp)?;
    let made = make(&mut ctx, kind, memory);

    test.expect(
        made == Err(EINVAL),
        fmt!("{}: it is {made:?} in C", crossing.name),
    );
    Ok(())
}

/// One life of a context.
fn live(
    test: &Test,
    rig: &Rig,
    kind: &Kind,
    memory: &mut Memory<'_>,
    crossing: &'static Crossing,
    life: Life,
) -> Result {
    let tag = target::get()?.pick((kind.tag, kind.forced));
    let len = memory.len;
    let on_wire = match kind.form {
        Form::Signature => len + memory.prot_len,
        Form::Sg | Form::Bvec => len,
    };
    // SAFETY: Zeroes are no function.
    let mut cqe: bindings::ib_cqe = unsafe { core::mem::zeroed() };
    let before = rig.mock.counts();
    let good = |holds: bool, what: &str| {
        test.expect(holds, fmt!("{}, {life:?}: {what}", crossing.name));
    };

    memory.data.poison();
    if kind.dir == Write {
        memory.data.fill(HERE);
    }
    rig.mock.fill_remote(on_wire as usize, THERE)?;

    let mut ctx = Ctx::of(&crossing.api, &rig.qp)?;
    let wrs = make(&mut ctx, kind, memory)?;
    good(ctx.tag() == tag, "it has another tag");

    let moved = match life {
        Life::Idle => 0,
        Life::Run => {
            let first = ctx.wrs(&mut cqe, none());

            good(
                chain(first).count() == wrs as usize,
                "the chain has another length",
            );
            post_chain(&rig.qp, first)?;
            on_wire
        }
        Life::Posted => {
            ctx.post(&mut cqe, none())?;
            on_wire
        }
    };
    if let (_, Some(fault)) = rig.mock.take_faults() {
        test.fail(fmt!(
            "{}, {life:?}: {} ({:#x})",
            crossing.name,
            fault.what,
            fault.value
        ));
    }
    let completed = rig.mock.take_completed()?;
    good(
        completed.len() == usize::from(moved != 0)
            && completed.iter().all(|c| c.ok && ptr::eq(c.cqe, &cqe)),
        "it does not complete as it should",
    );
    good(
        rig.mock.counts().bytes - before.bytes == moved,
        "another number of bytes is moved",
    );
    ctx.destroy();
    good(rig.qp.mrs_used() == 0, "an MR is missing");
    good(rig.mock.live_mappings() == 0, "a mapping is left");

    if moved != 0 && kind.form != Form::Signature {
        let arrived = match kind.dir {
            Write => rig
                .mock
                .with_remote(|remote| is_pattern(HERE, 0, &remote[..len as usize])),
            Read => memory.data.holds(THERE, 0, len),
        };
        good(arrived, "other bytes arrive");
    }
    Ok(())
}

/// A post that fails.
pub(crate) struct Failing {
    name: &'static str,
    /// C makes the context.
    c_makes: bool,
    /// C posts it again.
    c_posts: bool,
}

impl Param for Failing {
    fn name(&self) -> &'static str {
        self.name
    }
}

const fn failing(name: &'static str, c_makes: bool, c_posts: bool) -> Failing {
    Failing {
        name,
        c_makes,
        c_posts,
    }
}

pub(crate) static FAILING: &[Failing] = &[
    failing("made here, posted again here", false, false),
    failing("made here, posted again by C", false, true),
    failing("made by C, posted again here", true, false),
    failing("made by C, posted again by C", true, true),
];

/// A post of what ib_core exports that fails at any work request, and another one after it: C's init
/// is not there to say what that needs.
pub(crate) fn crossed_again(test: &Test, case: &Failing) -> Result {
    let target = target::get()?;
    match Exported::get()? {
        Exported::C => return test.skip(c"in C MRs are lost to a post that fails"),
        Exported::Rust if case.c_makes => return test.skip(c"ib_core has no C beside it"),
        Exported::Rust | Exported::Takeover => {}
    }
    let kind = kind("", SIW, SG_READ, Pages(5), Tag::Mr);
    let rig = Rig::new(SIW, QpSpec::of(&SIW, 4))?;
    let mut memory = Memory::new(&rig, &kind)?;
    let api = match case.c_makes {
        false => &CROSSINGS[1].api,
        true => &CROSSINGS[4].api,
    };
    // SAFETY: Zeroes are no function.
    let mut cqe: bindings::ib_cqe = unsafe { core::mem::zeroed() };

    // SAFETY: No context of the referee exists.
    unsafe { bindings::rdma_rw_referee_set_force_mr(target.force_mr) };
    // Three MRs that were never registered: a registration and a READ each.
    for stop in 0..6 {
        memory.data.poison();
        rig.mock.fill_remote(memory.data.len() as usize, THERE)?;

        let mut ctx = Ctx::of(api, &rig.qp)?;
        make(&mut ctx, &kind, &memory)?;
        rig.mock.invalidate_by_sge(false);
        rig.mock.plan(|plan| plan.post_after = Some(stop));
        test.expect_eq("the post", ctx.post(&mut cqe, none()), Err(ENOMEM));
        rig.mock.clear_plan();
        rig.mock.take_completed()?;

        let again = if case.c_posts {
            // C goes on from the key, and leaves the one to be invalidated behind.
            rig.mock.invalidate_by_sge(true);
            let (raw, qp) = (ctx.as_raw(), rig.qp.as_raw());

            // SAFETY: A context that was made for this queue pair.
            kernel::error::to_result(atomically(|| unsafe {
                (REFEREE.post)(raw, qp, 1, &mut cqe, none())
            }))
        } else {
            ctx.post(&mut cqe, none())
        };
        test.expect_eq("the second post", again, Ok(()));
        if let (_, Some(fault)) = rig.mock.take_faults() {
            test.fail(fmt!(
                "after a post that took {stop}: {} ({:#x})",
                fault.what,
                fault.value
            ));
        }
        let completed = rig.mock.take_completed()?;
        test.expect(
            completed.len() == 1 && completed.iter().all(|c| c.ok && ptr::eq(c.cqe, &cqe)),
            fmt!("after a post that took {stop} it does not complete as it should"),
        );
        ctx.destroy();
        let len = memory.data.len();
        test.expect(
            memory.data.holds(THERE, 0, len),
            fmt!("after a post that took {stop} other bytes arrive"),
        );
    }
    drop(memory);
    rig.finish(test);
    Ok(())
}

/// Kinds of contexts whose memory is used again and again, for other transfers.
#[rustfmt::skip]
pub(crate) static REUSED: &[Kind] = &[
    kind("single", RXE.dma(OURS), SG_WRITE, Pages(1), Tag::Single),
    kind("multi", RXE.dma(OURS), SG_WRITE, Pages(200), Tag::Multi),
    kind("MR", SIW.dma(OURS), SG_READ, Pages(1), Tag::Mr),
    kind("MRs", SIW.dma(OURS), SG_READ, Pages(5), Tag::Mr),
];

/// A context of ours and, after it, one of C in the same place and, as it happens, with the same
/// allocations: what the former has left there says nothing of the latter.
pub(crate) fn crossed_reuse(test: &Test, kind: &Kind) -> Result {
    let target = target::get()?;
    if Exported::get()? == Exported::Rust {
        return test.skip(c"ib_core has no C beside it");
    }
    let Some(rig) = rig(kind)? else {
        return test.skip(c"this kernel or machine has no such DMA");
    };
    let (ours, theirs) = (Memory::new(&rig, kind)?, Memory::new(&rig, kind)?);

    // SAFETY: No context of the referee exists.
    unsafe { bindings::rdma_rw_referee_set_force_mr(target.force_mr) };
    // Ours is released here, and by C.
    for made_here in [&CROSSINGS[1], &CROSSINGS[5]] {
        let mut ctx = Ctx::of(&made_here.api, &rig.qp)?;

        for _ in 0..8 {
            for (crossing, memory) in [(made_here, &ours), (&CROSSINGS[4], &theirs)] {
                ctx.turn_to(&crossing.api);
                make(&mut ctx, kind, memory)?;
                ctx.destroy();
            }
            test.expect_eq("mappings that are left", rig.mock.live_mappings(), 0);
        }
    }
    drop((ours, theirs));
    rig.finish(test);
    Ok(())
}
