//! A plan to realign, as a value that is stored as it is; the room for its journal; and the checks that every plan
//! must pass.
//!
//! Invariants: on the disk itself, the journal is where neither the old table nor the new one has a partition, where
//! no move goes, and, without [`Wanted::wipe`](super::Wanted::wipe), where no data are.

use std::cmp::Reverse;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use straddle_device::{Medium, ReadError};
use straddle_units::{Boundary, ByteCount, ByteOffset, KIB, MIB, Span};

use super::find::GPT_BACKUP;
use super::unallocated::{Debris, Look};
use super::{RealignError, Reference, anchored, checks, guard, places};
use crate::document;
use crate::error::PlanError;
use crate::plan::{Change, Entry, Format, Plan, Slot, span_of};
use crate::relocate::{Job, LARGEST_PAYLOAD, Move, Parts, Traffic, journal_len, journal_len_with};

/// If no move needs copies in the journal: a long window saves seeks.
const DIRECT: ByteCount = ByteCount::new(64 * MIB);
/// With copies: a longer window is hardly faster.
pub(super) const MAX_WINDOW: ByteCount = ByteCount::new(16 * MIB);
/// If there is less room. Every window costs a flush.
const SMALLER: [ByteCount; 4] =
    [ByteCount::new(4 * MIB), ByteCount::new(MIB), ByteCount::new(256 * KIB), ByteCount::new(64 * KIB)];
/// A journal in the middle of free space ends at a multiple of a power of two, to be found whatever the table
/// lists: at least this, and at most this number of places.
const STEP: u64 = MIB;
const PLACES: u64 = 32;
/// The three tables in the journal, in hexadecimal, with the physical sectors around them: two copies of a
/// GPT of 128 entries, or an MBR; and the least.
const TABLES: (usize, usize) = (320 << 10, 16 << 10);
const LEAST: usize = 64 << 10;
/// A physical sector of 4096 bytes.
const GUARD: usize = 8400;
/// The old and the new extended boot record of a logical partition.
const RECORDS: usize = 2 * (GUARD + (4 << 10));

/// Where the journal of the moves can be kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Journal {
    /// In these unallocated bytes of the disk.
    #[serde(rename = "unallocated")]
    Inside(Span),
    /// In a file on another disk (`straddle apply --journal FILE`), because the disk itself has no room.
    #[serde(rename = "file")]
    Elsewhere {
        /// The size of the journal in bytes.
        #[serde(rename = "size_bytes")]
        needed: ByteCount,
    },
}

/// A plan to move partitions. It is always possible.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "Stored", into = "Stored")]
pub struct Realign(pub(super) Stored);

/// What a [`Realign`] is made of.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Realign", title = "straddle realign")]
#[serde(deny_unknown_fields)]
pub struct Stored {
    /// The new partition table, which is written after all data has been moved.
    pub plan: Plan,
    /// The moves, in the order in which they are made.
    pub moves: Vec<Move>,
    /// The physical sectors assumed for the moves.
    #[serde(rename = "physical_sector")]
    pub blocks: Boundary,
    /// The number of bytes that are moved at a time.
    #[serde(rename = "window_bytes")]
    pub window: ByteCount,
    /// Where the journal of the moves can be kept.
    pub journal: Journal,
    /// References to the old positions of partitions, each with the number of the partition.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub references: Vec<(u32, Reference)>,
    /// The partitions that are placed so that the data of a layer in them is aligned: the number of each, and
    /// the offset of that data in bytes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub anchors: Vec<(u32, ByteCount)>,
    /// Whether data outside partitions and known contents may be overwritten.
    #[serde(default, rename = "wipe", skip_serializing_if = "std::ops::Not::not")]
    pub wipes: bool,
}

document::checked_parts!(Realign(Stored), RealignError);

impl Realign {
    pub(super) fn anchor(&self, number: u32) -> ByteCount {
        let found = self.anchors.iter().find(|(of, _)| *of == number);
        found.map_or(ByteCount::ZERO, |(_, offset)| *offset)
    }

    /// The partitions that lose their unused tails, with the number of bytes. What is in the tails is
    /// overwritten, and a rollback does not bring it back.
    pub fn trims(&self) -> Vec<(u32, ByteCount)> {
        let block = self.plan.block();
        let trim = |entry: &Entry| {
            let Change::Moved { sectors, .. } = entry.change else { return None };
            let by = sectors.to_bytes(block)?.checked_sub(entry.sectors.to_bytes(block)?)?;
            (by != ByteCount::ZERO).then_some((entry.number, by))
        };
        places::moving(&self.plan).filter_map(trim).collect()
    }

    /// What has to be done by hand after the move, with the number of the partition.
    pub fn afterwards(&self) -> impl Iterator<Item = (u32, &'static str)> {
        self.references.iter().filter_map(|(number, what)| Some((*number, what.afterwards()?)))
    }

    /// What the moves read and write.
    pub fn traffic(&self) -> Result<Traffic, RealignError> {
        Ok(self.job([0; 16], Vec::new())?.traffic())
    }

    /// The bytes that are moved.
    pub fn total(&self) -> ByteCount {
        ByteCount::new(self.moves.iter().fold(0_u64, |sum, one| sum.saturating_add(one.from.len().get())))
    }

    /// Returns the job that makes the moves.
    pub fn job(&self, id: [u8; 16], payload: Vec<u8>) -> Result<Job, RealignError> {
        Ok(Job::new(Parts {
            size: self.plan.disk.size,
            blocks: self.blocks,
            window: self.window,
            id,
            moves: self.moves.clone(),
            payload,
        })?)
    }

    pub(super) fn checked(self) -> Result<Self, RealignError> {
        let plan = &self.plan;
        if plan.converts.is_some() || plan.relocate_backup || !plan.wipe.is_empty() {
            return Err(invalid("the table also has other changes"));
        }
        self.check_entries()?;
        let kept = self.check_moves()?;
        self.check_journal()?;
        let moves = |number: u32| {
            let is_it = |entry: &Entry| entry.number == number && !kept.contains(&number);
            plan.table.partitions.iter().any(is_it)
        };
        if let Some((number, _)) = self.references.iter().find(|(number, _)| !moves(*number)) {
            return Err(invalid(format!("it lists references to partition {number}, which is not moved")));
        }
        Ok(self)
    }

    fn check_entries(&self) -> Result<(), RealignError> {
        let (before, after) = (&self.plan.before, &self.plan.table.partitions);
        if before.len() != after.len() {
            return Err(invalid("it adds or removes partitions"));
        }
        for entry in after {
            let (start, sectors) = match entry.change {
                Change::Kept => (entry.start, entry.sectors),
                Change::Moved { from, sectors } => (from, sectors),
                Change::New | Change::Grown { .. } => {
                    return Err(invalid(format!("partition {} is new or has grown", entry.number)));
                }
            };
            // The record of a logical partition may move with it.
            let slot = |was: &Entry| match (entry.slot, was.slot) {
                (Slot::Logical { .. }, Slot::Logical { .. }) if entry.change != Change::Kept => was.slot,
                (slot, _) => slot,
            };
            let same = |was: &&Entry| {
                let place = (was.number, was.start, was.sectors, was.slot);
                let rest = (&was.kind, &was.uuid, &was.name, was.attributes, was.bootable);
                place == (entry.number, start, sectors, slot(was))
                    && rest == (&entry.kind, &entry.uuid, &entry.name, entry.attributes, entry.bootable)
            };
            if before.iter().filter(same).count() != 1 {
                return Err(invalid(format!(
                    "partition {} differs from the partition that it replaces",
                    entry.number
                )));
            }
        }
        Ok(())
    }

    /// Returns the numbers of the partitions that stay.
    fn check_moves(&self) -> Result<Vec<u32>, RealignError> {
        self.job([0; 16], Vec::new())?;
        let block = self.plan.block();
        let (mut kept, mut numbers, mut travelling) = (Vec::new(), Vec::new(), Vec::new());
        for entry in &self.plan.table.partitions {
            let number = entry.number;
            let uncounted = || invalid(format!("partition {number} ends beyond byte 2^64"));
            let after = span_of(entry, block).ok_or_else(uncounted)?;
            if entry.slot == Slot::Extended && self.plan.moves_logical() {
                continue;
            }
            let Change::Moved { from, sectors } = entry.change else {
                kept.push(after);
                numbers.push(number);
                continue;
            };
            if entry.slot == Slot::Extended {
                return Err(invalid(format!("partition {number} moves without its logical partitions")));
            }
            let grain = anchored(self.plan.grain, self.anchor(number));
            if !grain.is_aligned(after.start()) {
                return Err(invalid(format!("partition {number} would not be aligned")));
            }
            let was = Span::of_blocks(from, sectors, block).ok_or_else(uncounted)?;
            if after.len() > was.len() || after.start() == was.start() {
                return Err(invalid(format!("partition {number} would grow or would not move")));
            }
            travelling.push((Span::new(was.start(), after.len()).ok_or_else(uncounted)?, after));
        }
        let space = self.plan.movable_space();
        for one in &self.moves {
            let to = one.destination().filter(|to| space.contains(*to));
            let to = to.ok_or_else(|| invalid("a move ends outside the usable space"))?;
            if kept.iter().any(|span| span.overlaps(to)) {
                return Err(invalid("a move overwrites a partition that is not moved"));
            }
            if !travelling.contains(&(one.from, to)) {
                return Err(invalid("a move does not belong to a partition"));
            }
        }
        if self.moves.len() != travelling.len() {
            return Err(invalid("its moves do not match its new table"));
        }
        Ok(numbers)
    }

    fn check_journal(&self) -> Result<(), RealignError> {
        let Journal::Inside(place) = self.journal else { return Ok(()) };
        let is_free = self.unallocated().iter().any(|gap| gap.contains(place));
        let is_whole = self.blocks.is_aligned(place.start()) && self.blocks.is_aligned(place.end());
        let needed = journal_len(&self.job([0; 16], Vec::new())?)?;
        if is_free && is_whole && place.len() >= needed {
            return Ok(());
        }
        Err(invalid("its journal does not fit in its space"))
    }
}

impl Realign {
    pub(super) fn find_journal(&mut self, medium: &dyn Medium, look: Look) -> Result<(), RealignError> {
        let json = serde_json::to_vec(self).map_err(|error| invalid(error.to_string()))?;
        let is_gpt = self.plan.table.format == Format::Gpt;
        let is_logical = |entry: &&Entry| !is_gpt && entry.number > 4;
        let logical = self.plan.table.partitions.iter().filter(is_logical).count();
        let tables = if is_gpt { TABLES.0 } else { TABLES.1 + logical * RECORDS };
        let block_len = usize::try_from(self.plan.block().get()).unwrap_or(0);
        // Two records of each logical partition, old and new.
        let records = self.plan.table.partitions.len().saturating_mul(block_len * 8);
        let records = if self.plan.moves_logical() { records } else { 0 };
        let tables = (tables + guard::boot_blocks(self).len() * GUARD).max(LEAST).saturating_add(records);
        let tables = tables.saturating_add(checks::most_bytes(self.moves.len()));
        let payload = json.len().saturating_add(tables).min(LARGEST_PAYLOAD);
        let distances = self.moves.iter().map(|one| one.from.start().get().abs_diff(one.to.get()));
        let shortest = ByteCount::new(distances.min().unwrap_or_default());
        let block = self.blocks.size();
        let mut debris = Debris::of(medium, self.plan.block());
        let (mut largest, mut data) = (None, None);
        for most in [DIRECT, MAX_WINDOW].into_iter().chain(SMALLER).filter(|most| *most >= block) {
            self.0.window = Job::window(shortest, block, most);
            let job = self.job([0; 16], Vec::new())?;
            if self.window > MAX_WINDOW && job.windows().0 > 0 {
                continue;
            }
            let needed = journal_len_with(&job, payload)?;
            for place in self.places(needed) {
                match self.data_under_journal(&mut debris, place, look) {
                    Ok(None) => {
                        self.0.journal = Journal::Inside(place);
                        return Ok(());
                    }
                    Ok(Some(at)) => data = data.or(Some(at)),
                    Err(ReadError::Io { .. }) => {}
                    Err(error) => return Err(PlanError::from(error).into()),
                }
            }
            largest = largest.or(Some((self.window, needed)));
        }
        if let Some((window, needed)) = largest {
            self.0.window = window;
            self.0.journal = Journal::Elsewhere { needed };
            let why = "which is outside all partitions; to allow this, use --wipe";
            let note = data.map(|at| format!("the journal would overwrite data at byte {at}, {why}"));
            self.0.plan = self.plan.clone().noting(note.into_iter());
        }
        Ok(())
    }

    fn places(&self, needed: ByteCount) -> Vec<Span> {
        let spans = || self.moves.iter().flat_map(|one| one.spans());
        let from = spans().map(|span| span.start().get()).min().unwrap_or(u64::MAX);
        let to = spans().map(|span| span.end().get()).max().unwrap_or(0);
        let far =
            |place: &Span| place.start().get().saturating_sub(to).max(from.saturating_sub(place.end().get()));
        let mut found = Vec::new();
        for gap in self.unallocated() {
            let size = self.plan.disk.size;
            let within = |end: &ByteOffset| *end > gap.start() && *end < gap.end();
            let nominal = nominal_ends(size).filter(within);
            // A backup GPT at the very end would overwrite it, if another program converts the table.
            let backup = ByteCount::new(GPT_BACKUP * self.plan.block().get());
            let before_backup = gap.end().checked_back(backup).filter(within);
            let is_last = self.plan.table.format == Format::Mbr && gap.end().get() == size.get();
            let lasting = nominal.chain(before_backup.filter(|_| is_last)).map(|end| (false, end));
            for (is_listed, end) in lasting.chain([(true, gap.end())]) {
                let Some(end) = self.blocks.floor(end) else { continue };
                let start = end.checked_back(needed).and_then(|start| self.blocks.floor(start));
                let Some(start) = start.filter(|start| *start >= gap.start()) else { continue };
                let place = Span::between(start, end);
                found.extend(place.map(|place| (is_listed, far(&place), Reverse(gap.len()), place)));
            }
        }
        found.sort_by_key(|(is_listed, far, rank, _)| (*is_listed, *far, *rank));
        found.into_iter().map(|(.., place)| place).collect()
    }

    pub(super) fn unallocated(&self) -> Vec<Span> {
        let block = self.plan.block();
        let relinks = self.plan.moves_logical();
        let entries = self.plan.before.iter().chain(&self.plan.table.partitions);
        let entries = entries.filter(|entry| !relinks || entry.slot != Slot::Extended);
        let listed = entries.filter_map(|entry| span_of(entry, block));
        let taken = listed.chain(self.moves.iter().filter_map(|one| one.destination()));
        let taken = taken.chain(self.plan.record_sectors());
        self.plan.movable_space().gaps(taken)
    }
}

pub(super) fn nominal_ends(size: ByteCount) -> impl Iterator<Item = ByteOffset> {
    let step = size.get().div_ceil(PLACES).checked_next_power_of_two().unwrap_or(u64::MAX).max(STEP);
    (1..=size.get() / step).filter_map(move |count| count.checked_mul(step)).map(ByteOffset::new)
}

pub(super) fn invalid(why: impl Into<String>) -> RealignError {
    RealignError::Invalid(why.into())
}
