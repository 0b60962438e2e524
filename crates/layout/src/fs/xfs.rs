//! XFS: `struct xfs_dsb`, fs/xfs/libxfs/xfs_format.h, entirely big-endian.

use super::{bytes, said, text, unit};
use crate::fields::{be16, be32, be64};
use crate::model::layer::FileSystem;
use crate::model::view::View;

/// Offset and length of the superblock, which fits the smallest sector.
const SUPERBLOCK: (u64, usize) = (0, 512);
/// `sb_blocksize`, 32 bits.
const BLOCKSIZE: usize = 4;
/// `sb_dblocks`, 64 bits.
const DBLOCKS: usize = 8;
/// `sb_sectsize`, 16 bits.
const SECTSIZE: usize = 102;
/// `sb_fname`, 12 bytes.
const FNAME: std::ops::Range<usize> = 108..120;
/// `sb_unit`, 32 bits: the stripe unit in blocks.
const UNIT: usize = 184;
/// `sb_width`, 32 bits: the stripe width in blocks.
const WIDTH: usize = 188;
/// `sb_logsectsize`, 16 bits; zero if it equals the data section's sector.
const LOGSECTSIZE: usize = 194;

pub(super) fn read(view: &View<'_>) -> Option<(FileSystem, String)> {
    let superblock = bytes(view, SUPERBLOCK.0, SUPERBLOCK.1)?;
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
