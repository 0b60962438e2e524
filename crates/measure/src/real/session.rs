//! Writes to a target whose contents are preserved.
//!
//! Invariants: a target whose contents are to stay is written only through a [`Session`], and
//! only with the bytes that were read from it. A session requires a claimed target ([`Claimed`]), a durable
//! journal of the contents to be overwritten, and a watch for other processes, which is checked before each
//! request. What was read becomes writable only as what the journal returns (`Pending`, `Kept`). It ends with a comparison, and removes its journal if nothing differs.
//!
//! Where the kernel makes other processes wait before they can open the target (a lease on a file), nothing
//! that they write can be lost. Elsewhere they may write while a request is on its way: [`Verdict`] says
//! since when, and how many bytes may be lost at most.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::SystemTime;

use crate::bench::{Description, Surface, Target, TargetError};
use straddle_device::claim;
use straddle_units::io::{Completion, Counters, Nanos, Operation, Request, Time};
use straddle_units::{ByteCount, Span};

use crate::real::claimed::{Claimed, Surveyed};
use crate::real::finished::Finished;
use crate::real::holes;
use crate::real::journal::{Journal, JournalError, Pending, Unrestored, unrestored};
use crate::real::lookout::Lookout;
use crate::real::moment::format_moment;
use crate::real::others::Seen;
use crate::real::target::{Real, RealError, Settings, Writes};

/// Why a session cannot begin or end.
#[derive(Debug, thiserror::Error)]
pub enum SessionError {
    /// Another process uses the target.
    #[error("{path}: in use: {by}; nothing was written", path = path.display())]
    InUse {
        /// The target.
        path: PathBuf,
        /// The users.
        by: String,
    },
    /// An interrupted run has not been restored, or another one is running.
    #[error("{path}: in use, or not restored since an interrupted run: journal {journal}", path = path.display(), journal = journal.display())]
    Unrestored {
        /// The target.
        path: PathBuf,
        /// A file of the journal.
        journal: PathBuf,
    },
    /// The journals of earlier runs cannot be read.
    #[error("{folder}: cannot search for journals of interrupted runs", folder = folder.display())]
    Journals {
        /// The folder.
        folder: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// The kernel cannot report which processes open the target or a layer below it.
    #[error("{path}: cannot look out for others who open {what} (inotify); nothing was written", path = path.display(), what = what.display())]
    Blind {
        /// The target.
        path: PathBuf,
        /// The file or device that cannot be watched.
        what: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// The target cannot be read.
    #[error(transparent)]
    Target(#[from] RealError),
    /// The target cannot be read at the end, so its contents are unknown.
    #[error("cannot compare with the contents from before the run, which are kept in {journal}", journal = journal.display())]
    Uncompared {
        /// The journal.
        journal: PathBuf,
        /// The cause.
        source: RealError,
    },
    /// A write or flush failed, so the contents of the target after a power cut are unknown.
    #[error("a write or flush failed, so the contents from before the run are kept in {journal}", journal = journal.display())]
    Unwritten {
        /// The journal.
        journal: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The journal cannot be written or removed.
    #[error(transparent)]
    Journal(#[from] JournalError),
}

straddle_units::error_kind! {
    SessionError: Failed;
    Self::InUse { .. } | Self::Unrestored { .. } => Refused,
    Self::Target(error) => error.kind(),
}

/// Another process opened the target.
#[derive(Clone, Copy, Debug)]
struct Disturbance {
    /// It may have written from this time on.
    since: SystemTime,
    noticed: SystemTime,
    seen: Seen,
}

/// A target that is written only with its own contents.
pub struct Session {
    real: Real,
    journal: Journal,
    lookout: Lookout,
    /// When reading its contents began.
    began: SystemTime,
    /// The last time when no other process was detected.
    clear: SystemTime,
    disturbed: Option<Disturbance>,
    /// The queue depth, and the bytes of the largest write so far.
    depth: u32,
    largest: u64,
    /// The areas that may be prepared.
    areas: Vec<Span>,
    /// The holes in them, before anything was read or written.
    holes: Vec<Span>,
}

/// When the contents of the areas are read and stored in the journal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Saved {
    /// All of them when the session begins.
    AtOnce,
    /// Parts of them when they are prepared ([`Surface::prepare`]).
    AsPrepared,
}

impl Session {
    /// Stores the contents of the surveyed areas in a journal in `folder`. Once `stop` is true, requests are
    /// refused.
    pub fn begin(
        surveyed: Surveyed,
        title: String,
        saved: Saved,
        folder: &Path,
        settings: Settings,
        stop: Arc<AtomicBool>,
    ) -> Result<Self, SessionError> {
        let areas = surveyed.areas().to_vec();
        let Claimed { opened, others, .. } = surveyed.claimed;
        let path = opened.path.clone();
        let unknown = |source| SessionError::Journals { folder: folder.to_owned(), source };
        if let Some(Unrestored { path: journal, .. }) = unrestored(&path, folder).map_err(unknown)? {
            return Err(SessionError::Unrestored { path, journal });
        }
        let others =
            others.map_err(|(what, source)| SessionError::Blind { path: path.clone(), what, source })?;
        let lookout = Lookout::over(&opened, others).map_err(|by| SessionError::InUse { path, by })?;
        let began = SystemTime::now();
        let depth = settings.depth.max(1);
        let real = Real::new(opened, title, settings, stop)?;
        let holes = holes::find(real.opened(), &areas);
        let first = if saved == Saved::AtOnce { areas.as_slice() } else { &[] };
        let pending = Pending::of(real.opened(), first)?;
        let mut journal = Journal::new(folder, real.opened())?;
        let kept = match journal.add(real.opened(), pending) {
            Ok(kept) => kept,
            Err(error) => {
                // Nothing has been written to the target. The next --restore removes what remains of the
                // journal.
                let _ = journal.remove();
                return Err(error.into());
            }
        };
        let (real, disturbed) = (real.with(Writes::Kept(kept)), None);
        let clear = began;
        Ok(Self { real, journal, lookout, began, clear, disturbed, depth, largest: 0, areas, holes })
    }

    /// Makes the holes again that zeroes were written into. The contents have just been compared. Where the file system
    /// cannot, or another process has come, the zeroes stay.
    fn make_holes(&mut self) {
        for hole in std::mem::take(&mut self.holes) {
            for part in self.real.zeroes(hole) {
                let is_alone = match self.lookout {
                    // A process that waits is let in after this, and has changed nothing.
                    Lookout::Kept => self.lookout.look(&self.real.opened().file) == Seen::Nobody,
                    Lookout::Watched(_) => self.is_alone(),
                };
                if !is_alone || holes::make(&self.real.opened().file, part).is_err() {
                    return;
                }
            }
        }
    }

    /// Whether no other process has opened the target so far.
    fn is_alone(&mut self) -> bool {
        if self.disturbed.is_some() {
            return false;
        }
        let seen = self.lookout.look(&self.real.opened().file);
        let noticed = SystemTime::now();
        if seen == Seen::Nobody {
            self.clear = noticed;
            return true;
        }
        let since = if seen == Seen::Opened { self.clear } else { self.began };
        self.disturbed = Some(Disturbance { since, noticed, seen });
        false
    }

    /// Compares the contents with those that were kept, and unlocks the target, so that waiting processes
    /// proceed. Returns the measured target, and what other processes did.
    pub fn end(mut self) -> Result<(Finished, Verdict), SessionError> {
        let changed = self.real.changed().map_err(|source| match self.journal.path() {
            Some(journal) => SessionError::Uncompared { journal: journal.to_owned(), source },
            None => source.into(),
        })?;
        if changed.is_empty() && self.disturbed.is_none() {
            self.make_holes();
        }
        if matches!(self.lookout, Lookout::Watched(_)) {
            self.is_alone();
        }
        // The kernel makes a process wait only for a limited time. If that has passed since the last look,
        // the process may have proceeded already.
        let waited = self.clear.elapsed().is_ok_and(|waited| waited < claim::waits_for());
        let has_waited = matches!(self.lookout, Lookout::Kept) && waited;
        claim::unlock(&self.real.opened().file);
        let journal = if changed.is_empty() {
            // The last writes may still be in a cache of the kernel or the drive.
            let flushed = self.real.opened().file.sync_all();
            let unwritten = self.real.take_unwritten().or(flushed.err());
            if let (Some(source), Some(journal)) = (unwritten, self.journal.path()) {
                return Err(SessionError::Unwritten { journal: journal.to_owned(), source });
            }
            self.journal.remove()?;
            None
        } else {
            self.journal.path().map(Path::to_owned)
        };
        let (began, disturbed) = (self.began, self.disturbed);
        let path = self.real.opened().path.clone();
        let under_way = self.largest.saturating_mul(self.depth.into());
        let verdict = Verdict { path, began, disturbed, has_waited, changed, journal, under_way };
        Ok((self.real.finish(), verdict))
    }
}

/// What other processes did during a session, and what of their data may be lost.
#[derive(Debug)]
pub struct Verdict {
    path: PathBuf,
    began: SystemTime,
    disturbed: Option<Disturbance>,
    /// Whether another process was made to wait until the run had ended.
    has_waited: bool,
    changed: Vec<Span>,
    journal: Option<PathBuf>,
    under_way: u64,
}

impl Verdict {
    /// Why the results are invalid, in words; `None` if there was no other process.
    pub fn refusal(&self) -> Option<String> {
        let path = self.path.display();
        if !self.changed.is_empty() {
            let kept = self.journal.as_ref().map_or_else(String::new, |journal| {
                format!("; the contents from before the run are kept in {}", journal.display())
            });
            return Some(format!(
                "{path}: {} changed during the run, and not by it: nothing was restored; what else was written to the run's areas since \
                 {} may have been overwritten{kept}",
                describe_spans(&self.changed),
                format_moment(self.began)
            ));
        }
        let Disturbance { since, noticed, seen } = self.disturbed?;
        let (since, noticed) = (format_moment(since), format_moment(noticed));
        Some(if self.has_waited {
            format!(
                "{path}: another program opened it at {noticed}, or tried to: it was not let in before the run had stopped; the target is unchanged, \
                 and nothing that others wrote is lost"
            )
        } else if seen == Seen::Opened {
            format!(
                "{path}: another program opened it, or had it open for writing, between {since} and {noticed}: the run was stopped; at \
                 most {} bytes of what it wrote then, by requests on their way, may have been overwritten",
                self.under_way
            )
        } else {
            format!(
                "{path}: another program had it open for writing: the run was stopped at {noticed}; what it wrote to the run's areas \
                 since {since} may have been overwritten"
            )
        })
    }
}

/// The greatest number of spans that are listed.
const MOST_NAMED: usize = 4;

/// Describes spans by their byte ranges.
pub fn describe_spans(spans: &[Span]) -> String {
    let total: u64 = spans.iter().map(|span| span.len().get()).sum();
    let one = |span: &Span| format!("{} to {}", span.start(), span.end().get().saturating_sub(1));
    let named: Vec<String> = spans.iter().take(MOST_NAMED).map(one).collect();
    let more = spans.len().saturating_sub(MOST_NAMED);
    let more =
        if more > 0 { format!(" and {more} more places, {total} bytes in all,") } else { String::new() };
    format!("bytes {}{more}", named.join(", "))
}

impl Target for Session {
    fn description(&self) -> &Description {
        self.real.description()
    }

    fn capacity(&self) -> ByteCount {
        self.real.capacity()
    }

    fn logical_sector(&self) -> u64 {
        self.real.logical_sector()
    }

    fn now(&self) -> Time {
        self.real.now()
    }

    fn submit(&mut self, request: Request) -> Result<(), TargetError> {
        if !self.is_alone() {
            return Err(TargetError::Interrupted);
        }
        if request.operation.is_write() {
            self.largest = self.largest.max(request.length.get());
        }
        self.real.submit(request)
    }

    fn wait(&mut self) -> Result<Completion, TargetError> {
        self.real.wait()
    }

    fn pause(&mut self, length: Nanos) {
        self.real.pause(length);
    }

    fn counters(&self) -> Option<Counters> {
        self.real.counters()
    }
}

/// Writes only spans that were prepared, with the bytes that were read there, once the journal holds them.
impl Surface for Session {
    fn prepare(&mut self, spans: &[Span]) -> Result<(), TargetError> {
        let mut pending = Pending::default();
        for span in spans {
            if self.real.is_stopped() || !self.is_alone() {
                return Err(TargetError::Interrupted);
            }
            if !self.areas.iter().any(|area| area.contains(*span)) {
                return Err(failed(*span, "outside of the areas that were surveyed"));
            }
            self.real.read(*span, &mut pending).map_err(|error| failed(*span, error))?;
        }
        let Some(first) = pending.first() else { return Ok(()) };
        let kept = self.journal.add(self.real.opened(), pending).map_err(|error| failed(first, error))?;
        self.real.admit(kept).map_err(|error| failed(first, error))
    }
}

fn failed(span: Span, error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> TargetError {
    let request = Request::new(0, Operation::Read, span.start(), span.len());
    TargetError::Failed { request, source: std::io::Error::other(error) }
}

#[cfg(test)]
mod tests;
