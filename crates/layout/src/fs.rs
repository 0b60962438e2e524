//! The units that file systems and swap record in their own metadata.
//!
//! It reads the first superblock, and the label if that is elsewhere: at most 128 KiB, and for a hibernated Windows
//! on NTFS twice as much. A superblock whose block size is not a power of two between 256 bytes and 64 MiB is
//! ignored; any other impossible figure is left out.
//!
//! Each figure goes into the field that has the same meaning for all formats:
//! - `block` is the unit of allocation. For FAT, exFAT and NTFS this is the cluster, which `cluster` repeats;
//!   for the others it is the block. Only ext4's bigalloc has a `cluster` larger than its `block`.
//! - `sector` is the smallest write: what FAT, exFAT, NTFS and XFS call their sector. The others have none:
//!   the sector in the superblocks of F2FS and JFS is the device's, and they write whole blocks.
//! - `node` is the block of a file system's own trees, if it is larger than `block` (Btrfs).
//! - `segment` is what a log-structured file system writes and frees as one (F2FS, NILFS2).
//!
//! ISO 9660, SquashFS and EROFS are written once. Their block matters only for reading; SquashFS packs its
//! compressed blocks, which are not even on multiples of it.

mod fat;
mod named;
mod ntfs;
mod superblock;
mod zfs;

use straddle_device::Medium;
use straddle_device::fields::le16;
use straddle_units::{ByteCount, ByteOffset, MIB};

use crate::model::content::FsKind;
use crate::model::layer::{Facts, FileSystem, Layer};
use crate::model::view::View;

pub use fat::has_no_files as fat_has_no_files;
pub(crate) use named::{block as block_of_named, recorded_end as recorded_end_of_named};
pub(crate) use ntfs::{RECORD_MAGIC as NTFS_RECORD, file_table as ntfs_file_table};
pub(crate) use zfs::{ZFS_NVLIST, zfs_label};

/// Twice exFAT's maximum.
const MAX_BLOCK: u64 = 64 * MIB;
/// `fat_valid_superblock` of libblkid accepts sectors from 256 bytes.
const MIN_BLOCK: u64 = 256;

type Read = Option<(FileSystem, String)>;

/// Returns the figures and the label of the file system `kind`; `None` if its superblock is not valid.
pub fn file_system(kind: FsKind, view: &View<'_>) -> Option<(FileSystem, String)> {
    let read = match kind {
        FsKind::Ext2 | FsKind::Ext3 | FsKind::Ext4 | FsKind::Jbd => superblock::ext,
        FsKind::Xfs => superblock::xfs,
        FsKind::Btrfs => superblock::btrfs,
        FsKind::F2fs => superblock::f2fs,
        FsKind::Nilfs2 => superblock::nilfs2,
        FsKind::Jfs => superblock::jfs,
        FsKind::Reiserfs => superblock::reiserfs,
        FsKind::Iso9660 => superblock::iso9660,
        FsKind::Squashfs => superblock::squashfs,
        FsKind::Erofs => superblock::erofs,
        FsKind::Swap => superblock::swap,
        FsKind::Vfat => fat::read_fat,
        FsKind::Exfat => fat::read_exfat,
        FsKind::Ntfs => ntfs::read,
        FsKind::Zfs => zfs::read,
    };
    read(view)
}

pub(crate) fn fill_in(layer: &mut Layer, kind: FsKind, view: &View<'_>) {
    layer.uuid = uuid(kind, view);
    if let Some((facts, label)) = file_system(kind, view) {
        layer.facts = Facts::FileSystem(facts);
        layer.name = label;
    }
}

/// `BPB_FATSz16`: zero on FAT32, whose `BS_VolID` is at another offset.
const FAT_SECTORS: u64 = 22;

/// The UUID or serial number in the superblock: the digits that blkid prints as UUID, in lower case and without
/// hyphens. A file system without such a number, or with only zeros in it, has none.
fn uuid(kind: FsKind, view: &View<'_>) -> String {
    let is_fat32 = || bytes(view, FAT_SECTORS, 2).is_some_and(|count| le16(&count, 0) == 0);
    let (at, len) = match kind {
        // s_uuid, fs/ext4/ext4.h
        FsKind::Ext2 | FsKind::Ext3 | FsKind::Ext4 => (1024 + 0x68, 16),
        // sb_uuid, fs/xfs/libxfs/xfs_format.h
        FsKind::Xfs => (32, 16),
        // fsid, include/uapi/linux/btrfs_tree.h
        FsKind::Btrfs => (64 * 1024 + 32, 16),
        // uuid, include/linux/f2fs_fs.h
        FsKind::F2fs => (1024 + 0x6C, 16),
        // s_uuid, include/uapi/linux/nilfs2_ondisk.h
        FsKind::Nilfs2 => (1024 + 0x98, 16),
        // s_uuid, fs/jfs/jfs_superblock.h
        FsKind::Jfs => (32 * 1024 + 136, 16),
        // s_uuid, fs/reiserfs/reiserfs.h
        FsKind::Reiserfs => (64 * 1024 + 84, 16),
        // uuid, fs/erofs/erofs_fs.h
        FsKind::Erofs => (1024 + 48, 16),
        // sws_uuid, after three numbers
        FsKind::Swap => (1024 + 12, 16),
        // vol_serial, fs/exfat/exfat_raw.h
        FsKind::Exfat => (100, 4),
        // volume_serial_number, ntfs-3g layout.h
        FsKind::Ntfs => (72, 8),
        // BS_VolID
        FsKind::Vfat => (if is_fat32() { 67 } else { 39 }, 4),
        FsKind::Jbd | FsKind::Iso9660 | FsKind::Squashfs | FsKind::Zfs => return String::new(),
    };
    let Some(mut number) = bytes(view, at, len) else { return String::new() };
    // A serial number is little-endian.
    if len < 16 {
        number.reverse();
    }
    hex(&number)
}

/// `len` never comes from the disk.
fn bytes(view: &View<'_>, at: u64, len: usize) -> Option<Vec<u8>> {
    view.bytes_at(ByteOffset::new(at), len).ok()
}

fn unit(size: u64) -> Option<ByteCount> {
    ((MIN_BLOCK..=MAX_BLOCK).contains(&size) && size.is_power_of_two()).then(|| ByteCount::new(size))
}

fn unit_of_log(log: u32) -> Option<ByteCount> {
    1_u64.checked_shl(log).and_then(unit)
}

fn is_copy(view: &View<'_>, at: u64, boot: &[u8]) -> bool {
    bytes(view, at, boot.len()).is_some_and(|copy| {
        [3..11, 510..512].into_iter().all(|part| copy.get(part.clone()) == boot.get(part))
    })
}

/// The copies that record another start than `boot` (bytes 28 to 31 of NTFS and FAT).
fn stale(view: &View<'_>, copies: &[ByteOffset], boot: &[u8]) -> Vec<ByteOffset> {
    let records_it = |at: &&ByteOffset| {
        bytes(view, at.get(), boot.len()).is_some_and(|copy| copy.get(28..32) == boot.get(28..32))
    };
    copies.iter().filter(|at| !records_it(at)).copied().collect()
}

/// `None` for zero, which in a superblock means unspecified.
fn said(count: u64, block: ByteCount) -> Option<ByteCount> {
    block.checked_mul(count).filter(|size| *size != ByteCount::ZERO)
}

fn place(view: &View<'_>, number: u64, block: ByteCount) -> Option<ByteOffset> {
    let at = block.checked_mul(number)?;
    (at < view.len()).then(|| ByteOffset::new(at.get()))
}

/// Up to the first NUL, without the blanks at the end. Invalid UTF-8 is replaced.
fn text(bytes: &[u8]) -> String {
    let text = bytes.split(|byte| *byte == 0).next().unwrap_or_default();
    String::from_utf8_lossy(text).trim_end().to_owned()
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    if bytes.iter().all(|byte| *byte == 0) { String::new() } else { straddle_device::hex::encode(bytes) }
}
