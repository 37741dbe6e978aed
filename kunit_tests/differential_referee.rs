// SPDX-License-Identifier: GPL-2.0

//! The C original at work: its inits with input that it can take, and what it leaves behind put
//! right, as the predicates of `differential_deviations` say.

use core::ptr;

use kernel::prelude::*;

use crate::api::REFEREE;
use crate::bindings;
use crate::differential_case::{
    Case,
    Dma,
    Entry,
    Form,
    Init, //
    PAGE,
};
use crate::differential_deviations::{
    d1,
    d13,
    d15,
    d2,
    d7,
    d8,
    d9,
    fills_pages,
    merged,
    misfit,
    mrs_needed,
    Kind,
    Misfit,
    Needed,
    Segment, //
    D,
};
use crate::differential_device::{
    State,
    MR_RKEY, //
};
use crate::differential_iommu::next_entry;
use crate::differential_run::Runner;
use crate::differential_slot::{
    direction,
    write_list,
    MULTI,
    REGISTERED,
    SIGNATURE, //
};

/// A side that has nothing to compare any more; what the other one has to return.
pub(crate) struct Alone {
    pub(crate) ret: i32,
}

impl Runner {
    /// The init of the C original, amended where it is known to fall short.
    pub(crate) fn referee_init(&mut self, case: &Case, i: usize) -> Result<i32, Alone> {
        let config = &case.config;
        let init = self.slots[i].init;

        // What C divides by.
        let limit = if config.integrity {
            config.pi_pages
        } else {
            config.mr_pages
        };
        self.state.attrs().max_fast_reg_page_list_len = config.mr_pages.max(1);
        self.state.attrs().max_pi_fast_reg_page_list_len = config.pi_pages.max(1);
        let no_sge = d2(*self.max_sge(init.read));
        if no_sge && init.form == Form::Bvec && !self.requires_mr(case, &init) {
            let list = case.list(&init);
            let needed = Needed::of(list, &init);
            // A range of IOVA space needs one SGE, which is not asked for.
            let range = self.ground.real
                && list.len() > init.idx as usize + 1
                && init.size != 0
                && !needed.short
                && fills_pages(list, &needed);

            if !range {
                self.count(D::D2);
                return Ok(EINVAL.to_errno());
            }
        }
        if no_sge {
            *self.max_sge(init.read) = 1;
        }

        let mark = self.state.mark();
        let mut ret = match init.form {
            Form::Sg => self.referee_init_sg(case, i),
            Form::Bvec => self.referee_init_bvec(case, i),
            Form::Signature => Ok(self.referee_init_signature(case, i)),
        };

        if ret.is_err() {
            // The call is left to the other side, with all that it asks of the DMA layer.
            self.state.rewind(mark);
        }
        if let Ok(made) = ret {
            let direct = made > 0 && !matches!(self.slots[i].tag(), REGISTERED | SIGNATURE);

            if no_sge && direct && init.form != Form::Bvec {
                self.count(D::D2);
                self.slots[i].live = true;
                let ctx = self.slots[i].ctx.as_mut_ptr();
                self.destroy_as(ctx, i, init.form, None, &REFEREE);
                self.slots[i].live = false;
                ret = Ok(EINVAL.to_errno());
            } else if d2(limit) && !direct {
                self.count(D::D2);
            }
        }

        *self.max_sge(init.read) = if init.read {
            config.read_sge
        } else {
            config.write_sge
        };
        self.state.attrs().max_fast_reg_page_list_len = config.mr_pages;
        self.state.attrs().max_pi_fast_reg_page_list_len = config.pi_pages;
        ret
    }

    pub(crate) fn referee_init_sg(&mut self, case: &Case, i: usize) -> Result<i32, Alone> {
        let init = self.slots[i].init;
        let told = case.told(&init);

        if d1(told, init.offset) {
            self.count(D::D1);
            let list = self.slots[i].sg.as_mut_ptr();
            return Ok(self
                .with_mapped(list, told.len(), init.read, |_, _| EIO.to_errno())
                .unwrap_or_else(|e| e.to_errno()));
        }

        let mark = self.state.mark();
        let mut ret = self.call_init(&REFEREE, i);
        if ret == EINVAL.to_errno() {
            let list = self.slots[i].sg.as_mut_ptr();

            ret = self.referee_misfit(case, i, list, told.len(), init.offset, |this| {
                this.state.rewind(mark);
                this.state.attrs().max_sgl_rd = 0;
                let ret = this.call_init(&REFEREE, i);
                this.state.attrs().max_sgl_rd = case.config.max_sgl_rd;
                ret
            })?;
        }
        if ret > 0 && self.slots[i].tag() == MULTI {
            self.amend_remote(i);
        }
        Ok(ret)
    }

    /// C has found that memory cannot be registered. Returns what it should have returned, from
    /// `direct` where an MR is not a must.
    pub(crate) fn referee_misfit(
        &mut self,
        case: &Case,
        i: usize,
        list: *mut bindings::scatterlist,
        nents: usize,
        offset: u32,
        direct: impl FnOnce(&mut Self) -> i32,
    ) -> Result<i32, Alone> {
        let init = self.slots[i].init;
        let limit = case.config.limit().max(1) as usize;
        let mut segments = KVec::new();

        // Quietly: C has been through this.
        let mark = self.state.mark();
        self.state.trace.muted = true;
        self.state.dma_maps = u32::MAX / 2;
        let found = self.with_mapped(list, nents, init.read, |list, mapped| {
            let mut sg = list;
            let mut skip = u64::from(offset);

            for k in 0..mapped {
                // SAFETY: The list has that many mapped entries.
                let (addr, len) = unsafe { ((*sg).dma_address, u64::from(dma_len(sg))) };

                if skip < len {
                    let segment = Segment {
                        addr: addr + skip,
                        len: len - skip,
                    };
                    if segments.push(segment, GFP_KERNEL).is_err() {
                        return 0;
                    }
                    skip = 0;
                } else {
                    skip -= len;
                }
                if k + 1 < mapped {
                    // SAFETY: This is not the last one.
                    sg = unsafe { next_entry(sg) };
                }
            }
            1
        });
        self.state.trace.muted = false;
        self.state.rewind(mark);
        if found != Ok(1) {
            self.wrong("the list cannot be looked at");
            return Ok(EINVAL.to_errno());
        }

        let required = self.requires_mr(case, &init);
        let preferred = init.form == Form::Sg
            && init.read
            && case.config.max_sgl_rd != 0
            && segments.len() > case.config.max_sgl_rd as usize;
        match misfit(&segments, limit) {
            // The device has refused what it could take, and an MR is a must.
            None if !preferred || required => return Ok(EINVAL.to_errno()),
            None | Some(Misfit::Gap) => self.count(D::D12),
            Some(Misfit::Long) => self.count(D::D11),
        }
        if !required {
            return Ok(direct(self));
        }

        // As many MRs as it takes, from the pool in order.
        let needed = mrs_needed(&segments, limit) as usize;
        let mut free = 0;
        let mut invalidations = 0;
        for mr in self.state.pool().take(needed) {
            free += 1;
            invalidations += i32::from(mr.raw.need_inval);
        }
        if free < needed {
            return Ok(EAGAIN.to_errno());
        }
        Err(Alone {
            ret: 2 * needed as i32 + invalidations,
        })
    }

    /// Makes remote addresses right that C has computed with 32 bits.
    pub(crate) fn amend_remote(&mut self, i: usize) {
        let slot = &mut self.slots[i];
        let base = slot.init.remote;
        let mut before = 0u64;
        let mut amended = false;

        for k in 0..slot.nr_ops() as usize {
            // SAFETY: The context has that many work requests, with so many SGEs.
            unsafe {
                let wr = (*slot.ctx.as_mut_ptr()).__bindgen_anon_1.map.wrs.add(k);

                if d9(before) {
                    (*wr).remote_addr = base.wrapping_add(before);
                    amended = true;
                }
                for sge in 0..(*wr).wr.num_sge as usize {
                    before += u64::from((*(*wr).wr.sg_list.add(sge)).length);
                }
            }
        }
        if amended {
            self.count(D::D9);
        }
    }

    pub(crate) fn referee_init_bvec(&mut self, case: &Case, i: usize) -> Result<i32, Alone> {
        let init = self.slots[i].init;
        let list = case.list(&init);
        if list.is_empty() || init.size == 0 {
            return Ok(self.call_init(&REFEREE, i));
        }

        let needed = Needed::of(list, &init);
        if d8(list, &init, &needed) {
            self.count(D::D8);
            if needed.short {
                return Ok(EINVAL.to_errno());
            }

            // The entries that are needed, and no others.
            let mut entries = KVec::new();
            for entry in &list[needed.first..needed.end] {
                if entry.len != 0 {
                    let _ = entries.push(*entry, GFP_KERNEL);
                }
            }
            self.tell_entries(i, &entries, needed.offset);
        }

        // A device that works with kernel addresses is told of neighbours as one.
        if case.config.dma == Dma::Virtual && !self.requires_mr(case, &init) {
            let pieces = self.pieces(case, &init, &needed);
            let merged = merged(&pieces);

            if merged.len() < pieces.len() {
                self.count(D::Merged);
                self.tell_entries(i, &merged, 0);
            }
        }

        let mark = self.state.mark();
        let mut ret = self.call_init(&REFEREE, i);
        if ret == EINVAL.to_errno() && self.requires_mr(case, &init) {
            // The list that C has made of it.
            let pieces = self.pieces(case, &init, &needed);
            let slot = &mut self.slots[i];
            write_list(&mut slot.prot, self.state.page(i), &pieces, 0);
            let list = slot.prot.as_mut_ptr();
            let nents = pieces.len();

            ret = self.referee_misfit(case, i, list, nents, 0, |_| EINVAL.to_errno())?;
        } else if !self.requires_mr(case, &init) && d13(self.ground.real, ret, list, &needed) {
            self.count(D::D13);
            self.state.rewind(mark);
            // SAFETY: There is nothing to be wrong.
            unsafe { bindings::rdma_rw_referee_refuse_iova(true) };
            ret = self.call_init(&REFEREE, i);
            // SAFETY: As above.
            unsafe { bindings::rdma_rw_referee_refuse_iova(false) };
        }
        // The slot tells of the case again.
        self.slots[i].init = init;
        Ok(ret)
    }

    /// Makes the array of a slot one of these entries, with so many bytes of the first left out.
    fn tell_entries(&mut self, i: usize, entries: &[Entry], offset: u32) {
        let pages = self.state.page(i);
        let slot = &mut self.slots[i];

        slot.bvecs.clear();
        for entry in entries {
            let _ = slot.bvecs.push_within_capacity(bindings::bio_vec {
                bv_page: pages.wrapping_add((entry.start / PAGE) as usize),
                bv_len: entry.len,
                bv_offset: (entry.start % PAGE) as u32,
            });
        }
        slot.bvec_count = slot.bvecs.len();
        slot.init.idx = 0;
        slot.init.offset = offset;
    }

    /// What is to be moved of an array, entry by entry.
    pub(crate) fn pieces(&self, case: &Case, init: &Init, needed: &Needed) -> KVec<Entry> {
        let mut pieces = KVec::new();

        Self::each_piece(case, init, needed, |entry| {
            // An array that is not whole shows in what is made of it.
            let _ = pieces.push(entry, GFP_KERNEL);
        });
        pieces
    }

    pub(crate) fn referee_init_signature(&mut self, case: &Case, i: usize) -> i32 {
        let init = self.slots[i].init;
        let (data, prot) = (case.list(&init).len(), case.prot(&init).len());
        if !d15(&case.config, data, prot) {
            return self.call_init(&REFEREE, i);
        }

        // Rust maps, counts, and unmaps in the reverse order where there are too many.
        self.count(D::D15);
        let limit = case.config.limit().max(1) as usize;
        let (sg, prot_sg) = (
            self.slots[i].sg.as_mut_ptr(),
            self.slots[i].prot.as_mut_ptr(),
        );
        let mark = self.state.mark();
        let mut fits = false;
        let ret = self.with_mapped_in(sg, data, init.read, |this, _, mapped_data| {
            if prot == 0 {
                fits = mapped_data <= limit;
                return Ok(EINVAL.to_errno());
            }
            this.with_mapped_in(prot_sg, prot, init.read, |_, _, mapped_prot| {
                fits = mapped_data.max(mapped_prot) <= limit;
                Ok(EINVAL.to_errno())
            })
        });
        if !fits {
            return ret.unwrap_or_else(|e| e.to_errno());
        }

        self.state.rewind(mark);
        let most = data.max(prot) as u32;
        self.state.attrs().max_fast_reg_page_list_len = most;
        self.state.attrs().max_pi_fast_reg_page_list_len = most;
        self.call_init(&REFEREE, i)
    }

    /// Calls a function while a list is mapped, with its number of mapped entries.
    pub(crate) fn with_mapped(
        &mut self,
        list: *mut bindings::scatterlist,
        nents: usize,
        read: bool,
        body: impl FnOnce(*mut bindings::scatterlist, usize) -> i32,
    ) -> Result<i32> {
        self.with_mapped_in(list, nents, read, |_, list, mapped| Ok(body(list, mapped)))
    }

    /// The same, for a function that goes on with this.
    pub(crate) fn with_mapped_in(
        &mut self,
        list: *mut bindings::scatterlist,
        nents: usize,
        read: bool,
        body: impl FnOnce(&mut Self, *mut bindings::scatterlist, usize) -> Result<i32>,
    ) -> Result<i32> {
        let device = self.device();
        let dir = direction(read);

        // SAFETY: The device and the list are valid.
        unsafe {
            let dma_device = (*device).dma_device;
            if dma_device.is_null() {
                let mapped = bindings::ib_dma_virt_map_sg(device, list, nents as i32);

                return body(self, list, mapped as usize);
            }

            let mut table = bindings::sg_table {
                sgl: list,
                nents: 0,
                orig_nents: nents as u32,
            };
            kernel::error::to_result(bindings::dma_map_sgtable(dma_device, &mut table, dir, 0))?;
            let ret = body(self, list, table.nents as usize);
            bindings::dma_unmap_sg_attrs(dma_device, list, nents as i32, dir, 0);
            ret
        }
    }

    /// Puts right what the C original would leave in a chain, before it makes it anew.
    pub(crate) fn amend_end(&mut self, i: usize, kind: Kind) {
        if !d7(self.slots[i].kind, kind) {
            return;
        }
        self.count(D::D7);
        // SAFETY: The context is alive.
        unsafe {
            let last = self.slots[i].last();

            (*last).next = ptr::null_mut();
            (*last).send_flags = 0;
            (*last).__bindgen_anon_1.wr_cqe = ptr::null_mut();
        }
    }

    /// What a post that failed after some work requests should have left.
    pub(crate) fn amend_post(&mut self, i: usize, before: &[(u32, bool)], posted: usize) {
        let mut at = 0;
        let mut next: *mut bindings::ib_send_wr = ptr::null_mut();
        let regs = self.slots[i].regs();

        for (reg, &(key, registered)) in regs.iter_mut().zip(before) {
            let reads = reg.wr.wr.opcode == bindings::ib_wr_opcode_IB_WR_RDMA_READ_WITH_INV;
            let invalidated = registered && at < posted;
            at += usize::from(registered);
            let now = at < posted;
            let moved = at + 1 < posted;
            at += 2;

            // SAFETY: The MRs of a context are valid, and ours.
            let mr = unsafe { State::mr(reg.mr) };
            if now {
                mr.raw.need_inval = !(moved && reads);
            } else {
                mr.raw.need_inval = registered && !invalidated;
                mr.raw.lkey = key;
                mr.raw.rkey = key | MR_RKEY;
            }
        }

        // The chain is to begin with an invalidation wherever that is needed by now.
        for reg in regs.iter_mut().rev() {
            // SAFETY: As above.
            let mr = unsafe { State::mr(reg.mr) };

            reg.wr.wr.next = next;
            reg.reg_wr.wr.next = &mut reg.wr.wr;
            next = &mut reg.reg_wr.wr;
            if mr.raw.need_inval {
                reg.inv_wr.opcode = bindings::ib_wr_opcode_IB_WR_LOCAL_INV;
                reg.inv_wr.ex.invalidate_rkey = mr.raw.lkey;
                reg.inv_wr.next = next;
                next = &mut reg.inv_wr;
            } else {
                reg.inv_wr.next = ptr::null_mut();
            }
        }
    }
}

/// Length of a mapped entry.
///
/// # Safety
///
/// `sg` must be valid.
pub(crate) unsafe fn dma_len(sg: *const bindings::scatterlist) -> u32 {
    // SAFETY: By this function's safety requirement.
    unsafe {
        #[cfg(CONFIG_NEED_SG_DMA_LENGTH)]
        {
            (*sg).dma_length
        }
        #[cfg(not(CONFIG_NEED_SG_DMA_LENGTH))]
        {
            (*sg).length
        }
    }
}
