//! Restores the previous contents of a target whose run did not end.
//!
//! Invariants: a target is written only after everything that the journal holds has been compared
//! with it. Where the bytes differ, it is written only if the owner says so: a run writes only the previous
//! contents, so different bytes come from another program. (A sector that was torn by a power cut while the
//! same bytes were written to it is either intact or unreadable.) What is unreadable or equal is written and
//! flushed: a write of the run may have failed, and a cache below the target hides that.

mod check;
mod compare;
mod outcome;
mod put;

use std::fs;
use std::io;
use std::path::Path;

use rustix::fs::FlockOperation;
use rustix::io::Errno;
use straddle_device::FileId;

use self::put::put_back;
use super::left::Left;
use super::{JournalError, Locked, NEW, remove, title};

pub use outcome::{Lacks, Restored, Settled};

/// Attempts to lock a journal to which other processes add or from which they remove files.
const LOOKS: u32 = 16;

/// What happens to what another program has written since.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LaterWrites {
    /// It stays, and the journal with it.
    Keep,
    /// It is overwritten with what was there before.
    Overwrite,
}

/// Restores what a journal holds. Removes it if it is complete and the target has its previous contents.
pub fn restore(journal: &Left, later: LaterWrites) -> Settled {
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
        // The run may have added files before the journal was locked.
        let now = match journal.again() {
            Ok(now) => now.filter(|now| now.first() == first),
            Err(error) => return unknown(error),
        };
        if let Some(now) = now {
            let settled = settle(&now, later);
            drop(held);
            return settled;
        }
    }
    Restored::Running.into()
}

/// Settles a journal that is locked.
fn settle(journal: &Left, later: LaterWrites) -> Settled {
    if journal.is_over || journal.is_beginning() {
        return match remove_rest(journal) {
            Ok(()) if journal.is_over => Restored::Ended.into(),
            Ok(()) => Restored::Incomplete.into(),
            Err(error) => failed(error, journal.lacks()),
        };
    }
    let settled = put_back(journal, later);
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

/// The result of an attempt to lock.
enum Lock {
    Held(Locked),
    /// Another process has locked it.
    Busy,
    /// It was removed or renamed in between.
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

/// Removes what is left of a journal that is not needed.
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
