//! Compares the contents of a journal with its target, and writes them back.
//!
//! Invariants: it writes only while no other process has opened the target, which is checked
//! before each write. It reports that the target holds its previous contents only if they were read after the
//! last write.

use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, UNIX_EPOCH};

use straddle_device::claim;
use straddle_units::Span;

use super::check::Check;
use super::compare::{CHUNK, Checked, Found};
use super::{LaterWrites, Restored, Settled};
use crate::real::journal::JournalError;
use crate::real::journal::left::Left;
use crate::real::journal::sectors::Ways;
use crate::real::lookout::Lookout;
use crate::real::moment::format_moment;
use crate::real::open::{Access, OpenError, Opened};
use crate::real::others::{Others, Seen};

/// Writes back the contents of a journal's files, after all files have been checked and compared.
pub(super) fn put_back(journal: &Left, later: LaterWrites) -> Settled {
    let mut lacks = journal.lacks();
    let (mut errors, mut files) = (Vec::new(), Vec::new());
    let mut check = Check::default();
    for path in journal.paths() {
        match check.file(path) {
            Ok(file) => files.push(file),
            Err(error) => {
                if let JournalError::Damaged { renamed, .. } = &error {
                    lacks.damaged.push(renamed.clone());
                }
                let is_of_target =
                    matches!(error, JournalError::Open { .. } | JournalError::OtherTarget { .. });
                errors.push(error);
                if is_of_target {
                    files.clear();
                    break;
                }
            }
        }
    }
    let put = check.opened.as_ref().and_then(|opened| put_back_files(opened, &files, later, &mut errors));
    let are_damaged = errors.iter().all(|error| matches!(error, JournalError::Damaged { .. }));
    let is_kept = !are_damaged || !lacks.missing.is_empty() || !lacks.has_end;
    let restored = match put {
        Some(Put { target, foreign, unreadable, bytes, began }) if !foreign.is_empty() => {
            Restored::Changed { target, spans: foreign, unreadable, bytes, began }
        }
        Some(Put { target, bytes, .. }) if lacks.is_nothing() && errors.is_empty() => {
            Restored::Whole { target, bytes }
        }
        put => {
            let (target, bytes) = put.map_or((None, 0), |put| (Some(put.target), put.bytes));
            Restored::Part { target, bytes, is_kept }
        }
    };
    Settled { restored, lacks, errors }
}

/// What was done with the files of a journal.
struct Put {
    target: PathBuf,
    /// Where another program has written since the run. Left alone.
    foreign: Vec<Span>,
    /// Unreadable spans beside those, left alone as well.
    unreadable: Vec<Span>,
    /// The number of bytes written back.
    bytes: u64,
    began: String,
}

/// Compares the journal's files with the target. Then writes back what is to be written, and compares again.
/// `None` if there are no files, or if there was an error before the first write.
fn put_back_files(
    opened: &Opened,
    files: &[Checked],
    later: LaterWrites,
    errors: &mut Vec<JournalError>,
) -> Option<Put> {
    let first = files.first()?;
    let began =
        UNIX_EPOCH.checked_add(Duration::from_secs(first.header.began_unix_seconds)).unwrap_or(UNIX_EPOCH);
    let target = first.header.target.clone();
    let mut put =
        Put { target, foreign: Vec::new(), unreadable: Vec::new(), bytes: 0, began: format_moment(began) };
    let ways = Ways::to(opened);
    let mut guard = Guard::over(opened, &first.path).map_err(|error| errors.push(error)).ok()?;
    let compare = || files.iter().map(|file| file.compare(&ways, later)).collect::<Result<Vec<_>, _>>();
    let compared = compare().and_then(|compared| {
        // Data that another process writes from here on is its own, and the comparison no longer holds.
        guard.nobody_came("compared", 0)?;
        Ok(compared)
    });
    let mut compared = compared.map_err(|error| errors.push(error)).ok()?;
    for found in &mut compared {
        if later == LaterWrites::Keep {
            put.foreign.append(&mut found.foreign);
        }
        put.unreadable.append(&mut found.beside);
    }
    let written = files
        .iter()
        .zip(&compared)
        .try_for_each(|(file, found)| file.back(&ways, found, &mut guard, &mut put.bytes))
        .and_then(|()| opened.file.sync_all().map_err(|source| guard.unflushed(source)))
        .and_then(|()| {
            let written: Vec<Span> = compared.iter().flat_map(Found::to_write).copied().collect();
            confirm(&mut put, &written, compare()?, &mut guard)
        });
    written.unwrap_or_else(|error| errors.push(error));
    Some(put)
}

/// Takes the second comparison as the result: other programs may have written since the first one.
fn confirm(
    put: &mut Put,
    written: &[Span],
    compared: Vec<Found>,
    guard: &mut Guard<'_>,
) -> Result<(), JournalError> {
    let (mut foreign, mut unreadable) = (Vec::new(), Vec::new());
    for found in compared {
        foreign.extend(found.foreign);
        unreadable.extend(found.beside.into_iter().chain(found.unreadable));
    }
    // These bytes were written back and still cannot be read: the drive has not stored them.
    let in_vain = |span: &Span| written.iter().any(|written| written.overlaps(*span));
    let failed = unreadable.iter().copied().find(in_vain);
    unreadable.retain(|span| !in_vain(span));
    // An area that was left alone was not written, whatever it holds by now.
    if !foreign.is_empty() || put.foreign.is_empty() {
        (put.foreign, put.unreadable) = (foreign, unreadable);
    }
    match failed {
        Some(span) => Err(guard.failed(span, rustix::io::Errno::IO.into())),
        None => guard.nobody_came("compared again", CHUNK),
    }
}

/// Protects what other processes write to the target meanwhile.
pub(super) struct Guard<'a> {
    opened: &'a Opened,
    lookout: Lookout,
    /// The last time when no other program was detected.
    clear: Instant,
    /// A file of the journal, for messages.
    journal: &'a Path,
}

impl<'a> Guard<'a> {
    fn over(opened: &'a Opened, journal: &'a Path) -> Result<Self, JournalError> {
        let in_use = |by| in_use(opened, journal, by);
        let blind = |(what, error): (PathBuf, io::Error)| {
            in_use(format!("others who open {} cannot be noticed: {error}", what.display()))
        };
        let others = Others::of(opened, Access::Claim).map_err(blind)?;
        let lookout = Lookout::over(opened, others).map_err(in_use)?;
        Ok(Self { opened, lookout, clear: Instant::now(), journal })
    }

    /// Fails if another program has opened the target while it was `done`. At most `under_way` bytes were on
    /// their way then.
    pub(super) fn nobody_came(&mut self, done: &str, under_way: u64) -> Result<(), JournalError> {
        if self.lookout.look(&self.opened.file) == Seen::Nobody {
            self.clear = Instant::now();
            return Ok(());
        }
        let is_kept = matches!(self.lookout, Lookout::Kept);
        // The kernel makes no program wait for longer than that.
        let has_waited = is_kept && self.clear.elapsed() < claim::waits_for();
        let lost = if has_waited || under_way == 0 {
            String::new()
        } else {
            format!("; of what it writes at the same time, at most {under_way} bytes may be written over")
        };
        let tried = if is_kept { ", or tried to," } else { "" };
        let by = format!("another program opened it{tried} while it was {done}{lost}");
        Err(in_use(self.opened, self.journal, by))
    }

    pub(super) fn unflushed(&self, source: io::Error) -> JournalError {
        JournalError::Flush { path: self.journal.to_owned(), target: self.opened.path.clone(), source }
    }

    fn failed(&self, span: Span, source: io::Error) -> JournalError {
        let (path, target) = (self.journal.to_owned(), self.opened.path.clone());
        JournalError::PutBack { path, target, offset: span.start().get(), length: span.len().get(), source }
    }
}

fn in_use(opened: &Opened, journal: &Path, by: String) -> JournalError {
    let source = OpenError::InUse { path: opened.path.clone(), by };
    JournalError::Open { path: journal.to_owned(), source }
}
