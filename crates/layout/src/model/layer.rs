//! Layers: what stands on a partition or a whole disk, from RAID members down to file systems, each with its bytes.
//!
//! The law of this module: a layer says where it stands on the device directly below and on the drive, and where the
//! space lies that it provides; it decides nothing about alignment. Depth and number are limited, whatever the bytes say.

use straddle_device::topology::striped_data_members;
use straddle_units::{ByteCount, ByteOffset, Span};

use super::content::Content;
use super::stack::Stack;
use super::view::Piece;

/// Deeper nesting than this is not followed: no real stack has it.
pub const MAX_DEPTH: usize = 12;

/// More layers than this on one drive are not listed.
pub const MAX_LAYERS: usize = 4096;

/// One layer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layer {
    /// What it is.
    pub kind: Content,
    /// What it is called (label, VG/LV, array name); empty where it has no name.
    pub name: String,
    /// What tells it from every other one, in hexadecimal digits: an array's UUID, a volume's with its group's, a file
    /// system's or a container's; empty where it has none, or where it is not known.
    pub uuid: String,
    /// Where it stands on the device directly below.
    pub below: Span,
    /// Where its first byte is on the drive; `None` when that is on another disk.
    pub drive: Option<ByteOffset>,
    /// Its own figures.
    pub facts: Facts,
    /// Where the space that it provides lies: on the device below, and on the drive. Empty for layers that provide none
    /// (file systems, swap) and for those whose space lies elsewhere.
    pub space: Vec<Piece>,
    /// What stands on that space.
    pub children: Vec<Layer>,
    /// What could not be followed, and why.
    pub remarks: Vec<String>,
}

/// The figures of a layer, by what it is. Sizes and offsets are bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Facts {
    /// A member of a Linux software RAID.
    Md(Md),
    /// An LVM physical volume.
    Pv(Pv),
    /// An LVM logical volume, as far as it lies on this physical volume.
    Lv(Lv),
    /// A LUKS container.
    Luks(Luks),
    /// Another mapping with a header and a payload: dm-integrity, dm-verity, bcache.
    Mapped(Mapped),
    /// A file system, or swap.
    FileSystem(FileSystem),
    /// A partition table inside another layer.
    Table(Box<Stack>),
    /// Something known by its signature only.
    Opaque,
}

/// A member of a Linux software RAID (drivers/md, mdadm super0.c and super1.c).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Md {
    /// "0.90", "1.0", "1.1" or "1.2".
    pub version: &'static str,
    /// 0, 1, 4, 5, 6, 10; -1 is linear, -4 multipath, -5 faulty.
    pub level: i32,
    /// How parity or copies are laid out; of a RAID0, in which order its zones are, and 0 where that is not told.
    pub layout: u32,
    /// What one member holds before the next follows; zero where nothing is striped.
    pub chunk: ByteCount,
    /// Members of the array, without spares.
    pub raid_disks: u32,
    /// This member's place among them; `None` for a spare or where it is not known.
    pub role: Option<u32>,
    /// Where the array's data starts on the member.
    pub data_offset: ByteCount,
    /// How much of the member the array uses.
    pub data_size: ByteCount,
}

impl Md {
    /// How many members hold data in each stripe; `None` where nothing is striped.
    pub fn data_members(&self) -> Option<u64> {
        striped_data_members(self.level, u64::from(self.raid_disks), u64::from(self.layout))
    }

    /// A full stripe's data.
    pub fn stripe(&self) -> Option<ByteCount> {
        if self.chunk == ByteCount::ZERO { None } else { self.chunk.checked_mul(self.data_members()?) }
    }
}

/// An LVM2 physical volume (LVM2 lib/format_text/layout.h).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pv {
    /// The volume group's name; empty for a PV in none.
    pub vg: String,
    /// Where the first physical extent starts (`pvs -o pe_start`).
    pub data_start: ByteOffset,
    /// The size of an extent; zero for a PV in no volume group.
    pub extent_size: ByteCount,
}

/// A logical volume.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lv {
    /// Its segments in order of where they start.
    pub segments: Vec<Segment>,
}

/// A segment of a logical volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Segment {
    /// Where it lies in the volume.
    pub span: Span,
    /// LVM's segment type ("striped", which with one stripe is linear; "raid5", "thin", "thin-pool", …).
    pub kind: String,
    /// How many stripes, or images.
    pub stripes: u32,
    /// The size of a stripe's part on one disk; zero where nothing is striped.
    pub stripe_size: ByteCount,
    /// Where its data starts on this physical volume (from the PV's first byte); `None` when it has none here, or not
    /// in one run.
    pub on_pv: Option<ByteOffset>,
}

/// A LUKS container (LUKS1 and LUKS2 on-disk format specifications).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Luks {
    /// 1 or 2.
    pub version: u16,
    /// Where the encrypted payload starts; `None` with a detached header.
    pub payload: Option<ByteOffset>,
    /// The size of an encryption sector; 512 for LUKS1.
    pub sector_size: ByteCount,
    /// The payload's size, where the header says one; else it goes to the end of the device.
    pub size: Option<ByteCount>,
    /// Whether the header shows one payload and nothing else on the device: no tags of dm-integrity, no part of it
    /// that is encrypted otherwise. What only the kernel tells of is not known to be so.
    pub is_plain: bool,
}

impl Luks {
    /// How many bytes of a device of `len` bytes are used, from its first on: of a sector that is not whole none is
    /// ever encrypted. `None` where that is not known.
    pub fn uses(&self, len: ByteCount) -> Option<ByteCount> {
        let payload = ByteCount::new(self.payload.filter(|_| self.is_plain)?.get());
        let room = len.get().checked_sub(payload.get()).map(ByteCount::new)?;
        let size = self.size.unwrap_or(room.floor_to(self.sector_size));
        payload.checked_add(size).filter(|end| *end <= len)
    }

    /// Whether cryptsetup refuses to open it on a device of `len` bytes, because that ends inside an encryption sector
    /// (`device_block_adjust`, lib/utils_device.c).
    pub fn is_refused(&self, len: ByteCount) -> bool {
        self.size.is_none() && self.uses(len).is_some_and(|used| used < len)
    }
}

/// Another mapping with a header and a payload.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Mapped {
    /// Where the payload starts.
    pub payload: Option<ByteOffset>,
    /// The block that it works in, where it has one.
    pub block: Option<ByteCount>,
}

/// A file system, or swap.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FileSystem {
    /// The block in which it allocates and mostly writes (the cluster of FAT, exFAT and NTFS); zero where it does not say
    /// (a ZFS spare).
    pub block: ByteCount,
    /// The smallest unit that it ever writes, where it has one beside the block (XFS, NTFS, FAT and exFAT sector).
    pub sector: Option<ByteCount>,
    /// The smallest unit that its log writes, where it has one (XFS; the sector again where the log has no other).
    pub log_sector: Option<ByteCount>,
    /// A larger unit of allocation (ext4 bigalloc); or what its format calls a cluster, and then the same as the block
    /// (FAT, exFAT, NTFS).
    pub cluster: Option<ByteCount>,
    /// The block of its own trees, where that is another one (Btrfs node).
    pub node: Option<ByteCount>,
    /// What it writes and frees as one, where it writes like a log (F2FS and NILFS2 segments).
    pub segment: Option<ByteCount>,
    /// Where segments are counted from, when that is not byte 0 (F2FS segment 0), in the file system.
    pub segment_start: Option<ByteOffset>,
    /// Where data starts, or blocks or clusters are counted from, when that is not byte 0 (FAT: cluster 2; exFAT: the
    /// cluster heap; F2FS: the main area; NILFS2: the first segment; ZFS: offset 0), in the file system.
    pub data_start: Option<ByteOffset>,
    /// What it believes one disk of an array holds (ext4 stride, XFS sunit).
    pub stripe_unit: Option<ByteCount>,
    /// What it believes a full stripe holds.
    pub stripe_width: Option<ByteCount>,
    /// The exponent of its smallest write, for ZFS.
    pub ashift: Option<u32>,
    /// Where it believes to start on the drive, in sectors of its own size (NTFS and FAT "hidden sectors", exFAT
    /// partition offset); zero means that it does not say.
    pub hidden_sectors: Option<u64>,
    /// How many bytes from its first on it says that it has (ext, XFS, NTFS, FAT, exFAT, swap): those behind are not its
    /// own. The copy of its boot sector that NTFS keeps behind is not counted.
    pub extent: Option<ByteCount>,
    /// Where the copies of its boot sector are, where there are some (NTFS, FAT32). Those of NTFS may lie behind what it
    /// says that it has.
    pub boot_copies: Vec<ByteOffset>,
    /// Which of its devices this is, where it counts them (Btrfs).
    pub devid: Option<u64>,
    /// Of how many bits its table's entries are: 12, 16 or 32, for FAT.
    pub fat_bits: Option<u8>,
}
