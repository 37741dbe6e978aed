// SPDX-License-Identifier: GPL-2.0

//! Contexts over time: unposted, posted twice, chained with others, and many of them at once.

use core::ptr;

use kernel::prelude::*;
use kernel::sync::atomic::{
    Atomic,
    Relaxed, //
};

use crate::bindings;
use crate::ctx::{
    chain,
    in_softirq,
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
    MR_RKEY,
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

const RXE: Profile = Profile::RXE;
const SIW: Profile = Profile::SIW;
const MLX5: Profile = Profile::MLX5;

/// A transfer.
pub(crate) struct Case {
    name: &'static str,
    profile: Profile,
    dir: Dir,
    shape: Shape,
    bvec: bool,
}

impl Param for Case {
    fn name(&self) -> &'static str {
        self.name
    }
}

const fn sg(name: &'static str, profile: Profile, dir: Dir, shape: Shape) -> Case {
    Case {
        name,
        profile,
        dir,
        shape,
        bvec: false,
    }
}

const fn bvec(name: &'static str, profile: Profile, dir: Dir, shape: Shape) -> Case {
    Case {
        bvec: true,
        ..sg(name, profile, dir, shape)
    }
}

const OURS: Dma = Dma::Ours { coalesce: false };

#[rustfmt::skip]
pub(crate) static LIVES: &[Case] = &[
    sg("single", RXE, Write, Pages(1)),
    sg("multi", RXE, Read, Pages(40)),
    sg("MR", SIW, Read, Pages(3)),
    sg("MRs", SIW.mr_pages(2), Read, Pages(5)),
    sg("MR that is invalidated", MLX5.max_sgl_rd(1), Read, Pages(4)),
    bvec("bvec single", RXE, Write, Pages(1)),
    bvec("bvec multi", RXE.dma(OURS), Read, Pages(40)),
    bvec("bvec MRs", SIW.mr_pages(2), Read, Pages(5)),
    bvec("bvec IOVA", MLX5.dma(Dma::Pci), Write, Pages(5)),
];

/// Makes the context of a case.
fn make(
    ctx: &mut Ctx<'_>,
    case: &Case,
    list: &SgList,
    bvecs: &[bindings::bio_vec],
    len: u64,
) -> Result<u32> {
    if case.bvec {
        ctx.init_bvec(bvecs, bvec_iter(0, 0, len), REMOTE_ADDR, case.dir)
    } else {
        ctx.init(list, 0, REMOTE_ADDR, case.dir)
    }
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

/// Why a case cannot run where there is no such DMA.
const NO_DMA: &core::ffi::CStr = c"this kernel or machine has no such DMA";

/// A device with a queue pair of room for so many contexts, none where there is no such DMA.
fn rig(profile: Profile, ctxs: u32) -> Result<Option<Rig>> {
    match Rig::new(profile, QpSpec::of(&profile, ctxs)) {
        Err(e) if e == EOPNOTSUPP => Ok(None),
        rig => rig.map(Some),
    }
}

/// A context that is never posted costs nothing: its MRs are as they were.
pub(crate) fn unposted(test: &Test, case: &Case) -> Result {
    let Some(rig) = rig(case.profile, 3)? else {
        return test.skip(NO_DMA);
    };
    let local = Local::new(&rig.mock, case.shape)?;
    let (list, bvecs) = (local.sg()?, local.bvecs()?);
    let mut cqe = cqe();

    for round in 0..3 {
        let before = rig.qp.mr_state();
        let mut ctx = Ctx::new(&rig.qp)?;
        let unposted = make(&mut ctx, case, &list, &bvecs, local.len())?;
        drop(ctx);
        test.expect_eq("keys and state of the MRs", rig.qp.mr_state(), before);

        // One that is posted, between those that are not.
        let mut ctx = Ctx::new(&rig.qp)?;
        let posted = make(&mut ctx, case, &list, &bvecs, local.len())?;
        test.expect_eq("work requests", posted, unposted);
        rig.mock.fill_remote(local.len() as usize, round)?;
        test.expect_eq("the post", ctx.post(&mut cqe, none()), Ok(()));
        drop(ctx);
        rig.expect_no_faults(test);
    }
    rig.finish(test);
    Ok(())
}

/// A context that is chained more than once before it is posted.
pub(crate) fn chained_again(test: &Test, case: &Case) -> Result {
    let Some(rig) = rig(case.profile, 3)? else {
        return test.skip(NO_DMA);
    };
    let mut local = Local::new(&rig.mock, case.shape)?;
    let (list, bvecs) = (local.sg()?, local.bvecs()?);
    let mut ctx = Ctx::new(&rig.qp)?;
    let mut cqe = cqe();
    let wrs = make(&mut ctx, case, &list, &bvecs, local.len())?;

    rig.mock.fill_remote(local.len() as usize, 7)?;
    if case.dir == Write {
        local.fill(8);
    }
    for _ in 0..5 {
        let first = ctx.wrs(&mut cqe, none());

        test.expect_eq("length of the chain", chain(first).count(), wrs as usize);
    }
    test.expect_eq("the post", ctx.post(&mut cqe, none()), Ok(()));
    rig.expect_no_faults(test);
    ctx.destroy();
    let arrived = match case.dir {
        Read => local.holds(7, 0, local.len()),
        Write => rig
            .mock
            .with_remote(|remote| is_pattern(8, 0, &remote[..local.len() as usize])),
    };
    test.expect(arrived, fmt!("other bytes have arrived"));
    rig.finish(test);
    Ok(())
}

/// A SEND after the transfer, as svcrdma and smbdirect post it: with a completion entry that is then
/// ignored.
pub(crate) fn send_after(test: &Test, case: &Case) -> Result {
    let Some(rig) = rig(case.profile, 3)? else {
        return test.skip(NO_DMA);
    };
    let local = Local::new(&rig.mock, case.shape)?;
    let (list, bvecs) = (local.sg()?, local.bvecs()?);
    let (mut ignored, mut heard) = (cqe(), cqe());

    for by_post in [false, true] {
        let mut after = send(&mut heard);
        let mut ctx = Ctx::new(&rig.qp)?;
        let before = rig.mock.counts();

        make(&mut ctx, case, &list, &bvecs, local.len())?;
        rig.mock.fill_remote(local.len() as usize, 1)?;
        if by_post {
            ctx.post(&mut ignored, &mut after)?;
        } else {
            post_chain(&rig.qp, ctx.wrs(&mut ignored, &mut after))?;
        }
        let completed = rig.mock.take_completed()?;
        test.expect(
            completed.len() == 1 && completed.iter().all(|c| c.ok && ptr::eq(c.cqe, &heard)),
            fmt!("not the SEND alone completes"),
        );
        let after = rig.mock.counts();
        test.expect_eq("number of posts", after.posts - before.posts, 1);
        test.expect_eq("number of SENDs", after.sends - before.sends, 1);
    }
    rig.finish(test);
    Ok(())
}

/// Several contexts in one chain, as srpt builds it: from the last to the first, each of which
/// chains the one before.
pub(crate) fn chain_of_contexts(test: &Test) -> Result {
    const PAGES: [u32; 4] = [1, 5, 70, 2];

    for (profile, dir) in [
        (RXE, Write),
        (RXE, Read),
        (SIW, Write),
        (SIW, Read),
        (MLX5, Read),
    ] {
        let rig = Rig::new(profile, QpSpec::of(&profile, 8))?;
        let mut locals = KVec::new();
        let mut lists = KVec::new();
        let mut ctxs = KVec::new();
        let mut heard = cqe();
        let mut at = 0u64;
        let mut wrs = 0;

        for (i, pages) in PAGES.iter().enumerate() {
            let mut local = Local::new(&rig.mock, Pages(*pages))?;
            local.fill(100 + i as u64);
            lists.push(local.sg()?, GFP_KERNEL)?;
            locals.push(local, GFP_KERNEL)?;
        }
        rig.mock
            .fill_remote(PAGES.iter().sum::<u32>() as usize * PAGE as usize, 9)?;
        for (local, list) in locals.iter_mut().zip(&lists) {
            let mut ctx = Ctx::new(&rig.qp)?;

            if dir == Read {
                local.poison();
            }
            wrs += ctx.init(list, 0, REMOTE_ADDR + at, dir)?;
            at += local.len();
            ctxs.push(ctx, GFP_KERNEL)?;
        }

        let mut first: *mut bindings::ib_send_wr = none();
        let mut cqe: *mut bindings::ib_cqe = &mut heard;
        for ctx in ctxs.iter_mut().rev() {
            first = ctx.wrs(cqe, first);
            cqe = none();
        }
        test.expect_eq("length of the chain", chain(first).count(), wrs as usize);
        test.expect_eq(
            "work requests signalled",
            chain(first).filter(|wr| wr.signalled()).count(),
            1,
        );
        post_chain(&rig.qp, first)?;
        rig.expect_no_faults(test);
        test.expect_eq("completions", rig.mock.take_completed()?.len(), 1);
        drop(ctxs);

        let mut at = 0;
        for (i, local) in locals.iter_mut().enumerate() {
            let len = local.len();
            let good = match dir {
                Read => {
                    let bytes = local.read()?;
                    is_pattern(9, at, &bytes)
                }
                Write => rig.mock.with_remote(|remote| {
                    is_pattern(100 + i as u64, 0, &remote[at as usize..(at + len) as usize])
                }),
            };

            test.expect(good, fmt!("other bytes of context {i} have arrived"));
            at += len;
        }
        drop((lists, locals));
        rig.finish(test);
    }
    Ok(())
}

/// One MR used 600 times, so that its key goes round twice.
pub(crate) fn mr_reused(test: &Test) -> Result {
    // The second, third and so on use of an MR that does not invalidate itself takes one more.
    for (profile, shape, more) in [(SIW, Pages(2), 0), (MLX5.max_sgl_rd(1), Pages(2), 1)] {
        let rig = Rig::new(profile, QpSpec::of(&profile, 1))?;
        let mut local = Local::new(&rig.mock, shape)?;
        let list = local.sg()?;
        let mut cqe = cqe();
        let mut last = 0;

        for round in 0..600u32 {
            let mut ctx = Ctx::new(&rig.qp)?;
            let wrs = ctx.init(&list, 0, REMOTE_ADDR, Read)?;
            let mr = ctx.mr(0);
            // SAFETY: The context has this MR.
            let key = || unsafe { (*mr).lkey };

            if round == 0 {
                last = key();
            }
            test.expect_eq("work requests", wrs, if round == 0 { 2 } else { 2 + more });
            test.expect_eq("key before", key(), last);
            if round % 50 == 0 {
                local.poison();
                rig.mock.fill_remote(local.len() as usize, round.into())?;
            }
            ctx.post(&mut cqe, none())?;
            let want = (last & !0xff) | (last.wrapping_add(1) & 0xff);
            test.expect_eq("key after", key(), want);
            // SAFETY: As above.
            test.expect_eq("both keys", unsafe { (*mr).rkey }, want | MR_RKEY);
            last = want;
            ctx.destroy();
            if round % 50 == 0 {
                test.expect(
                    local.holds(round.into(), 0, local.len()),
                    fmt!("round {round}: other bytes have arrived"),
                );
            }
            rig.mock.take_completed()?;
        }
        let counts = rig.mock.counts();
        test.expect_eq("registrations", counts.regs, 600);
        test.expect_eq("invalidations", counts.invs, 600 - more);
        rig.finish(test);
    }
    Ok(())
}

/// Reading memory after it was written by a registered WRITE and the other way round, all on the
/// same MR.
pub(crate) fn both_ways(test: &Test) -> Result {
    if !target::get()?.force_mr {
        return test.skip(c"WRITEs are registered with force_mr alone");
    }
    for profile in [RXE, SIW, MLX5] {
        let rig = Rig::new(profile, QpSpec::of(&profile, 1))?;
        let mut local = Local::new(&rig.mock, Pages(3))?;
        let list = local.sg()?;
        let mut cqe = cqe();

        for round in 0..6u64 {
            let dir = if round % 2 == 0 { Write } else { Read };
            let mut ctx = Ctx::new(&rig.qp)?;

            local.poison();
            if dir == Write {
                local.fill(round);
            } else {
                rig.mock.fill_remote(local.len() as usize, round)?;
            }
            if round == 0 {
                rig.mock.fill_remote(local.len() as usize, 99)?;
            }
            ctx.init(&list, 0, REMOTE_ADDR, dir)?;
            ctx.post(&mut cqe, none())?;
            rig.expect_no_faults(test);
            ctx.destroy();
            let good = match dir {
                Read => local.holds(round, 0, local.len()),
                Write => rig
                    .mock
                    .with_remote(|remote| is_pattern(round, 0, &remote[..local.len() as usize])),
            };
            test.expect(good, fmt!("round {round}: other bytes have arrived"));
        }
        rig.finish(test);
    }
    Ok(())
}

/// isert takes `nr_ops` of 0 for a context that is not there. It looks at that after a failed init
/// as well, of memory that it has cleared.
pub(crate) fn nr_ops(test: &Test) -> Result {
    let rust = target::get()?.is_rust();
    let rig = Rig::new(SIW.mr_pages(1), QpSpec::of(&SIW, 2))?;
    let local = Local::new(&rig.mock, Pages(3))?;
    let list = local.sg()?;
    let mut ctx = Ctx::new(&rig.qp)?;

    // SAFETY: Nobody looks at it before it is written.
    unsafe { ctx.as_raw().write_bytes(0, 1) };
    test.expect_eq(
        "the error",
        ctx.init(&list, 0, REMOTE_ADDR, Read),
        Err(EAGAIN),
    );
    // C has written it before it knew.
    test.expect_eq("nr_ops", ctx.nr_ops(), if rust { 0 } else { 3 });
    drop(ctx);

    let local = Local::new(&rig.mock, Pages(2))?;
    let list = local.sg()?;
    let mut ctx = Ctx::new(&rig.qp)?;
    ctx.init(&list, 0, REMOTE_ADDR, Read)?;
    test.expect_eq("nr_ops", ctx.nr_ops(), 2);
    test.expect(!ctx.mr(0).is_null(), fmt!("ctx->reg->mr is not there"));
    drop(ctx);
    rig.finish(test);
    Ok(())
}

/// As many READs at once as there are MRs, and one more.
pub(crate) fn pool_exhausted(test: &Test) -> Result {
    const NR: u32 = 64;
    let rig = Rig::new(SIW, QpSpec::of(&SIW, NR))?;
    let local = Local::new(&rig.mock, Pages(1))?;
    let mut lists = KVec::new();
    let mut ctxs = KVec::new();

    for _ in 0..=NR {
        lists.push(local.sg()?, GFP_KERNEL)?;
    }
    for list in &lists {
        let mut ctx = Ctx::new(&rig.qp)?;
        let made = ctx.init(list, 0, REMOTE_ADDR, Read);

        if (ctxs.len() as u32) < NR {
            test.expect_eq("one of as many as there are MRs", made, Ok(2));
            ctxs.push(ctx, GFP_KERNEL)?;
        } else {
            test.expect_eq("one more", made, Err(EAGAIN));
        }
    }
    test.expect_eq("MRs taken", rig.qp.mrs_used(), NR as i32);

    // No two have the same MR.
    for (i, a) in ctxs.iter().enumerate() {
        for b in &ctxs[..i] {
            test.expect(!ptr::eq(a.mr(0), b.mr(0)), fmt!("an MR was given twice"));
        }
    }
    if let Some(ctx) = ctxs.get_mut(10) {
        ctx.destroy();
    }
    let mut ctx = Ctx::new(&rig.qp)?;
    if let Some(list) = lists.last() {
        test.expect_eq(
            "after one is gone",
            ctx.init(list, 0, REMOTE_ADDR, Read),
            Ok(2),
        );
    }
    drop((ctx, ctxs));
    rig.finish(test);
    Ok(())
}

/// Two queue pairs of one device, each with its own pool.
pub(crate) fn two_qps(test: &Test) -> Result {
    let rig = Rig::new(SIW, QpSpec::of(&SIW, 2))?;
    let other = rig.add_qp(QpSpec::of(&SIW, 3))?;
    let mut local = Local::new(&rig.mock, Pages(1))?;
    let mut cqe = cqe();
    let mut lists = KVec::new();
    let mut ctxs = KVec::new();

    for _ in 0..5 {
        lists.push(local.sg()?, GFP_KERNEL)?;
    }
    for (i, list) in lists.iter().enumerate() {
        let qp = if i < 2 { &rig.qp } else { &other };
        let mut ctx = Ctx::new(qp)?;

        test.expect_eq("work requests", ctx.init(list, 0, REMOTE_ADDR, Read), Ok(2));
        ctxs.push(ctx, GFP_KERNEL)?;
    }
    test.expect_eq("MRs of the first", rig.qp.mrs_used(), 2);
    test.expect_eq("MRs of the second", other.mrs_used(), 3);
    test.expect_eq("pool of the first", rig.qp.pools(), (0, 0));
    test.expect_eq("pool of the second", other.pools(), (0, 0));
    rig.mock.fill_remote(PAGE as usize, 4)?;
    for ctx in ctxs.iter_mut() {
        ctx.post(&mut cqe, none())?;
        ctx.destroy();
    }
    rig.expect_no_faults(test);
    test.expect(
        local.holds(4, 0, PAGE.into()),
        fmt!("other bytes have arrived"),
    );
    test.expect_eq("MRs of the second", other.mrs_used(), 0);
    test.expect_eq("pool of the second", other.pools(), (3, 0));
    drop(ctxs);
    drop(other);
    rig.finish(test);
    Ok(())
}

/// What eight threads share.
struct Shared<'a> {
    rig: &'a Rig,
    /// Contexts that were made, inits that found no MR, and whatever else happened.
    made: Atomic<u32>,
    missed: Atomic<u32>,
    wrong: Atomic<u32>,
    next: Atomic<u32>,
}

impl Shared<'_> {
    /// The work of one thread: contexts until there are no MRs, then all of them go, in a softirq
    /// or where the thread is.
    fn work(&self, seed: u64, softirq: bool) -> Result {
        let mut local = Local::new(&self.rig.mock, Each(3, (0, PAGE)))?;
        let mut cqe = cqe();

        for _ in 0..20 {
            let mut lists = KVec::new();
            let mut ctxs = KVec::new();

            loop {
                let list = local.sg()?;
                let mut ctx = Ctx::new(&self.rig.qp)?;

                match ctx.init(&list, 0, REMOTE_ADDR, Read) {
                    Ok(_) => self.made.add(1, Relaxed),
                    Err(e) if e == EAGAIN => {
                        self.missed.add(1, Relaxed);
                        break;
                    }
                    Err(e) => return Err(e),
                }
                lists.push(list, GFP_KERNEL)?;
                ctxs.push(ctx, GFP_KERNEL)?;
            }
            let mut posted = Ok(());
            let mut post = || {
                for ctx in ctxs.iter_mut() {
                    posted = posted.and(ctx.post(&mut cqe, none()));
                    ctx.destroy();
                }
            };

            if softirq {
                in_softirq(post);
            } else {
                post();
            }
            posted?;
            if !ctxs.is_empty() && !local.holds(seed, 0, local.len()) {
                self.wrong.add(1, Relaxed);
            }
        }
        Ok(())
    }
}

/// What each thread runs.
///
/// # Safety
///
/// `data` must be the [`Shared`] of a test that waits for it.
unsafe extern "C" fn thread(data: *mut c_void) {
    // SAFETY: By this function's safety requirement.
    let shared = unsafe { &*data.cast::<Shared<'_>>() };

    let nr = shared.next.fetch_add(1, Relaxed);

    // Every other one, as many drivers do.
    if shared.work(SEED, nr % 2 == 1).is_err() {
        shared.wrong.add(1, Relaxed);
    }
}

/// Seed of what the threads read.
const SEED: u64 = 77;

/// Eight threads on one queue pair and its MRs, until there are none left, and back; four of them
/// post and destroy in softirqs.
pub(crate) fn threads(test: &Test) -> Result {
    for profile in [SIW.mr_pages(2), SIW.mr_pages(2).dma(OURS)] {
        let Some(rig) = rig(profile, 9)? else {
            continue;
        };
        let shared = Shared {
            rig: &rig,
            made: Atomic::new(0),
            missed: Atomic::new(0),
            wrong: Atomic::new(0),
            next: Atomic::new(0),
        };

        rig.mock.fill_remote(3 * PAGE as usize, SEED)?;
        // SAFETY: It returns when all threads have ended.
        let ret = unsafe {
            bindings::rdma_rw_kunit_run_threads(
                8,
                Some(thread),
                ptr::from_ref(&shared).cast_mut().cast(),
            )
        };
        test.expect_eq("starting threads", ret, 0);
        test.expect_eq("threads", shared.next.load(Relaxed), 8);
        test.expect_eq("threads that failed", shared.wrong.load(Relaxed), 0);
        // Each has ended every round that way.
        test.expect_eq("rounds to the last MR", shared.missed.load(Relaxed), 160);
        test.expect(
            shared.made.load(Relaxed) >= 20,
            fmt!("hardly a context was made"),
        );
        rig.mock.take_completed()?;
        rig.finish(test);
    }
    Ok(())
}

/// Where one transfer ends is no bound for the next: the same context memory for all forms and
/// paths, one after the other.
pub(crate) fn memory_reused(test: &Test) -> Result {
    let rig = Rig::new(MLX5.mr_pages(4), QpSpec::of(&MLX5, 9))?;
    let mut ctx = Ctx::new(&rig.qp)?;
    let mut cqe = cqe();
    let forced = target::get()?.force_mr;

    for round in 0..12 {
        let (dir, pages, bvec, tag) = match round % 6 {
            0 => (Read, 20, false, Tag::Mr),
            1 => (Write, 1, false, Tag::Single),
            2 => (Read, 9, true, Tag::Multi),
            3 => (Read, 33, false, Tag::Mr),
            4 => (Write, 1, true, Tag::Single),
            _ => (Write, 31, false, Tag::Multi),
        };
        let mut local = Local::new(&rig.mock, Pages(pages))?;
        let (list, bvecs) = (local.sg()?, local.bvecs()?);
        let case = Case {
            name: "",
            profile: MLX5,
            dir,
            shape: Pages(pages),
            bvec,
        };

        rig.mock.fill_remote(local.len() as usize, round)?;
        make(&mut ctx, &case, &list, &bvecs, local.len())?;
        test.expect_eq("the tag", ctx.tag(), if forced { Tag::Mr } else { tag });
        ctx.post(&mut cqe, none())?;
        ctx.destroy();
        if dir == Read {
            test.expect(
                local.holds(round, 0, local.len()),
                fmt!("round {round}: other bytes have arrived"),
            );
        }
        rig.expect_no_faults(test);
    }
    drop(ctx);
    rig.finish(test);
    Ok(())
}
