// SPDX-License-Identifier: GPL-2.0

//! A context in a place of its own, and its lists.

use core::mem::MaybeUninit;
use core::ptr;

use kernel::prelude::*;

use crate::bindings;
use crate::differential_case::{
    Abuse,
    Entry,
    Form,
    Init, //
    MAX_ENTRIES,
    PAGE,
};
use crate::differential_deviations::Kind;

/// A registration of a context.
pub(crate) type RegCtx = bindings::rdma_rw_ctx__bindgen_ty_1_rdma_rw_reg_ctx;

pub(crate) const SINGLE: u8 = 0;
pub(crate) const MULTI: u8 = 1;
pub(crate) const REGISTERED: u8 = 2;
pub(crate) const SIGNATURE: u8 = 3;

/// A context in a place of its own, and its lists.
pub(crate) struct Slot {
    pub(crate) ctx: KBox<MaybeUninit<bindings::rdma_rw_ctx>>,
    pub(crate) live: bool,
    pub(crate) init: Init,
    /// Work requests that init has promised, unless a failed post has changed that.
    pub(crate) promised: Option<u32>,
    /// The chain that was made last.
    pub(crate) head: *mut bindings::ib_send_wr,
    /// It goes on with that of another context.
    pub(crate) goes_on: bool,
    pub(crate) kind: Option<Kind>,
    /// The device is to like the first run of this context.
    pub(crate) expect: bool,
    pub(crate) sg: KVVec<bindings::scatterlist>,
    pub(crate) prot: KVVec<bindings::scatterlist>,
    pub(crate) bvecs: KVVec<bindings::bio_vec>,
    /// Entries that the C original was told, and where they start.
    pub(crate) bvec_first: usize,
    pub(crate) bvec_count: usize,
    /// Addresses that the device has been given.
    pub(crate) addrs: [u64; 4],
}

impl Slot {
    pub(crate) fn new() -> Result<Self> {
        Ok(Self {
            ctx: KBox::new_uninit(GFP_KERNEL)?,
            live: false,
            init: Init {
                slot: 0,
                form: Form::Sg,
                read: false,
                first: 0,
                count: 0,
                surplus: 0,
                offset: 0,
                idx: 0,
                size: 0,
                prot: 0,
                strip: false,
                table: 0,
                remote: 0,
                huge: false,
                abuse: Abuse::NONE,
            },
            promised: None,
            head: ptr::null_mut(),
            goes_on: false,
            kind: None,
            expect: false,
            sg: KVVec::with_capacity(2 * MAX_ENTRIES, GFP_KERNEL)?,
            prot: KVVec::with_capacity(2 * MAX_ENTRIES, GFP_KERNEL)?,
            bvecs: KVVec::with_capacity(MAX_ENTRIES + 1, GFP_KERNEL)?,
            bvec_first: 0,
            bvec_count: 0,
            addrs: [0; 4],
        })
    }

    pub(crate) fn tag(&self) -> u8 {
        // SAFETY: Only asked for where init has written it.
        unsafe { (*self.ctx.as_ptr()).type_ }
    }

    pub(crate) fn nr_ops(&self) -> u32 {
        // SAFETY: As above.
        unsafe { (*self.ctx.as_ptr()).nr_ops }
    }

    /// The registrations of the context.
    pub(crate) fn regs(&mut self) -> &mut [RegCtx] {
        if !matches!(self.tag(), REGISTERED | SIGNATURE) {
            return &mut [];
        }
        // SAFETY: Such a context has an array of that many.
        unsafe {
            core::slice::from_raw_parts_mut(
                (*self.ctx.as_mut_ptr()).__bindgen_anon_1.reg,
                self.nr_ops() as usize,
            )
        }
    }

    /// The last work request of the context.
    pub(crate) fn last(&mut self) -> *mut bindings::ib_send_wr {
        let nr = self.nr_ops() as usize;
        let tag = self.tag();
        let ctx = self.ctx.as_mut_ptr();

        // SAFETY: The member of the union goes by the tag.
        unsafe {
            let union = &raw mut (*ctx).__bindgen_anon_1;

            match tag {
                SINGLE => &raw mut (*union).single.wr.wr,
                MULTI => &raw mut (*(*union).map.wrs.add(nr - 1)).wr,
                REGISTERED | SIGNATURE => &raw mut (*(*union).reg.add(nr - 1)).wr.wr,
                _ => &raw mut (*union).iova.wr.wr,
            }
        }
    }
}

pub(crate) fn direction(read: bool) -> bindings::dma_data_direction {
    if read {
        bindings::dma_data_direction_DMA_FROM_DEVICE
    } else {
        bindings::dma_data_direction_DMA_TO_DEVICE
    }
}

/// Writes a scatterlist over entries of memory that begins at a page, in tables of `table` entries.
pub(crate) fn write_list(
    list: &mut KVVec<bindings::scatterlist>,
    pages: *mut bindings::page,
    entries: &[Entry],
    table: usize,
) {
    list.clear();
    for (i, entry) in entries.iter().enumerate() {
        if table != 0 && i != 0 && i % table == 0 {
            // The address of the element behind this one.
            let next = list.as_ptr().wrapping_add(list.len() + 1) as usize;

            // There is room for twice as many as there are.
            let _ = list.push_within_capacity(element(next | bindings::SG_CHAIN as usize, 0, 0));
        }
        let page = pages.wrapping_add((entry.start / PAGE) as usize) as usize;
        let _ = list.push_within_capacity(element(page, (entry.start % PAGE) as u32, entry.len));
    }
    if let Some(last) = list.last_mut() {
        last.page_link |= bindings::SG_END as usize;
    }
}

pub(crate) fn element(page_link: usize, offset: u32, length: u32) -> bindings::scatterlist {
    bindings::scatterlist {
        page_link,
        offset,
        length,
        // What is not mapped yet is not to be looked at.
        dma_address: 0xdead_dead_dead_0000,
        #[cfg(CONFIG_NEED_SG_DMA_LENGTH)]
        dma_length: 0xdead,
        #[cfg(CONFIG_NEED_SG_DMA_FLAGS)]
        dma_flags: 0,
    }
}

pub(crate) fn write_bvec(
    list: &mut KVVec<bindings::bio_vec>,
    pages: *mut bindings::page,
    entries: &[Entry],
) {
    list.clear();
    for entry in entries {
        let _ = list.push_within_capacity(bindings::bio_vec {
            bv_page: pages.wrapping_add((entry.start / PAGE) as usize),
            bv_len: entry.len,
            bv_offset: (entry.start % PAGE) as u32,
        });
    }
}
