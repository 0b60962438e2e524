//! What file systems, and swap, say of their own units.
//!
//! The law of this module: one superblock is read, where the format puts its first copy, and a label where the format
//! keeps that elsewhere; never more than 128 KiB, however large the numbers found. A superblock whose block is no
//! power of two between 256 bytes and 64 MiB says nothing at all; any other figure that cannot be is left out.
//!
//! Each figure goes where it means the same for all of them:
//! - `block` is what is allocated. So it is the cluster of FAT, exFAT and NTFS, whose `cluster` says it again, and the
//!   block of the rest; only ext4's bigalloc has a `cluster` larger than its `block`.
//! - `sector` is the smallest write: what FAT, exFAT, NTFS and XFS call their sector. The others have none: the sector
//!   that the superblocks of F2FS and JFS name is the device's, and they write blocks.
//! - `node` is the block of a file system's own trees where that is larger (Btrfs).
//! - `segment` is what a file system that writes like a log writes and frees as one (F2FS, NILFS2).
//!
//! ISO 9660, SquashFS and EROFS are written once, as a whole: their block is one of reading only, and in SquashFS, which
//! packs what it compressed, not even that lies on a multiple of itself.

mod btrfs;
mod ext;
mod fat;
mod logged;
mod ntfs;
mod plain;
mod swap;
mod uuid;
mod xfs;
mod zfs;

use straddle_device::Medium;
use straddle_units::{ByteCount, ByteOffset, MIB};

use crate::model::content::FsKind;
use crate::model::layer::FileSystem;
use crate::model::view::View;

pub(crate) use ntfs::{RECORD_MAGIC as NTFS_RECORD, file_table as ntfs_file_table};
pub(crate) use uuid::uuid;
pub(crate) use zfs::{ZFS_NVLIST, zfs_label};

/// The largest block or cluster that is believed: twice the largest that exFAT has.
const MAX_BLOCK: u64 = 64 * MIB;
/// The smallest: `fat_valid_superblock` of libblkid takes sectors from 256 bytes.
const MIN_BLOCK: u64 = 256;

/// The figures and the label (empty where there is none) of the file system `kind` that the view holds; `None` when its
/// superblock cannot be read or makes no sense.
pub fn file_system(kind: FsKind, view: &View<'_>) -> Option<(FileSystem, String)> {
    let read = match kind {
        FsKind::Ext2 | FsKind::Ext3 | FsKind::Ext4 | FsKind::Jbd => ext::read,
        FsKind::Xfs => xfs::read,
        FsKind::Btrfs => btrfs::read,
        FsKind::F2fs => logged::read_f2fs,
        FsKind::Nilfs2 => logged::read_nilfs2,
        FsKind::Jfs => plain::read_jfs,
        FsKind::Reiserfs => plain::read_reiserfs,
        FsKind::Iso9660 => plain::read_iso9660,
        FsKind::Squashfs => plain::read_squashfs,
        FsKind::Erofs => plain::read_erofs,
        FsKind::Vfat => fat::read_fat,
        FsKind::Exfat => fat::read_exfat,
        FsKind::Ntfs => ntfs::read,
        FsKind::Swap => swap::read,
        FsKind::Zfs => zfs::read,
    };
    read(view)
}

/// The `len` bytes from byte `at`, all of them or nothing. Callers keep `len` small: no number from a disk goes in here.
fn bytes(view: &View<'_>, at: u64, len: usize) -> Option<Vec<u8>> {
    let mut bytes = vec![0; len];
    view.read_at(ByteOffset::new(at), &mut bytes).ok().map(|()| bytes)
}

/// `size` as a block, a sector or a cluster, if it can be one.
fn unit(size: u64) -> Option<ByteCount> {
    ((MIN_BLOCK..=MAX_BLOCK).contains(&size) && size.is_power_of_two()).then(|| ByteCount::new(size))
}

/// 2^`log` bytes as a block, if they can be one.
fn unit_of_log(log: u32) -> Option<ByteCount> {
    1_u64.checked_shl(log).and_then(unit)
}

/// Whether a copy of the boot sector `boot` is at byte `at`: the same name of the format, and the mark of a boot sector.
fn is_copy(view: &View<'_>, at: u64, boot: &[u8]) -> bool {
    bytes(view, at, boot.len()).is_some_and(|copy| {
        [3..11, 510..512].into_iter().all(|part| copy.get(part.clone()) == boot.get(part))
    })
}

/// `count` blocks in bytes; `None` for none, which in a superblock means that it does not say.
fn said(count: u64, block: ByteCount) -> Option<ByteCount> {
    block.checked_mul(count).filter(|size| *size != ByteCount::ZERO)
}

/// Where block `number` of the view starts; `None` where that is not in it.
fn place(view: &View<'_>, number: u64, block: ByteCount) -> Option<ByteOffset> {
    let at = block.checked_mul(number)?;
    (at < view.len()).then(|| ByteOffset::new(at.get()))
}

/// Text up to its first NUL, without the blanks that some formats fill up with. What is no UTF-8 is replaced.
fn text(bytes: &[u8]) -> String {
    let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    String::from_utf8_lossy(bytes.get(..end).unwrap_or(&[])).trim_end().to_owned()
}

/// UTF-16, little endian, up to its first NUL. What cannot be decoded is replaced.
fn text_of_utf16(bytes: &[u8]) -> String {
    let units = bytes.chunks_exact(2).map(|pair| crate::fields::le16(pair, 0));
    let units: Vec<u16> = units.take_while(|unit| *unit != 0).collect();
    String::from_utf16_lossy(&units)
}
