//! Other mappings with a header: dm-integrity, dm-verity, bcache, DRBD. Sources: drivers/md/dm-integrity.c
//! (`calculate_journal_section_size`, `calculate_device_limits`, `get_data_sector`), cryptsetup's
//! lib/verity/verity.c, include/uapi/linux/bcache.h, drivers/md/bcache/super.c (`read_super`), and drbd-utils'
//! user/shared/drbdmeta.c.

use straddle_device::Medium;
use straddle_device::fields::{be64, byte, le16, le32, le64};
use straddle_units::{BlockSize, ByteCount, ByteOffset, Span};

use super::{Provides, SECTOR, Space, Volume, bytes_at, sectors, text};
use crate::fs::hex;
use crate::model::content::VolumeKind;
use crate::model::layer::{Facts, Mapped};
use crate::model::view::MAX_PIECES;
use crate::reader::Fault;

const SB_SECTORS: u64 = 8;
const JOURNAL_BLOCK_SECTORS: u64 = 8;
const JOURNAL_SECTOR_DATA: u64 = SECTOR - 8;
const JOURNAL_MAC_PER_SECTOR: u64 = 8;
const JOURNAL_ENTRY_ROUNDUP: u64 = 8;
/// Runs of tags are padded to 8 sectors, or to 512 << 8 bytes by a bug that was kept for old volumes.
const FIXED_PADDING: u64 = 8 * SECTOR;
const OLD_PADDING: u64 = SECTOR << 8;
/// Flags of its superblock (`SB_FLAG_...`).
const HAVE_JOURNAL_MAC: u32 = 0x1;
const HAVE_FIXED_PADDING: u32 = 0x8;
const INLINE: u32 = 0x20;

/// The bcache superblock, and the start of the data on a backing device of version 0, in sectors.
const BCACHE_AT: u64 = 4096;
const BDEV_DATA_START: u64 = 16;
/// The lowest bit of a backing device's state in its flags: 0 where it is attached to no cache (`BDEV_STATE_NONE`).
const BDEV_STATE: u32 = 61;

fn volume(kind: VolumeKind, facts: Mapped, space: Result<Space, &str>) -> Volume {
    Volume::new(kind, Facts::Mapped(facts), space.map(Provides::Open).map_err(str::to_owned))
}

pub(super) fn integrity(medium: &dyn Medium) -> Result<Volume, Fault> {
    let bytes = bytes_at(medium, 0, 512)?;
    let flags = le32(&bytes, 24);
    let per_block = 1u64.checked_shl(u32::from(byte(&bytes, 28))).filter(|count| *count <= 8);
    let block = per_block.map(|count| ByteCount::new(sectors(count)));
    let mut facts = Mapped { block, ..Mapped::default() };
    let areas = per_block.and_then(|per_block| Interleaved::read(&bytes, per_block, flags));
    let provides = match areas {
        _ if flags & INLINE != 0 => {
            Err("the tags are interleaved with the sectors, so the start of the data is unknown")
        }
        // Tags and data are not interleaved only if the tags have a device of their own.
        _ if byte(&bytes, 9) == 0 => Err("the device has only the journal and the tags; the data is on \
                                          another device"),
        None => Err("the superblock is not valid, so the start of the data is unknown"),
        Some(areas) => {
            facts.payload = areas.data(0).map(ByteOffset::new);
            let block = facts.block.and_then(|block| BlockSize::new(block.get()).ok());
            Ok(Space { block, ..areas.space() })
        }
    };
    Ok(volume(VolumeKind::Integrity, facts, provides))
}

/// How dm-integrity interleaves tags and data; all figures in sectors.
struct Interleaved {
    /// With the journal.
    initial: u64,
    /// Before the data of an area.
    metadata_run: u64,
    interleave: u64,
    provided: u64,
}

impl Interleaved {
    fn read(superblock: &[u8], per_block: u64, flags: u32) -> Option<Self> {
        let log2_interleave = u32::from(byte(superblock, 9));
        if !(3..=31).contains(&log2_interleave) {
            return None;
        }
        let (tag, sections) = (u64::from(le16(superblock, 10)), u64::from(le32(superblock, 12)));
        // A journal entry: a sector number, eight bytes for each sector of the block, and the tag.
        let entry = (8 + 8 * per_block + tag).next_multiple_of(JOURNAL_ENTRY_ROUNDUP);
        let mac = if flags & HAVE_JOURNAL_MAC == 0 { 0 } else { JOURNAL_MAC_PER_SECTOR };
        let entries = (JOURNAL_SECTOR_DATA - mac) / entry * JOURNAL_BLOCK_SECTORS;
        let section = entries * per_block + JOURNAL_BLOCK_SECTORS;
        let padding = if flags & HAVE_FIXED_PADDING == 0 { OLD_PADDING } else { FIXED_PADDING };
        let interleave = 1u64 << log2_interleave;
        let tags = (interleave / per_block).checked_mul(tag)?.checked_next_multiple_of(padding)?;
        Some(Self {
            initial: sections.checked_mul(section)?.checked_add(SB_SECTORS)?,
            metadata_run: tags / SECTOR,
            interleave,
            provided: le64(superblock, 16),
        })
    }

    fn data(&self, area: u64) -> Option<u64> {
        let tags = area.checked_add(1)?.checked_mul(self.metadata_run)?;
        let before = area.checked_mul(self.interleave)?.checked_add(tags)?;
        self.initial.checked_add(before)?.checked_mul(SECTOR)
    }

    fn space(&self) -> Space {
        let (len, step) = (ByteCount::new(sectors(self.provided)), ByteCount::new(sectors(self.interleave)));
        let areas = self.provided.div_ceil(self.interleave).min(u64::try_from(MAX_PIECES).unwrap_or(0));
        let runs = (0..areas).map_while(|area| {
            let start = step.checked_mul(area)?;
            let span = Span::new(ByteOffset::new(start.get()), len.checked_sub(start)?.min(step))?;
            Some((span, ByteOffset::new(self.data(area)?)))
        });
        Space { len, runs: runs.collect(), ..Space::default() }
    }
}

/// Before the hashes. The data is on another device, or before the superblock.
pub(super) fn verity(medium: &dyn Medium) -> Result<Volume, Fault> {
    let bytes = bytes_at(medium, 0, 512)?;
    let [data, hash] = [64, 68].map(|at| ByteCount::new(u64::from(le32(&bytes, at))));
    let facts = Mapped { block: Some(data), ..Mapped::default() };
    let mut volume = volume(
        VolumeKind::Verity,
        facts,
        Err("the device has only hashes; the data that they protect is elsewhere"),
    );
    if hash != data {
        volume.remarks.push(format!("the hash blocks are {} bytes long", hash.get()));
    }
    Ok(volume)
}

pub(super) fn bcache(medium: &dyn Medium) -> Result<Volume, Fault> {
    let bytes = bytes_at(medium, BCACHE_AT, 512)?;
    let start = match le64(&bytes, 16) {
        1 => Ok(BDEV_DATA_START),
        4 | 6 if le64(&bytes, 184) >= BDEV_DATA_START => Ok(le64(&bytes, 184)),
        4 | 6 => Err("the data offset is not valid"),
        0 | 3 | 5 => Err("the contents of this cache belong to other devices"),
        _ => Err("the superblock has an unknown bcache version"),
    };
    let block = ByteCount::new(sectors(u64::from(le16(&bytes, 192))));
    let payload = start.map(|start| ByteOffset::new(sectors(start)));
    let facts = Mapped { payload: payload.ok(), block: Some(block), ..Mapped::default() };
    let space = payload.and_then(|payload| {
        let room = ByteOffset::new(medium.len().get()).checked_since(payload);
        let room = room
            .filter(|room| *room != ByteCount::ZERO)
            .ok_or("the data would start past the end of the device")?;
        Ok(Space { block: BlockSize::new(block.get()).ok(), ..Space::run(room, payload) })
    });
    let name = text(bytes.get(72..104).unwrap_or_default());
    // A backing device without a cache has a set of its own recorded.
    let is_attached = payload.is_err() || le64(&bytes, 104) >> BDEV_STATE != 0;
    let uuid = if is_attached { hex(bytes.get(56..72).unwrap_or_default()) } else { String::new() };
    Ok(Volume { name, uuid, ..volume(VolumeKind::Bcache, facts, space) })
}

/// A mirror, whose data is before the metadata at the end, from byte 0 on.
pub(super) fn drbd(medium: &dyn Medium) -> Result<Volume, Fault> {
    /// `MD_SECTOR_4K`: the last 4096 bytes.
    const FROM_END: u64 = 8;
    let at = sectors((medium.len().get() / SECTOR).saturating_sub(FROM_END));
    // Zero before both sides have agreed on a size.
    let agreed = sectors(be64(&bytes_at(medium, at, 512)?, 0));
    let len = if agreed == 0 { at } else { agreed.min(at) };
    let facts = Mapped { payload: Some(ByteOffset::ZERO), ..Mapped::default() };
    Ok(volume(VolumeKind::Drbd, facts, Ok(Space::run(ByteCount::new(len), ByteOffset::ZERO))))
}
