//! Devices that stand on others take the boundaries of what is below them, where the kernel does not pass
//! them on:
//! computed from captured trees, with each kind of lower device and each offset.

use std::fs;
use std::path::Path;

use straddle_device::topology::AlignmentOffset;
use straddle_device::{Options, Target, open};
use straddle_units::{BlockSize, ByteCount, ByteOffset};
use tempfile::TempDir;

/// Writes attributes below `directory`.
fn attributes(directory: &Path, values: &[(&str, String)]) {
    for (name, value) in values {
        let path = directory.join(name);
        fs::create_dir_all(path.parent().expect("a name below the directory")).expect("a directory");
        fs::write(path, format!("{value}\n")).expect("a file");
    }
}

/// A disk of 64 MiB with this physical sector size, the first boundary at byte `phase`, and a partition at
/// LBA 63.
fn disk(block: &Path, physical: u64, phase: u64) {
    let limits = [
        ("size", 131_072),
        ("alignment_offset", phase),
        ("queue/logical_block_size", 512),
        ("queue/physical_block_size", physical),
        ("queue/minimum_io_size", physical),
        ("sda1/partition", 1),
        ("sda1/start", 63),
        ("sda1/size", 40_000),
        ("sda1/alignment_offset", (phase + physical * 63 - 63 * 512) % physical),
    ];
    attributes(&block.join("sda"), &limits.map(|(name, value)| (name, value.to_string())));
}

/// A loop device over `file` from byte `offset` on, with the limits that the kernel gives it.
fn looped(block: &Path, name: &str, file: &str, offset: u64) {
    let limits = [
        ("size", 65_536.to_string()),
        ("alignment_offset", 0.to_string()),
        ("queue/logical_block_size", 512.to_string()),
        ("queue/physical_block_size", 512.to_string()),
        ("queue/minimum_io_size", 512.to_string()),
        ("loop/backing_file", file.to_owned()),
        ("loop/offset", offset.to_string()),
    ];
    attributes(&block.join(name), &limits);
}

fn opened(root: &Path, name: &str) -> Target {
    let options = Options { sysroot: Some(root.to_owned()), ..Options::default() };
    open(Path::new(name), &options).expect("a device")
}

fn check(target: &Target, physical: u64, byte: u64, what: &str) {
    let topology = &target.topology;
    assert_eq!(topology.logical.value(), BlockSize::B512, "{what}");
    assert_eq!(topology.physical.value(), ByteCount::new(physical), "{what}");
    // Byte 0 of the loop device is this byte of the disk, counted from a boundary.
    let expected = AlignmentOffset::Bytes(ByteCount::new((physical - byte % physical) % physical));
    assert_eq!(topology.alignment_offset.value(), expected, "{what}");
    let boundary = topology.physical_boundary().expect("a boundary");
    assert_eq!(boundary.past(ByteOffset::ZERO), ByteCount::new(byte % physical), "{what}");
}

#[test]
fn boundaries_are_those_of_what_is_below() {
    for offset in [0, 512, 3584, 4096, 32_256, 1_048_576, 1_049_088] {
        for (physical, phase) in [(512, 0), (4096, 0), (4096, 3584), (16_384, 0)] {
            let directory = TempDir::new().expect("a temporary directory");
            let root = directory.path();
            let block = root.join("sys/block");
            disk(&block, physical, phase);
            looped(&block, "loop0", "/dev/sda", offset);
            looped(&block, "loop1", "/dev/sda1", offset);
            looped(&block, "loop2", "/dev/loop0", 512);
            let from = physical - phase;
            let what = |name: &str| format!("{name} at {offset} over {physical} from {phase}");
            check(&opened(root, "loop0"), physical, offset + from, &what("loop0"));
            check(&opened(root, "loop1"), physical, offset + 63 * 512 + from, &what("loop1"));
            check(&opened(root, "loop2"), physical, offset + 512 + from, &what("loop2"));
        }
        // The sectors below a file are not known. They are assumed as for an image that is checked as a file.
        let directory = TempDir::new().expect("a temporary directory");
        looped(&directory.path().join("sys/block"), "loop0", "/srv/disk.img", offset);
        let target = opened(directory.path(), "loop0");
        check(&target, 4096, offset, &format!("a file at {offset}"));
        let is_named = target
            .remarks
            .iter()
            .any(|remark| remark.contains(&format!("/srv/disk.img, starting at byte {offset}")));
        assert_eq!(is_named, offset != 0, "{:?}", target.remarks);
    }
}

/// A device of 64 MiB as the kernel shows it where everything below reports 512-byte sectors.
fn small(block: &Path, name: &str, number: &str, more: &[(&str, &str)]) {
    let limits = [
        ("size", "131072"),
        ("dev", number),
        ("alignment_offset", "0"),
        ("queue/logical_block_size", "512"),
        ("queue/physical_block_size", "512"),
        ("queue/minimum_io_size", "512"),
    ];
    let all: Vec<(&str, String)> =
        limits.iter().chain(more).map(|(name, value)| (*name, (*value).to_owned())).collect();
    attributes(&block.join(name), &all);
}

/// Attributes in sysfs, with their values.
type Attributes = &'static [(&'static str, &'static str)];

/// What is made of an SSD's sectors, or of a listed disk's, is made of the sectors of what stands on it.
#[test]
fn a_stack_has_the_sectors_that_its_disks_are_taken_to_have() {
    let disks: [(&str, Attributes, u64); 4] = [
        ("nvme0n1", &[("queue/rotational", "0")], 4096),
        ("sda", &[("queue/rotational", "0"), ("device/model", "SSD 850")], 4096),
        (
            "sda",
            &[("queue/rotational", "1"), ("device/vendor", "ATA"), ("device/model", "WDC WD10EARS-00Y5B1")],
            4096,
        ),
        ("sda", &[("queue/rotational", "1"), ("device/vendor", "ATA"), ("device/model", "WDC WD800JD")], 512),
    ];
    for (disk, more, physical) in disks {
        for start in [2048_u64, 2049, 63] {
            let directory = TempDir::new().expect("a temporary directory");
            let block = directory.path().join("sys/block");
            small(&block, disk, "8:0", more);
            let offset = start.to_string();
            let member = format!("md/dev-{disk}");
            let parts = ["offset", "slot", "size"].map(|part| format!("{member}/{part}"));
            let array = [
                ("md/level", "raid1"),
                ("md/metadata_version", "1.2"),
                ("md/raid_disks", "1"),
                ("md/chunk_size", "0"),
                ("md/layout", "0"),
                ("md/reshape_position", "none"),
                (parts[0].as_str(), offset.as_str()),
                (parts[1].as_str(), "0"),
                (parts[2].as_str(), "60000"),
            ];
            small(&block, "md0", "9:0", &array);
            for (index, name) in ["vg-lv", "vg-pool_tdata", "vg-pool-tpool", "vg-thin"].iter().enumerate() {
                let number = format!("253:{index}");
                small(&block, &format!("dm-{index}"), &number, &[("dm/name", name), ("dm/uuid", "LVM-x")]);
            }
            let tables = format!(
                "vg-lv: 0 8192 linear 9:0 8\nvg-pool_tdata: 0 8192 linear 8:0 {start}\n\
                 vg-pool-tpool: 0 8192 thin-pool 8:0 253:1 128 0 0\nvg-thin: 0 8192 thin 253:2 1\n"
            );
            fs::write(directory.path().join("dmsetup-table"), tables).expect("a file");
            for name in ["md0", "dm-0", "dm-1", "dm-2", "dm-3"] {
                let what = format!("{name} at {start} on {more:?}");
                check(&opened(directory.path(), name), physical, start * 512, &what);
            }
        }
    }
}
