//! A kill in the middle of a write: its first half is on the disk, be it half a sector. One copy of a GPT is torn
//! then, beside a good one.

use std::ops::ControlFlow;

use straddle_device::Medium;
use straddle_repair::Format;
use straddle_repair::realign::{JournalFile, JournalPlace, MoveError, Outcome, Run};
use straddle_units::{ByteCount, ByteOffset, ErrorKind, Span};

use super::common::{Memory, Random, one_in, seeds, target};
use super::other_table::other;
use super::uncached::{Tear, Uncached};
use super::{Drive, Powered, Shape, Survivor};

/// The write that a kill comes in is on the medium up to the middle of a sector.
type Half = Uncached<InSector>;

struct InSector;

impl Tear for InSector {
    fn tear(medium: &mut Memory, random: &mut Random, at: u64, bytes: &[u8]) {
        let whole = usize::try_from(random.below(bytes.len() as u64 / 512)).unwrap();
        let taken = whole * 512 + usize::try_from(random.below(512)).unwrap();
        let mut written = bytes[..(whole + 1) * 512].to_vec();
        medium.read_at(ByteOffset::new(at), &mut written).unwrap();
        written[..taken].copy_from_slice(&bytes[..taken]);
        medium.put(at, &written);
    }
}

fn shape() -> Shape {
    Shape::new(Format::Gpt, 16_000, &[(34, 1_500), (1_534, 1_001)])
}

fn go(run: Run<'_>, goes_back: bool) -> Result<Outcome, MoveError> {
    let on = &mut |_| ControlFlow::Continue(());
    if goes_back { run.roll_back(on) } else { run.finish(on) }
}

#[test]
fn a_gpt_survives_kills_in_the_middle_of_a_sector() {
    let shape = shape();
    let (operations, times) = (shape.operations::<Half>(), seeds("TEARS", 2));
    let mut random = Random::new(operations);
    let mut new = 0;
    for cut in 0..operations * times {
        new += u64::from(shape.survive::<Half>(cut / times, &mut random));
    }
    println!("{}: {operations} writes, each torn {times} times, {new} ended new", shape.name);
    assert!(new > 0 && new < operations * times);
}

/// With the journal in a file, which could be another disk's: plain going on and back work after each torn write of
/// the disk, whichever copy is torn.
#[test]
fn with_the_journal_in_a_file_a_torn_copy_of_a_gpt_is_restored() {
    let shape = shape();
    let folder = tempfile::tempdir().unwrap();
    let mut damaged = 0;
    for cut in (0_u64..).step_by(one_in(3)) {
        let mut is_whole = false;
        for (round, goes_back) in [false, true, false, true].into_iter().enumerate() {
            let what = format!("write {cut}, round {round}, back: {goes_back}");
            let path = folder.path().join(format!("journal {cut} {round}"));
            let mut drive = Half::on(shape.before.clone(), cut, cut * 4 + round as u64);
            let file = JournalFile::create(&path, &shape.realign).unwrap();
            let mut disk = target(&mut drive);
            let begun = shape.realign.begin(&mut disk, JournalPlace::File(file), [1; 16]);
            is_whole = begun.and_then(|run| go(run, false)).is_ok();
            drop(disk);
            if is_whole {
                break;
            }
            let medium = drive.seen();
            damaged += u64::from(!super::stack_of(&medium, super::BlockSize::B512).problems.is_empty());
            let mut drive = Drive::new(medium, u64::MAX);
            let mut disk = target(&mut drive);
            let file = JournalFile::open(&path).unwrap();
            let mut run = Run::find(&mut disk, Some(file)).unwrap();
            // The table is the move's: there is no other one to save.
            let saved = folder.path().join("saved");
            assert!(!run.restore_table(&saved).unwrap() && !saved.exists(), "{what}");
            let mut ended = go(run, goes_back);
            // Nothing has moved, and the disk may have been in use: there is only a way back.
            let goes_back = goes_back || matches!(ended, Err(MoveError::NotBegun));
            if matches!(ended, Err(MoveError::NotBegun)) {
                let file = JournalFile::open(&path).unwrap();
                ended = go(Run::find(&mut disk, Some(file)).unwrap(), true);
            }
            drop(disk);
            match ended {
                Ok(Outcome::Complete(_)) => {
                    assert_eq!(shape.is_new(&drive.seen, &what), !goes_back, "{what}");
                }
                Err(MoveError::Complete) => assert!(goes_back && shape.is_new(&drive.seen, &what), "{what}"),
                other => panic!("{what}: {other:?}"),
            }
        }
        if is_whole {
            println!("{cut} writes, {damaged} times a copy was damaged");
            assert!(damaged > if one_in(3) == 1 { 10 } else { 2 }, "{damaged}");
            return;
        }
    }
}

/// The disks on which the marker is being written, or lost, with one good copy.
fn between(shape: &Shape) -> Vec<Memory> {
    let mut found = Vec::new();
    for cut in (0..shape.operations::<Drive>()).step_by(one_in(3)) {
        let mut drive = Drive::new(shape.before.clone(), cut);
        let _ = shape.begin_and_finish(&mut drive);
        let medium = drive.seen;
        if Run::find(&mut target(&mut Drive::new(medium.clone(), 0)), None).is_ok()
            && !found.contains(&medium)
        {
            found.push(medium);
        }
    }
    found
}

/// What another program has written to one copy is not torn: a table that is good, more than a physical sector, or what the
/// move never writes.
#[test]
fn what_another_program_wrote_to_one_copy_is_no_torn_table() {
    let shape = shape();
    let len = shape.before.len().get();
    let (sectors, foreign) = (len / 512, other(Format::Gpt, len));
    let bytes = |medium: &Memory, sector: u64, count: u64| {
        let span = Span::new(ByteOffset::new(sector * 512), ByteCount::new(count * 512)).unwrap();
        Shape::bytes(medium, span)
    };
    for medium in between(&shape) {
        let mut disks = Vec::new();
        let mut changed = |what: &'static str, changes: &[(u64, Vec<u8>)]| {
            let mut disk = medium.clone();
            changes.iter().for_each(|(sector, new)| disk.put(sector * 512, new));
            disks.push((what, disk));
        };
        changed("a good primary", &[(1, bytes(&foreign, 1, 33))]);
        changed("a good backup", &[(sectors - 33, bytes(&foreign, sectors - 33, 33))]);
        let noise = vec![0xA5; 512];
        changed("two sectors of the backup", &[(sectors - 33, noise.clone()), (sectors - 1, noise.clone())]);
        changed("both headers", &[(1, noise.clone()), (sectors - 1, noise.clone())]);
        changed("an unused entry", &[(20, noise)]);
        for ((what, disk), goes_back) in disks.into_iter().flat_map(|one| [(one.clone(), false), (one, true)])
        {
            let mut drive = Drive::new(disk.clone(), u64::MAX);
            let mut open = target(&mut drive);
            let ended = Run::find(&mut open, None).and_then(|run| go(run, goes_back));
            drop(open);
            let error = ended.unwrap_err();
            let is_refused = error.kind() == ErrorKind::Refused || matches!(error, MoveError::Nothing);
            assert!(is_refused && drive.seen == disk, "{what}, back: {goes_back}: {error}");
        }
    }
}
