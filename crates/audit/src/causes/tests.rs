use crate::catalogue as rules;
use std::collections::{BTreeMap, BTreeSet};

use straddle_layout::VolumeKind;
use straddle_units::{ByteCount, ByteOffset};

use super::*;
use crate::finding::{Command, Miss, Rule};

/// A finding with a fix of its own, on a 4096-byte boundary shifted by `phase`.
fn finding(rule: &'static Rule, subject: Subject, at: u64, phase: u64) -> Finding {
    let boundary = Boundary::new(ByteCount::new(4096), ByteCount::new(phase)).unwrap();
    let at = ByteOffset::new(at);
    let command = Command::of_table("sfdisk", rule.code.to_string());
    let fix = Fix { commands: vec![command], ..Fix::advice(rule.code.as_str()) };
    let miss = Some(Miss { name: "physical sector", boundary, past: boundary.past(at) });
    Finding { at: Some(at), miss, fix: Some(fix), ..Finding::new(rule, subject, String::new()) }
}

/// The codes of the findings that have a fix with commands.
fn fixed(findings: &[Finding]) -> Vec<&str> {
    let has = |f: &&Finding| f.fix.as_ref().is_some_and(|fix| !fix.commands.is_empty());
    findings.iter().filter(has).map(|f| f.rule.code.as_str()).collect()
}

#[test]
fn what_is_not_reported_is_no_cause() {
    let number = Subject::Partition(1);
    let make = || {
        let mut all = [rules::START_STRADDLES, rules::OFF_IO_MIN, rules::DOS_START, rules::HIDDEN_SECTORS]
            .map(|rule| finding(rule, number, 32256, 0));
        let cause = Cause::of(&all[0]);
        all[1].follows = vec![cause.clone()];
        all[2].follows = vec![cause];
        all
    };
    let mut all = make();
    settle(&mut all);
    assert_eq!(fixed(&all), ["S001"]);
    assert!(all[3].fix.as_ref().unwrap().summary.starts_with("fix S001 first"));
    for reported in [Reported::NotAsked, Reported::Outside] {
        let mut all = make();
        all[0].reported = reported;
        settle(&mut all);
        assert!(all.iter().all(|f| f.follows.is_empty()), "{all:?}");
        // The finding that is reported instead moves the partition as well.
        assert_eq!(fixed(&all), ["S001", "S003", "S010"]);
    }
    // Moving another partition has no effect on this one.
    let mut all = make();
    all.iter_mut().for_each(|f| f.follows.clear());
    (0..3).for_each(|index| all[index].subject = Subject::Partition(2));
    settle(&mut all);
    assert_eq!(fixed(&all).len(), 4);
}

/// An image that is to be converted is changed after that, not before: the commands for it are withheld.
#[test]
fn what_changes_an_image_waits_for_its_conversion() {
    let run = |conversion: &'static Rule, reported: Reported| {
        let mut all = [
            Finding { reported, ..finding(conversion, Subject::Disk, 1024, 0) },
            finding(rules::START_STRADDLES, Subject::Partition(1), 32256, 0),
            finding(rules::HIDDEN_SECTORS, Subject::Partition(1), 32256, 0),
        ];
        settle(&mut all);
        let summaries: Vec<String> = all.iter().map(|f| f.fix.as_ref().unwrap().summary.clone()).collect();
        (fixed(&all).into_iter().map(str::to_owned).collect::<Vec<_>>(), summaries)
    };
    for rule in [rules::CONTAINER_OFF, rules::CONTAINER_UNIT_SMALL] {
        let (commands, summaries) = run(rule, Reported::Here);
        assert_eq!(commands, [rule.code.as_str()]);
        let after = format!("after the conversion ({})", rule.code);
        assert!(summaries[1..].iter().all(|summary| summary.contains(&after)), "{summaries:?}");
    }
    let (commands, summaries) = run(rules::CONTAINER_OFF, Reported::NotAsked);
    assert_eq!(commands[1..], ["S001"], "{summaries:?}");
}

/// md0 stands on partition 1 of sda and on partition 2 of sdb; both are misaligned, and md0 shows it.
#[test]
fn what_shows_above_follows_from_every_partition_below() {
    let names = ["md0", "sda", "sdb"];
    let on = |names: &[(u32, &str)]| -> BTreeMap<u32, BTreeSet<String>> {
        names.iter().map(|(number, name)| (*number, BTreeSet::from([(*name).to_owned()]))).collect()
    };
    let run = |below: &[(usize, u32)]| {
        let mut found = [
            vec![
                finding(rules::START_STRADDLES, Subject::Disk, 0, 512),
                finding(rules::FIRMWARE_OFFSET, Subject::Disk, 512, 512),
                // Misaligned by itself: no shift of all addresses would align this byte.
                finding(rules::START_STRADDLES, Subject::Partition(7), 1024, 512),
            ],
            Vec::new(),
            Vec::new(),
        ];
        for (disk, number) in below {
            let subject = Subject::Partition(*number);
            found[*disk].push(finding(rules::START_STRADDLES, subject, 32256, 0));
        }
        let mut found = found.map(|list| Findings::of(list, &[]));
        let stands = [on(&[]), on(&[(1, "md0"), (2, "dm-0")]), on(&[(2, "md0")])];
        let mut seen: Vec<Seen<'_>> = names
            .iter()
            .zip(&mut found)
            .zip(stands)
            .map(|((name, findings), on)| Seen {
                name,
                device: Some(name),
                above: on.values().flatten().cloned().collect(),
                on,
                below: BTreeSet::new(),
                findings,
            })
            .collect();
        follow_down(&mut seen);
        found
    };
    let found = run(&[(1, 1), (1, 2), (2, 2)]);
    assert_eq!(fixed(&found[0]), ["S001"]);
    assert!(found[0][2].follows.is_empty());
    for follower in &found[0][..2] {
        let causes: Vec<_> =
            follower.follows.iter().map(|c| (c.code.as_str(), c.subject, c.target.as_deref())).collect();
        let one = ("S001", Subject::Partition(1), Some("sda"));
        assert_eq!(causes, [one, ("S001", Subject::Partition(2), Some("sdb"))]);
    }
    assert_eq!(found[1].iter().chain(&found[2]).filter(|f| f.fix.is_some()).count(), 3);
    // A partition under another device is not a cause.
    let found = run(&[(1, 2)]);
    assert_eq!(fixed(&found[0]).len(), 3);
}

/// dm-0 stands on partition 1 of sda, which contains a PV, and on the whole of sdb; their misalignments show
/// on dm-0.
#[test]
fn what_shows_above_follows_from_all_that_is_off_below_or_from_nothing() {
    let of_pv = |rule| {
        let pv = crate::way::Step { kind: Some(VolumeKind::Pv.into()), ..crate::way::Step::partition(1) };
        let layer = vec![crate::way::Step::partition(1), pv];
        Finding { layer, ..finding(rule, Subject::Partition(1), 7168, 0) }
    };
    let run = |on_sda: Vec<Finding>, on_sdb: Vec<Finding>, below: &[&str]| {
        let shown = vec![finding(rules::KERNEL_MISALIGNED, Subject::Disk, 0, 0)];
        let mut found = [shown, on_sda, on_sdb].map(|list| Findings::of(list, &[]));
        let volume = || BTreeSet::from(["dm-0".to_owned()]);
        let mut seen: Vec<Seen<'_>> = ["dm-0", "sda", "sdb"]
            .iter()
            .zip(&mut found)
            .map(|(name, findings)| Seen {
                name,
                device: Some(name),
                above: if *name == "dm-0" { BTreeSet::new() } else { volume() },
                on: if *name == "sda" { BTreeMap::from([(1, volume())]) } else { BTreeMap::new() },
                below: below.iter().filter(|_| *name == "dm-0").map(|below| (*below).to_owned()).collect(),
                findings,
            })
            .collect();
        follow_down(&mut seen);
        found[0][0].follows.iter().map(|cause| cause.code.as_str()).collect::<Vec<_>>()
    };
    let both: &[&str] = &["sda", "sdb"];
    let pv = || of_pv(rules::PV_DATA_STRADDLES);
    let whole = || finding(rules::START_STRADDLES, Subject::Disk, 0, 512);
    assert_eq!(run(vec![pv()], Vec::new(), both), ["S051"]);
    assert_eq!(run(Vec::new(), vec![whole()], both), ["S001"]);
    assert_eq!(run(vec![pv()], vec![whole()], both), ["S051", "S001"]);
    // If one of two causes is not reported, it remains, and so does the finding above. The same holds if a
    // disk below is not examined.
    let unreported = Finding { reported: Reported::NotAsked, ..whole() };
    assert!(run(vec![pv()], vec![unreported], both).is_empty());
    assert!(run(vec![pv()], vec![whole()], &["sda", "sdb", "sdc"]).is_empty());
    // A layer that misses larger units does not contribute to the kernel's figure. On a disk whose partition
    // is used, nothing stands on the whole disk.
    assert!(run(vec![of_pv(rules::LAYER_OFF_UNIT)], Vec::new(), both).is_empty());
    assert!(run(vec![whole()], Vec::new(), both).is_empty());
}
