//! Journals in files that are not the latest one of the data: older copies, taken on the way forward and back, and
//! those of another run of the same plan. Each is refused, and nothing is written, or does no harm.

use std::fs;
use std::ops::ControlFlow;
use std::path::Path;

use straddle_device::Medium as _;
use straddle_repair::Format;
use straddle_repair::realign::{JournalFile, JournalPlace, MoveError, Outcome, Run, Wanted, Watch};
use straddle_units::{ErrorKind, Span};

use super::common::{Memory, Random, seeds, target};
use super::{Drive, Shape, Survivor};

/// Sectors of one value, between others.
fn sparse(parts: &'static [(u64, u64)], every: u64) -> impl FnOnce(&mut Memory) {
    move |disk| {
        for (start, sectors) in parts {
            for sector in (0..*sectors).filter(|sector| sector % every != every / 2) {
                disk.put((start + sector) * 512, &[0; 512]);
            }
        }
    }
}

fn shapes() -> Vec<Shape> {
    const TWO: &[(u64, u64)] = &[(63, 3_000), (3_063, 3_000)];
    const ONE: &[(u64, u64)] = &[(63, 5_000)];
    let with = |format, parts, every| {
        Shape::with(sparse(parts, every), "512e", format, 16_000, parts, &Wanted::default())
    };
    vec![
        Shape::new(Format::Mbr, 16_000, TWO),
        Shape::new(Format::Gpt, 16_000, &[(2_049, 3_000), (5_100, 3_000)]),
        Shape::to(Format::Mbr, 16_000, ONE, &[64]),
        Shape::to(Format::Mbr, 16_000, &[(4_097, 5_000)], &[4_096]),
        Shape::to(Format::Gpt, 16_000, &[(4_097, 3_000)], &[8_192]),
        Shape::to(Format::Mbr, 20_000, &[(63, 3_000), (4_097, 3_000)], &[8_192, 64]),
        Shape::with_logical(16_000, &[(63, 2_000)], (2_100, 9_000), &[(2_100, 2_163, 3_000)]),
        with(Format::Mbr, TWO, 7),
        with(Format::Mbr, TWO, 300),
    ]
}

/// A folder in memory, if there is such: each window is made durable in it.
fn folder() -> tempfile::TempDir {
    let memory = Path::new("/dev/shm");
    if memory.is_dir() { tempfile::tempdir_in(memory) } else { tempfile::tempdir() }.unwrap()
}

/// Goes until `after` windows; returns what it came to, and copies of the journal at each of them.
fn watched(
    path: &Path,
    after: u64,
    go: impl FnOnce(Watch<'_>) -> Result<Outcome, MoveError>,
) -> (Result<Outcome, MoveError>, Vec<Vec<u8>>) {
    let mut copies = vec![fs::read(path).unwrap()];
    let mut left = after;
    let ended = go(&mut |_| {
        copies.push(fs::read(path).unwrap());
        left = left.saturating_sub(1);
        if left == 0 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
    (ended, copies)
}

/// Goes on with the journal in the file, or back.
fn goes(
    drive: &mut Drive,
    path: &Path,
    back: bool,
    after: u64,
) -> (Result<Outcome, MoveError>, Vec<Vec<u8>>) {
    let mut disk = target(drive);
    let file = JournalFile::open(path).unwrap();
    watched(path, after, |watch| {
        let run = Run::find(&mut disk, Some(file))?;
        if back { run.roll_back(watch) } else { run.finish(watch) }
    })
}

#[test]
fn an_older_copy_of_the_journal_is_refused_or_does_no_harm() {
    let (mut refused, mut right) = (0, 0);
    let mut random = Random::new(11);
    for shape in shapes() {
        for round in 0..seeds("MOVES", 6) {
            let dir = folder();
            let path = dir.path().join("journal");
            let mut drive = Drive::new(shape.before.clone(), u64::MAX);
            let mut disk = target(&mut drive);
            let file = JournalFile::create(&path, &shape.realign).unwrap();
            let run = shape.realign.begin(&mut disk, JournalPlace::File(file), [3; 16]).unwrap();
            let (_, mut copies) = watched(&path, 1 + random.below(20), |watch| run.finish(watch));
            drop(disk);
            if random.chance(50) && path.exists() {
                copies.extend(goes(&mut drive, &path, true, 1 + random.below(12)).1);
            }
            if !path.exists() {
                continue;
            }
            let (left, latest) = (drive.seen.clone(), fs::read(&path).unwrap());
            copies.retain(|copy| *copy != latest);
            for _ in 0..4.min(copies.len()) {
                let copy = &copies[usize::try_from(random.below(copies.len() as u64)).unwrap()];
                for back in [false, true] {
                    fs::write(&path, copy).unwrap();
                    let mut drive = Drive::new(left.clone(), u64::MAX);
                    let (ended, _) = goes(&mut drive, &path, back, u64::MAX);
                    let what = format!("{}, round {round}, back: {back}: {ended:?}", shape.name);
                    match ended {
                        Ok(_) => {
                            shape.is_new(&drive.seen, &what);
                            right += 1;
                        }
                        Err(error) => {
                            assert_eq!(error.kind(), ErrorKind::Refused, "{what}");
                            let whole = Span::first(left.len());
                            assert!(Shape::bytes(&drive.seen, whole) == Shape::bytes(&left, whole), "{what}");
                            refused += 1;
                        }
                    }
                }
            }
        }
    }
    println!("{refused} refused, {right} right");
    assert!(refused > 20 && right > 3, "{refused} {right}");
}

/// Two runs of one plan have the same tables, but for the marker: the journal of the first, which ended before
/// anything had moved, does not count for the second.
#[test]
fn the_journal_of_another_run_is_refused() {
    for shape in shapes() {
        let dir = folder();
        let (first, second) = (dir.path().join("first"), dir.path().join("second"));
        let mut drive = Drive::new(shape.before.clone(), u64::MAX);
        let mut disk = target(&mut drive);
        let file = JournalFile::create(&first, &shape.realign).unwrap();
        drop(shape.realign.begin(&mut disk, JournalPlace::File(file), [3; 16]).unwrap());
        let file = JournalFile::create(&second, &shape.realign).unwrap();
        let run = shape.realign.begin(&mut disk, JournalPlace::File(file), [4; 16]).unwrap();
        let mut left = 3;
        let ended = run.finish(&mut |_| {
            left -= 1;
            if left == 0 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
        drop(disk);
        if !matches!(ended, Ok(Outcome::Paused)) {
            continue;
        }
        let whole = Span::first(drive.seen.len());
        for back in [false, true] {
            let mut other = Drive::new(drive.seen.clone(), u64::MAX);
            let (ended, _) = goes(&mut other, &first, back, u64::MAX);
            assert_eq!(ended.unwrap_err().kind(), ErrorKind::Refused, "{}", shape.name);
            assert!(Shape::bytes(&other.seen, whole) == Shape::bytes(&drive.seen, whole), "{}", shape.name);
        }
        let (ended, _) = goes(&mut drive, &second, false, u64::MAX);
        assert!(matches!(ended, Ok(Outcome::Complete(_))), "{ended:?}");
        assert!(shape.is_new(&drive.seen, &shape.name));
    }
}
