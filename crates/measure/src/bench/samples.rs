//! The measurements of a run, in memory that does not grow with its length.

use schemars::JsonSchema;
use serde::Serialize;
use straddle_units::io::{Counters, Latency, Nanos, Time};

use crate::bench::medium::{Mark, Reached};

/// The most batches that are kept. At this number they are merged in pairs.
const BATCHES: usize = 64;
/// The fewest batches from which the spread is estimated.
const FEWEST: usize = 8;

/// Estimates the spread of a rate by the method of batch means: equal batches of requests hardly depend on
/// each other, unlike single requests.
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
    /// The number of reads or writes done.
    pub requests: u64,
    /// The number of bytes read or written.
    pub bytes: u64,
    /// The number of flushes done.
    pub flushes: u64,
    /// The time from the first submission to the last completion, in nanoseconds.
    #[serde(rename = "elapsed_ns")]
    pub elapsed: Nanos,
    /// Why it ended.
    pub stop: Stop,
    /// The latency of each request, from submission to completion. With a flush after each write, to the
    /// completion of that flush.
    pub latency: Latency,
    /// The latency of flushes alone; absent if there were none.
    #[serde(skip_serializing_if = "Latency::is_empty")]
    pub flush_latency: Latency,
    /// The standard error of the mean time per request, as a fraction of it; `None` if there are too few
    /// batches.
    #[serde(skip)]
    pub relative_error: Option<f64>,
    /// What the writes reached; absent if that is not known (real targets), or nothing was written.
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

    /// Returns the seconds per request, from the completion of one to that of the next, by which arms are
    /// compared.
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

#[allow(clippy::cast_precision_loss, reason = "statistics, to print")]
pub(crate) fn float(number: u64) -> f64 {
    number as f64
}
