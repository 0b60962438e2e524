//! A rollback that was cut off, and a table that another program has written since: all comes back, in every state that
//! two power cuts may leave.

use straddle_repair::Format;
use straddle_repair::apply::{Backup, LaterWrites};
use straddle_repair::realign::{JournalPlace, MoveError, NoJournal, Outcome, Run};
use straddle_repair::relocate::State;

use super::common::{Memory, Random, seeds, target};
use super::other_table::{displace, go, recover, shapes as pairs};
use super::{Drive, Shape, Survivor};

/// Moves over a few windows: what is in flight lies over the old places of others.
fn shapes() -> [Shape; 3] {
    let to = |format, sectors, from, to| {
        let shape = Shape::to(format, sectors, &[(from, 9_001)], &[to]);
        let (window, by) = (shape.realign.window, (from.abs_diff(to)) * 512);
        assert!(2 * window.get() < by && by < 8 * window.get(), "{}: {window:?}", shape.name);
        shape
    };
    [
        to(Format::Mbr, 12_000, 63, 664),
        to(Format::Gpt, 13_800, 34, 664),
        to(Format::Mbr, 13_600, 2_713, 2_064),
    ]
}

/// Disks on which a rollback was cut off.
fn cut_off(shape: &Shape, random: &mut Random) -> Vec<(String, Memory)> {
    let whole = shape.operations::<Drive>();
    let (mut disks, mut ends) = (Vec::new(), Vec::new());
    for _ in 0..seeds("TURNS", 8) {
        let cut = random.below(whole);
        let mut drive = Drive::new(shape.before.clone(), cut);
        let _ = shape.begin_and_finish(&mut drive);
        let half = drive.cut(random);
        let back_until = |left| {
            let mut drive = Drive::new(half.clone(), left);
            let mut disk = target(&mut drive);
            let ended = Run::find(&mut disk, None).and_then(|run| go(run, true));
            drop(disk);
            (drive, ended)
        };
        let (all, Ok(Outcome::Complete(_))) = back_until(u64::MAX) else { continue };
        let mut stop = |left: u64| {
            let medium = back_until(left).0.cut(random);
            (format!("{}, cut after {cut}, and back after {left}", shape.name), medium)
        };
        // Early on, what was in flight when it began is still there.
        let early = (0..all.taken.min(16)).step_by(3).map(&mut stop);
        disks.extend(early);
        // At the end, only the old table is not written: as many writes before it in each.
        let is_back = |left: &u64| matches!(state(&back_until(*left).0.seen), Ok(State::Back));
        if ends.is_empty() {
            let back = (0..all.taken).rev().skip_while(|left| !is_back(left)).take_while(is_back);
            ends = back.map(|left| all.taken - left).collect();
        }
        let ends = [ends[0], ends[ends.len() / 2]];
        disks.extend(ends.iter().filter_map(|end| all.taken.checked_sub(*end)).map(&mut stop));
    }
    disks
}

fn state(medium: &Memory) -> Result<State, MoveError> {
    Run::search(&mut target(&mut Drive::new(medium.clone(), 0)), None).and_then(|mut run| run.state())
}

/// A number for each state with data that have moved, or had.
fn of(state: State) -> usize {
    match state {
        State::NotBegun => 0,
        State::Moving { .. } | State::Moved => 1,
        State::RollingBack => 2,
        State::Back => 3,
    }
}

#[test]
fn a_rollback_goes_on_after_another_programs_table() {
    let folder = tempfile::tempdir().unwrap();
    let mut random = Random::new(11);
    let mut recovered = [0; 4];
    for shape in shapes() {
        for (what, stopped) in cut_off(&shape, &mut random) {
            let Ok(state) = state(&stopped) else { continue };
            for (table, medium) in displace(&shape, &stopped) {
                let what = format!("{what}, {table}, {state:?}");
                // Where no data have moved, a table of another program leaves nothing to recover.
                let is_over = match state {
                    State::Back => table == "the old table",
                    state => state == State::NotBegun,
                };
                let (drive, ended) = recover(medium.clone(), u64::MAX, true, folder.path());
                match ended {
                    Ok(Outcome::Complete(_)) => recovered[of(state)] += 1,
                    Err(MoveError::NoJournal(NoJournal::Anywhere)) if is_over => continue,
                    _ => panic!("{what}: {ended:?}"),
                }
                assert!(!shape.is_new(&drive.seen, &what), "{what}");
            }
        }
        println!("{}: {recovered:?} recovered so far", shape.name);
    }
    assert!(recovered[1..].iter().all(|count| *count > 0), "{recovered:?}");
}

/// The saved table comes back although the power was cut while the marker was restored over it, or while it came back.
#[test]
fn a_saved_table_comes_back_after_power_cuts() {
    let folder = tempfile::tempdir().unwrap();
    let mut random = Random::new(13);
    for shape in pairs() {
        let stopped = shape.stopped(JournalPlace::Inside).seen;
        for (table, medium) in displace(&shape, &stopped) {
            for _ in 0..5 * seeds("TURNS", 8) {
                let (restored, undone) = (random.below(12), random.below(12));
                let what = format!("{}, {table}: cut after {restored}, undo cut after {undone}", shape.name);
                let path = tempfile::Builder::new().tempdir_in(folder.path()).unwrap().path().to_owned();
                let mut drive = Drive::new(medium.clone(), restored);
                let _ = Run::search(&mut target(&mut drive), None).unwrap().restore_table(&path);
                let mut seen = drive.cut(&mut random);
                let saved = Backup::load(&path).unwrap();
                for left in [undone, u64::MAX] {
                    let mut drive = Drive::new(seen, left);
                    let mut disk = target(&mut drive);
                    let ready = saved.undo(&mut disk, LaterWrites::Refuse);
                    let ended = ready.unwrap_or_else(|error| panic!("{what}: {error}")).write().map(drop);
                    assert!(ended.is_ok() || left < u64::MAX, "{what}: {ended:?}");
                    drop(disk);
                    seen = drive.cut(&mut random);
                }
                assert!(seen == medium, "{what}");
            }
        }
    }
}
