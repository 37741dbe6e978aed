// SPDX-License-Identifier: GPL-2.0

//! Transfers and what becomes of them: path, work requests, SGEs, and the bytes that arrive.

use kernel::prelude::*;

use crate::bindings;
use crate::ctx::{
    chain,
    post_chain,
    Ctx,
    Dir,
    Tag,
    Wr, //
};
use crate::kunit::{
    Param,
    Test, //
};
use crate::lists::{
    bvec_iter,
    is_pattern,
    Local,
    Shape, //
};
use crate::mock::{
    Dma,
    Profile,
    LOCAL_DMA_LKEY,
    PAGE,
    REMOTE_ADDR,
    REMOTE_KEY, //
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
    Pages,
    Within, //
};

/// How local memory is handed over.
#[derive(Clone, Copy)]
enum Form {
    /// A scatterlist of which so many bytes are left out at the start.
    Sg(u32),
    /// The same, in two tables, the first of so many entries.
    Chained(u32, u32),
    /// An array of `bio_vec`, all of it.
    Bvec,
    /// An array of `bio_vec` from an entry on, bytes of it left out, and so many bytes.
    Part(u32, u32, u32),
}

/// What is to become of a transfer.
#[derive(Clone, Copy)]
enum Want {
    /// One SGE.
    Single,
    /// Work requests of so many SGEs.
    Multi(&'static [u32]),
    /// So many MRs.
    Mr(u32),
    /// One IOVA range.
    Iova,
    /// An error, and nothing left behind.
    Fails(Error),
    /// This, while C says `EINVAL`.
    Rust(&'static Want),
    /// One SGE, while C has work requests of so many.
    Merged(&'static [u32]),
    /// This, while C makes something else of entries that are empty.
    Sound(&'static Want),
}

/// A transfer, and what is to become of it.
pub(crate) struct Golden {
    name: &'static str,
    profile: Profile,
    /// `max_send_sge`, where it is not that of the device.
    sges: Option<u32>,
    dir: Dir,
    shape: Shape,
    form: Form,
    /// MRs that are left in the pool.
    pool: Option<u32>,
    plain: Want,
    /// With `force_mr`.
    forced: Want,
}

impl Param for Golden {
    fn name(&self) -> &'static str {
        self.name
    }
}

impl Golden {
    /// With so many SGEs in a work request.
    const fn sges(mut self, sges: u32) -> Self {
        self.sges = Some(sges);
        self
    }

    /// With so many MRs left in the pool.
    const fn pool(mut self, left: u32) -> Self {
        self.pool = Some(left);
        self
    }

    /// With the first so many entries in a table of their own.
    const fn chained(mut self, first: u32) -> Self {
        if let Form::Sg(offset) = self.form {
            self.form = Form::Chained(offset, first);
        }
        self
    }
}

/// A scatterlist.
const fn sg(
    name: &'static str,
    profile: Profile,
    dir: Dir,
    (shape, offset): (Shape, u32),
    plain: Want,
    forced: Want,
) -> Golden {
    Golden {
        name,
        profile,
        sges: None,
        dir,
        shape,
        form: Form::Sg(offset),
        pool: None,
        plain,
        forced,
    }
}

/// An array of `bio_vec`.
const fn bvec(
    name: &'static str,
    profile: Profile,
    dir: Dir,
    shape: Shape,
    plain: Want,
    forced: Want,
) -> Golden {
    Golden {
        form: Form::Bvec,
        ..sg(name, profile, dir, (shape, 0), plain, forced)
    }
}

/// A part of an array of `bio_vec`: from an entry on, bytes of it left out, and so many bytes.
const fn part(
    name: &'static str,
    profile: Profile,
    dir: Dir,
    (shape, idx, done, size): (Shape, u32, u32, u32),
    plain: Want,
    forced: Want,
) -> Golden {
    Golden {
        form: Form::Part(idx, done, size),
        ..sg(name, profile, dir, (shape, 0), plain, forced)
    }
}

const RXE: Profile = Profile::RXE;
const SIW: Profile = Profile::SIW;
const MLX5: Profile = Profile::MLX5;

/// Behind DMA that knows all mappings.
const MLX5_DMA: Profile = MLX5.dma(Dma::Ours { coalesce: false });
/// And makes one of adjacent pages.
const MLX5_IOMMU: Profile = MLX5.dma(Dma::Ours { coalesce: true });
/// Behind a real IOMMU.
const MLX5_PCI: Profile = MLX5.dma(Dma::Pci);
const SIW_DMA: Profile = SIW.dma(Dma::Ours { coalesce: false });
const SIW_PCI: Profile = SIW.dma(Dma::Pci);
const RXE_DMA: Profile = RXE.dma(Dma::Ours { coalesce: false });
/// Behind DMA that has nothing to do.
const RXE_DIRECT: Profile = RXE.dma(Dma::Direct);
/// Behind a real IOMMU, with local memory of a PCI function.
const MLX5_PEER: Profile = MLX5.dma(Dma::Peer { own: true });
const SIW_PEER: Profile = SIW.dma(Dma::Peer { own: true });
/// And without a way there.
const MLX5_APART: Profile = MLX5.dma(Dma::Peer { own: false });
const SIW_APART: Profile = SIW.dma(Dma::Peer { own: false });

/// So many MRs, of which each starts at a gap or where the last one is full; C has none of that.
const fn gaps(mrs: u32) -> Want {
    match mrs {
        2 => Want::Rust(&Mr(2)),
        3 => Want::Rust(&Mr(3)),
        4 => Want::Rust(&Mr(4)),
        5 => Want::Rust(&Mr(5)),
        6 => Want::Rust(&Mr(6)),
        10 => Want::Rust(&Mr(10)),
        16 => Want::Rust(&Mr(16)),
        17 => Want::Rust(&Mr(17)),
        _ => Want::Fails(ENODEV),
    }
}
const AGAIN: Want = Want::Fails(EAGAIN);
/// The same of memory that C refuses.
const NO_MR_LEFT: Want = Want::Rust(&AGAIN);
/// What the DMA API says of memory that the device does not get at.
const NO_WAY: Want = Want::Fails(EREMOTEIO);
use Want::{
    Iova,
    Merged,
    Mr,
    Multi,
    Single,
    Sound, //
};

/// Entries that neither begin nor end with a page.
const ODD: Shape = List(&[(7, 100), (4000, 96), (1, 4095), (0, 4096), (512, 1)]);
/// Entries of which only the first does not begin and the last not end with a page.
const WHOLE: Shape = List(&[(100, 3996), (0, 4096), (0, 77)]);
/// Two neighbours, with an empty one of elsewhere between them.
const AROUND: Shape = Within(&[(0, 4096), (12288, 0), (4096, 4096)]);
/// Entries longer than a page.
const LONG: Shape = List(&[(0, 8192), (0, 65536), (0, 12288)]);

/// SGEs, where C insists on MRs that it can do without.
const NO_MRS: Want = Want::Rust(&Multi(&[17]));
const MIB: u32 = 1 << 20;

/// 256 pages by 30 SGEs.
const BY_30: &[u32] = &[30, 30, 30, 30, 30, 30, 30, 30, 16];
/// 256 pages by 32 SGEs.
const BY_32: &[u32] = &[32; 8];
/// 64 pages by 6 SGEs.
const BY_6: &[u32] = &[6, 6, 6, 6, 6, 6, 6, 6, 6, 6, 4];

#[rustfmt::skip]
pub(crate) static TRANSFER_SG: &[Golden] = &[
    // One entry.
    sg("rxe WRITE of 1 page", RXE, Write, (Pages(1), 0), Single, Mr(1)),
    sg("rxe READ of 1 page", RXE, Read, (Pages(1), 0), Single, Mr(1)),
    sg("siw WRITE of 1 page", SIW, Write, (Pages(1), 0), Single, Mr(1)),
    sg("siw READ of 1 page", SIW, Read, (Pages(1), 0), Mr(1), Mr(1)),
    sg("mlx5 WRITE of 1 page", MLX5, Write, (Pages(1), 0), Single, Mr(1)),
    sg("mlx5 READ of 1 page", MLX5, Read, (Pages(1), 0), Single, Mr(1)),
    sg("rxe WRITE of 1 byte", RXE, Write, (Each(1, (0, 1)), 0), Single, Mr(1)),
    sg("rxe READ of 1 byte", RXE, Read, (Each(1, (4095, 1)), 0), Single, Mr(1)),
    sg("siw READ of 1 byte", SIW, Read, (Each(1, (17, 1)), 0), Mr(1), Mr(1)),
    sg("rxe WRITE of 1 odd entry", RXE, Write, (Each(1, (33, 777)), 0), Single, Mr(1)),
    sg("rxe READ of 1 long entry", RXE, Read, (Each(1, (100, 30000)), 0), Single, Mr(1)),
    sg("siw READ of 1 long entry", SIW, Read, (Each(1, (100, 30000)), 0), Mr(1), Mr(1)),
    // Several entries, and the number of SGEs.
    sg("rxe WRITE of 2 pages", RXE, Write, (Pages(2), 0), Multi(&[2]), Mr(1)),
    sg("rxe READ of 2 pages", RXE, Read, (Pages(2), 0), Multi(&[2]), Mr(1)),
    sg("rxe WRITE of 32 pages", RXE, Write, (Pages(32), 0), Multi(&[32]), Mr(1)),
    sg("rxe WRITE of 33 pages", RXE, Write, (Pages(33), 0), Multi(&[32, 1]), Mr(1)),
    sg("rxe READ of 33 pages", RXE, Read, (Pages(33), 0), Multi(&[32, 1]), Mr(1)),
    sg("rxe READ of 64 pages", RXE, Read, (Pages(64), 0), Multi(&[32, 32]), Mr(1)),
    sg("rxe READ of 256 pages", RXE, Read, (Pages(256), 0), Multi(BY_32), Mr(1)),
    sg("rxe WRITE of 256 pages", RXE, Write, (Pages(256), 0), Multi(BY_32), Mr(1)),
    sg("rxe WRITE of 10 by 4", RXE, Write, (Pages(10), 0), Multi(&[4, 4, 2]), Mr(1)).sges(4),
    sg("rxe WRITE of 3 by 1", RXE, Write, (Pages(3), 0), Multi(&[1, 1, 1]), Mr(1)).sges(1),
    sg("rxe READ of 8 by 4", RXE, Read, (Pages(8), 0), Multi(&[4, 4]), Mr(1)).sges(4),
    sg("READ limit 3", RXE.max_sge_rd(3), Read, (Pages(8), 0), Multi(&[3, 3, 2]), Mr(1)),
    sg("READ limit 3, WRITE", RXE.max_sge_rd(3), Write, (Pages(8), 0), Multi(&[8]), Mr(1)),
    sg("siw WRITE of 64 pages", SIW, Write, (Pages(64), 0), Multi(BY_6), Mr(1)),
    sg("siw WRITE of 7 pages", SIW, Write, (Pages(7), 0), Multi(&[6, 1]), Mr(1)),
    // Odd entries.
    sg("rxe WRITE of odd entries", RXE, Write, (ODD, 0), Multi(&[5]), gaps(4)),
    sg("rxe READ of odd entries", RXE, Read, (ODD, 0), Multi(&[5]), gaps(4)),
    sg("rxe WRITE of odd entries by 2", RXE, Write, (ODD, 0), Multi(&[2, 2, 1]), gaps(4)).sges(2),
    sg("siw WRITE of odd entries", SIW, Write, (ODD, 0), Multi(&[5]), gaps(4)),
    sg("rxe WRITE, ends in pages", RXE, Write, (WHOLE, 0), Multi(&[3]), Mr(1)),
    sg("rxe READ, ends in pages", RXE, Read, (WHOLE, 0), Multi(&[3]), Mr(1)),
    sg("siw READ, ends in pages", SIW, Read, (WHOLE, 0), Mr(1), Mr(1)),
    sg("rxe WRITE of long entries", RXE, Write, (LONG, 0), Multi(&[3]), Mr(1)),
    sg("rxe READ of long entries", RXE, Read, (LONG, 0), Multi(&[3]), Mr(1)),
    sg("siw READ of long entries", SIW, Read, (LONG, 0), Mr(1), Mr(1)),
    sg("rxe READ of adjacent sectors", RXE, Read, (Adjacent(24, 512), 0), Multi(&[24]), Mr(1)),
    sg("siw READ of adjacent sectors", SIW, Read, (Adjacent(24, 512), 0), Mr(1), Mr(1)),
    // Offsets.
    sg("rxe WRITE, offset 0", RXE, Write, (Pages(3), 0), Multi(&[3]), Mr(1)),
    sg("rxe WRITE, offset 1", RXE, Write, (Pages(3), 1), Multi(&[3]), Mr(1)),
    sg("rxe WRITE, offset 4095", RXE, Write, (Pages(3), 4095), Multi(&[3]), Mr(1)),
    sg("rxe WRITE, offset 4096", RXE, Write, (Pages(3), 4096), Multi(&[2]), Mr(1)),
    sg("rxe WRITE, offset 4097", RXE, Write, (Pages(3), 4097), Multi(&[2]), Mr(1)),
    sg("rxe WRITE, offset 12287", RXE, Write, (Pages(3), 12287), Single, Mr(1)),
    sg("rxe READ, offset 1", RXE, Read, (Pages(3), 1), Multi(&[3]), Mr(1)),
    sg("rxe READ, offset 4095", RXE, Read, (Pages(3), 4095), Multi(&[3]), Mr(1)),
    sg("rxe READ, offset 4097", RXE, Read, (Pages(3), 4097), Multi(&[2]), Mr(1)),
    sg("rxe READ, offset 12287", RXE, Read, (Pages(3), 12287), Single, Mr(1)),
    sg("rxe WRITE of 1, offset 1000", RXE, Write, (Pages(1), 1000), Single, Mr(1)),
    sg("rxe READ of 1, offset 4095", RXE, Read, (Pages(1), 4095), Single, Mr(1)),
    sg("siw READ, offset 0", SIW, Read, (Pages(3), 0), Mr(1), Mr(1)),
    sg("siw READ, offset 1", SIW, Read, (Pages(3), 1), Mr(1), Mr(1)),
    sg("siw READ, offset 4096", SIW, Read, (Pages(3), 4096), Mr(1), Mr(1)),
    sg("siw READ, offset 4097", SIW, Read, (Pages(3), 4097), Mr(1), Mr(1)),
    sg("siw READ, offset 12287", SIW, Read, (Pages(3), 12287), Mr(1), Mr(1)),
    sg("odd entries, offset 99", RXE, Read, (ODD, 99), Multi(&[5]), gaps(4)),
    sg("odd entries, offset 100", RXE, Read, (ODD, 100), Multi(&[4]), gaps(3)),
    sg("odd entries, last byte", RXE, Read, (ODD, 8387), Single, Mr(1)),
    // D11: entries of more pages than an MR has.
    sg("D11: siw READ, 2 of 1 MiB", SIW, Read, (Each(2, (0, MIB)), 0), gaps(2), gaps(2)),
    sg("D11: siw READ, 1 of 3 MiB", SIW, Read, (Each(1, (0, 3 * MIB)), 0), gaps(3), gaps(3)),
    sg("D11: rxe WRITE, 2 of 1 MiB", RXE, Write, (Each(2, (0, MIB)), 0), Multi(&[2]), gaps(2)),
    sg("D11: in the middle of an entry", SIW.mr_pages(4), Read, (Each(1, (100, 40000)), 0), gaps(3), gaps(3)),
    sg("D11: behind an offset", SIW.mr_pages(4), Read, (Each(1, (0, 40000)), 5000), gaps(3), gaps(3)),
    sg("D11: some fit", SIW.mr_pages(4), Read, (LONG, 0), gaps(6), gaps(6)),
    sg("D11: DMA", SIW_DMA.mr_pages(4), Read, (LONG, 1), gaps(6), gaps(6)),
    sg("D11: coalesced", MLX5_IOMMU.mr_pages(8), Write, (Pages(40), 0), Single, gaps(5)),
    // D12: entries that do not end or begin with a page.
    sg("D12: siw READ of odd entries", SIW, Read, (ODD, 0), gaps(4), gaps(4)),
    sg("D12: siw READ, offset", SIW, Read, (ODD, 99), gaps(4), gaps(4)),
    sg("D12: siw READ, the last ones", SIW, Read, (ODD, 101), gaps(3), gaps(3)),
    sg("D12: one behind the other", SIW, Read, (Each(10, (4095, 1)), 0), gaps(10), gaps(10)),
    sg("D12: MRs it can do without", MLX5, Read, (Each(17, (512, 512)), 0), NO_MRS, gaps(17)),
    sg("D12: DMA, can do without", MLX5_DMA, Read, (Each(17, (1, 4000)), 0), NO_MRS, gaps(17)),
    sg("D12: chained", SIW, Read, (ODD, 0), gaps(4), gaps(4)).chained(2),
    // Tables that are chained.
    sg("chained 5 and 5", RXE, Write, (Pages(10), 0), Multi(&[10]), Mr(1)).chained(5),
    sg("chained 1 and 4 by 2", RXE, Read, (Pages(5), 0), Multi(&[2, 2, 1]), Mr(1))
        .sges(2)
        .chained(1),
    sg("chained, offset into the second", RXE, Write, (Pages(6), 3 * PAGE), Multi(&[3]), Mr(1))
        .chained(3),
    sg("siw READ, chained", SIW, Read, (Pages(9), 0), Mr(1), Mr(1)).chained(4),
    // When READs are registered.
    sg("max_sgl_rd 16: READ of 16", MLX5, Read, (Pages(16), 0), Multi(&[16]), Mr(1)),
    sg("max_sgl_rd 16: READ of 17", MLX5, Read, (Pages(17), 0), Mr(1), Mr(1)),
    sg("max_sgl_rd 16: WRITE of 17", MLX5, Write, (Pages(17), 0), Multi(&[17]), Mr(1)),
    sg("max_sgl_rd 16: READ of 17, offset", MLX5, Read, (Pages(17), PAGE), Multi(&[16]), Mr(1)),
    sg("max_sgl_rd 16: READ of 256", MLX5, Read, (Pages(256), 0), Mr(1), Mr(1)),
    sg("max_sgl_rd 1: READ of 1", MLX5.max_sgl_rd(1), Read, (Pages(1), 0), Single, Mr(1)),
    sg("max_sgl_rd 1: READ of 2", MLX5.max_sgl_rd(1), Read, (Pages(2), 0), Mr(1), Mr(1)),
    sg("max_sgl_rd 16: WRITE of 256", MLX5, Write, (Pages(256), 0), Multi(BY_30), Mr(1)),
    // MRs that do not suffice.
    sg("MR of 128: siw READ of 256", SIW.mr_pages(128), Read, (Pages(256), 0), Mr(2), Mr(2)),
    sg("MR of 128: siw READ of 129", SIW.mr_pages(128), Read, (Pages(129), 0), Mr(2), Mr(2)),
    sg("MR of 128: siw READ of 128", SIW.mr_pages(128), Read, (Pages(128), 0), Mr(1), Mr(1)),
    sg("MR of 4, offset", SIW.mr_pages(4), Read, (Pages(9), 4097), Mr(2), Mr(2)),
    sg("MR of 4: READ of 29", SIW.mr_pages(4), Read, (Pages(29), 5), Mr(8), Mr(8)),
    sg("MR of 1: READ of 5", SIW.mr_pages(1), Read, (Pages(5), 0), Mr(5), Mr(5)),
    sg("MR of 16: mlx5 READ of 17", MLX5.mr_pages(16), Read, (Pages(17), 0), Mr(2), Mr(2)),
    sg("siw READ of 257", SIW, Read, (Pages(257), 0), Mr(2), Mr(2)),
    // Pools that are empty.
    sg("pool empty: mlx5 READ of 17", MLX5, Read, (Pages(17), 0), Multi(&[17]), AGAIN).pool(0),
    sg("pool empty: mlx5 READ of 16", MLX5, Read, (Pages(16), 0), Multi(&[16]), AGAIN).pool(0),
    sg("pool empty: siw READ of 1", SIW, Read, (Pages(1), 0), AGAIN, AGAIN).pool(0),
    sg("pool empty: siw WRITE of 1", SIW, Write, (Pages(1), 0), Single, AGAIN).pool(0),
    sg("pool of 1 of 2: mlx5", MLX5.mr_pages(16), Read, (Pages(17), 0), Multi(&[17]), AGAIN).pool(1),
    sg("pool of 1 of 2: siw", SIW.mr_pages(4), Read, (Pages(5), 0), AGAIN, AGAIN).pool(1),
    sg("pool of 2 of 2: siw", SIW.mr_pages(4), Read, (Pages(5), 0), Mr(2), Mr(2)).pool(2),
    // DMA through mappings.
    sg("DMA: rxe WRITE of 1", RXE_DMA, Write, (Pages(1), 0), Single, Mr(1)),
    sg("DMA: rxe READ of 5", RXE_DMA, Read, (Pages(5), 4000), Multi(&[5]), Mr(1)),
    sg("DMA: odd entries", RXE_DMA, Write, (ODD, 50), Multi(&[5]), gaps(4)),
    sg("DMA: mlx5 READ of 17", MLX5_DMA, Read, (Pages(17), 0), Mr(1), Mr(1)),
    sg("DMA: mlx5 WRITE of 256", MLX5_DMA, Write, (Pages(256), 0), Multi(BY_30), Mr(1)),
    sg("DMA: siw READ of 257", SIW_DMA, Read, (Pages(257), 9), Mr(2), Mr(2)),
    sg("DMA: pool empty, siw READ", SIW_DMA, Read, (Pages(3), 0), AGAIN, AGAIN).pool(0),
    sg("DMA: pool empty, mlx5 READ", MLX5_DMA, Read, (Pages(17), 0), Multi(&[17]), AGAIN).pool(0),
    // Entries that become one.
    sg("coalesced: READ of 17 pages", MLX5_IOMMU, Read, (Pages(17), 0), Single, Mr(1)),
    sg("coalesced: READ of 17, offset", MLX5_IOMMU, Read, (Pages(17), 5000), Single, Mr(1)),
    sg("coalesced: WRITE of 256 pages", MLX5_IOMMU, Write, (Pages(256), 1), Single, Mr(1)),
    sg("coalesced: ends in pages", MLX5_IOMMU, Write, (WHOLE, 0), Single, Mr(1)),
    sg("coalesced: nothing to be", MLX5_IOMMU, Write, (Each(5, (512, 512)), 0), Multi(&[5]), gaps(5)),
    sg("coalesced: 2 of 5", MLX5_IOMMU, Read, (ODD, 0), Multi(&[4]), gaps(4)),
];

#[rustfmt::skip]
pub(crate) static TRANSFER_BVEC: &[Golden] = &[
    // One entry.
    bvec("rxe WRITE of 1 page", RXE, Write, Pages(1), Single, Mr(1)),
    bvec("rxe READ of 1 page", RXE, Read, Pages(1), Single, Mr(1)),
    bvec("siw WRITE of 1 page", SIW, Write, Pages(1), Single, Mr(1)),
    bvec("siw READ of 1 page", SIW, Read, Pages(1), Mr(1), Mr(1)),
    bvec("mlx5 READ of 1 page", MLX5, Read, Pages(1), Single, Mr(1)),
    bvec("rxe WRITE of 1 byte", RXE, Write, Each(1, (4095, 1)), Single, Mr(1)),
    bvec("rxe READ of 1 long entry", RXE, Read, Each(1, (100, 30000)), Single, Mr(1)),
    // Several entries.
    bvec("rxe WRITE of 2 pages", RXE, Write, Pages(2), Multi(&[2]), Mr(1)),
    bvec("rxe READ of 32 pages", RXE, Read, Pages(32), Multi(&[32]), Mr(1)),
    bvec("rxe READ of 33 pages", RXE, Read, Pages(33), Multi(&[32, 1]), Mr(1)),
    bvec("rxe WRITE of 256 pages", RXE, Write, Pages(256), Multi(BY_32), Mr(1)),
    bvec("rxe WRITE of 10 by 4", RXE, Write, Pages(10), Multi(&[4, 4, 2]), Mr(1)).sges(4),
    bvec("READ limit 3", RXE.max_sge_rd(3), Read, Pages(8), Multi(&[3, 3, 2]), Mr(1)),
    bvec("mlx5 READ of 256 pages", MLX5, Read, Pages(256), Multi(BY_30), Mr(1)),
    bvec("mlx5 WRITE of 256 pages", MLX5, Write, Pages(256), Multi(BY_30), Mr(1)),
    bvec("mlx5 READ of 17, no MR", MLX5, Read, Pages(17), Multi(&[17]), Mr(1)),
    bvec("rxe WRITE of odd entries", RXE, Write, ODD, Multi(&[5]), gaps(4)),
    bvec("rxe READ of odd entries by 2", RXE, Read, ODD, Multi(&[2, 2, 1]), gaps(4)).sges(2),
    bvec("rxe READ of long entries", RXE, Read, LONG, Multi(&[3]), Mr(1)),
    bvec("rxe READ, adjacent sectors", RXE, Read, Adjacent(24, 512), Merged(&[24]), Mr(1)),
    bvec("rxe WRITE, adjacent pages", RXE, Write, Adjacent(8, 4096), Merged(&[8]), Mr(1)),
    bvec("rxe WRITE, 40 adjacent pages", RXE, Write, Adjacent(40, 4096), Merged(&[32, 8]), Mr(1)),
    bvec("siw READ of 5 pages", SIW, Read, Pages(5), Mr(1), Mr(1)),
    bvec("siw READ, ends in pages", SIW, Read, WHOLE, Mr(1), Mr(1)),
    bvec("siw READ of long entries", SIW, Read, LONG, Mr(1), Mr(1)),
    bvec("siw READ, adjacent sectors", SIW, Read, Adjacent(24, 512), Mr(1), Mr(1)),
    bvec("siw READ of 256 pages", SIW, Read, Pages(256), Mr(1), Mr(1)),
    bvec("siw READ of 257 pages", SIW, Read, Pages(257), Mr(2), Mr(2)),
    bvec("siw WRITE of 64 pages", SIW, Write, Pages(64), Multi(BY_6), Mr(1)),
    bvec("MR of 128: READ of 256", SIW.mr_pages(128), Read, Pages(256), Mr(2), Mr(2)),
    bvec("MR of 4: READ of 9", SIW.mr_pages(4), Read, Pages(9), Mr(3), Mr(3)),
    bvec("D11: siw READ, 2 of 1 MiB", SIW, Read, Each(2, (0, MIB)), gaps(2), gaps(2)),
    bvec("D11: in the middle of an entry", SIW.mr_pages(4), Read, Each(1, (100, 40000)), gaps(3), gaps(3)),
    bvec("D12: siw READ of odd entries", SIW, Read, ODD, gaps(4), gaps(4)),
    bvec("D12: DMA", SIW_DMA, Read, ODD, gaps(4), gaps(4)),
    part("D12: ends cut off", SIW, Read, (ODD, 0, 99, 8289), gaps(4), gaps(4)),
    bvec("pool empty: siw READ of 1", SIW, Read, Pages(1), AGAIN, AGAIN).pool(0),
    bvec("pool empty: mlx5 READ", MLX5, Read, Pages(17), Multi(&[17]), AGAIN).pool(0),
    bvec("pool of 1 of 2: siw", SIW.mr_pages(4), Read, Pages(5), AGAIN, AGAIN).pool(1),
    // Parts of an array.
    part("the middle of 1 entry", RXE, Write, (Pages(1), 0, 100, 200), Single, Mr(1)),
    part("the end of 1 entry", RXE, Read, (Pages(1), 0, 4095, 1), Single, Mr(1)),
    part("the start of 1 entry", RXE, Read, (Pages(1), 0, 0, 1), Single, Mr(1)),
    part("siw, middle of 1", SIW, Read, (Pages(1), 0, 100, 200), Mr(1), Mr(1)),
    part("ends cut off", RXE, Write, (Pages(4), 0, 4095, 8194), Multi(&[4]), Mr(1)),
    part("ends cut off by 3", RXE, Read, (Pages(4), 0, 1, 16380), Multi(&[3, 1]), Mr(1)).sges(3),
    part("siw, ends cut off", SIW, Read, (Pages(4), 0, 4095, 8194), Mr(1), Mr(1)),
    part("odd entries, ends cut off", RXE, Read, (ODD, 0, 99, 8289), Multi(&[5]), gaps(4)),
    // DMA through mappings, where no IOVA range is to be had.
    bvec("DMA: WRITE of 1", RXE_DMA, Write, Pages(1), Single, Mr(1)),
    bvec("DMA: READ of 5", RXE_DMA, Read, Pages(5), Multi(&[5]), Mr(1)),
    bvec("DMA: odd entries by 2", RXE_DMA, Write, ODD, Multi(&[2, 2, 1]), gaps(4)).sges(2),
    bvec("DMA: mlx5 READ of 256", MLX5_DMA, Read, Pages(256), Multi(BY_30), Mr(1)),
    bvec("DMA: adjacent pages", MLX5_DMA, Write, Adjacent(20, 4096), Multi(&[20]), Mr(1)),
    bvec("DMA: siw READ of 257", SIW_DMA, Read, Pages(257), Mr(2), Mr(2)),
    bvec("DMA: siw WRITE of 7", SIW_DMA, Write, Pages(7), Multi(&[6, 1]), Mr(1)),
    bvec("DMA: pool empty, siw READ", SIW_DMA, Read, Pages(3), AGAIN, AGAIN).pool(0),
    part("DMA: ends cut off", RXE_DMA, Read, (Pages(4), 0, 4095, 8194), Multi(&[4]), Mr(1)),
    // DMA that needs no mappings, where neighbours have one in common.
    bvec("direct: WRITE of 1", RXE_DIRECT, Write, Pages(1), Single, Mr(1)),
    bvec("direct: READ of 5", RXE_DIRECT, Read, Pages(5), Multi(&[5]), Mr(1)),
    bvec("direct: adjacent pages", RXE_DIRECT, Write, Adjacent(8, 4096), Merged(&[8]), Mr(1)),
    bvec("direct: an empty one between", RXE_DIRECT, Read, AROUND, Sound(&Single), Sound(&Mr(1))),
    bvec("direct: the same by 2", RXE_DIRECT, Write, AROUND, Sound(&Single), Sound(&Mr(1))).sges(2),
];

#[rustfmt::skip]
pub(crate) static TRANSFER_IOMMU: &[Golden] = &[
    sg("WRITE of 1", MLX5_PCI, Write, (Pages(1), 0), Single, Mr(1)),
    sg("READ of 1, offset", MLX5_PCI, Read, (Pages(1), 1000), Single, Mr(1)),
    sg("READ of 16 pages becomes 1", MLX5_PCI, Read, (Pages(16), 0), Single, Mr(1)),
    sg("READ of 17 pages becomes 2", MLX5_PCI, Read, (Pages(17), 0), Multi(&[2]), Mr(1)),
    sg("WRITE of 64 pages becomes 4", MLX5_PCI, Write, (Pages(64), 1), Multi(&[4]), Mr(1)),
    sg("nothing to be one", MLX5_PCI, Read, (Each(16, (512, 512)), 0), Multi(&[16]), gaps(16)),
    sg("odd entries", MLX5_PCI, Write, (ODD, 0), Multi(&[4]), gaps(4)),
    sg("siw READ of 17", SIW_PCI, Read, (Pages(17), 7), Mr(1), Mr(1)),
    sg("siw READ, pool empty", SIW_PCI, Read, (Pages(17), 0), AGAIN, AGAIN).pool(0),
    sg("D11: 5 pages become 1", SIW_PCI.mr_pages(2), Read, (Pages(5), 0), gaps(3), gaps(3)),
    sg("D11: 5 pages, offset", SIW_PCI.mr_pages(2), Read, (Pages(5), 5000), gaps(2), gaps(2)),
    sg("D11: pool of 2 of 3", SIW_PCI.mr_pages(2), Read, (Pages(5), 0), NO_MR_LEFT, NO_MR_LEFT).pool(2),
    bvec("D11: bvec, 5 pages become 1", SIW_PCI.mr_pages(2), Read, Pages(5), gaps(3), gaps(3)),
    bvec("D11: bvec, 40 pages become 3", MLX5_PCI.mr_pages(8), Write, Pages(40), Iova, gaps(5)),
    bvec("bvec WRITE of 1", MLX5_PCI, Write, Each(1, (77, 1000)), Single, Mr(1)),
    bvec("bvec WRITE of 2 pages", MLX5_PCI, Write, Pages(2), Iova, Mr(1)),
    bvec("bvec READ of 256 pages", MLX5_PCI, Read, Pages(256), Iova, Mr(1)),
    bvec("bvec WRITE of 256 pages", MLX5_PCI, Write, Pages(256), Iova, Mr(1)),
    bvec("bvec READ, ends in pages", MLX5_PCI, Read, WHOLE, Iova, Mr(1)),
    bvec("bvec READ of long entries", MLX5_PCI, Read, LONG, Iova, Mr(1)),
    part("bvec, ends cut off", MLX5_PCI, Write, (Pages(4), 0, 4095, 8194), Iova, Mr(1)),
    part("bvec, middle of 1", MLX5_PCI, Read, (Pages(1), 0, 100, 200), Single, Mr(1)),
    bvec("siw bvec READ of 17", SIW_PCI, Read, Pages(17), Mr(1), Mr(1)),
    bvec("siw bvec WRITE of 17", SIW_PCI, Write, Pages(17), Iova, Mr(1)),
    // P2PDMA: the IOMMU has no part in it, so nothing becomes one.
    sg("peer: WRITE of 1", MLX5_PEER, Write, (Each(1, (77, 1000)), 0), Single, Mr(1)),
    sg("peer: WRITE of 31 pages, offset", MLX5_PEER, Write, (Pages(31), 1), Multi(&[30, 1]), Mr(1)),
    sg("peer: READ of adjacent pages", MLX5_PEER, Read, (Adjacent(3, 4096), 4097), Multi(&[2]), Mr(1)),
    sg("peer: READ of 17 pages", MLX5_PEER, Read, (Pages(17), 0), Mr(1), Mr(1)),
    sg("peer: READ, pool empty", MLX5_PEER, Read, (Pages(17), 0), Multi(&[17]), AGAIN).pool(0),
    sg("peer: siw READ of odd entries", SIW_PEER, Read, (ODD, 99), gaps(4), gaps(4)),
    sg("peer: no way, WRITE of 1", MLX5_APART, Write, (Pages(1), 0), NO_WAY, NO_WAY),
    sg("peer: no way, siw READ of 3", SIW_APART, Read, (Pages(3), 5000), NO_WAY, NO_WAY),
];

/// Seeds of the two sides.
const HERE: u64 = 1;
const THERE: u64 = 2;

/// MRs in the pool of the queue pair, unless that is what a case is about.
const CTXS: u32 = 17;

/// Transfers of scatterlists.
pub(crate) fn transfer_sg(test: &Test, case: &Golden) -> Result {
    transfer(test, case)
}

/// Transfers of arrays of `bio_vec`.
pub(crate) fn transfer_bvec(test: &Test, case: &Golden) -> Result {
    transfer(test, case)
}

/// Transfers of both behind a real IOMMU.
pub(crate) fn transfer_iommu(test: &Test, case: &Golden) -> Result {
    transfer(test, case)
}

/// Makes a transfer and looks at everything.
fn transfer(test: &Test, case: &Golden) -> Result {
    let target = target::get()?;
    let want = match target.pick((case.plain, case.forced)) {
        Want::Rust(want) if target.is_rust() => *want,
        Want::Rust(_) => Want::Fails(EINVAL),
        Want::Merged(_) if target.is_rust() => Want::Single,
        Want::Merged(sges) => Want::Multi(sges),
        Want::Sound(want) if target.is_rust() => *want,
        Want::Sound(_) => {
            return test.skip(c"rw.c takes an empty entry for one of its own");
        }
        want => want,
    };
    let mut spec = QpSpec::of(&case.profile, CTXS);
    if let Some(sges) = case.sges {
        spec.sges = sges;
    }
    let rig = match Rig::new(case.profile, spec) {
        Err(e) if e == EOPNOTSUPP => {
            return test.skip(match case.profile.dma {
                Dma::Pci => c"there is no edu device behind an IOMMU",
                Dma::Peer { .. } => c"there is no ivshmem device behind an IOMMU, or no P2PDMA",
                _ => c"a kernel without ARCH_HAS_DMA_OPS",
            });
        }
        rig => rig?,
    };
    let drained = match case.pool {
        Some(left) => Some(rig.qp.drain(left)?),
        None => None,
    };
    let mut local = Local::new(&rig.mock, case.shape)?;
    let (skip, end) = range(case, &local);
    let used = rig.qp.mrs_used();

    // What is outside of the transfer shows where it is touched.
    if case.dir == Write {
        local.fill(HERE);
    }
    rig.mock.fill_remote((end - skip) as usize, THERE)?;

    let sgl = match case.form {
        Form::Chained(_, first) => local.chained_sg(first)?,
        _ => local.sg()?,
    };
    let bvecs = local.bvecs()?;
    let mut ctx = Ctx::new(&rig.qp)?;
    let made = match case.form {
        Form::Sg(offset) | Form::Chained(offset, _) => {
            ctx.init(&sgl, offset, REMOTE_ADDR, case.dir)
        }
        Form::Bvec => ctx.init_bvec(&bvecs, bvec_iter(0, 0, local.len()), REMOTE_ADDR, case.dir),
        Form::Part(idx, done, size) => ctx.init_bvec(
            &bvecs,
            bvec_iter(idx, done, size.into()),
            REMOTE_ADDR,
            case.dir,
        ),
    };

    if let Want::Fails(want) = want {
        test.expect_eq(
            "the error",
            made.map_err(|e| e.to_errno()),
            Err(want.to_errno()),
        );
        test.expect_eq("number of MRs taken", rig.qp.mrs_used(), used);
    } else {
        let count = made?;

        check(test, &rig, &mut ctx, case, want, count, end - skip)?;
        if case.dir == Write {
            let arrived = rig
                .mock
                .with_remote(|remote| is_pattern(HERE, skip, &remote[..(end - skip) as usize]));

            test.expect(
                arrived,
                fmt!("other bytes than those here have arrived there"),
            );
            rig.mock.with_remote(|remote| {
                let rest = &remote[(end - skip) as usize..];

                test.expect(
                    is_pattern(THERE, end - skip, rest),
                    fmt!("more bytes than those here have arrived there"),
                );
            });
        }
        ctx.destroy();
        // Only now does the memory belong to the processor again.
        if case.dir == Read {
            test.expect(
                local.holds(THERE, skip, end),
                fmt!("other bytes than those there have arrived here, or elsewhere"),
            );
        }
        test.expect_eq("number of MRs taken", rig.qp.mrs_used(), used);
    }

    drop(ctx);
    drop(drained);
    rig.finish(test);
    Ok(())
}

/// First byte of the memory that is transferred, and the one behind the last.
fn range(case: &Golden, local: &Local<'_>) -> (u64, u64) {
    match case.form {
        Form::Sg(offset) | Form::Chained(offset, _) => (offset.into(), local.len()),
        Form::Bvec => (0, local.len()),
        // Parts of the tables start in the first entry.
        Form::Part(_, done, size) => (done.into(), u64::from(done) + u64::from(size)),
    }
}

/// Looks at a context, posts its work requests, and looks at what they did.
fn check(
    test: &Test,
    rig: &Rig,
    ctx: &mut Ctx<'_>,
    case: &Golden,
    want: Want,
    count: u32,
    len: u64,
) -> Result {
    let (tag, wrs, mrs) = match want {
        Want::Single => (Tag::Single, 1, 0),
        Want::Multi(sges) => (Tag::Multi, sges.len() as u32, 0),
        // None of these MRs has been registered before.
        Want::Mr(nr) => (Tag::Mr, nr * 2, nr),
        Want::Iova => (Tag::Iova, 1, 0),
        Want::Fails(_) | Want::Rust(_) | Want::Merged(_) | Want::Sound(_) => {
            return Err(EINVAL);
        }
    };
    let ops = if mrs != 0 { mrs } else { wrs };
    // SAFETY: Zeroes are no function.
    let mut cqe: bindings::ib_cqe = unsafe { core::mem::zeroed() };
    let before = rig.mock.counts();
    let used = rig.qp.mrs_used();

    test.expect_eq("the tag", ctx.tag(), tag);
    test.expect_eq("number of work requests", count, wrs);
    test.expect_eq("nr_ops", ctx.nr_ops(), ops);

    let first = ctx.wrs(&mut cqe, none());
    let mut got = 0;
    let mut total = 0;
    let mut nr_rdma = 0;
    let mut last: Option<Wr<'_>> = None;
    for wr in chain(first) {
        got += 1;
        if let Some(last) = last {
            test.expect(
                !last.signalled() && last.cqe().is_null(),
                fmt!("work request {} is signalled, but is not the last", got - 1),
            );
        }
        if wr.is_rdma() {
            check_rdma(test, case, want, wr, (nr_rdma, total));
            total += wr.len();
            nr_rdma += 1;
        } else {
            check_reg(test, case, wr);
        }
        last = Some(wr);
    }
    test.expect_eq("length of the chain", got, wrs);
    test.expect_eq("number of bytes", total, len);
    if let Some(last) = last {
        test.expect(
            last.is_rdma(),
            fmt!("the chain does not end with the transfer"),
        );
        test.expect(
            last.signalled() && core::ptr::eq(last.cqe(), &cqe),
            fmt!("the end of the chain does not notify its completion entry"),
        );
    }
    // Nobody else has any, unless the test has taken them from the pool.
    test.expect(used as u32 >= mrs, fmt!("fewer MRs taken than used"));

    post_chain(&rig.qp, first)?;
    rig.expect_no_faults(test);
    let completed = rig.mock.take_completed()?;
    test.expect_eq("number of completions", completed.len(), 1);
    if let Some(completed) = completed.first() {
        test.expect(
            completed.ok && core::ptr::eq(completed.cqe, &cqe),
            fmt!("the completion entry hears of no success"),
        );
    }
    let after = rig.mock.counts();
    test.expect_eq("number of bytes moved", after.bytes - before.bytes, len);
    test.expect_eq("number of registrations", after.regs - before.regs, mrs);
    Ok(())
}

/// Looks at a READ or WRITE, the so many-th, with so many bytes in those before it.
fn check_rdma(test: &Test, case: &Golden, want: Want, wr: Wr<'_>, (nr, before): (usize, u64)) {
    let registered = matches!(want, Want::Mr(_));
    let opcode = match case.dir {
        Write => bindings::ib_wr_opcode_IB_WR_RDMA_WRITE,
        Read if registered && case.profile.iwarp => bindings::ib_wr_opcode_IB_WR_RDMA_READ_WITH_INV,
        Read => bindings::ib_wr_opcode_IB_WR_RDMA_READ,
    };
    let sges = match want {
        Want::Multi(sges) => sges.get(nr).copied().unwrap_or(0),
        _ => 1,
    };

    test.expect_eq("opcode of the transfer", wr.opcode(), opcode);
    test.expect_eq("number of SGEs", wr.sges().len() as u32, sges);
    test.expect_eq(
        "remote address and key",
        wr.remote(),
        (REMOTE_ADDR.wrapping_add(before), REMOTE_KEY),
    );
    for sge in wr.sges() {
        test.expect(
            registered || sge.lkey == LOCAL_DMA_LKEY,
            fmt!("an SGE has the key {:#x}", sge.lkey),
        );
    }
}

/// Looks at a registration.
fn check_reg(test: &Test, case: &Golden, wr: Wr<'_>) {
    let mut access = bindings::ib_access_flags_IB_ACCESS_LOCAL_WRITE;
    if case.profile.iwarp {
        access |= bindings::ib_access_flags_IB_ACCESS_REMOTE_WRITE;
    }

    test.expect_eq(
        "opcode ahead of the transfer",
        wr.opcode(),
        bindings::ib_wr_opcode_IB_WR_REG_MR,
    );
    test.expect_eq("access flags", wr.reg().2, access);
    test.expect_eq("SGEs of a registration", wr.sges().len(), 0);
}
