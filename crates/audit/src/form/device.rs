//! A device or an image in `check --json`: its figures, each with its sources.

use crate::examine::Examined;
use schemars::JsonSchema;
use serde::Serialize;
use straddle_device::DeviceKind;
use straddle_device::identify::RotationRate;
use straddle_device::topology::{AlignmentOffset, AtomicWrites, Figure, Formats, Guest, Topology};
use straddle_units::{BlockSize, ByteCount};

/// A figure with its sources.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "{T}Figure")]
struct FigureReport<T> {
    /// The value used; sizes and offsets are in bytes.
    value: T,
    /// The source of that value.
    source: String,
    /// The values of other sources; absent if there are none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    others: Vec<ClaimReport<T>>,
    /// Why this value was preferred; absent if all sources agree.
    #[serde(skip_serializing_if = "Option::is_none")]
    why: Option<&'static str>,
}

/// The value of another source.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "{T}Claim")]
struct ClaimReport<T> {
    /// The value.
    value: T,
    /// The source.
    source: String,
}

/// A size in bytes.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(transparent)]
#[schemars(inline, rename = "Byte")]
struct Bytes(u64);

/// An offset in bytes, or -1.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(transparent)]
#[schemars(inline, rename = "Offset")]
struct Offset(i64);

/// The atomic writes of a device, in bytes.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Atomic")]
struct AtomicReport {
    /// The smallest atomic write.
    unit_min_bytes: u64,
    /// The largest atomic write.
    unit_max_bytes: u64,
    /// An atomic write must not cross a multiple of this; 0 if there is no such limit.
    boundary_bytes: u64,
}

/// A disk of a virtual machine.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Guest")]
struct GuestReport {
    /// The name of the domain.
    domain: String,
    /// The name of the disk in the domain, such as "vda".
    disk: String,
    /// Whether the domain was running.
    is_running: bool,
    /// The logical sector that the guest is shown; absent if it is that of the storage.
    #[serde(skip_serializing_if = "Option::is_none")]
    logical_sector_bytes: Option<u64>,
    /// The physical sector that the guest is shown; absent if it is that of the storage.
    #[serde(skip_serializing_if = "Option::is_none")]
    physical_sector_bytes: Option<u64>,
    /// The logical sector of what the disk is stored on; absent if unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    storage_logical_sector_bytes: Option<u64>,
    /// The physical sector of what the disk is stored on; absent if unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    storage_physical_sector_bytes: Option<u64>,
}

impl From<&Guest> for GuestReport {
    fn from(guest: &Guest) -> Self {
        let Guest { domain, disk, is_running, shown, storage } = guest;
        Self {
            domain: domain.clone(),
            disk: disk.clone(),
            is_running: *is_running,
            logical_sector_bytes: shown.map(|(logical, _)| logical.get()),
            physical_sector_bytes: shown.map(|(_, physical)| physical.get()),
            storage_logical_sector_bytes: storage.map(|(logical, _)| logical.get()),
            storage_physical_sector_bytes: storage.map(|(_, physical)| physical.get()),
        }
    }
}

/// A device or image.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Device")]
pub(super) struct DeviceReport {
    /// "image", "block device" or "modelled drive".
    kind: &'static str,
    /// The size in bytes.
    size_bytes: u64,
    /// The manufacturer; absent if unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    vendor: Option<String>,
    /// The model; absent if unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    model: Option<String>,
    /// Whether the medium rotates; absent if unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    rotational: Option<bool>,
    /// The rotation rate in revolutions per minute; absent if the drive does not report it.
    #[serde(skip_serializing_if = "Option::is_none")]
    rotation_rpm: Option<u16>,
    /// The sector format: 512n, 512e, 4Kn or other.
    format: String,
    /// The logical sector size.
    logical_sector_bytes: FigureReport<Bytes>,
    /// The physical sector size.
    physical_sector_bytes: FigureReport<Bytes>,
    /// The offset of the first physical sector boundary; -1 if the kernel reports that the device is
    /// misaligned.
    alignment_offset_bytes: FigureReport<Offset>,
    /// The minimum I/O size.
    #[serde(skip_serializing_if = "Option::is_none")]
    minimum_io_bytes: Option<FigureReport<Bytes>>,
    /// Whether the kernel refuses writes to it; absent if false.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    read_only: bool,
    /// The compression of the file that contains the image: "gzip", "xz", "zstd" or "bzip2"; absent if it is
    /// not compressed.
    #[serde(skip_serializing_if = "Option::is_none")]
    compression: Option<&'static str>,
    /// The virtual machine whose disk it is; absent without `--domain`.
    #[serde(skip_serializing_if = "Option::is_none")]
    guest: Option<GuestReport>,
    /// The zones; absent if the device is not zoned.
    #[serde(skip_serializing_if = "Option::is_none")]
    zoned: Option<ZonedReport>,
    /// The optimal I/O size.
    #[serde(skip_serializing_if = "Option::is_none")]
    optimal_io_bytes: Option<FigureReport<Bytes>>,
    /// The indirection unit.
    #[serde(skip_serializing_if = "Option::is_none")]
    indirection_unit_bytes: Option<FigureReport<Bytes>>,
    /// The RAID chunk.
    #[serde(skip_serializing_if = "Option::is_none")]
    chunk_bytes: Option<FigureReport<Bytes>>,
    /// The full RAID stripe.
    #[serde(skip_serializing_if = "Option::is_none")]
    stripe_bytes: Option<FigureReport<Bytes>>,
    /// The erase block.
    #[serde(skip_serializing_if = "Option::is_none")]
    erase_block_bytes: Option<FigureReport<Bytes>>,
    /// The atomic writes that the device supports.
    #[serde(skip_serializing_if = "Option::is_none")]
    atomic_writes: Option<FigureReport<AtomicReport>>,
    /// The sectors that the drive can be set to; absent if it was not queried, or lists none.
    #[serde(skip_serializing_if = "Option::is_none")]
    formats: Option<FormatsReport>,
}

/// The sectors that a drive can be set to.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Formats")]
struct FormatsReport {
    /// The source.
    source: String,
    /// Whether an NVMe controller knows the command that sets them (OACS); absent if it was not queried.
    #[serde(skip_serializing_if = "Option::is_none")]
    has_command: Option<bool>,
    /// Whether that command formats all namespaces of the NVMe drive at once (FNA); absent if it was not
    /// queried.
    #[serde(skip_serializing_if = "Option::is_none")]
    formats_all_namespaces: Option<bool>,
    /// Those that are available.
    list: Vec<SectorReport>,
}

/// Sectors that a drive can be set to.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "SectorFormat")]
struct SectorReport {
    /// The number by which a command selects it; absent if its size selects it.
    #[serde(skip_serializing_if = "Option::is_none")]
    number: Option<usize>,
    /// Whether they are in force; absent if not.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    in_force: bool,
    /// The logical sector size.
    logical_sector_bytes: u64,
    /// Metadata for each sector; absent if the drive does not report it.
    #[serde(skip_serializing_if = "Option::is_none")]
    metadata_bytes: Option<u16>,
    /// "best", "better", "good" or "degraded", compared to its other formats; absent if the drive does not
    /// report it.
    #[serde(skip_serializing_if = "Option::is_none")]
    performance: Option<String>,
}

/// The zones of a zoned device.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Zoned")]
struct ZonedReport {
    /// "host-managed" or "host-aware".
    model: String,
    /// The size of a zone in bytes.
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

fn formats_report(formats: &Formats, current: BlockSize) -> FormatsReport {
    let of_size = |size: &BlockSize| SectorReport {
        number: None,
        in_force: *size == current,
        logical_sector_bytes: size.get(),
        metadata_bytes: None,
        performance: None,
    };
    let (command, list) = match formats {
        Formats::Nvme(formats) => {
            let list = formats.list.iter().enumerate().filter_map(|(number, format)| {
                Some(SectorReport {
                    number: Some(number),
                    in_force: number == usize::from(formats.current),
                    logical_sector_bytes: format.logical?.get(),
                    metadata_bytes: Some(format.metadata),
                    performance: Some(format.performance.to_string()),
                })
            });
            (formats.command, list.collect())
        }
        Formats::Ata(sizes) | Formats::Scsi(sizes) => (None, sizes.iter().map(of_size).collect()),
    };
    FormatsReport {
        source: formats.source().to_string(),
        has_command: command.map(|command| command.supported),
        formats_all_namespaces: command.map(|command| command.all_namespaces),
        list,
    }
}

pub(crate) fn device_report(audited: &Examined) -> DeviceReport {
    let target = audited.target();
    let topology: &Topology = &target.topology;
    let bytes = |f: &Option<Figure<ByteCount>>| f.as_ref().map(|f| figure(f, |bytes| Bytes(bytes.get())));
    DeviceReport {
        kind: match audited.target().kind {
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
        guest: topology.guest.as_ref().map(GuestReport::from),
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
        formats: topology.formats.as_ref().map(|formats| formats_report(formats, topology.logical.value())),
    }
}
