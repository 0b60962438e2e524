//! What a cache that holds writes for a while writes.
//!
//! A unit is written a fixed time after its first write since it was written last, with all that has come meanwhile.
//! Writing it earlier never makes its writes fewer, so no cache that holds a write for at most this time writes fewer
//! units. Memory is bounded by the number of units held; if more are dirty, the oldest is written early and counted.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, VecDeque};

use straddle_units::io::{Nanos, Operation, Time};

use crate::histogram::SECTOR;
use crate::record::Record;

/// The most units of one size that are held: 512 MiB of 4 KiB, more than the buffer of any drive.
const HELD: usize = 1 << 17;
const WORD: u64 = 64;

/// A window behind which writes are merged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Window {
    /// How long a write is held at most.
    pub within: Nanos,
    /// The sizes of units in sectors.
    pub units: Vec<u64>,
    /// The start of the partition in sectors.
    pub start: u64,
}

/// What writes do to units of a size behind a window.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Coalesced {
    /// The size of a unit in sectors.
    pub unit: u64,
    /// Units that are written.
    pub written: u64,
    /// Of these, the ones of which only a part is new: each is a read-modify-write.
    pub partial: u64,
    /// Of these, those written before their time because too many were held; a larger cache has fewer.
    pub early: u64,
}

impl Coalesced {
    pub(crate) fn merge(&mut self, other: &Self) {
        self.written = self.written.saturating_add(other.written);
        self.partial = self.partial.saturating_add(other.partial);
        self.early = self.early.saturating_add(other.early);
    }

    /// Returns the bytes written for each byte of requests of `sectors`. `None` without requests.
    pub fn amplification(&self, sectors: u128) -> Option<f64> {
        #[allow(clippy::cast_precision_loss, reason = "a figure to print")]
        let ratio = (u128::from(self.written) * u128::from(self.unit)) as f64 / sectors as f64;
        (sectors > 0).then_some(ratio)
    }
}

pub(crate) struct Pools {
    pools: Vec<Pool>,
    start: u64,
}

struct Pool {
    within: Nanos,
    unit: u64,
    most: usize,
    held: HashMap<(usize, u64), Covered>,
    /// The same in the order of their first write.
    order: VecDeque<(Time, (usize, u64))>,
    written: Vec<Coalesced>,
}

/// One bit per sector, set if it is new.
struct Covered(Vec<u64>);

impl Pools {
    pub(crate) fn new(window: &Window) -> Self {
        let pools = window.units.iter().map(|unit| Pool::new(*unit, window.within, HELD));
        Self { pools: pools.collect(), start: window.start }
    }

    pub(crate) fn take(&mut self, record: &Record) {
        let is_write = matches!(record.operation, Operation::Write | Operation::WriteFua);
        if !is_write || record.length == 0 {
            return;
        }
        let end = record.offset.saturating_add(record.length).div_ceil(SECTOR);
        let (first, end) = (record.offset / SECTOR + self.start, end + self.start);
        for pool in &mut self.pools {
            pool.write(record.arrival, record.volume, first, end);
        }
    }

    pub(crate) fn finish(mut self) -> Vec<Vec<Coalesced>> {
        for pool in &mut self.pools {
            while pool.oldest(false) {}
        }
        let count = self.pools.iter().map(|pool| pool.written.len()).max().unwrap_or(0);
        let of = |volume: usize, pool: &Pool| {
            let empty = Coalesced { unit: pool.unit, ..Coalesced::default() };
            pool.written.get(volume).copied().unwrap_or(empty)
        };
        (0..count).map(|volume| self.pools.iter().map(|pool| of(volume, pool)).collect()).collect()
    }
}

impl Pool {
    fn new(unit: u64, within: Nanos, most: usize) -> Self {
        let (held, order, written) = (HashMap::new(), VecDeque::new(), Vec::new());
        Self { within, unit: unit.max(1), most, held, order, written }
    }

    fn of(&mut self, volume: usize) -> Option<&mut Coalesced> {
        if volume >= self.written.len() {
            self.written.resize(volume + 1, Coalesced { unit: self.unit, ..Coalesced::default() });
        }
        self.written.get_mut(volume)
    }

    fn write(&mut self, now: Time, volume: usize, first: u64, end: u64) {
        while self.order.front().is_some_and(|(at, _)| *at + self.within < now) {
            self.oldest(false);
        }
        let (from, to) = (first / self.unit, end.div_ceil(self.unit));
        if to - from > self.most as u64 {
            return self.through(volume, first, end);
        }
        for index in from..to {
            let start = index * self.unit;
            let (low, high) = (first.max(start) - start, end.min(start + self.unit) - start);
            if self.held.len() >= self.most && !self.held.contains_key(&(volume, index)) {
                self.oldest(true);
            }
            let covered = match self.held.entry((volume, index)) {
                Entry::Occupied(held) => held.into_mut(),
                Entry::Vacant(free) => {
                    self.order.push_back((now, (volume, index)));
                    free.insert(Covered::new(self.unit))
                }
            };
            covered.set(low, high);
        }
    }

    /// Writes through what is larger than all that can be held.
    fn through(&mut self, volume: usize, first: u64, end: u64) {
        let unit = self.unit;
        let Some(counts) = self.of(volume) else { return };
        let units = end.div_ceil(unit) - first / unit;
        counts.written += units;
        counts.early += units;
        counts.partial += u64::from(!first.is_multiple_of(unit)) + u64::from(!end.is_multiple_of(unit));
    }

    /// False if none is held.
    fn oldest(&mut self, is_early: bool) -> bool {
        let Some((_, key)) = self.order.pop_front() else { return false };
        let is_partial = self.held.remove(&key).is_some_and(|covered| !covered.is_all(self.unit));
        if let Some(counts) = self.of(key.0) {
            counts.written += 1;
            counts.partial += u64::from(is_partial);
            counts.early += u64::from(is_early);
        }
        true
    }
}

impl Covered {
    fn new(unit: u64) -> Self {
        Self(vec![0; usize::try_from(unit.div_ceil(WORD)).unwrap_or(1)])
    }

    fn set(&mut self, low: u64, high: u64) {
        for (word, start) in self.0.iter_mut().zip((0..).step_by(64)) {
            let [from, to] = [low, high].map(|sector| sector.clamp(start, start + WORD) - start);
            *word |= ones(to) & !ones(from);
        }
    }

    fn is_all(&self, unit: u64) -> bool {
        let mut words = self.0.iter().zip((0_u64..).step_by(64));
        words.all(|(word, start)| *word == ones(unit.saturating_sub(start).min(WORD)))
    }
}

const fn ones(count: u64) -> u64 {
    if count >= WORD { u64::MAX } else { (1 << count) - 1 }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use proptest::prelude::*;

    use super::*;

    /// A write: when, to which volume, its first sector and how many.
    type Write = (u64, usize, u64, u64);

    /// The part of a write in a unit: when, and the sectors.
    type Part = (u64, BTreeSet<u64>);

    /// Each unit for itself, its writes one by one: a group of writes begins with the first one that is not in the
    /// group before, and ends with the last one that is not later than the window allows.
    fn brute(writes: &[Write], unit: u64, within: u64) -> BTreeMap<usize, (u64, u64)> {
        let mut by_unit: BTreeMap<(usize, u64), Vec<Part>> = BTreeMap::new();
        for (at, volume, first, sectors) in writes {
            let mut touched: BTreeMap<u64, BTreeSet<u64>> = BTreeMap::new();
            for sector in *first..first + sectors {
                touched.entry(sector / unit).or_default().insert(sector % unit);
            }
            for (index, sectors) in touched {
                by_unit.entry((*volume, index)).or_default().push((*at, sectors));
            }
        }
        let mut sums = BTreeMap::new();
        for ((volume, _), writes) in by_unit {
            let (written, partial): &mut (u64, u64) = sums.entry(volume).or_default();
            let mut rest = &writes[..];
            while let Some((begun, _)) = rest.first() {
                let group = rest.iter().take_while(|(at, _)| *at <= begun + within).count();
                let new: BTreeSet<u64> =
                    rest[..group].iter().flat_map(|(_, sectors)| sectors).copied().collect();
                *written += 1;
                *partial += u64::from((new.len() as u64) < unit);
                rest = &rest[group..];
            }
        }
        sums
    }

    /// The fewest groups of a unit's writes of which none lasts longer than the window, over all ways to cut them.
    fn fewest(times: &[u64], within: u64) -> usize {
        let mut best = vec![0; times.len() + 1];
        for end in 1..=times.len() {
            let fits = |begin: &usize| times[end - 1] - times[*begin] <= within;
            best[end] = (0..end).filter(fits).map(|begin| best[begin] + 1).min().unwrap_or(usize::MAX);
        }
        best[times.len()]
    }

    fn coalesced(writes: &[Write], unit: u64, within: u64, most: usize) -> Vec<Coalesced> {
        let mut pool = Pool::new(unit, Nanos::new(within), most);
        for (at, volume, first, sectors) in writes {
            pool.write(Time::from_nanos(*at), *volume, *first, first + sectors);
        }
        while pool.oldest(false) {}
        pool.written
    }

    fn writes() -> impl Strategy<Value = Vec<Write>> {
        let one = (0_u64..20, 0_usize..2, 0_u64..300, prop_oneof![1_u64..20, 1_u64..300]);
        prop::collection::vec(one, 1..60).prop_map(|mut writes| {
            writes.sort_by_key(|write| write.0);
            writes
        })
    }

    proptest! {
        #[test]
        fn what_is_left_is_that_of_each_unit_alone(writes in writes(), power in 0_u32..9, within in 0_u64..12) {
            let unit = 1 << power;
            let ours = coalesced(&writes, unit, within, HELD);
            for (volume, (written, partial)) in brute(&writes, unit, within) {
                let expected = Coalesced { unit, written, partial, early: 0 };
                prop_assert_eq!(ours[volume], expected);
            }
        }

        #[test]
        fn no_cache_that_holds_writes_so_long_writes_fewer(
            mut times in prop::collection::vec(0_u64..60, 1..30), within in 0_u64..20,
        ) {
            times.sort_unstable();
            let writes: Vec<Write> = times.iter().map(|at| (*at, 0, 0, 1)).collect();
            let written = coalesced(&writes, 8, within, HELD)[0].written;
            prop_assert_eq!(written, fewest(&times, within) as u64);
        }

        #[test]
        fn a_small_cache_holds_no_more_than_it_can_and_loses_nothing(writes in writes(), most in 1_usize..6) {
            let (small, large) = (coalesced(&writes, 8, 1000, most), coalesced(&writes, 8, 1000, HELD));
            for (small, large) in small.iter().zip(&large) {
                prop_assert!(small.written >= large.written && large.early == 0);
                prop_assert!(small.written - small.early <= most as u64 * 2);
            }
        }
    }

    #[test]
    fn a_write_of_more_than_can_be_held_is_counted_at_once() {
        let coalesced = coalesced(&[(0, 0, 1, u64::MAX / 1024)], 1, 5, 4);
        assert_eq!((coalesced[0].written, coalesced[0].early), (u64::MAX / 1024, u64::MAX / 1024));
    }
}
