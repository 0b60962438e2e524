//! Whether a medium is a member of an array, whatever table it shows.
//!
//! The law of this module: a table that leaves the metadata of an array alone is the array's, or older than it; one that
//! lists a partition over it is the disk's.

use straddle_units::Span;

use crate::model::content::Content;
use crate::model::stack::{Partition, Problem, Role, Stack, TableKind};
use crate::reader::Reader;
use crate::signature::{self, Mark};

/// What makes the whole medium, on which the table `stack` was found, a member of something larger.
pub(crate) fn member(reader: &Reader<'_>, stack: &Stack) -> Option<Content> {
    let is_table = matches!(stack.kind, TableKind::Gpt | TableKind::HybridMbr | TableKind::Mbr);
    let marks = if is_table { signature::everything(reader) } else { signature::at_end(reader) };
    let mut marks = marks.into_iter().filter(|mark| mark.content.is_array_member());
    // A disk's own table does not go past its end; that of a striped array goes past each member's.
    let is_larger = stack.partitions.iter().any(|partition| partition.span.end() > reader.end())
        || stack.problems.iter().any(|problem| matches!(problem, Problem::GptPastEnd { .. }));
    let is_past_table = |mark: &Mark| {
        let is_covered = stack.partitions.iter().any(|partition| covers(partition, mark.at));
        is_larger || !is_covered
    };
    marks.find(is_past_table).map(|mark| mark.content)
}

/// Whether the bytes `at` are in a partition.
pub(crate) fn covers(partition: &Partition, at: Span) -> bool {
    partition.role != Role::Extended && partition.span.contains(at)
}
