// SPDX-License-Identifier: GPL-2.0

//! A device for the differential suite: light, since it is set up anew for every case, but it does
//! carry out what is posted to it, on memory of its own.

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
    Ground, //
    ARENA,
    MAX_MRS,
    PAGE,
    SLOTS,
};
use crate::differential_engine::Status;
use crate::differential_iommu::{
    map_phys,
    map_sg,
    unmap_phys,
    unmap_sg,
    Iommu, //
    IOVA,
    IOVA_PAGES,
};
use crate::differential_trace::{
    Label,
    Trace, //
};
use crate::differential_verbs::{
    alloc_mr, alloc_mr_integrity, dereg_mr, map_mr_sg, map_mr_sg_pi, post_send,
};

/// Port that all connections run over.
pub(crate) const PORT: u32 = 1;

/// Key that covers all local memory.
pub(crate) const LOCAL_KEY: u32 = 0x1c4e;

/// Bit that tells the remote key of an MR from its local one.
pub(crate) const MR_RKEY: u32 = 1 << 31;

/// Key of the remote memory of the first context; those of the others follow.
pub(crate) const REMOTE_KEY: u32 = 0xbeef_0000;

/// Pages of the largest MR.
pub(crate) const MR_PAGES: usize = 256;

/// Pages of protection information that an MR takes.
pub(crate) const PROT_PAGES: usize = 64;

/// Pieces that a real device moves by itself; it takes a fifth of a second for each or more.
pub(crate) const BY_ITSELF: u32 = 40;

/// What memory has in it that is about to be written.
pub(crate) const CLEAR: u8 = 0x5a;

/// An MR. C knows its first field.
#[repr(C)]
pub(crate) struct Mr {
    pub(crate) raw: bindings::ib_mr,
    pub(crate) sig_attrs: bindings::ib_sig_attrs,
    /// Its number among all MRs, which its keys have in them.
    pub(crate) index: u32,
    pub(crate) limit: u32,
    pub(crate) pages: [u64; MR_PAGES],
    pub(crate) nr_pages: u32,
    pub(crate) prot: [u64; PROT_PAGES],
    pub(crate) nr_prot: u32,
    pub(crate) data_len: u64,
    pub(crate) prot_start: u64,
    /// What the device has registered: the key, and what may be done.
    pub(crate) registered: bool,
    pub(crate) key: u32,
    pub(crate) access: i32,
}

impl Mr {
    /// The MR that C speaks of.
    ///
    /// # Safety
    ///
    /// `raw` must be the field of an [`Mr`].
    pub(crate) unsafe fn from_raw<'a>(raw: *mut bindings::ib_mr) -> &'a mut Self {
        // SAFETY: It is the first field.
        unsafe { &mut *raw.cast() }
    }

    /// What is noted of the MR on the side of the host is what the device has.
    pub(crate) fn is_consistent(&self) -> bool {
        self.raw.need_inval == self.registered && (!self.registered || self.key == self.raw.lkey)
    }
}

/// Memory of a context: local, and the remote memory that it writes to.
pub(crate) struct Arena {
    pub(crate) page: *mut bindings::page,
    pub(crate) start: *mut u8,
    pub(crate) phys: u64,
    pub(crate) target: KVVec<u8>,
}

impl Arena {
    pub(crate) const ORDER: u32 = (ARENA / PAGE).trailing_zeros();

    pub(crate) fn new() -> Result<Self> {
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

/// What contexts hold of a device: pages of the simulated IOMMU, and MRs, with the keys and states of
/// all of them as one number.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Held {
    mapped: usize,
    mrs_used: c_int,
    mrs: u64,
}

/// Remote memory of a context.
#[derive(Clone, Copy)]
pub(crate) struct Window {
    pub(crate) base: u64,
    pub(crate) moved: u64,
}

/// The device with all that belongs to it. C knows its first field.
#[repr(C)]
pub(crate) struct Device {
    pub(crate) raw: bindings::ib_device,
    pub(crate) state: *mut State,
}

/// What the device knows and does; of stable address.
pub(crate) struct State {
    pub(crate) device: *mut Device,
    pub(crate) port_data: KBox<[MaybeUninit<bindings::ib_port_data>; 2]>,
    pub(crate) pd: KBox<bindings::ib_pd>,
    pub(crate) qp: KBox<bindings::ib_qp>,
    /// A QP whose pools are filled by what is tested.
    pub(crate) other_qp: KBox<bindings::ib_qp>,
    pub(crate) mrs: KVVec<Mr>,
    pub(crate) arenas: [Arena; SLOTS],
    /// Remote memory that is read.
    pub(crate) source: KVVec<u8>,
    pub(crate) dma_ops: KBox<bindings::dma_map_ops>,
    pub(crate) dma_device: *mut bindings::device,
    pub(crate) real: bool,
    pub(crate) iommu: Iommu,
    pub(crate) trace: Trace,
    pub(crate) windows: [Window; SLOTS],
    pub(crate) config: Config,
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
    pub(crate) other_cqe: KBox<bindings::ib_cqe>,
    pub(crate) send_wr: KBox<bindings::ib_send_wr>,
    /// What a chain ends in, and the work requests that it has before that.
    pub(crate) end: *const bindings::ib_send_wr,
    pub(crate) count: u32,
    /// Calls so far, of those that may be refused.
    pub(crate) mr_maps: u32,
    pub(crate) dma_maps: u32,
    pub(crate) allocs: u32,
    pub(crate) bad_alloc: u32,
    /// MRs that were made for what is tested, and not freed.
    pub(crate) allocated: i32,
    /// Pieces that a real device is still to move by itself, which takes its time.
    pub(crate) by_itself: u32,
    /// Bytes that were moved in all.
    pub(crate) bytes: u64,
    /// Chains that were run.
    pub(crate) chains: u64,
}

/// Zeroes.
///
/// # Safety
///
/// All zeroes must be a value of `T`.
pub(crate) unsafe fn zeroed<T>() -> Result<KBox<T>> {
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
pub(crate) unsafe fn init_list(head: *mut bindings::list_head) {
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
pub(crate) unsafe fn add_tail(entry: *mut bindings::list_head, head: *mut bindings::list_head) {
    // SAFETY: By this function's safety requirement.
    unsafe {
        let last = (*head).prev;

        (*entry).next = head;
        (*entry).prev = last;
        (*last).next = entry;
        (*head).prev = entry;
    }
}

/// MRs of either pool that a configuration has.
fn used_mrs<'a>(mrs: &'a [Mr], config: &Config) -> impl Iterator<Item = &'a Mr> {
    let data = &mrs[..config.mrs as usize];
    let integrity = &mrs[MAX_MRS..][..config.sig_mrs as usize];

    Iterator::chain(data.iter(), integrity)
}

/// MRs in a pool, in order.
///
/// # Safety
///
/// `head` must be a list of MRs of a [`State`], valid and unchanged as long as the result is in use.
unsafe fn pooled<'a>(head: *const bindings::list_head) -> impl Iterator<Item = &'a Mr> {
    // SAFETY: By this function's safety requirement.
    let mut next = unsafe { (*head).next };

    core::iter::from_fn(move || {
        if ptr::eq(next, head) {
            return None;
        }
        // SAFETY: By this function's safety requirement, what is in the list is in an MR.
        unsafe {
            let mr = next
                .byte_sub(offset_of!(bindings::ib_mr, __bindgen_anon_1))
                .cast::<Mr>();

            next = (*next).next;
            Some(&*mr)
        }
    })
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
                    misused: false,
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
                allocated: 0,
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
    pub(crate) fn connect(&mut self) -> Result {
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
        self.allocated = 0;
        self.iommu.misused = false;
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
                mr.raw.rkey = key | MR_RKEY;
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
    pub(crate) fn translate(&self, addr: u64) -> Option<u64> {
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
            Some(entry) => Some((entry & !(PAGE - 1)) + at % PAGE),
        }
    }

    /// Place of a physical address in all arenas, as a number.
    pub(crate) fn place(&self, phys: u64) -> Option<u64> {
        self.arenas
            .iter()
            .position(|arena| phys.wrapping_sub(arena.phys) < ARENA)
            .map(|slot| ((slot as u64 + 1) << 32) + (phys - self.arenas[slot].phys))
    }

    /// An address of the device as a number that is the same for the same memory.
    pub(crate) fn normal(&self, addr: u64) -> u64 {
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
    pub(crate) fn pieces(
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

    pub(crate) fn mr_of_key(&self, key: u32) -> Option<&Mr> {
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
        // SAFETY: The list is valid.
        unsafe { pooled(&self.qp.rdma_mrs) }
    }

    /// What contexts hold of this device.
    pub(crate) fn held(&self) -> Held {
        let mrs = used_mrs(&self.mrs, &self.config).fold(0u64, |sum, mr| {
            let state = u64::from(mr.raw.lkey) << 1 | u64::from(mr.raw.need_inval);

            sum.wrapping_mul(0x0000_0100_0000_01b3).wrapping_add(state)
        });

        Held {
            mapped: self.mapped(),
            mrs_used: self.qp.mrs_used,
            mrs,
        }
    }

    /// Whether all MRs are in their pools, each once.
    pub(crate) fn pools_are_whole(&self) -> bool {
        let pools = [
            (&raw const self.qp.rdma_mrs, self.config.mrs),
            (&raw const self.qp.sig_mrs, self.config.sig_mrs),
        ];

        pools.into_iter().all(|(head, nr)| {
            // SAFETY: The lists are valid.
            unsafe { pooled(head) }.take(MAX_MRS + 1).count() == usize::from(nr)
        })
    }

    /// Notes the state of all MRs and pools.
    pub(crate) fn note_mrs(&mut self) {
        self.trace.add(Label::MrsUsed, self.qp.mrs_used as u64);
        for mr in used_mrs(&self.mrs, &self.config) {
            self.trace.add(Label::LKey, mr.raw.lkey.into());
            self.trace.add(Label::RKey, mr.raw.rkey.into());
            self.trace.add(Label::NeedInval, mr.raw.need_inval.into());
        }
    }

    /// Notes which MRs are in the pools, in order.
    pub(crate) fn note_pools(&mut self) {
        for head in [&raw const self.qp.rdma_mrs, &raw const self.qp.sig_mrs] {
            // SAFETY: The lists are valid.
            for mr in unsafe { pooled(head) } {
                self.trace.add(Label::Pool, mr.index.into());
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
