//! What a run measured, in memory that does not grow with its length.

use hdrhistogram::Histogram;
use straddle_drive::{Counters, Nanos, Time};

/// Figures of the histogram that are kept: percentiles are exact to a thousandth.
const DIGITS: u8 = 3;

/// Times of many requests.
#[derive(Clone, Debug)]
pub struct Latency {
    histogram: Histogram<u64>,
    sum: u128,
    min: u64,
    max: u64,
}

impl Default for Latency {
    fn default() -> Self {
        Self::new()
    }
}

impl Latency {
    /// No times yet.
    pub fn new() -> Self {
        #[allow(clippy::unwrap_used, reason = "1 to 5 figures are possible, and that is all that is checked")]
        let histogram = Histogram::new(DIGITS).unwrap();
        Self { histogram, sum: 0, min: u64::MAX, max: 0 }
    }

    /// So many more of the same.
    pub fn record_many(&mut self, time: Nanos, count: u64) {
        if count > 0 {
            let nanos = time.get();
            let _ = self.histogram.record_n(nanos, count);
            self.sum += u128::from(nanos) * u128::from(count);
            (self.min, self.max) = (self.min.min(nanos), self.max.max(nanos));
        }
    }

    /// One more.
    pub fn record(&mut self, time: Nanos) {
        let nanos = time.get();
        // It resizes itself; the only refusal is a machine where 64 bits do not fit a pointer.
        let _ = self.histogram.record(nanos);
        self.sum += u128::from(nanos);
        self.min = self.min.min(nanos);
        self.max = self.max.max(nanos);
    }

    /// All of `other` as well.
    pub fn join(&mut self, other: &Self) {
        // It resizes itself, as when recording.
        let _ = self.histogram.add(&other.histogram);
        self.sum += other.sum;
        self.min = self.min.min(other.min);
        self.max = self.max.max(other.max);
    }

    /// How many.
    pub fn count(&self) -> u64 {
        self.histogram.len()
    }

    /// How many were done within this time, to a thousandth of it.
    pub fn count_within(&self, time: Nanos) -> u64 {
        if self.count() == 0 { 0 } else { self.histogram.count_between(0, time.get()) }
    }

    /// All of them together.
    pub fn total(&self) -> Nanos {
        Nanos::new(u64::try_from(self.sum).unwrap_or(u64::MAX))
    }

    /// The mean, exact; zero of none.
    pub fn mean(&self) -> Nanos {
        let mean = self.sum.checked_div(u128::from(self.count())).unwrap_or(0);
        Nanos::new(u64::try_from(mean).unwrap_or(u64::MAX))
    }

    /// The shortest, exact; zero of none.
    pub const fn min(&self) -> Nanos {
        Nanos::new(if self.min > self.max { 0 } else { self.min })
    }

    /// The longest, exact; zero of none.
    pub const fn max(&self) -> Nanos {
        Nanos::new(self.max)
    }

    /// The time within which this share of the requests, 0 to 1, was done; to a thousandth.
    pub fn quantile(&self, share: f64) -> Nanos {
        let value = self.histogram.value_at_quantile(share);
        Nanos::new(value.clamp(self.min().get(), self.max))
    }
}

/// The most batches that are kept; at this number they are joined two by two.
const BATCHES: usize = 64;
/// Fewer batches tell nothing of the spread.
const FEWEST: usize = 8;

/// The spread of a rate from the lengths of equal batches of requests, which, other than single requests, hardly depend on
/// each other (the method of batch means).
#[derive(Clone, Debug)]
pub(crate) struct Batches {
    lengths: Vec<u64>,
    size: u64,
    filled: u64,
    since: Time,
}

impl Batches {
    pub(crate) fn from(start: Time) -> Self {
        Self { lengths: Vec::with_capacity(BATCHES), size: 1, filled: 0, since: start }
    }

    /// One more request was done at `at`.
    pub(crate) fn record(&mut self, at: Time) {
        self.filled += 1;
        if self.filled < self.size {
            return;
        }
        self.lengths.push(at.since(self.since).get());
        (self.filled, self.since) = (0, at);
        if self.lengths.len() == BATCHES {
            let joined = self.lengths.chunks(2).map(|pair| pair.iter().sum());
            self.lengths = joined.collect();
            self.size *= 2;
        }
    }

    /// The standard error of the mean time per request, as a share of it.
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
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// All requests were done.
    Count,
    /// The time was up.
    Time,
    /// The target's end was reached before its time was up.
    End,
}

/// What a run measured.
#[derive(Clone, Debug)]
pub struct Samples {
    /// Reads or writes done.
    pub requests: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Flushes done.
    pub flushes: u64,
    /// From the first submission to the last completion.
    pub elapsed: Nanos,
    /// Why it ended.
    pub stop: Stop,
    /// Each request from submission to completion; with a flush after each write, to that flush's completion.
    pub latency: Latency,
    /// Each flush by itself.
    pub flush_latency: Latency,
    /// The standard error of the mean time per request, as a share of it; `None` of too few to tell.
    pub relative_error: Option<f64>,
    /// What happened inside the target meanwhile, if it can tell.
    pub counters: Option<Counters>,
}

impl Samples {
    /// Nothing measured yet.
    pub(crate) fn none() -> Self {
        Self {
            requests: 0,
            bytes: 0,
            flushes: 0,
            elapsed: Nanos::ZERO,
            stop: Stop::Count,
            latency: Latency::new(),
            flush_latency: Latency::new(),
            relative_error: None,
            counters: None,
        }
    }

    /// Another run of the same arm. What its batches say of the spread is dropped: rounds say it better.
    pub(crate) fn join(&mut self, other: &Self) {
        self.counters = match self.counters {
            None if self.requests == 0 => other.counters,
            ours => ours.zip(other.counters).map(|(ours, others)| sum(ours, others)),
        };
        self.requests += other.requests;
        self.bytes += other.bytes;
        self.flushes += other.flushes;
        self.elapsed += other.elapsed;
        self.latency.join(&other.latency);
        self.flush_latency.join(&other.flush_latency);
    }

    /// Requests a second.
    pub fn iops(&self) -> f64 {
        per_second(self.requests, self.elapsed)
    }

    /// Bytes a second.
    pub fn bytes_per_second(&self) -> f64 {
        per_second(self.bytes, self.elapsed)
    }

    /// Seconds from one request's end to the next one's: what an arm is compared by.
    pub fn seconds_per_request(&self) -> f64 {
        if self.requests == 0 { 0.0 } else { self.elapsed.seconds() / float(self.requests) }
    }

    /// A counter, spread over the requests.
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

/// What happened from `before` to `after`. The revolution is no total and stays.
pub(crate) fn since(after: Counters, before: Counters) -> Counters {
    each(after, before, |after, before| after - before)
}

/// What happened in both times together.
fn sum(one: Counters, other: Counters) -> Counters {
    each(one, other, |one, other| one + other)
}

fn each(one: Counters, other: Counters, of: impl Fn(u64, u64) -> u64) -> Counters {
    Counters {
        host_reads: of(one.host_reads, other.host_reads),
        host_writes: of(one.host_writes, other.host_writes),
        host_flushes: of(one.host_flushes, other.host_flushes),
        host_discards: of(one.host_discards, other.host_discards),
        host_read_bytes: of(one.host_read_bytes, other.host_read_bytes),
        host_write_bytes: of(one.host_write_bytes, other.host_write_bytes),
        media_read_bytes: of(one.media_read_bytes, other.media_read_bytes),
        media_write_bytes: of(one.media_write_bytes, other.media_write_bytes),
        rmw_reads: of(one.rmw_reads, other.rmw_reads),
        rmw_read_bytes: of(one.rmw_read_bytes, other.rmw_read_bytes),
        cache_hits: of(one.cache_hits, other.cache_hits),
        merged_writes: of(one.merged_writes, other.merged_writes),
        destages: of(one.destages, other.destages),
        seeks: of(one.seeks, other.seeks),
        seek_time: of(one.seek_time, other.seek_time),
        rotation_wait: of(one.rotation_wait, other.rotation_wait),
        revolution: one.revolution,
        unit_write_bytes: of(one.unit_write_bytes, other.unit_write_bytes),
        gc_write_bytes: of(one.gc_write_bytes, other.gc_write_bytes),
        erases: of(one.erases, other.erases),
    }
}
