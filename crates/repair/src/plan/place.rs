//! Placing the partitions of a new table: one after the other, in the requested order.

use std::collections::BTreeSet;

use straddle_layout::types::{guid_text, mbr_text};
use straddle_layout::{Role, TableKind};
use straddle_units::{Boundary, ByteCount, ByteOffset, Lba, LbaCount, Span};

use super::{Draft, Entry, Format, Situation, Slot, Table};
use crate::error::PlanError;
use crate::kinds;
use crate::lost::unrecognised;
use crate::request::{Part, Place, Size};

/// Addressed by LBA, so that it can hold any logical partition.
const EXTENDED: u8 = 0x0F;
const FIRST_LOGICAL: u32 = 5;
const MOST_LOGICAL: u32 = 1023;

impl Draft<'_> {
    pub(super) fn new_table(&mut self, format: Format) -> Result<Table, PlanError> {
        let request = self.request;
        let contradiction = |why: &str| Err(PlanError::Contradiction(why.to_owned()));
        if !request.delete.is_empty() || !request.grow.is_empty() || request.repair || request.relocate_backup
        {
            return contradiction(
                "--table creates a new table, in which there is nothing to delete, grow or repair",
            );
        }
        self.spare_contents()?;
        check_percents(&request.parts)?;
        let mut table = self.empty_table(format)?;
        let block = self.block();
        let (first, end) = (table.first_usable.byte(block), table.usable_end().byte(block));
        let usable = Span::between(first, end).ok_or_else(|| self.too_small())?;
        let mut free_from = first;
        let mut extended: Option<ByteOffset> = None;
        let mut logical_ended = false;
        for (index, part) in request.parts.iter().enumerate() {
            self.check_part(part, format)?;
            if !part.logical && extended.is_some() {
                self.close_extended(&mut table, &mut extended, free_from)?;
                logical_ended = true;
            }
            let number = next_number(&table, part, extended.is_none() && part.logical, &[])?;
            let no_room =
                |at| PlanError::TooBig { number, needed: self.grain.end.size(), free: end.since(at) };
            let (mut from, mut slot) = (free_from, Slot::Primary);
            if part.logical {
                if logical_ended {
                    return contradiction(
                        "logical partitions must be consecutive, because there is only one extended \
                         partition",
                    );
                }
                let lead = self.lead_in(from).ok_or_else(|| no_room(from))?;
                extended = extended.or(Some(lead.start()));
                slot = Slot::Logical { ebr: Lba::containing(lead.start(), block) };
                from = lead.end();
            }
            let start = match part.start {
                Some(place) => self.checked_start(place, number)?,
                None => self.grain.start.ceil(from).ok_or_else(|| no_room(from))?,
            };
            if start < from {
                let other = if index == 0 { "the table itself" } else { "the partition before it" };
                let (start, other, end) = (start.get(), other.to_owned(), from.get());
                return Err(PlanError::Overlap { number, start, other, end });
            }
            let part_end = match part.size {
                Size::Rest => {
                    let room = self.room_before(&request.parts[index + 1..], usable)?;
                    room.map_or(start, |room| self.full_end(start, room))
                }
                // The record of a logical partition is taken from the partition's own share.
                Size::Percent(_) => {
                    let from = self.grain.start.ceil(free_from).unwrap_or(start).min(start);
                    self.end_of_size(part.size, from, self.shared(usable))
                }
                size => self.end_of_size(size, start, ByteCount::ZERO),
            };
            let span = match Span::between(start, part_end) {
                Some(span) if part_end > end => {
                    return Err(PlanError::TooBig { number, needed: span.len(), free: end.since(start) });
                }
                Some(span) if !span.is_empty() => span,
                _ => return Err(no_room(start)),
            };
            let why = self.why(part, start, from);
            free_from = part_end;
            table.partitions.push(self.entry(part, number, slot, span, format, why)?);
        }
        // Space after the last logical partition belongs to the container and stays free.
        self.close_extended(&mut table, &mut extended, end)?;
        table.partitions.sort_by_key(|entry| entry.number);
        Ok(table)
    }

    fn spare_contents(&self) -> Result<(), PlanError> {
        let Situation { medium, stack, .. } = *self.situation;
        let destroyed = match stack.kind {
            _ if self.request.wipe => None,
            TableKind::Content(content) => {
                Some(format!("holds {} directly, without a partition table", content.name()))
            }
            TableKind::Foreign(name) => {
                Some(format!("has a partition table of type {name}, which straddle cannot read"))
            }
            _ => unrecognised(medium, stack)?.map(|what| format!("holds {what}")),
        };
        destroyed.map_or(Ok(()), |what| Err(PlanError::WouldDestroy(what)))
    }

    pub(super) fn check_part(&self, part: &Part, format: Format) -> Result<(), PlanError> {
        if part.logical && format == Format::Gpt {
            return Err(PlanError::Contradiction(
                "a GPT has no logical partitions; omit role=logical".to_owned(),
            ));
        }
        if part.size == Size::Bytes(ByteCount::ZERO) || part.size == Size::Sectors(0) {
            return Err(PlanError::Empty(part.number.unwrap_or(0)));
        }
        Ok(())
    }

    /// The space for an extended boot record at or after `at`, up to the first aligned start after it. Spares
    /// the present records, which must stay readable until the new table is complete.
    pub(super) fn lead_in(&self, at: ByteOffset) -> Option<Span> {
        let block = self.block();
        let taken: BTreeSet<Lba> = (self.situation.stack.partitions.iter())
            .filter_map(|partition| match partition.role {
                Role::Logical { ebr } => Some(ebr),
                Role::Extended => Some(partition.start),
                Role::Primary => None,
            })
            .collect();
        let from = self.grain.start.ceil(at)?;
        let mut record = Lba::from_bytes_exact(from, block)?;
        while taken.contains(&record) {
            record = record.checked_add(LbaCount::new(1))?;
        }
        let start = record.to_bytes(block)?;
        Span::between(start, self.grain.start.ceil(start.checked_add(block.bytes())?)?)
    }

    fn close_extended(
        &mut self,
        table: &mut Table,
        extended: &mut Option<ByteOffset>,
        end: ByteOffset,
    ) -> Result<(), PlanError> {
        let Some(start) = extended.take() else { return Ok(()) };
        let number = next_primary(table, &[])?;
        let block = self.block();
        let (start, end) = (Lba::containing(start, block), Lba::containing(end, block));
        table.partitions.push(extended_entry(number, start, end.since(start), self.request.extended));
        Ok(())
    }

    pub(super) fn checked_start(&self, place: Place, number: u32) -> Result<ByteOffset, PlanError> {
        let block = self.block();
        let outside = |at: u64| PlanError::Outside { number, at, first: 0, end: self.situation.size().get() };
        let start = match place {
            Place::Byte(bytes) => ByteOffset::new(bytes.get()),
            Place::Sector(lba) => Lba::new(lba).to_bytes(block).ok_or_else(|| outside(u64::MAX))?,
        };
        if Lba::from_bytes_exact(start, block).is_none() {
            return Err(PlanError::NotASector { number, at: start.get(), sector: block.get() });
        }
        if start.get() >= self.situation.size().get() {
            return Err(outside(start.get()));
        }
        let grain = self.grain.start;
        let past = grain.past(start);
        if past != ByteCount::ZERO && !self.request.allow_misaligned {
            let boundaries: Vec<_> = self.grain.taken().map(|c| format!("{} {}", c.name, c.size)).collect();
            return Err(PlanError::Misaligned {
                number,
                start: start.get(),
                past: past.get(),
                boundaries: boundaries.join(", "),
                before: grain.floor(start).unwrap_or_default().get(),
                after: grain.ceil(start).unwrap_or_default().get(),
            });
        }
        Ok(start)
    }

    /// Percentages are of `shared`.
    pub(super) fn end_of_size(&self, size: Size, start: ByteOffset, shared: ByteCount) -> ByteOffset {
        let block = self.block();
        let far = ByteOffset::new(u64::MAX);
        let end = |len: ByteCount, boundary: Boundary| {
            start.checked_add(len).and_then(|end| boundary.ceil(end)).unwrap_or(far)
        };
        match size {
            Size::Bytes(len) => end(len, self.grain.end),
            Size::Sectors(count) => {
                LbaCount::new(count).to_bytes(block).and_then(|len| start.checked_add(len)).unwrap_or(far)
            }
            Size::Percent(percent) => {
                let len = u128::from(shared.get()) * u128::from(percent) / 100;
                let len = ByteCount::new(u64::try_from(len).unwrap_or(u64::MAX));
                start.checked_add(len).map_or(far, |limit| self.full_end(start, limit))
            }
            Size::Rest => far,
        }
    }

    /// On the grain, or on the boundary of ends if the grain would leave nothing.
    pub(super) fn full_end(&self, start: ByteOffset, limit: ByteOffset) -> ByteOffset {
        let on_grain = self.grain.start.floor(limit).filter(|end| *end > start);
        on_grain.or_else(|| self.grain.end.floor(limit)).unwrap_or(start)
    }

    /// The base of percentages: all usable space between its first and its last boundary.
    pub(super) fn shared(&self, usable: Span) -> ByteCount {
        let (first, last) = (self.grain.start.ceil(usable.start()), self.grain.start.floor(usable.end()));
        first.zip(last).map(|(first, last)| last.since(first)).unwrap_or_default()
    }

    /// Up to where a partition of the rest may reach, so that the `following` ones still fit.
    pub(super) fn room_before(
        &self,
        following: &[Part],
        usable: Span,
    ) -> Result<Option<ByteOffset>, PlanError> {
        let stop = following.iter().position(|part| part.start.is_some()).unwrap_or(following.len());
        let end = match following.get(stop).and_then(|part| part.start) {
            Some(place) => self.checked_start(place, 0)?,
            None => usable.end(),
        };
        let mut at = self.grain.start.floor(end);
        for part in &following[..stop] {
            let origin = ByteOffset::new(self.grain.start.phase().get());
            let end_of = self.end_of_size(part.size, origin, self.shared(usable));
            let whole = self.grain.start.ceil(end_of).and_then(|end| end.checked_since(origin));
            let pays_itself = !part.logical || matches!(part.size, Size::Percent(_));
            let lead = if pays_itself { ByteCount::ZERO } else { self.grain.start.size() };
            let needed = whole.and_then(|whole| whole.checked_add(lead));
            at = at.zip(needed).and_then(|(at, needed)| at.checked_back(needed));
        }
        Ok(at)
    }

    pub(super) fn why(&self, part: &Part, start: ByteOffset, free_from: ByteOffset) -> Vec<String> {
        let lba = Lba::containing(start, self.block());
        let grain = self.grain.start;
        if part.start.is_some() {
            let mut why = vec![format!("byte {start} (LBA {lba}) was requested")];
            if !grain.is_aligned(start) {
                let past = grain.past(start).get();
                why.push(format!("the start is {past} bytes past a boundary, as --allow-misaligned permits"));
            }
            return why;
        }
        let size = grain.size();
        let phase = match grain.phase().get() {
            0 => String::new(),
            phase => format!(", relative to byte {phase}"),
        };
        vec![format!(
            "byte {start} (LBA {lba}) is the first multiple of {size}{phase} at or after byte {free_from}, \
            where unallocated space begins"
        )]
    }

    pub(super) fn entry(
        &mut self,
        part: &Part,
        number: u32,
        slot: Slot,
        span: Span,
        format: Format,
        mut why: Vec<String>,
    ) -> Result<Entry, PlanError> {
        let block = self.block();
        let named = part.kind.as_deref();
        let kind =
            named.unwrap_or_else(|| kinds::of_file_system(part.fs.as_deref().unwrap_or_default(), format));
        if let Size::Bytes(asked) = part.size
            && let Some(more) = span.len().checked_sub(asked).filter(|more| *more != ByteCount::ZERO)
        {
            why.push(format!(
                "it is {} bytes larger than requested, so that it ends on a {} boundary",
                more.get(),
                self.grain.end.size()
            ));
        }
        let drawn = self.identities.guid();
        let uuid = match format {
            Format::Gpt => Some(part.uuid.clone().unwrap_or_else(|| guid_text(drawn))),
            Format::Mbr => part.uuid.clone(),
        };
        let (start, sectors) = (Lba::containing(span.start(), block), block.blocks_floor(span.len()));
        Ok(Entry {
            uuid,
            name: part.name.clone(),
            attributes: part.attributes,
            bootable: part.bootable,
            fs: part.fs.clone(),
            why,
            ..Entry::new(number, start, sectors, slot, kinds::resolve(kind, format)?)
        })
    }
}

pub(super) fn extended_entry(number: u32, start: Lba, sectors: LbaCount, kind: Option<u8>) -> Entry {
    let kind = mbr_text(kind.unwrap_or(EXTENDED));
    let why =
        "the extended partition holds only one-sector records, so its alignment does not matter".to_owned();
    Entry { why: vec![why], ..Entry::new(number, start, sectors, Slot::Extended, kind) }
}

pub(super) fn check_percents(parts: &[Part]) -> Result<(), PlanError> {
    if parts.iter().filter(|part| part.size == Size::Rest).count() > 1 {
        return Err(PlanError::Contradiction("only one partition can be 'rest'".to_owned()));
    }
    let percent = |part: &Part| if let Size::Percent(percent) = part.size { u64::from(percent) } else { 0 };
    match parts.iter().map(percent).sum::<u64>() {
        0..=100 => Ok(()),
        sum => Err(PlanError::Contradiction(format!(
            "the percentages add up to {sum} %, which is more than 100 %"
        ))),
    }
}

pub(super) fn next_number(
    table: &Table,
    part: &Part,
    opens_extended: bool,
    taken: &[u32],
) -> Result<u32, PlanError> {
    match part.number {
        Some(number) if table.entry(number).is_some() => {
            return Err(PlanError::Contradiction(format!("partition {number} already exists")));
        }
        Some(number) if taken.contains(&number) => {
            let why = format!("entry {number} of the table is in use, but lists no partition");
            return Err(PlanError::Contradiction(why));
        }
        Some(number) => return Ok(number),
        None => {}
    }
    let (mut numbers, limit) = match (table.format, part.logical) {
        (Format::Gpt, _) => (1..=table.entries, table.entries),
        (Format::Mbr, false) => return next_primary(table, taken),
        (Format::Mbr, true) => (FIRST_LOGICAL..=MOST_LOGICAL, MOST_LOGICAL + 1),
    };
    if opens_extended {
        next_primary(table, taken)?;
    }
    numbers.find(|number| is_free(table, taken, *number)).ok_or(PlanError::TableFull(limit))
}

pub(super) fn next_primary(table: &Table, taken: &[u32]) -> Result<u32, PlanError> {
    (1..FIRST_LOGICAL).find(|number| is_free(table, taken, *number)).ok_or(PlanError::TooManyPrimaries)
}

fn is_free(table: &Table, taken: &[u32], number: u32) -> bool {
    table.entry(number).is_none() && !taken.contains(&number)
}
