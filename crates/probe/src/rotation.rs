//! The rotation: whatever the drive does at one sector, it ends when that sector has come round.
//!
//! So the times between the ends of durable writes of the same sector are whole revolutions, with random pauses in between;
//! where writes do not wait for the medium, the times between reads of it are, provided that the cache has forgotten it.

use straddle_io::Operation;

use crate::budget::Step;
use crate::session::{Durable, Session};
use crate::statistics::{count, median};

/// Intervals that are measured.
const INTERVALS: usize = 24;
/// The periods that are looked for, in seconds: 20000 to 2400 revolutions a minute.
const PERIODS: (f64, f64) = (0.003, 0.025);
/// Periods that are less than this share of the longest are fractions of it.
const BESIDE: f64 = 0.75;
/// The longest pause.
const LONGEST_PAUSE: f64 = 0.025;
/// Of a random series the coherence rarely exceeds 0.7; of a rotation it is 1.
const COHERENT: f64 = 0.85;

/// The period in a series of intervals, if there is one.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Series {
    /// Seconds of a revolution.
    pub(crate) period: Option<f64>,
    /// How well the period fits, 0 to 1.
    pub(crate) coherence: f64,
}

/// By durable writes of one sector.
pub(crate) fn by_writes(session: &mut Session<'_>, how: Durable) -> Step<Series> {
    let (slot, length) = (session.slot(), session.logical);
    session.prepare(&[(slot, length)])?;
    let mut ends = Vec::new();
    for _ in 0..=INTERVALS {
        let pause = pause(session);
        session.pause(pause);
        session.durable(how, slot, length)?;
        ends.push(session.now().get());
    }
    Ok(series(&ends))
}

/// By reads of one sector, with so many others in between that it comes from the medium. `usual` is what a read from the medium
/// takes.
pub(crate) fn by_reads(session: &mut Session<'_>, usual: f64) -> Step<Series> {
    let slot = session.slot();
    for others in [8, 32, 128] {
        let (mut ends, mut times) = (Vec::new(), Vec::new());
        for _ in 0..=INTERVALS {
            for _ in 0..others {
                let other = session.slot();
                session.one(Operation::Read, other, session.logical)?;
            }
            let pause = pause(session);
            session.pause(pause);
            times.push(session.one(Operation::Read, slot, session.logical)?);
            ends.push(session.now().get());
        }
        if median(&times) > usual / 4.0 {
            return Ok(series(&ends));
        }
    }
    Ok(Series::default())
}

fn pause(session: &mut Session<'_>) -> f64 {
    #[allow(clippy::cast_precision_loss, reason = "below a million")]
    let share = session.random.below(1_000_000) as f64 / 1e6;
    share * LONGEST_PAUSE
}

fn series(ends: &[u64]) -> Series {
    #[allow(clippy::cast_precision_loss, reason = "minutes in nanoseconds")]
    let intervals: Vec<f64> = ends.windows(2).map(|pair| (pair[1] - pair[0]) as f64 / 1e9).collect();
    let (period, coherence) = period(&intervals);
    Series { period: (coherence >= COHERENT).then_some(period), coherence }
}

/// The longest period of which the intervals are whole multiples, and how well it fits.
fn period(intervals: &[f64]) -> (f64, f64) {
    let longest = intervals.iter().copied().fold(PERIODS.1, f64::max);
    // From one candidate to the next the longest interval turns by a twentieth.
    let step = 0.05 / longest;
    let (mut frequency, mut candidates) = (1.0 / PERIODS.1, Vec::new());
    while frequency <= 1.0 / PERIODS.0 {
        candidates.push((1.0 / frequency, coherence(intervals, 1.0 / frequency)));
        frequency += step;
    }
    let best = candidates.iter().map(|candidate| candidate.1).fold(0.0, f64::max);
    // Every fraction of a period fits as well as the period; the candidates come from the longest.
    let near = |candidate: &&(f64, f64)| candidate.1 >= best - 0.05;
    let Some(&(longest, _)) = candidates.iter().find(near) else { return (0.0, 0.0) };
    // Where the intervals are many revolutions, a turn more or less in each fits nearly as well.
    let beside = candidates.iter().filter(near).filter(|candidate| candidate.0 > BESIDE * longest);
    let refined = beside.map(|candidate| {
        let period = refined(intervals, candidate.0);
        (period, coherence(intervals, period))
    });
    refined.max_by(|left, right| left.1.total_cmp(&right.1)).unwrap_or((0.0, 0.0))
}

/// The period near `rough` that suits most intervals.
fn refined(intervals: &[f64], rough: f64) -> f64 {
    let turns = |interval: &f64| (interval / rough).round();
    let whole = intervals.iter().filter(|interval| turns(interval) >= 1.0);
    median(&whole.map(|interval| interval / turns(interval)).collect::<Vec<_>>())
}

/// The length of the mean of all intervals as angles of the period: 1 if they are whole multiples.
fn coherence(intervals: &[f64], period: f64) -> f64 {
    let angle = |interval: &f64| std::f64::consts::TAU * interval / period;
    // Only the part along zero counts: whole multiples, and not multiples and a constant.
    intervals.iter().map(|interval| angle(interval).cos()).sum::<f64>() / count(intervals.len().max(1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use straddle_io::SplitMix64;

    #[test]
    fn the_longest_period_of_whole_multiples_is_found() {
        let intervals: Vec<f64> = [1.0, 2.0, 3.0, 1.0, 2.0, 5.0].iter().map(|k| k / 90.0).collect();
        let (period, coherence) = period(&intervals);
        assert!((period - 1.0 / 90.0).abs() < 1e-9 && coherence > 0.99, "{period} {coherence}");
    }

    #[test]
    fn random_intervals_have_no_period() {
        for seed in 0..200 {
            let mut random = SplitMix64::new(seed);
            let interval = |_| f64::from(u32::try_from(random.below(25_000)).unwrap_or(0)) / 1e6;
            let intervals: Vec<f64> = (0..INTERVALS).map(interval).collect();
            assert!(period(&intervals).1 < COHERENT, "seed {seed}");
        }
    }
}
