//! Members of firmware RAIDs, Intel's (IMSM, "isw") and DDF, and of DRBD, which is a mirror as well.
//!
//! Only a mirror is mapped, as each of its members holds all of it. Sources: mdadm's super-intel.c and super-ddf.c,
//! dmraid's lib/format/ataraid/isw.h, SNIA's DDF specification 2.0, drbd-utils' user/shared/drbdmeta.c.

use straddle_device::Medium;
use straddle_device::fields::{be16, be32, be64, byte, has, le16, le32};
use straddle_units::{ByteCount, ByteOffset};

use super::{Provides, Space, Volume, bytes_at, sectors, text};
use crate::model::content::VolumeKind;
use crate::model::layer::{Facts, Mapped, Md};
use crate::reader::Fault;

const BLOCK: usize = 512;

/// mdadm writes a few KiB, and DDF has at most 1024 sectors.
const MAX_METADATA: u64 = 512 * 1024;

struct Array {
    name: String,
    level: i32,
    members: u32,
    chunk: ByteCount,
    /// In sectors.
    start: u64,
    count: u64,
}

type Said = Result<Array, String>;

pub(super) fn isw(medium: &dyn Medium) -> Result<Volume, Fault> {
    Ok(volume(VolumeKind::Isw, isw_array(medium)?))
}

pub(super) fn ddf(medium: &dyn Medium) -> Result<Volume, Fault> {
    Ok(volume(VolumeKind::Ddf, ddf_array(medium)?))
}

/// The data is before the metadata at the end, from byte 0 on.
pub(super) fn drbd(medium: &dyn Medium) -> Result<Volume, Fault> {
    /// `MD_SECTOR_4K`: the last 4096 bytes.
    const FROM_END: u64 = 8;
    let at = sectors((medium.len().get() / 512).saturating_sub(FROM_END));
    // Zero before both sides have agreed on a size.
    let agreed = sectors(be64(&bytes_at(medium, at, BLOCK)?, 0));
    let len = if agreed == 0 { at } else { agreed.min(at) };
    let facts = Facts::Mapped(Mapped { payload: Some(ByteOffset::ZERO), ..Mapped::default() });
    let space = Space::run(ByteCount::new(len), ByteOffset::ZERO);
    Ok(Volume::new(VolumeKind::Drbd, facts, Ok(Provides::Open(space))))
}

fn volume(kind: VolumeKind, said: Said) -> Volume {
    let array = match said {
        Ok(array) => array,
        Err(why) => return Volume::new(kind, Facts::Opaque, Err(why)),
    };
    let (at, len) = (sectors(array.start), ByteCount::new(sectors(array.count)));
    let facts = Facts::Md(Md {
        version: "external",
        level: array.level,
        layout: 0,
        chunk: array.chunk,
        raid_disks: array.members,
        role: None,
        data_offset: ByteCount::new(at),
        data_size: len,
    });
    let provides = match array.level {
        1 => Ok(Provides::Open(Space::run(len, ByteOffset::new(at)))),
        _ => Err("the array is not a mirror, so its contents were not read".to_owned()),
    };
    Volume { name: array.name, ..Volume::new(kind, facts, provides) }
}

fn several(count: usize) -> String {
    format!("the metadata lists {count} arrays, so the contents of the arrays were not read")
}

// --- Intel: struct imsm_super, imsm_dev, imsm_vol, imsm_map ---------------------

/// The second sector from the end. Metadata that does not fit there is before it.
const ISW_FROM_END: u64 = 2;
const ISW_SIZE: usize = 0x24;
const ISW_DISKS: usize = 0x38;
const ISW_ARRAYS: usize = 0x39;
const ISW_DISK_LIST: usize = 0xD8;
const ISW_DISK: usize = 48;
/// In `imsm_dev`: `vol.migr_state` and `vol.migr_type`, where 3 is a change of layout.
const ISW_MIGRATES: usize = 88;
const ISW_RESHAPE: u8 = 3;
/// In `imsm_dev`: `vol.map[0]`.
const ISW_MAP: usize = 112;

fn isw_array(medium: &dyn Medium) -> Result<Said, Fault> {
    let anchor_at = (medium.len().get() / 512).saturating_sub(ISW_FROM_END);
    let mut bytes = bytes_at(medium, sectors(anchor_at), BLOCK)?;
    let size = u64::from(le32(&bytes, ISW_SIZE));
    if size > MAX_METADATA {
        return Ok(Err(format!("the metadata of the array is too large to read ({size} bytes)")));
    }
    let before = size.div_ceil(512).saturating_sub(1);
    if let Some(at) = anchor_at.checked_sub(before).filter(|_| before > 0) {
        let want = usize::try_from(before).unwrap_or(0) * BLOCK;
        bytes.extend(bytes_at(medium, sectors(at), want)?);
    }
    let count = usize::from(byte(&bytes, ISW_ARRAYS));
    if count != 1 {
        return Ok(Err(several(count)));
    }
    let at = ISW_DISK_LIST + ISW_DISK * usize::from(byte(&bytes, ISW_DISKS));
    let Some(device) = bytes.get(at..).filter(|rest| rest.len() >= ISW_MAP + 32) else {
        return Ok(Err("the metadata of the array is truncated".to_owned()));
    };
    if byte(device, ISW_MIGRATES) != 0 && byte(device, ISW_MIGRATES + 1) == ISW_RESHAPE {
        return Ok(Err("the array is being reshaped, so its contents were not read".to_owned()));
    }
    let map = &device[ISW_MAP..];
    let wide = |low: usize, high: usize| u64::from(le32(map, low)) | u64::from(le32(map, high)) << 32;
    let members = u32::from(byte(map, 16));
    let level = match byte(map, 15) {
        1 if members > 2 => 10,
        level => i32::from(level),
    };
    let chunk = ByteCount::new(sectors(u64::from(le16(map, 12))));
    Ok(Ok(Array {
        name: text(device.get(..16).unwrap_or_default()).trim().to_owned(),
        level,
        members,
        chunk: if level == 1 { ByteCount::ZERO } else { chunk },
        start: wide(0, 20),
        count: wide(4, 24),
    }))
}

// --- DDF: struct ddf_header, vd_config ------------------------------------------

const DDF_MAGIC: &[u8] = b"\xDE\x11\xDE\x11";
const DDF_PRIMARY_AT: usize = 96;
const DDF_RECORD_SECTORS: usize = 134;
const DDF_MAX_ELEMENTS: usize = 136;
const DDF_RECORDS_AT: usize = 216;
const DDF_RECORDS: usize = 220;
/// `DDF_VD_CONF_MAGIC`.
const DDF_ARRAY: &[u8] = b"\xEE\xEE\xEE\xEE";
/// In such a record: the number of members, log2 of the chunk in sectors, the level, the number of arrays
/// that are combined, the sectors of each member, and the list of member numbers, 4 bytes each.
const DDF_ELEMENTS: usize = 64;
const DDF_CHUNK: usize = 66;
const DDF_LEVEL: usize = 67;
const DDF_SECONDARY: usize = 69;
const DDF_BLOCKS: usize = 72;
const DDF_MEMBERS: usize = 512;

fn ddf_array(medium: &dyn Medium) -> Result<Said, Fault> {
    let last = (medium.len().get() / 512).saturating_sub(1);
    let anchor = bytes_at(medium, sectors(last), BLOCK)?;
    let primary = be64(&anchor, DDF_PRIMARY_AT);
    let header = bytes_at(medium, sectors(primary), BLOCK)?;
    if !has(&anchor, 0, DDF_MAGIC) || !has(&header, 0, DDF_MAGIC) {
        return Ok(Err("the metadata has no valid header, so neither the metadata nor the contents of the \
                       array were read"
            .to_owned()));
    }
    let len = sectors(u64::from(be32(&header, DDF_RECORDS)));
    let records_at = primary.checked_add(u64::from(be32(&header, DDF_RECORDS_AT)));
    let record = usize::from(be16(&header, DDF_RECORD_SECTORS)) * BLOCK;
    let Some(at) = records_at.filter(|_| len <= MAX_METADATA && record != 0) else {
        return Ok(Err("the metadata of the array is not valid".to_owned()));
    };
    let records = bytes_at(medium, sectors(at), usize::try_from(len).unwrap_or(0))?;
    let arrays: Vec<&[u8]> = records.chunks(record).filter(|record| has(record, 0, DDF_ARRAY)).collect();
    let [one] = arrays[..] else { return Ok(Err(several(arrays.len()))) };
    let members = usize::from(be16(one, DDF_ELEMENTS));
    // After the list of member numbers, which has room for the maximum.
    let starts_at = DDF_MEMBERS + 4 * usize::from(be16(&header, DDF_MAX_ELEMENTS));
    let starts = one.get(starts_at..).unwrap_or_default().as_chunks::<8>().0;
    let mut starts = starts.iter().take(members).map(|start| u64::from_be_bytes(*start));
    let Some(start) = starts.next().filter(|first| starts.all(|start| start == *first)) else {
        return Ok(Err("the data does not start at the same sector of all members, so the contents of the \
                       array were not read"
            .to_owned()));
    };
    let level = match (byte(one, DDF_LEVEL), byte(one, DDF_SECONDARY)) {
        (level @ (0 | 1 | 4 | 5 | 6), 1) => i32::from(level),
        (1, _) => 10,
        (level, _) => {
            return Ok(Err(format!(
                "RAID level {level} is not supported, so the contents of the array were not read"
            )));
        }
    };
    let chunk = 1_u64.checked_shl(u32::from(byte(one, DDF_CHUNK))).unwrap_or(0);
    Ok(Ok(Array {
        name: String::new(),
        level,
        members: u32::try_from(members).unwrap_or(u32::MAX),
        chunk: if level == 1 { ByteCount::ZERO } else { ByteCount::new(sectors(chunk)) },
        start,
        count: be64(one, DDF_BLOCKS),
    }))
}
