//! An existing backup: how many of its steps the disk already holds.

use straddle_device::Medium;
use straddle_units::ByteOffset;

use super::ApplyError;
use super::backup::{Backup, UNIT};
use super::undo::contradicts;
use crate::encode::Step;
use crate::target::Target;

/// How much of what a backup's steps write is on the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// The disk still has its previous contents.
    Nothing,
    /// Some of it; both counts are of bytes that the steps change.
    Part {
        /// Changed bytes that are already written.
        written: usize,
        /// All bytes that the steps change.
        of: usize,
    },
    /// Everything.
    Whole,
}

impl Backup {
    /// Returns how many of the steps are on `target`. Refuses another disk, and one that has been changed
    /// otherwise, as [`undo`](Self::undo) does.
    pub fn progress(&self, target: &Target<'_>) -> Result<Progress, ApplyError> {
        self.0.undoing(target, target.identity().serial.as_deref())?;
        let (mut written, mut of) = (0, 0);
        for step in self.0.steps().ok_or_else(contradicts)? {
            let Step::Write { at, old, new, .. } = step else { continue };
            let mut found = vec![0; old.len()];
            target.read_at(ByteOffset::new(*at), &mut found)?;
            for (now, (old, new)) in found.chunks(UNIT).zip(old.chunks(UNIT).zip(new.chunks(UNIT))) {
                if old != new {
                    of += now.len();
                    written += if now == new { now.len() } else { 0 };
                }
            }
        }
        Ok(match written {
            0 => Progress::Nothing,
            written if written == of => Progress::Whole,
            written => Progress::Part { written, of },
        })
    }
}
