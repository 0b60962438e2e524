//! An unfinished move whose marker another program has removed: its journal is found without the table.
//!
//! The law of this module: a table that lists partitions is another program's, and is never overwritten unless
//! [`Run::restore_table`] is called, which saves it first. A journal counts only if its move is unfinished for
//! certain: data have moved and are where it says, the table does not list them there, and no partition lies over
//! the journal, whose newest record might be lost then, but for an empty one that is where the move puts its own.

use std::path::Path;

use straddle_audit::{MoveJournal, Unfinished};
use straddle_device::Medium;
use straddle_layout::format::mbr;
use straddle_layout::{Partition, Role, Stack, TableKind};
use straddle_relocate::{
    Disks, LARGEST_BLOCK, State, Whereabouts, inspect_grown, is_same, is_title, is_untouched, search,
    search_ends, search_near_ends,
};
use straddle_units::{BlockSize, ByteCount, ByteOffset, MIB, Span};

use super::carry::Run;
use super::payload::restore::BootCode;
use super::payload::{Payload, Table};
use super::sample::Proof;
use super::survey::{Reading, stage};
use super::{MoveError, boot, room};
use crate::apply::BackedUp;
use crate::plan::{Change, Entry, Plan};

/// Where the area of partitions ends, in sectors before the end of the disk: behind it is a GPT's backup.
pub(super) const GPT_BACKUP: u64 = 33;
/// How much is searched at each end of a disk whose table lists no partition, by every `check` of it.
const NEAR: ByteCount = ByteCount::new(32 * MIB);
/// The same if contents fill the disk: of a move that puts a partition around them, the journal ends in front of it
/// or at the end of the disk.
const NEAR_CONTENT: ByteCount = ByteCount::new(2 * MIB);
/// Of no more partitions it is looked at what is before the start: each place costs reads.
const MOST: usize = 64;
/// How many sectors before a logical partition its extended boot record is, as a rule: none is left of it when another
/// program has converted the table to a GPT.
const RECORDS_BEFORE: [u64; 3] = [1, 63, 2048];

/// Whether a table is on the disk that another program may use.
pub(super) fn has_table(stack: &Stack) -> bool {
    let is_table =
        matches!(stack.kind, TableKind::Gpt | TableKind::HybridMbr | TableKind::Mbr | TableKind::Foreign(_));
    is_table || !stack.partitions.is_empty()
}

/// Searches the places where journals end as a rule: before the end of the disk, and before partitions.
/// `is_whole` searches all of the disk then, and asks for less. Returns the place of a journal whose move is not
/// over.
pub(super) fn find(medium: &dyn Medium, stack: &Stack, is_whole: bool) -> Option<Span> {
    let counts = |place: Span| {
        let Ok(Some((job, state))) = inspect_grown(Disks::one(&mut Reading(medium)), place) else {
            return false;
        };
        Payload::decode(job.payload()).is_ok_and(|payload| {
            let need = if is_whole { Need::Asked } else { Need::Certain };
            is_unfinished(medium, &payload, state, (Some(place), need), stack)
                && is_borne_out(medium, &payload, (place, Proof::Most))
                // What was made since in one of the places makes the way back impossible, and the way forward.
                && (is_whole || !payload.is_taken(medium))
        })
    };
    let ends = ends(medium.len(), stack);
    let quick = search_ends(Disks::one(&mut Reading(medium)), &ends, counts);
    match quick {
        // Such a table leaves nothing that a journal may end before.
        None if !is_whole && parts(stack).next().is_none() => {
            let near = if matches!(stack.kind, TableKind::Content(_)) { NEAR_CONTENT } else { NEAR };
            search_near_ends(Disks::one(&mut Reading(medium)), near, counts)
        }
        None if is_whole => search(Disks::one(&mut Reading(medium)), counts),
        found => found,
    }
}

/// Whether the journal on the disk, at `place`, is that of the data there: they are where it says that they are, and
/// nothing else was written where it would write.
pub(super) fn is_own(medium: &dyn Medium, payload: &Payload, (place, proof): (Span, Proof)) -> bool {
    is_borne_out(medium, payload, (place, proof))
        && !payload.is_taken(medium)
        && is_untouched(Disks::one(&mut Reading(medium)), place, (&payload.besides(), &payload.spared()))
            .unwrap_or(false)
}

/// Whether the data are where the journal on the disk, at `place`, says that they are.
pub(super) fn is_borne_out(medium: &dyn Medium, payload: &Payload, (place, proof): (Span, Proof)) -> bool {
    let places = Whereabouts::read(Disks::one(&mut Reading(medium)), place);
    places.is_ok_and(|places| places.is_some_and(|places| payload.is_borne_out(medium, (&places, proof))))
}

/// The partitions in which data may be.
pub(super) fn parts(stack: &Stack) -> impl Iterator<Item = &Partition> {
    let is_part = |part: &&Partition| part.role != Role::Extended && !straddle_layout::is_marker(part);
    stack.partitions.iter().filter(is_part)
}

/// Where a journal may end.
pub(super) fn ends(size: ByteCount, stack: &Stack) -> Vec<ByteOffset> {
    let end = size.get();
    let mut ends = Vec::new();
    for block in [BlockSize::B512, BlockSize::B4096].map(|block| block.get()) {
        ends.extend([Some(end), end.checked_sub(GPT_BACKUP * block), Some(mbr::LBAS * block)]);
        // The array of a GPT takes 16 KiB.
        ends.push(end.checked_sub(block + 16_384));
    }
    ends.extend(room::nominal_ends(size).map(|at| Some(at.get())));
    ends.extend(room::fine_ends(size).map(|at| Some(at.get())));
    ends.push(stack.usable.map(|usable| usable.end().get()));
    for partition in &stack.partitions {
        let record = match partition.role {
            Role::Logical { ebr } => ebr.to_bytes(stack.block),
            Role::Primary | Role::Extended => None,
        };
        ends.extend([Some(partition.span.start()), record].map(|at| at.map(ByteOffset::get)));
    }
    for partition in stack.partitions.iter().take(MOST) {
        let start = partition.span.start().get();
        ends.extend([Some(start / MIB * MIB), Some(start.next_multiple_of(MIB))]);
        ends.extend(RECORDS_BEFORE.map(|sectors| start.checked_sub(sectors * stack.block.get())));
    }
    let mut ends: Vec<u64> = ends.into_iter().flatten().filter(|at| *at <= end).collect();
    // A journal ends with a physical sector.
    ends.extend(ends.clone().iter().flat_map(|at| [4096, LARGEST_BLOCK].map(|block| at / block * block)));
    ends.sort_unstable();
    ends.dedup();
    // What a partition with contents lies over does not count.
    let is_covered = |end: u64| {
        let last = end.checked_sub(boot::SECTOR).map(ByteOffset::new);
        let last = last.and_then(|last| Span::new(last, ByteCount::new(boot::SECTOR)));
        let mut filled = parts(stack).filter(|part| part.content.is_some());
        last.is_some_and(|last| filled.any(|part| part.span.overlaps(last)))
    };
    ends.retain(|at| !is_covered(*at));
    ends.into_iter().rev().map(ByteOffset::new).collect()
}

/// What makes a journal one of an unfinished move, if not data that are on their way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Need {
    /// The table lists data where they are not.
    Certain,
    /// Or it lists none of them anywhere.
    Likely,
    /// The user asks for it: it does not list them as the move or its rollback would have in the end.
    Asked,
}

/// Whether data need the journal at a place, according to it: the table does not list them where they are.
pub(super) fn is_unfinished(
    medium: &dyn Medium,
    payload: &Payload,
    state: State,
    (place, need): (Option<Span>, Need),
    stack: &Stack,
) -> bool {
    let parts = || parts(stack);
    let plan = payload.realign.plan();
    // The partition that is to be put round the contents, made by another program too early: nothing begins in it yet.
    let is_round = |part: &Partition| {
        let mut new = plan.table().partitions.iter().filter_map(|entry| plan.span(entry));
        part.content.is_none()
            && new.any(|new| new.start() == part.span.start())
            && payload.is_headless(medium)
    };
    // What fills the disk now lies over the journal, unless it is what a partition is put round.
    let is_content = matches!(stack.kind, TableKind::Content(_)) && !payload.has_old_head(medium);
    let lies_over = |place| parts().any(|part| part.span.overlaps(place) && !is_round(part));
    if place.is_some_and(|place| is_content || lies_over(place)) {
        return false;
    }
    let starts_at = |at: Option<ByteOffset>| parts().any(|part| Some(part.span.start()) == at);
    let starts = |number: u32, at: Option<ByteOffset>| {
        parts().any(|part| part.number == number && Some(part.span.start()) == at)
    };
    let entries = || plan.table().partitions.iter();
    let moved = || moved(plan);
    // A table that another program has written since lists the data in their new places, or has none of them.
    // Partitions that swap their places are distinguished by their numbers.
    let is_listed_as_before = |entry: &Entry| {
        let Change::Moved { from, .. } = entry.change else { return false };
        let (old, new) = (from.to_bytes(plan.block()), plan.span(entry).map(|span| span.start()));
        let is_swapped = starts(entry.number, old) && !starts(entry.number, new);
        (starts_at(old) && !starts_at(new)) || (starts_at(new) && is_swapped)
    };
    let is_nowhere = || {
        let spans = moved().flat_map(|entry| [plan.span(entry), old_span(plan, entry)]);
        spans.flatten().all(|span| !parts().any(|part| part.span.overlaps(span)))
    };
    let is_wrap = payload.realign.is_wrap();
    // Only the journal has the start of what fills the disk: its place has a table, and it has no other one yet. After
    // the move it changes there with use.
    let is_headless = || {
        let new = || entries().filter_map(|entry| plan.span(entry)).map(Span::start);
        let is_there = |part: &Partition| part.content.is_some() && new().any(|at| at == part.span.start());
        payload.is_headless(medium) && !parts().any(is_there)
    };
    // The move is over then; the table may have been changed since.
    let is_listed_as_after = || {
        let mut all = entries().filter(|entry| is_wrap || matches!(entry.change, Change::Moved { .. }));
        all.any(|entry| is_listed(stack, entry, plan.span(entry)))
    };
    match (state, need) {
        (State::Moving { .. } | State::RollingBack, _) => true,
        _ if is_headless() => true,
        (State::Moved, _)
            if entries().any(is_listed_as_before)
                || (is_wrap && matches!(stack.kind, TableKind::Content(_))) =>
        {
            true
        }
        (_, Need::Certain) => false,
        (State::Moved, Need::Likely) => is_nowhere(),
        (State::Moved, Need::Asked) => !is_listed_as_after(),
        // The table was being written: nothing but the journal has it.
        (State::NotBegun | State::Back, Need::Likely) => parts().next().is_none(),
        (State::NotBegun | State::Back, Need::Asked) => {
            !moved().all(|entry| is_listed(stack, entry, old_span(plan, entry))) || is_wrap
        }
    }
}

/// Whether a move that never began, or is over, left this journal: the table lists all that it would have moved, or has,
/// where it is. That is not so of one that a partition lies over, which may be needed when that is gone again.
pub(super) fn is_over(payload: &Payload, state: State, stack: &Stack) -> bool {
    let plan = payload.realign.plan();
    let place = |entry: &Entry| match state {
        State::NotBegun | State::Back => old_span(plan, entry),
        State::Moved => plan.span(entry),
        State::Moving { .. } | State::RollingBack => None,
    };
    moved(plan).next().is_some() && moved(plan).all(|entry| is_listed(stack, entry, place(entry)))
}

/// The entries whose data move.
fn moved(plan: &Plan) -> impl Iterator<Item = &Entry> {
    plan.table().partitions.iter().filter(|entry| matches!(entry.change, Change::Moved { .. }))
}

/// Where an entry was before the moves.
fn old_span(plan: &Plan, entry: &Entry) -> Option<Span> {
    plan.before().iter().find(|old| old.number == entry.number).and_then(|old| plan.span(old))
}

/// Whether the table lists an entry at `place`, under its number.
fn is_listed(stack: &Stack, entry: &Entry, place: Option<Span>) -> bool {
    parts(stack).any(|part| part.number == entry.number && Some(part.span) == place)
}

/// Finds the journal of a move whose marker another program has removed. Only where journals end as a rule is
/// searched. `None` if there is none, or the table has its marker.
pub fn displaced(medium: &dyn Medium, stack: &Stack) -> Option<Unfinished> {
    let is_marked = stack.partitions.iter().any(straddle_layout::is_marker);
    if is_marked {
        return None;
    }
    let place = find(medium, stack, false)?;
    let (job, state) = inspect_grown(Disks::one(&mut Reading(medium)), place).ok()??;
    // Another program may have overwritten one of them.
    let mut titles = vec![place.start(), place.end().checked_back(job.blocks().size())?];
    let mut bytes = [0; 512];
    titles.retain(|at| medium.read_at(*at, &mut bytes).is_ok() && is_title(&bytes));
    Some(Unfinished { marker: None, journal: MoveJournal::Displaced { stage: stage(&job, state), titles } })
}

impl Run<'_> {
    /// Whether the journal is that of the data on the disk, none of which was written since.
    fn is_own(&mut self) -> Result<bool, MoveError> {
        let places = self.with_disks(Whereabouts::read)?.ok_or(MoveError::Nothing)?;
        let (besides, spared) = (self.payload.besides(), self.payload.spared());
        let is_there = self.payload.is_borne_out(self.disk, (&places, Proof::Exact));
        Ok(is_there
            && !self.payload.is_taken(self.disk)
            && self.with_disks(|disks, place| is_untouched(disks, place, (&besides, &spared)))?
            && self.with_disks(|disks, place| is_same(disks, place, &besides))?)
    }

    /// Whether the disk has the marker. What else belongs to the table may be missing, such as the protective MBR of a
    /// GPT.
    fn is_marked(&self) -> bool {
        self.payload.table(self.disk).is_ok_and(|table| table == Some(Table::Marked))
    }

    /// Whether the data, with the table on the disk, need the journal.
    pub(super) fn is_needed(&self, state: &State) -> Result<bool, MoveError> {
        let stack = straddle_layout::read_stack(self.disk, Some(self.payload.realign.plan.block()), None)?;
        let place = (self.place_on_disk(), Need::Asked);
        Ok(self.is_marked() || is_unfinished(self.disk, &self.payload, *state, place, &stack))
    }

    /// Writes the marker over the table that another program has written, after saving what it overwrites in a
    /// new file at `backup`, which `undo` takes. Returns false, and makes no file, if the table is the move's. Boot code
    /// does not belong to it: what another program has installed stays, if [`boot_code`](Self::boot_code) says so.
    ///
    /// # Errors
    ///
    /// [`MoveError`]. If a write fails, or the power, it can be repeated with another file.
    pub fn restore_table(&mut self, backup: &Path) -> Result<bool, MoveError> {
        self.boot_code = self.payload.keep_boot_code(self.disk);
        let state = self.state()?;
        // A torn one is restored when the move goes on.
        if self.fits_table()? || self.torn(&state)?.is_some() {
            return Ok(false);
        }
        if !self.is_needed(&state)? {
            return Err(MoveError::NotNeeded);
        }
        self.check_listed()?;
        let is_marked = self.is_marked();
        let is_left_over = self.payload.table(self.disk).is_ok_and(|table| table == Some(Table::New));
        if !is_marked && ((is_left_over && state != State::Moved) || !self.is_own()?) {
            return Err(MoveError::LeftOver);
        }
        // Whether other data are in the new places is not known: with the old table nothing leads there.
        self.is_unmarked = state == State::NotBegun;
        let table = if self.is_unmarked { Table::Old } else { Table::Marked };
        let mut steps = self.payload.restoring(self.disk, table)?;
        let places = self.with_disks(Whereabouts::read)?.ok_or(MoveError::Nothing)?;
        steps.splice(0..0, self.payload.respared(self.disk, (&places, state == State::RollingBack))?);
        BackedUp::of_restored(self.disk, steps, (table == Table::Marked, backup))?.write()?;
        let _ = self.disk.reread_table();
        self.is_displaced = false;
        // Nothing is left to write.
        if self.payload.restoring(self.disk, table)?.is_empty() {
            Ok(true)
        } else {
            Err(MoveError::Unwritten)
        }
    }

    /// Refuses to go on with a move whose rollback has begun, before anything is written.
    ///
    /// # Errors
    ///
    /// [`MoveError::Turned`]. If the journal cannot be read.
    pub fn check_course(&mut self, goes_back: bool) -> Result<(), MoveError> {
        let is_turned = matches!(self.state()?, State::RollingBack | State::Back);
        if is_turned && !goes_back { Err(MoveError::Turned) } else { Ok(()) }
    }

    /// What becomes of the boot code that was on the disk when [`restore_table`](Self::restore_table) was called.
    pub fn boot_code(&self) -> BootCode {
        self.boot_code
    }

    /// Whether no data have moved, and the table had no marker: it can only go back, as other data may be in the
    /// new places by now.
    ///
    /// # Errors
    ///
    /// If the journal cannot be read.
    pub fn is_unbegun(&mut self) -> Result<bool, MoveError> {
        Ok(self.is_unmarked && self.state()? == State::NotBegun)
    }

    /// Refuses to overwrite places that may hold other data, as no marker reserves them.
    pub(super) fn check_way(&mut self, state: &State, goes_back: bool) -> Result<(), MoveError> {
        match state {
            State::NotBegun if self.is_unmarked && !goes_back => Err(MoveError::NotBegun),
            State::Moved if self.is_unmarked && goes_back => {
                let moves = self.payload.realign.moves();
                let is_over =
                    |from: Span| moves.iter().any(|one| one.destination().is_none_or(|to| to.overlaps(from)));
                let is_kept = !moves.iter().any(|one| is_over(one.from));
                let besides = self.payload.besides();
                let is_free = is_kept && self.with_disks(|disks, place| is_same(disks, place, &besides))?;
                if is_free { Ok(()) } else { Err(MoveError::NoWayBack) }
            }
            _ => Ok(()),
        }
    }
}
