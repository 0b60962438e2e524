//! Parallels' expandable format (qemu `docs/interop/parallels.txt`; all numbers are little-endian).

use super::host::Host;
use super::{Access, Files, ImageError, Map, Parts, StoredAt, StoredRun};
use crate::fields::{le32, le64};

/// The map of these files counts in blocks; in others it counts in sectors.
pub(super) const EXTENDED: &[u8] = b"WithouFreSpacExt";

const SECTOR: u64 = 512;
const MAP_AT: u64 = 64;
/// The largest block, in sectors (qemu `parallels_open`).
const MAX_BLOCK: u64 = (i32::MAX as u64) / 513;

mod field {
    pub(super) const VERSION: usize = 16;
    pub(super) const BLOCK: usize = 28;
    pub(super) const BLOCKS: usize = 32;
    pub(super) const SIZE: usize = 36;
}

struct Parallels {
    block: u64,
    /// Of a map entry, in bytes.
    unit: u64,
}

pub(super) fn open(host: Host, _: &Access<'_>) -> Result<Parts, ImageError> {
    let raw: [u8; 64] = host.bytes(0)?;
    let version = le32(&raw, field::VERSION);
    host.unsupported_if(version != 2, field::VERSION, || format!("version {version}"))?;
    let extended = raw.starts_with(EXTENDED);
    let sectors = u64::from(le32(&raw, field::BLOCK));
    host.damaged_if(sectors == 0 || sectors > MAX_BLOCK, field::BLOCK, || {
        format!("the block size ({sectors} sectors) is not valid")
    })?;
    let block = sectors * SECTOR;
    // In the older kind only the lower 32 bits are valid.
    let size = if extended { le64(&raw, field::SIZE) } else { u64::from(le32(&raw, field::SIZE)) };
    let size = size.checked_mul(SECTOR).filter(|size| i64::try_from(*size).is_ok());
    let size = size.ok_or_else(|| host.damaged(field::SIZE, "the disk is larger than 2^63 bytes"))?;
    let blocks = u64::from(le32(&raw, field::BLOCKS));
    host.damaged_if(blocks < size.div_ceil(block), field::BLOCKS, || {
        format!("{blocks} blocks of {block} bytes are too few for {size} bytes")
    })?;
    host.damaged_if(
        MAP_AT + size.div_ceil(block) * 4 > host.len(),
        field::BLOCKS,
        || "the block map is outside the file",
    )?;
    let variant = if extended { "extended" } else { "expanding" };
    let unit = if extended { block } else { SECTOR };
    Ok(Parts::new(host, Parallels { block, unit }, variant, size, block))
}

impl Map for Parallels {
    fn locate(&self, files: &Files, at: u64) -> Result<StoredRun, ImageError> {
        let into = at % self.block;
        let entry_at = MAP_AT + at / self.block * 4;
        let place = match files.own.le32(entry_at)? {
            0 => StoredAt::Zero,
            entry => {
                // Cannot overflow: 32 bits times a block of less than 2^32 bytes.
                let start = u64::from(entry) * self.unit;
                files.own.damaged_if(start >= files.own.len(), entry_at, || {
                    format!("the block at byte {start} is past the end of the file")
                })?;
                StoredAt::Host { file: 0, at: start + into }
            }
        };
        Ok(StoredRun { place, len: self.block - into })
    }
}
