//! Merging the disk's view and the kernel's view into one tree.

use straddle_device::live::is_part_of_volume;

use crate::model::content::Content;
use crate::model::layer::{Facts, Layer};
use crate::volumes::SEALED;

/// Merges the two views of one partition. Figures and positions from the disk are kept. What only the kernel
/// knows is added: names, mount points, and layers that the disk does not show.
pub fn merge(on_disk: Option<Layer>, live: Option<Layer>) -> Option<Layer> {
    match (on_disk, live) {
        (Some(on_disk), Some(live)) => Some(merge_layer(on_disk, &live)),
        (on_disk, live) => on_disk.or(live),
    }
}

fn merge_layer(mut layer: Layer, live: &Layer) -> Layer {
    match partner(&layer, std::slice::from_ref(live)) {
        Some(same) => {
            let is_file_system = matches!(layer.facts, Facts::FileSystem(_)) || layer.kind.is_swap();
            if !same.name.is_empty() && (layer.name.is_empty() || is_file_system) {
                layer.name.clone_from(&same.name);
            }
            if layer.uuid.is_empty() {
                layer.uuid.clone_from(&same.uuid);
            }
            if layer.drive.is_none() {
                layer.drive = same.drive;
            }
            layer.logical = same.logical;
            if layer.space.is_empty() {
                layer.space.clone_from(&same.space);
            }
            if matches!(layer.facts, Facts::Opaque) {
                layer.facts = same.facts.clone();
            }
            // What stands on a part of a volume belongs to that volume.
            if !is_hidden(&layer) {
                layer.children = merge_children(std::mem::take(&mut layer.children), &same.children);
            }
            if !layer.children.is_empty() {
                layer.remarks.retain(|remark| remark != SEALED);
            }
        }
        None if layer.kind.is_firmware_raid() => {
            let children = vec![live.clone()];
            let bare = Layer::new(layer.kind, Facts::Opaque, layer.below, layer.drive);
            layer = Layer { uuid: layer.uuid, logical: layer.logical, children, ..bare };
        }
        // The disk's view is kept.
        None if is_volume(live) && is_volume(&layer) => {}
        None => layer.children = merge_children(layer.children, std::slice::from_ref(live)),
    }
    layer
}

/// There can be only one such layer in a place.
fn is_volume(layer: &Layer) -> bool {
    matches!(
        layer.facts,
        Facts::Md(_) | Facts::Pv(_) | Facts::Luks(_) | Facts::FileSystem(_) | Facts::Table(_)
    )
}

fn merge_children(on_disk: Vec<Layer>, live: &[Layer]) -> Vec<Layer> {
    let known: Vec<&Layer> = on_disk.iter().filter_map(|layer| partner(layer, live)).collect();
    let mut added = Vec::new();
    leftovers(live, &known, &mut added);
    let mut merged: Vec<Layer> = on_disk
        .into_iter()
        .map(|layer| match partner(&layer, live) {
            Some(same) => merge_layer(layer, same),
            None => layer,
        })
        .collect();
    // If both views have different contents, the disk's is kept.
    let has_content = merged.iter().any(is_volume);
    added.retain(|layer| !(has_content && is_volume(layer)));
    merged.extend(added);
    merged
}

/// Collects the layers among `live` that are neither in `known` nor on the way to one. In place of those on the way,
/// and of those that the disk never shows, the layers above are collected.
fn leftovers(live: &[Layer], known: &[&Layer], added: &mut Vec<Layer>) {
    for layer in live {
        if known.iter().any(|known| std::ptr::eq(*known, layer)) {
            continue;
        }
        if is_hidden(layer) || known.iter().any(|known| contains(layer, known)) {
            leftovers(&layer.children, known, added);
        } else {
            added.push(layer.clone());
        }
    }
}

/// LVM lists such a part only on request (`lvs -a`).
fn is_hidden(layer: &Layer) -> bool {
    layer.kind == Content::LogicalVolume && (layer.name.ends_with(')') || is_part_of_volume(&layer.name))
}

fn contains(layer: &Layer, other: &Layer) -> bool {
    layer.children.iter().any(|child| std::ptr::eq(child, other) || contains(child, other))
}

/// The live layer that corresponds to `layer`: of the same kind, and for a volume of the same name. Mappings of the
/// kernel in between (a mirror's images, the integrity layer of LUKS) are skipped.
fn partner<'a>(layer: &Layer, live: &'a [Layer]) -> Option<&'a Layer> {
    let is_same = |other: &Layer| {
        other.kind == layer.kind && (layer.kind != Content::LogicalVolume || volume(other) == volume(layer))
    };
    let same: Vec<&Layer> = live.iter().filter(|other| is_same(other)).collect();
    match same[..] {
        [] => {
            let is_between =
                |other: &&Layer| matches!(other.facts, Facts::Mapped(_) | Facts::Lv(_) | Facts::Opaque);
            live.iter().filter(is_between).find_map(|other| partner(layer, &other.children))
        }
        [only] => Some(only),
        _ => same.into_iter().find(|other| other.below.start() == layer.below.start()),
    }
}

fn volume(layer: &Layer) -> &str {
    layer.name.rsplit('/').next().unwrap_or_default()
}
