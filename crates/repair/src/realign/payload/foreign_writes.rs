//! What another program has written since the journal was made.
//!
//! Invariants: what cannot be read is not said to have been written.

use straddle_device::{Medium, ReadError, Watched};
use straddle_units::ByteOffset;

use super::{Payload, guards_of};
use crate::realign::guard::Guard;

impl Payload {
    /// Where the disk, which has the old table, holds something else than when the journal was made, in a physical
    /// sector that would be restored from it. An error if that is because something cannot be read now.
    pub(in crate::realign) fn used_since(&self, disk: &dyn Medium) -> Result<Option<ByteOffset>, ReadError> {
        let disk = Watched::new(disk);
        let now = guards_of(&disk, &self.realign, (&self.places, &self.records));
        let then = [&self.guards, &self.boot_guards, &self.new_guards, &self.old_guards];
        let changed = |(then, now): (&Vec<Guard>, &Vec<Guard>)| {
            then.iter().find(|guard| !now.iter().any(|other| guard.is_as(other))).map(Guard::at)
        };
        let found = then.into_iter().zip(&now).find_map(changed).map(ByteOffset::new);
        match disk.take() {
            Some((at, source)) if found.is_some() => Err(ReadError::Io { at, source }),
            _ => Ok(found),
        }
    }
}
