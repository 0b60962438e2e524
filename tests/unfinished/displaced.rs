//! Another program writes its own table over the marker of an unfinished move.

use std::fs;
use std::os::unix::fs::symlink;

use straddle_repair::Target;
use straddle_repair::realign::{JournalPlace, Realign};

use crate::tools::{self, Dir, list, number, word, write_table};
use crate::{LEN, NAME, TABLES, begin, check, content, fill, of_rule, planned, put_back, run};

/// A table that has nothing to do with the disk's.
const OTHER: [&str; 2] =
    ["label: dos\nstart=2048, size=30000\nstart=40960, size=20000\n", "label: gpt\nstart=2048, size=30000\n"];

/// The partitions of these tables, in sectors.
const PARTS: [[(usize, usize); 2]; 2] = [[(63, 8_000), (8_063, 8_001)], [(34, 8_000), (8_034, 8_001)]];

/// Every partition has the bytes that it had on `before`, wherever the table says that it is.
fn check_contents(dir: &Dir, before: &[u8], table: usize) {
    let (report, bytes) = (check(dir), fs::read(dir.join(NAME)).unwrap());
    assert!(of_rule(&report, "S047").is_empty(), "{report}");
    let partitions = list(&report, "partitions");
    assert_eq!(partitions.len(), 3, "{report}");
    for (partition, (start, sectors)) in partitions.iter().zip(PARTS[table]) {
        let at = usize::try_from(number(partition, "start_bytes")).unwrap();
        let was = &before[start * 512..][..sectors * 512];
        assert!(bytes[at..at + was.len()] == *was, "{partition}");
    }
}

#[test]
fn a_move_goes_on_after_another_program_wrote_a_table() {
    if !tools::present(&["sfdisk"]) {
        return;
    }
    for (table, other, way) in
        [(0, 0, None), (0, 1, Some("--rollback")), (1, 0, Some("--rollback")), (1, 1, None)]
    {
        let dir = planned(TABLES[table], LEN);
        let before = fs::read(dir.join(NAME)).unwrap();
        begin(&dir, None);
        write_table(&dir.join(NAME), 512, OTHER[other]);
        let displaced = fs::read(dir.join(NAME)).unwrap();
        let what = format!("{table} {other} {way:?}");
        let report = check(&dir);
        assert_eq!(of_rule(&report, "S047").len(), 1, "{what}: {report}");
        let finding = of_rule(&report, "S047")[0];
        let (message, fix) = (word(finding, "message"), word(&finding["fix"]["commands"][0], "line"));
        assert!(message.contains("another program has written the table since"), "{message}");
        assert!(
            message.contains("bytes have moved") && fix.contains("--restore-table FILE"),
            "{message} {fix}"
        );
        for partition in list(&report, "partitions") {
            assert_eq!(partition["verdict"], "unfinished_move", "{partition}");
        }
        for words in [
            &["plan", NAME, "--add", "1MiB"][..],
            &["plan", NAME, "--table", "gpt", "--part", "rest", "--wipe"],
            &["realign", NAME],
            &["apply", "other.json", "--write", NAME],
            &["bench", "random-write", NAME, "--io", "buffered", "--runtime", "1"],
        ] {
            let (status, text) = run(&dir, words);
            assert!(status == Some(4) && text.contains("straddle resume"), "{words:?}: {text}");
        }
        let (status, text) = run(&dir, &["resume", NAME]);
        assert!(status == Some(4) && text.contains("resume disk.img --restore-table FILE"), "{text}");
        assert!(fs::read(dir.join(NAME)).unwrap() == displaced, "{what}: it was written to");
        let resume: Vec<&str> = ["resume", NAME, "--restore-table", "saved"].into_iter().chain(way).collect();
        let (status, text) = run(&dir, &resume);
        assert!(status == Some(0) && text.contains("straddle undo saved --write"), "{what}: {text}");
        check_contents(&dir, &before, table);
        let (status, text) = run(&dir, &resume);
        assert!(status != Some(0) && text.contains("no unfinished move"), "{text}");
    }
}

/// The journal is in a file: the table tells nothing of it.
#[test]
fn a_journal_in_a_file_restores_the_table_on_request() {
    if !tools::present(&["sfdisk"]) {
        return;
    }
    let dir = planned(TABLES[0], LEN);
    let before = fs::read(dir.join(NAME)).unwrap();
    begin(&dir, Some("journal"));
    write_table(&dir.join(NAME), 512, OTHER[0]);
    let displaced = fs::read(dir.join(NAME)).unwrap();
    let resume = ["resume", NAME, "--journal", "journal"];
    let (status, text) = run(&dir, &resume);
    assert!(status == Some(4) && text.contains("--journal journal --restore-table FILE"), "{text}");
    assert!(fs::read(dir.join(NAME)).unwrap() == displaced, "it was written to");
    let (status, text) = run(&dir, &[&resume[..], &["--restore-table", "saved", "--rollback"]].concat());
    assert_eq!(status, Some(0), "{text}");
    check_contents(&dir, &before, 0);
}

/// The table that is overwritten is saved first, to a file that is to outlast a power failure.
#[test]
fn a_table_that_is_saved_in_memory_is_warned_of() {
    let Ok(memory) = tempfile::tempdir_in("/dev/shm") else { return tools::skipped("there is no /dev/shm") };
    if !tools::present(&["sfdisk"]) {
        return;
    }
    let dir = planned(TABLES[0], LEN);
    begin(&dir, Some("journal"));
    write_table(&dir.join(NAME), 512, OTHER[0]);
    let saved = memory.path().join("saved").display().to_string();
    let (status, text) = run(&dir, &["resume", NAME, "--journal", "journal", "--restore-table", &saved]);
    assert_eq!(status, Some(0), "{text}");
    let warning = format!("warning: {saved}: the backup would be in memory only (tmpfs)");
    // The folder of the tests may be in memory as well.
    assert_eq!(text.contains(&warning), tools::file_system(dir.path()) != "tmpfs", "{text}");
}

/// Who has put the disk to another use removes the journal with the commands of the finding.
#[test]
fn a_journal_that_is_not_needed_any_more_is_removed() {
    if !tools::present(&["sfdisk"]) {
        return;
    }
    let dir = planned(TABLES[0], LEN);
    begin(&dir, None);
    write_table(&dir.join(NAME), 512, OTHER[0]);
    let fix = word(&of_rule(&check(&dir), "S047")[0]["fix"], "caution").to_owned();
    let words: Vec<&str> = fix.split_whitespace().collect();
    let places = words.windows(2).filter(|pair| pair[0] == "byte").map(|pair| pair[1].parse().unwrap());
    let mut bytes = fs::read(dir.join(NAME)).unwrap();
    places.for_each(|at: usize| bytes[at..at + 512].fill(0));
    fs::write(dir.join(NAME), bytes).unwrap();
    assert!(of_rule(&check(&dir), "S047").is_empty());
    let (status, text) = run(&dir, &["resume", NAME, "--restore-table", "saved"]);
    assert!(status != Some(0) && text.contains("no unfinished move"), "{text}");
}

#[test]
fn a_journal_named_by_a_link_is_removed_and_the_link_stays() {
    if !tools::present(&["sfdisk"]) {
        return;
    }
    let dir = planned(TABLES[0], LEN);
    begin(&dir, Some("journal"));
    symlink("journal", dir.join("link")).unwrap();
    let (status, text) = run(&dir, &["resume", NAME, "--journal", "link"]);
    assert_eq!(status, Some(0), "{text}");
    assert!(!dir.join("journal").exists() && dir.join("link").is_symlink());
    // A new journal is not made through a link.
    let dir = planned(TABLES[0], LEN);
    symlink("journal", dir.join("link")).unwrap();
    let before = fs::read(dir.join(NAME)).unwrap();
    let (status, text) = run(&dir, &["apply", "move.json", "--write", NAME, "--journal", "link"]);
    assert!(status == Some(4) && text.contains("link"), "{text}");
    assert!(fs::read(dir.join(NAME)).unwrap() == before && !dir.join("journal").exists());
    assert!(dir.join("link").is_symlink());
}

/// What completes a copy is not `resume`.
#[test]
fn a_measurement_on_an_unfinished_copy_names_what_completes_it() {
    let dir = Dir::new("copy");
    let mut first = [0; 512];
    first[32..57].copy_from_slice(b"straddle: unfinished copy");
    (first[450], first[454], first[459]) = (0x7f, 1, 1);
    first[510..].copy_from_slice(b"\x55\xaa");
    let image = dir.image(NAME, LEN);
    let mut bytes = fs::read(&image).unwrap();
    bytes[..512].copy_from_slice(&first);
    fs::write(&image, &bytes).unwrap();
    let (status, text) = run(&dir, &["bench", "random-write", NAME, "--io", "buffered", "--runtime", "1"]);
    assert!(
        status == Some(4) && text.contains("unfinished copy") && text.contains("straddle apply"),
        "{text}"
    );
    assert!(!text.contains("straddle resume"), "{text}");
}

/// A clone on a larger disk: what is printed makes it possible to go on.
#[test]
fn a_move_goes_on_after_the_disk_has_its_old_size_again() {
    if !tools::present(&["sfdisk"]) {
        return;
    }
    for (table, text) in TABLES.into_iter().enumerate() {
        let dir = planned(text, LEN);
        let before = fs::read(dir.join(NAME)).unwrap();
        begin(&dir, None);
        let half = fs::read(dir.join(NAME)).unwrap();
        tools::shell(&format!("truncate -s {} {NAME}", LEN + (5 << 20)), dir.path());
        for way in [&[][..], &["--rollback"], &["--trust-journal"]] {
            let (status, said) = run(&dir, &[&["resume", NAME][..], way].concat());
            assert_eq!(status, Some(4), "{way:?}: {said}");
            assert!(said.contains(&format!("'truncate -s {LEN}' for an image")), "{way:?}: {said}");
            assert!(fs::read(dir.join(NAME)).unwrap().starts_with(&half), "{way:?}: {said}");
        }
        tools::shell(&format!("truncate -s {LEN} {NAME}"), dir.path());
        let (status, said) = run(&dir, &["resume", NAME]);
        assert_eq!(status, Some(0), "{said}");
        check_contents(&dir, &before, table);
    }
}

/// A journal of a move that never began is left, and a later one takes the partition elsewhere: what names it is removed,
/// and all of the disk may be searched for one. If it is there as a whole nevertheless, its table is not restored over one
/// that lists the partition elsewhere.
#[test]
fn a_journal_from_before_a_later_move_leads_nowhere() {
    if !tools::present(&["sfdisk", "mkfs.ext4", "debugfs"]) {
        return;
    }
    for (elsewhere, to) in [(Some("journal"), "40MiB"), (None, "36MiB")] {
        let dir = Dir::new("earlier");
        let image = dir.image(NAME, 96 << 20);
        write_table(&image, 512, "label: dos\nstart=63, size=30001, type=83\n");
        tools::shell("mkfs.ext4 -q -F -E offset=32256 disk.img 14000k", dir.path());
        let plan = |to: &str| {
            let _ = fs::remove_file(dir.join("move.json"));
            let (status, said) =
                run(&dir, &["realign", NAME, "--start", &format!("1={to}"), "--save", "move.json"]);
            assert_eq!(status, Some(0), "{said}");
        };
        plan("20MiB");
        let realign = Realign::from_json(&fs::read_to_string(dir.join("move.json")).unwrap()).unwrap();
        // Killed before the marker is written.
        drop(realign.begin(&mut Target::open(&image, None).unwrap(), JournalPlace::Inside, [7; 16]).unwrap());
        let earlier = fs::read(&image).unwrap();
        plan(to);
        let apply = ["apply", "move.json", "--write", NAME];
        let on_another: &[&str] = elsewhere.map_or(&[], |_| &["--journal", "journal"]);
        let (status, said) = run(&dir, &[&apply[..], on_another].concat());
        assert_eq!(status, Some(0), "{said}");
        let moved = fs::read(&image).unwrap();
        let titles =
            |bytes: &[u8]| bytes.chunks(512).filter(|sector| sector.starts_with(b"straddle-relocat")).count();
        assert_eq!((titles(&earlier), titles(&moved)), (2, 0), "{to}");
        // As a whole: what the later move did not write over is as it was.
        let at = number(&list(&check(&dir), "partitions")[0], "start_bytes");
        let mut whole = moved.clone();
        for (index, sector) in earlier.chunks(512).enumerate().skip(70) {
            let here = &mut whole[index * 512..][..512];
            if here.iter().all(|byte| *byte == 0) {
                here.copy_from_slice(sector);
            }
        }
        assert_eq!(titles(&whole), 2, "{to}");
        for (bytes, is_whole) in [(moved, false), (whole, true)] {
            fs::write(&image, &bytes).unwrap();
            tools::shell(
                &format!(
                    "echo since >since; debugfs -w -R 'write since since' '{NAME}?offset={at}' 2>/dev/null"
                ),
                dir.path(),
            );
            let used = fs::read(&image).unwrap();
            assert!(used != bytes, "the file is written");
            let (status, said) = run(&dir, &["resume", NAME, "--restore-table", "saved"]);
            let expected = Some(if is_whole { 4 } else { 3 });
            assert_eq!((status, dir.join("saved").exists()), (expected, false), "{said}");
            // What the later move has left of the earlier journal is cleared; the partition and its table are as they were.
            let now = fs::read(&image).unwrap();
            let (at, len) = (usize::try_from(at).unwrap(), 30_001 * 512);
            assert!(now[..512] == used[..512] && now[at..at + len] == used[at..at + len], "{to}: {said}");
        }
    }
}

/// A partition is put over the journal of a half-moved disk, and another partition is moved: when the first one is gone
/// again, the journal is still there.
#[test]
fn a_journal_that_a_partition_lies_over_is_not_forgotten() {
    if !tools::present(&["sfdisk"]) {
        return;
    }
    let dir = Dir::new("covered");
    let image = dir.image(NAME, 160 << 20);
    let table = "label: dos\nstart=63, size=60001, type=83\nstart=200063, size=8001, type=83\n";
    write_table(&image, 512, table);
    fill(&dir, &[(63, 60_001)]);
    let content = content(60_001);
    let words = ["realign", NAME, "--partition", "1", "--start", "1=64s", "--save", "move.json"];
    assert_eq!(run(&dir, &words).0, Some(0));
    begin(&dir, None);
    let half = fs::read(&image).unwrap();
    let titles: Vec<u64> = (0..)
        .zip(half.chunks(512))
        .filter(|(_, one)| one.starts_with(b"straddle-relocat"))
        .map(|(at, _)| at)
        .collect();
    assert_eq!(titles.len(), 2);
    let table = format!("{table}start={}, size=8, type=83\n", titles[0] + 64);
    tools::shell(
        &format!("printf '{table}' | sfdisk -q --force --wipe never --no-tell-kernel {NAME}"),
        dir.path(),
    );
    let _ = fs::remove_file(dir.join("move.json"));
    let (status, said) = run(&dir, &["realign", NAME, "--partition", "2", "--save", "move.json"]);
    let (status, said) = match status {
        Some(0) => run(&dir, &["apply", "move.json", "--write", NAME]),
        _ => (status, said),
    };
    println!("{status:?}: {said}");
    tools::shell(&format!("sfdisk -q --no-tell-kernel --delete {NAME} 3"), dir.path());
    let (status, said) = run(&dir, &["resume", NAME, "--restore-table", "saved"]);
    assert!(status == Some(4) && said.contains("lists partition 2 at byte"), "{said}");
    tools::shell(&format!("sfdisk -q --no-tell-kernel --delete {NAME} 2"), dir.path());
    let (status, said) = run(&dir, &["resume", NAME, "--restore-table", "saved"]);
    assert_eq!(status, Some(0), "{said}");
    let bytes = fs::read(&image).unwrap();
    assert!(bytes[64 * 512..][..content.len()] == content, "{said}");
}

/// Wherever a journal may end, it is found without the marker, as long as the old table leads there.
#[test]
fn a_journal_is_found_wherever_it_ends() {
    if !tools::present(&["sfdisk"]) {
        return;
    }
    let many = (0..68).fold(
        "label: gpt\nfirst-lba: 34\ntable-length: 128\nstart=4159, size=65536\n".to_owned(),
        |table, index| format!("{table}start={}, size=8\n", 70_004 + 8 * index),
    );
    let last = format!("{many}start=183000, size=62700\n");
    let logical =
        "label: dos\nstart=2048, size=243712, type=5\nstart=4159, size=65536\nstart=204800, size=40960\n";
    let one: &[(u64, u32)] = &[(4159, 65_536)];
    let longer = "label: gpt\ntable-length: 256\nfirst-lba: 66\nstart=4159, size=65536\n";
    let stated = "label: gpt\nlast-lba: 200000\nstart=4159, size=65536\n";
    let large = "label: dos\nstart=4159, size=65536\nstart=70008, size=8\nstart=180024, size=65736\n";
    let by_one: &[&str] = &["1", "--start", "1=4160s"];
    type Parts<'a> = &'a [(u64, u32)];
    let cases: [(&str, &str, Parts<'_>, &[&str]); 5] = [
        (
            "before an extended boot record",
            logical,
            &[(4159, 65_536), (204_800, 40_960)],
            &["5", "--start", "5=4160s"],
        ),
        ("behind a longer array", longer, one, by_one),
        ("before a stated end", stated, one, by_one),
        ("before a late entry", &last, one, by_one),
        (
            "in large physical sectors",
            large,
            one,
            &["1", "--start", "1=4192s", "--assume", "logical=512,physical=16384"],
        ),
    ];
    for (what, table, parts, options) in cases {
        let dir = Dir::new("ends");
        let before = put_back(&dir, 120 << 20, table, parts, options);
        let report = check(&dir);
        assert_eq!(of_rule(&report, "S047").len(), 1, "{what}: {report}");
        let half = fs::read(dir.join(NAME)).unwrap();
        let (status, said) = run(&dir, &["realign", NAME, "--save", "again.json"]);
        assert!(status == Some(4) && said.contains("straddle resume"), "{what}: {said}");
        assert!(fs::read(dir.join(NAME)).unwrap() == half, "{what}");
        let (status, said) = run(&dir, &["resume", NAME, "--restore-table", "saved", "--rollback"]);
        assert_eq!(status, Some(0), "{what}: {said}");
        let bytes = fs::read(dir.join(NAME)).unwrap();
        for (start, sectors) in parts {
            let place = usize::try_from(start * 512).unwrap()..;
            let len = usize::try_from(sectors * 512).unwrap();
            assert!(bytes[place.clone()][..len] == before[place][..len], "{what}: {start}");
        }
    }
}

/// The table of the move does not list what another program has listed or moved since: it is not restored over such a
/// table.
#[test]
fn a_table_that_lists_something_else_is_not_replaced() {
    if !tools::present(&["sfdisk", "mkfs.ext4"]) {
        return;
    }
    let table = "label: dos\nstart=63, size=65536\nstart=83400, size=40960\n";
    let parts = [(63, 65_536), (83_400, 40_960)];
    let added = "echo 'start=446464, size=20480' | sfdisk -q --no-reread -a disk.img && mkfs.ext4 -q -F -E offset=228589568 disk.img 10M";
    let moved = "echo 'start=83408, size=40960' | sfdisk -q --no-reread --force --wipe never -N 2 disk.img";
    for (change, number, restore) in [
        (added, 3, "sfdisk -q --no-reread --delete disk.img 3"),
        (moved, 2, "sfdisk -q --no-reread --delete disk.img 2"),
    ] {
        let dir = Dir::new("listed");
        let before = put_back(&dir, 240 << 20, table, &parts, &["1", "--start", "1=64s"]);
        tools::shell(change, dir.path());
        let changed = fs::read(dir.join(NAME)).unwrap();
        for way in [None, Some("--rollback")] {
            let words: Vec<&str> =
                ["resume", NAME, "--restore-table", "saved"].into_iter().chain(way).collect();
            let (status, said) = run(&dir, &words);
            assert!(
                status == Some(4) && said.contains(&format!("lists partition {number} at byte")),
                "{said}"
            );
            assert!(fs::read(dir.join(NAME)).unwrap() == changed && !dir.join("saved").exists(), "{said}");
        }
        tools::shell(restore, dir.path());
        let (status, said) = run(&dir, &["resume", NAME, "--restore-table", "saved", "--rollback"]);
        assert_eq!(status, Some(0), "{said}");
        let bytes = fs::read(dir.join(NAME)).unwrap();
        assert!(bytes[63 * 512..][..65_536 * 512] == before[63 * 512..][..65_536 * 512], "{said}");
        let (at, len) = (446_464 * 512, 10 << 20);
        assert!(bytes[at..][..len] == changed[at..][..len], "{said}");
    }
}

/// What fills a disk is to get a partition around it, and a table is written over its marker before any window has moved:
/// only the journal has the start of it.
#[test]
fn the_start_of_what_fills_a_disk_is_not_given_up_with_the_marker() {
    if !tools::present(&["sfdisk", "mkfs.ext4"]) {
        return;
    }
    for table in [
        "label: dos\nstart=90063, size=20000, type=83\n",
        "label: dos\nstart=2048, size=40000, type=83\n",
        "label: gpt\nstart=2048, size=40000\n",
        // As every partitioner does it: over the journal.
        "label: dos\nstart=2048, type=83\n",
    ] {
        let dir = Dir::new("headless");
        let image = dir.image(NAME, 96 << 20);
        tools::shell("mkfs.ext4 -q -F disk.img 30M", dir.path());
        fill(&dir, &[(20_480, 16_384)]);
        let before = fs::read(&image).unwrap();
        let (status, said) = run(&dir, &["realign", NAME, "--wrap", "--save", "move.json"]);
        assert_eq!(status, Some(0), "{said}");
        let realign = Realign::from_json(&fs::read_to_string(dir.join("move.json")).unwrap()).unwrap();
        // Only the journal is written; the table stands for the marker and for what replaces it.
        drop(realign.begin(&mut Target::open(&image, None).unwrap(), JournalPlace::Inside, [7; 16]).unwrap());
        tools::shell(
            &format!("dd if=/dev/zero of={NAME} bs=1K seek=1 count=67 conv=notrunc status=none"),
            dir.path(),
        );
        write_table(&image, 512, table);
        let report = check(&dir);
        assert_eq!(of_rule(&report, "S047").len(), 1, "{table}: {report}");
        let (status, said) = run(&dir, &["realign", NAME, "--partition", "1", "--save", "again.json"]);
        assert!(status == Some(4) && said.contains("straddle resume"), "{table}: {said}");
        let (status, said) = run(&dir, &["resume", NAME, "--restore-table", "saved", "--rollback"]);
        assert_eq!(status, Some(0), "{table}: {said}");
        assert!(fs::read(&image).unwrap()[..30 << 20] == before[..30 << 20], "{table}: {said}");
    }
}
