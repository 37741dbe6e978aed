// SPDX-License-Identifier: GPL-2.0

//! The numbers that queues and pools are sized by.

use kernel::prelude::*;

use crate::bindings;
use crate::kunit::{
    Param,
    Test, //
};
use crate::mock::{
    Mock,
    Profile, //
};
use crate::rig::{
    QpSpec,
    Rig, //
};
use crate::target;

/// A call of `rdma_rw_mr_factor`.
pub(crate) struct Factor {
    name: &'static str,
    profile: Profile,
    pages: u32,
    /// Without `force_mr`, and with.
    want: (u32, u32),
    /// What C makes of it, where that is something else.
    c: C,
}

/// How C falls short.
#[derive(Clone, Copy, PartialEq)]
enum C {
    /// Not at all.
    Same,
    /// It divides by zero.
    Dies,
    /// Its rounding up wraps to 0.
    Wraps,
}

/// `pages` on a device, and what comes out.
const fn factor(name: &'static str, profile: Profile, pages: u32, want: (u32, u32)) -> Factor {
    Factor {
        name,
        profile,
        pages,
        want,
        c: C::Same,
    }
}

/// The same, where C divides by zero.
const fn no_limit(name: &'static str, profile: Profile, pages: u32, want: (u32, u32)) -> Factor {
    Factor {
        c: C::Dies,
        ..factor(name, profile, pages, want)
    }
}

/// The same, where the rounding of C wraps.
const fn all(name: &'static str, profile: Profile, want: (u32, u32)) -> Factor {
    Factor {
        c: C::Wraps,
        ..factor(name, profile, u32::MAX, want)
    }
}

impl Param for Factor {
    fn name(&self) -> &'static str {
        self.name
    }
}

const RXE: Profile = Profile::RXE;
const SIW: Profile = Profile::SIW;
const MLX5: Profile = Profile::MLX5;

#[rustfmt::skip]
pub(crate) static MR_FACTOR: &[Factor] = &[
    factor("rxe: 0", RXE, 0, (0, 0)),
    factor("rxe: 1", RXE, 1, (1, 1)),
    factor("rxe: 32", RXE, 32, (1, 1)),
    factor("rxe: 33", RXE, 33, (2, 1)),
    factor("rxe: 256", RXE, 256, (8, 1)),
    factor("rxe: 2048", RXE, 2048, (64, 8)),
    all("rxe: all", RXE, (1 << 27, 1 << 24)),
    factor("siw: 0", SIW, 0, (0, 0)),
    factor("siw: 1", SIW, 1, (1, 1)),
    factor("siw: 256", SIW, 256, (1, 1)),
    factor("siw: 257", SIW, 257, (2, 2)),
    factor("siw: 2048", SIW, 2048, (8, 8)),
    all("siw: all", SIW, (1 << 24, 1 << 24)),
    factor("MR of 128: 256", SIW.mr_pages(128), 256, (2, 2)),
    factor("MR of 65536, capped: 256", MLX5, 256, (1, 1)),
    factor("MR of 65536, capped: 257", MLX5, 257, (2, 2)),
    factor("MR of 1: 7", SIW.mr_pages(1), 7, (7, 7)),
    factor("PI limit does not matter", MLX5.pi_pages(2), 256, (1, 1)),
    factor("one SGE: 9", RXE.max_sge_rd(1), 9, (9, 1)),
    no_limit("D2: no MR pages", SIW.mr_pages(0), 5, (5, 5)),
    no_limit("D2: no SGEs", RXE.max_sge_rd(0), 5, (5, 1)),
];

/// `rdma_rw_mr_factor`.
pub(crate) fn mr_factor(test: &Test, case: &Factor) -> Result {
    let target = target::get()?;
    let want = match (case.c, target.is_rust()) {
        (C::Dies, false) => return test.skip(c"rw.c divides by zero"),
        (C::Wraps, false) => 0,
        _ => target.pick(case.want),
    };
    let mock = Mock::new(case.profile)?;
    // SAFETY: The device is registered.
    let got = unsafe { bindings::rdma_rw_mr_factor(mock.as_raw(), 1, case.pages) };

    test.expect_eq("the factor", got, want);
    Ok(())
}

/// A call of `rdma_rw_max_send_wr`.
pub(crate) struct MaxSendWr {
    name: &'static str,
    profile: Profile,
    integrity: bool,
    ctxs: u32,
    /// Without `force_mr`, and with.
    want: (u32, u32),
}

impl Param for MaxSendWr {
    fn name(&self) -> &'static str {
        self.name
    }
}

/// `ctxs` contexts on a device, and what comes out.
const fn max_wr(
    name: &'static str,
    profile: Profile,
    integrity: bool,
    ctxs: u32,
    want: (u32, u32),
) -> MaxSendWr {
    MaxSendWr {
        name,
        profile,
        integrity,
        ctxs,
        want,
    }
}

#[rustfmt::skip]
pub(crate) static MAX_SEND_WR: &[MaxSendWr] = &[
    max_wr("rxe: 0", RXE, false, 0, (0, 0)),
    max_wr("rxe: 1", RXE, false, 1, (1, 3)),
    max_wr("rxe: 100", RXE, false, 100, (100, 300)),
    max_wr("rxe, integrity: 100", RXE, true, 100, (300, 300)),
    max_wr("rxe: all", RXE, false, u32::MAX, (u32::MAX, u32::MAX)),
    max_wr("siw: 100", SIW, false, 100, (300, 300)),
    max_wr("siw, integrity: 100", SIW, true, 100, (300, 300)),
    max_wr("siw: a third", SIW, false, 0x5555_5555, (u32::MAX, u32::MAX)),
    max_wr("siw: a third and one", SIW, false, 0x5555_5556, (u32::MAX, u32::MAX)),
    max_wr("siw: all", SIW, false, u32::MAX, (u32::MAX, u32::MAX)),
    max_wr("mlx5: 100", MLX5, false, 100, (300, 300)),
    max_wr("mlx5 without max_sgl_rd: 100", MLX5.max_sgl_rd(0), false, 100, (100, 300)),
];

/// `rdma_rw_max_send_wr`.
pub(crate) fn max_send_wr(test: &Test, case: &MaxSendWr) -> Result {
    let target = target::get()?;
    let mock = Mock::new(case.profile)?;
    // SAFETY: The device is registered.
    let got = unsafe {
        bindings::rdma_rw_max_send_wr(mock.as_raw(), 1, case.ctxs, create_flags(case.integrity))
    };

    test.expect_eq("the number", got, target.pick(case.want));
    Ok(())
}

/// Flags of a queue pair.
fn create_flags(integrity: bool) -> u32 {
    if integrity {
        // CAST: A flag.
        bindings::ib_qp_create_flags_IB_QP_CREATE_INTEGRITY_EN as u32
    } else {
        0
    }
}

/// The creation of a queue pair.
pub(crate) struct InitQp {
    name: &'static str,
    profile: Profile,
    integrity: bool,
    wrs: u32,
    ctxs: u32,
    /// Without `force_mr`, and with.
    want: (u32, u32),
    /// What C makes of it, where that is something else.
    c: Option<(u32, u32)>,
}

impl Param for InitQp {
    fn name(&self) -> &'static str {
        self.name
    }
}

/// A queue pair of so many work requests and contexts, and the send queue it gets.
const fn init(
    name: &'static str,
    profile: Profile,
    integrity: bool,
    (wrs, ctxs): (u32, u32),
    want: (u32, u32),
) -> InitQp {
    InitQp {
        name,
        profile,
        integrity,
        wrs,
        ctxs,
        want,
        c: None,
    }
}

/// The same, where C computes with 32 bits.
const fn wraps(this: InitQp, c: (u32, u32)) -> InitQp {
    InitQp { c: Some(c), ..this }
}

const HUGE: Profile = RXE.max_qp_wr(u32::MAX);

#[rustfmt::skip]
pub(crate) static INIT_QP: &[InitQp] = &[
    init("no contexts", RXE, false, (10, 0), (10, 10)),
    init("rxe", RXE, false, (10, 100), (110, 310)),
    init("rxe, integrity", RXE, true, (10, 100), (310, 310)),
    init("siw", SIW, false, (10, 100), (310, 310)),
    init("mlx5", MLX5, false, (10, 100), (310, 310)),
    init("rxe, clamped", RXE.max_qp_wr(50), false, (10, 100), (50, 50)),
    init("siw, clamped", SIW.max_qp_wr(309), false, (10, 100), (309, 309)),
    init("siw, just fits", SIW.max_qp_wr(310), false, (10, 100), (310, 310)),
    wraps(
        init("D3: rxe, the sum wraps", HUGE, false, (10, u32::MAX), (u32::MAX, u32::MAX)),
        (9, 7),
    ),
    wraps(
        init("D3: siw, the product wraps", SIW.max_qp_wr(1000), false, (10, 0x5555_5556), (1000, 1000)),
        (12, 12),
    ),
    wraps(
        init("D3: siw, clamped in the end", SIW, false, (10, 0x6000_0000), (1 << 15, 1 << 15)),
        (1 << 15, 1 << 15),
    ),
];

/// What `rdma_rw_init_qp` makes of the attributes of a queue pair, as its device sees them.
pub(crate) fn init_qp(test: &Test, case: &InitQp) -> Result {
    let target = target::get()?;
    let rig = Rig::new(case.profile, QpSpec::of(&case.profile, 0))?;
    let spec = QpSpec {
        wrs: case.wrs,
        ctxs: case.ctxs,
        integrity: case.integrity,
        ..QpSpec::of(&case.profile, 0)
    };
    let want = match case.c {
        Some(c) if !target.is_rust() => target.pick(c),
        _ => target.pick(case.want),
    };

    // The device has a look and refuses it, so that the pools of MRs do not matter.
    rig.mock.plan(|plan| plan.create_qp = true);
    test.expect_eq(
        "whether the queue pair was refused",
        rig.add_qp(spec).err() == Some(EOPNOTSUPP) || case.ctxs == 0,
        true,
    );
    test.expect_eq("max_send_wr", rig.mock.qp_caps().max_send_wr, want);

    // The three say the same, as long as the numbers do.
    if case.c.is_none() {
        // SAFETY: The device is registered.
        let max = unsafe {
            bindings::rdma_rw_max_send_wr(
                rig.mock.as_raw(),
                1,
                case.ctxs,
                create_flags(case.integrity),
            )
        };

        test.expect_eq(
            "rdma_rw_max_send_wr and what is asked for",
            (max + case.wrs).min(case.profile.max_qp_wr),
            want,
        );
    }
    Ok(())
}

/// The pools of a queue pair.
pub(crate) struct Pools {
    name: &'static str,
    profile: Profile,
    integrity: bool,
    ctxs: u32,
    /// MRs for data and for protection information, without `force_mr`, and with.
    want: ((u32, u32), (u32, u32)),
}

impl Param for Pools {
    fn name(&self) -> &'static str {
        self.name
    }
}

pub(crate) static POOLS: &[Pools] = &[
    Pools {
        name: "rxe",
        profile: RXE,
        integrity: false,
        ctxs: 5,
        want: ((0, 0), (5, 0)),
    },
    Pools {
        name: "siw",
        profile: SIW,
        integrity: false,
        ctxs: 5,
        want: ((5, 0), (5, 0)),
    },
    Pools {
        name: "mlx5",
        profile: MLX5,
        integrity: false,
        ctxs: 5,
        want: ((5, 0), (5, 0)),
    },
    Pools {
        name: "mlx5, integrity",
        profile: MLX5,
        integrity: true,
        ctxs: 5,
        want: ((5, 5), (5, 5)),
    },
    Pools {
        name: "no contexts",
        profile: MLX5,
        integrity: true,
        ctxs: 0,
        want: ((0, 0), (0, 0)),
    },
];

/// What `rdma_rw_init_mrs` puts into the pools of a queue pair.
pub(crate) fn pools(test: &Test, case: &Pools) -> Result {
    let target = target::get()?;
    let mut spec = QpSpec::of(&case.profile, case.ctxs);
    spec.integrity = case.integrity;
    let rig = Rig::new(case.profile, spec)?;

    test.expect_eq("MRs in the pools", rig.qp.pools(), target.pick(case.want));
    rig.finish(test);
    Ok(())
}

/// `rdma_rw_init_mrs` that fails at every MR in turn leaves nothing, and the device as it was.
pub(crate) fn pools_fail(test: &Test) -> Result {
    let spec = QpSpec::of(&MLX5, 3).integrity();
    let rig = Rig::new(MLX5, spec)?;

    for k in 1..=6 {
        rig.mock.plan(|plan| plan.alloc_mr = Some((k, ENOMEM)));
        let qp = rig.add_qp(spec);

        test.expect(
            qp.as_ref().err() == Some(&ENOMEM),
            fmt!("no error of MR {k}"),
        );
        drop(qp);
        test.expect_eq("MRs of the device", rig.mock.nr_mrs(), 6);
    }

    // All seven are there without a failure, and go with their queue pair.
    rig.mock.plan(|plan| plan.alloc_mr = Some((7, ENOMEM)));
    let qp = rig.add_qp(spec)?;
    test.expect_eq("MRs in the pools", qp.pools(), (3, 3));
    test.expect_eq("MRs of the device", rig.mock.nr_mrs(), 12);
    drop(qp);
    test.expect_eq("MRs of the device", rig.mock.nr_mrs(), 6);
    rig.mock.clear_plan();
    rig.finish(test);
    Ok(())
}
