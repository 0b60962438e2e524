//! Where the heads stay after a flush. The disk is that of `mechanics.rs`: 10 ms per revolution, 50 sectors per
//! track.

use super::common::Host;
use super::common::shape::Shape;
use super::{BLOCK, OVERHEAD, SECTOR, TURN, host};
use straddle_units::io::Operation::{Flush, Read, Write};

/// A disk that has written block 20, by 4.2 ms, for a flush, which completes 0.1 ms later.
fn flushed(stays_after_flush: bool) -> Host {
    let mut host = host(&Shape { write_cache: true, stays_after_flush, ..Shape::default() });
    host.serve(Write, 20 * BLOCK, BLOCK);
    host.serve(Flush, 0, 0);
    assert!(host.drive.now().get().abs_diff(21 * SECTOR + OVERHEAD) < 50, "{}", host.drive.now());
    host
}

/// When the heads could be on `track` at the earliest, after what `before` does.
fn arrival(stays: bool, track: u64, before: impl Fn(&mut Host)) -> u64 {
    let read = |sector: u64| {
        let mut host = flushed(stays);
        before(&mut host);
        host.serve(Read, (track * 50 + sector) * BLOCK, BLOCK);
        host.drive.now().get() - SECTOR
    };
    (0..50).map(read).min().unwrap()
}

/// Asserts that the heads arrive at `expected`: the remainder is the time of the commands, and the wait for a
/// sector to begin.
#[track_caller]
fn assert_arrival(arrival: u64, expected: u64) {
    assert!(
        (expected..=expected + 2 * OVERHEAD + SECTOR + 50).contains(&arrival),
        "{arrival}, not {expected}"
    );
}

/// Track 1 is the other surface, 0.5 ms away; track 2 the next cylinder, 1 ms away. The index passes at 10 ms.
#[test]
fn after_a_flush_the_heads_leave_their_track_when_the_index_has_passed() {
    let written = 21 * SECTOR;
    for (track, away) in [(1, 500_000), (2, 1_000_000)] {
        assert_arrival(arrival(false, track, |_| {}), written + away);
        assert_arrival(arrival(true, track, |_| {}), TURN + away);
    }
}

#[test]
fn on_its_track_a_flush_costs_nothing_more() {
    for stays in [false, true] {
        let mut host = flushed(stays);
        host.serve(Read, 30 * BLOCK, BLOCK);
        assert!(host.drive.now().get().abs_diff(31 * SECTOR) < 50, "{}", host.drive.now());
    }
}

/// A flush that has nothing to write neither holds the heads nor releases them.
#[test]
fn an_empty_flush_changes_nothing() {
    let again = |host: &mut Host| {
        host.serve(Flush, 0, 0);
    };
    assert_arrival(arrival(true, 2, again), TURN + 1_000_000);
    let later = |host: &mut Host| {
        host.serve(Read, 10 * BLOCK, BLOCK);
        host.serve(Flush, 0, 0);
    };
    assert_arrival(arrival(true, 2, later), TURN + 11 * SECTOR + 1_000_000);
}
