// SPDX-License-Identifier: GPL-2.0

//! A case: a device, lists, and a sequence of calls. Plain values, so that it can be made from a
//! number, cut down and printed.

use core::ptr;

use kernel::prelude::*;

use crate::differential_device::PORT;
use crate::differential_random::Random;

/// Contexts that a case can have at once.
pub(crate) const SLOTS: usize = 3;

/// Calls of a case.
pub(crate) const MAX_OPS: usize = 16;

/// Entries of all lists of a case.
pub(crate) const MAX_ENTRIES: usize = 1024;

/// MRs of a pool.
pub(crate) const MAX_MRS: usize = 24;

/// Bytes of the local memory of a context.
pub(crate) const ARENA: u64 = 4 << 20;

/// Size of a page.
pub(crate) const PAGE: u64 = kernel::page::PAGE_SIZE as u64;

/// How a device does its DMA.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Dma {
    /// With kernel addresses.
    Virtual,
    /// Through an IOMMU, which lays a list out in one range.
    Mapped,
}

/// A device and a QP.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Config {
    pub(crate) dma: Dma,
    pub(crate) iwarp: bool,
    pub(crate) max_sgl_rd: u32,
    pub(crate) max_sge_rd: u32,
    pub(crate) mr_pages: u32,
    pub(crate) pi_pages: u32,
    pub(crate) max_qp_wr: u32,
    pub(crate) write_sge: u32,
    pub(crate) read_sge: u32,
    pub(crate) integrity: bool,
    /// MRs of either pool.
    pub(crate) mrs: u8,
    pub(crate) sig_mrs: u8,
    /// What the keys of all MRs end in.
    pub(crate) key: u8,
    /// The mapping of an MR that the device refuses, and how: 0 is the first, none for 255.
    pub(crate) bad_mr_map: u8,
    pub(crate) refusal: Refusal,
    /// The DMA mapping that fails: 0 is the first, none for 255.
    pub(crate) bad_dma_map: u8,
    /// The port that calls name.
    pub(crate) port: u32,
}

/// How a device refuses to map an MR.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Refusal {
    /// It takes an entry less.
    Short,
    /// With an error.
    Error,
    /// It takes none.
    Nothing,
    /// With a number that is no error either.
    Least,
}

/// Local memory: a place in the arena of a context.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Entry {
    pub(crate) start: u64,
    pub(crate) len: u32,
}

/// Which init, and which destroy.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Form {
    Sg,
    Bvec,
    Signature,
}

/// An init.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Init {
    pub(crate) slot: u8,
    pub(crate) form: Form,
    pub(crate) read: bool,
    /// Entries of the list, from `Case::entries`.
    pub(crate) first: u16,
    pub(crate) count: u16,
    /// Of these, entries at the end that the caller does not speak of.
    pub(crate) surplus: u8,
    /// Bytes to leave out; of an array, of its first entry.
    pub(crate) offset: u32,
    /// Entries of an array to leave out.
    pub(crate) idx: u32,
    /// Bytes that are asked for of an array.
    pub(crate) size: u32,
    /// Entries of protection information, behind the others.
    pub(crate) prot: u16,
    /// Protection information stays off the wire.
    pub(crate) strip: bool,
    /// A table of the list is so long; 0 for one that has all.
    pub(crate) table: u8,
    pub(crate) remote: u64,
    /// The lengths are made up: nothing is to be moved.
    pub(crate) huge: bool,
    pub(crate) abuse: Abuse,
}

/// What an init is given that no init is to be given, in place of what it says otherwise.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Abuse {
    /// A direction that is none.
    pub(crate) direction: Option<u32>,
    /// Null as the list or array, as that of protection information, and as its attributes.
    pub(crate) no_list: bool,
    pub(crate) no_prot: bool,
    pub(crate) no_attrs: bool,
    /// Numbers of entries. One with a list is 0 or more than an `int` holds, and of an array 0:
    /// nobody may look for entries that there are not.
    pub(crate) count: Option<u32>,
    pub(crate) prot_count: Option<u32>,
    /// What attributes are made from; 0 for those of an honest caller.
    pub(crate) attrs: u32,
}

impl Abuse {
    /// None.
    pub(crate) const NONE: Self = Self {
        direction: None,
        no_list: false,
        no_prot: false,
        no_attrs: false,
        count: None,
        prot_count: None,
        attrs: 0,
    };
}

impl Init {
    /// Number of entries that the call is told.
    pub(crate) fn told_count(&self) -> u32 {
        self.abuse
            .count
            .unwrap_or(u32::from(self.count) - u32::from(self.surplus))
    }

    /// Number of entries of protection information that the call is told.
    pub(crate) fn told_prot_count(&self) -> u32 {
        self.abuse.prot_count.unwrap_or(self.prot.into())
    }
}

/// What stands at the end of a chain.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum End {
    /// A completion entry.
    Cqe,
    /// A work request of the caller, a completion entry beside it or not.
    Wr { cqe: bool },
    /// The chain of another context.
    Slot(u8),
    /// Nothing.
    Nothing,
}

/// Why something is no context.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Damage {
    /// Its tag is not one.
    Tag(u8),
    /// It has no operations.
    NoOps,
    /// It is a null pointer.
    Null,
}

/// A function that takes a context.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Call {
    Wrs,
    Post,
    Destroy(Form),
}

/// A call.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Op {
    Init(Init),
    /// Chains, and lets the device have the chain or not.
    Wrs {
        slot: u8,
        end: End,
        run: bool,
    },
    /// Posts to a device that stops at a work request, 0 the first.
    Post {
        slot: u8,
        end: End,
        stop: Option<u8>,
        /// And says at which.
        says: bool,
    },
    /// Destroys, as what it is or as something else, with a direction that is none or the right
    /// one.
    Destroy {
        slot: u8,
        form: Form,
        direction: Option<u32>,
    },
    /// A call with what is no context.
    NoContext {
        slot: u8,
        damage: Damage,
        call: Call,
    },
    MrFactor {
        max_pages: u32,
    },
    MaxSendWr {
        ctxs: u32,
        integrity: bool,
    },
    InitQp {
        ctxs: u32,
        send_wr: u32,
        integrity: bool,
    },
    /// Fills the pools of another QP and empties them; an allocation fails, none for 255.
    Pools {
        ctxs: u32,
        integrity: bool,
        bad: u8,
    },
}

/// A case.
pub(crate) struct Case {
    pub(crate) config: Config,
    pub(crate) entries: [Entry; MAX_ENTRIES],
    pub(crate) nr_entries: usize,
    pub(crate) ops: [Op; MAX_OPS],
    pub(crate) nr_ops: usize,
}

/// What the kernel and this machine allow for.
#[derive(Clone, Copy)]
pub(crate) struct Ground {
    pub(crate) force_mr: bool,
    /// There is a device with an IOMMU, real or simulated.
    pub(crate) mapped: bool,
    /// It is a real one.
    pub(crate) real: bool,
    /// Functions that are not exported can be called.
    pub(crate) inner: bool,
}

impl Case {
    /// An empty case. It is too large for the stack.
    pub(crate) fn new() -> Result<KBox<Self>> {
        let mut this = KBox::<Self>::new_uninit(GFP_KERNEL)?;
        let raw = this.as_mut_ptr();

        // SAFETY: All fields are written; zeroes are entries.
        unsafe {
            (&raw mut (*raw).config).write(Config::NEW);
            ptr::write_bytes(&raw mut (*raw).entries, 0, 1);
            (&raw mut (*raw).nr_entries).write(0);
            (&raw mut (*raw).ops).write([Op::MrFactor { max_pages: 0 }; MAX_OPS]);
            (&raw mut (*raw).nr_ops).write(0);
            Ok(this.assume_init())
        }
    }

    /// Makes this a copy of another one.
    pub(crate) fn copy_from(&mut self, other: &Self) {
        self.config = other.config;
        self.entries.copy_from_slice(&other.entries);
        self.nr_entries = other.nr_entries;
        self.ops = other.ops;
        self.nr_ops = other.nr_ops;
    }

    /// The calls.
    pub(crate) fn ops(&self) -> &[Op] {
        &self.ops[..self.nr_ops]
    }

    /// Entries of the list of an init, those the caller does not speak of included.
    pub(crate) fn list(&self, init: &Init) -> &[Entry] {
        &self.entries[init.first as usize..][..init.count as usize]
    }

    /// Entries of its protection information.
    pub(crate) fn prot(&self, init: &Init) -> &[Entry] {
        &self.entries[(init.first + init.count) as usize..][..init.prot as usize]
    }

    /// Entries that the caller of a scatterlist's init speaks of.
    pub(crate) fn told(&self, init: &Init) -> &[Entry] {
        let list = self.list(init);

        &list[..list.len() - init.surplus as usize]
    }

    fn push(&mut self, op: Op) {
        self.insert(self.nr_ops, op);
    }

    /// Adds a call before another one, if there is room. Returns whether there was.
    pub(crate) fn insert(&mut self, at: usize, op: Op) -> bool {
        let room = self.nr_ops < MAX_OPS;

        if room {
            self.ops.copy_within(at..self.nr_ops, at + 1);
            self.ops[at] = op;
            self.nr_ops += 1;
        }
        room
    }

    /// Makes this the case of a number.
    pub(crate) fn make(&mut self, seed: u64, number: u64, ground: &Ground) {
        let mut rnd = Random::new(seed, number);

        self.nr_entries = 0;
        self.nr_ops = 0;
        self.config = Config::random(&mut rnd, ground);

        if rnd.one_in(12) {
            self.sizing(&mut rnd, ground);
            return;
        }

        // A context after the other, or several at once.
        let contexts = *rnd.choose(&[1, 1, 1, 1, 2, 2, 3, 4]);
        let overlap = rnd.one_in(3);
        let mut live = [None; SLOTS];
        for _ in 0..contexts {
            let slot = if overlap {
                rnd.below(SLOTS as u64) as usize
            } else {
                0
            };

            if let Some(form) = live[slot].take() {
                self.destroy(&mut rnd, slot as u8, form);
            }
            let init = self.init(&mut rnd, slot as u8, ground);
            live[slot] = Some(init.form);
            self.push(Op::Init(init));
            self.life(&mut rnd, slot as u8);
        }
        // The order of destroys is any order.
        let from = rnd.below(SLOTS as u64) as usize;
        for i in 0..SLOTS {
            let slot = (from + i) % SLOTS;
            if let Some(form) = live[slot] {
                self.destroy(&mut rnd, slot as u8, form);
            }
        }
    }

    fn sizing(&mut self, rnd: &mut Random, ground: &Ground) {
        for _ in 0..4 {
            let ctxs = rnd.wild();
            let integrity = rnd.one_in(3);
            let op = match rnd.below(8) {
                0..=2 => Op::MrFactor {
                    max_pages: rnd.wild(),
                },
                3..=4 => Op::MaxSendWr { ctxs, integrity },
                _ if !ground.inner => Op::MaxSendWr { ctxs, integrity },
                5..=6 => Op::InitQp {
                    ctxs,
                    send_wr: rnd.wild(),
                    integrity,
                },
                _ => Op::Pools {
                    ctxs: rnd.below(6) as u32,
                    integrity,
                    // Rarely: C and Rust say so in the log.
                    bad: if rnd.one_in(200) {
                        rnd.below(8) as u8
                    } else {
                        u8::MAX
                    },
                },
            };
            self.push(op);
        }
    }

    fn end(rnd: &mut Random) -> End {
        match rnd.below(200) {
            0 => End::Nothing,
            1..=4 => End::Slot(rnd.below(SLOTS as u64) as u8),
            5..=110 => End::Cqe,
            other => End::Wr {
                cqe: other % 2 == 0,
            },
        }
    }

    /// What becomes of a context between its init and its destroy.
    fn life(&mut self, rnd: &mut Random, slot: u8) {
        match rnd.below(16) {
            // It is never posted.
            0 => {}
            // Chained twice, and run once or twice.
            1..=2 => {
                for run in [rnd.one_in(4), true] {
                    self.push(Op::Wrs {
                        slot,
                        end: Self::end(rnd),
                        run,
                    });
                }
            }
            // The first post fails.
            3..=5 => {
                self.push(Op::Post {
                    slot,
                    end: Self::end(rnd),
                    stop: Some(rnd.below(6) as u8),
                    says: !rnd.one_in(4),
                });
                if !rnd.one_in(3) {
                    self.push(Op::Post {
                        slot,
                        end: Self::end(rnd),
                        stop: None,
                        says: true,
                    });
                }
            }
            6..=9 => self.push(Op::Post {
                slot,
                end: Self::end(rnd),
                stop: None,
                says: true,
            }),
            10 => self.push(Op::Wrs {
                slot,
                end: Self::end(rnd),
                run: false,
            }),
            _ => self.push(Op::Wrs {
                slot,
                end: Self::end(rnd),
                run: true,
            }),
        }
    }

    fn destroy(&mut self, rnd: &mut Random, slot: u8, form: Form) {
        let form = if rnd.one_in(100) {
            *rnd.choose(&[Form::Sg, Form::Bvec, Form::Signature])
        } else {
            form
        };

        self.push(Op::Destroy {
            slot,
            form,
            direction: None,
        });
    }

    /// An init, with its entries.
    fn init(&mut self, rnd: &mut Random, slot: u8, ground: &Ground) -> Init {
        let config = self.config;
        let read = rnd.one_in(2);
        let form = match rnd.below(10) {
            _ if config.integrity && !rnd.one_in(3) => Form::Signature,
            // No pool has an MR for it.
            _ if rnd.one_in(100) => Form::Signature,
            0..=5 => Form::Sg,
            _ => Form::Bvec,
        };
        let required = ground.force_mr || (read && config.iwarp);
        let room = MAX_ENTRIES - self.nr_entries;
        let first = self.nr_entries;

        let mut wanted = match rnd.below(400) {
            0..=99 => 1,
            100..=239 => 2 + rnd.below(3),
            240..=379 => 2 + rnd.below(15),
            380..=398 => 10 + rnd.below(50),
            _ => 60 + rnd.below(260),
        } as usize;
        if form == Form::Signature {
            // Rarely too many: C and Rust say so in the log.
            let limit = if rnd.one_in(100) { 20 } else { config.limit() };
            wanted = wanted.min(limit.max(1) as usize);
        }

        let mut cursor = Cursor::new(rnd, read && ground.real);
        let huge = form == Form::Sg
            && config.dma == Dma::Virtual
            && config.bad_mr_map == u8::MAX
            && rnd.one_in(150);
        let shape = if huge {
            Shape::Huge
        } else if config.bad_mr_map != u8::MAX || (form == Form::Signature && !rnd.one_in(300)) {
            // What does not fit an MR is not mapped the same number of times, and with protection
            // information both sides say so in the log.
            Shape::Pages
        } else if required || (read && config.max_sgl_rd != 0) {
            *rnd.choose(&[
                Shape::Pages,
                Shape::Pages,
                Shape::Pages,
                Shape::Cut,
                Shape::Blocks,
                Shape::Ragged,
            ])
        } else {
            *rnd.choose(&[
                Shape::Pages,
                Shape::Cut,
                Shape::Blocks,
                Shape::Ragged,
                Shape::Ragged,
            ])
        };
        let count = self.entries(rnd, &mut cursor, shape, wanted.min(room));
        let list = &self.entries[first..first + count];

        let mut init = Init {
            slot,
            form,
            read,
            first: first as u16,
            count: count as u16,
            surplus: 0,
            offset: 0,
            idx: 0,
            size: 0,
            prot: 0,
            strip: rnd.one_in(2),
            table: if rnd.one_in(4) {
                2 + rnd.below(6) as u8
            } else {
                0
            },
            remote: rnd.address(),
            huge,
            abuse: Abuse::NONE,
        };
        match form {
            Form::Sg => {
                if count > 1 && rnd.one_in(20) {
                    init.surplus = 1;
                }
                let told = &list[..count - init.surplus as usize];
                let total: u64 = told.iter().map(|entry| u64::from(entry.len)).sum();
                init.offset = match rnd.below(16) {
                    0 => rnd.below(u64::from(told[0].len)) as u32,
                    1 => told[0].len,
                    2 => rnd.below(total.min(u64::from(u32::MAX))) as u32,
                    3 => total.min(u64::from(u32::MAX)) as u32 - 1,
                    4 if rnd.one_in(8) && total < u64::from(u32::MAX) / 2 => {
                        (total + rnd.below(3)) as u32
                    }
                    _ => 0,
                };
            }
            Form::Bvec => {
                let total: u64 = list.iter().map(|entry| u64::from(entry.len)).sum();
                let last = list[count - 1].len;

                init.offset = if rnd.one_in(3) {
                    rnd.below(u64::from(list[0].len)) as u32
                } else {
                    0
                };
                let all = total as u32 - init.offset;
                init.size = if count > 1 || init.offset == 0 {
                    all - rnd.below(u64::from(last.min(all))) as u32
                } else {
                    1 + rnd.below(u64::from(all)) as u32
                };
                if rnd.one_in(2) {
                    init.size = all;
                }
                match rnd.below(60) {
                    // Less than the array holds, ...
                    0 => init.size = 1 + rnd.below(u64::from(all)) as u32,
                    // ... more, ...
                    1 => init.size = all + 1 + rnd.below(5000) as u32,
                    // ... and not from its start.
                    2 => {
                        init.idx = rnd.below(count as u64 + 1) as u32;
                        init.size = 1 + rnd.below(u64::from(all)) as u32;
                    }
                    3 => init.offset = rnd.below(total) as u32,
                    4 => init.size = 0,
                    5 => {
                        let at = first + rnd.below(count as u64) as usize;
                        let lost = self.entries[at].len;
                        if lost < init.size && at != first {
                            self.entries[at].len = 0;
                            init.size -= lost;
                        }
                    }
                    _ => {}
                }
            }
            Form::Signature => {
                if rnd.one_in(2) {
                    let wanted = (1 + rnd.below(3)).min(config.limit().max(1).into()) as usize;
                    let room = MAX_ENTRIES - first - count;

                    init.prot = self.entries(rnd, &mut cursor, shape, wanted.min(room)) as u16;
                }
            }
        }
        init
    }

    /// Adds up to `wanted` entries of a shape; returns how many there was room for, at least one.
    fn entries(
        &mut self,
        rnd: &mut Random,
        cursor: &mut Cursor,
        shape: Shape,
        wanted: usize,
    ) -> usize {
        let mut made = 0;
        let dense = wanted > 100 || rnd.one_in(2);
        let lead = if rnd.one_in(2) { 0 } else { rnd.below(PAGE) };
        // Cut memory is one block, from here on.
        let mut cut = false;

        while made < wanted.max(1) && self.nr_entries < MAX_ENTRIES {
            let first = made == 0;
            let last = made + 1 == wanted;
            let entry = match shape {
                Shape::Huge => Some(Entry {
                    start: rnd.below(64) * PAGE,
                    len: (rnd.next() as u32) | 0x1000_0000,
                }),
                Shape::Pages => {
                    let skip = if dense { 0 } else { rnd.below(3) };
                    let start = if first { lead } else { 0 };
                    let end = if last {
                        1 + rnd.below(PAGE - start)
                    } else {
                        PAGE - start
                    };

                    cursor.take(skip, start, end)
                }
                Shape::Blocks => {
                    let skip = if dense { 0 } else { rnd.below(3) };
                    let start = if first { lead } else { 0 };
                    let pages = 1 + rnd.below(if wanted > 20 { 2 } else { 5 });
                    let len = if last {
                        (pages - 1) * PAGE + 1 + rnd.below(PAGE - start)
                    } else {
                        pages * PAGE - start
                    };

                    cursor.take(skip, start, len)
                }
                Shape::Cut => {
                    let most = if rnd.one_in(4) { 2 * PAGE } else { 600 };
                    let len = 1 + rnd.below(most);
                    let entry = if cut {
                        cursor.follow(len)
                    } else {
                        cursor.take(0, lead, len)
                    };

                    cut = true;
                    entry
                }
                Shape::Ragged => {
                    let start = cursor.align(rnd.below(PAGE));
                    let most = if rnd.one_in(6) { PAGE } else { 200 };
                    let len = 1 + rnd.below(most);

                    cursor.take(rnd.below(2), start, len)
                }
            };
            let Some(entry) = entry else {
                break;
            };

            self.entries[self.nr_entries] = entry;
            self.nr_entries += 1;
            made += 1;
        }
        made
    }
}

/// How memory is cut into entries.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Shape {
    /// A page each, but for the start of the first and the end of the last.
    Pages,
    /// The same, of several pages.
    Blocks,
    /// One block, cut anywhere.
    Cut,
    /// Anything, with gaps.
    Ragged,
    /// Lengths up to 4 GiB.
    Huge,
}

/// Memory that has no entry yet.
struct Cursor {
    /// End of the last entry.
    end: u64,
    /// Entries start at multiples of this.
    align: u64,
}

impl Cursor {
    fn new(rnd: &mut Random, apart: bool) -> Self {
        Self {
            end: rnd.below(16) * PAGE,
            // Cache lines that are mapped twice are a fault to the DMA debugging code.
            align: if apart { 64 } else { 1 },
        }
    }

    fn align(&self, start: u64) -> u64 {
        start / self.align * self.align
    }

    /// An entry that starts `start` bytes into a page, `skip` pages after the last entry.
    fn take(&mut self, skip: u64, start: u64, len: u64) -> Option<Entry> {
        let start = (self.end.next_multiple_of(PAGE)) + skip * PAGE + start;

        (start + len <= ARENA).then(|| {
            self.end = start + len;
            Entry {
                start,
                len: len as u32,
            }
        })
    }

    /// An entry right behind the last one.
    fn follow(&mut self, len: u64) -> Option<Entry> {
        let start = self.end;
        let len = (start + len).next_multiple_of(self.align) - start;

        (start + len <= ARENA).then(|| {
            self.end = start + len;
            Entry {
                start,
                len: len as u32,
            }
        })
    }
}

impl Config {
    /// The least there can be.
    pub(crate) const NEW: Self = Self {
        dma: Dma::Virtual,
        iwarp: false,
        max_sgl_rd: 0,
        max_sge_rd: 1,
        mr_pages: 1,
        pi_pages: 1,
        max_qp_wr: 1,
        write_sge: 1,
        read_sge: 1,
        integrity: false,
        mrs: 0,
        sig_mrs: 0,
        key: 0,
        bad_mr_map: u8::MAX,
        refusal: Refusal::Short,
        bad_dma_map: u8::MAX,
        port: PORT,
    };

    /// Pages of an MR, as the QP has it.
    pub(crate) fn limit(&self) -> u32 {
        let limit = if self.integrity {
            self.pi_pages
        } else {
            self.mr_pages
        };

        limit.min(256)
    }

    /// Whether the port that calls name is there, and speaks iWARP.
    pub(crate) fn speaks_iwarp(&self) -> bool {
        self.iwarp && self.port == PORT
    }

    fn random(rnd: &mut Random, ground: &Ground) -> Self {
        let integrity = rnd.one_in(6);
        let mut this = Self {
            dma: if ground.mapped && (ground.real || rnd.one_in(2)) {
                Dma::Mapped
            } else {
                Dma::Virtual
            },
            iwarp: rnd.one_in(3),
            max_sgl_rd: *rnd.choose(&[0, 0, 0, 1, 2, 3, 4, 8, 16]),
            max_sge_rd: rnd.limit(),
            mr_pages: rnd.pages(),
            pi_pages: rnd.pages(),
            max_qp_wr: rnd.wild(),
            write_sge: rnd.limit(),
            read_sge: rnd.limit(),
            integrity,
            mrs: *rnd.choose(&[0, 1, 2, 3, 4, 8, 12, 24, 24, 24]),
            sig_mrs: if integrity { rnd.below(4) as u8 } else { 0 },
            key: if rnd.one_in(2) {
                0xfe
            } else {
                rnd.next() as u8
            },
            bad_mr_map: u8::MAX,
            refusal: *rnd.choose(&[Refusal::Short, Refusal::Error]),
            bad_dma_map: u8::MAX,
            port: PORT,
        };

        // A device that is hard to live with, now and then.
        if this.dma == Dma::Virtual && rnd.one_in(if integrity { 1000 } else { 40 }) {
            this.bad_mr_map = rnd.below(4) as u8;
        }
        if this.dma == Dma::Mapped && !ground.real && rnd.one_in(40) {
            this.bad_dma_map = rnd.below(6) as u8;
        }
        this
    }
}
