//! `straddle trace`: what the requests of block traces do to sectors and units.

use std::io::Write;

use anyhow::{Context, Result};
use straddle_trace::{Account, Order, Reader, SECTOR, unpacked};

use crate::args::TraceArguments;
use crate::exit::{Exit, UsageError};
use crate::input;
use crate::output::{self, Styles};
use crate::view::json::trace::{Counted, TraceFile, TraceReport};
use crate::view::text;

pub(crate) fn run(arguments: &TraceArguments, styles: Styles) -> Result<Exit> {
    let start = arguments.started_at.get();
    if !start.is_multiple_of(SECTOR) {
        let message = format!("--started-at {start}: must be a multiple of 512 bytes");
        return Err(UsageError(message).into());
    }
    let mut account = Account::new();
    let files = arguments.traces.iter().map(|path| {
        let name = path.display().to_string();
        let file = input::open(path).and_then(unpacked).with_context(|| format!("{name}: cannot open"))?;
        let mut reader = Reader::new(file, &name, arguments.format).ordered(Order::Any);
        account.read(&mut reader)?;
        Ok(TraceFile { format: reader.format(), name })
    });
    let files = files.collect::<Result<Vec<_>>>()?;
    let counted = Counted {
        files: &files,
        account: &account,
        total: account.total(),
        units: &arguments.unit,
        start: start / SECTOR,
        best: arguments.best,
    };
    if arguments.json {
        output::print_json(&TraceReport::of(&counted))?;
        return Ok(Exit::Success);
    }
    let mut out = output::stdout();
    out.write_all(text::trace::trace(&counted, output::width(), styles).as_bytes())?;
    out.flush()?;
    Ok(Exit::Success)
}
