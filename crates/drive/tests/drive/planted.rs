//! Tests the tests: bugs are planted in a copy of the model, one at a time, and the copy's tests have to
//! fail.
//!
//! `make planted` runs this; it takes an hour. The copy and its build stay in the target directory, so that a
//! second run is faster. The bugs are in `planted/bugs.toml`: an exact text and its replacement.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use toml::{Table, Value};

/// The limit for a run of the crate's tests, in seconds of a processor, of which they take a few: a run that exceeds it
/// hangs, however busy the machine is.
const LONGEST: u32 = 120;

struct Bug {
    name: String,
    file: PathBuf,
    old: String,
    new: String,
}

/// A copy of everything that the crate needs to be built and tested.
struct Copy {
    root: PathBuf,
    target: PathBuf,
}

/// The result of a run of the tests.
enum Outcome {
    Passed,
    /// Some tests failed; their names.
    Failed(Vec<String>),
    Hung,
    NotBuilt(String),
}

fn bugs() -> Vec<Bug> {
    let list: Table = include_str!("planted/bugs.toml").parse().unwrap();
    let text = |bug: &Value, key: &str| bug[key].as_str().unwrap().to_owned();
    list["bug"]
        .as_array()
        .unwrap()
        .iter()
        .map(|bug| Bug {
            name: text(bug, "name"),
            file: text(bug, "file").into(),
            old: text(bug, "old"),
            new: text(bug, "new"),
        })
        .collect()
}

fn copy_tree(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let (path, name) = (entry.path(), entry.file_name());
        // Skips examples and the stored failures of proptest.
        if path.is_dir() && name != "examples" && name != "proptest-regressions" {
            copy_tree(&path, &to.join(name));
        } else if path.is_file() {
            write_changed(&to.join(name), &fs::read_to_string(&path).unwrap());
        }
    }
}

/// Writes the file unless it already has this text, so that cargo does not rebuild it.
fn write_changed(path: &Path, text: &str) {
    if fs::read_to_string(path).is_ok_and(|before| before == text) {
        return;
    }
    fs::write(path, text).unwrap();
}

impl Copy {
    fn new() -> Self {
        let crate_root = Path::new(env!("CARGO_MANIFEST_DIR"));
        let workspace = crate_root.join("../..");
        // In the target directory, of which this program is in `debug/deps`.
        let program = std::env::current_exe().unwrap();
        let all = program.ancestors().nth(3).unwrap().join("tmp/planted");
        let root = all.join("workspace");
        // Files deleted from the crate must disappear from the copy too.
        let _ = fs::remove_dir_all(root.join("crates/drive/tests"));
        for part in ["crates/drive", "crates/units"] {
            copy_tree(&workspace.join(part), &root.join(part));
        }
        let mut manifest: Table = fs::read_to_string(workspace.join("Cargo.toml")).unwrap().parse().unwrap();
        let members = ["crates/drive", "crates/units"].map(|member| Value::String(member.to_owned()));
        let workspace_table = manifest["workspace"].as_table_mut().unwrap();
        workspace_table.insert("members".to_owned(), Value::Array(members.to_vec()));
        workspace_table.remove("default-members");
        write_changed(&root.join("Cargo.toml"), &manifest.to_string());
        write_changed(&root.join("Cargo.lock"), &fs::read_to_string(workspace.join("Cargo.lock")).unwrap());
        Self { root, target: all.join("target") }
    }

    /// Runs cargo, after a command of the shell.
    fn cargo(&self, first: &str, which: &[&str]) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", &format!("{first}; exec \"$@\""), "sh", env!("CARGO")]);
        command.args(["test", "--offline", "-p", "straddle-drive"]).args(which);
        command.current_dir(&self.root).env("CARGO_TARGET_DIR", &self.target).env("RUST_BACKTRACE", "0");
        // Debug information is not needed, and these are built often.
        command.env("CARGO_PROFILE_DEV_DEBUG", "false").stdin(Stdio::null());
        command
    }

    /// Runs the tests until some fail, those that catch most bugs first.
    fn test(&self) -> Outcome {
        let stages = ["mechanics::", "durability::", "work::", "time::"].map(|name| vec!["--lib", name]);
        for which in stages.into_iter().chain([Vec::new()]) {
            let outcome = self.stage(&which);
            if !matches!(outcome, Outcome::Passed) {
                return outcome;
            }
        }
        Outcome::Passed
    }

    fn stage(&self, which: &[&str]) -> Outcome {
        let built = self.cargo(":", which).arg("--no-run").output().unwrap();
        if !built.status.success() {
            return Outcome::NotBuilt(String::from_utf8_lossy(&built.stderr).into_owned());
        }
        // The hash of a fixed sequence changes with every bug, so it says nothing about the other tests; nor do those of
        // the bugs' places.
        let skip = ["--", "--skip", "a_fixed_sequence", "--skip", "planted::"];
        let ran = self.cargo(&format!("ulimit -t {LONGEST}"), which).args(skip).output().unwrap();
        let said = String::from_utf8_lossy(&ran.stdout);
        let failed = said.lines().filter_map(|line| line.strip_prefix("test ")?.strip_suffix(" ... FAILED"));
        let failed: Vec<String> = failed.map(str::to_owned).collect();
        match (ran.status.success(), failed.is_empty()) {
            (true, _) => Outcome::Passed,
            (false, false) => Outcome::Failed(failed),
            // Ended by the limit.
            (false, true) => Outcome::Hung,
        }
    }

    /// Runs the tests with `bug` in the copy, and then restores the copy.
    fn with(&self, bug: &Bug) -> Outcome {
        let path = self.root.join("crates/drive").join(&bug.file);
        let text = fs::read_to_string(&path).unwrap();
        fs::write(&path, text.replace(&bug.old, &bug.new)).unwrap();
        let outcome = self.test();
        fs::write(&path, text).unwrap();
        outcome
    }
}

/// Code that was changed takes the place of a bug with it, which must not wait for the long run to be seen.
#[test]
fn every_bug_has_one_place() {
    for Bug { name, file, old, .. } in bugs() {
        let text = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(&file)).unwrap();
        let places = text.matches(&old).count();
        assert_eq!(places, 1, "{name}: {} has this {places} times, plant it again: {old}", file.display());
    }
}

#[test]
#[ignore = "takes minutes: make planted"]
fn every_planted_bug_is_caught() {
    let copy = Copy::new();
    match copy.test() {
        Outcome::Passed => {}
        Outcome::Failed(tests) => panic!("without any planted bug, these fail: {tests:?}"),
        Outcome::Hung => panic!("without any planted bug, the tests hang"),
        Outcome::NotBuilt(why) => panic!("{why}"),
    }
    let mut missed = Vec::new();
    let only = std::env::var("PLANTED").unwrap_or_default();
    let bugs: Vec<Bug> = bugs().into_iter().filter(|bug| bug.name.contains(&only)).collect();
    for bug in &bugs {
        let verdict = match copy.with(bug) {
            Outcome::Failed(tests) => format!("caught by {}", tests.join(", ")),
            Outcome::Hung => "caught: it hangs".to_owned(),
            Outcome::NotBuilt(why) => panic!("{}: does not build\n{why}", bug.name),
            Outcome::Passed => {
                missed.push(&bug.name);
                "MISSED".to_owned()
            }
        };
        println!("{:<75} {verdict}", bug.name);
    }
    assert!(missed.is_empty(), "{} of {} bugs were missed: {missed:#?}", missed.len(), bugs.len());
}
