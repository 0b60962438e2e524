//! A partition table as a plan represents it, and the checks of every plan, wherever it comes from.

use std::collections::BTreeSet;
use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use straddle_layout::Role;
use straddle_layout::format::gpt::ENTRY_BYTES;
use straddle_layout::format::mbr;
use straddle_layout::types::parse_guid;
use straddle_units::{BlockSize, Lba, LbaCount, Span};

use super::Plan;
use crate::error::PlanError;
use crate::kinds;

/// The format of a partition table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Format {
    /// A GUID partition table.
    Gpt,
    /// A partition table in a master boot record ("dos").
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

/// A partition's role in the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Slot {
    /// An entry of the table itself.
    Primary,
    /// The extended partition, which contains the logical ones.
    Extended,
    /// A logical partition.
    Logical {
        /// The sector of the logical partition's extended boot record.
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
    /// The partition is unchanged: its entry keeps every bit.
    Kept,
    /// The partition is new.
    New,
    /// The partition keeps its start and ends later.
    Grown {
        /// The partition's former number of sectors.
        #[serde(rename = "from_sectors")]
        from: LbaCount,
    },
    /// The partition's data moves, and only the position and size in its entry change.
    Moved {
        /// The partition's former first sector.
        #[serde(rename = "from_lba")]
        from: Lba,
        /// The partition's former number of sectors.
        #[serde(rename = "from_sectors")]
        sectors: LbaCount,
    },
}

/// A partition in the table.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Partition")]
#[serde(deny_unknown_fields)]
pub struct Entry {
    /// Its number.
    pub number: u32,
    /// The first sector, counted in logical sectors.
    #[serde(rename = "start_lba")]
    pub start: Lba,
    /// The number of logical sectors.
    pub sectors: LbaCount,
    /// Its role in the table.
    #[serde(rename = "role")]
    pub slot: Slot,
    /// The partition's type: a GUID in capitals, or an MBR type in hexadecimal digits.
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
    /// What happens to the partition.
    pub change: Change,
    /// The file system to create in the partition.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fs: Option<String>,
    /// Why the partition starts where it does.
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

    pub(crate) fn last(&self) -> Lba {
        last_of(self.start, self.sectors)
    }

    pub(crate) fn ebr(&self) -> Option<Lba> {
        if let Slot::Logical { ebr } = self.slot { Some(ebr) } else { None }
    }

    pub(crate) fn is_logical(&self) -> bool {
        self.ebr().is_some()
    }

    pub(crate) fn is_moved(&self) -> bool {
        matches!(self.change, Change::Moved { .. })
    }
}

pub(crate) fn array_sectors(entries: u32, block: BlockSize) -> u64 {
    (u64::from(entries) * u64::from(ENTRY_BYTES)).div_ceil(block.get())
}

pub(crate) fn span_of(entry: &Entry, block: BlockSize) -> Option<Span> {
    Span::of_blocks(entry.start, entry.sectors, block)
}

pub(crate) fn last_of(start: Lba, sectors: LbaCount) -> Lba {
    start.saturating_add(LbaCount::new(sectors.get().saturating_sub(1)))
}

/// A partition table.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Table {
    /// The format of the table.
    pub format: Format,
    /// The disk's identifier: a GUID, or eight hexadecimal digits.
    pub id: String,
    /// The first sector that partitions may use.
    #[serde(rename = "first_usable_lba")]
    pub first_usable: Lba,
    /// The last sector that partitions may use.
    #[serde(rename = "last_usable_lba")]
    pub last_usable: Lba,
    /// The number of entries in the array of a GPT; 0 for an MBR.
    pub entries: u32,
    /// The partitions, in order of number.
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

    pub(crate) fn new_spans(&self, block: BlockSize) -> impl Iterator<Item = Span> {
        let is_new = |entry: &&Entry| entry.change == Change::New && entry.slot != Slot::Extended;
        self.partitions.iter().filter(is_new).filter_map(move |entry| span_of(entry, block))
    }

    pub(crate) fn logical(&self) -> Vec<(Lba, &Entry)> {
        self.partitions.iter().filter_map(|entry| Some((entry.ebr()?, entry))).collect()
    }

    pub(crate) fn usable_end(&self) -> Lba {
        self.last_usable.saturating_add(LbaCount::new(1))
    }
}

/// The length of a name in UTF-16 units (UEFI specification, table 5-6).
const NAME_UNITS: usize = 36;
/// The most entries of an array: this program reads no larger one.
pub(crate) const MOST_ENTRIES: u32 = 1024;

fn invalid(text: impl Into<String>) -> PlanError {
    PlanError::Invalid(text.into())
}

impl Plan {
    pub(super) fn checked(self) -> Result<Self, PlanError> {
        let block = self.block();
        self.table.validate(block, block.blocks_floor(self.disk.size).get())?;
        self.validate_conversion(block)?;
        if self.wipe.len() > self.table.partitions.len() + 1 + super::MOST_MARKS {
            return Err(invalid(format!("it wipes {} ranges", self.wipe.len())));
        }
        for wipe in &self.wipe {
            let (start, len) = (wipe.start(), wipe.len());
            let fits = Span::first(self.disk.size).contains(*wipe);
            if !fits || Lba::from_bytes_exact(start, block).is_none() || len > super::WIPED {
                return Err(invalid(format!("it wipes {} bytes from byte {start}", len.get())));
            }
        }
        Ok(self)
    }

    fn validate_conversion(&self, block: BlockSize) -> Result<(), PlanError> {
        let Some(former) = self.converts else { return Ok(()) };
        let sizes = [BlockSize::B512, BlockSize::B4096];
        let is_one = former != block && sizes.contains(&former) && sizes.contains(&block);
        if !is_one || self.fresh || self.relocate_backup || !self.wipe.is_empty() {
            return Err(invalid(format!(
                "it converts the table from {former}-byte sectors and also makes another change"
            )));
        }
        for entry in &self.table.partitions {
            if entry.change != Change::Kept {
                let number = entry.number;
                return Err(invalid(format!("it converts the table, but does not keep partition {number}")));
            }
            entry.validate_place(&self.table, block)?;
        }
        Ok(())
    }
}

impl Table {
    fn validate(&self, block: BlockSize, blocks: u64) -> Result<(), PlanError> {
        let id_is_one = match self.format {
            Format::Gpt => parse_guid(&self.id).is_some(),
            Format::Mbr => self.id.len() == 8 && u32::from_str_radix(&self.id, 16).is_ok(),
        };
        if !id_is_one {
            return Err(invalid(format!("'{}' is not a disk identifier for {}", self.id, self.format)));
        }
        if self.last_usable.get() >= blocks
            || self.first_usable > self.last_usable
            || self.entries > MOST_ENTRIES
        {
            return Err(invalid("its usable space is larger than the disk, or its table is too large"));
        }
        if (self.format == Format::Gpt) == (self.entries == 0) {
            return Err(invalid(format!(
                "a {} cannot have an array of {} entries",
                self.format, self.entries
            )));
        }
        let mut numbers = BTreeSet::new();
        let mut occupied: Vec<(u64, u64, u32)> = Vec::new();
        for entry in &self.partitions {
            entry.validate(self, block)?;
            if !numbers.insert(entry.number) {
                return Err(invalid(format!("two partitions have the number {}", entry.number)));
            }
            let end = entry.end().get();
            if end > blocks {
                return Err(invalid(format!("partition {} ends past the end of the disk", entry.number)));
            }
            match entry.slot {
                Slot::Primary => occupied.push((entry.start.get(), end, entry.number)),
                Slot::Extended => {}
                Slot::Logical { ebr } => {
                    occupied.push((entry.start.get(), end, entry.number));
                    occupied.push((ebr.get(), ebr.get().saturating_add(1), entry.number));
                    self.validate_logical(entry, ebr)?;
                }
            }
        }
        occupied.sort_unstable();
        if let Some(pair) = occupied.windows(2).find(|pair| pair[0].1 > pair[1].0) {
            return Err(invalid(format!("partitions {} and {} share sectors", pair[0].2, pair[1].2)));
        }
        if self.partitions.iter().filter(|entry| entry.slot == Slot::Extended).count() > 1 {
            return Err(invalid("it has more than one extended partition"));
        }
        let Some(extended) = self.extended() else { return Ok(()) };
        let (start, end) = (extended.start.get(), extended.end().get());
        let is_inside = |(from, to, number): &&(u64, u64, u32)| *number <= 4 && *from < end && start < *to;
        match occupied.iter().find(is_inside) {
            Some((_, _, number)) => {
                Err(invalid(format!("partition {number} is inside the extended partition")))
            }
            None => Ok(()),
        }
    }

    fn validate_logical(&self, entry: &Entry, ebr: Lba) -> Result<(), PlanError> {
        let holds = |e: &Entry| e.start <= ebr && ebr < entry.start && entry.end() <= e.end();
        if self.format == Format::Mbr && self.extended().is_some_and(holds) {
            return Ok(());
        }
        Err(invalid(format!(
            "logical partition {} is outside the extended partition, or before its own record",
            entry.number
        )))
    }
}

impl Entry {
    fn validate(&self, table: &Table, block: BlockSize) -> Result<(), PlanError> {
        let number = self.number;
        let is_fitting = match (table.format, self.slot) {
            (Format::Gpt, Slot::Primary) => (1..=table.entries).contains(&number),
            (Format::Gpt, _) => false,
            (Format::Mbr, Slot::Logical { .. }) => number > 4,
            (Format::Mbr, _) => (1..=4).contains(&number),
        };
        if !is_fitting {
            return Err(invalid(format!("the table has no entry for partition {number}")));
        }
        if self.sectors == LbaCount::default() {
            return Err(PlanError::Empty(number));
        }
        if kinds::parsed(&self.kind, table.format).is_none() {
            return Err(PlanError::UnknownType { text: self.kind.clone(), format: table.format });
        }
        if self.change == Change::Kept {
            return Ok(());
        }
        self.validate_place(table, block)?;
        let is_gpt = table.format == Format::Gpt;
        if is_gpt && self.uuid.as_deref().and_then(parse_guid).is_none() {
            return Err(invalid(format!("the UUID of partition {number} is not valid")));
        }
        let is_plain = self.name.is_empty() && self.attributes == 0 && self.uuid.is_none();
        let why = if !is_gpt && !is_plain {
            "an MBR cannot store names, UUIDs or attribute bits".to_owned()
        } else if self.name.encode_utf16().count() > NAME_UNITS {
            format!("a name in a GPT is limited to {NAME_UNITS} UTF-16 units")
        } else if self.name.contains('\0') {
            "a name cannot contain a NUL character".to_owned()
        } else {
            return Ok(());
        };
        Err(PlanError::Name { number, why })
    }

    fn validate_place(&self, table: &Table, block: BlockSize) -> Result<(), PlanError> {
        let number = self.number;
        if self.start < table.first_usable || self.last() > table.last_usable {
            let byte = |lba: Lba| lba.byte(block).get();
            let (first, end) = (byte(table.first_usable), byte(table.usable_end()));
            return Err(PlanError::Outside { number, at: byte(self.start), first, end });
        }
        if table.format == Format::Mbr && (self.start.get() >= mbr::LBAS || self.sectors.get() >= mbr::LBAS) {
            return Err(invalid(format!(
                "the position or size of partition {number} needs more than 32 bits; use a GPT"
            )));
        }
        Ok(())
    }
}
