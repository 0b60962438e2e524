//! The stack: what a medium holds, from the partition table up, and what is wrong with it.

use std::fmt;

use schemars::JsonSchema;
use serde::Serialize;
use straddle_units::{BlockSize, ByteCount, ByteOffset, Lba, LbaCount, Span};

use super::content::Content;
use super::layer::{Facts, Layer};
use super::types::{self, TypeForm, is_dynamic, is_dynamic_database};

/// The most partitions of one table that are listed. Linux itself stops at 256 (`DISK_MAX_PARTS`).
pub const MAX_PARTITIONS: usize = 1024;

/// The name of the database of a Windows dynamic disk.
pub const LDM: &str = "LDM";

/// What is at the start of a medium.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(tag = "format", content = "content", rename_all = "snake_case")]
pub enum TableKind {
    /// A GUID partition table (UEFI specification, chapter 5).
    Gpt,
    /// A GUID partition table beside an MBR that also lists real partitions.
    #[serde(rename = "hybrid")]
    HybridMbr,
    /// An MBR ("dos") table.
    Mbr,
    /// No partition table: a file system or other recognised content fills the medium.
    Content(Content),
    /// A partition table of another kind, by the name that blkid gives it (PTTYPE). Its partitions are read
    /// only if it is a BSD label.
    #[serde(rename = "other")]
    Foreign(&'static str),
    /// Neither a partition table nor recognised content.
    None,
    /// The partition table could not be read; the kernel's list of partitions is used instead.
    Kernel,
}

/// A partition's role in the table that lists it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(tag = "role", rename_all = "snake_case")]
pub enum Role {
    /// An entry of a GPT, a primary MBR partition, or a partition that the kernel lists.
    Primary,
    /// An MBR extended partition: a container for one-sector structures, not for data.
    Extended,
    /// An MBR logical partition.
    Logical {
        /// The block of the extended boot record (EBR) that lists it.
        #[serde(rename = "ebr_lba")]
        ebr: Lba,
    },
}

/// The type of a partition in its table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(into = "TypeForm")]
#[schemars(with = "TypeForm")]
pub enum PartitionType {
    /// A GPT type GUID, in its byte order on disk (first three fields little endian).
    Guid([u8; 16]),
    /// An MBR system identifier.
    Mbr(u8),
    /// Unknown (the kernel does not export it in sysfs).
    Unknown,
}

/// The other fields of an entry, kept so that a fix can write them back.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Attributes {
    /// GPT attribute bits; 0 elsewhere.
    #[serde(skip)]
    pub gpt: u64,
    /// The partition's unique GUID; absent without a GPT.
    #[serde(
        rename = "uuid",
        serialize_with = "types::optional_guid",
        skip_serializing_if = "Option::is_none"
    )]
    #[schemars(with = "String")]
    pub guid: Option<[u8; 16]>,
    /// The partition's name (GPT), decoded from UTF-16 with invalid code units replaced; absent if it has
    /// none.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// The MBR "active" flag.
    #[serde(skip)]
    pub bootable: bool,
}

/// The attribute of a GPT entry that makes Windows mount it read-only (`GPT_BASIC_DATA_ATTRIBUTE_READ_ONLY`).
const READ_ONLY: u64 = 1 << 60;

/// One partition.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Partition {
    /// Its number, as in the device's name (`sda1` is 1). MBR logical partitions begin at 5.
    pub number: u32,
    /// The first block, in units of the table's block size.
    #[serde(rename = "start_lba")]
    pub start: Lba,
    /// The number of blocks, in units of the table's block size.
    #[serde(rename = "sectors")]
    pub count: LbaCount,
    /// Its bytes.
    #[serde(flatten)]
    pub span: Span,
    /// Its role in the table.
    #[serde(flatten)]
    pub role: Role,
    /// Its type in the table.
    #[serde(flatten)]
    pub kind: PartitionType,
    /// The other fields of its entry.
    #[serde(flatten)]
    pub attributes: Attributes,
    /// The content recognised from its first bytes; absent if there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub content: Option<Content>,
    /// The layer on it, with the layers above that one; absent if they have not been read, or if nothing is
    /// recognised.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub layer: Option<Layer>,
    /// What else it contains; empty until the layers are read.
    #[serde(skip)]
    pub unclaimed: Unclaimed,
}

/// What lies in a partition that no known content accounts for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Unclaimed {
    /// Nothing, as far as that was looked for.
    #[default]
    Nothing,
    /// After the end that its contents record: another program's metadata, or what they left when they shrank.
    Tail,
    /// In all of it: it is not blank, and nothing is recognised.
    All,
}

impl Partition {
    pub(crate) fn at(number: u32, start: Lba, count: LbaCount, block: BlockSize) -> Option<Self> {
        Some(Self {
            number,
            start,
            count,
            span: Span::of_blocks(start, count, block)?,
            role: Role::Primary,
            kind: PartitionType::Unknown,
            attributes: Attributes::default(),
            content: None,
            layer: None,
            unclaimed: Unclaimed::Nothing,
        })
    }

    /// Whether it has a table of another system, read or not. Such tables may list partitions by their places
    /// on the disk, and Linux lists these after those of the disk's own table.
    pub fn has_foreign_table(&self) -> bool {
        let table = match self.layer.as_ref().map(|layer| &layer.facts) {
            Some(Facts::Table(table)) => matches!(table.kind, TableKind::Foreign(_)),
            _ => false,
        };
        table || self.content.is_some_and(Content::is_foreign_table)
    }

    /// Whether its contents are found from its end, and so not in a shorter or a longer partition: md 0.90 and
    /// 1.0, DRBD, firmware RAIDs, and whatever comes after what is known.
    pub fn is_found_from_end(&self) -> bool {
        if self.unclaimed == Unclaimed::Tail {
            return true;
        }
        match self.layer.as_ref().map(|layer| (layer.kind, &layer.facts)) {
            Some((_, Facts::Md(md))) => matches!(md.version, "0.90" | "1.0"),
            Some((kind, _)) => kind.is_array_member(),
            None => self.content.is_some_and(Content::is_array_member),
        }
    }
}

/// Damage or an anomaly in a table, with its byte. None of them stops the reading of the rest.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs, reason = "the messages document the variants")]
pub enum Problem {
    #[error("the primary GPT at byte {at} is damaged: {why}; the backup was used")]
    GptPrimaryDamaged { at: ByteOffset, why: String },
    #[error("the backup GPT at byte {at} is damaged or missing: {why}")]
    GptBackupDamaged { at: ByteOffset, why: String },
    #[error("neither copy of the GPT can be used (the primary is at byte {at}): {why}")]
    GptUnusable { at: ByteOffset, why: String },
    #[error(
        "the backup GPT is at byte {at} instead of in the last block (byte {expected}); the disk has \
         probably grown"
    )]
    GptBackupMisplaced { at: ByteOffset, expected: ByteOffset },
    #[error("the GPT was made for a larger disk, whose last block is at byte {at}")]
    GptPastEnd { at: ByteOffset },
    #[error(
        "the primary and the backup GPT are both intact but differ, first at byte {at}; the primary was used"
    )]
    GptCopiesDiffer { at: ByteOffset },
    #[error("the MBR is protective, but there is no GPT at byte {at} or at the end of the disk")]
    ProtectiveWithoutGpt { at: ByteOffset },
    /// There is a GPT and it was read, but no MBR entry protects it: Linux does not see it.
    #[error("the GPT has no protective MBR entry (byte {at}), so the kernel does not see the GPT")]
    NoProtectiveMbr { at: ByteOffset },
    #[error(
        "entry {slot} of the hybrid MBR (byte {at}) lists bytes {start} to {end}, which are not a partition \
         in the GPT; systems that use the MBR see different partitions"
    )]
    HybridDiffers { slot: u32, at: ByteOffset, start: ByteOffset, end: ByteOffset },
    #[error(
        "the table (byte {at}) uses {table}-byte sectors, but the disk has {device}-byte ones; other tools \
         see no partition table, or a wrong one"
    )]
    OtherBlockSize { table: BlockSize, device: BlockSize, at: ByteOffset },
    #[error(
        "the extended boot record at byte {at} links back to an earlier one, so later logical partitions \
         cannot be found"
    )]
    EbrLoop { at: ByteOffset },
    /// An EBR links to, or lists, something outside the extended partition or the disk. A link that is still
    /// on the disk is followed, as Linux does.
    #[error(
        "the extended boot record at byte {at} points to byte {to}, which is outside the extended partition \
         or the disk"
    )]
    EbrOutOfRange { at: ByteOffset, to: ByteOffset },
    #[error(
        "the block at byte {at} should be an extended boot record, but is unreadable or has no 0x55AA \
         signature; later logical partitions cannot be found"
    )]
    EbrBadSignature { at: ByteOffset },
    #[error("there are more than {MAX_PARTITIONS} partitions; those from byte {at} on are not listed")]
    TooManyPartitions { at: ByteOffset },
    #[error("overlaps partition {second} from byte {at} on, so writing to one destroys data in the other")]
    Overlap { first: u32, second: u32, at: ByteOffset },
    #[error("contains {what}, at byte {at}; writing there destroys the table")]
    TableInside { number: u32, what: Structure, at: ByteOffset },
    #[error("is past the end of the disk from byte {at} on")]
    OutOfRange { number: u32, at: ByteOffset },
    #[error(
        "the {content} records a size of {recorded}, {} more than the available space; its data may extend \
         past the end of that space (byte {at})",
        .recorded.saturating_sub(*.len)
    )]
    CutShort { number: Option<u32>, content: Content, at: ByteOffset, recorded: ByteCount, len: ByteCount },
    #[error("cannot read byte {at}: {why}")]
    Unreadable { number: Option<u32>, at: ByteOffset, why: String },
    #[error("entry {number}, at byte {at}, cannot be used: {why}")]
    BadEntry { number: u32, at: ByteOffset, why: String },
}

/// A part of a partition table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Structure {
    /// The MBR, or the one that protects a GPT.
    Mbr,
    /// An extended boot record.
    Record,
    /// The primary GPT: its header, or its array.
    Gpt,
    /// The backup GPT.
    BackupGpt,
}

impl fmt::Display for Structure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Mbr => "the MBR",
            Self::Record => "an extended boot record (EBR)",
            Self::Gpt => "the GPT",
            Self::BackupGpt => "the backup GPT",
        })
    }
}

/// What a problem concerns, which decides what may still be written to the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Damage {
    /// One of two copies of a GPT: the partitions are known, and writing both mends it.
    Copies,
    /// The protective MBR of a GPT that is read all the same.
    Protection,
    /// An entry of a hybrid MBR, beside a GPT that counts.
    Hybrid,
    /// The end of the disk for which a GPT was made.
    End,
    /// The size of the sectors in which the table counts.
    Sectors,
    /// What a partition, or the disk without a table, holds; the table is sound.
    Contents,
    /// Which partitions there are.
    Table,
}

impl Problem {
    /// What it concerns.
    pub const fn damage(&self) -> Damage {
        match self {
            Self::GptPrimaryDamaged { .. }
            | Self::GptBackupDamaged { .. }
            | Self::GptBackupMisplaced { .. }
            | Self::GptCopiesDiffer { .. } => Damage::Copies,
            Self::NoProtectiveMbr { .. } => Damage::Protection,
            Self::HybridDiffers { .. } => Damage::Hybrid,
            Self::GptPastEnd { .. } => Damage::End,
            Self::OtherBlockSize { .. } => Damage::Sectors,
            Self::CutShort { .. } | Self::Unreadable { number: Some(_), .. } => Damage::Contents,
            Self::GptUnusable { .. }
            | Self::ProtectiveWithoutGpt { .. }
            | Self::EbrLoop { .. }
            | Self::EbrOutOfRange { .. }
            | Self::EbrBadSignature { .. }
            | Self::TooManyPartitions { .. }
            | Self::Overlap { .. }
            | Self::TableInside { .. }
            | Self::OutOfRange { .. }
            | Self::Unreadable { number: None, .. }
            | Self::BadEntry { .. } => Damage::Table,
        }
    }
}

/// What a medium holds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Stack {
    /// What is at its start.
    #[serde(flatten)]
    pub kind: TableKind,
    /// The block size that the table uses (512 if there is no table and none was declared).
    #[serde(rename = "sector_bytes")]
    pub block: BlockSize,
    /// Whether the block size was detected on the medium (from the position of a GPT, or a known signature
    /// where an MBR partition starts with that size), rather than declared or assumed.
    #[serde(skip)]
    pub block_found: bool,
    /// The disk's identifier: the GPT disk GUID as on disk, or the four bytes of the MBR's signature.
    #[serde(skip)]
    pub disk_id: Vec<u8>,
    /// The area that partitions may use, if the table records it (GPT).
    #[serde(skip)]
    pub usable: Option<Span>,
    /// The layers on the medium as a whole, if there is no table.
    #[serde(skip)]
    pub layer: Option<Layer>,
    /// Every partition, in order of number.
    #[serde(skip)]
    pub partitions: Vec<Partition>,
    /// What is wrong with the table.
    #[serde(skip)]
    pub problems: Vec<Problem>,
    /// The partitions that a hybrid MBR lists in addition to the GPT, by entry number.
    #[serde(skip)]
    pub hybrid: Vec<(u32, Span)>,
    /// The bytes of the ISO 9660 image of a medium that is also a disk (isohybrid). Partitions inside it show
    /// parts of one read-only file system, and overlap by design; those after it are ordinary.
    #[serde(skip)]
    pub hybrid_iso: Option<Span>,
}

impl Stack {
    pub(crate) const fn empty(kind: TableKind, block: BlockSize) -> Self {
        Self {
            kind,
            block,
            block_found: false,
            disk_id: Vec::new(),
            usable: None,
            layer: None,
            partitions: Vec::new(),
            problems: Vec::new(),
            hybrid: Vec::new(),
            hybrid_iso: None,
        }
    }

    /// Whether the medium is an ISO 9660 image that is also a disk.
    pub const fn is_hybrid_iso(&self) -> bool {
        self.hybrid_iso.is_some()
    }

    /// Whether a partition begins in the ISO 9660 image that is also this disk; or after it, and is marked as
    /// read-only: xorriso fills the gaps of its tables with such partitions.
    pub fn is_in_iso(&self, partition: &Partition) -> bool {
        let is_marked = partition.attributes.gpt & READ_ONLY != 0;
        self.hybrid_iso.is_some_and(|iso| is_marked || partition.span.start() < iso.end())
    }

    /// Whether a partition is only an entry for that image, made for firmware: its type is 0.
    pub fn is_window(&self, partition: &Partition) -> bool {
        partition.kind == PartitionType::Mbr(0) && self.is_in_iso(partition)
    }

    /// Whether a problem is only that such an entry covers others, or one for the image covers the MBR.
    pub fn is_of_window(&self, problem: &Problem) -> bool {
        let any = |number: u32, is_one: fn(&Self, &Partition) -> bool| {
            self.partitions.iter().any(|partition| partition.number == number && is_one(self, partition))
        };
        match problem {
            Problem::Overlap { first, second, .. } => {
                any(*first, Self::is_window) || any(*second, Self::is_window)
            }
            Problem::TableInside { number, .. } => any(*number, Self::is_in_iso),
            _ => false,
        }
    }

    /// The number of the entry of the hybrid MBR that lists this partition as well.
    pub fn in_hybrid(&self, partition: &Partition) -> Option<u32> {
        self.hybrid.iter().find(|(_, span)| *span == partition.span).map(|(number, _)| *number)
    }

    /// What lists a partition's contents and is not read: another system's table, or Windows' database.
    pub fn unread(partition: &Partition) -> Option<&'static str> {
        match (&partition.layer, partition.content) {
            (None, None) if is_dynamic_database(&partition.kind) => None,
            (None, None) => is_dynamic(&partition.kind).then_some(LDM),
            _ => partition.content.filter(|content| content.is_foreign_table()).map(Content::name),
        }
    }

    /// The number of a partition of a Windows dynamic disk (LDM), whose table is only for other systems.
    pub fn dynamic(&self) -> Option<u32> {
        let is_dynamic = |partition: &&Partition| is_dynamic(&partition.kind);
        self.partitions.iter().find(is_dynamic).map(|partition| partition.number)
    }

    /// The problems of contents that record a larger size. Free space may be theirs: nothing may be written.
    pub fn cut_short(&self) -> impl Iterator<Item = &Problem> {
        self.problems.iter().filter(|problem| matches!(problem, Problem::CutShort { .. }))
    }

    /// The size that the contents of a partition record, if that is larger than the partition.
    pub fn needed(&self, partition: u32) -> Option<ByteCount> {
        self.problems.iter().find_map(|problem| match problem {
            Problem::CutShort { number: Some(number), recorded, .. } if *number == partition => {
                Some(*recorded)
            }
            _ => None,
        })
    }
}
