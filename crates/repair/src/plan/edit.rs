//! Changes to the present table: what a request does not name is kept bit for bit.

use straddle_layout::types::guid_text;
use straddle_layout::{Damage, Problem, TableKind, taken};
use straddle_units::{ByteCount, ByteOffset, Lba, LbaCount, Span};

use super::place::{check_percents, extended_entry, next_number, next_primary};
use super::{Change, Draft, Entry, Format, Slot, Table, kept, mbr_id, no_table, span_of};
use crate::encode::CurrentGpt;
use crate::error::PlanError;
use crate::request::{Grow, Part, Size};

/// A partition that grows, and the new ones that need room after it.
type Growth<'a> = (Grow, &'a [Part]);

impl Draft<'_> {
    pub(super) fn changed_table(&mut self) -> Result<Table, PlanError> {
        let request = self.request;
        let rewrites = request.repair || request.relocate_backup;
        if request.parts.is_empty() && request.delete.is_empty() && request.grow.is_empty() && !rewrites {
            return Err(PlanError::Nothing);
        }
        if request.disk_id.is_some() {
            return Err(PlanError::Contradiction(
                "the disk identifier can be set only in a new table; use --table".to_owned(),
            ));
        }
        check_percents(&request.parts)?;
        let mut table = self.present_table()?;
        if rewrites && table.format == Format::Mbr {
            return Err(PlanError::Contradiction(
                "an MBR has no second copy that could be repaired or moved".to_owned(),
            ));
        }
        for number in &request.delete {
            delete(&mut table, *number)?;
        }
        let hint = self.behind_backup(&table, table.usable_end().byte(self.block()))?;
        let mut table = self.grown_and_added(table).map_err(|error| match (error, hint) {
            (PlanError::TooBig { number, needed, free }, Some(hint)) => {
                PlanError::BackupInTheWay { number, needed, free, hint }
            }
            (error, _) => error,
        })?;
        table.partitions.sort_by_key(|entry| entry.number);
        Ok(table)
    }

    /// A partition that grows as far as possible leaves room for new ones that fit nowhere else.
    fn grown_and_added(&mut self, table: Table) -> Result<Table, PlanError> {
        let request = self.request;
        let (identities, notes) = (self.identities.clone(), self.notes.clone());
        let full: Vec<Growth<'_>> = request.grow.iter().map(|grow| (*grow, &[][..])).collect();
        let (first, homeless) = match self.attempt(table.clone(), &full) {
            Ok(table) => return Ok(table),
            Err(failed) => failed,
        };
        let mut open = (0..full.len()).filter(|index| full[*index].0.size.is_none()).peekable();
        if homeless.is_empty() || open.peek().is_none() {
            return Err(first);
        }
        for index in open {
            let mut leaving = full.clone();
            leaving[index].1 = &homeless;
            (self.identities, self.notes) = (identities.clone(), notes.clone());
            if let Ok(table) = self.attempt(table.clone(), &leaving) {
                return Ok(table);
            }
        }
        // The error reports what is free before these take all of it.
        let sized: Vec<Growth<'_>> = full.into_iter().filter(|(grow, _)| grow.size.is_some()).collect();
        Err(self.attempt(table, &sized).err().map_or(first, |(error, _)| error))
    }

    /// If that fails, also returns the new partitions that do not fit.
    fn attempt(&mut self, mut table: Table, grown: &[Growth<'_>]) -> Result<Table, (PlanError, Vec<Part>)> {
        let request = self.request;
        for (grow, behind) in grown {
            self.grow(&mut table, *grow, behind).map_err(|error| (error, Vec::new()))?;
        }
        self.renumber(&mut table);
        let (mut first, mut homeless) = (None, Vec::new());
        for part in &request.parts {
            match self.add(&mut table, part) {
                Ok(()) => {}
                Err(error @ PlanError::TooBig { .. }) => {
                    first.get_or_insert(error);
                    homeless.push(part.clone());
                }
                Err(error) => return Err((first.unwrap_or(error), Vec::new())),
            }
        }
        first.map_or(Ok(table), |error| Err((error, homeless)))
    }

    pub(super) fn present_table(&mut self) -> Result<Table, PlanError> {
        let stack = self.situation.stack;
        let unchangeable = |why: String| Err(PlanError::Unchangeable(why));
        let format = match &stack.kind {
            TableKind::Gpt | TableKind::HybridMbr => Format::Gpt,
            TableKind::Mbr => Format::Mbr,
            kind => return Err(no_table(kind)),
        };
        if let Some(number) = stack.dynamic() {
            return unchangeable(format!(
                "partition {number} is part of a Windows dynamic disk, whose database records the positions \
                 of all volumes"
            ));
        }
        if stack.block != self.block() {
            return unchangeable(format!(
                "the table uses {}-byte sectors, but the disk has {}-byte ones (--convert-table)",
                stack.block,
                self.block()
            ));
        }
        for problem in &stack.problems {
            match (problem.damage(), problem) {
                (Damage::End, _) if self.request.relocate_backup => {}
                // The MBR is what counts, and the GPT beside it stays.
                (Damage::Protection, _) if format == Format::Mbr => {
                    self.notes.push(
                        "the intact GPT beside this MBR is kept, so sgdisk will ask which table to use"
                            .to_owned(),
                    );
                }
                (Damage::Protection, _) if self.request.repair => {}
                (Damage::Copies, _) => self.notes.push(format!("{problem}; this plan writes both copies")),
                (Damage::Hybrid, _) => {
                    self.notes.push(format!("{problem}; this plan does not change the entry"));
                }
                (Damage::Table, problem) if stack.is_of_window(problem) => {}
                // No entry depends on the contents of a partition.
                (Damage::Contents, Problem::Unreadable { .. }) => {}
                // It grows, at least to what its contents need.
                (_, Problem::CutShort { number: Some(number), .. }) if self.request.grows(*number) => {}
                (
                    Damage::Protection | Damage::End | Damage::Sectors | Damage::Contents | Damage::Table,
                    _,
                ) => return unchangeable(problem.to_string()),
            }
        }
        let partitions = stack.partitions.iter().filter(|one| !stack.is_window(one)).map(kept).collect();
        let (id, (first_usable, last_usable), entries) = match format {
            Format::Gpt => {
                let current = CurrentGpt::read(self.situation.medium, stack)?;
                let last_usable = match self.request.relocate_backup {
                    true => self.last_of_gpt(current.array_blocks())?,
                    false => current.last_usable(),
                };
                (guid_text(current.disk_guid()), (current.first_usable(), last_usable), current.entries())
            }
            Format::Mbr => (mbr_id(stack), self.usable_of_mbr(), 0),
        };
        let (first_usable, last_usable) = (Lba::new(first_usable), Lba::new(last_usable));
        Ok(Table { format, id, first_usable, last_usable, entries, partitions })
    }

    /// Without a size, it leaves room for `behind`.
    fn grow(&mut self, table: &mut Table, grow: Grow, behind: &[Part]) -> Result<(), PlanError> {
        let Grow { number, size } = grow;
        let block = self.block();
        let index = table.partitions.iter().position(|entry| entry.number == number);
        let index = index.ok_or(PlanError::NoSuchPartition(number))?;
        let entry = &table.partitions[index];
        let cannot = |why: String| PlanError::CannotGrow { number, why };
        let span = span_of(entry, block).ok_or_else(|| cannot("its end is beyond byte 2^64".to_owned()))?;
        let space = self.space_of(table, entry.slot);
        let obstacles = self.obstacles(table, entry.slot);
        let begins = obstacles.iter().filter(|o| o.end() > span.end()).map(|o| o.start().max(span.end()));
        let limit = begins.chain([space.end()]).min().unwrap_or_default();
        let end = match size {
            Some(size) => {
                let end = self.end_of_size(Size::Bytes(size), span.start(), ByteCount::ZERO);
                if end > limit {
                    let (free, needed) = (limit.since(span.start()), end.since(span.start()));
                    return Err(match self.behind_backup(table, limit)? {
                        Some(hint) => cannot(format!("{needed} are needed, but only {free} are free{hint}")),
                        None => PlanError::TooBig { number, needed, free },
                    });
                }
                end
            }
            None => {
                let room = Span::between(space.start(), limit).filter(|_| !behind.is_empty());
                let room = room.map(|room| self.room_before(behind, room)).transpose()?.flatten();
                self.full_end(span.start(), room.unwrap_or(limit))
            }
        };
        if end <= span.end() {
            let free = limit.since(span.end());
            let hint = self.behind_backup(table, limit)?.unwrap_or_default();
            return Err(cannot(match size {
                Some(size) => {
                    format!(
                        "the partition already has {} bytes, and {} are requested",
                        span.len().get(),
                        size.get()
                    )
                }
                None if free == ByteCount::ZERO => {
                    format!("there is no unallocated space after the partition{hint}")
                }
                None => {
                    format!("there is no boundary in the {} free bytes after the partition{hint}", free.get())
                }
            }));
        }
        let entry = &mut table.partitions[index];
        let got = end.since(span.start());
        if let Some(recorded) = self.situation.stack.needed(number).filter(|recorded| got < *recorded) {
            return Err(cannot(format!(
                "the contents record a size of {} bytes, but the partition would have only {}",
                recorded.get(),
                got.get()
            )));
        }
        entry.change = Change::Grown { from: entry.sectors };
        entry.sectors = Lba::containing(end, block).since(entry.start);
        let leaves = if behind.is_empty() { "" } else { ", which leaves room for the added partitions" };
        entry.why.push(format!("the partition keeps its start and ends at byte {end}{leaves}"));
        Ok(())
    }

    fn behind_backup(&self, table: &Table, limit: ByteOffset) -> Result<Option<String>, PlanError> {
        let block = self.block();
        if table.format == Format::Mbr
            || self.request.relocate_backup
            || table.usable_end().to_bytes(block) != Some(limit)
        {
            return Ok(None);
        }
        let array = CurrentGpt::read(self.situation.medium, self.situation.stack)?.array_blocks();
        let last = Lba::new(self.situation.blocks().saturating_sub(array + 2));
        let more = last.since(table.last_usable).to_bytes(block).filter(|more| *more != ByteCount::ZERO);
        Ok(more.map(|more| {
            format!(
                "; the backup GPT is in the way, and --relocate-backup would move it to the end of the disk, \
                 which makes another {more} usable"
            )
        }))
    }

    /// Gives logical partitions the numbers of the kernel, along the chain.
    fn renumber(&mut self, table: &mut Table) {
        let mut logical: Vec<&mut Entry> = table.partitions.iter_mut().filter(|e| e.is_logical()).collect();
        logical.sort_by_key(|entry| entry.number);
        for (entry, number) in logical.into_iter().zip(5..) {
            if entry.number != number {
                self.notes.push(format!("logical partition {} becomes number {number}", entry.number));
                entry.number = number;
            }
        }
    }

    fn add(&mut self, table: &mut Table, part: &Part) -> Result<(), PlanError> {
        self.check_part(part, table.format)?;
        if part.logical && table.extended().is_none() {
            self.add_extended(table)?;
        }
        let number = next_number(table, part, false, &self.slots)?;
        let slot = if part.logical { Slot::Logical { ebr: Lba::default() } } else { Slot::Primary };
        let space = self.space_of(table, slot);
        let gaps = space.gaps(self.obstacles(table, slot));
        let largest = gaps.iter().map(|gap| gap.len()).max().unwrap_or_default();
        let shared = self.shared(space);
        let mut best: Option<(Span, Span, Option<Lba>)> = None;
        for gap in gaps {
            let Some((span, ebr)) = self.in_gap(table, part, number, gap, shared)? else { continue };
            if best.is_none_or(|(other, ..)| part.size == Size::Rest && span.len() > other.len()) {
                best = Some((span, gap, ebr));
            }
        }
        let Some((span, gap, ebr)) = best else {
            return Err(match self.misplacement(table, part, number, space)? {
                Some(error) => error,
                None => PlanError::TooBig { number, needed: self.needed(part, shared), free: largest },
            });
        };
        let why = self.why(part, span.start(), gap.start());
        let slot = ebr.map_or(Slot::Primary, |ebr| Slot::Logical { ebr });
        let entry = self.entry(part, number, slot, span, table.format, why)?;
        table.partitions.push(entry);
        Ok(())
    }

    fn misplacement(
        &self,
        table: &Table,
        part: &Part,
        number: u32,
        space: Span,
    ) -> Result<Option<PlanError>, PlanError> {
        let Some(place) = part.start else { return Ok(None) };
        let at = self.checked_start(place, number)?;
        let is_in = |span: Span| span.start() <= at && at < span.end();
        let placed = table.partitions.iter().filter_map(|e| Some((e.number, span_of(e, self.block())?)));
        if let Some((other, span)) = placed.into_iter().find(|(_, span)| is_in(*span)) {
            let (other, end) = (format!("partition {other}"), span.end().get());
            return Ok(Some(PlanError::Overlap { number, start: at.get(), other, end }));
        }
        let (first, end) = (space.start().get(), space.end().get());
        Ok((!is_in(space)).then_some(PlanError::Outside { number, at: at.get(), first, end }))
    }

    fn needed(&self, part: &Part, shared: ByteCount) -> ByteCount {
        let origin = ByteOffset::new(self.grain.start.phase().get());
        match part.size {
            Size::Rest => self.grain.end.size(),
            size => self.end_of_size(size, origin, shared).since(origin),
        }
    }

    fn in_gap(
        &self,
        table: &Table,
        part: &Part,
        number: u32,
        gap: Span,
        shared: ByteCount,
    ) -> Result<Option<(Span, Option<Lba>)>, PlanError> {
        let mut from = gap.start();
        let mut ebr = None;
        if part.logical {
            let Some((record, end)) = self.record(table, gap.start()) else { return Ok(None) };
            (ebr, from) = (Some(record), end);
        }
        let start = match part.start {
            Some(place) => Some(self.checked_start(place, number)?).filter(|start| *start >= from),
            None => self.grain.start.ceil(from),
        };
        let Some(start) = start.filter(|start| *start < gap.end()) else { return Ok(None) };
        let end = match part.size {
            Size::Rest => self.full_end(start, gap.end()),
            size => self.end_of_size(size, start, shared),
        };
        let span = Span::between(start, end).filter(|span| !span.is_empty() && end <= gap.end());
        Ok(span.map(|span| (span, ebr)))
    }

    /// The sector of a new extended boot record in a gap from `at` on, and the first byte after it. The first
    /// record is always at the container's start, and is used if it is free.
    fn record(&self, table: &Table, at: ByteOffset) -> Option<(Lba, ByteOffset)> {
        let block = self.block();
        let extended = table.extended()?;
        if table.logical().is_empty() {
            let end = extended.start.saturating_add(LbaCount::new(1)).byte(block);
            return Some((extended.start, end.max(at)));
        }
        let lead = self.lead_in(at)?;
        Some((Lba::containing(lead.start(), block), lead.end()))
    }

    fn add_extended(&mut self, table: &mut Table) -> Result<(), PlanError> {
        let number = next_primary(table, &self.slots)?;
        let block = self.block();
        let space = self.space_of(table, Slot::Extended);
        let gap = space.gaps(self.obstacles(table, Slot::Extended)).into_iter().max_by_key(|gap| gap.len());
        let usable = gap.and_then(|gap| {
            let start = self.grain.start.ceil(gap.start())?;
            Span::between(start, gap.end())
        });
        let span = usable.filter(|span| span.len() > block.bytes()).ok_or(PlanError::TooBig {
            number,
            needed: self.grain.start.size(),
            free: gap.map_or(ByteCount::ZERO, Span::len),
        })?;
        let start = Lba::containing(span.start(), block);
        let sectors = block.blocks_floor(span.len());
        table.partitions.push(extended_entry(number, start, sectors, self.request.extended));
        Ok(())
    }

    fn obstacles(&self, table: &Table, slot: Slot) -> Vec<Span> {
        let block = self.block();
        let listed = table.partitions.iter().filter_map(|e| Some((span_of(e, block)?, e.slot.into())));
        let mut spans = taken(listed, matches!(slot, Slot::Logical { .. }), block);
        spans.extend(self.optical);
        spans
    }

    fn space_of(&self, table: &Table, slot: Slot) -> Span {
        let (first, end) = match (slot, table.extended()) {
            (Slot::Logical { .. }, Some(extended)) => (extended.start, extended.end()),
            _ => (table.first_usable, table.usable_end()),
        };
        let block = self.block();
        Span::between(first.byte(block), end.byte(block)).unwrap_or(Span::first(ByteCount::ZERO))
    }
}

/// Removing an extended partition also removes the logical ones in it.
fn delete(table: &mut Table, number: u32) -> Result<(), PlanError> {
    let index = table.partitions.iter().position(|entry| entry.number == number);
    let removed = table.partitions.remove(index.ok_or(PlanError::NoSuchPartition(number))?);
    if removed.slot == Slot::Extended {
        table.partitions.retain(|entry| !entry.is_logical());
    }
    // The first record is always at the container's start. As with fdisk, it takes over the next partition.
    if let Slot::Logical { ebr } = removed.slot
        && table.extended().is_some_and(|extended| extended.start == ebr)
        && let Some(next) = table.partitions.iter_mut().filter(|e| e.is_logical()).min_by_key(|e| e.number)
    {
        next.slot = Slot::Logical { ebr };
    }
    Ok(())
}
