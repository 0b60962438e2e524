//! A verdict follows from all findings, wherever they are reported: the same partition gets the same verdict
//! when it is checked alone, with its disk, in a run over all disks, and whatever `--only` and `--ignore`
//! leave out.

#![allow(clippy::unwrap_used, reason = "what these tests prepare works, or they fail")]

use crate::tools;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;
use tools::{Dir, STRADDLE, SYSFS_DISK, list, output, present, run, transcript, word, write_table};

/// The report of `check --json` on each target, by name, and the exit status.
fn check(args: &[&str]) -> (BTreeMap<String, Value>, i32) {
    let run = output(Command::new(STRADDLE).args(["check", "--json"]).args(args), "");
    let report: Value =
        serde_json::from_slice(&run.stdout).unwrap_or_else(|_| panic!("{}", transcript(&run)));
    let targets = list(&report, "targets").iter();
    (targets.map(|target| (word(target, "target"), target.clone())).collect(), run.status.code().unwrap())
}

/// The verdict on each partition, by number.
fn verdicts(target: &Value) -> BTreeMap<u64, String> {
    let partition = |p: &Value| (p["number"].as_u64().unwrap(), word(p, "verdict"));
    list(target, "partitions").iter().map(partition).collect()
}

fn codes(target: &Value) -> BTreeSet<String> {
    list(target, "findings").iter().map(|finding| word(finding, "code")).collect()
}

/// The status, and the kinds of findings that caused it.
fn judged(target: &Value) -> (String, String) {
    (word(target, "status"), target["kinds"].to_string())
}

/// Compares every filtered view of the targets of `args` with the full report; returns the number of views.
fn views_agree(args: &[&str]) -> usize {
    let (whole, _) = check(args);
    let mut views = 0;
    let mut asked: BTreeSet<String> = whole.values().flat_map(codes).collect();
    asked.extend(["S001", "S020", "S061"].map(str::to_owned));
    for code in &asked {
        for filter in ["--only", "--ignore"] {
            let (filtered, _) = check(&[args, &[filter, code]].concat());
            for (name, target) in &whole {
                let view = &filtered[name];
                assert_eq!(verdicts(view), verdicts(target), "{args:?} {filter} {code}: {name}");
                // Only what was asked for is reported.
                let wanted = |found: &String| (found == code) == (filter == "--only") || found == "S081";
                assert!(codes(view).iter().all(wanted), "{args:?} {filter} {code}: {name}: {view}");
                views += 1;
            }
        }
    }
    views
}

/// Compares each device and each partition of a tree, checked alone, with the run over all of them.
fn tree_agrees(sysroot: &Path) -> usize {
    let root = ["--sysroot", sysroot.to_str().unwrap()];
    let (whole, _) = check(&root);
    let mut views = views_agree(&root);
    for (name, target) in &whole {
        let (alone, _) = check(&[&root[..], &[name]].concat());
        assert_eq!(judged(&alone[name]), judged(target), "{sysroot:?}: {name} alone");
        assert_eq!(verdicts(&alone[name]), verdicts(target), "{sysroot:?}: {name} alone");
        views += 1;
        for (number, verdict) in verdicts(target) {
            let digit = name.ends_with(|c: char| c.is_ascii_digit());
            let part = format!("{name}{}{number}", if digit { "p" } else { "" });
            let (alone, _) = check(&[&root[..], &[&part]].concat());
            // Some trees list partitions but do not contain their directories.
            let Some(view) = alone.get(&part).filter(|view| word(view, "status") != "failed") else {
                continue;
            };
            assert_eq!(verdicts(view), [(number, verdict)].into(), "{sysroot:?}: {part}");
            views += 1;
        }
    }
    views
}

/// Writes attributes of a device in a made-up tree.
fn put(dir: &Path, attributes: &[(&str, &str)]) {
    for (name, value) in attributes {
        let file = dir.join(name);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, format!("{value}\n")).unwrap();
    }
}

/// A RAID1 of two partitions at different distances from a physical sector boundary, so that the kernel calls
/// it misaligned. On it is a mapping with a GPT whose one partition would be aligned on any other disk.
fn misaligned_array(dir: &Dir) -> PathBuf {
    let tree = dir.join("tree");
    let block = tree.join("sys/block");
    for (name, dev, part, start) in [("vda", "254:0", "254:1", "2048"), ("vdb", "254:16", "254:17", "2049")] {
        put(&block.join(name), &SYSFS_DISK);
        put(&block.join(name), &[("dev", dev)]);
        let of_part =
            [("partition", "1"), ("start", start), ("size", "65536"), ("dev", part), ("holders/md0", "")];
        put(&block.join(name).join(format!("{name}1")), &of_part);
    }
    put(&block.join("md0"), &SYSFS_DISK);
    put(
        &block.join("md0"),
        &[
            ("dev", "9:0"),
            ("alignment_offset", "-1"),
            ("slaves/vda1", ""),
            ("slaves/vdb1", ""),
            ("holders/dm-0", ""),
            ("md/level", "raid1"),
            ("md/raid_disks", "2"),
            ("md/chunk_size", "0"),
            ("md/metadata_version", "1.2"),
            ("md/dev-vda1/offset", "2048"),
            ("md/dev-vda1/slot", "0"),
            ("md/dev-vdb1/offset", "2048"),
            ("md/dev-vdb1/slot", "1"),
        ],
    );
    put(&block.join("dm-0"), &SYSFS_DISK);
    let mapping = [("dev", "253:0"), ("alignment_offset", "-1"), ("dm/name", "x"), ("slaves/md0", "")];
    put(&block.join("dm-0"), &mapping);
    fs::write(tree.join("dmsetup-table"), "x: 0 131072 linear 9:0 0\n").unwrap();
    fs::create_dir(tree.join("dev")).unwrap();
    let image = dir.image("tree/dev/dm-0", 64 << 20);
    write_table(&image, 512, "label: gpt\nstart=2048, size=4096\n");
    tree
}

#[test]
fn every_view_of_a_device_judges_it_the_same() {
    if !present(&["sfdisk"]) {
        return;
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/sysroots");
    let mut trees: Vec<PathBuf> =
        fs::read_dir(root).unwrap().map(|entry| entry.unwrap().path()).filter(|path| path.is_dir()).collect();
    let dir = Dir::new("views");
    let array = misaligned_array(&dir);
    trees.push(array.clone());
    let views: usize = trees.iter().map(|tree| tree_agrees(tree)).sum();
    println!("{views} views of {} trees", trees.len());
    // Whatever stands on a misaligned array is misaligned, wherever that is reported.
    let (whole, _) = check(&["--sysroot", array.to_str().unwrap()]);
    let (_, mapping) = whole.iter().find(|(name, _)| name.ends_with("dm-0")).unwrap();
    assert_eq!(judged(mapping), ("error".to_owned(), r#"["alignment"]"#.to_owned()), "{mapping}");
    assert_eq!(verdicts(mapping), [(1, "misaligned".to_owned())].into(), "{mapping}");
    assert!(codes(mapping).is_empty() && mapping["notes"].to_string().contains("S020 is reported for"));
}

/// Tables that are aligned, misaligned, and damaged, each with the verdicts on their partitions.
#[test]
fn a_filter_changes_no_verdict_on_an_image() {
    if !present(&["sfdisk", "mkfs.ext4", "mkfs.fat"]) {
        return;
    }
    let dir = Dir::new("filters");
    let script = |name: &str, script: &str| {
        let image = dir.image(name, 64 << 20);
        write_table(&image, 512, script);
        image
    };
    // In order: on the grain; straddling; misaligned at its end; off the grain only; and the old DOS start.
    script(
        "gpt",
        "label: gpt\nstart=2048, size=2048\nstart=4097, size=2047\nstart=6144, size=2001\nstart=8200, size=800\n",
    );
    // An odd end matters where something is that may use it.
    fs::OpenOptions::new()
        .write(true)
        .open(dir.join("gpt"))
        .unwrap()
        .write_all_at(b"data", 6144 * 512)
        .unwrap();
    script("dos", "label: dos\nstart=63, size=4000\nstart=8192, size=4096, type=5\nstart=8193, size=1000\n");
    let overlapping = script("overlapping", "label: dos\nstart=2048, size=4096\nstart=8192, size=4096\n");
    let file = fs::OpenOptions::new().write(true).open(&overlapping).unwrap();
    file.write_all_at(&4096_u32.to_le_bytes(), 446 + 16 + 8).unwrap();
    // A small block inside, a file system that was moved with its boot sector unchanged, and a blank disk.
    let small = script("small", "label: gpt\nstart=2048, size=40960\n");
    let moved = script("moved", "label: dos\nstart=2048, size=40960, type=c, bootable\n");
    for (image, make) in [(&small, "mkfs.ext4 -q -b 1024 fs"), (&moved, "mkfs.fat -h 63 fs >/dev/null")] {
        dir.image("fs", 40960 * 512);
        tools::shell(make, dir.path());
        let to = format!("of={}", image.display());
        run(
            Command::new("dd")
                .args(["if=fs", &to, "bs=512", "seek=2048", "conv=notrunc", "status=none"])
                .current_dir(dir.path()),
            "",
        );
    }
    dir.image("blank", 1 << 20);
    let mut seen = BTreeSet::new();
    for name in ["gpt", "dos", "overlapping", "small", "moved", "blank"] {
        let image = dir.join(name);
        let args = ["--assume", "512e", image.to_str().unwrap()];
        assert!(views_agree(&args) > 0);
        seen.extend(check(&args).0.values().flat_map(verdicts).map(|(_, verdict)| verdict));
    }
    let all = ["aligned", "advice", "end_off", "misaligned", "container", "damaged", "boot_sector"];
    assert_eq!(seen, all.map(str::to_owned).into());
    // The status depends on what is asked for: findings that are left out do not count.
    let image = dir.join("gpt");
    let args = ["--assume", "512e", image.to_str().unwrap()];
    for (filter, status) in
        [(&["--only", "S020"], 0), (&["--only", "S001"], 1), (&["--ignore", "S001,S002"], 0)]
    {
        assert_eq!(check(&[&args[..], filter].concat()).1, status, "{filter:?}");
    }
    let text = output(Command::new(STRADDLE).args(["check", "--only", "S020"]).args(args), "");
    assert!(transcript(&text).contains("512 bytes past a physical sector (S001)"), "{}", transcript(&text));
}

/// Pages that a power cut can tear are not called misaligned.
#[test]
fn pages_that_are_not_atomic_are_no_misalignment() {
    if !present(&["sfdisk", "mkfs.ext4"]) {
        return;
    }
    let dir = Dir::new("pages");
    let image = dir.image("disk", 64 << 20);
    write_table(&image, 512, "label: gpt\nstart=2048, size=40960\n");
    dir.image("fs", 40960 * 512);
    tools::shell(
        "mkfs.ext4 -q -b 4096 fs && dd if=fs of=disk bs=64K oflag=seek_bytes seek=$((2048 * 512)) conv=notrunc status=none",
        dir.path(),
    );
    let name = image.to_str().unwrap();
    let (found, status) = check(&["--assume", "512e", "--page", "16384", name]);
    let target = &found[name];
    assert_eq!(codes(target), ["S067".to_owned()].into(), "{target}");
    assert_eq!(judged(target), ("advice".to_owned(), r#"["atomic_writes"]"#.to_owned()), "{target}");
    assert_eq!((verdicts(target), status), ([(1, "aligned".to_owned())].into(), 0), "{target}");
}

/// A preloaded library that makes reads fail for files whose name begins with "eio".
const FAULTY: &str = r#"
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>
ssize_t pread64(int fd, void *to, size_t count, off64_t at) {
    char link[64], name[512];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t len = readlink(link, name, sizeof name - 1);
    name[len > 0 ? len : 0] = 0;
    if (strstr(name, "/eio") && at < 1060000 && at + (long)count > 1048576) {
        errno = EIO;
        return -1;
    }
    return syscall(SYS_pread64, fd, to, count, at);
}
"#;

/// An unreadable sector gives status 3 whatever is asked for, and its partition is never called aligned.
#[test]
fn what_cannot_be_read_is_reported_whatever_is_asked_for() {
    if !present(&["sfdisk", "cc"]) {
        return;
    }
    let dir = Dir::new("unread");
    let image = dir.image("eio.img", 64 << 20);
    write_table(&image, 512, "label: gpt\nstart=2048, size=4096\nstart=8192, size=4096\n");
    // A hole could not be unreadable.
    fs::OpenOptions::new().write(true).open(&image).unwrap().write_all_at(&[b'x'; 65_536], 1 << 20).unwrap();
    fs::write(dir.join("faulty.c"), FAULTY).unwrap();
    tools::shell("cc -shared -fPIC -o faulty.so faulty.c", dir.path());
    for args in
        [&[][..], &["--only", "S001"], &["--ignore", "S081"], &["--only", "S020", "--fail-on", "error"]]
    {
        let mut command = Command::new(STRADDLE);
        // LD_PRELOAD cannot contain a path with a blank.
        command.env("LD_PRELOAD", "faulty.so").env("LD_LIBRARY_PATH", dir.path());
        command.args(["check", "--json", "--assume", "512e"]);
        let run = output(command.args(args).arg(&image), "");
        let report: Value =
            serde_json::from_slice(&run.stdout).unwrap_or_else(|_| panic!("{}", transcript(&run)));
        let target = &report["targets"][0];
        assert_eq!(
            (run.status.code(), word(target, "status").as_str()),
            (Some(3), "error"),
            "{args:?} {target}"
        );
        let expected = [(1, "unreadable".to_owned()), (2, "aligned".to_owned())];
        assert_eq!(verdicts(target), expected.into(), "{args:?} {target}");
        assert!(codes(target).contains("S081"), "{args:?} {target}");
    }
}
