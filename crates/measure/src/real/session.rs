//! Writes to a target whose contents are preserved.
//!
//! Such a target is written only through a [`Session`], and only with the bytes that were read from it. A session
//! requires a claimed target, a durable journal of the contents to be overwritten, and a watch for other processes,
//! which is checked before each request. It ends with a comparison, and removes its journal if nothing differs.
//!
//! Where the kernel makes other processes wait before they can open the target (a lease on a file), nothing that they
//! write can be lost. Elsewhere they may write while a request is in flight: [`Verdict`] says since when, and how
//! many bytes may be lost at most.

use std::io;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use crate::bench::{Description, Surface, Target, TargetError};
use straddle_device::claim;
use straddle_repair::relocate::{Disk as _, FileAccess};
use straddle_units::io::{Completion, Nanos, Operation, Request, Time};
use straddle_units::{ByteCount, Span};

use crate::real::area::AreaError;
use crate::real::journal::{Journal, JournalError, Pending};
use crate::real::moment::format_moment;
use crate::real::open::OpenError;
use crate::real::others::{Lookout, Others, Seen};
use crate::real::prepared::Saved;
use crate::real::target::{Real, RealError, Writes};

/// Why a measurement cannot begin or end.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages document the variants")]
pub enum SessionError {
    #[error(transparent)]
    Open(#[from] OpenError),
    #[error(transparent)]
    Area(#[from] AreaError),
    #[error("{path}: {}", unrestored(journal, *is_running), path = path.display())]
    Unrestored { path: PathBuf, journal: PathBuf, is_running: bool },
    #[error("{folder}: cannot search for journals of interrupted runs", folder = folder.display())]
    Journals { folder: PathBuf, source: io::Error },
    #[error("{path}: cannot watch for other programs opening {what} (inotify); nothing was written", path = path.display(), what = what.display())]
    Blind { path: PathBuf, what: PathBuf, source: io::Error },
    #[error(transparent)]
    Target(#[from] RealError),
    #[error("cannot verify that the previous contents of the areas were restored, so the journal {journal} was kept", journal = journal.display())]
    Uncompared { journal: PathBuf, source: RealError },
    #[error("a write or flush failed, so the journal {journal} was kept", journal = journal.display())]
    Unwritten { journal: PathBuf, source: io::Error },
    #[error(transparent)]
    Journal(#[from] JournalError),
}

straddle_units::error_kind! {
    SessionError: Failed;
    Self::Unrestored { .. } => Refused,
    Self::Open(error) => error.kind(),
    Self::Area(error) => error.kind(),
}

fn unrestored(journal: &Path, is_running: bool) -> String {
    let journal = journal.display();
    if is_running {
        format!("in use by a running measurement or 'bench --restore' (journal {journal})")
    } else {
        format!("an earlier run was interrupted, and its journal {journal} has not been restored")
    }
}

#[derive(Clone, Copy, Debug)]
struct Disturbance {
    since: SystemTime,
    noticed: SystemTime,
    seen: Seen,
}

pub(crate) struct Session {
    real: Real,
    journal: Journal,
    lookout: Lookout,
    disturbed: Option<Disturbance>,
    largest: u64,
    areas: Vec<Span>,
    /// The holes in them, before anything was read or written.
    holes: Vec<Span>,
}

impl Session {
    pub(crate) fn begin(
        real: Real,
        others: Others,
        areas: Vec<Span>,
        saved: Saved,
        folder: &Path,
    ) -> Result<Self, SessionError> {
        let in_use = |by| OpenError::InUse { path: real.opened.path.clone(), by };
        let lookout = Lookout::over(&real.opened, others).map_err(in_use)?;
        let mut file = FileAccess::new(&real.opened.file);
        let holes = areas.iter().flat_map(|area| file.holes(*area)).collect();
        let mut pending = Pending::default();
        if saved == Saved::AtOnce {
            areas.iter().try_for_each(|area| real.read(*area, &mut pending))?;
        }
        let mut journal = Journal::make(folder, &real.opened)?;
        let kept = match journal.add(pending) {
            Ok(kept) => kept,
            Err(error) => {
                // Nothing has been written to the target.
                let _ = journal.remove();
                return Err(error.into());
            }
        };
        let real = real.with(Writes::Kept(kept));
        Ok(Self { real, journal, lookout, disturbed: None, largest: 0, areas, holes })
    }

    /// A write of what is read from a hole allocates space. The contents have just been compared. Where the file
    /// system cannot make holes, or another process has come, the zeroes stay.
    fn make_holes(&mut self) {
        for hole in std::mem::take(&mut self.holes) {
            for part in self.real.zeroes(hole) {
                // A process that waits is let in after this, and has changed nothing.
                let is_alone = if self.lookout.is_kept() {
                    self.lookout.look(&self.real.opened.file) == Seen::Nobody
                } else {
                    self.is_alone()
                };
                if !is_alone || FileAccess::new(&self.real.opened.file).punch(part).is_err() {
                    return;
                }
            }
        }
    }

    fn is_alone(&mut self) -> bool {
        if self.disturbed.is_some() {
            return false;
        }
        let before = self.lookout.clear;
        let seen = self.lookout.look(&self.real.opened.file);
        if seen == Seen::Nobody {
            return true;
        }
        let since = if seen == Seen::Opened { before } else { self.lookout.began };
        self.disturbed = Some(Disturbance { since, noticed: SystemTime::now(), seen });
        false
    }

    /// Returns the measured target, and what other processes did.
    pub(crate) fn end(mut self) -> Result<(Real, Verdict), SessionError> {
        let journal = self.journal.path.clone();
        let changed = self.real.changed().map_err(|source| {
            let journal = journal.clone();
            SessionError::Uncompared { journal, source }
        })?;
        if changed.is_empty() && self.disturbed.is_none() {
            self.make_holes();
        }
        if !self.lookout.is_kept() {
            self.is_alone();
        }
        let has_waited = self.lookout.has_made_wait();
        claim::unlock(&self.real.opened.file);
        if changed.is_empty() {
            // The last writes may still be in a cache of the kernel or the drive.
            let flushed = self.real.opened.file.sync_all();
            if let Some(source) = self.real.take_unwritten().or(flushed.err()) {
                return Err(SessionError::Unwritten { journal, source });
            }
            self.journal.remove()?;
        }
        let (began, disturbed) = (self.lookout.began, self.disturbed);
        let path = self.real.opened.path.clone();
        let under_way = self.largest.saturating_mul(self.real.depth());
        Ok((self.real, Verdict { path, began, disturbed, has_waited, changed, journal, under_way }))
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
    /// Kept if something has changed.
    journal: PathBuf,
    under_way: u64,
}

impl Verdict {
    /// Why the results are invalid, in words; `None` if there was no other process.
    pub fn refusal(&self) -> Option<String> {
        let path = self.path.display();
        if !self.changed.is_empty() {
            return Some(format!(
                "{path}: another program changed {} during the run, so nothing was restored. Other writes \
                 to the run's areas since {} may have been overwritten; the contents from before the run \
                 are kept in {}",
                describe_spans(&self.changed),
                format_moment(self.began),
                self.journal.display()
            ));
        }
        let Disturbance { since, noticed, seen } = self.disturbed?;
        let (since, noticed) = (format_moment(since), format_moment(noticed));
        Some(if self.has_waited {
            format!(
                "{path}: another program opened the target at {noticed}, or tried to, and had to wait until \
                 the run was stopped. The target is unchanged, and no data of other programs was lost"
            )
        } else if seen == Seen::Opened {
            format!(
                "{path}: another program opened the target, or had it open for writing, between {since} and \
                 {noticed}, so the run was stopped. At most {} bytes that the program wrote in that time may \
                 have been overwritten by outstanding requests",
                self.under_way
            )
        } else {
            format!(
                "{path}: another program had the target open for writing, so the run was stopped at \
                 {noticed}. Data that the program wrote to the run's areas since {since} may have been \
                 overwritten"
            )
        })
    }
}

const MOST_NAMED: usize = 4;

/// Describes spans by their byte ranges.
pub fn describe_spans(spans: &[Span]) -> String {
    let total: u64 = spans.iter().map(|span| span.len().get()).sum();
    let one = |span: &Span| format!("{} to {}", span.start(), span.end().get().saturating_sub(1));
    let named: Vec<String> = spans.iter().take(MOST_NAMED).map(one).collect();
    let more = spans.len().saturating_sub(MOST_NAMED);
    let more =
        if more > 0 { format!(" and {more} more ranges, {total} bytes in all,") } else { String::new() };
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
                return Err(failed(spans, "the bytes are outside the areas that were surveyed"));
            }
            self.real.read(*span, &mut pending).map_err(|error| failed(spans, error))?;
        }
        let kept = self.journal.add(pending).map_err(|error| failed(spans, error))?;
        self.real.admit(kept).map_err(|error| failed(spans, error))
    }
}

fn failed(spans: &[Span], error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> TargetError {
    let first = spans.first().copied().unwrap_or(Span::first(ByteCount::ZERO));
    let request = Request::new(0, Operation::Read, first.start(), first.len());
    TargetError::Failed { request, source: io::Error::other(error) }
}

#[cfg(test)]
mod tests;
