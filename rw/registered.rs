// SPDX-License-Identifier: GPL-2.0

//! Local memory behind MRs: for each, a registration, the transfer over it, and an invalidation of
//! what the MR was registered for before.

use core::mem;
use core::num::NonZeroU32;
use core::ptr::{
    self,
    NonNull, //
};

use kernel::ffi::c_int;
use kernel::prelude::*;

use super::{
    device::Protocol,
    dma::MappedSg,
    memory::{
        kfree,
        Array, //
    },
    mr::{
        Mr,
        Pool, //
    },
    sgl::Cursor,
    sizing::div_round_up,
    transfer::Remote,
    wr,
    BvecSource,
    Device,
    Direction,
    Qp,
    SgSource,
    Slot,
    Transfer, //
};
use crate::bindings;

/// How an MR is registered.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// Data alone.
    Data,
    /// Data and protection information.
    Integrity,
}

impl Kind {
    /// The pool that MRs of this kind come from.
    #[inline]
    pub(super) fn pool(self) -> Pool {
        match self {
            Self::Data => Pool::Data,
            Self::Integrity => Pool::Integrity,
        }
    }
}

/// The registrations of a context in the making; all MRs go back on drop.
///
/// # Invariants
///
/// Each element's `mr` is out of its pool of `qp`, in this array's charge.
pub(super) struct Registrations<'a> {
    qp: &'a Qp,
    kind: Kind,
    regs: Array<bindings::rdma_rw_reg_ctx>,
}

impl<'a> Registrations<'a> {
    /// An empty array with room for `nr` registrations.
    #[inline]
    pub(super) fn new(qp: &'a Qp, kind: Kind, nr: u32) -> Result<Self> {
        // INVARIANT: There are no elements.
        Ok(Self {
            qp,
            kind,
            regs: Array::new(nr)?,
        })
    }

    /// Takes an MR for another registration.
    ///
    /// # Errors
    ///
    /// `EAGAIN` where the pool is empty.
    #[inline]
    pub(super) fn take_mr(&self) -> Result<Mr<'a>> {
        Mr::take(self.qp, self.kind.pool()).ok_or(EAGAIN)
    }

    /// Adds a registration of an MR that has been mapped, and the transfer of its first `len`
    /// bytes.
    #[inline]
    pub(super) fn push(
        &mut self,
        mr: Mr<'a>,
        transfer: &Transfer<'_>,
        remote: Remote,
        len: u32,
    ) -> Result {
        let protocol = transfer.protocol();
        let access = match protocol {
            Protocol::Iwarp => {
                bindings::ib_access_flags_IB_ACCESS_LOCAL_WRITE
                    | bindings::ib_access_flags_IB_ACCESS_REMOTE_WRITE
            }
            Protocol::Other => bindings::ib_access_flags_IB_ACCESS_LOCAL_WRITE,
        };
        let opcode = match self.kind {
            Kind::Data => bindings::ib_wr_opcode_IB_WR_REG_MR,
            Kind::Integrity => bindings::ib_wr_opcode_IB_WR_REG_MR_INTEGRITY,
        };
        // Every iWARP port can invalidate the target of a READ, and no other can. The device
        // checks protection information itself and needs the MR for that.
        let read_inv = protocol == Protocol::Iwarp
            && transfer.dir == Direction::Read
            && self.kind == Kind::Data;
        // SAFETY: The MR is valid and nobody else's.
        let (addr, lkey) = unsafe { ((*mr.as_raw()).iova, (*mr.as_raw()).lkey) };

        self.regs.push_with(|| {
            let mut rdma_wr = wr::rdma_wr(transfer.dir, remote, ptr::null_mut(), 1);

            if read_inv {
                rdma_wr.wr.opcode = bindings::ib_wr_opcode_IB_WR_RDMA_READ_WITH_INV;
                // The key that the MR will have, should C be the one that chains this.
                rdma_wr.wr.ex.invalidate_rkey = key_moved(lkey, 1);
            }
            bindings::rdma_rw_reg_ctx {
                sge: bindings::ib_sge {
                    addr,
                    length: len,
                    lkey: 0,
                },
                wr: rdma_wr,
                reg_wr: bindings::ib_reg_wr {
                    wr: wr::send_wr(opcode),
                    mr: mr.as_raw(),
                    key: 0,
                    // CAST: Flags, well below the limit of the C field.
                    access: access as c_int,
                },
                inv_wr: wr::send_wr(bindings::ib_wr_opcode_IB_WR_LOCAL_INV),
                mr: mr.as_raw(),
                sgt: NO_TABLE,
            }
        })?;
        // INVARIANT: The MR is in the array's charge from here on.
        mr.keep();
        Ok(())
    }

    /// Links all work requests and leaves everything to a context, with `table` in
    /// the first registration. Returns the
    /// number of work requests.
    #[inline]
    pub(super) fn keep(mut self, slot: &mut Slot<'_>, table: bindings::sg_table) -> c_int {
        let regs = self.regs.as_mut_slice();
        if let Some(first) = regs.first_mut() {
            first.sgt = table;
        }

        // SAFETY: These are the elements of a slice, with valid MRs, in nobody else's use.
        let count = unsafe { link(regs.as_mut_ptr(), regs.len()) };

        slot.write_registered(self.kind, regs.as_mut_ptr(), self.regs.len());
        // The context has the MRs and the array now.
        mem::forget(self);
        count
    }
}

impl Drop for Registrations<'_> {
    #[inline]
    fn drop(&mut self) {
        for reg in self.regs.as_mut_slice().iter().rev() {
            // SAFETY: By the type invariant.
            unsafe { put(self.qp, self.kind, reg) };
        }
    }
}

/// The `sgt` of registrations that own no scatterlist.
const NO_TABLE: bindings::sg_table = bindings::sg_table {
    sgl: ptr::null_mut(),
    nents: 0,
    orig_nents: 0,
};

/// Gives the MR of a registration back to its pool.
///
/// # Safety
///
/// The MR must be out of its pool of `qp`, in the charge of `reg`, which must not use it again.
#[inline]
pub(super) unsafe fn put(qp: &Qp, kind: Kind, reg: &bindings::rdma_rw_reg_ctx) {
    if let Some(mr) = NonNull::new(reg.mr) {
        // SAFETY: By this function's safety requirement.
        drop(unsafe { Mr::from_kept(qp, kind.pool(), mr) });
    }
}

/// Links the work requests of registrations in order, with an invalidation wherever the MR still
/// holds an earlier registration. Returns the number of work requests.
///
/// # Safety
///
/// `regs` must point to `nr` elements in place, with valid MRs, in nobody else's use.
#[inline]
unsafe fn link(regs: *mut bindings::rdma_rw_reg_ctx, nr: usize) -> c_int {
    let mut next = ptr::null_mut();
    let mut count: c_int = 0;

    for i in (0..nr).rev() {
        // SAFETY: By this function's safety requirement.
        unsafe {
            let reg = regs.add(i);

            (*reg).wr.wr.sg_list = &raw mut (*reg).sge;
            (*reg).wr.wr.next = next;
            (*reg).reg_wr.wr.next = &raw mut (*reg).wr.wr;
            next = &raw mut (*reg).reg_wr.wr;
            count = count.wrapping_add(2);

            if (*(*reg).mr).need_inval {
                // C leaves the opcode out where its init saw nothing to invalidate.
                (*reg).inv_wr.opcode = bindings::ib_wr_opcode_IB_WR_LOCAL_INV;
                (*reg).inv_wr.ex.invalidate_rkey = (*(*reg).mr).lkey;
                (*reg).inv_wr.next = next;
                next = &raw mut (*reg).inv_wr;
                count = count.wrapping_add(1);
            } else {
                (*reg).inv_wr.next = ptr::null_mut();
            }
        }
    }
    count
}

/// Moves a key on by `by`; its upper 24 bits name the MR and stay.
#[inline]
fn key_moved(key: u32, by: u32) -> u32 {
    (key & !0xff) | (key.wrapping_add(by) & 0xff)
}

/// Moves both keys of an MR on by `by`.
#[inline]
fn move_keys(mr: &mut bindings::ib_mr, by: u32) {
    let key = key_moved(mr.lkey, by) & 0xff;

    mr.lkey = (mr.lkey & !0xff) | key;
    mr.rkey = (mr.rkey & !0xff) | key;
}

/// First work request of a registration.
#[inline]
fn head(reg: &mut bindings::rdma_rw_reg_ctx) -> *mut bindings::ib_send_wr {
    if reg.inv_wr.next.is_null() {
        &raw mut reg.reg_wr.wr
    } else {
        &raw mut reg.inv_wr
    }
}

/// Whether the READ of a registration invalidates it.
#[inline]
fn invalidates_itself(reg: &bindings::rdma_rw_reg_ctx) -> bool {
    reg.wr.wr.opcode == bindings::ib_wr_opcode_IB_WR_RDMA_READ_WITH_INV
}

/// Readies registrations for being posted: gives every MR a new key, and notes which of them will
/// have to be invalidated before their next use. Returns the first and the last work request, of
/// which there are some where `regs` is not empty.
///
/// This is not done earlier, so that a context which is never posted leaves its MRs as they were.
///
/// # Safety
///
/// `regs` must have valid MRs, in nobody else's use.
#[inline(never)]
pub(super) unsafe fn arm(
    regs: &mut [bindings::rdma_rw_reg_ctx],
) -> (*mut bindings::ib_send_wr, *mut bindings::ib_send_wr) {
    let mut ends: (*mut bindings::ib_send_wr, _) = (ptr::null_mut(), ptr::null_mut());

    for reg in regs {
        // SAFETY: By this function's safety requirement.
        let mr = unsafe { &mut *reg.mr };
        let read_inv = invalidates_itself(reg);

        move_keys(mr, 1);
        mr.need_inval = !read_inv;
        reg.reg_wr.key = mr.lkey;
        reg.sge.lkey = mr.lkey;
        if read_inv {
            reg.wr.wr.ex.invalidate_rkey = mr.lkey;
        }

        ends.1 = &raw mut reg.wr.wr;
        if ends.0.is_null() {
            ends.0 = head(reg);
        }
    }
    ends
}

/// Takes [`arm`] back where a post failed: an MR whose registration was not posted is again what it
/// was before, and the chain can be armed anew.
///
/// `bad` is the work request that the device stopped at. A device that names none has posted
/// nothing; one that names none of these has posted them all.
///
/// # Safety
///
/// `regs` must be armed, with valid MRs, in nobody else's use.
pub(super) unsafe fn disarm(
    regs: &mut [bindings::rdma_rw_reg_ctx],
    bad: *const bindings::ib_send_wr,
) {
    let mut posting = !bad.is_null();
    let mut posted = |wr: *const bindings::ib_send_wr| {
        posting &= !ptr::eq(wr, bad);
        posting
    };

    for reg in regs.iter_mut() {
        // SAFETY: By this function's safety requirement.
        let mr = unsafe { &mut *reg.mr };
        let was_registered = !reg.inv_wr.next.is_null();
        let invalidated = was_registered && posted(&raw const reg.inv_wr);
        let registered = posted(&raw const reg.reg_wr.wr);
        let transferred = posted(&raw const reg.wr.wr);

        if registered {
            mr.need_inval = !(transferred && invalidates_itself(reg));
        } else {
            mr.need_inval = was_registered && !invalidated;
            move_keys(mr, u32::MAX);
        }
    }

    // SAFETY: These are the elements of a slice, whose MRs are valid by this function's safety
    // requirement.
    unsafe { link(regs.as_mut_ptr(), regs.len()) };
}

/// What is to be done about memory that does not fit MRs of an entry a page.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Misfit {
    /// Nothing: the caller does without MRs.
    Refuse,
    /// An MR starts anew at every gap, and wherever the last one has no page left.
    Split,
}

/// Registers mapped memory with as many MRs as it takes.
///
/// # Errors
///
/// `EAGAIN` where the pool has too few MRs, `EINVAL` where the memory does not fit and is not to be
/// split, or the device does not take it, `ENOMEM`.
#[inline]
fn register<'a>(
    transfer: Transfer<'a>,
    mut cursor: Cursor<'_>,
    misfit: Misfit,
) -> Result<Registrations<'a>> {
    let pages = transfer.qp.mr_pages();
    let mut remote = transfer.remote;
    let mut regs = Registrations::new(transfer.qp, Kind::Data, div_round_up(cursor.left(), pages))?;

    while cursor.left() != 0 {
        let mr = regs.take_mr()?;
        let nents = cursor.left().min(pages.get());

        if map(&mr, cursor.as_raw(), nents, cursor.offset()) {
            cursor.skip(nents);
        } else if misfit == Misfit::Split {
            map_split(&mr, &mut cursor, pages)?;
        } else {
            return Err(EINVAL);
        }

        let len = mapped_len(&mr);
        regs.push(mr, &transfer, remote, len)?;
        remote = remote.advanced(u64::from(len));
    }
    Ok(regs)
}

/// Maps `nents` entries from `sg` on into an MR, without the first `offset` bytes. Returns whether
/// the device took all of them.
#[inline]
fn map(mr: &Mr<'_>, sg: *mut bindings::scatterlist, nents: u32, mut offset: u32) -> bool {
    // SAFETY: The MR is valid and nobody else's, and the list has that many entries.
    let mapped = unsafe {
        bindings::ib_map_mr_sg(
            mr.as_raw(),
            sg,
            // CAST: Not more than the largest MR has pages.
            nents as c_int,
            &mut offset,
            // CAST: 64 KiB at most.
            kernel::page::PAGE_SIZE as u32,
        )
    };

    u32::try_from(mapped).is_ok_and(|mapped| mapped >= nents)
}

/// Maps as much as fits an MR of `pages` pages: up to a gap, or to the middle of an entry. Moves
/// the cursor behind it.
///
/// # Errors
///
/// `EINVAL` where that is no less than the device did not take before, or it does not take this.
#[cold]
fn map_split(mr: &Mr<'_>, cursor: &mut Cursor<'_>, pages: NonZeroU32) -> Result {
    let before = cursor.clone();
    let run = cursor.take_run(pages).ok_or(EINVAL)?;

    if run.nents() == before.left().min(pages.get()) && run.is_whole() {
        return Err(EINVAL);
    }
    map(mr, run.as_raw(), run.nents(), 0)
        .then_some(())
        .ok_or(EINVAL)
}

/// Number of bytes that were last mapped into an MR.
#[inline]
pub(super) fn mapped_len(mr: &Mr<'_>) -> u32 {
    // SAFETY: The MR is valid and nobody else's.
    // CAST: An MR is not longer than an SGE can be.
    unsafe { (*mr.as_raw()).length as u32 }
}

/// Makes a context for a scatterlist that the caller keeps.
///
/// # Errors
///
/// `EAGAIN` where the pool has too few MRs, `EINVAL` where the memory cannot be registered,
/// `ENOMEM`.
#[inline(never)]
pub(super) fn init_sg(
    slot: &mut Slot<'_>,
    transfer: Transfer<'_>,
    cursor: Cursor<'_>,
    misfit: Misfit,
) -> Result<c_int> {
    Ok(register(transfer, cursor, misfit)?.keep(slot, NO_TABLE))
}

/// Makes a context for an array of `bio_vec`, over a scatterlist that the context owns.
///
/// # Errors
///
/// `EINVAL` where the array holds less than the transfer asks for or the memory cannot be
/// registered, `EAGAIN` where the pool has too few MRs, `ENOMEM`, or the DMA layer's error.
#[inline(never)]
pub(super) fn init_bvec(
    slot: &mut Slot<'_>,
    transfer: Transfer<'_>,
    source: BvecSource<'_>,
) -> Result<c_int> {
    let mut entries = entries(source)?;
    // SAFETY: The entries stay where they are, in nobody else's use, until this function returns or
    // the context is destroyed.
    let list = unsafe { SgSource::from_raw(entries.as_mut_slice().as_mut_ptr(), entries.len())? };
    let mapped = MappedSg::new(transfer.qp.device(), list, transfer.dir)?;
    let regs = register(transfer, Cursor::new(&mapped, 0)?, Misfit::Split)?;
    let table = bindings::sg_table {
        sgl: list.as_raw(),
        nents: mapped.nents().get(),
        orig_nents: entries.len(),
    };

    mapped.keep();
    entries.keep();
    Ok(regs.keep(slot, table))
}

/// The pieces of a source as the entries of a scatterlist.
fn entries(mut source: BvecSource<'_>) -> Result<Array<bindings::scatterlist>> {
    let mut entries = Array::new(source.nr_bvecs())?;

    while let Some(piece) = source.next_piece()? {
        entries.push_with(|| bindings::scatterlist {
            // CAST: `unsigned long` is as wide as a pointer.
            page_link: piece.page() as usize,
            offset: piece.offset(),
            length: piece.len(),
            dma_address: 0,
            #[cfg(CONFIG_NEED_SG_DMA_LENGTH)]
            dma_length: 0,
            #[cfg(CONFIG_NEED_SG_DMA_FLAGS)]
            dma_flags: 0,
        })?;
    }
    if let Some(last) = entries.as_mut_slice().last_mut() {
        // CAST: As above.
        last.page_link |= bindings::SG_END as usize;
    }
    Ok(entries)
}

/// Releases the scatterlist that [`init_bvec`] left with a context, mapping and memory.
///
/// # Safety
///
/// The table must be that of a context for this device and direction, which must not use it again.
pub(super) unsafe fn release_table(device: &Device, dir: Direction, table: bindings::sg_table) {
    // SAFETY: The list has that many entries, and goes out of use with the end of this function.
    if let Ok(list) = unsafe { SgSource::from_raw(table.sgl, table.orig_nents) } {
        // SAFETY: `init_bvec` kept this mapping.
        drop(unsafe { MappedSg::from_kept(device, list, dir) });
    }
    // SAFETY: `init_bvec` kept this allocation.
    unsafe { kfree(table.sgl) };
}
