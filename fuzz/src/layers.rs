//! The layers on partitions and disks, and properties that must hold whatever the bytes are.

use straddle_device::{Medium, ReadError};
use straddle_layout::layer::{Facts, Layer, MAX_DEPTH, MAX_LAYERS};
use straddle_layout::view::{MAX_PIECES, View};
use straddle_layout::{
    Attributes, Content, FsKind, Partition, PartitionType, Role, Stack, TableKind, Unclaimed, VolumeKind,
};
use straddle_units::{BlockSize, ByteCount, ByteOffset, Lba, LbaCount, Span};

use crate::{Disk, audit};

/// Where the input's disk begins on the drive: the start of a partition that is aligned to everything, to
/// nothing, or to 4 KiB.
const STARTS: [u64; 4] = [0, 63 * 512, 1 << 20, 5 * 4096];

/// A drive on which `disk` is the last partition.
struct Drive<'a> {
    disk: &'a Disk,
    start: u64,
}

impl Medium for Drive<'_> {
    fn len(&self) -> ByteCount {
        ByteCount::new(self.disk.len().get().saturating_add(self.start))
    }

    fn read_at(&self, at: ByteOffset, buf: &mut [u8]) -> Result<(), ReadError> {
        let before = self.start.saturating_sub(at.get()).min(buf.len() as u64);
        let (zeros, rest) = buf.split_at_mut(usize::try_from(before).expect("it is in the buffer"));
        zeros.fill(0);
        self.disk.read_at(ByteOffset::new(at.get() + before - self.start), rest)
    }
}

/// File systems: reads every kind of them from the same bytes, and audits the results.
pub fn filesystems(data: &[u8]) {
    let Some(disk) = Disk::decode(data) else { return };
    let view = View::of_drive(&disk);
    let Some(whole) = Span::new(ByteOffset::ZERO, disk.len()) else { return };
    for &kind in FsKind::ALL {
        let Some((facts, name)) = straddle_layout::file_system(kind, &view) else { continue };
        for size in [facts.sector, facts.log_sector, facts.cluster, facts.node] {
            assert!(size != Some(ByteCount::ZERO), "{kind}: {facts:?}");
        }
        assert!(facts.ashift.is_some() || facts.block != ByteCount::ZERO || kind == FsKind::Zfs);
        let layer = Layer {
            kind: kind.into(),
            name,
            uuid: String::new(),
            below: whole,
            drive: Some(ByteOffset::ZERO),
            facts: Facts::FileSystem(facts),
            space: Vec::new(),
            logical: None,
            children: Vec::new(),
            remarks: Vec::new(),
        };
        let stack = whole_disk(kind.into(), layer);
        audit::layers_on_chosen_topologies(&stack, disk.len(), disk.choice);
    }
}

/// md, LVM, LUKS and other mappings: reads a partition or a whole disk that contains one of `kinds`, with all
/// layers on it, and audits the result. Returns whether there is one, and the input is therefore worth
/// keeping.
pub fn volume(data: &[u8], kinds: &[VolumeKind]) -> bool {
    let Some(mut disk) = Disk::decode(data) else { return false };
    disk.mend_layers();
    let Some((stack, len)) = read(&disk) else { return false };
    let mut layers = stack.layer.iter().chain(stack.partitions.iter().filter_map(|p| p.layer.as_ref()));
    if !layers.any(|layer| kinds.iter().any(|kind| layer.kind == Content::Volume(*kind))) {
        return false;
    }
    check(&stack, len, disk.choice);
    true
}

/// The input as a whole disk, or on a drive with one partition.
fn read(disk: &Disk) -> Option<(Stack, ByteCount)> {
    let start = STARTS[usize::from(disk.choice >> 6)];
    let drive = Drive { disk, start };
    let span = Span::new(ByteOffset::new(start), disk.len())?;
    let layer = straddle_layout::read_layers(&View::of_drive(&drive), span, disk.device_block)?;
    let stack = if start == 0 { whole_disk(layer.kind, layer) } else { one_partition(span, layer)? };
    Some((stack, drive.len()))
}

/// Any disk with its table and all layers.
pub fn layers(data: &[u8]) {
    let Some(mut disk) = Disk::decode(data) else { return };
    disk.mend_layers();
    let Ok(stack) = straddle_layout::read_all(&disk, disk.device_block, disk.forced_block) else { return };
    audit::check_stack(&stack);
    check(&stack, disk.len(), disk.choice);
    audit::examine(disk);
}

/// Everything that is read of an input, for a program that minimises inputs without changing this.
pub fn layers_say(data: &[u8]) -> String {
    let Some(mut disk) = Disk::decode(data) else { return String::new() };
    disk.mend_layers();
    let all = straddle_layout::read_all(&disk, disk.device_block, disk.forced_block);
    format!("{all:?} {:?}", read(&disk))
}

fn whole_disk(kind: Content, layer: Layer) -> Stack {
    Stack {
        kind: TableKind::Content(kind),
        block: BlockSize::B512,
        block_found: false,
        disk_id: Vec::new(),
        usable: None,
        layer: Some(layer),
        partitions: Vec::new(),
        problems: Vec::new(),
        hybrid: Vec::new(),
        hybrid_iso: None,
    }
}

fn one_partition(span: Span, layer: Layer) -> Option<Stack> {
    let (start, count) = (Lba::new(span.start().get() / 512), LbaCount::new(span.len().get() / 512));
    let partition = Partition {
        number: 1,
        start,
        count,
        span: Span::of_blocks(start, count, BlockSize::B512).filter(|span| !span.is_empty())?,
        role: Role::Primary,
        kind: PartitionType::Guid([0x11; 16]),
        attributes: Attributes::default(),
        content: Some(layer.kind),
        layer: Some(layer),
        unclaimed: Unclaimed::Nothing,
    };
    let layer = partition.layer.clone()?;
    let stack = whole_disk(layer.kind, layer);
    Some(Stack { kind: TableKind::Gpt, layer: None, partitions: vec![partition], ..stack })
}

/// Checks what holds for all layers of a drive of `len` bytes, and audits them.
fn check(stack: &Stack, len: ByteCount, choice: u8) {
    let mut count = 0;
    let mut pieces = 0;
    if let Some(layer) = &stack.layer {
        check_layer(layer, len, 1, &mut count, &mut pieces);
    }
    // The limits apply to each partition.
    for layer in stack.partitions.iter().filter_map(|partition| partition.layer.as_ref()) {
        (count, pieces) = (0, 0);
        check_layer(layer, len, 1, &mut count, &mut pieces);
    }
    audit::layers_on_chosen_topologies(stack, len, choice);
}

fn check_layer(layer: &Layer, len: ByteCount, depth: usize, count: &mut usize, pieces: &mut usize) {
    // A logical volume is an additional layer between two levels.
    assert!(depth <= 2 * MAX_DEPTH, "{depth} levels");
    *count += 1;
    *pieces += layer.space.len();
    assert!(*count <= MAX_LAYERS, "{count} layers");
    assert!(*pieces <= 1 << 18, "{pieces} pieces");
    assert!(layer.space.len() <= MAX_PIECES);
    assert!(layer.remarks.len() <= 4096, "{} remarks", layer.remarks.len());
    assert!(layer.drive.is_none_or(|at| at.get() <= len.get()), "{:?} of {len:?}", layer.drive);
    let mut end = ByteOffset::ZERO;
    for piece in &layer.space {
        assert!(piece.span.start() >= end && !piece.span.is_empty(), "{piece:?}");
        end = piece.span.end();
        let on_drive = Span::new(piece.drive, piece.span.len()).expect("it can be counted");
        assert!(on_drive.end().get() <= len.get(), "{piece:?} of {len:?}");
    }
    if let Facts::Table(stack) = &layer.facts {
        audit::check_stack(stack);
    }
    let called = straddle_audit::called(layer);
    assert!(!called.is_empty() && !called.contains(char::is_control), "{called:?}");
    for child in &layer.children {
        check_layer(child, len, depth + 1, count, pieces);
    }
}
