//! Partition contents that depend on the drive's logical sector size.
//!
//! Invariants: contents that do not fit the new sectors ([`straddle_audit::unfit`]) are refused. Contents that
//! cannot be seen are reported, and refused if their sector size would change.

use straddle_audit::sectors_above;
use straddle_device::Medium;
use straddle_layout::layer::{Facts, Layer, Luks};
use straddle_layout::types::guid_text;
use straddle_layout::view::View;
use straddle_layout::{
    Content, FsKind, Partition, PartitionType, Role, Stack, fat_has_no_files, read_layers,
};
use straddle_units::BlockSize;

use crate::error::PlanError;
use crate::kinds;

/// Checks that everything in the partitions of `stack` can be used in sectors of `new`; returns remarks.
pub(crate) fn check(medium: &dyn Medium, stack: &Stack, new: BlockSize) -> Result<Vec<String>, PlanError> {
    let drive = View::of_drive(medium);
    let mut notes = Vec::new();
    for partition in stack.partitions.iter().filter(|p| p.role != Role::Extended) {
        let Some(layer) = read_layers(&drive, partition.span, Some(stack.block)) else { continue };
        if is_empty_esp(&drive, partition, &layer) {
            notes.push(format!(
                "partition {} has an empty FAT file system made for {}-byte sectors; recreate it after the \
                 conversion (mkfs.fat)",
                partition.number, stack.block
            ));
            continue;
        }
        let mut seen = Vec::new();
        let unfit = straddle_audit::unfit(&layer, new).into_iter().next();
        let fits = unfit.map_or(Ok(()), |unfit| Err(format!("{}: {}", unfit.layer.kind, unfit.misfit)));
        fits.and_then(|()| check_layer(&layer, (stack.block, new), &mut seen)).map_err(|why| {
            PlanError::CannotConvert(format!(
                "partition {} depends on {}-byte sectors: {why}",
                partition.number, stack.block
            ))
        })?;
        notes.extend(seen.into_iter().map(|note| format!("partition {}: {note}", partition.number)));
    }
    Ok(notes)
}

fn is_empty_esp(drive: &View<'_>, partition: &Partition, layer: &Layer) -> bool {
    let is_esp = match partition.kind {
        PartitionType::Guid(guid) => guid_text(guid) == kinds::ESP,
        PartitionType::Mbr(id) => id == 0xEF,
        PartitionType::Unknown => false,
    };
    is_esp
        && layer.kind == Content::FileSystem(FsKind::Vfat)
        && fat_has_no_files(&drive.slice(partition.span.start(), partition.span.len()))
}

fn check_layer(
    layer: &Layer,
    sectors: (BlockSize, BlockSize),
    notes: &mut Vec<String>,
) -> Result<(), String> {
    let kind = layer.kind;
    let mut unseen = |what: &str| {
        if layer.children.is_empty() {
            notes.push(format!(
                "the contents of the {what} are not visible and may depend on the sector size"
            ));
        }
    };
    match &layer.facts {
        Facts::Luks(luks) => notes.extend(check_luks(layer, luks, sectors)?),
        Facts::Md(_) => unseen("RAID"),
        Facts::Lv(_) => unseen(&format!("logical volume {}", layer.name)),
        Facts::Mapped(_) => unseen(kind.name()),
        Facts::Opaque => notes.push(format!("{kind} may not work with another sector size")),
        Facts::FileSystem(_) | Facts::Pv(_) | Facts::Table(_) => {}
    }
    layer.children.iter().try_for_each(|child| check_layer(child, sectors, notes))
}

fn check_luks(
    layer: &Layer,
    luks: &Luks,
    (old, new): (BlockSize, BlockSize),
) -> Result<Option<String>, String> {
    let (old, new) = (sectors_above(layer, old), sectors_above(layer, new));
    if new > old {
        return Err(format!(
            "LUKS{} encrypts in {}-byte sectors, so its mapping would have larger sectors, with which its \
             contents may not work",
            luks.version,
            luks.sector_size.get()
        ));
    }
    Ok((new < old).then(|| "the LUKS mapping will have smaller sectors than before".to_owned()))
}
