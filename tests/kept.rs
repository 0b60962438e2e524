//! A plan is a file, so it may contain anything: the entries that it keeps must match the disk in every
//! field.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "kept/in_memory.rs"]
mod in_memory;
use crate::tools;

use std::fs::{self, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};
use tools::{Contents, Dir, STRADDLE, output, present, straddle_in, transcript};

fn done(dir: &Dir, arguments: &[&str]) {
    let output = straddle_in(dir, arguments);
    assert!(output.status.success(), "{arguments:?}: {}", transcript(&output));
}

/// Makes a disk with a table of partitions 1, 2 and more, and a plan that keeps some of them.
fn planned(dir: &Dir, table: &str, change: &[&str]) -> Value {
    let _ = fs::remove_file(dir.join("disk"));
    dir.image("disk", 64 << 20);
    let parts = match table {
        "gpt" => "4MiB,name=one,attrs=0x4|6MiB,name=two|8MiB,name=three".to_owned(),
        _ => "4MiB,boot|6MiB|8MiB,role=logical|4MiB,role=logical|2MiB,role=logical".to_owned(),
    };
    let mut arguments = vec!["plan", "disk", "--table", table, "--save", "first"];
    parts.split('|').for_each(|part| arguments.extend(["--part", part]));
    done(dir, &arguments);
    done(dir, &["apply", "first", "--write", "disk"]);
    fs::remove_file(dir.join("first.undo")).unwrap();
    done(dir, &[&["plan", "disk", "--save", "second"], change].concat());
    serde_json::from_slice(&fs::read(dir.join("second")).unwrap()).unwrap()
}

/// Values that differ from those of an entry, by field.
fn otherwise(entry: &Value) -> Vec<(&'static str, Value)> {
    let number = entry["number"].as_u64().unwrap();
    let mut other = vec![
        ("number", json!(number + 1)),
        ("number", json!(number + 7)),
        ("number", json!(number.wrapping_sub(1).max(1))),
        ("start_lba", json!(entry["start_lba"].as_u64().unwrap() + 8)),
        ("sectors", json!(entry["sectors"].as_u64().unwrap() - 8)),
        ("type", json!("EBD0A0A2-B9E5-4433-87C0-68B6B72699C7")),
        ("type", json!("7")),
        ("name", json!("another")),
        ("attributes", json!(entry["attributes"].as_u64().unwrap() ^ 1)),
        ("bootable", json!(!entry["bootable"].as_bool().unwrap())),
        ("uuid", json!("01234567-89AB-4CDE-8F01-23456789ABCD")),
        ("role", json!("extended")),
        ("role", json!({"logical": {"ebr_lba": entry["start_lba"].as_u64().unwrap() - 1}})),
    ];
    // The size of a grown partition is for the plan to choose.
    let is_grown = entry["change"] != "kept";
    other.retain(|(key, value)| entry.get(key) != Some(value) && !(is_grown && *key == "sectors"));
    other
}

#[test]
fn a_plan_that_says_anything_else_of_what_it_keeps_is_not_written() {
    let dir = Dir::new("kept");
    let mut tried = 0;
    for (table, change) in [
        ("gpt", &["--delete", "3"][..]),
        ("gpt", &["--grow", "3=20MiB", "--add", "1MiB"]),
        ("mbr", &["--add", "2MiB,role=logical"]),
        ("mbr", &["--delete", "6"]),
    ] {
        let plan = planned(&dir, table, change);
        let before = Contents::of(&dir.join("disk"));
        for (index, entry) in plan["table"]["partitions"].as_array().unwrap().iter().enumerate() {
            if entry["change"] == "new" {
                continue;
            }
            for (key, value) in otherwise(entry) {
                let mut wrong = plan.clone();
                wrong["table"]["partitions"][index][key] = value.clone();
                fs::write(dir.join("wrong"), wrong.to_string()).unwrap();
                let output = straddle_in(&dir, &["apply", "wrong", "--write", "disk"]);
                let said = format!(
                    "{table} {change:?}, partition {}, {key} = {value}: {}",
                    entry["number"],
                    transcript(&output)
                );
                assert!(matches!(output.status.code(), Some(2..=4)), "{said}");
                assert!(
                    Contents::of(&dir.join("disk")) == before && !dir.join("wrong.undo").exists(),
                    "{said}"
                );
                tried += 1;
            }
        }
        done(&dir, &["apply", "second", "--write", "disk"]);
        done(&dir, &["undo", "second.undo", "--write", "disk"]);
        assert!(Contents::of(&dir.join("disk")) == before, "{table} {change:?}");
        fs::remove_file(dir.join("second.undo")).unwrap();
    }
    assert!(tried > 100, "{tried}");
}

#[test]
fn a_backup_that_does_not_fit_is_not_left_behind() {
    if !present(&["bash"]) {
        return;
    }
    let dir = Dir::new("backup");
    planned(&dir, "gpt", &["--delete", "3"]);
    let before = Contents::of(&dir.join("disk"));
    // Writing more than 1 KiB to a file fails (EFBIG), as on a full disk.
    let line = format!("trap '' XFSZ; ulimit -f 1; exec '{STRADDLE}' apply second --write disk");
    let full = output(Command::new("bash").args(["-c", &line]).current_dir(dir.path()), "");
    assert_eq!(full.status.code(), Some(3), "{}", transcript(&full));
    assert!(transcript(&full).contains("cannot store the backup"), "{}", transcript(&full));
    assert!(Contents::of(&dir.join("disk")) == before);
    let left: Vec<_> = fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert!(!left.iter().any(|name| Path::new(name).to_string_lossy().contains("undo")), "{left:?}");
    done(&dir, &["apply", "second", "--write", "disk"]);
    done(&dir, &["undo", "second.undo", "--write", "disk"]);
    assert!(Contents::of(&dir.join("disk")) == before);
}

/// After a failed write, the next apply explains the backup that already exists, and each command that it
/// suggests works.
#[test]
fn an_apply_that_failed_anywhere_is_explained_by_the_next() {
    if !present(&["strace"]) {
        return;
    }
    let dir = Dir::new("failed");
    let mut seen = [0; 2];
    for table in ["gpt", "mbr"] {
        planned(&dir, table, &["--delete", "3", "--add", "1MiB"]);
        let before = Contents::of(&dir.join("disk"));
        for write in 1.. {
            let inject = format!("inject=pwrite64:error=EIO:when={write}");
            let mut command = Command::new("strace");
            command.args([
                "-f",
                "--seccomp-bpf",
                "-qq",
                "-o",
                "/dev/null",
                "-e",
                "trace=pwrite64",
                "-e",
                &inject,
            ]);
            command.args([STRADDLE, "apply", "second", "--write", "disk"]).current_dir(dir.path());
            let failed = output(&mut command, "");
            if failed.status.success() {
                assert!(write > 1, "no write failed: {}", transcript(&failed));
                break;
            }
            assert!(transcript(&failed).contains("Input/output error"), "{}", transcript(&failed));
            let is_as_before = Contents::of(&dir.join("disk")) == before;
            let next = straddle_in(&dir, &["apply", "second", "--write", "disk"]);
            let said = transcript(&next);
            assert_eq!(next.status.code(), Some(4), "{table}, write {write}: {said}");
            let (words, command) = if is_as_before {
                (
                    "earlier change that is not on this disk",
                    "mv -n second.undo second.undo.earlier".to_owned(),
                )
            } else {
                ("an interrupted 'straddle apply'", format!("{STRADDLE} undo second.undo --write disk"))
            };
            seen[usize::from(is_as_before)] += 1;
            assert!(said.contains(words), "{table}, write {write}: {said}");
            let printed = command.replace(STRADDLE, "straddle");
            assert!(said.contains(&printed), "{printed}: {said}");
            let went = output(Command::new("sh").args(["-c", &command]).current_dir(dir.path()), "");
            assert!(went.status.success(), "{}", transcript(&went));
            assert!(Contents::of(&dir.join("disk")) == before, "{table}, write {write}");
            let _ = fs::remove_file(dir.join("second.undo"));
        }
        // Now all of it is written.
        let again = straddle_in(&dir, &["apply", "second", "--write", "disk"]);
        assert_eq!(again.status.code(), Some(4), "{}", transcript(&again));
        assert!(
            transcript(&again).contains("earlier change to this disk, which is complete"),
            "{}",
            transcript(&again)
        );
        done(&dir, &["undo", "second.undo", "--write", "disk"]);
        // The backup says that it was reverted, and is replaced.
        done(&dir, &["apply", "second", "--write", "disk"]);
        done(&dir, &["undo", "second.undo", "--write", "disk"]);
        fs::write(dir.join("second.undo"), "{}").unwrap();
        let foreign = straddle_in(&dir, &["apply", "second", "--write", "disk"]);
        assert_eq!(foreign.status.code(), Some(4), "{}", transcript(&foreign));
        assert!(transcript(&foreign).contains("--backup"), "{}", transcript(&foreign));
        assert!(Contents::of(&dir.join("disk")) == before);
        fs::remove_file(dir.join("second.undo")).unwrap();
    }
    assert!(seen.iter().all(|count| *count > 0), "{seen:?}");
}

/// What the tests compare images with sees each byte, wherever the holes are.
#[test]
fn contents_are_equal_only_if_all_bytes_are() {
    let dir = Dir::new("contents");
    let (len, start) = (3 << 20, 63 * 512);
    let image = dir.image("image", len);
    let put = |at: u64, byte: u8| {
        OpenOptions::new().write(true).open(&image).unwrap().write_all_at(&[byte], at).unwrap();
    };
    let before = Contents::of(&image);
    for at in [0, 1, 4095, 4096, start - 1, start, start + 4095, (1 << 20) + 7, len - 1] {
        put(at, 1);
        assert!(Contents::of(&image) != before, "{at}");
        let part = Contents::part(&image, start, len - start);
        assert_eq!(part != Contents::part(&dir.image("empty", len), start, len - start), at >= start, "{at}");
        let copy = dir.join("copy");
        part.write(&copy);
        assert!(fs::read(&copy).unwrap() == fs::read(&image).unwrap()[63 * 512..], "{at}");
        assert!(Contents::of(&copy) == part, "{at}: the same bytes at another place");
        // Zeros that are stored are no others than those of a hole.
        put(at, 0);
        assert!(Contents::of(&image) == before, "{at}");
    }
    assert!(Contents::of(&dir.image("longer", len + 1)) != before);
}

/// The backup of one disk is never offered for its clone: two disks from one template, the primary GPT of one
/// and the backup of the other damaged, are repaired with plans of the same name.
#[test]
fn the_backup_of_a_disk_is_not_offered_for_its_clone() {
    if !present(&["sgdisk"]) {
        return;
    }
    let dir = Dir::new("clones");
    planned(&dir, "gpt", &["--delete", "3"]);
    let template = dir.join("disk");
    let (one, other) = (dir.join("web1.img"), dir.join("web2.img"));
    fs::copy(&template, &one).unwrap();
    fs::copy(&template, &other).unwrap();
    let put = |path: &Path, at: u64| {
        let file = OpenOptions::new().write(true).open(path).unwrap();
        file.write_all_at(&[0; 512], at).unwrap();
    };
    put(&one, 512);
    put(&other, (64 << 20) - 512);
    done(&dir, &["plan", "web1.img", "--repair", "--save", "plan.json"]);
    done(&dir, &["apply", "plan.json", "--write", "web1.img"]);
    let before = Contents::of(&other);
    let refused = straddle_in(&dir, &["apply", "plan.json", "--write", "web2.img"]);
    let said = transcript(&refused);
    assert_eq!(refused.status.code(), Some(4), "{said}");
    assert!(said.contains("web1.img; choose another file with --backup"), "{said}");
    for arguments in [&[][..], &["--force"], &["--was", &one.display().to_string()]] {
        let undo = [&["undo", "plan.json.undo", "--write", "web2.img"], arguments].concat();
        let undone = straddle_in(&dir, &undo);
        assert_eq!(undone.status.code(), Some(4), "{arguments:?}: {}", transcript(&undone));
        assert!(Contents::of(&other) == before, "{arguments:?}");
    }
    // The rest of the first disk's table is what it was, under any name that is given.
    let moved = dir.join("renamed.img");
    fs::rename(&one, &moved).unwrap();
    let undone = straddle_in(&dir, &["undo", "plan.json.undo", "--write", "renamed.img"]);
    let said = transcript(&undone);
    assert_eq!(undone.status.code(), Some(4), "{said}");
    let option = format!("--was {}", one.display());
    assert!(said.contains(&option), "{said}");
    done(&dir, &["undo", "plan.json.undo", "--write", "renamed.img", "--was", &one.display().to_string()]);
    let verified = output(Command::new("sgdisk").arg("-v").arg(&moved), "");
    assert!(transcript(&verified).contains("corrupt"), "{}", transcript(&verified));
}

/// A partition is not made smaller than the file system in it, which was enlarged after the partition: its
/// data may be in the middle of what was gained, where nothing is watched.
#[test]
fn an_enlarged_file_system_is_not_cut() {
    if !present(&["sfdisk", "mkfs.ext4", "resize2fs", "e2fsck", "mkfs.btrfs", "mkfs.xfs"]) {
        return;
    }
    let dir = Dir::new("grown");
    let (small, large) = (350_u64 << 20, 700_u64 << 20);
    let shell = |line: &str| {
        let done = output(Command::new("sh").args(["-ec", line]).current_dir(dir.path()), "");
        assert!(done.status.success(), "{line}: {}", transcript(&done));
    };
    let into = "dd of=disk bs=1M seek=1 conv=notrunc,sparse status=none";
    // (a file system of 350 MiB in `fs`, and how it becomes one of 700 MiB)
    let enlarged = [
        (
            "mkfs.ext4 -q -F fs",
            "truncate -s 700M fs; e2fsck -fy fs >/dev/null 2>&1 || true; resize2fs fs >/dev/null 2>&1",
        ),
        ("mkfs.btrfs -q fs", "rm fs; truncate -s 700M fs; mkfs.btrfs -q fs"),
        ("mkfs.xfs -q fs", "rm fs; truncate -s 700M fs; mkfs.xfs -q fs"),
    ];
    for (made, grown) in enlarged {
        for name in ["disk", "fs", "plan", "plan.undo"] {
            let _ = fs::remove_file(dir.join(name));
        }
        dir.image("disk", 800 << 20);
        shell(&format!("echo 'label: gpt\n2048,{}' | sfdisk -q disk", small / 512));
        shell(&format!("truncate -s {small} fs; {made}; {into} if=fs"));
        let grow = format!("1={large}");
        done(&dir, &["plan", "disk", "--grow", &grow, "--save", "plan"]);
        done(&dir, &["apply", "plan", "--write", "disk"]);
        done(&dir, &["undo", "plan.undo", "--write", "disk"]);
        fs::remove_file(dir.join("plan.undo")).unwrap();
        done(&dir, &["apply", "plan", "--write", "disk"]);
        shell(grown);
        // Only what is in the partition's former space is written: nothing that is watched.
        shell("dd if=fs of=disk bs=1M count=350 seek=1 conv=notrunc status=none");
        let refused = straddle_in(&dir, &["undo", "plan.undo", "--write", "disk"]);
        let said = transcript(&refused);
        assert_eq!(refused.status.code(), Some(4), "{made}: {said}");
        assert!(
            said.contains("would shrink partition 1 to 350 MiB") && said.contains("--force"),
            "{made}: {said}"
        );
        let forced = straddle_in(&dir, &["undo", "plan.undo", "--write", "disk", "--force"]);
        assert!(forced.status.success(), "{made}: {}", transcript(&forced));
        assert!(transcript(&forced).contains("later changes were kept"), "{made}");
    }
}

/// LUKS without a size takes the whole partition. Whether what is in it was enlarged is not seen, and not
/// claimed.
#[test]
fn contents_that_record_no_size_may_have_been_enlarged() {
    if !present(&["sfdisk", "cryptsetup"]) {
        return;
    }
    let dir = Dir::new("no-size");
    dir.image("disk", 200 << 20);
    tools::write_table(&dir.join("disk"), 512, "label: gpt\nstart=2048, size=131072\n");
    let luks = "truncate -s 64M luks; printf key | cryptsetup luksFormat -q --type luks2 --pbkdf pbkdf2 \
                --pbkdf-force-iterations 1000 --key-file - luks; dd if=luks of=disk bs=1M seek=1 conv=notrunc status=none";
    tools::shell(luks, dir.path());
    done(&dir, &["plan", "disk", "--grow", "1=128MiB", "--save", "plan"]);
    done(&dir, &["apply", "plan", "--write", "disk"]);
    let refused = straddle_in(&dir, &["undo", "plan.undo", "--write", "disk"]);
    let said = transcript(&refused);
    assert_eq!(refused.status.code(), Some(4), "{said}");
    assert!(said.contains("record no size") && !said.contains("uses"), "{said}");
    done(&dir, &["undo", "plan.undo", "--write", "disk", "--force"]);
}
