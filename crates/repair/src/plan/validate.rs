//! The checks that every plan must pass, wherever it comes from.

use std::collections::BTreeSet;

use straddle_layout::format::mbr;
use straddle_layout::types::parse_guid;
use straddle_units::{BlockSize, ByteCount, Lba, LbaCount};

use super::{Change, Entry, Format, Plan, Slot, Table};
use crate::error::PlanError;
use crate::kinds;

/// The length of a name in UTF-16 units (UEFI specification, table 5-6).
const NAME_UNITS: usize = 36;
/// The most entries of an array: this program reads no larger one.
pub(crate) const MOST_ENTRIES: u32 = 1024;

impl Plan {
    pub(super) fn checked(self) -> Result<Self, PlanError> {
        self.validate()?;
        Ok(self)
    }

    fn validate(&self) -> Result<(), PlanError> {
        let block = self.block();
        let blocks = block.blocks_floor(self.disk.size).get();
        self.table.validate(block, blocks)?;
        self.validate_conversion(block)?;
        if self.wipe.len() > self.table.partitions.len() + 1 + super::MOST_MARKS {
            return Err(invalid(format!("it wipes {} ranges", self.wipe.len())));
        }
        for wipe in &self.wipe {
            let fits = wipe.end().get() <= self.disk.size.get();
            let starts_a_block = ByteCount::new(wipe.start().get()).is_multiple_of(block.bytes());
            if !fits || !starts_a_block || wipe.len() > super::WIPED {
                let (start, len) = (wipe.start(), wipe.len().get());
                return Err(invalid(format!("it wipes {len} bytes from byte {start}")));
            }
        }
        Ok(())
    }

    /// Checks a conversion: it keeps every partition, and each must fit the new table.
    fn validate_conversion(&self, block: BlockSize) -> Result<(), PlanError> {
        let Some(former) = self.converts else { return Ok(()) };
        let sizes = [BlockSize::B512, BlockSize::B4096];
        let is_one = former != block && sizes.contains(&former) && sizes.contains(&block);
        if !is_one || self.fresh || self.relocate_backup || !self.wipe.is_empty() {
            return Err(invalid(format!(
                "it converts from {former}-byte sectors, and changes something else"
            )));
        }
        for entry in &self.table.partitions {
            if entry.change != Change::Kept {
                let number = entry.number;
                return Err(invalid(format!("it converts the table, and partition {number} does not stay")));
            }
            entry.validate_place(&self.table, block)?;
        }
        Ok(())
    }
}

pub(super) fn invalid(text: String) -> PlanError {
    PlanError::Invalid(text)
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
            return Err(invalid("its usable space exceeds the disk, or its table is too large".to_owned()));
        }
        if (self.format == Format::Gpt) == (self.entries == 0) {
            return Err(invalid(format!("a {} has no array of {} entries", self.format, self.entries)));
        }
        let mut numbers = BTreeSet::new();
        let mut occupied: Vec<(u64, u64, u32)> = Vec::new();
        for entry in &self.partitions {
            entry.validate(self, block)?;
            if !numbers.insert(entry.number) {
                return Err(invalid(format!("there are two partitions {}", entry.number)));
            }
            let end = entry.start.checked_add(entry.sectors).map(Lba::get).filter(|end| *end <= blocks);
            let end = end.ok_or_else(|| invalid(format!("partition {} ends past the disk", entry.number)))?;
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
        let overlap = occupied.windows(2).find(|pair| pair[0].1 > pair[1].0);
        if let Some(pair) = overlap {
            return Err(invalid(format!("partitions {} and {} share sectors", pair[0].2, pair[1].2)));
        }
        self.validate_containers(&occupied)
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

    /// Checks that only logical partitions are in the extended one.
    fn validate_containers(&self, occupied: &[(u64, u64, u32)]) -> Result<(), PlanError> {
        if self.partitions.iter().filter(|entry| entry.slot == Slot::Extended).count() > 1 {
            return Err(invalid("it has two extended partitions".to_owned()));
        }
        let Some(extended) = self.extended() else { return Ok(()) };
        let (start, end) = (extended.start.get(), extended.end().get());
        let is_inside = |(from, to, number): &&(u64, u64, u32)| *number <= 4 && *from < end && start < *to;
        match occupied.iter().find(is_inside) {
            Some((_, _, number)) => Err(invalid(format!("partition {number} is inside the extended one"))),
            None => Ok(()),
        }
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
        // A kept entry keeps its bits, whatever they are.
        if self.change == Change::Kept {
            return Ok(());
        }
        self.validate_place(table, block)?;
        let uuid_is_one = self.uuid.as_deref().map(|uuid| parse_guid(uuid).is_some());
        if table.format == Format::Gpt && uuid_is_one != Some(true) {
            return Err(invalid(format!("the UUID of partition {number} is invalid")));
        }
        if table.format == Format::Mbr
            && (!self.name.is_empty() || self.attributes != 0 || self.uuid.is_some())
        {
            let why = "an MBR keeps no names, UUIDs or attribute bits".to_owned();
            return Err(PlanError::Name { number, why });
        }
        if self.name.encode_utf16().count() > NAME_UNITS {
            let why = format!("a GPT name has at most {NAME_UNITS} UTF-16 units, and this one has more");
            return Err(PlanError::Name { number, why });
        }
        if self.name.contains('\0') {
            return Err(PlanError::Name { number, why: "a name cannot contain a NUL character".to_owned() });
        }
        Ok(())
    }
    /// Checks that the entry is in the usable space, and that its figures fit the table's fields.
    fn validate_place(&self, table: &Table, block: BlockSize) -> Result<(), PlanError> {
        let number = self.number;
        if self.start < table.first_usable || self.last() > table.last_usable {
            return Err(PlanError::Outside {
                number,
                at: self.start.get().saturating_mul(block.get()),
                first: table.first_usable.get().saturating_mul(block.get()),
                end: table.last_usable.get().saturating_add(1).saturating_mul(block.get()),
            });
        }
        if table.format == Format::Mbr && (self.start.get() >= mbr::LBAS || self.sectors.get() >= mbr::LBAS) {
            return Err(invalid(format!("partition {number} needs more than 32 bits: use a GPT")));
        }
        Ok(())
    }
}
