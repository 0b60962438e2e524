//! The order of the measurements, from cheap to expensive; and how the drive handles partly written units.

use straddle_units::io::{Nanos, Operation};
use straddle_units::{Boundary, ByteCount};

use crate::bench::{Progress, Surface, TargetError};
use crate::probe::report::{Claims, Confidence, Finding, Report, Rmw, RmwCost, Rotation, WriteCache};
use crate::probe::scan::{self, Contrast, Scanned};
use crate::probe::session::{
    Budget, Durable, LARGEST_UNIT, LEAST_SLOTS, ProbeError, SLOT, Session, Step, boundary, within,
};
use crate::probe::statistics::{median, quantile};
use crate::probe::survey::{self, Series, Survey};
use crate::probe::sustained::{Inferred, Search, Sustained};

/// Slots in the arena on a drive without an arm: 4 MiB, written once.
const ARENA: usize = 32;
const LARGE_SECTOR: u64 = 4096;
const COMPARED: usize = 48;

/// Probes the target. Its claims are only compared with the findings, at the end.
pub fn probe(
    surface: &mut dyn Surface,
    budget: &Budget,
    claims: Claims,
    progress: &mut dyn Progress,
) -> Result<Report, ProbeError> {
    let logical = surface.logical_sector();
    if !logical.is_power_of_two() || !(512..=16_384).contains(&logical) {
        return Err(ProbeError::Sector(logical));
    }
    let bytes = match &budget.regions {
        Some(regions) => regions.iter().map(|region| region.len().get()).sum(),
        None => surface.capacity().get(),
    };
    let needed = LEAST_SLOTS * SLOT;
    let session = Session::new(surface, budget, progress).ok_or(ProbeError::TooSmall { bytes, needed })?;
    let probe = Probe {
        session,
        survey: Survey::default(),
        aligned: Survey::default(),
        how: None,
        series: Series::default(),
        scanned: Scanned::default(),
        excess: None,
        sustained: None,
        inferred: Inferred::Nothing,
        depth: None,
    };
    Ok(probe.run(budget.seed, claims)?)
}

struct Probe<'a> {
    session: Session<'a>,
    survey: Survey,
    /// Repeated with whole units, once the unit is known.
    aligned: Survey,
    how: Option<Durable>,
    series: Series,
    scanned: Scanned,
    /// How much longer a durable write of one sector takes than a read, in seconds.
    excess: Option<f64>,
    sustained: Option<Sustained>,
    inferred: Inferred,
    depth: Option<usize>,
}

impl Probe<'_> {
    fn run(mut self, seed: u64, claims: Claims) -> Result<Report, TargetError> {
        let begun = within(self.begin())?;
        let rotation = self.rotation();
        let unit = match begun {
            Ok(()) => self.unit()?,
            Err(why) => Finding::unknown(why),
        };
        self.aligned = self.survey.clone();
        if let (Some(unit), Some(_)) = (unit.value, self.how) {
            let survey = within(survey::of_units(&mut self.session, &self.survey, unit))?;
            self.aligned = survey.unwrap_or_default();
        }
        let (rmw, merge) = self.behaviour(&unit)?;
        let depth = match self.depth.and_then(|depth| u64::try_from(depth).ok()) {
            Some(depth) => {
                Finding::of(depth, Confidence::Low, "the number of writes after which each one has to wait")
            }
            None => Finding::unknown("the cache was not filled"),
        };
        Ok(Report {
            seed,
            logical: self.session.logical,
            written: self.session.written,
            requests: self.session.requests,
            elapsed: self.session.elapsed(),
            unit,
            rotation,
            cache: cache(&self.aligned),
            rmw,
            merge,
            depth,
            scans: self.scanned.scans,
            proof: self.scanned.proof,
            sustained: self.sustained,
            claims,
        })
    }

    fn behaviour(
        &mut self,
        unit: &Finding<Boundary>,
    ) -> Result<(Finding<RmwCost>, Finding<f64>), TargetError> {
        let Some(found) = unit.value else {
            let why = "the size of the unit is unknown";
            return Ok((Finding::unknown(why), Finding::unknown(why)));
        };
        if found.size().get() == self.session.logical {
            let cost = RmwCost { when: Rmw::None, one: 0.0, two: 0.0 };
            let why = "no part of a unit can be written";
            return Ok((Finding::of(cost, unit.confidence, why), Finding::unknown(why)));
        }
        let Some(proof) = &self.scanned.proof else {
            let why = "single writes do not wait for the medium";
            return Ok((Finding::unknown(why), Finding::unknown(why)));
        };
        let rmw = within(rmw(&mut self.session, &self.aligned, proof))?;
        let merge = within(merge(&mut self.session, found))?;
        Ok((rmw.unwrap_or_else(Finding::unknown), merge.unwrap_or_else(Finding::unknown)))
    }

    fn begin(&mut self) -> Step<()> {
        survey::run(&mut self.session, &mut self.survey)?;
        self.how = self.survey.durable();
        self.session.tell("checking whether the drive rotates");
        if let Some(how) = self.how {
            self.series = survey::by_writes(&mut self.session, how)?;
        }
        if self.series.period.is_none() && self.survey.is_mechanical() {
            self.series = survey::by_reads(&mut self.session, median(&self.survey.read))?;
        }
        Ok(())
    }

    fn rotation(&self) -> Finding<Rotation> {
        let coherence = self.series.coherence;
        let read = median(&self.survey.read);
        match self.series.period.and_then(Nanos::from_seconds) {
            Some(period) => {
                let why = format!(
                    "the same sector comes around at multiples of the rotation period (coherence \
                     {coherence:.3})"
                );
                Finding::of(Rotation::Period(period), Confidence::High, why)
            }
            None if read < survey::MECHANICAL => {
                let why = format!("reads at random positions take {:.0} µs", read * 1e6);
                Finding::of(Rotation::None, Confidence::High, why)
            }
            None => Finding::unknown("reads take as long as on a disk, but nothing rotates"),
        }
    }

    fn unit(&mut self) -> Result<Finding<Boundary>, TargetError> {
        let Some(how) = self.how else {
            return self.sustain("neither writes nor flushes wait for the medium");
        };
        let found = match within(self.scan(how))? {
            Err(why) => Finding::unknown(why),
            Ok(()) => self.judge(),
        };
        let settled = found.value.is_some() || how == Durable::Fua;
        if settled { Ok(found) } else { self.sustain(&found.why) }
    }

    /// `reason` says why single writes could not show the unit.
    fn sustain(&mut self, reason: &str) -> Result<Finding<Boundary>, TargetError> {
        let spent = match within(self.series())? {
            Ok(()) => "sustained writes cost the same at every offset",
            Err(why) => why,
        };
        Ok(match &self.sustained {
            None if self.inferred == Inferred::Flat => {
                let why = if self.survey.is_mechanical() {
                    "but with a full cache, every write waits for the medium, and no write is faster after a \
                     write to the adjacent sector"
                } else {
                    "but the drive is slower than its host, and sectors take as long in random order as in \
                     sequence"
                };
                self.sector(Confidence::Medium, format!("{reason}, {why}"))
            }
            None => Finding::unknown(format!("{reason}, and {spent}")),
            Some(proof) => {
                let why = format!(
                    "{reason}, but with a full cache, misaligned writes take {:.2} times as long as aligned \
                     ones, in each of {} rounds",
                    proof.ratio(),
                    proof.cheap.len()
                );
                Finding::of(proof.unit, Confidence::Medium, why)
            }
        })
    }

    fn series(&mut self) -> Step<()> {
        let mechanical = self.survey.is_mechanical();
        let large = self.session.logical >= LARGE_SECTOR;
        let mut search = Search::new(&mut self.session, mechanical, self.survey.cached())?;
        if mechanical {
            self.sustained = search.covering()?;
            if self.sustained.is_none() {
                self.inferred = search.pairs()?;
            }
        } else {
            // Filling a cache with whole sectors of 4096 bytes is expensive, but shows the most.
            if large {
                self.inferred = search.runs(false)?;
            }
            if self.inferred == Inferred::Nothing {
                self.sustained = search.straddling()?;
            }
        }
        if let Inferred::Unit(proof) = &self.inferred {
            self.sustained = Some(proof.clone());
        }
        self.depth = search.before;
        Ok(())
    }

    fn scan(&mut self, how: Durable) -> Step<()> {
        self.settle()?;
        scan::run(&mut self.session, how, 0..LARGEST_UNIT, &mut self.scanned)?;
        if self.scanned.proof.is_some() || self.no_larger(how)? {
            return Ok(());
        }
        self.settle()?;
        scan::run(&mut self.session, how, LARGEST_UNIT..u64::MAX, &mut self.scanned)
    }

    /// If nothing rotates, fills a small arena to which the single writes then go.
    fn settle(&mut self) -> Step<()> {
        if self.series.period.is_none() {
            self.session.narrow(ARENA)?;
            self.session.fill()?;
        }
        Ok(())
    }

    /// Whether no unit is larger than the sector, which saves the expensive search for large ones.
    fn no_larger(&mut self, how: Durable) -> Step<bool> {
        if !self.survey.is_mechanical() {
            // Writing smaller sectors in order keeps the host busy rather than the drive.
            if self.session.logical < LARGE_SECTOR {
                return Ok(false);
            }
            self.inferred = Search::new(&mut self.session, false, self.survey.cached())?.runs(true)?;
            return Ok(self.inferred == Inferred::Flat);
        }
        let (Some(period), Durable::Fua) = (self.series.period, how) else { return Ok(false) };
        let excess = self.excess(how)?;
        self.excess = Some(excess);
        Ok(excess.abs() < period / 2.0)
    }

    fn judge(&self) -> Finding<Boundary> {
        if let Some(proof) = &self.scanned.proof {
            let why = format!(
                "durable writes of a whole unit are fast only on unit boundaries; elsewhere they take {1:.2} \
                 times as long ({0:.1} standard deviations)",
                proof.weakest(),
                proof.ratio()
            );
            return Finding::of(proof.unit, Confidence::High, why);
        }
        if self.inferred == Inferred::Flat {
            let why = "the drive is slower than its host, and sectors in random order take as long as in \
                sequence";
            return self.sector(Confidence::Medium, why.to_owned());
        }
        let contradicted = "some offsets are faster, but not in a pattern that fits any unit";
        let Some(period) = self.series.period else {
            // On flash, a unit above the largest size searched makes all phases equal too.
            let flat = "no offset is faster than any other";
            return Finding::unknown(if self.scanned.contradicted { contradicted } else { flat });
        };
        if self.scanned.contradicted {
            return Finding::unknown(contradicted);
        }
        match self.excess {
            None => Finding::unknown("no offset is faster when a flush follows each write"),
            Some(excess) if excess.abs() < period / 2.0 => {
                let why = format!(
                    "every offset takes the same time, and a durable write of one sector takes {:.2} \
                     revolutions longer than a read",
                    excess / period
                );
                self.sector(Confidence::High, why)
            }
            Some(excess) => Finding::unknown(format!(
                "every offset takes the same time, but a durable write of one sector takes {:.2} revolutions \
                 longer than a read, so the unit may be larger than those tested",
                excess / period
            )),
        }
    }

    fn sector(&self, confidence: Confidence, why: String) -> Finding<Boundary> {
        Finding::of(boundary(self.session.logical, 0), confidence, why)
    }

    fn excess(&mut self, how: Durable) -> Step<f64> {
        let (mut reads, mut writes) = (Vec::new(), Vec::new());
        let places: Vec<(u64, u64)> = (0..COMPARED)
            .map(|_| (self.session.slot() + self.session.logical, self.session.logical))
            .collect();
        self.session.prepare(&places)?;
        for (offset, length) in places {
            let elsewhere = self.session.slot();
            reads.push(self.session.one(Operation::Read, elsewhere, length)?);
            writes.push(self.session.durable(how, offset, length)?);
        }
        Ok(median(&writes) - median(&reads))
    }
}

const COUNT: usize = 12;
/// Seconds between the writes of the two halves of a unit, ascending.
const DELAYS: [f64; 5] = [0.0, 0.001, 0.01, 0.1, 0.5];
/// Without a write cache, a plain write takes more than this share of a durable one.
const CACHED_SHARE: f64 = 0.5;

pub(crate) fn cache(survey: &Survey) -> Finding<WriteCache> {
    if survey.fua.is_empty() {
        return Finding::unknown("too few writes were measured");
    }
    let micros = |seconds: f64| format!("{:.0} µs", seconds * 1e6);
    let (plain, flushed, fua) = (median(&survey.plain), median(&survey.flushed), median(&survey.fua));
    let taken = format!(
        "a write takes {}, or {} with a flush, or {} with FUA",
        micros(plain),
        micros(flushed),
        micros(fua)
    );
    match survey.durable() {
        None => Finding::of(WriteCache::Unflushed, Confidence::Medium, taken),
        // A flush that only waits for what the drive is doing at the moment looks the same.
        Some(Durable::Flush) => Finding::unknown(format!("a flush takes time, but FUA does not: {taken}")),
        Some(Durable::Fua) if plain > CACHED_SHARE * fua => {
            Finding::of(WriteCache::None, Confidence::High, taken)
        }
        Some(Durable::Fua) if quantile(&survey.plain, 0.75) < quantile(&survey.fua, 0.25) => {
            Finding::of(WriteCache::Volatile, Confidence::High, taken)
        }
        Some(Durable::Fua) => Finding::unknown(format!("too few writes to be sure: {taken}")),
    }
}

pub(crate) fn rmw(session: &mut Session<'_>, survey: &Survey, proof: &Contrast) -> Step<Finding<RmwCost>> {
    session.tell("checking when partly written units are completed");
    let unit = proof.unit;
    let size = unit.size().get();
    let spans: Vec<(u64, u64)> =
        (0..COUNT).map(|_| (session.slot() + session.phase(unit, false), size)).collect();
    session.prepare(&spans)?;
    let mut plain = Vec::new();
    for (offset, length) in spans {
        plain.push(session.one(Operation::Write, offset, length)?);
        session.one(Operation::Flush, 0, 0)?;
    }
    let [whole, off, _, short] = proof.times.each_ref().map(|times| median(times));
    let (one, two) = (short - whole, off - whole);
    let taken = median(&plain);
    // Without a cache there is nothing to defer.
    let waits = median(&survey.plain) >= CACHED_SHARE * median(&survey.fua) || taken > off / 2.0;
    let when = if waits { Rmw::Immediate } else { Rmw::Deferred };
    let why = format!(
        "a write across a boundary takes {:.0} µs without a flush; with a flush, it takes {:.0} µs longer \
         than a write of a whole unit",
        taken * 1e6,
        two * 1e6
    );
    Ok(Finding::of(RmwCost { when, one, two }, Confidence::High, why))
}

/// The longest delay at which a flush after both halves of a unit costs no more than after a whole one.
pub(crate) fn merge(session: &mut Session<'_>, unit: Boundary) -> Step<Finding<f64>> {
    session.tell("checking how long the drive waits for the rest of a partly written unit");
    let size = unit.size().get();
    let half = size / 2;
    if !ByteCount::new(half).is_multiple_of(ByteCount::new(session.logical)) || half == 0 {
        return Ok(Finding::unknown("it is not possible to write half a unit"));
    }
    let whole = after_flush(session, unit, None, size)?;
    let part = after_flush(session, unit, None, half)?;
    if part < whole {
        return Ok(Finding::unknown(
            "a flush takes no longer after a write of half a unit than after a write of a whole unit",
        ));
    }
    let (mut longest, mut merged) = (0.0, false);
    for delay in DELAYS {
        if after_flush(session, unit, Some(delay), half)? > (whole + part) / 2.0 {
            break;
        }
        (longest, merged) = (delay, true);
    }
    let why = if merged {
        format!(
            "after {:.0} ms, writing the second half still completes the unit without a read",
            longest * 1e3
        )
    } else {
        "even if written immediately, the second half does not complete the unit".to_owned()
    };
    Ok(Finding::of(longest, Confidence::Medium, why))
}

/// The median of a write plus its flush. With a delay, the write is that of the second half of a unit, which follows
/// the first half after the delay.
fn after_flush(session: &mut Session<'_>, unit: Boundary, delay: Option<f64>, length: u64) -> Step<f64> {
    let places: Vec<u64> = (0..COUNT).map(|_| session.slot() + session.phase(unit, true)).collect();
    let spans: Vec<(u64, u64)> = places.iter().map(|&place| (place, unit.size().get())).collect();
    session.prepare(&spans)?;
    let mut times = Vec::new();
    for place in places {
        let mut start = place;
        if let Some(delay) = delay {
            session.one(Operation::Write, place, length)?;
            session.pause(delay);
            start += length;
        }
        let write = session.one(Operation::Write, start, length)?;
        times.push(write + session.one(Operation::Flush, 0, 0)?);
    }
    Ok(median(&times))
}
