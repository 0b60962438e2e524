//! Converting a table that was written for the other logical sector size to the disk's own: every partition
//! keeps its bytes.
//!
//! Invariants: only what can be expressed exactly in the new sectors is converted, and nothing in
//! a partition may depend on sectors of the old size ([`crate::contents`]). A refusal names the partition and
//! the reason.

use straddle_device::Medium;
use straddle_device::hex::encode as hex;
use straddle_layout::format::mbr;
use straddle_layout::{Damage, Partition, Role, Stack, TableKind, types};
use straddle_units::{BlockSize, ByteCount, ByteOffset, Lba, LbaCount, Span};

use super::{Draft, Entry, Format, GPT_ENTRY_BYTES, MBR_LEAD, Plan, Slot, Table, kept, no_table};
use crate::contents;
use crate::encode::CurrentGpt;
use crate::error::PlanError;
use crate::kinds;

/// How many bytes of its sector an MBR or an extended boot record fills.
const RECORD: ByteCount = ByteCount::new(512);
/// How many sectors before a partition are tried for its record.
const PLACES: u64 = 16;

fn cannot(why: String) -> PlanError {
    PlanError::CannotConvert(why)
}

impl Draft<'_> {
    /// Returns the present table in the new sectors.
    pub(super) fn converted_table(&mut self) -> Result<Table, PlanError> {
        let request = self.request;
        let changes = !request.parts.is_empty() || !request.delete.is_empty() || !request.grow.is_empty();
        if changes || request.table.is_some() || request.repair || request.relocate_backup || request.wipe {
            return Err(PlanError::Contradiction(
                "a conversion cannot be combined with other changes: plan those afterwards".to_owned(),
            ));
        }
        let (stack, block) = (self.situation.stack, self.block());
        check_sizes(stack, block)?;
        self.check_problems(stack)?;
        let notes = contents::check(self.situation.medium, stack, block);
        let table = match stack.kind {
            TableKind::Gpt => self.converted_gpt(stack),
            TableKind::Mbr => self.converted_mbr(stack),
            TableKind::HybridMbr => Err(cannot(
                "its MBR lists partitions beside the GPT (a hybrid MBR): remove them first".to_owned(),
            )),
            _ => Err(no_table(&stack.kind)),
        };
        match (table, notes) {
            (Err(PlanError::CannotConvert(one)), Err(PlanError::CannotConvert(other))) => {
                Err(cannot(format!("{one}; also, {other}")))
            }
            (Ok(table), Ok(notes)) => {
                self.notes.extend(notes);
                Ok(table)
            }
            (Err(error), _) | (_, Err(error)) => Err(error),
        }
    }

    /// Remarks on damage that a conversion repairs; refuses the conversion for other damage.
    fn check_problems(&mut self, stack: &Stack) -> Result<(), PlanError> {
        for problem in &stack.problems {
            match problem.damage() {
                Damage::Sectors => {}
                Damage::Copies | Damage::End => {
                    self.notes.push(format!("{problem}; this plan writes both copies"));
                }
                Damage::Protection | Damage::Hybrid | Damage::Contents | Damage::Table => {
                    return Err(cannot(problem.to_string()));
                }
            }
        }
        Ok(())
    }

    fn converted_gpt(&self, stack: &Stack) -> Result<Table, PlanError> {
        let (old, new) = (stack.block, self.block());
        let current = CurrentGpt::read(self.situation.medium, stack)?;
        let bytes = u64::from(current.entries()) * current.entry_size().max(GPT_ENTRY_BYTES);
        let (array, old_array) = (bytes.div_ceil(new.get()), bytes.div_ceil(old.get()));
        let first_usable = convert_up(current.first_usable(), old, new).max(array + 2);
        let blocks = self.situation.blocks();
        let too_small = || PlanError::DiskTooSmall(self.situation.size());
        let last_free = blocks.checked_sub(array + 2).ok_or_else(too_small)?;
        let old_end = Lba::new(current.last_usable().saturating_add(1)).to_bytes(old);
        let old_end = old_end.map_or(u64::MAX, |end| Lba::containing(end, new).get());
        // If the old table left no free space before its backup, neither does the new one.
        let old_free = old.blocks_floor(self.situation.size()).get().saturating_sub(old_array + 2);
        let last_usable = if current.last_usable() == old_free {
            last_free
        } else {
            old_end.saturating_sub(1).min(last_free)
        };
        if last_usable <= first_usable {
            return Err(too_small());
        }
        let mut partitions = Vec::new();
        for partition in &stack.partitions {
            let entry = converted(partition, new)?;
            let (first, end) = (byte(first_usable, new), byte(last_usable + 1, new));
            if entry.start.get() < first_usable {
                let at = partition.span.start();
                return Err(cannot(format!(
                    "partition {} starts at byte {at}, but in {new}-byte sectors the table reaches to byte \
                     {first}",
                    partition.number
                )));
            }
            if entry.end().get() > last_usable + 1 {
                return Err(cannot(format!(
                    "partition {} ends at byte {}, but in {new}-byte sectors the space for partitions ends \
                     at byte {end}, before the backup of the table",
                    partition.number,
                    partition.span.end()
                )));
            }
            partitions.push(entry);
        }
        let id = types::guid_text(current.disk_guid());
        let entries = current.entries();
        let (first_usable, last_usable) = (Lba::new(first_usable), Lba::new(last_usable));
        Ok(Table { format: Format::Gpt, id, first_usable, last_usable, entries, partitions })
    }

    fn converted_mbr(&self, stack: &Stack) -> Result<Table, PlanError> {
        let new = self.block();
        let mut partitions = Vec::new();
        for partition in stack.partitions.iter().filter(|p| p.role == Role::Primary) {
            partitions.push(converted(partition, new)?);
        }
        if let Some(extended) = stack.partitions.iter().find(|p| p.role == Role::Extended) {
            partitions.extend(Chain::of(stack, extended, new).converted()?);
        }
        partitions.sort_by_key(|entry| entry.number);
        if let Some(far) =
            partitions.iter().find(|e| e.start.get() >= mbr::LBAS || e.sectors.get() >= mbr::LBAS)
        {
            let reach = ByteCount::new(mbr::LBAS.saturating_mul(new.get()));
            return Err(cannot(format!(
                "partition {} starts past, or is larger than, the {reach} that an MBR can address in \
                 {new}-byte sectors{}",
                far.number,
                as_gpt(&partitions)
            )));
        }
        let id: Vec<u8> = stack.disk_id.iter().rev().copied().collect();
        let last_usable = self.situation.blocks().min(mbr::LBAS).saturating_sub(1);
        // A partition that begins in the first 63 sectors still does so.
        let first = partitions.iter().map(|entry| entry.start.get()).min().unwrap_or(u64::MAX);
        let first_usable = MBR_LEAD.get().div_ceil(new.get()).min(first).max(1);
        let (first_usable, last_usable) = (Lba::new(first_usable), Lba::new(last_usable));
        Ok(Table { format: Format::Mbr, id: hex(&id), first_usable, last_usable, entries: 0, partitions })
    }
}

/// The plan of a GPT that lists these partitions at the same bytes, where logical ones are not among them.
fn as_gpt(partitions: &[Entry]) -> String {
    if partitions.iter().any(|entry| entry.slot != Slot::Primary) {
        return "; a GPT can".to_owned();
    }
    let part = |entry: &Entry| {
        let kind = u8::from_str_radix(&entry.kind, 16).ok().and_then(kinds::gpt_of);
        let kind = kind.map_or_else(String::new, |kind| format!(",type={kind}"));
        format!(" --part {}s,start={}s{kind}", entry.sectors.get(), entry.start.get())
    };
    let mut in_order: Vec<&Entry> = partitions.iter().collect();
    in_order.sort_by_key(|entry| entry.start);
    let parts: String = in_order.into_iter().map(part).collect();
    format!("; a GPT can, at the same bytes: straddle plan DISK --table gpt --allow-misaligned{parts}")
}

/// Checks that the table's size and the wanted one differ, and that both are 512 or 4096 bytes.
fn check_sizes(stack: &Stack, new: BlockSize) -> Result<(), PlanError> {
    let old = stack.block;
    if old == new {
        let other = if new == BlockSize::B512 { BlockSize::B4096 } else { BlockSize::B512 };
        return Err(cannot(format!(
            "it seems to count in {new}-byte sectors already; if it counts in others, give --logical \
             {other}"
        )));
    }
    for size in [old, new] {
        if size != BlockSize::B512 && size != BlockSize::B4096 {
            return Err(cannot(format!(
                "only tables in 512- and 4096-byte sectors can be converted, not in {size}-byte ones"
            )));
        }
    }
    Ok(())
}

/// The first byte of a sector; saturates.
fn byte(lba: u64, block: BlockSize) -> ByteOffset {
    Lba::new(lba).to_bytes(block).unwrap_or(ByteOffset::new(u64::MAX))
}

/// The first sector of size `new` that starts at or after sector `lba` of size `old`.
fn convert_up(lba: u64, old: BlockSize, new: BlockSize) -> u64 {
    Lba::new(lba).to_bytes(old).map_or(u64::MAX, |at| at.get().div_ceil(new.get()))
}

/// Returns a partition in the new sectors.
fn converted(partition: &Partition, new: BlockSize) -> Result<Entry, PlanError> {
    let number = partition.number;
    let (start, end) = (partition.span.start(), partition.span.end());
    let exact = |what: &str, at: ByteOffset| {
        Lba::from_bytes_exact(at, new).ok_or_else(|| {
            cannot(format!("partition {number} {what} at byte {at}, which is not a multiple of {new}"))
        })
    };
    let (first, behind) = (exact("starts", start)?, exact("ends", end)?);
    let mut entry = kept(partition);
    (entry.start, entry.sectors) = (first, behind.checked_since(first).unwrap_or_default());
    Ok(entry)
}

fn no_room(number: u32, new: BlockSize) -> PlanError {
    cannot(format!("there is no free {new}-byte sector before logical partition {number} for its new record"))
}

/// The logical partitions and their container. The new records are written beside the old ones, so that the
/// single write of the MBR decides which chain counts. For this the container starts at least one sector
/// later.
struct Chain<'a> {
    stack: &'a Stack,
    extended: &'a Partition,
    new: BlockSize,
    /// Spans that a new record must not overlap.
    taken: Vec<Span>,
}

impl<'a> Chain<'a> {
    fn of(stack: &'a Stack, extended: &'a Partition, new: BlockSize) -> Self {
        let mut taken: Vec<Span> = Span::new(extended.span.start(), RECORD).into_iter().collect();
        for partition in &stack.partitions {
            if let Role::Logical { ebr } = partition.role {
                taken.push(partition.span);
                taken.extend(ebr.to_bytes(stack.block).and_then(|at| Span::new(at, RECORD)));
            }
        }
        Self { stack, extended, new, taken }
    }

    /// Whether a record can be placed at sector `lba`.
    fn is_free(&self, lba: Lba) -> bool {
        Span::of_blocks(lba, LbaCount::new(1), self.new)
            .is_some_and(|span| !self.taken.iter().any(|t| t.start() < span.end() && span.start() < t.end()))
    }

    fn take(&mut self, lba: Lba) {
        self.taken.extend(Span::of_blocks(lba, LbaCount::new(1), self.new));
    }

    /// Returns the container and the partitions in it.
    fn converted(mut self) -> Result<Vec<Entry>, PlanError> {
        let (number, span) = (self.extended.number, self.extended.span);
        // The container has no data of its own, so it may end with the last whole sector.
        let end = Lba::containing(span.end(), self.new);
        let first = span.start().get().div_ceil(self.new.get());
        let start = (first..first.saturating_add(PLACES)).map(Lba::new).find(|lba| self.is_free(*lba));
        let logical: Vec<&Partition> =
            self.stack.partitions.iter().filter(|p| matches!(p.role, Role::Logical { .. })).collect();
        let lowest = logical.iter().min_by_key(|p| p.span.start()).map_or(number, |p| p.number);
        let start = start.ok_or_else(|| no_room(lowest, self.new))?;
        let mut container = kept(self.extended);
        (container.start, container.sectors) = (start, end.checked_since(start).unwrap_or_default());
        self.take(start);
        let mut entries = vec![container];
        for (index, partition) in logical.into_iter().enumerate() {
            let mut entry = converted(partition, self.new)?;
            let lowest = entry.start.get().saturating_sub(PLACES).max(start.get() + 1);
            let place = if index == 0 {
                Some(start)
            } else {
                (lowest..entry.start.get()).rev().map(Lba::new).find(|lba| self.is_free(*lba))
            };
            let ebr =
                place.filter(|ebr| *ebr < entry.start).ok_or_else(|| no_room(partition.number, self.new))?;
            self.take(ebr);
            entry.slot = Slot::Logical { ebr };
            entries.push(entry);
        }
        Ok(entries)
    }
}

impl Plan {
    /// Reads the present table on `medium` in the sector size from which this plan starts.
    pub(crate) fn read_present(&self, medium: &dyn Medium) -> Result<Stack, PlanError> {
        let former = self.converts;
        Ok(straddle_layout::read_stack(medium, Some(former.unwrap_or(self.block())), former)?)
    }
}
