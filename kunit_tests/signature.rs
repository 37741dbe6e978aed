// SPDX-License-Identifier: GPL-2.0

//! Transfers of data with protection information.

use core::ptr;

use kernel::prelude::*;

use crate::bindings;
use crate::ctx::{
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
    is_pattern,
    Local,
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
    Adjacent,
    Each,
    List,
    Pages, //
};

/// Bytes of data to a piece of protection information, and bytes of that.
const INTERVAL: u32 = 512;
const PI: u32 = 8;

/// Where there is protection information.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Protected {
    /// Nowhere.
    Nowhere,
    /// In local memory alone.
    Memory,
    /// On the wire alone.
    Wire,
    /// In both.
    Both,
}

/// A transfer.
pub(crate) struct Case {
    name: &'static str,
    profile: Profile,
    dir: Dir,
    protected: Protected,
    data: Shape,
    /// Of the protection information, where it is in local memory.
    prot: Shape,
    want: Result<()>,
    /// What is right, where C says `EINVAL`.
    rust_only: bool,
}

impl Param for Case {
    fn name(&self) -> &'static str {
        self.name
    }
}

/// A transfer that is to go well.
const fn good(
    name: &'static str,
    profile: Profile,
    dir: Dir,
    protected: Protected,
    (data, prot): (Shape, Shape),
) -> Case {
    Case {
        name,
        profile,
        dir,
        protected,
        data,
        prot,
        want: Ok(()),
        rust_only: false,
    }
}

/// One that is not.
const fn bad(
    name: &'static str,
    profile: Profile,
    dir: Dir,
    protected: Protected,
    shapes: (Shape, Shape),
) -> Case {
    Case {
        want: Err(EINVAL),
        ..good(name, profile, dir, protected, shapes)
    }
}

/// One that goes well if mapped entries are counted.
const fn d15(
    name: &'static str,
    profile: Profile,
    dir: Dir,
    protected: Protected,
    shapes: (Shape, Shape),
) -> Case {
    Case {
        rust_only: true,
        ..good(name, profile, dir, protected, shapes)
    }
}

const MLX5: Profile = Profile::MLX5;
const MLX5_DMA: Profile = MLX5.dma(Dma::Ours { coalesce: false });
const MLX5_IOMMU: Profile = MLX5.dma(Dma::Ours { coalesce: true });
const MLX5_PCI: Profile = MLX5.dma(Dma::Pci);
/// There is no such device, but nothing in the API says so.
const IWARP: Profile = Profile::SIW.pi_pages(64);

const NONE: Shape = List(&[]);
use Protected::{
    Both,
    Memory,
    Nowhere,
    Wire, //
};

#[rustfmt::skip]
pub(crate) static SIGNATURE: &[Case] = &[
    good("WRITE, nothing protected", MLX5, Write, Nowhere, (Pages(3), NONE)),
    good("READ, nothing protected", MLX5, Read, Nowhere, (Pages(3), NONE)),
    good("WRITE, passed on", MLX5, Write, Both, (Pages(2), Each(1, (0, 128)))),
    good("READ, passed on", MLX5, Read, Both, (Pages(2), Each(1, (64, 128)))),
    good("WRITE, one interval", MLX5, Write, Both, (Each(1, (0, 512)), Each(1, (8, 8)))),
    good("READ, many lists of it", MLX5, Read, Both, (Pages(4), Each(4, (128, 64)))),
    good("WRITE, 64 pages", MLX5, Write, Both, (Pages(64), Pages(1))),
    good("READ, 128 pages", MLX5, Read, Both, (Pages(128), Pages(2))),
    good("WRITE, stripped", MLX5, Write, Memory, (Pages(2), Each(1, (0, 128)))),
    good("READ, inserted", MLX5, Read, Memory, (Pages(2), Each(1, (0, 128)))),
    good("WRITE, inserted", MLX5, Write, Wire, (Pages(2), NONE)),
    good("READ, stripped", MLX5, Read, Wire, (Pages(2), NONE)),
    good("WRITE of sectors", MLX5, Write, Both, (Each(9, (512, 512)), Each(9, (16, 8)))),
    good("READ of sectors", MLX5, Read, Both, (Adjacent(16, 512), Adjacent(16, 8))),
    good("iWARP WRITE", IWARP, Write, Both, (Pages(2), Each(1, (0, 128)))),
    good("iWARP READ", IWARP, Read, Both, (Pages(2), Each(1, (0, 128)))),
    good("iWARP READ, nothing protected", IWARP, Read, Nowhere, (Pages(1), NONE)),
    good("DMA: WRITE", MLX5_DMA, Write, Both, (Pages(3), Each(1, (0, 192)))),
    good("DMA: READ", MLX5_DMA, Read, Both, (Pages(3), Each(3, (0, 64)))),
    good("DMA: READ, nothing protected", MLX5_DMA, Read, Nowhere, (Pages(3), NONE)),
    good("coalesced: READ", MLX5_IOMMU, Read, Both, (Pages(16), Each(1, (0, 1024)))),
    good("IOMMU: WRITE", MLX5_PCI, Write, Both, (Pages(8), Each(1, (0, 512)))),
    good("IOMMU: READ", MLX5_PCI, Read, Both, (Pages(40), Each(1, (0, 2560)))),
    good("as many as an MR takes", MLX5.pi_pages(4), Write, Both, (Pages(4), Each(4, (0, 64)))),
    bad("too many for an MR", MLX5.pi_pages(4), Write, Both, (Pages(5), Each(1, (0, 320)))),
    bad("too much of it for an MR", MLX5.pi_pages(4), Read, Both, (Pages(4), Each(8, (0, 32)))),
    bad("DMA: too many", MLX5_DMA.pi_pages(4), Write, Nowhere, (Pages(5), NONE)),
    bad("DMA: too much of it", MLX5_DMA.pi_pages(4), Read, Both, (Pages(4), Each(8, (0, 32)))),
    d15("D15: 8 pages are 1", MLX5_IOMMU.pi_pages(4), Write, Both, (Pages(8), Each(1, (0, 512)))),
    d15("D15: so is their protection", MLX5_IOMMU.pi_pages(2), Read, Both, (Pages(128), Pages(2))),
    d15("D15: nothing protected", MLX5_IOMMU.pi_pages(1), Read, Nowhere, (Pages(8), NONE)),
];

/// Attributes.
fn attributes(protected: Protected) -> bindings::ib_sig_attrs {
    // SAFETY: All members are numbers.
    let mut attrs: bindings::ib_sig_attrs = unsafe { core::mem::zeroed() };
    let t10_dif = bindings::ib_signature_type_IB_SIG_TYPE_T10_DIF;

    attrs.check_mask = 0xc3;
    if matches!(protected, Memory | Both) {
        attrs.mem.sig_type = t10_dif;
        attrs.mem.sig.dif.pi_interval = INTERVAL as u16;
    }
    if matches!(protected, Wire | Both) {
        attrs.wire.sig_type = t10_dif;
        attrs.wire.sig.dif.pi_interval = INTERVAL as u16;
        attrs.wire.sig.dif.ref_tag = 0x1234;
    }
    attrs
}

/// Seeds of the data, the protection information, and the remote side.
const DATA: u64 = 11;
const PROT: u64 = 12;
const THERE: u64 = 13;

/// Makes a transfer twice, so that the second one has to invalidate the first, and looks at it.
pub(crate) fn signature(test: &Test, case: &Case) -> Result {
    let rust = target::get()?.is_rust();
    let spec = QpSpec::of(&case.profile, 2).integrity();
    let rig = match Rig::new(case.profile, spec) {
        Err(e) if e == EOPNOTSUPP => {
            return test.skip(c"this kernel or machine has no such DMA");
        }
        rig => rig?,
    };
    let mut data = Local::new(&rig.mock, case.data)?;
    let mut prot = Local::new(&rig.mock, case.prot)?;
    let (data_list, prot_list) = (data.sg()?, prot.sg()?);
    let meta = prot.len();
    let on_wire = match case.protected {
        Both => data.len() + meta,
        _ => data.len(),
    };
    let want = match case.want {
        Ok(()) if case.rust_only && !rust => Err(EINVAL),
        want => want,
    };
    let mut attrs = attributes(case.protected);
    // SAFETY: Zeroes are no function.
    let mut cqe: bindings::ib_cqe = unsafe { core::mem::zeroed() };

    for round in 0..2 {
        let mut ctx = Ctx::new(&rig.qp)?;

        data.poison();
        prot.poison();
        if case.dir == Write {
            data.fill(DATA);
            prot.fill(PROT);
        }
        rig.mock.fill_remote(on_wire as usize, THERE)?;
        let made = ctx.init_signature(
            &data_list,
            (meta != 0).then_some(&prot_list),
            &mut attrs,
            REMOTE_ADDR,
            case.dir,
        );
        match want {
            Err(e) => {
                test.expect_eq("the error", made, Err(e));
                test.expect_eq("MRs taken", rig.qp.mrs_used(), 0);
                continue;
            }
            // From the second round on, what was registered is invalidated.
            Ok(()) => test.expect_eq("work requests", made?, 2 + round),
        }
        test.expect_eq("the tag", ctx.tag(), Tag::Signature);
        test.expect_eq("nr_ops", ctx.nr_ops(), 1);
        test.expect_eq("MRs taken", rig.qp.mrs_used(), 1);
        test.expect_eq("MRs left", rig.qp.pools(), (2, 1));
        check(test, &mut ctx, case, &mut cqe, on_wire, &attrs);

        let first = ctx.wrs(&mut cqe, none());
        post_chain(&rig.qp, first)?;
        rig.expect_no_faults(test);
        let completed = rig.mock.take_completed()?;
        test.expect(
            completed.len() == 1 && completed.iter().all(|c| c.ok && ptr::eq(c.cqe, &cqe)),
            fmt!("it does not complete"),
        );
        ctx.destroy();
        check_bytes(test, &rig, case, &mut data, &mut prot)?;
    }
    rig.finish(test);
    Ok(())
}

/// Looks at the work requests.
fn check(
    test: &Test,
    ctx: &mut Ctx<'_>,
    case: &Case,
    cqe: &mut bindings::ib_cqe,
    on_wire: u64,
    attrs: &bindings::ib_sig_attrs,
) {
    let mr = ctx.mr(0);
    let mut access = bindings::ib_access_flags_IB_ACCESS_LOCAL_WRITE;
    if case.profile.iwarp {
        access |= bindings::ib_access_flags_IB_ACCESS_REMOTE_WRITE;
    }

    for wr in chain(ctx.wrs(cqe, none())) {
        // SAFETY: The context has this MR, an integrity MR with attributes.
        let (key, has) = unsafe { ((*mr).lkey, &*(*mr).sig_attrs) };

        match wr.opcode() {
            bindings::ib_wr_opcode_IB_WR_LOCAL_INV => {
                test.expect(
                    wr.invalidates() >> 8 == key >> 8,
                    fmt!("another MR is invalidated"),
                );
            }
            bindings::ib_wr_opcode_IB_WR_REG_MR_INTEGRITY => {
                test.expect_eq("what is registered", wr.reg(), (mr, key, access));
                // SAFETY: Both are numbers, and what they are a union of is the same.
                let same = unsafe {
                    has.check_mask == attrs.check_mask
                        && has.mem.sig_type == attrs.mem.sig_type
                        && has.wire.sig_type == attrs.wire.sig_type
                        && has.wire.sig.dif.ref_tag == attrs.wire.sig.dif.ref_tag
                };
                test.expect(same, fmt!("the MR has other attributes"));
            }
            opcode => {
                let want = match case.dir {
                    Write => bindings::ib_wr_opcode_IB_WR_RDMA_WRITE,
                    Read => bindings::ib_wr_opcode_IB_WR_RDMA_READ,
                };

                test.expect_eq("opcode", opcode, want);
                test.expect_eq("bytes on the wire", wr.len(), on_wire);
                test.expect_eq("remote address", wr.remote().0, REMOTE_ADDR);
                test.expect_eq(
                    "key of the SGE",
                    wr.sges().first().map(|sge| sge.lkey),
                    Some(key),
                );
            }
        }
    }
}

/// Looks at what has arrived.
fn check_bytes(
    test: &Test,
    rig: &Rig,
    case: &Case,
    data: &mut Local<'_>,
    prot: &mut Local<'_>,
) -> Result {
    let (local, meta) = (data.read()?, prot.read()?);
    let (interval, pi) = (INTERVAL as usize, PI as usize);

    if case.protected != Both {
        let good = rig.mock.with_remote(|remote| match case.dir {
            Write => is_pattern(DATA, 0, &remote[..local.len()]),
            Read => is_pattern(THERE, 0, &local),
        });

        test.expect(good, fmt!("other bytes have arrived"));
        return Ok(());
    }

    // On the wire, each interval is followed by what protects it.
    let mut good = meta.len() / pi == local.len() / interval;
    for (i, (data, meta)) in local
        .chunks_exact(interval)
        .zip(meta.chunks_exact(pi))
        .enumerate()
    {
        let at = i * (interval + pi);

        good &= match case.dir {
            Write => rig.mock.with_remote(|remote| {
                let (data, meta) = remote[at..at + interval + pi].split_at(interval);

                is_pattern(DATA, (i * interval) as u64, data)
                    && is_pattern(PROT, (i * pi) as u64, meta)
            }),
            Read => {
                is_pattern(THERE, at as u64, data)
                    && is_pattern(THERE, (at + interval) as u64, meta)
            }
        };
    }
    test.expect(good, fmt!("other bytes have arrived"));
    Ok(())
}

/// An empty pool, and failures of the device and of DMA.
pub(crate) fn signature_fails(test: &Test) -> Result {
    for profile in [MLX5, MLX5_DMA] {
        let rig = match Rig::new(profile, QpSpec::of(&profile, 1).integrity()) {
            Err(e) if e == EOPNOTSUPP => continue,
            rig => rig?,
        };
        let data = Local::new(&rig.mock, Pages(2))?;
        let prot = Local::new(&rig.mock, Each(1, (0, 128)))?;
        let (data, prot) = (data.sg()?, prot.sg()?);
        let mut attrs = attributes(Both);
        let mut ctx = Ctx::new(&rig.qp)?;
        let mut init =
            |ctx: &mut Ctx<'_>| ctx.init_signature(&data, Some(&prot), &mut attrs, 0, Write);

        let drained = rig.qp.drain_signature(0)?;
        test.expect_eq("without an MR", init(&mut ctx), Err(EAGAIN));
        drop(drained);

        rig.mock
            .plan(|plan| plan.map_mr = Some((1, BadMap::Error(EREMOTEIO))));
        test.expect_eq("not mapped into the MR", init(&mut ctx), Err(EREMOTEIO));

        if profile.dma != Dma::Virtual {
            for k in 1..=2 {
                rig.mock.plan(|plan| plan.map = Some((k, EREMOTEIO)));
                test.expect_eq("not mapped for DMA", init(&mut ctx), Err(EREMOTEIO));
                test.expect_eq("mappings left", rig.mock.live_mappings(), 0);
            }
        }
        rig.mock.clear_plan();
        test.expect_eq("at last", init(&mut ctx), Ok(2));
        drop(ctx);
        rig.finish(test);
    }
    Ok(())
}
