//! Layers whose data begin off a boundary: either their partition is placed for them, or the way of their own
//! format is named.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use crate::tests::common;

use common::logical::mbr;
use common::{Memory, stack_of, topology};
use straddle_layout::layer::{Facts, Layer, Luks, Md, Pv};
use straddle_layout::view::Piece;
use straddle_layout::{Content, Stack, VolumeKind};
use straddle_repair::Situation;
use straddle_repair::realign::{Realign, RealignError, Wanted, make};
use straddle_units::{BlockSize, ByteCount, ByteOffset, Span};

/// A disk of 100 MiB with partition 2 from `start`, whose data begin `offset` sectors behind that.
fn disk(start: u64, offset: u64, facts: fn(u64) -> (VolumeKind, Facts)) -> (Memory, Stack) {
    let disk = mbr(204_800, &[(start, 60_000)], (100_352, 4096), &[(100_352, 102_400, 2048)]);
    let mut stack = stack_of(&disk, BlockSize::B512);
    let partition = stack.partitions.iter_mut().find(|p| p.number == 1).unwrap();
    let (kind, facts) = facts(offset * 512);
    let len = ByteCount::new(1 << 20);
    let data = ByteOffset::new((start + offset) * 512);
    // Volumes of a PV are relative to its first byte.
    let first = if kind == VolumeKind::Pv { offset * 512 } else { 0 };
    let span = Span::new(ByteOffset::new(first), len).unwrap();
    partition.layer = Some(Layer {
        kind: Content::Volume(kind),
        name: String::new(),
        uuid: String::new(),
        below: partition.span,
        drive: Some(partition.span.start()),
        facts,
        space: vec![Piece { span, below: data, drive: data }],
        logical: None,
        children: Vec::new(),
        remarks: Vec::new(),
    });
    (disk, stack)
}

fn plan((disk, stack): &(Memory, Stack), wanted: &Wanted) -> Result<Realign, RealignError> {
    let topology = topology("512e");
    make(&Situation { medium: disk, topology: &topology, stack, serial: None }, wanted)
}

fn start(realign: &Realign) -> u64 {
    realign.plan.table.partitions[0].start.get()
}

fn pv(at: u64) -> (VolumeKind, Facts) {
    (VolumeKind::Pv, Facts::Pv(Pv { data_start: ByteOffset::new(at), ..Pv::default() }))
}

fn raid(level: i32, at: u64) -> (VolumeKind, Facts) {
    let md = Md { version: "1.2", level, raid_disks: 3, data_offset: ByteCount::new(at), ..Md::default() };
    (VolumeKind::Md, Facts::Md(md))
}

fn luks2(at: u64) -> (VolumeKind, Facts) {
    (
        VolumeKind::Luks,
        Facts::Luks(Luks { version: 2, payload: Some(ByteOffset::new(at)), ..Luks::default() }),
    )
}

#[test]
fn the_partition_is_placed_if_the_format_cannot_help() {
    let raid1: fn(u64) -> (VolumeKind, Facts) = |at| raid(1, at);
    for facts in [raid1, luks2] {
        // 2048 + 2055 is 7 sectors past 4096: 4089 is the nearest start from 1 MiB on.
        let found = plan(&disk(2048, 2055, facts), &Wanted::default());
        assert_eq!(start(&found.unwrap()), 4089);
        let realign = plan(&disk(2050, 2055, facts), &Wanted::default()).unwrap();
        assert_eq!(start(&realign), 4089);
        assert_eq!(realign.anchors, [(1, ByteCount::new(2055 * 512))]);
        assert_eq!(Realign::from_json(&realign.to_json().unwrap()).unwrap(), realign);
        // What is a multiple of 4 KiB follows its partition.
        let realign = plan(&disk(2049, 2056, facts), &Wanted::default()).unwrap();
        assert_eq!((start(&realign), &realign.anchors[..]), (2048, &[][..]));
        // A requested start counts for the data.
        let wanted = |at: u64| Wanted { starts: vec![(1, ByteOffset::new(at * 512))], ..Wanted::default() };
        assert_eq!(start(&plan(&disk(2048, 2055, facts), &wanted(6137)).unwrap()), 6137);
        let refused = plan(&disk(2050, 2055, facts), &wanted(4096)).unwrap_err();
        assert!(matches!(refused, RealignError::Start { number: 1, .. }), "{refused}");
    }
}

/// A plan that says that something else than the start is aligned is checked as well.
#[test]
fn a_stored_plan_must_align_what_it_says() {
    let realign = plan(&disk(2048, 2055, luks2), &Wanted::default()).unwrap();
    let json = realign.to_json().unwrap();
    assert!(Realign::from_json(&json.replace("1052160", "1052672")).is_err(), "{json}");
}

#[test]
fn the_way_of_the_format_is_named_if_the_partition_itself_is_aligned() {
    let raid5: fn(u64) -> (VolumeKind, Facts) = |at| raid(5, at);
    let pv: fn(u64) -> (VolumeKind, Facts) = pv;
    for (facts, way) in [(pv, "pvmove"), (raid5, "mdadm --grow --data-offset=2048K")] {
        let aligned = disk(2048, 2055, facts);
        let refused = plan(&aligned, &Wanted::default()).unwrap_err();
        assert!(matches!(refused, RealignError::Inside { number: 1, .. }), "{refused}");
        assert!(refused.to_string().contains(way), "{refused}");
        let asked = Wanted { partitions: vec![1], ..Wanted::default() };
        assert_eq!(start(&plan(&aligned, &asked).unwrap()), 4089);
        // It has to move in any case.
        assert_eq!(start(&plan(&disk(2050, 2055, facts), &Wanted::default()).unwrap()), 4089);
    }
}

/// The size of a PV counts, and so the command of a refusal makes room.
#[test]
fn the_size_of_a_pv_leaves_its_tail_unused() {
    fn sized(by: u64) -> (VolumeKind, Facts) {
        let size = Some(ByteCount::new(60_000 * 512 - by));
        (
            VolumeKind::Pv,
            Facts::Pv(Pv { data_start: ByteOffset::new(1 << 20), device_size: size, ..Pv::default() }),
        )
    }
    // Behind partition 1 is the container, at its end; there is no boundary before it.
    let full = disk(40_352, 0, |_| sized(0));
    let wanted = Wanted {
        wipe: false,
        partitions: vec![1],
        starts: vec![(1, ByteOffset::new(40_960 * 512))],
        grain: None,
    };
    let refused = plan(&full, &wanted);
    assert!(matches!(refused, Err(RealignError::Start { .. })), "{refused:?}");
    let small = disk(40_352, 0, |_| sized(1 << 20));
    let realign = plan(&small, &wanted).unwrap();
    assert_eq!(start(&realign), 40_960);
    assert_eq!(realign.trims().first().map(|(_, by)| by.get()), Some(608 * 512));
}
