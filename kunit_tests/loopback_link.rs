// SPDX-License-Identifier: GPL-2.0

//! Two QPs of one device, connected with each other by rdma_cm.

use core::mem::offset_of;
use core::ptr;

use kernel::error::{
    from_err_ptr,
    to_result, //
};
use kernel::prelude::*;
use kernel::sync::atomic::{
    Acquire,
    Atomic,
    Relaxed,
    Release, //
};

use crate::bindings;
use crate::loopback_report::{
    ensure,
    Failure,
    Outcome, //
};
use crate::{
    Zero,
    MAX_CTXS, //
};

/// Work requests of a send queue beyond those that ib_core adds for contexts.
const SEND_WRS: u32 = 512;

/// Receive work requests.
const RECV_WRS: u32 = 16;

/// Entries of a completion queue: everything that can be signalled, several times over.
const CQES: c_int = 4096;

/// READs that may be under way at once.
const READ_DEPTH: u8 = 16;

/// How long rdma_cm may take for an address or a route.
const RESOLVE_MS: usize = 10_000;

/// A completion entry, and someone who waits for it.
#[repr(C)]
pub(crate) struct Notice {
    cqe: bindings::ib_cqe,
    done: bindings::completion,
    status: Atomic<u32>,
    expected: bool,
}

impl Notice {
    pub(crate) fn new() -> Outcome<KBox<Self>> {
        let mut this = KBox::<Self>::new_uninit(GFP_KERNEL)?;
        let raw = this.as_mut_ptr();

        // SAFETY: Every field is written, where it stays.
        unsafe {
            (&raw mut (*raw).cqe).write(bindings::ib_cqe {
                done: Some(notice_done),
            });
            bindings::rdma_rw_loopback_init_completion(&raw mut (*raw).done);
            (&raw mut (*raw).status).write(Atomic::new(0));
            (&raw mut (*raw).expected).write(false);
            Ok(this.assume_init())
        }
    }

    /// The completion entry for a work request.
    pub(crate) fn as_raw(&self) -> *mut bindings::ib_cqe {
        (&raw const self.cqe).cast_mut()
    }

    /// A work request with this entry has been posted.
    pub(crate) fn expect(&mut self) {
        self.expected = true;
    }

    /// Waits for the completion, which has to be one of success.
    pub(crate) fn wait(&self) -> Outcome {
        // SAFETY: It is initialised, and its lock guards it.
        let done = unsafe { bindings::rdma_rw_loopback_wait((&raw const self.done).cast_mut()) };
        ensure!(done, "nothing has completed");

        match self.status.load(Acquire) {
            bindings::ib_wc_status_IB_WC_SUCCESS => Ok(()),
            status => Err(Failure::Status(status)),
        }
    }

    /// The same, where something has been posted.
    pub(crate) fn wait_if_expected(&self) -> Outcome {
        if self.expected {
            self.wait()
        } else {
            Ok(())
        }
    }
}

/// What a completion queue calls for a [`Notice`].
///
/// # Safety
///
/// `wc` must be a completion whose entry is the one of a notice that still waits.
unsafe extern "C" fn notice_done(_cq: *mut bindings::ib_cq, wc: *mut bindings::ib_wc) {
    // SAFETY: By this function's safety requirement.
    unsafe {
        let cqe = (*wc).__bindgen_anon_1.wr_cqe;
        let this = cqe.byte_sub(offset_of!(Notice, cqe)).cast::<Notice>();

        (*this).status.store((*wc).status, Release);
        bindings::complete(&raw mut (*this).done);
    }
}

/// One side of the connection.
///
/// Events of rdma_cm come one after another, and each is waited for.
#[repr(C)]
struct Side {
    id: *mut bindings::rdma_cm_id,
    /// The id that a request to connect has brought.
    incoming: *mut bindings::rdma_cm_id,
    pd: *mut bindings::ib_pd,
    cq: *mut bindings::ib_cq,
    happened: bindings::completion,
    event: Atomic<u32>,
}

/// What rdma_cm calls.
///
/// # Safety
///
/// The context of `id` must be its side, and of an incoming id that of the listening one; `event`
/// must be valid.
unsafe extern "C" fn side_event(
    id: *mut bindings::rdma_cm_id,
    event: *mut bindings::rdma_cm_event,
) -> c_int {
    // SAFETY: By this function's safety requirement.
    unsafe {
        let side = (*id).context.cast::<Side>();
        let event = (*event).event;

        match event {
            bindings::rdma_cm_event_type_RDMA_CM_EVENT_CONNECT_REQUEST => (*side).incoming = id,
            // The end of a connection is nothing to wait for.
            bindings::rdma_cm_event_type_RDMA_CM_EVENT_DISCONNECTED
            | bindings::rdma_cm_event_type_RDMA_CM_EVENT_TIMEWAIT_EXIT => return 0,
            _ => {}
        }
        (*side).event.store(event, Release);
        bindings::complete(&raw mut (*side).happened);
    }
    0
}

impl Side {
    fn new() -> Outcome<KBox<Self>> {
        let mut this = KBox::<Self>::new_uninit(GFP_KERNEL)?;
        let raw = this.as_mut_ptr();

        // SAFETY: Every field is written, where it stays.
        unsafe {
            (&raw mut (*raw).id).write(ptr::null_mut());
            (&raw mut (*raw).incoming).write(ptr::null_mut());
            (&raw mut (*raw).pd).write(ptr::null_mut());
            (&raw mut (*raw).cq).write(ptr::null_mut());
            bindings::rdma_rw_loopback_init_completion(&raw mut (*raw).happened);
            (&raw mut (*raw).event).write(Atomic::new(0));

            let mut this = this.assume_init();
            let context = ptr::from_mut(&mut *this).cast::<c_void>();
            this.id = from_err_ptr(bindings::rdma_rw_loopback_create_id(
                Some(side_event),
                context,
            ))
            .map_err(|e| Failure::from_error("rdma_create_id", e))?;
            Ok(this)
        }
    }

    /// Waits for an event, which has to be this one.
    fn wait(&self, want: bindings::rdma_cm_event_type) -> Outcome {
        // SAFETY: It is initialised, and its lock guards it.
        let happened =
            unsafe { bindings::rdma_rw_loopback_wait((&raw const self.happened).cast_mut()) };
        ensure!(happened, "rdma_cm says nothing instead of event {want}");

        let got = self.event.load(Acquire);
        ensure!(got == want, "rdma_cm says event {got}, not {want}");
        Ok(())
    }

    fn qp(&self) -> *mut bindings::ib_qp {
        // SAFETY: The id is valid.
        unsafe { (*self.id).qp }
    }

    /// Makes the QP.
    fn create_qp(&mut self) -> Outcome {
        // SAFETY: The id is bound to a device by now, and everything made here lives until drop.
        unsafe {
            let device = (*self.id).device;

            ensure!(
                (*device).dma_device.is_null(),
                "the link is not one of a software device"
            );
            self.pd = from_err_ptr(bindings::rdma_rw_loopback_alloc_pd(device))
                .inspect_err(|_| self.pd = ptr::null_mut())
                .map_err(|e| Failure::from_error("ib_alloc_pd", e))?;
            self.cq = from_err_ptr(bindings::rdma_rw_loopback_alloc_cq(device, CQES))
                .inspect_err(|_| self.cq = ptr::null_mut())
                .map_err(|e| Failure::from_error("ib_alloc_cq", e))?;

            let mut attr = bindings::ib_qp_init_attr {
                send_cq: self.cq,
                recv_cq: self.cq,
                cap: bindings::ib_qp_cap {
                    max_send_wr: SEND_WRS,
                    max_recv_wr: RECV_WRS,
                    max_send_sge: (*device).attrs.max_send_sge,
                    max_recv_sge: 1,
                    max_rdma_ctxs: MAX_CTXS,
                    ..bindings::ib_qp_cap::zero()
                },
                sq_sig_type: bindings::ib_sig_type_IB_SIGNAL_REQ_WR,
                qp_type: bindings::ib_qp_type_IB_QPT_RC,
                port_num: (*self.id).port_num,
                ..bindings::ib_qp_init_attr::zero()
            };
            to_result(bindings::rdma_create_qp(self.id, self.pd, &mut attr))
                .map_err(|e| Failure::from_error("rdma_create_qp", e))
        }
    }

    fn conn_param() -> bindings::rdma_conn_param {
        bindings::rdma_conn_param {
            responder_resources: READ_DEPTH,
            initiator_depth: READ_DEPTH,
            retry_count: 7,
            rnr_retry_count: 7,
            ..bindings::rdma_conn_param::zero()
        }
    }
}

impl Drop for Side {
    fn drop(&mut self) {
        // SAFETY: All there is, is valid, and goes in the reverse order of its coming.
        unsafe {
            if !self.qp().is_null() {
                bindings::rdma_disconnect(self.id);
                bindings::ib_drain_qp(self.qp());
                bindings::rdma_destroy_qp(self.id);
            }
            if !self.cq.is_null() {
                bindings::ib_free_cq(self.cq);
            }
            if !self.pd.is_null() {
                bindings::ib_dealloc_pd_user(self.pd, ptr::null_mut());
            }
            bindings::rdma_destroy_id(self.id);
            if !self.incoming.is_null() && self.incoming != self.id {
                bindings::rdma_destroy_id(self.incoming);
            }
        }
    }
}

/// Memory of the messages that SENDs carry.
struct Message {
    sge: bindings::ib_sge,
    value: KBox<u64>,
}

impl Message {
    fn new(pd: *mut bindings::ib_pd) -> Outcome<Self> {
        let value = KBox::new(0u64, GFP_KERNEL)?;

        Ok(Self {
            sge: bindings::ib_sge {
                addr: ptr::from_ref(&*value) as u64,
                length: size_of::<u64>() as u32,
                // SAFETY: The PD is valid.
                lkey: unsafe { (*pd).local_dma_lkey },
            },
            value,
        })
    }

    fn read(&self) -> u64 {
        // SAFETY: It is valid. The device may have written it.
        unsafe { ptr::from_ref(&*self.value).read_volatile() }
    }
}

/// A connection over a device with itself.
pub(crate) struct Link {
    // The order of their going.
    client: KBox<Side>,
    server: KBox<Side>,
    sent: Message,
    received: Message,
    stopped: Atomic<u32>,
}

impl Link {
    /// Connects.
    pub(crate) fn new() -> Outcome<Self> {
        let mut address = bindings::sockaddr_in::zero();
        let sockaddr = (&raw mut address).cast::<bindings::sockaddr>();
        let failed = |what| move |e| Failure::from_error(what, e);
        let mut server = Side::new()?;
        let mut client = Side::new()?;

        // SAFETY: Both ids are valid, and the address is complete.
        unsafe {
            to_result(bindings::rdma_rw_loopback_address(&mut address))
                .map_err(failed("the parameter address"))?;
            to_result(bindings::rdma_bind_addr(server.id, sockaddr))
                .map_err(failed("rdma_bind_addr"))?;
            to_result(bindings::rdma_listen(server.id, 1)).map_err(failed("rdma_listen"))?;

            to_result(bindings::rdma_resolve_addr(
                client.id,
                ptr::null_mut(),
                sockaddr,
                RESOLVE_MS,
            ))
            .map_err(failed("rdma_resolve_addr"))?;
            client.wait(bindings::rdma_cm_event_type_RDMA_CM_EVENT_ADDR_RESOLVED)?;
            to_result(bindings::rdma_resolve_route(client.id, RESOLVE_MS))
                .map_err(failed("rdma_resolve_route"))?;
            client.wait(bindings::rdma_cm_event_type_RDMA_CM_EVENT_ROUTE_RESOLVED)?;
            client.create_qp()?;
            to_result(bindings::rdma_connect(client.id, &mut Side::conn_param()))
                .map_err(failed("rdma_connect"))?;

            // The listening id has done its work when the other one has come.
            server.wait(bindings::rdma_cm_event_type_RDMA_CM_EVENT_CONNECT_REQUEST)?;
            let listening = server.id;
            server.id = server.incoming;
            server.incoming = listening;
            server.create_qp()?;
            bindings::rdma_lock_handler(server.id);
            let accepted = bindings::rdma_accept(server.id, &mut Side::conn_param());
            bindings::rdma_unlock_handler(server.id);
            to_result(accepted).map_err(failed("rdma_accept"))?;
            client.wait(bindings::rdma_cm_event_type_RDMA_CM_EVENT_ESTABLISHED)?;
            server.wait(bindings::rdma_cm_event_type_RDMA_CM_EVENT_ESTABLISHED)?;
        }

        let this = Self {
            sent: Message::new(client.pd)?,
            received: Message::new(server.pd)?,
            client,
            server,
            stopped: Atomic::new(0),
        };
        let used = this.mrs_used();
        ensure!(used == 0, "a new QP has {used} MRs in use");
        Ok(this)
    }

    /// The QP that posts.
    pub(crate) fn client_qp(&self) -> *mut bindings::ib_qp {
        self.client.qp()
    }

    pub(crate) fn port(&self) -> u32 {
        // SAFETY: The id is valid.
        unsafe { (*self.client.id).port_num }
    }

    fn device(&self) -> &bindings::ib_device {
        // SAFETY: The id is bound to a device, which it holds.
        unsafe { &*(*self.client.id).device }
    }

    /// Key of all memory of the peer.
    pub(crate) fn rkey(&self) -> u32 {
        // SAFETY: The PD is valid.
        unsafe { (*self.server.pd).unsafe_global_rkey }
    }

    pub(crate) fn is_iwarp(&self) -> bool {
        // SAFETY: A registered device has data for all of its ports.
        let flags = unsafe {
            (*self.device().port_data.add(self.port() as usize))
                .immutable
                .core_cap_flags
        };

        flags & bindings::RDMA_CORE_CAP_PROT_IWARP != 0
    }

    pub(crate) fn is_siw(&self) -> bool {
        self.device().ops.driver_id == bindings::rdma_driver_id_RDMA_DRIVER_SIW
    }

    /// SGEs of a work request.
    pub(crate) fn max_sge(&self, read: bool) -> u32 {
        // SAFETY: The QP is valid.
        unsafe {
            if read {
                (*self.client_qp()).max_read_sge
            } else {
                (*self.client_qp()).max_write_sge
            }
        }
    }

    /// Pages of an MR.
    pub(crate) fn mr_pages(&self) -> u32 {
        self.device().attrs.max_fast_reg_page_list_len.min(256)
    }

    /// MRs that are out of their pools.
    pub(crate) fn mrs_used(&self) -> c_int {
        // SAFETY: Both QPs are valid.
        unsafe { (*self.client.qp()).mrs_used + (*self.server.qp()).mrs_used }
    }

    /// Puts a value into the next message.
    pub(crate) fn message(&mut self, size: u64) -> u64 {
        let value = size ^ 0x5eed_0000_0000_0000;

        *self.sent.value = value;
        *self.received.value = 0;
        value
    }

    /// The last message that was received.
    pub(crate) fn received(&self) -> u64 {
        self.received.read()
    }

    /// Makes the server ready for a message.
    pub(crate) fn post_recv(&mut self, notice: &Notice) -> Outcome {
        let wr = bindings::ib_recv_wr {
            __bindgen_anon_1: bindings::ib_recv_wr__bindgen_ty_1 {
                wr_cqe: notice.as_raw(),
            },
            sg_list: &mut self.received.sge,
            num_sge: 1,
            ..bindings::ib_recv_wr::zero()
        };

        // SAFETY: The QP is valid, and so is the memory.
        to_result(unsafe { bindings::rdma_rw_loopback_post_recv(self.server.qp(), &wr) })
            .map_err(|e| Failure::from_error("ib_post_recv", e))
    }

    /// A work request that sends the message.
    pub(crate) fn send_wr(&mut self, notice: &Notice) -> bindings::ib_send_wr {
        bindings::ib_send_wr {
            __bindgen_anon_1: bindings::ib_send_wr__bindgen_ty_1 {
                wr_cqe: notice.as_raw(),
            },
            sg_list: &mut self.sent.sge,
            num_sge: 1,
            opcode: bindings::ib_wr_opcode_IB_WR_SEND,
            send_flags: bindings::ib_send_flags_IB_SEND_SIGNALED,
            ..bindings::ib_send_wr::zero()
        }
    }

    /// Puts the QP that posts into the error state.
    pub(crate) fn fail(&self) -> Outcome {
        let mut attr = bindings::ib_qp_attr {
            qp_state: bindings::ib_qp_state_IB_QPS_ERR,
            ..bindings::ib_qp_attr::zero()
        };

        // SAFETY: The QP is valid.
        to_result(unsafe {
            bindings::ib_modify_qp(
                self.client_qp(),
                &mut attr,
                bindings::ib_qp_attr_mask_IB_QP_STATE as c_int,
            )
        })
        .map_err(|e| Failure::from_error("ib_modify_qp", e))
    }

    /// Ends all transfers; the connection is of no use any more.
    pub(crate) fn stop(&self) {
        if self.stopped.xchg(1, Relaxed) == 0 {
            // SAFETY: Both QPs are valid.
            unsafe {
                bindings::ib_drain_qp(self.client.qp());
                bindings::ib_drain_qp(self.server.qp());
            }
        }
    }

    pub(crate) fn is_stopped(&self) -> bool {
        self.stopped.load(Relaxed) != 0
    }
}
