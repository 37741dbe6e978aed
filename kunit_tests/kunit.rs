// SPDX-License-Identifier: GPL-2.0

//! KUnit for tests that are written in Rust and listed in C.
//!
//! A failed expectation is reported and the test goes on, so that whatever a test holds is released
//! by its drop: nothing here aborts a test. What a test cannot go on without is a [`Result`].

use core::ffi::CStr;
use core::fmt::Debug;
use core::panic::Location;
use core::ptr::NonNull;

use kernel::fmt;
use kernel::prelude::*;
use kernel::str::{
    CStrExt,
    CString, //
};

use crate::bindings;

/// A running test case.
pub(crate) struct Test {
    raw: NonNull<bindings::kunit>,
}

impl Test {
    /// Takes KUnit's pointer.
    ///
    /// # Safety
    ///
    /// `raw` must be the running test case.
    pub(crate) unsafe fn from_raw(raw: *mut bindings::kunit) -> Self {
        Self {
            // SAFETY: A running test case has a context.
            raw: unsafe { NonNull::new_unchecked(raw) },
        }
    }

    /// The parameter of a case that has some; the caller knows its type.
    pub(crate) fn param(&self) -> *const c_void {
        // SAFETY: The test case is running.
        unsafe { bindings::rdma_rw_kunit_param(self.raw.as_ptr()) }
    }

    /// Fails the test, with a message; it goes on.
    #[track_caller]
    pub(crate) fn fail(&self, message: fmt::Arguments<'_>) {
        let place = Location::caller();
        let text = |args| CString::try_from_fmt(args);
        let (file, message) = (text(fmt!("{}", place.file())), text(message));
        let get = |text: &Result<CString>| match text {
            Ok(text) => text.as_char_ptr(),
            Err(_) => c"(no memory for the message)".as_char_ptr(),
        };

        // SAFETY: The test case is running, and the strings live as long as the call.
        unsafe {
            bindings::rdma_rw_kunit_fail(
                self.raw.as_ptr(),
                get(&file),
                // CAST: A line number.
                place.line() as c_int,
                get(&message),
            );
        }
    }

    /// Expects a condition to hold.
    #[track_caller]
    pub(crate) fn expect(&self, holds: bool, what: fmt::Arguments<'_>) {
        if !holds {
            self.fail(what);
        }
    }

    /// Expects two values to be the same.
    #[track_caller]
    pub(crate) fn expect_eq<T: PartialEq + Debug>(&self, what: &str, got: T, want: T) {
        if got != want {
            self.fail(fmt!("{what} is {got:?}, not {want:?}"));
        }
    }

    /// Says why this test cannot run here, as the result of its body.
    pub(crate) fn skip(&self, reason: &'static CStr) -> Result {
        // SAFETY: The test case is running.
        unsafe { bindings::rdma_rw_kunit_skip(self.raw.as_ptr(), reason.as_char_ptr()) };
        Ok(())
    }

    /// Runs code that is expected to warn `want` times; the warnings are counted, not printed.
    #[track_caller]
    pub(crate) fn expect_warnings<T>(&self, want: i32, body: impl FnOnce() -> T) -> T {
        let (got, result) = self.count_warnings(body);

        self.expect_eq("number of warnings", got, want);
        result
    }

    /// Runs code and counts its warnings, which are not printed.
    pub(crate) fn count_warnings<T>(&self, body: impl FnOnce() -> T) -> (i32, T) {
        // SAFETY: The test case is running; what is started is ended below.
        unsafe {
            bindings::rdma_rw_kunit_clear_once();
            let handle = bindings::kunit_start_suppress_warning(self.raw.as_ptr());
            let result = body();
            let got = bindings::kunit_suppressed_warning_count(handle);

            bindings::kunit_end_suppress_warning(self.raw.as_ptr(), handle);
            (got, result)
        }
    }
}

/// Pages that the slab allocator has.
pub(crate) fn slab_pages() -> usize {
    // SAFETY: It may sleep here.
    unsafe { bindings::rdma_rw_kunit_slab_pages() }
}

/// By how many of them processors may be wrong: what a test would see leaking has to be more.
pub(crate) fn slab_slack() -> u32 {
    // SAFETY: It reads a number.
    unsafe { bindings::rdma_rw_kunit_slab_slack() }
}

/// Whether the memory in use tells of leaks. KASAN keeps what was freed, up to a part of all memory.
pub(crate) const LEAKS_SHOW: bool = !cfg!(CONFIG_KASAN_GENERIC);

/// Expects the slab allocator to have grown by less than [`slab_slack`] since it had `before`,
/// where [`LEAKS_SHOW`].
///
/// An IOMMU frees what it needs no more after a while: a leak is what stays.
#[track_caller]
pub(crate) fn expect_no_growth(test: &Test, before: usize) {
    // CAST: A small number.
    let most = before + slab_slack() as usize;
    let mut after = slab_pages();

    if !LEAKS_SHOW {
        return;
    }
    for _ in 0..50 {
        if after < most {
            return;
        }
        after = slab_pages();
    }
    test.fail(fmt!(
        "pages of the slab allocator grew from {before} to {after}"
    ));
}

/// A parameter of a test case.
pub(crate) trait Param: 'static {
    /// What KUnit prints for it.
    fn name(&self) -> &'static str;
}

/// Body of a generator of parameters: the one after `prev`.
///
/// # Safety
///
/// `prev` must be null or an element of `params`; `desc` must have room for a description.
pub(crate) unsafe fn next_param<T: Param>(
    params: &'static [T],
    prev: *const c_void,
    desc: *mut c_char,
) -> *const c_void {
    let next = if prev.is_null() {
        params.first()
    } else {
        // SAFETY: By this function's safety requirement.
        let index = unsafe { prev.cast::<T>().offset_from(params.as_ptr()) };

        // CAST: An index.
        params.get(index as usize + 1)
    };
    let Some(next) = next else {
        return core::ptr::null();
    };
    let name = next.name();

    // SAFETY: By this function's safety requirement; the precision ends the name.
    unsafe {
        bindings::scnprintf(
            desc,
            bindings::KUNIT_PARAM_DESC_SIZE as usize,
            c"%.*s".as_char_ptr(),
            // CAST: Names are short.
            name.len() as c_int,
            name.as_ptr(),
        );
    }
    core::ptr::from_ref(next).cast()
}

/// Runs the body of a test case and reports the error it could not go on with.
///
/// # Safety
///
/// `raw` must be the running test case.
#[track_caller]
pub(crate) unsafe fn run(raw: *mut bindings::kunit, body: impl FnOnce(&Test) -> Result) {
    // SAFETY: By this function's safety requirement.
    let test = unsafe { Test::from_raw(raw) };

    if let Err(e) = body(&test) {
        test.fail(fmt!("it could not go on: {e:?}"));
    }
}

/// Defines the functions that `suites.c` lists, each named `rdma_rw_kunit_` and the name of its
/// body, which is a function `fn(&Test) -> Result`, or with `for PARAMS` `fn(&Test, &T) -> Result`
/// over an array of `T`.
macro_rules! kunit_cases {
    ($module:ident: $($name:ident $(for $params:ident)?),* $(,)?) => {
        ::kernel::macros::paste! {
            $($crate::kunit::kunit_cases!(
                @case $module $name [<rdma_rw_kunit_ $name>]
                $([<rdma_rw_kunit_ $name _params>] $params)?
            );)*
        }
    };
    (@case $module:ident $name:ident $case:ident) => {
        #[no_mangle]
        extern "C" fn $case(test: *mut bindings::kunit) {
            // SAFETY: KUnit runs this test case.
            unsafe { $crate::kunit::run(test, $module::$name) };
        }
    };
    (@case $module:ident $name:ident $case:ident $generator:ident $params:ident) => {
        #[no_mangle]
        extern "C" fn $case(test: *mut bindings::kunit) {
            // SAFETY: KUnit runs this test case, with an element of the array below.
            unsafe {
                $crate::kunit::run(test, |test| {
                    $module::$name(test, $crate::kunit::element($module::$params, test.param()))
                })
            };
        }

        #[no_mangle]
        extern "C" fn $generator(
            _test: *mut bindings::kunit,
            prev: *const c_void,
            desc: *mut c_char,
        ) -> *const c_void {
            // SAFETY: KUnit hands in what this function has returned before.
            unsafe { $crate::kunit::next_param($module::$params, prev, desc) }
        }
    };
}
pub(crate) use kunit_cases;

/// The element of an array that a pointer points to.
///
/// # Safety
///
/// It must point to one of `params`.
pub(crate) unsafe fn element<T>(_params: &'static [T], raw: *const c_void) -> &'static T {
    // SAFETY: By this function's safety requirement.
    unsafe { &*raw.cast() }
}
