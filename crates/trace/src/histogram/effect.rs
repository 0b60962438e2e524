//! What requests do to units of a size, for every start of their partition at once.
//!
//! Each figure is a sum over classes of a function of `a = (first + start) mod u`. That of a class of `n` sectors,
//! with `r = n mod u`, changes only at `a` = 0, 1, `u - r` and `u - r + 1`: one pass over the starts adds these
//! changes up.

use super::{Class, Count, Histogram, MIB};

/// The sizes of units in sectors, from 512 bytes to 1 MiB.
pub const UNITS: [u64; 12] = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048];

/// What requests do to units of one size, from one start of their partition.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Effect {
    /// Requests.
    pub requests: u64,
    /// Requests that do not begin and end on boundaries of units.
    pub misaligned: u64,
    /// Requests that touch a unit more than their length needs.
    pub straddling: u64,
    /// Requests that begin inside a unit.
    pub heads: u64,
    /// Requests that end inside a unit.
    pub tails: u64,
    /// Units that a request covers in part: each write of one is a read-modify-write.
    pub partial: u64,
    /// Units that requests touch, each counted once for each request.
    pub touched: u128,
    /// The sectors of the requests.
    pub sectors: u128,
    /// The size of a unit in sectors.
    pub unit: u64,
}

impl Effect {
    /// Returns the sectors written in whole units for each sector of a request: the write amplification, if nothing
    /// is merged.
    pub fn amplification(&self) -> Option<f64> {
        #[allow(clippy::cast_precision_loss, reason = "a figure to print")]
        let ratio = (self.touched * u128::from(self.unit)) as f64 / self.sectors as f64;
        (self.sectors > 0).then_some(ratio)
    }

    /// Adds the figures of other requests on units of the same size.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        self.each(other, u64::wrapping_add, u128::wrapping_add)
    }

    fn each(self, other: Self, narrow: fn(u64, u64) -> u64, wide: fn(u128, u128) -> u128) -> Self {
        Self {
            requests: narrow(self.requests, other.requests),
            misaligned: narrow(self.misaligned, other.misaligned),
            straddling: narrow(self.straddling, other.straddling),
            heads: narrow(self.heads, other.heads),
            tails: narrow(self.tails, other.tails),
            partial: narrow(self.partial, other.partial),
            touched: wide(self.touched, other.touched),
            sectors: wide(self.sectors, other.sectors),
            unit: self.unit,
        }
    }
}

/// What requests do to units of one size, from each start of their partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Effects(Vec<Effect>);

impl Effects {
    /// Returns the effect for a partition that starts at this sector.
    pub fn started_at(&self, sector: u64) -> Effect {
        let index = sector.checked_rem(self.0.len() as u64).and_then(|rest| usize::try_from(rest).ok());
        index.and_then(|index| self.0.get(index)).copied().unwrap_or_default()
    }

    /// Returns the start, in sectors modulo the unit, with the fewest partial, then touched units; the first.
    pub fn best(&self) -> (u64, Effect) {
        let ranked = (0..).zip(&self.0).min_by_key(|(_, effect)| (effect.partial, effect.touched));
        ranked.map_or((0, Effect::default()), |(start, effect)| (start, *effect))
    }

    /// Returns the effects of each start in sectors, from 0 up to the size of a unit.
    pub fn all(&self) -> &[Effect] {
        &self.0
    }
}

impl Histogram {
    /// Returns what the requests do to units of `unit` sectors, one of [`UNITS`], from each start.
    pub fn effects(&self, unit: u64) -> Option<Effects> {
        let starts = usize::try_from(unit).ok().filter(|_| UNITS.contains(&unit))?;
        // Differences from the start before, which wrap around where a figure falls.
        let mut effects = vec![Effect { unit, ..Effect::default() }; starts];
        for (class, count) in self.unordered() {
            let (over, first) = (u64::from(class.length) % unit, u64::from(class.first) % unit);
            let mut changes = [0, 1, unit - over, unit - over + 1].map(|a| (a + unit - first) % unit);
            changes.sort_unstable();
            let mut before = Effect::default();
            for start in [0].into_iter().chain(changes) {
                let effect = of_class(class, count, unit, start);
                if let Some(change) = usize::try_from(start).ok().and_then(|start| effects.get_mut(start)) {
                    *change = change.plus(effect.each(before, u64::wrapping_sub, u128::wrapping_sub));
                }
                before = effect;
            }
        }
        let mut sum = Effect { unit, ..Effect::default() };
        for effect in &mut effects {
            sum = sum.plus(*effect);
            *effect = sum;
        }
        Some(Effects(effects))
    }
}

/// Returns what the requests of one class do to units of `unit` sectors, from a start at sector `start`.
pub(crate) fn of_class(class: Class, count: Count, unit: u64, start: u64) -> Effect {
    let (unit, n) = (unit.clamp(1, MIB), u64::from(class.length));
    let a = (u64::from(class.first) + start % unit) % unit;
    let touched = (a + n).div_ceil(unit);
    let (head, tail) = (a > 0, !(a + n).is_multiple_of(unit));
    let partial = if touched == 1 { u64::from(n < unit) } else { u64::from(head) + u64::from(tail) };
    let requests = count.requests;
    Effect {
        requests,
        misaligned: requests * u64::from(head || tail),
        straddling: requests * u64::from(touched > n.div_ceil(unit)),
        heads: requests * u64::from(head),
        tails: requests * u64::from(tail),
        partial: requests * partial,
        touched: u128::from(touched) * u128::from(requests)
            + u128::from(count.beyond) * u128::from(MIB / unit),
        sectors: count.sectors(class),
        unit,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::SECTOR;
    use super::*;

    /// What one request does, unit by unit.
    fn brute(first: u64, sectors: u64, unit: u64) -> Effect {
        let end = first + sectors;
        let (mut touched, mut partial) = (0, 0);
        let mut at = first / unit * unit;
        while at < end {
            touched += 1;
            partial += u64::from(at < first || at + unit > end);
            at += unit;
        }
        Effect {
            requests: 1,
            misaligned: u64::from(!first.is_multiple_of(unit) || !end.is_multiple_of(unit)),
            straddling: u64::from(touched > u128::from(sectors.div_ceil(unit))),
            heads: u64::from(!first.is_multiple_of(unit)),
            tails: u64::from(!end.is_multiple_of(unit)),
            partial,
            touched,
            sectors: u128::from(sectors),
            unit,
        }
    }

    fn agrees(requests: &[(u64, u64)], starts: &[u64]) {
        let mut histogram = Histogram::default();
        for (first, sectors) in requests {
            assert!(histogram.add(first * SECTOR, sectors * SECTOR));
        }
        for unit in UNITS {
            let effects = histogram.effects(unit).unwrap();
            for start in starts {
                let of = |(first, sectors): &(u64, u64)| brute(first + start, *sectors, unit);
                let zero = Effect { unit, ..Effect::default() };
                let sum = requests.iter().map(of).fold(zero, Effect::plus);
                assert_eq!(effects.started_at(*start), sum, "unit {unit}, start {start}");
                let classes = histogram.classes().map(|(class, count)| of_class(class, count, unit, *start));
                assert_eq!(classes.fold(zero, Effect::plus), sum, "unit {unit}, start {start}, by class");
            }
        }
    }

    #[test]
    fn every_start_of_every_short_request_is_that_of_counting_units() {
        for unit in [1, 2, 4, 8, 16] {
            for (first, sectors) in (0..20).flat_map(|first| (1..50).map(move |sectors| (first, sectors))) {
                let mut histogram = Histogram::default();
                histogram.add(first * SECTOR, sectors * SECTOR);
                let effects = histogram.effects(unit).unwrap();
                for start in 0..unit {
                    assert_eq!(effects.started_at(start), brute(first + start, sectors, unit));
                }
            }
        }
    }

    fn sectors() -> impl Strategy<Value = u64> {
        prop_oneof![1_u64..64, (0_u32..13).prop_map(|power| 1 << power), 1_u64..9000, Just(2047), Just(6144)]
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(200))]

        #[test]
        fn the_figures_of_any_trace_are_those_of_its_requests(
            requests in prop::collection::vec((0_u64..1 << 40, sectors()), 1..60),
            starts in prop::collection::vec(0_u64..1 << 34, 1..5),
        ) {
            agrees(&requests, &starts);
        }

        #[test]
        fn parts_add_up_to_the_whole_in_any_order(
            requests in prop::collection::vec((0_u64..1 << 40, sectors()), 1..60),
            split in 0_usize..60,
        ) {
            let (before, after) = requests.split_at(split.min(requests.len()));
            let of = |part: &[(u64, u64)]| {
                let mut histogram = Histogram::default();
                for (first, sectors) in part {
                    histogram.add(first * SECTOR, sectors * SECTOR);
                }
                histogram
            };
            let (mut one, mut other) = (of(before), of(after));
            let whole = of(&requests);
            one.merge(&of(after));
            other.merge(&of(before));
            prop_assert_eq!(&one, &whole);
            prop_assert_eq!(&other, &whole);
        }
    }

    #[test]
    fn the_best_start_puts_an_xp_partition_right() {
        let mut histogram = Histogram::default();
        for block in 0..1000 {
            histogram.add((63 + block * 8) * SECTOR, 8 * SECTOR);
        }
        let effects = histogram.effects(8).unwrap();
        assert_eq!(effects.started_at(0).partial, 2000);
        let (start, best) = effects.best();
        assert_eq!((start, best.partial, best.misaligned), (1, 0, 0));
        assert_eq!(best.amplification(), Some(1.0));
        assert_eq!(effects.started_at(0).amplification(), Some(2.0));
    }

    #[test]
    fn requests_off_sectors_count_for_the_sectors_they_touch() {
        let mut histogram = Histogram::default();
        assert!(histogram.add(100, 512));
        assert!(histogram.add(0, 0));
        assert!(!histogram.add(u64::MAX, 2));
        assert_eq!((histogram.requests(), histogram.sectors(), histogram.inexact()), (1, 2, 1));
    }
}
