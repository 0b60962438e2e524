//! The adaptive policy: writes at regular intervals are gathered, others are not. The disk is that of
//! `mechanics.rs`: 10 ms per revolution, 50 sectors per track.

use super::common::shape::Shape;
use super::{BLOCK, TURN, host};
use straddle_units::io::Operation::{Flush, Write};

/// How long writes of a block take, 512 bytes past each of these blocks, with a flush at the end.
fn written(policy: &'static str, blocks: &[u64]) -> u64 {
    let mut host = host(&Shape { policy, write_cache: true, idle_ms: 50, ..Shape::default() });
    for block in blocks {
        host.serve(Write, block * BLOCK + 512, BLOCK);
    }
    host.serve(Flush, 0, 0);
    assert_eq!(host.drive.counters().rmw_reads, 2 * blocks.len() as u64, "{policy}");
    host.drive.now().get()
}

/// Twelve writes on one track, four blocks apart: gathered, the reads and the writes of all take a few
/// revolutions together, one after the other two each. The interval shows with the third write.
#[test]
fn writes_at_regular_intervals_are_gathered() {
    let series: Vec<u64> = (0..12).map(|index| 2 + 4 * index).collect();
    let [gathered, single, adaptive] =
        ["deferred", "destage-serial", "adaptive"].map(|policy| written(policy, &series));
    assert!(gathered <= 5 * TURN, "{gathered}");
    assert!(single >= 24 * TURN, "{single}");
    assert!(adaptive > gathered && adaptive <= gathered + 4 * TURN, "{adaptive} and {gathered}");
}

#[test]
fn scattered_writes_are_not() {
    let scattered = [2, 40, 7, 33, 12, 21, 45, 16, 28, 10, 37, 24];
    let distant: Vec<u64> = (0..12).map(|index| 2 + 51 * index).collect();
    for blocks in [&scattered[..], &distant] {
        let [gathered, single, adaptive] =
            ["deferred", "destage-serial", "adaptive"].map(|policy| written(policy, blocks));
        assert_eq!(adaptive, single);
        assert!(adaptive > gathered, "{adaptive} and {gathered}");
    }
}

/// Writes 512 bytes across each boundary between two sectors: one after the other, each sector is read twice,
/// and together once.
#[test]
fn neighbours_of_a_series_share_their_sectors() {
    let of = |policy: &'static str| {
        let mut host = host(&Shape { policy, write_cache: true, idle_ms: 50, ..Shape::default() });
        for block in 2..22 {
            host.serve(Write, block * BLOCK - 512, 1024);
        }
        host.serve(Flush, 0, 0);
        host.drive.now().get()
    };
    assert!(of("adaptive") <= of("deferred") + 4 * TURN, "{} and {}", of("adaptive"), of("deferred"));
}
