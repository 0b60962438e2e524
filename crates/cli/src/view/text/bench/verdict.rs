//! What a sweep shows, in sentences, the verdict first.
//!
//! Invariants: nothing is concluded from writes that a buffer took, and on an SSD the verdict is about
//! wear as well as time.

use straddle_measure::bench::{Arm, FEWEST_ROUNDS, Reached, Sweep};
use straddle_units::io::{Nanos, rounded};

use super::ratio;
use crate::output::plural;

/// Two arms wear flash alike up to this ratio: the writes in progress at the end of a run are in none of their counts.
const ALIKE: f64 = 1.03;

/// A run that would miss a difference of more than this shows nothing.
const MATTERS: f64 = 0.25;

/// Returns what the sweep shows, the verdict first.
pub(super) fn verdict(sweep: &Sweep) -> Vec<String> {
    let absorbed = offsets(sweep, |reached| reached == Reached::Buffer);
    if absorbed.is_empty() {
        return [Some(times(sweep)), wear(sweep), state(sweep)].into_iter().flatten().collect();
    }
    let more = if is_flash(sweep) {
        "Measure more writes (--count) or blocks (--blocks), or omit --warmup, so that the buffer is filled first."
    } else {
        "Measure more writes (--count), or flush each one (--sync flush)."
    };
    let taken = of_offsets(&absorbed);
    vec![format!("Inconclusive: the drive's buffer took the writes at {taken}."), more.to_owned()]
}

/// Returns the offsets at which the writes have reached this.
fn offsets(sweep: &Sweep, is_meant: impl Fn(Reached) -> bool) -> Vec<u64> {
    let meant = sweep.arms().iter().filter(|arm| arm.samples.reached.is_some_and(&is_meant));
    meant.map(|arm| arm.offset).collect()
}

fn of_offsets(offsets: &[u64]) -> String {
    let noun = if offsets.len() == 1 { "offset" } else { "offsets" };
    format!("{noun} {}", numbers(offsets))
}

fn numbers(offsets: &[u64]) -> String {
    match offsets {
        [rest @ .., last] if !rest.is_empty() => format!("{} and {last}", listed(rest)),
        offsets => listed(offsets),
    }
}

/// Whether the writes went to an SSD whose counters are known.
fn is_flash(sweep: &Sweep) -> bool {
    let counters = |arm: &Arm| arm.samples.counters.is_some_and(|counters| counters.revolution == 0);
    sweep.arms().iter().all(|arm| counters(arm) && arm.samples.reached.is_some())
}

/// Returns the arms with the least and the most wear, and the wear of each.
fn wears(sweep: &Sweep) -> Option<[(&Arm, f64); 2]> {
    let wear = |arm: &'_ Arm| arm.samples.write_amplification();
    let arms = || sweep.arms().iter().filter_map(|arm| Some((arm, wear(arm)?))).filter(|_| is_flash(sweep));
    let least = arms().min_by(|one, other| one.1.total_cmp(&other.1))?;
    // The first of equals.
    let most = arms().rev().max_by(|one, other| one.1.total_cmp(&other.1))?;
    Some([least, most])
}

fn wears_differ(sweep: &Sweep) -> bool {
    wears(sweep).is_some_and(|[(_, least), (_, most)]| most > ALIKE * least)
}

/// Says how many bytes are written to flash.
fn wear(sweep: &Sweep) -> Option<String> {
    let [(least, low), (most, high)] = wears(sweep)?;
    Some(if wears_differ(sweep) {
        format!(
            "Wear: offset {} writes {:.2} times as many bytes to flash as offset {} ({high:.2} and {low:.2} per byte of the host).",
            most.offset,
            high / low,
            least.offset
        )
    } else {
        format!("Wear: {high:.2} bytes are written to flash per byte of the host.")
    })
}

/// Says whether the writes have reached a steady state of the flash.
fn state(sweep: &Sweep) -> Option<String> {
    let unsteady = sweep.arms().iter().find_map(|arm| match arm.samples.reached {
        Some(Reached::Unsteady { first, second }) => Some((arm, first, second)),
        _ => None,
    });
    if let Some((arm, first, second)) = unsteady {
        return Some(format!(
            "Not a steady state: at offset {}, {first:.2} bytes were written to flash per byte of the host in the first \
             half of the run, and {second:.2} in the second. Run longer (--count), or warm up longer (--warmup).",
            arm.offset
        ));
    }
    let collected = sweep.arms().iter().filter_map(|arm| arm.samples.counters);
    let collected: u64 = collected.map(|counters| counters.gc_write_bytes).sum();
    let when = if collected == 0 { "before any" } else { "with" };
    is_flash(sweep).then(|| format!("The flash was in a steady state, {when} garbage collection."))
}

/// Returns what the times show.
fn times(sweep: &Sweep) -> String {
    let (best, worst) = (sweep.best(), sweep.worst());
    if let [only] = sweep.arms() {
        return format!("{} per request ({}).", each(only), plural(only.samples.requests, "request"));
    }
    if !sweep.differs() {
        return alike(sweep);
    }
    let cheapest = sweep.cheapest();
    let others = sweep.arms().len() - cheapest.len();
    let most = match others {
        2.. if sweep.others_alike() => format!("Every offset but {} costs more, up to", numbers(&cheapest)),
        _ => format!("Offset {} costs", worst.offset),
    };
    format!(
        "{most} {} times {}: {}, not {}.",
        ratio(sweep.worst_ratio()).replace('±', "± "),
        of_offsets(&cheapest),
        taken(worst, sweep),
        taken(best, sweep)
    )
}

/// Says that no difference shows, and how large one would have to be.
fn alike(sweep: &Sweep) -> String {
    let highs = || sweep.arms().iter().filter_map(|arm| Some(sweep.ratio(arm).interval?.high - 1.0));
    let (seen, option) = match in_turns(sweep) {
        true => (highs().max_by(f64::total_cmp), "--runtime"),
        false => (sweep.detectable(), "--count"),
    };
    if let Some(seen) = seen.filter(|seen| *seen <= MATTERS) {
        let what = if wears_differ(sweep) { " in time" } else { "" };
        let offsets = plural(sweep.arms().len(), "offset");
        let limit = match seen > 0.0 {
            true => format!(" (above {} %, it would show)", rounded(seen * 100.0)),
            false => String::new(),
        };
        return format!("No difference{what} between {offsets}{limit}.");
    }
    let why = match seen {
        Some(seen) => format!("differences below {:.0} % would not show", seen * 100.0),
        None if in_turns(sweep) => {
            format!("{} of the {FEWEST_ROUNDS} needed", plural(sweep.best().rounds().len(), "round"))
        }
        None => "too few requests".to_owned(),
    };
    format!("Inconclusive: run longer ({option}; {why}).")
}

/// Whether the arms were run in turns.
pub(super) fn in_turns(sweep: &Sweep) -> bool {
    sweep.arms().iter().any(|arm| !arm.turns.is_empty())
}

pub(super) fn each(arm: &Arm) -> Nanos {
    Nanos::from_seconds(arm.seconds_per_request()).unwrap_or_default()
}

/// Returns the time of an arm: of its whole run or, in turns, of one request.
fn taken(arm: &Arm, sweep: &Sweep) -> String {
    // Runs that end after a time all take the same, whatever a request takes.
    let requests = |arm: &Arm| arm.samples.requests;
    let as_many = sweep.arms().iter().all(|other| requests(other) == requests(arm));
    if in_turns(sweep) || !as_many {
        format!("{} a request", each(arm))
    } else {
        arm.samples.elapsed.to_string()
    }
}

/// Returns `0, 8, 16`; for many offsets only the ends.
fn listed(offsets: &[u64]) -> String {
    const MAX_LISTED: usize = 6;
    let words = |offsets: &[u64]| offsets.iter().map(u64::to_string).collect::<Vec<_>>().join(", ");
    match offsets {
        [first, .., last] if offsets.len() > MAX_LISTED => format!("{first}, … {last}"),
        few => words(few),
    }
}
