//! The UUID or serial number in a file system's superblock: the digits that blkid prints as UUID, in lower case
//! and without hyphens. A file system without such a number, or with only zeros in it, has none.

use straddle_device::fields::le16;

use super::{bytes, hex};
use crate::model::content::FsKind;
use crate::model::view::View;

/// `BPB_FATSz16`: zero on FAT32, whose `BS_VolID` is at another offset.
const FAT_SECTORS: u64 = 22;

pub(super) fn uuid(kind: FsKind, view: &View<'_>) -> String {
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
