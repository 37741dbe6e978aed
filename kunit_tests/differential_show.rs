// SPDX-License-Identifier: GPL-2.0

//! Makes a case that fails small, and prints it.

use core::fmt::Write;

use kernel::fmt;
use kernel::prelude::*;

use crate::bindings;
use crate::differential_case::{
    Abuse,
    Case,
    Dma,
    End,
    Form,
    Op, //
};
use crate::differential_device::PORT;
use crate::differential_run::{
    Finding,
    Runner, //
};

/// Runs that are spent on making a case small.
const PATIENCE: u32 = 4000;

/// A line of limited length.
struct Line {
    text: [u8; 240],
    len: usize,
}

impl Write for Line {
    fn write_str(&mut self, text: &str) -> core::fmt::Result {
        // The last byte stays zero.
        let room = self.text.len() - 1 - self.len;
        let text = &text.as_bytes()[..text.len().min(room)];

        self.text[self.len..][..text.len()].copy_from_slice(text);
        self.len += text.len();
        Ok(())
    }
}

/// Prints a line among the results.
pub(crate) fn print(args: fmt::Arguments<'_>) {
    let mut line = Line {
        text: [0; 240],
        len: 0,
    };

    // What does not fit is left out.
    let _ = line.write_fmt(args);
    // SAFETY: The text ends in a zero.
    unsafe { bindings::rdma_rw_differential_print(line.text.as_ptr()) };
}

/// Ways of making a case smaller or simpler, by number. None for a number that there is no way of,
/// `Some(false)` for one that changes nothing.
fn step(case: &mut Case, mut way: usize) -> Option<bool> {
    // Without a call.
    if way < case.nr_ops {
        case.ops.copy_within(way + 1..case.nr_ops, way);
        case.nr_ops -= 1;
        return Some(true);
    }
    way -= case.nr_ops;

    // A simpler device.
    const CONFIGS: usize = 14;
    if way < CONFIGS {
        let config = &mut case.config;
        let before = *config;

        match way {
            0 => config.dma = Dma::Virtual,
            1 => config.iwarp = false,
            2 => config.max_sgl_rd = 0,
            3 => config.max_sge_rd = 32,
            4 => config.mr_pages = 256,
            5 => config.pi_pages = 256,
            6 => config.write_sge = 32,
            7 => config.read_sge = 32,
            8 => config.integrity = false,
            9 => config.mrs = 24,
            10 => config.key = 0,
            11 => config.bad_mr_map = u8::MAX,
            12 => config.bad_dma_map = u8::MAX,
            _ => config.port = PORT,
        }
        return Some(before != *config);
    }
    way -= CONFIGS;

    // Simpler calls.
    const CALLS: usize = 12;
    let (call, way) = (way / CALLS, way % CALLS);
    if call >= case.nr_ops {
        return None;
    }
    let entries = &case.entries;
    let changed = match &mut case.ops[call] {
        Op::Init(init) => {
            let total = |first: u16, count: u16| -> u32 {
                entries[first as usize..][..count as usize]
                    .iter()
                    .fold(0u32, |sum, entry| sum.wrapping_add(entry.len))
            };
            let exact = init.form == Form::Bvec
                && init.size == total(init.first, init.count).wrapping_sub(init.offset);

            match way {
                0 if init.count > 1 => {
                    init.count /= 2;
                    init.surplus = 0;
                    init.prot = 0;
                }
                1 if init.count > 1 => {
                    init.first += 1;
                    init.count -= 1;
                    init.surplus = 0;
                }
                2 if init.count > 1 => {
                    init.count -= 1;
                    init.surplus = 0;
                    init.prot = 0;
                }
                3 if init.surplus != 0 => {
                    init.count -= u16::from(init.surplus);
                    init.surplus = 0;
                }
                4 if init.offset != 0 => init.offset = 0,
                5 if init.table != 0 => init.table = 0,
                6 if init.prot != 0 => init.prot = 0,
                7 if init.idx != 0 => init.idx = 0,
                8 if init.remote != 0x1000 => init.remote = 0x1000,
                9 if init.slot != 0 => init.slot = 0,
                10 if init.abuse != Abuse::NONE => init.abuse = Abuse::NONE,
                _ => return Some(false),
            }
            if exact {
                init.size = total(init.first, init.count).wrapping_sub(init.offset);
            }
            true
        }
        Op::Wrs { slot, end, run } => match way {
            0 if *end != End::Cqe => {
                *end = End::Cqe;
                true
            }
            1 if !*run => {
                *run = true;
                true
            }
            2 if *slot != 0 => {
                *slot = 0;
                true
            }
            _ => false,
        },
        Op::Post {
            slot,
            end,
            stop,
            says,
        } => match way {
            0 if *end != End::Cqe => {
                *end = End::Cqe;
                true
            }
            1 if stop.is_some() => {
                *stop = None;
                true
            }
            2 if !*says => {
                *says = true;
                true
            }
            3 if *slot != 0 => {
                *slot = 0;
                true
            }
            _ => false,
        },
        Op::Destroy { slot, .. } | Op::NoContext { slot, .. } if way == 0 && *slot != 0 => {
            *slot = 0;
            true
        }
        Op::Destroy { direction, .. } if way == 1 && direction.is_some() => {
            *direction = None;
            true
        }
        _ => false,
    };
    Some(changed)
}

/// Makes a case that fails as small as can be, and returns what is wrong with the small one.
pub(crate) fn shrink(runner: &mut Runner, case: &Case, small: &mut Case) -> Option<Finding> {
    let mut left = PATIENCE;
    let Ok(mut next) = Case::new() else {
        return None;
    };

    small.copy_from(case);
    'again: loop {
        let mut way = 0;

        loop {
            next.copy_from(small);
            let changed = step(&mut next, way);
            match changed {
                None => break 'again,
                Some(false) => {}
                Some(true) => {
                    if left == 0 {
                        break 'again;
                    }
                    left -= 1;
                    if runner.check(&next).is_some() {
                        small.copy_from(&next);
                        continue 'again;
                    }
                }
            }
            way += 1;
        }
    }
    runner.check(small)
}

/// Prints a case and what is wrong.
pub(crate) fn show(runner: &Runner, case: &Case, finding: Option<Finding>) {
    let config = &case.config;

    print(fmt!(
        "device: {:?} DMA, {}, max_sgl_rd {}, max_sge_rd {}, MR pages {}, PI pages {}",
        config.dma,
        if config.iwarp { "iWARP" } else { "RoCE" },
        config.max_sgl_rd,
        config.max_sge_rd,
        config.mr_pages,
        config.pi_pages
    ));
    print(fmt!(
        "QP: write SGEs {}, read SGEs {}, integrity {}, {} + {} MRs, keys end in {:#x}, max_qp_wr {}",
        config.write_sge,
        config.read_sge,
        config.integrity,
        config.mrs,
        config.sig_mrs,
        config.key,
        config.max_qp_wr
    ));
    if config.port != PORT {
        print(fmt!("the calls name port {}", config.port));
    }
    if config.bad_mr_map != u8::MAX || config.bad_dma_map != u8::MAX {
        print(fmt!(
            "refused: MR mapping {} ({:?}), DMA mapping {} (255: none)",
            config.bad_mr_map,
            config.refusal,
            config.bad_dma_map
        ));
    }

    for (call, op) in case.ops().iter().enumerate() {
        let Op::Init(init) = op else {
            print(fmt!("call {call}: {op:?}"));
            continue;
        };
        print(fmt!(
            "call {call}: init {:?} {}, context {}, {} entries ({} of them untold), offset {}, idx {}, size {}",
            init.form,
            if init.read { "READ" } else { "WRITE" },
            init.slot,
            init.count,
            init.surplus,
            init.offset,
            init.idx,
            init.size
        ));
        print(fmt!(
            "    {} of protection, strip {}, table {}, remote {:#x}, made up {}",
            init.prot,
            init.strip,
            init.table,
            init.remote,
            init.huge
        ));
        if init.abuse != Abuse::NONE {
            print(fmt!("    but {:?}", init.abuse));
        }
        let all = &case.entries[init.first as usize..][..(init.count + init.prot) as usize];
        for (i, entry) in all.iter().enumerate() {
            if i == 24 {
                print(fmt!("    and {} more", all.len() - i));
                break;
            }
            print(fmt!("    {:#x} + {}", entry.start, entry.len));
        }
    }

    match finding {
        None => print(fmt!("it does not fail again")),
        Some(Finding::Wrong {
            referee,
            call,
            what,
        }) => print(fmt!(
            "call {call}, {}: {what}",
            if referee { "C original" } else { "ib_core" }
        )),
        Some(Finding::Differ(at)) => {
            let (call, ours) = runner.exported.place(at);
            let (_, theirs) = runner.state.trace.place(at);

            print(fmt!(
                "call {call:?}: ib_core has {ours:x?}, the C original {theirs:x?} (place {at})"
            ));
            for i in at.saturating_sub(12)..at {
                print(fmt!("    before: {:x?}", runner.exported.get(i)));
            }
        }
    }
}
