//! Deciding what a disk is that could be two things: the one in use counts, the other is left over.

use straddle_device::live::{LiveDevice, LiveKind, Owner};
use straddle_device::{ReadError, Target};
use straddle_layout::{Beside, Content, Stack, TableKind, VolumeKind};

use crate::examine::Examiner;

/// `None` if the first reading agrees with how the disk is used.
pub(crate) fn stack(target: &Target, examiner: &Examiner, stack: &Stack) -> Result<Option<Stack>, ReadError> {
    let Some(medium) = target.medium.as_deref() else { return Ok(None) };
    let (block, forced) = (Some(target.topology.logical.value()), examiner.options().open.logical);
    match stack.kind {
        TableKind::Content(_) if is_in_partitions(target, examiner) => {
            let has_table = straddle_layout::beside(medium, stack)?.iter().any(Beside::is_table);
            Ok(has_table.then(|| straddle_layout::read_in_use(medium, block, forced, false)).transpose()?)
        }
        TableKind::Gpt | TableKind::HybridMbr | TableKind::Mbr
            if !is_in_partitions(target, examiner) && is_content(target, examiner) =>
        {
            let beside = straddle_layout::beside(medium, stack)?;
            let is_rival = straddle_layout::rival_content(stack, &beside).is_some();
            Ok(is_rival.then(|| straddle_layout::read_in_use(medium, block, forced, true)).transpose()?)
        }
        _ => Ok(None),
    }
}

pub(crate) fn is_content(target: &Target, examiner: &Examiner) -> bool {
    let reads_content = |holder: &LiveDevice| match &holder.kind {
        LiveKind::Dm(mapping) => {
            let is_bitlocker = mapping.uuid.starts_with("CRYPT-BITLK-");
            is_bitlocker || matches!(mapping.owner, Owner::Lvm | Owner::Luks(_) | Owner::Integrity)
        }
        LiveKind::Bcache => true,
        _ => false,
    };
    let Some(device) = device(target, examiner) else { return false };
    let shown = shown(&device);
    shown.iter().any(|device| device.used_by.is_used() || device.holders.iter().any(reads_content))
}

/// Whether a partition is in use, whether listed by the kernel or mapped by kpartx.
pub fn is_in_partitions(target: &Target, examiner: &Examiner) -> bool {
    let listed = target.kernel_partitions.as_deref().unwrap_or_default();
    if listed
        .iter()
        .any(|partition| examiner.machine().layers(&partition.name).0.is_some_and(|it| is_used(&it)))
    {
        return true;
    }
    let is_partition = |holder: &LiveDevice| match &holder.kind {
        LiveKind::Dm(mapping) => matches!(mapping.owner, Owner::Partition(_)),
        _ => false,
    };
    let Some(device) = device(target, examiner) else { return false };
    let shown = shown(&device);
    shown.iter().flat_map(|device| &device.holders).any(|holder| is_partition(holder) && is_used(holder))
}

/// Those of the devices above that can be the array of which `content` marks the target as a member.
pub(crate) fn arrays(target: &Target, examiner: &Examiner, content: Content) -> Vec<String> {
    let [md, drbd] = [VolumeKind::Md, VolumeKind::Drbd].map(|kind| content == Content::Volume(kind));
    let is_array = |holder: &&LiveDevice| match &holder.kind {
        LiveKind::Md(_) => !drbd,
        LiveKind::Dm(mapping) => !md && !drbd && mapping.uuid.starts_with("DMRAID-"),
        LiveKind::Disk => drbd && holder.name.starts_with("drbd"),
        _ => false,
    };
    let Some(device) = device(target, examiner) else { return Vec::new() };
    let shown = shown(&device);
    let holders = shown.iter().flat_map(|device| &device.holders);
    holders.filter(is_array).map(|holder| holder.name.clone()).collect()
}

fn device(target: &Target, examiner: &Examiner) -> Option<LiveDevice> {
    // Reading the kernel's devices for an image, which has no name, takes as long as judging it.
    let name = target.kernel_name.as_deref()?;
    examiner.machine().layers(name).0
}

fn is_used(device: &LiveDevice) -> bool {
    device.used_by.is_used() || !device.holders.is_empty()
}

/// Multipath devices show all of the device unchanged, with its table.
fn shown(device: &LiveDevice) -> Vec<&LiveDevice> {
    let mut shown = vec![device];
    let mut next = 0;
    while let Some(lower) = shown.get(next).copied() {
        let is_multipath = |holder: &&LiveDevice| match &holder.kind {
            LiveKind::Dm(mapping) => mapping.owner == Owner::Multipath,
            _ => false,
        };
        shown.extend(lower.holders.iter().filter(is_multipath));
        next += 1;
    }
    shown
}
