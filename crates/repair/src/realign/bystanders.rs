//! Partitions that another program's table lists, and the table of the move would not.
//!
//! The law of this module: it only reads. An entry may be dropped if it leads to data that move, or to nothing.

use straddle_layout::Partition;
use straddle_units::{ByteCount, ByteOffset, KIB, Span};

use super::MoveError;
use super::besides::first_data;
use super::carry::Run;
use super::displaced::parts;
use crate::plan::Change;

/// How much of a partition is looked at for data: superblocks are in its first bytes as a rule.
const HEAD: ByteCount = ByteCount::new(128 * KIB);

impl Run<'_> {
    /// Refuses such a table.
    pub(super) fn check_listed(&self) -> Result<(), MoveError> {
        let stack = straddle_layout::read_stack(self.disk, Some(self.payload.realign.plan().block()), None)?;
        match parts(&stack).find(|part| !self.is_known(part)) {
            Some(part) => Err(MoveError::Listed { number: part.number, at: part.span.start() }),
            None => Ok(()),
        }
    }

    /// Whether the move accounts for it.
    fn is_known(&self, part: &Partition) -> bool {
        let (plan, moves) = (self.payload.realign.plan(), self.payload.realign.moves());
        let start = part.span.start();
        let places = || moves.iter().flat_map(|one| [Some(one.from), one.destination()]).flatten();
        let entries = || plan.before().iter().chain(&plan.table().partitions);
        let moved = entries().filter(|entry| matches!(entry.change, Change::Moved { .. } | Change::New));
        let mut starts = places().chain(moved.filter_map(|entry| plan.span(entry))).map(Span::start);
        if entries().any(|entry| plan.span(entry) == Some(part.span)) || starts.any(|at| at == start) {
            return true;
        }
        let mut kept = plan.table().partitions.iter();
        if kept.any(|entry| entry.number == part.number && entry.change == Change::Kept) {
            return false;
        }
        let is_over_data = places().any(|place| place.overlaps(part.span));
        part.content.is_none() && (is_over_data || !self.holds_data(part.span))
    }

    /// What cannot be read may be data.
    fn holds_data(&self, span: Span) -> bool {
        let head = Span::new(span.start(), span.len().min(HEAD)).unwrap_or(Span::first(ByteCount::ZERO));
        first_data(self.disk, vec![head], &mut |_, _| false)
            .map_or(true, |at: Option<ByteOffset>| at.is_some())
    }
}
