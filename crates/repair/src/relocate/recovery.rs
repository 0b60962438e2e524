//! The states of a move, as types with what can be done in each; where the data are; and a search for a journal. A
//! title is believed only if the body that its hash belongs to names the title's place. One intact title with its
//! body is enough. What a crash may have left in two places, or torn, has no certain place.

use std::fmt;

use straddle_units::{ByteCount, ByteOffset, MIB, Span};

use super::{
    Bad, Direction, Disks, Fault, Flight, Job, Journal, Mark, Move, RelocateError, Result, Run, SECTOR,
    SECTOR_LEN, Sequence, Skip, Watch, in_memory, is_title, part_of, settled, untouched,
};

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
    /// Moves everything back, durably; `None` if the caller stopped it. Once it has begun it can only be
    /// completed, if need be after [`open`]. Sectors that cannot be read are an error, or listed if the caller
    /// `skips_bad`. `besides` is what the caller has written to, the same in every call: it is not taken for
    /// what it was before the moves.
    pub fn rollback(
        self,
        (besides, skips_bad): (&[Span], bool),
        watch: Watch<'_>,
    ) -> Result<Option<Back<'a>>> {
        let mut held = match self {
            Self::Unfinished(Unfinished(held)) | Self::Moved(Moved(held)) | Self::Turned(Turned(held)) => {
                held
            }
            Self::Back(back) => return Ok(Some(back)),
        };
        held.skip.is_on |= skips_bad;
        let Held { disks, journal, skip } = &mut held;
        journal.heal(disks)?;
        let done = match journal.mark(disks, Mark::Undone)? {
            Some(done) => done,
            None => turn(disks, journal, skip)?,
        };
        let sequence = Sequence::back(&journal.job, done);
        let flight = Flight::find(disks, journal, &sequence)?;
        let kept = untouched(&journal.job, done, &skip.list, besides);
        let is_complete = held.run(&flight, &sequence, &kept, watch)?;
        Ok(is_complete.then_some(Back(held)))
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
        (_, Some(_)) => damaged("the marks in the journal contradict each other"),
        (turned, None) => {
            let flight = Flight::find(disks, journal, &forward)?;
            Ok(match turned {
                Some(done) if done != flight.durable => {
                    return damaged("the marks in the journal contradict its records");
                }
                Some(_) => State::RollingBack,
                None if flight.is_end => State::Moved,
                None if flight.done > 0 => State::Moving { done: ByteCount::new(forward.bytes(flight.done)) },
                None => State::NotBegun,
            })
        }
    }
}

impl Held<'_> {
    /// True if that is complete.
    fn run(&mut self, flight: &Flight, sequence: &Sequence, kept: &[Span], watch: Watch<'_>) -> Result<bool> {
        let Self { disks, journal, skip } = self;
        flight.redo(disks, journal, skip, kept)?;
        let behind = Default::default();
        Run { disks, journal, skip, sequence, kept, behind }.go(flight.done, watch)
    }
}

/// Returns the number of windows that are to go back.
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

    /// Moves what is left, durably; `None` if the caller stopped it. Then, and after an error of a disk,
    /// [`open`] the journal again to resume or to roll back.
    pub fn resume(mut self, watch: Watch<'_>) -> Result<Option<Moved<'a>>> {
        let Held { disks, journal, .. } = &mut self.0;
        let sequence = Sequence::forward(&journal.job);
        let flight = Flight::find(disks, journal, &sequence)?;
        journal.heal(disks)?;
        let is_complete = self.0.run(&flight, &sequence, &[], watch)?;
        Ok(is_complete.then_some(Moved(self.0)))
    }
}

impl Moved<'_> {
    /// Removes the journal, and so the way back. If a disk fails, [`open`] finds this state or no journal.
    pub fn erase(mut self) -> Result<()> {
        self.0.journal.erase(&mut self.0.disks)
    }

    /// What could not be read since the job began, with the present places of fillers, in ascending order.
    pub fn bad(&mut self) -> Vec<Bad> {
        let Held { disks, journal, skip } = &mut self.0;
        settled(disks, &journal.job.moves, &skip.list)
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

const PIECE: u64 = 4 * MIB;
/// Titles that are followed to their bodies, which may be long: more are none of ours.
const MAX_TITLES: usize = 32;

/// Searches the journal's disk for a journal that `counts`, from its end on; returns its place. There may be
/// others, left over from earlier moves.
///
/// Reads the whole disk if there is none. Skips sectors that cannot be read.
pub fn search(mut disks: Disks<'_>, mut counts: impl FnMut(Span) -> bool) -> Option<Span> {
    let device = disks.device_of_journal();
    let mut end = disks.get(device).size().floor_to(ByteCount::new(SECTOR)).get();
    let mut left = MAX_TITLES;
    while end > 0 && left > 0 {
        let start = end.saturating_sub(PIECE);
        let piece = Span::new(ByteOffset::new(start), ByteCount::new(end - start))?;
        let found = named(&mut disks, piece, &mut left);
        if let Some(place) = found.into_iter().rev().find(|place| counts(*place)) {
            return Some(place);
        }
        end = start;
    }
    None
}

/// The places that journals with a title in these bytes name as their own, complete or not.
pub fn named_within(mut disks: Disks<'_>, bytes: Span) -> Vec<Span> {
    named(&mut disks, bytes, &mut { MAX_TITLES })
}

fn named(disks: &mut Disks<'_>, bytes: Span, left: &mut usize) -> Vec<Span> {
    let titles = titles(disks, bytes);
    let skipped = titles.len().saturating_sub(*left);
    *left = left.saturating_sub(titles.len());
    titles.into_iter().skip(skipped).filter_map(|at| Journal::located(disks, at)).collect()
}

/// The place of the journal that `sector`, at byte `at`, is a part of; `None` for what the windows save.
pub fn place_around(mut disks: Disks<'_>, at: ByteOffset, sector: &[u8]) -> Option<Span> {
    let place = if is_title(sector) { Journal::located(&mut disks, at) } else { part_of(sector) };
    let sector = Span::new(at, ByteCount::new(sector.len() as u64))?;
    place.filter(|place| place.contains(sector))
}

fn titles(disks: &mut Disks<'_>, span: Span) -> Vec<ByteOffset> {
    let starts = || (span.start().get()..).step_by(SECTOR_LEN).map(ByteOffset::new);
    let mut bytes = vec![0; in_memory(span.len())];
    let device = disks.device_of_journal();
    let disk = disks.get(device);
    if disk.read(span.start(), &mut bytes).is_err() {
        for (at, bytes) in starts().zip(bytes.chunks_mut(SECTOR_LEN)) {
            if disk.read(at, bytes).is_err() {
                bytes.fill(0);
            }
        }
    }
    let sectors = starts().zip(bytes.chunks(SECTOR_LEN));
    sectors.filter(|(_, sector)| is_title(sector)).map(|(at, _)| at).collect()
}

/// Where the data of a job are.
#[derive(Clone, Debug, Default)]
pub struct Whereabouts {
    legs: Vec<Leg>,
    flying: Vec<Span>,
    bad: Vec<Bad>,
}

/// In old places.
#[derive(Clone, Copy, Debug)]
struct Leg {
    one: Move,
    /// What is durably in the new place.
    moved: Option<Span>,
    /// That, and what is on its way, forward or back.
    begun: Option<Span>,
}

impl Whereabouts {
    /// Reads them from the journal at `place`; nothing moves if there is none.
    pub fn read(mut disks: Disks<'_>, place: Span) -> Result<Self> {
        let disks = &mut disks;
        let Some(journal) = Journal::read(disks, place)? else { return Ok(Self::default()) };
        let bad = journal.listed(disks)?.list;
        let forward = Sequence::forward(&journal.job);
        let (turned, undone) = (journal.mark(disks, Mark::Turned)?, journal.mark(disks, Mark::Undone)?);
        let legs = |spans: &dyn Fn(usize) -> (Option<Span>, Option<Span>)| -> Vec<Leg> {
            let moves = journal.job.moves.iter().copied().enumerate();
            let leg = |(index, one)| {
                let (moved, begun) = spans(index);
                Leg { one, moved, begun }
            };
            moves.map(leg).collect()
        };
        let of = |reached: &[(Span, ByteOffset)], index: usize| reached.get(index).map(|(span, _)| *span);
        let Some(done) = turned.and(undone) else {
            let flight = Flight::find(disks, &journal, &forward)?;
            let (begun, durable) = (forward.sources(flight.done), forward.sources(flight.durable));
            // What is in flight when a rollback begins is undone.
            let is_certain = turned.is_none();
            let spans = |index| (of(&durable, index).filter(|_| is_certain), of(&begun, index));
            return Ok(Self { legs: legs(&spans), flying: flight.written(), bad });
        };
        let back = Sequence::back(&journal.job, done);
        let flight = Flight::find(disks, &journal, &back)?;
        let begun = forward.sources(done);
        let (turning, gone) = (back.sources(flight.done), back.sources(flight.durable));
        let spans = |index: usize| {
            let Some(span) = of(&begun, index) else { return (None, None) };
            // They go back in the opposite order.
            let place = begun.len() - 1 - index;
            match (of(&gone, place), of(&turning, place)) {
                (Some(gone), _) if gone.len() == span.len() => (None, None),
                (_, None) => (Some(span), Some(span)),
                _ => (None, Some(span)),
            }
        };
        Ok(Self { legs: legs(&spans), flying: flight.written(), bad })
    }

    /// Where the sector is that was at byte `at` before the moves; `None` if that is not certain, or if it
    /// could not be read once.
    pub fn of(&self, at: ByteOffset) -> Option<ByteOffset> {
        let span = |at| Span::new(at, ByteCount::new(SECTOR));
        let is_bad = |place: Span| {
            let spans = |bad: &Bad| [Some(bad.from), Span::new(bad.to, bad.from.len())];
            self.bad.iter().flat_map(spans).flatten().any(|bad| bad.overlaps(place))
        };
        let mut place = span(at).filter(|place| !is_bad(*place))?;
        for Leg { one, moved, begun } in &self.legs {
            if !one.from.contains(place) || begun.is_none_or(|begun| !begun.overlaps(place)) {
                continue;
            }
            let skipped = place.start().checked_since(one.from.start())?;
            let is_moved = moved.is_some_and(|moved| moved.contains(place));
            place = span(one.to.checked_add(skipped)?).filter(|_| is_moved)?;
        }
        let is_certain = !is_bad(place) && !self.flying.iter().any(|span| span.overlaps(place));
        is_certain.then(|| place.start())
    }
}
