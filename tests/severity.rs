//! A verdict is about the data that will be written: the same position is an error, a warning or advice,
//! depending on the content.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use crate::tools;
#[path = "severity/units.rs"]
mod units;

use std::fs::OpenOptions;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;
use tools::{Dir, STRADDLE, at_once, list, number, present, run, shell, word, write_table};

const ARGS: [&str; 2] = ["--assume", "512e"];

/// An image of `mib` MiB with a table made by sgdisk with these options.
fn gpt(dir: &Dir, mib: u64, options: &[&str]) -> PathBuf {
    let image = dir.image("disk.img", mib << 20);
    run(Command::new("sgdisk").args(options).arg(&image), "");
    image
}

/// Makes a file system of `sectors` sectors (FS in the command stands for the file) and copies it to sector
/// `start`.
fn put(dir: &Dir, image: &Path, make: &str, start: u64, sectors: u64) {
    dir.image("fs.img", sectors * 512);
    shell(&make.replace("FS", "fs.img"), dir.path());
    let dd = ["if=fs.img", "conv=notrunc,sparse", "bs=1M", "oflag=seek_bytes", "status=none"];
    let to = [format!("of={}", image.display()), format!("seek={}", start * 512)];
    run(Command::new("dd").args(dd).args(to).current_dir(dir.path()), "");
}

/// The severities of the findings of `code`, and the exit status.
fn judged(image: &Path, code: &str) -> (Vec<String>, i32) {
    let output = tools::output(Command::new(STRADDLE).args(["check", "--json"]).args(ARGS).arg(image), "");
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let of = |f: &&Value| word(f, "code") == code;
    let findings = list(&report["targets"][0], "findings");
    let severities = findings.iter().filter(of).map(|f| word(f, "severity")).collect();
    (severities, output.status.code().unwrap())
}

#[test]
fn an_end_matters_where_it_is_written() {
    if !present(&["sgdisk", "mkfs.ext4", "mkfs.xfs", "mkfs.fat", "mkfs.ntfs", "mkfs.btrfs", "mkswap"]) {
        return;
    }
    // A partition over the whole disk ends 33 sectors before the disk's end: 3584 bytes past a physical
    // sector boundary.
    let cases = [
        ("mkfs.ext4 -q -F -b 4096 FS", "advice"),
        // mkfs leaves out the last partial page unless it is given a size.
        ("mkfs.ext4 -q -F -b 1024 FS", "advice"),
        ("mkfs.ext4 -q -F -b 1024 FS 408559", "warning"),
        ("mkfs.xfs -q -f -s size=4096 FS", "advice"),
        ("mkfs.btrfs -q -f FS", "advice"),
        ("mkfs.fat -s 16 FS", "advice"),
        ("mkfs.ntfs -Q -q -F -c 4096 FS", "advice"),
        ("mkswap -q FS", "advice"),
        // A header with a larger size than there is.
        ("sh -c 'truncate -s +8K FS; mkswap -q FS; truncate -s -8K FS'", "warning"),
        ("true", "advice"),
        ("dd if=/proc/version of=FS conv=notrunc status=none", "warning"),
    ];
    at_once(cases, |(make, severity)| {
        let dir = Dir::new("end");
        let image = gpt(&dir, 400, &["-n", "1:0:0"]);
        put(&dir, &image, make, 2048, 400 * 2048 - 33 - 2048);
        let (found, status) = judged(&image, "S002");
        assert_eq!(found, [severity], "{make}");
        assert_eq!(status, i32::from(severity == "warning"), "{make}");
    });
    // The next partition begins in the same physical sector.
    let dir = Dir::new("end");
    let image = gpt(&dir, 64, &["-a1", "-n", "1:2048:40002", "-n", "2:40003:80000"]);
    put(&dir, &image, "mkfs.ext4 -q -F -b 4096 FS", 2048, 37955);
    assert!(judged(&image, "S002").0.contains(&"warning".to_owned()));
}

#[test]
fn a_start_matters_where_something_is_written() {
    if !present(&["sgdisk", "mkfs.ext4", "mkfs.fat"]) {
        return;
    }
    let (fat, ext4) = ("mkfs.fat -F 16 -s 2 FS", "mkfs.ext4 -q -F -b 4096 FS");
    let cases = [
        ("ef02", "true", "advice"),
        ("ef02", ext4, "error"),
        ("a501", "true", "advice"),
        ("a501", ext4, "error"),
        ("4100", "true", "advice"),
        ("0c01", "true", "advice"),
        ("0c01", ext4, "error"),
        ("ef00", fat, "advice"),
        ("ef00", "true", "advice"),
        ("ef00", ext4, "error"),
        ("ea00", fat, "advice"),
        ("8300", "true", "error"),
        ("8300", fat, "error"),
        ("0700", fat, "error"),
    ];
    at_once(cases, |(kind, make, severity)| {
        let dir = Dir::new("start");
        let kind = format!("1:{kind}");
        let image = gpt(&dir, 64, &["-a1", "-n", "1:34:80001", "-t", &kind]);
        put(&dir, &image, make, 34, 79968);
        let (found, status) = judged(&image, "S001");
        assert_eq!(found, [severity], "{kind} {make}");
        let report = tools::check(&image, &ARGS);
        // For such a FAT, small clusters and their position do not matter either.
        let grave = list(&report, "findings").iter().any(|f| word(f, "severity") != "advice");
        assert_eq!(grave, severity == "error", "{kind} {make}: {report:#}");
        assert_eq!(status, i32::from(grave), "{kind} {make}");
        let commands = list(&report, "findings")
            .iter()
            .any(|f| f["fix"]["commands"].as_array().is_some_and(|all| !all.is_empty()));
        assert_eq!(commands, grave, "{kind} {make}: {report:#}");
    });
}

/// A table that the kernel finds no partition by is an error, whatever is wrong with it; one that it still reads is a
/// warning.
#[test]
fn a_table_matters_by_whether_partitions_are_found() {
    if !present(&["sgdisk"]) {
        return;
    }
    let zero =
        |at: u64| format!("dd if=/dev/zero of=disk.img bs=512 seek={at} count=1 conv=notrunc status=none");
    let spoil =
        |at: u64| format!("printf 'wrong ones' | dd of=disk.img bs=1 seek={at} conv=notrunc status=none");
    let (first, last) = (1, 131_071);
    let cases = [
        ("S033", "error", [spoil(first * 512 + 56), spoil(last * 512 + 56)]),
        ("S037", "error", [zero(first), zero(last)]),
        ("S037", "error", [zero(0), "true".to_owned()]),
        ("S031", "error", [zero(first), "true".to_owned()]),
        ("S032", "warning", [zero(last), "true".to_owned()]),
        ("S034", "warning", ["truncate -s 96M disk.img".to_owned(), "true".to_owned()]),
    ];
    for (code, severity, damages) in cases {
        let dir = Dir::new("found");
        let image = gpt(&dir, 64, &["-n", "1:2048:40007"]);
        damages.iter().for_each(|line| drop(shell(line, dir.path())));
        assert_eq!(judged(&image, code), (vec![severity.to_owned()], 1), "{code}: {damages:?}");
    }
}

/// The partitions of ChromeOS and Container-Optimized OS: four of a single block, among those in use.
#[test]
fn partitions_of_one_block_are_only_advice() {
    if !present(&["sfdisk"]) {
        return;
    }
    for (grave, more) in [(false, ""), (true, "90001,8\n")] {
        let dir = Dir::new("one-block");
        let image = dir.image("disk.img", 64 << 20);
        let table = "label: gpt\nfirst-lba: 34\n64,16384\n16448,1\n16449,1\n16450,1\n16451,1\n20480,32768\n";
        write_table(&image, 512, &format!("{table}{more}"));
        let (_, status) = judged(&image, "S001");
        assert_eq!(status, i32::from(grave), "{more}");
        let report = tools::check(&image, &ARGS);
        let small: Vec<&Value> = list(&report, "findings")
            .iter()
            .filter(|f| f["partition"].as_u64().is_some_and(|n| n < 6))
            .collect();
        assert!(small.iter().all(|f| word(f, "severity") == "advice"), "{report:#}");
        assert!(small.iter().filter(|f| word(f, "code") == "S001").count() == 3, "{report:#}");
        assert!(
            small.iter().all(|f| f["fix"]["commands"].as_array().is_none_or(Vec::is_empty)),
            "{report:#}"
        );
    }
}

#[test]
fn what_a_board_boots_from_is_only_advice() {
    if !present(&["sfdisk", "mkfs.fat"]) {
        return;
    }
    // Raspberry Pi OS has used both starts, and clusters of 512 and 2048 bytes.
    let linux = "start=200000, size=40000, type=83\n";
    let (fat, ext4) = ("mkfs.fat -F 32 -s 1 -n bootfs FS", "mkfs.ext4 -q -F -b 1024 -L boot FS");
    let cases = [
        (8192, "c", linux, fat, true),
        (8193, "c", linux, fat, true),
        (63, "b", linux, "mkfs.fat -F 16 -s 4 -n RASPIFIRM FS", true),
        (63, "e", linux, "mkfs.fat -F 16 -s 4 -n system-boot FS", true),
        (63, "c, bootable", linux, "mkfs.fat -F 32 -n LIBREELEC FS", true),
        // Photos and a partition of Linux on one card.
        (63, "c", linux, "mkfs.fat -F 32 -n PHOTOS FS", false),
        (63, "c", linux, "mkfs.fat -F 32 FS", false),
        // A camera's card, a data partition, a FAT after a Linux partition, and a partition without FAT.
        (63, "c", "", fat, false),
        (63, "c", "start=200000, size=40000, type=7\n", fat, false),
        (8193, "c", "start=2048, size=4096, type=83\n", fat, false),
        (8193, "c", linux, ext4, false),
        (8193, "83", linux, fat, false),
    ];
    at_once(cases, |(start, kind, other, make, boots)| {
        let dir = Dir::new("board");
        let image = dir.image("disk.img", 128 << 20);
        write_table(&image, 512, &format!("label: dos\nstart={start}, size=131072, type={kind}\n{other}"));
        put(&dir, &image, make, start, 131_072);
        let report = tools::check(&image, &ARGS);
        let of = |f: &&Value| f["partition"] == 1 && word(f, "severity") != "advice";
        assert_eq!(
            list(&report, "findings").iter().find(of).is_none(),
            boots,
            "{start} {kind} {make} {report:#}"
        );
    });
}

/// Writes an MBR of two partitions (type, first sector, sectors), even one that no tool would write.
fn mbr(image: &Path, entries: [(u8, u32, u32); 2]) {
    let file = OpenOptions::new().write(true).open(image).unwrap();
    for (at, (kind, start, sectors)) in (446..).step_by(16).zip(entries) {
        let mut entry = [0; 16];
        entry[4] = kind;
        entry[8..12].copy_from_slice(&start.to_le_bytes());
        entry[12..].copy_from_slice(&sectors.to_le_bytes());
        file.write_all_at(&entry, at).unwrap();
    }
    file.write_all_at(&[0x55, 0xAA], 510).unwrap();
}

#[test]
fn an_iso_that_is_a_disk_is_left_alone() {
    if !present(&["genisoimage", "sgdisk", "mkfs.fat"]) {
        return;
    }
    let dir = Dir::new("iso");
    shell(
        "mkdir files && dd if=/dev/urandom of=files/a bs=1M count=8 status=none && genisoimage -quiet -o a.iso files",
        dir.path(),
    );
    let image = dir.join("a.iso");
    let sectors = u32::try_from(std::fs::metadata(&image).unwrap().len() / 512).unwrap();
    // As Debian and Fedora do: one partition covers everything, and the EFI system partition is a window in
    // it.
    mbr(&image, [(0x17, 0, sectors), (0xEF, 4064, 4001)]);
    put(&dir, &image, "mkfs.fat -s 1 FS", 4064, 4001);
    let report = tools::check(&image, &ARGS);
    assert_eq!(list(&report, "partitions").len(), 2);
    for finding in list(&report, "findings") {
        assert_ne!(word(finding, "code"), "S041", "{finding}");
        assert_eq!(word(finding, "severity"), "advice", "{finding}");
        assert!(finding["fix"].is_null() || list(&finding["fix"], "commands").is_empty(), "{finding}");
    }
    // What lies behind the image, such as a partition for what persists, is written to.
    let behind = sectors.next_multiple_of(2048) + 1;
    run(Command::new("truncate").args(["-s", "64M"]).arg(&image), "");
    mbr(&image, [(0x17, 0, sectors), (0x83, behind, 40_000)]);
    let report = tools::check(&image, &ARGS);
    let of = |number: u64| {
        let mine = list(&report, "findings").iter().filter(move |f| f["partition"] == number);
        mine.map(|f| (word(f, "code"), word(f, "severity"))).collect::<Vec<_>>()
    };
    assert!(of(2).contains(&("S001".to_owned(), "error".to_owned())), "{report}");
    assert!(of(1).iter().all(|(_, severity)| severity == "advice"), "{report}");
    let refused = tools::transcript(&tools::straddle_in(&dir, &["realign", "a.iso"]));
    assert!(refused.contains("hybrid ISO 9660 image") && !refused.contains("both lists"), "{refused}");
    run(Command::new("truncate").arg("-s").arg((u64::from(sectors) * 512).to_string()).arg(&image), "");
    // As GRUB does: a GPT whose first partition is a gap.
    let options = ["-Z", "-o", "-a1", "-n", "1:64:4001", "-n", "2:4002:12001", "-t", "2:ef00"];
    run(Command::new("sgdisk").args(options).arg(&image), "");
    assert_eq!(judged(&image, "S001"), (vec!["advice".to_owned()], 0));
    // On a larger stick, the backup is not at the end.
    run(Command::new("truncate").args(["-s", "+8M"]).arg(&image), "");
    assert_eq!(judged(&image, "S034"), (vec!["advice".to_owned()], 0));
    // Remains of an ISO image behind a new table are not an ISO image.
    run(Command::new("sgdisk").args(["-o", "-a1", "-n", "1:2049:12001"]).arg(&image), "");
    assert_eq!(judged(&image, "S001"), (vec!["error".to_owned()], 1));
}

/// As Ubuntu's: an EFI system partition that is appended, and gaps that xorriso fills with partitions of their own.
#[test]
fn the_gaps_of_an_iso_are_left_alone() {
    if !present(&["xorriso", "mkfs.fat"]) {
        return;
    }
    let dir = Dir::new("gaps");
    shell(
        "mkdir iso && dd if=/dev/urandom of=iso/a bs=1M count=2 status=none && mkfs.fat -C iso/efi.img 2048 >/dev/null",
        dir.path(),
    );
    let mut gaps = 0;
    for pad in [0, 2, 4, 6] {
        shell(
            &format!(
                "head -c {pad}K /dev/zero >iso/pad && rm -f a.iso && xorriso -as mkisofs -quiet -o a.iso -eltorito-alt-boot \
                 -e efi.img -no-emul-boot -append_partition 2 0xef iso/efi.img -appended_part_as_gpt iso 2>/dev/null"
            ),
            dir.path(),
        );
        let report = tools::check(&dir.join("a.iso"), &ARGS);
        let ends =
            list(&report, "partitions").last().map(|last| !number(last, "start_bytes").is_multiple_of(4096));
        gaps += usize::from(list(&report, "partitions").len() == 3 && ends == Some(true));
        for finding in list(&report, "findings") {
            assert_eq!(word(finding, "severity"), "advice", "{pad}: {finding}");
        }
    }
    assert!(gaps > 0, "no gap is off a boundary");
}

#[test]
fn a_boot_sector_says_where_it_is() {
    if !present(&["sfdisk", "mkfs.fat", "mkfs.ntfs", "mkfs.exfat"]) {
        return;
    }
    let (active, idle) = (
        "label: dos\nstart=2048, size=40000, type=7, bootable\n",
        "label: dos\nstart=2048, size=40000, type=7\n",
    );
    let cases = [
        (active, "mkfs.ntfs -Q -q -F -p 63 FS", Some("warning")),
        (active, "mkfs.fat -s 8 -h 63 FS", Some("warning")),
        (idle, "mkfs.ntfs -Q -q -F -p 63 FS", Some("advice")),
        ("label: gpt\nstart=2048, size=40000\n", "mkfs.fat -s 8 -h 63 FS", Some("advice")),
        (active, "mkfs.ntfs -Q -q -F -p 2048 FS", None),
        (active, "mkfs.fat -s 8 -h 2048 FS", None),
        (active, "mkfs.fat -s 8 FS", None),
        (active, "mkfs.exfat FS", None),
        // DOS counts from the partition's own EBR.
        (
            "label: dos\nstart=1985, size=50000, type=5\nstart=2048, size=40000, type=7\n",
            "mkfs.fat -s 8 -h 63 FS",
            None,
        ),
    ];
    for (script, make, severity) in cases {
        let dir = Dir::new("hidden");
        let image = dir.image("disk.img", 64 << 20);
        write_table(&image, 512, script);
        put(&dir, &image, make, 2048, 40000);
        let expected: Vec<&str> = severity.into_iter().collect();
        assert_eq!(judged(&image, "S068").0, expected, "{script}{make}");
        if severity.is_none() {
            continue;
        }
        let report = tools::check(&image, &ARGS);
        let finding = list(&report, "findings").iter().find(|f| word(f, "code") == "S068").unwrap();
        for command in list(&finding["fix"], "commands") {
            shell(&word(command, "line"), dir.path());
        }
        assert!(judged(&image, "S068").0.is_empty(), "{script}{make}");
        let sector = tools::bytes(&image, 2048 * 512, 512);
        assert_eq!(sector[28..32], 2048_u32.to_le_bytes(), "{make}");
    }
}

/// A boot sector that records another start, as after a move by a program that does not change it, is evidence of the
/// table's sector size all the same.
#[test]
fn a_table_in_other_sectors_is_read_beside_a_stale_boot_sector() {
    if !present(&["sfdisk", "mkfs.fat", "mkfs.ntfs"]) {
        return;
    }
    // As a table in sectors of 4096 bytes, this one fits the disk too.
    let script = "label: dos\nstart=2048, size=40000, type=7\n";
    for make in ["mkfs.ntfs -Q -q -F -p 63 FS", "mkfs.fat -s 8 -h 63 FS", "mkfs.fat -F 32 -s 1 -h 63 FS"] {
        let dir = Dir::new("stale");
        let image = dir.image("disk.img", 512 << 20);
        write_table(&image, 512, script);
        put(&dir, &image, make, 2048, 40000);
        let report = tools::check(&image, &["--assume", "4kn"]);
        let found: Vec<String> = list(&report, "findings").iter().map(|f| word(f, "code")).collect();
        assert!(found.iter().any(|code| code == "S030"), "{make}: {report:#}");
        let finding = list(&report, "findings").iter().find(|f| word(f, "code") == "S030").unwrap();
        let summary = word(&finding["fix"], "summary");
        assert!(
            summary.contains("the table cannot be converted: partition 1 depends on 512-byte sectors"),
            "{make}: {summary}"
        );
        assert!(!found.iter().any(|code| code == "S061"), "{make}: one cause: {report:#}");
        let is_view = |command: &Value| word(command, "line").contains("losetup --find --show --read-only ");
        assert!(list(&finding["fix"], "commands").iter().all(is_view), "{make}: {finding}");
    }
}

/// A 40 MiB FAT, with 16 bits, or with 32 bits and one-sector clusters; and the offsets of its root directory
/// and of its first table.
fn fat(dir: &Dir, is_32: bool) -> (PathBuf, u64, u64) {
    let image = dir.image("fat.img", 40 << 20);
    let options: &[&str] = if is_32 { &["-F", "32", "-s", "1"] } else { &["-F", "16", "-s", "4"] };
    run(Command::new("mkfs.fat").args(options).args(["-n", "MKFS"]).arg(&image), "");
    let boot = tools::bytes(&image, 0, 512);
    let le16 = |at: usize| u64::from(boot[at]) | u64::from(boot[at + 1]) << 8;
    let sectors = if is_32 { le16(36) | le16(38) << 16 } else { le16(22) };
    let table = le16(14) * 512;
    (image, table + u64::from(boot[16]) * sectors * 512, table)
}

/// A directory entry with this name, attributes and first cluster.
fn entry(name: &[u8], attributes: u8, cluster: u16) -> Vec<u8> {
    let mut entry = vec![b' '; 11];
    entry[..name.len()].copy_from_slice(name);
    entry.resize(32, 0);
    entry[11] = attributes;
    entry[26..28].copy_from_slice(&cluster.to_le_bytes());
    entry
}

#[test]
fn labels_of_fat_are_what_blkid_reads() {
    if !present(&["mkfs.fat", "blkid"]) {
        return;
    }
    let file = || entry(b"FILE", 0x20, 9);
    let mut over: Vec<u8> = (0..16).flat_map(|_| file()).collect();
    over.extend(entry(b"SECOND", 0x08, 0));
    let roots: [(&str, Vec<u8>); 11] = [
        ("made", entry(b"MKFS", 0x08, 0)),
        ("only in the boot sector", file()),
        ("empty", vec![0; 32]),
        ("no name", entry(b"NO NAME", 0x08, 0)),
        ("blanks", entry(b"  A B", 0x08, 0)),
        ("0xE5 in Japanese", entry(b"\x05AB", 0x08, 0)),
        ("with content", entry(b"CONTENT", 0x08, 5)),
        ("archived", entry(b"ARCHIVED", 0x28, 0)),
        ("deleted, then another", [entry(b"\xE5LD", 0x08, 0), entry(b"NEW", 0x08, 0)].concat()),
        ("part of a long name", [entry(b"AL", 0x0F, 0), entry(b"DIR", 0x10, 7)].concat()),
        ("behind a cluster", over),
    ];
    for (what, root) in &roots {
        for is_32 in [false, true] {
            let dir = Dir::new("labels");
            let (image, at, table) = fat(&dir, is_32);
            let file = OpenOptions::new().write(true).open(&image).unwrap();
            if is_32 {
                // Cluster 2 is continued in cluster 3.
                file.write_all_at(&[3, 0, 0, 0, 0xFF, 0xFF, 0xFF, 0x0F], table + 8).unwrap();
            }
            file.write_all_at(root, at).unwrap();
            let output = tools::output(
                Command::new("blkid").args(["-p", "-s", "LABEL", "-o", "value"]).arg(&image),
                "",
            );
            let blkids = tools::text(&output.stdout).trim_end_matches('\n').to_owned();
            let ours = word(&tools::check(&image, &ARGS)["layer"], "name");
            assert_eq!(ours, blkids, "{what}, FAT32: {is_32}");
        }
    }
}

/// The disk of a virtual machine in a partition: its partitions count, and moves place it for them. The fix is judged
/// by sfdisk's reading of both tables.
#[test]
fn a_table_inside_a_partition_is_judged_by_its_partitions() {
    if !present(&["sfdisk", "mkfs.ext4"]) {
        return;
    }
    // Where the partition starts, where the one inside it does, and whether the data of both together are aligned.
    for (outer, inner, is_aligned) in [(2048, 63, false), (65, 63, true), (2048, 2048, true)] {
        let dir = Dir::new("nested");
        let image = dir.image("disk.img", 256 << 20);
        write_table(&image, 512, &format!("label: dos\nstart={outer}, size=400000, type=83\n"));
        let inside = dir.image("inner.img", 400_000 * 512);
        write_table(&inside, 512, &format!("label: dos\nstart={inner}, size=300000, type=83\n"));
        shell(&format!("mkfs.ext4 -q -F -b 4096 -E offset={} inner.img 150000k", inner * 512), dir.path());
        let dd = "dd if=inner.img of=disk.img conv=notrunc,sparse bs=1M oflag=seek_bytes status=none";
        shell(&format!("{dd} seek={}", outer * 512), dir.path());
        let what = format!("{outer} + {inner}");
        let (severities, status) = judged(&image, "S054");
        let errors = severities.iter().filter(|one| *one == "error").count();
        assert_eq!((errors, status), if is_aligned { (0, 0) } else { (1, 1) }, "{what}: {severities:?}");
        if is_aligned {
            continue;
        }
        for line in ["realign disk.img --save move.json", "apply move.json --write disk.img"] {
            shell(&format!("{STRADDLE} {line}"), dir.path());
        }
        assert_eq!(judged(&image, "S054").1, 0, "{what}, moved");
        let starts = |of: &str| -> u64 {
            let dump = run(Command::new("sfdisk").args(["-d", of]).current_dir(dir.path()), "");
            let start = dump.split("start=").nth(1).unwrap().trim_start().split(',').next().unwrap();
            start.trim().parse().unwrap()
        };
        let moved = starts("disk.img");
        shell(
            &format!(
                "dd if=disk.img of=moved.img bs=64K iflag=skip_bytes,count_bytes skip=$(({moved} * 512)) count=$((400000 * 512)) status=none"
            ),
            dir.path(),
        );
        assert_eq!((moved + starts("moved.img")) % 2048, 0, "{what}");
        shell("cmp moved.img inner.img", dir.path());
    }
}

/// Formatters of SD cards choose odd starts so that the clusters of a FAT are on boundaries: that is how they are judged, and
/// how they are moved. The first cluster is where the specification of FAT says: behind the reserved sectors, the tables
/// and the root directory.
#[test]
fn a_fat_is_judged_and_moved_by_its_clusters() {
    if !present(&["sfdisk", "mkfs.fat", "fsck.fat"]) {
        return;
    }
    let made = [
        (249, 280_000, "-F 16 -s 64 -R 1"),
        (129, 140_000, "-F 16 -s 32 -R 1"),
        (63, 540_000, "-F 32 -s 8 -R 35"),
        (63, 540_000, "-F 32 -s 8 -R 32"),
        (63, 540_000, "-F 32 -s 8 -R 33"),
        // Clusters of 2 KiB.
        (249, 270_000, "-F 32 -s 4 -R 15"),
        (249, 270_000, "-F 32 -s 4 -R 32"),
        (249, 200_000, "-F 16 -s 4 -R 13"),
    ];
    let mut seen = [0; 2];
    for (start, sectors, how) in made {
        let dir = Dir::new("fat");
        let image = dir.image("disk.img", 512 << 20);
        write_table(&image, 512, &format!("label: dos\nstart={start}, size={sectors}, type=c\n"));
        let line = format!("truncate -s {} fs && mkfs.fat -a {how} -h {start} fs", sectors * 512);
        tools::shell(
            &format!(
                "{line} && dd if=fs of=disk.img bs=64K oflag=seek_bytes seek=$(({start} * 512)) conv=notrunc,sparse status=none"
            ),
            dir.path(),
        );
        let first_cluster = |image: &std::path::Path, start: u64| {
            let mut bytes = [0; 512];
            std::fs::File::open(image).unwrap().read_exact_at(&mut bytes, start * 512).unwrap();
            let le = |offset: usize, len: usize| {
                bytes[offset..][..len].iter().rev().fold(0_u64, |all, byte| all << 8 | u64::from(*byte))
            };
            let per_fat = if le(22, 2) == 0 { le(36, 4) } else { le(22, 2) };
            let behind = le(14, 2) + le(16, 1) * per_fat + (le(17, 2) * 32).div_ceil(512);
            (start + behind, behind.is_multiple_of(le(13, 1)) && le(13, 1) < 8, le(13, 1).min(8))
        };
        // Small clusters fill the sectors if the start is on one.
        let (first, fills, unit) = first_cluster(&image, start);
        let is_on = if fills { start.is_multiple_of(8) } else { first.is_multiple_of(unit) };
        let report = tools::check(&image, &[]);
        let errors = |report: &Value| {
            let all = list(report, "findings").iter();
            all.filter(|one| one["severity"] == "error").map(|one| word(one, "code")).collect::<Vec<_>>()
        };
        assert_eq!(errors(&report).is_empty(), is_on, "{how} at {start}: {report:#}");
        seen[usize::from(is_on)] += 1;
        if is_on {
            let plan = tools::straddle_in(&dir, &["realign", "disk.img"]);
            assert!(tools::transcript(&plan).contains("nothing to do"), "{}", tools::transcript(&plan));
            continue;
        }
        let line = "straddle realign disk.img --save m.json && straddle apply m.json --write disk.img";
        tools::shell(&tools::pasted(line), dir.path());
        let report = tools::check(&image, &[]);
        assert!(errors(&report).is_empty(), "{how} at {start}: {report:#}");
        let moved = number(&list(&report, "partitions")[0], "start_lba");
        let first = if fills { moved } else { first_cluster(&image, moved).0 };
        assert!(first.is_multiple_of(8), "{how} at {start}, moved to {moved}");
        tools::shell(
            &format!(
                "dd if=disk.img of=after bs=64K iflag=skip_bytes,count_bytes skip=$(({moved} * 512)) \
                 count=$(({sectors} * 512)) conv=sparse status=none && fsck.fat -n after"
            ),
            dir.path(),
        );
    }
    assert!(seen.iter().all(|count| *count > 0), "{seen:?}");
}
