//! Orders of moves that need more than one detour of a partition.
//!
//! Invariants: of the orders that it finds it returns one that moves the fewest bytes. It looks at
//! a limited number of states, and at the ends of each free space only.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use crate::relocate::Move;
use straddle_units::{ByteCount, ByteOffset, Span};

use super::order::Trip;
use super::places::Ground;

/// How many states of a single partition are looked at. Each costs the square of their number.
const MOST_STATES: usize = 2_000_000;

/// Where each partition starts.
type State = Vec<ByteOffset>;

/// A move of a partition: its index, and where it was before.
type Step = (usize, ByteOffset);

/// Returns moves that bring all partitions to their places; `None` if none are found.
pub(super) fn detours(trips: &[Trip], fixed: &[Span], ground: &Ground) -> Option<Vec<Move>> {
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

/// The moves that are possible in a state.
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
pub(super) fn ends(gap: Span, len: ByteCount, ground: &Ground) -> impl Iterator<Item = ByteOffset> {
    let first = ground.physical.ceil(gap.start());
    let last = gap.end().checked_back(len).and_then(|last| ground.physical.floor(last));
    let fits = first.zip(last).filter(|(first, last)| first <= last);
    let last = fits.filter(|(first, last)| first != last).map(|(_, last)| last);
    fits.map(|(first, _)| first).into_iter().chain(last)
}

/// Follows the steps back to the first state.
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
