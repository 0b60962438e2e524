//! The status of a target: a file that is not a disk is not judged, a blank disk passes, and each status is
//! reported under its own name.

#![allow(clippy::unwrap_used, reason = "what these tests prepare works, or they fail")]

use crate::tools;

use std::fs;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::Command;

use serde_json::Value;
use straddle_units::io::SplitMix64;
use tools::skip::cases;
use tools::{Dir, STRADDLE, list, output, present, shell, transcript, word, write_table};

/// The report of `check --json` on a file, with the exit status.
fn judged(dir: &Path, name: &str, args: &[&str]) -> (Value, i32) {
    let mut command = Command::new(STRADDLE);
    let run = output(command.args(["check", "--json", name]).args(args).current_dir(dir), "");
    let report: Value =
        serde_json::from_slice(&run.stdout).unwrap_or_else(|_| panic!("{}", transcript(&run)));
    (report["targets"][0].clone(), run.status.code().unwrap())
}

/// The text output of `check` on a file, stdout and stderr.
fn text(dir: &Path, name: &str, args: &[&str]) -> String {
    transcript(&output(Command::new(STRADDLE).args(["check", name]).args(args).current_dir(dir), ""))
}

/// Files that are not a disk, or of which nothing can be judged: name, required tools, and the command that
/// makes it.
const NO_DISKS: [(&str, &[&str], &str); 19] = [
    ("readme", &[], "yes 'Read me first.' | head -c 100000 > readme"),
    ("tiny", &[], "printf x > tiny"),
    ("late", &[], "truncate -s 8M late; printf x | dd of=late bs=1 seek=3000000 conv=notrunc status=none"),
    ("sun", &["fdisk"], "truncate -s 64M sun; printf 's\\nw\\n' | fdisk sun"),
    ("sgi", &["fdisk"], "truncate -s 64M sgi; printf 'G\\nw\\n' | fdisk sgi"),
    ("bsd", &["parted"], "truncate -s 64M bsd; parted -s bsd mklabel bsd"),
    // Tables and databases in partitions. What they list is not read.
    (
        "ldm",
        &["sfdisk"],
        "truncate -s 64M ldm; printf 'label: dos\nstart=63, size=70000, type=42\n' | sfdisk -q ldm",
    ),
    (
        "ldm on a gpt",
        &["sfdisk"],
        "truncate -s 64M 'ldm on a gpt'; printf 'label: gpt\nfirst-lba: 34\nstart=34, size=2048, type=5808C8AA-7E8F-42E0-85D2-E1E90434CFB3\n\
         start=4099, size=70000, type=AF9B60A0-1431-4F62-BC68-3311714A69AD\n' | sfdisk -q 'ldm on a gpt'",
    ),
    (
        "solaris",
        &["sfdisk"],
        "truncate -s 64M solaris; printf 'label: dos\nstart=63, size=70000, type=bf\n' | sfdisk -q solaris; \
         printf '\\356\\336\\015\\140' | dd of=solaris bs=1 seek=32780 conv=notrunc status=none",
    ),
    (
        "sun in a partition",
        &["sfdisk", "fdisk"],
        "truncate -s 32M s; printf 's\nw\n' | fdisk s; truncate -s 64M 'sun in a partition'; \
         printf 'label: dos\nstart=2048, type=83\n' | sfdisk -q 'sun in a partition'; \
         dd if=s of='sun in a partition' bs=1M seek=1 conv=notrunc status=none",
    ),
    // With one start in sectors of 2048 bytes the table ends with the disk.
    (
        "sectors",
        &["sfdisk"],
        "truncate -s 64M sectors; printf 'label: dos\nstart=16, size=32752, type=6\n' | sfdisk -q sectors",
    ),
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
    ("gzip", &["gzip"], "yes 'Read me first.' | head -c 100000 | gzip -c > gzip"),
    ("tar.gz", &["gzip", "tar"], "echo x > x; tar -cf - x | gzip -c > tar.gz"),
    ("gz.gz", &["gzip"], "truncate -s 9M r; gzip -c r | gzip -c > gz.gz"),
    ("wim", &[], "truncate -s 9M wim; printf 'MSWIM\\0\\0\\0' | dd of=wim conv=notrunc status=none"),
];

/// Damage and misalignment beside what is not read are reported, and the database of a dynamic disk loses
/// nothing.
#[test]
fn what_is_not_read_hides_nothing() {
    if !present(&["sfdisk", "mkfs.ntfs"]) {
        return;
    }
    let dir = Dir::new("not-read");
    let make = |entries: &str| {
        shell(&format!("rm -f disk; truncate -s 64M disk; printf '{entries}' | sfdisk -q disk"), dir.path());
    };
    let verdicts = |target: &Value| -> Vec<String> {
        list(target, "partitions").iter().map(|one| word(one, "verdict")).collect()
    };
    make("label: dos\\nstart=63, size=20000, type=42\\nstart=20063, size=40000, type=83\\n");
    let (target, code) = judged(dir.path(), "disk", &[]);
    assert_eq!((word(&target, "status").as_str(), code), ("error", 1), "{target}");
    assert_eq!(verdicts(&target), ["not_judged", "misaligned"], "{target}");
    // A volume that begins where its entry does is judged.
    make("label: dos\\nstart=63, size=60000, type=42\\n");
    shell(
        "truncate -s 30720000 ntfs; mkfs.ntfs -q -F -s 512 ntfs; dd if=ntfs of=disk bs=512 seek=63 conv=notrunc status=none",
        dir.path(),
    );
    let (target, code) = judged(dir.path(), "disk", &[]);
    assert_eq!((verdicts(&target), code), (vec!["misaligned".to_owned()], 1), "{target}");
    make("label: gpt\\nfirst-lba: 34\\nstart=34, size=2048, type=5808C8AA-7E8F-42E0-85D2-E1E90434CFB3\\n");
    let (target, code) = judged(dir.path(), "disk", &[]);
    assert_eq!((word(&target, "status").as_str(), code), ("advice", 0), "{target}");
}

#[test]
fn what_is_no_disk_is_not_judged() {
    let dir = Dir::new("no-disks");
    shell("seq 2000 >list; head -c 4096 list >part", dir.path());
    let reason = |name: &str| word(&judged(dir.path(), name, &[]).0, "reason");
    assert!(reason("list").ends_with("it is probably not a disk image"), "{}", reason("list"));
    assert_eq!(reason("part"), "its contents are not recognised");
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
        // The quiet list of findings has no line for it that could be missed: the command fails, and says so
        // on stderr.
        let quiet = output(Command::new(STRADDLE).args(["check", "-q", name]).current_dir(dir.path()), "");
        assert_eq!(quiet.status.code(), Some(3), "{name}: {}", transcript(&quiet));
        assert!(
            String::from_utf8_lossy(&quiet.stderr).contains("not judged"),
            "{name}: {}",
            transcript(&quiet)
        );
        // A file known not to be a disk fails whatever option is given.
        let (target, code) = judged(dir.path(), name, &["--allow-unknown"]);
        let known = matches!(name, "tar.gz" | "gz.gz" | "wim");
        assert_eq!((word(&target, "status").as_str(), code == 3), ("not_judged", known), "{name}: {target}");
    }
}

/// Random bytes from many seeds: none is taken for a disk.
#[test]
fn noise_is_not_judged() {
    let dir = Dir::new("noise");
    for seed in 1..=20_u64 {
        let mut noise = vec![0; 100_000];
        SplitMix64::new(seed).fill(&mut noise);
        fs::write(dir.join("noise"), noise).unwrap();
        let (target, code) = judged(dir.path(), "noise", &[]);
        assert_eq!((word(&target, "status").as_str(), code), ("not_judged", 3), "seed {seed}: {target}");
    }
}

/// The compression programs.
const PACKERS: [&str; 4] = ["gzip", "xz", "zstd", "bzip2"];

/// Images to compress: name, required tools, and the command that makes it from `my disk`, which has a
/// misaligned partition.
const TO_PACK: [(&str, &[&str], &str); 5] = [
    ("my disk", &[], "true"),
    ("disk.qcow2", &["qemu-img"], "qemu-img convert -O qcow2 'my disk' disk.qcow2"),
    ("disk.vhd", &["qemu-img"], "qemu-img convert -O vpc 'my disk' disk.vhd"),
    ("fs", &["mkfs.ext4"], "truncate -s 9M fs; mkfs.ext4 -q -b 1024 fs"),
    ("blank", &[], "truncate -s 9M blank"),
];

/// A compressed image is judged like the image itself, and reported as compressed; the commands that change it
/// name the file that its own command unpacks.
#[test]
fn a_compressed_image_is_read_through() {
    let dir = Dir::new("packed");
    let raw = dir.image("my disk", 8 << 20);
    write_table(&raw, 512, "label: dos\nstart=63, size=5000\n");
    for (name, needs, line) in TO_PACK.iter().filter(|(_, needs, _)| present(needs)) {
        shell(line, dir.path());
        let (plain, plain_code) = judged(dir.path(), name, &[]);
        for tool in cases(PACKERS.iter().filter(|tool| present(&[tool])), 2) {
            let packed = format!("{name}.{tool}");
            shell(&format!("{tool} -c '{name}' > '{packed}'"), dir.path());
            let before = fs::read(dir.join(&packed)).unwrap();
            let (target, code) = judged(dir.path(), &packed, &[]);
            assert_eq!(
                (&target["status"], code),
                (&plain["status"], plain_code),
                "{packed} {needs:?}: {target}"
            );
            assert_eq!(target["device"]["compression"], **tool, "{target}");
            assert_eq!(plain["device"].get("compression"), None);
            assert_eq!(target["partitions"], plain["partitions"], "{packed}");
            let of = |target: &Value| -> Vec<String> {
                list(target, "findings").iter().map(|finding| word(finding, "code")).collect()
            };
            assert_eq!(of(&target), of(&plain), "{packed}");
            let seen = text(dir.path(), &packed, &[]);
            assert!(seen.contains(&format!(" {tool} file")), "{seen}");
            let drawn = output(Command::new(STRADDLE).args(["map", &packed]).current_dir(dir.path()), "");
            assert!(transcript(&drawn).contains(&format!(" {tool} file")), "{}", transcript(&drawn));
            assert!(before == fs::read(dir.join(&packed)).unwrap(), "{packed} was written to");
            // A copy is made of the file as it is.
            let lines: Vec<&str> = seen.lines().filter(|line| line.contains("straddle realign ")).collect();
            let quoted = |file: String| if file.contains(' ') { format!("'{file}'") } else { file };
            let operand = format!("straddle realign {} --to ", quoted(packed.clone()));
            // An image that has to be converted is changed after that.
            let is_converted = of(&plain).contains(&"S070".to_owned());
            assert_eq!(lines.is_empty(), is_converted || matches!(*name, "fs" | "blank"), "{seen}");
            assert_eq!(seen.contains(&format!(" {packed}.raw {packed}.raw.new")), is_converted, "{seen}");
            assert!(lines.iter().all(|line| line.contains(&operand)), "{lines:?}");
            // What changes the image is for a file that does not exist before unpacking.
            let command =
                format!("{tool} -dc {} > {}", quoted(packed.clone()), quoted(format!("{packed}.raw")));
            let flat = seen.split_whitespace().collect::<Vec<_>>().join(" ");
            assert_eq!(flat.contains(&format!("unpack it: {command}")), is_converted, "{seen}");
            shell(&command, dir.path());
            assert_eq!(judged(dir.path(), &format!("{packed}.raw"), &[]).1, plain_code, "{command}");
        }
    }
}

#[test]
fn what_cannot_be_read_through_is_an_error_at_its_byte() {
    let dir = Dir::new("cut");
    let raw = dir.image("disk", 8 << 20);
    write_table(&raw, 512, "label: dos\nstart=63, size=4000\n");
    for tool in PACKERS.iter().filter(|tool| present(&[tool])) {
        shell(
            &format!("head -c 100000 /dev/urandom >> disk; {tool} -c disk | head -c 90000 > cut.{tool}"),
            dir.path(),
        );
        let (target, code) = judged(dir.path(), &format!("cut.{tool}"), &[]);
        assert_eq!((word(&target, "status").as_str(), code), ("failed", 3), "{tool}: {target}");
        let error = word(&target, "error");
        assert!(error.contains("cannot be unpacked") && error.contains("byte "), "{tool}: {error}");
    }
    // A folder in which no file can be created.
    if present(&["gzip"]) {
        shell("gzip -c disk > disk.gz", dir.path());
        let mut command = Command::new(STRADDLE);
        command.args(["check", "disk.gz"]).env("TMPDIR", dir.join("nowhere")).current_dir(dir.path());
        let run = output(&mut command, "");
        assert_eq!(run.status.code(), Some(3), "{}", transcript(&run));
        assert!(
            transcript(&run).contains("nowhere (to use another directory, set TMPDIR)"),
            "{}",
            transcript(&run)
        );
    }
}

/// Overlays over overlays over a raw disk: each error prints the command that reads one file more, until all
/// are read.
#[test]
fn an_overlay_gives_the_command_that_reads_it() {
    if !present(&["qemu-img"]) {
        return;
    }
    for format in ["qcow2", "qed"] {
        let dir = Dir::new("overlays");
        fs::create_dir(dir.join("sub")).unwrap();
        let raw = dir.image("sub/the base", 8 << 20);
        write_table(&raw, 512, "label: dos\nstart=63, size=4000\n");
        shell(
            &format!(
                "cd sub; qemu-img create -q -f {format} -b 'the base' -F raw middle; \
                 qemu-img create -q -f {format} -b middle -F {format} top"
            ),
            dir.path(),
        );
        let (mut line, mut rounds) = ("straddle check sub/top".to_owned(), 0);
        let last = loop {
            let straddle = format!("'{STRADDLE}'{}", line.strip_prefix("straddle").unwrap());
            let run = output(Command::new("sh").args(["-c", &straddle]).current_dir(dir.path()), "");
            // The command is on a line of its own.
            let all = transcript(&run);
            let Some(next) = all.lines().find_map(|line| line.strip_prefix("    straddle check ")) else {
                break run;
            };
            line = format!("straddle check {next}");
            rounds += 1;
            assert!(rounds < 4, "{all}");
        };
        assert_eq!((last.status.code(), rounds), (Some(1), 2), "{format}: {line}: {}", transcript(&last));
    }
    // No command is printed for a missing backing file.
    let dir = Dir::new("overlays");
    shell("qemu-img create -q -u -f qcow2 -b gone -F raw top 8M", dir.path());
    assert!(!text(dir.path(), "top", &[]).contains("straddle check"));
}

/// A fix that several findings share is printed once, with everything that it is for.
#[test]
fn a_fix_is_printed_once() {
    let dir = Dir::new("shared");
    let (mut shared, mut fixes) = (0, 0);
    for script in [
        "start=63, size=4000\nstart=5000, size=3001\n",
        "start=2049, size=40001\nstart=43008, size=4096\n",
        "start=2056, size=4095\nstart=8200, size=4097\nstart=20481, size=9\n",
    ] {
        for label in ["dos", "gpt"] {
            let image = dir.image("disk", 32 << 20);
            write_table(
                &image,
                512,
                &format!("label: {label}\n{}{script}", if label == "gpt" { "first-lba: 34\n" } else { "" }),
            );
            for assume in ["512e", "512e,iu=16KiB", "512e,iu=64KiB,stripe=192KiB", "physical=8192"] {
                let (target, _) = judged(dir.path(), "disk", &["--assume", assume]);
                let seen = text(dir.path(), "disk", &["--verbose", "--assume", assume]);
                let blocks: Vec<String> = seen
                    .split("\n  Fix: ")
                    .skip(1)
                    .map(|block| block.split_whitespace().collect::<Vec<_>>().join(" "))
                    .collect();
                let findings = list(&target, "findings");
                let mut groups: Vec<(&Value, Vec<String>)> = Vec::new();
                for finding in findings.iter().filter(|finding| finding.get("fix").is_some()) {
                    let code = word(finding, "code");
                    match groups.iter_mut().find(|(fix, _)| **fix == finding["fix"]) {
                        Some((_, codes)) => codes.push(code),
                        None => groups.push((&finding["fix"], vec![code])),
                    }
                }
                assert_eq!(blocks.len(), groups.len(), "{seen}");
                for (fix, codes) in &groups {
                    fixes += 1;
                    let summary = word(fix, "summary");
                    assert!(blocks.iter().any(|block| block.starts_with(&summary)), "{seen}: {fix}");
                    shared += codes.len() - 1;
                    for command in fix["commands"].as_array().into_iter().flatten() {
                        let line = word(command, "line");
                        assert_eq!(
                            seen.lines().filter(|seen| seen.trim() == line).count(),
                            1,
                            "{line}\n{seen}"
                        );
                    }
                }
            }
        }
    }
    assert!(fixes > 20 && shared > 10, "{fixes} {shared}");
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
        // An overlay has the contents of its backing file, which is not read.
        shell("qemu-img create -q -f qed -b raw-67108864 -F raw over.qed", dir.path());
        let (target, code) = judged(dir.path(), "over.qed", &[]);
        assert_eq!((word(&target, "status").as_str(), code), ("failed", 3), "{target}");
        let (target, code) = judged(dir.path(), "over.qed", &["--allow-backing", "raw-67108864"]);
        assert_eq!((word(&target, "status").as_str(), code), ("blank", 0), "{target}");
    }
    for name in &names {
        let (target, code) = judged(dir.path(), name, &[]);
        assert_eq!((word(&target, "status").as_str(), code), ("blank", 0), "{name}: {target}");
        assert!(text(dir.path(), name, &[]).contains("blank: no table"), "{name}");
    }
}

/// Status, kinds and exit status for tables that are aligned, misaligned, and damaged. No term for one is
/// used for another.
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
        // Neither copy of the GPT is left: the MBR announces a GPT that does not exist.
        ("both", "error", &["table_damage"], 1),
        ("overlapping", "error", &["table_damage"], 1),
    ];
    for (name, status, kinds, code) in expected {
        let (target, exit) = judged(dir.path(), name, &[]);
        let found: Vec<&str> =
            target["kinds"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        let judged = (word(&target, "status"), found.as_slice(), exit);
        assert_eq!(judged, (status.to_owned(), kinds, code), "{name}: {target}");
        let text = text(dir.path(), name, &[]);
        let misaligned = text.contains("  MISALIGNED: ");
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
    assert_eq!((report["schema"].as_u64(), run.status.code()), (Some(3), Some(3)));
    let run =
        output(Command::new(STRADDLE).args(["check", "blank", "text", "off"]).current_dir(dir.path()), "");
    assert!(
        transcript(&run).contains("3 targets: 1 with errors, 1 not judged, 1 blank (1 error)"),
        "{}",
        transcript(&run)
    );
}
