//! Runs the same workload at one offset after another, and compares the results.

use schemars::JsonSchema;
use serde::Serialize;

use crate::bench::interval::{Interval, centre, median};
use crate::bench::medium::WarmUp;
use crate::bench::run::{Host, Progress, RunError, Silent, run};
use crate::bench::samples::{Samples, float};
use crate::bench::target::Target;
use crate::bench::workload::Workload;

/// Arms whose ratio is closer to 1 than this are equal, even without spread: no published figure is more
/// exact.
const EQUAL: f64 = 0.01;

/// The number of standard errors by which two arms may differ by chance, when the best and the worst of many
/// are picked.
const STANDARD_ERRORS: f64 = 3.0;

/// The significance level of the 95 % interval. It is lower, because rounds continue until the interval is
/// narrow, which favours intervals that are narrow by chance; by tests on targets with a known ratio.
const DOUBT: f64 = 0.045;

/// The significance level at which a difference is claimed. It is smaller still, because stopping as soon as
/// a difference shows finds differences too often.
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
    /// The logarithm of its seconds per request in each turn, with two turns per round. Empty if it was run
    /// once.
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
    /// The time per request relative to the best offset.
    #[serde(rename = "ratio")]
    pub value: f64,
    /// Its 95 % interval; absent if it is not known.
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
        // C. Bonferroni's correction for the number of pairs, because the best and the worst of many arms are
        // picked. A drift moves a round's two turns in opposite directions, so the turns are symmetric even
        // without averaging, and there are twice as many of them.
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

    /// Returns the smallest difference from the fastest arm, as a fraction, that each other arm would have
    /// shown; `None` if too few samples were taken to know.
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

/// Runs `workload` at each of `offsets` (in logical sectors), each on a new target from `fresh`.
pub fn sweep<T: Target>(
    fresh: impl FnMut() -> T,
    workload: &Workload,
    offsets: &[u64],
    host: Host,
    progress: &mut dyn Progress,
) -> Result<Sweep, RunError> {
    warm_sweep(fresh, workload, offsets, host, WarmUp::Runs(0), progress)
}

/// Runs [`sweep`] with a warm-up on the same target before each run, which does not count.
pub fn warm_sweep<T: Target>(
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
