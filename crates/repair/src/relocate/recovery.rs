//! The states of a move, as types: what can be done in one is what its type can do.

use straddle_units::{ByteCount, Span};

use crate::relocate::bad::{Bad, Skip, settled, untouched};
use crate::relocate::disk::Disks;
use crate::relocate::engine::{Run, Stop, Verify, Watch};
use crate::relocate::error::RelocateError;
use crate::relocate::fault::{self, Fault};
use crate::relocate::flight::Flight;
use crate::relocate::job::Job;
use crate::relocate::journal::{Direction, Journal, Mark};
use crate::relocate::sequence::Sequence;

/// What a run came to.
#[derive(Debug)]
pub enum Ended<T> {
    /// It is complete and durable.
    Complete(T),
    /// The caller stopped it. What was done is durable; [`open`] the journal to go on.
    Paused,
}

/// A job with its journal that is not complete, and neither is its rollback begun.
pub struct Unfinished<'a>(Held<'a>);

/// All data are in their new places, durably. The journal is still there, so that there is a way back.
pub struct Moved<'a>(Held<'a>);

/// A rollback that has begun. It can only be completed: part of what was done is undone.
pub struct Turned<'a>(Held<'a>);

/// All data are in their old places, durably.
pub struct Back<'a>(Held<'a>);

struct Held<'a> {
    disks: Disks<'a>,
    journal: Journal,
    skip: Skip,
    /// What was written to besides.
    others: Vec<Span>,
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
    /// Moves everything back from here. Of what the caller has written to `besides`, nothing is taken for what it was before
    /// the moves: that must be the same whenever the rollback goes on. What cannot be read is an error, or listed.
    pub fn rollback(
        self,
        (besides, skips_bad): (Vec<Span>, bool),
        verify: Verify,
        watch: Watch<'_>,
    ) -> Result<Ended<Back<'a>>, RelocateError> {
        let mut held = match self {
            Self::Unfinished(Unfinished(held)) | Self::Moved(Moved(held)) | Self::Turned(Turned(held)) => {
                held
            }
            Self::Back(back) => return Ok(Ended::Complete(back)),
        };
        held.others = besides;
        held.skip.is_on |= skips_bad;
        held.rollback(verify, watch)
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

/// Returns the size of the journal that `job` needs.
pub fn journal_len(job: &Job) -> Result<ByteCount, RelocateError> {
    Journal::needed(job, 0)
}

/// The same for a payload that is longer by `more` bytes.
pub fn journal_len_with(job: &Job, more: usize) -> Result<ByteCount, RelocateError> {
    Journal::needed(job, more)
}

/// Writes the journal of a new job at `place`. The data are as they were.
///
/// # Errors
///
/// [`RelocateError::Place`] and [`RelocateError::Occupied`]: nothing was written.
pub fn begin<'a>(mut disks: Disks<'a>, place: Span, job: Job) -> Result<Unfinished<'a>, RelocateError> {
    let journal = Journal::create(&mut disks, place, job)?;
    Ok(Unfinished(Held { disks, journal, skip: Skip::default(), others: Vec::new() }))
}

/// Opens the journal at `place`; `None` if there is none.
///
/// Flushes both disks and drops their caches first: what is decided is decided by what is durable.
///
/// # Errors
///
/// If the journal was made for a disk of another size or for another place, is of another format, or damaged,
/// or cannot be read. Nothing was written. Another disk of the same size is not noticed.
pub fn open<'a>(mut disks: Disks<'a>, place: Span) -> Result<Option<Recovered<'a>>, RelocateError> {
    disks.settle()?;
    let Some(journal) = Journal::read(&mut disks, place)? else { return Ok(None) };
    let state = state(&mut disks, &journal)?;
    let skip = journal.listed(&mut disks)?;
    let held = Held { disks, journal, skip, others: Vec::new() };
    Ok(Some(match state {
        State::NotBegun | State::Moving { .. } => Recovered::Unfinished(Unfinished(held)),
        State::Moved => Recovered::Moved(Moved(held)),
        State::RollingBack => Recovered::Turned(Turned(held)),
        State::Back => Recovered::Back(Back(held)),
    }))
}

/// Reads the journal at `place` and changes nothing; `None` if there is none.
pub fn inspect(mut disks: Disks<'_>, place: Span) -> Result<Option<(Job, State)>, RelocateError> {
    let Some(journal) = Journal::read(&mut disks, place)? else { return Ok(None) };
    let state = state(&mut disks, &journal)?;
    Ok(Some((journal.job, state)))
}

/// Removes the titles of the journal at `place`, durably, if there is one.
pub fn forget(mut disks: Disks<'_>, place: Span) -> Result<(), RelocateError> {
    match Journal::read(&mut disks, place)? {
        Some(journal) => journal.erase_titles(&mut disks),
        None => Ok(()),
    }
}

/// Whether what the windows in flight were read from, according to the journal at `place`, is still as it was read,
/// where they have not written. True if there is no journal. Changes nothing.
///
/// No crash changes that, and the next window does: so it is not true of a journal that is older than the data.
pub fn is_latest(mut disks: Disks<'_>, place: Span) -> Result<bool, RelocateError> {
    let disks = &mut disks;
    let Some(journal) = Journal::read(disks, place)? else { return Ok(true) };
    let (turned, undone) = (journal.mark(disks, Mark::Turned)?, journal.mark(disks, Mark::Undone)?);
    let (sequence, direction) = match turned.filter(|_| undone.is_some()) {
        Some(done) => (Sequence::back(&journal.job, done), Direction::Back),
        None => (Sequence::forward(&journal.job), Direction::Forward),
    };
    let flight = Flight::of(journal.records(disks, direction)?, &sequence)?;
    let skip = journal.listed(disks)?;
    Ok(flight.is_read_intact(disks, &sequence, &skip))
}

fn state(disks: &mut Disks<'_>, journal: &Journal) -> Result<State, RelocateError> {
    let forward = Sequence::forward(&journal.job);
    let damaged = |what: &str| Err(RelocateError::Damaged(what.to_owned()));
    let (turned, undone) = (journal.mark(disks, Mark::Turned)?, journal.mark(disks, Mark::Undone)?);
    match (turned, undone) {
        (Some(done), _) if done > forward.count() => damaged("more windows are moved than there are"),
        // It was turned before anything had moved.
        (Some(0), None | Some(0)) if journal.records(disks, Direction::Forward)?.is_empty() => {
            Ok(State::Back)
        }
        (Some(done), Some(other)) if done == other => {
            let back = Sequence::back(&journal.job, done);
            let flight = Flight::of(journal.records(disks, Direction::Back)?, &back)?;
            Ok(if flight.is_end { State::Back } else { State::RollingBack })
        }
        (_, Some(_)) => damaged("its marks contradict each other"),
        (turned, None) => {
            let flight = Flight::of(journal.records(disks, Direction::Forward)?, &forward)?;
            Ok(match turned {
                Some(done) if done != flight.durable => return damaged("its marks contradict its records"),
                Some(_) => State::RollingBack,
                None if flight.is_end => State::Moved,
                None if flight.has_begun() => {
                    State::Moving { done: ByteCount::new(forward.bytes(flight.done)) }
                }
                None => State::NotBegun,
            })
        }
    }
}

impl<'a> Held<'a> {
    fn resume(mut self, verify: Verify, watch: Watch<'_>) -> Result<Ended<Moved<'a>>, RelocateError> {
        let Self { disks, journal, skip, .. } = &mut self;
        let sequence = Sequence::forward(&journal.job);
        let flight = Flight::of(journal.records(disks, Direction::Forward)?, &sequence)?;
        journal.heal(disks)?;
        flight.redo(disks, &sequence, journal, skip, &[])?;
        let (direction, kept) = (Direction::Forward, [].as_slice());
        let run = Run { journal, sequence: &sequence, direction, verify, kept };
        Ok(match run.go(disks, skip, flight.done, watch)? {
            Stop::End => Ended::Complete(Moved(self)),
            Stop::Paused => Ended::Paused,
        })
    }

    fn rollback(mut self, verify: Verify, watch: Watch<'_>) -> Result<Ended<Back<'a>>, RelocateError> {
        let Self { disks, journal, skip, others } = &mut self;
        journal.heal(disks)?;
        let done = match journal.mark(disks, Mark::Undone)? {
            Some(done) => done,
            None => turn(disks, journal, skip)?,
        };
        let sequence = Sequence::back(&journal.job, done);
        let flight = Flight::of(journal.records(disks, Direction::Back)?, &sequence)?;
        let kept = &untouched(&journal.job, done, &skip.list, others);
        flight.redo(disks, &sequence, journal, skip, kept)?;
        let run = Run { journal, sequence: &sequence, direction: Direction::Back, verify, kept };
        Ok(match run.go(disks, skip, flight.done, watch)? {
            Stop::End => Ended::Complete(Back(self)),
            Stop::Paused => Ended::Paused,
        })
    }

    fn erase(mut self) -> Result<(), RelocateError> {
        self.journal.erase(&mut self.disks)
    }
}

/// Begins the rollback: undoes what is in flight. Returns the number of windows that are to go back.
fn turn(disks: &mut Disks<'_>, journal: &Journal, skip: &Skip) -> Result<u64, RelocateError> {
    let sequence = Sequence::forward(&journal.job);
    let flight = Flight::of(journal.records(disks, Direction::Forward)?, &sequence)?;
    let done = flight.durable;
    journal.set(disks, Mark::Turned, done)?;
    if fault::on(Fault::EarlyUndone) {
        journal.set(disks, Mark::Undone, done)?;
    }
    if !fault::on(Fault::NoUndo) {
        flight.undo(disks, &sequence, journal.block(), skip)?;
    }
    journal.set(disks, Mark::Undone, done)?;
    Ok(done)
}

impl<'a> Unfinished<'a> {
    /// Moves what is left. `watch` receives the progress after each window, and may stop there.
    ///
    /// # Errors
    ///
    /// After an error of a disk, [`open`] the journal again to resume or to roll back.
    pub fn resume(self, verify: Verify, watch: Watch<'_>) -> Result<Ended<Moved<'a>>, RelocateError> {
        self.0.resume(verify, watch)
    }

    /// Moves everything back. Once it has begun it can only be completed, if need be after [`open`].
    pub fn rollback(self, verify: Verify, watch: Watch<'_>) -> Result<Ended<Back<'a>>, RelocateError> {
        self.0.rollback(verify, watch)
    }
}

impl<'a> Moved<'a> {
    /// Moves everything back, as if it had not been complete.
    pub fn rollback(self, verify: Verify, watch: Watch<'_>) -> Result<Ended<Back<'a>>, RelocateError> {
        self.0.rollback(verify, watch)
    }

    /// Removes the journal: from now on there is no way back.
    ///
    /// # Errors
    ///
    /// If a disk fails; then [`open`] finds this state or no journal.
    pub fn erase(self) -> Result<(), RelocateError> {
        self.0.erase()
    }
}

impl<'a> Turned<'a> {
    /// Moves back what is left.
    pub fn rollback(self, verify: Verify, watch: Watch<'_>) -> Result<Ended<Back<'a>>, RelocateError> {
        self.0.rollback(verify, watch)
    }
}

impl Back<'_> {
    /// Removes the journal.
    ///
    /// # Errors
    ///
    /// If a disk fails; then [`open`] finds this state or no journal.
    pub fn erase(self) -> Result<(), RelocateError> {
        self.0.erase()
    }
}

macro_rules! runs {
    ($($name:ident)*) => {$(
        impl $name<'_> {
            /// Goes on if something cannot be read: the [`filler`](crate::relocate::filler) takes its place, and it is
            /// [listed](Self::bad). Otherwise it is an error, and there is a way back.
            #[must_use]
            pub fn skip_bad(mut self) -> Self {
                self.0.skip.is_on = true;
                self
            }
        }
    )*};
}

runs! { Unfinished Moved Turned }

macro_rules! states {
    ($($name:ident)*) => {$(
        impl $name<'_> {
            /// The job, with its payload.
            pub fn job(&self) -> &Job {
                &self.0.journal.job
            }

        }

        impl std::fmt::Debug for $name<'_> {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.debug_tuple(stringify!($name)).field(self.job()).finish()
            }
        }
    )*};
}

states! { Unfinished Moved Turned Back }

impl Back<'_> {
    /// What could not be read since the job began, in ascending order.
    pub fn bad(&self) -> &[Bad] {
        &self.0.skip.list
    }
}

impl Moved<'_> {
    /// What could not be read since the job began, with the places where the fillers are now, in ascending order.
    ///
    /// Reads those that a later move has taken along.
    pub fn bad(&mut self) -> Vec<Bad> {
        let Held { disks, journal, skip, .. } = &mut self.0;
        settled(disks, &journal.job.moves, &skip.list)
    }
}
