//! Logical partitions in new places: random tables, and shapes with figures worked out by hand.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use crate::tests::common;

use std::collections::BTreeMap;

use common::logical::mbr;
use common::{Memory, Random, Reading, seeds, stack_of, topology};
use straddle_layout::Role;
use straddle_repair::realign::{Realign, RealignError, Wanted, make};
use straddle_repair::{Change, Entry, Situation, Slot, Step, encode};
use straddle_units::{BlockSize, ByteOffset};

fn plan(disk: &Memory, wanted: &Wanted) -> Result<Realign, RealignError> {
    let (stack, topology) = (stack_of(disk, BlockSize::B512), topology("512e"));
    assert_eq!(stack.problems, [], "the disk that was made");
    make(&Situation { medium: disk, topology: &topology, stack: &stack, serial: None }, wanted)
}

/// The new table: number, start and number of sectors, and the record of a logical partition.
fn table(realign: &Realign) -> Vec<(u32, u64, u64, Option<u64>)> {
    let record = |entry: &Entry| match entry.slot {
        Slot::Logical { ebr } => Some(ebr.get()),
        _ => None,
    };
    let of = |e: &Entry| (e.number, e.start.get(), e.sectors.get(), record(e));
    realign.plan.table.partitions.iter().map(of).collect()
}

/// Writes the new table and reads it: the numbers, the types and the active flags are those of the old one, in
/// the places of the plan, and every record is in a sector of its own. The moves bring each partition there.
fn check(disk: &Memory, realign: &Realign) {
    let stack = stack_of(disk, BlockSize::B512);
    let mut after = disk.clone();
    for step in encode(&realign.plan, disk, &stack).unwrap() {
        if let Step::Write { at, new, .. } = step {
            after.put(at, &new);
        }
    }
    let found = stack_of(&after, BlockSize::B512);
    assert_eq!(found.problems, [], "{:?}", table(realign));
    let places: BTreeMap<u32, (u64, u64)> =
        table(realign).into_iter().map(|(n, start, sectors, _)| (n, (start * 512, sectors * 512))).collect();
    let expected = Reading::of(disk, BlockSize::B512).partitions.into_iter().map(|mut entry| {
        (entry.1, entry.2) = places[&entry.0];
        entry
    });
    let new = Reading::of(&after, BlockSize::B512).partitions;
    assert_eq!(new, expected.collect::<Vec<_>>());
    for partition in &found.partitions {
        let Role::Logical { ebr } = partition.role else { continue };
        let record = ebr.to_bytes(BlockSize::B512).unwrap();
        let is_in = |p: &&straddle_layout::Partition| {
            p.role != Role::Extended && p.span.start() <= record && record < p.span.end()
        };
        assert_eq!(found.partitions.iter().find(is_in), None, "the record of {}", partition.number);
    }
    let mut labels: BTreeMap<u64, (u32, u64)> = BTreeMap::new();
    let holds_data = |p: &&straddle_layout::Partition| p.role != Role::Extended;
    for p in stack.partitions.iter().filter(holds_data) {
        labels.extend((0..p.count.get()).map(|sector| (p.start.get() + sector, (p.number, sector))));
    }
    for one in &realign.moves {
        let (from, len, to) = (one.from.start().get() / 512, one.from.len().get() / 512, one.to.get() / 512);
        let moved: Vec<_> = (0..len).map(|sector| labels.get(&(from + sector)).copied()).collect();
        for (at, label) in (to..).zip(moved) {
            labels.insert(at, label.unwrap_or((0, 0)));
        }
    }
    for entry in realign.plan.table.partitions.iter().filter(|entry| entry.slot != Slot::Extended) {
        for sector in 0..entry.sectors.get() {
            assert_eq!(labels.get(&(entry.start.get() + sector)), Some(&(entry.number, sector)));
        }
        if entry.change != Change::Kept {
            assert!(realign.plan.grain.is_aligned(realign.plan.span(entry).unwrap().start()));
        }
    }
    assert_eq!(Realign::from_json(&realign.to_json().unwrap()).unwrap(), *realign);
}

/// Windows XP: a container behind a primary partition from sector 63, without a gap.
#[test]
fn the_container_gives_way() {
    let disk = mbr(
        204_800,
        &[(63, 64_197)],
        (64_260, 128_520),
        &[(64_260, 64_323, 64_197), (128_520, 128_583, 64_197)],
    );
    let realign = plan(&disk, &Wanted::default()).unwrap();
    check(&disk, &realign);
    // 2048 + 64197 = 66245, a record, and the next multiple of 2048 is 67584. 67584 + 64197 = 131781: 133120.
    // Each record is in the physical sector before its partition.
    let expected = [
        (1, 2048, 64_197, None),
        (2, 67_576, 129_741, None),
        (5, 67_584, 64_197, Some(67_576)),
        (6, 133_120, 64_197, Some(133_112)),
    ];
    assert_eq!(table(&realign), expected);
    assert_eq!(realign.moves.len(), 3);
}

/// The container keeps its place, and the first record with it.
#[test]
fn the_container_stays_if_it_can() {
    let disk = mbr(204_800, &[(2048, 8192)], (10_240, 194_560), &[(10_240, 10_303, 20_000)]);
    let realign = plan(&disk, &Wanted::default()).unwrap();
    check(&disk, &realign);
    let expected = [(1, 2048, 8192, None), (2, 10_240, 194_560, None), (5, 12_288, 20_000, Some(10_240))];
    assert_eq!(table(&realign), expected);
}

/// A logical partition that is aligned keeps its place and its record, wherever that is.
#[test]
fn the_others_stay() {
    let disk = mbr(
        204_800,
        &[],
        (2048, 150_000),
        &[(2048, 4096, 20_000), (24_096, 24_159, 20_000), (44_200, 45_056, 20_000)],
    );
    let realign = plan(&disk, &Wanted::default()).unwrap();
    check(&disk, &realign);
    assert_eq!(realign.moves.len(), 1);
    let expected = [
        (1, 2048, 150_000, None),
        (5, 4096, 20_000, Some(2048)),
        (6, 24_104, 20_000, Some(24_103)),
        (7, 45_056, 20_000, Some(44_200)),
    ];
    // Between 24096 and 44200 is no multiple of 2048 with room: on 4 KiB, 24096 would leave no record.
    assert_eq!(table(&realign)[..2], expected[..2]);
    assert_eq!(table(&realign)[3], expected[3]);
}

#[test]
fn logical_partitions_do_not_swap_and_primary_ones_stay_outside() {
    let disk = mbr(204_800, &[], (2048, 150_000), &[(2048, 4096, 20_480), (24_576, 26_624, 20_480)]);
    let start = |sector: u64| ByteOffset::new(sector * 512);
    let wanted = Wanted { starts: vec![(5, start(26_624)), (6, start(4096))], ..Wanted::default() };
    let refused = plan(&disk, &wanted).unwrap_err();
    assert!(matches!(refused, RealignError::Blocked { .. }), "{refused}");
    let disk =
        mbr(204_800, &[(100_352, 8192)], (2048, 90_000), &[(2048, 4096, 20_480), (24_576, 26_624, 20_480)]);
    let wanted = Wanted { starts: vec![(5, start(120_832))], ..Wanted::default() };
    let refused = plan(&disk, &wanted).unwrap_err();
    assert!(matches!(refused, RealignError::Mixed(1)), "{refused}");
}

/// Draws a disk: primary partitions, a container, others behind it; gaps and records of all sizes.
fn random_disk(random: &mut Random) -> Memory {
    let size = 20_000 + random.below(60_000);
    let gap = |random: &mut Random| if random.chance(50) { 0 } else { random.below(300) };
    let grid = |random: &mut Random, at: u64| if random.chance(30) { at.next_multiple_of(2048) } else { at };
    let mut at = 63;
    let mut primary = Vec::new();
    for _ in 0..random.below(3) {
        let start = grid(random, at);
        let len = 1 + random.below(size / 8);
        primary.push((start, len));
        at = start + len + gap(random);
    }
    let first = at;
    let mut logical = Vec::new();
    for _ in 0..=random.below(4) {
        let ebr = at;
        let before = [1, 8, 63, 2048][usize::try_from(random.below(4)).unwrap()];
        let start = grid(random, ebr + before);
        let len = 1 + random.below(size / 8);
        logical.push((ebr, start, len));
        at = start + len + gap(random);
    }
    let end = logical.last().map_or(first, |(_, start, len)| start + len) + gap(random);
    let behind = end + gap(random);
    if random.chance(30) {
        primary.push((behind, 1 + random.below(size / 8)));
    }
    let size = size.max(primary.iter().map(|(start, len)| start + len).max().unwrap_or(0)).max(end);
    mbr(size, &primary, (first, end - first), &logical)
}

/// A requested start for one of the partitions, and for another one the place that the first has.
fn random_wish(random: &mut Random, disk: &Memory) -> Wanted {
    let stack = stack_of(disk, BlockSize::B512);
    let holds_data = |p: &&straddle_layout::Partition| p.role != Role::Extended;
    let partitions: Vec<_> = stack.partitions.iter().filter(holds_data).collect();
    let draw =
        |random: &mut Random| partitions[usize::try_from(random.below(partitions.len() as u64)).unwrap()];
    let (first, second) = (draw(random), draw(random));
    let near = |at: ByteOffset| ByteOffset::new(at.get().next_multiple_of(4096));
    let mut starts = vec![(first.number, near(second.span.start()))];
    if first.number != second.number && random.chance(50) {
        starts.push((second.number, near(first.span.start())));
    }
    Wanted { starts, ..Wanted::default() }
}

/// What is asked for is planned, in the requested place and with the order of moves that it needs, or refused.
#[test]
fn requested_starts_are_kept_or_refused() {
    let (mut planned, mut refused) = (0, 0);
    let all = seeds("STRADDLE_REALIGN_SEEDS", 400);
    for seed in 0..all {
        let mut random = Random::new(seed + 1_000_000);
        let disk = random_disk(&mut random);
        let wanted = random_wish(&mut random, &disk);
        match plan(&disk, &wanted) {
            Ok(realign) => {
                check(&disk, &realign);
                for (number, start) in &wanted.starts {
                    let entry = table(&realign).into_iter().find(|(n, ..)| n == number).unwrap();
                    assert_eq!(entry.1 * 512, start.get(), "seed {seed}");
                }
                planned += 1;
            }
            Err(RealignError::Nothing) => {}
            Err(
                RealignError::Start { .. }
                | RealignError::Mixed(_)
                | RealignError::Logical(_)
                | RealignError::Blocked { .. }
                | RealignError::NoRoom { .. }
                | RealignError::MustShrink { .. },
            ) => refused += 1,
            Err(other) => panic!("seed {seed}: {other:?}"),
        }
    }
    println!("{all} seeds: {planned} planned, {refused} refused");
    assert!(planned > all / 20 && refused > all / 20, "{planned} {refused}");
}

#[test]
fn random_tables_with_logical_partitions_are_realigned() {
    let mut counts: BTreeMap<&str, u64> = BTreeMap::new();
    let all = seeds("STRADDLE_REALIGN_SEEDS", 400);
    for seed in 0..all {
        let disk = random_disk(&mut Random::new(seed));
        let outcome = match plan(&disk, &Wanted::default()) {
            Ok(realign) => {
                check(&disk, &realign);
                let moves_container =
                    realign.plan.before.iter().zip(&realign.plan.table.partitions).any(|(was, is)| {
                        is.slot == Slot::Extended && (was.start, was.sectors) != (is.start, is.sectors)
                    });
                if moves_container { "realigned, another container" } else { "realigned, the same container" }
            }
            Err(RealignError::Nothing) => "nothing to do",
            Err(RealignError::NoRoom { .. }) => "no room",
            Err(RealignError::MustShrink { .. }) => "must shrink",
            Err(RealignError::Blocked { .. }) => "blocked",
            Err(other) => panic!("seed {seed}: {other:?}"),
        };
        *counts.entry(outcome).or_default() += 1;
    }
    println!("{all} seeds: {counts:?}");
    assert!(counts["realigned, another container"] > all / 20, "{counts:?}");
    assert!(counts["realigned, the same container"] > all / 20, "{counts:?}");
}
