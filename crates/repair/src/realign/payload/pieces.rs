//! Writing a table piece by piece.
//!
//! Invariants: what was written before [`Pieces::settle`] is durable after it, and was read back.

use straddle_units::{ByteCount, ByteOffset, Span};

use crate::realign::MoveError;
use crate::target::Disk;

/// Pieces of a table that are written, and not read back yet.
pub(super) struct Pieces<'a> {
    disk: &'a mut dyn Disk,
    written: Vec<(ByteOffset, &'a [u8])>,
}

impl<'a> Pieces<'a> {
    pub(super) fn of(disk: &'a mut dyn Disk) -> Self {
        Self { disk, written: Vec::new() }
    }

    /// Writes bytes that are not there yet.
    pub(super) fn write(&mut self, at: u64, bytes: &'a [u8]) -> Result<(), MoveError> {
        let at = ByteOffset::new(at);
        let mut found = vec![0; bytes.len()];
        self.disk.read_at(at, &mut found)?;
        if found != bytes {
            self.disk.write_at(at, bytes).map_err(|source| MoveError::write(at, bytes.len(), source))?;
        }
        self.written.push((at, bytes));
        Ok(())
    }

    /// Makes what was written durable, and reads it back from the medium.
    pub(super) fn settle(&mut self) -> Result<(), MoveError> {
        if self.written.is_empty() {
            return Ok(());
        }
        self.disk.flush().map_err(MoveError::flush)?;
        for (at, bytes) in self.written.drain(..) {
            Span::new(at, ByteCount::new(bytes.len() as u64))
                .into_iter()
                .for_each(|span| self.disk.drop_cache(span));
            let mut found = vec![0; bytes.len()];
            self.disk.read_at(at, &mut found)?;
            if found != bytes {
                return Err(MoveError::differs(at, ByteCount::new(bytes.len() as u64)));
            }
        }
        Ok(())
    }
}
