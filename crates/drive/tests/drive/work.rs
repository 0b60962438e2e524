//! The work on the medium, counted by the drive and, independently, by this test from the media events.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use crate::tests::common;

use std::collections::{BTreeMap, BTreeSet};

use common::shape::{Kept, POLICIES, Shape, shapes};
use common::{Run, SECTOR, Wish, config, operations, run, wishes};
use proptest::prelude::*;
use straddle_drive::MediaEvent;
use straddle_units::io::{Operation, Request};

/// The spans that each operation wrote to the medium, in bytes as the platters count them.
fn operations_on_the_medium(shape: &Shape, run: &Run) -> Vec<Vec<(u64, u64)>> {
    let mut all: Vec<Vec<(u64, u64)>> = Vec::new();
    let mut ended = true;
    for event in run.media() {
        match event {
            MediaEvent::Storing { offset, length, .. } => {
                if std::mem::take(&mut ended) {
                    all.push(Vec::new());
                }
                let start = offset + shape.firmware_offset;
                all.last_mut().unwrap().push((start, start + length));
            }
            MediaEvent::Stored { .. } => ended = true,
            MediaEvent::Discarded { .. } => {}
        }
    }
    all
}

/// The bytes that an operation contributes to each physical sector.
fn brought(shape: &Shape, spans: &[(u64, u64)]) -> BTreeMap<u64, u64> {
    let mut brought = BTreeMap::new();
    for (start, end) in spans {
        for byte in (*start..*end).step_by(512) {
            *brought.entry(byte / shape.physical).or_default() += SECTOR;
        }
    }
    brought
}

fn total(run: &Run, which: impl Fn(&Request) -> bool) -> (u64, u64) {
    let chosen = run.requests.iter().map(|(_, request)| request).filter(|request| which(request));
    chosen.fold((0, 0), |(count, bytes), request| (count + 1, bytes + request.length.get()))
}

fn check_host(run: &Run) {
    let counters = &run.counters;
    let reads = total(run, |request| request.operation == Operation::Read);
    let writes = total(run, |request| request.operation.is_write());
    assert_eq!((counters.host_reads, counters.host_read_bytes), reads);
    assert_eq!((counters.host_writes, counters.host_write_bytes), writes);
    assert_eq!(counters.host_flushes, total(run, |request| request.operation == Operation::Flush).0);
    assert_eq!(counters.host_discards, total(run, |request| request.operation == Operation::Discard).0);
    assert!(counters.merged_writes <= counters.host_writes && counters.cache_hits <= counters.host_reads);
}

/// Checks every physical sector written, and every one read to complete a partial sector.
fn check_medium(shape: &Shape, run: &Run) {
    let counters = &run.counters;
    let (mut written, mut partial, mut stored) = (0, 0, 0);
    let operations = operations_on_the_medium(shape, run);
    for spans in &operations {
        let sectors = brought(shape, spans);
        let (first, last) = (sectors.keys().next().unwrap(), sectors.keys().next_back().unwrap());
        assert_eq!(last - first + 1, sectors.len() as u64, "one operation, one run of sectors: {spans:?}");
        written += sectors.len() as u64;
        partial += sectors.values().filter(|bytes| **bytes != shape.physical).count() as u64;
        stored += spans.iter().map(|(start, end)| end - start).sum::<u64>();
    }
    assert_eq!(counters.media_write_bytes, written * shape.physical);
    assert_eq!(counters.destages, operations.len() as u64);
    assert_eq!(counters.rmw_read_bytes, counters.rmw_reads * shape.physical);
    if shape.reads_from_cache || shape.kept_written > 0 {
        // What is in memory need not be read.
        assert!(shape.policy == "deferred" || counters.rmw_reads <= partial);
    } else if shape.policy == "deferred" {
        // A later write may complete a sector that was read for its rest; that read was wasted.
        assert!(counters.rmw_reads >= partial, "{} reads for {partial} partial sectors", counters.rmw_reads);
    } else {
        assert_eq!(counters.rmw_reads, partial);
    }
    // Each byte of a write is stored once, unless a later write of the same place finds it still in the
    // buffer.
    assert!(stored <= counters.host_write_bytes);
    assert!(counters.merged_writes > 0 || stored == counters.host_write_bytes);
}

/// A sector that was read for its rest and then written is read again for the next partial write to it, even
/// if that write joins an extent whose other end was read.
#[test]
fn a_sector_that_was_written_is_read_again() {
    let shape = Shape {
        firmware_offset: 5 * SECTOR,
        link_mb_s: 20.0,
        completion_overhead_us: 8,
        queue_depth: 1,
        rpm: 7200.0,
        zones: vec![(1, 6)],
        write_cache: true,
        cache_bytes: 4096,
        extents: 1,
        window: 1,
        ..Shape::default()
    };
    for (first, sectors) in (0..24).flat_map(|first| (1..9).map(move |sectors| (first, sectors))) {
        let wishes = [Wish::new(Operation::Write, 12, 8), Wish::new(Operation::Write, first, sectors)];
        check_medium(&shape, &run(&shape, &wishes, 1));
    }
}

proptest! {
    #![proptest_config(config(500))]

    #[test]
    fn the_counters_are_what_happened(shape in shapes(), wishes in wishes(operations(true), 60), depth in 1_usize..40) {
        let run = run(&shape, &wishes, depth);
        check_host(&run);
        let counters = &run.counters;
        prop_assert_eq!((counters.media_read_bytes | counters.media_write_bytes) % shape.physical, 0);
        prop_assert!(counters.rmw_read_bytes <= counters.media_read_bytes);
        if !matches!(shape.kept, Kept::MediaCache(_) | Kept::Log(_) | Kept::Bands(..)) && counters.host_discards == 0 {
            check_medium(&shape, &run);
        }
    }

    /// Only data that was written is stored.
    #[test]
    fn every_byte_that_is_stored_was_written(shape in shapes(), wishes in wishes(operations(false), 60), depth in 1_usize..40) {
        let run = run(&shape, &wishes, depth);
        let writes = run.requests.iter().filter(|(_, request)| request.operation.is_write());
        let sectors = |start: u64, length: u64| start / SECTOR..(start + length) / SECTOR;
        let sent: BTreeSet<u64> = writes.flat_map(|(_, write)| sectors(write.offset.get(), write.length.get())).collect();
        let stored: BTreeSet<u64> = run.media().filter_map(|event| match event {
            MediaEvent::Stored { offset, length, .. } => Some(sectors(offset, length)),
            _ => None,
        }).flatten().collect();
        prop_assert_eq!(sent, stored);
    }

    /// The same writes of whole physical sectors, each sector written at most once, never cost less when
    /// shifted by 512 bytes.
    #[test]
    fn straddling_never_costs_less(
        shape in shapes(), blocks in prop::collection::btree_map(0_u64..250, 1_u64..6, 1..40), order: u64, depth in 1_usize..40,
        fua: bool, flush: bool,
    ) {
        // With bands, what is written where depends on the place.
        let kept = if let Kept::Bands(bytes, _) = shape.kept { Kept::Log(bytes) } else { shape.kept };
        let shape = Shape { physical: 4096, firmware_offset: 0, kept, ..shape };
        let (mut wishes, mut free) = (Vec::new(), 0);
        for (first, blocks) in blocks {
            let (start, end) = (first.max(free), (first + blocks).min(254));
            if start < end {
                let operation = if fua { Operation::WriteFua } else { Operation::Write };
                wishes.push(Wish::new(operation, start * 8, (end - start) * 8));
                free = end;
            }
        }
        let count = wishes.len();
        for index in 0..count {
            let other = usize::try_from(order.rotate_left(u32::try_from(index).unwrap())).unwrap() % count;
            wishes.swap(index, other);
        }
        if flush {
            wishes.insert(count / 2, Wish::new(Operation::Flush, 0, 1));
        }
        let work = |policy: &'static str, shift: u64| {
            let shape = Shape { policy, ..shape.clone() };
            let shifted: Vec<_> = wishes.iter().map(|wish| Wish { first: wish.first + shift, ..*wish }).collect();
            let run = run(&shape, &shifted, depth);
            (run.counters.media_read_bytes + run.counters.media_write_bytes, run.counters.rmw_reads)
        };
        for policy in POLICIES {
            let (aligned, straddling) = (work(policy, 0), work(policy, 1));
            prop_assert_eq!(aligned.1, 0);
            prop_assert!(straddling.0 > aligned.0 && straddling.1 > 0, "{}: {:?} {:?}", policy, aligned, straddling);
        }
    }
}
