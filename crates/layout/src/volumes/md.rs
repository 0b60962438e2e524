//! Members of Linux software RAIDs: the superblocks of versions 0.90 and 1.x.
//!
//! A RAID0's members are assumed to have equal sizes: each records only its own. Sources: the kernel's
//! include/uapi/linux/raid/md_p.h, drivers/md/{md,raid5,raid10}.c; mdadm's super0.c and super1.c.

use straddle_device::Medium;
use straddle_device::fields::{array, be32, le16, le32, le64};
use straddle_device::live::{Geometry, Lower};
use straddle_units::{ByteCount, ByteOffset, Span};

use super::{Provides, Space, Volume, bytes_at, sectors, text};
use crate::fs::hex;
use crate::model::content::VolumeKind;
use crate::model::layer::{Facts, Md};
use crate::reader::Fault;

/// `MD_SB_MAGIC`.
const MAGIC: u32 = 0xa92b_4efc;

/// Enough for either version (`MD_SB_BYTES`, `MAX_SB_SIZE`).
const SUPERBLOCK: usize = 4096;

/// A 0.90 superblock is at the start of the last whole block of this size (`MD_RESERVED_BYTES`).
const RESERVED: u64 = 64 * 1024;

/// A 1.0 superblock is 16 sectors before the end, rounded down to 8 (`super_1_load`, drivers/md/md.c).
const END_SECTORS: u64 = 16;

/// Offset of `dev_roles` in a 1.x superblock.
const ROLES_AT: usize = 256;

/// `MD_FEATURE_RECOVERY_OFFSET`, `MD_FEATURE_RESHAPE_ACTIVE`.
const RECOVERY: u32 = 2;
const RESHAPE: u32 = 4;

/// `MD_FEATURE_RAID0_LAYOUT`: without it the layout field of a RAID0 is meaningless.
const RAID0_LAYOUT: u32 = 4096;

struct Superblock {
    md: Md,
    name: String,
    uuid: String,
    /// Whether a reshape from one layout to another is in progress.
    moving: bool,
    remarks: Vec<String>,
}

/// 0.90 or 1.0, with two reads.
pub(crate) fn at_end(medium: &dyn Medium) -> Option<Volume> {
    found_at_end(medium).map(|(_, found)| volume(found, medium.len()))
}

pub(crate) fn marked_at_end(medium: &dyn Medium) -> Option<Span> {
    let (at, _) = found_at_end(medium)?;
    Span::new(ByteOffset::new(at), ByteCount::new(u64::try_from(SUPERBLOCK).ok()?))
}

fn found_at_end(medium: &dyn Medium) -> Option<(u64, Superblock)> {
    let len = medium.len().get();
    let read = |at: u64| bytes_at(medium, at, SUPERBLOCK).ok();
    let new = (len / 512).checked_sub(END_SECTORS).map(|sector| sectors(sector & !7));
    let old = (len / RESERVED).checked_sub(1).map(|blocks| blocks * RESERVED);
    let version_1_0 =
        |at| read(at).filter(|bytes| is_version_1(bytes, at)).map(|bytes| (at, version_1(&bytes, at)));
    let version_0_90 = |at| Some((at, version_0(&read(at)?, at)?));
    new.and_then(version_1_0).or_else(|| old.and_then(version_0_90))
}

/// 1.1 or 1.2.
pub(super) fn at_front(medium: &dyn Medium) -> Result<Volume, Fault> {
    let first = bytes_at(medium, 0, SUPERBLOCK)?;
    let found = if is_version_1(&first, 0) {
        version_1(&first, 0)
    } else {
        version_1(&bytes_at(medium, 4096, SUPERBLOCK)?, 4096)
    };
    Ok(volume(found, medium.len()))
}

/// A 1.x superblock that records this position.
fn is_version_1(bytes: &[u8], at: u64) -> bool {
    le32(bytes, 0) == MAGIC && le32(bytes, 4) == 1 && sectors(le64(bytes, 144)) == at
}

/// `struct mdp_superblock_1`.
fn version_1(bytes: &[u8], at: u64) -> Superblock {
    let features = le32(bytes, 8);
    let level = i32::from_le_bytes(array(bytes, 72));
    let raid_disks = le32(bytes, 92);
    let data_size = ByteCount::new(sectors(le64(bytes, 136)));
    let used = ByteCount::new(sectors(le64(bytes, 80)));
    let mut remarks = Vec::new();
    if features & RECOVERY != 0 {
        remarks.push("this member is being rebuilt and does not yet hold all its data".to_owned());
    }
    let md = Md {
        version: match at {
            0 => "1.1",
            4096 => "1.2",
            _ => "1.0",
        },
        level,
        layout: if level == 0 && features & RAID0_LAYOUT == 0 { 0 } else { le32(bytes, 76) },
        chunk: ByteCount::new(sectors(u64::from(le32(bytes, 88)))),
        raid_disks,
        // 0xffff is a spare, 0xfffe faulty, 0xfffd a journal.
        role: role_1(bytes).map(u32::from).filter(|role| *role < raid_disks),
        data_offset: ByteCount::new(sectors(le64(bytes, 128))),
        // RAID0 and linear use all space and record nothing here.
        data_size: if level > 0 && used != ByteCount::ZERO { used.min(data_size) } else { data_size },
    };
    let name = text(bytes.get(32..64).unwrap_or_default());
    // `set_uuid`
    let uuid = hex(bytes.get(16..32).unwrap_or_default());
    Superblock { md, name, uuid, moving: features & RESHAPE != 0, remarks }
}

/// As `role_from_sb` (mdadm, super1.c).
fn role_1(bytes: &[u8]) -> Option<u16> {
    let (number, listed) = (le32(bytes, 160), le32(bytes, 220));
    let at = ROLES_AT.checked_add(usize::try_from(number).ok()?.checked_mul(2)?)?;
    (number < listed && at + 2 <= bytes.len()).then(|| le16(bytes, at))
}

/// `mdp_superblock_s`, words in the byte order of the machine that wrote it.
fn version_0(bytes: &[u8], at: u64) -> Option<Superblock> {
    let field = if be32(bytes, 0) == MAGIC { be32 } else { le32 };
    let word = |index: usize| field(bytes, 4 * index);
    let (major, minor) = (word(1), word(2));
    if word(0) != MAGIC || major != 0 || !(90..=91).contains(&minor) {
        return None;
    }
    let (level, raid_disks) = (word(7).cast_signed(), word(10));
    // this_disk: its place in the array, and its state (bit 0 faulty, 1 active, 2 in sync).
    let (place, state) = (word(995), word(996));
    let is_member = state & 0b111 == 0b110 && place < raid_disks;
    let (used, room) = (ByteCount::new(u64::from(word(8)) * 1024), ByteCount::new(at));
    let md = Md {
        version: "0.90",
        level,
        layout: if level == 0 { 0 } else { word(64) },
        chunk: ByteCount::new(u64::from(word(65))),
        raid_disks,
        role: is_member.then_some(place),
        data_offset: ByteCount::ZERO,
        data_size: if level > 0 && used != ByteCount::ZERO { used.min(room) } else { room },
    };
    // Minor version 91 marks a reshape; its position is all ones if none is in progress.
    let moving = minor > 90 && (word(44), word(45)) != (u32::MAX, u32::MAX);
    // set_uuid0 to set_uuid3 are words, and so in the machine's byte order.
    let uuid: Vec<u8> = [5, 13, 14, 15].into_iter().flat_map(|index| word(index).to_be_bytes()).collect();
    Some(Superblock { md, name: String::new(), uuid: hex(&uuid), moving, remarks: Vec::new() })
}

fn volume(found: Superblock, len: ByteCount) -> Volume {
    let Superblock { md, name, uuid, moving, mut remarks } = found;
    if md.data_offset.checked_add(md.data_size).is_none_or(|end| end > len) {
        remarks.push("the data of this member would end past the end of its device".to_owned());
    }
    let space = if moving {
        Err("the array is being reshaped, so its contents were not read".to_owned())
    } else {
        space(&md)
    };
    let provides = match space {
        Ok(space) => {
            let is_first = space.runs.first().is_some_and(|(span, _)| span.start() == ByteOffset::ZERO);
            remarks.extend(md.role.filter(|_| !is_first).map(not_the_start));
            Provides::Open(space)
        }
        Err(why) => {
            remarks.push(why);
            Provides::Nothing
        }
    };
    Volume { kind: VolumeKind::Md, name, uuid, facts: Facts::Md(md), provides, remarks }
}

fn space(md: &Md) -> Result<Space, String> {
    let at = ByteOffset::new(md.data_offset.get());
    // Multipath and faulty members hold all of the array's data, whatever their role.
    if matches!(md.level, -4 | -5) {
        return Ok(Space::run(md.data_size, at));
    }
    let role = md
        .role
        .ok_or("the device is a spare or a removed member, so it does not hold the contents of the array")?;
    let near = md.layout & 0xff;
    let is_whole = md.level == 1 || (md.level == 10 && near >= md.raid_disks) || md.raid_disks == 1;
    if is_whole {
        return Ok(Space::run(md.data_size, at));
    }
    if md.level == -1 {
        return if role == 0 { Ok(Space::run(md.data_size, at)) } else { Err(not_the_start(role)) };
    }
    if !matches!(md.level, 0 | 4 | 5 | 6 | 10) {
        return Err(format!(
            "the array has the unknown RAID level {}, so its contents were not read",
            md.level
        ));
    }
    if md.chunk == ByteCount::ZERO {
        return Err("the chunk size of the array is zero, so its contents were not read".to_owned());
    }
    let len = array_len(md);
    let geometry = Geometry { level: md.level, layout: md.layout, chunk: md.chunk, disks: md.raid_disks };
    let runs = geometry.runs(role, Span::first(len), at).ok_or_else(|| {
        format!(
            "the layout {} of RAID{} is unknown, so the contents of the array were not read",
            md.layout, md.level
        )
    })?;
    Ok(Space::spread(len, Lower { device: String::new(), holds_data: true, runs }))
}

fn not_the_start(role: u32) -> String {
    format!(
        "member {role} does not hold the start of the array, so the contents of the array are not visible \
         here"
    )
}

/// For RAID0, as if its members had equal sizes.
fn array_len(md: &Md) -> ByteCount {
    let member = u128::from(md.data_size.floor_to(md.chunk).get());
    let copies = (md.layout & 0xff) * ((md.layout >> 8) & 0xff);
    let (disks, divisor) = match md.level {
        10 => (md.raid_disks, copies.max(1)),
        4 | 5 => (md.raid_disks.saturating_sub(1), 1),
        6 => (md.raid_disks.saturating_sub(2), 1),
        _ => (md.raid_disks, 1),
    };
    // With room for one chunk.
    let len = member * u128::from(disks.max(1)) / u128::from(divisor);
    ByteCount::new(u64::try_from(len).unwrap_or(u64::MAX)).max(md.chunk.min(md.data_size))
}
