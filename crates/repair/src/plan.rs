//! A plan: the table that a disk is to have, with reasons, as a value that can be stored and reviewed before
//! anything is written.
//!
//! Invariants: a plan is made for one disk and recognises it by a fingerprint. Every [`Plan`] is
//! valid, whether made here or read from a file: nothing overlaps, nothing is outside the usable
//! space, and every field fits its place on disk. It cannot be changed afterwards:
//!
//! ```compile_fail,E0596
//! # use straddle_repair::Plan;
//! fn without_the_last(mut plan: Plan) -> Plan {
//!     plan.table.partitions.pop();
//!     plan
//! }
//! ```

mod convert;
mod edit;
mod moved;
mod place;
mod table;
mod validate;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use straddle_audit::named_boundaries;
use straddle_device::Medium;
use straddle_device::topology::Topology;
use straddle_layout::format::mbr;
use straddle_layout::types::guid_text;
use straddle_layout::{
    Partition, PartitionType, Problem, Role, Stack, TableKind, beside, member_marks, optical_extent,
    rival_table, types,
};
use straddle_units::{BlockSize, Boundary, ByteCount, ByteOffset, Lba, LbaCount, Span};

use crate::document;
use crate::encode::{encode, unlisted_slots};
use crate::error::PlanError;
use crate::fingerprint::Fingerprint;
use crate::grain::{Considered, Grain};
use crate::guid::{Identities, Seed};
use crate::kinds;
use crate::lost::{self, Lost};
use crate::request::{Place, Request};
pub(crate) use moved::{Base, Records, Shifted, former};
pub(crate) use table::last_of;
pub use table::{Change, Entry, Format, Slot, Table};
pub(crate) use validate::MOST_ENTRIES;

/// The number of entries of a new GPT: the minimum of the UEFI specification, which every tool uses.
pub(crate) const GPT_ENTRIES: u32 = 128;
/// The size of an entry in bytes.
pub(crate) const GPT_ENTRY_BYTES: u64 = 128;
/// The least space before the first partition of an MBR disk, for boot loaders: the old track of 63 sectors.
const MBR_LEAD: ByteCount = ByteCount::new(63 * 512);
/// How many bytes a wipe clears at the start of a partition. They cover every signature that blkid looks for
/// there; Btrfs's at 64 KiB is the last.
pub(crate) const WIPED: ByteCount = ByteCount::new(68 * 1024);
/// The most array-member marks that a plan wipes: fewer kinds of mark exist.
pub(crate) const MOST_MARKS: usize = 32;
/// The least number of clusters of FAT32; each has at least one sector (Microsoft, FAT specification of
/// 2000).
const FAT32_CLUSTERS: u64 = 65_525;

/// A plan. It is always valid: nothing overlaps, nothing is outside the usable space, and every field fits its
/// place on disk.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "Parts", into = "Parts")]
pub struct Plan(Parts);

/// What a [`Plan`] is made of.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Plan", title = "straddle plan")]
#[serde(deny_unknown_fields)]
pub struct Parts {
    /// The fingerprint of the disk that the plan is for.
    pub disk: Fingerprint,
    /// Whether a new table is made; otherwise the present one is changed.
    pub fresh: bool,
    /// The sector size in which the present table counts; absent if it is not converted.
    #[serde(default, rename = "converted_from_sector_bytes", skip_serializing_if = "Option::is_none")]
    pub converts: Option<BlockSize>,
    /// Whether both copies of a GPT are written to their proper places, the backup at the end of the disk.
    pub relocate_backup: bool,
    /// The partitions before the change.
    pub before: Vec<Entry>,
    /// The new table.
    pub table: Table,
    /// The boundary on which partitions start.
    pub grain: Boundary,
    /// The boundaries that were considered for the grain.
    #[serde(rename = "boundaries")]
    pub considered: Vec<Considered>,
    /// The ranges that are overwritten with zeros.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub wipe: Vec<Span>,
    /// What is on the disk but cannot be reached from the new table.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub lost: Vec<Lost>,
    /// Remarks to read before applying the plan.
    pub notes: Vec<String>,
    /// The seed of the new identifiers, in hexadecimal.
    pub seed: String,
}

document::checked_parts!(Plan(Parts), PlanError);

/// A disk and what was read from it.
#[derive(Clone, Copy)]
pub struct Situation<'a> {
    /// The disk, for reading.
    pub medium: &'a dyn Medium,
    /// The disk's sector sizes and other topology.
    pub topology: &'a Topology,
    /// What the disk holds, read for its logical sector size.
    pub stack: &'a Stack,
    /// The disk's serial number.
    pub serial: Option<&'a str>,
}

impl Situation<'_> {
    pub(crate) fn size(&self) -> ByteCount {
        self.medium.len()
    }

    /// The logical sector size in which the new table counts.
    pub(crate) fn block(&self) -> BlockSize {
        self.topology.logical.value()
    }

    pub(crate) fn blocks(&self) -> u64 {
        self.block().blocks_floor(self.size()).get()
    }
}

impl Plan {
    /// The same plan for another disk of the same size and sectors.
    pub(crate) fn for_disk(self, disk: Fingerprint) -> Self {
        Self(Parts { disk, ..self.0 })
    }

    /// The same plan, with further notes.
    pub(crate) fn noting(mut self, notes: impl Iterator<Item = String>) -> Self {
        self.0.notes.extend(notes);
        self
    }

    /// Returns the plan with what its table would be written over although no table accounts for it, which only a wipe
    /// allows.
    fn over_accounted(mut self, situation: &Situation<'_>, wipes: bool) -> Result<Self, PlanError> {
        let Situation { medium, stack, .. } = *situation;
        if wipes {
            let (outside, partitions) = self.writes_over(medium, stack)?;
            let lost = self.0.lost.iter_mut().filter(|lost| lost.partition.is_some());
            lost.for_each(|lost| lost.is_overwritten = partitions.contains(&lost.partition));
            self.0.lost.extend(outside.into_iter().map(lost::outside));
            return Ok(self);
        }
        match encode(&self, medium, stack) {
            // Why else it cannot be written is said where it would be.
            Err(
                error @ (PlanError::Occupied { .. }
                | PlanError::OverPartition { .. }
                | PlanError::CannotConvert(_)),
            ) => Err(error),
            _ => Ok(self),
        }
    }

    /// The sector size in which the new table counts.
    pub fn block(&self) -> BlockSize {
        self.disk.sector
    }

    /// The bytes of an entry; `None` if they cannot be counted.
    pub fn span(&self, entry: &Entry) -> Option<Span> {
        span_of(entry, self.block())
    }
}

pub(crate) fn span_of(entry: &Entry, block: BlockSize) -> Option<Span> {
    Span::of_blocks(entry.start, entry.sectors, block)
}

/// Makes a plan for a disk from a request.
pub fn make(situation: &Situation<'_>, request: &Request) -> Result<Plan, PlanError> {
    let (size, block) = (situation.size(), situation.block());
    let fingerprint =
        Fingerprint::of(situation.medium, situation.stack, block, situation.serial.map(str::to_owned))?;
    let fresh = request.table.is_some();
    let names = named_harm(situation, request)?;
    let grain = Grain::of(situation.topology, size, block, request.grain);
    let spared = if fresh { Spared::default() } else { Spared::of(situation)? };
    let mut draft = Draft::new(situation, request, &grain, spared);
    let table = match request.table {
        _ if request.convert => draft.converted_table()?,
        Some(format) => draft.new_table(format)?,
        None => draft.changed_table()?,
    };
    // A converted table lists the same partitions, and these can be given in the new sectors too.
    let before = if request.convert {
        table.partitions.clone()
    } else {
        let stack = situation.stack;
        stack
            .partitions
            .iter()
            .filter(|one| request.table.is_some() || !stack.is_window(one))
            .map(kept)
            .collect()
    };
    draft.note(&table);
    let is_harming = !names.is_empty();
    if is_harming && request.wipe {
        draft.notes.push(format!(
            "{names}: only the part where the table goes is overwritten; wipefs -a removes the rest"
        ));
    }
    draft.wipe(&table, is_harming)?;
    let lost = match request.convert {
        true => Vec::new(),
        false => lost::find(situation.medium, situation.stack, (&table, block), fresh, request.wipe)?,
    };
    if !fresh && !request.convert && !request.wipe {
        draft.spare_unlisted(&table)?;
    }
    let Draft { notes, wipe, .. } = draft;
    let plan = Plan(Parts {
        disk: fingerprint,
        fresh,
        converts: request.convert.then_some(situation.stack.block),
        relocate_backup: request.relocate_backup,
        before,
        table,
        grain: grain.start,
        considered: grain.considered.clone(),
        wipe,
        lost,
        notes,
        seed: request.seed.to_string(),
    });
    plan.over_accounted(situation, request.wipe)?.checked()
}

/// The first byte of data that rewriting both copies of the present GPT would destroy, if there are any.
pub fn in_the_way_of_copies(situation: &Situation<'_>) -> Option<ByteOffset> {
    let mut request = Request::new(Seed(0));
    (request.repair, request.relocate_backup) = (true, true);
    match make(situation, &request) {
        Err(PlanError::Occupied { at }) => Some(at),
        _ => None,
    }
}

/// Names what a change to the disk's table would destroy besides, and refuses that without a wipe. Also
/// refuses to change a table that may not be the disk's own.
fn named_harm(situation: &Situation<'_>, request: &Request) -> Result<String, PlanError> {
    if straddle_layout::marker(situation.medium, situation.stack)?.is_some() {
        if crate::copy::is_unfinished(situation.medium)? {
            let is_replaced = request.table.is_some() && request.wipe;
            let why = "a copy to it is unfinished: complete it with 'straddle apply', or make a new table \
                       with --wipe";
            return if is_replaced {
                Ok(String::new())
            } else {
                Err(PlanError::Unchangeable(why.to_owned()))
            };
        }
        return Err(PlanError::Unfinished);
    }
    if crate::realign::unmarked(situation.medium, situation.stack).is_some() {
        return Err(PlanError::Unfinished);
    }
    let fresh = request.table.is_some();
    let harmed = lost::harmed(situation.medium, situation.stack, fresh)?;
    let names = harmed.iter().map(|found| found.name()).collect::<Vec<_>>().join(" and ");
    if !harmed.is_empty() && !request.wipe {
        return Err(PlanError::WouldDestroy(format!("also holds {names}")));
    }
    if let TableKind::Content(content) = situation.stack.kind
        && !fresh
        && beside(situation.medium, situation.stack)?.iter().any(|found| found.is_table())
    {
        let why = match rival_table(situation.medium, situation.stack)? {
            Some(_) => {
                "also has a partition table: one of the two is a leftover, and straddle cannot tell which: \
                clear the leftover first (wipefs)"
            }
            None => {
                "its table is the array's, or older than the array: assemble the array, and use it as \
                the target"
            }
        };
        return Err(PlanError::Unchangeable(format!("the disk is {} as a whole: {why}", content.name())));
    }
    Ok(names)
}

/// Says what a disk holds instead of a table that can be changed.
fn no_table(kind: &TableKind) -> PlanError {
    let found = match kind {
        TableKind::Content(content) => content.to_string(),
        TableKind::Foreign(name) => format!("one of type {name}"),
        _ => "its contents are unknown".to_owned(),
    };
    PlanError::NoTable { found }
}

/// Returns a present partition as an entry that keeps it.
pub(crate) fn kept(partition: &Partition) -> Entry {
    let kind = match partition.kind {
        PartitionType::Guid(guid) => guid_text(guid),
        PartitionType::Mbr(id) => types::mbr_text(id),
        PartitionType::Unknown => String::new(),
    };
    let slot = match partition.role {
        Role::Primary => Slot::Primary,
        Role::Extended => Slot::Extended,
        Role::Logical { ebr } => Slot::Logical { ebr },
    };
    let attributes = &partition.attributes;
    Entry {
        uuid: attributes.guid.map(guid_text),
        name: attributes.name.clone(),
        attributes: attributes.gpt,
        bootable: attributes.bootable,
        change: Change::Kept,
        ..Entry::new(partition.number, partition.start, partition.count, slot, kind)
    }
}

/// Content of the disk outside its table that is kept.
#[derive(Debug, Default)]
struct Spared {
    /// The span of an optical medium's file system: none of it is free space.
    optical: Option<Span>,
    /// The numbers of the MBR's entries that list no partition but are not zero.
    slots: Vec<u32>,
}

impl Spared {
    fn of(situation: &Situation<'_>) -> Result<Self, PlanError> {
        let slots = match situation.stack.kind {
            TableKind::Mbr => unlisted_slots(situation.medium, situation.stack)?,
            _ => Vec::new(),
        };
        Ok(Self { optical: optical_extent(situation.medium)?, slots })
    }
}

/// A plan being made.
struct Draft<'a> {
    situation: &'a Situation<'a>,
    request: &'a Request,
    grain: &'a Grain,
    identities: Identities,
    notes: Vec<String>,
    wipe: Vec<Span>,
    /// Content outside the table that is kept.
    spared: Spared,
}

impl<'a> Draft<'a> {
    fn new(situation: &'a Situation<'a>, request: &'a Request, grain: &'a Grain, spared: Spared) -> Self {
        let identities = Identities::new(request.seed);
        Self { situation, request, grain, identities, notes: Vec::new(), wipe: Vec::new(), spared }
    }

    fn block(&self) -> BlockSize {
        self.situation.block()
    }

    /// Returns an empty table with its usable space on this disk.
    fn empty_table(&mut self, format: Format) -> Result<Table, PlanError> {
        let blocks = self.situation.blocks();
        let too_small = || PlanError::DiskTooSmall(self.situation.size());
        let (first_usable, last_usable, entries) = match format {
            Format::Gpt => {
                let entries = self.request.entries.unwrap_or(GPT_ENTRIES);
                let array = (u64::from(entries) * GPT_ENTRY_BYTES).div_ceil(self.block().get());
                let last = blocks.checked_sub(array + 2).ok_or_else(too_small)?;
                (array + 2, last, entries)
            }
            Format::Mbr => {
                let last = blocks.min(mbr::LBAS).checked_sub(1).ok_or_else(too_small)?;
                (MBR_LEAD.get().div_ceil(self.block().get()), last, 0)
            }
        };
        if last_usable <= first_usable {
            return Err(too_small());
        }
        let random = match format {
            Format::Gpt => guid_text(self.identities.guid()),
            Format::Mbr => format!("{:08x}", self.identities.disk_id()),
        };
        let id = self.request.disk_id.clone().unwrap_or(random);
        Ok(Table {
            format,
            id,
            first_usable: Lba::new(first_usable),
            last_usable: Lba::new(last_usable),
            entries,
            partitions: Vec::new(),
        })
    }

    /// Adds remarks on the new table.
    fn note(&mut self, table: &Table) {
        let (block, size) = (self.block(), self.situation.size());
        let mut notes = Vec::new();
        let reach = ByteCount::new(mbr::LBAS.saturating_mul(block.get()));
        let beyond = size.checked_sub(reach).filter(|beyond| *beyond != ByteCount::ZERO);
        if let Some(beyond) = beyond.filter(|_| table.format == Format::Mbr) {
            notes.push(format!(
                "an MBR can address {reach} of this {size} disk: the last {beyond} cannot be used"
            ));
        }
        for entry in &table.partitions {
            let number = entry.number;
            if entry.kind == kinds::ESP && entry.change == Change::New {
                let least = ByteCount::new(FAT32_CLUSTERS * block.get());
                let is_small = span_of(entry, block).is_some_and(|span| span.len() <= least);
                if is_small {
                    notes.push(format!(
                        "partition {number}: FAT32 on {block}-byte sectors needs more than {least}, and \
                        firmware need not read any other FAT"
                    ));
                }
                if entry.fs.as_deref().is_some_and(|fs| !matches!(fs, "vfat" | "fat32")) {
                    notes
                        .push(format!("partition {number}: an EFI system partition has to be FAT (fs=vfat)"));
                }
            }
            let stays = matches!(entry.change, Change::Kept | Change::Grown { .. });
            if stays && entry.slot != Slot::Extended {
                notes.extend(self.misplaced(entry).map(|misses| {
                    format!(
                        "partition {number} stays misaligned ({misses}): only moving its data would align \
                         it"
                    )
                }));
            }
        }
        let boots_by_bios = table.partitions.iter().any(|entry| entry.kind == kinds::BIOS_BOOT);
        if table.format == Format::Gpt
            && table.partitions.iter().any(|entry| entry.bootable)
            && !boots_by_bios
        {
            notes.push(
                "the active flag has no effect in a GPT; a BIOS boot loader needs a partition of type \
                 bios"
                    .to_owned(),
            );
        }
        self.notes.append(&mut notes);
    }

    /// Names the boundaries above advice that an entry's start misses.
    fn misplaced(&self, entry: &Entry) -> Option<String> {
        let start = span_of(entry, self.block())?.start();
        let misses: Vec<&str> = named_boundaries(self.situation.topology)
            .into_iter()
            .filter(|named| {
                named.severity > straddle_audit::Severity::Advice && !named.boundary.is_aligned(start)
            })
            .map(|named| named.name)
            .collect();
        (!misses.is_empty()).then(|| misses.join(", "))
    }

    /// Refuses to put a partition over contents that no partition lists. One whose start was requested may bring them back:
    /// that is noted.
    fn spare_unlisted(&mut self, table: &Table) -> Result<(), PlanError> {
        let Situation { medium, stack, .. } = *self.situation;
        let block = self.block();
        for lost in lost::unlisted(medium, stack, (table, block)) {
            let is_over = |entry: &&Entry| {
                let is_changed = matches!(entry.change, Change::New | Change::Grown { .. });
                is_changed && span_of(entry, block).is_some_and(|span| span.overlaps(lost.at))
            };
            let number = table.partitions.iter().find(is_over).map_or(0, |entry| entry.number);
            let is_requested = self.request.parts.iter().any(|part| match part.start {
                Some(Place::Byte(byte)) => ByteOffset::new(byte.get()) == lost.at.start(),
                Some(Place::Sector(lba)) => Lba::new(lba).to_bytes(block) == Some(lost.at.start()),
                None => false,
            });
            if !(is_requested && lost.is_led_to(table, block)) {
                return Err(PlanError::Unlisted { number, content: lost.what(), at: lost.at.start() });
            }
            self.notes.push(format!(
                "partition {number} starts at existing contents, which it makes accessible: {}",
                lost.what()
            ));
        }
        Ok(())
    }

    /// Collects the spans that a wipe clears, if one is requested.
    fn wipe(&mut self, table: &Table, is_shared: bool) -> Result<(), PlanError> {
        if !self.request.wipe {
            return Ok(());
        }
        let block = self.block();
        let mut spans = Vec::new();
        let first = table.partitions.iter().filter_map(|entry| span_of(entry, block)).map(Span::start).min();
        let is_filled =
            matches!(self.situation.stack.kind, TableKind::Content(_) | TableKind::Foreign(_)) || is_shared;
        if is_filled && self.request.table.is_some() {
            // From the end of the table to the first partition. An MBR is one sector, however much is left
            // free after it.
            let behind = if table.format == Format::Mbr { 1 } else { table.first_usable.get() };
            let from = ByteOffset::new(behind * block.get());
            let end = first.unwrap_or(from).min(ByteOffset::new(WIPED.get().max(from.get())));
            spans.extend(Span::between(from, end));
        }
        for entry in table.partitions.iter().filter(|e| e.change == Change::New && e.slot != Slot::Extended) {
            spans.extend(
                span_of(entry, block).and_then(|span| Span::new(span.start(), span.len().min(WIPED))),
            );
        }
        if self.request.table.is_some() {
            spans.extend(self.marks_between(table)?);
        }
        self.wipe.extend(spans.into_iter().filter(|span| !span.is_empty()));
        Ok(())
    }

    /// Returns the spans that mark the disk as an array member and that the new table does not cover. If they
    /// remained, the new table would be taken for the array's.
    fn marks_between(&self, table: &Table) -> Result<Vec<Span>, PlanError> {
        let block = self.block();
        let free = match table.format {
            Format::Gpt => (table.first_usable.get(), table.last_usable.get() + 1),
            Format::Mbr => (1, self.situation.blocks()),
        };
        let in_blocks = |mark: Span| {
            let first = Lba::containing(mark.start(), block).get();
            let end = mark.end().get().div_ceil(block.get());
            let span = Span::of_blocks(Lba::new(first), LbaCount::new(end - first), block)?;
            (free.0 <= first && end <= free.1).then_some(span)
        };
        let taken = |span: &Span| {
            let mut spans = table.partitions.iter().filter_map(|entry| span_of(entry, block));
            spans.any(|partition| partition.overlaps(*span))
        };
        let marks = member_marks(self.situation.medium)?.into_iter().filter_map(in_blocks);
        Ok(marks.filter(|span| !taken(span)).take(MOST_MARKS).collect())
    }
}

/// Whether the primary copy of a GPT is damaged, so that the backup counts.
pub(crate) fn primary_is_damaged(stack: &Stack) -> bool {
    stack.problems.iter().any(|problem| matches!(problem, Problem::GptPrimaryDamaged { .. }))
}
