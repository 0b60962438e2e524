//! A half-moved disk on which another program has written a table: the journal is found, the table is saved,
//! and a power cut while the marker is restored loses nothing.

use std::ops::ControlFlow;
use std::path::Path;

use straddle_device::Medium;
use straddle_layout::read_stack;
use straddle_repair::apply::{Backup, LaterWrites};
use straddle_repair::realign::{JournalPlace, MoveError, NoJournal, Outcome, Run, unmarked};
use straddle_repair::relocate::State;
use straddle_repair::{Format, Part, Place, Request, Seed, Size};
use straddle_units::{BlockSize, ByteCount, ByteOffset, ErrorKind, Span};

use super::common::{Memory, Random, plan_and_write, seeds, target};
use super::{Drive, Shape, Survivor};

/// The sectors of a GPT at the start of a disk, and at its end.
const GPT: (u64, u64) = (34, 33);

pub(super) fn shapes() -> [Shape; 2] {
    let parts = [(63, 3_001), (3_064, 2_000)];
    [Shape::new(Format::Mbr, 16_000, &parts), Shape::new(Format::Gpt, 16_000, &parts)]
}

fn copy(from: &Memory, to: &mut Memory, first: u64, sectors: u64) {
    let span = Span::new(ByteOffset::new(first * 512), ByteCount::new(sectors * 512)).unwrap();
    to.put(first * 512, &Shape::bytes(from, span));
}

/// A blank disk with a table that another program might write.
pub(super) fn other(format: Format, len: u64) -> Memory {
    let mut request = Request::new(Seed(7));
    (request.table, request.allow_misaligned) = (Some(format), true);
    let part = Part::new(Size::Sectors(5_000));
    request.parts.push(Part { start: Some(Place::Sector(2_048)), ..part });
    let mut disk = Memory::new(len);
    plan_and_write(&mut disk, "512e", &request).unwrap();
    disk
}

/// The disk with each of the tables.
pub(super) fn displace(shape: &Shape, stopped: &Memory) -> Vec<(&'static str, Memory)> {
    let (len, sectors) = (stopped.len().get(), stopped.len().get() / 512);
    let is_gpt = shape.name.contains("GPT");
    let mut old = stopped.clone();
    copy(&shape.before, &mut old, 0, if is_gpt { GPT.0 } else { 1 });
    if is_gpt {
        copy(&shape.before, &mut old, sectors - GPT.1, GPT.1);
    }
    let mut mbr = stopped.clone();
    copy(&other(Format::Mbr, len), &mut mbr, 0, 1);
    if is_gpt {
        [1, sectors - 1].iter().for_each(|sector| mbr.put(sector * 512, &[0; 512]));
    }
    let (mut gpt, blank) = (stopped.clone(), other(Format::Gpt, len));
    copy(&blank, &mut gpt, 0, GPT.0);
    copy(&blank, &mut gpt, sectors - GPT.1, GPT.1);
    vec![("the old table", old), ("an MBR", mbr), ("a GPT", gpt)]
}

pub(super) fn go(run: Run<'_>, goes_back: bool) -> Result<Outcome, MoveError> {
    let on = &mut |_| ControlFlow::Continue(());
    if goes_back { run.roll_back(on) } else { run.finish(on) }
}

#[test]
fn another_programs_table_is_overwritten_only_on_request_and_saved() {
    for shape in shapes() {
        let stopped = shape.stopped(JournalPlace::Inside).seen;
        for ((what, medium), goes_back) in
            displace(&shape, &stopped).into_iter().flat_map(|case| [(case.clone(), false), (case, true)])
        {
            let what = format!("{}, {what}, back: {goes_back}", shape.name);
            let folder = tempfile::tempdir().unwrap();
            let backup = folder.path().join("table");
            let mut drive = Drive::new(medium.clone(), u64::MAX);
            let again = shape.begin_and_finish(&mut drive).unwrap_err();
            assert_eq!(again.kind(), ErrorKind::Refused, "{what}: {again}");
            let mut disk = target(&mut drive);
            let found = Run::find(&mut disk, None).and_then(|run| go(run, goes_back));
            assert!(matches!(found, Err(MoveError::Nothing)), "{what}: {found:?}");
            let refused = Run::search(&mut disk, None).and_then(|run| go(run, goes_back));
            assert!(matches!(refused, Err(MoveError::OtherTable)), "{what}: {refused:?}");
            drop(disk);
            assert!(drive.seen == medium, "{what}: it was written to");
            // The table that was there comes back from its backup.
            let mut disk = target(&mut drive);
            assert!(Run::search(&mut disk, None).unwrap().restore_table(&backup).unwrap(), "{what}");
            let undone = Backup::load(&backup).unwrap();
            undone.undo(&mut disk, LaterWrites::Refuse).unwrap().write().unwrap();
            drop(disk);
            assert!(drive.seen == medium, "{what}: it was not reverted");
            let mut disk = target(&mut drive);
            let mut run = Run::search(&mut disk, None).unwrap();
            let exists = run.restore_table(&backup).unwrap_err();
            assert!(exists.to_string().contains("cannot store the backup"), "{exists}");
            assert!(run.restore_table(&folder.path().join("other")).unwrap(), "{what}");
            assert!(!run.restore_table(&folder.path().join("none")).unwrap(), "{what}");
            assert!(!folder.path().join("none").exists());
            assert!(matches!(go(run, goes_back), Ok(Outcome::Complete(_))), "{what}");
            drop(disk);
            assert_eq!(shape.is_new(&drive.seen, &what), !goes_back, "{what}");
            check_nothing(&drive.seen, &what);
        }
    }
}

/// A disk without a table is recognised by the journal, where journals end as a rule, and a blank one is none.
#[test]
fn a_disk_without_a_table_is_recognised_by_its_journal() {
    let found = |medium: &Memory| unmarked(medium, &read_stack(medium, Some(BlockSize::B512), None).unwrap());
    for shape in shapes() {
        let mut medium = shape.stopped(JournalPlace::Inside).seen;
        assert_eq!(found(&medium), None, "the marker is found by the table");
        let len = medium.len().get();
        for at in [0, len - GPT.1 * 512] {
            medium.put(at, &vec![0; usize::try_from(GPT.1 * 512).unwrap()]);
        }
        let is_lost = shape.name.contains("MBR") || found(&medium).is_some();
        assert!(is_lost, "{}", shape.name);
        assert_eq!(found(&Memory::new(len)), None);
    }
}

/// Restores the marker and goes on, on a drive that loses power after so many writes and flushes.
pub(super) fn recover(
    medium: Memory,
    left: u64,
    goes_back: bool,
    folder: &Path,
) -> (Drive, Result<Outcome, MoveError>) {
    let mut drive = Drive::new(medium, left);
    let mut disk = target(&mut drive);
    let backup = tempfile::Builder::new().tempdir_in(folder).unwrap().path().to_owned();
    let ended = Run::search(&mut disk, None).and_then(|mut run| {
        run.restore_table(&backup)?;
        go(run, goes_back)
    });
    drop(disk);
    (drive, ended)
}

#[test]
fn a_power_cut_while_the_marker_is_restored_loses_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let mut random = Random::new(5);
    for shape in shapes() {
        let stopped = shape.stopped(JournalPlace::Inside).seen;
        for (what, medium) in displace(&shape, &stopped) {
            let (whole, ended) = recover(medium.clone(), u64::MAX, false, folder.path());
            assert!(matches!(ended, Ok(Outcome::Complete(_))), "{what}: {ended:?}");
            for round in 0..seeds("MOVES", 24) {
                let (cut, goes_back) = (round * 3 / 2 % whole.taken, random.chance(50));
                let what = format!("{}, {what}, cut after {cut}, back: {goes_back}", shape.name);
                let (drive, _) = recover(medium.clone(), cut, goes_back, folder.path());
                let (drive, _) = recover(drive.cut(&mut random), random.below(12), goes_back, folder.path());
                let medium = drive.cut(&mut random);
                match recover(medium, u64::MAX, goes_back, folder.path()) {
                    (drive, Ok(Outcome::Complete(_)) | Err(MoveError::NoJournal(NoJournal::Anywhere))) => {
                        assert_eq!(shape.is_new(&drive.seen, &what), !goes_back, "{what}");
                    }
                    (_, ended) => panic!("{what}: {ended:?}"),
                }
            }
        }
    }
}

pub(super) fn places(medium: &Memory) -> Vec<(u32, Span)> {
    let stack = read_stack(medium, Some(BlockSize::B512), None).unwrap();
    stack.partitions.iter().map(|partition| (partition.number, partition.span)).collect()
}

/// Nothing is found, and nothing is written to look for it.
pub(super) fn check_nothing(medium: &Memory, what: &str) {
    let mut drive = Drive::new(medium.clone(), u64::MAX);
    let mut disk = target(&mut drive);
    let found = Run::search(&mut disk, None).map(drop);
    assert!(matches!(found, Err(MoveError::NoJournal(NoJournal::Anywhere))), "{what}: {found:?}");
    drop(disk);
    assert!(drive.seen == *medium, "{what}: it was written to");
}

/// A journal that a power cut has left behind the end of a move does not make an unfinished move.
#[test]
fn a_journal_that_was_not_erased_counts_for_nothing() {
    for shape in shapes() {
        let mut whole = Drive::new(shape.before.clone(), u64::MAX);
        shape.begin_and_finish(&mut whole).unwrap();
        let mut left_over = 0;
        for left in (0..whole.taken).rev().take(8) {
            let mut drive = Drive::new(shape.before.clone(), left);
            let _ = shape.begin_and_finish(&mut drive);
            let medium = drive.seen;
            if places(&medium) != places(&shape.after) {
                continue;
            }
            let what = format!("{}, cut after {left}", shape.name);
            check_nothing(&medium, &what);
            left_over += 1;
        }
        assert!(left_over > 0, "{}", shape.name);
    }
}

/// A GPT counts for other programs only behind its protective MBR, which no step of a move writes.
#[test]
fn a_protective_mbr_that_another_program_removed_is_restored_on_request() {
    let shape = Shape::new(Format::Gpt, 16_000, &[(34, 1_500), (1_534, 1_001)]);
    let stopped = shape.stopped(JournalPlace::Inside).seen;
    let mut empty = vec![0; 512];
    empty[510..].copy_from_slice(&[0x55, 0xAA]);
    let random: Vec<u8> = (0..512_u32).map(|at| u8::try_from(at * 7 % 251).unwrap()).collect();
    for (sector, goes_back) in
        [vec![0; 512], empty, random].into_iter().flat_map(|one| [(one.clone(), false), (one, true)])
    {
        let mut medium = stopped.clone();
        medium.put(0, &sector);
        let folder = tempfile::tempdir().unwrap();
        let mut drive = Drive::new(medium.clone(), u64::MAX);
        let mut disk = target(&mut drive);
        let refused = Run::search(&mut disk, None).and_then(|run| go(run, goes_back));
        assert!(matches!(refused, Err(MoveError::OtherTable)), "{refused:?}");
        drop(disk);
        assert!(drive.seen == medium, "it was written to");
        let mut disk = target(&mut drive);
        let mut run = Run::search(&mut disk, None).unwrap();
        assert!(run.restore_table(&folder.path().join("table")).unwrap());
        assert!(matches!(go(run, goes_back), Ok(Outcome::Complete(_))));
        drop(disk);
        assert_eq!(shape.is_new(&drive.seen, "restored"), !goes_back);
        // Sector 0 is the same with the marker and without.
        let saved = Backup::load(&folder.path().join("table")).unwrap();
        let over = drive.seen.clone();
        let refused = saved.undo(&mut target(&mut drive), LaterWrites::Refuse).map(drop).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Refused, "{refused}");
        assert!(drive.seen == over, "it was written to");
        assert_eq!(Shape::bytes(&drive.seen, first()), Shape::bytes(&shape.before, first()));
    }
}

fn first() -> Span {
    Span::first(ByteCount::new(512))
}

/// A torn table, before anything has moved: what has come to a place that the move goes to stays.
#[test]
fn without_a_table_data_in_the_way_stay() {
    let shape = &shapes()[0];
    let (_, new) = shape.places().into_iter().rfind(|(old, new)| old != new).unwrap();
    let mut whole = Drive::new(shape.before.clone(), u64::MAX);
    shape.begin_and_finish(&mut whole).unwrap();
    let mut seen = 0;
    for left in 0..whole.taken {
        let mut drive = Drive::new(shape.before.clone(), left);
        let _ = shape.begin_and_finish(&mut drive);
        let mut medium = drive.seen;
        medium.put(0, &[0x5A; 4096]);
        let state =
            Run::find(&mut target(&mut Drive::new(medium.clone(), 0)), None).and_then(|mut run| run.state());
        if !matches!(state, Ok(State::NotBegun)) {
            continue;
        }
        let at = new.start().get() + new.len().get() / 1024 * 512;
        medium.put(at, &[0xA5; 512]);
        let mut drive = Drive::new(medium.clone(), u64::MAX);
        let mut disk = target(&mut drive);
        let refused = Run::find(&mut disk, None).and_then(|run| go(run, false));
        drop(disk);
        let what = format!("{}, cut after {left}: {refused:?}", shape.name);
        assert!(refused.as_ref().is_err_and(|error| error.kind() == ErrorKind::Refused), "{what}");
        assert!(drive.seen == medium, "{what}: it was written to");
        let mut disk = target(&mut drive);
        let ended = Run::find(&mut disk, None).and_then(|run| go(run, true));
        drop(disk);
        assert!(matches!(ended, Ok(Outcome::Complete(_))), "{what}, then {ended:?}");
        let other = Span::new(ByteOffset::new(at), ByteCount::new(512)).unwrap();
        assert_eq!(Shape::bytes(&drive.seen, other), [0xA5; 512], "{what}");
        seen += 1;
    }
    assert!(seen > 0, "{}: {seen:?}", shape.name);
}
