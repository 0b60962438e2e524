//! Real file systems that fill an image get a partition, with the program killed on the way.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod tools;

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tools::shell::{program as straddle, shell, started};
use tools::skip::{cases, present};

/// A file system in an image of 96 MiB that it does not fill to the end, with a file in it.
struct Kind {
    name: &'static str,
    table: &'static str,
    make: &'static str,
    /// Checks the file system in `now.img` and the file in it.
    judge: &'static str,
    /// Whether the boot sector records where the partition starts.
    is_recorded: bool,
}

const KINDS: [Kind; 3] = [
    Kind {
        name: "ext4",
        table: "gpt",
        make: "mkdir tree; cp file tree; mkfs.ext4 -q -b 4096 -d tree disk.img 48M",
        judge: "e2fsck -fn now.img >/dev/null 2>&1; debugfs -R 'dump file out' now.img 2>/dev/null; cmp out file",
        is_recorded: false,
    },
    Kind {
        name: "ntfs",
        table: "gpt",
        make: "mkfs.ntfs -q -F -f disk.img >/dev/null; ntfscp -q disk.img file file; \
               ntfsresize -f --size 48M disk.img < <(yes) >/dev/null; ntfsfix -d disk.img >/dev/null",
        judge: "ntfsfix -d now.img >/dev/null; ntfscat now.img file | cmp - file",
        is_recorded: true,
    },
    Kind {
        name: "fat32",
        table: "mbr",
        make: "truncate -s 48M disk.img; mkfs.vfat -F 32 -s 1 disk.img >/dev/null; mcopy -i disk.img file ::file; \
               truncate -s 96M disk.img",
        judge: "fsck.vfat -n now.img >/dev/null; mcopy -n -i now.img ::file out; cmp out file",
        is_recorded: true,
    },
];

impl Kind {
    /// Makes the image and the plan.
    fn prepared(&self) -> (tempfile::TempDir, PathBuf) {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().to_owned();
        let make = format!("head -c 3000000 /dev/urandom >file; truncate -s 96M disk.img\n{}", self.make);
        shell(&folder, &format!("{make}\ncp --sparse=always disk.img before.img"));
        let (status, text) = straddle(
            &folder,
            &["realign", "disk.img", "--wrap", "--table", self.table, "--save", "move.json"],
        );
        assert_eq!(status, 0, "{}: {text}", self.name);
        assert!(text.contains("a partition around what fills it") && text.contains("byte 1048576"), "{text}");
        (dir, folder)
    }

    /// Takes the file system out of the partition, or of the whole image, and checks it.
    fn judge(&self, folder: &Path, is_new: bool) {
        let script = match is_new {
            true => "dd if=disk.img of=now.img bs=1M skip=1 status=none",
            false => "cp disk.img now.img",
        };
        shell(folder, &format!("{script}\nrm -f out\n{}", self.judge));
        if is_new && self.is_recorded {
            let start = shell(folder, "od -An -tu4 -j28 -N4 now.img | tr -d ' \\n'");
            assert_eq!(start, "2048", "{}: the boot sector records the partition's start", self.name);
        }
        let what = shell(folder, "blkid -p -o value -s PTTYPE -s TYPE disk.img || true");
        let expected = match (is_new, self.table, self.name) {
            (true, "mbr", _) => "dos",
            (true, ..) => "gpt",
            (false, _, "fat32") => "vfat",
            (false, _, name) => name,
        };
        assert_eq!(what.trim(), expected, "{}", self.name);
    }
}

fn is_ready() -> bool {
    present(&["mkfs.ntfs", "ntfscp", "ntfsresize", "mkfs.vfat", "mcopy", "mkfs.ext4", "debugfs", "blkid"])
}

/// Whether the first entry of the image's MBR is the marker.
fn is_marked(folder: &Path) -> bool {
    let mut sector = [0; 512];
    let read = fs::File::open(folder.join("disk.img")).and_then(|mut file| file.read_exact(&mut sector));
    read.is_ok() && sector[450] == 0x7F
}

#[test]
fn file_systems_that_fill_a_disk_get_a_partition() {
    if !is_ready() {
        return;
    }
    for kind in cases(KINDS.iter(), 2) {
        let (_dir, folder) = kind.prepared();
        kind.judge(&folder, false);
        let (status, text) = straddle(&folder, &["apply", "move.json", "--write", "disk.img"]);
        assert_eq!(status, 0, "{}: {text}", kind.name);
        kind.judge(&folder, true);
        let (_, text) = straddle(&folder, &["check", "disk.img"]);
        assert!(!text.contains("S001") && !text.contains("S068"), "{}: {text}", kind.name);
        let (status, text) = straddle(&folder, &["apply", "move.json", "--write", "disk.img"]);
        assert_eq!(status, 4, "a plan is for once: {text}");
        // Nothing is left behind the data, so that the partition may be moved again.
        let (status, text) =
            straddle(&folder, &["realign", "disk.img", "--start", "1=2MiB", "--grain", "4096"]);
        assert_eq!(status, 0, "{}: {text}", kind.name);
        // Holes of the image stay holes.
        let blocks: u64 = shell(&folder, "du -k disk.img | cut -f1").trim().parse().unwrap();
        assert!(blocks < 60 << 10, "{}: {blocks} KiB of 96 MiB", kind.name);
    }
}

/// Kills at random moments, as often as `KILLS` says, then either direction.
#[test]
fn a_killed_wrap_goes_on_or_back() {
    if !is_ready() {
        return;
    }
    let rounds: u64 = std::env::var("KILLS").map_or(4, |n| n.parse().unwrap());
    let mut unfinished = 0;
    for kind in cases(KINDS.iter(), 2) {
        let (_dir, folder) = kind.prepared();
        for round in 0..rounds {
            fs::copy(folder.join("before.img"), folder.join("disk.img")).unwrap();
            let mut child = started(&folder, &["apply", "move.json", "--write", "disk.img"]);
            // It is killed when the disk is marked; where it is after that is left to chance.
            while !is_marked(&folder) && child.try_wait().unwrap().is_none() {
                std::thread::yield_now();
            }
            std::thread::sleep(Duration::from_millis(round * 7 % 50));
            let _ = child.kill();
            child.wait().unwrap();
            let goes_back = round % 2 == 1;
            let words: &[&str] =
                if goes_back { &["resume", "disk.img", "--rollback"] } else { &["resume", "disk.img"] };
            let (plan, refusal) = straddle(&folder, &["plan", "disk.img", "--add", "1MiB"]);
            let (status, text) = straddle(&folder, words);
            if text.contains("no unfinished move") {
                // It had not begun, or was complete.
                assert_eq!(status, 3, "{text}");
                let is_new = !shell(&folder, "blkid -p -o value -s PTTYPE disk.img || true").is_empty();
                kind.judge(&folder, is_new);
                continue;
            }
            assert_eq!(status, 0, "{}, round {round}: {text}", kind.name);
            assert_eq!(plan, 4, "{refusal}");
            unfinished += 1;
            kind.judge(&folder, !goes_back);
            if goes_back {
                shell(&folder, "cmp -n $((48 * 1024 * 1024)) disk.img before.img");
            }
        }
    }
    println!("{} kills, {unfinished} in the middle", rounds * 3);
    assert!(unfinished > 0, "none was killed in the middle");
}

/// An image of a disk with 4096-byte sectors, whose marker counts in these.
#[test]
fn a_killed_wrap_on_large_sectors_goes_on() {
    if !is_ready() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path();
    shell(folder, "truncate -s 64M disk.img; mkfs.ext4 -q -b 4096 disk.img 32M; cp disk.img before.img");
    let plan = ["realign", "disk.img", "--wrap", "--logical", "4096", "--save", "move.json"];
    assert_eq!(straddle(folder, &plan).0, 0);
    let mut unfinished = 0;
    while unfinished == 0 {
        shell(folder, "cp before.img disk.img");
        let mut child = started(folder, &["apply", "move.json", "--write", "disk.img"]);
        while !is_marked(folder) && child.try_wait().unwrap().is_none() {
            std::thread::yield_now();
        }
        let _ = child.kill();
        child.wait().unwrap();
        unfinished += u32::from(is_marked(folder));
    }
    let (status, text) = straddle(folder, &["resume", "disk.img"]);
    assert_eq!(status, 0, "{text}");
    shell(folder, "dd if=disk.img of=now.img bs=1M skip=1 status=none; e2fsck -fn now.img >/dev/null 2>&1");
    let (_, text) = straddle(folder, &["check", "disk.img"]);
    assert!(text.contains("GPT in 4096-byte sectors, 1 partition"), "{text}");
}

/// A file system without slack is shrunk by the command that is printed.
#[test]
fn the_printed_command_makes_room() {
    if !is_ready() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path();
    for make in ["mkfs.ext4 -q -b 4096 disk.img", "mkfs.ntfs -q -F -f disk.img >/dev/null"] {
        shell(folder, &format!("rm -f *; truncate -s 64M disk.img; {make}"));
        let (status, text) = straddle(folder, &["realign", "disk.img", "--wrap"]);
        assert_eq!(status, 4, "{text}");
        let (problem, command) = text.split_once(": to make it smaller: ").unwrap();
        assert!(problem.contains("there is no room"), "{text}");
        let (command, _) = command.split_once("; ").unwrap();
        shell(folder, &format!("({}) < <(yes) >/dev/null", command.replace("ntfsresize", "ntfsresize -f")));
        let (status, text) = straddle(folder, &["realign", "disk.img", "--wrap", "--save", "move.json"]);
        // What was behind the new end is left there, and is nobody's.
        let wipe = ["realign", "disk.img", "--wrap", "--wipe", "--save", "move.json"];
        let (status, text) = match text.contains("--wipe gives") {
            true => straddle(folder, &wipe),
            false => (status, text),
        };
        assert_eq!(status, 0, "{text}");
        // There is no room for the journal then.
        let (status, text) = straddle(folder, &["apply", "move.json", "--write", "disk.img"]);
        assert_eq!(status, 2, "{text}");
        let apply = ["apply", "move.json", "--write", "disk.img", "--journal", "journal"];
        let (status, text) = straddle(folder, &apply);
        assert_eq!(status, 0, "{text}");
        assert_eq!(
            shell(folder, "blkid -p -O 1M -o value -s TYPE disk.img").trim(),
            if make.contains("ext4") { "ext4" } else { "ntfs" }
        );
    }
}

/// What makes a swap smaller keeps its names; what LVM has in a file is attached for that.
#[test]
fn the_command_that_makes_room_keeps_names_and_reaches_files() {
    if !present(&["mkswap", "blkid"]) {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path();
    let printed = || {
        let (status, text) = straddle(folder, &["realign", "disk.img", "--wrap"]);
        assert_eq!(status, 4, "{text}");
        let (_, command) = text.split_once(": to make it smaller: ").unwrap();
        command.split_once("; to copy").unwrap().0.to_owned()
    };
    let names = || shell(folder, "blkid -p -o value -s LABEL -s UUID -s TYPE disk.img");
    shell(folder, "truncate -s 64M disk.img; mkswap -q -L \"it's swap\" disk.img");
    let before = names();
    let command = printed();
    assert!(before.contains("it's swap"), "{before}");
    shell(folder, &format!("{command} >/dev/null 2>&1"));
    assert_eq!(names(), before, "{command}");
    let (status, text) = straddle(folder, &["realign", "disk.img", "--wrap", "--wipe"]);
    assert_eq!(status, 0, "{text}");
    let is_root =
        fs::metadata("/proc/self").is_ok_and(|process| std::os::unix::fs::MetadataExt::uid(&process) == 0);
    if !present(&["pvcreate", "losetup"]) || !is_root {
        return;
    }
    shell(
        folder,
        "rm disk.img; truncate -s 64M disk.img; loop=$(losetup -f --show disk.img); pvcreate -q $loop >/dev/null 2>&1; losetup -d $loop",
    );
    let command = printed();
    assert!(command.contains("losetup --find --show disk.img") && command.contains("--detach"), "{command}");
    shell(folder, &format!("{{ {command}; }} < <(yes) >/dev/null 2>&1; [ -z \"$(losetup -j disk.img)\" ]"));
    let (status, text) = straddle(folder, &["realign", "disk.img", "--wrap"]);
    assert_eq!(status, 0, "{text}");
}

/// Without `--wrap`, the option is named; with it, a disk with a table is refused.
#[test]
fn what_is_not_asked_for_is_not_done() {
    if !is_ready() {
        return;
    }
    let (_dir, folder) = KINDS[0].prepared();
    let (status, text) = straddle(&folder, &["realign", "disk.img"]);
    assert!(status != 0 && text.contains("straddle realign disk.img --wrap"), "{text}");
    shell(
        &folder,
        "truncate -s 8M table.img; printf 'label: dos\nstart=63\n' | sfdisk -q --no-tell-kernel table.img",
    );
    let (status, text) = straddle(&folder, &["realign", "table.img", "--wrap"]);
    assert_eq!(status, 4, "{text}");
    shell(&folder, "cmp disk.img before.img; head -c 8M /dev/zero | tr '\\0' a >noise.img");
    let (status, text) = straddle(&folder, &["realign", "noise.img"]);
    assert!(status == 4 && text.contains("there is nothing to realign") && !text.contains("--"), "{text}");
}

/// The partition around what fills the disk is placed for the data in it: the clusters of a FAT that are off its own start.
#[test]
fn a_partition_is_put_round_a_fat_by_its_clusters() {
    if !is_ready() || !present(&["mkfs.vfat", "fsck.vfat"]) {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path();
    shell(
        folder,
        "truncate -s 48M disk.img; mkfs.vfat -a -F 32 -s 8 -R 33 disk.img >/dev/null; truncate -s 96M disk.img",
    );
    let (_, text) =
        straddle(folder, &["realign", "disk.img", "--wrap", "--table", "mbr", "--save", "move.json"]);
    assert!(text.contains("its first cluster,"), "{text}");
    let (status, text) = straddle(folder, &["apply", "move.json", "--write", "disk.img"]);
    assert_eq!(status, 0, "{text}");
    let (status, text) = straddle(folder, &["check", "disk.img"]);
    assert!(status == 0 && text.contains("status: ok"), "{text}");
    shell(
        folder,
        "start=$(sfdisk -d disk.img | sed -n 's/.*start= *\\([0-9]*\\),.*/\\1/p'); dd if=disk.img of=now.img bs=512 skip=$start status=none; fsck.vfat -n now.img >/dev/null",
    );
}
