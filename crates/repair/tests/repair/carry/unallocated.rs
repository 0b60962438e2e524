//! What no partition has: data there stay, whenever they came, or the move is refused; and a move leaves nothing there.

use std::ops::ControlFlow;

use straddle_layout::read_all;
use straddle_repair::realign::{
    JournalFile, JournalPlace, MoveError, Outcome, RealignError, Run, Wanted, make,
};
use straddle_repair::relocate::State;
use straddle_repair::{Format, Request, Seed, Situation};
use straddle_units::{BlockSize, ByteCount, ByteOffset, ErrorKind, Span};

use super::common::power::carry_out;
use super::common::{Memory, Random, plan_and_write, seeds, target, topology};
use super::other_table::go;
use super::{Drive, Shape, Survivor};

/// A little way, a long one, past a neighbour, and logical partitions.
fn shapes() -> [Shape; 4] {
    [
        Shape::to(Format::Mbr, 16_000, &[(63, 3_001)], &[64]),
        Shape::to(Format::Mbr, 24_000, &[(63, 3_001)], &[9_000]),
        Shape::new(Format::Gpt, 16_000, &[(34, 3_000), (3_034, 3_001)]),
        Shape::with_logical(
            20_000,
            &[(63, 2_000)],
            (2_063, 6_126),
            &[(2_063, 2_126, 3_000), (5_126, 5_189, 3_000)],
        ),
    ]
}

fn sector(at: u64) -> Span {
    Span::new(ByteOffset::new(at * 512), ByteCount::new(512)).unwrap()
}

/// The sectors that no partition of the old table has, nor of the new one `with_new`, nor the tables themselves.
fn unallocated(shape: &Shape, with_new: bool) -> Vec<u64> {
    let (places, all) = (shape.places(), shape.before.len / 512);
    let zeros = vec![0; 512];
    let is_zero = |medium: &Memory, at| Shape::bytes(medium, sector(at)) == zeros;
    let is_free = |at: &u64| {
        let is_in = |span: &Span| span.contains(sector(*at));
        let taken = places.iter().any(|(was, is)| is_in(was) || (with_new && is_in(is)));
        !taken && is_zero(&shape.before, *at)
    };
    (34..all - 33).filter(is_free).collect()
}

/// The disk after so many writes and flushes of the move.
fn killed(shape: &Shape, left: u64) -> Memory {
    let mut drive = Drive::new(shape.before.clone(), left);
    let _ = shape.begin_and_finish(&mut drive);
    drive.seen
}

/// What a move brings to the physical sector around a free one: its owner may have a copy of the data there.
fn copied_to(shape: &Shape, free: &[u64], at: u64) -> Option<(u64, Vec<u8>)> {
    let block = at / 8 * 8..at / 8 * 8 + 8;
    if !block.clone().all(|at| free.contains(&at)) {
        return None;
    }
    let brings = shape.realign.moves.iter().find(|one| {
        let is_old = shape.places().iter().any(|(was, _)| *was == one.from);
        let to = one.destination().unwrap();
        is_old && block.clone().all(|at| to.contains(sector(at)))
    })?;
    let from = brings.from.start().get() / 512 + (block.start - brings.to.get() / 512);
    Some((block.start, (from..from + 8).flat_map(|at| Shape::bytes(&shape.before, sector(at))).collect()))
}

/// Whether the table that counts has the marker of a move.
fn has_marker(medium: &Memory) -> bool {
    let stack = straddle_layout::read_stack(medium, None, None).unwrap();
    straddle_layout::marker(medium, &stack).unwrap().is_some()
}

/// Whatever was written of the journal of a move that was killed before any data moved, the next one needs no consent, and
/// leaves nothing; and no later one does after that.
#[test]
fn what_is_left_of_a_journal_is_in_nobodys_way() {
    let mut left_over = 0;
    for shape in shapes().into_iter().take(3).step_by(2) {
        let (zeros, free) = (vec![0; 512], unallocated(&shape, true));
        let is_whole = |at: &u64| (at / 8 * 8..at / 8 * 8 + 8).all(|at| free.binary_search(&at).is_ok());
        let whole_blocks: Vec<u64> = free.iter().copied().filter(is_whole).collect();
        for left in 0.. {
            let mut medium = killed(&shape, left);
            let state = Run::find(&mut target(&mut Drive::new(medium.clone(), 0)), None).err();
            if !matches!(state, Some(MoveError::Nothing)) || has_marker(&medium) {
                break;
            }
            left_over += usize::from(medium != shape.before);
            for cut in [left / 2, u64::MAX].into_iter().skip(usize::from(left % 8 != 4)) {
                let again = Shape::plan(&medium, &shape.assume, &shape.wanted);
                assert_eq!(again.journal, shape.realign.journal, "{} killed after {left}", shape.name);
                let mut drive = Drive::new(medium, cut);
                let ended = carry_out(&again, &mut drive);
                let is_done = matches!(ended, Ok(Outcome::Complete(_)));
                assert!(is_done || cut != u64::MAX, "{} killed after {left}: {ended:?}", shape.name);
                medium = drive.seen;
            }
            assert!(shape.is_new(&medium, &shape.name));
            let odd = whole_blocks.iter().find(|at| Shape::bytes(&medium, sector(**at)) != zeros);
            assert_eq!(odd, None, "{} killed after {left}", shape.name);
        }
    }
    assert!(left_over > 12, "{left_over}");
}

/// The sectors of the first body of a journal, if it is whole.
fn body(medium: &Memory) -> Option<std::ops::Range<u64>> {
    let bytes = |at| Shape::bytes(medium, sector(at));
    let is_body = |at: &u64| bytes(*at).starts_with(b"relobody");
    let first = (34..medium.len / 512).find(is_body)?;
    let end = (first..medium.len / 512).find(|at| !is_body(at))?;
    let text = &bytes(end - 1)[..512 - 16];
    let last = text.iter().rposition(|byte| *byte != 0)?;
    text[..=last].ends_with(b"}}").then_some(first..end)
}

/// A body that was cut off goes, and what came behind it, after it was cut off or into it is refused, by the plan and by the
/// run, whatever it is.
#[test]
fn data_behind_and_in_what_is_left_of_a_journal_stay() {
    let binary: Vec<u8> = (0..=255_u8).chain((0..=255).rev()).collect();
    let fills = [b"Dear_diary,the_only_copy:here..\"".repeat(16), b"0f".repeat(256), vec![b' '; 512], binary];
    for shape in &shapes()[..2] {
        let whole = (0..).map(|left| killed(shape, left)).find(|medium| body(medium).is_some()).unwrap();
        let run = body(&whole).unwrap();
        assert!(run.end - run.start > 4 && run.start > 40, "{run:?}");
        let again = Shape::plan(&whole, &shape.assume, &shape.wanted);
        let mut places = vec![(run.end, 1), (run.end, 8)];
        for cut in [run.start + 1, run.start.midpoint(run.end), run.end - 1] {
            let mut odd = whole.clone();
            (cut..run.end).for_each(|at| odd.put(at * 512, &[0; 512]));
            let mut drive = Drive::new(odd, u64::MAX);
            assert!(matches!(carry_out(&again, &mut drive), Ok(Outcome::Complete(_))), "cut at {cut}");
            places.extend([(cut, 1), (cut, run.end - cut), (cut, run.end - cut + 8)]);
        }
        for ((at, count), fill) in
            places.iter().flat_map(|place| fills.iter().map(move |fill| (*place, fill)))
        {
            let mut odd = whole.clone();
            (at..at + count).for_each(|at| odd.put(at * 512, fill));
            let (stack, topology) =
                (read_all(&odd, Some(BlockSize::B512), None).unwrap(), topology(&shape.assume));
            let situation = Situation { medium: &odd, topology: &topology, stack: &stack, serial: None };
            let made = make(&situation, &shape.wanted);
            let text = String::from_utf8_lossy(&fill[..8]);
            // Another place is no harm.
            let is_kept = match &made {
                Err(RealignError::Occupied { .. }) => true,
                made => made.as_ref().is_ok_and(|made| made.journal != again.journal),
            };
            assert!(is_kept, "{} {text:?} at {at}, {count}: {made:?}", shape.name);
            let mut drive = Drive::new(odd.clone(), u64::MAX);
            let ended = carry_out(&again, &mut drive);
            assert!(
                ended.is_err() && drive.seen == odd,
                "{} {text:?} at {at}, {count}: {ended:?}",
                shape.name
            );
        }
    }
}

/// A GPT disk that has grown, with the backup at its end; the old one is still where the disk ended.
fn grown() -> Memory {
    let shape = Shape::new(Format::Gpt, 16_000, &[(34, 3_000), (3_034, 5_000)]);
    let mut grown = shape.before;
    grown.len += 16 << 20;
    let mut request = Request::new(Seed(2));
    (request.repair, request.relocate_backup) = (true, true);
    plan_and_write(&mut grown, "512e", &request).unwrap();
    grown
}

/// Data that moved over the entries of an old backup, and not over its header, leave a header that is in nobody's way.
#[test]
fn an_old_backup_that_was_written_over_in_part_is_in_nobodys_way() {
    let mut grown = grown();
    for start in [10_976, 12_000] {
        let wanted = Wanted { starts: vec![(2, ByteOffset::new(start * 512))], ..Wanted::default() };
        let realign = Shape::plan(&grown, "512e", &wanted);
        let mut drive = Drive::new(grown, u64::MAX);
        assert!(matches!(carry_out(&realign, &mut drive), Ok(Outcome::Complete(_))), "{start}");
        grown = drive.seen;
        assert_eq!(Shape::bytes(&grown, sector(15_999)).starts_with(b"EFI PART"), start == 10_976);
    }
}

/// The backup of a GPT that stayed where the disk ended once, and data that only look like one.
#[test]
fn an_old_backup_of_the_table_is_in_nobodys_way() {
    let grown = grown();
    let old_header = 15_999;
    assert_eq!(&Shape::bytes(&grown, sector(old_header))[..8], b"EFI PART");
    let wanted = Wanted { starts: vec![(2, ByteOffset::new(12_288 * 512))], ..Wanted::default() };
    let realign = Shape::plan(&grown, "512e", &wanted);
    let to = realign.moves.iter().filter_map(|one| one.destination());
    assert!(to.into_iter().any(|to| to.contains(sector(old_header))));
    let mut drive = Drive::new(grown.clone(), u64::MAX);
    assert!(matches!(carry_out(&realign, &mut drive), Ok(Outcome::Complete(_))));
    // A wrong sum, and a header of another place.
    for (at, byte) in [(15_999, 16), (15_999, 24), (15_980, 3)] {
        let mut odd = grown.clone();
        let mut bytes = Shape::bytes(&odd, sector(at));
        bytes[byte] ^= 1;
        odd.put(at * 512, &bytes);
        let (stack, topology) = (read_all(&odd, Some(BlockSize::B512), None).unwrap(), topology("512e"));
        let made =
            make(&Situation { medium: &odd, topology: &topology, stack: &stack, serial: None }, &wanted);
        assert!(matches!(made, Err(RealignError::Occupied { .. })), "{at}: {made:?}");
    }
    // Beside an MBR it may be the only record of what the disk held.
    let mut lone = Shape::new(Format::Mbr, 32_768, &[(63, 2_971), (3_034, 6_000)]).before;
    (15_967..=old_header).for_each(|at| lone.put(at * 512, &Shape::bytes(&grown, sector(at))));
    let (stack, topology) = (read_all(&lone, Some(BlockSize::B512), None).unwrap(), topology("512e"));
    let made = make(&Situation { medium: &lone, topology: &topology, stack: &stack, serial: None }, &wanted);
    assert!(matches!(made, Err(RealignError::Occupied { .. })), "{made:?}");
}

#[test]
fn a_move_leaves_nothing_in_unallocated_space() {
    for shape in shapes() {
        let zeros = vec![0; 512];
        let free = unallocated(&shape, true);
        // Of physical sectors that a partition has a part of, what moved there stays.
        let old = unallocated(&shape, false);
        let is_whole = |at: &u64| (at / 8 * 8..at / 8 * 8 + 8).all(|at| old.binary_search(&at).is_ok());
        let whole_blocks: Vec<u64> = old.iter().copied().filter(is_whole).collect();
        // Extended boot records are in the new places of some.
        let is_left = |medium: &Memory| {
            let set = |at: &&u64| {
                Shape::bytes(medium, sector(**at)) != zeros
                    && Shape::bytes(&shape.after, sector(**at)) == zeros
            };
            free.iter().find(set).copied()
        };
        assert_eq!(is_left(&shape.after), None, "{}", shape.name);
        let whole = shape.operations::<Drive>();
        let step = (whole / seeds("MOVES", 20).max(12)).max(1);
        let mut tried = [0; 2];
        for left in (0..whole).step_by(usize::try_from(step).unwrap()) {
            let medium = killed(&shape, left);
            for goes_back in [false, true] {
                let mut drive = Drive::new(medium.clone(), u64::MAX);
                let mut disk = target(&mut drive);
                let Ok(mut run) = Run::find(&mut disk, None) else { continue };
                let has_moved = matches!(run.state(), Ok(State::Moved | State::Back));
                let ended = go(run, goes_back);
                drop(disk);
                let is_over = has_moved && !has_marker(&medium);
                let what = format!("{}, killed after {left}, back: {goes_back}", shape.name);
                // The new table may count already: then what is in the journal's space may be anybody's.
                if is_over {
                    continue;
                }
                assert!(matches!(ended, Ok(Outcome::Complete(_))), "{what}: {ended:?}");
                tried[usize::from(goes_back)] += 1;
                assert_eq!(is_left(&drive.seen), None, "{what}");
                if goes_back {
                    let set = |at: &&u64| Shape::bytes(&drive.seen, sector(**at)) != zeros;
                    assert_eq!(whole_blocks.iter().find(set), None, "{what}");
                }
            }
        }
        assert!(tried.iter().all(|count| *count > 0), "{}: {tried:?}", shape.name);
    }
}

/// Another program writes where no partition is, while no marker is in the table: before the move, or after a kill.
#[test]
fn data_in_unallocated_space_stay_whenever_they_came() {
    let folder = tempfile::tempdir().unwrap();
    let (mut refused, mut done, mut resumed) = (0, 0, 0);
    for (shape, in_file) in shapes()
        .into_iter()
        .flat_map(|shape| [(shape, false)])
        .chain(shapes().into_iter().map(|shape| (shape, true)))
    {
        let mut random = Random::new(shape.before.len);
        let free = unallocated(&shape, false);
        let path = folder.path().join(random.next().to_string());
        let begin_and_finish = |drive: &mut Drive, is_new: bool| {
            let place = match in_file {
                true if is_new => JournalPlace::File(JournalFile::create(&path, &shape.realign).unwrap()),
                true | false => JournalPlace::Inside,
            };
            let mut disk = target(drive);
            let run = shape.realign.begin(&mut disk, place, [3; 16])?;
            run.finish(&mut |_| ControlFlow::Continue(()))
        };
        let mut whole = Drive::new(shape.before.clone(), u64::MAX);
        begin_and_finish(&mut whole, true).unwrap();
        let _ = std::fs::remove_file(&path);
        let cuts: Vec<u64> = (0..seeds("MOVES", 20)).map(|_| random.below(whole.taken.min(30))).collect();
        for left in cuts {
            let mut drive = Drive::new(shape.before.clone(), left);
            let _ = begin_and_finish(&mut drive, true);
            let mut medium = drive.seen;
            let journal = || JournalFile::open(&path).ok();
            let found = Run::find(&mut target(&mut Drive::new(medium.clone(), 0)), None).map(drop);
            let is_marked = !matches!(found, Err(MoveError::Nothing));
            if is_marked || medium == shape.after {
                let _ = std::fs::remove_file(&path);
                continue;
            }
            // Near what the move writes, or anywhere.
            let at = free[usize::try_from(random.below(free.len() as u64)).unwrap()];
            let copied = copied_to(&shape, &free, at).filter(|_| random.chance(70));
            let (at, foreign): (u64, Vec<u8>) =
                copied.unwrap_or_else(|| (at, (0..64).flat_map(|_| random.next().to_le_bytes()).collect()));
            medium.put(at * 512, &foreign);
            let what = format!("{}, killed after {left}, file: {in_file}", shape.name);
            let is_kept = |medium: &Memory, how: &str| {
                let there = Span::new(sector(at).start(), ByteCount::new(foreign.len() as u64)).unwrap();
                assert!(Shape::bytes(medium, there) == foreign, "{what}, {how}: sector {at}");
            };
            for goes_back in [true, false] {
                let mut drive = Drive::new(medium.clone(), u64::MAX);
                let mut disk = target(&mut drive);
                let ended = Run::search(&mut disk, journal()).and_then(|run| go(run, goes_back));
                drop(disk);
                resumed += u64::from(ended.is_ok());
                is_kept(&drive.seen, &format!("resumed, back: {goes_back}: {ended:?}"));
            }
            let mut drive = Drive::new(medium.clone(), u64::MAX);
            let ended = begin_and_finish(&mut drive, false);
            is_kept(&drive.seen, &format!("applied again: {ended:?}"));
            match ended {
                Ok(_) => done += 1,
                Err(error) => {
                    assert_eq!(error.kind(), ErrorKind::Refused, "{what}: {error:?}");
                    refused += 1;
                }
            }
            let _ = std::fs::remove_file(&path);
        }
    }
    println!("{refused} refused, {done} applied again, {resumed} resumed");
    assert!(refused > 0 && done > 0);
}

/// A partition that stays begins in the physical sector where the destination ends, and is used while the move is
/// interrupted.
#[test]
fn writes_to_a_partition_beside_the_destination_stay() {
    // From sector 64 on, to 3065: seven sectors of a physical one are others'.
    let contents = |medium: &mut Memory| {
        let label: Vec<u8> = (0..8192_u32).map(|at| u8::try_from(at % 249).unwrap()).collect();
        medium.put(3_066 * 512, &label);
    };
    let starts = vec![(1, ByteOffset::new(64 * 512))];
    let wanted = Wanted { partitions: vec![1], starts, ..Wanted::default() };
    let parts = [(63, 3_001), (3_066, 2_000)];
    let shape = Shape::with(contents, "512e", Format::Mbr, 16_000, &parts, &wanted);
    let (old, new) = shape.places()[0];
    let beside = shape.places()[1].0;
    let mut random = Random::new(5);
    let mut kept = [0; 2];
    for left in 0..shape.operations::<Drive>() {
        let mut medium = killed(&shape, left);
        if Run::find(&mut target(&mut Drive::new(medium.clone(), 0)), None).is_err() {
            continue;
        }
        let written: Vec<u8> = (0..64 * 4).flat_map(|_| random.next().to_le_bytes()).collect();
        medium.put(beside.start().get(), &written);
        for goes_back in [false, true] {
            let mut drive = Drive::new(medium.clone(), u64::MAX);
            let mut disk = target(&mut drive);
            let ended = Run::find(&mut disk, None).and_then(|run| go(run, goes_back));
            drop(disk);
            let what = format!("killed after {left}, back: {goes_back}: {ended:?}");
            let there = Span::new(beside.start(), ByteCount::new(written.len() as u64)).unwrap();
            assert!(Shape::bytes(&drive.seen, there) == written, "{what}");
            if !matches!(ended, Ok(Outcome::Complete(_))) {
                continue;
            }
            kept[usize::from(goes_back)] += 1;
            let (place, expected) = if goes_back { (old, &shape.before) } else { (new, &shape.after) };
            assert!(Shape::bytes(&drive.seen, place) == Shape::bytes(expected, place), "{what}");
        }
    }
    assert!(kept.iter().all(|count| *count > 0), "{kept:?}");
}
