// SPDX-License-Identifier: GPL-2.0

//! A ULP that exists for the tests alone: it moves data over a real RDMA link through the exported
//! functions of the RDMA READ/WRITE API and compares what arrives.
//!
//! `loopback_kunit.c` lists the cases. One QP, the client's, posts; the other one's memory is what
//! it reads and writes.

mod bindings;
mod loopback_link;
mod loopback_memory;
mod loopback_report;

use core::mem::MaybeUninit;
use core::ptr;

use kernel::error::to_result;
use kernel::prelude::*;

use crate::loopback_link::{
    Link,
    Notice, //
};
use crate::loopback_memory::{
    Layout,
    Local,
    Pattern,
    Remote,
    Table, //
};
use crate::loopback_report::{
    ensure,
    Failure,
    Outcome,
    Report, //
};

/// Prefix of messages printed through the kernel crate's `pr_*!` macros.
const __LOG_PREFIX: &[u8] = b"rdma_rw_loopback\0";

/// Size of a page, as it counts here and for MRs.
const PAGE: usize = kernel::page::PAGE_SIZE;

/// Contexts that are in flight at once.
const IN_FLIGHT: usize = 256;

/// Contexts that are in flight when the QP fails.
const AT_ERROR: usize = 128;

/// MRs of a pool: for the contexts in flight, and for the one that takes several.
pub(crate) const MAX_CTXS: u32 = IN_FLIGHT as u32 + 8;

/// Names of the paths, by the tag of a context.
const PATHS: [&str; 5] = ["single", "multi", "MR", "signature", "IOVA"];
const SINGLE: usize = 0;
const MULTI: usize = 1;
const MR: usize = 2;

/// A C structure whose fields may all be zero.
///
/// # Safety
///
/// They may.
pub(crate) unsafe trait Zero: Sized {
    fn zero() -> Self {
        // SAFETY: By the trait's safety requirement.
        unsafe { MaybeUninit::zeroed().assume_init() }
    }
}

macro_rules! zero {
    ($($ty:ident)*) => {
        // SAFETY: Numbers and pointers alone.
        $(unsafe impl Zero for bindings::$ty {})*
    };
}
zero! {
    ib_qp_attr
    ib_qp_cap
    ib_qp_init_attr
    ib_recv_wr
    ib_send_wr
    rdma_conn_param
    rdma_rw_loopback_case
    scatterlist
    sockaddr_in
}

/// Everything that the cases share.
pub(crate) struct Loopback {
    link: Link,
    local: Local,
    remote: Remote,
    pattern: Pattern,
    force_mr: bool,
    rust: bool,
    /// How often each path was taken, by a READ and by a WRITE.
    paths: [[u32; PATHS.len()]; 2],
    /// Bytes that arrived and were compared.
    bytes: u64,
}

/// What a case is about.
type Case = bindings::rdma_rw_loopback_case;

/// A transfer: its direction, local memory and the place of the remote memory.
struct Transfer<'a> {
    read: bool,
    table: &'a Table,
    /// Bytes of the table to leave out.
    offset: usize,
    /// Where in the remote memory.
    at: usize,
}

/// An initialised context, destroyed by [`Context::destroy`].
struct Context {
    raw: KBox<MaybeUninit<bindings::rdma_rw_ctx>>,
}

impl Context {
    /// A context for a transfer over the client's QP.
    fn new(link: &Link, remote: &Remote, transfer: &Transfer<'_>) -> Outcome<(Self, c_int)> {
        let mut raw = KBox::<bindings::rdma_rw_ctx>::new_uninit(GFP_KERNEL)?;
        let (qp, port) = (link.client_qp(), link.port());
        let (addr, rkey) = (remote.addr(transfer.at), link.rkey());
        let dir = dma_direction(transfer.read);

        // SAFETY: The QP is valid, the context stays where it is, and the table outlives it.
        let ret = unsafe {
            match transfer.table {
                Table::Sg(list) => bindings::rdma_rw_ctx_init(
                    raw.as_mut_ptr(),
                    qp,
                    port,
                    list.as_ptr().cast_mut(),
                    list.len() as u32,
                    transfer.offset as u32,
                    addr,
                    rkey,
                    dir,
                ),
                Table::Bvec(list, size) => bindings::rdma_rw_ctx_init_bvec(
                    raw.as_mut_ptr(),
                    qp,
                    port,
                    list.as_ptr(),
                    list.len() as u32,
                    bindings::bvec_iter {
                        bi_sector: 0,
                        bi_size: *size as u32,
                        bi_idx: 0,
                        bi_offset: 0,
                    },
                    addr,
                    rkey,
                    dir,
                ),
            }
        };

        ensure!(ret > 0, "init returned {ret}");
        Ok((Self { raw }, ret))
    }

    /// Which path the context took, as an index of [`PATHS`].
    fn path(&self) -> usize {
        // SAFETY: Init has written it.
        unsafe { (*self.raw.as_ptr()).type_ as usize }
    }

    /// Posts the context, with a notice or a work request at its end.
    fn post(
        &mut self,
        link: &Link,
        notice: *mut bindings::ib_cqe,
        chain: *mut bindings::ib_send_wr,
    ) -> Outcome {
        // SAFETY: The context is initialised and its QP valid, and the caller keeps whatever is at
        // its end.
        to_result(unsafe {
            bindings::rdma_rw_ctx_post(
                self.raw.as_mut_ptr(),
                link.client_qp(),
                link.port(),
                notice,
                chain,
            )
        })
        .map_err(|e| Failure::from_error("post", e))
    }

    /// Releases the context, with which the device is done.
    fn destroy(mut self, link: &Link, transfer: &Transfer<'_>) {
        let dir = dma_direction(transfer.read);

        // SAFETY: The context is initialised, with this table, and the device is done with it.
        unsafe {
            match transfer.table {
                Table::Sg(list) => bindings::rdma_rw_ctx_destroy(
                    self.raw.as_mut_ptr(),
                    link.client_qp(),
                    link.port(),
                    list.as_ptr().cast_mut(),
                    list.len() as u32,
                    dir,
                ),
                Table::Bvec(list, _) => bindings::rdma_rw_ctx_destroy_bvec(
                    self.raw.as_mut_ptr(),
                    link.client_qp(),
                    link.port(),
                    list.as_ptr(),
                    list.len() as u32,
                    dir,
                ),
            }
        }
    }
}

fn dma_direction(read: bool) -> bindings::dma_data_direction {
    if read {
        bindings::dma_data_direction_DMA_FROM_DEVICE
    } else {
        bindings::dma_data_direction_DMA_TO_DEVICE
    }
}

impl Loopback {
    /// Connects the two QPs and takes all memory.
    fn new() -> Outcome<KBox<Self>> {
        Ok(KBox::new(
            Self {
                link: Link::new()?,
                local: Local::new()?,
                remote: Remote::new()?,
                pattern: Pattern::new()?,
                // SAFETY: There is nothing to be wrong.
                force_mr: unsafe { bindings::rdma_rw_loopback_force_mr() },
                // SAFETY: As above.
                rust: unsafe { bindings::rdma_rw_loopback_rust() },
                paths: [[0; PATHS.len()]; 2],
                bytes: 0,
            },
            GFP_KERNEL,
        )?)
    }

    /// Number of bytes that a case is about.
    fn size(&self, case: &Case) -> usize {
        let unit = match case.unit {
            bindings::rdma_rw_loopback_unit_RDMA_RW_LOOPBACK_BYTE => 1,
            bindings::rdma_rw_loopback_unit_RDMA_RW_LOOPBACK_PAGE => PAGE,
            bindings::rdma_rw_loopback_unit_RDMA_RW_LOOPBACK_WR => {
                self.link.max_sge(case.read) as usize * PAGE
            }
            bindings::rdma_rw_loopback_unit_RDMA_RW_LOOPBACK_MR => {
                self.link.mr_pages() as usize * PAGE
            }
            _ => Remote::SIZE,
        };

        (unit * case.nr as usize).saturating_add_signed(case.extra as isize)
    }

    /// Whether a transfer has to go through MRs.
    fn requires_mr(&self, read: bool) -> bool {
        self.force_mr || (read && self.link.is_iwarp())
    }

    /// Notes the path of a context and compares it with what the device calls for.
    fn note_path(&mut self, context: &Context, transfer: &Transfer<'_>) -> Outcome {
        let path = context.path();
        let sges = if self.rust && matches!(transfer.table, Table::Bvec(..)) {
            transfer.table.runs()
        } else {
            transfer.table.entries_from(transfer.offset)
        };
        let want = if self.requires_mr(transfer.read) {
            MR
        } else if sges == 1 {
            SINGLE
        } else {
            MULTI
        };

        ensure!(
            path == want,
            "path {path} was taken and not {}",
            PATHS[want]
        );
        self.paths[usize::from(transfer.read)][path] += 1;
        Ok(())
    }

    /// No context is alive: all MRs are in their pools.
    fn expect_pools_full(&self) -> Outcome {
        let used = self.link.mrs_used();

        ensure!(used == 0, "{used} MRs have not gone back to their pool");
        Ok(())
    }

    /// Makes the source of a transfer what it is to be, and its target something else.
    fn fill(&mut self, transfer: &Transfer<'_>, seed: usize) {
        let len = transfer.table.size() - transfer.offset;

        if transfer.read {
            self.local.clear(transfer.table);
            self.remote
                .write(transfer.at, self.pattern.bytes(seed, len));
        } else {
            self.local
                .write(transfer.table, transfer.offset, self.pattern.from(seed));
            self.remote.clear(transfer.at, len);
        }
    }

    /// The target of a transfer has what its source has, and nothing around it has changed.
    fn compare(&mut self, transfer: &Transfer<'_>, seed: usize) -> Outcome {
        let len = transfer.table.size() - transfer.offset;

        if transfer.read {
            self.local
                .compare(transfer.table, transfer.offset, self.pattern.from(seed))?;
        } else {
            self.remote
                .compare(transfer.at, self.pattern.bytes(seed, len))?;
        }
        self.bytes += len as u64;
        Ok(())
    }

    /// Makes one transfer from beginning to end.
    fn transfer(&mut self, transfer: &Transfer<'_>, seed: usize) -> Outcome {
        self.fill(transfer, seed);

        let (mut context, _) = Context::new(&self.link, &self.remote, transfer)?;
        let path = self.note_path(&context, transfer);
        let notice = Notice::new()?;
        let done = context
            .post(&self.link, notice.as_raw(), ptr::null_mut())
            .and_then(|()| {
                notice.wait().inspect_err(|_| {
                    // Nothing may be in flight when the context goes.
                    self.link.stop();
                })
            });

        context.destroy(&self.link, transfer);
        path?;
        done?;
        self.compare(transfer, seed)?;
        self.expect_pools_full()
    }

    /// A fresh connection, where the last one is of no use any more.
    fn reconnect_if_stopped(&mut self) -> Outcome {
        if self.link.is_stopped() {
            self.link = Link::new()?;
        }
        Ok(())
    }
}

/// Every size, at odd and even places of pages, in lists without and with gaps.
fn transfer(this: &mut Loopback, case: &Case) -> Outcome {
    const STARTS: [usize; 4] = [0, 1, 512, PAGE - 1];

    let size = this.size(case);
    for (seed, start) in STARTS.into_iter().enumerate() {
        for layout in [Layout::Whole, Layout::Ragged] {
            let table = this.local.table(case.bvec, layout, start, size)?;
            // C does not register what has gaps, and Rust takes an MR for each piece.
            if this.requires_mr(case.read)
                && matches!(layout, Layout::Ragged)
                && (!this.rust || table.entries_from(0) > MAX_CTXS as usize)
            {
                continue;
            }

            // As odd as the place leaves room for.
            let at = (start ^ 5).min(Remote::SIZE - size);

            this.transfer(
                &Transfer {
                    read: case.read,
                    table: &table,
                    offset: 0,
                    at,
                },
                seed,
            )
            .map_err(|e| e.at(fmt!("start {start}, {layout:?}, {size} bytes")))?;
        }
    }
    Ok(())
}

/// An offset into the list: what lies before it stays out of the transfer.
fn offset(this: &mut Loopback, case: &Case) -> Outcome {
    let partly = case.offset as usize % PAGE != 0;
    if this.link.is_siw() && this.requires_mr(case.read) && partly {
        return Err(Failure::Skip(
            "siw registers a list from the start of its first entry, whatever the offset: see the case siw_offset",
        ));
    }

    let size = this.size(case);
    let table = this.local.table(false, Layout::Whole, 0, size)?;

    this.transfer(
        &Transfer {
            read: case.read,
            table: &table,
            offset: case.offset as usize,
            at: 3,
        },
        1,
    )
}

/// siw registers a list from the start of its first entry although it is told an offset, so the
/// bytes of a READ land too early by that much. No ULP can do anything about that. This shows that
/// it is still so, with whatever implementation of the API.
fn siw_offset(this: &mut Loopback, case: &Case) -> Outcome {
    if !this.link.is_siw() {
        return Err(Failure::Skip("a fault of siw, and this is another device"));
    }

    let size = this.size(case);
    let offset = case.offset as usize;
    let table = this.local.table(false, Layout::Whole, 0, size)?;
    let asked = Transfer {
        read: true,
        table: &table,
        offset,
        at: 3,
    };
    let right = this.transfer(&asked, 1);
    if right.is_ok() {
        let mut text = Report::new();

        text.add(fmt!("siw minds the offset of a list by now"));
        text.print();
        return Ok(());
    }

    // The same bytes, but from the start of the list.
    this.expect_pools_full()?;
    this.local
        .compare_early(&table, offset, this.pattern.from(1))
        .map_err(|e| e.at(fmt!("neither where they belong nor {offset} bytes early")))?;
    Err(Failure::Skip(
        "siw ignores the offset into the first entry: the bytes of a READ land too early by it",
    ))
}

/// A SEND behind a WRITE in one chain: who receives it finds the data in place.
fn chained(this: &mut Loopback, case: &Case) -> Outcome {
    let size = this.size(case);
    let table = this.local.table(case.bvec, Layout::Whole, 7, size)?;
    let transfer = Transfer {
        read: false,
        table: &table,
        offset: 0,
        at: (Remote::SIZE - size).min(9),
    };

    this.fill(&transfer, 3);

    let received = Notice::new()?;
    let sent = Notice::new()?;
    let message = this.link.message(size as u64);
    this.link.post_recv(&received)?;

    let (mut context, _) = Context::new(&this.link, &this.remote, &transfer)?;
    let path = this.note_path(&context, &transfer);
    let mut send = this.link.send_wr(&sent);
    let done = context
        .post(&this.link, ptr::null_mut(), &mut send)
        // The message is here, so the data is.
        .and_then(|()| received.wait())
        .and_then(|()| this.compare(&transfer, 3))
        .and_then(|()| sent.wait());
    if done.is_err() {
        this.link.stop();
    }

    context.destroy(&this.link, &transfer);
    path?;
    done?;
    let got = this.link.received();
    ensure!(got == message, "the message has become {got:#x}");
    this.expect_pools_full()
}

/// Local memory of the contexts that are in flight at once: a slice for each, at odd places.
fn slices(this: &Loopback, case: &Case, nr: usize, size: usize) -> Outcome<KVec<Table>> {
    let mut tables = KVec::with_capacity(nr, GFP_KERNEL)?;
    let pages = size.div_ceil(PAGE) + 1;

    for i in 0..nr {
        tables.push(
            this.local
                .table_from(i * pages, case.bvec, Layout::Whole, i * 16 % PAGE, size)?,
            GFP_KERNEL,
        )?;
    }
    Ok(tables)
}

/// Contexts that are posted one after another without waiting.
struct Posted<'a> {
    context: Context,
    transfer: Transfer<'a>,
    notice: KBox<Notice>,
}

/// Sets up a context for every table, and posts all.
fn post_all<'a>(
    this: &mut Loopback,
    case: &Case,
    tables: &'a [Table],
    posted: &mut KVec<Posted<'a>>,
) -> Outcome {
    for (i, table) in tables.iter().enumerate() {
        let transfer = Transfer {
            read: case.read,
            table,
            offset: 0,
            at: i * table.size(),
        };
        let notice = Notice::new()?;
        posted.reserve(1, GFP_KERNEL)?;

        let (context, _) = Context::new(&this.link, &this.remote, &transfer)
            .map_err(|e| e.at(fmt!("context {i}")))?;
        let path = this.note_path(&context, &transfer);

        posted.push(
            Posted {
                context,
                transfer,
                notice,
            },
            GFP_KERNEL,
        )?;
        path?;
    }
    for entry in posted.iter_mut() {
        entry
            .context
            .post(&this.link, entry.notice.as_raw(), ptr::null_mut())?;
        entry.notice.expect();
    }
    Ok(())
}

/// Many contexts in flight on one QP, each with a slice of the memory.
fn in_flight(this: &mut Loopback, case: &Case) -> Outcome {
    let tables = slices(this, case, IN_FLIGHT, Remote::SIZE / IN_FLIGHT)?;
    for (i, table) in tables.iter().enumerate() {
        let transfer = Transfer {
            read: case.read,
            table,
            offset: 0,
            at: i * table.size(),
        };
        // All of the remote memory is somebody's.
        this.local.clear(table);
        this.fill(&transfer, i);
    }

    let mut posted = KVec::new();
    let mut done = post_all(this, case, &tables, &mut posted);
    if done.is_err() {
        this.link.stop();
    }
    for entry in posted.iter() {
        if let Err(e) = entry.notice.wait_if_expected() {
            this.link.stop();
            done = done.and(Err(e));
        }
    }

    for (i, entry) in posted.into_iter().enumerate() {
        entry.context.destroy(&this.link, &entry.transfer);
        if done.is_ok() {
            done = this
                .compare_slice(&entry.transfer, i)
                .map_err(|e| e.at(fmt!("context {i}")));
        }
    }
    done?;
    this.expect_pools_full()
}

impl Loopback {
    /// As [`Loopback::compare`], where the memory around belongs to others.
    fn compare_slice(&mut self, transfer: &Transfer<'_>, seed: usize) -> Outcome {
        let len = transfer.table.size();

        if transfer.read {
            return self.compare(transfer, seed);
        }
        self.bytes += len as u64;
        self.remote
            .compare_inside(transfer.at, self.pattern.bytes(seed, len))
    }
}

/// The QP fails while contexts are in flight: each still completes, somehow, and everything that
/// was taken for it goes back.
fn qp_error(this: &mut Loopback, case: &Case) -> Outcome {
    let tables = slices(this, case, AT_ERROR, Remote::SIZE / AT_ERROR)?;
    let mut posted = KVec::new();
    let mut done = post_all(this, case, &tables, &mut posted);

    this.link.fail()?;
    let mut flushed = 0;
    for entry in posted.iter() {
        match entry.notice.wait_if_expected() {
            Err(Failure::Status(bindings::ib_wc_status_IB_WC_WR_FLUSH_ERR)) => flushed += 1,
            Err(Failure::Status(_)) | Ok(()) => {}
            Err(e) => done = done.and(Err(e)),
        }
    }
    this.link.stop();

    for entry in posted {
        entry.context.destroy(&this.link, &entry.transfer);
    }
    done?;
    ensure!(flushed > 0, "all was done before the QP failed");
    this.expect_pools_full()
}

/// What the cases before this one have reached, and all that they could.
fn paths(this: &mut Loopback, _case: &Case) -> Outcome {
    let mut text = Report::new();

    for (read, counts) in this.paths.iter().enumerate() {
        for (path, count) in PATHS.iter().zip(counts) {
            if *count != 0 {
                text.add(fmt!("{} {path}: {count}, ", ["WRITE", "READ"][read]));
            }
        }
    }
    text.add(fmt!("{} MiB compared", this.bytes >> 20));
    text.print();

    for read in [false, true] {
        let counts = &this.paths[usize::from(read)];
        let reached = if this.requires_mr(read) {
            counts[MR] != 0
        } else {
            counts[SINGLE] != 0 && counts[MULTI] != 0
        };
        ensure!(reached, "a path was left out: {counts:?}");
    }
    Ok(())
}

/// Runs the body of a case and says in C how it went.
///
/// # Safety
///
/// `this` must come from [`rdma_rw_loopback_up`], `case` be null or valid, and `report` writable.
unsafe fn run(
    this: *mut bindings::rdma_rw_loopback,
    case: *const Case,
    report: *mut bindings::rdma_rw_loopback_report,
    body: fn(&mut Loopback, &Case) -> Outcome,
) -> c_int {
    // SAFETY: By this function's safety requirement; KUnit runs one case at a time.
    let (this, case) = unsafe {
        (
            &mut *this.cast::<Loopback>(),
            case.as_ref().copied().unwrap_or_else(Case::zero),
        )
    };
    let outcome = this.reconnect_if_stopped().and_then(|()| body(this, &case));

    // SAFETY: By this function's safety requirement.
    unsafe { loopback_report::give(report, outcome) }
}

macro_rules! bodies {
    ($($body:ident)*) => {
        ::kernel::macros::paste! {
            $(
                /// The case, as C calls it.
                ///
                /// # Safety
                ///
                /// That of [`run`].
                #[no_mangle]
                unsafe extern "C" fn [<rdma_rw_loopback_ $body>](
                    this: *mut bindings::rdma_rw_loopback,
                    case: *const Case,
                    report: *mut bindings::rdma_rw_loopback_report,
                ) -> c_int {
                    // SAFETY: By this function's safety requirement.
                    unsafe { run(this, case, report, $body) }
                }
            )*
        }
    };
}

bodies! { transfer offset siw_offset chained in_flight qp_error paths }

/// Connects a device with itself.
///
/// # Safety
///
/// `this` and `report` must be writable.
#[no_mangle]
unsafe extern "C" fn rdma_rw_loopback_up(
    this: *mut *mut bindings::rdma_rw_loopback,
    report: *mut bindings::rdma_rw_loopback_report,
) -> c_int {
    let outcome = Loopback::new().map(|new| {
        // SAFETY: By this function's safety requirement.
        unsafe { *this = KBox::into_raw(new).cast() };
    });

    // SAFETY: By this function's safety requirement.
    unsafe { loopback_report::give(report, outcome) }
}

/// Takes the connection down.
///
/// # Safety
///
/// `this` must come from [`rdma_rw_loopback_up`], for the last time.
#[no_mangle]
unsafe extern "C" fn rdma_rw_loopback_down(this: *mut bindings::rdma_rw_loopback) {
    // SAFETY: By this function's safety requirement.
    drop(unsafe { KBox::from_raw(this.cast::<Loopback>()) });
}
