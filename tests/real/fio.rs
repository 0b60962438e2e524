//! `straddle bench --emit-fio` and `--import-fio`, with fio itself: what its jobs measure, and whose bytes they leave alone.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use serde_json::Value;

use super::tools::{self, Dir, valid};
use super::{straddle, text};

#[test]
fn fio_runs_the_job_and_its_answer_is_read() {
    if !tools::present(&["fio"]) {
        return;
    }
    let dir = Dir::new("fio");
    let (target, job, answer) = (dir.image("disk.img", 8 << 20), dir.join("run.fio"), dir.join("fio.json"));
    for (workload, more) in [
        ("random-write", &["--sync", "flush"][..]),
        ("sequential-write", &[]),
        ("strided-write", &["--sync", "fua"]),
        ("dd", &["--size", "64K"]),
        ("random-read", &["--queue-depth", "4"]),
        ("sequential-read", &[]),
    ] {
        let _ = fs::remove_file(&job);
        let mut arguments =
            vec!["bench", workload, target.to_str().unwrap(), "--emit-fio", job.to_str().unwrap()];
        arguments.extend(["--io", "buffered", "--offsets", "0,1", "--count", "32"]);
        arguments.extend(more);
        // fio restores nothing.
        if !workload.ends_with("read") {
            let refused = straddle(&arguments, dir.path());
            assert_eq!(refused.status.code(), Some(4), "{workload}: {}", text(&refused.stderr));
            assert!(text(&refused.stderr).contains("--destroy-data"), "{}", text(&refused.stderr));
            arguments.extend(["--destroy-data", target.to_str().unwrap()]);
        }
        let output = straddle(&arguments, dir.path());
        assert!(output.status.success(), "{workload}: {}", text(&output.stderr));
        let mut fio = Command::new("fio");
        fio.arg(&job).args(["--output-format=json+", "--output"]).arg(&answer);
        let ran = fio.stdin(Stdio::null()).output().unwrap();
        assert!(ran.status.success(), "{workload}: {}{}", text(&ran.stdout), text(&ran.stderr));
        let output = straddle(&["bench", "--import-fio", answer.to_str().unwrap(), "--json"], dir.path());
        assert!(output.status.success(), "{workload}: {}", text(&output.stderr));
        let report: Value = serde_json::from_slice(&output.stdout).unwrap();
        valid(&report, "bench");
        let arms = report["arms"].as_array().unwrap();
        assert_eq!(arms.len(), 2, "{workload}");
        assert_eq!(report["workload"]["kind"], workload, "{report}");
        assert!(report["differs"].is_null(), "{report}");
        for (arm, offset) in arms.iter().zip([0, 1]) {
            assert_eq!(
                (arm["offset_sectors"].as_u64(), arm["requests"].as_u64()),
                (Some(offset), Some(32)),
                "{workload}"
            );
            assert!(arm["latency"]["p50_ns"].as_u64().unwrap() > 0, "{workload}");
        }
    }
    fs::write(&answer, "{}").unwrap();
    let output = straddle(&["bench", "--import-fio", answer.to_str().unwrap()], dir.path());
    assert_eq!(output.status.code(), Some(3), "{}", text(&output.stderr));
}

/// Writes a job and returns what was said.
fn emit(dir: &Dir, workload: &str, target: &Path, more: &[&str]) -> Output {
    let job = dir.join("run.fio");
    let _ = fs::remove_file(&job);
    let arguments = ["bench", workload, target.to_str().unwrap(), "--emit-fio", job.to_str().unwrap()];
    let common = ["--io", "buffered", "--offsets", "0,3", "--count", "8"];
    straddle(&[&arguments[..], &common, more].concat(), dir.path())
}

/// Runs fio in another folder. A job may fail.
fn run(dir: &Dir) -> Output {
    let elsewhere = dir.join("elsewhere");
    fs::create_dir_all(&elsewhere).unwrap();
    let mut fio = Command::new("fio");
    fio.arg(dir.join("run.fio")).current_dir(&elsewhere).stdin(Stdio::null()).output().unwrap()
}

fn contents(length: usize) -> Vec<u8> {
    (0..length).map(|at| u8::try_from(at % 251).unwrap()).collect()
}

/// fio makes a file longer that ends before a job does, and writes over what it holds.
#[test]
fn a_job_that_reads_writes_nothing_whatever_became_of_the_file() {
    if !tools::present(&["fio"]) {
        return;
    }
    let dir = Dir::new("fio-reads");
    let target = dir.join("disk.img");
    for workload in ["random-read", "sequential-read"] {
        for (area, then) in [(None, 4 << 20), (Some("4194304"), 4 << 20), (None, 300_000), (None, 1000)] {
            fs::write(&target, contents(4 << 20)).unwrap();
            let area = area.map_or(vec![], |area| vec!["--area", area]);
            let output = emit(&dir, workload, &target, &area);
            assert!(output.status.success(), "{}", text(&output.stderr));
            fs::write(&target, contents(then)).unwrap();
            let ran = run(&dir);
            assert!(ran.status.success() || then < 4 << 20, "{}{}", text(&ran.stdout), text(&ran.stderr));
            assert!(fs::read(&target).unwrap() == contents(then), "{workload}, {area:?}, {then}: written");
        }
    }
    // Nor does it make one.
    fs::write(&target, contents(4 << 20)).unwrap();
    assert!(emit(&dir, "random-read", &target, &[]).status.success());
    fs::remove_file(&target).unwrap();
    assert!(!run(&dir).status.success() && !target.exists());
}

/// What is made later, under a name that was free, is not given up. On a disk's name a file would take its place.
#[test]
fn a_job_is_written_for_what_exists_and_makes_nothing() {
    let dir = Dir::new("fio-missing");
    let (target, link) = (dir.join("disk.img"), dir.join("link"));
    symlink(&target, &link).unwrap();
    let name = target.to_str().unwrap();
    for (path, length) in [(&target, None), (&link, None), (&target, Some(0))] {
        length.iter().for_each(|length| fs::write(&target, contents(*length)).unwrap());
        for (workload, more) in [("random-read", &[][..]), ("dd", &["--destroy-data", name])] {
            let output = emit(&dir, workload, path, more);
            assert!(!output.status.success() && !dir.join("run.fio").exists(), "{path:?}, {length:?}");
            let said = if length.is_some() { "is empty" } else { "truncate" };
            assert!(text(&output.stderr).contains(said), "{}", text(&output.stderr));
        }
    }
    // In /dev, by whatever way it is reached.
    symlink("/dev", dir.join("dev")).unwrap();
    for name in ["/dev/straddle-no-such", "dev/straddle-no-such", "../../../../dev/straddle-no-such"] {
        let output = emit(&dir, "random-write", Path::new(name), &["--destroy-data", name]);
        assert!(!output.status.success() && !dir.join("run.fio").exists(), "{name}");
    }
    if !tools::present(&["fio"]) {
        return;
    }
    fs::write(&target, contents(8 << 20)).unwrap();
    assert!(emit(&dir, "random-write", &target, &["--destroy-data", name]).status.success());
    fs::remove_file(&target).unwrap();
    assert!(!run(&dir).status.success() && !target.exists());
}

/// fio ends a job where its part of the target ends, and then others would not compare.
#[test]
fn each_job_does_the_number_of_requests_that_it_says() {
    if !tools::present(&["fio"]) {
        return;
    }
    let dir = Dir::new("fio-counts");
    let (target, answer) = (dir.image("disk.img", 9 << 20), dir.join("fio.json"));
    let name = target.to_str().unwrap();
    let cases: [(&str, &[&str], u64); 6] = [
        // 8 MiB and a bit behind the last offset; 1 MiB each.
        ("dd", &[], 8),
        ("strided-write", &["--size", "8K", "--stride", "32K"], 288),
        ("strided-write", &["--size", "4K", "--stride", "4K"], 2303),
        ("random-write", &["--count", "3000"], 3000),
        ("random-read", &["--count", "5000", "--area", "2M", "--queue-depth", "3"], 5000),
        ("sequential-write", &["--count", "200"], 200),
    ];
    for (workload, more, count) in cases {
        let _ = fs::remove_file(dir.join("run.fio"));
        let arguments =
            ["bench", workload, name, "--emit-fio", "run.fio", "--io", "buffered", "--offsets", "0,3"];
        let given_up = if workload.ends_with("read") { vec![] } else { vec!["--destroy-data", name] };
        let mut command = Command::new(tools::STRADDLE);
        let emitted =
            command.args(arguments).args(more).args(given_up).current_dir(dir.path()).output().unwrap();
        assert!(emitted.status.success(), "{workload}: {}", text(&emitted.stderr));
        let mut fio = Command::new("fio");
        fio.arg(dir.join("run.fio")).args(["--output-format=json", "--output"]).arg(&answer);
        let ran = fio.stdin(Stdio::null()).output().unwrap();
        assert!(ran.status.success(), "{workload}: {}{}", text(&ran.stdout), text(&ran.stderr));
        let output = straddle(&["bench", "--import-fio", answer.to_str().unwrap(), "--json"], dir.path());
        let report: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(report["workload"]["requests"], count, "{workload} {more:?}: {report}");
        assert!(report["target"]["capacity_bytes"].is_null(), "{report}");
        for arm in report["arms"].as_array().unwrap() {
            assert_eq!(
                (&arm["requests"], &arm["stop"]),
                (&count.into(), &"count".into()),
                "{workload} {more:?}"
            );
        }
    }
    // fio sends no flush of its own for each of several outstanding writes.
    for more in [&["--sync", "flush", "--queue-depth", "2"][..], &["--sync", "flush", "--queue-depth", "32"]]
    {
        let output = emit(&dir, "strided-write", &target, &[more, &["--destroy-data", name]].concat());
        assert_eq!(output.status.code(), Some(2), "{more:?}: {}", text(&output.stderr));
    }
    // More than fits was asked for: bench refuses it as well.
    for more in [&["--count", "10", "--size", "1M"][..], &["--size", "100"]] {
        let output = emit(&dir, "dd", &target, &[more, &["--destroy-data", name]].concat());
        assert_eq!(output.status.code(), Some(2), "{more:?}: {}", text(&output.stderr));
    }
}

/// What cannot be looked at may hold data.
#[test]
fn no_job_is_written_for_a_target_that_cannot_be_looked_at() {
    let dir = Dir::new("fio-hidden");
    let file = dir.join("file");
    fs::write(&file, contents(4096)).unwrap();
    symlink(dir.join("b"), dir.join("a")).unwrap();
    symlink(dir.join("a"), dir.join("b")).unwrap();
    let long = dir.join(&"x".repeat(300));
    for target in [file.join("below"), dir.join("a"), long] {
        for workload in ["random-write", "random-read"] {
            let output = emit(&dir, workload, &target, &["--destroy-data", target.to_str().unwrap()]);
            assert_eq!(output.status.code(), Some(3), "{}: {}", target.display(), text(&output.stderr));
            assert!(!dir.join("run.fio").exists());
        }
    }
}

/// A job may run long after it was written, when a link leads elsewhere, and in another folder.
#[test]
fn a_job_writes_to_what_was_given_up_and_to_nothing_else() {
    if !tools::present(&["fio"]) {
        return;
    }
    let dir = Dir::new("fio-writes");
    let (given, kept, link) = (dir.join("given"), dir.join("kept"), dir.join("link"));
    for length in [5 << 20, (5 << 20) + 100] {
        fs::write(&given, contents(length)).unwrap();
        fs::write(&kept, contents(length)).unwrap();
        let _ = fs::remove_file(&link);
        symlink("given", &link).unwrap();
        let name = link.to_str().unwrap();
        for workload in ["random-write", "sequential-write", "strided-write", "dd"] {
            let output = emit(&dir, workload, &link, &["--size", "4096", "--destroy-data", name]);
            assert!(output.status.success(), "{workload}: {}", text(&output.stderr));
            fs::remove_file(&link).unwrap();
            symlink("kept", &link).unwrap();
            let ran = run(&dir);
            assert!(ran.status.success(), "{workload}: {}{}", text(&ran.stdout), text(&ran.stderr));
            fs::remove_file(&link).unwrap();
            symlink("given", &link).unwrap();
            assert!(fs::read(&kept).unwrap() == contents(length), "{workload}: another file is written");
            let left = fs::read(&given).unwrap();
            assert_eq!(left.len(), length, "{workload}: the file became longer");
            assert!(left != contents(length), "{workload}: nothing was written");
            fs::write(&given, contents(length)).unwrap();
        }
    }
}
