//! Runs every printed `straddle realign`, with the `straddle apply` behind it.

use std::collections::BTreeSet;
use std::fs;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use straddle_units::io::SplitMix64;

use super::{CASES, Case, IMAGE, Tables, grave, is_realigned, spans};
use crate::tools::skip::{cases, is_sampled};
use crate::tools::{self, Dir, at_once, bytes, disk_codes, list, number, pasted, present, word};

/// Runs the printed `straddle realign` of an image on a copy: afterwards nothing has to move, and each
/// partition has its bytes. Returns the number of partitions that were moved.
fn realigned(case: &Case, dir: &Dir) -> usize {
    let report = case.check(dir.path());
    let findings = list(&report, "findings").iter();
    let (moved, fixes): (BTreeSet<u64>, BTreeSet<String>) = findings
        .filter(|finding| is_realigned(&finding["fix"]))
        .map(|finding| {
            let lines = list(&finding["fix"], "commands").iter().map(|command| word(command, "line"));
            (number(finding, "partition"), lines.collect::<Vec<_>>().join("\n"))
        })
        .unzip();
    let Some(lines) = fixes.first() else { return 0 };
    assert_eq!(fixes.len(), 1, "one plan for all: {fixes:?}");
    let copy = Dir::new("realigned");
    fs::copy(dir.join(case.name), copy.join(case.name)).expect("the image can be copied");
    tools::shell(&pasted(&format!("set -e\n{lines}")), copy.path());
    let after = case.check(copy.path());
    let what = format!("{}: {}\n{lines}\n{after:#}", case.name, case.script);
    for number in &moved {
        let left = grave(&after, *number);
        assert!(left.iter().all(|finding| finding["code"] == "S002"), "{what}");
    }
    assert!(!fixes.iter().any(|fix| after.to_string().contains(fix)), "{what}");
    assert_eq!(disk_codes(&report), disk_codes(&after), "{what}");
    let is = spans(&after);
    for (number, (from, len)) in spans(&report) {
        let (to, same) = is[&number];
        let (old, new) = (dir.join(case.name), copy.join(case.name));
        assert!(len == same && bytes(&old, from, len) == bytes(&new, to, len), "partition {number}: {what}");
    }
    moved.len()
}

#[test]
fn every_printed_realignment_keeps_all_data() {
    if !present(&["sfdisk", "fdisk", "sgdisk"]) {
        return;
    }
    let moved = AtomicU32::new(0);
    let count = |n: usize| moved.fetch_add(u32::try_from(n).expect("few"), Ordering::Relaxed);
    at_once(cases(CASES.iter(), 2), |case| {
        let dir = Dir::new("realign");
        case.build(&dir);
        count(realigned(case, &dir));
    });
    let known = moved.load(Ordering::Relaxed);
    let mut tables = Tables(SplitMix64::new(2026));
    let random: Vec<Case> = cases(0..16, 2).map(|_| tables.case()).collect();
    at_once(random, |case| {
        let dir = Dir::new("realign");
        let scratch = dir.image("scratch.img", IMAGE);
        let sfdisk = &mut Command::new("sfdisk");
        if tools::output(sfdisk.arg("--no-tell-kernel").arg(&scratch), case.script).status.success() {
            case.build(&dir);
            count(realigned(&case, &dir));
        }
    });
    let moved = moved.into_inner();
    println!("{known} partitions of the known tables moved, and {} of random ones", moved - known);
    let (least, more) = if is_sampled() { (4, 2) } else { (10, 5) };
    assert!(known >= least && moved >= known + more, "{known} {moved}");
}
