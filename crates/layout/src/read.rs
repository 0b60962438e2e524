//! Reading everything on a medium: its table, and every layer on each partition or on the whole.

use straddle_device::{Medium, ReadError, Watched};
use straddle_units::{BlockSize, Span};

use crate::descend::read_layers;
use crate::model::content::Content;
use crate::model::layer::Layer;
use crate::model::stack::{Partition, Problem, Stack, TableKind};
use crate::model::view::View;
use crate::reader::Reader;
use crate::tables::read::{Known, checked, content_stack, hybrid_iso, looked_into, read_checked, read_table};
use crate::unclaimed::unclaimed;

/// Reads what `medium` holds as [`read_stack`](crate::read_stack) does, and every layer on each partition, or
/// on the whole medium if there is no table.
pub fn read_all(
    medium: &dyn Medium,
    device_block: Option<BlockSize>,
    forced: Option<BlockSize>,
) -> Result<Stack, ReadError> {
    read_followed(medium, Known { device: device_block, forced }, read_checked)
}

/// As [`read_all`], for a disk whose partitions are in use: its table counts, even if the disk is marked as
/// an array member.
pub fn read_in_use(
    medium: &dyn Medium,
    device_block: Option<BlockSize>,
    forced: Option<BlockSize>,
) -> Result<Stack, ReadError> {
    let known = Known { device: device_block, forced };
    read_followed(medium, known, |reader, known| checked(reader, read_table(reader, known)))
}

/// As [`read_all`], for a disk that is in use as a whole: the content that fills it counts, even if there is
/// a table beside it.
pub fn read_whole_in_use(
    medium: &dyn Medium,
    device_block: Option<BlockSize>,
    forced: Option<BlockSize>,
) -> Result<Stack, ReadError> {
    let known = Known { device: device_block, forced };
    read_followed(medium, known, |reader, known| match reader.whole() {
        Some(content) => content_stack(reader, content, known),
        None => read_checked(reader, known),
    })
}

fn read_followed(
    medium: &dyn Medium,
    known: Known,
    table: impl FnOnce(&Reader<'_>, Known) -> Stack,
) -> Result<Stack, ReadError> {
    let reader = Reader::open(medium, known.block())?;
    let mut stack = table(&reader, known);
    follow(medium, &mut stack);
    stack.hybrid_iso = hybrid_iso(&reader, &stack);
    Ok(stack)
}

/// Reads the layers on each partition, or on the whole medium if there is no table.
fn follow(medium: &dyn Medium, stack: &mut Stack) {
    let watched = Watched::new(medium);
    let drive = View::of_drive(&watched);
    let block = Some(stack.block);
    let mut unread: Vec<Problem> = Vec::new();
    let mut note = |number: Option<u32>| {
        unread.extend(watched.take().map(|(at, why)| Problem::Unreadable {
            number,
            at,
            why: why.to_string(),
        }));
    };
    if matches!(stack.kind, TableKind::Content(_) | TableKind::None) {
        stack.layer = read_layers(&drive, Span::first(medium.len()), block);
        note(None);
    }
    for partition in looked_into(stack) {
        partition.layer = read_layers(&drive, partition.span, block);
        partition.content = partition.layer.as_ref().map(|layer| layer.kind);
        partition.unclaimed = unclaimed(medium, partition);
        note(Some(partition.number));
    }
    stack.problems.append(&mut unread);
    let cut: Vec<Problem> = match &stack.layer {
        Some(layer) => cut_short(&drive, None, layer).into_iter().collect(),
        None => {
            let of_partition =
                |partition: &Partition| cut_short(&drive, Some(partition.number), partition.layer.as_ref()?);
            stack.partitions.iter().filter_map(of_partition).collect()
        }
    };
    stack.problems.extend(cut);
}

/// The problem that a layer's own record of its size reaches past the end of what it is on.
fn cut_short(drive: &View<'_>, number: Option<u32>, layer: &Layer) -> Option<Problem> {
    let (start, len) = (layer.drive?, layer.below.len());
    let recorded = match layer.kind {
        Content::Named(named) => crate::fs::recorded_end_of_named(named.name, &drive.slice(start, len)),
        _ => layer.recorded_end(),
    }?;
    let at = start.checked_add(len)?;
    (recorded > len).then_some(Problem::CutShort { number, content: layer.kind, at, recorded, len })
}
