//! straddle compared with parted and sfdisk on image files: the same starts, the same tables.
//!
//! parted cannot know what an image is meant for. It treats every file as a disk with 512-byte physical
//! sectors and no preferred size, so only these verdicts can be compared:
//!
//! - `align-check opt` requires 1 MiB: this equals "neither S001 nor S008", whatever drive the image is
//!   assumed to be for.
//! - `align-check min` requires one sector and calls every start "aligned": this equals "no S001" for 512n.
//!
//! The results differ on purpose for `--assume 512e`: straddle finds S001, and `min` cannot see it.

use crate::tools;

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use tools::{Dir, check, codes, list, number, present, run, word, write_table};

/// The starts that are judged, in sectors: around the DOS track, and around 1 MiB.
fn starts() -> Vec<u64> {
    (34..=72).chain([2048, 2049, 4096]).collect()
}

/// A GPT of one-sector partitions at `starts`, with the smallest possible header area.
fn image_of_starts(dir: &Dir, starts: &[u64]) -> std::path::PathBuf {
    let image = dir.image("starts.img", 8 << 20);
    let lines: String = starts.iter().map(|start| format!("start={start}, size=1\n")).collect();
    write_table(&image, 512, &format!("label: gpt\nfirst-lba: 34\n{lines}"));
    image
}

/// Whether `parted -s IMAGE align-check KIND NUMBER` reports alignment.
fn parted_says_aligned(image: &Path, kind: &str, number: u64) -> bool {
    let command = &mut Command::new("parted");
    let output =
        tools::output(command.arg("-s").arg(image).args(["align-check", kind, &number.to_string()]), "");
    // The exit status alone would not distinguish "not aligned" from "no such partition".
    assert!(output.stderr.is_empty(), "{command:?}\n{}", tools::transcript(&output));
    output.status.success()
}

#[test]
fn starts_are_judged_as_parted_judges_them() {
    if !present(&["sfdisk", "parted"]) {
        return;
    }
    let dir = Dir::new("parity");
    let starts = starts();
    let image = image_of_starts(&dir, &starts);
    let emulating = codes(&check(&image, &["--assume", "512e"]));
    let native = codes(&check(&image, &["--assume", "512n"]));
    let mut only_ours = Vec::new();
    for (number, start) in (1..).zip(&starts) {
        let (emulating, native) = (&emulating[&number], &native[&number]);
        let optimal = parted_says_aligned(&image, "opt", number);
        for found in [emulating, native] {
            let ours = !found.contains("S001") && !found.contains("S008");
            assert_eq!(ours, optimal, "start {start}: parted opt {optimal}, we {found:?}");
        }
        let minimal = parted_says_aligned(&image, "min", number);
        assert_eq!(!native.contains("S001"), minimal, "start {start}: parted min {minimal}, we {native:?}");
        assert_eq!(emulating.contains("S001"), start % 8 != 0, "start {start}: {emulating:?}");
        if minimal && emulating.contains("S001") {
            only_ours.push(start);
        }
    }
    // The intended difference: every start off 4096 bytes, if the image is declared to be for a 512e drive.
    assert_eq!(only_ours.len(), starts.iter().filter(|start| **start % 8 != 0).count());
    assert!(only_ours.contains(&&63));
}

#[test]
fn a_phase_is_ours_alone() {
    if !present(&["sfdisk", "parted"]) {
        return;
    }
    // On a drive whose first physical sector boundary is at sector 7, sector 63 is aligned and 2048 is not.
    // parted on a file cannot know this, and reports the opposite for both.
    let dir = Dir::new("phase");
    let image = image_of_starts(&dir, &[63, 2048]);
    let found = codes(&check(&image, &["--assume", "physical=4096,offset=3584"]));
    let straddles: Vec<bool> = found.values().map(|codes| codes.contains("S001")).collect();
    assert_eq!(straddles, [false, true], "{found:?}");
    assert_eq!([1, 2].map(|number| parted_says_aligned(&image, "opt", number)), [false, true]);
}

/// A partition as a tool lists it: number, start, sectors, type, name and UUID.
type Row = (u64, u64, u64, String, String, String);

fn listed_by_us(image: &Path) -> BTreeSet<Row> {
    let report = check(image, &[]);
    list(&report, "partitions")
        .iter()
        .map(|p| {
            let (first, count) = (number(p, "start_lba"), number(p, "sectors"));
            (number(p, "number"), first, count, word(p, "type"), word(p, "name"), word(p, "uuid"))
        })
        .collect()
}

fn listed_by_tool(image: &Path, block: u64) -> BTreeSet<Row> {
    let (_, partitions) = tools::table(image, block);
    partitions
        .iter()
        .map(|(&partition, p)| {
            let (first, count) = (number(p, "start"), number(p, "size"));
            (partition, first, count, word(p, "type"), word(p, "name"), word(p, "uuid"))
        })
        .collect()
}

/// Asserts that straddle lists the same `count` partitions as sfdisk (fdisk for 4096-byte sectors).
fn same_list(image: &Path, block: u64, count: usize) {
    let (ours, theirs) = (listed_by_us(image), listed_by_tool(image, block));
    assert_eq!(ours, theirs, "{}", image.display());
    assert_eq!(ours.len(), count, "{ours:?}");
}

/// Three partitions with a gap in their numbers, in units of `unit` sectors (64 KiB).
fn gpt_script(unit: u64) -> String {
    let at = |n: u64| n * unit;
    format!(
        "label: gpt\n\
         1 : start={}, size={}, type=C12A7328-F81F-11D2-BA4B-00A0C93EC93B, name=\"EFI system\"\n\
         2 : start={}, size={}, type=E6D6D379-F507-44C2-A23C-238F2A3DF928, name=\"größe: 'zwei'\"\n\
         5 : start={}, size={}, uuid=12345678-9ABC-4DEF-8123-456789ABCDEF\n",
        at(16),
        at(4),
        at(32),
        at(7) + 3,
        at(64) + 1,
        at(8)
    )
}

#[test]
fn tables_by_sfdisk_are_listed_alike() {
    if !present(&["sfdisk", "fdisk"]) {
        return;
    }
    let dir = Dir::new("sfdisk");
    for block in [512, 4096] {
        let image = dir.image("gpt.img", 16 << 20);
        write_table(&image, block, &gpt_script(65536 / block));
        same_list(&image, block, 3);
    }
    let image = dir.image("mbr.img", 16 << 20);
    let script = "label: dos\n1 : start=63, size=1985, type=7, bootable\n2 : start=4096, size=20000, type=f\n\
                  4 : start=26000, size=1000, type=ef\n5 : start=4159, size=1000, type=82\n\
                  6 : start=6144, size=2048\n7 : start=10241, size=777, type=8e\n";
    write_table(&image, 512, script);
    same_list(&image, 512, 6);
}

#[test]
fn tables_by_sgdisk_are_listed_alike() {
    if !present(&["sfdisk", "sgdisk"]) {
        return;
    }
    let dir = Dir::new("sgdisk");
    let image = dir.image("gpt.img", 16 << 20);
    let args = "-a 1 -n 1:63:+1000 -t 1:8300 -n 3:4096:8191 -t 3:8e00 -n 2:9000:9000 -t 2:ef02 -A 3:set:2";
    run(Command::new("sgdisk").args(args.split(' ')).args(["-c", "1:it's a \"name\""]).arg(&image), "");
    same_list(&image, 512, 3);
    run(Command::new("sgdisk").args(["-h", "1:3"]).arg(&image), "");
    assert_eq!(check(&image, &[])["table"]["format"], "hybrid");
    same_list(&image, 512, 3);
}

#[test]
fn tables_by_parted_are_listed_alike() {
    if !present(&["sfdisk", "fdisk", "parted"]) {
        return;
    }
    let dir = Dir::new("parted");
    for block in [512, 4096] {
        let image = dir.image("gpt.img", 16 << 20);
        let args =
            "mklabel gpt mkpart first 1MiB 2MiB mkpart second 3000000B 4999999B mkpart third 6MiB 100%";
        let size = block.to_string();
        let parted = &mut Command::new("parted");
        run(parted.env("PARTED_SECTOR_SIZE", size).arg("-s").arg(&image).args(args.split(' ')), "");
        same_list(&image, block, 3);
    }
    let image = dir.image("mbr.img", 16 << 20);
    let args = "mklabel msdos mkpart primary 63s 2000s mkpart extended 1MiB 100% mkpart logical 2MiB 3MiB \
                mkpart logical 4MiB 5MiB set 1 boot on set 5 lvm on";
    run(Command::new("parted").arg("-s").args(["-a", "none"]).arg(&image).args(args.split_whitespace()), "");
    same_list(&image, 512, 4);
}
