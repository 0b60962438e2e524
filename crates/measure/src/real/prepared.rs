//! A target made ready for a measurement: what may be written to it, and where.
//!
//! A target whose contents are lost was created here, or was named by two paths that lead to the same file. That the
//! caller's user gave both paths is the caller's to ensure.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use straddle_device::FileId;
use straddle_device::topology::AlignmentOffset;
use straddle_units::{Boundary, ByteCount, ByteOffset, Span};

use crate::bench::{Description, Measured, Surface, Target, Workload};
use crate::probe::Claims;
use crate::real::area::{self, AreaError};
use crate::real::conditions::Before;
use crate::real::journal::unrestored;
use crate::real::open::{Access, Io, Kind, OpenError, Opened};
use crate::real::others::Others;
use crate::real::session::{Session, SessionError, Verdict};
use crate::real::target::{Real, Settings, Writes};

/// Regions used on a block device by default; a file has one.
const REGIONS: u32 = 8;

/// The part of a target that a measurement may use. Its contents are preserved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// Unpartitioned space.
    FreeSpace,
    /// The whole target.
    Whole,
}

/// When the contents of the areas are read and stored in the journal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Saved {
    /// All of them at the beginning.
    AtOnce,
    /// Parts of them when they are prepared ([`Surface::prepare`]).
    AsPrepared,
}

/// What a measurement may do to the contents of its target.
#[derive(Clone, Copy, Debug)]
pub enum Contents<'a> {
    /// It only reads.
    Read,
    /// It overwrites this file, which was created for it.
    Made(&'a Made),
    /// It overwrites the target, which its owner has named again, as this.
    Overwritten(&'a Path),
    /// It preserves what is in this scope.
    Preserved(Scope, Saved),
}

/// What is to be measured, and how.
#[derive(Clone, Debug)]
pub struct Intent<'a> {
    /// The target.
    pub path: &'a Path,
    /// What may happen to its contents.
    pub contents: Contents<'a>,
    /// How data is transferred.
    pub io: Io,
    /// Number of regions, 0 for the whole scope; `None` chooses by the kind of target.
    pub regions: Option<u32>,
    /// Bytes of all regions together, where contents are preserved.
    pub bytes: u64,
    /// Seed of the bytes that are written where contents are not preserved.
    pub seed: u64,
    /// What the target has to be ready for.
    pub settings: Settings,
    /// Where journals are kept.
    pub journals: PathBuf,
}

impl Intent<'_> {
    fn open(&self) -> Result<Opened, OpenError> {
        match self.contents {
            Contents::Made(made) => made.open(self.io),
            Contents::Overwritten(again) => given_up(self.path, again, self.io),
            Contents::Read | Contents::Preserved(..) => Opened::open(self.path, self.access(), self.io),
        }
    }

    fn access(&self) -> Access {
        match self.contents {
            Contents::Read => Access::Read,
            Contents::Preserved(Scope::FreeSpace, _) => Access::Share,
            _ => Access::Claim,
        }
    }

    fn areas(&self, opened: &Opened) -> Result<Vec<Span>, AreaError> {
        let whole = Span::first(ByteCount::new(opened.size));
        let regions = self.regions.unwrap_or(if opened.kind == Kind::Block { REGIONS } else { 1 });
        let (given, bytes) = match self.contents {
            Contents::Read => return Ok(vec![whole]),
            Contents::Preserved(Scope::FreeSpace, _) => (area::free(opened)?, self.bytes),
            Contents::Preserved(Scope::Whole, _) => (vec![whole], self.bytes),
            Contents::Made(_) | Contents::Overwritten(_) => (vec![whole], u64::MAX),
        };
        let areas = area::spread(&given, regions, bytes);
        match self.contents {
            _ if !areas.is_empty() => Ok(areas),
            Contents::Preserved(Scope::FreeSpace, _) => Err(AreaError::Full { path: opened.path.clone() }),
            _ => Err(AreaError::TooSmall { path: opened.path.clone(), size: opened.size }),
        }
    }
}

/// A file that was created for a measurement. Dropping this value removes it.
#[derive(Debug)]
pub struct Made {
    path: PathBuf,
    id: FileId,
}

impl Made {
    /// Creates a file of `size` bytes, all written and flushed, so that no request has to allocate blocks.
    pub fn create(path: &Path, size: u64) -> io::Result<Self> {
        const BLOCK: usize = 1 << 20;
        let mut file = OpenOptions::new().write(true).create_new(true).open(path)?;
        let made = Self { path: path.to_owned(), id: FileId::of_open(&file)? };
        let block = vec![0x5A; BLOCK];
        let mut left = size;
        while left > 0 {
            let part = usize::try_from(left).unwrap_or(BLOCK).min(BLOCK);
            file.write_all(&block[..part])?;
            left -= part as u64;
        }
        file.sync_all()?;
        Ok(made)
    }

    fn open(&self, io: Io) -> Result<Opened, OpenError> {
        let opened = Opened::open(&self.path, Access::Claim, io)?;
        if opened.id == self.id { Ok(opened) } else { Err(OpenError::Replaced { path: self.path.clone() }) }
    }
}

impl Drop for Made {
    fn drop(&mut self) {
        let _ = self.id.remove(&self.path);
    }
}

/// The user gives up the contents by naming the target again. This checks only that both paths lead to the same file
/// or device; the caller must take `again` from the user.
fn given_up(path: &Path, again: &Path, io: Io) -> Result<Opened, OpenError> {
    let named = fs::metadata(again).ok().map(|found| FileId::of(&found));
    let is_same = |id| Some(id) == named;
    if !fs::metadata(path).is_ok_and(|found| is_same(FileId::of(&found))) {
        return Err(OpenError::NotNamed { path: path.to_owned(), again: again.to_owned() });
    }
    let opened = Opened::open(path, Access::Claim, io)?;
    if is_same(opened.id) { Ok(opened) } else { Err(OpenError::Replaced { path: path.to_owned() }) }
}

/// Of the device, or its partition that was named, from its start: an SSD's indirection unit or the physical sector.
fn claims(target: &straddle_device::Target, before: &Before) -> Claims {
    let topology = &target.topology;
    let unit =
        topology.indirection_unit.as_ref().map_or_else(|| topology.physical.value(), |unit| unit.value());
    let is_meant = |number| Some(number) == target.partition;
    let mut listed = target.kernel_partitions.iter().flatten();
    let start = listed.find(|one| is_meant(one.number)).map_or(ByteOffset::ZERO, |one| one.span.start());
    let phase = match topology.alignment_offset.value() {
        AlignmentOffset::Bytes(bytes) => Some(bytes),
        AlignmentOffset::Misaligned => None,
    };
    // A disk's own phase is passed on as it is, even where it exceeds the unit.
    let seen = |phase| match start {
        ByteOffset::ZERO => Some(phase),
        start => Some(Boundary::new(unit, phase)?.to_next(start)),
    };
    Claims { unit: Some(unit), phase: phase.and_then(seen), rotational: Some(before.rotates == Some(true)) }
}

/// A target that is ready.
pub struct Prepared {
    subject: Subject,
    regions: Vec<Span>,
    before: Before,
    claims: Claims,
    notes: Vec<String>,
}

enum Subject {
    Plain(Box<Real>),
    Kept(Box<Session>),
}

impl Prepared {
    /// Opens the target, finds its areas and, where they are preserved, begins to save their contents. Once `stop` is
    /// true, requests are refused.
    pub fn open(intent: &Intent<'_>, stop: &Arc<AtomicBool>) -> Result<Self, SessionError> {
        let Intent { path, contents, settings, ref journals, .. } = *intent;
        let unknown = |source| SessionError::Journals { folder: journals.clone(), source };
        if let Some(found) = unrestored(path, journals).map_err(unknown)? {
            let (path, journal, is_running) = (path.to_owned(), found.path, found.is_running);
            return Err(SessionError::Unrestored { path, journal, is_running });
        }
        let opened = intent.open()?;
        if !matches!(contents, Contents::Read) {
            // Earlier writes of other programs are not measured.
            let unusable = |source| OpenError::Unusable { path: path.to_owned(), source };
            opened.file.sync_all().map_err(unusable)?;
        }
        let others = match contents {
            Contents::Preserved(_, saved) => {
                let blind = |(what, source)| SessionError::Blind { path: path.to_owned(), what, source };
                Some((Others::of(&opened, intent.access()).map_err(blind)?, saved))
            }
            _ => None,
        };
        let regions = intent.areas(&opened)?;
        let before = Before::look(&opened);
        // Before the session begins, as opening the device would look like another process.
        let examined = if opened.kind == Kind::Block { area::examine(&opened).ok() } else { None };
        let claims = examined.as_ref().map_or_else(Claims::default, |target| claims(target, &before));
        let notes = before.notes_on_file(&opened);
        let unnamed = if opened.kind == Kind::File { "a file" } else { "a block device" };
        let title = examined.and_then(|target| target.identity.model).unwrap_or_else(|| unnamed.to_owned());
        let real = Real::new(opened, title, settings, Arc::clone(stop))?;
        let subject = match (others, contents) {
            (Some((others, saved)), _) => {
                Subject::Kept(Box::new(Session::begin(real, others, regions.clone(), saved, journals)?))
            }
            (None, Contents::Read) => Subject::Plain(Box::new(real.with(Writes::Nothing))),
            (None, _) => {
                let writes = Writes::Random(regions.clone(), intent.seed);
                Subject::Plain(Box::new(real.with(writes)))
            }
        };
        Ok(Self { subject, regions, before, claims, notes })
    }

    /// The target. Spans of one whose contents are saved as they are prepared have to be prepared.
    pub fn surface(&mut self) -> &mut dyn Surface {
        match &mut self.subject {
            Subject::Plain(real) => &mut **real,
            Subject::Kept(session) => &mut **session,
        }
    }

    /// The areas that may be used, in ascending order and without overlap.
    pub fn regions(&self) -> &[Span] {
        &self.regions
    }

    /// What the target claims; nothing for a file.
    pub fn claims(&self) -> Claims {
        self.claims
    }

    /// What to know of the figures of a probe.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// Ends the measurement. Where contents are preserved, compares the target with its previous ones.
    pub fn end(self) -> Result<(Finished, Option<Verdict>), SessionError> {
        let (real, verdict) = match self.subject {
            Subject::Plain(real) => (*real, None),
            Subject::Kept(session) => session.end().map(|(real, verdict)| (real, Some(verdict)))?,
        };
        Ok((Finished { real, before: self.before }, verdict))
    }
}

/// A target that was measured. It accepts no more requests, as its journal may have been removed.
pub struct Finished {
    real: Real,
    before: Before,
}

impl Finished {
    /// Its description.
    pub fn description(&self) -> &Description {
        self.real.description()
    }

    /// Its size.
    pub fn capacity(&self) -> ByteCount {
        self.real.capacity()
    }

    /// Its smallest addressable unit, in bytes.
    pub fn logical_sector(&self) -> u64 {
        self.real.logical_sector()
    }

    /// How data was transferred.
    pub fn io(&self) -> Io {
        self.real.opened.io
    }

    /// The warnings that apply to the figures that were measured.
    pub fn warnings(&self, workload: &Workload, measured: &Measured) -> Vec<String> {
        self.before.warnings(&self.real, workload, measured)
    }
}

#[cfg(test)]
mod tests;
