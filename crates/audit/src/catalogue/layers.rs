//! S05x: layers on partitions, from RAID members to logical volumes.

use super::Definition;

pub(super) const MD_DATA_STRADDLES: Definition = Definition {
    title: "RAID member's data starts inside a physical sector",
    what: "The data of a Linux software RAID member does not start on a physical sector boundary of the \
           disk.",
    why: "The array's data starts at the member's data offset. Misaligned offsets come from an explicit \
          --data-offset in sectors, from mdadm before 3.2 (136 or 272 sectors), or from a bitmap that was \
          moved by hand.",
    cost: "Every block on the array spans two sectors of this member (see S001).",
    fix: "Recreate the array with an aligned --data-offset. If the other members are aligned, it is enough \
          to remove this member and add it again.",
    sources: &[
        "mdadm super1.c, validate_geometry1 and data_offset",
        "Linux include/uapi/linux/raid/md_p.h, struct mdp_superblock_1",
    ],
};

pub(super) const PV_DATA_STRADDLES: Definition = Definition {
    title: "LVM data starts inside a physical sector",
    what: "The first extent of an LVM physical volume (pe_start) does not start on a physical sector \
           boundary of the disk.",
    why: "All extents, and therefore all logical volumes, are located relative to pe_start. LVM before \
          2.02.73 started the extents at 192 KiB and accepted any alignment. pvcreate relies on the values \
          that the device reports, which may be wrong.",
    cost: "Every block on every logical volume spans two sectors (see S001).",
    fix: "Recreate the physical volume with pvcreate --dataalignment 1m and restore the data, or move the \
          extents to an aligned physical volume (pvmove).",
    sources: &[
        "LVM2 lib/format_text/layout.h, struct pv_header",
        "LVM2 lib/metadata/metadata.c, set_pe_align",
    ],
};

pub(super) const LV_SEGMENT_STRADDLES: Definition = Definition {
    title: "a logical volume's segment is misaligned",
    what: "A segment of a logical volume is misaligned, although the physical volume's data is aligned. The \
           rule also covers the data of a thin pool, the copy-on-write store of a snapshot, and a cache.",
    why: "If the extent size is not a multiple of the physical sector (vgcreate -s 1k), segments may start \
          anywhere. When segments are concatenated, each one starts where the previous one ends. The kernel \
          checks only where each segment starts on its device, and reports an alignment offset of 0.",
    cost: "Blocks in that segment span two sectors (see S001).",
    fix: "Use 4 MiB extents, then move the volume (pvmove).",
    sources: &[
        "Linux drivers/md/dm-table.c, dm_calculate_queue_limits",
        "LVM2 metadata text, segment start_extent",
    ],
};

pub(super) const LUKS_PAYLOAD_STRADDLES: Definition = Definition {
    title: "LUKS payload starts inside a physical sector",
    what: "The encrypted payload of a LUKS container does not start on a physical sector boundary of the \
           disk.",
    why: "The payload follows the header and key slots. Old versions of cryptsetup put the payload at \
          512-byte sector 1032 or 2056, unless --align-payload was used.",
    cost: "Every block in the container spans two sectors (see S001).",
    fix: "Recreate the container with cryptsetup luksFormat --align-payload 2048 (LUKS1) or --offset 32768 \
          (LUKS2) and restore the data, or use cryptsetup reencrypt.",
    sources: &[
        "LUKS1 on-disk format specification, payload-offset",
        "LUKS2 on-disk format specification, segments",
    ],
};

pub(super) const PAYLOAD_STRADDLES: Definition = Definition {
    title: "a mapping's payload starts inside a physical sector",
    what: "The data of a mapping (bcache, dm-integrity, a nested partition table, …) does not start on a \
           physical sector boundary of the disk.",
    why: "The offset of the mapping's data is added to the offsets of all layers below.",
    cost: "Every block in the mapping spans two sectors (see S001).",
    fix: "Recreate the mapping with an aligned data offset.",
    sources: &["Linux drivers/md/bcache/bcache_ondisk.h", "Linux drivers/md/dm-integrity.c"],
};

pub(super) const LAYER_OFF_UNIT: Definition = Definition {
    title: "a layer's data is not aligned to a larger unit",
    what: "A layer's data is aligned to the physical sector, but not to the indirection unit, minimum I/O \
           size or stripe of the device.",
    why: "Each layer adds its own offset. 1 MiB is a multiple of every power-of-two unit up to that size, \
          but not of the stripe of an array with three data disks.",
    cost: "The same as S003, S004 and S005 for partitions.",
    fix: "Align the layer's data to the unit.",
    sources: &["Linux block/blk-settings.c, blk_stack_limits"],
};

pub(super) const LAYERS_CANCEL: Definition = Definition {
    title: "two misaligned layers cancel each other out",
    what: "A layer below is misaligned, and the offset of this layer's data compensates for that.",
    why: "Tools that follow the kernel's alignment_offset do this on purpose. For example, pvcreate \
          compensates for a partition that starts at sector 63.",
    cost: "Nothing at present. If all data is aligned, S001 and S050 to S055 are not reported, because only \
           the position of the data matters. Moving only the partition, or recreating the layer with default \
           offsets, would misalign the data.",
    fix: "Leave both layers where they are, or move both.",
    sources: &["LVM2 lib/metadata/metadata.c, set_pe_align_offset"],
};

pub(super) const OFF_ARRAY_STRIPE: Definition = Definition {
    title: "a layer is not aligned to the stripe of the array below",
    what: "A layer on a RAID starts on a physical sector boundary, but not at a multiple of the array's \
           stripe from the start of the array. The finding is reported once per array, for all volumes on \
           it.",
    why: "What matters is the distance of the partition, PV or payload from the start of the array. 1 MiB is \
          not a multiple of the stripe of an array with three data disks, or of any stripe larger than 1 \
          MiB.",
    cost: "Each write of a whole stripe becomes two partial writes, and RAID 5 and 6 must then read data to \
           compute the parity (see S005).",
    fix: "Align the layer to the stripe. Use pvcreate --dataalignment, or cryptsetup --align-payload or \
          --offset, or start the partition at a multiple of the stripe.",
    sources: &["Linux drivers/md/raid5.c, raid5_set_limits"],
};

pub(super) const MD_CHUNK_SMALL: Definition = Definition {
    title: "RAID chunk is not a multiple of the drive's unit",
    what: "The chunk of a striped array is not a whole number of physical sectors or indirection units.",
    why: "Consecutive chunks are on different members, so the rest of a partly covered unit holds data from \
          elsewhere in the array.",
    cost: "A sequential write needs a read-modify-write at the end of each chunk.",
    fix: "Use a chunk of 64 KiB or more (512 KiB is mdadm's default).",
    sources: &["mdadm(8), --chunk"],
};
