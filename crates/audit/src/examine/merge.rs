//! Findings that several targets of a run share.

use std::collections::{BTreeMap, BTreeSet};

use crate::causes::Seen;
use straddle_device::live::{LiveDevice, Machine};

use crate::examine::Examined;

/// Reports findings that several targets share at one of them only.
pub(crate) fn merge(examined: &mut [&mut Examined], machine: &Machine) {
    let mut seen: Vec<Seen<'_>> = Vec::new();
    for one in examined {
        let (above, on) = all_above(machine, one);
        let below =
            one.target.kernel_name.as_deref().map(|name| disks_below(machine, name)).unwrap_or_default();
        let Examined { name, target, findings, .. } = &mut **one;
        seen.push(Seen { name, device: target.kernel_name.as_deref(), above, on, below, findings });
    }
    crate::repeated::merge_targets(&mut seen);
}

/// The names of the devices above a target or one of its partitions, and those above each partition by number.
fn all_above(machine: &Machine, examined: &Examined) -> (BTreeSet<String>, BTreeMap<u32, BTreeSet<String>>) {
    let target = &examined.target;
    let above = |name: &str| {
        let mut names = BTreeSet::new();
        if let Some(device) = machine.layers(name).0 {
            add_holders(&device, &mut names);
        }
        names
    };
    let partitions = target.kernel_partitions.iter().flatten();
    let on: BTreeMap<_, _> = partitions.map(|partition| (partition.number, above(&partition.name))).collect();
    let whole = target.kernel_name.as_deref().map(above).unwrap_or_default();
    (on.values().flatten().cloned().chain(whole).collect(), on)
}

fn add_holders(device: &LiveDevice, names: &mut BTreeSet<String>) {
    // A device that is reached by two ways may be expanded on one of them only.
    for holder in &device.holders {
        names.insert(holder.name.clone());
        add_holders(holder, names);
    }
}

/// The names of the disks beneath the device `name`: those that have no device below themselves.
fn disks_below(machine: &Machine, name: &str) -> BTreeSet<String> {
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
