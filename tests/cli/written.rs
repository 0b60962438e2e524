//! Files that options name: whose contents they replace, and where output goes that is named as a file.

use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::process::{Command, Stdio};

use tempfile::TempDir;

use super::tools::{STRADDLE, present};

/// A line that stands in a log before and after a command writes to it.
const LINE: &str = "a line of the log\n";

/// The arguments of commands that write a file, without its name, and what begins that file.
const COMMANDS: &[(&[&str], &str)] = &[
    (&["bench", "random-write", "drive:wd10ears", "--offsets", "0", "--count", "5", "--svg"], "<svg"),
    (&["drive", "show", "wd10ears", "--svg"], "<svg"),
    (&["trace", "in.csv", "--html"], "<!DOCTYPE html>"),
    (&["trace", "in.csv", "--svg"], "<svg"),
    (&["trace", "in.csv", "--to", "csv"], "time_ns,"),
    (&["plan", "disk.img", "--table", "gpt", "--part", "rest", "--save"], "{"),
    (
        &[
            "bench",
            "random-read",
            "disk.img",
            "--io",
            "buffered",
            "--offsets",
            "0,1",
            "--count",
            "4",
            "--runtime",
            "1",
            "--export",
        ],
        "{\"schema\":1",
    ),
    (&["bench", "random-read", "disk.img", "--io", "buffered", "--emit-fio"], "; fio keeps nothing"),
];

fn folder() -> TempDir {
    let dir = TempDir::new().unwrap();
    File::create(dir.path().join("disk.img")).unwrap().set_len(16 << 20).unwrap();
    fs::write(dir.path().join("in.csv"), "time,op,offset,length\n0.1,W,4096,4096\n0.2,W,512,4096\n").unwrap();
    dir
}

/// Runs a command in `dir` with its output in `log`, at its end.
fn run(dir: &Path, arguments: &[&str], name: &str, log: &Path, append: bool) -> bool {
    let mut out = OpenOptions::new().write(true).append(append).open(log).unwrap();
    std::io::Seek::seek(&mut out, std::io::SeekFrom::End(0)).unwrap();
    let state = dir.join("state");
    let mut command = Command::new(STRADDLE);
    command.args(arguments).arg(name).current_dir(dir).env("XDG_STATE_HOME", state);
    command.stdin(Stdio::null()).stdout(out).stderr(Stdio::null()).status().unwrap().success()
}

/// Standard output that is named as a file has what was there before, all of the file, and all other output.
#[test]
fn output_that_is_named_as_a_file_keeps_its_place() {
    let dir = folder();
    std::os::unix::fs::symlink("/dev/stdout", dir.path().join("link")).unwrap();
    let log = dir.path().join("log");
    for (index, (arguments, begins)) in COMMANDS.iter().enumerate() {
        let (name, other) = match index % 3 {
            0 => ("/dev/stdout", "/proc/self/fd/1"),
            1 => ("/dev/../dev/fd/1", "link"),
            _ => ("/dev/fd/1", "/dev/stdout"),
        };
        let mut seen = Vec::new();
        for (append, name) in [(true, name), (false, other)] {
            fs::write(&log, LINE).unwrap();
            assert!(run(dir.path(), arguments, name, &log, append), "{arguments:?} {name}");
            let text = String::from_utf8(fs::read(&log).unwrap()).unwrap();
            let rest = text.strip_prefix(LINE);
            assert!(rest.is_some_and(|rest| rest.contains(begins)), "{arguments:?} {name}: {text:.200}");
            seen.push(rest.unwrap().lines().count());
        }
        // In a file of its own it is the same.
        let own = dir.path().join("own");
        let _ = fs::remove_file(&own);
        fs::write(&log, LINE).unwrap();
        assert!(run(dir.path(), arguments, "own", &log, true), "{arguments:?}");
        let lines = |path: &Path| fs::read_to_string(path).unwrap().lines().count();
        let apart = lines(&own) + lines(&log) - 1;
        let is_measured = arguments.contains(&"--export");
        assert!(
            is_measured || seen.iter().all(|seen| *seen + 1 >= apart),
            "{arguments:?}: {seen:?}, {apart}"
        );
    }
}

#[test]
fn nothing_that_is_no_text_is_replaced_by_any_way_to_it() {
    let dir = folder();
    let (image, log) = (dir.path().join("victim.img"), dir.path().join("log"));
    let contents: Vec<u8> = (0..1_u32 << 20).map(|at| at.to_le_bytes()[1]).collect();
    fs::write(&image, &contents).unwrap();
    fs::write(&log, LINE).unwrap();
    std::os::unix::fs::symlink("victim.img", dir.path().join("link")).unwrap();
    for (arguments, _) in COMMANDS {
        for name in ["victim.img", "link", "/proc/self/cwd/victim.img", "./link"] {
            assert!(!run(dir.path(), arguments, name, &log, true), "{arguments:?} {name}");
            assert!(fs::read(&image).unwrap() == contents, "{arguments:?} {name}");
        }
    }
    let pages = dir.path().join("pages");
    fs::create_dir(&pages).unwrap();
    std::os::unix::fs::symlink("../victim.img", pages.join("straddle-check.1")).unwrap();
    assert!(!run(dir.path(), &["man", "--dir"], "pages", &log, true));
    assert!(fs::read(&image).unwrap() == contents);
}

#[test]
fn an_export_of_a_run_that_fails_leaves_the_former_one() {
    let dir = folder();
    let (own, log) = (dir.path().join("own"), dir.path().join("log"));
    fs::write(&log, "").unwrap();
    fs::write(&own, LINE).unwrap();
    let arguments = [
        "bench",
        "random-read",
        "disk.img",
        "--io",
        "buffered",
        "--runtime",
        "1",
        "--size",
        "1000",
        "--export",
    ];
    assert!(!run(dir.path(), &arguments, "own", &log, true));
    assert_eq!(fs::read_to_string(&own).unwrap(), LINE);
}

#[test]
fn a_trace_and_the_events_of_a_guest_replace_their_own_kind_and_are_added_to_output() {
    if !present(&["linux.uml"]) {
        return;
    }
    let dir = folder();
    let (image, log) = (dir.path().join("victim.img"), dir.path().join("log"));
    fs::write(&image, [0_u8, 1, 2, 3]).unwrap();
    for option in ["--trace", "--events"] {
        let lab = |name: &str| {
            let mut command = Command::new(STRADDLE);
            command.args(["lab", "--drive", "wd10ears", option, name, "--", "true"]).current_dir(dir.path());
            let out = OpenOptions::new().append(true).open(&log).unwrap();
            command.stdin(Stdio::null()).stdout(out).stderr(Stdio::null()).status().unwrap().code()
        };
        fs::write(&log, LINE).unwrap();
        assert_eq!(lab("/proc/self/cwd/victim.img"), Some(4), "{option}");
        assert_eq!(fs::read(&image).unwrap(), [0, 1, 2, 3], "{option}");
        assert_eq!(lab("/dev/stdout"), Some(0), "{option}");
        let text = fs::read_to_string(&log).unwrap();
        assert!(text.starts_with(LINE) && text.len() > LINE.len(), "{option}: {text:.200}");
        let own = dir.path().join("own");
        fs::write(&own, LINE).unwrap();
        assert_eq!(lab("own"), Some(4), "{option}: another kind of text");
        assert_eq!(fs::read_to_string(&own).unwrap(), LINE, "{option}");
        fs::remove_file(&own).unwrap();
        assert_eq!(lab("own"), Some(0), "{option}");
        let first = fs::read(&own).unwrap();
        assert_eq!(lab("own"), Some(0), "{option}: its own kind");
        assert_eq!(fs::read(&own).unwrap(), first, "{option}");
        fs::remove_file(&own).unwrap();
    }
}

/// A profile that another one is based on is the user's as well.
#[test]
fn what_a_profile_is_based_on_is_not_replaced() {
    let dir = folder();
    let (notes, log) = (dir.path().join("p.toml"), dir.path().join("log"));
    let text = "base = \"wd10ears\" # notes\n";
    fs::write(&notes, text).unwrap();
    fs::write(dir.path().join("c.toml"), "base = \"./p.toml\"\n").unwrap();
    fs::write(&log, "").unwrap();
    std::os::unix::fs::symlink("p.toml", dir.path().join("x.svg")).unwrap();
    for drive in ["drive:./p.toml", "drive:./c.toml"] {
        let bench = ["bench", "random-write", drive, "--offsets", "0", "--count", "5", "--svg"];
        assert!(!run(dir.path(), &bench, "x.svg", &log, true), "{drive}");
        assert!(!run(dir.path(), &["drive", "show", drive, "--svg"], "x.svg", &log, true), "{drive}");
        assert_eq!(fs::read_to_string(&notes).unwrap(), text, "{drive}");
    }
}

/// What measured a disk, and what has a user's settings, could not be made again.
#[test]
fn what_could_not_be_made_again_is_not_replaced() {
    let dir = folder();
    let log = dir.path().join("log");
    fs::write(&log, "").unwrap();
    for (arguments, _) in
        COMMANDS.iter().filter(|(words, _)| words[0] == "bench" && words.contains(&"buffered"))
    {
        assert!(run(dir.path(), arguments, "own", &log, true), "{arguments:?}");
        let first = fs::read(dir.path().join("own")).unwrap();
        assert!(!run(dir.path(), arguments, "own", &log, true), "{arguments:?}");
        assert!(fs::read(dir.path().join("own")).unwrap() == first, "{arguments:?}");
        fs::remove_file(dir.path().join("own")).unwrap();
    }
}

/// A disk that begins a partition off a boundary, and is nobody else's to read, and the plan of a move.
fn private_disk(dir: &Path) {
    super::tools::write_table(&dir.join("disk.img"), 512, "label: dos\nstart=63,size=4000\n");
    fs::set_permissions(dir.join("disk.img"), fs::Permissions::from_mode(0o600)).unwrap();
    let log = dir.join("log");
    fs::write(&log, "").unwrap();
    assert!(run(dir, &["realign", "disk.img", "--save"], "move.json", &log, true));
    assert!(run(dir, &["realign", "disk.img", "--to", "new.img", "--save"], "copy.json", &log, true));
    assert!(run(dir, &["plan", "disk.img", "--delete", "1", "--save"], "plan.json", &log, true));
}

/// Runs straddle in `dir`; returns its status and what it says.
fn outcome(dir: &Path, arguments: &[&str]) -> (Option<i32>, String) {
    let mut command = Command::new("timeout");
    let out = command
        .args(["20", STRADDLE])
        .args(arguments)
        .current_dir(dir)
        .stdin(Stdio::null())
        .output()
        .unwrap();
    (out.status.code(), super::tools::transcript(&out))
}

#[test]
fn what_is_kept_of_a_disk_is_not_for_those_who_may_not_read_it() {
    if !present(&["sfdisk"]) {
        return;
    }
    let dir = folder();
    private_disk(dir.path());
    let mode = |name: &str| fs::metadata(dir.path().join(name)).unwrap().mode() & 0o777;
    let (status, text) =
        outcome(dir.path(), &["apply", "copy.json", "--from", "disk.img", "--write", "new.img"]);
    assert_eq!((status, mode("new.img")), (Some(0), 0o600), "{text}");
    let (status, text) = outcome(dir.path(), &["apply", "plan.json", "--write", "disk.img"]);
    assert_eq!((status, mode("plan.json.undo")), (Some(0), 0o600), "{text}");
}

/// A pipe is not waited for, and nothing is said of data that it could have.
#[test]
fn a_journal_that_cannot_be_made_is_refused_at_once() {
    if !present(&["sfdisk", "mkfifo"]) {
        return;
    }
    let dir = folder();
    private_disk(dir.path());
    let before = fs::read(dir.path().join("disk.img")).unwrap();
    assert!(Command::new("mkfifo").arg(dir.path().join("pipe")).status().unwrap().success());
    std::os::unix::fs::symlink("nowhere", dir.path().join("link")).unwrap();
    for name in ["pipe", ".", "link", "/dev/null", "log"] {
        let (status, text) =
            outcome(dir.path(), &["apply", "move.json", "--write", "disk.img", "--journal", name]);
        assert!(matches!(status, Some(3 | 4)), "{name}: {status:?} {text}");
        assert!(!text.contains("only copy"), "{name}: {text}");
    }
    assert!(fs::read(dir.path().join("disk.img")).unwrap() == before);
}

/// A guest that leaves a link in the folder that it writes to leads nothing out of it.
#[test]
fn a_link_in_the_folder_of_guests_is_not_followed() {
    let dir = folder();
    fs::create_dir(dir.path().join("out")).unwrap();
    fs::write(dir.path().join("outside"), "").unwrap();
    std::os::unix::fs::symlink("../outside", dir.path().join("out/link")).unwrap();
    std::os::unix::fs::symlink("out/link", dir.path().join("latest")).unwrap();
    std::os::unix::fs::symlink("..", dir.path().join("out/deep")).unwrap();
    assert!(Command::new("mkfifo").arg(dir.path().join("out/pipe")).status().unwrap().success());
    for option in ["--trace", "--events", "--record"] {
        for name in ["out/link", "latest", "out/deep/t", "out/deep/../t"] {
            let words = ["lab", "--drive", "wd10ears", "--output", "out", option, name, "--", "true"];
            let (status, text) = outcome(dir.path(), &words);
            let is_refused = status == Some(4) && text.contains("a link, perhaps of a guest");
            assert!(is_refused, "{option} {name}: {status:?} {text}");
        }
        let words = ["lab", "--drive", "wd10ears", "--output", "out", option, "out/pipe", "--", "true"];
        let (status, text) = outcome(dir.path(), &words);
        assert!(status == Some(4) && text.contains("is not a regular file"), "{option}: {status:?} {text}");
    }
    assert!(fs::read(dir.path().join("outside")).unwrap().is_empty());
}

/// A copy whose target cannot be opened leaves nothing.
#[test]
fn a_copy_that_cannot_begin_leaves_no_image() {
    if !present(&["sfdisk"]) {
        return;
    }
    let dir = folder();
    private_disk(dir.path());
    let words = ["apply", "copy.json", "--from", "disk.img", "--write", "new.img", "--format", "qcow2"];
    let (status, text) = outcome(dir.path(), &words);
    assert!(status != Some(0) && !dir.path().join("new.img").exists(), "{status:?} {text}");
}

/// A list that cannot be made is known before anything is written or made.
#[test]
fn a_list_of_bad_areas_is_made_first() {
    if !present(&["sfdisk"]) {
        return;
    }
    let dir = folder();
    private_disk(dir.path());
    let before = fs::read(dir.path().join("disk.img")).unwrap();
    let bad = ["--skip-bad", "none/list"];
    for (words, made) in [
        (&["apply", "move.json", "--write", "disk.img"][..], None),
        (&["apply", "move.json", "--write", "disk.img", "--journal", "journal"], Some("journal")),
        (&["apply", "copy.json", "--from", "disk.img", "--write", "new.img"], Some("new.img")),
        (&["resume", "disk.img"], None),
    ] {
        let (status, text) = outcome(dir.path(), &[words, &bad].concat());
        assert!(status == Some(3) && text.contains("cannot make it"), "{words:?}: {status:?} {text}");
        assert!(fs::read(dir.path().join("disk.img")).unwrap() == before, "{words:?}");
        assert!(!made.is_some_and(|made| dir.path().join(made).exists()), "{words:?}");
    }
}
