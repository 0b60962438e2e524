//! A process that moves data in a file is killed, and another one goes on.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use crate::tests::support;

use std::fs::{self, File, OpenOptions};
use std::io::{BufRead, BufReader};
use std::ops::ControlFlow;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use straddle_repair::relocate::{
    Disks, Job, Move, Parts, Recovered, State, begin, inspect, journal_len, open,
};
use straddle_units::io::SplitMix64;
use straddle_units::{Boundary, ByteCount, ByteOffset, KIB, MIB, Span};
use support::FileDisk;

/// Tells this program that it is the one to be killed: the file, and whether it rolls back.
const FILE: &str = "STRADDLE_RELOCATE_FILE";
const BACK: &str = "STRADDLE_RELOCATE_BACK";
const SIZE: u64 = 8 * MIB;

fn span(start: u64, len: u64) -> Span {
    Span::new(ByteOffset::new(start), ByteCount::new(len)).unwrap()
}

/// Two partitions from sector 63 without a gap, and the place of the journal behind them.
fn job() -> (Job, Span) {
    let (first, second) = (span(63 * 512, 2 * MIB), span(63 * 512 + 2 * MIB, 3 * MIB + 512));
    let to = |sector: u64| ByteOffset::new(sector * 512);
    let job = Job::new(Parts {
        size: ByteCount::new(SIZE),
        blocks: Boundary::multiples_of(ByteCount::new(4 * KIB)).unwrap(),
        window: ByteCount::new(64 * KIB),
        id: *b"killed, continue",
        moves: vec![Move { from: second, to: to(4168) }, Move { from: first, to: to(64) }],
        payload: Vec::new(),
    });
    let job = job.unwrap();
    let len = journal_len(&job).unwrap().get();
    (job, span(SIZE - len, len))
}

fn disk(path: &Path) -> FileDisk {
    FileDisk::new(OpenOptions::new().read(true).write(true).open(path).unwrap()).unwrap()
}

/// What the process that is killed does: a line when it has begun, and one when it is done.
fn child(path: &Path, is_back: bool) {
    let (job, place) = job();
    let watch = &mut |_| ControlFlow::Continue(());
    let mut disk = disk(path);
    println!("\nbegun");
    let found = match open(Disks::one(&mut disk), place).unwrap() {
        Some(found) => found,
        None => Recovered::Unfinished(
            begin(Disks::one(Box::leak(Box::new(self::disk(path)))), place, job).unwrap(),
        ),
    };
    match found {
        Recovered::Unfinished(found) if !is_back => drop(found.resume(watch).unwrap()),
        Recovered::Moved(_) | Recovered::Back(_) => {}
        found => drop(found.rollback((&[], false), watch).unwrap()),
    }
    println!("done");
}

/// Runs a child on the file and kills it after a while.
fn kill(path: &Path, is_back: bool, after: Duration) {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "tests::killed::a_killed_process_loses_nothing", "--nocapture"])
        .env(FILE, path)
        .env(BACK, if is_back { "1" } else { "0" })
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    assert!(lines.any(|line| line.unwrap() == "begun"));
    std::thread::sleep(after);
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn a_killed_process_loses_nothing() {
    if let Some(path) = std::env::var_os(FILE) {
        return child(Path::new(&path), std::env::var(BACK).unwrap() == "1");
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("disk");
    let mut original = vec![0; usize::try_from(SIZE).unwrap()];
    SplitMix64::new(2).fill(&mut original);
    let (job, place) = job();
    let mut random = SplitMix64::new(1);
    let mut states = Vec::new();
    for round in 0..50 {
        fs::write(&path, &original).unwrap();
        File::open(&path).unwrap().sync_all().unwrap();
        let is_back = round % 2 == 1;
        for _ in 0..=random.below(3) {
            let after = Duration::from_micros(random.below(60_000));
            kill(&path, is_back && random.once_in(2), after);
        }
        let mut disk = disk(&path);
        let state = inspect(Disks::one(&mut disk), place).unwrap().map(|(_, state)| state);
        let watch = &mut |_| ControlFlow::Continue(());
        let moved = match open(Disks::one(&mut disk), place).unwrap() {
            None => false,
            Some(found @ Recovered::Unfinished(_)) if is_back => {
                assert!(matches!(found.rollback((&[], false), watch), Ok(Some(_))));
                false
            }
            Some(Recovered::Unfinished(found)) => {
                assert!(matches!(found.resume(watch), Ok(Some(_))));
                true
            }
            Some(found @ Recovered::Turned(_)) => {
                assert!(matches!(found.rollback((&[], false), watch), Ok(Some(_))));
                false
            }
            Some(Recovered::Moved(_)) => true,
            Some(Recovered::Back(_)) => false,
        };
        let now = fs::read(&path).unwrap();
        let part = |bytes: &[u8], start: ByteOffset, len: ByteCount| {
            let start = usize::try_from(start.get()).unwrap();
            bytes[start..start + usize::try_from(len.get()).unwrap()].to_vec()
        };
        for one in &job.moves {
            let at = if moved { one.to } else { one.from.start() };
            let is_there =
                part(&now, at, one.from.len()) == part(&original, one.from.start(), one.from.len());
            assert!(is_there, "round {round}, {state:?}: {one:?}");
        }
        assert!(part(&now, ByteOffset::ZERO, ByteCount::new(63 * 512)) == original[..63 * 512]);
        states.push(state);
    }
    let moving = |state: &&Option<State>| matches!(state, Some(State::Moving { .. } | State::RollingBack));
    println!("{} of {} were killed on the way", states.iter().filter(moving).count(), states.len());
}
