//! What a plan would destroy is named in advance, and refused unless the user asks for it.

#![allow(clippy::unwrap_used, reason = "what these tests prepare works, or they fail")]

#[path = "lost/hibernated.rs"]
mod hibernated;
#[path = "lost/listed.rs"]
mod listed;
#[path = "tools/made.rs"]
mod made;
#[path = "lost/rescue.rs"]
mod rescue;
#[path = "lost/tables.rs"]
mod tables;
use crate::tools;
#[path = "lost/unallocated.rs"]
mod unallocated;

use std::fs;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::Output;

use serde_json::Value;
use tools::skip::cases;
use tools::{Dir, present, shell, straddle_in, transcript, write_table};

/// Formats that record their size, and what makes them.
const SIZED: [(&str, &str); 11] = [
    ("ext4", "mkfs.ext4 -q -F"),
    ("xfs", "mkfs.xfs -q -f"),
    ("btrfs", "mkfs.btrfs -q -f"),
    ("f2fs", "mkfs.f2fs -q -f"),
    ("ntfs", "mkfs.ntfs -q -F -f"),
    ("vfat", "mkfs.vfat"),
    ("exfat", "mkfs.exfat"),
    ("swap", "mkswap"),
    ("jfs", "mkfs.jfs -q"),
    ("reiserfs", "mkfs.reiserfs -q -ff"),
    ("nilfs2", "mkfs.nilfs2 -q"),
];

const PLAN: [&str; 6] = ["--table", "gpt", "--part", "rest", "--save", "plan"];

/// Of a superblock of bcachefs: its magic, the sector that it is in, and that it is of the first of one device.
const BCACHEFS: [u8; 100] = {
    let magic = *b"\xC6\x85\x73\xF6\x66\xCE\x90\xA9\xD9\x6A\x60\xCF\x80\x3D\xF7\xEF";
    let mut bytes = [0; 100];
    let mut at = 0;
    while at < magic.len() {
        bytes[at] = magic[at];
        at += 1;
    }
    (bytes[104 - 24], bytes[123 - 24]) = (8, 1);
    bytes
};

/// Signatures that no tool here writes: name, offset (from the end if negative), magic.
const WRITTEN: [(&str, i64, &[u8]); 17] = [
    ("bcachefs", 4096 + 24, &BCACHEFS),
    ("vdo", 0, b"dmvdo001"),
    ("stratis", 512 + 4, b"!Stra0tis\x86\xFF\x02^\x41rh"),
    ("oracleasm", 32, b"ORCLDISK"),
    ("hpfs", 8192, b"\x49\xE8\x95\xF9"),
    ("hfsplus", 1024, b"H+\0\x04"),
    ("apfs", 24, b"\x01\0\0\0\0\0\0\0NXSB\0\x10\0\0"),
    ("ocfs2", 4096, b"OCFSV2"),
    ("VMFS_volume_member", 1 << 20, b"\x0D\xD0\x01\xC0"),
    ("VMFS", 2 << 20, b"\x5E\xF1\xAB\x2F"),
    ("ubi", 0, b"UBI#\x01"),
    ("zonefs", 0, b"SFOZ"),
    ("befs", 544, b"1SFB"),
    ("ufs", 65536 + 1372, b"\x19\x01\x54\x19"),
    ("drbd", -4096 + 60, b"\x83\x74\x02\x6B"),
    ("ddf_raid_member", -512, b"\xDE\x11\xDE\x11"),
    ("isw_raid_member", -1024, b"Intel Raid ISM Cfg Sig. 1.3.00"),
];

/// Those of the names here of which only the signature is known.
const BY_NAME: [&str; 22] = [
    "udf",
    "xfs_external_log",
    "reiser4",
    "bfs",
    "minix",
    "ubifs",
    "ubi",
    "hfs",
    "apfs",
    "gfs2",
    "ocfs2",
    "hfsplus",
    "VMFS_volume_member",
    "VMFS",
    "zonefs",
    "befs",
    "ufs",
    "bcachefs",
    "vdo",
    "stratis",
    "oracleasm",
    "hpfs",
];

/// Asserts that a plan without `--wipe` is refused with the name, and that with it the plan and its
/// application print the name again.
fn refused_by_name(dir: &Dir, name: &str) {
    let refused = straddle_in(dir.path(), &[&["plan", "disk"][..], &PLAN].concat());
    assert_eq!(refused.status.code(), Some(4), "{name}: {}", transcript(&refused));
    assert!(
        transcript(&refused).contains(name) && transcript(&refused).contains("--wipe"),
        "{name}: {}",
        transcript(&refused)
    );
    let seen = transcript(&straddle_in(dir.path(), &["check", "disk", "--verbose", "--assume", "4kn"]));
    assert!(seen.contains(name), "{name}: {seen}");
    // Nothing is claimed of what was not looked at. Formats that are read, arrays, tables and images that are
    // only read have other words, or none.
    let words = seen.split_whitespace().collect::<Vec<_>>().join(" ");
    let is_by_name = words.contains(&format!("{name} is recognised only by name"));
    assert_eq!(is_by_name, BY_NAME.contains(&name), "{name}: {seen}");
    let planned = straddle_in(dir.path(), &[&["plan", "disk", "--wipe"][..], &PLAN].concat());
    assert_eq!(planned.status.code(), Some(0), "{name}: {}", transcript(&planned));
    let line = format!("will become inaccessible: the whole disk: {name}");
    assert!(transcript(&planned).contains(&line), "{name}: {}", transcript(&planned));
    let applied = straddle_in(dir.path(), &["apply", "plan", "--write", "disk"]);
    assert_eq!(applied.status.code(), Some(0), "{name}: {}", transcript(&applied));
    assert!(transcript(&applied).contains(&line), "{name}: {}", transcript(&applied));
    fs::remove_file(dir.join("plan.undo")).unwrap();
}

#[test]
fn a_disk_full_of_something_is_refused_by_name() {
    for (name, tool, line) in cases(made::CONTENTS.iter().chain(made::TABLES), 3) {
        if !present(&[tool]) {
            continue;
        }
        let dir = Dir::new("full");
        dir.image("disk", 64 << 20);
        shell(&line.replace("IMAGE", "disk"), dir.path());
        refused_by_name(&dir, name);
    }
    for (name, at, magic) in cases(WRITTEN.into_iter(), 3) {
        let dir = Dir::new("full");
        let len = 64 << 20;
        let disk = dir.image("disk", len);
        let at = if at < 0 { len - at.unsigned_abs() } else { at.unsigned_abs() };
        fs::OpenOptions::new().write(true).open(disk).unwrap().write_all_at(magic, at).unwrap();
        refused_by_name(&dir, name);
    }
}

/// An encrypted volume may have no header: whatever writes a table refuses a disk with such bytes, in the same
/// words, also if they came after the plan.
#[test]
fn bytes_that_nobody_recognises_are_refused_by_each_command() {
    const WHAT: &str = "unrecognised data";
    let dir = Dir::new("unknown");
    let ran = |arguments: &[&str], status: i32| {
        let ran = straddle_in(dir.path(), arguments);
        assert_eq!(ran.status.code(), Some(status), "{arguments:?}: {}", transcript(&ran));
        transcript(&ran)
    };
    for at in [0, 512, 1 << 20, (64 << 20) - 512] {
        let disk = dir.image("disk", 64 << 20);
        let on_blank = [&["plan", "disk"][..], &PLAN].concat();
        ran(&on_blank, 0);
        fs::OpenOptions::new().write(true).open(&disk).unwrap().write_all_at(&[0x5A; 512], at).unwrap();
        let before = fs::read(&disk).unwrap();
        // Where tables lie, the fingerprint differs.
        let refused = ran(&["apply", "plan", "--write", "disk"], 4);
        assert!(refused.contains(if at == 1 << 20 { WHAT } else { "plan again" }), "byte {at}: {refused}");
        let refused = ran(&["plan", "disk", "--table", "gpt", "--part", "rest"], 4);
        assert!(refused.contains(WHAT) && refused.contains("--wipe"), "byte {at}: {refused}");
        let source = dir.image("source", 32 << 20);
        write_table(&source, 512, "label: dos\nstart=63, size=20000, type=83\n");
        let refused = ran(&["realign", "source", "--to", "disk"], 4);
        assert!(refused.contains(WHAT) && refused.contains("--wipe"), "byte {at}: {refused}");
        assert!(fs::read(&disk).unwrap() == before && !dir.join("plan.undo").exists(), "byte {at}");
        let wiped = ran(&[&["plan", "disk", "--wipe"][..], &PLAN].concat(), 0);
        assert!(
            wiped.contains("will become inaccessible: the whole disk: unrecognised data"),
            "byte {at}: {wiped}"
        );
        ran(&["apply", "plan", "--write", "disk"], 0);
        fs::remove_file(dir.join("plan.undo")).unwrap();
    }
}

/// A member of a firmware RAID shows the array's table: changing it on a single disk is refused as well.
#[test]
fn a_table_on_a_member_is_not_changed() {
    let dir = Dir::new("member");
    let disk = dir.image("disk", 64 << 20);
    write_table(&disk, 512, "label: dos\nstart=2048, size=2048\n");
    let file = fs::OpenOptions::new().write(true).open(disk).unwrap();
    file.write_all_at(b"Intel Raid ISM Cfg Sig. 1.3.00", (64 << 20) - 1024).unwrap();
    for change in [&["--add", "1MiB"][..], &["--delete", "1"], &["--table", "gpt", "--part", "rest"]] {
        let refused = straddle_in(dir.path(), &[&["plan", "disk"][..], change].concat());
        assert_eq!(refused.status.code(), Some(4), "{change:?}: {}", transcript(&refused));
        assert!(transcript(&refused).contains("isw_raid_member"), "{}", transcript(&refused));
    }
    let seen = transcript(&straddle_in(dir.path(), &["check", "disk"]));
    assert!(seen.contains("isw_raid_member"), "{seen}");
}

#[test]
fn a_new_table_names_what_it_no_longer_leads_to() {
    if !present(&["mkfs.ntfs", "mkfs.ext4"]) {
        return;
    }
    let dir = Dir::new("lost");
    let disk = dir.image("disk", 64 << 20);
    write_table(
        &disk,
        512,
        "label: gpt\nstart=2048, size=40960\nstart=43008, size=20480\nstart=65536, size=2048\n",
    );
    shell(
        "truncate -s 20M n; mkfs.ntfs -qFf -L Holidays n; dd if=n of=disk bs=1M seek=1 conv=notrunc status=none",
        dir.path(),
    );
    shell(
        "truncate -s 10M e; mkfs.ext4 -q -L files e; dd if=e of=disk bs=1M seek=21 conv=notrunc status=none",
        dir.path(),
    );
    let lines = [
        "will become inaccessible: partition 1: ntfs \"Holidays\", 20 MiB (20971520 bytes) from byte 1048576",
        "will become inaccessible: partition 2: ext4 \"files\", 10 MiB (10485760 bytes) from byte 22020096",
        "will become inaccessible: partition 3: no known content, 1 MiB (1048576 bytes) from byte 33554432",
    ];
    let flat = |output: &Output| transcript(output).split_whitespace().collect::<Vec<_>>().join(" ");
    let planned = straddle_in(dir.path(), &[&["plan", "disk"][..], &PLAN].concat());
    for line in lines {
        assert!(flat(&planned).contains(line), "{line}\n{}", transcript(&planned));
    }
    let report = straddle_in(dir.path(), &[&["plan", "disk", "--json"][..], &PLAN[..4]].concat());
    let report: Value = serde_json::from_slice(&report.stdout).unwrap();
    let labels: Vec<&str> =
        report["lost"].as_array().unwrap().iter().filter_map(|l| l["label"].as_str()).collect();
    assert_eq!(labels, ["Holidays", "files"]);
    let dry = straddle_in(dir.path(), &["apply", "plan", "--write", "disk", "--dry-run"]);
    let applied = straddle_in(dir.path(), &["apply", "plan", "--write", "disk"]);
    for line in lines {
        assert!(
            flat(&dry).contains(line) && flat(&applied).contains(line),
            "{line}\n{}",
            transcript(&applied)
        );
    }
    // The content of a deleted partition is lost too; that of a kept one is not.
    let undone = straddle_in(dir.path(), &["undo", "plan.undo", "--write", "disk"]);
    assert_eq!(undone.status.code(), Some(0), "{}", transcript(&undone));
    let deleted = flat(&straddle_in(dir.path(), &["plan", "disk", "--delete", "2"]));
    assert!(deleted.contains(lines[1]) && !deleted.contains("Holidays"), "{deleted}");
}

/// Content that appeared on the disk after the plan was made is not overwritten.
#[test]
fn what_the_plan_does_not_know_of_is_not_overwritten() {
    if !present(&["mkfs.ext4"]) {
        return;
    }
    let dir = Dir::new("since");
    let disk = dir.image("disk", 64 << 20);
    let planned = straddle_in(dir.path(), &[&["plan", "disk"][..], &PLAN].concat());
    assert_eq!(planned.status.code(), Some(0), "{}", transcript(&planned));
    shell("mkfs.ext4 -q disk", dir.path());
    let before = fs::read(&disk).unwrap();
    let refused = straddle_in(dir.path(), &["apply", "plan", "--write", "disk"]);
    assert_eq!(refused.status.code(), Some(4), "{}", transcript(&refused));
    assert!(transcript(&refused).contains("ext4"), "{}", transcript(&refused));
    assert!(before == fs::read(&disk).unwrap());
}

/// A partition whose entry was made smaller than what is in it: a move would leave the rest behind, and what looks like
/// free space is that rest.
#[test]
fn nothing_is_written_to_a_disk_with_contents_past_the_end_of_their_partition() {
    const START: u64 = 63;
    const SECTORS: u64 = 60_000;
    const SIZE: u64 = 340 << 20;
    for (format, make) in SIZED {
        let program = make.split(' ').next().unwrap();
        if !present(&[program]) {
            continue;
        }
        let dir = Dir::new("cut-short");
        let image = dir.image("disk.img", 400 << 20);
        write_table(&image, 512, &format!("label: dos\nstart={START}, size={SECTORS}, type=83\n"));
        dir.image("contents", SIZE);
        shell(&format!("{make} contents"), dir.path());
        shell(
            "dd if=contents of=disk.img bs=1M seek=32256 oflag=seek_bytes conv=notrunc,sparse status=none",
            dir.path(),
        );
        let before = tools::Contents::of(&image);
        let report = tools::check_in(dir.path(), Path::new("disk.img"), &[]);
        let findings = tools::list(&report, "findings");
        let finding =
            findings.iter().find(|one| one["code"] == "S048").unwrap_or_else(|| panic!("{format}: {report}"));
        assert_eq!(tools::number(finding, "offset_bytes"), (START + SECTORS) * 512, "{format}: {finding}");
        for arguments in [
            &["realign", "disk.img", "--save", "plan"][..],
            &["plan", "disk.img", "--add", "rest", "--save", "plan"],
            &["plan", "disk.img", "--grow", "1=60MiB", "--save", "plan"],
            &["realign", "disk.img", "--to", "copy.img", "--save", "plan"],
            &["bench", "random-write", "disk.img"],
            &["probe", "disk.img"],
        ] {
            let said = straddle_in(&dir, arguments);
            assert_eq!(said.status.code(), Some(4), "{format}: {arguments:?}: {}", transcript(&said));
        }
        let others = findings.iter().filter(|one| one["code"] != "S048");
        let commands = others.filter_map(|one| one["fix"]["commands"].as_array()).flatten();
        let writes =
            |line: &&Value| line.to_string().contains("sfdisk") || line.to_string().contains("realign");
        assert_eq!(commands.filter(writes).count(), 0, "{format}: {report}");
        assert!(tools::Contents::of(&image) == before, "{format}");
        // What is printed makes it whole again.
        let lines: Vec<String> =
            tools::list(&finding["fix"], "commands").iter().map(|line| tools::word(line, "line")).collect();
        assert_eq!(lines.len(), 2, "{format}: {finding}");
        tools::shell(&tools::with_program(&lines.join(" && ")), dir.path());
        assert!(
            !tools::codes(&tools::check(&image, &[])).values().any(|codes| codes.contains("S048")),
            "{format}"
        );
    }
}

/// The same after a plan was made: what `apply` finds counts.
#[test]
fn contents_that_reach_past_the_end_since_the_plan_are_left_alone() {
    if !present(&["mkfs.ext4", "debugfs"]) {
        return;
    }
    let dir = Dir::new("cut-short-since");
    let image = dir.image("disk.img", 100 << 20);
    write_table(&image, 512, "label: dos\nstart=63, size=60000, type=83\n");
    dir.image("contents", 60_000 * 512);
    shell("mkfs.ext4 -q -F -b 1024 -O ^metadata_csum contents", dir.path());
    shell(
        "dd if=contents of=disk.img bs=64K oflag=seek_bytes seek=$((63 * 512)) conv=notrunc status=none",
        dir.path(),
    );
    for arguments in [
        &["realign", "disk.img", "--save", "move"][..],
        &["realign", "disk.img", "--to", "copy.img", "--save", "copy"],
        &["plan", "disk.img", "--add", "rest", "--save", "table"],
    ] {
        let said = straddle_in(&dir, arguments);
        assert!(said.status.success(), "{}", transcript(&said));
    }
    shell("debugfs -w -R 'ssv blocks_count 40000' 'disk.img?offset=32256' 2>/dev/null", dir.path());
    let before = tools::Contents::of(&image);
    for arguments in [
        &["apply", "move", "--write", "disk.img"][..],
        &["apply", "copy", "--from", "disk.img", "--write", "copy.img"],
        &["apply", "table", "--write", "disk.img"],
    ] {
        let said = straddle_in(&dir, arguments);
        assert_eq!(said.status.code(), Some(4), "{arguments:?}: {}", transcript(&said));
        assert!(transcript(&said).contains("past the end") || transcript(&said).contains("after the end"));
    }
    assert!(tools::Contents::of(&image) == before && !dir.join("copy.img").exists());
}

/// A plan that gives one partition the room that its contents need is carried out; not if another one lacks it too.
#[test]
fn room_for_one_partition_is_no_room_for_another() {
    if !present(&["mkfs.ext4", "debugfs"]) {
        return;
    }
    for (grown, expected) in [(&[2048_u64][..], 0), (&[2048, 122_880], 4)] {
        let dir = Dir::new("cut-short-two");
        let image = dir.image("disk.img", 100 << 20);
        write_table(&image, 512, "label: dos\nstart=2048, size=60000\nstart=122880, size=60000\n");
        dir.image("contents", 60_000 * 512);
        shell("mkfs.ext4 -q -F -b 1024 -O ^metadata_csum contents", dir.path());
        for start in [2048, 122_880] {
            let into = format!(
                "dd if=contents of=disk.img bs=64K oflag=seek_bytes seek=$(({start} * 512)) conv=notrunc status=none"
            );
            shell(&into, dir.path());
        }
        let said = straddle_in(&dir, &["plan", "disk.img", "--grow", "1=50MiB", "--save", "plan"]);
        assert!(said.status.success(), "{}", transcript(&said));
        for start in grown {
            let at = start * 512;
            let grow = format!("debugfs -w -R 'ssv blocks_count 40000' 'disk.img?offset={at}' 2>/dev/null");
            shell(&grow, dir.path());
        }
        let before = tools::Contents::of(&image);
        let said = straddle_in(&dir, &["apply", "plan", "--write", "disk.img"]);
        assert_eq!(said.status.code(), Some(expected), "{}", transcript(&said));
        assert_eq!(tools::Contents::of(&image) == before, expected == 4);
    }
}
