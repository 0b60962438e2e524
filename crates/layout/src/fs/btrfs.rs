//! Btrfs: `struct btrfs_super_block`, include/uapi/linux/btrfs_tree.h.
//!
//! Btrfs allocates data in what it calls sectors, hence `block`. Its trees consist of nodes, each of which is
//! written as a whole.

use straddle_units::ByteCount;

use super::{bytes, said, text, unit};
use crate::fields::{le32, le64};
use crate::model::layer::FileSystem;
use crate::model::view::View;

/// Offset of the first superblock (`BTRFS_SUPER_INFO_OFFSET`) and its length (`BTRFS_SUPER_INFO_SIZE`).
const SUPERBLOCK: (u64, usize) = (64 * 1024, 4096);
/// `sectorsize`, 32 bits.
const SECTORSIZE: usize = 0x90;
/// `nodesize`, 32 bits.
const NODESIZE: usize = 0x94;
/// `dev_item.devid`, 64 bits: the number of this device in the file system.
const DEVID: usize = 0xC9;
/// `dev_item.total_bytes`, 64 bits: the size of this device.
const TOTAL_BYTES: usize = 0xD1;
/// `label`, 256 bytes.
const LABEL: std::ops::Range<usize> = 0x12B..0x22B;

pub(super) fn read(view: &View<'_>) -> Option<(FileSystem, String)> {
    let superblock = bytes(view, SUPERBLOCK.0, SUPERBLOCK.1)?;
    let block = unit(u64::from(le32(&superblock, SECTORSIZE)))?;
    let node = unit(u64::from(le32(&superblock, NODESIZE))).filter(|node| *node >= block);
    let devid = Some(le64(&superblock, DEVID));
    let extent = said(le64(&superblock, TOTAL_BYTES), ByteCount::new(1));
    Some((FileSystem { block, node, devid, extent, ..FileSystem::default() }, text(&superblock[LABEL])))
}
