// SPDX-License-Identifier: GPL-2.0

//! What is to be transferred, and the choice of the path for it.

use kernel::ffi::c_int;
use kernel::prelude::*;

use super::{
    bvec::MappedSegments,
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

/// What MRs are to a transfer.
enum MrUse {
    /// None needed.
    Direct,
    /// Worth it, but SGEs will do.
    Preferred,
    /// The transfer cannot be made without.
    Required,
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

    /// What MRs are to this transfer over `nents` mapped entries.
    #[inline]
    fn mr_use(&self, nents: u32) -> MrUse {
        if self.requires_mr() {
            return MrUse::Required;
        }

        let limit = self.qp.device().max_sgl_rd();
        if self.dir == Direction::Read && limit != 0 && nents > limit {
            MrUse::Preferred
        } else {
            MrUse::Direct
        }
    }

    /// Makes a context for a scatterlist, leaving out its first `offset` bytes.
    ///
    /// Returns the number of work requests. See [`crate::rdma_rw_ctx_init`].
    #[inline]
    pub(crate) fn init_sg(self, slot: Slot<'_>, list: SgSource, offset: u32) -> Result<c_int> {
        let mapped = MappedSg::new(self.qp.device(), list, self.dir)?;
        let cursor = Cursor::new(&mapped, offset)?;
        let count = self.init_mapped(slot.of_list(list), cursor)?;

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
    #[inline]
    fn init_mapped(self, mut slot: Slot<'_>, mut cursor: Cursor<'_>) -> Result<c_int> {
        if let MrUse::Direct = self.mr_use(cursor.left()) {
            // A QP without SGEs can do nothing.
            let max_sge = self.qp.max_sge(self.dir).ok_or(EINVAL)?;

            if cursor.left() == 1 {
                let segment = cursor.next_segment().ok_or(EIO)?;
                return Ok(single::init(&mut slot, &self, segment));
            }
            return multi::init(slot, self, cursor, max_sge);
        }
        self.init_with_mrs(slot, cursor)
    }

    /// [`Transfer::init_mapped`] where MRs are of use.
    #[inline(never)]
    fn init_with_mrs(self, mut slot: Slot<'_>, cursor: Cursor<'_>) -> Result<c_int> {
        if self.requires_mr() {
            return registered::init_sg(&mut slot, self, cursor, Misfit::Split);
        }

        match registered::init_sg(&mut slot, self, cursor.clone(), Misfit::Refuse) {
            // No MR is left, or this memory does not fit: SGEs it is.
            Err(e) if e == EAGAIN || e == EINVAL => {}
            result => return result,
        }
        let max_sge = self.qp.max_sge(self.dir).ok_or(EINVAL)?;
        multi::init(slot, self, cursor, max_sge)
    }

    /// Makes a context for an array of `bio_vec`.
    ///
    /// Returns the number of work requests. See [`crate::rdma_rw_ctx_init_bvec`].
    #[inline]
    pub(crate) fn init_bvec(self, mut slot: Slot<'_>, source: BvecSource<'_>) -> Result<c_int> {
        if self.requires_mr() {
            return registered::init_bvec(&mut slot, self, source);
        }

        let max_sge = self.qp.max_sge(self.dir).ok_or(EINVAL)?;
        if source.nr_bvecs() > 1 {
            // Whatever hinders the IOVA range, SGEs cover the same bytes from the first one on.
            if let Some(count) = iova::init(&mut slot, self, source.clone())? {
                return Ok(count);
            }
        }

        let segments = MappedSegments::new(self.qp.device(), self.dir, source)?;
        if let Some(segment) = segments.only() {
            return Ok(single::init(&mut slot, &self, segments.map(segment)?));
        }
        multi::init(slot, self, segments, max_sge)
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
