//! NTFS: the boot sector and the record of `$Volume`, as in fs/ntfs3/ntfs.h (`struct NTFS_BOOT`, `struct
//! MFT_REC`, `struct ATTRIB`) and include/ntfs-3g/layout.h.

mod hibernated;
mod table;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;

use straddle_device::Medium;
use straddle_device::fields::{byte, has, le16, le32, le64, utf16_le};
use straddle_units::{ByteCount, ByteOffset};

use self::table::{FileTable, attribute, attributes};
use super::{bytes, is_copy, said, stale, unit};
use crate::model::layer::FileSystem;
use crate::model::view::View;

const BOOT_SECTOR: usize = 512;
/// `system_id`: offset and value.
const OEM: (usize, &[u8]) = (3, b"NTFS    ");
/// `bytes_per_sector`.
const SECTOR_SIZE: usize = 0x0B;
/// `sectors_per_clusters`: the number of sectors up to 128; from 240 on, the exponent in 2^(256 - this).
const CLUSTER_SECTORS: usize = 0x0D;
const CLUSTER_SHIFTS_FROM: u8 = 240;
/// `root_entries`, `sectors`, `fats` and other fields of FAT; all must be zero in NTFS.
const UNUSED: [std::ops::Range<usize>; 3] = [0x0E..0x15, 0x16..0x18, 0x20..0x24];
/// `hidden_sectors`.
const HIDDEN: usize = 0x1C;
/// `sectors_per_volume`, without the copy of the boot sector after the volume.
const SECTORS: usize = 0x28;
/// `mft_clst` and `mft2_clst`: the first cluster of the master file table, and of the copy of its first records.
const MFT_CLUSTER: usize = 0x30;
const MFT_COPY: usize = 0x38;
/// `record_size`: the size of a record in clusters; if negative as a signed number, the record has 2^-this bytes.
const RECORD_SIZE: usize = 0x40;
/// Real records have at most 4 KiB.
const MAX_RECORD: u64 = 16 * 1024;
/// The number of the record of `$Volume` (`MFT_REC_VOL`).
const VOLUME_RECORD: u64 = 3;
pub(crate) const RECORD_MAGIC: &[u8] = table::record::MAGIC;

/// Offsets of the first record of the master file table and of the volume's record, which libblkid requires; `None`
/// if the boot sector is invalid (`probe_ntfs`, libblkid/src/superblocks/ntfs.c).
pub(crate) fn file_table(sector: &[u8]) -> Option<[ByteCount; 2]> {
    let size = u64::from(le16(sector, SECTOR_SIZE));
    if !has(sector, OEM.0, OEM.1) || !size.is_power_of_two() || !(256..=4096).contains(&size) {
        return None;
    }
    let sectors = match byte(sector, CLUSTER_SECTORS) {
        shift @ CLUSTER_SHIFTS_FROM..=249 => 1 << (u8::MAX - shift + 1),
        number if number.is_power_of_two() => u64::from(number),
        _ => return None,
    };
    let is_unused = |range: &std::ops::Range<usize>| {
        sector.get(range.clone()).is_some_and(|bytes| bytes.iter().all(|byte| *byte == 0))
    };
    let clusters = le64(sector, SECTORS) / sectors;
    let table = le64(sector, MFT_CLUSTER);
    if !UNUSED.iter().all(is_unused) || table >= clusters || le64(sector, MFT_COPY) >= clusters {
        return None;
    }
    let cluster = ByteCount::new(size * sectors);
    let record = match byte(sector, RECORD_SIZE).cast_signed() {
        clusters @ (1 | 2 | 4 | 8 | 16 | 32 | 64) => {
            cluster.checked_mul(u64::from(clusters.unsigned_abs()))?
        }
        // libblkid accepts larger records, but there are none over 4 KiB.
        log @ -14..=-9 => ByteCount::new(1 << log.unsigned_abs()),
        _ => return None,
    };
    let first = cluster.checked_mul(table)?;
    Some([first, first.checked_add(record.checked_mul(VOLUME_RECORD)?)?])
}

pub(super) fn read(view: &View<'_>) -> Option<(FileSystem, String)> {
    let boot = bytes(view, 0, BOOT_SECTOR)?;
    let sector = unit(u64::from(le16(&boot, SECTOR_SIZE)))?;
    let cluster = table::cluster(&boot)?;
    let copies = copies(view, &boot, sector, cluster);
    let fs = FileSystem {
        block: cluster,
        sector: Some(sector),
        cluster: Some(cluster),
        hidden_sectors: Some(u64::from(le32(&boot, HIDDEN))),
        extent: said(le64(&boot, SECTORS), sector),
        stale_copies: stale(view, &copies, &boot),
        boot_copies: copies,
        is_hibernated: hibernated::is_hibernated(view, &boot),
        ..FileSystem::default()
    };
    Some((fs, label(view, &boot).unwrap_or_default()))
}

/// Copies of the boot sector, in three places: directly after the last sector (mkntfs), at the end of the cluster
/// that begins there (ntfsresize), and in the last sector of the partition (Windows, ntfsfix).
fn copies(view: &View<'_>, boot: &[u8], sector: ByteCount, cluster: ByteCount) -> Vec<ByteOffset> {
    let behind = sector.checked_mul(le64(boot, SECTORS));
    let resized = behind.and_then(|at| at.checked_add(cluster.checked_sub(sector)?));
    let last = view.len().floor_to(sector).checked_sub(sector);
    let places: BTreeSet<ByteCount> = [behind, resized, last].into_iter().flatten().collect();
    let is_behind = |at: &ByteCount| behind.is_some_and(|behind| *at >= behind) && *at != ByteCount::ZERO;
    let is_here = |at: &ByteCount| *at < view.len() && is_copy(view, at.get(), boot);
    places.into_iter().filter(|at| is_behind(at) && is_here(at)).map(|at| ByteOffset::new(at.get())).collect()
}

/// From the record of `$Volume`.
fn label(view: &View<'_>, boot: &[u8]) -> Option<String> {
    let record = FileTable::open(view, boot)?.record(VOLUME_RECORD)?;
    attributes(&record).find(|one| one.kind() == attribute::LABEL)?.resident().map(utf16_le)
}
