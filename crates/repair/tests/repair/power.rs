//! Power cuts: at whatever point writing a table stops, a reader that checks checksums finds the old table or
//! the new one.
//!
//! The drive has a volatile write cache that it writes in units of 512 bytes in any order. Of the units
//! written since the last flush, any subset may be on the medium. Every subset is tried if there are few
//! units, otherwise each prefix and some random ones. `CUTS=n` sets the number of random changes to tables.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use crate::tests::common;

use common::{
    Memory, Random, Reading, UNIT, block_of, each_cut, plan_and_back_up, plan_and_write, random_disk,
    random_part, random_table, seeds, target, undo,
};
use straddle_device::Medium;
use straddle_repair::{Format, Grow, Part, Request, Seed, Size, Step};
use straddle_units::{BlockSize, ByteCount, ByteOffset};

/// Tries every state in which a cut can leave `before`; returns their number.
fn cut_everywhere(before: &Memory, after: &Memory, steps: &[Step], block: BlockSize, seed: u64) -> u64 {
    let (old, new) = (Reading::of(before, block), Reading::of(after, block));
    let mut states = 0;
    let last = each_cut(before, steps, seed, |disk, what| {
        let found = Reading::of(disk, block);
        states += 1;
        assert!(
            found.is(&old) || found.is(&new),
            "seed {seed}: {what}:\n{found:?}\nis neither the old table\n{old:?}\nnor the new one\n{new:?}"
        );
    });
    assert_eq!(Reading::of(&last, block), new, "all groups make the new table");
    states
}

fn bytes(len: u64) -> Size {
    Size::Bytes(ByteCount::new(len))
}

fn request(change: impl FnOnce(&mut Request)) -> Request {
    let mut request = Request::new(Seed(1));
    change(&mut request);
    request
}

fn table(format: Format, sizes: &[(u64, bool)]) -> Request {
    request(|r| {
        r.table = Some(format);
        r.parts = sizes
            .iter()
            .map(|(size, logical)| Part { logical: *logical, ..Part::new(bytes(*size)) })
            .collect();
        r.seed = Seed(u128::from(sizes.len() as u64) + 17);
    })
}

/// From every kind of table to every kind on small disks, both ways, in both sector sizes.
#[test]
fn every_cut_on_a_small_disk_leaves_the_old_or_the_new_table() {
    let tables = [
        None,
        Some(table(Format::Gpt, &[(1 << 20, false), (2 << 20, false)])),
        Some(table(Format::Gpt, &[(3 << 20, false)])),
        Some(table(Format::Mbr, &[(1 << 20, false), (2 << 20, false)])),
        Some(table(Format::Mbr, &[(1 << 20, false), (1 << 20, true), (2 << 20, true), (1 << 20, true)])),
        Some(table(Format::Mbr, &[(1 << 20, true), (1 << 20, true)])),
    ];
    let mut states = 0;
    for assume in ["512e", "4kn"] {
        for from in &tables {
            for to in tables.iter().flatten() {
                let mut disk = Memory::new(16 << 20);
                if let Some(from) = from {
                    plan_and_write(&mut disk, assume, from).unwrap();
                }
                let before = disk.clone();
                let (_, steps, backup) = plan_and_back_up(&mut disk, assume, to).unwrap();
                states += cut_everywhere(&before, &disk, &steps, block_of(assume), 0);
                let after = disk.clone();
                let undone = undo(&mut target(&mut disk), &backup);
                states += cut_everywhere(&after, &before, &undone, block_of(assume), 0);
            }
        }
    }
    println!("{states} states");
    assert!(states > 1000);
}

/// A damaged copy of a GPT, and a disk that has grown: each repaired under cuts, with and without a change to
/// the table at the same time.
#[test]
fn a_damaged_copy_is_mended_without_danger() {
    let mut states = 0;
    let size = 16_u64 << 20;
    for assume in ["512e", "4kn"] {
        let (sector, block) = (block_of(assume).get(), block_of(assume));
        for (damaged, grown) in
            [(Some(1), 0), (Some(size / sector - 1), 0), (None, 8 << 20), (Some(1), 8 << 20)]
        {
            for changes in [false, true] {
                let mut disk = Memory::new(size);
                let wanted = table(Format::Gpt, &[(1 << 20, false), (2 << 20, false)]);
                plan_and_write(&mut disk, assume, &wanted).unwrap();
                let good = Reading::of(&disk, block);
                if let Some(lba) = damaged {
                    damage(&mut disk, lba * sector);
                }
                disk.len += grown;
                assert_eq!(Reading::of(&disk, block).partitions, good.partitions);
                let before = disk.clone();
                let mend = request(|r| {
                    (r.repair, r.relocate_backup) = (grown == 0, grown > 0);
                    r.parts.extend(changes.then(|| Part::new(bytes(1 << 20))));
                });
                let (_, steps) = plan_and_write(&mut disk, assume, &mend).unwrap();
                states += cut_everywhere(&before, &disk, &steps, block, 0);
                assert_eq!(common::stack_of(&disk, block).problems, [], "{damaged:?} {grown}");
                assert_eq!(Reading::of(&disk, block) == good, !changes);
            }
        }
    }
    println!("{states} states");
}

/// Changes a byte of the disk GUID in the header at `at`, so that only the checksum is wrong and not the
/// other copy's position.
fn damage(disk: &mut Memory, at: u64) {
    let mut header = vec![0; UNIT];
    disk.read_at(ByteOffset::new(at), &mut header).unwrap();
    header[60] ^= 1;
    disk.put(at, &header);
}

/// Random tables, and a sequence of random changes to each.
#[test]
fn random_changes_survive_random_cuts() {
    let count = seeds("CUTS", 60);
    let (mut states, mut changes, mut refused) = (0, 0, 0);
    for seed in 0..count {
        let mut random = Random::new(seed);
        let (assume, size) = random_disk(&mut random, &["512e", "512n", "4kn"]);
        let block = block_of(&assume);
        let mut disk = Memory::new(size);
        let mut wanted = random_table(&mut random, size);
        for _ in 0..5 {
            let before = disk.clone();
            match plan_and_write(&mut disk, &assume, &wanted) {
                Ok((_, steps)) => {
                    changes += 1;
                    states += cut_everywhere(&before, &disk, &steps, block, seed);
                }
                Err(_) => {
                    refused += 1;
                    assert_eq!(disk, before, "seed {seed}: what is refused writes nothing");
                }
            }
            wanted = random_change(&mut random, &disk, block, size);
        }
    }
    println!("seeds 0 to {count}: {changes} changes, {refused} refused, {states} states");
    assert!(changes > count, "most requests make a plan");
}

fn random_change(random: &mut Random, disk: &Memory, block: BlockSize, size: u64) -> Request {
    let stack = common::stack_of(disk, block);
    let numbers: Vec<u32> = stack.partitions.iter().map(|p| p.number).collect();
    if numbers.is_empty() || random.chance(15) {
        return random_table(random, size);
    }
    let is_gpt = stack.kind == straddle_layout::TableKind::Gpt;
    let mut request = Request::new(Seed(u128::from(random.next())));
    let number = numbers[usize::try_from(random.below(numbers.len() as u64)).unwrap()];
    match random.below(4) {
        0 => request.delete = vec![number],
        1 => request.grow = vec![Grow { number, size: None }],
        2 => {
            request.delete = vec![number];
            request.parts = vec![random_part(random, size, is_gpt, &mut true)];
        }
        _ => {
            let mut part = random_part(random, size, is_gpt, &mut true);
            part.logical = !is_gpt && random.chance(60);
            request.parts = vec![part];
        }
    }
    request
}
