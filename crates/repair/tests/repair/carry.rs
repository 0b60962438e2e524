//! Power cuts while partitions move: after any of them, and after others during the recovery, every
//! partition has its bytes, and the table is the old one, the new one, or has the marker.
//!
//! There are two judges. The drive of this file has a volatile write cache: of the 512-byte units written since
//! the last flush, any subset may be on the medium. The modelled drives lose power as their model says
//! (`carry/modelled.rs`). `MOVES=n` sets the number of cuts for each shape and drive.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use crate::tests::common;
#[path = "carry/halves.rs"]
mod halves;
#[path = "carry/lost.rs"]
mod lost;
#[path = "carry/modelled.rs"]
mod modelled;
#[path = "carry/older.rs"]
mod older;
#[path = "carry/other_table.rs"]
mod other_table;
#[path = "carry/torn.rs"]
mod torn;
#[path = "carry/turned.rs"]
mod turned;
#[path = "carry/unallocated.rs"]
mod unallocated;
#[path = "carry/uncached.rs"]
mod uncached;
#[path = "carry/used.rs"]
mod used;

use std::ops::ControlFlow;

use common::logical::mbr;
use common::power::{Powered, Survivor, carry_out};
use common::{Cut as Drive, Memory, Random, Reading, plan_and_write, stack_of, target, topology};
use straddle_device::Medium;
use straddle_layout::read_all;
use straddle_repair::realign::{
    JournalFile, JournalPlace, MoveError, Outcome, Realign, RealignError, Run, Wanted, make,
};
use straddle_repair::relocate::State;
use straddle_repair::{Entry, Format, Part, Place, Request, Seed, Situation, Size, Slot};
use straddle_units::{BlockSize, ByteCount, ByteOffset, ErrorKind, Span};

/// A disk with misaligned partitions of random bytes, and the plan to align them.
struct Shape {
    name: String,
    assume: String,
    wanted: Wanted,
    before: Memory,
    /// After a run without a cut.
    after: Memory,
    realign: Realign,
    old: Reading,
}

impl Shape {
    /// Partitions of (start, sectors), to be aligned on the nearest boundaries.
    fn new(format: Format, sectors: u64, parts: &[(u64, u64)]) -> Self {
        Self::wanted("512e", format, sectors, parts, &Wanted::default())
    }

    /// The same, moved to the starts in `to`.
    fn to(format: Format, sectors: u64, parts: &[(u64, u64)], to: &[u64]) -> Self {
        let starts = (1..).zip(to).map(|(number, start)| (number, ByteOffset::new(start * 512)));
        let wanted = Wanted { starts: starts.collect(), ..Wanted::default() };
        Self::wanted("512e", format, sectors, parts, &wanted)
    }

    fn wanted(assume: &str, format: Format, sectors: u64, parts: &[(u64, u64)], wanted: &Wanted) -> Self {
        Self::with(|_| {}, assume, format, sectors, parts, wanted)
    }

    /// The same, with `contents` over the random bytes.
    fn with(
        contents: impl FnOnce(&mut Memory),
        assume: &str,
        format: Format,
        sectors: u64,
        parts: &[(u64, u64)],
        wanted: &Wanted,
    ) -> Self {
        let mut request = Request::new(Seed(1));
        (request.table, request.allow_misaligned) = (Some(format), true);
        for (start, sectors) in parts {
            let part = Part::new(Size::Sectors(*sectors));
            request.parts.push(Part { start: Some(Place::Sector(*start)), ..part });
        }
        let mut before = Memory::new(sectors * 512);
        plan_and_write(&mut before, assume, &request).unwrap();
        let name = format!("{assume} {format}");
        Self::of(before, parts, contents, (&name, assume), wanted)
    }

    /// A disk with primary partitions, and logical ones of (record, start, sectors) in a container.
    fn with_logical(
        sectors: u64,
        primary: &[(u64, u64)],
        extended: (u64, u64),
        logical: &[(u64, u64, u64)],
    ) -> Self {
        let before = mbr(sectors, primary, extended, logical);
        let parts = logical.iter().map(|(_, start, sectors)| (*start, *sectors));
        let parts: Vec<_> = primary.iter().copied().chain(parts).collect();
        Self::of(before, &parts, |_| {}, ("512e mbr, logical", "512e"), &Wanted::default())
    }

    /// Puts random bytes into the partitions, and `contents` over them.
    fn of(
        mut before: Memory,
        parts: &[(u64, u64)],
        contents: impl FnOnce(&mut Memory),
        (name, assume): (&str, &str),
        wanted: &Wanted,
    ) -> Self {
        let mut random = Random::new(before.len().get() / 512);
        for (start, sectors) in parts {
            let bytes: Vec<u8> = (0..sectors * 64).flat_map(|_| random.next().to_le_bytes()).collect();
            before.put(start * 512, &bytes);
        }
        contents(&mut before);
        let realign = Self::plan(&before, assume, wanted);
        let mut after = Drive::new(before.clone(), u64::MAX);
        let done = carry_out(&realign, &mut after);
        assert!(matches!(done, Ok(Outcome::Complete(_))), "{done:?}");
        let old = Reading::of(&before, BlockSize::B512);
        let sector = |byte: u64| byte / 512;
        let moves = realign.moves.iter();
        let moves: Vec<_> = moves
            .map(|one| [one.from.start().get(), one.from.len().get(), one.to.get()].map(sector))
            .collect();
        let (name, wanted) = (format!("{name} {moves:?}"), wanted.clone());
        let shape = Self { name, assume: assume.to_owned(), wanted, before, after: after.seen, realign, old };
        for (was, is) in shape.places() {
            let (was, is) = (Self::bytes(&shape.before, was), Self::bytes(&shape.after, is));
            let changed = was.iter().zip(&is).filter(|(one, other)| one != other).count();
            // The recorded start, in a boot sector and its copy.
            assert!(changed <= 8, "{changed} bytes differ after the move");
        }
        shape
    }

    fn plan(medium: &Memory, assume: &str, wanted: &Wanted) -> Realign {
        let (stack, topology) = (read_all(medium, Some(BlockSize::B512), None).unwrap(), topology(assume));
        make(&Situation { medium, topology: &topology, stack: &stack, serial: None }, wanted).unwrap()
    }

    fn bytes(medium: &Memory, span: Span) -> Vec<u8> {
        let mut bytes = vec![0; usize::try_from(span.len().get()).unwrap()];
        medium.read_at(span.start(), &mut bytes).unwrap();
        bytes
    }

    /// The old and the new place of each partition that holds data.
    fn places(&self) -> Vec<(Span, Span)> {
        let plan = &self.realign.plan;
        let of = |number: u32| {
            let was = plan.before.iter().find(|entry| entry.number == number).unwrap();
            let is = plan.table.partitions.iter().find(|entry| entry.number == number).unwrap();
            (plan.span(was).unwrap(), plan.span(is).unwrap())
        };
        let holds_data = |entry: &&Entry| entry.slot != Slot::Extended;
        plan.before.iter().filter(holds_data).map(|entry| of(entry.number)).collect()
    }

    /// A disk on which the moves were stopped after the first window.
    fn stopped(&self, journal: JournalPlace) -> Drive {
        let mut drive = Drive::new(self.before.clone(), u64::MAX);
        let mut disk = target(&mut drive);
        let run = self.realign.begin(&mut disk, journal, [1; 16]).unwrap();
        assert_eq!(run.finish(&mut |_| ControlFlow::Break(())).unwrap(), Outcome::Paused);
        drop(disk);
        drive
    }
}

impl Survivor for Shape {
    fn before(&self) -> &Memory {
        &self.before
    }

    fn realign(&self) -> &Realign {
        &self.realign
    }

    /// While the marker counts, no table lists a partition that moves.
    fn check_unfinished(&self, medium: &Memory, _: Result<State, MoveError>, what: &str) {
        let found = Reading::of(medium, BlockSize::B512);
        for (was, is) in self.places().into_iter().filter(|(was, is)| was != is) {
            for (_, start, ..) in &found.partitions {
                assert!(*start != was.start().get() && *start != is.start().get(), "{what}: {found:?}");
            }
        }
    }

    /// Whether the table is the old one, with all contents in their old places, or the new one with them in
    /// their new places; anything else is an error.
    fn is_new(&self, medium: &Memory, what: &str) -> bool {
        let found = Reading::of(medium, BlockSize::B512);
        let is_new = found.partitions != self.old.partitions;
        for (was, is) in self.places() {
            let place = if is_new { is } else { was };
            let number = |reading: &Reading, at: Span| {
                let of = reading.partitions.iter().find(|(_, start, ..)| *start == at.start().get());
                of.map(|(number, ..)| *number)
            };
            let is_same = number(&found, place) == number(&self.old, was) && number(&found, place).is_some();
            assert!(is_same, "{what}: {was:?} is not at {place:?}: {:?}", found.partitions);
            let expected = if is_new { &self.after } else { &self.before };
            let same = Self::bytes(medium, place) == Self::bytes(expected, place);
            assert!(same, "{what}: the contents of {was:?} are lost (new table: {is_new})");
        }
        is_new
    }

    /// Checks a layout that does not change any more; the old one can be realigned again.
    fn settled(&self, medium: Memory, what: &str) -> bool {
        let is_new = self.is_new(&medium, what);
        if !is_new && stack_of(&medium, BlockSize::B512).problems.is_empty() {
            // A cut may have left data on their way in space that was empty.
            let wanted = Wanted { wipe: true, ..self.wanted.clone() };
            let again = Self::plan(&medium, &self.assume, &wanted);
            let mut drive = Drive::new(medium, u64::MAX);
            let done = carry_out(&again, &mut drive);
            assert!(matches!(done, Ok(Outcome::Complete(_))), "{what}, again: {done:?}");
            assert!(self.is_new(&drive.seen, what), "{what}, again");
        }
        is_new
    }
}

fn try_shape(shape: &Shape) {
    try_on::<Drive>(shape, "any subset", 30);
}

fn try_on<D: Powered>(shape: &Shape, drive: &str, usual: u64) {
    shape.try_cuts::<D>(&format!("{}, {drive}", shape.name), "MOVES", usual);
}

#[test]
fn a_shift_by_one_sector_survives_power_cuts() {
    try_shape(&Shape::to(Format::Mbr, 16_000, &[(63, 3_001)], &[64]));
}

#[test]
fn a_shift_past_a_neighbour_survives_power_cuts() {
    try_shape(&Shape::new(Format::Mbr, 16_000, &[(63, 3_001), (3_064, 2_000)]));
}

#[test]
fn two_partitions_without_a_gap_survive_power_cuts() {
    try_shape(&Shape::new(Format::Mbr, 14_000, &[(63, 3_000), (3_063, 3_000)]));
}

#[test]
fn partitions_of_a_gpt_survive_power_cuts() {
    try_shape(&Shape::new(Format::Gpt, 16_000, &[(34, 3_000), (3_034, 3_001)]));
}

#[test]
fn three_partitions_in_a_chain_survive_power_cuts() {
    try_shape(&Shape::new(Format::Gpt, 16_000, &[(34, 2_000), (2_034, 2_000), (4_034, 2_001)]));
}

#[test]
fn a_shift_down_by_one_sector_survives_power_cuts() {
    try_shape(&Shape::to(Format::Mbr, 16_000, &[(2_065, 3_001)], &[2_064]));
}

#[test]
fn a_shift_by_seven_sectors_survives_power_cuts() {
    try_shape(&Shape::to(Format::Mbr, 16_000, &[(2_057, 3_001)], &[2_064]));
}

#[test]
fn a_shift_by_one_mebibyte_survives_power_cuts() {
    try_shape(&Shape::to(Format::Mbr, 16_000, &[(2_056, 3_001)], &[4_104]));
}

#[test]
fn a_shift_to_the_very_end_survives_power_cuts() {
    let shape = Shape::to(Format::Mbr, 16_000, &[(63, 3_000)], &[13_000]);
    assert_eq!(shape.places()[0].1.end().get(), 16_000 * 512);
    try_shape(&shape);
}

/// From sector 63 of a track, without a gap: the records are in the last sectors of others' physical sectors.
#[test]
fn logical_partitions_survive_power_cuts() {
    let shape = Shape::with_logical(
        20_000,
        &[(63, 2_000)],
        (2_063, 6_126),
        &[(2_063, 2_126, 3_000), (5_126, 5_189, 3_000)],
    );
    let numbers: Vec<u32> = shape.old.partitions.iter().map(|(number, ..)| *number).collect();
    assert_eq!(numbers, [1, 2, 5, 6]);
    try_shape(&shape);
}

/// Only the records tell the old table from the new one: the MBR stays as it is.
#[test]
fn logical_partitions_in_a_container_that_stays_survive_power_cuts() {
    let shape =
        Shape::with_logical(20_000, &[], (2_047, 17_953), &[(2_047, 2_049, 3_001), (5_050, 5_051, 2_000)]);
    let plan = &shape.realign.plan;
    assert_eq!(plan.before[0].start, plan.table.partitions[0].start);
    try_shape(&shape);
}

/// A move that was stopped goes on, or back; what is complete does not go back.
#[test]
fn a_stopped_move_goes_on_or_back() {
    let shape = Shape::new(Format::Mbr, 14_000, &[(63, 3_000), (3_063, 3_000)]);
    for goes_back in [false, true] {
        let mut drive = shape.stopped(JournalPlace::Inside);
        shape.check_unfinished(&drive.seen, Ok(State::Moved), "stopped");
        let again = shape.begin_and_finish(&mut drive).unwrap_err();
        assert_eq!(again.kind(), ErrorKind::Refused, "{again}");
        let mut disk = target(&mut drive);
        let run = Run::find(&mut disk, None).unwrap();
        let on = &mut |_| ControlFlow::Continue(());
        let ended = if goes_back { run.roll_back(on) } else { run.finish(on) };
        assert!(matches!(ended, Ok(Outcome::Complete(_))));
        drop(disk);
        assert_eq!(shape.is_new(&drive.seen, "resumed"), !goes_back);
        if goes_back {
            for (was, _) in shape.places() {
                assert_eq!(Shape::bytes(&drive.seen, was), Shape::bytes(&shape.before, was));
            }
        }
    }
}

/// What another program has written to the table since is not overwritten.
#[test]
fn a_table_that_was_changed_meanwhile_is_refused() {
    let shape = Shape::new(Format::Mbr, 14_000, &[(63, 3_000), (3_063, 3_000)]);
    let mut drive = Drive::new(shape.before.clone(), u64::MAX);
    {
        let mut disk = target(&mut drive);
        let run = shape.realign.begin(&mut disk, JournalPlace::Inside, [1; 16]).unwrap();
        run.finish(&mut |_| ControlFlow::Break(())).unwrap();
    }
    let mut sector = Shape::bytes(&drive.seen, Span::first(ByteCount::new(512)));
    sector[440] ^= 1;
    drive.seen.put(0, &sector);
    let before = drive.seen.clone();
    let mut disk = target(&mut drive);
    let refused = Run::find(&mut disk, None).unwrap().finish(&mut |_| ControlFlow::Continue(()));
    assert!(matches!(refused, Err(MoveError::OtherTable)), "{refused:?}");
    drop(disk);
    assert_eq!(drive.seen, before);
}

/// A journal in a file, as it is after a cut in the middle, and its disk.
fn cut_in_the_middle(shape: &Shape, folder: &std::path::Path) -> (Memory, std::path::PathBuf) {
    let path = folder.join("journal");
    let file = JournalFile::create(&path, &shape.realign).unwrap();
    // It holds data of the disk.
    let mode = std::os::unix::fs::MetadataExt::mode(&std::fs::metadata(&path).unwrap());
    assert_eq!(mode & 0o777, 0o600);
    (shape.stopped(JournalPlace::File(file)).seen, path)
}

/// A restored backup, a clone of before and a foreign disk are not the disk that the journal was left for.
#[test]
fn a_journal_in_a_file_writes_to_no_other_disk() {
    let shape = Shape::new(Format::Mbr, 14_000, &[(63, 3_000), (3_063, 3_000)]);
    let folder = tempfile::tempdir().unwrap();
    let (_, path) = cut_in_the_middle(&shape, folder.path());
    let mut random = Random::new(3);
    let mut noise = shape.before.clone();
    noise.put(0, &(0..8192).map(|_| u8::try_from(random.below(256)).unwrap()).collect::<Vec<_>>());
    let blank = Memory::new(shape.before.len().get());
    for (what, disk) in
        [("before", &shape.before), ("after", &shape.after), ("noise", &noise), ("blank", &blank)]
    {
        for goes_back in [false, true] {
            let mut drive = Drive::new(disk.clone(), u64::MAX);
            let mut other = target(&mut drive);
            let file = JournalFile::open(&path).unwrap();
            let ended = Run::find(&mut other, Some(file)).and_then(|run| match goes_back {
                true => run.roll_back(&mut |_| ControlFlow::Continue(())),
                false => run.finish(&mut |_| ControlFlow::Continue(())),
            });
            assert_eq!(ended.unwrap_err().kind(), ErrorKind::Refused, "{what}");
            drop(other);
            let whole = Span::first(disk.len());
            assert!(
                Shape::bytes(&drive.seen, whole) == Shape::bytes(disk, whole),
                "{what}: it was written to"
            );
        }
    }
}

/// All data have moved, and another program restored the old table: the journal is needed.
#[test]
fn a_journal_of_moved_data_is_kept() {
    let shape = Shape::new(Format::Mbr, 14_000, &[(63, 3_000), (3_063, 3_000)]);
    let whole = Span::first(shape.before.len());
    let (mut kept, mut complete) = (0, 0);
    for cut in 0..shape.operations::<Drive>() {
        let mut drive = Drive::new(shape.before.clone(), cut);
        let _ = shape.begin_and_finish(&mut drive);
        let mut medium = drive.seen;
        let state =
            Run::find(&mut target(&mut Drive::new(medium.clone(), 0)), None).and_then(|mut run| run.state());
        let is_new = shape.old.partitions != Reading::of(&medium, BlockSize::B512).partitions;
        let sector = Shape::bytes(&shape.before, Span::first(ByteCount::new(512)));
        medium.put(0, &sector);
        let mut drive = Drive::new(medium.clone(), u64::MAX);
        let again = shape.begin_and_finish(&mut drive);
        match state {
            Ok(State::Moving { .. } | State::Moved) => {
                kept += 1;
                assert_eq!(again.unwrap_err().kind(), ErrorKind::Refused, "cut after {cut}");
                assert!(Shape::bytes(&drive.seen, whole) == Shape::bytes(&medium, whole), "cut after {cut}");
            }
            _ if is_new => complete += 1,
            _ => {}
        }
    }
    assert!(kept > 3, "{kept} {complete}");
}

/// A boot loader that was installed meanwhile is not taken for a torn sector.
#[test]
fn other_boot_code_is_not_overwritten() {
    let shape = Shape::new(Format::Mbr, 14_000, &[(63, 3_000), (3_063, 3_000)]);
    for goes_back in [false, true] {
        let mut medium = shape.stopped(JournalPlace::Inside).seen;
        let mut first = Shape::bytes(&medium, Span::first(ByteCount::new(512)));
        first[..440].fill(0x90);
        medium.put(0, &first);
        medium.put(512, &[0x91; 39 * 512]);
        let mut drive = Drive::new(medium.clone(), u64::MAX);
        let mut disk = target(&mut drive);
        let run = Run::find(&mut disk, None).unwrap();
        let on = &mut |_| ControlFlow::Continue(());
        let ended = if goes_back { run.roll_back(on) } else { run.finish(on) };
        assert_eq!(ended.unwrap_err().kind(), ErrorKind::Refused);
        drop(disk);
        let whole = Span::first(medium.len());
        assert!(Shape::bytes(&drive.seen, whole) == Shape::bytes(&medium, whole), "it was written to");
    }
}

/// A hibernated system has the table in memory, in whichever partition its image is.
#[test]
fn nothing_moves_while_a_partition_that_stays_holds_a_hibernated_system() {
    let marks = [&b"S1SUSPEND\0"[..], b"LINHIB0001", b"\xed\xc3\x02\xe9\x98\x56\xe5\x0c"];
    for (mark, page) in marks.into_iter().flat_map(|mark| [4096, 8192, 32768].map(|page| (mark, page))) {
        let mut disk = Memory::new(102_400 * 512);
        let mut request = Request::new(Seed(1));
        (request.table, request.allow_misaligned) = (Some(Format::Gpt), true);
        for (start, sectors) in [(4097, 20_480), (63_488, 20_480)] {
            let part = Part::new(Size::Sectors(sectors));
            request.parts.push(Part { start: Some(Place::Sector(start)), ..part });
        }
        plan_and_write(&mut disk, "512e", &request).unwrap();
        let put = |disk: &mut Memory| {
            let mut sector = vec![0; 512];
            sector[502..502 + mark.len()].copy_from_slice(mark);
            disk.put(63_488 * 512 + page - 512, &sector);
        };
        let planned = |disk: &Memory| {
            let stack = read_all(disk, Some(BlockSize::B512), None).unwrap();
            let topology = topology("512e");
            let situation = Situation { medium: disk, topology: &topology, stack: &stack, serial: None };
            make(&situation, &Wanted::default())
        };
        let awake = planned(&disk).unwrap();
        put(&mut disk);
        let asleep = planned(&disk);
        assert!(matches!(asleep, Err(RealignError::Immovable { number: 2, .. })), "{asleep:?}");
        let mut drive = Drive::new(disk.clone(), u64::MAX);
        let mut target = target(&mut drive);
        let refused = awake.begin(&mut target, JournalPlace::Inside, [1; 16]).err();
        assert!(matches!(refused, Some(MoveError::Partition { number: 2, .. })), "{refused:?}");
        drop(target);
        assert_eq!(drive.seen, disk);
    }
}
