//! Volumes: the layers between a partition and a file system, each read from its own superblock.
//!
//! A parser reads a bounded number of bytes of one medium. It returns what it found, which runs of the medium hold
//! the volume's space (only `descend` reads them), and remarks on what could not be read.

mod luks;
mod lvm;
mod mapped;
mod md;

use straddle_device::Medium;
use straddle_device::live::{Located, Lower};
use straddle_units::{BlockSize, ByteCount, ByteOffset, Span};

use crate::model::content::VolumeKind;
use crate::model::layer::Facts;
use crate::model::view::remove_overlaps;
use crate::reader::{Fault, fault};

pub(crate) use luks::{SEALED, has_second_header};
pub(crate) use lvm::is_label as is_lvm_label;
pub(crate) use md::{at_end as md_at_end, marked_at_end as md_marked_at_end};

/// The unit in which md, LVM, LUKS1, bcache and dm-integrity count on disk, whatever the disk's sector size.
const SECTOR: u64 = 512;

#[derive(Debug)]
pub(crate) struct Volume {
    pub(crate) kind: VolumeKind,
    pub(crate) name: String,
    pub(crate) uuid: String,
    pub(crate) facts: Facts,
    pub(crate) provides: Provides,
    pub(crate) remarks: Vec<String>,
}

impl Volume {
    fn new(kind: VolumeKind, facts: Facts, provides: Result<Provides, String>) -> Self {
        let (provides, remarks) = match provides {
            Ok(provides) => (provides, Vec::new()),
            Err(why) => (Provides::Nothing, vec![why]),
        };
        Self { kind, name: String::new(), uuid: String::new(), facts, provides, remarks }
    }
}

/// Of a striped space, from its first byte on and from each place that matters.
const FIRST_RUNS: usize = 16;
const RUNS_AT_PLACE: usize = 4;

const MAX_PLACES: usize = 256;

#[derive(Debug)]
pub(crate) enum Provides {
    Nothing,
    Sealed(Space),
    Open(Space),
    /// Several layers (LVM), in the given area of the medium.
    Parts(Span, Vec<SubVolume>),
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Space {
    pub(crate) len: ByteCount,
    /// The span in the space, and the start on the volume's own medium.
    pub(crate) runs: Vec<(Span, ByteOffset)>,
    /// If that differs from the medium's.
    pub(crate) block: Option<BlockSize>,
    /// If only the first runs are listed.
    pub(crate) spread: Option<Lower>,
}

#[derive(Debug)]
pub(crate) struct SubVolume {
    pub(crate) name: String,
    /// The group's UUID followed by its own.
    pub(crate) uuid: String,
    pub(crate) facts: Facts,
    pub(crate) space: Space,
    /// Other volumes' data, in an order of its own.
    pub(crate) is_sealed: bool,
    /// `None` if its first byte is not on the medium.
    pub(crate) start: Option<ByteOffset>,
    /// Where it is said to be; its first byte may be elsewhere.
    pub(crate) stands: Span,
    pub(crate) remarks: Vec<String>,
}

impl Space {
    fn run(len: ByteCount, at: ByteOffset) -> Self {
        Self { len, runs: vec![(Span::first(len), at)], ..Self::default() }
    }

    fn spread(len: ByteCount, spread: Lower) -> Self {
        let runs = runs_from(&spread, ByteOffset::ZERO, FIRST_RUNS);
        Self { len, runs, spread: Some(spread), ..Self::default() }
    }

    /// As `spread`, with the first runs of each part of `spread` listed as well.
    fn begun(len: ByteCount, spread: Lower) -> Self {
        let begins: Vec<ByteOffset> = spread.runs.iter().map(|run| run.span.start()).collect();
        let space = Self::spread(len, spread);
        space.with(&begins).unwrap_or(space)
    }

    /// With the runs from each of `places` listed; `None` if they are already.
    pub(crate) fn with(&self, places: &[ByteOffset]) -> Option<Self> {
        let spread = self.spread.as_ref()?;
        let mut runs = self.runs.clone();
        for place in places.iter().take(MAX_PLACES) {
            runs.extend(runs_from(spread, *place, RUNS_AT_PLACE));
        }
        runs.sort_by_key(|(span, _)| (span.start(), std::cmp::Reverse(span.end())));
        remove_overlaps(&mut runs, |(span, _)| *span);
        (runs != self.runs).then(|| Self { runs, ..self.clone() })
    }
}

fn runs_from(lower: &Lower, from: ByteOffset, most: usize) -> Vec<(Span, ByteOffset)> {
    let (mut runs, mut at) = (Vec::new(), from);
    // Holes count too.
    for _ in 0..2 * most {
        let step = match lower.locate(at) {
            Located::Here(there, len) => {
                runs.extend(Span::new(at, len).map(|span| (span, there)));
                len
            }
            Located::Later(len) => len,
            Located::Never => break,
        };
        match at.checked_add(step) {
            Some(next) if runs.len() < most => at = next,
            _ => break,
        }
    }
    runs
}

pub(crate) fn read(kind: VolumeKind, medium: &dyn Medium) -> Volume {
    let volume = match kind {
        VolumeKind::Md => md::at_front(medium),
        VolumeKind::Drbd => mapped::drbd(medium),
        VolumeKind::Pv => lvm::read(medium),
        VolumeKind::Luks => luks::read(medium),
        VolumeKind::Integrity => mapped::integrity(medium),
        VolumeKind::Verity => mapped::verity(medium),
        VolumeKind::Bcache => mapped::bcache(medium),
    };
    volume.unwrap_or_else(|fault| {
        Volume::new(kind, Facts::Opaque, Err(format!("the header of this layer cannot be read: {fault}")))
    })
}

fn bytes_at(medium: &dyn Medium, at: u64, want: usize) -> Result<Vec<u8>, Fault> {
    let room = usize::try_from(medium.len().get().saturating_sub(at)).unwrap_or(usize::MAX);
    // Of a medium that ends before it, one byte is too many.
    medium.bytes_at(ByteOffset::new(at), want.min(room.max(1))).map_err(fault)
}

/// Saturates.
fn sectors(count: u64) -> u64 {
    count.checked_mul(SECTOR).unwrap_or(u64::MAX - (SECTOR - 1))
}

/// Up to the first zero byte. Invalid UTF-8 is replaced.
fn text(field: &[u8]) -> String {
    let text = field.split(|byte| *byte == 0).next().unwrap_or_default();
    straddle_device::shown::printable(&String::from_utf8_lossy(text))
}
