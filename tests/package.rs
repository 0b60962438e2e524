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
    for script in ["scripts/package", "scripts/wheel"] {
        assert!(Command::new(folder.join(script)).env("YES", "1").status().unwrap().success());
    }
    let try_it = folder.join("tests/package/try");
    let (release, wheels) = (folder.join("target/release-files"), folder.join("target/wheels"));
    for suite in ["bookworm", "trixie"] {
        let mut debian = Command::new("mmdebstrap");
        debian.args([
            "--variant=minbase",
            "--format=null",
            "--include=libnss-myhostname,man-db,rpm,python3-venv",
        ]);
        let [try_it, release, wheels] = [&try_it, &release, &wheels].map(|path| path.display());
        debian.arg(format!("--customize-hook='{try_it}' '{release}' '{wheels}' \"$1\""));
        debian.args([suite, "-", "http://deb.debian.org/debian"]);
        let tried = output(&mut debian, "");
        let said = transcript(&tried);
        let is_right = tried.status.success()
            && said.contains(
                "installed, run and removed; run in an empty folder, in a container and from the wheel",
            );
        assert!(is_right, "{suite}: {said}");
    }
}
