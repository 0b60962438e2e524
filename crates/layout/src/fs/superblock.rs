//! File systems whose figures are all in one superblock. The constants are named after its fields.

use std::ops::Range;

use straddle_device::Medium;
use straddle_device::fields::{be16, be32, be64, byte, has, le16, le32, le64, utf16_le};
use straddle_units::ByteCount;

use super::{Read, bytes, place, said, text, unit, unit_of_log};
use crate::model::layer::FileSystem;
use crate::model::view::View;

/// ext2, ext3, ext4, and their external journals: `struct ext4_super_block`, fs/ext4/ext4.h.
pub(super) fn ext(view: &View<'_>) -> Read {
    const BLOCKS_COUNT_LO: usize = 0x04;
    const LOG_BLOCK_SIZE: usize = 0x18;
    const LOG_CLUSTER_SIZE: usize = 0x1C;
    const FEATURE_INCOMPAT: usize = 0x60;
    const INCOMPAT_64BIT: u32 = 0x80;
    const FEATURE_RO_COMPAT: usize = 0x64;
    const RO_COMPAT_BIGALLOC: u32 = 0x200;
    const VOLUME_NAME: Range<usize> = 0x78..0x88;
    const BLOCKS_COUNT_HI: usize = 0x150;
    const RAID_STRIDE: usize = 0x164;
    const RAID_STRIPE_WIDTH: usize = 0x170;
    /// 1 KiB blocks are recorded as 0 (`EXT4_MIN_BLOCK_LOG_SIZE`), and 64 KiB is the largest block.
    const LOG_BASE: u32 = 10;
    const MAX_LOG_BLOCK: u32 = 16;
    let superblock = bytes(view, 1024, 1024)?;
    let log = |at| le32(&superblock, at).checked_add(LOG_BASE);
    let block = log(LOG_BLOCK_SIZE).filter(|log| *log <= MAX_LOG_BLOCK).and_then(unit_of_log)?;
    let has_clusters = le32(&superblock, FEATURE_RO_COMPAT) & RO_COMPAT_BIGALLOC != 0;
    let cluster = log(LOG_CLUSTER_SIZE).filter(|_| has_clusters).and_then(unit_of_log);
    let is_wide = le32(&superblock, FEATURE_INCOMPAT) & INCOMPAT_64BIT != 0;
    let high = if is_wide { u64::from(le32(&superblock, BLOCKS_COUNT_HI)) << 32 } else { 0 };
    let fs = FileSystem {
        block,
        extent: said(high | u64::from(le32(&superblock, BLOCKS_COUNT_LO)), block),
        cluster: cluster.filter(|cluster| *cluster >= block),
        stripe_unit: said(u64::from(le16(&superblock, RAID_STRIDE)), block),
        stripe_width: said(u64::from(le32(&superblock, RAID_STRIPE_WIDTH)), block),
        ..FileSystem::default()
    };
    Some((fs, text(&superblock[VOLUME_NAME])))
}

/// XFS: `struct xfs_dsb`, fs/xfs/libxfs/xfs_format.h, entirely big-endian.
pub(super) fn xfs(view: &View<'_>) -> Read {
    const BLOCKSIZE: usize = 4;
    const DBLOCKS: usize = 8;
    const SECTSIZE: usize = 102;
    const FNAME: Range<usize> = 108..120;
    const UNIT: usize = 184;
    const WIDTH: usize = 188;
    /// Zero if it equals the data section's.
    const LOGSECTSIZE: usize = 194;
    let superblock = bytes(view, 0, 512)?;
    let block = unit(u64::from(be32(&superblock, BLOCKSIZE)))?;
    let sector = unit(u64::from(be16(&superblock, SECTSIZE))).filter(|sector| *sector <= block);
    let log_sector = match be16(&superblock, LOGSECTSIZE) {
        0 => sector,
        size => unit(u64::from(size)),
    };
    let fs = FileSystem {
        block,
        extent: said(be64(&superblock, DBLOCKS), block),
        sector,
        log_sector,
        stripe_unit: said(u64::from(be32(&superblock, UNIT)), block),
        stripe_width: said(u64::from(be32(&superblock, WIDTH)), block),
        ..FileSystem::default()
    };
    Some((fs, text(&superblock[FNAME])))
}

/// Btrfs: `struct btrfs_super_block`. Its `block` is what it calls a sector; nodes are written whole.
pub(super) fn btrfs(view: &View<'_>) -> Read {
    const SECTORSIZE: usize = 0x90;
    const NODESIZE: usize = 0x94;
    /// The number of this device in the file system, and its size.
    const DEV_ITEM_DEVID: usize = 0xC9;
    const DEV_ITEM_TOTAL_BYTES: usize = 0xD1;
    const LABEL: Range<usize> = 0x12B..0x22B;
    let superblock = bytes(view, 64 * 1024, 4096)?;
    let block = unit(u64::from(le32(&superblock, SECTORSIZE)))?;
    let node = unit(u64::from(le32(&superblock, NODESIZE))).filter(|node| *node >= block);
    let devid = Some(le64(&superblock, DEV_ITEM_DEVID));
    let extent = said(le64(&superblock, DEV_ITEM_TOTAL_BYTES), ByteCount::new(1));
    Some((FileSystem { block, node, devid, extent, ..FileSystem::default() }, text(&superblock[LABEL])))
}

/// F2FS: `struct f2fs_super_block`, include/linux/f2fs_fs.h.
pub(super) fn f2fs(view: &View<'_>) -> Read {
    const LOG_BLOCKSIZE: usize = 0x10;
    const LOG_BLOCKS_PER_SEG: usize = 0x14;
    const BLOCK_COUNT: usize = 0x24;
    const SEGMENT0_BLKADDR: usize = 0x48;
    const MAIN_BLKADDR: usize = 0x5C;
    const VOLUME_NAME: Range<usize> = 0x7C..0x47C;
    /// Empty if the file system is on one device only. The superblock is on the first of several.
    const DEVS_0_PATH: usize = 0x899;
    /// Without the blocks before segment 0 (`f2fs_scan_devices`).
    const DEVS_0_TOTAL_SEGMENTS: usize = DEVS_0_PATH + 64;
    let superblock = bytes(view, 1024, DEVS_0_TOTAL_SEGMENTS + 4)?;
    let block = unit_of_log(le32(&superblock, LOG_BLOCKSIZE))?;
    let per_segment = 1_u64.checked_shl(le32(&superblock, LOG_BLOCKS_PER_SEG));
    let at = |field| match le32(&superblock, field) {
        // Block 0 holds the superblock itself.
        0 => None,
        number => place(view, u64::from(number), block),
    };
    let blocks = match (byte(&superblock, DEVS_0_PATH), le32(&superblock, DEVS_0_TOTAL_SEGMENTS)) {
        (0, _) => Some(le64(&superblock, BLOCK_COUNT)),
        (_, 0) => None,
        (_, segments) => per_segment
            .and_then(|blocks| blocks.checked_mul(u64::from(segments)))
            .and_then(|blocks| blocks.checked_add(u64::from(le32(&superblock, SEGMENT0_BLKADDR)))),
    };
    let fs = FileSystem {
        block,
        segment: per_segment.and_then(|blocks| segment(view, blocks, block)),
        segment_start: at(SEGMENT0_BLKADDR),
        data_start: at(MAIN_BLKADDR),
        extent: blocks.and_then(|blocks| said(blocks, block)),
        ..FileSystem::default()
    };
    Some((fs, utf16_le(&superblock[VOLUME_NAME])))
}

/// NILFS2: `struct nilfs_super_block`, nilfs2_ondisk.h. Segments count from byte 0, before the superblock.
pub(super) fn nilfs2(view: &View<'_>) -> Read {
    const LOG_BLOCK_SIZE: usize = 20;
    /// The logarithm to which the recorded one is added (`BLOCK_SIZE`, 1 KiB).
    const LOG_BASE: u32 = 10;
    const DEV_SIZE: usize = 32;
    const FIRST_DATA_BLOCK: usize = 40;
    const BLOCKS_PER_SEGMENT: usize = 48;
    const VOLUME_NAME: Range<usize> = 168..248;
    let superblock = bytes(view, 1024, VOLUME_NAME.end)?;
    let block = unit_of_log(le32(&superblock, LOG_BLOCK_SIZE).checked_add(LOG_BASE)?)?;
    let fs = FileSystem {
        block,
        segment: segment(view, u64::from(le32(&superblock, BLOCKS_PER_SEGMENT)), block),
        data_start: place(view, le64(&superblock, FIRST_DATA_BLOCK), block),
        extent: said(le64(&superblock, DEV_SIZE), ByteCount::new(1)),
        ..FileSystem::default()
    };
    Some((fs, text(&superblock[VOLUME_NAME])))
}

fn segment(view: &View<'_>, blocks: u64, block: ByteCount) -> Option<ByteCount> {
    said(blocks, block).filter(|segment| *segment <= view.len())
}

/// JFS: `struct jfs_superblock`, fs/jfs/jfs_superblock.h.
pub(super) fn jfs(view: &View<'_>) -> Read {
    /// In blocks of `PBSIZE` bytes, the device's. The log and fsck's space are behind them.
    const SIZE: usize = 8;
    const BSIZE: usize = 16;
    const PBSIZE: usize = 24;
    /// The log, unless it is on another device, and fsck's space, in blocks.
    const LOGPXD: usize = 72;
    const FSCKPXD: usize = 80;
    const LABEL: Range<usize> = 152..168;
    let superblock = bytes(view, 32 * 1024, 184)?;
    let block = unit(u64::from(le32(&superblock, BSIZE)))?;
    // A `pxd_t`: its length in 24 bits, then the upper 8 and the lower 32 bits of its first block.
    let end_of_run = |at: usize| {
        let run = le64(&superblock, at);
        let (len, start) = (run & 0xFF_FFFF, ((run >> 24 & 0xFF) << 32) | run >> 32);
        said(start + len, block)
    };
    let data = said(le64(&superblock, SIZE), ByteCount::new(u64::from(le32(&superblock, PBSIZE))));
    let extent =
        data.map(|data| [LOGPXD, FSCKPXD].into_iter().filter_map(end_of_run).fold(data, ByteCount::max));
    Some((FileSystem { block, extent, ..FileSystem::default() }, text(&superblock[LABEL])))
}

/// ReiserFS: `struct reiserfs_super_block`, fs/reiserfs/reiserfs.h, as of Linux 6.12.
pub(super) fn reiserfs(view: &View<'_>) -> Read {
    const BLOCK_COUNT: usize = 0;
    const BLOCKSIZE: usize = 44;
    const MAGIC: usize = 52;
    /// The magic of format 3.5, which has no label.
    const MAGIC_3_5: &[u8] = b"ReIsErFs";
    const LABEL: Range<usize> = 100..116;
    let superblock = bytes(view, 64 * 1024, LABEL.end)?;
    let block = unit(u64::from(le16(&superblock, BLOCKSIZE)))?;
    let has_label = !has(&superblock, MAGIC, MAGIC_3_5);
    let label = if has_label { text(&superblock[LABEL]) } else { String::new() };
    let extent = said(u64::from(le32(&superblock, BLOCK_COUNT)), block);
    Some((FileSystem { block, extent, ..FileSystem::default() }, label))
}

/// ISO 9660: the primary volume descriptor (ECMA-119, 8.4), in sector 16 of 2048 bytes.
pub(super) fn iso9660(view: &View<'_>) -> Read {
    const VOLUME_IDENTIFIER: Range<usize> = 40..72;
    /// In both byte orders, little endian first.
    const LOGICAL_BLOCK_SIZE: usize = 128;
    let descriptor = bytes(view, 32 * 1024, 132)?;
    let block = unit(u64::from(le16(&descriptor, LOGICAL_BLOCK_SIZE)))?;
    Some((FileSystem { block, ..FileSystem::default() }, text(&descriptor[VOLUME_IDENTIFIER])))
}

/// SquashFS: `struct squashfs_super_block`, fs/squashfs/squashfs_fs.h. It has no label.
pub(super) fn squashfs(view: &View<'_>) -> Read {
    const BLOCK_SIZE: usize = 12;
    let superblock = bytes(view, 0, 96)?;
    let block = unit(u64::from(le32(&superblock, BLOCK_SIZE)))?;
    Some((FileSystem { block, ..FileSystem::default() }, String::new()))
}

/// EROFS: `struct erofs_super_block`, fs/erofs/erofs_fs.h.
pub(super) fn erofs(view: &View<'_>) -> Read {
    const BLKSZBITS: usize = 12;
    const VOLUME_NAME: Range<usize> = 64..80;
    let superblock = bytes(view, 1024, 128)?;
    let block = unit_of_log(u32::from(byte(&superblock, BLKSZBITS)))?;
    Some((FileSystem { block, ..FileSystem::default() }, text(&superblock[VOLUME_NAME])))
}

/// Swap: `union swap_header`, include/linux/swap.h. The magic is at the end of the first page, so its offset
/// gives the page size, which the header does not record. Version 0 has neither a size nor a label.
pub(super) fn swap(view: &View<'_>) -> Read {
    /// Page sizes that Linux has used, as in libblkid/src/superblocks/swap.c.
    const PAGES: [u64; 5] = [4 << 10, 8 << 10, 16 << 10, 32 << 10, 64 << 10];
    const MAGIC: &[u8; 10] = b"SWAPSPACE2";
    const MAGIC_0: &[u8; 10] = b"SWAP-SPACE";
    /// In the byte order of the machine that wrote it, as `LAST_PAGE`.
    const VERSION: usize = 0;
    const LAST_PAGE: usize = 4;
    const SWS_VOLUME: Range<usize> = 28..44;
    let (page, is_1) = PAGES.iter().find_map(|page| {
        let magic = bytes(view, *page - 10, MAGIC.len())?;
        (magic == MAGIC || magic == MAGIC_0).then_some((*page, magic == MAGIC))
    })?;
    let block = ByteCount::new(page);
    let info = if is_1 { bytes(view, 1024, SWS_VOLUME.end) } else { None };
    let last = info.as_ref().and_then(|info| {
        let orders: [fn(&[u8], usize) -> u32; 2] = [le32, be32];
        orders.into_iter().find(|word| word(info, VERSION) == 1).map(|word| word(info, LAST_PAGE))
    });
    let extent = last.and_then(|last| said(u64::from(last) + 1, block));
    let label = info.map_or(String::new(), |info| text(&info[SWS_VOLUME]));
    Some((FileSystem { block, extent, ..FileSystem::default() }, label))
}
