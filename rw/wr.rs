// SPDX-License-Identifier: GPL-2.0

//! Work requests as C has them.

use core::ptr;

use super::{
    transfer::Remote,
    Direction, //
};
use crate::bindings;

/// Opcode of an RDMA READ or WRITE.
#[inline(always)]
pub(super) fn opcode(dir: Direction) -> bindings::ib_wr_opcode {
    /// From the one to the other.
    const APART: bindings::ib_wr_opcode = bindings::ib_wr_opcode_IB_WR_RDMA_READ
        .wrapping_sub(bindings::ib_wr_opcode_IB_WR_RDMA_WRITE);

    bindings::ib_wr_opcode_IB_WR_RDMA_WRITE.wrapping_add(dir.nth().wrapping_mul(APART))
}

/// An RDMA READ or WRITE over some SGEs, neither linked nor signalled.
#[inline(always)]
pub(super) fn rdma_wr(
    dir: Direction,
    remote: Remote,
    sges: *mut bindings::ib_sge,
    nr_sges: u32,
) -> bindings::ib_rdma_wr {
    bindings::ib_rdma_wr {
        wr: bindings::ib_send_wr {
            next: ptr::null_mut(),
            __bindgen_anon_1: bindings::ib_send_wr__bindgen_ty_1 {
                wr_cqe: ptr::null_mut(),
            },
            sg_list: sges,
            // CAST: A QP's limit of SGEs is a small number.
            num_sge: nr_sges as i32,
            opcode: opcode(dir),
            send_flags: 0,
            ex: bindings::ib_send_wr__bindgen_ty_2 { invalidate_rkey: 0 },
        },
        remote_addr: remote.addr,
        rkey: remote.rkey,
    }
}
