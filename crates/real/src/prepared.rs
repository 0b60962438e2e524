//! A target made ready for a measurement: what may be written to it, and where.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use straddle_bench::{Surface, Target};
use straddle_device::topology::AlignmentOffset;
use straddle_units::{Boundary, ByteCount, ByteOffset, ErrorKind, Span};

use crate::area::{self, AreaError, Areas};
use crate::claimed::{Claimed, GivenUp, Made, Scope};
use crate::conditions::Before;
use crate::finished::Finished;
use crate::open::{Io, Kind, OpenError, Opened};
use crate::session::{Saved, Session, SessionError, Verdict};
use crate::target::{Real, RealError, Settings};

/// Regions used on a block device, unless the intent names a number; a file has one.
const REGIONS: u32 = 8;

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
    Preserved(Scope),
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
    /// Number of regions; `None` chooses by the kind of target.
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

/// Why a target cannot be made ready.
#[derive(Debug, thiserror::Error)]
pub enum PrepareError {
    /// It cannot be opened.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// No area of it may be written.
    #[error(transparent)]
    Area(#[from] AreaError),
    /// It cannot be read.
    #[error(transparent)]
    Target(#[from] RealError),
    /// Its contents cannot be preserved.
    #[error(transparent)]
    Session(#[from] SessionError),
}

impl PrepareError {
    /// Returns the kind of failure.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Open(error) => error.kind(),
            Self::Area(error) => error.kind(),
            Self::Target(error) => error.kind(),
            Self::Session(error) => error.kind(),
        }
    }
}

/// A measurement that preserves the contents of its target.
#[derive(Clone, Copy, Debug)]
pub struct Preserving<'a> {
    /// The target.
    pub path: &'a Path,
    /// What may be used of it.
    pub scope: Scope,
    /// When its contents are read and stored.
    pub saved: Saved,
    /// How data is transferred.
    pub io: Io,
    /// Number of regions, 0 for the whole scope; `None` chooses by the kind of target.
    pub regions: Option<u32>,
    /// Bytes of all regions together.
    pub bytes: u64,
    /// What the target has to be ready for.
    pub settings: Settings,
    /// Where journals are kept.
    pub journals: &'a Path,
}

/// A target that is ready, and whose contents are preserved.
pub struct Preserved {
    session: Session,
    regions: Vec<Span>,
    before: Before,
    claims: Option<DeviceClaims>,
    notes: Vec<String>,
}

/// What a device claims of its sectors, in bytes from the start of the target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeviceClaims {
    /// The physical sector; for an SSD that reports one, its indirection unit.
    pub unit: ByteCount,
    /// The first byte at which a unit begins; `None` if the kernel reports that layers below contradict each
    /// other.
    pub phase: Option<ByteCount>,
}

impl DeviceClaims {
    /// The claims of the device `target`, or of the partition of it that was named.
    fn of(target: &straddle_device::Target) -> Self {
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
        Self { unit, phase: phase.and_then(seen) }
    }
}

impl Preserved {
    /// Opens and claims the target, finds its areas, and begins to save their contents. Once `stop` is true,
    /// requests are refused.
    pub fn open(intent: &Preserving<'_>, stop: &Arc<AtomicBool>) -> Result<Self, PrepareError> {
        let claimed = Claimed::open(intent.path, intent.scope, intent.io)?;
        let regions = regions(intent.regions, claimed.opened());
        let surveyed = claimed.survey(Areas { regions, bytes: intent.bytes })?;
        let opened = surveyed.opened();
        let before = Before::look(opened);
        // Once the session has begun, opening the device to examine it would look like another process. A file
        // makes no claims.
        let examined = match opened.kind {
            Kind::Block => Some(area::examine(opened)?),
            Kind::File => None,
        };
        let (title, notes) = (opened.title_with(examined.as_ref()), before.notes_on_file(opened));
        let claims = examined.as_ref().map(DeviceClaims::of);
        let regions = surveyed.areas().to_vec();
        let Preserving { saved, journals, settings, .. } = *intent;
        let session = Session::begin(surveyed, title, saved, journals, settings, Arc::clone(stop))?;
        Ok(Self { session, regions, before, claims, notes })
    }

    /// The target.
    pub fn surface(&mut self) -> &mut dyn Surface {
        &mut self.session
    }

    /// The areas that may be used, in ascending order and without overlap.
    pub fn regions(&self) -> &[Span] {
        &self.regions
    }

    /// What the kernel reported about the device before.
    pub const fn before(&self) -> &Before {
        &self.before
    }

    /// What the target claims; `None` for a file.
    pub const fn claims(&self) -> Option<DeviceClaims> {
        self.claims
    }

    /// What to know of figures that a probe measures on a file.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// Ends the measurement, and compares the target with its previous contents.
    pub fn end(self) -> Result<(Finished, Verdict), SessionError> {
        self.session.end()
    }
}

/// A target that is ready.
pub struct Prepared(Subject);

enum Subject {
    Plain { real: Box<Real>, regions: Vec<Span>, before: Before },
    Kept(Box<Preserved>),
}

impl Prepared {
    /// Opens the target, finds its areas and, where they are preserved, saves their contents. Once `stop` is
    /// true, requests are refused.
    pub fn open(intent: &Intent<'_>, stop: &Arc<AtomicBool>) -> Result<Self, PrepareError> {
        let Intent { path, io, regions: wanted, bytes, settings, .. } = *intent;
        let given_up = match intent.contents {
            Contents::Read => {
                let opened = Opened::for_reading(path, io)?;
                let whole = Span::new(ByteOffset::ZERO, ByteCount::new(opened.size));
                let (before, title) = (Before::look(&opened), opened.title());
                let real = Box::new(Real::reading(opened, title, settings, Arc::clone(stop))?);
                return Ok(Self(Subject::Plain { real, regions: whole.into_iter().collect(), before }));
            }
            Contents::Preserved(scope) => {
                let (saved, journals) = (Saved::AtOnce, intent.journals.as_path());
                let intent =
                    Preserving { path, scope, saved, io, regions: wanted, bytes, settings, journals };
                return Ok(Self(Subject::Kept(Box::new(Preserved::open(&intent, stop)?))));
            }
            Contents::Made(made) => GivenUp::made(made, io)?,
            Contents::Overwritten(again) => GivenUp::named(path, again, io)?,
        };
        let wanted = self::regions(wanted, given_up.opened());
        let target = given_up.survey(wanted)?;
        let regions = target.areas().to_vec();
        let (before, title) = (Before::look(target.opened()), target.opened().title());
        let real = Box::new(Real::given_up(target, title, intent.seed, settings, Arc::clone(stop))?);
        Ok(Self(Subject::Plain { real, regions, before }))
    }

    /// The target.
    pub fn target(&mut self) -> &mut dyn Target {
        match &mut self.0 {
            Subject::Plain { real, .. } => &mut **real,
            Subject::Kept(preserved) => &mut preserved.session,
        }
    }

    /// The areas that may be used, in ascending order and without overlap.
    pub fn regions(&self) -> &[Span] {
        match &self.0 {
            Subject::Plain { regions, .. } => regions,
            Subject::Kept(preserved) => preserved.regions(),
        }
    }

    /// What the kernel reported about the device before.
    pub const fn before(&self) -> &Before {
        match &self.0 {
            Subject::Plain { before, .. } => before,
            Subject::Kept(preserved) => preserved.before(),
        }
    }

    /// Ends the measurement. Where contents are preserved, compares the target with its previous ones.
    pub fn end(self) -> Result<(Finished, Option<Verdict>), SessionError> {
        match self.0 {
            Subject::Plain { real, .. } => Ok((real.finish(), None)),
            Subject::Kept(preserved) => preserved.end().map(|(finished, verdict)| (finished, Some(verdict))),
        }
    }
}

fn regions(wanted: Option<u32>, opened: &Opened) -> u32 {
    wanted.unwrap_or(if opened.kind == Kind::Block { REGIONS } else { 1 })
}
