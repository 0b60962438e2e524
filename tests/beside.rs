//! Content that shares a disk with its partition table is detected, for every type that blkid knows, and no
//! plan overwrites it except with --wipe.

#![allow(clippy::unwrap_used, reason = "what these tests prepare works, or they fail")]

#[path = "beside/guest.rs"]
mod guest;
#[path = "beside/hidden.rs"]
mod hidden;
use crate::tools;

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};

use serde_json::Value;
use tools::skip::{cases, is_sampled};
use tools::{Dir, STRADDLE, at_once, list, output, present, shell, straddle_in, transcript, word};

fn codes(target: &Value) -> Vec<String> {
    list(target, "findings").iter().map(|finding| word(finding, "code")).collect()
}

/// The size of a disk unless the tool needs another one.
const LEN: u64 = 64 << 20;

/// Every mkfs of Debian that is installed here: the tool, and the command that formats a whole disk.
const MADE: [(&str, &str); 22] = [
    ("mkfs.ext2", "mkfs.ext2 -q disk"),
    ("mkfs.ext3", "mkfs.ext3 -q disk"),
    ("mkfs.ext4", "mkfs.ext4 -q disk"),
    ("mke2fs", "mke2fs -q -O journal_dev disk"),
    ("mkfs.xfs", "truncate -s 400M disk; mkfs.xfs -q disk"),
    ("mkfs.btrfs", "truncate -s 200M disk; mkfs.btrfs -q disk"),
    ("mkfs.vfat", "mkfs.vfat disk"),
    ("mkfs.vfat", "mkfs.vfat -F 32 disk"),
    ("mkfs.exfat", "mkfs.exfat disk"),
    ("mkfs.ntfs", "mkfs.ntfs -qFf disk"),
    ("mkfs.f2fs", "mkfs.f2fs -q disk"),
    ("mkfs.jfs", "mkfs.jfs -q disk"),
    ("mkfs.nilfs2", "truncate -s 200M disk; mkfs.nilfs2 -q disk"),
    ("mkfs.reiserfs", "mkfs.reiserfs -qff disk"),
    ("mkfs.minix", "mkfs.minix -3 disk"),
    ("mkfs.minix", "mkfs.minix -2 disk"),
    ("mkfs.gfs2", "mkfs.gfs2 -O -p lock_nolock disk"),
    ("mkfs.ocfs2", "truncate -s 200M disk; mkfs.ocfs2 -q -M local -F disk"),
    ("mkswap", "mkswap disk"),
    ("cryptsetup", "echo x | cryptsetup luksFormat -q --type luks1 --pbkdf-force-iterations 1000 disk"),
    ("cryptsetup", "echo x | cryptsetup luksFormat -q --pbkdf-force-iterations 4 --pbkdf-memory 32 disk"),
    ("make-bcache", "make-bcache -B disk"),
];

/// Signatures that no tool writes without a kernel: offset (from the end if negative), and bytes.
const WRITTEN: [&[(i64, &[u8])]; 14] = [
    &[(-512, b"\xDE\x11\xDE\x11")],
    &[(-257 * 512, b"\x11\xDE\x11\xDE")],
    &[(-1024, b"Intel Raid ISM Cfg Sig. 1.3.00")],
    &[(-512, b"$XIDE$")],
    &[(-512, b"\x55\xAA\x01"), (-512 + 50, b"\0")],
    &[(-1024, b"NVIDIA  \x1E\0\0\0")],
    &[(-63 * 512, b"Promise Technology, Inc.")],
    &[(-11 * 512, b"\xF3\x16\x78\x5A")],
    &[(-512, b"\x37\xFC\x4D\x1E"), (-256, b"DPTM")],
    &[(4640, b"\xF0\x16\x78\x5A")],
    &[(-4096 + 60, b"\x83\x74\x02\x6B")],
    &[(1024, b"H+\0\x04"), (1024 + 40, b"\0\0\x10\0")],
    &[(65536, b"\x01\x16\x19\x70"), (65536 + 24, b"\0\0\x07\x09")],
    &[(8192, b"\x49\xE8\x95\xF9")],
];

/// A RAID1 member with metadata 1.x whose superblock is at `at`, built by hand after `super_1` of drivers/md.
fn md_1(at: u64, data: u64, sectors: u64) -> Vec<u8> {
    let mut block = vec![0; 4096];
    let mut put = |at: usize, bytes: &[u8]| block[at..at + bytes.len()].copy_from_slice(bytes);
    for (at, word) in [(0, 0xa92b_4efc_u32), (4, 1), (72, 1), (92, 2), (220, 128)] {
        put(at, &word.to_le_bytes());
    }
    for (at, long) in [(80, sectors), (128, data), (136, sectors), (144, at / 512)] {
        put(at, &u64::to_le_bytes(long));
    }
    put(16, b"0123456789abcdef");
    let words = block[..512].chunks(4).map(|word| u64::from(u32::from_le_bytes(word.try_into().unwrap())));
    let sum: u64 = words.sum();
    let sum = u32::try_from((sum & 0xffff_ffff) + (sum >> 32)).unwrap();
    block[216..220].copy_from_slice(&sum.to_le_bytes());
    block
}

/// A RAID1 member with metadata 0.90, for an array of `kib` KiB.
fn md_0(kib: u32) -> Vec<u8> {
    let mut words = vec![0_u32; 1024];
    for (at, word) in [(0, 0xa92b_4efc), (2, 90), (5, 1), (7, 1), (8, kib), (9, 2), (10, 2), (996, 6)] {
        words[at] = word;
    }
    let sum: u64 = words.iter().map(|word| u64::from(*word)).sum();
    words[38] = u32::try_from((sum & 0xffff_ffff) + (sum >> 32)).unwrap();
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

/// Calls `test` with each disk of the tests, made in a directory of its own.
fn each(test: impl Fn(&Dir, &str) + Sync) {
    at_once(MADE, |(tool, line)| {
        if present(&[tool]) {
            let dir = Dir::new("beside");
            dir.image("disk", LEN);
            shell(line, dir.path());
            test(&dir, line);
        }
    });
    let members = [
        (4096, md_1(4096, 4096, (LEN >> 9) - 4096)),
        (0, md_1(0, 4096, (LEN >> 9) - 4096)),
        (LEN - 8192, md_1(LEN - 8192, 0, (LEN >> 9) - 32)),
        (LEN - 65536, md_0(u32::try_from((LEN - 65536) >> 10).unwrap())),
    ];
    let members = members.iter().map(|(at, bytes)| vec![(i64::try_from(*at).unwrap(), bytes.as_slice())]);
    at_once(WRITTEN.iter().map(|writes| writes.to_vec()).chain(members), |writes| {
        let dir = Dir::new("beside");
        let disk = fs::OpenOptions::new().write(true).open(dir.image("disk", LEN)).unwrap();
        for (at, bytes) in &writes {
            let at = if *at < 0 { LEN - at.unsigned_abs() } else { at.unsigned_abs() };
            disk.write_all_at(bytes, at).unwrap();
        }
        // A process that has the disk open for writing counts as a user of it, so it is closed first.
        drop(disk);
        test(&dir, &format!("{:?}", writes[0].0));
    });
}

/// The type that blkid prints, other than a table.
fn named(dir: &Path) -> String {
    let found =
        output(Command::new("blkid").args(["-p", "-o", "value", "-s", "TYPE", "disk"]).current_dir(dir), "");
    String::from_utf8_lossy(&found.stdout).trim().to_owned()
}

/// Adds a table with one partition to what is on the disk: the bytes that `sfdisk --wipe never` writes.
/// sfdisk waits for a quarter of a second each time, so each table is made only once.
fn write_table(dir: &Path, label: &str) {
    static MADE: Mutex<BTreeMap<(String, u64), Vec<u8>>> = Mutex::new(BTreeMap::new());
    let disk = fs::OpenOptions::new().write(true).open(dir.join("disk")).unwrap();
    let len = disk.metadata().unwrap().len();
    let mut made = MADE.lock().unwrap();
    let table = made.entry((label.to_owned(), len)).or_insert_with(|| {
        let dir = Dir::new("beside-table");
        let disk = dir.image("disk", len);
        shell(
            &format!("printf 'label: {label}\\n32768,16384\\n' | sfdisk -q --no-tell-kernel disk"),
            dir.path(),
        );
        let whole = fs::read(disk).unwrap();
        [&whole[..34 * 512], &whole[whole.len() - 33 * 512..]].concat()
    });
    // The boot code before byte 440 is kept.
    disk.write_all_at(&table[440..512], 440).unwrap();
    if label == "gpt" {
        disk.write_all_at(&table[512..34 * 512], 512).unwrap();
        disk.write_all_at(&table[34 * 512..], len - 33 * 512).unwrap();
    }
}

/// Every kind of plan that can be requested, and whether it is for a GPT only.
const PLANS: [(&[&str], bool); 8] = [
    (&["--table", "gpt", "--part", "rest"], false),
    (&["--table", "mbr", "--part", "rest"], false),
    (&["--add", "1MiB"], false),
    (&["--delete", "1"], false),
    (&["--grow", "1"], false),
    (&["--convert-table", "4096", "--logical", "512"], false),
    (&["--repair"], true),
    (&["--relocate-backup"], true),
];

#[test]
fn what_blkid_names_beside_a_table_is_named_and_kept() {
    if !present(&["blkid", "sfdisk"]) {
        return;
    }
    let seen = AtomicU32::new(0);
    each(|dir, line| {
        shell("cp --sparse=always disk content", dir.path());
        // Of a sample, a table of one kind beside each content.
        let labels = ["dos", "gpt"].into_iter().skip(usize::from(is_sampled()) * (line.len() % 2));
        for label in cases(labels, 2) {
            shell("cp --sparse=always content disk", dir.path());
            write_table(dir.path(), label);
            let name = named(dir.path());
            if name.is_empty() {
                continue;
            }
            seen.fetch_add(1, Ordering::Relaxed);
            let what = format!("{line}, {label}, {name}");
            let checked = straddle_in(dir.path(), &["check", "disk"]);
            assert!(transcript(&checked).contains(&name), "{what}: {}", transcript(&checked));
            for (plan, gpt_only) in cases(PLANS.into_iter(), 2) {
                if gpt_only && label != "gpt" {
                    continue;
                }
                let refused = straddle_in(dir.path(), &[&["plan", "disk", "--save", "plan"], plan].concat());
                assert_eq!(refused.status.code(), Some(4), "{what}, {plan:?}: {}", transcript(&refused));
                assert!(transcript(&refused).contains(&name), "{what}, {plan:?}: {}", transcript(&refused));
                assert!(!dir.join("plan").exists(), "{what}, {plan:?}");
            }
        }
    });
    let seen = seen.into_inner();
    assert!(seen >= if is_sampled() { 20 } else { 40 }, "blkid named {seen}");
}

/// The bytes in a GPT's own entries are not a signature, whatever GUID a partition happens to have.
#[test]
fn a_guid_is_not_taken_for_a_signature() {
    if !present(&["sfdisk"]) {
        return;
    }
    for guid in ["7F13", "8F13", "6824", "7824", "137F", "138F", "2468", "2478"] {
        for kind in cases(["L", "U", "S", "R", "V"].into_iter(), 2) {
            let dir = Dir::new("guid");
            dir.image("disk", LEN);
            // The first four bytes of a GUID are stored in reverse order.
            let (first, second) = guid.split_at(2);
            let uuid = format!("0000{second}{first}-0000-4000-8000-000000000000");
            shell(
                &format!(
                    "printf 'label: gpt\nstart=2048,size=16384,type={kind},uuid={uuid}\n' | sfdisk -q --no-tell-kernel disk"
                ),
                dir.path(),
            );
            let checked = straddle_in(dir.path(), &["check", "disk"]);
            assert!(!transcript(&checked).contains("also holds"), "{uuid}: {}", transcript(&checked));
            let planned = straddle_in(dir.path(), &["plan", "disk", "--add", "1MiB"]);
            assert_eq!(planned.status.code(), Some(0), "{uuid}: {}", transcript(&planned));
        }
    }
}

#[test]
fn with_wipe_the_new_table_is_the_disks_own() {
    if !present(&["blkid", "sfdisk"]) {
        return;
    }
    each(|dir, line| {
        shell("cp --sparse=always disk content", dir.path());
        let tables = [("dos", "gpt"), ("dos", "mbr"), ("gpt", "mbr"), ("gpt", "gpt")];
        let first = if is_sampled() { line.len() % 4 } else { 0 };
        for (label, table) in cases(tables.into_iter().skip(first), 4) {
            shell("cp --sparse=always content disk", dir.path());
            write_table(dir.path(), label);
            let name = named(dir.path());
            let what = format!("{line}, {label} to {table}, {name}");
            let args = ["plan", "disk", "--wipe", "--table", table, "--part", "1MiB", "--save", "plan"];
            let planned = straddle_in(dir.path(), &args);
            assert_eq!(planned.status.code(), Some(0), "{what}: {}", transcript(&planned));
            let line = format!("will become inaccessible: the whole disk: {name}");
            assert!(
                name.is_empty() || transcript(&planned).contains(&line),
                "{what}: {}",
                transcript(&planned)
            );
            let applied = straddle_in(dir.path(), &["apply", "plan", "--write", "disk"]);
            assert_eq!(applied.status.code(), Some(0), "{what}: {}", transcript(&applied));
            fs::remove_file(dir.join("plan.undo")).unwrap();
            let report = straddle_in(dir.path(), &["check", "--json", "disk"]);
            let report: Value = serde_json::from_slice(&report.stdout).unwrap();
            let partitions = report["targets"][0]["partitions"].as_array().unwrap();
            assert_eq!(partitions.len(), 1, "{what}: {report}");
        }
    });
}

/// Content of a whole disk that survives when an MBR or a GPT is added: the tool and the command.
const WHOLE: [(&str, &str); 7] = [
    ("mkfs.ext4", "mkfs.ext4 -q -F -b 4096 disk"),
    ("mkfs.ext4", "mkfs.ext4 -q -F -b 1024 disk"),
    ("mkswap", "mkswap -q disk"),
    ("mkfs.btrfs", "mkfs.btrfs -q disk"),
    ("mkfs.xfs", "mkfs.xfs -q disk"),
    (
        "cryptsetup",
        "echo secret | cryptsetup luksFormat -q --type luks2 --pbkdf pbkdf2 --pbkdf-force-iterations 1000 disk -",
    ),
    (
        "gzip",
        concat!(
            "for at in 0 256 $((320 * 1024 - 512)) $((320 * 1024 - 256)); do gzip -dc ",
            env!("CARGO_MANIFEST_DIR"),
            "/crates/layout/tests/zfs/ashift12.label.gz | dd of=disk bs=1K seek=$at conv=notrunc status=none; done"
        ),
    ),
];

/// Content of a whole disk beside a table: no printed command overwrites it. If a partition's content is not
/// known, neither the table nor the whole disk's content is judged.
#[test]
fn a_table_does_not_hide_what_fills_the_disk() {
    if !present(&["sfdisk", "mkfs.ext4", "blkid"]) {
        return;
    }
    let size = 320 << 20;
    let labels = [("dos", "mbr", "label: dos"), ("gpt", "gpt", "label: gpt\nfirst-lba: 34")];
    let all = WHOLE.into_iter().flat_map(|whole| labels.map(|label| (whole, label)));
    at_once(cases(all, 5), |((tool, make), (label, kind, header))| {
        if !present(&[tool]) {
            return;
        }
        let dir = Dir::new("over");
        dir.image("disk", size);
        shell(make, dir.path());
        fs::rename(dir.join("disk"), dir.join("whole")).unwrap();
        for (start, content) in
            [63, 300_000].into_iter().flat_map(|start| IN_IT.map(|content| (start, content)))
        {
            shell("cp --sparse=always whole disk", dir.path());
            let line = format!(
                "printf '{header}\nstart={start},size=80000\n' | sfdisk -q --no-tell-kernel --wipe never disk"
            );
            shell(&line, dir.path());
            // A GPT overwrites the signature of some content completely.
            if label == "gpt" && named(dir.path()).is_empty() {
                assert!(!["btrfs", "xfs", "luks", "zfs"].iter().any(|kept| make.contains(kept)), "{make}");
                continue;
            }
            // Below 32 MiB, a file system in the partition would overwrite structures of the one on the whole
            // disk.
            let is_known = content.starts_with("mkfs") && start > 63;
            if is_known || content == "true" {
                shell(&content.replace("START", &start.to_string()), dir.path());
            }
            let report = straddle_in(dir.path(), &["check", "--json", "disk"]);
            let report: Value = serde_json::from_slice(&report.stdout).unwrap();
            let target = &report["targets"][0];
            let what = format!("{make}, {label}, {start}, {is_known}: {target}");
            assert_eq!(target["table"]["format"], kind, "{what}");
            let is_reported = target.to_string().contains(&format!("partition table ({label})"));
            assert_eq!(is_reported, !is_known, "{what}");
            assert_eq!(target["status"] == "not_judged", !is_known, "{what}");
            assert_eq!(target.to_string().contains("cannot tell which"), !is_known, "{what}");
            for finding in target["findings"].as_array().unwrap() {
                let commands = finding["fix"]["commands"].as_array().map_or(0, Vec::len);
                assert_eq!(commands, 0, "{what}");
            }
        }
    });
}

/// No command of a table tool is printed where it would overwrite the content of the whole disk. Here only
/// the backup of that content's own table is left.
#[test]
fn no_tool_of_tables_is_printed_over_what_fills_the_disk() {
    if !present(&["sfdisk", "mkfs.ext4", "mkfs.xfs"]) {
        return;
    }
    let dir = Dir::new("over-backup");
    dir.image("disk", 320 << 20);
    shell("mkfs.xfs -q disk && cp --sparse=always disk whole", dir.path());
    let line = "printf 'label: gpt\nstart=20480,size=65536\n' | sfdisk -q --no-tell-kernel --wipe never disk";
    for content in [&IN_IT[0].replace("START", "20480"), "true"] {
        shell("cp --sparse=always whole disk", dir.path());
        shell(line, dir.path());
        shell(content, dir.path());
        // The content of the whole disk is restored from the second sector on.
        shell("dd if=whole of=disk bs=512 skip=1 seek=1 count=40 conv=notrunc status=none", dir.path());
        let report = straddle_in(dir.path(), &["check", "--json", "disk"]);
        let report: Value = serde_json::from_slice(&report.stdout).unwrap();
        let target = &report["targets"][0];
        assert!(codes(target).iter().any(|code| code == "S031"), "{content}: {target}");
        for finding in list(target, "findings") {
            let commands = finding["fix"]["commands"].as_array().map_or(0, Vec::len);
            assert_eq!(commands, 0, "{content}: {target}");
        }
        let refused = straddle_in(dir.path(), &["plan", "disk", "--repair"]);
        assert_eq!(refused.status.code(), Some(4), "{content}: {}", transcript(&refused));
    }
}

/// A hybrid image on a 64 MiB stick: 20 MiB of ISO 9660, an active MBR entry of type 0 for all of it, and the
/// partition of its boot image.
fn hybrid(dir: &Dir) {
    shell(
        "mkdir d; head -c 20M /dev/urandom > d/big; genisoimage -quiet -o disk d; truncate -s 64M disk",
        dir.path(),
    );
    let sectors = fs::metadata(dir.join("d/big")).unwrap().len() / 512 + 400;
    let disk = fs::OpenOptions::new().write(true).open(dir.join("disk")).unwrap();
    let entry = |status: u8, kind: u8, start: u64, count: u64| {
        let [start, count] = [start, count].map(|n| u32::try_from(n).unwrap().to_le_bytes());
        [&[status, 0, 1, 0, kind, 0xFE, 0xFF, 0xFF], &start[..], &count[..]].concat()
    };
    disk.write_all_at(&entry(0x80, 0, 0, sectors), 446).unwrap();
    disk.write_all_at(&entry(0, 0xEF, 600, 2000), 446 + 16).unwrap();
    disk.write_all_at(b"\x55\xAA", 510).unwrap();
}

/// The end of the ISO image according to its own size field.
fn end_of_iso(disk: &[u8]) -> u64 {
    u64::from(u32::from_le_bytes(disk[32768 + 80..][..4].try_into().unwrap())) * 2048
}

#[test]
fn a_stick_with_an_iso_keeps_it() {
    if !present(&["genisoimage"]) {
        return;
    }
    let dir = Dir::new("beside-iso");
    hybrid(&dir);
    let before = fs::read(dir.join("disk")).unwrap();
    // The only free space is behind the image, and the active entry is kept.
    let plan = ["plan", "disk", "--add", "20MiB", "--add", "1MiB", "--json", "--save", "plan"];
    let planned = straddle_in(dir.path(), &plan);
    assert_eq!(planned.status.code(), Some(0), "{}", transcript(&planned));
    let plan: Value = serde_json::from_slice(&fs::read(dir.join("plan")).unwrap()).unwrap();
    let new: Vec<&Value> =
        list(&plan["table"], "partitions").iter().filter(|entry| entry["change"] == "new").collect();
    assert_eq!(new.len(), 2, "{plan}");
    for entry in new {
        assert!(entry["start_lba"].as_u64().unwrap() * 512 >= end_of_iso(&before), "{entry}");
        assert_ne!(entry["number"], 1, "{entry}");
    }
    let applied = straddle_in(dir.path(), &["apply", "plan", "--write", "disk"]);
    assert_eq!(applied.status.code(), Some(0), "{}", transcript(&applied));
    let after = fs::read(dir.join("disk")).unwrap();
    assert!(after[..446 + 32] == before[..446 + 32] && after[512..] == before[512..]);
    for (name, plan) in [
        ("too large", &["--add", "60MiB"][..]),
        ("grown", &["--grow", "2"]),
        ("entry 1", &["--add", "1MiB,number=1"]),
    ] {
        let refused = straddle_in(dir.path(), &[&["plan", "disk"][..], plan].concat());
        assert_ne!(refused.status.code(), Some(0), "{name}: {}", transcript(&refused));
    }
}

/// The image's entry begins with the MBR, whatever its type: xorriso writes 0x17, other tools 0x83 or 0xCD.
#[test]
fn the_entry_of_an_iso_may_have_any_type() {
    for kind in [0x17_u8, 0x83, 0xCD].into_iter().filter(|_| present(&["genisoimage", "sfdisk"])) {
        let dir = Dir::new("beside-types");
        hybrid(&dir);
        let disk = fs::OpenOptions::new().write(true).open(dir.join("disk")).unwrap();
        disk.write_all_at(&[kind], 446 + 4).unwrap();
        disk.write_all_at(&[0; 16], 446 + 16).unwrap();
        drop(disk);
        let steps = "S plan disk --add 20MiB --save p && S apply p --write disk && sfdisk -d disk";
        let said = shell(&steps.replace("S ", &format!("{STRADDLE} ")), dir.path());
        assert_eq!(said.matches("size=").count(), 2, "{kind:#x}: {said}");
    }
}

/// A table that would be read as something else than the plan's is not written. Without its last partition
/// the MBR would no longer count, and the medium would again be read as ISO 9660.
#[test]
fn what_would_be_read_otherwise_is_refused_before_it_is_written() {
    if !present(&["genisoimage"]) {
        return;
    }
    let dir = Dir::new("beside-unread");
    hybrid(&dir);
    shell("head -c 16 /dev/zero | dd of=disk bs=1 seek=446 conv=notrunc status=none", dir.path());
    // Another GPT comes into effect once the MBR lists nothing.
    shell(
        "truncate -s 64M other; printf 'label: gpt\n40960,2048\n' | sfdisk -q --no-tell-kernel other",
        dir.path(),
    );
    shell("dd if=other of=disk bs=512 skip=1 seek=1 count=33 conv=notrunc status=none", dir.path());
    shell("dd if=other of=disk bs=512 skip=131039 seek=131039 conv=notrunc status=none", dir.path());
    let before = fs::read(dir.join("disk")).unwrap();
    let planned = straddle_in(dir.path(), &["plan", "disk", "--delete", "2", "--save", "plan"]);
    assert_eq!(planned.status.code(), Some(0), "{}", transcript(&planned));
    let refused = straddle_in(dir.path(), &["apply", "plan", "--write", "disk"]);
    assert_eq!(refused.status.code(), Some(4), "{}", transcript(&refused));
    assert!(transcript(&refused).contains("nothing was written"), "{}", transcript(&refused));
    assert!(
        transcript(&refused).contains("the table lists partition 1 (2048 sectors from sector 40960)"),
        "{}",
        transcript(&refused)
    );
    assert!(fs::read(dir.join("disk")).unwrap() == before && !dir.join("plan.undo").exists());
}

/// Disk formats other than a raw image: the name in messages, the tool, and the command that makes `file`.
const FORMS: [(&str, &str, &str); 7] = [
    ("VHD", "qemu-img", "qemu-img create -q -f vpc -o subformat=fixed file 8M; {DAMAGE}"),
    (
        "VHD",
        "qemu-img",
        "qemu-img create -q -f vpc -o subformat=fixed file 8M; head -c -1 file > f; mv f file",
    ),
    (
        "VHD",
        "qemu-img",
        "qemu-img create -q -f vpc file 8M; printf x | dd of=file bs=1 seek=70 conv=notrunc status=none",
    ),
    ("zstd", "pzstd", "head -c 1M disk | pzstd -q -c > file"),
    ("lz4", "lz4", "head -c 1M disk | lz4 -l -q -c > file"),
    ("DMG", "sh", "{ printf 'encrcdsa\\0\\0\\0\\002'; head -c 1M disk; } > file"),
    ("DMG", "sh", "{ head -c 1M disk; printf cdsaencr; } > file"),
];

#[test]
fn a_file_of_another_form_is_not_taken_for_a_disk() {
    for (name, tool, line) in FORMS {
        if !present(&[tool]) {
            continue;
        }
        // Damages one byte in each field of the footer, including its checksum.
        let damages = (8..85).step_by(if line.contains("{DAMAGE}") { 7 } else { 100 });
        for field in cases(damages, 3) {
            let dir = Dir::new("form");
            dir.image("disk", 8 << 20);
            shell("printf 'label: dos\n63,2048\n' | sfdisk -q --no-tell-kernel disk", dir.path());
            let damage = "at=$(($(stat -c %s file) - 512 + FIELD)); printf '\\377' | dd of=file bs=1 seek=$at conv=notrunc status=none";
            let line = line.replace("{DAMAGE}", &damage.replace("FIELD", &field.to_string()));
            shell(&line, dir.path());
            let args = ["plan", "file", "--table", "gpt", "--part", "rest", "--save", "plan"];
            let refused = straddle_in(dir.path(), &args);
            assert_eq!(refused.status.code(), Some(4), "{line}: {}", transcript(&refused));
            assert!(transcript(&refused).contains(name), "{line}: {}", transcript(&refused));
            let checked = straddle_in(dir.path(), &["check", "file"]);
            assert!(matches!(checked.status.code(), Some(0 | 3)), "{line}: {}", transcript(&checked));
        }
    }
}

/// parted's Atari tables are recognised whatever entries they have.
#[test]
fn an_atari_table_is_known_with_any_of_its_entries() {
    if !present(&["parted"]) {
        return;
    }
    let parts =
        "mkpart primary ext2 1MiB 8MiB mkpart primary ext2 8MiB 16MiB mkpart primary ext2 16MiB 24MiB";
    for line in ["", parts, &format!("{parts} rm 1"), &format!("{parts} rm 1 rm 2"), &format!("{parts} rm 3")]
    {
        let dir = Dir::new("atari");
        dir.image("disk", LEN);
        shell(&format!("parted -s disk mklabel atari {line}"), dir.path());
        for args in
            [&["plan", "disk", "--table", "gpt"][..], &["plan", "disk", "--table", "mbr", "--part", "rest"]]
        {
            let refused = straddle_in(dir.path(), args);
            assert_eq!(refused.status.code(), Some(4), "{line}: {}", transcript(&refused));
            assert!(transcript(&refused).contains("atari"), "{line}: {}", transcript(&refused));
        }
    }
}

/// Superblocks of members: the metadata version, the superblock's offset, the start of the array's data that
/// it records (in sectors), and whether the first bytes of the disk are therefore free for other content.
const MARKS: [(&str, u64, u64, bool); 4] = [
    ("1.2", 4096, 4096, true),
    ("1.1", 0, 4096, true),
    ("1.0", LEN - 8192, 0, false),
    ("1.0 with an offset", LEN - 8192, 2048, true),
];

/// Tables beside a superblock: the name, and the command that makes one with its partition at START. For 1.1,
/// most tables would lie under the superblock.
const BESIDE_A_MARK: [(&str, &str); 7] = [
    (
        "dos",
        "printf 'label: dos\\nSTART,65536\\n' | sfdisk -q --no-tell-kernel --wipe never --wipe-partitions never disk",
    ),
    (
        "gpt",
        "printf 'label: gpt\\nfirst-lba: 34\\nSTART,65536\\n' | sfdisk -q --no-tell-kernel --wipe never --wipe-partitions never disk",
    ),
    (
        "gpt",
        "printf 'label: gpt\\ntable-length: 4\\nfirst-lba: 20\\nSTART,65536\\n' | sfdisk -q --no-tell-kernel --wipe never --wipe-partitions never disk",
    ),
    ("sun", "echo label: sun | sfdisk -q --no-tell-kernel disk"),
    ("sgi", "echo label: sgi | sfdisk -q --no-tell-kernel disk"),
    (
        "mac",
        "{ printf 'ER\\2\\0'; head -c 508 /dev/zero; printf 'PM\\0\\0\\0\\0\\0\\1'; } | dd of=disk conv=notrunc status=none",
    ),
    ("amiga", "printf RDSK | dd of=disk bs=512 seek=1 conv=notrunc status=none"),
];

/// The content of the partition at START: something known, something unknown, nothing.
const IN_IT: [&str; 3] = [
    "mkfs.ext4 -q -F -b 4096 -E offset=$((START * 512)) disk 32M",
    "yes straddle | head -c 1M | dd of=disk bs=512 seek=START conv=notrunc status=none",
    "true",
];

/// File systems whose boot sectors end like an MBR: the tool, the command, and blkid's name.
const BOOT_SECTORS: [(&str, &str, &str); 4] = [
    ("mkfs.ntfs", "mkfs.ntfs -QFfq disk", "ntfs"),
    ("mkfs.vfat", "mkfs.vfat disk", "vfat"),
    ("mkfs.vfat", "mkfs.vfat -F 32 disk", "vfat"),
    ("mkfs.exfat", "mkfs.exfat disk", "exfat"),
];
