//! Scripts of the shell, and the program beside them.

use std::path::Path;
use std::process::Command;

use super::{PATH, STRADDLE};

/// Runs a script of the shell in `folder`; it must succeed.
#[track_caller]
pub(crate) fn shell(folder: &Path, script: &str) -> String {
    let output = Command::new("bash")
        .args(["-euo", "pipefail", "-c", script])
        .current_dir(folder)
        .env("PATH", PATH)
        .output()
        .expect("bash runs");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{script}\n{text}{}", String::from_utf8_lossy(&output.stderr));
    text
}

/// Runs the program in `folder`; its status, and what it wrote.
pub(crate) fn program(folder: &Path, words: &[&str]) -> (i32, String) {
    let output = Command::new(STRADDLE).args(words).current_dir(folder).output().expect("it runs");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    (output.status.code().unwrap_or(-1), text + &String::from_utf8_lossy(&output.stderr))
}
