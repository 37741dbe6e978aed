// SPDX-License-Identifier: GPL-2.0

//! A device for the differential suite: light, since it is set up anew for every case, but it does
//! carry out what is posted to it, on memory of its own.

use core::cell::Cell;
use core::mem::{
    offset_of,
    MaybeUninit, //
};
use core::ptr;

use kernel::prelude::*;

use crate::bindings;
use crate::differential_case::{
    Config,
    Dma,
    Ground,
    Refusal,
    ARENA,
    MAX_MRS,
    PAGE,
    SLOTS, //
};
use crate::differential_trace::{
    Label,
    Trace, //
};

/// Port that all connections run over.
pub(crate) const PORT: u32 = 1;

/// Key that covers all local memory.
const LOCAL_KEY: u32 = 0x1c4e;

/// Key of the remote memory of the first context; those of the others follow.
pub(crate) const REMOTE_KEY: u32 = 0xbeef_0000;

/// Pages of the largest MR.
const MR_PAGES: usize = 256;

/// Pages of protection information that an MR takes.
const PROT_PAGES: usize = 64;

/// First address that the simulated IOMMU hands out, and the pages that it has.
const IOVA: u64 = 1 << 40;
const IOVA_PAGES: usize = 1 << 14;

/// Pieces that a real device moves by itself; it takes a fifth of a second for each or more.
pub(crate) const BY_ITSELF: u32 = 40;

/// What memory has in it that is about to be written.
const CLEAR: u8 = 0x5a;

/// What may be wrong with a work request.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Status {
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

/// An MR. C knows its first field.
#[repr(C)]
pub(crate) struct Mr {
    pub(crate) raw: bindings::ib_mr,
    sig_attrs: bindings::ib_sig_attrs,
    /// Its number among all MRs, which its keys have in them.
    index: u32,
    limit: u32,
    pages: [u64; MR_PAGES],
    nr_pages: u32,
    prot: [u64; PROT_PAGES],
    nr_prot: u32,
    data_len: u64,
    prot_start: u64,
    /// What the device has registered: the key, and what may be done.
    registered: bool,
    key: u32,
    access: i32,
}

impl Mr {
    /// The MR that C speaks of.
    ///
    /// # Safety
    ///
    /// `raw` must be the field of an [`Mr`].
    unsafe fn from_raw<'a>(raw: *mut bindings::ib_mr) -> &'a mut Self {
        // SAFETY: It is the first field.
        unsafe { &mut *raw.cast() }
    }

    /// What is noted of the MR on the side of the host is what the device has.
    fn is_consistent(&self) -> bool {
        self.raw.need_inval == self.registered && (!self.registered || self.key == self.raw.lkey)
    }
}

/// Memory of a context: local, and the remote memory that it writes to.
struct Arena {
    page: *mut bindings::page,
    start: *mut u8,
    phys: u64,
    target: KVVec<u8>,
}

impl Arena {
    const ORDER: u32 = (ARENA / PAGE).trailing_zeros();

    fn new() -> Result<Self> {
        // SAFETY: There is nothing to be wrong.
        unsafe {
            let page = bindings::rdma_rw_differential_alloc_pages(Self::ORDER);
            if page.is_null() {
                return Err(ENOMEM);
            }
            let start = bindings::rdma_rw_differential_page_address(page).cast::<u8>();
            let this = Self {
                page,
                start,
                phys: bindings::rdma_rw_differential_virt_to_phys(start.cast()),
                target: KVVec::from_elem(0u8, ARENA as usize, GFP_KERNEL)?,
            };

            bindings::rdma_rw_differential_random(start.cast(), ARENA as usize);
            Ok(this)
        }
    }
}

impl Drop for Arena {
    fn drop(&mut self) {
        // SAFETY: That is what was allocated.
        unsafe { bindings::rdma_rw_differential_free_pages(self.page, Self::ORDER) };
    }
}

/// The simulated IOMMU.
struct Iommu {
    /// Physical address of each page, 0 where nothing is mapped.
    table: KVVec<u64>,
    /// Page that comes next.
    next: usize,
    /// Pages that are mapped.
    mapped: usize,
}

/// Remote memory of a context.
#[derive(Clone, Copy)]
struct Window {
    base: u64,
    moved: u64,
}

/// The device with all that belongs to it. C knows its first field.
#[repr(C)]
pub(crate) struct Device {
    pub(crate) raw: bindings::ib_device,
    state: *mut State,
}

/// What the device knows and does; of stable address.
pub(crate) struct State {
    pub(crate) device: *mut Device,
    port_data: KBox<[MaybeUninit<bindings::ib_port_data>; 2]>,
    pub(crate) pd: KBox<bindings::ib_pd>,
    pub(crate) qp: KBox<bindings::ib_qp>,
    /// A QP whose pools are filled by what is tested.
    pub(crate) other_qp: KBox<bindings::ib_qp>,
    mrs: KVVec<Mr>,
    arenas: [Arena; SLOTS],
    /// Remote memory that is read.
    source: KVVec<u8>,
    dma_ops: KBox<bindings::dma_map_ops>,
    dma_device: *mut bindings::device,
    real: bool,
    iommu: Iommu,
    pub(crate) trace: Trace,
    windows: [Window; SLOTS],
    config: Config,
    /// The C original is at work: where it is known to fall short, see `differential_deviations`.
    pub(crate) referee: bool,
    /// How often that was so with the key of an invalidation.
    pub(crate) stale_keys: u64,
    /// The work request at which posting stops, and whether it is said.
    pub(crate) stop: Option<(usize, bool)>,
    /// All that was run since this was set was fine.
    pub(crate) fine: bool,
    /// The caller's completion entry, another one, and its work request.
    pub(crate) cqe: KBox<bindings::ib_cqe>,
    other_cqe: KBox<bindings::ib_cqe>,
    pub(crate) send_wr: KBox<bindings::ib_send_wr>,
    /// What a chain ends in, and the work requests that it has before that.
    pub(crate) end: *const bindings::ib_send_wr,
    pub(crate) count: u32,
    /// Calls so far, of those that may be refused.
    pub(crate) mr_maps: u32,
    pub(crate) dma_maps: u32,
    allocs: u32,
    pub(crate) bad_alloc: u32,
    /// Pieces that a real device is still to move by itself, which takes its time.
    pub(crate) by_itself: u32,
    /// Bytes that were moved in all.
    pub(crate) bytes: u64,
    /// Chains that were run.
    pub(crate) chains: u64,
}

/// A point that a side can be put back to, as to what the DMA layer was asked for.
#[derive(Clone, Copy)]
pub(crate) struct Mark {
    trace: usize,
    dma_maps: u32,
    next: usize,
}

/// Zeroes.
///
/// # Safety
///
/// All zeroes must be a value of `T`.
unsafe fn zeroed<T>() -> Result<KBox<T>> {
    // SAFETY: By this function's safety requirement.
    unsafe {
        let mut this = KBox::<T>::new_uninit(GFP_KERNEL)?;

        ptr::write_bytes(this.as_mut_ptr(), 0, 1);
        Ok(this.assume_init())
    }
}

/// Makes a list empty.
///
/// # Safety
///
/// `head` must be writable.
unsafe fn init_list(head: *mut bindings::list_head) {
    // SAFETY: By this function's safety requirement.
    unsafe {
        (*head).next = head;
        (*head).prev = head;
    }
}

/// Adds to the end of a list.
///
/// # Safety
///
/// `head` must be a list and `entry` in none.
unsafe fn add_tail(entry: *mut bindings::list_head, head: *mut bindings::list_head) {
    // SAFETY: By this function's safety requirement.
    unsafe {
        let last = (*head).prev;

        (*entry).next = head;
        (*entry).prev = last;
        (*last).next = entry;
        (*head).prev = entry;
    }
}

impl State {
    /// Makes the device.
    pub(crate) fn new() -> Result<KBox<Self>> {
        // SAFETY: Operations are optional, and the others are numbers and pointers.
        let (mut dma_ops, pd, qp, other_qp, port_data) = unsafe {
            (
                zeroed::<bindings::dma_map_ops>()?,
                zeroed::<bindings::ib_pd>()?,
                zeroed::<bindings::ib_qp>()?,
                zeroed::<bindings::ib_qp>()?,
                zeroed::<[MaybeUninit<bindings::ib_port_data>; 2]>()?,
            )
        };

        dma_ops.map_phys = Some(map_phys);
        dma_ops.unmap_phys = Some(unmap_phys);
        dma_ops.map_sg = Some(map_sg);
        dma_ops.unmap_sg = Some(unmap_sg);

        let mut mrs = KVVec::with_capacity(2 * MAX_MRS, GFP_KERNEL)?;
        for index in 0..2 * MAX_MRS as u32 {
            mrs.push(
                Mr {
                    // SAFETY: As above.
                    raw: unsafe { MaybeUninit::zeroed().assume_init() },
                    // SAFETY: As above.
                    sig_attrs: unsafe { MaybeUninit::zeroed().assume_init() },
                    index,
                    limit: 0,
                    pages: [0; MR_PAGES],
                    nr_pages: 0,
                    prot: [0; PROT_PAGES],
                    nr_prot: 0,
                    data_len: 0,
                    prot_start: 0,
                    registered: false,
                    key: 0,
                    access: 0,
                },
                GFP_KERNEL,
            )?;
        }

        let mut source = KVVec::from_elem(0u8, ARENA as usize, GFP_KERNEL)?;
        // SAFETY: The buffer has that many bytes.
        unsafe {
            bindings::rdma_rw_differential_random(source.as_mut_ptr().cast(), source.len());
        }

        let mut this = KBox::new(
            Self {
                device: ptr::null_mut(),
                port_data,
                pd,
                qp,
                other_qp,
                mrs,
                arenas: [Arena::new()?, Arena::new()?, Arena::new()?],
                source,
                dma_ops,
                dma_device: ptr::null_mut(),
                real: false,
                iommu: Iommu {
                    table: KVVec::from_elem(0u64, IOVA_PAGES, GFP_KERNEL)?,
                    next: 0,
                    mapped: 0,
                },
                trace: Trace::new()?,
                windows: [Window { base: 0, moved: 0 }; SLOTS],
                config: Config::NEW,
                referee: false,
                stale_keys: 0,
                stop: None,
                fine: true,
                cqe: KBox::new(bindings::ib_cqe { done: None }, GFP_KERNEL)?,
                other_cqe: KBox::new(bindings::ib_cqe { done: None }, GFP_KERNEL)?,
                // SAFETY: As above.
                send_wr: unsafe { zeroed()? },
                end: ptr::null(),
                count: 0,
                mr_maps: 0,
                dma_maps: 0,
                allocs: 0,
                bad_alloc: u32::MAX,
                by_itself: 0,
                bytes: 0,
                chains: 0,
            },
            GFP_KERNEL,
        )?;

        this.connect()?;
        Ok(this)
    }

    /// Makes C know what there is, and the other way round.
    fn connect(&mut self) -> Result {
        let state = ptr::from_mut(self);

        // SAFETY: Everything stays where it is as long as the device is there.
        unsafe {
            self.dma_device = bindings::rdma_rw_differential_real();
            self.real = !self.dma_device.is_null();
            if self.real {
                self.by_itself = BY_ITSELF;
            }
            if !self.real {
                self.dma_device = bindings::rdma_rw_differential_simulated(&*self.dma_ops);
                if let Some(device) = self.dma_device.as_mut() {
                    device.driver_data = state.cast();
                }
            }

            let device =
                bindings::rdma_rw_differential_alloc_device(size_of::<Device>()).cast::<Device>();
            if device.is_null() {
                return Err(ENOMEM);
            }
            self.device = device;
            (*device).state = state;

            let raw = &mut (*device).raw;
            raw.phys_port_cnt = PORT;
            raw.port_data = self.port_data.as_mut_ptr().cast();
            raw.ops.post_send = Some(post_send);
            raw.ops.alloc_mr = Some(alloc_mr);
            raw.ops.alloc_mr_integrity = Some(alloc_mr_integrity);
            raw.ops.dereg_mr = Some(dereg_mr);
            raw.ops.map_mr_sg = Some(map_mr_sg);
            raw.ops.map_mr_sg_pi = Some(map_mr_sg_pi);

            self.pd.device = raw;
            self.pd.local_dma_lkey = LOCAL_KEY;
            for qp in [&mut self.qp, &mut self.other_qp] {
                qp.device = raw;
                qp.pd = &mut *self.pd;
                bindings::rdma_rw_differential_init_lock(&mut qp.mr_lock);
                init_list(&mut qp.rdma_mrs);
                init_list(&mut qp.sig_mrs);
            }
            for mr in self.mrs.iter_mut() {
                mr.raw.device = raw;
                mr.raw.pd = &mut *self.pd;
                mr.raw.sig_attrs = &mut mr.sig_attrs;
            }
        }
        Ok(())
    }

    /// What there is to make cases for.
    pub(crate) fn ground(&self) -> Ground {
        Ground {
            force_mr: false,
            mapped: !self.dma_device.is_null(),
            real: self.real,
            inner: cfg!(not(MODULE)),
        }
    }

    /// Makes the device that of a configuration, as new.
    pub(crate) fn reset(&mut self, config: &Config, referee: bool) {
        self.config = *config;
        self.referee = referee;
        self.trace.clear();
        self.stop = None;
        self.mr_maps = 0;
        self.dma_maps = 0;
        self.allocs = 0;
        self.bad_alloc = u32::MAX;
        if self.iommu.mapped != 0 {
            self.iommu.table.fill(0);
            self.iommu.mapped = 0;
        }
        self.iommu.next = 0;

        // SAFETY: The device is ours, and nothing of an earlier case is in use.
        unsafe {
            let raw = &mut (*self.device).raw;
            let port = self.port_data.as_mut_ptr().cast::<bindings::ib_port_data>();
            let flags = if config.iwarp {
                bindings::RDMA_CORE_CAP_PROT_IWARP
            } else {
                bindings::RDMA_CORE_CAP_PROT_ROCE
            };

            (*port.add(PORT as usize)).immutable.core_cap_flags = flags;
            raw.dma_device = match config.dma {
                Dma::Virtual => ptr::null_mut(),
                Dma::Mapped => self.dma_device,
            };
            raw.attrs.max_sgl_rd = config.max_sgl_rd;
            raw.attrs.max_sge_rd = config.max_sge_rd;
            raw.attrs.max_fast_reg_page_list_len = config.mr_pages;
            raw.attrs.max_pi_fast_reg_page_list_len = config.pi_pages;
            raw.attrs.max_qp_wr = config.max_qp_wr;

            self.qp.max_write_sge = config.write_sge;
            self.qp.max_read_sge = config.read_sge;
            self.qp.integrity_en = config.integrity;
            self.qp.mrs_used = 0;
            init_list(&mut self.qp.rdma_mrs);
            init_list(&mut self.qp.sig_mrs);
            self.other_qp.mrs_used = 0;
            self.other_qp.integrity_en = config.integrity;
        }

        let limit = config.limit().max(1);
        let used = [
            (
                0,
                config.mrs as usize,
                bindings::ib_mr_type_IB_MR_TYPE_MEM_REG,
            ),
            (
                MAX_MRS,
                config.sig_mrs as usize,
                bindings::ib_mr_type_IB_MR_TYPE_INTEGRITY,
            ),
        ];
        for (first, nr, kind) in used {
            for mr in &mut self.mrs[first..][..nr] {
                let key = (mr.index + 1) << 8 | u32::from(config.key);

                mr.raw.lkey = key;
                mr.raw.rkey = key;
                mr.raw.iova = 0;
                mr.raw.length = 0;
                mr.raw.need_inval = false;
                mr.raw.type_ = kind;
                mr.limit = limit;
                mr.nr_pages = 0;
                mr.nr_prot = 0;
                mr.registered = false;
                let list = if first == 0 {
                    &mut self.qp.rdma_mrs
                } else {
                    &mut self.qp.sig_mrs
                };
                // SAFETY: The lists were made above, and the MR was in one that is no more.
                unsafe { add_tail(&mut mr.raw.__bindgen_anon_1.qp_entry, list) };
            }
        }
    }

    pub(crate) fn attrs(&mut self) -> &mut bindings::ib_device_attr {
        // SAFETY: The device is ours.
        unsafe { &mut (*self.device).raw.attrs }
    }

    // -------------------------------------------------------------- memory

    /// First page of a context's local memory.
    pub(crate) fn page(&self, slot: usize) -> *mut bindings::page {
        self.arenas[slot].page
    }

    /// Some bytes of a context's local memory.
    pub(crate) fn local(&self, slot: usize, start: u64, len: u64) -> &[u8] {
        assert!(start + len <= ARENA);
        // SAFETY: They lie within the arena.
        unsafe {
            core::slice::from_raw_parts(self.arenas[slot].start.add(start as usize), len as usize)
        }
    }

    /// Clears some.
    pub(crate) fn clear_local(&mut self, slot: usize, start: u64, len: u64) {
        assert!(start + len <= ARENA);
        // SAFETY: As above.
        unsafe {
            ptr::write_bytes(
                self.arenas[slot].start.add(start as usize),
                CLEAR,
                len as usize,
            );
        }
    }

    /// Remote memory that a context has written to.
    pub(crate) fn target(&self, slot: usize) -> &[u8] {
        &self.arenas[slot].target
    }

    pub(crate) fn clear_target(&mut self, slot: usize, len: u64) {
        self.arenas[slot].target[..len as usize].fill(CLEAR);
    }

    /// Remote memory that all contexts read from.
    pub(crate) fn source(&self) -> &[u8] {
        &self.source
    }

    /// Sets where the remote memory of a context lies.
    pub(crate) fn set_window(&mut self, slot: usize, base: u64) {
        self.windows[slot] = Window { base, moved: 0 };
    }

    /// Bytes that were moved for a context since this was asked for.
    pub(crate) fn moved(&mut self, slot: usize) -> u64 {
        core::mem::take(&mut self.windows[slot].moved)
    }

    /// Physical address behind one of the device.
    fn translate(&self, addr: u64) -> Option<u64> {
        if self.config.dma == Dma::Virtual {
            let arena = self
                .arenas
                .iter()
                .find(|arena| addr.wrapping_sub(arena.start as u64) < ARENA)?;

            return Some(arena.phys + (addr - arena.start as u64));
        }
        if self.real {
            // SAFETY: The device is valid.
            let phys = unsafe { bindings::rdma_rw_differential_translate(self.dma_device, addr) };

            return (phys != 0).then_some(phys);
        }

        let at = addr.checked_sub(IOVA)?;
        match self.iommu.table.get((at / PAGE) as usize) {
            None | Some(0) => None,
            Some(phys) => Some(phys + at % PAGE),
        }
    }

    /// Place of a physical address in all arenas, as a number.
    fn place(&self, phys: u64) -> Option<u64> {
        self.arenas
            .iter()
            .position(|arena| phys.wrapping_sub(arena.phys) < ARENA)
            .map(|slot| ((slot as u64 + 1) << 32) + (phys - self.arenas[slot].phys))
    }

    /// An address of the device as a number that is the same for the same memory.
    fn normal(&self, addr: u64) -> u64 {
        if self.real {
            self.translate(addr)
                .and_then(|phys| self.place(phys))
                .unwrap_or(u64::MAX)
        } else {
            // Both sides ask for the same in the same order, so they get the same.
            addr
        }
    }

    /// Whether anything is mapped at an address, by an IOMMU.
    pub(crate) fn is_mapped(&self, addr: u64) -> bool {
        self.config.dma == Dma::Mapped && self.translate(addr).is_some()
    }

    /// Pages that are mapped by the simulated IOMMU.
    pub(crate) fn mapped(&self) -> usize {
        self.iommu.mapped
    }

    /// Calls a function for each piece of memory behind some addresses of the device.
    fn pieces(
        &self,
        mut addr: u64,
        mut len: u64,
        mut each: impl FnMut(u64, *mut u8, usize) -> Result<(), Status>,
    ) -> Result<(), Status> {
        while len != 0 {
            let phys = self.translate(addr).ok_or(Status::Unmapped)?;
            let arena = self
                .arenas
                .iter()
                .find(|arena| phys.wrapping_sub(arena.phys) < ARENA)
                .ok_or(Status::Unmapped)?;
            let at = phys - arena.phys;
            let most = if self.config.dma == Dma::Virtual {
                ARENA - at
            } else {
                PAGE - addr % PAGE
            };
            let now = len.min(most);

            // SAFETY: Within the arena.
            each(addr, unsafe { arena.start.add(at as usize) }, now as usize)?;
            addr += now;
            len -= now;
        }
        Ok(())
    }

    // ----------------------------------------------------------------- MRs

    fn mr_of_key(&self, key: u32) -> Option<&Mr> {
        self.mrs.get(((key >> 8) as usize).checked_sub(1)?)
    }

    /// Number of an MR of a registration.
    ///
    /// # Safety
    ///
    /// `raw` must be one of ours.
    pub(crate) unsafe fn mr_index(raw: *mut bindings::ib_mr) -> u32 {
        // SAFETY: By this function's safety requirement.
        unsafe { Mr::from_raw(raw) }.index
    }

    /// An MR of a registration.
    ///
    /// # Safety
    ///
    /// `raw` must be one of ours.
    pub(crate) unsafe fn mr<'a>(raw: *mut bindings::ib_mr) -> &'a mut Mr {
        // SAFETY: By this function's safety requirement.
        unsafe { Mr::from_raw(raw) }
    }

    /// Whether the device has what the host thinks of an MR.
    ///
    /// # Safety
    ///
    /// `raw` must be one of ours.
    pub(crate) unsafe fn is_consistent(raw: *mut bindings::ib_mr) -> bool {
        // SAFETY: By this function's safety requirement.
        unsafe { Mr::from_raw(raw) }.is_consistent()
    }

    /// MRs that are in the pool of data, in order.
    pub(crate) fn pool(&self) -> impl Iterator<Item = &Mr> {
        let head: *const bindings::list_head = &self.qp.rdma_mrs;
        // SAFETY: The list is valid.
        let mut next = unsafe { (*head).next };

        core::iter::from_fn(move || {
            if ptr::eq(next, head) {
                return None;
            }
            // SAFETY: The list has MRs of ours in it.
            unsafe {
                let mr = next
                    .byte_sub(offset_of!(bindings::ib_mr, __bindgen_anon_1))
                    .cast::<Mr>();

                next = (*next).next;
                Some(&*mr)
            }
        })
    }

    /// Notes the state of all MRs and pools.
    pub(crate) fn note_mrs(&mut self) {
        self.trace.add(Label::MrsUsed, self.qp.mrs_used as u64);
        for mr in self.mrs[..self.config.mrs as usize]
            .iter()
            .chain_with(&self.mrs[MAX_MRS..][..self.config.sig_mrs as usize])
        {
            self.trace.add(Label::LKey, mr.raw.lkey.into());
            self.trace.add(Label::RKey, mr.raw.rkey.into());
            self.trace.add(Label::NeedInval, mr.raw.need_inval.into());
        }
    }

    /// Notes which MRs are in the pools, in order.
    pub(crate) fn note_pools(&mut self) {
        for head in [&raw const self.qp.rdma_mrs, &raw const self.qp.sig_mrs] {
            // SAFETY: The lists are valid, and have MRs of ours in them.
            unsafe {
                let mut next = (*head).next;

                while !ptr::eq(next, head) {
                    let mr = next
                        .byte_sub(offset_of!(bindings::ib_mr, __bindgen_anon_1))
                        .cast::<Mr>();

                    self.trace.add(Label::Pool, (*mr).index.into());
                    next = (*next).next;
                }
            }
        }
    }

    // ------------------------------------------------------------- posting

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
    unsafe fn note_wr(&mut self, wr: &bindings::ib_send_wr) {
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
    fn invalidation_key(&mut self, wr: &bindings::ib_send_wr, key: u32) -> u32 {
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
    fn note_mr(&mut self, mr: &Mr) {
        let mut memory = 0u64;

        for page in mr.pages[..mr.nr_pages as usize]
            .iter()
            .chain_with(&mr.prot[..mr.nr_prot as usize])
        {
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
    unsafe fn run_one(&mut self, wr: &bindings::ib_send_wr) -> Result<(), Status> {
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

    fn invalidate(&mut self, key: u32) -> Result<(), Status> {
        let mr = ((key >> 8) as usize)
            .checked_sub(1)
            .and_then(|i| self.mrs.get_mut(i))
            .filter(|mr| mr.registered && mr.key == key)
            .ok_or(Status::Invalidation)?;

        mr.registered = false;
        Ok(())
    }

    /// Moves the bytes of a work request.
    fn transfer(&mut self, rdma: &bindings::ib_rdma_wr) -> Result<(), Status> {
        let wr = &rdma.wr;
        let write = wr.opcode == bindings::ib_wr_opcode_IB_WR_RDMA_WRITE;
        let slot = (rdma.rkey ^ REMOTE_KEY) as usize;
        let window = *self.windows.get(slot).ok_or(Status::RemoteKey)?;
        let mut at = rdma.remote_addr.wrapping_sub(window.base);

        if sges(wr).is_empty() || (self.config.iwarp && !write && wr.num_sge != 1) {
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
    fn move_sge(
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
    fn move_pieces(
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

    // ----------------------------------------------------------------- DMA

    pub(crate) fn mark(&self) -> Mark {
        Mark {
            trace: self.trace.len(),
            dma_maps: self.dma_maps,
            next: self.iommu.next,
        }
    }

    /// As if nothing had been asked of the DMA layer since; all must have been given back.
    pub(crate) fn rewind(&mut self, mark: Mark) {
        self.trace.truncate(mark.trace);
        self.dma_maps = mark.dma_maps;
        self.iommu.next = mark.next;
    }

    fn note_dma(&mut self, call: u64, phys: u64, len: u64) {
        let place = self.place(phys).unwrap_or(u64::MAX);

        self.trace.add(Label::DmaCall, call);
        self.trace.add(Label::DmaAddr, place);
        self.trace.add(Label::DmaLength, len);
    }

    /// Whether a DMA mapping is to fail.
    fn dma_fails(&mut self) -> bool {
        let this = self.dma_maps;

        self.dma_maps += 1;
        this == u32::from(self.config.bad_dma_map) && self.config.bad_dma_map != u8::MAX
    }

    /// Maps memory to the next pages of the IOMMU.
    fn iommu_map(&mut self, phys: u64, len: u64) -> Option<u64> {
        let first = self.iommu.next;
        let nr = ((phys % PAGE + len).div_ceil(PAGE)) as usize;
        if first + nr > IOVA_PAGES {
            return None;
        }

        for i in 0..nr {
            self.iommu.table[first + i] = (phys & !(PAGE - 1)) + i as u64 * PAGE;
        }
        self.iommu.next += nr;
        self.iommu.mapped += nr;
        Some(IOVA + first as u64 * PAGE + phys % PAGE)
    }

    fn iommu_unmap(&mut self, addr: u64, len: u64) {
        let first = (addr.wrapping_sub(IOVA) / PAGE) as usize;
        let nr = ((addr % PAGE + len).div_ceil(PAGE)) as usize;

        for i in first..first + nr {
            match self.iommu.table.get_mut(i) {
                Some(entry) if *entry != 0 => {
                    *entry = 0;
                    self.iommu.mapped -= 1;
                }
                // What is not mapped cannot be unmapped.
                _ => self.trace.add(Label::DmaCall, u64::MAX),
            }
        }
    }
}

impl Drop for State {
    fn drop(&mut self) {
        // SAFETY: Nothing is in use any more. Ports were not made by ib_core.
        unsafe {
            if !self.device.is_null() {
                (*self.device).raw.port_data = ptr::null_mut();
                (*self.device).raw.dma_device = ptr::null_mut();
                bindings::ib_dealloc_device(&mut (*self.device).raw);
            }
            if !self.dma_device.is_null() {
                bindings::rdma_rw_differential_put(self.dma_device);
            }
        }
    }
}

/// Elements of one slice and then of another; `Iterator::chain` has a rival in the prelude.
trait ChainWith<'a, T> {
    fn chain_with(
        self,
        other: &'a [T],
    ) -> core::iter::Chain<core::slice::Iter<'a, T>, core::slice::Iter<'a, T>>;
}

impl<'a, T> ChainWith<'a, T> for core::slice::Iter<'a, T> {
    fn chain_with(self, other: &'a [T]) -> core::iter::Chain<Self, Self> {
        Iterator::chain(self, other.iter())
    }
}

/// SGEs of a work request.
fn sges(wr: &bindings::ib_send_wr) -> &[bindings::ib_sge] {
    if wr.sg_list.is_null() || wr.num_sge <= 0 {
        return &[];
    }
    // SAFETY: A work request has that many.
    unsafe { core::slice::from_raw_parts(wr.sg_list, wr.num_sge as usize) }
}

/// The state behind what C hands over.
///
/// # Safety
///
/// `device` must be the one of a [`State`], which nobody else uses during the call.
unsafe fn state<'a>(device: *mut bindings::ib_device) -> &'a mut State {
    // SAFETY: By this function's safety requirement.
    unsafe { &mut *(*device.cast::<Device>()).state }
}

/// A verb of the device.
///
/// # Safety
///
/// As the verbs call it: with valid pointers to what this device has made.
unsafe extern "C" fn post_send(
    qp: *mut bindings::ib_qp,
    first: *const bindings::ib_send_wr,
    bad: *mut *const bindings::ib_send_wr,
) -> c_int {
    // SAFETY: The QP is ours.
    let state = unsafe { state((*qp).device) };
    let (stop, says) = match state.stop {
        Some((stop, true)) => (stop, true),
        // A device that does not name what it stopped at has posted nothing.
        Some((_, false)) => (0, false),
        None => (usize::MAX, true),
    };

    state.note_chain(first);
    let stopped = state.run(first, stop);
    if stopped.is_null() {
        return 0;
    }
    // SAFETY: C hands over a place.
    unsafe { *bad = if says { stopped } else { ptr::null() } };
    ENOMEM.to_errno()
}

/// A verb of the device.
///
/// # Safety
///
/// As the verbs call it: with valid pointers to what this device has made.
unsafe extern "C" fn set_page(raw: *mut bindings::ib_mr, page: u64) -> c_int {
    // SAFETY: The MR is ours.
    let mr = unsafe { Mr::from_raw(raw) };

    if mr.nr_pages == mr.limit {
        return ENOMEM.to_errno();
    }
    mr.pages[mr.nr_pages as usize] = page;
    mr.nr_pages += 1;
    0
}

/// A verb of the device.
///
/// # Safety
///
/// As the verbs call it: with valid pointers to what this device has made.
unsafe extern "C" fn set_prot_page(raw: *mut bindings::ib_mr, page: u64) -> c_int {
    // SAFETY: The MR is ours.
    let mr = unsafe { Mr::from_raw(raw) };

    if mr.nr_prot == mr.limit || mr.nr_prot as usize == PROT_PAGES {
        return ENOMEM.to_errno();
    }
    mr.prot[mr.nr_prot as usize] = page;
    mr.nr_prot += 1;
    0
}

unsafe extern "C" fn map_mr_sg(
    raw: *mut bindings::ib_mr,
    sg: *mut bindings::scatterlist,
    nents: c_int,
    offset: *mut c_uint,
) -> c_int {
    // SAFETY: The MR is ours, and its list mapped.
    unsafe {
        let mr = Mr::from_raw(raw);
        let state = state((*raw).device);
        let refused = state.mr_maps == u32::from(state.config.bad_mr_map)
            && state.config.bad_mr_map != u8::MAX;

        state.mr_maps += 1;
        mr.nr_pages = 0;
        mr.nr_prot = 0;
        let taken = bindings::ib_sg_to_pages(raw, sg, nents, offset, Some(set_page));
        mr.data_len = mr.raw.length;
        match state.config.refusal {
            _ if !refused => taken,
            Refusal::Short => taken - 1,
            Refusal::Error => ENOMEM.to_errno(),
        }
    }
}

unsafe extern "C" fn map_mr_sg_pi(
    raw: *mut bindings::ib_mr,
    data: *mut bindings::scatterlist,
    nr_data: c_int,
    _data_offset: *mut c_uint,
    prot: *mut bindings::scatterlist,
    nr_prot: c_int,
    _prot_offset: *mut c_uint,
) -> c_int {
    // SAFETY: The MR is ours, and its lists mapped.
    unsafe {
        let mr = Mr::from_raw(raw);
        let state = state((*raw).device);
        let refused = state.mr_maps == u32::from(state.config.bad_mr_map)
            && state.config.bad_mr_map != u8::MAX;

        state.mr_maps += 1;
        if refused {
            return EIO.to_errno();
        }

        mr.nr_pages = 0;
        mr.nr_prot = 0;
        let mut prot_len = 0;
        if nr_prot != 0 {
            if bindings::ib_sg_to_pages(raw, prot, nr_prot, ptr::null_mut(), Some(set_prot_page))
                != nr_prot
            {
                return EINVAL.to_errno();
            }
            prot_len = mr.raw.length;
            mr.prot_start = mr.raw.iova;
        }
        if bindings::ib_sg_to_pages(raw, data, nr_data, ptr::null_mut(), Some(set_page)) != nr_data
        {
            return EINVAL.to_errno();
        }
        mr.data_len = mr.raw.length;
        mr.raw.length += prot_len;
        mr.sig_attrs.meta_length = prot_len as c_int;
    }
    0
}

/// Makes an MR for a pool that is filled by what is tested.
///
/// # Safety
///
/// The PD must be ours.
unsafe fn alloc(pd: *mut bindings::ib_pd, kind: u32, pages: u32) -> *mut bindings::ib_mr {
    // SAFETY: By this function's safety requirement.
    let state = unsafe { state((*pd).device) };

    state.trace.add(Label::MrType, kind.into());
    state.trace.add(Label::MrSize, pages.into());
    state.allocs += 1;
    if state.allocs - 1 == state.bad_alloc {
        return ENOMEM.to_ptr();
    }
    // SAFETY: All zeroes are a value.
    match unsafe { zeroed::<Mr>() } {
        Ok(mr) => KBox::into_raw(mr).cast(),
        Err(e) => e.to_ptr(),
    }
}

unsafe extern "C" fn alloc_mr(
    pd: *mut bindings::ib_pd,
    kind: bindings::ib_mr_type,
    pages: u32,
) -> *mut bindings::ib_mr {
    // SAFETY: The PD is ours.
    unsafe { alloc(pd, kind, pages) }
}

unsafe extern "C" fn alloc_mr_integrity(
    pd: *mut bindings::ib_pd,
    pages: u32,
    prot_pages: u32,
) -> *mut bindings::ib_mr {
    // SAFETY: The PD is ours.
    unsafe {
        state((*pd).device)
            .trace
            .add(Label::MrSize, prot_pages.into());
        alloc(pd, bindings::ib_mr_type_IB_MR_TYPE_INTEGRITY, pages)
    }
}

unsafe extern "C" fn dereg_mr(raw: *mut bindings::ib_mr, _udata: *mut bindings::ib_udata) -> c_int {
    // SAFETY: The MR was made by `alloc`, and goes.
    unsafe {
        state((*raw).device)
            .trace
            .add(Label::MrType, u64::from((*raw).type_) << 8);
        drop(KBox::from_raw(raw.cast::<Mr>()));
    }
    0
}

/// The state behind the simulated IOMMU's device.
///
/// # Safety
///
/// `dev` must be that.
unsafe fn iommu_state<'a>(dev: *mut bindings::device) -> &'a mut State {
    // SAFETY: By this function's safety requirement.
    unsafe { &mut *(*dev).driver_data.cast() }
}

unsafe extern "C" fn map_phys(
    dev: *mut bindings::device,
    phys: bindings::phys_addr_t,
    len: usize,
    dir: bindings::dma_data_direction,
    _attrs: c_ulong,
) -> bindings::dma_addr_t {
    // SAFETY: The device is ours.
    let state = unsafe { iommu_state(dev) };

    state.note_dma(0x10 | u64::from(dir as u32), phys, len as u64);
    if state.dma_fails() {
        return bindings::dma_addr_t::MAX;
    }
    state
        .iommu_map(phys, len as u64)
        .unwrap_or(bindings::dma_addr_t::MAX)
}

unsafe extern "C" fn unmap_phys(
    dev: *mut bindings::device,
    addr: bindings::dma_addr_t,
    len: usize,
    dir: bindings::dma_data_direction,
    _attrs: c_ulong,
) {
    // SAFETY: The device is ours.
    let state = unsafe { iommu_state(dev) };
    let phys = state.translate(addr).unwrap_or(0);

    state.note_dma(0x20 | u64::from(dir as u32), phys, len as u64);
    state.iommu_unmap(addr, len as u64);
}

/// The entry after another.
///
/// # Safety
///
/// `sg` must be a valid entry and not the last of its list.
pub(crate) unsafe fn next_entry(sg: *mut bindings::scatterlist) -> *mut bindings::scatterlist {
    let (chain, end) = (bindings::SG_CHAIN as usize, bindings::SG_END as usize);

    // SAFETY: An entry that is not the last is followed by another element of its table.
    unsafe {
        let next = sg.add(1);
        let link = (*next).page_link;

        if link & chain != 0 {
            (link & !(chain | end)) as *mut bindings::scatterlist
        } else {
            next
        }
    }
}

/// Physical address of an entry.
///
/// # Safety
///
/// It must be in one of the arenas of `state`.
unsafe fn entry_phys(state: &State, sg: *const bindings::scatterlist) -> u64 {
    // SAFETY: By this function's safety requirement.
    unsafe {
        let page = (*sg).page_link & !3;
        let arena = state.arenas.iter().find(|arena| {
            (page.wrapping_sub(arena.page as usize)) / size_of::<bindings::page>()
                < (ARENA / PAGE) as usize
        });
        let Some(arena) = arena else {
            return 0;
        };
        let nr = (page - arena.page as usize) / size_of::<bindings::page>();

        arena.phys + nr as u64 * PAGE + u64::from((*sg).offset)
    }
}

/// Lays a list out in one range, entry after entry, and joins those that meet on the border of a
/// page, as the kernel's own IOMMU code does.
unsafe extern "C" fn map_sg(
    dev: *mut bindings::device,
    list: *mut bindings::scatterlist,
    nents: c_int,
    dir: bindings::dma_data_direction,
    _attrs: c_ulong,
) -> c_int {
    // SAFETY: The device is ours, and the list has that many entries.
    unsafe {
        let state = iommu_state(dev);
        let first = state.iommu.next;
        let mapped = state.iommu.mapped;

        state.note_dma(
            0x30 | u64::from(dir as u32),
            entry_phys(state, list),
            nents as u64,
        );
        if state.dma_fails() {
            return ENOMEM.to_errno();
        }

        let mut sg = list;
        let mut out: *mut bindings::scatterlist = ptr::null_mut();
        let mut count = 0;
        let mut end = None;
        for i in 0..nents {
            let phys = entry_phys(state, sg);
            let len = u64::from((*sg).length);
            let Some(addr) = state.iommu_map(phys, len) else {
                state.iommu.table[first..].fill(0);
                state.iommu.next = first;
                state.iommu.mapped = mapped;
                return ENOMEM.to_errno();
            };

            if end == Some(addr) && addr % PAGE == 0 && (*out).dma_length as u64 + len < 1 << 31 {
                (*out).dma_length += len as u32;
            } else {
                out = if out.is_null() { list } else { next_entry(out) };
                (*out).dma_address = addr;
                (*out).dma_length = len as u32;
                count += 1;
            }
            end = Some(addr + len);
            if i + 1 < nents {
                sg = next_entry(sg);
            }
        }
        if count < nents {
            // What follows is not mapped.
            let rest = next_entry(out);

            (*rest).dma_length = 0;
        }
        count
    }
}

unsafe extern "C" fn unmap_sg(
    dev: *mut bindings::device,
    list: *mut bindings::scatterlist,
    nents: c_int,
    dir: bindings::dma_data_direction,
    _attrs: c_ulong,
) {
    // SAFETY: The device is ours, and the list has that many entries.
    unsafe {
        let state = iommu_state(dev);

        state.note_dma(
            0x40 | u64::from(dir as u32),
            entry_phys(state, list),
            nents as u64,
        );
        let mut sg = list;
        for i in 0..nents {
            if (*sg).dma_length == 0 {
                break;
            }
            state.iommu_unmap((*sg).dma_address, (*sg).dma_length.into());
            if i + 1 < nents {
                sg = next_entry(sg);
            }
        }
    }
}
