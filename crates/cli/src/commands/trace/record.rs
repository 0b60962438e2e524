//! `straddle trace record`: records what the kernel asks of a disk.

use std::fmt::Write as _;
use std::io::{IsTerminal, Write as _};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use anyhow::{Context, Result};
use schemars::JsonSchema;
use serde::Serialize;
use straddle_trace::tracefs::{Ended, Options, Progress, RecordError, Subject, Why};
use straddle_trace::{Asked, Recorded, Recorder, tracefs};
use straddle_units::ByteCount;

use crate::commands::trace::RecordArguments;
use crate::exit::Exit;
use crate::output::{self, plural, printable, quote_path};
use crate::progress::on_interrupt;
use crate::recording::{Whole, origin};
use crate::view::json::{Document, SchemaOf};
use crate::view::text::wrap;

const USUAL: u64 = 4096;

pub(crate) fn run(arguments: &RecordArguments) -> Result<Exit> {
    let subject = Subject::of(&arguments.device)?;
    let out = Whole::begin(&arguments.to, &[&arguments.device])?;
    let stop = Arc::new(AtomicBool::new(false));
    on_interrupt(&stop).context("cannot install the Ctrl-C handler")?;
    let name = arguments.to.display();
    if subject.holds(&arguments.to) {
        output::complain(&format!(
            "{name}: is on the recorded disk, so the recording includes the writes to this file"
        ));
    }
    let (now, since_epoch) = tracefs::clock();
    let origin = origin(tracefs::CLOCK, vec![subject.described.clone()]);
    let written = || format!("{name}: cannot write");
    let mut recorder =
        Recorder::new(out, origin, &[subject.number], now, since_epoch).with_context(written)?;
    let options = Options { limit: arguments.limit, buffer: arguments.buffer.get() >> 10 };
    let mut line = Line::new(arguments.limit);
    let ended = tracefs::record(&subject, &options, &mut recorder, &stop, &mut |now| line.show(now));
    drop(line);
    let asked = *recorder.asked();
    let finished = ended.and_then(|ended| {
        let finished = recorder.finish(ended.lost).map_err(RecordError::Write);
        finished.map(|()| ended)
    });
    let ended = match finished {
        Ok(ended) => ended,
        Err(error) => {
            if asked.requests.count() > 0 {
                output::complain(&match recorder.into_inner().keep() {
                    Ok(()) => {
                        format!("{name}: contains the events that were recorded before the following error")
                    }
                    Err(error) => format!("{name}: cannot write: {error}"),
                });
            }
            return Err(error).context(name.to_string());
        }
    };
    recorder.into_inner().keep().with_context(written)?;
    if arguments.json {
        let (recorded, file) = (&subject.described, arguments.to.to_string_lossy().into_owned());
        let report = RecordReport { recorded, file, ended: &ended, asked: &asked };
        Document::of(SchemaOf::TraceRecord, report).print()?;
    } else {
        output::print(&text_of_ended(&subject, &asked, &ended, &arguments.to))?;
    }
    if ended.lost > 0 {
        // As many times more as there were events, at least four, and no less than the usual size.
        let events = (asked.requests.count() * 2).max(1);
        let factor = (ended.lost / events + 2).next_power_of_two().max(4);
        let larger = (arguments.buffer.get() >> 10).saturating_mul(factor).max(USUAL);
        let lost = plural(ended.lost, "event");
        output::complain(&format!(
            "{lost} lost, because the kernel's trace buffers were full; use larger buffers, such as --buffer \
             {larger}KiB"
        ));
    }
    if ended.why == Why::Gone {
        output::complain(&format!(
            "{}: the disk was removed during the recording",
            arguments.device.display()
        ));
        return Ok(Exit::Failed);
    }
    Ok(Exit::Success)
}

struct Line {
    limit: Option<Duration>,
    is_shown: bool,
}

impl Line {
    fn new(limit: Option<Duration>) -> Self {
        Self { limit, is_shown: false }
    }

    fn show(&mut self, now: &Progress<'_>) {
        if std::io::stderr().is_terminal() {
            self.is_shown = true;
            // The line is not essential, so errors in writing it are ignored.
            let _ = write!(std::io::stderr(), "\r{}\x1b[K", line(now, self.limit));
        }
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        if self.is_shown {
            let _ = writeln!(std::io::stderr());
        }
    }
}

/// What `straddle trace record --json` prints when the recording has ended.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct RecordReport<'a> {
    #[serde(flatten)]
    recorded: &'a Recorded,
    /// The file to which the recording was written.
    file: String,
    #[serde(flatten)]
    ended: &'a Ended,
    #[serde(flatten)]
    asked: &'a Asked,
}

fn line(now: &Progress<'_>, limit: Option<Duration>) -> String {
    let of = limit.map(|limit| format!(" of {} s", limit.as_secs())).unwrap_or_default();
    let requests = now.asked.requests;
    let mut line = format!(
        "{} s{of}  {}  {} read, {} written",
        now.elapsed.as_secs(),
        plural(requests.count(), "request"),
        ByteCount::new(requests.read_bytes),
        ByteCount::new(requests.write_bytes)
    );
    if now.lost > 0 {
        let _ = write!(line, "  {} lost", plural(now.lost, "event"));
    }
    line
}

fn asked(asked: &Asked) -> String {
    let requests = asked.requests;
    let mut text = format!(
        "{} ({}), {} ({})",
        plural(requests.reads, "read"),
        ByteCount::new(requests.read_bytes),
        plural(requests.writes, "write"),
        ByteCount::new(requests.write_bytes)
    );
    let others = [
        (requests.flushes, "flush", "flushes"),
        (requests.discards, "discard", "discards"),
        (asked.commands, "device command", "device commands"),
    ];
    for (count, one, several) in others.into_iter().filter(|(count, ..)| *count > 0) {
        let _ = write!(text, ", {count} {}", if count == 1 { one } else { several });
    }
    text
}

fn text_of_ended(subject: &Subject, counted: &Asked, ended: &Ended, to: &Path) -> String {
    let disk = subject.described.device.as_deref().unwrap_or_default();
    let why = match ended.why {
        Why::Time => "",
        Why::Stopped => ", stopped",
        Why::Gone => ", until it was removed",
    };
    let lost = match ended.lost {
        0 => "no events lost".to_owned(),
        lost => format!("{} lost", plural(lost, "event")),
    };
    let what = match &subject.described.partition {
        None => printable(disk),
        Some(partition) => printable(&partition.device),
    };
    let summary =
        format!("{what}: recorded for {:.1} s{why}: {}; {lost}", ended.elapsed.as_secs_f64(), asked(counted));
    let mut text = wrap(&summary, "");
    if let Some(partition) = &subject.described.partition {
        let note = format!(
            "offsets are relative to {}, where the partition starts at byte {}; flushes are those of the \
             whole disk",
            printable(disk),
            partition.start
        );
        let _ = write!(text, "\n{}", wrap(&note, ""));
    }
    let _ = writeln!(text, "\nstraddle trace {}", quote_path(to));
    text
}
