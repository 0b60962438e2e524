//! Runs of sectors on flash: what a byte costs, alone and in its unit.
//!
//! Flash programs whole units. So a unit that is written in part costs as much as a whole one, or more: of sectors at random
//! places each costs a unit, of sectors one after the other each costs its own bytes. Where the drive is slower than its
//! host, that is a factor of two at least for any unit that is larger than a sector, however large. If there is none, the
//! sector is the unit; else it is the shortest run, on its own boundaries, that costs no more than going on does.

use crate::budget::Step;
use crate::statistics::{count, median, quantile};
use crate::sustained::{
    CHUNK, Kind, LARGEST_UNIT, Places, SLOWER, Search, Sustained, Told, boundary, slope,
};
use straddle_drive::Operation;

/// Sectors of a series.
const SECTORS: usize = 512;
/// Sectors of a write in order: few commands, so that not these are the limit.
const TOGETHER: usize = 4;
/// A flush waits for what is under way, too: the cost is what a long burst takes longer than a short one.
const BURSTS: [usize; 2] = [128, 896];
/// Rounds of a comparison.
const ROUNDS: usize = 3;
/// At most so many bytes fill the cache.
const FILLING: u64 = 28 << 20;
/// A sector alone that costs less than this is no part of a unit, which would make it 2 or more; a run that costs less is whole
/// units.
const WHOLE: f64 = 1.7;

impl Search<'_, '_> {
    /// The unit by runs, where the drive is slower than its host; with `flushes` if a flush waits for flash.
    pub(crate) fn runs(&mut self, flushes: bool) -> Step<Told> {
        self.flushes = flushes;
        if !flushes && !self.fill_in_order()? {
            return Ok(Told::Nothing);
        }
        let logical = self.session.logical;
        self.session.tell("sectors one after the other, and at random places");
        let (mut order, mut alone) = (Vec::new(), Vec::new());
        for _ in 0..ROUNDS {
            order.push(self.run_cost(TOGETHER as u64 * logical, Places::Next)?);
            if order.last().is_none_or(|cost| *cost < SLOWER * self.unhindered) {
                return Ok(Told::Nothing);
            }
            alone.push(self.run_cost(logical, self.anywhere(logical))?);
            if median(&alone) > 2.0 * median(&order) {
                break;
            }
        }
        if median(&alone) < WHOLE * median(&order) {
            return Ok(Told::Flat);
        }
        if flushes {
            return Ok(Told::Nothing);
        }
        let limit = WHOLE * median(&order);
        let mut size = 2 * logical;
        while size <= LARGEST_UNIT {
            if self.run_cost(size, self.anywhere(size))? < limit {
                return self.prove_runs(size);
            }
            size *= 2;
        }
        Ok(Told::Nothing)
    }

    fn prove_runs(&mut self, size: u64) -> Step<Told> {
        let (Some(unit), Some(half)) = (boundary(size, 0), boundary(size, size / 2)) else {
            return Ok(Told::Nothing);
        };
        let mut proof = Sustained::new(unit, false, SECTORS);
        for _ in 0..ROUNDS {
            let kinds = [
                (size, Places::On(half), 2),
                (size, Places::On(unit), 1),
                (size / 2, self.anywhere(size / 2), 3),
                (size, Places::Off(unit), 0),
            ];
            for (length, places, index) in kinds {
                let cost = self.run_cost(length, places)?;
                proof.push(index, cost);
                if !proof.is_possible() {
                    return Ok(Told::Nothing);
                }
            }
        }
        Ok(if proof.is_proof() { Told::Unit(proof) } else { Told::Nothing })
    }

    /// On the boundaries of a run's own size.
    fn anywhere(&self, size: u64) -> Places {
        boundary(size, 0).map_or(Places::Next, Places::On)
    }

    /// Writes sectors in order until each has to wait; whether it comes to that.
    fn fill_in_order(&mut self) -> Step<bool> {
        let logical = self.session.logical;
        let kind = Kind { places: Places::Next, length: TOGETHER as u64 * logical, over: false };
        let mut written = 0;
        self.session.tell("sectors in order, until the cache is full");
        while written < FILLING {
            let ends = self.write(kind, SECTORS / TOGETHER)?;
            self.note_unhindered(&ends, TOGETHER);
            if slope(&ends[ends.len() / 2..]) / count(TOGETHER) > SLOWER * self.unhindered {
                return Ok(true);
            }
            written += SECTORS as u64 * logical;
        }
        Ok(false)
    }

    /// Seconds for each sector of runs of `length` bytes.
    fn run_cost(&mut self, length: u64, places: Places) -> Step<f64> {
        let sectors = usize::try_from(length / self.session.logical).unwrap_or(1).max(1);
        let kind = Kind { places, length, over: false };
        if !self.flushes {
            let ends = self.write(kind, SECTORS / sectors)?;
            let measured = &ends[ends.len() / 4..];
            return Ok(slope(measured) / count(sectors));
        }
        let mut times = Vec::new();
        for burst in BURSTS {
            let began = self.session.now();
            let ends = self.write(kind, burst / sectors)?;
            self.note_unhindered(&ends, sectors);
            self.session.one(Operation::Flush, 0, 0)?;
            times.push(self.session.now().since(began).seconds());
        }
        Ok((times[1] - times[0]) / count(BURSTS[1] - BURSTS[0]))
    }

    /// What a sector takes while nothing hinders it.
    fn note_unhindered(&mut self, ends: &[u64], sectors: usize) {
        let chunks: Vec<f64> = ends.windows(CHUNK + 1).step_by(CHUNK).map(slope).collect();
        self.unhindered = self.unhindered.min(quantile(&chunks, 0.1) / count(sectors));
    }

    /// The next place in order: to the end of a slot, and on in another.
    pub(super) fn next_place(&mut self, length: u64) -> u64 {
        if self.next + length > self.next_end {
            self.next = self.session.slot();
            self.next_end = self.next + crate::session::SLOT;
        }
        self.next += length;
        self.next - length
    }
}
