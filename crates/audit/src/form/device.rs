//! A device or an image in `check --json`: its figures, each with its sources.

use crate::examine::Examined;
use schemars::JsonSchema;
use serde::Serialize;
use straddle_device::evidence::Identity;
use straddle_device::identify::RotationRate;
use straddle_device::topology::{Formats, Topology};
use straddle_device::{DeviceKind, Zoned};
use straddle_units::{BlockSize, ByteCount};

/// A device or image.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Device")]
pub(super) struct DeviceReport {
    /// "image", "block device" or "modelled drive".
    kind: &'static str,
    /// The size in bytes.
    size_bytes: ByteCount,
    #[serde(flatten)]
    identity: Identity,
    /// The rotation rate in revolutions per minute; absent if the drive does not report it.
    #[serde(skip_serializing_if = "Option::is_none")]
    rotation_rpm: Option<u16>,
    /// The sector format: 512n, 512e, 4Kn or other.
    format: String,
    #[serde(flatten)]
    topology: Topology,
    /// Whether the kernel refuses writes to the device; absent if it does not.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    read_only: bool,
    /// The compression of the file that contains the image: "gzip", "xz", "zstd" or "bzip2"; absent if it is
    /// not compressed.
    #[serde(skip_serializing_if = "Option::is_none")]
    compression: Option<&'static str>,
    /// The zones of the device; absent if it is not zoned.
    #[serde(skip_serializing_if = "Option::is_none")]
    zoned: Option<Zoned>,
    /// The sector sizes to which the drive can be set; absent if it was not queried, or lists none.
    #[serde(skip_serializing_if = "Option::is_none")]
    formats: Option<FormatsReport>,
}

/// The sector sizes to which a drive can be set.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Formats")]
struct FormatsReport {
    /// The NVMe data structure, ATA log or SCSI VPD page that lists the formats.
    source: String,
    /// Whether an NVMe controller supports the format command (OACS); absent if it was not queried.
    #[serde(skip_serializing_if = "Option::is_none")]
    has_command: Option<bool>,
    /// Whether the format command affects all namespaces of the NVMe drive at once (FNA); absent if it was not
    /// queried.
    #[serde(skip_serializing_if = "Option::is_none")]
    formats_all_namespaces: Option<bool>,
    /// The available sector formats.
    list: Vec<SectorReport>,
}

/// A sector format to which a drive can be set.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "SectorFormat")]
struct SectorReport {
    /// The number by which a command selects the format; absent if it is selected by its sector size.
    #[serde(skip_serializing_if = "Option::is_none")]
    number: Option<usize>,
    /// Whether the drive uses this format now; absent if not.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    in_force: bool,
    /// The logical sector size.
    logical_sector_bytes: u64,
    /// Bytes of metadata per sector; absent if the drive does not report it.
    #[serde(skip_serializing_if = "Option::is_none")]
    metadata_bytes: Option<u16>,
    /// "best", "better", "good" or "degraded", relative to the drive's other formats; absent if the drive
    /// does not report it.
    #[serde(skip_serializing_if = "Option::is_none")]
    performance: Option<String>,
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
    let topology = &target.topology;
    DeviceReport {
        kind: match target.kind {
            DeviceKind::Image => "image",
            DeviceKind::Modelled => "modelled drive",
            _ => "block device",
        },
        size_bytes: target.size,
        identity: target.identity.clone(),
        rotation_rpm: match target.identity.rotation {
            Some(RotationRate::Rpm(rpm)) => Some(rpm),
            _ => None,
        },
        format: topology.format().to_string(),
        topology: topology.clone(),
        read_only: target.read_only,
        compression: target.through.as_ref().map(|through| through.packing.name()),
        zoned: target.zoned.clone(),
        formats: topology.formats.as_ref().map(|formats| formats_report(formats, topology.logical.value())),
    }
}
