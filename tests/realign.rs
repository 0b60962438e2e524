//! Partitions of real file systems, moved by the program in images, with the program killed on the way.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "realign/contents.rs"]
mod contents;
#[path = "realign/cuts.rs"]
mod cuts;
use crate::tools;

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use tools::shell::{program as straddle, shell, started};
use tools::skip::present;

/// An MBR disk of 96 MiB, partitioned as Windows XP did: from sector 63, without a gap.
const MAKE: &str = "\
truncate -s 96M disk.img
printf 'label: dos\\nstart=63,size=40000,type=7,bootable\\nstart=40063,size=20001,type=c\\nstart=60064,size=20000,type=7\\nstart=80064,size=40001,type=83\\n' |
    sfdisk -q --no-tell-kernel disk.img
head -c 3000000 /dev/urandom >file
truncate -s $((40000 * 512)) 1; mkfs.ntfs -q -F -f -p 63 -H 255 -S 63 1 >/dev/null; ntfscp -q 1 file file
truncate -s $((20001 * 512)) 2; mkfs.vfat -F 32 -s 1 -h 40063 2 >/dev/null
truncate -s $((20000 * 512)) 3; mkfs.exfat 3 >/dev/null
mkdir tree; cp file tree; truncate -s $((40001 * 512)) 4; mkfs.ext4 -q -b 4096 -d tree 4
start=(0 63 40063 60064 80064)
for part in 1 2 3 4; do dd if=$part of=disk.img bs=64K oflag=seek_bytes seek=$((${start[part]} * 512)) conv=notrunc status=none; done
cp disk.img before.img";

/// Takes the partitions out again and checks each file system and the file in it.
const JUDGE: &str = "\
set -x
mapfile -t start < <(sfdisk -d disk.img | sed -n 's/.*start= *\\([0-9]*\\), size= *\\([0-9]*\\),.*/\\1 \\2/p')
for part in 1 2 3 4; do
    read -r from size <<<\"${start[part - 1]}\"
    dd if=disk.img of=now.$part bs=64K iflag=skip_bytes,count_bytes skip=$((from * 512)) count=$((size * 512)) status=none
    echo \"$part $from\" >>starts
done
ntfsfix -n now.1 >/dev/null; ntfscat now.1 file | cmp - file
fsck.vfat -n now.2 >/dev/null
fsck.exfat -n now.3 >/dev/null
e2fsck -fn now.4 >/dev/null 2>&1; debugfs -R 'dump file out' now.4 2>/dev/null; cmp out file
# The boot sector and its copy say where the partition begins.
for part in 1 2; do
    [ \"$(od -An -tu4 -j28 -N4 now.$part | tr -d ' ')\" = \"${start[part - 1]% *}\" ]
done";

/// A file system that does not fill its partition does not show in which sectors an MBR counts: nothing is
/// planned before the user says it.
#[test]
fn a_table_whose_sectors_are_in_doubt_is_not_changed_on_a_guess() {
    if !present(&["sfdisk", "mkfs.ext4"]) {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let run = |words: &[&str]| straddle(dir.path(), words);
    // Contents at a start in the other sectors, and a partition that ends with the disk in them.
    shell(
        dir.path(),
        "truncate -s 1G contents.img; echo start=33,size=70000,type=83 | sfdisk -q --label dos contents.img
mkfs.ext4 -q -b 4096 -E offset=$((33 * 2048)) contents.img 60M 2>/dev/null
truncate -s 64M end.img; echo start=63,size=16321,type=83 | sfdisk -q --label dos end.img",
    );
    for (image, sectors) in [("contents.img", "2048"), ("end.img", "4096")] {
        let option = format!("--logical {sectors}");
        shell(dir.path(), &format!("cp --sparse=always {image} before.img"));
        for command in [&["realign", image][..], &["plan", image, "--add", "1MiB"]] {
            let (status, text) = run(command);
            let either = format!("Specify the sector size with {option} or --logical 512");
            assert!(status == 4 && text.contains(&either), "{command:?}: {status} {text}");
        }
        let (_, text) = run(&["check", "--verbose", image]);
        assert!(text.contains(&option), "{text}");
        assert!(!text.contains("realign") && !text.contains("apply"), "{text}");
        assert_eq!(run(&["realign", image, "--logical", sectors]).0, 0, "{image}");
        shell(dir.path(), &format!("cmp {image} before.img"));
    }
}

fn is_ready() -> bool {
    present(&["sfdisk", "mkfs.ntfs", "ntfscp", "ntfsfix", "mkfs.vfat", "mkfs.exfat", "mkfs.ext4", "debugfs"])
}

/// Makes the disk and the plan to realign it.
fn prepared() -> (tempfile::TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path().to_owned();
    shell(&folder, MAKE);
    let (status, text) = straddle(&folder, &["realign", "disk.img", "--save", "move.json"]);
    assert_eq!(status, 0, "{text}");
    assert!(text.contains("before [") && text.contains("journal:"), "{text}");
    (dir, folder)
}

#[test]
fn a_disk_from_sector_63_is_realigned() {
    if !is_ready() {
        return;
    }
    let (_dir, folder) = prepared();
    let (status, text) = straddle(&folder, &["apply", "move.json", "--write", "disk.img"]);
    assert_eq!(status, 0, "{text}");
    shell(&folder, JUDGE);
    let (_, text) = straddle(&folder, &["check", "disk.img"]);
    assert!(!text.contains("S001") && !text.contains("S068"), "{text}");
    let (status, text) = straddle(&folder, &["apply", "move.json", "--write", "disk.img"]);
    assert_eq!(status, 4, "a plan is for once: {text}");
    let (status, text) = straddle(&folder, &["resume", "disk.img"]);
    assert!(status == 3 && text.contains("no unfinished move"), "{text}");
}

/// Runs the program, which is killed after this time.
fn kill(folder: &Path, words: &[&str], after: Duration) {
    let mut child = started(folder, words);
    std::thread::sleep(after);
    let _ = child.kill();
    child.wait().unwrap();
}

/// How long move.json takes here, so that kills hit it. The disk is as before then.
fn duration(folder: &Path) -> Duration {
    let begun = Instant::now();
    let (status, text) = straddle(folder, &["apply", "move.json", "--write", "disk.img"]);
    let taken = begun.elapsed();
    assert_eq!(status, 0, "{text}");
    shell(folder, "cp --sparse=always before.img disk.img");
    taken
}

/// Parts of a whole, spread over it.
fn part(of: Duration, number: u64) -> Duration {
    const GOLDEN: f64 = 0.618_033_988_749_895;
    of.mul_f64((f64::from(u32::try_from(number).unwrap()) * GOLDEN).fract())
}

/// Carries out move.json, killed on the way this often, and completes it. Returns how many of the kills have
/// left an unfinished move.
fn killed_on_the_way(folder: &Path, kills: u64) -> u64 {
    let slice = duration(folder).mul_f64(2.0) / u32::try_from(kills).unwrap();
    let mut unfinished = 0;
    kill(folder, &["apply", "move.json", "--write", "disk.img"], part(slice, 1));
    for number in 2..=kills {
        let (status, _) = straddle(folder, &["plan", "disk.img", "--add", "1MiB"]);
        unfinished += u64::from(status == 4);
        kill(folder, &["resume", "disk.img"], part(slice, number));
    }
    let (status, text) = straddle(folder, &["resume", "disk.img"]);
    if status == 3 && text.contains("no unfinished move") {
        // The first kill was too early, or the last too late.
        let (status, text) = straddle(folder, &["apply", "move.json", "--write", "disk.img"]);
        assert!(status == 0 || status == 4, "{text}");
    } else {
        assert_eq!(status, 0, "{text}");
    }
    unfinished
}

/// Kills at random moments, as often as `KILLS` says, then either direction.
#[test]
fn a_killed_move_goes_on_or_back() {
    if !is_ready() {
        return;
    }
    let (_dir, folder) = prepared();
    let rounds: u64 = std::env::var("KILLS").map_or(6, |n| n.parse().unwrap());
    let (mut unfinished, mut early) = (0, 0);
    let whole = duration(&folder);
    for round in 0..rounds {
        fs::copy(folder.join("before.img"), folder.join("disk.img")).unwrap();
        // Where the kill falls is left to chance; every outcome is judged.
        kill(&folder, &["apply", "move.json", "--write", "disk.img"], part(whole, round));
        let goes_back = round % 2 == 1;
        let words: &[&str] =
            if goes_back { &["resume", "disk.img", "--rollback"] } else { &["resume", "disk.img"] };
        let (plan, refusal) = straddle(&folder, &["plan", "disk.img", "--add", "1MiB"]);
        let (status, text) = straddle(&folder, words);
        if text.contains("no unfinished move") {
            // It had not begun, or was complete.
            assert_eq!(status, 3, "{text}");
            let (now, was) = (folder.join("disk.img"), folder.join("before.img"));
            early += u64::from(fs::read(now).unwrap()[..512] == fs::read(was).unwrap()[..512]);
        } else {
            assert_eq!(status, 0, "round {round}: {text}");
            assert_eq!(plan, 4, "{refusal}");
            unfinished += 1;
            if goes_back {
                let now = fs::read(folder.join("disk.img")).unwrap();
                let was = fs::read(folder.join("before.img")).unwrap();
                let end = 120_065 * 512;
                assert!(now[..end] == was[..end], "round {round}: the old layout is not back");
            }
        }
        shell(&folder, JUDGE);
    }
    println!("{rounds} kills, {unfinished} in the middle, {early} before anything was written to the table");
}

/// A disk without room for a journal needs a file for it; other journals are refused.
#[test]
fn the_journal_may_be_in_a_file() {
    if !is_ready() {
        return;
    }
    let (_dir, folder) = prepared();
    // The file system stays as large as it is, so that nothing but its slack gives way.
    shell(&folder, "truncate -s $((120200 * 512)) disk.img; cp disk.img before.img; rm -f move.json");
    let (status, text) = straddle(&folder, &["realign", "disk.img", "--save", "move.json"]);
    assert!(status == 0 && text.contains("--journal"), "{text}");
    let (status, text) = straddle(&folder, &["apply", "move.json", "--write", "disk.img"]);
    assert!(status == 2 && text.contains("--journal"), "{text}");
    shell(&folder, "cmp disk.img before.img; echo x >used");
    let with = |file| ["apply", "move.json", "--write", "disk.img", "--journal", file];
    let (status, text) = straddle(&folder, &with("used"));
    assert!(status == 4 && text.contains("used"), "{text}");
    let (status, text) = straddle(&folder, &["resume", "disk.img", "--journal", "used"]);
    assert!(status != 0, "{text}");
    shell(&folder, "cmp disk.img before.img");
    let (status, text) = straddle(&folder, &with("journal"));
    assert_eq!(status, 0, "{text}");
    shell(&folder, JUDGE);
    assert!(!folder.join("journal").exists(), "the journal of a complete move is removed");
}

/// An option that is specified twice for one partition is a mistake.
#[test]
fn an_option_counts_once_for_a_partition() {
    if !tools::present(&["sfdisk"]) {
        return;
    }
    let dir = tools::Dir::new("twice");
    let image = dir.image("disk.img", 16 << 20);
    tools::write_table(&image, 512, "label: dos\nstart=63, size=8000\n");
    for words in [
        &["realign", "disk.img", "--start", "1=2048s", "--start", "1=4096s"][..],
        &["plan", "disk.img", "--delete", "1", "--delete", "1"],
    ] {
        let output = tools::straddle_in(&dir, words);
        let said = tools::transcript(&output);
        assert!(
            output.status.code() == Some(2) && said.contains("twice for partition 1"),
            "{words:?}: {said}"
        );
    }
}

/// Runs the program on the images in a folder; its status, and what it prints in one line.
fn said(dir: &tools::Dir, words: &[&str]) -> (Option<i32>, String) {
    let output = tools::straddle_in(dir, words);
    (output.status.code(), tools::flat(&tools::transcript(&output)))
}

/// The commands that `check` prints after a probe are taken, and no advice undoes another one.
#[test]
fn what_a_probe_has_measured_counts_for_plans_and_moves() {
    if !tools::present(&["sfdisk"]) {
        return;
    }
    let dir = tools::Dir::new("measured");
    for (drive, name, aligned) in
        [("wd10ears,jumper=on", "it is", 7), ("wd10ears", "flat", 0), ("640gb-512n", "old", 0)]
    {
        let saved = format!("{name}.json");
        let (status, text) = said(&dir, &["probe", &format!("drive:{drive}"), "--save", &saved]);
        assert_eq!(status, Some(0), "{drive}: {text}");
        let image = dir.image("disk.img", 64 << 20);
        // One past a boundary of each of them, if it has any.
        tools::write_table(&image, 512, "label: gpt\nstart=2056, size=40000\nstart=51201, size=40000\n");
        let with = |words: &[&str]| said(&dir, &[words, &["--measured", &saved]].concat());
        let (_, checked) = with(&["check", "disk.img"]);
        let quoted = if name.contains(' ') { format!("'{saved}'") } else { saved.clone() };
        let is_offered = checked.contains(&format!("straddle realign disk.img --measured {quoted} --save"));
        assert_eq!(is_offered, drive != "640gb-512n", "{drive}: {checked}");
        assert!(!checked.contains("remove the jumper"), "{checked}");
        let (status, moved) = with(&["realign", "disk.img", "--json"]);
        assert_eq!(status, Some(0), "{drive}: {moved}");
        let (status, planned) = with(&["plan", "disk.img", "--table", "gpt", "--part", "rest", "--json"]);
        assert_eq!(status, Some(0), "{drive}: {planned}");
        let plan: serde_json::Value = serde_json::from_str(planned.rsplit_once("(exit").unwrap().0).unwrap();
        let start = plan["table"]["partitions"][0]["start_lba"].as_u64().unwrap();
        assert_eq!(start % 8, aligned, "{drive}: {planned}");
        let both = with(&["plan", "disk.img", "--table", "gpt", "--assume", "4kn"]);
        assert_eq!(both.0, Some(2), "{}", both.1);
    }
    // With nothing on the disk it is still time.
    dir.image("blank.img", 64 << 20);
    let (_, blank) = said(&dir, &["check", "--verbose", "blank.img", "--measured", "it is.json"]);
    assert!(blank.contains("remove the jumper") && !blank.contains("leave the jumper"), "{blank}");
}

/// The same names, again and again; a backup that may be needed stays.
#[test]
fn a_reverted_plan_can_be_made_and_applied_again() {
    if !tools::present(&["sfdisk"]) {
        return;
    }
    let dir = tools::Dir::new("again");
    for name in ["one.img", "two.img"] {
        dir.image(name, 64 << 20);
    }
    let plan = |size: &str, name: &str| {
        said(&dir, &["plan", name, "--table", "gpt", "--part", size, "--save", "p.json"])
    };
    let apply = |name: &str| said(&dir, &["apply", "p.json", "--write", name]);
    let undo = |name: &str| said(&dir, &["undo", "p.json.undo", "--write", name]);
    let blank = std::fs::read(dir.join("one.img")).unwrap();
    for size in ["10MiB", "20MiB", "rest"] {
        let done = [plan(size, "one.img"), apply("one.img")];
        assert!(done.iter().all(|(status, _)| *status == Some(0)), "{size}: {done:?}");
        let (status, text) = apply("one.img");
        assert!(
            status == Some(4) && text.contains("change to this disk, which is complete"),
            "{size}: {text}"
        );
        let (status, text) = undo("one.img");
        assert!(status == Some(0) && std::fs::read(dir.join("one.img")).unwrap() == blank, "{size}: {text}");
        // It can be repeated.
        assert_eq!(undo("one.img").0, Some(0), "{size}");
    }
    // A disk that the backup is not of, or from which nothing was reverted, leaves it as it is.
    assert_eq!(apply("one.img").0, Some(0));
    std::fs::rename(dir.join("one.img"), dir.join("kept.img")).unwrap();
    std::fs::write(dir.join("one.img"), &blank).unwrap();
    assert_eq!(undo("one.img").0, Some(0));
    let (status, text) = apply("one.img");
    assert!(status == Some(4) && text.contains("p.json.undo"), "{text}");
    assert_eq!(said(&dir, &["undo", "p.json.undo", "--write", "kept.img", "--was", "one.img"]).0, Some(0));
    assert!(std::fs::read(dir.join("kept.img")).unwrap() == blank);
}

/// Swap is made again rather than moved, also where only a smaller one has room at an aligned start.
#[test]
fn swap_that_fills_the_disk_is_made_again() {
    if !tools::present(&["sfdisk", "mkswap"]) {
        return;
    }
    for sectors in [131_009, 131_005, 131_001] {
        let dir = tools::Dir::new("swap");
        let image = dir.image("disk.img", 64 << 20);
        tools::write_table(&image, 512, &format!("label: dos\nstart=63, size={sectors}, type=82\n"));
        dir.image("swap", sectors * 512);
        shell(
            dir.path(),
            "mkswap -q swap; dd if=swap of=disk.img bs=512 seek=63 conv=notrunc,sparse status=none",
        );
        let (_, text) = said(&dir, &["check", "--assume", "512e", "disk.img"]);
        let (made, moved) = (text.find("mkswap --uuid"), text.find("straddle realign"));
        assert!(made.is_some() && moved.is_none_or(|moved| made < Some(moved)), "{sectors}: {text}");
        let (status, text) = said(&dir, &["realign", "--assume", "512e", "disk.img"]);
        let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(status == Some(0) && text.contains("recreating it is quicker"), "{sectors}: {text}");
    }
}

/// The printed commands make an image with a GPT longer, with the backup at its end; sgdisk is the judge.
#[test]
fn an_image_is_made_longer_as_printed() {
    if !tools::present(&["sfdisk", "sgdisk"]) {
        return;
    }
    let dir = tools::Dir::new("longer");
    let image = dir.image("disk.img", (2048 + 4096 + 33) * 512);
    tools::write_table(&image, 512, "label: gpt\nstart=2048, size=4096\n");
    let report = tools::check(&image, &["--assume", "512e"]);
    let found = report["findings"].as_array().unwrap().iter().find(|finding| finding["code"] == "S072");
    let commands = found.unwrap()["fix"]["commands"].as_array().unwrap();
    let lines: Vec<&str> = commands.iter().map(|command| command["line"].as_str().unwrap()).collect();
    shell(dir.path(), &tools::pasted(&lines.join("\n")));
    assert_eq!(std::fs::metadata(&image).unwrap().len() % (1 << 20), 0);
    let verified = shell(dir.path(), "sgdisk -v disk.img");
    assert!(verified.contains("No problems found"), "{verified}");
}

/// A plan in a file gives way to one of its kind for the same disk, and to no other.
#[test]
fn a_plan_that_may_be_needed_is_not_replaced() {
    if !tools::present(&["sfdisk"]) {
        return;
    }
    let dir = tools::Dir::new("over");
    for (name, start, len) in [("one.img", 63, 64 << 20), ("two.img", 65, 65 << 20)] {
        let image = dir.image(name, len);
        tools::write_table(&image, 512, &format!("label: dos\nstart={start}, size=40000\n"));
    }
    let table =
        |name: &'static str| ["plan", name, "--table", "gpt", "--part", "rest", "--wipe", "--save", "p.json"];
    let moves = |name: &'static str| ["realign", name, "--save", "p.json"];
    let copy = |name: &'static str| ["realign", name, "--to", "new.img", "--save", "p.json"];
    let all: [[Vec<&str>; 2]; 3] = [
        ["one.img", "two.img"].map(|name| table(name).to_vec()),
        ["one.img", "two.img"].map(|name| moves(name).to_vec()),
        ["one.img", "two.img"].map(|name| copy(name).to_vec()),
    ];
    for (kind, plans) in all.iter().enumerate() {
        let _ = std::fs::remove_file(dir.join("p.json"));
        assert_eq!(said(&dir, &plans[0]).0, Some(0));
        let first = std::fs::read(dir.join("p.json")).unwrap();
        for (other, [same, another]) in all.iter().enumerate() {
            let (status, text) = said(&dir, another);
            assert!(
                status == Some(4) && text.contains("p.json: already holds a plan"),
                "{kind} {other}: {text}"
            );
            assert!(std::fs::read(dir.join("p.json")).unwrap() == first, "{kind} {other}");
            if other != kind {
                assert_eq!(said(&dir, same).0, Some(4), "{kind} {other}");
            }
        }
        assert_eq!(said(&dir, &plans[0]).0, Some(0), "{kind}");
    }
    // One that was applied is for the same disk, although its table is another one now.
    std::fs::remove_file(dir.join("p.json")).unwrap();
    for words in [
        &moves("one.img")[..],
        &["apply", "p.json", "--write", "one.img"],
        &["realign", "one.img", "--start", "1=4096s", "--save", "p.json"],
    ] {
        let (status, text) = said(&dir, words);
        assert_eq!(status, Some(0), "{words:?}: {text}");
    }
}

/// FUSE's NTFS, exFAT and a bound folder that refuses chmod: they reserve no space, know no RENAME_NOREPLACE,
/// or keep no permissions.
#[test]
fn journals_and_plans_are_kept_on_other_file_systems() {
    let tools = ["sfdisk", "ntfs-3g", "mount.exfat-fuse", "bindfs", "losetup"];
    if !tools::present(&tools) || !Path::new("/dev/fuse").exists() || !rustix::process::geteuid().is_root() {
        tools::not_run("no FUSE, or not root");
        return;
    }
    for mount in [
        "truncate -s 100M fs.img; mkntfs -F -q fs.img; ntfs-3g fs.img on",
        "truncate -s 100M fs.img; mkfs.exfat fs.img >/dev/null; losetup -f --show fs.img >loop; mount.exfat-fuse $(cat loop) on",
        "mkdir from; bindfs --chmod-deny from on",
    ] {
        let dir = tools::Dir::new("elsewhere");
        let is_on = "mkdir on; { MOUNT; } >/dev/null 2>&1 && mountpoint -q on && echo yes || echo no";
        if shell(dir.path(), &is_on.replace("MOUNT", mount)).trim() != "yes" {
            tools::not_run(mount);
            continue;
        }
        let image = dir.image("disk.img", 16 << 20);
        tools::write_table(&image, 512, "label: dos\nstart=63, size=20000\n");
        shell(
            dir.path(),
            "head -c 10240000 /dev/urandom | dd of=disk.img bs=512 seek=63 conv=notrunc status=none; dd if=disk.img bs=512 skip=63 count=20000 status=none | sha256sum >before",
        );
        let ran: Vec<_> = [
            &["realign", "disk.img", "--save", "on/move.json"][..],
            &["realign", "disk.img", "--save", "on/move.json"],
            &["apply", "on/move.json", "--write", "disk.img", "--journal", "on/journal"],
            &["bench", "random-write", "drive:wd10ears", "--count", "5", "--svg", "on/a.svg"],
            &["bench", "random-write", "drive:wd10ears", "--count", "5", "--svg", "on/a.svg"],
        ]
        .iter()
        .map(|words| said(&dir, words))
        .collect();
        let left = shell(
            dir.path(),
            "ls -A on; for try in 1 2 3 4 5; do umount on && break; sleep 1; done; [ ! -e loop ] || losetup -d $(cat loop)",
        );
        assert!(ran.iter().all(|(status, _)| *status == Some(0)), "{mount}: {ran:?}");
        assert_eq!(
            left.split_whitespace().filter(|name| name.starts_with('.')).count(),
            0,
            "{mount}: {left}"
        );
        let start = shell(dir.path(), "sfdisk -d disk.img | sed -n 's/.*start= *\\([0-9]*\\),.*/\\1/p'");
        let after = shell(
            dir.path(),
            &format!("dd if=disk.img bs=512 skip={} count=20000 status=none | sha256sum", start.trim()),
        );
        assert_eq!(after, std::fs::read_to_string(dir.join("before")).unwrap(), "{mount}");
    }
}
