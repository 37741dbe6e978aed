// SPDX-License-Identifier: GPL-2.0

//! Scatterlists: the caller's, and a cursor over the entries of a mapped one.

use core::marker::PhantomData;
use core::mem::{
    self,
    MaybeUninit, //
};
use core::num::NonZeroU32;
use core::ptr::NonNull;

use kernel::prelude::*;

use super::{
    dma::{
        MappedSg,
        Segment, //
    },
    multi::Segments,
    pages::{
        Pages,
        IN_PAGE, //
    },
    warn_on_once, //
};
use crate::bindings;

/// A scatterlist as a caller gives it.
///
/// # Invariants
///
/// `sgl` heads a valid list of at least `nents` entries, which nobody else changes as long as this
/// value or anything made from it is in use. `nents` fits an `int`.
#[derive(Clone, Copy)]
pub(crate) struct SgSource {
    sgl: NonNull<bindings::scatterlist>,
    nents: NonZeroU32,
}

impl SgSource {
    /// Takes a C list.
    ///
    /// # Errors
    ///
    /// `EINVAL` without a list, `EIO` without entries.
    ///
    /// # Safety
    ///
    /// `sgl` must be null or head a list of at least `nents` entries that stays as it is while the
    /// result is in use.
    #[inline]
    pub(crate) unsafe fn from_raw(sgl: *mut bindings::scatterlist, nents: u32) -> Result<Self> {
        let sgl = NonNull::new(sgl).ok_or(EINVAL)?;
        let nents = NonZeroU32::new(nents).ok_or(EIO)?;

        // The DMA API counts in `int`.
        if i32::try_from(nents.get()).is_err() {
            return Err(EINVAL);
        }

        // INVARIANT: By this function's safety requirement, and the check above.
        Ok(Self { sgl, nents })
    }

    /// Takes a C list of one entry; none where there are more, or fewer.
    ///
    /// # Safety
    ///
    /// As for [`SgSource::from_raw`].
    #[inline(always)]
    pub(crate) unsafe fn of_one(sgl: *mut bindings::scatterlist, nents: u32) -> Option<Self> {
        if nents != 1 {
            return None;
        }
        // INVARIANT: By this function's safety requirement.
        NonNull::new(sgl).map(|sgl| Self {
            sgl,
            nents: NonZeroU32::MIN,
        })
    }

    /// Takes what [`SgSource::as_raw`] and [`SgSource::nents`] have told.
    ///
    /// # Safety
    ///
    /// As for [`SgSource::from_raw`]; and both must be of one list.
    #[cfg(not(rdma_rw_takeover))]
    #[inline(always)]
    pub(super) unsafe fn from_parts(sgl: *mut bindings::scatterlist, nents: u32) -> Self {
        // SAFETY: By this function's safety requirement.
        // INVARIANT: As above.
        unsafe {
            Self {
                sgl: NonNull::new_unchecked(sgl),
                nents: NonZeroU32::new_unchecked(nents),
            }
        }
    }

    /// First entry of the list.
    #[inline]
    pub(super) fn as_raw(&self) -> *mut bindings::scatterlist {
        self.sgl.as_ptr()
    }

    /// Number of entries, before any DMA coalescing.
    #[inline]
    pub(super) fn nents(&self) -> NonZeroU32 {
        self.nents
    }

    /// [`SgSource::map_virtual`] for the first entry alone, and what it is mapped to without its
    /// first `offset` bytes; none where it is not longer than that.
    #[inline]
    pub(super) fn map_virtual_one(&self, pages: &Pages, offset: u32) -> Option<Segment> {
        let sg = self.as_raw();

        // SAFETY: By the type invariant this is an entry, and nobody else's.
        unsafe { (offset < (*sg).length).then(|| note_virtual(sg, pages).without(offset)) }
    }

    /// Notes in every entry what a software device takes for its DMA address: where its memory lies
    /// in the kernel's. Returns whether none is empty.
    #[inline]
    pub(super) fn map_virtual(&self) -> bool {
        let mut sg = self.as_raw();
        let mut left = self.nents.get();
        let mut shortest = u32::MAX;
        // SAFETY: By the type invariant this is an entry.
        let pages = Pages::of_virtual(unsafe { page(sg) });

        loop {
            // SAFETY: By the type invariant this is an entry, and nobody else's.
            shortest = shortest.min(unsafe { note_virtual(sg, &pages) }.len);

            // Not below 0, since the last entry ends the loop.
            left = left.wrapping_sub(1);
            if left == 0 {
                return shortest != 0;
            }
            // SAFETY: At least one entry is left behind this one.
            sg = unsafe { next_entry(sg) };
        }
    }
}

/// Notes in an entry where its memory lies in the kernel's, and returns that.
///
/// # Safety
///
/// `sg` must be valid and nobody else's.
#[inline]
unsafe fn note_virtual(sg: *mut bindings::scatterlist, pages: &Pages) -> Segment {
    // SAFETY: By this function's safety requirement.
    unsafe {
        let segment = Segment {
            addr: pages.address(page(sg), (*sg).offset),
            len: (*sg).length,
        };

        (*sg).dma_address = segment.addr;
        set_dma_len(sg, segment.len);
        segment
    }
}

/// The page that an entry starts in.
///
/// # Safety
///
/// `sg` must be valid.
#[inline]
unsafe fn page(sg: *const bindings::scatterlist) -> *const bindings::page {
    // SAFETY: By this function's safety requirement.
    (unsafe { (*sg).page_link } & !(SG_CHAIN | SG_END)) as *const bindings::page
}

/// Length of an entry as mapped for DMA.
///
/// # Safety
///
/// `sg` must be valid.
#[inline]
unsafe fn dma_len(sg: *const bindings::scatterlist) -> u32 {
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

/// Whether none of `nr` entries is empty, as mapped for DMA.
///
/// # Safety
///
/// `sg` must be a valid entry, followed by at least `nr - 1` more.
pub(super) unsafe fn are_filled(mut sg: *mut bindings::scatterlist, nr: NonZeroU32) -> bool {
    let mut left = nr.get();

    // SAFETY: By this function's safety requirement, `left` counts this entry and those behind it.
    while unsafe { dma_len(sg) } != 0 {
        // Not below 0, since the last entry ends the loop.
        left = left.wrapping_sub(1);
        if left == 0 {
            return true;
        }
        // SAFETY: At least one entry is left behind this one.
        sg = unsafe { next_entry(sg) };
    }
    false
}

/// Sets the length of an entry as mapped for DMA.
///
/// # Safety
///
/// `sg` must be valid and nobody else's.
#[inline]
unsafe fn set_dma_len(sg: *mut bindings::scatterlist, len: u32) {
    // SAFETY: By this function's safety requirement.
    unsafe {
        #[cfg(CONFIG_NEED_SG_DMA_LENGTH)]
        {
            (*sg).dma_length = len;
        }
        #[cfg(not(CONFIG_NEED_SG_DMA_LENGTH))]
        {
            (*sg).length = len;
        }
    }
}

/// The entry after another, across the links between chained tables.
///
/// # Safety
///
/// `sg` must be a valid entry and not the last of its list.
#[inline]
unsafe fn next_entry(sg: *mut bindings::scatterlist) -> *mut bindings::scatterlist {
    // SAFETY: An entry that is not the last is followed by another element of its table.
    let next = unsafe { sg.add(1) };
    // SAFETY: As above.
    let link = unsafe { (*next).page_link };

    if link & SG_CHAIN != 0 {
        chained_table(link)
    } else {
        next
    }
}

/// The table that a link leads to. Tables are long, so that this is rare.
#[cold]
fn chained_table(link: usize) -> *mut bindings::scatterlist {
    (link & !(SG_CHAIN | SG_END)) as *mut bindings::scatterlist
}

/// `SG_CHAIN`, as wide as the field it stands in.
const SG_CHAIN: usize = bindings::SG_CHAIN as usize;

/// `SG_END`, as wide as the field it stands in.
const SG_END: usize = bindings::SG_END as usize;

/// How the memory of an entry is told.
pub(super) trait View: Clone {
    /// The memory of an entry.
    ///
    /// # Safety
    ///
    /// `sg` must be a valid entry of a list that this view is of, and nobody else's.
    unsafe fn segment(&self, sg: *mut bindings::scatterlist) -> Segment;
}

/// By its DMA mapping, which there is.
#[derive(Clone)]
pub(super) struct Mapped;

impl View for Mapped {
    #[inline(always)]
    unsafe fn segment(&self, sg: *mut bindings::scatterlist) -> Segment {
        // SAFETY: By this function's safety requirement.
        unsafe {
            Segment {
                addr: (*sg).dma_address,
                len: dma_len(sg),
            }
        }
    }
}

/// By its kernel address, which is noted in the entry as the DMA mapping of a software device.
#[derive(Clone)]
pub(super) struct Virtual(Pages);

impl View for Virtual {
    #[inline(always)]
    unsafe fn segment(&self, sg: *mut bindings::scatterlist) -> Segment {
        // SAFETY: By this function's safety requirement.
        unsafe { note_virtual(sg, &self.0) }
    }
}

/// A place in a scatterlist.
///
/// # Invariants
///
/// Where `left` is not 0, `sg` is a valid entry that `view` can tell, followed by at least
/// `left - 1` more, and `offset` is less than its length, or 0. The list stays as it is for `'a`.
#[derive(Clone)]
pub(super) struct Cursor<'a, V = Mapped> {
    sg: *mut bindings::scatterlist,
    left: u32,
    offset: u32,
    view: V,
    list: PhantomData<&'a SgSource>,
}

impl<'a> Cursor<'a, Mapped> {
    /// The place `offset` bytes into a mapped list.
    ///
    /// # Errors
    ///
    /// `EIO`, with one warning, where the list ends before that.
    #[inline]
    pub(super) fn new(list: &'a MappedSg<'_>, offset: u32) -> Result<Self> {
        // SAFETY: These entries are mapped, as long as the list is borrowed.
        unsafe { Self::find(list.as_raw(), list.nents().get(), offset, Mapped) }
    }
}

impl<'a> Cursor<'a, Virtual> {
    /// The place `offset` bytes into a list that needs no mapping, since the device works with
    /// kernel addresses.
    ///
    /// # Errors
    ///
    /// `EIO`, with one warning, where the list ends before that.
    #[inline]
    pub(super) fn of_virtual(list: &'a SgSource, offset: u32) -> Result<Self> {
        let sg = list.as_raw();
        // SAFETY: By the invariant of `SgSource` this is an entry.
        let pages = Pages::of_virtual(unsafe { page(sg) });

        // SAFETY: These are the entries of the list.
        unsafe { Self::find(sg, list.nents().get(), offset, Virtual(pages)) }
    }
}

impl<V: View> Cursor<'_, V> {
    /// The place `offset` bytes into a list of `left` entries.
    ///
    /// # Errors
    ///
    /// `EIO`, with one warning, where the list ends before that.
    ///
    /// # Safety
    ///
    /// `sg` must be followed by `left - 1` entries, `left` not be 0, and all of them be what `view`
    /// can tell for the life of the result.
    #[inline(always)]
    unsafe fn find(
        mut sg: *mut bindings::scatterlist,
        mut left: u32,
        mut offset: u32,
        view: V,
    ) -> Result<Self> {
        loop {
            // SAFETY: `sg` is one of the entries, and `left` counts it and those behind it.
            let len = unsafe { view.segment(sg) }.len;
            if offset < len {
                // INVARIANT: As above.
                return Ok(Self {
                    sg,
                    left,
                    offset,
                    view,
                    list: PhantomData,
                });
            }

            // Not below 0, since `len` is not greater.
            offset = offset.wrapping_sub(len);
            left = left.wrapping_sub(1);
            if warn_on_once!(left == 0) {
                return Err(EIO);
            }
            // SAFETY: At least one entry is left behind this one.
            sg = unsafe { next_entry(sg) };
        }
    }

    /// Number of entries from here on.
    #[inline]
    pub(super) fn left(&self) -> u32 {
        self.left
    }

    /// Entry at this place, valid where entries are left.
    #[inline]
    pub(super) fn as_raw(&self) -> *mut bindings::scatterlist {
        self.sg
    }

    /// Bytes of the first entry that lie before this place.
    #[inline]
    pub(super) fn offset(&self) -> u32 {
        self.offset
    }

    /// Moves on by `entries`, or to the end where fewer are left.
    #[inline]
    pub(super) fn skip(&mut self, entries: u32) {
        if entries >= self.left {
            self.left = 0;
            return;
        }
        for _ in 0..entries {
            // SAFETY: There are more entries left than are to be skipped.
            self.sg = unsafe { next_entry(self.sg) };
        }
        if entries != 0 {
            // INVARIANT: At the start of an entry, and that many less are left.
            self.offset = 0;
            self.left = self.left.wrapping_sub(entries);
        }
    }

    /// Moves on to an entry that is not empty, or to the end.
    #[cold]
    fn skip_empty(&mut self) {
        // SAFETY: By the type invariant, an entry is there where some are left.
        while self.left != 0 && unsafe { self.view.segment(self.sg) }.len == 0 {
            self.next_segment();
        }
    }

    /// The memory at this place up to the end of its entry; moves on behind it.
    #[inline]
    pub(super) fn next_segment(&mut self) -> Option<Segment> {
        if self.left == 0 {
            return None;
        }

        // SAFETY: By the type invariant.
        let segment = unsafe { self.view.segment(self.sg) }.without(self.offset);

        self.offset = 0;
        self.left = self.left.wrapping_sub(1);
        if self.left != 0 {
            // SAFETY: At least one entry is left behind this one.
            // INVARIANT: It is the first of those that are left, all of it.
            self.sg = unsafe { next_entry(self.sg) };
        }
        Some(segment)
    }
}

impl Cursor<'_> {
    /// Takes the longest run of memory from here on that a table of `pages` pages can hold: inner
    /// ends and starts lie on the borders of pages, or follow each other without a gap. An empty
    /// entry, for which a device would still use up a page, is in no run: the place must not be one.
    ///
    /// Moves on behind it and behind empty entries, be that within an entry. None at the end.
    pub(super) fn take_run(&mut self, pages: NonZeroU32) -> Option<Run> {
        let mut run = Run::new(self)?;
        let mut left = u64::from(pages.get());
        let mut end = None;

        loop {
            let here = self.clone();
            let Some(segment) = self.next_segment() else {
                break;
            };
            if segment.len == 0 {
                self.skip_empty();
                break;
            }
            let start = segment.addr;
            let in_page = start & IN_PAGE;

            // The part of the first page that lies before the segment, if that page is taken.
            let taken = match end {
                Some(end) if end == start => in_page != 0,
                Some(end) if (end | start) & IN_PAGE != 0 => {
                    *self = here;
                    break;
                }
                _ => false,
            };

            // Bytes from the start of the segment to the end of the last page that is left.
            let room = left
                .wrapping_add(u64::from(taken))
                .wrapping_shl(kernel::page::PAGE_SHIFT as u32)
                .saturating_sub(in_page);
            if room == 0 {
                *self = here;
                break;
            }

            // CAST: Not more than the length, which has 32 bits.
            let len = u64::from(segment.len).min(room) as u32;
            run.nents = run.nents.wrapping_add(1);
            if len < segment.len {
                run.cut_tail(here.sg, len);
                // Where the first entry is the last one too, its cut head counts again.
                let cut = if run.nents == 1 { run.head } else { 0 };
                *self = here;
                self.offset = cut.wrapping_add(len);
                break;
            }

            end = Some(start.wrapping_add(u64::from(len)));
            let used = in_page
                .wrapping_add(u64::from(len))
                .div_ceil(kernel::page::PAGE_SIZE as u64)
                .wrapping_sub(u64::from(taken));
            left = left.saturating_sub(used);
        }
        Some(run)
    }
}

/// Entries of a list, the first and the last of them cut to a part; made whole again on drop.
///
/// A device is told which entries to register, and where in the first to start, but some do not
/// listen to the latter and none is told where in the last one to end.
///
/// # Invariants
///
/// `first` heads at least `nents` entries of a mapped list in the borrow of a [`Cursor`]. Each part
/// cut off is noted.
pub(super) struct Run {
    first: *mut bindings::scatterlist,
    nents: u32,
    head: u32,
    tail: Option<(*mut bindings::scatterlist, u32)>,
}

impl Run {
    /// A run of no entries yet, at a cursor that is not at the end. Cuts off what lies before it.
    fn new(cursor: &mut Cursor<'_>) -> Option<Self> {
        if cursor.left == 0 {
            return None;
        }

        let head = cursor.offset;
        // INVARIANT: Noted here.
        let run = Self {
            first: cursor.sg,
            nents: 0,
            head,
            tail: None,
        };

        // SAFETY: By the invariant of `Cursor` this is a mapped entry, longer than the offset, and
        // its list is nobody else's.
        unsafe {
            (*run.first).dma_address = (*run.first).dma_address.wrapping_add(u64::from(head));
            set_dma_len(run.first, dma_len(run.first).wrapping_sub(head));
        }
        cursor.offset = 0;
        Some(run)
    }

    /// Leaves `len` bytes of the last entry.
    fn cut_tail(&mut self, last: *mut bindings::scatterlist, len: u32) {
        // SAFETY: The caller has just seen this entry of the list, which is nobody else's.
        unsafe {
            // INVARIANT: Noted here.
            self.tail = Some((last, dma_len(last)));
            set_dma_len(last, len);
        }
    }

    /// First entry.
    pub(super) fn as_raw(&self) -> *mut bindings::scatterlist {
        self.first
    }

    /// Number of entries.
    pub(super) fn nents(&self) -> u32 {
        self.nents
    }

    /// Whether the last entry is in it to its end.
    pub(super) fn is_whole(&self) -> bool {
        self.tail.is_none()
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        // SAFETY: By the type invariant. The last entry is made whole first, in case that it is the
        // first one.
        unsafe {
            if let Some((last, len)) = self.tail {
                set_dma_len(last, len);
            }
            (*self.first).dma_address =
                (*self.first).dma_address.wrapping_sub(u64::from(self.head));
            set_dma_len(self.first, dma_len(self.first).wrapping_add(self.head));
        }
    }
}

// SAFETY: The SGEs are written one after the other, and counted.
unsafe impl<V: View> Segments for Cursor<'_, V> {
    const AT_ONCE: bool = false;

    // C frees `map.wrs` and `map.sges` of such a context; one allocation serves where the former
    // points to its start and the latter is null.
    const SGES_FIRST: bool = false;

    #[inline(always)]
    fn bound(&self) -> u32 {
        self.left
    }

    #[inline(always)]
    fn only(&mut self) -> Result<Segment> {
        self.next_segment().ok_or(EINVAL)
    }

    #[inline(always)]
    fn is_dense(&self) -> bool {
        false
    }

    #[inline(always)]
    fn fill(&mut self, sges: &mut [MaybeUninit<bindings::ib_sge>], lkey: u32) -> (usize, u64) {
        let nr = sges.len().min(self.left as usize);
        let Some((last, others)) = sges.get_mut(..nr).and_then(<[_]>::split_last_mut) else {
            return (0, 0);
        };
        let mut offset = self.offset;
        let mut sg = self.sg;
        let mut len = 0u64;
        let mut write = |sge: &mut MaybeUninit<_>, sg, offset| {
            // SAFETY: By the type invariant, `left` entries lie from the first one on.
            let segment = unsafe { self.view.segment(sg) }.without(offset);

            sge.write(segment.sge(lkey));
            // A count of 32 bits of lengths of 32 bits does not wrap.
            len = len.wrapping_add(u64::from(segment.len));
        };

        for sge in others {
            write(sge, sg, mem::take(&mut offset));
            // SAFETY: As above; this was not the last of them.
            sg = unsafe { next_entry(sg) };
        }
        write(last, sg, offset);

        // CAST: Not more than there are left, which have a count of 32 bits.
        self.left = self.left.wrapping_sub(nr as u32);
        self.offset = 0;
        self.sg = sg;
        if self.left != 0 {
            // SAFETY: Entries are left behind this one.
            // INVARIANT: It is the first of those that are left, all of it.
            self.sg = unsafe { next_entry(sg) };
        }
        (nr, len)
    }

    #[inline(always)]
    fn result(&self) -> Result {
        Ok(())
    }

    // Each entry that is left is yielded, so that no SGE is.
    #[cfg(rdma_rw_takeover)]
    fn spare(&mut self) -> Result<Segment> {
        Err(EINVAL)
    }

    // The list is mapped as a whole, by its own guard.
    #[inline(always)]
    fn undo(&self, _sges: &[bindings::ib_sge]) {}
}
