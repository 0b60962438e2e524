//! What a run writes in the journal's space, so that no more than that has to be cleared in the end.
//!
//! The law of this module: what it does not know of counts as written.

use straddle_units::Span;

/// Where more parts are written it is not kept any more: a journal writes records, and copies behind them.
const MOST: usize = 64;

/// What a run has written in a place, as far as that is known.
#[derive(Debug)]
pub(super) struct Footprint(Option<Vec<Span>>);

impl Footprint {
    /// That of a run that begins with an empty journal.
    pub(super) fn none() -> Self {
        Self(Some(Vec::new()))
    }

    /// That of a run that goes on where another one stopped.
    pub(super) fn unknown() -> Self {
        Self(None)
    }

    /// `span` is about to be written.
    pub(super) fn add(&mut self, span: Span) {
        let Some(written) = &mut self.0 else { return };
        if written.iter().any(|known| known.contains(span)) {
            return;
        }
        written.retain(|known| !span.contains(*known));
        written.push(span);
        if written.len() > MOST {
            self.0 = None;
        }
    }

    /// The parts of `place` that may have been written.
    pub(super) fn within(&self, place: Span) -> Vec<Span> {
        match &self.0 {
            Some(written) => place.gaps(place.gaps(written.iter().copied())),
            None => vec![place],
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use straddle_units::{ByteCount, ByteOffset};

    use super::*;

    fn span(start: u64, len: u64) -> Span {
        Span::new(ByteOffset::new(start), ByteCount::new(len)).unwrap()
    }

    #[test]
    fn what_was_written_is_cleared_and_everything_if_that_is_unknown() {
        let place = span(100, 1000);
        assert_eq!(Footprint::unknown().within(place), [place]);
        let mut footprint = Footprint::none();
        assert_eq!(footprint.within(place), []);
        for (start, len) in [(90, 20), (500, 10), (505, 20), (500, 5), (1090, 50)] {
            footprint.add(span(start, len));
        }
        assert_eq!(footprint.within(place), [span(100, 10), span(500, 25), span(1090, 10)]);
        for at in 0..200 {
            footprint.add(span(100 + 3 * at, 1));
        }
        assert_eq!(footprint.within(place), [place]);
    }
}
