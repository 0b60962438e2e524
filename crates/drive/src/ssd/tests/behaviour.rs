//! Each test checks one fact of the model.

use super::*;
use straddle_units::io::SplitMix64;
use straddle_units::{ByteCount, ByteOffset};

const UNIT: u64 = 4096;
const PAGE: u64 = 16384;
const PROGRAM: Nanos = Nanos::new(500_000);
const READ: Nanos = Nanos::new(50_000);

fn coarse() -> FlashFile {
    FlashFile { indirection_unit_bytes: 16384, pages_per_block: 16, ..small() }
}

fn full(file: FlashFile) -> FlashFile {
    FlashFile { start: FlashStart::InOrder, ..file }
}

#[test]
fn a_write_is_over_when_it_is_in_the_buffer() {
    let mut bench = Bench::new(&small(), CAPACITY);
    let time = bench.write(0, UNIT);
    // Write overhead, 4 KiB at 500 MiB/s, completion overhead.
    assert_eq!(time, Nanos::new(1_000 + 7_813 + 500));
    assert_eq!(bench.counters().media_write_bytes, 0);
}

#[test]
fn a_flush_waits_until_everything_is_programmed() {
    let mut bench = Bench::new(&small(), CAPACITY);
    bench.write(0, UNIT);
    let time = bench.flush();
    assert!(time >= PROGRAM && time < Nanos::new(2 * PROGRAM.get()), "the flush took {time}");
    let counters = bench.counters();
    // A whole page is programmed for one unit: the padding counts.
    assert_eq!((counters.unit_write_bytes, counters.media_write_bytes), (PAGE, PAGE));
    assert_eq!(bench.ssd.buffer.used, 0);
    assert!(bench.flush() < PROGRAM, "nothing is left to flush");
}

#[test]
fn a_flush_waits_for_what_is_being_programmed_too() {
    let mut bench = Bench::new(&small(), CAPACITY);
    bench.write(0, PAGE);
    let time = bench.flush();
    assert!(time >= PROGRAM.saturating_sub(Nanos::new(20_000)), "the flush took {time}");
    assert_eq!(bench.counters().media_write_bytes, PAGE);
}

#[test]
fn commands_after_a_flush_wait_for_it() {
    let mut bench = Bench::new(&small(), CAPACITY);
    bench.write(0, UNIT);
    bench.ssd.submit(bench.now, Request::flush(100));
    bench.ssd.submit(
        bench.now,
        Request::new(101, Operation::Read, ByteOffset::new(1 << 20), ByteCount::new(UNIT)),
    );
    let mut done = Vec::new();
    while done.len() < 2 {
        let next = bench.ssd.next_event().unwrap();
        bench.ssd.advance(next, &mut done);
    }
    assert_eq!(done.iter().map(|done| done.id.0).collect::<Vec<_>>(), [100, 101]);
    assert!(done[1].at > done[0].at);
}

#[test]
fn forced_writes_are_programmed_first() {
    let mut bench = Bench::new(&small(), CAPACITY);
    let time = bench.run(Operation::WriteFua, 0, UNIT);
    assert!(time >= PROGRAM && time < Nanos::new(2 * PROGRAM.get()), "{time}");
    assert_eq!(bench.counters().media_write_bytes, PAGE);
}

#[test]
fn capacitors_spare_the_waiting() {
    let mut bench = Bench::new(&FlashFile { power_loss_protection: true, ..small() }, CAPACITY);
    assert!(bench.run(Operation::WriteFua, 0, UNIT) < PROGRAM);
    assert!(bench.flush() < PROGRAM);
    assert_eq!(bench.counters().media_write_bytes, 0);
}

#[test]
fn the_buffer_drains_by_itself() {
    let mut bench = Bench::new(&full(coarse()), CAPACITY);
    bench.ssd.record.media_events.get_or_insert_default();
    bench.write(512, 512);
    bench.write(1 << 20, 16384);
    bench.idle();
    assert!(bench.now.since(Time::ZERO) >= Nanos::from_millis(100.0).unwrap());
    let counters = bench.counters();
    assert_eq!((counters.rmw_reads, counters.unit_write_bytes), (1, 2 * 16384));
    assert_eq!(bench.ssd.buffer.used, 0);
    let stored: u64 = bench
        .ssd
        .record
        .media_events
        .as_mut()
        .map(std::mem::take)
        .unwrap_or_default()
        .iter()
        .map(stored_bytes)
        .sum();
    assert_eq!(stored, 512 + 16384, "exactly what the host wrote");
}

fn stored_bytes(event: &MediaEvent) -> u64 {
    if let MediaEvent::Stored { length, .. } = event { *length } else { 0 }
}

#[test]
fn writes_round_outward_to_units() {
    const IU: u64 = 16384;
    let cases = [
        // offset, length, units written, units read before
        (0, IU, 1, 0),
        (0, 512, 1, 1),
        (IU - 512, 512, 1, 1),
        (IU, 512, 1, 1),
        (IU - 512, 1024, 2, 2),
        (IU, IU, 1, 0),
        (IU, IU + 512, 2, 1),
        (IU - 512, IU + 512, 2, 1),
        (IU - 512, IU + 1024, 3, 2),
        (512, 2 * IU, 3, 2),
        (CAPACITY - 512, 512, 1, 1),
        (CAPACITY - IU, IU, 1, 0),
    ];
    for (offset, length, units, reads) in cases {
        let mut bench = Bench::new(&full(coarse()), CAPACITY);
        bench.write(offset, length);
        bench.flush();
        let counters = bench.counters();
        let written = counters.unit_write_bytes / IU;
        assert_eq!((written, counters.rmw_reads), (units, reads), "{length} bytes at {offset}");
        assert_eq!(counters.rmw_read_bytes, reads * IU);
        assert_eq!(counters.media_read_bytes, counters.rmw_read_bytes);
        bench.ssd.assert_consistent();
    }
}

#[test]
fn what_was_never_written_needs_no_reading() {
    let mut bench = Bench::new(&coarse(), CAPACITY);
    bench.write(512, 512);
    bench.flush();
    assert_eq!((bench.counters().rmw_reads, bench.counters().unit_write_bytes), (0, 16384));
    bench.write(512, 512);
    bench.flush();
    assert_eq!((bench.counters().rmw_reads, bench.counters().unit_write_bytes), (1, 2 * 16384));
}

#[test]
fn parts_of_a_unit_meet_in_the_buffer() {
    let mut bench = Bench::new(&full(coarse()), CAPACITY);
    for part in 0..4 {
        bench.write(part * 4096, 4096);
    }
    bench.flush();
    let counters = bench.counters();
    assert_eq!((counters.rmw_reads, counters.merged_writes), (0, 3));
    assert_eq!((counters.unit_write_bytes, counters.destages), (16384, 1));
}

#[test]
fn the_last_unit_may_be_cut_off() {
    let capacity = CAPACITY - 8192;
    let mut bench = Bench::new(&full(coarse()), capacity);
    bench.ssd.record.media_events.get_or_insert_default();
    let start = capacity / 16384 * 16384;
    bench.write(start, capacity - start);
    bench.flush();
    assert_eq!(bench.counters().rmw_reads, 0, "there is nothing else in it");
    bench.run(Operation::Discard, start, capacity - start);
    let at = bench.ssd.record.media_events.as_mut().map(std::mem::take).unwrap_or_default();
    assert!(
        matches!(at.last(), Some(MediaEvent::Discarded { offset, length: 8192, .. }) if *offset == start)
    );
    bench.ssd.assert_consistent();
}

#[test]
fn a_discard_takes_whole_units_only() {
    let mut bench = Bench::new(&full(coarse()), CAPACITY);
    bench.ssd.record.media_events.get_or_insert_default();
    let units = bench.ssd.mapped();
    bench.run(Operation::Discard, 0, 16384 - 512);
    bench.run(Operation::Discard, 512, 16384);
    assert_eq!(bench.ssd.mapped(), units);
    assert!(bench.ssd.record.media_events.as_mut().map(std::mem::take).unwrap_or_default().is_empty());
    bench.run(Operation::Discard, 16384 - 512, 2 * 16384 + 1024);
    assert_eq!(bench.ssd.mapped(), units - 2);
    let events = bench.ssd.record.media_events.as_mut().map(std::mem::take).unwrap_or_default();
    assert!(matches!(events[..], [MediaEvent::Discarded { offset: 16384, length: 32768, .. }]), "{events:?}");
    bench.ssd.assert_consistent();
    // Discarded units are answered from the mapping table. Kept ones come from flash, including a partly
    // discarded one.
    let read = bench.counters().media_read_bytes;
    assert!(bench.run(Operation::Read, 16384, 512) < READ);
    assert_eq!(bench.counters().media_read_bytes, read);
    assert!(bench.run(Operation::Read, 16384 - 512, 512) >= READ);
    assert_eq!(bench.counters().media_read_bytes, read + 4096);
}

#[test]
fn a_discard_drops_what_is_in_the_buffer_but_no_parts() {
    let mut bench = Bench::new(&coarse(), CAPACITY);
    bench.write(0, 512);
    bench.write(16384, 512);
    bench.run(Operation::Discard, 0, 16384 + 1024);
    bench.flush();
    assert_eq!(bench.counters().unit_write_bytes, 16384);
    assert_eq!(bench.ssd.mapped(), 1);
    assert!(bench.ssd.mapping.get(Unit::new(1)).is_some());
    (2..8).for_each(|unit| _ = bench.write(unit * 16384, if unit % 2 == 0 { 512 } else { 16384 }));
    bench.run(Operation::Discard, 2 * 16384, 6 * 16384);
    bench.flush();
    assert_eq!(bench.ssd.mapped(), 1);
}

#[test]
fn a_whole_drive_can_be_discarded() {
    for file in [small(), full(small())] {
        let mut bench = Bench::new(&file, CAPACITY);
        bench.write(0, UNIT);
        bench.run(Operation::Discard, 0, CAPACITY);
        assert_eq!(bench.ssd.mapped(), 0);
        bench.ssd.assert_consistent();
    }
}

#[test]
fn reads_come_from_buffer_table_and_flash() {
    let mut bench = Bench::new(&small(), CAPACITY);
    assert!(bench.run(Operation::Read, 0, PAGE) < READ);
    bench.write(0, PAGE / 2);
    assert!(bench.run(Operation::Read, 0, PAGE / 2) < READ);
    assert_eq!((bench.counters().cache_hits, bench.counters().media_read_bytes), (1, 0));
    bench.write(PAGE / 2, PAGE / 2);
    bench.flush();
    // Four units in one page cost one read of the die.
    let time = bench.run(Operation::Read, 0, PAGE);
    assert!(time >= READ && time < Nanos::new(2 * READ.get() + 50_000), "{time}");
    assert_eq!((bench.counters().cache_hits, bench.counters().media_read_bytes), (1, PAGE));
    // Half a codeword still transfers all of it.
    bench.run(Operation::Read, 512, 512);
    assert_eq!(bench.counters().media_read_bytes, PAGE + 4096);
}

#[test]
fn a_unit_that_is_half_in_the_buffer_is_read_from_flash() {
    let mut bench = Bench::new(&full(coarse()), CAPACITY);
    bench.write(4096, 4096);
    assert!(bench.run(Operation::Read, 4096, 4096) < READ);
    assert!(bench.run(Operation::Read, 4096, 8192) >= READ);
    assert_eq!((bench.counters().cache_hits, bench.counters().media_read_bytes), (1, 8192));
}

#[test]
fn pages_are_striped_over_the_dies() {
    let time = |dies| {
        let mut bench = Bench::new(&FlashFile { dies, channels: dies, ..full(small()) }, CAPACITY);
        bench.run(Operation::Read, 0, 4 * PAGE)
    };
    let (alone, four) = (time(1), time(4));
    assert!(alone.get() > four.get() + 2 * READ.get(), "{alone} on one die, {four} on four");
}

#[test]
fn a_unit_may_span_pages() {
    let file = FlashFile { indirection_unit_bytes: 65536, ..small() };
    let mut bench = Bench::new(&full(file), CAPACITY);
    bench.run(Operation::WriteFua, 0, 512);
    let counters = bench.counters();
    assert_eq!((counters.rmw_read_bytes, counters.unit_write_bytes), (65536, 65536));
    bench.run(Operation::Read, 16384 - 512, 1024);
    assert_eq!(bench.counters().media_read_bytes, 65536 + 2 * 4096, "a codeword of each of two pages");
    bench.ssd.assert_consistent();
}

#[test]
fn writes_larger_than_the_buffer_pass_through_it() {
    let mut bench = Bench::new(&small(), CAPACITY);
    let time = bench.write(0, 4 << 20);
    assert!(bench.counters().media_write_bytes >= (4 << 20) - (256 << 10));
    // Four dies program 16 KiB in half a millisecond.
    assert!(time >= Nanos::from_millis(28.0).unwrap(), "{time}");
    bench.flush();
    assert_eq!(bench.counters().media_write_bytes, 4 << 20);
}

#[test]
fn commands_over_the_queue_depth_wait() {
    let parameters = SsdParameters::new(&full(small()), CAPACITY).unwrap();
    let mut ssd = Ssd::new(&parameters, Interface { queue_depth: 1, ..link() });
    for id in 0..4 {
        ssd.submit(
            Time::ZERO,
            Request::new(id, Operation::Read, ByteOffset::new(id * PAGE), ByteCount::new(UNIT)),
        );
    }
    assert_eq!(ssd.outstanding(), 4);
    let mut done = Vec::new();
    ssd.advance(Time::from_nanos(1_000_000), &mut done);
    assert_eq!(done.len(), 4);
    assert!(done.windows(2).all(|pair| pair[1].at.since(pair[0].at) >= READ), "{done:?}");
}

#[test]
fn a_channel_serves_its_dies_in_their_order() {
    let file = FlashFile { channels: 1, ..full(small()) };
    let mut ssd = Ssd::new(&SsdParameters::new(&file, CAPACITY).unwrap(), link());
    (0..4).for_each(|id| {
        ssd.submit(
            Time::ZERO,
            Request::new(id, Operation::Read, ByteOffset::new(id * PAGE), ByteCount::new(PAGE)),
        )
    });
    let mut done = Vec::new();
    ssd.advance(Time::from_nanos(1_000_000), &mut done);
    assert_eq!(done.iter().map(|done| done.id.0).collect::<Vec<_>>(), [0, 1, 2, 3]);
    // 16 KiB at 400 MB/s each.
    assert!(done.windows(2).all(|pair| pair[1].at.since(pair[0].at) >= Nanos::new(40_000)), "{done:?}");
}

#[test]
fn the_controller_takes_commands_one_by_one() {
    let file = FlashFile { command_us: 10.0, ..small() };
    let mut ssd = Ssd::new(&SsdParameters::new(&file, CAPACITY).unwrap(), link());
    (0..8).for_each(|id| {
        ssd.submit(Time::ZERO, Request::new(id, Operation::Read, ByteOffset::ZERO, ByteCount::new(512)))
    });
    let mut done = Vec::new();
    ssd.advance(Time::from_nanos(1_000_000), &mut done);
    assert!(done.windows(2).all(|pair| pair[1].at.since(pair[0].at) == Nanos::new(10_000)), "{done:?}");
}

#[test]
fn a_full_drive_is_as_one_that_was_written_in_order() {
    let written = {
        let mut bench = Bench::new(&small(), CAPACITY);
        (0..CAPACITY / PAGE).for_each(|page| _ = bench.write(page * PAGE, PAGE));
        bench.flush();
        bench
    };
    let made = Bench::new(&full(small()), CAPACITY);
    assert_eq!(written.counters().gc_write_bytes, 0);
    for unit in (0..made.ssd.layout.units).map(Unit::new) {
        assert_eq!(made.ssd.mapping.get(unit), written.ssd.mapping.get(unit), "{unit:?}");
    }
    made.ssd.assert_consistent();
    written.ssd.assert_consistent();
}

/// The bytes programmed per byte of the host over random writes of a unit, after `before` other ones.
#[allow(clippy::cast_precision_loss, reason = "a few GB")]
fn amplification(file: &FlashFile, before: u64) -> f64 {
    const WRITES: u64 = 40_000;
    let mut bench = Bench::new(file, 4 * CAPACITY);
    let mut random = SplitMix64::new(7);
    let mut write = |bench: &mut Bench| bench.write(random.below(4 * CAPACITY / UNIT) * UNIT, UNIT);
    (0..before).for_each(|_| _ = write(&mut bench));
    bench.ssd.assert_consistent();
    let start = bench.counters().media_write_bytes;
    (0..WRITES).for_each(|_| _ = write(&mut bench));
    bench.ssd.assert_consistent();
    (bench.counters().media_write_bytes - start) as f64 / (WRITES * UNIT) as f64
}

#[test]
fn a_steady_drive_is_as_one_after_long_random_writes() {
    for over_provisioning in [0.1, 0.25, 0.6] {
        let file = FlashFile { over_provisioning, ..full(small()) };
        let reached = amplification(&file, 200_000);
        let steady = amplification(&FlashFile { start: FlashStart::Steady, ..file }, 0);
        assert!((steady / reached - 1.0).abs() < 0.05, "{over_provisioning}: {steady}, not {reached}");
    }
}

#[test]
fn garbage_collection_keeps_every_unit() {
    for unit in [512, 4096, 16384, 65536] {
        let file = FlashFile { indirection_unit_bytes: unit, ..full(small()) };
        let mut bench = Bench::new(&file, CAPACITY);
        let units = CAPACITY / unit;
        for step in 0..units * 4 {
            bench.write(step * 7919 % units * unit, unit);
            if step % (units / 4) == 0 {
                bench.ssd.assert_consistent();
                assert_eq!(bench.ssd.mapped() as u64, units);
            }
        }
        bench.flush();
        let counters = bench.counters();
        assert!(counters.gc_write_bytes > 0 && counters.erases > 0, "no garbage was collected");
        assert!(counters.unit_write_bytes >= units * 4 * unit);
        bench.ssd.assert_consistent();
        assert_eq!(bench.ssd.mapped() as u64, units);
    }
}

#[test]
fn overwriting_everything_in_order_collects_for_free() {
    let mut bench = Bench::new(&full(small()), CAPACITY);
    for _ in 0..4 {
        (0..CAPACITY / PAGE).for_each(|page| _ = bench.write(page * PAGE, PAGE));
    }
    bench.idle();
    let counters = bench.counters();
    let (collected, written) = (counters.gc_write_bytes, counters.unit_write_bytes);
    assert!(counters.erases > 0);
    assert!(collected * 20 < written, "{collected} bytes moved for {written} written");
}

#[test]
fn the_greedy_victim_has_the_fewest_valid_units() {
    let mut bench = Bench::new(&full(small()), CAPACITY);
    // Superblocks have 128 units: all but one unit of the third superblock becomes stale, and half of the
    // others.
    for unit in (0..512).filter(|unit| (256..383).contains(unit) || unit % 2 == 0) {
        bench.write(unit * UNIT, UNIT);
    }
    bench.flush();
    let fewest =
        (0..4).map(Superblock::new).map(|superblock| (bench.ssd.blocks.valid(superblock), superblock)).min();
    assert_eq!(bench.ssd.blocks.take_victim(), fewest.map(|fewest| fewest.1));
}

#[test]
fn the_host_keeps_step_with_garbage_collection() {
    let file = FlashFile { pages_per_block: 64, over_provisioning: 0.15, ..full(small()) };
    let mut bench = Bench::new(&file, 256 << 20);
    let units = (256 << 20) / UNIT;
    let (mut longest, mut random) = (Nanos::ZERO, SplitMix64::new(1));
    for step in 0..units * 2 {
        let time = bench.write(random.below(units) * UNIT, UNIT);
        longest = if step > units { longest.max(time) } else { longest };
    }
    // If the host were not kept in step, it would take 160 ms: the time to collect whole superblocks.
    assert!(longest < Nanos::from_millis(40.0).unwrap(), "a write took {longest}");
}

#[test]
fn erasures_are_counted_by_the_block() {
    let mut bench = Bench::new(&full(small()), CAPACITY);
    (0..CAPACITY / PAGE).for_each(|page| _ = bench.write(page * PAGE, PAGE));
    bench.idle();
    assert!(bench.counters().erases > 0 && bench.counters().erases.is_multiple_of(4));
}

#[test]
fn the_end_of_time_is_no_trap() {
    for end in [u64::MAX, u64::MAX - 10, u64::MAX >> 4, (u64::MAX >> 4) - 1_000_000] {
        let mut ssd = Ssd::new(&SsdParameters::new(&full(coarse()), CAPACITY).unwrap(), link());
        ssd.advance(Time::from_nanos(end), &mut Vec::new());
        ssd.submit(
            Time::from_nanos(end),
            Request::new(1, Operation::Write, ByteOffset::ZERO, ByteCount::new(512)),
        );
        ssd.submit(Time::from_nanos(end), Request::flush(2));
        ssd.advance(Time::NEVER, &mut Vec::new());
        assert_eq!(ssd.next_event(), None);
    }
}
