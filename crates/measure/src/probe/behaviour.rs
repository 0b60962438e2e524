//! How the drive handles partly written units, once the unit is known.

use straddle_units::io::Operation;
use straddle_units::{Boundary, ByteCount};

use crate::probe::budget::Step;
use crate::probe::report::{Confidence, Finding, Rmw, RmwCost, WriteCache};
use crate::probe::scan::Contrast;
use crate::probe::session::{Durable, Session};
use crate::probe::statistics::{median, quantile};
use crate::probe::survey::Survey;

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
    let taken =
        format!("writes take {}, with a flush {}, with FUA {}", micros(plain), micros(flushed), micros(fua));
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
        "a write across a boundary takes {:.0} µs without a flush, and {:.0} µs more than a whole unit with \
         one",
        taken * 1e6,
        two * 1e6
    );
    Ok(Finding::of(RmwCost { when, one, two }, Confidence::High, why))
}

/// Determines how long half a unit waits for the other: the longest delay at which a flush after both halves
/// costs no more than after a whole unit.
pub(crate) fn merge(session: &mut Session<'_>, unit: Boundary) -> Step<Finding<f64>> {
    session.tell("checking how long the drive waits for the rest of a partly written unit");
    let size = unit.size().get();
    let half = size / 2;
    if !ByteCount::new(half).is_multiple_of(ByteCount::new(session.logical)) || half == 0 {
        return Ok(Finding::unknown("it is impossible to write half a unit"));
    }
    let whole = after_flush(session, unit, None, size)?;
    let part = after_flush(session, unit, None, half)?;
    if part < whole {
        return Ok(Finding::unknown("a flush takes no longer after half a unit than after a whole one"));
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

/// Returns the median seconds of a write plus the flush after it. With a delay, the write is that of the
/// second half of a unit, which follows the first half after the delay.
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
