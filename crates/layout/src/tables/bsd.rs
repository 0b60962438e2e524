//! BSD disk labels, on a disk or in a slice of an MBR.
//!
//! As in Linux (`parse_bsd`, block/partitions/msdos.c), what is not in the slice is not listed. Offsets are those of
//! `struct disklabel` (FreeBSD, sys/sys/disklabel.h); OpenBSD's and NetBSD's agree in these.

use straddle_device::Medium;
use straddle_device::fields::{byte, has, le16, le32};
use straddle_units::{BlockSize, ByteOffset, Lba, LbaCount};

use crate::model::stack::{Partition, Stack, TableKind};
use crate::reader::Reader;

pub(crate) const NAME: &str = "bsd";
/// The first and the last bytes of the magic numbers (`DISKMAGIC`).
pub(crate) const MAGIC: &[u8] = b"\x57\x45\x56\x82";
/// In the second sector, or after the boot block in the first.
pub(crate) const PLACES: [usize; 3] = [512, 64, 128];
pub(crate) const MAGIC_2: usize = 132;
const SECTOR_SIZE: usize = 40;
const COUNT: usize = 138;
const ENTRIES: usize = 148;
const ENTRY_BYTES: usize = 16;
const MAX_ENTRIES: usize = (512 - ENTRIES) / ENTRY_BYTES;
/// The entry "c", usually all of the slice or the disk.
const WHOLE: usize = 2;

/// In sectors.
#[derive(Clone, Copy)]
struct Entry {
    offset: u64,
    count: u64,
    is_used: bool,
}

/// The label of the slice of `reader`, which begins at byte `start` of its disk: its sector size, and the partitions
/// in the slice, counted from its start.
pub(crate) fn label(reader: &Reader<'_>, start: ByteOffset) -> Option<(BlockSize, Vec<Partition>)> {
    let head = reader.head();
    let is_label = |at: &usize| has(head, *at, MAGIC) && has(head, at + MAGIC_2, MAGIC);
    let label = head.get(PLACES.into_iter().find(is_label)?..)?;
    let block = BlockSize::new(u64::from(le32(label, SECTOR_SIZE))).unwrap_or(BlockSize::B512);
    let entries = entries(label);
    let (first, len) = (start.get() / block.get(), block.blocks_floor(reader.len()).get());
    let lead = if counts_from_slice(&entries, first, len) { 0 } else { first };
    let is_alone = entries.iter().filter(|entry| entry.is_used).count() == 1;
    let listed = entries.iter().zip(1..).enumerate();
    let listed = listed.filter(|(index, (entry, _))| entry.is_used && (*index != WHOLE || is_alone));
    let partition = |(_, (entry, number)): (usize, (&Entry, u32))| {
        let at = entry.offset.checked_sub(lead)?;
        (at.checked_add(entry.count)? <= len).then_some(())?;
        Partition::at(number, Lba::new(at), LbaCount::new(entry.count), block)
    };
    Some((block, listed.filter_map(partition).collect()))
}

pub(crate) fn stack(slice: &dyn Medium, start: ByteOffset) -> Option<Stack> {
    let reader = Reader::open(slice, BlockSize::B512).ok()?;
    let (block, partitions) = label(&reader, start).filter(|(_, partitions)| !partitions.is_empty())?;
    Some(Stack { partitions, ..Stack::empty(TableKind::Foreign(NAME), block) })
}

fn entries(label: &[u8]) -> Vec<Entry> {
    let count = usize::from(le16(label, COUNT)).min(MAX_ENTRIES);
    let entry = |index: usize| {
        let bytes = label.get(ENTRIES + index * ENTRY_BYTES..).unwrap_or_default();
        let (count, offset) = (u64::from(le32(bytes, 0)), u64::from(le32(bytes, 4)));
        Entry { offset, count, is_used: byte(bytes, 12) != 0 && count != 0 }
    };
    (0..count).map(entry).collect()
}

/// FreeBSD's "c" begins at 0. OpenBSD's "c" is the whole disk.
fn counts_from_slice(entries: &[Entry], first: u64, len: u64) -> bool {
    match entries.get(WHOLE) {
        Some(whole) if whole.count != 0 => whole.offset == 0 && whole.count <= len,
        _ => entries.iter().any(|entry| entry.is_used && entry.offset < first),
    }
}
