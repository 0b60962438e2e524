//! What every crash leaves of a journal, and what is repaired of it.
//!
//! Invariants: before anything is done that the journal is needed for, each part of it is there: both
//! titles and bodies, a record in each slot, both copies of each mark, and every block of the list.

use straddle_units::ByteOffset;

use super::{Body, COPIES, Direction, Journal, Kind, Mark, OVERWRITTEN, Record, Title, hash, name, part};
use crate::relocate::disk::Disks;
use crate::relocate::error::RelocateError;

impl Journal {
    /// Refuses a journal of which a record, a mark or a block of the list is missing. One of its titles or bodies is.
    pub(super) fn check_whole(&self, disks: &mut Disks<'_>) -> Result<(), RelocateError> {
        let mut is_whole = self.is_list_whole(disks)?;
        for slot in [0, 1] {
            is_whole &= self.record(disks, slot)?.is_some();
        }
        for mark in [Mark::Turned, Mark::Undone] {
            self.mark(disks, mark)?;
        }
        if is_whole { Ok(()) } else { Err(RelocateError::Damaged(OVERWRITTEN.to_owned())) }
    }

    /// Replaces, durably, what a crash has torn while it was written, or what else is missing, before anything that
    /// the journal is needed for: so the next crash finds both titles, and leaves something in one of the slots.
    pub(crate) fn heal(&self, disks: &mut Disks<'_>) -> Result<(), RelocateError> {
        self.complete(disks)?;
        self.heal_records(disks)
    }

    /// Writes both bodies and then both titles, durably, where they are not there yet, and reads them back.
    pub(super) fn complete(&self, disks: &mut Disks<'_>) -> Result<(), RelocateError> {
        let body = self.body(disks)?;
        let title = Title { body: body.len() as u64, hash: hash(&body) }.encode();
        if name(self.layout.place, &title) != self.name {
            return Err(RelocateError::Damaged("its header cannot be repeated".to_owned()));
        }
        self.put(disks, self.layout.bodies(), &self.padded_body(disks)?)?;
        self.put(disks, self.layout.titles(), &self.padded(&title))
    }

    /// Writes the bytes, durably, to each of these places that does not have them.
    fn put(&self, disks: &mut Disks<'_>, places: [ByteOffset; 2], bytes: &[u8]) -> Result<(), RelocateError> {
        let mut missing = Vec::new();
        for at in places {
            let mut found = vec![0; bytes.len()];
            if disks.read(self.device, at, &mut found).is_err() || found != bytes {
                missing.push(at);
            }
        }
        for at in &missing {
            disks.write(self.device, *at, bytes)?;
        }
        if !missing.is_empty() {
            disks.flush()?;
        }
        missing.into_iter().try_for_each(|at| self.confirm(disks, at, bytes))
    }

    /// Replaces, durably, records and blocks of the list that a crash has torn.
    pub(super) fn heal_records(&self, disks: &mut Disks<'_>) -> Result<(), RelocateError> {
        let mut is_whole = true;
        for slot in [0, 1] {
            if self.record(disks, slot)?.is_none() {
                self.start(disks, slot)?;
                is_whole = false;
            }
        }
        for index in self.odd_blocks(disks)? {
            self.clear_block(disks, index)?;
            is_whole = false;
        }
        if is_whole { Ok(()) } else { disks.flush() }
    }

    /// The body, in the sectors of its blocks.
    pub(super) fn padded_body(&self, disks: &Disks<'_>) -> Result<Vec<u8>, RelocateError> {
        let mut body = part::sealed(&self.body(disks)?, self.name);
        body.resize(usize::try_from(self.layout.body).unwrap_or(usize::MAX), 0);
        Ok(body)
    }

    fn body(&self, disks: &Disks<'_>) -> Result<Vec<u8>, RelocateError> {
        let (start, len) = (self.layout.place.start().get(), self.layout.place.len().get());
        Body { start, len, is_inside: disks.is_one(), job: self.job.clone() }.encode()
    }

    /// Writes that nothing is recorded, marked or listed.
    pub(super) fn clear(&self, disks: &mut Disks<'_>) -> Result<(), RelocateError> {
        for mark in [Mark::Turned, Mark::Undone] {
            let block = self.padded(&mark.encode(None, self.name));
            for at in self.layout.mark(mark) {
                disks.write(self.device, at, &block)?;
            }
        }
        self.clear_list(disks)?;
        [0, 1].into_iter().try_for_each(|slot| self.start(disks, slot))
    }

    /// Writes to a slot that it has no record.
    fn start(&self, disks: &mut Disks<'_>, slot: u64) -> Result<(), RelocateError> {
        let record = Record { direction: Direction::Forward, number: slot, kind: Kind::Start };
        let block = self.padded(&record.encode(self.name));
        let both = block.repeat(usize::try_from(COPIES).unwrap_or(1));
        disks.write(self.device, self.layout.slot(slot), &both)
    }
}
