//! What a plan makes unreachable: partitions that the new table no longer lists, and content outside of them.
//! A plan lists it, by name and size.
//!
//! Contents that no partition lists are looked for at the start of free space, after other contents in it, one track
//! after these, on the first MiBs, cylinders and GiBs, and where a new partition begins.

use std::collections::BTreeSet;
use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use straddle_device::{Medium, ReadError};
use straddle_layout::layer::Layer;
use straddle_layout::view::View;
use straddle_layout::{
    Beside, Content, Partition, Role, Stack, TableKind, beside, first_written, is_blank, is_erased,
    optical_extent, read_layers,
};
use straddle_units::{BlockSize, ByteCount, ByteOffset, GIB, MIB, Span};

use crate::error::PlanError;
use crate::fingerprint::bytes_of;
use crate::plan::{Change, Slot, Table, WIPED, span_of};

/// Further ones are listed by size only.
const MAX_LOOKED_INTO: usize = 128;

/// MiBs, cylinders and GiBs of a space that are looked at for contents.
const EVENS: u64 = 64;

/// The sectors of a track, and the tracks of a cylinder, in DOS's geometry of large disks.
const TRACK: u64 = 63;
const TRACKS: u64 = 255;

const UNKNOWN: &str = "unrecognised data";

/// Contents of the disk that the new table makes inaccessible.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Lost {
    /// The partition's number; absent for content of the whole disk or outside all partitions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub partition: Option<u32>,
    /// The content's type, as blkid names it; absent if it is not recognised.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content: Option<String>,
    /// The content's own label; absent if it has none.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub label: String,
    /// The bytes that the content occupies.
    pub at: Span,
    /// Whether the new table overwrites part of the content; absent if it does not.
    #[serde(default, rename = "overwritten", skip_serializing_if = "std::ops::Not::not")]
    pub is_overwritten: bool,
}

impl Lost {
    pub(crate) fn what(&self) -> String {
        let unknown = if self.partition.is_some() { "no known content" } else { UNKNOWN };
        let content = self.content.as_deref().unwrap_or(unknown);
        if self.label.is_empty() { content.to_owned() } else { format!("{content} \"{}\"", self.label) }
    }

    pub(crate) fn is_led_to(&self, table: &Table, block: BlockSize) -> bool {
        table.new_spans(block).any(|span| span.start() == self.at.start() && span.contains(self.at))
    }

    pub(crate) fn outside(at: Span) -> Self {
        Self::new(None, None, at)
    }

    fn new(partition: Option<u32>, content: Option<&str>, at: Span) -> Self {
        let content = content.map(str::to_owned);
        Self { partition, content, label: String::new(), at, is_overwritten: false }
    }

    fn of(partition: Option<u32>, layer: Layer, at: Span) -> Self {
        Self { label: layer.name, ..Self::new(partition, Some(layer.kind.name()), at) }
    }
}

impl fmt::Display for Lost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.partition {
            Some(number) => write!(f, "partition {number}: ")?,
            None if self.at.start() != ByteOffset::ZERO => write!(f, "outside partitions: ")?,
            None => write!(f, "the whole disk: ")?,
        }
        let (start, size) = (self.at.start(), self.at.len());
        write!(f, "{}, {size} ({} bytes) from byte {start}", self.what(), size.get())
    }
}

pub(crate) fn find(
    medium: &dyn Medium,
    stack: &Stack,
    (table, block): (&Table, BlockSize),
    fresh: bool,
    wipe: bool,
) -> Result<Vec<Lost>, PlanError> {
    let drive = View::of_drive(medium);
    let mut found = Vec::new();
    let whole = Span::first(medium.len());
    let fills = match stack.kind {
        TableKind::Content(content) => Some(content.name()),
        TableKind::Foreign(name) => Some(name),
        _ => None,
    };
    if fresh && let Some(name) = fills {
        let layer = read_layers(&drive, whole, Some(stack.block));
        let label = layer.map(|layer| layer.name).unwrap_or_default();
        found.push(Lost { label, ..Lost::new(None, Some(name), whole) });
    }
    if fresh && unrecognised(medium, stack)?.is_some() {
        found.push(Lost::outside(whole));
    }
    let harmed = harmed(medium, stack, fresh)?;
    found.extend(harmed.iter().map(|harmed| Lost::new(None, Some(harmed.name()), whole)));
    let is_gone = |one: &&Partition| one.role != Role::Extended && (fresh || !stack.is_window(one));
    let partitions = stack.partitions.iter().filter(is_gone);
    let stays = |span: Span| {
        table.partitions.iter().any(|entry| {
            let there = span_of(entry, block);
            let start = match entry.change {
                Change::Moved { from, .. } => from.to_bytes(block),
                _ => there.map(Span::start),
            };
            let kept = start == Some(span.start());
            kept && (entry.change != Change::New || (there == Some(span) && !wipe))
        })
    };
    for (index, partition) in partitions.enumerate().filter(|(_, partition)| !stays(partition.span)) {
        let (number, at) = (Some(partition.number), partition.span);
        let looked = (index < MAX_LOOKED_INTO).then(|| read_layers(&drive, at, Some(stack.block)));
        found.push(match looked.flatten() {
            Some(layer) => Lost::of(number, layer, at),
            None => Lost::new(number, partition.content.map(Content::name), at),
        });
    }
    if table.partitions.iter().any(|entry| matches!(entry.change, Change::New | Change::Grown { .. })) {
        let mut unlisted = unlisted(medium, stack, (table, block));
        unlisted.retain(|lost| {
            let is_reached = !wipe && lost.is_led_to(table, block);
            !is_reached && !found.iter().any(|other| other.at.overlaps(lost.at))
        });
        found.extend(unlisted);
    }
    if wipe {
        let mut wiped = Vec::new();
        for span in table.new_spans(block).filter(|span| !found.iter().any(|lost| lost.at.overlaps(*span))) {
            let head = Span::new(span.start(), span.len().min(WIPED)).unwrap_or(span);
            wiped.extend(first_written(medium, head)?.map(|_| Lost::outside(head)));
        }
        found.extend(wiped);
    }
    Ok(found)
}

pub(crate) fn unlisted(medium: &dyn Medium, stack: &Stack, (table, block): (&Table, BlockSize)) -> Vec<Lost> {
    let claimed = stack.partitions.iter().filter(|partition| partition.role != Role::Extended);
    let gaps = Span::first(medium.len()).gaps(claimed.map(|partition| partition.span));
    let taken = table.partitions.iter().filter(|entry| entry.slot != Slot::Extended).filter_map(|entry| {
        let span = span_of(entry, block)?;
        match entry.change {
            Change::New => Some(span),
            Change::Grown { from } => {
                let old = Span::of_blocks(entry.start, from, block)?;
                Span::between(old.end(), span.end())
            }
            Change::Kept | Change::Moved { .. } => None,
        }
    });
    let mut all: Vec<Lost> = Vec::new();
    for span in taken {
        for gap in gaps.iter().filter(|gap| gap.overlaps(span)) {
            let mut found = reaching(medium, *gap, span, block);
            // Some contents are found from their end.
            if gap.contains(span) && !found.iter().any(|(at, _)| at.start() == span.start()) {
                let layer = read_layers(&View::of_drive(medium), span, Some(block));
                found.extend(layer.map(|layer| (span, layer)));
            }
            found.retain(|(at, _)| !all.iter().any(|lost| lost.at.overlaps(*at)));
            all.extend(found.into_iter().map(|(at, layer)| Lost::of(None, layer, at)));
        }
    }
    all
}

/// `None` of a blank disk.
pub(crate) fn unrecognised(medium: &dyn Medium, stack: &Stack) -> Result<Option<&'static str>, ReadError> {
    match stack.kind {
        TableKind::Kernel => Ok(Some("partitions of a table that only the kernel reads")),
        TableKind::None if !is_blank(medium)? => Ok(Some(UNKNOWN)),
        _ => Ok(None),
    }
}

/// The content outside the table that a plan would destroy. A change of the present table spares the file
/// system of an optical medium, no space of which counts as free, and content that partitions cover.
pub(crate) fn harmed(medium: &dyn Medium, stack: &Stack, fresh: bool) -> Result<Vec<Beside>, PlanError> {
    let has_extent = !fresh && optical_extent(medium)?.is_some();
    let is_medium = |found: &Beside| has_extent && found.is_optical();
    let is_spared = |found: &Beside| !fresh && (is_medium(found) || found.is_covered);
    Ok(beside(medium, stack)?.into_iter().filter(|found| !found.is_table() && !is_spared(found)).collect())
}

/// Where a partition may begin at or after `from`: there, a track later, and on the first `count` boundaries
/// of each kind. DOS used cylinders, and a track later; installers use GiBs and 1 MiB.
fn likely(from: ByteOffset, count: u64, block: BlockSize) -> impl Iterator<Item = u64> {
    let track = block.bytes().get() * TRACK;
    let at = from.get();
    let kinds = [(MIB, 0), (track * TRACKS, 0), (track * TRACKS, track), (GIB, 0), (GIB, MIB)];
    let on = move |(size, past): (u64, u64)| {
        let first = at.max(1).next_multiple_of(size);
        (0..count).map(move |index| first.saturating_add(index * size).saturating_add(past))
    };
    [at, at.saturating_add(track)].into_iter().chain(kinds.into_iter().flat_map(on))
}

/// Contents may hold zeros in `span`.
pub(crate) fn reaching(medium: &dyn Medium, gap: Span, span: Span, block: BlockSize) -> Vec<(Span, Layer)> {
    let mut starts: BTreeSet<u64> =
        likely(gap.start(), EVENS, block).chain(likely(span.start(), EVENS, block)).collect();
    starts.remove(&0);
    let (mut found, mut taken) = (Vec::new(), gap.start());
    while let Some(start) = starts.pop_first().filter(|start| *start < span.end().get()) {
        let at = ByteOffset::new(start);
        let Some(rest) = Span::between(at, gap.end()) else { break };
        // What is within other contents is theirs.
        let Some((contents, layer)) = (at >= taken).then(|| beginning(medium, rest, block)).flatten() else {
            continue;
        };
        taken = contents.end();
        starts.extend(likely(taken, 1, block));
        if contents.overlaps(span) {
            found.push((contents, layer));
        }
    }
    found
}

/// What begins at the start of `rest`, with its recorded size, else only its first bytes.
fn beginning(medium: &dyn Medium, rest: Span, block: BlockSize) -> Option<(Span, Layer)> {
    // Superblocks are in the first bytes: where these are erased there are none.
    let head = rest.len().min(WIPED);
    if is_erased(&bytes_of(medium, Span::new(rest.start(), head)?).ok()?) {
        return None;
    }
    let layer = read_layers(&View::of_drive(medium), rest, Some(block))?;
    let len = layer.used(rest.len()).unwrap_or(head);
    Some((Span::new(rest.start(), len)?, layer)).filter(|(contents, _)| contents.len() != ByteCount::ZERO)
}
