//! Shapes of disks with real file systems, realigned by the program in images: logical partitions, tails that
//! give way, and layers whose data begin off a boundary.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

#[path = "realign/agrees.rs"]
mod agrees;
use crate::tools;

use std::fs;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::Duration;

use tools::shell::{program, shell, started};
use tools::skip::cases;
use tools::{Dir, list, present, word};

/// A primary partition and two logical ones, from sector 63 and without a gap. sfdisk puts the records at odd
/// sectors: 40063 and 90189.
const LOGICAL: &str = "\
truncate -s 96M disk.img
printf 'label: dos\\nstart=63,size=40000,type=83\\nstart=40063,size=120000,type=f\\nstart=40126,size=50001,type=83\\nstart=90190,size=69873,type=c\\n' |
    sfdisk -q --no-tell-kernel disk.img
mkdir tree; head -c 3000000 /dev/urandom >tree/file
truncate -s $((40000 * 512)) 1; mkfs.ext4 -q -b 4096 -d tree 1
truncate -s $((50001 * 512)) 5; mkfs.ext4 -q -b 4096 -d tree 5
truncate -s $((69873 * 512)) 6; mkfs.vfat -F 32 -s 1 -h 1 6 >/dev/null; mcopy -i 6 tree/file ::
dd if=1 of=disk.img bs=64K oflag=seek_bytes seek=$((63 * 512)) conv=notrunc status=none
dd if=5 of=disk.img bs=64K oflag=seek_bytes seek=$((40126 * 512)) conv=notrunc status=none
dd if=6 of=disk.img bs=64K oflag=seek_bytes seek=$((90190 * 512)) conv=notrunc status=none
cp disk.img before.img";

/// Takes the partitions out where sfdisk and parted find them, under the same numbers.
const JUDGE_LOGICAL: &str = "\
sfdisk -Vq disk.img
numbers=$(parted -sm disk.img unit s print | sed -n 's/^\\([0-9]*\\):.*/\\1/p' | paste -sd' ')
[ \"$numbers\" = '1 2 5 6' ]
for part in 1 5 6; do
    line=$(sfdisk -d disk.img | grep \"disk.img$part :\")
    from=$(sed 's/.*start= *\\([0-9]*\\),.*/\\1/' <<<\"$line\"); size=$(sed 's/.*size= *\\([0-9]*\\),.*/\\1/' <<<\"$line\")
    [ $size = $(($(stat -c %s $part) / 512)) ]
    dd if=disk.img of=now.$part bs=64K iflag=skip_bytes,count_bytes skip=$((from * 512)) count=$((size * 512)) status=none
    echo $((from % 8))
done
for part in 1 5; do
    e2fsck -fn now.$part >/dev/null 2>&1; debugfs -R 'dump file out' now.$part 2>/dev/null; cmp out tree/file
done
fsck.vfat -n now.6 >/dev/null; mcopy -no -i now.6 ::file out; cmp out tree/file
# The distance from its record, as DOS and Windows write it.
od -An -tu4 -j28 -N4 now.6";

#[test]
fn logical_partitions_are_realigned_and_survive_kills() {
    if !present(&["sfdisk", "parted", "mkfs.ext4", "debugfs", "mkfs.vfat", "mcopy"]) {
        return;
    }
    let dir = Dir::new("logical");
    let folder = dir.path();
    shell(folder, LOGICAL);
    let (status, text) = program(folder, &["realign", "disk.img", "--save", "move.json"]);
    assert!(status == 0 && text.contains("move 3 partitions") && !text.contains("deleted"), "{text}");
    let line = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(line(&text).contains("to the journal"), "{text}");
    let (status, text) = program(folder, &["apply", "move.json", "--write", "disk.img"]);
    assert_eq!(status, 0, "{text}");
    let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    // Aligned, and the record in the physical sector before the partition.
    assert_eq!(words(&shell(folder, JUDGE_LOGICAL)), ["0", "0", "0", "8"]);
    let rounds: u64 = std::env::var("KILLS").map_or(4, |n| n.parse().unwrap());
    let mut unfinished = 0;
    for round in 0..rounds {
        fs::copy(folder.join("before.img"), folder.join("disk.img")).unwrap();
        let mut child = started(folder, &["apply", "move.json", "--write", "disk.img"]);
        // Where the kill falls is left to chance; every outcome is judged.
        std::thread::sleep(Duration::from_millis(5 + round * 37 % 400));
        let _ = child.kill();
        child.wait().unwrap();
        let resume: &[&str] = &["resume", "disk.img", "--rollback"];
        let (status, text) = program(folder, if round % 2 == 1 { resume } else { &resume[..2] });
        let had_not_begun = text.contains("no unfinished move");
        assert_eq!(status, if had_not_begun { 3 } else { 0 }, "round {round}: {text}");
        unfinished += u64::from(!had_not_begun);
        let found = words(&shell(folder, JUDGE_LOGICAL));
        let is_one = [["0", "0", "0", "8"], ["7", "6", "6", "1"]].iter().any(|known| found == *known);
        assert!(is_one, "round {round}: {found:?}");
    }
    println!("{rounds} kills, {unfinished} in the middle");
}

/// Two partitions up to the end of the disk, of which the second holds what `make` makes in the file `2`.
fn full_disk(folder: &Path, make: &str) {
    let files = "rm -f 1 2; truncate -s $((64000 * 512)) 1; mkfs.exfat 1 >/dev/null
        truncate -s $((240000 * 512)) 2";
    shell(folder, &format!("{files}; {make}"));
    put(folder);
}

/// Makes the disk with both partitions.
fn put(folder: &Path) {
    shell(
        folder,
        "rm -f disk.img; truncate -s $((304063 * 512)) disk.img
         printf 'label: dos\\nstart=63,size=64000,type=7\\nstart=64063,size=240000,type=83\\n' |
             sfdisk -q --no-tell-kernel disk.img
         dd if=1 of=disk.img bs=64K oflag=seek_bytes seek=$((63 * 512)) conv=notrunc,sparse status=none
         dd if=2 of=disk.img bs=64K oflag=seek_bytes seek=$((64063 * 512)) conv=notrunc,sparse status=none",
    );
}

/// What a file system does not use gives way by itself.
#[test]
fn slack_behind_a_file_system_gives_way() {
    if !present(&["sfdisk", "mkfs.ext4", "mkfs.exfat", "mkfs.xfs", "mkfs.btrfs", "mkfs.ntfs", "mkfs.vfat"]) {
        return;
    }
    let dir = Dir::new("slack");
    let make = [
        ("mkfs.ext4 -q -b 4096 2 29999", "e2fsck -fn now"),
        (
            "truncate -s 122875904 2; TEST_DIR=1 TEST_DEV=1 QA_CHECK_FS=1 mkfs.xfs -q 2; truncate -s 122880000 2",
            "xfs_repair -n now",
        ),
        ("mkfs.btrfs -q -b 122875904 2", "btrfs check now"),
        ("mkfs.ntfs -q -F -f 2 239991", "ntfsresize --info --force now"),
        ("mkfs.vfat -F 32 2 119995", "fsck.vfat -n now"),
        ("mkswap -q 2 119992", "swaplabel now"),
    ];
    for (make, judge) in cases(make.into_iter(), 2) {
        full_disk(dir.path(), &format!("{make} >/dev/null 2>&1"));
        let (_, text) = program(dir.path(), &["check", "disk.img"]);
        let said = text.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(
            said.contains("the last 512 bytes of partition 2, which its contents do not use, are cut off"),
            "{make}: {text}"
        );
        let (status, text) = program(dir.path(), &["realign", "disk.img", "--save", "move.json"]);
        assert!(status == 0 && text.contains("which its contents do not use"), "{make}: {text}");
        let (status, text) =
            program(dir.path(), &["apply", "move.json", "--write", "disk.img", "--journal", "journal"]);
        assert_eq!(status, 0, "{make}: {text}");
        take_out(dir.path());
        shell(dir.path(), &format!("{judge} >/dev/null 2>&1"));
        fs::remove_file(dir.join("move.json")).unwrap();
    }
}

/// Copies the second partition to the file `now`.
fn take_out(folder: &Path) {
    shell(
        folder,
        "line=$(sfdisk -d disk.img | grep disk.img2)
         from=$(sed 's/.*start= *\\([0-9]*\\),.*/\\1/' <<<\"$line\"); size=$(sed 's/.*size= *\\([0-9]*\\),.*/\\1/' <<<\"$line\")
         [ $((from % 8)) = 0 ]
         dd if=disk.img of=now bs=64K iflag=skip_bytes,count_bytes skip=$((from * 512)) count=$((size * 512)) status=none",
    );
}

/// The command that a refusal names makes room.
#[test]
fn the_command_of_a_refusal_makes_room() {
    if !present(&["sfdisk", "mkfs.ext4", "mkfs.exfat", "resize2fs", "mkfs.ntfs", "ntfsresize", "mkswap"]) {
        return;
    }
    let dir = Dir::new("shrink");
    let make = [
        ("mkfs.ext4 -q -b 4096", "resize2fs DEVICE ", "e2fsck -fn now"),
        ("mkfs.ntfs -q -F -f -c 512", "ntfsresize --size ", "ntfsresize --info --force now"),
        ("mkfs.ntfs -q -F -f", "ntfsresize --size ", "ntfsresize --info --force now"),
        ("mkswap -q", "mkswap --uuid ", "swaplabel now"),
    ];
    for (make, command, judge) in cases(make.into_iter(), 2) {
        full_disk(dir.path(), &format!("{make} 2 >/dev/null 2>&1"));
        let (status, text) = program(dir.path(), &["realign", "disk.img", "--save", "move.json"]);
        assert!(status == 4 && text.contains(command), "{make}: {text}");
        let (_, rest) = text.split_once("shrink partition 2 (").unwrap();
        let line = rest.split_once('(').and_then(|(_, rest)| rest.split_once(')')).unwrap().0;
        // ntfsresize asks.
        let line = line.replace("DEVICE", "2");
        shell(dir.path(), &format!("{{ yes || true; }} | {{ {line}; }} >/dev/null 2>&1"));
        put(dir.path());
        let (status, text) = program(dir.path(), &["realign", "disk.img", "--save", "move.json"]);
        assert_eq!(status, 0, "{make}: after {line}: {text}");
        let words = ["apply", "move.json", "--write", "disk.img", "--journal", "journal"];
        let (status, text) = program(dir.path(), &words);
        assert_eq!(status, 0, "{make}: {text}");
        let (_, text) = program(dir.path(), &["check", "disk.img"]);
        let is_off = |line: &str| ["error S", "warning S00"].iter().any(|begin| line.starts_with(begin));
        assert!(!text.lines().any(is_off), "{make}: {text}");
        take_out(dir.path());
        shell(dir.path(), &format!("{judge} >/dev/null 2>&1"));
        fs::remove_file(dir.join("move.json")).unwrap();
    }
}

/// Disks as Windows XP left them, of which the file system uses all from sector 63 on: the commands of
/// `check` are followed, and the size that the first one names is what fits from sector 64 on.
#[test]
fn a_full_disk_is_realigned_by_the_commands_of_check() {
    if !present(&["sfdisk", "mkfs.ext4", "e2fsck", "resize2fs", "mkfs.ntfs", "ntfsresize"]) {
        return;
    }
    let dir = Dir::new("full");
    let make = [
        (131_071, "mkfs.ext4 -q -b 1024", "e2fsck -fn 1 >/dev/null 2>&1"),
        (131_072, "mkfs.ntfs -q -F -f", "ntfsresize --info --force 1 >/dev/null"),
    ];
    for (sectors, make, judge) in cases(make.into_iter(), 2) {
        let whole = (sectors - 64) / 8 * 4096;
        let put = "dd if=1 of=disk.img bs=512 seek=63 conv=notrunc status=none";
        let disk = format!(
            "rm -f *; truncate -s $(({sectors} * 512)) disk.img; truncate -s $((({sectors} - 63) * 512)) 1
             echo 'start=63, type=7' | sfdisk -q --no-tell-kernel -X dos disk.img
             {make} 1 >/dev/null 2>&1; {put}"
        );
        shell(dir.path(), &disk);
        let report = tools::check(&dir.join("disk.img"), &[]);
        let found = list(&report, "findings").iter().find(|finding| word(finding, "code") == "S001").unwrap();
        let lines: Vec<String> =
            list(&found["fix"], "commands").iter().map(|one| word(one, "line")).collect();
        let [shrink, plan, apply] = lines.as_slice() else { panic!("{make}: {lines:?}") };
        let sizes = [format!(" {whole} "), format!(" {}K", whole / 1024)];
        assert!(sizes.iter().any(|size| shrink.contains(size)), "{make}: {shrink}");
        // Without the first one the others change nothing.
        let before = fs::read(dir.join("disk.img")).unwrap();
        shell(dir.path(), &format!("! {{ {plan}; }} 2>/dev/null; ! {{ {apply}; }} 2>/dev/null"));
        assert!(fs::read(dir.join("disk.img")).unwrap() == before, "{make}");
        // ntfsresize asks.
        let shrink = shrink.replace("DEVICE", "1");
        shell(
            dir.path(),
            &format!("{{ yes || true; }} | {{ {shrink}; }} >/dev/null 2>&1; {put}; {plan}; {apply}"),
        );
        let (status, text) = program(dir.path(), &["check", "disk.img"]);
        assert!(!text.contains("S001"), "{make}: {status}: {text}");
        let take =
            format!("dd if=disk.img of=1 bs=512 skip=64 count=$(({whole} / 512)) status=none; {judge}");
        shell(dir.path(), &take);
    }
}

/// What cannot be shrunk is named as such, with the command that copies the disk, which works as it is printed.
#[test]
fn a_refusal_names_what_cannot_be_shrunk_and_the_copy() {
    if !present(&["sfdisk", "mkfs.exfat", "mkfs.xfs", "cryptsetup"]) {
        return;
    }
    let dir = Dir::new("unshrinkable");
    // 64063 must become 64064, and the last sector of 304063 is lost.
    let unshrinkable = [
        (
            "TEST_DIR=1 TEST_DEV=1 QA_CHECK_FS=1 mkfs.xfs -q 2",
            "partition 2 (xfs) by 512 bytes to 122879488 bytes, which is not possible",
        ),
        ("mkfs.exfat 2", "partition 2 (exfat) by 512 bytes to 122879488 bytes, which is not possible"),
        (
            "printf secret | cryptsetup luksFormat -q --type luks1 --pbkdf-force-iterations 1000 2 -",
            "partition 2 (crypto_LUKS) by 512 bytes to 122879488 bytes",
        ),
    ];
    for (make, expected) in cases(unshrinkable.into_iter(), 2) {
        full_disk(dir.path(), &format!("{make} >/dev/null 2>&1"));
        let (status, text) = program(dir.path(), &["realign", "disk.img"]);
        assert!(status == 4 && text.contains(expected), "{make}: {text}");
        let (_, command) = text.split_once("to copy the partitions to another disk: ").unwrap();
        shell(dir.path(), command);
        shell(
            dir.path(),
            "straddle apply disk.img.copy.json --from disk.img --write NEW; mv NEW new.img
             from=$(sfdisk -d new.img | sed -n 's/^new.img2.*start= *\\([0-9]*\\),.*/\\1/p')
             [ $((from % 8)) = 0 ]; cmp <(dd if=new.img bs=64K iflag=skip_bytes,count_bytes skip=$(($from * 512)) count=$((240000 * 512)) status=none) 2
             rm new.img disk.img.copy.json",
        );
        let (_, text) = program(dir.path(), &["check", "disk.img"]);
        assert!(
            text.contains("straddle realign disk.img --to NEW --save disk.img.copy.json"),
            "{make}: {text}"
        );
    }
}

/// A partition in which nothing was found needs no copy of the disk: the command that recreates it works as printed.
#[test]
fn a_partition_with_nothing_in_it_can_be_recreated() {
    if !present(&["sfdisk"]) {
        return;
    }
    let dir = Dir::new("nothing-in-it");
    shell(dir.path(), "truncate -s 64M disk.img; echo start=63,type=83 | sfdisk -q disk.img");
    let (_, text) = program(dir.path(), &["check", "disk.img"]);
    let text = tools::run::flat(&text);
    let (_, command) = text.split_once("if it holds no data, recreate it instead (").unwrap();
    let (commands, _) = command.split_once(')').unwrap();
    shell(dir.path(), &format!("{}; straddle check disk.img", commands.replace(", then ", "; ")));
}

/// What is left to do by hand is said again when the move is complete.
#[test]
fn what_windows_needs_is_said_after_the_move() {
    if !present(&["sfdisk", "mkfs.ntfs"]) {
        return;
    }
    let dir = Dir::new("windows");
    shell(
        dir.path(),
        "truncate -s 64M disk.img; echo start=63,size=100000,type=7 | sfdisk -q disk.img
         truncate -s 51200000 1; mkfs.ntfs -qFf -p 63 -H 255 -S 63 1
         dd if=1 of=disk.img bs=512 seek=63 conv=notrunc status=none; straddle realign disk.img --save move.json",
    );
    let (status, text) = program(dir.path(), &["apply", "move.json", "--write", "disk.img"]);
    assert!(status == 0 && text.contains("then, partition 1: Windows identifies volumes"), "{text}");
}

/// The superblock of md 1.0 or 0.90, or the metadata of DRBD, in the file `2`, where they are: before its end.
const FROM_END: [(&str, &str); 3] = [
    (
        "linux_raid_member",
        "at = ((sectors - 16) & ~7) * 512\nblock = bytearray(4096)\nfor where, what in (0, 0xa92b4efc), (4, 1), (72, 1), (92, 2), (220, 128):\n\
         \tpack(block, where, '<I', what)\nfor where, what in (80, sectors - 16), (128, 0), (136, sectors - 16), (144, at // 512):\n\
         \tpack(block, where, '<Q', what)\nsum = sum(struct.unpack('<128I', block[:512]))\n\
         pack(block, 216, '<I', ((sum & 0xffffffff) + (sum >> 32)) & 0xffffffff)",
    ),
    (
        "linux_raid_member",
        "at = ((sectors & ~127) - 128) * 512\nblock = bytearray(4096)\n\
         for where, what in (0, 0xa92b4efc), (4, 0), (8, 90), (28, 1), (32, (sectors & ~127) // 2 - 64), (36, 2), (40, 2):\n\
         \tpack(block, where, '<I', what)\npack(block, 152, '<I', sum(struct.unpack('<1024I', block)) & 0xffffffff)",
    ),
    ("drbd", "at = (sectors - 8) * 512\nblock = bytearray(4096)\npack(block, 60, '>I', 0x8374026d)"),
];

/// A member that is found from its end cannot be made shorter: nothing says so, neither a refusal nor a fix.
#[test]
fn a_member_with_its_metadata_at_its_end_is_not_to_be_shrunk() {
    if !present(&["sfdisk", "mkfs.exfat", "python3", "blkid"]) {
        return;
    }
    let dir = Dir::new("from-end");
    for (kind, script) in FROM_END {
        let script = format!(
            "import os, struct\npack = lambda block, at, form, value: struct.pack_into(form, block, at, value)\n\
             sectors = os.path.getsize('2') // 512\n{script}\nfile = open('2', 'r+b')\nfile.seek(at)\nfile.write(block)\n"
        );
        fs::write(dir.join("script.py"), script).unwrap();
        full_disk(dir.path(), "python3 script.py");
        shell(dir.path(), &format!("[ $(blkid -p -o value -s TYPE 2) = {kind} ]"));
        let (status, text) = program(dir.path(), &["realign", "disk.img"]);
        assert!(status == 4 && !text.contains(&format!("partition 2 ({kind}) by")), "{kind}: {text}");
        let (_, text) = program(dir.path(), &["check", "--json", "disk.img"]);
        let report: serde_json::Value = serde_json::from_str(&text).unwrap();
        let of = |finding: &&serde_json::Value| finding["partition"] == 2;
        let findings: Vec<_> =
            report["targets"][0]["findings"].as_array().unwrap().iter().filter(of).collect();
        assert!(findings.iter().any(|finding| finding["code"] == "S001"), "{kind}: {text}");
        for finding in findings {
            let fix = finding["fix"].to_string() + &finding["alternative"].to_string();
            assert!(!fix.contains("shrink") && !fix.contains("grow"), "{kind}: {finding:#}");
        }
    }
}

/// LUKS1 cannot move its payload: the partition is placed so that the payload is aligned, and stays where it
/// is if that is so already.
#[test]
fn the_payload_of_luks_is_aligned_and_not_its_partition() {
    if !present(&["sfdisk", "cryptsetup"]) {
        return;
    }
    let dir = Dir::new("luks");
    let disk = |payload: u64, start: u64| {
        shell(
            dir.path(),
            &format!(
                "rm -f disk.img 1; truncate -s 96M disk.img; truncate -s $((60001 * 512)) 1
                 printf 'label: dos\\nstart={start},size=60001,type=83\\n' | sfdisk -q --no-tell-kernel disk.img
                 printf secret | cryptsetup luksFormat -q --type luks1 --align-payload {payload} \
                     --pbkdf-force-iterations 1000 1 -
                 head -c 20000000 /dev/urandom | dd of=1 bs=1M seek=4 conv=notrunc status=none
                 dd if=1 of=disk.img bs=64K oflag=seek_bytes seek=$(({start} * 512)) conv=notrunc status=none"
            ),
        );
    };
    // (payload, start, new start): the nearest one at which the payload is on a multiple of 2048 sectors.
    for (payload, start, expected) in [(4095, 63, 2049), (4095, 2048, 2049), (4096, 63, 2048)] {
        disk(payload, start);
        let (status, text) = program(dir.path(), &["realign", "disk.img", "--save", "move.json"]);
        assert_eq!(status, 0, "{text}");
        assert_eq!(text.contains("encrypted payload"), payload == 4095, "{text}");
        let (status, text) = program(dir.path(), &["apply", "move.json", "--write", "disk.img"]);
        assert_eq!(status, 0, "{text}");
        let table = shell(dir.path(), "sfdisk -d disk.img");
        assert!(table.contains(&format!("start= {expected:>11}, size=       60001")), "{table}");
        shell(
            dir.path(),
            &format!(
                "dd if=disk.img of=now bs=64K iflag=skip_bytes,count_bytes skip=$(({expected} * 512)) count=$((60001 * 512)) status=none; cmp now 1
                 printf secret | cryptsetup open --test-passphrase now --key-file -; rm move.json"
            ),
        );
        let (status, text) = program(dir.path(), &["realign", "disk.img"]);
        assert!(
            status == 0 && text.contains("nothing to do, because no partition has to be moved"),
            "{text}"
        );
    }
    // 63 + 4041 is a multiple of 8.
    disk(4041, 63);
    let (status, text) = program(dir.path(), &["realign", "disk.img"]);
    assert!(status == 0 && text.contains("nothing to do, because no partition has to be moved"), "{text}");
}

/// The copy of a boot sector may record another start than the boot sector, as after a program that corrected
/// only that: it stays as it is, and nothing depends on it.
#[test]
fn a_copy_of_a_boot_sector_that_records_another_start_stays() {
    if !present(&["sfdisk", "mkfs.ntfs", "mkfs.fat"]) {
        return;
    }
    let made = [
        ("mkfs.ntfs -q -Q -F -p 2049 -H 255 -S 63 fs", 99_999 * 512),
        ("mkfs.fat -F 32 -s 1 -h 2049 fs", 6 * 512),
    ];
    for (make, copy) in made {
        for (first, second) in [(2049_u32, 0_u32), (63, 2049), (0, 2049)] {
            let dir = Dir::new("copies");
            let image = dir.image("disk.img", 100 << 20);
            tools::write_table(&image, 512, "label: dos\nstart=2049, size=100000, type=7\n");
            tools::shell(&format!("truncate -s 51200000 fs && {make} >/dev/null"), dir.path());
            let write = |at: u64, number: u32| {
                let file = fs::OpenOptions::new().write(true).open(dir.join("fs")).unwrap();
                file.write_all_at(&number.to_le_bytes(), at + 28).unwrap();
            };
            write(0, first);
            write(copy, second);
            tools::shell(
                "dd if=fs of=disk.img bs=64K oflag=seek_bytes seek=$((2049 * 512)) conv=notrunc,sparse status=none",
                dir.path(),
            );
            let line = "straddle realign disk.img --save m.json && straddle apply m.json --write disk.img";
            tools::shell(&tools::pasted(line), dir.path());
            let report = tools::check(&image, &[]);
            let start = tools::number(&tools::list(&report, "partitions")[0], "start_lba");
            let read = |at: u64| {
                let mut number = [0; 4];
                fs::File::open(&image).unwrap().read_exact_at(&mut number, start * 512 + at + 28).unwrap();
                u64::from(u32::from_le_bytes(number))
            };
            let expected = if first == 0 { 0 } else { start };
            assert!(
                start != 2049 && read(0) == expected && read(copy) == u64::from(second),
                "{make}: {first} {second}"
            );
        }
    }
}

/// A disk that has grown has room where its GPT does not reach: the commands of the refusal give it to the GPT.
#[test]
fn the_backup_of_a_grown_disk_is_moved_first() {
    if !present(&["sgdisk", "mkfs.ext4"]) {
        return;
    }
    let dir = Dir::new("grown");
    let make = "truncate -s 64M disk.img; sgdisk -a 1 -n 1:34:2048 -t 1:ef02 -n 2:2049:131038 disk.img
        truncate -s $((128990 * 512)) 2; mkfs.ext4 -q -F -b 4096 2
        dd if=2 of=disk.img bs=512 seek=2049 conv=notrunc,sparse status=none; truncate -s 256M disk.img";
    shell(dir.path(), &format!("{{ {make}; }} >/dev/null 2>&1"));
    let (status, text) = program(dir.path(), &["realign", "disk.img", "--save", "move.json"]);
    let said = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let (_, line) = said.split_once("to the end of the disk: ").unwrap();
    assert_eq!(status, 4, "{text}");
    tools::shell(&tools::pasted(line), dir.path());
    let (status, text) = program(dir.path(), &["realign", "disk.img", "--save", "move.json"]);
    assert!(status == 0 && text.contains("move 1 partition,"), "{text}");
}
