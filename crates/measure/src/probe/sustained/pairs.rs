//! Pairs of sectors with a disk's protected cache full: they find a unit of any size and place, with few bytes.
//!
//! Sectors in one unit are completed in one operation, sectors in two units take two. So compare pairs of sectors
//! half a size apart that begin at the multiples of the size with pairs that begin half a size later. If the size is
//! the unit, exactly one of the two kinds has a boundary in between, wherever units begin; if the unit is smaller,
//! both have one; if it is larger, one kind sometimes has. So, going down from the largest size, the first difference
//! shows the unit. If there is none at any size, the sector is the unit: with the cache full, the drive was busy with
//! the medium all the time.

use straddle_units::Boundary;
use straddle_units::io::Operation;

use crate::probe::session::{Halt, LARGEST_UNIT, SLOT, Step, boundary};
use crate::probe::statistics::median;
use crate::probe::sustained::{APART, MEASURED, PROVED, SLOWER, Search, Sustained, slope};

/// Rounds in which two kinds are compared, and the most if they are neither equal nor clearly different.
const ROUNDS: usize = 2;
const MOST_ROUNDS: usize = 8;

#[derive(Clone, Copy, Debug)]
struct Pair {
    places: Boundary,
    /// From the beginning of the first sector to that of the second.
    apart: u64,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Inferred {
    Unit(Sustained),
    /// No unit is larger than the sector.
    Flat,
    Nothing,
}

impl Search<'_, '_> {
    /// Finds the unit by pairs, if it is larger than what covering writes have ruled out.
    pub(crate) fn pairs(&mut self) -> Step<Inferred> {
        if !self.fill()? {
            return Ok(Inferred::Nothing);
        }
        let mut size = LARGEST_UNIT;
        self.halves(size, 0)?;
        // The sectors of a pair must not touch, or the drive would take them as one write.
        while size >= 4 * self.session.logical {
            self.session.tell(&format!("pairs of sectors {} bytes apart", size / 2));
            let (near, far) = self.kinds(size)?;
            let ratio = near.max(far) / near.min(far);
            if ratio > SLOWER {
                let split = if near > far { 0 } else { size / 2 };
                let first = self.first_boundary(size, split, (near * far).sqrt())?;
                return self.prove_pairs(boundary(size, first));
            }
            if ratio > APART {
                return Ok(Inferred::Nothing);
            }
            size /= 2;
        }
        Ok(if self.covered { Inferred::Flat } else { Inferred::Nothing })
    }

    /// The seconds per pair of pairs at the multiples of `size` and half of it later, once the two are equal or
    /// clearly different. Takes medians, because old writes that are still to be done far away slow a drive for a
    /// while.
    fn kinds(&mut self, size: u64) -> Step<(f64, f64)> {
        let (mut near, mut far) = (Vec::new(), Vec::new());
        loop {
            near.push(self.halves(size, 0)?);
            far.push(self.halves(size, size / 2)?);
            let (first, second) = (median(&near), median(&far));
            let ratio = first.max(second) / first.min(second);
            let settled = !(APART..=SLOWER).contains(&ratio);
            if (settled && near.len() >= ROUNDS) || near.len() >= MOST_ROUNDS {
                return Ok((first, second));
            }
        }
    }

    /// Finds where a unit begins, given that one begins after `split` and at most half a unit later.
    fn first_boundary(&mut self, size: u64, split: u64, limit: f64) -> Step<u64> {
        let (mut below, mut width) = (split, size / 2);
        while width > self.session.logical {
            width /= 2;
            if self.halves(size, below + width)? > limit {
                below += width;
            }
        }
        Ok(below + width)
    }

    fn prove_pairs(&mut self, unit: Boundary) -> Step<Inferred> {
        let (size, phase, logical) = (unit.size().get(), unit.phase().get(), self.session.logical);
        let at = |size: u64, phase: u64, apart: u64| Pair { places: boundary(size, phase), apart };
        let half = size / 2;
        // Large sectors are expensive.
        let measured = if logical < 4096 { MEASURED } else { MEASURED / 2 };
        let mut proof = Sustained::new(unit, true, self.length / 2);
        for round in 0..PROVED as u64 {
            // Alternate between odd and even boundaries; otherwise the unit could be twice as large.
            let kinds = [
                (at(size, phase, size - logical), 1),
                (at(2 * size, phase + half + (round % 2) * size, half), 0),
                (at(size, phase + half - logical, half), 2),
                (at(size, phase + half, half), 0),
                (at(size, phase + size - logical, half), 3),
            ];
            for (pair, index) in kinds {
                let seconds = self.pair_series(pair, measured)?;
                proof.push(index, seconds);
                if !proof.is_possible() {
                    return Ok(Inferred::Nothing);
                }
            }
        }
        Ok(if proof.is_proof() { Inferred::Unit(proof) } else { Inferred::Nothing })
    }

    fn halves(&mut self, size: u64, phase: u64) -> Step<f64> {
        self.pair_series(Pair { places: boundary(size, phase), apart: size / 2 }, MEASURED / 2)
    }

    /// Returns the seconds per pair of the `measured` pairs at the end of a series.
    fn pair_series(&mut self, pair: Pair, measured: usize) -> Step<f64> {
        let logical = self.session.logical;
        let skipped = self.skipped.div_ceil(2);
        let pairs = skipped + measured;
        if 2 * logical * pairs as u64 > self.session.left() {
            return Err(Halt::Written);
        }
        let mut ends = Vec::with_capacity(pairs);
        for _ in 0..pairs {
            let first = self.session.slot() + self.session.phase_within(pair.places, true, SLOT);
            self.session.one(Operation::Write, first, logical)?;
            self.session.one(Operation::Write, first + pair.apart, logical)?;
            ends.push(self.session.now().get());
        }
        Ok(slope(&ends[skipped..]))
    }
}
