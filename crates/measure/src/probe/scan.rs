//! The phase scan: durable writes of one size at every phase.
//!
//! Of all writes of a multiple of the unit, only those at one phase and its repetitions cost no read-modify-write.
//! That pattern raises a suspicion of the unit and where it begins. It becomes a finding if new writes of the unit's
//! own size, in random order and at random places, are cheaper on the suspected boundaries than off them, than half a
//! unit from them (otherwise the unit is half as large), and than writes that are one sector shorter (otherwise the
//! unit is larger).

use std::ops::Range;

use schemars::JsonSchema;
use serde::Serialize;
use straddle_units::{Boundary, ByteOffset};

use crate::probe::session::{Durable, LARGEST_UNIT, SLOT, Session, Shot, Step, boundary, units};
use crate::probe::statistics::{deviate, median};

/// The write sizes of the scans, each with its number of rounds: small units are found at little cost.
const SCANS: [(u64, usize); 3] = [(4096, 12), (16_384, 6), (LARGEST_UNIT, 3)];
/// Larger sectors multiply the rounds, by this factor at most.
const MOST_TIMES: usize = 4;
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

/// The times of durable writes of one size at each phase (the offset modulo the size).
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct PhaseScan {
    /// The size of each write in bytes.
    #[serde(rename = "size_bytes")]
    pub size: u64,
    /// The distance between phases in bytes: the logical sector size.
    #[serde(rename = "step_bytes")]
    pub step: u64,
    /// For each phase, the durations of its writes in seconds.
    #[serde(rename = "write_seconds")]
    pub times: Vec<Vec<f64>>,
}

/// Four kinds of writes that show whether a suspected unit is the real one.
#[derive(Clone, Debug, PartialEq)]
pub struct Contrast {
    pub(crate) unit: Boundary,
    /// The seconds of each write of one unit: on its boundaries, off them, half a unit from them; and of those from a
    /// boundary to one logical sector before the next.
    pub(crate) times: [Vec<f64>; 4],
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Scanned {
    pub(crate) scans: Vec<PhaseScan>,
    pub(crate) proof: Option<Contrast>,
    /// Some scan showed a pattern that no check could confirm.
    pub(crate) contradicted: bool,
}

/// Scans with larger and larger writes until the unit is found. `scanned` keeps what was found if the budget ends.
pub(crate) fn run(
    session: &mut Session<'_>,
    how: Durable,
    sizes: Range<u64>,
    scanned: &mut Scanned,
) -> Step<()> {
    for (size, rounds) in SCANS.into_iter().filter(|(size, _)| sizes.contains(size)) {
        // A flush may not force the write to its own place. Then sustained writes find the unit, and need the bytes
        // that may still be written.
        if size <= session.logical || (how == Durable::Flush && size == LARGEST_UNIT) {
            continue;
        }
        session.tell(&format!("writes of {size} bytes at every offset"));
        // Larger sectors make fewer phases, so more rounds write as many bytes.
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
            // All repetitions of the phase in the slot are equivalent for a unit no larger than `size`.
            let repetition = session.random.below((SLOT - size) / size) * size;
            shots.push(Shot { arm, offset: session.slot() + repetition + phase, length: size });
        }
        for (arm, seconds) in session.shoot(how, shots)? {
            times[arm].push(seconds);
        }
    }
    Ok(PhaseScan { size, step, times })
}

impl PhaseScan {
    /// Returns the phases in bytes, each with the median seconds of its writes.
    pub fn medians(&self) -> impl Iterator<Item = (u64, f64)> + '_ {
        self.times.iter().zip(0..).map(|(times, index)| (index * self.step, median(times)))
    }

    /// Every unit and phase that the pattern could come from, the most likely first, in standard deviations.
    fn suspicions(&self) -> Vec<(Boundary, f64)> {
        let rounds = self.relative();
        let strength = |unit: &Boundary| {
            let split = |aligned: bool| -> Vec<f64> {
                let of = |index: u64| unit.is_aligned(ByteOffset::new(index * self.step)) == aligned;
                rounds
                    .iter()
                    .zip(0..)
                    .filter(|(_, index)| of(*index))
                    .flat_map(|(values, _)| values.clone())
                    .collect()
            };
            deviate(&split(true), &split(false))
        };
        let mut suspicions: Vec<_> =
            units(self.step, self.size).map(|unit| (unit, strength(&unit))).collect();
        suspicions.sort_by(|left, right| right.1.total_cmp(&left.1));
        suspicions
    }

    /// Relative to the median of their round, so that drift between rounds does not count.
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

pub(crate) fn contrast(session: &mut Session<'_>, how: Durable, unit: Boundary) -> Step<Contrast> {
    let size = unit.size().get();
    session.tell(&format!("testing {size} bytes from byte {}", unit.phase().get()));
    let half = boundary(size, unit.phase().get() + size / 2);
    let mut contrast = Contrast { unit, times: Default::default() };
    while contrast.times[0].len() < MOST_ROUNDS {
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
            contrast.times[arm].push(seconds);
        }
        let weakest = contrast.weakest();
        let looked = contrast.times[0].len();
        let settled = !(REVERSED..CERTAIN).contains(&weakest);
        if settled || (looked >= 2 * ROUNDS && weakest < HOPELESS) {
            break;
        }
    }
    Ok(contrast)
}

impl Contrast {
    /// In standard deviations.
    pub(crate) fn weakest(&self) -> f64 {
        let [whole, others @ ..] = &self.times;
        others.iter().map(|times| deviate(whole, times)).fold(f64::INFINITY, f64::min)
    }

    fn is_proof(&self) -> bool {
        // Writes half a unit from the boundaries must cost what other writes off them cost: cheaper ones show a
        // smaller unit.
        let [_, off, half, _] = &self.times;
        self.weakest() >= CERTAIN && deviate(half, off) < UNLIKE
    }

    /// By the medians.
    pub(crate) fn ratio(&self) -> f64 {
        let [whole, off, ..] = &self.times;
        median(off) / median(whole)
    }
}
