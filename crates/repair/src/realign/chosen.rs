//! Which partitions are realigned.
//!
//! Invariants: a partition that is named moves to a boundary of the plan. If none is named, the audit
//! decides: what costs nothing where it is stays there.

use straddle_audit::{Context, OfStart};
use straddle_device::DeviceKind;
use straddle_device::topology::USUAL_PHYSICAL;
use straddle_units::{Boundary, ByteOffset, Span};

use super::inner::{self, Anchor};
use super::{RealignError, Wanted};
use crate::grain::Grain;
use crate::guid::Seed;
use crate::plan::{Base, Entry, Situation, Slot, span_of};
use crate::request::Request;

/// Why a partition stays whose layers make up for its start.
const ALIGNED_INSIDE: &str = "its contents are aligned there";

/// A partition that is to be aligned, and the start that was requested for it.
pub(super) struct Chosen {
    pub(super) entry: Entry,
    pub(super) start: Option<ByteOffset>,
    pub(super) anchor: Option<Anchor>,
}

impl Chosen {
    /// The boundary of its starts.
    pub(super) fn grain(&self, grain: Boundary) -> Boundary {
        self.anchor.as_ref().map_or(grain, |anchor| inner::starts(grain, anchor.offset))
    }

    /// Where its data begin that are to be aligned, if it starts at `at`.
    fn data(&self, at: ByteOffset) -> Option<ByteOffset> {
        at.checked_add(self.anchor.as_ref()?.offset)
    }

    /// Whether the format of a layer in it aligns the data itself.
    fn has_way(&self) -> bool {
        self.anchor.as_ref().is_some_and(|anchor| anchor.way.is_some())
    }
}

/// The partitions of a table, by what becomes of them if none is named.
#[derive(Default)]
struct Sorted {
    /// Those that have to move.
    moves: Vec<Chosen>,
    /// Those that start on a boundary, and whose layers are to be aligned in their own way.
    inside: Vec<Chosen>,
    /// Those that start off a boundary and stay, with the reason.
    stays: Vec<(u32, String)>,
}

/// The partitions that have to move if none is named, with the byte of the drive where the data of a layer begin
/// for which one is placed.
pub fn must_move(situation: &Situation<'_>) -> Result<Vec<(u32, Option<ByteOffset>)>, RealignError> {
    let block = situation.block();
    let data = |one: &Chosen| one.data(span_of(&one.entry, block)?.start());
    Ok(sort(situation)?.moves.iter().map(|one| (one.entry.number, data(one))).collect())
}

/// The partitions that start off a boundary of 4096 bytes or of the drive and stay if they are not named, with
/// the reason.
pub fn staying(situation: &Situation<'_>) -> Result<Vec<(u32, String)>, RealignError> {
    Ok(sort(situation)?.stays)
}

fn sort(situation: &Situation<'_>) -> Result<Sorted, RealignError> {
    let request = Request::new(Seed(0));
    let base = Base::of(situation, &request)?;
    let fine = Grain::of(situation.topology, situation.size(), situation.block(), Some(USUAL_PHYSICAL));
    Ok(sorted(&base, &Wanted::default(), fine.start))
}

/// What the audit says of the starts of all partitions.
fn judged(situation: &Situation<'_>) -> Vec<(u32, OfStart)> {
    straddle_audit::starts(&Context {
        written: &|span| Some(span.start()),
        ..Context::of("", DeviceKind::Other, situation.size(), situation.topology, situation.stack)
    })
}

/// Sorts the partitions by the audit's account; a grain that is asked for counts as a boundary of the drive.
fn sorted(base: &Base<'_>, wanted: &Wanted, grain: Boundary) -> Sorted {
    let judged = judged(base.situation());
    let block = base.situation().block();
    let mut sorted = Sorted::default();
    for entry in base.table().partitions.iter().filter(|entry| entry.slot != Slot::Extended) {
        let one = one(base, entry, None, grain);
        let Some(at) = span_of(entry, block).map(Span::start) else { continue };
        let Some((number, verdict)) = judged.iter().find(|(number, _)| *number == entry.number) else {
            continue;
        };
        let mut stays = |why: &str| sorted.stays.push((*number, why.to_owned()));
        if one.grain(grain).is_aligned(at) {
            if *verdict == OfStart::Moves {
                stays("no start on this disk is on such a boundary");
            } else if !grain.is_aligned(at) {
                stays(ALIGNED_INSIDE);
            }
            continue;
        }
        let is_asked = wanted.grain.is_some();
        match verdict {
            OfStart::Moves => sorted.moves.push(one),
            OfStart::Stays(why) => stays(why),
            OfStart::OnBoundary(inside)
                if is_asked || one.data(at).is_some_and(|data| inside.contains(&data)) =>
            {
                let has_way = one.has_way() && grain.is_aligned(at);
                if has_way { &mut sorted.inside } else { &mut sorted.moves }.push(one);
            }
            OfStart::OnBoundary(_) if one.anchor.is_some() => stays(ALIGNED_INSIDE),
            OfStart::OnBoundary(_) => {
                let physical = base.situation().topology.physical.value().get();
                let why = format!("its start is aligned for this drive's {physical}-byte sectors");
                let is_small = physical < USUAL_PHYSICAL.get();
                stays(&if is_small { why + "; use --assume 512e if it hides larger ones" } else { why });
            }
        }
    }
    sorted
}

fn one(base: &Base<'_>, entry: &Entry, start: Option<ByteOffset>, grain: Boundary) -> Chosen {
    let block = base.situation().block();
    let anchor = base.partition(entry.number).and_then(|found| inner::anchor(found, grain, block));
    Chosen { entry: entry.clone(), start, anchor }
}

/// Returns the partitions to move: those that are named or have a requested start, or else those that have to
/// move.
pub(super) fn chosen(
    base: &mut Base<'_>,
    wanted: &Wanted,
    grain: Boundary,
) -> Result<Vec<Chosen>, RealignError> {
    let mut named: Vec<u32> = wanted.partitions.clone();
    named.extend(wanted.starts.iter().map(|(number, _)| *number));
    if named.is_empty() {
        return unnamed(base, wanted, grain);
    }
    let entries = &base.table().partitions;
    if let Some(missing) = named.iter().find(|number| !entries.iter().any(|e| e.number == **number)) {
        return Err(RealignError::NoSuchPartition(*missing));
    }
    let mut found = Vec::new();
    for entry in entries.iter().filter(|entry| named.contains(&entry.number)) {
        let number = entry.number;
        if entry.slot == Slot::Extended {
            return Err(RealignError::Container(number));
        }
        let start = wanted.starts.iter().find(|(of, _)| *of == number).map(|(_, start)| *start);
        let one = one(base, entry, start, grain);
        let grain = one.grain(grain);
        if let Some(start) = start.filter(|start| !grain.is_aligned(*start)) {
            let why = format!("it is {} bytes past a boundary", grain.past(start).get());
            return Err(RealignError::Start { number, start, why });
        }
        found.push(one);
    }
    Ok(found)
}

/// Returns the partitions that have to move, and notes what becomes of the others.
fn unnamed(base: &mut Base<'_>, wanted: &Wanted, grain: Boundary) -> Result<Vec<Chosen>, RealignError> {
    let Sorted { moves, inside, stays } = sorted(base, wanted, grain);
    for one in inside {
        let Some(Anchor { what, way: Some(way), .. }) = one.anchor else { continue };
        let number = one.entry.number;
        if moves.is_empty() {
            return Err(RealignError::Inside { number, what, way });
        }
        base.note(format!("partition {number} starts on a boundary, but its {what} does not: {way}"));
    }
    for (number, why) in stays {
        base.note(format!("partition {number} stays: {why}"));
    }
    Ok(moves)
}
