//! Which partitions are realigned, and what in them is aligned.
//!
//! Invariants: a named partition moves to a boundary of the plan. If none is named, the audit decides: what costs
//! nothing where it is stays there. Data of a layer that begin off a boundary are aligned by the partition's start if
//! their format cannot move them. If it can, that way is named, and the partition moves only if it is named or starts
//! off a boundary itself.

use straddle_audit::{Context, OfStart};
use straddle_device::DeviceKind;
use straddle_device::topology::USUAL_PHYSICAL;
use straddle_layout::layer::{Facts, Layer};
use straddle_layout::{Partition, Role, Stack};
use straddle_units::{BlockSize, Boundary, ByteCount, ByteOffset, KIB, MIB, Span};

use super::{RealignError, Wanted};
use crate::grain::Grain;
use crate::guid::Seed;
use crate::plan::{Base, Entry, Situation, Slot, span_of};
use crate::request::Request;

const ALIGNED_INSIDE: &str = "its contents are aligned at their present position";

pub(super) struct Chosen {
    pub(super) entry: Entry,
    pub(super) start: Option<ByteOffset>,
    pub(super) anchor: Option<Anchor>,
}

impl Chosen {
    pub(super) fn grain(&self, grain: Boundary) -> Boundary {
        self.anchor.as_ref().map_or(grain, |anchor| starts(grain, anchor.offset))
    }

    fn data(&self, at: ByteOffset) -> Option<ByteOffset> {
        at.checked_add(self.anchor.as_ref()?.offset)
    }
}

#[derive(Default)]
struct Sorted {
    moves: Vec<Chosen>,
    /// On a boundary, with layers to be aligned in their own way.
    inside: Vec<Chosen>,
    /// Off a boundary, with the reason to stay.
    stays: Vec<(u32, String)>,
}

/// The partitions that have to move if none is named, with where their data begin that are to be aligned.
pub fn must_move(situation: &Situation<'_>) -> Result<Vec<(u32, Option<ByteOffset>)>, RealignError> {
    let block = situation.block();
    let data = |one: &Chosen| one.data(span_of(&one.entry, block)?.start());
    Ok(sort(situation)?.moves.iter().map(|one| (one.entry.number, data(one))).collect())
}

/// The partitions that start off a boundary and stay if they are not named, with the reason.
pub fn staying(situation: &Situation<'_>) -> Result<Vec<(u32, String)>, RealignError> {
    Ok(sort(situation)?.stays)
}

fn sort(situation: &Situation<'_>) -> Result<Sorted, RealignError> {
    let request = Request::new(Seed(0));
    let base = Base::of(situation, &request)?;
    let fine = Grain::of(situation.topology, situation.size(), situation.block(), Some(USUAL_PHYSICAL));
    Ok(sorted(&base, &Wanted::default(), fine.start))
}

/// A grain that is asked for counts as a boundary of the drive.
fn sorted(base: &Base<'_>, wanted: &Wanted, grain: Boundary) -> Sorted {
    let situation = base.situation;
    let block = situation.block();
    let judged = straddle_audit::starts(&Context {
        written: &|span| Some(span.start()),
        ..Context::of("", DeviceKind::Other, situation.size(), situation.topology, situation.stack)
    });
    let mut sorted = Sorted::default();
    for entry in base.table.partitions.iter().filter(|entry| entry.slot != Slot::Extended) {
        let one = one(base, entry, None, grain);
        let Some(at) = span_of(entry, block).map(Span::start) else { continue };
        let Some((number, verdict)) = judged.iter().find(|(number, _)| *number == entry.number) else {
            continue;
        };
        let mut stays = |why: &str| sorted.stays.push((*number, why.to_owned()));
        if one.grain(grain).is_aligned(at) {
            if *verdict == OfStart::Moves {
                stays("the disk has no start that is on all boundaries");
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
                let has_way = one.anchor.as_ref().is_some_and(|anchor| anchor.way.is_some());
                if has_way && grain.is_aligned(at) { &mut sorted.inside } else { &mut sorted.moves }
                    .push(one);
            }
            OfStart::OnBoundary(_) if one.anchor.is_some() => stays(ALIGNED_INSIDE),
            OfStart::OnBoundary(_) => {
                let physical = situation.topology.physical.value().get();
                let why = format!("its start is aligned to the drive's {physical}-byte sectors");
                let is_small = physical < USUAL_PHYSICAL.get();
                stays(&if is_small {
                    why + "; if the drive hides larger sectors, use --assume 512e"
                } else {
                    why
                });
            }
        }
    }
    sorted
}

fn one(base: &Base<'_>, entry: &Entry, start: Option<ByteOffset>, grain: Boundary) -> Chosen {
    let block = base.situation.block();
    let anchor = base.partition(entry.number).and_then(|found| anchor(found, grain, block));
    Chosen { entry: entry.clone(), start, anchor }
}

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
    let entries = &base.table.partitions;
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
            let why = format!("the start is {} bytes past a boundary", grain.past(start).get());
            return Err(RealignError::Start { number, start, why });
        }
        found.push(one);
    }
    Ok(found)
}

fn unnamed(base: &mut Base<'_>, wanted: &Wanted, grain: Boundary) -> Result<Vec<Chosen>, RealignError> {
    let Sorted { moves, inside, stays } = sorted(base, wanted, grain);
    for one in inside {
        let Some(Anchor { what, way: Some(way), .. }) = one.anchor else { continue };
        let number = one.entry.number;
        if moves.is_empty() {
            return Err(RealignError::Inside { number, what, way });
        }
        base.notes.push(format!("partition {number} starts on a boundary, but its {what} does not; {way}"));
    }
    for (number, why) in stays {
        base.notes.push(format!("partition {number} is not moved, because {why}"));
    }
    Ok(moves)
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Anchor {
    pub(super) offset: ByteCount,
    pub(super) what: &'static str,
    /// How the format itself can align them.
    pub(super) way: Option<String>,
}

pub(super) fn anchor(partition: &Partition, grain: Boundary, block: BlockSize) -> Option<Anchor> {
    let start = partition.span.start();
    let mut found: Option<Anchor> = None;
    let mut next = partition.layer.as_ref();
    while let Some(layer) = next {
        let Some((own, what)) = begins(layer) else { break };
        let offset = layer.drive?.checked_add(own)?.checked_since(start)?;
        let is_own = !own.is_multiple_of(grain.size());
        let (what, way) = match found {
            Some(earlier) if !is_own => (earlier.what, earlier.way),
            _ => (what, way(layer)),
        };
        found = Some(Anchor { offset, what, way });
        next = layer.children.first().filter(|_| layer.children.len() == 1 && is_through(layer));
    }
    found.filter(|anchor| {
        !anchor.offset.is_multiple_of(grain.size()) && anchor.offset.is_multiple_of(block.bytes())
    })
}

pub(crate) fn anchor_offset(partition: &Partition, grain: Boundary, block: BlockSize) -> Option<ByteCount> {
    anchor(partition, grain, block).filter(|anchor| anchor.way.is_none()).map(|anchor| anchor.offset)
}

fn begins(layer: &Layer) -> Option<(ByteCount, &'static str)> {
    match &layer.facts {
        Facts::Luks(luks) => Some((ByteCount::new(luks.payload?.get()), "encrypted payload")),
        Facts::Pv(pv) => Some((ByteCount::new(pv.data_start.get()), "first physical extent")),
        Facts::Md(md) => Some((md.data_offset, "part of the array's data")),
        Facts::Mapped(mapped) => Some((ByteCount::new(mapped.payload?.get()), "payload")),
        Facts::Table(table) => Some((first_inside(table)?, "first partition inside")),
        Facts::FileSystem(_) => Some((layer.clusters(USUAL_PHYSICAL)?, "first cluster")),
        Facts::Lv(_) | Facts::Opaque => None,
    }
}

fn first_inside(table: &Stack) -> Option<ByteCount> {
    let partitions = table.partitions.iter().filter(|partition| partition.role != Role::Extended);
    let mut starts = partitions.map(|partition| ByteCount::new(partition.span.start().get()));
    let first = starts.next()?;
    let past = first.remainder(USUAL_PHYSICAL);
    starts.all(|start| start.remainder(USUAL_PHYSICAL) == past).then_some(first)
}

fn is_through(layer: &Layer) -> bool {
    match &layer.facts {
        Facts::Md(md) => md.level == 1,
        Facts::Luks(_) | Facts::Mapped(_) => true,
        _ => false,
    }
}

fn way(layer: &Layer) -> Option<String> {
    match &layer.facts {
        Facts::Pv(_) => Some(
            "create another physical volume with pvcreate --dataalignment 1m, and move the extents to it \
             (vgextend, pvmove, vgreduce)"
                .to_owned(),
        ),
        // Levels that can be reshaped (mdadm(8), --data-offset).
        Facts::Md(md) if [4, 5, 6, 10].contains(&md.level) => {
            let offset = md.data_offset.get().next_multiple_of(MIB) / KIB;
            Some(format!("use mdadm --grow --data-offset={offset}K on the array, if its members have room"))
        }
        _ => None,
    }
}

pub(crate) fn starts(grain: Boundary, offset: ByteCount) -> Boundary {
    let size = grain.size();
    let back = offset.remainder(size);
    let phase = grain.phase().checked_add(size).and_then(|phase| phase.checked_sub(back));
    phase.and_then(|phase| Boundary::new(size, phase.remainder(size))).unwrap_or(grain)
}
