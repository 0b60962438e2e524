//! Kinds of content: file systems, volumes, and what is recognised only by its signature.
//!
//! Nothing is decided by a name. What this crate reads is a variant, so that the compiler finds the places that must
//! handle a new one. What is recognised only by its signature is data ([`Named`]) with a class.

use std::fmt;

use schemars::JsonSchema;
use serde::{Serialize, Serializer};

macro_rules! with_names {
    ($(#[$of:meta])* $kind:ident { $($(#[$doc:meta])* $variant:ident = $name:literal,)* }) => {
        $(#[$of])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum $kind {
            $(#[doc = concat!("`", $name, "`.")] $(#[$doc])* $variant,)*
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
        Ext2 = "ext2",
        Ext3 = "ext3",
        Ext4 = "ext4",
        /// The external journal of an ext3 or ext4 file system.
        Jbd = "jbd",
        Xfs = "xfs",
        Btrfs = "btrfs",
        F2fs = "f2fs",
        Nilfs2 = "nilfs2",
        Jfs = "jfs",
        Reiserfs = "reiserfs",
        Iso9660 = "iso9660",
        /// From version 4 on.
        Squashfs = "squashfs",
        Erofs = "erofs",
        /// FAT12, FAT16 and FAT32.
        Vfat = "vfat",
        Exfat = "exfat",
        Ntfs = "ntfs",
        Swap = "swap",
        Zfs = "zfs_member",
    }
}

with_names! {
    /// Layers between a partition and a file system whose headers this crate reads.
    VolumeKind {
        Md = "linux_raid_member",
        Drbd = "drbd",
        Pv = "LVM2_member",
        Luks = "crypto_LUKS",
        Integrity = "DM_integrity",
        Verity = "DM_verity_hash",
        Bcache = "bcache",
    }
}

/// The kind of content that an area holds.
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
        matches!(self, Self::Iso9660 | Self::Squashfs | Self::Erofs)
    }

    /// Whether it has a DOS boot sector, and so counts in sectors, allocates clusters, and records its start.
    pub const fn has_boot_sector(self) -> bool {
        matches!(self, Self::Vfat | Self::Exfat | Self::Ntfs)
    }

    /// Whether its boot code reads the recorded start of the partition.
    pub const fn boots_from_recorded_start(self) -> bool {
        matches!(self, Self::Vfat | Self::Ntfs)
    }

    /// By its mount name. A ZFS pool is mounted without naming the device.
    pub(crate) fn mounted(name: &str) -> Option<Self> {
        Self::from_name(name).filter(|kind| !matches!(kind, Self::Jbd | Self::Swap | Self::Zfs))
    }
}

impl Serialize for Content {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(self.name())
    }
}

impl Content {
    /// Its name: blkid's TYPE if it has one, "LV" for a logical volume, "table" for a nested table.
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
        if let Self::FileSystem(kind) = self { Some(kind) } else { None }
    }

    const fn class(self) -> Option<Class> {
        if let Self::Named(named) = self { Some(named.class) } else { None }
    }

    /// Whether it is a member of an array or a mirror, so that a table in it is not the disk's.
    pub const fn is_array_member(self) -> bool {
        matches!(self, Self::Volume(VolumeKind::Md | VolumeKind::Drbd)) || self.is_firmware_raid()
    }

    /// Whether it is a member of an array that is described by firmware metadata.
    pub const fn is_firmware_raid(self) -> bool {
        matches!(self.class(), Some(Class::Array))
    }

    /// Whether it is a part or a wrapper of something else.
    pub const fn is_member(self) -> bool {
        matches!(self, Self::Volume(_)) || matches!(self.class(), Some(Class::Member | Class::Array))
    }

    /// Whether it is a partition table of a kind known only by name.
    pub const fn is_foreign_table(self) -> bool {
        matches!(self.class(), Some(Class::Table))
    }

    /// Whether it is the file system of an optical medium, whose images have a table too by design.
    pub const fn is_optical(self) -> bool {
        matches!(self, Self::FileSystem(FsKind::Iso9660)) || matches!(self.class(), Some(Class::Optical))
    }

    /// Whether it is swap space.
    pub const fn is_swap(self) -> bool {
        matches!(self, Self::FileSystem(FsKind::Swap))
    }

    /// Whether it is the image of a hibernated system, which has tables and file systems in memory.
    pub const fn is_hibernated(self) -> bool {
        matches!(self.class(), Some(Class::Hibernation))
    }

    /// Whether it is a file system that is created once and then only read.
    pub const fn is_only_read(self) -> bool {
        match self {
            Self::FileSystem(kind) => kind.is_only_read(),
            _ => matches!(self.class(), Some(Class::ReadOnly)),
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
