//! Following the layers from a partition or a disk up to file systems.
//!
//! It goes the way the kernel and its tools would, looking for array members before looking at the first bytes.
//! Limits hold whatever the bytes are; where it stops is reported, as at other disks and members and behind keys.

use std::sync::atomic::{AtomicU64, Ordering};

use straddle_device::{Medium, ReadError};
use straddle_units::{BlockSize, ByteCount, ByteOffset, MIB, Span};

use crate::model::content::{Content, VolumeKind};
use crate::model::layer::{Facts, FileSystem, Layer, MAX_DEPTH, MAX_LAYERS};
use crate::model::stack::{Problem, Role, Stack, TableKind};
use crate::model::view::{Piece, View};
use crate::read::{Known, read_stack_of};
use crate::reader::Reader;
use crate::tables::bsd;
use crate::volumes::{self, Provides, Space, SubVolume, Volume};
use crate::{fs, signature};

/// Places looked at on one drive, whether they hold anything or not.
const MAX_PROBES: usize = 2 * MAX_LAYERS;

/// Pieces kept for all layers together.
const MAX_ALL_PIECES: usize = 1 << 18;

/// The most cuts when mapping spaces: the runs times the pieces of the space below, summed over all layers.
const MAX_CUTS: usize = 1 << 26;

/// Eight groups or containers of the maximum size.
const MAX_METADATA: u64 = 32 * MIB;

/// How often an array's space may be listed again with the runs where the layers found so far continue.
const MAX_PASSES: usize = 3;

/// Reads the layers on the run `span` of `device`, up to file systems; `None` if nothing is recognised there.
/// `block` is the device's logical block size, if known, for partition tables inside other layers.
///
/// `below` of a layer, and of each piece of its space, counts from the first byte of the same device. For the
/// returned layer this is `device`, for a logical volume the physical volume, and for other layers the space below.
pub fn read_layers(device: &View<'_>, span: Span, block: Option<BlockSize>) -> Option<Layer> {
    let mut walk = Walk {
        layers: MAX_LAYERS,
        probes: MAX_PROBES,
        pieces: MAX_ALL_PIECES,
        cuts: MAX_CUTS,
        metadata: MAX_METADATA,
    };
    let place = Nesting { depth: 0, block, may_hold_table: true, is_in_label: false };
    walk.content(device, span, place, &mut Vec::new())
}

#[derive(Clone, Copy)]
struct Nesting {
    depth: usize,
    block: Option<BlockSize>,
    /// Whether Linux or its tools would look for partitions here.
    may_hold_table: bool,
    /// A BSD label may be at the start of its first partition.
    is_in_label: bool,
}

impl Nesting {
    fn above(self, block: Option<BlockSize>) -> Self {
        Self { depth: self.depth + 1, block: block.or(self.block), may_hold_table: true, is_in_label: false }
    }
}

struct Walk {
    layers: usize,
    probes: usize,
    pieces: usize,
    cuts: usize,
    metadata: u64,
}

impl Walk {
    fn content(
        &mut self,
        base: &View<'_>,
        span: Span,
        place: Nesting,
        remarks: &mut Vec<String>,
    ) -> Option<Layer> {
        if place.depth >= MAX_DEPTH {
            let limit =
                format!("more than {MAX_DEPTH} layers are stacked here, so the upper ones were not read");
            remarks.push(limit);
            return None;
        }
        if self.layers == 0 || self.probes == 0 {
            if !remarks.contains(&too_many()) {
                remarks.push(too_many());
            }
            return None;
        }
        self.probes -= 1;
        let local = base.slice(span.start(), span.len());
        // Front signatures of a member with its superblock at the end belong to the array's content.
        let found = match volumes::md_at_end(&local) {
            Some(member) => Inside::Volume(member),
            None => self.identify(&local, span.start(), place, remarks)?,
        };
        self.layers -= 1;
        let kind = match &found {
            Inside::Volume(volume) => volume.kind.into(),
            Inside::Table(_) => Content::Table,
            Inside::Other(kind) => *kind,
        };
        let below = Span::new(span.start(), local.len())?;
        let mut layer = Layer::new(kind, Facts::Opaque, below, base.drive_at(span.start()));
        match found {
            Inside::Volume(volume) => self.volume(&mut layer, volume, &local, place),
            Inside::Table(stack) => self.table(&mut layer, stack, &local, place),
            Inside::Other(Content::FileSystem(kind)) => fs::fill_in(&mut layer, kind, &local),
            Inside::Other(Content::Named(named)) => {
                if let Some(block) = fs::block_of_named(named.name, &local) {
                    layer.facts = Facts::FileSystem(FileSystem { block, ..FileSystem::default() });
                }
            }
            Inside::Other(_) => {}
        }
        Some(layer)
    }

    fn identify(
        &mut self,
        local: &View<'_>,
        start: ByteOffset,
        place: Nesting,
        remarks: &mut Vec<String>,
    ) -> Option<Inside> {
        // Only the first contiguous part can be probed.
        let front = local.slice(ByteOffset::ZERO, front(local));
        let known = Known { device: place.block, forced: None };
        let whole = Reader::open(local, known.block());
        let part = (front.len() < local.len()).then(|| Reader::open(&front, known.block()));
        let named = || {
            let reader = part.as_ref().unwrap_or(&whole).as_ref().ok()?;
            match place.is_in_label {
                false => reader.whole(),
                true => signature::identify_besides_table(reader, Span::first(front.len())),
            }
        };
        // On a partition a table is rare, and looked for last.
        let mut kind = if place.depth == 0 { named() } else { None };
        if place.may_hold_table && kind.is_none() {
            match &whole {
                Ok(reader) => {
                    let stack = read_stack_of(reader, known);
                    match stack.kind {
                        TableKind::Content(content) => kind = Some(content),
                        TableKind::Foreign(_) if !stack.partitions.is_empty() => {
                            return Some(Inside::Table(stack));
                        }
                        TableKind::Foreign(name) => kind = signature::named(name),
                        TableKind::None | TableKind::Kernel => {}
                        TableKind::Gpt | TableKind::HybridMbr | TableKind::Mbr => {
                            if place.depth > 0 || is_of_a_disk(&stack, local.len()) {
                                return Some(Inside::Table(stack));
                            }
                        }
                    }
                }
                Err(error) => remarks.push(format!("the contents cannot be read: {error}")),
            }
        }
        if place.depth > 0 && kind.is_none() {
            kind = named();
        }
        if kind.is_some_and(Content::is_foreign_table)
            && let Some(stack) = bsd::stack(local, start)
        {
            return Some(Inside::Table(stack));
        }
        let kind = kind.or_else(|| volumes::has_second_header(&front).then_some(VolumeKind::Luks.into()))?;
        if self.metadata == 0 {
            remarks.push(format!(
                "this drive has more than {} of metadata, so not all metadata was read",
                ByteCount::new(MAX_METADATA)
            ));
            return Some(Inside::Other(kind));
        }
        let metered = Metered { medium: local, read: AtomicU64::new(0) };
        let found = match kind {
            Content::Volume(kind) => Inside::Volume(volumes::read(kind, &metered)),
            _ => Inside::Other(kind),
        };
        self.metadata = self.metadata.saturating_sub(metered.read.into_inner());
        Some(found)
    }

    fn volume(&mut self, layer: &mut Layer, volume: Volume, local: &View<'_>, place: Nesting) {
        layer.name = volume.name;
        layer.uuid = volume.uuid;
        layer.facts = volume.facts;
        layer.remarks = volume.remarks;
        let start = layer.below.start();
        match volume.provides {
            Provides::Nothing => {}
            Provides::Sealed(space) => {
                let view = self.map(local, &space, &mut layer.remarks);
                layer.space = self.kept(view.pieces(), start, &mut layer.remarks);
            }
            Provides::Open(space) => self.space(layer, &space, local, start, place),
            Provides::Parts(area, parts) => {
                // Positions of an LV and of the PV's own space count from the PV's first byte.
                let view = local.map(local.len(), [(area, area.start())]);
                layer.space = self.kept(view.pieces(), start, &mut layer.remarks);
                for part in parts {
                    if self.layers == 0 {
                        layer.remarks.push(too_many());
                        break;
                    }
                    layer.children.push(self.part(part, local, place));
                }
            }
        }
    }

    fn part(&mut self, part: SubVolume, local: &View<'_>, place: Nesting) -> Layer {
        self.layers -= 1;
        let drive = part.start.and_then(|start| local.drive_at(start));
        let layer = Layer::new(Content::LogicalVolume, part.facts, part.stands, drive);
        let mut layer = Layer { name: part.name, uuid: part.uuid, remarks: part.remarks, ..layer };
        if part.is_sealed {
            let view = self.map(local, &part.space, &mut layer.remarks);
            layer.space = self.kept(view.pieces(), ByteOffset::ZERO, &mut layer.remarks);
        } else {
            self.space(&mut layer, &part.space, local, ByteOffset::ZERO, place.above(None));
        }
        layer
    }

    /// Fills in the space that a layer provides, which is on `local`, and the layers above it. Byte 0 of `local` is
    /// byte `start` of the device from which the layer's own position counts.
    fn space(
        &mut self,
        layer: &mut Layer,
        space: &Space,
        local: &View<'_>,
        start: ByteOffset,
        place: Nesting,
    ) {
        let view = self.map(local, space, &mut layer.remarks);
        layer.space = self.kept(view.pieces(), start, &mut layer.remarks);
        let front = front(&view);
        if front == ByteCount::ZERO {
            return;
        }
        let whole = Span::first(view.len());
        let above = place.above(space.block);
        let mut remarks = Vec::new();
        let mut child = self.content(&view, whole, above, &mut remarks);
        // What begins further on in an array may be on runs that were not listed yet.
        let mut listed = space.with(&child.as_ref().map(begins).unwrap_or_default());
        for _ in 0..MAX_PASSES {
            let Some(wider) = listed else { break };
            remarks.clear();
            let view = self.map(local, &wider, &mut layer.remarks);
            layer.space = self.kept(view.pieces(), start, &mut layer.remarks);
            child = self.content(&view, whole, above, &mut remarks);
            listed = wider.with(&child.as_ref().map(begins).unwrap_or_default());
        }
        layer.remarks.append(&mut remarks);
        if child.is_none() && front < view.len() {
            let remark = format!(
                "only the first {front} of this layer are contiguous here, and their contents are unknown"
            );
            layer.remarks.push(remark);
        }
        layer.children.extend(child);
    }

    fn table(&mut self, layer: &mut Layer, mut stack: Stack, local: &View<'_>, place: Nesting) {
        if front(local) < local.len() {
            // The end of the disk may be missing here.
            stack.problems.retain(|problem| !is_about_the_end(problem));
        }
        let whole = local.slice(ByteOffset::ZERO, local.len());
        layer.space = self.kept(whole.pieces(), layer.below.start(), &mut layer.remarks);
        let is_in_label = matches!(stack.kind, TableKind::Foreign(_));
        let above = Nesting { may_hold_table: false, is_in_label, ..place.above(None) };
        for partition in stack.partitions.iter().filter(|partition| partition.role != Role::Extended) {
            if local.drive_at(partition.span.start()).is_some() {
                let child = self.content(local, partition.span, above, &mut layer.remarks);
                layer.children.extend(child);
            }
        }
        layer.facts = Facts::Table(Box::new(stack));
    }

    fn map<'v>(&mut self, local: &View<'v>, space: &Space, remarks: &mut Vec<String>) -> View<'v> {
        let cuts = space.runs.len().saturating_mul(local.pieces().len());
        if cuts > self.cuts {
            remarks.push("this layer has too many pieces, so its contents were not read".to_owned());
            return local.map(space.len, []);
        }
        self.cuts -= cuts;
        local.map(space.len, space.runs.iter().copied())
    }

    fn kept(&mut self, pieces: &[Piece], start: ByteOffset, remarks: &mut Vec<String>) -> Vec<Piece> {
        let kept = pieces.len().min(self.pieces);
        self.pieces -= kept;
        if kept < pieces.len() {
            remarks.push(format!("this layer has {} pieces, of which {kept} are listed", pieces.len()));
        }
        let moved = |piece: &Piece| {
            let below = start.checked_add(ByteCount::new(piece.below.get()))?;
            Some(Piece { below, ..*piece })
        };
        pieces[..kept].iter().filter_map(moved).collect()
    }
}

enum Inside {
    Volume(Volume),
    Table(Stack),
    Other(Content),
}

fn too_many() -> String {
    format!("this drive has more than {MAX_LAYERS} layers, so not all layers are listed")
}

struct Metered<'a> {
    medium: &'a dyn Medium,
    read: AtomicU64,
}

impl Medium for Metered<'_> {
    fn len(&self) -> ByteCount {
        self.medium.len()
    }

    fn read_at(&self, at: ByteOffset, buf: &mut [u8]) -> Result<(), ReadError> {
        self.read.fetch_add(u64::try_from(buf.len()).unwrap_or(u64::MAX), Ordering::Relaxed);
        self.medium.read_at(at, buf)
    }

    fn zeros_from(&self, at: ByteOffset) -> ByteCount {
        self.medium.zeros_from(at)
    }
}

fn is_of_a_disk(stack: &Stack, len: ByteCount) -> bool {
    !stack.partitions.is_empty()
        && stack.partitions.iter().all(|partition| Span::first(len).contains(partition.span))
}

/// Returns where the data of `layer` begins in the space below, and that of the layers on a table's partitions.
fn begins(layer: &Layer) -> Vec<ByteOffset> {
    let own: Vec<ByteOffset> = match &layer.facts {
        Facts::Table(table) => {
            let on_partitions = layer.children.iter().filter(|child| !matches!(child.facts, Facts::Table(_)));
            let starts = table.partitions.iter().map(|partition| partition.span.start());
            return starts.chain(on_partitions.flat_map(begins)).collect();
        }
        Facts::Pv(pv) => {
            let segments = layer.children.iter().filter_map(|child| match &child.facts {
                Facts::Lv(lv) => Some(lv.segments.iter().filter_map(|segment| segment.on_pv)),
                _ => None,
            });
            std::iter::once(pv.data_start).chain(segments.flatten()).collect()
        }
        Facts::Luks(luks) => luks.payload.into_iter().collect(),
        Facts::Mapped(mapped) => mapped.payload.into_iter().collect(),
        Facts::Md(_) | Facts::Lv(_) | Facts::FileSystem(_) | Facts::Opaque => Vec::new(),
    };
    let base = ByteCount::new(layer.below.start().get());
    own.into_iter().filter_map(|at| at.checked_add(base)).collect()
}

/// The gapless part from the first byte on.
fn front(view: &View<'_>) -> ByteCount {
    let mut end = ByteOffset::ZERO;
    for piece in view.pieces() {
        if piece.span.start() != end {
            break;
        }
        end = piece.span.end();
    }
    ByteCount::new(end.get())
}

fn is_about_the_end(problem: &Problem) -> bool {
    matches!(
        problem,
        Problem::GptBackupDamaged { .. }
            | Problem::GptBackupMisplaced { .. }
            | Problem::GptPastEnd { .. }
            | Problem::OutOfRange { .. }
            | Problem::CutShort { .. }
    )
}
