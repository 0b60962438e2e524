use crate::catalogue as rules;
use std::collections::BTreeSet;

use straddle_layout::{Content, FsKind, VolumeKind};

use super::*;
use crate::finding::{Findings, Rule, Severity, Subject};

/// A step from its text: `partition 2`, `md host:0`, `LV vg/a`, `PV vg`, `table`, or a file system; a UUID
/// follows after `#`.
fn step(text: &str) -> Step {
    let (text, uuid) = text.split_once('#').unwrap_or((text, ""));
    let (kind, name) = text.split_once(' ').unwrap_or((text, ""));
    let kind = match kind {
        "md" => VolumeKind::Md.into(),
        "PV" => VolumeKind::Pv.into(),
        "LV" => Content::LogicalVolume,
        "partition" => return Step::partition(name.parse().unwrap()),
        "table" => Content::Table,
        "xfs" => FsKind::Xfs.into(),
        _ => FsKind::Ext4.into(),
    };
    Step { kind: Some(kind), called: text.to_owned(), name: name.to_owned(), uuid: uuid.to_owned() }
}

fn way(steps: &[&str]) -> Vec<Step> {
    steps.iter().map(|text| step(text)).collect()
}

fn finding(rule: &'static Rule, steps: &[&str]) -> Finding {
    Finding { layer: way(steps), ..Finding::new(rule, Subject::Disk, String::new()) }
}

#[test]
fn one_file_system_is_reported_once_and_two_are_two() {
    let small = rules::FS_BLOCK_SMALL;
    // (the rule, the path, whether it is reported)
    let cases: [(&'static Rule, &[&str], bool); 17] = [
        (small, &["partition 1", "md host:0#5", "ext4#1"], true),
        (small, &["partition 2", "md host:0#5", "ext4#1"], false),
        (rules::HINTS_CONTRADICT, &["partition 2", "md host:0#5", "ext4#1"], true),
        (small, &["partition 3", "PV vg#2", "LV vg/a#2a", "ext4#3"], true),
        (small, &["partition 4", "PV vg#3", "LV vg/b#2b", "ext4#4"], true),
        (small, &["partition 5", "PV vg#4", "LV vg/b#2b", "ext4#4"], false),
        // An array with metadata 0.90 has no name, only a UUID.
        (small, &["partition 6", "md#6", "ext4#5"], true),
        (small, &["partition 7", "md#6", "ext4#5"], false),
        // Nameless arrays may be different ones. File systems on two partitions are, and so is a file
        // system's copy on another volume.
        (small, &["partition 8", "md", "ext4#6"], true),
        (small, &["partition 9", "md", "ext4#6"], true),
        (small, &["partition 10", "ext4#7"], true),
        (small, &["partition 11", "ext4#7"], true),
        (small, &["partition 12", "PV vg#5", "LV vg/c#2c", "ext4#4"], true),
        // A label that looks like a path is still a label.
        (small, &["partition 13", "ext4 a > LV b"], true),
        (small, &["partition 14", "ext4 a > LV b"], true),
        // Each member has its own data offset.
        (rules::MD_DATA_STRADDLES, &["partition 1", "md host:0#5"], true),
        (rules::MD_DATA_STRADDLES, &["partition 2", "md host:0#5"], true),
    ];
    let mut findings: Vec<Finding> = cases.iter().map(|(rule, steps, _)| finding(rule, steps)).collect();
    merge(&mut findings);
    for (finding, (_, steps, reported)) in findings.iter().zip(&cases) {
        assert_eq!(finding.reported == Reported::Here, *reported, "{steps:?}");
    }
    assert_eq!(findings[0].sentence(), "; also reached through partition 2");
    assert_eq!(findings[1].reported, Reported::At(Place::Way("partition 1".to_owned())));
}

/// The most severe of equal findings is reported, wherever it is in the list.
#[test]
fn the_worst_of_those_that_are_the_same_is_reported() {
    let mut findings: Vec<Finding> = ["partition 1", "partition 2"]
        .map(|partition| finding(rules::FS_BLOCK_SMALL, &[partition, "md#5", "ext4#1"]))
        .into();
    findings[0].severity = Severity::Advice;
    merge(&mut findings);
    assert_eq!(findings[1].reported, Reported::Here);
    assert_eq!(findings[1].also, [Place::Way("partition 1".to_owned())]);
}

#[test]
fn only_the_same_layer_is_the_same() {
    // (the path on the lower device, the path on the upper, whether they end at the same layer)
    let cases: [(&[&str], &[&str], bool); 12] = [
        (&["partition 1", "md md0", "ext4"], &["ext4"], true),
        (&["partition 1", "PV vg", "LV vg/a", "ext4"], &["ext4"], true),
        (&["PV vg", "LV vg/a", "ext4"], &["LV vg/pool (tpool)", "LV vg/a", "ext4"], true),
        (&["md md0", "table", "partition 1", "ext4"], &["partition 1", "ext4"], true),
        (&["partition 1", "md md0", "PV vg"], &["PV vg"], true),
        // It has been mounted in between, so its name in messages has changed.
        (&["partition 1", "md md0", "ext4 label#1"], &["ext4 /mnt#1"], true),
        // Another file system, which is on the lower device itself.
        (&["partition 2", "ext4"], &["ext4"], false),
        (&["partition 1", "ext4"], &["partition 1", "ext4"], false),
        (&["partition 1", "PV vg", "LV vg/b", "ext4"], &["PV vg", "LV vg/a", "ext4"], false),
        (&["partition 1", "md md0", "xfs"], &["ext4"], false),
        (&["partition 1", "md md0", "ext4#1"], &["ext4#2"], false),
        (&["ext4"], &["ext4"], false),
    ];
    for (lower, upper, same) in cases {
        assert_eq!(leads_further(&way(lower), &way(upper)), same, "{lower:?} {upper:?}");
    }
}

/// A stack of devices, each of which gets its -1 from the one below.
#[test]
fn what_the_kernel_hands_up_is_reported_at_the_lowest() {
    let devices = ["dm-2", "dm-1", "md0", "dm-0"];
    // dm-2 is on dm-1, on dm-0, on md0; the order of the list has no meaning.
    let above = |name: &str| -> BTreeSet<String> {
        let over = match name {
            "md0" => &["dm-0", "dm-1", "dm-2"][..],
            "dm-0" => &["dm-1", "dm-2"],
            "dm-1" => &["dm-2"],
            _ => &[],
        };
        over.iter().map(|name| (*name).to_owned()).collect()
    };
    let shifted = || vec![Finding::on_disk(rules::KERNEL_MISALIGNED, None, String::new())];
    let mut found = devices.map(|_| Findings::of(shifted(), &[]));
    let mut seen: Vec<Seen<'_>> = devices
        .iter()
        .zip(&mut found)
        .map(|(name, findings)| Seen {
            name,
            device: Some(name),
            above: above(name),
            on: BTreeMap::new(),
            below: BTreeSet::new(),
            findings,
        })
        .collect();
    merge_targets(&mut seen);
    for (name, findings) in devices.iter().zip(&found) {
        match *name {
            "md0" => {
                assert_eq!(findings[0].reported, Reported::Here);
                assert_eq!(findings[0].sentence(), "; also seen on dm-2, dm-1, dm-0");
            }
            _ => assert_eq!(findings[0].reported, Reported::At(Place::Target("md0".to_owned())), "{name}"),
        }
    }
}
