//! Layers: what is on a partition or a whole disk, from RAID members up to file systems, each with its bytes.

use schemars::JsonSchema;
use serde::{Serialize, Serializer};
use straddle_device::topology::striped_data_members;
use straddle_units::{BlockSize, ByteCount, ByteOffset, Span};

use super::content::{Content, FsKind};
use super::stack::Stack;
use super::view::Piece;

/// The deepest nesting that is followed: no real stack is deeper.
pub const MAX_DEPTH: usize = 12;

/// The most layers that are listed on one drive.
pub const MAX_LAYERS: usize = 4096;

/// A layer: a RAID member, volume, container, nested partition table, file system or swap.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Layer {
    /// What it is: the TYPE that blkid reports, if it has one; "LV" for a logical volume; "table" for a
    /// nested partition table.
    pub kind: Content,
    /// Its name (label, VG/LV, array name); absent if it has none.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// Its unique identifier without hyphens: the UUID of an array, a file system or a container in
    /// hexadecimal digits, that of a physical volume as LVM writes it, or that of a logical volume after that
    /// of its group. Absent if it has none, or if it is unknown.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub uuid: String,
    /// The bytes that it occupies on the device directly below.
    pub below: Span,
    /// The offset of its first byte on the drive; absent if that is on another disk.
    #[serde(rename = "offset_bytes", skip_serializing_if = "Option::is_none")]
    pub drive: Option<ByteOffset>,
    /// The figures that are specific to its kind.
    #[serde(flatten)]
    pub facts: Facts,
    /// The runs of bytes of the space that it provides, at most the first 64. Absent for layers that provide
    /// none (file systems, swap) and for those whose space is elsewhere.
    #[serde(skip_serializing_if = "Vec::is_empty", serialize_with = "first_runs")]
    pub space: Vec<Piece>,
    /// The logical sector size of the space that it provides, if the kernel reports it, or if other targets
    /// show its other members.
    #[serde(rename = "logical_sector_bytes", skip_serializing_if = "Option::is_none")]
    pub logical: Option<BlockSize>,
    /// The layers on the space that it provides.
    #[serde(rename = "layers", skip_serializing_if = "Vec::is_empty")]
    pub children: Vec<Layer>,
    /// What could not be followed, and why.
    #[serde(rename = "notes", skip_serializing_if = "Vec::is_empty")]
    pub remarks: Vec<String>,
}

/// The most runs of a layer's space that are serialised.
const RUNS: usize = 64;

fn first_runs<S: Serializer>(space: &[Piece], to: S) -> Result<S::Ok, S::Error> {
    to.collect_seq(space.iter().take(RUNS))
}

impl Layer {
    /// A layer without a name that provides no space.
    pub fn new(kind: Content, facts: Facts, below: Span, drive: Option<ByteOffset>) -> Self {
        let (name, uuid, space, logical) = (String::new(), String::new(), Vec::new(), None);
        let (children, remarks) = (Vec::new(), Vec::new());
        Self { kind, name, uuid, below, drive, facts, space, logical, children, remarks }
    }

    /// The end that its own metadata record, counted from its start. It is past the end of the device below if
    /// something has cut that short. `None` if the format records none, or it is not read.
    pub fn recorded_end(&self) -> Option<ByteCount> {
        let end = match &self.facts {
            Facts::FileSystem(fs) => fs.extent,
            Facts::Pv(pv) => pv.device_size,
            Facts::Luks(luks) => ByteCount::new(luks.payload?.get()).checked_add(luks.size?),
            Facts::Md(md) => md.data_offset.checked_add(md.data_size),
            Facts::Lv(_) | Facts::Mapped(_) | Facts::Table(_) | Facts::Opaque => None,
        };
        end.filter(|end| *end != ByteCount::ZERO)
    }

    /// How many bytes it uses of a device of `len` bytes, from the first one on; `None` if that is not known,
    /// or more than `len`. The device may be cut after them, and nothing else has to be moved.
    pub fn used(&self, len: ByteCount) -> Option<ByteCount> {
        let used = match &self.facts {
            Facts::FileSystem(fs) if self.kind.file_system() == Some(FsKind::Ntfs) => fs.end_of_ntfs(),
            Facts::Luks(luks) => luks.uses(len),
            // A bitmap, a superblock or a list of bad blocks may come after its data.
            Facts::Md(_) => None,
            _ => self.recorded_end(),
        };
        used.filter(|used| *used != ByteCount::ZERO && *used <= len)
    }

    /// Whether it is the image of a hibernated system, or has one, which has tables and file systems in memory.
    pub fn is_hibernated(&self) -> bool {
        self.kind.is_hibernated() || matches!(&self.facts, Facts::FileSystem(fs) if fs.is_hibernated)
    }

    /// Where the clusters of a FAT or an exFAT begin; `None` where that does not matter, because clusters
    /// smaller than a `sector` fill it if the start is on one.
    pub fn clusters(&self, sector: ByteCount) -> Option<ByteCount> {
        let Facts::FileSystem(fs) = &self.facts else { return None };
        let is_fat = matches!(self.kind.file_system(), Some(FsKind::Vfat | FsKind::Exfat));
        let (first, cluster) = (ByteCount::new(fs.data_start?.get()), fs.cluster?);
        (is_fat && (cluster >= sector || !first.is_multiple_of(cluster))).then_some(first)
    }
}

/// The figures of a layer, by its kind. Sizes and offsets are in bytes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(tag = "class", rename_all = "snake_case")]
pub enum Facts {
    /// A member of a Linux software RAID.
    Md(Md),
    /// An LVM physical volume.
    Pv(Pv),
    /// The part of an LVM logical volume that is on this physical volume.
    Lv(Lv),
    /// A LUKS container.
    Luks(Luks),
    /// Another mapping with a header and a payload: dm-integrity, dm-verity, bcache.
    Mapped(Mapped),
    /// A file system, or swap.
    FileSystem(FileSystem),
    /// A partition table inside another layer.
    Table(Box<Stack>),
    /// Something recognised only by its signature.
    Opaque,
}

/// A member of a Linux software RAID (drivers/md, mdadm super0.c and super1.c).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Md {
    /// The version of the metadata: "0.90", "1.0", "1.1" or "1.2".
    #[serde(rename = "metadata_version")]
    pub version: &'static str,
    /// The RAID level: 0, 1, 4, 5, 6 or 10; -1 is linear, -4 multipath, -5 faulty.
    pub level: i32,
    /// The number of the parity or copy layout; for RAID 0, that of the layout of its zones, or 0 if none is
    /// recorded.
    pub layout: u32,
    /// The number of bytes that the array stores on one member before it continues on the next; zero if
    /// nothing is striped.
    #[serde(rename = "chunk_bytes")]
    pub chunk: ByteCount,
    /// The number of members, without spares.
    pub raid_disks: u32,
    /// This member's index in the array; absent if it is a spare, or if the index is unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub role: Option<u32>,
    /// Where the array's data starts on the member.
    #[serde(rename = "data_offset_bytes")]
    pub data_offset: ByteCount,
    /// How many bytes of the member the array uses.
    #[serde(rename = "data_size_bytes")]
    pub data_size: ByteCount,
}

impl Md {
    /// The number of members that hold data in each stripe; `None` if nothing is striped.
    pub fn data_members(&self) -> Option<u64> {
        striped_data_members(self.level, u64::from(self.raid_disks), u64::from(self.layout))
    }

    /// The data bytes of a full stripe; `None` if nothing is striped.
    pub fn stripe(&self) -> Option<ByteCount> {
        if self.chunk == ByteCount::ZERO { None } else { self.chunk.checked_mul(self.data_members()?) }
    }
}

/// An LVM2 physical volume (LVM2 lib/format_text/layout.h).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Pv {
    /// The volume group's name; empty for a PV in no group.
    pub vg: String,
    /// Where the first physical extent starts (`pvs -o pe_start`).
    #[serde(rename = "data_start_bytes")]
    pub data_start: ByteOffset,
    /// The size of an extent; zero for a PV in no volume group.
    #[serde(rename = "extent_bytes")]
    pub extent_size: ByteCount,
    /// The size of the physical volume according to its metadata (`pvs -o dev_size`); bytes after it are not
    /// part of the volume. Absent if none is recorded.
    #[serde(rename = "device_size_bytes", skip_serializing_if = "Option::is_none")]
    pub device_size: Option<ByteCount>,
}

/// A logical volume.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Lv {
    /// Its segments, in the order of their starts in the volume.
    pub segments: Vec<Segment>,
}

/// A segment of a logical volume.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Segment {
    /// Its bytes in the volume.
    #[serde(flatten)]
    pub span: Span,
    /// LVM's segment type ("striped", which is linear with a single stripe; "raid5", "thin", "thin-pool", …).
    pub kind: String,
    /// The number of stripes, RAID images or mirrors.
    pub stripes: u32,
    /// The number of bytes of a stripe on one disk; zero if nothing is striped.
    #[serde(rename = "stripe_size_bytes")]
    pub stripe_size: ByteCount,
    /// Where its data starts on this physical volume, from the PV's first byte; absent if it has no data
    /// here, or if its data is not contiguous.
    #[serde(rename = "pv_offset_bytes", skip_serializing_if = "Option::is_none")]
    pub on_pv: Option<ByteOffset>,
}

/// A LUKS container (LUKS1 and LUKS2 on-disk format specifications).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Luks {
    /// The version of LUKS: 1 or 2.
    pub version: u16,
    /// Where the encrypted payload starts; absent if the header is detached.
    #[serde(rename = "payload_offset_bytes", skip_serializing_if = "Option::is_none")]
    pub payload: Option<ByteOffset>,
    /// The size of the sectors in which the payload is encrypted; 512 for LUKS1.
    #[serde(rename = "sector_bytes")]
    pub sector_size: ByteCount,
    /// The payload's size; absent if the header records none, so that the payload extends to the end of the
    /// device.
    #[serde(rename = "payload_bytes", skip_serializing_if = "Option::is_none")]
    pub size: Option<ByteCount>,
    /// Whether the header describes a single payload and nothing else on the device: no dm-integrity tags,
    /// and no part that is encrypted differently. False if only the kernel reports the container.
    #[serde(skip)]
    pub is_plain: bool,
}

impl Luks {
    /// How many bytes of a device of `len` bytes are used, if known: a partial sector at its end never is.
    pub fn uses(&self, len: ByteCount) -> Option<ByteCount> {
        let payload = ByteCount::new(self.payload.filter(|_| self.is_plain)?.get());
        let room = len.get().checked_sub(payload.get()).map(ByteCount::new)?;
        let size = self.size.unwrap_or(room.floor_to(self.sector_size));
        payload.checked_add(size).filter(|end| *end <= len)
    }

    /// Whether cryptsetup refuses it on `len` bytes, which end inside a sector (`device_block_adjust`).
    pub fn is_refused(&self, len: ByteCount) -> bool {
        self.size.is_none() && self.uses(len).is_some_and(|used| used < len)
    }
}

/// Another mapping with a header and a payload.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Mapped {
    /// Where the payload starts.
    #[serde(rename = "payload_offset_bytes", skip_serializing_if = "Option::is_none")]
    pub payload: Option<ByteOffset>,
    /// Its block size, if it has one.
    #[serde(rename = "block_bytes", skip_serializing_if = "Option::is_none")]
    pub block: Option<ByteCount>,
    /// The largest block size in its cache set, if another target is a cache of that set (bcache).
    #[serde(rename = "cache_block_bytes", skip_serializing_if = "Option::is_none")]
    pub cache: Option<ByteCount>,
}

/// A file system, or swap.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct FileSystem {
    /// The size of the block in which it allocates and mostly writes (the cluster of FAT, exFAT and NTFS);
    /// zero if it records none (a ZFS spare).
    #[serde(rename = "block_bytes")]
    pub block: ByteCount,
    /// The smallest unit that it writes, if it has one besides the block (the sector of XFS, NTFS, FAT and
    /// exFAT).
    #[serde(rename = "sector_bytes", skip_serializing_if = "Option::is_none")]
    pub sector: Option<ByteCount>,
    /// The smallest unit in which its log is written, if recorded (XFS; equal to `sector_bytes` if the log
    /// has no unit of its own).
    #[serde(rename = "log_sector_bytes", skip_serializing_if = "Option::is_none")]
    pub log_sector: Option<ByteCount>,
    /// A unit of allocation larger than the block (ext4 bigalloc), or what its format calls a cluster, which
    /// is then the block itself (FAT, exFAT, NTFS).
    #[serde(rename = "cluster_bytes", skip_serializing_if = "Option::is_none")]
    pub cluster: Option<ByteCount>,
    /// The size of the nodes of its trees, if they are not of the block size (Btrfs).
    #[serde(rename = "node_bytes", skip_serializing_if = "Option::is_none")]
    pub node: Option<ByteCount>,
    /// The unit in which it writes and frees space, if it is log-structured (F2FS and NILFS2 segments).
    #[serde(rename = "segment_bytes", skip_serializing_if = "Option::is_none")]
    pub segment: Option<ByteCount>,
    /// The offset in the file system from which segments are counted, if not byte 0 (F2FS segment 0).
    #[serde(rename = "segment_start_bytes", skip_serializing_if = "Option::is_none")]
    pub segment_start: Option<ByteOffset>,
    /// The offset in the file system at which data starts, or from which blocks or clusters are counted, if not
    /// byte 0 (FAT: cluster 2; exFAT: the cluster heap; F2FS: the main area; NILFS2: the first segment; ZFS:
    /// offset 0).
    #[serde(rename = "data_start_bytes", skip_serializing_if = "Option::is_none")]
    pub data_start: Option<ByteOffset>,
    /// The number of bytes of each stripe that it assumes to be on one disk of an array (ext4 stride, XFS
    /// sunit).
    #[serde(rename = "stripe_unit_bytes", skip_serializing_if = "Option::is_none")]
    pub stripe_unit: Option<ByteCount>,
    /// The number of bytes that it assumes to be in a full stripe.
    #[serde(rename = "stripe_width_bytes", skip_serializing_if = "Option::is_none")]
    pub stripe_width: Option<ByteCount>,
    /// The binary logarithm of its smallest write (ZFS): 12 for 4096 bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ashift: Option<u32>,
    /// The start of its partition on the drive, as it records it, in sectors of its own size (NTFS and FAT
    /// "hidden sectors", exFAT partition offset); zero means unspecified.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hidden_sectors: Option<u64>,
    /// The size that it records for itself (ext, XFS, Btrfs, F2FS, NTFS, FAT, exFAT, swap); bytes after it
    /// are not part of it. It does not include the copy of the boot sector that NTFS keeps after its end.
    #[serde(rename = "recorded_bytes", skip_serializing_if = "Option::is_none")]
    pub extent: Option<ByteCount>,
    /// The offsets of copies of its boot sector (NTFS, FAT32). Those of NTFS may lie after its recorded size.
    #[serde(skip)]
    pub boot_copies: Vec<ByteOffset>,
    /// The copies that record a different start than the boot sector, which some tools correct alone.
    #[serde(skip)]
    pub stale_copies: Vec<ByteOffset>,
    /// The number of this device among its devices, if it has several (Btrfs).
    #[serde(skip)]
    pub devid: Option<u64>,
    /// The number of bits in its table's entries: 12, 16 or 32 (FAT).
    #[serde(skip)]
    pub fat_bits: Option<u8>,
    /// Whether a hibernated system has it in memory, and would resume with its old state (NTFS).
    #[serde(skip)]
    pub is_hibernated: bool,
}

impl FileSystem {
    /// NTFS with the copy of its boot sector in the cluster after its recorded end. A copy farther away is
    /// ntfsresize's, from a larger NTFS.
    fn end_of_ntfs(&self) -> Option<ByteCount> {
        let extent = self.extent?;
        let cluster = extent.checked_add(self.block)?;
        let copy = self.boot_copies.first().map_or(extent, |at| ByteCount::new(at.get())).max(extent);
        let with_copy = self.sector.and_then(|sector| copy.checked_add(sector));
        Some(with_copy.map_or(cluster, |end| end.min(cluster)))
    }
}

#[cfg(test)]
mod tests {
    use straddle_units::{ByteCount, ByteOffset, Span};

    use super::{Content, Facts, FileSystem, FsKind, Layer, Luks, Md, Pv};

    fn layer(facts: Facts) -> Layer {
        Layer::new(Content::LogicalVolume, facts, Span::first(ByteCount::new(100)), None)
    }

    #[test]
    fn the_recorded_end_counts_from_the_start_of_the_layer() {
        let bytes = ByteCount::new;
        let end = |facts| layer(facts).recorded_end();
        let fs = FileSystem { extent: Some(bytes(700)), ..FileSystem::default() };
        assert_eq!(end(Facts::FileSystem(fs)), Some(bytes(700)));
        assert_eq!(end(Facts::FileSystem(FileSystem::default())), None);
        assert_eq!(end(Facts::Pv(Pv { device_size: Some(bytes(9)), ..Pv::default() })), Some(bytes(9)));
        let luks = Luks { payload: Some(ByteOffset::new(50)), size: Some(bytes(60)), ..Luks::default() };
        assert_eq!(end(Facts::Luks(luks.clone())), Some(bytes(110)));
        // Without a size it takes what there is.
        assert_eq!(end(Facts::Luks(Luks { size: None, ..luks })), None);
        let md = Md { data_offset: bytes(8), data_size: bytes(100), ..Md::default() };
        assert_eq!(end(Facts::Md(md)), Some(bytes(108)));
        let absurd = Md { data_offset: bytes(u64::MAX), data_size: bytes(2), ..Md::default() };
        assert_eq!(end(Facts::Md(absurd)), None);
    }

    #[test]
    fn ntfs_uses_the_copy_of_its_boot_sector_and_not_that_of_a_larger_one() {
        let bytes = ByteCount::new;
        let used = |copy: Option<u64>, len| {
            let fs = FileSystem {
                block: bytes(4096),
                sector: Some(bytes(512)),
                extent: Some(bytes(1 << 20)),
                boot_copies: copy.map(ByteOffset::new).into_iter().collect(),
                ..FileSystem::default()
            };
            let ntfs = Layer { kind: Content::FileSystem(FsKind::Ntfs), ..layer(Facts::FileSystem(fs)) };
            ntfs.used(bytes(len))
        };
        let extent = 1 << 20;
        assert_eq!(used(Some(extent), extent + 512), Some(bytes(extent + 512)));
        assert_eq!(used(Some(extent), extent), None, "without room for it, all that there is has to be kept");
        assert_eq!(used(Some(5 << 20), 8 << 20), Some(bytes(extent + 4096)));
        assert_eq!(used(None, 8 << 20), Some(bytes(extent + 512)));
    }
}
