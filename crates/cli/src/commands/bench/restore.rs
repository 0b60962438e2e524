//! `straddle bench --restore`: restores from the journals of interrupted runs.

use std::io::Write;

use anyhow::{Context as _, Result};
use straddle_device::shown::quote_path;
use straddle_measure::real::{
    JournalError, LaterWrites, Left, Restored, Settled, describe_spans, left, restore,
};

use super::real::{journals, restore_command};
use crate::args::BenchArguments;
use crate::exit::Exit;
use crate::output::{self, printable};

/// Restores what interrupted runs overwrote.
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
        let settled = restore(&journal, later);
        for error in &settled.errors {
            exit = exit.max(Exit::of_kind(error.kind()));
        }
        let (text, status) = describe(&journal, &settled, &command);
        out.write_all(text.as_bytes())?;
        exit = exit.max(status);
        for error in settled.errors {
            let again = match error {
                JournalError::Damaged { .. } => String::new(),
                _ => format!("; once this is fixed, run {command} again"),
            };
            output::complain(&printable(&format!("{:#}{again}", anyhow::Error::from(error))));
        }
    }
    out.flush()?;
    Ok(exit)
}

/// Describes the result for one journal, and returns the exit status for it.
fn describe(journal: &Left, settled: &Settled, command: &str) -> (String, Exit) {
    let name = printable(&journal.stem().display().to_string());
    let files: Vec<String> = journal.present().iter().map(|path| quote_path(path)).collect();
    let removed = format!("remove the journal (rm {})", files.join(" "));
    let lacks = printable(&settled.lacks.to_string());
    let nothing = |why: &str, exit: Exit| (format!("{name}: {why}.\n"), exit);
    match &settled.restored {
        Restored::Whole { target, bytes } => {
            let target = printable(&target.display().to_string());
            (format!("{target}: restored; {bytes} bytes differed or could not be read.\n"), Exit::Success)
        }
        Restored::Changed { target, spans, unreadable, bytes, began } => {
            let target = printable(&target.display().to_string());
            let incomplete = if settled.lacks.is_nothing() {
                String::new()
            } else {
                format!("  Of the journal, {lacks}: what these covered is not known.\n")
            };
            let beside = if unreadable.is_empty() {
                String::new()
            } else {
                format!("  {} cannot be read: left alone as well.\n", describe_spans(unreadable))
            };
            let text = format!(
                "{target}: {} were written by another program after the run: left alone; {bytes} other bytes were restored.\n\
                 {beside}{incomplete}  The run began to write at {began}; what another program wrote there before it ended may have been overwritten.\n  \
                 The journal is kept: {name}\n  To restore the contents from before the run: {command} --force (applies to every journal in that folder); \
                 to keep the present contents: {removed}.\n",
                describe_spans(spans)
            );
            (text, Exit::Refused)
        }
        // The errors have already been printed.
        Restored::Part { target, .. }
            if settled.lacks.is_nothing() || target.is_none() && !settled.errors.is_empty() =>
        {
            (String::new(), Exit::Failed)
        }
        Restored::Part { target, bytes, is_kept } => {
            let target = target.as_ref().map_or(name.clone(), |target| target.display().to_string());
            let kept = if *is_kept {
                format!(
                    "  The journal is kept: {name}\n  When all of it is back: {command}. Otherwise compare the target with \
                     another copy, and {removed}.\n"
                )
            } else {
                String::new()
            };
            let is_whole = settled.errors.iter().all(|error| matches!(error, JournalError::Damaged { .. }));
            let rest = if is_whole { "it was verified; " } else { "the comparison is incomplete; " };
            let text = format!(
                "{target}: whether it is restored is not known: of its journal, {lacks}. In the areas of the rest of the journal, \
                 {rest}{bytes} bytes were restored.\n{kept}",
                target = printable(&target)
            );
            (text, Exit::Failed)
        }
        Restored::Incomplete => nothing(
            "the journal is not complete, so the run had not written to its target; the journal is removed",
            Exit::Success,
        ),
        Restored::Ended => nothing(
            "the run had ended and restored its target; the rest of its journal is removed",
            Exit::Success,
        ),
        Restored::Running => {
            nothing("its run, or another --restore, is still active; nothing was restored", Exit::Refused)
        }
        Restored::Gone => nothing(
            "the journal is gone: its run has ended, or another --restore has restored it",
            Exit::Success,
        ),
    }
}
