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
    (&["probe", "drive:wd10ears", "--share"], "{"),
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

/// Standard output has what a file of its own would have, behind what was there and with all other output.
#[test]
fn output_may_be_a_file_of_any_kind_or_standard_output() {
    let dir = folder();
    let log = dir.path().join("log");
    for (index, (arguments, begins)) in COMMANDS.iter().enumerate() {
        let names = ["-", "/dev/stdout", "/proc/self/fd/1"];
        fs::write(&log, LINE).unwrap();
        assert!(run(dir.path(), arguments, names[index % 3], &log, true), "{arguments:?}");
        let text = fs::read_to_string(&log).unwrap();
        let rest = text.strip_prefix(LINE);
        assert!(rest.is_some_and(|rest| rest.contains(begins)), "{arguments:?}: {text:.200}");
        // What is there is replaced, whatever it is: the user named it.
        for former in [&b"a page that a user edited\n"[..], &[0; 4096], b"\xff\xfe", b""] {
            fs::write(dir.path().join("own"), former).unwrap();
            assert!(run(dir.path(), arguments, "own", &log, true), "{arguments:?}");
            let own = fs::read_to_string(dir.path().join("own")).unwrap();
            assert!(own.starts_with(begins), "{arguments:?}: {own:.200}");
            // The plan would be of a table that is there by then; a measurement takes its time.
            if arguments.contains(&"--runtime") {
                break;
            }
        }
        fs::remove_file(dir.path().join("own")).unwrap();
        let hidden = fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().file_name());
        let hidden: Vec<_> = hidden.filter(|name| name.to_string_lossy().starts_with('.')).collect();
        assert!(hidden.is_empty(), "{arguments:?}: {hidden:?}");
    }
}

/// A command's own input is not, by any way to it.
#[test]
fn inputs_are_not_written_to() {
    let dir = folder();
    let log = dir.path().join("log");
    fs::write(&log, "").unwrap();
    let before = fs::read(dir.path().join("in.csv")).unwrap();
    for (arguments, _) in COMMANDS {
        let input = if arguments.contains(&"disk.img") { "disk.img" } else { "in.csv" };
        let link = dir.path().join("link");
        let _ = fs::remove_file(&link);
        std::os::unix::fs::symlink(input, &link).unwrap();
        if arguments.contains(&input) {
            for name in [input.to_owned(), format!("/proc/self/cwd/{input}"), "./link".to_owned()] {
                assert!(!run(dir.path(), arguments, &name, &log, true), "{arguments:?} {name}");
            }
        }
        assert!(fs::read(dir.path().join("in.csv")).unwrap() == before, "{arguments:?}");
        assert!(
            fs::read(dir.path().join("disk.img")).unwrap().iter().all(|byte| *byte == 0),
            "{arguments:?}"
        );
    }
}

/// No block device is written to, and a file system without permissions and links is.
#[test]
fn files_are_written_on_fat_and_not_on_devices() {
    if !rustix::process::geteuid().is_root() || !present(&["mkfs.fat", "mount", "losetup"]) {
        return;
    }
    let dir = folder();
    let (log, image) = (dir.path().join("log"), dir.path().join("fs.img"));
    fs::write(&log, "").unwrap();
    let shell = |line: &str| Command::new("sh").args(["-ec", line]).current_dir(dir.path()).status().unwrap();
    assert!(shell("mkdir fat; truncate -s 32M fs.img; mkfs.fat fs.img >/dev/null").success());
    let before = fs::read(&image).unwrap();
    let attach = "flock /dev/loop-control losetup --find --show fs.img >device";
    if !shell(attach).success() {
        return super::tools::skipped("there are no loop devices here");
    }
    let device = fs::read_to_string(dir.path().join("device")).unwrap();
    let written = COMMANDS.iter().find(|(words, _)| run(dir.path(), words, device.trim(), &log, true));
    let mounted = shell("mount -t vfat $(cat device) fat").success();
    let on_fat: Vec<bool> = COMMANDS
        .iter()
        .filter(|(words, _)| mounted && !words.contains(&"--runtime"))
        .flat_map(|(words, _)| [(); 2].map(|()| run(dir.path(), words, "fat/own", &log, true)))
        .collect();
    assert!(shell("if mountpoint -q fat; then umount fat; fi; losetup --detach $(cat device)").success());
    assert!(written.is_none() && on_fat.iter().all(|done| *done), "{written:?} {on_fat:?}");
    if !mounted {
        assert!(fs::read(&image).unwrap() == before);
        super::tools::not_run("FAT cannot be mounted here");
    }
}

#[test]
fn a_recording_and_the_events_of_a_guest_are_written_as_any_file() {
    if !present(&["linux.uml"]) {
        return;
    }
    let dir = folder();
    let log = dir.path().join("log");
    fs::create_dir(dir.path().join("out")).unwrap();
    for option in ["--events", "--record"] {
        let lab = |name: &str| {
            let words = ["lab", "--drive", "wd10ears", "--output", "out", option, name, "--", "true"];
            let out = OpenOptions::new().append(true).open(&log).unwrap();
            let mut command = Command::new(STRADDLE);
            command.args(words).current_dir(dir.path());
            command.stdin(Stdio::null()).stdout(out).stderr(Stdio::null()).status().unwrap().code()
        };
        fs::write(&log, LINE).unwrap();
        assert_eq!(lab("-"), Some(0), "{option}");
        assert!(fs::read(&log).unwrap().len() > LINE.len(), "{option}");
        fs::write(dir.path().join("own"), LINE).unwrap();
        assert_eq!(lab("own"), Some(0), "{option}");
        let first = fs::read(dir.path().join("own")).unwrap();
        assert!(!first.starts_with(LINE.as_bytes()), "{option}");
        // Guests may have left a link there.
        assert_eq!(lab("out/own"), Some(2), "{option}");
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
        assert_eq!(fs::read_to_string(&notes).unwrap(), text, "{drive}");
    }
}

/// A disk that begins a partition off a boundary, and is nobody else's to read, and the plan of a move.
fn private_disk(dir: &Path) {
    super::tools::write_table(&dir.join("disk.img"), 512, "label: dos\nstart=63,size=5000\n");
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
        assert!(status == Some(3) && text.contains("cannot create it"), "{words:?}: {status:?} {text}");
        assert!(fs::read(dir.path().join("disk.img")).unwrap() == before, "{words:?}");
        assert!(!made.is_some_and(|made| dir.path().join(made).exists()), "{words:?}");
    }
}
