//! What refers to the place of a partition, and is wrong or needs a look after a move.
//!
//! The law of this module: it says what can be seen from outside a file system. What cannot be seen, such as
//! the hibernation file of Windows, is not reported.

use straddle_layout::layer::Facts;
use straddle_layout::{Content, FsKind, Partition};
use straddle_units::{BlockSize, ByteCount, ByteOffset, Span};

use crate::kinds;
use crate::plan::{Entry, Format};

/// blkid's TYPE of swap space that holds the image of a hibernated system.
const HIBERNATED: &str = "swsuspend";

/// The sectors of exFAT's boot region, with that of its checksum.
const EXFAT_REGION: u64 = 12;

/// Something that refers to the old place of a partition.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Reference {
    /// The boot sector of NTFS, FAT ("hidden sectors") or exFAT ("partition offset", under a checksum) records
    /// where the partition starts.
    BootSector {
        /// The file system.
        kind: FsKind,
        /// The recorded start, in sectors of the file system.
        recorded: u64,
        /// What it has to be after the move; `None` if that is not a multiple of its sector or does not fit.
        correct: Option<u64>,
        /// The sector of the file system.
        sector: ByteCount,
        /// Where copies of the boot sector are in the partition.
        copies: Vec<ByteOffset>,
    },
    /// The MBR's boot code starts this partition: its own boot loader may list sectors of the disk.
    ActivePartition,
    /// Windows finds its volumes on an MBR disk by the disk's identifier and the byte where they start: drive
    /// letters (`MountedDevices`) and the boot configuration (BCD) record it.
    WindowsVolume,
    /// GRUB's core image is in this partition: the boot code in the MBR and in the image list its sectors.
    BiosBoot,
    /// Boot entries of the firmware record where this EFI system partition is, and its size.
    EfiBootEntries,
    /// Swap space: the kernel's command line may say `resume_offset`, or the device by its start.
    Swap,
    /// The image of a hibernated system, which would resume with the old places in memory.
    Hibernation,
    /// F2FS places its zones on boundaries of the disk, as they were when it was made.
    Zones,
}

/// The bytes of a boot sector or, for exFAT, of the boot region that its checksum covers.
pub(super) fn copy_len(kind: FsKind, sector: ByteCount) -> Option<ByteCount> {
    let sectors = if kind == FsKind::Exfat { EXFAT_REGION } else { 1 };
    sector.get().checked_mul(sectors).map(ByteCount::new)
}

/// Returns what refers to the place of `partition`, which is to be at `to`.
pub(super) fn references(partition: &Partition, entry: &Entry, format: Format, to: Span) -> Vec<Reference> {
    let mut found = Vec::new();
    let layer = partition.layer.as_ref();
    let content = layer.map(|layer| layer.kind).or(partition.content);
    let kind = content.and_then(Content::file_system);
    if let Some((kind, Facts::FileSystem(fs))) = kind.zip(layer.map(|layer| &layer.facts))
        && let Some((recorded, sector)) = fs.hidden_sectors.filter(|sectors| *sectors != 0).zip(fs.sector)
    {
        let start = ByteCount::new(to.start().get());
        let correct = start.is_multiple_of(sector).then(|| start.get().checked_div(sector.get())).flatten();
        let fits = |sectors: &u64| kind == FsKind::Exfat || u32::try_from(*sectors).is_ok();
        let correct = correct.filter(fits);
        // A copy in a tail that is given up does not move, and its new place is another partition's.
        let moves = |copy: &&ByteOffset| {
            copy_len(kind, sector)
                .and_then(|len| Span::new(**copy, len))
                .is_some_and(|copy| Span::first(to.len()).contains(copy))
        };
        let copies = fs.boot_copies.iter().filter(moves).copied().collect();
        found.push(Reference::BootSector { kind, recorded, correct, sector, copies });
    }
    if format == Format::Mbr && entry.bootable {
        found.push(Reference::ActivePartition);
    }
    if format == Format::Mbr && kind.is_some_and(FsKind::has_boot_sector) {
        found.push(Reference::WindowsVolume);
    }
    if entry.kind == kinds::BIOS_BOOT {
        found.push(Reference::BiosBoot);
    }
    if entry.kind == kinds::ESP || (format == Format::Mbr && entry.kind == "ef") {
        found.push(Reference::EfiBootEntries);
    }
    match kind {
        Some(FsKind::Swap) => found.push(Reference::Swap),
        Some(FsKind::F2fs) => found.push(Reference::Zones),
        _ if content.is_some_and(|content| content.name() == HIBERNATED) => {
            found.push(Reference::Hibernation);
        }
        _ => {}
    }
    found
}

/// How many bytes of a partition, from its start, its contents use, in whole sectors of `block`: all, if that
/// is not known.
pub(super) fn used(partition: &Partition, block: BlockSize) -> ByteCount {
    let len = partition.span.len();
    let used = partition.layer.as_ref().and_then(|layer| match &layer.facts {
        Facts::FileSystem(fs) if layer.kind == Content::FileSystem(FsKind::Ntfs) => {
            // A copy of the boot sector is behind the last sector of NTFS.
            let (extent, sector) = fs.extent.zip(fs.sector)?;
            let copy = fs.boot_copies.first().map_or(extent, |at| ByteCount::new(at.get())).max(extent);
            copy.checked_add(sector)
        }
        Facts::FileSystem(fs) => fs.extent,
        Facts::Luks(luks) => luks.uses(len),
        _ => None,
    });
    let used = used.filter(|used| *used != ByteCount::ZERO && *used <= len).unwrap_or(len);
    let whole = used.floor_to(block.bytes());
    if whole == used { used } else { whole.checked_add(block.bytes()).unwrap_or(len).min(len) }
}
