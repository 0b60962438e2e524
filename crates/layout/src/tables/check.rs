//! Checks of partitions against each other and the table's own structures. At most [`MAX_OVERLAPS`] of each kind are
//! reported: a table in which everything overlaps costs no more than a correct one.

use straddle_units::{ByteOffset, Span};

use super::marker::is_marker;
use crate::model::stack::{Partition, Problem, Role, Structure};

const MAX_OVERLAPS: usize = 16;

pub(crate) fn out_of_range(partitions: &[Partition], end: ByteOffset) -> impl Iterator<Item = Problem> {
    partitions.iter().filter(move |partition| partition.span.end() > end).map(move |partition| {
        Problem::OutOfRange { number: partition.number, at: partition.span.start().max(end) }
    })
}

pub(crate) fn overlaps(partitions: &[Partition]) -> Vec<Problem> {
    let mut sorted: Vec<&Partition> =
        partitions.iter().filter(|partition| !partition.span.is_empty()).collect();
    sorted.sort_by_key(|partition| (partition.span.start(), partition.number));
    let mut problems = Vec::new();
    // Earlier partitions that reach past the present start: in a correct table only a container.
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

/// A structure of the table in a partition. Records in their container, whatever is in the way of the marker of an
/// unfinished move, and a primary partition over a record, which overlaps the container, do not count.
pub(crate) fn inside(
    partitions: &[Partition],
    structures: impl IntoIterator<Item = (Structure, Span)>,
) -> Vec<Problem> {
    let holds_data = |p: &&Partition| p.role != Role::Extended && !is_marker(p);
    let over = |(what, at): (Structure, Span)| {
        let is_overlap = |p: &&Partition| what == Structure::Record && p.role == Role::Primary;
        let others = partitions.iter().filter(holds_data).filter(|partition| !is_overlap(partition));
        let over = others.into_iter().find(|partition| partition.span.overlaps(at));
        over.map(|p| Problem::TableInside { number: p.number, what, at: at.start().max(p.span.start()) })
    };
    structures.into_iter().filter_map(over).take(MAX_OVERLAPS).collect()
}

fn is_container_of(one: &Partition, other: &Partition) -> bool {
    matches!(
        (one.role, other.role),
        (Role::Extended, Role::Logical { .. }) | (Role::Logical { .. }, Role::Extended)
    )
}
