//! The space that a move writes to and no partition has: cleared before the journal is there, and in the end.
//!
//! Invariants: what may be another's is not cleared: data, a journal that is needed, and what the marker has
//! not reserved from the start on.

use crate::relocate::{Disks, forget};
use straddle_units::{ByteCount, ByteOffset, KIB, MIB, Span};

use super::MoveError;
use super::carry::Run;
use super::journals::has_needed;
use super::media::Carrier;
use super::unallocated::clear;
use crate::plan::Slot;

/// What takes longer to clear stays: a later move there needs consent.
const MOST_CLEARED: ByteCount = ByteCount::new(KIB * MIB);

impl Run<'_> {
    /// Refuses data where the journal goes, or clears them if they are given up, with the titles of journals that nothing
    /// needs: what later looks at this space is to find this journal only. What a move that is not over needs stays.
    pub(super) fn clear_place(&mut self) -> Result<(), MoveError> {
        let Some(place) = self.place_on_disk() else { return Ok(()) };
        let realign = &self.payload.realign;
        for old in realign.check_journal_place(self.disk, place)? {
            forget(Disks::one(&mut Carrier(self.disk)), old)?;
        }
        if !realign.wipes || has_needed(self.disk, place) {
            return Ok(());
        }
        clear(self.disk, place).map_err(|source| MoveError::write(place.start(), 0, source))
    }

    /// Removes what the move has written in unallocated space, as far as that can be written, so that a later one finds
    /// it as empty as this one did. The marker has reserved it from the start on.
    pub(super) fn clear_space(&mut self, is_back: bool) {
        let realign = &self.payload.realign;
        let plan = &realign.plan;
        let new = plan.table.partitions.iter().filter(|entry| entry.slot != Slot::Extended);
        let new = new.filter_map(|entry| plan.span(entry)).chain(plan.new_records());
        let taken: Vec<Span> = if is_back { realign.claimed() } else { new.collect() };
        let is_free = |start: ByteOffset, end: ByteOffset| {
            let span = Span::between(start, end);
            span.is_some_and(|span| {
                plan.movable_space().contains(span) && !taken.iter().any(|taken| taken.overlaps(span))
            })
        };
        // A physical sector of which a partition has a part stays: a write of it could be torn.
        let whole = |span: Span| {
            let (start, end) = (realign.blocks.floor(span.start()), realign.blocks.ceil(span.end()));
            let start =
                start.filter(|start| is_free(*start, span.start())).or(realign.blocks.ceil(span.start()))?;
            let end = end.filter(|end| is_free(span.end(), *end)).or(realign.blocks.floor(span.end()))?;
            Span::between(start, end)
        };
        let written = realign.moves.iter().filter_map(|one| one.destination());
        let written = written.flat_map(|span| span.gaps(taken.iter().copied())).filter_map(whole);
        let written = written.filter(|span| span.len() <= MOST_CLEARED);
        for span in written.chain(self.place_on_disk()).collect::<Vec<_>>() {
            let _ = clear(self.disk, span);
        }
    }
}
