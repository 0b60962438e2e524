//! A logical volume over several disks is judged on each of them by the parts that lie there, whichever disk
//! holds its first byte: with the same result whether it is active or not, and in agreement with the kernel's
//! own tables.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use crate::tools;

use std::collections::BTreeSet;

use serde_json::Value;
use tools::{Guest, list, number, present, word};

/// The number of volumes in tests/guest/volume-parts.sh.
const VOLUMES: usize = 18;

/// The physical sector of its disks, in sectors of 512 bytes.
const PHYSICAL: u64 = 32;

/// The codes of errors about where a partition or a layer on it begins.
const OFF: [&str; 3] = ["S001", "S051", "S052"];

/// Code and offset of the findings about positions. On these sectors of 16 KiB, data 4 KiB past one is a warning.
fn places(target: &Value) -> BTreeSet<(String, u64)> {
    let findings = list(target, "findings").iter().filter(|finding| word(finding, "severity") != "advice");
    let placed = findings.filter(|finding| OFF.contains(&word(finding, "code").as_str()));
    placed.map(|finding| (word(finding, "code"), number(finding, "offset_bytes"))).collect()
}

#[test]
fn each_disk_of_a_volume_is_judged_by_what_is_on_it() {
    if !present(&["linux.uml", "lvm", "sfdisk", "dmsetup"]) {
        return;
    }
    let guest = Guest::run("volume-parts.sh", "2G");
    let (names, mut off) = (guest.names("", ".0.areas"), 0);
    let mut parts = 0;
    assert_eq!(names.len(), tools::skip::taken(VOLUMES, 3), "{names:?}");
    for (name, disk) in names.iter().flat_map(|name| (0..3).map(move |disk| (name, disk))) {
        let file = format!("{name}.{disk}");
        let areas = guest.text(&format!("{file}.areas"));
        let area = |line: &str| -> (u64, u64) {
            let (place, at) = line.split_once(' ').unwrap();
            (place.parse().unwrap(), at.parse().unwrap())
        };
        parts += areas.lines().count();
        let is_off = areas.lines().map(area).any(|(place, at)| place % PHYSICAL != at % PHYSICAL);
        off += usize::from(is_off);
        let [live, offline] = ["live", "offline"].map(|when| {
            let report: Value = serde_json::from_str(&guest.text(&format!("{file}.{when}"))).unwrap();
            report["targets"][0].clone()
        });
        assert_eq!(!places(&offline).is_empty(), is_off, "{file}: {offline}");
        assert_eq!(places(&live), places(&offline), "{file}: {live} {offline}");
        assert_eq!(word(&live, "status"), word(&offline, "status"), "{file}");
    }
    assert!(off >= tools::skip::taken(14, 3) && parts >= tools::skip::taken(40, 3), "{off} {parts}");
}
