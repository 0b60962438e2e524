//! The read cache: a few segments, each a run of sectors that were read, the least recently used given up first.

use std::cmp::Reverse;

use crate::disk::firmware::SegmentRules;

/// A run of physical sectors that the cache holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Segment {
    pub(super) start: u64,
    pub(super) end: u64,
    used: u64,
}

#[derive(Clone, Debug)]
pub(super) struct ReadCache {
    segments: Vec<Segment>,
    /// Sectors that a segment holds.
    size: u64,
    rules: SegmentRules,
    tick: u64,
}

impl ReadCache {
    /// A cache of `segments` segments of `size` sectors; none of either is no cache.
    pub(super) fn new(segments: u32, size: u64, rules: SegmentRules) -> Self {
        let segments = if size == 0 { 0 } else { segments };
        Self { segments: vec![Segment::default(); segments as usize], size, rules, tick: 0 }
    }

    pub(super) fn is_off(&self) -> bool {
        self.segments.is_empty()
    }

    /// The segment that holds all sectors from `start` to `end`, now the most recently used.
    pub(super) fn find(&mut self, start: u64, end: u64) -> Option<usize> {
        let index = self.segments.iter().position(|segment| segment.start <= start && end <= segment.end)?;
        self.touch(index);
        Some(index)
    }

    pub(super) fn get(&self, index: usize) -> Segment {
        self.segments[index]
    }

    fn touch(&mut self, index: usize) {
        self.tick += 1;
        self.segments[index].used = self.tick;
    }

    /// Remembers a read from `start` to `end`: in the segment that it continues, or in place of the oldest.
    pub(super) fn remember(&mut self, start: u64, end: u64) -> Option<usize> {
        let index = match self.continued(start) {
            Some(index) => index,
            None => self.oldest(start)?,
        };
        self.extend(index, end);
        self.touch(index);
        Some(index)
    }

    /// The segment that a read from `start` goes on with.
    pub(super) fn continued(&self, start: u64) -> Option<usize> {
        let reach = u64::from(self.rules.adjoining);
        let continues = |segment: &Segment| {
            segment.start <= start && start < segment.end + reach && segment.end > segment.start
        };
        self.segments.iter().position(continues)
    }

    /// The least recently used segment, given up for one that begins at `start`.
    fn oldest(&mut self, start: u64) -> Option<usize> {
        let oldest = self.segments.iter().enumerate().max_by_key(|(_, segment)| Reverse(segment.used));
        let (index, _) = oldest?;
        (self.segments[index].start, self.segments[index].end) = (start, start);
        Some(index)
    }

    /// Keeps what was written from `start` to `end` in place of the oldest segment, which is returned.
    pub(super) fn keep_written(&mut self, start: u64, end: u64) -> Option<usize> {
        let index = self.oldest(start)?;
        self.extend(index, end);
        self.touch(index);
        Some(index)
    }

    /// The segment also holds the `count` sectors before its first, as far as it has room.
    pub(super) fn extend_back(&mut self, index: usize, count: u64) {
        let segment = &mut self.segments[index];
        segment.start = (segment.start - count.min(segment.start)).max(segment.end.saturating_sub(self.size));
    }

    /// The segment goes on to `end`; what no longer fits falls off its front.
    pub(super) fn extend(&mut self, index: usize, end: u64) {
        let segment = &mut self.segments[index];
        segment.end = segment.end.max(end);
        segment.start = segment.start.max(segment.end.saturating_sub(self.size));
    }

    /// Forgets every sector from `start` to `end`: they have been written.
    pub(super) fn forget(&mut self, start: u64, end: u64) {
        for segment in &mut self.segments {
            if segment.start < end && start < segment.end {
                if self.rules.drops_whole {
                    *segment = Segment::default();
                    continue;
                }
                // The longer side stays.
                if start.saturating_sub(segment.start) >= segment.end.saturating_sub(end) {
                    segment.end = start.max(segment.start);
                } else {
                    segment.start = end;
                }
            }
        }
    }
}
