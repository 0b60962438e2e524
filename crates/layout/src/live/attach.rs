//! Combining the kernel's view of a whole disk with what was read from it.

use std::collections::BTreeSet;

use straddle_device::KernelPartition;
use straddle_device::live::Machine;
use straddle_units::ByteOffset;

use super::{Disagreement, compare, compare_partitions, layers, merge};
use crate::model::layer::Layer;
use crate::model::stack::Stack;

/// Adds to `stack` what the kernel has set up on the disk `name` and its partitions. Returns where the two
/// views differ, and what could not be examined.
pub fn attach(
    machine: &Machine,
    name: &str,
    kernel: &[KernelPartition],
    stack: &mut Stack,
) -> (Vec<Disagreement>, Vec<String>) {
    let mut remarks: BTreeSet<String> = machine.remarks().iter().cloned().collect();
    // A kernel that does not look for partitions on this device does not disagree with the table.
    let unlisted = machine.never_lists_partitions(name).filter(|_| kernel.is_empty());
    let mut disagreements = match unlisted {
        Some(_) => Vec::new(),
        None => compare_partitions(stack, kernel),
    };
    if let Some(why) = unlisted.filter(|_| !stack.partitions.is_empty()) {
        remarks.insert(why.to_owned());
    }
    let mut beside = |on_disk: Option<Layer>, device: &str, start: ByteOffset| {
        let (live, left_out) = machine.layers(device);
        remarks.extend(left_out);
        let live = live.and_then(|device| layers(&device, start));
        if let (Some(on_disk), Some(live)) = (&on_disk, &live) {
            disagreements.extend(compare(on_disk, live));
        }
        merge(on_disk, live)
    };
    if stack.partitions.is_empty() {
        stack.layer = beside(stack.layer.take(), name, ByteOffset::ZERO);
    }
    for partition in &mut stack.partitions {
        let listed = kernel.iter().find(|listed| listed.number == partition.number);
        if let Some(listed) = listed {
            // The kernel's devices are where the kernel says, even if the table has changed since.
            partition.layer = beside(partition.layer.take(), &listed.name, listed.span.start());
        }
    }
    (disagreements, remarks.into_iter().collect())
}
