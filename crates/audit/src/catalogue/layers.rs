//! S05x: layers on partitions, from RAID members to logical volumes.

use super::{About, Code, Definition, Kind, Severity};

pub(super) const MD_DATA_STRADDLES: Definition = Definition {
    code: Code::S050,
    severity: Severity::Error,
    kind: Kind::Alignment,
    about: About::Layer,
    title: "RAID member's data starts inside a physical sector",
    what: "The data offset of a Linux software RAID member does not fall on a physical sector of the disk.",
    why: "The array's byte 0 is at the member's data offset. Offsets that are not a multiple of the sector come \
          from --data-offset given in sectors, from mdadm before 3.2 (136 or 272 sectors), or from bitmaps \
          moved by hand.",
    cost: "Every block of whatever is on the array lies across two sectors of this member: see S001.",
    fix: "Recreate the array with --data-offset; or remove the member, and add it again once the others \
           are right.",
    sources: &[
        "mdadm super1.c, validate_geometry1 and data_offset",
        "Linux include/uapi/linux/raid/md_p.h, struct mdp_superblock_1",
    ],
};

pub(super) const PV_DATA_STRADDLES: Definition = Definition {
    code: Code::S051,
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
    fix: "pvcreate --dataalignment 1m, with the data restored; or move the extents to a good PV (pvmove).",
    sources: &[
        "LVM2 lib/format_text/layout.h, struct pv_header",
        "LVM2 lib/metadata/metadata.c, set_pe_align",
    ],
};

pub(super) const LV_SEGMENT_STRADDLES: Definition = Definition {
    code: Code::S052,
    severity: Severity::Error,
    kind: Kind::Alignment,
    about: About::Layer,
    title: "a logical volume's segment is shifted",
    what: "A segment of a logical volume starts at a place where its blocks fall inside physical sectors, \
           though the physical volume's data is aligned. So does the data of a thin pool, the store of a snapshot, or a cache.",
    why: "Extents of a size that is not a multiple of the physical sector (vgcreate -s 1k) put segments \
          anywhere. In a concatenation each segment counts from the end of the one before: the kernel \
          compares only the segments' starts on their devices and reports alignment offset 0.",
    cost: "Blocks in that segment lie across two sectors: see S001.",
    fix: "Use extents of 4 MiB; move the volume (pvmove) after that.",
    sources: &[
        "Linux drivers/md/dm-table.c, dm_calculate_queue_limits",
        "LVM2 metadata text, segment start_extent",
    ],
};

pub(super) const LUKS_PAYLOAD_STRADDLES: Definition = Definition {
    code: Code::S053,
    severity: Severity::Error,
    kind: Kind::Alignment,
    about: About::Layer,
    title: "LUKS payload starts inside a physical sector",
    what: "The encrypted payload of a LUKS container does not fall on a physical sector of the disk.",
    why: "The payload follows the header and key slots. Old cryptsetup put it at 1032 or 2056 sectors of 512 \
          bytes, or where --align-payload said.",
    cost: "Every block in the container lies across two sectors: see S001.",
    fix: "cryptsetup luksFormat --align-payload 2048 (LUKS1) or --offset 32768 (LUKS2), with the data \
           restored; or cryptsetup reencrypt.",
    sources: &[
        "LUKS1 on-disk format specification, payload-offset",
        "LUKS2 on-disk format specification, segments",
    ],
};

pub(super) const PAYLOAD_STRADDLES: Definition = Definition {
    code: Code::S054,
    severity: Severity::Error,
    kind: Kind::Alignment,
    about: About::Layer,
    title: "a mapping's payload starts inside a physical sector",
    what: "What a mapping (bcache, dm-integrity, a nested partition table, …) provides does not fall on a \
           physical sector of the disk.",
    why: "Its header and the offset of its data add up with those of all layers below.",
    cost: "Every block in it lies across two sectors: see S001.",
    fix: "Recreate the mapping with an aligned data offset.",
    sources: &["Linux drivers/md/bcache/bcache_ondisk.h", "Linux drivers/md/dm-integrity.c"],
};

pub(super) const LAYER_OFF_UNIT: Definition = Definition {
    code: Code::S055,
    severity: Severity::Warning,
    kind: Kind::Alignment,
    about: About::Layer,
    title: "a layer's data is off a larger unit",
    what: "A layer's data is on a physical sector, but off the indirection unit, minimum I/O or stripe of \
           the device.",
    why: "Each layer adds its own offset; 1 MiB everywhere suits units that are powers of two, stripes of \
          three data disks it does not.",
    cost: "What S003, S004 and S005 say of partitions.",
    fix: "Align that layer's data to the unit.",
    sources: &["Linux block/blk-settings.c, blk_stack_limits"],
};

pub(super) const LAYERS_CANCEL: Definition = Definition {
    code: Code::S056,
    severity: Severity::Advice,
    kind: Kind::Alignment,
    about: About::Layer,
    title: "two layers that are off make up for each other",
    what: "A layer below is off a physical sector, and the offset of this one's data brings it back.",
    why: "Tools that follow the kernel's alignment_offset do it on purpose (pvcreate on a partition at 63).",
    cost: "Nothing as it is: a start is judged by the data that is written above it, so S001 and S050 to S055 are not \
           reported where all of it is aligned. Moving the partition alone, or recreating the layer with default \
           offsets, misaligns what is aligned now.",
    fix: "Leave both or move both.",
    sources: &["LVM2 lib/metadata/metadata.c, set_pe_align_offset"],
};

pub(super) const OFF_ARRAY_STRIPE: Definition = Definition {
    code: Code::S057,
    severity: Severity::Warning,
    kind: Kind::Alignment,
    about: About::Layer,
    title: "a layer starts off the stripe of the array below",
    what: "What is on a RAID starts on a sector, but not on a multiple of the array's stripe in the array's \
           own space. It is reported once per array for all volumes.",
    why: "A partition, PV or payload inside the array counts from the array's byte 0. 1 MiB is not a multiple \
          of a stripe of three data disks, nor of one larger than 1 MiB.",
    cost: "Writes of whole stripes become two partial ones, for which RAID 5 and 6 must read to compute the parity: \
           see S005.",
    fix: "Align the layer to the stripe: pvcreate --dataalignment, cryptsetup --align-payload or --offset, \
           a partition start that is a multiple.",
    sources: &["Linux drivers/md/raid5.c, raid5_set_limits"],
};

pub(super) const MD_CHUNK_SMALL: Definition = Definition {
    code: Code::S058,
    severity: Severity::Warning,
    kind: Kind::Alignment,
    about: About::Layer,
    title: "RAID chunk is not a multiple of the drive's unit",
    what: "The chunk of a striped array is not a whole number of physical sectors or indirection units.",
    why: "Neighbouring chunks lie on different members: a unit that a chunk covers in part is completed by \
          data that belongs elsewhere in the array.",
    cost: "Streams of writes end each chunk with a read-modify-write.",
    fix: "Use a chunk of 64 KiB or more (512 KiB is mdadm's default).",
    sources: &["mdadm(8), --chunk"],
};
