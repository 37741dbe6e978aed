// SPDX-License-Identifier: GPL-2.0

//! What C declares, as `bindgen` sees it.

#[allow(
    clippy::all,
    clippy::as_underscore,
    clippy::cast_lossless,
    clippy::ptr_as_ptr,
    clippy::ref_as_ptr,
    clippy::undocumented_unsafe_blocks,
    dead_code,
    improper_ctypes,
    missing_docs,
    non_camel_case_types,
    non_snake_case,
    non_upper_case_globals,
    unreachable_pub,
    unsafe_op_in_unsafe_fn,
    reason = "generated code follows the headers, not the guidelines"
)]
mod generated {
    use kernel::ffi;

    // Blocklisted, so that they become `usize` and `isize` on every architecture.
    type __kernel_size_t = usize;
    type __kernel_ssize_t = isize;
    type __kernel_ptrdiff_t = isize;

    include!(concat!(
        env!("RDMA_RW_TESTS_GENERATED"),
        "/bindings_generated.rs"
    ));
}

pub(crate) use generated::*;
