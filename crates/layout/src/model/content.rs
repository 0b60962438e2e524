//! Kinds of content: file systems, volumes, and what is recognised only by its signature.
//!
//! Invariants: nothing is decided by a name. Whatever this crate reads is a variant, so that the
//! compiler finds every place that must handle a new one. Whatever is recognised only by its signature is
//! data ([`Named`]) with a class. Names are only for display and JSON.

use std::fmt;

use schemars::JsonSchema;
use serde::{Serialize, Serializer};

/// An enum with the name of each variant.
macro_rules! with_names {
    ($(#[$of:meta])* $kind:ident { $($(#[$doc:meta])* $variant:ident = $name:literal,)* }) => {
        $(#[$of])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum $kind {
            $($(#[$doc])* $variant,)*
        }

        impl $kind {
            /// All variants.
            pub const ALL: &[Self] = &[$(Self::$variant,)*];

            /// blkid's TYPE.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)*
                }
            }

            /// The variant with this name.
            pub fn from_name(name: &str) -> Option<Self> {
                Self::ALL.iter().copied().find(|kind| kind.name() == name)
            }
        }

        impl fmt::Display for $kind {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(self.name())
            }
        }
    };
}

with_names! {
    /// The file systems, and swap, whose superblocks this crate reads.
    FsKind {
        /// ext2.
        Ext2 = "ext2",
        /// ext3.
        Ext3 = "ext3",
        /// ext4.
        Ext4 = "ext4",
        /// The external journal of an ext3 or ext4 file system.
        Jbd = "jbd",
        /// XFS.
        Xfs = "xfs",
        /// Btrfs.
        Btrfs = "btrfs",
        /// F2FS.
        F2fs = "f2fs",
        /// NILFS2.
        Nilfs2 = "nilfs2",
        /// JFS.
        Jfs = "jfs",
        /// ReiserFS.
        Reiserfs = "reiserfs",
        /// ISO 9660.
        Iso9660 = "iso9660",
        /// SquashFS 4.
        Squashfs = "squashfs",
        /// EROFS.
        Erofs = "erofs",
        /// FAT12, FAT16 and FAT32.
        Vfat = "vfat",
        /// exFAT.
        Exfat = "exfat",
        /// NTFS.
        Ntfs = "ntfs",
        /// Swap space.
        Swap = "swap",
        /// A member of a ZFS pool.
        Zfs = "zfs_member",
    }
}

with_names! {
    /// Layers between a partition and a file system whose headers this crate reads.
    VolumeKind {
        /// A member of a Linux software RAID.
        Md = "linux_raid_member",
        /// A member of an Intel firmware RAID.
        Isw = "isw_raid_member",
        /// A member of a firmware RAID described by SNIA's DDF.
        Ddf = "ddf_raid_member",
        /// A DRBD device, mirrored over the network.
        Drbd = "drbd",
        /// An LVM physical volume.
        Pv = "LVM2_member",
        /// A LUKS container.
        Luks = "crypto_LUKS",
        /// dm-integrity.
        Integrity = "DM_integrity",
        /// The hashes of dm-verity.
        Verity = "DM_verity_hash",
        /// bcache.
        Bcache = "bcache",
    }
}

/// What a place holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, JsonSchema)]
#[schemars(with = "String", inline)]
pub enum Content {
    /// A file system, or swap.
    FileSystem(FsKind),
    /// A volume, or a member of one.
    Volume(VolumeKind),
    /// An LVM logical volume.
    LogicalVolume,
    /// A partition table inside another layer.
    Table,
    /// Content recognised only by its signature.
    Named(Named),
    /// Something that only a running kernel shows, with its own name: a mapping or a loop device.
    Live(&'static str),
}

/// Content recognised only by its signature.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Named {
    /// blkid's TYPE, or the PTTYPE of a table.
    pub name: &'static str,
    /// What is known of it beyond its name.
    pub class: Class,
}

/// The class of content that is recognised only by its signature.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Class {
    /// A part or a wrapper of something else.
    Member,
    /// A member of an array or a mirror.
    Array,
    /// A file system.
    FileSystem,
    /// A file system that is created once and then only read.
    ReadOnly,
    /// Swap space with the image of a hibernated system.
    Hibernation,
    /// The file system of an optical medium.
    Optical,
    /// A partition table.
    Table,
}

impl FsKind {
    /// Whether it is created once and then only read.
    pub const fn is_only_read(self) -> bool {
        match self {
            Self::Iso9660 | Self::Squashfs | Self::Erofs => true,
            Self::Ext2 | Self::Ext3 | Self::Ext4 | Self::Jbd | Self::Xfs | Self::Btrfs | Self::F2fs => false,
            Self::Nilfs2 | Self::Jfs | Self::Reiserfs | Self::Swap | Self::Zfs => false,
            Self::Vfat | Self::Exfat | Self::Ntfs => false,
        }
    }

    /// Whether it begins with a DOS boot sector. Such a file system counts in the drive's sectors, allocates
    /// clusters, and records where it starts on the drive.
    pub const fn has_boot_sector(self) -> bool {
        match self {
            Self::Vfat | Self::Exfat | Self::Ntfs => true,
            Self::Ext2 | Self::Ext3 | Self::Ext4 | Self::Jbd | Self::Xfs | Self::Btrfs | Self::F2fs => false,
            Self::Nilfs2 | Self::Jfs | Self::Reiserfs | Self::Swap | Self::Zfs => false,
            Self::Iso9660 | Self::Squashfs | Self::Erofs => false,
        }
    }

    /// Whether a copy of its boot sector is behind the end that it records.
    pub const fn has_copy_behind_end(self) -> bool {
        match self {
            Self::Ntfs => true,
            Self::Ext2 | Self::Ext3 | Self::Ext4 | Self::Jbd | Self::Xfs | Self::Btrfs | Self::F2fs => false,
            Self::Nilfs2 | Self::Jfs | Self::Reiserfs | Self::Swap | Self::Zfs => false,
            Self::Vfat | Self::Exfat | Self::Iso9660 | Self::Squashfs | Self::Erofs => false,
        }
    }

    /// Whether its boot code reads the recorded start of the partition.
    pub const fn boots_from_recorded_start(self) -> bool {
        match self {
            Self::Vfat | Self::Ntfs => true,
            Self::Ext2 | Self::Ext3 | Self::Ext4 | Self::Jbd | Self::Xfs | Self::Btrfs | Self::F2fs => false,
            Self::Nilfs2 | Self::Jfs | Self::Reiserfs | Self::Swap | Self::Zfs | Self::Exfat => false,
            Self::Iso9660 | Self::Squashfs | Self::Erofs => false,
        }
    }

    /// The name under which the kernel mounts it; `None` if it is never mounted, or by a driver with several
    /// file systems.
    const fn mounted_as(self) -> Option<&'static str> {
        match self {
            Self::Ext2 | Self::Ext3 | Self::Ext4 | Self::Xfs | Self::Btrfs | Self::F2fs => Some(self.name()),
            Self::Nilfs2 | Self::Jfs | Self::Reiserfs => Some(self.name()),
            Self::Iso9660 | Self::Squashfs | Self::Erofs => Some(self.name()),
            Self::Vfat | Self::Exfat | Self::Ntfs => Some(self.name()),
            // A pool is mounted as "zfs" without naming the device.
            Self::Jbd | Self::Swap | Self::Zfs => None,
        }
    }

    /// The file system that the kernel mounts under this name.
    pub(crate) fn mounted(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|kind| kind.mounted_as() == Some(name))
    }
}

impl VolumeKind {
    /// Whether it is a member of an array or a mirror, so that a table in it is not the disk's.
    pub const fn is_array_member(self) -> bool {
        match self {
            Self::Md | Self::Isw | Self::Ddf | Self::Drbd => true,
            Self::Pv | Self::Luks | Self::Integrity | Self::Verity | Self::Bcache => false,
        }
    }

    /// Whether it is a member of an array that is described by firmware metadata.
    pub const fn is_firmware_raid(self) -> bool {
        match self {
            Self::Isw | Self::Ddf => true,
            Self::Md | Self::Drbd | Self::Pv | Self::Luks | Self::Integrity | Self::Verity => false,
            Self::Bcache => false,
        }
    }
}

impl Serialize for Content {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(self.name())
    }
}

impl Content {
    /// Its name for display and JSON: blkid's TYPE if it has one, "LV" for a logical volume, "table" for a
    /// nested partition table.
    pub const fn name(self) -> &'static str {
        match self {
            Self::FileSystem(kind) => kind.name(),
            Self::Volume(kind) => kind.name(),
            Self::LogicalVolume => "LV",
            Self::Table => "table",
            Self::Named(named) => named.name,
            Self::Live(name) => name,
        }
    }

    /// The file system, if it is one that this crate reads.
    pub const fn file_system(self) -> Option<FsKind> {
        match self {
            Self::FileSystem(kind) => Some(kind),
            Self::Volume(_) | Self::LogicalVolume | Self::Table | Self::Named(_) | Self::Live(_) => None,
        }
    }

    /// Whether it is a member of an array or a mirror, so that a table in it is not the disk's.
    pub const fn is_array_member(self) -> bool {
        match self {
            Self::Volume(kind) => kind.is_array_member(),
            Self::Named(named) => matches!(named.class, Class::Array),
            Self::FileSystem(_) | Self::LogicalVolume | Self::Table | Self::Live(_) => false,
        }
    }

    /// Whether it is a member of an array that is described by firmware metadata.
    pub const fn is_firmware_raid(self) -> bool {
        match self {
            Self::Volume(kind) => kind.is_firmware_raid(),
            Self::Named(named) => matches!(named.class, Class::Array),
            Self::FileSystem(_) | Self::LogicalVolume | Self::Table | Self::Live(_) => false,
        }
    }

    /// Whether it is a part or a wrapper of something else.
    pub const fn is_member(self) -> bool {
        match self {
            Self::Volume(_) => true,
            Self::Named(named) => matches!(named.class, Class::Member | Class::Array),
            Self::FileSystem(_) | Self::LogicalVolume | Self::Table | Self::Live(_) => false,
        }
    }

    /// Whether it is a partition table of a kind known only by name.
    pub const fn is_foreign_table(self) -> bool {
        matches!(self, Self::Named(Named { class: Class::Table, .. }))
    }

    /// Whether it is the file system of an optical medium. Images of such media have both that and a table by
    /// design.
    pub const fn is_optical(self) -> bool {
        matches!(self, Self::FileSystem(FsKind::Iso9660) | Self::Named(Named { class: Class::Optical, .. }))
    }

    /// Whether it is swap space.
    pub const fn is_swap(self) -> bool {
        matches!(self, Self::FileSystem(FsKind::Swap))
    }

    /// Whether it is the image of a hibernated system, which has tables and file systems in memory.
    pub const fn is_hibernated(self) -> bool {
        matches!(self, Self::Named(Named { class: Class::Hibernation, .. }))
    }

    /// Whether it is a file system that is created once and then only read.
    pub const fn is_only_read(self) -> bool {
        match self {
            Self::FileSystem(kind) => kind.is_only_read(),
            Self::Named(named) => matches!(named.class, Class::ReadOnly),
            Self::Volume(_) | Self::LogicalVolume | Self::Table | Self::Live(_) => false,
        }
    }
}

impl fmt::Display for Content {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl From<FsKind> for Content {
    fn from(kind: FsKind) -> Self {
        Self::FileSystem(kind)
    }
}

impl From<VolumeKind> for Content {
    fn from(kind: VolumeKind) -> Self {
        Self::Volume(kind)
    }
}
