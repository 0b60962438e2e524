//! The status of a target: what is no disk is not judged, what is blank passes, and each status is called by what it is.

#![allow(clippy::unwrap_used, reason = "what these tests prepare works, or they fail")]

mod tools;

use std::fs;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::Command;

use serde_json::Value;
use tools::{Dir, STRADDLE, list, output, present, shell, told, word, write_table};

/// The answer of `check --json` on a file, with its exit status.
fn judged(dir: &Path, name: &str, args: &[&str]) -> (Value, i32) {
    let mut command = Command::new(STRADDLE);
    let run = output(command.args(["check", "--json", name]).args(args).current_dir(dir), "");
    let report: Value = serde_json::from_slice(&run.stdout).unwrap_or_else(|_| panic!("{}", told(&run)));
    (report["targets"][0].clone(), run.status.code().unwrap())
}

/// The same as text on stdout and stderr.
fn text(dir: &Path, name: &str, args: &[&str]) -> String {
    told(&output(Command::new(STRADDLE).args(["check", name]).args(args).current_dir(dir), ""))
}

/// Files that are no disk, or of which nothing can be judged: name, and the line that makes it.
const NO_DISKS: [(&str, &[&str], &str); 12] = [
    ("readme", &[], "yes 'Read me first.' | head -c 100000 > readme"),
    ("tiny", &[], "printf x > tiny"),
    ("late", &[], "truncate -s 8M late; printf x | dd of=late bs=1 seek=3000000 conv=notrunc status=none"),
    ("sun", &["fdisk"], "truncate -s 64M sun; printf 's\\nw\\n' | fdisk sun"),
    ("sgi", &["fdisk"], "truncate -s 64M sgi; printf 'G\\nw\\n' | fdisk sgi"),
    ("bsd", &["parted"], "truncate -s 64M bsd; parted -s bsd mklabel bsd mkpart ext2 63s 40000s"),
    ("mac", &["parted"], "truncate -s 64M mac; parted -s mac mklabel mac mkpart x 65s 40000s"),
    (
        "atari",
        &["parted"],
        "truncate -s 64M atari; parted -s atari mklabel atari mkpart primary ext2 3s 40000s",
    ),
    ("amiga", &["parted"], "truncate -s 64M amiga; parted -s amiga mklabel amiga"),
    (
        "dasd",
        &[],
        "truncate -s 64M dasd; printf '\\345\\326\\323\\361' | dd of=dasd bs=1 seek=8196 conv=notrunc status=none",
    ),
    ("gzip", &["gzip"], "truncate -s 9M r; gzip -c r > gzip"),
    ("wim", &[], "truncate -s 9M wim; printf 'MSWIM\\0\\0\\0' | dd of=wim conv=notrunc status=none"),
];

#[test]
fn what_is_no_disk_is_not_judged() {
    let dir = Dir::new("no-disks");
    for (name, needs, line) in NO_DISKS {
        if !present(needs) {
            continue;
        }
        shell(line, dir.path());
        let (target, code) = judged(dir.path(), name, &[]);
        assert_eq!((word(&target, "status").as_str(), code), ("not_judged", 3), "{name}: {target}");
        assert!(!word(&target, "reason").is_empty() && target["error"].is_null(), "{name}: {target}");
        let text = text(dir.path(), name, &[]);
        assert!(text.contains("not judged") && !text.contains("1 ok"), "{name}: {text}");
        // In a list of findings it is no line that could be missed: it fails, and says so on stderr.
        let quiet = output(Command::new(STRADDLE).args(["check", "-q", name]).current_dir(dir.path()), "");
        assert_eq!(quiet.status.code(), Some(3), "{name}: {}", told(&quiet));
        assert!(String::from_utf8_lossy(&quiet.stderr).contains("not judged"), "{name}: {}", told(&quiet));
        // What is known to be no disk fails whatever is allowed.
        let (target, code) = judged(dir.path(), name, &["--allow-unknown"]);
        let known = matches!(name, "gzip" | "wim");
        assert_eq!((word(&target, "status").as_str(), code == 3), ("not_judged", known), "{name}: {target}");
    }
}

/// Bytes without any order, of many seeds: none is taken for a disk.
#[test]
fn noise_is_not_judged() {
    let dir = Dir::new("noise");
    for seed in 1..=20_u64 {
        let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15);
        let next = || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state.to_le_bytes()[5]
        };
        fs::write(dir.join("noise"), std::iter::repeat_with(next).take(100_000).collect::<Vec<u8>>())
            .unwrap();
        let (target, code) = judged(dir.path(), "noise", &[]);
        assert_eq!((word(&target, "status").as_str(), code), ("not_judged", 3), "seed {seed}: {target}");
    }
}

#[test]
fn the_command_to_use_is_given_and_works() {
    let dir = Dir::new("packed");
    let raw = dir.image("my disk", 8 << 20);
    write_table(&raw, 512, "label: dos\nstart=63, size=4000\n");
    for tool in ["gzip", "xz", "zstd", "bzip2"] {
        if !present(&[tool]) {
            continue;
        }
        let packed = format!("my disk.{tool}");
        shell(&format!("{tool} -c 'my disk' > '{packed}'"), dir.path());
        let (target, _) = judged(dir.path(), &packed, &[]);
        let reason = word(&target, "reason");
        let (_, rest) = reason.split_once("read here: ").unwrap_or_else(|| panic!("{tool}: {reason}"));
        let (command, _) = rest.split_once("; --format").unwrap();
        shell(command, dir.path());
        let (target, code) = judged(dir.path(), &format!("{packed}.raw"), &[]);
        assert_eq!((word(&target, "status").as_str(), code), ("error", 1), "{tool}: {target}");
    }
}

#[test]
fn what_is_blank_passes() {
    let dir = Dir::new("blank");
    let mut names = Vec::new();
    for len in [1, 512, 70_000, 1 << 20, 64 << 20, 3 << 40] {
        let name = format!("raw-{len}");
        dir.image(&name, len);
        names.push(name);
    }
    if present(&["qemu-img"]) {
        for format in ["qcow2", "qed", "parallels", "vdi", "vmdk", "vhdx"] {
            shell(&format!("qemu-img create -q -f {format} image.{format} 64M"), dir.path());
            names.push(format!("image.{format}"));
        }
        // An overlay has what it lies over, and that is not looked at.
        shell("qemu-img create -q -f qed -b raw-67108864 -F raw over.qed", dir.path());
        let (target, code) = judged(dir.path(), "over.qed", &[]);
        assert_eq!((word(&target, "status").as_str(), code), ("failed", 3), "{target}");
        let (target, code) = judged(dir.path(), "over.qed", &["--allow-backing", "raw-67108864"]);
        assert_eq!((word(&target, "status").as_str(), code), ("blank", 0), "{target}");
    }
    for name in &names {
        let (target, code) = judged(dir.path(), name, &[]);
        assert_eq!((word(&target, "status").as_str(), code), ("blank", 0), "{name}: {target}");
        assert!(text(dir.path(), name, &[]).contains("status: blank"), "{name}");
    }
}

/// Status, kinds and exit status of tables that are right, misaligned, and damaged. No word of one is used of another.
#[test]
fn a_status_says_what_is_wrong() {
    let dir = Dir::new("kinds");
    let gpt = |name: &str, script: &str| {
        let image = dir.image(name, 64 << 20);
        write_table(&image, 512, script);
        image
    };
    gpt("right", "label: gpt\nstart=2048, size=2048\n");
    gpt("off", "label: gpt\nstart=2049, size=2048\n");
    let damaged = gpt("damaged", "label: gpt\nstart=2048, size=2048\n");
    let file = fs::OpenOptions::new().write(true).open(&damaged).unwrap();
    file.write_all_at(&[0xFF; 16], 512 + 16).unwrap();
    let both = gpt("both", "label: gpt\nstart=2049, size=2047\n");
    let file = fs::OpenOptions::new().write(true).open(&both).unwrap();
    file.write_all_at(&[0; 512], 512).unwrap();
    file.write_all_at(&[0; 512], (64 << 20) - 512).unwrap();
    let overlapping = dir.image("overlapping", 64 << 20);
    write_table(&overlapping, 512, "label: dos\nstart=2048, size=4096\nstart=8192, size=4096\n");
    let file = fs::OpenOptions::new().write(true).open(&overlapping).unwrap();
    file.write_all_at(&4096_u32.to_le_bytes(), 446 + 16 + 8).unwrap();
    let expected = [
        ("right", "ok", &[][..], 0),
        ("off", "error", &["alignment"], 1),
        ("damaged", "error", &["table_damage"], 1),
        // Neither copy of the GPT is left: what the MBR announces is not there.
        ("both", "warning", &["table_damage"], 1),
        ("overlapping", "error", &["table_damage"], 1),
    ];
    for (name, status, kinds, code) in expected {
        let (target, exit) = judged(dir.path(), name, &[]);
        let found: Vec<&str> =
            target["kinds"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        let judged = (word(&target, "status"), found.as_slice(), exit);
        assert_eq!(judged, (status.to_owned(), kinds, code), "{name}: {target}");
        let text = text(dir.path(), name, &[]);
        let misaligned = text.contains("misaligned") || text.contains("STRADDLES");
        assert_eq!(misaligned, kinds.contains(&"alignment"), "{name}: {text}");
        for partition in list(&target, "partitions") {
            let verdict = word(partition, "verdict");
            let off = matches!(verdict.as_str(), "misaligned" | "off");
            assert_eq!(off, kinds.contains(&"alignment"), "{name}: {verdict}");
        }
    }
}

/// The summary counts each target under its own status.
#[test]
fn the_summary_counts_by_status() {
    let dir = Dir::new("summary");
    dir.image("blank", 1 << 20);
    fs::write(dir.join("text"), "no disk").unwrap();
    let image = dir.image("off", 64 << 20);
    write_table(&image, 512, "label: dos\nstart=63, size=4000\n");
    let mut command = Command::new(STRADDLE);
    let run = output(
        command.args(["check", "--json", "blank", "text", "off", "missing"]).current_dir(dir.path()),
        "",
    );
    let report: Value = serde_json::from_slice(&run.stdout).unwrap();
    let summary = &report["summary"];
    let counts = ["targets", "ok", "blank", "advice", "warning", "error", "not_judged", "failed"];
    let counts: Vec<u64> = counts.iter().map(|key| summary[key].as_u64().unwrap()).collect();
    assert_eq!(counts, [4, 0, 1, 0, 0, 1, 1, 1], "{summary}");
    assert_eq!((report["schema"].as_u64(), run.status.code()), (Some(2), Some(3)));
    let run =
        output(Command::new(STRADDLE).args(["check", "blank", "text", "off"]).current_dir(dir.path()), "");
    assert!(told(&run).contains("3 targets: 1 blank, 1 with errors, 1 not judged"), "{}", told(&run));
}
