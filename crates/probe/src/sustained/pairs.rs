//! Pairs of sectors behind a disk's protected cache: the unit of any size and place, for two sectors a pair.
//!
//! What lies in one unit is completed in one operation, because it is read once and written once; what lies in two takes
//! two. So pairs of sectors that are half a unit apart take one operation or two, by whether a boundary lies between them.
//! Of pairs that begin at the multiples of a unit, and those that begin half a unit later, exactly one kind has a boundary
//! between, wherever units begin. Pairs of half of a smaller unit always have; of a larger one, one kind sometimes has. From
//! the largest on, the first difference is the unit's. If there is none at any size, the sector is the unit: the drive was at
//! work at the time, for the cache was full.

use straddle_io::Operation;
use straddle_units::Boundary;

use crate::budget::{Halt, Step};
use crate::session::{LARGEST_UNIT, SLOT};
use crate::statistics::median;
use crate::sustained::{APART, MEASURED, PROVED, SLOWER, Search, Sustained, boundary, slope};

/// So often two kinds are compared, and if they are neither equal nor clearly different.
const ROUNDS: usize = 2;
const MOST_ROUNDS: usize = 8;

/// Two sectors of a unit, or of two.
#[derive(Clone, Copy, Debug)]
struct Pair {
    /// The first begins at one of these.
    places: Boundary,
    /// The second begins so many bytes later.
    apart: u64,
}

/// What pairs of all sizes have told.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Inferred {
    /// There is a unit.
    Unit(Sustained),
    /// None that is larger than the sector.
    Flat,
    /// It cannot be told.
    Nothing,
}

impl Search<'_, '_> {
    /// The unit by pairs; larger than what covering writes have shown not to be there.
    pub(crate) fn pairs(&mut self) -> Step<Inferred> {
        if !self.fill()? {
            return Ok(Inferred::Nothing);
        }
        let mut size = LARGEST_UNIT;
        self.halves(size, 0)?;
        // Sectors of a pair must not touch, or they are one write to the drive.
        while size >= 4 * self.session.logical {
            self.session.tell(&format!("pairs of sectors {} bytes apart", size / 2));
            let (near, far) = self.kinds(size)?;
            let ratio = near.max(far) / near.min(far);
            if ratio > SLOWER {
                let split = if near > far { 0 } else { size / 2 };
                let first = self.first_boundary(size, split, (near * far).sqrt())?;
                return match boundary(size, first % size) {
                    Some(unit) => self.prove_pairs(unit),
                    None => Ok(Inferred::Nothing),
                };
            }
            if ratio > APART {
                return Ok(Inferred::Nothing);
            }
            size /= 2;
        }
        Ok(if self.covered { Inferred::Flat } else { Inferred::Nothing })
    }

    /// The seconds of pairs that begin at the multiples of `size`, and half of it later: until they are equal, or clearly not.
    /// Medians, for a drive that was left with old writes far away is slower for a while.
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

    /// Where a unit begins, of which one does after `split` and at most half a unit later.
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
        let at = |size: u64, phase: u64, apart: u64| {
            boundary(size, phase % size).map(|places| Pair { places, apart })
        };
        let half = size / 2;
        // Large sectors are dear.
        let measured = if logical < 4096 { MEASURED } else { MEASURED / 2 };
        let mut proof = Sustained::new(unit, true, self.length / 2);
        for round in 0..PROVED as u64 {
            // Over every other boundary in turn, or the unit could be twice as large.
            let kinds = [
                (at(size, phase, size - logical), 1),
                (at(2 * size, phase + half + (round % 2) * size, half), 0),
                (at(size, phase + half - logical, half), 2),
                (at(size, phase + half, half), 0),
                (at(size, phase + size - logical, half), 3),
            ];
            for (pair, index) in kinds {
                let Some(pair) = pair else { return Ok(Inferred::Nothing) };
                let seconds = self.pair_series(pair, measured)?;
                proof.push(index, seconds);
                if !proof.is_possible() {
                    return Ok(Inferred::Nothing);
                }
            }
        }
        Ok(if proof.is_proof() { Inferred::Unit(proof) } else { Inferred::Nothing })
    }

    /// Pairs that are half of `size` apart and begin `phase` after its multiples.
    fn halves(&mut self, size: u64, phase: u64) -> Step<f64> {
        match boundary(size, phase % size) {
            Some(places) => self.pair_series(Pair { places, apart: size / 2 }, MEASURED / 2),
            None => Ok(f64::NAN),
        }
    }

    /// The seconds for each of the `measured` pairs at the end of a series.
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
