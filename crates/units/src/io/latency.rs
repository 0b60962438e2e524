//! Latencies of many requests, in memory that does not grow with their number.

use crate::io::time::Nanos;
use hdrhistogram::Histogram;
use schemars::JsonSchema;
use serde::Serialize;

/// Significant digits kept by the histogram: percentiles are exact to a thousandth.
const DIGITS: u8 = 3;

/// A summary of the latencies of requests.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(into = "Summary")]
#[schemars(with = "Summary")]
pub struct Latency {
    histogram: Histogram<u64>,
    sum: u128,
    min: u64,
    max: u64,
}

/// The latencies of requests, in nanoseconds. Percentiles are accurate to 0.1 %, the other values are exact.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Latency")]
struct Summary {
    /// The number of requests.
    requests: u64,
    /// The mean, in nanoseconds.
    mean_ns: Nanos,
    /// The shortest latency, in nanoseconds.
    min_ns: Nanos,
    /// The median, in nanoseconds.
    p50_ns: Nanos,
    /// The 90th percentile, in nanoseconds.
    p90_ns: Nanos,
    /// The 99th percentile, in nanoseconds.
    p99_ns: Nanos,
    /// The 99.9th percentile, in nanoseconds.
    p999_ns: Nanos,
    /// The longest latency, in nanoseconds.
    max_ns: Nanos,
}

impl From<Latency> for Summary {
    fn from(latency: Latency) -> Self {
        Self {
            requests: latency.count(),
            mean_ns: latency.mean(),
            min_ns: latency.min(),
            p50_ns: latency.quantile(0.5),
            p90_ns: latency.quantile(0.9),
            p99_ns: latency.quantile(0.99),
            p999_ns: latency.quantile(0.999),
            max_ns: latency.max(),
        }
    }
}

impl Default for Latency {
    fn default() -> Self {
        Self::new()
    }
}

impl Latency {
    /// An empty set of latencies.
    pub fn new() -> Self {
        #[allow(clippy::unwrap_used, reason = "1 to 5 figures are possible, and that is all that is checked")]
        let histogram = Histogram::new(DIGITS).unwrap();
        Self { histogram, sum: 0, min: u64::MAX, max: 0 }
    }

    /// Records `time` `count` times.
    pub fn record_many(&mut self, time: Nanos, count: u64) {
        if count > 0 {
            let nanos = time.get();
            // A value is refused only where 64 bits do not fit a pointer.
            let _ = self.histogram.record_n(nanos, count);
            self.sum += u128::from(nanos) * u128::from(count);
            (self.min, self.max) = (self.min.min(nanos), self.max.max(nanos));
        }
    }

    /// Records one time.
    pub fn record(&mut self, time: Nanos) {
        self.record_many(time, 1);
    }

    /// Adds all times of `other`.
    pub fn join(&mut self, other: &Self) {
        let _ = self.histogram.add(&other.histogram);
        self.sum += other.sum;
        (self.min, self.max) = (self.min.min(other.min), self.max.max(other.max));
    }

    /// The number of recorded times.
    pub fn count(&self) -> u64 {
        self.histogram.len()
    }

    /// Whether nothing was recorded.
    pub fn is_empty(&self) -> bool {
        self.count() == 0
    }

    /// The sum of all times.
    pub fn total(&self) -> Nanos {
        Nanos::new(u64::try_from(self.sum).unwrap_or(u64::MAX))
    }

    /// The exact mean; zero if nothing was recorded.
    pub fn mean(&self) -> Nanos {
        let mean = self.sum.checked_div(u128::from(self.count())).unwrap_or(0);
        Nanos::new(u64::try_from(mean).unwrap_or(u64::MAX))
    }

    /// The exact minimum; zero if nothing was recorded.
    pub const fn min(&self) -> Nanos {
        Nanos::new(if self.min > self.max { 0 } else { self.min })
    }

    /// The exact maximum; zero if nothing was recorded.
    pub const fn max(&self) -> Nanos {
        Nanos::new(self.max)
    }

    /// The time within which `share` (0 to 1) of the requests completed, to a thousandth.
    pub fn quantile(&self, share: f64) -> Nanos {
        let value = self.histogram.value_at_quantile(share);
        Nanos::new(value.clamp(self.min().get(), self.max))
    }
}
