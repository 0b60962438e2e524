//! What is kept of the requests of a trace: how many begin where in their MiB, and how long they are.
//!
//! Memory does not grow with the trace, and nothing is lost that a boundary can ask. How a request of `n` sectors at
//! sector `s` touches units of `u` sectors depends on `s mod u` and on `n` only, and each unit up to 1 MiB divides 2048
//! sectors. So `s mod 2048` and `n` are kept; a length of 4096 sectors or more as `4096 + n mod 2048` and a number of
//! whole MiB, each of which touches 2048 / u units and no partial one. Histograms of the parts of a trace add up.

mod effect;
mod table;

use std::collections::BTreeMap;

pub(crate) use self::effect::of_class;
pub use self::effect::{Effect, Effects, UNITS};
use self::table::CountTable;

/// Sectors per MiB, the largest unit.
pub(crate) const MIB: u64 = 2048;

/// Bytes per sector. Traces count in these, whatever the device's logical sectors are.
pub const SECTOR: u64 = 512;

/// Lengths below this many sectors are kept as they are: 2 MiB.
const EXACT: u64 = 2 * MIB;

/// Where requests begin, and their length, both in sectors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Class {
    /// The first sector, modulo 2048.
    pub first: u16,
    /// The length: below 4096 as it is, otherwise 4096 and the remainder of 2048.
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

/// The requests of one length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size {
    /// The length in sectors; `None` for all of 2 MiB or more together.
    pub sectors: Option<u64>,
    /// Their number.
    pub requests: u64,
    /// The sectors of all of them.
    pub total: u128,
}

/// The requests of one operation on one volume.
#[derive(Clone, Debug, Default)]
pub struct Histogram {
    counts: CountTable,
    /// [`Count::beyond`] of the classes that have any.
    beyond: BTreeMap<u32, u64>,
    /// Requests that do not begin and end on sectors, counted with the sectors they touch.
    pub(crate) inexact: u64,
}

impl PartialEq for Histogram {
    fn eq(&self, other: &Self) -> bool {
        self.inexact == other.inexact && self.classes().eq(other.classes())
    }
}

impl Eq for Histogram {}

impl Histogram {
    /// Counts a request by its first byte and its length in bytes; false if it would end past 2^64.
    #[inline]
    pub fn add(&mut self, offset: u64, length: u64) -> bool {
        let Some(end) = offset.checked_add(length) else { return false };
        if length == 0 {
            return true;
        }
        self.inexact += u64::from(!(offset | length).is_multiple_of(SECTOR));
        let (first, sectors) = (offset / SECTOR, end.div_ceil(SECTOR) - offset / SECTOR);
        if sectors < EXACT {
            self.counts.add(key(first, sectors));
        } else {
            self.add_many(key(first, EXACT + sectors % MIB), 1, (sectors - EXACT) / MIB);
        }
        true
    }

    #[cold]
    pub(crate) fn add_many(&mut self, key: u32, requests: u64, beyond: u64) {
        self.counts.add_many(key, requests);
        if beyond > 0 {
            let known = self.beyond.entry(key).or_default();
            *known = known.saturating_add(beyond);
        }
    }

    pub(crate) const fn is_empty(&self) -> bool {
        self.counts.len() == 0
    }

    /// Brings the entry of a request into the cache, so that the processor waits for memory once for several requests.
    #[inline]
    pub(crate) fn touch(&self, offset: u64, length: u64) -> u64 {
        self.counts.touch(key(offset / SECTOR, (length / SECTOR).min(EXACT)))
    }

    /// Adds the requests of another histogram.
    pub fn merge(&mut self, other: &Self) {
        self.counts.merge(&other.counts);
        for (key, more) in &other.beyond {
            let known = self.beyond.entry(*key).or_default();
            *known = known.saturating_add(*more);
        }
        self.inexact = self.inexact.saturating_add(other.inexact);
    }

    /// Returns the classes that occur, in order, with their counts.
    pub fn classes(&self) -> impl Iterator<Item = (Class, Count)> {
        self.keyed().into_iter().map(|(key, count)| (class_of(key), count))
    }

    /// In the order of the keys.
    pub(crate) fn keyed(&self) -> Vec<(u32, Count)> {
        let mut classes = Vec::with_capacity(self.counts.len());
        classes.extend(self.unsorted());
        classes.sort_unstable_by_key(|(key, _)| *key);
        classes
    }

    pub(crate) fn unordered(&self) -> impl Iterator<Item = (Class, Count)> + '_ {
        self.unsorted().map(|(key, count)| (class_of(key), count))
    }

    fn unsorted(&self) -> impl Iterator<Item = (u32, Count)> + '_ {
        self.counts.counts().map(|(key, requests)| {
            let beyond = if self.beyond.is_empty() { 0 } else { self.beyond.get(&key).copied().unwrap_or(0) };
            (key, Count { requests, beyond })
        })
    }

    /// Returns the number of requests.
    pub fn requests(&self) -> u64 {
        self.counts.counts().map(|(_, requests)| requests).sum()
    }

    /// Returns the number of sectors of all requests.
    pub fn sectors(&self) -> u128 {
        self.unordered().map(|(class, count)| count.sectors(class)).sum()
    }

    /// Returns the lengths that occur, the shortest first.
    pub fn sizes(&self) -> Vec<Size> {
        let mut sizes: BTreeMap<u64, (u64, u128)> = BTreeMap::new();
        for (class, count) in self.unordered() {
            let (requests, total) = sizes.entry(u64::from(class.length).min(EXACT)).or_default();
            *requests += count.requests;
            *total += count.sectors(class);
        }
        let size = |(sectors, (requests, total))| {
            let sectors = Some(sectors).filter(|sectors| *sectors < EXACT);
            Size { sectors, requests, total }
        };
        sizes.into_iter().map(size).collect()
    }

    /// Returns the number of requests that do not begin and end on sectors, counted with those they touch.
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

/// Bits of a length in a key: it is below three MiB.
const LENGTH_BITS: u32 = 13;

/// Of a request of fewer than three MiB.
#[inline]
fn key(first: u64, sectors: u64) -> u32 {
    let key = (first % MIB) << LENGTH_BITS | sectors & ((1 << LENGTH_BITS) - 1);
    u32::try_from(key).unwrap_or(0)
}

pub(crate) fn is_key(key: u32) -> bool {
    let Class { first, length } = class_of(key);
    u64::from(first) < MIB && (1..EXACT + MIB).contains(&u64::from(length))
}

pub(crate) fn is_long(key: u32) -> bool {
    exact(class_of(key).length).is_none()
}

/// If all requests of the class have it.
pub(crate) fn exact(length: u16) -> Option<u64> {
    Some(u64::from(length)).filter(|length| *length < EXACT)
}

fn class_of(key: u32) -> Class {
    let narrow = |value: u32| u16::try_from(value).unwrap_or(u16::MAX);
    Class { first: narrow(key >> LENGTH_BITS), length: narrow(key & ((1 << LENGTH_BITS) - 1)) }
}
