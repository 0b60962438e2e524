//! The payload of the journal: the plan, and the table before, while and after data move.
//!
//! Invariants: the three tables are known, byte for byte, before anything is written, and each is restored or
//! completed only where the disk holds one of them. Extended boot records count only while the table lists their
//! container, which the marker hides: all of a chain's are durable before the table that leads to them.

mod restore;

use serde::{Deserialize, Serialize};
use straddle_device::Medium;
use straddle_layout::Stack;
use straddle_layout::format::mbr;
use straddle_units::{ByteCount, ByteOffset, MIB, Span};

use super::checks::{self, Witness};
use super::guard::Guard;
use super::media::{flush, write};
use super::stored::invalid;
use super::{Journal, MoveError, Realign, RealignError, Reference, boot, logical};
use crate::document::hexadecimal;
use crate::encode::{Laid, Step, chains, encode};
use crate::fingerprint::{bytes_at, bytes_of, holds};
use crate::foresee::{lay_over, lay_steps};
use crate::plan::{Change, Entry};
use crate::relocate::{RelocateError, State};
use crate::target::Disk;

/// A power cut leaves each of these units either old or new, never mixed.
const UNIT: usize = 512;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Table {
    Old,
    Marked,
    New,
}

/// Bytes of the table, in its three forms of the same length.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Place {
    at: u64,
    #[serde(with = "hexadecimal")]
    old: Vec<u8>,
    #[serde(with = "hexadecimal")]
    marked: Vec<u8>,
    #[serde(with = "hexadecimal")]
    new: Vec<u8>,
    flush: bool,
}

impl Table {
    const ALL: [Self; 3] = [Self::Old, Self::Marked, Self::New];

    /// The marker is durable before anything moves, and counts until all is moved or back.
    pub(super) fn possible(state: &State) -> &'static [Self] {
        match state {
            State::NotBegun | State::Back => &[Self::Old, Self::Marked],
            State::Moving { .. } | State::RollingBack => &[Self::Marked],
            State::Moved => &[Self::Marked, Self::New],
        }
    }
}

impl Place {
    fn span(&self) -> Option<Span> {
        Span::new(ByteOffset::new(self.at), ByteCount::new(self.old.len() as u64))
    }

    fn of(&self, table: Table) -> &[u8] {
        match table {
            Table::Old => &self.old,
            Table::Marked => &self.marked,
            Table::New => &self.new,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Record {
    at: u64,
    of: Table,
    #[serde(with = "hexadecimal")]
    bytes: Vec<u8>,
}

impl Record {
    fn span(&self) -> Option<Span> {
        Span::new(ByteOffset::new(self.at), ByteCount::new(self.bytes.len() as u64))
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Payload {
    pub(super) realign: Realign,
    places: Vec<Place>,
    records: Vec<Record>,
    /// Of the table, and of boot sectors in their new places.
    guards: Vec<Guard>,
    boot_guards: Vec<Guard>,
    /// Of the new chain, then of the old one.
    new_guards: Vec<Guard>,
    old_guards: Vec<Guard>,
    /// The sectors of a GPT that are the same in all three tables.
    rest: Vec<Guard>,
    pub(super) witnesses: Vec<Witness>,
}

impl Payload {
    pub(super) fn new(
        realign: &Realign,
        disk: &dyn Medium,
        stack: &Stack,
        id: [u8; 16],
    ) -> Result<Self, MoveError> {
        let marked = realign.plan.marked(marker(realign)?, &straddle_layout::types::guid_text(id))?;
        let (mut enter, finish) = (encode(&marked, disk, stack)?, encode(&realign.plan, disk, stack)?);
        name_run(&mut enter, id);
        let mut places: Vec<Place> = Vec::new();
        let record =
            |of: Table, laid: Laid| laid.into_iter().map(move |(at, bytes)| Record { at, of, bytes });
        let records: Vec<Record> = match chains(&realign.plan, disk, stack)? {
            Some([old, new]) => record(Table::Old, old).chain(record(Table::New, new)).collect(),
            None => Vec::new(),
        };
        if !records.is_empty() {
            // The MBR alone decides, and may be the same before and after.
            let old = bytes_of(disk, Span::first(realign.plan.block().bytes()))?;
            let (marked, new) = (laid(&old, 0, &enter), laid(&old, 0, &finish));
            places.push(Place { at: 0, old, marked, new, flush: true });
        }
        for step in &finish {
            match step {
                Step::Write { .. } | Step::Flush if !records.is_empty() => {}
                Step::Flush => places.iter_mut().last().into_iter().for_each(|place| place.flush = true),
                Step::Write { at, old, new, .. } => {
                    let (at, old, new) = (*at, old.clone(), new.clone());
                    let marked = laid(&old, at, &enter);
                    places.push(Place { at, old, marked, new, flush: false });
                }
            }
        }
        name_core(realign, disk, &enter, &mut places)?;
        let records_of = |table| -> Vec<(u64, &[u8])> {
            let of = records.iter().filter(|record| record.of == table);
            of.map(|record| (record.at, record.bytes.as_slice())).collect()
        };
        let guards = Guard::of_table(disk, realign.blocks, places.iter().filter_map(Place::span));
        let boot_guards = Guard::of_boot_sectors(disk, realign);
        let new_guards = Guard::of_records(disk, realign, &records_of(Table::New), true);
        let old_guards = Guard::of_records(disk, realign, &records_of(Table::Old), false);
        let rest = restore::rest(disk, stack, &places, realign)?;
        // The table, and what records where partitions begin, in whole physical sectors.
        let of_boot = [&guards, &boot_guards, &new_guards, &old_guards, &rest].into_iter().flatten();
        let tables = places.iter().filter_map(Place::span).chain(records.iter().filter_map(Record::span));
        let besides: Vec<Span> = tables.chain(of_boot.filter_map(Guard::span)).collect();
        let witnesses = checks::take(disk, realign, &besides);
        let payload = Self {
            realign: realign.clone(),
            places,
            records,
            guards,
            boot_guards,
            new_guards,
            old_guards,
            rest,
            witnesses,
        };
        // The marker takes the entry of a partition that moves, so that it changes nothing else.
        for step in &enter {
            let Step::Write { at, old, new, .. } = step else { continue };
            let mut covered = old.clone();
            for place in &payload.places {
                lay_over(&mut covered, *at, &place.marked, place.at);
            }
            if covered != *new {
                let why = "of the table, which the new table does not change";
                return Err(invalid(format!("the marker changes byte {at} {why}")).into());
            }
        }
        Ok(payload)
    }

    pub(super) fn encode(&self) -> Result<Vec<u8>, RealignError> {
        serde_json::to_vec(self).map_err(|error| invalid(error.to_string()))
    }

    pub(super) fn decode(bytes: &[u8]) -> Result<Self, RealignError> {
        let payload: Self = serde_json::from_slice(bytes).map_err(|error| invalid(error.to_string()))?;
        let disk = Span::first(payload.realign.plan.disk.size);
        let unit = ByteCount::new(UNIT as u64);
        let fits = |span: Span| disk.contains(span) && span.len().is_multiple_of(unit);
        let is_one = |place: &Place| {
            let len = place.old.len();
            place.span().is_some_and(fits) && [place.marked.len(), place.new.len()] == [len, len]
        };
        if let Some(Place { at, .. }) = payload.places.iter().find(|place| !is_one(place)) {
            return Err(invalid(format!("the bytes of the table at byte {at} contradict each other")));
        }
        if let Some(Record { at, .. }) = payload.records.iter().find(|one| !one.span().is_some_and(fits)) {
            return Err(invalid(format!("the extended boot record at byte {at} is outside the disk")));
        }
        let guards =
            [&payload.guards, &payload.boot_guards, &payload.new_guards, &payload.old_guards, &payload.rest];
        if !guards.into_iter().flatten().all(|guard| guard.span().is_some_and(|span| disk.contains(span))) {
            return Err(invalid("a physical sector is outside the disk"));
        }
        Ok(payload)
    }

    /// What restores torn sectors: to the marker, or to the old table if no data have moved.
    pub(super) fn mended(&self, disk: &dyn Medium, state: &State) -> Vec<Step> {
        let of = |table| self.places.iter().map(|place| (place.at, place.of(table))).collect();
        let mut tables = Table::ALL;
        if *state != State::NotBegun {
            tables.swap(0, 1);
        }
        let states: [Vec<_>; 3] = tables.map(of);
        self.guards.iter().filter_map(|guard| guard.mended(disk, &states)).collect()
    }

    pub(super) fn mend(&self, disk: &mut dyn Disk, mended: &[Step]) -> Result<(), MoveError> {
        for step in mended {
            let Step::Write { at, new, .. } = step else { continue };
            write(disk, ByteOffset::new(*at), new)?;
        }
        flush(disk)
    }

    pub(super) fn mend_new(&self, disk: &mut dyn Disk) -> Result<(), MoveError> {
        self.mend_guards(disk, self.boot_guards.iter().chain(&self.new_guards))
    }

    /// All data must be in their old places.
    pub(super) fn mend_old(&self, disk: &mut dyn Disk) -> Result<(), MoveError> {
        self.mend_guards(disk, self.old_guards.iter())
    }

    fn mend_guards<'g>(
        &self,
        disk: &mut dyn Disk,
        guards: impl Iterator<Item = &'g Guard>,
    ) -> Result<(), MoveError> {
        let torn: Vec<Step> = guards.filter_map(|guard| guard.mended(disk, &[Vec::new()])).collect();
        self.mend(disk, &torn)
    }

    /// `None` between two tables; an error for anything else.
    pub(super) fn table(&self, disk: &dyn Medium) -> Result<Option<Table>, MoveError> {
        let mut possible = Table::ALL.to_vec();
        for place in &self.places {
            let found = bytes_at(disk, ByteOffset::new(place.at), place.old.len())?;
            for (index, unit) in found.chunks(UNIT).enumerate() {
                let of = |table: &Table| &place.of(*table)[index * UNIT..][..unit.len()];
                if !Table::ALL.iter().any(|table| of(table) == unit) {
                    let at = place.at.saturating_add((index * UNIT) as u64);
                    return Err(MoveError::Changed(ByteOffset::new(at)));
                }
                possible.retain(|table| of(table) == unit);
            }
        }
        if possible.contains(&Table::Marked) {
            return Ok(possible.first().copied());
        }
        // Only here do the records count.
        let mut odd = None;
        'tables: for table in possible {
            for record in self.records_of(table) {
                let at = ByteOffset::new(record.at);
                if !holds(disk, at, &record.bytes)? {
                    odd = odd.or(Some(at));
                    continue 'tables;
                }
            }
            return Ok(Some(table));
        }
        odd.map_or(Ok(None), |at| Err(MoveError::Changed(at)))
    }

    fn records_of(&self, table: Table) -> impl DoubleEndedIterator<Item = &Record> {
        self.records.iter().filter(move |record| record.of == table)
    }

    pub(super) fn new_records(&self) -> Vec<Span> {
        self.records_of(Table::New).filter_map(Record::span).collect()
    }

    /// Writes one of the tables, durably, and reads it back. The copy of a GPT that counts gets the marker
    /// first and loses it last, so that it is found while the copies differ. What a later write leads to is
    /// read back before that: a lost write must not make a missing table count.
    pub(super) fn write(&self, disk: &mut dyn Disk, table: Table) -> Result<(), MoveError> {
        self.table(disk)?;
        let mut pieces = Pieces { disk, written: Vec::new() };
        // The last of the chain first, so that no link leads to a record that is not written yet.
        for record in self.records_of(table).rev() {
            pieces.write(record.at, &record.bytes)?;
        }
        pieces.settle()?;
        let mut order: Vec<&Place> = self.places.iter().collect();
        let is_reversed = table == Table::Marked;
        if is_reversed {
            order.reverse();
        }
        for place in order {
            if is_reversed && place.flush {
                pieces.settle()?;
            }
            pieces.write(place.at, place.of(table))?;
            if !is_reversed && place.flush {
                pieces.settle()?;
            }
        }
        pieces.settle()?;
        match self.table(disk)? {
            Some(found) if found == table || self.is_same(found, table) => Ok(()),
            _ => {
                let place = self.places.first().and_then(Place::span);
                let place = place.unwrap_or(Span::first(ByteCount::new(UNIT as u64)));
                Err(RelocateError::Changed { at: place.start(), len: place.len() }.into())
            }
        }
    }

    fn is_same(&self, one: Table, other: Table) -> bool {
        self.records.is_empty() && self.places.iter().all(|place| place.of(one) == place.of(other))
    }
}

/// Puts the name of the run into the marker's entry of an MBR, in place of cylinders, heads and sectors, so
/// that two runs of a plan differ. In a GPT it is the entry's GUID.
fn name_run(enter: &mut [Step], id: [u8; 16]) {
    let mbr = enter.iter_mut().find_map(|step| match step {
        Step::Write { at: 0, new, .. } => Some(new),
        _ => None,
    });
    let entries = mbr.and_then(|mbr| mbr.get_mut(mbr::ENTRIES_AT..mbr::SIGNATURE_AT));
    for entry in entries.into_iter().flat_map(|entries| entries.chunks_exact_mut(mbr::ENTRY_BYTES)) {
        if entry[4] == straddle_layout::MARKER_TYPE {
            entry[1..4].copy_from_slice(&id[..3]);
            entry[5..8].copy_from_slice(&id[3..6]);
        }
    }
}

/// Adds GRUB's boot image in the disk's first sector, which a new GPT may not change, with its core's place.
fn name_core(
    realign: &Realign,
    disk: &dyn Medium,
    enter: &[Step],
    places: &mut Vec<Place>,
) -> Result<(), MoveError> {
    let named = realign.references.iter().find_map(|(_, reference)| match reference {
        Reference::Grub { in_partition: false, recorded, correct, .. } => Some((*recorded, *correct)),
        _ => None,
    });
    let Some((recorded, correct)) = named else { return Ok(()) };
    if !places.iter().any(|place| place.at == 0) {
        let old = bytes_of(disk, Span::first(ByteCount::new(boot::SECTOR)))?;
        let marked = laid(&old, 0, enter);
        places.push(Place { at: 0, new: old.clone(), old, marked, flush: false });
    }
    let first = places.iter_mut().find(|place| place.at == 0);
    let field = first.and_then(|place| {
        let field = place.new.get_mut(boot::KERNEL_SECTOR..)?.first_chunk_mut::<8>()?;
        Some(field).filter(|field| u64::from_le_bytes(**field) == recorded)
    });
    *field.ok_or(MoveError::Changed(ByteOffset::ZERO))? = correct.to_le_bytes();
    Ok(())
}

fn laid(bytes: &[u8], at: u64, steps: &[Step]) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    lay_steps(&mut bytes, at, steps);
    bytes
}

/// What the marker covers: the journal, or else part of the first partition's new place, from a byte at which
/// no partition starts or started, so that no file system is recognised in it.
fn marker(realign: &Realign) -> Result<Span, RealignError> {
    if let Journal::Inside(place) = realign.journal {
        return Ok(place);
    }
    let (plan, block) = (&realign.plan, realign.plan.block());
    let starts = |entry: &Entry| {
        let was = match entry.change {
            Change::Moved { from, sectors } => Span::of_blocks(from, sectors, block),
            _ => None,
        };
        [plan.span(entry), was]
    };
    let starts = plan.table.partitions.iter().flat_map(starts).flatten().map(Span::start);
    let starts: Vec<ByteOffset> = starts.collect();
    let place = logical::moving(plan).next().and_then(|entry| plan.span(entry));
    let place = place.ok_or_else(|| invalid("nothing moves"))?;
    let skipped = ByteCount::new(MIB).min(ByteCount::new(place.len().get() / 2));
    let mut start = place.start().checked_add(skipped.floor_to(block.bytes()));
    while let Some(at) = start.filter(|at| starts.contains(at)) {
        start = at.checked_add(block.bytes());
    }
    let span = start.and_then(|start| Span::between(start, place.end()));
    let span = span.filter(|span| !span.is_empty());
    span.ok_or_else(|| invalid("the partition is too small to be marked"))
}

struct Pieces<'a> {
    disk: &'a mut dyn Disk,
    written: Vec<(ByteOffset, &'a [u8])>,
}

impl<'a> Pieces<'a> {
    fn write(&mut self, at: u64, bytes: &'a [u8]) -> Result<(), MoveError> {
        let at = ByteOffset::new(at);
        if !holds(self.disk, at, bytes)? {
            write(self.disk, at, bytes)?;
        }
        self.written.push((at, bytes));
        Ok(())
    }

    fn settle(&mut self) -> Result<(), MoveError> {
        if self.written.is_empty() {
            return Ok(());
        }
        flush(self.disk)?;
        for (at, bytes) in self.written.drain(..) {
            let len = ByteCount::new(bytes.len() as u64);
            Span::new(at, len).into_iter().for_each(|span| self.disk.drop_cache(span));
            if !holds(self.disk, at, bytes)? {
                return Err(RelocateError::Changed { at, len }.into());
            }
        }
        Ok(())
    }
}
