//! What can be wrong between partitions, whatever table lists them.
//!
//! The law of this module: it compares bytes, not blocks, and it reports at most [`MAX_OVERLAPS`] overlaps, so
//! that a table in which everything overlaps costs no more than one that is right.

use straddle_units::ByteOffset;

use crate::model::stack::{Partition, Problem, Role};

/// More overlaps than this say nothing that these do not say.
const MAX_OVERLAPS: usize = 16;

/// The partitions that reach past the end of the medium.
pub(crate) fn out_of_range(partitions: &[Partition], end: ByteOffset) -> impl Iterator<Item = Problem> {
    partitions.iter().filter(move |partition| partition.span.end() > end).map(move |partition| {
        Problem::OutOfRange { number: partition.number, at: partition.span.start().max(end) }
    })
}

/// The pairs of partitions that share bytes, in order of where they start.
pub(crate) fn overlaps(partitions: &[Partition]) -> Vec<Problem> {
    let mut sorted: Vec<&Partition> =
        partitions.iter().filter(|partition| !partition.span.is_empty()).collect();
    sorted.sort_by_key(|partition| (partition.span.start(), partition.number));
    let mut problems = Vec::new();
    // Those before the present one that reach past its start. Where nothing overlaps, this is a container.
    let mut open: Vec<&Partition> = Vec::new();
    for partition in sorted {
        open.retain(|earlier| earlier.span.end() > partition.span.start());
        for earlier in open.iter().filter(|earlier| !is_container_of(earlier, partition)) {
            problems.push(Problem::Overlap {
                first: earlier.number,
                second: partition.number,
                at: partition.span.start(),
            });
            if problems.len() == MAX_OVERLAPS {
                return problems;
            }
        }
        open.push(partition);
    }
    problems
}

/// Whether one of the two is there to contain the other.
fn is_container_of(one: &Partition, other: &Partition) -> bool {
    matches!(
        (one.role, other.role),
        (Role::Extended, Role::Logical { .. }) | (Role::Logical { .. }, Role::Extended)
    )
}
