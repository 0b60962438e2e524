//! FAT12, FAT16 and FAT32 ("Microsoft Extensible Firmware Initiative FAT32 File System Specification",
//! version 1.03; `struct fat_boot_sector`, include/uapi/linux/msdos_fs.h) and exFAT ("exFAT file system
//! specification", Microsoft Learn, section 3.1).
//!
//! Clusters count from 2, wherever the formatter put that: an aligned partition may hold misaligned clusters.

use straddle_device::fields::{byte, le16, le32, le64, utf16_le};
use straddle_units::{ByteCount, ByteOffset};

use super::{bytes, is_copy, place, said, stale, text, unit, unit_of_log};
use crate::model::layer::FileSystem;
use crate::model::view::View;

const BOOT_SECTOR: usize = 512;
const FIRST_CLUSTER: u64 = 2;
/// From this many clusters on, a FAT that is not FAT32 has 16-bit entries (section 3.5).
const FAT16_CLUSTERS: u64 = 4085;
const ENTRY: usize = 32;
/// The label is among the first entries of the root directory.
const DIRECTORY: u64 = 16 * 1024;
/// As many clusters of a FAT32 root directory as libblkid searches.
const MAX_CLUSTERS: usize = 100;
const NUMBER_32: u32 = 0x0FFF_FFFF;

/// The BIOS parameter block, by the names of its fields (`BPB_...`).
mod bpb {
    pub(super) const BYTS_PER_SEC: usize = 11;
    pub(super) const SEC_PER_CLUS: usize = 13;
    pub(super) const RSVD_SEC_CNT: usize = 14;
    pub(super) const NUM_FATS: usize = 16;
    /// Zero for FAT32.
    pub(super) const ROOT_ENT_CNT: usize = 17;
    /// Zero if `TOT_SEC_32` counts.
    pub(super) const TOT_SEC_16: usize = 19;
    /// Zero for FAT32.
    pub(super) const FAT_SZ_16: usize = 22;
    pub(super) const HIDD_SEC: usize = 28;
    pub(super) const TOT_SEC_32: usize = 32;
    pub(super) const FAT_SZ_32: usize = 36;
    /// Of FAT32, as those that follow.
    pub(super) const ROOT_CLUS: usize = 44;
    /// Zero for none.
    pub(super) const BK_BOOT_SEC: usize = 50;
}

/// A directory entry of FAT (`DIR_...`).
mod entry {
    pub(super) const NAME: std::ops::Range<usize> = 0..11;
    pub(super) const ATTR: usize = 11;
    pub(super) const FST_CLUS_HI: usize = 20;
    pub(super) const FST_CLUS_LO: usize = 26;
    /// Bits of the attributes. Long names are compared under a mask.
    pub(super) const VOLUME_ID: u8 = 0x08;
    pub(super) const DIRECTORY: u8 = 0x10;
    pub(super) const LONG_NAME: u8 = 0x0F;
    pub(super) const LONG_NAME_MASK: u8 = 0x3F;
    /// First byte of a name: entry free, and entry free with no used one after it.
    pub(super) const FREE: u8 = 0xE5;
    pub(super) const END: u8 = 0;
    /// Stands for the character [`FREE`] as the first byte of a name.
    pub(super) const KANJI: u8 = 0x05;
}

/// The main boot sector of exFAT, and its volume label entry (section 7.3).
mod exfat {
    pub(super) const PARTITION_OFFSET: usize = 64;
    pub(super) const VOLUME_LENGTH: usize = 72;
    pub(super) const CLUSTER_HEAP_OFFSET: usize = 88;
    pub(super) const FIRST_CLUSTER_OF_ROOT_DIRECTORY: usize = 96;
    pub(super) const BYTES_PER_SECTOR_SHIFT: usize = 108;
    pub(super) const SECTORS_PER_CLUSTER_SHIFT: usize = 109;
    /// Entry types: the label, and the end of the directory.
    pub(super) const LABEL_TYPE: u8 = 0x83;
    pub(super) const END_TYPE: u8 = 0;
    pub(super) const CHARACTER_COUNT: usize = 1;
    pub(super) const VOLUME_LABEL: std::ops::Range<usize> = 2..24;
}

pub(super) fn read_fat(view: &View<'_>) -> Option<(FileSystem, String)> {
    let boot = bytes(view, 0, BOOT_SECTOR)?;
    let sector = unit(u64::from(le16(&boot, bpb::BYTS_PER_SEC)))?;
    let cluster = unit(sector.checked_mul(u64::from(byte(&boot, bpb::SEC_PER_CLUS)))?.get())?;
    let fat_sectors = match le16(&boot, bpb::FAT_SZ_16) {
        0 => le32(&boot, bpb::FAT_SZ_32),
        sectors => u32::from(sectors),
    };
    let root_entries = u64::from(le16(&boot, bpb::ROOT_ENT_CNT));
    let root_sectors = (root_entries * 32).div_ceil(sector.get());
    // The sum of 16, 40 and 12 bits is far below 2^64.
    let root_at = u64::from(le16(&boot, bpb::RSVD_SEC_CNT))
        + u64::from(byte(&boot, bpb::NUM_FATS)) * u64::from(fat_sectors);
    let data_start = place(view, root_at + root_sectors, sector);
    let is_fat32 = le16(&boot, bpb::FAT_SZ_16) == 0;
    let sectors = match le16(&boot, bpb::TOT_SEC_16) {
        0 => u64::from(le32(&boot, bpb::TOT_SEC_32)),
        sectors => u64::from(sectors),
    };
    let data_sectors = sectors.saturating_sub(root_at + root_sectors);
    let clusters = data_sectors.checked_div(u64::from(byte(&boot, bpb::SEC_PER_CLUS)))?;
    let copy = match le16(&boot, bpb::BK_BOOT_SEC) {
        0 => None,
        number => place(view, u64::from(number), sector).filter(|_| is_fat32),
    };
    let copies: Vec<ByteOffset> = copy.filter(|at| is_copy(view, at.get(), &boot)).into_iter().collect();
    let fs = FileSystem {
        block: cluster,
        sector: Some(sector),
        cluster: Some(cluster),
        data_start,
        hidden_sectors: Some(u64::from(le32(&boot, bpb::HIDD_SEC))),
        extent: said(sectors, sector),
        stale_copies: stale(view, &copies, &boot),
        boot_copies: copies,
        fat_bits: Some(match clusters {
            _ if is_fat32 => 32,
            0..FAT16_CLUSTERS => 12,
            _ => 16,
        }),
        ..FileSystem::default()
    };
    // As for blkid and Windows, the label in the boot sector does not count: tools do not update it.
    let label = if is_fat32 {
        let table = place(view, u64::from(le16(&boot, bpb::RSVD_SEC_CNT)), sector);
        label_in_clusters(view, table, &fs, le32(&boot, bpb::ROOT_CLUS))
    } else {
        let root = place(view, root_at, sector);
        let entries = root.and_then(|at| directory(view, at, root_entries * 32));
        entries.and_then(|entries| label_in_root(&entries)).flatten()
    };
    Some((fs, label.unwrap_or_default()))
}

/// Whether the root directory of a FAT ends in its first 16 KiB and its first cluster, with nothing but a label in it.
pub fn has_no_files(view: &View<'_>) -> bool {
    root(view).is_some_and(|root| {
        let mut entries = root.chunks_exact(ENTRY).take_while(|found| byte(found, 0) != entry::END);
        let ends = root.chunks_exact(ENTRY).any(|found| byte(found, 0) == entry::END);
        // Parts of long names have the attribute of labels, too.
        let is_file =
            |found: &[u8]| byte(found, 0) != entry::FREE && byte(found, entry::ATTR) & entry::VOLUME_ID == 0;
        ends && !entries.any(is_file)
    })
}

fn root(view: &View<'_>) -> Option<Vec<u8>> {
    let boot = bytes(view, 0, BOOT_SECTOR)?;
    let (fs, _) = read_fat(view)?;
    if fs.fat_bits == Some(32) {
        let at = cluster_at(view, fs.data_start, le32(&boot, bpb::ROOT_CLUS), fs.block)?;
        return directory(view, at, fs.block.get());
    }
    let len = u64::from(le16(&boot, bpb::ROOT_ENT_CNT)) * 32;
    let sectors = fs.sector?.checked_mul(len.div_ceil(fs.sector?.get()))?;
    directory(view, fs.data_start?.checked_back(sectors)?, len)
}

pub(super) fn read_exfat(view: &View<'_>) -> Option<(FileSystem, String)> {
    let boot = bytes(view, 0, BOOT_SECTOR)?;
    let sector_shift = u32::from(byte(&boot, exfat::BYTES_PER_SECTOR_SHIFT));
    let sector = unit_of_log(sector_shift)?;
    let cluster = unit_of_log(sector_shift + u32::from(byte(&boot, exfat::SECTORS_PER_CLUSTER_SHIFT)))?;
    let data_start = place(view, u64::from(le32(&boot, exfat::CLUSTER_HEAP_OFFSET)), sector);
    let fs = FileSystem {
        block: cluster,
        sector: Some(sector),
        cluster: Some(cluster),
        data_start,
        hidden_sectors: Some(le64(&boot, exfat::PARTITION_OFFSET)),
        extent: said(le64(&boot, exfat::VOLUME_LENGTH), sector),
        ..FileSystem::default()
    };
    let root = cluster_at(view, data_start, le32(&boot, exfat::FIRST_CLUSTER_OF_ROOT_DIRECTORY), cluster);
    let entries = root.and_then(|at| directory(view, at, cluster.get())).unwrap_or_default();
    let used = entries.chunks_exact(ENTRY).take_while(|entry| byte(entry, 0) != exfat::END_TYPE);
    let mut labels = used.filter(|entry| byte(entry, 0) == exfat::LABEL_TYPE);
    let label = labels.next().map(|entry| {
        let characters = usize::from(byte(entry, exfat::CHARACTER_COUNT));
        let name = &entry[exfat::VOLUME_LABEL];
        utf16_le(name.get(..2 * characters).unwrap_or(name))
    });
    Some((fs, label.unwrap_or_default()))
}

fn cluster_at(
    view: &View<'_>,
    data_start: Option<ByteOffset>,
    number: u32,
    cluster: ByteCount,
) -> Option<ByteOffset> {
    let index = u64::from(number).checked_sub(FIRST_CLUSTER)?;
    let at = data_start?.checked_add(cluster.checked_mul(index)?)?;
    place(view, at.get(), ByteCount::new(1))
}

fn directory(view: &View<'_>, at: ByteOffset, len: u64) -> Option<Vec<u8>> {
    bytes(view, at.get(), usize::try_from(len.min(DIRECTORY)).ok()?)
}

fn label_in_clusters(
    view: &View<'_>,
    table: Option<ByteOffset>,
    fs: &FileSystem,
    mut number: u32,
) -> Option<String> {
    for _ in 0..MAX_CLUSTERS {
        let at = cluster_at(view, fs.data_start, number, fs.block)?;
        if let Some(found) = label_in_root(&directory(view, at, fs.block.get())?) {
            return found;
        }
        let entry = bytes(view, table?.get().checked_add(4 * u64::from(number))?, 4)?;
        number = le32(&entry, 0) & NUMBER_32;
    }
    None
}

/// `Some(None)` if the root directory ends without a label; `None` if it continues.
fn label_in_root(entries: &[u8]) -> Option<Option<String>> {
    for found in entries.chunks_exact(ENTRY) {
        if byte(found, 0) == entry::END {
            return Some(None);
        }
        let attributes = byte(found, entry::ATTR);
        // A label has no content (libblkid, `search_fat_label`).
        let is_label = byte(found, 0) != entry::FREE
            && attributes & entry::LONG_NAME_MASK != entry::LONG_NAME
            && attributes & (entry::VOLUME_ID | entry::DIRECTORY) == entry::VOLUME_ID
            && le16(found, entry::FST_CLUS_HI) == 0
            && le16(found, entry::FST_CLUS_LO) == 0;
        if is_label {
            let mut name = found[entry::NAME].to_vec();
            if name[0] == entry::KANJI {
                name[0] = entry::FREE;
            }
            return Some(Some(text(&name)));
        }
    }
    None
}
