//! Abandoned moves: a disk gets a new table and new data, and the journal of what was moved before is left in it.
//! Nothing that comes later follows it, or writes to it where a partition is. `MOVES=n` sets the number of disks.

use std::ops::ControlFlow;

use straddle_device::Medium;
use straddle_layout::read_all;
use straddle_repair::realign::{Journal, MoveError, Outcome, Run, Wanted, make};
use straddle_repair::{Format, Part, Place, Request, Seed, Situation, Size};
use straddle_units::{BlockSize, ByteCount, Span};

use super::common::{Memory, Random, plan_and_write, seeds, target, topology};
use super::{Drive, Shape, Survivor};

const SECTORS: u64 = 16_000;
/// The sectors of a GPT at the start of a disk, and at its end.
const GPT: (u64, u64) = (34, 33);

/// Partitions with odd starts, some of them up to the end.
fn parts(random: &mut Random) -> Vec<(u64, u64)> {
    let first = 63 + random.below(500);
    let len = 1_500 + random.below(3_000);
    let mut parts = vec![(first, len)];
    if random.chance(60) {
        let second = first + len + 1 + random.below(4_000);
        let rest = SECTORS - GPT.1 - 1 - second;
        parts.push((second, if random.chance(50) { rest } else { 500 + random.below(rest - 500) }));
    }
    parts
}

fn copy(from: &Memory, to: &mut Memory, first: u64, sectors: u64) {
    let mut bytes = vec![0; usize::try_from(sectors * 512).unwrap()];
    from.read_at(straddle_units::ByteOffset::new(first * 512), &mut bytes).unwrap();
    to.put(first * 512, &bytes);
}

/// The former disk with a new table, as another program writes it.
fn with_table(former: &Memory, format: Format, parts: &[(u64, u64)]) -> Memory {
    let mut request = Request::new(Seed(7));
    (request.table, request.allow_misaligned) = (Some(format), true);
    for (start, sectors) in parts {
        let part = Part::new(Size::Sectors(*sectors));
        request.parts.push(Part { start: Some(Place::Sector(*start)), ..part });
    }
    let mut blank = Memory::new(SECTORS * 512);
    plan_and_write(&mut blank, "512e", &request).unwrap();
    let mut disk = former.clone();
    copy(&blank, &mut disk, 0, GPT.0);
    copy(&blank, &mut disk, SECTORS - GPT.1, if format == Format::Gpt { GPT.1 } else { 1 });
    copy(&blank, &mut disk, SECTORS - 1, 1);
    disk
}

/// A disk on which another one's moves are abandoned: all of its partitions are written, or only the first half of
/// each. `None` if the data of the former moves are still there.
fn next(former: &Memory, random: &mut Random) -> Option<Shape> {
    let format = if random.chance(50) { Format::Mbr } else { Format::Gpt };
    let (mut disk, parts) = std::iter::repeat_with(|| parts(random))
        .map(|parts| (with_table(former, format, &parts), parts))
        .find(|(disk, _)| has_room(disk))?;
    let is_full = random.chance(50);
    for (start, len) in &parts {
        let written = if is_full { *len } else { len / 2 };
        let bytes: Vec<u8> = (0..written * 64).flat_map(|_| random.next().to_le_bytes()).collect();
        disk.put(start * 512, &bytes);
    }
    if Run::search(&mut target(&mut Drive::new(disk.clone(), 0)), None).is_ok() {
        return None;
    }
    let contents = |to: &mut Memory| parts.iter().for_each(|(start, len)| copy(&disk, to, *start, *len));
    // This also moves all of them, and compares their contents.
    Some(Shape::of(disk.clone(), &parts, contents, ("after another", "512e"), &wanted()))
}

/// What is left of the former data is given up.
fn wanted() -> Wanted {
    Wanted { wipe: true, ..Wanted::default() }
}

/// Whether there is a plan, with the journal on the disk.
fn has_room(disk: &Memory) -> bool {
    let (stack, topology) = (read_all(disk, Some(BlockSize::B512), None).unwrap(), topology("512e"));
    let situation = Situation { medium: disk, topology: &topology, stack: &stack, serial: None };
    make(&situation, &wanted()).is_ok_and(|realign| matches!(realign.journal(), Journal::Inside(_)))
}

/// A disk with an abandoned move, and a later one that can be planned.
fn abandoned(random: &mut Random) -> Shape {
    loop {
        let Some(shape) = next(&Memory::new(SECTORS * 512), random) else { continue };
        let mut drive = Drive::new(shape.before.clone(), random.below(shape.operations::<Drive>() + 1));
        let _ = shape.begin_and_finish(&mut drive);
        if let Some(later) = next(&drive.cut(random), random) {
            return later;
        }
    }
}

/// Whatever is found, with a restored table or without.
fn recover(medium: &Memory, goes_back: bool, asks: bool) -> (Memory, Result<Outcome, MoveError>) {
    let folder = tempfile::tempdir().unwrap();
    let mut drive = Drive::new(medium.clone(), u64::MAX);
    let mut disk = target(&mut drive);
    let found = if asks { Run::search(&mut disk, None) } else { Run::find(&mut disk, None) };
    let ended = found.and_then(|mut run| {
        if asks {
            run.restore_table(&folder.path().join("table"))?;
        }
        let goes_back = goes_back || run.is_unbegun()?;
        let watch = &mut |_| ControlFlow::Continue(());
        if goes_back { run.roll_back(watch) } else { run.finish(watch) }
    });
    drop(disk);
    (drive.seen, ended)
}

/// Writes over the physical sector of the table.
fn torn(medium: &Memory, random: &mut Random) -> Memory {
    let mut medium = medium.clone();
    let bytes: Vec<u8> = (0..512).flat_map(|_| random.next().to_le_bytes()).collect();
    medium.put(0, &if random.chance(50) { bytes } else { vec![0; 4_096] });
    medium
}

#[test]
fn an_abandoned_move_is_not_followed() {
    let mut random = Random::new(11);
    for round in 0..seeds("MOVES", 40) {
        let shape = abandoned(&mut random);
        // Without a table the user may ask for what is left of the former data.
        let torn = torn(&shape.before, &mut random);
        for (medium, asks) in [(&shape.before, true), (&shape.before, false), (&torn, false)] {
            let goes_back = random.chance(50);
            let (seen, ended) = recover(medium, goes_back, asks);
            for (place, _) in shape.places() {
                // In the other half the former data are.
                let half = ByteCount::new(place.len().get() / 1024 * 512);
                let place = Span::new(place.start(), half).unwrap();
                let same = Shape::bytes(&seen, place) == Shape::bytes(medium, place);
                assert!(same, "{round}: {}, asked: {asks}: {place:?} is changed: {ended:?}", shape.name);
            }
        }
    }
}

#[test]
fn a_later_move_survives_what_an_abandoned_one_left() {
    let mut random = Random::new(12);
    let mut recovered = 0;
    for round in 0..seeds("MOVES", 40).max(12) {
        let shape = abandoned(&mut random);
        let cut = random.below(shape.operations::<Drive>() + 1);
        let mut drive = Drive::new(shape.before.clone(), cut);
        let _ = shape.begin_and_finish(&mut drive);
        let medium = drive.cut(&mut random);
        let (is_torn, goes_back, asks) = (random.chance(50), random.chance(50), random.chance(50));
        let medium = if is_torn { torn(&medium, &mut random) } else { medium };
        let what = format!("{round}: {}, cut after {cut}, torn: {is_torn}, asked: {asks}", shape.name);
        match recover(&medium, goes_back, asks) {
            (seen, Ok(Outcome::Complete(_))) => {
                shape.is_new(&seen, &what);
                recovered += 1;
            }
            (seen, Err(error)) => assert!(seen == medium, "{what}: it was written to: {error}"),
            (_, ended) => panic!("{what}: {ended:?}"),
        }
    }
    assert!(recovered > 0);
}
