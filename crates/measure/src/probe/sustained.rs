//! Sustained writes without a flush: a full cache shows what it hides otherwise.
//!
//! Once the cache is full, a write takes as long as the medium does. Two kinds of series show the unit. *Straddling*:
//! writes of two logical sectors, one on either side of a point, change one unit, or two if the point is a boundary.
//! Their few bytes can fill even a large cache. *Covering*: writes of the size of a unit at each phase, as in the
//! phase scan. Series of different kinds take turns, and only the end of each is measured: on a disk, a write waits
//! for one that came a cache's depth before it.

mod pairs;
mod runs;

use std::collections::BTreeMap;

use straddle_units::io::{Nanos, Operation};
use straddle_units::{Boundary, ByteOffset};

use crate::probe::session::{Halt, LARGEST_UNIT, SLOT, Session, Step, boundary, units};
use crate::probe::statistics::{count, mean, median, quantile};

pub(crate) use pairs::Inferred;

/// Slots in the arena on a disk (256 MiB) and on flash (1 GiB): more places than a cache holds writes.
const ARENA: [usize; 2] = [2048, 8192];
/// Series until two in a row agree, and the ratio below which they do.
const WARMING: usize = 5;
const AGREE: f64 = 1.2;
/// Writes after which the cache is examined, one after another until it is full.
const LENGTHS: [usize; 5] = [512, 1024, 2048, 4096, 8192];
const CHUNK: usize = 16;
/// Writes per series on flash: several times the several hundred units that it programs at a time.
const BLOCK: usize = 1536;
/// Writes after which a read is sent, if a drive keeps up with every write: it waits for the drive.
const READ_EACH: usize = 8;
const MEASURED: usize = 256;
/// The ratio from which a series is slower. Two units or sector reads instead of one give 1.5 or 2.
const SLOWER: f64 = 1.3;
/// The least ratio in a proof between every slow series and every fast one.
const APART: f64 = 1.15;
/// Rounds of a comparison, and of a proof by straddling writes: that exactly eight given series of sixteen are the
/// slower ones happens by chance once in 13000 times.
const ROUNDS: usize = 2;
const PROVED: usize = 4;
/// The fewest writes of whole units whose time says anything.
const LEAST_WHOLE: usize = 256;
/// Bytes per write of the covering series that look for the unit.
const COVERED: u64 = 4096;

/// The seconds per write of sustained series of several kinds.
#[derive(Clone, Debug, PartialEq)]
pub struct Sustained {
    /// The unit and where it begins.
    pub unit: Boundary,
    /// Whether each write was two sectors over a point, rather than one unit.
    pub straddling: bool,
    /// Writes per series.
    pub length: usize,
    /// Series that should be fast, one or two per round: points inside units, or writes of whole units.
    pub cheap: Vec<f64>,
    /// Series that should be slow: points on boundaries, or writes off them.
    pub dear: Vec<f64>,
    /// Series half a unit from the boundaries: fast over points, slow if units are covered.
    pub half: Vec<f64>,
    /// If units are covered, series of writes that are one logical sector short: slow.
    pub short: Vec<f64>,
    /// After straddling series: the seconds per write of whole units, on their boundaries and off them; `None` if too
    /// little was left to write, or the drive kept up with its host.
    pub whole: Option<[f64; 2]>,
}

#[derive(Clone, Copy, Debug)]
struct Kind {
    places: Places,
    length: u64,
    placing: Placing,
}

#[derive(Clone, Copy, Debug)]
enum Places {
    On(Boundary),
    Off(Boundary),
    /// Each after the one before.
    Next,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Placing {
    /// The write begins there, in the first 64 KiB of a slot.
    Within,
    /// The write begins anywhere in a slot, and may continue into the next one.
    Wide,
    Over,
}

pub(crate) struct Search<'a, 'b> {
    session: &'a mut Session<'b>,
    mechanical: bool,
    depth: usize,
    /// Seconds of a write while the cache has room.
    unhindered: f64,
    /// Reads among the writes are measured instead of the writes.
    reading: bool,
    /// Writes per series, and how many of them are skipped before measuring.
    length: usize,
    skipped: usize,
    flushes: bool,
    /// The next place in sequence, and where its slot ends.
    next: u64,
    next_end: u64,
    /// Covering writes cost the same at every phase.
    covered: bool,
    /// Writes that the cache took before it was full, if that was seen.
    pub(crate) before: Option<usize>,
}

impl<'a, 'b> Search<'a, 'b> {
    /// `cached` is the seconds of a single write that need not wait.
    pub(crate) fn new(session: &'a mut Session<'b>, mechanical: bool, cached: f64) -> Step<Self> {
        session.tell("preparing sustained writes");
        if mechanical {
            session.spread(ARENA[0])?
        } else {
            session.narrow(ARENA[1])?
        }
        // A disk that takes one write at a time fills its cache as fast as it can. Flash needs many to be busy.
        let depth = if mechanical { 1 } else { 32 };
        Ok(Self {
            session,
            mechanical,
            depth,
            unhindered: cached,
            reading: false,
            length: BLOCK,
            skipped: BLOCK / 4,
            flushes: false,
            next: 0,
            next_end: 0,
            covered: false,
            before: None,
        })
    }

    /// Finds the unit by straddling writes, if units begin at byte 0 of the drive.
    pub(crate) fn straddling(&mut self) -> Step<Option<Sustained>> {
        let logical = self.session.logical;
        let on = self.over(Places::On(boundary(LARGEST_UNIT, 0)));
        let inside = self.over(Places::Off(boundary(2 * logical, 0)));
        let full = self.fill()?;
        if !full && self.mechanical {
            return Ok(None);
        }
        let (mut fast, mut slow) = self.levels(on, inside)?;
        if slow < SLOWER * fast && !self.mechanical {
            // Flash that is faster than any host: reads show what else it is doing.
            self.reading = true;
            (fast, slow) = self.levels(on, inside)?;
        }
        if slow < SLOWER * fast {
            return Ok(None);
        }
        // The unit is the smallest size of which every multiple is a boundary.
        let mut sizes: Vec<u64> = std::iter::successors(Some(2 * logical), |size| Some(size * 2))
            .take_while(|size| *size <= LARGEST_UNIT)
            .collect();
        while sizes.len() > 1 {
            let middle = sizes.len() / 2;
            // If the unit is in the smaller half, the odd multiples of its largest size are boundaries.
            let size = sizes[middle - 1];
            self.series(on)?;
            let seconds = self.series(self.over(Places::On(boundary(2 * size, size))))?;
            let larger = sizes.split_off(middle);
            if seconds <= (fast * slow).sqrt() {
                sizes = larger;
            }
        }
        let Some(size) = sizes.first() else { return Ok(None) };
        let unit = boundary(*size, 0);
        let mut proof = self.prove_straddling(unit)?;
        if proof.is_none() {
            // The series may have been too short for what the drive does at a time.
            self.length *= 2;
            proof = self.prove_straddling(unit)?;
        }
        if let Some(proof) = &mut proof {
            proof.whole = self.whole(unit, median(&proof.dear))?;
        }
        Ok(proof)
    }

    /// With what is left to write: whole units on their boundaries and off them. Writes across a boundary (`across`)
    /// change as many units as those off the boundaries, and stand for them if little is left.
    fn whole(&mut self, unit: Boundary, across: f64) -> Step<Option<[f64; 2]>> {
        let size = unit.size().get();
        let most = usize::try_from(self.session.left() / size).unwrap_or(usize::MAX);
        if self.reading || self.mechanical || most < LEAST_WHOLE || self.session.slot_and_next().is_none() {
            return Ok(None);
        }
        let mut one = |places: Places, length: usize| -> Step<f64> {
            let ends = self.write(Kind { places, length: size, placing: Placing::Wide }, length)?;
            Ok(slope(&ends[length / 4..]))
        };
        if most < 2 * BLOCK {
            return Ok(Some([one(Places::On(unit), most.min(BLOCK))?, across]));
        }
        Ok(Some([one(Places::On(unit), BLOCK)?, one(Places::Off(unit), BLOCK)?]))
    }

    /// Measures points inside units and points on boundaries; returns the seconds per request of each.
    fn levels(&mut self, on: Kind, inside: Kind) -> Step<(f64, f64)> {
        let warmed = if self.reading { Vec::new() } else { vec![self.warm(on)?] };
        let (mut fast, mut slow) = (Vec::new(), warmed);
        for _ in 0..ROUNDS {
            slow.push(self.series(on)?);
            fast.push(self.series(inside)?);
        }
        Ok((median(&fast), median(&slow)))
    }

    /// Repeats the series until the rate is steady; returns the last one.
    fn warm(&mut self, kind: Kind) -> Step<f64> {
        let mut before = self.series(kind)?;
        for _ in 1..WARMING {
            let seconds = self.series(kind)?;
            if seconds < AGREE * before && before < AGREE * seconds {
                return Ok(seconds);
            }
            before = seconds;
        }
        Ok(before)
    }

    fn prove_straddling(&mut self, unit: Boundary) -> Step<Option<Sustained>> {
        let size = unit.size().get();
        // The odd multiples of the largest unit lie beyond the places used.
        let odd = if size < LARGEST_UNIT { boundary(2 * size, size) } else { unit };
        let half = boundary(size, size / 2);
        let mut proof = Sustained::new(unit, true, self.length);
        for round in 0..PROVED {
            if !self.mechanical {
                // Fill the cache again, after writes that the drive may have kept up with.
                self.write(self.over(Places::On(unit)), self.length / 2)?;
            }
            let mut series =
                [(Places::On(unit), 0), (Places::On(odd), 0), (Places::Off(unit), 1), (Places::On(half), 2)];
            if round % 2 == 1 {
                series.swap(0, 1);
                series.swap(2, 3);
            }
            for (places, index) in series {
                let seconds = self.series(self.over(places))?;
                proof.push(index, seconds);
                if !proof.is_possible() {
                    return Ok(None);
                }
            }
        }
        Ok(proof.is_proof().then_some(proof))
    }

    /// Finds a unit up to 4096 bytes, or two sectors if larger, wherever it begins.
    pub(crate) fn covering(&mut self) -> Step<Option<Sustained>> {
        let logical = self.session.logical;
        let covered = COVERED.max(2 * logical);
        if !self.fill()? {
            return Ok(None);
        }
        self.session.tell(&format!("{} sustained writes of {covered} bytes at each offset", self.length));
        let mut times = vec![f64::MAX; usize::try_from(covered / logical).unwrap_or(0)];
        let mut limit = 0.0;
        for _ in 0..ROUNDS {
            for (time, index) in times.iter_mut().zip(0..) {
                // Keep the faster of two: old writes that are still to be done far away slow a drive for a while.
                if *time > limit {
                    let places = Places::On(boundary(covered, index * logical));
                    *time = self.series(Kind::within(places, covered))?.min(*time);
                }
            }
            let least = times.iter().copied().fold(f64::MAX, f64::min);
            let most = times.iter().copied().fold(0.0, f64::max);
            self.covered = most < SLOWER * least;
            if self.covered {
                break;
            }
            limit = (least * most).sqrt();
            let cheap: Vec<bool> = times.iter().map(|time| *time < limit).collect();
            if let Some(unit) = pattern(&cheap, logical) {
                return self.prove_covering(unit);
            }
        }
        Ok(None)
    }

    fn prove_covering(&mut self, unit: Boundary) -> Step<Option<Sustained>> {
        let size = unit.size().get();
        let half = boundary(size, unit.phase().get() + size / 2);
        let mut proof = Sustained::new(unit, false, self.length);
        for _ in 0..ROUNDS {
            let series = [
                (Places::Off(unit), size),
                (Places::On(unit), size),
                (Places::On(half), size),
                (Places::On(unit), size - self.session.logical),
            ];
            for ((places, length), index) in series.into_iter().zip(0..) {
                let seconds = self.series(Kind::within(places, length))?;
                proof.push(index, seconds);
            }
        }
        Ok(proof.is_proof().then_some(proof))
    }

    /// Returns whether the cache became full.
    fn fill(&mut self) -> Step<bool> {
        let logical = self.session.logical;
        if self.before.is_some() {
            return Ok(true);
        }
        let kind = Kind::within(Places::Off(boundary(2 * logical, 0)), logical);
        let mut written = 0;
        for length in LENGTHS {
            self.session.tell(&format!("{length} sustained writes, until the cache is full"));
            let ends = self.write(kind, length)?;
            let chunks: Vec<f64> = ends.windows(CHUNK + 1).step_by(CHUNK).map(slope).collect();
            self.unhindered = self.unhindered.min(quantile(&chunks, 0.1));
            let end = slope(&ends[ends.len() / 2..]);
            // A platter is far slower than the cache. Flash may be little slower than the link.
            if end > self.unhindered * if self.mechanical { 4.0 } else { SLOWER } {
                let full = chunks.iter().position(|chunk| *chunk > (end * self.unhindered).sqrt());
                let before = written + full.unwrap_or(0) * CHUNK;
                self.before = Some(before);
                if self.mechanical {
                    self.skipped = before + before / 4;
                    self.length = self.skipped + MEASURED;
                } else {
                    // A burst is no larger than the cache.
                    self.length = (before * 5 / 2).clamp(MEASURED, BLOCK);
                    self.skipped = self.length / 4;
                }
                return Ok(true);
            }
            written += length;
        }
        Ok(false)
    }

    fn over(&self, places: Places) -> Kind {
        Kind { places, length: 2 * self.session.logical, placing: Placing::Over }
    }

    /// Returns the seconds per write at the end of a series, or per read if reads are measured.
    fn series(&mut self, kind: Kind) -> Step<f64> {
        let skipped = self.skipped.min(self.length - CHUNK);
        let (ends, reads) = self.send(kind, self.length, self.reading)?;
        Ok(if self.reading { mean(&reads[skipped / READ_EACH..]) } else { slope(&ends[skipped..]) })
    }

    /// Returns when each write completed, in nanoseconds.
    fn write(&mut self, kind: Kind, length: usize) -> Step<Vec<u64>> {
        Ok(self.send(kind, length, false)?.0)
    }

    /// With reads among the writes if `reading`; returns when each write completed, in nanoseconds, and the seconds
    /// of each read.
    fn send(&mut self, kind: Kind, length: usize, reading: bool) -> Step<(Vec<u64>, Vec<f64>)> {
        if kind.length * length as u64 > self.session.left() {
            return Err(Halt::Written);
        }
        let (mut ends, mut times) = (Vec::with_capacity(length), Vec::new());
        let (mut reads, mut outstanding, mut sent) = (BTreeMap::new(), 0, 0);
        let requests = length + if reading { length / READ_EACH } else { 0 };
        while sent < requests || outstanding > 0 {
            if sent < requests && outstanding < self.depth {
                if reading && sent % (READ_EACH + 1) == READ_EACH {
                    let (at, slot) = (self.session.now(), self.session.slot());
                    let id = self.session.send(Operation::Read, slot, self.session.logical)?;
                    reads.insert(id, at);
                } else {
                    let offset = self.place(kind);
                    self.session.send(Operation::Write, offset, kind.length)?;
                }
                (sent, outstanding) = (sent + 1, outstanding + 1);
            } else {
                let done = self.session.wait()?;
                outstanding -= 1;
                match reads.remove(&done.id) {
                    Some(sent) => times.push(done.at.since(sent).seconds()),
                    None => ends.push(done.at.get()),
                }
            }
        }
        Ok((ends, times))
    }

    fn place(&mut self, kind: Kind) -> u64 {
        let (unit, aligned) = match kind.places {
            Places::On(unit) => (unit, true),
            Places::Off(unit) => (unit, false),
            Places::Next => return self.next_place(kind.length),
        };
        if kind.placing == Placing::Wide
            && let Some(slot) = self.session.slot_and_next()
        {
            return slot + self.session.phase_within(unit, aligned, SLOT);
        }
        let phase = self.session.phase(unit, aligned);
        let place = self.session.slot() + phase;
        // Points are in the second half of a slot, so that the write begins in the slot.
        if kind.placing == Placing::Over { place + LARGEST_UNIT - self.session.logical } else { place }
    }
}

impl Kind {
    const fn within(places: Places, length: u64) -> Self {
        Self { places, length, placing: Placing::Within }
    }
}

impl Sustained {
    const fn new(unit: Boundary, straddling: bool, length: usize) -> Self {
        Self {
            unit,
            straddling,
            length,
            cheap: Vec::new(),
            dear: Vec::new(),
            half: Vec::new(),
            short: Vec::new(),
            whole: None,
        }
    }

    fn push(&mut self, index: usize, seconds: f64) {
        [&mut self.dear, &mut self.cheap, &mut self.half, &mut self.short][index].push(seconds);
    }

    /// Whether every slow series is slower than every fast one, and the medians differ clearly.
    fn is_proof(&self) -> bool {
        let (fast, slow) = self.sides();
        self.is_possible() && median(&slow) > SLOWER * median(&fast)
    }

    fn is_possible(&self) -> bool {
        let (fast, slow) = self.sides();
        let slowest = fast.iter().copied().fold(0.0, f64::max);
        slow.iter().copied().fold(f64::INFINITY, f64::min) > APART * slowest
    }

    /// The seconds of the series that should be fast, and of those that should be slow.
    fn sides(&self) -> (Vec<f64>, Vec<f64>) {
        let (mut fast, mut slow) = (self.cheap.clone(), self.dear.clone());
        if self.straddling { &mut fast } else { &mut slow }.extend(&self.half);
        slow.extend(&self.short);
        (fast, slow)
    }

    /// Returns how many times as long a write of a whole unit takes off the boundaries. `None` if that was not measured.
    pub fn cost(&self) -> Option<f64> {
        if self.straddling { self.whole.map(|[on, off]| off / on) } else { Some(self.ratio()) }
    }

    /// Returns how many times as long the slow writes take.
    pub fn ratio(&self) -> f64 {
        median(&self.dear) / median(&self.cheap)
    }
}

/// The slope of the least-squares line through the times of completion, which bursts at either end distort less than
/// the mean.
fn slope(ends: &[u64]) -> f64 {
    let middle = (count(ends.len()) - 1.0) / 2.0;
    let begun = ends.first().copied().unwrap_or(0);
    let (mut product, mut square) = (0.0, 0.0);
    for (index, end) in ends.iter().enumerate() {
        let from_middle = count(index) - middle;
        product += from_middle * Nanos::new(end - begun).seconds();
        square += from_middle * from_middle;
    }
    product / square
}

/// The unit, up to the size of the pattern, whose boundaries are exactly where the pattern is cheap.
fn pattern(cheap: &[bool], step: u64) -> Option<Boundary> {
    let fits = |unit: &Boundary| {
        cheap.iter().zip(0..).all(|(cheap, index)| unit.is_aligned(ByteOffset::new(index * step)) == *cheap)
    };
    units(step, step * cheap.len() as u64).find(fits)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_is_that_of_one_unit_or_of_none() {
        let at = |cheap: [u8; 8]| pattern(&cheap.map(|cheap| cheap == 1), 512);
        assert_eq!(at([0, 0, 0, 0, 0, 0, 0, 1]), Some(boundary(4096, 3584)));
        assert_eq!(at([0, 1, 0, 0, 0, 1, 0, 0]), Some(boundary(2048, 512)));
        assert_eq!(at([1, 0, 1, 0, 1, 0, 1, 0]), Some(boundary(1024, 0)));
        assert_eq!(at([0, 1, 1, 1, 1, 1, 1, 1]), None);
        assert_eq!(at([1; 8]), None);
    }
}
