// SPDX-License-Identifier: GPL-2.0

//! What a provider gives ib_core: the table of verbs, and those that are not about moving data.

use core::mem;
use core::ptr::{
    self,
    NonNull, //
};

use kernel::prelude::*;

use super::{
    check,
    due,
    engine,
    BadMap,
    Inner,
    State,
    LOCAL_DMA_LKEY,
    MR_RKEY,
    PAGE, //
};
use crate::bindings;

/// A device as ib_core allocates it.
#[repr(C)]
struct RawDevice {
    base: bindings::ib_device,
    inner: *const Inner,
}

/// A queue pair as ib_core allocates it.
#[repr(C)]
pub(super) struct RawQp {
    base: bindings::ib_qp,
    /// What it was created with.
    pub(super) caps: bindings::ib_qp_cap,
    /// A work request has failed; the ones after it do as well.
    pub(super) broken: bool,
}

/// What an MR is registered for.
#[derive(Clone, Copy)]
pub(super) struct Registration {
    pub(super) key: u32,
    pub(super) access: u32,
    pub(super) iova: u64,
    pub(super) len: u64,
    /// Bytes between two pieces of protection information on the wire; 0 where there are none.
    pub(super) interval: u64,
}

/// Memory within an MR, by its DMA address.
#[derive(Clone, Copy)]
pub(super) struct Piece {
    pub(super) addr: u64,
    pub(super) len: u64,
}

/// Memory of an MR: pages in order, or data and protection information.
pub(super) struct Layout {
    /// Data, one after the other. The first starts at the MR's address.
    pub(super) data: KVVec<Piece>,
    /// Protection information.
    pub(super) meta: KVVec<Piece>,
}

/// A memory region.
#[repr(C)]
pub(super) struct RawMr {
    base: bindings::ib_mr,
    /// Pages, or entries of each list, that it takes.
    limit: u32,
    /// Mapped with the last `map_mr_sg`, to be registered by the next REG.
    mapped: Layout,
    /// Registered.
    pub(super) registered: Layout,
    pub(super) registration: Option<Registration>,
    pub(super) last_key: Option<u32>,
}

impl Layout {
    fn new(limit: u32) -> Result<Self> {
        Ok(Self {
            data: KVVec::with_capacity(limit as usize, GFP_KERNEL)?,
            meta: KVVec::with_capacity(limit as usize, GFP_KERNEL)?,
        })
    }
}

impl RawMr {
    /// The MR behind a pointer of ib_core's.
    ///
    /// # Safety
    ///
    /// `mr` must be one of ours, and in nobody else's use.
    pub(super) unsafe fn from_raw<'a>(mr: *mut bindings::ib_mr) -> &'a mut Self {
        // SAFETY: By this function's safety requirement; `base` is the first member.
        unsafe { &mut *mr.cast() }
    }

    /// Makes what was mapped last the registered memory.
    pub(super) fn register(&mut self, key: u32, access: u32, integrity: bool) {
        let copy = |from: &KVVec<Piece>, to: &mut KVVec<Piece>| {
            to.clear();
            for piece in from.iter() {
                // Both have the same capacity.
                let _ = to.push_within_capacity(*piece);
            }
        };

        copy(&self.mapped.data, &mut self.registered.data);
        copy(&self.mapped.meta, &mut self.registered.meta);
        self.last_key = Some(key);
        self.registration = Some(Registration {
            key,
            access,
            iova: self.base.iova,
            len: self.base.length,
            interval: self.interval(integrity),
        });
    }

    /// Bytes between two pieces of protection information on the wire, 0 without such.
    fn interval(&self, integrity: bool) -> u64 {
        if !integrity {
            return 0;
        }

        // SAFETY: An integrity MR has attributes.
        let attrs = unsafe { &*self.base.sig_attrs };
        let t10_dif = bindings::ib_signature_type_IB_SIG_TYPE_T10_DIF;
        if attrs.mem.sig_type == t10_dif && attrs.wire.sig_type == t10_dif {
            // SAFETY: The type says that this is the member in use.
            u64::from(unsafe { attrs.wire.sig.dif.pi_interval })
        } else {
            0
        }
    }

    /// Key as ib_core has it now.
    pub(super) fn key(&self) -> u32 {
        self.base.lkey
    }

    /// Whether it carries protection information.
    pub(super) fn integrity(&self) -> bool {
        self.base.type_ == bindings::ib_mr_type_IB_MR_TYPE_INTEGRITY
    }
}

/// The state behind a device of ours.
pub(super) fn inner<'a>(dev: *mut bindings::ib_device) -> &'a Inner {
    // SAFETY: Devices with these verbs have been made by `register`, and go before the state does.
    unsafe { &*(*dev.cast::<RawDevice>()).inner }
}

/// Makes a device and registers it with ib_core.
pub(super) fn register(
    state: &Inner,
    dma_device: *mut bindings::device,
) -> Result<NonNull<bindings::ib_device>> {
    let ops = verbs()?;
    // SAFETY: There is nothing to be kept.
    let dev = unsafe { bindings::rdma_rw_kunit_alloc_device(mem::size_of::<RawDevice>()) };
    let dev = NonNull::new(dev).ok_or(ENOMEM)?;

    // SAFETY: The device is new and nobody else's. ib_core copies the table.
    let ret = unsafe {
        let raw = dev.as_ptr();

        (*raw.cast::<RawDevice>()).inner = state;
        (*raw).node_type = bindings::RDMA_NODE_RNIC as u8;
        (*raw).phys_port_cnt = 1;
        (*raw).num_comp_vectors = 1;
        (*raw).local_dma_lkey = LOCAL_DMA_LKEY;
        bindings::ib_set_device_ops(raw, &raw const *ops);
        match bindings::rdma_rw_kunit_set_netdev(raw) {
            0 => bindings::ib_register_device(raw, super::name(), dma_device),
            e => e,
        }
    };
    match check(ret) {
        Ok(()) => Ok(dev),
        Err(e) => {
            // SAFETY: It was not registered.
            unsafe { bindings::ib_dealloc_device(dev.as_ptr()) };
            Err(e)
        }
    }
}

/// Undoes [`register`].
pub(super) fn unregister(dev: NonNull<bindings::ib_device>) {
    // SAFETY: It is registered, and nothing of it is in use.
    unsafe {
        bindings::ib_unregister_device(dev.as_ptr());
        bindings::ib_dealloc_device(dev.as_ptr());
    }
}

/// The table of verbs.
fn verbs() -> Result<KBox<bindings::ib_device_ops>> {
    // SAFETY: Zeroes mean functions that do not exist, and numbers of 0.
    let mut ops: KBox<bindings::ib_device_ops> = unsafe { KBox::new(mem::zeroed(), GFP_KERNEL)? };

    // SAFETY: There is nothing to be kept.
    ops.owner = unsafe { bindings::rdma_rw_kunit_module() };
    ops.driver_id = bindings::rdma_driver_id_RDMA_DRIVER_UNKNOWN;
    ops.size_ib_pd = mem::size_of::<bindings::ib_pd>();
    ops.size_ib_cq = mem::size_of::<bindings::ib_cq>();
    ops.size_ib_qp = mem::size_of::<RawQp>();
    ops.query_device = Some(query_device);
    ops.query_port = Some(query_port);
    ops.get_port_immutable = Some(get_port_immutable);
    ops.query_gid = Some(query_gid);
    ops.query_pkey = Some(query_pkey);
    ops.alloc_pd = Some(nothing_pd);
    ops.dealloc_pd = Some(nothing_pd);
    ops.create_cq = Some(create_cq);
    ops.destroy_cq = Some(destroy_cq);
    ops.poll_cq = Some(poll_cq);
    ops.req_notify_cq = Some(req_notify_cq);
    ops.create_qp = Some(create_qp);
    ops.destroy_qp = Some(destroy_qp);
    ops.alloc_mr = Some(alloc_mr);
    ops.alloc_mr_integrity = Some(alloc_mr_integrity);
    ops.dereg_mr = Some(dereg_mr);
    ops.map_mr_sg = Some(map_mr_sg);
    ops.map_mr_sg_pi = Some(map_mr_sg_pi);
    ops.post_send = Some(engine::post_send);
    Ok(ops)
}

/// Tells the limits of the profile.
///
/// # Safety
///
/// The arguments must be what `struct ib_device_ops` asks for, of a device of ours.
unsafe extern "C" fn query_device(
    dev: *mut bindings::ib_device,
    attr: *mut bindings::ib_device_attr,
    _udata: *mut bindings::ib_udata,
) -> c_int {
    let profile = &inner(dev).profile;
    // SAFETY: ib_core hands in attributes of its own.
    let attr = unsafe { &mut *attr };

    attr.max_qp = 1 << 16;
    attr.max_cq = 1 << 16;
    attr.max_cqe = 1 << 16;
    attr.max_mr = 1 << 16;
    attr.max_pd = 1 << 16;
    attr.max_qp_wr = profile.max_qp_wr;
    attr.max_send_sge = profile.max_sge;
    attr.max_recv_sge = 1;
    attr.max_sge_rd = profile.max_sge_rd;
    attr.max_sgl_rd = profile.max_sgl_rd;
    attr.max_fast_reg_page_list_len = profile.mr_pages;
    attr.max_pi_fast_reg_page_list_len = profile.pi_pages;
    attr.kernel_cap_flags = bindings::ib_kernel_cap_flags_IBK_LOCAL_DMA_LKEY.into();
    0
}

/// Tells that the port is up.
///
/// # Safety
///
/// The arguments must be what `struct ib_device_ops` asks for, of a device of ours.
unsafe extern "C" fn query_port(
    _dev: *mut bindings::ib_device,
    _port: u32,
    attr: *mut bindings::ib_port_attr,
) -> c_int {
    // SAFETY: ib_core hands in attributes of its own.
    let attr = unsafe { &mut *attr };

    attr.state = bindings::ib_port_state_IB_PORT_ACTIVE;
    attr.gid_tbl_len = 1;
    attr.pkey_tbl_len = 1;
    0
}

/// Tells the protocol of the profile.
///
/// # Safety
///
/// The arguments must be what `struct ib_device_ops` asks for, of a device of ours.
unsafe extern "C" fn get_port_immutable(
    dev: *mut bindings::ib_device,
    _port: u32,
    immutable: *mut bindings::ib_port_immutable,
) -> c_int {
    // SAFETY: ib_core hands in a structure of its own.
    let immutable = unsafe { &mut *immutable };

    immutable.gid_tbl_len = 1;
    immutable.pkey_tbl_len = 1;
    immutable.core_cap_flags = if inner(dev).profile.iwarp {
        bindings::RDMA_CORE_CAP_PROT_IWARP
    } else {
        // A protocol that ib_core expects no GIDs and no management from.
        bindings::RDMA_CORE_CAP_PROT_RAW_PACKET
    };
    0
}

/// There are no GIDs that anybody would look at.
///
/// # Safety
///
/// The arguments must be what `struct ib_device_ops` asks for, of a device of ours.
unsafe extern "C" fn query_gid(
    _dev: *mut bindings::ib_device,
    _port: u32,
    _index: c_int,
    _gid: *mut bindings::ib_gid,
) -> c_int {
    0
}

/// Tells the default partition key.
///
/// # Safety
///
/// The arguments must be what `struct ib_device_ops` asks for, of a device of ours.
unsafe extern "C" fn query_pkey(
    _dev: *mut bindings::ib_device,
    _port: u32,
    _index: u16,
    pkey: *mut u16,
) -> c_int {
    // SAFETY: ib_core hands in a variable of its own.
    unsafe { *pkey = 0xffff };
    0
}

/// Makes or ends a protection domain, of which there is nothing to keep.
///
/// # Safety
///
/// The arguments must be what `struct ib_device_ops` asks for, of a device of ours.
unsafe extern "C" fn nothing_pd(
    _pd: *mut bindings::ib_pd,
    _udata: *mut bindings::ib_udata,
) -> c_int {
    0
}

/// Makes a completion queue, of which there is nothing to keep.
///
/// # Safety
///
/// The arguments must be what `struct ib_device_ops` asks for, of a device of ours.
unsafe extern "C" fn create_cq(
    _cq: *mut bindings::ib_cq,
    _attr: *const bindings::ib_cq_init_attr,
    _attrs: *mut bindings::uverbs_attr_bundle,
) -> c_int {
    0
}

/// Undoes [`create_cq`].
///
/// # Safety
///
/// The arguments must be what `struct ib_device_ops` asks for, of a device of ours.
unsafe extern "C" fn destroy_cq(
    _cq: *mut bindings::ib_cq,
    _udata: *mut bindings::ib_udata,
) -> c_int {
    0
}

/// Finds nothing: tests take completions from the device itself.
///
/// # Safety
///
/// The arguments must be what `struct ib_device_ops` asks for, of a device of ours.
unsafe extern "C" fn poll_cq(
    _cq: *mut bindings::ib_cq,
    _entries: c_int,
    _wc: *mut bindings::ib_wc,
) -> c_int {
    0
}

/// There is nobody to be notified.
///
/// # Safety
///
/// The arguments must be what `struct ib_device_ops` asks for, of a device of ours.
unsafe extern "C" fn req_notify_cq(_cq: *mut bindings::ib_cq, _flags: u32) -> c_int {
    0
}

/// Makes a queue pair, and keeps what it was asked for.
///
/// # Safety
///
/// The arguments must be what `struct ib_device_ops` asks for, of a device of ours.
unsafe extern "C" fn create_qp(
    qp: *mut bindings::ib_qp,
    attr: *mut bindings::ib_qp_init_attr,
    _udata: *mut bindings::ib_udata,
) -> c_int {
    // SAFETY: ib_core hands in a QP of the size of ours, and attributes.
    let (raw, caps) = unsafe { (&mut *qp.cast::<RawQp>(), (*attr).cap) };
    let mut state = inner(raw.base.device).lock();

    raw.caps = caps;
    state.qp_caps = caps;
    if state.plan.create_qp {
        return EOPNOTSUPP.to_errno();
    }
    0
}

/// Undoes [`create_qp`].
///
/// # Safety
///
/// The arguments must be what `struct ib_device_ops` asks for, of a device of ours.
unsafe extern "C" fn destroy_qp(
    _qp: *mut bindings::ib_qp,
    _udata: *mut bindings::ib_udata,
) -> c_int {
    0
}

/// A new MR, or its error as a pointer.
fn new_mr(pd: *mut bindings::ib_pd, limit: u32) -> *mut bindings::ib_mr {
    let make = || -> Result<*mut bindings::ib_mr> {
        // SAFETY: ib_core hands in a PD of a device of ours.
        let inner = inner(unsafe { (*pd).device });

        if let Some(e) = due(&mut inner.lock().plan.alloc_mr) {
            return Err(e);
        }

        // SAFETY: Zeroes mean no pointers and numbers of 0.
        let base: bindings::ib_mr = unsafe { mem::zeroed() };
        let mut mr = KBox::new(
            RawMr {
                base,
                limit,
                mapped: Layout::new(limit)?,
                registered: Layout::new(limit)?,
                registration: None,
                last_key: None,
            },
            GFP_KERNEL,
        )?;

        let mut state = inner.lock();
        // The low byte is the part of a key that its owner may choose.
        mr.base.lkey = (state.next_mr << 8) | (state.next_mr & 0xff);
        mr.base.rkey = mr.base.lkey | MR_RKEY;
        state.next_mr += 1;
        state
            .mrs
            .push_within_capacity(NonNull::from(&mut *mr))
            .map_err(|_| ENOMEM)?;
        Ok(KBox::into_raw(mr).cast())
    };

    make().unwrap_or_else(|e| e.to_ptr())
}

/// Makes an MR.
///
/// # Safety
///
/// The arguments must be what `struct ib_device_ops` asks for, of a device of ours.
unsafe extern "C" fn alloc_mr(
    pd: *mut bindings::ib_pd,
    _kind: bindings::ib_mr_type,
    max_num_sg: u32,
) -> *mut bindings::ib_mr {
    new_mr(pd, max_num_sg)
}

/// Makes an MR for data and protection information.
///
/// # Safety
///
/// The arguments must be what `struct ib_device_ops` asks for, of a device of ours.
unsafe extern "C" fn alloc_mr_integrity(
    pd: *mut bindings::ib_pd,
    max_num_data_sg: u32,
    _max_num_meta_sg: u32,
) -> *mut bindings::ib_mr {
    new_mr(pd, max_num_data_sg)
}

/// Undoes [`new_mr`].
///
/// # Safety
///
/// The arguments must be what `struct ib_device_ops` asks for, of a device of ours.
unsafe extern "C" fn dereg_mr(mr: *mut bindings::ib_mr, _udata: *mut bindings::ib_udata) -> c_int {
    // SAFETY: ib_core gives back what `new_mr` has made.
    let mr = unsafe { KBox::from_raw(mr.cast::<RawMr>()) };
    let this = ptr::from_ref::<RawMr>(&mr);

    inner(mr.base.device)
        .lock()
        .mrs
        .retain(|other| !ptr::eq(other.as_ptr(), this));
    0
}

/// Adds a page to what is mapped into an MR.
///
/// # Safety
///
/// The arguments must be what `struct ib_device_ops` asks for, of a device of ours.
unsafe extern "C" fn set_page(mr: *mut bindings::ib_mr, addr: u64) -> c_int {
    // SAFETY: ib_core calls this for the MR of `map_mr_sg`.
    let mr = unsafe { RawMr::from_raw(mr) };
    let piece = Piece {
        addr,
        len: PAGE.into(),
    };

    if mr.mapped.data.len() >= mr.limit as usize
        || mr.mapped.data.push_within_capacity(piece).is_err()
    {
        return ENOMEM.to_errno();
    }
    0
}

/// Maps a list into an MR.
///
/// # Safety
///
/// The arguments must be what `struct ib_device_ops` asks for, of a device of ours.
unsafe extern "C" fn map_mr_sg(
    mr: *mut bindings::ib_mr,
    sg: *mut bindings::scatterlist,
    nents: c_int,
    offset: *mut c_uint,
) -> c_int {
    // SAFETY: ib_core hands in an MR of ours, which the caller has for itself.
    let this = unsafe { RawMr::from_raw(mr) };
    let nents = match bad_map(this) {
        Some(BadMap::Error(e)) => return e.to_errno(),
        Some(BadMap::Short(0)) => return 0,
        Some(BadMap::Short(n)) => n.min(nents),
        None => nents,
    };

    this.mapped.data.clear();
    // SAFETY: The caller hands in such a list.
    unsafe { bindings::ib_sg_to_pages(mr, sg, nents, offset, Some(set_page)) }
}

/// The failure planned for this mapping of a list, if any.
fn bad_map(mr: &RawMr) -> Option<BadMap> {
    let mut state = inner(mr.base.device).lock();

    state.counts.map_mr += 1;
    due(&mut state.plan.map_mr)
}

/// Maps two lists into an MR for data and protection information.
///
/// # Safety
///
/// The arguments must be what `struct ib_device_ops` asks for, of a device of ours.
unsafe extern "C" fn map_mr_sg_pi(
    mr: *mut bindings::ib_mr,
    data_sg: *mut bindings::scatterlist,
    data_nents: c_int,
    data_offset: *mut c_uint,
    meta_sg: *mut bindings::scatterlist,
    meta_nents: c_int,
    meta_offset: *mut c_uint,
) -> c_int {
    // SAFETY: ib_core hands in an MR of ours, which the caller has for itself.
    let this = unsafe { RawMr::from_raw(mr) };
    match bad_map(this) {
        Some(BadMap::Error(e)) => return e.to_errno(),
        Some(BadMap::Short(_)) => return EINVAL.to_errno(),
        None => {}
    }

    // SAFETY: The caller hands in such lists, and offsets or none.
    let (data, meta) = unsafe {
        (
            pieces(&mut this.mapped.data, data_sg, data_nents, data_offset),
            pieces(&mut this.mapped.meta, meta_sg, meta_nents, meta_offset),
        )
    };
    let (Ok(data), Ok(meta)) = (data, meta) else {
        return ENOMEM.to_errno();
    };

    this.base.iova = this.mapped.data.first().map_or(0, |piece| piece.addr);
    this.base.length = data + meta;
    // SAFETY: An integrity MR has attributes.
    // CAST: Tests do not have that much of it.
    unsafe { (*this.base.sig_attrs).meta_length = meta as c_int };
    0
}

/// Writes down the DMA side of a list, without the first bytes of it where there is an offset.
/// Returns its number of bytes.
///
/// # Safety
///
/// `sg` must head a list of `nents` entries, or `nents` be 0. `offset` must be null or valid.
unsafe fn pieces(
    to: &mut KVVec<Piece>,
    sg: *mut bindings::scatterlist,
    nents: i32,
    offset: *const c_uint,
) -> Result<u64> {
    // SAFETY: By this function's safety requirement.
    let mut skip = unsafe { offset.as_ref() }.map_or(0, |skip| u64::from(*skip));
    let mut total = 0;

    to.clear();
    // SAFETY: By this function's safety requirement.
    for this in unsafe { super::dma::entries(sg, nents) } {
        // SAFETY: As above.
        let piece = unsafe {
            Piece {
                addr: (*this).dma_address + skip,
                len: u64::from(crate::lists::dma_len(this))
                    .checked_sub(mem::take(&mut skip))
                    .ok_or(EINVAL)?,
            }
        };

        to.push_within_capacity(piece).map_err(|_| ENOMEM)?;
        total += piece.len;
    }
    Ok(total)
}

impl State {
    /// The MR that a key names, whether it is registered or not.
    pub(super) fn mr(&self, key: u32) -> Option<NonNull<RawMr>> {
        self.mrs
            .iter()
            // SAFETY: MRs that are listed exist; their keys are read at a time of one owner.
            .find(|mr| unsafe { (*mr.as_ptr()).base.lkey >> 8 == key >> 8 })
            .copied()
    }
}
