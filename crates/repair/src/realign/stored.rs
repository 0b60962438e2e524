//! A plan to realign, as a value that is stored as it is, and the checks that every one must pass.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use straddle_units::{Boundary, ByteCount, Span};

use super::{Journal, RealignError, Reference, anchored, logical};
use crate::document;
use crate::plan::{Change, Entry, Plan, Slot, span_of};
use crate::relocate::{Job, Move, Parts, Traffic, journal_len};

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
        logical::moving(&self.plan).filter_map(trim).collect()
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

pub(super) fn invalid(why: impl Into<String>) -> RealignError {
    RealignError::Invalid(why.into())
}
