//! Disks with an unfinished move: every command says so, and none but `resume` writes to one.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

#[path = "unfinished/cuts.rs"]
mod cuts;
#[path = "unfinished/large.rs"]
mod large;
#[path = "unfinished/other_table.rs"]
mod other_table;
use crate::tools;

use std::ffi::OsStr;
use std::fs;
use std::ops::ControlFlow;
use std::os::unix::ffi::OsStrExt;

use serde_json::Value;
use straddle_repair::Target;
use straddle_repair::realign::{JournalFile, JournalPlace, Outcome, Realign, Run};
use tools::skip::cases;
use tools::{Dir, STRADDLE, flat, list, number, straddle_in, transcript, word, write_table};

const NAME: &str = "disk.img";
/// An MBR disk as Windows XP left it, and a GPT one.
const TABLES: [&str; 2] = [
    "label: dos\nstart=63, size=8000, type=7, bootable\nstart=8063, size=8001, type=83\n",
    "label: gpt\nfirst-lba: 34\nstart=34, size=8000\nstart=8034, size=8001\n",
];

const LEN: u64 = 48 << 20;

/// A disk, the plan to realign it in `move.json`, another plan in `other.json`, and a backup of a table that
/// was written before, in `earlier.json.undo`.
fn planned(table: &str, len: u64) -> Dir {
    let dir = Dir::new("unfinished");
    let image = dir.image(NAME, len);
    write_table(&image, 512, table);
    fill(&dir, &[(63, u32::try_from(len / 3 / 512).unwrap())]);
    for words in [
        &["plan", NAME, "--add", "1MiB", "--save", "earlier.json"][..],
        &["apply", "earlier.json", "--write", NAME],
        &["undo", "earlier.json.undo", "--write", NAME],
        &["apply", "earlier.json", "--write", NAME, "--backup", "earlier.undo"],
        &["plan", NAME, "--add", "1MiB", "--save", "other.json"],
        &["realign", NAME, "--wipe", "--save", "move.json"],
    ] {
        let output = straddle_in(&dir, words);
        assert!(output.status.success(), "{words:?}: {}", transcript(&output));
    }
    dir
}

/// So many sectors, of which no two are alike.
fn content(sectors: u32) -> Vec<u8> {
    (0..sectors * 128).flat_map(|n| n.wrapping_mul(2_654_435_761).to_le_bytes()).collect()
}

/// Fills these sectors of the disk with what differs from sector to sector.
fn fill(dir: &Dir, parts: &[(u64, u32)]) {
    for (start, sectors) in parts {
        fs::write(dir.join("content"), content(*sectors)).unwrap();
        let seek = start * 512;
        tools::shell(
            &format!("dd if=content of={NAME} bs=64K oflag=seek_bytes seek={seek} conv=notrunc status=none"),
            dir.path(),
        );
    }
}

/// Runs the program; its status, and what it prints in one line.
fn run(dir: &Dir, words: &[&str]) -> (Option<i32>, String) {
    let output = straddle_in(dir, words);
    (output.status.code(), flat(&transcript(&output)))
}

/// Begins the move of `move.json`, and stops at the first safe point.
fn begin(dir: &Dir, journal: Option<&str>) {
    let realign = Realign::from_json(&fs::read_to_string(dir.join("move.json")).unwrap()).unwrap();
    let mut target = Target::open(&dir.join(NAME), None).unwrap();
    let place = match journal {
        Some(name) => JournalPlace::File(JournalFile::create(&dir.join(name), &realign).unwrap()),
        None => JournalPlace::Inside,
    };
    let run = realign.begin(&mut target, place, [7; 16]).unwrap();
    assert_eq!(run.finish(&mut |_| ControlFlow::Break(())).unwrap(), Outcome::Paused);
}

fn check(dir: &Dir) -> Value {
    let output = straddle_in(dir, &["check", "--json", NAME]);
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    tools::valid(&report, "check");
    report["targets"][0].clone()
}

/// The findings of this rule.
fn of_rule<'v>(report: &'v Value, code: &str) -> Vec<&'v Value> {
    list(report, "findings").iter().filter(|finding| finding["code"] == code).collect()
}

/// What each command answers: its words, its exit status, and whether it reaches the disk only by what it
/// passes on. All say `resume`.
const COMMANDS: [(&[&str], i32); 18] = [
    (&["check", NAME], 1),
    (&["map", NAME], 1),
    (&["plan", NAME, "--add", "1MiB"], 4),
    (&["plan", NAME, "--repair"], 4),
    (&["plan", NAME, "--table", "gpt", "--part", "rest", "--wipe"], 4),
    (&["realign", NAME], 4),
    (&["realign", NAME, "--partition", "2", "--json"], 4),
    (&["apply", "move.json", "--write", NAME], 4),
    (&["apply", "other.json", "--write", NAME], 4),
    (&["apply", "other.json", "--write", NAME, "--dry-run"], 4),
    (&["undo", "earlier.undo", "--write", NAME], 4),
    (&["undo", "earlier.undo", "--write", NAME, "--force"], 4),
    (&["bench", "random-write", NAME, "--io", "buffered", "--runtime", "1"], 4),
    (&["bench", "random-write", NAME, "--io", "buffered", "--runtime", "1", "--used"], 4),
    (&["bench", "random-read", NAME, "--io", "buffered", "--runtime", "1"], 0),
    (&["probe", NAME, "--used"], 4),
    // Neither is started here: the store is too small for the drive, and the kernel is missing.
    (&["serve", "drive:wd10ears", "--nbd", "unix:/nonexistent/socket", "--store", NAME], 4),
    (&["lab", "--drive", "wd10ears", "--store", NAME, "--", "true"], 3),
];

#[test]
fn every_command_says_so_and_none_writes() {
    if !tools::present(&["sfdisk"]) {
        return;
    }
    for table in TABLES {
        let dir = planned(table, LEN);
        begin(&dir, None);
        let before = fs::read(dir.join(NAME)).unwrap();
        for (words, status) in cases(COMMANDS.into_iter(), 3) {
            fs::write(dir.join(NAME), &before).unwrap();
            let output = tools::command()
                .args(words)
                .current_dir(&dir)
                .env("LINUX_UML", "/nonexistent/linux")
                .env("PATH", "/nonexistent")
                .output()
                .unwrap();
            let text = flat(&transcript(&output));
            assert_eq!(output.status.code(), Some(status), "{words:?}: {text}");
            assert!(text.contains("straddle resume"), "{words:?}: {text}");
            assert!(!text.contains(" aligned"), "{words:?}: {text}");
            assert!(fs::read(dir.join(NAME)).unwrap() == before, "{words:?} has written");
        }
    }
}

#[test]
fn check_says_how_far_it_is_and_how_to_go_on() {
    if !tools::present(&["sfdisk"]) {
        return;
    }
    for table in TABLES {
        let dir = planned(table, LEN);
        let clean = check(&dir);
        assert!(of_rule(&clean, "S047").is_empty(), "{clean}");
        begin(&dir, None);
        let report = check(&dir);
        let finding = of_rule(&report, "S047")[0].clone();
        let realign: Value = serde_json::from_slice(&fs::read(dir.join("move.json")).unwrap()).unwrap();
        let journal = &realign["journal"]["unallocated"]["start_bytes"];
        assert_eq!(&finding["offset_bytes"], journal, "{finding}");
        let total: u64 = list(&realign, "moves").iter().map(|one| number(&one["from"], "size_bytes")).sum();
        let moved = format!(" of {} have been moved", straddle_units::ByteCount::new(total));
        assert!(word(&finding, "message").contains(&moved), "{finding}");
        assert_eq!(finding["severity"], "error");
        for partition in list(&report, "partitions") {
            assert_eq!(partition["verdict"], "unfinished_move", "{partition}");
        }
        let line = word(&finding["fix"]["commands"][0], "line");
        assert_eq!(line, format!("straddle resume {NAME}"));
        assert!(word(&finding["alternative"]["commands"][0], "line").contains("--rollback"), "{finding}");
        let words: Vec<&str> = line.split(' ').skip(1).collect();
        let output = straddle_in(&dir, &words);
        assert!(output.status.success(), "{}", transcript(&output));
        let report = check(&dir);
        assert!(of_rule(&report, "S047").is_empty() && of_rule(&report, "S001").is_empty(), "{report}");
    }
}

/// The commands with `resume` in what was printed, `file` in place of FILE.
fn resumes(said: &str, file: &str) -> Vec<String> {
    let starts = said.match_indices("straddle resume").map(|(at, _)| &said[at..]);
    let words = starts.map(|rest| {
        let mut words: Vec<&str> = rest.split_whitespace().collect();
        let len =
            3 + words[3..].iter().take_while(|word| word.starts_with("--") || word.contains("FILE")).count();
        words.truncate(len);
        words.join(" ").trim_end_matches([',', ';', ':', '.', '\'']).replace("FILE", file)
    });
    words.filter(|line| line.contains(NAME)).collect()
}

/// Whichever command says how to end a move, what it prints is accepted.
/// While the move is made, its journal and its data change, so neither is judged.
#[test]
fn a_move_that_is_being_made_is_no_damage() {
    let dir = planned(TABLES[0], LEN);
    begin(&dir, None);
    let image = dir.join(NAME);
    let file = fs::OpenOptions::new().read(true).write(true).open(&image).unwrap();
    let claim = straddle_device::claim::take(&file, &image).unwrap();
    // A byte of what has been moved, and all of the journal's records.
    let report = check(&dir);
    let start = number(of_rule(&report, "S047")[0], "offset_bytes");
    let journal = fs::read(&image).unwrap()[usize::try_from(start).unwrap()..][..1 << 20].to_vec();
    std::os::unix::fs::FileExt::write_all_at(&file, &[0xA5; 1 << 20], start).unwrap();
    for words in [&["check", NAME][..], &["map", NAME], &["check", NAME, "--json"]] {
        let said = flat(&transcript(&straddle_in(&dir, words)));
        assert!(
            said.contains("another process, perhaps a running straddle, has locked the disk"),
            "{words:?}: {said}"
        );
        assert!(!said.contains("damaged") && !said.contains("straddle resume"), "{words:?}: {said}");
    }
    let found = check(&dir);
    assert!(list(&of_rule(&found, "S047")[0]["fix"], "commands").is_empty(), "{found}");
    std::os::unix::fs::FileExt::write_all_at(&file, &journal, start).unwrap();
    drop((claim, file));
    assert_eq!(run(&dir, &["resume", NAME]).0, Some(0));
}

#[test]
fn every_way_that_is_printed_is_accepted() {
    if !tools::present(&["sfdisk"]) {
        return;
    }
    let mut tried = 0;
    for (journal, is_back) in [(None, false), (None, true), (Some("journal"), false)] {
        let dir = planned("label: dos\nstart=63, size=90000, type=83\n", 2 * LEN);
        begin(&dir, journal);
        let mut said: Vec<String> = Vec::new();
        if is_back {
            let mut target = Target::open(&dir.join(NAME), None).unwrap();
            // Over some windows, so that not all of them are back at once.
            let (run, mut left) = (Run::find(&mut target, None).unwrap(), 4);
            let on = run.finish(&mut |_| {
                left -= 1;
                if left == 0 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
            });
            assert_eq!(on.unwrap(), Outcome::Paused);
            let run = Run::find(&mut target, None).unwrap();
            assert_eq!(run.roll_back(&mut |_| ControlFlow::Break(())).unwrap(), Outcome::Paused);
        }
        let bench = ["bench", "random-write", NAME, "--io", "buffered", "--runtime", "1"];
        let serve = ["serve", "drive:wd10ears", "--nbd", "unix:/nonexistent/socket", "--store", NAME];
        for words in [&["check", NAME][..], &bench, &serve] {
            said.push(run(&dir, words).1);
        }
        let half = fs::read(dir.join(NAME)).unwrap();
        // Another file would be a copy.
        journal.iter().for_each(|name| fs::hard_link(dir.join(name), dir.join("kept")).unwrap());
        let kept = journal.map(|name| fs::read(dir.join(name)).unwrap());
        for said in said {
            let lines = resumes(&said, "journal");
            assert!(!lines.is_empty(), "{said}");
            for line in lines {
                fs::write(dir.join(NAME), &half).unwrap();
                if let Some(kept) = &kept {
                    let _ = fs::remove_file(dir.join("journal"));
                    fs::write(dir.join("kept"), kept).unwrap();
                    fs::hard_link(dir.join("kept"), dir.join("journal")).unwrap();
                }
                let words: Vec<&str> = line.split_whitespace().skip(1).collect();
                let (status, answer) = run(&dir, &words);
                assert_eq!(status, Some(0), "{line}: {answer}, of: {said}");
                tried += 1;
            }
        }
    }
    assert!(tried >= 12, "{tried}");
}

/// What looks unallocated has the data of the partition that moves: what the fix of another finding writes there
/// would destroy them.
#[test]
fn nothing_else_is_advised_while_a_move_is_unfinished() {
    if !tools::present(&["sfdisk"]) {
        return;
    }
    // The second partition is longer than a window.
    for table in [
        "label: dos\nstart=63, size=8000, type=7\nstart=8063, size=40001, type=83\n",
        "label: gpt\nfirst-lba: 34\nstart=34, size=8000\nstart=8034, size=40001\n",
    ] {
        let dir = planned(table, LEN);
        tools::shell(&format!("{STRADDLE} realign {NAME} --partition 2 --save one.json"), dir.path());
        fs::rename(dir.join("one.json"), dir.join("move.json")).unwrap();
        begin(&dir, None);
        let report = check(&dir);
        assert!(!of_rule(&report, "S001").is_empty(), "{report}");
        for finding in list(&report, "findings") {
            let is_advised = !finding["fix"].is_null() || !finding["alternative"].is_null();
            assert_eq!(is_advised, finding["code"] == "S047", "{finding}");
        }
    }
}

#[test]
fn a_journal_elsewhere_or_damaged_is_said() {
    if !tools::present(&["sfdisk"]) {
        return;
    }
    let dir = planned(TABLES[0], LEN);
    begin(&dir, Some("journal"));
    let report = check(&dir);
    let finding = of_rule(&report, "S047")[0].clone();
    assert!(word(&finding["fix"]["commands"][0], "line").ends_with("--journal FILE"), "{finding}");
    // Pasted again, the command that made it does not lead to its removal.
    let again = straddle_in(&dir, &["apply", "move.json", "--write", NAME, "--journal", "journal"]);
    assert_eq!(again.status.code(), Some(4));
    assert!(
        flat(&transcript(&again))
            .contains("Do not remove the file; run 'straddle resume' with the same --journal")
    );
    fs::write(dir.join("empty"), [0; 4096]).unwrap();
    let again = straddle_in(&dir, &["apply", "move.json", "--write", NAME, "--journal", "empty"]);
    assert!(flat(&transcript(&again)).contains("Do not remove the file"));
    let output = straddle_in(&dir, &["resume", NAME, "--journal", "journal"]);
    assert!(output.status.success(), "{}", transcript(&output));

    let dir = planned(TABLES[0], LEN);
    begin(&dir, None);
    let marker = list(&check(&dir), "partitions").iter().find(|p| p["type"] == "7f").unwrap().clone();
    let (start, len) = (number(&marker, "start_bytes"), number(&marker, "size_bytes"));
    let mut bytes = fs::read(dir.join(NAME)).unwrap();
    for at in [start, start + len - 4096] {
        let at = usize::try_from(at).unwrap();
        bytes[at + 24] ^= 1;
    }
    fs::write(dir.join(NAME), &bytes).unwrap();
    let report = check(&dir);
    let finding = of_rule(&report, "S047")[0].clone();
    assert!(word(&finding, "message").contains("is unusable"), "{finding}");
    assert!(list(&finding["fix"], "commands").is_empty(), "{finding}");
    let output = straddle_in(&dir, &["resume", NAME]);
    assert!(
        !output.status.success() && fs::read(dir.join(NAME)).unwrap() == bytes,
        "{}",
        transcript(&output)
    );
}

#[test]
fn a_plan_as_json_matches_its_schema() {
    if !tools::present(&["sfdisk"]) {
        return;
    }
    for (table, mib, place) in
        [(TABLES[0], 48, "unallocated"), (TABLES[1], 48, "unallocated"), (TABLES[0], 9, "file")]
    {
        let dir = Dir::new("schema");
        let image = dir.image(NAME, mib << 20);
        write_table(&image, 512, table);
        let report = tools::json_in(&dir, &["realign", NAME, "--json", "--save", "move.json"]);
        tools::valid(&report, "realign");
        let saved: Value = serde_json::from_slice(&fs::read(dir.join("move.json")).unwrap()).unwrap();
        assert_eq!(report, saved, "what is printed is what is saved");
        assert!(report["journal"].get(place).is_some(), "{report:#}");
        let starts =
            list(&report["plan"]["table"], "partitions").iter().map(|part| number(part, "start_lba"));
        assert!(starts.into_iter().all(|start| start.is_multiple_of(8)), "{report:#}");
    }
}

/// Whatever bytes the name of a disk has, the printed commands name it: those of `realign`, and both ways out of an
/// unfinished move.
#[test]
fn the_printed_commands_work_for_every_name() {
    if !tools::present(&["sfdisk", "bash"]) {
        return;
    }
    let dir = planned(TABLES[0], LEN);
    let before = fs::read(dir.join(NAME)).unwrap();
    begin(&dir, None);
    let stopped = fs::read(dir.join(NAME)).unwrap();
    let paste = |line: &[u8]| {
        let lines = [tools::with_program("").as_bytes(), line].concat();
        let mut command = std::process::Command::new("bash");
        let output = command.arg("-c").arg(OsStr::from_bytes(&lines)).current_dir(&dir).output().unwrap();
        (output.status.code(), transcript(&output))
    };
    let names: [&[u8]; 9] = [
        b"a b",
        b"a'b",
        b"a\tb",
        b"a\nb",
        b"a\rb",
        b"a\x1b[31mb",
        b"\xe2\x80\xae.img",
        b"\xff\xfe",
        b"a\xffb",
    ];
    for name in cases(names.into_iter(), 3) {
        let name = OsStr::from_bytes(name);
        let image = dir.path().join(name);
        let run = |words: &[&str]| {
            let mut command = tools::command();
            command.args(&words[..1]).arg(name).args(&words[1..]).current_dir(&dir).output().unwrap().stdout
        };
        let after = |text: &[u8], word: &str| {
            let text = String::from_utf8(text.to_vec()).unwrap();
            let found = text.lines().find_map(|line| line.find(word).map(|at| line[at..].to_owned()));
            found.unwrap_or_else(|| panic!("{name:?}: no '{word}' in {text}"))
        };
        fs::write(&image, &before).unwrap();
        for words in [&["realign", "--wipe"][..], &["plan", "--add", "1MiB"]] {
            let plan = [words, &["--save", "named.json"]].concat();
            let line = after(&run(&plan), "straddle apply");
            let (status, text) = paste(line.as_bytes());
            assert_eq!(status, Some(0), "{name:?}: {line}: {text}");
            fs::write(&image, &before).unwrap();
            fs::remove_file(dir.join("named.json")).unwrap();
            let _ = fs::remove_file(dir.join("named.json.undo"));
        }
        // The disk's name is not UTF-8: what `check` calls it is no name of it.
        if name.to_str().is_some() {
            fs::write(&image, &stopped).unwrap();
            let text = run(&["check"]);
            let on = after(&text, "    straddle resume");
            let back = after(&text, "straddle resume").replace(" --rollback", "") + " --rollback";
            for line in [on, back] {
                fs::write(&image, &stopped).unwrap();
                let (status, text) = paste(line.as_bytes());
                assert_eq!(status, Some(0), "{name:?}: {line}: {text}");
            }
        }
        fs::remove_file(&image).unwrap();
    }
}

/// A file that holds no journal is no reason to remove any while the disk has the marker of a move.
#[test]
fn a_wrong_journal_is_not_advice_to_remove_files() {
    if !crate::tools::present(&["sfdisk"]) {
        return;
    }
    for table in TABLES {
        let dir = planned(table, LEN);
        let wrong: [(&str, Vec<u8>); 3] =
            [("empty", Vec::new()), ("zeros", vec![0; 1 << 20]), ("other", content(100))];
        for (name, bytes) in &wrong {
            fs::write(dir.join(name), bytes).unwrap();
            let (status, said) = run(&dir, &["resume", NAME, "--journal", name]);
            assert!(status == Some(2) && said.contains("remove the file"), "{name}: {said}");
        }
        begin(&dir, Some("journal"));
        let before = fs::read(dir.join(NAME)).unwrap();
        for (name, _) in &wrong {
            for words in
                [&["resume", NAME, "--journal", name][..], &["resume", NAME, "--rollback", "--journal", name]]
            {
                let (status, said) = run(&dir, words);
                assert!(status == Some(2) && said.contains("delete nothing"), "{words:?}: {said}");
                assert!(!said.contains("remove the file"), "{words:?}: {said}");
            }
        }
        assert!(fs::read(dir.join(NAME)).unwrap() == before);
        let (status, said) = run(&dir, &["resume", NAME, "--journal", "journal"]);
        assert!(status == Some(0) && !dir.join("journal").exists(), "{said}");
    }
}
