//! `straddle bench` on files, and on block devices in a guest: what it measures, what it leaves behind, and
//! what it refuses.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use crate::tools;

use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use serde_json::Value;
use tools::{Dir, STRADDLE, valid};

fn straddle(arguments: &[&str], state: &Path) -> Output {
    let mut command = Command::new(STRADDLE);
    command
        .args(arguments)
        .env("XDG_STATE_HOME", state)
        .env("NO_COLOR", "1")
        .stdin(Stdio::null())
        .output()
        .unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

#[test]
fn a_file_that_is_not_there_is_made_and_removed() {
    let dir = Dir::new("made");
    let target = dir.join("scratch");
    let arguments = [
        "bench",
        "random-write",
        target.to_str().unwrap(),
        "--area",
        "4M",
        "--runtime",
        "2",
        "--io",
        "buffered",
    ];
    let output = straddle(&arguments, dir.path());
    assert!(output.status.success(), "{}", text(&output.stderr));
    let transcript = tools::flat(&text(&output.stdout));
    assert!(transcript.contains("removed afterwards") && transcript.contains("page cache"), "{transcript}");
    assert!(!target.exists());
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0, "nothing is left");
}

#[test]
fn a_file_that_is_there_is_as_it_was_and_every_sample_is_exported() {
    let dir = Dir::new("there");
    let (target, export) = (dir.join("disk.img"), dir.join("samples"));
    let bytes: Vec<u8> = (0..4_u32 << 20).map(|at| at.wrapping_mul(2_654_435_761).to_le_bytes()[3]).collect();
    for (workload, more) in [
        ("random-write", &["--queue-depth", "8", "--sync", "flush"][..]),
        ("sequential-write", &["--fsync-each", "4"]),
        ("strided-write", &["--sync", "fua"]),
        ("dd", &["--size", "64K"]),
        ("random-read", &["--queue-depth", "4"]),
        ("sequential-read", &[]),
    ] {
        fs::write(&target, &bytes).unwrap();
        let _ = fs::remove_file(&export);
        let mut arguments =
            vec!["bench", workload, target.to_str().unwrap(), "--io", "buffered", "--runtime", "1"];
        arguments.extend([
            "--used",
            "--offsets",
            "0,1",
            "--count",
            "8",
            "--json",
            "--export",
            export.to_str().unwrap(),
        ]);
        arguments.extend(more);
        let output = straddle(&arguments, dir.path());
        assert!(output.status.success(), "{workload}: {}", text(&output.stderr));
        assert!(fs::read(&target).unwrap() == bytes, "{workload}");
        let report: Value = serde_json::from_slice(&output.stdout).unwrap();
        valid(&report, "bench");
        let rounds = report["turns"]["rounds"].as_u64().unwrap();
        let lines: Vec<Value> = fs::read_to_string(&export)
            .unwrap()
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        assert_eq!(lines.len() as u64, 1 + rounds * 4, "{workload}: a heading, and two turns of two arms");
        let names = |value: &Value| value.as_object().unwrap().keys().cloned().collect::<Vec<_>>().join(" ");
        assert_eq!(names(&lines[0]), "offsets_sectors schema seed straddle target workload");
        for line in &lines[1..] {
            assert_eq!(
                names(line),
                "began_ns elapsed_ns latencies_ns offset_sectors requests round seed start_bytes"
            );
            assert_eq!(
                (line["requests"].as_u64(), line["latencies_ns"].as_array().unwrap().len()),
                (Some(8), 8)
            );
        }
        let requests: u64 =
            report["arms"].as_array().unwrap().iter().map(|arm| arm["requests"].as_u64().unwrap()).sum();
        assert_eq!(requests, rounds * 4 * 8);
    }
}

#[test]
fn what_must_not_be_measured_is_refused_and_not_touched() {
    let dir = Dir::new("refused");
    let target = dir.image("disk.img", 4 << 20);
    let path = target.to_str().unwrap();
    let lock = fs::File::open(&target).unwrap();
    rustix::fs::flock(&lock, rustix::fs::FlockOperation::LockExclusive).unwrap();
    let output = straddle(&["bench", "random-write", path], dir.path());
    assert_eq!(output.status.code(), Some(4), "{}", text(&output.stderr));
    assert!(text(&output.stderr).contains("in use"), "{}", text(&output.stderr));
    drop(lock);
    let refused = |arguments: &[&str], code: i32, said: &str| {
        let output = straddle(&[&["bench"], arguments].concat(), dir.path());
        let transcript = text(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {transcript}");
        assert!(transcript.contains(said), "{arguments:?}: {transcript}");
    };
    refused(
        &["random-write", path, "--destroy-data", "/dev/null"],
        2,
        "must repeat the name of the measured device",
    );
    refused(&["random-write", dir.path().to_str().unwrap()], 3, "neither a regular file nor a block device");
    refused(&["random-write", "/dev/straddle-no-such-disk"], 3, "cannot open");
    refused(&["random-write", "/proc/version"], 3, "/proc/version");
    let empty = dir.image("empty.img", 0);
    refused(&["random-write", empty.to_str().unwrap()], 3, "empty");
    let small = dir.image("small.img", 1 << 20);
    refused(
        &["random-write", small.to_str().unwrap(), "--used", "--io", "buffered"],
        4,
        "too small (1048576 bytes); at least 2097152 bytes are needed",
    );
    refused(&["dd", path, "--used", "--size", "64M", "--io", "buffered"], 2, "the workload needs");
    assert!(fs::read(&target).unwrap().iter().all(|byte| *byte == 0));
}

/// In a guest in virtual time: the same code on a kernel's block device, which is a modelled drive.
#[test]
fn on_a_disk_in_a_guest_free_space_is_used_and_the_ratio_is_the_models() {
    if !tools::present(&["linux.uml", "sfdisk"]) {
        return;
    }
    let dir = Dir::new("guest");
    crate::tools::copy_program(STRADDLE, dir.join("straddle"));
    let script = "
        export XDG_STATE_HOME=/run/state
        sfdisk -q /dev/vda <<< $'label: gpt\\nstart=2048, size=20480'
        head -c 10M /dev/urandom > /dev/vda1
        before=$(sha256sum < /dev/vda1)
        \"$INPUT/straddle\" bench sequential-write /dev/vda --area 32M --runtime 20 --offsets 0,1 --json
        [ \"$before\" = \"$(sha256sum < /dev/vda1)\" ] || exit 90
        \"$INPUT/straddle\" bench sequential-write /dev/vda1 --runtime 20 --offsets 0,1 >&2 && exit 91
        \"$INPUT/straddle\" bench sequential-write /dev/vda1 --used --runtime 10 --offsets 0,1 --count 4 > /dev/null || exit 92
        [ \"$before\" = \"$(sha256sum < /dev/vda1)\" ] || exit 93
        mkfs.ext4 -q /dev/vda1 && mkdir -p /run/m && mount /dev/vda1 /run/m
        \"$INPUT/straddle\" bench sequential-write /dev/vda1 --used >&2 && exit 94 || [ $? = 4 ]
        \"$INPUT/straddle\" bench sequential-write /dev/vda --used >&2 && exit 95 || [ $? = 4 ]
    ";
    let mut command = Command::new(STRADDLE);
    command.args(["lab", "--drive", "wd10ears", "--input"]).arg(dir.path()).args(["--", script]);
    let output = command.stdin(Stdio::null()).output().unwrap();
    let transcript = text(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{transcript}{}", text(&output.stdout));
    let report: Value =
        serde_json::from_slice(&output.stdout).unwrap_or_else(|e| panic!("{e}: {transcript}"));
    let arm = &report["arms"][1];
    let (low, high) = (arm["ratio_low"].as_f64().unwrap(), arm["ratio_high"].as_f64().unwrap());
    let model = Command::new(STRADDLE)
        .args(["bench", "sequential-write", "drive:wd10ears", "--offsets", "0,1", "--count", "200", "--json"])
        .output()
        .unwrap();
    let model: Value = serde_json::from_slice(&model.stdout).unwrap();
    let ratio = model["arms"][1]["ratio"].as_f64().unwrap();
    assert!((low * 0.95..=high * 1.05).contains(&ratio), "the model says {ratio}, measured {low} to {high}");
    assert!(
        transcript.contains("no unallocated space")
            || transcript.contains("the unallocated space is unknown"),
        "{transcript}"
    );
    assert!(transcript.contains("is mounted at /run/m"), "{transcript}");
}
