//! Where a badly placed partition should lie, and the commands that put it there.
//!
//! A fix concerns one partition and leaves all others where they are; laying out a whole disk is a plan.

mod caution;
mod room;
mod shrink;
mod swap;

use std::cmp::Ordering;

use straddle_layout::{Partition, TableKind, Unclaimed};
use straddle_units::{Boundary, ByteCount, ByteOffset, Lba, LbaCount, Span};

use self::caution::caution;
pub use self::shrink::{can_shrink, shrinking};
use crate::boundaries::{GRAIN, required};
use crate::finding::{Command, Fix, Risk};
use crate::shell::operand;
use crate::{Context, severity};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Place {
    start: ByteOffset,
    len: ByteCount,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum How {
    Entry,
    Swap,
    /// With this caution.
    Shrink(&'static str),
}

struct Entry<'a> {
    context: &'a Context<'a>,
    partition: &'a Partition,
    start: Lba,
    count: LbaCount,
}

impl Entry<'_> {
    fn sfdisk(&self) -> String {
        self.line(&format!("start={}, size={}", self.start, self.count))
    }

    /// Pasted a second time, it does not restore a former start.
    fn sfdisk_size(&self) -> String {
        self.line(&format!("size={}", self.count))
    }

    fn line(&self, fields: &str) -> String {
        let (number, target) = (self.partition.number, operand(self.context.target));
        let size = explicit_sector_size(self.context).map(|size| format!("--sector-size {size} "));
        format!("echo '{fields}' | sfdisk {}-N {number} {target}", size.unwrap_or_default())
    }
}

/// Says how the contents of an image get the node that commands on them need.
pub(crate) fn attach(context: &Context<'_>, fix: &mut Fix) {
    if fix.commands.iter().any(|command| command.line.contains(" DEVICE")) {
        let size =
            explicit_sector_size(context).map(|size| format!("--sector-size {size} ")).unwrap_or_default();
        let before = fix.caution.take().map(|caution| caution + "; ").unwrap_or_default();
        fix.caution = Some(format!(
            "{before}before that, losetup --find --show --partscan {size}{} creates the image's block devices",
            operand(context.target)
        ));
    }
}

/// `None` unless a place around the partition would do.
pub(crate) fn relocate(context: &Context<'_>, partition: &Partition) -> Option<Fix> {
    let free = context.stack.free_around(partition, context.size)?;
    // With clusters off the start, a new start does not align them.
    let physical = context.topology.physical.value();
    let first = partition.layer.as_ref().and_then(|layer| layer.clusters(physical));
    let is_off = first.is_some_and(|first| !first.is_multiple_of(physical));
    let keeps = partition.is_found_from_end();
    if keeps && required(context.topology).is_some_and(|required| required.is_aligned(partition.span.start()))
    {
        if partition.unclaimed == Unclaimed::Tail {
            return Some(Fix::advice(
                "none that keeps the contents: the size must not change, because other programs may locate \
                 the data that follows the contents by its distance from the partition's end. If that data \
                 is stale, shrink the partition",
            ));
        }
        return Some(Fix::advice(
            "none that keeps the contents: the size must not change, because the member's metadata is \
             located by its distance from the partition's end; recreate the member in a partition that fills \
             whole physical sectors",
        ));
    }
    // Unknown contents may be located from their end, as the metadata of GELI are.
    let is_unknown = partition.unclaimed == Unclaimed::All && !is_known(partition);
    let places = find_places(context, partition, free)
        .into_iter()
        .map(|place| as_long(context, partition, place))
        .filter(|place| !keeps || place.len == partition.span.len())
        .filter(|place| !is_unknown || place.len <= partition.span.len())
        .filter(|place| !is_off || place.start == partition.span.start());
    let (mut fixes, mut blocked) = (Vec::new(), None);
    for place in places {
        match in_the_way(context, partition, place) {
            Some(byte) => blocked = blocked.or(Some(byte)),
            None => fixes.extend(put(context, partition, place, free)),
        }
    }
    if let Some(byte) = blocked.filter(|_| fixes.is_empty()) {
        return Some(Fix::advice(format!(
            "none in place: the partition would then cover data at byte {byte}, which is currently outside \
             all partitions"
        )));
    }
    fixes.into_iter().rev().max_by_key(|fix| !fix.commands.is_empty())
}

/// Keeps the length if the last partial sector is unused: NTFS and others may look for something at the end.
fn as_long(context: &Context<'_>, partition: &Partition, place: Place) -> Place {
    let old = partition.span;
    let rest = old.len().remainder(context.topology.physical.value());
    let is_grown = place.start != old.start() && place.len > old.len();
    let leaves = |layer| severity::leaves(layer, old.len(), rest);
    let may_be_found = partition.is_found_from_end() || partition.unclaimed == Unclaimed::All;
    if is_grown && (may_be_found || partition.layer.as_ref().is_some_and(leaves)) {
        return Place { len: old.len(), ..place };
    }
    place
}

/// Outside of `partition`: other programs do not look.
fn in_the_way(context: &Context<'_>, partition: &Partition, place: Place) -> Option<ByteOffset> {
    // Without the disk's bytes there are no commands.
    let new = Span::new(place.start, place.len).filter(|_| context.stack.kind != TableKind::Kernel)?;
    new.gaps([partition.span]).into_iter().find_map(context.written)
}

/// Only swap gets another start by a command, which makes the swap again.
fn put(context: &Context<'_>, partition: &Partition, place: Place, free: Span) -> Option<Fix> {
    let block = context.stack.block;
    let start = Lba::from_bytes_exact(place.start, block)?;
    let count = block.blocks_floor(place.len);
    if count == LbaCount::new(0) {
        return None;
    }
    if context.stack.kind == TableKind::Kernel {
        return Some(Fix::advice(format!("recreate it at LBA {start} ({count} sectors)")));
    }
    let entry = Entry { context, partition, start, count };
    let old = partition.span;
    let (moves, shrinks) = (place.start != old.start(), place.len < old.len());
    let by_sfdisk = room::sfdisk_finds_it(context, partition, place, free);
    let remade = swap::of(partition).filter(|_| by_sfdisk && (moves || shrinks));
    let remade = remade.and_then(|layer| swap::remake(layer, &entry));
    let (how, command) = if remade.is_some() {
        (How::Swap, remade)
    } else if shrinks && !moves && is_known(partition) {
        shrink::steps(&entry).map_or((How::Entry, None), |(caution, line)| (How::Shrink(caution), Some(line)))
    } else if moves || shrinks && partition.unclaimed == Unclaimed::All {
        // The table alone would lead to other bytes, or to fewer.
        (How::Entry, None)
    } else {
        (How::Entry, by_sfdisk.then(|| Command::of_table("sfdisk", entry.sfdisk())))
    };
    let commands: Vec<Command> = command.into_iter().collect();
    let risk = match moves || shrinks || partition.unclaimed == Unclaimed::All {
        _ if commands.is_empty() => None,
        true => Some(Risk::Backup),
        false => Some(Risk::Safe),
    };
    let caution = caution(context, partition, (place, how), &commands);
    Some(Fix { summary: summary(partition, place, start, count), commands, risk, caution })
}

pub(crate) fn is_known(partition: &Partition) -> bool {
    partition.content.is_some() || partition.layer.is_some()
}

fn summary(partition: &Partition, place: Place, start: Lba, count: LbaCount) -> String {
    let old = partition.span;
    let moves = place.start != old.start();
    let by = exact(old.len().abs_diff(place.len));
    match (moves, place.len.cmp(&old.len())) {
        (true, Ordering::Less) => format!("move it to LBA {start} and shrink it by {by} to {count} sectors"),
        (true, Ordering::Equal) => format!("move it to LBA {start} ({count} sectors)"),
        (true, Ordering::Greater) => format!("move it to LBA {start} and grow it by {by} to {count} sectors"),
        (false, Ordering::Less) => format!("shrink it by {by} to {count} sectors"),
        (false, _) => format!("grow it by {by} to {count} sectors"),
    }
}

/// `1024 bytes` or `1 MiB (1048576 bytes)`.
fn exact(count: ByteCount) -> String {
    if count.get() < 1024 {
        format!("{} bytes", count.get())
    } else {
        format!("{count} ({} bytes)", count.get())
    }
}

/// The best first: on the 1 MiB grain with the size kept (later, then earlier), without the grain, cut at both ends.
fn find_places(context: &Context<'_>, partition: &Partition, free: Span) -> Vec<Place> {
    let old = partition.span;
    let Some(required) = required(context.topology) else { return Vec::new() };
    let shrunk = shrunk(context, old, free, required);
    let Some(len) = whole_len(context, old) else { return Vec::new() };
    let fits = |start: Option<ByteOffset>| {
        let place = Place { start: start?, len };
        free.contains(Span::new(place.start, len)?).then_some(place)
    };
    if required.is_aligned(old.start()) {
        return fits(Some(old.start())).into_iter().chain(shrunk).collect();
    }
    let grain = Boundary::new(GRAIN, context.topology.phase()).and_then(|grain| required.meet(grain));
    let later = |all: Boundary| fits(all.ceil(old.start()));
    let earlier = |all: Boundary| fits(all.floor(old.start().min(free.end().checked_back(len)?)));
    let all = [grain.and_then(later), grain.and_then(earlier), later(required), earlier(required), shrunk];
    all.into_iter().flatten().collect()
}

fn whole_len(context: &Context<'_>, old: Span) -> Option<ByteCount> {
    let physical = context.topology.physical_boundary()?;
    let whole = Boundary::multiples_of(physical.size().max(context.stack.block.bytes()))?;
    whole.ceil(ByteOffset::new(old.len().get()))?.checked_since(ByteOffset::ZERO)
}

fn shrunk(context: &Context<'_>, old: Span, free: Span, required: Boundary) -> Option<Place> {
    let start = required.ceil(old.start())?;
    let end = context.topology.physical_boundary()?.floor(old.end())?;
    let len = end.checked_since(start)?;
    (len > ByteCount::ZERO && free.contains(Span::new(start, len)?)).then_some(Place { start, len })
}

/// Needed for an image: no device reports it.
fn explicit_sector_size(context: &Context<'_>) -> Option<u64> {
    Some(context.stack.block.get()).filter(|size| context.is_image && *size != 512)
}
