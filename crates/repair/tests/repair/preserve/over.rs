//! A table is not written over data that no table accounts for, wherever they lie and whatever is asked for.
//!
//! `OVER=n` sets the number of random disks.

use straddle_repair::apply::ApplyError;
use straddle_repair::{Format, Part, PlanError, Request, Seed, Size};
use straddle_units::{ByteCount, ByteOffset, ErrorKind};

use super::common::{
    Memory, Random, Reading, block_of, plan, plan_and_write, random_table, seeds, stack_of, target, write,
};
use super::{parts, read, request};

const SIZE: u64 = 64 << 20;

/// Writes random bytes to `sectors` sectors from `first` on, which end with the disk; returns their place.
fn junk(disk: &mut Memory, random: &mut Random, (first, sectors): (u64, u64)) -> (u64, Vec<u8>) {
    let sectors = sectors.min(disk.len / 512 - first);
    let bytes: Vec<u8> = (0..sectors * 64).flat_map(|_| random.next().to_le_bytes()).collect();
    disk.put(first * 512, &bytes);
    (first * 512, bytes)
}

/// What may be asked for.
fn wishes(seed: u64) -> Vec<Request> {
    let with = |change: &dyn Fn(&mut Request)| {
        let mut request = Request::new(Seed(u128::from(seed)));
        change(&mut request);
        request
    };
    let small = || vec![Part::new(Size::Bytes(ByteCount::new(1 << 20)))];
    vec![
        with(&|r| r.repair = true),
        with(&|r| (r.repair, r.relocate_backup) = (true, true)),
        with(&|r| (r.table, r.parts) = (Some(Format::Gpt), small())),
        with(&|r| (r.table, r.parts) = (Some(Format::Mbr), small())),
        with(&|r| r.parts = small()),
        with(&|r| {
            r.parts = small();
            r.parts[0].logical = true;
        }),
        with(&|r| r.delete = vec![1]),
        with(&|r| r.convert = true),
    ]
}

/// The judge knows nothing of tables: random bytes outside of partitions and of the first sector are still there, or
/// the plan has been refused, or it has named them and was allowed to write over them.
#[test]
fn data_between_structures_stay_or_are_given_up() {
    let (mut done, mut refused, mut given_up) = (0, 0, 0);
    for seed in 0..seeds("OVER", 150) {
        let mut random = Random::new(seed);
        let assume = random.one_of(&["512e", "4kn"]);
        let mut disk = Memory::new(SIZE);
        if plan_and_write(&mut disk, assume, &random_table(&mut random, SIZE)).is_err() {
            continue;
        }
        if random.chance(30) {
            disk.len += 16 << 20;
        }
        let block = block_of(assume);
        let stack = stack_of(&disk, block);
        let last = disk.len / 512;
        let from = match random.below(3) {
            0 => 1 + random.below(70),
            1 => last - 1 - random.below(70),
            _ => (SIZE / 512).min(last - 1) - random.below(60),
        };
        let place = (from, 1 + random.below(40));
        let (at, bytes) = junk(&mut disk, &mut random, place);
        let end = at + bytes.len() as u64;
        let is_listed =
            |p: &straddle_layout::Partition| p.span.start().get() < end && at < p.span.end().get();
        if stack.partitions.iter().any(is_listed) {
            continue;
        }
        for mut wish in wishes(seed) {
            wish.wipe = !wish.convert && random.chance(30);
            let (mut after, before) = (disk.clone(), Reading::of(&disk, block));
            match plan_and_write(&mut after, assume, &wish) {
                Err(error) => {
                    refused += u32::from(matches!(error, PlanError::Occupied { .. }));
                    assert!(
                        !(wish.wipe && matches!(error, PlanError::Occupied { .. })),
                        "seed {seed}: --wipe allows it"
                    );
                }
                Ok((plan, _)) => {
                    let lost: Vec<_> = plan.lost.iter().map(|lost| lost.at).collect();
                    let is_new = |at: u64| {
                        plan.table
                            .partitions
                            .iter()
                            .filter_map(|e| plan.span(e))
                            .any(|span| span.start().get() <= at && at < span.end().get())
                    };
                    for (at, sector) in (at..).step_by(512).zip(bytes.chunks(512)) {
                        let is_lost =
                            lost.iter().any(|span| span.start().get() <= at && at < span.end().get());
                        let is_same = read(&after, at, 512) == sector;
                        given_up += u32::from(!is_same);
                        assert!(
                            is_same || (wish.wipe && (is_lost || is_new(at))),
                            "seed {seed}: {wish:?} overwrote byte {at} of {assume}, {before:?}"
                        );
                    }
                    done += 1;
                }
            }
        }
    }
    assert!(
        done > 50 && refused > 20 && given_up > 20,
        "{done} done, {refused} refused, {given_up} sectors given up"
    );
}

/// What comes to lie there after the plan was made is found before anything is written.
#[test]
fn data_that_come_after_the_plan_stay() {
    let mut random = Random::new(9);
    let mut disk = Memory::new(SIZE);
    plan_and_write(&mut disk, "512e", &request(|r| (r.table, r.parts) = (Some(Format::Gpt), parts(1))))
        .unwrap();
    disk.len += 16 << 20;
    let plan = plan(&disk, "512e", &request(|r| (r.repair, r.relocate_backup) = (true, true))).unwrap();
    let last = disk.len / 512;
    // What is where a header would be counts as part of the table.
    junk(&mut disk, &mut random, (last - 20, 19));
    let before = disk.clone();
    let error = write(&mut target(&mut disk), &plan).unwrap_err();
    let at = ByteOffset::new((last - 20) * 512);
    assert!(matches!(error, ApplyError::Plan(PlanError::Occupied { at: found }) if found == at), "{error:?}");
    assert_eq!(error.kind(), ErrorKind::Refused);
    assert!(disk == before, "nothing was written");
}

/// What tables leave behind, whole or damaged, is in nobody's way.
#[test]
fn left_over_tables_are_written_over() {
    for seed in 0..seeds("OVER", 60) {
        let mut random = Random::new(seed);
        let assume = random.one_of(&["512e", "4kn"]);
        let mut disk = Memory::new(SIZE);
        // Tables of a smaller disk, of this one, and of a larger one of which this is a part.
        for size in [SIZE / 2, SIZE * 2, SIZE] {
            disk.len = size;
            let is_gpt = random.chance(70);
            let mut table = random_table(&mut random, SIZE / 2);
            table.wipe = true;
            if let Some(format) = table.table.as_mut().filter(|_| is_gpt) {
                *format = Format::Gpt;
                table.parts.iter_mut().for_each(|part| (part.logical, part.kind) = (false, None));
            }
            drop(plan_and_write(&mut disk, assume, &table));
            disk.units.retain(|unit, _| unit * 512 < SIZE);
        }
        disk.len = SIZE;
        let block = block_of(assume);
        // One bit of a structure is wrong, or a sector is gone.
        let structures: Vec<u64> = disk.units.keys().copied().filter(|unit| *unit > 0).collect();
        if !structures.is_empty() && random.chance(70) {
            let unit = structures[usize::try_from(random.below(structures.len() as u64)).unwrap()];
            let mut bytes = read(&disk, unit * 512, 512);
            if random.chance(30) {
                bytes.fill(if random.chance(50) { 0 } else { 0xFF });
            } else {
                // Without its place an entry of another table is not recognised.
                let at = usize::try_from(random.below(512)).unwrap();
                bytes[if (32..48).contains(&(at % 128)) { 0 } else { at }] ^= 1 << random.below(8);
            }
            disk.put(unit * 512, &bytes);
        }
        let kind = stack_of(&disk, block).kind;
        for wish in wishes(seed).into_iter().filter(|wish| !wish.convert) {
            let result = plan_and_write(&mut disk.clone(), assume, &wish);
            let is_false = matches!(result, Err(PlanError::Occupied { .. }));
            let at = if let Err(PlanError::Occupied { at }) = result { at.get() } else { 0 };
            assert!(
                !is_false,
                "seed {seed}: {assume} with {kind:?}: {wish:?}: {at}: {:x?}",
                read(&disk, at, 512)
            );
        }
    }
}
