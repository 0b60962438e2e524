//! The list of what could not be read.
//!
//! Each block has no entries first, and is written once after that, so that a torn one hides no other. It has
//! a magic, the journal's name, a number of entries, the entries (where, how much, and where it was to go)
//! and a hash.

use straddle_units::{ByteCount, ByteOffset, Span};

use super::record::Reader;
use super::{Disks, Fault, HASH, Job, Journal, NAME, Name, Result, Skip, hash, in_memory};
use crate::relocate::{Bad, normal};

pub(super) const MAGIC: &[u8; 8] = b"relobad1";
/// The list has no more bytes, or two blocks.
const MAX_LIST: u64 = 4 << 20;
pub(super) const HEAD: usize = 8 + NAME + 8;
const ENTRY: usize = 3 * 8;

/// The blocks of the list: one for each window, within limits.
pub(super) fn blocks(job: &Job) -> u64 {
    let most = (MAX_LIST / job.blocks.size().get()).clamp(2, 1024);
    (job.total().get() / job.window.get()).clamp(2, most)
}

/// Whether a sector begins a block of the list of the journal with this name.
pub(super) fn is_of(sector: &[u8], name: Name) -> bool {
    sector.strip_prefix(MAGIC).is_some_and(|rest| rest.starts_with(&name))
}

impl Journal {
    /// The entries of each block of the list; `None` if a crash has torn it, or something has overwritten it.
    fn blocks(&self, disks: &mut Disks<'_>) -> Result<Vec<Option<Vec<Bad>>>> {
        let mut bytes = vec![0; self.block() * in_memory(ByteCount::new(self.layout.list))];
        disks.read(self.device, self.layout.list(0), &mut bytes)?;
        Ok(bytes.chunks(self.block()).map(|block| self.decode(block)).collect())
    }

    pub(crate) fn listed(&self, disks: &mut Disks<'_>) -> Result<Skip> {
        let mut skip = Skip::default();
        for (index, block) in (1..).zip(self.blocks(disks)?) {
            if let Some(bad) = block.filter(|bad| !bad.is_empty()) {
                skip.list.extend(bad);
                skip.next = index;
            }
        }
        skip.list = normal(skip.list);
        Ok(skip)
    }

    /// Whether the list is whole: as blocks are written in order, each is there up to one without entries.
    pub(super) fn is_list_whole(&self, disks: &mut Disks<'_>) -> Result<bool> {
        let mut blocks = self.blocks(disks)?.into_iter();
        Ok(blocks.find(|found| found.as_ref().is_none_or(Vec::is_empty)).is_none_or(|found| found.is_some()))
    }

    pub(super) fn odd_blocks(&self, disks: &mut Disks<'_>) -> Result<Vec<u64>> {
        let blocks = (0..).zip(self.blocks(disks)?);
        Ok(blocks.filter(|(_, block)| block.is_none()).map(|(index, _)| index).collect())
    }

    /// Writes that nothing is listed in `count` blocks from the one with this index on.
    pub(super) fn clear_blocks(&self, disks: &mut Disks<'_>, index: u64, count: u64) -> Result<()> {
        let block = self.padded(&self.encoded(&[]));
        let blocks = block.repeat(in_memory(ByteCount::new(count)));
        disks.write(self.device, self.layout.list(index), &blocks)
    }

    fn encoded(&self, entries: &[Bad]) -> Vec<u8> {
        let mut bytes = MAGIC.to_vec();
        bytes.extend(self.name);
        bytes.extend((entries.len() as u64).to_le_bytes());
        for bad in entries {
            for number in [bad.from.start().get(), bad.from.len().get(), bad.to.get()] {
                bytes.extend(number.to_le_bytes());
            }
        }
        bytes.extend(hash(&bytes));
        bytes
    }

    /// Lists what could not be read, durably. Returns whether there was room.
    pub(crate) fn list(&self, disks: &mut Disks<'_>, skip: &mut Skip, bad: &[Bad]) -> Result<bool> {
        let blocks = bad.chunks(((self.block() - HEAD - HASH) / ENTRY).max(1));
        if skip.next + blocks.len() as u64 > self.layout.list {
            return Ok(false);
        }
        for block in blocks {
            let bytes = self.padded(&self.encoded(block));
            disks.write(self.device, self.layout.list(skip.next), &bytes)?;
            skip.next += 1;
        }
        skip.list = normal(skip.list.iter().chain(bad).copied().collect());
        if !Fault::LateList.is_planted() {
            disks.flush()?;
        }
        Ok(true)
    }

    fn decode(&self, block: &[u8]) -> Option<Vec<Bad>> {
        let mut reader = Reader(block);
        if reader.take() != *MAGIC || reader.take() != self.name {
            return None;
        }
        let count = usize::try_from(reader.number()).ok()?;
        let len = count.checked_mul(ENTRY)?.checked_add(HEAD)?;
        if block.get(len..len.checked_add(HASH)?)? != hash(block.get(..len)?) {
            return None;
        }
        let entry = |_| {
            let (start, len) = (ByteOffset::new(reader.number()), ByteCount::new(reader.number()));
            Some(Bad { from: Span::new(start, len)?, to: ByteOffset::new(reader.number()) })
        };
        (0..count).map(entry).collect()
    }
}
