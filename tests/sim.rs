//! `straddle sim`: traces replayed on modelled drives, from the command line.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use crate::tools;

use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;

use tempfile::TempDir;
use tools::{json, straddle};

fn file(dir: &TempDir, name: &str, text: &str) -> String {
    let path: PathBuf = dir.path().join(name);
    fs::write(&path, text).unwrap();
    path.to_str().unwrap().to_owned()
}

/// Aligned 4 KiB writes, far apart and slow enough for a disk, with a read and a flush among them.
fn trace(requests: u64) -> String {
    let mut text = "time_ms,host,op,offset,length\n".to_owned();
    for index in 0..requests {
        let offset = (index * 7_919 % 100_000) * 4096;
        let op = if index % 10 == 9 { "R" } else { "W" };
        writeln!(text, "{}.5,a,{op},{offset},4096", index * 40).unwrap();
    }
    writeln!(text, "{}.5,a,F,,", requests * 40).unwrap();
    text
}

#[test]
fn a_shift_makes_requests_misaligned_and_costs_time() {
    let dir = TempDir::new().unwrap();
    let trace = file(&dir, "web.csv", &trace(500));
    let report = json("sim", &["sim", &trace, "--drive", "wd20ears", "--compare", "--json"]);
    let (first, second) = (&report["runs"][0], &report["runs"][1]);
    assert_eq!((first["shift_bytes"].as_u64(), second["shift_bytes"].as_u64()), (Some(0), Some(512)));
    assert_eq!((&first["misaligned_requests"], &second["misaligned_requests"]), (&0.into(), &500.into()));
    assert_eq!(first["requests"], 501);
    assert_eq!((&first["writes"]["requests"], &first["reads"]["requests"]), (&450.into(), &50.into()));
    assert_eq!(first["flushes"]["requests"], 1);
    assert_eq!((&first["pace"], &first["queue_depth"]), (&"open".into(), &32.into()));
    assert_eq!(first["counters"]["rmw_reads"], 0);
    assert!(second["counters"]["rmw_reads"].as_u64().unwrap() >= 800, "{second}");
    assert!(second["ratio"].as_f64().unwrap() > 2.0, "{second}");
    assert!(first["elapsed_ns"].as_u64().unwrap() >= 500 * 40_000_000, "at the trace's times");
    let placed = json("sim", &["sim", &trace, "--drive", "WD20EARS", "--started-at", "1s", "--json"]);
    assert_eq!(placed["runs"][0]["writes"], second["writes"], "sector 1 is a shift of 512 bytes");
}

#[test]
fn the_same_text_twice_and_no_wider_than_it_must() {
    let dir = TempDir::new().unwrap();
    let trace = file(&dir, "web.csv", &trace(200));
    let arguments = ["sim", &trace, "--drive", "drive:wd10ears", "--shift", "0,512,1024"];
    let run = straddle(&arguments);
    assert_eq!((run.code, run.err.as_str()), (0, ""));
    assert!(tools::flat(&run.out).contains("modelled, virtual"), "{}", run.out);
    assert!(run.out.starts_with("With shift 512, requests take "), "{}", run.out);
    assert!(run.out.contains("100.0 %"), "{}", run.out);
    assert_eq!(run.out, straddle(&arguments).out);
}

#[test]
fn back_to_back_is_quicker_than_the_traces_own_times() {
    let dir = TempDir::new().unwrap();
    let trace = file(&dir, "web.csv", &trace(300));
    let elapsed = |options: &[&str]| {
        let mut arguments = vec!["sim", &trace, "--drive", "wd10ears", "--json"];
        arguments.extend(options);
        json("sim", &arguments)["runs"][0]["elapsed_ns"].as_u64().unwrap()
    };
    let (open, closed) = (elapsed(&[]), elapsed(&["--closed-loop"]));
    assert!(closed < open / 2, "{closed} {open}");
    assert!(elapsed(&["--closed-loop", "--queue-depth", "16"]) <= closed);
}

#[test]
fn what_is_wrong_with_a_trace_is_reported_with_its_line() {
    let dir = TempDir::new().unwrap();
    let header = "time,op,offset,length\n";
    for (name, text, says) in [
        ("format.csv", "1,R,0,4096\n".to_owned(), "format.csv:1 (byte 0): unknown trace format"),
        (
            "column.csv",
            "time,op,offset\n0,R,0\n".to_owned(),
            "column.csv:1 (byte 0): there is no column \"length\"",
        ),
        ("op.csv", format!("{header}\n# a comment\n0,X,0,512\n"), "op.csv:4 (byte 35): op = \"X\""),
        (
            "end.csv",
            format!("{header}0,R,9999999999999488,512\n"),
            "end.csv:2: byte 9999999999999488, length 512: the request extends past the end",
        ),
    ] {
        let trace = file(&dir, name, &text);
        let run = straddle(&["sim", &trace, "--drive", "wd10ears"]);
        assert_eq!((run.code, run.out.as_str()), (3, ""), "{name}");
        assert!(run.err.contains(says), "{name}: {}", run.err);
    }
}

/// Recorded requests are not always in order, and those of file systems and clouds not always whole sectors:
/// `sim` counts
/// them as `trace` does.
#[test]
fn what_a_drive_would_not_get_so_is_replayed_as_a_host_would_send_it() {
    let dir = TempDir::new().unwrap();
    let text = "time_ms,op,offset,length\n20,W,100,512\n10,W,4096,4000\n5,D,0,4096\n30,W,8192,4096\n";
    let trace = file(&dir, "odd.csv", text);
    let report = json("sim", &["sim", &trace, "--drive", "wd10ears", "--json"]);
    let run = &report["runs"][0];
    for (name, expected) in [
        ("requests", 4),
        ("late_requests", 2),
        ("off_sector_requests", 2),
        ("ignored_discards", 1),
        ("discards", 1),
        ("misaligned_requests", 1),
        ("bytes", 1024 + 4096 + 4096),
    ] {
        assert_eq!(run[name], expected, "{name}: {run}");
    }
    let counted = json("trace", &["trace", &trace, "--unit", "4KiB", "--json"]);
    assert_eq!(counted["total"]["writes"]["off_sector_requests"], 2, "{counted}");
    let text = straddle(&["sim", &trace, "--drive", "wd10ears"]).out;
    for says in [
        "2 requests: out of chronological order",
        "2 requests: extended to whole 512-byte sectors",
        "1 discard: skipped",
    ] {
        assert!(text.contains(says), "{says}: {text}");
    }
    // Nothing waits for a time in the closed loop.
    let report = json("sim", &["sim", &trace, "--drive", "wd10ears", "--closed-loop", "--json"]);
    assert_eq!(report["runs"][0]["late_requests"], 0);
    // A drive whose logical sectors are larger takes no part of one, and a host could not ask for it.
    let sector = file(&dir, "sector.csv", "time,op,offset,length\n0,R,512,512\n");
    let run = straddle(&["sim", &sector, "--drive", "nearline-4kn-7200"]);
    assert_eq!((run.code, run.out.as_str()), (3, ""));
    assert!(
        run.err.contains("sector.csv:2: byte 512, length 512: the request is not aligned to the"),
        "{}",
        run.err
    );
}

#[test]
fn requests_past_the_end_wrap_with_their_alignment() {
    let dir = TempDir::new().unwrap();
    let trace =
        file(&dir, "far.csv", "time,op,offset,length\n0,W,4000000000512,4096\n1,W,4000000004096,4096\n");
    let report = json("sim", &["sim", &trace, "--drive", "wd10ears", "--wrap", "--json"]);
    assert_eq!(
        (&report["runs"][0]["wrapped_requests"], &report["runs"][0]["misaligned_requests"]),
        (&2.into(), &1.into())
    );
}

#[test]
fn mistakes_on_the_command_line_are_usage_errors() {
    let dir = TempDir::new().unwrap();
    let trace = file(&dir, "web.csv", &trace(2));
    for arguments in [
        &["sim", &trace][..],
        &["sim", &trace, "--drive", "no-such-drive"],
        &["sim", &trace, "--drive", "wd10ears", "--shift", "100"],
        &["sim", &trace, "--drive", "wd10ears", "--queue-depth", "0"],
        &["sim", &trace, "--drive", "wd10ears", "--format", "vscsi"],
    ] {
        let run = straddle(arguments);
        assert_eq!((run.code, run.out.as_str()), (2, ""), "{arguments:?}: {}", run.err);
    }
    assert_eq!(straddle(&["sim", "/no/such.csv", "--drive", "wd10ears"]).code, 3);
}

#[test]
fn an_empty_trace_is_no_error() {
    let dir = TempDir::new().unwrap();
    let trace = file(&dir, "empty.csv", "time,op,offset,length\n");
    let report = json("sim", &["sim", &trace, "--drive", "wd10ears", "--compare", "--json"]);
    assert_eq!((&report["runs"][0]["requests"], &report["runs"][1]["ratio"]), (&0.into(), &1.0.into()));
}

/// 4 KiB writes, far apart, one every `every` milliseconds.
fn steady(requests: u64, every: u64) -> String {
    let mut text = "time_ms,op,offset,length\n".to_owned();
    for index in 0..requests {
        writeln!(text, "{},W,{},4096", index * every, (index * 7_919 % 100_000) * 4096).unwrap();
    }
    text
}

/// The comparison of two shifts does not depend on the length of the trace, whether or not the drive keeps
/// up.
#[test]
fn a_comparison_is_not_a_matter_of_the_traces_length() {
    let dir = TempDir::new().unwrap();
    for (every, diverge) in [(40, [false, false]), (7, [false, true]), (1, [true, true])] {
        let mut ratios: Vec<f64> = Vec::new();
        for requests in [1000, 4000] {
            let trace = file(&dir, "steady.csv", &steady(requests, every));
            let arguments = ["sim", &trace, "--drive", "wd10ears", "--compare"];
            let report = json("sim", &[&arguments[..], &["--json"]].concat());
            let found = [0, 1].map(|run| report["runs"][run]["diverges"].as_bool().unwrap());
            assert_eq!(found, diverge, "every {every} ms: {report}");
            let text = straddle(&arguments).out.split_whitespace().collect::<Vec<_>>().join(" ");
            assert_eq!(
                text.matches("cannot keep up").count(),
                diverge.iter().filter(|it| **it).count(),
                "{text}"
            );
            let (_, ratio) = text.rsplit_once(" takes ").or_else(|| text.rsplit_once(" take ")).unwrap();
            ratios.push(ratio.split(' ').next().unwrap().trim_end_matches("times").parse().unwrap());
        }
        assert!((ratios[1] / ratios[0] - 1.0).abs() < 0.1, "every {every} ms: {ratios:?}");
    }
}
