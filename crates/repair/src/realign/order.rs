//! The order in which partitions move to their new places.
//!
//! Invariants: a move overwrites nothing but what it moves itself and what is nobody's. If all of
//! the partitions that are left wait for one another, the smallest that can makes a detour through free space.

use std::collections::BTreeSet;

use crate::relocate::Move;
use straddle_units::{ByteCount, ByteOffset, Span};

use super::detours::{detours, ends};
use super::places::Ground;

/// How many states are looked at before the search for an order is given up.
const MOST_STATES: usize = 20_000;

/// A partition's way: as many bytes as it keeps, and their new place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Trip {
    pub(super) number: u32,
    pub(super) from: Span,
    pub(super) to: ByteOffset,
}

/// Partitions that wait for one another, and no free space for a detour.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Deadlock {
    pub(super) numbers: Vec<u32>,
    /// The largest free space when none of them can move.
    pub(super) largest: ByteCount,
    /// How many bytes it lacks.
    pub(super) missing: ByteCount,
}

/// Where a partition is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum At {
    Start,
    /// At this byte, on a detour.
    Aside(ByteOffset),
    Done,
}

struct Search<'a> {
    trips: &'a [Trip],
    fixed: &'a [Span],
    ground: &'a Ground,
    seen: BTreeSet<Vec<At>>,
    moves: Vec<Move>,
}

/// Returns the moves in an order that works.
pub(super) fn order(trips: &[Trip], fixed: &[Span], ground: &Ground) -> Result<Vec<Move>, Deadlock> {
    let mut search = Search { trips, fixed, ground, seen: BTreeSet::new(), moves: Vec::new() };
    let mut state = vec![At::Start; trips.len()];
    if search.run(&mut state) {
        return Ok(search.moves);
    }
    detours(trips, fixed, ground).ok_or_else(|| search.deadlock())
}

impl Search<'_> {
    fn span(&self, index: usize, at: At) -> Option<Span> {
        let trip = self.trips[index];
        match at {
            At::Start => Some(trip.from),
            At::Aside(start) => Span::new(start, trip.from.len()),
            At::Done => Span::new(trip.to, trip.from.len()),
        }
    }

    /// Whether a partition can move to `to` now.
    fn is_free(&self, state: &[At], index: usize, to: Span) -> bool {
        (0..state.len())
            .filter(|other| *other != index)
            .filter_map(|other| self.span(other, state[other]))
            .all(|span| !span.overlaps(to))
    }

    fn can_finish(&self, state: &[At], index: usize) -> bool {
        state[index] != At::Done
            && self.span(index, At::Done).is_some_and(|to| self.is_free(state, index, to))
    }

    /// Searches from this state on; true if all partitions have arrived.
    fn run(&mut self, state: &mut Vec<At>) -> bool {
        if state.iter().all(|at| *at == At::Done) {
            return true;
        }
        if self.seen.len() >= MOST_STATES || !self.seen.insert(state.clone()) {
            return false;
        }
        for index in 0..state.len() {
            if self.can_finish(state, index) && self.step(state, index, At::Done) {
                return true;
            }
        }
        for (index, aside) in self.detours(state) {
            if self.step(state, index, At::Aside(aside)) {
                return true;
            }
        }
        false
    }

    /// Makes a move and searches on; takes it back if that leads nowhere.
    fn step(&mut self, state: &mut Vec<At>, index: usize, to: At) -> bool {
        let was = state[index];
        let (Some(from), Some(target)) = (self.span(index, was), self.span(index, to)) else { return false };
        state[index] = to;
        let is_move = from != target;
        if is_move {
            self.moves.push(Move { from, to: target.start() });
        }
        if self.run(state) {
            return true;
        }
        if is_move {
            self.moves.pop();
        }
        state[index] = was;
        false
    }

    /// The free space in a state.
    fn gaps(&self, state: &[At]) -> Vec<Span> {
        let spans = (0..state.len()).filter_map(|index| self.span(index, state[index]));
        self.ground.free.gaps(spans.chain(self.fixed.iter().copied()))
    }

    /// The detours that can be made, the shortest partition first, and first to where nothing else is to go.
    fn detours(&self, state: &[At]) -> Vec<(usize, ByteOffset)> {
        let mut waiting: Vec<usize> = (0..state.len()).filter(|index| state[*index] == At::Start).collect();
        waiting.sort_by_key(|index| (self.trips[*index].from.len(), *index));
        let gaps = self.gaps(state);
        let targets: Vec<Span> = (0..state.len()).filter_map(|index| self.span(index, At::Done)).collect();
        let clear: Vec<Span> = gaps.iter().flat_map(|gap| gap.gaps(targets.iter().copied())).collect();
        let mut found = Vec::new();
        for gaps in [&clear, &gaps] {
            for index in &waiting {
                for gap in gaps.iter() {
                    found.extend(
                        ends(*gap, self.trips[*index].from.len(), self.ground).map(|start| (*index, start)),
                    );
                }
            }
        }
        found
    }

    /// Describes the state in which no partition can move to its place any more.
    fn deadlock(&self) -> Deadlock {
        let mut state = vec![At::Start; self.trips.len()];
        while let Some(index) = (0..state.len()).find(|index| self.can_finish(&state, *index)) {
            state[index] = At::Done;
        }
        let waiting = || (0..state.len()).filter(|index| state[*index] == At::Start);
        let lens = || waiting().map(|index| self.trips[index].from.len());
        let largest = self.gaps(&state).into_iter().map(Span::len).max().unwrap_or_default();
        // Beginning and end of a gap need not be those of a physical sector.
        let margin = self.ground.physical.size();
        let least = lens().min().unwrap_or_default();
        let all = ByteCount::new(lens().fold(0, |sum, len| sum.saturating_add(len.get())));
        let needed = if least > largest { least } else { all };
        let missing = needed.checked_sub(largest).filter(|missing| *missing != ByteCount::ZERO);
        Deadlock {
            numbers: waiting().map(|index| self.trips[index].number).collect(),
            largest,
            missing: missing.unwrap_or(margin),
        }
    }
}
