//! What is typed wrongly, or in another tool's way, has an answer.

use std::fs::{self, File};
use std::process::{Command, Stdio};

use super::image;
use super::tools::{STRADDLE, straddle};

#[test]
fn help_is_a_command_too() {
    for words in [&[][..], &["plan"], &["trace", "record"], &["drive", "fit"]] {
        let (as_command, as_option) =
            (straddle(&[&["help"], words].concat()), straddle(&[words, &["--help"]].concat()));
        assert_eq!((as_command.code, &as_command.out), (0, &as_option.out), "{words:?}");
    }
    assert_eq!(straddle(&["help", "nonsense"]).code, 2);
}

#[test]
fn what_is_not_understood_is_said_in_words() {
    let dir = tempfile::tempdir().unwrap();
    let image = image(&dir, "disk.img", 2048, 4096);
    let image = image.as_str();
    // It is larger than a plan may be.
    let other = dir.path().join("other");
    fs::write(&other, [0_u8; 4096]).unwrap();
    let other = other.to_str().unwrap();
    for (words, code, said) in [
        (&["realign", image, "--partition", "x"][..], 2, "must be a partition number"),
        (&["realign", image, "--partition", "0"], 2, "must be a partition number"),
        (&["plan", image, "--delete", "1,x"], 2, "must be a partition number"),
        (&["undo", other, "--write", image], 3, "the file is not a backup written by 'straddle apply'"),
        (&["apply", other, "--write", image], 3, "the file is not a straddle plan"),
        (&["plan", image, "--table", "gpt", "--part", "1MiB,name=a,name=b"], 2, "'name' is specified twice"),
        (&["plan", image, "--table", "mbr", "--part", "1MiB,boot,boot"], 2, "'boot' is specified twice"),
    ] {
        let run = straddle(words);
        assert!(run.code == code && run.err.contains(said), "{words:?}: {}: {}", run.code, run.err);
        assert!(!run.err.contains("line 1 column"), "{}", run.err);
    }
    for (word, said) in [
        ("RMW", "Read-modify-write"),
        ("rmw,", "Read-modify-write"),
        ("ashift", "ZFS's ashift"),
        ("ashift=12", "ZFS's ashift"),
        ("emmc", "eMMC and SD cards"),
        ("eMMC", "eMMC and SD cards"),
    ] {
        let run = straddle(&["explain", word]);
        assert!(run.code == 0 && run.out.starts_with(said), "{word}: {}{}", run.out, run.err);
    }
}

/// What became of the data is known although nothing can be printed.
#[test]
fn a_move_that_cannot_be_reported_is_said_to_be_complete() {
    let dir = tempfile::tempdir().unwrap();
    let image = image(&dir, "disk.img", 63, 40_000);
    let plan = dir.path().join("move.json");
    let plan = plan.to_str().unwrap();
    assert_eq!(straddle(&["realign", &image, "--save", plan]).code, 0);
    let full = File::options().write(true).open("/dev/full").unwrap();
    let mut apply = Command::new(STRADDLE);
    let run =
        apply.args(["apply", plan, "--write", &image]).stdout(full).stderr(Stdio::piped()).output().unwrap();
    let said = String::from_utf8(run.stderr).unwrap();
    assert!(run.status.code() == Some(3) && said.contains("new table written and verified"), "{said}");
}

/// A partition that the disk does not hold has a fix that says what comes first.
#[test]
fn a_partition_past_the_end_is_corrected_first() {
    let dir = tempfile::tempdir().unwrap();
    let image = image(&dir, "disk.img", 63, 200_000);
    let report = straddle(&["check", "--json", &image]).json();
    let findings = report["targets"][0]["findings"].as_array().unwrap();
    let start = findings.iter().find(|finding| finding["code"] == "S001").unwrap();
    assert!(start["fix"]["summary"].as_str().unwrap().contains("S042"), "{start}");
    assert!(findings.iter().any(|finding| finding["code"] == "S042"), "{report}");
}
