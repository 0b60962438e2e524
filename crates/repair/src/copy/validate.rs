//! The checks that every plan to copy a disk must pass, wherever it comes from.

use straddle_units::{ByteCount, ByteOffset, Span};

use super::{Copy, CopyError, gap};
use crate::plan::{Change, Entry, Slot};
use crate::realign::anchored;

fn invalid(why: impl Into<String>) -> CopyError {
    CopyError::Invalid(why.into())
}

impl Copy {
    /// Whether a partition, or the data in it for which it is placed, starts on a boundary.
    fn is_aligned(&self, entry: &Entry) -> bool {
        let anchor = self.anchors.iter().find(|(number, _)| *number == entry.number);
        let grain = anchored(self.plan.grain, anchor.map_or(ByteCount::ZERO, |(_, at)| *at));
        let start = self.plan.span(entry).map(Span::start);
        entry.slot == Slot::Extended || start.is_none_or(|start| grain.is_aligned(start))
    }

    pub(super) fn checked(self) -> Result<Self, CopyError> {
        let plan = &self.plan;
        let is_new = plan.fresh && plan.converts.is_none() && plan.wipe.is_empty();
        let entries = &plan.table.partitions;
        if !is_new || entries.iter().any(|entry| entry.change != Change::New) {
            return Err(invalid("it does not create a table"));
        }
        if !self.over.is_empty() && !self.wipes {
            return Err(invalid("it overwrites what is on the new disk, without --wipe"));
        }
        let places: Vec<Span> = (entries.iter())
            .filter(|entry| entry.slot != Slot::Extended)
            .filter_map(|entry| plan.span(entry))
            .collect();
        let mut starts: Vec<ByteOffset> = self.extents.iter().map(|extent| extent.to).collect();
        starts.sort_unstable();
        if starts.windows(2).any(|pair| pair[0] == pair[1]) {
            return Err(invalid("it copies to the same partition twice"));
        }
        let source = Span::first(self.source.size);
        for extent in &self.extents {
            let to = extent.destination();
            let goes_there = to.is_some_and(|to| {
                places.iter().any(|place| place.start() == to.start() && place.contains(to))
            });
            if !goes_there || !source.contains(extent.from) || extent.from.is_empty() {
                return Err(invalid(
                    "it copies something that is not on the source, or that goes to no partition",
                ));
            }
        }
        if self.extents.len() != places.len() || entries.iter().any(|entry| !self.is_aligned(entry)) {
            return Err(invalid("a partition would be empty or misaligned"));
        }
        let room = gap::room(plan);
        let is_over = |span: &Span| !room.contains(*span) || !source.contains(*span);
        let is_twice = self.lead.windows(2).any(|pair| pair[1].start() < pair[0].end());
        if is_twice || self.lead.iter().any(is_over) {
            return Err(invalid("what it copies before the first partition does not exist, or does not fit"));
        }
        match self.references.iter().find(|(number, _)| !entries.iter().any(|entry| entry.number == *number))
        {
            Some((number, _)) => Err(invalid(format!("there is no partition {number}"))),
            None => Ok(self),
        }
    }
}
