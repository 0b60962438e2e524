//! S00x: where partitions start and end.

use super::{About, Definition, Kind, Severity};

pub(super) const START_STRADDLES: Definition = Definition {
    severity: Severity::Error,
    kind: Kind::Alignment,
    about: About::Placement,
    title: "start straddles a physical sector",
    what: "The partition does not start on a physical sector, and no layer in it compensates for that. The \
           finding is only a warning if the drive's sectors are in doubt: an ATA hard disk of 160 GB or \
           more that reports 512-byte physical sectors and has a partition at sector 63. Many disks of 2010 \
           to 2013 reported 512 and had 4096, and not all of them are known; straddle probe measures the \
           sectors, and --assume declares them. It is also a warning if sectors are larger than 4 KiB: a 4 \
           KiB write is a read-modify-write at any offset, and misalignment adds a sector only to larger \
           writes, as with the indirection unit (S004).",
    why: "File systems write blocks of 4 KiB, counted from the partition's start. If that start is inside a \
          physical sector, every block has one part in one sector and the rest in the next. A drive can \
          only write whole sectors, so for each block it must read both, modify a part of each, and write \
          both back. The check takes the device's alignment offset into account, so it is correct even for \
          a drive whose first address is inside a physical sector. LVM and cryptsetup shift their data to \
          compensate for a misaligned start that the kernel reports; if that aligns all data, S056 is \
          reported instead.",
    cost: "Small writes: in published tests they take about 3 times as long on 5400 and 7200 rpm 512e \
           disks, and 62 times in the worst one (WD20EARS, 4 KiB writes at every 16 KiB: 19.5 s against \
           1217 s). Extracting a source tree took 1.04 to 25.5 times as long, depending on drive and file \
           system. Reads cost little on most drives (0.94 to 1.25 times as long), but up to 8.5 times as long \
           on a Seagate ST2000DL003: its firmware, SmartAlign, is thought to log partial sectors. It costs \
           nothing, and is only advice, in partitions that only an installer writes to: BIOS boot, FreeBSD \
           boot, PReP, Microsoft reserved and EFI partitions, the FAT that a board's firmware boots from, \
           ISO 9660 and squashfs, and partitions with unknown contents that are smaller than a physical \
           sector.",
    fix: "Start the partition on a multiple of the physical sector; 1 MiB (sector 2048 of 512 bytes) suits \
          all drives. In an existing partition the data has to move with the start: use straddle realign. \
          If there is no room, shrink the contents first, or copy the disk to another one (straddle \
          realign --to).",
    sources: &[
        "Linux block/blk-settings.c, queue_limit_alignment_offset",
        "Documentation/ABI/stable/sysfs-block, alignment_offset",
        "blog.des.no, 2010-08: 4 KiB writes on WD20EARS aligned and not",
        "R. W. Smith, Linux on 4 KB sector disks: Practical advice (2014): trees and reads on three drives",
    ],
};

pub(super) const END_STRADDLES: Definition = Definition {
    severity: Severity::Warning,
    kind: Kind::Alignment,
    about: About::Placement,
    title: "end is not on a physical sector boundary",
    what: "The partition's size is not a whole number of physical sectors: its last bytes share a physical \
           sector with what follows. If sectors are larger than 4 KiB, a whole number of 4 KiB blocks is \
           enough.",
    why: "Tools that use all unallocated space end the partition at the last usable sector. On a GPT disk \
        that is 33 sectors before the disk's last one, which is seldom the end of a physical sector.",
    cost: "File systems with 4 KiB blocks do not use the tail and lose nothing. LUKS with 4096-byte sectors \
           does not use it either, but cannot be opened on such a device (\"Device size is not aligned to \
           requested sector size\"): a partition that was grown has to be cut back. A write to the tail is \
           a read-modify-write of a sector that the next partition shares. Until a file system is mounted, \
           Linux accesses a partition whose size is not a multiple of 4 KiB in blocks of 512, 1024 or 2048 \
           bytes. Writes by mkfs, dd or a database through the page cache then consist of more and smaller \
           segments: with 512-byte blocks, a request of 126 segments carries 63 KiB instead of 504, and may \
           end inside a physical sector even if the start is aligned. The finding is only advice if the \
           partition is empty, if the contents, according to their header, do not use the tail (swap of \
           whole pages, most file systems), or if the partition is smaller than a physical sector (ChromeOS \
           has one-block partitions) and its contents are unknown. It is a warning if the contents write to \
           the tail (md), cannot be opened with it (LUKS with 4096-byte sectors) or are unknown, or if the \
           next partition starts in the same sector.",
    fix: "End the partition on a multiple of the physical sector. Cutting off the tail (less than a \
          physical sector) is safe for file systems with 4 KiB blocks, and for LUKS with 4096-byte \
          sectors.",
    sources: &[
        "cryptsetup lib/utils_device.c",
        "Linux block/bdev.c: set_init_blocksize",
        "util-linux issues 417 and 2140",
        "util-linux commit 921c7da55 (2022): fdisk aligns the end of the last partition",
    ],
};

pub(super) const OFF_IO_MIN: Definition = Definition {
    severity: Severity::Warning,
    kind: Kind::Alignment,
    about: About::Placement,
    title: "start is not aligned to the minimum I/O size",
    what: "The start is on a physical sector, but not on a multiple of the device's minimum I/O size. The \
           finding is only advice if that size is a hint: for a virtual disk, a Ceph image or another \
           device that is not known to be an array, and for a thin pool, which reports its chunk.",
    why: "minimum_io_size is the smallest request that the device serves without a penalty. It is larger \
          than the physical sector if the device is an array (the chunk) or maps in larger units. dm-thin \
          allocates and copies whole chunks; writing part of one reads nothing.",
    cost: "Requests meant to cover one unit cover parts of two: a RAID accesses two members, and an SSD \
           reads and rewrites two units.",
    fix: "Start on a multiple of it; 1 MiB usually is one.",
    sources: &[
        "Documentation/ABI/stable/sysfs-block, queue/minimum_io_size",
        "Linux block/blk-settings.c, blk_stack_limits",
        "Linux drivers/md/dm-thin.c, pool_io_hints",
        "Linux drivers/block/rbd.c, rbd_init_disk",
    ],
};

pub(super) const OFF_INDIRECTION_UNIT: Definition = Definition {
    severity: Severity::Warning,
    kind: Kind::Alignment,
    about: About::Placement,
    title: "start is not aligned to the SSD's indirection unit",
    what: "The start is not on a multiple of the unit in which the SSD maps addresses to flash.",
    why: "A drive that maps 16 KiB units must read a unit, modify it and write it elsewhere for each write \
          that covers only part of it. NVMe reports the unit as NPWG, which the kernel exports as \
          minimum_io_size and not as physical_block_size: a tool that looks only at the physical sector \
          does not notice. NPWG is the preferred size of writes. A drive may report a smaller alignment for \
          them (NPWA): if the start is aligned to that, the finding is only advice.",
    cost: "Each 16 KiB database page becomes two partial units: twice the flash writes, and twice the \
           wear. For writes smaller than the unit: (offset in the unit + length, rounded up to the unit) / \
           length.",
    fix: "Start on a multiple of the indirection unit (16 KiB to 64 KiB today); 1 MiB is one.",
    sources: &[
        "NVM Express NVM Command Set specification, Identify Namespace, NPWG and NPWA",
        "FreeBSD commit e3bcd07d834d (Samsung 980: NPWA 4 KiB, NPWG 16 KiB)",
        "Linux drivers/nvme/host/core.c, nvme_update_disk_info",
    ],
};

pub(super) const OFF_STRIPE: Definition = Definition {
    severity: Severity::Warning,
    kind: Kind::Alignment,
    about: About::Placement,
    title: "start is not aligned to the RAID chunk or stripe",
    what: "The start is not on a multiple of the array's chunk (the amount on one member before the next \
           follows) or of its full stripe. straddle recognises arrays from md, device-mapper tables, or a \
           SCSI disk's I/O sizes.",
    why: "Writes meant to cover whole chunks or stripes then cover parts of two. RAID 5 and 6 must read \
          the rest of a partly written stripe to compute its parity.",
    cost: "Depends on the array and the workload; R. W. Smith (2014) quotes published tests with 5 to 30 %. \
           It should be highest for sequential full-stripe writes, as each then needs the reads that whole \
           stripes avoid.",
    fix: "Start on a multiple of the full stripe (chunk times data members), which need not be a power of \
           two.",
    sources: &[
        "Linux drivers/md/raid5.c, raid5_set_limits (io_min is the chunk, io_opt the stripe)",
        "mdadm(8)",
        "R. W. Smith, Linux on 4 KB sector disks: Practical advice (2014): RAID and SSD alignment",
    ],
};

pub(super) const OFF_IO_OPT: Definition = Definition {
    severity: Severity::Advice,
    kind: Kind::Alignment,
    about: About::Placement,
    title: "start is not aligned to the optimal I/O size",
    what: "The start is aligned to the physical sector, but not to a multiple of the device's optimal I/O \
           size.",
    why: "optimal_io_size is a hint: a hardware RAID's stripe, or just the largest transfer that a \
          controller prefers. parted's \"optimal\" alignment follows it.",
    cost: "Nothing on a single disk; on a hardware RAID, as S005.",
    fix: "Start on a multiple of it if the device is an array.",
    sources: &[
        "Documentation/ABI/stable/sysfs-block, queue/optimal_io_size",
        "parted libparted/arch/linux.c, linux_get_optimum_alignment",
    ],
};

pub(super) const OFF_ERASE_BLOCK: Definition = Definition {
    severity: Severity::Advice,
    kind: Kind::Alignment,
    about: About::Placement,
    title: "start is not aligned to the erase block",
    what: "The start is not on a multiple of the flash erase block.",
    why: "Flash is erased in blocks of several MiB. SD cards and eMMC with simple controllers copy a whole \
          block when a write covers part of it; on SSDs, which remap, it should hardly matter.",
    cost: "On cards: slower writes and more wear if the file system's first structures share an erase \
           block with the table. On SSDs no published figure is known; R. W. Smith (2014) advises to align \
           to it on them too.",
    fix: "Start on a multiple of the erase block; 4 MiB covers most.",
    sources: &[
        "Linux Documentation/ABI, mmc preferred_erase_size",
        "flashbench, Arnd Bergmann",
        "R. W. Smith, Linux on 4 KB sector disks: Practical advice (2014): RAID and SSD alignment",
    ],
};

pub(super) const OFF_GRAIN: Definition = Definition {
    severity: Severity::Advice,
    kind: Kind::Alignment,
    about: About::Placement,
    title: "start is not on the 1 MiB grain",
    what: "The start is aligned to every boundary that the device has, but not on a multiple of 1 MiB.",
    why: "All current partitioning tools align to 1 MiB. It is a multiple of every physical sector, every \
        indirection unit and most stripes, but not a property of the drive. parted calls such a start \
          \"not properly aligned for best performance\", although sector 40 is as good as sector 2048 on a \
          512e disk.",
    cost: "Nothing, unless the disk is later copied to a device with larger units.",
    fix: "None needed. For a new table: start at 1 MiB.",
    sources: &["parted libparted/arch/linux.c, PED_DEFAULT_ALIGNMENT", "util-linux libfdisk/src/alignment.c"],
};

pub(super) const ATOMIC_LOST: Definition = Definition {
    severity: Severity::Warning,
    kind: Kind::Alignment,
    about: About::Placement,
    title: "atomic writes are lost because of the start",
    what: "The device supports atomic writes of several sectors, but not in this partition.",
    why: "The kernel offers atomic writes on a partition only if it starts on a multiple of the atomic \
          write unit or boundary, whichever is larger. If not, statx reports no atomic writes and \
          RWF_ATOMIC fails, without a message.",
    cost: "Databases cannot switch off their protection against torn pages (MySQL's doublewrite, \
           PostgreSQL's full-page writes).",
    fix: "Start on a multiple of that size; 1 MiB usually is one.",
    sources: &[
        "Linux include/linux/blkdev.h, bdev_can_atomic_write (6.11 and later)",
        "Documentation/ABI/stable/sysfs-block, atomic_write_unit_min_bytes",
    ],
};

pub(super) const DOS_START: Definition = Definition {
    severity: Severity::Advice,
    kind: Kind::Alignment,
    about: About::Placement,
    title: "start at sector 63",
    what: "The partition starts at sector 63.",
    why: "DOS started the first partition on the second track, and a track nominally had 63 sectors. fdisk \
          did the same up to util-linux 2.17, as did Windows XP and old installers and images. Sector 63 \
          is at byte 32256, 3584 bytes past a 4096-byte boundary.",
    cost: "As S001 on a drive with 4096-byte sectors; nothing on 512n, or on a drive whose firmware offset \
           aligns sector 63.",
    fix: "See S001. On such a disk, fdisk does not align later partitions by itself.",
    sources: &["util-linux 2.18 release notes", "Documentation of fdisk(8), DOS-compatible mode"],
};
