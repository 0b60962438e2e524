//! Writing where there is data to preserve.
//!
//! The law of this module: what a target holds is written, with the bytes that were read there, only through a [`Session`], and
//! there is none without a target that was claimed ([`Claimed`]), a durable journal of what is going to be written over, and a
//! look-out for others, which is asked before each request. A session ends by comparing; its journal goes when nothing differs.
//!
//! Where the kernel makes others wait who open the target (a lease on a file), nothing of theirs can be lost. Elsewhere they may
//! write while a request is on its way, and [`Verdict`] says since when, and how many bytes at most.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::SystemTime;

use straddle_bench::{Description, Surface, Target, TargetError};
use straddle_device::claim;
use straddle_io::{Completion, Counters, Nanos, Operation, Request, Time};
use straddle_units::Span;

use crate::area::Scope;
use crate::finished::Finished;
use crate::journal::{Journal, JournalError};
use crate::lookout::Lookout;
use crate::moment::told_moment;
use crate::open::{Access, Io, OpenError, Opened};
use crate::others::{Others, Seen};
use crate::target::{Contents, Real, RealError, Settings};

/// A target that no other process uses, open for writing; others that open it are noticed from now on.
#[derive(Debug)]
pub struct Claimed {
    opened: Opened,
    others: Result<Others, (PathBuf, io::Error)>,
}

impl Claimed {
    /// Opens and locks `path`, for what is given of it.
    pub fn open(path: &Path, scope: Scope, io: Io) -> Result<Self, OpenError> {
        let access = if scope == Scope::FreeSpace { Access::Share } else { Access::Claim };
        let opened = Opened::open(path, access, io)?;
        // What others have written before must not be paid for by us.
        let unusable = |source| OpenError::Unusable { path: path.to_owned(), source };
        opened.file.sync_all().map_err(unusable)?;
        let mut others = Others::of(&opened, access);
        if let Ok(others) = &mut others {
            // Who came before they were looked out for, and after it was asked who uses it.
            let users = others.users();
            if !users.is_empty() {
                return Err(OpenError::InUse { path: path.to_owned(), by: users.join("; ") });
            }
        }
        Ok(Self { opened, others })
    }

    /// The target.
    pub const fn opened(&self) -> &Opened {
        &self.opened
    }
}

/// A target whose owner gives its contents up, or that was made for the measurement; no other process uses it.
#[derive(Debug)]
pub struct GivenUp(Claimed);

impl GivenUp {
    /// Opens and locks `path`. That its contents may go is the caller's word: its owner has named it for that.
    pub fn open(path: &Path, io: Io) -> Result<Self, OpenError> {
        Claimed::open(path, Scope::Overwrite, io).map(Self)
    }

    /// The target.
    pub const fn opened(&self) -> &Opened {
        &self.0.opened
    }

    pub(crate) fn into_opened(self) -> Opened {
        self.0.opened
    }
}

/// Why there is no session, or it cannot end.
#[derive(Debug, thiserror::Error)]
pub enum SessionError {
    /// Somebody else uses the target.
    #[error("{path}: in use: {by}; nothing was written", path = path.display())]
    InUse {
        /// The target.
        path: PathBuf,
        /// By whom.
        by: String,
    },
    /// The kernel does not report which processes open the target, or what it stands on.
    #[error("{path}: cannot look out for others who open {what} (inotify); nothing was written", path = path.display(), what = what.display())]
    Blind {
        /// The target.
        path: PathBuf,
        /// What others may open.
        what: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The target cannot be read.
    #[error(transparent)]
    Target(#[from] RealError),
    /// At the end the target cannot be read, so that what it holds is not known.
    #[error("cannot compare with the contents from before the run, which are kept in {journal}", journal = journal.display())]
    Uncompared {
        /// The journal.
        journal: PathBuf,
        /// Why.
        source: RealError,
    },
    /// A write or flush failed, so that what the target holds after a power cut is not known.
    #[error("a write or flush failed, so the contents from before the run are kept in {journal}{}", if *is_marked { "" } else { ", which cannot be marked as dirty" }, journal = journal.display())]
    Unwritten {
        /// The journal.
        journal: PathBuf,
        /// Whether the journal says so.
        is_marked: bool,
        /// Why.
        source: io::Error,
    },
    /// The journal cannot be written or removed.
    #[error(transparent)]
    Journal(#[from] JournalError),
}

/// Somebody else came.
#[derive(Clone, Copy, Debug)]
struct Disturbance {
    /// They may have written from here on.
    since: SystemTime,
    noticed: SystemTime,
    seen: Seen,
}

/// A target that is written only with what it holds.
pub struct Session {
    real: Real,
    journal: Journal,
    lookout: Lookout,
    /// When its contents began to be read.
    began: SystemTime,
    /// The last time when no other process was seen.
    clear: SystemTime,
    disturbed: Option<Disturbance>,
    /// Requests at a time, and bytes of the largest write so far.
    depth: u32,
    largest: u64,
    /// Whether the journal says that a write or flush has failed.
    is_dirty: bool,
}

impl Session {
    /// Reads what `areas` hold and stores it in a journal in `folder`; more areas may follow ([`Surface::prepare`]). When `stop`
    /// becomes true, requests are refused.
    pub fn begin(
        claimed: Claimed,
        title: String,
        areas: &[Span],
        folder: &Path,
        settings: Settings,
        stop: Arc<AtomicBool>,
    ) -> Result<Self, SessionError> {
        let Claimed { opened, others } = claimed;
        let path = opened.path.clone();
        let others =
            others.map_err(|(what, source)| SessionError::Blind { path: path.clone(), what, source })?;
        let lookout = Lookout::over(&opened, others).map_err(|by| SessionError::InUse { path, by })?;
        let began = SystemTime::now();
        let depth = settings.depth.max(1);
        let real = Real::new(opened, title, &Contents::Kept(areas.to_vec()), settings, stop)?;
        let mut journal = Journal::new(folder, real.opened())?;
        if let Err(error) = journal.add(real.opened(), &real.kept().unwrap_or_default()) {
            // Nothing has been written; what is left of it is removed by the next --restore.
            let _ = journal.remove();
            return Err(error.into());
        }
        Ok(Self {
            real,
            journal,
            lookout,
            began,
            clear: began,
            disturbed: None,
            depth,
            largest: 0,
            is_dirty: false,
        })
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

    /// Marks the journal as dirty after the first write or flush that failed, at once: this process may be killed.
    fn mark_failed(&mut self) {
        if self.real.is_unwritten() && !self.is_dirty {
            self.is_dirty = self.journal.mark_dirty().is_ok();
        }
    }

    /// Compares what was kept with what is there now, and gives the target up: others go on. What was measured, and what came of it.
    pub fn end(mut self) -> Result<(Finished, Verdict), SessionError> {
        self.real.drain();
        self.mark_failed();
        let changed = self.real.changed().map_err(|source| match self.journal.path() {
            Some(journal) => SessionError::Uncompared { journal: journal.to_owned(), source },
            None => source.into(),
        })?;
        if matches!(self.lookout, Lookout::Watched(_)) {
            self.is_alone();
        }
        // Who waited for longer than the kernel lets them has gone on before this.
        let waited = self.clear.elapsed().is_ok_and(|waited| waited < claim::waits_for());
        let has_waited = matches!(self.lookout, Lookout::Kept) && waited;
        claim::unlock(&self.real.opened().file);
        let journal = if changed.is_empty() {
            // What was written last is in a cache of the kernel's or the drive's as yet, or a cache has what the medium has not.
            if let Err(error) = self.real.opened().file.sync_all() {
                self.real.note_unwritten(error);
                self.mark_failed();
            }
            if let (Some(source), Some(journal)) = (self.real.take_unwritten(), self.journal.path()) {
                let is_marked = self.is_dirty;
                return Err(SessionError::Unwritten { journal: journal.to_owned(), is_marked, source });
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

/// What came of a session: what others did, and what may be lost of it.
#[derive(Debug)]
pub struct Verdict {
    path: PathBuf,
    began: SystemTime,
    disturbed: Option<Disturbance>,
    /// Whoever came was let in when all was over.
    has_waited: bool,
    changed: Vec<Span>,
    journal: Option<PathBuf>,
    under_way: u64,
}

impl Verdict {
    /// Why the run counts for nothing, in words; `None` where no process came.
    pub fn refusal(&self) -> Option<String> {
        let path = self.path.display();
        if !self.changed.is_empty() {
            let kept = self.journal.as_ref().map_or_else(String::new, |journal| {
                format!("; the contents from before the run are kept in {}", journal.display())
            });
            return Some(format!(
                "{path}: {} changed during the run, and not by it: nothing was restored; what else was written to the run's areas since \
                 {} may have been overwritten{kept}",
                told_spans(&self.changed),
                told_moment(self.began)
            ));
        }
        let Disturbance { since, noticed, seen } = self.disturbed?;
        let (since, noticed) = (told_moment(since), told_moment(noticed));
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

/// No more places than this are named.
const MOST_TOLD: usize = 4;

/// Spans in words, by their bytes.
pub fn told_spans(spans: &[Span]) -> String {
    let total: u64 = spans.iter().map(|span| span.len().get()).sum();
    let one = |span: &Span| format!("{} to {}", span.start(), span.end().get().saturating_sub(1));
    let named: Vec<String> = spans.iter().take(MOST_TOLD).map(one).collect();
    let more = spans.len().saturating_sub(MOST_TOLD);
    let more =
        if more > 0 { format!(" and {more} more places, {total} bytes in all,") } else { String::new() };
    format!("bytes {}{more}", named.join(", "))
}

impl Target for Session {
    fn description(&self) -> &Description {
        self.real.description()
    }

    fn capacity(&self) -> u64 {
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
        self.real.submit(request).inspect_err(|_| self.mark_failed())
    }

    fn wait(&mut self) -> Result<Completion, TargetError> {
        self.real.wait().inspect_err(|_| self.mark_failed())
    }

    fn pause(&mut self, length: Nanos) {
        self.real.pause(length);
    }

    fn counters(&self) -> Option<Counters> {
        self.real.counters()
    }
}

/// Only what was prepared is written, with the bytes that were read there first, once the journal has them.
impl Surface for Session {
    fn prepare(&mut self, spans: &[Span]) -> Result<(), TargetError> {
        let mut new = Vec::new();
        for span in spans {
            if self.real.is_stopped() || !self.is_alone() {
                return Err(TargetError::Interrupted);
            }
            if self.real.keep(*span).map_err(|error| failed(*span, error))? {
                new.push(*span);
            }
        }
        let Some(first) = new.first().copied() else { return Ok(()) };
        let bytes: Option<Vec<(Span, &[u8])>> =
            new.iter().map(|span| Some((*span, self.real.kept_of(*span)?))).collect();
        let bytes = bytes.ok_or_else(|| failed(first, "what was read is not there"))?;
        self.journal.add(self.real.opened(), &bytes).map_err(|error| failed(first, error))
    }
}

fn failed(
    span: Span,
    error: impl Into<Box<dyn std::error::Error + Send + std::marker::Sync>>,
) -> TargetError {
    let request = Request::new(0, Operation::Read, span.start().get(), span.len().get());
    TargetError::Failed { request, source: std::io::Error::other(error) }
}

#[cfg(test)]
mod tests;
