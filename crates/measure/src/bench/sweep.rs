//! Runs the same workload at one offset after another, and compares two arms by paired rounds.
//!
//! The times of a disk are skewed, have outliers of a hundred times the median, and drift, so no distribution
//! is assumed. The estimate is the median of all pairwise means of the differences of logarithms (J. L.
//! Hodges and E. L. Lehmann, 1963); the interval contains every difference that Wilcoxon's signed-rank test
//! would not reject. Its coverage is exact for any symmetric distribution, from six rounds on.

use schemars::JsonSchema;
use serde::Serialize;

use crate::bench::medium::WarmUp;
use crate::bench::run::{Host, Progress, RunError, Samples, Silent, float, run};
use crate::bench::target::Target;
use crate::bench::workload::Workload;

/// Arms whose ratio is closer to 1 are equal, even without spread: no published figure is more exact.
const EQUAL: f64 = 0.01;

/// The standard errors by which two arms may differ by chance, when the best and the worst of many are picked.
const STANDARD_ERRORS: f64 = 3.0;

/// The significance level of the 95 % interval, by tests on targets with a known ratio. It is lower, because rounds
/// continue until the interval is narrow, which favours intervals that are narrow by chance.
const DOUBT: f64 = 0.045;

/// The significance level of a claim, smaller still: stopping once a difference shows finds differences too often.
const CLAIM: f64 = 0.030;

/// One arm of a sweep.
#[derive(Clone, Debug)]
pub struct Arm {
    /// Its offset, in logical sectors.
    pub offset: u64,
    /// The workload as it was run; for several turns, as it was requested.
    pub workload: Workload,
    /// The measurements of all turns.
    pub samples: Samples,
    /// The logarithm of its seconds per request in each turn, two per round. Empty if it was run once.
    pub turns: Vec<f64>,
}

impl Arm {
    /// Returns the seconds per request by which arms are compared: the median if there are several rounds.
    pub fn seconds_per_request(&self) -> f64 {
        median(&self.rounds()).map_or_else(|| self.samples.seconds_per_request(), f64::exp)
    }

    /// Returns the mean of the two turns of each round.
    pub fn rounds(&self) -> Vec<f64> {
        self.turns.chunks(2).map(|turns| turns.iter().sum::<f64>() / float(turns.len() as u64)).collect()
    }

    /// Returns the requests per second.
    pub fn iops(&self) -> f64 {
        let seconds = self.seconds_per_request();
        if seconds > 0.0 { 1.0 / seconds } else { 0.0 }
    }

    /// Returns the bytes per second.
    pub fn bytes_per_second(&self) -> f64 {
        self.iops() * float(self.workload.size)
    }
}

/// All arms, in order of their offsets.
#[derive(Clone, Debug)]
pub struct Sweep {
    /// At least one arm.
    arms: Vec<Arm>,
    best: usize,
    worst: usize,
}

/// The time per request of an arm relative to another's.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Ratio {
    /// The time per request relative to that at the best offset.
    #[serde(rename = "ratio")]
    pub value: f64,
    /// Its 95 % interval; absent if unknown.
    #[serde(flatten)]
    pub interval: Option<Interval>,
    /// Whether it may be 1, given that it was picked from all pairs of arms.
    #[serde(skip)]
    one: bool,
}

impl Ratio {
    /// Whether it may be 1.
    pub const fn is_one(&self) -> bool {
        self.one
    }

    /// Returns the larger distance from the value to an end of its interval.
    pub fn margin(&self) -> Option<f64> {
        self.interval.map(|interval| interval.relative_margin() * interval.value)
    }

    fn of(arm: &Arm, to: &Arm, arms: usize) -> Self {
        if arm.turns.len().min(to.turns.len()) > 0 {
            return Self::of_rounds(arm, to, arms);
        }
        let base = to.samples.seconds_per_request();
        let value = if base > 0.0 { arm.samples.seconds_per_request() / base } else { 1.0 };
        let errors = arm.samples.relative_error.zip(to.samples.relative_error);
        let error = errors.map(|(one, other)| value * one.hypot(other));
        let interval = error.map(|error| 1.96 * error).map(|margin| Interval {
            value,
            low: value - margin,
            high: value + margin,
        });
        let one = (value - 1.0).abs() <= EQUAL.max(STANDARD_ERRORS * error.unwrap_or(0.0));
        Self { value, interval, one }
    }

    /// Compares the arms within rounds, because what changes from round to round changes both of them.
    fn of_rounds(arm: &Arm, to: &Arm, arms: usize) -> Self {
        let pairs = |one: &[f64], other: &[f64]| -> Vec<f64> {
            one.iter().zip(other).map(|(one, other)| one - other).collect()
        };
        let rounds = pairs(&arm.rounds(), &to.rounds());
        let interval = centre(&rounds, DOUBT).map(Interval::exponentials);
        let value = interval.map(|interval| interval.value).or(median(&rounds).map(f64::exp)).unwrap_or(1.0);
        // C. Bonferroni's correction, because the best and the worst of many arms are picked. A drift moves a round's
        // two turns in opposite directions, so the turns are symmetric without averaging, and there are twice as many
        // of them.
        let picked = float((arms * arms.saturating_sub(1) / 2).max(1) as u64);
        let sure = centre(&pairs(&arm.turns, &to.turns), CLAIM / picked).map(Interval::exponentials);
        let holds_one = |interval: Option<Interval>| interval.is_none_or(|interval| interval.holds(1.0));
        let one = (value - 1.0).abs() <= EQUAL || holds_one(interval) || holds_one(sure);
        Self { value, interval, one }
    }
}

impl Sweep {
    /// Creates a sweep of these arms; `None` without arms.
    pub fn new(arms: Vec<Arm>) -> Option<Self> {
        let time = |index: &usize| arms[*index].seconds_per_request();
        let order = |one: &usize, other: &usize| time(one).total_cmp(&time(other));
        let best = (0..arms.len()).min_by(order)?;
        // The first one of equals, as for the best.
        let worst = (0..arms.len()).min_by(|one, other| order(other, one))?;
        Some(Self { arms, best, worst })
    }

    /// Returns all arms, in the order of the offsets given.
    pub fn arms(&self) -> &[Arm] {
        &self.arms
    }

    pub(crate) fn into_arms(self) -> Vec<Arm> {
        self.arms
    }

    /// Returns the fastest arm.
    pub fn best(&self) -> &Arm {
        &self.arms[self.best]
    }

    /// Returns the slowest arm.
    pub fn worst(&self) -> &Arm {
        &self.arms[self.worst]
    }

    /// Returns an arm's time relative to the fastest one's.
    pub fn ratio(&self, arm: &Arm) -> Ratio {
        Ratio::of(arm, self.best(), self.arms.len())
    }

    /// Returns the slowest arm's time relative to the fastest one's.
    pub fn worst_ratio(&self) -> Ratio {
        self.ratio(self.worst())
    }

    /// Whether all arms but the fastest are as slow as the slowest, as far as the data show.
    pub fn others_alike(&self) -> bool {
        let worst = |arm: &Arm| Ratio::of(arm, self.worst(), self.arms.len());
        self.arms.iter().all(|arm| self.ratio(arm).is_one() || worst(arm).is_one())
    }

    /// Whether the offset makes a difference.
    pub fn differs(&self) -> bool {
        !self.worst_ratio().is_one()
    }

    /// Returns the smallest difference from the fastest arm, as a fraction, that each other arm would have shown;
    /// `None` with too few samples.
    pub fn detectable(&self) -> Option<f64> {
        let of = |arm: &Arm| {
            let ratio = self.ratio(arm);
            let interval = ratio.interval.filter(|interval| interval.high > ratio.value);
            match interval {
                None if (ratio.value - 1.0).abs() <= EQUAL => Some(0.0),
                interval => interval.map(|interval| (interval.high - ratio.value) / 1.96 * STANDARD_ERRORS),
            }
        };
        let others = self.arms.iter().enumerate().filter(|(index, _)| *index != self.best);
        others.map(|(_, arm)| of(arm)).try_fold(0.0, |most, of| Some(f64::max(most, of?)))
    }

    /// Returns the offsets that are as fast as the fastest, as far as the data show.
    pub fn cheapest(&self) -> Vec<u64> {
        self.arms.iter().filter(|arm| self.ratio(arm).is_one()).map(|arm| arm.offset).collect()
    }

    /// Whether every ratio is known to `precision`, as a fraction of it.
    pub fn is_known_to(&self, precision: f64) -> bool {
        let margin =
            |arm: &Arm| self.ratio(arm).interval.map_or(f64::INFINITY, |interval| interval.relative_margin());
        self.arms.iter().enumerate().all(|(index, arm)| index == self.best || margin(arm) <= precision)
    }
}

/// Runs `workload` at each of `offsets` (in logical sectors), each on a new target from `fresh` and after a warm-up.
pub fn sweep<T: Target>(
    mut fresh: impl FnMut() -> T,
    workload: &Workload,
    offsets: &[u64],
    host: Host,
    warm_up: WarmUp,
    progress: &mut dyn Progress,
) -> Result<Sweep, RunError> {
    let mut arms = Vec::with_capacity(offsets.len());
    for (index, &offset) in offsets.iter().enumerate() {
        let mut target = fresh();
        let bytes = offset.checked_mul(target.logical_sector()).ok_or(RunError::Offset { offset })?;
        let workload = workload.at(bytes);
        for warming in warm_up.runs(&workload, target.capacity().get(), target.logical_sector()) {
            run(&mut target, &warming, host, &mut Silent)?;
        }
        let mut part = Part { whole: progress, index, of: offsets.len() };
        let samples = run(&mut target, &workload, host, &mut part)?;
        arms.push(Arm { offset, workload, samples, turns: Vec::new() });
    }
    Sweep::new(arms).ok_or(RunError::NoOffsets)
}

struct Part<'a> {
    whole: &'a mut dyn Progress,
    index: usize,
    of: usize,
}

impl Progress for Part<'_> {
    fn advance(&mut self, share: f64) {
        self.whole.advance((float(self.index as u64) + share) / float(self.of as u64));
    }
}

/// An estimate with its interval.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Interval {
    /// The best estimate.
    #[serde(skip)]
    pub value: f64,
    /// The lower end of the 95 % confidence interval of `ratio`.
    #[serde(rename = "ratio_low")]
    pub low: f64,
    /// The upper end of the 95 % confidence interval of `ratio`.
    #[serde(rename = "ratio_high")]
    pub high: f64,
}

impl Interval {
    /// Whether `value` is in the interval.
    pub fn holds(&self, value: f64) -> bool {
        (self.low..=self.high).contains(&value)
    }

    /// Returns the exponentials, which turn differences of logarithms into ratios.
    #[must_use]
    pub fn exponentials(self) -> Self {
        Self { value: self.value.exp(), low: self.low.exp(), high: self.high.exp() }
    }

    /// Returns the larger distance from the value to an end of the interval, as a fraction of the value.
    pub fn relative_margin(&self) -> f64 {
        ((self.high - self.value).max(self.value - self.low) / self.value).abs()
    }
}

/// Above this, the normal distribution replaces the exact one, from which it differs in the fourth digit.
const EXACT: usize = 64;

/// Returns the centre of `differences`, and the interval that contains it with a probability of 1 - `alpha`; `None`
/// if there are too few.
pub fn centre(differences: &[f64], alpha: f64) -> Option<Interval> {
    let rank = critical(differences.len(), alpha)?;
    let mut means = Vec::with_capacity(differences.len() * (differences.len() + 1) / 2);
    for (index, one) in differences.iter().enumerate() {
        means.extend(differences[index..].iter().map(|other| f64::midpoint(*one, *other)));
    }
    means.sort_unstable_by(f64::total_cmp);
    let last = means.len() - 1;
    Some(Interval { value: median_of_sorted(&means)?, low: means[rank], high: means[last - rank] })
}

/// Returns the median, or `None` without values.
pub fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    median_of_sorted(&sorted)
}

fn median_of_sorted(sorted: &[f64]) -> Option<f64> {
    let low = sorted.get(sorted.len().checked_sub(1)? / 2)?;
    Some(f64::midpoint(*low, *sorted.get(sorted.len() / 2)?))
}

/// Returns the index of the pairwise mean at which the interval begins: the greatest number c for which the sum of
/// the positive ranks is below c with a probability of at most `alpha` / 2, less one.
fn critical(count: usize, alpha: f64) -> Option<usize> {
    if count == 0 || alpha.is_nan() || alpha <= 0.0 {
        return None;
    }
    let below = if count <= EXACT { exact(count, alpha / 2.0) } else { approximate(count, alpha / 2.0) };
    below.checked_sub(1)
}

/// The greatest c with P(T < c) ≤ `tail`; T is the sum of the positive ranks of differences with random signs.
fn exact(count: usize, tail: f64) -> usize {
    let mut ways = vec![0.0_f64; count * (count + 1) / 2 + 1];
    ways[0] = 1.0;
    let mut highest = 0;
    for rank in 1..=count {
        highest += rank;
        for sum in (rank..=highest).rev() {
            ways[sum] += ways[sum - rank];
        }
        // Probabilities rather than counts, which would exceed what a float can hold exactly.
        ways.iter_mut().for_each(|way| *way /= 2.0);
    }
    let mut below = 0.0;
    ways.iter()
        .take_while(|way| {
            below += **way;
            below <= tail
        })
        .count()
}

fn approximate(count: usize, tail: f64) -> usize {
    let number = crate::bench::run::float(count as u64);
    let mean = number * (number + 1.0) / 4.0;
    let deviation = (number * (number + 1.0) * (2.0 * number + 1.0) / 24.0).sqrt();
    let below = mean - quantile(1.0 - tail) * deviation;
    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "not negative, and below count²"
    )]
    let whole = below.max(0.0) as usize;
    whole
}

/// To 4.5e-4: M. Abramowitz and I. A. Stegun, Handbook of Mathematical Functions, 26.2.23.
fn quantile(share: f64) -> f64 {
    let t = (-2.0 * (1.0 - share).ln()).sqrt();
    let above = 2.515_517 + t * (0.802_853 + t * 0.010_328);
    let below = 1.0 + t * (1.432_788 + t * (0.189_269 + t * 0.001_308));
    t - above / below
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Critical values of the signed-rank test, two-sided 5 %, from tables: T is significant if at most this.
    #[test]
    fn critical_values_are_the_tabulated_ones() {
        for (count, value) in
            [(6, 0), (7, 2), (8, 3), (9, 5), (10, 8), (12, 13), (15, 25), (20, 52), (25, 89), (30, 137)]
        {
            assert_eq!(exact(count, 0.025), value + 1, "{count}");
        }
        for (count, value) in [(8, 0), (10, 3), (20, 37)] {
            assert_eq!(exact(count, 0.005), value + 1, "{count}");
        }
        assert_eq!(critical(5, 0.05), None);
        assert_eq!(critical(6, 0.05), Some(0));
    }

    #[test]
    fn the_approximation_meets_the_exact_distribution() {
        for count in [40, 50, 64] {
            let (exact, approximate) = (exact(count, 0.025), approximate(count, 0.025));
            assert!(exact.abs_diff(approximate) <= 3, "{count}: {exact} {approximate}");
        }
    }

    #[test]
    fn equal_differences_have_no_doubt() {
        let interval = centre(&[0.5; 8], 0.05).unwrap();
        assert_eq!(interval, Interval { value: 0.5, low: 0.5, high: 0.5 });
    }

    #[test]
    fn an_outlier_does_not_move_the_centre() {
        let clean = [0.9, 1.0, 1.1, 0.95, 1.05, 1.0, 0.98, 1.02, 1.0, 1.0, 0.97, 1.03, 0.99, 1.01, 1.0, 0.96];
        let mut dirty = clean;
        dirty[3] = 50.0;
        let (clean, dirty) = (centre(&clean, 0.05).unwrap(), centre(&dirty, 0.05).unwrap());
        assert!((clean.value - dirty.value).abs() < 0.05, "{clean:?} {dirty:?}");
        assert!(dirty.high < 1.2);
    }
}
