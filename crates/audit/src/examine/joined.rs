//! What stands on several targets of a run, such as an array or a volume group: one disk does not show the sectors of
//! the others.

use std::collections::BTreeMap;

use straddle_layout::layer::{Facts, Layer, Mapped};
use straddle_layout::{Content, Stack, VolumeKind};
use straddle_units::{BlockSize, ByteCount};

use crate::examine::{Examined, Options};
use crate::fit;

const BCACHE: Content = Content::Volume(VolumeKind::Bcache);

#[derive(Default)]
struct Joined {
    /// The largest sectors below each array and each logical volume, by its UUID.
    sectors: BTreeMap<String, BlockSize>,
    /// The blocks of each cache, with the UUID of its set.
    caches: Vec<(String, ByteCount)>,
}

/// Adds the findings on contents that do not fit the sectors of another target which they are on as well.
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

    /// Records in a layer what other targets show; returns whether that is more than it shows itself.
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

/// Whether other targets may hold a part of it.
fn is_joined(layer: &Layer) -> bool {
    matches!(layer.kind, Content::LogicalVolume | Content::Volume(VolumeKind::Md)) && !layer.uuid.is_empty()
}

/// Visits every layer of a target with the size of the sectors that it is on; returns whether `visit` did for any.
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
