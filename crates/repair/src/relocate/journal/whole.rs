//! What every crash leaves of a journal, how it is repaired, and how it is removed.
//!
//! Invariants: before the journal is needed, each part of it is there: both titles and bodies, a record in each slot,
//! both copies of each mark, and every block of the list. Titles are removed first, durably, and only a journal's
//! bytes.

use straddle_units::ByteOffset;

use super::record::is_of_list;
use super::{
    COPIES, Direction, Disks, Fault, Journal, Kind, Mark, Record, RelocateError, Result, SECTOR_LEN, Title,
    encode_body, is_title, name, overwritten, sealed,
};

impl Journal {
    /// A missing record, mark or block of the list is refused if a title or a body is missing too.
    pub(super) fn check_whole(&self, disks: &mut Disks<'_>) -> Result<()> {
        let mut is_whole = self.is_list_whole(disks)?;
        for slot in [0, 1] {
            is_whole &= self.record(disks, slot)?.is_some();
        }
        for mark in Mark::ALL {
            self.mark(disks, mark)?;
        }
        if is_whole { Ok(()) } else { Err(overwritten()) }
    }

    /// Replaces torn and missing parts, so that the next crash finds both titles and one of the slots.
    pub(crate) fn heal(&self, disks: &mut Disks<'_>) -> Result<()> {
        self.complete(disks)?;
        self.heal_records(disks)
    }

    /// Bodies before titles, durably, and read back.
    pub(super) fn complete(&self, disks: &mut Disks<'_>) -> Result<()> {
        let title = Title::of(&self.body(disks)?).encode();
        if name(self.layout.place, &title) != self.name {
            return Err(RelocateError::damaged("the header of the journal cannot be reconstructed"));
        }
        self.put(disks, self.layout.bodies(), &self.padded_body(disks)?)?;
        self.put(disks, self.layout.titles(), &self.padded(&title))
    }

    fn put(&self, disks: &mut Disks<'_>, places: [ByteOffset; 2], bytes: &[u8]) -> Result<()> {
        let mut missing = places.to_vec();
        missing.retain(|at| !self.has(disks, *at, bytes));
        for at in &missing {
            disks.write(self.device, *at, bytes)?;
        }
        if !missing.is_empty() {
            disks.flush()?;
        }
        missing.into_iter().try_for_each(|at| self.confirm(disks, at, bytes))
    }

    fn has(&self, disks: &mut Disks<'_>, at: ByteOffset, bytes: &[u8]) -> bool {
        let mut found = vec![0; bytes.len()];
        disks.read(self.device, at, &mut found).is_ok() && found == bytes
    }

    fn heal_records(&self, disks: &mut Disks<'_>) -> Result<()> {
        let mut is_whole = true;
        for slot in [0, 1] {
            if self.record(disks, slot)?.is_none() {
                self.start(disks, slot)?;
                is_whole = false;
            }
        }
        for index in self.odd_blocks(disks)? {
            self.clear_blocks(disks, index, 1)?;
            is_whole = false;
        }
        if is_whole { Ok(()) } else { disks.flush() }
    }

    fn padded_body(&self, disks: &Disks<'_>) -> Result<Vec<u8>> {
        let mut body = sealed(&self.body(disks)?, self.name);
        body.resize(usize::try_from(self.layout.body).unwrap_or(usize::MAX), 0);
        Ok(body)
    }

    fn body(&self, disks: &Disks<'_>) -> Result<Vec<u8>> {
        let place = self.layout.place;
        encode_body((place.start().get(), place.len().get()), disks.is_one(), &self.job)
    }

    pub(super) fn clear(&self, disks: &mut Disks<'_>) -> Result<()> {
        for mark in Mark::ALL {
            let block = self.padded(&mark.encode(None, self.name));
            for at in self.layout.mark(mark) {
                disks.write(self.device, at, &block)?;
            }
        }
        self.clear_blocks(disks, 0, self.layout.list)?;
        [0, 1].into_iter().try_for_each(|slot| self.start(disks, slot))
    }

    fn start(&self, disks: &mut Disks<'_>, slot: u64) -> Result<()> {
        let record = Record { direction: Direction::Forward, number: slot, kind: Kind::Start };
        let block = self.padded(&record.encode(self.name));
        let both = block.repeat(usize::try_from(COPIES).unwrap_or(1));
        disks.write(self.device, self.layout.slot(slot), &both)
    }

    /// What the windows left in the slots stays.
    pub(crate) fn erase(&self, disks: &mut Disks<'_>) -> Result<()> {
        if Fault::EraseRecordsFirst.is_planted() {
            self.clear(disks)?;
            disks.flush()?;
        }
        self.heal_records(disks)?;
        self.erase_titles(disks)?;
        let layout = self.layout;
        let body = self.padded_body(disks)?;
        for at in layout.bodies() {
            if self.has(disks, at, &body) {
                disks.write(self.device, at, &vec![0; body.len()])?;
            }
        }
        let marks = Mark::ALL.into_iter().flat_map(|mark| layout.mark(mark));
        let list = (0..layout.list).map(|index| layout.list(index));
        let records = [0, 1].into_iter().flat_map(|slot| layout.records(slot));
        let blocks: Vec<ByteOffset> = marks.chain(list).chain(records).collect();
        self.erase_blocks(disks, &blocks)
    }

    pub(crate) fn erase_titles(&self, disks: &mut Disks<'_>) -> Result<()> {
        self.erase_blocks(disks, &self.layout.titles())
    }

    /// Durably, if they are this journal's: a partition may have been put over it.
    fn erase_blocks(&self, disks: &mut Disks<'_>, blocks: &[ByteOffset]) -> Result<()> {
        for at in blocks {
            let mut block = self.padded(&[]);
            let is_read = disks.read(self.device, *at, &mut block).is_ok();
            // What cannot be read may be overwritten all the same.
            if !is_read || is_title(&block) || self.is_own(&block[..SECTOR_LEN]) {
                // Another program may have written to the rest of the physical sector.
                let end = if is_read { SECTOR_LEN } else { block.len() };
                block[..end].fill(0);
                disks.write(self.device, *at, &block)?;
            }
        }
        disks.flush()
    }

    fn is_own(&self, sector: &[u8]) -> bool {
        Mark::ALL.iter().any(|mark| mark.decode(sector, self.name).is_some())
            || Record::decode(sector, self.name).is_some()
            || is_of_list(sector, self.name)
    }
}
