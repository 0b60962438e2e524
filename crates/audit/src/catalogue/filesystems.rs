//! S06x: file systems.

use super::{About, Definition, Kind, Severity};

pub(super) const LUKS_SECTOR_SMALL: Definition = Definition {
    severity: Severity::Advice,
    kind: Kind::Granularity,
    about: About::Layer,
    title: "LUKS encryption sector is smaller than the physical sector",
    what: "The encryption sector is smaller than the physical sector.",
    why: "dm-crypt reports the encryption sector as the mapping's logical sector, so layers above may \
          write units that small. LUKS1 always uses 512 bytes; LUKS2 uses 4096 if the device reports \
          4096-byte sectors.",
    cost: "Eight times as many encryption calls per block, and read-modify-writes by file systems that use \
           small sectors.",
    fix: "cryptsetup reencrypt --sector-size 4096 (LUKS2). The data area must start and end on a 4096-byte \
           boundary; if its end does not, shrink the device first.",
    sources: &["Linux drivers/md/dm-crypt.c, crypt_io_hints", "cryptsetup(8), --sector-size"],
};

pub(super) const FS_BLOCK_SMALL: Definition = Definition {
    severity: Severity::Warning,
    kind: Kind::Granularity,
    about: About::FileSystem,
    title: "file system writes less than a physical sector",
    what: "The file system's block, sector or log sector is smaller than the physical sector.",
    why: "mkfs chooses the block size by the size of the device (1 KiB on small ext file systems) or by \
          what the device reports (XFS: 512-byte sectors on an image file or a drive that misreports).",
    cost: "Each such write is a read-modify-write, however well it is aligned. The finding is advice if \
           only firmware reads the file system (an EFI system partition, the small FAT that a Raspberry Pi \
           boots from). It is also advice for an ext or FAT file system below 512 MiB, for which mke2fs and \
           mkfs.fat choose such blocks, and for blocks of 4 KiB or more, because not every system can mount \
           larger ones.",
    fix: "Recreate it with blocks and sectors of 4096 bytes.",
    sources: &["mke2fs(8), -b and mke2fs.conf", "mkfs.xfs(8), -s size"],
};

pub(super) const FS_BLOCK_BELOW_UNIT: Definition = Definition {
    severity: Severity::Advice,
    kind: Kind::Granularity,
    about: About::FileSystem,
    title: "file-system block is smaller than the indirection unit",
    what: "The file system's block is a physical sector or more, but less than the SSD's indirection unit.",
    why: "An SSD with 16 KiB units reads and rewrites the rest of the unit for each isolated 4 KiB write; \
          its cache merges writes that arrive close together.",
    cost: "Small random writes cause up to unit / block times as many flash writes. The finding is a \
           warning for blocks and sectors below 4 KiB, which could be larger.",
    fix: "Use larger blocks if the file system supports them (XFS with large block sizes, bigalloc \
          clusters), or larger writes.",
    sources: &["NVM Express NVM Command Set specification, NPWG"],
};

pub(super) const DATA_AREA_OFF: Definition = Definition {
    severity: Severity::Error,
    kind: Kind::Alignment,
    about: About::Layer,
    title: "data area is misaligned inside an aligned file system",
    what: "The file system starts on a physical sector, but its first cluster does not.",
    why: "FAT counts clusters from the end of its reserved sectors, tables and root directory; exFAT from \
          its cluster heap. mkfs.fat aligns them by default, other formatters do not.",
    cost: "Every cluster spans one sector more than it needs: see S001.",
    fix: "Recreate it with mkfs.fat (without -a) or mkfs.exfat -b 1M.",
    sources: &[
        "Microsoft FAT specification, FirstDataSector",
        "exFAT file system specification, ClusterHeapOffset",
    ],
};

pub(super) const HINTS_CONTRADICT: Definition = Definition {
    severity: Severity::Warning,
    kind: Kind::Layers,
    about: About::FileSystem,
    title: "stripe hints do not match the array",
    what: "The file system's chunk or stripe is not a multiple of that of the array below.",
    why: "mkfs takes these hints from the device's I/O sizes and writes them once (multiples of the chunk \
          and the stripe are fine). They become wrong when the array is reshaped or the file system is \
          copied to another device.",
    cost: "The allocator optimises for a different array: metadata piles up on one member, and whole stripes \
           become partial ones.",
    fix: "tune2fs -E stride=,stripe_width=; mount -o sunit=,swidth= for XFS.",
    sources: &["ext4: Documentation/filesystems/ext4/super.rst, s_raid_stride", "xfs(5), sunit and swidth"],
};

pub(super) const ASHIFT_SMALL: Definition = Definition {
    severity: Severity::Warning,
    kind: Kind::Granularity,
    about: About::FileSystem,
    title: "ZFS writes less than the drive's unit",
    what: "The vdev's ashift is smaller than the physical sector or indirection unit.",
    why: "ZFS derives the ashift from what the drive reports when the vdev is created, and it cannot be \
          changed afterwards.",
    cost: "Every small record is a read-modify-write. With ashift 12 or more, the finding is only advice: \
           blocks of 4 KiB cost the same as in any other file system on this drive.",
    fix: "Recreate the pool with -o ashift=12 (4 KiB), 13 (8 KiB) or 14 (16 KiB).",
    sources: &["zpoolprops(7), ashift", "OpenZFS issues 287 and 289"],
};

pub(super) const PAGE_STRADDLES: Definition = Definition {
    severity: Severity::Warning,
    kind: Kind::Alignment,
    about: About::Layer,
    title: "database pages straddle",
    what: "Pages of the given size (--page) do not cover whole units of the drive.",
    why: "The page is neither a multiple nor a divisor of the unit, or the file system is not aligned to \
          it.",
    cost: "Each page becomes two partial writes, and may be torn between them.",
    fix: "Align the layers below, and use a page size that is a multiple of the unit.",
    sources: &["PostgreSQL documentation, full_page_writes", "MySQL documentation, innodb_doublewrite"],
};

pub(super) const PAGE_NOT_ATOMIC: Definition = Definition {
    severity: Severity::Advice,
    kind: Kind::Atomicity,
    about: About::Layer,
    title: "database pages cannot be written atomically",
    what: "Pages of the given size (--page) are not known to reach the drive as one atomic write.",
    why: "The device offers no atomic write of that size, the partition's start disables it, or the file \
          system may split a page when it allocates it.",
    cost: "A power failure may leave half a page. Databases guard against that by writing everything \
           twice.",
    fix: "Keep that protection on. If the file system is the only obstacle, use ext4 with page-sized \
          clusters (mkfs.ext4 -b 4096 -O bigalloc -C 16384); Linux 6.16 and later write these atomically if \
          the device can.",
    sources: &[
        "Linux Documentation/ABI/stable/sysfs-block, atomic_write_unit_max_bytes",
        "MySQL documentation, innodb_doublewrite",
    ],
};

pub(super) const HIDDEN_SECTORS: Definition = Definition {
    severity: Severity::Warning,
    kind: Kind::Layers,
    about: About::Placement,
    title: "the boot sector records a different start than the partition table",
    what: "The start recorded in the boot sector of an NTFS, FAT or exFAT file system (\"hidden sectors\") \
           differs from the partition table's.",
    why: "Only mkfs and Windows' own tools write this field. A partition that is moved, or copied to \
          another disk, keeps the old value. The BIOS boot code uses it to find the rest of itself.",
    cost: "Windows does not boot from the partition. The finding is a warning for the active partition of \
           an MBR, and advice for other partitions (data, EFI, exFAT), where nothing reads the field.",
    fix: "With the partition unmounted, write its first sector number into the boot sector (four bytes at \
          byte 28) and into its copies. NTFS has them in the sector after the volume's last one, or in the \
          last sector of the cluster that starts there, and in the partition's last sector; FAT32 usually \
          in sector 6. If the partition has to be moved, move it first.",
    sources: &[
        "Microsoft FAT specification, BPB_HiddSec",
        "exFAT file system specification, PartitionOffset",
        "ntfs-3g include/ntfs-3g/layout.h, struct BIOS_PARAMETER_BLOCK, hidden_sectors",
    ],
};

pub(super) const UNFIT: Definition = Definition {
    severity: Severity::Error,
    kind: Kind::Fit,
    about: About::FileSystem,
    title: "does not fit the logical sectors of its device",
    what: "A file system, a volume, a nested partition table or a database page (--page) has a unit \
           smaller than the logical sector of its device, or starts or ends inside one; or a LUKS2 \
           container ends inside one of its encryption sectors.",
    why: "It was made on a drive or an image with 512-byte sectors and is now on one with 4096-byte \
          sectors: after a copy to a 4Kn drive, with another adapter, with a new member in an array or \
          volume group, or on LUKS2 with 4096-byte sectors.",
    cost: "Linux does not mount, open, activate or find it. Windows does not mount a FAT, exFAT or NTFS \
           volume whose sector size differs from the drive's. Its alignment does not matter.",
    fix: "Use a drive, an adapter or a virtual disk with 512-byte logical sectors. To copy the files to a \
          new file system, read the old one through losetup --sector-size 512. Recreating the file system \
          is the last resort.",
    sources: &[
        "Linux block/bdev.c, sb_set_blocksize",
        "Linux fs/xfs/xfs_mount.c, xfs_readsb; fs/fat/inode.c, fat_fill_super",
        "Linux drivers/md/dm-table.c, device_area_is_invalid; drivers/md/dm-crypt.c, crypt_ctr",
        "Linux drivers/md/bcache/super.c, read_super",
        "Microsoft Windows-driver-samples, filesys/fastfat/fsctrl.c, FatMountVolume",
    ],
};
