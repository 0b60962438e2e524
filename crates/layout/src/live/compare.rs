//! Differences between the kernel's list of partitions and the table.

use std::fmt;

use straddle_device::KernelPartition;
use straddle_units::Span;

use crate::model::stack::{Damage, Problem, Role, Stack, TableKind};

/// A partition for which the table and the kernel have different values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Disagreement {
    /// Its number.
    pub partition: u32,
    /// Its bytes according to the table.
    pub on_disk: Option<Span>,
    /// Its bytes according to the kernel.
    pub live: Option<Span>,
}

impl fmt::Display for Disagreement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let said = |span: Option<Span>| match span {
            Some(span) => format!("{} bytes from byte {}", span.len().get(), span.start()),
            None => "nothing".to_owned(),
        };
        let (on_disk, live) = (said(self.on_disk), said(self.live));
        write!(f, "partition {} has {on_disk} on the disk, {live} in the kernel", self.partition)
    }
}

/// Returns where the table and the kernel's list differ, but for extended ones: it lists their first sectors.
pub fn compare_partitions(on_disk: &Stack, kernel: &[KernelPartition]) -> Vec<Disagreement> {
    // An unread table, damaged or for another disk, is a finding of its own.
    let is_unread = |problem: &Problem| {
        matches!(
            problem,
            Problem::GptPrimaryDamaged { .. } | Problem::GptUnusable { .. } | Problem::GptPastEnd { .. }
        ) || matches!(problem.damage(), Damage::Protection | Damage::Sectors)
    };
    if kernel.is_empty() && on_disk.problems.iter().any(is_unread) {
        return Vec::new();
    }
    // So is a partition that passes the disk's end: Linux cuts it off or leaves it out.
    let passes_end = |number: u32| {
        let mut problems = on_disk.problems.iter();
        problems.any(|problem| matches!(problem, Problem::OutOfRange { number: of, .. } if *of == number))
    };
    // Of a dynamic disk, Linux lists the volumes of its database.
    let is_of_kernel =
        matches!(on_disk.kind, TableKind::Kernel | TableKind::Content(_) | TableKind::Foreign(_));
    if is_of_kernel || (on_disk.kind == TableKind::Mbr && on_disk.dynamic().is_some()) {
        return Vec::new();
    }
    let mut found = Vec::new();
    for partition in &on_disk.partitions {
        let (number, span) = (partition.number, partition.span);
        let live = kernel.iter().find(|listed| listed.number == number).map(|listed| listed.span);
        if partition.role != Role::Extended && !passes_end(number) && live != Some(span) {
            found.push(Disagreement { partition: number, on_disk: Some(span), live });
        }
    }
    let is_in_slice = |listed: &&KernelPartition| {
        let slices = on_disk.partitions.iter().filter(|partition| partition.has_foreign_table());
        slices.into_iter().any(|slice| slice.span.contains(listed.span))
    };
    for listed in kernel.iter().filter(|listed| !is_in_slice(listed)) {
        if !on_disk.partitions.iter().any(|partition| partition.number == listed.number) {
            found.push(Disagreement { partition: listed.number, on_disk: None, live: Some(listed.span) });
        }
    }
    found
}
