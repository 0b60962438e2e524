//! Measures requests of each kind, before anything is known of the drive, and the rotation: whatever a drive does at
//! one sector completes when that sector comes round, so durable writes to it complete whole revolutions apart, even
//! with random pauses in between. If writes do not wait for the medium, reads of one sector that the read cache no
//! longer holds show the same.

use straddle_units::Boundary;
use straddle_units::io::Operation;

use crate::bench::float;
use crate::probe::session::{Durable, SLOT, Session, Step};
use crate::probe::statistics::{count, median, quantile};

/// Requests per kind; twice as many reads.
const COUNT: usize = 12;
/// Seconds between writes to a disk: idle time empties a cache that a flush does not, so that no write waits for
/// room.
const REST: f64 = 0.6;
const SIZE: u64 = 16_384;
/// Seconds that a read from a platter takes at least: under half a revolution of the fastest disk.
pub(crate) const MECHANICAL: f64 = 0.0015;

/// Seconds of single requests of each kind at random places.
#[derive(Clone, Debug, Default)]
pub(crate) struct Survey {
    pub(crate) read: Vec<f64>,
    /// Writes that may stay in the cache, each to an empty cache.
    pub(crate) plain: Vec<f64>,
    pub(crate) flushed: Vec<f64>,
    pub(crate) fua: Vec<f64>,
}

pub(crate) fn run(session: &mut Session<'_>, survey: &mut Survey) -> Step<()> {
    session.tell("reads and writes of each kind");
    for _ in 0..2 * COUNT {
        let slot = session.slot();
        survey.read.push(session.one(Operation::Read, slot, session.logical)?);
    }
    let places: Vec<(u64, u64)> = (0..2 * COUNT)
        .map(|_| {
            let phase = session.random.below((SLOT - SIZE) / session.logical) * session.logical;
            (session.slot() + phase, SIZE)
        })
        .collect();
    writes(session, survey, &places)
}

/// Repeats the writes with whole units, once the unit is known: some drives make only partial units wait.
pub(crate) fn of_units(session: &mut Session<'_>, before: &Survey, unit: Boundary) -> Step<Survey> {
    let mut survey = Survey { read: before.read.clone(), ..Survey::default() };
    session.tell("writes of whole units");
    let places: Vec<(u64, u64)> =
        (0..2 * COUNT).map(|_| (session.slot() + session.phase(unit, true), unit.size().get())).collect();
    writes(session, &mut survey, &places)?;
    Ok(survey)
}

fn writes(session: &mut Session<'_>, survey: &mut Survey, places: &[(u64, u64)]) -> Step<()> {
    session.prepare(places)?;
    let rest = if survey.is_mechanical() { REST } else { 0.0 };
    for pair in places.chunks_exact(2) {
        session.pause(rest);
        let ((first, length), (second, _)) = (pair[0], pair[1]);
        let write = session.one(Operation::Write, first, length)?;
        survey.plain.push(write);
        survey.flushed.push(write + session.one(Operation::Flush, 0, 0)?);
        session.pause(rest);
        survey.fua.push(session.one(Operation::WriteFua, second, length)?);
        session.one(Operation::Flush, 0, 0)?;
    }
    Ok(())
}

impl Survey {
    /// What makes writes wait for the medium; rather FUA, because a flush may be satisfied elsewhere than at the
    /// write's place.
    pub(crate) fn durable(&self) -> Option<Durable> {
        let waits = |times: &[f64]| {
            if !self.is_mechanical() {
                return median(times) > 3.0 * self.cached();
            }
            // Waiting for a sector takes a different time on every request, a slow link the same.
            let read = median(&self.read);
            let spread = quantile(times, 0.75) - quantile(times, 0.25);
            median(times) > read / 4.0 && spread > read / 20.0
        };
        if waits(&self.fua) { Some(Durable::Fua) } else { waits(&self.flushed).then_some(Durable::Flush) }
    }

    /// Seconds; the first quartile leaves out writes that had to wait for the medium after all.
    pub(crate) fn cached(&self) -> f64 {
        quantile(&self.plain, 0.25)
    }

    pub(crate) fn is_mechanical(&self) -> bool {
        median(&self.read) > MECHANICAL
    }
}

const INTERVALS: usize = 24;
/// The periods searched, in seconds: 20000 to 2400 revolutions per minute.
const PERIODS: (f64, f64) = (0.003, 0.025);
/// A fitting period below this share of the longest one is taken as a fraction of it.
const BESIDE: f64 = 0.75;
const LONGEST_PAUSE: f64 = 0.025;
/// The coherence of a rotation is 1; that of a random series rarely exceeds 0.7.
const COHERENT: f64 = 0.85;

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Series {
    /// Seconds per revolution.
    pub(crate) period: Option<f64>,
    /// How well the period fits, 0 to 1.
    pub(crate) coherence: f64,
}

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

/// With enough reads of other sectors in between that one is read from the medium again, in `usual` seconds.
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
    float(session.random.below(1_000_000)) / 1e6 * LONGEST_PAUSE
}

fn series(ends: &[u64]) -> Series {
    let intervals: Vec<f64> = ends.windows(2).map(|pair| float(pair[1] - pair[0]) / 1e9).collect();
    let (period, coherence) = period(&intervals);
    Series { period: (coherence >= COHERENT).then_some(period), coherence }
}

/// The longest period of which the intervals are whole multiples, and how well it fits.
fn period(intervals: &[f64]) -> (f64, f64) {
    let longest = intervals.iter().copied().fold(PERIODS.1, f64::max);
    // The phase of the longest interval changes by a twentieth of a revolution per candidate.
    let step = 0.05 / longest;
    let (mut frequency, mut candidates) = (1.0 / PERIODS.1, Vec::new());
    while frequency <= 1.0 / PERIODS.0 {
        candidates.push((1.0 / frequency, coherence(intervals, 1.0 / frequency)));
        frequency += step;
    }
    let best = candidates.iter().map(|candidate| candidate.1).fold(0.0, f64::max);
    // Every fraction of a period fits as well as the period itself. The candidates are in descending order.
    let near = |candidate: &&(f64, f64)| candidate.1 >= best - 0.05;
    let Some(&(longest, _)) = candidates.iter().find(near) else { return (0.0, 0.0) };
    // If the intervals are many revolutions long, one revolution more or less in each fits nearly as well.
    let beside = candidates.iter().filter(near).filter(|candidate| candidate.0 > BESIDE * longest);
    let refined = beside.map(|candidate| {
        let period = refined(intervals, candidate.0);
        (period, coherence(intervals, period))
    });
    refined.max_by(|left, right| left.1.total_cmp(&right.1)).unwrap_or((0.0, 0.0))
}

/// The period near `rough` that fits most intervals: the time by which they differ, per revolution by which they
/// differ. If each write goes to the next sector of a log, all are longer by that sector.
fn refined(intervals: &[f64], rough: f64) -> f64 {
    let turns = |interval: &f64| (interval / rough).round();
    let pairs = intervals.iter().enumerate().flat_map(|(index, one)| {
        let others = intervals[..index].iter().map(move |other| (one - other, turns(one) - turns(other)));
        others.filter(|(_, turns)| *turns != 0.0)
    });
    let slopes: Vec<f64> = pairs.map(|(time, turns)| time / turns).collect();
    if slopes.is_empty() { rough } else { median(&slopes) }
}

/// The mean of all intervals as angles of the period: 1 if they are whole multiples.
fn coherence(intervals: &[f64], period: f64) -> f64 {
    let angle = |interval: &f64| std::f64::consts::TAU * interval / period;
    // Only the component along zero counts, so that multiples plus a constant do not fit.
    intervals.iter().map(|interval| angle(interval).cos()).sum::<f64>() / count(intervals.len().max(1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use straddle_units::io::SplitMix64;

    #[test]
    fn the_longest_period_of_whole_multiples_is_found() {
        let intervals: Vec<f64> = [1.0, 2.0, 3.0, 1.0, 2.0, 5.0].iter().map(|k| k / 90.0).collect();
        let (period, coherence) = period(&intervals);
        assert!((period - 1.0 / 90.0).abs() < 1e-9 && coherence > 0.99, "{period} {coherence}");
    }

    #[test]
    fn a_log_does_not_lengthen_the_period() {
        let sector = 1.0 / 90.0 / 300.0;
        let intervals: Vec<f64> = [1.0, 2.0, 3.0, 1.0, 2.0, 5.0].iter().map(|k| k / 90.0 + sector).collect();
        let (period, _) = period(&intervals);
        assert!((period * 90.0 - 1.0).abs() < 1e-6, "{period}");
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
