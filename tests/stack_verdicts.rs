//! Verdicts on stacks made by real tools in a guest, compared with the kernel and with each other.
//!
//! - A layer that a tool aligned is not an error: LVM and cryptsetup follow the disk's alignment offset, and
//!   the kernel reports 0 on top of them. Then nothing has to be moved. If the kernel reports anything else,
//!   there is an error.
//! - An array gives the same findings from each of its members: while it runs, after it was assembled again,
//!   and from the bytes alone. mdadm's data offset tells which of them are misaligned.
//! - A partition of an array gets the kernel's verdict from each member, whichever member holds its first
//!   byte.
//! - One cause is one finding in a run over all disks.
//! - What the kernel does not mount or open on 4096-byte sectors is an error (S069), and nothing else is.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use crate::tools;

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;
use tools::{Guest, list, present, word};

const TOOLS: [&str; 7] = ["linux.uml", "sfdisk", "mdadm", "lvm", "cryptsetup", "mkfs.ext4", "dumpe2fs"];

/// The codes of errors for data that is off a physical sector.
const OFF: [&str; 6] = ["S001", "S050", "S051", "S052", "S053", "S054"];

/// The number of stacks in tests/guest/verdicts.sh: with fewer, the guest did not do its work.
const FOLLOWING: usize = 9;
const ARRAYS: usize = 16;

fn findings<'a>(target: &'a Value, codes: &[&str]) -> Vec<&'a Value> {
    list(target, "findings").iter().filter(|f| codes.contains(&word(f, "code").as_str())).collect()
}

/// A misalignment is fixed where it occurs: findings above refer to it and have no fix of their own.
fn check_below(guest: &Guest) {
    for (name, disks) in [("md", 2), ("luks", 1)] {
        let all = guest.targets(&format!("once-below-{name}"));
        let (above, below): (Vec<_>, Vec<_>) =
            all.iter().partition(|target| !word(target, "target").starts_with("/dev/sd"));
        assert_eq!((above.len(), below.len()), (1, disks), "{name}");
        let causes: Vec<Value> = below
            .iter()
            .map(|disk| {
                assert!(!findings(disk, &["S001"])[0]["fix"].is_null(), "{disk:#}");
                serde_json::json!({ "code": "S001", "partition": 1, "target": disk["target"] })
            })
            .collect();
        assert_eq!(word(above[0], "status"), "error");
        for code in ["S001", "S023"] {
            let finding = findings(above[0], &[code])[0];
            assert_eq!(finding["follows"], Value::from(causes.clone()), "{finding:#}");
            assert!(finding["fix"].is_null(), "{finding:#}");
        }
    }
    // Alone it can only follow from the device's own shift.
    let alone = &guest.targets("once-below-md-alone")[0];
    let [file_system, shift] = ["S001", "S023"].map(|code| findings(alone, &[code])[0]);
    assert_eq!(file_system["follows"], serde_json::json!([{ "code": "S023" }]));
    assert!(
        file_system["fix"].is_null() && !shift["fix"].is_null() && shift["follows"].is_null(),
        "{alone:#}"
    );
}

/// Code and offset of the findings about the position of an array's data.
fn places(target: &Value, codes: &[&str]) -> BTreeSet<(String, u64)> {
    let place = |f: &&Value| (word(f, "code"), f["offset_bytes"].as_u64().unwrap_or(0));
    findings(target, codes).iter().map(place).collect()
}

fn check_following(guest: &Guest) {
    let names = guest.names("follow-", ".align");
    assert_eq!(names.len(), FOLLOWING, "{names:?}");
    for name in names {
        let report = &guest.targets(&format!("follow-{name}"))[0];
        let is_aligned = guest.text(&format!("follow-{name}.align")).trim() == "0";
        let errors = findings(report, &OFF);
        assert_eq!(is_aligned, errors.is_empty(), "{name}: the kernel against {errors:?}");
        if is_aligned {
            assert_eq!(guest.text(&format!("follow-{name}.rc")).trim(), "0", "{name}");
            assert_eq!(findings(report, &["S056"]).len(), 1, "{name}: {report}");
            assert!(
                !report.to_string().contains("sfdisk"),
                "{name}: what is aligned is to be moved: {report}"
            );
        }
    }
}

fn check_arrays(guest: &Guest) {
    let names = guest.names("md-", ".facts");
    assert_eq!(names.len(), tools::skip::taken(ARRAYS, 5), "{names:?}");
    for name in names {
        let facts = guest.text(&format!("md-{name}.facts"));
        let facts: BTreeMap<&str, u64> =
            facts.lines().map(|l| l.split_once(' ').unwrap()).map(|(k, v)| (k, v.parse().unwrap())).collect();
        let mut offline_tables = 0;
        for (member, offset) in facts.iter().filter(|(name, _)| name.starts_with("sd")) {
            let view = |when: &str| guest.targets(&format!("md-{name}-{member}.{when}"))[0].take();
            let views = ["created", "assembled", "stopped"].map(|when| (when, view(when)));
            // Taken from mdadm's data offset.
            let off = (!offset.is_multiple_of(8)).then(|| ("S050".to_owned(), offset * 512));
            for (when, view) in &views {
                let place = format!("{name} {member} {when}: {}", view["findings"]);
                assert_eq!(places(view, &["S050"]), off.iter().cloned().collect(), "{place}");
                assert!(findings(view, &["S080"]).is_empty(), "{place}");
                // 1 MiB is a multiple of the stripe, except for two copies on three members.
                let healthy = |f: &&&Value| word(f, "layer").contains("partition 1");
                let nested = findings(view, &["S054", "S057"]);
                let is_whole = !name.starts_with("10f2") && !name.starts_with("10o2");
                assert!(!is_whole || !nested.iter().any(|f| healthy(&f)), "{place}");
                let second = nested.iter().filter(|f| word(f, "layer").contains("partition 2")).count();
                offline_tables += usize::from(*when == "stopped" && second > 0);
                assert!(*when == "stopped" || second == 1, "the kernel says {}: {place}", facts["p2"]);
            }
            // The bytes of a single member show the same as the running array.
            let live = places(&views[0].1, &["S050", "S054", "S057"]);
            let offline = places(&views[2].1, &["S050", "S054", "S057"]);
            assert!(offline.is_subset(&live), "{name} {member}: {offline:?}, live {live:?}");
            let assembled = places(&views[1].1, &["S050", "S054", "S057"]);
            assert_eq!(live, assembled, "{name} {member}");
        }
        assert_ne!(facts["p2"], 0, "{name}");
        assert!(offline_tables > 0, "{name}: no member shows the table");
    }
}

fn check_once(guest: &Guest) {
    let count = |name: &str, code: &str| -> Vec<(String, String)> {
        let all = guest.targets(name);
        let of = |target: &Value| {
            let name = word(target, "target");
            findings(target, &[code]).iter().map(|f| (name.clone(), word(f, "message"))).collect::<Vec<_>>()
        };
        all.iter().flat_map(of).collect()
    };
    // The kernel passes its -1 up.
    assert_eq!(guest.text("once-array.align"), "-1\n-1\n");
    let found = count("once-array", "S020");
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].0 == "/dev/md0" && found[0].1.contains("also seen on dm-"), "{found:?}");
    // Status and kinds count the finding on each of them nevertheless.
    let all = guest.targets("once-array");
    for target in all.iter().filter(|target| word(target, "target") != "/dev/sda") {
        let name = word(target, "target");
        let stacked = name.starts_with("/dev/dm-") || name == "/dev/md0";
        let judged = (word(target, "status"), target["kinds"].to_string());
        assert!(!stacked || judged == ("error".to_owned(), r#"["alignment"]"#.to_owned()), "{target}");
    }
    // Each member's data offset is a finding of its own.
    assert_eq!(count("once-array", "S050").len(), 3);
    let found = count("once-thin", "S061");
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!(found[0].0, "/dev/sda");
    let found = count("once-hints", "S061");
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].1.contains("partition 2") && found[0].1.contains("md0"), "{found:?}");
    // The optimum is a multiple of the 128 KiB stripe, and mkfs has used it.
    assert_eq!(guest.text("once-hints.opt").trim(), "524288");
    assert!(
        guest
            .text("once-hints.fs")
            .lines()
            .any(|l| l.starts_with("RAID stripe width:") && l.ends_with(" 512"))
    );
    assert_eq!(count("once-hints", "S064"), []);
    // Two of three volumes are off the stripe: said once, at the first member, whether the array runs or not.
    for name in ["once-stripe", "once-stripe-alone", "once-stripe-stopped"] {
        let found = count(name, "S057");
        assert_eq!(found.len(), 1, "{name}: {found:?}");
        assert!(found[0].1.contains("one more volume is affected in the same way"), "{name}: {found:?}");
        assert_eq!(count(name, "S055"), [], "{name}");
        // A member of a stopped array shows of it what is on that member.
        let all = guest.targets(name);
        let shown = |target: &&Value| !name.ends_with("stopped") && !word(target, "target").contains("dm-");
        for target in all.iter().filter(shown) {
            assert_eq!(word(target, "status"), "warning", "{name}: {target}");
        }
    }
    // From each partition alone; the finding is reported at the target that was asked for.
    for (array, target) in ["named", "nameless", "volume"].into_iter().flat_map(|a| [1, 2].map(|n| (a, n))) {
        for when in ["live", "offline"] {
            let name = format!("once-two-{array}-{when}-{target}");
            let report = &guest.targets(&name)[0];
            let small = findings(report, &["S061"]);
            // For a volume over both, the start of the file system cannot be seen from the second partition
            // offline.
            let hidden = array == "volume" && target == 2 && when == "offline";
            assert_eq!(small.len(), usize::from(!hidden), "{name}: {report}");
            let judged = (word(report, "status"), guest.text(&format!("{name}.rc")).trim().to_owned());
            // Small blocks in a small file system are advice.
            assert!(hidden || judged == ("advice".to_owned(), "0".to_owned()), "{name}: {judged:?}");
        }
        let found = count(&format!("once-two-{array}-disk"), "S061");
        assert_eq!(found.len(), 1, "{array}: {found:?}");
    }
}

#[test]
fn verdicts_agree_with_the_kernel_and_with_each_other() {
    if !present(&TOOLS) {
        return;
    }
    let guest = Guest::run("verdicts.sh", "2G");
    check_following(&guest);
    check_arrays(&guest);
    check_once(&guest);
    check_below(&guest);
}

/// The contents in tests/guest/fits.sh that this kernel's guest is certain to have.
const SURELY: usize = 20;

/// Contents made on 512-byte sectors and attached with 4096-byte ones.
#[test]
fn what_linux_does_not_use_does_not_fit() {
    let tools = ["linux.uml", "sfdisk", "mdadm", "lvm", "cryptsetup", "integritysetup", "make-bcache"];
    let makers = ["mkfs.ext4", "mkfs.xfs", "mkfs.fat", "mkfs.btrfs", "mkfs.f2fs", "mkfs.nilfs2", "wipefs"];
    if !present(&[&tools[..], &makers].concat()) {
        return;
    }
    let guest = Guest::run("fits.sh", "2G");
    let names = guest.names("", ".used");
    assert!(names.len() >= tools::skip::taken(SURELY, 2), "{names:?}");
    for name in &names {
        let is_used = guest.text(&format!("{name}.used")).trim() == "1";
        let target = &guest.targets(name)[0];
        let unfit = findings(target, &["S069"]);
        println!("{name:24} {} {unfit:?}", if is_used { "used" } else { "not used" });
        assert_eq!(is_used, unfit.is_empty(), "{name}: {target:#}");
        for finding in unfit {
            assert_eq!((word(finding, "severity"), word(target, "status")), ("error".into(), "error".into()));
            assert!(findings(target, &["S060", "S061", "S062"]).is_empty(), "{name}: one cause: {target:#}");
            if name.starts_with("fs-") {
                let view = guest.text(&format!("{name}.view"));
                assert_eq!(view.trim(), "1", "{name}: {}", finding["fix"]);
            }
        }
    }
    // The sectors are those of the whole stack, whichever device shows it.
    for (name, at) in [
        ("array", "xfs"),
        ("array.0", "xfs"),
        ("array.1", "xfs"),
        ("array.stopped", "xfs"),
        ("group", "xfs"),
        ("group.0", "xfs"),
        ("nested.0", "gpt"),
        ("nested.stopped", "gpt"),
        ("container", "xfs"),
        ("container.0", "xfs"),
    ] {
        let target = &guest.targets(name)[0];
        let unfit = findings(target, &["S069"]);
        assert_eq!(unfit.len(), 1, "{name}: {target:#}");
        let ends =
            |end: &str| word(unfit[0], "layer").rsplit(" > ").next().is_some_and(|last| last.contains(end));
        assert!(ends(at) || at == "gpt", "{name}: {}", unfit[0]);
    }
    assert_eq!(findings(&guest.targets("nested")[0], &["S030"]).len(), 1);
    let all = guest.targets("array.all");
    let count =
        |targets: &[Value]| targets.iter().map(|target| findings(target, &["S069"]).len()).sum::<usize>();
    assert_eq!(count(&all), 1, "{all:#?}");
    // What one member does not show, another one of the run does.
    for (name, each) in [("array.apart", 2), ("group.apart", 1)] {
        let apart = guest.targets(name);
        assert_eq!(count(&apart), each, "{name}: {apart:#?}");
        assert_eq!(findings(&apart[0], &["S069"]).len(), 1, "{name}: the one with sectors of 512 bytes");
        assert_eq!(word(&apart[0], "status"), "error");
    }
}
