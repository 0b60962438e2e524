//! Whether the layers on a misaligned start make up for it.
//!
//! LVM and cryptsetup follow the kernel's alignment offset by default: their data on a misaligned partition is
//! aligned, and moving the partition would misalign it.

use straddle_layout::Partition;
use straddle_layout::layer::{Facts, Layer, Lv, Pv};
use straddle_layout::view::Piece;
use straddle_units::{Boundary, ByteCount, ByteOffset, Span};

use crate::way::called;

const LINEAR: i32 = -1;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Above {
    /// Layers whose data is on the boundary again.
    pub(crate) back: Vec<String>,
    /// Layers whose data also misses it.
    pub(crate) off: Vec<String>,
}

impl Above {
    pub(crate) fn of<'a>(layers: impl IntoIterator<Item = &'a Layer>, boundary: Boundary) -> Self {
        let mut above = Self::default();
        layers.into_iter().for_each(|layer| above.look(layer, boundary));
        above
    }

    pub(crate) fn makes_up(&self) -> bool {
        !self.back.is_empty() && self.off.is_empty()
    }

    pub(crate) fn is_split(&self) -> bool {
        !self.back.is_empty() && !self.off.is_empty()
    }

    fn look(&mut self, layer: &Layer, boundary: Boundary) {
        // Volumes on other disks, or in a pool, have no place here.
        if matches!(layer.facts, Facts::Lv(_)) && layer.space.is_empty() {
            return;
        }
        let first = layer.clusters(boundary.size()).and_then(|offset| layer.drive?.checked_add(offset));
        // Clusters smaller than a sector straddle nowhere if they fill it.
        let fills = |at: ByteOffset| match &layer.facts {
            Facts::FileSystem(fs) => {
                fs.cluster.is_some_and(|cluster| boundary.past(at).is_multiple_of(cluster))
            }
            _ => false,
        };
        let pieces = data(layer);
        let is_on = |piece: &Piece| boundary.skew(piece.span.start(), piece.drive) == ByteCount::ZERO;
        if first.is_some_and(fills) || !pieces.is_empty() && pieces.iter().all(is_on) {
            self.back.push(called(layer));
            return;
        }
        let seen = (self.back.len(), self.off.len());
        match &layer.facts {
            Facts::Table(table) => {
                for partition in table.partitions.iter().filter(|p| p.role != straddle_layout::Role::Extended)
                {
                    self.look_at_partition(layer, partition, boundary);
                }
            }
            Facts::Pv(_) => {
                for volume in &layer.children {
                    let off = self.off.len();
                    self.look(volume, boundary);
                    self.name_off(off, || called(volume));
                }
            }
            _ => layer.children.iter().for_each(|child| self.look(child, boundary)),
        }
        if seen == (self.back.len(), self.off.len()) {
            self.off.push(called(layer));
        }
    }

    fn name_off(&mut self, since: usize, name: impl Fn() -> String) {
        if self.off.len() > since {
            self.off.truncate(since);
            self.off.push(name());
        }
    }

    fn look_at_partition(&mut self, table: &Layer, partition: &Partition, boundary: Boundary) {
        let name = || format!("partition {}", partition.number);
        let Some(piece) = nested(table, partition) else { return };
        if boundary.skew(piece.span.start(), piece.drive) == ByteCount::ZERO {
            self.back.push(name());
            return;
        }
        let seen = (self.back.len(), self.off.len());
        above_partition(table, partition).for_each(|layer| self.look(layer, boundary));
        self.name_off(seen.1, name);
        if seen == (self.back.len(), self.off.len()) {
            self.off.push(name());
        }
    }
}

/// Its first bytes, and with them its contents' signature, lie on another member.
pub(crate) fn begins_elsewhere(layer: &Layer) -> bool {
    let Facts::Md(md) = &layer.facts else { return false };
    let is_spread = md.level == LINEAR || md.stripe().is_some();
    is_spread
        && md.raid_disks > 1
        && layer.children.is_empty()
        && layer.space.iter().all(|piece| piece.span.start() != ByteOffset::ZERO)
}

pub(crate) fn above_partition<'a>(
    table: &'a Layer,
    partition: &Partition,
) -> impl Iterator<Item = &'a Layer> + Clone + use<'a> {
    let start = partition.span.start();
    table.children.iter().filter(move |child| child.below.start() == start)
}

pub(crate) fn nested(table: &Layer, partition: &Partition) -> Option<Piece> {
    table.space.iter().find_map(|piece| {
        let below = piece.span.start().max(partition.span.start());
        let end = piece.span.end().min(partition.span.end());
        let len = end.checked_since(below).filter(|len| *len != ByteCount::ZERO)?;
        let drive = piece.drive.checked_add(below.checked_since(piece.span.start())?)?;
        let at = ByteOffset::new(below.checked_since(partition.span.start())?.get());
        Some(Piece { span: Span::new(at, len)?, below, drive })
    })
}

/// All pieces of a striped segment are misaligned by as much as its start: each is one run.
fn of_segments(lv: &Lv, space: &[Piece]) -> Vec<Piece> {
    let mut pieces: Vec<Piece> = Vec::new();
    for piece in space {
        let at = piece.span.start();
        let segment = lv.segments.iter().find(|s| s.span.start() <= at && at < s.span.end());
        let striped = segment.filter(|segment| segment.stripe_size != ByteCount::ZERO);
        let whole = striped.and_then(|segment| {
            let below = segment.on_pv?;
            let drive = piece.drive.checked_back(piece.below.checked_since(below)?)?;
            Some(Piece { span: segment.span, below, drive })
        });
        let piece = whole.unwrap_or(*piece);
        if pieces.last() != Some(&piece) {
            pieces.push(piece);
        }
    }
    pieces
}

fn from_first_extent(layer: &Layer, pv: &Pv) -> Vec<Piece> {
    let counted = |piece: &Piece| {
        let start = piece.span.start().checked_since(pv.data_start)?;
        let span = Span::new(ByteOffset::new(start.get()), piece.span.len())?;
        Some(Piece { span, ..*piece })
    };
    layer.space.iter().filter_map(counted).collect()
}

/// Of a physical volume from the first extent on. All chunks of a striped RAID member are misaligned by as much as
/// the first, and so is a member without known runs, such as a spare.
pub(crate) fn data(layer: &Layer) -> Vec<Piece> {
    match &layer.facts {
        Facts::Pv(pv) => from_first_extent(layer, pv),
        Facts::Md(md) if layer.space.is_empty() || (md.stripe().is_some() && md.version != "external") => {
            let start = |at: ByteOffset| at.checked_add(md.data_offset);
            let piece = layer.drive.and_then(start).zip(start(layer.below.start()));
            let piece = piece.map(|(drive, below)| Piece { span: Span::first(md.data_size), below, drive });
            piece.into_iter().collect()
        }
        Facts::Lv(lv) => of_segments(lv, &layer.space),
        _ => layer.space.clone(),
    }
}
