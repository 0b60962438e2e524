//! Microsoft's VHDX ([MS-VHDX] 8.0; all numbers are little-endian).
//!
//! The log is not replayed: that would mean writing to the image, or keeping the log in memory. An image that needs it
//! gets a remark, and its tables are read as they are.

use straddle_units::{BlockSize, ByteCount, MIB};

use super::access::from_windows;
use super::bits::{Bitmap, Order};
use super::host::Host;
use super::{Access, Below, Files, Format, ImageError, Map, Parts, SectorSizes, StoredAt, StoredRun};
use crate::fields::{array, le16, le32, le64, utf16_le};

/// Offsets of the two copies of the header and of the region table.
const HEADERS: [u64; 2] = [64 << 10, 128 << 10];
const REGION_TABLES: [u64; 2] = [192 << 10, 256 << 10];
const HEADER_LEN: u64 = 4 << 10;
const REGION_TABLE_LEN: u64 = 64 << 10;
const MAX_ENTRIES: u32 = 2047;
/// A parent locator has about five entries.
const MAX_LOCATORS: u16 = 32;

/// The first three numbers are little-endian.
type Guid = [u8; 16];

const fn guid(number: u128) -> Guid {
    let [a, b, c, d, e, f, g, h, rest @ ..] = number.to_be_bytes();
    let [i, j, k, l, m, n, o, p] = rest;
    [d, c, b, a, f, e, h, g, i, j, k, l, m, n, o, p]
}

const BAT: Guid = guid(0x2DC27766_F623_4200_9D64_115E9BFD4A08);
const METADATA: Guid = guid(0x8B7CA206_4790_4B9A_B8FE_575F050F886E);

mod item {
    use super::{Guid, guid};

    pub(super) const FILE: Guid = guid(0xCAA16737_FA36_4D43_B3B6_33F0AA44E76B);
    pub(super) const SIZE: Guid = guid(0x2FA54224_CD1B_4876_B211_5DBED83BF4B8);
    pub(super) const DISK_ID: Guid = guid(0xBECA12AB_B2E6_4523_93EF_C309E000C746);
    pub(super) const LOGICAL: Guid = guid(0x8141BF1D_A96F_4709_BA47_F233A8FAAB5F);
    pub(super) const PHYSICAL: Guid = guid(0xCDA348C7_445D_4471_9CC9_E9885251C556);
    pub(super) const PARENT: Guid = guid(0xA8D35F2D_B30B_454D_ABF7_D3D84834AB0C);
}

/// The relative path first.
const PARENT_PATHS: [&str; 2] = ["relative_path", "absolute_win32_path"];

/// A sector bitmap block of 1 MiB has one bit for each.
const CHUNK_SECTORS: u64 = 1 << 23;

struct Region {
    at: u64,
    len: u64,
}

struct Metadata {
    block: u64,
    size: u64,
    fixed: bool,
    sectors: SectorSizes,
    parent: Option<Below>,
}

struct Vhdx {
    bat: Region,
    block: u64,
    sector: u64,
    /// Blocks in a chunk. In the table, the entry of the chunk's bitmap follows theirs.
    ratio: u64,
    differencing: bool,
}

pub(super) fn open(host: Host, access: &Access<'_>) -> Result<Parts, ImageError> {
    let header = current_header(&host)?;
    let mut remarks = Vec::new();
    if header[48..64] != [0; 16] {
        let what = "the image was not closed cleanly, and its log, which may hold later changes, was not \
                    replayed";
        remarks.push(format!("VHDX: {what}"));
    }
    let (bat, metadata) = regions(&host)?;
    let metadata = Metadata::read(&host, &metadata, access)?;
    let Metadata { block, size, fixed, sectors, parent } = metadata;
    let sector = sectors.logical.get();
    let ratio = CHUNK_SECTORS * sector / block;
    let blocks = size.div_ceil(block);
    let last = blocks.saturating_sub(1);
    let entries = last + last / ratio + 1;
    host.damaged_if(
        entries * 8 > bat.len || bat.at.saturating_add(entries * 8) > host.len(),
        bat.at,
        || format!("the block table at byte {} is too short, or outside the file", bat.at),
    )?;
    let variant = match (&parent, fixed) {
        (Some(_), _) => "differencing",
        (None, true) => "fixed",
        (None, false) => "dynamic",
    };
    let differencing = parent.is_some();
    let map = Vhdx { bat, block, sector, ratio, differencing };
    let below = parent.unwrap_or(Below::Nothing);
    Ok(Parts { below, sectors: Some(sectors), remarks, ..Parts::new(host, map, variant, size, block) })
}

/// The intact one that was written last.
fn current_header(host: &Host) -> Result<[u8; 80], ImageError> {
    let mut current: Option<(u64, [u8; 80])> = None;
    for at in HEADERS {
        let raw: [u8; 80] = host.bytes(at)?;
        let is_later = current.is_none_or(|(_, best)| le64(&raw, 8) > le64(&best, 8));
        if raw.starts_with(b"head") && is_later && checksum_holds(host, at, HEADER_LEN)? {
            current = Some((at, raw));
        }
    }
    let (at, header) = current
        .ok_or_else(|| host.damaged(HEADERS[0], "neither copy of the header has a correct checksum"))?;
    match le16(&header, 66) {
        1 => Ok(header),
        n => Err(host.unsupported(at + 66, format!("version {n}"))),
    }
}

fn regions(host: &Host) -> Result<(Region, Region), ImageError> {
    let is_intact = |at| Ok(host.bytes::<4>(at)? == *b"regi" && checksum_holds(host, at, REGION_TABLE_LEN)?);
    let table = match REGION_TABLES {
        [first, _] if is_intact(first)? => first,
        [_, second] if is_intact(second)? => second,
        [first, _] => {
            return Err(host.damaged(first, "neither copy of the region table has a correct checksum"));
        }
    };
    let count = host.le32(table + 8)?.min(MAX_ENTRIES);
    let (mut bat, mut metadata) = (None, None);
    for index in 0..u64::from(count) {
        let at = table + 16 + index * 32;
        let entry: [u8; 32] = host.bytes(at)?;
        let region = Region { at: le64(&entry, 16), len: u64::from(le32(&entry, 24)) };
        let slot = match array(&entry, 0) {
            BAT => &mut bat,
            METADATA => &mut metadata,
            _ if le32(&entry, 28) & 1 != 0 => {
                return Err(host.unsupported(at, "an unknown region that is marked as required"));
            }
            _ => continue,
        };
        host.damaged_if(
            region.at < MIB || !region.at.is_multiple_of(MIB) || region.at >= host.len(),
            at + 16,
            || format!("the position of a region (byte {}) is not valid", region.at),
        )?;
        *slot = Some(region);
    }
    match (bat, metadata) {
        (Some(bat), Some(metadata)) => Ok((bat, metadata)),
        _ => Err(host.damaged(table, "the region table lists no block table or no metadata")),
    }
}

impl Metadata {
    fn read(host: &Host, region: &Region, access: &Access<'_>) -> Result<Self, ImageError> {
        let table: [u8; 32] = host.bytes(region.at)?;
        host.damaged_if(!table.starts_with(b"metadata"), region.at, || "the metadata table is missing")?;
        let count = u64::from(u32::from(le16(&table, 10)).min(MAX_ENTRIES));
        let (mut block, mut flags, mut size, mut logical, mut physical) = (0, 0, 0, 0, 0);
        let mut locator = None;
        for index in 0..count {
            let at = region.at + 32 + index * 32;
            let entry: [u8; 32] = host.bytes(at)?;
            let item = region.at + u64::from(le32(&entry, 16));
            match array(&entry, 0) {
                item::FILE => (block, flags) = (u64::from(host.le32(item)?), host.le32(item + 4)?),
                item::SIZE => size = host.le64(item)?,
                item::LOGICAL => logical = u64::from(host.le32(item)?),
                item::PHYSICAL => physical = u64::from(host.le32(item)?),
                item::PARENT => locator = Some(item),
                item::DISK_ID => {}
                _ if le32(&entry, 24) & 4 != 0 => {
                    return Err(host.unsupported(at, "an unknown metadata item that is marked as required"));
                }
                _ => {}
            }
        }
        host.damaged_if(!block.is_power_of_two() || !(MIB..=256 * MIB).contains(&block), region.at, || {
            format!("the block size ({block} bytes) is not valid")
        })?;
        let sector = |bytes| matches!(bytes, 512 | 4096);
        let (Ok(logical), true, true) = (BlockSize::new(logical), sector(logical), sector(physical)) else {
            let what = format!("the sector sizes ({logical} and {physical} bytes) are not valid");
            return Err(host.damaged(region.at, what));
        };
        // The format's own limit is 64 TiB.
        host.damaged_if(size > 64 << 40 || !size.is_multiple_of(logical.get()), region.at, || {
            format!("the disk size ({size} bytes in sectors of {logical} bytes) is not valid")
        })?;
        let parent = match locator {
            _ if flags & 2 == 0 => None,
            Some(at) => Some(open_parent(host, at, access)?),
            None => return Err(host.damaged(region.at, "the differencing disk has no parent locator")),
        };
        let sectors = SectorSizes { logical, physical: ByteCount::new(physical) };
        Ok(Self { block, size, fixed: flags & 1 != 0, sectors, parent })
    }
}

fn open_parent(host: &Host, locator: u64, access: &Access<'_>) -> Result<Below, ImageError> {
    let head: [u8; 20] = host.bytes(locator)?;
    let mut names = vec![String::new(); PARENT_PATHS.len()];
    for index in 0..u64::from(le16(&head, 18).min(MAX_LOCATORS)) {
        let entry: [u8; 12] = host.bytes(locator + 20 + index * 12)?;
        let text = |offset: u32, len: u16| {
            host.vec(locator + u64::from(offset), u64::from(len)).map(|bytes| utf16_le(&bytes))
        };
        let key = text(le32(&entry, 0), le16(&entry, 8))?;
        if let Some(known) = PARENT_PATHS.iter().position(|name| *name == key) {
            names[known] = from_windows(&text(le32(&entry, 4), le16(&entry, 10))?);
        }
    }
    access.open_first(Format::Vhdx, "parent", &names)
}

impl Vhdx {
    fn entry(&self, own: &Host, index: u64) -> Result<(u64, u64, u64), ImageError> {
        let entry_at = self.bat.at + index * 8;
        let entry = own.le64(entry_at)?;
        let (state, at) = (entry & 7, entry & !(MIB - 1));
        own.damaged_if(state >= 6 && at >= own.len(), entry_at, || {
            format!("the block at byte {at} is past the end of the file")
        })?;
        Ok((state, at, entry_at))
    }
}

impl Map for Vhdx {
    fn locate(&self, Files { own, .. }: &Files, at: u64) -> Result<StoredRun, ImageError> {
        let (block, into) = (at / self.block, at % self.block);
        let (chunk, in_chunk) = (block / self.ratio, block % self.ratio);
        let (state, data_at, entry_at) = self.entry(own, block + chunk)?;
        let there = StoredAt::Host { file: 0, at: data_at + into };
        let whole = |place| Ok(StoredRun { place, len: self.block - into });
        match state {
            0 => whole(StoredAt::Below),
            1..=3 => whole(StoredAt::Zero),
            6 => whole(there),
            7 if self.differencing => {
                let index = chunk * (self.ratio + 1) + self.ratio;
                let (state, bitmap_at, bitmap_entry_at) = self.entry(own, index)?;
                own.damaged_if(state != 6, bitmap_entry_at, || "a partly present block has no bitmap")?;
                let bitmap = Bitmap { host: own, at: bitmap_at, sector: self.sector, order: Order::LowFirst };
                let start = in_chunk * self.block;
                let (here, len) = bitmap.run(start + into, start + self.block)?;
                Ok(StoredRun { place: if here { there } else { StoredAt::Below }, len })
            }
            n => Err(own.damaged(entry_at, format!("the block has the unknown state {n}"))),
        }
    }
}

/// CRC-32C at byte 4, computed with zeros in its own place.
fn checksum_holds(host: &Host, at: u64, len: u64) -> Result<bool, ImageError> {
    let mut bytes = host.vec(at, len)?;
    let stored = le32(&bytes, 4);
    bytes[4..8].fill(0);
    Ok(crc32c(&bytes) == stored)
}

fn crc32c(bytes: &[u8]) -> u32 {
    let step = |crc: u32, byte: &u8| CRC32C[usize::from(crc.to_le_bytes()[0] ^ byte)] ^ (crc >> 8);
    !bytes.iter().fold(u32::MAX, step)
}

/// The byte-wise table of CRC-32C (Castagnoli), reflected.
const CRC32C: [u32; 256] = {
    let mut table = [0_u32; 256];
    let mut index = 0;
    let mut byte = 0_u32;
    while index < 256 {
        let mut crc = byte;
        let mut bit = 0;
        while bit < 8 {
            crc = if crc & 1 != 0 { (crc >> 1) ^ 0x82F6_3B78 } else { crc >> 1 };
            bit += 1;
        }
        table[index] = crc;
        index += 1;
        byte += 1;
    }
    table
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_checksum_is_castagnolis() {
        // RFC 3720, B.4: 32 bytes of zeros, and the usual check value.
        assert_eq!(crc32c(&[0; 32]), 0x8A91_36AA);
        assert_eq!(crc32c(b"123456789"), 0xE306_9283);
    }
}
