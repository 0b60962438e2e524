//! Extended boot records of a table that another program has put back over a half-moved disk, or has converted.

use std::fs;
use std::ops::ControlFlow;

use straddle_repair::Target;
use straddle_repair::realign::{JournalPlace, Outcome, Realign};

use crate::tools::{self, Dir, list, number, write_table};
use crate::{NAME, check, fill, of_rule, put_back, run};

/// A primary and two logical partitions, from places without a gap.
const LOGICAL: &str = "label: dos\n1 : start=63, size=12290\n2 : start=12360, size=27578, type=5\n\
                       5 : start=12361, size=14337\n6 : start=28746, size=8192\n";
const LOGICAL_PARTS: [(u64, u32); 3] = [(63, 12_290), (12_361, 14_337), (28_746, 8192)];
/// The first one moves by a sector, and its last sector comes to where the record is: it is a sample.
const ADJACENT: &str =
    "label: dos\n1 : start=63, size=6190\n2 : start=6253, size=10000, type=5\n5 : start=6254, size=9000\n";

/// The bytes of the partitions that the table lists, but for a container.
fn contents(dir: &Dir) -> Vec<Vec<u8>> {
    let (report, bytes) = (check(dir), fs::read(dir.join(NAME)).unwrap());
    let listed = list(&report, "partitions").iter().filter(|one| one["role"] != "extended");
    let of = |one: &serde_json::Value| {
        let [at, len] =
            ["start_bytes", "size_bytes"].map(|field| usize::try_from(number(one, field)).unwrap());
        bytes[at..at + len].to_vec()
    };
    listed.map(of).collect()
}

/// The old extended boot records, which another program writes with the old table, destroy what has moved to their places.
#[test]
fn what_an_old_table_writes_over_moved_data_is_written_again() {
    if !tools::present(&["sfdisk"]) {
        return;
    }
    put_records_back(LOGICAL, &LOGICAL_PARTS, &[]);
    put_records_back(ADJACENT, &[(63, 6190), (6254, 9000)], &["--grain", "4096"]);
}

/// At each safe point of the move, both ways.
fn put_records_back(table: &str, parts: &[(u64, u32)], options: &[&str]) {
    let mut half_moved = 0;
    for (pauses, way) in (1..12).flat_map(|pauses| [(pauses, None), (pauses, Some("--rollback"))]) {
        let dir = Dir::new("records");
        let image = dir.image(NAME, 32 << 20);
        write_table(&image, 512, table);
        fill(&dir, parts);
        tools::shell(&format!("sfdisk -d {NAME} >table"), dir.path());
        let before = contents(&dir);
        let (status, said) = run(&dir, &[&["realign", NAME, "--save", "move.json"], options].concat());
        assert_eq!(status, Some(0), "{said}");
        let realign = Realign::from_json(&fs::read_to_string(dir.join("move.json")).unwrap()).unwrap();
        let mut target = Target::open(&image, None).unwrap();
        let begun = realign.begin(&mut target, JournalPlace::Inside, [7; 16]).unwrap();
        let mut left = pauses;
        let outcome = begun.finish(&mut |_| {
            left -= 1;
            if left == 0 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
        drop(target);
        if outcome.unwrap() != Outcome::Paused {
            break;
        }
        half_moved += 1;
        tools::shell(&format!("sfdisk -q --no-reread --force --wipe never {NAME} <table"), dir.path());
        let resume: Vec<&str> = ["resume", NAME, "--restore-table", "saved"].into_iter().chain(way).collect();
        let (status, said) = run(&dir, &resume);
        assert_eq!(status, Some(0), "{pauses} {way:?}: {said}");
        assert!(contents(&dir) == before, "{pauses} {way:?}: {said}");
    }
    assert!(half_moved >= 4, "{half_moved}");
}

/// No data have moved, and another program's table has the old first sector and not all of the old records.
#[test]
fn a_whole_old_table_is_restored_where_nothing_has_moved() {
    if !tools::present(&["sfdisk"]) {
        return;
    }
    let dir = Dir::new("chain");
    let image = dir.image(NAME, 32 << 20);
    write_table(&image, 512, LOGICAL);
    fill(&dir, &LOGICAL_PARTS);
    let before = contents(&dir);
    let (status, said) = run(&dir, &["realign", NAME, "--save", "move.json"]);
    assert_eq!(status, Some(0), "{said}");
    let realign = Realign::from_json(&fs::read_to_string(dir.join("move.json")).unwrap()).unwrap();
    drop(realign.begin(&mut Target::open(&image, None).unwrap(), JournalPlace::Inside, [7; 16]).unwrap());
    tools::shell(&format!("sfdisk -q --no-reread --force --wipe never --delete {NAME} 5"), dir.path());
    let (status, said) = run(&dir, &["resume", NAME, "--restore-table", "saved", "--rollback"]);
    assert_eq!(status, Some(0), "{said}");
    assert!(contents(&dir) == before, "{said}");
}

/// An MBR is converted to GPT: the backup of that does not lie over the journal.
#[test]
fn a_conversion_to_gpt_does_not_hide_a_journal() {
    if !tools::present(&["sfdisk", "sgdisk"]) {
        return;
    }
    let primary = "label: dos\nstart=63, size=40960\nstart=80455, size=6146\n".to_owned();
    let logical = |extended: u64, before: u64| {
        let (start, len) = (extended + before, 196_608 - 34 - extended);
        format!(
            "label: dos\n1 : start=63, size=40960\n2 : start={extended}, size={len}, type=5\n\
             5 : start={start}, size=6146\n"
        )
    };
    // There is other room, and there is none; the record is as far before its partition as programs leave it.
    let mut cases = vec![(primary, 80_455), (logical(102_531, 999), 103_530)];
    cases.extend([1, 63, 2048].map(|before| (logical(44_000, before), 44_000 + before)));
    for (table, other) in cases {
        let dir = Dir::new("converted");
        let parts = [(63, 40_960), (other, 6146)];
        let before = put_back(&dir, 96 << 20, &table, &parts, &["1", "--start", "1=64s"]);
        tools::shell(&format!("sgdisk -g {NAME}"), dir.path());
        let report = check(&dir);
        assert_eq!(of_rule(&report, "S047").len(), 1, "{table}: {report}");
        let (status, said) = run(&dir, &["resume", NAME, "--restore-table", "saved", "--rollback"]);
        assert_eq!(status, Some(0), "{table}: {said}");
        let bytes = fs::read(dir.join(NAME)).unwrap();
        assert!(bytes[63 * 512..][..40_960 * 512] == before[63 * 512..][..40_960 * 512], "{table}: {said}");
    }
}
