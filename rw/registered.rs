// SPDX-License-Identifier: GPL-2.0

//! Local memory behind MRs: for each, a registration, the transfer over it, and an invalidation of
//! what the MR was registered for before.

use core::alloc::Layout;
use core::mem;
use core::num::NonZeroU32;
use core::ptr::{
    self,
    NonNull, //
};

use kernel::ffi::c_int;
use kernel::prelude::*;

use super::{
    ctx::OWN_FORMS,
    device::Protocol,
    dma::MappedSg,
    memory::{
        kfree,
        Memory,
        ONE_ALLOCATION, //
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
/// - `regs` has room for `capacity` registrations, in `memory` or where its maker has let it be.
/// - The first `len` are written and linked, and take `nr_wrs` work requests. Each one's `mr` is out
///   of its pool of `qp`, in this array's charge. All others are zeroes.
pub(super) struct Registrations<'a> {
    qp: &'a Qp,
    kind: Kind,
    regs: *mut bindings::rdma_rw_reg_ctx,
    memory: Option<Memory>,
    len: u32,
    capacity: u32,
    nr_wrs: c_int,
}

impl<'a> Registrations<'a> {
    /// An empty array with room for `nr` registrations, not 0. May sleep.
    #[inline(always)]
    pub(super) fn new(qp: &'a Qp, kind: Kind, nr: u32) -> Result<Self> {
        let memory = Memory::for_regs(nr)?;

        // INVARIANT: There is that much room, cleared.
        Ok(Self {
            qp,
            kind,
            regs: memory.start().as_ptr().cast(),
            memory: Some(memory),
            len: 0,
            capacity: nr,
            nr_wrs: 0,
        })
    }

    /// An empty array in a room for `nr` registrations.
    ///
    /// # Safety
    ///
    /// There must be so much room at `regs`, cleared and nobody else's, as long as the result or a
    /// context made of it is in use.
    #[inline(always)]
    unsafe fn in_room(
        qp: &'a Qp,
        kind: Kind,
        regs: *mut bindings::rdma_rw_reg_ctx,
        nr: u32,
    ) -> Self {
        // INVARIANT: By this function's safety requirement.
        Self {
            qp,
            kind,
            regs,
            memory: None,
            len: 0,
            capacity: nr,
            nr_wrs: 0,
        }
    }

    /// Takes an MR for another registration.
    ///
    /// # Errors
    ///
    /// `EAGAIN` where the pool is empty.
    #[inline(always)]
    pub(super) fn take_mr(&self) -> Result<Mr<'a>> {
        Mr::take(self.qp, self.kind.pool()).ok_or(EAGAIN)
    }

    /// Adds a registration of an MR that has been mapped, and the transfer of its first `len`
    /// bytes, over a port that speaks `protocol`.
    #[inline(always)]
    pub(super) fn push(
        &mut self,
        mr: Mr<'a>,
        transfer: &Transfer<'_>,
        protocol: Protocol,
        remote: Remote,
        len: u32,
    ) -> Result {
        if self.len >= self.capacity {
            self.grow()?;
        }

        let access = match protocol {
            Protocol::Iwarp => {
                bindings::ib_access_flags_IB_ACCESS_LOCAL_WRITE
                    | bindings::ib_access_flags_IB_ACCESS_REMOTE_WRITE
            }
            Protocol::Other => bindings::ib_access_flags_IB_ACCESS_LOCAL_WRITE,
        };
        // Every iWARP port can invalidate the target of a READ, and no other can. The device
        // checks protection information itself and needs the MR for that.
        let read_inv = protocol == Protocol::Iwarp
            && transfer.dir == Direction::Read
            && self.kind == Kind::Data;
        let raw = mr.as_raw();

        // SAFETY: By the type invariant there is room for this registration, which is all zeroes:
        // what is not set here is to be 0 or null. The MR is valid and nobody else's.
        unsafe {
            let reg = self.regs.add(self.len as usize);

            (*reg).mr = raw;
            (*reg).sge.addr = (*raw).iova;
            (*reg).sge.length = len;

            (*reg).wr.wr.sg_list = &raw mut (*reg).sge;
            (*reg).wr.wr.num_sge = 1;
            (*reg).wr.wr.opcode = if read_inv {
                // The key that the MR will have, should C be the one that chains this.
                (*reg).wr.wr.ex.invalidate_rkey = key_moved((*raw).lkey, 1);
                bindings::ib_wr_opcode_IB_WR_RDMA_READ_WITH_INV
            } else {
                wr::opcode(transfer.dir)
            };
            (*reg).wr.remote_addr = remote.addr;
            (*reg).wr.rkey = remote.rkey;

            (*reg).reg_wr.wr.next = &raw mut (*reg).wr.wr;
            (*reg).reg_wr.wr.opcode = match self.kind {
                Kind::Data => bindings::ib_wr_opcode_IB_WR_REG_MR,
                Kind::Integrity => bindings::ib_wr_opcode_IB_WR_REG_MR_INTEGRITY,
            };
            (*reg).reg_wr.mr = raw;
            // CAST: Flags, well below the limit of the C field.
            (*reg).reg_wr.access = access as c_int;

            let (head, count) = link_head(reg);
            if self.len != 0 {
                (*reg.sub(1)).wr.wr.next = head;
            }
            // The numbers of work requests in an allocation.
            self.nr_wrs = self.nr_wrs.wrapping_add(count);
        }
        // INVARIANT: One more is written and linked, and the MR is in the array's charge from here
        // on.
        self.len = self.len.wrapping_add(1);
        mr.keep();
        Ok(())
    }

    /// Makes room for as many registrations again as there are.
    #[cold]
    fn grow(&mut self) -> Result {
        let capacity = self.capacity.checked_mul(2).ok_or(ENOMEM)?;
        let memory = Memory::for_regs(capacity)?;
        let regs: *mut bindings::rdma_rw_reg_ctx = memory.start().as_ptr().cast();

        // SAFETY: Both are arrays of their own, with that many elements or more. The work requests
        // point at their neighbours, and are linked anew.
        unsafe {
            regs.copy_from_nonoverlapping(self.regs, self.len as usize);
            link(regs, self.len as usize);
        }
        // INVARIANT: That much is written, in memory that was cleared. The old array goes, if it is
        // of our own.
        self.regs = regs;
        self.memory = Some(memory);
        self.capacity = capacity;
        Ok(())
    }

    /// Leaves everything to a context, with `table` in the first registration. Returns the number of
    /// work requests.
    #[inline(always)]
    pub(super) fn keep(self, slot: &mut Slot<'_>, table: bindings::sg_table) -> c_int {
        let nr_wrs = self.nr_wrs;

        if self.len != 0 {
            // SAFETY: By the type invariant there is a first one.
            unsafe { (*self.regs).sgt = table };
        }
        slot.write_registered(self.kind, self.regs, self.len, self.memory.is_some());
        // The context has the MRs and the array now.
        mem::forget(self);
        nr_wrs
    }
}

impl Drop for Registrations<'_> {
    fn drop(&mut self) {
        for i in (0..self.len as usize).rev() {
            // SAFETY: By the type invariant.
            unsafe { put(self.qp, self.kind, &*self.regs.add(i)) };
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
    // SAFETY: By this function's safety requirement; so there is one.
    drop(unsafe { Mr::from_kept(qp, kind.pool(), NonNull::new_unchecked(reg.mr)) });
}

/// Links a registration and the invalidation before it, if the MR still holds an earlier
/// registration. Returns the first work request, and how many there are with the transfer.
///
/// # Safety
///
/// `reg` must be valid, with a valid MR, and in nobody else's use.
#[inline(always)]
unsafe fn link_head(reg: *mut bindings::rdma_rw_reg_ctx) -> (*mut bindings::ib_send_wr, c_int) {
    // SAFETY: By this function's safety requirement.
    unsafe {
        if !(*(*reg).mr).need_inval {
            return (&raw mut (*reg).reg_wr.wr, 2);
        }

        // C leaves the opcode out where its init saw nothing to invalidate.
        (*reg).inv_wr.opcode = bindings::ib_wr_opcode_IB_WR_LOCAL_INV;
        (*reg).inv_wr.ex.invalidate_rkey = (*(*reg).mr).lkey;
        (*reg).inv_wr.next = &raw mut (*reg).reg_wr.wr;
        (&raw mut (*reg).inv_wr, 3)
    }
}

/// Links the work requests of registrations anew, wherever they were before.
///
/// # Safety
///
/// `regs` must point to `nr` elements in place, with valid MRs, in nobody else's use.
#[cold]
unsafe fn link(regs: *mut bindings::rdma_rw_reg_ctx, nr: usize) {
    let mut next = ptr::null_mut();

    for i in (0..nr).rev() {
        // SAFETY: By this function's safety requirement.
        unsafe {
            let reg = regs.add(i);

            (*reg).wr.wr.sg_list = &raw mut (*reg).sge;
            (*reg).wr.wr.next = next;
            (*reg).reg_wr.wr.next = &raw mut (*reg).wr.wr;
            (*reg).inv_wr.next = ptr::null_mut();
            next = link_head(reg).0;
        }
    }
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
#[inline(always)]
pub(super) unsafe fn arm(
    regs: &mut [bindings::rdma_rw_reg_ctx],
) -> (*mut bindings::ib_send_wr, *mut bindings::ib_send_wr) {
    for reg in regs.iter_mut() {
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
    }

    let first = regs.first_mut().map_or(ptr::null_mut(), head);
    let last = regs
        .last_mut()
        .map_or(ptr::null_mut(), |reg| &raw mut reg.wr.wr);
    (first, last)
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
    /// The same, and it is known that the memory does not fit.
    Certain,
}

/// Registers mapped memory with as many MRs of `pages` pages as it takes.
///
/// # Errors
///
/// `EAGAIN` where the pool has too few MRs, `EINVAL` where the memory does not fit and is not to be
/// split, or the device does not take it, `ENOMEM`.
#[inline(always)]
fn register<'a>(
    regs: &mut Registrations<'a>,
    transfer: &Transfer<'a>,
    mut cursor: Cursor<'_>,
    pages: NonZeroU32,
    misfit: Misfit,
) -> Result {
    let protocol = transfer.protocol();
    let mut remote = transfer.remote;

    while cursor.left() != 0 {
        let mr = regs.take_mr()?;
        let nents = cursor.left().min(pages.get());

        if misfit != Misfit::Certain && map(&mr, cursor.as_raw(), nents, cursor.offset()) {
            cursor.skip(nents);
        } else if misfit != Misfit::Refuse {
            map_split(&mr, &mut cursor, pages, misfit)?;
        } else {
            return Err(EINVAL);
        }

        let len = mapped_len(&mr);
        regs.push(mr, transfer, protocol, remote, len)?;
        remote = remote.advanced(u64::from(len));
    }
    Ok(())
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

/// Maps as much as fits an MR of `pages` pages: up to a gap or an empty entry, or to the middle of
/// an entry. Moves the cursor behind it.
///
/// # Errors
///
/// `EINVAL` where that is no less than the device did not take before, or it does not take this.
#[cold]
fn map_split(mr: &Mr<'_>, cursor: &mut Cursor<'_>, pages: NonZeroU32, misfit: Misfit) -> Result {
    let before = cursor.clone();
    let run = cursor.take_run(pages).ok_or(EINVAL)?;

    let is_all = run.nents() == before.left().min(pages.get()) && run.is_whole();

    if is_all && misfit == Misfit::Split {
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
#[inline(always)]
pub(super) fn init_sg(
    slot: &mut Slot<'_>,
    transfer: &Transfer<'_>,
    cursor: Cursor<'_>,
    misfit: Misfit,
) -> Result<c_int> {
    let pages = transfer.qp.mr_pages();
    let nr = div_round_up(cursor.left(), pages);
    let mut regs = Registrations::new(transfer.qp, Kind::Data, nr)?;

    register(&mut regs, transfer, cursor, pages, misfit)?;
    Ok(regs.keep(slot, NO_TABLE))
}

/// [`init_sg`] for memory that does not have to be registered.
///
/// # Errors
///
/// As there. `EAGAIN` and `EINVAL` say that it is better not.
#[inline(never)]
pub(super) fn prefer_sg(
    mut slot: Slot<'_>,
    transfer: Transfer<'_>,
    cursor: Cursor<'_>,
) -> Result<c_int> {
    init_sg(&mut slot, &transfer, cursor, Misfit::Refuse)
}

/// Makes a context for an array of `bio_vec`, over a scatterlist that the context owns.
///
/// # Errors
///
/// `EINVAL` where the array holds less than the transfer asks for or the memory cannot be
/// registered, `EAGAIN` where the pool has too few MRs, `ENOMEM`, or the DMA layer's error.
#[inline(always)]
pub(super) fn init_bvec(
    slot: &mut Slot<'_>,
    transfer: &Transfer<'_>,
    source: BvecSource<'_>,
) -> Result<c_int> {
    let pages = transfer.qp.mr_pages();
    let nr = source.nr_bvecs();
    let nr_regs = div_round_up(nr, pages);
    let entries = Layout::array::<bindings::scatterlist>(nr as usize).map_err(|_| ENOMEM)?;
    let (both, behind) = Layout::array::<bindings::rdma_rw_reg_ctx>(nr_regs as usize)
        .and_then(|regs| entries.extend(regs))
        .map_err(|_| ENOMEM)?;
    let at_once = OWN_FORMS && both.size() <= ONE_ALLOCATION;
    let memory = if at_once {
        Memory::zeroed(both)?
    } else {
        Memory::new(entries)?
    };
    let sgl: *mut bindings::scatterlist = memory.start().as_ptr().cast();

    // SAFETY: There is room for an entry for each piece, which stay where they are, in nobody
    // else's use, until this function returns or the context is destroyed.
    let list = unsafe { SgSource::from_raw(sgl, write_entries(sgl, source)?)? };
    let mapped = MappedSg::new(transfer.qp.device(), list, transfer.dir)?;
    let nents = mapped.nents();
    let mut regs = if at_once {
        // SAFETY: The layout has the room, behind the entries, and it is cleared.
        unsafe {
            let regs = memory.start().as_ptr().add(behind).cast();

            Registrations::in_room(transfer.qp, Kind::Data, regs, nr_regs)
        }
    } else {
        Registrations::new(transfer.qp, Kind::Data, div_round_up(nents.get(), pages))?
    };

    register(
        &mut regs,
        transfer,
        Cursor::new(&mapped, 0)?,
        pages,
        Misfit::Split,
    )?;
    mapped.keep();
    memory.keep();

    let table = bindings::sg_table {
        sgl,
        nents: nents.get(),
        orig_nents: list.nents().get(),
    };
    Ok(regs.keep(slot, table))
}

/// Writes the pieces of a source as the entries of a scatterlist, and returns how many.
///
/// # Safety
///
/// There must be room for an entry for each entry of the array at `sgl`.
#[inline(always)]
unsafe fn write_entries(
    sgl: *mut bindings::scatterlist,
    mut source: BvecSource<'_>,
) -> Result<u32> {
    let mut nents = 0u32;

    while let Some(piece) = source.next_piece()? {
        // SAFETY: An entry of the array has one piece at the most.
        unsafe {
            sgl.add(nents as usize).write(bindings::scatterlist {
                // CAST: `unsigned long` is as wide as a pointer.
                page_link: piece.page() as usize,
                offset: piece.offset(),
                length: piece.len(),
                dma_address: 0,
                #[cfg(CONFIG_NEED_SG_DMA_LENGTH)]
                dma_length: 0,
                #[cfg(CONFIG_NEED_SG_DMA_FLAGS)]
                dma_flags: 0,
            });
        }
        // Not more than there are entries.
        nents = nents.wrapping_add(1);
    }
    if nents != 0 {
        // SAFETY: The last of those that have just been written.
        // CAST: As above.
        unsafe {
            (*sgl.add(nents.wrapping_sub(1) as usize)).page_link |= bindings::SG_END as usize;
        }
    }
    Ok(nents)
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
