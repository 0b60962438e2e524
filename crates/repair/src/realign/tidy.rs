//! What a move leaves in unallocated space is removed in the end: a later move finds it as empty as this one did.
//!
//! The law of this module: only what is this move's is overwritten, and only in a run during which the table has had the
//! marker from the start on: the space was empty before, and no other program uses a disk with the marker. Of the
//! places that data went through, that is what equals the data where they are now; of the journal's space, what this run has
//! written, and all of it if others have, also where a partition around what filled the disk reaches behind its data.

use straddle_device::Medium;
use straddle_layout::{Role, Stack, TableKind};
use straddle_relocate::Move;
use straddle_units::{ByteCount, ByteOffset, KIB, LbaCount, MIB, Span};

use super::besides::clear;
use super::carry::Run;
use super::payload::wrapped::HEAD;
use super::sample::hash;
use super::{Realign, guard};

/// What is compared at once.
const PIECE: ByteCount = ByteCount::new(MIB);

/// What takes longer to compare stays: a later move there needs consent.
const MOST: ByteCount = ByteCount::new(KIB * MIB);

/// The unit in which data are compared.
const SECTOR: usize = 512;

impl Run<'_> {
    /// Removes it. The move, or its rollback if `is_back`, is over without that: an error ends it.
    pub(super) fn tidy(&mut self, is_back: bool) {
        if !self.owns_space {
            return;
        }
        let realign = &self.payload.realign;
        let Ok(stack) = straddle_layout::read_stack(self.disk, Some(realign.plan.block()), None) else {
            return;
        };
        let Some(taken) = taken(realign, &stack, is_back) else { return };
        let fields = guard::fields(realign);
        // So does one with a part of the table.
        let disk = Span::first(realign.plan.disk().size);
        let table = stack.usable.map_or(vec![Span::first(stack.block.bytes())], |usable| disk.gaps([usable]));
        let others: Vec<Span> = taken.iter().copied().chain(realign.claimed()).chain(table).collect();
        for way in ways(realign, is_back) {
            for gap in way.span.gaps(realign.claimed()).into_iter().flat_map(|gap| gap.gaps(taken.clone())) {
                // A physical sector that a partition has a part of stays: a write of it could be torn.
                let gap = whole_blocks(realign, gap, &others).filter(|gap| gap.len() <= MOST);
                let Some(gap) = gap else { continue };
                for piece in gap.pieces(PIECE) {
                    let copies = way.copies(self.disk, piece, &fields, realign.blocks.size());
                    let copies = copies.unwrap_or_default();
                    if copies.into_iter().any(|copy| clear(self.disk, copy).is_err()) {
                        return;
                    }
                }
            }
        }
        let Some(place) = self.place_on_disk() else { return };
        // What the data of a file system with a partition around it leave of that is as free as it was.
        let is_in_new = realign.is_wrap() && !is_back;
        let data = realign.moves.iter().filter_map(|one| one.destination());
        let used: Vec<Span> = if is_in_new { data.collect() } else { taken };
        let is_free = stack.usable.is_none_or(|usable| usable.contains(place) || is_back)
            && used.iter().all(|span| !span.overlaps(place));
        if is_free {
            self.clear_journal(place);
        }
    }

    /// Clears what this run, and those before it, may have written in the journal's space, as far as that can be written.
    pub(super) fn clear_journal(&mut self, place: Span) {
        for part in self.footprint.within(place) {
            let _ = clear(self.disk, part);
        }
    }
}

/// A place that data went to, and did not stay in.
struct Way {
    span: Span,
    /// Where the first byte of it came from, before all moves.
    origin: ByteOffset,
    /// Where that is now.
    now: ByteOffset,
}

impl Way {
    /// The physical sectors of `piece`, which lies in this way, that hold copies of the data; `None` if something
    /// cannot be read.
    fn copies(&self, disk: &dyn Medium, piece: Span, fields: &[Span], block: ByteCount) -> Option<Vec<Span>> {
        let mut here = vec![0; usize::try_from(piece.len().get()).ok()?];
        let mut data = here.clone();
        disk.read_at(piece.start(), &mut here).ok()?;
        // Beside the way, in the first and the last physical sector, there is nothing.
        let (first, end) = (piece.start().max(self.span.start()), piece.end().min(self.span.end()));
        let skipped = first.checked_since(self.span.start())?;
        let lead = usize::try_from(first.checked_since(piece.start())?.get()).ok()?;
        let len = usize::try_from(end.checked_since(first)?.get()).ok()?;
        let part = data.get_mut(lead..lead.checked_add(len)?)?;
        disk.read_at(self.now.checked_add(skipped)?, part).ok()?;
        let origin = self.origin.checked_add(skipped)?.get();
        let is_copy = |block: Span| {
            let from = usize::try_from(block.start().checked_since(piece.start())?.get()).ok()?;
            let range = from..from + usize::try_from(block.len().get()).ok()?;
            let (here, data) = (here.get(range.clone())?, data.get(range)?);
            let is_set = here.iter().any(|byte| *byte != 0);
            // What records the start of a partition was corrected.
            let is_same = |(index, (one, other)): (usize, (&[u8], &[u8]))| {
                let at = (origin + (from + index * SECTOR) as u64).saturating_sub(lead as u64);
                one == other || hash(one, at, fields) == hash(other, at, fields)
            };
            let mut sectors = here.chunks(SECTOR).zip(data.chunks(SECTOR)).enumerate();
            Some(is_set && sectors.all(is_same))
        };
        let mut copies: Vec<Span> = Vec::new();
        for block in piece.pieces(block).filter(|block| is_copy(*block) == Some(true)) {
            match copies.last_mut().filter(|last| last.end() == block.start()) {
                Some(last) => {
                    *last = Span::new(last.start(), ByteCount::new(last.len().get() + block.len().get()))?
                }
                None => copies.push(block),
            }
        }
        Some(copies)
    }
}

/// The places that data went through.
fn ways(realign: &Realign, is_back: bool) -> Vec<Way> {
    let moves = &realign.moves;
    let origin = |index: usize| {
        let earlier = moves[..index].iter().rev();
        earlier.fold(
            moves[index].from,
            |from, one| if one.destination() == Some(from) { one.from } else { from },
        )
    };
    let settled = |index: usize| {
        moves[index + 1..].iter().fold(moves[index].destination(), |at, one| {
            if at == Some(one.from) { one.destination() } else { at }
        })
    };
    let way = |(index, one): (usize, &Move)| {
        let (span, origin) = (one.destination()?, origin(index).start());
        let now = if is_back { origin } else { settled(index)?.start() };
        (now != span.start()).then_some(Way { span, origin, now })
    };
    let head = realign.is_wrap().then(|| {
        let start = moves.first()?.to.checked_back(HEAD)?;
        let span = Span::new(start, HEAD)?;
        is_back.then_some(Way { span, origin: ByteOffset::ZERO, now: ByteOffset::ZERO })
    });
    moves.iter().enumerate().filter_map(way).chain(head.flatten()).collect()
}

/// What the table that counts has; `None` if it is not one of this move.
fn taken(realign: &Realign, stack: &Stack, is_back: bool) -> Option<Vec<Span>> {
    match stack.kind {
        TableKind::Gpt | TableKind::Mbr | TableKind::HybridMbr => {}
        TableKind::Content(_) if realign.is_wrap() && is_back => return Some(realign.claimed()),
        _ => return None,
    }
    let record = |ebr| Span::of_blocks(ebr, LbaCount::new(1), stack.block);
    let listed = stack.partitions.iter().flat_map(|partition| match partition.role {
        Role::Extended => [Span::of_blocks(partition.start, LbaCount::new(1), stack.block), None],
        Role::Primary => [Some(partition.span), None],
        Role::Logical { ebr } => [Some(partition.span), record(ebr)],
    });
    Some(listed.flatten().collect())
}

/// The physical sectors that `span` touches, but for those that have a part of one of the `others`.
fn whole_blocks(realign: &Realign, span: Span, others: &[Span]) -> Option<Span> {
    let blocks = realign.blocks;
    let is_free = |start: ByteOffset, end: ByteOffset| {
        let beside = end.checked_since(start).and_then(|len| Span::new(start, len));
        beside.is_some_and(|beside| others.iter().all(|other| !other.overlaps(beside)))
    };
    let disk = ByteOffset::new(realign.plan.disk().size.get());
    let start = blocks.floor(span.start()).filter(|start| is_free(*start, span.start()));
    let end = blocks.ceil(span.end()).filter(|end| *end <= disk && is_free(span.end(), *end));
    let (start, end) = (start.or(blocks.ceil(span.start()))?, end.or(blocks.floor(span.end()))?);
    Span::new(start, end.checked_since(start)?)
}
