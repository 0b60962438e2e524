//! The write buffer: data that the host has written and the platters do not hold yet.
//!
//! Extents are half-open spans of bytes in the platters' addresses (the host's address plus the firmware
//! offset). No two overlap or touch. An extent whose edge lies inside a physical sector needs the rest of
//! that sector before it can be written: `known` records that the sector has been read, `coming` and
//! `streamed` that the host may still send the rest (see `rest.rs`).

use std::collections::{BTreeMap, VecDeque};

use straddle_units::io::Time;

use crate::disk::geometry::{Geometry, Position};
use crate::disk::intake::Write;
use crate::disk::parameters::RmwPolicy;

pub(super) const NONE: u64 = u64::MAX;
/// The number of consecutive whole physical sectors by which a stream of writes is recognised.
const STREAM_SECTORS: u64 = 16;
/// How many sectors' worth of partial sectors waiting for their rest do not count as bytes in the buffer.
const KEPT_SECTORS: u64 = 16;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Extent {
    pub(super) end: u64,
    pub(super) born: Time,
    pub(super) touched: Time,
    /// The physical sectors at its edges that have been read, or `NONE`.
    pub(super) known: [u64; 2],
    /// Whether a write that waits for room brings the rest of its first and of its last physical sector.
    pub(super) coming: [bool; 2],
    /// Whether it is the end of a stream.
    pub(super) streamed: bool,
    /// Whether it is one of a series at regular intervals.
    pub(super) regular: bool,
    pub(super) logged: bool,
    /// Where its next operation begins.
    pub(super) place: Position,
}

/// Of which extents the sectors at the edges are read by separate operations before the write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ReadsApart {
    None,
    Regular,
    All,
}

impl From<RmwPolicy> for ReadsApart {
    fn from(policy: RmwPolicy) -> Self {
        match policy {
            RmwPolicy::Deferred => Self::All,
            RmwPolicy::Adaptive => Self::Regular,
            _ => Self::None,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// Only a part of this physical sector is in the buffer: it must be read first.
    ReadEdge(u64),
    Write,
}

#[derive(Clone, Debug)]
pub(super) struct WriteBuffer {
    extents: BTreeMap<u64, Extent>,
    bytes: u64,
    /// Bytes of it in partial sectors that wait for their rest.
    kept: u64,
    shift: u32,
    reads_apart: ReadsApart,
    /// Log2 of the segment size, if the extents of a segment share an entry of the firmware's table.
    segment_shift: Option<u32>,
    /// Pairs of neighbouring extents that share a segment.
    shared: usize,
}

impl WriteBuffer {
    /// A `segment` of 0: no segments.
    pub(super) fn new(physical: u64, reads_apart: ReadsApart, segment: u64) -> Self {
        let segment_shift = (segment > 0).then(|| segment.trailing_zeros());
        let (extents, shift) = (BTreeMap::new(), physical.trailing_zeros());
        Self { extents, bytes: 0, kept: 0, shift, reads_apart, segment_shift, shared: 0 }
    }

    /// The number of entries in use in the firmware's table.
    pub(super) fn entries(&self) -> usize {
        self.extents.len() - self.shared
    }

    /// How many segments an extent from `start` to `end` would share with its two neighbours.
    fn sharing(&self, start: u64, end: u64) -> usize {
        let Some(shift) = self.segment_shift else { return 0 };
        let before = self.extents.range(..start).next_back();
        let after = self.extents.range(end..).next();
        usize::from(before.is_some_and(|(_, extent)| (extent.end - 1) >> shift == start >> shift))
            + usize::from(after.is_some_and(|(&next, _)| next >> shift == (end - 1) >> shift))
    }

    /// 1 if the extents on both sides of the gap from `start` to `end` share a segment, otherwise 0.
    fn across(&self, start: u64, end: u64) -> usize {
        let Some(shift) = self.segment_shift else { return 0 };
        let before = self.extents.range(..start).next_back();
        let after = self.extents.range(end..).next();
        let both = before.zip(after);
        usize::from(both.is_some_and(|((_, left), (&right, _))| (left.end - 1) >> shift == right >> shift))
    }

    fn put(&mut self, start: u64, extent: Extent) {
        self.bytes += extent.end - start;
        self.kept += self.kept_of(start, &extent);
        self.shared -= self.across(start, extent.end);
        self.shared += self.sharing(start, extent.end);
        self.extents.insert(start, extent);
    }

    fn put_part(&mut self, start: u64, mut part: Extent, geometry: &Geometry) {
        // What was read of a sector that is about to be written is stale from now on.
        part.known = self.known_edges(start, part.end, &part.known);
        self.locate(start, &mut part, geometry);
        self.put(start, part);
    }

    fn pull(&mut self, start: u64) -> Option<Extent> {
        let extent = self.extents.remove(&start)?;
        self.bytes -= extent.end - start;
        self.kept -= self.kept_of(start, &extent);
        self.shared -= self.sharing(start, extent.end);
        self.shared += self.across(start, extent.end);
        Some(extent)
    }

    pub(super) fn needs_entry(&self, start: u64, end: u64) -> bool {
        !self.joins(start, end) && self.sharing(start, end) == 0
    }

    pub(super) fn is_empty(&self) -> bool {
        self.extents.is_empty()
    }

    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The bytes that count against the buffer's size: not a few partial sectors that wait for their rest.
    pub(super) fn weight(&self) -> u64 {
        self.bytes - self.kept.min(KEPT_SECTORS << self.shift)
    }

    fn mask(&self) -> u64 {
        (1 << self.shift) - 1
    }

    fn edges(&self, start: u64, end: u64) -> [u64; 2] {
        [start >> self.shift, (end - 1) >> self.shift]
    }

    /// The first and the last physical sector of the span, each `NONE` if it is not in `read`.
    fn known_edges(&self, start: u64, end: u64, read: &[u64]) -> [u64; 2] {
        self.edges(start, end).map(|edge| if read.contains(&edge) { edge } else { NONE })
    }

    /// The bytes of an extent that is only a partial sector of a stream; 0 for any other extent.
    fn kept_of(&self, start: u64, extent: &Extent) -> u64 {
        let alone = extent.streamed && extent.end - start < 1 << self.shift;
        if alone && start >> self.shift == (extent.end - 1) >> self.shift { extent.end - start } else { 0 }
    }

    /// Whether the extent covers its first and its last physical sector only in part.
    pub(super) fn partial(&self, start: u64, extent: &Extent) -> [bool; 2] {
        [start & self.mask() != 0, extent.end & self.mask() != 0]
    }

    /// The span to write of an extent whose partial sectors in `left` stay behind.
    pub(super) fn body(&self, start: u64, extent: &Extent, left: [bool; 2]) -> Option<(u64, u64)> {
        let from = if left[0] { ((start >> self.shift) + 1) << self.shift } else { start };
        let end = if left[1] { extent.end & !self.mask() } else { extent.end };
        (from < end).then_some((from, end))
    }

    /// Which partial sectors stay behind when nothing is urgent.
    fn usually_left(&self, start: u64, extent: &Extent) -> [bool; 2] {
        let partial = self.partial(start, extent);
        let left = [partial[0] && extent.coming[0], partial[1] && (extent.coming[1] || extent.streamed)];
        if self.body(start, extent, left).is_some() { left } else { [false; 2] }
    }

    /// Where the next operation on an extent begins if its partial sectors in `left` stay behind.
    pub(super) fn place(
        &self,
        start: u64,
        extent: &Extent,
        left: [bool; 2],
        geometry: &Geometry,
    ) -> Position {
        if left == self.usually_left(start, extent) {
            return extent.place;
        }
        self.located(start, extent, left, geometry)
    }

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

    pub(super) fn overlaps(&self, start: u64, end: u64) -> bool {
        self.extents.range(..end).next_back().is_some_and(|(_, extent)| extent.end > start)
    }

    pub(super) fn covers(&self, start: u64, end: u64) -> bool {
        self.extents.range(..=start).next_back().is_some_and(|(_, extent)| extent.end >= end)
    }

    pub(super) fn joins(&self, start: u64, end: u64) -> bool {
        self.extents.range(..=end).next_back().is_some_and(|(_, extent)| extent.end >= start)
    }

    pub(super) fn first_within(&self, start: u64, end: u64) -> Option<u64> {
        let before = self.extents.range(..=start).next_back().filter(|(_, extent)| extent.end > start);
        before.or_else(|| self.extents.range(start..end).next()).map(|(&first, _)| first)
    }

    pub(super) fn get(&self, start: u64) -> Option<Extent> {
        self.extents.get(&start).copied()
    }

    /// Collects the spans that are not in the media cache; returns how many of its sectors they would take.
    pub(super) fn unlogged(&self, spans: &mut Vec<(u64, u64)>) -> u64 {
        spans.clear();
        let unlogged = self.extents.iter().filter(|(_, extent)| !extent.logged);
        spans.extend(unlogged.map(|(&start, extent)| (start, extent.end)));
        spans.iter().map(|(start, end)| ((end - 1) >> self.shift) - (start >> self.shift) + 1).sum()
    }

    pub(super) fn mark_logged(&mut self) {
        self.extents.values_mut().for_each(|extent| extent.logged = true);
    }

    /// Inserts a write, while the writes in `wait` wait for room. The rest of the sectors in `memory` need not
    /// be read. Returns whether it joined data already in the buffer.
    pub(super) fn insert(
        &mut self,
        write: &Write,
        at: Time,
        memory: [u64; 2],
        wait: &VecDeque<Write>,
        geometry: &Geometry,
    ) -> bool {
        let Write { start, end, regular, .. } = *write;
        let mut joined = Extent {
            end,
            born: at,
            touched: at,
            known: [NONE; 2],
            coming: [false; 2],
            streamed: false,
            regular,
            logged: false,
            place: Position::default(),
        };
        let mut first = start;
        let mut known = [NONE; 10];
        known[8..].copy_from_slice(&memory);
        let mut parts = 0;
        while let Some((&other, &extent)) = self.extents.range(..=end).next_back() {
            if extent.end < start {
                break;
            }
            self.pull(other);
            // With more than four parts, some reads are forgotten and repeated: rare, and never wrong.
            if let Some(pair) = known[..8].get_mut(2 * parts..2 * parts + 2) {
                pair.copy_from_slice(&extent.known);
            }
            parts += 1;
            joined.born = joined.born.min(extent.born);
            first = first.min(other);
            joined.end = joined.end.max(extent.end);
            joined.streamed |= extent.streamed;
            joined.regular |= extent.regular;
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

    /// The physical sectors at the edges of `start` to `end` that are only partly there and have not been read.
    pub(super) fn missing(&self, start: u64, end: u64, known: &[u64; 2]) -> [Option<u64>; 2] {
        let (head, tail) = (start >> self.shift, (end - 1) >> self.shift);
        let ends_inside = end & self.mask() != 0;
        let head_partial = start & self.mask() != 0 || (head == tail && ends_inside);
        let tail_partial = head != tail && ends_inside;
        let unread = |partial: bool, sector: u64| (partial && !known.contains(&sector)).then_some(sector);
        [unread(head_partial, head), unread(tail_partial, tail)]
    }

    pub(super) fn step(&self, start: u64, end: u64, extent: &Extent) -> Step {
        let apart = match self.reads_apart {
            ReadsApart::None => false,
            ReadsApart::Regular => extent.regular,
            ReadsApart::All => true,
        };
        let missing = if apart { self.missing(start, end, &extent.known) } else { [None; 2] };
        missing.into_iter().flatten().next().map_or(Step::Write, Step::ReadEdge)
    }

    fn located(&self, start: u64, extent: &Extent, left: [bool; 2], geometry: &Geometry) -> Position {
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

    /// The extents from physical sector `sector` on, forwards, and those before it, backwards.
    pub(super) fn around(
        &self,
        sector: u64,
    ) -> (impl Iterator<Item = (u64, &Extent)>, impl Iterator<Item = (u64, &Extent)>) {
        let pivot = sector.saturating_mul(1 << self.shift);
        let forward = self.extents.range(pivot..).map(|(&start, extent)| (start, extent));
        let backward = self.extents.range(..pivot).rev().map(|(&start, extent)| (start, extent));
        (forward, backward)
    }

    /// Takes out the extent at `start`, from `from` to `limit`, with the neighbours that share a physical sector.
    pub(super) fn take(&mut self, start: u64, from: u64, limit: u64, taken: &mut Taken, geometry: &Geometry) {
        taken.spans.clear();
        taken.missing.clear();
        taken.regular = false;
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
                // An extent whose rest a waiting write brings is the end of a stream, however short.
                let streamed = extent.streamed || (extent.coming[1] && extent.end - limit <= self.mask());
                let coming = [false, extent.coming[1]];
                self.put_part(limit, Extent { coming, streamed, ..extent }, geometry);
                extent.end = limit;
            }
            taken.spans.push((from, extent.end));
            taken.regular |= extent.regular;
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

/// In one pass over whole physical sectors.
#[derive(Clone, Debug, Default)]
pub(super) struct Taken {
    pub(super) spans: Vec<(u64, u64)>,
    /// The physical sectors of which only a part is in the buffer, in order.
    pub(super) missing: Vec<u64>,
    pub(super) regular: bool,
}
