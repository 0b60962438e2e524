//! ext2, ext3, ext4, and their external journals: `struct ext4_super_block`, fs/ext4/ext4.h, and
//! Documentation/filesystems/ext4/super.rst.

use super::{bytes, said, text, unit_of_log};
use crate::fields::{le16, le32};
use crate::model::layer::FileSystem;
use crate::model::view::View;

/// Offset of the superblock, whatever the block size, and its length.
const SUPERBLOCK: (u64, usize) = (1024, 1024);
/// `s_blocks_count_lo` and `s_blocks_count_hi`, 32 bits each; the second is valid with `INCOMPAT_64BIT`.
const BLOCKS_LOW: usize = 0x04;
const BLOCKS_HIGH: usize = 0x150;
/// `s_feature_incompat`, 32 bits, and the bit `EXT4_FEATURE_INCOMPAT_64BIT` in it.
const FEATURE_INCOMPAT: usize = 0x60;
const WIDE: u32 = 0x80;
/// `s_log_block_size`, 32 bits: the block is 2^(10 + this).
const LOG_BLOCK_SIZE: usize = 0x18;
/// `s_log_cluster_size`, 32 bits: the cluster is 2^(10 + this).
const LOG_CLUSTER_SIZE: usize = 0x1C;
/// `s_feature_ro_compat`, 32 bits.
const FEATURE_RO_COMPAT: usize = 0x64;
/// `EXT4_FEATURE_RO_COMPAT_BIGALLOC`: the cluster size is valid.
const BIGALLOC: u32 = 0x200;
/// `s_volume_name`, 16 bytes.
const VOLUME_NAME: std::ops::Range<usize> = 0x78..0x88;
/// `s_raid_stride`, 16 bits, in blocks.
const RAID_STRIDE: usize = 0x164;
/// `s_raid_stripe_width`, 32 bits, in blocks.
const RAID_STRIPE_WIDTH: usize = 0x170;
/// 1 KiB blocks are recorded as 0, so 10 is added to a recorded logarithm (`EXT4_MIN_BLOCK_LOG_SIZE`).
const LOG_BASE: u32 = 10;
/// 64 KiB blocks, the largest (`EXT4_MAX_BLOCK_LOG_SIZE`).
const MAX_LOG_BLOCK: u32 = 16;

pub(super) fn read(view: &View<'_>) -> Option<(FileSystem, String)> {
    let superblock = bytes(view, SUPERBLOCK.0, SUPERBLOCK.1)?;
    let log = |at| le32(&superblock, at).checked_add(LOG_BASE);
    let block = log(LOG_BLOCK_SIZE).filter(|log| *log <= MAX_LOG_BLOCK).and_then(unit_of_log)?;
    let has_clusters = le32(&superblock, FEATURE_RO_COMPAT) & BIGALLOC != 0;
    let cluster = log(LOG_CLUSTER_SIZE).filter(|_| has_clusters).and_then(unit_of_log);
    let is_wide = le32(&superblock, FEATURE_INCOMPAT) & WIDE != 0;
    let high = if is_wide { u64::from(le32(&superblock, BLOCKS_HIGH)) << 32 } else { 0 };
    let fs = FileSystem {
        block,
        extent: said(high | u64::from(le32(&superblock, BLOCKS_LOW)), block),
        cluster: cluster.filter(|cluster| *cluster >= block),
        stripe_unit: said(u64::from(le16(&superblock, RAID_STRIDE)), block),
        stripe_width: said(u64::from(le32(&superblock, RAID_STRIPE_WIDTH)), block),
        ..FileSystem::default()
    };
    Some((fs, text(&superblock[VOLUME_NAME])))
}
