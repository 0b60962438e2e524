//! One cause, one finding: what several targets of a run show of the same thing is told once.
//!
//! The law of this module: it drops a finding only where another target of the same run tells it, and says there on which
//! others it shows. The status of a target counts what was dropped, and one that is checked alone keeps all findings.

use std::collections::BTreeSet;

use straddle_audit::Finding;
use straddle_device::live::{LiveDevice, Machine};

use super::Audited;

/// The kernel calls a device misaligned: whatever stands on it inherits that.
const KERNEL_MISALIGNED: &str = "S020";

/// Lists repeated findings at the target that is lowest in the stack, or comes first, and drops them from the others.
pub(super) fn merge(audited: &mut [&mut Audited], machine: &Machine) {
    let above: Vec<BTreeSet<String>> = audited.iter().map(|one| all_above(machine, one)).collect();
    for upper in 0..audited.len() {
        let Some(name) = audited[upper].target.kernel_name.clone() else { continue };
        for index in (0..audited[upper].findings.len()).rev() {
            let finding = &audited[upper].findings[index];
            let first = (0..audited.len()).filter(|lower| *lower != upper).find_map(|lower| {
                let stands_on = above[lower].contains(&name);
                let beside = lower < upper && !above[lower].is_disjoint(&above[upper]);
                let is_same = |other: &Finding| {
                    (stands_on && shows(other, finding)) || (beside && is_one_file_system(other, finding))
                };
                let at = audited[lower].findings.iter().position(is_same)?;
                Some((lower, at))
            });
            if let Some((lower, at)) = first {
                drop_finding(audited, (upper, index), (lower, at), &name);
            }
        }
    }
}

/// Drops a finding, and lists it at the one that it repeats.
fn drop_finding(
    audited: &mut [&mut Audited],
    (upper, index): (usize, usize),
    (lower, at): (usize, usize),
    name: &str,
) {
    let culprit = audited[lower].name.clone();
    audited[upper].whole = Some(audited[upper].status());
    let repeated = audited[upper].findings.remove(index);
    audited[upper].costs.remove(index);
    let what = repeated.layer.as_deref().and_then(|path| path.rsplit(" > ").next());
    let what = what.map_or(String::new(), |what| format!(" ({what})"));
    audited[upper].target.remarks.push(format!("{}{what} is reported at {culprit}", repeated.rule.code));
    let message = &mut audited[lower].findings[at].message;
    match message.contains(SEEN) {
        true => message.push_str(&format!(", {name}")),
        false => message.push_str(&format!("{SEEN}{name}")),
    }
}

/// What stands before the other devices on which a finding shows.
const SEEN: &str = "; the same shows on ";

/// The devices that stand on a target, or on a partition of it.
fn all_above(machine: &Machine, audited: &Audited) -> BTreeSet<String> {
    let target = &audited.target;
    let partitions = target.kernel_partitions.iter().flatten().map(|partition| &partition.name);
    let mut names = BTreeSet::new();
    for name in target.kernel_name.iter().chain(partitions) {
        if let Some(device) = machine.layers(name).0 {
            add_holders(&device, &mut names);
        }
    }
    names
}

fn add_holders(device: &LiveDevice, names: &mut BTreeSet<String>) {
    // A device that is reached again may be followed further on one of the ways only.
    for holder in &device.holders {
        names.insert(holder.name.clone());
        add_holders(holder, names);
    }
}

/// Whether a finding on the lower device is the same as one on a device that stands on it.
fn shows(lower: &Finding, upper: &Finding) -> bool {
    if lower.rule.code != upper.rule.code {
        return false;
    }
    match (&lower.layer, &upper.layer) {
        (Some(lower), Some(upper)) => leads_further(lower, upper),
        (None, None) => lower.rule.code == KERNEL_MISALIGNED,
        _ => false,
    }
}

/// Whether the way `lower`, from a device further down, ends at the layer at which `upper` does. Volumes that LVM hides
/// are on one of them only.
fn leads_further(lower: &str, upper: &str) -> bool {
    let [mut lower, mut upper] = [lower, upper].map(|path| path.rsplit(" > ").peekable());
    if lower.next() != upper.next() {
        return false;
    }
    let is_partition = |part: &str| {
        part.strip_prefix("partition ").is_some_and(|number| number.starts_with(|c: char| c.is_ascii_digit()))
    };
    let (below, above) = (lower.clone().count(), upper.clone().count());
    match (lower.peek(), upper.peek()) {
        // What fills the upper device is on no partition of the lower one's.
        (Some(part), None) => !is_partition(part),
        (Some(part), Some(same)) => part == same && (!is_partition(part) || below > above),
        (None, _) => false,
    }
}

/// Whether two disks show the same file system: on one array, or one logical volume.
fn is_one_file_system(one: &Finding, other: &Finding) -> bool {
    let key = |finding: &Finding| straddle_audit::shared_file_system(finding).map(str::to_owned);
    one.rule.code == other.rule.code && key(one).is_some() && key(one) == key(other)
}

#[cfg(test)]
mod tests {
    use super::leads_further;

    #[test]
    fn only_the_same_layer_is_the_same() {
        // (the way on the lower device, the one on the upper, whether they end at one layer)
        let cases = [
            ("partition 1 > md raid5 md0 > ext4", "ext4", true),
            ("partition 1 > PV vg > LV vg/a > ext4", "ext4", true),
            ("PV vg > LV vg/a > ext4", "LV vg/pool (tpool) > LV vg/a > ext4", true),
            ("md raid1 md0 > partition table > partition 1 > ext4", "partition 1 > ext4", true),
            ("partition 1 > md raid1 md0 > PV vg", "PV vg", true),
            // Another file system of the lower device's own.
            ("partition 2 > ext4", "ext4", false),
            ("partition 1 > ext4", "partition 1 > ext4", false),
            ("partition 1 > PV vg > LV vg/b > ext4", "PV vg > LV vg/a > ext4", false),
            ("partition 1 > md raid5 md0 > xfs", "ext4", false),
            ("ext4", "ext4", false),
        ];
        for (lower, upper, same) in cases {
            assert_eq!(leads_further(lower, upper), same, "{lower:?} {upper:?}");
        }
    }
}
