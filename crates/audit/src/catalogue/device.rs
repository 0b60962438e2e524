//! S02x: what the device reports about itself.

use super::{About, Code, Definition, Kind, Severity};

pub(super) const KERNEL_MISALIGNED: Definition = Definition {
    code: Code::S020,
    severity: Severity::Error,
    kind: Kind::Alignment,
    about: About::Device,
    title: "the kernel calls the device misaligned",
    what: "The kernel reports alignment_offset -1 for the device, or (Linux 6.12) what is left of offsets that disagree.",
    why: "Of a stacked device (md, device mapper) it means that members are at different distances from \
          their physical sectors, or that data begins off them: no start on it can be aligned for all. \
          libblkid turns -1 into 0, so parted, fdisk, mkfs.xfs and cryptsetup see nothing. The kernel says -1 \
          also where only an optimal I/O size below is not a multiple of the physical sector; that is S021.",
    cost: "What S001 says, on at least one member. Devices that stand on a misaligned one inherit the -1: in a run over \
           several targets the lowest is reported, and lists them.",
    fix: "Align each member (check them), then recreate the stack on them.",
    sources: &["Linux block/blk-settings.c, blk_stack_limits", "util-linux libblkid/src/topology/topology.c"],
};

pub(super) const BOGUS_IO_OPT: Definition = Definition {
    code: Code::S021,
    severity: Severity::Advice,
    kind: Kind::Device,
    about: About::Device,
    title: "the optimal I/O size cannot be true",
    what: "The device reports an optimal I/O size that no device has: 33553920 (65535 blocks of 512 bytes), what \
           becomes of it when it is rounded down to a larger sector (33550336), a multiple of 0xFFF000, or none \
           of the physical sector or the minimum I/O size.",
    why: "USB bridges fill the field with ones; some HBAs put their own transfer limit in it; md multiplies \
          what its members say. parted 3.5 and LVM 2.03.16 (Debian 12) believe it; LVM ignores 33553920 from 2.03.31 on. \
          fdisk 2.38 ignores 33553920, and what is not a multiple of the physical sector.",
    cost: "Partitions that parted makes by default start at sector 65535, an odd one, and the data of a physical volume at byte 33553920: \
           see S001 and S051.",
    fix: "Give starts in MiB, or align to the minimum (parted -a minimal); pvcreate --dataalignment 1m.",
    sources: &[
        "Linux drivers/scsi/sd.c, sd_validate_opt_xfer_size",
        "Linux block/blk-settings.c, blk_validate_limits (6.11 and later round it down)",
        "util-linux commit bbb66067c (2020) and issue 1221",
        "LVM2 WHATS_NEW, 2.03.31, and lib/device/dev-type.c",
        "Debian bug 1121006 (mpt3sas)",
    ],
};

pub(super) const KNOWN_LIAR: Definition = Definition {
    code: Code::S022,
    severity: Severity::Advice,
    kind: Kind::Device,
    about: About::Device,
    title: "a drive known to misreport its sectors",
    what: "This model is known to have larger physical sectors than it reports.",
    why: "Early Advanced Format drives said 512/512 lest old systems stumble. The list of models, with a \
          source for each, is part of straddle; the figure it gives overrules the drive's.",
    cost: "Tools that trust the drive may start partitions anywhere: parted's minimal alignment accepts \
           every sector.",
    fix: "Give starts in MiB. In doubt treat every disk as having 4096-byte sectors: it never hurts.",
    sources: &["crates/device/src/quirks.toml, a source for each model"],
};

pub(super) const FIRMWARE_OFFSET: Definition = Definition {
    code: Code::S023,
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
    fix: "Of a drive: remove the jumper while nothing is on it. With data on it, leave the jumper, which gives every \
          sector its address, and move what is misaligned (straddle realign). Of a stacked device: align what it is \
          made of.",
    sources: &[
        "Documentation/ABI/stable/sysfs-block, alignment_offset",
        "ATA8-ACS, IDENTIFY DEVICE word 209",
    ],
};

pub(super) const SOURCES_DISAGREE: Definition = Definition {
    code: Code::S024,
    severity: Severity::Advice,
    kind: Kind::Device,
    about: About::Device,
    title: "sources disagree about the physical sector",
    what: "The drive's own answer and the kernel's figure differ.",
    why: "USB bridges and RAID controllers often pass on another figure than the drive's, or none. The \
          larger one is used: aligning to it is right for both.",
    cost: "Nothing by itself; tools that only read the kernel's figure may misalign.",
    fix: "Give starts in MiB.",
    sources: &["ATA8-ACS, IDENTIFY DEVICE word 106", "SBC-4, READ CAPACITY (16)"],
};

pub(super) const FASTER_FORMAT: Definition = Definition {
    code: Code::S025,
    severity: Severity::Advice,
    kind: Kind::Device,
    about: About::Device,
    title: "the drive has a faster sector format",
    what: "The NVMe namespace is formatted with sectors of one size, and says that it is faster with another.",
    why: "A namespace lists the sector sizes that it can be formatted to, each with its relative performance (best, \
          better, good, degraded). Many are shipped with 512-byte sectors for old systems and do better with 4096.",
    cost: "What the drive's maker means by it; measure it, if it matters.",
    fix: "With a backup, or before anything is on it: nvme format DEVICE --lbaf=N. IT DESTROYS EVERYTHING ON THE \
          NAMESPACE, and on a controller that formats all namespaces at once (FNA bit 0) on the whole drive. \
          Some controllers have no such command (OACS bit 1).",
    sources: &[
        "NVM Express NVM Command Set Specification, LBA Format Data Structure, Relative Performance",
        "NVM Express Base Specification, Identify Controller, OACS and FNA",
        "nvme-format(1)",
    ],
};

pub(super) const LARGER_SECTOR: Definition = Definition {
    code: Code::S026,
    severity: Severity::Advice,
    kind: Kind::Device,
    about: About::Device,
    title: "the drive can be set to larger sectors",
    what: "The drive shows sectors that are smaller than its physical ones, and lists larger ones that it can be set to.",
    why: "Many data-centre disks are sold as 512e and can be set to 4Kn: ATA drives list their sizes in the Sector \
          Configuration log, SCSI and SAS drives in VPD page B4h. With logical sectors as large as the physical ones \
          no partition can straddle, and the drive never has to read, change and write a sector.",
    cost: "Nothing, if everything on it is aligned and writes whole physical sectors. Otherwise what S001 says.",
    fix: "Only before anything is on it, or with a backup: hdparm --set-sector-size 4096 --please-destroy-my-drive \
          DEVICE, or sg_format --format --size=4096 DEVICE. IT DESTROYS EVERYTHING ON THE DRIVE. Leave a disk that a \
          BIOS boots from, or that an enclosure or RAID controller for 512-byte sectors uses.",
    sources: &[
        "ATA/ATAPI Command Set 4, Sector Configuration log and SET SECTOR CONFIGURATION EXT",
        "SBC-4, Supported Block Lengths And Protection Types VPD page",
        "hdparm(8)",
        "sg_format(8)",
    ],
};

pub(super) const GUEST_SHOWN_SMALLER: Definition = Definition {
    code: Code::S027,
    severity: Severity::Warning,
    kind: Kind::Device,
    about: About::Device,
    title: "the guest is shown smaller sectors than the storage has",
    what: "A virtual machine's disk reports smaller physical sectors than what it is stored on.",
    why: "QEMU shows 512-byte logical and physical sectors unless libvirt's <blockio> states others, whatever the disk is \
          stored on. Programs in the guest choose their units by these figures: cryptsetup gives LUKS2 sectors of \
          512 bytes, and of 4096 where it is shown such.",
    cost: "A read-modify-write for each such write: in the drive, or, where the guest's logical sector is smaller than \
           the host's (a warning; otherwise advice), in the host. Partitions aligned to 1 MiB and 4 KiB blocks \
           cost nothing.",
    fix: "Add <blockio logical_block_size='512' physical_block_size='4096'/> to the <disk> (virsh edit), shut the domain \
          down and start it. Change the logical size of new disks only: a table counts in it.",
    sources: &[
        "libvirt, Domain XML format, blockio",
        "QEMU hw/block/block.c, blkconf_blocksizes",
        "cryptsetup-luksFormat(8), --sector-size",
    ],
};
