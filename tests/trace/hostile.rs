//! Small files that unpack to large ones, and tables that say so of themselves.

use std::fs;
use std::process::Command;

use tempfile::TempDir;

use super::tools::skip::{cases, is_quick};
use super::tools::{STRADDLE, output, present, shell, straddle, text};

/// Address space for a run, in KiB: that of a program with threads, and some hundred MiB.
const LIMIT: &str = "1500000";

/// Runs the program with little memory; returns its status and what it complained of.
fn limited(dir: &TempDir, file: &str) -> (Option<i32>, String) {
    let line = format!("ulimit -v {LIMIT}; exec \"$0\" trace \"$1\"");
    let mut command = Command::new("sh");
    let run = output(command.args(["-c", &line, STRADDLE, file]).current_dir(dir.path()), "");
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
        assert!(error.contains(":1 (byte 0): longer than 65536 bytes"), "{name}: {error}");
    }
    let length = if is_quick() { 36_000_000 } else { 360_000_000 };
    made(&format!("yes 1,W,0,512,1 | head -c {length} | gzip -1 -c > lines.gz"));
    assert_eq!(limited(&dir, "lines.gz").0, Some(0));
    // A window of 2 GiB is more than any level of zstd takes without being asked.
    made("head -c 300000000 /dev/zero | zstd -q -1 --long=28 -c > window.zst");
    let (code, error) = limited(&dir, "window.zst");
    assert!(code == Some(3) && error.contains("window.zst: cannot read the trace"), "{error}");
}

#[test]
fn a_page_that_says_it_is_huge_is_not_unpacked() {
    let dir = TempDir::new().unwrap();
    let csv = dir.path().join("a.csv");
    let rows: String = (0..2000).map(|at| format!("{at},W,{},4096\n", at * 4096)).collect();
    fs::write(&csv, format!("time_us,op,offset,length\n{rows}")).unwrap();
    let table = dir.path().join("a.parquet");
    let paths = [csv.to_str().unwrap(), table.to_str().unwrap()];
    assert_eq!(straddle(&["trace", paths[0], "--to", "parquet", paths[1]]).code, 0);
    let good = fs::read(&table).unwrap();
    // Each byte of the file is damaged in turn. No page is larger than the file says, and none is taken at its word.
    let step = (good.len() / 400).max(1);
    for at in cases((4..good.len()).step_by(step), 5) {
        for value in [0xff, good[at] ^ 0x40] {
            let mut bad = good.clone();
            bad[at] = value;
            fs::write(dir.path().join("bad.parquet"), &bad).unwrap();
            let (code, error) = limited(&dir, "bad.parquet");
            assert!(matches!(code, Some(0 | 3)), "byte {at} is {value:#x}: {code:?}: {error}");
            assert!(!error.contains("panicked"), "byte {at} is {value:#x}: {error}");
        }
    }
    // PageHeader's second field, the size of the page when it is unpacked, as a zigzag number of five bytes: 2^31 - 2.
    let page = good.windows(4).position(|bytes| bytes[0] == 0x15 && bytes[2] == 0x15).unwrap();
    let length = good[page + 3..].iter().position(|byte| byte & 0x80 == 0).unwrap() + 1;
    let huge = [&good[..page + 3], &[0xfc, 0xff, 0xff, 0xff, 0x0f], &good[page + 3 + length..]].concat();
    fs::write(dir.path().join("huge.parquet"), huge).unwrap();
    let (code, error) = limited(&dir, "huge.parquet");
    assert_eq!(code, Some(3), "{error}");
}
