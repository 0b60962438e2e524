//! Runs the same workload at several offsets in turns, so that anything that changes meanwhile changes all of them.
//!
//! A round gives every arm two turns, first in an order drawn for the round, then in reverse (A B B A), so that a
//! steady drift cancels. All turns of a round are in the same region, but each at places of its own, because what one
//! arm has written is in the drive's cache. Arms are compared within rounds only.

use schemars::JsonSchema;
use serde::Serialize;
use straddle_units::io::{Nanos, SplitMix64, Time};
use straddle_units::{ByteCount, Span};

use crate::bench::run::{Host, Progress, RunError, Samples, Silent, float, run_program};
use crate::bench::sweep::{Arm, Sweep};
use crate::bench::target::{Target, TargetError};
use crate::bench::workload::{Workload, WorkloadError};

/// The fewest rounds after which a ratio counts as known.
pub const FEWEST_ROUNDS: usize = 10;

/// The most rounds; further ones add no information.
const MOST_ROUNDS: usize = 400;

const PILOT: u64 = 4;

const KEPT: u64 = 1 << 16;

/// The distance in bytes between places where a sequence may begin. No relevant boundary is larger.
const GRAIN: u64 = 1 << 20;

/// How to measure in turns.
#[derive(Clone, Debug, PartialEq)]
pub struct Order {
    /// The arms: the distance of each request from its place, in logical sectors.
    pub offsets: Vec<u64>,
    /// The regions of the target that are used. Nothing outside is touched.
    pub regions: Vec<Span>,
    /// The approximate duration of a turn.
    pub turn: Nanos,
    /// The number of requests of a turn; `None` to determine it.
    pub requests: Option<u64>,
    /// The number of rounds that are run first and do not count.
    pub warmup: usize,
    /// No round begins later than this after the warm-up.
    pub limit: Nanos,
    /// The run ends when every ratio is known to this fraction of it.
    pub precision: f64,
    /// The seed for the order of turns and the places.
    pub seed: u64,
}

/// One turn of an arm: a sample. `bench --export` writes it as it is serialised.
#[derive(Clone, Debug, Serialize)]
pub struct Turn {
    /// The number of the round, from 0.
    pub round: usize,
    /// The index of the arm.
    #[serde(skip)]
    pub arm: usize,
    /// Its offset in logical sectors.
    #[serde(rename = "offset_sectors")]
    pub offset: u64,
    /// The index of the region in the order.
    #[serde(skip)]
    pub region: usize,
    /// The byte at which the workload started.
    #[serde(rename = "start_bytes")]
    pub start: u64,
    /// The seed of its places.
    pub seed: u32,
    /// When the turn began, on the target's clock.
    #[serde(rename = "began_ns")]
    pub began: Nanos,
    /// Its duration, including the flush at its end.
    #[serde(rename = "elapsed_ns")]
    pub elapsed: Nanos,
    /// Requests completed.
    pub requests: u64,
    /// The latencies, in order of completion, if there are few enough to keep.
    #[serde(rename = "latencies_ns")]
    pub latencies: Vec<Nanos>,
}

/// Why no further round of turns was started.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Ended {
    /// Every ratio is known to the requested precision.
    Precise,
    /// The time limit or the maximum number of rounds was reached.
    Limit,
    /// The user interrupted the run.
    Interrupted,
}

/// Receives the results of each round.
pub trait Watch: Progress {
    /// Called when a round is complete, with its turns and the results of all rounds so far.
    fn round(&mut self, _turns: &[Turn], _sofar: &Sweep) {}
}

impl Watch for Silent {}

/// The results of all rounds.
#[derive(Clone, Debug)]
pub struct Measured {
    /// The arms and their comparison.
    pub sweep: Sweep,
    /// The number of complete rounds.
    pub rounds: usize,
    /// The number of requests in each turn.
    pub requests: u64,
    /// Why it ended.
    pub ended: Ended,
    /// The seconds per request of the first arm's turns, in order of time, which show drift.
    pub course: Vec<f64>,
}

struct Rounds<'a> {
    target: &'a mut dyn Target,
    workload: &'a Workload,
    host: Host,
    order: &'a Order,
    start: Time,
    random: SplitMix64,
    arms: Vec<Arm>,
    course: Vec<f64>,
}

/// Runs `workload` at every offset of `order` in turns, until the ratios are known or the time is over.
pub fn rounds(
    target: &mut dyn Target,
    workload: &Workload,
    host: Host,
    order: &Order,
    watch: &mut dyn Watch,
) -> Result<Measured, RunError> {
    Rounds::new(target, workload, host, order)?.run(watch)
}

impl<'a> Rounds<'a> {
    fn new(
        target: &'a mut dyn Target,
        workload: &'a Workload,
        host: Host,
        order: &'a Order,
    ) -> Result<Self, RunError> {
        if order.regions.is_empty() {
            let (first, needed, capacity) = (0, u128::from(workload.size), 0);
            return Err(WorkloadError::DoesNotFit { first, needed, capacity }.into());
        }
        let mut arms = Vec::with_capacity(order.offsets.len());
        for &offset in &order.offsets {
            let bytes = offset.checked_mul(target.logical_sector()).ok_or(RunError::Offset { offset })?;
            let (workload, samples) = (workload.at(bytes), Samples::default());
            arms.push(Arm { offset, workload, samples, turns: Vec::new() });
        }
        if arms.is_empty() {
            return Err(RunError::NoOffsets);
        }
        let (start, random) = (target.now(), SplitMix64::new(order.seed));
        Ok(Self { target, workload, host, order, start, random, arms, course: Vec::new() })
    }

    fn run(mut self, watch: &mut dyn Watch) -> Result<Measured, RunError> {
        let mut turns = Vec::new();
        let requests = match self.order.requests {
            Some(requests) => requests,
            None => self.pilot()?,
        };
        self.warm_up(requests, watch)?;
        self.start = self.target.now();
        let mut look = FEWEST_ROUNDS;
        let mut done = 0;
        let ended = loop {
            match self.round(done, requests, &mut turns, watch) {
                Ok(()) => {}
                Err(RunError::Target { source: TargetError::Interrupted, .. }) if done > 0 => {
                    break Ended::Interrupted;
                }
                Err(error) => return Err(error),
            }
            done += 1;
            let sofar = Sweep::new(std::mem::take(&mut self.arms)).ok_or(RunError::NoOffsets)?;
            watch.round(&turns, &sofar);
            // Not after every round: checking too often finds precision by chance.
            let looked = done >= look;
            let precise = looked && sofar.is_known_to(self.order.precision);
            self.arms = sofar.into_arms();
            if precise {
                break Ended::Precise;
            }
            look += if looked { (look / 4).max(1) } else { 0 };
            if self.elapsed() >= self.order.limit || done >= MOST_ROUNDS {
                break Ended::Limit;
            }
        };
        let sweep = Sweep::new(self.arms).ok_or(RunError::NoOffsets)?;
        Ok(Measured { sweep, rounds: done, requests, ended, course: self.course })
    }

    /// Determines how many requests give a turn of the wanted length, or a shorter one that leaves time for enough
    /// rounds, and warms up the target. Takes the median of the arms, because one may have met a stall.
    fn pilot(&mut self) -> Result<u64, RunError> {
        let most = self.most().max(1);
        let turns = float((2 * self.arms.len() * (FEWEST_ROUNDS + FEWEST_ROUNDS / 4)) as u64);
        let wanted = self.order.turn.seconds().min(self.order.limit.seconds() / turns);
        let mut requests = PILOT.min(most);
        loop {
            let mut took = Vec::with_capacity(self.arms.len());
            for arm in 0..self.arms.len() {
                took.push(self.turn(0, arm, 0, requests)?.0.elapsed);
            }
            took.sort_unstable();
            let missing = wanted / took[took.len() / 2].seconds().max(1e-9);
            let late = self.elapsed().seconds() > self.order.limit.seconds() / 2.0;
            if missing < 2.0 || requests >= most || late {
                return Ok(scaled(requests, missing.min(2.0)).clamp(1, most));
            }
            requests = scaled(requests, missing.min(8.0)).clamp(1, most);
        }
    }

    fn warm_up(&mut self, requests: u64, watch: &mut dyn Watch) -> Result<(), RunError> {
        if self.order.warmup > 0 {
            watch.tell("warming up");
        }
        for round in 0..self.order.warmup {
            let region = round % self.order.regions.len();
            for arm in self.there_and_back() {
                self.turn(round, arm, region, requests)?;
                watch.advance(0.0);
            }
        }
        Ok(())
    }

    fn there_and_back(&mut self) -> Vec<usize> {
        let mut order: Vec<usize> = (0..self.arms.len()).collect();
        self.random.shuffle(&mut order);
        order.iter().chain(order.iter().rev()).copied().collect()
    }

    /// A sequence begins in the first half of a region, so its requests fit into half of the smallest.
    fn most(&self) -> u64 {
        let room = self.order.regions.iter().map(|region| region.len().get()).min().unwrap_or(0);
        if self.workload.pattern.is_random {
            return u64::from(u32::MAX);
        }
        (room / 2).checked_div(self.workload.stride()).unwrap_or(0)
    }

    fn round(
        &mut self,
        round: usize,
        requests: u64,
        turns: &mut Vec<Turn>,
        watch: &mut dyn Watch,
    ) -> Result<(), RunError> {
        turns.clear();
        let mut measured = Vec::new();
        let region = round % self.order.regions.len();
        for arm in self.there_and_back() {
            let (turn, samples) = self.turn(round, arm, region, requests)?;
            turns.push(turn);
            measured.push(samples);
            watch.advance(self.share());
        }
        // Recorded only now, so that an interrupted round leaves no trace.
        for (index, arm) in self.arms.iter_mut().enumerate() {
            for (turn, samples) in turns.iter().zip(&measured).filter(|(turn, _)| turn.arm == index) {
                let seconds = turn.elapsed.seconds() / float(turn.requests.max(1));
                arm.samples.join(samples);
                if index == 0 {
                    self.course.push(seconds);
                }
                arm.turns.push(seconds.max(1e-12).ln());
            }
        }
        Ok(())
    }

    fn turn(
        &mut self,
        round: usize,
        arm: usize,
        region: usize,
        requests: u64,
    ) -> Result<(Turn, Samples), RunError> {
        let span = self.order.regions[region];
        let (from, end) = (span.start().get(), ByteCount::new(span.end().get()));
        let start = self.place(from, span.len().get(), requests);
        let drawn = self.random.next();
        let seed = u32::try_from(drawn >> 32).unwrap_or_default();
        let workload = self.arms[arm].workload.turn(start, requests, seed);
        let mut program = workload.program(end.min(self.target.capacity()), self.target.logical_sector())?;
        // Otherwise the next arm would pay for what is in the drive's cache at the end of a turn.
        program.fsync_last |= workload.writes() && !program.flush_each;
        if !program.fsync_last {
            // Keeps the queue full to the end, or a short turn at a high queue depth would mostly be its running
            // empty. Not before a final flush, which would flush the requests of the tail as well.
            program.tail = u64::from(program.depth) - 1;
        }
        let (began, mut latencies) = (self.target.now().since(Time::ZERO), Vec::new());
        let raw = (requests <= KEPT).then_some(&mut latencies);
        let samples = run_program(self.target, program, self.host, raw, &mut Silent)?;
        let (offset, elapsed, done) = (self.arms[arm].offset, samples.elapsed, samples.requests);
        let turn =
            Turn { round, arm, offset, region, start, seed, began, elapsed, requests: done, latencies };
        Ok((turn, samples))
    }

    /// A sequence begins at any place with room for it, random requests at the start of the region, because they
    /// choose their own places.
    fn place(&mut self, from: u64, length: u64, requests: u64) -> u64 {
        if self.workload.pattern.is_random {
            return from;
        }
        let most = self.arms.iter().map(|arm| arm.workload.offset).max().unwrap_or(0);
        let needed = requests.saturating_mul(self.workload.stride()).saturating_add(most);
        let places = length.saturating_sub(needed).checked_div(GRAIN).unwrap_or(0) + 1;
        from + self.random.below(places) * GRAIN
    }

    fn elapsed(&self) -> Nanos {
        self.target.now().since(self.start)
    }

    fn share(&self) -> f64 {
        (self.elapsed().seconds() / self.order.limit.seconds().max(1e-9)).min(1.0)
    }
}

fn scaled(number: u64, factor: f64) -> u64 {
    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "positive, and cut to what fits"
    )]
    let scaled = (float(number) * factor).clamp(0.0, 1e12) as u64;
    scaled
}

#[cfg(test)]
mod tests;
