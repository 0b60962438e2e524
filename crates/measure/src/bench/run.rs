//! Runs a workload on a target. Memory for the measurements does not grow with the length of a run.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use straddle_units::io::{Completion, Counters, Latency, Nanos, Request, Time};
use straddle_units::{ByteCount, ByteOffset};

use crate::bench::medium::{Mark, Reached};
use crate::bench::target::{Target, TargetError, complete};
use crate::bench::workload::{Program, Workload, WorkloadError};

/// The host as it affects the measurement.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Host {
    /// Nanoseconds from the end of a request to the next submission. Only for modelled targets: on a real host this
    /// time passes anyway.
    pub overhead_ns: u64,
}

/// Receives progress.
pub trait Progress {
    /// Reports that `share` of the run is done, 0 to 1. Called after every request.
    fn advance(&mut self, share: f64);

    /// Reports the current activity, in a few words.
    fn tell(&mut self, _what: &str) {}
}

/// Ignores progress.
#[derive(Clone, Copy, Debug, Default)]
pub struct Silent;

impl Progress for Silent {
    fn advance(&mut self, _: f64) {}
}

/// Why a run failed.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages document the variants")]
pub enum RunError {
    #[error(transparent)]
    Workload(#[from] WorkloadError),
    #[error("request {index} failed")]
    Target { index: u64, source: TargetError },
    #[error("no offset was specified")]
    NoOffsets,
    #[error("offset {offset} is past the end of any possible target")]
    Offset { offset: u64 },
}

straddle_units::error_kind! {
    RunError: Usage;
    Self::Workload(error) => error.kind(),
    Self::Target { source, .. } => source.kind(),
}

/// Runs `workload` on `target` from the current time on, and measures it.
pub fn run(
    target: &mut dyn Target,
    workload: &Workload,
    host: Host,
    progress: &mut dyn Progress,
) -> Result<Samples, RunError> {
    let program = workload.program(target.capacity(), target.logical_sector())?;
    run_program(target, program, host, None, progress)
}

/// Each latency is also appended to `raw`.
pub(crate) fn run_program(
    target: &mut dyn Target,
    program: Program,
    host: Host,
    raw: Option<&mut Vec<Nanos>>,
    progress: &mut dyn Progress,
) -> Result<Samples, RunError> {
    let before = target.counters();
    let mut engine = Engine::new(target, program, host, raw);
    let ran = engine.run(progress);
    ran.map_err(|source| RunError::Target { index: engine.failed(&source), source })?;
    let mut samples = engine.samples();
    samples.counters = target.counters().zip(before).map(|(after, before)| after.since(&before));
    Ok(samples)
}

/// An outstanding request. Its id is its index in the slots.
#[derive(Clone, Copy, Debug, Default)]
struct Slot {
    index: u64,
    started: Time,
    /// When its flush was submitted, if it is being flushed.
    flushing: Option<Time>,
}

struct Engine<'a> {
    target: &'a mut dyn Target,
    program: Program,
    overhead: Nanos,
    start: Time,
    end: Time,
    slots: Vec<Slot>,
    free: Vec<usize>,
    submitted: u64,
    unsynced: u64,
    stop: Option<Stop>,
    samples: Samples,
    batches: Batches,
    raw: Option<&'a mut Vec<Nanos>>,
}

impl<'a> Engine<'a> {
    fn new(
        target: &'a mut dyn Target,
        program: Program,
        host: Host,
        raw: Option<&'a mut Vec<Nanos>>,
    ) -> Self {
        let start = target.now();
        let batches = Batches::from(start, Mark::of(target));
        // One for each outstanding request, but no more than there are requests, whatever the queue depth.
        let depth = u64::from(program.depth).min(program.count.unwrap_or(u64::MAX)).min(1 << 16);
        let slots = vec![Slot::default(); usize::try_from(depth).unwrap_or_default()];
        Self {
            target,
            program,
            overhead: Nanos::new(host.overhead_ns),
            start,
            end: start,
            free: (0..slots.len()).rev().collect(),
            slots,
            submitted: 0,
            unsynced: 0,
            stop: None,
            samples: Samples::default(),
            batches,
            raw,
        }
    }

    fn run(&mut self, progress: &mut dyn Progress) -> Result<(), TargetError> {
        loop {
            self.fill()?;
            if self.free.len() < self.slots.len() {
                let completion = self.target.wait()?;
                if self.is_tail() {
                    // A request of the tail only kept the queue full, and is not counted.
                    self.free.extend(self.slot(&completion));
                    continue;
                }
                self.end = completion.at;
                if self.complete(completion)? {
                    progress.advance(self.share());
                    self.pause();
                }
            } else if self.fsync_due() {
                self.fsync()?;
                self.pause();
            } else if self.stop.is_some() || self.is_tail() {
                break;
            }
        }
        if self.program.fsync_last {
            self.fsync()?;
        }
        Ok(())
    }

    fn fill(&mut self) -> Result<(), TargetError> {
        while self.stop.is_none() && !self.fsync_due() && !self.is_tail() {
            let Some(&slot) = self.free.last() else { return Ok(()) };
            let Some(offset) = self.next_place() else { return Ok(()) };
            self.free.pop();
            self.slots[slot] = Slot { index: self.submitted, started: self.target.now(), flushing: None };
            self.submitted += 1;
            self.unsynced += 1;
            self.target.submit(Request::new(
                id(slot),
                self.program.operation,
                ByteOffset::new(offset),
                ByteCount::new(self.program.size),
            ))?;
        }
        Ok(())
    }

    fn next_place(&mut self) -> Option<u64> {
        let elapsed = self.target.now().since(self.start);
        let tail = self.program.tail;
        let stop = if self.program.count.is_some_and(|count| self.submitted >= count.saturating_add(tail)) {
            Stop::Count
        } else if self.program.time.is_some_and(|time| elapsed >= time) {
            Stop::Time
        } else if let Some(place) = self.program.places.next() {
            return Some(place);
        } else {
            Stop::End
        };
        self.stop = Some(stop);
        None
    }

    /// Processes a completion. Returns whether it completes a request, including its flush.
    fn complete(&mut self, completion: Completion) -> Result<bool, TargetError> {
        // An id that was never assigned is an error of the target, and is ignored.
        let Some(slot) = self.slot(&completion) else { return Ok(false) };
        let state = &mut self.slots[slot];
        if let Some(since) = state.flushing {
            self.samples.flush_latency.record(completion.at.since(since));
            self.samples.flushes += 1;
        } else if self.program.flush_each {
            state.flushing = Some(self.target.now());
            self.target.submit(Request::flush(id(slot)))?;
            return Ok(false);
        }
        let latency = completion.at.since(state.started);
        self.samples.latency.record(latency);
        if let Some(raw) = &mut self.raw {
            raw.push(latency);
        }
        self.batches.record(completion.at, || Mark::of(self.target));
        self.samples.requests += 1;
        self.free.push(slot);
        Ok(true)
    }

    fn slot(&self, completion: &Completion) -> Option<usize> {
        usize::try_from(completion.id.0).ok().filter(|slot| *slot < self.slots.len())
    }

    fn is_tail(&self) -> bool {
        self.program.tail > 0 && self.program.count.is_some_and(|count| self.samples.requests >= count)
    }

    fn fsync_due(&self) -> bool {
        self.program.fsync_each > 0 && self.unsynced >= self.program.fsync_each
    }

    fn fsync(&mut self) -> Result<(), TargetError> {
        let started = self.target.now();
        let completion = complete(self.target, Request::flush(0))?;
        self.samples.flush_latency.record(completion.at.since(started));
        self.end = completion.at;
        self.samples.flushes += 1;
        self.unsynced = 0;
        Ok(())
    }

    /// Of the request that the error names, or of the last one submitted.
    fn failed(&self, error: &TargetError) -> u64 {
        let request = match error {
            TargetError::Refused { request, .. } | TargetError::Failed { request, .. } => Some(request),
            TargetError::Stalled { .. } | TargetError::Idle | TargetError::Interrupted => None,
        };
        // An fsync has no slot.
        let owned =
            request.filter(|request| request.operation == self.program.operation || self.program.flush_each);
        let slot = owned.and_then(|request| self.slots.get(usize::try_from(request.id.0).ok()?));
        slot.map_or(self.submitted.saturating_sub(1), |slot| slot.index)
    }

    fn pause(&mut self) {
        if self.overhead > Nanos::ZERO {
            self.target.pause(self.overhead);
        }
    }

    fn share(&self) -> f64 {
        let done = float(self.samples.requests);
        let of_count = self.program.count.map_or(0.0, |count| done / float(count));
        let elapsed = self.end.since(self.start).seconds();
        let of_time = self.program.time.map_or(0.0, |time| elapsed / time.seconds());
        of_count.max(of_time).min(1.0)
    }

    fn samples(self) -> Samples {
        Samples {
            bytes: self.samples.requests * self.program.size,
            elapsed: self.end.since(self.start),
            stop: self.stop.unwrap_or_default(),
            relative_error: self.batches.relative_error(),
            reached: self.batches.reached(),
            ..self.samples
        }
    }
}

fn id(slot: usize) -> u64 {
    u64::try_from(slot).unwrap_or(u64::MAX)
}

/// The most batches that are kept. At this number they are merged in pairs.
const BATCHES: usize = 64;
const FEWEST: usize = 8;

/// The method of batch means: equal batches of requests hardly depend on each other, unlike single requests.
#[derive(Clone, Debug)]
pub(crate) struct Batches {
    lengths: Vec<u64>,
    /// The state at the start and after each batch; empty if the target has no counters.
    marks: Vec<Mark>,
    size: u64,
    filled: u64,
    since: Time,
}

impl Batches {
    pub(crate) fn from(start: Time, mark: Option<Mark>) -> Self {
        let marks = mark.into_iter().collect();
        Self { lengths: Vec::with_capacity(BATCHES), marks, size: 1, filled: 0, since: start }
    }

    pub(crate) fn record(&mut self, at: Time, mark: impl FnOnce() -> Option<Mark>) {
        self.filled += 1;
        if self.filled < self.size {
            return;
        }
        self.lengths.push(at.since(self.since).get());
        self.marks.extend(mark());
        (self.filled, self.since) = (0, at);
        if self.lengths.len() == BATCHES {
            let joined = self.lengths.chunks(2).map(|pair| pair.iter().sum());
            self.lengths = joined.collect();
            self.marks = self.marks.iter().copied().step_by(2).collect();
            self.size *= 2;
        }
    }

    pub(crate) fn reached(&self) -> Option<Reached> {
        if self.lengths.len() < FEWEST { None } else { Reached::of(&self.marks) }
    }

    /// Returns the standard error of the mean time per request, as a fraction of it.
    pub(crate) fn relative_error(&self) -> Option<f64> {
        if self.lengths.len() < FEWEST {
            return None;
        }
        let count = float(self.lengths.len() as u64);
        let mean = self.lengths.iter().map(|length| float(*length)).sum::<f64>() / count;
        let squares: f64 = self.lengths.iter().map(|length| (float(*length) - mean).powi(2)).sum();
        (mean > 0.0).then(|| (squares / (count - 1.0) / count).sqrt() / mean)
    }
}

/// Why a run ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Stop {
    /// All requests were completed.
    #[default]
    Count,
    /// The time limit was reached.
    Time,
    /// The end of the target was reached before the time limit.
    End,
}

/// The measurements of a run.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct Samples {
    /// The number of reads or writes completed.
    pub requests: u64,
    /// The number of bytes read or written.
    pub bytes: u64,
    /// The number of flushes completed.
    pub flushes: u64,
    /// The time from the first submission to the last completion, in nanoseconds.
    #[serde(rename = "elapsed_ns")]
    pub elapsed: Nanos,
    /// Why the run ended.
    pub stop: Stop,
    /// The latency of each request, from its submission to its completion or, if each write is flushed, to the
    /// completion of the flush.
    pub latency: Latency,
    /// The latency of flushes alone; absent if there were none.
    #[serde(skip_serializing_if = "Latency::is_empty")]
    pub flush_latency: Latency,
    /// The standard error of the mean time per request, as a fraction of it; `None` if there are too few
    /// batches.
    #[serde(skip)]
    pub relative_error: Option<f64>,
    /// Whether the writes reached the medium; absent if this is unknown (real targets), or if nothing was
    /// written.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reached: Option<Reached>,
    /// Counters from inside the drive; absent if it has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub counters: Option<Counters>,
}

impl Samples {
    /// Adds another run of the same arm. The spread from batches is dropped: rounds give a better one.
    pub(crate) fn join(&mut self, other: &Self) {
        self.counters = match self.counters {
            None if self.requests == 0 => other.counters,
            ours => ours.zip(other.counters).map(|(ours, others)| ours.plus(&others)),
        };
        self.requests += other.requests;
        self.bytes += other.bytes;
        self.flushes += other.flushes;
        self.elapsed += other.elapsed;
        self.latency.join(&other.latency);
        self.flush_latency.join(&other.flush_latency);
    }

    /// Returns the requests per second.
    pub fn iops(&self) -> f64 {
        per_second(self.requests, self.elapsed)
    }

    /// Returns the bytes per second.
    pub fn bytes_per_second(&self) -> f64 {
        per_second(self.bytes, self.elapsed)
    }

    /// Returns the seconds per request, from one completion to the next, by which arms are compared.
    pub fn seconds_per_request(&self) -> f64 {
        if self.requests == 0 { 0.0 } else { self.elapsed.seconds() / float(self.requests) }
    }

    /// Returns the bytes written to the medium per byte of the host, if that is known.
    pub fn write_amplification(&self) -> Option<f64> {
        self.counters.as_ref().and_then(Counters::write_amplification)
    }

    /// Divides a counter by the number of requests.
    pub fn per_request(&self, total: f64) -> f64 {
        if self.requests == 0 { 0.0 } else { total / float(self.requests) }
    }
}

fn per_second(number: u64, time: Nanos) -> f64 {
    if time == Nanos::ZERO { 0.0 } else { float(number) / time.seconds() }
}

/// Returns a number for statistics and for text.
#[allow(clippy::cast_precision_loss, reason = "exact up to 2^53")]
pub fn float(number: u64) -> f64 {
    number as f64
}
