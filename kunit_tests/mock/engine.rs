// SPDX-License-Identifier: GPL-2.0

//! Carrying out what is posted.

use core::num::NonZeroU64;
use core::ptr::NonNull;
use core::slice;

use kernel::prelude::*;

use super::{
    verbs::{
        inner,
        RawMr,
        RawQp, //
    },
    Dma,
    Inner,
    State,
    LOCAL_DMA_LKEY,
    PAGE, //
};
use crate::bindings;

/// Address of the remote buffer, on no bound of anything.
pub(crate) const REMOTE_ADDR: u64 = 0x0123_4567_89ab_cdef;

/// Key of the remote buffer.
pub(crate) const REMOTE_KEY: u32 = 0x00c0_ffee;

/// Size of the protection information of an interval.
const PI: u64 = 8;

/// A work request that has completed, where something hears of that.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Completed {
    /// Completion entry of the work request.
    pub(crate) cqe: *mut bindings::ib_cqe,
    /// Whether it was carried out.
    pub(crate) ok: bool,
}

/// Words as bytes.
pub(super) fn bytes(words: &[u64]) -> &[u8] {
    // SAFETY: Words are initialised and have no padding.
    unsafe { slice::from_raw_parts(words.as_ptr().cast(), words.len() * 8) }
}

/// Words as bytes.
fn bytes_mut(words: &mut [u64]) -> &mut [u8] {
    // SAFETY: As above, and every pattern of bits is a word.
    unsafe { slice::from_raw_parts_mut(words.as_mut_ptr().cast(), words.len() * 8) }
}

/// Why a work request was not carried out.
type Refused = (&'static str, u64);

/// Which way bytes go.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    /// From local memory to the remote buffer.
    Out,
    /// The other way.
    In,
}

/// Carries out a chain of work requests.
///
/// # Safety
///
/// The arguments must be what `struct ib_device_ops` asks for, of a device of ours.
pub(super) unsafe extern "C" fn post_send(
    qp: *mut bindings::ib_qp,
    first: *const bindings::ib_send_wr,
    bad: *mut *const bindings::ib_send_wr,
) -> c_int {
    // SAFETY: ib_core hands in a QP of ours, and the caller a chain of work requests.
    unsafe {
        let inner = inner((*qp).device);
        let mut state = inner.lock();
        let mut wr = first;
        let mut room = (*qp.cast::<RawQp>()).caps.max_send_wr;

        state.counts.posts += 1;
        if wr.is_null() {
            state.fault("a post of nothing", 0);
        }
        while !wr.is_null() {
            let refuse = match &mut state.plan.post_after {
                Some(0) => true,
                Some(left) => {
                    *left -= 1;
                    false
                }
                None => false,
            };

            if room == 0 {
                state.fault("more work requests than the send queue has room for", 0);
            }
            if refuse || room == 0 {
                *bad = wr;
                return ENOMEM.to_errno();
            }
            room -= 1;
            carry_out(inner, &mut state, &mut *qp.cast(), &*wr);
            wr = (*wr).next;
        }
    }
    0
}

/// Carries out a work request and completes it.
fn carry_out(inner: &Inner, state: &mut State, qp: &mut RawQp, wr: &bindings::ib_send_wr) {
    let result = if qp.broken {
        Err(None)
    } else {
        // SAFETY: Posted work requests are valid, and of the type that their opcode says.
        unsafe { execute(inner, state, qp, wr) }.map_err(Some)
    };
    let signalled = wr.send_flags & bindings::ib_send_flags_IB_SEND_SIGNALED as c_int != 0;

    match result {
        Ok(()) => state.counts.wrs += 1,
        Err(reason) => {
            qp.broken = true;
            if let Some((what, value)) = reason {
                state.fault(what, value);
            }
        }
    }
    if signalled || result.is_err() {
        // SAFETY: Completions of the tests go by completion entries.
        let cqe = unsafe { wr.__bindgen_anon_1.wr_cqe };

        if signalled && cqe.is_null() {
            state.fault("a signalled work request without completion entry", 0);
        }
        let completed = Completed {
            cqe,
            ok: result.is_ok(),
        };
        if state.completed.push_within_capacity(completed).is_err() {
            state.fault("more completions than a test can need", 0);
        }
    }
}

/// Carries out a work request.
///
/// # Safety
///
/// `wr` must be valid, and of the type that its opcode says.
unsafe fn execute(
    inner: &Inner,
    state: &mut State,
    qp: &RawQp,
    wr: &bindings::ib_send_wr,
) -> Result<(), Refused> {
    match wr.opcode {
        bindings::ib_wr_opcode_IB_WR_REG_MR | bindings::ib_wr_opcode_IB_WR_REG_MR_INTEGRITY => {
            let integrity = wr.opcode == bindings::ib_wr_opcode_IB_WR_REG_MR_INTEGRITY;
            // SAFETY: The opcode says that it is part of such a work request.
            let reg = unsafe { &*core::ptr::from_ref(wr).cast::<bindings::ib_reg_wr>() };

            // SAFETY: The MR of a registration is valid.
            unsafe { register(state, reg, integrity) }
        }
        bindings::ib_wr_opcode_IB_WR_LOCAL_INV => {
            // SAFETY: The opcode says that this is the member in use.
            invalidate(state, unsafe { wr.ex.invalidate_rkey })
        }
        bindings::ib_wr_opcode_IB_WR_RDMA_WRITE => {
            state.counts.writes += 1;
            // SAFETY: The opcode says that it is part of such a work request.
            unsafe { transfer(inner, state, qp, wr, Way::Out) }
        }
        bindings::ib_wr_opcode_IB_WR_RDMA_READ => {
            state.counts.reads += 1;
            // SAFETY: As above.
            unsafe { transfer(inner, state, qp, wr, Way::In) }
        }
        bindings::ib_wr_opcode_IB_WR_RDMA_READ_WITH_INV => {
            state.counts.reads += 1;
            if !inner.profile.iwarp {
                return Err(("a READ_WITH_INV on a port that has none", 0));
            }
            // SAFETY: As above.
            unsafe {
                transfer(inner, state, qp, wr, Way::In)?;
                let key = if state.inv_of_sge {
                    (*wr.sg_list).lkey
                } else {
                    wr.ex.invalidate_rkey
                };
                invalidate(state, key)
            }
        }
        bindings::ib_wr_opcode_IB_WR_SEND => {
            state.counts.sends += 1;
            Ok(())
        }
        other => Err(("a work request of an unknown opcode", other.into())),
    }
}

/// Registers what was mapped into an MR.
///
/// # Safety
///
/// The MR must be valid.
unsafe fn register(
    state: &mut State,
    wr: &bindings::ib_reg_wr,
    integrity: bool,
) -> Result<(), Refused> {
    if wr.mr.is_null() {
        return Err(("a registration without MR", 0));
    }
    // SAFETY: By this function's safety requirement.
    let mr = unsafe { RawMr::from_raw(wr.mr) };

    if wr.wr.num_sge != 0 {
        return Err(("a registration with SGEs", wr.key.into()));
    }
    if mr.integrity() != integrity {
        return Err(("a registration of the wrong kind of MR", wr.key.into()));
    }
    if mr.registration.is_some() {
        return Err(("a registration of an MR that is registered", wr.key.into()));
    }
    if wr.key != mr.key() {
        return Err((
            "a registration with a key that is not the MR's",
            wr.key.into(),
        ));
    }
    if mr.last_key == Some(wr.key) {
        return Err(("a registration with the key of the last one", wr.key.into()));
    }

    state.counts.regs += 1;
    // CAST: Flags.
    mr.register(wr.key, wr.access as u32, integrity);
    Ok(())
}

/// Invalidates a registration.
fn invalidate(state: &mut State, key: u32) -> Result<(), Refused> {
    // SAFETY: MRs that are listed exist.
    let mr = unsafe {
        &mut *state
            .mr(key)
            .ok_or(("no MR of this key", key.into()))?
            .as_ptr()
    };

    match &mr.registration {
        Some(reg) if reg.key == key => {}
        _ => {
            return Err((
                "an invalidation of a key that is not registered",
                key.into(),
            ))
        }
    }
    mr.registration = None;
    state.counts.invs += 1;
    Ok(())
}

/// Moves the bytes of a READ or WRITE.
///
/// # Safety
///
/// `wr` must be part of an RDMA work request, with the SGEs that it says.
unsafe fn transfer(
    inner: &Inner,
    state: &mut State,
    qp: &RawQp,
    wr: &bindings::ib_send_wr,
    way: Way,
) -> Result<(), Refused> {
    // SAFETY: By this function's safety requirement.
    let rdma = unsafe { &*core::ptr::from_ref(wr).cast::<bindings::ib_rdma_wr>() };
    let mut limit = qp.caps.max_send_sge;

    if way == Way::In {
        limit = limit.min(inner.profile.max_sge_rd);
    }
    if wr.num_sge <= 0 || wr.num_sge.unsigned_abs() > limit {
        // CAST: Whatever it is.
        return Err((
            "a work request with a wrong number of SGEs",
            wr.num_sge as u64,
        ));
    }
    if rdma.rkey != REMOTE_KEY {
        return Err(("a wrong remote key", rdma.rkey.into()));
    }

    // SAFETY: By this function's safety requirement.
    let sges = unsafe { slice::from_raw_parts(wr.sg_list, wr.num_sge as usize) };
    let mut at = rdma.remote_addr.wrapping_sub(REMOTE_ADDR);
    for sge in sges {
        let len = u64::from(sge.length);
        let room = state.remote.len() as u64 * 8;

        if len == 0 {
            return Err(("an SGE of no bytes", sge.addr));
        }
        if at > room || len > room - at {
            return Err(("remote memory that does not exist", rdma.remote_addr));
        }
        if sge.lkey == LOCAL_DMA_LKEY {
            if inner.profile.iwarp && way == Way::In {
                return Err(("an iWARP READ into memory that is not registered", sge.addr));
            }
            copy(inner, state, sge.addr, len, at, way)?;
        } else {
            copy_mr(inner, state, sge, at, way)?;
        }
        at += len;
        state.counts.bytes += len;
    }
    Ok(())
}

/// Moves bytes from or to an MR.
fn copy_mr(
    inner: &Inner,
    state: &mut State,
    sge: &bindings::ib_sge,
    at: u64,
    way: Way,
) -> Result<(), Refused> {
    let key = sge.lkey;
    let mr: NonNull<RawMr> = state.mr(key).ok_or(("no MR of this key", key.into()))?;
    // SAFETY: MRs that are listed exist.
    let mr = unsafe { mr.as_ref() };
    let reg = match mr.registration {
        Some(reg) if reg.key == key => reg,
        _ => return Err(("an SGE with a key that is not registered", key.into())),
    };
    let mut needed = 0;

    if way == Way::In {
        needed |= bindings::ib_access_flags_IB_ACCESS_LOCAL_WRITE;
        if inner.profile.iwarp {
            needed |= bindings::ib_access_flags_IB_ACCESS_REMOTE_WRITE;
        }
    }
    if reg.access & needed != needed {
        return Err((
            "a READ into an MR that may not be written",
            reg.access.into(),
        ));
    }
    let len = u64::from(sge.length);
    let from = sge.addr.wrapping_sub(reg.iova);
    if from > reg.len || len > reg.len - from {
        return Err(("an SGE that leaves its MR", sge.addr));
    }

    if mr.integrity() {
        let meta: u64 = mr.registered.meta.iter().map(|piece| piece.len).sum();
        let data = reg.len - meta;

        if reg.interval == 0 {
            if len > data {
                return Err(("protection information where none is on the wire", len));
            }
            return copy_pieces(inner, state, &mr.registered.data, from, len, at, way);
        }
        // Not 0, which objtool does not see.
        let step = NonZeroU64::MIN.saturating_add(reg.interval + PI - 1);
        let nr = len / step;

        if from != 0 || len % step != 0 || nr * PI != meta {
            return Err(("data and protection information that do not match", len));
        }
        for i in 0..nr {
            let at = at + i * step.get();

            copy_pieces(
                inner,
                state,
                &mr.registered.data,
                i * reg.interval,
                reg.interval,
                at,
                way,
            )?;
            copy_pieces(
                inner,
                state,
                &mr.registered.meta,
                i * PI,
                PI,
                at + reg.interval,
                way,
            )?;
        }
        return Ok(());
    }

    // Pages are whole; the first byte is somewhere in the first one.
    let from = reg.iova % u64::from(PAGE) + from;
    copy_pieces(inner, state, &mr.registered.data, from, len, at, way)
}

/// Moves bytes from or to a series of pieces, `from` bytes into it.
fn copy_pieces(
    inner: &Inner,
    state: &mut State,
    pieces: &[super::verbs::Piece],
    mut from: u64,
    mut len: u64,
    mut at: u64,
    way: Way,
) -> Result<(), Refused> {
    for piece in pieces {
        if from >= piece.len {
            from -= piece.len;
            continue;
        }

        let part = (piece.len - from).min(len);
        copy(inner, state, piece.addr.wrapping_add(from), part, at, way)?;
        at += part;
        len -= part;
        from = 0;
        if len == 0 {
            return Ok(());
        }
    }
    Err(("an MR of fewer pages than bytes", len))
}

/// Moves bytes from or to what the device sees at an address.
fn copy(
    inner: &Inner,
    state: &mut State,
    mut addr: u64,
    mut len: u64,
    mut at: u64,
    way: Way,
) -> Result<(), Refused> {
    while len != 0 {
        let (local, part) = resolve(inner, state, addr, way)?;
        let part = part.min(len);

        let found = state.regions.iter().any(|region| {
            local
                .checked_sub(region.start)
                .is_some_and(|off| off < region.len && part <= (region.len - off) as u64)
        });
        if !found {
            return Err(("local memory that is not the transfer's", addr));
        }

        let remote = bytes_mut(&mut state.remote);
        let Some(remote) = remote.get_mut(at as usize..(at + part) as usize) else {
            return Err(("remote memory that does not exist", at));
        };
        // SAFETY: This is memory of the test, which is waiting for this post to end.
        let local = unsafe { slice::from_raw_parts_mut(local as *mut u8, part as usize) };
        match way {
            Way::Out => remote.copy_from_slice(local),
            Way::In => local.copy_from_slice(remote),
        }
        addr += part;
        at += part;
        len -= part;
    }
    Ok(())
}

/// Kernel address of what the device sees at an address, and number of bytes from there on.
fn resolve(inner: &Inner, state: &State, addr: u64, way: Way) -> Result<(usize, u64), Refused> {
    let page = u64::from(PAGE);

    let phys = match inner.profile.dma {
        // Up to the end of its region, which the caller checks, a page at a time.
        Dma::Virtual => return Ok((addr as usize, page - addr % page)),
        Dma::Ours { .. } => {
            let mapping = state
                .mapping(addr)
                .ok_or(("an address that is not mapped for DMA", addr))?;

            if mapping.outgoing() != (way == Way::Out) {
                return Err(("an address that is mapped for the other direction", addr));
            }
            let off = addr - mapping.iova;
            let part = mapping.len - off;
            // SAFETY: This is the address of memory that was mapped.
            let local = unsafe { bindings::rdma_rw_kunit_phys_to_virt(mapping.phys + off) };
            return Ok((local as usize, part));
        }
        Dma::Direct | Dma::Peer { .. } => addr,
        // SAFETY: The device is there as long as the state.
        Dma::Pci => unsafe { bindings::rdma_rw_kunit_iova_to_phys(inner.dma_device.get(), addr) },
    };
    if phys == 0 {
        return Err(("an address that is not mapped for DMA", addr));
    }
    // SAFETY: The IOMMU leads to it, if there is one, and the caller checks that it is memory of the
    // test.
    let local = unsafe { bindings::rdma_rw_kunit_phys_to_virt(phys) };
    Ok((local as usize, page - addr % page))
}
