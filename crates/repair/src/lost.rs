//! What a plan leaves no way to: partitions that its table no longer lists, and what fills the disk without a table.
//!
//! The law of this module: it only reads; a plan carries what it finds, so that whoever applies it is told by name and size.

use std::fmt;

use straddle_device::Medium;
use straddle_layout::view::View;
use straddle_layout::{Beside, Content, Role, Stack, TableKind, beside, optical_extent, read_layers};
use straddle_units::{BlockSize, Span};

use crate::error::PlanError;
use crate::plan::{Change, Table, span_of};

/// More partitions than this are not looked into; they are listed by size.
const MAX_LOOKED_INTO: usize = 128;

/// Something on the disk that the new table does not lead to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lost {
    /// The partition's number; absent for what is on the disk as a whole.
    pub partition: Option<u32>,
    /// What it is, as blkid names it; absent where nothing is known.
    pub content: Option<String>,
    /// The content's own name.
    pub label: String,
    /// Its bytes.
    pub at: Span,
}

impl fmt::Display for Lost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.partition {
            Some(number) => write!(f, "partition {number}: ")?,
            None => write!(f, "the whole disk: ")?,
        }
        write!(f, "{}", self.content.as_deref().unwrap_or("no known content"))?;
        if !self.label.is_empty() {
            write!(f, " \"{}\"", self.label)?;
        }
        let (start, size) = (self.at.start(), self.at.len());
        write!(f, ", {size} ({} bytes) from byte {start}", size.get())
    }
}

/// What is on `medium`, read as `stack`, and not reached from `table`, which counts in sectors of `block`.
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
    found.extend(harmed(medium, stack, fresh)?.iter().map(|harmed| lost(None, Some(harmed.name()), whole)));
    let partitions = stack.partitions.iter().filter(|partition| partition.role != Role::Extended);
    let stays = |span: Span| {
        table.partitions.iter().any(|entry| {
            let there = span_of(entry, block);
            let kept = there.is_some_and(|there| there.start() == span.start());
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
    Ok(found)
}

fn lost(partition: Option<u32>, content: Option<&str>, span: Span) -> Lost {
    Lost { partition, content: content.map(str::to_owned), label: String::new(), at: span }
}

/// What stands beside the table and would be harmed by a plan. A table that is only changed spares an optical medium's file
/// system, for which no room is free, and what its partitions cover.
pub(crate) fn harmed(medium: &dyn Medium, stack: &Stack, fresh: bool) -> Result<Vec<Beside>, PlanError> {
    let has_extent = !fresh && optical_extent(medium)?.is_some();
    let is_medium = |found: &Beside| has_extent && found.is_optical();
    let is_spared = |found: &Beside| !fresh && (is_medium(found) || found.is_covered);
    Ok(beside(medium, stack)?.into_iter().filter(|found| !found.is_table() && !is_spared(found)).collect())
}
