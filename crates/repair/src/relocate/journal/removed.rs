//! Removing journals.
//!
//! Invariants: the titles go first, durably, so that what is left counts for nothing; and only what is a
//! journal's is overwritten.

use straddle_units::{ByteCount, ByteOffset};

use super::{COPIES, Journal, Mark, Record, in_memory, is_title, list};
use crate::relocate::disk::{Disks, SECTOR};
use crate::relocate::error::RelocateError;
use crate::relocate::fault::{self, Fault};

impl Journal {
    /// Removes the journal: the titles first, durably. What the windows left in the slots stays.
    pub(crate) fn erase(&self, disks: &mut Disks<'_>) -> Result<(), RelocateError> {
        if fault::on(Fault::EraseRecordsFirst) {
            self.clear(disks)?;
            disks.flush()?;
        }
        self.heal_records(disks)?;
        self.erase_titles(disks)?;
        let layout = self.layout;
        let body = self.padded_body(disks)?;
        for at in layout.bodies() {
            let mut found = vec![0; body.len()];
            if disks.read(self.device, at, &mut found).is_ok() && found == body {
                disks.write(self.device, at, &vec![0; body.len()])?;
            }
        }
        let marks = [Mark::Turned, Mark::Undone].into_iter().flat_map(|mark| layout.mark(mark));
        let list = (0..layout.list).map(|index| layout.list(index));
        let records = [0, 1].into_iter().flat_map(|slot| {
            let at = layout.slot(slot).get();
            (0..COPIES).map(move |copy| ByteOffset::new(at + copy * layout.block))
        });
        let blocks: Vec<ByteOffset> = marks.chain(list).chain(records).collect();
        self.erase_blocks(disks, &blocks)
    }

    /// Removes the titles, durably: what is left counts for nothing.
    pub(crate) fn erase_titles(&self, disks: &mut Disks<'_>) -> Result<(), RelocateError> {
        self.erase_blocks(disks, &self.layout.titles())
    }

    /// Removes blocks, durably, as far as they are this journal's: a partition may have been put over it since.
    fn erase_blocks(&self, disks: &mut Disks<'_>, blocks: &[ByteOffset]) -> Result<(), RelocateError> {
        let len = in_memory(ByteCount::new(SECTOR));
        for at in blocks {
            let mut block = self.padded(&[]);
            let is_read = disks.read(self.device, *at, &mut block).is_ok();
            // What cannot be read may be overwritten all the same.
            if !is_read || is_title(&block[..len]) || self.is_own(&block[..len]) {
                // Another program may have written to the rest of the physical sector.
                let end = if is_read { len } else { block.len() };
                block[..end].fill(0);
                disks.write(self.device, *at, &block)?;
            }
        }
        disks.flush()
    }

    /// Whether a sector is a record, a mark or a part of the list of this journal.
    fn is_own(&self, sector: &[u8]) -> bool {
        [Mark::Turned, Mark::Undone].iter().any(|mark| mark.decode(sector, self.name).is_some())
            || Record::decode(sector, self.name).is_some()
            || list::is_of(sector, self.name)
    }
}
