//! What the drive has in memory of the platters: the read cache, whose least recently used segment is replaced, with
//! reading ahead into one segment; and what was written last.

use std::cmp::Reverse;
use std::collections::VecDeque;

use straddle_units::io::Time;

use crate::disk::Read;
use crate::disk::firmware::{ReadAheadEnd, ReadOn, SegmentRules};
use crate::disk::geometry::Geometry;
use crate::disk::parameters::ReadCacheParameters;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Segment {
    pub(super) start: u64,
    pub(super) end: u64,
    used: u64,
}

#[derive(Clone, Debug)]
pub(super) struct ReadCache {
    segments: Vec<Segment>,
    /// Capacity of a segment, in sectors.
    size: u64,
    pub(super) rules: SegmentRules,
    read_ahead: u64,
    pub(super) stream: Option<Stream>,
    tick: u64,
}

/// Reading ahead into a segment: everything before `next` had been read at time `at`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stream {
    pub(super) segment: usize,
    pub(super) next: u64,
    pub(super) at: Time,
    pub(super) limit: u64,
}

impl ReadCache {
    pub(super) fn new(parameters: ReadCacheParameters, rules: SegmentRules) -> Self {
        let ReadCacheParameters { segments, segment_sectors: size, read_ahead } = parameters;
        let segments = if size == 0 { 0 } else { segments };
        let segments = vec![Segment::default(); segments as usize];
        Self { segments, size, rules, read_ahead, stream: None, tick: 0 }
    }

    pub(super) const fn end_stream(&mut self) {
        self.stream = None;
    }

    pub(super) fn clip_stream(&mut self, limit: u64) {
        if let Some(stream) = &mut self.stream {
            stream.limit = stream.limit.min(limit).max(stream.next);
        }
    }

    pub(super) fn holds(&self, sector: u64) -> bool {
        self.segments.iter().any(|segment| (segment.start..segment.end).contains(&sector))
    }

    pub(super) fn stream_to(&mut self, at: Time, next: u64) {
        if let Some(stream) = &mut self.stream {
            (stream.at, stream.next) = (at, next);
            let segment = stream.segment;
            self.extend(segment, next);
        }
    }

    pub(super) fn begin_stream(&mut self, segment: usize, end: u64, now: Time, geometry: &Geometry) {
        if self.read_ahead > 0 {
            let limit = self.limit(self.get(segment).start, end, geometry);
            self.stream = Some(Stream { segment, next: end, at: now, limit });
        }
    }

    /// Where reading ahead ends, after a read that ended at `end`, in a segment that begins at `start`.
    fn limit(&self, start: u64, end: u64, geometry: &Geometry) -> u64 {
        let count = end + self.read_ahead;
        let all = geometry.sectors();
        let limit = match self.rules.until {
            ReadAheadEnd::Count => count,
            ReadAheadEnd::Track => geometry.track(end.min(all - 1)).1.min(count),
            ReadAheadEnd::Cylinder => geometry.cylinder_end(end.min(all - 1)).min(count),
            ReadAheadEnd::SequentialTracks => {
                let (first, next) = geometry.track(end.min(all - 1));
                if start < first && next < all { geometry.track(next).1 } else { next }
            }
        };
        limit.min(all).max(end.min(all))
    }

    /// Reading ahead continues after a hit as far as the firmware allows. The heads could move for the read at
    /// `moves`; `idle` says that they are free.
    pub(super) fn hit(
        &mut self,
        segment: usize,
        end: u64,
        (now, moves): (Time, Time),
        idle: bool,
        geometry: &Geometry,
    ) {
        let limit = self.limit(self.get(segment).start, end, geometry);
        let rule = self.rules.read_on;
        if let Some(stream) = self.stream.as_mut().filter(|stream| stream.segment == segment) {
            let stopped = stream.next >= stream.limit;
            if stopped && limit > stream.limit {
                if rule == ReadOn::Running {
                    return;
                }
                // Reading ahead resumes where it stopped, once the heads have come round to it.
                stream.at = stream.at.max(if rule == ReadOn::AnySegment { moves } else { now });
            }
            stream.limit = stream.limit.max(limit);
        } else if rule == ReadOn::AnySegment && idle {
            let next = self.get(segment).end;
            if next < limit {
                self.stream = Some(Stream { segment, next, at: moves, limit });
            }
        }
    }

    /// For a read that continues the stream, or whose beginning is cached: the sector to continue at, and when.
    pub(super) fn goes_on(&self, read: &Read, continues: bool, now: Time) -> Option<(u64, Time)> {
        let from = now.max(read.ready);
        if let Some(stream) = self.stream.filter(|_| continues) {
            // A stream that is still running needs no command to continue.
            return Some((stream.next, if stream.next < stream.limit { stream.at } else { from }));
        }
        if self.rules.adjoining {
            return None;
        }
        let segment = self.continued(read.first)?;
        Some((self.get(segment).end, from)).filter(|&(next, _)| next < read.end)
    }

    pub(super) fn is_off(&self) -> bool {
        self.segments.is_empty()
    }

    /// Finds the segment that holds all sectors from `start` to `end`, and makes it the most recently used.
    pub(super) fn find(&mut self, start: u64, end: u64) -> Option<usize> {
        let holds = |segment: &Segment| segment.start <= start && end <= segment.end;
        // Of several, the one that is being read into, which then goes on.
        let running = self.stream.filter(|stream| stream.next < stream.limit).map(|stream| stream.segment);
        let running = running.filter(|&index| holds(&self.segments[index]));
        let index = running.or_else(|| self.segments.iter().position(holds))?;
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

    /// Records a read from `start` to `end`: in the segment that it continues, or in place of the oldest.
    pub(super) fn remember(&mut self, start: u64, end: u64) -> Option<usize> {
        let index = match self.continued(start) {
            Some(index) => index,
            None => self.oldest(start)?,
        };
        self.extend(index, end);
        self.touch(index);
        Some(index)
    }

    fn continued(&self, start: u64) -> Option<usize> {
        let reach = u64::from(self.rules.adjoining);
        let continues = |segment: &Segment| {
            segment.start <= start && start < segment.end + reach && segment.end > segment.start
        };
        self.segments.iter().position(continues)
    }

    /// Resets the least recently used segment to begin at `start`, and returns it.
    fn oldest(&mut self, start: u64) -> Option<usize> {
        let oldest = self.segments.iter().enumerate().max_by_key(|(_, segment)| Reverse(segment.used));
        let (index, _) = oldest?;
        (self.segments[index].start, self.segments[index].end) = (start, start);
        Some(index)
    }

    /// The write is now in the buffer; reading ahead has been advanced to now if the write ends it.
    pub(super) fn note_written(&mut self, first: u64, end: u64) {
        if self.rules.drops_whole {
            self.stream = None;
        }
        self.forget(first, end);
        if self.rules.keeps_written
            && let Some(index) = self.oldest(first)
        {
            self.extend(index, end);
            self.touch(index);
            self.stream = self.stream.filter(|stream| stream.segment != index);
        }
    }

    pub(super) fn extend_back(&mut self, index: usize, count: u64) {
        let segment = &mut self.segments[index];
        segment.start = (segment.start - count.min(segment.start)).max(segment.end.saturating_sub(self.size));
    }

    pub(super) fn extend(&mut self, index: usize, end: u64) {
        let segment = &mut self.segments[index];
        segment.end = segment.end.max(end);
        segment.start = segment.start.max(segment.end.saturating_sub(self.size));
    }

    pub(super) fn forget(&mut self, start: u64, end: u64) {
        for segment in &mut self.segments {
            if segment.start < end && start < segment.end {
                if self.rules.drops_whole {
                    *segment = Segment::default();
                    continue;
                }
                // The longer side is kept.
                if start.saturating_sub(segment.start) >= segment.end.saturating_sub(end) {
                    segment.end = start.max(segment.start);
                } else {
                    segment.start = end;
                }
            }
        }
    }
}

const RUNS: usize = 256;

/// Sectors that the drive has written and still has in memory: a partial write to one need not read it. Runs of
/// physical sectors, the newest last.
#[derive(Clone, Debug)]
pub(super) struct Kept {
    runs: VecDeque<(u64, u64)>,
    sectors: u64,
    capacity: u64,
}

impl Kept {
    pub(super) const fn new(capacity: u64) -> Self {
        Self { runs: VecDeque::new(), sectors: 0, capacity }
    }

    pub(super) fn keep(&mut self, first: u64, end: u64) {
        if self.capacity == 0 {
            return;
        }
        let first = first.max(end.saturating_sub(self.capacity));
        self.runs.push_back((first, end));
        self.sectors += end - first;
        while self.sectors > self.capacity || self.runs.len() > RUNS {
            let Some((first, end)) = self.runs.pop_front() else { return };
            self.sectors -= end - first;
        }
    }

    pub(super) fn holds(&self, sector: u64) -> bool {
        self.runs.iter().rev().any(|&(first, end)| (first..end).contains(&sector))
    }
}
