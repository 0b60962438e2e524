//! Tables converted from one sector size to the other: every partition keeps its bytes, even under power
//! cuts.
//!
//! `CONVERSIONS=n` sets the number of random tables.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use crate::tests::common;

use common::{Memory, Random, Reading, each_cut, plan_and_write, random_table, seeds, target, topology};
use straddle_device::Medium;
use straddle_layout::{Role, TableKind, read_stack};
use straddle_repair::apply::{ApplyError, Backup, Prepared};
use straddle_repair::{Format, Part, Plan, PlanError, Request, Seed, Situation, Size, Step, make};
use straddle_units::{BlockSize, ByteCount, ByteOffset};

fn assume(block: BlockSize) -> &'static str {
    if block == BlockSize::B512 { "512e" } else { "4kn" }
}

fn other(block: BlockSize) -> BlockSize {
    if block == BlockSize::B512 { BlockSize::B4096 } else { BlockSize::B512 }
}

/// Makes the plan that converts the table on `disk`, which counts in `from`.
fn conversion(disk: &Memory, from: BlockSize) -> Result<Plan, PlanError> {
    let mut request = Request::new(Seed(1));
    request.convert = true;
    let topology = topology(assume(other(from)));
    let stack = read_stack(disk, Some(from), Some(from)).unwrap();
    make(&Situation { medium: disk, topology: &topology, stack: &stack, serial: None }, &request)
}

/// Converts the table on `disk`; returns the steps and their backup.
fn convert_and_back_up(disk: &mut Memory, from: BlockSize) -> Result<(Vec<Step>, Backup), PlanError> {
    let plan = Plan::from_json(&conversion(disk, from)?.to_json().unwrap())?;
    match common::write(&mut target(disk), &plan) {
        Ok(done) => Ok(done),
        Err(ApplyError::Plan(error)) => Err(error),
        Err(error) => panic!("{error}"),
    }
}

/// Converts the table on `disk`; returns the steps.
fn convert(disk: &mut Memory, from: BlockSize) -> Result<Vec<Step>, PlanError> {
    convert_and_back_up(disk, from).map(|(steps, _)| steps)
}

/// What a conversion must keep: everything except the container, whose records must move.
fn lasting(disk: &Memory, block: BlockSize) -> Vec<(u32, u64, u64, String, String, u64, bool)> {
    let stack = read_stack(disk, Some(block), Some(block)).unwrap();
    let containers: Vec<u32> =
        stack.partitions.iter().filter(|p| p.role == Role::Extended).map(|p| p.number).collect();
    let mut listed = Reading::forced(disk, block).partitions;
    listed.retain(|(number, ..)| !containers.contains(number));
    listed
}

/// Checks that every state after a cut is the old table to a reader with the former sector size, or the new
/// one to a reader with the new size. A reader that detects a GPT's sector size must find one of them,
/// whatever sectors the disk has.
fn cut_everywhere(before: &Memory, after: &Memory, steps: &[Step], from: BlockSize, seed: u64) -> u64 {
    let to = other(from);
    let (old, new) = (Reading::forced(before, from), Reading::forced(after, to));
    let is_gpt = read_stack(before, Some(from), Some(from)).unwrap().kind == TableKind::Gpt;
    let mut states = 0;
    let last = each_cut(before, steps, seed, |disk, what| {
        states += 1;
        let (as_old, as_new) = (Reading::forced(disk, from), Reading::forced(disk, to));
        assert!(
            as_old.is(&old) || as_new.is(&new),
            "seed {seed}: {what}:\n{as_old:?}\nis not\n{old:?}\nand\n{as_new:?}\nis not\n{new:?}"
        );
        for block in [from, to].into_iter().filter(|_| is_gpt) {
            let found = Reading::of(disk, block);
            assert!(found.is(&old) || found.is(&new), "seed {seed}: {what}, {block}: {found:?}");
        }
    });
    assert_eq!(Reading::forced(&last, to), new, "all steps make the new table");
    states
}

fn table(format: Format, parts: &[(u64, bool)]) -> Request {
    let part = |(mib, logical): &(u64, bool)| Part {
        logical: *logical,
        ..Part::new(Size::Bytes(ByteCount::new(mib << 20)))
    };
    let mut request = Request::new(Seed(7));
    request.table = Some(format);
    request.parts = parts.iter().map(part).collect();
    request
}

#[test]
fn every_cut_of_a_conversion_leaves_the_old_or_the_new_table() {
    let tables = [
        table(Format::Gpt, &[]),
        table(Format::Gpt, &[(1, false), (2, false)]),
        table(Format::Gpt, &[(1, false); 40]),
        table(Format::Mbr, &[(1, false), (2, false)]),
        table(Format::Mbr, &[(1, false), (1, true), (2, true), (1, true)]),
        table(Format::Mbr, &[(1, true), (1, true)]),
    ];
    let mut states = 0;
    for from in [BlockSize::B512, BlockSize::B4096] {
        // Includes a disk whose end is not on a 4096-byte sector.
        for size in [96 << 20, (96 << 20) + if from == BlockSize::B512 { 1536 } else { 0 }] {
            for wanted in &tables {
                let mut disk = Memory::new(size);
                plan_and_write(&mut disk, assume(from), wanted).unwrap();
                let (before, listed) = (disk.clone(), lasting(&disk, from));
                let (steps, backup) = convert_and_back_up(&mut disk, from).unwrap();
                assert_eq!(lasting(&disk, other(from)), listed);
                states += cut_everywhere(&before, &disk, &steps, from, 0);
                let mut undone = disk.clone();
                let undo = common::undo(&mut target(&mut undone), &backup);
                states += cut_everywhere(&disk, &before, &undo, other(from), 0);
                assert_eq!(bytes_of(&undone), bytes_of(&before), "an undo brings back every byte");
                // And back.
                convert(&mut disk, other(from)).unwrap();
                assert_eq!(lasting(&disk, from), listed);
                assert_eq!(common::stack_of(&disk, from).problems, []);
            }
        }
    }
    println!("{states} states");
    assert!(states > 1000);
}

/// A new table over one that was written in sectors of the other size, which is removed.
#[test]
fn a_new_table_replaces_one_in_other_sectors() {
    let mut states = 0;
    for from in [BlockSize::B512, BlockSize::B4096] {
        for format in [Format::Gpt, Format::Mbr] {
            let mut disk = Memory::new(32 << 20);
            let parts = [(1, false), (2, false)];
            plan_and_write(&mut disk, assume(from), &table(Format::Gpt, &parts)).unwrap();
            let (before, block) = (disk.clone(), other(from));
            let old = Reading::of(&disk, block);
            assert_eq!(old.partitions.len(), 2);
            let (_, steps) = plan_and_write(&mut disk, assume(block), &table(format, &[(3, false)])).unwrap();
            let new = Reading::of(&disk, block);
            assert_eq!(common::stack_of(&disk, block).problems, [], "{format} over {from}");
            each_cut(&before, &steps, 0, |cut, what| {
                states += 1;
                let found = Reading::of(cut, block);
                assert!(found.is(&old) || found.is(&new), "{format} over {from}: {what}: {found:?}");
            });
        }
    }
    println!("{states} states");
}

/// All units that are not zero.
fn bytes_of(disk: &Memory) -> Vec<(u64, Vec<u8>)> {
    let units = disk.units.iter().filter(|(_, bytes)| bytes.iter().any(|byte| *byte != 0));
    units.map(|(at, bytes)| (*at, bytes.to_vec())).collect()
}

#[test]
fn random_tables_are_converted_and_cut() {
    let count = seeds("CONVERSIONS", 60);
    let (mut states, mut converted) = (0, 0);
    for seed in 0..count {
        let mut random = Random::new(seed);
        let from = if random.chance(50) { BlockSize::B512 } else { BlockSize::B4096 };
        let mut disk = Memory::new((48 << 20) + 4096 * random.below(1 << 16));
        let wanted = random_table(&mut random, disk.len);
        if plan_and_write(&mut disk, assume(from), &wanted).is_err() {
            continue;
        }
        let (before, listed) = (disk.clone(), lasting(&disk, from));
        match convert(&mut disk, from) {
            Ok(steps) => {
                converted += 1;
                assert_eq!(lasting(&disk, other(from)), listed, "seed {seed}");
                states += cut_everywhere(&before, &disk, &steps, from, seed);
            }
            Err(PlanError::CannotConvert(_)) => assert_eq!(disk, before, "seed {seed}"),
            Err(error) => panic!("seed {seed}: {error}"),
        }
    }
    println!("seeds 0 to {count}: {converted} conversions, {states} states");
    assert!(converted > count / 3, "most tables can be converted");
}

/// With a damaged copy, or a disk that has changed size: the copy that counts is replaced last.
#[test]
fn a_damaged_copy_is_no_danger() {
    let size = 32_u64 << 20;
    for from in [BlockSize::B512, BlockSize::B4096] {
        for (damaged, grown) in
            [(Some(from.get()), 0), (Some(size - from.get()), 0), (None, 1_i64 << 20), (None, -8192)]
        {
            let mut disk = Memory::new(size);
            plan_and_write(&mut disk, assume(from), &table(Format::Gpt, &[(1, false), (2, false)])).unwrap();
            let good = lasting(&disk, from);
            if let Some(at) = damaged {
                let mut header = vec![0; 512];
                disk.read_at(ByteOffset::new(at), &mut header).unwrap();
                header[60] ^= 1;
                disk.put(at, &header);
            }
            disk.len = disk.len.checked_add_signed(grown).unwrap();
            let end = disk.len / 512;
            disk.units.retain(|at, _| *at < end);
            let before = disk.clone();
            let steps = convert(&mut disk, from).unwrap();
            assert_eq!(lasting(&disk, other(from)), good);
            assert_eq!(common::stack_of(&disk, other(from)).problems, [], "{damaged:?} {grown}");
            cut_everywhere(&before, &disk, &steps, from, 0);
        }
    }
}

/// What cannot be expressed in the new sectors is refused, and so is a plan that names what is missing.
#[test]
fn what_cannot_be_said_exactly_is_refused() {
    let refused = |part: &str, format: Format| {
        let mut disk = Memory::new(64 << 20);
        let mut wanted = table(format, &[]);
        wanted.parts = vec![part.parse().unwrap()];
        wanted.allow_misaligned = true;
        plan_and_write(&mut disk, "512n", &wanted).unwrap();
        conversion(&disk, BlockSize::B512).unwrap_err().to_string()
    };
    assert!(refused("8MiB,start=63s", Format::Mbr).contains("starts at byte 32256"));
    assert!(refused("2049s,start=2048s", Format::Gpt).contains("ends at byte 2097664"));
    assert!(refused("2048s,start=40s", Format::Gpt).contains("the table extends to byte 24576"));
    // Beyond 2 TiB in 512-byte sectors.
    let mut far = Memory::new(4 << 40);
    plan_and_write(&mut far, "4kn", &table(Format::Mbr, &[(3 << 20, false)])).unwrap();
    assert!(conversion(&far, BlockSize::B4096).unwrap_err().to_string().contains("2 TiB"));

    let mut disk = Memory::new(64 << 20);
    plan_and_write(&mut disk, "512e", &table(Format::Gpt, &[(1, false), (2, false)])).unwrap();
    let pop = |json: &mut serde_json::Value| drop(json["table"]["partitions"].as_array_mut().unwrap().pop());
    let plan = crate::tests::common::edited(&conversion(&disk, BlockSize::B512).unwrap(), pop).unwrap();
    assert!(matches!(
        Prepared::of(&mut target(&mut disk), &plan),
        Err(ApplyError::Plan(PlanError::Invalid(_)))
    ));
}

/// Space that a GPT's backup takes in larger sectors is usable again in the smaller ones.
#[test]
fn there_and_back_gives_every_usable_sector_back() {
    for mib in [16, 64, 100] {
        for block in [BlockSize::B512, BlockSize::B4096] {
            let mut disk = Memory::new(mib << 20);
            plan_and_write(&mut disk, assume(block), &table(Format::Gpt, &[(4, false)])).unwrap();
            let end = |disk: &Memory, block| {
                read_stack(disk, Some(block), Some(block)).unwrap().usable.unwrap().end()
            };
            let before = end(&disk, block);
            convert(&mut disk, block).unwrap();
            // A new table in that sector size has as much space.
            let mut new = Memory::new(mib << 20);
            plan_and_write(&mut new, assume(other(block)), &table(Format::Gpt, &[(4, false)])).unwrap();
            assert_eq!(end(&disk, other(block)), end(&new, other(block)), "{mib} MiB, from {block}");
            convert(&mut disk, other(block)).unwrap();
            assert_eq!(end(&disk, block), before, "{mib} MiB, {block} and back");
        }
    }
}
