//! The phase scan: durable writes of one size at every phase.
//!
//! A write costs no read-modify-write if, and only if, it begins and ends on boundaries of the drive's units.
//! So of all writes of a multiple of the unit, only those at one phase and its repetitions are cheap. That
//! pattern shows both the unit and where it begins. A pattern is only a suspicion. It becomes a finding if
//! new writes of the unit's own size, in random order and at random places, are cheaper on the suspected
//! boundaries than off them, than half a unit from them (otherwise the unit is half as large), and than
//! writes that are one sector shorter (otherwise the unit is larger).

use std::ops::Range;

use schemars::JsonSchema;
use serde::Serialize;
use straddle_units::{Boundary, ByteCount, ByteOffset};

use crate::probe::budget::Step;
use crate::probe::session::{Durable, LARGEST_UNIT, SLOT, Session, Shot};
use crate::probe::statistics::{deviate, median};

/// The write sizes of the scans, each with its number of rounds. Small writes find small units at little
/// cost.
const SCANS: [(u64, usize); 3] = [(4096, 12), (16_384, 6), (LARGEST_UNIT, 3)];
/// Larger sectors multiply the rounds, by this factor at most.
const MOST_TIMES: usize = 4;
/// Suspicions of a scan that are checked.
const SUSPICIONS: usize = 4;
/// Rounds of writes per check, and the most if it stays undecided.
const ROUNDS: usize = 16;
const MOST_ROUNDS: usize = 96;
/// Standard deviations from which a difference is certain: by chance one in 300000.
const CERTAIN: f64 = 4.5;
/// Standard deviations from which two kinds of writes are taken to differ: by chance one in 700.
const UNLIKE: f64 = 3.0;
/// Below this the difference is the opposite of what was expected.
const REVERSED: f64 = -1.0;
/// Below this after two checks, more writes are not expected to help.
const HOPELESS: f64 = 1.5;

/// The times of durable writes of one size at each phase.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct PhaseScan {
    /// How the writes were made durable.
    #[serde(skip)]
    pub how: Durable,
    /// The size of each write in bytes.
    #[serde(rename = "size_bytes")]
    pub size: u64,
    /// Distance between phases in bytes: the logical sector.
    #[serde(rename = "step_bytes")]
    pub step: u64,
    /// The duration of each write in seconds, by phase.
    #[serde(rename = "write_seconds")]
    pub times: Vec<Vec<f64>>,
}

/// Four kinds of writes that show whether a suspected unit is the real one, with the seconds of each write.
#[derive(Clone, Debug, PartialEq)]
pub struct Contrast {
    /// The suspected unit and where it begins.
    pub unit: Boundary,
    /// How the writes were made durable.
    pub how: Durable,
    /// Writes of one unit, on its boundaries.
    pub whole: Vec<f64>,
    /// Writes of one unit's size, off the boundaries.
    pub off: Vec<f64>,
    /// Writes of one unit's size, half a unit from the boundaries.
    pub half: Vec<f64>,
    /// Writes that begin on a boundary and end one logical sector before the next.
    pub short: Vec<f64>,
}

/// The results of scanning.
#[derive(Clone, Debug, Default)]
pub(crate) struct Scanned {
    pub(crate) scans: Vec<PhaseScan>,
    /// The proof of the unit, if one was found.
    pub(crate) proof: Option<Contrast>,
    /// Some scan showed a pattern that no check could confirm.
    pub(crate) contradicted: bool,
}

/// Scans with larger and larger writes, of sizes within `sizes`, until the unit is found. What was found
/// before the budget ended stays in `scanned`.
pub(crate) fn run(
    session: &mut Session<'_>,
    how: Durable,
    sizes: Range<u64>,
    scanned: &mut Scanned,
) -> Step<()> {
    for (size, rounds) in SCANS.into_iter().filter(|(size, _)| sizes.contains(size)) {
        // A flush may not force the write to its own place. Then sustained writes have to find the unit, and
        // this leaves them the bytes that may be written.
        if size <= session.logical || (how == Durable::Flush && size == LARGEST_UNIT) {
            continue;
        }
        session.tell(&format!("writes of {size} bytes at every offset"));
        // Larger sectors make fewer phases, so more rounds write the same number of bytes.
        let rounds = rounds * usize::try_from(session.logical / 512).unwrap_or(1).min(MOST_TIMES);
        scanned.scans.push(scan(session, how, size, rounds)?);
        let Some(scan) = scanned.scans.last() else { continue };
        let suspicions = scan.suspicions();
        for (unit, strength) in suspicions.into_iter().take(SUSPICIONS) {
            let contrast = contrast(session, how, unit)?;
            if contrast.is_proof() {
                scanned.proof = Some(contrast);
                return Ok(());
            }
            scanned.contradicted |= strength > CERTAIN + 1.0;
        }
    }
    Ok(())
}

fn scan(session: &mut Session<'_>, how: Durable, size: u64, rounds: usize) -> Step<PhaseScan> {
    let step = session.logical;
    let phases = usize::try_from(size / step).unwrap_or(1);
    let mut times = vec![Vec::new(); phases];
    for _ in 0..rounds {
        let mut shots = Vec::new();
        for (arm, phase) in (0..size).step_by(usize::try_from(step).unwrap_or(1)).enumerate() {
            // The phase repeats within the slot. For a unit no larger than `size`, all repetitions are
            // equivalent.
            let repetition = session.random.below((SLOT - size) / size) * size;
            shots.push(Shot { arm, offset: session.slot() + repetition + phase, length: size });
        }
        for (arm, seconds) in session.shoot(how, shots)? {
            times[arm].push(seconds);
        }
    }
    Ok(PhaseScan { how, size, step, times })
}

impl PhaseScan {
    /// Returns the phases in bytes, each with the median seconds of its writes.
    pub fn medians(&self) -> impl Iterator<Item = (u64, f64)> + '_ {
        self.times.iter().zip(0..).map(|(times, index)| (index * self.step, median(times)))
    }

    /// Returns every unit and phase that the pattern could come from, the most likely first, each with its
    /// strength in standard deviations.
    fn suspicions(&self) -> Vec<(Boundary, f64)> {
        let rounds = self.relative();
        let mut suspicions = Vec::new();
        let mut unit = 2 * self.step;
        while unit <= self.size {
            let mut phase = 0;
            while phase < unit {
                if let Some(boundary) = Boundary::new(ByteCount::new(unit), ByteCount::new(phase)) {
                    let split = |aligned: bool| -> Vec<f64> {
                        let of =
                            |index: &u64| boundary.is_aligned(ByteOffset::new(index * self.step)) == aligned;
                        let chosen = rounds.iter().zip(0_u64..).filter(|(_, index)| of(index));
                        chosen.flat_map(|(values, _)| values.iter().copied()).collect()
                    };
                    suspicions.push((boundary, deviate(&split(true), &split(false))));
                }
                phase += self.step;
            }
            unit *= 2;
        }
        suspicions.sort_by(|left, right| right.1.total_cmp(&left.1));
        suspicions
    }

    /// Returns the times of each phase relative to the median of their round, so that drift between rounds
    /// does not count.
    fn relative(&self) -> Vec<Vec<f64>> {
        let rounds = self.times.iter().map(Vec::len).min().unwrap_or(0);
        let medians: Vec<f64> = (0..rounds)
            .map(|round| median(&self.times.iter().map(|times| times[round]).collect::<Vec<_>>()))
            .collect();
        let scale =
            |times: &Vec<f64>| times.iter().zip(&medians).map(|(time, middle)| time / middle).collect();
        self.times.iter().map(scale).collect()
    }
}

/// Measures the four kinds of writes until they differ, or cannot be distinguished.
pub(crate) fn contrast(session: &mut Session<'_>, how: Durable, unit: Boundary) -> Step<Contrast> {
    let size = unit.size().get();
    session.tell(&format!("testing {size} bytes from byte {}", unit.phase().get()));
    let half = Boundary::new(unit.size(), ByteCount::new(unit.phase().get() + size / 2)).unwrap_or(unit);
    let mut contrast =
        Contrast { unit, how, whole: Vec::new(), off: Vec::new(), half: Vec::new(), short: Vec::new() };
    while contrast.whole.len() < MOST_ROUNDS {
        let mut shots = Vec::new();
        for _ in 0..ROUNDS {
            let phases = [
                (session.phase(unit, true), size),
                (session.phase(unit, false), size),
                (session.phase(half, true), size),
                (session.phase(unit, true), size - session.logical),
            ];
            for (arm, (phase, length)) in phases.into_iter().enumerate() {
                shots.push(Shot { arm, offset: session.slot() + phase, length });
            }
        }
        for (arm, seconds) in session.shoot(how, shots)? {
            let times = [&mut contrast.whole, &mut contrast.off, &mut contrast.half, &mut contrast.short];
            if let Some(times) = times.into_iter().nth(arm) {
                times.push(seconds);
            }
        }
        let weakest = contrast.weakest();
        let looked = contrast.whole.len();
        let settled = !(REVERSED..CERTAIN).contains(&weakest);
        if settled || (looked >= 2 * ROUNDS && weakest < HOPELESS) {
            break;
        }
    }
    Ok(contrast)
}

impl Contrast {
    /// Returns the least certain of the three differences, in standard deviations.
    pub fn weakest(&self) -> f64 {
        [&self.off, &self.half, &self.short]
            .into_iter()
            .map(|times| deviate(&self.whole, times))
            .fold(f64::INFINITY, f64::min)
    }

    /// Whether it proves the unit.
    pub fn is_proof(&self) -> bool {
        // Writes half a unit from the boundaries must cost what other writes off them cost. If they are
        // cheaper, the difference comes from the transfer, and the unit is smaller.
        self.weakest() >= CERTAIN && deviate(&self.half, &self.off) < UNLIKE
    }

    /// Returns how much longer a write off the boundaries takes, in seconds, by the medians.
    pub fn cost(&self) -> f64 {
        median(&self.off) - median(&self.whole)
    }

    /// Returns how many times as long a write off the boundaries takes, by the medians.
    pub fn ratio(&self) -> f64 {
        median(&self.off) / median(&self.whole)
    }
}
