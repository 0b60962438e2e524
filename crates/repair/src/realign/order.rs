//! The order in which partitions move to their new places.
//!
//! Invariants: a move overwrites nothing but its own source and unallocated space. What can arrive does. If
//! all of the partitions that are left wait for one another, some make detours through the ends of free
//! spaces: of a limited number of states, those that move the fewest bytes.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use straddle_units::{ByteCount, ByteOffset, Span};

use super::RealignError;
use super::places::Ground;
use crate::relocate::Move;

/// The bytes that a partition keeps, and their new place.
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

/// Returns the moves in an order that works; or [`RealignError::Blocked`].
pub(super) fn order(trips: &[Trip], fixed: &[Span], ground: &Ground) -> Result<Vec<Move>, RealignError> {
    let (mut moves, mut waiting, mut taken) = (Vec::new(), trips.to_vec(), fixed.to_vec());
    let can_arrive = |trip: &Trip, waiting: &[Trip]| {
        let is_free =
            |to: Span| waiting.iter().all(|other| other.number == trip.number || !other.from.overlaps(to));
        trip.destination().is_some_and(is_free)
    };
    while let Some(index) = waiting.iter().position(|trip| can_arrive(trip, &waiting)) {
        let trip = waiting.remove(index);
        taken.extend(trip.destination());
        moves.push(Move { from: trip.from, to: trip.to });
    }
    moves.retain(|one| one.from.start() != one.to);
    match detours(&waiting, &taken, ground) {
        Some(rest) => moves.extend(rest),
        // What has arrived may be where a detour would be possible.
        None => return detours(trips, fixed, ground).ok_or_else(|| deadlock(&waiting, &taken, ground)),
    }
    Ok(moves)
}

/// The error if no partition can move any more.
fn deadlock(waiting: &[Trip], taken: &[Span], ground: &Ground) -> RealignError {
    let lens = || waiting.iter().map(|trip| trip.from.len());
    let gaps = ground.free.gaps(waiting.iter().map(|trip| trip.from).chain(taken.iter().copied()));
    let largest = gaps.into_iter().map(Span::len).max().unwrap_or_default();
    let least = lens().min().unwrap_or_default();
    let all = ByteCount::new(lens().fold(0, |sum, len| sum.saturating_add(len.get())));
    let needed = if least > largest { least } else { all };
    let missing = needed.checked_sub(largest).filter(|missing| *missing != ByteCount::ZERO);
    // Beginning and end of a gap need not be those of a physical sector.
    let missing = missing.unwrap_or(ground.physical.size());
    RealignError::Blocked { numbers: waiting.iter().map(|trip| trip.number).collect(), largest, missing }
}

/// The most states of a single partition. The cost of each is the square of the number of partitions.
const MOST_STATES: usize = 2_000_000;

/// Where each partition starts.
type State = Vec<ByteOffset>;

/// A move of a partition: its index, and where it was before.
type Step = (usize, ByteOffset);

/// The moves of the fewest bytes that bring all partitions to their places; `None` if none are found.
fn detours(trips: &[Trip], fixed: &[Span], ground: &Ground) -> Option<Vec<Move>> {
    let start: State = trips.iter().map(|trip| trip.from.start()).collect();
    let goal: State = trips.iter().map(|trip| trip.to).collect();
    let mut known: BTreeMap<State, (u64, Option<Step>)> = BTreeMap::from([(start.clone(), (0, None))]);
    let most = MOST_STATES / (trips.len() * trips.len()).max(1);
    let mut open = BinaryHeap::from([Reverse((0_u64, start))]);
    while let Some(Reverse((cost, state))) = open.pop() {
        if state == goal {
            return Some(moves(trips, &known, state));
        }
        if known.len() > most || known.get(&state).is_some_and(|(least, _)| *least < cost) {
            continue;
        }
        for (index, to) in steps(trips, &state, fixed, ground) {
            let mut next = state.clone();
            next[index] = to;
            let sum = cost.saturating_add(trips[index].from.len().get());
            if known.get(&next).is_none_or(|(least, _)| sum < *least) {
                known.insert(next.clone(), (sum, Some((index, state[index]))));
                open.push(Reverse((sum, next)));
            }
        }
    }
    None
}

fn steps(trips: &[Trip], state: &State, fixed: &[Span], ground: &Ground) -> Vec<(usize, ByteOffset)> {
    let span = |index: usize, at: ByteOffset| Span::new(at, trips[index].from.len());
    let mut found = Vec::new();
    for index in 0..state.len() {
        let others = (0..state.len()).filter(|other| *other != index);
        let taken = others.filter_map(|other| span(other, state[other])).chain(fixed.iter().copied());
        let gaps = ground.free.gaps(taken);
        let goal = trips[index].to;
        let can_arrive = span(index, goal).is_some_and(|to| gaps.iter().any(|gap| gap.contains(to)));
        let asides = gaps.iter().flat_map(|gap| ends(*gap, trips[index].from.len(), ground));
        let places = asides.chain(can_arrive.then_some(goal));
        found.extend(places.filter(|to| *to != state[index]).map(|to| (index, to)));
    }
    found
}

/// The first and the last place of this length in a gap, on physical sectors.
fn ends(gap: Span, len: ByteCount, ground: &Ground) -> impl Iterator<Item = ByteOffset> {
    let first = ground.physical.ceil(gap.start());
    let last = gap.end().checked_back(len).and_then(|last| ground.physical.floor(last));
    let fits = first.zip(last).filter(|(first, last)| first <= last);
    let last = fits.filter(|(first, last)| first != last).map(|(_, last)| last);
    fits.map(|(first, _)| first).into_iter().chain(last)
}

fn moves(trips: &[Trip], known: &BTreeMap<State, (u64, Option<Step>)>, mut state: State) -> Vec<Move> {
    let mut moves = Vec::new();
    while let Some((_, Some((index, was)))) = known.get(&state) {
        let from = Span::new(*was, trips[*index].from.len()).unwrap_or(trips[*index].from);
        moves.push(Move { from, to: state[*index] });
        state[*index] = *was;
    }
    moves.reverse();
    moves
}
