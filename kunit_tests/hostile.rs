// SPDX-License-Identifier: GPL-2.0

//! Makes cases hostile: of callers who break the rules, devices that are no good, and numbers around
//! every limit.
//!
//! What no function of C could look at without a fault stays away: a pointer to memory that is not
//! there, and a list or an array that is shorter than the call is told.

use crate::differential_case::{
    Call,
    Case,
    Damage,
    Dma,
    End,
    Entry,
    Form,
    Ground,
    Init,
    Op,
    Refusal, //
    MAX_MRS,
    SLOTS,
};
use crate::differential_deviations::total;
use crate::differential_random::Random;

/// Ways to be hostile, as indices of the counters.
#[derive(Clone, Copy)]
#[repr(usize)]
pub(crate) enum Hostile {
    /// A limit of the device or the QP that is none, or none that holds.
    Limits,
    /// Few MRs or none, or those for protection information on a QP without.
    Pools,
    /// A device that refuses a registration, or a mapping.
    Refusals,
    /// A port that the device does not have.
    Port,
    /// An init for a direction that is none.
    Direction,
    /// Null in the place of a list or an array, with any number.
    NullList,
    /// The same for protection information.
    NullProtection,
    /// Null in the place of attributes.
    NullAttributes,
    /// A number of entries that is smaller than that of the list, 0, or no `int`.
    Count,
    /// An offset at the borders of entries, and beyond the list.
    Offset,
    /// An iterator that stands elsewhere in the array, behind it, or asks for more.
    Iterator,
    /// An entry that is empty or reaches far behind its memory.
    Length,
    /// Attributes that make no sense.
    Attributes,
    /// Remote memory around the end of all addresses.
    Remote,
    /// A chain that nobody hears of, or that would be heard of twice.
    End,
    /// A device that stops posting anywhere.
    Stop,
    /// The destroy of another init.
    OtherDestroy,
    /// A destroy for a direction that is none.
    NoDirection,
    /// A call with what is no context.
    NoContext,
    /// Numbers to size queues and pools for.
    Sizing,
}

impl Hostile {
    pub(crate) const NR: usize = 20;

    /// Names, by index.
    pub(crate) const NAMES: [&'static str; Self::NR] = [
        "limits",
        "pools",
        "refusals",
        "port",
        "direction",
        "null list",
        "null protection",
        "null attributes",
        "count",
        "offset",
        "iterator",
        "length",
        "attributes",
        "remote",
        "end",
        "stop",
        "other destroy",
        "destroy without direction",
        "no context",
        "sizing",
    ];

    const ALL: [Self; Self::NR] = [
        Self::Limits,
        Self::Pools,
        Self::Refusals,
        Self::Port,
        Self::Direction,
        Self::NullList,
        Self::NullProtection,
        Self::NullAttributes,
        Self::Count,
        Self::Offset,
        Self::Iterator,
        Self::Length,
        Self::Attributes,
        Self::Remote,
        Self::End,
        Self::Stop,
        Self::OtherDestroy,
        Self::NoDirection,
        Self::NoContext,
        Self::Sizing,
    ];
}

/// How often each way was taken.
pub(crate) type Taken = [u64; Hostile::NR];

/// Numbers that code trips over.
const TRAPS: [u32; 15] = [
    0,
    1,
    2,
    3,
    255,
    256,
    257,
    4095,
    4096,
    4097,
    i32::MAX as u32,
    1 << 31,
    u32::MAX / 3 + 1,
    u32::MAX - 1,
    u32::MAX,
];

/// Directions that are none.
const DIRECTIONS: [u32; 6] = [0, 3, 4, 255, 1 << 31, u32::MAX];

/// Makes a case hostile in up to three ways, the same for the same number.
pub(crate) fn spoil(case: &mut Case, seed: u64, number: u64, ground: &Ground, taken: &mut Taken) {
    let mut rnd = Random::new(!seed, number);

    for _ in 0..=rnd.below(3) {
        // Not every case has a place for every way.
        for _ in 0..6 {
            let way = *rnd.choose(&Hostile::ALL);

            if take(case, way, &mut rnd, ground).is_some() {
                taken[way as usize] += 1;
                break;
            }
        }
    }
}

/// A number around one that counts, or one of the [`TRAPS`].
fn edge(rnd: &mut Random, n: u32) -> u32 {
    match rnd.below(4) {
        0 | 1 => n.wrapping_sub(1).wrapping_add(rnd.below(3) as u32),
        2 => *rnd.choose(&TRAPS),
        _ => rnd.next() as u32 >> rnd.below(32),
    }
}

/// A number that no `int` holds.
fn no_int(rnd: &mut Random) -> u32 {
    edge(rnd, u32::MAX) | 1 << 31
}

/// A call of a case that fits, by its number.
fn pick(case: &Case, rnd: &mut Random, fits: impl Fn(&Op) -> bool) -> Option<usize> {
    let all = case.ops().iter().filter(|op| fits(op)).count();
    let nth = rnd.below(all as u64) as usize;

    (0..case.nr_ops).filter(|&i| fits(&case.ops[i])).nth(nth)
}

/// An init that fits, to be changed, with the entries of its list and then those of protection
/// information.
fn pick_init<'a>(
    case: &'a mut Case,
    rnd: &mut Random,
    fits: impl Fn(&Init) -> bool,
) -> Option<(&'a mut Init, &'a mut [Entry])> {
    let at = pick(case, rnd, |op| matches!(op, Op::Init(init) if fits(init)))?;

    match &mut case.ops[at] {
        Op::Init(init) => {
            let all = usize::from(init.count) + usize::from(init.prot);
            let entries = &mut case.entries[usize::from(init.first)..][..all];

            Some((init, entries))
        }
        _ => None,
    }
}

/// Bytes of some entries at the start of a list, or of all; what does not fit 32 bits is cut off.
fn border(rnd: &mut Random, list: &[Entry]) -> u32 {
    let nr = if rnd.one_in(2) {
        list.len()
    } else {
        rnd.below(list.len() as u64 + 1) as usize
    };

    total(&list[..nr]) as u32
}

/// A number around that.
fn near_border(rnd: &mut Random, list: &[Entry]) -> u32 {
    let border = border(rnd, list);

    edge(rnd, border)
}

/// What is wrong with a context that is none.
fn damage(rnd: &mut Random) -> Damage {
    match rnd.below(4) {
        0 => Damage::Null,
        1 => Damage::NoOps,
        // There are five.
        _ => Damage::Tag(5 + rnd.below(251) as u8),
    }
}

/// Any form.
fn form(rnd: &mut Random) -> Form {
    *rnd.choose(&[Form::Sg, Form::Bvec, Form::Signature])
}

/// Takes a way; none where the case has no place for it.
fn take(case: &mut Case, way: Hostile, rnd: &mut Random, ground: &Ground) -> Option<()> {
    let config = &mut case.config;
    // What is refused to those of protection information is told to the log each time.
    let quiet = !config.integrity || rnd.one_in(30);

    match way {
        Hostile::Limits => {
            let nr = match pick_init(case, rnd, |_| true) {
                Some((init, _)) => init.count.into(),
                None => 1,
            };
            let value = edge(rnd, nr);
            let config = &mut case.config;

            match rnd.below(7) {
                0 => config.max_sgl_rd = value,
                1 => config.max_sge_rd = value,
                2 => config.mr_pages = value,
                3 if quiet => config.pi_pages = value,
                4 => config.write_sge = value,
                5 => config.read_sge = value,
                _ => config.max_qp_wr = value,
            }
        }
        Hostile::Pools => {
            config.mrs = *rnd.choose(&[0, 0, 1, 2, MAX_MRS as u8]);
            config.sig_mrs = *rnd.choose(&[0, 1, 2, MAX_MRS as u8]);
        }
        Hostile::Refusals => {
            if config.dma == Dma::Mapped && !ground.real && rnd.one_in(2) {
                config.bad_dma_map = rnd.below(8) as u8;
            } else if quiet {
                config.bad_mr_map = rnd.below(8) as u8;
                config.refusal = *rnd.choose(&[
                    Refusal::Short,
                    Refusal::Error,
                    Refusal::Nothing,
                    Refusal::Least,
                ]);
            } else {
                return None;
            }
        }
        Hostile::Port => {
            config.port = match edge(rnd, 1) {
                1 => 0,
                port => port,
            };
        }
        Hostile::Direction => {
            let (init, _) = pick_init(case, rnd, |_| true)?;

            init.abuse.direction = Some(*rnd.choose(&DIRECTIONS));
        }
        Hostile::NullList => {
            let (init, _) = pick_init(case, rnd, |_| true)?;

            init.abuse.no_list = true;
            init.abuse.count = rnd.one_in(2).then(|| edge(rnd, init.count.into()));
        }
        Hostile::NullProtection => {
            let (init, _) = pick_init(case, rnd, |init| init.form == Form::Signature)?;

            init.abuse.no_prot = true;
            // Without entries it is as if there were none, and that is not hostile.
            init.abuse.prot_count = rnd.one_in(2).then(|| edge(rnd, init.prot.into()).max(1));
        }
        Hostile::NullAttributes => {
            let (init, _) = pick_init(case, rnd, |init| init.form == Form::Signature)?;

            init.abuse.no_attrs = true;
        }
        Hostile::Count => {
            let (init, _) = pick_init(case, rnd, |init| !init.abuse.no_list)?;

            match (init.form, rnd.below(4)) {
                (Form::Bvec, _) | (_, 0) => init.abuse.count = Some(0),
                (_, 1) => init.abuse.count = Some(no_int(rnd)),
                (Form::Signature, _) if init.prot != 0 && !init.abuse.no_prot => {
                    init.abuse.prot_count = Some(no_int(rnd));
                }
                (Form::Sg, _) if init.count > 1 => {
                    init.surplus = 1 + rnd.below(u64::from(init.count.min(256)) - 1) as u8;
                }
                _ => return None,
            }
        }
        Hostile::Offset => {
            let (init, entries) = pick_init(case, rnd, |init| init.form == Form::Sg)?;

            init.offset = near_border(rnd, &entries[..usize::from(init.count)]);
        }
        Hostile::Iterator => {
            let (init, entries) = pick_init(case, rnd, |init| init.form == Form::Bvec)?;
            let which = 1 + rnd.below(7);

            if which & 1 != 0 {
                init.idx = edge(rnd, init.count.into());
            }
            if which & 2 != 0 {
                init.offset = near_border(rnd, entries);
            }
            if which & 4 != 0 {
                init.size = near_border(rnd, entries);
            }
        }
        Hostile::Length => {
            let dma = config.dma;
            let (_, entries) = pick_init(case, rnd, |init| {
                init.form == Form::Bvec || dma == Dma::Virtual && (quiet || init.form == Form::Sg)
            })?;
            let nth = rnd.below(entries.len() as u64) as usize;
            let entry = &mut entries[nth];

            // Real memory behind the entry is not ours.
            entry.len = match rnd.below(3) {
                0 if !ground.real => no_int(rnd),
                1 => 1,
                _ => 0,
            };
        }
        Hostile::Attributes => {
            let (init, _) = pick_init(case, rnd, |init| init.form == Form::Signature)?;

            init.abuse.attrs = rnd.next() as u32 | 1;
        }
        Hostile::Remote => {
            let (init, entries) = pick_init(case, rnd, |_| true)?;

            init.remote = match rnd.below(3) {
                0 => 0u64.wrapping_sub(border(rnd, entries).into()),
                1 => 0u64.wrapping_sub(near_border(rnd, entries).into()),
                _ => u64::MAX >> rnd.below(64),
            };
        }
        Hostile::End => {
            let at = pick(case, rnd, |op| {
                matches!(op, Op::Wrs { .. } | Op::Post { .. })
            })?;

            if let Op::Wrs { end, .. } | Op::Post { end, .. } = &mut case.ops[at] {
                *end = *rnd.choose(&[End::Nothing, End::Nothing, End::Wr { cqe: true }]);
            }
        }
        Hostile::Stop => {
            let at = pick(case, rnd, |op| matches!(op, Op::Post { .. }))?;

            if let Op::Post { stop, says, .. } = &mut case.ops[at] {
                *stop = Some(edge(rnd, 0) as u8);
                *says = rnd.one_in(2);
            }
        }
        Hostile::OtherDestroy | Hostile::NoDirection => {
            let at = pick(case, rnd, |op| matches!(op, Op::Destroy { .. }))?;

            if let Op::Destroy {
                form: as_what,
                direction,
                ..
            } = &mut case.ops[at]
            {
                if matches!(way, Hostile::NoDirection) {
                    *direction = Some(*rnd.choose(&DIRECTIONS));
                } else {
                    let before = *as_what;

                    while *as_what == before {
                        *as_what = form(rnd);
                    }
                }
            }
        }
        Hostile::NoContext => {
            let at = rnd.below(case.nr_ops as u64 + 1) as usize;
            let op = Op::NoContext {
                slot: rnd.below(SLOTS as u64) as u8,
                damage: damage(rnd),
                call: match rnd.below(3) {
                    0 => Call::Wrs,
                    1 => Call::Post,
                    _ => Call::Destroy(form(rnd)),
                },
            };

            return case.insert(at, op).then_some(());
        }
        Hostile::Sizing => {
            let at = pick(case, rnd, |op| {
                matches!(
                    op,
                    Op::MrFactor { .. }
                        | Op::MaxSendWr { .. }
                        | Op::InitQp { .. }
                        | Op::Pools { .. }
                )
            })?;

            match &mut case.ops[at] {
                Op::MrFactor { max_pages } => *max_pages = edge(rnd, 256),
                Op::MaxSendWr { ctxs, .. } => *ctxs = edge(rnd, u32::MAX / 3),
                Op::InitQp { ctxs, send_wr, .. } => {
                    *ctxs = edge(rnd, u32::MAX / 3);
                    *send_wr = edge(rnd, u32::MAX);
                }
                // As many as there is memory for would take it.
                Op::Pools { ctxs, .. } => *ctxs = no_int(rnd),
                _ => return None,
            }
        }
    }
    Some(())
}
