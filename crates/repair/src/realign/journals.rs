//! Journals on a disk whose table does not lead to them.
//!
//! Invariants: it only reads. A journal that is over counts for nothing: the table lists all that it would
//! have moved, or has, where that is.

use crate::relocate::{Disks, State, named_within, search};
use straddle_audit::{MoveJournal, Unfinished};
use straddle_device::Medium;
use straddle_layout::format::mbr;
use straddle_layout::{Role, Stack, TableKind};
use straddle_units::{BlockSize, ByteCount, ByteOffset, Span};

use super::payload::Payload;
use super::room;
use super::survey::{Reading, journal_at, stage};
use crate::plan::{Change, Entry, Plan};

/// Where the area of partitions ends, in sectors before the end of the disk: behind it is a GPT's backup.
pub(super) const GPT_BACKUP: u64 = 33;
/// The largest physical sector in which a last title is looked for.
const LARGEST_BLOCK: u64 = 16 << 10;

/// Whether something is on the disk that other programs use: a table, or what fills it.
pub(super) fn is_in_use(stack: &Stack) -> bool {
    !matches!(stack.kind, TableKind::None | TableKind::Kernel) || !stack.partitions.is_empty()
}

/// Finds the unfinished move of a disk that has no table, as a power cut leaves one that tears it: by its journal, where
/// journals end as a rule.
pub fn unmarked(medium: &dyn Medium, stack: &Stack) -> Option<Unfinished> {
    if is_in_use(stack) {
        return None;
    }
    let ends = ends(medium.len(), stack);
    let place =
        ends.iter().flat_map(|end| at_end(medium, *end)).find(|place| counts(medium, *place, stack))?;
    let (job, state) = journal_at(medium, place).ok()??;
    Some(Unfinished {
        marker: None,
        journal: MoveJournal::Unmarked { stage: stage(&job, state), at: place.start() },
    })
}

/// Searches all of a disk for a journal that counts, the usual places first.
pub(super) fn anywhere(medium: &dyn Medium, stack: &Stack) -> Option<Span> {
    let counts = |place: Span| counts(medium, place, stack);
    let ends = ends(medium.len(), stack);
    let usual = ends.iter().flat_map(|end| at_end(medium, *end)).find(|place| counts(*place));
    usual.or_else(|| search(Disks::one(&mut Reading(medium)), counts))
}

/// Whether the journal at `place` may be that of an unfinished move. One of a disk that had another size counts; of a move
/// that has not begun only if the table is lost.
fn counts(medium: &dyn Medium, place: Span, stack: &Stack) -> bool {
    match journal_at(medium, place) {
        Ok(Some((_, State::NotBegun))) if is_in_use(stack) => false,
        Ok(Some((job, state))) => {
            Payload::decode(&job.payload).is_ok_and(|payload| !is_over(&payload, state, stack))
        }
        Ok(None) => false,
        Err(_) => true,
    }
}

/// The places that journals which end at a byte name as their own, whether or not the rest of them is there.
fn at_end(medium: &dyn Medium, end: ByteOffset) -> Vec<Span> {
    let start = ByteOffset::new(end.get().saturating_sub(LARGEST_BLOCK));
    let bytes = Span::between(start, end);
    bytes.map_or_else(Vec::new, |bytes| named_within(Disks::one(&mut Reading(medium)), bytes))
}

/// Whether a journal with a title at one of the ends of `place` may be that of a move that is not over.
pub(super) fn has_needed(medium: &dyn Medium, place: Span) -> bool {
    let first = place.start().checked_add(BlockSize::B512.bytes());
    let named = first.into_iter().chain([place.end()]).flat_map(|end| at_end(medium, end));
    named.into_iter().any(|place| {
        let found = journal_at(medium, place);
        matches!(found, Ok(Some((_, State::Moving { .. } | State::RollingBack))))
    })
}

/// Where journals end as a rule: before the end of the disk, and before what the table lists.
fn ends(size: ByteCount, stack: &Stack) -> Vec<ByteOffset> {
    let end = size.get();
    let mut ends = Vec::new();
    for block in [BlockSize::B512, BlockSize::B4096].map(|block| block.get()) {
        ends.extend([Some(end), end.checked_sub(GPT_BACKUP * block), Some(mbr::LBAS * block)]);
    }
    ends.extend(room::nominal_ends(size).map(|at| Some(at.get())));
    ends.push(stack.usable.map(|usable| usable.end().get()));
    for partition in &stack.partitions {
        let record = match partition.role {
            Role::Logical { ebr } => ebr.to_bytes(stack.block),
            Role::Primary | Role::Extended => None,
        };
        ends.extend([Some(partition.span.start()), record].map(|at| at.map(ByteOffset::get)));
    }
    let is_end = |at: &u64| *at <= end && at.is_multiple_of(512);
    let mut ends: Vec<u64> = ends.into_iter().flatten().filter(is_end).collect();
    // A journal ends with a physical sector.
    ends.extend(ends.clone().iter().flat_map(|at| [4096, LARGEST_BLOCK].map(|block| at / block * block)));
    ends.sort_unstable();
    ends.dedup();
    ends.into_iter().rev().map(ByteOffset::new).collect()
}

/// Whether a move that never began, or is over, left this journal: the table lists all that it would have moved, or has,
/// where it is.
pub(super) fn is_over(payload: &Payload, state: State, stack: &Stack) -> bool {
    let plan = &payload.realign.plan;
    let place = |entry: &Entry| match state {
        State::NotBegun | State::Back => old_span(plan, entry),
        State::Moved => plan.span(entry),
        State::Moving { .. } | State::RollingBack => None,
    };
    let mut moved =
        plan.table.partitions.iter().filter(|entry| matches!(entry.change, Change::Moved { .. })).peekable();
    moved.peek().is_some() && moved.all(|entry| is_listed(stack, entry, place(entry)))
}

/// Where an entry was before the moves.
fn old_span(plan: &Plan, entry: &Entry) -> Option<Span> {
    plan.before.iter().find(|old| old.number == entry.number).and_then(|old| plan.span(old))
}

/// Whether the table lists an entry at `place`, under its number.
fn is_listed(stack: &Stack, entry: &Entry, place: Option<Span>) -> bool {
    stack.partitions.iter().any(|part| part.number == entry.number && Some(part.span) == place)
}
