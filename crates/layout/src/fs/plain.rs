//! File systems that record a block size and a label but no other unit: JFS and ReiserFS, and those that are
//! written once, as a whole: ISO 9660, SquashFS and EROFS.

use straddle_units::ByteCount;

use super::{bytes, said, text, unit, unit_of_log};
use crate::fields::{byte, has, le16, le32, le64};
use crate::model::layer::FileSystem;
use crate::model::view::View;

/// `struct jfs_superblock`, fs/jfs/jfs_superblock.h.
mod jfs {
    /// Its offset (`SUPER1_OFF`), and how many bytes are read.
    pub(super) const SUPERBLOCK: (u64, usize) = (32 * 1024, 184);
    /// `s_size`, 64 bits: how many of the device's blocks hold data. The log and fsck's space are behind them.
    pub(super) const SIZE: usize = 8;
    /// `s_bsize`, 32 bits.
    pub(super) const BSIZE: usize = 16;
    /// `s_pbsize`, 32 bits: the size of the device's blocks.
    pub(super) const PBSIZE: usize = 24;
    /// `s_logpxd` and `s_fsckpxd`, 64 bits each: the log, unless it is on another device, and fsck's space, in blocks.
    pub(super) const BEHIND: [usize; 2] = [72, 80];
    /// `s_label`, 16 bytes.
    pub(super) const LABEL: std::ops::Range<usize> = 152..168;
}

/// `struct reiserfs_super_block`, fs/reiserfs/reiserfs.h, as of Linux 6.12.
mod reiserfs {
    /// Its offset (`REISERFS_DISK_OFFSET_IN_BYTES`), and how many bytes are read.
    pub(super) const SUPERBLOCK: (u64, usize) = (64 * 1024, 116);
    /// `s_block_count`, 32 bits.
    pub(super) const BLOCK_COUNT: usize = 0;
    /// `s_blocksize`, 16 bits.
    pub(super) const BLOCKSIZE: usize = 44;
    /// `s_magic`.
    pub(super) const MAGIC: usize = 52;
    /// The magic of format 3.5, which has no label.
    pub(super) const MAGIC_3_5: &[u8] = b"ReIsErFs";
    /// `s_label`, 16 bytes.
    pub(super) const LABEL: std::ops::Range<usize> = 100..116;
}

/// ECMA-119 (ISO 9660), 8.4: the primary volume descriptor.
mod iso9660 {
    /// The offset of sector 16 of 2048 bytes, and how many bytes are read.
    pub(super) const DESCRIPTOR: (u64, usize) = (32 * 1024, 132);
    /// Logical block size (8.4.12), 16 bits in both byte orders, little endian first.
    pub(super) const BLOCK_SIZE: usize = 128;
    /// Volume identifier (8.4.7), 32 bytes.
    pub(super) const VOLUME: std::ops::Range<usize> = 40..72;
}

/// `struct squashfs_super_block`, fs/squashfs/squashfs_fs.h. It has no label.
mod squashfs {
    /// Its offset, and how many bytes are read.
    pub(super) const SUPERBLOCK: (u64, usize) = (0, 96);
    /// `block_size`, 32 bits.
    pub(super) const BLOCK_SIZE: usize = 12;
}

/// `struct erofs_super_block`, fs/erofs/erofs_fs.h.
mod erofs {
    /// Its offset (`EROFS_SUPER_OFFSET`) and its length.
    pub(super) const SUPERBLOCK: (u64, usize) = (1024, 128);
    /// `blkszbits`, 8 bits: the base-2 logarithm of the block size.
    pub(super) const BLKSZBITS: usize = 12;
    /// `volume_name`, 16 bytes.
    pub(super) const VOLUME_NAME: std::ops::Range<usize> = 64..80;
}

pub(super) fn read_jfs(view: &View<'_>) -> Option<(FileSystem, String)> {
    let superblock = bytes(view, jfs::SUPERBLOCK.0, jfs::SUPERBLOCK.1)?;
    let block = unit(u64::from(le32(&superblock, jfs::BSIZE)))?;
    let own = ByteCount::new(u64::from(le32(&superblock, jfs::PBSIZE)));
    let data = said(le64(&superblock, jfs::SIZE), own);
    let behind = jfs::BEHIND.into_iter().filter_map(|at| end_of_run(le64(&superblock, at), block));
    let extent = data.map(|data| behind.fold(data, ByteCount::max));
    Some((FileSystem { block, extent, ..FileSystem::default() }, text(&superblock[jfs::LABEL])))
}

/// The end of a run of blocks (`pxd_t`): its length in 24 bits, then the upper 8 and the lower 32 bits of its first block.
fn end_of_run(run: u64, block: ByteCount) -> Option<ByteCount> {
    let (len, start) = (run & 0xFF_FFFF, ((run >> 24 & 0xFF) << 32) | run >> 32);
    said(start.checked_add(len)?, block)
}

pub(super) fn read_reiserfs(view: &View<'_>) -> Option<(FileSystem, String)> {
    let superblock = bytes(view, reiserfs::SUPERBLOCK.0, reiserfs::SUPERBLOCK.1)?;
    let block = unit(u64::from(le16(&superblock, reiserfs::BLOCKSIZE)))?;
    let has_label = !has(&superblock, reiserfs::MAGIC, reiserfs::MAGIC_3_5);
    let label = if has_label { text(&superblock[reiserfs::LABEL]) } else { String::new() };
    let extent = said(u64::from(le32(&superblock, reiserfs::BLOCK_COUNT)), block);
    Some((FileSystem { block, extent, ..FileSystem::default() }, label))
}

pub(super) fn read_iso9660(view: &View<'_>) -> Option<(FileSystem, String)> {
    let descriptor = bytes(view, iso9660::DESCRIPTOR.0, iso9660::DESCRIPTOR.1)?;
    let block = unit(u64::from(le16(&descriptor, iso9660::BLOCK_SIZE)))?;
    Some((FileSystem { block, ..FileSystem::default() }, text(&descriptor[iso9660::VOLUME])))
}

pub(super) fn read_squashfs(view: &View<'_>) -> Option<(FileSystem, String)> {
    let superblock = bytes(view, squashfs::SUPERBLOCK.0, squashfs::SUPERBLOCK.1)?;
    let block = unit(u64::from(le32(&superblock, squashfs::BLOCK_SIZE)))?;
    Some((FileSystem { block, ..FileSystem::default() }, String::new()))
}

pub(super) fn read_erofs(view: &View<'_>) -> Option<(FileSystem, String)> {
    let superblock = bytes(view, erofs::SUPERBLOCK.0, erofs::SUPERBLOCK.1)?;
    let block = unit_of_log(u32::from(byte(&superblock, erofs::BLKSZBITS)))?;
    Some((FileSystem { block, ..FileSystem::default() }, text(&superblock[erofs::VOLUME_NAME])))
}
