//! The states of a move, as types: what can be done in one is what its type can do.

use std::fmt;

use straddle_units::{ByteCount, Span};

use super::{
    Bad, Direction, Disks, Fault, Flight, Job, Journal, Mark, RelocateError, Result, Run, Sequence, Skip,
    Verify, Watch, untouched,
};

/// How a run ended.
#[derive(Debug)]
pub enum Ended<T> {
    /// It is complete and durable.
    Complete(T),
    /// The caller stopped it. What was done is durable; [`open`] the journal to go on.
    Paused,
}

/// A job with its journal that is not complete, and whose rollback has not begun.
#[derive(Debug)]
pub struct Unfinished<'a>(Held<'a>);

/// All data are in their new places, durably. The journal is still there, so that there is a way back.
#[derive(Debug)]
pub struct Moved<'a>(Held<'a>);

/// A rollback that has begun. It can only be completed: part of what was done is undone.
#[derive(Debug)]
pub struct Turned<'a>(Held<'a>);

/// All data are in their old places, durably.
#[derive(Debug)]
pub struct Back<'a>(Held<'a>);

struct Held<'a> {
    disks: Disks<'a>,
    journal: Journal,
    skip: Skip,
}

impl fmt::Debug for Held<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.journal.job.fmt(f)
    }
}

/// The state that a journal is found in.
#[derive(Debug)]
pub enum Recovered<'a> {
    /// Nothing, or some of it, is moved.
    Unfinished(Unfinished<'a>),
    /// All is moved.
    Moved(Moved<'a>),
    /// The rollback has begun.
    Turned(Turned<'a>),
    /// All is back.
    Back(Back<'a>),
}

impl<'a> Recovered<'a> {
    /// Moves everything back. Sectors that cannot be read are an error, or listed if the caller `skips_bad`.
    /// `besides` is what the caller has written to, the same in every call: it is not taken for what it was
    /// before the moves.
    pub fn rollback(
        self,
        (besides, skips_bad): (&[Span], bool),
        verify: Verify,
        watch: Watch<'_>,
    ) -> Result<Ended<Back<'a>>> {
        let mut held = match self {
            Self::Unfinished(Unfinished(held)) | Self::Moved(Moved(held)) | Self::Turned(Turned(held)) => {
                held
            }
            Self::Back(back) => return Ok(Ended::Complete(back)),
        };
        held.skip.is_on |= skips_bad;
        held.rollback(besides, verify, watch)
    }
}

/// How far a job is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// No byte was written to the data.
    NotBegun,
    /// Some windows are written.
    Moving {
        /// The bytes that they move.
        done: ByteCount,
    },
    /// All data are moved, durably.
    Moved,
    /// The rollback has begun.
    RollingBack,
    /// All data are back, durably.
    Back,
}

/// Writes the journal of a new job at `place`. After [`RelocateError::Place`] and [`RelocateError::Occupied`]
/// nothing was written.
pub fn begin<'a>(mut disks: Disks<'a>, place: Span, job: Job) -> Result<Unfinished<'a>> {
    let journal = Journal::create(&mut disks, place, job)?;
    Ok(Unfinished(Held { disks, journal, skip: Skip::default() }))
}

/// Opens the journal at `place`; `None` if there is none. Writes nothing.
///
/// Flushes both disks and drops their caches first, so that only what is durable counts. Another disk of the
/// same size is not noticed.
pub fn open<'a>(mut disks: Disks<'a>, place: Span) -> Result<Option<Recovered<'a>>> {
    disks.settle()?;
    let Some(journal) = Journal::read(&mut disks, place)? else { return Ok(None) };
    let state = state(&mut disks, &journal)?;
    let skip = journal.listed(&mut disks)?;
    let held = Held { disks, journal, skip };
    Ok(Some(match state {
        State::NotBegun | State::Moving { .. } => Recovered::Unfinished(Unfinished(held)),
        State::Moved => Recovered::Moved(Moved(held)),
        State::RollingBack => Recovered::Turned(Turned(held)),
        State::Back => Recovered::Back(Back(held)),
    }))
}

/// Reads the journal at `place` and changes nothing; `None` if there is none.
pub fn inspect(mut disks: Disks<'_>, place: Span) -> Result<Option<(Job, State)>> {
    let Some(journal) = Journal::read(&mut disks, place)? else { return Ok(None) };
    let state = state(&mut disks, &journal)?;
    Ok(Some((journal.job, state)))
}

/// Removes the titles of the journal at `place`, durably, if there is one.
pub fn forget(mut disks: Disks<'_>, place: Span) -> Result<()> {
    match Journal::read(&mut disks, place)? {
        Some(journal) => journal.erase_titles(&mut disks),
        None => Ok(()),
    }
}

/// Whether what the windows in flight were read from, according to the journal at `place`, is still as it was
/// read, where they have not written. True if there is no journal. Changes nothing.
///
/// No crash changes that, and the next window does: so it is false for a journal older than the data.
pub fn is_latest(mut disks: Disks<'_>, place: Span) -> Result<bool> {
    let disks = &mut disks;
    let Some(journal) = Journal::read(disks, place)? else { return Ok(true) };
    let (turned, undone) = (journal.mark(disks, Mark::Turned)?, journal.mark(disks, Mark::Undone)?);
    let sequence = match turned.filter(|_| undone.is_some()) {
        Some(done) => Sequence::back(&journal.job, done),
        None => Sequence::forward(&journal.job),
    };
    let flight = Flight::find(disks, &journal, &sequence)?;
    let skip = journal.listed(disks)?;
    Ok(flight.is_read_intact(disks, &skip))
}

fn state(disks: &mut Disks<'_>, journal: &Journal) -> Result<State> {
    let forward = Sequence::forward(&journal.job);
    let damaged = |what: &str| Err(RelocateError::damaged(what));
    let (turned, undone) = (journal.mark(disks, Mark::Turned)?, journal.mark(disks, Mark::Undone)?);
    match (turned, undone) {
        (Some(done), _) if done > forward.count => damaged("more windows are marked as moved than exist"),
        // It was turned before anything had moved.
        (Some(0), None | Some(0)) if journal.records(disks, Direction::Forward)?.is_empty() => {
            Ok(State::Back)
        }
        (Some(done), Some(other)) if done == other => {
            let back = Sequence::back(&journal.job, done);
            let is_end = Flight::find(disks, journal, &back)?.is_end;
            Ok(if is_end { State::Back } else { State::RollingBack })
        }
        (_, Some(_)) => damaged("its marks contradict each other"),
        (turned, None) => {
            let flight = Flight::find(disks, journal, &forward)?;
            Ok(match turned {
                Some(done) if done != flight.durable => return damaged("its marks contradict its records"),
                Some(_) => State::RollingBack,
                None if flight.is_end => State::Moved,
                None if flight.done > 0 => State::Moving { done: ByteCount::new(forward.bytes(flight.done)) },
                None => State::NotBegun,
            })
        }
    }
}

impl<'a> Held<'a> {
    fn rollback(mut self, besides: &[Span], verify: Verify, watch: Watch<'_>) -> Result<Ended<Back<'a>>> {
        let Self { disks, journal, skip } = &mut self;
        journal.heal(disks)?;
        let done = match journal.mark(disks, Mark::Undone)? {
            Some(done) => done,
            None => turn(disks, journal, skip)?,
        };
        let sequence = Sequence::back(&journal.job, done);
        let flight = Flight::find(disks, journal, &sequence)?;
        let kept = untouched(&journal.job, done, &skip.list, besides);
        let is_complete = self.run(&flight, &sequence, &kept, verify, watch)?;
        Ok(if is_complete { Ended::Complete(Back(self)) } else { Ended::Paused })
    }

    /// Writes what is in flight again, and then the windows that are left; returns whether that is complete.
    fn run(
        &mut self,
        flight: &Flight,
        sequence: &Sequence,
        kept: &[Span],
        verify: Verify,
        watch: Watch<'_>,
    ) -> Result<bool> {
        let Self { disks, journal, skip } = self;
        flight.redo(disks, journal, skip, kept)?;
        let behind = Default::default();
        Run { disks, journal, skip, sequence, verify, kept, behind }.go(flight.done, watch)
    }
}

/// Begins the rollback: undoes what is in flight. Returns the number of windows that are to go back.
fn turn(disks: &mut Disks<'_>, journal: &Journal, skip: &Skip) -> Result<u64> {
    let flight = Flight::find(disks, journal, &Sequence::forward(&journal.job))?;
    let done = flight.durable;
    journal.set(disks, Mark::Turned, done)?;
    if Fault::EarlyUndone.is_planted() {
        journal.set(disks, Mark::Undone, done)?;
    }
    if !Fault::NoUndo.is_planted() {
        flight.undo(disks, journal, skip)?;
    }
    journal.set(disks, Mark::Undone, done)?;
    Ok(done)
}

impl<'a> Unfinished<'a> {
    /// The job, with its payload.
    pub fn job(&self) -> &Job {
        &self.0.journal.job
    }

    /// Skips what cannot be read: the [`filler`](crate::relocate::filler) takes its place, and it is listed.
    #[must_use]
    pub fn skip_bad(mut self) -> Self {
        self.0.skip.is_on = true;
        self
    }

    /// Moves what is left. After an error of a disk, [`open`] the journal again to resume or to roll back.
    pub fn resume(mut self, verify: Verify, watch: Watch<'_>) -> Result<Ended<Moved<'a>>> {
        let Held { disks, journal, .. } = &mut self.0;
        let sequence = Sequence::forward(&journal.job);
        let flight = Flight::find(disks, journal, &sequence)?;
        journal.heal(disks)?;
        let is_complete = self.0.run(&flight, &sequence, &[], verify, watch)?;
        Ok(if is_complete { Ended::Complete(Moved(self.0)) } else { Ended::Paused })
    }

    /// Moves everything back. Once it has begun it can only be completed, if need be after [`open`].
    pub fn rollback(self, verify: Verify, watch: Watch<'_>) -> Result<Ended<Back<'a>>> {
        self.0.rollback(&[], verify, watch)
    }
}

impl<'a> Moved<'a> {
    /// Moves everything back, as if it had not been complete.
    pub fn rollback(self, verify: Verify, watch: Watch<'_>) -> Result<Ended<Back<'a>>> {
        self.0.rollback(&[], verify, watch)
    }

    /// Removes the journal, and so the way back. If a disk fails, [`open`] finds this state or no journal.
    pub fn erase(mut self) -> Result<()> {
        self.0.journal.erase(&mut self.0.disks)
    }

    /// What could not be read since the job began, in ascending order of the fillers.
    pub fn bad(&self) -> &[Bad] {
        &self.0.skip.list
    }
}

impl<'a> Turned<'a> {
    /// Moves back what is left.
    pub fn rollback(self, verify: Verify, watch: Watch<'_>) -> Result<Ended<Back<'a>>> {
        self.0.rollback(&[], verify, watch)
    }
}

impl Back<'_> {
    /// Removes the journal. If a disk fails, [`open`] finds this state or no journal.
    pub fn erase(mut self) -> Result<()> {
        self.0.journal.erase(&mut self.0.disks)
    }

    /// What could not be read since the job began, in ascending order.
    pub fn bad(&self) -> &[Bad] {
        &self.0.skip.list
    }
}
