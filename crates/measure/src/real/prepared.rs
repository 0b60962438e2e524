//! A target made ready for a measurement: what may be written to it, and where.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use crate::bench::{Surface, Target};
use straddle_device::topology::AlignmentOffset;
use straddle_units::{Boundary, ByteCount, ByteOffset, ErrorKind, Span};

use crate::real::area::{self, AreaError, Areas};
use crate::real::claimed::{Claimed, GivenUp, Made, Scope};
use crate::real::conditions::Before;
use crate::real::finished::Finished;
use crate::real::open::{Io, Kind, OpenError, Opened};
use crate::real::session::{Saved, Session, SessionError, Verdict};
use crate::real::target::{Real, RealError, Settings};

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

#[cfg(test)]
mod tests {
    use std::fs;

    use straddle_device::Options;

    use super::*;

    fn preserving<'a>(path: &'a Path, journals: &'a Path) -> Preserving<'a> {
        Preserving {
            path,
            scope: Scope::Whole,
            saved: Saved::AsPrepared,
            io: Io::Buffered,
            regions: Some(0),
            bytes: u64::MAX,
            settings: Settings { depth: 1, largest: 1 << 20 },
            journals,
        }
    }

    /// The kernel's `alignment_offset` of a partition is that of `queue_limit_alignment_offset`.
    #[test]
    fn the_claims_of_a_partition_count_from_its_start() {
        let folder = tempfile::tempdir().unwrap();
        let disk = |physical: u64, offset: u64, starts: &[u64]| {
            let block = folder.path().join("sys/block/sda");
            let _ = fs::remove_dir_all(&block);
            let put = |name: &str, value: u64| {
                let path = block.join(name);
                fs::create_dir_all(path.parent().unwrap()).unwrap();
                fs::write(path, format!("{value}\n")).unwrap();
            };
            for (name, value) in [("size", 131_072), ("alignment_offset", offset), ("ext_range", 256)] {
                put(name, value);
            }
            put("queue/logical_block_size", 512);
            put("queue/physical_block_size", physical);
            put("queue/minimum_io_size", physical);
            for (number, start) in (1..).zip(starts) {
                put(&format!("sda{number}/partition"), number);
                put(&format!("sda{number}/start"), *start);
                put(&format!("sda{number}/size"), 2048);
            }
        };
        let claims = |name: &str| {
            let options = Options { sysroot: Some(folder.path().to_owned()), ..Options::default() };
            DeviceClaims::of(&straddle_device::open(Path::new(name), &options).unwrap())
        };
        for (physical, offset) in [(4096, 0), (4096, 3584), (512, 0), (16_384, 512)] {
            let starts = [63, 64, 2048, 4101];
            disk(physical, offset, &starts);
            let is = |claims: DeviceClaims| (claims.unit.get(), claims.phase.unwrap().get());
            assert_eq!(is(claims("sda")), (physical, offset));
            for (number, start) in (1..).zip(starts) {
                let expected = (physical + offset - start * 512 % physical) % physical;
                assert_eq!(is(claims(&format!("sda{number}"))), (physical, expected), "from sector {start}");
            }
        }
    }

    /// What is examined is what was opened, whatever has taken its name since.
    #[test]
    fn another_file_in_the_place_of_the_target_is_not_examined() {
        let folder = tempfile::tempdir().unwrap();
        let (path, other) = (folder.path().join("disk.img"), folder.path().join("other.img"));
        fs::write(&path, vec![7; 4 << 20]).unwrap();
        fs::write(&other, vec![8; 4 << 20]).unwrap();
        let opened = Opened::for_reading(&path, Io::Buffered).unwrap();
        assert!(area::examine(&opened).is_ok());
        fs::rename(&other, &path).unwrap();
        let Err(error) = area::examine(&opened).map(|_| ()) else { panic!("the other file was examined") };
        let AreaError::Look { source, .. } = &error else { panic!("{error}") };
        assert!(source.to_string().contains("replaced"), "{source}");
    }

    /// A session ends when another process opens the target; preparing it does not look like one.
    #[test]
    fn a_file_makes_no_claims_and_its_contents_stay() {
        let folder = tempfile::tempdir().unwrap();
        let (path, journals) = (folder.path().join("disk.img"), folder.path().join("journals"));
        let bytes: Vec<u8> = (0..4_u32 << 20).map(|at| at.to_le_bytes()[1]).collect();
        fs::write(&path, &bytes).unwrap();
        let mut preserved = Preserved::open(&preserving(&path, &journals), &Arc::default()).unwrap();
        assert_eq!(preserved.claims(), None);
        assert!(preserved.notes()[0].starts_with("a file: "), "{:?}", preserved.notes());
        let area = preserved.regions()[0];
        let first = Span::new(area.start(), ByteCount::new(4096)).unwrap();
        preserved.surface().prepare(&[first]).unwrap();
        let (_, verdict) = preserved.end().unwrap();
        assert_eq!(verdict.refusal(), None);
        assert!(fs::read(&path).unwrap() == bytes);
        assert_eq!(fs::read_dir(&journals).unwrap().count(), 0);
    }
}
