//! A backup that is there already: how far what it belongs to has come.

use straddle_units::ByteOffset;

use super::ApplyError;
use super::backup::{Backup, UNIT};
use crate::disk::Disk;
use crate::encode::Step;

/// How much of what a backup's steps write is on a disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// The disk holds what it held before.
    Nothing,
    /// A part of it, in bytes that differ from what was there.
    Part {
        /// Those that are written.
        written: usize,
        /// All of them.
        of: usize,
    },
    /// Everything.
    Whole,
}

impl Backup {
    /// How far the steps have come on `disk`. Where it is another one, or somebody else has changed it, as in
    /// [`undo`](Self::undo).
    pub fn progress(&self, disk: &dyn Disk, serial: Option<&str>) -> Result<Progress, ApplyError> {
        self.0.undoing(disk, serial)?;
        let contradicts = || ApplyError::OtherDisk("the backup contradicts itself".to_owned());
        let (mut written, mut of) = (0, 0);
        for step in self.0.steps().ok_or_else(contradicts)? {
            let Step::Write { at, old, new, .. } = step else { continue };
            let mut found = vec![0; old.len()];
            disk.read_at(ByteOffset::new(at), &mut found)?;
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
