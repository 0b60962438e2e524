//! The write buffer: what the host has written and the platters do not hold yet.
//!
//! Extents are half-open spans of bytes as the platters count them (the host's address plus the firmware's offset). No two
//! overlap or touch. An extent whose edge lies inside a physical sector needs the rest of that sector before it can be
//! written: `known` remembers that it has been read, `coming` and `streamed` that the host may send it (see `rest.rs`).

use std::collections::{BTreeMap, VecDeque};

use straddle_io::Time;

use crate::disk::geometry::{Geometry, Place};
use crate::disk::intake::Write;

/// No physical sector.
const NONE: u64 = u64::MAX;
/// A stream of writes is recognised by this many whole physical sectors in a row.
const STREAM_SECTORS: u64 = 16;
/// So many sectors' worth of partial sectors that wait for their rest do not count as bytes in the buffer.
const KEPT_SECTORS: u64 = 16;

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
    /// Whether a write that waits for room brings the rest of its first and of its last physical sector.
    pub(super) coming: [bool; 2],
    /// Whether it is the end of a stream.
    pub(super) streamed: bool,
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
    /// Those in partial sectors that wait for their rest.
    kept: u64,
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
        Self { extents, bytes: 0, kept: 0, shift, reads_apart, segment_shift, shared: 0 }
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
        self.kept += self.kept_of(start, &extent);
        self.shared -= self.across(start, extent.end);
        self.shared += self.sharing(start, extent.end);
        self.extents.insert(start, extent);
    }

    /// Puts in what is left of an extent.
    fn put_part(&mut self, start: u64, mut part: Extent, geometry: &Geometry) {
        // What was read of a sector that goes to the medium now is old from then on.
        part.known = self.known_edges(start, part.end, &part.known);
        self.locate(start, &mut part, geometry);
        self.put(start, part);
    }

    /// Takes out the extent at `start`.
    fn pull(&mut self, start: u64) -> Option<Extent> {
        let extent = self.extents.remove(&start)?;
        self.bytes -= extent.end - start;
        self.kept -= self.kept_of(start, &extent);
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

    /// The bytes for which the firmware must have room: a few partial sectors that wait for their rest are beside them.
    pub(super) fn weight(&self) -> u64 {
        self.bytes - self.kept.min(KEPT_SECTORS << self.shift)
    }

    fn mask(&self) -> u64 {
        (1 << self.shift) - 1
    }

    /// The first and the last physical sector of the span.
    fn edges(&self, start: u64, end: u64) -> [u64; 2] {
        [start >> self.shift, (end - 1) >> self.shift]
    }

    /// Of the first and the last physical sector of the span those that are among the `read` ones; `NONE` for the others.
    fn known_edges(&self, start: u64, end: u64, read: &[u64]) -> [u64; 2] {
        self.edges(start, end).map(|edge| if read.contains(&edge) { edge } else { NONE })
    }

    /// The bytes of an extent that is nothing but a part of a sector of a stream.
    fn kept_of(&self, start: u64, extent: &Extent) -> u64 {
        let alone = extent.streamed && extent.end - start < 1 << self.shift;
        if alone && start >> self.shift == (extent.end - 1) >> self.shift { extent.end - start } else { 0 }
    }

    /// Whether the first and the last physical sector of an extent are only partly its own.
    pub(super) fn partial(&self, start: u64, extent: &Extent) -> [bool; 2] {
        [start & self.mask() != 0, extent.end & self.mask() != 0]
    }

    /// What is written of an extent whose partial sectors stay `left` behind, if there is anything.
    pub(super) fn body(&self, start: u64, extent: &Extent, left: [bool; 2]) -> Option<(u64, u64)> {
        let from = if left[0] { ((start >> self.shift) + 1) << self.shift } else { start };
        let end = if left[1] { extent.end & !self.mask() } else { extent.end };
        (from < end).then_some((from, end))
    }

    /// What stays behind when nothing hurries: its place is that of the operation on the others.
    fn usually_left(&self, start: u64, extent: &Extent) -> [bool; 2] {
        let partial = self.partial(start, extent);
        let left = [partial[0] && extent.coming[0], partial[1] && (extent.coming[1] || extent.streamed)];
        if self.body(start, extent, left).is_some() { left } else { [false; 2] }
    }

    /// Where the next operation on an extent begins if its partial sectors stay `left` behind.
    pub(super) fn place(&self, start: u64, extent: &Extent, left: [bool; 2], geometry: &Geometry) -> Place {
        if left == self.usually_left(start, extent) {
            return extent.place;
        }
        self.located(start, extent, left, geometry)
    }

    /// Notes that a write of the span waits for room: it brings the rest of its neighbours' sectors.
    pub(super) fn note_waiting(&mut self, start: u64, end: u64, geometry: &Geometry) {
        let before = self.extents.range(..start).next_back();
        let before =
            before.filter(|(_, extent)| (start..end).contains(&extent.end)).map(|(&other, _)| (other, 1));
        let after = self.extents.range(..=end).next_back();
        let after =
            after.filter(|&(&other, extent)| other > start && extent.end > end).map(|(&other, _)| (other, 0));
        for (other, edge) in before.into_iter().chain(after) {
            if let Some(mut extent) = self.get(other) {
                extent.coming[edge] = true;
                self.locate(other, &mut extent, geometry);
                self.extents.insert(other, extent);
            }
        }
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

    /// The spans that the media cache has not, and in how many sectors it would hold them.
    pub(super) fn unlogged(&self, spans: &mut Vec<(u64, u64)>) -> u64 {
        spans.clear();
        spans.extend(
            self.extents
                .iter()
                .filter(|(_, extent)| !extent.logged)
                .map(|(&start, extent)| (start, extent.end)),
        );
        spans.iter().map(|(start, end)| ((end - 1) >> self.shift) - (start >> self.shift) + 1).sum()
    }

    /// The media cache has everything.
    pub(super) fn mark_logged(&mut self) {
        self.extents.values_mut().for_each(|extent| extent.logged = true);
    }

    /// Takes a write, while others `wait` for room. True if it joined data that was here.
    pub(super) fn insert(
        &mut self,
        start: u64,
        end: u64,
        at: Time,
        wait: &VecDeque<Write>,
        geometry: &Geometry,
    ) -> bool {
        let mut joined = Extent {
            end,
            born: at,
            touched: at,
            known: [NONE; 2],
            coming: [false; 2],
            streamed: false,
            logged: false,
            place: Place::default(),
        };
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
            joined.streamed |= extent.streamed;
        }
        joined.known = self.known_edges(first, joined.end, &known);
        joined.streamed |= (joined.end - first) >> self.shift >= STREAM_SECTORS;
        if self.partial(first, &joined) != [false; 2] {
            joined.coming = [
                wait.iter().any(|write| write.start < first && write.end >= first),
                wait.iter().any(|write| write.start <= joined.end && write.end > joined.end),
            ];
        }
        self.locate(first, &mut joined, geometry);
        self.put(first, joined);
        parts > 0
    }

    /// The physical sectors from `start` to `end` that are not wholly there and have not been read: none, one or two.
    fn missing(&self, start: u64, end: u64, known: &[u64; 2]) -> [Option<u64>; 2] {
        let (head, tail) = (start >> self.shift, (end - 1) >> self.shift);
        let ends_inside = end & self.mask() != 0;
        let head_partial = start & self.mask() != 0 || (head == tail && ends_inside);
        let tail_partial = head != tail && ends_inside;
        let unread = |partial: bool, sector: u64| (partial && !known.contains(&sector)).then_some(sector);
        [unread(head_partial, head), unread(tail_partial, tail)]
    }

    /// What the extent's part from `start` to `end` needs next.
    pub(super) fn step(&self, start: u64, end: u64, extent: &Extent) -> Step {
        let missing = if self.reads_apart { self.missing(start, end, &extent.known) } else { [None; 2] };
        missing.into_iter().flatten().next().map_or(Step::Write, Step::ReadEdge)
    }

    fn located(&self, start: u64, extent: &Extent, left: [bool; 2], geometry: &Geometry) -> Place {
        let (from, end) = self.body(start, extent, left).unwrap_or((start, extent.end));
        let sector = match self.step(from, end, extent) {
            Step::ReadEdge(sector) => sector,
            Step::Write => from >> self.shift,
        };
        geometry.place(sector)
    }

    fn locate(&self, start: u64, extent: &mut Extent, geometry: &Geometry) {
        extent.place = self.located(start, extent, self.usually_left(start, extent), geometry);
    }

    /// Remembers that physical sector `sector` has been read for every extent with an edge in it.
    pub(super) fn sector_read(&mut self, sector: u64, geometry: &Geometry) {
        let mut below = (sector + 1) << self.shift;
        while let Some((&start, &extent)) = self.extents.range(..below).next_back() {
            let edges = self.edges(start, extent.end);
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

    /// Takes out the extent at `start` from byte `from`, up to byte `limit`, with the neighbours that share a physical sector
    /// with that: they go in one pass. Leaves it in `taken`.
    pub(super) fn take(&mut self, start: u64, from: u64, limit: u64, taken: &mut Taken, geometry: &Geometry) {
        taken.spans.clear();
        taken.missing.clear();
        let mut first = from;
        if from > start
            && let Some(extent) = self.pull(start)
        {
            let head = Extent { end: from, streamed: true, ..extent };
            self.put_part(start, Extent { coming: [extent.coming[0], false], ..head }, geometry);
            self.put_part(from, Extent { coming: [false, extent.coming[1]], ..extent }, geometry);
        }
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
                // What a write brings the rest of is the end of a stream, however short that was so far.
                let streamed = extent.streamed || (extent.coming[1] && extent.end - limit <= self.mask());
                let coming = [false, extent.coming[1]];
                self.put_part(limit, Extent { coming, streamed, ..extent }, geometry);
                extent.end = limit;
            }
            taken.spans.push((from, extent.end));
            for sector in self.missing(from, extent.end, &extent.known).into_iter().flatten() {
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
                    let coming =
                        [part == from && extent.coming[0], part_end == extent.end && extent.coming[1]];
                    self.put_part(part, Extent { end: part_end, coming, ..extent }, geometry);
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
