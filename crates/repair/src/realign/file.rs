//! The file format of a plan to realign.
//!
//! Invariants: every [`Realign`] can be stored as a [`RealignFile`]. A [`RealignFile`] becomes a
//! [`Realign`] only if it passes every check of one.

use crate::relocate::Move;
use serde::{Deserialize, Serialize};
use straddle_layout::FsKind;
use straddle_units::{Boundary, ByteCount, ByteOffset, Span};

use super::validate::invalid;
use super::{Journal, Realign, RealignError, Reference, VERSION};
use crate::plan::{Plan, PlanFile};

/// A plan to realign as JSON: numbers without units, and unchecked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RealignFile {
    /// The format's version, [`VERSION`].
    pub realign: u32,
    /// The new table.
    pub plan: PlanFile,
    /// The moves in their order: first byte, number of bytes, and the byte where they go.
    pub moves: Vec<[u64; 3]>,
    /// The physical sector.
    pub block: u64,
    /// The byte from which physical sectors count.
    pub phase: u64,
    /// How many bytes move at a time.
    pub window: u64,
    /// Where the journal can be.
    pub journal: JournalFile,
    /// What refers to the old places.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub references: Vec<ReferenceFile>,
    /// The partitions that are placed so that the data of a layer in them are aligned: number, and offset of
    /// the data.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub anchors: Vec<(u32, u64)>,
    /// Whether data that no partition and no known content accounts for are written over.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub wipe: bool,
    /// What the moves read and write. It says nothing about the plan, and is not read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub estimate: Option<EstimateFile>,
}

/// What the moves of a plan read and write, and how long that takes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EstimateFile {
    /// Bytes that are read, those that are read back included.
    pub read: u64,
    /// Bytes that are written to new places.
    pub written: u64,
    /// Bytes that are written to the journal.
    pub journal: u64,
    /// The number of flushes.
    pub flushes: u64,
    /// The drive of which the time is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drive: Option<String>,
    /// The time in seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seconds: Option<u64>,
}

/// A [`Journal`] as JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum JournalFile {
    /// In unallocated space of the disk.
    Inside {
        /// Offset of the first byte.
        start: u64,
        /// Length in bytes.
        len: u64,
    },
    /// On another disk.
    Elsewhere {
        /// The size of the journal.
        needed: u64,
    },
}

/// A [`Reference`] as JSON.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReferenceFile {
    /// The partition's number.
    pub partition: u32,
    /// What refers to its place.
    pub what: ReferenceKindFile,
}

/// The kind of a [`Reference`] as JSON.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReferenceKindFile {
    /// A boot sector that records the partition's start.
    BootSector {
        /// The file system, as blkid names it.
        content: String,
        /// The recorded start, in sectors of the file system.
        recorded: u64,
        /// What it has to be after the move.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        correct: Option<u64>,
        /// The sector of the file system.
        sector: u64,
        /// Where copies of the boot sector are in the partition.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        copies: Vec<u64>,
    },
    /// The active partition of an MBR.
    ActivePartition,
    /// A volume that Windows finds by the byte where it starts.
    WindowsVolume,
    /// The partition that holds GRUB's core image.
    BiosBoot,
    /// GRUB's core image.
    Grub {
        /// Whether the boot image is in the partition's first sector.
        in_partition: bool,
        /// Where the core image is in the partition.
        core: u64,
        /// The first sector of the core image on the disk.
        recorded: u64,
        /// What it is after the move.
        correct: u64,
        /// The first sector of each piece of the rest.
        pieces: Vec<u64>,
    },
    /// GRUB, in a form that cannot be corrected.
    GrubElsewhere,
    /// LILO.
    Lilo,
    /// SYSLINUX's boot sector.
    Syslinux {
        /// The recorded start, in sectors of 512 bytes.
        recorded: u64,
        /// What it has to be after the move.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        correct: Option<u64>,
    },
    /// Boot entries of the firmware.
    EfiBootEntries,
    /// Swap space.
    Swap,
    /// The image of a hibernated system.
    Hibernation,
    /// Zones of F2FS.
    Zones,
}

impl Realign {
    /// The plan as JSON.
    ///
    /// # Errors
    ///
    /// If it cannot be written as JSON.
    pub fn to_json(&self) -> Result<String, serde_json::Error> {
        serde_json::to_string_pretty(&RealignFile::from(self))
    }

    /// The plan as JSON, with an estimate.
    ///
    /// # Errors
    ///
    /// If it cannot be written as JSON.
    pub fn to_json_with(&self, estimate: Option<EstimateFile>) -> Result<String, serde_json::Error> {
        serde_json::to_string_pretty(&RealignFile { estimate, ..RealignFile::from(self) })
    }

    /// Reads a stored plan.
    ///
    /// # Errors
    ///
    /// [`RealignError::Invalid`] if the plan contradicts itself, or is of another version.
    pub fn from_json(text: &str) -> Result<Self, RealignError> {
        let unread = |error: serde_json::Error| invalid(error.to_string());
        let json = serde_json::from_str::<serde_json::Value>(text).map_err(unread)?;
        check_version(json["realign"].as_u64())?;
        serde_json::from_str::<RealignFile>(text).map_err(unread)?.try_into()
    }
}

fn check_version(version: Option<u64>) -> Result<(), RealignError> {
    if version == Some(u64::from(VERSION)) {
        return Ok(());
    }
    let found = version.map_or_else(|| "missing".to_owned(), |version| version.to_string());
    Err(invalid(format!("its version is {found}, and this program reads version {VERSION}")))
}

impl TryFrom<RealignFile> for Realign {
    type Error = RealignError;

    fn try_from(file: RealignFile) -> Result<Self, RealignError> {
        check_version(Some(u64::from(file.realign)))?;
        let span = |start: u64, len: u64| {
            let span = Span::new(ByteOffset::new(start), ByteCount::new(len));
            span.ok_or_else(|| invalid("a span reaches beyond 64 bits"))
        };
        let moves = file.moves.into_iter().map(|[start, len, to]| {
            let from = span(start, len)?;
            Ok(Move { from, to: ByteOffset::new(to) })
        });
        let blocks = Boundary::new(ByteCount::new(file.block), ByteCount::new(file.phase));
        let realign = Self {
            moves: moves.collect::<Result<_, RealignError>>()?,
            plan: Plan::try_from(file.plan)?,
            blocks: blocks.ok_or_else(|| invalid("it has no physical sectors"))?,
            window: ByteCount::new(file.window),
            journal: match file.journal {
                JournalFile::Inside { start, len } => Journal::Inside(span(start, len)?),
                JournalFile::Elsewhere { needed } => Journal::Elsewhere { needed: ByteCount::new(needed) },
            },
            references: (file.references.into_iter())
                .map(|one| Ok((one.partition, one.what.try_into()?)))
                .collect::<Result<_, RealignError>>()?,
            anchors: file.anchors.into_iter().map(|(of, offset)| (of, ByteCount::new(offset))).collect(),
            wipes: file.wipe,
        };
        realign.checked()
    }
}

impl From<&Realign> for RealignFile {
    fn from(realign: &Realign) -> Self {
        let numbers = |one: &Move| [one.from.start().get(), one.from.len().get(), one.to.get()];
        Self {
            realign: VERSION,
            plan: PlanFile::from(&realign.plan),
            moves: realign.moves.iter().map(numbers).collect(),
            block: realign.blocks.size().get(),
            phase: realign.blocks.phase().get(),
            window: realign.window.get(),
            journal: match realign.journal {
                Journal::Inside(span) => {
                    JournalFile::Inside { start: span.start().get(), len: span.len().get() }
                }
                Journal::Elsewhere { needed } => JournalFile::Elsewhere { needed: needed.get() },
            },
            references: (realign.references.iter())
                .map(|(partition, what)| ReferenceFile { partition: *partition, what: what.into() })
                .collect(),
            anchors: realign.anchors.iter().map(|(of, offset)| (*of, offset.get())).collect(),
            wipe: realign.wipes,
            estimate: None,
        }
    }
}

impl TryFrom<ReferenceKindFile> for Reference {
    type Error = RealignError;

    fn try_from(file: ReferenceKindFile) -> Result<Self, RealignError> {
        Ok(match file {
            ReferenceKindFile::BootSector { content, recorded, correct, sector, copies } => {
                let kind = FsKind::from_name(&content).filter(|kind| kind.has_boot_sector());
                Self::BootSector {
                    kind: kind.ok_or_else(|| invalid("a boot sector of an unknown file system"))?,
                    recorded,
                    correct,
                    sector: ByteCount::new(sector),
                    copies: copies.into_iter().map(ByteOffset::new).collect(),
                }
            }
            ReferenceKindFile::ActivePartition => Self::ActivePartition,
            ReferenceKindFile::WindowsVolume => Self::WindowsVolume,
            ReferenceKindFile::BiosBoot => Self::BiosBoot,
            ReferenceKindFile::Grub { in_partition, core, recorded, correct, pieces } => {
                Self::Grub { in_partition, core: ByteOffset::new(core), recorded, correct, pieces }
            }
            ReferenceKindFile::GrubElsewhere => Self::GrubElsewhere,
            ReferenceKindFile::Lilo => Self::Lilo,
            ReferenceKindFile::Syslinux { recorded, correct } => Self::Syslinux { recorded, correct },
            ReferenceKindFile::EfiBootEntries => Self::EfiBootEntries,
            ReferenceKindFile::Swap => Self::Swap,
            ReferenceKindFile::Hibernation => Self::Hibernation,
            ReferenceKindFile::Zones => Self::Zones,
        })
    }
}

impl From<&Reference> for ReferenceKindFile {
    fn from(reference: &Reference) -> Self {
        match reference {
            Reference::BootSector { kind, recorded, correct, sector, copies } => Self::BootSector {
                content: kind.name().to_owned(),
                recorded: *recorded,
                correct: *correct,
                sector: sector.get(),
                copies: copies.iter().map(|at| at.get()).collect(),
            },
            Reference::ActivePartition => Self::ActivePartition,
            Reference::WindowsVolume => Self::WindowsVolume,
            Reference::BiosBoot => Self::BiosBoot,
            Reference::Grub { in_partition, core, recorded, correct, pieces } => Self::Grub {
                in_partition: *in_partition,
                core: core.get(),
                recorded: *recorded,
                correct: *correct,
                pieces: pieces.clone(),
            },
            Reference::GrubElsewhere => Self::GrubElsewhere,
            Reference::Lilo => Self::Lilo,
            Reference::Syslinux { recorded, correct } => {
                Self::Syslinux { recorded: *recorded, correct: *correct }
            }
            Reference::EfiBootEntries => Self::EfiBootEntries,
            Reference::Swap => Self::Swap,
            Reference::Hibernation => Self::Hibernation,
            Reference::Zones => Self::Zones,
        }
    }
}
