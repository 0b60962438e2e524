//! In which sectors an MBR counts, where its disk does not say.
//!
//! The law of this module: what is left over from before the table is no evidence. Another size than the assumed one is taken
//! only where the table makes sense in it, where what is found at the starts in it says that it begins there and fills its
//! partition, and where nothing found at the starts in the assumed size speaks against it.

use straddle_device::{Medium, ReadError};
use straddle_units::{BlockSize, ByteCount, ByteOffset, MIB, Span};

use crate::fields::{le16, le64};
use crate::model::content::{Content, FsKind, VolumeKind};
use crate::model::stack::{Stack, TableKind};
use crate::model::view::View;
use crate::reader::Reader;
use crate::tables::mbr::{Entry, Mbr};
use crate::{fs, signature};

/// Of the first bytes of a partition so many are looked at: all superblocks but the last ones are in them.
const FRONT: usize = 64 * 1024;
/// What a mkfs leaves of a partition at most: a last group too small for its own tables, or one of any other unit.
const REST: u64 = 4 * MIB;
const LEAST_REST: u64 = 64 * 1024;
/// Of ext (`s_block_group_nr`, 16 bits), in bytes from the file system's start: zero but in the copies.
const EXT_GROUP: u64 = 1024 + 0x5A;
/// Of Btrfs, likewise: where the superblock says that it stands, and the size of this device.
const BTRFS: u64 = 64 * 1024;
const BTRFS_PLACE: u64 = BTRFS + 0x30;
const BTRFS_SIZE: u64 = BTRFS + 0xD1;
/// Of F2FS: how many blocks of 4 KiB it has (`block_count`).
const F2FS_BLOCKS: u64 = 1024 + 36;
/// Of a PV: where its label may be, and its device's size from there on (`pv_header`).
const LABELS: [u64; 4] = [0, 512, 1024, 1536];
const PV_SIZE: u64 = 64;

/// What the place where a partition would start shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shown {
    /// Nothing known.
    Nothing,
    /// Something that says of itself that it is not that partition's.
    Else,
    /// Something that does not say how large it is.
    Something,
    /// Something that fills the partition, or the first record of a container.
    Whole,
}

/// The byte that shows that `mbr` counts in blocks of `block` bytes, and not of `assumed`.
pub(crate) fn other(
    reader: &Reader<'_>,
    mbr: &Mbr,
    block: BlockSize,
    assumed: BlockSize,
) -> Option<ByteOffset> {
    let entries: Vec<&Entry> = mbr.ordinary().map(|(_, entry)| entry).collect();
    let spans: Vec<Span> = entries.iter().filter_map(|entry| entry.span(block)).collect();
    let overlap = |i: usize| spans.iter().skip(i + 1).any(|later| later.overlaps(spans[i]));
    if spans.len() < entries.len() || !mbr.is_sensible(block, reader.len()) || (0..spans.len()).any(overlap) {
        return None;
    }
    let shown: Vec<Shown> =
        entries.iter().zip(&spans).map(|(entry, span)| show(reader, entry, *span, block)).collect();
    let is_used = |entry: &Entry| entry.start.to_bytes(assumed).is_some_and(|at| is_written(reader, at));
    let is_free = |entry: &Entry| {
        let at = entry.start.to_bytes(assumed);
        at.is_some_and(|at| !spans.iter().any(|span| span.start() <= at && at < span.end()))
    };
    let mut places = entries.iter().zip(&shown);
    let contradicts = |(entry, shown): (&&Entry, &Shown)| match shown {
        Shown::Else => true,
        Shown::Whole => false,
        // What is in no partition in the one size may be in this one in the other.
        Shown::Nothing | Shown::Something => is_free(entry) && is_used(entry),
    };
    if places.any(contradicts) {
        return None;
    }
    let first = |wanted: Shown| shown.iter().position(|shown| *shown == wanted);
    let of_some = || first(Shown::Something).filter(|_| !entries.iter().any(|entry| is_used(entry)));
    let found = first(Shown::Whole).or_else(of_some)?;
    spans.get(found).map(|span| span.start())
}

/// Where something on `medium` would be at the start of a partition if the table of `stack` counted in sectors of the size
/// given: too little to take it for that.
pub fn other_sectors(
    medium: &dyn Medium,
    stack: &Stack,
) -> Result<Option<(BlockSize, ByteOffset)>, ReadError> {
    if stack.kind != TableKind::Mbr || stack.block_found || stack.block != BlockSize::B512 {
        return Ok(None);
    }
    let reader = Reader::open(medium, BlockSize::B512)?;
    let Some(mbr) = Mbr::parse(reader.head()) else { return Ok(None) };
    let block = BlockSize::B4096;
    if !mbr.is_sensible(block, reader.len()) {
        return Ok(None);
    }
    let place = mbr.ordinary().find_map(|(_, entry)| {
        let span = entry.span(block)?;
        matches!(show(&reader, entry, span, block), Shown::Something | Shown::Whole).then_some(span.start())
    });
    Ok(place.map(|at| (block, at)))
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
        let hidden = figures.hidden_sectors.unwrap_or(0);
        // No smaller one can be mounted on such a disk.
        let is_small = unit != ByteCount::ZERO && unit < block.bytes();
        if is_small || (hidden != 0 && hidden != entry.start.get()) {
            return Shown::Else;
        }
    }
    match figures.and_then(|figures| figures.extent).or_else(|| size(content, &view)) {
        None => Shown::Something,
        Some(size) if fills(size, span.len()) => Shown::Whole,
        Some(_) => Shown::Else,
    }
}

/// Whether a superblock says that it is not the first one.
fn is_copy(content: Content, view: &View<'_>) -> bool {
    match content {
        Content::FileSystem(FsKind::Ext2 | FsKind::Ext3 | FsKind::Ext4 | FsKind::Jbd) => {
            number::<2>(view, EXT_GROUP).is_some_and(|group| le16(&group, 0) != 0)
        }
        Content::FileSystem(FsKind::Btrfs) => {
            number::<8>(view, BTRFS_PLACE).is_some_and(|place| le64(&place, 0) != BTRFS)
        }
        _ => false,
    }
}

/// The size that something says it has whose figures have none.
fn size(content: Content, view: &View<'_>) -> Option<ByteCount> {
    let size = match content {
        Content::FileSystem(FsKind::Btrfs) => le64(&number::<8>(view, BTRFS_SIZE)?, 0),
        Content::FileSystem(FsKind::F2fs) => le64(&number::<8>(view, F2FS_BLOCKS)?, 0).checked_mul(4096)?,
        Content::Volume(VolumeKind::Pv) => {
            let is_label = |at: &u64| number::<8>(view, *at).is_some_and(|label| label == *b"LABELONE");
            le64(&number::<8>(view, LABELS.into_iter().find(is_label)? + PV_SIZE)?, 0)
        }
        _ => 0,
    };
    (size != 0).then(|| ByteCount::new(size))
}

fn number<const BYTES: usize>(view: &View<'_>, at: u64) -> Option<[u8; BYTES]> {
    let mut bytes = [0; BYTES];
    view.read_at(ByteOffset::new(at), &mut bytes).ok().map(|()| bytes)
}

/// Whether something of `size` bytes was made for a partition of `len`.
fn fills(size: ByteCount, len: ByteCount) -> bool {
    let rest = (len.get() / 8).clamp(LEAST_REST, REST);
    len.get().checked_sub(size.get()).is_some_and(|left| left < rest)
}

/// Whether anything stands in the bytes from `at` on.
fn is_written(reader: &Reader<'_>, at: ByteOffset) -> bool {
    reader.read_up_to(at, FRONT, reader.end()).iter().any(|byte| *byte != 0)
}
