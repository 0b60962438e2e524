//! Puts back what a run that did not end has left.
//!
//! The law of this module: a target is written only where its drive gives no bytes at all, or where its owner says that what
//! is there now may go, and not before all that the journal holds has been compared with it. A run writes nothing but what was
//! there, so what reads otherwise was written by somebody else: a sector that a power cut tore while the same bytes were written to
//! it is whole, or it cannot be read.

use std::fmt::{self, Display, Formatter};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use rustix::fs::FlockOperation;
use rustix::io::Errno;
use straddle_device::FileId;
use straddle_units::Span;

mod check;
mod put;

use super::left::Left;
use super::{JournalError, Locked, NEW, remove, title};
use crate::open::OpenError;
use put::put_back;

/// So much is read at a time.
const CHUNK: u64 = 1 << 20;
/// How often a journal is looked at that others remove or add to meanwhile.
const LOOKS: u32 = 16;

/// What came of a journal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Restored {
    /// The target holds what it held, and the journal is gone.
    Whole {
        /// The target.
        target: PathBuf,
        /// Bytes that had to be put back.
        bytes: u64,
    },
    /// Somebody has written to the target since. That was left alone; the journal is kept.
    Changed {
        /// The target.
        target: PathBuf,
        /// Where, rising within each of the journal's files.
        spans: Vec<Span>,
        /// Beside these, what cannot be read: left alone as well.
        unreadable: Vec<Span>,
        /// Bytes that could not be read, and were put back.
        bytes: u64,
        /// When the run could begin to write, in words.
        began: String,
    },
    /// What the journal still has is as in `Whole`; it is kept, but for what is damaged.
    Part {
        /// The target, where any file says it.
        target: Option<PathBuf>,
        /// Bytes that had to be put back.
        bytes: u64,
        /// Whether the journal is kept: files of it may turn up.
        is_kept: bool,
    },
    /// The journal was never complete, so nothing had been written: it is gone.
    Incomplete,
    /// The run had ended, and its target held what it held: what was left of the journal is gone.
    Ended,
    /// The measurement that the journal belongs to is still running, or somebody else restores it.
    Running,
    /// It was there, and is no longer: its run has ended, or somebody else has restored it.
    Gone,
}

/// What a journal had, and has no longer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lacks {
    /// Files: the first and, where it is another, the last of each gap.
    pub missing: Vec<(PathBuf, Option<PathBuf>)>,
    /// Files that were found damaged, now and before.
    pub damaged: Vec<PathBuf>,
    /// Whether it is known that no file followed.
    pub has_end: bool,
}

impl Lacks {
    /// Whether every file is there.
    pub fn is_nothing(&self) -> bool {
        self.missing.is_empty() && self.damaged.is_empty() && self.has_end
    }
}

/// No more files than this are named.
const MOST_NAMED: usize = 4;

impl Display for Lacks {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        let gap = |(first, last): &(PathBuf, Option<PathBuf>)| match last {
            None if fs::symlink_metadata(first).is_ok() => {
                format!("{} is not the file that it was", first.display())
            }
            Some(last) => format!("{} to {} are missing", first.display(), last.display()),
            None => format!("{} is missing", first.display()),
        };
        let missing = self.missing.iter().map(gap);
        let mut told: Vec<String> =
            missing.chain(self.damaged.iter().map(|path| format!("{} is damaged", path.display()))).collect();
        let more = told.len().saturating_sub(MOST_NAMED);
        told.truncate(MOST_NAMED);
        if more > 0 {
            told.push(format!("{more} more places are missing or damaged"));
        }
        if !self.has_end {
            told.push("whether files followed is not known".to_owned());
        }
        out.write_str(&told.join(", "))
    }
}

/// What came of a journal, and why not more.
#[derive(Debug)]
pub struct Settled {
    /// What came of it.
    pub restored: Restored,
    /// What it had, and has no longer.
    pub lacks: Lacks,
    /// What went wrong; then the journal is kept.
    pub errors: Vec<JournalError>,
}

impl From<Restored> for Settled {
    fn from(restored: Restored) -> Self {
        Self { restored, lacks: Lacks::default(), errors: Vec::new() }
    }
}

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

/// Calls `of` for each part of `length` bytes, with where it begins and a buffer of its size.
fn pieces<E>(length: u64, mut of: impl FnMut(u64, &mut [u8]) -> Result<(), E>) -> Result<(), E> {
    let mut buffer = vec![0; usize::try_from(length.min(CHUNK)).unwrap_or(0)];
    let mut from = 0;
    while from < length {
        let part = usize::try_from((length - from).min(CHUNK)).unwrap_or(0);
        of(from, &mut buffer[..part])?;
        from += part as u64;
    }
    Ok(())
}

impl JournalError {
    /// Whether somebody uses the target: refused, and not failed.
    pub fn is_refusal(&self) -> bool {
        matches!(self, Self::Open { source: OpenError::InUse { .. }, .. })
    }
}
