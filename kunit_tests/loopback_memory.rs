// SPDX-License-Identifier: GPL-2.0

//! Memory that data is moved between: pages scattered over the machine on the local side, one block
//! on the remote side, and the bytes that go from one to the other.

use core::ptr::{
    self,
    NonNull, //
};
use core::slice;

use kernel::prelude::*;

use crate::bindings;
use crate::loopback_report::{
    ensure,
    Failure,
    Outcome, //
};
use crate::{
    Zero,
    PAGE, //
};

/// What memory has in it that nothing is to be written to.
const CLEAR: u8 = 0xa5;

/// Bytes before and behind a transfer that are looked at too.
const GUARD: usize = 64;

/// A block of pages; freed on drop.
///
/// # Invariants
///
/// `page` heads an allocation of this order, which `start` is the address of.
struct Pages {
    page: NonNull<bindings::page>,
    start: NonNull<u8>,
    order: u32,
}

impl Pages {
    fn new(order: u32) -> Outcome<Self> {
        // SAFETY: There is nothing to be wrong with an order. The page is in the kernel's map.
        unsafe {
            let page = NonNull::new(bindings::rdma_rw_loopback_alloc_pages(order)).ok_or(ENOMEM)?;
            let start = bindings::rdma_rw_loopback_page_address(page.as_ptr());

            // INVARIANT: This is what was allocated.
            Ok(Self {
                page,
                start: NonNull::new(start.cast()).ok_or(ENOMEM)?,
                order,
            })
        }
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        // SAFETY: By the type invariant.
        unsafe { bindings::rdma_rw_loopback_free_pages(self.page.as_ptr(), self.order) };
    }
}

/// Random bytes. Transfers have a seed each, and move what lies from there on.
pub(crate) struct Pattern(KVVec<u8>);

impl Pattern {
    pub(crate) fn new() -> Outcome<Self> {
        let mut bytes = KVVec::from_elem(0u8, Remote::SIZE + (64 << 10), GFP_KERNEL)?;

        // SAFETY: The buffer has that many bytes.
        unsafe { bindings::rdma_rw_loopback_random(bytes.as_mut_ptr().cast(), bytes.len()) };
        Ok(Self(bytes))
    }

    /// All bytes of a seed.
    pub(crate) fn from(&self, seed: usize) -> &[u8] {
        &self.0[seed * 97..]
    }

    /// The first `len` bytes of a seed.
    pub(crate) fn bytes(&self, seed: usize, len: usize) -> &[u8] {
        &self.from(seed)[..len]
    }
}

/// How local memory is cut into entries.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Layout {
    /// Whole pages, but for the start of the first and the end of the last.
    Whole,
    /// Parts of pages, with gaps between them.
    Ragged,
}

/// Local memory as a caller describes it.
pub(crate) enum Table {
    Sg(KVVec<bindings::scatterlist>),
    /// Entries and number of bytes in all of them.
    Bvec(KVVec<bindings::bio_vec>, usize),
}

impl Table {
    /// Entries as addresses and lengths.
    fn segments(&self) -> impl Iterator<Item = (NonNull<u8>, usize)> + '_ {
        let (sg, bvec): (&[_], &[_]) = match self {
            Self::Sg(list) => (list, &[]),
            Self::Bvec(list, _) => (&[], list),
        };
        let sg = sg.iter().map(|sg| {
            let page = sg.page_link & !(bindings::SG_END as usize);

            (
                page as *const bindings::page,
                sg.offset as usize,
                sg.length as usize,
            )
        });
        let bvec = bvec.iter().map(|bvec| {
            (
                bvec.bv_page.cast_const(),
                bvec.bv_offset as usize,
                bvec.bv_len as usize,
            )
        });

        Iterator::chain(sg, bvec).map(|(page, offset, len)| {
            // SAFETY: The entries name pages of `Local`, which are in the kernel's map.
            let address = unsafe {
                let start = bindings::rdma_rw_loopback_page_address(page).cast::<u8>();

                NonNull::new_unchecked(start.add(offset))
            };

            (address, len)
        })
    }

    /// Number of bytes.
    pub(crate) fn size(&self) -> usize {
        match self {
            Self::Sg(list) => list.iter().map(|sg| sg.length as usize).sum(),
            Self::Bvec(_, size) => *size,
        }
    }

    /// Number of entries from an offset on.
    pub(crate) fn entries_from(&self, mut offset: usize) -> usize {
        self.segments()
            .skip_while(|(_, len)| {
                let before = offset >= *len;
                if before {
                    offset -= len;
                }
                before
            })
            .count()
    }

    /// Number of SGEs for all entries, where one is made of neighbours in memory.
    pub(crate) fn runs(&self) -> usize {
        let mut end = 0;

        self.segments()
            .filter(|(address, len)| {
                let start = address.as_ptr() as usize;
                let new = start != end;

                end = start + len;
                new
            })
            .count()
    }
}

/// Local memory: single pages.
pub(crate) struct Local(KVVec<Pages>);

impl Local {
    /// Enough for a list with gaps over all of the remote memory, and for all contexts in flight.
    const PAGES: usize = 1536;

    pub(crate) fn new() -> Outcome<Self> {
        let mut pages = KVVec::with_capacity(Self::PAGES, GFP_KERNEL)?;

        for _ in 0..Self::PAGES {
            pages.push(Pages::new(0)?, GFP_KERNEL)?;
        }
        Ok(Self(pages))
    }

    /// A table over `size` bytes that starts `start` bytes into a page.
    pub(crate) fn table(
        &self,
        bvec: bool,
        layout: Layout,
        start: usize,
        size: usize,
    ) -> Outcome<Table> {
        self.table_from(0, bvec, layout, start, size)
    }

    /// The same, from page `first` on.
    pub(crate) fn table_from(
        &self,
        first: usize,
        bvec: bool,
        layout: Layout,
        start: usize,
        size: usize,
    ) -> Outcome<Table> {
        let mut sgs = KVVec::new();
        let mut bvecs = KVVec::new();
        let mut left = size;

        for (i, pages) in self.0.iter().skip(first).enumerate() {
            let (offset, room) = match layout {
                Layout::Whole if i == 0 => (start, PAGE - start),
                Layout::Whole => (0, PAGE),
                Layout::Ragged => {
                    let offset = (start + i * 37) % 256;

                    (offset, PAGE - offset - i * 53 % 700)
                }
            };
            let len = room.min(left);

            if bvec {
                let entry = bindings::bio_vec {
                    bv_page: pages.page.as_ptr(),
                    bv_len: len as u32,
                    bv_offset: offset as u32,
                };
                bvecs.push(entry, GFP_KERNEL)?;
            } else {
                let entry = bindings::scatterlist {
                    page_link: pages.page.as_ptr() as usize,
                    offset: offset as u32,
                    length: len as u32,
                    ..bindings::scatterlist::zero()
                };
                sgs.push(entry, GFP_KERNEL)?;
            }
            left -= len;
            if left == 0 {
                break;
            }
        }
        ensure!(left == 0, "the local memory is {left} bytes too small");

        if bvec {
            return Ok(Table::Bvec(bvecs, size));
        }
        if let Some(last) = sgs.last_mut() {
            last.page_link |= bindings::SG_END as usize;
        }
        Ok(Table::Sg(sgs))
    }

    /// Clears all pages of a table.
    pub(crate) fn clear(&self, table: &Table) {
        for (address, _) in table.segments() {
            // SAFETY: An entry lies within a page of ours, all of which is in nobody else's use.
            unsafe { ptr::write_bytes(page_of(address), CLEAR, PAGE) };
        }
    }

    /// Writes bytes to a table, from `offset` on; what lies before is cleared.
    pub(crate) fn write(&self, table: &Table, offset: usize, mut bytes: &[u8]) {
        let mut skip = offset;

        for (address, len) in table.segments() {
            let before = skip.min(len);
            let (now, rest) = bytes.split_at(len - before);

            // SAFETY: As in `clear`.
            unsafe {
                ptr::write_bytes(address.as_ptr(), CLEAR, before);
                ptr::copy_nonoverlapping(now.as_ptr(), address.as_ptr().add(before), now.len());
            }
            skip -= before;
            bytes = rest;
        }
    }

    /// A table has these bytes from `offset` on, and its pages nothing new elsewhere.
    pub(crate) fn compare(&self, table: &Table, offset: usize, mut bytes: &[u8]) -> Outcome {
        let mut skip = offset;

        for (i, (address, len)) in table.segments().enumerate() {
            let page = page_of(address);
            let at = address.as_ptr() as usize - page as usize;
            // SAFETY: As in `clear`; no transfer is under way.
            let page = unsafe { slice::from_raw_parts(page, PAGE) };
            let before = skip.min(len);
            let (now, rest) = bytes.split_at(len - before);

            same(now, &page[at + before..at + len]).map_err(|e| e.at(fmt!("entry {i}")))?;
            clear(&page[..at + before]).map_err(|e| e.at(fmt!("before entry {i}")))?;
            clear(&page[at + len..]).map_err(|e| e.at(fmt!("behind entry {i}")))?;
            skip -= before;
            bytes = rest;
        }
        Ok(())
    }

    /// A table has the bytes that belong `offset` bytes into it right at its start.
    pub(crate) fn compare_early(&self, table: &Table, offset: usize, bytes: &[u8]) -> Outcome {
        let mut left = &bytes[..table.size() - offset];

        for (i, (address, len)) in table.segments().enumerate() {
            let len = len.min(left.len());
            let (now, rest) = left.split_at(len);

            // SAFETY: As in `compare`.
            same(now, unsafe { slice::from_raw_parts(address.as_ptr(), len) })
                .map_err(|e| e.at(fmt!("entry {i}")))?;
            left = rest;
        }
        Ok(())
    }
}

/// Start of the page that an address lies in.
fn page_of(address: NonNull<u8>) -> *mut u8 {
    let address = address.as_ptr();

    address.wrapping_sub(address as usize % PAGE)
}

/// Two slices of one length have the same bytes.
fn same(want: &[u8], got: &[u8]) -> Outcome {
    if want == got {
        return Ok(());
    }
    match want.iter().zip(got).position(|(want, got)| want != got) {
        Some(i) => Err(Failure::text(fmt!(
            "byte {i} of {} is {:#04x}, not {:#04x}",
            want.len(),
            got[i],
            want[i]
        ))),
        None => Err(Failure::text(fmt!(
            "{} bytes, not {}",
            got.len(),
            want.len()
        ))),
    }
}

/// Nothing has been written to a slice.
fn clear(bytes: &[u8]) -> Outcome {
    match bytes.iter().position(|byte| *byte != CLEAR) {
        None => Ok(()),
        Some(i) => Err(Failure::text(fmt!(
            "byte {i} of {} has been written, with {:#04x}",
            bytes.len(),
            bytes[i]
        ))),
    }
}

/// Remote memory: one block, as a peer would have registered it.
pub(crate) struct Remote(Pages);

impl Remote {
    const ORDER: u32 = 10;

    /// Its size, the largest transfer.
    pub(crate) const SIZE: usize = PAGE << Self::ORDER;

    pub(crate) fn new() -> Outcome<Self> {
        let this = Self(Pages::new(Self::ORDER)?);

        // SAFETY: That is all of it.
        unsafe { ptr::write_bytes(this.0.start.as_ptr(), CLEAR, Self::SIZE) };
        Ok(this)
    }

    /// Address of a place, as the peer's key counts: a soft device works with kernel addresses.
    pub(crate) fn addr(&self, at: usize) -> u64 {
        self.0.start.as_ptr() as u64 + at as u64
    }

    fn bytes(&self) -> &[u8] {
        // SAFETY: That is all of it; no transfer is under way.
        unsafe { slice::from_raw_parts(self.0.start.as_ptr(), Self::SIZE) }
    }

    fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: That is all of it; no transfer is under way.
        unsafe { slice::from_raw_parts_mut(self.0.start.as_ptr(), Self::SIZE) }
    }

    /// Clears `len` bytes, and what is looked at around them.
    pub(crate) fn clear(&mut self, at: usize, len: usize) {
        let end = (at + len + GUARD).min(Self::SIZE);

        self.bytes_mut()[at.saturating_sub(GUARD)..end].fill(CLEAR);
    }

    pub(crate) fn write(&mut self, at: usize, bytes: &[u8]) {
        self.bytes_mut()[at..][..bytes.len()].copy_from_slice(bytes);
    }

    /// The bytes of a place are these, and nothing around them has been written.
    pub(crate) fn compare(&self, at: usize, bytes: &[u8]) -> Outcome {
        let end = at + bytes.len();

        self.compare_inside(at, bytes)?;
        clear(&self.bytes()[at.saturating_sub(GUARD)..at])
            .and_then(|()| clear(&self.bytes()[end..(end + GUARD).min(Self::SIZE)]))
            .map_err(|e| e.at(fmt!("around the remote memory")))
    }

    /// The bytes of a place are these.
    pub(crate) fn compare_inside(&self, at: usize, bytes: &[u8]) -> Outcome {
        same(bytes, &self.bytes()[at..][..bytes.len()]).map_err(|e| e.at(fmt!("remote memory")))
    }
}
