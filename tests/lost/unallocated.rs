//! What no partition, and no known content of one, accounts for: other programs' data stay, or are named first.

use std::fs;
use std::os::unix::fs::FileExt;
use std::path::Path;

use crate::tools::{Dir, check_in, list, number, present, shell, straddle_in, text, transcript, write_table};

/// Bytes that are not zeros.
fn foreign(seed: u8, len: usize) -> Vec<u8> {
    let period: Vec<u8> =
        (0..251).map(|at| u8::try_from((at * 7 + usize::from(seed)) % 251 + 1).unwrap()).collect();
    let mut bytes = period.repeat(len / 251 + 1);
    bytes.truncate(len);
    bytes
}

fn put(image: &Path, at: u64, bytes: &[u8]) {
    fs::OpenOptions::new().write(true).open(image).unwrap().write_all_at(bytes, at).unwrap();
}

fn get(image: &Path, at: u64, len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    fs::File::open(image).unwrap().read_exact_at(&mut bytes, at).unwrap();
    bytes
}

/// Runs a command; returns its status and what it printed.
pub(crate) fn run(dir: &Dir, words: &[&str]) -> (i32, String) {
    let output = straddle_in(dir, words);
    (output.status.code().unwrap(), transcript(&output))
}

/// Every command that the fixes of `disk.img` print, in one text.
pub(crate) fn printed(dir: &Dir) -> String {
    let seen = straddle_in(dir, &["check", "--json", "disk.img"]);
    let report: serde_json::Value = serde_json::from_slice(&seen.stdout).unwrap();
    let fixes =
        list(&report["targets"][0], "findings").iter().flat_map(|one| [&one["fix"], &one["alternative"]]);
    fixes
        .filter_map(|fix| fix["commands"].as_array())
        .flatten()
        .map(|line| line["line"].to_string())
        .collect()
}

/// An MBR disk of one ext4, from sector 63 on.
fn disk(dir: &Dir, size: u64, sectors: u64) -> std::path::PathBuf {
    let image = dir.image("disk.img", size);
    write_table(&image, 512, &format!("label: dos\nstart=63, size={sectors}, type=83\n"));
    shell(&format!("mkfs.ext4 -q -F -b 4096 -E offset=32256 disk.img {}k", sectors / 8 * 4), dir.path());
    image
}

/// The journal avoids data, and a move that would write over some is refused, unless they are given up.
#[test]
fn data_in_unallocated_space_stay_or_are_given_up() {
    if !present(&["mkfs.ext4", "e2fsck"]) {
        return;
    }
    let (size, sectors) = (400_u64 << 20, 300_000_u64);
    // A little: in the last sector, in the middle of the space. Much: all of it.
    let end = (63 + sectors) * 512;
    let all = usize::try_from(size - end - (4 << 20)).unwrap();
    for (what, places) in [
        ("the last sector", vec![(size - 512, 16)]),
        ("where the data go", vec![(end + 512 * 1024, 4096)]),
        ("nearly all", vec![(end + (4 << 20), all)]),
    ] {
        let dir = Dir::new("besides");
        let image = disk(&dir, size, sectors);
        for (at, len) in &places {
            put(&image, *at, &foreign(1, *len));
        }
        let kept = |case: &str| {
            for (at, len) in &places {
                assert!(get(&image, *at, *len) == foreign(1, *len), "{what}: {case}");
            }
        };
        let (status, said) = run(&dir, &["realign", "disk.img", "--save", "move.json", "--partition", "1"]);
        assert_eq!(status, 0, "{what}: {said}");
        let json: serde_json::Value =
            serde_json::from_str(&fs::read_to_string(dir.join("move.json")).unwrap()).unwrap();
        let mut apply = vec!["apply", "move.json", "--write", "disk.img"];
        if json["journal"].get("file").is_some() {
            assert_eq!(run(&dir, &apply).0, 2, "{what}");
            apply.extend(["--journal", "journal"]);
        }
        let (status, said) = run(&dir, &apply);
        assert_eq!(status, 0, "{what}: {said}");
        kept("moved");
        shell(
            "e2fsck -fn 'disk.img?offset='$(sfdisk -J disk.img | jq '.partitiontable.partitions[0].start*512')",
            dir.path(),
        );
    }
    // To one place, where something is: also what comes there after the plan was made.
    for is_later in [false, true] {
        let dir = Dir::new("besides-to");
        let image = disk(&dir, size, sectors);
        let put_it = || put(&image, 170 << 20, &foreign(2, 512));
        if !is_later {
            put_it();
        }
        let plan = ["realign", "disk.img", "--save", "move.json", "--start", "1=160MiB"];
        let (status, said) = run(&dir, &plan);
        assert_eq!(status, if is_later { 0 } else { 4 }, "{said}");
        if is_later {
            put_it();
            let before = crate::tools::Contents::of(&image);
            let (status, said) = run(&dir, &["apply", "move.json", "--write", "disk.img"]);
            assert!(status == 4 && said.contains("178257920"), "{status}: {said}");
            assert!(crate::tools::Contents::of(&image) == before);
        } else {
            assert!(said.contains("byte 178257920") && said.contains("--wipe"), "{said}");
            let (status, said) = run(&dir, &[&plan[..], &["--wipe"]].concat());
            assert_eq!(status, 0, "{said}");
            let (status, said) = run(&dir, &["apply", "move.json", "--write", "disk.img"]);
            assert_eq!(status, 0, "{said}");
            shell("e2fsck -fn 'disk.img?offset=167772160'", dir.path());
        }
    }
}

/// A move leaves no journal behind: the next one finds the space as empty as the first one did.
#[test]
fn the_space_of_a_journal_is_empty_again() {
    if !present(&["mkfs.ext4"]) {
        return;
    }
    let dir = Dir::new("besides-empty");
    let image = disk(&dir, 400 << 20, 300_000);
    for start in ["160MiB", "1MiB", "160MiB"] {
        let start = format!("1={start}");
        let (status, said) =
            run(&dir, &["realign", "disk.img", "--save", "move.json", "--wipe", "--start", &start]);
        assert_eq!(status, 0, "{said}");
        assert!(said.contains("journal: "), "{said}");
        let plan = fs::read_to_string(dir.join("move.json")).unwrap();
        let plan: serde_json::Value = serde_json::from_str(&plan).unwrap();
        let journal = &plan["journal"]["unallocated"];
        let (at, len) =
            (number(journal, "start_bytes"), usize::try_from(number(journal, "size_bytes")).unwrap());
        // What is given up there, such as what an earlier move has left, is not in the way of the next one.
        put(&image, at + 40_960, &foreign(5, 8192));
        let (status, said) = run(&dir, &["apply", "move.json", "--write", "disk.img"]);
        assert_eq!(status, 0, "{said}");
        assert!(get(&image, at - 4096, len + 4096).iter().all(|byte| *byte == 0), "{start}");
    }
}

/// What lies behind a file system in its partition is not cut off: a tree of hashes, a footer, whatever it is.
#[test]
fn data_behind_a_file_system_move_with_it() {
    if !present(&["mkfs.ext4", "mkfs.xfs", "mkfs.vfat"]) {
        return;
    }
    for (make, behind_end) in
        [("mkfs.ext4 -q -F fs", true), ("mkfs.xfs -q -f fs", false), ("mkfs.vfat fs", true)]
    {
        let dir = Dir::new("besides-behind");
        let sectors = 320 * 2048 - 63_u64;
        let image = dir.image("disk.img", 320 << 20);
        write_table(&image, 512, &format!("label: dos\nstart=63, size={sectors}, type=83\n"));
        dir.image("fs", 308 << 20);
        shell(make, dir.path());
        shell("dd if=fs of=disk.img bs=1M seek=32256 oflag=seek_bytes conv=notrunc status=none", dir.path());
        let at = if behind_end { (308 << 20) + 32_256 } else { (320 << 20) - 64 };
        put(&image, at, &foreign(3, 64));
        let before = crate::tools::Contents::of(&image);
        let (status, said) = run(&dir, &["realign", "disk.img", "--save", "move.json"]);
        assert!(status == 4 && said.contains("--wipe"), "{make}: {said}");
        assert!(!printed(&dir).contains("sfdisk"), "{make}: {}", printed(&dir));
        assert!(crate::tools::Contents::of(&image) == before, "{make}");
        // A copy has room for all.
        let (status, said) = run(&dir, &["realign", "disk.img", "--to", "new.img", "--save", "copy.json"]);
        assert_eq!(status, 0, "{make}: {said}");
        let copied = run(&dir, &["apply", "copy.json", "--from", "disk.img", "--write", "new.img"]);
        assert_eq!(copied.0, 0, "{make}: {}", copied.1);
        assert!(get(&dir.join("new.img"), at - 32_256 + (1 << 20), 64) == foreign(3, 64), "{make}");
    }
}

/// Data of which nothing is known, and a disk of another system's volume manager.
#[test]
fn what_is_not_understood_is_not_shortened_nor_moved_by_other_tools() {
    if !present(&["fdisk"]) {
        return;
    }
    let dir = Dir::new("besides-unknown");
    let image = dir.image("disk.img", 64 << 20);
    let sectors = 64 * 2048 - 63_u64;
    // Nothing that is recognised, in all of the disk behind the first track.
    write_table(&image, 512, &format!("label: dos\nstart=63, size={sectors}, type=83\n"));
    put(&image, 32_256, &foreign(4, 4096));
    put(&image, (64 << 20) - 512, &foreign(5, 512));
    let report = check_in(dir.path(), Path::new("disk.img"), &[]);
    let start = list(&report, "findings").iter().find(|one| one["code"] == "S001").unwrap();
    let first = start["fix"]["commands"].to_string();
    assert!(first.contains("realign") && first.contains("--to"), "{start}");
    // A Windows dynamic disk, and OpenBSD's disk label, which lists its slices from the start of the disk.
    for (kind, label) in [("42", false), ("a6", true)] {
        let image = dir.image("disk.img", 64 << 20);
        write_table(&image, 512, &format!("label: dos\nstart=63, size=100000, type={kind}\n"));
        if label {
            shell(
                "printf 'b\\ny\\nn\\na\\n\\n+20M\\nw\\nq\\n' | fdisk disk.img >fdisk.log 2>&1 || true",
                dir.path(),
            );
        }
        let before = crate::tools::Contents::of(&image);
        for words in [
            &["realign", "disk.img", "--save", "move.json"][..],
            &["realign", "disk.img", "--to", "new.img", "--save", "copy.json"],
        ] {
            let (status, said) = run(&dir, words);
            assert!(
                status == 4 || said.contains("is not moved, because it holds a partition table"),
                "{kind}: {words:?}: {said}"
            );
        }
        assert_eq!(printed(&dir), "", "{kind}");
        let said = text(&straddle_in(&dir, &["check", "disk.img"]).stdout);
        let why = if label { ["not judged", "type bsd"] } else { ["not judged", "dynamic disk"] };
        assert!(why.iter().all(|word| said.contains(word)), "{kind}: {said}");
        assert!(crate::tools::Contents::of(&image) == before, "{kind}");
    }
}

/// Where nothing may move, no other tool's command is printed either, and the reason is.
#[test]
fn a_hibernated_system_is_named_instead_of_a_command() {
    if !present(&["mkfs.ext4", "mkswap"]) {
        return;
    }
    let dir = Dir::new("besides-asleep");
    let image = dir.image("disk.img", 400 << 20);
    write_table(
        &image,
        512,
        "label: dos\nstart=63, size=300000, type=83\nstart=307200, size=200000, type=82\n",
    );
    shell("mkfs.ext4 -q -F -b 4096 -E offset=32256 disk.img 150000k", dir.path());
    dir.image("swap", 200_000 * 512);
    shell("mkswap swap >mkswap.log 2>&1", dir.path());
    shell(
        "dd if=swap of=disk.img bs=64K oflag=seek_bytes seek=$((307200 * 512)) conv=notrunc status=none",
        dir.path(),
    );
    put(&image, 307_200 * 512 + 4086, b"S1SUSPEND\0");
    assert_eq!(printed(&dir), "");
    let said = text(&straddle_in(&dir, &["check", "disk.img"]).stdout);
    assert!(said.contains("hibernated system"), "{said}");
    // A copy would resume with the old places as well.
    for words in [&["realign", "disk.img"][..], &["realign", "disk.img", "--to", "new.img"]] {
        let (status, said) = run(&dir, words);
        assert!(status == 4 && said.contains("hibernated system"), "{words:?}: {status}: {said}");
    }
}

/// What a deleted partition's file system accounts for stays, although it is zeros where the move would go.
#[test]
fn what_a_deleted_partition_reaches_stays() {
    if !present(&["mkfs.ext4", "sfdisk", "e2fsck"]) {
        return;
    }
    // One, or two without a gap: the second one reaches to the partition that moves.
    for lengths in [&[98_000_u64][..], &[40_000, 58_000]] {
        deleted_ones_stay(lengths);
    }
}

fn deleted_ones_stay(lengths: &[u64]) {
    let dir = Dir::new("deleted");
    let image = dir.image("disk.img", 150 << 20);
    write_table(&image, 512, "label: dos\nstart=100063, size=207137, type=83\n");
    let mut start = 2048;
    for sectors in lengths {
        let offset = start * 512;
        shell(&format!("mkfs.ext4 -q -F -b 4096 -E offset={offset} disk.img {}k", sectors / 2), dir.path());
        start += sectors;
    }
    shell("mkfs.ext4 -q -F -b 4096 -E offset=51232256 disk.img 103568k", dir.path());
    let (at, len) = (1 << 20, 98_000 * 512);
    let before = get(&image, at, len);
    let (status, said) = run(&dir, &["realign", "disk.img", "--save", "move.json"]);
    if status == 0 {
        // The journal finds no room beside it.
        let apply = ["apply", "move.json", "--write", "disk.img", "--journal", "journal"];
        let (status, said) = run(&dir, &apply);
        assert_eq!(status, 0, "{said}");
    }
    assert!(get(&image, at, len) == before, "{said}");
    let dump = shell("sfdisk -d disk.img", dir.path());
    let start = dump.rsplit("start=").next().unwrap().split(',').next().unwrap();
    assert!(start.trim().parse::<u64>().unwrap() >= 2048 + 98_000, "{status}: {said}\n{dump}");
    let (status, _) = run(&dir, &["realign", "disk.img", "--wipe"]);
    assert_eq!(status, 0);
}

/// A plan reads samples of a long place where data go, and `apply` all of it.
#[test]
fn data_between_the_samples_of_a_plan_stay() {
    if !present(&["mkfs.ext4"]) {
        return;
    }
    let dir = Dir::new("besides-far");
    let image = disk(&dir, 600 << 20, 300_000);
    let at = (300 << 20) + 76_800_000 / 4096 * 4096 + 65_536;
    put(&image, at, &foreign(3, 512));
    let before = crate::tools::Contents::of(&image);
    let plan = ["realign", "disk.img", "--save", "move.json", "--start", "1=300MiB"];
    let (status, said) = run(&dir, &plan);
    assert_eq!(status, 0, "the samples would have to miss it: {said}");
    let (status, said) = run(&dir, &["apply", "move.json", "--write", "disk.img"]);
    assert!(status == 4 && said.contains(&format!("byte {at}, ")), "{status}: {said}");
    assert!(crate::tools::Contents::of(&image) == before);
    assert_eq!(run(&dir, &[&plan[..], &["--wipe"]].concat()).0, 0);
    let (status, said) = run(&dir, &["apply", "move.json", "--write", "disk.img"]);
    assert_eq!(status, 0, "{said}");
}

/// A copy to a smaller disk makes a partition shorter only where nothing lies behind the end of its contents.
#[test]
fn a_smaller_copy_loses_no_data() {
    if !present(&["mkfs.ext4"]) {
        return;
    }
    for is_there in [false, true] {
        let dir = Dir::new("besides-copy");
        let image = dir.image("disk.img", 400 << 20);
        write_table(&image, 512, "label: dos\nstart=63, size=600000, type=83\n");
        shell("mkfs.ext4 -q -F -b 4096 -E offset=32256 disk.img 100M", dir.path());
        if is_there {
            put(&image, (63 + 400_000) * 512, &foreign(4, 1000));
        }
        dir.image("new.img", 200 << 20);
        let plan = ["realign", "disk.img", "--to", "new.img", "--save", "copy.json"];
        let (status, said) = run(&dir, &plan);
        assert_eq!(status, if is_there { 4 } else { 0 }, "{said}");
        assert_eq!(said.contains("to omit it, use --wipe"), is_there, "{said}");
        assert_eq!(run(&dir, &[&plan[..], &["--wipe"]].concat()).0, 0);
    }
}

/// What is where a new partition begins is listed if a wipe takes it.
#[test]
fn a_wipe_lists_what_it_takes() {
    if !present(&["mkfs.ext4"]) {
        return;
    }
    let dir = Dir::new("besides-wipe");
    let image = dir.image("disk.img", 300 << 20);
    write_table(&image, 512, "label: dos\nstart=2048, size=100000, type=83\n");
    let plan = |options: &[&str]| {
        let words = [&["plan", "disk.img", "--add", "50MiB"][..], options].concat();
        let (status, said) = run(&dir, &words);
        assert_eq!(status, 0, "{said}");
        crate::tools::run::flat(&said)
    };
    assert!(!plan(&["--wipe"]).contains("outside partitions"));
    put(&image, 52_428_800 + 512, &foreign(5, 100));
    let unknown = "outside partitions: unrecognised data, 68 KiB (69632 bytes) from byte 52428800";
    assert!(plan(&["--wipe"]).contains(unknown), "{}", plan(&["--wipe"]));
    shell("mkfs.ext4 -q -F -L photos -E offset=52428800 disk.img 40M", dir.path());
    let known = "outside partitions: ext4 \"photos\", 40 MiB";
    assert!(plan(&["--wipe"]).contains(known), "{}", plan(&["--wipe"]));
    let (status, said) = run(&dir, &["plan", "disk.img", "--add", "50MiB"]);
    assert!(status == 4 && said.contains("photos"), "{said}");
}
