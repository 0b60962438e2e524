//! Shingled recording: bands that are only written as a whole, and the log before them.

use super::common::Host;
use super::common::shape::{Kept, Shape};
use super::{BLOCK, TURN, host};
use straddle_drive::{Drive, Profile};
use straddle_units::io::{
    Nanos,
    Operation::{Write, WriteFua},
    SplitMix64,
};

/// Physical sectors of a band; a track has 50.
const BAND: u64 = 40;

fn with_bands(sectors: u64) -> Host {
    let kept = Kept::Bands(sectors * BLOCK, BAND);
    host(&Shape { kept, idle_ms: 1000, write_cache: true, ..Shape::default() })
}

/// Also whole sectors go to the log: one written in place would destroy its neighbours.
#[test]
fn a_sector_is_written_with_its_band() {
    let mut host = with_bands(64);
    host.serve(WriteFua, 10 * BLOCK, BLOCK);
    let counters = *host.drive.counters();
    assert_eq!((counters.media_write_bytes, counters.rmw_reads), (BLOCK, 0));
    host.pass(host.drive.now() + Nanos::new(1_000_000_000 + 8 * TURN));
    let counters = *host.drive.counters();
    assert_eq!((counters.rmw_reads, counters.rmw_read_bytes), (1, BAND * BLOCK));
    assert_eq!(counters.media_write_bytes, (1 + BAND) * BLOCK);
    assert_eq!(host.drive.next_event(), None);
}

/// Parts of one band are put in place together.
#[test]
fn a_band_is_written_once_for_all_its_parts() {
    let mut host = with_bands(64);
    for index in 0..10 {
        host.serve(WriteFua, (41 + 3 * index) * BLOCK, BLOCK);
    }
    host.pass(host.drive.now() + Nanos::new(1_000_000_000 + 40 * TURN));
    let counters = *host.drive.counters();
    assert_eq!((counters.rmw_reads, counters.media_write_bytes), (1, (10 + BAND) * BLOCK));
}

/// A stream is written in place from the next band on.
#[test]
fn a_stream_needs_no_log() {
    let mut host = with_bands(64);
    for index in 0..80 {
        host.serve(WriteFua, (20 + index) * BLOCK, BLOCK);
    }
    host.pass(host.drive.now() + Nanos::new(1_000_000_000 + 20 * TURN));
    let counters = *host.drive.counters();
    // 20 sectors before the first band go to the log, and their band is written with them.
    assert_eq!((counters.rmw_reads, counters.media_write_bytes), (1, (20 + BAND + 60) * BLOCK));
}

/// With a full log, each write waits for a band: the log is read, then the band, which passes again a revolution
/// later.
#[test]
fn without_room_a_band_is_written_at_once() {
    let mut host = with_bands(4);
    let mut write = |index: u64| host.serve(WriteFua, (5 + BAND * index) * BLOCK, BLOCK).get();
    (0..4).for_each(|index| _ = write(index));
    let took: u64 = (4..12).map(&mut write).sum();
    assert!(took > 8 * 2 * TURN, "{took}");
    let counters = *host.drive.counters();
    assert!(counters.rmw_reads >= 8, "{counters:?}");
    assert_eq!(counters.rmw_read_bytes, counters.rmw_reads * BAND * BLOCK);
}

/// The 8 TB drive, with a smaller log, takes random writes at the speed of its log until that is full; then each
/// waits for a band of 26 MiB, which is read and written in about a third of a second.
#[test]
fn random_writes_are_fast_until_the_area_is_full() {
    let text =
        include_str!("../../../profiles/smr-8tb.toml").replace("value = 1024000000", "value = 8192000");
    let profile = Profile::parse("smr-8tb", &text, &[]).unwrap();
    let mut host = Host::new(Drive::new(&profile), 10_000_000);
    let mut random = SplitMix64::new(1);
    let mut rate = |count: u32| {
        let start = host.drive.now();
        for _ in 0..count {
            host.serve(Write, random.below(profile.claims.capacity / BLOCK) * BLOCK, BLOCK);
        }
        f64::from(count) / host.drive.now().since(start).seconds()
    };
    // The drive begins to put bands in place when three quarters are taken.
    let fast = rate(1000);
    rate(1500);
    let slow = rate(200);
    assert!(fast > 500.0 && (1.0..10.0).contains(&slow), "{fast} and {slow} writes a second");
}
