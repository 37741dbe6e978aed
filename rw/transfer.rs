// SPDX-License-Identifier: GPL-2.0

//! What is to be transferred, and the choice of the path for it.

use kernel::ffi::c_int;
use kernel::prelude::*;

use super::{
    device::Protocol,
    dma::MappedSg,
    iova,
    multi,
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
    pub(crate) addr: u64,
    /// Key of the remote side.
    pub(crate) rkey: u32,
}

impl Remote {
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
    pub(crate) qp: &'a Qp,
    /// Port of the QP's connection.
    pub(crate) port_num: u32,
    /// Remote memory.
    pub(crate) remote: Remote,
    /// READ or WRITE.
    pub(crate) dir: Direction,
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

impl Transfer<'_> {
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
    pub(crate) fn init_sg(&self, slot: Slot<'_>, list: SgSource, offset: u32) -> Result<c_int> {
        let mapped = MappedSg::new(self.qp.device(), list, self.dir)?;
        let cursor = Cursor::new(&mapped, offset)?;
        let count = self.init_mapped(&mut slot.of_list(list), cursor)?;

        mapped.keep();
        Ok(count)
    }

    /// Makes a context for a list that is mapped.
    #[inline]
    fn init_mapped(&self, slot: &mut Slot<'_>, mut cursor: Cursor<'_>) -> Result<c_int> {
        match self.mr_use(cursor.left()) {
            MrUse::Direct => {}
            MrUse::Preferred => {
                match registered::init_sg(slot, self, cursor.clone(), Misfit::Refuse) {
                    // No MR is left, or this memory does not fit: SGEs it is.
                    Err(e) if e == EAGAIN || e == EINVAL => {}
                    result => return result,
                }
            }
            MrUse::Required => return registered::init_sg(slot, self, cursor, Misfit::Split),
        }

        // A QP without SGEs can do neither.
        let max_sge = self.qp.max_sge(self.dir).ok_or(EINVAL)?;
        if cursor.left() > 1 {
            return multi::init(slot, self, cursor, max_sge);
        }
        match cursor.next_segment() {
            Some(segment) => Ok(single::init(slot, self, segment)),
            None => Err(EIO),
        }
    }

    /// Makes a context for an array of `bio_vec`.
    ///
    /// Returns the number of work requests. See [`crate::rdma_rw_ctx_init_bvec`].
    #[inline]
    pub(crate) fn init_bvec(&self, mut slot: Slot<'_>, source: BvecSource<'_>) -> Result<c_int> {
        let slot = &mut slot;

        if self.requires_mr() {
            return registered::init_bvec(slot, self, source);
        }

        let max_sge = self.qp.max_sge(self.dir).ok_or(EINVAL)?;
        if source.nr_bvecs() == 1 {
            return single::init_bvec(slot, self, source);
        }
        // Whatever hinders the IOVA range, SGEs cover the same bytes from the first one on.
        if let Some(count) = iova::init(slot, self, source.clone())? {
            return Ok(count);
        }
        multi::init_bvec(slot, self, source, max_sge)
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
