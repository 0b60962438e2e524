//! Samples and their statistics.

use std::fmt::Write;
use std::time::Duration;

/// The spread (half the distance of the quartiles, relative to the median) above which a figure is called
/// unsteady.
const UNSTEADY: f64 = 0.15;

/// The measurements of one arm, in the order of the rounds.
pub(crate) struct Samples {
    pub(crate) name: &'static str,
    seconds: Vec<f64>,
    peak: u64,
}

/// A quartile of values: `quarter` is 1 for the first, 2 for the median, 3 for the third.
fn quartile(values: &[f64], quarter: usize) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted.get(sorted.len() * quarter / 4).copied().unwrap_or(f64::NAN)
}

impl Samples {
    pub(crate) fn new(name: &'static str) -> Self {
        Self { name, seconds: Vec::new(), peak: 0 }
    }

    pub(crate) fn add(&mut self, took: Duration, peak: u64) {
        self.seconds.push(took.as_secs_f64());
        self.peak = self.peak.max(peak);
    }

    pub(crate) fn median(&self) -> f64 {
        quartile(&self.seconds, 2)
    }

    /// Formats the median and the quartiles, in units of 1/`scale` seconds, and the peak of memory.
    pub(crate) fn summary(&self, scale: f64, unit: &str) -> String {
        let at = |quarter| quartile(&self.seconds, quarter) * scale;
        format!(
            "{:8.3} {unit} (quartiles {:.3} to {:.3}), peak {}{}",
            at(2),
            at(1),
            at(3),
            mebibytes(self.peak),
            self.warning()
        )
    }

    /// Formats the rate in millions per second, for `count` things in the measured time: the median and the
    /// quartiles.
    pub(crate) fn millions(&self, count: f64) -> String {
        let at = |quarter| count / quartile(&self.seconds, quarter) / 1e6;
        format!("{:6.2} million/s (quartiles {:.2} to {:.2}){}", at(2), at(3), at(1), self.warning())
    }

    /// Formats the rate per second, for `count` things in the measured time.
    pub(crate) fn rate(&self, count: usize) -> String {
        let count = u32::try_from(count).map_or(f64::NAN, f64::from);
        let at = |quarter| count / quartile(&self.seconds, quarter);
        format!(
            "{:8.0} images/s (quartiles {:.0} to {:.0}), {:.0} ms, peak {}{}",
            at(2),
            at(3),
            at(1),
            self.median() * 1e3,
            mebibytes(self.peak),
            self.warning()
        )
    }

    /// The ratio of this arm's times to those of `other`, round by round: both arms of a round had the same
    /// conditions.
    pub(crate) fn ratio(&self, other: &Self) -> String {
        let ratios: Vec<f64> = self.seconds.iter().zip(&other.seconds).map(|(a, b)| a / b).collect();
        let [low, middle, high] = [1, 2, 3].map(|quarter| quartile(&ratios, quarter));
        let verdict = if low <= 1.0 && high >= 1.0 { "; no difference found" } else { "" };
        format!("{middle:.2} times the time (quartiles {low:.2} to {high:.2}{verdict})")
    }

    /// The rate of this arm as a share of the rate of `other`: the median of the rounds.
    pub(crate) fn rate_of(&self, other: &Self) -> f64 {
        let rates: Vec<f64> = self.seconds.iter().zip(&other.seconds).map(|(a, b)| b / a).collect();
        quartile(&rates, 2)
    }

    /// The samples in microseconds, after the name.
    pub(crate) fn raw(&self) -> String {
        let mut line = self.name.to_owned();
        for seconds in &self.seconds {
            let _ = write!(line, "\t{:.1}", seconds * 1e6);
        }
        line
    }

    fn warning(&self) -> &'static str {
        let spread = (quartile(&self.seconds, 3) - quartile(&self.seconds, 1)) / 2.0 / self.median();
        if spread > UNSTEADY { " [unsteady: is the machine busy?]" } else { "" }
    }
}

fn mebibytes(bytes: u64) -> String {
    // In tenths, rounded to the nearest.
    let tenths = (bytes * 10 + (1 << 19)) >> 20;
    format!("{}.{} MiB", tenths / 10, tenths % 10)
}
