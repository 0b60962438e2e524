//! The law of the crate, enforced on its sources.

use std::fs;
use std::path::{Path, PathBuf};

/// The parts of the standard library that do I/O, read a clock or start a thread.
const FORBIDDEN: [&str; 10] = [
    "std::fs",
    "fs::",
    "File::open",
    "std::net",
    "std::env",
    "std::process",
    "std::thread",
    "Instant::",
    "SystemTime",
    "stdin(",
];

/// The sources of the crate but for tests.
fn sources() -> Vec<PathBuf> {
    let mut folders = vec![Path::new(env!("CARGO_MANIFEST_DIR")).join("src")];
    let mut sources = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let is_test = ["tests", "tests.rs", "law.rs"].iter().any(|name| path.ends_with(name));
            match path.is_dir() {
                _ if is_test => {}
                true => folders.push(path),
                false => sources.push(path),
            }
        }
    }
    sources
}

#[test]
fn only_one_module_does_io() {
    let does = |path: &PathBuf| {
        let source = fs::read_to_string(path).unwrap();
        let code = source.lines().filter(|line| !line.trim_start().starts_with("//"));
        code.into_iter().any(|line| FORBIDDEN.iter().any(|word| line.contains(word)))
    };
    let found: Vec<PathBuf> = sources().into_iter().filter(does).collect();
    assert!(matches!(&found[..], [only] if only.ends_with("profile/read.rs")), "{found:?}");
}
