//! S00x: where partitions start and end.

use super::Definition;

pub(super) const START_STRADDLES: Definition = Definition {
    title: "start straddles a physical sector",
    what: "The partition does not start on a physical sector boundary, and no layer in it compensates for \
           that. The finding is only a warning if the drive's sector size is in doubt. One doubtful case is \
           an ATA hard disk of 160 GB or more that reports 512-byte physical sectors and has a partition at \
           sector 63. Many disks sold from 2010 to 2013 reported 512-byte sectors but had 4096-byte ones, \
           and not all of these models are known. straddle probe measures the sector size, and --assume \
           declares it. The finding is also only a warning if physical sectors are larger than 4 KiB. With \
           such sectors, a 4 KiB write is a read-modify-write at any offset. Misalignment therefore slows \
           down only larger writes, as with the indirection unit (S004).",
    why: "File systems write 4 KiB blocks, laid out from the partition's start. If the partition starts \
          inside a physical sector, every block straddles two sectors. A drive can write only whole sectors, \
          so for each block it must read both sectors, modify part of each, and write both back. The check \
          takes the device's alignment offset into account, so LBA 0 need not be at the start of a physical \
          sector. If the kernel reports a misaligned start, LVM and cryptsetup shift their data to \
          compensate. If this shift aligns all data, S056 is reported instead of S001.",
    cost: "In published tests on 5400 and 7200 rpm 512e disks, small writes took about 3 times as long. In \
           the worst case, small writes took 62 times as long (4 KiB writes at intervals of 16 KiB on a \
           WD20EARS took 1217 s instead of 19.5 s). Extracting a source tree took 1.04 to 25.5 times as \
           long, depending on the drive and the file system. Reads took 0.94 to 1.25 times as long on most \
           drives. On a Seagate ST2000DL003, whose SmartAlign firmware probably logs partial sectors, reads \
           took up to 8.5 times as long. Misalignment costs nothing in partitions that only an installer \
           writes to, so the finding is only advice for them. Only an installer writes to BIOS boot, FreeBSD \
           boot, PReP, Microsoft reserved and EFI partitions. ISO 9660, squashfs and the FAT file system \
           that a board's firmware boots from are also written only by an installer. The finding is also \
           only advice for partitions that are smaller than a physical sector and have unknown contents.",
    fix: "Start the partition at a multiple of the physical sector; 1 MiB (512-byte sector 2048) suits all \
          drives. To move an existing partition with its data, use straddle realign. If there is no room to \
          move the partition, shrink its contents first, or copy the disk to another one (straddle realign \
          --to).",
    sources: &[
        "Linux block/blk-settings.c, queue_limit_alignment_offset",
        "Documentation/ABI/stable/sysfs-block, alignment_offset",
        "blog.des.no, 2010-08: 4 KiB writes on WD20EARS aligned and not",
        "R. W. Smith, Linux on 4 KB sector disks: Practical advice (2014): trees and reads on three drives",
    ],
};

pub(super) const END_STRADDLES: Definition = Definition {
    title: "end is not on a physical sector boundary",
    what: "The partition's size is not a whole number of physical sectors, so its last bytes (the tail) \
           share a physical sector with what follows. If physical sectors are larger than 4 KiB, the size \
           need only be a whole number of 4 KiB blocks.",
    why: "Tools that use all unallocated space end the partition at the last usable sector. On a GPT disk, \
          the last usable sector is the 34th from the end, which is rarely the last logical sector of a \
          physical sector.",
    cost: "File systems with 4 KiB blocks do not use the tail, so they lose nothing. LUKS with 4096-byte \
           sectors does not use the tail, but cannot be opened on a partition that has a tail (\"Device size \
           is not aligned to requested sector size\"). If a LUKS partition has been grown and now has a \
           tail, shrink it again. A write to the tail is a read-modify-write of a sector shared with the \
           next partition. If a partition's size is not a multiple of 4 KiB, Linux uses 512, 1024 or \
           2048-byte blocks until a file system is mounted. When mkfs, dd or a database writes to the \
           partition through the page cache, its requests consist of smaller segments. With 512-byte blocks, \
           a request of 126 segments carries 63 KiB instead of 504 KiB. Such a request may end inside a \
           physical sector even if its start is aligned. The finding is only advice if the partition is \
           empty or, according to a header, its contents do not use the tail. Most file systems, and swap \
           areas of whole pages, leave the tail unused. The finding is also advice if the partition is \
           smaller than a physical sector (ChromeOS has one-block partitions) and its contents are unknown. \
           The finding is a warning if the contents are unknown, or if the next partition starts in the same \
           sector. The finding is also a warning if the contents use the tail (md) or cannot be opened \
           because of it (LUKS with 4096-byte sectors).",
    fix: "End the partition at a multiple of the physical sector. Cutting off the tail (less than a physical \
          sector) is safe for file systems with 4 KiB blocks and for LUKS with 4096-byte sectors.",
    sources: &[
        "cryptsetup lib/utils_device.c",
        "Linux block/bdev.c: set_init_blocksize",
        "util-linux issues 417 and 2140",
        "util-linux commit 921c7da55 (2022): fdisk aligns the end of the last partition",
    ],
};

pub(super) const OFF_IO_MIN: Definition = Definition {
    title: "start is not aligned to the minimum I/O size",
    what: "The start is on a physical sector boundary, but not at a multiple of the device's minimum I/O \
           size. The finding is only advice if the minimum I/O size is just a hint. The minimum I/O size is \
           just a hint on virtual disks, Ceph images and other devices that are not known to be arrays. Thin \
           pools report their chunk size, which is also just a hint.",
    why: "minimum_io_size is the smallest request that the device handles without a penalty. The minimum I/O \
          size is larger than the physical sector if the device is an array (which reports its chunk) or \
          maps addresses in larger units. dm-thin allocates and copies whole chunks, but writing part of a \
          chunk causes no read.",
    cost: "A request meant to cover one unit covers parts of two. A RAID then has to access two members \
           (see S005 for figures), and an SSD has to read and rewrite two units.",
    fix: "Start at a multiple of that size; 1 MiB usually works.",
    sources: &[
        "Documentation/ABI/stable/sysfs-block, queue/minimum_io_size",
        "Linux block/blk-settings.c, blk_stack_limits",
        "Linux drivers/md/dm-thin.c, pool_io_hints",
        "Linux drivers/block/rbd.c, rbd_init_disk",
    ],
};

pub(super) const OFF_INDIRECTION_UNIT: Definition = Definition {
    title: "start is not aligned to the SSD's indirection unit",
    what: "The start is not a multiple of the unit in which the SSD maps addresses to flash.",
    why: "For each write that covers only part of a unit, the drive must read the unit, modify it and write \
          it elsewhere. NVMe reports the unit as NPWG, which the kernel exports as minimum_io_size rather \
          than physical_block_size. Tools that look only at the physical sector therefore do not see the \
          indirection unit. NPWG is the preferred write granularity. The drive's preferred write alignment \
          (NPWA) may be smaller than NPWG. If the start is aligned to NPWA, the finding is only advice.",
    cost: "With 16 KiB units, each misaligned 16 KiB database page covers parts of two units, which doubles \
           flash writes and wear. For writes smaller than the unit, the write amplification is (offset in \
           the unit + length, rounded up to the unit) / length.",
    fix: "Start at a multiple of the indirection unit (16 to 64 KiB today), such as 1 MiB.",
    sources: &[
        "NVM Express NVM Command Set specification, Identify Namespace, NPWG and NPWA",
        "FreeBSD commit e3bcd07d834d (Samsung 980: NPWA 4 KiB, NPWG 16 KiB)",
        "Linux drivers/nvme/host/core.c, nvme_update_disk_info",
    ],
};

pub(super) const OFF_STRIPE: Definition = Definition {
    title: "start is not aligned to the RAID chunk or stripe",
    what: "The start is not a multiple of the array's chunk or of its full stripe. The chunk is the amount \
           of data that the array stores on one member before it continues on the next. straddle recognises \
           arrays from md, device-mapper tables, or a SCSI disk's I/O sizes.",
    why: "A write meant to cover a whole chunk or stripe then covers parts of two. RAID 5 and 6 must read \
          the rest of a partly written stripe to compute its parity.",
    cost: "The cost depends on the array and the workload. Smith (2014) quotes published tests that show a \
           difference of 5 to 30 %. The lab modelled four disks under md with 64 KiB chunks and a start at \
           sector 63 (straddle reproduce arrays). Random 64 KiB writes took 1.4 times (RAID 5) to 2.0 times \
           (RAID 0) as long, and 64 KiB reads took 1.4 to 1.6 times as long. Sequential writes took 1.3 \
           times as long on RAID 5, 1.7 times as long on RAID 6, and the same time on RAID 0 and 10. Random \
           4 KiB writes took 1.0 to 1.4 times as long, and extracting a tarball on ext4 took 0.9 to 1.1 \
           times as long.",
    fix: "Start at a multiple of the full stripe (chunk times number of data members), which need not be a \
          power of two.",
    sources: &[
        "Linux drivers/md/raid5.c, raid5_set_limits (io_min is the chunk, io_opt the stripe)",
        "mdadm(8)",
        "R. W. Smith, Linux on 4 KB sector disks: Practical advice (2014): RAID and SSD alignment",
    ],
};

pub(super) const OFF_IO_OPT: Definition = Definition {
    title: "start is not aligned to the optimal I/O size",
    what: "The start is aligned to the physical sector, but is not a multiple of the device's optimal I/O \
           size.",
    why: "optimal_io_size is a hint. The hint may be a hardware RAID's stripe, or just the largest transfer \
          that a controller prefers. parted's \"optimal\" alignment uses it.",
    cost: "Nothing on a single disk; on a hardware RAID, the same as S005.",
    fix: "If the device is an array, start at a multiple of that size.",
    sources: &[
        "Documentation/ABI/stable/sysfs-block, queue/optimal_io_size",
        "parted libparted/arch/linux.c, linux_get_optimum_alignment",
    ],
};

pub(super) const OFF_ERASE_BLOCK: Definition = Definition {
    title: "start is not aligned to the erase block",
    what: "The start is not a multiple of the flash erase block.",
    why: "Flash is erased in blocks of several MiB. SD cards and eMMC with simple controllers copy a whole \
          erase block when a write covers only part of it. SSDs remap addresses, so their erase block should \
          hardly matter.",
    cost: "On cards, writes are slower and wear is higher if the file system's first structures share an \
           erase block with the table. No published figure for SSDs is known, but Smith (2014) recommends \
           aligning to the erase block on SSDs too.",
    fix: "Start at a multiple of the erase block; 4 MiB suits most devices.",
    sources: &[
        "Linux Documentation/ABI, mmc preferred_erase_size",
        "flashbench, Arnd Bergmann",
        "R. W. Smith, Linux on 4 KB sector disks: Practical advice (2014): RAID and SSD alignment",
    ],
};

pub(super) const OFF_GRAIN: Definition = Definition {
    title: "start is not on the 1 MiB grain",
    what: "The start is aligned to every boundary of the device, but is not a multiple of 1 MiB.",
    why: "All current partitioning tools align to 1 MiB. 1 MiB is a multiple of every physical sector, every \
          indirection unit and most stripes, but it is not a property of the drive. parted calls such a \
          start \"not properly aligned for best performance\", although sector 40 is as good as sector 2048 \
          on a 512e disk.",
    cost: "Nothing, unless the disk is later copied to a device with larger units.",
    fix: "None needed. In a new table, start partitions at multiples of 1 MiB.",
    sources: &["parted libparted/arch/linux.c, PED_DEFAULT_ALIGNMENT", "util-linux libfdisk/src/alignment.c"],
};

pub(super) const ATOMIC_LOST: Definition = Definition {
    title: "start disables atomic writes",
    what: "The device supports atomic writes of several sectors, but the partition's start disables them.",
    why: "The kernel offers atomic writes on a partition only if its start is a multiple of the atomic write \
          unit or boundary, whichever is larger. On other partitions, statx reports no support for atomic \
          writes, RWF_ATOMIC fails, and nothing is logged.",
    cost: "Databases must keep their protection against torn pages enabled (MySQL's doublewrite, \
           PostgreSQL's full-page writes).",
    fix: "Start at a multiple of the atomic write unit or boundary, whichever is larger; 1 MiB usually \
          works.",
    sources: &[
        "Linux include/linux/blkdev.h, bdev_can_atomic_write (6.11 and later)",
        "Documentation/ABI/stable/sysfs-block, atomic_write_unit_min_bytes",
    ],
};

pub(super) const DOS_START: Definition = Definition {
    title: "start at sector 63",
    what: "The partition starts at sector 63.",
    why: "DOS started the first partition on the second track, and a track nominally had 63 sectors. Up to \
          util-linux 2.17, fdisk also started the first partition at sector 63, as did Windows XP and old \
          installers. Sector 63 is at byte 32256, 3584 bytes past a 4096-byte boundary.",
    cost: "The same as S001 on a drive with 4096-byte sectors; nothing on a 512n drive, or on one whose \
           alignment offset aligns sector 63.",
    fix: "See S001. On a disk with such a partition, fdisk does not align later partitions automatically.",
    sources: &["util-linux 2.18 release notes", "Documentation of fdisk(8), DOS-compatible mode"],
};
