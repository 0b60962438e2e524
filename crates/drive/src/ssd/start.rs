//! The state in which a drive starts, and the steady state of random writes.
//!
//! In that state, superblocks are collected about in the order in which they were filled, and each random
//! write makes the same share of what is valid stale, wherever it lies. So the valid units of a superblock
//! fall geometrically with its age (P. Desnoyers, "Analytic modeling of SSD write performance", SYSTOR 2012,
//! for the choice of the oldest, which greedy choice approaches under uniform writes).

use serde::Deserialize;
use straddle_units::ByteCount;

use crate::ssd::index::{Slot, Superblock, Unit};
use crate::ssd::narrow;
use crate::ssd::parameters::Layout;

/// The state of the flash at power-on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FlashStart {
    /// Nothing was ever written.
    #[default]
    Empty,
    /// Written once from end to end.
    InOrder,
    /// Full, and overwritten at random for so long that garbage collection is steady.
    Steady,
}

/// Two free superblocks, below which garbage collection begins, and one for the next writes.
const UNUSED: u32 = 3;

/// The most recent superblock first.
pub(super) struct SteadyState {
    layout: Layout,
    /// Units in the superblocks up to and including each.
    ends: Vec<u32>,
    /// From one unit to the next in the order of slots; it has no factor in common with the number of units.
    step: u64,
}

impl SteadyState {
    pub(super) fn of(layout: Layout) -> Self {
        let (units, slots) = (f64::from(layout.units), f64::from(layout.slots));
        let count = layout.superblocks - UNUSED;
        let held = |ratio: f64| {
            let valid = std::iter::successors(Some(slots), |valid| Some(valid * ratio));
            valid.take(count as usize).sum::<f64>()
        };
        let (mut low, mut high) = (0.0, 1.0);
        for _ in 0..60 {
            let middle = f64::midpoint(low, high);
            if held(middle) < units { low = middle } else { high = middle }
        }
        let (mut valid, mut sum, mut ends) = (slots, 0.0, Vec::new());
        for _ in 0..count {
            sum += valid;
            valid *= high;
            ends.push(rounded(sum).min(layout.units));
        }
        ends.last_mut().into_iter().for_each(|last| *last = layout.units);
        Self { layout, ends, step: spread(layout) }
    }

    pub(super) fn superblocks(&self) -> impl Iterator<Item = (Superblock, u32)> + '_ {
        let starts = std::iter::once(0).chain(self.ends.iter().copied());
        (0..).zip(starts.zip(&self.ends)).map(|(index, (start, end))| (Superblock::new(index), end - start))
    }

    pub(super) fn slots(&self) -> impl Iterator<Item = (Slot, Unit)> + '_ {
        let slots = u64::from(self.layout.slots);
        let places = self.superblocks().flat_map(move |(superblock, valid)| {
            // The stale slots are spread evenly, as random writes leave them.
            let until = move |place: u64| place * u64::from(valid) / slots;
            let places = (0..slots).filter(move |&place| until(place + 1) > until(place));
            places.map(move |place| self.layout.slot(superblock, narrow(place)))
        });
        let count = u64::from(self.layout.units);
        places.zip(0_u64..).map(move |(slot, index)| (slot, Unit::new(narrow(index * self.step % count))))
    }
}

#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a number of units")]
fn rounded(units: f64) -> u32 {
    units.round() as u32
}

/// A step that visits every unit once, and puts neighbours far apart: about the golden ratio of them.
fn spread(layout: Layout) -> u64 {
    let (units, unit) = (u64::from(layout.units), layout.unit_bytes());
    let bytes = |units: u64| ByteCount::new(units * unit);
    let visits_all = |step: &u64| bytes(*step).common_divisor(bytes(units)) == bytes(1);
    (units * 618 / 1000..).find(visits_all).unwrap_or(1)
}
