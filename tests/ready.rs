//! Output is ready for use: commands printed for an image do what they are meant to, messages name their
//! subject, and a user who may not read a disk learns that it was not judged.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use crate::tools;

use std::fs::{self, File, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;
use tools::{Dir, STRADDLE, flat, list, output, present, run, shell, text, transcript, word, write_table};

/// The output of straddle on both streams with these arguments, run in `dir`, and its status.
fn said(dir: &Dir, args: &[&str]) -> (String, i32) {
    let output = output(Command::new(STRADDLE).args(args).current_dir(dir.path()), "");
    (transcript(&output), output.status.code().unwrap())
}

fn misaligned(dir: &Dir, name: &str) -> PathBuf {
    let image = dir.image(name, 32 << 20);
    write_table(&image, 512, "label: dos\nstart=63, size=2000, type=83\n");
    image
}

#[test]
fn an_overlay_comes_with_the_command_that_reads_it() {
    if !present(&["qemu-img", "sfdisk"]) {
        return;
    }
    for format in ["qcow2", "qed"] {
        for folder in ["", "it's \"a\" folder/"] {
            let dir = Dir::new("overlay");
            fs::create_dir_all(dir.join(folder)).unwrap();
            misaligned(&dir, &format!("{folder}base.img"));
            let place = dir.join(folder);
            shell(&format!("qemu-img create -q -f {format} -b base.img -F raw over"), &place);
            for command in ["check", "map"] {
                let (transcript, status) = said(&dir, &[command, &format!("{folder}over")]);
                assert_eq!(status, 3, "{transcript}");
                let line = transcript.lines().find_map(|line| line.strip_prefix("    straddle "));
                let line = line.unwrap_or_else(|| panic!("no command in {transcript}"));
                let line = format!("'{STRADDLE}' {line}; test $? -eq 1");
                assert!(shell(&line, dir.path()).contains("S001"), "{line}");
            }
        }
    }
}

#[test]
fn an_image_comes_with_the_command_that_connects_it() {
    if !present(&["qemu-img", "sfdisk"]) {
        return;
    }
    let dir = Dir::new("connect");
    let image = dir.image("raw.img", 32 << 20);
    // The next partition begins in the sector in which the first one ends.
    write_table(&image, 512, "label: dos\nstart=2048, size=40001, type=83\nstart=42049, size=1, type=83\n");
    let mut converted = 0;
    for format in ["qcow2", "vmdk", "vdi", "vpc", "vhdx", "qed", "parallels"] {
        shell(&format!("qemu-img convert -O {format} raw.img 'an image'"), dir.path());
        let connects = |transcript: &str, format: &str, image: &str| {
            let expected = format!("\n    qemu-nbd -c /dev/nbd0 -f {format} '{image}' && (");
            transcript.contains(&expected) && transcript.contains("sfdisk")
        };
        let (transcript, _) = said(&dir, &["check", "an image"]);
        let is_converted = transcript.contains("S070");
        assert_eq!(connects(&transcript, format, "an image"), !is_converted, "{format}: {transcript}");
        if !is_converted {
            continue;
        }
        converted += 1;
        // Its table is changed after the conversion, in the new image.
        assert!(!transcript.contains("nbd") && !transcript.contains("sfdisk"), "{format}: {transcript}");
        let line = transcript.lines().find(|line| line.contains("qemu-img convert")).unwrap();
        shell(line, dir.path());
        let (new, _) = said(&dir, &["check", "an image.new"]);
        assert!(connects(&new, "qcow2", "an image.new") && !new.contains("S070"), "{format}: {new}");
        let (left, _) = said(&dir, &["check", "an image", "--ignore", "S070"]);
        assert!(connects(&left, format, "an image"), "{format}: {left}");
    }
    assert!(converted > 1, "{converted} formats have to be converted");
    // QEMU reads this format but does not write it; what it is converted to can be written.
    shell("qemu-img convert -O vmdk -o subformat=streamOptimized raw.img stream.vmdk", dir.path());
    let (transcript, _) = said(&dir, &["check", "stream.vmdk"]);
    assert!(!transcript.contains("nbd") && !transcript.contains("sfdisk"), "{transcript}");
    let line =
        transcript.lines().find(|line| line.contains("qemu-img")).unwrap_or_else(|| panic!("{transcript}"));
    shell(line, dir.path());
    assert!(said(&dir, &["check", "stream.vmdk.qcow2"]).0.contains("qemu-nbd"), "{line:?}");
}

/// Each printed command for an image connects it itself, and does nothing if the node is another's: programs
/// in its place note what they are called with.
#[test]
fn no_command_reaches_what_another_program_has_connected() {
    if !present(&["qemu-img", "sfdisk", "mkfs.ext4"]) {
        return;
    }
    let dir = Dir::new("connected");
    let image = dir.image("raw.img", 64 << 20);
    write_table(
        &image,
        512,
        "label: dos\nstart=63, size=40000, type=83\nstart=60008, size=40001, type=83\nstart=100009, size=1, type=83\n",
    );
    shell(
        "mkfs.ext4 -q -E offset=32256 raw.img 20000k; qemu-img convert -O qcow2 raw.img 'an image'",
        dir.path(),
    );
    let report =
        serde_json::from_slice::<Value>(&tools::straddle_in(&dir, &["check", "--json", "an image"]).stdout)
            .unwrap();
    let fixes = list(&report["targets"][0], "findings").iter();
    let fixes =
        fixes.flat_map(|finding| [&finding["fix"], &finding["alternative"]]).filter(|fix| fix.is_object());
    let of_node: Vec<Vec<String>> = fixes
        .map(|fix| list(fix, "commands").iter().map(|line| word(line, "line")).collect())
        .filter(|lines: &Vec<String>| lines.iter().any(|line| line.contains("/dev/nbd0")))
        .collect();
    assert!(!of_node.is_empty(), "{report}");
    fs::create_dir(dir.join("bin")).unwrap();
    for tool in ["sfdisk", "qemu-nbd", "sgdisk", "parted", "resize2fs", "e2fsck", "partx", "partprobe"] {
        let script = format!("#!/bin/sh\necho {tool} \"$@\" >>\"$LOG\"\ncat >/dev/null\nexec false\n");
        // The first call may connect; everything after that is noted.
        let script = script.replace("exec false", "case \"$1$BUSY\" in -cyes) exit 1;; esac");
        fs::write(dir.join("bin").join(tool), script).unwrap();
        fs::set_permissions(dir.join("bin").join(tool), Permissions::from_mode(0o755)).unwrap();
    }
    for lines in of_node {
        let called = |busy: &str| -> Vec<String> {
            let _ = fs::remove_file(dir.join("log"));
            let line =
                format!("export PATH=\"$PWD/bin:$PATH\" LOG=\"$PWD/log\" BUSY={busy}\n{}", lines.join("\n"));
            let _ = output(Command::new("sh").args(["-c", &line]).current_dir(dir.path()), "");
            fs::read_to_string(dir.join("log")).unwrap().lines().map(str::to_owned).collect()
        };
        let connect = "qemu-nbd -c /dev/nbd0 -f qcow2 an image";
        assert_eq!(called("yes"), [connect], "{lines:?}");
        let all = called("no");
        assert_eq!((&all[0][..], &all[all.len() - 1][..]), (connect, "qemu-nbd -d /dev/nbd0"), "{lines:?}");
        assert!(all.len() > 2 && all[1].contains("/dev/nbd0"), "{all:?}");
    }
}

/// A disk of this machine that `nobody` may not read, and whether the kernel lists partitions on it.
fn unreadable_disk() -> Option<(PathBuf, bool)> {
    fs::read_dir("/sys/block").ok()?.flatten().find_map(|entry| {
        let name = entry.file_name().into_string().ok()?;
        let size = fs::read_to_string(entry.path().join("size")).ok()?;
        let node = Path::new("/dev").join(&name);
        let mode = fs::metadata(&node).ok()?.permissions().mode();
        if size.trim() == "0"
            || mode & 0o004 != 0
            || ["loop", "ram", "zram"].iter().any(|kind| name.starts_with(kind))
        {
            return None;
        }
        let has =
            fs::read_dir(entry.path()).ok()?.flatten().any(|inner| inner.path().join("partition").is_file());
        Some((node, has))
    })
}

#[test]
fn who_may_not_read_a_disk_learns_that_it_was_not_read() {
    let dir = Dir::new("nobody");
    fs::set_permissions(dir.path(), Permissions::from_mode(0o755)).unwrap();
    let program = dir.join("straddle");
    crate::tools::copy_program(STRADDLE, &program);
    let user = tools::ordinary_user(&program);
    let is_root = user == ["env"] && fs::metadata("/proc/self").unwrap().uid() == 0;
    let Some((disk, has_partitions)) = unreadable_disk().filter(|_| present(&["setpriv"]) && !is_root) else {
        // A machine may have none, or TMPDIR may be root's alone; the tests on constructed trees cover the
        // same.
        tools::not_run("no disk and user that may not read it");
        return;
    };
    let nobody = |args: &[&str]| {
        let mut command = Command::new(user[0]);
        command.args(&user[1..]).arg(&program).args(args);
        output(&mut command, "")
    };
    let one = nobody(&["check", "--json", disk.to_str().unwrap()]);
    let report: Value =
        serde_json::from_slice(&one.stdout).unwrap_or_else(|_| panic!("{}", transcript(&one)));
    let target = &report["targets"][0];
    if has_partitions {
        // The kernel reports where they begin, and so which are misaligned.
        assert!(
            !list(target, "partitions").is_empty() && matches!(one.status.code(), Some(1 | 3)),
            "{}",
            transcript(&one)
        );
    } else {
        assert_eq!((word(target, "status").as_str(), one.status.code()), ("not_judged", Some(3)), "{target}");
    }
    let notes = target["notes"].to_string();
    assert!(notes.contains("the disk was not read (") && notes.contains("; run as root)"), "{notes}");
    let disk = disk.to_str().unwrap();
    for words in [&["plan", disk, "--table", "gpt", "--part", "rest"][..], &["realign", disk]] {
        let refused = nobody(words);
        assert_eq!(refused.status.code(), Some(3), "{words:?}: {}", transcript(&refused));
        assert!(text(&refused.stderr).contains("; run as root"), "{words:?}: {}", transcript(&refused));
    }
    let refused = nobody(&["resume", disk]);
    assert!(text(&refused.stderr).contains("run as root"), "{}", transcript(&refused));
    let all = nobody(&["check"]);
    assert!(matches!(all.status.code(), Some(1 | 3)), "{}", transcript(&all));
    assert!(tools::flat(&text(&all.stdout)).contains("run as root"), "{}", transcript(&all));
}

#[test]
fn messages_say_what_is_meant() {
    if !present(&["sfdisk"]) {
        return;
    }
    let dir = Dir::new("meant");
    misaligned(&dir, "disk.img");
    fs::write(dir.join("text.txt"), "words\n").unwrap();
    let plan = ["plan", "disk.img", "--table", "gpt", "--part"];
    let cases: [(&[&str], i32, &str); 13] = [
        (&["check", "--time-limit", "0", "disk.img"], 2, "must be a whole number of seconds, at least 1"),
        (&["check", "--cost", "wd10ears", "disk.img"], 1, "on wd10ears: random 4 KiB writes take"),
        (&["check", "--cost", "nothing", "disk.img"], 2, "there is also no file of that name"),
        (
            &["check", "--measured", "text.txt", "disk.img"],
            2,
            "not a file written by 'straddle probe --save'",
        ),
        (&["check", "--format", "vmdk", "disk.img"], 3, "probably not a VMDK image"),
        (
            &["plan", "disk.img", "--table", "gpt", "--part", "64"],
            2,
            "use 64MiB, 64s for sectors, or 64B for bytes",
        ),
        (&["plan", "disk.img", "--table", "gpt", "--part", "1MiB,type=efi"], 2, "(did you mean esp?)"),
        (
            &["plan", "disk.img", "--table", "gpt", "--part", "1MiB,type=ext4"],
            2,
            "(that is a file system: use fs=)",
        ),
        (
            &["plan", "disk.img", "--table", "gpt", "--part", "1MiB,start=40s"],
            4,
            "; byte 1048576 is on a boundary",
        ),
        (
            &["plan", "disk.img", "--table", "gpt", "--part", "1MiB,start=4100s"],
            4,
            "byte 2097152 or byte 3145728 is on a boundary",
        ),
        (&["--help"], 0, "explains and fixes misaligned partitions"),
        (&["explain", "--help"], 0, "cause, cost, fix, sources"),
        (&["plan", "--help"], 0, "--part rest --save plan.json\n"),
    ];
    for (args, status, expected) in cases {
        let (transcript, code) = said(&dir, args);
        assert!(
            flat(&transcript).contains(expected.trim_end())
                && transcript.contains(expected.split(' ').next().unwrap()),
            "{args:?}: {transcript}"
        );
        assert_eq!(code, status, "{args:?}: {transcript}");
    }
    // Different units for the same size.
    for size in ["64s", "65536B", "64KiB", "1048576"] {
        let (transcript, code) = said(&dir, &[&plan[..], &[size, "--wipe"]].concat());
        assert_eq!(code, 0, "{size}: {transcript}");
    }
    let full = File::options().write(true).open("/dev/full").unwrap();
    let child = Command::new(STRADDLE)
        .args(["check", "disk.img"])
        .current_dir(dir.path())
        .stdout(full)
        .stderr(Stdio::piped())
        .output();
    let child = child.unwrap();
    assert_eq!(
        text(&child.stderr),
        "straddle: cannot write to standard output: No space left on device (os error 28)\n"
    );
}

#[test]
fn an_end_past_the_disk_is_one_finding() {
    if !present(&["sgdisk"]) {
        return;
    }
    let dir = Dir::new("past");
    let image = dir.image("disk.img", 64 << 20);
    run(Command::new("sgdisk").args(["-n", "1:2048:0"]).arg(&image), "");
    File::options().write(true).open(&image).unwrap().set_len(48 << 20).unwrap();
    let report = tools::check(&image, &["--assume", "512e"]);
    let codes: Vec<String> = list(&report, "findings").iter().map(|f| word(f, "code")).collect();
    assert!(!codes.contains(&"S002".to_owned()) && codes.contains(&"S042".to_owned()), "{codes:?}");
    for finding in list(&report, "findings") {
        let summary = word(&finding["fix"], "summary");
        assert!(!summary.ends_with('.') && !summary.starts_with("Copy"), "{summary}");
    }
}

/// The lines of the commands that fix a finding with this code.
fn fix_of(report: &Value, code: &str) -> Option<String> {
    let finding = list(report, "findings").iter().find(|finding| word(finding, "code") == code)?;
    let commands = list(&finding["fix"], "commands");
    let lines: Vec<String> = commands.iter().map(|command| word(command, "line")).collect();
    (!lines.is_empty()).then(|| lines.join(" && ").replace("straddle ", &format!("'{STRADDLE}' ")))
}

/// An image of which the end is missing gets its size back, and the backup of its GPT: of each kind of table,
/// with the last partition whole or cut.
#[test]
fn a_truncated_image_gets_its_size_back() {
    if !present(&["sfdisk", "sgdisk", "mkfs.ext4", "e2fsck"]) {
        return;
    }
    let tables = [
        ("gpt", "label: gpt\nstart=2048, size=4096\nstart=6144, size=100000\n", "S035"),
        ("dos", "label: dos\nstart=2048, size=4096, type=83\nstart=6144, size=100000, type=83\n", "S042"),
    ];
    for (label, script, code) in tables {
        for len in [106_144 * 512 - 512, 106_144 * 512, 30 << 20] {
            if label == "dos" && len == 106_144 * 512 {
                continue;
            }
            let dir = Dir::new("truncated");
            let image = dir.image("an image", 64 << 20);
            write_table(&image, 512, script);
            shell(
                "truncate -s 51200000 fs; mkfs.ext4 -q -b 4096 fs; dd if=fs of='an image' bs=512 seek=6144 conv=notrunc status=none",
                dir.path(),
            );
            shell(&format!("truncate -s {len} 'an image'"), dir.path());
            let report = tools::check(&image, &[]);
            let lines = fix_of(&report, code).unwrap_or_else(|| panic!("{label}, {len}: {report}"));
            shell(&lines, dir.path());
            let mended = tools::check(&image, &[]);
            let left = |code: &str| list(&mended, "findings").iter().any(|f| word(f, "code") == code);
            let of_table = ["S031", "S032", "S034", "S035", "S042", "S048"];
            assert!(!of_table.into_iter().any(left), "{label}, {len}: {lines}: {mended}");
            if label == "gpt" {
                let said = shell("sgdisk -v 'an image'", dir.path());
                assert!(said.contains("No problems found"), "{len}: {said}");
            }
            if len > 50 << 20 {
                shell(
                    "dd if='an image' of=back bs=512 skip=6144 count=100000 status=none; e2fsck -fn back",
                    dir.path(),
                );
            }
        }
    }
}

/// A table that lies in one of its partitions, as of two whose records fdisk laid out badly: no command
/// writes it.
#[test]
fn no_command_writes_a_table_that_lies_in_a_partition() {
    use std::os::unix::fs::FileExt;
    let dir = Dir::new("inside");
    let image = dir.image("disk", 64 << 20);
    let file = fs::OpenOptions::new().write(true).open(&image).unwrap();
    let record = |at: u64, entries: [(u8, u32, u32); 2]| {
        let mut sector = [0; 512];
        for (slot, (kind, start, count)) in entries.into_iter().enumerate() {
            let entry = &mut sector[446 + 16 * slot..][..16];
            entry[4] = kind;
            entry[8..12].copy_from_slice(&start.to_le_bytes());
            entry[12..].copy_from_slice(&count.to_le_bytes());
        }
        sector[510..].copy_from_slice(&[0x55, 0xAA]);
        file.write_all_at(&sector, at * 512).unwrap();
    };
    record(0, [(5, 4096, 120_000), (0, 0, 0)]);
    record(4096, [(0x83, 4096, 40_000), (5, 40_001, 60_000)]);
    record(44_097, [(0x83, 8192 + 1, 20_000), (0, 0, 0)]);
    let report = tools::check(&image, &[]);
    let of = |code: &str| list(&report, "findings").iter().filter(move |f| word(f, "code") == code).count();
    assert_eq!((of("S049"), of("S001"), word(&report, "status").as_str()), (1, 1, "error"), "{report}");
    for finding in list(&report, "findings") {
        let fix = &finding["fix"];
        assert!(fix.is_null() || list(fix, "commands").is_empty(), "{finding}");
        assert!(word(finding, "code") != "S001" || word(fix, "summary").contains("S049"), "{finding}");
    }
    for args in [["plan", "disk", "--add", "1MiB"], ["plan", "disk", "--delete", "6"]] {
        let (said, status) = said(&dir, &args);
        assert!(status == 4 && said.contains("extended boot record"), "{status}: {said}");
    }
}

/// Space that an entry of type 0 lists is taken, and its contents are named.
#[test]
fn an_entry_of_type_0_is_not_free_space() {
    use std::os::unix::fs::FileExt;
    if !present(&["sfdisk", "mkfs.ext4"]) {
        return;
    }
    let dir = Dir::new("type-0");
    let image = dir.image("disk", 64 << 20);
    write_table(
        &image,
        512,
        "label: dos\nstart=2048, size=40000, type=83\nstart=43008, size=80000, type=83\n",
    );
    shell(
        "truncate -s 20480000 fs; mkfs.ext4 -q -L keep fs; dd if=fs of=disk bs=1M seek=1 conv=notrunc status=none",
        dir.path(),
    );
    fs::OpenOptions::new().write(true).open(&image).unwrap().write_all_at(&[0], 446 + 4).unwrap();
    let report = tools::check(&image, &[]);
    assert_eq!(word(&list(&report, "partitions")[0], "content"), "ext4", "{report}");
    let (said_of_add, status) = said(&dir, &["plan", "disk", "--add", "10MiB"]);
    assert_ne!(status, 0, "{said_of_add}");
    let (said_of_table, _) = said(&dir, &["plan", "disk", "--table", "gpt", "--part", "rest"]);
    assert!(flat(&said_of_table).contains("ext4 \"keep\""), "{said_of_table}");
    let delete = ["plan", "disk", "--delete", "1", "--save", "plan.json"];
    assert_eq!(said(&dir, &delete).1, 0);
    let (applied, status) = said(&dir, &["apply", "plan.json", "--write", "disk"]);
    assert_eq!(status, 0, "{applied}");
    let left = shell("sfdisk -d disk", dir.path());
    assert!(!left.contains("disk1 ") && left.contains("disk2 "), "{left}");
}

/// What corrects the entry of a hybrid MBR changes it alone, and is named only where that lists the partition.
#[test]
fn the_entry_of_a_hybrid_mbr_keeps_its_type_and_flag() {
    use std::os::unix::fs::FileExt;
    if !present(&["sfdisk", "sgdisk"]) {
        return;
    }
    let dir = Dir::new("hybrid");
    let image = dir.image("disk", 64 << 20);
    write_table(&image, 512, "label: gpt\nfirst-lba: 34\nstart=34, size=20000\nstart=20034, size=40000\n");
    let mut mbr = [0; 66];
    mbr[..16].copy_from_slice(&[0x80, 0, 0, 0, 0x0C, 0, 0, 0, 34, 0, 0, 0, 0x20, 0x4E, 0, 0]);
    mbr[16..32].copy_from_slice(&[0, 0, 0, 0, 0xEE, 0, 0, 0, 1, 0, 0, 0, 33, 0, 0, 0]);
    mbr[64..].copy_from_slice(&[0x55, 0xAA]);
    let file = fs::OpenOptions::new().read(true).write(true).open(&image).unwrap();
    file.write_all_at(&mbr, 446).unwrap();
    let report = tools::check(&image, &[]);
    assert_eq!(word(&report["table"], "format"), "hybrid", "{report}");
    let tool = "sfdisk --label-nested dos -N 1";
    shell("echo 'start=40, size=19992' | sfdisk -q -N 1 disk", dir.path());
    assert!(list(&tools::check(&image, &[]), "findings").iter().any(|f| word(f, "code") == "S038"));
    shell(&format!("echo 'start=40, size=19992' | {tool} -q disk"), dir.path());
    assert!(!list(&tools::check(&image, &[]), "findings").iter().any(|f| word(f, "code") == "S038"));
    let mut after = [0; 32];
    file.read_exact_at(&mut after, 446).unwrap();
    assert_eq!((after[0], after[4], after[16 + 4]), (0x80, 0x0C, 0xEE), "{after:?}");
}
