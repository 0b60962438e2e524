//! Power cuts while a run changes a disk, and others while it is resumed or rolled back.

use std::ops::ControlFlow;

use straddle_repair::Simulated;
use straddle_repair::realign::{JournalPlace, MoveError, Outcome, Realign, Run};
use straddle_repair::relocate::State;

use super::{Cut, Memory, Random, seeds, target};

/// A drive whose power can be cut.
pub(crate) trait Powered: Simulated {
    /// Powers on a drive with these contents; it loses power after about so many writes and flushes.
    fn on(contents: Memory, left: u64, seed: u64) -> Self;

    /// How many writes and flushes it has taken.
    fn taken(&self) -> u64;

    /// What is read from it now.
    fn seen(&self) -> Memory;

    /// Cuts the power, if it is not off yet. Returns what is on the medium then.
    fn cut(self, random: &mut Random) -> Memory;
}

impl Powered for Cut {
    fn on(contents: Memory, left: u64, _seed: u64) -> Self {
        Self::new(contents, left)
    }

    fn taken(&self) -> u64 {
        self.taken
    }

    fn seen(&self) -> Memory {
        self.seen.clone()
    }

    fn cut(self, random: &mut Random) -> Memory {
        self.cut(random)
    }
}

/// A disk, and a run that changes it.
pub(crate) trait Survivor {
    /// The disk before.
    fn before(&self) -> &Memory;

    /// What the run does.
    fn realign(&self) -> &Realign;

    /// Checks what is on the disk while an unfinished run is found on it.
    fn check_unfinished(&self, medium: &Memory, state: Result<State, MoveError>, what: &str);

    /// Whether the disk is the new one; otherwise it has to be the old one.
    fn is_new(&self, medium: &Memory, what: &str) -> bool;

    /// As [`is_new`](Self::is_new), of a disk that does not change any more; from the old one, the run has to be
    /// possible again.
    fn settled(&self, medium: Memory, what: &str) -> bool;

    /// Begins the run on a disk, and finishes it.
    fn begin_and_finish(&self, drive: &mut dyn Simulated) -> Result<Outcome, MoveError> {
        carry_out(self.realign(), drive)
    }

    /// The number of writes and flushes of a whole run.
    fn operations<D: Powered>(&self) -> u64 {
        let mut drive = D::on(self.before().clone(), u64::MAX, 0);
        let done = self.begin_and_finish(&mut drive);
        assert!(matches!(done, Ok(Outcome::Complete(_))), "{done:?}");
        assert!(self.is_new(&drive.seen(), "without a cut"));
        drive.taken()
    }

    /// Cuts the power after so many writes and flushes, then resumes or rolls back, with more cuts on the way.
    /// Returns whether the disk is the new one.
    fn survive<D: Powered>(&self, cut: u64, random: &mut Random) -> bool {
        let mut drive = D::on(self.before().clone(), cut, random.next());
        let what = format!("cut after {cut}");
        let _ = self.begin_and_finish(&mut drive);
        let mut medium = drive.cut(random);
        let mut goes_back = random.chance(50);
        for round in 0..4 {
            let limit = if round < 2 { random.below(cut.max(8)) } else { u64::MAX };
            let mut drive = D::on(medium, limit, random.next());
            let mut disk = target(&mut drive);
            match Run::find(&mut disk, None) {
                Err(MoveError::Nothing) => {
                    drop(disk);
                    return self.settled(drive.seen(), &what);
                }
                Err(error) => panic!("{what}, round {round}: {error}"),
                Ok(run) => {
                    let ended = match goes_back {
                        true => run.roll_back(&mut |_| ControlFlow::Continue(())),
                        false => run.finish(&mut |_| ControlFlow::Continue(())),
                    };
                    if let Err(error) = &ended
                        && limit == u64::MAX
                    {
                        assert!(must_go_back(error), "{what}, round {round}: {error}");
                    }
                    goes_back |= ended.as_ref().is_err_and(must_go_back);
                }
            }
            drop(disk);
            medium = drive.cut(random);
            if let Ok(mut run) = Run::find(&mut target(&mut Cut::new(medium.clone(), 0)), None) {
                self.check_unfinished(&medium, run.state(), &what);
            }
        }
        self.settled(medium, &what)
    }

    /// Cuts the power `usual` times, or as often as the environment variable says, at each place in turn if that is
    /// often enough.
    fn try_cuts<D: Powered>(&self, name: &str, variable: &str, usual: u64) {
        let operations = self.operations::<D>();
        let mut random = Random::new(operations);
        let count = seeds(variable, usual);
        let mut new = 0;
        for round in 0..count {
            let cut = if count > operations { round % operations } else { random.below(operations + 1) };
            new += u64::from(self.survive::<D>(cut, &mut random));
        }
        println!("{name}: {operations} writes and flushes, {count} cuts, {new} ended new");
        // A sample for a quick run may be too small for both.
        assert!(count < usual || new > 0 && new < count, "both ways were tried");
    }
}

/// Whether there is only a way back: a rollback has begun, or nothing has moved.
fn must_go_back(error: &MoveError) -> bool {
    matches!(error, MoveError::Turned | MoveError::NotBegun)
}

/// Begins a run and finishes it.
pub(crate) fn carry_out(realign: &Realign, drive: &mut dyn Simulated) -> Result<Outcome, MoveError> {
    let mut disk = target(drive);
    let run = realign.begin(&mut disk, JournalPlace::Inside, [9; 16])?;
    run.finish(&mut |_| ControlFlow::Continue(()))
}
