//! `check` on kinds of devices that no test machine has: sysfs trees made by the tests, with the attributes
//! that the kernel's sources define, and a copy of the disk where its bytes matter.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use crate::tools;

use std::fs;
use std::process::Command;

use serde_json::Value;
use tools::{
    Dir, Guest, STRADDLE, SYSFS_DISK, codes, disk_codes, list, output, present, run, transcript, word,
};

const MIB: u64 = 1 << 20;

/// A sysfs tree that is removed when the test ends.
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

    /// A 64 MiB disk with the attributes that every device has, and `more`.
    fn disk(&self, name: &str, more: &[(&str, &str)]) {
        for (attribute, value) in SYSFS_DISK {
            self.put(name, attribute, value);
        }
        more.iter().for_each(|(attribute, value)| self.put(name, attribute, value));
    }

    /// Writes a table to a disk, from a script for sfdisk.
    fn table(&self, name: &str, script: &str) {
        fs::create_dir_all(self.0.join("dev")).unwrap();
        let image = self.0.image(&format!("dev/{name}"), 64 * MIB);
        run(Command::new("sfdisk").args(["-q", "--no-reread", "--no-tell-kernel"]).arg(image), script);
    }

    /// The report of `check` on one disk, and its exit status.
    fn check(&self, name: &str) -> (Value, i32) {
        let command = &mut Command::new(STRADDLE);
        let output = output(command.args(["check", "--json", "--sysroot"]).arg(self.0.path()).arg(name), "");
        let mut report: Value =
            serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{}", transcript(&output)));
        (report["targets"][0].take(), output.status.code().unwrap())
    }
}

/// The message of the finding with this code.
fn message(report: &Value, code: &str) -> String {
    let found = list(report, "findings").iter().find(|finding| word(finding, "code") == code);
    word(found.unwrap_or_else(|| panic!("no {code} in {report}")), "message")
}

/// The number of remarks that contain `text`.
fn remarks(report: &Value, text: &str) -> usize {
    list(report, "notes").iter().filter(|remark| remark.as_str().unwrap().contains(text)).count()
}

#[test]
fn what_never_lists_partitions_does_not_disagree_with_its_table() {
    if !present(&["sfdisk"]) {
        return;
    }
    let tree = Tree::new();
    // The attributes that show whether the kernel lists partitions, by kind of device and kernel; the last
    // two devices do list them.
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
        ("sdb", "512", false), // sector 63 is misaligned with it
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

/// An ATA Information VPD page with IDENTIFY data whose word 217, the rotation rate, is this.
fn identified(rotation: u16) -> Vec<u8> {
    let mut page = vec![0; 60 + 512];
    (page[1], page[2], page[3]) = (0x89, 0x02, 0x38);
    page[60..62].copy_from_slice(&0x0040_u16.to_le_bytes());
    page[60 + 2 * 217..60 + 2 * 218].copy_from_slice(&rotation.to_le_bytes());
    page
}

/// A disk with 512-byte sectors by its own word, and partitions at sector 63, on a cylinder, and at 1 MiB times 200.
const OLD: [(&str, &str); 14] = [
    ("size", "976773168"),
    ("device/vendor", "ATA"),
    ("device/model", "HTS545050B9A300"),
    ("queue/rotational", "1"),
    ("queue/physical_block_size", "512"),
    ("queue/minimum_io_size", "512"),
    ("sda1/partition", "1"),
    ("sda1/start", "63"),
    ("sda1/size", "208782"),
    ("sda2/partition", "2"),
    ("sda2/start", "208845"),
    ("sda2/size", "96390"),
    ("sda3/partition", "3"),
    ("sda3/start", "409600"),
];

#[test]
fn a_disk_that_may_hide_its_sectors_is_in_doubt_from_sector_63() {
    let in_doubt = |more: &[(&str, &str)], rotation: Option<u16>, options: &[&str]| {
        let tree = Tree::new();
        tree.disk("sda", &[&OLD[..], &[("sda3/size", "409600")], more].concat());
        let page = rotation.map(identified);
        page.inspect(|page| fs::write(tree.0.join("sys/block/sda/device/vpd_pg89"), page).unwrap());
        let mut command = Command::new(STRADDLE);
        command.args(["check", "--json", "--sysroot"]).arg(tree.0.path()).arg("sda").args(options);
        let output = output(&mut command, "");
        let report: Value =
            serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{}", transcript(&output)));
        let findings = list(&report["targets"][0], "findings");
        let found: Vec<&Value> = findings.iter().filter(|finding| word(finding, "code") == "S001").collect();
        let is_in_doubt = |finding: &Value| {
            let is_in_doubt = word(finding, "message").contains("assumed to be misaligned");
            assert_eq!(word(finding, "severity"), if is_in_doubt { "warning" } else { "error" }, "{finding}");
            is_in_doubt
        };
        assert_eq!(output.status.code(), Some(i32::from(!found.is_empty())), "{}", transcript(&output));
        let number = |finding: &Value| finding["partition"].as_u64().unwrap();
        found.iter().map(|finding| (number(finding), is_in_doubt(finding))).collect::<Vec<_>>()
    };
    assert_eq!(in_doubt(&[], None, &[]), [(1, true), (2, true)]);
    assert_eq!(in_doubt(&[], Some(5400), &[]), [(1, true), (2, true)]);
    // Flash is judged as an image of it is, whatever it reports.
    for (more, rotation) in [(&[("queue/rotational", "0")][..], None), (&[], Some(1))] {
        assert_eq!(in_doubt(more, rotation, &[]), [(1, false), (2, false)]);
        assert_eq!(in_doubt(more, rotation, &["--assume", "512n"]), []);
    }
    // A hypervisor's disk says nothing of what it lies on, however small it is and whether it rotates.
    let hypervisor = |more| in_doubt(&[more, ("device/model", "QEMU HARDDISK")], None, &[]);
    assert_eq!(hypervisor(("queue/rotational", "0")), [(1, true), (2, true)]);
    assert_eq!(hypervisor(("size", "4194304")), [(1, true), (2, true)]);
    // Known by its word, by its age, by its list, by what it is, or by the user.
    for (name, more, rotation, options) in [
        ("before ATA8-ACS", &[][..], Some(0), &[][..]),
        ("small", &[("size", "156301488")], None, &[]),
        ("a USB bridge or SAS", &[("device/vendor", "SEAGATE")], None, &[]),
        ("not from 63", &[("sda1/start", "64")], None, &[]),
    ] {
        assert_eq!(in_doubt(more, rotation, options), [], "{name}");
    }
}

/// I/O sizes are an array's where one is known; elsewhere a hint: a pool's chunk, Ceph's object, a hypervisor's choice.
#[test]
fn io_sizes_are_an_arrays_where_one_is_known() {
    let (stripe, hint) = (Some(("S005", "warning")), Some(("S003", "advice")));
    type Case = (&'static str, &'static str, u64, u64, u64, Option<(&'static str, &'static str)>);
    let cases: [Case; 11] = [
        ("sda", "", 65536, 196_608, 2048, stripe),
        ("sda", "", 65536, 196_608, 2304, None),
        ("vda", "", 262_144, 2_097_152, 2048, None),
        ("vda", "", 262_144, 2_097_152, 2056, hint),
        ("rbd0", "", 4_194_304, 4_194_304, 2048, hint),
        ("dm-0", "0 131072 thin 253:1 1", 196_608, 196_608, 2048, hint),
        ("dm-0", "0 131072 cache 253:1 253:1 253:1 384 0 smq 0", 196_608, 393_216, 2048, hint),
        ("dm-0", "0 131072 striped 3 128 8:0 0 8:16 0 8:32 0", 65536, 196_608, 2048, stripe),
        ("dm-0", "0 131072 linear 253:1 2048", 65536, 196_608, 2048, stripe),
        ("dm-0", "0 131072 crypt aes-xts-plain64 - 0 253:1 32768", 65536, 196_608, 2048, stripe),
        ("dm-0", "", 65536, 196_608, 2056, hint),
    ];
    for (name, table, min, opt, start, expected) in cases {
        let tree = Tree::new();
        let [min_text, opt_text, start_text] = [min, opt, start].map(|figure| figure.to_string());
        let part = |attribute: &str| format!("{name}p1/{attribute}");
        let attributes = [
            ("queue/physical_block_size".to_owned(), "4096"),
            ("queue/minimum_io_size".to_owned(), min_text.as_str()),
            ("queue/optimal_io_size".to_owned(), opt_text.as_str()),
            (part("partition"), "1"),
            (part("start"), start_text.as_str()),
            (part("size"), "8192"),
        ];
        tree.disk(name, &attributes.each_ref().map(|(attribute, value)| (attribute.as_str(), *value)));
        if name == "dm-0" {
            tree.put(name, "dm/name", "upper");
        }
        if !table.is_empty() {
            tree.disk("dm-1", &[("dm/name", "lower"), ("dev", "253:1")]);
            let lower = "lower: 0 131072 striped 3 128 8:0 0 8:16 0 8:32 0";
            fs::write(tree.0.join("dmsetup-table"), format!("upper: {table}\n{lower}\n")).unwrap();
        }
        let (report, status) = tree.check(name);
        let of = |finding: &Value| (word(finding, "code"), word(finding, "severity"));
        let found: Vec<_> = list(&report, "findings").iter().map(of).collect();
        let found: Vec<_> = found.iter().map(|(code, grave)| (code.as_str(), grave.as_str())).collect();
        let costly: Vec<_> = found.into_iter().filter(|(code, _)| ["S003", "S005"].contains(code)).collect();
        assert_eq!(costly, expected.as_slice(), "{name} {table:?} {min} {opt} {start}: {report}");
        assert_eq!(status, i32::from(expected.is_some_and(|(_, grave)| grave == "warning")), "{name}");
    }
}

/// A Block Limits VPD page with this optimal transfer length, in blocks.
fn block_limits(blocks: u32) -> Vec<u8> {
    let mut page = vec![0; 64];
    (page[1], page[3]) = (0xb0, 60);
    page[12..16].copy_from_slice(&blocks.to_be_bytes());
    page
}

#[test]
fn an_optimum_that_is_none_is_shown_as_the_kernel_shows_it() {
    let tree = Tree::new();
    // (physical sector, length in VPD page B0h in blocks, what each kernel shows of it, whether that cannot
    // be true)
    for (index, (physical, said, shown, is_bogus)) in [
        ("512", Some(65535), "33553920", true), // any kernel
        ("4096", Some(65535), "0", false),      // sd drops it, so no tool sees it
        ("4096", None, "33553920", true),       // virtio, Linux 6.1
        ("4096", None, "33550336", true),       // virtio, Linux 6.12
        ("16384", None, "33538048", true),
        ("4096", None, "16773120", true), // mpt3sas
        ("16384", None, "16760832", true),
        ("4096", Some(1024), "524288", false),
        ("4096", None, "196608", false),
    ]
    .into_iter()
    .enumerate()
    {
        let name = format!("vd{}", char::from(b'a' + u8::try_from(index).unwrap()));
        tree.disk(
            &name,
            &[
                ("queue/physical_block_size", physical),
                ("queue/minimum_io_size", physical),
                ("queue/optimal_io_size", shown),
            ],
        );
        for (attribute, value) in [("partition", "1"), ("start", "2048"), ("size", "63488")] {
            tree.put(&name, &format!("{name}1/{attribute}"), value);
        }
        if let Some(blocks) = said {
            let page = tree.0.join(&format!("sys/block/{name}/device/vpd_pgb0"));
            fs::create_dir_all(page.parent().unwrap()).unwrap();
            fs::write(page, block_limits(blocks)).unwrap();
        }
        let (report, status) = tree.check(&name);
        let case = format!("{shown} on {physical}: {report}");
        assert_eq!(disk_codes(&report).contains("S021"), is_bogus, "{case}");
        // A start at 1 MiB is good whatever the bogus size: there must be no advice to move it.
        let misses = list(&report, "findings").iter().any(|finding| word(finding, "code") == "S006");
        assert_eq!(misses, shown == "196608", "{case}");
        assert_eq!(status, 0, "{case}");
    }
}

impl Tree {
    /// Records the devices that `above` stands on.
    fn stands_on(&self, above: &str, below: &[&str]) {
        for name in below {
            self.put(above, &format!("slaves/{name}"), "");
            let disk = name.trim_end_matches(|c: char| c.is_ascii_digit());
            let holder =
                if disk == *name { format!("holders/{above}") } else { format!("{name}/holders/{above}") };
            self.put(disk, &holder, "");
        }
    }

    /// A disk with one partition and an optimal I/O size.
    fn partitioned(&self, name: &str, dev: &str, start: &str, io_opt: &str) {
        self.disk(name, &[("dev", dev), ("queue/optimal_io_size", io_opt)]);
        let part = |attribute: &str| format!("{name}1/{attribute}");
        for (attribute, value) in [("partition", "1"), ("start", start), ("size", "65536")] {
            self.put(name, &part(attribute), value);
        }
        self.put(name, &part("dev"), &format!("{dev}1"));
    }

    /// Which of S020 and S021 is found on `name`, which the kernel reports as misaligned.
    fn minus_one(&self, name: &str, more: &[(&str, &str)]) -> (Vec<String>, Value) {
        self.disk(name, &[&[("alignment_offset", "-1")], more].concat());
        let (report, _) = self.check(name);
        let codes = disk_codes(&report).into_iter().filter(|code| code == "S020" || code == "S021").collect();
        (codes, report)
    }
}

#[test]
fn minus_one_has_its_cause() {
    const BOGUS: &str = "33553920";
    // RAID1 of partitions. Its -1 comes from one member's optimum, from the starts, from both, or from equal
    // offsets off a boundary.
    for (index, (starts, optima, expected, offset)) in [
        (["2048", "2048"], [BOGUS, "0"], "S021", 0),
        (["2048", "2049"], ["0", "0"], "S020", -1),
        (["2048", "2049"], [BOGUS, BOGUS], "S020", -1),
        (["2049", "2049"], ["0", BOGUS], "S021", 3584),
        (["2048", "2048"], ["0", "0"], "S020", -1), // not what the kernel would report: its figure is kept
    ]
    .into_iter()
    .enumerate()
    {
        let tree = Tree::new();
        for ((name, start), (io_opt, dev)) in
            ["vda", "vdb"].into_iter().zip(starts).zip(optima.into_iter().zip(["254:0", "254:16"]))
        {
            tree.partitioned(name, dev, start, io_opt);
        }
        tree.stands_on("md0", &["vda1", "vdb1"]);
        let md = [
            ("md/level", "raid1"),
            ("md/raid_disks", "2"),
            ("md/chunk_size", "0"),
            ("md/metadata_version", "1.2"),
            ("md/dev-vda1/offset", "2048"),
            ("md/dev-vda1/slot", "0"),
            ("md/dev-vdb1/offset", "2048"),
            ("md/dev-vdb1/slot", "1"),
        ];
        let (codes, report) = tree.minus_one("md0", &md);
        assert_eq!(codes, [expected], "{index}: {report}");
        assert_eq!(report["device"]["alignment_offset_bytes"]["value"].as_i64(), Some(offset), "{index}");
        if expected == "S021" {
            assert!(message(&report, "S021").contains("vd") && message(&report, "S021").contains(BOGUS));
        }
        // A mapping on top inherits the kernel's -1, with the same cause.
        tree.put("md0", "dev", "9:0");
        tree.stands_on("dm-0", &["md0"]);
        fs::write(tree.0.join("dmsetup-table"), "x: 0 131072 linear 9:0 0\n").unwrap();
        let (codes, report) = tree.minus_one("dm-0", &[("dev", "253:0"), ("dm/name", "x")]);
        assert_eq!(codes, [expected], "{index}, mapped: {report}");
    }
}

#[test]
fn a_minus_one_that_the_kernel_forgets_is_reported() {
    // What Linux 6.12 reports for members at these starts, and the correct finding.
    for (starts, shown, expected) in [
        (["2048", "4097"], "3584", "S020"),
        (["4097", "2048"], "3584", "S020"),
        (["2049", "2050"], "1024", "S020"), // 3584 and 3072, in whole physical sectors
        (["2049", "4097"], "3584", "S023"),
        (["2048", "4097"], "512", "S023"), // not what the kernel derives from them: its figure is kept
    ] {
        let tree = Tree::new();
        tree.partitioned("vda", "254:0", "2048", "0");
        tree.stands_on("dm-0", &["vda"]);
        let table =
            format!("x: 0 1000 linear 254:0 {}\nx: 1000 1000 linear 254:0 {}\n", starts[0], starts[1]);
        fs::write(tree.0.join("dmsetup-table"), table).unwrap();
        tree.disk("dm-0", &[("alignment_offset", shown), ("dev", "253:0"), ("dm/name", "x")]);
        let (report, _) = tree.check("dm-0");
        let found = disk_codes(&report);
        assert!(found.contains(expected), "{starts:?}, {shown}: {report}");
        assert!(!found.contains(if expected == "S020" { "S023" } else { "S020" }), "{report}");
    }
}

#[test]
fn minus_one_of_mappings_and_of_nvme_paths() {
    let tree = Tree::new();
    tree.partitioned("vda", "254:0", "2048", "33553920");
    tree.stands_on("dm-0", &["vda"]);
    let mapped = [("dev", "253:0"), ("dm/name", "x")];
    for (table, expected) in [
        ("x: 0 1000 linear 254:0 0\nx: 1000 1000 linear 254:0 8192\n", "S021"),
        ("x: 0 1000 linear 254:0 0\nx: 1000 1000 linear 254:0 8193\n", "S020"),
        ("x: 0 2000 unheard-of 254:0 0\n", "S020"),
    ] {
        fs::write(tree.0.join("dmsetup-table"), table).unwrap();
        assert_eq!(tree.minus_one("dm-0", &mapped).0, [expected], "{table}");
    }
    fs::remove_file(tree.0.join("dmsetup-table")).unwrap();
    assert_eq!(tree.minus_one("dm-0", &mapped).0, ["S020"]);

    // NPWG without NOWS, as Linux 6.1 shows it, on a namespace with two paths.
    for path in ["nvme0c0n1", "nvme0c1n1"] {
        tree.disk(path, &[("hidden", "1"), ("queue/optimal_io_size", "512")]);
    }
    let (codes, report) = tree.minus_one("nvme0n1", &[]);
    assert_eq!(codes, ["S021"], "{report}");
    assert!(message(&report, "S021").contains("nvme0c0n1, 512 bytes"), "{report}");
}

#[test]
fn devices_that_fail_are_distinguished() {
    if !present(&["linux.uml", "dmsetup", "sfdisk", "jq"]) {
        return;
    }
    let Guest(dir) = Guest::run("failing.sh", "1G");
    let text = |name: &str| fs::read_to_string(dir.join(name)).unwrap();
    let targets = |name: &str| {
        let report: Value = serde_json::from_str(&text(&format!("{name}.json"))).unwrap();
        (list(&report, "targets").to_vec(), text(&format!("{name}.rc")).trim().to_owned())
    };

    // The second partition is not "aligned", the others are; the reported byte is that of the first failing
    // sector.
    let (report, status) = targets("content");
    assert_eq!((status.as_str(), text("content.quiet.rc").trim()), ("3", "3"), "{report:?}");
    let found = codes(&report[0]);
    assert_eq!(found[&2].iter().collect::<Vec<_>>(), ["S081"], "{report:?}");
    assert!(found[&1].is_empty() && found[&3].is_empty(), "{report:?}");
    assert!(
        message(&report[0], "S081").starts_with(&format!("cannot read byte {}", 20480 * 512)),
        "{report:?}"
    );

    // Sector 0 is unreadable: the disk's figures are still shown.
    let (report, status) = targets("table");
    assert_eq!((status.as_str(), text("table.quiet.rc").trim()), ("3", "3"), "{report:?}");
    assert!(message(&report[0], "S081").starts_with("cannot read byte 0"), "{report:?}");
    assert_eq!(report[0]["device"]["physical_sector_bytes"]["value"], 4096);

    // A device that never answers does not delay the others.
    let (reports, status) = targets("list");
    assert_eq!(status, "3", "{reports:?}");
    let failed: Vec<&Value> = reports.iter().filter(|report| word(report, "status") == "failed").collect();
    assert!(
        matches!(failed[..], [late] if late.to_string().contains("timed out after 30 seconds")),
        "{reports:?}"
    );
    assert!(reports.len() >= 4, "{reports:?}");

    let (reports, status) = targets("unplugged");
    assert_eq!(status, "3", "{reports:?}");
    assert!(reports[0].to_string().contains("unplugged"), "{reports:?}");

    // A read-only disk is refused before anything is written, and no backup is left behind.
    assert_eq!(
        (text("readonly.rc").trim(), text("readonly.backups").trim()),
        ("4", ""),
        "{}",
        text("readonly.err")
    );
    assert!(text("readonly.err").contains("read-only"));
}

#[test]
fn zoned_devices_are_named() {
    let tree = Tree::new();
    tree.disk("sda", &[("queue/zoned", "host-managed"), ("queue/chunk_sectors", "524288"), ("ro", "1")]);
    let (report, _) = tree.check("sda");
    assert_eq!(
        report["device"]["zoned"],
        serde_json::json!({"model": "host-managed", "zone_bytes": 268_435_456})
    );
    assert_eq!(report["device"]["read_only"], true);
    let (text, _) = printed(&tree, &["check", "sda"]);
    assert!(text.contains("host-managed zoned, zones of 256 MiB, read-only"), "{text}");
}

/// What `straddle` prints to stdout and stderr with these arguments and the tree.
fn printed(tree: &Tree, arguments: &[&str]) -> (String, String) {
    let output = output(
        Command::new(STRADDLE).args(arguments).arg("--sysroot").arg(tree.0.path()).env("NO_COLOR", "1"),
        "",
    );
    (tools::text(&output.stdout), tools::text(&output.stderr))
}

#[test]
fn disks_are_listed_in_order_and_once() {
    let tree = Tree::new();
    let naa = "naa.5000c500a1b2c3d4";
    for (name, wwid) in [
        ("sdb", Some(naa)),
        ("sda", Some(naa)),
        ("sdc", Some("t10.Generic STORAGE DEVICE 0001")), // an identifier shared by two card readers
        ("sdd", Some("t10.Generic STORAGE DEVICE 0001")),
        ("sdaa", None),
        ("dm-10", None),
        ("dm-2", None),
        ("nvme10n1", None),
        ("nvme2n1", None),
    ] {
        tree.disk(name, &[]);
        if let Some(wwid) = wwid {
            tree.put(name, "device/wwid", wwid);
        }
    }
    // The same identifier with another size is another disk.
    tree.disk("sde", &[("size", "262144"), ("device/wwid", naa)]);
    let (json, stderr) = printed(&tree, &["check", "--json"]);
    let report: Value = serde_json::from_str(&json).unwrap();
    let names: Vec<String> = list(&report, "targets").iter().map(|target| word(target, "target")).collect();
    let expected = ["dm-2", "dm-10", "nvme2n1", "nvme10n1", "sda", "sdc", "sdd", "sde", "sdaa"];
    assert_eq!(names, expected.map(|name| format!("/dev/{name}")));
    assert!(stderr.contains(&format!("because it is another path to sda ({naa})")), "{stderr}");
    // If it is named, it is examined.
    assert_eq!(word(&tree.check("sdb").0, "target"), "sdb");
}

#[test]
fn a_card_reader_without_a_card_holds_no_medium() {
    let tree = Tree::new();
    for (name, removable, reason) in [("sda", "1", "has no medium"), ("nbd0", "0", "is empty (0 bytes)")] {
        tree.disk(name, &[("size", "0"), ("removable", removable)]);
        let (report, status) = tree.check(name);
        assert_eq!((word(&report, "status").as_str(), status), ("failed", 3), "{report}");
        assert!(word(&report, "error").contains(reason), "{report}");
    }
}

#[test]
fn a_partition_as_the_target_counts_its_table() {
    if !present(&["sfdisk"]) {
        return;
    }
    let tree = Tree::new();
    tree.disk("vda", &[]);
    tree.table("vda", "label: gpt\nstart=2048, size=4096\nstart=8192, size=4096\nstart=16384, size=4096\n");
    for (number, start) in [("1", "2048"), ("2", "8192"), ("3", "16384")] {
        let part = |attribute: &str| format!("vda{number}/{attribute}");
        tree.put("vda", &part("partition"), number);
        tree.put("vda", &part("start"), start);
        tree.put("vda", &part("size"), "4096");
    }
    for target in ["vda", "vda2"] {
        let (text, _) = printed(&tree, &["check", target]);
        assert!(text.contains("GPT") && text.contains("3 partitions"), "{text}");
    }
}

#[test]
fn verbose_lists_every_source() {
    let tree = Tree::new();
    tree.disk("sda", &[("queue/optimal_io_size", "524288")]);
    let mut page = block_limits(1024);
    fs::create_dir_all(tree.0.join("sys/block/sda/device")).unwrap();
    fs::write(tree.0.join("sys/block/sda/device/vpd_pgb0"), &page).unwrap();
    // ATA IDENTIFY of a 512e disk whose first boundary is not at 0.
    page = vec![0; 60 + 512];
    page[60] = 0x40;
    page[60 + 212..][..2].copy_from_slice(&0x6003_u16.to_le_bytes());
    page[60 + 418..][..2].copy_from_slice(&0x4001_u16.to_le_bytes());
    fs::write(tree.0.join("sys/block/sda/device/vpd_pg89"), &page).unwrap();
    let (report, _) = tree.check("sda");
    let (text, _) = printed(&tree, &["check", "--verbose", "sda"]);
    let figures =
        report["device"].as_object().unwrap().values().filter(|figure| figure["source"].is_string());
    let mut sources = 0;
    for figure in figures {
        let others = figure["others"].as_array().into_iter().flatten();
        for claim in std::iter::once(figure).chain(others) {
            // Each claim is on a line of its own: "3584 [ATA IDENTIFY word 209]".
            let source = word(claim, "source");
            let is_shown = text.lines().any(|line| line.contains(&format!("[{source}")));
            assert!(is_shown, "{source} is not in\n{text}");
            sources += 1;
        }
    }
    assert!(sources >= 7, "{report}");
}
