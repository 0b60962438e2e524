//! What is kept of the requests of a trace: how many begin where in their MiB, and how long they are.
//!
//! The law of this module: memory does not grow with the trace, and nothing is lost that a boundary can ask. A
//! request of `n` sectors at sector `s` touches the units of `u` sectors in a way that depends on `s mod u` and
//! on `n` only, and each unit up to 1 MiB divides 2048 sectors. So `s mod 2048` and `n` are exact for every unit
//! and every start of the partition; a length of 4096 sectors or more is kept as `n mod 2048` and a number of
//! whole MiB, each of which touches 2048 / u units and no partial one. Merging is addition: the histograms of
//! the parts of a trace add up to that of the whole, in any order.

mod effect;

use std::collections::BTreeMap;

pub(crate) use self::effect::of_class;
pub use self::effect::{Effect, Effects, UNITS};

/// Sectors per MiB, the largest unit.
pub(crate) const MIB: u64 = 2048;

/// Bytes per sector. Traces count in these, whatever the device's logical sectors are.
pub const SECTOR: u64 = 512;

/// Where requests begin, and their length, both in sectors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Class {
    /// The first sector, modulo 2048.
    pub first: u16,
    /// The length: below 4096 as it is, otherwise between 2048 and 4095 with the remainder of 2048 kept.
    pub length: u16,
}

/// The requests of a class.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Count {
    /// Their number.
    pub requests: u64,
    /// The whole MiB that their lengths have beyond the class's, in all.
    pub beyond: u64,
}

/// The requests of one operation on one volume.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Histogram {
    counts: BTreeMap<Class, Count>,
    /// Requests that do not begin and end on sectors, counted with the sectors they touch.
    inexact: u64,
}

impl Histogram {
    /// Creates an empty histogram.
    pub const fn new() -> Self {
        Self { counts: BTreeMap::new(), inexact: 0 }
    }

    /// Counts a request by its first byte and its length in bytes. One of no bytes counts for nothing. False if
    /// it would end past 2^64: it is not counted.
    pub fn add(&mut self, offset: u64, length: u64) -> bool {
        let Some(end) = offset.checked_add(length) else { return false };
        let (first, end_sector) = (offset / SECTOR, end.div_ceil(SECTOR));
        let sectors = end_sector - first;
        if length == 0 {
            return true;
        }
        self.inexact += u64::from(!offset.is_multiple_of(SECTOR) || !end.is_multiple_of(SECTOR));
        let (class, beyond) = classify(first, sectors);
        let count = self.counts.entry(class).or_default();
        count.requests += 1;
        count.beyond += beyond;
        true
    }

    /// Adds the requests of another histogram.
    pub fn merge(&mut self, other: &Self) {
        for (class, count) in &other.counts {
            let own = self.counts.entry(*class).or_default();
            own.requests += count.requests;
            own.beyond += count.beyond;
        }
        self.inexact += other.inexact;
    }

    /// Returns the classes that occur, in order, with their counts.
    pub fn classes(&self) -> impl Iterator<Item = (Class, Count)> {
        self.counts.iter().map(|(class, count)| (*class, *count))
    }

    /// Returns the number of requests.
    pub fn requests(&self) -> u64 {
        self.counts.values().map(|count| count.requests).sum()
    }

    /// Returns the number of sectors of all requests.
    pub fn sectors(&self) -> u128 {
        self.classes().map(|(class, count)| count.sectors(class)).sum()
    }

    /// Returns the number of requests that do not begin and end on sectors. They are counted with the sectors
    /// they touch.
    pub const fn inexact(&self) -> u64 {
        self.inexact
    }
}

impl Count {
    /// Returns the sectors of the requests, which are of `class`.
    pub fn sectors(self, class: Class) -> u128 {
        u128::from(self.requests) * u128::from(class.length) + u128::from(self.beyond) * u128::from(MIB)
    }
}

/// Returns the class of a request, and the whole MiB beyond the class's length.
fn classify(first: u64, sectors: u64) -> (Class, u64) {
    let beyond = (sectors / MIB).saturating_sub(1);
    let narrow = |value: u64| u16::try_from(value).unwrap_or(u16::MAX);
    (Class { first: narrow(first % MIB), length: narrow(sectors - beyond * MIB) }, beyond)
}
