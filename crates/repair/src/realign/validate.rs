//! The checks that every plan to realign must pass, wherever it comes from.

use crate::relocate::journal_len;
use straddle_units::Span;

use super::{Journal, Realign, RealignError, inner};
use crate::plan::{Change, Entry, Slot, former, span_of};

pub(super) fn invalid(why: impl Into<String>) -> RealignError {
    RealignError::Invalid(why.into())
}

impl Realign {
    pub(super) fn checked(self) -> Result<Self, RealignError> {
        let plan = &self.plan;
        if plan.converts.is_some() || plan.relocate_backup || !plan.wipe.is_empty() {
            return Err(invalid("its table also changes in other ways"));
        }
        self.check_entries()?;
        let kept = self.check_moves()?;
        self.check_journal()?;
        let moves = |number: u32| {
            let is_it = |entry: &Entry| entry.number == number && !kept.contains(&number);
            plan.table.partitions.iter().any(is_it)
        };
        if let Some((number, _)) = self.references.iter().find(|(number, _)| !moves(*number)) {
            return Err(invalid(format!("it lists references to partition {number}, which does not move")));
        }
        Ok(self)
    }

    /// Checks that the new table has the partitions of the old one.
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
                    return Err(invalid(format!("partition {} is new or grows", entry.number)));
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
                    "partition {} is not the same partition as before",
                    entry.number
                )));
            }
        }
        Ok(())
    }

    /// Follows every partition through the moves; returns the numbers of those that stay.
    fn check_moves(&self) -> Result<Vec<u32>, RealignError> {
        self.job([0; 16], Vec::new())?;
        let block = self.plan.block();
        let (mut kept, mut numbers, mut travelling) = (Vec::new(), Vec::new(), Vec::new());
        for entry in &self.plan.table.partitions {
            let number = entry.number;
            let uncounted = || invalid(format!("partition {number} ends past 2^64 bytes bytes"));
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
            let grain = inner::starts(self.plan.grain, self.anchor(number));
            if !grain.is_aligned(after.start()) {
                return Err(invalid(format!("partition {number} would not be aligned")));
            }
            let was = former(from, sectors, block).ok_or_else(uncounted)?;
            if after.len() > was.len() || after.start() == was.start() {
                return Err(invalid(format!("partition {number} would grow, or stay")));
            }
            travelling.push((Span::new(was.start(), after.len()).ok_or_else(uncounted)?, after));
        }
        let space = self.plan.movable_space();
        for one in &self.moves {
            let to = one.destination().filter(|to| space.contains(*to));
            let to = to.ok_or_else(|| invalid("a move leaves the usable space"))?;
            if kept.iter().any(|span| span.overlaps(to)) {
                return Err(invalid("a move overwrites a partition that stays"));
            }
            let moved = travelling.iter_mut().find(|(at, _)| *at == one.from);
            moved.ok_or_else(|| invalid("a move does not belong to a partition"))?.0 = to;
        }
        if travelling.iter().any(|(at, after)| at != after) {
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
        Err(invalid("its journal does not fit at its place"))
    }
}
