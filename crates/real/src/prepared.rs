//! A target made ready for a measurement: what may be written to it, and where.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use straddle_bench::Target;
use straddle_units::{ByteCount, ByteOffset, ErrorKind, Span};

use crate::area::{AreaError, Areas};
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

/// A target that is ready.
pub struct Prepared {
    subject: Subject,
    regions: Vec<Span>,
    before: Before,
}

enum Subject {
    Plain(Box<Real>),
    Kept(Box<Session>),
}

impl Prepared {
    /// Opens the target, finds its areas and, where they are preserved, saves their contents. Once `stop` is
    /// true, requests are refused.
    pub fn open(intent: &Intent<'_>, stop: &Arc<AtomicBool>) -> Result<Self, PrepareError> {
        let Intent { path, io, settings, .. } = *intent;
        let stop = Arc::clone(stop);
        let given_up = match intent.contents {
            Contents::Read => {
                let opened = Opened::for_reading(path, io)?;
                let whole = Span::new(ByteOffset::ZERO, ByteCount::new(opened.size));
                let (before, title) = (Before::look(&opened), opened.title());
                let real = Real::reading(opened, title, settings, stop)?;
                return Ok(Self {
                    subject: Subject::Plain(Box::new(real)),
                    regions: whole.into_iter().collect(),
                    before,
                });
            }
            Contents::Preserved(scope) => {
                let claimed = Claimed::open(path, scope, io)?;
                let areas = Areas { regions: regions(intent, claimed.opened()), bytes: intent.bytes };
                let surveyed = claimed.survey(areas)?;
                let regions = surveyed.areas().to_vec();
                let (before, title) = (Before::look(surveyed.opened()), surveyed.opened().title());
                let session =
                    Session::begin(surveyed, title, Saved::AtOnce, &intent.journals, settings, stop)?;
                return Ok(Self { subject: Subject::Kept(Box::new(session)), regions, before });
            }
            Contents::Made(made) => GivenUp::made(made, io)?,
            Contents::Overwritten(again) => GivenUp::named(path, again, io)?,
        };
        let wanted = regions(intent, given_up.opened());
        let target = given_up.survey(wanted)?;
        let regions = target.areas().to_vec();
        let (before, title) = (Before::look(target.opened()), target.opened().title());
        let real = Real::given_up(target, title, intent.seed, settings, stop)?;
        Ok(Self { subject: Subject::Plain(Box::new(real)), regions, before })
    }

    /// The target.
    pub fn target(&mut self) -> &mut dyn Target {
        match &mut self.subject {
            Subject::Plain(real) => &mut **real,
            Subject::Kept(session) => &mut **session,
        }
    }

    /// The areas that may be used, in ascending order and without overlap.
    pub fn regions(&self) -> &[Span] {
        &self.regions
    }

    /// What the kernel reported about the device before.
    pub const fn before(&self) -> &Before {
        &self.before
    }

    /// Ends the measurement. Where contents are preserved, compares the target with its previous ones.
    pub fn end(self) -> Result<(Finished, Option<Verdict>), SessionError> {
        match self.subject {
            Subject::Plain(real) => Ok((real.finish(), None)),
            Subject::Kept(session) => session.end().map(|(finished, verdict)| (finished, Some(verdict))),
        }
    }
}

fn regions(intent: &Intent<'_>, opened: &Opened) -> u32 {
    intent.regions.unwrap_or(if opened.kind == Kind::Block { REGIONS } else { 1 })
}
