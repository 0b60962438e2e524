//! Layers whose data begin off a boundary, wherever their partition starts.
//!
//! Invariants: if the format of a layer cannot move its data, the partition is placed so that the
//! data are aligned. If it can, and the partition itself starts on a boundary, that way is named, and the
//! partition moves only if it is asked for.

use straddle_device::topology::USUAL_PHYSICAL;
use straddle_layout::layer::{Facts, Layer};
use straddle_layout::{Partition, Role, Stack};
use straddle_units::{BlockSize, Boundary, ByteCount, KIB, MIB};

/// Where the data of a partition begin that are to be aligned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Anchor {
    /// Their offset in the partition.
    pub(super) offset: ByteCount,
    /// What begins there.
    pub(super) what: &'static str,
    /// The way in which the format itself aligns them.
    pub(super) way: Option<String>,
}

/// Returns where the data of a partition begin, if that is not a multiple of `grain`, but one of `block`.
pub(super) fn anchor(partition: &Partition, grain: Boundary, block: BlockSize) -> Option<Anchor> {
    let start = partition.span.start();
    let mut found: Option<Anchor> = None;
    let mut next = partition.layer.as_ref();
    while let Some(layer) = next {
        let Some((own, what)) = begins(layer) else { break };
        let offset = layer.drive?.checked_add(own)?.checked_since(start)?;
        let is_own = !own.is_multiple_of(grain.size());
        let (what, way) = match found {
            Some(earlier) if !is_own => (earlier.what, earlier.way),
            _ => (what, way(layer)),
        };
        found = Some(Anchor { offset, what, way });
        next = layer.children.first().filter(|_| layer.children.len() == 1 && is_through(layer));
    }
    found.filter(|anchor| {
        !anchor.offset.is_multiple_of(grain.size()) && anchor.offset.is_multiple_of(block.bytes())
    })
}

/// The offset of the data of a partition that is to be placed for them: they are off `grain`, and their format
/// cannot align them.
pub(crate) fn offset(partition: &Partition, grain: Boundary, block: BlockSize) -> Option<ByteCount> {
    anchor(partition, grain, block).filter(|anchor| anchor.way.is_none()).map(|anchor| anchor.offset)
}

/// The offset of a layer's data in it, and their name.
fn begins(layer: &Layer) -> Option<(ByteCount, &'static str)> {
    match &layer.facts {
        Facts::Luks(luks) => Some((ByteCount::new(luks.payload?.get()), "encrypted payload")),
        Facts::Pv(pv) => Some((ByteCount::new(pv.data_start.get()), "first physical extent")),
        Facts::Md(md) => Some((md.data_offset, "part of the array's data")),
        Facts::Mapped(mapped) => Some((ByteCount::new(mapped.payload?.get()), "payload")),
        Facts::Table(table) => Some((first_inside(table)?, "first partition inside")),
        Facts::FileSystem(_) => Some((layer.clusters(USUAL_PHYSICAL)?, "first cluster")),
        Facts::Lv(_) | Facts::Opaque => None,
    }
}

/// The start of the first partition of a table inside another layer, if one place aligns them all.
fn first_inside(table: &Stack) -> Option<ByteCount> {
    let mut starts = table
        .partitions
        .iter()
        .filter(|partition| partition.role != Role::Extended)
        .map(|partition| ByteCount::new(partition.span.start().get()));
    let first = starts.next()?;
    let past = first.remainder(USUAL_PHYSICAL);
    starts.all(|start| start.remainder(USUAL_PHYSICAL) == past).then_some(first)
}

/// Whether what a layer provides is on the partition in one run.
fn is_through(layer: &Layer) -> bool {
    match &layer.facts {
        Facts::Md(md) => md.level == 1,
        Facts::Luks(_) | Facts::Mapped(_) => true,
        _ => false,
    }
}

/// The way in which the format of a layer moves its data; `None` if it has none.
fn way(layer: &Layer) -> Option<String> {
    match &layer.facts {
        Facts::Pv(_) => Some(
            "make another physical volume with pvcreate --dataalignment 1m, and move the extents there \
             (vgextend, pvmove, vgreduce)"
                .to_owned(),
        ),
        // Levels that can be reshaped (mdadm(8), --data-offset).
        Facts::Md(md) if [4, 5, 6, 10].contains(&md.level) => {
            let offset = md.data_offset.get().next_multiple_of(MIB) / KIB;
            Some(format!("mdadm --grow --data-offset={offset}K on the array, if its members have room"))
        }
        _ => None,
    }
}

/// The boundary of starts of a partition whose data begin at this offset.
pub(crate) fn starts(grain: Boundary, offset: ByteCount) -> Boundary {
    let size = grain.size();
    let back = offset.remainder(size);
    let phase = grain.phase().checked_add(size).and_then(|phase| phase.checked_sub(back));
    phase.and_then(|phase| Boundary::new(size, phase.remainder(size))).unwrap_or(grain)
}
