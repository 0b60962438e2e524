//! `straddle sim`: replays a block trace on a modelled drive.

use anyhow::Result;
use straddle_drive::Profile;
use straddle_trace::{Options, Pace, Reader, Recording, replay, replay_volumes};

use crate::args::{SchemaOf, SimArguments};
use crate::exit::{Exit, UsageError};
use crate::input;
use crate::output;
use crate::target::Drive;
use crate::view::json::Document;
use crate::view::json::sim::{Read, Run, Sim};
use crate::view::text;

pub(crate) fn run(arguments: &SimArguments) -> Result<Exit> {
    let Drive { specification, profile } = &arguments.drive;
    let shifts = shifts(arguments, profile)?;
    let trace = arguments.trace.display().to_string();
    if shifts.len() > 1 && input::is_stdin(&arguments.trace) {
        let message = "standard input can be read only once, but each shift reads the trace again: save it \
                       to a file";
        return Err(UsageError(message.to_owned()).into());
    }
    let recordings = Recording::group(std::slice::from_ref(&arguments.trace));
    let runs = shifts.into_iter().flat_map(|shift| recordings.iter().map(move |trace| (trace, shift)));
    let runs =
        runs.map(|(trace, shift)| one(arguments, profile, trace, shift)).collect::<Result<Vec<Run>>>()?;
    let sim = Sim { trace: &trace, drive: specification, profile, runs: &runs };
    if arguments.json {
        Document::of(SchemaOf::Sim, sim.report()).print()?;
        return Ok(Exit::Success);
    }
    output::print(&text::sim::sim(&sim))?;
    Ok(Exit::Success)
}

/// Returns the shifts of all runs in bytes, in order.
fn shifts(arguments: &SimArguments, profile: &Profile) -> Result<Vec<u64>> {
    let sector = profile.claims.logical_sector;
    let mut shifts: Vec<u64> = arguments.shift.iter().map(|shift| shift.get()).collect();
    if let Some(shift) = shifts.iter().find(|shift| !shift.is_multiple_of(sector)) {
        let message = format!("--shift {shift}: this drive has logical sectors of {sector} bytes");
        return Err(UsageError(message).into());
    }
    if shifts.is_empty() {
        shifts.push(if arguments.compare { sector } else { 0 });
    }
    if arguments.compare && shifts[0] != 0 {
        shifts.insert(0, 0);
    }
    Ok(shifts)
}

fn one(arguments: &SimArguments, profile: &Profile, trace: &Recording, shift: u64) -> Result<Run> {
    let mut reader = input::trace(trace, &arguments.source.how(true))?;
    let pace = match (arguments.open_loop, arguments.closed_loop) {
        (true, _) => Some(Pace::Open),
        (_, true) => Some(Pace::Closed),
        _ => None,
    };
    // Once, and not for each shift.
    let first = if arguments.compare { 0 } else { arguments.shift.first().map_or(0, |first| first.get()) };
    let warn = |reader: &Reader<'_>| {
        if shift == first {
            input::warn(&trace.name, reader.origin());
        }
    };
    let options = Options { pace, shift, depth: arguments.queue_depth, wrap: arguments.wrap };
    if arguments.one_drive {
        let replayed = replay(profile, &mut reader, &options, &mut |_| {})?;
        warn(&reader);
        return Ok(Run::of_one(shift, Read::of(&mut reader)?, replayed));
    }
    let replays = replay_volumes(profile, &mut reader, &options)?;
    warn(&reader);
    Ok(Run::of_volumes(shift, Read::of(&mut reader)?, replays))
}
