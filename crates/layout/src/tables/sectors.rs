//! Finding the sector size in which an MBR counts, if the disk does not state it.
//!
//! Contents left over from before the table are not evidence. Another size than the assumed one is taken only if the
//! table is valid in it; content at the resulting starts begins there and fits its partition by its own account; and
//! nothing at the starts in the assumed size contradicts it. Content that leaves space in its partition counts only
//! if all that is written at the assumed starts is in such partitions. Without content, smaller sectors are taken if
//! only in these all partitions are on the disk.

use straddle_device::fields::le64;
use straddle_device::{Medium, ReadError};
use straddle_units::{BlockSize, ByteCount, ByteOffset, MIB, Span};

use crate::model::content::{Content, FsKind, VolumeKind};
use crate::model::stack::{Stack, TableKind};
use crate::model::view::View;
use crate::read::{USUAL, rare};
use crate::reader::Reader;
use crate::tables::mbr::{Entry, Mbr};
use crate::{fs, signature};

/// All superblocks but the last ones are in these first bytes of a partition.
const FRONT: usize = 64 * 1024;
/// A mkfs leaves no more unused at the end: a last group too small for its own tables, or another partial unit.
const REST: u64 = 4 * MIB;
const LEAST_REST: u64 = 64 * 1024;
/// `s_block_group_nr`, 16 bits, from the file system's start: zero except in the copies.
const EXT_GROUP: u64 = 1024 + 0x5A;
/// Btrfs's superblock, and its records of its own position and of the size of this device.
const BTRFS: u64 = 64 * 1024;
const BTRFS_PLACE: u64 = BTRFS + 0x30;
const BTRFS_SIZE: u64 = BTRFS + 0xD1;
/// A PV's label, and from there the size of its device (`pv_header`).
const LABELS: [u64; 4] = [0, 512, 1024, 1536];
const PV_SIZE: u64 = 64;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shown {
    Nothing,
    /// Content that by its own account does not belong to that partition.
    Else,
    /// Without a recorded size, or with space left in the partition.
    Something,
    /// Fills the partition, or is the first record of a container.
    Whole,
}

pub(crate) fn others(assumed: BlockSize) -> impl Iterator<Item = BlockSize> {
    USUAL.into_iter().chain(rare()).filter(move |size| *size != assumed)
}

pub(crate) fn other(
    reader: &Reader<'_>,
    mbr: &Mbr,
    block: BlockSize,
    assumed: BlockSize,
) -> Option<ByteOffset> {
    let entries: Vec<&Entry> = mbr.placed().collect();
    let spans: Vec<Span> = entries.iter().filter_map(|entry| entry.span(block)).collect();
    let overlap = |i: usize| spans.iter().skip(i + 1).any(|later| later.overlaps(spans[i]));
    if spans.len() < entries.len() || !mbr.is_sensible(block, reader.len()) || (0..spans.len()).any(overlap) {
        return None;
    }
    let shown: Vec<Shown> =
        entries.iter().zip(&spans).map(|(entry, span)| show(reader, entry, *span, block)).collect();
    let is_used = |entry: &Entry| entry.start.to_bytes(assumed).is_some_and(|at| is_written(reader, at));
    let holds = |span: &Span, entry: &Entry| {
        entry.start.to_bytes(assumed).is_some_and(|at| span.start() <= at && at < span.end())
    };
    let is_free = |entry: &Entry| !spans.iter().any(|span| holds(span, entry));
    let mut places = entries.iter().zip(&shown);
    let contradicts = |(entry, shown): (&&Entry, &Shown)| match shown {
        Shown::Else => true,
        Shown::Whole => false,
        // Content in no partition in the one size may be in this one in the other.
        Shown::Nothing | Shown::Something => is_free(entry) && is_used(entry),
    };
    if places.any(contradicts) {
        return None;
    }
    let first = |wanted: Shown| shown.iter().position(|shown| *shown == wanted);
    let is_usual = USUAL.contains(&block);
    let is_inside = |entry: &Entry| {
        spans.iter().zip(&shown).any(|(span, shown)| *shown != Shown::Nothing && holds(span, entry))
    };
    let is_unexplained = |entry: &&Entry| !is_inside(entry) && is_used(entry);
    let of_some = || first(Shown::Something).filter(|_| is_usual && !entries.iter().any(is_unexplained));
    let found = first(Shown::Whole).or_else(of_some)?;
    spans.get(found).map(|span| span.start())
}

/// The smaller sectors in which all partitions are on the disk, with the first entry that is not in those of
/// `assumed`. Likelier than a disk that was cut short.
pub(crate) fn smaller(reader: &Reader<'_>, mbr: &Mbr, assumed: BlockSize) -> Option<(BlockSize, ByteOffset)> {
    let block = BlockSize::B512;
    let is_past = |(_, entry): &(usize, &Entry)| {
        entry.span(assumed).is_none_or(|span| span.end().get() > reader.len().get())
    };
    let (slot, _) = mbr.ordinary().find(is_past)?;
    (assumed > block && mbr.is_sensible(block, reader.len())).then(|| (block, Mbr::entry_at(slot)))
}

/// Sectors in which a table might count instead of those that are assumed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OtherSectors {
    /// Their size.
    pub size: BlockSize,
    /// What speaks for it. This is too little evidence to take the table for that.
    pub evidence: Evidence,
}

/// What speaks for other sectors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Evidence {
    /// In them, content is at the start of a partition, at this byte.
    Content(ByteOffset),
    /// In them, the last partition ends with the medium; in the assumed ones nothing is found or on 1 MiB.
    End,
}

/// Returns the sectors in which the table of `stack` might count instead.
pub fn other_sectors(medium: &dyn Medium, stack: &Stack) -> Result<Option<OtherSectors>, ReadError> {
    if stack.kind != TableKind::Mbr || stack.block_found || stack.block != BlockSize::B512 {
        return Ok(None);
    }
    let reader = Reader::open(medium, BlockSize::B512)?;
    let Some(mbr) = Mbr::parse(reader.head()) else { return Ok(None) };
    let content = |block: BlockSize| {
        mbr.placed().find_map(|entry| {
            let span = entry.span(block)?;
            let shown = show(&reader, entry, span, block);
            matches!(shown, Shown::Something | Shown::Whole).then_some(Evidence::Content(span.start()))
        })
    };
    let found = others(stack.block).filter(|block| mbr.is_sensible(*block, reader.len())).find_map(|size| {
        let evidence = ends_with_medium(&reader, &mbr, size).then_some(Evidence::End);
        Some(OtherSectors { size, evidence: evidence.or_else(|| content(size))? })
    });
    Ok(found)
}

/// Up to a track; and in blocks of 512 no start is on today's grain, whose tools may end at a simple fraction.
fn ends_with_medium(reader: &Reader<'_>, mbr: &Mbr, block: BlockSize) -> bool {
    const TRACK: u64 = 63;
    let ends = mbr.ordinary().filter_map(|(_, entry)| Some(entry.span(block)?.end().get()));
    let on_grain = |entry: &Entry| entry.start.get().is_multiple_of(MIB / BlockSize::B512.get());
    let left = ends.max().and_then(|end| reader.len().get().checked_sub(end));
    left.is_some_and(|left| left < TRACK * block.get()) && !mbr.ordinary().any(|(_, entry)| on_grain(entry))
}

fn show(reader: &Reader<'_>, entry: &Entry, span: Span, block: BlockSize) -> Shown {
    if entry.is_container() {
        return match entry.first_record(reader, span, block) {
            true => Shown::Whole,
            false => Shown::Nothing,
        };
    }
    let Some(content) = signature::identify(reader, span) else { return Shown::Nothing };
    let view = View::of_drive(reader.medium()).slice(span.start(), span.len());
    if is_copy(content, &view) {
        return Shown::Else;
    }
    let figures =
        content.file_system().and_then(|kind| fs::file_system(kind, &view)).map(|(figures, _)| figures);
    if let Some(figures) = &figures {
        let unit = figures.sector.unwrap_or(figures.block);
        // Smaller ones cannot be mounted. A moved file system keeps its hidden sectors: these do not count.
        if unit != ByteCount::ZERO && unit < block.bytes() {
            return Shown::Else;
        }
    }
    match figures.and_then(|figures| figures.extent).or_else(|| recorded_size(content, &view)) {
        None => Shown::Something,
        Some(size) if fills(size, span.len()) => Shown::Whole,
        Some(size) if size < span.len() => Shown::Something,
        Some(_) => Shown::Else,
    }
}

fn is_copy(content: Content, view: &View<'_>) -> bool {
    match content.file_system() {
        Some(FsKind::Ext2 | FsKind::Ext3 | FsKind::Ext4 | FsKind::Jbd) => {
            number::<2>(view, EXT_GROUP).is_some_and(|group| group != [0; 2])
        }
        Some(FsKind::Btrfs) => number::<8>(view, BTRFS_PLACE).is_some_and(|place| le64(&place, 0) != BTRFS),
        _ => false,
    }
}

/// For contents whose figures do not have it: a PV, or a Btrfs with invalid blocks. Other volumes record the size of
/// their payload or of the whole array.
fn recorded_size(content: Content, view: &View<'_>) -> Option<ByteCount> {
    let at = match content {
        Content::FileSystem(FsKind::Btrfs) => BTRFS_SIZE,
        Content::Volume(VolumeKind::Pv) => {
            let is_label = |at: &u64| number::<8>(view, *at).is_some_and(|label| label == *b"LABELONE");
            LABELS.into_iter().find(is_label)? + PV_SIZE
        }
        _ => return None,
    };
    let size = le64(&number::<8>(view, at)?, 0);
    (size != 0).then(|| ByteCount::new(size))
}

fn number<const BYTES: usize>(view: &View<'_>, at: u64) -> Option<[u8; BYTES]> {
    let mut bytes = [0; BYTES];
    view.read_at(ByteOffset::new(at), &mut bytes).ok().map(|()| bytes)
}

fn fills(size: ByteCount, len: ByteCount) -> bool {
    let rest = (len.get() / 8).clamp(LEAST_REST, REST);
    len.get().checked_sub(size.get()).is_some_and(|left| left < rest)
}

fn is_written(reader: &Reader<'_>, at: ByteOffset) -> bool {
    !reader.medium().is_hole(at, ByteCount::new(FRONT as u64))
        && reader.read_up_to(at, FRONT, reader.end()).iter().any(|byte| *byte != 0)
}
