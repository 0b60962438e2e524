//! Sizes and blocks of file systems otherwise known by name only, to notice one that reaches past the end of its
//! partition, or is on larger sectors than its blocks.

use straddle_device::fields::{be16, be32, has, le16, le32, le64};
use straddle_units::{ByteCount, ByteOffset};

use super::{bytes, said, unit};
use crate::model::view::View;

/// The superblock of HFS, and how many bytes are read.
const SUPERBLOCK: (u64, usize) = (1024, 64);

/// The master directory block of HFS (Inside Macintosh: Files, 2-60) and the volume header of HFS+ (TN1150).
mod hfs {
    pub(super) const SIGNATURE: &[u8] = b"BD";
    /// `drNmAlBlks`, 16 bits; `drAlBlkSiz`, 32 bits; `drAlBlSt`, 16 bits, in sectors of 512 bytes.
    pub(super) const BLOCKS: usize = 18;
    pub(super) const BLOCK: usize = 20;
    pub(super) const FIRST: usize = 28;
    pub(super) const SECTOR: u64 = 512;
    /// `blockSize` and `totalBlocks`, 32 bits each.
    pub(super) const PLUS_BLOCK: usize = 40;
    pub(super) const PLUS_BLOCKS: usize = 44;
}

/// `nx_superblock_t` (Apple File System Reference, Container).
mod apfs {
    pub(super) const SUPERBLOCK: (u64, usize) = (0, 48);
    /// `nx_block_size`, 32 bits; `nx_block_count`, 64 bits.
    pub(super) const BLOCK: usize = 36;
    pub(super) const BLOCKS: usize = 40;
}

/// `struct gfs2_sb`, include/uapi/linux/gfs2_ondisk.h: `sb_bsize`, 32 bits.
mod gfs2 {
    pub(super) const BLOCK: (u64, usize) = (64 * 1024 + 36, 4);
}

/// The anchor volume descriptor pointer of UDF (ECMA-167, 3/8.4.2.1 and 3/10.2).
mod udf {
    /// The block, whose number `TagLocation` repeats: 32 bits.
    pub(super) const ANCHOR: u32 = 256;
    pub(super) const LOCATION: usize = 12;
    /// `TagIdentifier`, 16 bits.
    pub(super) const IDENTIFIER: u16 = 2;
    pub(super) const TAG: usize = 16;
    /// The blocks that Linux tries (`udf_fill_super`).
    pub(super) const BLOCKS: [u64; 4] = [512, 1024, 2048, 4096];
}

/// The block in which Linux reads a file system, if known: on larger sectors it is not mounted (the `_fill_super` of
/// fs/{minix,bfs,udf}, `init_sb` of fs/gfs2/ops_fstype.c).
pub(crate) fn block(name: &str, view: &View<'_>) -> Option<ByteCount> {
    match name {
        // `BLOCK_SIZE`, include/uapi/linux/minix_fs.h: of the third version, too, whatever its own block is.
        "minix" => Some(ByteCount::new(1024)),
        // `BFS_BSIZE`, include/uapi/linux/bfs_fs.h.
        "bfs" => Some(ByteCount::new(512)),
        "gfs2" => unit(u64::from(be32(&bytes(view, gfs2::BLOCK.0, gfs2::BLOCK.1)?, 0))),
        "udf" => udf::BLOCKS.into_iter().find(|block| has_anchor(view, *block)).map(ByteCount::new),
        _ => None,
    }
}

fn has_anchor(view: &View<'_>, block: u64) -> bool {
    bytes(view, u64::from(udf::ANCHOR) * block, udf::TAG)
        .is_some_and(|tag| le16(&tag, 0) == udf::IDENTIFIER && le32(&tag, udf::LOCATION) == udf::ANCHOR)
}

/// Counted from the file system's start, if it records that and it is read.
pub(crate) fn recorded_end(name: &str, view: &View<'_>) -> Option<ByteCount> {
    match name {
        "hfs" | "hfsplus" => hfs_end(&bytes(view, SUPERBLOCK.0, SUPERBLOCK.1)?),
        "apfs" => {
            let superblock = bytes(view, apfs::SUPERBLOCK.0, apfs::SUPERBLOCK.1)?;
            said(le64(&superblock, apfs::BLOCKS), unit(u64::from(le32(&superblock, apfs::BLOCK)))?)
        }
        _ => None,
    }
}

fn hfs_end(block: &[u8]) -> Option<ByteCount> {
    if has(block, 0, hfs::SIGNATURE) {
        let first = ByteOffset::new(u64::from(be16(block, hfs::FIRST)) * hfs::SECTOR);
        let size =
            said(u64::from(be16(block, hfs::BLOCKS)), ByteCount::new(u64::from(be32(block, hfs::BLOCK))))?;
        return first.checked_add(size)?.checked_since(ByteOffset::ZERO);
    }
    said(u64::from(be32(block, hfs::PLUS_BLOCKS)), unit(u64::from(be32(block, hfs::PLUS_BLOCK)))?)
}
