//! The phase scan: durable writes of one size at every phase.
//!
//! A write costs no read-modify-write if, and only if, it begins and ends on a boundary of the drive's units. So among
//! writes of a multiple of the unit, those of one phase and its repetitions are cheap, and that pattern gives the unit and
//! where it begins at once. A pattern is only a suspicion: it becomes a finding when fresh writes of the unit's own size,
//! in random order and at random places, are cheaper at the suspected boundaries than off them, than half a unit away
//! (else the unit is half as large), and than writes that are one sector shorter (else it is larger).

use std::ops::Range;

use straddle_units::{Boundary, ByteCount, ByteOffset};

use crate::budget::Step;
use crate::session::{Durable, LARGEST_UNIT, SLOT, Session, Shot};
use crate::statistics::{deviate, median};

/// The sizes that are scanned, with how often: a small one finds small units for little.
const SCANS: [(u64, usize); 3] = [(4096, 12), (16_384, 6), (LARGEST_UNIT, 3)];
/// And more often on drives with larger sectors, up to so many times.
const MOST_TIMES: usize = 4;
/// So many suspicions of a scan are looked into.
const SUSPICIONS: usize = 4;
/// Rounds of one look, and the most.
const ROUNDS: usize = 16;
const MOST_ROUNDS: usize = 96;
/// Standard deviations beyond which a difference is one: by chance one in 300000.
const CERTAIN: f64 = 4.5;
/// Beyond this two kinds are not of one sort: by chance one in 700.
const UNLIKE: f64 = 3.0;
/// Below this it is the other way round.
const REVERSED: f64 = -1.0;
/// Below this after two looks nothing is to be expected.
const HOPELESS: f64 = 1.5;

/// Durable writes of one size at each phase.
#[derive(Clone, Debug, PartialEq)]
pub struct PhaseScan {
    /// What made the writes durable.
    pub how: Durable,
    /// Bytes of each write.
    pub size: u64,
    /// Distance of the phases, in bytes: the logical sector.
    pub step: u64,
    /// Seconds of each write, by phase.
    pub times: Vec<Vec<f64>>,
}

/// Four kinds of writes that tell whether a unit is what is suspected, with the seconds of each.
#[derive(Clone, Debug, PartialEq)]
pub struct Contrast {
    /// The suspected unit and where it begins.
    pub unit: Boundary,
    /// What made the writes durable.
    pub how: Durable,
    /// Writes of a unit, on its boundaries.
    pub whole: Vec<f64>,
    /// The same, off the boundaries.
    pub off: Vec<f64>,
    /// The same, half a unit from the boundaries.
    pub half: Vec<f64>,
    /// Writes from a boundary that end a logical sector before the next.
    pub short: Vec<f64>,
}

/// What scanning has found.
#[derive(Clone, Debug, Default)]
pub(crate) struct Scanned {
    pub(crate) scans: Vec<PhaseScan>,
    /// The proof of the unit.
    pub(crate) proof: Option<Contrast>,
    /// Some scan had a pattern that no look could confirm.
    pub(crate) contradicted: bool,
}

/// Scans with ever larger writes until the unit is found, with writes of such sizes. What was found before the budget
/// ended stays in `scanned`.
pub(crate) fn run(
    session: &mut Session<'_>,
    how: Durable,
    sizes: Range<u64>,
    scanned: &mut Scanned,
) -> Step<()> {
    for (size, rounds) in SCANS.into_iter().filter(|(size, _)| sizes.contains(size)) {
        // A flush need not mean the write's own place; then sustained writes will tell, and need what may be written.
        if size <= session.logical || (how == Durable::Flush && size == LARGEST_UNIT) {
            continue;
        }
        session.tell(&format!("writes of {size} bytes at every phase"));
        // Larger sectors make fewer phases: as many bytes for more rounds.
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
            // The phase repeats within the slot: all repetitions are the same to a unit up to the size.
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
    /// The phases in bytes, each with the median seconds of its writes.
    pub fn medians(&self) -> impl Iterator<Item = (u64, f64)> + '_ {
        self.times.iter().zip(0..).map(|(times, index)| (index * self.step, median(times)))
    }

    /// Every unit with its boundaries that the pattern could come from, the most likely first, with standard deviations.
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

    /// The times of each phase, each relative to the median of its round, so that drift between rounds does not count.
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

/// Measures the four kinds until they are told apart, or cannot be.
pub(crate) fn contrast(session: &mut Session<'_>, how: Durable, unit: Boundary) -> Step<Contrast> {
    let size = unit.size().get();
    session.tell(&format!("is it {size} bytes from byte {}?", unit.phase().get()));
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
    /// The least certain of the three differences, in standard deviations.
    pub fn weakest(&self) -> f64 {
        [&self.off, &self.half, &self.short]
            .into_iter()
            .map(|times| deviate(&self.whole, times))
            .fold(f64::INFINITY, f64::min)
    }

    /// Whether it proves the unit.
    pub fn is_proof(&self) -> bool {
        // Half a unit off the boundaries is off them, and no cheaper: else what differs is the transfer, and the unit is smaller.
        self.weakest() >= CERTAIN && deviate(&self.half, &self.off) < UNLIKE
    }

    /// How much longer a write off the boundaries takes, in seconds; by the medians.
    pub fn cost(&self) -> f64 {
        median(&self.off) - median(&self.whole)
    }

    /// How many times as long.
    pub fn ratio(&self) -> f64 {
        median(&self.off) / median(&self.whole)
    }
}
