//! Places for copies of partitions on another disk.
//!
//! Invariants: the order of the source is kept. A partition starts where it did if that is a boundary and
//! free, or on the next boundary. If the data of a layer in it would be off a boundary, and its format cannot
//! align them, it is placed for the data.

use straddle_layout::Partition;
use straddle_units::{BlockSize, Boundary, ByteCount, ByteOffset, MIB, Span};

use crate::realign::{anchor, anchored};

/// The first start, as on every new table.
const FIRST: ByteOffset = ByteOffset::new(MIB);

pub(super) struct Item {
    pub(super) at: Span,
    /// How many bytes it gets.
    pub(super) len: ByteCount,
    /// How many of them its contents use.
    pub(super) used: ByteCount,
    /// The start of its container, if it is a logical one.
    pub(super) logical: Option<ByteOffset>,
    pub(super) partition: Partition,
}

impl Item {
    /// The offset of the data of a layer that the format cannot align, if it is off `drive`.
    pub(super) fn anchor(&self, drive: Boundary, block: BlockSize) -> ByteCount {
        anchor(&self.partition, drive, block).unwrap_or_default()
    }
}

/// The boundaries of the new disk.
#[derive(Clone, Copy)]
pub(super) struct Ground {
    pub(super) grain: Boundary,
    /// The boundary above advice.
    pub(super) drive: Boundary,
    pub(super) block: BlockSize,
}

/// The starts of all items up to `end`; `None` if they do not fit.
pub(super) fn starts(items: &[Item], ground: Ground, end: ByteOffset) -> Option<Vec<ByteOffset>> {
    [false, true].into_iter().find_map(|is_tight| {
        let (starts, last) = place(items, ground, is_tight)?;
        (last <= end).then_some(starts)
    })
}

/// Where the last of them ends if they are as close together as possible.
pub(super) fn end(items: &[Item], ground: Ground) -> Option<ByteOffset> {
    place(items, ground, true).map(|(_, end)| end)
}

fn place(items: &[Item], ground: Ground, is_tight: bool) -> Option<(Vec<ByteOffset>, ByteOffset)> {
    let Ground { grain, drive, block } = ground;
    let (mut at, mut found) = (FIRST, Vec::new());
    for item in items {
        if item.logical.is_some() {
            // Its extended boot record is before it.
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
