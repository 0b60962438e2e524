//! Finding the journal of an unfinished move: by the marker in the table, by its own signature, or in a file.
//!
//! The law of this module: it only reads.

use straddle_device::ReadError;
use straddle_layout::{Problem, TableKind};
use straddle_relocate::{Disks, State, Verify, inspect, search};
use straddle_units::{ByteCount, ByteOffset, Span};

use super::carry::{Run, with_disks};
use super::footprint::Footprint;
use super::media::Place;
use super::payload::Payload;
use super::payload::restore::BootCode;
use super::sample::Proof;
use super::survey::Reading;
use super::trust::Trust;
use super::{FoundJournal, MoveError, displaced};
use crate::target::{Disk, Target};

/// Where a journal is looked for, and what the disk holds in place of the marker.
struct Found {
    place: Span,
    /// A table that other programs use.
    is_displaced: bool,
    /// No table.
    is_unmarked: bool,
    /// What fills the disk.
    has_content: bool,
}

/// What the start of a disk says of a move whose journal is in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sign {
    /// The marker of a move.
    Marker,
    /// A table without a marker: the old one, the new one, or another program's.
    Table,
    /// No table.
    Nothing,
}

impl Sign {
    fn of(disk: &dyn Disk) -> Self {
        let Ok(stack) = straddle_layout::read_stack(disk, disk.identity().sector, None) else {
            return Self::Nothing;
        };
        match straddle_layout::marker(disk, &stack) {
            Ok(Some(_)) => Self::Marker,
            _ if displaced::has_table(&stack) => Self::Table,
            _ => Self::Nothing,
        }
    }
}

/// Finds the journal on the disk: where the marker is, or where journals end as a rule. If there is no table, a
/// power cut may have torn it: then, and if `is_whole`, all of the disk is searched.
fn journal_of(disk: &mut dyn Disk, is_whole: bool) -> Result<Found, MoveError> {
    let proof = if is_whole { Proof::Exact } else { Proof::Whole };
    let of = |place, is_displaced| Found { place, is_displaced, is_unmarked: false, has_content: false };
    let stack = match straddle_layout::read_stack(disk, disk.identity().sector, None) {
        Ok(stack) => stack,
        Err(error) => {
            return match anywhere(disk, proof) {
                Err(MoveError::Nothing) => Err(error.into()),
                found => found.map(|place| Found { is_unmarked: true, ..of(place, false) }),
            };
        }
    };
    let has_content = matches!(stack.kind, TableKind::Content(_));
    if let Some(marker) = straddle_layout::marker(disk, &stack)? {
        return Ok(Found { has_content, ..of(marker.span, false) });
    }
    let has_table = displaced::has_table(&stack);
    let found = match has_table {
        true => displaced::find(disk, &stack, is_whole).ok_or(MoveError::Nothing),
        false => anywhere(disk, proof),
    };
    let place = found?;
    // A sector that cannot be read may hold the marker.
    let unread = stack.problems.iter().find_map(|problem| match problem {
        Problem::Unreadable { at, why, .. } => Some((*at, why)),
        _ => None,
    });
    match unread {
        Some((at, why)) if has_table => {
            Err(ReadError::Io { at, source: std::io::Error::other(why.clone()) }.into())
        }
        _ => Ok(Found { has_content, is_unmarked: !has_table, ..of(place, has_table) }),
    }
}

/// Searches all of a disk without a table: for a journal of data that are on their way, or else for another one. The
/// data must be where it says: another one may be left over from an earlier move.
///
/// A power cut tears a table only while nothing has moved, or all: in between it is not written. So a journal of
/// data on their way counts only if the user asks for it: other data may be in their place by now.
///
/// # Errors
///
/// [`MoveError::LeftOver`] if there are data on their way, but not where a journal says; otherwise
/// [`MoveError::Nothing`].
fn anywhere(disk: &dyn Disk, proof: Proof) -> Result<Span, MoveError> {
    let (mut other, mut is_left_over) = (None, false);
    let is_moving = |place: Span| {
        let found = inspect(Disks::one(&mut Reading(disk)), place);
        let Ok(Some((job, state))) = found else { return false };
        let is_on_its_way = matches!(state, State::Moving { .. } | State::RollingBack);
        if is_on_its_way && proof == Proof::Whole {
            return false;
        }
        let payload = Payload::decode(job.payload());
        if !payload.is_ok_and(|payload| displaced::is_own(disk, &payload, (place, proof))) {
            is_left_over |= is_on_its_way;
            return false;
        }
        other = other.or(Some(place));
        is_on_its_way
    };
    let moving = search(Disks::one(&mut Reading(disk)), is_moving);
    let none = if is_left_over { MoveError::LeftOver } else { MoveError::Nothing };
    moving.or(other).ok_or(none)
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
    pub fn find(target: &'a mut Target<'_>, file: Option<FoundJournal>) -> Result<Self, MoveError> {
        Self::found(target, file, false)
    }

    /// The same; if another program has written the table, all of the disk is searched for the journal.
    ///
    /// # Errors
    ///
    /// As [`find`](Self::find); [`MoveError::NothingAnywhere`] if there is none.
    pub fn search(target: &'a mut Target<'_>, file: Option<FoundJournal>) -> Result<Self, MoveError> {
        Self::found(target, file, true).map_err(|error| match error {
            MoveError::Nothing => MoveError::NothingAnywhere,
            error => error,
        })
    }

    fn found(
        target: &'a mut Target<'_>,
        file: Option<FoundJournal>,
        is_whole: bool,
    ) -> Result<Self, MoveError> {
        let disk: &mut dyn Disk = target;
        let (journal, Found { place, is_displaced, is_unmarked, has_content }) = match file {
            Some(FoundJournal(file)) => {
                let (place, no) = (Span::first(file.size), false);
                let found = Found { place, is_displaced: no, is_unmarked: no, has_content: no };
                (Place::File(file), found)
            }
            None => (Place::Inside, journal_of(disk, is_whole)?),
        };
        let is_inside = matches!(journal, Place::Inside);
        let mut journal = journal;
        if is_inside && crate::copy::is_unfinished(disk)? {
            return Err(MoveError::Copy);
        }
        let mut place = place;
        let mut found = with_disks(disk, &mut journal, None, |disks| inspect(disks, place))?;
        if found.is_none() && is_inside && disk.identity().sector.is_none() {
            // An MBR does not say in which sectors it counts, and an image has none of its own.
            place = in_large_sectors(place)
                .filter(|place| Span::first(disk.len()).contains(*place))
                .unwrap_or(place);
            found = with_disks(disk, &mut journal, None, |disks| inspect(disks, place))?;
        }
        let (job, _) = found.ok_or_else(|| match is_inside {
            true => MoveError::Elsewhere,
            false => MoveError::NoJournal { is_begun: Sign::of(disk) != Sign::Table },
        })?;
        let payload = Payload::decode(job.payload())?;
        // What fills the disk may have been put over the journal, but for what a wrap leaves of the former contents.
        if has_content && !payload.realign.is_wrap() {
            return Err(MoveError::Nothing);
        }
        let serial = &payload.realign.plan.disk().serial;
        if *serial != disk.identity().serial {
            return Err(MoveError::Foreign("its serial number differs".to_owned()));
        }
        if job != payload.realign.job(job.id(), job.payload().to_vec())? {
            return Err(MoveError::Foreign("its moves are not those of its plan".to_owned()));
        }
        // What filled the disk is there: nothing else has been put over it.
        let is_unmarked = is_unmarked && !(has_content && payload.has_old_head(disk));
        let (verify, skips_bad, trust) = (Verify::Read, false, Trust::default());
        let boot_code = BootCode::Own;
        Ok(Self {
            disk,
            journal,
            place,
            payload,
            is_displaced,
            is_unmarked,
            owns_space: !is_displaced && !is_unmarked,
            footprint: Footprint::unknown(),
            verify,
            skips_bad,
            trust,
            boot_code,
        })
    }
}
