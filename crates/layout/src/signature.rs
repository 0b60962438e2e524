//! Recognising what a partition or a whole medium holds by its first bytes.
//!
//! Invariants: an answer is the name that blkid gives as TYPE or PTTYPE. It is found by a magic
//! number and, if that is short, by the fields around it. Formats that this crate reads are listed in the
//! tables here; everything else that libblkid names is in `named`. Two reads find everything that Linux uses:
//! 12 KiB from the start, and 54 KiB from there on if the first read shows nothing. Three small reads further
//! on follow only if both show nothing. The end of a whole disk is checked first (`ends`, and md's own
//! superblocks), that of a part last. When looking beside a table, all places are checked. Offsets and checks
//! are those of util-linux, libblkid/src/superblocks/*.c.

mod ends;
mod named;
mod window;

use std::ops::Range;

use straddle_units::{ByteCount, ByteOffset, Span};

use crate::fields::{be16, be32, byte, has, le16, le32, le64};
use crate::fs;
use crate::model::content::Content::{FileSystem, Volume};
use crate::model::content::FsKind::{
    Btrfs, Erofs, Exfat, Ext2, Ext3, Ext4, F2fs, Iso9660, Jbd, Jfs, Nilfs2, Ntfs, Reiserfs, Squashfs, Swap,
    Vfat, Xfs, Zfs,
};
use crate::model::content::VolumeKind::{Bcache, Integrity, Luks, Md, Pv, Verity};
use crate::model::content::{Class, Content};
use crate::model::view::View;
use crate::reader::Reader;
use crate::volumes;
pub use named::{HIBERNATION_REACH, is_hibernation};
use window::Window;

/// The first read: from byte 0, far enough for the md 1.2 superblock, the swap magic of 8 KiB pages, and
/// structures at 8 KiB. It ends where the second begins.
const NEAR: Range<usize> = 0..12 * 1024;
/// The second read: from the swap magic at the end of 16 KiB pages to the superblocks at 64 KiB.
const FAR: Range<usize> = 12 * 1024..64 * 1024 + 2048;
/// Further reads, for formats known only by name: UFS at 256 KiB, and VMFS at 1 MiB and 2 MiB.
const FURTHER: [Range<usize>; 3] =
    [256 * 1024..258 * 1024, 1024 * 1024..1024 * 1024 + 512, 2048 * 1024..2048 * 1024 + 512];

/// The length of a boot sector.
const SECTOR: usize = 512;

/// Offset of the bcache superblock, and the magic 24 bytes into it (`BCACHE_MAGIC`,
/// include/uapi/linux/bcache.h).
const BCACHE: usize = 4096;
const BCACHE_MAGIC: &[u8] = b"\xC6\x85\x73\xF6\x4E\x1A\x45\xCA\x82\x65\xF5\x7F\x48\xBA\x6D\x81";

/// Offset of the superblock of ext2/3/4, NILFS2, F2FS and EROFS.
const SUPERBLOCK_1K: usize = 1024;
/// Offset of the superblock of ReiserFS and Btrfs.
const SUPERBLOCK_64K: usize = 64 * 1024;

/// One row: `magic` at offset `at` means `content`, if `confirm` accepts the surrounding bytes.
struct Magic {
    at: usize,
    magic: &'static [u8],
    content: Content,
    confirm: fn(&Window<'_>) -> bool,
}

const fn row(at: usize, magic: &'static [u8], content: Content) -> Magic {
    checked(at, magic, content, |_| true)
}

const fn checked(
    at: usize,
    magic: &'static [u8],
    content: Content,
    confirm: fn(&Window<'_>) -> bool,
) -> Magic {
    Magic { at, magic, content, confirm }
}

/// Contents that make the rest a member of something larger. As in libblkid these come first: a member may
/// also show a file system's superblock, an older one of its own or that of the array it mirrors.
static MEMBERS: [Magic; 10] = [
    checked(0, b"\xFC\x4E\x2B\xA9", Volume(Md), |w| is_md1(w, 0)),
    checked(4096, b"\xFC\x4E\x2B\xA9", Volume(Md), |w| is_md1(w, 4096)),
    // The label is in one of the first four 512-byte sectors, whatever the block size.
    checked(24, b"LVM2 001", Volume(Pv), |w| volumes::is_lvm_label(w.from(0), 0)),
    checked(512 + 24, b"LVM2 001", Volume(Pv), |w| volumes::is_lvm_label(w.from(512), 1)),
    checked(1024 + 24, b"LVM2 001", Volume(Pv), |w| volumes::is_lvm_label(w.from(1024), 2)),
    checked(1536 + 24, b"LVM2 001", Volume(Pv), |w| volumes::is_lvm_label(w.from(1536), 3)),
    checked(0, b"LUKS\xBA\xBE", Volume(Luks), |w| matches!(be16(w.from(0), 6), 1 | 2)),
    row(0, b"verity\0\0", Volume(Verity)),
    row(0, b"integrt\0", Volume(Integrity)),
    // The superblock records in which 512-byte sector it is.
    checked(BCACHE + 24, BCACHE_MAGIC, Volume(Bcache), |w| le64(w.from(BCACHE), 8) == 8),
];

/// BitLocker, whose boot sector ends with the MBR signature.
static BITLOCKER: [Magic; 2] = [
    named::row(0, b"\xEB\x52\x90-FVE-FS-", "BitLocker").class(Class::Member),
    named::row(0, b"\xEB\x58\x90-FVE-FS-", "BitLocker").class(Class::Member),
];

/// Boot sectors that end with the MBR signature.
static BOOT_SECTORS: [Magic; 3] = [
    checked(3, b"NTFS    ", FileSystem(Ntfs), is_ntfs),
    checked(3, b"EXFAT   ", FileSystem(Exfat), is_exfat),
    checked(510, b"\x55\xAA", FileSystem(Vfat), is_fat),
];

/// All other contents that this crate reads.
static OTHERS: [Magic; 25] = [
    checked(4086, b"SWAPSPACE2", FileSystem(Swap), is_swap),
    row(4086, b"SWAP-SPACE", FileSystem(Swap)),
    checked(8182, b"SWAPSPACE2", FileSystem(Swap), is_swap),
    checked(0, b"XFSB", FileSystem(Xfs), is_xfs),
    checked(SUPERBLOCK_1K + 0x38, b"\x53\xEF", FileSystem(Jbd), |w| {
        Ext::read(w).is_some_and(|e| e.is_journal())
    }),
    checked(SUPERBLOCK_1K + 0x38, b"\x53\xEF", FileSystem(Ext2), |w| {
        Ext::read(w).is_some_and(|e| e.is_ext2())
    }),
    checked(SUPERBLOCK_1K + 0x38, b"\x53\xEF", FileSystem(Ext3), |w| {
        Ext::read(w).is_some_and(|e| e.is_ext3())
    }),
    checked(SUPERBLOCK_1K + 0x38, b"\x53\xEF", FileSystem(Ext4), |w| Ext::read(w).is_some()),
    checked(0, b"hsqs", FileSystem(Squashfs), |w| le16(w.from(0), 28) >= 4),
    row(SUPERBLOCK_1K, b"\x10\x20\xF5\xF2", FileSystem(F2fs)),
    checked(SUPERBLOCK_1K, b"\xE2\xE1\xF5\xE0", FileSystem(Erofs), |w| {
        (9..=16).contains(&byte(w.from(SUPERBLOCK_1K), 12))
    }),
    checked(SUPERBLOCK_1K + 6, b"\x34\x34", FileSystem(Nilfs2), is_nilfs2),
    row(SUPERBLOCK_64K + 0x40, b"_BHRfS_M", FileSystem(Btrfs)),
    row(SUPERBLOCK_64K + 0x34, b"ReIsEr2Fs", FileSystem(Reiserfs)),
    row(SUPERBLOCK_64K + 0x34, b"ReIsEr3Fs", FileSystem(Reiserfs)),
    row(SUPERBLOCK_64K + 0x34, b"ReIsErFs", FileSystem(Reiserfs)),
    named::row(SUPERBLOCK_64K, b"ReIsEr4", "reiser4"),
    checked(32 * 1024, b"JFS1", FileSystem(Jfs), is_jfs),
    row(32 * 1024 + 1, b"CD001", FileSystem(Iso9660)),
    // The ends of 16, 32 and 64 KiB pages (arm64, ppc64): the header at byte 1024 is outside this window.
    row(16374, b"SWAPSPACE2", FileSystem(Swap)),
    row(16374, b"SWAP-SPACE", FileSystem(Swap)),
    row(32758, b"SWAPSPACE2", FileSystem(Swap)),
    row(32758, b"SWAP-SPACE", FileSystem(Swap)),
    row(65526, b"SWAPSPACE2", FileSystem(Swap)),
    row(65526, b"SWAP-SPACE", FileSystem(Swap)),
];

/// Identifies the content of `span` by its first bytes, or by its last ones if those show nothing.
pub(crate) fn identify(reader: &Reader<'_>, span: Span) -> Option<Content> {
    let is_disk = span.start() == ByteOffset::ZERO && span.end() == reader.end();
    if !is_disk {
        return by_start(reader, span, true).or_else(|| ends::identify(reader, span, false));
    }
    // What a member shows at its start may belong to the array's content. Callers look for md members with
    // the superblock at the end themselves.
    ends::near(reader, span)
        .or_else(|| by_start(reader, span, true))
        .or_else(|| ends::identify(reader, span, true))
}

/// Identifies the content of a partition that begins with the table that lists it.
pub(crate) fn identify_besides_table(reader: &Reader<'_>, span: Span) -> Option<Content> {
    by_start(reader, span, false).or_else(|| ends::identify(reader, span, false))
}

/// A signature, and the bytes that show it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Mark {
    pub(crate) content: Content,
    pub(crate) at: Span,
}

/// Returns every membership that the last bytes of the whole medium show.
pub(crate) fn at_end(reader: &Reader<'_>) -> Vec<Mark> {
    let md = volumes::md_marked_at_end(reader.medium()).map(|at| Mark { content: Volume(Md), at });
    let others = ends::all(reader, Span::first(reader.len()), true).map(|(content, at)| Mark { content, at });
    md.into_iter().chain(others).collect()
}

/// Whether the end of `span`, a part of the medium, is marked as a member of `content`.
pub(crate) fn is_marked_at_end(reader: &Reader<'_>, span: Span, content: Content) -> bool {
    let part = View::of_drive(reader.medium()).slice(span.start(), span.len());
    ends::all(reader, span, false).any(|(found, _)| found == content)
        || (content == Volume(Md) && volumes::md_marked_at_end(&part).is_some())
}

/// Returns every mark of the whole medium as an array member: at its end, or in its first bytes.
pub(crate) fn array_members(reader: &Reader<'_>) -> Vec<Mark> {
    let mut found = at_end(reader);
    add_shown(&mut found, reader, NEAR, Content::is_array_member);
    found
}

/// Returns every content whose signature is on the whole medium, except tables; of several in one place, the
/// first.
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

/// Adds the contents that the bytes in `range` show, of those that are `wanted`.
fn add_shown(found: &mut Vec<Mark>, reader: &Reader<'_>, range: Range<usize>, wanted: fn(Content) -> bool) {
    let bytes = reader.read_up_to(ByteOffset::new(range.start as u64), range.len(), reader.end());
    let window = Window::new(range.start, &bytes);
    let rows = by_magic().chain(named::WEAK).filter(|row| wanted(row.content));
    for row in rows.filter(|row| window.from(row.at).starts_with(row.magic) && (row.confirm)(&window)) {
        let is_whole = row.content != FileSystem(Ntfs)
            || has_file_table(reader, ByteOffset::ZERO, window.from(0), false);
        if is_whole {
            add(found, row.content, row.at as u64, row.magic.len() as u64);
        }
    }
    if let Some((content, at)) = named::by_rule(&window).filter(|(content, _)| wanted(*content)) {
        add(found, content, at as u64, 4);
    }
}

fn add(found: &mut Vec<Mark>, content: Content, at: u64, len: u64) {
    if let Some(at) = Span::new(ByteOffset::new(at), ByteCount::new(len))
        && !found.iter().any(|mark| mark.content == content || mark.at == at)
    {
        found.push(Mark { content, at });
    }
}

/// The name of a partition table of a kind known only by name, whatever else is on the medium.
pub(crate) fn named_table(reader: &Reader<'_>) -> Option<&'static str> {
    let bytes = reader.read_up_to(ByteOffset::ZERO, FAR.end, reader.end());
    first_match(&Window::new(0, &bytes), named::TABLES.iter()).map(Content::name)
}

/// Returns the offset in `span` of the first label of a ZFS pool member.
fn zfs_label(reader: &Reader<'_>, span: Span) -> Option<u64> {
    fs::zfs_label(span.len().get(), |at, len| {
        let at = span.start().checked_add(ByteCount::new(at));
        at.map_or(Vec::new(), |at| reader.read_up_to(at, len, span.end()))
    })
}

/// Returns the content called `name`, of those recognised only by a signature.
pub(crate) fn named(name: &str) -> Option<Content> {
    named::rows().map(|row| row.content).find(|content| content.name() == name)
}

/// Identifies content by its first bytes; tables of other systems count only if `tables`.
fn by_start(reader: &Reader<'_>, span: Span, tables: bool) -> Option<Content> {
    let read = |range: Range<usize>| {
        let start = u64::try_from(range.start).ok().map(ByteCount::new);
        let at = start.and_then(|start| span.start().checked_add(start));
        at.map_or(Vec::new(), |at| reader.read_up_to(at, range.len(), span.end()))
    };
    let near = read(NEAR);
    let near = match fs::ntfs_file_table(&near) {
        // A left-over NTFS boot sector must not hide what is after it.
        Some(_) if !has_file_table(reader, span.start(), &near, true) => {
            Window::new(SECTOR, near.get(SECTOR..).unwrap_or_default())
        }
        _ => Window::new(NEAR.start, &near),
    };
    if let Some(name) = in_any_table(&near, tables) {
        return Some(name);
    }
    let far = read(FAR);
    let far = Window::new(FAR.start, &far);
    let in_zfs = || zfs_label(reader, span).map(|_| FileSystem(Zfs));
    if let Some(name) = in_any_table(&far, tables).or_else(in_zfs) {
        return Some(name);
    }
    let further = FURTHER
        .into_iter()
        .find_map(|range| in_any_table(&Window::new(range.start, &read(range.clone())), tables));
    let weak = named::WEAK.iter().filter(|row| tables || !row.content.is_foreign_table());
    further.or_else(|| first_match(&near, weak))
}

/// Identifies the file system's boot sector at the start of a medium, of those that carry the MBR signature.
pub(crate) fn boot_sector(reader: &Reader<'_>) -> Option<Content> {
    let window = Window::new(0, reader.head());
    let found = first_match(&window, BITLOCKER.iter().chain(&BOOT_SECTORS))?;
    (found != FileSystem(Ntfs) || has_file_table(reader, ByteOffset::ZERO, reader.head(), true))
        .then_some(found)
}

/// The rows with a magic that is long enough, without tables, in the order in which they are tried.
fn by_magic() -> impl Iterator<Item = &'static Magic> {
    let read = MEMBERS.iter().chain(&BITLOCKER).chain(&BOOT_SECTORS).chain(&named::UDF).chain(&OTHERS);
    read.chain(named::MEMBERS).chain(named::FILE_SYSTEMS)
}

fn in_any_table(window: &Window<'_>, tables: bool) -> Option<Content> {
    let tables = named::TABLES.iter().filter(|_| tables);
    first_match(window, by_magic().chain(tables))
        .or_else(|| named::by_rule(window).map(|(content, _)| content))
}

fn first_match<'r>(window: &Window<'_>, rows: impl Iterator<Item = &'r Magic>) -> Option<Content> {
    let mut rows = rows.filter(|row| window.from(row.at).starts_with(row.magic));
    rows.find(|row| (row.confirm)(window)).map(|row| row.content)
}

/// md 1.1 and 1.2: version 1, and the superblock records its own position (in 512-byte sectors).
fn is_md1(window: &Window<'_>, at: usize) -> bool {
    let superblock = window.from(at);
    let sector = u64::try_from(at / 512);
    le32(superblock, 4) == 1 && sector.is_ok_and(|sector| le64(superblock, 144) == sector)
}

/// Whether the sector size (byte 11) is one that a DOS boot sector can have.
fn has_dos_sector(sector: &[u8]) -> bool {
    let size = le16(sector, 11);
    size.is_power_of_two() && (256..=4096).contains(&size)
}

/// FAT: the fields that `fat_valid_superblock` checks, after a jump or a name as every mkfs writes them.
fn is_fat(window: &Window<'_>) -> bool {
    let sector = window.from(0);
    let jump = matches!(byte(sector, 0), 0xEB | 0xE9);
    let named = has(sector, 0x36, b"FAT") || has(sector, 0x52, b"FAT");
    let other = has(sector, 0x36, b"JFS     ") || has(sector, 0x36, b"HPFS    ");
    let (reserved, fats, media) = (le16(sector, 14), byte(sector, 16), byte(sector, 21));
    (jump || named)
        && !other
        && has_dos_sector(sector)
        && byte(sector, 13).is_power_of_two()
        && reserved != 0
        && fats != 0
        && (media == 0xF0 || media >= 0xF8)
}

/// NTFS: a valid boot sector. If its file table is within reach, [`has_file_table`] checks that too.
fn is_ntfs(window: &Window<'_>) -> bool {
    fs::ntfs_file_table(window.from(0)).is_some()
}

/// Whether the file table is where the boot sector of an NTFS places it; `otherwise` if that place cannot be
/// read. A boot sector alone may be left over, as writing a table keeps its bytes.
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
fn is_exfat(window: &Window<'_>) -> bool {
    let sector = window.from(0);
    sector.get(11..64).is_some_and(|zeros| zeros.iter().all(|byte| *byte == 0))
        && sector.get(108).is_some_and(|shift| (9..=12).contains(shift))
}

/// Swap: version 1 in either byte order, and a last page (bytes 1024 and 1028; `union swap_header`,
/// include/linux/swap.h).
fn is_swap(window: &Window<'_>) -> bool {
    (le32(window.from(0), 1024) == 1 || be32(window.from(0), 1024) == 1) && le32(window.from(0), 1028) != 0
}

/// XFS: a block size of 512 bytes to 64 KiB (big-endian, byte 4).
fn is_xfs(window: &Window<'_>) -> bool {
    let block = be32(window.from(0), 4);
    block.is_power_of_two() && (512..=65536).contains(&block)
}

/// JFS: the block size agrees with its recorded logarithm.
fn is_jfs(window: &Window<'_>) -> bool {
    let superblock = window.from(32 * 1024);
    Some(le32(superblock, 16)) == 1u32.checked_shl(u32::from(le16(superblock, 20)))
}

/// NILFS2: a two-byte magic is too weak, so the CRC decides (`nilfs_valid_sb`).
fn is_nilfs2(window: &Window<'_>) -> bool {
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

/// The feature flags of an ext superblock, which distinguish its generations
/// (libblkid/src/superblocks/ext.c).
struct Ext {
    compat: u32,
    incompat: u32,
    ro_compat: u32,
}

impl Ext {
    const HAS_JOURNAL: u32 = 0x4;
    const JOURNAL_DEVICE: u32 = 0x8;
    /// Incompatible features known to ext2: FILETYPE, META_BG; ext3 also knows RECOVER.
    const EXT2_INCOMPAT: u32 = 0x2 | 0x10;
    const EXT3_INCOMPAT: u32 = Self::EXT2_INCOMPAT | 0x4;
    /// Read-only compatible features known to ext2 and ext3: SPARSE_SUPER, LARGE_FILE, BTREE_DIR.
    const EXT3_RO_COMPAT: u32 = 0x7;
    /// The recorded logarithm of 64 KiB blocks, the largest.
    const MAX_LOG_BLOCK: u32 = 6;

    /// Reads the features, if the rest of the superblock is valid.
    fn read(window: &Window<'_>) -> Option<Self> {
        let superblock = window.from(SUPERBLOCK_1K);
        // A journal device has no inodes, and 2^32 blocks are recorded as zero here.
        let counts = le32(superblock, 0) | le32(superblock, 4);
        (counts != 0 && le32(superblock, 0x18) <= Self::MAX_LOG_BLOCK).then(|| Self {
            compat: le32(superblock, 0x5C),
            incompat: le32(superblock, 0x60),
            ro_compat: le32(superblock, 0x64),
        })
    }

    fn is_journal(&self) -> bool {
        self.incompat & Self::JOURNAL_DEVICE != 0
    }

    fn is_ext2(&self) -> bool {
        self.compat & Self::HAS_JOURNAL == 0 && self.knows_only(Self::EXT2_INCOMPAT)
    }

    fn is_ext3(&self) -> bool {
        self.compat & Self::HAS_JOURNAL != 0 && self.knows_only(Self::EXT3_INCOMPAT)
    }

    fn knows_only(&self, incompat: u32) -> bool {
        self.incompat & !incompat == 0 && self.ro_compat & !Self::EXT3_RO_COMPAT == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::content::{FsKind, VolumeKind};

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
