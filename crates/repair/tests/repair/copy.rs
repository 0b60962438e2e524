//! Copies of simulated disks: power cuts and errors at any write, sectors that cannot be read, and plans that
//! contradict themselves.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use crate::tests::common;

use std::ops::ControlFlow;

use common::{Cut, Memory, Random, Reading, plan_and_write, seeds, stack_of, target, topology};
use straddle_device::{Medium, ReadError};
use straddle_repair::copy::{Copied, Copy, CopyError, CopyWanted, Source, Stage, Unreadable, new_size, plan};
use straddle_repair::realign::Run;
use straddle_repair::{Format, Part, Place, Request, Seed, Simulated, Situation, Size};
use straddle_units::{BlockSize, ByteCount, ByteOffset, ErrorKind, MIB};

const WANTED: CopyWanted = CopyWanted { wipe: false, grain: None, seed: Seed(5) };

/// A source of 6 MiB with misaligned partitions of random bytes.
fn source(format: Format, parts: &[(u64, u64)]) -> Memory {
    source_of(6 * MIB, format, parts)
}

fn source_of(size: u64, format: Format, parts: &[(u64, u64)]) -> Memory {
    let mut request = Request::new(Seed(1));
    (request.table, request.allow_misaligned) = (Some(format), true);
    for (start, sectors) in parts {
        let part = Part::new(Size::Sectors(*sectors));
        request.parts.push(Part { start: Some(Place::Sector(*start)), ..part });
    }
    let mut disk = Memory::new(size);
    plan_and_write(&mut disk, "512e", &request).unwrap();
    let mut random = Random::new(3);
    for (start, sectors) in parts {
        let bytes: Vec<u8> = (0..sectors * 64).flat_map(|_| random.next().to_le_bytes()).collect();
        disk.put(start * 512, &bytes);
    }
    if format == Format::Mbr {
        let mut first = bytes(&disk, 0, 512);
        first[..10].copy_from_slice(b"boot code ");
        disk.put(0, &first);
        let core: Vec<u8> = (0..62 * 64).flat_map(|_| random.next().to_le_bytes()).collect();
        disk.put(512, &core);
    }
    disk
}

/// Plans a copy to `new`, or to a blank disk of the right size.
fn planned(old: &Memory, new: Option<&Memory>, wanted: &CopyWanted) -> Result<Copy, CopyError> {
    let topology = topology("512e");
    let of = |medium| straddle_layout::read_all(medium, Some(BlockSize::B512), None).unwrap();
    let stack = of(old);
    let situation = Situation { medium: old, topology: &topology, stack: &stack, serial: None };
    let blank = Memory::new(new_size(&situation, &topology, wanted)?.get());
    let new = new.unwrap_or(&blank);
    let stack = stack_of(new, BlockSize::B512);
    plan(&situation, &Situation { medium: new, topology: &topology, stack: &stack, serial: None }, wanted)
}

fn run(copy: &Copy, old: &dyn Medium, drive: &mut Cut, skips_bad: bool) -> Result<Copied, CopyError> {
    let source = Source::simulated(old);
    let mut disk = target(drive);
    let how = if skips_bad { Unreadable::IsListed } else { Unreadable::Stops };
    copy.run(&source, &mut disk, how, (&mut |_, _| ControlFlow::Continue(()), &mut |_| Ok(())))
}

fn bytes(medium: &dyn Medium, start: u64, len: u64) -> Vec<u8> {
    let mut bytes = vec![0; usize::try_from(len).unwrap()];
    medium.read_at(ByteOffset::new(start), &mut bytes).unwrap();
    bytes
}

/// Whether the new disk is complete; its contents must be those of the source then.
fn is_complete(copy: &Copy, old: &Memory, new: &Memory) -> bool {
    let found = Reading::of(new, BlockSize::B512);
    let starts: Vec<u64> = found.partitions.iter().map(|(_, start, ..)| *start).collect();
    if starts.is_empty() || copy.extents.iter().any(|one| !starts.contains(&one.to.get())) {
        return false;
    }
    for one in &copy.extents {
        let (from, to, len) = (one.from.start().get(), one.to.get(), one.from.len().get());
        assert!(
            bytes(new, to, len) == bytes(old, from, len),
            "the table counts, and the contents are not there"
        );
    }
    if copy.plan.table.format == Format::Mbr {
        for (start, len) in [(0, 440), (512, 62 * 512)] {
            assert!(
                bytes(new, start, len) == bytes(old, start, len),
                "the table counts, and what the boot loader needs is missing"
            );
        }
    }
    true
}

const SHAPES: [(Format, &[(u64, u64)]); 2] =
    [(Format::Mbr, &[(63, 3_000), (3_063, 2_001)]), (Format::Gpt, &[(34, 3_000), (3_034, 3_001)])];

/// The power is cut after every write and flush in turn; what is on the medium then is the old disk, one that
/// is marked, or the complete one. The same command completes it.
#[test]
fn a_cut_at_any_write_leaves_nothing_that_looks_complete() {
    for (format, parts) in SHAPES {
        let old = source(format, parts);
        let copy = planned(&old, None, &WANTED).unwrap();
        let blank = Memory::new(copy.plan.disk.size.get());
        let mut random = Random::new(9);
        let mut whole = Cut::new(blank.clone(), u64::MAX);
        assert_eq!(run(&copy, &old, &mut whole, false).unwrap(), Copied::Complete(Vec::new()));
        assert!(is_complete(&copy, &old, &whole.seen));
        let operations = u64::MAX - whole.left;
        let mut unfinished = 0_u64;
        // What a power cut leaves of the cache is random.
        let times = seeds("COPY_CUTS", 8);
        for cut in (0..operations).flat_map(|cut| (0..times).map(move |_| cut)) {
            let mut drive = Cut::new(blank.clone(), cut);
            let error = run(&copy, &old, &mut drive, false).unwrap_err();
            assert_ne!(error.kind(), ErrorKind::Refused, "{error}");
            let medium = drive.cut(&mut random);
            let was_complete = is_complete(&copy, &old, &medium);
            unfinished += u64::from(!was_complete);
            let mut drive = Cut::new(medium, u64::MAX);
            let done = run(&copy, &old, &mut drive, false);
            // What is complete is not written again.
            let is_refused = matches!(done, Err(CopyError::Finished)) && was_complete;
            assert!(done.is_ok() || is_refused, "cut after {cut}: {done:?}");
            assert!(is_complete(&copy, &old, &drive.seen), "cut after {cut}");
        }
        println!(
            "{format}: {operations} cuts, {times} times each, {unfinished} of them leave an unfinished copy"
        );
    }
}

/// The sectors in which the firmware of boards and boot code look for boot loaders.
const LOADERS: [u64; 5] = [16, 64, 2_047, 16_384, 24_576];

/// A boot loader before the first partition is at the same place of the copy, or the plan names it. Sector 16 is in
/// the table of a GPT.
#[test]
fn a_boot_loader_before_the_first_partition_keeps_its_place_or_is_named() {
    for format in [Format::Mbr, Format::Gpt] {
        for (start, size) in [(32_768, 24), (32_769, 24), (63, 24), (20_481, 24), (32_768, 6), (30_001, 12)] {
            let start = if format == Format::Gpt { start.max(66) } else { start };
            let mut old = source_of(24 * MIB, format, &[(start, 5_000)]);
            let mut random = Random::new(7);
            let mut loaders = Vec::new();
            let table = if format == Format::Gpt { 34 } else { 1 };
            for sector in LOADERS.into_iter().filter(|sector| (table..start).contains(sector)) {
                let loader: Vec<u8> = (0..64).flat_map(|_| random.next().to_le_bytes()).collect();
                old.put(sector * 512, &loader);
                loaders.push((sector * 512, loader));
            }
            let copy = planned(&old, Some(&Memory::new(size * MIB)), &WANTED).unwrap();
            let mut drive = Cut::new(Memory::new(size * MIB), u64::MAX);
            run(&copy, &old, &mut drive, false).unwrap();
            assert!(is_complete(&copy, &old, &drive.seen), "{format}, {start}, {size} MiB");
            let first = copy.extents[0].to.get();
            let (there, gone): (Vec<_>, Vec<_>) = loaders.iter().partition(|(at, _)| at + 512 <= first);
            for (at, loader) in there {
                assert!(bytes(&drive.seen, *at, 512) == *loader, "{format}, {start}, {size} MiB: byte {at}");
            }
            let named = copy.plan.notes.iter().filter(|note| note.contains("is not copied"));
            let named: Vec<&String> = named.collect();
            assert_eq!(named.len(), usize::from(!gone.is_empty()), "{format}, {start}: {named:?}");
            if let Some((at, _)) = gone.first() {
                assert!(named[0].contains(&format!("from byte {at} on,")), "{format}, {start}: {named:?}");
            }
        }
    }
}

/// A source with a sector that cannot be read.
struct Scratched<'a>(&'a Memory, u64);

impl Medium for Scratched<'_> {
    fn len(&self) -> ByteCount {
        self.0.len()
    }

    fn read_at(&self, at: ByteOffset, buf: &mut [u8]) -> Result<(), ReadError> {
        let end = at.get() + buf.len() as u64;
        if at.get() < self.1 + 512 && self.1 < end {
            let source = std::io::Error::other("a scratch");
            return Err(ReadError::Io { at: ByteOffset::new(self.1), source });
        }
        self.0.read_at(at, buf)
    }
}

#[test]
fn a_sector_that_cannot_be_read_stops_the_copy_or_is_listed() {
    let old = source(Format::Mbr, SHAPES[0].1);
    let copy = planned(&old, None, &WANTED).unwrap();
    let at = 3_063 * 512 + 7 * 512;
    let scratched = Scratched(&old, at);
    let mut drive = Cut::new(Memory::new(copy.plan.disk.size.get()), u64::MAX);
    let error = run(&copy, &scratched, &mut drive, false).unwrap_err();
    assert!(matches!(error, CopyError::Unreadable { .. }), "{error}");
    assert!(!is_complete(&copy, &old, &drive.seen));
    let Copied::Complete(bad) = run(&copy, &scratched, &mut drive, true).unwrap() else { panic!("stopped") };
    let to = copy.extents[1].to.get() + 7 * 512;
    let places: Vec<(u64, u64, u64)> =
        bad.iter().map(|bad| (bad.from.start().get(), bad.from.len().get(), bad.to.get())).collect();
    assert_eq!(places, [(at, 512, to)]);
    assert!(bytes(&drive.seen, to, 512).starts_with(b"straddle: unreadable sector"));
    assert!(bytes(&drive.seen, to + 512, 512) == bytes(&old, at + 512, 512));
}

#[test]
fn a_new_disk_with_something_on_it_is_refused() {
    let old = source(Format::Gpt, SHAPES[1].1);
    let used = source(Format::Mbr, SHAPES[0].1);
    let refused = planned(&old, Some(&used), &WANTED).unwrap_err();
    assert!(matches!(&refused, CopyError::NotEmpty(found) if found[0] == "an MBR"), "{refused}");
    let consent = CopyWanted { wipe: true, ..WANTED };
    let small = planned(&old, Some(&Memory::new(3 * MIB)), &WANTED);
    assert!(matches!(small, Err(CopyError::TooSmall { .. })), "{small:?}");
    let mut large = used.clone();
    large.len = 12 * MIB;
    let copy = planned(&old, Some(&large), &consent).unwrap();
    assert_eq!(copy.over.len(), 3);
    // What has changed since is not written over.
    let mut drive = Cut::new(large.clone(), u64::MAX);
    drive.seen.put(0, &[0; 512]);
    assert!(run(&copy, &old, &mut drive, false).is_err());
    let mut drive = Cut::new(large, u64::MAX);
    assert!(run(&copy, &old, &mut drive, false).is_ok());
    assert!(is_complete(&copy, &old, &drive.seen));
    // Neither is a source that has changed.
    let mut other = old.clone();
    other.put(512, &[0; 512]);
    let mut drive = Cut::new(Memory::new(12 * MIB), u64::MAX);
    assert!(run(&copy, &other, &mut drive, false).is_err());
}

/// While it is not finished, it is not taken for a disk whose partitions move, and not for one to plan for.
#[test]
fn an_unfinished_copy_says_so() {
    let old = source(Format::Mbr, SHAPES[0].1);
    let copy = planned(&old, None, &WANTED).unwrap();
    let mut drive = Cut::new(Memory::new(copy.plan.disk.size.get()), u64::MAX);
    {
        let mut disk = target(&mut drive);
        let source = Source::simulated(&old);
        for (stage, expected) in [(Stage::Reading, Copied::Untouched), (Stage::Copying, Copied::Stopped)] {
            let watch =
                &mut |now, _| if now == stage { ControlFlow::Break(()) } else { ControlFlow::Continue(()) };
            let stopped = copy.run(&source, &mut disk, Unreadable::Stops, (watch, &mut |_| Ok(())));
            assert_eq!(stopped.unwrap(), expected);
        }
    }
    let found = Run::find(&mut target(&mut drive), None).err().unwrap();
    assert!(found.to_string().contains("a copy to this disk is unfinished"), "{found}");
    let mut request = Request::new(Seed(1));
    request.table = Some(Format::Gpt);
    let refused = common::plan(&drive.seen, "512e", &request).unwrap_err();
    assert!(refused.to_string().contains("a copy to this disk is unfinished"), "{refused}");
    request.wipe = true;
    common::plan(&drive.seen, "512e", &request).unwrap();
    // Another plan does not take it for empty.
    let refused = planned(&old, Some(&drive.seen), &WANTED).unwrap_err();
    assert!(matches!(&refused, CopyError::NotEmpty(found) if found[0] == "an unfinished copy"), "{refused}");
}

#[test]
fn a_stored_plan_that_contradicts_itself_is_refused() {
    let old = source(Format::Mbr, SHAPES[0].1);
    let copy = planned(&old, None, &WANTED).unwrap();
    let json = copy.to_json().unwrap();
    assert_eq!(Copy::from_json(&json).unwrap(), copy);
    let value: serde_json::Value = serde_json::from_str(&json).unwrap();
    let broken: [(&str, serde_json::Value); 6] = [
        ("/schema", 3.into()),
        ("/extents/0/from/start_bytes", (6 * MIB).into()),
        ("/extents/0/from/size_bytes", (4 * MIB).into()),
        ("/extents/1/to_bytes", MIB.into()),
        ("/lead/0/size_bytes", (2 * MIB).into()),
        ("/plan/table/partitions/0/start_lba", 2049.into()),
    ];
    for (path, new) in broken {
        let mut value = value.clone();
        *value.pointer_mut(path).unwrap() = new;
        assert!(Copy::from_json(&value.to_string()).is_err(), "{path}");
    }
}

/// What a plan says about a partition is what the source has: otherwise nothing would find it on the copy.
#[test]
fn a_plan_that_changes_what_finds_a_partition_is_refused() {
    for (format, parts) in SHAPES {
        let old = source(format, parts);
        let copy = planned(&old, None, &WANTED).unwrap();
        let value: serde_json::Value = serde_json::from_str(&copy.to_json().unwrap()).unwrap();
        let blank = Memory::new(copy.plan.disk.size.get());
        let changed = |change: &dyn Fn(&mut serde_json::Value)| {
            let mut value = value.clone();
            change(&mut value["plan"]["table"]["partitions"]);
            value.to_string()
        };
        let number =
            |index: usize, number: u32| changed(&move |parts| parts[index]["number"] = number.into());
        let swapped = changed(&|parts| (parts[0]["number"], parts[1]["number"]) = (2.into(), 1.into()));
        let bootable = changed(&|parts| parts[1]["bootable"] = true.into());
        let kind = if format == Format::Gpt { "4f68bce3-e8cd-4db1-96e7-fbcaf984b709" } else { "0x07" };
        let kind = changed(&|parts| parts[0]["kind"] = kind.into());
        let mut plans = vec![number(0, 3), number(1, 4), swapped, bootable, kind];
        if format == Format::Gpt {
            plans.push(number(1, 9));
            plans.push(changed(&|parts| parts[0]["uuid"] = "4f68bce3-e8cd-4db1-96e7-fbcaf984b709".into()));
            plans.push(changed(&|parts| parts[0]["name"] = "other".into()));
        }
        for json in plans {
            let Ok(plan) = Copy::from_json(&json) else { continue };
            assert_ne!(plan, copy);
            let mut drive = Cut::new(blank.clone(), u64::MAX);
            let error = run(&plan, &old, &mut drive, false).unwrap_err();
            assert!(matches!(error, CopyError::OtherSource(_)), "{error}: {json}");
            assert!(drive.seen == blank, "nothing is written");
        }
        // These stay readable, so that it is the source that decides.
        for json in [number(0, 3), number(1, 4)] {
            assert!(Copy::from_json(&json).is_ok(), "{format}");
        }
    }
}

/// A new image has the size that its plan needs, for its own topology and format of table, and not more.
#[test]
fn a_new_image_has_room_for_its_plan() {
    let own = topology("512e");
    for (format, assume, first, sectors, expected) in [
        (Format::Mbr, "512e", 63, 62 * 2048, 64),
        // To the last sector: an MBR has no backup.
        (Format::Mbr, "512e", 63, 63 * 2048, 64),
        (Format::Gpt, "512e", 34, 63 * 2048, 65),
        (Format::Mbr, "512e,io-opt=7340032", 63, 62 * 2048, 69),
    ] {
        let mut request = Request::new(Seed(1));
        (request.table, request.allow_misaligned) = (Some(format), true);
        let part = Part::new(Size::Sectors(sectors));
        request.parts.push(Part { start: Some(Place::Sector(first)), ..part });
        let mut old = Memory::new(64 * MIB);
        plan_and_write(&mut old, "512e", &request).unwrap();
        let stack = straddle_layout::read_all(&old, Some(BlockSize::B512), None).unwrap();
        let source = Situation { medium: &old, topology: &own, stack: &stack, serial: None };
        let topology = topology(assume);
        let size = new_size(&source, &topology, &WANTED).unwrap();
        assert_eq!(size.get(), expected * MIB, "{format} {assume}");
        let blank = Memory::new(size.get());
        let stack = stack_of(&blank, BlockSize::B512);
        let target = Situation { medium: &blank, topology: &topology, stack: &stack, serial: None };
        let made = plan(&source, &target, &WANTED).unwrap();
        assert_eq!(made.total().get(), sectors * 512, "nothing is left out");
    }
}

/// A source that somebody writes to during the copy, at any of its bytes, or whose list cannot be kept.
#[test]
fn a_copy_of_a_source_that_was_written_to_gets_no_table() {
    let folder = tempfile::tempdir().unwrap();
    let old = source(Format::Mbr, SHAPES[0].1);
    let copy = planned(&old, None, &WANTED).unwrap();
    let (from, to) = (folder.path().join("old"), folder.path().join("new"));
    let all = bytes(&old, 0, old.len().get());
    for (writes, keeps) in [(false, true), (true, true), (false, false)] {
        std::fs::write(&from, &all).unwrap();
        std::fs::write(&to, vec![0; usize::try_from(copy.plan.disk.size.get()).unwrap()]).unwrap();
        let source = Source::open(&from, &straddle_device::Options::default()).unwrap();
        let mut disk = straddle_repair::Target::open(&to, None).unwrap();
        let watch = &mut |_, _| {
            if writes {
                // A kernel's loop device takes no lock either.
                let file = std::fs::File::options().write(true).open(&from).unwrap();
                std::os::unix::fs::FileExt::write_all_at(&file, &[1], old.len().get() - 1).unwrap();
            }
            ControlFlow::Continue(())
        };
        let list = &mut |_: &[_]| if keeps { Ok(()) } else { Err(std::io::ErrorKind::StorageFull.into()) };
        let copied = copy.run(&source, &mut disk, Unreadable::Stops, (watch, list));
        match copied {
            Ok(Copied::Complete(_)) => assert!(!writes && keeps),
            Err(CopyError::SourceWritten(path)) => assert!(writes && path == from),
            Err(CopyError::List(_)) => assert!(!keeps),
            other => panic!("{other:?}"),
        }
        drop(disk);
        let read = std::fs::read(&to).unwrap();
        let mut new = Memory::new(read.len() as u64);
        new.put(0, &read);
        assert_eq!(is_complete(&copy, &old, &new), !writes && keeps);
    }
}

/// A complete copy is not written over, whatever was written to it since.
#[test]
fn a_finished_copy_is_refused() {
    for (format, parts) in SHAPES {
        let old = source(format, parts);
        let copy = planned(&old, None, &WANTED).unwrap();
        let mut drive = Cut::new(Memory::new(copy.plan.disk.size.get()), u64::MAX);
        run(&copy, &old, &mut drive, false).unwrap();
        let mut used = drive.seen;
        used.put(copy.extents[0].to.get(), &[0xA5; 512]);
        let mut drive = Cut::new(used.clone(), u64::MAX);
        let error = run(&copy, &old, &mut drive, false).unwrap_err();
        assert!(matches!(error, CopyError::Finished) && error.kind() == ErrorKind::Refused, "{error}");
        assert!(drive.seen == used, "nothing is written");
    }
}

/// Notes which sectors are written.
struct Noted(Memory, std::collections::BTreeSet<u64>);

impl Medium for Noted {
    fn len(&self) -> ByteCount {
        self.0.len()
    }

    fn read_at(&self, at: ByteOffset, buf: &mut [u8]) -> Result<(), ReadError> {
        self.0.read_at(at, buf)
    }
}

impl Simulated for Noted {
    fn write_at(&mut self, at: ByteOffset, bytes: &[u8]) -> std::io::Result<()> {
        self.1.extend((at.get() / 512..).take(bytes.len() / 512));
        self.0.write_at(at, bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// Random islands of data, at the edges of what is written above all: without consent a copy is made exactly if
/// none of them would be written over.
#[test]
fn only_zeros_are_written_over_without_consent() {
    const SIZE: u64 = 24 * MIB;
    let (mut refused, mut made) = (0, 0);
    for (format, parts) in SHAPES {
        let old = source_of(SIZE, format, &[parts[0], (12_001, 3_000), (17_003, 3_001)]);
        let copy = planned(&old, Some(&Memory::new(SIZE)), &WANTED).unwrap();
        assert_eq!(Copy::from_json(&copy.to_json().unwrap()).unwrap(), copy);
        let mut noted = Noted(Memory::new(SIZE), std::collections::BTreeSet::new());
        let how = Unreadable::Stops;
        let copied = copy.run(
            &Source::simulated(&old),
            &mut straddle_repair::Target::simulated(&mut noted, straddle_repair::Identity::default()),
            how,
            (&mut |_, _| ControlFlow::Continue(()), &mut |_| Ok(())),
        );
        assert_eq!(copied.unwrap(), Copied::Complete(Vec::new()));
        let written = noted.1;
        let edges: Vec<u64> = written
            .iter()
            .copied()
            .filter(|sector| !written.contains(&(sector + 1)) || !written.contains(&sector.wrapping_sub(1)))
            .collect();
        for seed in 0..seeds("COPY_ISLANDS", 100) {
            let mut random = Random::new(seed);
            let mut disk = Memory::new(SIZE);
            let mut islands = Vec::new();
            for _ in 0..=random.below(3) {
                let middle = 8_193 + random.below(SIZE / 512 - 4_096 - 8_193);
                let edge = edges[usize::try_from(random.below(edges.len() as u64)).unwrap()];
                let near = (edge + 3).saturating_sub(random.below(7)).min(SIZE / 512 - 1);
                let sector = if random.chance(50) { middle } else { near };
                let mut bytes = vec![0; 512];
                bytes[usize::try_from(random.below(512)).unwrap()] =
                    u8::try_from(1 + random.below(255)).unwrap();
                disk.put(sector * 512, &bytes);
                islands.push(sector);
            }
            let is_harmed = islands.iter().any(|sector| written.contains(sector));
            // Where tables and contents are looked for, anything counts.
            let is_probed = islands.iter().any(|sector| *sector < 8_192 || *sector >= SIZE / 512 - 4_096);
            let mut drive = Cut::new(disk.clone(), u64::MAX);
            match run(&copy, &old, &mut drive, false) {
                Ok(Copied::Complete(_)) => {
                    assert!(!is_harmed, "{format}, seed {seed}: {islands:?}");
                    for sector in islands {
                        assert!(bytes(&drive.seen, sector * 512, 512) == bytes(&disk, sector * 512, 512));
                    }
                    made += 1;
                }
                Err(error) => {
                    assert_eq!(error.kind(), ErrorKind::Refused, "{error}");
                    assert!(is_harmed || is_probed, "{format}, seed {seed}: {islands:?}: {error}");
                    if let CopyError::NotZero { at } = error {
                        assert!(islands.contains(&(at.get() / 512)) && bytes(&disk, at.get(), 1) != [0]);
                    }
                    assert!(drive.seen == disk, "nothing is written");
                    refused += 1;
                }
                other => panic!("{other:?}"),
            }
            // With consent all of them are written over.
            let consent = CopyWanted { wipe: true, ..WANTED };
            let Ok(over) = planned(&old, Some(&disk), &consent) else { panic!("{format}, seed {seed}") };
            let mut drive = Cut::new(disk, u64::MAX);
            assert_eq!(run(&over, &old, &mut drive, false).unwrap(), Copied::Complete(Vec::new()));
        }
    }
    println!("{refused} refused, {made} made");
    assert!(refused > 0 && made > 0);
}
