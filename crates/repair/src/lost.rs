//! What a plan makes unreachable: partitions that the new table no longer lists, and content that fills the
//! disk without a table.
//!
//! A plan carries what is found here, so that it is shown by name and size before the plan is applied.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use straddle_device::{Medium, ReadError};
use straddle_layout::view::View;
use straddle_layout::{
    Beside, Content, Partition, Role, Stack, TableKind, beside, first_written, is_blank, optical_extent,
    read_layers,
};
use straddle_units::{BlockSize, ByteOffset, Span};

use crate::error::PlanError;
use crate::plan::{Change, Entry, Slot, Table, WIPED, span_of};
use crate::unlisted;

/// The contents of at most this many partitions are read; further ones are listed by size only.
const MAX_LOOKED_INTO: usize = 128;

/// What is on a disk on which nothing is recognised.
const UNKNOWN: &str = "unrecognised data";

/// Something on the disk that the new table does not lead to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Lost {
    /// The partition's number; absent for content of the disk as a whole, or outside of partitions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub partition: Option<u32>,
    /// The content's type, as blkid names it; absent if it is not recognised.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content: Option<String>,
    /// The content's own label; absent if it has none.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub label: String,
    /// The bytes it occupies.
    pub at: Span,
    /// Whether the new table is written over part of it; absent if not.
    #[serde(default, rename = "overwritten", skip_serializing_if = "std::ops::Not::not")]
    pub is_overwritten: bool,
}

impl Lost {
    /// What it is, in words.
    pub(crate) fn what(&self) -> String {
        let unknown = if self.partition.is_some() { "no known content" } else { UNKNOWN };
        let content = self.content.as_deref().unwrap_or(unknown);
        if self.label.is_empty() { content.to_owned() } else { format!("{content} \"{}\"", self.label) }
    }

    /// Whether a new partition of `table` begins with it and has all of it.
    pub(crate) fn is_led_to(&self, table: &Table, block: BlockSize) -> bool {
        let is_new = |entry: &&Entry| entry.change == Change::New && entry.slot != Slot::Extended;
        let mut spans = table.partitions.iter().filter(is_new).filter_map(|entry| span_of(entry, block));
        spans.any(|span| span.start() == self.at.start() && span.contains(self.at))
    }
}

impl fmt::Display for Lost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.partition {
            Some(number) => write!(f, "partition {number}: ")?,
            // The first sector is always the table's.
            None if self.at.start() != ByteOffset::ZERO => write!(f, "outside partitions: ")?,
            None => write!(f, "the whole disk: ")?,
        }
        write!(f, "{}", self.what())?;
        let (start, size) = (self.at.start(), self.at.len());
        write!(f, ", {size} ({} bytes) from byte {start}", size.get())
    }
}

/// Finds what is on `medium`, read as `stack`, but cannot be reached from `table`, which counts in sectors of
/// `block`.
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
        found.push(Lost { label, ..lost(None, Some(name), whole) });
    }
    if fresh && unrecognised(medium, stack)?.is_some() {
        found.push(lost(None, None, whole));
    }
    found.extend(harmed(medium, stack, fresh)?.iter().map(|harmed| lost(None, Some(harmed.name()), whole)));
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
        let looked =
            (index < MAX_LOOKED_INTO).then(|| read_layers(&drive, partition.span, Some(stack.block)));
        let layer = looked.flatten();
        let content = layer.as_ref().map(|layer| layer.kind).or(partition.content).map(Content::name);
        let label = layer.map(|layer| layer.name).unwrap_or_default();
        found.push(Lost { label, ..lost(Some(partition.number), content, partition.span) });
    }
    if table.partitions.iter().any(|entry| matches!(entry.change, Change::New | Change::Grown { .. })) {
        let unlisted = unlisted(medium, stack, (table, block));
        let is_new = |lost: &Lost| {
            let is_reached = !wipe && lost.is_led_to(table, block);
            !is_reached && !found.iter().any(|other| other.at.overlaps(lost.at))
        };
        let unlisted: Vec<Lost> = unlisted.into_iter().filter(is_new).collect();
        found.extend(unlisted);
    }
    if wipe {
        found.extend(wiped(medium, (table, block), &found)?);
    }
    Ok(found)
}

/// Contents that no partition of `stack` lists, where new partitions are, or where partitions grow to.
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
            let mut found = unlisted::reaching(medium, *gap, span, block);
            // Some contents are found from their end.
            if gap.contains(span) && !found.iter().any(|(at, _)| at.start() == span.start()) {
                let layer = read_layers(&View::of_drive(medium), span, Some(block));
                found.extend(layer.map(|layer| (span, layer)));
            }
            let new = found.into_iter().filter(|(at, _)| !all.iter().any(|lost| lost.at.overlaps(*at)));
            let new: Vec<Lost> = new
                .map(|(at, layer)| Lost { label: layer.name, ..lost(None, Some(layer.kind.name()), at) })
                .collect();
            all.extend(new);
        }
    }
    all
}

/// Bytes that are not recognised where new partitions begin, and are in nothing of `found`: a wipe takes them.
fn wiped(
    medium: &dyn Medium,
    (table, block): (&Table, BlockSize),
    found: &[Lost],
) -> Result<Vec<Lost>, PlanError> {
    let is_new = |entry: &&Entry| entry.change == Change::New && entry.slot != Slot::Extended;
    let spans = table.partitions.iter().filter(is_new).filter_map(|entry| span_of(entry, block));
    let mut all = Vec::new();
    for span in spans.filter(|span| !found.iter().any(|lost| lost.at.overlaps(*span))) {
        let head = Span::new(span.start(), span.len().min(WIPED)).unwrap_or(span);
        if first_written(medium, head)?.is_some() {
            all.push(lost(None, None, head));
        }
    }
    Ok(all)
}

/// What is on a disk on which neither a table nor content is recognised, in words; `None` if it is blank, or if
/// something is recognised.
pub(crate) fn unrecognised(medium: &dyn Medium, stack: &Stack) -> Result<Option<&'static str>, ReadError> {
    match stack.kind {
        TableKind::Kernel => Ok(Some("partitions of a table that only the kernel reads")),
        TableKind::None if !is_blank(medium)? => Ok(Some(UNKNOWN)),
        _ => Ok(None),
    }
}

/// What no table accounts for.
pub(crate) fn outside(at: Span) -> Lost {
    lost(None, None, at)
}

fn lost(partition: Option<u32>, content: Option<&str>, span: Span) -> Lost {
    let content = content.map(str::to_owned);
    Lost { partition, content, label: String::new(), at: span, is_overwritten: false }
}

/// Returns the content outside the table that a plan would destroy. A plan that only changes the present
/// table spares the file system of an optical medium, because no space in it counts as free, and content that
/// partitions cover.
pub(crate) fn harmed(medium: &dyn Medium, stack: &Stack, fresh: bool) -> Result<Vec<Beside>, PlanError> {
    let has_extent = !fresh && optical_extent(medium)?.is_some();
    let is_medium = |found: &Beside| has_extent && found.is_optical();
    let is_spared = |found: &Beside| !fresh && (is_medium(found) || found.is_covered);
    Ok(beside(medium, stack)?.into_iter().filter(|found| !found.is_table() && !is_spared(found)).collect())
}
