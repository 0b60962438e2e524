//! `straddle trace record`: records what the kernel asks of a disk.

use std::io::{IsTerminal, Write};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use anyhow::{Context, Result};
use straddle_trace::Recorder;
use straddle_trace::tracefs::{Options, Progress, Subject, Why};

use crate::args::{RecordArguments, SchemaOf};
use crate::exit::Exit;
use crate::interrupt::on_interrupt;
use crate::output;
use crate::recording::{Whole, origin};
use crate::view::json::Document;
use crate::view::json::record::RecordReport;
use crate::view::text;

/// The usual size of a buffer in KiB.
const USUAL: u64 = 4096;

pub(crate) fn run(arguments: &RecordArguments) -> Result<Exit> {
    let subject = Subject::of(&arguments.device)?;
    let out = Whole::begin(&arguments.to, &[&arguments.device])?;
    let stop = Arc::new(AtomicBool::new(false));
    on_interrupt(&stop).context("cannot watch for Ctrl-C")?;
    let name = arguments.to.display();
    if subject.holds(&arguments.to) {
        output::complain(&format!("{name}: is on the recorded disk: writes to it are recorded too"));
    }
    let (now, since_epoch) = straddle_trace::tracefs::clock();
    let origin = origin(straddle_trace::tracefs::CLOCK, vec![subject.described.clone()]);
    let written = || format!("{name}: cannot write");
    let mut recorder =
        Recorder::new(out, origin, &[subject.number], now, since_epoch).with_context(written)?;
    let options = Options { limit: arguments.limit, buffer: arguments.buffer.get() >> 10 };
    let mut line = Line::new(arguments.limit);
    let ended =
        straddle_trace::tracefs::record(&subject, &options, &mut recorder, &stop, &mut |now| line.show(now));
    drop(line);
    let asked = *recorder.asked();
    let finished = ended.and_then(|ended| {
        let finished = recorder.finish(ended.lost).map_err(straddle_trace::tracefs::RecordError::Write);
        finished.map(|()| ended)
    });
    let ended = match finished {
        Ok(ended) => ended,
        Err(error) => {
            if asked.requests.count() > 0 {
                match recorder.into_inner().keep() {
                    Ok(()) => {
                        output::complain(&format!(
                            "{name}: holds what was recorded before the following error"
                        ));
                    }
                    Err(error) => output::complain(&format!("{name}: cannot write: {error}")),
                }
            }
            return Err(anyhow::Error::from(error).context(name.to_string()));
        }
    };
    recorder.into_inner().keep().with_context(written)?;
    if arguments.json {
        let report = RecordReport::of(&subject, &asked, &ended, &arguments.to);
        Document::of(SchemaOf::TraceRecord, report).print()?;
    } else {
        let shown = text::record::ended(&subject, &asked, &ended, &arguments.to);
        output::print(&shown)?;
    }
    if ended.lost > 0 {
        // As many times more as there were events, at least four, and no less than the usual size.
        let events = (asked.requests.count() * 2).max(1);
        let factor = (ended.lost / events + 2).next_power_of_two().max(4);
        let larger = (arguments.buffer.get() >> 10).saturating_mul(factor).max(USUAL);
        let lost = output::plural(ended.lost, "event");
        output::complain(&format!(
            "{lost} lost, because the kernel's buffers were full; --buffer {larger}KiB may be enough"
        ));
    }
    if ended.why == Why::Gone {
        output::complain(&format!("{}: the disk is gone", arguments.device.display()));
        return Ok(Exit::Failed);
    }
    Ok(Exit::Success)
}

/// A status line, if stderr is a terminal.
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
            let _ = write!(std::io::stderr(), "\r{}\x1b[K", text::record::line(now, self.limit));
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
