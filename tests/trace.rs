//! `straddle trace`: what the requests of traces do to sectors and units, from the command line.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "trace/binary.rs"]
mod binary;
#[path = "trace/convert.rs"]
mod convert;
#[path = "trace/hostile.rs"]
mod hostile;
#[path = "trace/judges.rs"]
mod judges;
#[path = "trace/recorded.rs"]
mod recorded;
#[path = "tools/server.rs"]
mod server;
#[path = "trace/shown.rs"]
mod shown;
use crate::tools;

use std::fs;
use std::io::Write as _;
use std::process::{Command, Stdio};

use serde_json::Value;
use straddle_units::io::SplitMix64;
use tempfile::TempDir;
use tools::{STRADDLE, json, present, straddle, text};

/// Requests in the order of their times: whether it is a write, the first sector, the number of sectors.
const REQUESTS: [(bool, u64, u64); 5] =
    [(true, 63, 8), (true, 64, 8), (false, 128, 1), (true, 2055, 2048), (true, 71, 1)];

/// A format, the lines before the first request, and a line for each.
type Written = (&'static str, &'static str, fn(usize, (bool, u64, u64)) -> String);

const FORMATS: [Written; 8] = [
    ("csv", "time_ms,volume,op,offset,length\n", |at, (w, first, n)| {
        format!("{at},v,{},{},{}", letter(w), first * 512, n * 512)
    }),
    ("msr", "", |at, (w, first, n)| {
        let kind = if w { "Write" } else { "Read" };
        format!("{},hm,1,{kind},{},{},1331", 128_166_372_003_061_629 + at, first * 512, n * 512)
    }),
    ("alibaba", "", |at, (w, first, n)| format!("419,{},{},{},{}", letter(w), first * 512, n * 512, 7 + at)),
    ("tencent", "", |at, (w, first, n)| format!("{},{first},{n},{},1063", 1_538_323_200 + at, u8::from(w))),
    ("systor", "Timestamp,Response,IOType,LUN,Offset,Size\n", |at, (w, first, n)| {
        format!("{at}.084041,,{},2,{},{}", letter(w), first * 512, n * 512)
    }),
    ("fiu", "", |at, (w, first, n)| {
        format!("{at} 4253 kjournald {first} {n} {} 6 0 0c06e6a31e8ec4bb", letter(w))
    }),
    ("blkparse", "  8,16   1   1  0.000000000   697  Q  WS 9 + 9 [a]\n", |at, (w, first, n)| {
        format!("  8,16   1   1  {at}.000000001   697  D  {}S {first} + {n} [a]", letter(w))
    }),
    ("iolog", "fio version 3 iolog\n0 /dev/sdb add\n0 /dev/sdb open\n", |at, (w, first, n)| {
        format!("{at} /dev/sdb {} {} {}", if w { "write" } else { "read" }, first * 512, n * 512)
    }),
];

fn letter(is_write: bool) -> char {
    if is_write { 'W' } else { 'R' }
}

fn written(dir: &TempDir, (name, header, line): Written) -> String {
    let lines: Vec<String> = REQUESTS.iter().enumerate().map(|(at, request)| line(at, *request)).collect();
    let path = dir.path().join(format!("{name}.trace"));
    fs::write(&path, format!("{header}{}\n", lines.join("\n"))).unwrap();
    path.to_str().unwrap().to_owned()
}

fn unit(report: &Value, bytes: u64) -> Value {
    let units = report["total"]["writes"]["units"].as_array().unwrap();
    units.iter().find(|unit| unit["unit_bytes"] == bytes).unwrap().clone()
}

#[test]
fn the_same_requests_in_each_format_give_the_same_figures() {
    let dir = TempDir::new().unwrap();
    for format in FORMATS {
        let trace = written(&dir, format);
        let report = json("trace", &["trace", &trace, "--best", "--json"]);
        let name = format.0;
        assert_eq!(report["files"][0]["format"], name);
        let (reads, writes) = (&report["total"]["reads"], &report["total"]["writes"]);
        assert_eq!((&reads["requests"], &reads["bytes"]), (&1.into(), &512.into()), "{name}");
        assert_eq!((&writes["requests"], &writes["bytes"]), (&4.into(), &(2065 * 512).into()), "{name}");
        // At sector 63 it takes two of 4 KiB, at 64 one, at 2055 257, and the one sector one.
        let four = unit(&report, 4096);
        assert_eq!((&four["touched_units"], &four["partial_units"]), (&261.into(), &5.into()), "{name}");
        assert_eq!((&four["misaligned_requests"], &four["straddling_requests"]), (&3.into(), &2.into()));
        // One sector later: one of 4 KiB, two, 256, and one.
        assert_eq!(four["best"]["started_at_sectors"], 1, "{name}");
        assert_eq!(
            (&four["best"]["touched_units"], &four["best"]["partial_units"]),
            (&260.into(), &3.into())
        );
    }
}

#[test]
fn figures_are_those_of_a_loop_over_sectors_for_any_start() {
    let dir = TempDir::new().unwrap();
    let mut random = SplitMix64::new(7);
    let mut request = || {
        let longest = if random.once_in(9) { 9000 } else { 40 };
        (random.below(1 << 30), 1 + random.below(longest))
    };
    let requests: Vec<(u64, u64)> = (0..300).map(|_| request()).collect();
    let lines = requests.iter().map(|(first, n)| format!("1,W,{},{},5\n", first * 512, n * 512));
    let path = dir.path().join("a.csv");
    fs::write(&path, lines.collect::<String>()).unwrap();
    for start in [0, 1, 63, 34, 2048, 16_065] {
        let place = format!("{start}s");
        let arguments =
            ["trace", path.to_str().unwrap(), "--started-at", &place, "--unit", "4KiB,64KiB,1MiB", "--json"];
        let report = json("trace", &arguments);
        for sectors in [8, 128, 2048] {
            let (mut touched, mut partial) = (0_u64, 0_u64);
            for (first, n) in &requests {
                let (first, end) = (first + start, first + start + n);
                for unit in first / sectors..end.div_ceil(sectors) {
                    touched += 1;
                    partial += u64::from(unit * sectors < first || (unit + 1) * sectors > end);
                }
            }
            let found = unit(&report, sectors * 512);
            assert_eq!(
                (&found["touched_units"], &found["partial_units"]),
                (&touched.into(), &partial.into())
            );
        }
    }
}

#[test]
fn packed_and_plain_from_a_file_and_a_pipe_are_the_same() {
    let dir = TempDir::new().unwrap();
    let trace = written(&dir, FORMATS[2]);
    let plain = straddle(&["trace", &trace]);
    assert_eq!((plain.code, plain.err.as_str()), (0, ""));
    // Without the file's name, which ends the first paragraph.
    let figures = |out: &str| out.split_once("\n\n").unwrap().1.to_owned();
    for program in ["gzip", "zstd", "xz"] {
        if !present(&[program]) {
            continue;
        }
        let packed = format!("{trace}.{program}");
        let output = fs::File::create(&packed).unwrap();
        let run =
            Command::new(program).args(["-q", "-c", &trace]).stdout(output).stdin(Stdio::null()).status();
        assert!(run.unwrap().success(), "{program}");
        assert_eq!(figures(&straddle(&["trace", &packed]).out), figures(&plain.out), "{program}");
        let input = fs::File::open(&packed).unwrap();
        let piped = Command::new(STRADDLE).args(["trace", "-"]).stdin(input).output().unwrap();
        assert_eq!(figures(&text(&piped.stdout)), figures(&plain.out), "{program}");
        // Packed files one behind the other are one; a cut one is an error.
        let once = fs::read(&packed).unwrap();
        fs::write(&packed, [once.as_slice(), &once].concat()).unwrap();
        let twice = json("trace", &["trace", &packed, "--json"]);
        assert_eq!(twice["total"]["writes"]["requests"], 8, "{program}");
        fs::write(&packed, &once[..once.len() / 2]).unwrap();
        let cut = straddle(&["trace", &packed]);
        assert_eq!((cut.code, cut.out.as_str()), (3, ""), "{program}: {}", cut.err);
        let says = format!("{packed}: cannot read the trace from byte ");
        assert!(cut.err.contains(&says), "{program}: {}", cut.err);
    }
}

#[test]
fn volumes_in_several_files_are_the_same_volumes_in_any_order() {
    let dir = TempDir::new().unwrap();
    let trace = written(&dir, FORMATS[2]);
    let other = dir.path().join("other.csv");
    fs::write(&other, "419,W,0,4096,1\n7,W,512,4096,2\n").unwrap();
    let other = other.to_str().unwrap();
    let report = json("trace", &["trace", &trace, other, "--json"]);
    assert_eq!(report["volumes"].as_array().unwrap().len(), 2);
    assert_eq!(
        (&report["volumes"][0]["name"], &report["volumes"][0]["writes"]["requests"]),
        (&"419".into(), &5.into())
    );
    let swapped = json("trace", &["trace", other, &trace, "--json"]);
    assert_eq!((&report["volumes"], &report["total"]), (&swapped["volumes"], &swapped["total"]));
    let run = straddle(&["trace", &trace, other]);
    assert!(
        run.out.contains("If volume 419 started") || run.out.contains("If volume 7 started"),
        "{}",
        run.out
    );
}

#[test]
fn what_cannot_be_read_is_named_with_its_line() {
    let dir = TempDir::new().unwrap();
    let file = |name: &str, text: &[u8]| {
        let path = dir.path().join(name);
        fs::File::create(&path).unwrap().write_all(text).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let wrong = file("wrong.csv", b"1,W,0,4096,5\n1,W,x,4096,5\n");
    let unknown = file("unknown.csv", b"hello world\n");
    let far = file("far.csv", b"1,W,18446744073709551615,512,5\n");
    let torn = file("torn.gz", b"\x1f\x8b\x08\x00garbage");
    let missing = dir.path().join("none").to_str().unwrap().to_owned();
    for (arguments, message, code) in [
        (vec!["trace", &wrong], "wrong.csv:2 (byte 13): offset = \"x\"", 3),
        (vec!["trace", &unknown], "unknown.csv:1 (byte 0): unknown trace format", 3),
        (vec!["trace", &far], "far.csv:1 (byte 0): byte 18446744073709551615", 3),
        (vec!["trace", &wrong, "--columns", "speed=1"], "unknown quantity \"speed\"", 2),
        (vec!["trace", &wrong, "--columns", "op=kind"], "there is no column \"kind\"", 3),
        (vec!["trace", &wrong, "--merge-within", "2h"], "must be a time of at most an hour", 2),
        (vec!["trace", &wrong, "--csv", "--json"], "cannot be used with", 2),
        (
            vec!["trace", &wrong, "--to", "xls", "x"],
            "unknown format xls; the formats are parquet, csv, fio",
            2,
        ),
        (vec!["trace", &torn], "torn.gz: cannot read the trace", 3),
        (vec!["trace", &missing], "No such file", 3),
        (vec!["trace", &wrong, "--unit", "5000"], "must be a power of two from 512 bytes to 1MiB", 2),
        (vec!["trace", &wrong, "--started-at", "100"], "--started-at 100 is not a multiple of 512 bytes", 2),
        (vec!["trace"], "required", 2),
    ] {
        let run = straddle(&arguments);
        assert_eq!((run.code, run.out.as_str()), (code, ""), "{arguments:?}: {}", run.err);
        assert!(run.err.contains(message), "{arguments:?}: {}", run.err);
    }
    // Of a trace in this program's own format the times are read with all others.
    let timed = file("timed.csv", b"time_ns,volume,op,offset,length\n5,,R,0,512\n5000000005,,R,0,512\n");
    assert_eq!(json("trace", &["trace", &timed, "--json"])["span_ns"], 5_000_000_000_u64);
    let empty = file("empty.csv", b"");
    assert_eq!(straddle(&["trace", &empty]).code, 0);
}
