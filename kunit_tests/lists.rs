// SPDX-License-Identifier: GPL-2.0

//! Local memory of transfers: entries of every shape, as a scatterlist or as an array of `bio_vec`,
//! and their contents.

use kernel::prelude::*;

use crate::bindings;
use crate::mock::{
    pattern,
    Mock,
    Pages,
    PAGE, //
};

/// The entries of local memory.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Shape {
    /// So many whole pages, each on its own.
    Pages(u32),
    /// So many entries of the same offset in a page and length, each on its own.
    Each(u32, (u32, u32)),
    /// Entries by offset in a page and length, each on its own.
    List(&'static [(u32, u32)]),
    /// So many entries of the same length, one behind the other in one piece of memory.
    Adjacent(u32, u32),
    /// Entries by offset and length in one piece of memory.
    Within(&'static [(u32, u32)]),
}

impl Shape {
    /// Number of entries.
    pub(crate) fn nents(&self) -> u32 {
        match self {
            Self::Pages(nr) | Self::Each(nr, _) | Self::Adjacent(nr, _) => *nr,
            // CAST: Tables are short.
            Self::List(entries) | Self::Within(entries) => entries.len() as u32,
        }
    }

    /// Whether the entries lie in one piece of memory.
    fn is_one_piece(&self) -> bool {
        matches!(self, Self::Adjacent(..) | Self::Within(_))
    }

    /// The piece of memory of an entry.
    fn piece(&self, i: u32) -> usize {
        if self.is_one_piece() {
            0
        } else {
            i as usize
        }
    }

    /// Offset in its piece of memory and length of an entry.
    fn entry(&self, i: u32) -> (u32, u32) {
        match self {
            Self::Pages(_) => (0, PAGE),
            Self::Each(_, entry) => *entry,
            Self::List(entries) | Self::Within(entries) => {
                entries.get(i as usize).copied().unwrap_or((0, 0))
            }
            Self::Adjacent(_, len) => (i.wrapping_mul(*len), *len),
        }
    }

    /// Number of bytes.
    pub(crate) fn len(&self) -> u64 {
        (0..self.nents()).map(|i| u64::from(self.entry(i).1)).sum()
    }
}

/// Local memory; freed on drop.
pub(crate) struct Local<'a> {
    pages: KVVec<Pages<'a>>,
    shape: Shape,
}

/// What memory that no transfer may touch is filled with.
const POISON: u8 = 0xee;

/// Writes bytes `at` and on of a pattern.
pub(crate) fn write_pattern(seed: u64, at: u64, to: &mut [u8]) {
    let mut at = at;
    let mut rest = to;

    while !rest.is_empty() {
        let word = pattern(seed, at / 8).to_le_bytes();
        let from = (at % 8) as usize;
        let n = (8 - from).min(rest.len());
        let (now, later) = rest.split_at_mut(n);

        now.copy_from_slice(&word[from..from + n]);
        at += n as u64;
        rest = later;
    }
}

/// Whether bytes are those of a pattern from `at` on.
pub(crate) fn is_pattern(seed: u64, at: u64, bytes: &[u8]) -> bool {
    let mut want = [0; 64];

    bytes.chunks(64).enumerate().all(|(i, chunk)| {
        let want = &mut want[..chunk.len()];

        write_pattern(seed, at + i as u64 * 64, want);
        chunk == want
    })
}

impl<'a> Local<'a> {
    /// Allocates memory of a shape.
    pub(crate) fn new(mock: &'a Mock, shape: Shape) -> Result<Self> {
        let mut pages = KVVec::new();

        if shape.is_one_piece() {
            let end = (0..shape.nents())
                .map(|i| shape.entry(i))
                .fold(0, |end, (offset, len)| offset.saturating_add(len).max(end));

            pages.push(Pages::new(mock, end.div_ceil(PAGE))?, GFP_KERNEL)?;
        } else {
            for i in 0..shape.nents() {
                let (offset, len) = shape.entry(i);
                let nr = offset.saturating_add(len).div_ceil(PAGE);

                // One more, so that none follows another in memory by chance.
                pages.push(Pages::new(mock, nr + 1)?, GFP_KERNEL)?;
            }
        }
        let mut this = Self { pages, shape };

        this.poison();
        Ok(this)
    }

    /// Number of entries.
    pub(crate) fn nents(&self) -> u32 {
        self.shape.nents()
    }

    /// Number of bytes.
    pub(crate) fn len(&self) -> u64 {
        self.shape.len()
    }

    /// First page of the memory of an entry, offset from there, and length.
    fn entry(&self, i: u32) -> (*mut bindings::page, u32, u32) {
        let (offset, len) = self.shape.entry(i);
        let first = if self.shape.is_one_piece() {
            offset / PAGE
        } else {
            0
        };

        match self.pages.get(self.shape.piece(i)) {
            Some(pages) => (pages.page(first), offset - first * PAGE, len),
            None => (core::ptr::null_mut(), 0, 0),
        }
    }

    /// The bytes of an entry.
    fn bytes(&mut self, i: u32) -> &mut [u8] {
        let (offset, len) = self.shape.entry(i);

        self.pages
            .get_mut(self.shape.piece(i))
            .and_then(|pages| {
                pages
                    .bytes()
                    .get_mut(offset as usize..offset as usize + len as usize)
            })
            .unwrap_or_default()
    }

    /// Fills all of the pages with what no pattern is.
    pub(crate) fn poison(&mut self) {
        for pages in self.pages.iter_mut() {
            pages.bytes().fill(POISON);
        }
    }

    /// Fills the entries with a pattern that goes through all of them.
    pub(crate) fn fill(&mut self, seed: u64) {
        let mut at = 0;

        for i in 0..self.nents() {
            let bytes = self.bytes(i);

            write_pattern(seed, at, bytes);
            at += bytes.len() as u64;
        }
    }

    /// The bytes of all entries.
    pub(crate) fn read(&mut self) -> Result<KVVec<u8>> {
        let mut all = KVVec::new();

        for i in 0..self.nents() {
            all.extend_from_slice(self.bytes(i), GFP_KERNEL)?;
        }
        Ok(all)
    }

    /// Whether the entries hold the beginning of a pattern behind their first `skip` bytes up to
    /// `end`, and poison elsewhere.
    pub(crate) fn holds(&mut self, seed: u64, skip: u64, end: u64) -> bool {
        let mut at = 0;
        let mut good = true;

        for i in 0..self.nents() {
            let bytes = self.bytes(i);
            let len = bytes.len() as u64;
            let first = skip.saturating_sub(at).min(len);
            let last = end.saturating_sub(at).clamp(first, len);
            let (before, rest) = bytes.split_at(first as usize);
            let (inside, after) = rest.split_at((last - first) as usize);

            good &= [before, after]
                .into_iter()
                .flatten()
                .all(|byte| *byte == POISON);
            good &= is_pattern(seed, (at + first).saturating_sub(skip), inside);
            at += len;
            // What remains outside must be poison.
            bytes.fill(POISON);
        }
        good && self
            .pages
            .iter_mut()
            .all(|pages| pages.bytes().iter().all(|byte| *byte == POISON))
    }

    /// The memory as a scatterlist.
    pub(crate) fn sg(&self) -> Result<SgList> {
        SgList::new(self.nents(), |i| self.entry(i))
    }

    /// The memory as a scatterlist in two tables, the first of `first` entries.
    pub(crate) fn chained_sg(&self, first: u32) -> Result<SgList> {
        SgList::chained(self.nents(), first, |i| self.entry(i))
    }

    /// The memory as an array of `bio_vec`.
    pub(crate) fn bvecs(&self) -> Result<KVVec<bindings::bio_vec>> {
        let mut bvecs = KVVec::new();

        for i in 0..self.nents() {
            let (bv_page, bv_offset, bv_len) = self.entry(i);

            bvecs.push(
                bindings::bio_vec {
                    bv_page,
                    bv_len,
                    bv_offset,
                },
                GFP_KERNEL,
            )?;
        }
        Ok(bvecs)
    }
}

/// A scatterlist.
pub(crate) struct SgList {
    entries: KVVec<bindings::scatterlist>,
    nents: u32,
}

impl SgList {
    /// A list in one table, of entries by page, offset and length.
    pub(crate) fn new(
        nents: u32,
        entry: impl Fn(u32) -> (*mut bindings::page, u32, u32),
    ) -> Result<Self> {
        Self::chained(nents, nents, entry)
    }

    /// A list in two tables, the first of `first` entries.
    fn chained(
        nents: u32,
        first: u32,
        entry: impl Fn(u32) -> (*mut bindings::page, u32, u32),
    ) -> Result<Self> {
        let mut entries = KVVec::with_capacity(nents as usize + 1, GFP_KERNEL)?;

        for i in 0..nents {
            if i == first {
                entries.push(Self::raw(0, 0, 0), GFP_KERNEL)?;
            }
            let (page, offset, len) = entry(i);

            entries.push(Self::raw(page as usize, offset, len), GFP_KERNEL)?;
        }
        if let Some(last) = entries.last_mut() {
            last.page_link |= bindings::SG_END as usize;
        }
        let next = entries.get(first as usize + 1).map(core::ptr::from_ref);
        if let (Some(next), Some(link)) = (next, entries.get_mut(first as usize)) {
            link.page_link = next as usize | bindings::SG_CHAIN as usize;
        }
        Ok(Self { entries, nents })
    }

    /// An entry, or room for a link.
    fn raw(page_link: usize, offset: u32, length: u32) -> bindings::scatterlist {
        // SAFETY: All members are numbers.
        let mut entry: bindings::scatterlist = unsafe { core::mem::zeroed() };

        entry.page_link = page_link;
        entry.offset = offset;
        entry.length = length;
        // What is not mapped must not be taken for it.
        entry.dma_address = u64::MAX / 2;
        entry
    }

    /// The list as C takes it.
    pub(crate) fn as_raw(&self) -> *mut bindings::scatterlist {
        self.entries.as_ptr().cast_mut()
    }

    /// Number of entries.
    pub(crate) fn nents(&self) -> u32 {
        self.nents
    }
}

/// Length of an entry as the device sees it.
///
/// # Safety
///
/// `sg` must be valid.
pub(crate) unsafe fn dma_len(sg: *const bindings::scatterlist) -> u32 {
    // SAFETY: By this function's safety requirement.
    unsafe {
        #[cfg(CONFIG_NEED_SG_DMA_LENGTH)]
        {
            (*sg).dma_length
        }
        #[cfg(not(CONFIG_NEED_SG_DMA_LENGTH))]
        {
            (*sg).length
        }
    }
}

/// An iterator over an array of `bio_vec`.
pub(crate) fn bvec_iter(idx: u32, done: u32, size: u64) -> bindings::bvec_iter {
    bindings::bvec_iter {
        bi_idx: idx,
        bi_offset: done,
        // CAST: As long as C can say.
        bi_size: size as u32,
        // SAFETY: All members are numbers.
        ..unsafe { core::mem::zeroed() }
    }
}
