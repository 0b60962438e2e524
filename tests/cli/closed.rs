//! Output that nobody reads.

use std::fs::{self, File};
use std::io::Read;
use std::process::Stdio;

use tempfile::TempDir;

use super::image;
use crate::tools::{command, present, shell, straddle};

#[test]
fn a_closed_pipe_is_silent_and_changes_no_status() {
    let dir = TempDir::new().unwrap();
    // The output exceeds a pipe's capacity, so the writer is still busy when the reader exits.
    let images: Vec<String> = (0..600).map(|i| image(&dir, &format!("{i}.img"), 63, 4096)).collect();
    let mut child =
        command().arg("check").args(&images).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut first = [0_u8; 16];
    child.stdout.take().unwrap().read_exact(&mut first).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
    let (right, wrong, missing) =
        (image(&dir, "right.img", 2048, 4096), &images[0], "missing.img".to_owned());
    let status = |words: &[&str], targets: &[&String]| {
        let gone = std::io::pipe().unwrap().1;
        let run = command().args(words).args(targets).stdout(gone).stderr(Stdio::piped()).output().unwrap();
        run.status.code()
    };
    let forms: [&[&str]; 10] = [
        &["check"],
        &["check", "--json"],
        &["check", "--quiet"],
        &["check", "-v"],
        &["check", "--output-format", "sarif"],
        &["check", "--output-format", "junit"],
        &["check", "--output-format", "github"],
        &["check", "--output-format", "csv"],
        &["check", "--output-format", "prometheus"],
        &["map"],
    ];
    for words in forms {
        let statuses = [vec![&right], vec![&right, wrong], vec![wrong, &missing, &right]];
        assert_eq!(statuses.map(|targets| status(words, &targets)), [Some(0), Some(1), Some(3)], "{words:?}");
    }
    let report = dir.path().join("report.json");
    fs::write(&report, straddle(&["check", "--json", wrong]).out).unwrap();
    let report = report.to_str().unwrap().to_owned();
    assert_eq!(status(&["report"], &[&report]), Some(1));
}

/// What is printed is no part of what a command does.
#[test]
fn a_command_whose_output_nobody_reads_does_its_work() {
    if !present(&["sfdisk"]) {
        return;
    }
    let dir = TempDir::new().unwrap();
    let blank = dir.path().join("disk.img");
    File::create(&blank).unwrap().set_len(64 << 20).unwrap();
    let quietly = |words: &[&str]| {
        let gone = std::io::pipe().unwrap().1;
        let mut run = command();
        run.args(words).current_dir(dir.path()).stdout(gone).stderr(Stdio::piped());
        let run = run.output().unwrap();
        assert_eq!(
            (run.status.code(), String::from_utf8_lossy(&run.stderr).as_ref()),
            (Some(0), ""),
            "{words:?}"
        );
    };
    let starts = || shell("sfdisk -d disk.img | sed -n 's/.*start= *\\([0-9]*\\),.*/\\1/p'", dir.path());
    quietly(&[
        "plan",
        "disk.img",
        "--table",
        "mbr",
        "--part",
        "20MiB,start=63s",
        "--allow-misaligned",
        "--save",
        "p.json",
    ]);
    quietly(&["apply", "p.json", "--write", "disk.img"]);
    assert_eq!(starts().trim(), "63");
    quietly(&["realign", "disk.img", "--save", "m.json"]);
    quietly(&["apply", "m.json", "--write", "disk.img"]);
    assert!(starts().trim().parse::<u64>().unwrap().is_multiple_of(8), "{}", starts());
}
