//! One run of the program under test: what it printed, and how it ended.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::Value;

use super::{STRADDLE, output, transcript};

/// The repository's folder.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).to_owned()
}

/// straddle with empty input and without `NO_COLOR`.
pub(crate) fn command() -> Command {
    let mut command = Command::new(STRADDLE);
    command.env_remove("NO_COLOR").stdin(Stdio::null());
    command
}

/// The output of a run on stdout and stderr, and its exit code.
pub(crate) struct Run {
    pub(crate) out: String,
    pub(crate) err: String,
    pub(crate) code: i32,
}

impl Run {
    /// The standard output, parsed as JSON.
    #[track_caller]
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.out).unwrap_or_else(|error| panic!("{error}: {}{}", self.out, self.err))
    }

    /// The standard output as JSON, which has to match the schema that `straddle schema` prints for `schema`.
    #[track_caller]
    pub(crate) fn valid(&self, schema: &str) -> Value {
        let value = self.json();
        valid(&value, schema);
        value
    }
}

/// Runs straddle in the repository's folder. Its output has to be UTF-8, and no signal may end it.
#[track_caller]
pub(crate) fn straddle<S: AsRef<OsStr>>(arguments: &[S]) -> Run {
    let output = command().args(arguments).current_dir(root()).output().expect("the program runs");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("UTF-8");
    Run {
        out: text(output.stdout),
        err: text(output.stderr),
        code: output.status.code().expect("it exits by itself"),
    }
}

/// Runs straddle in `dir`, with administrators' tools in its PATH.
pub(crate) fn straddle_in(dir: impl AsRef<Path>, arguments: &[&str]) -> Output {
    output(Command::new(STRADDLE).args(arguments).current_dir(dir), "")
}

/// The JSON output of a successful run with `arguments`, checked against the schema of `schema`.
#[track_caller]
pub(crate) fn json(schema: &str, arguments: &[&str]) -> Value {
    let run = straddle(arguments);
    assert_eq!(run.code, 0, "{arguments:?}: {}", run.err);
    run.valid(schema)
}

/// The JSON output of a successful run in `dir`.
#[track_caller]
pub(crate) fn json_in(dir: impl AsRef<Path>, arguments: &[&str]) -> Value {
    let output = straddle_in(dir, arguments);
    assert!(output.status.success(), "{arguments:?}\n{}", transcript(&output));
    serde_json::from_slice(&output.stdout).expect("JSON")
}

/// Fails unless `value` matches the schema that `straddle schema` prints for `schema`.
#[track_caller]
pub(crate) fn valid(value: &Value, schema: &str) {
    let schema = straddle(&["schema", schema]).json();
    let validator = jsonschema::validator_for(&schema).expect("a schema");
    let errors: Vec<String> = validator.iter_errors(value).map(|error| error.to_string()).collect();
    assert!(errors.is_empty(), "{errors:?}");
}

/// The text on one line, with all line breaks removed.
pub(crate) fn flat(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}
