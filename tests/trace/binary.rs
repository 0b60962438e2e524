//! blktrace's files, beside blkparse and btt on the same ones.

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::Value;
use straddle_units::io::SplitMix64;
use tempfile::TempDir;

use super::tools::{STRADDLE, json, present, straddle, text};

/// Categories and actions of `<linux/blktrace_api.h>`.
const READ: u32 = 1 << 16;
const WRITE: u32 = 1 << 17;
const FLUSH: u32 = 1 << 18;
const SYNC: u32 = 1 << 19;
const DISCARD: u32 = 1 << 29;
const FUA: u32 = 1 << 31;
const QUEUE: u32 = 1 | 1 << 20;
const ISSUE: u32 = 7 | 1 << 22;
const COMPLETE: u32 = 8 | 1 << 23;
const PROCESS: u32 = 1 << 26;

#[derive(Clone, Copy)]
struct Event {
    time: u64,
    cpu: u32,
    sector: u64,
    bytes: u32,
    action: u32,
    device: u32,
}

/// Returns `struct blk_io_trace`, with what follows it.
fn record(number: u32, event: Event, behind: &[u8], is_big: bool) -> Vec<u8> {
    let four = |value: u32| if is_big { value.to_be_bytes() } else { value.to_le_bytes() };
    let eight = |value: u64| if is_big { value.to_be_bytes() } else { value.to_le_bytes() };
    let two = |value: u16| if is_big { value.to_be_bytes() } else { value.to_le_bytes() };
    let mut bytes = Vec::new();
    bytes.extend([four(0x6561_7407), four(number)].concat());
    bytes.extend([eight(event.time), eight(event.sector)].concat());
    let rest = [event.bytes, event.action, 100 + event.cpu, event.device, event.cpu];
    bytes.extend(rest.iter().flat_map(|value| four(*value)));
    bytes.extend([two(0), two(u16::try_from(behind.len()).unwrap())].concat());
    bytes.extend(behind);
    bytes
}

/// Returns the events of random requests of one device, in the order of time: each is queued, issued and completed,
/// on any of three processors.
fn events(seed: u64, count: u64) -> Vec<Event> {
    let mut random = SplitMix64::new(seed);
    let mut events = Vec::new();
    for index in 0..count {
        let kind = [READ, WRITE | SYNC, WRITE, WRITE | FUA | SYNC, DISCARD | WRITE][random.index(5)];
        let sector = [63, 64, 2048, 34][random.index(4)] + random.below(100_000) * 8;
        let sectors = [1, 8, 8, 16, 255][random.index(5)];
        for (after, action) in [(0, QUEUE), (500, ISSUE), (20_000, COMPLETE)] {
            let cpu = u32::try_from(random.below(3)).unwrap();
            let (time, action) = (1_000_000 + index * 30_000 + after, action | kind);
            events.push(Event { time, cpu, sector, bytes: sectors * 512, action, device: 8 << 20 | 16 });
        }
    }
    events.sort_by_key(|event| event.time);
    events
}

/// Writes the files of the processors.
fn recorded(dir: &Path, stem: &str, events: &[Event], is_big: bool) {
    let mut files = [const { Vec::new() }; 3];
    for (number, event) in (1..).zip(events) {
        let name = Event { action: PROCESS, ..*event };
        let file = &mut files[event.cpu as usize];
        if number % 50 == 1 {
            file.extend(record(number, name, b"fio\0\0\0\0\0\0\0\0\0\0\0\0\0", is_big));
        }
        file.extend(record(number, *event, b"", is_big));
    }
    for (cpu, file) in files.iter().enumerate() {
        fs::write(dir.join(format!("{stem}.blktrace.{cpu}")), file).unwrap();
    }
}

fn report(arguments: &[&str]) -> Value {
    json("trace", &[&["trace", "--json", "--best"], arguments].concat())
}

fn path(dir: &TempDir, name: &str) -> String {
    dir.path().join(name).to_str().unwrap().to_owned()
}

#[test]
fn files_of_processors_are_counted_as_what_blkparse_prints_of_them() {
    if !present(&["blkparse", "btt"]) {
        return;
    }
    let dir = TempDir::new().unwrap();
    recorded(dir.path(), "sdb", &events(11, 700), false);
    let run = |program: &str, arguments: &[&str]| {
        let run = Command::new(program).args(arguments).current_dir(dir.path()).output().unwrap();
        assert!(run.status.success(), "{}", text(&run.stderr));
        text(&run.stdout)
    };
    run("blkparse", &["-i", "sdb", "-d", "sdb.bin", "-O"]);
    let printed = run("blkparse", &["-i", "sdb"]);
    fs::write(dir.path().join("sdb.txt"), &printed).unwrap();
    let all: Vec<String> = (0..3).map(|cpu| path(&dir, &format!("sdb.blktrace.{cpu}"))).collect();
    let all: Vec<&str> = all.iter().map(String::as_str).collect();
    let ours = report(&all);
    assert_eq!(ours["files"][0]["format"], "blktrace");
    assert_eq!(ours["files"].as_array().unwrap().len(), 1);
    for arguments in [vec![path(&dir, "sdb")], vec![path(&dir, "sdb.txt")], vec![path(&dir, "sdb.bin")]] {
        let other = report(&[&arguments[0]]);
        assert_eq!((&ours["total"], &ours["volumes"]), (&other["total"], &other["volumes"]), "{arguments:?}");
    }
    // blkparse's own sums: the last of them is for all processors.
    let of = |what: &str, column: usize| {
        let line = printed.lines().rev().find(|line| line.contains(what)).unwrap();
        let rest = line.split(what).nth(1).unwrap().replace(',', " ").replace("KiB", " ");
        rest.split_whitespace().filter_map(|word| word.parse::<u64>().ok()).nth(column).unwrap()
    };
    let total = &ours["total"];
    // It counts discards as writes.
    let count = |operation: &str, field: &str| total[operation][field].as_u64().unwrap();
    assert_eq!(of("Read Dispatches:", 0), count("reads", "requests"));
    assert_eq!(of("Write Dispatches:", 0), count("writes", "requests") + count("discards", "requests"));
    assert_eq!(of("Read Dispatches:", 1), count("reads", "bytes") / 1024);
    let written = count("writes", "bytes") + count("discards", "bytes");
    assert!(of("Write Dispatches:", 1).abs_diff(written / 1024) <= 1, "{printed}");
    let btt = run("btt", &["-i", "sdb.bin"]);
    let merges =
        btt.lines().skip_while(|line| !line.contains("#D")).find(|line| line.contains("(  8, 16)")).unwrap();
    let numbers: Vec<u64> = merges.split(['|', ' ']).filter_map(|word| word.parse().ok()).collect();
    let requests =
        ["reads", "writes", "discards"].map(|operation| count(operation, "requests")).iter().sum::<u64>();
    let sectors =
        ["reads", "writes", "discards"].map(|operation| count(operation, "bytes")).iter().sum::<u64>() / 512;
    assert!(numbers.starts_with(&[700, requests]) && numbers.last() == Some(&sectors), "{merges}");
}

#[test]
fn requests_of_all_processors_are_in_the_order_of_blkparse() {
    if !present(&["blkparse"]) {
        return;
    }
    let dir = TempDir::new().unwrap();
    recorded(dir.path(), "sdb", &events(12, 400), false);
    let (ours, stem) = (path(&dir, "ours.csv"), path(&dir, "sdb"));
    for (event, letter) in [("queue", "Q"), ("issue", "D"), ("complete", "C")] {
        assert_eq!(straddle(&["trace", &stem, "--event", event, "--to", "csv", &ours]).code, 0);
        let printed = Command::new("blkparse").args(["-i", "sdb"]).current_dir(dir.path()).output().unwrap();
        let printed = text(&printed.stdout);
        let events = printed.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
        let events = events.filter(|fields| fields.get(5) == Some(&letter) && fields.get(8) == Some(&"+"));
        let theirs: Vec<[u64; 3]> = events
            .map(|fields| {
                let number = |text: &str| text.parse::<u64>().unwrap();
                let (seconds, nanos) = fields[3].split_once('.').unwrap();
                [
                    number(seconds) * 1_000_000_000 + number(nanos),
                    number(fields[7]) * 512,
                    number(fields[9]) * 512,
                ]
            })
            .collect();
        let written = fs::read_to_string(&ours).unwrap();
        let ours: Vec<[u64; 3]> = written
            .lines()
            .skip(1)
            .map(|line| {
                let fields: Vec<&str> = line.split(',').collect();
                // The volume's name has a comma.
                assert_eq!((fields[1], fields[2]), ("\"8", "16\""));
                [fields[0], fields[4], fields[5]].map(|field| field.parse().unwrap())
            })
            .collect();
        // blkparse counts from its first event, which is one of a process here.
        let shift = ours[0][0] - theirs[0][0];
        let theirs: Vec<_> =
            theirs.iter().map(|[time, offset, length]| [time + shift, *offset, *length]).collect();
        assert_eq!(ours, theirs, "{event}");
    }
}

#[test]
fn either_byte_order_pipes_and_late_records_give_the_same_figures() {
    let dir = TempDir::new().unwrap();
    let mut events = events(13, 300);
    recorded(dir.path(), "little", &events, false);
    recorded(dir.path(), "big", &events, true);
    let little = report(&[&path(&dir, "little")]);
    assert_eq!(little["total"], report(&[&path(&dir, "big")])["total"]);
    // A replay needs them in order, and sorts what the kernel wrote late.
    let sim =
        |arguments: &[&str]| json("sim", &[&["sim", "--drive", "qlc-16k", "--json"], arguments].concat());
    let ordered = sim(&[&path(&dir, "little")]);
    events.chunks_mut(7).for_each(|some| some.reverse());
    let late: Vec<u8> =
        (1..).zip(&events).flat_map(|(number, event)| record(number, *event, b"", false)).collect();
    fs::write(dir.path().join("late"), &late).unwrap();
    assert_eq!(ordered["runs"], sim(&[&path(&dir, "late")])["runs"]);
    let input = fs::File::open(dir.path().join("late")).unwrap();
    let piped =
        Command::new(STRADDLE).args(["trace", "-", "--best", "--json"]).stdin(input).output().unwrap();
    let piped: Value = serde_json::from_slice(&piped.stdout).unwrap();
    assert_eq!(little["total"], piped["total"]);
}

#[test]
fn flushes_and_requests_without_data_are_what_they_are() {
    let dir = TempDir::new().unwrap();
    let event = |action, bytes| Event { time: 5, cpu: 0, sector: 64, bytes, action, device: 259 << 20 | 3 };
    let pass_through = 1 << 25;
    let events = [
        event(ISSUE | FLUSH | WRITE | SYNC, 0),
        event(ISSUE | WRITE | FLUSH | FUA, 4096),
        event(ISSUE | READ | pass_through, 512),
        event(ISSUE | READ, 0),
        event(ISSUE | DISCARD, 1 << 20),
    ];
    recorded(dir.path(), "nvme", &events, false);
    let report = report(&[&path(&dir, "nvme")]);
    assert_eq!(report["volumes"][0]["name"], "259,3");
    let total = &report["total"];
    assert_eq!((&total["flushes"], &total["writes"]["requests"]), (&1.into(), &1.into()));
    assert_eq!((&total["reads"]["requests"], &total["discards"]["bytes"]), (&0.into(), &(1 << 20).into()));
}

#[test]
fn a_damaged_record_is_named_with_its_byte() {
    let dir = TempDir::new().unwrap();
    let good: Vec<u8> =
        (1..).zip(&events(14, 2)).flat_map(|(number, event)| record(number, *event, b"ab", false)).collect();
    let wrong = |name: &str, bytes: &[u8], says: &str| {
        fs::write(dir.path().join(name), bytes).unwrap();
        let run = straddle(&["trace", &path(&dir, name)]);
        assert_eq!((run.code, run.out.as_str()), (3, ""), "{}", run.err);
        assert!(run.err.contains(says), "{}", run.err);
    };
    wrong("cut", &good[..170], "cut: record 4 (byte 150): the trace ends inside this record");
    wrong(
        "behind",
        &good[..good.len() - 1],
        "behind: record 6 (byte 250): the trace ends inside this record",
    );
    let mut magic = good.clone();
    magic[100] = 9;
    wrong("magic", &magic, "magic: record 3 (byte 100): the record starts with 0x");
    let none = dir.path().join("none.csv");
    fs::write(&none, "1,W,0,1,1\n").unwrap();
    let run = straddle(&["trace", none.to_str().unwrap(), "--format", "blktrace"]);
    assert_eq!(run.code, 3);
}
