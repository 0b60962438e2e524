//! The scripts of this repository say what is so: a stub stands for the program under test, since what is tried here is the script.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod tools;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output};

use tools::{Dir, present, text, told};

fn script(name: &str) -> Command {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap();
    Command::new(root.join("scripts").join(name))
}

/// `scripts/repeats 4` with a program that ends as `body` says; `$count` is the number of the run.
fn repeats(body: &str) -> (Dir, Output) {
    let dir = Dir::new("repeats");
    let stub = dir.join("stub");
    let head = "#!/bin/bash\nn=${0%/*}/../turn; echo >>\"$n\"; count=$(wc -l <\"$n\")\n\
        while [ $# -gt 0 ]; do if [ \"$1\" = --events ]; then echo \"$count\" >\"$2\"; fi; shift; done\n\
        report() { echo \"{\\\"fingerprint\\\":\\\"f\\\",\\\"spent\\\":{\\\"digest\\\":\\\"$1\\\"},\\\"guest_ns\\\":1,\
        \\\"repeatable\\\":$2,\\\"output\\\":\\\"\\\"}\"; }\n";
    fs::write(&stub, format!("{head}{body}\n")).unwrap();
    fs::write(dir.join("turn"), "").unwrap();
    for (path, mode) in [(stub.as_path(), 0o755), (dir.path(), 0o777), (&dir.join("turn"), 0o666)] {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    }
    let run = script("repeats").arg("4").env("STRADDLE", &stub).env("TMPDIR", dir.path()).output().unwrap();
    (dir, run)
}

#[test]
fn repeats_succeeds_only_where_all_runs_are_one() {
    if !present(&["jq", "taskset", "setpriv"]) {
        return;
    }
    for (body, status, said) in [
        ("report 1 true", 0, "4 f 1 1 repeatable"),
        ("echo broken >&2; exit 3", 1, "runs failed"),
        ("[ $count != 2 ] || exit 3; report 1 true", 1, "1 FAILED"),
        ("report 1 false", 1, "not repeatable"),
        ("report $((count == 3)) true", 1, "the runs differ"),
    ] {
        let (dir, run) = repeats(body);
        let all = format!("{}{}", text(&run.stdout), text(&run.stderr));
        assert_eq!(run.status.code(), Some(status), "{body}: {}", told(&run));
        assert!(all.contains(said), "{body}: {all}");
        // Nothing stays, but for the records of runs that differ.
        let left: Vec<String> = fs::read_dir(dir.path())
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .filter(|name| name.starts_with("straddle-"))
            .collect();
        let records = usize::from(said == "the runs differ");
        assert_eq!(left.len(), records, "{body}: {left:?}");
        for folder in left {
            assert_eq!(fs::read_dir(dir.join(&folder)).unwrap().count(), 2, "one record of each digest");
        }
    }
}

#[test]
fn test_refuses_what_it_does_not_know() {
    let run = script("test").arg("--typo").output().unwrap();
    assert_eq!(run.status.code(), Some(2), "{}", told(&run));
    assert_eq!(script("test").arg("--help").output().unwrap().status.code(), Some(0));
}
