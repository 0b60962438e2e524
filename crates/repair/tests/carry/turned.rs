//! A rollback that was cut off, and a table that another program has written since: all comes back, in every state that
//! two power cuts may leave; and nothing is written if something else has written to the data.

use straddle_relocate::{State, is_title};
use straddle_repair::apply::{Backup, LaterWrites};
use straddle_repair::realign::{Journal, JournalPlace, MoveError, Outcome, Run};
use straddle_repair::{Format, Request, Seed};
use straddle_units::{ByteCount, ByteOffset, Span};

use super::common::{Memory, Random, plan_and_write, seeds, target};
use super::displaced::{check_nothing, displace, go, is_found, places, recover, shapes as pairs};
use super::{Drive, Shape, Survivor};

/// Moves over a few windows: what is in flight lies over the old places of others.
fn shapes() -> [Shape; 3] {
    let to = |format, sectors, from, to| {
        let shape = Shape::to(format, sectors, &[(from, 9_001)], &[to]);
        let (window, by) = (shape.realign.window(), (from.abs_diff(to)) * 512);
        assert!(2 * window.get() < by && by < 8 * window.get(), "{}: {window:?}", shape.name);
        shape
    };
    [
        to(Format::Mbr, 12_000, 63, 664),
        to(Format::Gpt, 14_400, 34, 664),
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
    let (mut recovered, mut refused) = ([0; 4], 0);
    for shape in shapes() {
        for (what, stopped) in cut_off(&shape, &mut random) {
            let Ok(state) = state(&stopped) else { continue };
            for (table, medium, _) in displace(&shape, &stopped) {
                let what = format!("{what}, {table}, {state:?}");
                let is_over = table == "the old table" && matches!(state, State::Back | State::NotBegun);
                let (drive, ended) = recover(medium.clone(), u64::MAX, true, folder.path());
                match ended {
                    Ok(Outcome::Complete(_)) => recovered[of(state)] += 1,
                    Err(MoveError::NothingAnywhere) if is_over => continue,
                    _ => panic!("{what}: {ended:?}"),
                }
                assert!(!shape.is_new(&drive.seen, &what), "{what}");
                refused += u64::from(!is_kept(&shape, &medium, &mut random, &what));
            }
        }
        println!("{}: {recovered:?} recovered so far, {refused} refused after a write", shape.name);
    }
    let is_each = recovered[1..].iter().all(|count| *count > 0);
    assert!(is_each && refused > 0, "{recovered:?}, {refused}");
}

/// Has another program write to a sector of the data, in the old or in the new place, and checks that the rollback
/// brings back all others, and keeps it, or else that nothing is written. Returns whether it went on.
fn is_kept(shape: &Shape, medium: &Memory, random: &mut Random, what: &str) -> bool {
    let (old, new) = shape.places()[0];
    let is_old = random.chance(50);
    let at = random.below(old.len().get() / 512) * 512;
    let sector =
        |place: Span| Span::new(ByteOffset::new(place.start().get() + at), ByteCount::new(512)).unwrap();
    let (was, is) = (sector(old), sector(new));
    // The data are in both places: the owner may be using either.
    let data = Shape::bytes(&shape.before, was);
    if Shape::bytes(medium, was) != data || Shape::bytes(medium, is) != data {
        return true;
    }
    let mut medium = medium.clone();
    medium.put(if is_old { was } else { is }.start().get(), &[0xA5; 512]);
    let folder = tempfile::tempdir().unwrap();
    let (drive, ended) = recover(medium.clone(), u64::MAX, true, folder.path());
    if !matches!(ended, Ok(Outcome::Complete(_))) {
        assert!(matches!(ended, Err(MoveError::LeftOver)), "{what}: {ended:?}");
        assert!(drive.seen == medium, "{what}: it was written to, {ended:?}");
        return false;
    }
    let mut expected = Shape::bytes(&shape.before, old);
    if is_old {
        let at = usize::try_from(at).unwrap();
        expected[at..at + 512].fill(0xA5);
    }
    assert!(
        Shape::bytes(&drive.seen, old) == expected,
        "{what}: a write to {was:?} or {is:?}, old: {is_old}"
    );
    true
}

/// The journal of a rollback that is over, which a power cut has left behind, does not bring the old table back later.
#[test]
fn a_journal_that_was_not_erased_after_a_rollback_counts_for_nothing() {
    for shape in pairs() {
        let stopped = shape.stopped(JournalPlace::Inside).seen;
        let back_until = |left| {
            let mut drive = Drive::new(stopped.clone(), left);
            let mut disk = target(&mut drive);
            let _ = Run::find(&mut disk, None).and_then(|run| go(run, true));
            drop(disk);
            drive
        };
        let Journal::Inside(place) = shape.realign.journal() else { panic!("{}: it has room", shape.name) };
        let title = Span::new(place.start(), ByteCount::new(512)).unwrap();
        let whole = back_until(u64::MAX).taken;
        let mut left_over = 0;
        for left in 0..whole {
            let mut medium = back_until(left).seen;
            if places(&medium) != places(&shape.before) {
                continue;
            }
            let what = format!("{}, back after {left}", shape.name);
            left_over += u64::from(is_title(&Shape::bytes(&medium, title)));
            check_nothing(&medium, &what);
            // Who changes it is not asked; who asks gets the old table.
            let mut request = Request::new(Seed(7));
            request.delete.push(2);
            plan_and_write(&mut medium, "512e", &request).unwrap();
            assert!(!is_found(&medium), "{what}");
        }
        assert!(left_over > 0, "{}", shape.name);
    }
}

/// The saved table comes back although the power was cut while the marker was restored over it, or while it came back.
#[test]
fn a_saved_table_comes_back_after_power_cuts() {
    let folder = tempfile::tempdir().unwrap();
    let mut random = Random::new(13);
    for shape in pairs() {
        let stopped = shape.stopped(JournalPlace::Inside).seen;
        for (table, medium, _) in displace(&shape, &stopped) {
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
