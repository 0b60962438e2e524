//! The file format of a plan.
//!
//! Invariants: every [`Plan`] can be stored as a [`PlanFile`]. A [`PlanFile`] becomes a [`Plan`]
//! only if it passes every check of a plan.

use serde::{Deserialize, Serialize};
use straddle_units::{BlockSize, Boundary, ByteCount, ByteOffset, Lba, LbaCount, Span};

use super::validate::invalid;
use super::{Change, Entry, Format, Plan, Slot, Table, VERSION};
use crate::error::PlanError;
use crate::fingerprint::Fingerprint;
use crate::grain::Considered;
use crate::lost::Lost;

/// A plan as JSON: numbers without units, and unchecked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PlanFile {
    /// The format's version, [`VERSION`].
    pub version: u32,
    /// The fingerprint of the disk that the plan is for.
    pub disk: FingerprintFile,
    /// Whether a new table is made; otherwise the present one is changed.
    pub fresh: bool,
    /// The sector size in which the present table counts, if the plan converts it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub converts: Option<u64>,
    /// Whether both copies of a GPT are written to their proper places, the backup at the end of the disk.
    pub relocate_backup: bool,
    /// The partitions before the change.
    pub before: Vec<EntryFile>,
    /// The new table.
    pub table: TableFile,
    /// Partitions start at multiples of this many bytes, shifted by `phase`.
    pub grain: u64,
    /// The byte from which the grain counts.
    pub phase: u64,
    /// The boundaries that were considered for the grain.
    pub considered: Vec<ConsideredFile>,
    /// The ranges that are overwritten with zeros.
    #[serde(default)]
    pub wipe: Vec<WipeFile>,
    /// What is on the disk but cannot be reached from the new table.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub lost: Vec<LostFile>,
    /// Remarks to read before applying the plan.
    pub notes: Vec<String>,
    /// The seed of the new identifiers.
    pub seed: String,
}

/// A [`Fingerprint`] as JSON.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FingerprintFile {
    /// Its size in bytes.
    pub size: u64,
    /// Its logical sector size in bytes.
    pub sector: u64,
    /// Its serial number, if it reports one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub serial: Option<String>,
    /// SHA-256 of the bytes that make up its table.
    pub table: String,
}

/// A [`Table`] as JSON.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TableFile {
    /// Its format.
    pub format: Format,
    /// The disk's identifier: a GUID, or eight hexadecimal digits.
    pub id: String,
    /// The first sector that partitions may use.
    pub first_usable: u64,
    /// The last sector that partitions may use.
    pub last_usable: u64,
    /// Number of entries in the array of a GPT; 0 for an MBR.
    pub entries: u32,
    /// The partitions, by number.
    pub partitions: Vec<EntryFile>,
}

/// An [`Entry`] as JSON.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EntryFile {
    /// Its number.
    pub number: u32,
    /// First sector.
    pub start: u64,
    /// Number of sectors.
    pub sectors: u64,
    /// Its place in the table.
    pub slot: SlotFile,
    /// A GUID in capitals, or an MBR type in hexadecimal digits.
    #[serde(rename = "type")]
    pub kind: String,
    /// Its unique GUID (GPT).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uuid: Option<String>,
    /// Its name (GPT).
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// Its attribute bits (GPT).
    #[serde(default)]
    pub attributes: u64,
    /// Its active flag (MBR).
    #[serde(default)]
    pub bootable: bool,
    /// What happens to it.
    pub change: ChangeFile,
    /// The file system that is to be created in it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fs: Option<String>,
    /// Why it is placed where it is.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub why: Vec<String>,
}

/// A [`Slot`] as JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SlotFile {
    /// An entry of the table itself.
    Primary,
    /// The container of logical partitions.
    Extended,
    /// A logical partition.
    Logical {
        /// The sector of its extended boot record.
        ebr: u64,
    },
}

/// A [`Change`] as JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ChangeFile {
    /// It is unchanged.
    Kept,
    /// It is new.
    New,
    /// It keeps its start and ends later.
    Grown {
        /// Its former number of sectors.
        from: u64,
    },
    /// Its data move.
    Moved {
        /// Its former first sector.
        from: u64,
        /// Its former number of sectors.
        sectors: u64,
    },
}

/// A range that is overwritten with zeros after the table is written.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WipeFile {
    /// Offset of the first byte.
    pub start: u64,
    /// Length in bytes.
    pub len: u64,
}

/// A [`Considered`] as JSON.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ConsideredFile {
    /// Its name, such as `physical sector` or `stripe`.
    pub name: String,
    /// Its size in bytes.
    pub size: u64,
    /// Where the figure comes from.
    pub source: String,
    /// Why starts are not on it; `None` if they are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub left_out: Option<String>,
}

/// A [`Lost`] as JSON.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LostFile {
    /// The partition's number; `None` for content of the disk as a whole.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub partition: Option<u32>,
    /// The content's type, as blkid names it; `None` if it is not recognised.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content: Option<String>,
    /// The content's own label.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub label: String,
    /// Offset of the first byte.
    pub start: u64,
    /// Length in bytes.
    pub size: u64,
    /// Whether the new table is written over part of it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub overwritten: bool,
}

impl TryFrom<PlanFile> for Plan {
    type Error = PlanError;

    fn try_from(file: PlanFile) -> Result<Self, PlanError> {
        check_version(Some(u64::from(file.version)))?;
        let block = |bytes| BlockSize::new(bytes).map_err(|error| invalid(error.to_string()));
        let grain = Boundary::new(ByteCount::new(file.grain), ByteCount::new(file.phase));
        let wipe = |wipe: WipeFile| {
            let span = Span::new(ByteOffset::new(wipe.start), ByteCount::new(wipe.len));
            span.ok_or_else(|| invalid(format!("it wipes {} bytes from byte {}", wipe.len, wipe.start)))
        };
        let plan = Self {
            disk: Fingerprint {
                size: ByteCount::new(file.disk.size),
                sector: block(file.disk.sector)?,
                serial: file.disk.serial,
                table: file.disk.table,
            },
            fresh: file.fresh,
            converts: file.converts.map(block).transpose()?,
            relocate_backup: file.relocate_backup,
            before: file.before.into_iter().map(Entry::from).collect(),
            table: file.table.into(),
            grain: grain.ok_or_else(|| invalid("its grain is empty".to_owned()))?,
            considered: file.considered.into_iter().map(Considered::from).collect(),
            wipe: file.wipe.into_iter().map(wipe).collect::<Result<_, _>>()?,
            lost: file.lost.into_iter().map(Lost::try_from).collect::<Result<_, _>>()?,
            notes: file.notes,
            seed: file.seed,
        };
        plan.checked()
    }
}

/// Checks that this program reads plans of this version.
pub(super) fn check_version(version: Option<u64>) -> Result<(), PlanError> {
    if version == Some(u64::from(VERSION)) {
        return Ok(());
    }
    Err(invalid(format!(
        "its version is {}, and this program reads version {VERSION}",
        version.map_or_else(|| "missing".to_owned(), |version| version.to_string())
    )))
}

impl From<&Plan> for PlanFile {
    fn from(plan: &Plan) -> Self {
        Self {
            version: VERSION,
            disk: FingerprintFile {
                size: plan.disk.size.get(),
                sector: plan.disk.sector.get(),
                serial: plan.disk.serial.clone(),
                table: plan.disk.table.clone(),
            },
            fresh: plan.fresh,
            converts: plan.converts.map(BlockSize::get),
            relocate_backup: plan.relocate_backup,
            before: plan.before.iter().map(EntryFile::from).collect(),
            table: TableFile {
                format: plan.table.format,
                id: plan.table.id.clone(),
                first_usable: plan.table.first_usable.get(),
                last_usable: plan.table.last_usable.get(),
                entries: plan.table.entries,
                partitions: plan.table.partitions.iter().map(EntryFile::from).collect(),
            },
            grain: plan.grain.size().get(),
            phase: plan.grain.phase().get(),
            considered: plan.considered.iter().map(ConsideredFile::from).collect(),
            wipe: (plan.wipe.iter())
                .map(|span| WipeFile { start: span.start().get(), len: span.len().get() })
                .collect(),
            lost: plan.lost.iter().map(LostFile::from).collect(),
            notes: plan.notes.clone(),
            seed: plan.seed.clone(),
        }
    }
}

impl From<TableFile> for Table {
    fn from(file: TableFile) -> Self {
        Self {
            format: file.format,
            id: file.id,
            first_usable: Lba::new(file.first_usable),
            last_usable: Lba::new(file.last_usable),
            entries: file.entries,
            partitions: file.partitions.into_iter().map(Entry::from).collect(),
        }
    }
}

impl From<EntryFile> for Entry {
    fn from(file: EntryFile) -> Self {
        Self {
            number: file.number,
            start: Lba::new(file.start),
            sectors: LbaCount::new(file.sectors),
            slot: match file.slot {
                SlotFile::Primary => Slot::Primary,
                SlotFile::Extended => Slot::Extended,
                SlotFile::Logical { ebr } => Slot::Logical { ebr: Lba::new(ebr) },
            },
            kind: file.kind,
            uuid: file.uuid,
            name: file.name,
            attributes: file.attributes,
            bootable: file.bootable,
            change: match file.change {
                ChangeFile::Kept => Change::Kept,
                ChangeFile::New => Change::New,
                ChangeFile::Grown { from } => Change::Grown { from: LbaCount::new(from) },
                ChangeFile::Moved { from, sectors } => {
                    Change::Moved { from: Lba::new(from), sectors: LbaCount::new(sectors) }
                }
            },
            fs: file.fs,
            why: file.why,
        }
    }
}

impl From<&Entry> for EntryFile {
    fn from(entry: &Entry) -> Self {
        Self {
            number: entry.number,
            start: entry.start.get(),
            sectors: entry.sectors.get(),
            slot: match entry.slot {
                Slot::Primary => SlotFile::Primary,
                Slot::Extended => SlotFile::Extended,
                Slot::Logical { ebr } => SlotFile::Logical { ebr: ebr.get() },
            },
            kind: entry.kind.clone(),
            uuid: entry.uuid.clone(),
            name: entry.name.clone(),
            attributes: entry.attributes,
            bootable: entry.bootable,
            change: match entry.change {
                Change::Kept => ChangeFile::Kept,
                Change::New => ChangeFile::New,
                Change::Grown { from } => ChangeFile::Grown { from: from.get() },
                Change::Moved { from, sectors } => {
                    ChangeFile::Moved { from: from.get(), sectors: sectors.get() }
                }
            },
            fs: entry.fs.clone(),
            why: entry.why.clone(),
        }
    }
}

impl From<ConsideredFile> for Considered {
    fn from(ConsideredFile { name, size, source, left_out }: ConsideredFile) -> Self {
        Self { name, size: ByteCount::new(size), source, left_out }
    }
}

impl From<&Considered> for ConsideredFile {
    fn from(considered: &Considered) -> Self {
        let Considered { name, size, source, left_out } = considered.clone();
        Self { name, size: size.get(), source, left_out }
    }
}

impl TryFrom<LostFile> for Lost {
    type Error = PlanError;

    fn try_from(file: LostFile) -> Result<Self, PlanError> {
        let LostFile { partition, content, label, start, size, overwritten: is_overwritten } = file;
        let at = Span::new(ByteOffset::new(start), ByteCount::new(size));
        let at = at.ok_or_else(|| invalid(format!("it loses {size} bytes from byte {start}")))?;
        Ok(Self { partition, content, label, at, is_overwritten })
    }
}

impl From<&Lost> for LostFile {
    fn from(lost: &Lost) -> Self {
        let Lost { partition, content, label, at, is_overwritten: overwritten } = lost.clone();
        Self { partition, content, label, start: at.start().get(), size: at.len().get(), overwritten }
    }
}
