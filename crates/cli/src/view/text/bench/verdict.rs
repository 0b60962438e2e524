//! What a sweep shows, in sentences.
//!
//! Invariants: nothing is concluded from writes that a buffer took, and on an SSD the verdict is about
//! wear as well as time.

use straddle_measure::bench::{Arm, FEWEST_ROUNDS, Reached, Sweep};

use super::ratio;
use crate::output::plural;

/// Two arms wear flash alike up to this ratio: the writes in progress at the end of a run are in none of their counts.
const ALIKE: f64 = 1.03;

/// A difference that would not be seen, and yet be one: a run in which it would be missed cannot be said to show none.
const MATTERS: f64 = 0.25;

/// Returns what the sweep shows, in a few sentences.
pub(super) fn verdict(sweep: &Sweep) -> String {
    let absorbed = offsets(sweep, |reached| reached == Reached::Buffer);
    if absorbed.is_empty() {
        return format!("{}{}{}", times(sweep), wear(sweep), state(sweep));
    }
    let more = if is_flash(sweep) {
        "measure more writes (--count) or blocks (--blocks), or leave out --warmup, so that the buffer is filled first"
    } else {
        "measure more writes (--count), or flush each (--sync flush)"
    };
    format!(
        "The drive's buffer took the writes at {}: the medium was not reached, and nothing is known of what they cost \
         there; {more}.",
        of_offsets(&absorbed)
    )
}

/// Returns the offsets at which the writes have reached this.
fn offsets(sweep: &Sweep, is_meant: impl Fn(Reached) -> bool) -> Vec<u64> {
    let meant = sweep.arms().iter().filter(|arm| arm.samples.reached.is_some_and(&is_meant));
    meant.map(|arm| arm.offset).collect()
}

fn of_offsets(offsets: &[u64]) -> String {
    match offsets {
        [only] => format!("offset {only}"),
        [rest @ .., last] => format!("offsets {} and {last}", listed(rest)),
        [] => String::new(),
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
fn wear(sweep: &Sweep) -> String {
    let Some([(least, low), (most, high)]) = wears(sweep) else { return String::new() };
    if wears_differ(sweep) {
        format!(
            " Wear: offset {} writes {high:.2} bytes to flash per byte of the host, offset {} {low:.2}: {:.2} times.",
            most.offset,
            least.offset,
            high / low
        )
    } else {
        let each = if sweep.arms().len() > 1 { " at each offset" } else { "" };
        format!(" Wear: {high:.2} bytes are written to flash per byte of the host{each}.")
    }
}

/// Says whether the writes have reached a steady state of the flash.
fn state(sweep: &Sweep) -> String {
    if !is_flash(sweep) {
        return String::new();
    }
    let unsteady = sweep.arms().iter().find_map(|arm| match arm.samples.reached {
        Some(Reached::Unsteady { first, second }) => Some((arm, first, second)),
        _ => None,
    });
    if let Some((arm, first, second)) = unsteady {
        return format!(
            " This is not a steady state: at offset {}, {first:.2} bytes per byte of the host were written to flash in \
             the first half of the run, {second:.2} in the second; a longer run (--count) or warm-up (--warmup) comes \
             closer to one.",
            arm.offset
        );
    }
    let collected = sweep.arms().iter().filter_map(|arm| arm.samples.counters);
    let collected: u64 = collected.map(|counters| counters.gc_write_bytes).sum();
    let when = if collected == 0 { "before any" } else { "with" };
    format!(" The writes reached flash, in a steady state {when} garbage collection.")
}

/// Returns what the times show.
fn times(sweep: &Sweep) -> String {
    let (best, worst) = (sweep.best(), sweep.worst());
    if let [only] = sweep.arms() {
        return format!("{}: {} each.", plural(only.samples.requests, "request"), each(only));
    }
    let between = format!("between {}", plural(sweep.arms().len(), "offset"));
    if !sweep.differs() {
        let seen = sweep.detectable();
        if !in_turns(sweep) && seen.is_none_or(|seen| seen > MATTERS) {
            let least = seen.map_or(String::new(), |seen| format!(" of less than {:.0} %", seen * 100.0));
            let requests = plural(sweep.best().samples.requests, "request");
            return format!(
                "Cannot tell what differs {between}: {requests} of each are too few to see a difference{least}; measure more (--count)."
            );
        }
        let found = if in_turns(sweep) { "No difference found" } else { "No difference" };
        let found = if wears_differ(sweep) { "No difference in time" } else { found };
        return format!("{found} {between}.{}", known(sweep));
    }
    let cheapest = sweep.cheapest();
    let named = match &cheapest[..] {
        [] | [_] => format!("Offset {} is the cheapest", best.offset),
        [rest @ .., last] => format!("Offsets {} and {last} are the cheapest", listed(rest)),
    };
    let others = sweep.arms().len() - cheapest.len();
    let most = match others {
        2.. if sweep.others_alike() => format!("The other {others} cost up to"),
        _ => format!("Offset {} costs most:", worst.offset),
    };
    format!(
        "{named} ({}). {most} {} times the time of offset {} ({}).",
        taken(best, sweep),
        ratio(sweep.worst_ratio()).replace('±', "± "),
        best.offset,
        taken(worst, sweep)
    )
}

/// Whether the arms were run in turns.
pub(super) fn in_turns(sweep: &Sweep) -> bool {
    sweep.arms().iter().any(|arm| !arm.turns.is_empty())
}

pub(super) fn each(arm: &Arm) -> straddle_units::io::Nanos {
    straddle_units::io::Nanos::from_seconds(arm.seconds_per_request()).unwrap_or_default()
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

/// Says how large a difference could have been missed.
fn known(sweep: &Sweep) -> String {
    let highs = sweep.arms().iter().filter_map(|arm| Some(sweep.ratio(arm).interval?.high - 1.0));
    let seen = if in_turns(sweep) { highs.max_by(f64::total_cmp) } else { sweep.detectable() };
    match seen {
        Some(seen) if seen > 0.0 => {
            format!(" One of more than {:.1} % would have been detected.", seen * 100.0)
        }
        None if in_turns(sweep) => format!(
            " {} tell nothing yet: {FEWEST_ROUNDS} are needed (--runtime).",
            plural(sweep.best().rounds().len(), "round")
        ),
        _ => String::new(),
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
