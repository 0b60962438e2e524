//! Finding the journal of an unfinished move: by the marker, by its own signature, or in a file; and what an audit
//! says about moves.
//!
//! Invariants: it only reads. A journal whose moves the table lists completely is over and counts for nothing.

use straddle_audit::{MoveJournal, Planned, Stage, Unfinished};
use straddle_device::shown::with_causes;
use straddle_device::{Medium, MemoryMedium, ReadError};
use straddle_layout::format::mbr;
use straddle_layout::{Content, Problem, Role, Stack, TableKind, read_stack};
use straddle_units::{BlockSize, ByteCount, ByteOffset, Span};

use super::carry::{obstacle, with_disks};
use super::media::Reading;
use super::payload::Payload;
use super::refer::immovable;
use super::unallocated::Look;
use super::{
    Journal, JournalFile, JournalPlace, MoveError, NoJournal, RealignError, Run, Wanted, hibernated, logical,
    make_looking, room,
};
use crate::plan::{Entry, Situation};
use crate::relocate::{Disks, Job, RelocateError, State, inspect, named_within, search};
use crate::target::{Disk, Target};

/// Anywhere if there is no table or `is_whole`, else where the marker is.
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

/// Reinterprets a place counted in 512-byte sectors; `None` if the disk does not have it.
pub(super) fn in_large_sectors(medium: &dyn Medium, place: Span) -> Option<Span> {
    let start = place.start().get().checked_mul(8)?;
    let place = Span::new(ByteOffset::new(start), place.len().checked_mul(8)?)?;
    Span::first(medium.len()).contains(place).then_some(place)
}

impl<'a> Run<'a> {
    /// Finds the unfinished move of a disk: by the marker in its table, or in the file that holds its
    /// journal. The error is [`MoveError::Nothing`] if there is none.
    pub fn find(target: &'a mut Target<'_>, file: Option<JournalFile>) -> Result<Self, MoveError> {
        Self::found(target, file, false)
    }

    /// The same; if another program has written the table, all of the disk is searched for the journal. The
    /// error is [`NoJournal::Anywhere`] if there is none.
    pub fn search(target: &'a mut Target<'_>, file: Option<JournalFile>) -> Result<Self, MoveError> {
        Self::found(target, file, true)
    }

    fn found(
        target: &'a mut Target<'_>,
        file: Option<JournalFile>,
        is_whole: bool,
    ) -> Result<Self, MoveError> {
        let disk: &mut dyn Disk = target;
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
            place = in_large_sectors(disk, place).unwrap_or(place);
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
            return Err(MoveError::Foreign("the serial number of the disk differs".to_owned()));
        }
        if job != payload.realign.job(job.id, job.payload.clone())? {
            return Err(MoveError::Foreign(
                "the moves in the journal differ from those in its plan".to_owned(),
            ));
        }
        let run = Self::of(disk, journal, place, payload);
        Ok(Self { is_new: false, has_no_table, owns_space: !has_no_table, ..run })
    }
}

/// In sectors, at the end of the disk.
pub(super) const GPT_BACKUP: u64 = 33;
/// The largest physical sector in which a last title is looked for.
const LARGEST_BLOCK: u64 = 16 << 10;

pub(super) fn is_in_use(stack: &Stack) -> bool {
    !matches!(stack.kind, TableKind::None | TableKind::Kernel) || !stack.partitions.is_empty()
}

/// Finds the unfinished move of a disk whose table is lost, by its journal, where journals usually end.
pub fn unmarked(medium: &dyn Medium, stack: &Stack) -> Option<Unfinished> {
    if is_in_use(stack) {
        return None;
    }
    let place = usual(medium, stack)?;
    let (job, state) = journal_at(medium, place).ok()??;
    Some(Unfinished {
        marker: None,
        journal: MoveJournal::Unmarked { stage: stage(&job, state), at: place.start() },
    })
}

fn anywhere(medium: &dyn Medium, stack: &Stack) -> Option<Span> {
    let search = || search(Disks::one(&mut Reading(medium)), |place| counts(medium, place, stack));
    usual(medium, stack).or_else(search)
}

fn usual(medium: &dyn Medium, stack: &Stack) -> Option<Span> {
    let mut places = ends(medium.len(), stack).into_iter().flat_map(|end| at_end(medium, end));
    places.find(|place| counts(medium, *place, stack))
}

/// May be unfinished even if it cannot be used, or, with a lost table, if it has not begun.
fn counts(medium: &dyn Medium, place: Span, stack: &Stack) -> bool {
    match journal_at(medium, place) {
        Ok(Some((_, State::NotBegun))) if is_in_use(stack) => false,
        Ok(Some((job, state))) => Payload::decode(&job.payload).is_ok_and(|it| !is_over(&it, state, stack)),
        Ok(None) => false,
        Err(_) => true,
    }
}

fn at_end(medium: &dyn Medium, end: ByteOffset) -> Vec<Span> {
    let start = ByteOffset::new(end.get().saturating_sub(LARGEST_BLOCK));
    let bytes = Span::between(start, end);
    bytes.map_or_else(Vec::new, |bytes| named_within(Disks::one(&mut Reading(medium)), bytes))
}

/// Whether a journal with a title at one of the ends of `place` may be that of an unfinished move.
pub(super) fn has_needed(medium: &dyn Medium, place: Span) -> bool {
    let first = place.start().checked_add(BlockSize::B512.bytes());
    let named = first.into_iter().chain([place.end()]).flat_map(|end| at_end(medium, end));
    named.into_iter().any(|place| {
        let found = journal_at(medium, place);
        matches!(found, Ok(Some((_, State::Moving { .. } | State::RollingBack))))
    })
}

fn ends(size: ByteCount, stack: &Stack) -> Vec<ByteOffset> {
    let end = size.get();
    let mut ends = vec![end];
    for block in [BlockSize::B512, BlockSize::B4096].map(|block| block.get()) {
        ends.extend(end.checked_sub(GPT_BACKUP * block));
        ends.push(mbr::LBAS * block);
    }
    ends.extend(room::nominal_ends(size).map(ByteOffset::get));
    ends.extend(stack.usable.map(|usable| usable.end().get()));
    for partition in &stack.partitions {
        ends.push(partition.span.start().get());
        if let Role::Logical { ebr } = partition.role {
            ends.extend(ebr.to_bytes(stack.block).map(ByteOffset::get));
        }
    }
    ends.retain(|at| *at <= end && at.is_multiple_of(512));
    // A journal ends with a physical sector.
    ends.extend(ends.clone().iter().flat_map(|at| [4096, LARGEST_BLOCK].map(|block| at / block * block)));
    ends.sort_unstable();
    ends.dedup();
    ends.into_iter().rev().map(ByteOffset::new).collect()
}

pub(super) fn is_over(payload: &Payload, state: State, stack: &Stack) -> bool {
    let plan = &payload.realign.plan;
    let place = |entry: &Entry| match state {
        State::NotBegun | State::Back => {
            plan.span(plan.before.iter().find(|old| old.number == entry.number)?)
        }
        State::Moved => plan.span(entry),
        State::Moving { .. } | State::RollingBack => None,
    };
    let is_listed = |entry: &&Entry| {
        stack.partitions.iter().any(|part| part.number == entry.number && Some(part.span) == place(entry))
    };
    let moved: Vec<&Entry> = plan.table.partitions.iter().filter(|entry| entry.is_moved()).collect();
    !moved.is_empty() && moved.iter().all(is_listed)
}

/// Finds the unfinished move of a disk, or the unfinished copy to it, by the marker in its table, and reads
/// how far a move is. [`unmarked`](super::unmarked) finds a move without a table.
pub fn unfinished(medium: &dyn Medium, stack: &Stack) -> Result<Option<Unfinished>, ReadError> {
    let Some(marker) = straddle_layout::marker(medium, stack)? else { return Ok(None) };
    let found = |journal| Ok(Some(Unfinished { marker: Some(marker), journal }));
    if crate::copy::is_unfinished(medium)? {
        return found(MoveJournal::Copy);
    }
    let elsewhere = || journal_at(medium, in_large_sectors(medium, marker.span)?).ok().flatten();
    found(match journal_at(medium, marker.span).map(|found| found.or_else(elsewhere)) {
        Ok(None) => MoveJournal::InFile,
        Ok(Some((job, state))) => MoveJournal::Inside(stage(&job, state)),
        Err(error) => MoveJournal::Unusable(with_causes(&error)),
    })
}

pub(super) fn journal_at(medium: &dyn Medium, place: Span) -> Result<Option<(Job, State)>, RelocateError> {
    inspect(Disks::one(&mut Reading(medium)), place)
}

const ASLEEP_FIRST: &str = "holds a hibernated system, which would write to the old position; start that \
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
    let shorter = realign.trims();
    let data = |(number, offset): &(u32, ByteCount)| {
        let partition = situation.stack.partitions.iter().find(|p| p.number == *number)?;
        Some((*number, partition.span.start().checked_add(*offset)?))
    };
    let data = realign.anchors.iter().filter_map(data).collect();
    let after = realign.afterwards().collect();
    let journal = match realign.journal {
        Journal::Inside(_) => None,
        Journal::Elsewhere { needed } => Some(needed),
    };
    let options = options.to_owned();
    Ok(Planned { places, shorter, data, after, options, journal, in_use })
}
