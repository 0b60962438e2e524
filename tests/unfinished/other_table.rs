//! Another program writes its own table over the marker of an unfinished move.

use std::fs;
use std::os::unix::fs::symlink;

use super::{LEN, NAME, TABLES, begin, check, of_rule, planned, run};
use crate::tools::{self, Dir, list, number, write_table};

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
        let (status, text) = run(&dir, &["resume", NAME]);
        assert!(status == Some(3) && text.contains("add --restore-table FILE"), "{text}");
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
        for way in [&[][..], &["--rollback"]] {
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
