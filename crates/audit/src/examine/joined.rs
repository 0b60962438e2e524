//! What stands on several targets of a run is judged with the sectors of all of them, and reported once.

use std::collections::{BTreeMap, BTreeSet};

use straddle_device::live::{LiveDevice, Machine};
use straddle_layout::layer::{Facts, Layer, Mapped};
use straddle_layout::{Content, Stack, VolumeKind};
use straddle_units::{BlockSize, ByteCount};

use crate::causes::Seen;
use crate::examine::{Examined, Options};
use crate::fit;

const BCACHE: Content = Content::Volume(VolumeKind::Bcache);

#[derive(Default)]
struct Joined {
    /// The largest below each array and each logical volume, by UUID.
    sectors: BTreeMap<String, BlockSize>,
    /// By the UUID of the set.
    caches: Vec<(String, ByteCount)>,
}

/// Adds findings on contents that do not fit the sectors of another target that they are on as well.
pub(crate) fn settle(examined: &mut [&mut Examined], options: &Options) {
    if examined.len() < 2 {
        return;
    }
    let mut joined = Joined::default();
    for one in &mut *examined {
        each(one, &mut |layer, sectors| {
            joined.add(layer, sectors);
            false
        });
    }
    for one in examined {
        if each(one, &mut |layer, sectors| joined.adopt(layer, sectors)) {
            one.fit_again(options);
        }
    }
}

impl Joined {
    fn add(&mut self, layer: &Layer, sectors: BlockSize) {
        let above = fit::sectors_above(layer, sectors);
        if is_joined(layer) {
            let largest = self.sectors.entry(layer.uuid.clone()).or_insert(above);
            *largest = above.max(*largest);
        }
        if let (BCACHE, Facts::Mapped(Mapped { payload: None, block: Some(block), .. })) =
            (layer.kind, &layer.facts)
        {
            self.caches.push((layer.uuid.clone(), *block));
        }
    }

    fn adopt(&self, layer: &mut Layer, sectors: BlockSize) -> bool {
        let above = fit::sectors_above(layer, sectors);
        if let Some(largest) = self.sectors.get(&layer.uuid).filter(|size| is_joined(layer) && **size > above)
        {
            layer.logical = Some(*largest);
            return true;
        }
        match (layer.kind, &mut layer.facts) {
            (BCACHE, Facts::Mapped(mapped)) if mapped.payload.is_some() => {
                let of_set =
                    self.caches.iter().filter(|(set, _)| layer.uuid.is_empty() || *set == layer.uuid);
                mapped.cache = of_set.map(|(_, block)| *block).max();
                mapped.cache > mapped.block
            }
            _ => false,
        }
    }
}

fn is_joined(layer: &Layer) -> bool {
    matches!(layer.kind, Content::LogicalVolume | Content::Volume(VolumeKind::Md)) && !layer.uuid.is_empty()
}

/// Returns whether `visit` did for any layer. It gets the size of the sectors that the layer is on.
fn each(one: &mut Examined, visit: &mut dyn FnMut(&mut Layer, BlockSize) -> bool) -> bool {
    let sectors = one.target.topology.logical.value();
    let Stack { layer, partitions, .. } = &mut one.stack;
    let mut is_met = false;
    for root in layer.iter_mut().chain(partitions.iter_mut().filter_map(|one| one.layer.as_mut())) {
        is_met |= below(root, sectors, visit);
    }
    is_met
}

fn below(
    layer: &mut Layer,
    sectors: BlockSize,
    visit: &mut dyn FnMut(&mut Layer, BlockSize) -> bool,
) -> bool {
    let mut is_met = visit(layer, sectors);
    let above = fit::sectors_above(layer, sectors);
    for child in &mut layer.children {
        is_met |= below(child, above, visit);
    }
    is_met
}

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
    // A device may be expanded on one of two ways only.
    for holder in &device.holders {
        names.insert(holder.name.clone());
        add_holders(holder, names);
    }
}

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
