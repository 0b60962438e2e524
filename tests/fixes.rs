//! Runs every printed fix, on damaged tables, on file systems, and on stacks of layers in a guest: the
//! findings of `check` afterwards are better, and never worse. tests/fixes_run.rs does the same for the
//! places of partitions.
//!
//! "Better" means that the finding with the fix is gone or less severe. "Never worse" means that no other
//! finding is new or more severe. The effect of a fix on data is stated before its commands: none, "back up
//! first", or in capitals that it reformats.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use crate::tools;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;
use tools::skip::{cases, is_sampled};
use tools::{Contents, Dir, STRADDLE, at_once, list, number, present, run, shell, word, write_table};

/// Commands that recreate what they name, with all data lost.
const DESTROYERS: [&str; 2] = ["mkfs.", "luksFormat"];

/// Commands that do not change stored data.
const HARMLESS: [&str; 4] = ["tune2fs -E", "mount -o", "qemu-img convert", "dd of="];

/// A finding's place: its code, its partition, and the number of layers up to it. A fix may change a layer's
/// name.
type Place = (String, u64, usize);

/// The commands printed for a finding, as they are pasted: all of them, one per line.
#[derive(Clone, Debug)]
struct Fix {
    of: Place,
    line: String,
    risk: String,
    caution: String,
}

fn place(finding: &Value) -> Place {
    let depth = word(finding, "layer").split(" > ").count();
    (word(finding, "code"), finding["partition"].as_u64().unwrap_or(0), depth)
}

/// The severities of the findings at each place, in order.
fn weights(report: &Value) -> BTreeMap<Place, Vec<usize>> {
    let weight = |finding: &Value| match word(finding, "severity").as_str() {
        "advice" => 1,
        "warning" => 2,
        _ => 3,
    };
    let mut weights: BTreeMap<Place, Vec<usize>> = BTreeMap::new();
    for finding in list(report, "findings") {
        weights.entry(place(finding)).or_default().push(weight(finding));
    }
    weights
}

/// Whether a fix only shows the same bytes in other sectors, or fewer of them, to be copied: tests/stack_verdicts.rs
/// does so.
fn is_view(line: &str) -> bool {
    line.starts_with("losetup ")
}

/// Every block of commands in a report, without duplicates.
fn fixes(report: &Value) -> Vec<Fix> {
    let mut fixes: Vec<Fix> = Vec::new();
    let both = |finding: &'_ Value| ["fix", "alternative"].map(|name| finding.get(name).cloned());
    let listed = list(report, "findings").iter();
    for (finding, fix) in listed.flat_map(|f| both(f).into_iter().flatten().map(move |fix| (f, fix))) {
        let commands = fix.get("commands").and_then(Value::as_array).into_iter().flatten();
        let lines: Vec<String> = commands.map(|command| word(command, "line")).collect();
        let caution = fix["caution"].as_str().unwrap_or_default().to_owned();
        let fix = Fix { of: place(finding), line: lines.join("\n"), risk: word(&fix, "risk"), caution };
        // A copy leaves the disk as it is; tests/copy.rs and tests/pasted.rs make it.
        let is_copy = fix.line.contains(" --to ") || is_view(&fix.line);
        if !lines.is_empty() && !is_copy && !fixes.iter().any(|known| known.line == fix.line) {
            fixes.push(fix);
        }
    }
    fixes
}

/// Compares the reports before and after a fix. New advice is acceptable.
fn judge(fix: &Fix, before: &Value, after: &Value) {
    let (old, new) = (weights(before), weights(after));
    let details = || format!("{fix:?}\nbefore: {old:#?}\nafter: {new:#?}");
    let total = |weights: Option<&Vec<usize>>| weights.map_or(0, |weights| weights.iter().sum::<usize>());
    assert!(total(new.get(&fix.of)) < total(old.get(&fix.of)), "not better\n{}", details());
    for (place, weights) in &new {
        let former = old.get(place).and_then(|weights| weights.iter().copied().max()).unwrap_or(1);
        assert!(weights.iter().all(|weight| *weight <= former), "worse at {place:?}\n{}", details());
    }
}

/// Checks that the stated effect of a fix matches its commands, in JSON and in the text output.
fn is_announced(fix: &Fix, screen: &str) {
    let contains = |words: &[&str]| words.iter().any(|word| fix.line.contains(word));
    assert_eq!(fix.risk == "destroys", contains(&DESTROYERS), "{fix:?}");
    assert!(
        fix.risk == "backup" || contains(&DESTROYERS) || contains(&HARMLESS) || fix.line.contains("start="),
        "{fix:?}"
    );
    // All lines of a block have the same indentation.
    let at = screen
        .find(&fix.line.replace('\n', "\n    "))
        .unwrap_or_else(|| panic!("{fix:?} is not in\n{screen}"));
    let block =
        screen[..at].rfind("Fix: ").max(screen[..at].rfind("Or: ")).map(|from| &screen[from..at]).unwrap();
    let announced = block.split_whitespace().collect::<Vec<_>>().join(" ");
    match fix.risk.as_str() {
        "destroys" => {
            assert!(announced.contains("THIS REFORMATS: EVERYTHING ON DEVICE IS LOST"), "{announced}")
        }
        "backup" => assert!(announced.to_lowercase().contains("back up first"), "{announced}"),
        _ => assert_eq!(fix.risk, "safe"),
    }
}

/// The data stored on the disk in an image: the bytes of each partition, or of the whole disk without a
/// table.
fn stored(dir: &Dir, image: &Path, report: &Value) -> Vec<Contents> {
    let mut raw = image.to_owned();
    if !report["container"].is_null() {
        raw = dir.join("stored.raw");
        run(Command::new("qemu-img").args(["convert", "-O", "raw"]).arg(image).arg(&raw), "");
    }
    let partitions = list(report, "partitions");
    if partitions.is_empty() {
        return vec![Contents::part(&raw, 0, number(&report["device"], "size_bytes"))];
    }
    let part = |p: &Value| Contents::part(&raw, number(p, "start_bytes"), number(p, "size_bytes"));
    partitions.iter().map(part).collect()
}

/// The text output of `check`.
fn screen(target: &Path, args: &[&str]) -> String {
    let mut command = Command::new(STRADDLE);
    tools::text(&tools::output(command.args(["check", "--verbose"]).args(args).arg(target), "").stdout)
}

/// Runs every fix for `image`, each on a separate copy, and returns the command lines.
fn try_all(
    dir: &Dir,
    image: &Path,
    args: &[&str],
    device: impl Fn(&str, &Path) -> String,
) -> BTreeSet<String> {
    let before = tools::check(image, args);
    let screen = screen(image, args);
    let mut tried = BTreeSet::new();
    for fix in fixes(&before) {
        is_announced(&fix, &screen);
        let is_attached = fix.caution.contains("losetup --find --show --partscan ");
        assert!(
            is_attached || !fix.line.contains("DEVICE"),
            "{fix:?} does not say how the image is attached"
        );
        let copy = dir.join("copy.img");
        run(Command::new("cp").arg("--sparse=always").arg(image).arg(&copy), "");
        let line = fix.line.replace(&*image.to_string_lossy(), &copy.to_string_lossy());
        shell(&tools::pasted(&device(&line, &copy)), dir.path());
        let mut after = tools::check(&copy, args);
        let mut result = copy.clone();
        if fix.line.contains("qemu-img") {
            result = dir.join("copy.img.new");
            after = tools::check(&result, args);
        }
        judge(&fix, &before, &after);
        // A fix that is called safe must not change a byte of the stored data.
        assert!(
            fix.risk != "safe" || stored(dir, &result, &after) == stored(dir, image, &before),
            "{fix:?} changed what is stored"
        );
        tried.insert(fix.line);
    }
    tried
}

/// Ways to damage a table: the name, and the shell command that does it to `disk.img`.
const DAMAGES: [(&str, &str); 10] = [
    (
        "entries of 256 bytes",
        "python3 -c 'import struct, zlib\nd = bytearray(open(\"disk.img\", \"rb\").read())\nlast = len(d) // 512 - 1\n\
         new = b\"\".join(d[1024 + 128 * i:1152 + 128 * i] + bytes(128) for i in range(64))\n\
         for at, entries in (512, 2), (512 * last, last - 32):\n\
         \td[512 * entries:512 * entries + len(new)] = new\n\
         \tstruct.pack_into(\"<QIII\", d, at + 72, entries, 64, 256, zlib.crc32(new))\n\
         \tstruct.pack_into(\"<I\", d, at + 16, 0)\n\tstruct.pack_into(\"<I\", d, at + 16, zlib.crc32(d[at:at + 92]))\n\
         open(\"disk.img\", \"wb\").write(d)'",
    ),
    ("primary header's sum", "printf 'wrong ones' | dd of=disk.img bs=1 seek=568 conv=notrunc status=none"),
    (
        "primary header is the backup's",
        "dd if=disk.img of=disk.img bs=512 skip=131071 seek=1 count=1 conv=notrunc status=none",
    ),
    (
        "grown over a former table",
        "truncate -s 96M disk.img former; printf 'label: gpt\nfirst-lba: 34\nstart=63,size=60000\n' | sfdisk -q --no-tell-kernel former; \
         dd if=former of=disk.img bs=512 skip=196575 seek=196575 conv=notrunc status=none",
    ),
    ("primary header", "dd if=/dev/zero of=disk.img bs=512 seek=1 count=1 conv=notrunc status=none"),
    ("primary entries", "printf x | dd of=disk.img bs=1 seek=1100 conv=notrunc status=none"),
    ("backup header", "dd if=/dev/zero of=disk.img bs=512 seek=131071 count=1 conv=notrunc status=none"),
    ("backup entries", "printf x | dd of=disk.img bs=1 seek=$((131039 * 512 + 76)) conv=notrunc status=none"),
    ("grown", "truncate -s 96M disk.img"),
    ("no protective MBR", "dd if=/dev/zero of=disk.img bs=512 count=1 conv=notrunc status=none"),
];

fn codes_of(report: &Value) -> BTreeSet<String> {
    list(report, "findings").iter().map(|finding| word(finding, "code")).collect()
}

/// If the tools read a different table than `check`, or none, their commands would write that table; then no
/// command may be printed.
#[test]
fn every_fix_of_a_damaged_table_mends_it() {
    if !present(&["sfdisk", "sgdisk"]) {
        return;
    }
    let alone = DAMAGES.map(|damage| vec![damage]);
    let pairs =
        (0..DAMAGES.len()).flat_map(|at| DAMAGES[..at].iter().map(move |one| vec![*one, DAMAGES[at]]));
    at_once(alone.into_iter().chain(cases(pairs, 16)), |damages| {
        let name = damages.iter().map(|damage| damage.0).collect::<Vec<_>>().join(", ");
        let dir = Dir::new("tables");
        let image = dir.image("disk.img", 64 << 20);
        // The second partition is misaligned: its fix is also tried, or is held back.
        write_table(&image, 512, "label: gpt\nstart=2048, size=40000\nstart=43009, size=40960\n");
        for (_, line) in &damages {
            shell(line, dir.path());
        }
        let args = ["--assume", "512e"];
        let tried = try_all(&dir, &image, &args, |line, _| line.to_owned());
        println!("{name}: {tried:?}");
        // Straddle mends all of them, as long as a copy of the table is where it is looked for.
        let before = tools::check(&image, &args);
        let is_damaged = codes_of(&before).iter().any(|code| code.starts_with("S03"));
        if list(&before, "partitions").is_empty() || !is_damaged {
            return;
        }
        let mending: Vec<&String> = tried.iter().filter(|line| line.contains("straddle plan ")).collect();
        assert_eq!(mending.len(), 1, "{name}: {before:#}");
        run(Command::new("sh").arg("-c").arg("rm -f disk.img.plan.json.undo").current_dir(dir.path()), "");
        shell(&tools::pasted(&format!("set -e\n{}", mending[0])), dir.path());
        let after = tools::check(&image, &args);
        assert!(!codes_of(&after).iter().any(|code| code.starts_with("S03")), "{name}: {after:#}");
        assert_eq!(spans(&after), spans(&before), "{name}");
        // The last line that it prints brings back every byte.
        shell(&tools::pasted("straddle undo disk.img.plan.json.undo --write disk.img"), dir.path());
        assert_eq!(tools::check(&image, &args), before, "{name}");
    });
}

/// The places of the partitions.
fn spans(report: &Value) -> Vec<(u64, u64)> {
    let partitions = list(report, "partitions").iter();
    partitions.map(|p| (number(p, "start_bytes"), number(p, "size_bytes"))).collect()
}

/// The audit of a file in the folder, by its name there.
fn audited(dir: &Dir, assume: &str, name: &str) -> Value {
    let mut command = Command::new(STRADDLE);
    command.args(["check", "--json", "--assume", assume, name]).current_dir(dir.path());
    serde_json::from_slice(&tools::output(&mut command, "").stdout).unwrap()
}

/// Several disks are checked, all their plans are made in one folder, and all are written after that: each plan, its
/// backup and each journal has a name of its own.
#[test]
fn the_commands_for_several_disks_share_a_folder() {
    if !present(&["sfdisk"]) {
        return;
    }
    let dir = Dir::new("together");
    let (zero, table) = (
        "dd if=/dev/zero of=NAME bs=512 seek=1 count=1 conv=notrunc status=none",
        "label: gpt\nstart=2048, size=40000\n",
    );
    let from_0 = "printf '\\0\\0\\2\\0\\356\\377\\377\\377\\0\\0\\0\\0\\0\\1\\0\\0' | dd of=NAME bs=1 seek=446 conv=notrunc status=none";
    let hybrid = "printf '\\0\\0\\2\\0\\356\\377\\377\\377\\2\\0\\0\\0\\376\\7\\0\\0\\0\\0\\2\\0\\203\\377\\377\\377\\0\\10\\0\\0\\100\\234\\0\\0' | dd of=NAME bs=1 seek=446 conv=notrunc status=none";
    let behind = "printf '\\0\\0\\2\\0\\203\\377\\377\\377\\0\\10\\0\\0\\100\\234\\0\\0\\0\\0\\2\\0\\356\\377\\377\\377\\0\\300\\0\\0\\0\\20\\0\\0' | dd of=NAME bs=1 seek=446 conv=notrunc status=none";
    // The name, the assumed drive, the table, what damages it, and the finding to be mended.
    let disks = [
        ("a.img", "512e", table, zero, "S031"),
        ("b.img", "512e", "label: gpt\nstart=4096, size=8000\n", zero, "S031"),
        ("grown.img", "512e", table, "truncate -s 96M NAME", "S034"),
        (
            "bare.img",
            "512e",
            table,
            "dd if=/dev/zero of=NAME bs=512 count=1 conv=notrunc status=none",
            "S037",
        ),
        // A protective entry that starts at sector 0, and one at sector 2 before the partition that it lists too.
        ("from0.img", "512e", table, from_0, "S037"),
        ("hybrid.img", "512e", table, hybrid, "S037"),
        // And one behind it.
        ("behind.img", "512e", table, behind, "S037"),
        ("other.img", "logical=4096,physical=4096", table, "true", "S030"),
        ("off.img", "512e", "label: gpt\nstart=43009, size=8000\n", "true", "S001"),
        ("off2.img", "512e", "label: gpt\nstart=2049, size=8000\n", "true", "S001"),
    ];
    let mut lines: [Vec<String>; 2] = [Vec::new(), Vec::new()];
    let mut before = Vec::new();
    for (name, assume, table, damage, code) in disks {
        let image = dir.image(name, 64 << 20);
        write_table(&image, 512, table);
        shell(&damage.replace("NAME", name), dir.path());
        let report = audited(&dir, assume, name);
        let target = list(&report, "targets")[0].clone();
        let is_it = |finding: &&Value| word(finding, "code") == code;
        let finding =
            list(&target, "findings").iter().find(is_it).unwrap_or_else(|| panic!("{name}: {target:#}"));
        let commands = list(&finding["fix"], "commands");
        assert_eq!(commands.len(), 2, "{name}: {finding:#}");
        for (lines, command) in lines.iter_mut().zip(commands) {
            assert_eq!(word(command, "tool"), "straddle");
            lines.push(word(command, "line"));
        }
        before.push(spans(&target));
    }
    let all = lines.concat().join("\n");
    shell(&tools::pasted(&format!("set -e\n{all}")), dir.path());
    for ((name, assume, _, _, code), before) in disks.into_iter().zip(before) {
        let report = audited(&dir, assume, name);
        let target = &list(&report, "targets")[0];
        assert!(!codes_of(target).contains(code), "{name}: {target:#}");
        let is = spans(target);
        assert_eq!(is == before, code != "S001", "{name}: {is:?} {before:?}");
        if ["from0.img", "hybrid.img", "behind.img"].contains(&name) {
            // gdisk looks for overlaps in a hybrid MBR too.
            let said = run(Command::new("sgdisk").arg("-v").arg(dir.join(name)), "");
            assert!(said.contains("No problems found"), "{name}: {said}");
        }
    }
}

/// A partition that ends at the old end of a disk that has grown is not made smaller: the backup GPT moves, and then
/// there is room behind it.
#[test]
fn a_grown_disk_gets_its_backup_at_the_end_first() {
    if !present(&["sgdisk", "mkfs.ext4"]) {
        return;
    }
    let dir = Dir::new("grown");
    let image = dir.image("disk.img", 64 << 20);
    run(Command::new("sgdisk").args(["-n", "1:0:0"]).arg(&image), "");
    shell("mkfs.ext4 -q -F -b 1024 -E offset=1048576 disk.img 64495; truncate -s 96M disk.img", dir.path());
    let args = ["--assume", "512e"];
    let before = tools::check(&image, &args);
    let of = |report: &Value, code: &str| {
        let is_it = |finding: &&Value| word(finding, "code") == code;
        list(report, "findings").iter().find(is_it).cloned().unwrap_or_else(|| panic!("{report:#}"))
    };
    let end = of(&before, "S002");
    assert!(list(&end["fix"], "commands").is_empty() && end["alternative"].is_null(), "{end:#}");
    assert!(word(&end["fix"], "summary").contains("S034"), "{end:#}");
    let commands = of(&before, "S034")["fix"]["commands"].clone();
    let lines: Vec<String> = commands.as_array().unwrap().iter().map(|line| word(line, "line")).collect();
    shell(&tools::pasted(&format!("set -e\n{}", lines.join("\n"))), dir.path());
    let after = tools::check(&image, &args);
    assert!(word(&of(&after, "S002")["fix"], "summary").starts_with("grow it by "), "{after:#}");
}

#[test]
fn an_mbr_that_does_not_reach_the_end_becomes_a_gpt() {
    if !present(&["sfdisk", "sgdisk"]) {
        return;
    }
    let dir = Dir::new("reach");
    let image = dir.image("disk.img", 3 << 40);
    write_table(&image, 512, "label: dos\nstart=2048, size=40960, type=83\n");
    let tried = try_all(&dir, &image, &["--assume", "512e"], |line, _| line.to_owned());
    assert_eq!(tried.len(), 1, "{tried:?}");
}

/// The commands that make the file systems of the sweep; `IMAGE` stands for the file.
const FILE_SYSTEMS: [(&str, &str); 16] = [
    ("mkfs.ext4", "mkfs.ext4 -q -F -b 1024 IMAGE"),
    ("mkfs.ext4", "mkfs.ext2 -q -F -b 2048 IMAGE"),
    ("mkfs.ext4", "mkfs.ext4 -q -F -b 4096 IMAGE"),
    ("mkfs.xfs", "mkfs.xfs -q -f -s size=512 IMAGE"),
    ("mkfs.xfs", "mkfs.xfs -q -f -s size=512 -b size=1024 IMAGE"),
    ("mkfs.xfs", "mkfs.xfs -q -f -s size=4096 IMAGE"),
    ("mkfs.fat", "mkfs.fat -s 1 IMAGE"),
    ("mkfs.fat", "mkfs.fat -s 4 IMAGE"),
    ("mkfs.fat", "mkfs.fat -s 8 IMAGE"),
    ("mkfs.fat", "mkfs.fat -a -R 33 -s 8 IMAGE"),
    ("mkfs.fat", "mkfs.fat -a -R 7 -s 64 IMAGE"),
    ("mkfs.exfat", "mkfs.exfat -c 512 -b 512 IMAGE"),
    ("mkfs.exfat", "mkfs.exfat -c 4096 -b 512 IMAGE"),
    ("mkfs.ntfs", "mkfs.ntfs -Q -F -c 1024 IMAGE"),
    ("mkfs.nilfs2", "mkfs.nilfs2 -q -f -b 1024 IMAGE"),
    ("mkfs.btrfs", "mkfs.btrfs -q -f IMAGE"),
];

/// The drives of the sweep, and below them the sizes of the images in MiB.
const DRIVES: [&str; 5] =
    ["512e", "4kn,iu=16KiB", "512e,iu=64KiB", "physical=8192", "physical=16384,iu=128KiB"];
const SIZES: [u64; 5] = [2, 4, 5, 40, 520];

#[test]
fn every_fix_of_a_file_system_is_worth_its_data() {
    let mut tried: BTreeMap<String, u32> = BTreeMap::new();
    for (tool, make) in FILE_SYSTEMS {
        if !present(&[tool]) {
            continue;
        }
        for size in cases(SIZES.into_iter(), 4) {
            let dir = Dir::new("blocks");
            let image = dir.image("fs.img", size << 20);
            let line = make.replace("IMAGE", "fs.img");
            // Sizes that are too small for the file system are left out.
            if !tools::output(Command::new("sh").args(["-c", &line]).current_dir(dir.path()), "")
                .status
                .success()
            {
                continue;
            }
            for assume in cases(DRIVES.into_iter(), 3) {
                // mkfs.ntfs requires -F to format a regular file.
                let device = |line: &str, copy: &Path| {
                    line.replace("DEVICE", &format!("'{}'", copy.display()))
                        .replace("mkfs.ntfs", "mkfs.ntfs -F")
                };
                let lines = try_all(&dir, &image, &["--assume", assume], device);
                for line in &lines {
                    println!("{make} of {size} MiB on {assume}: {line}");
                }
                let tool = |line: &String| line.split(' ').next().unwrap_or_default().to_owned();
                for line in lines {
                    *tried.entry(tool(&line)).or_default() += 1;
                }
            }
        }
    }
    println!("{tried:?}");
    let least = if is_sampled() { 1 } else { 2 };
    for tool in ["mkfs.ext4", "mkfs.xfs", "mkfs.fat", "mkfs.exfat", "mkfs.ntfs", "mkfs.nilfs2"] {
        assert!(tried.get(tool).is_some_and(|count| *count >= least), "{tool}: {tried:?}");
    }
}

#[test]
fn a_container_that_misplaces_blocks_is_converted() {
    if !present(&["qemu-img", "sfdisk"]) {
        return;
    }
    let dir = Dir::new("container");
    let raw = dir.image("raw.img", 64 << 20);
    write_table(&raw, 512, "label: gpt\nstart=2048, size=40000\n");
    shell("qemu-img convert -O vpc -o subformat=dynamic,force_size=on raw.img disk.img", dir.path());
    let tried = try_all(&dir, &dir.join("disk.img"), &["--assume", "512e"], |line, _| line.to_owned());
    assert_eq!(tried.len(), 1, "{tried:?}");
}

/// The number of stacks in tests/guest/fixes.sh.
const STACKS: usize = 10;

#[test]
fn every_fix_on_a_stack_is_better_than_none() {
    if !present(&[
        "linux.uml",
        "sfdisk",
        "sgdisk",
        "parted",
        "mdadm",
        "cryptsetup",
        "mkfs.ext4",
        "mkfs.xfs",
        "mkfs.btrfs",
    ]) {
        return;
    }
    let dir = Dir::new("stack-fixes");
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut command = Command::new(root.join("tests/guest/run"));
    command.args(["-t", "3600", "-m", "2G", "-o"]).arg(dir.path());
    command.args(["-e", &format!("FIXES={}", std::env::current_exe().unwrap().display())]);
    if !tools::skip::is_sampled() {
        command.args(["-e", "EVERY_CASE=1"]);
    }
    let said = run(command.arg(root.join("tests/guest/fixes.sh")), "");
    println!("{said}");
    let tried = fs::read_to_string(dir.join("tried")).unwrap();
    let stacks: BTreeSet<&str> = tried.lines().filter_map(|line| line.split('\t').next()).collect();
    assert_eq!(stacks.len(), tools::skip::taken(STACKS, 2), "{tried}");
}

/// A checksum of all files in the file system on `device`.
fn files(device: &str) -> String {
    shell(
        &format!("mount -o ro {device} /mnt && tar -C /mnt --sort=name -cf - . | sha256sum && umount /mnt"),
        Path::new("/"),
    )
}

/// Runs in the guest: applies fix number FIX for the disk DISK, with $DEVICE in place of DEVICE, and compares
/// the reports. The status is 3 if there is no fix with that number.
#[test]
#[ignore = "in the guest only"]
fn in_the_guest() {
    let cmdline = fs::read_to_string("/proc/cmdline").unwrap();
    assert!(cmdline.contains("rootfstype=hostfs"), "this writes to disks");
    let variable = |name: &str| std::env::var(name).unwrap();
    let disk = PathBuf::from(variable("DISK"));
    let before = tools::check(&disk, &[]);
    let all = fixes(&before);
    let Some(fix) = all.get(variable("FIX").parse::<usize>().unwrap()) else { std::process::exit(3) };
    is_announced(fix, &screen(&disk, &[]));
    // Supplies the passphrase, which would be typed, and a cheap key derivation, as the default takes long.
    let quick = "-q --key-file /tmp/key --pbkdf pbkdf2 --pbkdf-force-iterations 1000";
    let line = fix.line.replace("DEVICE", &variable("DEVICE")).replace(" DIR", " /mnt");
    let line = line.replace("luksFormat", &format!("luksFormat {quick}"));
    let line = line.replace("reencrypt", &format!("reencrypt {quick}"));
    println!("\nFIX: {}\t{line}", variable("STACK"));
    // What the warning asks for: nothing uses the disk when it is written to.
    let line = match fix.caution.contains("the disk is in use") {
        true => line.replacen('\n', &format!("\n{}\n", variable("STOP")), 1),
        false => line,
    };
    let is_safe = fix.risk == "safe" && !variable("DEVICE").is_empty();
    let kept = is_safe.then(|| files(&variable("DEVICE")));
    // What it saves goes into memory: the guest writes nowhere else.
    let folder = Dir::new("fix");
    shell(&tools::with_program(&line), folder.path());
    shell("umount /mnt 2>/dev/null; sync", Path::new("/"));
    assert_eq!(is_safe.then(|| files(&variable("DEVICE"))), kept, "{fix:?} changed what is stored");
    shell("umount /mnt 2>/dev/null; sync; echo 3 >/proc/sys/vm/drop_caches", Path::new("/"));
    judge(fix, &before, &tools::check(&disk, &[]));
}
