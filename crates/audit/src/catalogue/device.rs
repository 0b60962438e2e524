//! S02x: what the device reports about itself.

use super::Definition;

pub(super) const KERNEL_MISALIGNED: Definition = Definition {
    title: "the kernel calls the device misaligned",
    what: "The kernel reports alignment_offset -1 for the device. Instead of -1, Linux 6.12 may report an \
           offset computed from members whose offsets differ.",
    why: "For a stacked device (md, device mapper), -1 means that its members have different alignment \
          offsets, or that its data does not start on a physical sector boundary. In both cases, no \
          partition start is aligned on every member. libblkid reports 0 instead of -1, so parted, fdisk, \
          mkfs.xfs and cryptsetup do not notice the misalignment. The kernel also reports -1 if the optimal \
          I/O size of an underlying device is not a multiple of the physical sector. If that is the only \
          problem, straddle reports S021 instead.",
    cost: "The same as S001, on at least one member. Devices on top of a misaligned device report \
           alignment_offset -1 too. If several stacked devices are misaligned, the finding is reported only \
           for the lowest one, and lists the others.",
    fix: "Align each member (check each one), then recreate the stack.",
    sources: &["Linux block/blk-settings.c, blk_stack_limits", "util-linux libblkid/src/topology/topology.c"],
};

pub(super) const BOGUS_IO_OPT: Definition = Definition {
    title: "the optimal I/O size is impossible",
    what: "The device reports an impossible optimal I/O size, such as 33553920 (65535 blocks of 512 bytes), \
           that size rounded down to a multiple of a larger sector (33550336), or a multiple of 0xFFF000. A \
           valid optimal I/O size is a multiple of the physical sector and of the minimum I/O size.",
    why: "Some USB bridges set every bit of the field, some HBAs report their own transfer limit, and md \
          multiplies the values that its members report. parted 3.5 and LVM 2.03.16 (Debian 12) use the \
          value. LVM 2.03.31 and later ignore 33553920. fdisk 2.38 ignores 33553920 and any size that is not \
          a multiple of the physical sector.",
    cost: "By default, parted starts partitions at sector 65535, an odd number, and pvcreate starts the data \
           of a physical volume at byte 33553920 (see S001 and S051).",
    fix: "Specify starts in MiB, or align to the minimum (parted -a minimal). For LVM, use pvcreate \
          --dataalignment 1m.",
    sources: &[
        "Linux drivers/scsi/sd.c, sd_validate_opt_xfer_size",
        "Linux block/blk-settings.c, blk_validate_limits (6.11 and later round it down)",
        "util-linux commit bbb66067c (2020) and issue 1221",
        "LVM2 WHATS_NEW, 2.03.31, and lib/device/dev-type.c",
        "Debian bug 1121006 (mpt3sas)",
    ],
};

pub(super) const KNOWN_LIAR: Definition = Definition {
    title: "a drive known to misreport its sectors",
    what: "Drives of this model have larger physical sectors than they report.",
    why: "Early Advanced Format drives reported 512/512 for compatibility with old systems. straddle has a \
          list of such models, with a source for each; the listed value overrides the drive's.",
    cost: "Tools that trust the drive may start partitions at any sector. parted's minimal alignment, for \
           example, accepts every sector.",
    fix: "Specify starts in MiB. If the sector size is in doubt, assume 4096-byte sectors, which are safe on \
          every disk.",
    sources: &["crates/device/src/quirks.toml, a source for each model"],
};

pub(super) const FIRMWARE_OFFSET: Definition = Definition {
    title: "the drive's addresses are shifted",
    what: "The first physical sector boundary is not at byte 0.",
    why: "A jumper on early WD drives (pins 7 and 8, \"for Windows XP\") shifts every address by one sector, \
          so that a physical sector starts at LBA 63. Some RAID firmware also shifts addresses. On a drive \
          with that jumper, aligned starts are 3584 bytes past a multiple of 4096. A mapping, an array or a \
          loop device also has shifted addresses if its underlying device is misaligned.",
    cost: "Nothing by itself. However, tools that ignore alignment_offset create misaligned partitions, and \
           the partitions of any image copied to the disk are misaligned.",
    fix: "On an empty drive, remove the jumper. On a drive with data, leave the jumper in place (removing it \
          would change the address of every sector), and move the misaligned partitions (straddle realign). \
          For a stacked device, align the devices that it is built from.",
    sources: &[
        "Documentation/ABI/stable/sysfs-block, alignment_offset",
        "ATA8-ACS, IDENTIFY DEVICE word 209",
    ],
};

pub(super) const SOURCES_DISAGREE: Definition = Definition {
    title: "sources disagree about the physical sector",
    what: "The drive and the kernel report different physical sector sizes.",
    why: "USB bridges and RAID controllers often report a size that differs from the drive's, or none. \
          straddle uses the larger size, because a start aligned to it is aligned to both.",
    cost: "Nothing by itself, but tools that read only the kernel's value may misalign partitions.",
    fix: "Specify starts in MiB.",
    sources: &["ATA8-ACS, IDENTIFY DEVICE word 106", "SBC-4, READ CAPACITY (16)"],
};

pub(super) const FASTER_FORMAT: Definition = Definition {
    title: "the drive has a faster sector format",
    what: "The drive reports better performance for another sector size than for the current sector size of \
           the NVMe namespace.",
    why: "A namespace lists the sector sizes it can be formatted with, each with its relative performance \
          (best, better, good, degraded). Many drives are shipped with 512-byte sectors for old systems and \
          perform better with 4096-byte ones.",
    cost: "The cost depends on the drive. If performance matters, measure both formats.",
    fix: "If the namespace is empty or backed up, run nvme format DEVICE --lbaf=N. THIS DESTROYS EVERYTHING \
          ON THE NAMESPACE and, if the controller formats all namespaces at once (FNA bit 0), on the whole \
          drive. Some controllers do not support nvme format (OACS bit 1).",
    sources: &[
        "NVM Express NVM Command Set Specification, LBA Format Data Structure, Relative Performance",
        "NVM Express Base Specification, Identify Controller, OACS and FNA",
        "nvme-format(1)",
    ],
};

pub(super) const LARGER_SECTOR: Definition = Definition {
    title: "the drive can be set to larger sectors",
    what: "The drive's logical sectors are smaller than its physical sectors, and it can be set to larger \
           ones.",
    why: "Many data-centre disks are sold as 512e and can be set to 4Kn. ATA drives list their supported \
          sector sizes in the Sector Configuration log; SCSI and SAS drives list them in VPD page B4h. If \
          logical and physical sectors have the same size, no partition can be misaligned, and the drive \
          never needs a read-modify-write.",
    cost: "Nothing, if everything on the drive is aligned and written in whole physical sectors. Otherwise, \
           the same as S001.",
    fix: "Only if the drive is empty or backed up, run hdparm --set-sector-size 4096 \
          --please-destroy-my-drive DEVICE (ATA) or sg_format --format --size=4096 DEVICE (SCSI). THIS \
          DESTROYS EVERYTHING ON THE DRIVE. Do not change the sectors of a drive that a BIOS boots from, or \
          whose enclosure or RAID controller expects 512-byte sectors.",
    sources: &[
        "ATA/ATAPI Command Set 4, Sector Configuration log and SET SECTOR CONFIGURATION EXT",
        "SBC-4, Supported Block Lengths And Protection Types VPD page",
        "hdparm(8)",
        "sg_format(8)",
    ],
};

pub(super) const GUEST_SHOWN_SMALLER: Definition = Definition {
    title: "the guest sees smaller sectors than the storage has",
    what: "A virtual machine's disk reports smaller physical sectors than its storage has.",
    why: "Unless libvirt's <blockio> specifies other sizes, QEMU reports 512-byte logical and physical \
          sectors to the guest, regardless of the storage. Programs in the guest choose their block sizes to \
          match the reported sector size. For example, cryptsetup creates LUKS2 with 4096-byte sectors \
          only if the disk reports such sectors.",
    cost: "Each small write needs a read-modify-write, in the drive (advice) or, if the guest's logical \
           sector is smaller than the host's, on the host (a warning). In partitions aligned to 1 MiB, \
           writes of 4 KiB blocks need no read-modify-write.",
    fix: "Add <blockio logical_block_size='512' physical_block_size='4096'/> to the <disk> element (virsh \
          edit), then shut the domain down and start it again. Change the logical sector size only on a disk \
          without partitions, because a partition table counts in logical sectors.",
    sources: &[
        "libvirt, Domain XML format, blockio",
        "QEMU hw/block/block.c, blkconf_blocksizes",
        "cryptsetup-luksFormat(8), --sector-size",
    ],
};
