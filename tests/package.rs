//! The Debian package in a fresh system, and the program without shared libraries where nothing else is.
//!
//! Takes minutes, and downloads a minimal Debian: `make package-test`.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod tools;

use std::path::{Path, PathBuf};
use std::process::Command;

use tools::{output, transcript};

/// The file in `target/package` whose name ends so.
fn made(end: &str) -> PathBuf {
    let folder = tools::root().join("target/package");
    let entries = std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path());
    let mut found = entries.filter(|path| path.to_str().unwrap().ends_with(end));
    found.next().unwrap_or_else(|| panic!("no *{end} in {}", folder.display()))
}

#[test]
#[ignore = "minutes, and a network"]
fn packages_are_installed_run_and_purged() {
    let folder = tools::root();
    // With the user's PATH, in which cargo is.
    assert!(Command::new(folder.join("scripts/package")).env("YES", "1").status().unwrap().success());
    let (package, single) = (made(".deb"), made("-static"));
    let is_dynamic = output(Command::new("ldd").arg(&single), "");
    let said = transcript(&is_dynamic);
    assert!(said.contains("statically linked") || said.contains("not a dynamic executable"), "{said}");
    let try_it = folder.join("tests/package/try");
    let quoted = [try_it.as_path(), &package, &single].map(|path| format!("'{}'", path.display()));
    let mut debian = Command::new("mmdebstrap");
    debian.args(["--variant=minbase", "--format=null"]);
    debian.arg(format!("--customize-hook={} \"$1\"", quoted.join(" ")));
    debian.args([Path::new("bookworm"), Path::new("-"), Path::new("http://deb.debian.org/debian")]);
    let made = output(&mut debian, "");
    let said = transcript(&made);
    let is_right =
        made.status.success() && said.contains("installed, run and purged; run in an empty folder");
    assert!(is_right, "{said}");
}
