//! Clones: disks made from one template, damaged or changed in different ways. A backup is of one of them, and an undo
//! is refused on the others.
//!
//! `CLONES=n` sets the number of random pairs.

use straddle_device::Medium;
use straddle_layout::TableKind;
use straddle_repair::apply::{ApplyError, Backup, LaterWrites, Prepared};
use straddle_repair::{Format, Identity, Part, Request, Seed, Size, Target};
use straddle_units::{ByteCount, ByteOffset};

use crate::tests::common::{self, Memory, Random, UNIT, block_of, plan_and_write, seeds, stack_of, target};

const SIZE: u64 = 16 << 20;

fn unit(disk: &Memory, unit: u64) -> Vec<u8> {
    disk.units.get(&unit).map_or_else(|| vec![0; UNIT], |bytes| bytes.to_vec())
}

/// Damages some of the table's sectors: zeros, or a bit that is read wrongly. Boot code stays.
fn damage(disk: &mut Memory, random: &mut Random) {
    let last = SIZE / UNIT as u64 - 1;
    let sectors: Vec<u64> = disk.units.keys().copied().collect();
    for group in [0..1, 1..2, 2..34, 34..last, last..last + 1] {
        if !random.chance(25) {
            continue;
        }
        let is_erased = random.chance(50);
        for sector in sectors.iter().copied().filter(|sector| group.contains(sector)) {
            let mut bytes = unit(disk, sector);
            let from = if sector == 0 { 446 } else { 0 };
            if is_erased {
                bytes[from..].fill(0);
            } else {
                let byte = from + usize::try_from(random.below((UNIT - from) as u64)).unwrap();
                bytes[byte] ^= 1 << random.below(8);
            }
            disk.put(sector * UNIT as u64, &bytes);
        }
    }
}

/// A change of the table of `disk`, or its repair.
fn change(disk: &Memory, random: &mut Random) -> Request {
    let mut request = Request::new(Seed(u128::from(random.next())));
    let stack = stack_of(disk, block_of("512e"));
    match random.below(4) {
        0 if !stack.partitions.is_empty() => {
            let partition = random.below(stack.partitions.len() as u64);
            request.delete = vec![stack.partitions[usize::try_from(partition).unwrap()].number];
        }
        1 => request.parts = vec![Part::new(Size::Bytes(ByteCount::new(1 << 20)))],
        _ if stack.kind == TableKind::Gpt => (request.repair, request.relocate_backup) = (true, true),
        _ => request.parts = vec![Part::new(Size::Rest)],
    }
    request
}

/// Whether every sector of `disk` is that of one of the others.
fn is_made_of(disk: &Memory, others: [&Memory; 2]) -> bool {
    let all = [disk, others[0], others[1]];
    let mut sectors = all.iter().flat_map(|disk| disk.units.keys().copied());
    sectors.all(|sector| others.iter().any(|other| unit(other, sector) == unit(disk, sector)))
}

#[test]
fn a_backup_is_not_restored_to_a_similar_disk() {
    let mut outcomes = [0_u64; 2];
    for seed in 0..seeds("CLONES", 200) {
        let mut random = Random::new(seed);
        let mut template = Memory::new(SIZE);
        let mut request = Request::new(Seed(u128::from(seed)));
        request.table = Some(if random.chance(70) { Format::Gpt } else { Format::Mbr });
        request.parts = vec![Part::new(Size::Bytes(ByteCount::new(3 << 20))); 3];
        request.parts[2].logical = request.table == Some(Format::Mbr);
        plan_and_write(&mut template, "512e", &request).unwrap();
        let (mut one, mut other) = (template.clone(), template);
        damage(&mut one, &mut random);
        damage(&mut other, &mut random);
        let before = one.clone();
        let request = change(&one, &mut random);
        let Ok(plan) = common::plan(&one, "512e", &request) else { continue };
        let Ok((steps, backup)) = common::write(&mut target(&mut one), &plan) else { continue };
        // A part of what was written can be on the other as well: as if it were the one, and interrupted.
        let sectors: Vec<u64> = one.units.keys().copied().collect();
        for sector in sectors.into_iter().filter(|_| random.chance(30)) {
            other.put(sector * UNIT as u64, &unit(&one, sector));
        }
        if random.chance(20) {
            other = if random.chance(50) { one.clone() } else { before.clone() };
        }
        let is_the_one = is_made_of(&other, [&before, &one]);
        let untouched = other.clone();
        let mut open = target(&mut other);
        let result = backup.undo(&mut open, LaterWrites::Discard).map(|ready| {
            ready.write().unwrap();
        });
        drop(open);
        if let Err(error) = &result {
            assert!(matches!(error, ApplyError::OtherDisk(_)), "seed {seed}: {error}");
        }
        assert_eq!(result.is_ok(), is_the_one, "seed {seed}: {request:?}, {steps:?}");
        let expected = if is_the_one { &before } else { &untouched };
        assert!(is_made_of(&other, [expected, expected]), "seed {seed}");
        outcomes[usize::from(is_the_one)] += 1;
    }
    assert!(outcomes.iter().all(|count| *count > 0), "refused and accepted: {outcomes:?}");
}

/// What else is in the table's sectors, and what is in partitions, does not make it another disk.
#[test]
fn a_boot_loader_and_data_do_not_hinder_an_undo() {
    let mut disk = Memory::new(SIZE);
    let mut request = Request::new(Seed(1));
    request.table = Some(Format::Gpt);
    request.parts = vec![Part::new(Size::Rest)];
    plan_and_write(&mut disk, "512e", &request).unwrap();
    let last = SIZE - UNIT as u64;
    disk.put(last, &[0; UNIT]);
    let mut repair = Request::new(Seed(2));
    repair.repair = true;
    let (_, steps, backup) = common::plan_and_back_up(&mut disk, "512e", &repair).unwrap();
    assert!(!steps.is_empty());
    let mut boot = vec![0; UNIT];
    disk.read_at(ByteOffset::new(0), &mut boot).unwrap();
    boot[..440].fill(0xEB);
    disk.put(0, &boot);
    disk.put(1 << 20, &[0xAB; 4096]);
    common::undo(&mut target(&mut disk), &backup);
    assert_eq!(unit(&disk, last / UNIT as u64), [0; UNIT]);
    assert_eq!(unit(&disk, 0), boot);
}

/// Without a serial number a disk is known by its path, also if it has the same bytes.
#[test]
fn a_copy_at_another_path_is_another_disk() {
    let folder = tempfile::tempdir().unwrap();
    let plan = super::plan_of(&Memory::new(super::SIZE));
    // (path and serial number then, and at the undo; whether it is the disk)
    let cases = [
        (("/a", None), ("/a", None), true),
        (("/a", None), ("/b", None), false),
        (("/a", Some("S1")), ("/b", Some("S1")), true),
        (("/a", Some("S1")), ("/a", Some("S2")), false),
        (("/a", Some("S1")), ("/a", None), false),
    ];
    for (index, (then, now, is_it)) in cases.into_iter().enumerate() {
        let identity = |(path, serial): (&str, Option<&str>)| Identity {
            path: Some(path.into()),
            serial: serial.map(str::to_owned),
            ..Identity::default()
        };
        let mut disk = Memory::new(super::SIZE);
        let plan =
            crate::tests::common::edited(&plan, |json| json["disk"]["serial"] = then.1.into()).unwrap();
        let undo = folder.path().join(index.to_string());
        let mut open = Target::simulated(&mut disk, identity(then));
        Prepared::of(&mut open, &plan).unwrap().back_up(&undo).unwrap().write().unwrap();
        let undone = |backup: Backup, disk: &mut Memory| {
            let mut open = Target::simulated(disk, identity(now));
            backup.undo(&mut open, LaterWrites::Refuse).map(|_| ())
        };
        let result = undone(Backup::load(&undo).unwrap(), &mut disk);
        assert_eq!(result.is_ok(), is_it, "{index}: {result:?}");
        if matches!(result, Err(ApplyError::Elsewhere { .. })) {
            let renamed = Backup::load(&undo).unwrap().renamed_from("/a".as_ref()).unwrap();
            undone(renamed, &mut disk).unwrap();
            assert!(Backup::load(&undo).unwrap().renamed_from("/c".as_ref()).is_err());
        }
    }
}
