//! What refers to the place of a partition, and is wrong or needs a look after a move.
//!
//! Only what can be seen on the disk: not a Windows hibernated on another disk or in an encrypted volume.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use straddle_layout::layer::{Facts, Layer};
use straddle_layout::{Content, FsKind, Partition, Role, Stack, TableKind, Unclaimed};
use straddle_units::{BlockSize, ByteCount, ByteOffset};

use super::boot::{Loaders, copy_len};
use crate::kinds;
use crate::plan::{Entry, Format, Slot};

/// Something that refers to the old position of a partition.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
#[non_exhaustive]
pub enum Reference {
    /// The boot sector of NTFS, FAT ("hidden sectors") or exFAT ("partition offset", under a checksum) records
    /// where the partition starts.
    BootSector {
        /// The file system, as blkid names it.
        #[serde(rename = "file_system", with = "with_boot_sector")]
        #[schemars(with = "String")]
        kind: FsKind,
        /// The recorded start, in sectors of the file system.
        #[serde(rename = "recorded_sectors")]
        recorded: u64,
        /// The start to record after the move; absent if it is not a whole number of sectors, or does not fit
        /// the field.
        #[serde(default, rename = "correct_sectors", skip_serializing_if = "Option::is_none")]
        correct: Option<u64>,
        /// The sector size of the file system.
        #[serde(rename = "sector_bytes")]
        sector: ByteCount,
        /// The offsets, in the partition, of copies of the boot sector.
        #[serde(default, rename = "copies_bytes", skip_serializing_if = "Vec::is_empty")]
        copies: Vec<ByteOffset>,
    },
    /// The MBR's boot code starts the boot loader in this partition, which may list sectors of the disk.
    ActivePartition,
    /// Windows finds its volumes on an MBR disk by the disk's identifier and the byte where they start: drive
    /// letters (`MountedDevices`) and the boot configuration (BCD) record both.
    WindowsVolume,
    /// This is the BIOS boot partition, and straddle does not understand its boot code.
    BiosBoot,
    /// GRUB's core image is in this partition, and straddle understands all boot code that lists its sectors.
    Grub {
        /// Whether the boot image is in the partition's first sector rather than the disk's.
        in_partition: bool,
        /// The offset of the core image in the partition.
        #[serde(rename = "core_bytes")]
        core: ByteOffset,
        /// The first sector of the core image on the disk before the move, in sectors of 512 bytes.
        #[serde(rename = "recorded_sectors")]
        recorded: u64,
        /// The first sector of the core image on the disk after the move, in sectors of 512 bytes.
        #[serde(rename = "correct_sectors")]
        correct: u64,
        /// The first sector of each further piece of the core image before the move, in sectors of 512 bytes.
        #[serde(rename = "pieces_sectors")]
        pieces: Vec<u64>,
    },
    /// GRUB's boot code lists sectors of this partition, but is of an unknown version, or also lists sectors
    /// elsewhere.
    GrubElsewhere,
    /// LILO lists the sectors of kernels, which may be in this partition.
    Lilo,
    /// SYSLINUX's boot sector adds the recorded start of its partition to the sectors that it lists.
    Syslinux {
        /// The recorded start, in sectors of 512 bytes.
        #[serde(rename = "recorded_sectors")]
        recorded: u64,
        /// The start to record after the move, in sectors of 512 bytes; absent if it does not fit the field.
        #[serde(default, rename = "correct_sectors", skip_serializing_if = "Option::is_none")]
        correct: Option<u64>,
    },
    /// The firmware's boot entries record the position and size of this EFI system partition.
    EfiBootEntries,
    /// Swap space: the kernel's command line may contain `resume_offset`, or identify the device by its
    /// start.
    Swap,
    /// The partition holds the image of a hibernated system, which would resume with the old positions in
    /// memory.
    Hibernation,
    /// F2FS has aligned its zones to boundaries of the disk at the position where it was created.
    Zones,
}

mod with_boot_sector {
    use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error};
    use straddle_layout::FsKind;

    pub(super) fn serialize<S: Serializer>(kind: &FsKind, to: S) -> Result<S::Ok, S::Error> {
        kind.name().serialize(to)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<FsKind, D::Error> {
        let kind = FsKind::from_name(&String::deserialize(from)?).filter(|kind| kind.has_boot_sector());
        kind.ok_or_else(|| {
            D::Error::custom("it lists a boot sector for a file system that is unknown or has none")
        })
    }
}

impl Reference {
    /// What has to be done by hand after the move, so that the system starts again.
    pub const fn afterwards(&self) -> Option<&'static str> {
        match self {
            Self::ActivePartition => Some(
                "the MBR's boot code boots from this partition; if the boot loader lists sectors of the \
                 disk, reinstall it",
            ),
            Self::WindowsVolume => Some(
                "Windows identifies volumes of an MBR disk by their start, so reassign drive letters and \
                 rebuild the boot configuration (bootrec /rebuildbcd; before Windows Vista, fixboot)",
            ),
            Self::Lilo => Some(
                "LILO lists the sectors of kernels; before the next boot, run lilo again from a rescue \
                 system",
            ),
            _ => None,
        }
    }
}

/// Without `loaders`, those are reinstalled.
pub(crate) fn references(
    partition: &Partition,
    entry: &Entry,
    format: Format,
    start: ByteOffset,
    block: BlockSize,
    loaders: Option<&Loaders>,
) -> Vec<Reference> {
    let mut found = Vec::new();
    let layer = partition.layer.as_ref();
    let content = layer.map(|layer| layer.kind).or(partition.content);
    let kind = content.and_then(Content::file_system);
    let is_recorded = |one: &Reference| !matches!(one, Reference::BootSector { recorded: 0, .. });
    let sector = ByteCount::new(partition.span.len().get().checked_div(partition.count.get()).unwrap_or(0));
    let keeps = sector.checked_mul(entry.sectors.get()).unwrap_or_default();
    let distances = from_record(partition, entry, start, block);
    found.extend(boot_sector(partition, start, distances, keeps).filter(is_recorded));
    if format == Format::Mbr && entry.bootable && loaders.is_none_or(|loaders| loaders.has_code) {
        found.push(Reference::ActivePartition);
    }
    if format == Format::Mbr && kind.is_some_and(FsKind::has_boot_sector) {
        found.push(Reference::WindowsVolume);
    }
    let of_loaders = loaders.map(|loaders| loaders.references(partition, start)).unwrap_or_default();
    let is_empty = loaders.is_some_and(|loaders| loaders.is_empty(partition.span.start()));
    if entry.kind == kinds::BIOS_BOOT && of_loaders.is_empty() && !is_empty {
        found.push(Reference::BiosBoot);
    }
    found.extend(of_loaders);
    if entry.kind == kinds::ESP || (format == Format::Mbr && entry.kind == "ef") {
        found.push(Reference::EfiBootEntries);
    }
    found.extend(match kind {
        Some(FsKind::Swap) => Some(Reference::Swap),
        Some(FsKind::F2fs) => Some(Reference::Zones),
        _ => None,
    });
    if is_hibernated(partition) {
        found.push(Reference::Hibernation);
    }
    found
}

/// Returns the number of a partition that holds a hibernated system, in any layer. Such a system has the table and
/// all file systems in memory, so nothing on the disk may move. Contents that fill the disk count as partition 1.
pub fn hibernated(stack: &Stack) -> Option<u32> {
    let in_partition = stack.partitions.iter().find(|one| is_hibernated(one)).map(|one| one.number);
    let is_whole = matches!(stack.kind, TableKind::Content(content) if content.is_hibernated());
    let in_whole = is_whole || stack.layer.as_ref().is_some_and(has_hibernated);
    in_partition.or(in_whole.then_some(1))
}

/// How to move what a machine needs to boot.
pub const ELSEWHERE: &str = "boot from another medium, and run 'straddle realign' there";
const DYNAMIC: &str = "it is part of a Windows dynamic disk, whose database records the positions of all \
                       volumes; do not move it, or first convert the disk to a basic disk in Windows";
const OWN_TABLE: &str = "it contains a table that may list partitions by their positions on the disk; do not \
                         move it, or move it with the operating system that uses it";

pub(crate) fn immovable(stack: &Stack, moves: impl Fn(u32) -> bool) -> Option<(u32, &'static str)> {
    if let Some(number) = stack.dynamic() {
        return Some((number, DYNAMIC));
    }
    let has_table = |p: &&Partition| moves(p.number) && p.has_foreign_table();
    stack.partitions.iter().find(has_table).map(|p| (p.number, OWN_TABLE))
}

fn is_hibernated(partition: &Partition) -> bool {
    partition.content.is_some_and(Content::is_hibernated)
        || partition.layer.as_ref().is_some_and(has_hibernated)
}

fn has_hibernated(layer: &Layer) -> bool {
    let is_nested = matches!(&layer.facts, Facts::Table(stack) if hibernated(stack).is_some());
    layer.is_hibernated() || is_nested || layer.children.iter().any(has_hibernated)
}

fn from_record(
    partition: &Partition,
    entry: &Entry,
    start: ByteOffset,
    block: BlockSize,
) -> Option<(ByteCount, ByteCount)> {
    let (Role::Logical { ebr: was }, Slot::Logical { ebr: is }) = (partition.role, entry.slot) else {
        return None;
    };
    let before = partition.span.start().checked_since(was.to_bytes(block)?)?;
    Some((before, start.checked_since(is.to_bytes(block)?)?))
}

/// The boot sector of a partition that is to start at byte `start`. `distances` are those of [`from_record`].
/// Only `keeps` bytes of the partition move, not what a larger file system left after them.
pub(crate) fn boot_sector(
    partition: &Partition,
    start: ByteOffset,
    distances: Option<(ByteCount, ByteCount)>,
    keeps: ByteCount,
) -> Option<Reference> {
    let layer = partition.layer.as_ref()?;
    let kind = layer.kind.file_system()?;
    let Facts::FileSystem(fs) = &layer.facts else { return None };
    let (recorded, sector) = fs.hidden_sectors.zip(fs.sector)?;
    let start = match distances {
        // DOS and Windows record the distance of a logical partition from its record.
        Some((was, is)) if Some(was.get()) == recorded.checked_mul(sector.get()) => is,
        _ => ByteCount::new(start.get()),
    };
    let correct = start.is_multiple_of(sector).then(|| start.get().checked_div(sector.get())).flatten();
    let fits = |sectors: &u64| kind == FsKind::Exfat || u32::try_from(*sectors).is_ok();
    let correct = correct.filter(fits);
    let len = copy_len(kind, sector)?;
    let ends = |at: &ByteOffset| at.checked_add(len).is_some_and(|end| end.get() <= keeps.get());
    let is_stale = |at: &ByteOffset| fs.stale_copies.contains(at);
    let copies = fs.boot_copies.iter().copied().filter(ends).filter(|at| !is_stale(at)).collect();
    Some(Reference::BootSector { kind, recorded, correct, sector, copies })
}

/// How many bytes the contents use, in whole sectors of `block`: all if unknown or if something follows.
pub(crate) fn used(partition: &Partition, block: BlockSize) -> ByteCount {
    let len = partition.span.len();
    let known = partition.layer.as_ref().filter(|_| partition.unclaimed == Unclaimed::Nothing);
    let used = known.and_then(|layer| layer.used(len)).unwrap_or(len);
    let whole = used.floor_to(block.bytes());
    if whole == used { used } else { whole.checked_add(block.bytes()).unwrap_or(len).min(len) }
}
