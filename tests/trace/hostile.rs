//! Small files that unpack to large ones, and tables that say so of themselves.

use std::fs;
use std::process::Command;

use tempfile::TempDir;

use super::tools::skip::{cases, is_sampled};
use super::tools::{STRADDLE, json, output, present, root, shell, straddle, text};

/// Address space for a run, in KiB: that of a program with threads, and some hundred MiB.
const LIMIT: &str = "1500000";

/// Runs the program with little memory; returns its status and what it complained of.
fn limited(dir: &TempDir, file: &str) -> (Option<i32>, String) {
    limited_with(dir, &["trace", file])
}

fn limited_with(dir: &TempDir, args: &[&str]) -> (Option<i32>, String) {
    let line = format!("ulimit -v {LIMIT}; exec \"$0\" \"$@\"");
    let mut command = Command::new("sh");
    let run = output(command.args(["-c", &line, STRADDLE]).args(args).current_dir(dir.path()), "");
    (run.status.code(), text(&run.stderr))
}

#[test]
fn a_bomb_takes_no_more_memory_than_any_trace() {
    if !present(&["gzip", "zstd", "xz"]) {
        return;
    }
    let dir = TempDir::new().unwrap();
    let made = |line: &str| shell(line, dir.path());
    // Two GiB without a line break are a line that is too long; as lines they are a trace.
    for (program, name) in cases([("zstd -q -1", "zeros.zst"), ("gzip -1", "zeros.gz")].into_iter(), 2) {
        made(&format!("head -c 2000000000 /dev/zero | {program} -c > {name}"));
        let (code, error) = limited(&dir, name);
        assert_eq!(code, Some(3), "{name}: {error}");
        assert!(error.contains(":1 (byte 0): the line is longer than 65536 bytes"), "{name}: {error}");
    }
    let length = if is_sampled() { 36_000_000 } else { 360_000_000 };
    made(&format!("yes 1,W,0,512,1 | head -c {length} | gzip -1 -c > lines.gz"));
    assert_eq!(limited(&dir, "lines.gz").0, Some(0));
    // A window of 2 GiB is more than any level of zstd takes without being asked.
    made("head -c 300000000 /dev/zero | zstd -q -1 --long=28 -c > window.zst");
    let (code, error) = limited(&dir, "window.zst");
    assert!(code == Some(3) && error.contains("window.zst: cannot read the trace"), "{error}");
}

/// Tables that the library panics on, or that do not have what they say, and how the error says it.
const DAMAGED: [(&str, &str); 4] = [
    ("no-dictionary", "the file is damaged: "),
    ("long-number", "the file is damaged: "),
    ("short-page", ""),
    ("five-rows", ""),
];

fn table(name: &str) -> String {
    root().join(format!("tests/trace/parquet/{name}.parquet")).to_str().unwrap().to_owned()
}

#[test]
fn a_damaged_table_is_an_error_however_it_is_read() {
    let dir = TempDir::new().unwrap();
    for (name, why) in DAMAGED {
        let file = table(name);
        let ways: [&[&str]; 4] = [
            &["trace", &file],
            &["trace", &file, "--merge-within", "1ms", "--columns", "time=offset:ns"],
            &["trace", &file, "--to", "csv", "out.csv", "--columns", "time=offset:ns"],
            &["sim", &file, "--drive", "wd10ears", "--columns", "time=offset:ns"],
        ];
        for args in ways {
            let (code, error) = limited_with(&dir, args);
            assert_eq!(code, Some(3), "{args:?}: {error}");
            assert!(error.contains(&format!("{file}: cannot read the Parquet file: ")), "{args:?}: {error}");
            assert!(error.contains(why) && !error.contains("panicked"), "{args:?}: {error}");
        }
    }
}

#[test]
fn tables_without_rows_are_read() {
    // pyarrow's give their columns no place; a row group among others has none.
    for (name, requests) in [("empty-pyarrow", 0), ("empty-groups", 1)] {
        let report = json("trace", &["trace", &table(name), "--json"]);
        let total = &report["total"];
        let found = ["reads", "writes"].map(|kind| total[kind]["requests"].as_u64().unwrap_or(0));
        assert_eq!(found.iter().sum::<u64>(), requests, "{name}: {total}");
    }
}

#[test]
fn two_columns_for_one_quantity_are_refused() {
    let dir = TempDir::new().unwrap();
    let csv = dir.path().join("a.csv");
    fs::write(&csv, "time_us,op,offset,length,volume\n1,W,0,4096,a\n").unwrap();
    let made = dir.path().join("a.parquet");
    let made = made.to_str().unwrap();
    assert_eq!(straddle(&["trace", csv.to_str().unwrap(), "--to", "parquet", made]).code, 0);
    // Another column of the same length takes the name of one: "length" becomes "device", and so on.
    let good = fs::read(made).unwrap();
    let name = |from: &[u8], to: &[u8]| {
        let mut bytes = good.clone();
        for at in 0..bytes.len() - from.len() {
            if bytes[at..].starts_with(from) {
                bytes[at..at + from.len()].copy_from_slice(to);
            }
        }
        fs::write(dir.path().join("two.parquet"), bytes).unwrap();
        limited_with(&dir, &["trace", "two.parquet", "--columns", "length=offset"])
    };
    let (code, error) = name(b"length", b"device");
    assert!(code == Some(3) && error.contains("two columns match \"volume\""), "{error}");
}
