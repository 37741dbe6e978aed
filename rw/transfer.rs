// SPDX-License-Identifier: GPL-2.0

//! What is to be transferred, and the choice of the path for it.

use kernel::ffi::c_int;
use kernel::prelude::*;

use super::{
    bvec::{
        MappedPieces,
        Piece, //
    },
    device::{
        DmaDevice,
        Protocol, //
    },
    dma::{
        self,
        MappedSg, //
    },
    iova,
    multi,
    pages::Pages,
    registered::{
        self,
        Misfit, //
    },
    sgl::Cursor,
    signature,
    BvecSource,
    Direction,
    Qp,
    SgSource,
    Slot, //
};
use crate::bindings;

/// Remote memory.
#[derive(Clone, Copy)]
pub(crate) struct Remote {
    /// Address of the first byte, as the remote side's key counts.
    pub(super) addr: u64,
    /// Key of the remote side.
    pub(super) rkey: u32,
}

impl Remote {
    /// The memory at an address under a key.
    #[inline]
    pub(crate) fn new(addr: u64, rkey: u32) -> Self {
        Self { addr, rkey }
    }

    /// The memory `len` bytes on. Addresses are the peer's business: they may wrap.
    #[inline]
    pub(super) fn advanced(self, len: u64) -> Self {
        Self {
            addr: self.addr.wrapping_add(len),
            rkey: self.rkey,
        }
    }
}

/// A transfer to be made: over which QP, which way, and to or from which remote memory.
#[derive(Clone, Copy)]
pub(crate) struct Transfer<'a> {
    /// QP that the work requests will be posted to.
    pub(super) qp: &'a Qp,
    /// Port of the QP's connection.
    port_num: u32,
    /// Remote memory.
    pub(super) remote: Remote,
    /// READ or WRITE.
    pub(super) dir: Direction,
}

impl<'a> Transfer<'a> {
    /// A transfer between local memory yet to be named and remote memory, over a port of a QP.
    #[inline]
    pub(crate) fn new(qp: &'a Qp, port_num: u32, remote: Remote, dir: Direction) -> Self {
        Self {
            qp,
            port_num,
            remote,
            dir,
        }
    }

    /// The same transfer, for a function that takes it in memory, as it stands there only then.
    #[inline(always)]
    fn in_memory(&self) -> Self {
        Self::new(self.qp, self.port_num, self.remote, self.dir)
    }

    /// What the port speaks.
    #[inline(always)]
    pub(super) fn protocol(&self) -> Protocol {
        self.qp.device().protocol(self.port_num)
    }

    /// Whether the transfer must use MRs, whatever its memory looks like.
    #[inline(always)]
    fn requires_mr(&self) -> bool {
        (self.dir == Direction::Read && self.protocol() == Protocol::Iwarp) || self.qp.is_forced()
    }

    /// Whether the device does DMA, and does not work with kernel addresses.
    #[inline(always)]
    fn needs_dma(&self) -> bool {
        self.qp.device().dma_device().is_some()
    }

    /// Whether the transfer is better made with MRs, over `nents` entries.
    #[inline(always)]
    fn prefers_mrs(&self, nents: u32) -> bool {
        let limit = self.qp.device().max_sgl_rd();

        self.dir == Direction::Read && limit != 0 && nents > limit
    }

    /// Whether memory of one entry is for an SGE, and there is room for one.
    #[inline(always)]
    fn takes_one_sge(&self) -> bool {
        !self.requires_mr() && self.qp.max_sge(self.dir).is_some()
    }

    /// Makes a context for the shortest of transfers over a scatterlist: one entry, on a device that
    /// works with kernel addresses, and no MR. There is nothing to be taken or given back. The slot
    /// knows the remote memory.
    ///
    /// None for whatever is longer or may fail.
    #[inline(always)]
    pub(crate) fn init_sg_at_once(
        &self,
        slot: Slot<'_>,
        list: impl FnOnce() -> Option<SgSource>,
        offset: u32,
    ) -> Option<c_int> {
        if self.needs_dma() {
            return None;
        }

        let list = list()?;
        if !self.takes_one_sge() {
            return None;
        }

        let segment = list.map_virtual_one(&Pages::known_virtual()?, offset)?;
        Some(slot.of_list(list).write_single(self, segment))
    }

    /// Makes a context for a scatterlist, leaving out its first `offset` bytes. The slot knows the
    /// remote memory. See [`crate::rdma_rw_ctx_init`].
    #[inline(always)]
    pub(crate) fn init_sg(&self, mut slot: Slot<'_>, list: SgSource, offset: u32) -> Result<c_int> {
        if self.requires_mr() {
            return self.init_sg_registered(slot, list, offset);
        }
        if let Some(dma_device) = self.qp.device().dma_device() {
            return if list.nents().get() == 1 && self.qp.max_sge(self.dir).is_some() {
                self.init_sg_one(slot, list, dma_device, offset)
            } else {
                self.init_sg_mapped(slot, list, offset)
            };
        }

        // A software device needs no mapping but a note in each entry, which is made on the way.
        let cursor = Cursor::of_virtual(&list, offset)?;
        if self.prefers_mrs(cursor.left()) {
            return self
                .in_memory()
                .init_sg_preferred(slot.lend(), list, offset);
        }
        multi::init(&mut slot.of_list(list), self, cursor)
    }

    /// [`Transfer::init_sg`] for a list of one entry, which is for an SGE and mapped for DMA first.
    #[inline(always)]
    fn init_sg_one(
        &self,
        slot: Slot<'_>,
        list: SgSource,
        dma_device: DmaDevice,
        offset: u32,
    ) -> Result<c_int> {
        let prepared = slot.of_list(list).prepare_single(self);
        let mapped = MappedSg::for_dma(self.qp.device(), dma_device, list, self.dir)?;
        let segment = mapped.first(offset)?;

        mapped.keep();
        Ok(prepared.over(segment))
    }

    /// [`Transfer::init_sg`] on a software device where MRs are better: they are for what is mapped
    /// as a whole.
    #[inline(never)]
    fn init_sg_preferred(self, slot: Slot<'_>, list: SgSource, offset: u32) -> Result<c_int> {
        self.init_sg_mapped(slot, list, offset)
    }

    /// Makes a context for a scatterlist that is to be mapped first, with MRs where they are better.
    #[inline(always)]
    fn init_sg_mapped(&self, slot: Slot<'_>, list: SgSource, offset: u32) -> Result<c_int> {
        let mut slot = slot.of_list(list);
        let mapped = MappedSg::new(self.qp.device(), list, self.dir)?;
        let cursor = Cursor::new(&mapped, offset)?;
        let registered = if self.prefers_mrs(cursor.left()) && mapped.is_filled() {
            match registered::prefer_sg(slot.lend(), self.in_memory(), cursor.clone()) {
                // No MR is left, or this memory does not fit: SGEs it is.
                Err(e) if e == EAGAIN || e == EINVAL => None,
                result => Some(result?),
            }
        } else {
            None
        };
        let count = match registered {
            Some(count) => count,
            None => multi::init(&mut slot, self, cursor)?,
        };

        mapped.keep();
        Ok(count)
    }

    /// Makes a context for a scatterlist that is to be registered.
    #[inline(always)]
    fn init_sg_registered(&self, slot: Slot<'_>, list: SgSource, offset: u32) -> Result<c_int> {
        let mut slot = slot.of_list(list);
        let mapped = MappedSg::new(self.qp.device(), list, self.dir)?;
        let cursor = Cursor::new(&mapped, offset)?;
        let misfit = if mapped.is_filled() {
            Misfit::Split
        } else {
            Misfit::Certain
        };
        let count = registered::init_sg(&mut slot, self, cursor, misfit)?;

        mapped.keep();
        Ok(count)
    }

    /// Makes a context for the shortest of transfers over an array of `bio_vec`: within one entry,
    /// on a device that works with kernel addresses, and no MR. The slot knows the remote memory.
    ///
    /// None for whatever may fail.
    #[inline(always)]
    pub(crate) fn init_bvec_at_once(
        &self,
        slot: Slot<'_>,
        piece: impl FnOnce() -> Option<Piece>,
    ) -> Option<c_int> {
        if self.needs_dma() || !self.takes_one_sge() {
            return None;
        }

        let pages = Pages::known_virtual()?;
        let segment = piece()?.segment(&pages);
        Some(slot.write_single(self, segment))
    }

    /// The same where the memory is mapped for DMA first. None where it is not for an SGE, or the
    /// device does no DMA: then the slot is as it was.
    #[inline(always)]
    pub(crate) fn init_bvec_one(&self, slot: &mut Slot<'_>, piece: Piece) -> Option<Result<c_int>> {
        let dma_device = self.qp.device().dma_device()?;

        self.takes_one_sge().then(|| {
            let prepared = slot.lend().prepare_single(self);
            let segment = piece.segment(&Pages::new(Some(dma_device), piece.page()));

            Ok(prepared.over(dma::map(Some(dma_device), self.dir, segment)?))
        })
    }

    /// Makes a context for an array of `bio_vec`. The slot knows the remote memory. See
    /// [`crate::rdma_rw_ctx_init_bvec`].
    #[inline(always)]
    pub(crate) fn init_bvec(&self, mut slot: Slot<'_>, source: BvecSource<'_>) -> Result<c_int> {
        if self.requires_mr() {
            return registered::init_bvec(&mut slot, self, source);
        }
        if self.needs_dma() {
            return self.init_bvec_mapped(slot, source);
        }
        multi::init(
            &mut slot,
            self,
            MappedPieces::<'_, false>::new(None, self.dir, source)?,
        )
    }

    /// Makes a context for an array of `bio_vec` that is to be mapped.
    #[inline(always)]
    fn init_bvec_mapped(&self, mut slot: Slot<'_>, source: BvecSource<'_>) -> Result<c_int> {
        if source.nr_bvecs() > 1 {
            // Whatever hinders the IOVA range, SGEs cover the same bytes from the first one on.
            if let Some(count) = iova::init(slot.lend(), self.in_memory(), source.clone())? {
                return Ok(count);
            }
        }

        multi::init(
            &mut slot,
            self,
            MappedPieces::<'_, true>::new(self.qp.device().dma_device(), self.dir, source)?,
        )
    }

    /// Makes a context for data with protection information.
    ///
    /// Returns the number of work requests. See [`crate::rdma_rw_ctx_signature_init`].
    pub(crate) fn init_signature(
        &self,
        slot: Slot<'_>,
        data: SgSource,
        prot: Option<SgSource>,
        attrs: &bindings::ib_sig_attrs,
    ) -> Result<c_int> {
        let device = self.qp.device();
        let mut slot = slot.of_list(data);
        let data = MappedSg::new(device, data, self.dir)?;
        let prot = match prot {
            Some(prot) => Some(MappedSg::new(device, prot, self.dir)?),
            None => None,
        };
        let count = signature::init(&mut slot, self, &data, prot.as_ref(), attrs)?;

        if let Some(prot) = prot {
            prot.keep();
        }
        data.keep();
        Ok(count)
    }
}
