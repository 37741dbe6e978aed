// SPDX-License-Identifier: GPL-2.0

//! The kernel's RDMA READ/WRITE API, in Rust.
//!
//! Storage targets and file servers (NVMe-oF, iSER, SRP, NFS, SMB Direct) describe a transfer by
//! local memory (a scatterlist or an array of `bio_vec`) and a remote address and key. This crate
//! turns that into a chain of work requests: it maps the memory for DMA, chooses between direct
//! SGEs, memory registration and one contiguous IOVA range, and takes everything back afterwards.
//!
//! This root holds the C ABI alone. Every function here checks and converts what C hands over and
//! calls [`rw`], which is written as an interface for Rust callers; the C ABI is one client of it.
//!
//! C header: [`include/rdma/rw.h`](srctree/include/rdma/rw.h).

mod bindings;
mod rw;

use kernel::error::from_result;
use kernel::ffi::c_int;
use kernel::prelude::*;

use crate::rw::{
    mr_pools,
    sizing,
    warn_on_once,
    BvecSource,
    Completion,
    Context,
    Device,
    Direction,
    Qp,
    Remote,
    SgSource,
    Slot,
    Transfer, //
};

/// Prefix of messages printed through the kernel crate's `pr_*!` macros.
const __LOG_PREFIX: &[u8] = b"rdma_rw\0";

/// Defines functions of the C ABI and checks each against its prototype in the C headers.
///
/// Both branches of an `if` must have one type, so a parameter or result that differs from what
/// `bindgen` read does not build.
macro_rules! c_abi {
    ($(
        $(#[$attr:meta])*
        unsafe fn $name:ident($($arg:ident: $ty:ty),* $(,)?) $(-> $ret:ty)? $body:block
    )*) => {
        $(
            $(#[$attr])*
            #[no_mangle]
            pub unsafe extern "C" fn $name($($arg: $ty),*) $(-> $ret)? $body

            const _: () = {
                if true {
                    bindings::$name
                } else {
                    $name
                };
            };
        )*
    };
}

/// Direction of a destroy call: the caller's, or that of the context where the caller's is none.
///
/// Init refuses such a direction, so a destroy that brings one cannot mean what it says, while the
/// mappings still have to go back the way they were made.
fn destroy_direction(ctx: &Context<'_>, dir: bindings::dma_data_direction) -> Direction {
    match Direction::from_raw(dir) {
        Some(dir) => dir,
        None => {
            warn_on_once!(true);
            ctx.direction()
        }
    }
}

/// Direction of an init call.
///
/// # Errors
///
/// `EINVAL`, with one warning, where `dir` is neither `DMA_TO_DEVICE` nor `DMA_FROM_DEVICE`.
#[inline]
fn init_direction(dir: bindings::dma_data_direction) -> Result<Direction> {
    let dir = Direction::from_raw(dir);

    warn_on_once!(dir.is_none());
    dir.ok_or(EINVAL)
}

/// Keeps a function's frame on the stack until the call that this is the result of is over, which
/// might be a jump else. A kernel that takes the function back looks there whether anybody is still
/// in it, and knows nothing of where it jumps to. Wanted where that may sleep.
#[inline(always)]
fn held(result: c_int) -> c_int {
    if cfg!(rdma_rw_takeover) {
        core::hint::black_box(result)
    } else {
        result
    }
}

/// Defines what the exported inits hand over to where they do not make a context at once, or find
/// the arguments wrong.
///
/// Each function takes what the exported one takes, and in the same places, so that nothing has to
/// be moved or kept; and each is called in one place alone, as the compiler would copy the arguments
/// for a second one. The slot knows the remote memory.
macro_rules! inits {
    ($(
        $(#[$attr:meta])*
        unsafe fn $name:ident($($arg:ident: $ty:ty),* $(,)?) = |$transfer:ident, $slot:pat_param|
        $body:block
    )*) => {
        $(
            $(#[$attr])*
            ///
            /// # Safety
            ///
            /// As for the exported function.
            #[inline(never)]
            unsafe extern "C" fn $name(
                ctx: *mut bindings::rdma_rw_ctx,
                qp: *mut bindings::ib_qp,
                port_num: u32,
                $($arg: $ty,)*
                remote_addr: u64,
                rkey: u32,
                dir: bindings::dma_data_direction,
            ) -> c_int {
                from_result(|| {
                    let dir = init_direction(dir)?;
                    // SAFETY: The caller promises writable memory that stays in place.
                    let $slot = unsafe { Slot::from_raw(ctx) };
                    // SAFETY: The caller promises a valid QP.
                    let qp = unsafe { Qp::from_raw(qp) };
                    let remote = Remote::new(remote_addr, rkey);
                    let $transfer = Transfer::new(qp, port_num, remote, dir);

                    $body
                })
            }
        )*
    };
}

inits! {
    /// [`rdma_rw_ctx_init`] for any transfer.
    unsafe fn init_sg(
        sg: *mut bindings::scatterlist,
        sg_cnt: u32,
        sg_offset: u32,
    ) = |transfer, slot| {
        // SAFETY: The caller promises a list of `sg_cnt` entries, or null.
        let list = unsafe { SgSource::from_raw(sg, sg_cnt)? };

        transfer.init_sg(slot, list, sg_offset)
    }

    /// [`rdma_rw_ctx_init_bvec`] for any transfer.
    unsafe fn init_bvec(
        bvecs: *const bindings::bio_vec,
        nr_bvec: u32,
        iter: bindings::bvec_iter,
    ) = |transfer, mut slot| {
        // SAFETY: The caller promises an array of `nr_bvec` entries, or null.
        let piece = unsafe { BvecSource::only_piece(bvecs, nr_bvec, iter) };

        if let Some(result) = piece.and_then(|piece| transfer.init_bvec_one(&mut slot, piece)) {
            return result;
        }

        // SAFETY: As above.
        let source = unsafe { BvecSource::from_raw(bvecs, nr_bvec, iter)? };

        transfer.init_bvec(slot, source)
    }
}

/// [`rdma_rw_ctx_wrs`] for any context.
///
/// # Safety
///
/// As there.
#[inline(never)]
unsafe extern "C" fn wrs(
    ctx: *mut bindings::rdma_rw_ctx,
    _qp: *mut bindings::ib_qp,
    _port_num: u32,
    cqe: *mut bindings::ib_cqe,
    chain_wr: *mut bindings::ib_send_wr,
) -> *mut bindings::ib_send_wr {
    // SAFETY: The caller promises a context.
    let reg = unsafe { Context::of_one_reg(ctx) };

    if let (Some(reg), Some(completion)) = (reg, Completion::from_raw(cqe, chain_wr)) {
        return reg.chain_wrs(completion);
    }

    // SAFETY: As above.
    let Some(ctx) = (unsafe { Context::from_raw(ctx) }) else {
        return chain_wr;
    };

    match Completion::from_raw(cqe, chain_wr) {
        Some(completion) => ctx.chain_wrs(completion),
        None => {
            warn_on_once!(true);
            ctx.chain_wrs_unheard()
        }
    }
}

/// [`rdma_rw_ctx_destroy`] for a context that [`Context::is_one_reg_of_list`].
///
/// # Safety
///
/// As there.
#[inline(never)]
unsafe fn destroy_one_reg(
    ctx: *mut bindings::rdma_rw_ctx,
    qp: *mut bindings::ib_qp,
    _port_num: u32,
    sg: *mut bindings::scatterlist,
    sg_cnt: u32,
    dir: Direction,
) {
    // SAFETY: The caller promises such a context, which the device is done with, and its QP.
    unsafe { Context::release_one_reg(ctx, Qp::from_raw(qp), (sg, sg_cnt), dir) };
}

/// [`rdma_rw_ctx_destroy`] for any context.
///
/// # Safety
///
/// As there.
#[inline(never)]
unsafe extern "C" fn destroy(
    ctx: *mut bindings::rdma_rw_ctx,
    qp: *mut bindings::ib_qp,
    _port_num: u32,
    sg: *mut bindings::scatterlist,
    sg_cnt: u32,
    dir: bindings::dma_data_direction,
) {
    // SAFETY: The caller promises a context that the device is done with, and its QP.
    if let (Some(ctx), qp) = unsafe { (Context::from_raw(ctx), Qp::from_raw(qp)) } {
        let dir = destroy_direction(&ctx, dir);
        // SAFETY: The caller promises the list of the context's init.
        unsafe { ctx.destroy_sg(qp, (sg, sg_cnt), dir) };
    }
}

/// [`rdma_rw_ctx_destroy_bvec`] for any context.
///
/// # Safety
///
/// As there.
#[inline(never)]
unsafe extern "C" fn destroy_bvec(
    ctx: *mut bindings::rdma_rw_ctx,
    qp: *mut bindings::ib_qp,
    _port_num: u32,
    _bvecs: *const bindings::bio_vec,
    nr_bvec: u32,
    dir: bindings::dma_data_direction,
) {
    // SAFETY: The caller promises a context that the device is done with, and its QP.
    if let (Some(ctx), qp) = unsafe { (Context::from_raw(ctx), Qp::from_raw(qp)) } {
        let dir = destroy_direction(&ctx, dir);
        // SAFETY: The caller promises the number of the context's init.
        unsafe { ctx.destroy_bvec(qp, nr_bvec, dir) };
    }
}

c_abi! {
    /// Prepares a transfer between a scatterlist and remote memory.
    ///
    /// Maps the whole of `sg` for DMA and builds the work requests for what lies behind
    /// `sg_offset` bytes. May sleep.
    ///
    /// - `ctx`: written by this function; need not be initialised.
    /// - `qp`, `port_num`: QP to post to, and the port its connection runs over.
    /// - `sg`, `sg_cnt`: local memory and its number of entries.
    /// - `sg_offset`: bytes of the list to leave out at its start.
    /// - `remote_addr`, `rkey`: remote memory; not moved by `sg_offset`.
    /// - `dir`: `DMA_TO_DEVICE` for an RDMA WRITE, `DMA_FROM_DEVICE` for an RDMA READ.
    ///
    /// Returns the number of work requests that [`rdma_rw_ctx_wrs`] will chain, or
    /// `-EIO` (nothing to map, or `sg_offset` is not inside the list), `-EINVAL` (bad direction, no
    /// list, a QP without SGEs, memory that cannot be registered), `-EAGAIN` (registration is
    /// required and no MR is left), `-ENOMEM`, or the DMA layer's error. After an error nothing
    /// is held and the context must not be destroyed.
    ///
    /// C header: [`include/rdma/rw.h`](srctree/include/rdma/rw.h).
    ///
    /// # Safety
    ///
    /// - `ctx` must be writable and must not move until it is destroyed.
    /// - `qp` must be valid.
    /// - `sg` must be null or a list of at least `sg_cnt` entries that stays as it is until the
    ///   context is destroyed.
    unsafe fn rdma_rw_ctx_init(
        ctx: *mut bindings::rdma_rw_ctx,
        qp: *mut bindings::ib_qp,
        port_num: u32,
        sg: *mut bindings::scatterlist,
        sg_cnt: u32,
        sg_offset: u32,
        remote_addr: u64,
        rkey: u32,
        dir: bindings::dma_data_direction,
    ) -> c_int {
        // SAFETY: The caller promises a valid QP, and writable memory that stays in place.
        let (queue_pair, mut slot) = unsafe { (Qp::from_raw(qp), Slot::from_raw(ctx)) };
        let remote = Remote::new(remote_addr, rkey);

        // First of all, so that it need not be kept.
        slot.write_remote(remote);
        if let Some(way) = Direction::from_raw(dir) {
            let transfer = Transfer::new(queue_pair, port_num, remote, way);
            // SAFETY: The caller promises a list of `sg_cnt` entries, or null.
            let list = || unsafe { SgSource::of_one(sg, sg_cnt) };

            if let Some(count) = transfer.init_sg_at_once(slot, list, sg_offset) {
                return count;
            }
        }
        // SAFETY: By this function's own safety requirements.
        let result = unsafe {
            init_sg(
                ctx,
                qp,
                port_num,
                sg,
                sg_cnt,
                sg_offset,
                remote_addr,
                rkey,
                dir,
            )
        };
        held(result)
    }

    /// Prepares a transfer between an array of `bio_vec` and remote memory.
    ///
    /// May sleep. `iter` says where in the array the transfer starts and how long it is; it is
    /// handed over by value and the caller's copy stays as it was.
    ///
    /// - `ctx`: written by this function; need not be initialised.
    /// - `qp`, `port_num`: QP to post to, and the port its connection runs over.
    /// - `bvecs`, `nr_bvec`: local memory and the number of entries of the array.
    /// - `iter`: first entry, offset in it, and bytes to transfer.
    /// - `remote_addr`, `rkey`: remote memory.
    /// - `dir`: `DMA_TO_DEVICE` for an RDMA WRITE, `DMA_FROM_DEVICE` for an RDMA READ.
    ///
    /// Returns the number of work requests that [`rdma_rw_ctx_wrs`] will chain, or `-EINVAL`
    /// (nothing to transfer, more bytes asked for than the array holds, bad direction, a QP
    /// without SGEs, memory that cannot be registered), `-EAGAIN` (registration is required and
    /// no MR is left), `-ENOMEM` (no memory, or no DMA mapping), or the DMA layer's error. After
    /// an error nothing is held and the context must not be destroyed.
    ///
    /// C header: [`include/rdma/rw.h`](srctree/include/rdma/rw.h).
    ///
    /// # Safety
    ///
    /// - `ctx` must be writable and must not move until it is destroyed.
    /// - `qp` must be valid.
    /// - `bvecs` must be null or an array of `nr_bvec` entries, whose pages stay until the context
    ///   is destroyed.
    unsafe fn rdma_rw_ctx_init_bvec(
        ctx: *mut bindings::rdma_rw_ctx,
        qp: *mut bindings::ib_qp,
        port_num: u32,
        bvecs: *const bindings::bio_vec,
        nr_bvec: u32,
        iter: bindings::bvec_iter,
        remote_addr: u64,
        rkey: u32,
        dir: bindings::dma_data_direction,
    ) -> c_int {
        // SAFETY: The caller promises a valid QP, and writable memory that stays in place.
        let (queue_pair, mut slot) = unsafe { (Qp::from_raw(qp), Slot::from_raw(ctx)) };
        let remote = Remote::new(remote_addr, rkey);

        // First of all, so that it need not be kept.
        slot.write_remote(remote);
        if let Some(way) = Direction::from_raw(dir) {
            let transfer = Transfer::new(queue_pair, port_num, remote, way);
            // SAFETY: The caller promises an array of `nr_bvec` entries, or null.
            let piece = || unsafe { BvecSource::only_piece(bvecs, nr_bvec, iter) };

            if let Some(count) = transfer.init_bvec_at_once(slot, piece) {
                return count;
            }
        }
        // SAFETY: By this function's own safety requirements.
        let result = unsafe {
            init_bvec(
                ctx,
                qp,
                port_num,
                bvecs,
                nr_bvec,
                iter,
                remote_addr,
                rkey,
                dir,
            )
        };
        held(result)
    }

    /// Prepares a transfer whose data carries protection information that the device checks,
    /// strips or inserts.
    ///
    /// May sleep. Always registers memory, with an MR of the QP's integrity pool.
    ///
    /// - `ctx`: written by this function; need not be initialised.
    /// - `qp`, `port_num`: QP made with `IB_QP_CREATE_INTEGRITY_EN`, and its port.
    /// - `sg`, `sg_cnt`: local data.
    /// - `prot_sg`, `prot_sg_cnt`: local protection information; none where the count is 0.
    /// - `sig_attrs`: what is to be checked and how, in memory and on the wire.
    /// - `remote_addr`, `rkey`: remote memory.
    /// - `dir`: `DMA_TO_DEVICE` for an RDMA WRITE, `DMA_FROM_DEVICE` for an RDMA READ.
    ///
    /// Returns the number of work requests that [`rdma_rw_ctx_wrs`] will chain, or `-EINVAL`
    /// (bad direction, no list, more mapped entries than one MR takes, or an empty one), `-EAGAIN`
    /// (no MR left), `-ENOMEM`, or the error of the DMA layer or the device. After an error nothing
    /// is held and the context must not be destroyed.
    ///
    /// C header: [`include/rdma/rw.h`](srctree/include/rdma/rw.h).
    ///
    /// # Safety
    ///
    /// - `ctx` must be writable and must not move until it is destroyed.
    /// - `qp` and `sig_attrs` must be valid.
    /// - `sg` must be null or a list of at least `sg_cnt` entries, `prot_sg` one of at least
    ///   `prot_sg_cnt`, both as they are until the context is destroyed.
    unsafe fn rdma_rw_ctx_signature_init(
        ctx: *mut bindings::rdma_rw_ctx,
        qp: *mut bindings::ib_qp,
        port_num: u32,
        sg: *mut bindings::scatterlist,
        sg_cnt: u32,
        prot_sg: *mut bindings::scatterlist,
        prot_sg_cnt: u32,
        sig_attrs: *mut bindings::ib_sig_attrs,
        remote_addr: u64,
        rkey: u32,
        dir: bindings::dma_data_direction,
    ) -> c_int {
        from_result(|| {
            let dir = init_direction(dir)?;
            // SAFETY: The caller promises a list of `sg_cnt` entries, or null.
            let data = unsafe { SgSource::from_raw(sg, sg_cnt)? };
            let prot = if prot_sg_cnt != 0 {
                // SAFETY: The caller promises a list of `prot_sg_cnt` entries, or null.
                Some(unsafe { SgSource::from_raw(prot_sg, prot_sg_cnt)? })
            } else {
                None
            };
            // SAFETY: The caller promises valid attributes, or has none at all.
            let attrs = unsafe { sig_attrs.as_ref() }.ok_or(EINVAL)?;
            // SAFETY: The caller promises writable memory that stays in place.
            let slot = unsafe { Slot::from_raw(ctx) };
            // SAFETY: The caller promises a valid QP.
            let qp = unsafe { Qp::from_raw(qp) };
            let transfer = Transfer::new(qp, port_num, Remote::new(remote_addr, rkey), dir);

            transfer.init_signature(slot, data, prot, attrs)
        })
    }

    /// Chains the work requests of a context and says how its completion is heard of.
    ///
    /// Never sleeps. May be called again on the same context; each call sets the end of the chain
    /// anew. This is where MRs get a new key.
    ///
    /// - `ctx`: context made by one of the inits.
    /// - `qp`, `port_num`: as given to init.
    /// - `cqe`: completion entry for the last work request; ignored where `chain_wr` is given.
    /// - `chain_wr`: work request to go after those of the context, or null.
    ///
    /// Returns the first work request of the chain. Where both `cqe` and `chain_wr` are null there
    /// is one warning, and the chain ends unsignalled; where `ctx` is not a context there is one
    /// warning and `chain_wr` comes back alone.
    ///
    /// C header: [`include/rdma/rw.h`](srctree/include/rdma/rw.h).
    ///
    /// # Safety
    ///
    /// - `ctx` must have been made by an init of this API and not been destroyed since.
    /// - `qp` must be the QP of that init; `cqe` and `chain_wr` must be null or valid until the
    ///   chain has completed.
    unsafe fn rdma_rw_ctx_wrs(
        ctx: *mut bindings::rdma_rw_ctx,
        qp: *mut bindings::ib_qp,
        port_num: u32,
        cqe: *mut bindings::ib_cqe,
        chain_wr: *mut bindings::ib_send_wr,
    ) -> *mut bindings::ib_send_wr {
        // SAFETY: The caller promises a context.
        let wr = unsafe { Context::only_wr(ctx) };

        if let (Some(wr), Some(completion)) = (wr, Completion::from_raw(cqe, chain_wr)) {
            // SAFETY: The work request is that of the context.
            unsafe { completion.end_chain(wr) };
            return wr;
        }
        // SAFETY: By this function's own safety requirements.
        unsafe { wrs(ctx, qp, port_num, cqe, chain_wr) }
    }

    /// Posts a context's work requests to its QP.
    ///
    /// Never sleeps. A `chain_wr` goes after them. Where none is given, `cqe` must be, so that the
    /// caller hears of the completion.
    ///
    /// - `ctx`: context made by one of the inits.
    /// - `qp`, `port_num`: as given to init.
    /// - `cqe`: completion entry for the last work request; ignored where `chain_wr` is given.
    /// - `chain_wr`: work request to go after those of the context, or null.
    ///
    /// Returns 0, or `-EINVAL` with one warning and nothing posted where both `cqe` and `chain_wr`
    /// are null or `ctx` is not a context, or the device's error. After a device's error every MR
    /// is as its registration left it, so the context can be posted again or destroyed.
    ///
    /// C header: [`include/rdma/rw.h`](srctree/include/rdma/rw.h).
    ///
    /// # Safety
    ///
    /// As for [`rdma_rw_ctx_wrs`].
    unsafe fn rdma_rw_ctx_post(
        ctx: *mut bindings::rdma_rw_ctx,
        qp: *mut bindings::ib_qp,
        port_num: u32,
        cqe: *mut bindings::ib_cqe,
        chain_wr: *mut bindings::ib_send_wr,
    ) -> c_int {
        let _ = port_num;
        from_result(|| {
            let Some(completion) = Completion::from_raw(cqe, chain_wr) else {
                warn_on_once!(true);
                return Err(EINVAL);
            };
            // SAFETY: The caller promises a context.
            let mut ctx = unsafe { Context::from_raw(ctx) }.ok_or(EINVAL)?;
            // SAFETY: The caller promises a valid QP.
            let qp = unsafe { Qp::from_raw(qp) };

            ctx.post(qp, completion).map(|()| 0)
        })
    }

    /// Releases what [`rdma_rw_ctx_init`] took.
    ///
    /// Never sleeps.
    ///
    /// - `ctx`: context to release.
    /// - `qp`, `port_num`: as given to init.
    /// - `sg`, `sg_cnt`: as given to init, not the count of mapped entries.
    /// - `dir`: as given to init.
    ///
    /// C header: [`include/rdma/rw.h`](srctree/include/rdma/rw.h).
    ///
    /// # Safety
    ///
    /// - `ctx` must have been made by an init of this API and not been destroyed since, and the
    ///   device must be done with it.
    /// - `qp`, `sg` and `sg_cnt` must be those of that init.
    unsafe fn rdma_rw_ctx_destroy(
        ctx: *mut bindings::rdma_rw_ctx,
        qp: *mut bindings::ib_qp,
        port_num: u32,
        sg: *mut bindings::scatterlist,
        sg_cnt: u32,
        dir: bindings::dma_data_direction,
    ) {
        // SAFETY: The caller promises a context that the device is done with, and its QP.
        unsafe {
            if Context::release_sg_at_once(ctx, Qp::from_raw(qp), (sg, sg_cnt), dir) {
                return;
            }
            if Context::is_one_reg_of_list(ctx) {
                if let Some(way) = Direction::from_raw(dir) {
                    return destroy_one_reg(ctx, qp, port_num, sg, sg_cnt, way);
                }
            }
            destroy(ctx, qp, port_num, sg, sg_cnt, dir);
        }
    }

    /// Releases what [`rdma_rw_ctx_init_bvec`] took.
    ///
    /// Never sleeps. The context itself knows its mappings, so the array is not looked at.
    ///
    /// - `ctx`: context to release.
    /// - `qp`, `port_num`: as given to init.
    /// - `bvecs`, `nr_bvec`: as given to init.
    /// - `dir`: as given to init.
    ///
    /// C header: [`include/rdma/rw.h`](srctree/include/rdma/rw.h).
    ///
    /// # Safety
    ///
    /// - `ctx` must have been made by an init of this API and not been destroyed since, and the
    ///   device must be done with it.
    /// - `qp` and `nr_bvec` must be those of that init.
    unsafe fn rdma_rw_ctx_destroy_bvec(
        ctx: *mut bindings::rdma_rw_ctx,
        qp: *mut bindings::ib_qp,
        port_num: u32,
        bvecs: *const bindings::bio_vec,
        nr_bvec: u32,
        dir: bindings::dma_data_direction,
    ) {
        // SAFETY: The caller promises a context that the device is done with, and its QP.
        unsafe {
            if Context::release_bvec_at_once(ctx, Qp::from_raw(qp), dir) {
                return;
            }
            destroy_bvec(ctx, qp, port_num, bvecs, nr_bvec, dir);
        }
    }

    /// Releases what [`rdma_rw_ctx_signature_init`] took.
    ///
    /// Never sleeps.
    ///
    /// - `ctx`: context to release.
    /// - `qp`, `port_num`: as given to init.
    /// - `sg`, `sg_cnt`, `prot_sg`, `prot_sg_cnt`: as given to init.
    /// - `dir`: as given to init.
    ///
    /// C header: [`include/rdma/rw.h`](srctree/include/rdma/rw.h).
    ///
    /// # Safety
    ///
    /// - `ctx` must have been made by an init of this API and not been destroyed since, and the
    ///   device must be done with it.
    /// - `qp`, `sg`, `sg_cnt`, `prot_sg` and `prot_sg_cnt` must be those of that init.
    unsafe fn rdma_rw_ctx_destroy_signature(
        ctx: *mut bindings::rdma_rw_ctx,
        qp: *mut bindings::ib_qp,
        port_num: u32,
        sg: *mut bindings::scatterlist,
        sg_cnt: u32,
        prot_sg: *mut bindings::scatterlist,
        prot_sg_cnt: u32,
        dir: bindings::dma_data_direction,
    ) {
        let _ = port_num;
        // SAFETY: The caller promises a context that the device is done with, and its QP.
        if let (Some(ctx), qp) = unsafe { (Context::from_raw(ctx), Qp::from_raw(qp)) } {
            let dir = destroy_direction(&ctx, dir);
            // SAFETY: The caller promises the lists of the context's init.
            unsafe { ctx.destroy_signature(qp, (sg, sg_cnt), (prot_sg, prot_sg_cnt), dir) };
        }
    }

    /// Number of MRs that a payload of `maxpages` pages takes, or of work requests where the
    /// device needs no MRs.
    ///
    /// C header: [`include/rdma/rw.h`](srctree/include/rdma/rw.h).
    ///
    /// # Safety
    ///
    /// `device` must be valid.
    unsafe fn rdma_rw_mr_factor(
        device: *mut bindings::ib_device,
        port_num: u32,
        maxpages: u32,
    ) -> u32 {
        // SAFETY: The caller promises a valid device.
        sizing::mr_factor(unsafe { Device::from_raw(device) }, port_num, maxpages)
    }

    /// Number of send queue entries that `max_rdma_ctxs` contexts take, registration and
    /// invalidation included where the device or the QP's `create_flags` call for them.
    ///
    /// `UINT_MAX` where the number does not fit.
    ///
    /// C header: [`include/rdma/rw.h`](srctree/include/rdma/rw.h).
    ///
    /// # Safety
    ///
    /// `dev` must be valid.
    unsafe fn rdma_rw_max_send_wr(
        dev: *mut bindings::ib_device,
        port_num: u32,
        max_rdma_ctxs: u32,
        create_flags: u32,
    ) -> u32 {
        // SAFETY: The caller promises a valid device.
        let device = unsafe { Device::from_raw(dev) };

        sizing::max_send_wr(device, port_num, max_rdma_ctxs, create_flags)
    }

    /// Enlarges the send queue that a QP is about to be created with by what its contexts need.
    ///
    /// For ib_core's QP creation alone. `attr->cap.max_send_wr` is raised, up to what the device
    /// offers.
    ///
    /// C header: [`include/rdma/rw.h`](srctree/include/rdma/rw.h).
    ///
    /// # Safety
    ///
    /// `dev` must be valid, and `attr` valid and not in use elsewhere.
    unsafe fn rdma_rw_init_qp(
        dev: *mut bindings::ib_device,
        attr: *mut bindings::ib_qp_init_attr,
    ) {
        // SAFETY: The caller promises a valid device, and attributes that are its own.
        unsafe { sizing::init_qp(Device::from_raw(dev), &mut *attr) }
    }

    /// Fills the MR pools of a QP that has just been created.
    ///
    /// For ib_core's QP creation alone. May sleep. Returns 0, or the device's error with both
    /// pools empty.
    ///
    /// C header: [`include/rdma/rw.h`](srctree/include/rdma/rw.h).
    ///
    /// # Safety
    ///
    /// `qp` and `attr` must be valid.
    unsafe fn rdma_rw_init_mrs(
        qp: *mut bindings::ib_qp,
        attr: *mut bindings::ib_qp_init_attr,
    ) -> c_int {
        // SAFETY: The caller promises a valid QP and valid attributes.
        from_result(|| unsafe { mr_pools::fill(Qp::from_raw(qp), &*attr) }.map(|()| 0))
    }

    /// Empties the MR pools of a QP that is about to be destroyed.
    ///
    /// For ib_core's QP destruction alone. May sleep. Pools that are empty already stay so.
    ///
    /// C header: [`include/rdma/rw.h`](srctree/include/rdma/rw.h).
    ///
    /// # Safety
    ///
    /// `qp` must be valid, and no context of it may be alive.
    unsafe fn rdma_rw_cleanup_mrs(qp: *mut bindings::ib_qp) {
        // SAFETY: The caller promises a valid QP.
        mr_pools::empty(unsafe { Qp::from_raw(qp) });
    }
}
