//! Microsoft's VHD ("Virtual Hard Disk Image Format Specification" 1.0). All numbers are big-endian.

use super::access::from_windows;
use super::bits::{Bitmap, Order};
use super::host::Host;
use super::{Access, Below, Files, Format, ImageError, Map, Parts, StoredAt, StoredRun};
use crate::fields::{array, be16, be32, be64, utf16, utf16_le};

/// Files of Virtual PC before 2004 lack the last byte.
const FOOTER: usize = 512;
pub(super) const MAGIC: &[u8] = b"conectix";

mod footer {
    pub(super) const DATA_AT: usize = 16;
    pub(super) const SIZE: usize = 48;
    pub(super) const TYPE: usize = 60;
    pub(super) const CHECKSUM: usize = 64;
}

mod header {
    pub(super) const LEN: usize = 1024;
    pub(super) const MAGIC: &[u8] = b"cxsparse";
    pub(super) const TABLE_AT: usize = 16;
    pub(super) const ENTRIES: usize = 28;
    pub(super) const BLOCK: usize = 32;
    pub(super) const CHECKSUM: usize = 36;
    pub(super) const PARENT_NAME: usize = 64;
    pub(super) const PARENT_NAME_LEN: usize = 512;
    pub(super) const LOCATORS: usize = 576;
    pub(super) const LOCATOR_LEN: usize = 24;
    pub(super) const LOCATOR_COUNT: usize = 8;
}

const ABSENT: u32 = 0xFFFF_FFFF;
const SECTOR: u64 = 512;
/// Windows uses 2 MiB and 512 KiB.
const MAX_BLOCK: u64 = 256 << 20;
const MAX_PATH: u32 = 4096;

/// A footer is the only sign of a fixed disk.
pub(super) fn has_footer(tail: &[u8], len: u64) -> bool {
    let footer = match len % SECTOR {
        0 => tail,
        511 => tail.get(1..).unwrap_or_default(),
        _ => return false,
    };
    len > SECTOR && footer.starts_with(MAGIC)
}

fn is_footer(raw: &[u8; FOOTER]) -> bool {
    raw.starts_with(MAGIC) && checksum_holds(raw, footer::CHECKSUM)
}

/// The complement of the sum of all bytes except its own.
fn checksum_holds(raw: &[u8], at: usize) -> bool {
    let sum = |bytes: &[u8]| bytes.iter().fold(0_u32, |sum, byte| sum.wrapping_add(u32::from(*byte)));
    let own = raw.get(at..at + 4).map_or(0, sum);
    !sum(raw).wrapping_sub(own) == be32(raw, at)
}

pub(super) fn open(host: Host, access: &Access<'_>) -> Result<Parts, ImageError> {
    let (raw, at) = find_footer(&host)?;
    let byte = |field: usize| at.saturating_add(field as u64);
    let size = be64(&raw, footer::SIZE);
    host.damaged_if(i64::try_from(size).is_err(), byte(footer::SIZE), || {
        format!("the disk size ({size} bytes) is not valid")
    })?;
    let differencing = match be32(&raw, footer::TYPE) {
        2 => {
            host.damaged_if(size > at, byte(footer::SIZE), || {
                format!("the disk has {size} bytes, but the file has only {} bytes", host.len())
            })?;
            return Ok(Parts::new(host, Fixed { size }, "fixed", size, size));
        }
        3 => false,
        4 => true,
        n => return Err(host.unsupported(byte(footer::TYPE), format!("disk type {n}"))),
    };
    open_sparse(host, access, be64(&raw, footer::DATA_AT), size, differencing)
}

fn find_footer(host: &Host) -> Result<([u8; FOOTER], u64), ImageError> {
    let len = host.len();
    let mut damaged = 0;
    for tail in [FOOTER, FOOTER - 1] {
        let Some(at) = len.checked_sub(tail as u64) else { continue };
        let mut raw = [0; FOOTER];
        host.read(at, &mut raw[..tail])?;
        if is_footer(&raw) {
            return Ok((raw, at));
        }
        if raw.starts_with(MAGIC) {
            damaged = at;
        }
    }
    let copy: [u8; FOOTER] = host.bytes(0)?;
    if is_footer(&copy) {
        Ok((copy, 0))
    } else {
        Err(host.damaged(damaged, "the checksum of the footer is wrong"))
    }
}

fn open_sparse(
    host: Host,
    access: &Access<'_>,
    header_at: u64,
    size: u64,
    differencing: bool,
) -> Result<Parts, ImageError> {
    let byte = |field: usize| header_at.saturating_add(field as u64);
    let raw: [u8; header::LEN] = host.bytes(header_at)?;
    host.damaged_if(
        !raw.starts_with(header::MAGIC) || !checksum_holds(&raw, header::CHECKSUM),
        header_at,
        || "the header of the dynamic disk is missing, or its checksum is wrong",
    )?;
    let block = u64::from(be32(&raw, header::BLOCK));
    host.damaged_if(
        !block.is_power_of_two() || !(SECTOR..=MAX_BLOCK).contains(&block),
        byte(header::BLOCK),
        || format!("the block size ({block} bytes) is not valid"),
    )?;
    let (entries, needed) = (u64::from(be32(&raw, header::ENTRIES)), size.div_ceil(block));
    host.damaged_if(entries < needed, byte(header::ENTRIES), || {
        format!("the block table has {entries} entries, but {needed} are needed")
    })?;
    let table_at = be64(&raw, header::TABLE_AT);
    host.damaged_if(
        table_at.checked_add(needed * 4).is_none_or(|end| end > host.len()),
        byte(header::TABLE_AT),
        || format!("the block table at byte {table_at} is outside the file"),
    )?;
    let variant = if differencing { "differencing" } else { "dynamic" };
    let below = if differencing { open_parent(&host, access, &raw)? } else { Below::Nothing };
    let bitmap = (block / SECTOR).div_ceil(8).next_multiple_of(SECTOR);
    let map = Sparse { table_at, block, bitmap, differencing };
    Ok(Parts { below, ..Parts::new(host, map, variant, size, block) })
}

fn open_parent(host: &Host, access: &Access<'_>, raw: &[u8]) -> Result<Below, ImageError> {
    let mut names = Vec::new();
    for platform in [b"W2ru", b"W2ku"] {
        for slot in 0..header::LOCATOR_COUNT {
            let at = header::LOCATORS + slot * header::LOCATOR_LEN;
            let entry: [u8; header::LOCATOR_LEN] = array(raw, at);
            let len = be32(&entry, 8).min(MAX_PATH);
            if !entry.starts_with(platform) || len == 0 {
                continue;
            }
            let text = host.vec(be64(&entry, 16), u64::from(len))?;
            names.push(from_windows(&utf16_le(&text)));
        }
    }
    let name: [u8; header::PARENT_NAME_LEN] = array(raw, header::PARENT_NAME);
    names.push(from_windows(&utf16(name.chunks_exact(2).map(|pair| be16(pair, 0)))));
    access.open_first(Format::Vhd, "parent", &names)
}

struct Fixed {
    size: u64,
}

impl Map for Fixed {
    fn locate(&self, _: &Files, at: u64) -> Result<StoredRun, ImageError> {
        Ok(StoredRun { place: StoredAt::Host { file: 0, at }, len: self.size.saturating_sub(at) })
    }
}

/// A dynamic disk: blocks in any order, each preceded by a bitmap of its sectors.
struct Sparse {
    table_at: u64,
    block: u64,
    bitmap: u64,
    differencing: bool,
}

impl Map for Sparse {
    fn locate(&self, Files { own, .. }: &Files, at: u64) -> Result<StoredRun, ImageError> {
        let into = at % self.block;
        let entry_at = self.table_at + at / self.block * 4;
        let entry = own.be32(entry_at)?;
        if entry == ABSENT {
            return Ok(StoredRun { place: StoredAt::Below, len: self.block - into });
        }
        let bitmap_at = u64::from(entry) * SECTOR;
        let data_at = bitmap_at + self.bitmap;
        own.damaged_if(data_at >= own.len(), entry_at, || {
            format!("the block at byte {data_at} is past the end of the file")
        })?;
        let there = StoredAt::Host { file: 0, at: data_at + into };
        // A sector that a dynamic disk's bitmap marks absent is zero in the block, as qemu assumes too.
        if !self.differencing {
            return Ok(StoredRun { place: there, len: self.block - into });
        }
        let bitmap = Bitmap { host: own, at: bitmap_at, sector: SECTOR, order: Order::HighFirst };
        let (here, len) = bitmap.run(into, self.block)?;
        Ok(StoredRun { place: if here { there } else { StoredAt::Below }, len })
    }
}
