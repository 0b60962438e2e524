//! The files of a release, each installed and run in a fresh system or where nothing else is.
//!
//! Takes a quarter of an hour, and downloads two minimal Debians: `make package-test`.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use crate::tools;

use std::process::Command;

use tools::{output, transcript};

#[test]
#[ignore = "a quarter of an hour, and a network"]
fn a_release_is_installed_run_and_removed() {
    let folder = tools::root();
    // With the user's PATH, in which cargo is.
    assert!(Command::new(folder.join("scripts/package")).env("YES", "1").status().unwrap().success());
    let (try_it, release) = (folder.join("tests/package/try"), folder.join("target/release-files"));
    for suite in ["bookworm", "trixie"] {
        let mut debian = Command::new("mmdebstrap");
        debian.args(["--variant=minbase", "--format=null", "--include=libnss-myhostname,man-db,rpm"]);
        debian.arg(format!("--customize-hook='{}' '{}' \"$1\"", try_it.display(), release.display()));
        debian.args([suite, "-", "http://deb.debian.org/debian"]);
        let tried = output(&mut debian, "");
        let said = transcript(&tried);
        let is_right = tried.status.success()
            && said.contains("installed, run and removed; run in an empty folder and in a container");
        assert!(is_right, "{suite}: {said}");
    }
}
