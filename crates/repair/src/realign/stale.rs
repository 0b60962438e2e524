//! Journals that are left over where a new one is to begin.
//!
//! The law of this module: the titles of a journal go only if no command follows it.

use straddle_relocate::{
    Disks, Recovered, RelocateError, State, Unneeded, Whereabouts, forget, inspect, inspect_grown,
    named_at_ends, open,
};
use straddle_units::Span;

use super::MoveError;
use super::carry::Run;
use super::media::{Carrier, Place};
use super::payload::Payload;
use super::sample::Proof;
use super::{debris, displaced};

impl Run<'_> {
    /// Removes the titles of a journal that does not count, as the table has no marker: of a move that was cut off
    /// before it began, or after it was complete, or of data that are not there any more. A partition may lie over
    /// part of it, where nothing is written.
    pub(super) fn forget_stale(&mut self) -> Result<(), MoveError> {
        self.forget_elsewhere();
        let free = match &self.journal {
            Place::File(file) => vec![Span::first(file.size)],
            Place::Inside => self.payload.realign.unallocated(),
        };
        let block = self.payload.realign.blocks.size();
        // Those of other plans may end there.
        let ends = [self.place.end()];
        // One that is no longer whole, since a partition has taken its other end, still has a title here.
        let others = self.with_disks(|disks, _| Ok(named_at_ends(disks, &ends)))?;
        for place in std::iter::once(self.place).chain(others) {
            if let Some(why) = self.unneeded(place)? {
                self.with_disks(|disks, _| forget(disks, place, (why, block), &free))?;
            }
        }
        Ok(())
    }

    /// Refuses data where the journal goes, and clears debris there: what later looks at this space is to find this journal
    /// only.
    pub(super) fn clear_place(&mut self) -> Result<(), MoveError> {
        let Some(place) = self.place_on_disk() else { return Ok(()) };
        let realign = &self.payload.realign;
        realign.check_journal_place(self.disk, place)?;
        if realign.wipes {
            return Ok(());
        }
        let cleared = debris::clear(self.disk, place, realign.plan.block());
        cleared.map_err(|source| MoveError::Write { at: place.start(), source })
    }

    /// The same wherever else on the disk journals end as a rule, of moves that are over according to the table. What
    /// cannot be read or removed stays: it counts for nothing already.
    fn forget_elsewhere(&mut self) {
        let (disk, block) = (&*self.disk, self.payload.realign.blocks.size());
        let Ok(stack) = straddle_layout::read_stack(disk, Some(self.payload.realign.plan.block()), None)
        else {
            return;
        };
        let (ends, free) = (displaced::ends(disk.len(), &stack), self.payload.realign.unallocated());
        let mut carrier = Carrier { disk: self.disk, journal: None };
        for place in named_at_ends(Disks::one(&mut carrier), &ends) {
            let Ok(Some((job, state))) = inspect(Disks::one(&mut carrier), place) else { continue };
            let is_over = Payload::decode(job.payload())
                .is_ok_and(|payload| displaced::is_over(&payload, state, &stack));
            if is_over {
                let _ = forget(Disks::one(&mut carrier), place, (Unneeded::Over, block), &free);
            }
        }
    }

    /// Why no command follows the journal at `place`; `None` if there is none, or one of them does.
    fn unneeded(&mut self, place: Span) -> Result<Option<Unneeded>, MoveError> {
        let found = match self.with_disks(|disks, _| inspect_grown(disks, place)) {
            Err(MoveError::Moves(RelocateError::Foreign(_) | RelocateError::OtherSize { .. })) => None,
            Err(MoveError::Moves(RelocateError::Damaged(_))) => return Ok(Some(Unneeded::Over)),
            found => found?,
        };
        let Some((job, state)) = found else { return Ok(None) };
        if job.size() != self.disk.len() {
            // Of a disk that has grown since, what has moved is not compared.
            let is_over = match state {
                State::NotBegun | State::Back => true,
                State::Moved => Payload::decode(job.payload())?.realign.is_listed(self.disk)?,
                State::Moving { .. } | State::RollingBack => false,
            };
            return Ok(is_over.then_some(Unneeded::Over));
        }
        let payload = Payload::decode(job.payload()).ok();
        let is_headless = payload.as_ref().is_some_and(|payload| payload.is_headless(self.disk));
        if state == State::NotBegun && !is_headless {
            return Ok(Some(Unneeded::Over));
        }
        if state == State::RollingBack && !self.has_moved(place)? {
            return Ok(Some(Unneeded::CallerCompared));
        }
        let Some(payload) = payload else { return Ok(None) };
        let places = self.with_disks(|disks, _| Whereabouts::read(disks, place))?;
        let Some(places) = places else { return Ok(None) };
        let stack = straddle_layout::read_stack(self.disk, Some(self.payload.realign.plan.block()), None)?;
        let on_disk = matches!(self.journal, Place::Inside).then_some(place);
        let need = (on_disk, displaced::Need::Likely);
        let is_unfinished = displaced::is_unfinished(self.disk, &payload, state, need, &stack);
        let is_replaced = !is_unfinished || !payload.is_borne_out(self.disk, (&places, Proof::Most));
        Ok(is_replaced.then_some(Unneeded::CallerCompared))
    }

    fn has_moved(&mut self, place: Span) -> Result<bool, MoveError> {
        self.with_disks(|disks, _| match open(disks, place)? {
            Some(Recovered::Turned(mut held)) => held.has_moved(),
            _ => Ok(true),
        })
    }
}
