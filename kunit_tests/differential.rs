// SPDX-License-Identifier: GPL-2.0

//! What ib_core exports against the C original: random devices, lists and sequences of calls, run
//! through both, one after the other on one device that is set up anew for each.
//!
//! Compared is all that a caller, a device or the DMA layer can see: return values, every field of
//! every work request and SGE, the keys and states of all MRs, the order of pools, each DMA call,
//! how the device takes the chain, and the bytes that arrive. Where Rust is meant to differ, the
//! C side is amended: see `differential_deviations.rs`.
//!
//! A case is made from a seed and its number, so that it can be had again. One that fails is cut
//! down to a small one and printed.
//!
//! A second suite makes the same cases hostile (see `hostile.rs`) and runs them through what ib_core
//! exports alone: whatever a caller does that can be survived at all ends in an error with nothing
//! left behind, or in a right result.

mod api;
mod bindings;
mod differential_case;
mod differential_deviations;
mod differential_device;
mod differential_engine;
mod differential_iommu;
mod differential_random;
mod differential_referee;
mod differential_run;
mod differential_show;
mod differential_sizing;
mod differential_slot;
mod differential_trace;
mod differential_verbs;
mod hostile;
mod hostile_oracle;

use kernel::prelude::*;

use crate::differential_case::Case;
use crate::differential_deviations::D;
use crate::differential_device::BY_ITSELF;
use crate::differential_run::{
    Runner,
    PATHS, //
};
use crate::differential_show::{
    print,
    show,
    shrink, //
};
use crate::hostile::{
    spoil,
    Hostile,
    Taken, //
};

/// Prefix of messages printed through the kernel crate's `pr_*!` macros.
const __LOG_PREFIX: &[u8] = b"rdma_rw_differential\0";

/// Cases from which on everything is to be reached.
const MANY: u64 = 25_000;

/// Bytes that may be gone after many cases: nobody else is idle.
const SLACK: u64 = 16 << 20;

/// A suite.
struct Suite {
    runner: KBox<Runner>,
    params: bindings::rdma_rw_differential_params,
    /// Ways in which cases were made hostile, where that is what the suite is about.
    taken: Taken,
    case: KBox<Case>,
    small: KBox<Case>,
    cases: u64,
    nanoseconds: u64,
    free: u64,
}

fn now() -> u64 {
    // SAFETY: There is nothing to be wrong. The clock does not run backwards.
    unsafe { bindings::ktime_get() as u64 }
}

fn free_memory() -> u64 {
    // SAFETY: There is nothing to be wrong.
    unsafe { bindings::rdma_rw_differential_free_memory() << kernel::page::PAGE_SHIFT }
}

impl Suite {
    fn new(params: &bindings::rdma_rw_differential_params, hostile: bool) -> Result<KBox<Self>> {
        let mut runner = Runner::new(hostile)?;

        runner.counting = true;
        Ok(KBox::new(
            Self {
                runner,
                params: *params,
                taken: [0; Hostile::NR],
                case: Case::new()?,
                small: Case::new()?,
                cases: 0,
                nanoseconds: 0,
                free: free_memory(),
            },
            GFP_KERNEL,
        )?)
    }

    /// Runs a part of the cases.
    fn part(&mut self, part: u32) -> Result {
        let parts = u64::from(bindings::RDMA_RW_DIFFERENTIAL_PARTS);
        let of = |part: u64| {
            (u128::from(self.params.count) * u128::from(part) / u128::from(parts)) as u64
        };
        let (start, end) = (of(part.into()), of(u64::from(part) + 1));
        let since = now();
        let mut result = Ok(());

        for i in start..end {
            let number = self.params.first.wrapping_add(i);
            let seed = self.params.seed;
            let ground = &self.runner.ground;

            // SAFETY: There is nothing to be wrong.
            unsafe { bindings::rdma_rw_differential_begin(number) };
            self.case.make(seed, number, ground);
            if self.runner.hostile {
                spoil(&mut self.case, seed, number, ground, &mut self.taken);
            }
            if self.runner.check(&self.case).is_some() {
                result = self.report(number);
                break;
            }
            self.cases += 1;
            if i % 64 == 0 {
                // SAFETY: This may sleep.
                unsafe { bindings::rdma_rw_differential_rest() };
            }
        }
        self.nanoseconds += now() - since;
        result
    }

    /// Cuts the case down and prints it.
    fn report(&mut self, number: u64) -> Result {
        self.runner.counting = false;
        let finding = shrink(&mut self.runner, &self.case, &mut self.small);
        print(fmt!(
            "case {number} of seed {} fails; again: seed={} first={number} count=1",
            self.params.seed,
            self.params.seed
        ));
        show(&self.runner, &self.small, finding);
        self.runner.counting = true;
        Err(EINVAL)
    }

    /// Prints what has been reached; fails where many cases have left something out.
    fn reach(&mut self) -> Result {
        self.say_reached();
        if self.runner.hostile {
            say("hostile", &Hostile::NAMES, &self.taken);
        } else {
            say("amended", &D::NAMES, &self.runner.reached.amended);
            print(fmt!(
                "of these, left to Rust alone from some call on: {}",
                self.runner.reached.alone
            ));
        }
        if self.cases < MANY {
            return Ok(());
        }

        let mut complete = self.has_all_paths();
        complete &= if self.runner.hostile {
            has_all("hostile", &Hostile::NAMES, &self.taken, |_| true)
        } else {
            self.has_all_amended()
        };
        let lost = self.free.saturating_sub(free_memory());
        if lost > SLACK {
            print(fmt!("{} KiB of memory are gone", lost >> 10));
            complete = false;
        }
        if complete {
            Ok(())
        } else {
            Err(EINVAL)
        }
    }

    /// Prints what cases of either suite have reached.
    fn say_reached(&self) {
        let reached = &self.runner.reached;
        let ground = &self.runner.ground;
        let ms = self.nanoseconds / 1_000_000;

        print(fmt!(
            "{} cases of seed {} from {} on, {} calls, force_mr={}, in {}.{:03} s",
            self.cases,
            self.params.seed,
            self.params.first,
            reached.calls,
            u8::from(ground.force_mr),
            ms / 1000,
            ms % 1000
        ));
        print(fmt!(
            "device: {}",
            match (ground.mapped, ground.real) {
                (_, true) => "behind an IOMMU",
                (true, _) => "virtual DMA, and behind a simulated IOMMU",
                _ => "virtual DMA",
            }
        ));
        for (read, counts) in [("WRITE", reached.paths[0]), ("READ", reached.paths[1])] {
            print(fmt!(
                "contexts, {read}: {} single, {} multi, {} MR, {} signature, {} IOVA",
                counts[0],
                counts[1],
                counts[2],
                counts[3],
                counts[4]
            ));
        }
        let errors = reached.errors;
        print(fmt!(
            "inits refused: {} EIO, {} EAGAIN, {} ENOMEM, {} EINVAL, {} other",
            errors[0],
            errors[1],
            errors[2],
            errors[3],
            errors[4]
        ));
        let by_itself = if ground.real {
            BY_ITSELF - self.runner.state.by_itself
        } else {
            0
        };
        print(fmt!(
            "chains run: {}, {} MiB moved, {by_itself} pieces by the device itself",
            self.runner.state.chains,
            self.runner.state.bytes >> 20
        ));
    }

    /// Whether every path was taken that can be; says which one was not.
    fn has_all_paths(&self) -> bool {
        let ground = &self.runner.ground;

        self.runner
            .reached
            .paths
            .iter()
            .enumerate()
            .fold(true, |complete, (read, counts)| {
                complete
                    & has_all("path", &PATHS, counts, |path| match PATHS[path] {
                        "single" | "multi" => !ground.force_mr,
                        "IOVA" => ground.real && !ground.force_mr,
                        // Only force_mr registers for a WRITE.
                        "MR" => read == 1 || ground.force_mr,
                        _ => true,
                    })
            })
    }

    /// The same for the points in which the C side is amended.
    fn has_all_amended(&self) -> bool {
        let ground = &self.runner.ground;

        let amended = &self.runner.reached.amended;

        has_all("amended", &D::NAMES, amended, |d| match d {
            _ if d == D::D3 as usize => ground.inner,
            _ if d == D::D9 as usize => !ground.force_mr && !ground.real,
            _ if d == D::D13 as usize => !ground.force_mr && ground.real,
            _ if d == D::Merged as usize => !ground.force_mr && !ground.real,
            _ => true,
        })
    }
}

/// Prints counters with their names, four in a line.
fn say(what: &str, names: &[&str], counts: &[u64]) {
    for (names, counts) in names.chunks(4).zip(counts.chunks(4)) {
        if let ([a, b, c, d], [w, x, y, z]) = (names, counts) {
            print(fmt!("{what}: {a} {w}, {b} {x}, {c} {y}, {d} {z}"));
        }
    }
}

/// Whether all counters that are expected to have counted have; says which have not.
fn has_all(what: &str, names: &[&str], counts: &[u64], expected: impl Fn(usize) -> bool) -> bool {
    let mut complete = true;

    for (i, (name, count)) in names.iter().zip(counts).enumerate() {
        if expected(i) && *count == 0 {
            print(fmt!("{what}: {name} was left out"));
            complete = false;
        }
    }
    complete
}

/// What C is told.
fn errno(result: Result) -> c_int {
    match result {
        Ok(()) => 0,
        Err(e) => e.to_errno(),
    }
}

/// Makes a suite.
///
/// # Safety
///
/// `this` must be writable and `params` valid.
#[no_mangle]
unsafe extern "C" fn rdma_rw_differential_up(
    this: *mut *mut bindings::rdma_rw_differential,
    params: *const bindings::rdma_rw_differential_params,
    hostile: bool,
) -> c_int {
    // SAFETY: C hands over valid parameters and a place for the pointer.
    errno(Suite::new(unsafe { &*params }, hostile).map(|new| unsafe {
        *this = KBox::into_raw(new).cast();
    }))
}

/// Runs a part of the cases.
///
/// # Safety
///
/// `this` must come from [`rdma_rw_differential_up`], and be in nobody else's use.
#[no_mangle]
unsafe extern "C" fn rdma_rw_differential_part(
    this: *mut bindings::rdma_rw_differential,
    part: c_uint,
) -> c_int {
    // SAFETY: C hands over what `rdma_rw_differential_up` has made, and runs one case at a time.
    errno(unsafe { &mut *this.cast::<Suite>() }.part(part))
}

/// Says what the parts have reached.
///
/// # Safety
///
/// As for [`rdma_rw_differential_part`].
#[no_mangle]
unsafe extern "C" fn rdma_rw_differential_reach(
    this: *mut bindings::rdma_rw_differential,
) -> c_int {
    // SAFETY: As above.
    errno(unsafe { &mut *this.cast::<Suite>() }.reach())
}

/// Takes a suite down.
///
/// # Safety
///
/// As for [`rdma_rw_differential_part`], for the last time.
#[no_mangle]
unsafe extern "C" fn rdma_rw_differential_down(this: *mut bindings::rdma_rw_differential) {
    // SAFETY: As above, for the last time.
    drop(unsafe { KBox::from_raw(this.cast::<Suite>()) });
}
