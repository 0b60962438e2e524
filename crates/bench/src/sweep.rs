//! The same workload at one offset after the other, and what the difference is.

use crate::run::{Host, Progress, RunError, run};
use crate::samples::Samples;
use crate::target::Target;
use crate::workload::Workload;

/// Arms closer than this are called equal even where the spread is nought: no published figure is more exact.
pub const EQUAL: f64 = 0.01;

/// So many standard errors may two arms be apart by chance, the best and the worst of many being picked.
const STANDARD_ERRORS: f64 = 3.0;

/// One arm of a sweep.
#[derive(Clone, Debug)]
pub struct Arm {
    /// Its offset in logical sectors.
    pub offset: u64,
    /// The workload as it was run.
    pub workload: Workload,
    /// What was measured.
    pub samples: Samples,
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
    /// Its standard error; `None` where one of the two is not known.
    pub error: Option<f64>,
}

impl Ratio {
    /// Whether it may well be 1.
    pub fn is_one(&self) -> bool {
        (self.value - 1.0).abs() <= EQUAL.max(STANDARD_ERRORS * self.error.unwrap_or(0.0))
    }

    /// Half the width of the interval in which it lies with 95 %.
    pub fn margin(&self) -> Option<f64> {
        self.error.map(|error| 1.96 * error)
    }

    /// Of the time per request.
    pub fn of(samples: &Samples, to: &Samples) -> Self {
        let base = to.seconds_per_request();
        let value = if base > 0.0 { samples.seconds_per_request() / base } else { 1.0 };
        let errors = samples.relative_error.zip(to.relative_error);
        Self { value, error: errors.map(|(one, other)| value * one.hypot(other)) }
    }
}

impl Sweep {
    /// These arms; `None` of none.
    pub fn new(arms: Vec<Arm>) -> Option<Self> {
        let time = |index: &usize| arms[*index].samples.seconds_per_request();
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
        Ratio::of(&arm.samples, &self.best().samples)
    }

    /// The worst one's.
    pub fn worst_ratio(&self) -> Ratio {
        self.ratio(self.worst())
    }

    /// Whether all arms but the cheapest are as expensive as the worst, as far as can be told.
    pub fn others_alike(&self) -> bool {
        let alike =
            |arm: &Arm| self.ratio(arm).is_one() || Ratio::of(&arm.samples, &self.worst().samples).is_one();
        self.arms.iter().all(alike)
    }

    /// Whether the offset matters at all.
    pub fn differs(&self) -> bool {
        !self.worst_ratio().is_one()
    }

    /// The offsets that are as cheap as the cheapest, as far as can be told.
    pub fn cheapest(&self) -> Vec<u64> {
        self.arms.iter().filter(|arm| self.ratio(arm).is_one()).map(|arm| arm.offset).collect()
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
        arms.push(Arm { offset, workload, samples });
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
