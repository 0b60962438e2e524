//! What a disk keeps outside of its partitions: boot code and boot loaders, and what no partition lists any
//! more.
//!
//! Invariants: firmware and boot code look for boot loaders at fixed places, so these keep theirs. Nothing is
//! copied over a table or into a partition. Data that are not copied are named.

use straddle_device::{Medium, ReadError};
use straddle_layout::format::mbr;
use straddle_layout::{TableKind, first_written, taken};
use straddle_units::{ByteCount, ByteOffset, MIB, Span};

use super::empty::first_set;
use super::work::WINDOW;
use super::{Copy, CopyError, Source};
use crate::encode::CurrentGpt;
use crate::fingerprint::bytes_of;
use crate::plan::{Format, Plan, Situation, array_sectors};
use crate::realign::unallocated::ends;

/// How far into a disk boot loaders are looked for. Those of single-board computers end at 16 MiB.
pub(super) const MAX_LOADER: ByteOffset = ByteOffset::new(32 * MIB);

/// How far from both ends of unallocated space data are looked for that are not copied.
const LOOK: ByteCount = ByteCount::new(64 * MIB);

/// What a source has outside of its partitions.
pub(super) struct Gap {
    /// What keeps its place on the new disk.
    pub(super) copied: Vec<Span>,
    /// The first byte of each piece of data that is not copied.
    left: Vec<ByteOffset>,
    /// The same between and after partitions.
    unlisted: Vec<ByteOffset>,
}

impl Gap {
    /// Finds what `source` has outside of its partitions, and what of it has room before those of `plan`.
    pub(super) fn of(source: &Situation<'_>, plan: &Plan) -> Result<Self, CopyError> {
        let parts = source.stack.partitions.iter().map(|partition| partition.span.start());
        let first = parts.min().unwrap_or_default().min(MAX_LOADER).min(ByteOffset::new(source.size().get()));
        let whole = Span::first(ByteCount::new(first.get()));
        let own = table_of(source)?;
        let replaced = whole.gaps([room(plan)]);
        let copied = whole.gaps(own.iter().chain(&replaced).copied());
        let mut left = Vec::new();
        for span in replaced.into_iter().flat_map(|span| span.gaps(own.iter().copied())) {
            left.extend(first_written_byte(source.medium, span)?);
        }
        let listed = source.stack.partitions.iter().map(|partition| (partition.span, partition.role));
        let usable = source.stack.usable.unwrap_or(Span::first(source.size()));
        let others = usable.gaps([whole].into_iter().chain(taken(listed, true, source.stack.block)));
        let mut unlisted = Vec::new();
        for span in others {
            for end in ends(span, LOOK) {
                if let Some(at) = first_written(source.medium, end)? {
                    unlisted.push(at);
                    break;
                }
            }
        }
        Ok(Self { copied, left, unlisted })
    }

    /// Remarks on data that are not copied.
    pub(super) fn notes(&self) -> impl Iterator<Item = String> {
        let unlisted = self.unlisted.iter().map(|at| {
            format!(
                "data from byte {at} on is not copied, because it is in no partition (perhaps it is from a \
                 deleted one)"
            )
        });
        let left = self.left.iter().map(|at| match at.get() {
            0 => "the boot code in the first sector is not copied: install the boot loader on the new disk"
                .to_owned(),
            _ => format!(
                "data before the first partition, from byte {at} on, is not copied, because the new disk has \
                 its table or a partition there: install the boot loader on the new disk"
            ),
        });
        left.chain(unlisted)
    }
}

/// What the new table leaves free before the first partition. An MBR leaves the boot code.
pub(super) fn room(plan: &Plan) -> Span {
    let first = plan.table.spans(plan.block()).map(Span::start).min().unwrap_or_default().min(MAX_LOADER);
    let whole = Span::first(ByteCount::new(first.get()));
    if plan.table.format == Format::Mbr {
        return whole;
    }
    let table = (2 + array_sectors(plan.table.entries, plan.block())) * plan.block().get();
    let free = whole.gaps([Span::first(ByteCount::new(table))]);
    free.first().copied().unwrap_or(Span::first(ByteCount::ZERO))
}

/// What the table of the source takes at its beginning. The boot code of an MBR is not part of it.
fn table_of(source: &Situation<'_>) -> Result<Vec<Span>, CopyError> {
    if source.stack.kind != TableKind::Gpt {
        return Ok(Vec::new());
    }
    let block = source.stack.block;
    let mbr = Span::new(ByteOffset::new(mbr::DISK_ID_AT as u64), block.bytes());
    let header = Span::new(ByteOffset::new(block.get()), block.bytes());
    let array = CurrentGpt::read(source.medium, source.stack)?.primary_array();
    Ok(mbr.into_iter().chain(header).chain(array).collect())
}

/// The first byte of `span` that is not zero.
fn first_written_byte(medium: &dyn Medium, span: Span) -> Result<Option<ByteOffset>, ReadError> {
    for window in span.pieces(WINDOW) {
        if let Some(offset) = first_set(&bytes_of(medium, window)?) {
            return Ok(window.start().checked_add(ByteCount::new(offset as u64)));
        }
    }
    Ok(None)
}

/// What is copied from before the first partition: the places, and their bytes.
#[derive(Default)]
pub(super) struct Lead(Vec<(ByteOffset, Vec<u8>)>);

impl Lead {
    pub(super) fn read(copy: &Copy, source: &Source<'_>) -> Result<Self, ReadError> {
        let read = |span: &Span| Ok((span.start(), bytes_of(source.medium(), *span)?));
        copy.lead.iter().map(read).collect::<Result<_, _>>().map(Self)
    }

    /// The boot code of the first sector, which is written with the table.
    pub(super) fn code(&self) -> &[u8] {
        let first = self.0.iter().find(|(at, _)| *at == ByteOffset::ZERO);
        first.map_or(&[], |(_, bytes)| &bytes[..bytes.len().min(mbr::DISK_ID_AT)])
    }

    /// What boot loaders keep between the first sector and the first partition.
    pub(super) fn core(&self) -> impl Iterator<Item = (ByteOffset, &[u8])> {
        self.0.iter().filter_map(|(at, bytes)| {
            let skipped = if *at == ByteOffset::ZERO { mbr::SECTOR_BYTES } else { 0 };
            let core = bytes.get(skipped..).filter(|core| !core.is_empty())?;
            Some((at.checked_add(ByteCount::new(skipped as u64))?, core))
        })
    }
}
