//! S03x and S04x: the partition table.

use super::{About, Code, Definition, Kind, Severity};

pub(super) const OTHER_SECTOR_SIZE: Definition = Definition {
    code: Code::S030,
    severity: Severity::Error,
    kind: Kind::Table,
    about: About::Table,
    title: "table written for another logical sector size",
    what: "The partition table counts in sectors of another size than the device has now.",
    why: "Some USB enclosures show a 512-byte drive as one with 4096-byte sectors, some controllers the \
          reverse. The GPT header stands in the second sector, so with the other size it is not found; an \
          MBR is found, but every number in it means eight times more or less.",
    cost: "The partitions are invisible or at the wrong place: data seems lost, and a \
           \"repair\" overwrites it.",
    fix: "Connect the drive as it was when it was partitioned, or read it through a loop device with the table's sectors (losetup --sector-size), \
          which needs no write, and copy the data off; or have the table rewritten in place (straddle plan --convert-table).",
    sources: &[
        "UEFI specification 2.10, section 5.3",
        "parted and util-linux issue trackers: disks moved out of enclosures",
    ],
};

pub(super) const GPT_PRIMARY_DAMAGED: Definition = Definition {
    code: Code::S031,
    severity: Severity::Error,
    kind: Kind::Table,
    about: About::Table,
    title: "the primary GPT is damaged",
    what: "The primary GPT header or its entries fail their checks; the backup at the disk's end is good.",
    why: "Boot loaders, imaging tools or a table made for another sector size wrote over the first sectors.",
    cost: "The kernel boots from the backup only with the parameter gpt; firmware may not find the ESP.",
    fix: "Rewrite the primary from the backup.",
    sources: &["UEFI specification 2.10, section 5.3.2", "Linux block/partitions/efi.c"],
};

pub(super) const GPT_BACKUP_DAMAGED: Definition = Definition {
    code: Code::S032,
    severity: Severity::Warning,
    kind: Kind::Table,
    about: About::Table,
    title: "the backup GPT is damaged or missing",
    what: "The primary GPT is good, the backup is not.",
    why: "The end of the disk was overwritten (old RAID metadata, a shorter copy), or never written.",
    cost: "Nothing until the primary is damaged as well.",
    fix: "Rewrite the backup from the primary.",
    sources: &["UEFI specification 2.10, section 5.3.2"],
};

pub(super) const GPT_UNUSABLE: Definition = Definition {
    code: Code::S033,
    severity: Severity::Error,
    kind: Kind::Table,
    about: About::Table,
    title: "no usable GPT",
    what: "The disk announces a GPT, but neither copy passes its checks.",
    why: "Both were overwritten, or the image is cut off.",
    cost: "No tool sees any partition.",
    fix: "Restore the table from a backup, or search for the partitions' contents.",
    sources: &["UEFI specification 2.10, section 5.3.2"],
};

pub(super) const GPT_BACKUP_MISPLACED: Definition = Definition {
    code: Code::S034,
    severity: Severity::Warning,
    kind: Kind::Table,
    about: About::Table,
    title: "the backup GPT is not at the end",
    what: "The backup GPT is good, but not in the disk's last block.",
    why: "The disk or image has grown: a cloud volume was enlarged, an image written to a larger disk.",
    cost: "The space behind it cannot be used, and the backup is not found if the primary is lost.",
    fix: "Move it to the end.",
    sources: &["UEFI specification 2.10, section 5.3.1"],
};

pub(super) const GPT_PAST_END: Definition = Definition {
    code: Code::S035,
    severity: Severity::Error,
    kind: Kind::Table,
    about: About::Table,
    title: "the GPT is for a larger disk",
    what: "By its GPT the disk would be larger than it is.",
    why: "The image was cut off, or copied to a smaller disk.",
    cost: "What lies past the end is lost; the backup GPT with it.",
    fix: "Copy it again, whole.",
    sources: &["UEFI specification 2.10, section 5.3.2"],
};

pub(super) const GPT_COPIES_DIFFER: Definition = Definition {
    code: Code::S036,
    severity: Severity::Warning,
    kind: Kind::Table,
    about: About::Table,
    title: "the two GPTs list different partitions",
    what: "Primary and backup both pass their checks, but their entries differ.",
    why: "A tool was interrupted between writing one and the other, or knows only one.",
    cost: "Nothing until one of them is used in place of the other; then partitions appear or vanish.",
    fix: "Decide which is right (the primary is used), and write the other from it.",
    sources: &["UEFI specification 2.10, section 5.3.2"],
};

pub(super) const PROTECTIVE_MBR: Definition = Definition {
    code: Code::S037,
    severity: Severity::Error,
    kind: Kind::Table,
    about: About::Table,
    title: "protective MBR and GPT do not belong together",
    what: "There is a protective MBR without a GPT, or a GPT without a protective MBR; or an MBR lists partitions beside a \
           complete GPT that it does not announce (a warning).",
    why: "One of them was overwritten: by wipefs, dd, or a boot loader.",
    cost: "No partition is found, or programs differ in which partitions they find. The kernel reads a GPT only behind a protective MBR; without the GPT the disk seems \
           full of one unknown partition.",
    fix: "Have the protective MBR written again (straddle plan --repair). Without a GPT: restore the table from a backup, \
          or search for the partitions' contents. Of two tables, remove the one that is left over.",
    sources: &["UEFI specification 2.10, section 5.2.3", "Linux block/partitions/efi.c, is_pmbr_valid"],
};

pub(super) const HYBRID_DIFFERS: Definition = Definition {
    code: Code::S038,
    severity: Severity::Warning,
    kind: Kind::Table,
    about: About::Table,
    title: "the hybrid MBR and the GPT list different partitions",
    what: "An entry of a hybrid MBR is not at the place, or not of the size, of any partition of the GPT.",
    why: "A hybrid MBR is a second list of the same partitions, and most tools change only the GPT: whatever moves, \
          grows or shrinks a partition leaves the old entry behind.",
    cost: "A system that reads the MBR (Windows in BIOS mode, a boot loader) reads and writes at the old place, over \
           whatever is there now.",
    fix: "Correct the entry alone (sfdisk --label-nested dos -N ENTRY), or put a protective MBR there if nothing needs it \
          (gdisk: x, n). sgdisk -h makes the whole hybrid MBR again: types and order may change, and the boot flag goes, so \
          that a board that boots by them no longer does.",
    sources: &[
        "sgdisk(8), --hybrid and --verify",
        "sfdisk(8), --label-nested",
        "https://www.rodsbooks.com/gdisk/hybrid.html",
    ],
};

pub(super) const EBR_DAMAGED: Definition = Definition {
    code: Code::S040,
    severity: Severity::Error,
    kind: Kind::Table,
    about: About::Table,
    title: "the chain of logical partitions is broken",
    what: "An extended boot record links back, or out of the extended partition, or is none.",
    why: "Logical partitions form a linked list over the disk; one overwritten sector cuts it.",
    cost: "The partitions behind the break are not seen, or another set by each tool.",
    fix: "Restore the record (testdisk finds the partitions), or move to GPT.",
    sources: &["Linux block/partitions/msdos.c, parse_extended"],
};

pub(super) const OVERLAP: Definition = Definition {
    code: Code::S041,
    severity: Severity::Error,
    kind: Kind::Table,
    about: About::Table,
    title: "partitions overlap",
    what: "Two partitions share blocks.",
    why: "A table edited by hand, or tools that count in different units.",
    cost: "Writing to one destroys the other.",
    fix: "Find out which is in use, and correct the other.",
    sources: &["UEFI specification 2.10, section 5.3.3"],
};

pub(super) const OUT_OF_RANGE: Definition = Definition {
    code: Code::S042,
    severity: Severity::Error,
    kind: Kind::Table,
    about: About::Table,
    title: "partition reaches past the disk's end",
    what: "A partition ends, or lies, behind the last block.",
    why: "The image was cut off, or copied to a smaller disk.",
    cost: "The kernel cuts the partition or drops it; the file system in it refuses to mount or fails later.",
    fix: "Copy it again, whole; or shrink file system and partition.",
    sources: &["Linux block/partitions/core.c, blk_add_partition"],
};

pub(super) const BAD_ENTRY: Definition = Definition {
    code: Code::S043,
    severity: Severity::Warning,
    kind: Kind::Table,
    about: About::Table,
    title: "a partition entry cannot be used",
    what: "An entry ends before it starts, or cannot be counted in 64 bits.",
    why: "Damage that the checksum does not show, or a faulty tool.",
    cost: "The partition is not listed.",
    fix: "Delete or correct the entry.",
    sources: &["UEFI specification 2.10, section 5.3.3"],
};

pub(super) const TOO_MANY: Definition = Definition {
    code: Code::S044,
    severity: Severity::Warning,
    kind: Kind::Table,
    about: About::Table,
    title: "more partitions than are listed",
    what: "The table holds more partitions than this audit lists.",
    why: "No real disk has that many; Linux itself stops at 256.",
    cost: "Those not listed are not audited.",
    fix: "Look at the table by hand.",
    sources: &["Linux include/linux/blkdev.h, DISK_MAX_PARTS"],
};

pub(super) const MBR_REACH: Definition = Definition {
    code: Code::S045,
    severity: Severity::Warning,
    kind: Kind::Table,
    about: About::Table,
    title: "the MBR cannot reach the disk's end",
    what: "The disk is larger than an MBR can address, and its last bytes are in no partition.",
    why: "MBR entries count sectors in 32 bits: 2 TiB with 512-byte sectors, 16 TiB with 4096-byte ones.",
    cost: "The space behind cannot be used.",
    fix: "Use a GPT.",
    sources: &["Linux block/partitions/msdos.c"],
};

pub(super) const PAST_2_32: Definition = Definition {
    code: Code::S046,
    severity: Severity::Warning,
    kind: Kind::Table,
    about: About::Table,
    title: "partition passes sector 2^32",
    what: "An MBR partition starts before sector 2^32 and ends after it.",
    why: "Start and size are 32-bit numbers each, so their sum can be more; some systems compute the end in \
          32 bits.",
    cost: "Linux reads it; others see a shorter partition, or wrap to the disk's start when writing.",
    fix: "Use a GPT.",
    sources: &["Linux block/partitions/msdos.c"],
};

pub(super) const UNFINISHED_MOVE: Definition = Definition {
    code: Code::S047,
    severity: Severity::Error,
    kind: Kind::Table,
    about: About::Table,
    title: "unfinished move or copy of partitions",
    what: "straddle has begun to move partitions of this disk to other starts (straddle realign, straddle apply), and was interrupted. \
           The table has a marker in place of the partitions that move, unless another program has written a table since; then the journal is found where \
           journals end as a rule: before the end of the disk, or before a partition. Or a copy to this disk (straddle realign --to, straddle apply --from) was \
           interrupted: its first sector has a marker in place of the table.",
    why: "Part of the data is in the new places and part in the old ones, until the journal says that all of it is in one. \
          A table that lists either would let other programs write to data that are still needed.",
    cost: "The partitions cannot be used until the move is finished. Nothing is lost: the journal has what is needed for either way, and the source of a copy is as it was.",
    fix: "Run straddle resume TARGET, or straddle resume TARGET --rollback to bring back the old layout. Change nothing else on the disk before. \
          If another program has written the table, add --restore-table FILE, which saves that table first. \
          A copy is completed by the same straddle apply PLAN --from SOURCE --write TARGET that began it.",
    sources: &["docs/realign.md"],
};

pub(super) const CUT_SHORT: Definition = Definition {
    code: Code::S048,
    severity: Severity::Error,
    kind: Kind::Table,
    about: About::Table,
    title: "contents reach past the end of their partition",
    what: "A file system, swap area, physical volume, LUKS container or array member records a size that is larger than the partition, or the \
           disk, that it is in.",
    why: "The entry was made smaller without the contents being shrunk first, the image was cut off or copied to a smaller disk; or the \
          superblock is left over from an earlier, larger partition that began at the same place.",
    cost: "Data that belong to it may lie in what looks like free space: a new partition, a move or a benchmark there destroys them. The kernel \
           refuses to mount it, or fails where the device ends. straddle writes nothing to such a disk.",
    fix: "If the contents are in use, make the partition as large as they are again, or shrink them first (from a copy). If they are left over, \
          remove them with wipefs.",
    sources: &[
        "Linux fs/ext4/super.c, ext4_geometry_check",
        "LVM2 lib/metadata/pv_manip.c",
        "mm/swapfile.c, read_swap_header",
    ],
};

pub(super) const TABLE_INSIDE: Definition = Definition {
    code: Code::S049,
    severity: Severity::Error,
    kind: Kind::Table,
    about: About::Table,
    title: "the table's own structures lie in a partition",
    what: "The MBR, a copy of the GPT, or the extended boot record (EBR) of a logical partition lies in a partition.",
    why: "A table edited by hand, or made by tools that place records where their own arithmetic puts them: old versions of fdisk put \
          the record of one logical partition into the one before.",
    cost: "What is written to the partition destroys the table: an EBR takes with it all logical partitions from there on.",
    fix: "Save the table (sfdisk --dump) and back up what is in it. Then shrink the partition, with its contents, so that it ends \
          before the structure, or make the table again.",
    sources: &[
        "UEFI specification 2.10, sections 5.2 and 5.3",
        "https://github.com/util-linux/util-linux/issues/3925",
    ],
};
