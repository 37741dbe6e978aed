// SPDX-License-Identifier: GPL-2.0

//! How the device carries out what is posted to it, and what is noted of that.

use core::cell::Cell;
use core::ptr;

use kernel::prelude::*;

use crate::bindings;
use crate::differential_case::{ARENA, PAGE};
use crate::differential_device::{
    Mr,
    State, //
    LOCAL_KEY,
    REMOTE_KEY,
};
use crate::differential_trace::Label;

/// What may be wrong with a work request.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Status {
    Fine = 0,
    Opcode,
    RemoteKey,
    RemoteRange,
    LocalKey,
    LocalRange,
    LocalAccess,
    Unmapped,
    Registered,
    MrKey,
    Invalidation,
    Sges,
    Dma,
}

impl State {
    /// The caller's work request, as new.
    pub(crate) fn caller_wr(&mut self) -> *mut bindings::ib_send_wr {
        let wr = &mut *self.send_wr;

        wr.next = ptr::null_mut();
        wr.opcode = bindings::ib_wr_opcode_IB_WR_SEND;
        wr.send_flags = bindings::ib_send_flags_IB_SEND_SIGNALED;
        wr.__bindgen_anon_1.wr_cqe = &mut *self.other_cqe;
        wr
    }

    /// Notes all work requests of a chain, and counts them up to `end`.
    pub(crate) fn note_chain(&mut self, first: *const bindings::ib_send_wr) {
        let mut wr = first;
        let mut count = 0;

        self.count = u32::MAX;
        while !wr.is_null() && count < 8192 {
            if ptr::eq(wr, self.end) {
                self.count = count;
            }
            // SAFETY: A chain has valid work requests.
            unsafe {
                self.note_wr(&*wr);
                wr = (*wr).next;
            }
            count += 1;
        }
        self.count = self.count.min(count);
        self.trace.add(Label::WrCount, count.into());
    }

    /// Notes a work request.
    ///
    /// # Safety
    ///
    /// It must be part of a larger one where its opcode says so.
    pub(crate) unsafe fn note_wr(&mut self, wr: &bindings::ib_send_wr) {
        self.trace.add(Label::Opcode, wr.opcode.into());
        self.trace.add(Label::NumSge, wr.num_sge as u64);
        self.trace.add(Label::SendFlags, wr.send_flags as u64);
        // SAFETY: Either member is a pointer's worth of bytes.
        let entry = unsafe { wr.__bindgen_anon_1.wr_cqe };
        self.trace.add(
            Label::Cqe,
            if entry.is_null() {
                0
            } else if ptr::eq(entry, &*self.cqe) {
                1
            } else if ptr::eq(entry, &*self.other_cqe) {
                2
            } else {
                u64::MAX
            },
        );

        match wr.opcode {
            bindings::ib_wr_opcode_IB_WR_REG_MR | bindings::ib_wr_opcode_IB_WR_REG_MR_INTEGRITY => {
                // SAFETY: By this function's safety requirement; the MR is one of ours.
                let (reg, mr) = unsafe {
                    let reg = &*ptr::from_ref(wr).cast::<bindings::ib_reg_wr>();

                    (reg, Mr::from_raw(reg.mr))
                };

                self.trace.add(Label::Mr, mr.index.into());
                self.trace.add(Label::Key, reg.key.into());
                self.trace.add(Label::Access, reg.access as u64);
                self.note_mr(mr);
            }
            bindings::ib_wr_opcode_IB_WR_LOCAL_INV => {
                // SAFETY: All members of the union are numbers.
                let key = unsafe { wr.ex.invalidate_rkey };
                self.trace.add(Label::Ex, key.into());
            }
            bindings::ib_wr_opcode_IB_WR_RDMA_READ
            | bindings::ib_wr_opcode_IB_WR_RDMA_WRITE
            | bindings::ib_wr_opcode_IB_WR_RDMA_READ_WITH_INV => {
                // SAFETY: By this function's safety requirement.
                let rdma = unsafe { &*ptr::from_ref(wr).cast::<bindings::ib_rdma_wr>() };

                self.trace.add(Label::RemoteAddr, rdma.remote_addr);
                self.trace.add(Label::RemoteKey, rdma.rkey.into());
                // SAFETY: All members of the union are numbers.
                let key = unsafe { wr.ex.invalidate_rkey };
                let key = self.invalidation_key(wr, key);
                self.trace.add(Label::Ex, key.into());
                for sge in sges(wr) {
                    let addr = match self.mr_of_key(sge.lkey) {
                        Some(mr) if sge.lkey != LOCAL_KEY => sge.addr.wrapping_sub(mr.raw.iova),
                        _ => self.normal(sge.addr),
                    };

                    self.trace.add(Label::Addr, addr);
                    self.trace.add(Label::Length, sge.length.into());
                    self.trace.add(Label::SgeKey, sge.lkey.into());
                }
            }
            _ => {}
        }
    }

    /// The key that a READ invalidates. The C original names the one of init: `d4` of
    /// `differential_deviations`.
    pub(crate) fn invalidation_key(&mut self, wr: &bindings::ib_send_wr, key: u32) -> u32 {
        let current = sges(wr).first().map_or(0, |sge| sge.lkey);

        if self.referee
            && wr.opcode == bindings::ib_wr_opcode_IB_WR_RDMA_READ_WITH_INV
            && key != current
        {
            self.stale_keys += 1;
            return current;
        }
        key
    }

    /// Notes what an MR is mapped to.
    pub(crate) fn note_mr(&mut self, mr: &Mr) {
        let mut memory = 0u64;

        let pages = &mr.pages[..mr.nr_pages as usize];
        let prot = &mr.prot[..mr.nr_prot as usize];
        for page in Iterator::chain(pages.iter(), prot) {
            memory = (memory ^ self.normal(*page)).wrapping_mul(0x0000_0100_0000_01b3);
        }
        let iova = self.normal(mr.raw.iova);
        self.trace.add(Label::MrIova, iova);
        self.trace.add(Label::MrLength, mr.raw.length);
        self.trace.add(
            Label::MrPages,
            u64::from(mr.nr_pages) << 32 | u64::from(mr.nr_prot),
        );
        self.trace.add(Label::MrMemory, memory);
        if mr.raw.type_ == bindings::ib_mr_type_IB_MR_TYPE_INTEGRITY {
            let attrs = &mr.sig_attrs;

            for value in [
                u64::from(attrs.check_mask),
                attrs.meta_length as u64,
                attrs.mem.sig_type.into(),
                attrs.wire.sig_type.into(),
                // SAFETY: There is one member alone.
                unsafe { attrs.mem.sig.dif.ref_tag }.into(),
                // SAFETY: As above.
                unsafe { attrs.wire.sig.dif.pi_interval }.into(),
            ] {
                self.trace.add(Label::SigAttrs, value);
            }
        }
    }

    /// Carries out a chain, up to a work request. Returns the one that it stopped at, or null.
    pub(crate) fn run(
        &mut self,
        first: *const bindings::ib_send_wr,
        stop: usize,
    ) -> *const bindings::ib_send_wr {
        let mut wr = first;

        self.chains += 1;
        for i in 0..8192 {
            if wr.is_null() {
                break;
            }
            if i == stop {
                return wr;
            }
            // SAFETY: A chain has valid work requests.
            let status = unsafe {
                let status = self.run_one(&*wr).err().unwrap_or(Status::Fine);

                wr = (*wr).next;
                status
            };
            self.fine &= status == Status::Fine;
            self.trace.add(Label::Status, status as u64);
        }
        ptr::null()
    }

    /// Carries out a work request.
    ///
    /// # Safety
    ///
    /// It must be part of a larger one where its opcode says so.
    pub(crate) unsafe fn run_one(&mut self, wr: &bindings::ib_send_wr) -> Result<(), Status> {
        match wr.opcode {
            bindings::ib_wr_opcode_IB_WR_SEND => Ok(()),
            bindings::ib_wr_opcode_IB_WR_REG_MR | bindings::ib_wr_opcode_IB_WR_REG_MR_INTEGRITY => {
                // SAFETY: By this function's safety requirement; the MR is one of ours.
                let (reg, mr) = unsafe {
                    let reg = &*ptr::from_ref(wr).cast::<bindings::ib_reg_wr>();

                    (reg, Mr::from_raw(reg.mr))
                };

                if mr.registered {
                    return Err(Status::Registered);
                }
                if reg.key >> 8 != mr.index + 1 {
                    return Err(Status::MrKey);
                }
                mr.registered = true;
                mr.key = reg.key;
                mr.access = reg.access;
                Ok(())
            }
            // SAFETY: All members of the union are numbers.
            bindings::ib_wr_opcode_IB_WR_LOCAL_INV => {
                // SAFETY: Any bytes are a key.
                self.invalidate(unsafe { wr.ex.invalidate_rkey })
            }
            bindings::ib_wr_opcode_IB_WR_RDMA_READ
            | bindings::ib_wr_opcode_IB_WR_RDMA_WRITE
            | bindings::ib_wr_opcode_IB_WR_RDMA_READ_WITH_INV => {
                // SAFETY: By this function's safety requirement.
                self.transfer(unsafe { &*ptr::from_ref(wr).cast() })?;
                if wr.opcode == bindings::ib_wr_opcode_IB_WR_RDMA_READ_WITH_INV {
                    // SAFETY: All members of the union are numbers.
                    let key = unsafe { wr.ex.invalidate_rkey };
                    let stale = self.stale_keys;
                    let key = self.invalidation_key(wr, key);

                    // It was counted when it was noted.
                    self.stale_keys = stale;
                    self.invalidate(key)?;
                }
                Ok(())
            }
            _ => Err(Status::Opcode),
        }
    }

    pub(crate) fn invalidate(&mut self, key: u32) -> Result<(), Status> {
        let mr = ((key >> 8) as usize)
            .checked_sub(1)
            .and_then(|i| self.mrs.get_mut(i))
            .filter(|mr| mr.registered && mr.key == key)
            .ok_or(Status::Invalidation)?;

        mr.registered = false;
        Ok(())
    }

    /// Moves the bytes of a work request.
    pub(crate) fn transfer(&mut self, rdma: &bindings::ib_rdma_wr) -> Result<(), Status> {
        let wr = &rdma.wr;
        let write = wr.opcode == bindings::ib_wr_opcode_IB_WR_RDMA_WRITE;
        let slot = (rdma.rkey ^ REMOTE_KEY) as usize;
        let window = *self.windows.get(slot).ok_or(Status::RemoteKey)?;
        let mut at = rdma.remote_addr.wrapping_sub(window.base);

        // An SGE of an MR is there whatever the QP says.
        let most = match (self.config.iwarp, write) {
            (true, false) => 1,
            (_, true) => self.config.write_sge.max(1),
            (_, false) => self.config.read_sge.max(1),
        };
        if !(1..=most as usize).contains(&sges(wr).len()) {
            return Err(Status::Sges);
        }
        for sge in sges(wr) {
            let len = u64::from(sge.length);

            if at.checked_add(len).is_none_or(|end| end > ARENA) {
                return Err(Status::RemoteRange);
            }
            self.move_sge(sge, slot, at, write)?;
            at += len;
            self.windows[slot].moved += len;
            self.bytes += len;
        }
        Ok(())
    }

    /// Moves the bytes of an SGE to or from a place of the remote memory.
    pub(crate) fn move_sge(
        &mut self,
        sge: &bindings::ib_sge,
        slot: usize,
        mut at: u64,
        write: bool,
    ) -> Result<(), Status> {
        // Both are memory of this device's alone.
        let target = self.arenas[slot].target.as_mut_ptr();
        let source = self.source.as_ptr();
        let dma_device = self.dma_device;
        let by_itself = Cell::new(self.by_itself);
        let mut each = |addr: u64, local: *mut u8, len: usize| {
            // SAFETY: The range of the remote memory was checked.
            let remote = unsafe {
                if write {
                    target.add(at as usize)
                } else {
                    source.add(at as usize).cast_mut()
                }
            };

            at += len as u64;
            if by_itself.get() != 0 {
                by_itself.set(by_itself.get() - 1);
                // SAFETY: As above.
                let ret = unsafe {
                    bindings::rdma_rw_differential_dma(
                        dma_device,
                        addr,
                        remote.cast(),
                        len as u32,
                        write,
                    )
                };
                return if ret == 0 { Ok(()) } else { Err(Status::Dma) };
            }
            // SAFETY: As above, and pieces are local memory.
            unsafe {
                if write {
                    ptr::copy_nonoverlapping(local, remote, len);
                } else {
                    ptr::copy_nonoverlapping(remote, local, len);
                }
            }
            Ok(())
        };

        let result = self.move_pieces(sge, write, &mut each);
        self.by_itself = by_itself.get();
        result
    }

    /// Calls a function for each piece of local memory of an SGE.
    pub(crate) fn move_pieces(
        &self,
        sge: &bindings::ib_sge,
        write: bool,
        mut each: impl FnMut(u64, *mut u8, usize) -> Result<(), Status>,
    ) -> Result<(), Status> {
        if sge.lkey == LOCAL_KEY {
            if self.config.iwarp && !write {
                return Err(Status::LocalAccess);
            }
            return self.pieces(sge.addr, sge.length.into(), each);
        }

        let mr = self.mr_of_key(sge.lkey).ok_or(Status::LocalKey)?;
        if !mr.registered || mr.key != sge.lkey {
            return Err(Status::LocalKey);
        }
        let mut needed = bindings::ib_access_flags_IB_ACCESS_LOCAL_WRITE;
        if self.config.iwarp && !write {
            needed |= bindings::ib_access_flags_IB_ACCESS_REMOTE_WRITE;
        }
        if mr.access & needed as i32 != needed as i32 {
            return Err(Status::LocalAccess);
        }

        let mut offset = sge
            .addr
            .checked_sub(mr.raw.iova)
            .filter(|offset| offset + u64::from(sge.length) <= mr.raw.length)
            .ok_or(Status::LocalRange)?;
        let mut len = u64::from(sge.length);
        while len != 0 {
            // Protection information comes behind all data.
            let (table, place, most) = if offset < mr.data_len {
                (
                    &mr.pages[..mr.nr_pages as usize],
                    mr.raw.iova % PAGE + offset,
                    mr.data_len - offset,
                )
            } else {
                (
                    &mr.prot[..mr.nr_prot as usize],
                    mr.prot_start % PAGE + (offset - mr.data_len),
                    u64::MAX,
                )
            };
            let now = len.min(most).min(PAGE - place % PAGE);
            let page = table
                .get((place / PAGE) as usize)
                .ok_or(Status::LocalRange)?;

            self.pieces(page + place % PAGE, now, &mut each)?;
            offset += now;
            len -= now;
        }
        Ok(())
    }
}

/// SGEs of a work request.
pub(crate) fn sges(wr: &bindings::ib_send_wr) -> &[bindings::ib_sge] {
    if wr.sg_list.is_null() || wr.num_sge <= 0 {
        return &[];
    }
    // SAFETY: A work request has that many.
    unsafe { core::slice::from_raw_parts(wr.sg_list, wr.num_sge as usize) }
}
