// SPDX-License-Identifier: GPL-2.0

//! The transfer engine behind the C ABI.
//!
//! A [`Transfer`] says what is to be moved over which QP. One of its inits, given local memory
//! (an [`SgSource`] or a [`BvecSource`]) and a [`Slot`] to write to, chooses a path and leaves a
//! [`Context`] behind. A context is chained or posted with a [`Completion`] and ends in the destroy
//! of the form it was made in.
//!
//! | Path | Module | Work requests |
//! |---|---|---|
//! | one SGE | [`single`] | 1 |
//! | SGEs of as many as the QP takes | [`multi`] | one per full set of SGEs |
//! | memory registration | [`registered`] | invalidate, register and transfer, per MR |
//! | one IOVA range | [`iova`] | 1 |
//! | registration with protection information | [`signature`] | invalidate, register, transfer |
//!
//! Whatever is acquired on the way (a DMA mapping, an MR, an allocation) is held by a guard whose
//! drop gives it back. An init forgets its guards as its very last step.

mod bvec;
mod count;
mod ctx;
mod device;
mod dma;
mod iova;
mod memory;
mod mr;
pub(crate) mod mr_pools;
mod multi;
mod pages;
mod registered;
mod sgl;
mod signature;
pub(crate) mod sizing;
mod transfer;
mod warn;
mod wr;

pub(crate) use self::{
    bvec::BvecSource,
    ctx::{
        Completion,
        Context,
        Slot, //
    },
    device::{
        Device,
        Direction,
        Qp, //
    },
    sgl::SgSource,
    transfer::{
        Remote,
        Transfer, //
    },
    warn::{
        warn_on_once,
        warn_once, //
    }, //
};
