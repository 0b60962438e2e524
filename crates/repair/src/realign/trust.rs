//! Whether a journal may be followed.
//!
//! The law of this module: before the first write, the table on the disk is the one that the journal's state leaves,
//! and the data are where the journal says: a file may be a journal of another run, or an older copy of the right
//! one. Only what the user vouches for is not looked at. As long as the old table counts, the disk may be in use: what
//! the journal would restore is then compared in any case.

use straddle_device::Medium;
use straddle_relocate::{State, Whereabouts, is_latest, slots};

use super::carry::Run;
use super::media::Place;
use super::payload::Table;
use super::{Look, MoveError};
use crate::encode::Step;
use crate::foresee::After;

/// What the user vouches for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Trust {
    /// The file of the journal is a copy, made after the move had stopped.
    pub in_copy: bool,
    /// The journal is the latest one, whatever is where it says that the data are.
    pub over_data: bool,
}

impl Run<'_> {
    /// Checks that the disk has the table that a move in this state leaves, and restores sectors of it that a
    /// power cut or a kill has torn. Otherwise the journal is that of another disk, or of this one at another time,
    /// or another program has written a table: nothing is written then.
    pub(super) fn check_table(&mut self, state: &State) -> Result<(), MoveError> {
        if let Some(torn) = self.torn(state)? {
            self.payload.mend(self.disk, &torn)?;
        }
        if self.fits(self.disk, state)? { Ok(()) } else { Err(self.other_table(state)?) }
    }

    /// Why a table is refused.
    fn other_table(&self, state: &State) -> Result<MoveError, MoveError> {
        Ok(if self.is_needed(state)? { MoveError::OtherTable } else { MoveError::NotNeeded })
    }

    /// What restores the sectors of the table that a power cut or a kill has torn; `None` if it is not a torn table of
    /// the move. It has the marker then.
    pub(super) fn torn(&self, state: &State) -> Result<Option<Vec<Step>>, MoveError> {
        let (disk, payload) = (&*self.disk, &self.payload);
        if self.is_displaced {
            return Ok(None);
        }
        let fits = |steps: &[Step]| self.fits(&After { medium: disk, steps }, state);
        // A journal in a file may be another disk's: what cannot be read is torn for certain, and what is beside a
        // copy of the GPT that the move has left. Neither is a table torn that lists something else than the marker.
        let is_inside = matches!(self.journal, Place::Inside);
        let (is_certain, is_read) = match payload.table(disk) {
            Err(MoveError::Changed(_)) => (is_inside, true),
            Err(MoveError::Read(_)) => (true, false),
            // What no table changes is torn where it shares a physical sector with data.
            Ok(_) if !payload.has_rest(disk) => (false, true),
            _ => return Ok(None),
        };
        let whole = payload.mended(disk);
        if (is_certain || payload.leaves_a_copy(disk, &whole, state)) && fits(&whole)? {
            return Ok(Some(whole));
        }
        if !is_read {
            return Err(self.other_table(state)?);
        }
        match payload.torn_part(disk)? {
            Some(part) if payload.leaves_a_copy(disk, &part, state) && fits(&part)? => Ok(Some(part)),
            _ => Ok(None),
        }
    }

    /// Whether the disk has a table that the move may have left.
    pub(super) fn fits_table(&mut self) -> Result<bool, MoveError> {
        let state = self.state()?;
        self.fits(self.disk, &state)
    }

    fn fits(&self, medium: &dyn Medium, state: &State) -> Result<bool, MoveError> {
        if self.is_displaced {
            return Ok(false);
        }
        let found = match self.payload.table(medium) {
            Err(MoveError::Changed(_)) => return Ok(false),
            found => found?,
        };
        if !self.payload.has_rest(medium) {
            return Ok(false);
        }
        // The marker is durable before anything moves, and counts until all is moved or back.
        Ok(match state {
            State::NotBegun | State::Back => found != Some(Table::New),
            State::Moving { .. } | State::RollingBack => found == Some(Table::Marked),
            State::Moved => found != Some(Table::Old),
        })
    }

    /// Refuses data that have come since the journal was made, where nothing reserves the space: in the way, and in
    /// the journal's space, of which no more than the journal's own was written.
    fn check_besides_journal(&mut self) -> Result<(), MoveError> {
        self.payload.realign.check_besides(self.disk, self.place_on_disk(), Look::Whole)?;
        if self.place_on_disk().is_none() {
            return Ok(());
        }
        for span in self.with_disks(slots)? {
            self.payload.realign.check_journal_place(self.disk, span)?;
        }
        Ok(())
    }

    /// Checks that the journal is the file that was made for this move, and that the data are where it says.
    pub(super) fn check_data(&mut self, state: &State, goes_back: bool) -> Result<(), MoveError> {
        let table = self.payload.table(self.disk)?;
        let is_over = match state {
            // The data are in use again, and nothing is written to them.
            State::Moved => table == Some(Table::New),
            State::Back => table == Some(Table::Old),
            State::NotBegun => table == Some(Table::Old) && goes_back,
            State::Moving { .. } | State::RollingBack => false,
        };
        if is_over {
            return Ok(());
        }
        if !self.trust.in_copy
            && let Place::File(file) = &self.journal
            && let (Some(made), Some(found)) = (self.payload.birth(), file.birth())
            && made != found
        {
            return Err(MoveError::Copied);
        }
        let is_unmarked = *state == State::NotBegun && table == Some(Table::Old);
        if is_unmarked {
            self.check_besides_journal()?;
        }
        if is_unmarked && self.payload.realign.is_wrap() {
            self.payload.realign.check_wrapped(self.disk)?;
        } else if is_unmarked {
            // The disk may have been in use since.
            self.payload.realign.check_contents(self.disk)?;
            if let Some(at) = self.payload.used_since(self.disk)? {
                return Err(MoveError::UsedSince(at));
            }
        }
        if self.trust.over_data {
            return Ok(());
        }
        let places = self.with_disks(Whereabouts::read)?.ok_or(MoveError::Nothing)?;
        if let Some(at) = self.payload.mismatch(self.disk, &places) {
            return Err(if is_unmarked { MoveError::UsedSince(at) } else { MoveError::NotThere(at) });
        }
        match self.with_disks(is_latest)? {
            true => Ok(()),
            false => Err(MoveError::Outdated),
        }
    }
}
