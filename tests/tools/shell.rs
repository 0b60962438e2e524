//! Scripts of the shell, and the program beside them.

use std::path::Path;
use std::process::{Child, Command, Stdio};

use super::{PATH, STRADDLE};

/// Runs a script of the shell in `folder`, where `straddle` is the program; it must succeed.
#[track_caller]
pub(crate) fn shell(folder: &Path, script: &str) -> String {
    let program = Path::new(STRADDLE).parent().expect("it is in a folder").display();
    let output = Command::new("bash")
        .args(["-euo", "pipefail", "-c", script])
        .current_dir(folder)
        .env("PATH", format!("{program}:{PATH}"))
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

/// Starts the program in `folder`, to be killed.
pub(crate) fn started(folder: &Path, words: &[&str]) -> Child {
    let mut command = Command::new(STRADDLE);
    command.args(words).current_dir(folder).stdout(Stdio::null()).stderr(Stdio::null());
    command.spawn().expect("it starts")
}
