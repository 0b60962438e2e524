//! The order in which partitions move to their new places.
//!
//! Invariants: a move overwrites nothing but its own source and unallocated space, and each partition moves
//! once: if all that are left wait for one another, that is refused.

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
    if waiting.is_empty() { Ok(moves) } else { Err(deadlock(&waiting, &taken, ground)) }
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
