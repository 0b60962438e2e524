//! The published form of layers and containers. Sizes and offsets are bytes.

use schemars::JsonSchema;
use serde::Serialize;
use straddle_device::image::Container;
use straddle_layout::layer::{Facts, Layer, Segment};
use straddle_layout::view::Piece;
use straddle_units::ByteCount;

/// So many runs of a layer's space are told.
const PIECES: usize = 64;

/// A layer.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct LayerReport {
    /// What it is: blkid's TYPE where it has one, "LV" for a logical volume, "table" for a nested partition table.
    kind: &'static str,
    /// What it is called.
    #[serde(skip_serializing_if = "String::is_empty")]
    name: String,
    /// Its first byte on the device below.
    below: u64,
    /// Its first byte on the disk; absent when that is elsewhere.
    #[serde(skip_serializing_if = "Option::is_none")]
    byte: Option<u64>,
    /// Its size.
    size: u64,
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
struct PieceReport {
    /// Its first byte in the layer's space.
    at: u64,
    /// Its length.
    size: u64,
    /// Its first byte on the device below.
    below: u64,
    /// Its first byte on the disk.
    byte: u64,
}

/// A layer's figures, by what it is.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(tag = "is", rename_all = "snake_case")]
enum FactsReport {
    /// A member of a Linux software RAID.
    Md {
        /// Metadata version.
        metadata: &'static str,
        /// RAID level; -1 is linear.
        level: i32,
        /// Chunk; 0 where nothing is striped.
        chunk: u64,
        /// Full stripe.
        #[serde(skip_serializing_if = "Option::is_none")]
        stripe: Option<u64>,
        /// Members.
        raid_disks: u32,
        /// This member's place.
        #[serde(skip_serializing_if = "Option::is_none")]
        role: Option<u32>,
        /// Where the data starts on the member.
        data_offset: u64,
    },
    /// An LVM physical volume.
    Pv {
        /// Volume group.
        vg: String,
        /// Where the first extent starts.
        data_start: u64,
        /// Size of an extent.
        extent_size: u64,
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
        payload: Option<u64>,
        /// Encryption sector.
        sector_size: u64,
    },
    /// Another mapping.
    Mapped {
        /// Where the payload starts.
        #[serde(skip_serializing_if = "Option::is_none")]
        payload: Option<u64>,
        /// Its block.
        #[serde(skip_serializing_if = "Option::is_none")]
        block: Option<u64>,
    },
    /// A file system, or swap.
    FileSystem {
        /// Block.
        block: u64,
        /// Smallest write, where another.
        #[serde(skip_serializing_if = "Option::is_none")]
        sector: Option<u64>,
        /// Smallest write of the log.
        #[serde(skip_serializing_if = "Option::is_none")]
        log_sector: Option<u64>,
        /// Cluster.
        #[serde(skip_serializing_if = "Option::is_none")]
        cluster: Option<u64>,
        /// Where blocks or clusters are counted from, in the file system.
        #[serde(skip_serializing_if = "Option::is_none")]
        data_start: Option<u64>,
        /// What it takes a chunk to be.
        #[serde(skip_serializing_if = "Option::is_none")]
        stripe_unit: Option<u64>,
        /// What it takes a stripe to be.
        #[serde(skip_serializing_if = "Option::is_none")]
        stripe_width: Option<u64>,
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
        sector_size: u64,
    },
    /// Known by its signature only.
    Opaque,
}

/// A segment of a logical volume.
#[derive(Debug, Serialize, JsonSchema)]
struct SegmentReport {
    /// First byte in the volume.
    at: u64,
    /// Length.
    size: u64,
    /// LVM's segment type.
    kind: String,
    /// Stripes or images.
    stripes: u32,
    /// Size of a stripe's part on one disk; 0 where nothing is striped.
    stripe_size: u64,
    /// First byte on this physical volume, where it has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    on_pv: Option<u64>,
}

/// The file format around an image's disk.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct ContainerReport {
    /// Format.
    format: String,
    /// The kind of it.
    variant: &'static str,
    /// What is kept together in the file.
    block: u64,
    /// The alignment that all blocks keep in the file, as far as looked at; absent when there is none yet.
    #[serde(skip_serializing_if = "Option::is_none")]
    alignment: Option<u64>,
    /// How many blocks were looked at.
    looked_at: u32,
}

pub(crate) fn container_report(container: &Container) -> ContainerReport {
    ContainerReport {
        format: container.format.to_string(),
        variant: container.variant,
        block: container.block.get(),
        alignment: container.placement.alignment().map(ByteCount::get),
        looked_at: container.placement.units(),
    }
}

pub(crate) fn layer_report(layer: &Layer) -> LayerReport {
    LayerReport {
        kind: layer.kind.name(),
        name: layer.name.clone(),
        below: layer.below.start().get(),
        byte: layer.drive.map(|at| at.get()),
        size: layer.below.len().get(),
        facts: facts_report(&layer.facts),
        space: layer.space.iter().take(PIECES).map(piece_report).collect(),
        layers: layer.children.iter().map(layer_report).collect(),
        remarks: layer.remarks.clone(),
    }
}

fn piece_report(piece: &Piece) -> PieceReport {
    PieceReport {
        at: piece.span.start().get(),
        size: piece.span.len().get(),
        below: piece.below.get(),
        byte: piece.drive.get(),
    }
}

fn facts_report(facts: &Facts) -> FactsReport {
    let bytes = |size: Option<ByteCount>| size.map(ByteCount::get);
    match facts {
        Facts::Md(md) => FactsReport::Md {
            metadata: md.version,
            level: md.level,
            chunk: md.chunk.get(),
            stripe: bytes(md.stripe()),
            raid_disks: md.raid_disks,
            role: md.role,
            data_offset: md.data_offset.get(),
        },
        Facts::Pv(pv) => FactsReport::Pv {
            vg: pv.vg.clone(),
            data_start: pv.data_start.get(),
            extent_size: pv.extent_size.get(),
        },
        Facts::Lv(lv) => FactsReport::Lv { segments: lv.segments.iter().map(segment_report).collect() },
        Facts::Luks(luks) => FactsReport::Luks {
            version: luks.version,
            payload: luks.payload.map(|at| at.get()),
            sector_size: luks.sector_size.get(),
        },
        Facts::Mapped(mapped) => {
            FactsReport::Mapped { payload: mapped.payload.map(|at| at.get()), block: bytes(mapped.block) }
        }
        Facts::FileSystem(fs) => FactsReport::FileSystem {
            block: fs.block.get(),
            sector: bytes(fs.sector),
            log_sector: bytes(fs.log_sector),
            cluster: bytes(fs.cluster),
            data_start: fs.data_start.map(|at| at.get()),
            stripe_unit: bytes(fs.stripe_unit),
            stripe_width: bytes(fs.stripe_width),
            ashift: fs.ashift,
            hidden_sectors: fs.hidden_sectors,
        },
        Facts::Table(stack) => FactsReport::Table { sector_size: stack.block.get() },
        Facts::Opaque => FactsReport::Opaque,
    }
}

fn segment_report(segment: &Segment) -> SegmentReport {
    SegmentReport {
        at: segment.span.start().get(),
        size: segment.span.len().get(),
        kind: segment.kind.clone(),
        stripes: segment.stripes,
        stripe_size: segment.stripe_size.get(),
        on_pv: segment.on_pv.map(|at| at.get()),
    }
}
