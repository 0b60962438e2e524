//! Recognising what a partition or a whole medium holds by its first bytes, or its last.
//!
//! An answer is blkid's TYPE or PTTYPE, found by a magic number and, if that is short, by the fields around it. Two
//! reads find everything that Linux uses: 12 KiB from the start and, if they show nothing, 54 KiB from there on;
//! three small ones follow if both show nothing. The end of a whole disk is checked first, that of a part last.
//! Offsets and checks are those of util-linux, libblkid/src/superblocks/*.c.

mod ends;
mod named;

use std::ops::Range;

use straddle_device::fields::{be16, be32, byte, has, le16, le32, le64};
use straddle_units::{ByteCount, ByteOffset, Span};

use crate::fs;
use crate::model::content::Content::{FileSystem, Volume};
use crate::model::content::FsKind::{
    Btrfs, Erofs, Exfat, Ext2, Ext3, Ext4, F2fs, Iso9660, Jbd, Jfs, Nilfs2, Ntfs, Reiserfs, Squashfs, Swap,
    Vfat, Xfs, Zfs,
};
use crate::model::content::VolumeKind::{Bcache, Integrity, Luks, Md, Pv, Verity};
use crate::model::content::{Class, Content, FsKind};
use crate::model::view::View;
use crate::reader::Reader;
use crate::volumes;
pub use named::{HIBERNATION_REACH, is_hibernation};

/// With the md 1.2 superblock, the swap magic of 8 KiB pages, and structures at 8 KiB.
const NEAR: Range<usize> = 0..12 * 1024;
/// From the swap magic at the end of 16 KiB pages to the superblocks at 64 KiB.
const FAR: Range<usize> = 12 * 1024..64 * 1024 + 2048;
/// For formats known only by name: UFS at 256 KiB, and VMFS at 1 MiB and 2 MiB.
const FURTHER: [Range<usize>; 3] =
    [256 * 1024..258 * 1024, 1024 * 1024..1024 * 1024 + 512, 2048 * 1024..2048 * 1024 + 512];

const SECTOR: usize = 512;

/// Offset of the bcache superblock, and its magic (include/uapi/linux/bcache.h).
const BCACHE: usize = 4096;
const BCACHE_MAGIC: &[u8] = b"\xC6\x85\x73\xF6\x4E\x1A\x45\xCA\x82\x65\xF5\x7F\x48\xBA\x6D\x81";

/// ext2/3/4, NILFS2, F2FS and EROFS.
const SUPERBLOCK_1K: usize = 1024;
/// ReiserFS and Btrfs.
const SUPERBLOCK_64K: usize = 64 * 1024;
const EXT_MAGIC: usize = SUPERBLOCK_1K + 0x38;

/// From offset `base` of the searched space on.
struct Window<'a> {
    base: usize,
    bytes: &'a [u8],
}

impl<'a> Window<'a> {
    fn from(&self, at: usize) -> &'a [u8] {
        at.checked_sub(self.base).and_then(|relative| self.bytes.get(relative..)).unwrap_or(&[])
    }
}

/// One row: `magic` at one of `places` means `content`, if `confirm` accepts the bytes around that place.
struct Magic {
    places: &'static [usize],
    magic: &'static [u8],
    content: Content,
    confirm: fn(&Window<'_>, usize) -> bool,
}

impl Magic {
    fn shown(&self, window: &Window<'_>) -> impl Iterator<Item = usize> {
        let is_here = |at: &usize| window.from(*at).starts_with(self.magic) && (self.confirm)(window, *at);
        self.places.iter().copied().filter(is_here)
    }
}

const fn row(places: &'static [usize], magic: &'static [u8], content: Content) -> Magic {
    checked(places, magic, content, |_, _| true)
}

const fn checked(
    places: &'static [usize],
    magic: &'static [u8],
    content: Content,
    confirm: fn(&Window<'_>, usize) -> bool,
) -> Magic {
    Magic { places, magic, content, confirm }
}

/// As in libblkid these come first: a member may also show its older superblock, or that of the array it mirrors.
static MEMBERS: [Magic; 6] = [
    checked(&[0, 4096], b"\xFC\x4E\x2B\xA9", Volume(Md), is_md1),
    // The label is in one of the first four 512-byte sectors, whatever the block size.
    checked(&[24, 512 + 24, 1024 + 24, 1536 + 24], b"LVM2 001", Volume(Pv), |w, at| {
        volumes::is_lvm_label(w.from(at - 24), (at / 512) as u64)
    }),
    checked(&[0], b"LUKS\xBA\xBE", Volume(Luks), |w, _| matches!(be16(w.from(0), 6), 1 | 2)),
    row(&[0], b"verity\0\0", Volume(Verity)),
    row(&[0], b"integrt\0", Volume(Integrity)),
    // The superblock records in which 512-byte sector it is.
    checked(&[BCACHE + 24], BCACHE_MAGIC, Volume(Bcache), |w, _| le64(w.from(BCACHE), 8) == 8),
];

/// BitLocker, whose boot sector ends with the MBR signature.
static BITLOCKER: [Magic; 2] = [
    named::row(&[0], b"\xEB\x52\x90-FVE-FS-", "BitLocker").class(Class::Member),
    named::row(&[0], b"\xEB\x58\x90-FVE-FS-", "BitLocker").class(Class::Member),
];

static BOOT_SECTORS: [Magic; 3] = [
    // [`has_file_table`] checks the file table too, if that is within reach.
    checked(&[3], b"NTFS    ", FileSystem(Ntfs), |w, _| fs::ntfs_file_table(w.from(0)).is_some()),
    checked(&[3], b"EXFAT   ", FileSystem(Exfat), is_exfat),
    checked(&[510], b"\x55\xAA", FileSystem(Vfat), is_fat),
];

/// The ends of 16, 32 and 64 KiB pages (arm64, ppc64), less the magic of swap.
const LARGE_PAGES: &[usize] = &[16374, 32758, 65526];

static OTHERS: [Magic; 20] = [
    checked(&[4086, 8182], b"SWAPSPACE2", FileSystem(Swap), is_swap),
    row(&[4086], b"SWAP-SPACE", FileSystem(Swap)),
    checked(&[0], b"XFSB", FileSystem(Xfs), is_xfs),
    checked(&[EXT_MAGIC], b"\x53\xEF", FileSystem(Jbd), |w, _| ext(w) == Some(Jbd)),
    checked(&[EXT_MAGIC], b"\x53\xEF", FileSystem(Ext2), |w, _| ext(w) == Some(Ext2)),
    checked(&[EXT_MAGIC], b"\x53\xEF", FileSystem(Ext3), |w, _| ext(w) == Some(Ext3)),
    checked(&[EXT_MAGIC], b"\x53\xEF", FileSystem(Ext4), |w, _| ext(w) == Some(Ext4)),
    checked(&[0], b"hsqs", FileSystem(Squashfs), |w, _| le16(w.from(0), 28) >= 4),
    row(&[SUPERBLOCK_1K], b"\x10\x20\xF5\xF2", FileSystem(F2fs)),
    checked(&[SUPERBLOCK_1K], b"\xE2\xE1\xF5\xE0", FileSystem(Erofs), |w, at| {
        (9..=16).contains(&byte(w.from(at), 12))
    }),
    checked(&[SUPERBLOCK_1K + 6], b"\x34\x34", FileSystem(Nilfs2), is_nilfs2),
    row(&[SUPERBLOCK_64K + 0x40], b"_BHRfS_M", FileSystem(Btrfs)),
    row(&[SUPERBLOCK_64K + 0x34], b"ReIsEr2Fs", FileSystem(Reiserfs)),
    row(&[SUPERBLOCK_64K + 0x34], b"ReIsEr3Fs", FileSystem(Reiserfs)),
    row(&[SUPERBLOCK_64K + 0x34], b"ReIsErFs", FileSystem(Reiserfs)),
    named::row(&[SUPERBLOCK_64K], b"ReIsEr4", "reiser4"),
    checked(&[32 * 1024], b"JFS1", FileSystem(Jfs), is_jfs),
    row(&[32 * 1024 + 1], b"CD001", FileSystem(Iso9660)),
    // The confirming header at byte 1024 is outside of this window.
    row(LARGE_PAGES, b"SWAPSPACE2", FileSystem(Swap)),
    row(LARGE_PAGES, b"SWAP-SPACE", FileSystem(Swap)),
];

pub(crate) fn identify(reader: &Reader<'_>, span: Span) -> Option<Content> {
    let is_disk = span.start() == ByteOffset::ZERO && span.end() == reader.end();
    if !is_disk {
        return by_start(reader, span, true).or_else(|| ends::identify(reader, span, false));
    }
    // A member's start may show the array's content. Callers look for md superblocks at the end themselves.
    ends::near(reader, span)
        .or_else(|| by_start(reader, span, true))
        .or_else(|| ends::identify(reader, span, true))
}

pub(crate) fn identify_besides_table(reader: &Reader<'_>, span: Span) -> Option<Content> {
    by_start(reader, span, false).or_else(|| ends::identify(reader, span, false))
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Mark {
    pub(crate) content: Content,
    pub(crate) at: Span,
}

pub(crate) fn at_end(reader: &Reader<'_>) -> Vec<Mark> {
    let md = volumes::md_marked_at_end(reader.medium()).map(|at| Mark { content: Volume(Md), at });
    let others = ends::all(reader, Span::first(reader.len()), true).map(|(content, at)| Mark { content, at });
    md.into_iter().chain(others).collect()
}

pub(crate) fn is_marked_at_end(reader: &Reader<'_>, span: Span, content: Content) -> bool {
    let part = View::of_drive(reader.medium()).slice(span.start(), span.len());
    ends::all(reader, span, false).any(|(found, _)| found == content)
        || (content == Volume(Md) && volumes::md_marked_at_end(&part).is_some())
}

pub(crate) fn array_members(reader: &Reader<'_>) -> Vec<Mark> {
    let mut found = at_end(reader);
    add_shown(&mut found, reader, NEAR, Content::is_array_member);
    found
}

pub(crate) fn everything(reader: &Reader<'_>) -> Vec<Mark> {
    let mut found = at_end(reader);
    for range in [NEAR, FAR].into_iter().chain(FURTHER) {
        add_shown(&mut found, reader, range, |content| !content.is_foreign_table());
    }
    if let Some(label) = zfs_label(reader, Span::first(reader.len())) {
        add(&mut found, FileSystem(Zfs), label + fs::ZFS_NVLIST.0 as u64, 4);
    }
    found
}

fn add_shown(found: &mut Vec<Mark>, reader: &Reader<'_>, range: Range<usize>, wanted: fn(Content) -> bool) {
    let bytes = read(reader, Span::first(reader.len()), &range);
    let window = Window { base: range.start, bytes: &bytes };
    let is_ntfs = has_file_table(reader, ByteOffset::ZERO, window.from(0), false);
    let is_wanted = |row: &&Magic| wanted(row.content) && (row.content != FileSystem(Ntfs) || is_ntfs);
    for row in by_magic().chain(named::WEAK).filter(is_wanted) {
        for at in row.shown(&window) {
            add(found, row.content, at as u64, row.magic.len() as u64);
        }
    }
    if let Some((content, at)) = named::by_rule(&window).filter(|(content, _)| wanted(*content)) {
        add(found, content, at as u64, 4);
    }
}

/// Empty if known to be zeros, which show nothing.
fn read(reader: &Reader<'_>, span: Span, range: &Range<usize>) -> Vec<u8> {
    let at = span.start().checked_add(ByteCount::new(range.start as u64));
    let written = at.filter(|at| !reader.medium().is_hole(*at, ByteCount::new(range.len() as u64)));
    written.map_or(Vec::new(), |at| reader.read_up_to(at, range.len(), span.end()))
}

fn add(found: &mut Vec<Mark>, content: Content, at: u64, len: u64) {
    if let Some(at) = Span::new(ByteOffset::new(at), ByteCount::new(len))
        && !found.iter().any(|mark| mark.content == content || mark.at == at)
    {
        found.push(Mark { content, at });
    }
}

pub(crate) fn named_table(reader: &Reader<'_>) -> Option<&'static str> {
    let bytes = read(reader, Span::first(reader.len()), &(0..FAR.end));
    first_match(&Window { base: 0, bytes: &bytes }, named::TABLES).map(Content::name)
}

fn zfs_label(reader: &Reader<'_>, span: Span) -> Option<u64> {
    fs::zfs_label(span.len().get(), |at, len| {
        let at = span.start().checked_add(ByteCount::new(at));
        at.map_or(Vec::new(), |at| reader.read_up_to(at, len, span.end()))
    })
}

pub(crate) fn named(name: &str) -> Option<Content> {
    named::rows().map(|row| row.content).find(|content| content.name() == name)
}

/// Tables of other systems count only if `tables`.
fn by_start(reader: &Reader<'_>, span: Span, tables: bool) -> Option<Content> {
    let near = read(reader, span, &NEAR);
    let near = match fs::ntfs_file_table(&near) {
        // A left-over NTFS boot sector must not hide what is after it.
        Some(_) if !has_file_table(reader, span.start(), &near, true) => {
            Window { base: SECTOR, bytes: near.get(SECTOR..).unwrap_or_default() }
        }
        _ => Window { base: NEAR.start, bytes: &near },
    };
    let shown = |range: Range<usize>| {
        in_any_table(&Window { base: range.start, bytes: &read(reader, span, &range) }, tables)
    };
    let weak = || named::WEAK.iter().filter(|row| tables || !row.content.is_foreign_table());
    in_any_table(&near, tables)
        .or_else(|| shown(FAR))
        .or_else(|| zfs_label(reader, span).map(|_| FileSystem(Zfs)))
        .or_else(|| FURTHER.into_iter().find_map(shown))
        .or_else(|| first_match(&near, weak()))
}

/// Of those that carry the MBR signature.
pub(crate) fn boot_sector(reader: &Reader<'_>) -> Option<Content> {
    let window = Window { base: 0, bytes: reader.head() };
    let found = first_match(&window, BITLOCKER.iter().chain(&BOOT_SECTORS))?;
    (found != FileSystem(Ntfs) || has_file_table(reader, ByteOffset::ZERO, reader.head(), true))
        .then_some(found)
}

fn by_magic() -> impl Iterator<Item = &'static Magic> {
    let read = MEMBERS.iter().chain(&BITLOCKER).chain(&BOOT_SECTORS).chain(&named::UDF).chain(&OTHERS);
    read.chain(named::MEMBERS).chain(named::FILE_SYSTEMS)
}

fn in_any_table(window: &Window<'_>, tables: bool) -> Option<Content> {
    if window.bytes.is_empty() {
        return None;
    }
    let tables = named::TABLES.iter().filter(|_| tables);
    first_match(window, by_magic().chain(tables))
        .or_else(|| named::by_rule(window).map(|(content, _)| content))
}

fn first_match<'r>(window: &Window<'_>, rows: impl IntoIterator<Item = &'r Magic>) -> Option<Content> {
    rows.into_iter().find(|row| row.shown(window).next().is_some()).map(|row| row.content)
}

/// md 1.1 and 1.2: version 1, and the superblock records its own position (in 512-byte sectors).
fn is_md1(window: &Window<'_>, at: usize) -> bool {
    let superblock = window.from(at);
    le32(superblock, 4) == 1 && le64(superblock, 144) == (at / 512) as u64
}

/// FAT: the fields that `fat_valid_superblock` checks, after a jump or a name as every mkfs writes them.
fn is_fat(window: &Window<'_>, _: usize) -> bool {
    let sector = window.from(0);
    let jump = matches!(byte(sector, 0), 0xEB | 0xE9);
    let named = has(sector, 0x36, b"FAT") || has(sector, 0x52, b"FAT");
    let other = has(sector, 0x36, b"JFS     ") || has(sector, 0x36, b"HPFS    ");
    let (sector_size, reserved) = (le16(sector, 11), le16(sector, 14));
    let (fats, media) = (byte(sector, 16), byte(sector, 21));
    (jump || named)
        && !other
        && sector_size.is_power_of_two()
        && (256..=4096).contains(&sector_size)
        && byte(sector, 13).is_power_of_two()
        && reserved != 0
        && fats != 0
        && (media == 0xF0 || media >= 0xF8)
}

/// Whether the file table is where the boot sector says; `otherwise` if that cannot be read. A boot sector alone may
/// be left over, as writing a table keeps its bytes.
fn has_file_table(reader: &Reader<'_>, start: ByteOffset, sector: &[u8], otherwise: bool) -> bool {
    let Some(records) = fs::ntfs_file_table(sector) else { return false };
    let found = records.map(|at| {
        let at = start.checked_add(at)?;
        let magic = reader.read_up_to(at, fs::NTFS_RECORD.len(), reader.end());
        (magic.len() == fs::NTFS_RECORD.len()).then(|| magic == fs::NTFS_RECORD)
    });
    found.into_iter().all(|is_record| is_record.unwrap_or(otherwise))
}

/// exFAT: 53 zeros where FAT keeps its geometry, and sectors of 512 to 4096 bytes (byte 108 has the shift).
fn is_exfat(window: &Window<'_>, _: usize) -> bool {
    let sector = window.from(0);
    sector.get(11..64).is_some_and(|zeros| zeros.iter().all(|byte| *byte == 0))
        && sector.get(108).is_some_and(|shift| (9..=12).contains(shift))
}

/// Swap (`union swap_header`): version 1 in either byte order, and a last page (bytes 1024 and 1028).
fn is_swap(window: &Window<'_>, _: usize) -> bool {
    (le32(window.from(0), 1024) == 1 || be32(window.from(0), 1024) == 1) && le32(window.from(0), 1028) != 0
}

/// XFS: a block size of 512 bytes to 64 KiB (big-endian, byte 4).
fn is_xfs(window: &Window<'_>, _: usize) -> bool {
    let block = be32(window.from(0), 4);
    block.is_power_of_two() && (512..=65536).contains(&block)
}

/// JFS: the block size agrees with its recorded logarithm.
fn is_jfs(window: &Window<'_>, _: usize) -> bool {
    let superblock = window.from(32 * 1024);
    Some(le32(superblock, 16)) == 1u32.checked_shl(u32::from(le16(superblock, 20)))
}

/// NILFS2: a two-byte magic is too weak, so the CRC decides (`nilfs_valid_sb`).
fn is_nilfs2(window: &Window<'_>, _: usize) -> bool {
    const SUM: usize = 16;
    let superblock = window.from(SUPERBLOCK_1K);
    let Some(summed) = superblock.get(..usize::from(le16(superblock, 8))) else { return false };
    if !(SUM + 4..=1024).contains(&summed.len()) {
        return false;
    }
    // The kernel's crc32_le starts from the seed as given and does not invert the result.
    let mut crc = crc32fast::Hasher::new_with_initial(!le32(superblock, 12));
    crc.update(&summed[..SUM]);
    crc.update(&[0; 4]);
    crc.update(&summed[SUM + 4..]);
    !crc.finalize() == le32(superblock, SUM)
}

/// The generation of an ext superblock, by its features (libblkid/src/superblocks/ext.c); `None` if it is invalid.
fn ext(window: &Window<'_>) -> Option<FsKind> {
    const HAS_JOURNAL: u32 = 0x4;
    const JOURNAL_DEVICE: u32 = 0x8;
    /// FILETYPE, META_BG; ext3 also knows RECOVER.
    const EXT2_INCOMPAT: u32 = 0x2 | 0x10;
    const EXT3_INCOMPAT: u32 = EXT2_INCOMPAT | 0x4;
    /// SPARSE_SUPER, LARGE_FILE, BTREE_DIR.
    const EXT3_RO_COMPAT: u32 = 0x7;
    /// 64 KiB, as it is recorded.
    const MAX_LOG_BLOCK: u32 = 6;
    let superblock = window.from(SUPERBLOCK_1K);
    // A journal device has no inodes, and 2^32 blocks are recorded as zero here.
    if le32(superblock, 0) | le32(superblock, 4) == 0 || le32(superblock, 0x18) > MAX_LOG_BLOCK {
        return None;
    }
    let [compat, incompat, ro_compat] = [0x5C, 0x60, 0x64].map(|at| le32(superblock, at));
    let knows_only = |known: u32| incompat & !known == 0 && ro_compat & !EXT3_RO_COMPAT == 0;
    Some(match compat & HAS_JOURNAL {
        _ if incompat & JOURNAL_DEVICE != 0 => Jbd,
        0 if knows_only(EXT2_INCOMPAT) => Ext2,
        HAS_JOURNAL if knows_only(EXT3_INCOMPAT) => Ext3,
        _ => Ext4,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::content::VolumeKind;

    #[test]
    fn everything_that_is_read_has_a_signature() {
        let rows = MEMBERS.iter().chain(&BOOT_SECTORS).chain(&OTHERS).map(|row| row.content);
        let shown: Vec<Content> = rows.chain(ends::contents()).collect();
        let file_systems = FsKind::ALL.iter().copied().filter(|kind| *kind != Zfs).map(Content::from);
        let volumes = VolumeKind::ALL.iter().copied().map(Content::from);
        for content in file_systems.chain(volumes) {
            assert!(shown.contains(&content), "{content}");
        }
    }

    /// One name stands for one content, whichever row recognises it.
    #[test]
    fn a_name_has_one_class() {
        let rows = MEMBERS.iter().chain(&BITLOCKER).chain(&BOOT_SECTORS).chain(&OTHERS).chain(named::rows());
        let all: Vec<Content> = rows.map(|row| row.content).chain(ends::contents()).collect();
        for one in &all {
            assert!(all.iter().all(|other| other.name() != one.name() || other == one), "{one:?}");
        }
    }
}
