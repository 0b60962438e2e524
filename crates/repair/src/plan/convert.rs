//! Converting a table that counts in the other logical sector size to the disk's own: every partition keeps
//! its bytes, and nothing in it may depend on the old sectors ([`crate::contents`]).

use straddle_device::Medium;
use straddle_layout::format::{gpt, mbr};
use straddle_layout::{Damage, Partition, Role, Stack, TableKind, types};
use straddle_units::{BlockSize, ByteCount, ByteOffset, Lba, LbaCount, Span};

use super::{Draft, Entry, Format, Plan, Slot, Table, kept, mbr_id, no_table};
use crate::contents;
use crate::encode::CurrentGpt;
use crate::error::PlanError;
use crate::kinds;

/// Bytes of its sector that a boot record fills.
const RECORD: ByteCount = ByteCount::new(512);
/// Sectors before a partition that are tried for its record.
const PLACES: u64 = 16;

fn cannot(why: String) -> PlanError {
    PlanError::CannotConvert(why)
}

impl Draft<'_> {
    pub(super) fn converted_table(&mut self) -> Result<Table, PlanError> {
        let request = self.request;
        let changes = !request.parts.is_empty() || !request.delete.is_empty() || !request.grow.is_empty();
        if changes || request.table.is_some() || request.repair || request.relocate_backup || request.wipe {
            return Err(PlanError::Contradiction(
                "a conversion cannot be combined with other changes; plan those afterwards".to_owned(),
            ));
        }
        let (stack, block) = (self.situation.stack, self.block());
        check_sizes(stack, block)?;
        self.check_problems(stack)?;
        let notes = contents::check(self.situation.medium, stack, block);
        let table = match stack.kind {
            TableKind::Gpt => self.converted_gpt(stack),
            TableKind::Mbr => self.converted_mbr(stack),
            TableKind::HybridMbr => {
                Err(cannot("the MBR also lists partitions (a hybrid MBR); first remove them".to_owned()))
            }
            _ => Err(no_table(&stack.kind)),
        };
        match (table, notes) {
            (Err(PlanError::CannotConvert(one)), Err(PlanError::CannotConvert(other))) => {
                Err(cannot(format!("{one}; in addition, {other}")))
            }
            (Ok(table), Ok(notes)) => {
                self.notes.extend(notes);
                Ok(table)
            }
            (Err(error), _) | (_, Err(error)) => Err(error),
        }
    }

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
        let bytes = u64::from(current.entries()) * current.entry_size().max(u64::from(gpt::ENTRY_BYTES));
        let (array, old_array) = (bytes.div_ceil(new.get()), bytes.div_ceil(old.get()));
        let first_usable =
            Lba::new(current.first_usable()).byte(old).get().div_ceil(new.get()).max(array + 2);
        let last_free = self.last_of_gpt(array)?;
        let old_end = Lba::new(current.last_usable().saturating_add(1)).byte(old);
        // If the old table left no free space before its backup, neither does the new one.
        let old_free = old.blocks_floor(self.situation.size()).get().saturating_sub(old_array + 2);
        let last_usable = if current.last_usable() == old_free {
            last_free
        } else {
            Lba::containing(old_end, new).get().saturating_sub(1).min(last_free)
        };
        if last_usable <= first_usable {
            return Err(self.too_small());
        }
        let (first_usable, last_usable) = (Lba::new(first_usable), Lba::new(last_usable));
        let end = last_usable.saturating_add(LbaCount::new(1));
        let mut partitions = Vec::new();
        for partition in &stack.partitions {
            let (number, span) = (partition.number, partition.span);
            let entry = converted(partition, new)?;
            if entry.start < first_usable {
                return Err(cannot(format!(
                    "partition {number} starts at byte {}, but with {new}-byte sectors the table extends to \
                     byte {}",
                    span.start(),
                    first_usable.byte(new)
                )));
            }
            if entry.end() > end {
                return Err(cannot(format!(
                    "partition {number} ends at byte {}, but with {new}-byte sectors the space for \
                     partitions ends at byte {}, where the backup of the table starts",
                    span.end(),
                    end.byte(new)
                )));
            }
            partitions.push(entry);
        }
        let id = types::guid_text(current.disk_guid());
        let entries = current.entries();
        Ok(Table { format: Format::Gpt, id, first_usable, last_usable, entries, partitions })
    }

    fn converted_mbr(&self, stack: &Stack) -> Result<Table, PlanError> {
        let new = self.block();
        let mut partitions = Vec::new();
        for partition in stack.partitions.iter().filter(|p| p.role == Role::Primary) {
            partitions.push(converted(partition, new)?);
        }
        if let Some(extended) = stack.partitions.iter().find(|p| p.role == Role::Extended) {
            partitions.extend(converted_chain(stack, extended, new)?);
        }
        partitions.sort_by_key(|entry| entry.number);
        if let Some(far) =
            partitions.iter().find(|e| e.start.get() >= mbr::LBAS || e.sectors.get() >= mbr::LBAS)
        {
            let reach = ByteCount::new(mbr::LBAS.saturating_mul(new.get()));
            return Err(cannot(format!(
                "partition {} starts beyond the {reach} that an MBR can address in {new}-byte sectors, or is \
                 larger than that{}",
                far.number,
                as_gpt(&partitions)
            )));
        }
        // A partition that begins in the first 63 sectors still does so.
        let first = partitions.iter().map(|entry| entry.start.get()).min().unwrap_or(u64::MAX);
        let (first_usable, last_usable) = self.usable_of_mbr();
        let (first_usable, last_usable) = (Lba::new(first_usable.min(first).max(1)), Lba::new(last_usable));
        let (format, id) = (Format::Mbr, mbr_id(stack));
        Ok(Table { format, id, first_usable, last_usable, entries: 0, partitions })
    }
}

/// Hints at a GPT with these partitions at the same bytes; with its options, if none is logical.
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
    format!(
        "; a GPT can list the partition at the same position: straddle plan DISK --table gpt \
         --allow-misaligned{parts}"
    )
}

fn check_sizes(stack: &Stack, new: BlockSize) -> Result<(), PlanError> {
    let old = stack.block;
    if old == new {
        let other = if new == BlockSize::B512 { BlockSize::B4096 } else { BlockSize::B512 };
        return Err(cannot(format!(
            "the table already seems to use {new}-byte sectors; if it does not, use --logical {other}"
        )));
    }
    for size in [old, new] {
        if size != BlockSize::B512 && size != BlockSize::B4096 {
            return Err(cannot(format!(
                "only a table in 512-byte or 4096-byte sectors can be converted, not one in {size}-byte \
                 sectors"
            )));
        }
    }
    Ok(())
}

fn converted(partition: &Partition, new: BlockSize) -> Result<Entry, PlanError> {
    let number = partition.number;
    let (start, end) = (partition.span.start(), partition.span.end());
    let exact = |what: &str, at: ByteOffset| {
        Lba::from_bytes_exact(at, new).ok_or_else(|| {
            cannot(format!("partition {number} {what} at byte {at}, which is not a multiple of {new} bytes"))
        })
    };
    let (first, end) = (exact("starts", start)?, exact("ends", end)?);
    Ok(Entry { start: first, sectors: end.since(first), ..kept(partition) })
}

fn no_room(number: u32, new: BlockSize) -> PlanError {
    cannot(format!(
        "there is no free {new}-byte sector for the new record of logical partition {number} before that \
         partition"
    ))
}

/// The logical partitions and their container. New records are beside the old ones, so that the write of the
/// MBR decides which chain counts. For this the container starts at least one sector later.
fn converted_chain(stack: &Stack, extended: &Partition, new: BlockSize) -> Result<Vec<Entry>, PlanError> {
    let logical: Vec<(&Partition, Lba)> = (stack.partitions.iter())
        .filter_map(|partition| match partition.role {
            Role::Logical { ebr } => Some((partition, ebr)),
            _ => None,
        })
        .collect();
    let mut taken: Vec<Span> = Span::new(extended.span.start(), RECORD).into_iter().collect();
    for (partition, ebr) in &logical {
        taken.push(partition.span);
        taken.extend(ebr.to_bytes(stack.block).and_then(|at| Span::new(at, RECORD)));
    }
    let sector = |lba: Lba| Span::of_blocks(lba, LbaCount::new(1), new);
    let is_free = |taken: &[Span], lba: Lba| {
        let overlaps = |span: Span| taken.iter().any(|t| t.start() < span.end() && span.start() < t.end());
        sector(lba).is_some_and(|span| !overlaps(span))
    };
    let first = extended.span.start().get().div_ceil(new.get());
    let start = (first..first.saturating_add(PLACES)).map(Lba::new).find(|lba| is_free(&taken, *lba));
    let lowest = logical.iter().map(|(partition, _)| partition).min_by_key(|p| p.span.start());
    let start = start.ok_or_else(|| no_room(lowest.map_or(extended.number, |p| p.number), new))?;
    taken.extend(sector(start));
    // The container has no data of its own, so it may end with the last whole sector.
    let sectors = Lba::containing(extended.span.end(), new).since(start);
    let mut entries = vec![Entry { start, sectors, ..kept(extended) }];
    for (index, (partition, _)) in logical.into_iter().enumerate() {
        let entry = converted(partition, new)?;
        let lowest = entry.start.get().saturating_sub(PLACES).max(start.get() + 1);
        let place = if index == 0 {
            Some(start)
        } else {
            (lowest..entry.start.get()).rev().map(Lba::new).find(|lba| is_free(&taken, *lba))
        };
        let ebr = place.filter(|ebr| *ebr < entry.start).ok_or_else(|| no_room(partition.number, new))?;
        taken.extend(sector(ebr));
        entries.push(Entry { slot: Slot::Logical { ebr }, ..entry });
    }
    Ok(entries)
}

impl Plan {
    /// Reads the present table in the sector size from which this plan starts.
    pub(crate) fn read_present(&self, medium: &dyn Medium) -> Result<Stack, PlanError> {
        let former = self.converts;
        Ok(straddle_layout::read_stack(medium, Some(former.unwrap_or(self.block())), former)?)
    }
}
