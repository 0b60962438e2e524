//! Where the data are, according to a journal.
//!
//! The law of this module: it only reads. What a crash may have left in two places is said to be in either.

use straddle_units::{ByteCount, ByteOffset, Span};

use crate::bad::Bad;
use crate::disk::{Disks, SECTOR};
use crate::error::RelocateError;
use crate::flight::Flight;
use crate::job::Job;
use crate::journal::{Direction, Journal, Mark};
use crate::sequence::Sequence;

/// Where the data of a job are.
#[derive(Clone, Debug)]
pub struct Whereabouts {
    moves: Vec<Way>,
    /// What the windows in flight write: a crash may have torn it.
    flying: Vec<Span>,
    bad: Vec<Bad>,
}

/// Where a sector is that was somewhere else before the moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    /// There, durably.
    At(ByteOffset),
    /// In one of these places, or only in the journal.
    Either(ByteOffset, ByteOffset),
}

/// How far a move is, by the old places.
#[derive(Clone, Debug)]
struct Way {
    from: Span,
    to: ByteOffset,
    /// What is durably in the new place, if it has not come back since.
    moved: Option<Span>,
    /// That, and what is on its way.
    begun: Option<Span>,
    /// What has come back, durably.
    back: Option<Span>,
    /// That, and what is on its way back.
    turned: Option<Span>,
}

impl Whereabouts {
    /// Reads them from the journal at `place`; `None` if there is none.
    ///
    /// # Errors
    ///
    /// As [`open`](crate::open).
    pub fn read(mut disks: Disks<'_>, place: Span) -> Result<Option<Self>, RelocateError> {
        let disks = &mut disks;
        let Some(journal) = Journal::read_grown(disks, place)? else { return Ok(None) };
        let bad = journal.listed(disks)?.list;
        let mut moves: Vec<Way> = journal.job.moves().iter().map(|one| Way::of(one.from, one.to)).collect();
        let forward = Sequence::forward(&journal.job);
        let undone = journal.mark(disks, Mark::Turned)?.and(journal.mark(disks, Mark::Undone)?);
        let Some(done) = undone else {
            let flight = Flight::of(journal.records(disks, Direction::Forward)?, &forward)?;
            for (way, (span, _)) in moves.iter_mut().zip(forward.sources(flight.durable)) {
                way.moved = Some(span);
            }
            for (way, (span, _)) in moves.iter_mut().zip(forward.sources(flight.done)) {
                way.begun = Some(span);
            }
            return Ok(Some(Self { moves, flying: flight.written(&forward), bad }));
        };
        let back = Sequence::back(&journal.job, done);
        let flight = Flight::of(journal.records(disks, Direction::Back)?, &back)?;
        let sources = forward.sources(done);
        for (way, (span, _)) in moves.iter_mut().zip(&sources) {
            (way.moved, way.begun) = (Some(*span), Some(*span));
        }
        // They go back in the opposite order.
        let turned = |windows: u64| {
            let places = back.sources(windows).into_iter();
            places.map(|(from, to)| Span::new(to, from.len())).zip((0..sources.len()).rev())
        };
        for (span, index) in turned(flight.durable) {
            moves[index].back = span;
        }
        for (span, index) in turned(flight.done) {
            moves[index].turned = span;
        }
        Ok(Some(Self { moves, flying: flight.written(&back), bad }))
    }

    /// Those of a job of which nothing has moved.
    pub fn before(job: &Job) -> Self {
        let moves = job.moves().iter().map(|one| Way::of(one.from, one.to)).collect();
        Self { moves, flying: Vec::new(), bad: Vec::new() }
    }

    /// Where the sector is that was at byte `at` before the moves.
    pub fn of(&self, at: ByteOffset) -> Found {
        let mut at = at;
        for way in &self.moves {
            match way.place(at) {
                Some(Found::At(next)) => at = next,
                Some(either) => return either,
                None => {}
            }
        }
        let sector = Span::new(at, ByteCount::new(SECTOR));
        match sector.is_some_and(|sector| self.flying.iter().any(|span| span.overlaps(sector))) {
            true => Found::Either(at, at),
            false => Found::At(at),
        }
    }

    /// Whether this sector could not be read once, or has the filler of one that could not.
    pub fn is_bad(&self, at: ByteOffset) -> bool {
        let sector = Span::new(at, ByteCount::new(SECTOR));
        let is_in = |span: Option<Span>| span.zip(sector).is_some_and(|(span, sector)| span.overlaps(sector));
        self.bad.iter().any(|bad| is_in(Some(bad.from)) || is_in(Span::new(bad.to, bad.from.len())))
    }
}

impl Way {
    fn of(from: Span, to: ByteOffset) -> Self {
        Self { from, to, moved: None, begun: None, back: None, turned: None }
    }

    /// Where this move has the sector at byte `at`, if it is one of its sectors.
    fn place(&self, at: ByteOffset) -> Option<Found> {
        let sector = Span::new(at, ByteCount::new(SECTOR)).filter(|sector| self.from.contains(*sector))?;
        let to = self.to.checked_add(at.checked_since(self.from.start())?)?;
        let is_in = |span: Option<Span>| span.is_some_and(|span| span.overlaps(sector));
        Some(if is_in(self.turned) {
            if is_in(self.back) { Found::At(at) } else { Found::Either(at, to) }
        } else if is_in(self.begun) {
            if is_in(self.moved) { Found::At(to) } else { Found::Either(at, to) }
        } else {
            Found::At(at)
        })
    }
}
