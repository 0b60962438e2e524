//! New places for partitions, and the order in which they move there.
//!
//! Invariants: no new place overlaps a partition that stays, another new place, or the bytes before it that belong to
//! it; every start is aligned; no used bytes are cut off. A move overwrites only its own source and unallocated
//! space, and each partition moves once: a cycle is refused. Tables and contents are not known here.

use straddle_units::{BlockSize, Boundary, ByteCount, ByteOffset, Span};

use super::RealignError;
use crate::relocate::Move;

#[derive(Clone, Copy, Debug)]
pub(super) struct Ground {
    pub(super) free: Span,
    /// The boundary of starts: a multiple of the logical sector.
    pub(super) grain: Boundary,
    pub(super) block: BlockSize,
    pub(super) physical: Boundary,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Item {
    pub(super) number: u32,
    pub(super) at: Span,
    /// The bytes from its start that must be kept; not more than it has.
    pub(super) need: ByteCount,
    /// The bytes before its start that belong to it.
    pub(super) lead: ByteCount,
    pub(super) grain: Boundary,
}

impl Item {
    pub(super) fn taken(&self, to: Span) -> Span {
        let before = to.start().checked_back(self.lead).zip(to.len().checked_add(self.lead));
        before.and_then(|(start, len)| Span::new(start, len)).unwrap_or(to)
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct NoRoom {
    pub(super) numbers: Vec<u32>,
    /// And by how many bytes their contents would have to be smaller.
    pub(super) shrink: Vec<(u32, ByteCount)>,
    pub(super) missing: ByteCount,
}

struct Run {
    gap: Span,
    items: Vec<usize>,
}

/// The new place of each item. `fixed` are the bytes that nothing may move to. Without room for all between
/// two of them, one goes elsewhere if it `may_pass`.
pub(super) fn find(
    items: &[Item],
    fixed: &[Span],
    ground: &Ground,
    may_pass: bool,
) -> Result<Vec<Span>, NoRoom> {
    let gaps = ground.free.gaps(fixed.iter().copied());
    let mut runs: Vec<Run> = gaps.into_iter().map(|gap| Run { gap, items: Vec::new() }).collect();
    let mut order: Vec<usize> = (0..items.len()).collect();
    order.sort_by_key(|index| items[*index].at.start());
    for index in order {
        let at = items[index].at.start();
        match runs.iter_mut().min_by_key(|run| distance(run.gap, at)) {
            Some(run) => run.items.push(index),
            None => return Err(no_room(items, &[index], Span::first(ByteCount::ZERO), ground)),
        }
    }
    let mut placed: Vec<Option<Span>> = vec![None; items.len()];
    let (mut settled, mut crowded) = (Vec::new(), Vec::new());
    for run in &runs {
        match pack(items, &run.items, run.gap, ground) {
            Some(spans) => {
                assign(&mut placed, &run.items, spans);
                settled.push(run);
            }
            None => crowded.push(run),
        }
    }
    // Nothing goes to a gap whose own partitions have no places yet.
    for run in crowded {
        settled.push(run);
        if !may_pass || !relieve(items, run, &settled, &mut placed, ground) {
            return Err(no_room(items, &run.items, run.gap, ground));
        }
    }
    Ok(placed.into_iter().flatten().collect())
}

fn assign(placed: &mut [Option<Span>], indices: &[usize], spans: Vec<Span>) {
    for (index, span) in indices.iter().zip(spans) {
        placed[*index] = Some(span);
    }
}

fn distance(gap: Span, at: ByteOffset) -> ByteCount {
    let before = gap.start().checked_since(at);
    before.or(at.checked_since(gap.end())).unwrap_or_default()
}

fn relieve(
    items: &[Item],
    run: &Run,
    settled: &[&Run],
    placed: &mut [Option<Span>],
    ground: &Ground,
) -> bool {
    let mut by_size = run.items.clone();
    by_size.sort_by_key(|index| (items[*index].need, items[*index].number));
    for out in by_size {
        let rest: Vec<usize> = run.items.iter().copied().filter(|index| *index != out).collect();
        let Some(spans) = pack(items, &rest, run.gap, ground) else { continue };
        let mine = rest.iter().zip(&spans).map(|(index, to)| items[*index].taken(*to));
        let others = items.iter().zip(placed.iter()).filter_map(|(item, to)| Some(item.taken((*to)?)));
        let taken: Vec<Span> = mine.chain(others).collect();
        let gaps = settled.iter().flat_map(|run| run.gap.gaps(taken.iter().copied()));
        let Some(place) = nearest(&items[out], gaps, ground) else { continue };
        assign(placed, &rest, spans);
        placed[out] = Some(place);
        return true;
    }
    false
}

/// All of the item, or else what it needs.
fn nearest(item: &Item, gaps: impl Iterator<Item = Span>, ground: &Ground) -> Option<Span> {
    let gaps: Vec<Span> = gaps.collect();
    let start_in = |gap: &Span, len: ByteCount| -> Option<Span> {
        let first = item.grain.ceil(gap.start().checked_add(item.lead)?)?;
        let last = item.grain.floor(gap.end().checked_back(len)?)?;
        let start = (first <= last).then(|| near(item.at.start(), item.grain).clamp(first, last))?;
        let room = gap.end().checked_since(start)?.floor_to(ground.block.bytes());
        Span::new(start, item.at.len().min(room))
    };
    [item.at.len(), item.need].into_iter().find_map(|len| {
        let places = gaps.iter().filter_map(|gap| start_in(gap, len));
        places.min_by_key(|span| apart(span.start(), item.at.start()))
    })
}

fn apart(one: ByteOffset, other: ByteOffset) -> u64 {
    one.get().abs_diff(other.get())
}

/// Of two equally near boundaries the lower.
fn near(at: ByteOffset, grain: Boundary) -> ByteOffset {
    match (grain.floor(at), grain.ceil(at)) {
        (Some(below), Some(above)) if apart(below, at) <= apart(above, at) => below,
        (_, Some(above)) => above,
        (below, None) => below.unwrap_or(at),
    }
}

/// The places of a run, in its order, as near to the present starts as the others let them. Tails are given
/// up only if there is no other way, the last ones first.
fn pack(items: &[Item], run: &[usize], gap: Span, ground: &Ground) -> Option<Vec<Span>> {
    (0..=run.len()).rev().find_map(|whole| {
        let len_of = |(place, index): (usize, &usize)| {
            let item = &items[*index];
            if place < whole { item.at.len() } else { item.need }
        };
        let lens: Vec<ByteCount> = run.iter().enumerate().map(len_of).collect();
        let starts = starts(items, run, &lens, gap)?;
        let next = starts.iter().zip(run).skip(1);
        let ends = next.filter_map(|(start, index)| start.checked_back(items[*index].lead));
        let ends = ends.chain([gap.end()]);
        let places = starts.iter().zip(ends).zip(run).map(|((start, end), index)| {
            let room = end.checked_since(*start)?.floor_to(ground.block.bytes());
            Span::new(*start, items[*index].at.len().min(room))
        });
        places.collect()
    })
}

fn starts(items: &[Item], run: &[usize], lens: &[ByteCount], gap: Span) -> Option<Vec<ByteOffset>> {
    let mut latest = Vec::with_capacity(lens.len());
    let mut end = gap.end();
    for (len, index) in lens.iter().zip(run).rev() {
        let item = &items[*index];
        let start = item.grain.floor(end.checked_back(*len)?)?;
        latest.push(start);
        end = start.checked_back(item.lead)?;
    }
    latest.reverse();
    let mut at = gap.start();
    let mut starts = Vec::with_capacity(lens.len());
    for ((index, len), latest) in run.iter().zip(lens).zip(latest) {
        let item = &items[*index];
        let earliest = item.grain.ceil(at.checked_add(item.lead)?)?;
        if earliest > latest {
            return None;
        }
        let start = near(item.at.start(), item.grain).clamp(earliest, latest);
        at = start.checked_add(*len)?;
        starts.push(start);
    }
    Some(starts)
}

fn no_room(items: &[Item], run: &[usize], gap: Span, ground: &Ground) -> NoRoom {
    let bytes = |blocks: u64| ByteCount::new(blocks.saturating_mul(ground.block.get()));
    let mut shrink = Vec::new();
    for index in run {
        let item = items[*index];
        let fits = |less: u64| {
            let need = item.need.checked_sub(bytes(less)).filter(|need| *need != ByteCount::ZERO);
            need.is_some_and(|need| {
                let mut changed = items.to_vec();
                changed[*index].need = need;
                pack(&changed, run, gap, ground).is_some()
            })
        };
        let most = ground.block.blocks_floor(item.need).get().saturating_sub(1);
        shrink.extend(least(most, fits).map(|least| (item.number, bytes(least))));
    }
    let wider = |more: u64| {
        let gap = gap.len().checked_add(bytes(more)).and_then(|len| Span::new(gap.start(), len));
        gap.is_some_and(|gap| pack(items, run, gap, ground).is_some())
    };
    let padded = |item: &Item| item.lead.get().saturating_add(ground.grain.size().get());
    let all = run.iter().map(|index| items[*index].need.get().saturating_add(padded(&items[*index])));
    let most = ground.block.blocks_floor(ByteCount::new(all.fold(0, u64::saturating_add))).get();
    let missing = least(most.saturating_add(1), wider).unwrap_or(most);
    NoRoom {
        numbers: run.iter().map(|index| items[*index].number).collect(),
        shrink,
        missing: bytes(missing),
    }
}

/// The least number from 1 to `most` for which `holds`, if it holds for all larger ones as well.
fn least(most: u64, holds: impl Fn(u64) -> bool) -> Option<u64> {
    if most == 0 || !holds(most) {
        return None;
    }
    let (mut low, mut high) = (0, most);
    while high - low > 1 {
        let middle = low + (high - low) / 2;
        if holds(middle) { high = middle } else { low = middle }
    }
    Some(high)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Trip {
    pub(super) number: u32,
    pub(super) from: Span,
    pub(super) to: ByteOffset,
}

impl Trip {
    fn destination(&self) -> Option<Span> {
        Span::new(self.to, self.from.len())
    }
}

pub(super) fn order(trips: &[Trip]) -> Result<Vec<Move>, RealignError> {
    let (mut moves, mut waiting) = (Vec::new(), trips.to_vec());
    let can_arrive = |trip: &Trip, waiting: &[Trip]| {
        let is_free =
            |to: Span| waiting.iter().all(|other| other.number == trip.number || !other.from.overlaps(to));
        trip.destination().is_some_and(is_free)
    };
    while let Some(index) = waiting.iter().position(|trip| can_arrive(trip, &waiting)) {
        let trip = waiting.remove(index);
        moves.push(Move { from: trip.from, to: trip.to });
    }
    moves.retain(|one| one.from.start() != one.to);
    let numbers: Vec<u32> = waiting.iter().map(|trip| trip.number).collect();
    if numbers.is_empty() { Ok(moves) } else { Err(RealignError::Blocked { numbers }) }
}
