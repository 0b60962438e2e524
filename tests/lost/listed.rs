//! Contents of partitions that a new table does not keep, and contents that no partition lists: neither is written over, or
//! covered by a partition, without `--wipe`.

use std::fs;

use serde_json::Value;

use crate::tools::{Dir, present, shell, straddle_in, transcript};

fn run(dir: &Dir, words: &str) -> (i32, String) {
    let output = straddle_in(dir, &words.split(' ').collect::<Vec<_>>());
    (output.status.code().unwrap(), transcript(&output).split_whitespace().collect::<Vec<_>>().join(" "))
}

/// Makes a disk of 64 MiB with this table, and puts what `make` makes of the file `p` of so many sectors at a sector.
fn disk(table: &str, make: &str, (first, sectors): (u64, u64)) -> Dir {
    let dir = Dir::new("listed");
    let put = format!(
        "truncate -s 64M disk; printf '{table}' | sfdisk -q disk; truncate -s $(({sectors} * 512)) p; \
         {make}; dd if=p of=disk bs=512 seek={first} conv=notrunc,sparse status=none"
    );
    shell(&put, dir.path());
    dir
}

/// A plan of these words is refused with these, and writes nothing; with `--wipe` it is applied, and its JSON has what is
/// given up.
fn refused(dir: &Dir, wanted: &str, says: &[&str]) -> Value {
    let before = fs::read(dir.join("disk")).unwrap();
    let (code, said) = run(dir, &format!("plan disk {wanted} --save plan"));
    assert_eq!(code, 4, "{wanted}: {said}");
    assert!(
        says.iter().all(|word| said.contains(word)) && said.contains("--wipe"),
        "{wanted}: {said} lacks {says:?}"
    );
    assert!(fs::read(dir.join("disk")).unwrap() == before && !dir.join("plan").exists());
    let report =
        straddle_in(dir, &format!("plan disk {wanted} --wipe --json").split(' ').collect::<Vec<_>>());
    let report = serde_json::from_slice::<Value>(&report.stdout).unwrap();
    let (code, said) = run(dir, &format!("plan disk {wanted} --wipe --save plan"));
    assert_eq!(code, 0, "{wanted}: {said}");
    let (code, said) = run(dir, "apply plan --write disk");
    assert_eq!(code, 0, "{wanted}: {said}");
    assert_eq!(run(dir, "undo plan.undo --write disk").0, 0);
    assert!(fs::read(dir.join("disk")).unwrap() == before, "{wanted}: an undo brings back every byte");
    fs::remove_file(dir.join("plan")).unwrap();
    report["lost"].clone()
}

/// Where the entries of a GPT would be, and where its backup would be: superblocks, data, zeros within a file system, what
/// is found from its end only, and bytes that nobody recognises.
#[test]
fn a_new_table_is_not_written_over_contents_of_partitions() {
    if !present(&["sfdisk", "mkfs.ext2", "mkfs.ext4", "mkntfs", "mkswap", "openssl", "mkfs.xfs"]) {
        return;
    }
    let random = "openssl enc -aes-128-ctr -nosalt -K 1f -iv 2e -in /dev/zero 2>/dev/null | head -c $(stat -c %s p) > r; mv r p";
    let last = 131_072 - 2048;
    let (to_the_end, gpt) = ("start=2048, type=83\\n", "--table gpt --part rest");
    let at_the_start = "grain: 512\\nstart=1, size=100000, type=83\\n";
    let cases = [
        (at_the_start, "mkfs.ext2 -q -b 1024 p", (1, 100_000), gpt, "byte 1024 of partition 1 (ext2)"),
        (at_the_start, "mkswap -q p", (1, 100_000), gpt, "byte 1024 of partition 1 (swap)"),
        (at_the_start, random, (1, 100_000), gpt, "byte 1024 of partition 1 (no known content)"),
        (to_the_end, "mkfs.ext4 -q -b 4096 p", (2048, last), gpt, "byte 67091968 of partition 1 (ext4)"),
        (
            to_the_end,
            "mkntfs -F -q -s 512 -p 2048 -H 255 -S 63 p >/dev/null 2>&1",
            (2048, last),
            gpt,
            "byte 67091968 of partition 1 (ntfs)",
        ),
        (to_the_end, "mkswap -q p", (2048, last), gpt, "byte 67091968 of partition 1 (swap)"),
        (to_the_end, random, (2048, last), gpt, "byte 67091968 of partition 1 (no known content)"),
        (
            "label: gpt\\nstart=2048, size=100000\\n",
            "mkntfs -F -q -s 512 -p 2048 -H 255 -S 63 p >/dev/null 2>&1",
            (2048, 100_000),
            "--table mbr --part rest,role=logical",
            "byte 1048576 of partition 1 (ntfs)",
        ),
    ];
    for (table, make, place, wanted, says) in cases {
        let dir = disk(table, make, place);
        let lost = refused(&dir, wanted, &[says]);
        let of_it = lost.as_array().unwrap().iter().find(|lost| lost["partition"] == 1).unwrap();
        assert_eq!(of_it["overwritten"], true, "{make}: {lost}");
    }
}

/// Nothing of it is in the way of a table that goes elsewhere, or behind the end of the contents.
#[test]
fn a_new_table_beside_the_contents_of_partitions_is_planned() {
    if !present(&["sfdisk", "mkfs.ext4"]) {
        return;
    }
    let to_the_end = "start=2048, type=83\\n";
    for (table, sectors) in [("label: gpt\\nstart=2048\\n", 128_000), (to_the_end, 120_000)] {
        let dir = disk(table, "mkfs.ext4 -q -b 4096 -L files p", (2048, sectors));
        let (code, said) = run(&dir, "plan disk --table gpt --part 40MiB --save plan");
        assert!(code == 0 && said.contains("become inaccessible: partition 1: ext4 \"files\""), "{said}");
        let (code, said) = run(&dir, "apply plan --write disk");
        assert_eq!(code, 0, "{said}");
        shell(
            "dd if=disk of=now bs=512 skip=2048 count=$(($(stat -c %s p) / 512)) status=none; cmp p now",
            dir.path(),
        );
    }
}

/// Contents of a deleted partition, wherever the new one begins, of a table of either kind; and where one grows to.
#[test]
fn a_partition_is_not_put_over_contents_that_none_lists() {
    if !present(&["sfdisk", "mkfs.ext4", "mkfs.xfs", "mkntfs", "mkswap", "mkfs.vfat"]) {
        return;
    }
    let (gpt, mbr) = ("label: gpt\\nstart=110592, size=16384\\n", "start=110592, size=16384, type=83\\n");
    let extended = "start=2048, size=120000, type=5\\nstart=112640, size=8192, type=83\\n";
    let before = "label: gpt\\nstart=2048, size=8192\\n";
    let primary = "start=2048, size=8192, type=83\\n";
    let fat = "mkfs.vfat -n KEEPME p >/dev/null";
    let cases = [
        (
            gpt,
            "mkfs.ext4 -q -b 4096 -L KEEPME p",
            (2048, 100_000),
            "--add 40MiB",
            "would cover ext4 \"KEEPME\" at byte 1048576,",
        ),
        (
            gpt,
            "mkfs.xfs -q -L KEEPME p || mkfs.ext4 -q -L KEEPME p",
            (2048, 100_000),
            "--add 10MiB --start 4096s",
            "\"KEEPME\"",
        ),
        (
            mbr,
            "mkntfs -F -q -L KEEPME p >/dev/null 2>&1",
            (2048, 80_000),
            "--add 20MiB",
            "would cover ntfs \"KEEPME\"",
        ),
        (mbr, fat, (63, 80_000), "--add 20MiB", "at byte 32256,"),
        (mbr, "mkswap -q -L KEEPME p", (40_960, 40_000), "--add rest", "would cover swap \"KEEPME\""),
        (extended, fat, (10_240, 80_000), "--add 8MiB,role=logical --start 12288s", "would cover vfat"),
        // As DOS laid out disks: a track behind the start of free space, and cylinders, with and without a track.
        (primary, fat, (10_303, 80_000), "--add 40MiB", "at byte 5275136,"),
        (mbr, fat, (32_130, 60_000), "--add 40MiB", "at byte 16450560,"),
        (mbr, "mkfs.ext4 -q -L KEEPME p", (16_128, 60_000), "--add 40MiB", "at byte 8257536,"),
        (before, "mkfs.ext4 -q -L KEEPME p", (30_720, 60_000), "--grow 1", "would cover ext4 \"KEEPME\""),
        (before, fat, (30_720, 60_000), "--grow 1=30MiB", "partition 1 would cover"),
    ];
    for (table, make, place, wanted, says) in cases {
        let dir = disk(table, make, place);
        let lost = refused(&dir, wanted, &[says]);
        assert!(!lost.as_array().unwrap().is_empty(), "{wanted}: {lost}");
    }
}

/// Nor where a GiB begins, or 1 MiB behind one, on a disk of which nothing else is left: there installers put the next one.
#[test]
fn contents_on_a_gib_are_found_in_a_large_space() {
    if !present(&["sfdisk", "mkfs.ext4"]) {
        return;
    }
    for mib in [5_u64 << 10, (12 << 10) + 1, (63 << 10) + 1] {
        let dir = Dir::new("listed-large");
        let make = format!(
            "truncate -s 80G disk; echo 'label: gpt' | sfdisk -q disk; truncate -s 16M p; mkfs.ext4 -q -L \
             KEEPME p; dd if=p of=disk bs=1M seek={mib} conv=notrunc,sparse status=none"
        );
        shell(&make, dir.path());
        let (code, said) = run(&dir, "plan disk --add rest");
        assert!(
            code == 4 && said.contains(&format!("at byte {}, perhaps from a deleted partition", mib << 20)),
            "{mib}: {said}"
        );
        assert_eq!(run(&dir, "plan disk --add 4GiB").0, 0, "{mib}");
    }
}

/// What is deleted in the same plan is named by it, other space is free, and a start that is asked for brings contents back.
#[test]
fn a_partition_beside_such_contents_or_round_them_is_planned() {
    if !present(&["sfdisk", "mkfs.ext4"]) {
        return;
    }
    let make = "mkfs.ext4 -q -b 4096 -L KEEPME p";
    let dir = disk("label: gpt\\nstart=110592, size=16384\\n", make, (2048, 40_000));
    for (wanted, says) in [
        ("--add 20MiB --start 45056s", "a multiple of"),
        (
            "--add 20MiB --start 2048s",
            "partition 2 starts at existing contents and makes them accessible: ext4 \"KEEPME\"",
        ),
        ("--table gpt --part 20MiB", "partition 1: no known content"),
        ("--table gpt --part 8MiB", "outside partitions: ext4 \"KEEPME\""),
    ] {
        let (code, said) = run(&dir, &format!("plan disk {wanted} --explain --save plan"));
        assert!(code == 0 && (said.contains(says) || says == "a multiple of"), "{wanted}: {said}");
        let (code, said) = run(&dir, "apply plan --write disk");
        assert_eq!(code, 0, "{wanted}: {said}");
        shell("dd if=disk of=now bs=512 skip=2048 count=40000 status=none; cmp p now", dir.path());
        assert_eq!(run(&dir, "undo plan.undo --write disk").0, 0);
        fs::remove_file(dir.join("plan.undo")).unwrap();
    }
    let dir = disk("label: gpt\\nstart=2048, size=40000\\nstart=110592, size=16384\\n", make, (2048, 40_000));
    let (code, said) = run(&dir, "plan disk --delete 1 --add 10MiB");
    assert!(code == 0 && said.contains("become inaccessible: partition 1: ext4 \"KEEPME\""), "{said}");
}

/// A byte in the way of a move is named, with what gives it up: neither smaller contents nor another disk are needed.
#[test]
fn a_stray_byte_is_no_want_of_room() {
    if !present(&["sfdisk", "openssl"]) {
        return;
    }
    let random = "openssl enc -aes-128-ctr -nosalt -K 1f -iv 2e -in /dev/zero 2>/dev/null | head -c $(stat -c %s p) > r; mv r p";
    let parts = "start=63, size=20000\\nstart=20063, size=20000\\nstart=42000, size=10000\\n";
    for table in [format!("label: dos\\n{parts}"), format!("label: gpt\\nfirst-lba: 34\\n{parts}")] {
        let dir = disk(&table, random, (63, 40_000));
        assert_eq!(run(&dir, "realign disk").0, 0);
        shell("printf X | dd of=disk bs=1 seek=$((40063 * 512)) conv=notrunc status=none", dir.path());
        let (code, said) = run(&dir, "realign disk");
        assert!(
            code == 4
                && said.contains("at byte 20512256, which is outside all partitions")
                && said.contains("--wipe"),
            "{said}"
        );
        assert!(!said.contains("shrink") && !said.contains("--to"), "{said}");
        assert_eq!(run(&dir, "realign disk --wipe").0, 0);
    }
}

/// A backup GPT in the way of a new partition is named, instead of a want of room.
#[test]
fn a_backup_in_the_way_of_a_new_partition_is_named() {
    if !present(&["sfdisk"]) {
        return;
    }
    let dir = disk("label: gpt\\nstart=2048, size=126976\\n", "true", (2048, 8));
    let (code, said) = run(&dir, "plan disk --add 50MiB");
    assert!(code != 0 && !said.contains("--relocate-backup"), "nothing is behind it: {said}");
    shell("truncate -s 256M disk", dir.path());
    for size in ["50MiB", "100MiB"] {
        let (code, said) = run(&dir, &format!("plan disk --add {size}"));
        assert!(
            code != 0
                && said.contains(
                    "--relocate-backup would move it to the end of the disk, which makes another 192 MiB \
                     usable"
                ),
            "{size}: {said}"
        );
        assert_eq!(run(&dir, &format!("plan disk --add {size} --relocate-backup")).0, 0, "{size}");
    }
}
