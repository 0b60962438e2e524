//! A test that cannot run here prints a message; under CI, where everything has to run, that is a failure.
//!
//! libtest captures what a passing test prints with `eprintln!`. Text written to stderr directly reaches
//! scripts/test, which counts these lines. tests/cli.rs checks that no test reports it in another way.

#![allow(dead_code, reason = "each test file is a crate of its own and uses a part of this")]

use std::io::Write;
use std::path::Path;

/// The directories of administrators' tools, which may be missing from the user's PATH.
pub(crate) const PATH: &str = "/usr/local/sbin:/usr/sbin:/sbin:/usr/local/bin:/usr/bin:/bin";

/// The programs that boot a guest.
const GUESTS: [&str; 2] = ["linux.uml", "qemu-system-x86_64"];

/// Reports why a test, or a part of it, does not run here.
#[track_caller]
pub(crate) fn skipped(why: &str) {
    assert!(std::env::var_os("CI").is_none_or(|ci| ci.is_empty()), "{why}, and this is CI");
    let _ = writeln!(std::io::stderr(), "SKIPPED: {why}");
}

/// Whether `scripts/test --quick` runs the tests, without guests.
pub(crate) fn is_quick() -> bool {
    std::env::var_os("STRADDLE_QUICK").is_some()
}

/// Whether a test of many cases tries a sample of them: all are tried by `scripts/test --every`.
pub(crate) fn is_sampled() -> bool {
    std::env::var_os("STRADDLE_EVERY_CASE").is_none()
}

/// One in `one_in` of `cases`; with `scripts/test --every`, all of them.
pub(crate) fn cases<I: Iterator>(cases: I, one_in: usize) -> std::iter::StepBy<I> {
    cases.step_by(if is_sampled() { one_in } else { 1 })
}

/// How many of `all` cases [`cases`] takes, or `taken` in tests/guest/lib.sh.
pub(crate) fn taken(all: usize, one_in: usize) -> usize {
    if is_sampled() { all.div_ceil(one_in) } else { all }
}

/// Whether all of `tools` are installed; reports it if not. When `scripts/test --quick` runs the tests, no
/// guest is booted.
#[track_caller]
pub(crate) fn present(tools: &[&str]) -> bool {
    if is_quick() && tools.iter().any(|tool| GUESTS.contains(tool)) {
        let _ = writeln!(std::io::stderr(), "LEFT OUT: a test that boots a guest");
        return false;
    }
    let installed = |tool: &&&str| PATH.split(':').any(|dir| Path::new(dir).join(tool).exists());
    let missing: Vec<_> = tools.iter().filter(|tool| !installed(tool)).collect();
    if !missing.is_empty() {
        skipped(&format!("{missing:?} not installed"));
    }
    missing.is_empty()
}
