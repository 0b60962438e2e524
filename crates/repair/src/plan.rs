//! A plan: the table that a disk is to have, and why, as a value that can be kept and judged before anything is written.
//!
//! The law of this module: a plan is made for one disk and knows it by a fingerprint; every plan, made here or read from a
//! file, has passed [`Plan::validate`]: nothing overlaps, nothing is outside, every field fits its place on disk.

mod convert;
mod edit;
mod place;
mod spared;
mod validate;

use std::fmt;

use serde::{Deserialize, Serialize};
use straddle_audit::named_boundaries;
use straddle_device::Medium;
use straddle_device::topology::Topology;
use straddle_layout::types::guid_text;
use straddle_layout::{
    Partition, PartitionType, Problem, Role, Stack, TableKind, beside, is_blank, member_marks, rival_table,
    types,
};
use straddle_units::{BlockSize, ByteCount, ByteOffset, Lba, LbaCount, Span};

use crate::error::PlanError;
use crate::fingerprint::Fingerprint;
use crate::grain::{Considered, Grain};
use crate::guid::Identities;
use crate::kinds;
use crate::lost::{self, Lost};
use crate::request::Request;
use spared::Spared;

/// The version of a plan's form.
pub const VERSION: u32 = 1;

/// The entries of a new GPT, as the UEFI specification wants at least and every tool makes.
pub(crate) const GPT_ENTRIES: u32 = 128;
/// The size of one.
pub(crate) const GPT_ENTRY_BYTES: u64 = 128;
/// An MBR counts blocks in 32 bits.
pub(crate) const MBR_LBAS: u64 = 1 << 32;
/// What is left before the first partition of an MBR disk at least, for boot loaders: the old track of 63 sectors.
const MBR_LEAD: ByteCount = ByteCount::new(63 * 512);
/// How much a wipe removes at the start of a partition: every signature that blkid knows there, Btrfs's at 64 KiB the last.
const WIPED: ByteCount = ByteCount::new(68 * 1024);
/// More marks of a member than this are not wiped: there are not so many kinds.
pub(crate) const MOST_MARKS: usize = 32;
/// FAT32 has at least 65,525 clusters, of a sector at least (Microsoft, FAT specification of 2000).
const FAT32_CLUSTERS: u64 = 65_525;

/// A table's format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Format {
    /// GUID partition table.
    Gpt,
    /// Master boot record, "dos".
    Mbr,
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Gpt => "GPT",
            Self::Mbr => "MBR",
        })
    }
}

/// What a partition is for the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Slot {
    /// An entry of the table itself.
    Primary,
    /// The container of logical partitions.
    Extended,
    /// A logical partition.
    Logical {
        /// The sector of its extended boot record.
        ebr: u64,
    },
}

/// What becomes of a partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Change {
    /// It is as it was: its entry keeps every bit.
    Kept,
    /// It is new.
    New,
    /// It ends later.
    Grown {
        /// How many sectors it had.
        from: u64,
    },
}

/// A partition of the table.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Entry {
    /// Its number.
    pub number: u32,
    /// First sector.
    pub start: u64,
    /// Number of sectors.
    pub sectors: u64,
    /// What it is for the table.
    pub slot: Slot,
    /// A GUID in capitals, or an MBR type in hexadecimal digits.
    #[serde(rename = "type")]
    pub kind: String,
    /// Its identity (GPT).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uuid: Option<String>,
    /// Its name (GPT).
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// Its attribute bits (GPT).
    #[serde(default)]
    pub attributes: u64,
    /// Its active flag (MBR).
    #[serde(default)]
    pub bootable: bool,
    /// What becomes of it.
    pub change: Change,
    /// The file system that is to be made in it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fs: Option<String>,
    /// Why it is where it is.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub why: Vec<String>,
}

/// A partition table.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Table {
    /// Its format.
    pub format: Format,
    /// The disk's identity: a GUID, or eight hexadecimal digits.
    pub id: String,
    /// The first sector that partitions may use.
    pub first_usable: u64,
    /// The last one.
    pub last_usable: u64,
    /// How many entries the array of a GPT has; 0 for an MBR.
    pub entries: u32,
    /// The partitions, by number.
    pub partitions: Vec<Entry>,
}

/// Bytes that are overwritten with zeros once the table is written.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Wipe {
    /// First byte.
    pub start: u64,
    /// Number of bytes.
    pub len: u64,
}

/// A plan.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    /// [`VERSION`].
    pub version: u32,
    /// The disk that it is for.
    pub disk: Fingerprint,
    /// Whether the table is made anew; else the present one is changed.
    pub fresh: bool,
    /// The sector size that the present table counts in, where the plan says it again in the disk's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub converts: Option<u64>,
    /// Whether both copies of a GPT are written anew where they belong, the backup at the disk's end.
    pub relocate_backup: bool,
    /// What was there.
    pub before: Vec<Entry>,
    /// The table.
    pub table: Table,
    /// Starts are multiples of so many bytes …
    pub grain: u64,
    /// … from this byte on.
    pub phase: u64,
    /// The boundaries that were considered for the grain.
    pub considered: Vec<Considered>,
    /// What is overwritten with zeros.
    #[serde(default)]
    pub wipe: Vec<Wipe>,
    /// What is on the disk and is not reached from the table.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub lost: Vec<Lost>,
    /// What is worth knowing before it is applied.
    pub notes: Vec<String>,
    /// Where new identities came from.
    pub seed: String,
}

/// A disk, and what is on it.
#[derive(Clone, Copy)]
pub struct Situation<'a> {
    /// Its bytes.
    pub medium: &'a dyn Medium,
    /// Its sectors.
    pub topology: &'a Topology,
    /// What is on it, read for its logical sector.
    pub stack: &'a Stack,
    /// Its serial number.
    pub serial: Option<&'a str>,
}

impl Situation<'_> {
    pub(crate) fn size(&self) -> ByteCount {
        self.medium.len()
    }

    /// The sector in which the new table counts.
    pub(crate) fn block(&self) -> BlockSize {
        self.topology.logical.value()
    }

    pub(crate) fn blocks(&self) -> u64 {
        self.block().blocks_floor(self.size()).get()
    }
}

impl Plan {
    /// The sector in which the table counts.
    pub fn block(&self) -> Result<BlockSize, PlanError> {
        BlockSize::new(self.disk.sector).map_err(|error| PlanError::Invalid(error.to_string()))
    }

    /// The bytes of an entry.
    pub fn span(&self, entry: &Entry) -> Option<Span> {
        span_of(entry, self.block().ok()?)
    }

    /// The plan as JSON.
    pub fn to_json(&self) -> Result<String, serde_json::Error> {
        serde_json::to_string_pretty(self)
    }

    /// Reads a plan that was kept.
    pub fn from_json(text: &str) -> Result<Self, PlanError> {
        let version = serde_json::from_str::<serde_json::Value>(text)
            .map_err(|error| PlanError::Invalid(error.to_string()))?["version"]
            .as_u64();
        if version != Some(u64::from(VERSION)) {
            return Err(PlanError::Invalid(format!(
                "its version is {}, and this program reads version {VERSION}",
                version.map_or_else(|| "missing".to_owned(), |version| version.to_string())
            )));
        }
        let plan: Self = serde_json::from_str(text).map_err(|error| PlanError::Invalid(error.to_string()))?;
        plan.validate()?;
        Ok(plan)
    }
}

pub(crate) fn span_of(entry: &Entry, block: BlockSize) -> Option<Span> {
    Span::of_blocks(Lba::new(entry.start), LbaCount::new(entry.sectors), block)
}

/// Makes a plan of a request for a disk.
pub fn make(situation: &Situation<'_>, request: &Request) -> Result<Plan, PlanError> {
    let (size, block) = (situation.size(), situation.block());
    let fingerprint =
        Fingerprint::of(situation.medium, situation.stack, block, situation.serial.map(str::to_owned))?;
    let fresh = request.table.is_some();
    let harmed = lost::harmed(situation.medium, situation.stack, fresh)?;
    let names = harmed.iter().map(|found| found.name()).collect::<Vec<_>>().join(" and ");
    if !harmed.is_empty() && !request.wipe {
        return Err(PlanError::WouldHarm { names });
    }
    if let TableKind::Content(content) = situation.stack.kind
        && !fresh
        && beside(situation.medium, situation.stack)?.iter().any(|found| found.is_table())
    {
        let name = content.name();
        return Err(match rival_table(situation.medium, situation.stack)? {
            Some(_) => PlanError::TwoOwners { name },
            None => PlanError::NotItsTable { name },
        });
    }
    let grain = Grain::of(situation.topology, size, block, request.grain);
    let mut draft = Draft {
        situation,
        request,
        grain: &grain,
        identities: Identities::new(request.seed),
        notes: Vec::new(),
        wipe: Vec::new(),
        spared: if fresh { Spared::default() } else { Spared::of(situation)? },
    };
    let table = match request.table {
        _ if request.convert => draft.converted_table()?,
        Some(format) => draft.new_table(format)?,
        None => draft.changed_table()?,
    };
    // Where a table is converted, what it lists can be said in the new sectors too.
    let before = if request.convert {
        table.partitions.clone()
    } else {
        situation.stack.partitions.iter().map(kept).collect()
    };
    draft.note(&table);
    draft.note_unknown()?;
    if !harmed.is_empty() && request.wipe {
        draft
            .notes
            .push(format!("{names}: only what the table covers is overwritten; wipefs -a removes the rest"));
    }
    draft.wipe(&table, !harmed.is_empty())?;
    let lost = match request.convert {
        true => Vec::new(),
        false => lost::find(situation.medium, situation.stack, (&table, block), fresh, request.wipe)?,
    };
    let Draft { notes, wipe, .. } = draft;
    let plan = Plan {
        version: VERSION,
        disk: fingerprint,
        fresh,
        converts: request.convert.then(|| situation.stack.block.get()),
        relocate_backup: request.relocate_backup,
        before,
        table,
        grain: grain.start.size().get(),
        phase: grain.start.phase().get(),
        considered: grain.considered.clone(),
        wipe,
        lost,
        notes,
        seed: request.seed.to_string(),
    };
    plan.validate()?;
    Ok(plan)
}

/// A partition as it is, as an entry that keeps it.
pub(crate) fn kept(partition: &Partition) -> Entry {
    let kind = match partition.kind {
        PartitionType::Guid(guid) => guid_text(guid),
        PartitionType::Mbr(id) => types::mbr_text(id),
        PartitionType::Unknown => String::new(),
    };
    let slot = match partition.role {
        Role::Primary => Slot::Primary,
        Role::Extended => Slot::Extended,
        Role::Logical { ebr } => Slot::Logical { ebr: ebr.get() },
    };
    let attributes = &partition.attributes;
    Entry {
        number: partition.number,
        start: partition.start.get(),
        sectors: partition.count.get(),
        slot,
        kind,
        uuid: attributes.guid.map(guid_text),
        name: attributes.name.clone(),
        attributes: attributes.gpt,
        bootable: attributes.bootable,
        change: Change::Kept,
        fs: None,
        why: Vec::new(),
    }
}

/// A plan in the making.
struct Draft<'a> {
    situation: &'a Situation<'a>,
    request: &'a Request,
    grain: &'a Grain,
    identities: Identities,
    notes: Vec<String>,
    wipe: Vec<Wipe>,
    /// What is on the disk beside its table and stays.
    spared: Spared,
}

impl Draft<'_> {
    fn block(&self) -> BlockSize {
        self.situation.block()
    }

    /// A table with nothing in it, and what of the disk it can use.
    fn empty_table(&mut self, format: Format) -> Result<Table, PlanError> {
        let blocks = self.situation.blocks();
        let too_small = || PlanError::DiskTooSmall(self.situation.size());
        let (first_usable, last_usable, entries) = match format {
            Format::Gpt => {
                let array = (u64::from(GPT_ENTRIES) * GPT_ENTRY_BYTES).div_ceil(self.block().get());
                let last = blocks.checked_sub(array + 2).ok_or_else(too_small)?;
                (array + 2, last, GPT_ENTRIES)
            }
            Format::Mbr => {
                let last = blocks.min(MBR_LBAS).checked_sub(1).ok_or_else(too_small)?;
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
        Ok(Table { format, id, first_usable, last_usable, entries, partitions: Vec::new() })
    }

    /// What is worth knowing of a table.
    fn note(&mut self, table: &Table) {
        let (block, size) = (self.block(), self.situation.size());
        let mut notes = Vec::new();
        let reach = ByteCount::new(MBR_LBAS.saturating_mul(block.get()));
        if table.format == Format::Mbr && size > reach {
            notes.push(format!(
                "an MBR reaches {reach} of this {size} disk: the last {} cannot be used",
                size - reach
            ));
        }
        for entry in &table.partitions {
            let number = entry.number;
            if entry.kind == kinds::ESP && entry.change == Change::New {
                let least = ByteCount::new(FAT32_CLUSTERS * block.get());
                let is_small = span_of(entry, block).is_some_and(|span| span.len() <= least);
                if is_small {
                    notes.push(format!(
                        "partition {number}: FAT32 on {block}-byte sectors needs more than {least}; firmware is only bound to read FAT32"
                    ));
                }
                if entry.fs.as_deref().is_some_and(|fs| !matches!(fs, "vfat" | "fat32")) {
                    notes.push(format!(
                        "partition {number}: firmware reads an EFI system partition only as FAT (fs=vfat)"
                    ));
                }
            }
            if entry.change != Change::New && entry.slot != Slot::Extended {
                notes.extend(self.misplaced(entry).map(|misses| {
                    format!("partition {number} stays where it is, off its {misses}: only moving its data would align it")
                }));
            }
        }
        let boots_by_bios = table.partitions.iter().any(|entry| entry.kind == kinds::BIOS_BOOT);
        if table.format == Format::Gpt
            && table.partitions.iter().any(|entry| entry.bootable)
            && !boots_by_bios
        {
            notes.push(
                "the active flag means nothing in a GPT; a BIOS boot loader wants a partition of type bios"
                    .to_owned(),
            );
        }
        self.notes.append(&mut notes);
    }

    /// Notes that a new table goes over something that nobody knows.
    fn note_unknown(&mut self) -> Result<(), PlanError> {
        let Situation { medium, stack, .. } = *self.situation;
        if self.request.table.is_some() && stack.kind == TableKind::None && !is_blank(medium)? {
            self.notes.push(
                "the disk is not blank, and nothing on it is recognised: look at it before you write over it"
                    .to_owned(),
            );
        }
        Ok(())
    }

    /// The boundaries above advice that an entry's start is not on.
    fn misplaced(&self, entry: &Entry) -> Option<String> {
        let start = span_of(entry, self.block())?.start();
        let misses: Vec<&str> = named_boundaries(self.situation.topology)
            .into_iter()
            .filter(|named| {
                named.rule.severity > straddle_audit::Severity::Advice && !named.boundary.is_aligned(start)
            })
            .map(|named| named.name)
            .collect();
        (!misses.is_empty()).then(|| misses.join(", "))
    }

    /// Lists what a wipe removes, if one is asked for.
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
            // Behind the table, up to the first partition. An MBR is one sector, whatever is left free behind it.
            let behind = if table.format == Format::Mbr { 1 } else { table.first_usable };
            let from = ByteOffset::new(behind * block.get());
            let end = first.unwrap_or(from).min(ByteOffset::new(WIPED.get().max(from.get())));
            spans.extend(end.checked_since(from).and_then(|len| Span::new(from, len)));
        }
        for entry in table.partitions.iter().filter(|e| e.change == Change::New && e.slot != Slot::Extended) {
            spans.extend(
                span_of(entry, block).and_then(|span| Span::new(span.start(), span.len().min(WIPED))),
            );
        }
        if self.request.table.is_some() {
            spans.extend(self.marks_between(table)?);
        }
        let wipe = |span: &Span| Wipe { start: span.start().get(), len: span.len().get() };
        self.wipe.extend(spans.iter().filter(|span| !span.is_empty()).map(wipe));
        Ok(())
    }

    /// What marks the disk as a member of an array where the new table leaves it: the table would be the array's.
    fn marks_between(&self, table: &Table) -> Result<Vec<Span>, PlanError> {
        let block = self.block();
        let free = match table.format {
            Format::Gpt => (table.first_usable, table.last_usable + 1),
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

/// Whether the primary copy of a GPT is not the one that counts.
pub(crate) fn primary_is_damaged(stack: &Stack) -> bool {
    stack.problems.iter().any(|problem| matches!(problem, Problem::GptPrimaryDamaged { .. }))
}
