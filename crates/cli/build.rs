//! The version that `straddle --version` prints, as `STRADDLE_VERSION`.
//!
//! A release build of a commit with the tag `v0.1.0` is `0.1.0`, one of the twelfth commit after it
//! `0.1.0-12-gabcdef0`. Without a tag the commit follows the version of the crate: `0.1.0-gabcdef0`. Other profiles,
//! and sources outside their repository, have the version of the crate alone: tests need not be linked again after
//! each commit.

use std::path::Path;
use std::process::Command;
use std::{env, fs};

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let crate_version = env::var("CARGO_PKG_VERSION").unwrap_or_default();
    let is_release = env::var("PROFILE").is_ok_and(|profile| profile == "release");
    let version = if is_release { of_commit(&crate_version) } else { None };
    println!("cargo::rustc-env=STRADDLE_VERSION={}", version.unwrap_or(crate_version));
}

/// The version of the commit that is checked out, if this is its repository.
fn of_commit(crate_version: &str) -> Option<String> {
    // Sources unpacked in another repository, such as a distribution's, have nothing to do with its tags.
    let root = fs::canonicalize(Path::new("../..")).ok()?;
    if fs::canonicalize(git(&["rev-parse", "--show-toplevel"])?).ok()? != root {
        return None;
    }
    let branch = git(&["symbolic-ref", "--quiet", "HEAD"]);
    // A file that does not exist would run this script in each build. The log of HEAD changes with each commit,
    // also where the branch is in packed-refs.
    for name in ["HEAD", "logs/HEAD", "packed-refs", "refs/tags"].into_iter().chain(branch.as_deref()) {
        let path = git(&["rev-parse", "--git-path", name])?;
        if Path::new(&path).exists() {
            println!("cargo::rerun-if-changed={path}");
        }
    }
    let described = git(&["describe", "--tags", "--match", "v[0-9]*"]);
    described
        .and_then(|name| name.strip_prefix('v').map(str::to_owned))
        .or_else(|| git(&["rev-parse", "--short", "HEAD"]).map(|commit| format!("{crate_version}-g{commit}")))
}

/// What git prints, without the line's end.
fn git(arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").args(arguments).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| text.trim_end().to_owned())
}
