//! Checks between partitions, for every kind of table.
//!
//! The law of this module: it compares bytes, not blocks, and reports at most [`MAX_OVERLAPS`] overlaps. A
//! table in which everything overlaps therefore costs no more than a correct one.

use straddle_units::ByteOffset;

use crate::model::stack::{Partition, Problem, Role};

/// The most overlaps to report: further ones add no information.
const MAX_OVERLAPS: usize = 16;

/// The partitions that reach past the end of the medium.
pub(crate) fn out_of_range(partitions: &[Partition], end: ByteOffset) -> impl Iterator<Item = Problem> {
    partitions.iter().filter(move |partition| partition.span.end() > end).map(move |partition| {
        Problem::OutOfRange { number: partition.number, at: partition.span.start().max(end) }
    })
}

/// Returns the pairs of partitions that share bytes, in order of their start.
pub(crate) fn overlaps(partitions: &[Partition]) -> Vec<Problem> {
    let mut sorted: Vec<&Partition> =
        partitions.iter().filter(|partition| !partition.span.is_empty()).collect();
    sorted.sort_by_key(|partition| (partition.span.start(), partition.number));
    let mut problems = Vec::new();
    // Earlier partitions that reach past the start of the present one. In a correct table this is only a
    // container.
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

/// Whether one of the two is the container of the other.
fn is_container_of(one: &Partition, other: &Partition) -> bool {
    matches!(
        (one.role, other.role),
        (Role::Extended, Role::Logical { .. }) | (Role::Logical { .. }, Role::Extended)
    )
}
