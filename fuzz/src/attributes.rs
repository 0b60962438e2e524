//! The encoding of a device's attributes in a few bytes, for the inputs of `sysfs`.
//!
//! The first byte is an index into [`KINDS`]. Records follow: a name (one byte: an index into [`NAMES`], or
//! from 0x80 on a partition's attribute), a length (one byte, in which 255 means 1024) and the value.

use std::collections::BTreeMap;

use straddle_device::DeviceKind;
use straddle_device::sysfs::Attributes;

/// Kinds of devices whose figures are read in different ways.
pub const KINDS: [DeviceKind; 8] = [
    DeviceKind::Scsi,
    DeviceKind::Nvme,
    DeviceKind::Mmc,
    DeviceKind::Virtual,
    DeviceKind::Md,
    DeviceKind::DeviceMapper,
    DeviceKind::Loop,
    DeviceKind::Other,
];

/// Every attribute that is read.
pub const NAMES: [&str; 28] = [
    "size",
    "alignment_offset",
    "queue/logical_block_size",
    "queue/physical_block_size",
    "queue/minimum_io_size",
    "queue/optimal_io_size",
    "queue/rotational",
    "queue/atomic_write_unit_min_bytes",
    "queue/atomic_write_unit_max_bytes",
    "queue/atomic_write_boundary_bytes",
    "queue/discard_granularity",
    "queue/discard_alignment",
    "discard_alignment",
    "queue/chunk_sectors",
    "device/vendor",
    "device/model",
    "device/name",
    "device/type",
    "device/preferred_erase_size",
    "device/erase_size",
    "device/vpd_pg89",
    "device/vpd_pgb0",
    "device/vpd_pgb1",
    "md/level",
    "md/chunk_size",
    "md/raid_disks",
    "dm/name",
    "loop/backing_file",
];

/// Attributes of a partition that are read.
const OF_PARTITION: [&str; 3] = ["partition", "start", "size"];

/// The attributes of one device.
pub struct Map {
    /// The kind of device.
    pub kind: DeviceKind,
    values: BTreeMap<String, Vec<u8>>,
}

impl Map {
    /// Decodes an input.
    pub fn decode(data: &[u8]) -> Option<Self> {
        let (kind, mut rest) = data.split_first()?;
        let mut values = BTreeMap::new();
        while let Some(([name, len], after)) = rest.split_first_chunk() {
            let len = if *len == 255 { 1024 } else { usize::from(*len) };
            let (value, next) = after.split_at(len.min(after.len()));
            values.insert(name_of(*name), value.to_vec());
            rest = next;
        }
        Some(Self { kind: KINDS[usize::from(*kind) % KINDS.len()], values })
    }

    /// A device with a single attribute.
    pub fn with(name: &str, value: &[u8]) -> Self {
        Self { kind: DeviceKind::Scsi, values: BTreeMap::from([(name.to_owned(), value.to_vec())]) }
    }

    /// The record of an attribute as [`Map::decode`] reads it; `None` if the attribute is never read.
    pub fn record(name: &str, value: &[u8]) -> Option<Vec<u8>> {
        let value = &value[..value.len().min(1024)];
        let len = if value.len() < 255 { value.len() } else { 255 };
        let mut record = vec![(0..=255).find(|byte| name_of(*byte) == name)?, u8::try_from(len).ok()?];
        record.extend(value);
        if len == 255 {
            record.resize(2 + 1024, 0);
        }
        Some(record)
    }
}

fn name_of(byte: u8) -> String {
    match byte {
        0..0x80 => NAMES[usize::from(byte) % NAMES.len()].to_owned(),
        _ => {
            let (partition, attribute) = ((byte & 0x7f) / 3, usize::from(byte & 0x7f) % 3);
            format!("p{partition}/{}", OF_PARTITION[attribute])
        }
    }
}

impl Attributes for Map {
    fn bytes(&self, name: &str) -> Option<Vec<u8>> {
        self.values.get(name).cloned()
    }

    fn list(&self, dir: &str) -> Vec<String> {
        let prefix = if dir.is_empty() { String::new() } else { format!("{dir}/") };
        let mut names: Vec<String> = self
            .values
            .keys()
            .filter_map(|name| name.strip_prefix(&prefix)?.split('/').next())
            .map(str::to_owned)
            .collect();
        names.dedup();
        names
    }
}
