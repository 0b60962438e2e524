//! The clock's C code under the sanitizers: what it does with files, times and drives, without a guest
//! (`clock/harness.c`).

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "../../../../tests/tools/skip.rs"]
mod skip;

use std::path::Path;
use std::process::{Command, Output};

const SOURCES: [&str; 8] =
    ["clock.c", "events.c", "files.c", "interrupts.c", "open.c", "owners.c", "registers.c", "table.c"];

/// Compiles the harness with the additional options, and runs it in a folder of its own. `None` where there
/// is no compiler with sanitizers.
fn harness(more: &[&str]) -> Option<Output> {
    let crate_folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("harness");
    let mut compiler = Command::new("cc");
    compiler.args(["-std=gnu11", "-g", "-O1", "-fno-omit-frame-pointer"]);
    compiler.args(["-fsanitize=address,undefined", "-fno-sanitize-recover=all"]).args(more);
    compiler.arg("-I").arg(crate_folder.join("clock")).arg("-o").arg(&program);
    compiler.arg(crate_folder.join("tests/clock/harness.c"));
    compiler.args(SOURCES.map(|source| crate_folder.join("clock").join(source))).args(["-ldl", "-lpthread"]);
    let compiled = compiler.output();
    if !compiled.as_ref().is_ok_and(|output| output.status.success()) {
        skip::skipped(&format!("no compiler with sanitizers: {compiled:?}"));
        return None;
    }
    std::fs::write(folder.path().join("events"), "").unwrap();
    let mut run = Command::new(&program);
    run.current_dir(folder.path()).env_clear();
    // STRADDLE_AGAIN: it must not execute itself again, which serves only to fix its addresses. Memory that
    // it keeps until its end is not a leak.
    run.env("STRADDLE_AGAIN", "1").env("STRADDLE_CLOCK", "clock").env("ASAN_OPTIONS", "detect_leaks=0");
    Some(run.output().unwrap())
}

#[test]
fn the_clock_is_clean_under_the_sanitizers() {
    let Some(output) = harness(&[]) else { return };
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn the_sanitizers_see_a_planted_error() {
    let Some(output) = harness(&["-DPLANTED"]) else { return };
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && errors.contains("index 1024 out of bounds"), "{errors}");
}
