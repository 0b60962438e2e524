//! S00x: where partitions start and end.

use super::{About, Code, Definition, Kind, Severity};

pub(super) const START_STRADDLES: Definition = Definition {
    code: Code::S001,
    severity: Severity::Error,
    kind: Kind::Alignment,
    about: About::Placement,
    title: "start straddles a physical sector",
    what: "The partition's first byte is not the first byte of a physical sector, and what is written in it is not \
           aligned either. It is a warning, in doubt, on an ATA disk that spins, holds 160 GB or more and reports 512-byte \
           physical sectors, if it has a partition from sector 63: many disks of 2010 to 2013 reported 512 and had 4096, \
           and not all of them are known. A probe decides, or --assume. It is a warning as well where sectors are larger than \
           4 KiB: a block of 4 KiB is a read-modify-write wherever it lies in such a sector, and only larger writes cover one \
           more, as with the indirection unit (S004).",
    why: "File systems write blocks of 4 KiB, counted from the partition's start. When that start lies \
          inside a physical sector, every block has one part in one sector and the rest in the next. A drive \
          can only write whole sectors, so for each block it must read both, change a part of each, and \
          write both back. The start is compared with the device's alignment offset, so a drive whose first \
          address lies inside a physical sector is judged rightly. LVM and cryptsetup make up for a start that \
          the kernel calls misaligned; where all data on it is aligned again, that is S056.",
    cost: "Nothing, and it is advice, where nothing is written but by an installer: BIOS boot, FreeBSD boot, PReP, Microsoft reserved and \
           EFI partitions, the FAT that a board's firmware boots from, ISO 9660 and squashfs, a partition that is smaller \
           than a physical sector and holds nothing known. Small writes: published tests show about 3 times the time on 5400 and 7200 rpm 512e disks, 62 \
           times in the worst one (WD20EARS, 4 KiB writes at every 16 KiB: 19.5 s against 1217 s). Reads \
           cost little.",
    fix: "Start the partition on a multiple of the physical sector; 1 MiB (sector 2048 of 512 bytes) suits \
           all drives. For an existing partition the data has to move with the start: straddle realign moves it, or with --to copies the \
           disk to another one where there is no room; what is in a partition may also be made smaller first.",
    sources: &[
        "Linux block/blk-settings.c, queue_limit_alignment_offset",
        "Documentation/ABI/stable/sysfs-block, alignment_offset",
        "blog.des.no, 2010-08: 4 KiB writes on WD20EARS aligned and not",
    ],
};

pub(super) const END_STRADDLES: Definition = Definition {
    code: Code::S002,
    severity: Severity::Warning,
    kind: Kind::Alignment,
    about: About::Placement,
    title: "end is not on a physical sector boundary",
    what: "The partition's size is not a whole number of physical sectors: its last bytes share a physical \
           sector with what follows. In sectors of more than 4 KiB, whole blocks of 4 KiB are enough.",
    why: "Tools that take all free space end at the last usable sector. On a GPT disk that is 33 sectors \
          before the disk's last one, which is seldom the end of a physical sector.",
    cost: "File systems of 4 KiB blocks leave the tail unused and lose nothing. LUKS with 4096-byte sectors \
           never uses the tail, but is not opened on such a device (\"Device size is not aligned to requested sector size\"): \
           a partition that grew since it was made has to be cut again. A \
           write to the tail causes a read-modify-write of a sector that the next partition shares. Linux uses a partition whose \
           size is not a multiple of 4 KiB in blocks of 512, 1024 or 2048 bytes, until a file system is mounted. What mkfs, dd \
           or a database writes to it through the page cache then consists of more and smaller segments: with 512, a request of 126 \
           segments carries 63 KiB instead of 504 and may end inside a physical sector, also where the start is aligned. It is advice where \
           what is in the partition leaves the tail unused by its own header (swap of whole pages, most file systems), or the \
           partition is smaller than a physical sector (ChromeOS has some of one block) and holds nothing known, and \
           a warning where that writes it (md), cannot be opened with it (LUKS with 4096-byte sectors), is not known, or where the next partition begins in the same sector.",
    fix: "End the partition on a multiple of the physical sector. Shrinking by the odd tail (under one \
           physical sector) is safe for file systems with 4 KiB blocks, and for LUKS with sectors of 4096 bytes.",
    sources: &[
        "cryptsetup lib/utils_device.c",
        "Linux block/bdev.c: set_init_blocksize",
        "util-linux issues 417 and 2140",
        "util-linux commit 921c7da55 (2022): fdisk aligns the end of the last partition",
    ],
};

pub(super) const OFF_IO_MIN: Definition = Definition {
    code: Code::S003,
    severity: Severity::Warning,
    kind: Kind::Alignment,
    about: About::Placement,
    title: "start is off the minimum I/O size",
    what: "The start is on a physical sector, but not on a multiple of the device's minimum I/O size. It is advice where that \
           is a hint: of a virtual disk, a Ceph image or another device behind which no array is known, and of a thin pool, which \
           shows its chunk.",
    why: "minimum_io_size is the smallest request that the device serves without a penalty. It is larger \
          than the physical sector where the device is an array (the chunk) or maps in larger units. A chunk of dm-thin is what \
          is allocated and copied as one; writing a part of it reads nothing.",
    cost: "Requests that the file system takes to be whole units cover two of them in part: RAID members are \
           touched twice, an SSD reads and writes again what it maps.",
    fix: "Start on a multiple of it; 1 MiB usually is one.",
    sources: &[
        "Documentation/ABI/stable/sysfs-block, queue/minimum_io_size",
        "Linux block/blk-settings.c, blk_stack_limits",
        "Linux drivers/md/dm-thin.c, pool_io_hints",
        "Linux drivers/block/rbd.c, rbd_init_disk",
    ],
};

pub(super) const OFF_INDIRECTION_UNIT: Definition = Definition {
    code: Code::S004,
    severity: Severity::Warning,
    kind: Kind::Alignment,
    about: About::Placement,
    title: "start is off the SSD's indirection unit",
    what: "The start is not on a multiple of the unit in which the SSD maps addresses to flash.",
    why: "A drive that maps 16 KiB units must read a unit, change it and write it elsewhere for each write \
          that covers it only in part. NVMe reports the unit as NPWG, which the kernel exports as \
          minimum_io_size and not as physical_block_size: a tool that looks at the physical sector alone \
          sees nothing. NPWG is about the sizes of writes. A drive may report a smaller multiple on which they should \
          begin (NPWA): a start on that is advice.",
    cost: "Aligned 16 KiB database pages become two partial units each: twice the flash writes, and wear \
           with it. For writes smaller than the unit: (offset in the unit + length, rounded up to the unit) \
           / length.",
    fix: "Start on a multiple of the indirection unit (16 KiB to 64 KiB today); 1 MiB is one.",
    sources: &[
        "NVM Express NVM Command Set specification, Identify Namespace, NPWG and NPWA",
        "FreeBSD commit e3bcd07d834d (Samsung 980: NPWA 4 KiB, NPWG 16 KiB)",
        "Linux drivers/nvme/host/core.c, nvme_update_disk_info",
    ],
};

pub(super) const OFF_STRIPE: Definition = Definition {
    code: Code::S005,
    severity: Severity::Warning,
    kind: Kind::Alignment,
    about: About::Placement,
    title: "start is off the RAID chunk or stripe",
    what: "The start is not on a multiple of the array's chunk (what one member holds before the next \
           follows) or of its full stripe. An array is known by md, by the tables of device mapper, or by a SCSI disk's I/O sizes.",
    why: "Writes that the file system lays out as whole chunks or stripes then cover two in part. RAID 5 and \
          6 must read the rest of a partly written stripe to compute its parity.",
    cost: "Depends on the array and the workload, and is highest for streams of full-stripe writes: each then needs the reads \
           that whole stripes avoid.",
    fix: "Start on a multiple of the full stripe (chunk times data members), which need not be a power of \
           two.",
    sources: &[
        "Linux drivers/md/raid5.c, raid5_set_limits (io_min is the chunk, io_opt the stripe)",
        "mdadm(8)",
    ],
};

pub(super) const OFF_IO_OPT: Definition = Definition {
    code: Code::S006,
    severity: Severity::Advice,
    kind: Kind::Alignment,
    about: About::Placement,
    title: "start is off the optimal I/O size",
    what: "The start is aligned to the physical sector, but not to a multiple of the device's optimal I/O \
           size.",
    why: "optimal_io_size is a hint: a hardware RAID's stripe, or simply the largest transfer that a \
          controller likes. parted's \"optimal\" alignment follows it.",
    cost: "Nothing on a single disk; on a hardware RAID what S005 says.",
    fix: "Start on a multiple of it if the device is an array.",
    sources: &[
        "Documentation/ABI/stable/sysfs-block, queue/optimal_io_size",
        "parted libparted/arch/linux.c, linux_get_optimum_alignment",
    ],
};

pub(super) const OFF_ERASE_BLOCK: Definition = Definition {
    code: Code::S007,
    severity: Severity::Advice,
    kind: Kind::Alignment,
    about: About::Placement,
    title: "start is off the erase block",
    what: "The start is not on a multiple of the flash erase block.",
    why: "Flash is erased in blocks of some MiB. SD cards and eMMC with simple controllers copy a whole \
          block when a write covers part of it; SSDs remap and hardly care.",
    cost: "On cards: slower writes and wear where the file system's first structures share an erase block \
           with the table. On SSDs: nothing measurable.",
    fix: "Start on a multiple of the erase block; 4 MiB covers most.",
    sources: &["Linux Documentation/ABI, mmc preferred_erase_size", "flashbench, Arnd Bergmann"],
};

pub(super) const OFF_GRAIN: Definition = Definition {
    code: Code::S008,
    severity: Severity::Advice,
    kind: Kind::Alignment,
    about: About::Placement,
    title: "start is not on the 1 MiB grain",
    what: "The start is aligned to every boundary that the device has, but not on a multiple of 1 MiB.",
    why: "1 MiB is the grain of all current partitioning tools. It is a round number that every physical \
          sector, indirection unit and most stripes divide; it is not a property of the drive. parted says \"not \
          properly aligned for best performance\" of such a start, although sector 40 is as good as sector \
          2048 for a 512e disk.",
    cost: "Nothing, unless the disk is later copied to a device with larger units.",
    fix: "None needed. For a new table: start at 1 MiB.",
    sources: &["parted libparted/arch/linux.c, PED_DEFAULT_ALIGNMENT", "util-linux libfdisk/src/alignment.c"],
};

pub(super) const ATOMIC_LOST: Definition = Definition {
    code: Code::S009,
    severity: Severity::Warning,
    kind: Kind::Alignment,
    about: About::Placement,
    title: "atomic writes are lost because of the start",
    what: "The device can write several sectors atomically, but not in this partition.",
    why: "The kernel offers atomic writes on a partition only if it starts on a multiple of the larger of \
          the atomic write unit and boundary. If not, statx reports no atomic writes and RWF_ATOMIC fails; \
          nothing says why.",
    cost: "Databases that would do without their double write (MySQL, PostgreSQL full-page writes) cannot.",
    fix: "Start on a multiple of that size; 1 MiB usually is one.",
    sources: &[
        "Linux include/linux/blkdev.h, bdev_can_atomic_write (6.11 and later)",
        "Documentation/ABI/stable/sysfs-block, atomic_write_unit_min_bytes",
    ],
};

pub(super) const DOS_START: Definition = Definition {
    code: Code::S010,
    severity: Severity::Advice,
    kind: Kind::Alignment,
    about: About::Placement,
    title: "start at sector 63",
    what: "The partition starts at sector 63.",
    why: "DOS and tools that imitated it began the first partition on the second track, and a track had 63 \
          sectors on paper: the habit of fdisk to util-linux 2.17, of Windows XP, and of old installers and \
          images. Sector 63 is at byte 32256, 3584 bytes past a 4096-byte boundary.",
    cost: "What S001 says, on a drive with 4096-byte sectors; nothing on 512n, or on a drive whose firmware \
           offset makes sector 63 the aligned one.",
    fix: "See S001. Once partitioned so, fdisk does not correct later partitions by itself.",
    sources: &["util-linux 2.18 release notes", "Documentation of fdisk(8), DOS-compatible mode"],
};
