//! Disks copied by the program to other images, laid out right: what is in them, what is refused, and what an
//! interruption leaves.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

#[path = "copy/planned.rs"]
mod planned;
use crate::tools;

use std::fs;
use std::io::Read;
use std::path::Path;
use std::time::Duration;

use straddle_repair::copy::{Copy, CopyError, Source, Unreadable};
use tools::shell::{program as straddle, shell, started};
use tools::skip::{PATH, present};

/// An MBR disk of 80 MiB, partitioned as Windows XP did: from sector 63, without a gap; a logical partition
/// is the last.
const MAKE: &str = "\
truncate -s 80M xp.img
printf 'label: dos\\nlabel-id: 0xdeadbeef\\nstart=63,size=40000,type=7,bootable\\nstart=40063,size=40001,type=83\\nstart=80064,type=f\\nstart=80127,size=20000,type=c\\n' |
    sfdisk -q --no-tell-kernel xp.img
printf 'boot code' | dd of=xp.img conv=notrunc status=none
printf 'core image' | dd of=xp.img bs=512 seek=1 conv=notrunc status=none
head -c 3000000 /dev/urandom >file; mkdir tree; cp file tree
truncate -s $((40000 * 512)) 1; mkfs.ntfs -q -F -f -p 63 -H 255 -S 63 1 >/dev/null 2>&1; ntfscp -q 1 file file
truncate -s $((40001 * 512)) 2; mkfs.ext4 -q -b 4096 -d tree 2
truncate -s $((20000 * 512)) 5; mkfs.vfat -F 16 -h 63 5 >/dev/null; mcopy -i 5 file ::file
for part in '1 63' '2 40063' '5 80127'; do
    set -- $part; dd if=$1 of=xp.img bs=64K oflag=seek_bytes seek=$(($2 * 512)) conv=notrunc,sparse status=none
done
cp --sparse=always xp.img before.img";

/// Checks each file system of `new.img` and the file in it.
const JUDGE: &str = "\
rm -f now.* out
sfdisk -d new.img | sed -n 's/^new.img\\([0-9]*\\) : start= *\\([0-9]*\\), size= *\\([0-9]*\\),.*/\\1 \\2 \\3/p' | while read -r part from size; do
    test $((from % 2048)) = 0
    dd if=new.img of=now.$part bs=64K iflag=skip_bytes,count_bytes skip=$((from * 512)) count=$((size * 512)) status=none
    echo \"$part $from\" >>now.starts
done
ntfsfix -n now.1 >/dev/null; ntfscat now.1 file | cmp - file
e2fsck -fn now.2 >/dev/null 2>&1; debugfs -R 'dump file out' now.2 2>/dev/null; cmp out file
fsck.vfat -n now.5 >/dev/null; mcopy -n -i now.5 ::file out; cmp out file
test \"$(od -An -tu4 -j28 -N4 now.1 | tr -d ' ')\" = \"$(sed -n 's/^1 //p' now.starts)\"
test \"$(head -c 9 new.img)\" = 'boot code'; test \"$(dd if=new.img bs=512 skip=1 count=1 status=none | head -c 10)\" = 'core image'
sfdisk -d new.img | grep -q 'label-id: 0xdeadbeef'
sfdisk -d new.img | grep -q 'new.img1.*type=7, bootable'
cmp xp.img before.img";

fn is_ready() -> bool {
    present(&["sfdisk", "mkfs.ntfs", "ntfscp", "ntfsfix", "mkfs.vfat", "mcopy", "mkfs.ext4", "debugfs"])
}

fn prepared() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    shell(dir.path(), MAKE);
    dir
}

const PLAN: [&str; 6] = ["realign", "xp.img", "--to", "new.img", "--save", "copy.json"];
const APPLY: [&str; 6] = ["apply", "copy.json", "--from", "xp.img", "--write", "new.img"];

#[test]
fn a_disk_from_sector_63_is_copied_to_a_new_image() {
    if !is_ready() {
        return;
    }
    let dir = prepared();
    let folder = dir.path();
    let (status, text) = straddle(folder, &PLAN);
    assert_eq!(status, 0, "{text}");
    assert!(text.contains("UUIDs are kept"), "{text}");
    assert!(!folder.join("new.img").exists(), "a plan writes nothing");
    let (status, text) = straddle(folder, &APPLY);
    assert_eq!(status, 0, "{text}");
    shell(folder, JUDGE);
    let (_, text) = straddle(folder, &["check", "new.img"]);
    assert!(!text.contains("S001") && !text.contains("S068"), "{text}");
    // What is sparse stays sparse.
    let size =
        |name: &str| -> u64 { shell(folder, &format!("du -k {name} | cut -f1")).trim().parse().unwrap() };
    assert!(size("new.img") <= size("before.img") + 256, "{} KiB of {}", size("new.img"), size("before.img"));
    // It is complete, and so is not written again; nor is it once it has been used.
    let (status, text) = straddle(folder, &APPLY);
    assert!(status == 4 && text.contains("the copy is already complete"), "{text}");
    shell(folder, JUDGE);
}

#[test]
fn what_must_not_be_written_is_refused() {
    if !is_ready() {
        return;
    }
    let dir = prepared();
    let folder = dir.path();
    shell(
        folder,
        "ln xp.img hard; ln -s xp.img soft; truncate -s 40M small.img; truncate -s 120M used.img; mkfs.ext4 -q used.img",
    );
    for (new, says) in [
        ("xp.img", "the source of the copy"),
        ("hard", "the source of the copy"),
        ("soft", "the source of the copy"),
        ("small.img", "too small"),
        ("used.img", "holds ext4"),
        ("before.img", "holds an MBR, partition 1 (ntfs"),
    ] {
        let (status, text) = straddle(folder, &["realign", "xp.img", "--to", new]);
        assert!(status == 4 && text.contains(says), "{new}: {status} {text}");
    }
    let (status, text) = straddle(folder, &PLAN);
    assert_eq!(status, 0, "{text}");
    for (words, expected) in [
        (vec!["apply", "copy.json", "--write", "new.img"], 2),
        (vec!["apply", "copy.json", "--from", "before.img", "--write", "before.img"], 4),
        (vec!["apply", "copy.json", "--from", "used.img", "--write", "new.img"], 4),
        (vec!["apply", "copy.json", "--from", "xp.img", "--write", "used.img"], 4),
        (vec!["apply", "copy.json", "--from", "xp.img", "--write", "hard"], 4),
    ] {
        let (status, text) = straddle(folder, &words);
        assert_eq!(status, expected, "{words:?}: {text}");
        assert!(!folder.join("new.img").exists(), "{words:?}");
    }
    // Another program has it.
    shell(folder, "truncate -s 120M locked.img");
    let (status, text) =
        straddle(folder, &["realign", "xp.img", "--to", "locked.img", "--save", "locked.json"]);
    assert_eq!(status, 0, "{text}");
    let locked = folder.join("locked.img");
    let file = fs::OpenOptions::new().write(true).open(&locked).unwrap();
    let claim = straddle_device::claim::take(&file, &locked).unwrap();
    let apply = ["apply", "locked.json", "--from", "xp.img", "--write", "locked.img"];
    let (status, text) = straddle(folder, &apply);
    assert!(status == 4 && text.contains("in use"), "{text}");
    drop((claim, file));
    // The user may write over what is there; what came since is not what the user has seen.
    let plan = ["realign", "xp.img", "--to", "used.img", "--wipe", "--save", "over.json"];
    let (status, text) = straddle(folder, &plan);
    assert!(status == 0 && text.contains("LOST: ext4"), "{text}");
    shell(folder, "cp used.img new.img; mkfs.vfat -F 32 used.img >/dev/null");
    let (status, text) = straddle(folder, &["apply", "over.json", "--from", "xp.img", "--write", "used.img"]);
    assert_eq!(status, 4, "{text}");
    let (status, text) = straddle(folder, &["apply", "over.json", "--from", "xp.img", "--write", "new.img"]);
    assert_eq!(status, 0, "{text}");
    shell(folder, JUDGE);
    shell(folder, "cmp xp.img before.img");
}

/// A plan says how much is copied of each partition, and what refers to its place: neither may have changed
/// since.
#[test]
fn a_source_that_has_changed_since_the_plan_is_refused() {
    if !is_ready() || !present(&["resize2fs", "mkswap"]) {
        return;
    }
    let dir = prepared();
    let folder = dir.path();
    let (status, text) = straddle(folder, &PLAN);
    assert_eq!(status, 0, "{text}");
    for (change, says) in [
        (
            "mkswap -q 5 2>/dev/null; printf 'S1SUSPEND\\000' | dd of=5 bs=1 seek=4086 conv=notrunc status=none",
            "hibernated",
        ),
        ("mkfs.ntfs -q -F -f -p 80127 -H 255 -S 63 5 >/dev/null 2>&1", "have changed"),
    ] {
        let change = format!("{change}; dd if=5 of=xp.img bs=512 seek=80127 conv=notrunc status=none");
        shell(
            folder,
            &format!("cp before.img xp.img; truncate -s 0 5; truncate -s $((20000 * 512)) 5; {change}"),
        );
        let (status, text) = straddle(folder, &APPLY);
        assert!(status == 4 && text.contains(says) && text.contains("plan again"), "{text}");
        assert!(!folder.join("new.img").exists());
    }
    // The tail that the file system did not use is not copied.
    shell(
        folder,
        "truncate -s 64M src.img; printf 'label: gpt\nstart=2049,size=120000\n' | sfdisk -q --no-tell-kernel src.img
        truncate -s 40M small.img; truncate -s $((120000 * 512)) fs; mkfs.ext4 -q -F fs 20000k
        dd if=fs of=src.img bs=64K oflag=seek_bytes seek=$((2049 * 512)) conv=notrunc status=none",
    );
    let (status, text) =
        straddle(folder, &["realign", "src.img", "--to", "small.img", "--save", "small.json"]);
    assert_eq!(status, 0, "{text}");
    shell(
        folder,
        "resize2fs -f fs >/dev/null 2>&1; dd if=fs of=src.img bs=64K oflag=seek_bytes seek=$((2049 * 512)) conv=notrunc status=none",
    );
    let apply = ["apply", "small.json", "--from", "src.img", "--write", "small.img"];
    let (status, text) = straddle(folder, &apply);
    assert!(status == 4 && text.contains("has grown"), "{text}");
    shell(folder, "test -z \"$(tr -d '\\0' <small.img | head -c 1)\"");
}

/// What is not recognised is data too, wherever it lies; zeros are not, whether they are stored or a hole.
#[test]
fn data_that_are_not_recognised_are_not_written_over() {
    if !is_ready() {
        return;
    }
    let dir = prepared();
    let folder = dir.path();
    shell(
        folder,
        "truncate -s 120M far.img; printf 'my only copy' | dd of=far.img bs=1 seek=31000001 conv=notrunc status=none",
    );
    shell(folder, "cp far.img kept.img; head -c 120M /dev/zero >zeros.img; truncate -s 120M hole.img");
    let (status, text) = straddle(folder, &["realign", "xp.img", "--to", "far.img", "--save", "far.json"]);
    assert!(
        status == 4 && text.contains("byte 31000001, which is not zero") && text.contains("--wipe"),
        "{text}"
    );
    assert!(!folder.join("far.json").exists());
    for (new, before) in
        [("zeros.img", ""), ("hole.img", ""), ("new.img", "cp far.img new.img; truncate -s 80M new.img")]
    {
        let words = ["realign", "xp.img", "--to", new, "--save", "copy.json"];
        let (status, text) = straddle(folder, &words);
        assert_eq!(status, 0, "{new}: {text}");
        let apply = ["apply", "copy.json", "--from", "xp.img", "--write", new];
        // What comes there between the plan and the copy stays as well.
        let came = if before.is_empty() {
            format!("cp {new} back; printf x | dd of={new} bs=1 seek=31000001 conv=notrunc status=none")
        } else {
            before.to_owned()
        };
        shell(folder, &format!("{came}; cp {new} came"));
        let (status, text) = straddle(folder, &apply);
        assert!(status == 4 && text.contains("byte 31000001, which is not zero"), "{new}: {text}");
        shell(
            folder,
            &format!("cmp {new} came; test ! -e back || mv back {new}; test {new} != new.img || rm {new}"),
        );
        let (status, text) = straddle(folder, &apply);
        assert_eq!(status, 0, "{new}: {text}");
        shell(folder, &format!("test {new} = new.img || cp {new} new.img"));
        shell(folder, &format!("{JUDGE}\nrm new.img copy.json"));
    }
    let words = ["realign", "xp.img", "--to", "far.img", "--wipe", "--save", "far.json"];
    assert_eq!(straddle(folder, &words).0, 0);
    let (status, text) = straddle(folder, &["apply", "far.json", "--from", "xp.img", "--write", "far.img"]);
    assert_eq!(status, 0, "{text}");
    shell(folder, &format!("mv far.img new.img\n{JUDGE}"));
}

/// A run that is killed before the new image has its size leaves an empty file: it is one that is still to be
/// made.
#[test]
fn an_empty_file_is_a_new_image() {
    if !is_ready() {
        return;
    }
    let dir = prepared();
    let folder = dir.path();
    shell(folder, ": >new.img; : >new.qcow2");
    let (status, text) = straddle(folder, &["realign", "xp.img", "--to", "new.qcow2"]);
    assert!(status == 4 && text.contains("qemu-img convert"), "{text}");
    let (status, text) = straddle(folder, &PLAN);
    assert_eq!(status, 0, "{text}");
    assert_eq!(fs::metadata(folder.join("new.img")).unwrap().len(), 0, "a plan writes nothing");
    let (status, text) = straddle(folder, &APPLY);
    assert_eq!(status, 0, "{text}");
    shell(folder, JUDGE);
}

/// A loop device over the source is the source.
#[test]
fn a_loop_device_over_the_source_is_refused() {
    if !present(&["losetup", "flock", "sfdisk"]) {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path();
    shell(
        folder,
        "truncate -s 20M disk.img; printf 'label: dos\nstart=63\n' | sfdisk -q --no-tell-kernel disk.img",
    );
    let made = tools::losetup_find(&folder.join("disk.img")).env("PATH", PATH).output().unwrap();
    if !made.status.success() {
        tools::skip::skipped("no loop device can be set up");
        return;
    }
    let device = String::from_utf8(made.stdout).unwrap().trim().to_owned();
    let onto = straddle(folder, &["realign", "disk.img", "--to", &device]);
    let from = straddle(folder, &["realign", &device, "--to", "disk.img"]);
    shell(folder, &format!("losetup --detach {device}"));
    for (status, text) in [onto, from] {
        assert!(status == 4 && text.contains("the source of the copy"), "{text}");
    }
}

/// What is written to the file behind loop devices during the copy is noticed as if the file were the source.
#[test]
fn a_write_behind_a_loop_device_is_noticed() {
    if !is_ready() || !present(&["losetup", "flock"]) {
        return;
    }
    let dir = prepared();
    let folder = dir.path();
    let attach = |file: &Path| -> Option<String> {
        let made = tools::losetup_find(file).env("PATH", PATH).output().unwrap();
        made.status.success().then(|| String::from_utf8(made.stdout).unwrap().trim().to_owned())
    };
    let detach = |device: &str| shell(folder, &format!("losetup --detach {device}"));
    let Some(first) = attach(&folder.join("xp.img")) else {
        tools::skip::skipped("no loop device can be set up");
        return;
    };
    let mut outcomes = Vec::new();
    let mut second = None;
    for (is_nested, writes) in [(false, false), (false, true), (true, false), (true, true)] {
        if is_nested && second.is_none() {
            second = attach(Path::new(&first));
        }
        let device = second.as_ref().unwrap_or(&first);
        shell(folder, "rm -f copy.json new.img; truncate -s 120M new.img");
        let planned = straddle(folder, &["realign", device, "--to", "new.img", "--save", "copy.json"]);
        outcomes.push((device.clone(), writes, planned, None));
        let Ok(json) = fs::read_to_string(folder.join("copy.json")) else { continue };
        let plan = Copy::from_json(&json).unwrap();
        let mut target = straddle_repair::Target::open(&folder.join("new.img"), None).unwrap();
        let Ok(source) = Source::open(Path::new(device), &straddle_device::Options::default()) else {
            continue;
        };
        let watch = &mut |_, _| {
            if writes {
                let file = fs::File::options().write(true).open(folder.join("xp.img")).unwrap();
                std::os::unix::fs::FileExt::write_all_at(&file, &[1], 20_000_000).unwrap();
            }
            std::ops::ControlFlow::Continue(())
        };
        let copied = plan.run(&source, &mut target, Unreadable::Stops, (watch, &mut |_| Ok(())));
        outcomes.last_mut().unwrap().3 = Some(copied);
    }
    second.iter().for_each(|device| drop(detach(device)));
    detach(&first);
    for (device, writes, (status, text), copied) in outcomes {
        assert_eq!(status, 0, "{text}");
        match copied.unwrap() {
            Ok(_) => assert!(!writes, "{device}"),
            Err(CopyError::SourceWritten(path)) => assert!(writes && path.ends_with("xp.img"), "{device}"),
            Err(error) => panic!("{device}: {error}"),
        }
    }
}

/// Kills at random moments, as often as `KILLS` says, then makes the copy again.
#[test]
fn a_killed_copy_is_made_again() {
    if !is_ready() {
        return;
    }
    let dir = prepared();
    let folder = dir.path();
    assert_eq!(straddle(folder, &PLAN).0, 0);
    let rounds: u64 = std::env::var("KILLS").map_or(4, |n| n.parse().unwrap());
    let mut unfinished = 0;
    for round in 0..rounds {
        let _ = fs::remove_file(folder.join("new.img"));
        let mut child = started(folder, &APPLY);
        // The copy has begun when the new image is marked; where it is killed after that is left to chance.
        let is_marked = || {
            let mut sector = [0; 512];
            let read =
                fs::File::open(folder.join("new.img")).and_then(|mut file| file.read_exact(&mut sector));
            read.is_ok() && sector[450] == 0x7F
        };
        while !is_marked() && child.try_wait().unwrap().is_none() {
            std::thread::yield_now();
        }
        std::thread::sleep(Duration::from_millis(round * 7 % 50));
        let _ = child.kill();
        child.wait().unwrap();
        let (_, resumed) = straddle(folder, &["resume", "new.img"]);
        if resumed.contains("a copy to this disk is unfinished") {
            unfinished += 1;
            let (status, text) = straddle(folder, &["plan", "new.img", "--add", "1MiB"]);
            assert!(status == 4 && text.contains("is unfinished"), "{text}");
            let (status, text) = straddle(folder, &["check", "new.img"]);
            let words: Vec<&str> = text.split_whitespace().collect();
            let text = words.join(" ");
            assert!(status == 1 && text.contains("a copy to this disk is unfinished"), "{text}");
            assert!(
                text.contains("straddle apply PLAN --from SOURCE --write new.img")
                    && !text.contains("resume"),
                "{text}"
            );
        }
        let (status, text) = straddle(folder, &APPLY);
        assert!(status == 0 || text.contains("the copy is already complete"), "{text}");
        shell(folder, JUDGE);
    }
    println!("{rounds} kills, {unfinished} in the middle");
    assert!(unfinished > 0, "none was killed in the middle");
}

/// What is printed for an image that is not raw works, from each format that is read.
#[test]
fn the_printed_commands_realign_other_images() {
    if !is_ready() || !present(&["qemu-img"]) {
        return;
    }
    let dir = prepared();
    let folder = dir.path();
    for (format, ending) in [("qcow2", "qcow2"), ("vmdk", "vmdk"), ("vpc", "vhd")] {
        shell(
            folder,
            &format!("qemu-img convert -O {format} xp.img disk.{ending}; sha256sum disk.{ending} >sum"),
        );
        let (status, text) = straddle(folder, &["realign", &format!("disk.{ending}")]);
        assert_eq!(status, 4, "{text}");
        let commands = text.split_once("to copy them to a raw image: ").unwrap().1.trim();
        let (copy, back) = commands.split_once("; to convert the copy back").unwrap_or((commands, ": true"));
        let (_, back) = back.split_once(": ").unwrap();
        shell(folder, &format!("{copy} && {}", back.replace("NEW.qcow2", "back.qcow2")));
        shell(folder, "sha256sum -c --quiet sum; mv disk.raw new.img");
        shell(folder, JUDGE);
        if format == "qcow2" {
            let (_, text) = straddle(folder, &["check", "back.qcow2"]);
            assert!(!text.contains("S001") && !text.contains("S068"), "{text}");
            shell(folder, "qemu-img compare -q back.qcow2 new.img");
        }
    }
}

/// What `check` prints first for an image that is not raw is the copy, which works as it is printed.
#[test]
fn the_first_fix_of_other_images_is_a_copy() {
    if !is_ready() || !present(&["qemu-img", "gzip"]) {
        return;
    }
    let dir = prepared();
    let folder = dir.path();
    for (make, image) in [
        ("qemu-img convert -O qcow2 xp.img disk.qcow2", "disk.qcow2"),
        ("qemu-img convert -O vmdk xp.img disk.vmdk", "disk.vmdk"),
        ("qemu-img convert -O vpc -o subformat=fixed,force_size xp.img disk.vhd", "disk.vhd"),
        ("gzip -c xp.img >disk.img.gz", "disk.img.gz"),
    ] {
        shell(folder, &format!("{make}; sha256sum {image} >sum"));
        let (_, text) = straddle(folder, &["check", "--json", image]);
        let report: serde_json::Value = serde_json::from_str(&text).unwrap();
        let findings = report["targets"][0]["findings"].as_array().unwrap();
        let fix = &findings.iter().find(|finding| finding["code"] == "S001").unwrap()["fix"];
        let lines = fix["commands"].as_array().unwrap().iter().map(|one| one["line"].as_str().unwrap());
        let lines = lines.collect::<Vec<_>>().join("\n");
        assert!(lines.starts_with(&format!("straddle realign {image} --to disk.")), "{lines}");
        let (status, text) = straddle(folder, &["realign", image]);
        assert!(
            status == 4 && text.contains(&format!("straddle realign {image} --to disk.")),
            "{image}: {text}"
        );
        shell(folder, &lines);
        shell(folder, "sha256sum -c --quiet sum; mv disk*.raw new.img; rm disk*.copy.json");
        shell(folder, JUDGE);
    }
}

/// Holes of the file are not zeros of the disk, though the one is as long as the other.
#[test]
fn an_image_as_long_as_its_disk_is_not_read_as_raw() {
    if !present(&["sfdisk", "qemu-img"]) {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path();
    shell(
        folder,
        "truncate -s 64M a.raw; printf 'label: gpt\nstart=2048,size=20480\nstart=63488,size=40960\n' | sfdisk -q --no-tell-kernel a.raw
head -c 10M /dev/urandom | dd of=a.raw bs=1M seek=32 conv=notrunc status=none
qemu-img convert -O qcow2 a.raw a.qcow2; truncate -s 64M a.qcow2
qemu-img create -q -f qcow2 -b a.raw -F raw over.qcow2",
    );
    let (status, text) = straddle(folder, &["realign", "a.qcow2", "--to", "n.raw", "--save", "c.json"]);
    assert_eq!(status, 0, "{text}");
    let (status, text) = straddle(folder, &["apply", "c.json", "--from", "a.qcow2", "--write", "n.raw"]);
    assert_eq!(status, 0, "{text}");
    shell(
        folder,
        "cmp <(tail -c +$((31 * 1048576 + 1)) a.raw | head -c 20M) <(tail -c +$((31 * 1048576 + 1)) n.raw | head -c 20M)",
    );
    // The command that is printed for an overlay names the file below it, as it has to be given.
    let (status, text) = straddle(folder, &["realign", "over.qcow2"]);
    assert!(status == 4 && text.matches("--allow-backing a.raw").count() == 2, "{text}");
    let (_, printed) = text.split_once("to copy them to a raw image: ").unwrap();
    let (printed, _) = printed.split_once("; to convert the copy back").unwrap();
    shell(folder, &format!("{printed} >/dev/null; cmp n.raw over.raw; rm over.raw"));
    // An overlay, with the file below it; that is not written over.
    let allow = ["--allow-backing", "a.raw"];
    let plan = ["realign", "over.qcow2", "--to", "o.raw", "--save", "o.json"];
    let (status, text) = straddle(folder, &[&plan[..], &allow].concat());
    assert!(status == 0 && text.contains("--from over.qcow2 --allow-backing a.raw --write"), "{text}");
    let (status, text) =
        straddle(folder, &[&["realign", "over.qcow2", "--to", "a.raw", "--wipe"], &allow[..]].concat());
    assert!(status == 4 && text.contains("the source of the copy"), "{text}");
    let apply = ["apply", "o.json", "--from", "over.qcow2", "--write", "o.raw"];
    let (status, text) = straddle(folder, &[&apply[..], &allow].concat());
    assert_eq!(status, 0, "{text}");
    shell(folder, "cmp n.raw o.raw");
    // A new image is raw, and its name must not promise another format.
    let (status, text) = straddle(folder, &["realign", "a.raw", "--to", "new.qcow2"]);
    assert!(status == 4 && text.contains("use the name new.raw"), "{text}");
    let (status, text) = straddle(folder, &["apply", "c.json", "--from", "a.qcow2", "--write", "n.VMDK"]);
    assert!(
        status == 4 && text.contains("straddle writes only raw images") && !folder.join("n.VMDK").exists(),
        "{text}"
    );
    for (name, convert) in [
        ("new.hdd", "qemu-img convert -O parallels new.raw new.hdd"),
        ("new.vpc", "qemu-img convert -O vpc new.raw new.vpc"),
        ("new.qcow", "qemu-img convert -O qcow new.raw new.qcow"),
        ("new.dmg", "straddle writes only raw images"),
    ] {
        let (status, text) = straddle(folder, &["realign", "a.raw", "--to", name]);
        assert!(status == 4 && text.contains("use the name new.raw") && text.contains(convert), "{text}");
    }
    // The bytes of a file for the disk, by both commands.
    shell(folder, "qemu-img convert -O vpc a.raw v.vhd");
    let plan = ["realign", "v.vhd", "--format", "raw", "--to", "v.raw", "--save", "v.json"];
    let (status, text) = straddle(folder, &plan);
    assert!(status == 4 || text.contains("--from-format raw"), "{text}");
}

/// Options that say nothing about a copy are not ignored.
#[test]
fn options_of_moves_are_usage_errors_for_a_copy() {
    let dir = tempfile::tempdir().unwrap();
    for option in
        [&["--partition", "99"][..], &["--start", "1=2048s"], &["--at-boot"], &["--drive", "hdd-512e"]]
    {
        let words = [&["realign", "x.img", "--to", "new.img"], option].concat();
        let (status, text) = straddle(dir.path(), &words);
        assert_eq!(status, 2, "{option:?}: {text}");
    }
}
