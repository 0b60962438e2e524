//! Read-modify-writes counted by an independent program: nbdkit's blocksize filter.
//!
//! `nbdkit --filter=blocksize --filter=log --filter=stats memory minblock=4096`: the client's requests reach
//! the first filter, which turns them into whole blocks. The second, below it, logs every request by which
//! the blocks are read and written, and the third counts them. This corresponds to a modelled drive that
//! writes each request through at once:
//!
//! - blocksize reads a block for a write's head if the write begins inside it, and for its tail if the write
//!   ends inside another one; for a write within a single block it reads that block once. These reads are the
//!   drive's `rmw_reads`.
//! - It then writes the head's block, the whole blocks between, and the tail's block in separate requests.
//!   Their total bytes are the drive's `media_write_bytes`; their number is not its number of operations.
//! - qemu-io's writes carry FUA and are sent one at a time, so nothing is merged, as on a drive without a
//!   write cache, where each write is on the medium before the next is sent.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use crate::tools;

use std::fmt::Write;
use std::fs;
use std::process::Command;

use straddle_drive::{Drive, Profile};
use straddle_units::io::{Operation, Request, SplitMix64, Time};
use straddle_units::{ByteCount, ByteOffset};
use tools::{Dir, present, run};

const CAPACITY: u64 = 64 << 20;

/// The blocks read to complete partial writes, in order, and the number of bytes written.
#[derive(Debug, Default, PartialEq, Eq)]
struct Work {
    reads: u64,
    read_bytes: u64,
    write_bytes: u64,
}

/// (offset, length) of every write: first each alignment of both ends at least once, then random ones.
fn writes() -> Vec<(u64, u64)> {
    let mut random = SplitMix64::new(20_261_121);
    let ends = (0..8).flat_map(|first| (1..=26).map(move |sectors| (1000 + first, sectors)));
    let mut others = Vec::new();
    for _ in 0..300 {
        let longest = if random.once_in(8) { 4000 } else { 40 };
        others.push((random.below(100_000), 1 + random.below(longest)));
    }
    ends.chain(others).map(|(first, sectors)| (first * 512, sectors * 512)).collect()
}

/// The hexadecimal value of `key` in a line of the log filter.
fn field(line: &str, key: &str) -> u64 {
    let value = line.split_whitespace().find_map(|word| word.strip_prefix(key)).unwrap();
    u64::from_str_radix(value.trim_start_matches("0x"), 16).unwrap()
}

fn by_nbdkit(writes: &[(u64, u64)]) -> Work {
    let dir = Dir::new("rmw");
    let (log, stats, script) = (dir.join("log"), dir.join("stats"), dir.join("script"));
    let mut lines = String::new();
    for (offset, length) in writes {
        let _ = writeln!(lines, "write -q {offset} {length}");
    }
    fs::write(&script, lines).unwrap();
    let client = format!("qemu-io -f raw nbd:unix:$unixsocket < '{}'", script.display());
    run(
        Command::new("nbdkit")
            .args(["-U", "-", "--filter=blocksize", "--filter=log", "--filter=stats", "memory"])
            .args([format!("size={CAPACITY}"), "minblock=4096".to_owned()])
            .args([format!("logfile={}", log.display()), format!("statsfile={}", stats.display())])
            .args(["--run", &client]),
        "",
    );
    let (mut work, mut requests) = (Work::default(), 0);
    for line in fs::read_to_string(log).unwrap().lines().filter(|line| line.contains(" offset=")) {
        let count = field(line, "count=");
        assert!(
            count.is_multiple_of(4096) && field(line, "offset=").is_multiple_of(4096),
            "not whole blocks: {line}"
        );
        if line.contains(" Read ") {
            (work.reads, work.read_bytes) = (work.reads + 1, work.read_bytes + count);
        } else if line.contains(" Write ") {
            (requests, work.write_bytes) = (requests + 1, work.write_bytes + count);
        }
    }
    // The third filter confirms the number of requests.
    let stats = fs::read_to_string(stats).unwrap();
    for (kind, count) in [("read", work.reads), ("write", requests)] {
        let agrees =
            if count == 0 { !stats.contains(kind) } else { stats.contains(&format!("{kind}: {count} ops,")) };
        assert!(agrees, "{kind}: {count}\n{stats}");
    }
    work
}

fn by_the_model(writes: &[(u64, u64)], policy: &str) -> Work {
    let text = format!(
        r#"
        name = "through"
        title = "writes through"
        [claims]
        model = "THROUGH"
        capacity_bytes = {CAPACITY}
        logical_sector_bytes = 512
        physical_sector_bytes = 4096
        rotational = true
        [sectors]
        physical_bytes = 4096
        [interface]
        link_mb_s = 300
        read_overhead_us = 100
        write_overhead_us = 100
        queue_depth = 1
        [spindle]
        rpm = 7200
        [geometry]
        surfaces = 2
        outer_sectors_per_track = 120
        inner_sectors_per_track = 60
        zone_count = 5
        [seek]
        table_ms = [[1, 0.8], [10, 1.2], [100, 3]]
        head_switch_ms = 1
        write_settle_ms = 0.1
        [write_cache]
        enabled = false
        bytes = 8388608
        extents = 64
        window = 64
        setup_us = 100
        [rmw]
        policy = "{policy}"
        "#
    );
    let mut drive = Drive::new(&Profile::parse("through", &text, &[]).unwrap());
    let (mut done, mut at) = (Vec::new(), Time::ZERO);
    for (id, (offset, length)) in (0..).zip(writes) {
        drive
            .submit(
                at,
                Request::new(id, Operation::Write, ByteOffset::new(*offset), ByteCount::new(*length)),
                &mut done,
            )
            .unwrap();
        at = drive.next_completion(&mut done).unwrap().at;
    }
    let counters = drive.counters();
    assert_eq!(counters.media_read_bytes, counters.rmw_read_bytes, "nothing else is read");
    Work {
        reads: counters.rmw_reads,
        read_bytes: counters.rmw_read_bytes,
        write_bytes: counters.media_write_bytes,
    }
}

#[test]
fn a_drive_that_writes_through_reads_and_writes_what_nbdkit_does() {
    if !present(&["nbdkit", "qemu-io"]) {
        return;
    }
    let writes = writes();
    let judged = by_nbdkit(&writes);
    assert!(judged.reads > 0 && judged.write_bytes > 0);
    for policy in ["immediate-serial", "immediate-merged", "destage-serial", "destage-merged", "deferred"] {
        assert_eq!(by_the_model(&writes, policy), judged, "{policy}");
    }
    // Compared write by write, so that errors cannot cancel out: each alignment of both ends.
    for write in writes.iter().take(8 * 26).step_by(5) {
        let alone = [*write];
        assert_eq!(by_the_model(&alone, "immediate-merged"), by_nbdkit(&alone), "{write:?}");
    }
}
