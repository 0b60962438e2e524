//! The rules: code, severity, and what `straddle explain` tells of each.
//!
//! A code is for life. New rules take new numbers: S00x placement, S02x the device, S03x and S04x the table,
//! S05x and S06x layers and file systems, S07x image containers, S08x the running kernel.

use crate::finding::{About, Kind, Rule, Severity};

/// Each rule as a static of its own, and the list of all of them.
macro_rules! rules {
    ($(pub(crate) static $name:ident: Rule = Rule { $($body:tt)* };)*) => {
        $(pub(crate) static $name: Rule = Rule { $($body)* };)*

        /// Every rule, in order of code.
        pub static RULES: &[&Rule] = &[$(&$name),*];
    };
}

rules! {

pub(crate) static START_STRADDLES: Rule = Rule {
    code: "S001",
    severity: Severity::Error,
    kind: Kind::Alignment,
    about: About::Placement,
    title: "start straddles a physical sector",
    what: "The partition's first byte is not the first byte of a physical sector, and what is written in it is not \
           aligned either.",
    why: "File systems write blocks of 4 KiB, counted from the partition's start. When that start lies \
          inside a physical sector, every block has one part in one sector and the rest in the next. A drive \
          can only write whole sectors, so for each block it must read both, change a part of each, and \
          write both back. The start is compared with the device's alignment offset, so a drive whose first \
          address lies inside a physical sector is judged rightly. LVM and cryptsetup make up for a start that \
          the kernel calls misaligned; where all data on it is aligned again, that is S056.",
    cost: "Nothing, and it is advice, where nothing is written but by an installer: BIOS boot, FreeBSD boot, PReP, Microsoft reserved and \
           EFI partitions, the FAT that a board's firmware boots from, ISO 9660 and squashfs, a partition that is smaller \
           than a physical sector and holds nothing known. Small writes: published tests show about 3 times the time on 5400 and 7200 rpm 512e disks, 62 \
           times in the worst one (WD20EARS, 4 KiB writes at every 16 KiB: 19.5 s against 1216 s). Reads \
           cost little.",
    cure: "Start the partition on a multiple of the physical sector; 1 MiB (sector 2048 of 512 bytes) suits \
           all drives. For an existing partition the data has to move with the start (sfdisk --move-data); one that has no room \
           to move is shrunk first: its file system, then its entry.",
    sources: &[
        "Linux block/blk-settings.c, queue_limit_alignment_offset",
        "Documentation/ABI/stable/sysfs-block, alignment_offset",
        "blog.des.no, 2010-08: 4 KiB writes on WD20EARS aligned and not",
    ],
};

pub(crate) static END_STRADDLES: Rule = Rule {
    code: "S002",
    severity: Severity::Warning,
    kind: Kind::Alignment,
    about: About::Placement,
    title: "end is not on a physical sector boundary",
    what: "The partition's size is not a whole number of physical sectors: its last bytes share a physical \
           sector with what follows.",
    why: "Tools that take all free space end at the last usable sector. On a GPT disk that is 33 sectors \
          before the disk's last one, which is seldom the end of a physical sector.",
    cost: "File systems of 4 KiB blocks leave the tail unused and lose nothing. LUKS with 4096-byte sectors \
           never uses the tail, but is not opened on such a device (\"Device size is not aligned to requested sector size\"): \
           a partition that grew since it was made has to be cut again. Whoever \
           writes the tail pays a read-modify-write and shares a sector with the next partition. It is advice where \
           what is in the partition leaves the tail unused by its own header (swap of whole pages, most file systems), or the \
           partition is smaller than a physical sector (ChromeOS has some of one block) and holds nothing known, and \
           a warning where that writes it (md), cannot be opened with it (LUKS with 4096-byte sectors), is not known, or where the next partition begins in the same sector.",
    cure: "End the partition on a multiple of the physical sector. Shrinking by the odd tail (under one \
           physical sector) is safe for file systems with 4 KiB blocks, and for LUKS with sectors of 4096 bytes.",
    sources: &[
        "cryptsetup lib/utils_device.c",
        "util-linux issues 417 and 2140",
        "util-linux commit 921c7da55 (2022): fdisk aligns the end of the last partition",
    ],
};

pub(crate) static OFF_IO_MIN: Rule = Rule {
    code: "S003",
    severity: Severity::Warning,
    kind: Kind::Alignment,
    about: About::Placement,
    title: "start is off the minimum I/O size",
    what: "The start is on a physical sector, but not on a multiple of the device's minimum I/O size.",
    why: "minimum_io_size is the smallest request that the device serves without a penalty. It is larger \
          than the physical sector where the device is an array (the chunk) or maps in larger units.",
    cost: "Requests that the file system takes to be whole units cover two of them in part: RAID members are \
           touched twice, an SSD reads and writes again what it maps.",
    cure: "Start on a multiple of it; 1 MiB usually is one.",
    sources: &[
        "Documentation/ABI/stable/sysfs-block, queue/minimum_io_size",
        "Linux block/blk-settings.c, blk_stack_limits",
    ],
};

pub(crate) static OFF_INDIRECTION_UNIT: Rule = Rule {
    code: "S004",
    severity: Severity::Warning,
    kind: Kind::Alignment,
    about: About::Placement,
    title: "start is off the SSD's indirection unit",
    what: "The start is not on a multiple of the unit in which the SSD maps addresses to flash.",
    why: "A drive that maps 16 KiB units must read a unit, change it and write it elsewhere for each write \
          that covers it only in part. NVMe reports the unit as NPWG, which the kernel exports as \
          minimum_io_size and not as physical_block_size: a tool that looks at the physical sector alone \
          sees nothing.",
    cost: "Aligned 16 KiB database pages become two partial units each: twice the flash writes, and wear \
           with it. For writes smaller than the unit: (offset in the unit + length, rounded up to the unit) \
           / length.",
    cure: "Start on a multiple of the indirection unit (16 KiB to 64 KiB today); 1 MiB is one.",
    sources: &[
        "NVM Express NVM Command Set specification, Identify Namespace, NPWG and NPWA",
        "Linux drivers/nvme/host/core.c, nvme_update_disk_info",
    ],
};

pub(crate) static OFF_STRIPE: Rule = Rule {
    code: "S005",
    severity: Severity::Warning,
    kind: Kind::Alignment,
    about: About::Placement,
    title: "start is off the RAID chunk or stripe",
    what: "The start is not on a multiple of the array's chunk (what one member holds before the next \
           follows) or of its full stripe.",
    why: "Writes that the file system lays out as whole chunks or stripes then cover two in part. RAID 5 and \
          6 must read the rest of a partly written stripe to compute its parity.",
    cost: "5 % to 30 % in published tests of RAID 5 and 6; more for streams of full-stripe writes.",
    cure: "Start on a multiple of the full stripe (chunk times data members), which need not be a power of \
           two.",
    sources: &[
        "Linux drivers/md/raid5.c, raid5_set_limits (io_min is the chunk, io_opt the stripe)",
        "mdadm(8)",
    ],
};

pub(crate) static OFF_IO_OPT: Rule = Rule {
    code: "S006",
    severity: Severity::Advice,
    kind: Kind::Alignment,
    about: About::Placement,
    title: "start is off the optimal I/O size",
    what: "The start is aligned to the physical sector, but not to a multiple of the device's optimal I/O \
           size.",
    why: "optimal_io_size is a hint: a hardware RAID's stripe, or simply the largest transfer that a \
          controller likes. parted's \"optimal\" alignment follows it.",
    cost: "Nothing on a single disk; on a hardware RAID what S005 says.",
    cure: "Start on a multiple of it if the device is an array.",
    sources: &[
        "Documentation/ABI/stable/sysfs-block, queue/optimal_io_size",
        "parted libparted/arch/linux.c, linux_get_optimum_alignment",
    ],
};

pub(crate) static OFF_ERASE_BLOCK: Rule = Rule {
    code: "S007",
    severity: Severity::Advice,
    kind: Kind::Alignment,
    about: About::Placement,
    title: "start is off the erase block",
    what: "The start is not on a multiple of the flash erase block.",
    why: "Flash is erased in blocks of some MiB. SD cards and eMMC with simple controllers copy a whole \
          block when a write covers part of it; SSDs remap and hardly care.",
    cost: "On cards: slower writes and wear where the file system's first structures share an erase block \
           with the table. On SSDs: nothing measurable.",
    cure: "Start on a multiple of the erase block; 4 MiB covers most.",
    sources: &["Linux Documentation/ABI, mmc preferred_erase_size", "flashbench, Arnd Bergmann"],
};

pub(crate) static OFF_GRAIN: Rule = Rule {
    code: "S008",
    severity: Severity::Advice,
    kind: Kind::Alignment,
    about: About::Placement,
    title: "start is not on the 1 MiB grain",
    what: "The start is aligned to every boundary that the device has, but not on a multiple of 1 MiB.",
    why: "1 MiB is the grain of all current partitioning tools. It is a round number that every physical \
          sector, indirection unit and most stripes divide; it is no property of a drive. parted says \"not \
          properly aligned for best performance\" of such a start, although sector 40 is as good as sector \
          2048 for a 512e disk.",
    cost: "Nothing, unless the disk is later copied to a device with larger units.",
    cure: "None needed. For a new table: start at 1 MiB.",
    sources: &["parted libparted/arch/linux.c, PED_DEFAULT_ALIGNMENT", "util-linux libfdisk/src/alignment.c"],
};

pub(crate) static ATOMIC_LOST: Rule = Rule {
    code: "S009",
    severity: Severity::Warning,
    kind: Kind::Alignment,
    about: About::Placement,
    title: "atomic writes are lost because of the start",
    what: "The device can write several sectors atomically, but not in this partition.",
    why: "The kernel offers atomic writes on a partition only if it starts on a multiple of the larger of \
          the atomic write unit and boundary. If not, statx reports no atomic writes and RWF_ATOMIC fails; \
          nothing says why.",
    cost: "Databases that would do without their double write (MySQL, PostgreSQL full-page writes) cannot.",
    cure: "Start on a multiple of that size; 1 MiB usually is one.",
    sources: &[
        "Linux include/linux/blkdev.h, bdev_can_atomic_write (6.11 and later)",
        "Documentation/ABI/stable/sysfs-block, atomic_write_unit_min_bytes",
    ],
};

pub(crate) static DOS_START: Rule = Rule {
    code: "S010",
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
    cure: "See S001. Once partitioned so, fdisk does not correct later partitions by itself.",
    sources: &["util-linux 2.18 release notes", "Documentation of fdisk(8), DOS-compatible mode"],
};

pub(crate) static KERNEL_MISALIGNED: Rule = Rule {
    code: "S020",
    severity: Severity::Error,
    kind: Kind::Alignment,
    about: About::Device,
    title: "the kernel calls the device misaligned",
    what: "The kernel reports alignment_offset -1 for the device, or (Linux 6.12) what is left of offsets that disagree.",
    why: "Of a stacked device (md, device mapper) it means that members are at different distances from \
          their physical sectors, or that data begins off them: no start on it can be aligned for all. \
          libblkid turns -1 into 0, so parted, fdisk, mkfs.xfs and cryptsetup see nothing. The kernel says -1 \
          also where only an optimal I/O size below is no multiple of the physical sector; that is S021.",
    cost: "What S001 says, on at least one member. Devices that stand on a misaligned one inherit the -1: in a run over \
           several targets the lowest is reported, and lists them.",
    cure: "Align each member (check them), then build the stack anew on them.",
    sources: &["Linux block/blk-settings.c, blk_stack_limits", "util-linux libblkid/src/topology/topology.c"],
};

pub(crate) static BOGUS_IO_OPT: Rule = Rule {
    code: "S021",
    severity: Severity::Advice,
    kind: Kind::Device,
    about: About::Device,
    title: "the optimal I/O size cannot be true",
    what: "The device reports an optimal I/O size that no device has: 33553920 (65535 blocks of 512 bytes), what \
           becomes of it when it is rounded down to a larger sector (33550336), a multiple of 0xFFF000, or none \
           of the physical sector or the minimum I/O size.",
    why: "USB bridges fill the field with ones; some HBAs put their own transfer limit in it; md multiplies \
          what its members say. parted and LVM believe it. fdisk ignores 33553920, and what is no multiple \
          of the physical sector.",
    cost: "Partitions that parted makes by default start at sector 65535, an odd one: see S001.",
    cure: "Give starts in MiB, or align to the minimum (parted -a minimal).",
    sources: &[
        "Linux drivers/scsi/sd.c, sd_validate_opt_xfer_size",
        "Linux block/blk-settings.c, blk_validate_limits (6.11 and later round it down)",
        "util-linux commit bbb66067c (2020) and issue 1221",
        "Debian bug 1121006 (mpt3sas)",
    ],
};

pub(crate) static KNOWN_LIAR: Rule = Rule {
    code: "S022",
    severity: Severity::Advice,
    kind: Kind::Device,
    about: About::Device,
    title: "a drive known to misreport its sectors",
    what: "This model is known to have larger physical sectors than it reports.",
    why: "Early Advanced Format drives said 512/512 lest old systems stumble. The list of models, with a \
          source for each, is part of straddle; the figure it gives overrules the drive's.",
    cost: "Tools that trust the drive may start partitions anywhere: parted's minimal alignment accepts \
           every sector.",
    cure: "Give starts in MiB. In doubt treat every disk as having 4096-byte sectors: it never hurts.",
    sources: &["crates/device/src/quirks.toml, a source for each model"],
};

pub(crate) static FIRMWARE_OFFSET: Rule = Rule {
    code: "S023",
    severity: Severity::Advice,
    kind: Kind::Device,
    about: About::Device,
    title: "the drive's addresses are shifted",
    what: "The first physical sector boundary is not at byte 0.",
    why: "A jumper on early WD drives (pins 7 and 8, \"for Windows XP\") shifts every address by one sector, \
          so that LBA 63 becomes the first of a physical sector; some RAID firmware does the like. What is \
          aligned then is 3584 bytes off a multiple of 4096. A mapping, an array or a loop device has an offset \
          where what it stands on begins off a boundary.",
    cost: "Nothing by itself; but tools that do not read alignment_offset, and every image copied to the \
           disk, will be misaligned.",
    cure: "Of a drive: remove the jumper before partitioning anew. Of a stacked device: align what it is made of.",
    sources: &[
        "Documentation/ABI/stable/sysfs-block, alignment_offset",
        "ATA8-ACS, IDENTIFY DEVICE word 209",
    ],
};

pub(crate) static SOURCES_DISAGREE: Rule = Rule {
    code: "S024",
    severity: Severity::Advice,
    kind: Kind::Device,
    about: About::Device,
    title: "sources disagree about the physical sector",
    what: "The drive's own answer and the kernel's figure differ.",
    why: "USB bridges and RAID controllers often pass on another figure than the drive's, or none. The \
          larger one is used: aligning to it is right for both.",
    cost: "Nothing by itself; tools that only read the kernel's figure may misalign.",
    cure: "Give starts in MiB.",
    sources: &["ATA8-ACS, IDENTIFY DEVICE word 106", "SBC-4, READ CAPACITY (16)"],
};

pub(crate) static FASTER_FORMAT: Rule = Rule {
    code: "S025",
    severity: Severity::Advice,
    kind: Kind::Device,
    about: About::Device,
    title: "the drive has a faster sector format",
    what: "The NVMe namespace is formatted with sectors of one size, and says that it is faster with another.",
    why: "A namespace lists the sector sizes that it can be formatted to, each with its relative performance (best, \
          better, good, degraded). Many are shipped with 512-byte sectors for old systems and do better with 4096.",
    cost: "What the drive's maker means by it; measure it, if it matters.",
    cure: "With a backup, or before anything is on it: nvme format --lbaf=N. IT DESTROYS EVERYTHING ON THE NAMESPACE.",
    sources: &[
        "NVM Express NVM Command Set Specification, LBA Format Data Structure, Relative Performance",
        "nvme-format(1)",
    ],
};

pub(crate) static OTHER_SECTOR_SIZE: Rule = Rule {
    code: "S030",
    severity: Severity::Error,
    kind: Kind::Table,
    about: About::Table,
    title: "table written for another logical sector size",
    what: "The partition table counts in sectors of another size than the device has now.",
    why: "Some USB enclosures show a 512-byte drive as one with 4096-byte sectors, some controllers the \
          reverse. The GPT header stands in the second sector, so with the other size it is not found; an \
          MBR is found, but every number in it means eight times more or less.",
    cost: "The partitions are invisible or at the wrong place: data seems lost, and is overwritten when \
           somebody \"repairs\" it.",
    cure: "Connect the drive as it was when it was partitioned, or have the table rewritten in place (straddle plan --convert-table), or copy the data off and make a new table.",
    sources: &[
        "UEFI specification 2.10, section 5.3",
        "parted and util-linux issue trackers: disks moved out of enclosures",
    ],
};

pub(crate) static GPT_PRIMARY_DAMAGED: Rule = Rule {
    code: "S031",
    severity: Severity::Error,
    kind: Kind::Table,
    about: About::Table,
    title: "the primary GPT is damaged",
    what: "The primary GPT header or its entries fail their checks; the backup at the disk's end is good.",
    why: "Boot loaders, imaging tools or a table made for another sector size wrote over the first sectors.",
    cost: "The kernel boots from the backup only with the parameter gpt; firmware may not find the ESP.",
    cure: "Write the primary anew from the backup.",
    sources: &["UEFI specification 2.10, section 5.3.2", "Linux block/partitions/efi.c"],
};

pub(crate) static GPT_BACKUP_DAMAGED: Rule = Rule {
    code: "S032",
    severity: Severity::Warning,
    kind: Kind::Table,
    about: About::Table,
    title: "the backup GPT is damaged or missing",
    what: "The primary GPT is good, the backup is not.",
    why: "The end of the disk was overwritten (old RAID metadata, a shorter copy), or never written.",
    cost: "Nothing until the primary is damaged as well.",
    cure: "Write the backup anew from the primary.",
    sources: &["UEFI specification 2.10, section 5.3.2"],
};

pub(crate) static GPT_UNUSABLE: Rule = Rule {
    code: "S033",
    severity: Severity::Error,
    kind: Kind::Table,
    about: About::Table,
    title: "no usable GPT",
    what: "The disk announces a GPT, but neither copy passes its checks.",
    why: "Both were overwritten, or the image is cut off.",
    cost: "No tool sees any partition.",
    cure: "Restore the table from a backup, or search for the partitions' contents.",
    sources: &["UEFI specification 2.10, section 5.3.2"],
};

pub(crate) static GPT_BACKUP_MISPLACED: Rule = Rule {
    code: "S034",
    severity: Severity::Warning,
    kind: Kind::Table,
    about: About::Table,
    title: "the backup GPT is not at the end",
    what: "The backup GPT is good, but not in the disk's last block.",
    why: "The disk or image has grown: a cloud volume was enlarged, an image written to a larger disk.",
    cost: "The space behind it cannot be used, and the backup is not found if the primary is lost.",
    cure: "Move it to the end.",
    sources: &["UEFI specification 2.10, section 5.3.1"],
};

pub(crate) static GPT_PAST_END: Rule = Rule {
    code: "S035",
    severity: Severity::Error,
    kind: Kind::Table,
    about: About::Table,
    title: "the GPT is for a larger disk",
    what: "By its GPT the disk would be larger than it is.",
    why: "The image was cut off, or copied to a smaller disk.",
    cost: "What lies past the end is lost; the backup GPT with it.",
    cure: "Copy it again, whole.",
    sources: &["UEFI specification 2.10, section 5.3.2"],
};

pub(crate) static GPT_COPIES_DIFFER: Rule = Rule {
    code: "S036",
    severity: Severity::Warning,
    kind: Kind::Table,
    about: About::Table,
    title: "the two GPTs list different partitions",
    what: "Primary and backup both pass their checks, but their entries differ.",
    why: "A tool was interrupted between writing one and the other, or knows only one.",
    cost: "Nothing until one of them is used in place of the other; then partitions appear or vanish.",
    cure: "Decide which is right (the primary is used), and write the other from it.",
    sources: &["UEFI specification 2.10, section 5.3.2"],
};

pub(crate) static PROTECTIVE_MBR: Rule = Rule {
    code: "S037",
    severity: Severity::Warning,
    kind: Kind::Table,
    about: About::Table,
    title: "protective MBR and GPT do not belong together",
    what: "There is a protective MBR without a GPT, or a GPT without a protective MBR.",
    why: "One of them was overwritten: by wipefs, dd, or a boot loader.",
    cost: "The kernel reads a GPT only behind a protective MBR; without the GPT the disk seems full of one \
           unknown partition.",
    cure: "Restore the one that is missing.",
    sources: &["UEFI specification 2.10, section 5.2.3", "Linux block/partitions/efi.c, is_pmbr_valid"],
};

pub(crate) static EBR_DAMAGED: Rule = Rule {
    code: "S040",
    severity: Severity::Error,
    kind: Kind::Table,
    about: About::Table,
    title: "the chain of logical partitions is broken",
    what: "An extended boot record links back, or out of the extended partition, or is none.",
    why: "Logical partitions form a linked list over the disk; one overwritten sector cuts it.",
    cost: "The partitions behind the break are not seen, or another set by each tool.",
    cure: "Restore the record (testdisk finds the partitions), or move to GPT.",
    sources: &["Linux block/partitions/msdos.c, parse_extended"],
};

pub(crate) static OVERLAP: Rule = Rule {
    code: "S041",
    severity: Severity::Error,
    kind: Kind::Table,
    about: About::Table,
    title: "partitions overlap",
    what: "Two partitions share blocks.",
    why: "A table edited by hand, or tools that count in different units.",
    cost: "Writing to one destroys the other.",
    cure: "Find out which is in use, and correct the other.",
    sources: &["UEFI specification 2.10, section 5.3.3"],
};

pub(crate) static OUT_OF_RANGE: Rule = Rule {
    code: "S042",
    severity: Severity::Error,
    kind: Kind::Table,
    about: About::Table,
    title: "partition reaches past the disk's end",
    what: "A partition ends, or lies, behind the last block.",
    why: "The image was cut off, or copied to a smaller disk.",
    cost: "The kernel cuts the partition or drops it; the file system in it refuses to mount or fails later.",
    cure: "Copy it again, whole; or shrink file system and partition.",
    sources: &["Linux block/partitions/core.c, blk_add_partition"],
};

pub(crate) static BAD_ENTRY: Rule = Rule {
    code: "S043",
    severity: Severity::Warning,
    kind: Kind::Table,
    about: About::Table,
    title: "a partition entry cannot be used",
    what: "An entry ends before it starts, or cannot be counted in 64 bits.",
    why: "Damage that the checksum does not show, or a faulty tool.",
    cost: "The partition is not listed.",
    cure: "Delete or correct the entry.",
    sources: &["UEFI specification 2.10, section 5.3.3"],
};

pub(crate) static TOO_MANY: Rule = Rule {
    code: "S044",
    severity: Severity::Warning,
    kind: Kind::Table,
    about: About::Table,
    title: "more partitions than are listed",
    what: "The table holds more partitions than this audit lists.",
    why: "No real disk has so many; Linux itself stops at 256.",
    cost: "Those not listed are not audited.",
    cure: "Look at the table by hand.",
    sources: &["Linux include/linux/blkdev.h, DISK_MAX_PARTS"],
};

pub(crate) static MBR_REACH: Rule = Rule {
    code: "S045",
    severity: Severity::Warning,
    kind: Kind::Table,
    about: About::Table,
    title: "the MBR cannot reach the disk's end",
    what: "The disk is larger than an MBR can address.",
    why: "MBR entries count sectors in 32 bits: 2 TiB with 512-byte sectors, 16 TiB with 4096-byte ones.",
    cost: "The space behind cannot be used.",
    cure: "Use a GPT.",
    sources: &["Linux block/partitions/msdos.c"],
};

pub(crate) static PAST_2_32: Rule = Rule {
    code: "S046",
    severity: Severity::Warning,
    kind: Kind::Table,
    about: About::Table,
    title: "partition passes sector 2^32",
    what: "An MBR partition starts before sector 2^32 and ends after it.",
    why: "Start and size are 32-bit numbers each, so their sum can be more; some systems compute the end in \
          32 bits.",
    cost: "Linux reads it; others see a shorter partition, or wrap to the disk's start when writing.",
    cure: "Use a GPT.",
    sources: &["Linux block/partitions/msdos.c"],
};

pub(crate) static MD_DATA_STRADDLES: Rule = Rule {
    code: "S050",
    severity: Severity::Error,
    kind: Kind::Alignment,
    about: About::Layer,
    title: "RAID member's data starts inside a physical sector",
    what: "The data offset of a Linux software RAID member does not fall on a physical sector of the disk.",
    why: "The array's byte 0 is at the member's data offset. Offsets that are no multiple of the sector come \
          from --data-offset given in sectors, from mdadm before 3.2 (136 or 272 sectors), or from bitmaps \
          moved by hand.",
    cost: "Every block of whatever is on the array lies across two sectors of this member: see S001.",
    cure: "Make the array anew with --data-offset; or remove the member, and add it again once the others \
           are right.",
    sources: &[
        "mdadm super1.c, validate_geometry1 and data_offset",
        "Linux include/uapi/linux/raid/md_p.h, struct mdp_superblock_1",
    ],
};

pub(crate) static PV_DATA_STRADDLES: Rule = Rule {
    code: "S051",
    severity: Severity::Error,
    kind: Kind::Alignment,
    about: About::Layer,
    title: "LVM data starts inside a physical sector",
    what: "The first physical extent of an LVM physical volume (pe_start) does not fall on a physical sector \
           of the disk.",
    why: "All extents, and so all logical volumes, are counted from pe_start. LVM before 2.02.73 used 192 \
          KiB and odd alignments could be asked for; pvcreate follows what the device reports, which may be \
          wrong.",
    cost: "Every block on every logical volume lies across two sectors: see S001.",
    cure: "pvcreate --dataalignment 1m, with the data restored; or move the extents to a good PV (pvmove).",
    sources: &[
        "LVM2 lib/format_text/layout.h, struct pv_header",
        "LVM2 lib/metadata/metadata.c, set_pe_align",
    ],
};

pub(crate) static LV_SEGMENT_STRADDLES: Rule = Rule {
    code: "S052",
    severity: Severity::Error,
    kind: Kind::Alignment,
    about: About::Layer,
    title: "a logical volume's segment is shifted",
    what: "A segment of a logical volume starts at a place where its blocks fall inside physical sectors, \
           though the physical volume's data is aligned.",
    why: "Extents of a size that is no multiple of the physical sector (vgcreate -s 1k) put segments \
          anywhere. In a concatenation each segment counts from the end of the one before: the kernel \
          compares only the segments' starts on their devices and reports alignment offset 0.",
    cost: "Blocks in that segment lie across two sectors: see S001.",
    cure: "Use extents of 4 MiB; move the volume (pvmove) after that.",
    sources: &[
        "Linux drivers/md/dm-table.c, dm_calculate_queue_limits",
        "LVM2 metadata text, segment start_extent",
    ],
};

pub(crate) static LUKS_PAYLOAD_STRADDLES: Rule = Rule {
    code: "S053",
    severity: Severity::Error,
    kind: Kind::Alignment,
    about: About::Layer,
    title: "LUKS payload starts inside a physical sector",
    what: "The encrypted payload of a LUKS container does not fall on a physical sector of the disk.",
    why: "The payload follows the header and key slots. Old cryptsetup put it at 1032 or 2056 sectors of 512 \
          bytes, or where --align-payload said.",
    cost: "Every block in the container lies across two sectors: see S001.",
    cure: "cryptsetup luksFormat --align-payload 2048 (LUKS1) or --offset 32768 (LUKS2), with the data \
           restored; or cryptsetup reencrypt.",
    sources: &[
        "LUKS1 on-disk format specification, payload-offset",
        "LUKS2 on-disk format specification, segments",
    ],
};

pub(crate) static PAYLOAD_STRADDLES: Rule = Rule {
    code: "S054",
    severity: Severity::Error,
    kind: Kind::Alignment,
    about: About::Layer,
    title: "a mapping's payload starts inside a physical sector",
    what: "What a mapping (bcache, dm-integrity, a nested partition table, …) provides does not fall on a \
           physical sector of the disk.",
    why: "Its header and the offset of its data add up with those of all layers below.",
    cost: "Every block in it lies across two sectors: see S001.",
    cure: "Make the mapping anew with an aligned data offset.",
    sources: &["Linux drivers/md/bcache/bcache_ondisk.h", "Linux drivers/md/dm-integrity.c"],
};

pub(crate) static LAYER_OFF_UNIT: Rule = Rule {
    code: "S055",
    severity: Severity::Warning,
    kind: Kind::Alignment,
    about: About::Layer,
    title: "a layer's data is off a larger unit",
    what: "A layer's data is on a physical sector, but off the indirection unit, minimum I/O or stripe of \
           the device.",
    why: "Each layer adds its own offset; 1 MiB everywhere suits units that are powers of two, stripes of \
          three data disks it does not.",
    cost: "What S003, S004 and S005 say of partitions.",
    cure: "Align that layer's data to the unit.",
    sources: &["Linux block/blk-settings.c, blk_stack_limits"],
};

pub(crate) static LAYERS_CANCEL: Rule = Rule {
    code: "S056",
    severity: Severity::Advice,
    kind: Kind::Alignment,
    about: About::Layer,
    title: "two layers that are off make up for each other",
    what: "A layer below is off a physical sector, and the offset of this one's data brings it back.",
    why: "Tools that follow the kernel's alignment_offset do it on purpose (pvcreate on a partition at 63).",
    cost: "Nothing as it is: a start is judged by the data that is written above it, so S001 and S050 to S055 are not \
           reported where all of it is aligned. Moving the partition alone, or making the layer anew with default \
           offsets, misaligns what is aligned now.",
    cure: "Leave both or move both.",
    sources: &["LVM2 lib/metadata/metadata.c, set_pe_align_offset"],
};

pub(crate) static OFF_ARRAY_STRIPE: Rule = Rule {
    code: "S057",
    severity: Severity::Warning,
    kind: Kind::Alignment,
    about: About::Layer,
    title: "a layer starts off the stripe of the array below",
    what: "What is on a RAID starts on a sector, but not on a multiple of the array's stripe in the array's \
           own space.",
    why: "A partition, PV or payload inside the array counts from the array's byte 0. 1 MiB is no multiple \
          of a stripe of three data disks, nor of one larger than 1 MiB.",
    cost: "Writes of whole stripes become two partial ones; RAID 5 and 6 must read to compute the parity: 5 \
           % to 30 % in published tests.",
    cure: "Align the layer to the stripe: pvcreate --dataalignment, cryptsetup --align-payload or --offset, \
           a partition start that is a multiple.",
    sources: &["Linux drivers/md/raid5.c, raid5_set_limits"],
};

pub(crate) static MD_CHUNK_SMALL: Rule = Rule {
    code: "S058",
    severity: Severity::Warning,
    kind: Kind::Alignment,
    about: About::Layer,
    title: "RAID chunk is no multiple of the drive's unit",
    what: "The chunk of a striped array is not a whole number of physical sectors or indirection units.",
    why: "Neighbouring chunks lie on different members: a unit that a chunk covers in part is completed by \
          data that belongs elsewhere in the array.",
    cost: "Streams of writes end each chunk with a read-modify-write.",
    cure: "Use a chunk of 64 KiB or more (512 KiB is mdadm's default).",
    sources: &["mdadm(8), --chunk"],
};

pub(crate) static LUKS_SECTOR_SMALL: Rule = Rule {
    code: "S060",
    severity: Severity::Advice,
    kind: Kind::Alignment,
    about: About::Layer,
    title: "LUKS encrypts in sectors smaller than the physical one",
    what: "The encryption sector is smaller than the physical sector.",
    why: "dm-crypt shows the encryption sector as the mapping's logical block: what is above may write as \
          little. LUKS1 has 512 always; LUKS2 takes 4096 where the device says so.",
    cost: "Eight times the encryption calls a block; sub-sector writes from file systems that use small \
           sectors.",
    cure: "cryptsetup reencrypt --sector-size 4096 (LUKS2). It wants a container whose data begin and end on such a sector: \
           where they do not end on one, make the device smaller first.",
    sources: &["Linux drivers/md/dm-crypt.c, crypt_io_hints", "cryptsetup(8), --sector-size"],
};

pub(crate) static FS_BLOCK_SMALL: Rule = Rule {
    code: "S061",
    severity: Severity::Warning,
    kind: Kind::Alignment,
    about: About::FileSystem,
    title: "file system writes less than a physical sector",
    what: "The file system's block, sector or log sector is smaller than the physical sector.",
    why: "mkfs takes the block by the size of the device (small ext file systems: 1 KiB) or by what the \
          device reports (XFS: 512-byte sectors on an image file or a drive that lies).",
    cost: "Each such write is a read-modify-write, however well it is aligned. It is advice where only firmware reads it: an EFI \
           system partition, or the small FAT that a Raspberry Pi boots from.",
    cure: "Make it anew with blocks and sectors of 4096 bytes.",
    sources: &["mke2fs(8), -b and mke2fs.conf", "mkfs.xfs(8), -s size"],
};

pub(crate) static FS_BLOCK_BELOW_UNIT: Rule = Rule {
    code: "S062",
    severity: Severity::Advice,
    kind: Kind::Alignment,
    about: About::FileSystem,
    title: "file-system block is smaller than the indirection unit",
    what: "The file system's block is a physical sector or more, but less than the SSD's indirection unit.",
    why: "An SSD of 16 KiB units reads and writes again the rest of a unit for each 4 KiB written alone; its \
          cache merges what comes together.",
    cost: "Random small writes cost up to unit / block times the flash writes.",
    cure: "Larger blocks where the file system has them (XFS with large block sizes, bigalloc clusters), or \
           larger writes above.",
    sources: &["NVM Express NVM Command Set specification, NPWG"],
};

pub(crate) static DATA_AREA_OFF: Rule = Rule {
    code: "S063",
    severity: Severity::Error,
    kind: Kind::Alignment,
    about: About::Layer,
    title: "data area is off inside an aligned file system",
    what: "The file system starts on a physical sector, but its clusters are counted from a byte that is \
           none.",
    why: "FAT counts clusters from the end of its reserved sectors, tables and root directory; exFAT from \
          its cluster heap. mkfs.fat aligns them unless told not to, other formatters do not.",
    cost: "Every cluster lies across one sector more than it needs: see S001.",
    cure: "Make it anew with mkfs.fat (without -a) or mkfs.exfat -b 1M.",
    sources: &[
        "Microsoft FAT specification, FirstDataSector",
        "exFAT file system specification, ClusterHeapOffset",
    ],
};

pub(crate) static HINTS_CONTRADICT: Rule = Rule {
    code: "S064",
    severity: Severity::Warning,
    kind: Kind::Layers,
    about: About::FileSystem,
    title: "stripe hints contradict the array",
    what: "The file system was told of a chunk or stripe that is no multiple of the one that the array below has.",
    why: "Hints are written once, by mkfs, which takes them from the device's I/O sizes (multiples of the chunk and the \
          stripe are fine). They are wrong after the array was reshaped, or when the file \
          system was copied from elsewhere.",
    cost: "The allocator spreads data for disks that are not there: metadata piles up on one member, whole \
           stripes become partial ones.",
    cure: "tune2fs -E stride=,stripe_width=; mount -o sunit=,swidth= for XFS.",
    sources: &["ext4: Documentation/filesystems/ext4/super.rst, s_raid_stride", "xfs(5), sunit and swidth"],
};

pub(crate) static ASHIFT_SMALL: Rule = Rule {
    code: "S065",
    severity: Severity::Warning,
    kind: Kind::Alignment,
    about: About::FileSystem,
    title: "ZFS writes less than the drive's unit",
    what: "The vdev's ashift is smaller than the physical sector or indirection unit.",
    why: "ZFS takes the ashift from what the drive reports when the vdev is made, and keeps it for life.",
    cost: "Every small record is a read-modify-write.",
    cure: "Make the pool anew with -o ashift=12 (4 KiB), 13 (8 KiB) or 14 (16 KiB).",
    sources: &["zpoolprops(7), ashift", "OpenZFS issues 287 and 289"],
};

pub(crate) static PAGE_STRADDLES: Rule = Rule {
    code: "S066",
    severity: Severity::Warning,
    kind: Kind::Alignment,
    about: About::Layer,
    title: "database pages straddle",
    what: "Pages of the given size (--page) do not cover whole units of the drive.",
    why: "The page is no multiple of the unit, or the file system is off it.",
    cost: "Each page write is two partial ones, and may be torn between them.",
    cure: "Align what is below; use a page that is a multiple of the unit.",
    sources: &["PostgreSQL documentation, full_page_writes", "MySQL documentation, innodb_doublewrite"],
};

pub(crate) static PAGE_NOT_ATOMIC: Rule = Rule {
    code: "S067",
    severity: Severity::Advice,
    kind: Kind::Atomicity,
    about: About::Layer,
    title: "database pages cannot be written atomically",
    what: "Pages of the given size (--page) are not known to reach the drive as one atomic write.",
    why: "The device offers no atomic write of that size, the partition's start turned it off, or the file \
          system may allocate a page in two places.",
    cost: "A power failure may leave half a page: databases guard against it by writing everything twice.",
    cure: "Keep that guard on.",
    sources: &[
        "Linux Documentation/ABI/stable/sysfs-block, atomic_write_unit_max_bytes",
        "MySQL documentation, innodb_doublewrite",
    ],
};

pub(crate) static HIDDEN_SECTORS: Rule = Rule {
    code: "S068",
    severity: Severity::Warning,
    kind: Kind::Layers,
    about: About::Placement,
    title: "the boot sector says another place than its partition's",
    what: "NTFS, FAT and exFAT keep the number of sectors before them (\"hidden sectors\"), and it is not where the \
           partition starts.",
    why: "Only mkfs and Windows' own tools write it. Whoever moves a partition, or copies it to another disk, takes the \
          old number along. Boot code of a BIOS reads the rest of itself at the sector that this number says.",
    cost: "Windows does not boot from the partition; that is a warning where it is the active one of an MBR. Elsewhere \
           (data, EFI, exFAT) nothing reads the number, and it is advice.",
    cure: "Write the partition's first sector into the boot sector, four bytes at byte 28, and into the copies of that (NTFS: the \
           sector behind the last of the volume, or the last of the cluster that begins there, and the last of the partition; \
           FAT32: mostly sector 6), with the partition unmounted. Where the partition is to be moved, do that first.",
    sources: &[
        "Microsoft FAT specification, BPB_HiddSec",
        "exFAT file system specification, PartitionOffset",
        "ntfs-3g include/ntfs-3g/layout.h, struct BIOS_PARAMETER_BLOCK, hidden_sectors",
    ],
};

pub(crate) static CONTAINER_OFF: Rule = Rule {
    code: "S070",
    severity: Severity::Error,
    kind: Kind::Alignment,
    about: About::Container,
    title: "image format puts guest blocks off the host's sectors",
    what: "The image's container stores the guest's blocks at host offsets that are off a physical sector.",
    why: "A dynamic VHD puts a 512-byte bitmap before each block; sparse VMDK and old VDI files start their \
          data behind headers of any length. Aligned inside the guest, everything straddles on the host.",
    cost: "Each guest write of 4 KiB costs the host two partial ones: NetApp counted 18 % longer runs.",
    cure: "Convert the image: to raw, qcow2 or VHDX, or to a fixed VHD.",
    sources: &[
        "Microsoft Virtual Hard Disk Image Format Specification, Block Allocation Table and Data Blocks",
        "VMware Virtual Disk Format 1.1, overHead",
    ],
};

pub(crate) static CONTAINER_UNIT_SMALL: Rule = Rule {
    code: "S071",
    severity: Severity::Advice,
    kind: Kind::Alignment,
    about: About::Container,
    title: "image format allocates in small units",
    what: "The container's cluster or grain is smaller than the physical sector.",
    why: "A qcow2 of 512-byte clusters was possible; allocation then scatters parts of sectors.",
    cost: "Read-modify-writes on the host at each newly written cluster.",
    cure: "Convert with larger clusters (qemu-img convert -o cluster_size=64k).",
    sources: &["QEMU docs/interop/qcow2.rst, cluster_bits"],
};

pub(crate) static VIEWS_DISAGREE: Rule = Rule {
    code: "S080",
    severity: Severity::Warning,
    kind: Kind::Layers,
    about: About::Kernel,
    title: "the kernel and the disk disagree",
    what: "What the kernel has in use (partitions, mappings, RAID) differs from what is written on the disk.",
    why: "The table or metadata was changed while in use, and the kernel still works with the old one.",
    cost: "What is written now goes where the old layout says; after the next boot it is looked for where \
           the new one says.",
    cure: "Reboot, or tell the kernel (partx -u, blockdev --rereadpt), before writing more.",
    sources: &["partx(8)", "blockdev(8), --rereadpt"],
};

pub(crate) static UNREADABLE: Rule = Rule {
    code: "S081",
    severity: Severity::Error,
    kind: Kind::Unreadable,
    about: About::Medium,
    title: "cannot be read",
    what: "The drive gives no bytes where the table or the content of a partition stands.",
    why: "A sector went bad, a cable or an enclosure fails, or the device behind a mapping is gone. What is there is not \
          known, so nothing is said of its alignment.",
    cost: "Perhaps the data.",
    cure: "Look at the kernel's messages (dmesg) and the drive's health (smartctl -a); copy what can still be read \
           (ddrescue) before anything else.",
    sources: &["read(2), EIO", "ddrescue(1)"],
};

}

/// The rule of this code, in either case.
pub fn rule(code: &str) -> Option<&'static Rule> {
    RULES.iter().copied().find(|rule| rule.code.eq_ignore_ascii_case(code))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_unique_and_in_order() {
        assert!(RULES.windows(2).all(|pair| pair[0].code < pair[1].code));
    }

    #[test]
    fn a_rule_finds_what_can_be_wrong_with_what_it_looks_at() {
        for rule in RULES {
            let kinds: &[Kind] = match rule.about {
                About::Device => &[Kind::Device, Kind::Alignment],
                About::Table => &[Kind::Table],
                // A boot sector may contradict the table.
                About::Placement => &[Kind::Alignment, Kind::Layers],
                About::Layer => &[Kind::Alignment, Kind::Atomicity],
                About::FileSystem => &[Kind::Alignment, Kind::Layers],
                About::Container => &[Kind::Alignment],
                About::Kernel => &[Kind::Layers],
                About::Medium => &[Kind::Unreadable],
            };
            assert!(kinds.contains(&rule.kind), "{} is {:?} about {:?}", rule.code, rule.kind, rule.about);
        }
    }

    #[test]
    fn every_rule_is_told_in_full() {
        for rule in RULES {
            for text in [rule.title, rule.what, rule.why, rule.cost, rule.cure] {
                assert!(!text.is_empty(), "{}", rule.code);
            }
            assert!(!rule.sources.is_empty(), "{} has no source", rule.code);
        }
    }
}
