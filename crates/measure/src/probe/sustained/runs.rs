//! Runs of sectors on flash: what a byte costs, in sequence and elsewhere.
//!
//! If the unit is larger than a sector, two sectors that begin at an odd one are at most half of what is programmed
//! for them, while sectors in sequence cost only their own bytes. If both cost the same per sector, and the drive is
//! slower than its host, the sector is the unit. Otherwise the unit is the size of runs that are cheap on their
//! boundaries and expensive half their length off them, both off the even boundaries and off the odd ones. In a
//! smaller unit they would be cheap there too, in a larger one off one of the two.

use straddle_units::Boundary;
use straddle_units::io::Operation;

use crate::probe::session::{SLOT, Step, boundary};
use crate::probe::statistics::{count, median, quantile};
use crate::probe::sustained::{
    CHUNK, Inferred, Kind, LARGEST_UNIT, Places, Placing, SLOWER, Search, Sustained, slope,
};

const SECTORS: usize = 512;
/// Sectors per write in sequence: few commands, so that their number is not the limit.
const TOGETHER: usize = 8;
/// Sectors in a short and a long burst. The difference leaves out that a flush waits for what is in progress.
const BURSTS: [usize; 2] = [128, 896];
const ROUNDS: usize = 3;
/// Bytes written at most to fill the cache.
const FILLING: u64 = 20 << 20;
/// Cost ratio below which a sector is not part of a larger unit, which would make it at least 2.
const WHOLE: f64 = 1.7;

impl Search<'_, '_> {
    /// `flushes` is set if a flush waits for flash.
    pub(crate) fn runs(&mut self, flushes: bool) -> Step<Inferred> {
        self.flushes = flushes;
        let bound = flushes || self.fill_in_order()?;
        let logical = self.session.logical;
        let pairs = boundary(2 * logical, 0);
        self.session.tell("sectors in sequence, and pairs at random positions");
        let (mut order, mut alone) = (Vec::new(), Vec::new());
        for _ in 0..ROUNDS {
            order.push(self.run_cost(TOGETHER as u64 * logical, Places::Next)?);
            if !bound || median(&order) < SLOWER * self.unhindered {
                break;
            }
            alone.push(self.run_cost(2 * logical, Places::Off(pairs))?);
            if median(&alone) > 2.0 * median(&order) {
                break;
            }
        }
        if median(&alone) < WHOLE * median(&order) {
            return Ok(Inferred::Flat);
        }
        if flushes { Ok(Inferred::Nothing) } else { self.shifted() }
    }

    /// Finds the unit by runs on their own boundaries and half their length off them.
    fn shifted(&mut self) -> Step<Inferred> {
        if self.session.slot_and_next().is_none() {
            return Ok(Inferred::Nothing);
        }
        let mut size = 2 * self.session.logical;
        while size <= LARGEST_UNIT {
            let (unit, half) = (boundary(size, 0), boundary(size, size / 2));
            self.session.tell(&format!("runs of {size} bytes, aligned and misaligned"));
            let (off, on) = (self.run_cost(size, Places::On(half))?, self.run_cost(size, Places::On(unit))?);
            if off > SLOWER * on
                && let Some(proof) = self.prove_runs(unit)?
            {
                return Ok(Inferred::Unit(proof));
            }
            size *= 2;
        }
        Ok(Inferred::Nothing)
    }

    fn prove_runs(&mut self, unit: Boundary) -> Step<Option<Sustained>> {
        let size = unit.size().get();
        // Half a run off the even and off the odd boundaries: in a larger unit, one of the two kinds lies inside.
        let (even, odd) = (boundary(2 * size, size / 2), boundary(2 * size, size / 2 + size));
        let mut proof = Sustained::new(unit, false, SECTORS);
        for _ in 0..ROUNDS {
            let kinds = [(Places::On(even), 2), (Places::On(unit), 1), (Places::On(odd), 2)];
            for (places, index) in kinds {
                let cost = self.run_cost(size, places)?;
                proof.push(index, cost);
                if !proof.is_possible() {
                    return Ok(None);
                }
            }
        }
        proof.dear.clone_from(&proof.half);
        Ok(proof.is_proof().then_some(proof))
    }

    /// Returns whether writes came to wait.
    fn fill_in_order(&mut self) -> Step<bool> {
        let logical = self.session.logical;
        let kind = Kind::within(Places::Next, TOGETHER as u64 * logical);
        let mut written = 0;
        self.session.tell("sectors in sequence, until the cache is full");
        while written < FILLING {
            let ends = self.write(kind, SECTORS / TOGETHER)?;
            let chunks: Vec<f64> = ends.windows(CHUNK + 1).step_by(CHUNK).map(slope).collect();
            self.unhindered = self.unhindered.min(quantile(&chunks, 0.1) / count(TOGETHER));
            if slope(&ends[ends.len() / 2..]) / count(TOGETHER) > SLOWER * self.unhindered {
                return Ok(true);
            }
            written += SECTORS as u64 * logical;
        }
        Ok(false)
    }

    fn run_cost(&mut self, length: u64, places: Places) -> Step<f64> {
        let sectors = usize::try_from(length / self.session.logical).unwrap_or(1).max(1);
        let kind = Kind { places, length, placing: Placing::Wide };
        if !self.flushes {
            let ends = self.write(kind, SECTORS / sectors)?;
            let measured = &ends[ends.len() / 4..];
            return Ok(slope(measured) / count(sectors));
        }
        let mut times = Vec::new();
        for burst in BURSTS {
            let began = self.session.now();
            let ends = self.write(kind, burst / sectors)?;
            if times.is_empty() {
                // The short burst fits into the cache. A slow host is slow in both bursts.
                self.unhindered = slope(&ends) / count(sectors);
            }
            self.session.one(Operation::Flush, 0, 0)?;
            times.push(self.session.now().since(began).seconds());
        }
        Ok((times[1] - times[0]) / count(BURSTS[1] - BURSTS[0]))
    }

    /// Returns the next place in sequence: on to the end of a slot, then at the start of another.
    pub(super) fn next_place(&mut self, length: u64) -> u64 {
        if self.next + length > self.next_end {
            self.next = self.session.slot();
            self.next_end = self.next + SLOT;
        }
        self.next += length;
        self.next - length
    }
}
