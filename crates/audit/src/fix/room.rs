//! Where sfdisk can put a partition.
//!
//! libfdisk moves an entry within its own blocks and into the gaps beside it, but does not see all gaps
//! (`fdisk_get_freespaces`, libfdisk/src/table.c; `recount_resize`, libfdisk/src/partition.c). Invariant: in doubt it
//! says no, as a command that libfdisk refuses is not a fix.

use straddle_layout::{Partition, Role};
use straddle_units::{ByteCount, ByteOffset, Span};

use super::Place;
use crate::Context;
use crate::boundaries::GRAIN;

/// libfdisk ignores gaps of up to this many blocks at the end of the disk, elsewhere of one block.
const SMALL_GAP: u64 = 3;

pub(super) fn sfdisk_finds_it(
    context: &Context<'_>,
    partition: &Partition,
    place: Place,
    free: Span,
) -> bool {
    let old = partition.span;
    let goes_down = place.start < old.start();
    let goes_up = place.start.checked_add(place.len).is_none_or(|end| end > old.end());
    if !goes_down && !goes_up {
        return true;
    }
    if !is_in_order(context) {
        return false;
    }
    let room = Room { context, old, free };
    match partition.role {
        Role::Logical { .. } => {
            (!goes_down || room.logical_before(place)) && (!goes_up || room.logical_behind(place))
        }
        _ => (!goes_down || room.before(place)) && (!goes_up || room.behind(partition)),
    }
}

/// libfdisk examines partitions and gaps by number, logical ones last.
fn is_in_order(context: &Context<'_>) -> bool {
    let of = |logical: bool| {
        context.stack.partitions.iter().filter(move |p| matches!(p.role, Role::Logical { .. }) == logical)
    };
    let sorted = |logical| of(logical).is_sorted_by_key(|p| p.span.start());
    let extended_is_last =
        of(true).next().is_none() || of(false).next_back().is_none_or(|p| p.role == Role::Extended);
    sorted(false) && sorted(true) && extended_is_last
}

struct Room<'a> {
    context: &'a Context<'a>,
    old: Span,
    free: Span,
}

impl Room<'_> {
    fn block(&self) -> ByteCount {
        self.context.stack.block.bytes()
    }

    /// sfdisk's default: a GPT's first usable byte, else 1 MiB or a larger optimal I/O size.
    fn first(&self) -> ByteOffset {
        let io_opt = self.context.topology.io_opt.as_ref().map_or(ByteCount::ZERO, |figure| figure.value());
        self.context.stack.usable.map_or(ByteOffset::new(GRAIN.max(io_opt).get()), Span::start)
    }

    fn is_gap(&self, from: ByteOffset, to: ByteOffset, blocks: u64) -> bool {
        to.checked_since(from).is_some_and(|gap| gap.get() > blocks * self.block().get())
    }

    fn before(&self, place: Place) -> bool {
        let is_first = !self.context.stack.partitions.iter().any(|p| p.span.start() < self.old.start());
        // After another partition a gap begins one block later.
        let lead = if is_first { ByteCount::ZERO } else { self.block() };
        let Some(first) = self.first().checked_add(lead) else { return false };
        let begins = self.free.start().max(first);
        place.start >= begins && self.is_gap(begins, self.old.start(), 1)
    }

    fn behind(&self, partition: &Partition) -> bool {
        let all = &self.context.stack.partitions;
        // The gap at the disk's end is examined only for the last partition.
        let is_tail = !all.iter().any(|p| p.span.start() > self.old.start());
        let is_last = all.iter().all(|p| p.number <= partition.number);
        // A gap that begins before the first usable block does not adjoin the partition.
        let is_seen = self.first().checked_add(self.block()).is_some_and(|first| first <= self.old.end());
        is_seen && (is_last || !is_tail) && self.is_gap(self.old.end(), self.free.end(), SMALL_GAP)
    }

    /// For libfdisk; `from` is the end of the previous partition.
    fn logical_lead(&self, from: ByteOffset) -> Option<ByteOffset> {
        from.checked_add(ByteCount::new(self.first().get()))
    }

    fn logical_before(&self, place: Place) -> bool {
        let begins = self.logical_lead(self.free.start());
        begins.is_some_and(|begins| place.start >= begins && self.is_gap(begins, self.old.start(), SMALL_GAP))
    }

    fn logical_behind(&self, place: Place) -> bool {
        let begins = self.logical_lead(self.old.end());
        begins.is_some_and(|begins| {
            self.is_gap(begins, self.free.end(), SMALL_GAP)
                && (place.start < self.old.end() || place.start >= begins)
        })
    }
}
