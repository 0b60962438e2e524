//! Undo: from a stored backup to steps that may be written.
//!
//! Invariants: only bytes from a backup's file are restored, only to the disk that it names, and only if every sector
//! holds these bytes or those written over them, and the rest of the table is unchanged. A table that was saved when
//! the marker of a move was restored is written only while that marker is there: afterwards it lists what has moved.

use straddle_device::Medium;
use straddle_layout::format::gpt::MAX_ARRAY_BYTES;
use straddle_layout::{Partition, Unclaimed};
use straddle_units::{ByteCount, ByteOffset, Span};

use super::backup::{Backup, BackupFile, Beside, Subject, UNIT, WATCHED, Watched, contradicts, sum_without};
use super::stages::refuse_unfinished;
use super::{ApplyError, BackedUp, check_kernel};
use crate::encode::{Step, writes};
use crate::fingerprint::bytes_at;
use crate::foresee::After;
use crate::realign::refer::used;
use crate::target::Target;

/// What an undo does with data written since to partitions that the plan made or grew.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LaterWrites {
    /// Refuse the undo: the data would be lost with the partitions.
    Refuse,
    /// Undo anyway: the data is lost with the partitions.
    Discard,
}

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
    /// Checks the backup against `target`. Refuses a disk that holds neither the previous contents nor what
    /// was written over them: another program has changed it.
    pub fn undo<'a>(
        &self,
        target: &'a mut Target<'_>,
        later: LaterWrites,
    ) -> Result<BackedUp<'a>, ApplyError> {
        let stack = straddle_layout::read_stack(target, target.identity().sector, None)?;
        if self.0.subject == Subject::Table {
            refuse_unfinished(target, &stack)?;
        }
        let steps = self.0.undoing(target, target.identity().serial.as_deref())?;
        if self.0.subject == Subject::Marker {
            self.0.check_marked(target)?;
        }
        if let Some(path) = self.elsewhere(target) {
            return Err(ApplyError::Elsewhere { path: path.to_owned() });
        }
        if later == LaterWrites::Refuse {
            self.0.check_unwritten(target)?;
            check_outgrown(target, &steps)?;
        }
        check_kernel(target)?;
        Ok(BackedUp { disk: target, plan: None, steps })
    }

    /// Returns how many of the steps are on `target`. Refuses the same disks as [`undo`](Self::undo).
    pub fn progress(&self, target: &Target<'_>) -> Result<Progress, ApplyError> {
        self.0.undoing(target, target.identity().serial.as_deref())?;
        let (mut written, mut of) = (0, 0);
        for (at, old, new, _) in writes(self.0.steps()?) {
            let found = bytes_at(target, ByteOffset::new(at), old.len())?;
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

    /// Returns the steps of an undo, for inspection, from a backup whose checksum is not checked.
    pub fn preview(json: &[u8], disk: &dyn Medium) -> Option<Vec<Step>> {
        let backup: BackupFile = serde_json::from_slice(json).ok()?;
        backup.undoing(disk, None).ok()
    }
}

/// The file system may have been enlarged since, with data in the gained space that is not watched.
fn check_outgrown(target: &Target<'_>, undoing: &[Step]) -> Result<(), ApplyError> {
    let stack = straddle_layout::read_all(target, target.identity().sector, None)?;
    let after = After { medium: target, steps: undoing };
    let restored = straddle_layout::read_stack(&after, target.identity().sector, None)?;
    for present in stack.partitions.iter().filter(|partition| partition.layer.is_some()) {
        let is_it =
            |former: &&Partition| former.role == present.role && former.span.start() == present.span.start();
        let Some(former) = restored.partitions.iter().find(is_it) else { continue };
        // What its contents do not account for was there before.
        let used = used(&Partition { unclaimed: Unclaimed::Nothing, ..present.clone() }, stack.block);
        if former.span.len() < present.span.len() && former.span.len() < used {
            let (partition, restored) = (present.number, former.span.len());
            let is_recorded = present.layer.as_ref().is_some_and(|layer| layer.recorded_end().is_some());
            let used = Some(used).filter(|_| is_recorded);
            return Err(ApplyError::Outgrown { partition, used, restored });
        }
    }
    Ok(())
}

impl BackupFile {
    fn check_unwritten(&self, disk: &dyn Medium) -> Result<(), ApplyError> {
        let steps = self.steps()?;
        for Watched { partition, at, sum } in &self.watched {
            self.check_span(*at, WATCHED.0)?;
            if sum_without(disk, *at, None, steps)? != *sum {
                let (start, size) = (at.start().get(), at.len().get());
                return Err(ApplyError::WrittenSince { partition: *partition, start, size });
            }
        }
        Ok(())
    }

    /// Refuses a disk whose move is over. Part of the steps may be undone already.
    fn check_marked(&self, target: &Target<'_>) -> Result<(), ApplyError> {
        let marked = After { medium: target, steps: self.steps()? };
        let stack = straddle_layout::read_stack(&marked, target.identity().sector, None)?;
        if straddle_layout::marker(&marked, &stack)?.is_some() {
            return Ok(());
        }
        let why = "the backup belongs to a move that has since ended, so the partitions are no longer where \
                   the saved table lists them";
        Err(ApplyError::OtherDisk(why.to_owned()))
    }

    fn check_span(&self, span: Span, largest: ByteCount) -> Result<(), ApplyError> {
        let is_possible = span.len() <= largest && span.end().get() <= self.size;
        is_possible.then_some(()).ok_or_else(contradicts)
    }

    fn check_beside(&self, disk: &dyn Medium, steps: &[Step]) -> Result<(), ApplyError> {
        for Beside { structure, at, sum } in &self.table {
            self.check_span(*at, ByteCount::new(MAX_ARRAY_BYTES))?;
            if sum_without(disk, *at, Some(*structure), steps)? != *sum {
                let (start, what) = (at.start(), structure.name());
                return Err(ApplyError::OtherDisk(format!(
                    "byte {start} ({what}) has changed since straddle wrote it, so the table was changed or \
                     this is another disk"
                )));
            }
        }
        Ok(())
    }

    /// The steps that restore `disk`, in reverse order. Refuses a disk that holds neither the previous
    /// contents nor what was written over them.
    fn undoing(&self, disk: &dyn Medium, serial: Option<&str>) -> Result<Vec<Step>, ApplyError> {
        let other = |why: String| ApplyError::OtherDisk(why);
        if disk.len().get() != self.size || self.serial.as_deref() != serial {
            return Err(other(format!("the backup is of another disk ({} bytes)", self.size)));
        }
        let steps = self.steps()?;
        let mut undoing = Vec::new();
        for step in steps.iter().rev() {
            let Step::Write { at, old, new, what } = step else {
                undoing.push(Step::Flush);
                continue;
            };
            let found = bytes_at(disk, ByteOffset::new(*at), old.len())?;
            let mut units = found.chunks(UNIT).zip(old.chunks(UNIT).zip(new.chunks(UNIT)));
            if let Some(index) = units.position(|(now, (old, new))| now != old && now != new) {
                let byte = at.saturating_add((index * UNIT) as u64);
                return Err(other(format!(
                    "byte {byte} ({what}) matches neither the backup nor the data that was written, so it \
                     was changed later"
                )));
            }
            undoing.push(Step::Write { at: *at, old: found, new: old.clone(), what: what.clone() });
        }
        self.check_beside(disk, steps)?;
        undoing.push(Step::Flush);
        Ok(undoing)
    }
}
