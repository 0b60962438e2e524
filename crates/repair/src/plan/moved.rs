//! Changes to the present table that only give partitions other places, which [`crate::realign`] decides.
//!
//! Invariants: only the place of a moved partition changes in its entry; the others keep every bit.

use straddle_layout::{MARKER_GUID, MARKER_MBR, Partition, TableKind, boot_area};
use straddle_units::{BlockSize, ByteCount, Lba, LbaCount, Span};

use super::{Change, Draft, Entry, Format, Parts, Plan, Situation, Slot, Table, named_harm};
use crate::error::PlanError;
use crate::grain::Grain;
use crate::request::Request;

#[derive(Clone, Debug)]
pub(crate) struct Shifted {
    pub(crate) number: u32,
    pub(crate) to: Span,
    pub(crate) why: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Records {
    /// By number of the partition.
    pub(crate) at: Vec<(u32, Lba)>,
    /// Number and place of their container.
    pub(crate) extended: (u32, Lba, LbaCount),
}

pub(crate) struct Base<'a> {
    pub(crate) situation: &'a Situation<'a>,
    pub(crate) table: Table,
    pub(crate) notes: Vec<String>,
}

impl<'a> Base<'a> {
    pub(crate) fn of(situation: &'a Situation<'a>, request: &Request) -> Result<Self, PlanError> {
        let stack = situation.stack;
        let unchangeable = |why: &str| Err(PlanError::Unchangeable(why.to_owned()));
        if stack.kind == TableKind::HybridMbr {
            return unchangeable(
                "a hybrid MBR has two lists of partitions, which cannot be changed at the same time",
            );
        }
        if stack.is_hybrid_iso() {
            return unchangeable("the file system of this hybrid ISO 9660 image covers its partitions");
        }
        named_harm(situation, request)?;
        let grain = Grain::of(situation.topology, situation.size(), situation.block(), request.grain);
        let mut draft = Draft::of(situation, request, &grain)?;
        if draft.optical.is_some() {
            return unchangeable("the file system of an optical medium covers its partitions");
        }
        let table = draft.present_table()?;
        Ok(Self { situation, table, notes: draft.notes })
    }

    pub(crate) fn partition(&self, number: u32) -> Option<&'a Partition> {
        self.situation.stack.partitions.iter().find(|partition| partition.number == number)
    }

    /// On an MBR disk the bytes before the first partition are left to boot loaders, up to 1 MiB.
    pub(crate) fn usable(&self) -> Span {
        usable(&self.table, self.situation.block())
    }

    pub(crate) fn plan(
        &self,
        request: &Request,
        grain: &Grain,
        shifted: &[Shifted],
        records: Option<&Records>,
    ) -> Result<Plan, PlanError> {
        let block = self.situation.block();
        let disk = self.situation.fingerprint()?;
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
        if let Some(records) = records {
            records.enter(&mut table);
        }
        let plan = Plan(Parts {
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
        });
        plan.checked()
    }
}

impl Records {
    fn enter(&self, table: &mut Table) {
        let (container, start, sectors) = self.extended;
        for entry in &mut table.partitions {
            match &mut entry.slot {
                Slot::Logical { ebr } => {
                    if let Some((_, at)) = self.at.iter().find(|(number, _)| *number == entry.number) {
                        *ebr = *at;
                    }
                }
                Slot::Extended if entry.number == container => {
                    if (entry.start, entry.sectors) != (start, sectors) {
                        entry.change = Change::Moved { from: entry.start, sectors: entry.sectors };
                        entry.why.push("it contains the logical partitions and their records".to_owned());
                    }
                    (entry.start, entry.sectors) = (start, sectors);
                }
                _ => {}
            }
        }
    }
}

impl Plan {
    pub(crate) fn moves_logical(&self) -> bool {
        self.table.partitions.iter().any(|entry| entry.is_logical() && entry.is_moved())
    }

    /// Before and after. The first one is at the container's start.
    pub(crate) fn record_sectors(&self) -> Vec<Span> {
        [self.old_records(), self.new_records()].concat()
    }

    pub(crate) fn old_records(&self) -> Vec<Span> {
        self.records_of(&self.before)
    }

    pub(crate) fn new_records(&self) -> Vec<Span> {
        self.records_of(&self.table.partitions)
    }

    fn records_of(&self, entries: &[Entry]) -> Vec<Span> {
        let sector = |entry: &Entry| {
            let at = match entry.slot {
                Slot::Logical { ebr } => ebr,
                Slot::Extended => entry.start,
                Slot::Primary => return None,
            };
            Span::of_blocks(at, LbaCount::new(1), self.block())
        };
        entries.iter().filter_map(sector).collect()
    }

    pub(crate) fn movable_space(&self) -> Span {
        let before = Table { partitions: self.before.clone(), ..self.table.clone() };
        usable(&before, self.block())
    }
}

pub(super) fn usable(table: &Table, block: BlockSize) -> Span {
    let (mut first, end) = (table.first_usable.byte(block), table.usable_end().byte(block));
    if table.format == Format::Mbr {
        first = first.max(boot_area(table.spans(block).map(Span::start), block));
    }
    Span::between(first, end).unwrap_or(Span::first(ByteCount::ZERO))
}

impl Plan {
    /// The table that counts while data move. An entry in the slot of the first partition that moves marks `place`;
    /// the others are left out, as are all logical partitions and their container if one of them moves.
    pub(crate) fn marked(&self, place: Span, id: &str) -> Result<Self, PlanError> {
        let block = self.block();
        let mut marked = self.clone();
        let hides_all = self.moves_logical();
        let moves = |entry: &Entry| entry.is_moved() || (hides_all && entry.slot != Slot::Primary);
        let is_listed = |entry: &&Entry| moves(entry) && !entry.is_logical();
        let numbers = self.table.partitions.iter().filter(is_listed).map(|entry| entry.number);
        let number = numbers.min().ok_or(PlanError::Nothing)?;
        marked.0.table.partitions.retain(|entry| !moves(entry));
        let is_gpt = self.table.format == Format::Gpt;
        let (start, sectors) = (Lba::containing(place.start(), block), block.blocks_floor(place.len()));
        let kind = if is_gpt { MARKER_GUID } else { MARKER_MBR }.to_owned();
        marked.0.table.partitions.push(Entry {
            uuid: is_gpt.then(|| id.to_owned()),
            name: if is_gpt { "unfinished move (straddle)".to_owned() } else { String::new() },
            ..Entry::new(number, start, sectors, Slot::Primary, kind)
        });
        marked.0.table.partitions.sort_by_key(|entry| entry.number);
        marked.0.notes.clear();
        marked.checked()
    }
}
