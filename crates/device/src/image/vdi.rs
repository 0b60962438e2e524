//! VirtualBox's format, version 1.1 (VirtualBox `VDICore.h`; all numbers are little-endian).

use super::host::Host;
use super::{Access, Below, Files, ImageError, Map, Missing, Parts, StoredAt, StoredRun};
use crate::fields::{array, le16, le32, le64};
use crate::hex;

pub(super) const SIGNATURE_AT: usize = 0x40;
pub(super) const SIGNATURE: [u8; 4] = [0x7F, 0x10, 0xDA, 0xBE];

/// The only version since 2008.
const VERSION: u32 = 0x0001_0001;

mod field {
    pub(super) const VERSION: usize = 0x44;
    pub(super) const TYPE: usize = 0x4C;
    pub(super) const MAP_AT: usize = 0x154;
    pub(super) const DATA_AT: usize = 0x158;
    pub(super) const SIZE: usize = 0x170;
    pub(super) const BLOCK: usize = 0x178;
    pub(super) const EXTRA: usize = 0x17C;
    pub(super) const BLOCKS: usize = 0x180;
    pub(super) const PARENT: usize = 0x1B8;
}

const DISCARDED: u32 = 0xFFFF_FFFE;
const NEVER_WRITTEN: u32 = 0xFFFF_FFFF;

struct Vdi {
    map_at: u64,
    data_at: u64,
    block: u64,
    /// Bytes before the data of each block.
    extra: u64,
}

pub(super) fn open(host: Host, _: &Access<'_>) -> Result<Parts, ImageError> {
    let raw: [u8; 512] = host.bytes(0)?;
    let number = |field| u64::from(le32(&raw, field));
    let version = le32(&raw, field::VERSION);
    host.unsupported_if(version != VERSION, field::VERSION, || {
        format!("version {}.{}", version >> 16, version & 0xFFFF)
    })?;
    let variant = match le32(&raw, field::TYPE) {
        1 => "dynamic",
        2 => "static",
        3 => "undo",
        4 => "differencing",
        n => return Err(host.damaged(field::TYPE, format!("the image type {n} is unknown"))),
    };
    let (size, block) = (le64(&raw, field::SIZE), number(field::BLOCK));
    host.damaged_if(i64::try_from(size).is_err(), field::SIZE, || {
        format!("the disk size ({size} bytes) is not valid")
    })?;
    host.damaged_if(block < 512 || !block.is_multiple_of(512), field::BLOCK, || {
        format!("the block size ({block} bytes) is not valid")
    })?;
    let (map_at, blocks) = (number(field::MAP_AT), number(field::BLOCKS));
    host.damaged_if(blocks < size.div_ceil(block), field::BLOCKS, || {
        format!("{blocks} blocks of {block} bytes are too few for {size} bytes")
    })?;
    host.damaged_if(map_at + size.div_ceil(block) * 4 > host.len(), field::MAP_AT, || {
        format!("the block map at byte {map_at} is outside the file")
    })?;
    let parent: [u8; 16] = array(&raw, field::PARENT);
    let below = match variant {
        "differencing" | "undo" => Below::Missing(Missing { role: "parent", name: by_uuid(parent) }),
        _ => Below::Nothing,
    };
    let (data_at, extra) = (number(field::DATA_AT), number(field::EXTRA));
    let map = Vdi { map_at, data_at, block, extra };
    Ok(Parts { below, ..Parts::new(host, map, variant, size, block) })
}

fn by_uuid(bytes: [u8; 16]) -> String {
    let (a, b, c) = (le32(&bytes, 0), le16(&bytes, 4), le16(&bytes, 6));
    let (d, e) = (hex::encode(&bytes[8..10]), hex::encode(&bytes[10..]));
    format!("{{{a:08x}-{b:04x}-{c:04x}-{d}-{e}}} (only its UUID is known)")
}

impl Map for Vdi {
    fn locate(&self, files: &Files, at: u64) -> Result<StoredRun, ImageError> {
        let into = at % self.block;
        let entry_at = self.map_at + at / self.block * 4;
        let place = match files.own.le32(entry_at)? {
            NEVER_WRITTEN => StoredAt::Below,
            DISCARDED => StoredAt::Zero,
            index => {
                let before = (self.block + self.extra).checked_mul(u64::from(index));
                let start = before.and_then(|before| before.checked_add(self.data_at + self.extra));
                let start = start.filter(|start| *start < files.own.len());
                let start = start.ok_or_else(|| {
                    let what = format!("block {index} is past the end of the file");
                    files.own.damaged(entry_at, what)
                })?;
                StoredAt::Host { file: 0, at: start + into }
            }
        };
        Ok(StoredRun { place, len: self.block - into })
    }
}
