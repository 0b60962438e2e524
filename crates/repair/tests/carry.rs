//! Power cuts while partitions move: after any of them, and after others during the recovery, every
//! partition has its bytes, and the table is the old one, the new one, or has the marker.
//!
//! The drive has a volatile write cache. Of the 512-byte units written since the last flush, any subset may be
//! on the medium. `MOVES=n` sets the number of cuts for each shape.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod common;

use std::ops::ControlFlow;

use common::logical::mbr;
use common::{Cut as Drive, Memory, Random, Reading, plan_and_write, seeds, stack_of, target, topology};
use straddle_device::Medium;
use straddle_repair::realign::{JournalPlace, MoveError, Outcome, Realign, Run, Wanted, make};
use straddle_repair::{Entry, Format, Part, Place, Request, Seed, Situation, Size, Slot};
use straddle_units::{BlockSize, ByteCount, ErrorKind, Span};

/// A disk with misaligned partitions of random bytes, and the plan to align them.
struct Shape {
    before: Memory,
    realign: Realign,
    old: Reading,
}

impl Shape {
    fn new(format: Format, sectors: u64, parts: &[(u64, u64)]) -> Self {
        let mut request = Request::new(Seed(1));
        (request.table, request.allow_misaligned) = (Some(format), true);
        for (start, sectors) in parts {
            let part = Part::new(Size::Sectors(*sectors));
            request.parts.push(Part { start: Some(Place::Sector(*start)), ..part });
        }
        let mut before = Memory::new(sectors * 512);
        plan_and_write(&mut before, "512e", &request).unwrap();
        Self::of(before, parts)
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
        Self::of(before, &primary.iter().copied().chain(parts).collect::<Vec<_>>())
    }

    /// Puts random bytes into the partitions.
    fn of(mut before: Memory, parts: &[(u64, u64)]) -> Self {
        let mut random = Random::new(before.len().get());
        for (start, sectors) in parts {
            let bytes: Vec<u8> = (0..sectors * 64).flat_map(|_| random.next().to_le_bytes()).collect();
            before.put(start * 512, &bytes);
        }
        let stack = stack_of(&before, BlockSize::B512);
        let topology = topology("512e");
        let situation = Situation { medium: &before, topology: &topology, stack: &stack, serial: None };
        let realign = make(&situation, &Wanted::default()).unwrap();
        let old = Reading::of(&before, BlockSize::B512);
        Self { before, realign, old }
    }

    fn bytes(medium: &Memory, span: Span) -> Vec<u8> {
        let mut bytes = vec![0; usize::try_from(span.len().get()).unwrap()];
        medium.read_at(span.start(), &mut bytes).unwrap();
        bytes
    }

    /// The old and the new place of each partition that holds data.
    fn places(&self) -> Vec<(Span, Span)> {
        let plan = self.realign.plan();
        let of = |number: u32| {
            let was = plan.before().iter().find(|entry| entry.number == number).unwrap();
            let is = plan.table().partitions.iter().find(|entry| entry.number == number).unwrap();
            (plan.span(was).unwrap(), plan.span(is).unwrap())
        };
        let holds_data = |entry: &&Entry| entry.slot != Slot::Extended;
        plan.before().iter().filter(holds_data).map(|entry| of(entry.number)).collect()
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
            let same = Self::bytes(medium, place) == Self::bytes(&self.before, was);
            assert!(same, "{what}: the contents of {was:?} are lost (new table: {is_new})");
        }
        is_new
    }

    /// While the marker counts, no table lists a partition that moves.
    fn check_marked(&self, medium: &Memory, what: &str) {
        let found = Reading::of(medium, BlockSize::B512);
        for (was, is) in self.places().into_iter().filter(|(was, is)| was != is) {
            for (_, start, ..) in &found.partitions {
                assert!(*start != was.start().get() && *start != is.start().get(), "{what}: {found:?}");
            }
        }
    }

    fn begin_and_finish(&self, drive: &mut Drive) -> Result<Outcome, MoveError> {
        let mut disk = target(drive);
        let run = self.realign.begin(&mut disk, JournalPlace::Inside, [9; 16])?;
        run.finish(&mut |_| ControlFlow::Continue(()))
    }

    /// Cuts the power after so many writes and flushes, then resumes or rolls back, with more cuts on the
    /// way. Returns whether the layout is the new one.
    fn survive(&self, cut: u64, random: &mut Random) -> bool {
        let mut drive = Drive::new(self.before.clone(), cut);
        let what = format!("cut after {cut}");
        let _ = self.begin_and_finish(&mut drive);
        let mut medium = drive.cut(random);
        let mut goes_back = random.chance(50);
        for round in 0..4 {
            let limit = if round < 2 { random.below(cut.max(8)) } else { u64::MAX };
            let mut drive = Drive::new(medium, limit);
            let mut disk = target(&mut drive);
            match Run::find(&mut disk, None) {
                Err(MoveError::Nothing) => {
                    drop(disk);
                    return self.settled(drive.seen, &what);
                }
                Err(error) => panic!("{what}, round {round}: {error}"),
                Ok(run) => {
                    let ended = match goes_back {
                        true => run.roll_back(&mut |_| ControlFlow::Continue(())),
                        false => run.finish(&mut |_| ControlFlow::Continue(())),
                    };
                    if let Err(error) = &ended
                        && limit == u64::MAX
                    {
                        assert!(matches!(error, MoveError::Turned), "{what}, round {round}: {error}");
                    }
                    goes_back |= matches!(ended, Err(MoveError::Turned));
                }
            }
            drop(disk);
            medium = drive.cut(random);
            if Run::find(&mut target(&mut Drive::new(medium.clone(), 0)), None).is_ok() {
                self.check_marked(&medium, &what);
            }
        }
        self.settled(medium, &what)
    }

    /// Checks a layout that does not change any more; the old one can be realigned again.
    fn settled(&self, medium: Memory, what: &str) -> bool {
        let is_new = self.is_new(&medium, what);
        if !is_new && stack_of(&medium, BlockSize::B512).problems.is_empty() {
            let mut drive = Drive::new(medium, u64::MAX);
            let done = self.begin_and_finish(&mut drive);
            assert!(matches!(done, Ok(Outcome::Complete(_))), "{what}, again: {done:?}");
            assert!(self.is_new(&drive.seen, what), "{what}, again");
        }
        is_new
    }

    /// The number of writes and flushes of a whole run.
    fn operations(&self) -> u64 {
        let mut drive = Drive::new(self.before.clone(), u64::MAX);
        let done = self.begin_and_finish(&mut drive);
        assert!(matches!(done, Ok(Outcome::Complete(_))), "{done:?}");
        assert!(self.is_new(&drive.seen, "without a cut"));
        u64::MAX - drive.left
    }
}

fn try_shape(format: Format, sectors: u64, parts: &[(u64, u64)]) {
    cut(&Shape::new(format, sectors, parts), &format!("{format} {parts:?}"));
}

fn cut(shape: &Shape, name: &str) {
    let operations = shape.operations();
    let mut random = Random::new(operations);
    let count = seeds("MOVES", 60);
    let mut new = 0;
    for round in 0..count {
        // Every place in turn, if there are enough rounds.
        let cut = if count > operations { round % operations } else { random.below(operations + 1) };
        new += u64::from(shape.survive(cut, &mut random));
    }
    println!("{name}: {operations} writes and flushes, {count} cuts, {new} ended new");
    assert!(new > 0 && new < count, "both ways were tried");
}

#[test]
fn a_shift_by_one_sector_survives_power_cuts() {
    // To sector 64: the next partition is aligned, and leaves room for no more.
    try_shape(Format::Mbr, 16_000, &[(63, 3_001), (3_064, 2_000)]);
}

#[test]
fn two_partitions_without_a_gap_survive_power_cuts() {
    try_shape(Format::Mbr, 14_000, &[(63, 3_000), (3_063, 3_000)]);
}

#[test]
fn partitions_of_a_gpt_survive_power_cuts() {
    try_shape(Format::Gpt, 16_000, &[(34, 3_000), (3_034, 3_001)]);
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
    cut(&shape, "two logical partitions behind a primary one");
}

/// Only the records tell the old table from the new one: the MBR stays as it is.
#[test]
fn logical_partitions_in_a_container_that_stays_survive_power_cuts() {
    let shape =
        Shape::with_logical(20_000, &[], (2_047, 17_953), &[(2_047, 2_049, 3_001), (5_050, 5_051, 2_000)]);
    let plan = shape.realign.plan();
    assert_eq!(plan.before()[0].start, plan.table().partitions[0].start);
    cut(&shape, "two logical partitions in a container that stays");
}

/// A move that was stopped goes on, or back; what is complete does not go back.
#[test]
fn a_stopped_move_goes_on_or_back() {
    let shape = Shape::new(Format::Mbr, 14_000, &[(63, 3_000), (3_063, 3_000)]);
    for goes_back in [false, true] {
        let mut drive = Drive::new(shape.before.clone(), u64::MAX);
        {
            let mut disk = target(&mut drive);
            let run = shape.realign.begin(&mut disk, JournalPlace::Inside, [1; 16]).unwrap();
            assert_eq!(run.finish(&mut |_| ControlFlow::Break(())).unwrap(), Outcome::Paused);
        }
        shape.check_marked(&drive.seen, "stopped");
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
    assert!(matches!(refused, Err(MoveError::Changed(_))), "{refused:?}");
    drop(disk);
    assert_eq!(drive.seen, before);
}
