//! Log-structured file systems, which write in segments: F2FS and NILFS2.

use straddle_units::ByteCount;

use super::{bytes, place, said, text, text_of_utf16, unit_of_log};
use crate::fields::{byte, le32, le64};
use crate::model::layer::FileSystem;
use crate::model::view::View;

/// Offset of the first superblock, in both formats.
const SUPERBLOCK: u64 = 1024;

/// `struct f2fs_super_block`, include/linux/f2fs_fs.h.
mod f2fs {
    /// How many bytes are read: everything up to the end of the first device's record.
    pub(super) const LEN: usize = TOTAL_SEGMENTS + 4;
    /// `log_blocksize`, 32 bits.
    pub(super) const LOG_BLOCKSIZE: usize = 0x10;
    /// `log_blocks_per_seg`, 32 bits.
    pub(super) const LOG_BLOCKS_PER_SEG: usize = 0x14;
    /// `block_count`, 64 bits.
    pub(super) const BLOCK_COUNT: usize = 0x24;
    /// `segment0_blkaddr`, 32 bits: the block from which segments are counted.
    pub(super) const SEGMENT0_BLKADDR: usize = 0x48;
    /// `main_blkaddr`, 32 bits: the block where the main area begins.
    pub(super) const MAIN_BLKADDR: usize = 0x5C;
    /// `volume_name`, 512 characters of UTF-16.
    pub(super) const VOLUME_NAME: std::ops::Range<usize> = 0x7C..0x47C;
    /// `devs[0].path`, 64 bytes: empty if the file system is on one device only. The superblock is on the
    /// first of several.
    pub(super) const PATH: usize = 0x899;
    /// `devs[0].total_segments`, 32 bits, without the blocks before segment 0 (`f2fs_scan_devices`).
    pub(super) const TOTAL_SEGMENTS: usize = PATH + 64;
}

/// `struct nilfs_super_block`, include/uapi/linux/nilfs2_ondisk.h.
mod nilfs2 {
    /// How many bytes are read.
    pub(super) const LEN: usize = 248;
    /// `s_log_block_size`, 32 bits: the block is 2^(10 + this).
    pub(super) const LOG_BLOCK_SIZE: usize = 20;
    /// The logarithm to which the recorded one is added (`BLOCK_SIZE`, 1 KiB).
    pub(super) const LOG_BASE: u32 = 10;
    /// `s_dev_size`, 64 bits: the size of its device in bytes.
    pub(super) const DEV_SIZE: usize = 32;
    /// `s_first_data_block`, 64 bits: the start of the first segment, which is cut short; the others count
    /// from byte 0.
    pub(super) const FIRST_DATA_BLOCK: usize = 40;
    /// `s_blocks_per_segment`, 32 bits.
    pub(super) const BLOCKS_PER_SEGMENT: usize = 48;
    /// `s_volume_name`, 80 bytes.
    pub(super) const VOLUME_NAME: std::ops::Range<usize> = 168..248;
}

/// Reads F2FS. Data starts at the main area; a segment is 2^`log_blocks_per_seg` blocks.
pub(super) fn read_f2fs(view: &View<'_>) -> Option<(FileSystem, String)> {
    let superblock = bytes(view, SUPERBLOCK, f2fs::LEN)?;
    let block = unit_of_log(le32(&superblock, f2fs::LOG_BLOCKSIZE))?;
    let per_segment = 1_u64.checked_shl(le32(&superblock, f2fs::LOG_BLOCKS_PER_SEG));
    let at = |field| match le32(&superblock, field) {
        // Block 0 holds the superblock itself.
        0 => None,
        number => place(view, u64::from(number), block),
    };
    let fs = FileSystem {
        block,
        segment: per_segment.and_then(|blocks| segment(view, blocks, block)),
        segment_start: at(f2fs::SEGMENT0_BLKADDR),
        data_start: at(f2fs::MAIN_BLKADDR),
        extent: said(blocks_here(&superblock, per_segment), block),
        ..FileSystem::default()
    };
    Some((fs, text_of_utf16(&superblock[f2fs::VOLUME_NAME])))
}

/// How many blocks of an F2FS are on the device with this superblock; zero if that is not recorded. The block
/// count covers all devices.
fn blocks_here(superblock: &[u8], per_segment: Option<u64>) -> u64 {
    if byte(superblock, f2fs::PATH) == 0 {
        return le64(superblock, f2fs::BLOCK_COUNT);
    }
    let segments = match le32(superblock, f2fs::TOTAL_SEGMENTS) {
        0 => None,
        segments => per_segment.and_then(|blocks| blocks.checked_mul(u64::from(segments))),
    };
    let before = u64::from(le32(superblock, f2fs::SEGMENT0_BLKADDR));
    segments.and_then(|blocks| blocks.checked_add(before)).unwrap_or(0)
}

/// Reads NILFS2. Segments count from byte 0, except that the superblock takes the beginning of the first.
pub(super) fn read_nilfs2(view: &View<'_>) -> Option<(FileSystem, String)> {
    let superblock = bytes(view, SUPERBLOCK, nilfs2::LEN)?;
    let log = le32(&superblock, nilfs2::LOG_BLOCK_SIZE).checked_add(nilfs2::LOG_BASE)?;
    let block = unit_of_log(log)?;
    let fs = FileSystem {
        block,
        segment: segment(view, u64::from(le32(&superblock, nilfs2::BLOCKS_PER_SEGMENT)), block),
        data_start: place(view, le64(&superblock, nilfs2::FIRST_DATA_BLOCK), block),
        extent: said(le64(&superblock, nilfs2::DEV_SIZE), ByteCount::new(1)),
        ..FileSystem::default()
    };
    Some((fs, text(&superblock[nilfs2::VOLUME_NAME])))
}

/// A segment of `blocks` blocks; `None` if the view is too small for one.
fn segment(view: &View<'_>, blocks: u64, block: ByteCount) -> Option<ByteCount> {
    use straddle_device::Medium;
    said(blocks, block).filter(|segment| *segment <= view.len())
}
