//! What came of a journal, and what it lacks.

use std::fmt::{self, Display, Formatter};
use std::fs;
use std::path::PathBuf;

use straddle_units::Span;

use crate::journal::JournalError;

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
    /// The measurement that the journal belongs to is still running, or another process restores it.
    Running,
    /// It was there, and is no longer: its run has ended, or another process has restored it.
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
