//! How long the arm takes to move over a number of tracks, settling included.

use straddle_units::io::Nanos;

/// Distances up to this have a table entry each; 4 KiB random writes in a small file move no further.
const NEAR: usize = 1024;
/// With no more tracks than this, every distance has one: measured tables have a point every 25 to 100 tracks.
const FEW: u32 = 1 << 14;
/// Beyond, there is a knot every this many tracks, with straight lines between them.
const STEP: usize = 256;
/// Log2 of the step of the table of distances by time, in nanoseconds: 65.5 µs.
const REACH_SHIFT: u32 = 16;

/// A seek curve as tables of whole nanoseconds, the same on every machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SeekCurve {
    near: Vec<u32>,
    /// The time at each knot, and its increase up to the next.
    far: Vec<(u32, i32)>,
    /// For each index, the longest distance that takes at most (index + 1) << [`REACH_SHIFT`] nanoseconds.
    reach: Vec<u32>,
    longest: u32,
}

/// What a data sheet means by average seek time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AverageSeek {
    /// The mean over all pairs of different tracks (Hitachi's and Seagate's definition).
    #[default]
    AllPairs,
    /// The time over a third of the tracks.
    ThirdOfStroke,
}

/// Why times do not form a seek curve.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[allow(missing_docs, reason = "the messages document the variants")]
pub enum SeekError {
    #[error("{milliseconds} ms over {distance} tracks is not a possible seek time")]
    Time { distance: u32, milliseconds: f64 },
    #[error(
        "a seek over {longer} tracks would take less time ({faster}) than one over {shorter} ({slower}). \
         Perhaps the average seek time is too close to the track-to-track or full-stroke time"
    )]
    Falling { shorter: u32, slower: Nanos, longer: u32, faster: Nanos },
    #[error(
        "the distance in entry {index} must be at least 1, and larger than the distance in the previous entry"
    )]
    Order { index: usize },
}

straddle_units::error_kind!(SeekError: Usage);

impl SeekCurve {
    /// A curve through measured points (distance in tracks, milliseconds), constant after the last.
    pub fn from_table(points: &[(u32, f64)], longest: u32) -> Result<Self, SeekError> {
        let first = points.first().ok_or(SeekError::Order { index: 0 })?;
        let mut before = (0, 0.0);
        for (index, &(distance, milliseconds)) in points.iter().enumerate() {
            if distance <= before.0 {
                return Err(SeekError::Order { index });
            }
            if !(0.0..4000.0).contains(&milliseconds) {
                return Err(SeekError::Time { distance, milliseconds });
            }
            before = (distance, milliseconds);
        }
        Ok(Self::sampled(longest, |distance| {
            if distance <= first.0 {
                return first.1;
            }
            let upper = points.partition_point(|point| point.0 < distance);
            let Some(&(right, slow)) = points.get(upper) else { return before.1 };
            let (left, fast) = points[upper - 1];
            fast + (slow - fast) * f64::from(distance - left) / f64::from(right - left)
        }))
    }

    /// The curve a + b·√d + c·d through a data sheet's track-to-track, average and full-stroke times.
    pub fn fitted(
        single: f64,
        average: f64,
        full: f64,
        of: AverageSeek,
        longest: u32,
    ) -> Result<Self, SeekError> {
        for (distance, milliseconds) in [(1, single), (longest / 3, average), (longest, full)] {
            if !(0.0..4000.0).contains(&milliseconds) {
                return Err(SeekError::Time { distance, milliseconds });
            }
        }
        let far = f64::from(longest.max(3));
        // The mean of √d and of d over the distances that the definition covers.
        let (mean_root, mean) = match of {
            // Weight (n + 1 - d): the integrals of √x and x against 2(1 - x) over 0..1 are 8/15 and 1/3.
            AverageSeek::AllPairs => (far.sqrt() * 8.0 / 15.0, far / 3.0),
            AverageSeek::ThirdOfStroke => ((far / 3.0).sqrt(), far / 3.0),
        };
        // Two equations for b and c, with a = single - b - c.
        let (root_full, root_mean) = (far.sqrt() - 1.0, mean_root - 1.0);
        let (line_full, line_mean) = (far - 1.0, mean - 1.0);
        let determinant = root_full * line_mean - root_mean * line_full;
        let mut b = ((full - single) * line_mean - (average - single) * line_full) / determinant;
        let mut c = (root_full * (average - single) - root_mean * (full - single)) / determinant;
        if !(b.is_finite() && c.is_finite()) {
            // With so few tracks that a third of them is one, the curve is a straight line.
            (b, c) = (0.0, (full - single) / line_full);
        }
        let a = single - b - c;
        let time = |distance: u32| a + b * f64::from(distance).sqrt() + c * f64::from(distance);
        let curve = Self::sampled(longest, |distance| time(distance).max(0.0));
        curve.rising()?;
        Ok(curve)
    }

    fn sampled(longest: u32, milliseconds: impl Fn(u32) -> f64) -> Self {
        #[allow(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "0 to 4 s, as every caller checks"
        )]
        let nanos = |distance: u32| (milliseconds(distance) * 1e6).round() as u32;
        let each = if longest <= FEW { NEAR.max(longest as usize) } else { NEAR };
        let near = (0..=each).map(|distance| if distance == 0 { 0 } else { nanos(clamp(distance, longest)) });
        let knots = longest as usize / STEP + 2;
        let knot = |knot: usize| if knot == 0 { 0 } else { nanos(clamp(knot * STEP, u32::MAX)) };
        let far =
            (0..knots).map(|index| (knot(index), knot(index + 1).wrapping_sub(knot(index)).cast_signed()));
        Self { near: near.collect(), far: far.collect(), reach: Vec::new(), longest }.with_reach()
    }

    fn knots(&self) -> impl Iterator<Item = u32> {
        let (longest, last) = (self.longest, self.near.len() - 1);
        let knots = (0..=last).chain((last..=longest as usize + STEP).step_by(STEP));
        knots.map(move |knot| clamp(knot, longest))
    }

    fn with_reach(mut self) -> Self {
        let mut reach = vec![0];
        // The knots determine the reach of a time to within one step.
        for distance in self.knots() {
            let slot = usize::try_from(self.time(distance).get() >> REACH_SHIFT).unwrap_or(0);
            if reach.len() <= slot {
                reach.resize(slot + 1, 0);
            }
            let beyond = clamp(distance as usize + STEP, self.longest);
            reach[slot] = reach[slot].max(beyond);
        }
        for slot in 1..reach.len() {
            reach[slot] = reach[slot].max(reach[slot - 1]);
        }
        self.reach = reach;
        self
    }

    /// A distance beyond which no seek takes less than `time`; some shorter seeks may take more.
    pub fn reach(&self, time: Nanos) -> u32 {
        let slot = usize::try_from(time.get() >> REACH_SHIFT).unwrap_or(usize::MAX);
        self.reach.get(slot).copied().unwrap_or(self.longest)
    }

    pub(super) fn shortened(&self, time: Nanos) -> Self {
        let time = u32::try_from(time.get()).unwrap_or(u32::MAX);
        let near = self.near.iter().map(|nanos| nanos.saturating_sub(time)).collect();
        let knots = self.far.iter().enumerate();
        let far = knots.map(
            |(knot, &(low, more))| if knot == 0 { (low, more) } else { (low.saturating_sub(time), more) },
        );
        Self { near, far: far.collect(), reach: Vec::new(), longest: self.longest }.with_reach()
    }

    /// A distance over which this curve takes less time than `other`, if there is one.
    pub fn undercuts(&self, other: &Self) -> Option<u32> {
        self.knots().skip(1).find(|&distance| self.time(distance) < other.time(distance))
    }

    fn rising(&self) -> Result<(), SeekError> {
        let mut before = (1, self.time(1));
        for distance in self.knots().skip(2) {
            let time = self.time(distance);
            if time < before.1 {
                let (shorter, slower) = before;
                return Err(SeekError::Falling { shorter, slower, longer: distance, faster: time });
            }
            before = (distance, time);
        }
        Ok(())
    }

    /// The time over `distance` tracks; zero over none.
    #[inline]
    pub fn time(&self, distance: u32) -> Nanos {
        let distance = distance as usize;
        if let Some(&nanos) = self.near.get(distance) {
            return Nanos::new(u64::from(nanos));
        }
        let knot = (distance / STEP).min(self.far.len() - 1);
        let (low, more) = self.far[knot];
        let inside = (distance - knot * STEP).min(STEP);
        #[allow(clippy::cast_possible_wrap, reason = "at most STEP")]
        let way = inside as i64;
        Nanos::new((i64::from(low) + ((i64::from(more) * way) >> STEP.trailing_zeros())).cast_unsigned())
    }

    /// The longest possible distance, in tracks.
    pub const fn longest(&self) -> u32 {
        self.longest
    }

    /// The mean time over all pairs of different tracks.
    pub fn average(&self) -> Nanos {
        let (mut time, mut weight) = (0_u128, 0_u128);
        let step = (self.longest / 20_000).max(1);
        let mut distance = 1;
        while distance <= self.longest {
            let pairs = u128::from(self.longest + 1 - distance);
            time += pairs * u128::from(self.time(distance).get());
            weight += pairs;
            distance += step;
        }
        Nanos::new(u64::try_from(time / weight.max(1)).unwrap_or(u64::MAX))
    }
}

fn clamp(distance: usize, longest: u32) -> u32 {
    u32::try_from(distance).unwrap_or(u32::MAX).min(longest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fitted_curve_goes_through_the_data_sheet() {
        for of in [AverageSeek::AllPairs, AverageSeek::ThirdOfStroke] {
            let curve = SeekCurve::fitted(0.8, 8.9, 18.0, of, 300_000).unwrap();
            assert!((curve.time(1).millis() - 0.8).abs() < 0.001);
            assert!((curve.time(300_000).millis() - 18.0).abs() < 0.01);
            let average = if of == AverageSeek::AllPairs { curve.average() } else { curve.time(100_000) };
            assert!((average.millis() - 8.9).abs() < 0.05, "{average}");
        }
    }

    #[test]
    fn a_table_is_kept_exactly_and_interpolated_between() {
        let curve = SeekCurve::from_table(&[(1, 1.0), (3, 2.0), (2560, 9.0)], 8000).unwrap();
        assert_eq!(curve.time(0), Nanos::ZERO);
        assert_eq!(curve.time(2).get(), 1_500_000);
        assert_eq!(curve.time(2560).get(), 9_000_000);
        assert_eq!(curve.time(8000).get(), 9_000_000);
        // Also where the points are closer than the knots of a longer table.
        let curve = SeekCurve::from_table(&[(1, 1.0), (1100, 3.0), (1200, 5.0), (5000, 9.0)], 5000).unwrap();
        assert_eq!([1100, 1150, 1200].map(|distance| curve.time(distance).get() / 1000), [3000, 4000, 5000]);
    }

    #[test]
    fn nothing_out_of_reach_is_quick() {
        let table = [(1, 1.0), (40, 0.7), (3000, 5.0), (9000, 4.0), (20_000, 11.0)];
        for curve in [
            SeekCurve::from_table(&table, 30_000).unwrap(),
            SeekCurve::fitted(0.8, 8.9, 18.0, AverageSeek::AllPairs, 30_000).unwrap(),
        ] {
            for micros in (0..20_000).step_by(7) {
                let time = Nanos::new(micros * 1000);
                let reach = curve.reach(time);
                assert!(
                    (reach + 1..=30_000).step_by(13).all(|distance| curve.time(distance) >= time),
                    "{time} {reach}"
                );
            }
        }
    }

    #[test]
    fn impossible_curves_are_refused() {
        assert!(matches!(
            SeekCurve::fitted(1.0, 0.5, 0.4, AverageSeek::AllPairs, 9999),
            Err(SeekError::Falling { .. })
        ));
        assert!(matches!(
            SeekCurve::from_table(&[(5, 1.0), (5, 2.0)], 10),
            Err(SeekError::Order { index: 1 })
        ));
        assert!(matches!(SeekCurve::from_table(&[(1, f64::NAN)], 10), Err(SeekError::Time { .. })));
    }
}
