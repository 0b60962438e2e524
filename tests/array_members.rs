//! Every member of an array gets the same findings on the array's partitions, or the answer that they cannot
//! be judged from it: while the array runs, when it is stopped, and from the bytes alone. No member is
//! reported as fine without having been examined.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use crate::tools;

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::FileExt;

use serde_json::Value;
use tools::{Dir, Guest, check, list, present, word};

/// The number of arrays made by tests/guest/array-members.sh.
const ARRAYS: usize = 23;

/// Findings that are never true of a member, because the array's table is not its own.
const OWN: [&str; 5] = ["S001", "S002", "S042", "S080", "S010"];

fn codes(target: &Value) -> BTreeSet<String> {
    list(target, "findings").iter().map(|finding| word(finding, "code")).collect()
}

/// Status and codes, without what differs between a disk and its image.
fn judged(target: &Value) -> (String, BTreeSet<String>) {
    (word(target, "status"), codes(target))
}

fn check_array(guest: &Guest, name: &str) {
    let members = guest.names(&format!("{name}."), ".img");
    let is_firmware = name.contains("imsm") || name.contains("ddf");
    let is_mirror = name.contains("mirror") && !is_firmware;
    let healthy = if name.starts_with("aligned-") { &["ok", "advice"][..] } else { &["error"] };
    let mut seen = 0;
    for member in &members {
        let file = format!("{name}.{member}");
        let view = |when: &str| -> Value {
            let report: Value = serde_json::from_str(&guest.text(&format!("{file}.{when}"))).unwrap();
            report["targets"][0].clone()
        };
        let (running, stopped) = (view("running"), view("stopped"));
        let image = check(&guest.0.join(&format!("{file}.img")), &["--assume", "512e", "--allow-unknown"]);
        for (when, target) in [("running", &running), ("stopped", &stopped), ("image", &image)] {
            let found = codes(target);
            assert!(!OWN.iter().any(|code| found.contains(*code)), "{file} {when}: {target}");
        }
        let (status, found) = judged(&running);
        assert!(healthy.contains(&status.as_str()), "{file} running: {running}");
        assert_eq!(found.contains("S054"), healthy == ["error"], "{file} running: {running}");
        assert_eq!(judged(&stopped), judged(&image), "{file}: {stopped} {image}");
        let (offline, found) = judged(&image);
        if offline == "not_judged" {
            let reason = word(&image, "reason");
            assert!(reason.contains("assemble the array (mdadm") && !is_mirror, "{file}: {reason}");
        } else {
            seen += 1;
            assert_eq!((offline, found), judged(&running), "{file}: {image}");
        }
    }
    check_together(guest, name, &members);
    assert_eq!(seen == 0, is_firmware, "{name}: {seen} of {} show the table", members.len());
    assert!(!is_mirror || seen == members.len(), "{name}");
}

/// In one run over all members, each is judged with one that shows all of the array, if there is one.
fn check_together(guest: &Guest, name: &str, members: &[String]) {
    let files: Vec<String> = members.iter().map(|member| format!("{name}.{member}.img")).collect();
    let run = |files: &[&str]| -> Vec<Value> {
        let words = ["check", "--json", "--assume", "512e"];
        let output = tools::straddle_in(&guest.0, &[&words[..], files].concat());
        let report: Value = serde_json::from_slice(&output.stdout).unwrap();
        list(&report, "targets").to_vec()
    };
    let files: Vec<&str> = files.iter().map(String::as_str).collect();
    let alone: Vec<Value> = files.iter().flat_map(|file| run(&[file])).collect();
    let hides = |target: &Value| target.to_string().contains("assemble the array (mdadm");
    let shows_all = |target: &Value| word(target, "status") != "not_judged" && !hides(target);
    let is_shown = alone.iter().any(shows_all);
    println!("{name}: {} of {} show all", alone.iter().filter(|one| shows_all(one)).count(), alone.len());
    let known = ["mirror-10", "raid0-10", "raid5-10", "aligned-raid0", "aligned-raid5"].contains(&name);
    assert!(is_shown || !known, "{name}");
    for (one, together) in alone.iter().zip(run(&files)) {
        let with = together.to_string().contains("the array is checked through");
        assert_eq!(with, is_shown && hides(one), "{name}: {together}");
        assert!(!with || !hides(&together), "{name}: {together}");
        if is_shown {
            assert_ne!(word(&together, "status"), "not_judged", "{name}: {together}");
        } else {
            assert_eq!(judged(&together), judged(one), "{name}: {together}");
        }
    }
}

#[test]
fn every_member_shows_the_same_of_its_array() {
    if !present(&["linux.uml", "mdadm", "sfdisk", "mkfs.ext4"]) {
        return;
    }
    let guest = Guest::run("array-members.sh", "2G");
    let names = guest.names("", ".0.img");
    assert_eq!(names.len(), tools::skip::taken(ARRAYS, 4), "{names:?}");
    names.iter().for_each(|name| check_array(&guest, name));
}

/// The signatures of array members: name, offset from the end of the disk, and bytes.
const MARKS: [(&str, u64, &[u8]); 7] = [
    ("ddf_raid_member", 512, b"\xDE\x11\xDE\x11"),
    ("isw_raid_member", 1024, b"Intel Raid ISM Cfg Sig. 1.3.00"),
    ("lsi_mega_raid_member", 512, b"$XIDE$"),
    ("nvidia_raid_member", 1024, b"NVIDIA  \x1E\0\0\0"),
    ("promise_fasttrack_raid_member", 63 * 512, b"Promise Technology, Inc."),
    ("hpt45x_raid_member", 11 * 512, b"\xF3\x16\x78\x5A"),
    ("drbd", 4096 - 60, b"\x83\x74\x02\x6B"),
];

/// Members with a table at sector 63. None may be called "ok"; only a disk that is one side of a mirror is
/// judged.
#[test]
fn a_member_of_what_is_not_read_does_not_pass() {
    if !present(&["sfdisk"]) {
        return;
    }
    const LEN: u64 = 16 << 20;
    for (name, back, bytes) in MARKS {
        let dir = Dir::new("array-marks");
        let image = dir.image("disk", LEN);
        fs::OpenOptions::new().write(true).open(&image).unwrap().write_all_at(bytes, LEN - back).unwrap();
        let line = "printf 'label: dos\n63,20000,83\n' | sfdisk -q --wipe never disk";
        tools::shell(line, dir.path());
        let target = check(&image, &["--assume", "512e", "--allow-unknown"]);
        let (status, found) = judged(&target);
        let expected = if name == "drbd" { "error" } else { "not_judged" };
        assert_eq!(status, expected, "{name}: {target}");
        assert_eq!(found.contains("S054"), name == "drbd", "{name}: {target}");
    }
}
