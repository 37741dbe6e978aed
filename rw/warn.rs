// SPDX-License-Identifier: GPL-2.0

//! `WARN_ON_ONCE()` for Rust.

/// Warns where a condition holds, the first time only, and evaluates to the condition.
///
/// For callers that break the API's rules, as `WARN_ON_ONCE()` in C.
macro_rules! warn_on_once {
    ($cond:expr) => {{
        let cond: bool = $cond;
        if cond {
            $crate::rw::warn_once!();
        }
        cond
    }};
}
pub(crate) use warn_on_once;

// Where `WARN()` is a trap instruction, the trap's own table remembers that it was taken.
#[cfg(not(any(CONFIG_UML, CONFIG_LOONGARCH, CONFIG_ARM)))]
macro_rules! warn_once {
    () => {{
        const WARN_ONCE_FLAGS: u32 = ::kernel::bug::bugflag_taint(::kernel::bindings::TAINT_WARN)
            | ::kernel::bindings::BUGFLAG_ONCE;

        ::kernel::warn_flags!(::core::file!(), WARN_ONCE_FLAGS);
    }};
}

// Elsewhere it is a function call, and the place has to remember by itself, where C does as well
// and `clear_warn_once` makes it forget.
#[cfg(any(CONFIG_UML, CONFIG_LOONGARCH, CONFIG_ARM))]
macro_rules! warn_once {
    () => {{
        #[link_section = ".data..once"]
        static WARNED: ::kernel::sync::atomic::Atomic<i32> = ::kernel::sync::atomic::Atomic::new(0);

        if WARNED.xchg(1, ::kernel::sync::atomic::Relaxed) == 0 {
            ::kernel::warn_flags!(::core::file!(), 0);
        }
    }};
}
pub(crate) use warn_once;
