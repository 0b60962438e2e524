//! Where a badly placed partition should lie, and the commands that put it there.
//!
//! This is the fix of one partition with all others left where they are; laying out a whole disk is a plan.

mod caution;
mod entry;
mod room;
mod shrink;
mod swap;

use std::cmp::Ordering;

use straddle_layout::{Partition, Role, TableKind};
use straddle_units::{Boundary, ByteCount, ByteOffset, Lba, LbaCount, Span};

use self::caution::caution;
use self::entry::Entry;
use crate::boundaries::{GRAIN, required};
use crate::finding::{Command, Fix, Risk};
use crate::{Context, weigh};

/// An MBR counts blocks in 32 bits.
const MBR_LBAS: u64 = 1 << 32;

/// Where a partition goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Place {
    start: ByteOffset,
    len: ByteCount,
}

/// A place with the fix that puts the partition there.
struct Candidate {
    fix: Fix,
    /// Whether its commands take along what is in the partition.
    keeps_data: bool,
}

/// The fix for everything that is wrong with the placement of `partition`; `None` when no place in the free
/// space around it would do.
pub(crate) fn relocate(context: &Context<'_>, partition: &Partition) -> Option<Fix> {
    let free = free_space_around(context, partition)?;
    let candidates: Vec<Candidate> = find_places(context, partition, free)
        .into_iter()
        .map(|place| as_long(context, partition, place))
        .filter_map(|place| candidate(context, partition, place, free))
        .collect();
    // A place that a tool reaches is worth more than one that none does, and most where the data comes along.
    let worth = |candidate: &&Candidate| (candidate.keeps_data, !candidate.fix.commands.is_empty());
    candidates.iter().rev().max_by_key(worth).map(|candidate| candidate.fix.clone())
}

/// The same place, as long as the partition is, where that would be moved and grow to whole sectors although what is in it
/// uses no part of its last one: it may look for something at its end, as NTFS does for a copy of its boot sector.
fn as_long(context: &Context<'_>, partition: &Partition, place: Place) -> Place {
    let old = partition.span;
    let rest = old.len().remainder(context.topology.physical.value());
    let is_grown = place.start != old.start() && place.len > old.len();
    let leaves = |layer| weigh::leaves(layer, old.len(), rest);
    if is_grown && partition.layer.as_ref().is_some_and(leaves) {
        return Place { len: old.len(), ..place };
    }
    place
}

/// The fix that puts `partition` at `place`.
fn candidate(
    context: &Context<'_>,
    partition: &Partition,
    mut place: Place,
    free: Span,
) -> Option<Candidate> {
    let block = context.stack.block;
    let start = Lba::from_bytes_exact(place.start, block)?;
    let count = block.blocks_floor(place.len);
    if count == LbaCount::new(0) {
        return None;
    }
    if context.stack.kind == TableKind::Kernel {
        let fix = Fix::advice(format!("start it at LBA {start} with {count} sectors"));
        return Some(Candidate { fix, keeps_data: false });
    }
    let mut entry = Entry { context, partition, start, count };
    let old = partition.span;
    let (moves, shrinks) = (place.start != old.start(), place.len < old.len());
    let by_sfdisk = room::sfdisk_finds_it(context, partition, old, place, free);
    let remade = swap::of(partition).filter(|_| by_sfdisk && (moves || shrinks));
    let remade = remade.and_then(|layer| swap::remake(layer, &entry));
    let (keeps_data, commands) = if let Some(command) = remade {
        (true, Some(command))
    } else if shrinks && is_known(partition) {
        let steps = shrink::steps(context, partition, place, free);
        (place, entry.count) =
            steps.as_ref().map_or((place, count), |(_, shorter)| (*shorter, block.blocks_floor(shorter.len)));
        (steps.is_some(), steps.map(|(command, _)| command))
    } else if !moves && !shrinks {
        (true, entry.table_only(by_sfdisk))
    } else if !shrinks && by_sfdisk {
        // sfdisk moves data only into a place that is as large.
        (true, Some(entry.sfdisk("--move-data ")))
    } else if is_known(partition) {
        (false, None)
    } else {
        (false, entry.table_only(by_sfdisk))
    };
    let commands: Vec<Command> = commands.into_iter().collect();
    let fix = Fix {
        summary: summary(partition, place, start, entry.count),
        risk: if moves || shrinks { Risk::Backup } else { Risk::Safe },
        caution: caution(context, partition, place, &commands),
        commands,
    };
    Some(Candidate { fix, keeps_data })
}

/// Whether something is known to be in a partition. What is not recognised may be data all the same.
fn is_known(partition: &Partition) -> bool {
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
        (false, Ordering::Less) => {
            format!("shrink it by {by} to {count} sectors")
        }
        (false, _) => format!("grow it by {by} to {count} sectors"),
    }
}

/// `1024 bytes`, `1 MiB (1048576 bytes)`.
fn exact(count: ByteCount) -> String {
    if count.get() < 1024 {
        format!("{} bytes", count.get())
    } else {
        format!("{count} ({} bytes)", count.get())
    }
}

/// Looks for places on every boundary that costs something when missed, the best first: on the 1 MiB grain with the
/// size kept (later, then earlier), then without the grain, and last with the size cut at both ends.
fn find_places(context: &Context<'_>, partition: &Partition, free: Span) -> Vec<Place> {
    let old = partition.span;
    let Some(required) = required(context.topology) else { return Vec::new() };
    let shrunk = shrunk(context, old, free, required);
    let Some(len) = whole_len(context, old) else { return Vec::new() };
    let fits = |start: Option<ByteOffset>| {
        let place = Place { start: start?, len };
        free.contains(Span::new(place.start, len)?).then_some(place)
    };
    // Where only the end is off the start stays: into free space behind, or a little shorter.
    if required.is_aligned(old.start()) {
        return fits(Some(old.start())).into_iter().chain(shrunk).collect();
    }
    let grain = Boundary::new(GRAIN, context.topology.phase()).and_then(|grain| required.meet(grain));
    let later = |all: Boundary| fits(all.ceil(old.start()));
    let earlier = |all: Boundary| fits(all.floor(old.start().min(free.end().checked_back(len)?)));
    [grain.and_then(later), grain.and_then(earlier), later(required), earlier(required), shrunk]
        .into_iter()
        .flatten()
        .collect()
}

/// A size rounded up to whole physical sectors.
fn whole_len(context: &Context<'_>, old: Span) -> Option<ByteCount> {
    let physical = context.topology.physical_boundary()?;
    let whole = Boundary::multiples_of(physical.size().max(context.stack.block.bytes()))?;
    whole.ceil(ByteOffset::new(old.len().get()))?.checked_since(ByteOffset::ZERO)
}

/// The whole physical sectors of a partition, from the first good start in it on.
fn shrunk(context: &Context<'_>, old: Span, free: Span, required: Boundary) -> Option<Place> {
    let start = required.ceil(old.start())?;
    let end = context.topology.physical_boundary()?.floor(old.end())?;
    let len = end.checked_since(start)?;
    (len > ByteCount::ZERO && free.contains(Span::new(start, len)?)).then_some(Place { start, len })
}

/// The bytes that `partition` may occupy with all others left where they are: its own and the free ones around.
fn free_space_around(context: &Context<'_>, partition: &Partition) -> Option<Span> {
    let stack = context.stack;
    let block = stack.block;
    let own = partition.span;
    let first_block = ByteOffset::new(block.get());
    let end = ByteOffset::new(context.size.get());
    // What the table says may end past the disk.
    let (low, high) = match (partition.role, stack.usable) {
        (Role::Logical { .. }, _) => {
            let holds = |p: &&Partition| p.role == Role::Extended && p.span.contains(own);
            let extended = stack.partitions.iter().find(holds)?.span;
            (extended.start(), extended.end())
        }
        (_, Some(usable)) => (usable.start(), usable.end()),
        // What lies before the first partition is a boot loader's, on an MBR disk.
        (_, None) => (
            first_block.max(own.start().min(ByteOffset::new(GRAIN.get()))),
            ByteOffset::new(LbaCount::new(MBR_LBAS).to_bytes(block)?.get()),
        ),
    };
    // Whatever is not the container is in the way, and so is every EBR, its own too: on a sane disk that is before it.
    let is_logical = matches!(partition.role, Role::Logical { .. });
    let in_the_way =
        |p: &&Partition| p.number != partition.number && !(is_logical && p.role == Role::Extended);
    let ebr_of = |p: &Partition| match p.role {
        Role::Logical { ebr } => Span::of_blocks(ebr, LbaCount::new(1), block),
        _ => None,
    };
    let others = stack.partitions.iter().filter(in_the_way).map(|p| p.span);
    let taken = others.chain(stack.partitions.iter().filter_map(ebr_of));
    let space = Span::new(low, high.min(end).checked_since(low)?)?;
    space.gaps(taken).into_iter().find(|gap| gap.overlaps(own))
}

/// The sector size to be passed on the command line: an image has no device that reports it.
fn explicit_sector_size(context: &Context<'_>) -> Option<u64> {
    Some(context.stack.block.get()).filter(|size| context.is_image && *size != 512)
}
