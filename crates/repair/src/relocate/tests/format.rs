//! Journals that are damaged, and jobs that are impossible.

use std::ops::ControlFlow;

use straddle_units::io::SplitMix64;
use straddle_units::{Boundary, ByteCount, ByteOffset, ErrorKind, Span};

use super::shapes::{World, sectors, shapes, span};
use crate::relocate::fault::{Fault, plant};
use crate::relocate::search;
use crate::relocate::{Disk, Disks, Job, Move, Parts, RelocateError};
use crate::relocate::{Recovered, State, begin, inspect, is_latest, journal_len, journal_len_with, open};

/// A disk in memory that may refuse writes.
struct Memory {
    bytes: Vec<u8>,
    is_read_only: bool,
}

fn range(at: ByteOffset, len: usize) -> std::ops::Range<usize> {
    let at = usize::try_from(at.get()).unwrap();
    at..at + len
}

impl Disk for Memory {
    fn size(&self) -> ByteCount {
        ByteCount::new(self.bytes.len() as u64)
    }

    fn read(&mut self, at: ByteOffset, bytes: &mut [u8]) -> std::io::Result<()> {
        bytes.copy_from_slice(&self.bytes[range(at, bytes.len())]);
        Ok(())
    }

    fn write(&mut self, at: ByteOffset, bytes: &[u8]) -> std::io::Result<()> {
        assert!(!self.is_read_only);
        self.bytes[range(at, bytes.len())].copy_from_slice(bytes);
        Ok(())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

fn parts() -> Parts {
    Parts {
        size: sectors(64),
        blocks: Boundary::multiples_of(sectors(1)).unwrap(),
        window: sectors(2),
        id: [7; 16],
        moves: vec![Move { from: span(3, 12), to: ByteOffset::new(5 * 512) }],
        payload: vec![1, 2, 3],
    }
}

/// A disk with a job that was stopped after some windows, and where its journal is.
fn stopped(after: u32) -> (Memory, Span) {
    let place = span(28, 36);
    let mut bytes = vec![0; 64 * 512];
    SplitMix64::new(1).fill(&mut bytes);
    let mut disk = Memory { bytes, is_read_only: false };
    let unfinished = begin(Disks::one(&mut disk), place, Job::new(parts()).unwrap()).unwrap();
    let mut left = after;
    let ended = unfinished.resume(&mut |_| {
        left = left.saturating_sub(1);
        if left == 0 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
    assert!(matches!(ended, Ok(None)));
    (disk, place)
}

#[test]
fn what_is_kept_comes_back() {
    let (mut disk, place) = stopped(2);
    let (job, state) = inspect(Disks::one(&mut disk), place).unwrap().unwrap();
    assert_eq!((&job.payload[..], job.id), (&[1_u8, 2, 3][..], [7; 16]));
    assert_eq!(state, State::Moving { done: sectors(3) });
    assert_eq!((job.total(), job.windows()), (sectors(12), (7, 7)));
    let text = serde_json::to_string(&job).unwrap();
    assert_eq!(serde_json::from_str::<Job>(&text).unwrap(), job);
    assert!(serde_json::from_str::<Job>(&text.replace("\"window\":1024", "\"window\":0")).is_err());
    let error = begin(Disks::one(&mut disk), place, job).unwrap_err();
    assert!(matches!(error, RelocateError::Occupied(_)), "{error:?}");
}

/// One header is enough, whichever it is.
#[test]
fn a_header_may_be_lost() {
    for lost in [span(28, 3), span(61, 3)] {
        let (mut disk, place) = stopped(2);
        disk.bytes[range(lost.start(), 3 * 512)].fill(0x55);
        let (_, state) = inspect(Disks::one(&mut disk), place).unwrap().unwrap();
        assert_eq!(state, State::Moving { done: sectors(3) });
    }
}

#[test]
fn another_disk_or_version_is_refused() {
    let (mut disk, place) = stopped(2);
    let mut longer = Memory { bytes: disk.bytes.clone(), is_read_only: true };
    longer.bytes.extend([0; 512]);
    let error = open(Disks::one(&mut longer), place).unwrap_err();
    assert!(
        matches!(error, RelocateError::OtherSize { .. }) && error.kind() == ErrorKind::Refused,
        "{error:?}"
    );
    let mut other = Memory { bytes: disk.bytes.clone(), is_read_only: true };
    let error = open(Disks::two(&mut disk, &mut other), place).unwrap_err();
    assert!(matches!(error, RelocateError::Foreign(_)), "{error:?}");
    for title in [28, 63] {
        disk.bytes[title * 512 + 16] = 9;
    }
    disk.is_read_only = true;
    let error = open(Disks::one(&mut disk), place).unwrap_err();
    assert!(matches!(error, RelocateError::Version(9)), "{error:?}");
}

/// Changes a bit of the journal, one after the other: either that is found, or all goes as if nothing had
/// happened.
fn wrong_bits() -> Result<[u32; 3], String> {
    let mut ends = [0, 0, 0];
    let mut original = vec![0; 64 * 512];
    SplitMix64::new(1).fill(&mut original);
    for bit in 0..36 * 512 * 8 / 21 {
        let (mut disk, place) = stopped(1 + u32::try_from(bit % 6).unwrap());
        let (at, is_back) = (bit * 21, bit % 2 == 1);
        disk.bytes[range(place.start(), 36 * 512)][at / 8] ^= 1 << (at % 8);
        let Ok(Some(found)) = open(Disks::one(&mut disk), place) else {
            ends[0] += 1;
            continue;
        };
        let Recovered::Unfinished(unfinished) = found else {
            return Err(format!("bit {at}: {found:?}"));
        };
        let watch = &mut |_| ControlFlow::Continue(());
        let ended = match is_back {
            true => Recovered::Unfinished(unfinished).rollback((&[], false), watch).map(drop),
            false => unfinished.resume(watch).map(drop),
        };
        if ended.is_err() {
            ends[1] += 1;
            continue;
        }
        ends[2] += 1;
        let to = if is_back { 3 } else { 5 };
        if disk.bytes[to * 512..][..12 * 512] != original[3 * 512..][..12 * 512] {
            return Err(format!("bit {at} of the journal, and data are lost"));
        }
    }
    Ok(ends)
}

#[test]
fn a_wrong_bit_does_no_harm() {
    let ends = wrong_bits().unwrap();
    println!("{} refused, {} stopped, {} complete", ends[0], ends[1], ends[2]);
    assert!(ends[2] > 1000);
    plant(Some(Fault::NoCheck));
    let unchecked = wrong_bits();
    plant(None);
    println!("without the comparison: {unchecked:?}");
    assert!(unchecked.is_err());
}

/// A disk with a rollback of a job that was stopped after some windows of either direction.
fn turned(after: u32, back: u32) -> (Memory, Span) {
    let (mut disk, place) = stopped(after);
    let found = open(Disks::one(&mut disk), place).unwrap().unwrap();
    assert!(matches!(found, Recovered::Unfinished(_)));
    let mut left = back;
    let _ = found.rollback((&[], false), &mut |_| {
        left = left.saturating_sub(1);
        if left == 0 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
    (disk, place)
}

/// Goes on with a job, or back; nothing if its journal is refused.
fn followed(disk: &mut Memory, place: Span, is_back: bool) -> Option<bool> {
    use crate::relocate::Recovered::{Back, Moved, Unfinished};
    let watch = &mut |_| ControlFlow::Continue(());
    if !is_latest(Disks::one(disk), place).ok()? {
        return None;
    }
    let gone_back = match open(Disks::one(disk), place).ok()?? {
        Unfinished(held) if !is_back => held.resume(watch).map(|_| false),
        Moved(_) => Ok(false),
        Back(_) => Ok(true),
        held => held.rollback((&[], false), watch).map(|_| true),
    };
    Some(gone_back.unwrap())
}

/// What another program has written over the start or the end of a journal, or over all but one of its ends, is
/// noticed, or does no harm: what is missing is never taken for something that was not recorded.
#[test]
fn what_is_written_over_a_journal_is_noticed() {
    let mut original = vec![0; 64 * 512];
    SplitMix64::new(1).fill(&mut original);
    let (mut refused, mut right) = (0, 0);
    for (after, back) in (1..7).flat_map(|after| (0..4).map(move |back| (after, back))) {
        let lost = (1..36).flat_map(|len| [(0, len), (36 - len, len)]);
        for ((first, len), fill) in lost.flat_map(|lost| [(lost, 0), (lost, 0x55)]) {
            for is_back in [false, true] {
                let (mut disk, place) = if back == 0 { stopped(after) } else { turned(after, back) };
                let at = 28 * 512 + first * 512;
                disk.bytes[at..at + len * 512].fill(fill);
                let before = disk.bytes.clone();
                let what = format!("{after} {back}, {len} sectors from {first}, {fill}, {is_back}");
                match followed(&mut disk, place, is_back) {
                    None => {
                        assert!(disk.bytes == before, "{what}");
                        refused += 1;
                    }
                    Some(gone_back) => {
                        let to = if gone_back { 3 } else { 5 };
                        let is_there = disk.bytes[to * 512..][..12 * 512] == original[3 * 512..][..12 * 512];
                        assert!(is_there, "{what}");
                        right += 1;
                    }
                }
            }
        }
    }
    println!("{refused} refused, {right} followed");
    assert!(refused > 1000 && right > 200);
}

/// More than a bit: no panic, and nothing is written to look at it.
#[test]
fn a_damaged_journal_is_no_panic() {
    let (mut refused, mut none, mut done) = (0, 0, 0);
    for seed in 0..3_000 {
        let mut random = SplitMix64::new(seed);
        let (stopped, place) = stopped(1 + u32::try_from(random.below(6)).unwrap());
        let mut bytes = stopped.bytes;
        for _ in 0..=random.below(4) {
            let journal = range(place.start(), 36 * 512);
            let at = journal.start + random.index(journal.len());
            match random.below(4) {
                0 => bytes[at] ^= 1 << random.below(8),
                1 => {
                    let sector = at / 512 * 512;
                    random.fill(&mut bytes[sector..sector + 512]);
                }
                2 => bytes[at / 512 * 512..][..16].fill(0xff),
                _ => {
                    let (from, to) = (journal.start + random.index(36) * 512, at / 512 * 512);
                    bytes.copy_within(from..from + 512, to);
                }
            }
        }
        let mut disk = Memory { bytes, is_read_only: true };
        match open(Disks::one(&mut disk), place) {
            Ok(Some(_)) => done += 1,
            Ok(None) => none += 1,
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::Refused);
                refused += 1;
                continue;
            }
        }
        // What it goes on to do must not panic.
        disk.is_read_only = false;
        if let Ok(Some(Recovered::Unfinished(unfinished))) = open(Disks::one(&mut disk), place) {
            let watch = &mut |_| ControlFlow::Continue(());
            let _ = if random.once_in(2) {
                unfinished.resume(watch).map(drop)
            } else {
                Recovered::Unfinished(unfinished).rollback((&[], false), watch).map(drop)
            };
        }
    }
    println!("{refused} refused, {none} not recognised, {done} opened");
    assert!(refused > 75 && done > 750);
}

#[test]
fn a_length_does_not_need_the_payload() {
    for len in [0, 1, 5, 4_000, 100_000] {
        let whole = Job::new(Parts { payload: vec![1; len], ..parts() }).unwrap();
        let bare = Job::new(Parts { payload: Vec::new(), ..parts() }).unwrap();
        assert_eq!(journal_len_with(&bare, len).unwrap(), journal_len(&whole).unwrap(), "{len}");
    }
}

/// Random bytes behind valid hashes of the title.
#[test]
fn every_place_may_be_asked_for() {
    let (mut disk, _) = stopped(3);
    disk.is_read_only = true;
    for start in 0..65 {
        for len in 0..66 {
            let found = open(Disks::one(&mut disk), span(start, len));
            let is_there = matches!(found, Ok(Some(_)));
            assert_eq!(is_there, (start, len) == (28, 36), "{start} {len}: {found:?}");
        }
    }
}

#[test]
fn impossible_jobs_are_refused() {
    let moves = |moves: &[[u64; 3]]| {
        let moves = moves
            .iter()
            .map(|[start, len, to]| Move { from: span(*start, *len), to: ByteOffset::new(to * 512) });
        Job::new(Parts { moves: moves.collect(), ..parts() })
    };
    assert!(moves(&[[3, 4, 4]]).is_ok());
    assert!(moves(&[[3, 4, 20], [10, 4, 3]]).is_ok(), "into a source");
    for refused in [
        &[][..],
        &[[3, 0, 4]],
        &[[3, 4, 3]],
        &[[60, 5, 0]],
        &[[0, 5, 60]],
        &[[3, 4, 10], [10, 4, 20]],
        &[[3, 4, 10], [12, 4, 20]],
        &[[3, 4, 10], [6, 4, 20]],
        &[[3, 4, 20], [8, 4, 22]],
        &[[3, 4, 10], [10, 3, 20]],
        &[[3, 4, 10], [3, 4, 20]],
        &[[3, 4, u64::MAX / 512]],
    ] {
        assert!(moves(refused).is_err(), "{refused:?}");
    }
    let odd = Move { from: Span::new(ByteOffset::new(100), sectors(1)).unwrap(), to: ByteOffset::ZERO };
    for wrong in [
        Parts { moves: vec![odd], ..parts() },
        Parts { window: ByteCount::ZERO, ..parts() },
        Parts { window: ByteCount::new(700), ..parts() },
        Parts { window: ByteCount::new(1 << 40), ..parts() },
        Parts { blocks: Boundary::multiples_of(ByteCount::new(1000)).unwrap(), ..parts() },
        Parts { blocks: Boundary::multiples_of(sectors(3)).unwrap(), window: sectors(3), ..parts() },
        Parts { payload: vec![0; (1 << 20) + 1], ..parts() },
        Parts { size: ByteCount::new(u64::MAX), ..parts() },
    ] {
        assert_eq!(Job::new(wrong).unwrap_err().kind(), ErrorKind::Usage);
    }
}

#[test]
fn a_place_that_does_not_do_is_refused() {
    let mut disk = Memory { bytes: vec![0; 64 * 512], is_read_only: true };
    for place in [span(10, 34), span(40, 10), span(40, 100), span(16, 30)] {
        let error = begin(Disks::one(&mut disk), place, Job::new(parts()).unwrap()).unwrap_err();
        assert!(matches!(error, RelocateError::Place(_)), "{place:?}: {error:?}");
    }
    // 24 GiB of a disk are no place either.
    let world = World::new(&shapes()[0]);
    let machine = world.boot(&world.original);
    assert!(world.with(&machine, |disks, _| inspect(disks, span(0, 1 << 30))).unwrap().is_none());
}

#[test]
fn a_journal_is_found_without_its_place() {
    for shape in shapes() {
        let world = World::new(&shape);
        let machine = world.boot(&world.original);
        let found = || world.with(&machine, |disks, _| search(disks, |_| true));
        assert_eq!(found(), None, "{shape:?}");
        let place = world.with(&machine, |disks, place| {
            begin(disks, place, world.job.clone()).unwrap();
            place
        });
        assert_eq!(found(), Some(place), "{shape:?}");
    }
}

#[test]
fn a_window_is_half_of_a_long_distance() {
    let (mib, block) = (straddle_units::MIB, ByteCount::new(4096));
    let window = |bytes: u64| Job::window(ByteCount::new(bytes), block, ByteCount::new(16 * mib)).get();
    let windows = [512, mib, 8 * mib, 9 * mib + 512, 1 << 40].map(window);
    assert_eq!(windows, [16 * mib, 16 * mib, 4 * mib, 9 * mib / 2, 16 * mib]);
    for distance in [8 * mib, 9 * mib + 4096, 40 * mib] {
        let from = Span::new(ByteOffset::new(mib), ByteCount::new(100 * mib)).unwrap();
        let job = Job::new(Parts {
            size: ByteCount::new(1 << 30),
            blocks: Boundary::multiples_of(block).unwrap(),
            window: ByteCount::new(window(distance)),
            moves: vec![Move { from, to: ByteOffset::new(mib + distance) }],
            ..parts()
        });
        assert_eq!(job.unwrap().windows().0, 0, "{distance}");
    }
}
