//! Compares two arms by paired rounds: an estimate of the difference, its interval, and whether it may be
//! chance.
//!
//! The times of a disk are skewed, have outliers of a hundred times the median, and drift, so no distribution
//! is assumed. The estimate is the median of all pairwise means of the differences of logarithms (J. L.
//! Hodges and E. L. Lehmann, 1963); the interval contains every difference that Wilcoxon's signed-rank test
//! would not reject. Its coverage is exact for any symmetric distribution, from six rounds on.

use schemars::JsonSchema;
use serde::Serialize;

/// An estimate with its interval.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Interval {
    /// The best estimate.
    #[serde(skip)]
    pub value: f64,
    /// The lowest value that the data do not contradict.
    #[serde(rename = "ratio_low")]
    pub low: f64,
    /// The highest value that the data do not contradict.
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

/// Returns the centre of `differences`, and the interval that contains it with a probability of 1 - `alpha`.
/// `None` if there are too few for such a probability.
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

/// Returns the index, from 0, of the pairwise mean at which the interval begins: the greatest number c for
/// which the sum of the positive ranks is below c with a probability of at most `alpha` / 2, less one.
fn critical(count: usize, alpha: f64) -> Option<usize> {
    if count == 0 || alpha.is_nan() || alpha <= 0.0 {
        return None;
    }
    let below = if count <= EXACT { exact(count, alpha / 2.0) } else { approximate(count, alpha / 2.0) };
    below.checked_sub(1)
}

/// Returns the greatest c with P(T < c) ≤ `tail`, where T is the sum of the positive ranks of `count`
/// differences with random signs.
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
    let number = crate::bench::samples::float(count as u64);
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

/// Returns a quantile of the standard normal distribution, to 4.5e-4: M. Abramowitz and I. A. Stegun,
/// Handbook of Mathematical Functions, 26.2.23.
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
