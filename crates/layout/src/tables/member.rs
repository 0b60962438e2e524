//! Recognising array members, whatever table the medium shows.
//!
//! Invariants: a table is the array's, or older than the array, if no partition covers the
//! array's metadata; a table with a partition over the metadata is the disk's.

use straddle_units::Span;

use crate::model::content::Content;
use crate::model::stack::{Partition, Problem, Role, Stack, TableKind};
use crate::reader::Reader;
use crate::signature::{self, Mark};

/// Returns the content by which the whole medium, on which the table `stack` was found, is a member of
/// something larger.
pub(crate) fn member(reader: &Reader<'_>, stack: &Stack) -> Option<Content> {
    let is_table = matches!(stack.kind, TableKind::Gpt | TableKind::HybridMbr | TableKind::Mbr);
    let marks = if is_table { signature::array_members(reader) } else { signature::at_end(reader) };
    // A disk's own table does not reach past its end; the table of a striped array reaches past the end of
    // each member.
    let is_larger = stack.partitions.iter().any(|partition| partition.span.end() > reader.end())
        || stack.problems.iter().any(|problem| matches!(problem, Problem::GptPastEnd { .. }));
    let is_past_table = |mark: &Mark| {
        let is_covered = stack.partitions.iter().any(|partition| covers(partition, mark.at));
        is_larger || !is_covered
    };
    marks.into_iter().find(is_past_table).map(|mark| mark.content)
}

/// Whether a partition contains the bytes `at`.
pub(crate) fn covers(partition: &Partition, at: Span) -> bool {
    partition.role != Role::Extended && partition.span.contains(at)
}
