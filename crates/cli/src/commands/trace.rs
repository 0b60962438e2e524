//! `straddle trace`: what the requests of block traces do to sectors and units.

mod record;

use std::io::BufWriter;
use std::path::{Path, PathBuf};

use anyhow::Result;
use straddle_trace::{About, Account, Recording, SECTOR, Target, Window, Writer};

use crate::args::{SchemaOf, TraceAction, TraceArguments};
use crate::exit::{Exit, UsageError};
use crate::input;
use crate::output::{self, plural, printable};
use crate::output_file::{self, OutputFile};
use crate::view::json::Document;
use crate::view::json::trace::{Counted, TraceFile, TraceReport};
use crate::view::{csv, html, svg, text};

pub(crate) fn run(arguments: &TraceArguments) -> Result<Exit> {
    match &arguments.action {
        Some(TraceAction::Record(arguments)) => record::run(arguments),
        None => count(arguments),
    }
}

fn count(arguments: &TraceArguments) -> Result<Exit> {
    let start = arguments.started_at.get();
    if !start.is_multiple_of(SECTOR) {
        let message =
            format!("--started-at {start}: must be a multiple of 512 bytes ({start}s is sector {start})");
        return Err(UsageError(message).into());
    }
    if arguments.traces.iter().filter(|path| input::is_stdin(path)).count() > 1 {
        return Err(UsageError("standard input can be read only once".to_owned()).into());
    }
    let start = start / SECTOR;
    let units = &arguments.unit;
    let window = arguments.merge_within.map(|within| Window { within, units: units.clone(), start });
    let traces = Recording::group(&arguments.traces);
    let inputs: Vec<&Path> = traces.iter().flat_map(|trace| &trace.files).map(PathBuf::as_path).collect();
    for path in [&arguments.html, &arguments.svg].into_iter().flatten() {
        output_file::check(path, &inputs)?;
    }
    let (account, abouts) = match &arguments.to[..] {
        [format, path] => converted(arguments, &traces, window.as_ref(), (target(format)?, path), &inputs)?,
        _ => {
            let how = arguments.source.how(window.is_some());
            Account::of(&traces, window.as_ref(), |trace| input::trace(trace, &how))?
        }
    };
    for (trace, about) in traces.iter().zip(&abouts) {
        input::warn(&trace.name, about.origin.as_ref());
    }
    let formats = abouts.into_iter().map(|about| about.format);
    let files: Vec<TraceFile> = traces.iter().zip(formats).map(TraceFile::from).collect();
    let total = account.total();
    let window = window.as_ref();
    let counted =
        Counted { files: &files, account: &account, total, units, start, best: arguments.best, window };
    if arguments.json {
        Document::of(SchemaOf::Trace, TraceReport::of(&counted)).print()?;
    } else {
        let shown = match arguments.csv {
            true => csv::trace(&counted),
            false => text::trace::trace(&counted, arguments.verbose),
        };
        output::print(&shown)?;
    }
    if let Some(path) = &arguments.html {
        output_file::write(path, html::trace::page(&counted).as_bytes(), &inputs)?;
    }
    if let Some(path) = &arguments.svg {
        output_file::write(path, svg::trace(&counted).as_bytes(), &inputs)?;
    }
    Ok(Exit::Success)
}

fn target(format: &Path) -> Result<Target, UsageError> {
    // fio's own documentation calls it an iolog.
    let format = if format == Path::new("iolog") { Path::new("fio") } else { format };
    let known = Target::ALL.into_iter().find(|target| Path::new(target.name()) == format);
    known.ok_or_else(|| {
        let names = Target::ALL.map(Target::name).join(", ");
        UsageError(format!(
            "--to {}: no such format; there are {names}",
            printable(&format.display().to_string())
        ))
    })
}

/// Counts the requests of traces, one after the other, and writes them to a file.
fn converted(
    arguments: &TraceArguments,
    traces: &[Recording],
    window: Option<&Window>,
    (target, path): (Target, &PathBuf),
    inputs: &[&Path],
) -> Result<(Account, Vec<About>)> {
    let out = OutputFile::begin(path, inputs)?;
    let out = BufWriter::with_capacity(1 << 18, out);
    let name = path.display().to_string();
    let mut writer = Writer::new(target, out, &name)?;
    let (mut account, mut abouts) = (Account::new(), Vec::new());
    let how = arguments.source.how(true);
    for trace in traces {
        let reader = input::trace(trace, &how)?;
        let each = &mut |records: &[_], volumes: &[_]| writer.write(records, volumes);
        abouts.push(account.read_with(reader, window, each)?);
    }
    let (out, written) = writer.finish()?;
    let out = out.into_inner().map_err(std::io::IntoInnerError::into_error);
    out.and_then(OutputFile::finish)
        .map_err(|error| anyhow::Error::from(error).context(format!("{name}: cannot write")))?;
    let format = target.name();
    let lost = [
        (written.times, format!("the times of {} below a millisecond", plural(written.times, "request"))),
        (written.through, format!("that {} went through the cache", plural(written.through, "write"))),
        (
            written.took,
            format!("how long {} took, and when the next one followed", plural(written.took, "request")),
        ),
    ];
    for (_, what) in lost.iter().filter(|(count, _)| *count > 0) {
        output::complain(&format!("{name}: {format} cannot store {what}"));
    }
    Ok((account, abouts))
}
