//! Copies of a disk to another one, with aligned partitions.
//!
//! Invariants: the source is only read. The new disk has a marker in its first sector until all data are durable and
//! read back; then the table replaces it. An interrupted copy starts over. Without consent, it begins only if the new
//! disk holds zeros wherever it writes.
//!
//! Partitions keep their numbers, types, identities, names and attributes, and the disk its identifier, so
//! the two disks must not be used at the same time.

mod error;
mod gap;
mod run;
mod source;

use std::path::{Path, PathBuf};

use crate::relocate::Move;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use straddle_device::Medium;
use straddle_device::topology::{Topology, USUAL_PHYSICAL};
use straddle_layout::types::guid_text;
use straddle_layout::{Content, Partition, PartitionType, Role, Stack, TableKind, beside, is_marker};
use straddle_units::{BlockSize, Boundary, ByteCount, ByteOffset, MIB, Span};

use crate::document;
use crate::encode::CurrentGpt;
use crate::fingerprint::Fingerprint;
use crate::grain::Grain;
use crate::guid::Seed;
use crate::lost::unrecognised;
use crate::plan::{
    Change, Entry, Format, GPT_ENTRIES, MOST_ENTRIES, Plan, Situation, Slot, array_sectors, mbr_id,
};
use crate::realign::unallocated::{Look, has_data};
use crate::realign::{ASLEEP, Reference, anchor, anchored, hibernated, is_empty, refer};
use crate::request::{Part, Place, Request, Size};
pub use error::CopyError;
use gap::Gap;
pub(crate) use run::is_unfinished;
pub use run::{Copied, CopyWatch, Stage, Unreadable};
pub use source::{Source, shared};

const SIZES: usize = 8;

/// What to copy, and how.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CopyWanted {
    /// Write over what is on the new disk.
    pub wipe: bool,
    /// A grain to use instead of 1 MiB.
    pub grain: Option<ByteCount>,
    /// The seed of new identifiers.
    pub seed: Seed,
}

/// A plan to copy a disk to another one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "Stored", into = "Stored")]
pub struct Copy(Stored);

/// What a [`Copy`] is made of.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Copy", title = "straddle realign --to")]
#[serde(deny_unknown_fields)]
pub struct Stored {
    /// The partition table of the new disk, which is written after all data has been copied.
    pub plan: Plan,
    /// The fingerprint of the disk that is copied.
    pub source: Fingerprint,
    /// The bytes of the source to copy, and their position on the new disk.
    pub extents: Vec<Move>,
    /// References to the old positions of partitions, each with the number of the partition.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub references: Vec<(u32, Reference)>,
    /// The partitions that are placed so that the data of a layer in them is aligned: the number of each, and
    /// the offset of that data in bytes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub anchors: Vec<(u32, ByteCount)>,
    /// The ranges before the first partition that are copied to the same position.
    pub lead: Vec<Span>,
    /// The contents of the new disk that will be lost.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub over: Vec<String>,
    /// Whether any data on the new disk may be overwritten.
    #[serde(default, rename = "wipe", skip_serializing_if = "std::ops::Not::not")]
    pub wipes: bool,
}

document::checked_parts!(Copy(Stored), CopyError);

impl Copy {
    /// How many bytes are copied.
    pub fn total(&self) -> ByteCount {
        ByteCount::new(self.extents.iter().fold(0_u64, |sum, one| sum.saturating_add(one.from.len().get())))
    }

    /// Whether the partition, or the data in it for which it is placed, starts on a boundary.
    fn is_aligned(&self, entry: &Entry) -> bool {
        let anchor = self.anchors.iter().find(|(number, _)| *number == entry.number);
        let grain = anchored(self.plan.grain, anchor.map_or(ByteCount::ZERO, |(_, at)| *at));
        let start = self.plan.span(entry).map(Span::start);
        entry.slot == Slot::Extended || start.is_none_or(|start| grain.is_aligned(start))
    }

    fn checked(self) -> Result<Self, CopyError> {
        let plan = &self.plan;
        let is_new = plan.fresh && plan.converts.is_none() && plan.wipe.is_empty();
        let entries = &plan.table.partitions;
        if !is_new || entries.iter().any(|entry| entry.change != Change::New) {
            return Err(invalid("it does not create a new table"));
        }
        if !self.over.is_empty() && !self.wipes {
            return Err(invalid("it overwrites contents of the new disk without --wipe"));
        }
        let places: Vec<Span> = (entries.iter())
            .filter(|entry| entry.slot != Slot::Extended)
            .filter_map(|entry| plan.span(entry))
            .collect();
        let mut starts: Vec<ByteOffset> = self.extents.iter().map(|extent| extent.to).collect();
        starts.sort_unstable();
        if starts.windows(2).any(|pair| pair[0] == pair[1]) {
            return Err(invalid("it copies to the same partition twice"));
        }
        let source = Span::first(self.source.size);
        for extent in &self.extents {
            let to = extent.destination();
            let goes_there = to.is_some_and(|to| {
                places.iter().any(|place| place.start() == to.start() && place.contains(to))
            });
            if !goes_there || !source.contains(extent.from) || extent.from.is_empty() {
                return Err(invalid(
                    "it copies data that is not on the source or would not be in a partition",
                ));
            }
        }
        if self.extents.len() != places.len() || entries.iter().any(|entry| !self.is_aligned(entry)) {
            return Err(invalid("a partition would be empty or misaligned"));
        }
        let room = gap::room(plan);
        let is_over = |span: &Span| !room.contains(*span) || !source.contains(*span);
        let is_twice = self.lead.windows(2).any(|pair| pair[1].start() < pair[0].end());
        if is_twice || self.lead.iter().any(is_over) {
            return Err(invalid(
                "the data to copy before the first partition does not exist or does not fit",
            ));
        }
        match self.references.iter().find(|(number, _)| plan.table.entry(*number).is_none()) {
            Some((number, _)) => Err(invalid(format!("there is no partition {number}"))),
            None => Ok(self),
        }
    }
}

fn invalid(why: impl Into<String>) -> CopyError {
    CopyError::Invalid(why.into())
}

/// Whether a copy of `source`, a disk with a table, can be planned.
pub fn can_be_copied(source: &Situation<'_>) -> bool {
    items(source).is_ok()
}

/// The name of a raw image for a copy of `image`: one that does not exist.
pub fn raw_name(image: &Path) -> PathBuf {
    let raw = image.with_extension("raw");
    if raw.exists() { straddle_device::image::raw_name(&image.display().to_string()).into() } else { raw }
}

/// The size of a new image with this `topology`: that of `source`, or more if its partitions need it.
pub fn new_size(
    source: &Situation<'_>,
    topology: &Topology,
    wanted: &CopyWanted,
) -> Result<ByteCount, CopyError> {
    let (items, format) = items(source)?;
    let mut size = source.size();
    // A larger disk can have a larger grain, which needs more.
    for _ in 0..SIZES {
        match places(&items, topology, size, (format, entries(source)), wanted) {
            Ok(_) => return Ok(size),
            Err(needed) => {
                size = ByteCount::new(needed.checked_next_multiple_of(MIB).ok_or(CopyError::TooLarge)?);
            }
        }
    }
    Err(CopyError::TooLarge)
}

/// The source's number, as a boot loader may be after a short array.
fn entries(source: &Situation<'_>) -> u32 {
    let is_gpt = source.stack.kind == TableKind::Gpt;
    let present = is_gpt.then(|| CurrentGpt::read(source.medium, source.stack).ok()).flatten();
    let entries = present.map_or(GPT_ENTRIES, |gpt| gpt.entries());
    if (1..=MOST_ENTRIES).contains(&entries) { entries } else { GPT_ENTRIES }
}

/// Else how many bytes are needed.
fn places(
    items: &[Item],
    topology: &Topology,
    size: ByteCount,
    (format, entries): (Format, u32),
    wanted: &CopyWanted,
) -> Result<Vec<ByteOffset>, u64> {
    let block = topology.logical.value();
    let ground = ground(topology, size, wanted);
    let reserve = match format {
        Format::Gpt => (1 + array_sectors(entries, block)) * block.get(),
        Format::Mbr => 0,
    };
    let end = ByteOffset::new(size.get().saturating_sub(reserve));
    let fitting = |is_tight| place(items, ground, is_tight).filter(|(_, last)| *last <= end);
    let needed = || place(items, ground, true).map_or(u64::MAX, |(_, end)| end.get().saturating_add(reserve));
    fitting(false).or_else(|| fitting(true)).map(|(starts, _)| starts).ok_or_else(needed)
}

const FIRST: ByteOffset = ByteOffset::new(MIB);

/// The starts of all items in the order of the source, and the end of the last one. Each keeps its start if
/// that is a boundary and free, or takes the next boundary: the next possible one if `is_tight`. If the data
/// of a layer would be off a boundary that its format cannot reach, the data are placed on it.
fn place(items: &[Item], ground: Ground, is_tight: bool) -> Option<(Vec<ByteOffset>, ByteOffset)> {
    let Ground { grain, drive, block } = ground;
    let (mut at, mut found) = (FIRST, Vec::new());
    for item in items {
        if item.logical.is_some() {
            at = grain.ceil(at)?.checked_add(block.bytes())?;
        }
        let wished = if is_tight { at } else { at.max(item.at.start()) };
        let start = anchored(grain, item.anchor(drive, block)).ceil(wished)?;
        let sectors = item.len.get().div_ceil(block.get());
        at = start.checked_add(block.bytes().checked_mul(sectors)?)?;
        found.push(start);
    }
    Some((found, at))
}

struct Item {
    at: Span,
    len: ByteCount,
    used: ByteCount,
    logical: Option<ByteOffset>,
    partition: Partition,
}

impl Item {
    fn anchor(&self, drive: Boundary, block: BlockSize) -> ByteCount {
        anchor(&self.partition, drive, block).unwrap_or_default()
    }
}

#[derive(Clone, Copy)]
struct Ground {
    grain: Boundary,
    /// More than advice.
    drive: Boundary,
    block: BlockSize,
}

fn ground(topology: &Topology, size: ByteCount, wanted: &CopyWanted) -> Ground {
    let block = topology.logical.value();
    let grain = |asked| Grain::of(topology, size, block, asked).start;
    Ground { grain: grain(wanted.grain), drive: grain(wanted.grain.or(Some(USUAL_PHYSICAL))), block }
}

/// Makes a plan to copy `source` to `target`. The stack of the source must have been read with its layers.
pub fn plan(source: &Situation<'_>, target: &Situation<'_>, wanted: &CopyWanted) -> Result<Copy, CopyError> {
    let block = target.block();
    let over = occupants(target.medium, target.stack)?;
    if !over.is_empty() && !wanted.wipe {
        return Err(CopyError::NotEmpty(over));
    }
    let (mut items, format) = items(source)?;
    if source.block() != block {
        crate::contents::check(source.medium, source.stack, block)?;
    }
    let (size, entries) = (target.size(), entries(source));
    let starts = places(&items, target.topology, size, (format, entries), wanted)
        .or_else(|_| {
            items.iter_mut().for_each(|item| item.len = item.used);
            places(&items, target.topology, size, (format, entries), wanted)
        })
        .map_err(|needed| CopyError::TooSmall { needed, size })?;
    check_tails(source, &items, wanted)?;
    let ground = ground(target.topology, size, wanted);
    let anchor = |item: &Item| (item.partition.number, item.anchor(ground.drive, block));
    let anchors: Vec<_> = items.iter().map(anchor).filter(|(_, at)| *at != ByteCount::ZERO).collect();
    let mut request = request(source, target, wanted, (&items, &starts), format);
    request.allow_misaligned = !anchors.is_empty();
    let plan = table(target, &request)?;
    let mut extents = Vec::new();
    let mut references = Vec::new();
    for (item, start) in items.iter().zip(&starts) {
        let from = Span::new(item.at.start(), item.len.min(item.at.len())).ok_or(CopyError::TooLarge)?;
        extents.push(Move { from, to: *start });
        let entry =
            plan.table.partitions.iter().find(|entry| plan.span(entry).map(Span::start) == Some(*start));
        let Some(entry) = entry.filter(|_| item.at.start() != *start) else { continue };
        let found = references_of(source.medium, item, entry, (format, block));
        references.extend(found.into_iter().map(|reference| (entry.number, reference)));
    }
    let gap = Gap::of(source, &plan)?;
    let (plan, lead) = (plan.noting(gap.notes()), gap.copied);
    let (source, wipes) = (source.fingerprint()?, wanted.wipe);
    Copy(Stored { plan, source, extents, references, anchors, lead, over, wipes }).checked()
}

fn check_tails(source: &Situation<'_>, items: &[Item], wanted: &CopyWanted) -> Result<(), CopyError> {
    for item in items.iter().filter(|_| !wanted.wipe) {
        let tail = item.at.len().checked_sub(item.len).filter(|tail| *tail > ByteCount::ZERO);
        let tail = tail.and_then(|len| Span::new(item.at.end().checked_back(len)?, len));
        if let Some(tail) = tail
            && has_data(source.medium, (item.at, tail), source.block(), Look::Whole)?
        {
            return Err(CopyError::Unclaimed { number: item.partition.number });
        }
    }
    Ok(())
}

fn references_of(
    medium: &dyn Medium,
    item: &Item,
    entry: &Entry,
    (format, block): (Format, BlockSize),
) -> Vec<Reference> {
    let Some(start) = entry.start.to_bytes(block) else { return Vec::new() };
    let is_nothing = |one: &Reference| *one == Reference::BiosBoot && is_empty(medium, item.partition.span);
    let found = refer::references(&item.partition, entry, format, start, block, None);
    found.into_iter().filter(|one| !is_nothing(one)).collect()
}

fn table(target: &Situation<'_>, request: &Request) -> Result<Plan, CopyError> {
    let blank = straddle_device::MemoryMedium::sparse(Vec::new(), target.size());
    let stack = straddle_layout::read_stack(&blank, Some(target.block()), None)?;
    let bare = Situation { medium: &blank, stack: &stack, ..*target };
    Ok(crate::plan::make(&bare, request)?.for_disk(target.fingerprint()?))
}

fn request(
    source: &Situation<'_>,
    target: &Situation<'_>,
    wanted: &CopyWanted,
    (items, starts): (&[Item], &[ByteOffset]),
    format: Format,
) -> Request {
    let stack = source.stack;
    let container = stack.partitions.iter().find(|partition| partition.role == Role::Extended);
    let part = |(item, start): (&Item, &ByteOffset)| {
        let entry = crate::plan::kept(&item.partition);
        Part {
            size: Size::Sectors(item.len.get().div_ceil(target.block().get())),
            start: Some(Place::Byte(ByteCount::new(start.get()))),
            kind: Some(entry.kind),
            name: entry.name,
            fs: None,
            logical: item.logical.is_some(),
            bootable: entry.bootable,
            attributes: entry.attributes,
            uuid: entry.uuid,
            number: Some(entry.number),
        }
    };
    Request {
        table: Some(format),
        parts: items.iter().zip(starts).map(part).collect(),
        grain: wanted.grain,
        disk_id: match format {
            Format::Gpt => stack.disk_id.as_slice().try_into().ok().map(guid_text),
            Format::Mbr => Some(mbr_id(stack)).filter(|_| stack.disk_id.len() == 4),
        },
        entries: Some(entries(source)).filter(|_| format == Format::Gpt),
        extended: container.and_then(|container| match container.kind {
            PartitionType::Mbr(kind) => Some(kind),
            _ => None,
        }),
        ..Request::new(wanted.seed)
    }
}

fn items(source: &Situation<'_>) -> Result<(Vec<Item>, Format), CopyError> {
    let Situation { stack, medium, .. } = *source;
    let refuse = |why: String| Err(CopyError::Source(why));
    if stack.partitions.iter().any(is_marker) {
        return refuse(crate::error::UNFINISHED.to_owned());
    }
    if let Some(problem) = stack.cut_short().next() {
        return refuse(problem.to_string());
    }
    // The copy would be resumed with the old places in memory, and another table.
    let asleep = hibernated(stack).map(|number| (number, ASLEEP));
    if let Some((number, why)) = asleep.or_else(|| refer::immovable(stack, |_| true)) {
        return refuse(format!("partition {number}: {why}"));
    }
    let format = match &stack.kind {
        TableKind::Gpt => Format::Gpt,
        TableKind::Mbr => Format::Mbr,
        TableKind::Content(content) => {
            return refuse(format!(
                "{content} fills the whole disk from byte 0, which is aligned, so there is no partition to \
                 move"
            ));
        }
        _ => return refuse("the disk has neither a GPT nor an MBR".to_owned()),
    };
    if stack.is_hybrid_iso()
        || beside(medium, stack)?.iter().any(|found| !found.is_table() && !found.is_covered)
    {
        return refuse("the disk also has contents outside partitions".to_owned());
    }
    let container = stack.partitions.iter().find(|p| p.role == Role::Extended);
    let mut items = Vec::new();
    for partition in stack.partitions.iter().filter(|p| p.role != Role::Extended) {
        if partition.span.end().get() > medium.len().get() {
            return refuse(format!("partition {} reaches past the end of the disk", partition.number));
        }
        let logical = matches!(partition.role, Role::Logical { .. })
            .then(|| container.map_or(partition.span.start(), |container| container.span.start()));
        let used = refer::used(partition, source.block());
        let (at, len) = (partition.span, partition.span.len());
        items.push(Item { at, len, used, logical, partition: partition.clone() });
    }
    if items.is_empty() {
        return refuse("the disk has no partitions".to_owned());
    }
    items.sort_by_key(|item| {
        let number = if item.logical.is_some() { item.partition.number } else { 0 };
        (item.logical.unwrap_or(item.at.start()), number)
    });
    Ok((items, format))
}

pub(crate) fn occupants(medium: &dyn Medium, stack: &Stack) -> Result<Vec<String>, CopyError> {
    if is_unfinished(medium)? {
        return Ok(vec!["an unfinished copy".to_owned()]);
    }
    let mut found = Vec::new();
    match &stack.kind {
        TableKind::Gpt | TableKind::HybridMbr => found.push("a GPT".to_owned()),
        TableKind::Mbr => found.push("an MBR".to_owned()),
        TableKind::Content(content) => found.push(content.name().to_owned()),
        TableKind::Foreign(name) => found.push(format!("a table ({name})")),
        TableKind::None | TableKind::Kernel => {}
    }
    for partition in stack.partitions.iter().filter(|p| p.role != Role::Extended).take(8) {
        let content = partition.content.map_or("no known content", Content::name);
        found.push(format!("partition {} ({content}, {})", partition.number, partition.span.len()));
    }
    found.extend(beside(medium, stack)?.iter().map(|other| other.name().to_owned()));
    if found.is_empty() {
        found.extend(unrecognised(medium, stack)?.map(str::to_owned));
    }
    Ok(found)
}
