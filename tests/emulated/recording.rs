//! `straddle trace record` on a real kernel, beside blktrace on the same disk at the same time.

use std::fmt;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::tools::{self, Dir, STRADDLE, json, number, output, present, straddle, transcript};

const TOOLS: [&str; 8] = ["blkdiscard", "blkparse", "blktrace", "blockdev", "dd", "fio", "setpriv", "sfdisk"];

/// Actions and categories of `<linux/blktrace_api.h>`.
const ISSUE: u32 = 7;
const COMPLETE: u32 = 8;
const NOTIFY: u32 = 1 << 26;
/// What happened, and what was asked: read, write, flush, synchronous, command, read-ahead, metadata, discard, FUA.
const COMPARED: u32 =
    0xff | 1 << 16 | 1 << 17 | 1 << 18 | 1 << 19 | 1 << 25 | 1 << 27 | 1 << 28 | 1 << 29 | 1 << 31;

/// An event of a request, as `struct blk_io_trace` has it.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Traced {
    action: u32,
    sector: u64,
    bytes: u32,
    device: u32,
    error: u16,
}

impl fmt::Debug for Traced {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { action, sector, bytes, error, .. } = self;
        write!(formatter, "{action:#x} {sector} + {bytes} [{error}]")
    }
}

/// Returns the events of a file with their times, and its messages.
fn read(path: &Path) -> (Vec<(u64, Traced)>, Vec<String>) {
    let bytes = fs::read(path).unwrap_or_else(|_| panic!("no {}", path.display()));
    let (mut events, mut messages, mut at) = (Vec::new(), Vec::new(), 0);
    while at < bytes.len() {
        let four = |from: usize| u32::from_le_bytes(bytes[at + from..at + from + 4].try_into().unwrap());
        let eight = |from: usize| u64::from_le_bytes(bytes[at + from..at + from + 8].try_into().unwrap());
        assert_eq!(four(0), 0x6561_7407, "byte {at}");
        let (action, behind) = (four(28), (four(44) >> 16) as usize);
        if action & NOTIFY != 0 {
            let text = String::from_utf8_lossy(&bytes[at + 48..at + 48 + behind]);
            messages.extend((action & 0xff == 2).then(|| text.into_owned()));
        } else if [ISSUE, COMPLETE].contains(&(action & 0xff)) {
            let error = u16::try_from(four(44) & 0xffff).unwrap();
            let event = Traced {
                action: action & COMPARED,
                sector: eight(16),
                bytes: four(24),
                device: four(36),
                error,
            };
            events.push((eight(8), event));
        }
        at += 48 + behind;
    }
    (events, messages)
}

#[test]
fn a_recording_is_what_blktrace_has_of_the_same_disk() {
    on("cloud");
}

#[test]
#[ignore = "minutes of emulation: make devices"]
fn a_recording_is_what_blktrace_has_under_linux_6_1() {
    on("6.1");
}

/// Boots a kernel, which leaves the recordings, and judges them.
fn on(kernel: &str) {
    if cfg!(not(target_arch = "x86_64")) || !present(&["qemu-system-x86_64", "busybox"]) || !present(&TOOLS) {
        return;
    }
    let folder = tools::root().join("tests/emulated");
    let fetched = output(Command::new(folder.join("kernel")).arg(kernel), "");
    if !fetched.status.success() {
        tools::skipped(&format!("kernel {kernel} is missing: {}", transcript(&fetched)));
        return;
    }
    let dir = Dir::new("recording");
    let arguments = "-drive\nif=none,id=d,format=raw,cache=unsafe,discard=unmap,file={}/disk-d-64M\n-device\n\
        virtio-blk-pci,drive=d,addr=8,physical_block_size=4096\n";
    fs::write(dir.join("arguments"), arguments).unwrap();
    let mut command = Command::new(folder.join("run"));
    command.args(["-t", "900", "-k", kernel, "-p", STRADDLE, "-o"]).arg(dir.join("out"));
    command.arg("-a").arg(dir.join("arguments"));
    TOOLS.iter().filter(|tool| **tool != "blkparse").for_each(|tool| {
        command.args(["-x", tool]);
    });
    let ran = output(command.arg(folder.join("recording.sh")), "");
    assert!(ran.status.success(), "{}", transcript(&ran));
    let out = dir.join("out");
    compare(&out);
    by_blkparse(&out);
    parts_and_losses(&out);
    failures(&out);
}

fn text(out: &Path, name: &str) -> String {
    fs::read_to_string(out.join(name)).unwrap_or_else(|_| panic!("no {name}"))
}

/// The first sector of the load. Before it, blktrace has reads of sector 0, by which its beginning was awaited.
const FIRST: u64 = 800;

/// blktrace's events of the load.
fn theirs(out: &Path) -> Vec<(u64, Traced)> {
    let (mut events, _) = read(&out.join("theirs.blktrace.0"));
    let first = events.iter().position(|(_, event)| event.sector == FIRST).unwrap();
    events.split_off(first)
}

/// Request for request: what was asked, where, and how it ended.
fn compare(out: &Path) {
    let of = |name: &str| (text(out, &format!("{name}.rc")), text(out, &format!("{name}.err")));
    assert_eq!(of("ours"), ("0\n".to_owned(), String::new()), "{}", text(out, "ours.out"));
    let (ours, messages) = read(&out.join("ours.rec"));
    let theirs = theirs(out);
    // Each takes its own time of an event, one after the other: an interrupt in between completes another request, which
    // has both of its times there. So the order may differ, but not what there is.
    let plain = |events: &[(u64, Traced)]| events.iter().map(|(_, event)| *event).collect::<Vec<_>>();
    let (mut mine, mut other) = (plain(&ours), plain(&theirs));
    let moved = mine.iter().zip(&other).filter(|(mine, other)| mine != other).count();
    let key = |event: &Traced| (event.action & 0xff, event.sector, event.bytes, event.action, event.error);
    mine.sort_by_key(key);
    other.sort_by_key(key);
    let first = mine.iter().zip(&other).find(|(mine, other)| mine != other);
    assert!(
        mine == other,
        "{} and {} events, {moved} not at the same place; {first:?}",
        mine.len(),
        other.len()
    );
    let issued = mine.iter().filter(|event| event.action & 0xff == ISSUE).count();
    assert!(issued > 1200 && mine.len() - issued >= issued, "{issued} of {}", mine.len());
    // Every operation occurs.
    for category in [1 << 16, 1 << 17, 1 << 18, 1 << 29] {
        assert!(mine.iter().any(|event| event.action & category != 0), "{category:#x}");
    }
    println!("{} events of {issued} requests, as blktrace has them; {moved} in another order", mine.len());
    assert!(ours.windows(2).all(|pair| pair[0].0 <= pair[1].0), "in the order of time");
    for line in ["straddle: clock: mono", "straddle: lost_events: 0"] {
        assert!(messages.iter().any(|message| message == line), "{messages:?}");
    }
    // straddle's own count: device commands and requests without data and flush are none.
    let mut report = report(out, "ours.rec");
    let total = report["total"].take();
    let counted = ["reads", "writes", "discards"].map(|operation| number(&total[operation], "requests"));
    let counted = counted.iter().sum::<u64>() + number(&total, "flushes");
    assert_eq!(counted, u64::try_from(issued).unwrap(), "{total}");
    let sectors: u64 =
        mine.iter().filter(|event| event.action & 0xff == ISSUE).map(|event| u64::from(event.bytes)).sum();
    let bytes = ["reads", "writes", "discards"].map(|operation| number(&total[operation], "bytes"));
    assert_eq!(bytes.iter().sum::<u64>(), sectors);
}

/// blkparse prints the same of it as of blktrace's.
fn by_blkparse(out: &Path) {
    let parsed = |name: &str| {
        let input = fs::File::open(out.join(name)).unwrap();
        let run = Command::new("blkparse")
            .args(["-i", "-", "-a", "issue", "-a", "complete", "-f", "%a %d %S %N %e\n"])
            .current_dir(out)
            .stdin(Stdio::from(input))
            .output()
            .unwrap();
        assert!(run.status.success(), "{}", transcript(&run));
        let text = String::from_utf8(run.stdout).unwrap();
        let is_event = |line: &&str| line.starts_with("D ") || line.starts_with("C ");
        text.lines().filter(is_event).map(str::to_owned).collect::<Vec<_>>()
    };
    let (mut ours, mut theirs) = (parsed("ours.rec"), parsed("theirs.blktrace.0"));
    assert!(ours.len() > 2400);
    // The format has the sector last but two.
    let first = theirs.iter().position(|line| line.split(' ').nth_back(2) == Some("800")).unwrap();
    let mut theirs = theirs.split_off(first);
    ours.sort();
    theirs.sort();
    assert_eq!(ours, theirs);
}

fn report(out: &Path, name: &str) -> Value {
    json("trace", &["trace", "--json", out.join(name).to_str().unwrap()])
}

fn parts_and_losses(out: &Path) {
    // The second partition begins at sector 40063: 40 writes, at their places on the disk.
    assert_eq!(text(out, "part.rc"), "0\n", "{}", text(out, "part.err"));
    let (part, messages) = read(&out.join("part.rec"));
    let issued = part.iter().filter(|(_, event)| event.action & 0xff == ISSUE && event.bytes > 0);
    let places: Vec<(u64, u32)> = issued.map(|(_, event)| (event.sector, event.bytes)).collect();
    assert_eq!(places, (0..40).map(|index| (40_063 + index * 8, 4096)).collect::<Vec<_>>());
    assert!(messages.iter().any(|line| line == "straddle: partition_start_byte: 20512256"), "{messages:?}");
    let said: Value = serde_json::from_str(&text(out, "part.out")).unwrap();
    tools::valid(&said, "trace-record");
    assert_eq!(number(&said["partition"], "start_bytes"), 20_512_256, "{said}");
    assert_eq!(
        (number(&said, "writes"), number(&said, "write_bytes"), number(&said, "lost_events")),
        (40, 40 * 4096, 0),
        "{said}"
    );
    assert_eq!(said["ended"], "stopped");
    assert_eq!(number(&report(out, "part.rec")["total"]["writes"], "requests"), 40);

    // 3000 requests have 6000 events: recorded, or counted as lost.
    let (lost, messages) = read(&out.join("lost.rec"));
    let said = messages.iter().find_map(|line| line.strip_prefix("straddle: lost_events: ")).unwrap();
    let said: usize = said.parse().unwrap();
    assert!(said > 1000, "{said}");
    assert_eq!(lost.len() + said, 6000);
    let complaint = text(out, "lost.err");
    assert!(
        complaint.contains(&format!("{said} events lost")) && complaint.contains("--buffer"),
        "{complaint}"
    );
    assert_eq!(text(out, "lost.rc"), "0\n");
    let later = straddle(&["trace", out.join("lost.rec").to_str().unwrap()]);
    assert_eq!(later.code, 0);
    assert!(later.err.contains(&format!("{said} events were lost during the recording")), "{}", later.err);
}

fn failures(out: &Path) {
    for (name, status, says) in [
        ("unmounted", "3", "mount -t tracefs"),
        ("file", "2", "not a block device"),
        ("user", "3", "run as root"),
        ("full", "3", "No space left on device"),
        ("gone", "3", "the disk was removed"),
    ] {
        let complaint = text(out, &format!("{name}.err"));
        assert_eq!(text(out, &format!("{name}.rc")).trim(), status, "{name}: {complaint}");
        assert!(complaint.contains(says), "{name}: {complaint}");
    }
    for name in ["unmounted.rec", "file.rec", "user.rec"] {
        assert!(!out.join(name).exists(), "{name}");
    }
    // The instance is removed in every case; of a killed recorder by the next one.
    for name in ["ours", "part", "lost", "next", "full", "gone"] {
        assert_eq!(text(out, &format!("{name}.left")), "", "{name}");
    }
    assert!(text(out, "killed.left").starts_with("straddle-"));
    assert_eq!(text(out, "next.rc"), "0\n", "{}", text(out, "next.err"));
    // What there was room for is whole.
    let (full, _) = read(&out.join("full.rec"));
    assert!(full.len() > 2000 && full.len() < 12_000, "{}", full.len());
    assert_eq!(text(out, "cut.rc"), "0\n", "{}", text(out, "cut.err"));
    assert!(text(out, "cut.err").contains("the recording is truncated"), "{}", text(out, "cut.err"));
    assert_eq!(number(&report(out, "gone.rec")["total"]["writes"], "requests"), 25);
}
