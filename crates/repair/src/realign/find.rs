//! Finding the journal of an unfinished move: by the marker in the table, by its own signature, or in a file.

use crate::relocate::{Verify, inspect};
use straddle_device::{MemoryMedium, ReadError};
use straddle_layout::{Problem, Stack, read_stack};
use straddle_units::{ByteCount, ByteOffset, Span};

use super::carry::{Run, with_disks};
use super::journals::{anywhere, is_in_use};
use super::payload::Payload;
use super::{JournalFile, JournalPlace, MoveError, NoJournal};
use crate::target::{Disk, Target};

/// Finds the journal on the disk: where the marker is, or, if there is no table or `is_whole`, anywhere.
fn journal_of(disk: &dyn Disk, stack: &Stack, is_whole: bool) -> Result<Span, MoveError> {
    if let Some(marker) = straddle_layout::marker(disk, stack)? {
        return Ok(marker.span);
    }
    if is_in_use(stack) && !is_whole {
        return Err(MoveError::Nothing);
    }
    let none = if is_whole { MoveError::NoJournal(NoJournal::Anywhere) } else { MoveError::Nothing };
    let place = anywhere(disk, stack).ok_or(none)?;
    // A sector that cannot be read may hold the marker.
    let unread = stack.problems.iter().find_map(|problem| match problem {
        Problem::Unreadable { at, why, .. } => Some((*at, why)),
        _ => None,
    });
    match unread {
        Some((at, why)) if is_in_use(stack) => {
            Err(ReadError::Io { at, source: std::io::Error::other(why.clone()) }.into())
        }
        _ => Ok(place),
    }
}

/// Returns a place that was counted in 512-byte sectors as if it were in 4096-byte ones.
pub(super) fn in_large_sectors(place: Span) -> Option<Span> {
    let start = ByteCount::new(place.start().get()).checked_mul(8)?;
    Span::new(ByteOffset::new(start.get()), place.len().checked_mul(8)?)
}

impl<'a> Run<'a> {
    /// Finds the unfinished move of a disk: by the marker in its table, or in the file that holds its journal.
    ///
    /// # Errors
    ///
    /// [`MoveError::Nothing`] if there is none; and if the journal is not this disk's. Nothing was written.
    pub fn find(target: &'a mut Target<'_>, file: Option<JournalFile>) -> Result<Self, MoveError> {
        Self::found(target, file, false)
    }

    /// The same; if another program has written the table, all of the disk is searched for the journal.
    ///
    /// # Errors
    ///
    /// As [`find`](Self::find); [`NoJournal::Anywhere`] if there is none.
    pub fn search(target: &'a mut Target<'_>, file: Option<JournalFile>) -> Result<Self, MoveError> {
        Self::found(target, file, true)
    }

    fn found(
        target: &'a mut Target<'_>,
        file: Option<JournalFile>,
        is_whole: bool,
    ) -> Result<Self, MoveError> {
        let disk: &mut dyn Disk = target;
        // A disk whose first sector cannot be read has no table either.
        let blank = MemoryMedium::sparse(Vec::new(), disk.len());
        let (stack, unread) = match read_stack(disk, disk.identity().sector, None) {
            Ok(stack) => (stack, None),
            Err(error) => (read_stack(&blank, disk.identity().sector, None)?, Some(error)),
        };
        let (stack, has_no_table) = (&stack, !is_in_use(&stack));
        let (mut journal, mut place) = match file {
            Some(file) => {
                let place = Span::first(file.size);
                (JournalPlace::File(file), place)
            }
            None => match (journal_of(disk, stack, is_whole), unread) {
                (Err(MoveError::Nothing), Some(error)) => return Err(error.into()),
                (place, _) => (JournalPlace::Inside, place?),
            },
        };
        let is_inside = matches!(journal, JournalPlace::Inside);
        if is_inside && crate::copy::is_unfinished(disk)? {
            return Err(MoveError::NoJournal(NoJournal::Copy));
        }
        let mut found = with_disks(disk, &mut journal, |disks| inspect(disks, place))?;
        if found.is_none() && is_inside && disk.identity().sector.is_none() {
            // An MBR does not say in which sectors it counts, and an image has none of its own.
            place = in_large_sectors(place)
                .filter(|place| Span::first(disk.len()).contains(*place))
                .unwrap_or(place);
            found = with_disks(disk, &mut journal, |disks| inspect(disks, place))?;
        }
        let has_begun = || has_no_table || !matches!(straddle_layout::marker(disk, stack), Ok(None));
        let (job, _) = found.ok_or_else(|| {
            MoveError::NoJournal(match is_inside {
                true => NoJournal::Elsewhere,
                false if has_begun() => NoJournal::Begun,
                false => NoJournal::NotBegun,
            })
        })?;
        let payload = Payload::decode(&job.payload)?;
        let serial = &payload.realign.plan.disk.serial;
        if *serial != disk.identity().serial {
            return Err(MoveError::Foreign("its serial number differs".to_owned()));
        }
        if job != payload.realign.job(job.id, job.payload.clone())? {
            return Err(MoveError::Foreign("its moves are not those of its plan".to_owned()));
        }
        Ok(Self {
            disk,
            journal,
            place,
            payload,
            is_new: false,
            has_no_table,
            insists: false,
            owns_space: !has_no_table,
            verify: Verify::Read,
            skips_bad: false,
        })
    }
}
