//! Placing the partitions of a new table: one after the other, in the requested order.

use std::collections::BTreeSet;

use straddle_layout::{Role, TableKind};
use straddle_units::{Boundary, ByteCount, ByteOffset, Lba, LbaCount, Span};

use super::{Draft, Entry, Format, Slot, Table};
use crate::error::PlanError;
use crate::kinds;
use crate::lost::unrecognised;
use crate::request::{Part, Place, Size};

/// The type of an extended partition that is addressed by LBA and can hold any logical partition.
const EXTENDED: u8 = 0x0F;
/// The first number of a logical partition.
const FIRST_LOGICAL: u32 = 5;

/// The position in the free space of a new table, while partitions are placed.
struct Cursor {
    /// The first usable byte.
    first: ByteOffset,
    /// The first free byte.
    at: ByteOffset,
    /// The byte just past the usable space.
    end: ByteOffset,
}

impl Draft<'_> {
    /// Returns a new table with the requested partitions.
    pub(super) fn new_table(&mut self, format: Format) -> Result<Table, PlanError> {
        let request = self.request;
        if !request.delete.is_empty() || !request.grow.is_empty() || request.repair || request.relocate_backup
        {
            return Err(PlanError::Contradiction(
                "--table creates a new table, which has nothing to delete, grow or repair".to_owned(),
            ));
        }
        match self.situation.stack.kind {
            TableKind::Content(content) if !request.wipe => {
                return Err(PlanError::WouldDestroy(format!("is {} as a whole", content.name())));
            }
            TableKind::Foreign(name) if !request.wipe => {
                let why = format!("has a partition table of type {name}, which straddle does not read");
                return Err(PlanError::WouldDestroy(why));
            }
            _ => {}
        }
        let situation = self.situation;
        if let Some(what) = unrecognised(situation.medium, situation.stack)?
            && !request.wipe
        {
            return Err(PlanError::WouldDestroy(format!("holds {what}")));
        }
        check_percents(&request.parts)?;
        let mut table = self.empty_table(format)?;
        let block = self.block();
        let byte = |lba: Lba| lba.to_bytes(block).unwrap_or(ByteOffset::new(u64::MAX));
        let first = byte(table.first_usable);
        let mut cursor = Cursor { first, at: first, end: byte(table.usable_end()) };
        let mut extended: Option<ByteOffset> = None;
        let mut logical_ended = false;
        for (index, part) in request.parts.iter().enumerate() {
            self.check_part(part, format)?;
            if !part.logical && extended.is_some() {
                self.close_extended(&mut table, &mut extended, cursor.at)?;
                logical_ended = true;
            }
            let number = next_number(&table, part, extended.is_none() && part.logical, &[])?;
            let free_from = cursor.at;
            let mut ebr = None;
            if part.logical {
                if logical_ended {
                    return Err(PlanError::Contradiction(
                        "logical partitions must be consecutive, because there is only one extended \
                         partition"
                            .to_owned(),
                    ));
                }
                let lead = self.lead_in(cursor.at).ok_or_else(|| self.no_room(number, &cursor))?;
                extended = extended.or(Some(lead.start()));
                ebr = Some(Lba::containing(lead.start(), block));
                cursor.at = lead.end();
            }
            let start = self.start_of(part, number, index, &cursor)?;
            let span = self.span_of(part, number, index, start, free_from, &cursor)?;
            let why = self.why(part, start, cursor.at);
            cursor.at = span.end();
            let slot = ebr.map_or(Slot::Primary, |ebr| Slot::Logical { ebr });
            table.partitions.push(self.entry(part, number, slot, span, format, why)?);
        }
        // Space after the last logical partition belongs to the container and stays free.
        self.close_extended(&mut table, &mut extended, cursor.end)?;
        table.partitions.sort_by_key(|entry| entry.number);
        Ok(table)
    }

    /// Checks that the table's format supports what the part asks for.
    pub(super) fn check_part(&self, part: &Part, format: Format) -> Result<(), PlanError> {
        if part.logical && format == Format::Gpt {
            return Err(PlanError::Contradiction(
                "a GPT has no logical partitions: leave out role=logical".to_owned(),
            ));
        }
        if part.size == Size::Bytes(ByteCount::ZERO) || part.size == Size::Sectors(0) {
            return Err(PlanError::Empty(part.number.unwrap_or(0)));
        }
        Ok(())
    }

    /// Returns the space for an extended boot record at or after `at`, up to the first aligned start after
    /// it. The record is not placed where the present table has one, which must stay readable until the new
    /// table is complete.
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
        let behind = start.checked_add(block.bytes())?;
        let end = self.grain.start.ceil(behind)?;
        Span::between(start, end)
    }

    /// Adds the extended partition, from its start to `end`.
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
        let sectors = end.checked_since(start).unwrap_or_default();
        table.partitions.push(extended_entry(number, start, sectors, self.request.extended));
        Ok(())
    }

    /// Returns the start of a part: the requested one, or the first boundary in the free space.
    fn start_of(
        &self,
        part: &Part,
        number: u32,
        index: usize,
        cursor: &Cursor,
    ) -> Result<ByteOffset, PlanError> {
        let Some(place) = part.start else {
            return self.grain.start.ceil(cursor.at).ok_or_else(|| self.no_room(number, cursor));
        };
        let start = self.checked_start(place, number)?;
        if start < cursor.at {
            let other = if index == 0 { "the table itself" } else { "the partition before it" };
            return Err(PlanError::Overlap {
                number,
                start: start.get(),
                other: other.to_owned(),
                end: cursor.at.get(),
            });
        }
        Ok(start)
    }

    /// Returns the byte of a requested start, if it is allowed.
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
            return Err(PlanError::Misaligned {
                number,
                start: start.get(),
                past: past.get(),
                boundaries: self.taken(),
                before: grain.floor(start).unwrap_or_default().get(),
                after: grain.ceil(start).unwrap_or_default().get(),
            });
        }
        Ok(start)
    }

    /// Lists the boundaries of the grain in words.
    pub(super) fn taken(&self) -> String {
        let named: Vec<String> = self.grain.taken().map(|c| format!("{} {}", c.name, c.size)).collect();
        named.join(", ")
    }

    /// Returns the span of a part that starts at `start`. The free space before it begins at `free_from`.
    fn span_of(
        &self,
        part: &Part,
        number: u32,
        index: usize,
        start: ByteOffset,
        free_from: ByteOffset,
        cursor: &Cursor,
    ) -> Result<Span, PlanError> {
        let request = self.request;
        let free = cursor.end.checked_since(start).unwrap_or_default();
        let end = match part.size {
            Size::Rest => {
                let room = self.room_before(&request.parts[index + 1..], cursor)?;
                room.map_or(start, |room| self.full_end(start, room))
            }
            // The record of a logical partition is taken from the partition's own share.
            Size::Percent(_) => {
                let from = self.grain.start.ceil(free_from).unwrap_or(start).min(start);
                self.end_of_size(part.size, from, self.shared(cursor.first, cursor.end))
            }
            size => self.end_of_size(size, start, ByteCount::ZERO),
        };
        self.fitting(number, start, end, cursor.end, free)
    }

    /// Returns the span from `start` to `end`, if it is not empty and does not end after `limit`.
    pub(super) fn fitting(
        &self,
        number: u32,
        start: ByteOffset,
        end: ByteOffset,
        limit: ByteOffset,
        free: ByteCount,
    ) -> Result<Span, PlanError> {
        match end.checked_since(start) {
            Some(needed) if end > limit => Err(PlanError::TooBig { number, needed, free }),
            Some(len) if len > ByteCount::ZERO => {
                Span::new(start, len).ok_or(PlanError::TooBig { number, needed: len, free })
            }
            _ => Err(PlanError::TooBig { number, needed: self.grain.end.size(), free }),
        }
    }

    /// Returns the end of a partition whose size does not depend on the others. Percentages are of `shared`.
    pub(super) fn end_of_size(&self, size: Size, start: ByteOffset, shared: ByteCount) -> ByteOffset {
        let block = self.block();
        let far = ByteOffset::new(u64::MAX);
        let end = |len: ByteCount, boundary: Boundary| {
            start.checked_add(len).and_then(|end| boundary.ceil(end)).unwrap_or(far)
        };
        match size {
            Size::Bytes(len) => end(len, self.grain.end),
            Size::Sectors(count) => {
                let len = LbaCount::new(count).to_bytes(block);
                len.and_then(|len| start.checked_add(len)).unwrap_or(far)
            }
            Size::Percent(percent) => {
                let len = u128::from(shared.get()) * u128::from(percent) / 100;
                let len = ByteCount::new(u64::try_from(len).unwrap_or(u64::MAX));
                start.checked_add(len).map_or(far, |limit| self.full_end(start, limit))
            }
            Size::Rest => far,
        }
    }

    /// Returns the last suitable end up to `limit`: on the grain, or on the boundary of ends if the grain
    /// would leave nothing.
    pub(super) fn full_end(&self, start: ByteOffset, limit: ByteOffset) -> ByteOffset {
        let on_grain = self.grain.start.floor(limit).filter(|end| *end > start);
        on_grain.or_else(|| self.grain.end.floor(limit)).unwrap_or(start)
    }

    /// The space that percentages refer to: all usable space between its first and its last boundary.
    pub(super) fn shared(&self, first: ByteOffset, end: ByteOffset) -> ByteCount {
        let first = self.grain.start.ceil(first);
        let last = self.grain.start.floor(end);
        first.zip(last).and_then(|(first, last)| last.checked_since(first)).unwrap_or_default()
    }

    /// Returns the byte up to which a partition of the rest may reach, so that the `following` ones still
    /// fit.
    fn room_before(&self, following: &[Part], cursor: &Cursor) -> Result<Option<ByteOffset>, PlanError> {
        let stop = following.iter().position(|part| part.start.is_some()).unwrap_or(following.len());
        let end_of_room = match following.get(stop).and_then(|part| part.start) {
            Some(place) => self.checked_start(place, 0)?,
            None => cursor.end,
        };
        let mut at = self.grain.start.floor(end_of_room);
        for part in &following[..stop] {
            let origin = ByteOffset::new(self.grain.start.phase().get());
            let end_of = self.end_of_size(part.size, origin, self.shared(cursor.first, cursor.end));
            let whole = self.grain.start.ceil(end_of).and_then(|end| end.checked_since(origin));
            let pays_itself = !part.logical || matches!(part.size, Size::Percent(_));
            let lead = if pays_itself { ByteCount::ZERO } else { self.grain.start.size() };
            let needed = whole.and_then(|whole| whole.checked_add(lead));
            at = at.zip(needed).and_then(|(at, needed)| at.checked_back(needed));
        }
        Ok(at)
    }

    /// Returns the byte up to which a partition may reach, so that `parts` fit behind it in `space`; `None` if
    /// there are none, or if their sizes do not allow it.
    pub(super) fn room_for(&self, parts: &[Part], space: Span) -> Result<Option<ByteOffset>, PlanError> {
        if parts.is_empty() {
            return Ok(None);
        }
        let (first, end) = (space.start(), space.end());
        self.room_before(parts, &Cursor { first, at: first, end })
    }

    fn no_room(&self, number: u32, cursor: &Cursor) -> PlanError {
        let free = cursor.end.checked_since(cursor.at).unwrap_or_default();
        PlanError::TooBig { number, needed: self.grain.end.size(), free }
    }

    /// Returns the reasons why a partition starts where it does.
    pub(super) fn why(&self, part: &Part, start: ByteOffset, free_from: ByteOffset) -> Vec<String> {
        let lba = Lba::containing(start, self.block());
        let mut why = Vec::new();
        if part.start.is_some() {
            why.push(format!("byte {start} (LBA {lba}) was requested"));
            if !self.grain.start.is_aligned(start) {
                why.push(format!(
                    "it is {} bytes past a boundary, which --allow-misaligned accepts",
                    self.grain.start.past(start).get()
                ));
            }
            return why;
        }
        let size = self.grain.start.size();
        let phase = match self.grain.start.phase().get() {
            0 => String::new(),
            phase => format!(", counted from byte {phase}"),
        };
        why.push(format!(
            "byte {start} (LBA {lba}) is the first multiple of {size}{phase} at or after byte {free_from}, \
            where unallocated space begins"
        ));
        why
    }

    /// Returns the table entry of a part.
    pub(super) fn entry(
        &mut self,
        part: &Part,
        number: u32,
        slot: Slot,
        span: Span,
        format: Format,
        why: Vec<String>,
    ) -> Result<Entry, PlanError> {
        let block = self.block();
        let named = part.kind.as_deref();
        let kind =
            named.unwrap_or_else(|| kinds::of_file_system(part.fs.as_deref().unwrap_or_default(), format));
        let mut why = why;
        if let Size::Bytes(asked) = part.size
            && let Some(more) = span.len().checked_sub(asked).filter(|more| *more != ByteCount::ZERO)
        {
            why.push(format!(
                "its size is {} bytes more than requested, so that it ends on a boundary of {}",
                more.get(),
                self.grain.end.size()
            ));
        }
        let drawn = self.identities.guid();
        let uuid = match format {
            Format::Gpt => {
                Some(part.uuid.clone().unwrap_or_else(|| straddle_layout::types::guid_text(drawn)))
            }
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
    let kind = straddle_layout::types::mbr_text(kind.unwrap_or(EXTENDED));
    let why = "it holds only one-sector records, so alignment does not matter".to_owned();
    Entry { why: vec![why], ..Entry::new(number, start, sectors, Slot::Extended, kind) }
}

/// Refuses more than one part with the rest, and percentages that add up to more than 100.
pub(super) fn check_percents(parts: &[Part]) -> Result<(), PlanError> {
    if parts.iter().filter(|part| part.size == Size::Rest).count() > 1 {
        return Err(PlanError::Contradiction("only one partition can be 'rest'".to_owned()));
    }
    let percent = |part: &Part| if let Size::Percent(percent) = part.size { u64::from(percent) } else { 0 };
    match parts.iter().map(percent).sum::<u64>() {
        0..=100 => Ok(()),
        sum => Err(PlanError::Contradiction(format!("the sizes in percent add up to {sum} %"))),
    }
}

/// Returns the number of the next partition: the requested one, or the lowest free one.
pub(super) fn next_number(
    table: &Table,
    part: &Part,
    opens_extended: bool,
    taken: &[u32],
) -> Result<u32, PlanError> {
    let is_listed = |number: u32| table.partitions.iter().any(|entry| entry.number == number);
    let is_free = |number: &u32| !is_listed(*number) && !taken.contains(number);
    if let Some(number) = part.number {
        return if is_free(&number) {
            Ok(number)
        } else if !is_listed(number) {
            Err(PlanError::Contradiction(format!("entry {number} of the table is in use, but lists nothing")))
        } else {
            Err(PlanError::Contradiction(format!("partition {number} already exists")))
        };
    }
    match (table.format, part.logical) {
        (Format::Gpt, _) => (1..=table.entries).find(is_free).ok_or(PlanError::TableFull(table.entries)),
        (Format::Mbr, false) => next_primary(table, taken),
        (Format::Mbr, true) => {
            if opens_extended {
                next_primary(table, taken)?;
            }
            (FIRST_LOGICAL..1024).find(is_free).ok_or(PlanError::TableFull(1024))
        }
    }
}

pub(super) fn next_primary(table: &Table, taken: &[u32]) -> Result<u32, PlanError> {
    let is_listed = |number: u32| table.partitions.iter().any(|entry| entry.number == number);
    let is_free = |number: &u32| !is_listed(*number) && !taken.contains(number);
    (1..FIRST_LOGICAL).find(is_free).ok_or(PlanError::TooManyPrimaries)
}
