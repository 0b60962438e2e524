//! What an audit says about moves: one that is not finished, and the one that can be planned.

use straddle_audit::{MoveJournal, Planned, Stage, Unfinished};
use straddle_device::shown::with_causes;
use straddle_device::{Medium, ReadError};
use straddle_layout::{Content, Stack};
use straddle_units::{ByteCount, Span};

use super::carry::obstacle;
use super::find::in_large_sectors;
use super::media::Reading;
use super::refer::immovable;
use super::unallocated::Look;
use super::{Journal, RealignError, Wanted, hibernated, logical, make_looking};
use crate::plan::Situation;
use crate::relocate::{Disks, Job, RelocateError, State, inspect};

/// Finds the unfinished move of a disk, or the unfinished copy to it, by the marker in its table, and reads
/// how far a move is. [`unmarked`](super::unmarked) finds a move without a table.
pub fn unfinished(medium: &dyn Medium, stack: &Stack) -> Result<Option<Unfinished>, ReadError> {
    let Some(marker) = straddle_layout::marker(medium, stack)? else { return Ok(None) };
    let found = |journal| Ok(Some(Unfinished { marker: Some(marker), journal }));
    if crate::copy::is_unfinished(medium)? {
        return found(MoveJournal::Copy);
    }
    // An MBR does not say in which sectors it counts.
    let elsewhere = || journal_at(medium, in_large_sectors(medium, marker.span)?).ok().flatten();
    found(match journal_at(medium, marker.span).map(|found| found.or_else(elsewhere)) {
        Ok(None) => MoveJournal::InFile,
        Ok(Some((job, state))) => MoveJournal::Inside(stage(&job, state)),
        Err(error) => MoveJournal::Unusable(with_causes(&error)),
    })
}

/// The job and the state of the journal at `place`; `None` if there is none.
pub(super) fn journal_at(medium: &dyn Medium, place: Span) -> Result<Option<(Job, State)>, RelocateError> {
    inspect(Disks::one(&mut Reading(medium)), place)
}

const ASLEEP_FIRST: &str = "holds a hibernated system, which would write to the old position: start that \
                            system and shut it down (Windows: shutdown /s /f /t 0, or powercfg /h off), then \
                            check again";
pub(super) fn stage(job: &Job, state: State) -> Stage {
    match state {
        State::NotBegun => Stage::NotBegun,
        State::Moving { done } => Stage::Moving { done, total: job.total() },
        State::Moved => Stage::Moved,
        State::RollingBack => Stage::RollingBack,
        State::Back => Stage::Back,
    }
}

/// Why no move is planned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unplanned {
    /// Nothing may move, and not for want of room: no other program may move it either.
    Refused(String),
    /// There is room only if the contents of this partition use no more than this of it, which a command does.
    Shrink(u32, ByteCount),
    /// Any other reason.
    Other,
}

/// Plans to move the partitions that have to move. `options` are those that the command needs for the same
/// topology. Whether space on a target that `is_remote` is empty is looked at when it is fetched.
pub fn planned(
    situation: &Situation<'_>,
    options: &str,
    (in_use, is_remote): (bool, bool),
) -> Result<Planned, Unplanned> {
    if let Some(number) = hibernated(situation.stack) {
        return Err(Unplanned::Refused(format!("partition {number} {ASLEEP_FIRST}")));
    }
    if let Some((number, why)) = immovable(situation.stack, |_| false) {
        return Err(Unplanned::Refused(format!("partition {number}: {why}")));
    }
    let is_swap = |number| {
        let mut partitions = situation.stack.partitions.iter();
        partitions.any(|one| one.number == number && one.content.is_some_and(Content::is_swap))
    };
    let wanted = Wanted { wipe: is_remote, ..Wanted::default() };
    let realign = match make_looking(situation, &wanted, Look::Ends) {
        Ok(realign) => realign,
        // A swap area is made again.
        Err(RealignError::Unclaimed { number }) if is_swap(number) => return Err(Unplanned::Other),
        Err(
            error @ (RealignError::Immovable { .. }
            | RealignError::Occupied { .. }
            | RealignError::Unclaimed { .. }),
        ) => return Err(Unplanned::Refused(error.to_string())),
        Err(RealignError::MustShrink { shrink, .. }) => {
            let one = shrink.iter().find(|one| one.command.is_some());
            return Err(one.map_or(Unplanned::Other, |one| Unplanned::Shrink(one.number, one.to)));
        }
        Err(_) => return Err(Unplanned::Other),
    };
    let blocked = realign.references.iter().find_map(|(number, what)| Some((*number, obstacle(what)?)));
    if let Some((number, what)) = blocked {
        return Err(Unplanned::Refused(format!("partition {number}: {what}")));
    }
    let places = logical::moving(&realign.plan).map(|entry| (entry.number, entry.start)).collect();
    let shorter = realign.trims().iter().map(|trim| (trim.number, trim.by)).collect();
    let data = |(number, offset): &(u32, ByteCount)| {
        let partition = situation.stack.partitions.iter().find(|p| p.number == *number)?;
        Some((*number, partition.span.start().checked_add(*offset)?))
    };
    let data = realign.anchors.iter().filter_map(data).collect();
    let after = realign.references.iter().filter_map(|(number, what)| Some((*number, what.afterwards()?)));
    let after = after.collect();
    let journal = match realign.journal {
        Journal::Inside(_) => None,
        Journal::Elsewhere { needed } => Some(needed),
    };
    let options = options.to_owned();
    Ok(Planned { places, shorter, data, after, options, journal, in_use })
}
