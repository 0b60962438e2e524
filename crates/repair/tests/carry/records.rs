//! An old table that another program has put back in whatever state a power cut has left: its extended boot records
//! lie over data that have moved, or are on their way, and all of them come back.

use straddle_relocate::State;
use straddle_repair::realign::{MoveError, Outcome, Run, Wanted};
use straddle_units::{ByteCount, ByteOffset, Span};

use super::common::logical::mbr;
use super::common::{Memory, Random, seeds, target};
use super::displaced::{go, recover};
use super::{Drive, Shape, Survivor};

/// A disk with logical partitions, and the sectors of the old records.
fn shape(
    sectors: u64,
    primary: &[(u64, u64)],
    extended: (u64, u64),
    logical: &[(u64, u64, u64)],
    to: &[(u32, u64)],
) -> (Shape, Vec<u64>) {
    let before = mbr(sectors, primary, extended, logical);
    let parts = logical.iter().map(|(_, start, sectors)| (*start, *sectors));
    let parts: Vec<_> = primary.iter().copied().chain(parts).collect();
    let starts = to.iter().map(|(number, start)| (*number, ByteOffset::new(start * 512))).collect();
    let wanted = Wanted { starts, ..Wanted::default() };
    let shape = Shape::of(before, &parts, |_| {}, ("512e mbr, logical", "512e"), &wanted);
    let records = logical.iter().map(|(ebr, ..)| *ebr).chain([extended.0]).collect();
    (shape, records)
}

/// A record at the start of what moves down by a sector, one at the end of what moves up by one, and one in the middle
/// of what moves so far that no window needs a copy.
fn shapes() -> [(Shape, Vec<u64>); 3] {
    [
        shape(
            18_336,
            &[(63, 2_330)],
            (2_400, 7_936),
            &[(2_400, 2_401, 3_068), (5_469, 5_470, 2_340), (7_872, 7_873, 2_458)],
            &[(5, 2_400), (6, 5_472), (7, 7_872)],
        ),
        shape(16_000, &[(63, 3_190)], (3_253, 10_000), &[(3_253, 3_254, 5_000)], &[(1, 64), (5, 3_256)]),
        shape(
            36_000,
            &[],
            (2_048, 30_000),
            &[(2_048, 2_111, 2_000), (5_000, 5_063, 1_500)],
            &[(5, 4_160), (6, 12_000)],
        ),
    ]
}

fn state(medium: &Memory) -> Result<State, MoveError> {
    Run::search(&mut target(&mut Drive::new(medium.clone(), 0)), None).and_then(|mut run| run.state())
}

/// A disk whose power was cut while data moved, and, if `is_back`, again while they moved back.
fn cut_off(shape: &Shape, random: &mut Random, is_back: bool) -> Memory {
    let mut drive = Drive::new(shape.before.clone(), random.below(shape.operations::<Drive>()));
    let _ = shape.begin_and_finish(&mut drive);
    let half = drive.cut(random);
    if !is_back {
        return half;
    }
    let back = |left| {
        let mut drive = Drive::new(half.clone(), left);
        let mut disk = target(&mut drive);
        let _ = Run::find(&mut disk, None).and_then(|run| go(run, true));
        drop(disk);
        drive
    };
    let all = back(u64::MAX).taken;
    back(random.below(all.max(1))).cut(random)
}

#[test]
fn an_old_tables_records_destroy_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let mut random = Random::new(29);
    for (shape, records) in shapes() {
        let mut on_the_way = [0; 2];
        for round in 0..seeds("RECORDS", 60) {
            let stopped = cut_off(&shape, &mut random, round % 2 == 1);
            let Ok(state) = state(&stopped) else { continue };
            let (index, ways) = match state {
                State::Moving { .. } => (0, &[false, true][..]),
                State::RollingBack => (1, &[true][..]),
                // The old table lists them where they are, or the new one.
                State::NotBegun | State::Back | State::Moved => continue,
            };
            on_the_way[index] += 1;
            let mut medium = stopped.clone();
            for sector in records.iter().chain([&0]) {
                let span = Span::new(ByteOffset::new(sector * 512), ByteCount::new(512)).unwrap();
                medium.put(sector * 512, &Shape::bytes(&shape.before, span));
            }
            for goes_back in ways {
                let what = format!("{}, round {round}, {state:?}, back: {goes_back}", shape.name);
                let (drive, ended) = recover(medium.clone(), u64::MAX, *goes_back, folder.path());
                assert!(matches!(ended, Ok(Outcome::Complete(_))), "{what}: {ended:?}");
                assert_eq!(shape.is_new(&drive.seen, &what), !goes_back, "{what}");
            }
        }
        println!("{}: {on_the_way:?} disks on the way forward and back", shape.name);
        assert!(on_the_way.iter().all(|count| *count > 3), "{}: {on_the_way:?}", shape.name);
    }
}
