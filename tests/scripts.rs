//! Tests of the repository's scripts, with a stub in place of the program that a script runs.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use crate::tools;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output};

use tools::{Dir, present, text, transcript};

fn script(name: &str) -> Command {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    Command::new(root.join("scripts").join(name))
}

/// Runs `scripts/repeats 4` with a program that behaves as `body`; `$count` is the number of the run.
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
        assert_eq!(run.status.code(), Some(status), "{body}: {}", transcript(&run));
        assert!(all.contains(said), "{body}: {all}");
        // Nothing is left behind except the records of runs that differ.
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
    assert_eq!(run.status.code(), Some(2), "{}", transcript(&run));
    assert_eq!(script("test").arg("--help").output().unwrap().status.code(), Some(0));
}

/// Makes a program called `name` in `dir` that runs `body`.
fn stub(dir: &Dir, name: &str, body: &str) {
    fs::write(dir.join(name), format!("#!/bin/bash\n{body}\n")).unwrap();
    fs::set_permissions(dir.join(name), fs::Permissions::from_mode(0o755)).unwrap();
}

/// Runs `scripts/test` with one test program, which prints `lines`; with `ci`, as under CI.
fn tested(arguments: &[&str], lines: &str, ci: bool) -> Output {
    let dir = Dir::new("tested");
    let status = if lines.contains("FAILED") { 101 } else { 0 };
    let body = format!("for ((i = 0; i < 100000; i++)); do :; done; printf '{lines}'; exit {status}");
    stub(&dir, "program", &body);
    let program = dir.join("program");
    let message = serde_json::json!({
        "executable": program, "profile": {"test": true}, "target": {"name": "made"},
        "manifest_path": dir.join("Cargo.toml"),
    });
    stub(&dir, "cargo", &format!("case \"$*\" in *--no-run*) echo '{message}' ;; esac"));
    let mut command = script("test");
    command.args(arguments).env("CARGO", dir.join("cargo")).env("CI", if ci { "true" } else { "" });
    command.env_remove("STRADDLE_QUICK").output().unwrap()
}

#[test]
fn test_counts_what_was_skipped_or_left_out() {
    if !present(&["jq"]) {
        return;
    }
    let ended = "test result: ok. 3 passed; 0 failed; 1 ignored; 0 measured\\n";
    let bad = "test good ... ok\\ntest bad ... FAILED\\nwhy\\n\
               test result: FAILED. 2 passed; 1 failed; 0 ignored; 0 measured\\n";
    // The word is not written out here, because tests/cli.rs searches the sources for it.
    let skipped = format!("{}: no tool\\n{ended}", "SKIPPED");
    for (arguments, lines, ci, status, said) in [
        (&[][..], ended.to_owned(), true, 0, "3 passed, 0 failed, 0 skipped"),
        (&[], skipped.clone(), false, 0, "3 passed, 0 failed, 1 skipped"),
        (&[], skipped.clone(), true, 1, "a test was skipped, and this is CI"),
        (
            &["--quick"],
            format!("LEFT OUT: a guest\\n{ended}"),
            true,
            0,
            "LEFT OUT, because they boot a guest: 1",
        ),
        (&["made"], bad.to_owned(), false, 1, "2 passed, 1 failed, 0 skipped"),
    ] {
        let run = tested(arguments, &lines, ci);
        assert_eq!(run.status.code(), Some(status), "{lines}: {}", transcript(&run));
        assert!(text(&run.stdout).contains(said), "{lines}: {}", transcript(&run));
        let printed = text(&run.stdout);
        assert!(!printed.contains("test good"), "{printed}");
        assert_eq!(printed.contains("test bad ... FAILED\nwhy\n"), lines == bad, "{printed}");
        // The documentation tests may have taken longer, by the clock's grain.
        let mut slowest = printed.lines().skip_while(|line| !line.starts_with("slowest programs"));
        let slowest = slowest.find(|line| line.ends_with("/made")).unwrap();
        let seconds: Vec<f64> =
            slowest.split_whitespace().take(2).map(|word| word.parse().unwrap()).collect();
        assert!(seconds[0] > 0.0 && seconds[1] > 0.0, "{lines}: {printed}");
    }
}

#[test]
fn ci_runs_every_step_and_says_what_it_left_out() {
    for (failing, deny, status, said) in [
        ("none", true, 0, vec!["tests", "fuzz inputs", "book", "advisories                   ok"]),
        ("none", false, 0, vec!["LEFT OUT: cargo-deny is not installed", "NOT EVERYTHING WAS CHECKED"]),
        ("lint", true, 1, vec!["form                         FAILED", "tests                        ok"]),
        ("test", true, 1, vec!["tests                        FAILED", "licences, bans, sources      ok"]),
        ("fetch", true, 0, vec!["LEFT OUT: the database of vulnerabilities cannot be fetched"]),
        ("check", true, 1, vec!["form                         ok", "FAILED"]),
    ] {
        let dir = Dir::new("ci");
        stub(&dir, "make", &format!("[ $1 != {failing} ]"));
        let missing = if deny { "" } else { "[ $1 != deny ] && " };
        stub(&dir, "cargo", &format!("{missing}[[ \" $* \" != *' {failing} '* || $1 = test ]]"));
        stub(&dir, "rustup", "shift 2; [ $1 = rustc ] || exec \"$@\"");
        let path = format!("{}:{}", dir.path().display(), std::env::var("PATH").unwrap());
        let ci = |arguments: &[&str]| {
            let mut script = script("ci");
            script.args(arguments).env("PATH", &path).env("CARGO", "cargo").env("MAKE", "make");
            script.output().unwrap()
        };
        let before_merging = ci(&[]);
        assert!(!text(&before_merging.stdout).contains("fuzz inputs"), "{}", transcript(&before_merging));
        let run = ci(&["--release"]);
        assert_eq!(run.status.code(), Some(status), "{failing}: {}", transcript(&run));
        for words in said {
            assert!(text(&run.stdout).contains(words), "{failing}: {words}: {}", transcript(&run));
        }
    }
}
