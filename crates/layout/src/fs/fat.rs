//! FAT12, FAT16 and FAT32 ("Microsoft Extensible Firmware Initiative FAT32 File System Specification",
//! version 1.03; `struct fat_boot_sector`, include/uapi/linux/msdos_fs.h) and exFAT ("exFAT file system
//! specification", Microsoft Learn, section 3.1).
//!
//! Clusters are numbered from 2 in both formats, and the formatter chooses where cluster 2 starts: an aligned
//! partition may hold misaligned clusters.

use straddle_units::{ByteCount, ByteOffset};

use super::{bytes, is_copy, place, said, stale, text, text_of_utf16, unit, unit_of_log};
use crate::model::layer::FileSystem;
use crate::model::view::View;
use straddle_device::fields::{byte, le16, le32, le64};

/// Offset and length of the boot sector's relevant part, in both formats.
const BOOT_SECTOR: (u64, usize) = (0, 512);
/// The number of the first cluster.
const FIRST_CLUSTER: u64 = 2;
/// From this many clusters on, a FAT that is not FAT32 has 16-bit entries (section 3.5 of the specification).
const FAT16_CLUSTERS: u64 = 4085;
/// The size of a directory entry, in both formats.
const ENTRY: usize = 32;
/// How many bytes of the root directory are searched for the label, which is among the first entries.
const DIRECTORY: u64 = 16 * 1024;
/// How many clusters of a FAT32 root directory are searched: as many as libblkid does.
const MAX_CLUSTERS: usize = 100;
/// The bits of a FAT32 table entry that hold a cluster number.
const NUMBER_32: u32 = 0x0FFF_FFFF;

/// The BIOS parameter block.
mod bpb {
    /// `BPB_BytsPerSec`, 16 bits.
    pub(super) const SECTOR_SIZE: usize = 11;
    /// `BPB_SecPerClus`, 8 bits.
    pub(super) const CLUSTER_SECTORS: usize = 13;
    /// `BPB_RsvdSecCnt`, 16 bits.
    pub(super) const RESERVED: usize = 14;
    /// `BPB_NumFATs`, 8 bits.
    pub(super) const FATS: usize = 16;
    /// `BPB_RootEntCnt`, 16 bits; zero for FAT32.
    pub(super) const ROOT_ENTRIES: usize = 17;
    /// `BPB_FATSz16`, 16 bits; zero for FAT32.
    pub(super) const FAT_SECTORS_16: usize = 22;
    /// `BPB_HiddSec`, 32 bits.
    pub(super) const HIDDEN: usize = 28;
    /// `BPB_FATSz32`, 32 bits.
    pub(super) const FAT_SECTORS_32: usize = 36;
    /// `BPB_TotSec16` and `BPB_TotSec32`: the second counts where the first is zero.
    pub(super) const SECTORS_16: usize = 19;
    pub(super) const SECTORS_32: usize = 32;
    /// `BPB_BkBootSec`, 16 bits, of FAT32; zero for none.
    pub(super) const BOOT_COPY_32: usize = 50;
    /// `BPB_RootClus`, 32 bits.
    pub(super) const ROOT_CLUSTER_32: usize = 44;
}

/// A directory entry of FAT: `DIR_Name` is its first 11 bytes.
mod entry {
    pub(super) const NAME: std::ops::Range<usize> = 0..11;
    /// `DIR_Attr`, 8 bits.
    pub(super) const ATTRIBUTES: usize = 11;
    /// Attribute bits: `ATTR_VOLUME_ID` and `ATTR_DIRECTORY`.
    pub(super) const VOLUME_OR_DIRECTORY: u8 = 0x08 | 0x10;
    pub(super) const VOLUME: u8 = 0x08;
    /// `ATTR_LONG_NAME`, which is compared under the mask `ATTR_LONG_NAME_MASK`.
    pub(super) const LONG_NAME: u8 = 0x0F;
    pub(super) const LONG_NAME_MASK: u8 = 0x3F;
    /// First byte of a name: entry free, and entry free with no used one after it.
    pub(super) const FREE: u8 = 0xE5;
    pub(super) const END: u8 = 0;
    /// Stands for the character [`FREE`] as the first byte of a name.
    pub(super) const KANJI: u8 = 0x05;
    /// `DIR_FstClusHI` and `DIR_FstClusLO`, 16 bits each.
    pub(super) const CLUSTER_HIGH: usize = 20;
    pub(super) const CLUSTER_LOW: usize = 26;
}

/// The main boot sector of exFAT, and its volume label entry (section 7.3).
mod exfat {
    /// `PartitionOffset`, 64 bits, in sectors.
    pub(super) const PARTITION_OFFSET: usize = 64;
    /// `VolumeLength`, 64 bits, in sectors.
    pub(super) const LENGTH: usize = 72;
    /// `ClusterHeapOffset`, 32 bits, in sectors.
    pub(super) const CLUSTER_HEAP: usize = 88;
    /// `FirstClusterOfRootDirectory`, 32 bits.
    pub(super) const ROOT_CLUSTER: usize = 96;
    /// `BytesPerSectorShift`, 8 bits: 9 to 12.
    pub(super) const SECTOR_SHIFT: usize = 108;
    /// `SectorsPerClusterShift`, 8 bits: clusters have up to 32 MiB.
    pub(super) const CLUSTER_SHIFT: usize = 109;
    /// Entry types: the label, and the end of the directory.
    pub(super) const LABEL_TYPE: u8 = 0x83;
    pub(super) const END_TYPE: u8 = 0;
    /// `CharacterCount`, 8 bits, and `VolumeLabel`, 11 characters of UTF-16.
    pub(super) const LABEL_COUNT: usize = 1;
    pub(super) const LABEL: std::ops::Range<usize> = 2..24;
}

pub(super) fn read_fat(view: &View<'_>) -> Option<(FileSystem, String)> {
    let boot = bytes(view, BOOT_SECTOR.0, BOOT_SECTOR.1)?;
    let sector = unit(u64::from(le16(&boot, bpb::SECTOR_SIZE)))?;
    let cluster = unit(sector.checked_mul(u64::from(byte(&boot, bpb::CLUSTER_SECTORS)))?.get())?;
    let fat_sectors = match le16(&boot, bpb::FAT_SECTORS_16) {
        0 => le32(&boot, bpb::FAT_SECTORS_32),
        sectors => u32::from(sectors),
    };
    let root_entries = u64::from(le16(&boot, bpb::ROOT_ENTRIES));
    let root_sectors = (root_entries * 32).div_ceil(sector.get());
    // 16, 8 + 32 and 12 bits: the sum is far below 2^64.
    let root_at =
        u64::from(le16(&boot, bpb::RESERVED)) + u64::from(byte(&boot, bpb::FATS)) * u64::from(fat_sectors);
    let data_start = place(view, root_at + root_sectors, sector);
    let is_fat32 = le16(&boot, bpb::FAT_SECTORS_16) == 0;
    let sectors = match le16(&boot, bpb::SECTORS_16) {
        0 => u64::from(le32(&boot, bpb::SECTORS_32)),
        sectors => u64::from(sectors),
    };
    let data_sectors = sectors.saturating_sub(root_at + root_sectors);
    let clusters = data_sectors.checked_div(u64::from(byte(&boot, bpb::CLUSTER_SECTORS)))?;
    let copy = match le16(&boot, bpb::BOOT_COPY_32) {
        0 => None,
        number => place(view, u64::from(number), sector).filter(|_| is_fat32),
    };
    let copies: Vec<ByteOffset> = copy.filter(|at| is_copy(view, at.get(), &boot)).into_iter().collect();
    let fs = FileSystem {
        block: cluster,
        sector: Some(sector),
        cluster: Some(cluster),
        data_start,
        hidden_sectors: Some(u64::from(le32(&boot, bpb::HIDDEN))),
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
    // The boot sector also holds a label, written by mkfs and by tools older than the entry in the root
    // directory. Like blkid and Windows, this code does not use it: tools that change one leave the other
    // unchanged.
    let label = if is_fat32 {
        let table = place(view, u64::from(le16(&boot, bpb::RESERVED)), sector);
        let clusters = Clusters { view, table, data_start, size: cluster };
        clusters.label(le32(&boot, bpb::ROOT_CLUSTER_32))
    } else {
        let root = place(view, root_at, sector);
        let entries = root.and_then(|at| directory(view, at, root_entries * 32));
        entries.and_then(|entries| label_in_root(&entries)).flatten()
    };
    Some((fs, label.unwrap_or_default()))
}

/// Whether the root directory of a FAT ends in its first 16 KiB or its first cluster, and has nothing but a label before.
pub fn has_no_files(view: &View<'_>) -> bool {
    root(view).is_some_and(|root| {
        let mut entries = root.chunks_exact(ENTRY).take_while(|found| byte(found, 0) != entry::END);
        let ends = root.chunks_exact(ENTRY).any(|found| byte(found, 0) == entry::END);
        // Parts of long names have the attribute of labels, too.
        let is_file = |found: &[u8]| {
            byte(found, 0) != entry::FREE && byte(found, entry::ATTRIBUTES) & entry::VOLUME == 0
        };
        ends && !entries.any(is_file)
    })
}

/// Reads the beginning of the root directory of a FAT.
fn root(view: &View<'_>) -> Option<Vec<u8>> {
    let boot = bytes(view, BOOT_SECTOR.0, BOOT_SECTOR.1)?;
    let (fs, _) = read_fat(view)?;
    if fs.fat_bits == Some(32) {
        let at = cluster_at(view, fs.data_start, le32(&boot, bpb::ROOT_CLUSTER_32), fs.block)?;
        return directory(view, at, fs.block.get());
    }
    // It lies before the first cluster, in whole sectors.
    let len = u64::from(le16(&boot, bpb::ROOT_ENTRIES)) * 32;
    let sectors = fs.sector?.checked_mul(len.div_ceil(fs.sector?.get()))?;
    directory(view, fs.data_start?.checked_back(sectors)?, len)
}

pub(super) fn read_exfat(view: &View<'_>) -> Option<(FileSystem, String)> {
    let boot = bytes(view, BOOT_SECTOR.0, BOOT_SECTOR.1)?;
    let sector_shift = u32::from(byte(&boot, exfat::SECTOR_SHIFT));
    let sector = unit_of_log(sector_shift)?;
    let cluster = unit_of_log(sector_shift + u32::from(byte(&boot, exfat::CLUSTER_SHIFT)))?;
    let data_start = place(view, u64::from(le32(&boot, exfat::CLUSTER_HEAP)), sector);
    let fs = FileSystem {
        block: cluster,
        sector: Some(sector),
        cluster: Some(cluster),
        data_start,
        hidden_sectors: Some(le64(&boot, exfat::PARTITION_OFFSET)),
        extent: said(le64(&boot, exfat::LENGTH), sector),
        ..FileSystem::default()
    };
    let root = cluster_at(view, data_start, le32(&boot, exfat::ROOT_CLUSTER), cluster);
    let entries = root.and_then(|at| directory(view, at, cluster.get())).unwrap_or_default();
    let used = entries.chunks_exact(ENTRY).take_while(|entry| byte(entry, 0) != exfat::END_TYPE);
    let mut labels = used.filter(|entry| byte(entry, 0) == exfat::LABEL_TYPE);
    let label = labels.next().map(|entry| {
        let characters = usize::from(byte(entry, exfat::LABEL_COUNT));
        let name = &entry[exfat::LABEL];
        text_of_utf16(name.get(..2 * characters).unwrap_or(name))
    });
    Some((fs, label.unwrap_or_default()))
}

/// Returns the offset of cluster `number`.
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

/// Reads the beginning of a directory of `len` bytes.
fn directory(view: &View<'_>, at: ByteOffset, len: u64) -> Option<Vec<u8>> {
    bytes(view, at.get(), usize::try_from(len.min(DIRECTORY)).ok()?)
}

/// The clusters of a FAT32: the table gives the next cluster for each.
struct Clusters<'a> {
    view: &'a View<'a>,
    table: Option<ByteOffset>,
    data_start: Option<ByteOffset>,
    size: ByteCount,
}

impl Clusters<'_> {
    /// Returns the label in the directory that begins in cluster `number`.
    fn label(&self, mut number: u32) -> Option<String> {
        for _ in 0..MAX_CLUSTERS {
            let at = cluster_at(self.view, self.data_start, number, self.size)?;
            let entries = directory(self.view, at, self.size.get())?;
            if let Some(found) = label_in_root(&entries) {
                return found;
            }
            let entry = bytes(self.view, self.table?.get().checked_add(4 * u64::from(number))?, 4)?;
            number = le32(&entry, 0) & NUMBER_32;
        }
        None
    }
}

/// Finds the label in the root directory, where Linux and Windows look. `Some(None)` if the directory ends
/// without one; `None` if it continues.
fn label_in_root(entries: &[u8]) -> Option<Option<String>> {
    for found in entries.chunks_exact(ENTRY) {
        if byte(found, 0) == entry::END {
            return Some(None);
        }
        let attributes = byte(found, entry::ATTRIBUTES);
        // A label has no content (libblkid, `search_fat_label`).
        let is_label = byte(found, 0) != entry::FREE
            && attributes & entry::LONG_NAME_MASK != entry::LONG_NAME
            && attributes & entry::VOLUME_OR_DIRECTORY == entry::VOLUME
            && le16(found, entry::CLUSTER_HIGH) == 0
            && le16(found, entry::CLUSTER_LOW) == 0;
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
