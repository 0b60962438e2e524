//! The UUID or serial number in a file system's superblock, which distinguishes it from all others.
//!
//! Invariants: the digits are those that blkid prints as UUID, in lower case and without hyphens.
//! A file system without such a number, or with only zeros in it, has none.

use super::bytes;
use crate::fields::hex;
use crate::fields::le16;
use crate::model::content::FsKind;
use crate::model::view::View;

/// Where and how the number is stored.
#[derive(Clone, Copy)]
enum Stored {
    /// A UUID at this offset, in the order in which it is printed.
    Uuid(u64),
    /// A little-endian serial number: its offset, and its length in bytes.
    Serial(u64, usize),
}

/// Where each file system stores it; `None` for those that have none, or none known here.
const fn place(kind: FsKind) -> Option<Stored> {
    Some(match kind {
        // s_uuid, fs/ext4/ext4.h
        FsKind::Ext2 | FsKind::Ext3 | FsKind::Ext4 => Stored::Uuid(1024 + 0x68),
        // sb_uuid, fs/xfs/libxfs/xfs_format.h
        FsKind::Xfs => Stored::Uuid(32),
        // fsid, include/uapi/linux/btrfs_tree.h
        FsKind::Btrfs => Stored::Uuid(64 * 1024 + 32),
        // uuid, include/linux/f2fs_fs.h
        FsKind::F2fs => Stored::Uuid(1024 + 0x6C),
        // s_uuid, include/uapi/linux/nilfs2_ondisk.h
        FsKind::Nilfs2 => Stored::Uuid(1024 + 0x98),
        // s_uuid, fs/jfs/jfs_superblock.h
        FsKind::Jfs => Stored::Uuid(32 * 1024 + 136),
        // s_uuid, fs/reiserfs/reiserfs.h
        FsKind::Reiserfs => Stored::Uuid(64 * 1024 + 84),
        // uuid, fs/erofs/erofs_fs.h
        FsKind::Erofs => Stored::Uuid(1024 + 48),
        // sws_uuid, after three numbers
        FsKind::Swap => Stored::Uuid(1024 + 12),
        // vol_serial, fs/exfat/exfat_raw.h
        FsKind::Exfat => Stored::Serial(100, 4),
        // volume_serial_number, ntfs-3g layout.h
        FsKind::Ntfs => Stored::Serial(72, 8),
        // BS_VolID of FAT12 and FAT16; FAT32 has it at another offset
        FsKind::Vfat => Stored::Serial(39, 4),
        FsKind::Jbd | FsKind::Iso9660 | FsKind::Squashfs | FsKind::Zfs => return None,
    })
}

/// `BPB_FATSz16`: zero on FAT32, whose `BS_VolID` is at byte 67.
const FAT_SECTORS: u64 = 22;
const FAT32: Stored = Stored::Serial(67, 4);

/// Returns the UUID of the file system `kind` in the view; empty if it has none that is known.
pub(crate) fn uuid(kind: FsKind, view: &View<'_>) -> String {
    let Some(stored) = place(kind) else { return String::new() };
    let is_fat32 =
        || kind == FsKind::Vfat && bytes(view, FAT_SECTORS, 2).is_some_and(|count| le16(&count, 0) == 0);
    let found = match if is_fat32() { FAT32 } else { stored } {
        Stored::Uuid(at) => bytes(view, at, 16),
        Stored::Serial(at, len) => bytes(view, at, len).map(|serial| serial.into_iter().rev().collect()),
    };
    found.map_or_else(String::new, |found| hex(&found))
}
