// SPDX-License-Identifier: GPL-2.0

//! What is under test: the implementation that ib_core has, and whether it is told to register all
//! memory.

use core::ffi::CStr;

use kernel::prelude::*;
use kernel::sync::atomic::{
    Atomic,
    Relaxed, //
};

use crate::bindings;
use crate::mock::{
    Mock,
    Profile, //
};

/// Which implementation ib_core has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Implementation {
    /// rw.c.
    C,
    /// This project.
    Rust,
}

/// Finds out which implementation ib_core has: functions in Rust carry the name of their crate, and
/// those of one object lie side by side.
pub(crate) fn implementation() -> Implementation {
    // One byte for the end is left, whatever the kernel writes.
    let mut buffer = [0u8; 1024];
    let start = bindings::rdma_rw_ctx_init as usize;

    for forward in [true, false] {
        let mut at = start;

        for _ in 0..64 {
            // SAFETY: The buffer is longer than any symbol.
            unsafe { bindings::sprint_symbol(buffer.as_mut_ptr().cast(), at) };
            let Some((name, offset, size)) = CStr::from_bytes_until_nul(&buffer)
                .ok()
                .and_then(|text| parse(text.to_bytes()))
            else {
                break;
            };

            if name.starts_with(b"_R") && name.windows(8).any(|w| w == b"7rdma_rw") {
                return Implementation::Rust;
            }
            at = if forward {
                at.wrapping_sub(offset).wrapping_add(size.max(1))
            } else {
                at.wrapping_sub(offset).wrapping_sub(1)
            };
        }
    }
    Implementation::C
}

/// Name, offset and size out of `name+0xoffset/0xsize`.
fn parse(text: &[u8]) -> Option<(&[u8], usize, usize)> {
    let plus = text.iter().rposition(|byte| *byte == b'+')?;
    let (name, rest) = text.split_at(plus);
    let mut numbers = rest[1..].split(|byte| *byte == b'/' || *byte == b' ');
    let mut number = || {
        let digits = numbers.next()?.strip_prefix(b"0x")?;

        digits.iter().try_fold(0usize, |n, digit| {
            Some(n.wrapping_mul(16) + (*digit as char).to_digit(16)? as usize)
        })
    };

    Some((name, number()?, number()?))
}

/// Whether ib_core was told to register memory for every transfer: then even a device that needs no
/// MRs has its queues sized for them.
fn force_mr() -> Result<bool> {
    let rxe = Mock::new(Profile::RXE)?;

    // SAFETY: The device is registered.
    Ok(unsafe { bindings::rdma_rw_max_send_wr(rxe.as_raw(), 1, 100, 0) == 300 })
}

/// What is under test.
#[derive(Clone, Copy)]
pub(crate) struct Target {
    implementation: Implementation,
    /// Whether all memory is registered.
    pub(crate) force_mr: bool,
}

impl Target {
    /// Whether it is this project.
    pub(crate) fn is_rust(&self) -> bool {
        self.implementation == Implementation::Rust
    }

    /// The first of two values, or the second where all memory is registered.
    pub(crate) fn pick<T>(&self, (plain, forced): (T, T)) -> T {
        if self.force_mr {
            forced
        } else {
            plain
        }
    }
}

/// What is under test, as found out the first time: 0 for not yet, else 1 and a bit for each of
/// the two.
static FOUND: Atomic<u32> = Atomic::new(0);

/// What is under test.
pub(crate) fn get() -> Result<Target> {
    let mut found = FOUND.load(Relaxed);

    if found == 0 {
        let implementation = implementation();
        let force_mr = force_mr()?;

        pr_info!(
            "rdma_rw is in {implementation:?}, force_mr={}\n",
            u8::from(force_mr)
        );
        found =
            1 | u32::from(implementation == Implementation::Rust) << 1 | u32::from(force_mr) << 2;
        FOUND.store(found, Relaxed);
    }
    Ok(Target {
        implementation: if found & 2 != 0 {
            Implementation::Rust
        } else {
            Implementation::C
        },
        force_mr: found & 4 != 0,
    })
}

/// A pointer to nothing.
pub(crate) fn none<T>() -> *mut T {
    core::ptr::null_mut()
}
