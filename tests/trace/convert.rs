//! `trace --to`: the same requests in another format.

use std::fmt::Write as _;
use std::fs;
use std::process::Command;

use serde_json::Value;
use straddle_units::io::SplitMix64;
use tempfile::TempDir;

use super::tools::{json, present, straddle};

/// Returns a trace of random requests of all kinds, with times as large as those of 1601.
fn trace(seed: u64, count: u64) -> String {
    let mut random = SplitMix64::new(seed);
    let mut lines = "time_ns,volume,op,offset,length\n".to_owned();
    let mut time = 12_816_637_200_306_162_900_u64;
    for _ in 0..count {
        time += random.below(1_000_000);
        let volume = ["", "7", "web:1", "\"8,0\"", "12345678-1234-1234-1234-123456789abc"][random.index(5)];
        let op = ["R", "W", "WF", "D", "F"][random.index(5)];
        let (offset, length) = match op {
            "F" => (0, 0),
            _ => (random.below(1 << 40), random.below(1 << 20)),
        };
        writeln!(lines, "{time},{volume},{op},{offset},{length}").unwrap();
    }
    lines
}

fn file(dir: &TempDir, name: &str, contents: &str) -> String {
    let path = dir.path().join(name).to_str().unwrap().to_owned();
    fs::write(&path, contents).unwrap();
    path
}

fn converted(from: &str, format: &str, to: &str) -> String {
    let run = straddle(&["trace", from, "--to", format, to]);
    assert_eq!(run.code, 0, "{}", run.err);
    run.err
}

fn figures(path: &str) -> Value {
    let report = json("trace", &["trace", path, "--json", "--best", "--merge-within", "3ms"]);
    Value::Array(["total", "volumes", "span_ns", "late_requests"].map(|key| report[key].clone()).to_vec())
}

#[test]
fn to_parquet_and_back_is_the_same_text() {
    let dir = TempDir::new().unwrap();
    let text = trace(21, 70_000);
    let first = file(&dir, "first.csv", &text);
    let (table, second) = (file(&dir, "table", ""), file(&dir, "second.csv", ""));
    assert_eq!(converted(&first, "parquet", &table), "");
    assert_eq!(converted(&table, "csv", &second), "");
    assert!(fs::read_to_string(&second).unwrap() == text, "seed 21");
    assert_eq!(figures(&first), figures(&table));
    // Counted without its times, it has the same figures but for them.
    let plain = |path: &str| json("trace", &["trace", path, "--json", "--best"]);
    let (one, other) = (plain(&first), plain(&table));
    assert_eq!((&one["total"], &one["volumes"]), (&other["total"], &other["volumes"]));
    assert!(one["span_ns"].is_u64() && other["span_ns"].is_null());
    // What is there is replaced, but for the trace itself.
    fs::write(&table, "anything").unwrap();
    assert_eq!(converted(&first, "parquet", &table), "");
    assert_eq!(plain(&table)["total"], other["total"]);
    assert_eq!(straddle(&["trace", &first, "--to", "csv", &first]).code, 4, "the trace itself");
}

#[test]
fn fios_log_has_what_it_can_hold_and_the_rest_is_said() {
    let dir = TempDir::new().unwrap();
    let text = trace(22, 500).replace("\"8,0\"", "8");
    let from = file(&dir, "from.csv", &text);
    let log = file(&dir, "log", "");
    let said = converted(&from, "fio", &log);
    assert!(said.contains("fio cannot store the times of "), "{said}");
    assert!(
        said.contains("fio cannot store whether ") && said.contains("writes went through the cache"),
        "{said}"
    );
    let report = |path: &str| json("trace", &["trace", path, "--json"]);
    let (one, other) = (report(&from), report(&log));
    assert_eq!(one["total"], other["total"]);
    assert_eq!(other["files"][0]["format"], "iolog");
    let back = file(&dir, "back.csv", "time,op,offset,length\n2,R,0,512\n1,R,0,512\n");
    assert_eq!(straddle(&["trace", &from, "--to", "iolog", &log]).code, 0, "the word of fio");
    assert_eq!(report(&log)["total"], one["total"]);
    let log = file(&dir, "third.log", "");
    let run = straddle(&["trace", &back, "--to", "fio", &log]);
    assert_eq!(run.code, 3);
    assert!(run.err.contains("request 2 is earlier than the one before it"), "{}", run.err);
    let blank = file(&dir, "blank.csv", "time,volume,op,offset,length\n2,a b,R,0,512\n");
    let run = straddle(&["trace", &blank, "--to", "fio", &log]);
    assert!(
        run.code == 3 && run.err.contains("\"a b\" cannot be written: fio's log separates"),
        "{}",
        run.err
    );
}

#[test]
fn fio_replays_the_log() {
    if !present(&["fio"]) {
        return;
    }
    let dir = TempDir::new().unwrap();
    let mut random = SplitMix64::new(23);
    let mut lines = "time_us,op,offset,length\n".to_owned();
    let (mut counts, mut bytes) = ([0_u64; 2], [0_u64; 2]);
    for index in 0..200 {
        let is_write = usize::from(random.once_in(2));
        let (offset, length) = (random.below(1000) * 4096, (1 + random.below(4)) * 4096);
        counts[is_write] += 1;
        bytes[is_write] += length;
        writeln!(lines, "{},{},{offset},{length}", index * 10, ["R", "W"][is_write]).unwrap();
    }
    let from = file(&dir, "from.csv", &lines);
    let log = dir.path().join("log").to_str().unwrap().to_owned();
    converted(&from, "fio", &log);
    let disk = dir.path().join("disk");
    fs::File::create(&disk).unwrap().set_len(8 << 20).unwrap();
    let run = Command::new("fio")
        .args(["--name=replay", "--ioengine=psync", "--output-format=json", "--replay_no_stall=1"])
        .arg(format!("--read_iolog={log}"))
        .arg(format!("--replay_redirect={}", disk.display()))
        .current_dir(dir.path())
        .output()
        .unwrap();
    assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
    let out = String::from_utf8_lossy(&run.stdout);
    let report: Value = serde_json::from_str(&out[out.find('{').unwrap()..]).unwrap();
    let job = &report["jobs"][0];
    for (kind, name) in ["read", "write"].iter().enumerate() {
        assert_eq!(
            (&job[name]["total_ios"], &job[name]["io_bytes"]),
            (&counts[kind].into(), &bytes[kind].into())
        );
    }
}
