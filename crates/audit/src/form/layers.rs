//! Layers and image formats in `check --json`. Sizes and offsets are in bytes.

use schemars::JsonSchema;
use serde::Serialize;
use straddle_device::image::Container;
use straddle_layout::layer::{Facts, Layer, Segment};
use straddle_layout::view::Piece;
use straddle_units::ByteCount;

/// The maximum number of runs of a layer's space that are reported.
const PIECES: usize = 64;

/// A layer.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Layer")]
pub(crate) struct LayerReport {
    /// The type of the layer: the TYPE that blkid reports, if it has one; "LV" for a logical volume; "table"
    /// for a nested partition table.
    kind: &'static str,
    /// The name of the layer; absent if it has none.
    #[serde(skip_serializing_if = "String::is_empty")]
    name: String,
    /// The offset of its first byte on the device below, in bytes.
    parent_offset_bytes: u64,
    /// The offset of its first byte on the disk, in bytes; absent if that byte is not on this disk.
    #[serde(skip_serializing_if = "Option::is_none")]
    offset_bytes: Option<u64>,
    /// The size in bytes.
    size_bytes: u64,
    /// Properties that depend on the class of the layer.
    #[serde(flatten)]
    facts: FactsReport,
    /// Where the space that it provides lies: the first 64 contiguous runs.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    space: Vec<PieceReport>,
    /// The layers on that space.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    layers: Vec<LayerReport>,
    /// What could not be followed, and why.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    notes: Vec<String>,
}

/// A contiguous run of bytes.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Piece")]
struct PieceReport {
    /// The offset of its first byte in the layer's space.
    layer_offset_bytes: u64,
    /// The length in bytes.
    size_bytes: u64,
    /// The offset of its first byte on the device below.
    parent_offset_bytes: u64,
    /// The offset of its first byte on the disk.
    offset_bytes: u64,
}

/// The properties of a layer, by its class.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(tag = "class", rename_all = "snake_case")]
#[schemars(rename = "Facts")]
enum FactsReport {
    /// A member of a Linux software RAID array.
    Md {
        /// The metadata version: "0.90", "1.0", "1.1" or "1.2".
        metadata_version: &'static str,
        /// The RAID level; -1 is linear, -4 multipath, -5 faulty.
        level: i32,
        /// The chunk size in bytes; 0 if nothing is striped.
        chunk_bytes: u64,
        /// The data bytes of a full stripe; absent if nothing is striped, or if it cannot be determined.
        #[serde(skip_serializing_if = "Option::is_none")]
        stripe_bytes: Option<u64>,
        /// The number of members, without spares.
        raid_disks: u32,
        /// The index of this member; absent for a spare, and if unknown.
        #[serde(skip_serializing_if = "Option::is_none")]
        role: Option<u32>,
        /// The offset of the data on the member, in bytes.
        data_offset_bytes: u64,
    },
    /// An LVM physical volume.
    Pv {
        /// The name of the volume group.
        vg: String,
        /// The offset of the first extent, in bytes.
        data_start_bytes: u64,
        /// The size of an extent in bytes.
        extent_bytes: u64,
    },
    /// An LVM logical volume.
    Lv {
        /// The segments of the volume.
        segments: Vec<SegmentReport>,
    },
    /// A LUKS container.
    Luks {
        /// The LUKS version: 1 or 2.
        version: u16,
        /// The offset of the payload, in bytes; absent if unknown.
        #[serde(skip_serializing_if = "Option::is_none")]
        payload_offset_bytes: Option<u64>,
        /// The encryption sector in bytes.
        sector_bytes: u64,
    },
    /// Another mapping.
    Mapped {
        /// The offset of the payload, in bytes; absent if unknown.
        #[serde(skip_serializing_if = "Option::is_none")]
        payload_offset_bytes: Option<u64>,
        /// The block size in bytes; absent if it has none.
        #[serde(skip_serializing_if = "Option::is_none")]
        block_bytes: Option<u64>,
    },
    /// A file system, or swap space.
    FileSystem {
        /// The block size in bytes (the cluster of FAT, exFAT and NTFS); 0 if none is recorded.
        block_bytes: u64,
        /// The smallest write in bytes, if it is not the block.
        #[serde(skip_serializing_if = "Option::is_none")]
        sector_bytes: Option<u64>,
        /// The smallest write of the log in bytes (XFS).
        #[serde(skip_serializing_if = "Option::is_none")]
        log_sector_bytes: Option<u64>,
        /// The cluster in bytes: a larger unit of allocation (ext4 bigalloc), or that of FAT, exFAT and NTFS.
        #[serde(skip_serializing_if = "Option::is_none")]
        cluster_bytes: Option<u64>,
        /// The offset in the file system from which blocks or clusters are counted; absent if that is 0.
        #[serde(skip_serializing_if = "Option::is_none")]
        data_start_bytes: Option<u64>,
        /// The RAID chunk that the file system was made for, in bytes (ext4 stride, XFS sunit).
        #[serde(skip_serializing_if = "Option::is_none")]
        stripe_unit_bytes: Option<u64>,
        /// The full RAID stripe that the file system was made for, in bytes.
        #[serde(skip_serializing_if = "Option::is_none")]
        stripe_width_bytes: Option<u64>,
        /// The smallest write as a power of two (ZFS ashift).
        #[serde(skip_serializing_if = "Option::is_none")]
        ashift: Option<u32>,
        /// Its start on the disk as it records it, in sectors of its own size (the "hidden sectors" of NTFS
        /// and FAT); 0 means unspecified.
        #[serde(skip_serializing_if = "Option::is_none")]
        hidden_sectors: Option<u64>,
    },
    /// A nested partition table.
    Table {
        /// The size in bytes of the sectors in which the table counts.
        sector_bytes: u64,
    },
    /// A layer that is known only by its signature.
    Opaque,
}

/// A segment of a logical volume.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Segment")]
struct SegmentReport {
    /// The offset of its first byte in the volume.
    layer_offset_bytes: u64,
    /// The length in bytes.
    size_bytes: u64,
    /// The segment type of LVM; "striped" with one stripe is linear.
    kind: String,
    /// The number of stripes or images.
    stripes: u32,
    /// The bytes of a stripe on one disk; 0 if nothing is striped.
    stripe_size_bytes: u64,
    /// The offset of its data on this physical volume; absent if it has none here, or not in one run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pv_offset_bytes: Option<u64>,
}

/// The image format of a file.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Container")]
pub(crate) struct ContainerReport {
    /// The name of the format.
    format: String,
    /// The variant or version of the format.
    variant: &'static str,
    /// The size in bytes of the blocks that the file stores contiguously.
    block_bytes: u64,
    /// The alignment in the file that all sampled blocks have, in bytes; absent if no block is stored yet.
    #[serde(skip_serializing_if = "Option::is_none")]
    alignment_bytes: Option<u64>,
    /// The number of blocks that were sampled.
    blocks_sampled: u32,
}

pub(crate) fn container_report(container: &Container) -> ContainerReport {
    ContainerReport {
        format: container.format.to_string(),
        variant: container.variant,
        block_bytes: container.block.get(),
        alignment_bytes: container.placement.alignment().map(ByteCount::get),
        blocks_sampled: container.placement.units(),
    }
}

pub(crate) fn layer_report(layer: &Layer) -> LayerReport {
    LayerReport {
        kind: layer.kind.name(),
        name: layer.name.clone(),
        parent_offset_bytes: layer.below.start().get(),
        offset_bytes: layer.drive.map(|at| at.get()),
        size_bytes: layer.below.len().get(),
        facts: facts_report(&layer.facts),
        space: layer.space.iter().take(PIECES).map(piece_report).collect(),
        layers: layer.children.iter().map(layer_report).collect(),
        notes: layer.remarks.clone(),
    }
}

fn piece_report(piece: &Piece) -> PieceReport {
    PieceReport {
        layer_offset_bytes: piece.span.start().get(),
        size_bytes: piece.span.len().get(),
        parent_offset_bytes: piece.below.get(),
        offset_bytes: piece.drive.get(),
    }
}

fn facts_report(facts: &Facts) -> FactsReport {
    let bytes = |size: Option<ByteCount>| size.map(ByteCount::get);
    match facts {
        Facts::Md(md) => FactsReport::Md {
            metadata_version: md.version,
            level: md.level,
            chunk_bytes: md.chunk.get(),
            stripe_bytes: bytes(md.stripe()),
            raid_disks: md.raid_disks,
            role: md.role,
            data_offset_bytes: md.data_offset.get(),
        },
        Facts::Pv(pv) => FactsReport::Pv {
            vg: pv.vg.clone(),
            data_start_bytes: pv.data_start.get(),
            extent_bytes: pv.extent_size.get(),
        },
        Facts::Lv(lv) => FactsReport::Lv { segments: lv.segments.iter().map(segment_report).collect() },
        Facts::Luks(luks) => FactsReport::Luks {
            version: luks.version,
            payload_offset_bytes: luks.payload.map(|at| at.get()),
            sector_bytes: luks.sector_size.get(),
        },
        Facts::Mapped(mapped) => FactsReport::Mapped {
            payload_offset_bytes: mapped.payload.map(|at| at.get()),
            block_bytes: bytes(mapped.block),
        },
        Facts::FileSystem(fs) => FactsReport::FileSystem {
            block_bytes: fs.block.get(),
            sector_bytes: bytes(fs.sector),
            log_sector_bytes: bytes(fs.log_sector),
            cluster_bytes: bytes(fs.cluster),
            data_start_bytes: fs.data_start.map(|at| at.get()),
            stripe_unit_bytes: bytes(fs.stripe_unit),
            stripe_width_bytes: bytes(fs.stripe_width),
            ashift: fs.ashift,
            hidden_sectors: fs.hidden_sectors,
        },
        Facts::Table(stack) => FactsReport::Table { sector_bytes: stack.block.get() },
        Facts::Opaque => FactsReport::Opaque,
    }
}

fn segment_report(segment: &Segment) -> SegmentReport {
    SegmentReport {
        layer_offset_bytes: segment.span.start().get(),
        size_bytes: segment.span.len().get(),
        kind: segment.kind.clone(),
        stripes: segment.stripes,
        stripe_size_bytes: segment.stripe_size.get(),
        pv_offset_bytes: segment.on_pv.map(|at| at.get()),
    }
}
