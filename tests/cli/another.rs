//! `straddle-lab`, which `straddle` starts for the commands that it leaves to it.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};

use super::tools::{Dir, STRADDLE, STRADDLE_LAB};

/// straddle alone in a folder, with only `path` as PATH; `tools::output` would set another.
fn alone(dir: &Dir, path: &Path) -> Command {
    let program = dir.join("straddle");
    crate::tools::copy_program(STRADDLE, &program);
    let mut command = Command::new(program);
    command.env("PATH", path).stdin(Stdio::null());
    command
}

/// Makes a program that prints its name and arguments, and ends with status 7.
fn stand_in(folder: &Path, says: &str) {
    let path = folder.join("straddle-lab");
    let script = folder.join("script");
    fs::write(&script, format!("#!/bin/sh\necho {says} \"$@\"\nexit 7\n")).unwrap();
    crate::tools::copy_program(&script, &path);
    fs::remove_file(script).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
}

const LINES: [&[&str]; 5] = [
    &["lab", "--drive", "wd10ears", "--", "echo a  b"],
    &["serve", "drive:wd10ears", "--nbd", "unix:/no/such"],
    &["reproduce", "--list"],
    &["drive", "fit", "wd10ears"],
    &["schema", "lab"],
];

#[test]
fn the_lab_is_another_program_and_may_be_missing() {
    let (dir, path) = (Dir::new("alone"), Dir::new("path"));
    for line in LINES {
        let missing = alone(&dir, path.path()).args(line).output().unwrap();
        let said = String::from_utf8(missing.stderr).unwrap();
        assert_eq!(missing.status.code(), Some(2), "{line:?}: {said}");
        assert!(
            said.starts_with("straddle: straddle-lab, which runs this command, is neither installed"),
            "{said}"
        );
        assert_eq!(said.lines().count(), 1, "{said}");
    }
    // The others do without, and help names all commands.
    for line in [&["--version"][..], &["drive", "list"], &["lab", "--help"], &["man", "lab"]] {
        let out = alone(&dir, path.path()).args(line).output().unwrap();
        assert!(out.status.success() && out.stderr.is_empty() && !out.stdout.is_empty(), "{line:?}");
    }
}

#[test]
fn the_lab_beside_the_program_is_started_before_one_on_the_path_with_the_same_arguments() {
    let (dir, path) = (Dir::new("beside"), Dir::new("path"));
    stand_in(path.path(), "on the PATH");
    for place in ["on the PATH", "beside"] {
        if place == "beside" {
            stand_in(dir.path(), place);
        }
        for line in LINES {
            let started = alone(&dir, path.path()).args(line).output().unwrap();
            assert_eq!(
                started.status.code(),
                Some(7),
                "{line:?}: {}",
                String::from_utf8_lossy(&started.stderr)
            );
            // The shell's echo joins the arguments with spaces, and leaves those in them.
            let expected = format!("{place} {}\n", line.join(" "));
            assert_eq!(String::from_utf8(started.stdout).unwrap(), expected);
        }
    }
}

#[test]
fn the_lab_program_runs_its_own_commands_only() {
    let list = Command::new(STRADDLE_LAB).args(["reproduce", "--list"]).output().unwrap();
    let same = Command::new(STRADDLE).args(["reproduce", "--list"]).output().unwrap();
    assert!(list.status.success() && !list.stdout.is_empty() && list.stdout == same.stdout);
    let other = Command::new(STRADDLE_LAB).args(["drive", "list"]).output().unwrap();
    assert_eq!(other.status.code(), Some(2));
    let said = String::from_utf8(other.stderr).unwrap();
    assert!(said.contains("for other commands, use straddle"), "{said}");
}

/// Completions offer the experiments without the crate that has them.
#[test]
fn the_experiments_are_the_shipped_ones() {
    let own = straddle_lab::reproduce::experiment::Experiment::names();
    let list = Command::new(STRADDLE).args(["completions", "bash"]).output().unwrap();
    let script = String::from_utf8(list.stdout).unwrap();
    assert!(own.map(|name| (name, script.contains(name))).all(|(_, offered)| offered));
}
