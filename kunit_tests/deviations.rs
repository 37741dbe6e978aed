// SPDX-License-Identifier: GPL-2.0

//! Where rw.c falls short: what is right, and where C survives it, what C does.

use core::ptr;

use kernel::prelude::*;

use crate::bindings;
use crate::ctx::{
    atomically,
    chain,
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
    List,
    Pages, //
};

const RXE: Profile = Profile::RXE;
const SIW: Profile = Profile::SIW;
const MLX5: Profile = Profile::MLX5;
const MLX5_DMA: Profile = MLX5.dma(Dma::Ours { coalesce: false });
const MLX5_IOMMU: Profile = MLX5.dma(Dma::Ours { coalesce: true });
const MLX5_PCI: Profile = MLX5.dma(Dma::Pci);
const RXE_DMA: Profile = RXE.dma(Dma::Ours { coalesce: false });
const SIW_DMA: Profile = SIW.dma(Dma::Ours { coalesce: false });

/// Why a case cannot run where there is no such DMA.
const NO_DMA: &core::ffi::CStr = c"this kernel or machine has no such DMA";

/// A device with a queue pair, none where there is no such DMA.
fn rig(profile: Profile, spec: QpSpec) -> Result<Option<Rig>> {
    match Rig::new(profile, spec) {
        Err(e) if e == EOPNOTSUPP => Ok(None),
        rig => rig.map(Some),
    }
}

/// The same, with room for some contexts.
fn simple_rig(profile: Profile) -> Result<Option<Rig>> {
    rig(profile, QpSpec::of(&profile, 8))
}

/// A completion entry that nobody calls.
fn cqe() -> bindings::ib_cqe {
    // SAFETY: Zeroes are no function.
    unsafe { core::mem::zeroed() }
}

/// A SEND to go after a context.
fn send(cqe: &mut bindings::ib_cqe) -> bindings::ib_send_wr {
    // SAFETY: All members are pointers and numbers.
    let mut wr: bindings::ib_send_wr = unsafe { core::mem::zeroed() };

    wr.opcode = bindings::ib_wr_opcode_IB_WR_SEND;
    wr.send_flags = bindings::ib_send_flags_IB_SEND_SIGNALED as c_int;
    wr.__bindgen_anon_1.wr_cqe = cqe;
    wr
}

/// A transfer of a scatterlist.
pub(crate) struct Case {
    name: &'static str,
    profile: Profile,
    dir: Dir,
    shape: Shape,
    /// Bytes left out, MR pages or whatever it is about.
    n: u32,
}

impl Param for Case {
    fn name(&self) -> &'static str {
        self.name
    }
}

/// Of a name, a device, a direction, memory, and a number.
const fn case(name: &'static str, profile: Profile, dir: Dir, shape: Shape, n: u32) -> Case {
    Case {
        name,
        profile,
        dir,
        shape,
        n,
    }
}

#[rustfmt::skip]
pub(crate) static D1_OFFSET: &[Case] = &[
    case("rxe WRITE, at the end", RXE, Write, Pages(3), 3 * PAGE),
    case("rxe READ, at the end", RXE, Read, Pages(3), 3 * PAGE),
    case("rxe WRITE, behind the end", RXE, Write, Pages(3), 3 * PAGE + 1),
    case("rxe WRITE, as far as can be", RXE, Write, Pages(1), u32::MAX),
    case("rxe READ, one odd entry", RXE, Read, Each(1, (7, 100)), 100),
    case("siw READ, at the end", SIW, Read, Pages(3), 3 * PAGE),
    case("siw READ, behind the end", SIW, Read, Pages(3), 4 * PAGE),
    case("mlx5 READ of 17", MLX5, Read, Pages(17), 17 * PAGE),
    case("DMA: WRITE, at the end", MLX5_DMA, Write, Pages(3), 3 * PAGE),
    case("DMA: siw READ, behind the end", SIW_DMA, Read, Pages(3), 3 * PAGE + 5),
    case("DMA: WRITE of one entry, at the end", MLX5_DMA, Write, Each(1, (7, 100)), 100),
    case("DMA: READ of one entry, behind the end", MLX5_DMA, Read, Pages(1), PAGE + 1),
    case("coalesced: READ, at the end", MLX5_IOMMU, Read, Pages(3), 3 * PAGE),
    case("IOMMU: READ, at the end", MLX5_PCI, Read, Pages(3), 3 * PAGE),
];

/// D1: an offset that is not within the list.
pub(crate) fn d1_offset(test: &Test, case: &Case) -> Result {
    if !target::get()?.is_rust() {
        return test.skip(c"rw.c walks off the list and dereferences NULL");
    }
    let Some(rig) = simple_rig(case.profile)? else {
        return test.skip(NO_DMA);
    };
    let local = Local::new(&rig.mock, case.shape)?;
    let list = local.sg()?;
    let mut ctx = Ctx::new(&rig.qp)?;
    let made = test.expect_warnings(1, || ctx.init(&list, case.n, REMOTE_ADDR, case.dir));

    test.expect_eq("the error", made, Err(EIO));
    test.expect_eq(
        "mappings begun",
        rig.mock.counts().map_sg,
        rig.mock.counts().unmap_sg,
    );
    // The byte before is still in the list.
    if case.n <= local.len() as u32 {
        let made = ctx.init(&list, case.n - 1, REMOTE_ADDR, case.dir);

        test.expect(made.is_ok(), fmt!("the last byte: {made:?}"));
    }
    drop(ctx);
    rig.finish(test);
    Ok(())
}

/// D1 and its kin: a list of no entries.
pub(crate) fn d1_no_entries(test: &Test) -> Result {
    for profile in [RXE, SIW] {
        let rig = Rig::new(profile, QpSpec::of(&profile, 2))?;
        let local = Local::new(&rig.mock, Pages(1))?;
        let list = local.sg()?;
        let ctx = Ctx::new(&rig.qp)?;
        let mut raw = ctx;
        // SAFETY: Everything is valid; nothing is made of it.
        let ret = unsafe {
            bindings::rdma_rw_ctx_init(
                raw.as_raw(),
                rig.qp.as_raw(),
                1,
                list.as_raw(),
                0,
                0,
                REMOTE_ADDR,
                1,
                Write.as_raw(),
            )
        };

        test.expect_eq("the error", ret, EIO.to_errno());
        drop(raw);
        rig.finish(test);
    }
    Ok(())
}

#[rustfmt::skip]
pub(crate) static D2_NO_SGES: &[Case] = &[
    case("sg WRITE of 1", RXE, Write, Pages(1), 0),
    case("sg WRITE of 2", RXE, Write, Pages(2), 0),
    case("sg READ of 1", RXE.max_sge_rd(0), Read, Pages(1), 0),
    case("sg READ of 2", RXE.max_sge_rd(0), Read, Pages(2), 0),
    case("bvec WRITE of 1", RXE, Write, Pages(1), 1),
    case("bvec WRITE of 2", RXE, Write, Pages(2), 1),
    case("bvec READ of 2", RXE.max_sge_rd(0), Read, Pages(2), 1),
    case("DMA: sg WRITE of 1", MLX5_DMA, Write, Pages(1), 0),
    case("DMA: sg WRITE of 2", MLX5_DMA, Write, Pages(2), 0),
    case("DMA: bvec WRITE of 1", MLX5_DMA, Write, Pages(1), 1),
    case("DMA: bvec WRITE of 2", MLX5_DMA, Write, Pages(2), 1),
];

/// D2: a queue pair without SGEs for the direction.
pub(crate) fn d2_no_sges(test: &Test, case: &Case) -> Result {
    let target = target::get()?;
    if target.force_mr {
        return test.skip(c"with force_mr the SGEs of local memory do not matter");
    }
    if !target.is_rust() && case.shape.nents() > 1 {
        return test.skip(c"rw.c divides by zero");
    }
    let mut spec = QpSpec::of(&case.profile, 8);
    if case.dir == Write {
        spec.sges = 0;
    }
    let Some(rig) = rig(case.profile, spec)? else {
        return test.skip(NO_DMA);
    };
    let local = Local::new(&rig.mock, case.shape)?;
    let (list, bvecs) = (local.sg()?, local.bvecs()?);
    let mut ctx = Ctx::new(&rig.qp)?;
    let made = if case.n == 0 {
        ctx.init(&list, 0, REMOTE_ADDR, case.dir)
    } else {
        ctx.init_bvec(&bvecs, bvec_iter(0, 0, local.len()), REMOTE_ADDR, case.dir)
    };

    // C makes a work request that the queue pair will not take.
    let want = if target.is_rust() { Err(EINVAL) } else { Ok(1) };
    test.expect_eq("the result", made, want);
    drop(ctx);
    rig.finish(test);
    Ok(())
}

/// D2: a device that says nothing about the pages of its MRs.
pub(crate) fn d2_no_mr_pages(test: &Test) -> Result {
    if !target::get()?.is_rust() {
        return test.skip(c"rw.c divides by zero");
    }
    let rig = Rig::new(SIW.mr_pages(0), QpSpec::of(&SIW, 8))?;
    let local = Local::new(&rig.mock, Pages(3))?;
    let list = local.sg()?;
    let mut ctx = Ctx::new(&rig.qp)?;

    test.expect_eq(
        "work requests",
        ctx.init(&list, 0, REMOTE_ADDR, Read),
        Ok(6),
    );
    test.expect_eq("MRs", ctx.nr_ops(), 3);
    drop(ctx);
    rig.finish(test);
    Ok(())
}

/// D4: the key that a READ_WITH_INV names, each time its context is chained.
pub(crate) fn d4_invalidated_key(test: &Test) -> Result {
    let rust = target::get()?.is_rust();
    let rig = Rig::new(SIW.mr_pages(4), QpSpec::of(&SIW, 8))?;
    let local = Local::new(&rig.mock, Pages(7))?;
    let list = local.sg()?;
    let mut ctx = Ctx::new(&rig.qp)?;
    let mut cqe = cqe();

    ctx.init(&list, 0, REMOTE_ADDR, Read)?;
    rig.mock.fill_remote(7 * PAGE as usize, 1)?;
    for round in 1..4u32 {
        let mut key = 0;
        let mut seen = 0;

        for wr in chain(ctx.wrs(&mut cqe, none())) {
            if !wr.is_rdma() {
                key = wr.reg().1;
                continue;
            }
            seen += 1;
            test.expect_eq(
                "key of the SGE",
                wr.sges().first().map(|sge| sge.lkey),
                Some(key),
            );
            if rust {
                test.expect_eq("key invalidated", wr.invalidates(), key);
            } else {
                // That of before the first round.
                test.expect_eq("key invalidated", wr.invalidates(), key - round);
            }
        }
        test.expect_eq("number of READs", seen, 2);
    }
    rig.mock.invalidate_by_sge(false);
    ctx.post(&mut cqe, none())?;
    if rust {
        rig.expect_no_faults(test);
    } else {
        test.expect_eq("number of faults in C", rig.mock.take_faults().0, 1);
    }
    drop(ctx);
    rig.finish(test);
    Ok(())
}

/// Key of each MR of a context, and whether it has to be invalidated before its next use.
fn mr_states(ctx: &Ctx<'_>) -> Result<KVec<(u32, bool)>> {
    let mut states = KVec::new();

    for i in 0..ctx.nr_ops() {
        // SAFETY: The context has so many MRs.
        let state = unsafe { ((*ctx.mr(i)).lkey, (*ctx.mr(i)).need_inval) };

        states.push(state, GFP_KERNEL)?;
    }
    Ok(states)
}

#[rustfmt::skip]
pub(crate) static D5_POST: &[Case] = &[
    case("siw, new MRs", SIW.mr_pages(4), Read, Pages(9), 0),
    case("siw, used MRs", SIW.mr_pages(4), Read, Pages(9), 1),
    case("mlx5, new MRs", MLX5.mr_pages(8), Read, Pages(20), 0),
    case("mlx5, used MRs", MLX5.mr_pages(8), Read, Pages(20), 1),
];

/// D5: a post that the device takes a part of only. Whatever the part is, each MR is known to be as
/// it is, so that the context can be posted again, and its MRs used by others.
pub(crate) fn d5_post(test: &Test, case: &Case) -> Result {
    let rust = target::get()?.is_rust();
    let mut faults_in_c = 0;

    // The last of these lets all of them through: three MRs, up to three work requests each.
    for again in [false, true] {
        for taken in 0..10 {
            let rig = Rig::new(case.profile, QpSpec::of(&case.profile, 3))?;
            let mut local = Local::new(&rig.mock, case.shape)?;
            let list = local.sg()?;
            let mut cqe = cqe();

            rig.mock.fill_remote(local.len() as usize, 3)?;
            if case.n != 0 {
                let mut ctx = Ctx::new(&rig.qp)?;

                ctx.init(&list, 0, REMOTE_ADDR, case.dir)?;
                ctx.post(&mut cqe, none())?;
                drop(ctx);
                local.poison();
            }

            let mut ctx = Ctx::new(&rig.qp)?;
            let wrs = ctx.init(&list, 0, REMOTE_ADDR, case.dir)?;
            if taken >= wrs {
                continue;
            }
            let before = mr_states(&ctx)?;
            let regs = rig.mock.counts().regs;
            rig.mock.plan(|plan| plan.post_after = Some(taken));
            test.expect_eq("the error", ctx.post(&mut cqe, none()), Err(ENOMEM));
            rig.mock.clear_plan();
            let regs = (rig.mock.counts().regs - regs) as usize;
            let after = mr_states(&ctx)?;
            for (i, (before, after)) in before.iter().zip(&after).enumerate().skip(regs) {
                // Of the first one, the invalidation may have been posted.
                let same = before.0 == after.0 && (i == regs || before.1 == after.1);

                test.expect(
                    same || !rust,
                    fmt!("after {taken} work requests, MR {i} is not as before"),
                );
            }

            if !again {
                drop(ctx);
                ctx = Ctx::new(&rig.qp)?;
                ctx.init(&list, 0, REMOTE_ADDR, case.dir)?;
            }
            let posted = ctx.post(&mut cqe, none());
            let (faults, first) = rig.mock.take_faults();
            if rust {
                test.expect_eq("the second post", posted, Ok(()));
                if let Some(first) = first {
                    test.fail(fmt!(
                        "after {taken} work requests, again={again}: {} ({:#x})",
                        first.what,
                        first.value
                    ));
                }
                ctx.destroy();
                test.expect(
                    local.holds(3, 0, local.len()),
                    fmt!("after {taken} work requests: other bytes have arrived"),
                );
            } else {
                faults_in_c += faults;
            }
            drop(ctx);
            rig.finish(test);
        }
    }
    if !rust {
        test.expect(faults_in_c != 0, fmt!("C has learned to post again"));
    }
    Ok(())
}

#[rustfmt::skip]
pub(crate) static ENDS: &[Case] = &[
    case("single", RXE, Write, Pages(1), 0),
    case("multi", RXE, Read, Pages(40), 0),
    case("MR", SIW, Read, Pages(3), 0),
    case("MRs", SIW.mr_pages(2), Read, Pages(5), 0),
    case("bvec single", RXE, Write, Pages(1), 1),
    case("bvec multi", RXE, Read, Pages(40), 1),
    case("bvec MR", SIW, Read, Pages(3), 1),
    case("bvec IOVA", MLX5_PCI, Write, Pages(3), 1),
];

/// Makes the context of such a case.
fn make(
    ctx: &mut Ctx<'_>,
    case: &Case,
    list: &SgList,
    bvecs: &[bindings::bio_vec],
    len: u64,
) -> Result<u32> {
    if case.n == 0 {
        ctx.init(list, 0, REMOTE_ADDR, case.dir)
    } else {
        ctx.init_bvec(bvecs, bvec_iter(0, 0, len), REMOTE_ADDR, case.dir)
    }
}

/// D6: a chain that nobody wants to hear the end of.
pub(crate) fn d6_no_completion(test: &Test, case: &Case) -> Result {
    let rust = target::get()?.is_rust();
    let Some(rig) = simple_rig(case.profile)? else {
        return test.skip(NO_DMA);
    };
    let local = Local::new(&rig.mock, case.shape)?;
    let (list, bvecs) = (local.sg()?, local.bvecs()?);
    let mut ctx = Ctx::new(&rig.qp)?;

    rig.mock.fill_remote(local.len() as usize, 1)?;
    make(&mut ctx, case, &list, &bvecs, local.len())?;

    let first = test.expect_warnings(i32::from(rust), || ctx.wrs(none(), none()));
    let signalled = chain(first).filter(|wr| wr.signalled()).count();
    test.expect_eq("work requests signalled", signalled, usize::from(!rust));

    let posted = test.expect_warnings(i32::from(rust), || ctx.post(none(), none()));
    if rust {
        test.expect_eq("the post", posted, Err(EINVAL));
        test.expect_eq("number of posts", rig.mock.counts().posts, 0);
        // The context is good for a post that can be heard of.
        let mut cqe = cqe();
        test.expect_eq("the second post", ctx.post(&mut cqe, none()), Ok(()));
    } else {
        test.expect_eq("the post", posted, Ok(()));
        test.expect_eq("number of faults in C", rig.mock.take_faults().0, 1);
    }
    drop(ctx);
    rig.finish(test);
    Ok(())
}

/// D7: one context chained in different ways, one after the other.
pub(crate) fn d7_other_end(test: &Test, case: &Case) -> Result {
    let rust = target::get()?.is_rust();
    let Some(rig) = simple_rig(case.profile)? else {
        return test.skip(NO_DMA);
    };
    let local = Local::new(&rig.mock, case.shape)?;
    let (list, bvecs) = (local.sg()?, local.bvecs()?);
    let mut ctx = Ctx::new(&rig.qp)?;
    let (mut here, mut there) = (cqe(), cqe());
    let mut after = send(&mut there);
    let wrs = make(&mut ctx, case, &list, &bvecs, local.len())? as usize;

    // First a chain that goes on, then one that does not: C has it go on.
    let first = ctx.wrs(none(), &mut after);
    test.expect_eq("length with a chain", chain(first).count(), wrs + 1);
    let first = ctx.wrs(&mut here, none());
    let want = if rust { wrs } else { wrs + 1 };
    test.expect_eq("length without a chain", chain(first).count(), want);
    if let Some(last) = chain(first).nth(wrs - 1) {
        test.expect(
            last.signalled() && ptr::eq(last.cqe(), &here),
            fmt!("the end does not notify its completion entry"),
        );
    }

    // And the other way round: C has both notify, though a chain makes the entry be ignored.
    let first = ctx.wrs(&mut here, &mut after);
    test.expect_eq("length with a chain again", chain(first).count(), wrs + 1);
    if let Some(last) = chain(first).nth(wrs - 1) {
        test.expect_eq(
            "whether the last but one is signalled",
            last.signalled(),
            !rust,
        );
        test.expect_eq("whether it notifies", last.cqe().is_null(), rust);
    }
    drop(ctx);
    rig.finish(test);
    Ok(())
}

/// An array of `bio_vec` and a size that do not fit.
pub(crate) struct Misfit {
    name: &'static str,
    profile: Profile,
    dir: Dir,
    /// Entries that are there, and that are said to be there.
    nr: (u32, u32),
    /// First entry, and bytes of it left out.
    from: (u32, u32),
    size: u32,
    /// SGEs, or an error. For MRs, the bytes are what counts.
    want: Result<u32>,
    /// SGEs and bytes in C, where it is something else; nothing where it is not to be tried.
    c: C,
}

/// What C does.
#[derive(Clone, Copy)]
enum C {
    /// The same.
    Same,
    /// It says that all is well, with so many SGEs of so many bytes.
    Says(u32, u64),
    /// It makes a scatterlist with an end that is not its end, and `BUG()` notices.
    Dies,
}

impl Param for Misfit {
    fn name(&self) -> &'static str {
        self.name
    }
}

/// So many pages that are there of so many that are said to be, and a size.
const fn misfit(
    name: &'static str,
    profile: Profile,
    dir: Dir,
    nr: (u32, u32),
    (idx, done, size): (u32, u32, u32),
    want: Result<u32>,
    c: C,
) -> Misfit {
    Misfit {
        name,
        profile,
        dir,
        nr,
        from: (idx, done),
        size,
        want,
        c,
    }
}

const BAD: Result<u32> = Err(EINVAL);

#[rustfmt::skip]
pub(crate) static D8_MISFIT: &[Misfit] = &[
    misfit("1 entry, 2 pages", RXE, Write, (4, 1), (0, 0, 2 * PAGE), BAD, C::Says(1, PAGE as u64)),
    misfit("1 entry, 1 byte too much", RXE, Read, (4, 1), (0, 0, PAGE + 1), BAD, C::Says(1, PAGE as u64)),
    misfit("1 entry, part of it", RXE, Read, (4, 1), (0, 96, PAGE), BAD, C::Says(1, 4000)),
    misfit("2 entries, 3 pages", RXE, Write, (4, 2), (0, 0, 3 * PAGE), BAD, C::Says(2, 2 * PAGE as u64)),
    misfit("2 entries, 1 byte too much", RXE, Read, (4, 2), (0, 0, 2 * PAGE + 1), BAD, C::Says(2, 2 * PAGE as u64)),
    misfit("4 entries, 1 page", RXE, Write, (4, 4), (0, 0, PAGE), Ok(1), C::Says(4, PAGE as u64)),
    misfit("4 entries, 1 page and a bit", RXE, Read, (4, 4), (0, 0, PAGE + 10), Ok(2), C::Says(4, PAGE as u64 + 10)),
    misfit("4 entries, 1 byte", RXE, Read, (4, 4), (0, 5, 1), Ok(1), C::Says(4, 1)),
    misfit("siw: 2 entries, 3 pages", SIW, Read, (4, 2), (0, 0, 3 * PAGE), BAD, C::Same),
    misfit("siw: 1 entry, 2 pages", SIW, Read, (4, 1), (0, 0, 2 * PAGE), BAD, C::Same),
    misfit("siw: 4 entries, 2 pages", SIW, Read, (4, 4), (0, 0, 2 * PAGE), Ok(1), C::Dies),
    misfit("siw: 4 entries, 1 byte", SIW, Read, (4, 4), (0, 9, 1), Ok(1), C::Dies),
    misfit("DMA: 2 entries, 3 pages", MLX5_DMA, Write, (4, 2), (0, 0, 3 * PAGE), BAD, C::Says(2, 2 * PAGE as u64)),
    misfit("DMA: 1 entry, 2 pages", MLX5_DMA, Read, (4, 1), (0, 0, 2 * PAGE), BAD, C::Says(1, PAGE as u64)),
    misfit("no entries", RXE, Write, (1, 0), (0, 0, PAGE), BAD, C::Same),
    misfit("no bytes", RXE, Write, (2, 2), (0, 0, 0), BAD, C::Same),
    misfit("siw: no entries", SIW, Read, (1, 0), (0, 0, PAGE), BAD, C::Same),
    misfit("siw: no bytes", SIW, Read, (2, 2), (0, 0, 0), BAD, C::Same),
    misfit("IOMMU: 2 entries, 3 pages", MLX5_PCI, Write, (4, 2), (0, 0, 3 * PAGE), BAD, C::Says(1, 3 * PAGE as u64)),
    misfit("IOMMU: 4 entries, 1 page", MLX5_PCI, Read, (4, 4), (0, 0, PAGE), Ok(1), C::Same),
];

/// D8: an array that is longer or shorter than what is to be transferred of it.
pub(crate) fn d8_misfit(test: &Test, case: &Misfit) -> Result {
    let target = target::get()?;
    // With MRs forced, it is a scatterlist everywhere.
    let dies = matches!(case.c, C::Dies) || (target.force_mr && case.want.is_ok());
    if dies && !target.is_rust() {
        return test.skip(c"rw.c stops the kernel");
    }
    let Some(rig) = simple_rig(case.profile)? else {
        return test.skip(NO_DMA);
    };
    let local = Local::new(&rig.mock, Pages(case.nr.0))?;
    let bvecs = local.bvecs()?;
    let (idx, done) = case.from;
    let mut ctx = Ctx::new(&rig.qp)?;
    let made = ctx.init_bvec_nr(
        &bvecs,
        case.nr.1,
        bvec_iter(idx, done, case.size.into()),
        REMOTE_ADDR,
        case.dir,
    );
    // With MRs, C looks at the array.
    let c = match case.c {
        C::Says(sges, bytes) if !target.is_rust() && !target.force_mr => Some((sges, bytes)),
        _ => None,
    };

    match (made, c) {
        (Err(e), None) => {
            test.expect_eq("the error", Some(e), case.want.err());
        }
        (Err(e), Some(_)) => test.fail(fmt!("C has learned to say {e:?}")),
        (Ok(_), c) => {
            let mut cqe = cqe();
            let mut sges = 0;
            let mut bytes = 0;

            for wr in chain(ctx.wrs(&mut cqe, none())).filter(|wr| wr.is_rdma()) {
                // CAST: A few.
                sges += wr.sges().len() as u32;
                bytes += wr.len();
            }
            match (c, case.want) {
                (Some(c), _) => test.expect_eq("SGEs and bytes in C", (sges, bytes), c),
                (None, Ok(want)) => {
                    let want = if target.force_mr { 1 } else { want };

                    test.expect_eq("SGEs and bytes", (sges, bytes), (want, case.size.into()));
                }
                (None, Err(e)) => test.fail(fmt!("there is no error, but {sges} SGEs; not {e:?}")),
            }
        }
    }
    drop(ctx);
    rig.finish(test);
    Ok(())
}

/// D8: an iterator that begins behind the array.
pub(crate) fn d8_behind(test: &Test) -> Result {
    if !target::get()?.is_rust() {
        return test.skip(c"rw.c reads behind the array");
    }
    for profile in [RXE, SIW] {
        let rig = Rig::new(profile, QpSpec::of(&profile, 2))?;
        let local = Local::new(&rig.mock, Pages(2))?;
        let bvecs = local.bvecs()?;

        for iter in [
            bvec_iter(2, 0, 1),
            bvec_iter(u32::MAX, 0, 1),
            bvec_iter(1, PAGE, 1),
            bvec_iter(0, u32::MAX, 1),
        ] {
            let mut ctx = Ctx::new(&rig.qp)?;

            test.expect_eq(
                "the result",
                ctx.init_bvec(&bvecs, iter, REMOTE_ADDR, Read),
                Err(EINVAL),
            );
        }
        rig.finish(test);
    }
    Ok(())
}

/// D9: more than 4 GiB, which are only looked at.
pub(crate) fn d9_4_gib(test: &Test) -> Result {
    let target = target::get()?;
    if target.force_mr {
        return test.skip(c"MRs do not take that much");
    }
    const HALF: u32 = 1 << 31;
    let rig = Rig::new(RXE, QpSpec::of(&RXE, 2).sges(1))?;
    let local = Local::new(&rig.mock, Pages(1))?;
    let bvecs = local.bvecs()?;
    let page = bvecs.first().map_or(ptr::null_mut(), |bvec| bvec.bv_page);
    let list = SgList::new(4, |_| (page, 0, HALF))?;
    let mut ctx = Ctx::new(&rig.qp)?;
    let mut cqe = cqe();

    test.expect_eq(
        "work requests",
        ctx.init(&list, 1, REMOTE_ADDR, Write),
        Ok(4),
    );
    let mut sum = 0u64;
    for wr in chain(ctx.wrs(&mut cqe, none())) {
        let before = if target.is_rust() {
            sum
        } else {
            // C adds with 32 bits.
            sum & u64::from(u32::MAX)
        };

        test.expect_eq("remote address", wr.remote().0, REMOTE_ADDR + before);
        sum += wr.len();
    }
    test.expect_eq("sum of lengths", sum, 4 * u64::from(HALF) - 1);
    drop(ctx);
    rig.finish(test);
    Ok(())
}

/// Remote memory at the end of all addresses, which is the peer's business.
pub(crate) fn remote_end(test: &Test) -> Result {
    for (profile, dir) in [(RXE, Write), (SIW.mr_pages(1), Read)] {
        let rig = Rig::new(profile, QpSpec::of(&profile, 9).sges(1))?;
        let local = Local::new(&rig.mock, Pages(3))?;
        let (list, bvecs) = (local.sg()?, local.bvecs()?);
        let remote = u64::MAX - 5000;
        let mut cqe = cqe();

        for array in [false, true] {
            let mut ctx = Ctx::new(&rig.qp)?;

            if array {
                ctx.init_bvec(&bvecs, bvec_iter(0, 0, local.len()), remote, dir)?;
            } else {
                ctx.init(&list, 0, remote, dir)?;
            }
            let mut want = remote;
            for wr in chain(ctx.wrs(&mut cqe, none())).filter(|wr| wr.is_rdma()) {
                test.expect_eq("remote address", wr.remote().0, want);
                want = want.wrapping_add(wr.len());
            }
        }
        rig.finish(test);
    }
    Ok(())
}

/// A context, and a destroy that is not its own.
pub(crate) struct Wrong {
    name: &'static str,
    profile: Profile,
    dir: Dir,
    shape: Shape,
    made: Made,
    destroyed: Made,
}

/// Which init and destroy.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Made {
    Sg,
    Bvec,
    Signature,
}

impl Param for Wrong {
    fn name(&self) -> &'static str {
        self.name
    }
}

/// Of a name, a device, direction and memory, an init and a destroy.
const fn wrong(
    name: &'static str,
    profile: Profile,
    (dir, shape): (Dir, Shape),
    made: Made,
    destroyed: Made,
) -> Wrong {
    Wrong {
        name,
        profile,
        dir,
        shape,
        made,
        destroyed,
    }
}

#[rustfmt::skip]
pub(crate) static D10_DESTROY: &[Wrong] = &[
    wrong("sg single by bvec", RXE_DMA, (Write, Pages(1)), Made::Sg, Made::Bvec),
    wrong("sg single by signature", RXE_DMA, (Write, Pages(1)), Made::Sg, Made::Signature),
    wrong("sg multi by bvec", RXE_DMA, (Read, Pages(40)), Made::Sg, Made::Bvec),
    wrong("sg multi by signature", RXE_DMA, (Read, Pages(40)), Made::Sg, Made::Signature),
    wrong("sg MR by bvec", SIW_DMA, (Read, Pages(3)), Made::Sg, Made::Bvec),
    wrong("sg MR by signature", SIW_DMA, (Read, Pages(3)), Made::Sg, Made::Signature),
    wrong("bvec single by sg", RXE_DMA, (Write, Pages(1)), Made::Bvec, Made::Sg),
    wrong("bvec single by signature", RXE_DMA, (Write, Pages(1)), Made::Bvec, Made::Signature),
    wrong("bvec multi by sg", RXE_DMA, (Read, Pages(40)), Made::Bvec, Made::Sg),
    wrong("bvec multi by signature", RXE_DMA, (Read, Pages(40)), Made::Bvec, Made::Signature),
    wrong("bvec MR by sg", SIW_DMA, (Read, Pages(3)), Made::Bvec, Made::Sg),
    wrong("bvec MR by signature", SIW_DMA, (Read, Pages(3)), Made::Bvec, Made::Signature),
    wrong("bvec IOVA by sg", MLX5_PCI, (Read, Pages(3)), Made::Bvec, Made::Sg),
    wrong("bvec IOVA by signature", MLX5_PCI, (Read, Pages(3)), Made::Bvec, Made::Signature),
    wrong("signature by sg", MLX5_DMA, (Write, Pages(3)), Made::Signature, Made::Sg),
    wrong("signature by bvec", MLX5_DMA, (Write, Pages(3)), Made::Signature, Made::Bvec),
];

/// D10: the wrong destroy releases everything all the same, and warns.
pub(crate) fn d10_destroy(test: &Test, case: &Wrong) -> Result {
    if !target::get()?.is_rust() {
        return test.skip(c"rw.c frees what is not an allocation, or nothing");
    }
    let mut spec = QpSpec::of(&case.profile, 4);
    spec.integrity = case.made == Made::Signature;
    let Some(rig) = rig(case.profile, spec)? else {
        return test.skip(NO_DMA);
    };
    let local = Local::new(&rig.mock, case.shape)?;
    let prot = Local::new(&rig.mock, Each(1, (0, 64)))?;
    let (list, other, prot) = (local.sg()?, local.sg()?, prot.sg()?);
    let bvecs = local.bvecs()?;
    // SAFETY: All members are numbers.
    let mut attrs: bindings::ib_sig_attrs = unsafe { core::mem::zeroed() };
    let qp = rig.qp.as_raw();
    // What an array's context is destroyed with, besides, was never mapped.
    let data = match case.made {
        Made::Bvec => &other,
        _ => &list,
    };
    let (sg, cnt, dir) = (data.as_raw(), data.nents(), case.dir.as_raw());
    let mut ctx = Ctx::new(&rig.qp)?;
    let mut round = || -> Result {
        match case.made {
            Made::Sg => ctx.init(&list, 0, REMOTE_ADDR, case.dir)?,
            Made::Bvec => {
                ctx.init_bvec(&bvecs, bvec_iter(0, 0, local.len()), REMOTE_ADDR, case.dir)?
            }
            Made::Signature => {
                ctx.init_signature(&list, Some(&prot), &mut attrs, REMOTE_ADDR, case.dir)?
            }
        };
        let raw = ctx.disown();

        // SAFETY: The functions are to see that they are the wrong ones.
        atomically(|| unsafe {
            match case.destroyed {
                Made::Sg => bindings::rdma_rw_ctx_destroy(raw, qp, 1, sg, cnt, dir),
                Made::Bvec => {
                    bindings::rdma_rw_ctx_destroy_bvec(raw, qp, 1, bvecs.as_ptr(), cnt, dir)
                }
                Made::Signature => {
                    bindings::rdma_rw_ctx_destroy_signature(raw, qp, 1, sg, cnt, none(), 0, dir)
                }
            }
        });
        Ok(())
    };

    test.expect_warnings(1, &mut round)?;
    // A context that allocates takes 16 bytes an entry, and 192 at least: all of them more than
    // the slack, with a third to spare.
    let bytes = (bvecs.len() * 16).max(192);
    let rounds = if LEAKS_SHOW {
        // CAST: A small number.
        slab_slack() as usize * 4 / 3 * kernel::page::PAGE_SIZE / bytes
    } else {
        1
    };
    let before = slab_pages();
    let (_, result) = test.count_warnings(|| (0..rounds).try_for_each(|_| round()));
    result?;
    expect_no_growth(test, before);
    drop(ctx);
    rig.finish(test);
    Ok(())
}

/// D13: memory that does not make one IOVA range goes by SGEs.
pub(crate) fn d13_no_range(test: &Test) -> Result {
    const GAPS: Shape = List(&[(0, 4096), (512, 512), (0, 100), (0, 4096)]);
    let target = target::get()?;
    if target.force_mr {
        return test.skip(c"with force_mr no IOVA range is asked for");
    }
    let Some(rig) = simple_rig(MLX5_PCI)? else {
        return test.skip(NO_DMA);
    };
    let mut local = Local::new(&rig.mock, GAPS)?;
    let bvecs = local.bvecs()?;
    let mut ctx = Ctx::new(&rig.qp)?;
    let mut cqe = cqe();
    let (warnings, made) = test
        .count_warnings(|| ctx.init_bvec(&bvecs, bvec_iter(0, 0, local.len()), REMOTE_ADDR, Read));

    if target.is_rust() {
        test.expect_eq("warnings", warnings, 0);
        test.expect_eq("the result", made, Ok(1));
        test.expect_eq("the tag", ctx.tag(), Tag::Multi);
        rig.mock.fill_remote(local.len() as usize, 5)?;
        ctx.post(&mut cqe, none())?;
        ctx.destroy();
        test.expect(
            local.holds(5, 0, local.len()),
            fmt!("other bytes have arrived"),
        );
    } else {
        test.expect(made.is_err(), fmt!("C has learned it: {made:?}"));
    }
    drop(ctx);
    rig.finish(test);
    Ok(())
}

/// D14: what is not a context.
pub(crate) fn d14_not_a_context(test: &Test) -> Result {
    if !target::get()?.is_rust() {
        return test.skip(c"rw.c stops the kernel");
    }
    let rig = Rig::new(RXE, QpSpec::of(&RXE, 2))?;
    let local = Local::new(&rig.mock, Pages(1))?;
    let list = local.sg()?;
    let qp = rig.qp.as_raw();
    let mut cqe = cqe();
    let mut after = send(&mut cqe);

    // An unknown tag, and one of a context that an init has not made.
    for (tag, nr_ops) in [(5, 1), (0x7f, 1), (0xff, 3), (0, 0), (2, 0)] {
        let mut ctx = Ctx::new(&rig.qp)?;
        let raw = ctx.disown();
        let (sg, cnt, dir) = (list.as_raw(), list.nents(), Write.as_raw());

        // SAFETY: The functions are to see that this is not a context.
        unsafe {
            (*raw).type_ = tag;
            (*raw).nr_ops = nr_ops;
            let first = test.expect_warnings(1, || {
                atomically(|| bindings::rdma_rw_ctx_wrs(raw, qp, 1, &mut cqe, &mut after))
            });
            test.expect(ptr::eq(first, &after), fmt!("the chain is not what it was"));
            let ret = test.expect_warnings(1, || {
                atomically(|| bindings::rdma_rw_ctx_post(raw, qp, 1, &mut cqe, none()))
            });
            test.expect_eq("the post", ret, EINVAL.to_errno());
            test.expect_warnings(1, || {
                bindings::rdma_rw_ctx_destroy(raw, qp, 1, sg, cnt, dir);
            });
            test.expect_warnings(1, || {
                bindings::rdma_rw_ctx_destroy_bvec(raw, qp, 1, ptr::null(), 0, dir);
            });
            test.expect_warnings(1, || {
                bindings::rdma_rw_ctx_destroy_signature(raw, qp, 1, sg, cnt, none(), 0, dir);
            });
        }
    }
    test.expect_eq("number of posts", rig.mock.counts().posts, 0);
    rig.finish(test);
    Ok(())
}

#[rustfmt::skip]
pub(crate) static D16_EMPTY: &[Case] = &[
    case("one within", SIW, Read, List(&[(0, PAGE), (0, 0), (0, PAGE), (0, 50)]), 0),
    case("several", SIW, Read, List(&[(9, 4087), (0, 0), (5, 0), (0, PAGE), (0, 0), (0, 50)]), 0),
    case("at the ends", SIW, Read, List(&[(0, 0), (100, 3996), (0, PAGE), (0, 0)]), 0),
    case("behind an odd end", SIW, Read, List(&[(0, 100), (0, 0), (7, 100)]), 0),
    case("behind an offset", SIW, Read, List(&[(0, PAGE), (0, 0), (0, PAGE)]), 1000),
    case("MRs of 2 pages", SIW.mr_pages(2), Read, List(&[(0, PAGE), (0, PAGE), (0, 0), (0, 9)]), 0),
    case("MRs of 1 page", SIW.mr_pages(1), Read, List(&[(0, PAGE), (0, 0), (0, PAGE), (0, 0)]), 0),
];

/// D16: an entry of no bytes in a list that is registered.
pub(crate) fn d16_empty(test: &Test, case: &Case) -> Result {
    let is_rust = target::get()?.is_rust();
    let rig = Rig::new(case.profile, QpSpec::of(&case.profile, 8))?;
    let mut local = Local::new(&rig.mock, case.shape)?;
    let list = local.sg()?;
    let mut ctx = Ctx::new(&rig.qp)?;
    let mut cqe = cqe();
    let (skip, len) = (u64::from(case.n), local.len());

    rig.mock.fill_remote(len as usize, 7)?;
    match ctx.init(&list, case.n, REMOTE_ADDR, case.dir) {
        // It takes some of them for a gap, and of the others it registers a page that has no bytes
        // to transfer: what follows lands there.
        Err(e) if !is_rust => test.expect_eq("the error of C", e, EINVAL),
        made => {
            made?;
            ctx.post(&mut cqe, none())?;
            ctx.destroy();
            if is_rust {
                test.expect(local.holds(7, skip, len), fmt!("other bytes have arrived"));
            } else {
                // An MR of nothing else has no bytes at all.
                rig.mock.take_faults();
            }
        }
    }
    drop(ctx);
    rig.finish(test);
    Ok(())
}

/// D16, where an MR is a matter of taste, and where there is but one.
pub(crate) fn d16_other_ways(test: &Test) -> Result {
    let target = target::get()?;
    if !target.is_rust() {
        return test.skip(c"rw.c registers a page that has no bytes to transfer");
    }
    const SHAPE: Shape = List(&[(0, PAGE), (0, 0), (0, PAGE)]);
    let profile = MLX5.max_sgl_rd(1);
    let rig = Rig::new(profile, QpSpec::of(&profile, 2).integrity())?;
    let (local, whole) = (
        Local::new(&rig.mock, SHAPE)?,
        Local::new(&rig.mock, Pages(2))?,
    );
    let (list, whole) = (local.sg()?, whole.sg()?);
    let mut ctx = Ctx::new(&rig.qp)?;
    // SAFETY: All members are numbers.
    let mut attrs: bindings::ib_sig_attrs = unsafe { core::mem::zeroed() };

    if !target.force_mr {
        ctx.init(&list, 0, REMOTE_ADDR, Read)?;
        test.expect_eq("the path", ctx.tag(), Tag::Multi);
    }
    for (data, prot) in [(&list, None), (&list, Some(&whole)), (&whole, Some(&list))] {
        test.expect_eq(
            "the result",
            ctx.init_signature(data, prot, &mut attrs, REMOTE_ADDR, Read),
            Err(EINVAL),
        );
    }
    drop(ctx);
    rig.finish(test);
    Ok(())
}

/// A port that the device does not have.
pub(crate) fn no_port(test: &Test) -> Result {
    let target = target::get()?;
    if !target.is_rust() {
        return test.skip(c"rw.c reads behind the ports of the device");
    }
    let rig = Rig::new(SIW, QpSpec::of(&SIW, 2))?;
    let device = rig.mock.as_raw();
    let local = Local::new(&rig.mock, Pages(1))?;
    let list = local.sg()?;
    let qp = rig.qp.as_raw();

    for port in [2, 3, u32::MAX] {
        // SAFETY: The device is registered.
        let factor = test.expect_warnings(1, || unsafe {
            bindings::rdma_rw_mr_factor(device, port, 256)
        });
        // SAFETY: As above.
        let wrs = test.expect_warnings(1, || unsafe {
            bindings::rdma_rw_max_send_wr(device, port, 100, 0)
        });

        // Without iWARP, a READ has the one SGE that siw allows, and no MR.
        test.expect_eq("the factor", factor, target.pick((256, 1)));
        test.expect_eq("the number", wrs, target.pick((100, 300)));
        if target.force_mr {
            continue;
        }

        let mut ctx = Ctx::new(&rig.qp)?;
        let raw = ctx.as_raw();
        let dir = bindings::dma_data_direction_DMA_FROM_DEVICE;
        // SAFETY: Everything else is valid.
        let ret = test.expect_warnings(1, || unsafe {
            bindings::rdma_rw_ctx_init(raw, qp, port, list.as_raw(), 1, 0, REMOTE_ADDR, 1, dir)
        });
        test.expect_eq("the result", ret, 1);
        test.expect_eq("the tag", ctx.tag(), Tag::Single);
        let raw = ctx.disown();

        // SAFETY: The context was made of this.
        atomically(|| unsafe {
            bindings::rdma_rw_ctx_destroy(raw, qp, port, list.as_raw(), 1, dir)
        });
    }
    rig.finish(test);
    Ok(())
}

/// A direction that is none.
pub(crate) fn no_direction(test: &Test) -> Result {
    if !target::get()?.is_rust() {
        return test.skip(c"rw.c takes every direction for one of the two");
    }
    for pages in [1, 2] {
        no_direction_on(test, RXE, pages)?;
        // DMA that knows in which direction it maps, where the kernel can have it.
        match no_direction_on(test, RXE_DMA, pages) {
            Err(e) if e == EOPNOTSUPP => (),
            ret => ret?,
        }
    }
    Ok(())
}

/// The same for so many pages on such a device.
fn no_direction_on(test: &Test, profile: Profile, pages: u32) -> Result {
    let rig = Rig::new(profile, QpSpec::of(&profile, 2))?;
    let local = Local::new(&rig.mock, Pages(pages))?;
    let (list, bvecs) = (local.sg()?, local.bvecs()?);
    let whole = bvec_iter(0, 0, u64::from(pages) * 4096);
    let qp = rig.qp.as_raw();

    for dir in [
        bindings::dma_data_direction_DMA_BIDIRECTIONAL,
        bindings::dma_data_direction_DMA_NONE,
        77,
    ] {
        let mut ctx = Ctx::new(&rig.qp)?;
        let raw = ctx.as_raw();

        // SAFETY: Everything else is valid.
        unsafe {
            let ret = test.expect_warnings(1, || {
                bindings::rdma_rw_ctx_init(raw, qp, 1, list.as_raw(), pages, 0, REMOTE_ADDR, 1, dir)
            });
            test.expect_eq("the result", ret, EINVAL.to_errno());
            let ret = test.expect_warnings(1, || {
                bindings::rdma_rw_ctx_init_bvec(
                    raw,
                    qp,
                    1,
                    bvecs.as_ptr(),
                    pages,
                    whole,
                    REMOTE_ADDR,
                    1,
                    dir,
                )
            });
            test.expect_eq("the result", ret, EINVAL.to_errno());
        }

        // A context goes back the way it was made.
        ctx.init(&list, 0, REMOTE_ADDR, Write)?;
        let raw = ctx.disown();

        test.expect_warnings(1, || {
            // SAFETY: The context was made of this.
            atomically(|| unsafe {
                bindings::rdma_rw_ctx_destroy(raw, qp, 1, list.as_raw(), pages, dir)
            })
        });
        ctx.init_bvec(&bvecs, whole, REMOTE_ADDR, Read)?;
        let raw = ctx.disown();

        test.expect_warnings(1, || {
            // SAFETY: As above.
            atomically(|| unsafe {
                bindings::rdma_rw_ctx_destroy_bvec(raw, qp, 1, bvecs.as_ptr(), pages, dir)
            })
        });
        test.expect_eq("number of mappings left", rig.mock.live_mappings(), 0);
    }
    rig.finish(test);
    Ok(())
}
