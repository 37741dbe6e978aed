// SPDX-License-Identifier: GPL-2.0

//! What is to be transferred, and the choice of the path for it.

use kernel::ffi::c_int;
use kernel::prelude::*;

use super::{
    bvec::{
        MappedPieces,
        Piece, //
    },
    device::Protocol,
    dma::MappedSg,
    iova,
    multi,
    pages::Pages,
    registered::{
        self,
        Misfit, //
    },
    sgl::Cursor,
    signature,
    single,
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

    /// What the port speaks.
    #[inline(always)]
    pub(super) fn protocol(&self) -> Protocol {
        self.qp.device().protocol(self.port_num)
    }

    /// Whether the transfer must use MRs, whatever its memory looks like.
    #[inline(always)]
    pub(crate) fn requires_mr(&self) -> bool {
        (self.dir == Direction::Read && self.protocol() == Protocol::Iwarp) || self.qp.is_forced()
    }

    /// Whether the device does DMA, and does not work with kernel addresses.
    #[inline(always)]
    pub(crate) fn needs_dma(&self) -> bool {
        self.qp.device().dma_device().is_some()
    }

    /// Whether the transfer is better made with MRs, over `nents` entries.
    #[inline(always)]
    fn prefers_mrs(&self, nents: u32) -> bool {
        let limit = self.qp.device().max_sgl_rd();

        self.dir == Direction::Read && limit != 0 && nents > limit
    }

    /// Makes a context for the shortest of transfers over a scatterlist: one entry, on a device that
    /// works with kernel addresses, and no MR. There is nothing to be taken or given back.
    ///
    /// None for whatever is longer or may fail.
    #[inline(always)]
    pub(crate) fn init_sg_at_once(
        &self,
        slot: Slot<'_>,
        list: SgSource,
        offset: u32,
    ) -> Option<c_int> {
        if list.nents().get() != 1 {
            return None;
        }
        self.qp.max_sge(self.dir)?;

        let segment = list.map_virtual_one(&Pages::known_virtual()?, offset)?;
        Some(single::init(&mut slot.of_list(list), self, segment))
    }

    /// Makes a context for a scatterlist, leaving out its first `offset` bytes, on a device that
    /// works with kernel addresses: instead of a mapping there is a note in each entry, which is
    /// made on the way. See [`crate::rdma_rw_ctx_init`].
    #[inline(always)]
    pub(crate) fn init_sg(&self, slot: Slot<'_>, list: SgSource, offset: u32) -> Result<c_int> {
        let cursor = Cursor::of_virtual(&list, self.qp.device(), offset)?;

        if self.prefers_mrs(cursor.left()) {
            return self.init_sg_preferred(slot, list, offset);
        }
        multi::init(&mut slot.of_list(list), self, cursor)
    }

    /// [`Transfer::init_sg`] where MRs are better: they are for what is mapped as a whole.
    #[inline(never)]
    fn init_sg_preferred(&self, slot: Slot<'_>, list: SgSource, offset: u32) -> Result<c_int> {
        self.init_sg_mapped(slot, list, offset)
    }

    /// Makes a context for a scatterlist that is to be mapped first, with MRs where they are better.
    #[inline(always)]
    pub(crate) fn init_sg_mapped(
        &self,
        slot: Slot<'_>,
        list: SgSource,
        offset: u32,
    ) -> Result<c_int> {
        let mut slot = slot.of_list(list);
        let mapped = MappedSg::new(self.qp.device(), list, self.dir)?;
        let cursor = Cursor::new(&mapped, offset)?;
        let registered = if self.prefers_mrs(cursor.left()) {
            match registered::prefer_sg(&mut slot, self, &cursor) {
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
    pub(crate) fn init_sg_registered(
        &self,
        slot: Slot<'_>,
        list: SgSource,
        offset: u32,
    ) -> Result<c_int> {
        let mut slot = slot.of_list(list);
        let mapped = MappedSg::new(self.qp.device(), list, self.dir)?;
        let cursor = Cursor::new(&mapped, offset)?;
        let count = registered::init_sg(&mut slot, self, cursor, Misfit::Split)?;

        mapped.keep();
        Ok(count)
    }

    /// Makes a context for the shortest of transfers over an array of `bio_vec`: within one entry,
    /// on a device that works with kernel addresses, and no MR.
    ///
    /// None for whatever may fail.
    #[inline(always)]
    pub(crate) fn init_bvec_at_once(&self, mut slot: Slot<'_>, piece: Piece) -> Option<c_int> {
        self.qp.max_sge(self.dir)?;

        let segment = piece.segment(&Pages::known_virtual()?);
        Some(single::init(&mut slot, self, segment))
    }

    /// Makes a context for an array of `bio_vec` on a device that works with kernel addresses. See
    /// [`crate::rdma_rw_ctx_init_bvec`].
    #[inline(always)]
    pub(crate) fn init_bvec(&self, mut slot: Slot<'_>, source: BvecSource<'_>) -> Result<c_int> {
        let segments = MappedPieces::<'_, false>::new(self.qp.device(), self.dir, source)?;

        multi::init(&mut slot, self, segments)
    }

    /// Makes a context for an array of `bio_vec` that is to be mapped.
    #[inline(always)]
    pub(crate) fn init_bvec_mapped(
        &self,
        mut slot: Slot<'_>,
        source: BvecSource<'_>,
    ) -> Result<c_int> {
        if source.nr_bvecs() > 1 {
            // Whatever hinders the IOVA range, SGEs cover the same bytes from the first one on.
            if let Some(count) = iova::init(&mut slot, self, &source)? {
                return Ok(count);
            }
        }

        let segments = MappedPieces::<'_, true>::new(self.qp.device(), self.dir, source)?;
        multi::init(&mut slot, self, segments)
    }

    /// Makes a context for an array of `bio_vec` that is to be registered.
    #[inline(always)]
    pub(crate) fn init_bvec_registered(
        &self,
        mut slot: Slot<'_>,
        source: BvecSource<'_>,
    ) -> Result<c_int> {
        registered::init_bvec(&mut slot, self, source)
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
