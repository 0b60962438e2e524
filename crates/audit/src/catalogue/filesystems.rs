//! S06x: file systems.

use super::Definition;

pub(super) const LUKS_SECTOR_SMALL: Definition = Definition {
    title: "LUKS encryption sector is smaller than the physical sector",
    what: "The encryption sector is smaller than the physical sector.",
    why: "dm-crypt reports the encryption sector as the mapping's logical sector, so layers above may write \
          single encryption sectors. LUKS1 always encrypts in 512-byte sectors; LUKS2 uses 4096-byte sectors \
          if the device reports them.",
    cost: "Each block needs eight times as many encryption calls. If a file system uses small sectors, its \
           small writes cause read-modify-writes.",
    fix: "For LUKS2, run cryptsetup reencrypt --sector-size 4096. The data area must start and end on a \
          4096-byte boundary. If the data area does not end on a 4096-byte boundary, shrink the device \
          first.",
    sources: &["Linux drivers/md/dm-crypt.c, crypt_io_hints", "cryptsetup(8), --sector-size"],
};

pub(super) const FS_BLOCK_SMALL: Definition = Definition {
    title: "file system writes less than a physical sector",
    what: "The file system's block, sector or log sector is smaller than the physical sector.",
    why: "mkfs derives the block size from the size of the device or from what the device reports. For \
          example, mke2fs gives small file systems 1 KiB blocks. mkfs.xfs chooses 512-byte sectors on an \
          image file, or on a drive that misreports its sectors.",
    cost: "Each write of such a block is a read-modify-write, even if the partition is aligned. The finding \
           is advice if only firmware reads the file system (an EFI system partition, or the small FAT file \
           system of a Raspberry Pi). The finding is also advice for an ext or FAT file system smaller than \
           512 MiB, for which mke2fs and mkfs.fat choose small blocks. If blocks are 4 KiB or larger, the \
           finding is advice, because not every system can mount a file system with larger blocks.",
    fix: "Recreate the file system with blocks and sectors of 4096 bytes.",
    sources: &["mke2fs(8), -b and mke2fs.conf", "mkfs.xfs(8), -s size"],
};

pub(super) const FS_BLOCK_BELOW_UNIT: Definition = Definition {
    title: "file-system block is smaller than the indirection unit",
    what: "The file system's block is at least a physical sector, but smaller than the SSD's indirection \
           unit.",
    why: "For each isolated 4 KiB write, an SSD with 16 KiB units reads and rewrites the rest of the unit. \
          The SSD's cache merges only writes that arrive close together in time.",
    cost: "Small random writes cause up to (unit / block) times as many flash writes. The finding is a \
           warning for blocks and sectors smaller than 4 KiB, because larger ones are possible.",
    fix: "Use larger blocks if the file system supports them (XFS with large block sizes, bigalloc \
          clusters), or larger writes.",
    sources: &["NVM Express NVM Command Set specification, NPWG"],
};

pub(super) const DATA_AREA_OFF: Definition = Definition {
    title: "data area is misaligned inside an aligned file system",
    what: "The file system starts on a physical sector boundary, but its first cluster does not start on \
           one.",
    why: "The first cluster of FAT follows the reserved sectors, tables and root directory. The first \
          cluster of exFAT is at the start of the cluster heap. mkfs.fat aligns clusters by default, but \
          other formatters do not.",
    cost: "Every cluster spans one more sector than necessary (see S001).",
    fix: "Recreate the file system with mkfs.fat (without -a) or mkfs.exfat -b 1M.",
    sources: &[
        "Microsoft FAT specification, FirstDataSector",
        "exFAT file system specification, ClusterHeapOffset",
    ],
};

pub(super) const HINTS_CONTRADICT: Definition = Definition {
    title: "stripe hints do not match the array",
    what: "The chunk or stripe recorded in the file system is not a multiple of the chunk or stripe of the \
           underlying array.",
    why: "mkfs derives these hints from the device's I/O sizes and stores them. Hints that are multiples of \
          the chunk and the stripe are correct. The hints become wrong when the array is reshaped or the \
          file system is copied to another device.",
    cost: "The allocator optimises for the wrong layout. Metadata accumulates on one member of the array, \
           and full-stripe writes become partial-stripe writes.",
    fix: "For ext4, run tune2fs -E stride=,stripe_width=. For XFS, mount with -o sunit=,swidth=.",
    sources: &["ext4: Documentation/filesystems/ext4/super.rst, s_raid_stride", "xfs(5), sunit and swidth"],
};

pub(super) const ASHIFT_SMALL: Definition = Definition {
    title: "ZFS writes less than the drive's unit",
    what: "The vdev's ashift is smaller than the physical sector or indirection unit.",
    why: "When a vdev is created, ZFS derives the ashift from the sector size that the drive reports. The \
          ashift cannot be changed afterwards.",
    cost: "Every write of a small record is a read-modify-write. With ashift 12 or more, the finding is only \
           advice, because 4 KiB blocks cost the same as in any other file system on this drive.",
    fix: "Recreate the pool with -o ashift=12 (4 KiB), 13 (8 KiB) or 14 (16 KiB).",
    sources: &["zpoolprops(7), ashift", "OpenZFS issues 287 and 289"],
};

pub(super) const PAGE_STRADDLES: Definition = Definition {
    title: "database pages straddle the drive's units",
    what: "Database pages of the given size (--page) do not cover whole units of the drive.",
    why: "The page size is neither a multiple nor a divisor of the unit, or the file system is not aligned \
          to the unit.",
    cost: "Each page write becomes two partial writes, and a power cut between them tears the page.",
    fix: "Align the layers below, and use a page size that is a multiple of the unit.",
    sources: &["PostgreSQL documentation, full_page_writes", "MySQL documentation, innodb_doublewrite"],
};

pub(super) const PAGE_NOT_ATOMIC: Definition = Definition {
    title: "database pages cannot be written atomically",
    what: "Database pages of the given size (--page) may not reach the drive as one atomic write.",
    why: "The device does not support atomic writes of that size, the partition's start disables them, or \
          the file system may allocate a page in two pieces.",
    cost: "A power failure may leave a page half written. Databases protect themselves against half-written \
           pages by writing every page twice.",
    fix: "Keep the database's protection against torn pages enabled. If the file system is the only \
          obstacle, use ext4 with page-sized clusters (mkfs.ext4 -b 4096 -O bigalloc -C 16384). Linux 6.16 \
          and later can write such clusters atomically if the device supports atomic writes of that size.",
    sources: &[
        "Linux Documentation/ABI/stable/sysfs-block, atomic_write_unit_max_bytes",
        "MySQL documentation, innodb_doublewrite",
    ],
};

pub(super) const HIDDEN_SECTORS: Definition = Definition {
    title: "the boot sector records a different start than the partition table",
    what: "The start recorded in the boot sector of an NTFS, FAT or exFAT file system (\"hidden sectors\") \
           differs from the start in the partition table.",
    why: "Only mkfs and Windows' own tools write this field. If another tool moves or copies the partition, \
          the field keeps the old start. The partition's BIOS boot code uses this start to locate the rest \
          of its code.",
    cost: "Windows does not boot from the partition. The finding is a warning for the active partition on an \
           MBR disk. The finding is advice for other partitions, and for exFAT, in which no program reads \
           the field.",
    fix: "With the partition unmounted, write the number of its first sector to the boot sector (four bytes \
          at byte 28) and to the copies of the boot sector. On NTFS, one copy of the boot sector is in the \
          partition's last sector. Another copy is just after the volume, in the next sector or in the last \
          sector of the cluster that starts there. On FAT32, the copy of the boot sector is usually in \
          sector 6. If the partition has to be moved, move it before you write the boot sector.",
    sources: &[
        "Microsoft FAT specification, BPB_HiddSec",
        "exFAT file system specification, PartitionOffset",
        "ntfs-3g include/ntfs-3g/layout.h, struct BIOS_PARAMETER_BLOCK, hidden_sectors",
    ],
};

pub(super) const UNFIT: Definition = Definition {
    title: "does not fit the device's logical sectors",
    what: "A file system, volume, nested partition table or database page (--page) has units smaller than \
           the device's logical sectors, or starts or ends inside a logical sector. The rule also covers a \
           LUKS2 container that ends inside an encryption sector.",
    why: "The file system or volume was created on a drive or image with 512-byte sectors, and is now on a \
          drive with 4096-byte sectors. For example, the file system was copied to a 4Kn drive or into LUKS2 \
          with 4096-byte sectors, or the drive's adapter was replaced. Adding a member with larger sectors \
          to an array or volume group has the same effect.",
    cost: "Linux cannot mount, open, activate or find the contents. Windows cannot mount a FAT, exFAT or \
           NTFS volume whose sector size differs from the drive's. Alignment is irrelevant here.",
    fix: "Use a drive, an adapter or a virtual disk with 512-byte logical sectors. To copy the files to a \
          new file system, read the old one through a loop device (losetup --sector-size 512). As a last \
          resort, recreate the file system.",
    sources: &[
        "Linux block/bdev.c, sb_set_blocksize",
        "Linux fs/xfs/xfs_mount.c, xfs_readsb; fs/fat/inode.c, fat_fill_super",
        "Linux drivers/md/dm-table.c, device_area_is_invalid; drivers/md/dm-crypt.c, crypt_ctr",
        "Linux drivers/md/bcache/super.c, read_super",
        "Microsoft Windows-driver-samples, filesys/fastfat/fsctrl.c, FatMountVolume",
    ],
};
