//! What the disks of a running machine show and what they do not, tested in the guest.

use serde_json::Value;

use super::codes;
use crate::tools::skip::taken;
use crate::tools::{Guest, list, present, word};

/// The names of the guest's files with this beginning and end, without the end.
fn named_from(guest: &Guest, begin: &str, end: &str) -> Vec<String> {
    guest.names(begin, end).iter().map(|name| format!("{begin}{name}")).collect()
}

#[test]
fn on_a_running_machine_each_thing_is_reported_where_it_belongs() {
    if !present(&["linux.uml", "mdadm", "lvm", "sfdisk", "mkfs.ext4"]) {
        return;
    }
    let guest = Guest::run("beside.sh", "2G");
    check_members(&guest);
    check_volumes(&guest);
    check_loops(&guest);
}

/// A healthy mirror with a table in it gets no error, running or stopped, and no plan is made for one half of
/// it.
fn check_members(guest: &Guest) {
    let names = named_from(guest, "member-", ".plans");
    assert_eq!(names.len(), taken(8, 3), "{names:?}");
    for name in names {
        let mut views = guest.targets(&format!("{name}.running"));
        views.extend(guest.targets(&format!("{name}.stopped")));
        for target in &views {
            let wrong = ["S001", "S030", "S031", "S032", "S033", "S034", "S035", "S036", "S057", "S080"];
            let found = codes(target);
            assert!(!found.iter().any(|code| wrong.contains(&code.as_str())), "{name}: {target}");
            assert!(!target.to_string().contains("sgdisk"), "{name}: {target}");
        }
        assert!(views.iter().any(|target| target.to_string().contains("_raid_member")), "{name}");
        let plans = guest.text(&format!("{name}.plans"));
        let refusals = || guest.text(&format!("{name}.refusals"));
        assert!(
            plans.split(' ').all(|status| matches!(status.trim(), "4" | "")),
            "{name}: {plans}{}",
            refusals()
        );
        assert!(guest.text(&format!("{name}.kept")).contains("Version"), "{name}");
    }
}

/// LVM's internal volumes are not targets, and a healthy volume group does not cause a failure.
fn check_volumes(guest: &Guest) {
    let names = named_from(guest, "lvm-", ".hidden");
    assert!(names.len() >= 4, "{names:?}");
    for name in names {
        let hidden = guest.text(&format!("{name}.hidden"));
        assert!(hidden.lines().count() >= 1, "{name}");
        let targets = guest.targets(&name);
        for line in hidden.lines() {
            let (node, _) = line.split_once(' ').unwrap();
            assert!(!targets.iter().any(|target| word(target, "target") == node), "{name}: {line}");
        }
        assert!(
            !targets.iter().any(|target| codes(target).contains(&"S080".to_owned())),
            "{name}: {targets:?}"
        );
        assert_eq!(guest.text(&format!("{name}.rc")).trim(), "0", "{name}: {targets:?}");
        let parts = guest.targets(&name.replace("lvm-", "parts-"));
        assert_eq!(parts.len(), hidden.lines().count(), "{name}: {parts:?}");
        assert!(!parts.iter().any(|target| codes(target).contains(&"S080".to_owned())), "{name}: {parts:?}");
    }
}

/// A loop device is misaligned exactly if its first byte is misaligned on the device below.
fn check_loops(guest: &Guest) {
    let names = named_from(guest, "loop-", ".facts");
    assert_eq!(names.len(), 8, "{names:?}");
    for name in names {
        let facts = guest.text(&format!("{name}.facts"));
        let (offset, phase) = facts.trim().split_once(' ').unwrap();
        let (offset, phase): (u64, u64) = (offset.parse().unwrap(), phase.parse().unwrap());
        let is_off = !(offset + 4096 - phase).is_multiple_of(4096);
        let target = &guest.targets(&name)[0];
        assert_eq!(codes(target).contains(&"S001".to_owned()), is_off, "{name}: {target}");
    }
}

/// What a disk does not show is not reported as fine, and gets the same answer from every device that shows
/// it.
#[test]
fn what_a_disk_does_not_show_is_not_passed() {
    if !present(&[
        "linux.uml",
        "mdadm",
        "lvm",
        "cryptsetup",
        "sfdisk",
        "mkfs.ext4",
        "mkfs.vfat",
        "mkfs.btrfs",
    ]) {
        return;
    }
    let guest = Guest::run("running.sh", "2G");
    check_inner(&guest);
    check_volumes_below(&guest);
    check_rivals(&guest);
    check_odd(&guest);
}

/// With a closed or inactive layer on an array, each member reports the same as the array, or that it cannot
/// show it.
fn check_inner(guest: &Guest) {
    let names = named_from(guest, "inner-", ".array.json");
    assert_eq!(names.len(), taken(6, 2) + 2, "{names:?}");
    let is_of_layer = |code: &String| matches!(code.as_str(), "S051" | "S053");
    for name in names {
        let array = &guest.targets(&format!("{name}.array"))[0];
        let status = word(array, "status");
        let of_layer = codes(array).into_iter().find(is_of_layer);
        assert_eq!(of_layer.is_some(), !name.contains("pv1024"), "{name}: {array}");
        for when in ["running", "stopped"] {
            let members = named_from(guest, &format!("{name}."), &format!(".{when}.json"));
            let mut shown = 0;
            for member in &members {
                let target = &guest.targets(&format!("{member}.{when}"))[0];
                let said = word(target, "status");
                if said == "not_judged" {
                    assert!(word(target, "reason").contains("heck "), "{member}, {when}: {target}");
                    continue;
                }
                shown += 1;
                assert_eq!(said, status, "{member}, {when}: {target}");
                assert_eq!(
                    codes(target).into_iter().find(is_of_layer),
                    of_layer,
                    "{member}, {when}: {target}"
                );
            }
            // Arrays of the firmware are not read.
            assert_eq!(shown == 0, name.contains("imsm"), "{name}, {when}");
            assert_eq!(shown == members.len(), name.contains("1.0-1"), "{name}, {when}");
        }
        // A run over all disks includes the array, and has its exit status.
        assert_eq!(guest.text(&format!("{name}.all.rc")), guest.text(&format!("{name}.array.rc")), "{name}");
    }
}

/// The kernel's -1 on a volume follows from a misalignment below if all devices below are examined; then it
/// has no fix of its own.
fn check_volumes_below(guest: &Guest) {
    for (name, cause) in [("pv1024", None), ("pv7", Some("S051")), ("whole1", None), ("whole0", Some("S001"))]
    {
        let offset = guest.text(&format!("s020-{name}.offset"));
        assert_eq!(offset.trim() == "-1", cause.is_some(), "{name}: {offset}");
        for (run, is_whole) in [(format!("s020-{name}"), true), (format!("s020-{name}.part"), false)] {
            let targets = guest.targets(&run);
            let all = targets.iter().flat_map(|target| list(target, "findings"));
            let found: Vec<&Value> = all.filter(|finding| word(finding, "code") == "S020").collect();
            assert_eq!(found.len(), usize::from(cause.is_some()), "{run}: {targets:?}");
            for finding in found {
                let follows = finding.get("follows").and_then(Value::as_array).into_iter().flatten();
                let follows: Vec<String> = follows.map(|cause| word(cause, "code")).collect();
                // If the other disk is not examined, it may be misaligned too.
                let expected: Vec<&str> = cause.into_iter().filter(|_| is_whole).collect();
                assert_eq!(follows, expected, "{run}: {finding}");
                assert_eq!(finding.get("fix").is_some(), !is_whole, "{run}: {finding}");
            }
        }
    }
}

/// If a disk has both a table and a superblock, the one that is in use counts.
fn check_rivals(guest: &Guest) {
    let found: [(&str, &[&str]); 10] = [
        ("broken", &[]),
        ("md", &["S001"]),
        ("fat", &[]),
        ("ext4", &[]),
        ("swap", &[]),
        ("luks", &["S053"]),
        ("pv", &["S051"]),
        ("kpartx", &["S001"]),
        ("btrfs", &[]),
        ("luks2", &[]),
    ];
    for (name, expected) in found {
        let unused = &guest.targets(&format!("rival-{name}.unused"))[0];
        assert_eq!(word(unused, "status"), "not_judged", "{name}: {unused}");
        assert!(word(unused, "reason").contains("cannot tell which"), "{name}: {unused}");
        let used = &guest.targets(&format!("rival-{name}.used"))[0];
        let mut errors = codes(used);
        errors.retain(|code| ["S001", "S033", "S051", "S053"].contains(&code.as_str()));
        assert_eq!(errors, expected, "{name}: {used}");
        assert_ne!(word(used, "status"), "not_judged", "{name}: {used}");
        if !matches!(name, "md" | "fat" | "kpartx" | "broken") {
            let label = if matches!(name, "btrfs" | "luks2") { "gpt" } else { "dos" };
            let said = format!("partition table ({label})");
            assert!(used.to_string().contains(&said), "{name}: {used}");
            assert!(unused.to_string().contains(&said), "{name}: {unused}");
        }
    }
    // An unrelated mapping does not decide between the two.
    let mapped = &guest.targets("rival-mapped")[0];
    assert_eq!(word(mapped, "status"), "not_judged", "{mapped}");
    assert!(word(mapped, "reason").contains("cannot tell which"), "{mapped}");
}

/// cryptsetup accepts no larger sectors if a container ends inside one: no command is given before the
/// container is cut to size, and the command afterwards works.
fn check_odd(guest: &Guest) {
    for (when, refused) in [("before", true), ("after", false)] {
        let target = &guest.targets(&format!("odd.{when}"))[0];
        let found = list(target, "findings").iter().find(|finding| word(finding, "code") == "S060").unwrap();
        assert_eq!(guest.text(&format!("odd.{when}.refused")).trim() != "0", refused, "{when}");
        assert_eq!(found["fix"]["commands"].as_array().is_none_or(Vec::is_empty), refused, "{found}");
        assert_eq!(found.to_string().contains("3584 bytes"), refused, "{found}");
    }
    assert_eq!(guest.text("odd.files").trim(), "0");
}
