//! What a disk counts as that could be two things, by what of it is in use: the other is left over.

use anyhow::Result;
use straddle_device::Target;
use straddle_device::live::{LiveDevice, LiveKind, Owner};
use straddle_layout::{Beside, Stack, TableKind};

use super::Run;

/// What is on a disk that is taken for a whole and whose partitions are in use, or the other way round.
pub(super) fn stack(target: &Target, run: &Run, stack: &Stack) -> Result<Option<Stack>> {
    let Some(medium) = target.medium.as_deref() else { return Ok(None) };
    let (block, forced) = (Some(target.topology.logical.value()), run.options.logical);
    match stack.kind {
        TableKind::Content(_) if is_in_partitions(target, run) => {
            let is_table = |found: &Beside| found.is_table;
            let has_table = straddle_layout::beside(medium, stack)?.iter().any(is_table);
            Ok(has_table.then(|| straddle_layout::read_in_use(medium, block, forced)).transpose()?)
        }
        TableKind::Mbr if !is_in_partitions(target, run) && is_content(target, run) => {
            let is_rival = straddle_layout::rival_content(medium, stack)?.is_some();
            Ok(is_rival.then(|| straddle_layout::read_whole_in_use(medium, block, forced)).transpose()?)
        }
        _ => Ok(None),
    }
}

/// Whether somebody uses the device as it is, and not a partition of it.
pub(super) fn is_whole(target: &Target, run: &Run) -> bool {
    target.kernel_name.as_deref().is_some_and(|name| is_used(name, run))
}

/// Whether somebody uses a partition that the kernel lists.
pub(super) fn is_in_partitions(target: &Target, run: &Run) -> bool {
    let listed = target.kernel_partitions.as_deref().unwrap_or_default();
    listed.iter().any(|partition| is_used(&partition.name, run))
}

fn is_used(name: &str, run: &Run) -> bool {
    let device = run.machine().layers(name).0;
    device.is_some_and(|device| device.used_by.is_used() || !device.holders.is_empty())
}

/// Whether the device is used as what fills it. What stands on it may also show it as it is, with its table: multipath, kpartx.
fn is_content(target: &Target, run: &Run) -> bool {
    let device = target.kernel_name.as_deref().and_then(|name| run.machine().layers(name).0);
    let reads_content = |holder: &LiveDevice| match &holder.kind {
        LiveKind::Dm(mapping) => matches!(mapping.owner, Owner::Lvm | Owner::Luks(_) | Owner::Integrity),
        LiveKind::Bcache => true,
        _ => false,
    };
    device.is_some_and(|device| device.used_by.is_used() || device.holders.iter().any(reads_content))
}
