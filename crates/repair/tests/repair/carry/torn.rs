//! A physical sector of every write, torn: all eight of its sectors are garbage, those of others too. `TEARS=n`
//! tears each write so often.

use std::ops::ControlFlow;

use straddle_device::Medium;
use straddle_repair::Format;
use straddle_repair::realign::{JournalFile, JournalPlace, MoveError, Outcome, Reference, Run, Wanted};
use straddle_units::{BlockSize, ErrorKind};

use super::common::{Memory, Random, seeds, stack_of, target};
use super::uncached::{Tear, Uncached};
use super::{Drive, Powered, Shape, Survivor};

const PHYSICAL: u64 = 4096;

/// The write that the power fails in has its first sectors on the medium, one physical sector torn, and nothing behind
/// it.
type Torn = Uncached<Garbage>;

struct Garbage;

impl Tear for Garbage {
    fn tear(medium: &mut Memory, random: &mut Random, at: u64, bytes: &[u8]) {
        let end = at + bytes.len() as u64;
        let (first, last) = (at / PHYSICAL, end.div_ceil(PHYSICAL));
        // The first and the last one more often than one between.
        let block =
            [first, last - 1, first + random.below(last - first)][usize::try_from(random.below(3)).unwrap()];
        let start = (block * PHYSICAL).max(at);
        medium.put(at, &bytes[..usize::try_from(start - at).unwrap()]);
        let torn: Vec<u8> = (0..PHYSICAL / 8).flat_map(|_| random.next().to_le_bytes()).collect();
        let len = usize::try_from((medium.len - block * PHYSICAL).min(PHYSICAL)).unwrap();
        medium.put(block * PHYSICAL, &torn[..len]);
    }
}

/// The boot sector of an NTFS of so many sectors.
fn boot_sector(start: u64, sectors: u64) -> Vec<u8> {
    let mut bytes = vec![0; 512];
    let mut put = |at: usize, field: &[u8]| bytes[at..at + field.len()].copy_from_slice(field);
    put(0, b"\xeb\x52\x90NTFS    \x00\x02\x08");
    put(21, &[0xf8]);
    put(28, &u32::try_from(start).unwrap().to_le_bytes());
    put(40, &(sectors - 1).to_le_bytes());
    put(48, &4_u64.to_le_bytes());
    put(56, &8_u64.to_le_bytes());
    put(64, &[0xf6, 0, 0, 0, 1]);
    put(510, &[0x55, 0xaa]);
    bytes
}

/// Partitions of random bytes with boot sectors, and their copies at the end.
fn shape(format: Format, sectors: u64, parts: &[(u64, u64)]) -> Shape {
    let contents = |disk: &mut Memory| {
        for (start, sectors) in parts {
            let boot = boot_sector(*start, *sectors);
            disk.put(start * 512, &boot);
            disk.put((start + sectors - 1) * 512, &boot);
            // The records of the master file table and of the volume, in cluster 4.
            let mut record = vec![0; 512];
            record[..4].copy_from_slice(b"FILE");
            [32, 38].iter().for_each(|sector| disk.put((start + sector) * 512, &record));
        }
    };
    let shape = Shape::with(contents, "512e", format, sectors, parts, &Wanted::default());
    let is_boot = |(_, what): &(u32, Reference)| matches!(what, Reference::BootSector { .. });
    assert_eq!(shape.realign.references.iter().filter(|of| is_boot(of)).count(), parts.len());
    shape
}

/// A partition of random bytes, with these sectors over them.
fn with_sectors(start: u64, sectors: &[(u64, Vec<u8>)], is_found: fn(&Reference) -> bool) -> Shape {
    let contents = |disk: &mut Memory| sectors.iter().for_each(|(at, bytes)| disk.put(at * 512, bytes));
    let shape = Shape::with(contents, "512e", Format::Mbr, 16_000, &[(start, 3_001)], &Wanted::default());
    assert!(shape.realign.references.iter().any(|(_, what)| is_found(what)));
    shape
}

/// A sector with these fields.
fn sector(fields: &[(usize, &[u8])]) -> Vec<u8> {
    let mut bytes = vec![0; 512];
    for (at, field) in fields {
        bytes[*at..at + field.len()].copy_from_slice(field);
    }
    bytes
}

/// Beside the boot sector of EXTLINUX, in the same physical sector, is the superblock of ext4.
#[test]
fn what_is_beside_syslinux_survives_torn_physical_sectors() {
    let boot = sector(&[(3, b"EXTLINUX"), (28, &63_u32.to_le_bytes()), (510, &[0x55, 0xAA])]);
    tear_each(&with_sectors(63, &[(63, boot)], |what| matches!(what, Reference::Syslinux { .. })));
}

/// The sector of GRUB's core image, and its pieces behind it.
const CORE: u64 = 100;
const PIECES: [(u64, u16); 2] = [(101, 20), (300, 9)];

/// GRUB's boot image, and the first sector of its core image, which lists two pieces.
fn grub() -> (Vec<u8>, Vec<u8>) {
    let boot = sector(&[
        (0, &[0xEB, 0x63, 0x90]),
        (0x5A, &0x8000_u16.to_le_bytes()),
        (0x5C, &CORE.to_le_bytes()),
        (0x64, &[0xFF]),
        (0x180, b"GRUB \0Geom\0Hard Disk\0Read\0 Error"),
        (510, &[0x55, 0xAA]),
    ]);
    let entry = |index: usize, segment: u16| -> Vec<u8> {
        let (at, count) = PIECES[index];
        let parts = [&at.to_le_bytes()[..], &count.to_le_bytes(), &segment.to_le_bytes()];
        parts.concat()
    };
    let (first, second) = (entry(0, 0x820), entry(1, 0x820 + 20 * 0x20));
    let list = sector(&[
        (0, &[0x52]),
        (0x100, b"loading\0.\0\r\n\0Geom\0Read\0 Error\0"),
        (500, &first),
        (488, &second),
    ]);
    (boot, list)
}

/// The boot image in the first sector of the partition, and the core image in two pieces behind it.
#[test]
fn what_is_beside_grub_survives_torn_physical_sectors() {
    let (boot, list) = grub();
    let is_grub = |what: &Reference| matches!(what, Reference::Grub { in_partition: true, .. });
    tear_each(&with_sectors(63, &[(63, boot), (CORE, list)], is_grub));
}

fn tear_each(shape: &Shape) {
    let (operations, times) = (shape.operations::<Torn>(), seeds("TEARS", 1));
    let mut random = Random::new(operations);
    let mut new = 0;
    for cut in 0..operations * times {
        new += u64::from(shape.survive::<Torn>(cut / times, &mut random));
    }
    println!("{}: {operations} writes, each torn {times} times, {new} ended new", shape.name);
    assert!(new > 0 && new < operations * times);
}

#[test]
fn an_mbr_and_boot_sectors_survive_torn_physical_sectors() {
    tear_each(&shape(Format::Mbr, 16_000, &[(63, 1_501), (1_564, 1_000)]));
}

/// All data have moved, and the new table does not count yet: each write of the way back is torn.
fn tear_way_back(shape: &Shape) {
    let on = || |_| ControlFlow::Continue(());
    let moved = (0..shape.operations::<Drive>()).rev().find_map(|left| {
        let mut drive = Drive::new(shape.before.clone(), left);
        let _ = shape.begin_and_finish(&mut drive);
        let medium = drive.seen;
        Run::find(&mut target(&mut Drive::new(medium.clone(), 0)), None).is_ok().then_some(medium)
    });
    let moved = moved.unwrap();
    for cut in 0.. {
        let what = format!("{}, write {cut} of the way back", shape.name);
        let mut drive = Torn::on(moved.clone(), cut, cut);
        let ended = Run::find(&mut target(&mut drive), None).unwrap().roll_back(&mut on());
        let is_whole = ended.is_ok();
        let mut drive = Drive::new(drive.seen(), u64::MAX);
        match Run::find(&mut target(&mut drive), None) {
            Ok(run) => assert!(matches!(run.roll_back(&mut on()), Ok(Outcome::Complete(_))), "{what}"),
            Err(error) => assert!(matches!(error, MoveError::Nothing), "{what}: {error}"),
        }
        assert!(!shape.is_new(&drive.seen, &what), "{what}");
        if is_whole {
            println!("{}: {cut} writes of the way back", shape.name);
            return;
        }
    }
}

/// Records are in physical sectors that have data of the partition before them.
#[test]
fn extended_boot_records_beside_data_survive_torn_physical_sectors() {
    let from_63 = Shape::with_logical(
        20_000,
        &[(63, 2_000)],
        (2_063, 2_126),
        &[(2_063, 2_126, 1_000), (3_126, 3_189, 1_000)],
    );
    let stays =
        Shape::with_logical(20_000, &[], (2_047, 17_953), &[(2_047, 2_049, 3_001), (5_050, 5_051, 2_000)]);
    for shape in [from_63, stays] {
        tear_way_back(&shape);
    }
}

#[test]
fn a_gpt_and_boot_sectors_survive_torn_physical_sectors() {
    tear_each(&shape(Format::Gpt, 16_000, &[(34, 1_500), (1_534, 1_001)]));
}

/// The last entries of a GPT share a physical sector with the first partition, and nothing changes them.
#[test]
fn entries_of_a_gpt_beside_data_survive_torn_physical_sectors() {
    tear_way_back(&shape(Format::Gpt, 16_000, &[(34, 1_500), (1_534, 1_001)]));
}

/// With the journal in a file, which does not say on which disk its data are: whichever physical sector of the table is
/// torn while it is written, both ways go on without an option. A disk without these data is not written to.
#[test]
fn with_the_journal_in_a_file_a_torn_table_is_restored() {
    for format in [Format::Mbr, Format::Gpt] {
        let shape = shape(format, 16_000, &[(2_049, 1_501), (3_550, 1_000)]);
        let folder = tempfile::tempdir().unwrap();
        let on = || |_| ControlFlow::Continue(());
        let mut lost = 0;
        for (cut, goes_back) in (0..).flat_map(|cut| [(cut, false), (cut, true)]) {
            let what = format!("{}, write {cut}, back: {goes_back}", shape.name);
            let path = folder.path().join(format!("{cut} {goes_back}"));
            let file = || JournalFile::open(&path).unwrap();
            let mut drive = Torn::on(shape.before.clone(), cut, cut);
            let place = JournalPlace::File(JournalFile::create(&path, &shape.realign).unwrap());
            let mut disk = target(&mut drive);
            let ended = shape.realign.begin(&mut disk, place, [1; 16]).and_then(|run| run.finish(&mut on()));
            drop(disk);
            if ended.is_ok() {
                break;
            }
            let medium = drive.seen();
            let is_lost = stack_of(&medium, BlockSize::B512).partitions.is_empty();
            lost += u32::from(is_lost);
            let mut others = vec![];
            if is_lost {
                let mut other = Memory::new(medium.len().get());
                others.push(other.clone());
                other.put(0, &[0x5A; 8192]);
                others.push(other);
            }
            for other in others {
                let mut drive = Drive::new(other.clone(), u64::MAX);
                let mut disk = target(&mut drive);
                let run = Run::find(&mut disk, Some(file())).unwrap();
                let refused = if goes_back { run.roll_back(&mut on()) } else { run.finish(&mut on()) };
                drop(disk);
                assert_eq!(refused.unwrap_err().kind(), ErrorKind::Refused, "{what}");
                assert!(drive.seen == other, "{what}: another disk was written to");
            }
            let mut drive = Drive::new(medium, u64::MAX);
            let mut disk = target(&mut drive);
            let run = Run::find(&mut disk, Some(file())).unwrap();
            let mut ended = if goes_back { run.roll_back(&mut on()) } else { run.finish(&mut on()) };
            // Nothing has moved, and the disk may have been in use: there is only a way back.
            let goes_back = goes_back || matches!(ended, Err(MoveError::NotBegun));
            if matches!(ended, Err(MoveError::NotBegun)) {
                ended = Run::find(&mut disk, Some(file())).unwrap().roll_back(&mut on());
            }
            drop(disk);
            match ended {
                Ok(Outcome::Complete(_)) => {
                    assert_eq!(shape.is_new(&drive.seen, &what), !goes_back, "{what}")
                }
                Err(MoveError::Complete) if goes_back => assert!(shape.is_new(&drive.seen, &what), "{what}"),
                other => panic!("{what}: {other:?}"),
            }
        }
        println!("{}: {lost} times the table was lost", shape.name);
        assert!(lost > 1 || format == Format::Gpt, "{lost}");
    }
}
