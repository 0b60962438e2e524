//! Where the data are, according to a journal.
//!
//! Invariants: it only reads. What a crash may have left in two places, or torn, is said to be nowhere.

use straddle_units::{ByteCount, ByteOffset, Span};

use super::{Bad, Disks, Flight, Journal, Mark, Move, Result, SECTOR, Sequence};

/// Where the data of a job are.
#[derive(Clone, Debug, Default)]
pub struct Whereabouts {
    legs: Vec<Leg>,
    /// What the windows in flight write: a crash may have torn it.
    flying: Vec<Span>,
    bad: Vec<Bad>,
}

/// How far a move is, by the old places.
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
