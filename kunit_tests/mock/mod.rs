// SPDX-License-Identifier: GPL-2.0

//! An RDMA device for tests.
//!
//! It is registered with ib_core like any other and used through the verbs. What is posted to it,
//! it carries out as hardware would: it checks keys, access flags and bounds, and moves the bytes
//! between local memory and a buffer that stands for the remote side. What hardware would reject
//! is a [fault](Mock::take_faults) that fails the test. It also counts what it is asked for, and
//! fails where the test [plans](Plan) it.
//!
//! ```text
//! let mock = Mock::new(Profile::RXE)?;            // registered; taken down on drop
//! mock.plan(|plan| plan.map = Some((2, ENOMEM))); // the second mapping from now on fails
//! let counts = mock.counts();
//! ```

mod dma;
mod engine;
mod memory;
mod verbs;

use core::cell::Cell;
use core::ops::{
    Deref,
    DerefMut, //
};
use core::pin::Pin;
use core::ptr::{
    self,
    NonNull, //
};

use kernel::error::to_result;
use kernel::prelude::*;
use kernel::str::CStrExt;
use kernel::sync::{
    new_spinlock,
    SpinLock,
    SpinLockGuard, //
};
use kernel::types::NotThreadSafe;

use crate::bindings;

pub(crate) use self::{
    dma::Mapping,
    engine::{
        Completed,
        REMOTE_ADDR,
        REMOTE_KEY, //
    },
    memory::{
        pattern,
        Pages, //
    },
};

/// Page size of this kernel.
pub(crate) const PAGE: u32 = kernel::page::PAGE_SIZE as u32;

/// Key by which all local memory can be named.
pub(crate) const LOCAL_DMA_LKEY: u32 = 0x42;

/// Bit that tells the remote key of an MR from its local one: a device may number them apart.
pub(crate) const MR_RKEY: u32 = 1 << 31;

/// How a device does its DMA.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Dma {
    /// Not at all: it works with kernel addresses.
    Virtual,
    /// Through DMA operations of ours, which know all mappings. Whether adjacent pieces become one
    /// entry, as behind an IOMMU.
    Ours { coalesce: bool },
    /// By physical addresses, without an IOMMU.
    Direct,
    /// Through the IOMMU in front of a real PCI function.
    Pci,
    /// The same, but local memory is that of a PCI function, at its address on the bus: of the
    /// device's own, or of another to which there is no way.
    Peer { own: bool },
}

/// What a device is like.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Profile {
    /// iWARP rather than InfiniBand or RoCE.
    pub(crate) iwarp: bool,
    /// `max_send_sge`.
    pub(crate) max_sge: u32,
    /// `max_sge_rd`.
    pub(crate) max_sge_rd: u32,
    /// `max_sgl_rd`.
    pub(crate) max_sgl_rd: u32,
    /// `max_fast_reg_page_list_len`.
    pub(crate) mr_pages: u32,
    /// `max_pi_fast_reg_page_list_len`.
    pub(crate) pi_pages: u32,
    /// `max_qp_wr`.
    pub(crate) max_qp_wr: u32,
    /// The way of its DMA.
    pub(crate) dma: Dma,
}

impl Profile {
    /// Like rxe.
    pub(crate) const RXE: Self = Self {
        iwarp: false,
        max_sge: 32,
        max_sge_rd: 32,
        max_sgl_rd: 0,
        mr_pages: 512,
        pi_pages: 0,
        max_qp_wr: 1 << 20,
        dma: Dma::Virtual,
    };

    /// Like siw.
    pub(crate) const SIW: Self = Self {
        iwarp: true,
        max_sge: 6,
        max_sge_rd: 1,
        max_sgl_rd: 0,
        mr_pages: 256,
        pi_pages: 0,
        max_qp_wr: 1 << 15,
        dma: Dma::Virtual,
    };

    /// Like mlx5, whose READs are better registered where they have many entries.
    pub(crate) const MLX5: Self = Self {
        iwarp: false,
        max_sge: 30,
        max_sge_rd: 30,
        max_sgl_rd: 16,
        mr_pages: 65536,
        pi_pages: 128,
        max_qp_wr: 1 << 15,
        dma: Dma::Virtual,
    };

    /// The same with another way of DMA.
    pub(crate) const fn dma(mut self, dma: Dma) -> Self {
        self.dma = dma;
        self
    }

    /// The same with another number of pages an MR takes.
    pub(crate) const fn mr_pages(mut self, pages: u32) -> Self {
        self.mr_pages = pages;
        self
    }

    /// The same with another `max_sgl_rd`.
    pub(crate) const fn max_sgl_rd(mut self, max: u32) -> Self {
        self.max_sgl_rd = max;
        self
    }

    /// The same with another `max_sge_rd`.
    pub(crate) const fn max_sge_rd(mut self, max: u32) -> Self {
        self.max_sge_rd = max;
        self
    }

    /// The same with another number of pages an MR with protection information takes.
    pub(crate) const fn pi_pages(mut self, pages: u32) -> Self {
        self.pi_pages = pages;
        self
    }

    /// The same with another largest send queue.
    pub(crate) const fn max_qp_wr(mut self, max: u32) -> Self {
        self.max_qp_wr = max;
        self
    }
}

/// What the device has been asked for and has done.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub(crate) struct Counts {
    /// Mappings of single pieces.
    pub(crate) map_phys: u32,
    /// And their ends.
    pub(crate) unmap_phys: u32,
    /// Mappings of lists.
    pub(crate) map_sg: u32,
    /// And their ends.
    pub(crate) unmap_sg: u32,
    /// Lists mapped into MRs.
    pub(crate) map_mr: u32,
    /// Calls of `post_send`.
    pub(crate) posts: u32,
    /// Work requests carried out.
    pub(crate) wrs: u32,
    /// Of these, registrations.
    pub(crate) regs: u32,
    /// Invalidations, on their own or with a READ.
    pub(crate) invs: u32,
    /// Of these, RDMA READs, with an invalidation or without.
    pub(crate) reads: u32,
    /// Of these, RDMA WRITEs.
    pub(crate) writes: u32,
    /// Of these, SENDs.
    pub(crate) sends: u32,
    /// Bytes moved by READs and WRITEs.
    pub(crate) bytes: u64,
}

/// How `map_mr_sg` is to fail.
#[derive(Clone, Copy, Debug)]
pub(crate) enum BadMap {
    /// By taking so many entries.
    Short(i32),
    /// With an error.
    Error(Error),
}

/// Calls that are to fail. Each count starts with the next call, which is 1.
#[derive(Clone, Copy, Default)]
pub(crate) struct Plan {
    /// The DMA mapping, of a piece or a list, and its error; a piece has none.
    pub(crate) map: Option<(u32, Error)>,
    /// The list mapped into an MR.
    pub(crate) map_mr: Option<(u32, BadMap)>,
    /// The MR allocated.
    pub(crate) alloc_mr: Option<(u32, Error)>,
    /// Work requests that a post still takes; the next is refused.
    pub(crate) post_after: Option<u32>,
    /// Refuses QPs, after having looked at what is asked for.
    pub(crate) create_qp: bool,
}

/// Counts a planned failure down; the error where it is its turn.
fn due<T: Copy>(plan: &mut Option<(u32, T)>) -> Option<T> {
    match plan {
        Some((1, what)) => {
            let what = *what;
            *plan = None;
            Some(what)
        }
        Some((n, _)) => {
            *n = n.wrapping_sub(1);
            None
        }
        None => None,
    }
}

/// Something hardware would not have done.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fault {
    /// What.
    pub(crate) what: &'static str,
    /// Key, address or the like.
    pub(crate) value: u64,
}

/// What changes in the life of a device.
struct State {
    counts: Counts,
    plan: Plan,
    faults: KVec<Fault>,
    nr_faults: usize,
    mappings: KVVec<Mapping>,
    next_iova: u64,
    regions: KVVec<memory::Region>,
    remote: KVVec<u64>,
    mrs: KVVec<NonNull<verbs::RawMr>>,
    next_mr: u32,
    completed: KVVec<Completed>,
    inv_of_sge: bool,
    qp_caps: bindings::ib_qp_cap,
}

/// Elements that fit into the arrays of [`State`], which never grow: a device does not allocate
/// memory while it works.
const CAPACITY: usize = 8192;

impl State {
    fn new() -> Result<Self> {
        Ok(Self {
            counts: Counts::default(),
            plan: Plan::default(),
            faults: KVec::with_capacity(64, GFP_KERNEL)?,
            nr_faults: 0,
            mappings: KVVec::with_capacity(CAPACITY, GFP_KERNEL)?,
            next_iova: 0x5_0000_0000,
            regions: KVVec::with_capacity(CAPACITY, GFP_KERNEL)?,
            remote: KVVec::new(),
            mrs: KVVec::with_capacity(CAPACITY, GFP_KERNEL)?,
            next_mr: 1,
            completed: KVVec::with_capacity(CAPACITY, GFP_KERNEL)?,
            inv_of_sge: false,
            qp_caps: bindings::ib_qp_cap {
                max_send_wr: 0,
                max_recv_wr: 0,
                max_send_sge: 0,
                max_recv_sge: 0,
                max_inline_data: 0,
                max_rdma_ctxs: 0,
            },
        })
    }

    /// Notes something that must not happen.
    fn fault(&mut self, what: &'static str, value: u64) {
        self.nr_faults = self.nr_faults.saturating_add(1);
        // The first ones say enough.
        let _ = self.faults.push_within_capacity(Fault { what, value });
    }
}

/// The part of a device that callbacks of the kernel find.
#[pin_data]
struct Inner {
    profile: Profile,
    dma_device: Cell<*mut bindings::device>,
    #[pin]
    state: SpinLock<State>,
}

impl Inner {
    /// Locks the state, which a softirq on this processor is not to want meanwhile.
    fn lock(&self) -> Locked<'_> {
        let no_softirqs = NoSoftirqs::new();

        Locked {
            state: self.state.lock(),
            _no_softirqs: no_softirqs,
        }
    }
}

/// The state of a device, locked.
struct Locked<'a> {
    // Unlocked first.
    state: SpinLockGuard<'a, State>,
    _no_softirqs: NoSoftirqs,
}

impl Deref for Locked<'_> {
    type Target = State;

    fn deref(&self) -> &State {
        &self.state
    }
}

impl DerefMut for Locked<'_> {
    fn deref_mut(&mut self) -> &mut State {
        &mut self.state
    }
}

/// No softirq runs on this processor.
struct NoSoftirqs(NotThreadSafe);

impl NoSoftirqs {
    fn new() -> Self {
        // SAFETY: What is begun is ended by the drop, on the same processor.
        unsafe { bindings::rdma_rw_kunit_bh_disable() };
        Self(NotThreadSafe)
    }
}

impl Drop for NoSoftirqs {
    fn drop(&mut self) {
        // SAFETY: It was begun.
        unsafe { bindings::rdma_rw_kunit_bh_enable() };
    }
}

/// A registered device.
pub(crate) struct Mock {
    raw: NonNull<bindings::ib_device>,
    dma_ops: KBox<bindings::dma_map_ops>,
    inner: Pin<KBox<Inner>>,
}

impl Mock {
    /// Registers a device.
    ///
    /// # Errors
    ///
    /// `EOPNOTSUPP` where this kernel or machine has no such DMA, else the error of the kernel.
    pub(crate) fn new(profile: Profile) -> Result<Self> {
        let state = State::new()?;
        let inner = KBox::pin_init(
            pin_init!(Inner {
                profile,
                dma_device: Cell::new(ptr::null_mut()),
                state <- new_spinlock!(state),
            }? Error),
            GFP_KERNEL,
        )?;
        let dma_ops = dma::ops()?;
        let dma_device = match profile.dma {
            Dma::Virtual => None,
            // SAFETY: The operations and the state live as long as the device.
            Dma::Ours { .. } => Some(unsafe {
                bindings::rdma_rw_kunit_dma_device(
                    &raw const *dma_ops,
                    ptr::from_ref::<Inner>(&inner).cast_mut().cast(),
                )
            }),
            Dma::Direct => {
                // SAFETY: There is nothing to be kept.
                Some(unsafe { bindings::rdma_rw_kunit_dma_device(ptr::null(), ptr::null_mut()) })
            }
            // SAFETY: There is nothing to be kept.
            Dma::Pci => Some(unsafe { bindings::rdma_rw_kunit_pci_device() }),
            // SAFETY: There is nothing to be kept.
            Dma::Peer { own } => Some(unsafe { bindings::rdma_rw_kunit_peer_device(own) }),
        };
        let dma_device = match dma_device.map(kernel::error::from_err_ptr) {
            None => ptr::null_mut(),
            Some(Ok(dev)) if dev.is_null() => return Err(EOPNOTSUPP),
            Some(dev) => dev?,
        };

        inner.dma_device.set(dma_device);
        match verbs::register(&inner, dma_device) {
            Ok(raw) => Ok(Self {
                raw,
                dma_ops,
                inner,
            }),
            Err(e) => {
                put_dma_device(dma_device);
                Err(e)
            }
        }
    }

    /// The device as C takes it.
    pub(crate) fn as_raw(&self) -> *mut bindings::ib_device {
        self.raw.as_ptr()
    }

    /// What it has done so far.
    pub(crate) fn counts(&self) -> Counts {
        self.inner.lock().counts
    }

    /// Number of DMA mappings that exist; known for DMA of ours alone.
    pub(crate) fn live_mappings(&self) -> usize {
        self.inner.lock().mappings.len()
    }

    /// Number of MRs that exist.
    pub(crate) fn nr_mrs(&self) -> usize {
        self.inner.lock().mrs.len()
    }

    /// Changes what is to fail from now on.
    pub(crate) fn plan(&self, change: impl FnOnce(&mut Plan)) {
        change(&mut self.inner.lock().plan);
    }

    /// Forgets all plans.
    pub(crate) fn clear_plan(&self) {
        self.plan(|plan| *plan = Plan::default());
    }

    /// Lets a READ_WITH_INV invalidate the key of its SGE and not look at the one it names, as siw
    /// does.
    pub(crate) fn invalidate_by_sge(&self, yes: bool) {
        self.inner.lock().inv_of_sge = yes;
    }

    /// What the last QP that was created asked for.
    pub(crate) fn qp_caps(&self) -> bindings::ib_qp_cap {
        self.inner.lock().qp_caps
    }

    /// What hardware would not have done, since this was asked the last time.
    pub(crate) fn take_faults(&self) -> (usize, Option<Fault>) {
        let mut state = self.inner.lock();
        let faults = (state.nr_faults, state.faults.first().copied());

        state.nr_faults = 0;
        state.faults.clear();
        faults
    }

    /// The completions since this was asked the last time.
    pub(crate) fn take_completed(&self) -> Result<KVVec<Completed>> {
        let empty = KVVec::with_capacity(CAPACITY, GFP_KERNEL)?;

        Ok(core::mem::replace(&mut self.inner.lock().completed, empty))
    }

    /// Makes the remote buffer `len` bytes long and fills it with a pattern.
    pub(crate) fn fill_remote(&self, len: usize, seed: u64) -> Result {
        let mut remote = KVVec::with_capacity(len.div_ceil(8), GFP_KERNEL)?;

        for i in 0..len.div_ceil(8) {
            remote.push(pattern(seed, i as u64), GFP_KERNEL)?;
        }
        let old = core::mem::replace(&mut self.inner.lock().remote, remote);
        // Not under the lock.
        drop(old);
        Ok(())
    }

    /// The remote buffer, as it is.
    pub(crate) fn with_remote<T>(&self, look: impl FnOnce(&[u8]) -> T) -> T {
        let state = self.inner.lock();

        look(engine::bytes(&state.remote))
    }
}

impl Drop for Mock {
    fn drop(&mut self) {
        verbs::unregister(self.raw);
        put_dma_device(self.inner.dma_device.get());
        let _ = &self.dma_ops;
    }
}

/// Gives back what a device did its DMA through, if anything.
fn put_dma_device(dma_device: *mut bindings::device) {
    if !dma_device.is_null() {
        // SAFETY: It was taken when the device was made.
        unsafe { bindings::rdma_rw_kunit_put_dma_device(dma_device) };
    }
}

/// The name that devices get, with a number.
fn name() -> *const c_char {
    c"rdma_rw_kunit%d".as_char_ptr()
}

/// The result of a C function.
fn check(ret: c_int) -> Result {
    to_result(ret)
}
