//! A partition table as a plan represents it.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use straddle_layout::Role;
use straddle_layout::format::gpt::ENTRY_BYTES;
use straddle_units::{BlockSize, Lba, LbaCount, Span};

/// A table's format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Format {
    /// GUID partition table.
    Gpt,
    /// Master boot record, "dos".
    Mbr,
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Gpt => "GPT",
            Self::Mbr => "MBR",
        })
    }
}

/// A partition's place in the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Slot {
    /// An entry of the table itself.
    Primary,
    /// The container of logical partitions.
    Extended,
    /// A logical partition.
    Logical {
        /// The sector of its extended boot record.
        #[serde(rename = "ebr_lba")]
        ebr: Lba,
    },
}

impl From<Slot> for Role {
    fn from(slot: Slot) -> Self {
        match slot {
            Slot::Primary => Self::Primary,
            Slot::Extended => Self::Extended,
            Slot::Logical { ebr } => Self::Logical { ebr },
        }
    }
}

/// What happens to a partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Change {
    /// It is unchanged: its entry keeps every bit.
    Kept,
    /// It is new.
    New,
    /// It keeps its start and ends later.
    Grown {
        /// Its former number of sectors.
        #[serde(rename = "from_sectors")]
        from: LbaCount,
    },
    /// Its data move: its entry changes in position and size only.
    Moved {
        /// Its former first sector.
        #[serde(rename = "from_lba")]
        from: Lba,
        /// Its former number of sectors.
        #[serde(rename = "from_sectors")]
        sectors: LbaCount,
    },
}

/// A partition of the table.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Partition")]
#[serde(deny_unknown_fields)]
pub struct Entry {
    /// Its number.
    pub number: u32,
    /// First sector.
    #[serde(rename = "start_lba")]
    pub start: Lba,
    /// Number of sectors.
    pub sectors: LbaCount,
    /// Its place in the table.
    #[serde(rename = "role")]
    pub slot: Slot,
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
    pub change: Change,
    /// The file system that is to be created in it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fs: Option<String>,
    /// Why it is placed where it is.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub why: Vec<String>,
}

impl Entry {
    pub(crate) fn new(number: u32, start: Lba, sectors: LbaCount, slot: Slot, kind: String) -> Self {
        Self {
            number,
            start,
            sectors,
            slot,
            kind,
            uuid: None,
            name: String::new(),
            attributes: 0,
            bootable: false,
            change: Change::New,
            fs: None,
            why: Vec::new(),
        }
    }

    /// The sector just past its last; saturates.
    pub fn end(&self) -> Lba {
        self.start.saturating_add(self.sectors)
    }

    /// Its last sector; its first one if it is empty.
    pub(crate) fn last(&self) -> Lba {
        last_of(self.start, self.sectors)
    }

    pub(crate) fn is_logical(&self) -> bool {
        matches!(self.slot, Slot::Logical { .. })
    }
}

/// The number of sectors that the array of a new GPT takes.
pub(crate) fn array_sectors(entries: u32, block: BlockSize) -> u64 {
    (u64::from(entries) * u64::from(ENTRY_BYTES)).div_ceil(block.get())
}

/// The bytes of an entry; `None` if their end exceeds 64 bits.
pub(crate) fn span_of(entry: &Entry, block: BlockSize) -> Option<Span> {
    Span::of_blocks(entry.start, entry.sectors, block)
}

/// The last of `sectors` sectors from `start` on; `start` if `sectors` is zero.
pub(crate) fn last_of(start: Lba, sectors: LbaCount) -> Lba {
    start.saturating_add(LbaCount::new(sectors.get().saturating_sub(1)))
}

/// A partition table.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Table {
    /// Its format.
    pub format: Format,
    /// The disk's identifier: a GUID, or eight hexadecimal digits.
    pub id: String,
    /// The first sector that partitions may use.
    #[serde(rename = "first_usable_lba")]
    pub first_usable: Lba,
    /// The last sector that partitions may use.
    #[serde(rename = "last_usable_lba")]
    pub last_usable: Lba,
    /// Number of entries in the array of a GPT; 0 for an MBR.
    pub entries: u32,
    /// The partitions, by number.
    pub partitions: Vec<Entry>,
}

impl Table {
    pub(crate) fn entry(&self, number: u32) -> Option<&Entry> {
        self.partitions.iter().find(|entry| entry.number == number)
    }

    pub(crate) fn extended(&self) -> Option<&Entry> {
        self.partitions.iter().find(|entry| entry.slot == Slot::Extended)
    }

    pub(crate) fn spans(&self, block: BlockSize) -> impl Iterator<Item = Span> {
        self.partitions.iter().filter_map(move |entry| span_of(entry, block))
    }

    /// The places of new partitions, except of an extended one.
    pub(crate) fn new_spans(&self, block: BlockSize) -> impl Iterator<Item = Span> {
        let is_new = |entry: &&Entry| entry.change == Change::New && entry.slot != Slot::Extended;
        self.partitions.iter().filter(is_new).filter_map(move |entry| span_of(entry, block))
    }

    /// The logical partitions with their extended boot records, by number.
    pub(crate) fn logical(&self) -> Vec<(Lba, &Entry)> {
        let ebr = |entry: &Entry| match entry.slot {
            Slot::Logical { ebr } => Some(ebr),
            _ => None,
        };
        self.partitions.iter().filter_map(|entry| Some((ebr(entry)?, entry))).collect()
    }

    pub(crate) fn usable_end(&self) -> Lba {
        self.last_usable.saturating_add(LbaCount::new(1))
    }
}
