//! Every printed block of commands is pasted as a whole, as users do, onto a copy of a disk with file
//! systems: none of them is lost, and the file system's checker finds no error.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use crate::tools;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{LazyLock, Mutex};

use serde_json::Value;
use tools::skip::{cases, is_sampled};
use tools::{
    Contents, Dir, at_once, list, number, output, present, run, shell, transcript, word, write_table,
};

const ARGS: [&str; 2] = ["--assume", "512e"];

const IMAGE: u64 = 64 << 20;

/// The end of the image, in sectors.
const END: u64 = IMAGE / 512;

/// Tables: the script before partition 1, that partition's first sector and size, and the rest of the script.
const TABLES: [(&str, u64, u64, &str); 11] = [
    // Windows XP: the whole disk, up to the end of its last cylinder.
    ("label: dos\n", 63, END - 63, ", type=7, bootable\n"),
    ("label: dos\n", 63, END - 64, ", type=7, bootable\n"),
    // With free space behind the partition, and with a neighbour directly behind it.
    ("label: dos\n", 63, 100_000, ", type=7, bootable\n"),
    ("label: dos\n", 63, 100_003, ", type=7, bootable\n"),
    ("label: dos\n", 63, 100_001, ", type=7, bootable\nstart=100064, size=1000, type=83\n"),
    ("label: gpt\nfirst-lba: 34\n", 34, END - 34 - 33, "\n"),
    // sgdisk's partition over the whole disk; and over a part, where sfdisk can grow it.
    ("label: gpt\n", 2048, END - 2048 - 33, "\n"),
    ("label: gpt\nfirst-lba: 34\n", 34, 100_000, "\n"),
    ("label: gpt\n", 2048, 100_003, "\n"),
    ("label: dos\n", 2049, 100_003, ", type=83\nstart=102052, size=1000, type=83\n"),
    ("label: dos\n", 2048, 100_000, ", type=7, bootable\n"),
];

/// File systems: the command that makes one in FS at sector START, the programs that it needs, and the
/// command that checks it.
const FILE_SYSTEMS: [(&str, &[&str], &str); 10] = [
    ("mkfs.ext4 -q -F -b 1024 -d files FS", &["mkfs.ext4", "e2fsck", "debugfs"], "e2fsck -fn FS"),
    ("mkfs.ext4 -q -F -b 4096 -d files FS", &["mkfs.ext4", "e2fsck", "debugfs"], "e2fsck -fn FS"),
    (
        "mkfs.ntfs -Q -q -F -p START -H 255 -S 63 FS && ntfscp -f FS files/content content",
        &["mkfs.ntfs"],
        NTFS,
    ),
    // The state after a move that was not recorded in the boot sector.
    ("mkfs.ntfs -Q -q -F -p 77 -H 255 -S 63 FS && ntfscp -f FS files/content content", &["mkfs.ntfs"], NTFS),
    // ntfsresize puts the copy of the boot sector elsewhere than mkfs does. ntfsfix looks for it in the last
    // sector, so if that is a different one, another copy is put there.
    (
        "s=$(stat -c %s FS) && truncate -s +16K FS && mkfs.ntfs -Q -q -F -p 77 -H 255 -S 63 FS && \
         ntfscp -f FS files/content content && { yes | ntfsresize -f --size $((s / 4096 * 4096)) FS >&2; } && \
         truncate -s $((s / 4096 * 4096)) FS && tail -c 512 FS >copy && truncate -s $s FS && \
         dd if=copy of=FS bs=512 seek=$((s / 512 - 1)) conv=notrunc status=none",
        &["mkfs.ntfs"],
        NTFS,
    ),
    // In a partition that was enlarged afterwards.
    (
        "s=$(stat -c %s FS) && truncate -s $((s / 4096 * 4096)) FS && echo secret | cryptsetup luksFormat -q --type luks2 \
         --sector-size 4096 --pbkdf pbkdf2 --pbkdf-force-iterations 1000 FS - && truncate -s $s FS && \
         head -c $((s - 16777216)) /dev/urandom | dd of=FS bs=1M seek=16 conv=notrunc status=none",
        &["cryptsetup"],
        "echo secret | cryptsetup open --test-passphrase --key-file - FS",
    ),
    ("mkfs.fat -F 32 -s 1 -h START FS", &["mkfs.fat"], "fsck.fat -n FS"),
    ("mkfs.fat -F 32 -s 1 -h 77 FS", &["mkfs.fat"], "fsck.fat -n FS"),
    ("mkfs.exfat FS", &["mkfs.exfat"], "fsck.exfat -n FS"),
    ("mkswap -q FS", &["mkswap"], "true"),
];

/// ntfsfix compares the boot sector with its copy, but reports the result only as text.
const NTFS: &str = "ntfsfix -n FS >said && grep -q 'alternate boot sector... OK' said";

/// A disk with a file system in partition 1.
struct Disk {
    dir: Dir,
    image: PathBuf,
    what: String,
}

impl Disk {
    fn build(table: (&str, u64, u64, &str), make: &str) -> Self {
        let (label, start, sectors, rest) = table;
        let dir = Dir::new("pasted");
        let image = dir.image("disk.img", IMAGE);
        write_table(&image, 512, &format!("{label}start={start}, size={sectors}{rest}"));
        fs::create_dir(dir.join("files")).unwrap();
        fs::write(dir.join("files/content"), content()).unwrap();
        dir.image("fs.img", sectors * 512);
        let line = make.replace("FS", "fs.img").replace("START", &start.to_string());
        shell(&line, dir.path());
        copy_in(&dir.join("fs.img"), &image, start);
        Self { dir, image, what: format!("{start}+{sectors}, {line}") }
    }

    /// Pastes `lines` into a shell on a copy of the disk, and then again, like a user who is not sure that it
    /// worked.
    fn paste(&self, lines: &[String], has_device: bool) -> (PathBuf, String) {
        let copy = self.dir.join("copy.img");
        run(Command::new("cp").arg("--sparse=always").arg(&self.image).arg(&copy), "");
        let said: Vec<String> = (0..2).map(|_| self.give(lines, &copy, has_device)).collect();
        (copy, format!("{}\n{}", self.what, said.join("\nonce more\n")))
    }

    /// Runs `lines` in a shell. If `has_device`, DEVICE is replaced by a copy of the partition, as by the user.
    fn give(&self, lines: &[String], copy: &Path, has_device: bool) -> String {
        let mut pasted = lines.join("\n").replace(&*self.image.to_string_lossy(), &copy.to_string_lossy());
        if has_device && pasted.contains("DEVICE") {
            let start = place(copy).0;
            extract(copy, &self.dir.join("device.img"));
            // This stands in for the partition's device node: what a tool changes in the copy is written back
            // to the disk.
            let back = format!(
                " && dd if=device.img of={} bs=1M oflag=seek_bytes seek={} conv=notrunc status=none && echo",
                copy.display(),
                start * 512
            );
            pasted = pasted.replacen(" && echo", &back, 1).replace("DEVICE", "device.img");
        }
        let said = output(
            Command::new("bash").args(["-c", &tools::pasted(&pasted)]).current_dir(self.dir.path()),
            "y\n",
        );
        format!("{pasted}\n{}", transcript(&said))
    }

    /// Asserts that the file system in the copy is unchanged: all its bytes or, if it was shrunk, its file.
    fn is_whole(&self, copy: &Path, check: &str, said: &str) {
        let (_, old_len) = place(&self.image);
        let (start, len) = place(copy);
        let found = list(&tools::check(copy, &ARGS), "partitions")[0]["content"].clone();
        let was = list(&tools::check(&self.image, &ARGS), "partitions")[0]["content"].clone();
        assert_eq!(found, was, "{said}");
        let (whole, part) = (self.dir.join("fs.img"), self.dir.join("after.img"));
        extract(copy, &part);
        let output = output(
            Command::new("sh").args(["-c", &check.replace("FS", "after.img")]).current_dir(self.dir.path()),
            "",
        );
        assert!(output.status.success(), "{said}\n{}", transcript(&output));
        let same = |sectors: u64| {
            Contents::part(&whole, 0, sectors * 512) == Contents::part(&part, 0, sectors * 512)
        };
        // LUKS with larger sectors uses every whole sector, and cryptsetup opens it only with a whole number
        // of them.
        if was == "crypto_LUKS" {
            let used = old_len / 8 * 8;
            assert!(len >= used && len.is_multiple_of(8), "{len} of {old_len}: {said}");
            assert!(same(used), "{start}: {said}");
            return;
        }
        // A swap that is made again records its size: only what it is found by stays.
        if was == "swap" {
            return;
        }
        // A command may have changed the number of hidden sectors.
        let is_recorded = ["ntfs", "vfat", "exfat"].iter().any(|name| was == *name);
        let is_changed = said.contains("printf") || (is_recorded && said.contains("straddle realign"));
        if len >= old_len && !is_changed {
            assert!(same(old_len), "{start}: {said}");
        }
        let read = match was.as_str().unwrap_or_default() {
            "ext4" => "debugfs -R 'dump /content read' after.img",
            "ntfs" => "ntfscat -f after.img content > read",
            _ => return,
        };
        shell(read, self.dir.path());
        assert!(fs::read(self.dir.join("read")).unwrap() == content(), "{said}");
    }
}

/// The contents of the test file.
fn content() -> &'static [u8] {
    static BYTES: LazyLock<Vec<u8>> = LazyLock::new(|| (0_u32..500_000).flat_map(u32::to_le_bytes).collect());
    &BYTES
}

fn copy_in(from: &Path, to: &Path, sector: u64) {
    let dd = ["conv=notrunc,sparse", "bs=1M", "oflag=seek_bytes", "status=none"].map(str::to_owned);
    let seek = format!("seek={}", sector * 512);
    let of = [format!("if={}", from.display()), format!("of={}", to.display()), seek];
    run(Command::new("dd").args(dd).args(of), "");
}

/// First sector and number of sectors of partition 1.
fn place(image: &Path) -> (u64, u64) {
    let report = tools::check(image, &ARGS);
    let partition = list(&report, "partitions").iter().find(|p| p["number"] == 1).unwrap();
    (number(partition, "start_lba"), number(partition, "sectors"))
}

/// Copies partition 1 into a file.
fn extract(image: &Path, to: &Path) {
    let (start, sectors) = place(image);
    Contents::part(image, start * 512, sectors * 512).write(to);
}

/// The blocks of commands in a report, each with its risk.
fn blocks(report: &Value) -> Vec<(String, Vec<String>)> {
    let mut blocks = Vec::new();
    let fixes =
        list(report, "findings").iter().flat_map(|finding| [&finding["fix"], &finding["alternative"]]);
    for fix in fixes.filter(|fix| fix.is_object()) {
        let commands = fix["commands"].as_array().into_iter().flatten();
        let lines: Vec<String> = commands.map(|command| word(command, "line")).collect();
        let block = (word(fix, "risk"), lines);
        if !block.1.is_empty() && !blocks.contains(&block) {
            blocks.push(block);
        }
    }
    blocks
}

/// Asserts that a finding that follows from another has no fix, that the other one is present and has one,
/// and that no fix names bytes that another fix moves. Returns the number of findings that follow from
/// others.
fn is_one_fix_for_one_cause(report: &Value) -> usize {
    let findings = list(report, "findings");
    let following: Vec<&Value> = findings.iter().filter(|f| f["follows"].is_array()).collect();
    for finding in &following {
        assert!(finding["fix"].is_null(), "{finding:#}");
        for cause in list(finding, "follows") {
            let is_cause = |f: &&Value| f["code"] == cause["code"] && f["partition"] == cause["partition"];
            let cause = findings.iter().find(is_cause).unwrap_or_else(|| panic!("{finding:#}"));
            assert!(!cause["fix"].is_null() && cause["follows"].is_null(), "{cause:#}");
        }
    }
    let lines: Vec<String> = blocks(report).into_iter().flat_map(|(_, lines)| lines).collect();
    let has = |word: &str| lines.iter().any(|line| line.contains(word));
    assert!(!((has("start=") || has("straddle realign")) && has("printf")), "{lines:#?}");
    following.len()
}

/// How often each case occurred.
#[derive(Default)]
struct Counts {
    realigned: usize,
    copied: usize,
    shrunk: usize,
    written: usize,
    following: usize,
}

impl Counts {
    fn add(&mut self, other: &Self) {
        self.realigned += other.realigned;
        self.copied += other.copied;
        self.shrunk += other.shrunk;
        self.written += other.written;
        self.following += other.following;
    }
}

/// Pastes every block of commands printed for `disk`, and checks its file system with `check`.
fn paste_all(disk: &Disk, check: &str) -> Counts {
    let report = tools::check(&disk.image, &ARGS);
    let mut counts = Counts { following: is_one_fix_for_one_cause(&report), ..Counts::default() };
    for (risk, lines) in blocks(&report) {
        let all = lines.join("\n");
        // These announce in capitals that all data is lost; tests/fixes.rs checks that. A loop device only shows the
        // same bytes; tests/stack_verdicts.rs makes it.
        if risk == "destroys" || all.starts_with("losetup ") {
            continue;
        }
        counts.realigned += usize::from(all.contains("straddle realign"));
        counts.written += usize::from(all.contains("printf"));
        // Without a DEVICE in the commands, both variants are the same.
        let asks = all.contains("DEVICE");
        for has_device in [false, true].into_iter().take(if asks { 2 } else { 1 }) {
            let (mut copy, said) = disk.paste(&lines, has_device);
            if all.contains(" --to NEW") {
                // The disk is as it was.
                disk.is_whole(&copy, check, &said);
                copy = disk.dir.join("new.img");
                fs::rename(disk.dir.join("NEW"), &copy).unwrap();
                counts.copied += 1;
            }
            disk.is_whole(&copy, check, &said);
            if has_device || !asks {
                let left: Vec<_> = blocks(&tools::check(&copy, &ARGS));
                assert!(!left.iter().any(|(_, other)| *other == lines), "{said}\nis no fix");
            }
            counts.shrunk += usize::from(has_device);
        }
    }
    counts
}

#[test]
fn no_block_that_is_pasted_whole_loses_a_file_system() {
    if !present(&[
        "sfdisk",
        "sgdisk",
        "dd",
        "ntfsresize",
        "ntfscat",
        "ntfsfix",
        "fsck.fat",
        "fsck.exfat",
        "resize2fs",
    ]) {
        return;
    }
    // ext4 and NTFS are shrunk; for the others, a few of the tables are enough.
    let is_shrunk = |make: &str| make.contains("ext4") || make.contains("-p START");
    let systems = FILE_SYSTEMS.into_iter().filter(|(_, needed, _)| present(needed));
    let disks = systems.flat_map(|(make, _, check)| {
        let tables = TABLES.into_iter().step_by(if is_shrunk(make) { 1 } else { 2 });
        tables.map(move |table| (table, make, check))
    });
    let counts = Mutex::new(Counts::default());
    at_once(cases(disks, 5), |(table, make, check)| {
        let found = paste_all(&Disk::build(table, make), check);
        counts.lock().unwrap().add(&found);
    });
    let Counts { realigned, copied, shrunk, written, following } = counts.into_inner().unwrap();
    println!("realigned {realigned}, copied {copied}, shrunk {shrunk}, hidden sectors written {written}");
    let least = if is_sampled() { 1 } else { 4 };
    assert!(shrunk >= least && following >= 2 * least + 2, "{shrunk} {following}");
    assert!(realigned >= 2 * least + 2 && copied > 0, "{realigned} {copied}");
    assert!(written >= (least / 2).max(1), "{written}");
}

/// A disk with an ext4, and bytes that no partition lists a few sectors before and behind it.
fn with_unlisted(label: &str, start: u64, distance: u64) -> (Disk, Vec<u64>) {
    let sectors = 40_000;
    let table = if label == "hybrid" { "gpt" } else { label };
    let rest = if label == "dos" { ", type=83\n" } else { "\n" };
    let make = "mkfs.ext4 -q -F -b 4096 -d files FS";
    let first = format!("label: {table}\n{}", if table == "gpt" { "first-lba: 34\n" } else { "" });
    let disk = Disk::build((&first, start, sectors, rest), make);
    if label == "hybrid" {
        run(Command::new("sgdisk").args(["-h", "1:EE"]).arg(&disk.image), "");
    }
    let before = start.checked_sub(distance + 2).filter(|sector| *sector >= 40);
    let places: Vec<u64> = before.into_iter().chain([start + sectors + distance]).collect();
    let file = fs::OpenOptions::new().write(true).open(&disk.image).unwrap();
    for sector in &places {
        std::os::unix::fs::FileExt::write_all_at(&file, &[0x5A; 1024], sector * 512).unwrap();
    }
    (disk, places)
}

#[test]
fn no_block_overwrites_what_no_partition_lists() {
    if !present(&["sfdisk", "sgdisk", "dd", "mkfs.ext4", "e2fsck", "debugfs"]) {
        return;
    }
    let disks = ["dos", "gpt", "hybrid"].into_iter().flat_map(|label| {
        let starts = [63, 2049, 4100, 20_481].into_iter();
        starts.flat_map(move |start| [0, 3, 100, 1500].map(|distance| (label, start, distance)))
    });
    let counts = AtomicUsize::new(0);
    at_once(cases(disks, 5), |(label, start, distance)| {
        let (disk, places) = with_unlisted(label, start, distance);
        let report = tools::check(&disk.image, &ARGS);
        for (_, lines) in blocks(&report).into_iter().filter(|(risk, _)| risk != "destroys") {
            let (copy, said) = disk.paste(&lines, false);
            for sector in &places {
                let bytes = &fs::read(&copy).unwrap()[usize::try_from(sector * 512).unwrap()..][..1024];
                assert!(bytes.iter().all(|byte| *byte == 0x5A), "sector {sector}, {label}: {said}");
            }
            disk.is_whole(&copy, "e2fsck -fn FS", &said);
            let _ = fs::remove_file(disk.dir.join("NEW"));
            counts.fetch_add(1, Ordering::Relaxed);
        }
    });
    let tried = counts.into_inner();
    assert!(tried > 2, "{tried}");
}
