// SPDX-License-Identifier: GPL-2.0

//! Where Rust is meant to do better than the C original, one predicate for each point.
//!
//! Nothing is left out of the comparison for them. Where a predicate holds, the C side is amended
//! by exactly what it falls short of (its input, or what it left behind), and then both sides have
//! to agree in everything. Only where C cannot be made to do what Rust does (`d11` and `d12` where
//! an MR is a must) does the comparison end at that call, and what Rust does from there on is
//! measured by a model and by the bytes that arrive.

use kernel::prelude::*;

use crate::differential_case::{
    Config,
    Entry,
    Init,
    PAGE, //
};

/// The points, as indices of the counters.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(usize)]
pub(crate) enum D {
    D1,
    D2,
    D3,
    D4,
    D5,
    D6,
    D7,
    D8,
    D9,
    D10,
    D11,
    D12,
    D13,
    D15,
    /// [`rounds_up_past_32_bits`].
    RoundsUp,
    /// [`merged`].
    Merged,
}

impl D {
    pub(crate) const NR: usize = 16;

    /// Names, by index.
    pub(crate) const NAMES: [&'static str; Self::NR] = [
        "d1", "d2", "d3", "d4", "d5", "d6", "d7", "d8", "d9", "d10", "d11", "d12", "d13", "d15",
        "rounding", "merged",
    ];
}

/// An offset behind the end of the list: C walks off the list, Rust says `-EIO`.
pub(crate) fn d1(told: &[Entry], offset: u32) -> bool {
    !told.is_empty() && u64::from(offset) >= total(told)
}

/// A limit of 0 that C divides by: Rust takes a limit of pages or of `max_sge_rd` as 1, and says
/// `-EINVAL` where there are no SGEs for a transfer that needs some.
pub(crate) fn d2(limit: u32) -> bool {
    limit == 0
}

/// The sum that sizes a send queue leaves 32 bits: C wraps, Rust saturates.
pub(crate) fn d3(sum: u64) -> bool {
    sum > u64::from(u32::MAX)
}

/// A number of pages so close to 2^32 that C's rounding up of a quotient wraps, and comes to 0. No
/// payload has as many; Rust rounds right.
pub(crate) fn rounds_up_past_32_bits(max_pages: u32, by: u32) -> bool {
    max_pages.checked_add(by - 1).is_none()
}

// d4 is `State::invalidation_key()`: a READ_WITH_INV whose key is not that of its own SGE.

/// A post failed: C leaves the keys of MRs that were not registered bumped, and `need_inval` set.
pub(crate) fn d5(ret: i32, registrations: usize) -> bool {
    ret < 0 && registrations != 0
}

/// Nothing is to tell of the end of a chain: C signals without an entry, Rust does not, and does
/// not post.
pub(crate) fn d6(has_cqe: bool, has_wr: bool) -> bool {
    !has_cqe && !has_wr
}

/// What stands at the end of a chain.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Cqe,
    Wr,
    Nothing,
}

/// Chained again with something else at the end: C leaves the old link or the flag.
pub(crate) fn d7(last: Option<Kind>, kind: Kind) -> bool {
    last.is_some_and(|last| last != kind)
}

/// What an array and its iterator come to: the entries that are needed, and where the first of them
/// starts. None if the array ends before all bytes are done.
pub(crate) struct Needed {
    /// First entry that is needed.
    pub(crate) first: usize,
    /// Entry behind the last one.
    pub(crate) end: usize,
    /// Bytes of the first one to leave out.
    pub(crate) offset: u32,
    /// Bytes that are missing.
    pub(crate) short: bool,
}

impl Needed {
    pub(crate) fn of(list: &[Entry], init: &Init) -> Self {
        let mut first = init.idx as usize;
        let mut offset = init.offset;

        while let Some(entry) = list.get(first) {
            if offset < entry.len {
                break;
            }
            offset -= entry.len;
            first += 1;
        }

        let mut left = u64::from(init.size) + u64::from(offset);
        let mut end = first;
        while left != 0 {
            let Some(entry) = list.get(end) else {
                return Self {
                    first,
                    end,
                    offset,
                    short: true,
                };
            };
            left = left.saturating_sub(entry.len.into());
            end += 1;
        }
        Self {
            first,
            end,
            offset,
            short: false,
        }
    }
}

/// An array does not consist of exactly the entries that are needed: C reads past its end, makes
/// empty SGEs, or falls short.
pub(crate) fn d8(list: &[Entry], init: &Init, needed: &Needed) -> bool {
    needed.short
        || init.idx != 0
        || needed.first != 0
        || needed.end != list.len()
        || list.iter().any(|entry| entry.len == 0)
}

/// A work request begins more than 4 GiB into a transfer: C wraps.
pub(crate) fn d9(before: u64) -> bool {
    before > u64::from(u32::MAX)
}

/// A destroy of another form than the init.
pub(crate) fn d10(init: &Init, form: crate::differential_case::Form) -> bool {
    init.form != form
}

/// Memory as a device sees it.
#[derive(Clone, Copy)]
pub(crate) struct Segment {
    pub(crate) addr: u64,
    pub(crate) len: u64,
}

/// Why memory does not fit MRs of an entry a page.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Misfit {
    /// There are more pages than entries: `d11`.
    Long,
    /// There is a gap: `d12`.
    Gap,
}

/// What C finds wrong with memory that it cuts into MRs of `limit` entries.
pub(crate) fn misfit(segments: &[Segment], limit: usize) -> Option<Misfit> {
    segments
        .chunks(limit)
        .find_map(|chunk| chunk_misfit(chunk, limit).err())
}

/// Whether a device that knows pages alone takes memory for one MR of `limit` pages.
fn chunk_misfit(chunk: &[Segment], limit: usize) -> Result<(), Misfit> {
    let mut pages = 0u64;
    let mut end: Option<u64> = None;

    for segment in chunk {
        let first = segment.addr / PAGE;
        let last = (segment.addr + segment.len - 1) / PAGE;
        let mut more = last - first + 1;

        if let Some(end) = end {
            if (end | segment.addr) % PAGE != 0 {
                if end != segment.addr {
                    return Err(Misfit::Gap);
                }
                // The page that they share is there already.
                more -= 1;
            }
        }
        pages += more;
        if pages > limit as u64 {
            return Err(Misfit::Long);
        }
        end = Some(segment.addr + segment.len);
    }
    Ok(())
}

/// Number of MRs of `limit` pages that memory takes where it may be split anywhere.
///
/// As long as the next entries, one a page, fit an MR they get one. Else the MR has as much as can
/// be registered at once: up to a gap, or to its last page.
pub(crate) fn mrs_needed(mut segments: &[Segment], limit: usize) -> u32 {
    let mut count = 0;
    // Bytes of the first segment that are done.
    let mut done = 0;

    while let Some(&head) = segments.first() {
        let head = Segment {
            addr: head.addr + done,
            len: head.len - done,
        };
        let nr = segments.len().min(limit);

        count += 1;
        if done == 0 && chunk_misfit(&segments[..nr], limit).is_ok()
            || done != 0 && nr == 1 && chunk_misfit(&[head], limit).is_ok()
            || done != 0 && nr > 1 && rest_fits(head, &segments[1..nr], limit)
        {
            segments = &segments[nr..];
            done = 0;
            continue;
        }

        let mut left = limit as u64;
        let mut end: Option<u64> = None;
        loop {
            let Some(&segment) = segments.first() else {
                break;
            };
            let addr = segment.addr + done;
            let len = segment.len - done;
            let in_page = addr % PAGE;
            let shared = match end {
                Some(end) if end == addr => in_page != 0,
                Some(end) if (end | addr) % PAGE != 0 => break,
                _ => false,
            };
            let room = ((left + u64::from(shared)) * PAGE).saturating_sub(in_page);

            if room == 0 {
                break;
            }
            if room < len {
                done += room;
                break;
            }
            left -= (in_page + len).div_ceil(PAGE) - u64::from(shared);
            end = Some(addr + len);
            segments = &segments[1..];
            done = 0;
        }
    }
    count
}

/// As [`chunk_misfit`], where the first segment is cut.
fn rest_fits(head: Segment, rest: &[Segment], limit: usize) -> bool {
    let (Ok(()), Ok(())) = (chunk_misfit(&[head], limit), chunk_misfit(rest, limit)) else {
        return false;
    };
    let Some(next) = rest.first() else {
        return true;
    };
    let end = head.addr + head.len;
    let shared = (end | next.addr) % PAGE != 0;
    if shared && end != next.addr {
        return false;
    }

    let pages = |segments: &[Segment]| {
        let mut pages = 0;
        let mut end = None;
        for segment in segments {
            pages += (segment.addr + segment.len - 1) / PAGE - segment.addr / PAGE + 1;
            if end.is_some_and(|end: u64| (end | segment.addr) % PAGE != 0) {
                pages -= 1;
            }
            end = Some(segment.addr + segment.len);
        }
        pages
    };
    pages(&[head]) + pages(rest) - u64::from(shared) <= limit as u64
}

/// Whether the entries that are needed of an array fill whole pages in the middle, as one range of
/// IOVA space asks for.
pub(crate) fn fills_pages(list: &[Entry], needed: &Needed) -> bool {
    let entries = &list[needed.first..needed.end];

    entries
        .iter()
        .filter(|entry| entry.len != 0)
        .enumerate()
        .all(|(i, entry)| i == 0 || entry.start % PAGE == 0)
        && entries
            .iter()
            .rev()
            .filter(|entry| entry.len != 0)
            .enumerate()
            .all(|(i, entry)| i == 0 || (entry.start + u64::from(entry.len)) % PAGE == 0)
}

/// Memory that does not is linked into a range all the same: C ends with the error, Rust goes on
/// without the range.
pub(crate) fn d13(real: bool, ret: i32, list: &[Entry], needed: &Needed) -> bool {
    real && ret < 0 && !fills_pages(list, needed)
}

/// Pieces of an array that follow each other in memory, as one each: so Rust moves them, with fewer
/// SGEs than C makes of the pieces themselves.
pub(crate) fn merged(pieces: &[Entry]) -> KVec<Entry> {
    let mut merged: KVec<Entry> = KVec::new();

    for piece in pieces {
        match merged.last_mut() {
            Some(last) if last.start + u64::from(last.len) == piece.start => last.len += piece.len,
            // What is missing shows in what is made of it.
            _ => drop(merged.push(*piece, GFP_KERNEL)),
        }
    }
    merged
}

/// More entries than an MR with protection information takes: C counts them before DMA mapping,
/// Rust after it.
pub(crate) fn d15(config: &Config, data: usize, prot: usize) -> bool {
    data.max(prot) > config.limit().max(1) as usize
}

/// Bytes of some entries.
pub(crate) fn total(entries: &[Entry]) -> u64 {
    entries.iter().map(|entry| u64::from(entry.len)).sum()
}
