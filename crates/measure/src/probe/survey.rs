//! Measures requests of each kind, before anything is known of the drive.

use straddle_units::Boundary;
use straddle_units::io::Operation;

use crate::probe::budget::Step;
use crate::probe::session::{Durable, SLOT, Session};
use crate::probe::statistics::{median, quantile};

/// Requests per kind; twice as many reads.
const COUNT: usize = 12;
/// Seconds between writes to a disk: the idle time empties a cache that a flush does not, so that no write
/// waits for room.
const REST: f64 = 0.6;
const SIZE: u64 = 16_384;
/// Seconds that a read from a platter takes at least: under half a revolution of the fastest disk.
pub(crate) const MECHANICAL: f64 = 0.0015;

/// Seconds of single requests of each kind at random places.
#[derive(Clone, Debug, Default)]
pub(crate) struct Survey {
    /// Reads of one logical sector.
    pub(crate) read: Vec<f64>,
    /// Writes that may stay in the cache, each to an empty cache.
    pub(crate) plain: Vec<f64>,
    /// Writes including the flush after them.
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
    /// Returns what makes writes wait for the medium. FUA is preferred: a flush may be satisfied elsewhere
    /// than at the write's own place.
    pub(crate) fn durable(&self) -> Option<Durable> {
        let waits = |times: &[f64]| {
            if !self.is_mechanical() {
                return median(times) > 3.0 * self.cached();
            }
            // Waiting for a sector to come round takes a different time on every request, a slow link the
            // same.
            let read = median(&self.read);
            let spread = quantile(times, 0.75) - quantile(times, 0.25);
            median(times) > read / 4.0 && spread > read / 20.0
        };
        if waits(&self.fua) { Some(Durable::Fua) } else { waits(&self.flushed).then_some(Durable::Flush) }
    }

    /// Returns the seconds of a write into the cache. The first quartile leaves out writes that had to wait
    /// for the medium after all.
    pub(crate) fn cached(&self) -> f64 {
        quantile(&self.plain, 0.25)
    }

    pub(crate) fn is_mechanical(&self) -> bool {
        median(&self.read) > MECHANICAL
    }
}
