//! What requests do to units of a size, for every start of their partition at once.
//!
//! Invariants: each figure is a sum over classes of a function of `a = (s + d) mod u`, where `d` is
//! the start of the partition. The function is constant but on one circular range of `a`, so a class changes
//! the figures of all starts at the two ends of a range, and one pass over the starts adds these up.
//!
//! For a request of `n` sectors with `r = n mod u`, `a` sectors behind a boundary of units of `u` sectors:
//! - it touches `ceil((a + n) / u)` units: `ceil(n / u)`, and one more if `r = 0` and `a > 0`, or `r > 0` and
//!   `a > u - r`. In these cases it straddles: it touches more units than its length needs.
//! - units that it covers in part have to be read and written back: `n < u` one, and two if it straddles;
//!   otherwise one at its head if `a > 0`, and one at its tail if `(a + r) mod u > 0`.
//! - it is aligned if `a = 0` and `r = 0`; it begins inside a unit if `a > 0`, and ends inside one if
//!   `(a + r) mod u > 0`.

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
    /// Requests that begin inside a unit, and so leave its head as it was.
    pub heads: u64,
    /// Requests that end inside a unit, and so leave its tail as it was.
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
    /// Returns the sectors that are written in whole units for each sector of a request: the write
    /// amplification, if nothing is merged. `None` if there are no requests.
    pub fn amplification(&self) -> Option<f64> {
        #[allow(clippy::cast_precision_loss, reason = "a figure to print")]
        let ratio = (self.touched * u128::from(self.unit)) as f64 / self.sectors as f64;
        (self.sectors > 0).then_some(ratio)
    }

    /// Adds the figures of other requests on units of the same size.
    #[must_use]
    pub const fn plus(self, other: Self) -> Self {
        Self {
            requests: self.requests + other.requests,
            misaligned: self.misaligned + other.misaligned,
            straddling: self.straddling + other.straddling,
            heads: self.heads + other.heads,
            tails: self.tails + other.tails,
            partial: self.partial + other.partial,
            touched: self.touched + other.touched,
            sectors: self.sectors + other.sectors,
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

    /// Returns the start, in sectors modulo the unit, with the fewest partial units; of several, the one with
    /// the fewest touched units, then the first.
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
    /// Returns what the requests do to units of `unit` sectors, from each start of their partition. `None` if
    /// the size is not one of [`UNITS`].
    pub fn effects(&self, unit: u64) -> Option<Effects> {
        UNITS.contains(&unit).then(|| {
            let mut sums = Sums::new(unit);
            for (class, count) in self.unordered() {
                sums.add(class, count);
            }
            sums.finish()
        })
    }
}

/// Returns what the requests of one class do to units of `unit` sectors, from a start at sector `start`.
pub(crate) fn of_class(class: Class, count: Count, unit: u64, start: u64) -> Effect {
    let (unit, n) = (unit.clamp(1, MIB), u64::from(class.length));
    let a = (u64::from(class.first) + start % unit) % unit;
    let (touched, needed) = ((a + n).div_ceil(unit), n.div_ceil(unit));
    let tail = !(a + n).is_multiple_of(unit);
    let partial = if touched == 1 { u64::from(n < unit) } else { u64::from(a > 0) + u64::from(tail) };
    let requests = count.requests;
    Effect {
        requests,
        misaligned: requests * u64::from(a > 0 || tail),
        straddling: requests * u64::from(touched > needed),
        heads: requests * u64::from(a > 0),
        tails: requests * u64::from(tail),
        partial: requests * partial,
        touched: u128::from(touched) * u128::from(requests)
            + u128::from(count.beyond) * u128::from(MIB / unit),
        sectors: count.sectors(class),
        unit,
    }
}

/// Sums over classes, as differences from one start to the next.
struct Sums {
    unit: u64,
    /// The figures that do not depend on the start.
    always: Effect,
    /// Changes of a count of requests from the start before, one more than there are starts.
    straddling: Vec<i128>,
    misaligned: Vec<i128>,
    heads: Vec<i128>,
    tails: Vec<i128>,
    partial: Vec<i128>,
}

impl Sums {
    fn new(unit: u64) -> Self {
        let starts = usize::try_from(unit).unwrap_or(0);
        let zeros = || vec![0; starts + 1];
        let always = Effect { unit, ..Effect::default() };
        Self {
            unit,
            always,
            straddling: zeros(),
            misaligned: zeros(),
            heads: zeros(),
            tails: zeros(),
            partial: zeros(),
        }
    }

    fn add(&mut self, class: Class, count: Count) {
        let (u, s, n) = (self.unit, u64::from(class.first), u64::from(class.length));
        let (r, requests) = (n % u, count.requests);
        self.always.requests += requests;
        self.always.sectors += count.sectors(class);
        self.always.touched +=
            u128::from(n.div_ceil(u)) * u128::from(requests) + u128::from(count.beyond) * u128::from(MIB / u);
        // The ranges of `a` in which it straddles, and in which it does not.
        let beyond = if r == 0 { 1 } else { u - r + 1 };
        let more = i128::from(requests);
        let shift = |a: u64| (a + u - s % u) % u;
        add(&mut self.straddling, shift(beyond), u - beyond, more);
        if r == 0 {
            add(&mut self.misaligned, shift(1), u - 1, more);
        } else {
            add(&mut self.misaligned, 0, u, more);
        }
        add(&mut self.heads, shift(1), u - 1, more);
        add(&mut self.tails, shift((u - r) % u + 1), u - 1, more);
        if n < u {
            add(&mut self.partial, 0, u, more);
            add(&mut self.partial, shift(beyond), u - beyond, more);
        } else {
            add(&mut self.partial, 0, u, 2 * more);
            add(&mut self.partial, shift(0), 1, -more);
            add(&mut self.partial, shift((u - r) % u), 1, -more);
        }
    }

    fn finish(self) -> Effects {
        let sums = |changes: Vec<i128>| {
            let mut sum = 0;
            changes.into_iter().map(move |change| {
                sum += change;
                u64::try_from(sum).unwrap_or(0)
            })
        };
        let ends = sums(self.heads).zip(sums(self.tails));
        let starts = sums(self.straddling).zip(sums(self.misaligned)).zip(sums(self.partial)).zip(ends);
        let effects = starts.map(|(((straddling, misaligned), partial), (heads, tails))| Effect {
            misaligned,
            straddling,
            heads,
            tails,
            partial,
            touched: self.always.touched + u128::from(straddling),
            ..self.always
        });
        Effects(effects.take(usize::try_from(self.unit).unwrap_or(0)).collect())
    }
}

/// Adds `value` to `len` places from `first`, on a circle of which `changes` has one place more.
fn add(changes: &mut [i128], first: u64, len: u64, value: i128) {
    let circle = (changes.len() as u64).saturating_sub(1);
    let end = first + len;
    let mut change = |place: u64, by: i128| {
        let place = usize::try_from(place).ok().and_then(|place| changes.get_mut(place));
        if let Some(place) = place {
            *place += by;
        }
    };
    change(first, value);
    change(end.min(circle), -value);
    if end > circle {
        change(0, value);
        change(end - circle, -value);
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
        let mut histogram = Histogram::new();
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
                let mut histogram = Histogram::new();
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
                let mut histogram = Histogram::new();
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
        let mut histogram = Histogram::new();
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
        let mut histogram = Histogram::new();
        assert!(histogram.add(100, 512));
        assert!(histogram.add(0, 0));
        assert!(!histogram.add(u64::MAX, 2));
        assert_eq!((histogram.requests(), histogram.sectors(), histogram.inexact()), (1, 2, 1));
    }
}
