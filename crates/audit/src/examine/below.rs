//! The devices beneath a device.

use std::collections::BTreeSet;

use straddle_device::live::Machine;

/// Returns the kernel names of the disks beneath the device `name`: those that have no device below
/// themselves.
pub(crate) fn disks(machine: &Machine, name: &str) -> BTreeSet<String> {
    let mut disks = BTreeSet::new();
    let mut passed = BTreeSet::from([name.to_owned()]);
    let mut left = vec![name.to_owned()];
    while let Some(upper) = left.pop() {
        let below = machine.layers(&upper).0.map(|device| device.below).unwrap_or_default();
        let below: Vec<_> = below.into_iter().filter(|lower| lower.holds_data).collect();
        if below.is_empty() && upper != name {
            disks.insert(upper);
        }
        left.extend(below.into_iter().map(|lower| lower.device).filter(|lower| passed.insert(lower.clone())));
    }
    disks
}
