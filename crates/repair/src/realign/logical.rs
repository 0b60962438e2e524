//! The extended boot records of logical partitions that move, and their container.
//!
//! Invariants: every logical partition has its own record before it, in a sector that no partition has. A partition
//! that stays keeps its record. The container keeps its place if it can, and holds only logical partitions. Numbers
//! follow the chain, whose order is kept.

use straddle_units::{BlockSize, ByteCount, ByteOffset, Lba, LbaCount, Span};

use super::RealignError;
use super::places::Ground;
use crate::plan::{Entry, Plan, Records, Slot, span_of};

/// With records, without the container.
pub(super) fn fixed(kept: &[&Entry], all: &[Entry], block: BlockSize) -> Vec<Span> {
    let mut spans = Vec::new();
    for entry in kept {
        let own = span_of(entry, block);
        let Some(ebr) = entry.ebr() else {
            spans.extend(own.filter(|_| entry.slot != Slot::Extended));
            continue;
        };
        let is_between = |other: &Entry| other.start > ebr && other.start < entry.start;
        let joined = entry.end().checked_since(ebr).and_then(|sectors| Span::of_blocks(ebr, sectors, block));
        match joined.filter(|_| !all.iter().any(is_between)) {
            Some(joined) => spans.push(joined),
            None => spans.extend(own.into_iter().chain(sector(ebr, block))),
        }
    }
    spans
}

fn sector(at: Lba, block: BlockSize) -> Option<Span> {
    Span::of_blocks(at, LbaCount::new(1), block)
}

struct Placed {
    number: u32,
    span: Span,
    record: Option<Lba>,
    moves: bool,
}

pub(super) struct Chain {
    placed: Vec<Placed>,
    container: Entry,
    ground: Ground,
}

impl Chain {
    pub(super) fn of(entries: &[Entry], places: &[(u32, Span)], ground: Ground) -> Option<Self> {
        let block = ground.block;
        let container = entries.iter().find(|entry| entry.slot == Slot::Extended)?.clone();
        let mut placed = Vec::new();
        for entry in entries.iter().filter(|entry| entry.slot != Slot::Extended) {
            let to = places.iter().find(|(number, _)| *number == entry.number).map(|(_, to)| *to);
            let span = to.or_else(|| span_of(entry, block))?;
            placed.push(Placed { number: entry.number, span, record: entry.ebr(), moves: to.is_some() });
        }
        let moves = placed.iter().any(|one| one.record.is_some() && one.moves);
        moves.then_some(Self { placed, container, ground })
    }

    fn logical(&self) -> impl Iterator<Item = &Placed> {
        self.placed.iter().filter(|one| one.record.is_some())
    }

    fn reach(&self) -> Option<Span> {
        let start = self.logical().map(|one| one.span.start()).min()?;
        let end = self.logical().map(|one| one.span.end()).max()?;
        Span::between(start, end)
    }

    /// Unless another partition is before the logical ones.
    fn kept_start(&self) -> Option<ByteOffset> {
        let start = self.container.start.to_bytes(self.ground.block)?;
        let reach = self.reach().filter(|reach| start < reach.start())?;
        let room = Span::between(start, reach.end())?;
        let is_free = |one: &Placed| one.record.is_some() || !one.span.overlaps(room);
        self.placed.iter().all(is_free).then_some(start)
    }

    pub(super) fn records(&self) -> Result<Records, RealignError> {
        let is_among = |one: &&Placed| {
            one.record.is_none() && self.reach().is_some_and(|reach| one.span.overlaps(reach))
        };
        if let Some(one) = self.placed.iter().find(is_among) {
            return Err(RealignError::Mixed(one.number));
        }
        let block = self.ground.block;
        let kept_start = self.kept_start();
        let mut taken: Vec<Span> = self.placed.iter().map(|one| one.span).collect();
        let first = kept_start.and_then(|start| sector(Lba::containing(start, block), block));
        let mut at: Vec<(u32, Lba)> = Vec::new();
        let is_first = |ebr: Lba| ebr == self.container.start && kept_start.is_some();
        for one in self.logical() {
            let stays = one.record.filter(|ebr| !one.moves || is_first(*ebr));
            at.extend(stays.map(|ebr| (one.number, ebr)));
        }
        taken.extend(first.into_iter().chain(at.iter().filter_map(|(_, ebr)| sector(*ebr, block))));
        let mut waiting: Vec<&Placed> =
            self.logical().filter(|one| !at.iter().any(|(number, _)| *number == one.number)).collect();
        waiting.sort_by_key(|one| one.span.start());
        for one in waiting {
            let place = self.before(one.span.start(), &taken).ok_or(RealignError::Logical(one.number))?;
            taken.extend(sector(place, block));
            at.push((one.number, place));
        }
        at.sort_unstable();
        let start = match (kept_start, at.first()) {
            (Some(_), _) => self.container.start,
            (None, Some((number, first))) => {
                let is_lowest = at.iter().all(|(_, ebr)| ebr >= first)
                    && self.logical().all(|one| Lba::containing(one.span.start(), block) > *first);
                if !is_lowest {
                    return Err(RealignError::Logical(*number));
                }
                *first
            }
            (None, None) => self.container.start,
        };
        let extended = self.extent(start).ok_or(RealignError::Container(self.container.number))?;
        Ok(Records { at, extended })
    }

    /// Preferably in a physical sector of its own.
    fn before(&self, start: ByteOffset, taken: &[Span]) -> Option<Lba> {
        let Ground { free, physical, block, .. } = self.ground;
        let lone = start.checked_back(physical.size()).filter(|at| physical.is_aligned(*at));
        let is_free = |at: &ByteOffset| {
            Span::between(*at, start)
                .is_some_and(|room| free.contains(room) && !taken.iter().any(|span| span.overlaps(room)))
        };
        let next = start.checked_back(block.bytes());
        Lba::from_bytes_exact(lone.filter(is_free).or_else(|| next.filter(is_free))?, block)
    }

    /// It keeps its end if no other partition is there.
    fn extent(&self, start: Lba) -> Option<(u32, Lba, LbaCount)> {
        let reach = self.reach()?;
        let end = self.container.end().to_bytes(self.ground.block)?;
        let rest = Span::between(reach.end(), end);
        let is_free = |rest: &Span| self.placed.iter().all(|one| !one.span.overlaps(*rest));
        let end = rest.filter(is_free).map_or(reach.end(), Span::end);
        let end = Lba::from_bytes_exact(end, self.ground.block)?;
        Some((self.container.number, start, end.checked_since(start)?))
    }
}

pub(super) fn moves(entry: &Entry) -> bool {
    entry.is_moved() && entry.slot != Slot::Extended
}

pub(super) fn moving(plan: &Plan) -> impl Iterator<Item = &Entry> {
    plan.table.partitions.iter().filter(|entry| moves(entry))
}

/// Room for its record.
pub(super) fn lead(entry: &Entry, block: BlockSize) -> ByteCount {
    if entry.is_logical() { block.bytes() } else { ByteCount::ZERO }
}
