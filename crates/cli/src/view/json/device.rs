//! A device or an image in `check --json`: its figures, each with its sources.

use schemars::JsonSchema;
use serde::Serialize;
use straddle_device::DeviceKind;
use straddle_device::identify::RotationRate;
use straddle_device::topology::{AlignmentOffset, AtomicWrites, Figure, Topology};
use straddle_examine::Examined;
use straddle_units::ByteCount;

/// A figure with its sources.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "{T}Figure")]
struct FigureReport<T> {
    /// The value in force; sizes in bytes.
    value: T,
    /// Who says it.
    source: String,
    /// What other sources say.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    others: Vec<ClaimReport<T>>,
    /// Why the value in force was preferred, where sources disagree.
    #[serde(skip_serializing_if = "Option::is_none")]
    why: Option<&'static str>,
}

/// What one more source says.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "{T}Claim")]
struct ClaimReport<T> {
    /// What it says.
    value: T,
    /// Who says it.
    source: String,
}

/// A size.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(transparent)]
#[schemars(inline, rename = "Byte")]
struct Bytes(u64);

/// A place, or -1.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(transparent)]
#[schemars(inline, rename = "Offset")]
struct Offset(i64);

/// What a device can write atomically, in bytes.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Atomic")]
struct AtomicReport {
    /// Smallest atomic write.
    unit_min_bytes: u64,
    /// Largest atomic write.
    unit_max_bytes: u64,
    /// Multiple that none may cross; 0 for none.
    boundary_bytes: u64,
}

/// A device or image.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Device")]
pub(super) struct DeviceReport {
    /// "image" or "block device".
    kind: &'static str,
    /// Size in bytes.
    size_bytes: u64,
    /// Manufacturer.
    #[serde(skip_serializing_if = "Option::is_none")]
    vendor: Option<String>,
    /// Model.
    #[serde(skip_serializing_if = "Option::is_none")]
    model: Option<String>,
    /// Whether it spins.
    #[serde(skip_serializing_if = "Option::is_none")]
    rotational: Option<bool>,
    /// Rotation rate, in revolutions per minute, where the drive says it.
    #[serde(skip_serializing_if = "Option::is_none")]
    rotation_rpm: Option<u16>,
    /// 512n, 512e, 4Kn or other.
    format: String,
    /// Logical sector size.
    logical_sector_bytes: FigureReport<Bytes>,
    /// Physical sector size.
    physical_sector_bytes: FigureReport<Bytes>,
    /// Byte of the first physical sector boundary; -1 when the kernel calls the device misaligned.
    alignment_offset_bytes: FigureReport<Offset>,
    /// Minimum I/O size.
    #[serde(skip_serializing_if = "Option::is_none")]
    minimum_io_bytes: Option<FigureReport<Bytes>>,
    /// Whether the kernel lets nobody write to it.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    read_only: bool,
    /// How the file is compressed that the image was read through: "gzip", "xz", "zstd" or "bzip2".
    #[serde(skip_serializing_if = "Option::is_none")]
    compression: Option<&'static str>,
    /// Its zones, of a zoned device.
    #[serde(skip_serializing_if = "Option::is_none")]
    zoned: Option<ZonedReport>,
    /// Optimal I/O size.
    #[serde(skip_serializing_if = "Option::is_none")]
    optimal_io_bytes: Option<FigureReport<Bytes>>,
    /// Indirection unit.
    #[serde(skip_serializing_if = "Option::is_none")]
    indirection_unit_bytes: Option<FigureReport<Bytes>>,
    /// RAID chunk.
    #[serde(skip_serializing_if = "Option::is_none")]
    chunk_bytes: Option<FigureReport<Bytes>>,
    /// Full stripe.
    #[serde(skip_serializing_if = "Option::is_none")]
    stripe_bytes: Option<FigureReport<Bytes>>,
    /// Erase block.
    #[serde(skip_serializing_if = "Option::is_none")]
    erase_block_bytes: Option<FigureReport<Bytes>>,
    /// Atomic writes.
    #[serde(skip_serializing_if = "Option::is_none")]
    atomic_writes: Option<FigureReport<AtomicReport>>,
}

/// The zones of a zoned device.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Zoned")]
struct ZonedReport {
    /// "host-managed" or "host-aware".
    model: String,
    /// The size of a zone.
    zone_bytes: u64,
}

/// Converts a figure, its values by `value`.
fn figure<T: Copy + PartialEq, U>(figure: &Figure<T>, value: impl Fn(T) -> U) -> FigureReport<U> {
    FigureReport {
        value: value(figure.value()),
        source: figure.source().to_string(),
        others: figure
            .others()
            .iter()
            .map(|claim| ClaimReport { value: value(claim.value), source: claim.source.to_string() })
            .collect(),
        why: figure.why(),
    }
}

pub(super) fn device_report(audited: &Examined) -> DeviceReport {
    let target = &audited.target;
    let topology: &Topology = &target.topology;
    let bytes = |f: &Option<Figure<ByteCount>>| f.as_ref().map(|f| figure(f, |bytes| Bytes(bytes.get())));
    DeviceReport {
        kind: match audited.target.kind {
            DeviceKind::Image => "image",
            DeviceKind::Modelled => "modelled drive",
            _ => "block device",
        },
        size_bytes: target.size.get(),
        vendor: target.identity.vendor.clone(),
        model: target.identity.model.clone(),
        rotational: target.identity.rotational,
        rotation_rpm: match target.identity.rotation {
            Some(RotationRate::Rpm(rpm)) => Some(rpm),
            _ => None,
        },
        format: topology.format().to_string(),
        logical_sector_bytes: figure(&topology.logical, |block| Bytes(block.get())),
        physical_sector_bytes: figure(&topology.physical, |bytes| Bytes(bytes.get())),
        alignment_offset_bytes: figure(&topology.alignment_offset, |offset| match offset {
            AlignmentOffset::Bytes(bytes) => Offset(i64::try_from(bytes.get()).unwrap_or(i64::MAX)),
            AlignmentOffset::Misaligned => Offset(-1),
        }),
        minimum_io_bytes: bytes(&topology.io_min),
        read_only: target.read_only,
        compression: target.through.as_ref().map(|through| through.packing.name()),
        zoned: target
            .zoned
            .as_ref()
            .map(|zoned| ZonedReport { model: zoned.model.clone(), zone_bytes: zoned.zone.get() }),
        optimal_io_bytes: bytes(&topology.io_opt),
        indirection_unit_bytes: bytes(&topology.indirection_unit),
        chunk_bytes: bytes(&topology.chunk),
        stripe_bytes: bytes(&topology.stripe),
        erase_block_bytes: bytes(&topology.erase_block),
        atomic_writes: topology.atomic.as_ref().map(|f| {
            figure(f, |AtomicWrites { unit_min, unit_max, boundary }| AtomicReport {
                unit_min_bytes: unit_min.get(),
                unit_max_bytes: unit_max.get(),
                boundary_bytes: boundary.get(),
            })
        }),
    }
}
