//! S06x: file systems.

use super::{About, Code, Definition, Kind, Severity};

pub(super) const LUKS_SECTOR_SMALL: Definition = Definition {
    code: Code::S060,
    severity: Severity::Advice,
    kind: Kind::Granularity,
    about: About::Layer,
    title: "LUKS encryption sector is smaller than the physical sector",
    what: "The encryption sector is smaller than the physical sector.",
    why: "dm-crypt presents the encryption sector as the mapping's logical block, so that layers above may write \
          units that small. LUKS1 always uses 512 bytes; LUKS2 uses 4096 if the device reports 4096-byte sectors.",
    cost: "Eight times as many encryption calls for each block, and writes of less than a physical sector from file \
           systems that use small sectors.",
    fix: "cryptsetup reencrypt --sector-size 4096 (LUKS2). The data area must start and end on a 4096-byte boundary; if \
           its end does not, shrink the device first.",
    sources: &["Linux drivers/md/dm-crypt.c, crypt_io_hints", "cryptsetup(8), --sector-size"],
};

pub(super) const FS_BLOCK_SMALL: Definition = Definition {
    code: Code::S061,
    severity: Severity::Warning,
    kind: Kind::Granularity,
    about: About::FileSystem,
    title: "file system writes less than a physical sector",
    what: "The file system's block, sector or log sector is smaller than the physical sector.",
    why: "mkfs takes the block by the size of the device (small ext file systems: 1 KiB) or by what the \
          device reports (XFS: 512-byte sectors on an image file or a drive that lies).",
    cost: "Each such write is a read-modify-write, however well it is aligned. It is advice where only firmware reads it (an EFI \
           system partition, the small FAT that a Raspberry Pi boots from); in an ext or FAT of less than 512 MiB, for which \
           mke2fs and mkfs.fat choose such blocks and in which little is written; and for blocks of 4 KiB and more on larger \
           sectors, which no block that every system mounts fills.",
    fix: "Recreate it with blocks and sectors of 4096 bytes.",
    sources: &["mke2fs(8), -b and mke2fs.conf", "mkfs.xfs(8), -s size"],
};

pub(super) const FS_BLOCK_BELOW_UNIT: Definition = Definition {
    code: Code::S062,
    severity: Severity::Advice,
    kind: Kind::Granularity,
    about: About::FileSystem,
    title: "file-system block is smaller than the indirection unit",
    what: "The file system's block is a physical sector or more, but less than the SSD's indirection unit.",
    why: "An SSD of 16 KiB units reads and writes again the rest of a unit for each 4 KiB written alone; its \
          cache merges what comes together.",
    cost: "Random small writes cost up to unit / block times the flash writes. It is a warning for blocks and sectors of less than \
           4 KiB, which could be larger.",
    fix: "Larger blocks where the file system has them (XFS with large block sizes, bigalloc clusters), or \
           larger writes above.",
    sources: &["NVM Express NVM Command Set specification, NPWG"],
};

pub(super) const DATA_AREA_OFF: Definition = Definition {
    code: Code::S063,
    severity: Severity::Error,
    kind: Kind::Alignment,
    about: About::Layer,
    title: "data area is misaligned inside an aligned file system",
    what: "The file system starts on a physical sector, but its first cluster does not.",
    why: "FAT counts clusters from the end of its reserved sectors, tables and root directory; exFAT from \
          its cluster heap. mkfs.fat aligns them by default, other formatters do not.",
    cost: "Every cluster lies across one sector more than it needs: see S001.",
    fix: "Recreate it with mkfs.fat (without -a) or mkfs.exfat -b 1M.",
    sources: &[
        "Microsoft FAT specification, FirstDataSector",
        "exFAT file system specification, ClusterHeapOffset",
    ],
};

pub(super) const HINTS_CONTRADICT: Definition = Definition {
    code: Code::S064,
    severity: Severity::Warning,
    kind: Kind::Layers,
    about: About::FileSystem,
    title: "stripe hints contradict the array",
    what: "The file system was given a chunk or stripe that is not a multiple of the one that the array below has.",
    why: "Hints are written once, by mkfs, which takes them from the device's I/O sizes (multiples of the chunk and the \
          stripe are fine). They are wrong after the array was reshaped, or when the file \
          system was copied from elsewhere.",
    cost: "The allocator spreads data for disks that are not there: metadata piles up on one member, whole \
           stripes become partial ones.",
    fix: "tune2fs -E stride=,stripe_width=; mount -o sunit=,swidth= for XFS.",
    sources: &["ext4: Documentation/filesystems/ext4/super.rst, s_raid_stride", "xfs(5), sunit and swidth"],
};

pub(super) const ASHIFT_SMALL: Definition = Definition {
    code: Code::S065,
    severity: Severity::Warning,
    kind: Kind::Granularity,
    about: About::FileSystem,
    title: "ZFS writes less than the drive's unit",
    what: "The vdev's ashift is smaller than the physical sector or indirection unit.",
    why: "ZFS takes the ashift from what the drive reports when the vdev is made, and keeps it for life.",
    cost: "Every small record is a read-modify-write. It is advice from ashift 12 on: blocks of 4 KiB cost the same as those of \
           any other file system on the same unit.",
    fix: "Recreate the pool with -o ashift=12 (4 KiB), 13 (8 KiB) or 14 (16 KiB).",
    sources: &["zpoolprops(7), ashift", "OpenZFS issues 287 and 289"],
};

pub(super) const PAGE_STRADDLES: Definition = Definition {
    code: Code::S066,
    severity: Severity::Warning,
    kind: Kind::Alignment,
    about: About::Layer,
    title: "database pages straddle",
    what: "Pages of the given size (--page) do not cover whole units of the drive.",
    why: "The page is neither a multiple nor a part of the unit, or the file system is off it.",
    cost: "Each page write is two partial ones, and may be torn between them.",
    fix: "Align what is below; use a page that is a multiple of the unit.",
    sources: &["PostgreSQL documentation, full_page_writes", "MySQL documentation, innodb_doublewrite"],
};

pub(super) const PAGE_NOT_ATOMIC: Definition = Definition {
    code: Code::S067,
    severity: Severity::Advice,
    kind: Kind::Atomicity,
    about: About::Layer,
    title: "database pages cannot be written atomically",
    what: "Pages of the given size (--page) are not known to reach the drive as one atomic write.",
    why: "The device offers no atomic write of that size, the partition's start turned it off, or the file \
          system may allocate a page in two places.",
    cost: "A power failure may leave half a page: databases guard against it by writing everything twice.",
    fix: "Keep that guard on. If only the file system stands in the way: an ext4 with clusters of a page (mkfs.ext4 -b 4096 -O bigalloc \
          -C 16384), which Linux writes atomically from 6.16 on where the device does.",
    sources: &[
        "Linux Documentation/ABI/stable/sysfs-block, atomic_write_unit_max_bytes",
        "MySQL documentation, innodb_doublewrite",
    ],
};

pub(super) const HIDDEN_SECTORS: Definition = Definition {
    code: Code::S068,
    severity: Severity::Warning,
    kind: Kind::Layers,
    about: About::Placement,
    title: "the boot sector gives another start than the partition table",
    what: "The boot sector of NTFS, FAT and exFAT contains the start of its partition (\"hidden sectors\"), which differs \
           from the partition table's.",
    why: "Only mkfs and Windows' own tools write it. A partition that is moved, or copied to another disk, keeps the \
          old number. The BIOS boot code loads the rest of itself from that sector.",
    cost: "Windows does not boot from the partition: a warning if it is the active one of an MBR. Otherwise \
           (data, EFI, exFAT) nothing reads the number, and the finding is advice.",
    fix: "Write the partition's first sector into the boot sector, four bytes at byte 28, and into the copies of that (NTFS: the \
           sector behind the last of the volume, or the last of the cluster that begins there, and the last of the partition; \
           FAT32: mostly sector 6), with the partition unmounted. Where the partition is to be moved, do that first.",
    sources: &[
        "Microsoft FAT specification, BPB_HiddSec",
        "exFAT file system specification, PartitionOffset",
        "ntfs-3g include/ntfs-3g/layout.h, struct BIOS_PARAMETER_BLOCK, hidden_sectors",
    ],
};

pub(super) const UNFIT: Definition = Definition {
    code: Code::S069,
    severity: Severity::Error,
    kind: Kind::Fit,
    about: About::FileSystem,
    title: "does not fit the logical sectors of what it is on",
    what: "A file system, a volume, a nested partition table or a database page (--page) has a unit of its own that is smaller \
           than the logical sector of what it is on, or begins or ends inside one; or a LUKS2 container ends inside one of its \
           encryption sectors.",
    why: "It was made on a drive or an image with 512-byte sectors and came to one with 4096: a copy to a 4Kn drive, another \
          adapter, a larger member in an array or a volume group, LUKS2 with 4096-byte sectors below it.",
    cost: "Linux does not mount, open, activate or find it; FAT, exFAT and NTFS whose sectors are not the drive's are not \
           mounted by Windows. How it is aligned does not matter.",
    fix: "Use a drive, an adapter or a virtual disk with 512-byte logical sectors. losetup --sector-size 512 shows the contents \
         as they are, to be copied to a new file system. Making the file system again is the last resort.",
    sources: &[
        "Linux block/bdev.c, sb_set_blocksize",
        "Linux fs/xfs/xfs_mount.c, xfs_readsb; fs/fat/inode.c, fat_fill_super",
        "Linux drivers/md/dm-table.c, device_area_is_invalid; drivers/md/dm-crypt.c, crypt_ctr",
        "Linux drivers/md/bcache/super.c, read_super",
        "Microsoft Windows-driver-samples, filesys/fastfat/fsctrl.c, FatMountVolume",
    ],
};
