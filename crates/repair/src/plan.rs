//! A plan: the table that a disk is to have, with reasons, as a value that can be stored and reviewed.
//!
//! Invariants: a plan is for one disk, which it recognises by a fingerprint. Every [`Plan`] is valid, whether
//! made here or read from a file, and cannot be changed afterwards:
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

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use straddle_audit::{Severity, named_boundaries};
use straddle_device::hex::encode as hex;
use straddle_device::topology::Topology;
use straddle_device::{Medium, ReadError};
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
pub(crate) use moved::{Base, Records, Shifted};
pub use table::{Change, Entry, Format, Slot, Table};
pub(crate) use table::{MOST_ENTRIES, array_sectors, last_of, span_of};

/// The minimum of the UEFI specification, which every tool uses.
pub(crate) const GPT_ENTRIES: u32 = 128;
/// The old track of 63 sectors, for boot loaders.
const MBR_LEAD: ByteCount = ByteCount::new(63 * 512);
/// Every signature that blkid looks for at the start of a partition, of which Btrfs's at 64 KiB is the last.
pub(crate) const WIPED: ByteCount = ByteCount::new(68 * 1024);
/// Fewer kinds of mark exist.
pub(crate) const MOST_MARKS: usize = 32;
/// The least clusters of FAT32, each of at least one sector (Microsoft, FAT specification of 2000).
const FAT32_CLUSTERS: u64 = 65_525;

/// A new partition table. It is always valid: no partitions overlap, none is outside the usable space, and
/// every field fits its on-disk size.
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
    /// Whether a new partition table is created; otherwise the current one is changed.
    pub fresh: bool,
    /// The sector size that the current table uses; absent if the table is not converted.
    #[serde(default, rename = "converted_from_sector_bytes", skip_serializing_if = "Option::is_none")]
    pub converts: Option<BlockSize>,
    /// Whether both copies of the GPT are written to their proper positions, the backup to the end of the
    /// disk.
    pub relocate_backup: bool,
    /// The partitions before the change.
    pub before: Vec<Entry>,
    /// The new partition table.
    pub table: Table,
    /// The boundary on which partitions start.
    pub grain: Boundary,
    /// The boundaries that were considered for the grain.
    #[serde(rename = "boundaries")]
    pub considered: Vec<Considered>,
    /// The ranges that are overwritten with zeros.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub wipe: Vec<Span>,
    /// Contents of the disk that the new table makes inaccessible.
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

    pub(crate) fn block(&self) -> BlockSize {
        self.topology.logical.value()
    }

    pub(crate) fn blocks(&self) -> u64 {
        self.block().blocks_floor(self.size()).get()
    }

    pub(crate) fn fingerprint(&self) -> Result<Fingerprint, ReadError> {
        Fingerprint::of(self.medium, self.stack, self.block(), self.serial.map(str::to_owned))
    }
}

impl Plan {
    pub(crate) fn for_disk(self, disk: Fingerprint) -> Self {
        Self(Parts { disk, ..self.0 })
    }

    pub(crate) fn noting(mut self, notes: impl Iterator<Item = String>) -> Self {
        self.0.notes.extend(notes);
        self
    }

    /// Adds data that no table accounts for and that the table would overwrite. Only a wipe allows that.
    fn over_accounted(mut self, situation: &Situation<'_>, wipes: bool) -> Result<Self, PlanError> {
        let Situation { medium, stack, .. } = *situation;
        if wipes {
            let (outside, partitions) = self.writes_over(medium, stack)?;
            for lost in self.0.lost.iter_mut().filter(|lost| lost.partition.is_some()) {
                lost.is_overwritten = partitions.contains(&lost.partition);
            }
            self.0.lost.extend(outside.into_iter().map(Lost::outside));
            return Ok(self);
        }
        use PlanError::{CannotConvert, Occupied, OverPartition};
        match encode(&self, medium, stack) {
            Err(error @ (Occupied { .. } | OverPartition { .. } | CannotConvert(_))) => Err(error),
            // Other reasons are given where it would be written.
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

/// Makes a plan for a disk from a request.
pub fn make(situation: &Situation<'_>, request: &Request) -> Result<Plan, PlanError> {
    let Situation { medium, stack, .. } = *situation;
    let block = situation.block();
    let disk = situation.fingerprint()?;
    let fresh = request.table.is_some();
    let names = named_harm(situation, request)?;
    let grain = Grain::of(situation.topology, situation.size(), block, request.grain);
    let mut draft = Draft::of(situation, request, &grain)?;
    let table = match request.table {
        _ if request.convert => draft.converted_table()?,
        Some(format) => draft.new_table(format)?,
        None => draft.changed_table()?,
    };
    // A converted table lists the same partitions; `before` can be given in the new sectors too.
    let before = if request.convert {
        table.partitions.clone()
    } else {
        stack.partitions.iter().filter(|one| fresh || !stack.is_window(one)).map(kept).collect()
    };
    draft.note(&table);
    let is_harming = !names.is_empty();
    if is_harming && request.wipe {
        draft.notes.push(format!(
            "of {names}, only the part at the position of the table is overwritten; to remove the rest, use \
             wipefs -a"
        ));
    }
    draft.wipe(&table, is_harming)?;
    let lost = match request.convert {
        true => Vec::new(),
        false => lost::find(medium, stack, (&table, block), fresh, request.wipe)?,
    };
    if !fresh && !request.convert && !request.wipe {
        draft.spare_unlisted(&table)?;
    }
    let Draft { notes, wipe, .. } = draft;
    let plan = Plan(Parts {
        disk,
        fresh,
        converts: request.convert.then_some(stack.block),
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

/// Names what a change to the table would destroy besides, and refuses that without a wipe. Also refuses to
/// change a table that may not be the disk's own.
fn named_harm(situation: &Situation<'_>, request: &Request) -> Result<String, PlanError> {
    let Situation { medium, stack, .. } = *situation;
    let fresh = request.table.is_some();
    let unchangeable = |why: &str| Err(PlanError::Unchangeable(why.to_owned()));
    let is_marked = straddle_layout::marker(medium, stack)?.is_some();
    if is_marked && crate::copy::is_unfinished(medium)? {
        if fresh && request.wipe {
            return Ok(String::new());
        }
        return unchangeable(
            "a copy to this disk is unfinished; complete the copy with 'straddle apply', or create a new \
             table with --wipe",
        );
    }
    if is_marked || crate::realign::unmarked(medium, stack).is_some() {
        return Err(PlanError::Unfinished);
    }
    let harmed = lost::harmed(medium, stack, fresh)?;
    let names = harmed.iter().map(|found| found.name()).collect::<Vec<_>>().join(" and ");
    if !harmed.is_empty() && !request.wipe {
        return Err(PlanError::WouldDestroy(format!("also holds {names}")));
    }
    if let TableKind::Content(content) = stack.kind
        && !fresh
        && beside(medium, stack)?.iter().any(|found| found.is_table())
    {
        let why = match rival_table(medium, stack)? {
            Some(_) => {
                "it also has a partition table. One of the two is a leftover, and straddle cannot determine \
                 which; first clear the leftover (wipefs)"
            }
            None => {
                "its table belongs to the array or is older than the array; assemble the array, and use the \
                 array as the target"
            }
        };
        return unchangeable(&format!("the whole disk holds {}: {why}", content.name()));
    }
    Ok(names)
}

fn no_table(kind: &TableKind) -> PlanError {
    let found = match kind {
        TableKind::Content(content) => content.to_string(),
        TableKind::Foreign(name) => format!("one of type {name}"),
        _ => "its contents are unknown".to_owned(),
    };
    PlanError::NoTable { found }
}

pub(crate) fn mbr_id(stack: &Stack) -> String {
    hex(&stack.disk_id.iter().rev().copied().collect::<Vec<u8>>())
}

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

struct Draft<'a> {
    situation: &'a Situation<'a>,
    request: &'a Request,
    grain: &'a Grain,
    identities: Identities,
    notes: Vec<String>,
    wipe: Vec<Span>,
    /// A kept optical file system: none of it is free space.
    optical: Option<Span>,
    /// Of the kept MBR: not zero, and no partition.
    slots: Vec<u32>,
}

impl<'a> Draft<'a> {
    fn of(situation: &'a Situation<'a>, request: &'a Request, grain: &'a Grain) -> Result<Self, PlanError> {
        let is_kept = request.table.is_none();
        let slots = match situation.stack.kind {
            TableKind::Mbr if is_kept => unlisted_slots(situation.medium, situation.stack)?,
            _ => Vec::new(),
        };
        let optical = if is_kept { optical_extent(situation.medium)? } else { None };
        let identities = Identities::new(request.seed);
        let (notes, wipe) = (Vec::new(), Vec::new());
        Ok(Self { situation, request, grain, identities, notes, wipe, optical, slots })
    }

    fn block(&self) -> BlockSize {
        self.situation.block()
    }

    fn too_small(&self) -> PlanError {
        PlanError::DiskTooSmall(self.situation.size())
    }

    fn last_of_gpt(&self, array_blocks: u64) -> Result<u64, PlanError> {
        self.situation.blocks().checked_sub(array_blocks + 2).ok_or_else(|| self.too_small())
    }

    fn usable_of_mbr(&self) -> (u64, u64) {
        let last = self.situation.blocks().min(mbr::LBAS).saturating_sub(1);
        (MBR_LEAD.get().div_ceil(self.block().get()), last)
    }

    fn empty_table(&mut self, format: Format) -> Result<Table, PlanError> {
        let ((first_usable, last_usable), entries, random) = match format {
            Format::Gpt => {
                let entries = self.request.entries.unwrap_or(GPT_ENTRIES);
                let array = array_sectors(entries, self.block());
                let usable = (array + 2, self.last_of_gpt(array)?);
                (usable, entries, guid_text(self.identities.guid()))
            }
            Format::Mbr => (self.usable_of_mbr(), 0, format!("{:08x}", self.identities.disk_id())),
        };
        if last_usable <= first_usable {
            return Err(self.too_small());
        }
        let id = self.request.disk_id.clone().unwrap_or(random);
        let (first_usable, last_usable) = (Lba::new(first_usable), Lba::new(last_usable));
        Ok(Table { format, id, first_usable, last_usable, entries, partitions: Vec::new() })
    }

    fn note(&mut self, table: &Table) {
        let (block, size) = (self.block(), self.situation.size());
        let mut notes = Vec::new();
        let reach = ByteCount::new(mbr::LBAS.saturating_mul(block.get()));
        if table.format == Format::Mbr && size > reach {
            let beyond = size.saturating_sub(reach);
            notes.push(format!(
                "an MBR can address only {reach} of this {size} disk, so the last {beyond} cannot be used"
            ));
        }
        for entry in &table.partitions {
            let number = entry.number;
            if entry.kind == kinds::ESP && entry.change == Change::New {
                let least = ByteCount::new(FAT32_CLUSTERS * block.get());
                if span_of(entry, block).is_some_and(|span| span.len() <= least) {
                    notes.push(format!(
                        "partition {number} is too small for FAT32 with {block}-byte sectors, which needs \
                         more than {least}; firmware need not support any other FAT"
                    ));
                }
                if entry.fs.as_deref().is_some_and(|fs| !matches!(fs, "vfat" | "fat32")) {
                    notes.push(format!(
                        "partition {number} is an EFI system partition, which must be FAT (fs=vfat)"
                    ));
                }
            }
            let stays = matches!(entry.change, Change::Kept | Change::Grown { .. });
            if stays && entry.slot != Slot::Extended {
                notes.extend(self.misplaced(entry).map(|misses| {
                    format!(
                        "partition {number} remains misaligned ({misses}), because it can be aligned only by \
                         moving its data"
                    )
                }));
            }
        }
        let mut entries = table.partitions.iter();
        if table.format == Format::Gpt
            && entries.clone().any(|entry| entry.bootable)
            && !entries.any(|entry| entry.kind == kinds::BIOS_BOOT)
        {
            notes.push(
                "the active flag has no effect in a GPT; a BIOS boot loader needs a partition of type \
                 bios"
                    .to_owned(),
            );
        }
        self.notes.append(&mut notes);
    }

    fn misplaced(&self, entry: &Entry) -> Option<String> {
        let start = span_of(entry, self.block())?.start();
        let misses = missed(self.situation.topology, start);
        (!misses.is_empty()).then(|| misses.join(", "))
    }

    /// Refuses to cover unlisted contents. A requested start may make them accessible again, with a note.
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
                Some(Place::Sector(lba)) => Lba::new(lba).byte(block) == lost.at.start(),
                None => false,
            });
            if !(is_requested && lost.is_led_to(table, block)) {
                return Err(PlanError::Unlisted { number, content: lost.what(), at: lost.at.start() });
            }
            self.notes.push(format!(
                "partition {number} starts at existing contents and makes them accessible: {}",
                lost.what()
            ));
        }
        Ok(())
    }

    fn wipe(&mut self, table: &Table, is_shared: bool) -> Result<(), PlanError> {
        if !self.request.wipe {
            return Ok(());
        }
        let block = self.block();
        let mut spans = Vec::new();
        let fresh = self.request.table.is_some();
        let fills = matches!(self.situation.stack.kind, TableKind::Content(_) | TableKind::Foreign(_));
        if fresh && (fills || is_shared) {
            let end = if table.format == Format::Mbr { Lba::new(1) } else { table.first_usable };
            let from = end.byte(block);
            let first = table.spans(block).map(Span::start).min().unwrap_or(from);
            spans.extend(Span::between(from, first.min(from.max(ByteOffset::new(WIPED.get())))));
        }
        spans
            .extend(table.new_spans(block).filter_map(|span| Span::new(span.start(), span.len().min(WIPED))));
        if fresh {
            spans.extend(self.marks_between(table)?);
        }
        self.wipe.extend(spans.into_iter().filter(|span| !span.is_empty()));
        Ok(())
    }

    /// Uncovered marks of an array member: the new table would be taken for the array's.
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
        let is_free = |span: &Span| !table.spans(block).any(|partition| partition.overlaps(*span));
        let marks = member_marks(self.situation.medium)?.into_iter().filter_map(in_blocks);
        Ok(marks.filter(is_free).take(MOST_MARKS).collect())
    }
}

pub(crate) fn missed(topology: &Topology, start: ByteOffset) -> Vec<&'static str> {
    let mut named = named_boundaries(topology);
    named.retain(|one| one.severity > Severity::Advice && !one.boundary.is_aligned(start));
    named.into_iter().map(|one| one.name).collect()
}

pub(crate) fn primary_is_damaged(stack: &Stack) -> bool {
    stack.problems.iter().any(|problem| matches!(problem, Problem::GptPrimaryDamaged { .. }))
}
