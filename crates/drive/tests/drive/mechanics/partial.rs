//! What happens to partial sectors besides the plain read-modify-write: their rest in memory, the log, the time
//! before an idle drive empties its cache; and writes that seek more slowly than reads. The disk is that of
//! `mechanics.rs`: 10 ms per revolution, 50 sectors per track.

use super::common::Host;
use super::common::shape::{Kept, POLICIES, Shape};
use super::{BLOCK, OVERHEAD, SECTOR, TURN, assert_about, host};
use straddle_drive::disk::RmwPolicy;
use straddle_drive::{Drive, Profile};
use straddle_units::io::{
    Nanos,
    Operation::{Discard, Flush, Read, Write, WriteFua},
};

/// Blocks of the last track on which the arm arrives after 1.5 ms: track 16, cylinder 8 of the first surface.
const JOURNAL: u64 = 800;

/// How long 50 reads of one block take, each followed by a write to the journal, and how many writes reached
/// the medium meanwhile.
fn beside_a_journal(idle_ms: u64) -> (Nanos, u64) {
    let mut host = host(&Shape { write_cache: true, idle_ms, ..Shape::default() });
    host.serve(Read, 20 * BLOCK, BLOCK);
    let start = host.drive.now();
    for index in 0..50 {
        host.serve(Write, (JOURNAL + index) * BLOCK, BLOCK);
        host.serve(Read, 20 * BLOCK, BLOCK);
    }
    (host.drive.now().since(start), host.drive.counters().destages)
}

/// Reads that depend on each other, with a write to the journal after each: the reads alone take a revolution
/// each. If the journal is written between two of them, the arm must move there (1.6 ms with settling), wait,
/// pass a sector, and be back (1.5 ms) before the block comes round, 9.8 ms after the read: with the overhead
/// of 0.1 ms there is time for a wait of 6.4 ms. Of the 50 sectors of the journal's track, the wait is longer
/// for 17, and each of those costs another revolution.
#[test]
fn a_journal_is_not_written_between_two_reads_that_depend_on_each_other() {
    // 5 ms are shorter than a read: the drive is not idle while a command is outstanding.
    for idle_ms in [50, 5] {
        let (took, written) = beside_a_journal(idle_ms);
        assert_about(took, 50 * TURN, 500);
        assert_eq!(written, 0);
    }
    let (took, written) = beside_a_journal(0);
    assert_eq!(written, 50);
    let turns = (took.get() + TURN / 2) / TURN;
    assert!((66..=68).contains(&turns), "{took}");
}

fn with_log(sectors: u64, idle_ms: u64) -> Shape {
    Shape { kept: Kept::Log(sectors * BLOCK), idle_ms, write_cache: true, ..Shape::default() }
}

/// Two parts go to two sectors of the log that follow each other: nothing is read, and once the heads are
/// there, the next pair is missed by the overhead and comes round a revolution later. Where a track ends, the
/// skew of 2 ms is enough to reach the next one: once in 40 sectors.
#[test]
fn parts_are_logged_in_one_pass() {
    let mut host = host(&with_log(64, 1000));
    host.serve(WriteFua, 10 * BLOCK + 512, BLOCK);
    let mut tracks = 0;
    for index in 1..20 {
        let took = host.serve(WriteFua, (10 + 7 * index) * BLOCK + 512, BLOCK);
        let next_track = took.get() < TURN;
        tracks += u32::from(next_track);
        assert_about(took, if next_track { TURN / 5 } else { TURN } + 2 * SECTOR, 50);
    }
    assert_eq!(tracks, 1);
    let counters = *host.drive.counters();
    assert_eq!((counters.rmw_reads, counters.media_read_bytes), (0, 0));
    assert_eq!((counters.media_write_bytes, counters.destages), (40 * BLOCK, 20));
}

/// A long write leaves only its ends in the log.
#[test]
fn whole_sectors_are_written_in_place() {
    let mut host = host(&with_log(64, 1000));
    host.serve(WriteFua, 10 * BLOCK + 512, 6 * BLOCK);
    assert_eq!(host.drive.counters().media_write_bytes, 7 * BLOCK);
    let mut other = host_of(64);
    other.serve(WriteFua, 10 * BLOCK, 6 * BLOCK);
    assert_eq!(other.drive.counters().media_write_bytes, 6 * BLOCK);
}

fn host_of(sectors: u64) -> Host {
    host(&with_log(sectors, 1000))
}

/// The time of a second read after one of the same data, to have the heads in a known place.
fn read_again(host: &mut Host, offset: u64, length: u64) -> u64 {
    host.serve(Read, offset, length);
    host.serve(Read, offset, length).get()
}

/// Data of which all is in the log is read there. Data of which a part is there is read in both places: the arm
/// goes there and back, 1.5 ms each way (cylinders 0 and 10), and waits in each place. Data beside it is not
/// affected.
#[test]
fn logged_parts_are_read_from_the_log() {
    let mut host = host_of(64);
    host.serve(WriteFua, 10 * BLOCK + 512, BLOCK);
    assert_about(Nanos::new(read_again(&mut host, 10 * BLOCK + 512, BLOCK)), TURN, 50);
    assert_eq!(host.drive.counters().media_read_bytes, 2 * 2 * BLOCK, "two sectors of the log, twice");
    let before = host.drive.counters().seeks;
    let both = read_again(&mut host, 10 * BLOCK, 2 * BLOCK);
    assert!(both + 50 >= TURN && both <= 3 * TURN, "{both}");
    assert_eq!(host.drive.counters().seeks - before, 4, "there and back, twice");
    let before = host.drive.counters().seeks;
    read_again(&mut host, 12 * BLOCK, 2 * BLOCK);
    assert!(host.drive.counters().seeks - before <= 1);
    // What was read with its parts is not known to be elsewhere, and neither is what was overwritten.
    host.serve(WriteFua, 10 * BLOCK, 2 * BLOCK);
    let before = host.drive.counters().seeks;
    read_again(&mut host, 10 * BLOCK, 2 * BLOCK);
    assert_eq!(host.drive.counters().seeks, before, "in place again");
}

#[test]
fn what_was_discarded_is_not_read_from_the_log() {
    let mut host = host_of(64);
    host.serve(WriteFua, 10 * BLOCK + 512, BLOCK);
    host.serve(Discard, 10 * BLOCK + 512, BLOCK);
    host.serve(Read, 10 * BLOCK, 2 * BLOCK);
    let before = host.drive.counters().seeks;
    read_again(&mut host, 10 * BLOCK, 2 * BLOCK);
    assert_eq!(host.drive.counters().seeks, before);
}

/// An idle drive reads the log once and puts each of the two sectors in place with a read and, a revolution
/// later, a write. Afterwards the log is not needed any more.
#[test]
fn an_idle_drive_puts_its_log_in_place() {
    let mut host = host_of(64);
    host.serve(WriteFua, 10 * BLOCK + 512, BLOCK);
    let written = host.drive.now();
    host.pass(written + Nanos::new(1_000_000_000 - 1));
    assert_eq!(host.drive.counters().media_read_bytes, 0);
    host.pass(written + Nanos::new(1_000_000_000 + 8 * TURN));
    let counters = *host.drive.counters();
    assert_eq!((counters.media_read_bytes, counters.rmw_reads), (4 * BLOCK, 2));
    assert_eq!(counters.media_write_bytes, 4 * BLOCK);
    assert_eq!(host.drive.next_event(), None);
    let before = host.drive.counters().seeks;
    read_again(&mut host, 10 * BLOCK, 2 * BLOCK);
    assert_eq!(host.drive.counters().seeks, before);
}

/// A read that comes meanwhile waits for one sector, which takes two revolutions at most and a move, and not
/// for the other hundred.
#[test]
fn a_read_waits_for_one_sector_of_the_log() {
    let mut host = host_of(300);
    for index in 0..50 {
        host.serve(WriteFua, (10 + 9 * index) * BLOCK + 512, BLOCK);
    }
    let idle = host.drive.now() + Nanos::new(1_000_000_000);
    host.pass(idle + Nanos::new(4 * TURN));
    let (before, was) = (host.drive.counters().rmw_reads, host.drive.now());
    assert!((1..8).contains(&before), "{before} sectors by {was}");
    let took = host.serve(Read, 900 * BLOCK, BLOCK).get();
    assert!(took <= 2 * TURN + 3_000_000 + TURN + 3_000_000 + OVERHEAD, "{took}");
    assert!(took > 2 * SECTOR);
    assert!(host.drive.counters().rmw_reads <= before + 1);
}

/// A log of three sectors has room for one write of two parts; the next is read, changed and written in place.
#[test]
fn without_room_partial_sectors_are_written_in_place() {
    let mut host = host_of(3);
    host.serve(WriteFua, 10 * BLOCK + 512, BLOCK);
    assert_eq!(host.drive.counters().rmw_reads, 0);
    host.serve(WriteFua, 30 * BLOCK + 512, BLOCK);
    assert_eq!(host.drive.counters().rmw_reads, 2);
    assert_eq!(host.drive.counters().media_write_bytes, 4 * BLOCK);
}

/// The rest of a sector that the read cache holds when the write arrives need not be read, whatever the policy.
#[test]
fn the_rest_of_a_sector_may_come_from_the_read_cache() {
    for policy in POLICIES {
        // Up to the last sector that was read, and no further.
        let held = [8, 9, 10, 11, 12].map(|first| (true, first, u64::abs_diff(first, 10).min(2)));
        for (reads_from_cache, first, reads) in held.into_iter().chain([(false, 10, 2)]) {
            // Keeping what was written is another matter.
            for kept_written in [0, 8 * BLOCK] {
                let (segments, segment_bytes) = (2, 64 * BLOCK);
                let mut host = host(&Shape {
                    segments,
                    segment_bytes,
                    policy,
                    reads_from_cache,
                    kept_written,
                    ..Shape::default()
                });
                host.serve(Read, first * BLOCK, 2 * BLOCK);
                host.serve(Write, 10 * BLOCK + 512, BLOCK);
                let read = host.drive.counters().rmw_reads;
                assert_eq!(read, reads, "{policy} {reads_from_cache} {first}");
            }
        }
    }
}

/// A sequence of misaligned writes, each on the medium before the next: the last sector of each is the first of
/// the next. With room for it in memory, only the other one is read.
#[test]
fn the_rest_of_a_sector_may_come_from_what_was_just_written() {
    for policy in POLICIES {
        for (kept_written, reads) in [(0, 40), (BLOCK, 21), (8 * BLOCK, 21)] {
            let mut host = host(&Shape { policy, kept_written, ..Shape::default() });
            for index in 0..20 {
                host.serve(Write, (10 + index) * BLOCK + 512, BLOCK);
            }
            assert_eq!(host.drive.counters().rmw_reads, reads, "{policy} {kept_written}");
            // Forgotten by now, if there was room for eight.
            host.serve(Write, 10 * BLOCK + 512, 512);
            assert_eq!(host.drive.counters().rmw_reads, reads + 1, "{policy} {kept_written}");
        }
    }
}

/// A sector that is forgotten was the one kept for the longest time.
#[test]
fn the_latest_sectors_are_kept() {
    let mut host = host(&Shape { kept_written: 2 * BLOCK, ..Shape::default() });
    for (block, reads) in [(10, 1), (20, 2), (10, 2), (30, 3), (10, 3), (20, 4)] {
        host.serve(Write, block * BLOCK, 512);
        assert_eq!(host.drive.counters().rmw_reads, reads, "{block}");
    }
    host.serve(Flush, 0, 0);
}

/// A disk whose writes seek more slowly, and one that settles in that time, on the same tracks.
fn seeking(more: &str, write_settle_ms: f64) -> Drive {
    let toml = Shape { write_settle_ms, ..Shape::default() }.toml();
    let table = "table_ms = [[1, 1], [8, 1.5], [64, 3]]";
    assert!(toml.contains(table), "{toml}");
    let reads = "track_to_track_ms = 1\naverage_ms = 1.6\nfull_stroke_ms = 3\n";
    Drive::new(&Profile::parse("small", &toml.replace(table, &format!("{reads}{more}")), &[]).unwrap())
}

#[test]
fn a_write_moves_by_its_own_curve() {
    let own = "write_track_to_track_ms = 1.25\nwrite_average_ms = 2\nwrite_full_stroke_ms = 3.75";
    // When the heads arrive, some sector of the track is about to pass: the least time over all sectors is the
    // move. All three times are a quarter longer, and so is the curve through them.
    let least = |drive: &dyn Fn() -> Drive, operation, track: u64| {
        let times = (0..50).map(|sector| {
            let mut host = Host::new(drive(), 1000);
            host.serve(Read, 0, BLOCK);
            host.serve(operation, (track * 50 + sector) * BLOCK, BLOCK).get()
        });
        times.min().unwrap() - OVERHEAD - SECTOR
    };
    let (with, without) = (|| seeking(own, 0.0), || seeking("", 0.0));
    assert!(least(&with, Read, 2).abs_diff(1_000_000) <= SECTOR);
    for track in [2, 18] {
        let read = least(&without, Write, track);
        assert!(least(&with, Read, track).abs_diff(read) <= 50, "{track}");
        let write = least(&with, Write, track);
        assert!(write.abs_diff(read * 5 / 4) <= SECTOR, "{track}: {write} after {read}");
    }
}

#[test]
fn a_write_curve_is_complete_and_never_below_that_of_reads() {
    let refused = |more: &str| {
        let toml = Shape::default().toml();
        let reads = "track_to_track_ms = 1\naverage_ms = 1.6\nfull_stroke_ms = 3\n";
        let toml = toml.replace("table_ms = [[1, 1], [8, 1.5], [64, 3]]", &format!("{reads}{more}"));
        Profile::parse("small", &toml, &[]).unwrap_err().to_string()
    };
    assert!(refused("write_average_ms = 2.5").contains("needs all three"));
    let below = "write_track_to_track_ms = 0.5\nwrite_average_ms = 1.25\nwrite_full_stroke_ms = 3";
    assert!(refused(below).contains("less time than a read"));
}

/// Any policy is an option of any disk, and those that are plausible are listed.
#[test]
fn the_policy_is_an_option() {
    let profile = Profile::open("wd10ears,jumper=on").unwrap();
    let names: Vec<_> = profile.plausible_policies().iter().map(|policy| policy.name()).collect();
    assert_eq!(names, RmwPolicy::PLAUSIBLE.map(RmwPolicy::name));
    assert!(names.contains(&"logged"));
    for name in names.into_iter().chain(["destage-merged"]) {
        for drive in ["wd10ears", "dell-6tb-7200-512e", "st2000dl003", "dt01aca300", "3tb-512e-2012"] {
            let profile = Profile::open(&format!("{drive},rmw={name}")).unwrap();
            let straddle_drive::profile::Body::Disk(disk) = &profile.body else { panic!("{drive}") };
            assert_eq!(disk.rmw.name(), name);
        }
    }
    assert!(Profile::open("wd10ears,rmw=none").is_err());
    assert!(Profile::open("qlc-16k,rmw=deferred").is_err());
    assert!(Profile::open("640gb-512n").unwrap().plausible_policies().is_empty());
    assert!(Profile::open("nearline-4kn-7200").unwrap().plausible_policies().is_empty());
}
