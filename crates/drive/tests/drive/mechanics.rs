//! The time of a request on moving parts, calculated by hand for a disk of 6000 rpm, 10 ms per revolution, 50
//! sectors per track.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use crate::tests::common;
#[path = "mechanics/flush.rs"]
mod flush;
#[path = "mechanics/intervals.rs"]
mod intervals;
#[path = "mechanics/partial.rs"]
mod partial;
mod shingled;

use common::shape::{POLICIES, Shape};
use common::{Host, Wish};
use straddle_drive::MediaEvent;
use straddle_units::io::{Nanos, Operation, Request, Time};
use straddle_units::{ByteCount, ByteOffset};

use Operation::{Flush, Read, Write, WriteFua};

const TURN: u64 = 10_000_000;
const SECTOR: u64 = TURN / 50;
const OVERHEAD: u64 = 100_000;
const BLOCK: u64 = 4096;

fn host(shape: &Shape) -> Host {
    Host::new(shape.drive(), 1_000_000)
}

/// Asserts that `time` is `expected` nanoseconds, give or take `slack`: rounding, and the few nanoseconds of
/// the link.
#[track_caller]
fn assert_about(time: Nanos, expected: u64, slack: u64) {
    assert!(time.get().abs_diff(expected) <= slack, "{} ns, not {expected}", time.get());
}

#[test]
fn the_same_sector_comes_round_once_a_turn() {
    for operation in [Read, Write, WriteFua] {
        let mut host = host(&Shape::default());
        host.serve(operation, 20 * BLOCK, BLOCK);
        for _ in 0..100 {
            assert_about(host.serve(operation, 20 * BLOCK, BLOCK), TURN, 3);
        }
    }
}

#[test]
fn the_next_sector_is_missed_by_the_overhead_and_no_more() {
    for operation in [Read, Write, WriteFua] {
        let mut host = host(&Shape::default());
        host.serve(operation, 0, BLOCK);
        // A sector takes 0.2 ms and the overhead is 0.1 ms: the sector after the next is the first that has
        // not passed.
        assert_about(host.serve(operation, 2 * BLOCK, BLOCK), 2 * SECTOR, 30);
        assert_about(host.serve(operation, 3 * BLOCK, BLOCK), TURN + SECTOR, 30);
    }
}

#[test]
fn a_track_takes_a_turn_and_the_next_one_the_skew() {
    // (skew in revolutions, revolutions between the tracks): a skew too short for the move costs one
    // revolution more.
    for (skew, between) in [(0.2, 0.2), (0.11, 0.11), (0.09, 1.09), (0.04, 1.04), (0.0, 1.0)] {
        let shape = Shape { surfaces: 1, skews: Some([skew; 3]), ..Shape::default() };
        for tracks in [1, 2, 3, 7, 20] {
            let mut host = host(&shape);
            host.serve(Read, 0, BLOCK);
            #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a few turns")]
            let between = (between * 1e7) as u64 * (tracks - 1);
            let expected = TURN - SECTOR + tracks * TURN + between;
            assert_about(host.serve(Read, 0, tracks * 50 * BLOCK), expected, 100);
        }
    }
}

/// The shortest time from track 0 to any sector of `track`, less the overhead and the sector's own time.
fn least_move(shape: &Shape, operation: Operation, track: u64) -> u64 {
    let per_track = shape.zones[0].1;
    let to = |sector: u64| {
        let mut host = host(shape);
        host.serve(operation, 0, BLOCK);
        host.serve(operation, (track * per_track + sector) * BLOCK, BLOCK).get()
    };
    (0..per_track).map(to).min().unwrap().saturating_sub(OVERHEAD + TURN / per_track)
}

#[test]
fn a_move_takes_the_time_of_its_distance_over_tracks_and_surfaces() {
    let shape = Shape { zones: vec![(140, 250)], capacity: 200 << 20, ..Shape::default() };
    let serpentine = Shape { width: 4, ..shape.clone() };
    let alternating = Shape { alternating: true, ..serpentine.clone() };
    let (switch, one, eight, far) = (500_000, 1_000_000, 1_500_000, 3_000_000);
    let between = |distance: u64| one + (eight - one) * (distance - 1) / 7;
    let expectations: [(&Shape, &[(u64, u64)]); 3] = [
        (
            &shape,
            &[
                (0, 0),
                (1, switch),
                (2, one),
                (3, one),
                (6, between(3)),
                (16, eight),
                (17, eight),
                (128, far),
                (200, far),
            ],
        ),
        (
            &serpentine,
            &[
                (1, one),
                (3, between(3)),
                (4, switch),
                (5, one),
                (7, between(3)),
                (8, between(4)),
                (12, between(4)),
            ],
        ),
        (
            &alternating,
            &[
                (3, between(3)),
                (4, between(3)),
                (6, one),
                (7, switch),
                (8, between(4)),
                (12, between(7)),
                (15, between(4)),
            ],
        ),
    ];
    for (shape, moves) in expectations {
        for (track, expected) in moves {
            for (operation, settle) in [(Read, 0), (Write, 100_000)] {
                let expected = if *track == 0 { 0 } else { expected + settle };
                let took = least_move(shape, operation, *track);
                // The remainder is the wait for the next sector to begin.
                assert!(
                    (expected..expected + TURN / 250 + 50).contains(&took),
                    "{operation:?} to track {track}: {took}, {expected}"
                );
            }
        }
    }
}

#[test]
fn part_of_a_sector_costs_a_turn_and_two_in_series_cost_two() {
    let of = |policy: &'static str, offset: u64, length: u64| {
        let mut host = host(&Shape { policy, ..Shape::default() });
        host.serve(Read, 0, BLOCK);
        let took = host.serve(Write, 10 * BLOCK + offset, length).get();
        (took, host.finish().counters.rmw_reads)
    };
    for policy in POLICIES {
        let series = if policy.ends_with("serial") || policy == "adaptive" { 2 } else { 1 };
        let (one, two) = (10 * SECTOR, 11 * SECTOR);
        // (offset in the sector, length) -> (end of the last sector, revolutions, sectors read)
        for (offset, length, end, turns, reads) in [
            (0, 4096, one, 0, 0),
            (0, 8192, two, 0, 0),
            (0, 512, one, 1, 1),
            (3584, 512, one, 1, 1),
            (1024, 2048, one, 1, 1),
            (0, 4608, two, 1, 1),
            (512, 7680, two, 1, 1),
            (512, 4096, two, series, 2),
            (3584, 1024, two, series, 2),
            (512, 8192, 12 * SECTOR, series, 2),
        ] {
            let (took, read) = of(policy, offset, length);
            assert_eq!(read, reads, "{policy}: {offset} + {length}");
            assert_about(Nanos::new(took), end + turns * TURN, 50);
        }
    }
}

/// A WD10EARS with pins 7-8 jumpered: the host's sector 63 begins a physical sector.
#[test]
fn the_firmware_adds_its_offset_to_every_address() {
    let shape = Shape { firmware_offset: 512, ..Shape::default() };
    for (sector, length, reads) in
        [(63, 4096, 0), (64, 4096, 2), (62, 4096, 2), (63, 512, 1), (7, 512, 1), (0, 3584, 1), (7, 8192, 0)]
    {
        let mut host = host(&shape);
        host.serve(Write, sector * 512, length);
        let counters = host.finish().counters;
        assert_eq!(counters.rmw_reads, reads, "sector {sector}, {length} bytes");
    }
    // The host's last sector lies one further on the platters, and exists.
    let mut host = host(&shape);
    host.serve(Write, shape.capacity - 512, 512);
    assert_eq!(host.finish().counters.media_write_bytes, 4096);
}

#[test]
fn a_full_queue_is_served_in_the_order_of_the_platter() {
    for operation in [Read, Write] {
        let mut host = host(&Shape::default());
        let start = host.drive.now();
        // The sector in front of the heads comes last: first come, first served would take 20 revolutions.
        for id in 0..20 {
            host.submit(
                start,
                Request::new(id, operation, ByteOffset::new((45 - 2 * id) * BLOCK), ByteCount::new(BLOCK)),
            );
        }
        let took = host.wait(0).since(start);
        assert!(took.get() <= 2 * TURN + OVERHEAD + SECTOR, "{took}");
    }
}

#[test]
fn the_cache_is_emptied_in_the_order_of_the_platter() {
    let mut host = host(&Shape { write_cache: true, ..Shape::default() });
    for id in 0..20_u64 {
        assert!(host.serve(Write, (45 - 2 * id) * BLOCK, BLOCK).get() < 2 * OVERHEAD);
    }
    let took = host.serve(Flush, 0, 0);
    assert!(took.get() <= 2 * TURN, "{took}");
}

#[test]
fn an_idle_drive_empties_its_cache_after_the_time_it_waits() {
    let mut host = host(&Shape { write_cache: true, idle_ms: 7, ..Shape::default() });
    host.serve(Write, 0, BLOCK);
    host.pass(Time::from_nanos(7_000_000 - 1));
    assert_eq!(host.drive.counters().media_write_bytes, 0);
    host.pass(Time::from_nanos(7_000_000 + 2 * TURN));
    assert_eq!(host.drive.counters().media_write_bytes, BLOCK);
}

fn with_read_ahead() -> Shape {
    Shape { segments: 2, segment_bytes: 64 * BLOCK, read_ahead_bytes: 32 * BLOCK, ..Shape::default() }
}

#[test]
fn reading_ahead_keeps_a_sequential_reader_on_the_track() {
    let mut host = host(&with_read_ahead());
    host.serve(Read, 0, BLOCK);
    let start = host.drive.now();
    for block in 1..=200 {
        host.serve(Read, block * BLOCK, BLOCK);
    }
    // Four tracks and four skews, without a lost revolution.
    let took = host.drive.now().since(start);
    let expected = 4 * (TURN + TURN / 5);
    assert!((expected - SECTOR..expected + OVERHEAD + SECTOR).contains(&took.get()), "{took}");
}

#[test]
fn reading_ahead_goes_on_until_the_heads_could_move() {
    // Three sectors and a half pass during the command, and no read after them is missed.
    let shape = Shape { read_overhead_us: 700, ..with_read_ahead() };
    for block in 1..=6 {
        let mut host = host(&shape);
        host.serve(Read, 0, BLOCK);
        assert_about(host.serve(Read, block * BLOCK, BLOCK), (block * SECTOR).max(7 * OVERHEAD), 30);
    }
}

#[test]
fn reading_ahead_stops_where_the_profile_says_and_at_the_last_track() {
    // Eleven tracks on both surfaces, and a capacity that uses all of them.
    let shape = Shape { capacity: 1100 * BLOCK, ..with_read_ahead() };
    for (block, ahead) in [(0, 32), (700, 32), (1090, 9), (1099, 0)] {
        let mut host = host(&shape);
        host.serve(Read, block * BLOCK, BLOCK);
        host.pass(Time::from_nanos(20 * TURN));
        // The position of the heads is only computed when there is something to do.
        host.serve(Write, 300 * BLOCK, BLOCK);
        assert_eq!(host.finish().counters.media_read_bytes, (1 + ahead) * BLOCK, "block {block}");
    }
}

#[test]
fn what_was_written_is_not_read_from_the_segments() {
    let shape = Shape { write_cache: true, ..with_read_ahead() };
    // While the drive still reads ahead, and long after it has stopped; at both ends of the segment and
    // inside it.
    for (pause, block) in [(0, 3), (0, 9), (20 * TURN, 3), (20 * TURN, 0), (20 * TURN, 30)] {
        let mut host = host(&shape);
        host.serve(Read, 0, 10 * BLOCK);
        host.pass(host.drive.now() + Nanos::new(pause));
        host.serve(Write, block * BLOCK, BLOCK);
        assert!(host.serve(Read, block * BLOCK, BLOCK).get() < 2 * OVERHEAD, "it is in the write buffer");
        host.serve(Flush, 0, 0);
        let before = host.drive.counters().cache_hits;
        host.serve(Read, block * BLOCK, BLOCK);
        assert_eq!(host.drive.counters().cache_hits, before, "block {block} after {pause} ns");
    }
}

#[test]
fn a_read_that_the_cache_holds_takes_no_turn() {
    let mut host = host(&with_read_ahead());
    host.serve(Read, 0, 10 * BLOCK);
    host.pass(host.drive.now() + Nanos::new(20 * TURN));
    for block in [0, 5, 9, 10, 30, 41] {
        assert!(host.serve(Read, block * BLOCK, BLOCK).get() < 2 * OVERHEAD, "block {block}");
    }
    assert!(host.serve(Read, 500 * BLOCK, BLOCK).get() > 2 * OVERHEAD);
}

/// The link is free while the arm moves and the platter turns.
#[test]
fn a_write_that_the_cache_takes_does_not_wait_for_a_read_in_progress() {
    let mut host = host(&Shape { write_cache: true, ..Shape::default() });
    host.submit(Time::ZERO, Request::new(0, Read, ByteOffset::new(40 * BLOCK), ByteCount::new(BLOCK)));
    host.submit(Time::ZERO, Request::new(1, Write, ByteOffset::ZERO, ByteCount::new(BLOCK)));
    let run = host.finish();
    assert!(run.times(1).1.get() < 2 * OVERHEAD, "{}", run.times(1).1);
}

/// Data is not on the medium before it can have crossed the link: 1 MB/s here, so 1 ms per kB.
#[test]
fn nothing_is_stored_before_it_has_arrived() {
    stored_after_arrival(false);
}

#[test]
fn nothing_is_stored_before_it_has_arrived_in_the_cache() {
    stored_after_arrival(true);
}

fn stored_after_arrival(write_cache: bool) {
    let mut host = host(&Shape { link_mb_s: 1.0, write_cache, ..Shape::default() });
    host.submit(Time::ZERO, Request::new(0, Write, ByteOffset::ZERO, ByteCount::new(16 * BLOCK)));
    let run = host.finish();
    let stored = run.media().find_map(|event| match event {
        MediaEvent::Stored { at, .. } => Some(at),
        _ => None,
    });
    assert!(stored.unwrap().get() >= 16 * BLOCK * 1000, "{stored:?}");
}

/// When request `far`, submitted third, ended beside a sequential reader that runs for 8 seconds.
fn beside_a_sequential_reader(shape: &Shape, far: Request, before: &[Request]) -> Time {
    let mut host = host(&Shape { capacity: 512 << 20, ..shape.clone() });
    for write in before {
        host.submit(Time::ZERO, *write);
    }
    let read = |id: u64| Request::new(id, Read, ByteOffset::new(id * 16 * BLOCK), ByteCount::new(16 * BLOCK));
    for request in [read(0), read(1), far, read(2)] {
        host.submit(Time::ZERO, request);
    }
    for id in 3..2000 {
        let at = host.wait(3);
        host.submit(at, read(id));
    }
    let run = host.finish();
    let index = run.requests.iter().position(|(_, request)| request.id == far.id).unwrap();
    run.times(index).1
}

/// No request that a host waits for is passed over for much more than a second: a read, a write to the
/// medium, and a write for which the cache has no room.
#[test]
fn a_sequential_reader_starves_nobody() {
    let far = 400 << 20;
    let cached = Shape { write_cache: true, ..with_read_ahead() };
    let full = Shape { extents: 2, ..cached.clone() };
    let fill: Vec<_> = (0..2)
        .map(|index| {
            Request::new(
                5000 + index,
                Write,
                ByteOffset::new(far + (index + 1) * (1 << 20)),
                ByteCount::new(BLOCK),
            )
        })
        .collect();
    for (shape, operation, before) in
        [(&cached, Read, &[][..]), (&cached, WriteFua, &[]), (&full, Write, &fill)]
    {
        let ended = beside_a_sequential_reader(
            shape,
            Request::new(9000, operation, ByteOffset::new(far), ByteCount::new(BLOCK)),
            before,
        );
        assert!(ended.get() < 1_300_000_000, "{operation:?}: {ended}");
    }
}

/// While the heads write the media cache, they do not read ahead.
#[test]
fn a_flush_to_the_media_cache_ends_the_reading_ahead() {
    let shape = Shape {
        write_cache: true,
        idle_ms: 1000,
        kept: common::shape::Kept::MediaCache(1 << 20),
        ..with_read_ahead()
    };
    let mut host = host(&shape);
    host.serve(Read, 0, BLOCK);
    for index in 0..20 {
        host.serve(Write, (600 + 9 * index) * BLOCK, 8 * BLOCK);
    }
    let read = host.drive.counters().media_read_bytes;
    let took = host.serve(Flush, 0, 0);
    assert!(took.get() > 2 * TURN, "{took}");
    host.serve(Read, 100 * BLOCK, BLOCK);
    // Reading ahead covers the sectors that passed before the flush, and the requested one, but none during
    // the flush.
    let ahead = (host.drive.counters().media_read_bytes - read) / BLOCK;
    assert!(ahead <= 3, "{ahead} sectors");
}

/// A write that waited for room does not take the link while another transfer has it.
#[test]
fn writes_that_waited_for_room_share_the_link() {
    let shape = Shape { link_mb_s: 1.0, write_cache: true, cache_bytes: 8 * BLOCK, ..Shape::default() };
    let mut host = host(&shape);
    let wishes: Vec<_> = (0..6).map(|index| Wish::new(Write, index * 400, 64)).collect();
    for (id, wish) in (0..).zip(&wishes) {
        host.submit(Time::ZERO, wish.request(id, shape.capacity));
    }
    let run = host.finish();
    let mut ends: Vec<u64> = run.completions.iter().map(|completion| completion.at.get()).collect();
    ends.dedup();
    assert!(ends.windows(2).all(|pair| pair[1] - pair[0] >= 64 * 512 * 1000 - 10), "{ends:?}");
}

/// Data that a flush leaves in the media cache is put in place later; data for which it has no room, at once.
#[test]
fn a_media_cache_takes_a_flush_that_fits() {
    // (sectors written, operations in place): with room for nine, the first is put in place and the others
    // are safe.
    for (room, at_flush, at_rest) in
        [(16, (10, 0), (20, 10)), (10, (10, 0), (20, 10)), (9, (10, 1), (19, 10)), (0, (10, 10), (10, 10))]
    {
        let kept = common::shape::Kept::MediaCache(room * BLOCK);
        let mut host = host(&Shape { write_cache: true, idle_ms: 50, kept, ..Shape::default() });
        for index in 0..10 {
            host.serve(Write, 20 * index * BLOCK, BLOCK);
        }
        host.serve(Flush, 0, 0);
        let work =
            |counters: &straddle_units::io::Counters| (counters.media_write_bytes / BLOCK, counters.destages);
        assert_eq!(work(host.drive.counters()), at_flush, "room for {room}");
        assert_eq!(work(&host.finish().counters), at_rest, "room for {room}");
    }
}

/// Five of six have been put in place: the sixth is only in the media cache, and there is no room beside it
/// for the next.
#[test]
fn a_flush_overwrites_nothing_that_only_the_media_cache_has() {
    for (placed, at_flush) in [(5, 6..=11), (6, 6..=6)] {
        let kept = common::shape::Kept::MediaCache(10 * BLOCK);
        let mut host = host(&Shape { write_cache: true, idle_ms: 50, kept, ..Shape::default() });
        for index in 0..6 {
            host.serve(Write, 20 * index * BLOCK, BLOCK);
        }
        host.serve(Flush, 0, 0);
        assert_eq!(host.drive.counters().destages, 0);
        while host.drive.counters().destages < placed {
            host.pass(host.drive.now() + Nanos::new(TURN / 10));
        }
        // The last of these is still in progress.
        host.pass(host.drive.now() + Nanos::new(placed / 6 * 3 * TURN));
        for index in 0..6 {
            host.serve(Write, (20 * index + 300) * BLOCK, BLOCK);
        }
        host.serve(Flush, 0, 0);
        let destages = host.drive.counters().destages;
        assert!(at_flush.contains(&destages), "with {placed} in place: {destages}");
    }
}

/// The drive cannot prepare a command that it has not taken yet.
#[test]
fn a_queue_of_one_begins_with_the_next_command_when_the_first_has_ended() {
    let both = |queue_depth: u32| {
        let mut host = host(&Shape { queue_depth, ..Shape::default() });
        host.serve(Read, 0, BLOCK);
        let start = host.drive.now();
        for id in [10, 11] {
            host.submit(start, Request::new(id, Read, ByteOffset::new(id * BLOCK), ByteCount::new(BLOCK)));
        }
        host.wait(0).since(start)
    };
    assert_about(both(2), 11 * SECTOR, 50);
    assert_about(both(1), 11 * SECTOR + TURN, 50);
}
