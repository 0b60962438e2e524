//! Runs `straddle lab` for a test, and parses its report.

#![allow(dead_code, reason = "each test file is a crate of its own and uses a part of this")]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use serde_json::Value;

use crate::tools::{STRADDLE, text, transcript};

pub(crate) fn lab(arguments: &[&str]) -> Output {
    let mut command = Command::new(STRADDLE);
    command.arg("lab").args(arguments).stdin(Stdio::null()).output().unwrap()
}

/// Runs a script and returns the report of `--json`.
pub(crate) fn reported(arguments: &[&str]) -> Value {
    let arguments = [&["--json"], arguments].concat();
    let output = lab(&arguments);
    let report: Value =
        serde_json::from_slice(&output.stdout).unwrap_or_else(|e| panic!("{e}: {}", transcript(&output)));
    let schema = Command::new(STRADDLE).args(["schema", "lab"]).output().unwrap();
    let validator = jsonschema::validator_for(&serde_json::from_slice(&schema.stdout).unwrap()).unwrap();
    let errors: Vec<String> = validator.iter_errors(&report).map(|e| e.to_string()).collect();
    assert!(errors.is_empty(), "{errors:?}");
    report
}

/// As [`reported`], for a script that has to succeed.
pub(crate) fn well(arguments: &[&str]) -> Value {
    let report = reported(arguments);
    assert_eq!(report["status"], 0, "{}", report["output"].as_str().unwrap());
    report
}

pub(crate) fn output(report: &Value) -> &str {
    report["output"].as_str().unwrap()
}

pub(crate) fn measure(report: &Value, name: &str) -> f64 {
    let measures = report["measures"].as_array().unwrap();
    let found = measures.iter().find(|measure| measure["name"] == name);
    found.unwrap_or_else(|| panic!("{name} is not in {measures:?}"))["value"].as_f64().unwrap()
}

pub(crate) fn guest_seconds(report: &Value) -> f64 {
    report["guest_ns"].as_f64().unwrap() / 1e9
}

/// Waits a moment for all processes with this argument to end; returns whether they did.
pub(crate) fn gone(argument: &str) -> bool {
    let alive = || {
        fs::read_dir("/proc").unwrap().flatten().any(|process| {
            let line = fs::read(process.path().join("cmdline")).unwrap_or_default();
            text(&line).split('\0').any(|word| word == argument)
        })
    };
    (0..50).any(|_| {
        std::thread::sleep(Duration::from_millis(20));
        !alive()
    })
}
