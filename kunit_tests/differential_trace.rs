// SPDX-License-Identifier: GPL-2.0

//! What a side did, as far as a caller, a device or the DMA layer can see it: a series of labelled
//! numbers, in which nothing tells the sides apart but their behaviour.

use kernel::prelude::*;

/// What a number says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(crate) enum Label {
    /// Number of the call that begins here.
    Call,
    /// What the call returned.
    Return,
    /// `nr_ops` of the context.
    NrOps,
    /// `type` of the context.
    Type,
    /// MRs that are out of their pools.
    MrsUsed,
    /// Place of an MR in its pool.
    Pool,
    /// `lkey` of an MR.
    LKey,
    /// `rkey` of an MR.
    RKey,
    /// `need_inval` of an MR.
    NeedInval,
    /// MR of a registration.
    Mr,
    /// `iova` and `length` of an MR, and what it is mapped to.
    MrIova,
    MrLength,
    MrPages,
    MrMemory,
    /// Signature attributes that the MR was given.
    SigAttrs,
    /// Fields of a work request.
    Opcode,
    NumSge,
    SendFlags,
    Cqe,
    Ex,
    RemoteAddr,
    RemoteKey,
    Key,
    Access,
    /// Fields of an SGE.
    Addr,
    Length,
    SgeKey,
    /// Work requests in a chain.
    WrCount,
    /// How the device liked a work request.
    Status,
    /// DMA calls: what, where and how much.
    DmaCall,
    DmaAddr,
    DmaLength,
    /// Mappings that are left.
    Mapped,
    /// `cap.max_send_wr`.
    MaxSendWr,
    /// An MR that is allocated or freed: its type and its pages.
    MrType,
    MrSize,
}

/// The series.
pub(crate) struct Trace {
    labels: KVVec<Label>,
    values: KVVec<u64>,
    /// More was to be added than there is room for.
    pub(crate) full: bool,
    /// Nothing is to be added now.
    pub(crate) muted: bool,
}

impl Trace {
    const SIZE: usize = 1 << 16;

    pub(crate) fn new() -> Result<Self> {
        Ok(Self {
            labels: KVVec::with_capacity(Self::SIZE, GFP_KERNEL)?,
            values: KVVec::with_capacity(Self::SIZE, GFP_KERNEL)?,
            full: false,
            muted: false,
        })
    }

    pub(crate) fn clear(&mut self) {
        self.truncate(0);
        self.full = false;
        self.muted = false;
    }

    #[inline]
    pub(crate) fn add(&mut self, label: Label, value: u64) {
        if self.muted {
            return;
        }
        if self.labels.push_within_capacity(label).is_err()
            || self.values.push_within_capacity(value).is_err()
        {
            self.full = true;
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.values.len()
    }

    /// Forgets what has been added since there were so many numbers.
    pub(crate) fn truncate(&mut self, len: usize) {
        self.labels.truncate(len);
        self.values.truncate(len);
    }

    pub(crate) fn get(&self, i: usize) -> Option<(Label, u64)> {
        Some((*self.labels.get(i)?, *self.values.get(i)?))
    }

    /// The first place where two series differ, looking at the first `len` numbers of the first
    /// one alone, if that is given.
    pub(crate) fn difference(&self, other: &Self, len: Option<usize>) -> Option<usize> {
        let (mine, theirs) = match len {
            Some(len) => (&self.values[..len.min(self.len())], &other.values[..]),
            None => (&self.values[..], &other.values[..]),
        };
        let labels = &self.labels[..mine.len()];

        // CAST: Labels are bytes.
        if mine == theirs && labels == &other.labels[..] {
            return None;
        }
        (0..mine.len().max(theirs.len()))
            .find(|&i| mine.get(i) != theirs.get(i) || labels.get(i) != other.labels.get(i))
    }

    /// The call that a place belongs to, and the label and number there.
    pub(crate) fn place(&self, i: usize) -> (Option<u64>, Option<(Label, u64)>) {
        let call = (0..i.min(self.len()) + usize::from(i < self.len()))
            .rev()
            .find(|&j| self.labels[j] == Label::Call)
            .map(|j| self.values[j]);

        (call, self.get(i))
    }
}
