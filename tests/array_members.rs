//! Every member of an array is told the same of the array's partitions, or that they cannot be judged from it: while the
//! array runs, when it is stopped, and by the bytes alone. No member passes for what nobody looked at.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod tools;

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use serde_json::Value;
use tools::{Dir, Guest, STRADDLE, check, list, present, word};

/// Arrays of tests/guest/array-members.sh.
const ARRAYS: usize = 23;

/// What is never true of a member: that the array's table is its own.
const OWN: [&str; 5] = ["S001", "S002", "S042", "S080", "S010"];

fn codes(target: &Value) -> BTreeSet<String> {
    list(target, "findings").iter().map(|finding| word(finding, "code")).collect()
}

/// Status and codes, the same of a disk and of its image.
fn judged(target: &Value) -> (String, BTreeSet<String>) {
    (word(target, "status"), codes(target))
}

fn check_array(guest: &Guest, name: &str) {
    let members = guest.names(&format!("{name}."), ".img");
    let is_mirror = name.contains("mirror") || name == "aligned-imsm";
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
    let is_firmware = name == "raid0-imsm" || name == "raid0-ddf";
    assert_eq!(seen == 0, is_firmware, "{name}: {seen} of {} show the table", members.len());
    assert!(!is_mirror || seen == members.len(), "{name}");
}

#[test]
fn every_member_is_told_the_same_of_its_array() {
    if !present(&["linux.uml", "mdadm", "sfdisk", "mkfs.ext4"]) {
        return;
    }
    let dir = Dir::new("array-members");
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap();
    let mut command = Command::new(root.join("tests/guest/run"));
    command.args(["-t", "600", "-m", "2G", "-o"]).arg(dir.path());
    command.arg("-e").arg(format!("STRADDLE={STRADDLE}"));
    tools::run(command.arg(root.join("tests/guest/array-members.sh")), "");
    let guest = Guest(dir);
    let names = guest.names("", ".0.img");
    assert_eq!(names.len(), ARRAYS, "{names:?}");
    names.iter().for_each(|name| check_array(&guest, name));
}
