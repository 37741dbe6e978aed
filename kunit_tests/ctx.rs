// SPDX-License-Identifier: GPL-2.0

//! A context of the API under test, and the work requests that it chains.

use core::ptr;
use core::slice;

use kernel::error::to_result;
use kernel::prelude::*;
use kernel::sync::atomic::{
    Atomic,
    Relaxed, //
};

use crate::api::{
    Api,
    EXPORTED, //
};
use crate::bindings;
use crate::lists::SgList;
use crate::mock::REMOTE_KEY;
use crate::rig::Qp;

/// Direction of a transfer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Dir {
    /// RDMA WRITE.
    Write,
    /// RDMA READ.
    Read,
}

impl Dir {
    /// The direction as C takes it.
    pub(crate) fn as_raw(self) -> bindings::dma_data_direction {
        match self {
            Self::Write => bindings::dma_data_direction_DMA_TO_DEVICE,
            Self::Read => bindings::dma_data_direction_DMA_FROM_DEVICE,
        }
    }
}

/// Tag of a context.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Tag {
    /// One SGE.
    Single,
    /// SGEs.
    Multi,
    /// MRs.
    Mr,
    /// An MR with protection information.
    Signature,
    /// A range of IOVA space.
    Iova,
    /// None of these.
    Unknown,
}

/// Contexts made so far, by tag.
pub(crate) static PATHS: [Atomic<u32>; 5] = [const { Atomic::new(0) }; 5];

/// What a context was made of.
enum Made {
    Nothing,
    Sg(*mut bindings::scatterlist, u32),
    Bvec(*const bindings::bio_vec, u32),
    Signature(
        (*mut bindings::scatterlist, u32),
        (*mut bindings::scatterlist, u32),
    ),
}

/// A context; destroyed on drop and before another init, if it was made.
pub(crate) struct Ctx<'a> {
    api: &'static Api,
    raw: KBox<bindings::rdma_rw_ctx>,
    qp: &'a Qp,
    dir: Dir,
    made: Made,
    /// Key of the remote memory.
    pub(crate) rkey: u32,
}

impl<'a> Ctx<'a> {
    /// Memory for a context of the functions that ib_core exports, filled with nonsense.
    pub(crate) fn new(qp: &'a Qp) -> Result<Self> {
        Self::of(&EXPORTED, qp)
    }

    /// Memory for a context of some functions, filled with nonsense.
    pub(crate) fn of(api: &'static Api, qp: &'a Qp) -> Result<Self> {
        // SAFETY: All members are pointers and numbers.
        let mut raw: KBox<bindings::rdma_rw_ctx> =
            unsafe { KBox::new(core::mem::zeroed(), GFP_KERNEL)? };

        // SAFETY: As above; nobody looks at them before they are written.
        unsafe { (&raw mut *raw).write_bytes(0xa5, 1) };
        Ok(Self {
            api,
            raw,
            qp,
            dir: Dir::Write,
            made: Made::Nothing,
            rkey: REMOTE_KEY,
        })
    }

    /// Goes on with other functions, in the same memory.
    pub(crate) fn turn_to(&mut self, api: &'static Api) {
        self.api = api;
    }

    /// The context as C takes it.
    pub(crate) fn as_raw(&mut self) -> *mut bindings::rdma_rw_ctx {
        &raw mut *self.raw
    }

    /// Notes how an init has ended.
    fn inited(&mut self, ret: c_int, dir: Dir, made: Made) -> Result<u32> {
        if ret < 0 {
            return Err(Error::from_errno(ret));
        }

        self.dir = dir;
        self.made = made;
        if let Some(path) = PATHS.get(self.raw.type_ as usize) {
            path.add(1, Relaxed);
        }
        // CAST: Not negative.
        Ok(ret as u32)
    }

    /// `rdma_rw_ctx_init`.
    pub(crate) fn init(
        &mut self,
        list: &SgList,
        offset: u32,
        remote: u64,
        dir: Dir,
    ) -> Result<u32> {
        let (sg, cnt) = (list.as_raw(), list.nents());
        self.destroy();
        let rkey = self.rkey;
        // SAFETY: Everything is valid, and stays so until the context is destroyed.
        let ret = unsafe {
            (self.api.init)(
                self.as_raw(),
                self.qp.as_raw(),
                1,
                sg,
                cnt,
                offset,
                remote,
                rkey,
                dir.as_raw(),
            )
        };

        self.inited(ret, dir, Made::Sg(sg, cnt))
    }

    /// `rdma_rw_ctx_init_bvec`.
    pub(crate) fn init_bvec(
        &mut self,
        bvecs: &[bindings::bio_vec],
        iter: bindings::bvec_iter,
        remote: u64,
        dir: Dir,
    ) -> Result<u32> {
        // CAST: Arrays of tests are short.
        self.init_bvec_nr(bvecs, bvecs.len() as u32, iter, remote, dir)
    }

    /// `rdma_rw_ctx_init_bvec`, with a number of entries that need not be the array's.
    pub(crate) fn init_bvec_nr(
        &mut self,
        bvecs: &[bindings::bio_vec],
        nr: u32,
        iter: bindings::bvec_iter,
        remote: u64,
        dir: Dir,
    ) -> Result<u32> {
        self.destroy();
        let rkey = self.rkey;
        // SAFETY: Everything is valid, and stays so until the context is destroyed.
        let ret = unsafe {
            (self.api.init_bvec)(
                self.as_raw(),
                self.qp.as_raw(),
                1,
                bvecs.as_ptr(),
                nr,
                iter,
                remote,
                rkey,
                dir.as_raw(),
            )
        };

        self.inited(ret, dir, Made::Bvec(bvecs.as_ptr(), nr))
    }

    /// `rdma_rw_ctx_signature_init`.
    pub(crate) fn init_signature(
        &mut self,
        data: &SgList,
        prot: Option<&SgList>,
        attrs: &mut bindings::ib_sig_attrs,
        remote: u64,
        dir: Dir,
    ) -> Result<u32> {
        let data = (data.as_raw(), data.nents());
        let prot = prot.map_or((ptr::null_mut(), 0), |prot| (prot.as_raw(), prot.nents()));
        self.destroy();
        let rkey = self.rkey;
        // SAFETY: Everything is valid, and stays so until the context is destroyed.
        let ret = unsafe {
            (self.api.signature_init)(
                self.as_raw(),
                self.qp.as_raw(),
                1,
                data.0,
                data.1,
                prot.0,
                prot.1,
                attrs,
                remote,
                rkey,
                dir.as_raw(),
            )
        };

        self.inited(ret, dir, Made::Signature(data, prot))
    }

    /// `rdma_rw_ctx_wrs`, where it may not sleep.
    pub(crate) fn wrs(
        &mut self,
        cqe: *mut bindings::ib_cqe,
        chain: *mut bindings::ib_send_wr,
    ) -> *mut bindings::ib_send_wr {
        let (api, qp) = (self.api, self.qp.as_raw());

        // SAFETY: The context was made; what it is called with is valid.
        atomically(|| unsafe { (api.wrs)(self.as_raw(), qp, 1, cqe, chain) })
    }

    /// `rdma_rw_ctx_post`, where it may not sleep.
    pub(crate) fn post(
        &mut self,
        cqe: *mut bindings::ib_cqe,
        chain: *mut bindings::ib_send_wr,
    ) -> Result {
        let (api, qp) = (self.api, self.qp.as_raw());

        // SAFETY: The context was made; what it is called with is valid.
        to_result(atomically(|| unsafe {
            (api.post)(self.as_raw(), qp, 1, cqe, chain)
        }))
    }

    /// The destroy that belongs to its init, where it may not sleep.
    pub(crate) fn destroy(&mut self) {
        let (api, qp, dir) = (self.api, self.qp.as_raw(), self.dir.as_raw());
        let made = core::mem::replace(&mut self.made, Made::Nothing);

        // SAFETY: The context was made of this; the device carries out at once what is posted.
        atomically(|| unsafe {
            match made {
                Made::Nothing => {}
                Made::Sg(sg, cnt) => (api.destroy)(self.as_raw(), qp, 1, sg, cnt, dir),
                Made::Bvec(bvecs, nr) => (api.destroy_bvec)(self.as_raw(), qp, 1, bvecs, nr, dir),
                Made::Signature((sg, cnt), (prot, prot_cnt)) => {
                    (api.destroy_signature)(self.as_raw(), qp, 1, sg, cnt, prot, prot_cnt, dir)
                }
            }
        });
    }

    /// Lets the test itself destroy the context, by whatever function it likes.
    pub(crate) fn disown(&mut self) -> *mut bindings::rdma_rw_ctx {
        self.made = Made::Nothing;
        self.as_raw()
    }

    /// Its tag.
    pub(crate) fn tag(&self) -> Tag {
        match self.raw.type_ {
            0 => Tag::Single,
            1 => Tag::Multi,
            2 => Tag::Mr,
            3 => Tag::Signature,
            4 => Tag::Iova,
            _ => Tag::Unknown,
        }
    }

    /// Its number of operations.
    pub(crate) fn nr_ops(&self) -> u32 {
        self.raw.nr_ops
    }

    /// The MR of one of its registrations.
    pub(crate) fn mr(&self, i: u32) -> *mut bindings::ib_mr {
        match self.tag() {
            // SAFETY: The tag says that this is the member in use, with so many elements.
            Tag::Mr | Tag::Signature if i < self.nr_ops() => unsafe {
                (*self.raw.__bindgen_anon_1.reg.add(i as usize)).mr
            },
            _ => ptr::null_mut(),
        }
    }
}

impl Drop for Ctx<'_> {
    fn drop(&mut self) {
        self.destroy();
    }
}

/// Runs code where it may not sleep.
pub(crate) fn atomically<T>(body: impl FnOnce() -> T) -> T {
    // SAFETY: What is begun is ended.
    unsafe {
        bindings::rdma_rw_kunit_bh_disable();
        let result = body();

        bindings::rdma_rw_kunit_bh_enable();
        result
    }
}

/// Runs code in a softirq, where drivers complete requests, and waits for it.
pub(crate) fn in_softirq<F: FnMut()>(mut body: F) {
    /// # Safety
    ///
    /// `data` must be the code, which nobody else uses.
    unsafe extern "C" fn run<F: FnMut()>(data: *mut c_void) {
        // SAFETY: By this function's safety requirement.
        unsafe { (*data.cast::<F>())() }
    }

    // SAFETY: It returns when the code has run.
    unsafe { bindings::rdma_rw_kunit_in_softirq(Some(run::<F>), (&raw mut body).cast()) };
}

/// A work request of a chain.
#[derive(Clone, Copy)]
pub(crate) struct Wr<'a>(&'a bindings::ib_send_wr);

impl<'a> Wr<'a> {
    /// Its opcode.
    pub(crate) fn opcode(&self) -> bindings::ib_wr_opcode {
        self.0.opcode
    }

    /// Whether it reads or writes remote memory.
    pub(crate) fn is_rdma(&self) -> bool {
        matches!(
            self.opcode(),
            bindings::ib_wr_opcode_IB_WR_RDMA_WRITE
                | bindings::ib_wr_opcode_IB_WR_RDMA_READ
                | bindings::ib_wr_opcode_IB_WR_RDMA_READ_WITH_INV
        )
    }

    /// Whether its completion is heard of.
    pub(crate) fn signalled(&self) -> bool {
        self.0.send_flags & bindings::ib_send_flags_IB_SEND_SIGNALED as c_int != 0
    }

    /// Its completion entry.
    pub(crate) fn cqe(&self) -> *mut bindings::ib_cqe {
        // SAFETY: Both members of the union are as wide.
        unsafe { self.0.__bindgen_anon_1.wr_cqe }
    }

    /// Remote address and key of an RDMA work request.
    pub(crate) fn remote(&self) -> (u64, u32) {
        // SAFETY: The opcode tells that it is part of such a work request.
        let rdma = unsafe { &*ptr::from_ref(self.0).cast::<bindings::ib_rdma_wr>() };

        (rdma.remote_addr, rdma.rkey)
    }

    /// Its SGEs.
    pub(crate) fn sges(&self) -> &'a [bindings::ib_sge] {
        match usize::try_from(self.0.num_sge) {
            // SAFETY: The work request says that there are so many.
            Ok(nr) if nr != 0 => unsafe { slice::from_raw_parts(self.0.sg_list, nr) },
            _ => &[],
        }
    }

    /// Number of bytes of its SGEs.
    pub(crate) fn len(&self) -> u64 {
        self.sges().iter().map(|sge| u64::from(sge.length)).sum()
    }

    /// MR, key and access flags of a registration.
    pub(crate) fn reg(&self) -> (*mut bindings::ib_mr, u32, u32) {
        // SAFETY: The opcode tells that it is part of such a work request.
        let reg = unsafe { &*ptr::from_ref(self.0).cast::<bindings::ib_reg_wr>() };

        // CAST: Flags.
        (reg.mr, reg.key, reg.access as u32)
    }

    /// Key that it invalidates.
    pub(crate) fn invalidates(&self) -> u32 {
        // SAFETY: The opcode tells that this is the member in use.
        unsafe { self.0.ex.invalidate_rkey }
    }
}

/// The work requests of a chain.
pub(crate) fn chain<'a>(first: *const bindings::ib_send_wr) -> impl Iterator<Item = Wr<'a>> {
    let mut next = first;

    core::iter::from_fn(move || {
        // SAFETY: A chain of valid work requests that ends with null.
        let this = unsafe { next.as_ref()? };

        next = this.next;
        Some(Wr(this))
    })
}

/// Posts a chain to a queue pair.
pub(crate) fn post_chain(qp: &Qp, first: *const bindings::ib_send_wr) -> Result {
    let mut bad = ptr::null();

    // SAFETY: The chain is valid.
    to_result(atomically(|| unsafe {
        bindings::rdma_rw_kunit_post_send(qp.as_raw(), first, &mut bad)
    }))
}
