//! The Debian package in a fresh system, and the program without shared libraries where nothing else is.
//!
//! Takes minutes, and downloads a minimal Debian: `make package-test`. The version, which the package and the program
//! have from git, is tested without.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use crate::tools;

use std::path::{Path, PathBuf};
use std::process::Command;

use tools::{Dir, output, present, run, transcript};

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
    debian.args(["--variant=minbase", "--format=null", "--include=man-db"]);
    debian.arg(format!("--customize-hook={} \"$1\"", quoted.join(" ")));
    debian.args([Path::new("bookworm"), Path::new("-"), Path::new("http://deb.debian.org/debian")]);
    let made = output(&mut debian, "");
    let said = transcript(&made);
    let is_right =
        made.status.success() && said.contains("installed, run and purged; run in an empty folder");
    assert!(is_right, "{said}");
}

/// A crate of the program's depth that prints its version, in a repository.
struct Versions {
    dir: Dir,
}

impl Versions {
    fn new() -> Self {
        let dir = Dir::new("versions");
        let package = dir.join("crates/cli");
        std::fs::create_dir_all(package.join("src")).unwrap();
        std::fs::copy(tools::root().join("crates/cli/build.rs"), package.join("build.rs")).unwrap();
        let manifest = "[package]\nname = \"shown\"\nversion = \"7.1.0\"\nedition = \"2024\"\n[workspace]\n";
        std::fs::write(package.join("Cargo.toml"), manifest).unwrap();
        let program = "fn main() { println!(\"{}\", env!(\"STRADDLE_VERSION\")); }\n";
        std::fs::write(package.join("src/main.rs"), program).unwrap();
        Self { dir }
    }

    fn git(&self, arguments: &[&str]) -> String {
        let by = ["-c", "user.name=Test", "-c", "user.email=test@straddle.invalid"];
        run(Command::new("git").arg("-C").arg(self.dir.path()).args(by).args(arguments), "").trim().to_owned()
    }

    /// What a build in this profile says of itself.
    fn built(&self, package: &str, profile: &str) -> String {
        let mut cargo = Command::new(env!("CARGO"));
        cargo.env("RUSTC", Path::new(env!("CARGO")).with_file_name("rustc")).env_remove("RUSTFLAGS");
        cargo.env("CARGO_TARGET_DIR", self.dir.join("target")).current_dir(self.dir.join(package));
        cargo.args(["run", "--quiet", "--offline", "--profile", profile]);
        run(&mut cargo, "").trim().to_owned()
    }

    fn commit(&self) -> String {
        self.git(&["commit", "--quiet", "--allow-empty", "--message=change"]);
        self.git(&["rev-parse", "--short", "HEAD"])
    }
}

#[test]
fn the_version_is_that_of_the_tag_or_names_the_commit() {
    if !present(&["git"]) {
        return;
    }
    let versions = Versions::new();
    assert_eq!(versions.built("crates/cli", "release"), "7.1.0", "outside of a repository");
    versions.git(&["init", "--quiet"]);
    std::fs::write(versions.dir.join(".gitignore"), "target\n").unwrap();
    versions.git(&["add", ".gitignore"]);
    // The build script ran where git knew nothing to watch.
    std::fs::remove_dir_all(versions.dir.join("target")).unwrap();
    let before = versions.commit();
    assert_eq!(versions.built("crates/cli", "release"), format!("7.1.0-g{before}"));
    versions.git(&["tag", "v7.1.0"]);
    assert_eq!(versions.built("crates/cli", "release"), "7.1.0", "of the tagged commit");
    let mut after = versions.commit();
    assert_eq!(versions.built("crates/cli", "release"), format!("7.1.0-1-g{after}"));
    // A branch in packed-refs, and a checkout of a commit.
    versions.git(&["pack-refs", "--all"]);
    after = versions.commit();
    assert_eq!(versions.built("crates/cli", "release"), format!("7.1.0-2-g{after}"));
    versions.git(&["checkout", "--quiet", "--detach", "v7.1.0"]);
    assert_eq!(versions.built("crates/cli", "release"), "7.1.0");
    versions.git(&["checkout", "--quiet", "-"]);
    assert_eq!(versions.built("crates/cli", "dev"), "7.1.0", "tests are not linked again after a commit");
}

#[test]
fn a_version_of_another_repository_is_not_taken() {
    if !present(&["git"]) {
        return;
    }
    let versions = Versions::new();
    std::fs::create_dir_all(versions.dir.join("sources")).unwrap();
    std::fs::rename(versions.dir.join("crates"), versions.dir.join("sources/crates")).unwrap();
    versions.git(&["init", "--quiet"]);
    versions.commit();
    versions.git(&["tag", "v9.9.9"]);
    assert_eq!(versions.built("sources/crates/cli", "release"), "7.1.0");
}
