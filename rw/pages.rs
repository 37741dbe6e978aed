// SPDX-License-Identifier: GPL-2.0

//! From pointers to `struct page` to the addresses of pages, without a call for each.

use core::cell::UnsafeCell;
use core::mem::size_of;

use super::device::DmaDevice;
use crate::bindings;

/// Bits of an address that count within a page.
pub(super) const IN_PAGE: u64 = kernel::page::PAGE_SIZE as u64 - 1;

/// Whether the address of a page is a linear function of the pointer to it, everywhere.
const LINEAR: bool = cfg!(CONFIG_64BIT)
    && cfg!(any(CONFIG_FLATMEM, CONFIG_SPARSEMEM_VMEMMAP))
    && !cfg!(any(CONFIG_KASAN_SW_TAGS, CONFIG_KASAN_HW_TAGS))
    && SIZE_SHIFT <= kernel::page::PAGE_SHIFT as u32;

/// The power of two in the size of a `struct page`.
const SIZE_SHIFT: u32 = size_of::<bindings::page>().trailing_zeros();

/// What undoes a multiplication by the odd rest of that size, modulo 2^64.
const INVERSE: u64 = inverse(size_of::<bindings::page>() as u64 >> SIZE_SHIFT);

/// Inverse of an odd number modulo 2^64.
const fn inverse(odd: u64) -> u64 {
    // Every odd number is its own inverse modulo 8, and each step doubles the bits that are right.
    let mut inverse = odd;
    let mut bits = 3;

    while bits < u64::BITS {
        inverse = inverse.wrapping_mul(2u64.wrapping_sub(odd.wrapping_mul(inverse)));
        bits *= 2;
    }
    inverse
}

const _: () = assert!(
    (size_of::<bindings::page>() as u64).wrapping_mul(INVERSE) == 1 << SIZE_SHIFT,
    "the inverse is none"
);

/// The constant of that function; 0 before its first use.
///
/// Whoever finds a 0 writes the same value there, so that nothing has to be ordered.
struct Base(UnsafeCell<u64>);

// SAFETY: Any two writes are of the same word, and all accesses are volatile ones of a machine
// word.
unsafe impl Sync for Base {}

impl Base {
    /// The constant, if it is known.
    #[inline]
    fn get(&self) -> u64 {
        // SAFETY: The cell is valid; see above for races.
        unsafe { self.0.get().read_volatile() }
    }

    /// Keeps the constant.
    fn set(&self, base: u64) {
        // SAFETY: As above.
        unsafe { self.0.get().write_volatile(base) };
    }
}

/// The constant for kernel addresses.
static KERNEL: Base = Base(UnsafeCell::new(0));

/// The constant for physical addresses.
static PHYSICAL: Base = Base(UnsafeCell::new(0));

/// Address of a page by its `struct page`, in the kernel's memory for a software device, else
/// physical.
#[derive(Clone, Copy)]
pub(super) struct Pages {
    dma_device: Option<DmaDevice>,
    base: u64,
}

impl Pages {
    /// Pages as a device sees them before they are mapped, of which `page` is one.
    #[inline(always)]
    pub(super) fn new(dma_device: Option<DmaDevice>, page: *const bindings::page) -> Self {
        match dma_device {
            None => Self::of_virtual(page),
            Some(_) => Self {
                dma_device,
                base: Self::base(&PHYSICAL, dma_device, page),
            },
        }
    }

    /// Pages as a software device sees them, of which `page` is one.
    #[inline(always)]
    pub(super) fn of_virtual(page: *const bindings::page) -> Self {
        Self {
            dma_device: None,
            base: Self::base(&KERNEL, None, page),
        }
    }

    /// A constant, which is found out if it is not known.
    #[inline(always)]
    fn base(cached: &Base, dma_device: Option<DmaDevice>, page: *const bindings::page) -> u64 {
        match cached.get() {
            0 if LINEAR => Self::learn(cached, dma_device, page),
            base => base,
        }
    }

    /// Pages as a software device sees them, if that is known without asking.
    #[inline]
    pub(super) fn known_virtual() -> Option<Self> {
        match KERNEL.get() {
            0 => None,
            base if LINEAR => Some(Self {
                dma_device: None,
                base,
            }),
            _ => None,
        }
    }

    /// Finds out a constant, and keeps it.
    #[cold]
    fn learn(cached: &Base, dma_device: Option<DmaDevice>, page: *const bindings::page) -> u64 {
        let base = page_address(dma_device, page).wrapping_sub(Self::distance(page));

        cached.set(base);
        base
    }

    /// How far a page's address lies from the constant.
    ///
    /// Pointers to two pages are a multiple of the size apart, which the inverse turns into the
    /// number of pages, times a power of two; so their distances are that number of pages apart.
    #[inline]
    fn distance(page: *const bindings::page) -> u64 {
        (page as u64)
            .wrapping_mul(INVERSE)
            .wrapping_shl((kernel::page::PAGE_SHIFT as u32).wrapping_sub(SIZE_SHIFT))
    }

    /// The device that the pages will be mapped for, if any.
    #[inline]
    pub(super) fn dma_device(&self) -> Option<DmaDevice> {
        self.dma_device
    }

    /// Address of the byte at an offset of a page, which may lie in a page behind that.
    #[inline]
    pub(super) fn address(&self, page: *const bindings::page, offset: u32) -> u64 {
        let page = if LINEAR {
            self.base.wrapping_add(Self::distance(page))
        } else {
            page_address(self.dma_device, page)
        };

        page.wrapping_add(u64::from(offset))
    }
}

/// Address of a page, from C.
fn page_address(dma_device: Option<DmaDevice>, page: *const bindings::page) -> u64 {
    // SAFETY: The pages of a transfer are valid, by the safety requirements of its sources.
    unsafe {
        match dma_device {
            None => bindings::rdma_rw_c_page_virt(page),
            Some(_) => bindings::rdma_rw_c_page_phys(page),
        }
    }
}
