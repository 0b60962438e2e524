//! The published form of layers and containers. Sizes and offsets are bytes.

use schemars::JsonSchema;
use serde::Serialize;
use straddle_device::image::Container;
use straddle_layout::layer::{Facts, Layer, Segment};
use straddle_layout::view::Piece;
use straddle_units::ByteCount;

/// The most runs of a layer's space that are reported.
const PIECES: usize = 64;

/// A layer.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Layer")]
pub(crate) struct LayerReport {
    /// What it is: blkid's TYPE where it has one, "LV" for a logical volume, "table" for a nested partition table.
    kind: &'static str,
    /// What it is called.
    #[serde(skip_serializing_if = "String::is_empty")]
    name: String,
    /// Its first byte on the device below.
    parent_offset_bytes: u64,
    /// Its first byte on the disk; absent when that is elsewhere.
    #[serde(skip_serializing_if = "Option::is_none")]
    offset_bytes: Option<u64>,
    /// Its size.
    size_bytes: u64,
    /// Its own figures.
    #[serde(flatten)]
    facts: FactsReport,
    /// Where the space that it provides lies, run by run (the first 64).
    #[serde(skip_serializing_if = "Vec::is_empty")]
    space: Vec<PieceReport>,
    /// What stands on that space.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    layers: Vec<LayerReport>,
    /// What could not be followed, and why.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    remarks: Vec<String>,
}

/// A run of bytes.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Piece")]
struct PieceReport {
    /// Its first byte in the layer's space.
    layer_offset_bytes: u64,
    /// Its length.
    size_bytes: u64,
    /// Its first byte on the device below.
    parent_offset_bytes: u64,
    /// Its first byte on the disk.
    offset_bytes: u64,
}

/// A layer's figures, by what it is.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(tag = "class", rename_all = "snake_case")]
#[schemars(rename = "Facts")]
enum FactsReport {
    /// A member of a Linux software RAID.
    Md {
        /// Metadata version.
        metadata_version: &'static str,
        /// RAID level; -1 is linear.
        level: i32,
        /// Chunk; 0 where nothing is striped.
        chunk_bytes: u64,
        /// Full stripe.
        #[serde(skip_serializing_if = "Option::is_none")]
        stripe_bytes: Option<u64>,
        /// Members.
        raid_disks: u32,
        /// This member's place.
        #[serde(skip_serializing_if = "Option::is_none")]
        role: Option<u32>,
        /// Where the data starts on the member.
        data_offset_bytes: u64,
    },
    /// An LVM physical volume.
    Pv {
        /// Volume group.
        vg: String,
        /// Where the first extent starts.
        data_start_bytes: u64,
        /// Size of an extent.
        extent_bytes: u64,
    },
    /// An LVM logical volume.
    Lv {
        /// Its segments.
        segments: Vec<SegmentReport>,
    },
    /// A LUKS container.
    Luks {
        /// 1 or 2.
        version: u16,
        /// Where the payload starts.
        #[serde(skip_serializing_if = "Option::is_none")]
        payload_offset_bytes: Option<u64>,
        /// Encryption sector.
        sector_bytes: u64,
    },
    /// Another mapping.
    Mapped {
        /// Where the payload starts.
        #[serde(skip_serializing_if = "Option::is_none")]
        payload_offset_bytes: Option<u64>,
        /// Its block.
        #[serde(skip_serializing_if = "Option::is_none")]
        block_bytes: Option<u64>,
    },
    /// A file system, or swap.
    FileSystem {
        /// Block.
        block_bytes: u64,
        /// Smallest write, where another.
        #[serde(skip_serializing_if = "Option::is_none")]
        sector_bytes: Option<u64>,
        /// Smallest write of the log.
        #[serde(skip_serializing_if = "Option::is_none")]
        log_sector_bytes: Option<u64>,
        /// Cluster.
        #[serde(skip_serializing_if = "Option::is_none")]
        cluster_bytes: Option<u64>,
        /// Where blocks or clusters are counted from, in the file system.
        #[serde(skip_serializing_if = "Option::is_none")]
        data_start_bytes: Option<u64>,
        /// What it takes a chunk to be.
        #[serde(skip_serializing_if = "Option::is_none")]
        stripe_unit_bytes: Option<u64>,
        /// What it takes a stripe to be.
        #[serde(skip_serializing_if = "Option::is_none")]
        stripe_width_bytes: Option<u64>,
        /// Exponent of the smallest write (ZFS).
        #[serde(skip_serializing_if = "Option::is_none")]
        ashift: Option<u32>,
        /// Where it believes to start on the disk, in its sectors.
        #[serde(skip_serializing_if = "Option::is_none")]
        hidden_sectors: Option<u64>,
    },
    /// A nested partition table.
    Table {
        /// The sector size that it counts in.
        sector_bytes: u64,
    },
    /// Known by its signature only.
    Opaque,
}

/// A segment of a logical volume.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Segment")]
struct SegmentReport {
    /// First byte in the volume.
    layer_offset_bytes: u64,
    /// Length.
    size_bytes: u64,
    /// LVM's segment type.
    kind: String,
    /// Stripes or images.
    stripes: u32,
    /// Size of a stripe's part on one disk; 0 where nothing is striped.
    stripe_size_bytes: u64,
    /// First byte on this physical volume, where it has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pv_offset_bytes: Option<u64>,
}

/// The file format around an image's disk.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Container")]
pub(crate) struct ContainerReport {
    /// Format.
    format: String,
    /// The kind of it.
    variant: &'static str,
    /// What is kept together in the file.
    block_bytes: u64,
    /// The alignment that all blocks keep in the file, as far as looked at; absent when there is none yet.
    #[serde(skip_serializing_if = "Option::is_none")]
    alignment_bytes: Option<u64>,
    /// How many blocks were looked at.
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
        remarks: layer.remarks.clone(),
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
