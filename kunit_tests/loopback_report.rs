// SPDX-License-Identifier: GPL-2.0

//! How a case went, and the text that C prints of it.

use core::fmt::Write;

use kernel::fmt;
use kernel::prelude::*;

use crate::bindings;

/// A line of text of limited length.
pub(crate) struct Report {
    text: [u8; Self::SIZE],
    len: usize,
}

impl Report {
    const SIZE: usize = 256;

    pub(crate) const fn new() -> Self {
        Self {
            text: [0; Self::SIZE],
            len: 0,
        }
    }

    /// Adds text, as far as there is room.
    pub(crate) fn add(&mut self, args: fmt::Arguments<'_>) {
        // What does not fit is left out.
        let _ = self.write_fmt(args);
    }

    /// Prints the line among the results.
    pub(crate) fn print(&self) {
        // SAFETY: The text ends in a zero.
        unsafe { bindings::rdma_rw_loopback_print(self.text.as_ptr()) };
    }
}

impl Write for Report {
    fn write_str(&mut self, text: &str) -> core::fmt::Result {
        // The last byte stays zero.
        let room = Self::SIZE - 1 - self.len;
        let text = &text.as_bytes()[..text.len().min(room)];

        self.text[self.len..][..text.len()].copy_from_slice(text);
        self.len += text.len();
        Ok(())
    }
}

/// Why a case did not come to its end.
pub(crate) enum Failure {
    /// It says nothing here, for this reason.
    Skip(&'static str),
    /// A work request completed with this status.
    Status(bindings::ib_wc_status),
    /// Something is not as it should be.
    Text(KBox<Report>),
    /// There is no memory, perhaps not even for the text.
    NoMemory,
}

/// How something went.
pub(crate) type Outcome<T = ()> = core::result::Result<T, Failure>;

impl Failure {
    /// A failure that a text tells.
    pub(crate) fn text(args: fmt::Arguments<'_>) -> Self {
        let Ok(mut report) = KBox::new(Report::new(), GFP_KERNEL) else {
            return Self::NoMemory;
        };

        report.add(args);
        Self::Text(report)
    }

    /// A function of the kernel that failed.
    pub(crate) fn from_error(what: &str, error: Error) -> Self {
        Self::text(fmt!("{what} failed with {error:?}"))
    }

    /// Says where.
    pub(crate) fn at(self, place: fmt::Arguments<'_>) -> Self {
        match self {
            Self::Skip(_) | Self::NoMemory => self,
            Self::Status(status) => Self::text(fmt!("completion with status {status} ({place})")),
            Self::Text(mut report) => {
                report.add(fmt!(" ({place})"));
                Self::Text(report)
            }
        }
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::from_error("something", error)
    }
}

impl From<kernel::alloc::AllocError> for Failure {
    fn from(_: kernel::alloc::AllocError) -> Self {
        Self::NoMemory
    }
}

/// Fails with a text unless a condition holds.
macro_rules! ensure {
    ($cond:expr, $($text:tt)*) => {
        if !$cond {
            return Err($crate::loopback_report::Failure::text(::kernel::prelude::fmt!($($text)*)));
        }
    };
}
pub(crate) use ensure;

/// Tells C how a case went.
///
/// # Safety
///
/// `report` must be writable.
pub(crate) unsafe fn give(
    report: *mut bindings::rdma_rw_loopback_report,
    outcome: Outcome,
) -> c_int {
    let (failure, ret) = match outcome {
        Ok(()) => return 0,
        Err(Failure::Skip(reason)) => (
            Failure::text(fmt!("{reason}")),
            bindings::RDMA_RW_LOOPBACK_SKIP as c_int,
        ),
        Err(failure @ Failure::Status(_)) => {
            (failure.at(fmt!("of a work request")), EIO.to_errno())
        }
        Err(failure) => (failure, EIO.to_errno()),
    };
    let Failure::Text(text) = failure else {
        return ENOMEM.to_errno();
    };

    // SAFETY: By this function's safety requirement. The line fits, with its zero.
    unsafe { (&mut (*report).text)[..Report::SIZE].copy_from_slice(&text.text) };
    ret
}
