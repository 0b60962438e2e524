//! straddle compared with the kernel, parted and fdisk on real block devices: scsi_debug disks and an md
//! array in a User-Mode Linux guest. Everything in the guest may be written, and nothing on the host is.
//!
//! straddle differs on purpose in two places:
//!
//! - an impossible optimal I/O size (65535 and 1025 blocks): parted's `opt` requires multiples of
//!   it. straddle reports S021 and requires 1 MiB.
//! - An array that the kernel calls misaligned (-1): libblkid reports 0 for it, so parted finds start 2048
//!   aligned. straddle reports S020.

use crate::tools;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use serde_json::Value;
use tools::{Guest, codes, disk_codes, list, number, present, word};

/// With fewer comparisons than this, the guest did not do its work.
const LEAST_COMPARISONS: usize = 400;

/// The configurations with an optimal I/O size that the kernel accepts although it cannot be true.
const BOGUS_OPTIMUM: [&str; 2] = ["512n-opt1025", "512n-opt65535"];

/// The verdicts on one partition: a line of judges.tsv.
struct Judged<'a> {
    config: &'a str,
    fields: BTreeMap<&'a str, &'a str>,
}

impl Judged<'_> {
    fn number(&self, field: &str) -> u64 {
        self.fields[field].parse().unwrap_or_else(|_| panic!("{field}: {:?}", self.fields))
    }

    fn is(&self, field: &str, verdict: &str) -> bool {
        self.fields[field] == verdict
    }
}

fn judged(table: &str) -> Vec<Judged<'_>> {
    let mut lines = table.lines().map(|line| line.split('\t'));
    let names: Vec<&str> = lines.next().expect("a heading").collect();
    lines
        .map(|line| {
            let fields: BTreeMap<&str, &str> = names.iter().copied().zip(line).collect();
            Judged { config: fields["config"], fields }
        })
        .collect()
}

/// straddle's output in the guest for `name`, and its exit status.
fn printed(out: &Path, name: &str) -> (Vec<Value>, i32) {
    let read = |end: &str| fs::read_to_string(out.join(format!("{name}.{end}"))).expect("straddle was run");
    assert_eq!(read("err"), "", "{name}");
    let report: Value = serde_json::from_str(&read("json")).expect("JSON");
    (list(&report, "targets").to_vec(), read("rc").trim().parse().expect("an exit status"))
}

/// Asserts that the figures in force are those of sysfs.
fn same_figures(report: &Value, line: &Judged<'_>) {
    let device = &report["device"];
    for (ours, theirs) in [
        ("logical_sector_bytes", "logical"),
        ("physical_sector_bytes", "physical"),
        ("minimum_io_bytes", "io_min"),
        ("alignment_offset_bytes", "disk_alignment_offset"),
    ] {
        assert_eq!(number(&device[ours], "value"), line.number(theirs), "{}: {ours}", line.config);
    }
    match line.number("io_opt") {
        // The kernel reports nothing, or has dropped the drive's figure: no tool sees it, and no rule uses
        // it.
        0 => {
            assert!(matches!(device["optimal_io_bytes"]["value"].as_u64(), None | Some(0)), "{device}");
            assert!(!disk_codes(report).contains("S021"), "{}: {device}", line.config);
        }
        size => assert_eq!(number(&device["optimal_io_bytes"], "value"), size, "{}: io_opt", line.config),
    }
}

/// Asserts that the drive itself was queried too, and agrees with the kernel.
fn drive_agrees(report: &Value, config: &str) {
    let physical = &report["device"]["physical_sector_bytes"];
    let claims = list(physical, "others");
    let said = claims.iter().find(|claim| word(claim, "source").starts_with("SCSI READ CAPACITY (16)"));
    let said = said.unwrap_or_else(|| panic!("{config}: the drive was not asked: {physical}"));
    assert_eq!(said["value"], physical["value"], "{config}");
}

/// Compares straddle's verdicts on one start with those of the other judges; returns how many were compared.
fn same_verdicts(found: &BTreeSet<String>, line: &Judged<'_>) -> usize {
    let has = |code: &str| found.contains(code);
    let place =
        format!("{} start {}: we {found:?}, judges {:?}", line.config, line.fields["start_lba"], line.fields);
    assert_eq!(has("S001"), !line.is("kernel_alignment_offset", "0"), "the kernel, {place}");
    assert_eq!(has("S001"), line.is("parted_min", "not"), "parted min, {place}");
    assert_eq!(has("S001"), line.is("fdisk", "complains"), "fdisk, {place}");
    if BOGUS_OPTIMUM.contains(&line.config) {
        // On purpose: parted uses the bogus size, straddle uses 1 MiB.
        let sectors = line.number("io_opt") / line.number("logical");
        let start = line.number("start_lba");
        assert_eq!(line.is("parted_opt", "not"), !start.is_multiple_of(sectors), "parted opt, {place}");
        assert_eq!(has("S008"), !start.is_multiple_of(2048), "our grain, {place}");
        return 3;
    }
    let off = has("S001") || has("S006") || has("S008");
    assert_eq!(off, line.is("parted_opt", "not"), "parted opt, {place}");
    4
}

fn check_disks(out: &Path, table: &str) {
    let lines = judged(table);
    let configs: BTreeSet<&str> = lines.iter().map(|line| line.config).collect();
    assert!(configs.len() >= 9, "{configs:?}");
    let (mut starts, mut verdicts) = (0, 0);
    for config in configs {
        let (targets, status) = printed(out, config);
        let report = &targets[0];
        let own: Vec<&Judged<'_>> = lines.iter().filter(|line| line.config == config).collect();
        same_figures(report, own[0]);
        if config.starts_with("512e") {
            drive_agrees(report, config);
        }
        if BOGUS_OPTIMUM.contains(&config) {
            assert!(disk_codes(report).contains("S021"), "{config}");
        }
        let found = codes(report);
        assert_eq!(found.len(), own.len(), "{config}: partitions");
        let mut fails = false;
        for (partition, line) in list(report, "partitions").iter().zip(&own) {
            assert_eq!(number(partition, "start_lba"), line.number("start_lba"), "{config}");
            verdicts += same_verdicts(&found[&number(partition, "number")], line);
            starts += 1;
            // A partition smaller than a physical sector cannot be aligned at both ends, and does not cause a
            // failure.
            let is_whole = number(partition, "size_bytes") >= own[0].number("physical");
            fails |= is_whole && found[&number(partition, "number")].contains("S001");
        }
        assert_eq!(status, i32::from(fails), "{config}: exit");
    }
    println!("{starts} starts, {verdicts} verdicts compared");
    assert!(starts >= LEAST_COMPARISONS, "only {starts} starts were compared");
}

/// The output of `command`, taken from md.txt.
fn section<'a>(text: &'a str, command: &str) -> &'a str {
    let from = text.split("== ").find(|section| section.starts_with(command));
    from.unwrap_or_else(|| panic!("no section {command} in {text}"))
}

fn check_array(out: &Path) {
    let text = fs::read_to_string(out.join("md.txt")).expect("the array was made");
    assert!(
        section(&text, "grep . /sys/block/md0/").contains("/sys/block/md0/alignment_offset:-1"),
        "{text}"
    );
    let (targets, status) = printed(out, "md-raid1");
    assert_eq!(status, 1);
    assert_eq!(targets[0]["device"]["alignment_offset_bytes"]["value"], -1);
    assert!(disk_codes(&targets[0]).contains("S020"));
    // On purpose: a program that uses libblkid sees no offset at all.
    assert!(section(&text, "parted /dev/md0").contains("\n1 aligned"), "{text}");
    assert!(!section(&text, "blkid -i").contains("ALIGNMENT_OFFSET"), "{text}");
}

fn check_all(out: &Path) {
    let (targets, status) = printed(out, "all");
    let names: BTreeSet<String> = targets.iter().map(|target| word(target, "target")).collect();
    assert_eq!(names, BTreeSet::from(["/dev/md0".to_owned(), "/dev/sda".to_owned()]));
    assert_eq!(status, 1);
}

#[test]
fn the_kernel_and_the_tools_agree() {
    if !present(&["linux.uml", "parted", "fdisk", "sfdisk", "mdadm"]) {
        return;
    }
    let Guest(dir) = Guest::run("judges.sh", "1G");
    let table = fs::read_to_string(dir.join("judges.tsv")).expect("the judges were asked");
    check_disks(dir.path(), &table);
    check_array(dir.path());
    check_all(dir.path());
}
