//! Puts back what a run that did not end has left.
//!
//! The law of this module: a target is written only where its drive gives no bytes at all, or where its owner says that what
//! is there now may go, and not before all that the journal holds has been compared with it. A run writes nothing but what was
//! there, so what reads otherwise was written by somebody else: a sector that a power cut tore while the same bytes were written to
//! it is whole, or it cannot be read.

mod check;
mod compare;
mod outcome;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, UNIX_EPOCH};

use rustix::fs::FlockOperation;
use rustix::io::Errno;
use straddle_device::FileId;
use straddle_units::Span;

use self::check::Check;
use self::compare::Checked;
use super::left::Left;
use super::sectors::Ways;
use super::{JournalError, Locked, NEW, remove, title};
use crate::moment::told_moment;
use crate::open::{Access, OpenError, Opened};
use crate::others::{Others, Seen};

pub use outcome::{Lacks, Restored, Settled};

/// How often a journal is looked at that others remove or add to meanwhile.
const LOOKS: u32 = 16;

/// Puts back what a journal holds, and removes it when all of it is there and the target holds that. With `force` also where
/// somebody has written since.
pub fn restore(journal: &Left, force: bool) -> Settled {
    for _ in 0..LOOKS {
        let unknown = |source| {
            failed(JournalError::Io { path: journal.stem(), what: "look for", source }, journal.lacks())
        };
        let seen = match journal.again() {
            Ok(Some(seen)) => seen,
            Ok(None) => return Restored::Gone.into(),
            Err(error) => return unknown(error),
        };
        let first = seen.first();
        let held = match first.as_deref().map(locked).transpose() {
            Ok(Some(Lock::Busy)) => return Restored::Running.into(),
            Ok(Some(Lock::Gone)) => continue,
            Ok(Some(Lock::Held(file))) => Some(file),
            Ok(None) => None,
            Err(error) => return failed(error, seen.lacks()),
        };
        // Until it was locked, its run may have added to it.
        let now = match journal.again() {
            Ok(now) => now.filter(|now| now.first() == first),
            Err(error) => return unknown(error),
        };
        if let Some(now) = now {
            let settled = settle(&now, force);
            drop(held);
            return settled;
        }
    }
    Restored::Running.into()
}

/// What comes of a journal that is locked.
fn settle(journal: &Left, force: bool) -> Settled {
    if journal.is_over || journal.is_beginning() {
        return match remove_rest(journal) {
            Ok(()) if journal.is_over => Restored::Ended.into(),
            Ok(()) => Restored::Incomplete.into(),
            Err(error) => failed(error, journal.lacks()),
        };
    }
    let settled = put_back(journal, force);
    if !matches!(settled.restored, Restored::Whole { .. } | Restored::Part { is_kept: false, .. }) {
        return settled;
    }
    let end = journal.new.first().map(|number| journal.path(*number, NEW));
    let (folder, stem) = journal.names();
    match remove(folder, stem, end.as_deref(), &journal.paths()).and_then(|()| remove_rest(journal)) {
        Ok(()) => settled,
        Err(error) => Settled { errors: vec![error], ..settled },
    }
}

fn failed(error: JournalError, lacks: Lacks) -> Settled {
    let restored = Restored::Part { target: None, bytes: 0, is_kept: true };
    Settled { restored, lacks, errors: vec![error] }
}

/// What came of locking.
enum Lock {
    Held(Locked),
    /// Somebody else has it locked.
    Busy,
    /// It was removed or renamed meanwhile.
    Gone,
}

/// Opens and locks a file of a journal.
fn locked(path: &Path) -> Result<Lock, JournalError> {
    let failed = |what| move |source| JournalError::Io { path: path.to_owned(), what, source };
    let file = match title::open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Lock::Gone),
        file => file.map_err(failed("open"))?,
    };
    match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => {}
        Err(Errno::WOULDBLOCK) => return Ok(Lock::Busy),
        Err(errno) => return Err(failed("lock")(errno.into())),
    }
    let id = FileId::of_open(&file).map_err(failed("read"))?;
    let is_same = fs::symlink_metadata(path).is_ok_and(|now| FileId::of(&now) == id);
    Ok(if is_same { Lock::Held(Locked(file)) } else { Lock::Gone })
}

/// Removes what there is of a journal that is not needed.
fn remove_rest(journal: &Left) -> Result<(), JournalError> {
    for path in journal.everything() {
        title::remove(&path, journal.names().1).map_err(|source| JournalError::Io {
            path,
            what: "remove",
            source,
        })?;
    }
    Ok(())
}

/// Puts back what the files of a journal hold: when all of them have been checked, and all has been compared.
fn put_back(journal: &Left, force: bool) -> Settled {
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
    let put = check.opened.as_ref().and_then(|opened| put_back_files(opened, &files, force, &mut errors));
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

/// What was done by a journal.
struct Put {
    target: PathBuf,
    /// Where somebody has written since, which was left alone.
    foreign: Vec<Span>,
    /// What cannot be read beside that, which was left alone as well.
    unreadable: Vec<Span>,
    /// How many were put back.
    bytes: u64,
    began: String,
}

/// Compares what the files of a journal hold with the target; when that is done, puts it back. `None` where there are no files, or
/// anything went wrong before that.
fn put_back_files(
    opened: &Opened,
    files: &[Checked],
    force: bool,
    errors: &mut Vec<JournalError>,
) -> Option<Put> {
    let first = files.first()?;
    let began = UNIX_EPOCH.checked_add(Duration::from_secs(first.header.began_unix_s)).unwrap_or(UNIX_EPOCH);
    let target = first.header.target.clone();
    let mut put =
        Put { target, foreign: Vec::new(), unreadable: Vec::new(), bytes: 0, began: told_moment(began) };
    let came = |by: String| JournalError::Open {
        path: first.path.clone(),
        source: OpenError::InUse { path: opened.path.clone(), by },
    };
    let blind = |(what, error): (PathBuf, io::Error)| {
        came(format!("others who open {} cannot be noticed: {error}", what.display()))
    };
    let ways = Ways::to(opened);
    let compared = Others::of(opened, Access::Claim).map_err(blind).and_then(|mut others| {
        let compared = files.iter().map(|file| file.compare(&ways, force)).collect::<Result<Vec<_>, _>>()?;
        // What they write from here on is theirs, and what has been compared is no longer what is there.
        match others.users().into_iter().next() {
            Some(by) => Err(came(by)),
            None if others.look() != Seen::Nobody => {
                Err(came("another program opened it while it was compared".to_owned()))
            }
            None => Ok(compared),
        }
    });
    let compared = compared.map_err(|error| errors.push(error)).ok()?;
    for (file, mut found) in files.iter().zip(compared) {
        if !force {
            put.foreign.append(&mut found.foreign);
        }
        put.unreadable.append(&mut found.beside);
        match file.back(&ways, &found) {
            Ok(bytes) => put.bytes += bytes,
            Err(error) => {
                errors.push(error);
                break;
            }
        }
    }
    Some(put)
}
