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

/// Prefix of messages printed through the kernel crate's `pr_*!` macros.
const __LOG_PREFIX: &[u8] = b"rdma_rw_differential\0";

/// Cases from which on everything is to be reached.
const MANY: u64 = 25_000;

/// Bytes that may be gone after many cases: nobody else is idle.
const SLACK: u64 = 16 << 20;

/// The suite.
struct Differential {
    runner: KBox<Runner>,
    params: bindings::rdma_rw_differential_params,
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

impl Differential {
    fn new(params: &bindings::rdma_rw_differential_params) -> Result<KBox<Self>> {
        let mut runner = Runner::new()?;

        runner.counting = true;
        Ok(KBox::new(
            Self {
                runner,
                params: *params,
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

            self.case
                .make(self.params.seed, number, &self.runner.ground);
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
        let reached = self.runner.reached;
        let ground = self.runner.ground;
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
        for at in (0..D::NR).step_by(4) {
            let (names, counts) = (&D::NAMES[at..], &reached.amended[at..]);

            print(fmt!(
                "amended: {} {}, {} {}, {} {}, {} {}",
                names[0],
                counts[0],
                names[1],
                counts[1],
                names[2],
                counts[2],
                names[3],
                counts[3]
            ));
        }
        print(fmt!(
            "of these, left to Rust alone from some call on: {}",
            reached.alone
        ));

        if self.cases < MANY {
            return Ok(());
        }
        let mut complete = true;
        for (path, name) in PATHS.iter().enumerate() {
            let expected = match *name {
                "single" | "multi" => !ground.force_mr,
                "IOVA" => ground.real && !ground.force_mr,
                _ => true,
            };

            for (read, counts) in reached.paths.iter().enumerate() {
                // Only force_mr registers for a WRITE.
                let expected = expected && (*name != "MR" || read == 1 || ground.force_mr);

                if expected && counts[path] == 0 {
                    print(fmt!("path {name} was left out"));
                    complete = false;
                }
            }
        }
        for (d, name) in D::NAMES.iter().enumerate() {
            let expected = match d {
                _ if d == D::D3 as usize => ground.inner,
                _ if d == D::D9 as usize => !ground.force_mr && !ground.real,
                _ if d == D::D13 as usize => !ground.force_mr && ground.real,
                _ if d == D::Merged as usize => !ground.force_mr && !ground.real,
                _ => true,
            };

            if expected && reached.amended[d] == 0 {
                print(fmt!("{name} was left out"));
                complete = false;
            }
        }
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
}

/// What C is told.
fn errno(result: Result) -> c_int {
    match result {
        Ok(()) => 0,
        Err(e) => e.to_errno(),
    }
}

/// Makes the suite.
///
/// # Safety
///
/// `this` must be writable and `params` valid.
#[no_mangle]
unsafe extern "C" fn rdma_rw_differential_up(
    this: *mut *mut bindings::rdma_rw_differential,
    params: *const bindings::rdma_rw_differential_params,
) -> c_int {
    // SAFETY: C hands over valid parameters and a place for the pointer.
    errno(Differential::new(unsafe { &*params }).map(|new| unsafe {
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
    errno(unsafe { &mut *this.cast::<Differential>() }.part(part))
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
    errno(unsafe { &mut *this.cast::<Differential>() }.reach())
}

/// Takes the suite down.
///
/// # Safety
///
/// As for [`rdma_rw_differential_part`], for the last time.
#[no_mangle]
unsafe extern "C" fn rdma_rw_differential_down(this: *mut bindings::rdma_rw_differential) {
    // SAFETY: As above, for the last time.
    drop(unsafe { KBox::from_raw(this.cast::<Differential>()) });
}
