//! The bodies of the fuzz targets, without the fuzzer, so that `cargo test` can replay every input on stable
//! Rust.
//!
//! Invariants: a target takes any bytes, and what it asserts holds for any bytes. Besides "no
//! panic, no hang, little memory", that is what the crates promise: a partition lies where its entry says,
//! lists are bounded, and a fix never places a partition off a boundary, past the end of the disk or over
//! another one.

mod attributes;
mod audit;
mod disk;
mod domains;
mod drive;
mod images;
mod layers;
mod mend;
mod nbd;
mod plans;
mod traces;

use straddle_device::identify::{
    AtaIdentify, FormatNvm, NvmeIdentifyNamespace, ReadCapacity16, block_lengths, optimal_transfer,
    rotation_rate, sector_configurations,
};
use straddle_device::topology::Topology;
use straddle_device::{Assume, DeviceKind, KernelPartition, Medium, evidence, sysfs};
use straddle_units::{BlockSize, ByteCount, ByteOffset, KERNEL_SECTOR, LbaCount, Span};

pub use attributes::{KINDS, Map, NAMES};
pub use disk::Disk;
pub use domains::domain;
pub use drive::drive;
pub use images::{image, image_says};
pub use layers::{filesystems, layers, layers_say, volume};
pub use nbd::nbd;
pub use plans::{backup, plan, request};
pub use traces::{mapped_trace, table, trace};

/// GPTs (and tables in place of one): a sparse disk, with correct CRCs if the input asks for them.
pub fn gpt(data: &[u8]) {
    let Some(mut disk) = Disk::decode(data) else { return };
    disk.mend_crcs();
    read(&disk);
}

/// MBRs and chains of EBRs: a sparse disk with an MBR signature and, if the input asks for it, a signature in
/// every EBR that is referred to.
pub fn mbr(data: &[u8]) {
    let Some(mut disk) = Disk::decode(data) else { return };
    disk.sign_boot_records();
    read(&disk);
}

fn read(disk: &Disk) {
    let Ok(stack) = straddle_layout::read_stack(disk, disk.device_block, disk.forced_block) else { return };
    audit::check_stack(&stack);
    audit::on_chosen_topologies(&stack, disk.len(), disk.device_block.is_none(), disk.choice);
}

/// `--assume`: its text, and the resulting topologies.
pub fn assume(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let _ = straddle_units::parse_size(text);
    let assume = match text.parse::<Assume>() {
        Ok(assume) => assume,
        Err(error) => {
            let message = error.to_string();
            assert!(!message.is_empty());
            return;
        }
    };
    let mut topology = Topology::unknown();
    assume.apply(&mut topology);
    audit::check_topology(&topology);
    // A disk with starts on and off every boundary, and two partitions that leave no free space.
    let partitions: Vec<KernelPartition> = [
        (1, 63 * 512, 1 << 20),
        (2, 2 << 20, 1 << 20),
        (3, (4 << 20) + 512, 3 << 20),
        (4, 9 << 20, (1 << 20) + 4096),
        (5, (10 << 20) + 4096, 3584),
    ]
    .into_iter()
    .map(|(number, start, len)| KernelPartition {
        name: format!("sda{number}"),
        number,
        span: Span::new(ByteOffset::new(start), ByteCount::new(len)).expect("these are small"),
    })
    .collect();
    let stack = straddle_layout::kernel_stack(&partitions, topology.logical.value());
    let size = ByteCount::new(1 << 30);
    audit::on_topology(&stack, &topology, size, true);
    let table = audit::as_table(&stack);
    audit::on_topology(&table, &topology, size, true);
}

/// sysfs: what the kernel reports about a device and its partitions.
pub fn sysfs(data: &[u8]) {
    let Some(map) = Map::decode(data) else { return };
    audit_device(map.kind, &map);
}

fn audit_device(kind: DeviceKind, map: &Map) {
    use straddle_device::sysfs::Attributes as _;
    let (_, topology) = evidence::combine(kind, map, evidence::Answers::default());
    audit::check_topology(&topology);
    let size = map.number("size").and_then(|sectors| LbaCount::new(sectors).to_bytes(KERNEL_SECTOR));
    let partitions = sysfs::partitions(map);
    let stack = straddle_layout::kernel_stack(&partitions, topology.logical.value());
    let size = size.unwrap_or(ByteCount::new(1 << 40));
    audit::on_topology(&stack, &topology, size, false);
    // The same partitions as entries of the disk's own table, so that fixes have commands.
    audit::on_topology(&audit::as_table(&stack), &topology, size, false);
}

/// ATA, SCSI and NVMe identification. The first byte selects the kind; if its bit 7 is set, ATA's checksum is
/// corrected.
pub fn identify(data: &[u8]) {
    let Some((&which, data)) = data.split_first() else { return };
    match which & 0x7f {
        0 => identify_ata(data, which & 0x80 != 0),
        1 => {
            if let Some(capacity) = ReadCapacity16::parse(data) {
                assert!(capacity.physical.get().is_power_of_two());
            }
        }
        2 => {
            let _ = rotation_rate(data);
        }
        3 => {
            let _ = optimal_transfer(data);
            audit_device(DeviceKind::Scsi, &Map::with("device/vpd_pgb0", data));
        }
        5 => assert!(sector_configurations(&padded(data)).len() <= 8),
        6 => {
            let _ = block_lengths(data);
        }
        4 => {
            let _ = FormatNvm::parse(&padded(data));
        }
        _ => {
            if let Some(namespace) = NvmeIdentifyNamespace::parse(&padded(data)) {
                assert!(BlockSize::new(namespace.logical.get()).is_ok());
            }
        }
    }
}

fn identify_ata(data: &[u8], mend: bool) {
    /// Word 255: 0xA5 in its low byte, and in its high byte the value that makes the sum of all bytes zero.
    const INTEGRITY: usize = 510;
    let mut words: [u8; 512] = padded(data);
    if mend {
        words[INTEGRITY] = 0xa5;
        let sum = words[..511].iter().fold(0u8, |sum, byte| sum.wrapping_add(*byte));
        words[INTEGRITY + 1] = sum.wrapping_neg();
    }
    let Some(ata) = AtaIdentify::parse(&words) else { return };
    assert!(ata.physical != Some(ByteCount::ZERO));
    let mut page = vec![0; 60];
    page.extend(words);
    audit_device(DeviceKind::Scsi, &Map::with("device/vpd_pg89", &page));
}

/// The first `N` bytes, padded with zeros.
fn padded<const N: usize>(data: &[u8]) -> [u8; N] {
    let mut bytes = [0; N];
    let len = data.len().min(N);
    bytes[..len].copy_from_slice(&data[..len]);
    bytes
}
