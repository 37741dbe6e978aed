// SPDX-License-Identifier: GPL-2.0

//! Inits that fail, at every operation in turn until none is left to fail: the right error, nothing
//! left behind, and a context that is good for the next try.

use kernel::prelude::*;

use crate::bindings;
use crate::ctx::{
    Ctx,
    Dir,
    Tag, //
};
use crate::kunit::{
    expect_no_growth,
    slab_pages,
    slab_slack,
    Param,
    Test,
    LEAKS_SHOW, //
};
use crate::lists::{
    bvec_iter,
    Local,
    SgList,
    Shape, //
};
use crate::mock::{
    BadMap,
    Dma,
    Profile,
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

/// How local memory is handed over.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    /// A scatterlist.
    Sg,
    /// An array of `bio_vec`.
    Bvec,
    /// Two scatterlists, of data and of protection information.
    Signature,
}

/// An init.
pub(crate) struct Case {
    name: &'static str,
    profile: Profile,
    form: Form,
    dir: Dir,
    shape: Shape,
    /// MRs it takes, without `force_mr`, and with.
    mrs: (u32, u32),
    /// It can do without, without `force_mr`.
    optional: bool,
    /// DMA mappings it makes, without `force_mr`, and with.
    maps: (u32, u32),
}

impl Param for Case {
    fn name(&self) -> &'static str {
        self.name
    }
}

/// An init that takes so many MRs and makes so many mappings.
const fn case(
    name: &'static str,
    profile: Profile,
    form: Form,
    dir: Dir,
    shape: Shape,
    mrs: (u32, u32),
    maps: (u32, u32),
) -> Case {
    Case {
        name,
        profile,
        form,
        dir,
        shape,
        mrs,
        optional: false,
        maps,
    }
}

/// The same, of one that can do without MRs.
const fn optional(this: Case) -> Case {
    Case {
        optional: true,
        ..this
    }
}

use Form::{
    Bvec,
    Sg,
    Signature, //
};

const RXE: Profile = Profile::RXE;
const SIW: Profile = Profile::SIW.mr_pages(4);
const MLX5: Profile = Profile::MLX5.mr_pages(10);
/// Of MRs that take all that an IOMMU makes of a list.
const MLX5_PCI: Profile = Profile::MLX5.dma(PCI);
const OURS: Dma = Dma::Ours { coalesce: false };
const PCI: Dma = Dma::Pci;
/// Entries that no IOMMU makes one of, nor takes into one range.
const APART: Shape = Each(20, (512, 512));

#[rustfmt::skip]
pub(crate) static INITS: &[Case] = &[
    case("sg single", RXE, Sg, Write, Pages(1), (0, 1), (0, 0)),
    case("sg multi", RXE, Sg, Read, Pages(70), (0, 1), (0, 0)),
    case("sg MR", SIW, Sg, Read, Pages(1), (1, 1), (0, 0)),
    case("sg MRs", SIW, Sg, Read, Pages(10), (3, 3), (0, 0)),
    optional(case("sg MRs it can do without", MLX5, Sg, Read, Pages(20), (2, 2), (0, 0))),
    case("bvec single", RXE, Bvec, Write, Pages(1), (0, 1), (0, 0)),
    case("bvec multi", RXE, Bvec, Read, Pages(70), (0, 1), (0, 0)),
    case("bvec MR", SIW, Bvec, Read, Pages(1), (1, 1), (0, 0)),
    case("bvec MRs", SIW, Bvec, Read, Pages(10), (3, 3), (0, 0)),
    case("signature", MLX5, Signature, Write, Pages(4), (1, 1), (0, 0)),
    case("DMA: sg single", RXE.dma(OURS), Sg, Read, Pages(1), (0, 1), (1, 1)),
    case("DMA: sg multi", RXE.dma(OURS), Sg, Write, Pages(70), (0, 1), (1, 1)),
    case("DMA: sg MRs", SIW.dma(OURS), Sg, Read, Pages(10), (3, 3), (1, 1)),
    optional(case("DMA: sg MRs it can do without", MLX5.dma(OURS), Sg, Read, Pages(20), (2, 2), (1, 1))),
    case("DMA: bvec single", RXE.dma(OURS), Bvec, Read, Pages(1), (0, 1), (1, 1)),
    case("DMA: bvec multi", RXE.dma(OURS), Bvec, Write, Pages(40), (0, 1), (40, 1)),
    case("DMA: bvec MRs", SIW.dma(OURS), Bvec, Read, Pages(10), (3, 3), (1, 1)),
    case("DMA: signature", MLX5.dma(OURS), Signature, Read, Pages(4), (1, 1), (2, 2)),
    case("IOMMU: sg single", MLX5_PCI, Sg, Read, Pages(1), (0, 1), (0, 0)),
    case("IOMMU: sg multi", MLX5_PCI.max_sgl_rd(0), Sg, Read, Pages(32), (0, 1), (0, 0)),
    case("IOMMU: sg MR", SIW.dma(PCI), Sg, Read, Pages(4), (1, 1), (0, 0)),
    case("IOMMU: bvec single", MLX5_PCI, Bvec, Read, Pages(1), (0, 1), (0, 0)),
    case("IOMMU: bvec range", MLX5_PCI, Bvec, Write, Pages(40), (0, 1), (0, 0)),
    case("IOMMU: bvec MR", SIW.dma(PCI), Bvec, Read, Pages(4), (1, 1), (0, 0)),
    case("IOMMU: signature", MLX5_PCI, Signature, Read, Pages(4), (1, 1), (0, 0)),
];

/// Why a case cannot run where there is no such DMA.
const NO_DMA: &core::ffi::CStr = c"this kernel or machine has no such DMA";

/// What the inits of a case work on.
struct Work<'a> {
    case: &'a Case,
    rig: &'a Rig,
    local: Local<'a>,
    list: SgList,
    bvecs: KVVec<bindings::bio_vec>,
    _prot: Local<'a>,
    prot_list: SgList,
    attrs: bindings::ib_sig_attrs,
    /// MRs it takes.
    mrs: u32,
    /// It can do without.
    optional: bool,
    /// DMA mappings it makes.
    maps: u32,
}

/// A device and a queue pair with just as many MRs as the init takes.
fn rig(case: &Case) -> Result<Option<Rig>> {
    let mut spec = QpSpec::of(&case.profile, 8);
    spec.integrity = case.form == Signature;

    match Rig::new(case.profile, spec) {
        Err(e) if e == EOPNOTSUPP => Ok(None),
        rig => rig.map(Some),
    }
}

impl<'a> Work<'a> {
    fn new(case: &'a Case, rig: &'a Rig) -> Result<Self> {
        let target = target::get()?;
        let local = Local::new(&rig.mock, case.shape)?;
        let prot = Local::new(&rig.mock, Each(1, (0, 256)))?;
        let (list, bvecs, prot_list) = (local.sg()?, local.bvecs()?, prot.sg()?);

        rig.mock.fill_remote(local.len() as usize, THERE)?;
        Ok(Self {
            case,
            rig,
            local,
            list,
            bvecs,
            _prot: prot,
            prot_list,
            // SAFETY: All members are numbers.
            attrs: unsafe { core::mem::zeroed() },
            mrs: target.pick(case.mrs),
            optional: case.optional && !target.force_mr,
            maps: target.pick(case.maps),
        })
    }

    /// The init.
    fn init(&mut self, ctx: &mut Ctx<'_>) -> Result<u32> {
        let dir = self.case.dir;

        match self.case.form {
            Sg => ctx.init(&self.list, 0, REMOTE_ADDR, dir),
            Bvec => ctx.init_bvec(
                &self.bvecs,
                bvec_iter(0, 0, self.local.len()),
                REMOTE_ADDR,
                dir,
            ),
            Signature => ctx.init_signature(
                &self.list,
                Some(&self.prot_list),
                &mut self.attrs,
                REMOTE_ADDR,
                dir,
            ),
        }
    }

    /// Expects an init to have left nothing behind.
    #[track_caller]
    fn expect_nothing_left(&self, test: &Test, k: u32) {
        test.expect(
            self.rig.mock.live_mappings() == 0,
            fmt!("mappings are left after failure {k}"),
        );
        test.expect(
            self.rig.qp.mrs_used() == 0,
            fmt!("MRs are out of the pool after failure {k}"),
        );
    }

    /// Expects a context to be good for a transfer.
    #[track_caller]
    fn expect_good(&mut self, test: &Test, ctx: &mut Ctx<'_>) -> Result {
        // SAFETY: Zeroes are no function.
        let mut cqe: bindings::ib_cqe = unsafe { core::mem::zeroed() };
        let made = self.init(ctx);

        self.local.poison();
        test.expect(made.is_ok(), fmt!("without a failure: {made:?}"));
        if made.is_err() {
            return Ok(());
        }
        test.expect_eq("the post", ctx.post(&mut cqe, none()), Ok(()));
        self.rig.expect_no_faults(test);
        ctx.destroy();
        if self.case.dir == Read {
            test.expect(
                self.local.holds(THERE, 0, self.local.len()),
                fmt!("other bytes have arrived"),
            );
        }
        Ok(())
    }
}

/// Seed of the remote side.
const THERE: u64 = 23;

/// Every DMA mapping fails in turn.
pub(crate) fn dma_fails(test: &Test, case: &Case) -> Result {
    if case.profile.dma != OURS {
        return test.skip(c"these mappings do not fail on demand");
    }
    let Some(rig) = rig(case)? else {
        return test.skip(NO_DMA);
    };
    let mut work = Work::new(case, &rig)?;
    let mut ctx = Ctx::new(&rig.qp)?;
    // A single piece knows no error but one; a list is told the reason.
    let errors = if work.maps > 1 && case.form == Bvec
        || case.mrs.0 == 0 && case.form == Bvec && !target::get()?.force_mr
    {
        [ENOMEM, ENOMEM]
    } else {
        [ENOMEM, EREMOTEIO]
    };

    for error in errors {
        for k in 1..=work.maps {
            rig.mock.plan(|plan| plan.map = Some((k, error)));
            test.expect_eq("the error", work.init(&mut ctx), Err(error));
            work.expect_nothing_left(test, k);
        }
    }
    // One more is not made.
    rig.mock
        .plan(|plan| plan.map = Some((work.maps + 1, ENOMEM)));
    let made = work.init(&mut ctx);
    test.expect(made.is_ok(), fmt!("there is a mapping more: {made:?}"));
    ctx.destroy();
    rig.mock.clear_plan();

    work.expect_good(test, &mut ctx)?;
    let counts = rig.mock.counts();
    test.expect_eq("lists unmapped", counts.unmap_sg, counts.map_sg);
    test.expect_eq("pieces unmapped", counts.unmap_phys, counts.map_phys);
    drop((ctx, work));
    rig.finish(test);
    Ok(())
}

/// Every MR is missing in turn.
pub(crate) fn no_mr(test: &Test, case: &Case) -> Result {
    let Some(rig) = rig(case)? else {
        return test.skip(NO_DMA);
    };
    let mut work = Work::new(case, &rig)?;
    let mut ctx = Ctx::new(&rig.qp)?;

    if work.mrs == 0 {
        // No MR is missed.
        let drained = rig.qp.drain(0)?;
        test.expect(work.init(&mut ctx).is_ok(), fmt!("an MR is missed"));
        ctx.destroy();
        drop(drained);
    }
    for left in 0..work.mrs {
        let drained = if case.form == Signature {
            rig.qp.drain_signature(left)?
        } else {
            rig.qp.drain(left)?
        };
        let taken = rig.qp.mrs_used();
        let made = work.init(&mut ctx);

        if work.optional {
            test.expect(made.is_ok(), fmt!("with {left} MRs left: {made:?}"));
            ctx.destroy();
        } else {
            test.expect_eq("the error", made, Err(EAGAIN));
        }
        test.expect_eq("MRs out of the pool", rig.qp.mrs_used(), taken);
        drop(drained);
        work.expect_nothing_left(test, left);
    }
    work.expect_good(test, &mut ctx)?;
    drop((ctx, work));
    rig.finish(test);
    Ok(())
}

/// The device does not take the memory into an MR, or not all of it, at every MR in turn.
pub(crate) fn mr_fails(test: &Test, case: &Case) -> Result {
    let Some(rig) = rig(case)? else {
        return test.skip(NO_DMA);
    };
    let mut work = Work::new(case, &rig)?;
    let mut ctx = Ctx::new(&rig.qp)?;
    let rust = target::get()?.is_rust();
    let bad = [
        BadMap::Error(ENOMEM),
        BadMap::Error(EINVAL),
        BadMap::Short(0),
    ];

    for bad in bad {
        for k in 1..=work.mrs {
            rig.mock.plan(|plan| plan.map_mr = Some((k, bad)));
            let want = match bad {
                // Without a list that is registered in parts, the device's word is passed on.
                BadMap::Error(e) if case.form == Signature => e,
                _ => EINVAL,
            };

            let made = work.init(&mut ctx);

            if work.optional && rust {
                test.expect(made.is_ok(), fmt!("without MR {k}: {made:?}"));
                ctx.destroy();
            } else {
                test.expect_eq("the error", made, Err(want));
            }
            rig.mock.clear_plan();
            work.expect_nothing_left(test, k);
        }
    }
    // One more is not asked for.
    rig.mock
        .plan(|plan| plan.map_mr = Some((work.mrs + 1, BadMap::Short(0))));
    let made = work.init(&mut ctx);
    test.expect(made.is_ok(), fmt!("there is an MR more: {made:?}"));
    ctx.destroy();
    rig.mock.clear_plan();
    work.expect_good(test, &mut ctx)?;
    drop((ctx, work));
    rig.finish(test);
    Ok(())
}

/// Every allocation of memory fails in turn.
pub(crate) fn no_memory(test: &Test, case: &Case) -> Result {
    // SAFETY: There is nothing to be kept.
    if !unsafe { bindings::rdma_rw_kunit_alloc_fails() } {
        return test.skip(c"allocations that may sleep do not fail on demand, see failslab");
    }
    let Some(rig) = rig(case)? else {
        return test.skip(NO_DMA);
    };
    let mut work = Work::new(case, &rig)?;
    let mut ctx = Ctx::new(&rig.qp)?;
    let mut failed = 0;
    let (mut k, mut again) = (1, false);

    loop {
        // SAFETY: What is begun is ended.
        let (made, left) = unsafe {
            bindings::rdma_rw_kunit_set_fail_nth(k);
            let made = work.init(&mut ctx);
            let left = bindings::rdma_rw_kunit_fail_nth();

            bindings::rdma_rw_kunit_set_fail_nth(0);
            (made, left)
        };

        let spared = made.is_ok() && left == 0;
        match made {
            Ok(_) => ctx.destroy(),
            Err(e) => {
                failed += 1;
                test.expect_eq("the error", e, ENOMEM);
                test.expect(
                    left == 0,
                    fmt!("allocation {k} was not made, but there is {e:?}"),
                );
            }
        }
        work.expect_nothing_left(test, k);
        if left != 0 {
            break;
        }
        if k > 200 {
            test.fail(fmt!("there is no end to allocations"));
            break;
        }
        // It may have been what KASAN keeps call stacks in that failed, which it does once; or what
        // the init can do without.
        again = spared && !again;
        if !again {
            k += 1;
        }
    }
    // Only an SGE within the context takes no memory at all.
    let allocates = work.mrs != 0 || case.shape.nents() > 1;
    if case.profile.dma != PCI {
        test.expect_eq("whether one has failed", failed != 0, allocates);
    }
    work.expect_good(test, &mut ctx)?;
    drop((ctx, work));
    rig.finish(test);
    Ok(())
}

/// Nothing is leaked: memory does not grow less, however often an init fails, or goes well.
pub(crate) fn no_leak(test: &Test, case: &Case) -> Result {
    let Some(rig) = rig(case)? else {
        return test.skip(NO_DMA);
    };
    let mut work = Work::new(case, &rig)?;
    let mut ctx = Ctx::new(&rig.qp)?;
    let drained = if case.form == Signature {
        rig.qp.drain_signature(work.mrs)?
    } else {
        rig.qp.drain(work.mrs)?
    };
    let _ = work.init(&mut ctx);
    ctx.destroy();
    // Of the smallest allocations, 192 bytes, a third of so many are more than a page: what is leaked
    // in rounds of one kind alone shows, too.
    let rounds = if LEAKS_SHOW { slab_slack() * 70 } else { 30 };
    let before = slab_pages();

    // The longest way of all is that of the last failure.
    for round in 0..rounds {
        match round % 3 {
            1 if work.maps != 0 => {
                let k = work.maps;
                rig.mock.plan(|plan| plan.map = Some((k, ENOMEM)));
            }
            2 if work.mrs != 0 => {
                let k = work.mrs;
                rig.mock
                    .plan(|plan| plan.map_mr = Some((k, BadMap::Short(0))));
            }
            _ => {}
        }
        let _ = work.init(&mut ctx);
        ctx.destroy();
        rig.mock.clear_plan();
    }
    expect_no_growth(test, before);
    drop(drained);
    work.expect_nothing_left(test, rounds);
    drop((ctx, work));
    rig.finish(test);
    Ok(())
}

/// A call of the IOVA API.
#[derive(Clone, Copy)]
enum Call {
    Alloc,
    Link,
    Sync,
    Destroy,
}

/// Watches the calls of the IOVA API until it is dropped.
struct Watch;

impl Watch {
    fn new() -> Result<Self> {
        // SAFETY: What is begun is ended by drop.
        kernel::error::to_result(unsafe { bindings::rdma_rw_kunit_iova_watch() })?;
        Ok(Self)
    }

    /// The call as C numbers it.
    fn raw(call: Call) -> bindings::rdma_rw_kunit_iova_call {
        match call {
            Call::Alloc => bindings::rdma_rw_kunit_iova_call_RDMA_RW_KUNIT_IOVA_ALLOC,
            Call::Link => bindings::rdma_rw_kunit_iova_call_RDMA_RW_KUNIT_IOVA_LINK,
            Call::Sync => bindings::rdma_rw_kunit_iova_call_RDMA_RW_KUNIT_IOVA_SYNC,
            Call::Destroy => bindings::rdma_rw_kunit_iova_call_RDMA_RW_KUNIT_IOVA_DESTROY,
        }
    }

    /// Lets the `nth` call from now on return something else.
    fn fail(&self, call: Call, nth: u32, value: c_long) {
        // SAFETY: There is nothing to be kept.
        unsafe { bindings::rdma_rw_kunit_iova_fail(Self::raw(call), nth, value) };
    }

    /// Number of allocations, links, syncs and ends of ranges so far.
    fn calls(&self) -> [u32; 4] {
        [Call::Alloc, Call::Link, Call::Sync, Call::Destroy]
            // SAFETY: There is nothing to be kept.
            .map(|call| unsafe { bindings::rdma_rw_kunit_iova_calls(Self::raw(call)) })
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        // SAFETY: It was begun.
        unsafe { bindings::rdma_rw_kunit_iova_unwatch() };
    }
}

/// A call of the IOVA API that fails.
pub(crate) struct Iova {
    name: &'static str,
    /// The call, which of them, and what it returns.
    fails: Option<(Call, u32, c_long)>,
    /// Allocations, links, syncs and ends of ranges in an init of four pages.
    calls: [u32; 4],
    /// C takes it for final.
    final_in_c: bool,
}

impl Param for Iova {
    fn name(&self) -> &'static str {
        self.name
    }
}

const fn iova(
    name: &'static str,
    fails: Option<(Call, u32, c_long)>,
    calls: [u32; 4],
    final_in_c: bool,
) -> Iova {
    Iova {
        name,
        fails,
        calls,
        final_in_c,
    }
}

#[rustfmt::skip]
pub(crate) static IOVA_FAILS: &[Iova] = &[
    iova("nothing fails", None, [1, 4, 1, 0], false),
    iova("no range", Some((Call::Alloc, 1, 0)), [1, 0, 0, 0], false),
    iova("D13: the first link", Some((Call::Link, 1, -12)), [1, 1, 0, 1], true),
    iova("D13: the second link", Some((Call::Link, 2, -22)), [1, 2, 0, 1], true),
    iova("D13: the last link", Some((Call::Link, 4, -12)), [1, 4, 0, 1], true),
    iova("D13: the sync", Some((Call::Sync, 1, -12)), [1, 4, 1, 1], true),
];

/// Every call of the IOVA API fails in turn: what was linked is unlinked, the range goes back, and
/// the same memory goes by SGEs.
pub(crate) fn iova_fails(test: &Test, failure: &Iova) -> Result {
    const PAGES: u32 = 4;
    let case = case("", MLX5_PCI, Bvec, Read, Pages(PAGES), (0, 1), (0, 0));
    let target = target::get()?;
    if target.force_mr {
        return test.skip(c"with force_mr no IOVA range is asked for");
    }
    let Some(rig) = rig(&case)? else {
        return test.skip(NO_DMA);
    };
    let Ok(watch) = Watch::new() else {
        return test.skip(c"functions of the kernel cannot be probed here");
    };
    let mut work = Work::new(&case, &rig)?;
    let mut ctx = Ctx::new(&rig.qp)?;

    if let Some((call, nth, value)) = failure.fails {
        watch.fail(call, nth, value);
    }
    let made = work.init(&mut ctx);
    test.expect_eq("calls of the init", watch.calls(), failure.calls);
    match (made, failure.fails) {
        (made, None) => {
            test.expect_eq("work requests", made, Ok(1));
            test.expect_eq("the tag", ctx.tag(), Tag::Iova);
        }
        (Err(e), Some((.., value))) if failure.final_in_c && !target.is_rust() => {
            // CAST: An errno.
            test.expect_eq("the error of C", e.to_errno() as c_long, value);
        }
        (made, Some(_)) => {
            test.expect_eq("work requests", made, Ok(1));
            test.expect_eq("the tag", ctx.tag(), Tag::Multi);
        }
    }
    ctx.destroy();

    // Every range that there was has ended.
    let [allocs, _, _, ends] = watch.calls();
    let refused = matches!(failure.fails, Some((Call::Alloc, ..)));
    test.expect_eq("ranges that ended", ends, allocs - u32::from(refused));
    drop(watch);
    work.expect_good(test, &mut ctx)?;
    drop((ctx, work));
    rig.finish(test);
    Ok(())
}

/// A transfer whose memory is apart everywhere, by SGEs behind a real IOMMU.
pub(crate) fn apart(test: &Test) -> Result {
    let case = case("", MLX5_PCI.max_sgl_rd(0), Sg, Read, APART, (0, 1), (0, 0));
    if target::get()?.force_mr {
        return test.skip(c"a list with gaps, which force_mr has no use for");
    }
    let Some(rig) = rig(&case)? else {
        return test.skip(NO_DMA);
    };
    let mut work = Work::new(&case, &rig)?;
    let mut ctx = Ctx::new(&rig.qp)?;

    work.expect_good(test, &mut ctx)?;
    drop((ctx, work));
    rig.finish(test);
    Ok(())
}
