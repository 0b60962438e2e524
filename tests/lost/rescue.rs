//! Disks that were partitioned in sectors of another size: what they hold is read without a write, and no command is printed
//! that is always refused or that takes the table away.

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::tools::{
    Dir, check_in, list, present, shell, skipped, straddle_in, text, transcript, write_table,
};

/// Makes a disk with a table in sectors of `sector` bytes, and puts what `make` makes of the file `p` at byte 1048576.
fn disk(sector: u64, size: &str, (table, make): (&str, &str)) -> Dir {
    let dir = Dir::new("rescue");
    shell(&format!("truncate -s {size} disk"), dir.path());
    write_table(&dir.join("disk"), sector, table);
    shell(
        &format!("truncate -s 64M p; {make}; dd if=p of=disk bs=1M seek=1 conv=notrunc,sparse status=none"),
        dir.path(),
    );
    dir
}

fn commands(fix: &Value) -> Vec<String> {
    let lines = fix["commands"].as_array().into_iter().flatten();
    lines.map(|line| line["line"].as_str().or(line.as_str()).unwrap().to_owned()).collect()
}

/// The commands of the two fixes of S030.
fn offered(dir: &Dir, assume: &str) -> (Vec<String>, Vec<String>) {
    let report = check_in(dir.path(), Path::new("disk"), &["--assume", assume]);
    let findings = list(&report, "findings");
    assert!(!report.to_string().contains("sgdisk"), "{report}");
    let finding = findings.iter().find(|finding| finding["code"] == "S030").unwrap();
    (commands(&finding["fix"]), commands(&finding["alternative"]))
}

/// The loop device lists the partitions at their bytes, with what is in them, and nothing is written.
fn is_read_as_it_was(dir: &Dir, line: &str, (sector, content): (u64, &str)) {
    assert!(line.contains(&format!("--read-only --partscan --sector-size {sector} ")), "{line}");
    let before = fs::read(dir.join("disk")).unwrap();
    let line = line.replace("losetup --find", "flock /dev/loop-control losetup --find");
    let made = Command::new("bash").args(["-c", &line]).current_dir(dir.path()).output().unwrap();
    if !made.status.success() {
        return skipped("no loop devices here");
    }
    let device = text(&made.stdout).trim().to_owned();
    let seen = Command::new("sfdisk").args(["--json", &device]).output().unwrap();
    let found = Command::new("blkid")
        .args(["-p", "-O", "1048576", "-o", "value", "-s", "TYPE", &device])
        .output()
        .unwrap();
    shell(&format!("losetup --detach {device}"), dir.path());
    let seen: Value = serde_json::from_slice(&seen.stdout).unwrap();
    assert_eq!(seen["partitiontable"]["partitions"][0]["start"], 1_048_576 / sector, "{seen}");
    assert_eq!(text(&found.stdout).trim(), content);
    assert!(fs::read(dir.join("disk")).unwrap() == before);
}

#[test]
fn a_table_in_other_sectors_is_read_without_a_write_and_converted_where_that_is_possible() {
    if !present(&["sfdisk", "mkfs.ext4", "mkntfs", "losetup", "flock", "blkid", "mkfs.xfs"]) {
        return;
    }
    let (gpt, mbr) = ("label: gpt\nstart=256, size=16384\n", "label: dos\nstart=256, size=16384, type=7\n");
    let small = "label: gpt\nstart=2048, size=131072\n";
    for (sector, assume, made, content, is_converted) in [
        (4096, "512e", (gpt, "mkfs.ext4 -q -b 4096 p"), "ext4", true),
        (4096, "512n", (mbr, "mkntfs -F -q -s 4096 -p 256 -H 255 -S 63 p >/dev/null 2>&1"), "ntfs", false),
        (512, "4kn", (small, "mkfs.ext4 -q -b 1024 p"), "ext4", false),
        (512, "4kn", (small, "mkfs.ext4 -q -b 4096 p"), "ext4", true),
    ] {
        let dir = disk(sector, "128M", made);
        let (first, second) = offered(&dir, assume);
        let views = if is_converted { &second } else { &first };
        assert_eq!(views.len(), 1, "{made:?}: {first:?} {second:?}");
        is_read_as_it_was(&dir, &views[0], (sector, content));
        if is_converted {
            for line in &first {
                let words: Vec<&str> = line.split(' ').skip(1).collect();
                let done = straddle_in(&dir, &words);
                assert!(done.status.success(), "{line}: {}", transcript(&done));
            }
        } else {
            assert!(second.is_empty(), "{second:?}");
        }
    }
}

/// Where an MBR cannot say it, the plan for a GPT is printed, and makes one at the same bytes.
#[test]
fn what_an_mbr_cannot_say_in_smaller_sectors_a_gpt_can() {
    if !present(&["sfdisk"]) {
        return;
    }
    for table in [
        "label: dos\nstart=256, size=732557000, type=7\n",
        "label: dos\nstart=256, size=100000, type=83\nstart=600000000, size=1000, type=7\n",
    ] {
        let dir = disk(4096, "3000558944256", (table, "true"));
        let said = straddle_in(&dir, &["plan", "disk", "--convert-table", "512", "--logical", "4096"]);
        let said = transcript(&said).split_whitespace().collect::<Vec<_>>().join(" ");
        let (_, line) =
            said.split_once("at the same position: straddle plan DISK ").unwrap_or_else(|| panic!("{said}"));
        let line = line.split(" (exit").next().unwrap();
        let words = format!("plan disk {line} --save plan");
        let planned = straddle_in(&dir, &words.split(' ').collect::<Vec<_>>());
        assert!(planned.status.success(), "{words}: {}", transcript(&planned));
        let applied = straddle_in(&dir, &["apply", "plan", "--write", "disk"]);
        assert!(applied.status.success(), "{}", transcript(&applied));
        let now = Command::new("sfdisk").args(["--json"]).arg(dir.join("disk")).output().unwrap();
        let now: Value = serde_json::from_slice(&now.stdout).unwrap();
        assert_eq!(now["partitiontable"]["partitions"][0]["start"], 2048, "{now}");
    }
}

/// An EFI system partition without files is made again by mkfs; one with files is somebody's.
#[test]
fn an_unused_efi_system_partition_does_not_keep_a_table_from_being_converted() {
    if !present(&["sfdisk", "mkfs.vfat", "mcopy"]) {
        return;
    }
    let table = |kind: &str, size: u64| {
        format!("label: gpt\nstart={}, size={}, type={kind}\n", (1 << 20) / size, (64 << 20) / size)
    };
    let mut refused = 0;
    for (sector, to) in [(4096, "512"), (512, "4096")] {
        for (kind, fill, is_refused) in
            [("U", "true", false), ("U", "echo x >x; mcopy -i p x ::", true), ("L", "true", true)]
        {
            let make = format!("mkfs.vfat -S {sector} -n LABEL p >/dev/null; {fill}");
            let dir = disk(sector, "128M", (&table(kind, sector), &make));
            let planned = straddle_in(&dir, &["plan", "disk", "--convert-table", to]);
            assert_eq!(
                planned.status.success(),
                !is_refused,
                "{sector} {kind} {fill}: {}",
                transcript(&planned)
            );
            assert!(is_refused || transcript(&planned).contains("mkfs.fat"), "{}", transcript(&planned));
            refused += u32::from(is_refused);
        }
    }
    assert_eq!(refused, 4);
}
