//! `straddle sim`: replays a block trace on a modelled drive.

use std::io::Write;

use anyhow::{Context, Result};
use straddle_drive::Profile;
use straddle_trace::{Options, Pace, Reader, Replayed, replay, unpacked};

use crate::args::SimArguments;
use crate::exit::{Exit, UsageError};
use crate::input;
use crate::output::{self, Styles};
use crate::target::Drive;
use crate::view::json::sim::{Run, Sim, SimReport};
use crate::view::text;

pub(crate) fn run(arguments: &SimArguments, styles: Styles) -> Result<Exit> {
    let Drive { specification, profile } = &arguments.drive;
    let shifts = shifts(arguments, profile)?;
    let trace = arguments.trace.display().to_string();
    if shifts.len() > 1 && input::is_stdin(&arguments.trace) {
        let message =
            "standard input can be read only once, and each shift reads the trace: save it to a file";
        return Err(UsageError(message.to_owned()).into());
    }
    let runs =
        shifts.into_iter().map(|shift| one(arguments, profile, shift)).collect::<Result<Vec<Run>>>()?;
    let sim = Sim { trace: &trace, drive: specification, profile, runs: &runs };
    if arguments.json {
        output::print_json(&SimReport::of(&sim))?;
        return Ok(Exit::Success);
    }
    let mut out = output::stdout();
    out.write_all(text::sim::sim(&sim, output::width(), styles).as_bytes())?;
    out.flush()?;
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

fn one(arguments: &SimArguments, profile: &Profile, shift: u64) -> Result<Run> {
    let name = arguments.trace.display().to_string();
    let file =
        input::open(&arguments.trace).and_then(unpacked).with_context(|| format!("{name}: cannot open"))?;
    let mut reader = Reader::new(file, &name, arguments.format);
    let pace = match (arguments.open_loop, arguments.closed_loop) {
        (true, _) => Some(Pace::Open),
        (_, true) => Some(Pace::Closed),
        _ => None,
    };
    let options = Options { pace, shift, depth: arguments.queue_depth, wrap: arguments.wrap };
    let replayed: Replayed = replay(profile, &mut reader, &options, &mut |_| {})?;
    Ok(Run { shift, format: reader.format(), replayed })
}
