//! What `check` says of kinds of devices that no test machine has: sysfs trees made here, of the attributes that the
//! kernel's sources give, with a copy of the disk where its bytes matter.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod tools;

use std::fs;
use std::process::Command;

use serde_json::Value;
use tools::{Dir, STRADDLE, disk_codes, list, output, present, run, told, word};

const MIB: u64 = 1 << 20;

/// A sysfs tree that goes when the test ends.
struct Tree(Dir);

impl Tree {
    fn new() -> Self {
        Self(Dir::new("devices"))
    }

    /// Writes an attribute of a device: `put("sda", "queue/zoned", "none")`.
    fn put(&self, device: &str, attribute: &str, value: &str) {
        let path = self.0.join("sys/block").join(device).join(attribute);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, format!("{value}\n")).unwrap();
    }

    /// A disk of 64 MiB with the figures that every device has, and `more`.
    fn disk(&self, name: &str, more: &[(&str, &str)]) {
        for (attribute, value) in [
            ("size", "131072"),
            ("alignment_offset", "0"),
            ("ext_range", "256"),
            ("queue/logical_block_size", "512"),
            ("queue/physical_block_size", "4096"),
            ("queue/minimum_io_size", "4096"),
            ("queue/optimal_io_size", "0"),
            ("queue/zoned", "none"),
        ] {
            self.put(name, attribute, value);
        }
        more.iter().for_each(|(attribute, value)| self.put(name, attribute, value));
    }

    /// Gives a disk contents: a table from sfdisk's script.
    fn table(&self, name: &str, script: &str) {
        fs::create_dir_all(self.0.join("dev")).unwrap();
        let image = self.0.image(&format!("dev/{name}"), 64 * MIB);
        run(Command::new("sfdisk").args(["-q", "--no-reread", "--no-tell-kernel"]).arg(image), script);
    }

    /// What `check` says of one disk, and its exit status.
    fn check(&self, name: &str) -> (Value, i32) {
        let command = &mut Command::new(STRADDLE);
        let output = output(command.args(["check", "--json", "--sysroot"]).arg(self.0.path()).arg(name), "");
        let mut report: Value =
            serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{}", told(&output)));
        (report["targets"][0].take(), output.status.code().unwrap())
    }
}

/// The message of the finding of `code`.
fn message(report: &Value, code: &str) -> String {
    let found = list(report, "findings").iter().find(|finding| word(finding, "code") == code);
    word(found.unwrap_or_else(|| panic!("no {code} in {report}")), "message")
}

/// The remarks that hold `text`.
fn remarks(report: &Value, text: &str) -> usize {
    list(report, "remarks").iter().filter(|remark| remark.as_str().unwrap().contains(text)).count()
}

#[test]
fn what_never_lists_partitions_does_not_disagree_with_its_table() {
    if !present(&["sfdisk"]) {
        return;
    }
    let tree = Tree::new();
    // The attributes that say so, by kind of device and kernel; the last two do list theirs.
    let kinds: [(&str, &[(&str, &str)]); 8] = [
        ("dm-0", &[("dm/name", "vm")]),
        ("loop0", &[("loop/backing_file", "/vm.img"), ("loop/partscan", "0"), ("partscan", "0")]),
        ("loop1", &[("loop/backing_file", "/vm.img"), ("loop/partscan", "0")]),
        ("zram0", &[("ext_range", "1")]),
        ("sda", &[("queue/zoned", "host-managed")]),
        ("nvme0n1", &[("partscan", "0")]),
        ("sdb", &[("partscan", "1")]),
        ("loop2", &[("loop/backing_file", "/vm.img"), ("loop/partscan", "1"), ("ext_range", "256")]),
    ];
    for (index, (name, attributes)) in kinds.into_iter().enumerate() {
        tree.disk(name, attributes);
        tree.table(
            name,
            "label: gpt\nstart=2048, size=4096\nstart=8192, size=4096\nstart=16384, size=4096\n",
        );
        let (report, status) = tree.check(name);
        let lists = index >= 6;
        assert_eq!(list(&report, "partitions").len(), 3, "{name}");
        assert_eq!(disk_codes(&report).contains("S080"), lists, "{name}: {report}");
        assert_eq!(
            remarks(&report, "the kernel lists no partitions"),
            usize::from(!lists),
            "{name}: {report}"
        );
        assert_eq!(status, i32::from(lists), "{name}");
    }
}

#[test]
fn only_a_drive_has_a_jumper() {
    let tree = Tree::new();
    for (name, offset, jumper) in [
        ("sda", "3584", true),
        ("sdb", "512", false), // sector 63 is not aligned by it
        ("dm-0", "3584", false),
        ("md0", "3584", false),
        ("loop0", "3584", false),
        ("vda", "3584", false),
        ("nvme0n1", "3584", false),
    ] {
        tree.disk(name, &[("alignment_offset", offset)]);
        let (report, _) = tree.check(name);
        let finding =
            list(&report, "findings").iter().find(|finding| word(finding, "code") == "S023").unwrap();
        assert_eq!(finding.to_string().contains("jumper"), jumper, "{name}: {finding}");
        assert!(message(&report, "S023").contains(offset), "{finding}");
    }
}
