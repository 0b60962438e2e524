//! The same workload at one offset after the other, and what the difference is.

use crate::interval::{Interval, centre, median};
use crate::run::{Host, Progress, RunError, run};
use crate::samples::{Samples, float};
use crate::target::Target;
use crate::workload::Workload;

/// Arms closer than this are called equal even where the spread is nought: no published figure is more exact.
pub const EQUAL: f64 = 0.01;

/// So many standard errors may two arms be apart by chance, the best and the worst of many being picked.
const STANDARD_ERRORS: f64 = 3.0;

/// The doubt that an interval of 95 % is computed with. Rounds go on until the interval is narrow, which prefers those that
/// are so by chance; what that takes away is put back here, as the tests measure on targets with a known ratio.
const DOUBT: f64 = 0.045;

/// The doubt with which a difference is claimed; smaller, because whoever stops when a difference shows sees more of them.
const CLAIM: f64 = 0.030;

/// One arm of a sweep.
#[derive(Clone, Debug)]
pub struct Arm {
    /// Its offset in logical sectors.
    pub offset: u64,
    /// The workload as it was run; of several turns, as it was asked for.
    pub workload: Workload,
    /// What was measured, in all turns.
    pub samples: Samples,
    /// The logarithm of its seconds per request in each turn, two of them for each round; empty where it was run once.
    pub turns: Vec<f64>,
}

impl Arm {
    /// Seconds per request, what arms are compared by: of several rounds the median.
    pub fn seconds_per_request(&self) -> f64 {
        if self.turns.is_empty() {
            return self.samples.seconds_per_request();
        }
        let mut rounds = self.rounds();
        rounds.sort_unstable_by(f64::total_cmp);
        median(&rounds).exp()
    }

    /// The mean of the two turns of each round.
    pub fn rounds(&self) -> Vec<f64> {
        self.turns.chunks(2).map(|turns| turns.iter().sum::<f64>() / float(turns.len() as u64)).collect()
    }

    /// Requests a second.
    pub fn iops(&self) -> f64 {
        let seconds = self.seconds_per_request();
        if seconds > 0.0 { 1.0 / seconds } else { 0.0 }
    }

    /// Bytes a second.
    pub fn bytes_per_second(&self) -> f64 {
        self.iops() * float(self.workload.size)
    }
}

/// All arms, in the order of the offsets.
#[derive(Clone, Debug)]
pub struct Sweep {
    /// At least one.
    arms: Vec<Arm>,
    best: usize,
    worst: usize,
}

/// How much longer than another an arm takes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ratio {
    /// Times the other's.
    pub value: f64,
    /// Where it lies with 95 %; `None` where that is not known.
    pub interval: Option<Interval>,
    one: bool,
}

impl Ratio {
    /// Whether it may well be 1, one of all pairs of arms having been picked.
    pub const fn is_one(&self) -> bool {
        self.one
    }

    /// The greater distance from the value to an end of its interval.
    pub fn margin(&self) -> Option<f64> {
        self.interval.map(|interval| interval.relative_margin() * interval.value)
    }

    /// Of the time per request, of two out of `arms` arms.
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

    /// Rounds are paired: what changes from round to round changes both arms.
    fn of_rounds(arm: &Arm, to: &Arm, arms: usize) -> Self {
        let pairs = |one: &[f64], other: &[f64]| -> Vec<f64> {
            one.iter().zip(other).map(|(one, other)| one - other).collect()
        };
        let mut rounds = pairs(&arm.rounds(), &to.rounds());
        let interval = centre(&rounds, DOUBT).map(Interval::exponentials);
        rounds.sort_unstable_by(f64::total_cmp);
        let value = interval.map_or_else(|| median(&rounds).exp(), |interval| interval.value);
        // Of many arms the best and the worst are picked: C. Bonferroni's correction for so many pairs. A drift moves a round's
        // two turns to opposite sides, so that they are symmetric by themselves, and there are twice as many.
        let picked = float((arms * arms.saturating_sub(1) / 2).max(1) as u64);
        let sure = centre(&pairs(&arm.turns, &to.turns), CLAIM / picked).map(Interval::exponentials);
        let holds_one = |interval: Option<Interval>| interval.is_none_or(|interval| interval.holds(1.0));
        let one = (value - 1.0).abs() <= EQUAL || holds_one(interval) || holds_one(sure);
        Self { value, interval, one }
    }
}

impl Sweep {
    /// These arms; `None` of none.
    pub fn new(arms: Vec<Arm>) -> Option<Self> {
        let time = |index: &usize| arms[*index].seconds_per_request();
        let order = |one: &usize, other: &usize| time(one).total_cmp(&time(other));
        let best = (0..arms.len()).min_by(order)?;
        // The first of equals, as with the best.
        let worst = (0..arms.len()).min_by(|one, other| order(other, one))?;
        Some(Self { arms, best, worst })
    }

    /// All arms, in the order of the offsets given.
    pub fn arms(&self) -> &[Arm] {
        &self.arms
    }

    /// The arms back again.
    pub(crate) fn into_arms(self) -> Vec<Arm> {
        self.arms
    }

    /// The cheapest.
    pub fn best(&self) -> &Arm {
        &self.arms[self.best]
    }

    /// The most expensive.
    pub fn worst(&self) -> &Arm {
        &self.arms[self.worst]
    }

    /// An arm's time over the cheapest one's.
    pub fn ratio(&self, arm: &Arm) -> Ratio {
        Ratio::of(arm, self.best(), self.arms.len())
    }

    /// The worst one's.
    pub fn worst_ratio(&self) -> Ratio {
        self.ratio(self.worst())
    }

    /// Whether all arms but the cheapest are as expensive as the worst, as far as can be told.
    pub fn others_alike(&self) -> bool {
        let worst = |arm: &Arm| Ratio::of(arm, self.worst(), self.arms.len());
        self.arms.iter().all(|arm| self.ratio(arm).is_one() || worst(arm).is_one())
    }

    /// Whether the offset matters at all.
    pub fn differs(&self) -> bool {
        !self.worst_ratio().is_one()
    }

    /// The offsets that are as cheap as the cheapest, as far as can be told.
    pub fn cheapest(&self) -> Vec<u64> {
        self.arms.iter().filter(|arm| self.ratio(arm).is_one()).map(|arm| arm.offset).collect()
    }

    /// Whether every ratio is known to `precision`, as a share of it.
    pub fn is_known_to(&self, precision: f64) -> bool {
        let margin =
            |arm: &Arm| self.ratio(arm).interval.map_or(f64::INFINITY, |interval| interval.relative_margin());
        self.arms.iter().enumerate().all(|(index, arm)| index == self.best || margin(arm) <= precision)
    }
}

/// Runs `workload` at each of `offsets` (logical sectors), each on a target fresh from `fresh`.
pub fn sweep<T: Target>(
    mut fresh: impl FnMut() -> T,
    workload: &Workload,
    offsets: &[u64],
    host: Host,
    progress: &mut dyn Progress,
) -> Result<Sweep, RunError> {
    let mut arms = Vec::with_capacity(offsets.len());
    for (index, &offset) in offsets.iter().enumerate() {
        let mut target = fresh();
        let bytes = offset.checked_mul(target.logical_sector()).ok_or(RunError::Offset { offset })?;
        let workload = workload.at(bytes);
        let mut part = Part { whole: progress, index, of: offsets.len() };
        let samples = run(&mut target, &workload, host, &mut part)?;
        arms.push(Arm { offset, workload, samples, turns: Vec::new() });
    }
    Sweep::new(arms).ok_or(RunError::NoOffsets)
}

/// One arm's progress as a part of the whole.
struct Part<'a> {
    whole: &'a mut dyn Progress,
    index: usize,
    of: usize,
}

impl Progress for Part<'_> {
    fn advance(&mut self, share: f64) {
        let float = |number: usize| crate::samples::float(number as u64);
        self.whole.advance((float(self.index) + share) / float(self.of));
    }
}
