//! The outcome of restoring from a journal, and which of its files are missing.

use std::fmt::{self, Display, Formatter};
use std::fs;
use std::path::PathBuf;

use straddle_units::Span;

use crate::real::journal::JournalError;

/// The outcome of restoring from a journal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Restored {
    /// The target holds its previous contents, and the journal has been removed.
    Whole {
        /// The target.
        target: PathBuf,
        /// Bytes that differed or could not be read.
        bytes: u64,
    },
    /// Another program has written to the target since the run. Its data was left alone, and the journal is
    /// kept.
    Changed {
        /// The target.
        target: PathBuf,
        /// Where, in ascending order within each of the journal's files.
        spans: Vec<Span>,
        /// Unreadable spans in the same areas, which were left alone as well.
        unreadable: Vec<Span>,
        /// Bytes elsewhere that could not be read, and were written back.
        bytes: u64,
        /// The earliest time of the run's first write, as text.
        began: String,
    },
    /// Files of the journal are missing or damaged, or there was an error. What could be restored has been.
    Part {
        /// The target, if any file names it.
        target: Option<PathBuf>,
        /// Bytes that differed or could not be read.
        bytes: u64,
        /// Whether the journal is kept, since missing files may turn up. If not, only its damaged files stay.
        is_kept: bool,
    },
    /// The journal was never complete, so nothing had been written to the target. It has been removed.
    Incomplete,
    /// The run had ended, and its target held its previous contents. The rest of the journal has been
    /// removed.
    Ended,
    /// The run to which the journal belongs is still running, or another process restores it.
    Running,
    /// The journal no longer exists: its run has ended, or another process has restored it.
    Gone,
}

/// The files of a journal that are missing or damaged.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lacks {
    /// The first and, if there is more than one, the last file of each gap.
    pub missing: Vec<(PathBuf, Option<PathBuf>)>,
    /// Files that were found damaged, now or earlier.
    pub damaged: Vec<PathBuf>,
    /// Whether it is known that no more files followed.
    pub has_end: bool,
}

impl Lacks {
    /// Whether no file is missing or damaged.
    pub fn is_nothing(&self) -> bool {
        self.missing.is_empty() && self.damaged.is_empty() && self.has_end
    }
}

/// The greatest number of files that are listed.
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
        let mut lacks: Vec<String> =
            missing.chain(self.damaged.iter().map(|path| format!("{} is damaged", path.display()))).collect();
        let more = lacks.len().saturating_sub(MOST_NAMED);
        lacks.truncate(MOST_NAMED);
        if more > 0 {
            lacks.push(format!("{more} more places are missing or damaged"));
        }
        if !self.has_end {
            lacks.push("whether files followed is not known".to_owned());
        }
        out.write_str(&lacks.join(", "))
    }
}

/// The outcome of restoring from a journal, with its reasons.
#[derive(Debug)]
pub struct Settled {
    /// The outcome.
    pub restored: Restored,
    /// The files that are missing or damaged.
    pub lacks: Lacks,
    /// The errors. If there are any other than damaged files, the journal is kept.
    pub errors: Vec<JournalError>,
}

impl From<Restored> for Settled {
    fn from(restored: Restored) -> Self {
        Self { restored, lacks: Lacks::default(), errors: Vec::new() }
    }
}
