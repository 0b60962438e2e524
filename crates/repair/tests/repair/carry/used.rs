//! A move that was cut off when its journal was complete and the old table still counted: the disk goes on being used.
//! Whatever its owner writes then is never overwritten with what the journal remembers.

use std::ops::ControlFlow;

use straddle_repair::Format;
use straddle_repair::realign::{JournalFile, JournalPlace, MoveError, Outcome, Run};
use straddle_units::ErrorKind;

use super::common::{Memory, Random, seeds, target};
use super::{Drive, Shape};

fn shapes() -> Vec<Shape> {
    vec![
        Shape::new(Format::Mbr, 14_000, &[(63, 3_000), (3_063, 3_000)]),
        Shape::new(Format::Gpt, 16_000, &[(2_049, 3_000), (5_100, 3_000)]),
        Shape::to(Format::Mbr, 16_000, &[(63, 3_000), (4_096, 3_001)], &[64, 4_096]),
        // Extended boot records beside the last sector of a logical partition that moves, and of one that stays.
        Shape::with_logical(24_576, &[], (63, 12_000), &[(63, 126, 3_875), (4_001, 4_064, 4_000)]),
        Shape::with_logical(24_576, &[], (63, 12_000), &[(63, 128, 3_873), (4_001, 4_065, 3_999)]),
        Shape::with_logical(
            20_000,
            &[(63, 2_000)],
            (2_063, 6_126),
            &[(2_063, 2_126, 3_000), (5_126, 5_189, 3_000)],
        ),
    ]
}

/// Writes to a few sectors of partitions, often to the first or last ones.
fn use_disk(shape: &Shape, medium: &mut Memory, random: &mut Random) {
    let places = shape.places();
    for _ in 0..=random.below(3) {
        let (place, _) = places[usize::try_from(random.below(places.len() as u64)).unwrap()];
        let sectors = place.len().get() / 512;
        let sector = match random.below(4) {
            0 => random.below(8),
            1 => sectors - 1 - random.below(8),
            2 => sectors - 1,
            _ => random.below(sectors),
        };
        let bytes: Vec<u8> = (0..64).flat_map(|_| random.next().to_le_bytes()).collect();
        medium.put(place.start().get() + sector * 512, &bytes);
    }
}

#[test]
fn what_was_written_before_the_marker_is_kept() {
    let folder = tempfile::tempdir().unwrap();
    let mut random = Random::new(31);
    for round in 0..seeds("MOVES", 20) {
        for shape in shapes() {
            let path = folder.path().join("journal");
            let mut drive = Drive::new(shape.before.clone(), u64::MAX);
            let file = JournalFile::create(&path, &shape.realign).unwrap();
            drop(shape.realign.begin(&mut target(&mut drive), JournalPlace::File(file), [1; 16]).unwrap());
            let mut medium = drive.seen;
            if round > 0 {
                use_disk(&shape, &mut medium, &mut random);
            }
            let goes_back = random.chance(50);
            let mut drive = Drive::new(medium.clone(), u64::MAX);
            let mut disk = target(&mut drive);
            let file = JournalFile::open(&path).unwrap();
            let watch = &mut |_| ControlFlow::Continue(());
            let ended = Run::find(&mut disk, Some(file)).and_then(|run| match goes_back {
                true => run.roll_back(watch),
                false => run.finish(watch),
            });
            drop(disk);
            let what = format!("{round}: {}, back: {goes_back}: {ended:?}", shape.name);
            assert!(drive.seen == medium, "{what}: it was written to");
            if goes_back {
                assert!(matches!(ended, Ok(Outcome::Complete(_))), "{what}");
                assert!(!path.exists(), "{what}: its journal is left");
            } else {
                let error = ended.unwrap_err();
                assert!(matches!(error, MoveError::NotBegun) && error.kind() == ErrorKind::Refused, "{what}");
            }
            let _ = std::fs::remove_file(&path);
        }
    }
}
