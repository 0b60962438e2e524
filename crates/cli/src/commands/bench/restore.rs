//! `straddle bench --restore`: restores from the journals of interrupted runs.

use std::io::Write;
use std::path::Path;

use anyhow::{Context as _, Result};
use straddle_device::shown::quote_path;
use straddle_measure::real::{JournalError, LaterWrites, Restored, describe_spans, left, restore};

use super::real::{journals, restore_command};
use crate::args::BenchArguments;
use crate::exit::Exit;
use crate::output::{self, printable};

pub(super) fn restore_all(arguments: &BenchArguments) -> Result<Exit> {
    let folder = journals(arguments.real.journals.as_deref())?;
    let found = left(&folder)
        .with_context(|| format!("{}: cannot look for journals", printable(&folder.display().to_string())))?;
    let mut out = output::stdout();
    if found.is_empty() {
        writeln!(out, "Nothing to restore: no journal in {}.", printable(&folder.display().to_string()))?;
    }
    let mut exit = Exit::Success;
    let command = printable(&restore_command(arguments.real.journals.as_deref()));
    let later = if arguments.real.force { LaterWrites::Overwrite } else { LaterWrites::Keep };
    for journal in found {
        match restore(&journal, later) {
            Ok(restored) => {
                let (text, status) = describe(&journal, &restored, &command);
                out.write_all(text.as_bytes())?;
                exit = exit.max(status);
            }
            Err(error) => {
                exit = exit.max(Exit::of_kind(error.kind()));
                let again = match error {
                    JournalError::Damaged { .. } => String::new(),
                    _ => format!("; once this is fixed, run {command} again"),
                };
                output::complain(&printable(&format!("{:#}{again}", anyhow::Error::from(error))));
            }
        }
    }
    out.flush()?;
    Ok(exit)
}

/// Describes the result for one journal, and returns the exit status for it.
fn describe(journal: &Path, restored: &Restored, command: &str) -> (String, Exit) {
    let name = printable(&journal.display().to_string());
    match restored {
        Restored::Whole { target, bytes } => {
            let target = printable(&target.display().to_string());
            (format!("{target}: restored; {bytes} bytes differed or could not be read.\n"), Exit::Success)
        }
        Restored::Changed { target, spans, unreadable, bytes, began } => {
            let target = printable(&target.display().to_string());
            let beside = if unreadable.is_empty() {
                String::new()
            } else {
                format!("  {} cannot be read, and were not restored either.\n", describe_spans(unreadable))
            };
            let text = format!(
                "{target}: {} were written by another program after the run and were not restored; {bytes} \
                 other bytes were.\n{beside}  The run started to write at {began}; what another program \
                 wrote there before it ended may have been overwritten.\n  The journal is kept: {name}\n  \
                 To restore the contents from before the run: {command} --force (applies to every journal \
                 in that directory); to keep the present contents: remove the journal (rm {}).\n",
                describe_spans(spans),
                quote_path(journal)
            );
            (text, Exit::Refused)
        }
        Restored::Incomplete => (
            format!(
                "{name}: the journal is incomplete, so the run had not written to its target; the journal \
                 is removed.\n"
            ),
            Exit::Success,
        ),
        Restored::Running => (
            format!("{name}: its run, or another --restore, is still active; nothing was restored.\n"),
            Exit::Refused,
        ),
        Restored::Gone => (
            format!(
                "{name}: the journal is gone: its run has ended, or another --restore has restored it.\n"
            ),
            Exit::Success,
        ),
    }
}
