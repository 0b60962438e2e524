//! Changes to the present table that only give partitions other places.
//!
//! The law of this module: a partition that moves keeps its number, type, identity, name and attributes; one
//! that does not move keeps every bit. Where partitions go is decided elsewhere ([`crate::realign`]).

use straddle_layout::{MARKER_GUID, MARKER_MBR, TableKind};
use straddle_units::{BlockSize, ByteCount, ByteOffset, Lba, LbaCount, Span};

use super::spared::Spared;
use super::{Change, Draft, Entry, Format, Plan, Situation, Slot, Table, named_harm, span_of};
use crate::error::PlanError;
use crate::fingerprint::Fingerprint;
use crate::grain::Grain;
use crate::request::Request;

/// Boot loaders keep their core image between an MBR and the first partition, which usually starts here.
const BOOT_AREA: ByteOffset = ByteOffset::new(straddle_units::MIB);

/// A partition's new place.
#[derive(Clone, Debug)]
pub(crate) struct Shifted {
    pub(crate) number: u32,
    pub(crate) to: Span,
    pub(crate) why: Vec<String>,
}

/// A present table that can be changed.
pub(crate) struct Base<'a> {
    situation: &'a Situation<'a>,
    table: Table,
    notes: Vec<String>,
}

impl<'a> Base<'a> {
    /// Reads the present table with the checks of every change to it.
    pub(crate) fn of(situation: &'a Situation<'a>, request: &Request) -> Result<Self, PlanError> {
        let stack = situation.stack;
        if stack.kind == TableKind::HybridMbr || stack.is_hybrid_iso {
            let why = "its MBR lists partitions too, and both lists would have to change at once".to_owned();
            return Err(PlanError::Unchangeable(why));
        }
        named_harm(situation, request)?;
        let spared = Spared::of(situation)?;
        if spared.optical.is_some() {
            let why = "the file system of an optical medium covers its partitions".to_owned();
            return Err(PlanError::Unchangeable(why));
        }
        let grain = Grain::of(situation.topology, situation.size(), situation.block(), request.grain);
        let mut draft = Draft::new(situation, request, &grain, spared);
        let table = draft.present_table()?;
        Ok(Self { situation, table, notes: draft.notes })
    }

    pub(crate) fn situation(&self) -> &'a Situation<'a> {
        self.situation
    }

    pub(crate) fn table(&self) -> &Table {
        &self.table
    }

    /// The bytes that partitions may be moved to. On an MBR disk those before the first partition are left to
    /// boot loaders, up to 1 MiB.
    pub(crate) fn usable(&self) -> Span {
        usable(&self.table, self.situation.block())
    }

    /// Returns the plan of the table in which partitions have moved.
    pub(crate) fn plan(
        &self,
        request: &Request,
        grain: &Grain,
        shifted: &[Shifted],
    ) -> Result<Plan, PlanError> {
        let Situation { medium, stack, serial, .. } = *self.situation;
        let block = self.situation.block();
        let disk = Fingerprint::of(medium, stack, block, serial.map(str::to_owned))?;
        let mut table = self.table.clone();
        for shift in shifted {
            let entry = table.partitions.iter_mut().find(|entry| entry.number == shift.number);
            let entry = entry.ok_or(PlanError::NoSuchPartition(shift.number))?;
            let (from, sectors) = (entry.start, entry.sectors);
            entry.start = Lba::containing(shift.to.start(), block);
            entry.sectors = block.blocks_floor(shift.to.len());
            entry.change = Change::Moved { from, sectors };
            entry.why.clone_from(&shift.why);
        }
        let plan = Plan {
            disk,
            fresh: false,
            converts: None,
            relocate_backup: false,
            before: self.table.partitions.clone(),
            table,
            grain: grain.start,
            considered: grain.considered.clone(),
            wipe: Vec::new(),
            lost: Vec::new(),
            notes: self.notes.clone(),
            seed: request.seed.to_string(),
        };
        plan.checked()
    }
}

impl Plan {
    /// The bytes that partitions of this plan's disk may be moved to.
    pub(crate) fn movable_space(&self) -> Span {
        let before = Table { partitions: self.before.clone(), ..self.table.clone() };
        usable(&before, self.block())
    }
}

/// The bytes that partitions of this table may be moved to.
fn usable(table: &Table, block: BlockSize) -> Span {
    let byte = |lba: Lba| lba.to_bytes(block).unwrap_or(ByteOffset::new(u64::MAX));
    let (mut first, end) = (byte(table.first_usable), byte(table.usable_end()));
    if table.format == Format::Mbr {
        let primaries = table.partitions.iter().filter(|e| !matches!(e.slot, Slot::Logical { .. }));
        let lowest = primaries.filter_map(|entry| span_of(entry, block)).map(Span::start).min();
        first = first.max(lowest.map_or(BOOT_AREA, |lowest| lowest.min(BOOT_AREA)));
    }
    let len = end.checked_since(first).unwrap_or_default();
    Span::new(first, len).unwrap_or(Span::first(ByteCount::ZERO))
}

/// The former bytes of a partition; `None` if they cannot be counted.
pub(crate) fn former(start: Lba, sectors: LbaCount, block: BlockSize) -> Option<Span> {
    Span::of_blocks(start, sectors, block)
}

impl Plan {
    /// Returns the plan of the table that counts while data move: without the partitions that move, and with
    /// an entry in the slot of the first of them that marks `place`.
    pub(crate) fn marked(&self, place: Span, id: &str) -> Result<Self, PlanError> {
        let block = self.block();
        let mut marked = self.clone();
        let moves = |entry: &Entry| matches!(entry.change, Change::Moved { .. });
        let numbers = self.table.partitions.iter().filter(|entry| moves(entry)).map(|entry| entry.number);
        let number = numbers.min().ok_or(PlanError::Nothing)?;
        marked.table.partitions.retain(|entry| !moves(entry));
        let is_gpt = self.table.format == Format::Gpt;
        marked.table.partitions.push(Entry {
            number,
            start: Lba::containing(place.start(), block),
            sectors: block.blocks_floor(place.len()),
            slot: Slot::Primary,
            kind: if is_gpt { MARKER_GUID } else { MARKER_MBR }.to_owned(),
            uuid: is_gpt.then(|| id.to_owned()),
            name: if is_gpt { "unfinished move (straddle)".to_owned() } else { String::new() },
            attributes: 0,
            bootable: false,
            change: Change::New,
            fs: None,
            why: Vec::new(),
        });
        marked.table.partitions.sort_by_key(|entry| entry.number);
        marked.notes.clear();
        marked.checked()
    }
}
