//! S03x and S04x: the partition table.

use super::Definition;

pub(super) const OTHER_SECTOR_SIZE: Definition = Definition {
    title: "table written for another logical sector size",
    what: "The partition table was written for a different sector size than the device has now.",
    why: "Some USB enclosures present a 512-byte drive with 4096-byte sectors, and some controllers do the \
          reverse. The GPT header is in the second sector, so it is not found if the sector size differs. An \
          MBR is still found, but its sector numbers are wrong by a factor of eight.",
    cost: "Partitions are missing or at the wrong position. The data seems lost, and a \"repair\" would \
           overwrite it.",
    fix: "Connect the drive the way it was connected when it was partitioned. If the drive must stay where \
          it is, copy the data through a loop device with the table's sector size (losetup --sector-size), \
          which writes nothing. To convert the table in place instead, use straddle plan --convert-table.",
    sources: &[
        "UEFI specification 2.10, section 5.3",
        "parted and util-linux issue trackers: disks moved out of enclosures",
    ],
};

pub(super) const GPT_PRIMARY_DAMAGED: Definition = Definition {
    title: "the primary GPT is damaged",
    what: "The primary GPT header or its entries fail their checks, but the backup at the disk's end is \
           good.",
    why: "A boot loader, an imaging tool or a table for another sector size overwrote the first sectors.",
    cost: "Linux uses the backup only when booted with the gpt parameter. Firmware may not find the EFI \
           system partition.",
    fix: "Rewrite the primary GPT from the backup.",
    sources: &["UEFI specification 2.10, section 5.3.2", "Linux block/partitions/efi.c"],
};

pub(super) const GPT_BACKUP_DAMAGED: Definition = Definition {
    title: "the backup GPT is damaged or missing",
    what: "The primary GPT is good, but the backup is not.",
    why: "The end of the disk was overwritten, for example by RAID metadata, or was never written because a \
          copy was cut short.",
    cost: "Nothing, unless the primary is damaged too.",
    fix: "Rewrite the backup GPT from the primary.",
    sources: &["UEFI specification 2.10, section 5.3.2"],
};

pub(super) const GPT_UNUSABLE: Definition = Definition {
    title: "no usable GPT",
    what: "The disk has a GPT, but neither copy passes its checks.",
    why: "Both copies were overwritten, or the image is truncated.",
    cost: "No tool sees any partition.",
    fix: "Restore the partition table from a backup, or scan the disk for file-system signatures to find \
          where the partitions start.",
    sources: &["UEFI specification 2.10, section 5.3.2"],
};

pub(super) const GPT_BACKUP_MISPLACED: Definition = Definition {
    title: "the backup GPT is not at the end",
    what: "The backup GPT is intact, but not in the disk's last block.",
    why: "The disk or image has grown. For example, a cloud volume was enlarged, or an image was written to \
          a larger disk.",
    cost: "The space after the backup GPT cannot be used, and the backup is not found if the primary is \
           lost.",
    fix: "Move the backup GPT to the end of the disk.",
    sources: &["UEFI specification 2.10, section 5.3.1"],
};

pub(super) const GPT_PAST_END: Definition = Definition {
    title: "the GPT is for a larger disk",
    what: "The GPT was made for a larger disk than this one.",
    why: "The image was truncated or copied to a smaller disk.",
    cost: "Everything past the end of the disk is lost, including the backup GPT.",
    fix: "Copy the whole disk or image again.",
    sources: &["UEFI specification 2.10, section 5.3.2"],
};

pub(super) const GPT_COPIES_DIFFER: Definition = Definition {
    title: "the two GPTs list different partitions",
    what: "Primary and backup both pass their checks, but their entries differ.",
    why: "A tool was interrupted before it wrote the second copy, or writes only one.",
    cost: "Nothing, until the backup is used instead of the primary. Partitions then appear or disappear.",
    fix: "Decide which copy is correct (the primary is in use), and rewrite the other copy from it.",
    sources: &["UEFI specification 2.10, section 5.3.2"],
};

pub(super) const PROTECTIVE_MBR: Definition = Definition {
    title: "protective MBR and GPT do not match",
    what: "There is a protective MBR without a GPT, or a GPT without a protective MBR. The finding is only a \
           warning if an intact GPT follows an MBR that lists partitions but has no protective entry.",
    why: "Either the MBR or the GPT was overwritten by wipefs, dd or a boot loader.",
    cost: "No partition is found, or different programs find different ones. The kernel reads a GPT only if \
           there is a protective MBR. Without a GPT, the disk seems to hold one large unknown partition.",
    fix: "Rewrite the protective MBR (straddle plan --repair). If there is no GPT, restore the partition \
          table from a backup. If there are two tables, remove the obsolete one.",
    sources: &["UEFI specification 2.10, section 5.2.3", "Linux block/partitions/efi.c, is_pmbr_valid"],
};

pub(super) const HYBRID_DIFFERS: Definition = Definition {
    title: "the hybrid MBR and the GPT list different partitions",
    what: "The start and size of an entry in the hybrid MBR do not match any partition of the GPT.",
    why: "A hybrid MBR is a second list of the same partitions. Most tools that move, grow or shrink a \
          partition change only the GPT, not the MBR entry.",
    cost: "A system that uses the MBR (Windows in BIOS mode, a boot loader) reads and writes at the old \
           position, and overwrites whatever is there now.",
    fix: "Correct only that entry (sfdisk --label-nested dos -N ENTRY), or write a protective MBR if nothing \
          needs the hybrid one (gdisk: x, n). If a board boots from this MBR, do not use sgdisk -h. That \
          option rebuilds all entries, may change their types and order, and clears the boot flag.",
    sources: &[
        "sgdisk(8), --hybrid and --verify",
        "sfdisk(8), --label-nested",
        "https://www.rodsbooks.com/gdisk/hybrid.html",
    ],
};

pub(super) const EBR_DAMAGED: Definition = Definition {
    title: "the chain of logical partitions is broken",
    what: "An extended boot record links back to an earlier one or out of the extended partition, or is \
           not a valid record.",
    why: "Logical partitions form a linked list across the disk. One overwritten sector breaks the list.",
    cost: "Partitions after the break are not found, or different tools find different ones.",
    fix: "Restore the record (testdisk finds the partitions), or convert the table to a GPT.",
    sources: &["Linux block/partitions/msdos.c, parse_extended"],
};

pub(super) const OVERLAP: Definition = Definition {
    title: "partitions overlap",
    what: "Two partitions share blocks.",
    why: "The table was edited by hand, or by tools that use different units.",
    cost: "Writing to one partition destroys the contents of the other.",
    fix: "Find out which partition is in use, and correct the other one.",
    sources: &["UEFI specification 2.10, section 5.3.3"],
};

pub(super) const OUT_OF_RANGE: Definition = Definition {
    title: "partition reaches past the disk's end",
    what: "A partition ends or starts after the disk's last block.",
    why: "The image was truncated or copied to a smaller disk.",
    cost: "The kernel truncates or ignores the partition. The file system in the partition cannot be \
           mounted, or returns errors later.",
    fix: "Copy the whole disk or image again, or shrink the file system and the partition.",
    sources: &["Linux block/partitions/core.c, blk_add_partition"],
};

pub(super) const BAD_ENTRY: Definition = Definition {
    title: "a partition entry cannot be used",
    what: "An entry ends before it starts, or its end does not fit in 64 bits.",
    why: "The table was damaged although its checksum is correct, or it was written by a faulty tool.",
    cost: "The partition is not listed.",
    fix: "Delete or correct the entry.",
    sources: &["UEFI specification 2.10, section 5.3.3"],
};

pub(super) const TOO_MANY: Definition = Definition {
    title: "more partitions than straddle lists",
    what: "The table holds more partitions than this audit lists.",
    why: "No real disk has that many partitions. Linux itself stops at 256.",
    cost: "Partitions that are not listed are not audited.",
    fix: "Inspect the table by hand.",
    sources: &["Linux include/linux/blkdev.h, DISK_MAX_PARTS"],
};

pub(super) const MBR_REACH: Definition = Definition {
    title: "the MBR cannot address the end of the disk",
    what: "The disk is larger than an MBR can address, and the space past the limit is not in any partition.",
    why: "MBR entries have 32-bit sector numbers, which reach 2 TiB with 512-byte sectors and 16 TiB with \
          4096-byte ones.",
    cost: "The space past the limit cannot be used.",
    fix: "Use a GPT.",
    sources: &["Linux block/partitions/msdos.c"],
};

pub(super) const PAST_2_32: Definition = Definition {
    title: "partition crosses sector 2^32",
    what: "An MBR partition starts before sector 2^32 and ends after it.",
    why: "Start and size are 32-bit numbers. The sum of start and size may need 33 bits, but some systems \
          compute the sum with only 32.",
    cost: "Linux supports such a partition. Other systems see a shorter partition, or wrap around and \
           overwrite the start of the disk.",
    fix: "Use a GPT.",
    sources: &["Linux block/partitions/msdos.c"],
};

pub(super) const UNFINISHED_MOVE: Definition = Definition {
    title: "unfinished move or copy of partitions",
    what: "A move of this disk's partitions (straddle realign, straddle apply) was interrupted. Until the \
           move is finished, the table holds a marker in place of the moved partitions. If another program \
           has written a new table, straddle searches for the journal before the end of the disk and before \
           partitions. The finding is also reported for an interrupted copy to this disk (straddle realign \
           --to, straddle apply --from). After an interrupted copy, the first sector of the disk holds a \
           marker in place of the table.",
    why: "Part of the data is still at its old position, and part is at the new position. The journal \
          records which is which. With either the old or the new table in place, other programs could \
          overwrite data that is still needed.",
    cost: "The partitions cannot be used until the move is finished. No data is lost, because the journal \
           makes it possible to complete the move or roll it back. The source of a copy is unchanged.",
    fix: "Run straddle resume TARGET, or straddle resume TARGET --rollback to restore the old layout. Change \
          nothing else on the disk until the move is complete or rolled back. If another program has \
          replaced the partition table, add --restore-table FILE. straddle then saves the replacement to \
          FILE, and continues the move. To complete a copy, rerun the command that started it (straddle \
          apply PLAN --from SOURCE --write TARGET).",
    sources: &["docs/realign.md"],
};

pub(super) const CUT_SHORT: Definition = Definition {
    title: "contents reach past the end of their partition",
    what: "A file system, swap area, physical volume, LUKS container or array member records a size larger \
           than that of the partition or disk that holds it.",
    why: "The partition was shrunk before its contents were, or the image was truncated or copied to a \
          smaller disk. The superblock may also be left over from an earlier, larger partition with the same \
          start.",
    cost: "Some of the data may be in what looks like unallocated space, where a new partition, a move or a \
           benchmark would destroy it. The kernel refuses to mount the file system, or reads and writes near \
           its end fail. straddle does not write to such a disk.",
    fix: "If the contents are in use, grow the partition to their size, or shrink them (on a copy). If the \
          contents are obsolete, erase their signatures with wipefs.",
    sources: &[
        "Linux fs/ext4/super.c, ext4_geometry_check",
        "LVM2 lib/metadata/pv_manip.c",
        "mm/swapfile.c, read_swap_header",
    ],
};

pub(super) const TABLE_INSIDE: Definition = Definition {
    title: "the table's own structures are inside a partition",
    what: "The MBR, a copy of the GPT, or the extended boot record (EBR) of a logical partition is inside \
           a partition.",
    why: "The table was edited by hand or written by a faulty tool. Old versions of fdisk, for example, \
          wrote the EBR of a logical partition inside the previous partition.",
    cost: "Writing to the partition destroys the table. If an EBR is destroyed, its logical partition and \
           all later ones are lost.",
    fix: "Save the table (sfdisk --dump) and back up the partition. Then shrink the partition and its \
          contents until the table's structure is outside the partition, or recreate the table.",
    sources: &[
        "UEFI specification 2.10, sections 5.2 and 5.3",
        "https://github.com/util-linux/util-linux/issues/3925",
    ],
};
