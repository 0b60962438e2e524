//! The write buffer: what the host has written and the platters do not hold yet.
//!
//! Extents are half-open spans of bytes as the platters count them (the host's address plus the firmware's offset). No two
//! overlap or touch. An extent whose edge lies inside a physical sector needs the rest of that sector before it can be
//! written; `known` remembers that it has been read.

use std::collections::BTreeMap;

use crate::disk::geometry::{Geometry, Place};
use crate::time::Time;

/// No physical sector.
const NONE: u64 = u64::MAX;

/// Data that waits to be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Extent {
    pub(super) end: u64,
    /// When its oldest byte came.
    pub(super) born: Time,
    /// When its newest byte came.
    pub(super) touched: Time,
    /// The physical sectors at its edges that have been read.
    pub(super) known: [u64; 2],
    /// Whether the media cache has all of it.
    pub(super) logged: bool,
    /// Where its next operation begins.
    pub(super) place: Place,
}

/// What an extent needs next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// This physical sector must be read, for only a part of it is here.
    ReadEdge(u64),
    /// To be written.
    Write,
}

#[derive(Clone, Debug)]
pub(super) struct WriteBuffer {
    extents: BTreeMap<u64, Extent>,
    bytes: u64,
    shift: u32,
    /// Whether edges are read by operations of their own before the write.
    reads_apart: bool,
    /// The size of a segment as a power of two, if extents of a segment share an entry of the firmware's table.
    segment_shift: Option<u32>,
    /// Pairs of neighbouring extents that share a segment.
    shared: usize,
}

impl WriteBuffer {
    /// A buffer for sectors of `physical` bytes, in segments of `segment` bytes (0: none).
    pub(super) fn new(physical: u64, reads_apart: bool, segment: u64) -> Self {
        let segment_shift = (segment > 0).then(|| segment.trailing_zeros());
        let (extents, shift) = (BTreeMap::new(), physical.trailing_zeros());
        Self { extents, bytes: 0, shift, reads_apart, segment_shift, shared: 0 }
    }

    /// Entries of the firmware's table that are in use.
    pub(super) fn entries(&self) -> usize {
        self.extents.len() - self.shared
    }

    /// Neighbours among the extent before `start`, one from `start` to `end`, and the one after that share a segment so
    /// often.
    fn sharing(&self, start: u64, end: u64) -> usize {
        let Some(shift) = self.segment_shift else { return 0 };
        let before = self.extents.range(..start).next_back();
        let after = self.extents.range(end..).next();
        usize::from(before.is_some_and(|(_, extent)| (extent.end - 1) >> shift == start >> shift))
            + usize::from(after.is_some_and(|(&next, _)| next >> shift == (end - 1) >> shift))
    }

    /// How often the extents on both sides of a gap share a segment: once or not.
    fn across(&self, start: u64, end: u64) -> usize {
        let Some(shift) = self.segment_shift else { return 0 };
        let before = self.extents.range(..start).next_back();
        let after = self.extents.range(end..).next();
        let shared = before
            .zip(after)
            .is_some_and(|((_, left), (&right, _))| (left.end - 1) >> shift == right >> shift);
        usize::from(shared)
    }

    /// Puts in an extent that touches no other.
    fn put(&mut self, start: u64, extent: Extent) {
        self.bytes += extent.end - start;
        self.shared -= self.across(start, extent.end);
        self.shared += self.sharing(start, extent.end);
        self.extents.insert(start, extent);
    }

    /// Takes out the extent at `start`.
    fn pull(&mut self, start: u64) -> Option<Extent> {
        let extent = self.extents.remove(&start)?;
        self.bytes -= extent.end - start;
        self.shared -= self.sharing(start, extent.end);
        self.shared += self.across(start, extent.end);
        Some(extent)
    }

    /// Whether a write of the span needs another entry of the firmware's table.
    pub(super) fn needs_entry(&self, start: u64, end: u64) -> bool {
        !self.joins(start, end) && self.sharing(start, end) == 0
    }

    pub(super) fn is_empty(&self) -> bool {
        self.extents.is_empty()
    }

    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    fn mask(&self) -> u64 {
        (1 << self.shift) - 1
    }

    /// Whether any byte of the span waits here.
    pub(super) fn overlaps(&self, start: u64, end: u64) -> bool {
        self.extents.range(..end).next_back().is_some_and(|(_, extent)| extent.end > start)
    }

    /// Whether every byte of the span is here.
    pub(super) fn covers(&self, start: u64, end: u64) -> bool {
        self.extents.range(..=start).next_back().is_some_and(|(_, extent)| extent.end >= end)
    }

    /// Whether a write of the span would join an extent that is here.
    pub(super) fn joins(&self, start: u64, end: u64) -> bool {
        self.extents.range(..=end).next_back().is_some_and(|(_, extent)| extent.end >= start)
    }

    /// The first extent with a byte in the span.
    pub(super) fn first_within(&self, start: u64, end: u64) -> Option<u64> {
        let before = self.extents.range(..=start).next_back().filter(|(_, extent)| extent.end > start);
        before.or_else(|| self.extents.range(start..end).next()).map(|(&first, _)| first)
    }

    /// The extent that begins at `start`.
    pub(super) fn get(&self, start: u64) -> Option<Extent> {
        self.extents.get(&start).copied()
    }

    /// Marks everything as safe in a media cache of `capacity` sectors, which a write of so many sectors makes true: zero
    /// if it is already, `None` if there is no room. The spans that were not yet safe go to `spans`.
    pub(super) fn log(&mut self, capacity: u64, spans: &mut Vec<(u64, u64)>) -> Option<u64> {
        let (mut safe, mut new) = (0, 0);
        for (&start, extent) in &self.extents {
            let sectors = ((extent.end - 1) >> self.shift) - (start >> self.shift) + 1;
            *if extent.logged { &mut safe } else { &mut new } += sectors;
        }
        if safe + new > capacity {
            return None;
        }
        spans.clear();
        for (&start, extent) in &mut self.extents {
            if !extent.logged {
                extent.logged = true;
                spans.push((start, extent.end));
            }
        }
        Some(new)
    }

    /// Takes a write. True if it joined data that was here.
    pub(super) fn insert(&mut self, start: u64, end: u64, at: Time, geometry: &Geometry) -> bool {
        let mut joined =
            Extent { end, born: at, touched: at, known: [NONE; 2], logged: false, place: Place::default() };
        let mut first = start;
        let mut known = [NONE; 8];
        let mut parts = 0;
        while let Some((&other, &extent)) = self.extents.range(..=end).next_back() {
            if extent.end < start {
                break;
            }
            self.pull(other);
            // Of more than four parts some reads are forgotten and done again: rare, and never wrong.
            if let Some(pair) = known.get_mut(2 * parts..2 * parts + 2) {
                pair.copy_from_slice(&extent.known);
            }
            parts += 1;
            joined.born = joined.born.min(extent.born);
            first = first.min(other);
            joined.end = joined.end.max(extent.end);
        }
        let edges = [first >> self.shift, (joined.end - 1) >> self.shift];
        joined.known = edges.map(|edge| if known.contains(&edge) { edge } else { NONE });
        self.locate(first, &mut joined, geometry);
        self.put(first, joined);
        parts > 0
    }

    /// The physical sectors of the extent that are not wholly its own and have not been read: none, one or two.
    fn missing(&self, start: u64, extent: &Extent) -> [Option<u64>; 2] {
        let (head, tail) = (start >> self.shift, (extent.end - 1) >> self.shift);
        let ends_inside = extent.end & self.mask() != 0;
        let head_partial = start & self.mask() != 0 || (head == tail && ends_inside);
        let tail_partial = head != tail && ends_inside;
        let unread =
            |partial: bool, sector: u64| (partial && !extent.known.contains(&sector)).then_some(sector);
        [unread(head_partial, head), unread(tail_partial, tail)]
    }

    /// What the extent at `start` needs next.
    pub(super) fn step(&self, start: u64, extent: &Extent) -> Step {
        let missing = if self.reads_apart { self.missing(start, extent) } else { [None; 2] };
        missing.into_iter().flatten().next().map_or(Step::Write, Step::ReadEdge)
    }

    fn locate(&self, start: u64, extent: &mut Extent, geometry: &Geometry) {
        let sector = match self.step(start, extent) {
            Step::ReadEdge(sector) => sector,
            Step::Write => start >> self.shift,
        };
        extent.place = geometry.place(sector);
    }

    /// Remembers that physical sector `sector` has been read for every extent with an edge in it.
    pub(super) fn sector_read(&mut self, sector: u64, geometry: &Geometry) {
        let mut below = (sector + 1) << self.shift;
        while let Some((&start, &extent)) = self.extents.range(..below).next_back() {
            let edges = [start >> self.shift, (extent.end - 1) >> self.shift];
            if edges[1] < sector {
                break;
            }
            let mut extent = extent;
            for (known, edge) in extent.known.iter_mut().zip(edges) {
                if edge == sector {
                    *known = sector;
                }
            }
            self.locate(start, &mut extent, geometry);
            self.extents.insert(start, extent);
            below = start;
        }
    }

    /// The extents from physical sector `sector` on, and those before it, backwards.
    pub(super) fn around(
        &self,
        sector: u64,
    ) -> (impl Iterator<Item = (u64, &Extent)>, impl Iterator<Item = (u64, &Extent)>) {
        let pivot = sector.saturating_mul(1 << self.shift);
        let forward = self.extents.range(pivot..).map(|(&start, extent)| (start, extent));
        let backward = self.extents.range(..pivot).rev().map(|(&start, extent)| (start, extent));
        (forward, backward)
    }

    /// Takes out the extent at `start`, up to byte `limit`, with the neighbours that share a physical sector with it: they
    /// go in one pass. Leaves it in `taken`.
    pub(super) fn take(&mut self, start: u64, limit: u64, taken: &mut Taken, geometry: &Geometry) {
        taken.spans.clear();
        taken.missing.clear();
        let mut first = start;
        while let Some((&other, extent)) = self.extents.range(..first).next_back() {
            if (extent.end - 1) >> self.shift != first >> self.shift {
                break;
            }
            first = other;
        }
        let mut next = Some(first);
        while let Some(from) = next {
            let Some(mut extent) = self.pull(from) else { break };
            if extent.end > limit && limit > from {
                let mut rest = extent;
                extent.end = limit;
                self.locate(limit, &mut rest, geometry);
                self.put(limit, rest);
            }
            taken.spans.push((from, extent.end));
            for sector in self.missing(from, &extent).into_iter().flatten() {
                if taken.missing.last() != Some(&sector) {
                    taken.missing.push(sector);
                }
            }
            let sector = (extent.end - 1) >> self.shift;
            next = self.extents.range(extent.end..).next().map(|(&start, _)| start);
            next = next.filter(|&start| start >> self.shift == sector && start < limit);
        }
    }

    /// Drops what waits inside the span.
    pub(super) fn discard(&mut self, start: u64, end: u64, geometry: &Geometry) {
        while let Some((&from, &extent)) = self.extents.range(..end).next_back() {
            if extent.end <= start {
                break;
            }
            self.pull(from);
            for (part, part_end) in [(from, start.min(extent.end)), (end.max(from), extent.end)] {
                if part < part_end {
                    let mut rest = Extent { end: part_end, ..extent };
                    self.locate(part, &mut rest, geometry);
                    self.put(part, rest);
                }
            }
        }
    }
}

/// What an operation writes, in one pass over whole physical sectors.
#[derive(Clone, Debug, Default)]
pub(super) struct Taken {
    /// The spans, in order.
    pub(super) spans: Vec<(u64, u64)>,
    /// The physical sectors of which only a part is here, in order.
    pub(super) missing: Vec<u64>,
}
