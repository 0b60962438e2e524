//! The sectors that a drive itself offers: read from its answers as nvme-cli, hdparm and sg_vpd read them, and
//! the findings S025 and S026, with their commands and dangers. Starts that the drive prefers (NPWA), zones.
//!
//! The answers are made up: straddle reads them from a captured tree, nvme-cli and hdparm by commands to a
//! drive that `offered/answers.c` answers from the same files.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use crate::tools;

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::Command;

use serde_json::Value;
use straddle_units::io::SplitMix64;
use tools::{
    Dir, Run, codes, disk_codes, list, number, output, present, root, straddle, transcript, word, write_table,
};

/// A captured tree of one disk.
struct Tree {
    dir: Dir,
    name: &'static str,
}

impl Tree {
    /// A disk of 1 GiB with these sectors and, from sector 2048 on, a partition.
    fn new(name: &'static str, logical: u64, physical: u64) -> Self {
        let tree = Self { dir: Dir::new("offered"), name };
        for (attribute, value) in [
            ("size", "2097152".to_owned()),
            ("ro", "0".to_owned()),
            ("alignment_offset", "0".to_owned()),
            ("queue/logical_block_size", logical.to_string()),
            ("queue/physical_block_size", physical.to_string()),
            ("queue/minimum_io_size", physical.to_string()),
            ("queue/optimal_io_size", "0".to_owned()),
            ("queue/zoned", "none".to_owned()),
        ] {
            tree.put(attribute, &value);
        }
        tree.partition(2048);
        tree
    }

    fn put(&self, attribute: &str, value: &str) {
        self.write(&format!("sys/block/{}/{attribute}", self.name), format!("{value}\n").as_bytes());
    }

    fn partition(&self, start: u64) {
        let part = if self.name.ends_with(|c: char| c.is_ascii_digit()) { "p1" } else { "1" };
        for (attribute, value) in [("partition", 1), ("start", start), ("size", 65536), ("ro", 0)] {
            self.put(&format!("{}{part}/{attribute}", self.name), &value.to_string());
        }
    }

    fn write(&self, name: &str, bytes: &[u8]) {
        let path = self.dir.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, bytes).unwrap();
    }

    /// Keeps an answer of the drive.
    fn answer(&self, name: &str, bytes: &[u8]) {
        self.write(&format!("answers/{}/{name}", self.name), bytes);
    }

    fn answers(&self) -> PathBuf {
        self.dir.join("answers").join(self.name)
    }

    fn report(&self) -> Value {
        let target = format!("/dev/{}", self.name);
        let sysroot = self.dir.path().to_str().unwrap();
        straddle(&["check", "--json", "--sysroot", sysroot, &target]).json()["targets"][0].take()
    }

    /// The message of the finding with this code, and the text of its fix.
    fn finding(&self, code: &str) -> Option<(String, String)> {
        let report = self.report();
        let finding = list(&report, "findings").iter().find(|finding| word(finding, "code") == code)?;
        assert_eq!(word(finding, "severity"), "advice", "{finding}");
        assert!(
            list(&finding["fix"], "commands").is_empty(),
            "a command to paste destroys the drive: {finding}"
        );
        Some((word(finding, "message"), word(&finding["fix"], "summary")))
    }
}

/// Identify Namespace with these formats: metadata, LBADS and RP of each; the one at `current` is in force.
fn namespace(formats: &[(u16, u8, u8)], current: u8) -> Vec<u8> {
    let mut data = vec![0; 4096];
    data[..8].copy_from_slice(&2_097_152_u64.to_le_bytes());
    (data[25], data[26]) = (u8::try_from(formats.len() - 1).unwrap(), current);
    for (entry, (metadata, shift, performance)) in data[128..].chunks_exact_mut(4).zip(formats) {
        entry[..2].copy_from_slice(&metadata.to_le_bytes());
        (entry[2], entry[3]) = (*shift, *performance);
    }
    data
}

/// Identify Controller: OACS and FNA.
fn controller(oacs: u16, fna: u8) -> Vec<u8> {
    let mut data = vec![0; 4096];
    data[82] = 2;
    data[256..258].copy_from_slice(&oacs.to_le_bytes());
    data[524] = fna;
    data
}

/// A Sector Configuration log: the first byte and the size in words of each descriptor.
fn sector_log(descriptors: &[(u8, u32)]) -> Vec<u8> {
    let mut data = vec![0; 512];
    for (entry, (flags, words)) in data.chunks_exact_mut(16).zip(descriptors) {
        entry[0] = *flags;
        entry[2..4].copy_from_slice(&[0x12, 0x34]);
        entry[4..8].copy_from_slice(&words.to_le_bytes());
    }
    data
}

/// VPD page B4h: the length and the bytes 4 and 5 of each descriptor.
fn lengths(descriptors: &[(u32, [u8; 2])]) -> Vec<u8> {
    let mut data = vec![0, 0xb4];
    data.extend(u16::try_from(8 * descriptors.len()).unwrap().to_be_bytes());
    for (length, [checks, types]) in descriptors {
        data.extend(length.to_be_bytes());
        data.extend([*checks, *types, 0, 0]);
    }
    data
}

const SMALL_AND_GOOD: (u16, u8, u8) = (0, 9, 2);
const LARGE_AND_BEST: (u16, u8, u8) = (0, 12, 0);

#[test]
fn a_faster_format_has_its_command_and_its_danger() {
    let tree = Tree::new("nvme0n1", 512, 512);
    tree.answer("nvme-id-ns", &namespace(&[SMALL_AND_GOOD, (8, 12, 0), LARGE_AND_BEST], 0));
    let (message, fix) = tree.finding("S025").unwrap();
    let formats = "0: 512 bytes, good, in use; 1: 4096 bytes and 8 of metadata, best; 2: 4096 bytes, best";
    assert!(message.contains(formats), "{message}");
    assert!(
        fix.contains("nvme format /dev/nvme0n1 --lbaf=2. THIS DESTROYS EVERYTHING ON IT, and on some"),
        "{fix}"
    );
    for (oacs, fna, words) in [
        (1 << 1, 0, "--lbaf=2. THIS DESTROYS EVERYTHING ON IT"),
        (1 << 1, 0b110, "--lbaf=2. THIS DESTROYS EVERYTHING ON IT"),
        (1 << 1, 1, "--lbaf=2. THIS DESTROYS EVERYTHING ON ALL NAMESPACES OF THE DRIVE"),
        (!(1 << 1), 1, "the controller does not support formatting"),
    ] {
        tree.answer("nvme-id-ctrl", &controller(oacs, fna));
        let (_, fix) = tree.finding("S025").unwrap();
        assert!(fix.contains(words) && fix.contains("some drives") == (oacs == 0), "{oacs:#x} {fna}: {fix}");
        assert_eq!(fix.contains("nvme format"), oacs & 2 != 0, "{fix}");
    }
    // The summary names the disk, also where a partition is the target.
    let report = straddle(&["check", "--sysroot", tree.dir.path().to_str().unwrap(), "/dev/nvme0n1p1"]);
    assert!(!report.out.contains("nvme0n1p1 --lbaf"), "{}", report.out);
}

#[test]
fn formats_that_are_no_better_are_only_listed() {
    for formats in [
        &[(0, 9, 0), (0, 12, 0)][..],               // as fast
        &[(0, 9, 0), (0, 12, 1)],                   // slower
        &[SMALL_AND_GOOD, (8, 12, 0), (64, 12, 0)], // only with metadata
        &[SMALL_AND_GOOD, (0, 0, 0), (0, 17, 0)],   // not available, and not a size
        &[SMALL_AND_GOOD],
    ] {
        let tree = Tree::new("nvme0n1", 512, 512);
        tree.answer("nvme-id-ns", &namespace(formats, 0));
        let report = tree.report();
        assert!(!disk_codes(&report).contains("S025"), "{report}");
        let usable = formats.iter().filter(|(_, shift, _)| (9..=16).contains(shift)).count();
        assert_eq!(list(&report["device"]["formats"], "list").len(), usable);
    }
    // Without its answer nothing is known, and nothing is said.
    assert!(Tree::new("nvme0n1", 512, 512).report()["device"]["formats"].is_null());
}

#[test]
fn larger_sectors_are_named_where_the_physical_ones_are_larger() {
    let ata = |logical, physical, sizes: &[(u8, u32)]| {
        let tree = Tree::new("sda", logical, physical);
        tree.put("device/vendor", "ATA     ");
        tree.answer("ata-log-2f", &sector_log(sizes));
        tree.finding("S026")
    };
    let both = [(0x80, 256), (0x80, 2048)];
    let (message, fix) = ata(512, 4096, &both).unwrap();
    assert!(message.contains("(ATA log 2Fh, Sector Configuration: 512, 4096)"), "{message}");
    let command =
        "hdparm --set-sector-size 4096 --please-destroy-my-drive /dev/sda. THIS DESTROYS EVERYTHING ON IT";
    assert!(fix.contains(command) && fix.contains("BIOS"), "{fix}");
    for (logical, physical, sizes) in [
        (4096, 4096, &both[..]),                   // already so
        (512, 512, &both),                         // its physical sectors are small
        (512, 4096, &both[..1]),                   // no larger ones
        (512, 4096, &[(0x80, 256), (0, 2048)]),    // not valid
        (512, 4096, &[(0x80, 256), (0x80, 4096)]), // larger than the physical ones
        (512, 4096, &[]),
    ] {
        assert_eq!(ata(logical, physical, sizes), None, "{logical} {physical} {sizes:?}");
    }

    let tree = Tree::new("sda", 512, 4096);
    tree.put("device/vendor", "SEAGATE ");
    tree.answer("scsi-vpd-b4", &lengths(&[(512, [0, 1]), (520, [0, 1]), (4096, [0, 15])]));
    let (message, fix) = tree.finding("S026").unwrap();
    assert!(message.contains("supported block lengths: 512, 4096)"), "{message}");
    assert!(fix.contains("sg_format --format --size=4096 /dev/sda. THIS DESTROYS EVERYTHING ON IT"), "{fix}");
    tree.answer("scsi-vpd-b4", &lengths(&[(512, [0, 1]), (4096, [0, 2])]));
    assert_eq!(tree.finding("S026"), None, "4096 bytes only with protection information");
}

fn one_of(random: &mut SplitMix64, values: [u32; 4]) -> u32 {
    values[usize::try_from(random.below(4)).unwrap()]
}

/// The sizes of the sectors that the report lists.
fn sizes(tree: &Tree) -> Vec<u64> {
    let report = tree.report();
    let listed = report["device"]["formats"]["list"].as_array();
    listed.into_iter().flatten().map(|format| number(format, "logical_sector_bytes")).collect()
}

/// Compiles the library that answers the commands of nvme-cli and hdparm; returns the tool, ready to run on
/// the answers of `tree`.
fn tool(tree: &Tree, name: &str, arguments: &[&str]) -> String {
    let (library, node) = (tree.dir.join("answers.so"), tree.dir.join("node"));
    if !library.exists() {
        let source = root().join("tests/offered/answers.c");
        let mut compiler = Command::new("cc");
        compiler.args(["-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", "-o"]).arg(&library).arg(source);
        let made = output(&mut compiler, "");
        assert!(made.status.success(), "{}", transcript(&made));
        fs::write(&node, "").unwrap();
        fs::set_permissions(&node, fs::Permissions::from_mode(0o1600)).unwrap();
    }
    let mut command = Command::new(name);
    command.env("PATH", tools::PATH).env("LD_PRELOAD", library).env("DRIVE_ANSWERS", tree.answers());
    let said = output(command.args(arguments).arg(node), "");
    assert!(said.status.success(), "{name}: {}", transcript(&said));
    String::from_utf8(said.stdout).unwrap()
}

#[test]
fn formats_are_those_that_nvme_cli_reads() {
    if !present(&["nvme", "cc"]) {
        return;
    }
    let tree = Tree::new("nvme0n1", 512, 512);
    let mut random = SplitMix64::new(5);
    let mut faster = 0;
    for round in 0..60 {
        let mut data = vec![0; 4096];
        random.fill(&mut data[24..512]);
        // As many formats as there is room for, mostly of sizes that exist. nvme-cli 2.3 lists none of those
        // with unique attributes (NULBAF).
        (data[25], data[82]) = (data[25] % 64, 0);
        for format in data[128..384].chunks_exact_mut(4) {
            (format[1], format[0], format[2]) = (0, format[0] & 8, format[2] % 6 + 8);
        }
        let mut control = vec![0; 4096];
        random.fill(&mut control[80..768]);
        // NPSS, the last power state: nvme-cli reads as many, past the end of the data.
        control[263] = 0;
        tree.answer("nvme-id-ns", &data);
        tree.answer("nvme-id-ctrl", &control);
        let theirs: Value = serde_json::from_str(&tool(&tree, "nvme", &["id-ns", "-o", "json"])).unwrap();
        let drive: Value = serde_json::from_str(&tool(&tree, "nvme", &["id-ctrl", "-o", "json"])).unwrap();
        let performance = |rp: u64| ["best", "better", "good", "degraded"][usize::try_from(rp & 3).unwrap()];
        let read = |(at, format): (u64, &Value)| {
            let (shift, rp) = (number(format, "ds"), number(format, "rp"));
            (at, 1_u64 << shift, number(format, "ms"), performance(rp).to_owned())
        };
        let numbered = || (0_u64..).zip(list(&theirs, "lbafs"));
        let expected: Vec<_> = numbered().filter(|(_, f)| number(f, "ds") >= 9).map(read).collect();
        let flbas = number(&theirs, "flbas");
        let upper = if list(&theirs, "lbafs").len() > 16 { flbas >> 1 & 0x30 } else { 0 };
        let current = upper | flbas & 15;
        let report = tree.report();
        let ours = &report["device"]["formats"];
        let Some(in_force) = expected.iter().find(|(at, ..)| *at == current) else {
            assert!(ours.is_null(), "round {round}: {ours}");
            continue;
        };
        let shown = list(ours, "list").iter().map(|format| {
            let field = |name| number(format, name);
            (
                field("number"),
                field("logical_sector_bytes"),
                field("metadata_bytes"),
                word(format, "performance"),
            )
        });
        let shown: Vec<_> = shown.collect();
        let chosen: Vec<u64> = list(ours, "list")
            .iter()
            .filter(|format| format["in_force"] == true)
            .map(|format| number(format, "number"))
            .collect();
        assert_eq!((shown, chosen), (expected.clone(), vec![current]), "round {round}");
        let rank = |name: &str| (0..4).find(|rp| performance(*rp) == name).unwrap();
        let is_faster = expected.iter().any(|(_, _, metadata, performance)| {
            *metadata == in_force.2 && rank(performance) < rank(&in_force.3)
        });
        assert_eq!(disk_codes(&report).contains("S025"), is_faster, "round {round}: {report}");
        if is_faster {
            faster += 1;
            let (_, fix) = tree.finding("S025").unwrap();
            let (can, all) = (number(&drive, "oacs") & 2 != 0, number(&drive, "fna") & 1 != 0);
            assert_eq!(
                (fix.contains("nvme format"), fix.contains("ALL NAMESPACES")),
                (can, can && all),
                "{fix}"
            );
        }
    }
    assert!(faster > 10, "only {faster} had a faster format");
}

#[test]
fn sector_sizes_are_those_that_hdparm_reads() {
    if !present(&["hdparm", "cc"]) {
        return;
    }
    let tree = Tree::new("sda", 512, 4096);
    let mut identify = vec![0; 512];
    for (word, value) in [(0, 0x0040_u16), (80, 0x0ff0), (84, 0x4063), (87, 0x4063), (106, 0x6003)] {
        identify[2 * word..2 * word + 2].copy_from_slice(&value.to_le_bytes());
    }
    let mut directory = vec![0; 512];
    (directory[0], directory[2 * 0x2f]) = (1, 1);
    tree.answer("ata-identify", &identify);
    tree.answer("ata-log-00", &directory);
    let mut random = SplitMix64::new(7);
    let mut several = 0;
    for round in 0..40 {
        let descriptors: Vec<(u8, u32)> = (0..random.below(9))
            .map(|_| {
                (u8::try_from(random.below(2) << 7).unwrap(), one_of(&mut random, [256, 260, 2048, 8192]))
            })
            .collect();
        tree.answer("ata-log-2f", &sector_log(&descriptors));
        let said = tool(&tree, "hdparm", &["-I"]);
        let ours = sizes(&tree);
        let mut theirs: Vec<u64> = said
            .split("[ Supported:")
            .nth(1)
            .and_then(|rest| rest.split(']').next())
            .map(|sizes| sizes.split_whitespace().map(|size| size.parse().unwrap()).collect())
            .unwrap_or_default();
        // hdparm lists 520 bytes too, which no block device has, and repeats sizes.
        let mut seen = BTreeSet::new();
        theirs.retain(|size| size.is_power_of_two() && seen.insert(*size));
        assert_eq!(ours, theirs, "round {round}: {descriptors:?}: {said}");
        several += usize::from(ours.len() > 1);
    }
    assert!(several > 5, "only {several} had several sizes");
}

#[test]
fn block_lengths_are_those_that_sg_vpd_reads() {
    if !present(&["sg_vpd"]) {
        return;
    }
    let tree = Tree::new("sda", 512, 4096);
    let mut random = SplitMix64::new(11);
    for round in 0..40 {
        let descriptors: Vec<(u32, [u8; 2])> = (0..1 + random.below(6))
            .map(|_| {
                let mut bits = [0; 2];
                random.fill(&mut bits);
                (one_of(&mut random, [512, 520, 4096, 4160]), bits)
            })
            .collect();
        tree.answer("scsi-vpd-b4", &lengths(&descriptors));
        let mut command = Command::new("sg_vpd");
        command.env("PATH", tools::PATH).args(["--page=0xb4", "--raw", "--inhex"]);
        let said = output(command.arg(tree.answers().join("scsi-vpd-b4")), "");
        assert!(said.status.success(), "{}", transcript(&said));
        let said = String::from_utf8(said.stdout).unwrap();
        let mut theirs = Vec::new();
        for block in said.split("Logical block length: ").skip(1) {
            let size: u64 = block.split_whitespace().next().unwrap().parse().unwrap();
            let is_plain =
                block.lines().any(|line| line.trim_start().starts_with("T0PS") && line.ends_with('1'));
            if is_plain && size.is_power_of_two() && !theirs.contains(&size) {
                theirs.push(size);
            }
        }
        let ours = sizes(&tree);
        assert_eq!(ours, theirs, "round {round}: {descriptors:x?}: {said}");
    }
}

/// Answers of any bytes and any length: nothing but a report comes of them.
#[test]
fn hostile_answers_do_no_harm() {
    let mut random = SplitMix64::new(13);
    for round in 0..60 {
        let name = ["nvme0n1", "sda"][round % 2];
        let tree = Tree::new(name, 512, 4096);
        for answer in ["nvme-id-ns", "nvme-id-ctrl", "ata-identify", "ata-log-2f", "scsi-vpd-b4"] {
            let mut bytes =
                vec![0; [4096, 512, 70_000, usize::try_from(random.below(300)).unwrap()][round % 4]];
            random.fill(&mut bytes);
            if let (true, Some(header)) = (answer == "scsi-vpd-b4", bytes.get_mut(..2)) {
                header[1] = 0xb4;
            }
            tree.answer(answer, &bytes);
        }
        let Run { out, err, code } = straddle(&[
            "check",
            "--json",
            "--sysroot",
            tree.dir.path().to_str().unwrap(),
            &format!("/dev/{name}"),
        ]);
        let is_report = serde_json::from_str::<Value>(&out).is_ok();
        assert!(is_report && (0..=2).contains(&code), "round {round}: {code} {out}{err}");
    }
    // A folder and a link to nowhere in place of answers.
    let tree = Tree::new("nvme0n1", 512, 4096);
    fs::create_dir_all(tree.answers().join("nvme-id-ns")).unwrap();
    std::os::unix::fs::symlink("nowhere", tree.answers().join("nvme-id-ctrl")).unwrap();
    assert!(tree.report()["device"]["formats"].is_null());
}

#[test]
fn a_start_that_the_drive_prefers_is_no_warning() {
    // NPWG of 16 KiB. NPWA, the start in sectors, and the severity of S004.
    for (alignment, start, severity) in [
        (7, 2056, Some("advice")),  // 4 KiB, as a Samsung 980 reports it
        (7, 2057, Some("warning")), // off 4 KiB, too
        (7, 2080, None),
        (31, 2056, Some("warning")), // 16 KiB
        (0, 2056, Some("warning")),  // one block: nothing is said
        (11, 2056, Some("warning")), // 6 KiB, which does not divide 16 KiB
    ] {
        let tree = Tree::new("nvme0n1", 512, 512);
        tree.put("queue/minimum_io_size", "16384");
        tree.partition(start);
        let mut data = namespace(&[SMALL_AND_GOOD], 0);
        data[24] = 1 << 4;
        (data[64], data[66]) = (31, alignment);
        tree.answer("nvme-id-ns", &data);
        let report = tree.report();
        let found = list(&report, "findings").iter().find(|finding| word(finding, "code") == "S004");
        assert_eq!(
            found.map(|finding| word(finding, "severity")).as_deref(),
            severity,
            "{alignment}: {report}"
        );
        let explained = found.is_some_and(|finding| {
            word(finding, "message").contains("4096 bytes, the alignment that the drive prefers")
        });
        assert_eq!(explained, severity == Some("advice"), "{report}");
        assert!(!codes(&report).get(&1).is_some_and(|codes| codes.contains("S003")), "{report}");
    }
}

/// A zoned disk is named so, and no command that moves data is printed for it.
#[test]
fn nothing_is_moved_on_a_zoned_disk() {
    for (zoned, is_zoned) in [("none", false), ("host-aware", true), ("host-managed", true)] {
        let tree = Tree::new("sda", 512, 4096);
        tree.put("queue/zoned", zoned);
        tree.put("queue/chunk_sectors", "524288");
        tree.partition(63);
        tree.write("dev/sda", &[]);
        fs::OpenOptions::new().write(true).open(tree.dir.join("dev/sda")).unwrap().set_len(1 << 30).unwrap();
        write_table(&tree.dir.join("dev/sda"), 512, "label: dos\nstart=63, size=65536\n");
        let report = tree.report();
        let found = list(&report, "findings").iter().find(|finding| word(finding, "code") == "S001").unwrap();
        let (fix, instead) = (&found["fix"], &found["alternative"]);
        let commands = list(fix, "commands").len() + instead["commands"].as_array().map_or(0, Vec::len);
        let summary = word(fix, "summary");
        assert_eq!(commands == 0, is_zoned, "{found}");
        assert_eq!(
            summary.contains("at the start of a zone (a multiple of 268435456 bytes)"),
            is_zoned,
            "{summary}"
        );
        let shown = straddle(&["check", "--sysroot", tree.dir.path().to_str().unwrap(), "/dev/sda"]).out;
        assert_eq!(shown.contains(&format!("{zoned} zoned, zones of 256 MiB")), is_zoned, "{shown}");
        assert_eq!(shown.contains("straddle realign /dev/sda"), !is_zoned, "{shown}");
    }
}
