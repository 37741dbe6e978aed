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
    multi::{
        self,
        Segments, //
    },
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
    #[inline]
    pub(super) fn protocol(&self) -> Protocol {
        self.qp.device().protocol(self.port_num)
    }

    /// Whether the transfer must use MRs, whatever its memory looks like.
    #[inline]
    fn requires_mr(&self) -> bool {
        (self.dir == Direction::Read && self.protocol() == Protocol::Iwarp) || self.qp.is_forced()
    }

    /// Whether the transfer is better made with MRs, over `nents` entries.
    #[inline]
    fn prefers_mrs(&self, nents: u32) -> bool {
        let limit = self.qp.device().max_sgl_rd();

        self.dir == Direction::Read && limit != 0 && nents > limit
    }

    /// Makes a context for a scatterlist, leaving out its first `offset` bytes.
    ///
    /// Returns the number of work requests. See [`crate::rdma_rw_ctx_init`].
    #[inline]
    pub(crate) fn init_sg(self, slot: Slot<'_>, list: SgSource, offset: u32) -> Result<c_int> {
        let device = self.qp.device();
        let slot = slot.of_list(list);

        // A software device needs no mapping but a note in each entry, which is made on the way.
        if device.dma_device().is_none() && !self.requires_mr() {
            let cursor = Cursor::of_virtual(&list, device, offset)?;
            if !self.prefers_mrs(cursor.left()) {
                return self.init_direct(slot, cursor);
            }
        }

        let mapped = MappedSg::new(device, list, self.dir)?;
        let count = self.init_mapped(slot, Cursor::new(&mapped, offset)?)?;

        mapped.keep();
        Ok(count)
    }

    /// [`Transfer::init_sg`] for the shortest of transfers: one entry, on a device that works with
    /// kernel addresses. There is nothing to be taken or given back.
    ///
    /// None for any other, and for whatever may fail.
    #[inline(always)]
    pub(crate) fn init_sg_at_once(
        self,
        slot: Slot<'_>,
        list: SgSource,
        offset: u32,
    ) -> Option<c_int> {
        let device = self.qp.device();

        if list.nents().get() != 1 || device.dma_device().is_some() || self.requires_mr() {
            return None;
        }
        self.qp.max_sge(self.dir)?;

        let segment = list.map_virtual_one(&Pages::known_virtual()?, offset)?;
        Some(single::init(&mut slot.of_list(list), &self, segment))
    }

    /// Makes a context for a list that is mapped.
    #[inline(never)]
    fn init_mapped(self, mut slot: Slot<'_>, cursor: Cursor<'_>) -> Result<c_int> {
        if self.requires_mr() {
            return registered::init_sg(&mut slot, self, cursor, Misfit::Split);
        }
        if self.prefers_mrs(cursor.left()) {
            match registered::init_sg(&mut slot, self, cursor.clone(), Misfit::Refuse) {
                // No MR is left, or this memory does not fit: SGEs it is.
                Err(e) if e == EAGAIN || e == EINVAL => {}
                result => return result,
            }
        }
        self.init_direct(slot, cursor)
    }

    /// Makes a context of SGEs.
    #[inline]
    fn init_direct(self, mut slot: Slot<'_>, mut segments: impl Segments) -> Result<c_int> {
        // A QP without SGEs can do nothing.
        let max_sge = self.qp.max_sge(self.dir).ok_or(EINVAL)?;

        match segments.only()? {
            Some(segment) => Ok(single::init(&mut slot, &self, segment)),
            None => multi::init(slot, self, segments, max_sge),
        }
    }

    /// Makes a context for an array of `bio_vec`.
    ///
    /// Returns the number of work requests. See [`crate::rdma_rw_ctx_init_bvec`].
    #[inline]
    pub(crate) fn init_bvec(self, mut slot: Slot<'_>, source: BvecSource<'_>) -> Result<c_int> {
        if self.requires_mr() {
            return registered::init_bvec(&mut slot, self, source);
        }

        if source.nr_bvecs() > 1 {
            // Whatever hinders the IOVA range, SGEs cover the same bytes from the first one on.
            if let Some(count) = iova::init(&mut slot, self, source.clone())? {
                return Ok(count);
            }
        }

        let device = self.qp.device();
        if device.dma_device().is_some() {
            let segments = MappedPieces::<'_, true>::new(device, self.dir, source)?;
            self.init_direct(slot, segments)
        } else {
            let segments = MappedPieces::<'_, false>::new(device, self.dir, source)?;
            self.init_direct(slot, segments)
        }
    }

    /// [`Transfer::init_bvec`] for the shortest of transfers: within one entry, on a device that
    /// works with kernel addresses.
    ///
    /// None for any other, and for whatever may fail.
    #[inline(always)]
    pub(crate) fn init_bvec_at_once(self, mut slot: Slot<'_>, piece: Piece) -> Option<c_int> {
        if self.qp.device().dma_device().is_some() || self.requires_mr() {
            return None;
        }
        self.qp.max_sge(self.dir)?;

        let segment = piece.segment(&Pages::known_virtual()?);
        Some(single::init(&mut slot, &self, segment))
    }

    /// Makes a context for data with protection information.
    ///
    /// Returns the number of work requests. See [`crate::rdma_rw_ctx_signature_init`].
    pub(crate) fn init_signature(
        self,
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
        let count = signature::init(&mut slot, &self, &data, prot.as_ref(), attrs)?;

        if let Some(prot) = prot {
            prot.keep();
        }
        data.keep();
        Ok(count)
    }
}
