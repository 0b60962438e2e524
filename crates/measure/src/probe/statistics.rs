//! Statistics that outliers, drift and unusual distributions do not distort.

/// NaN without any values, so that every comparison fails.
pub(crate) fn median(values: &[f64]) -> f64 {
    crate::bench::median(values).unwrap_or(f64::NAN)
}

/// Interpolated; NaN for no values.
pub(crate) fn quantile(values: &[f64], share: f64) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let Some(last) = sorted.len().checked_sub(1) else { return f64::NAN };
    let at = share.clamp(0.0, 1.0) * count(last);
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "an index of the vector")]
    let below = (at.floor() as usize).min(last);
    let above = (below + 1).min(last);
    sorted[below] + (sorted[above] - sorted[below]) * (at - count(below))
}

pub(crate) fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / count(values.len())
}

/// The Mann-Whitney test as a standard normal deviate: above zero if `high` tends to be above `low`. Ties count half;
/// leaving their effect out of the variance makes the test more conservative.
pub(crate) fn deviate(low: &[f64], high: &[f64]) -> f64 {
    if low.is_empty() || high.is_empty() {
        return 0.0;
    }
    let mut all: Vec<(f64, bool)> =
        low.iter().map(|value| (*value, false)).chain(high.iter().map(|value| (*value, true))).collect();
    all.sort_by(|left, right| left.0.total_cmp(&right.0));
    let mut ranks = 0.0;
    let mut first = 0;
    while first < all.len() {
        let tied = all[first..].iter().take_while(|item| item.0.total_cmp(&all[first].0).is_eq()).count();
        // Ranks count from 1; equal values share the mean of their ranks.
        let rank = count(first) + (count(tied) + 1.0) / 2.0;
        ranks += rank * count(all[first..first + tied].iter().filter(|item| item.1).count());
        first += tied;
    }
    let (few, many) = (count(high.len()), count(low.len()));
    let above = ranks - few * (few + 1.0) / 2.0;
    (above - few * many / 2.0) / (few * many * (few + many + 1.0) / 12.0).sqrt()
}

pub(crate) fn count(number: usize) -> f64 {
    u32::try_from(number).map_or(f64::MAX, f64::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_lie_between_neighbours() {
        let values = [4.0, 1.0, 3.0, 2.0];
        assert!((median(&values) - 2.5).abs() < 1e-12);
        assert!((quantile(&values, 0.0) - 1.0).abs() < 1e-12);
        assert!((quantile(&values, 1.0) - 4.0).abs() < 1e-12);
        assert!(median(&[]).is_nan());
        assert!((mean(&values) - 2.5).abs() < 1e-12);
    }

    #[test]
    fn the_test_is_mann_and_whitneys() {
        // U of two separated samples of three is 9 of 9. The mean is 4.5, the variance 5.25.
        let expected = 4.5 / 5.25_f64.sqrt();
        assert!((deviate(&[1.0, 2.0, 3.0], &[4.0, 5.0, 6.0]) - expected).abs() < 1e-12);
        assert!((deviate(&[4.0, 5.0, 6.0], &[1.0, 2.0, 3.0]) + expected).abs() < 1e-12);
        assert!(deviate(&[1.0, 1.0], &[1.0, 1.0, 1.0]).abs() < 1e-12);
        assert!(deviate(&[], &[1.0]).abs() < 1e-12);
    }
}
