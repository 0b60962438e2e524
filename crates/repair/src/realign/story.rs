//! What the journal of the moves keeps for this crate: the plan, and the table before, while and after data
//! move.
//!
//! The law of this module: the three tables are known, byte for byte, before anything is written, and each is
//! restored or completed only where the disk holds one of them.

use serde::{Deserialize, Serialize};
use straddle_device::Medium;
use straddle_device::hex::{decode, encode as hex};
use straddle_layout::Stack;
use straddle_units::{ByteCount, ByteOffset, Span};

use super::guard::Guard;
use super::{Journal, MoveError, Realign, RealignError, RealignFile};
use crate::encode::{Step, encode};
use crate::foresee::lay_over;
use crate::plan::{Change, former};
use crate::target::Disk;

/// A power cut leaves each unit of this many bytes either old or new, never mixed.
const UNIT: usize = 512;

/// Bytes that differ between the tables.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct PlaceFile {
    at: u64,
    old: String,
    marked: String,
    new: String,
    /// Whether everything is flushed after it.
    flush: bool,
}

/// The form in which it is stored.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct StoryFile {
    realign: RealignFile,
    table: Vec<PlaceFile>,
    #[serde(default)]
    guards: Vec<Guard>,
    #[serde(default)]
    boot_guards: Vec<Guard>,
}

/// The three tables of a disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Table {
    /// The old one.
    Old,
    /// The one that marks the disk while data move.
    Marked,
    /// The new one.
    New,
}

/// Bytes of the table, in its three forms of the same length.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Place {
    at: u64,
    old: Vec<u8>,
    marked: Vec<u8>,
    new: Vec<u8>,
    flush: bool,
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

/// A plan, with the tables that lead to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Story {
    pub(super) realign: Realign,
    places: Vec<Place>,
    /// The physical sectors of the table, and those of boot sectors in their new places.
    guards: Vec<Guard>,
    boot_guards: Vec<Guard>,
}

impl Story {
    /// Prepares the tables of `realign` for the disk, on which `stack` was read.
    pub(super) fn new(
        realign: &Realign,
        disk: &dyn Medium,
        stack: &Stack,
        id: [u8; 16],
    ) -> Result<Self, MoveError> {
        let marked = realign.plan.marked(marker(realign)?, &straddle_layout::types::guid_text(id))?;
        let (enter, finish) = (encode(&marked, disk, stack)?, encode(&realign.plan, disk, stack)?);
        let mut places: Vec<Place> = Vec::new();
        for step in &finish {
            match step {
                Step::Flush => places.iter_mut().last().into_iter().for_each(|place| place.flush = true),
                Step::Write { at, old, new, .. } => {
                    let (at, old, new) = (*at, old.clone(), new.clone());
                    let marked = laid(&old, at, &enter);
                    places.push(Place { at, old, marked, new, flush: false });
                }
            }
        }
        let spans = places.iter().filter_map(Place::span);
        let guards = Guard::of_table(disk, realign.blocks, spans);
        let boot_guards = Guard::of_boot_sectors(disk, realign);
        let story = Self { realign: realign.clone(), places, guards, boot_guards };
        // The marker takes the entry of a partition that moves, so that it changes nothing else.
        for step in &enter {
            let Step::Write { at, old, new, .. } = step else { continue };
            let mut covered = old.clone();
            for place in &story.places {
                lay_over(&mut covered, *at, &place.marked, place.at);
            }
            if covered != *new {
                let why = format!("the marker changes byte {at} of the table, which the new table does not");
                return Err(RealignError::Invalid(why).into());
            }
        }
        Ok(story)
    }

    pub(super) fn to_payload(&self) -> Result<Vec<u8>, MoveError> {
        let place = |place: &Place| PlaceFile {
            at: place.at,
            old: hex(&place.old),
            marked: hex(&place.marked),
            new: hex(&place.new),
            flush: place.flush,
        };
        let table = self.places.iter().map(place).collect();
        let (guards, boot_guards) = (self.guards.clone(), self.boot_guards.clone());
        let file = StoryFile { realign: RealignFile::from(&self.realign), table, guards, boot_guards };
        serde_json::to_vec(&file).map_err(|error| RealignError::Invalid(error.to_string()).into())
    }

    pub(super) fn from_payload(payload: &[u8]) -> Result<Self, MoveError> {
        let invalid = |why: String| MoveError::from(RealignError::Invalid(why));
        let mut file: StoryFile =
            serde_json::from_slice(payload).map_err(|error| invalid(error.to_string()))?;
        let realign = Realign::try_from(file.realign.clone())?;
        let size = realign.plan.disk().size;
        let mut places = Vec::new();
        for PlaceFile { at, old, marked, new, flush } in std::mem::take(&mut file.table) {
            let bytes =
                |text: &str| decode(text).ok_or_else(|| invalid("a table is not hexadecimal".to_owned()));
            let (old, marked, new) = (bytes(&old)?, bytes(&marked)?, bytes(&new)?);
            let span = Span::new(ByteOffset::new(at), ByteCount::new(old.len() as u64));
            let fits = span.is_some_and(|span| Span::first(size).contains(span));
            if !fits || old.len() != marked.len() || old.len() != new.len() || !old.len().is_multiple_of(UNIT)
            {
                return Err(invalid(format!("the bytes of the table at byte {at} contradict each other")));
            }
            places.push(Place { at, old, marked, new, flush });
        }
        let StoryFile { guards, boot_guards, .. } = file;
        if !guards.iter().chain(&boot_guards).all(|guard| guard.fits(size)) {
            return Err(invalid("a physical sector is not on the disk".to_owned()));
        }
        Ok(Self { realign, places, guards, boot_guards })
    }

    /// Restores the physical sectors of the table that a power cut has torn, durably. They have the marker
    /// then.
    pub(super) fn mend(&self, disk: &mut dyn Disk) -> Result<(), MoveError> {
        let state = |table| self.places.iter().map(|place| (place.at, place.of(table))).collect();
        let states: Vec<_> = [Table::Marked, Table::Old, Table::New].map(state).into();
        for guard in &self.guards {
            guard.mend(disk, &states)?;
        }
        disk.flush().map_err(|source| MoveError::Write { at: ByteOffset::ZERO, source })
    }

    /// Restores the physical sectors of boot sectors that a power cut has torn, durably. All data are in their
    /// new places.
    pub(super) fn mend_boot_sectors(&self, disk: &mut dyn Disk) -> Result<(), MoveError> {
        for guard in &self.boot_guards {
            guard.mend(disk, &[Vec::new()])?;
        }
        disk.flush().map_err(|source| MoveError::Write { at: ByteOffset::ZERO, source })
    }

    /// Returns which of the tables the disk holds; `None` if it is between two of them. Refuses a disk that
    /// holds something else.
    pub(super) fn table(&self, disk: &dyn Medium) -> Result<Option<Table>, MoveError> {
        let mut possible = vec![Table::Old, Table::Marked, Table::New];
        for place in &self.places {
            let mut found = vec![0; place.old.len()];
            disk.read_at(ByteOffset::new(place.at), &mut found)?;
            for (index, unit) in found.chunks(UNIT).enumerate() {
                let of = |table: &Table| &place.of(*table)[index * UNIT..][..unit.len()];
                if ![Table::Old, Table::Marked, Table::New].iter().any(|table| of(table) == unit) {
                    let at = place.at.saturating_add((index * UNIT) as u64);
                    return Err(MoveError::Changed(ByteOffset::new(at)));
                }
                possible.retain(|table| of(table) == unit);
            }
        }
        Ok(possible.first().copied())
    }

    /// Writes one of the tables, durably, and reads it back. The copy of a GPT that counts is the first to get
    /// the marker and the last to lose it, so that the marker is found as long as the copies differ.
    pub(super) fn write(&self, disk: &mut dyn Disk, table: Table) -> Result<(), MoveError> {
        self.table(disk)?;
        let mut order: Vec<&Place> = self.places.iter().collect();
        let is_reversed = table == Table::Marked;
        if is_reversed {
            order.reverse();
        }
        let failed = |at: u64, source| MoveError::Write { at: ByteOffset::new(at), source };
        for place in order {
            if is_reversed && place.flush {
                disk.flush().map_err(|source| failed(place.at, source))?;
            }
            let mut found = vec![0; place.old.len()];
            disk.read_at(ByteOffset::new(place.at), &mut found)?;
            if found != place.of(table) {
                disk.write_at(ByteOffset::new(place.at), place.of(table))
                    .map_err(|source| failed(place.at, source))?;
            }
            if !is_reversed && place.flush {
                disk.flush().map_err(|source| failed(place.at, source))?;
            }
        }
        disk.flush().map_err(|source| failed(0, source))?;
        match self.table(disk)? {
            Some(found) if found == table || self.is_same(found, table) => Ok(()),
            _ => Err(MoveError::Unwritten),
        }
    }

    fn is_same(&self, one: Table, other: Table) -> bool {
        self.places.iter().all(|place| place.of(one) == place.of(other))
    }
}

/// Returns `bytes`, which are at byte `at`, as they are after `steps`.
fn laid(bytes: &[u8], at: u64, steps: &[Step]) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    for step in steps {
        if let Step::Write { at: from, new, .. } = step {
            lay_over(&mut bytes, at, new, *from);
        }
    }
    bytes
}

/// Returns what the marker covers: the journal, or else part of the first partition's new place. No file
/// system is recognised in it: it starts neither where one was nor where one will be.
fn marker(realign: &Realign) -> Result<Span, RealignError> {
    if let Journal::Inside(place) = realign.journal {
        return Ok(place);
    }
    let (plan, block) = (&realign.plan, realign.plan.block());
    let entries = || plan.table().partitions.iter();
    let starts: Vec<ByteOffset> = entries()
        .flat_map(|entry| {
            let was = match entry.change {
                Change::Moved { from, sectors } => former(from, sectors, block).map(Span::start),
                _ => None,
            };
            plan.span(entry).map(Span::start).into_iter().chain(was)
        })
        .collect();
    let moving = entries().find(|entry| matches!(entry.change, Change::Moved { .. }));
    let place = moving.and_then(|entry| plan.span(entry));
    let place = place.ok_or_else(|| RealignError::Invalid("nothing moves".to_owned()))?;
    let skipped = ByteCount::new(straddle_units::MIB).min(ByteCount::new(place.len().get() / 2));
    let mut start = place.start().checked_add(skipped.floor_to(block.bytes()));
    while let Some(at) = start.filter(|at| starts.contains(at)) {
        start = at.checked_add(block.bytes());
    }
    let span = start.and_then(|start| Span::new(start, place.end().checked_since(start)?));
    span.filter(|span| !span.is_empty())
        .ok_or_else(|| RealignError::Invalid("the partition is too small to be marked".to_owned()))
}
