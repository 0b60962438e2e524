//! Streams of misaligned writes: the end of each write and the start of the next make a whole physical
//! sector, so only the first and the last sector of the stream are read before they are written.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use crate::tests::common;

use common::shape::{Kept, Shape, shapes};
use common::{Host, Run, SECTOR, config};
use proptest::prelude::*;
use straddle_drive::{Drive, Profile};
use straddle_units::io::{Nanos, Operation, Request, Time};
use straddle_units::{ByteCount, ByteOffset};

/// Shipped drives of both policies that read at destage time, with small and large buffers, and behind a slow
/// link.
const SHIPPED: [&str; 6] = [
    "wd10ears",
    "st2000dl003,rmw=deferred",
    "dt01aca300",
    "3tb-512e-2012",
    "dell-6tb-7200-512e",
    "wd-mybook-1500",
];

/// A stream of writes on one drive.
#[derive(Clone, Copy, Debug)]
struct Stream {
    /// Its first sector, in 512-byte sectors.
    first: u64,
    /// The size of each write, in 512-byte sectors.
    size: u64,
    count: u64,
    depth: usize,
    /// The pause between the completion that makes room in the queue and the next write.
    pause: Nanos,
    flush: bool,
}

/// Writes a stream; returns the run and the time at which the last write and the flush had completed.
fn write(drive: Drive, stream: &Stream) -> (Run, Time) {
    let mut host = Host::new(drive, 100_000);
    for id in 0..stream.count {
        let at = host.wait(stream.depth - 1) + stream.pause;
        let offset = stream.first * SECTOR + id * stream.size;
        host.submit(
            at,
            Request::new(id, Operation::Write, ByteOffset::new(offset), ByteCount::new(stream.size)),
        );
    }
    if stream.flush {
        let at = host.drive.now();
        host.submit(at, Request::flush(stream.count));
    }
    let end = host.wait(0);
    (host.finish(), end)
}

/// The sectors of `physical` bytes that were read or written on the medium, and how many of them were read
/// for their rest.
fn work(run: &Run, physical: u64) -> (u64, u64) {
    ((run.counters.media_read_bytes + run.counters.media_write_bytes) / physical, run.counters.rmw_reads)
}

/// Asserts that a misaligned stream reads one or two sectors for their rest, and writes at most one sector
/// more than the aligned one.
fn check(aligned: &Run, straddling: &Run, physical: u64, what: &dyn std::fmt::Debug) {
    let (aligned, straddling) = (work(aligned, physical), work(straddling, physical));
    assert_eq!(aligned.1, 0, "{what:?}");
    assert!((1..=2).contains(&straddling.1), "{} reads: {what:?}", straddling.1);
    assert!(straddling.0 <= aligned.0 + 3, "{straddling:?} against {aligned:?}: {what:?}");
}

#[test]
fn a_stream_that_straddles_is_read_at_its_ends_alone() {
    for name in SHIPPED {
        let profile = Profile::open(name).unwrap();
        for (depth, pause) in [(1, 0), (1, 150_000), (32, 0)] {
            for size in [64 << 10, 128 << 10, 504 << 10, 1 << 20] {
                let stream =
                    Stream { first: 4096, size, count: 60, depth, pause: Nanos::new(pause), flush: true };
                let (aligned, end) = write(Drive::new(&profile), &stream);
                for offset in 1..8 {
                    let stream = Stream { first: stream.first + offset, ..stream };
                    let (straddling, later) = write(Drive::new(&profile), &stream);
                    check(&aligned, &straddling, 4096, &(name, stream));
                    // The two reads, and the delay that each causes for the write behind it.
                    let turn = Nanos::new(straddling.counters.revolution);
                    assert!(
                        later <= end + turn + turn + turn + turn + turn,
                        "{end} {later}: {name} {stream:?}"
                    );
                }
            }
        }
    }
}

/// A file's pages arrive out of order: each write but the first completes a sector of one that waits for
/// room.
#[test]
fn the_order_in_the_queue_does_not_matter() {
    let profile = Profile::open("wd10ears").unwrap();
    let run = |shift: u64| {
        let mut host = Host::new(Drive::new(&profile), 100_000);
        // Two of every four are exchanged.
        for id in 0..60_u64 {
            let place = if id % 4 == 1 || id % 4 == 2 { id ^ 3 } else { id };
            let at = host.wait(31);
            let offset = (4096 + shift) * SECTOR + place * (504 << 10);
            host.submit(
                at,
                Request::new(id, Operation::Write, ByteOffset::new(offset), ByteCount::new(504 << 10)),
            );
        }
        host.wait(0);
        host.finish()
    };
    let aligned = run(0);
    for shift in 1..8 {
        let straddling = run(shift);
        check(&aligned, &straddling, 4096, &shift);
    }
}

/// Partial sectors do not wait for a rest that does not come: single writes are written as usual, whole or
/// not.
#[test]
fn a_single_write_is_read_at_both_ends_and_does_not_stay() {
    for name in SHIPPED {
        let profile = Profile::open(name).unwrap();
        for size in [4096, 8192, 64 << 10, 1 << 20] {
            for flush in [false, true] {
                let stream = Stream { first: 4097, size, count: 1, depth: 1, pause: Nanos::ZERO, flush };
                let (run, _) = write(Drive::new(&profile), &stream);
                assert_eq!(run.counters.rmw_reads, 2, "{name} {stream:?}");
                let stored: u64 = run.media().map(stored).sum();
                assert_eq!(stored, size, "{name} {stream:?}");
            }
        }
    }
}

fn stored(event: straddle_drive::MediaEvent) -> u64 {
    if let straddle_drive::MediaEvent::Stored { length, .. } = event { length } else { 0 }
}

proptest! {
    #![proptest_config(config(300))]

    /// On any disk whose writes complete before they are on the medium.
    #[test]
    fn a_stream_costs_what_an_aligned_one_does(
        shape in shapes(), size in 16_u64..64, parts in 1_u64..8, count in 2_u64..12, offset in 1_u64..8,
        depth in 1_usize..40, pause in 0_u64..200_000, flush: bool,
    ) {
        let policy = match shape.policy {
            "immediate-serial" | "destage-serial" => "destage-serial",
            "immediate-merged" | "destage-merged" => "destage-merged",
            other => other,
        };
        let shape = Shape {
            capacity: 8 << 20, physical: 4096, firmware_offset: 0, write_cache: true, policy, kept: Kept::Nothing,
            reads_from_cache: false, kept_written: 0, ..shape
        };
        let size = size * 4096 + parts * SECTOR;
        let stream = Stream { first: 8, size, count, depth, pause: Nanos::new(pause), flush };
        prop_assume!((stream.first + 8) * SECTOR + size * count <= shape.capacity);
        let whole = Stream { size: size.next_multiple_of(4096), count, ..stream };
        let (aligned, _) = write(shape.drive(), &Stream { count: (size * count).div_ceil(whole.size), ..whole });
        let stream = Stream { first: stream.first + offset, ..stream };
        let (straddling, _) = write(shape.drive(), &stream);
        let reads = straddling.counters.rmw_reads;
        prop_assert!(reads <= 2, "{} reads: {:?}", reads, stream);
        let (aligned, straddling) = (work(&aligned, 4096).0, work(&straddling, 4096).0);
        prop_assert!(straddling <= aligned + 3, "{} against {}: {:?}", straddling, aligned, stream);
    }
}
