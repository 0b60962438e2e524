//! What the read cache's segments do for a read: how far is read ahead, and where a partial hit goes on.

use crate::disk::firmware::{ReadAheadEnd, ReadOn};
use crate::disk::{Disk, Read, Stream};
use crate::time::Time;

impl Disk {
    /// How far is read ahead behind a read that ended at `end`, in a segment that begins at `start`.
    pub(super) fn read_ahead_limit(&self, start: u64, end: u64) -> u64 {
        let count = end + self.read_ahead;
        let all = self.geometry.sectors();
        let limit = match self.firmware.segments.until {
            ReadAheadEnd::Count => count,
            ReadAheadEnd::Track => self.geometry.track(end.min(all - 1)).1.min(count),
            ReadAheadEnd::SequentialTracks => {
                let (first, next) = self.geometry.track(end.min(all - 1));
                if start < first && next < all { self.geometry.track(next).1 } else { next }
            }
        };
        limit.min(all).max(end.min(all))
    }

    /// A hit up to `end` in `segment`: lets the reading ahead go on, as far as the firmware does that.
    pub(super) fn hit(&mut self, segment: usize, end: u64) {
        let limit = self.read_ahead_limit(self.cache.get(segment).start, end);
        let rule = self.firmware.segments.read_on;
        let (_, moves) = self.read_terms();
        let (now, idle) = (self.now, self.busy.is_none());
        if let Some(stream) = self.stream.as_mut().filter(|stream| stream.segment == segment) {
            let stopped = stream.next >= stream.limit;
            if stopped && limit > stream.limit {
                if rule == ReadOn::Running {
                    return;
                }
                // It begins again where it was; the heads have to come round to it.
                stream.at = stream.at.max(if rule == ReadOn::AnySegment { moves } else { now });
            }
            stream.limit = stream.limit.max(limit);
        } else if rule == ReadOn::AnySegment && idle {
            let next = self.cache.get(segment).end;
            if next < limit {
                self.stream = Some(Stream { segment, next, at: moves, limit });
            }
        }
    }

    /// Where a read that the cache holds the beginning of goes on, and from when.
    pub(super) fn goes_on(&self, read: &Read) -> Option<(u64, Time)> {
        let from = self.now.max(read.ready);
        if let Some(stream) = self.stream.filter(|_| continues(self.streamed(), read)) {
            // A stream that still runs needs no command to go on.
            return Some((stream.next, if stream.next < stream.limit { stream.at } else { from }));
        }
        if self.firmware.segments.adjoining {
            return None;
        }
        let segment = self.cache.continued(read.first)?;
        Some((self.cache.get(segment).end, from)).filter(|&(next, _)| next < read.end)
    }

    /// What the stream has read and still holds: from where, up to where a read may begin to go on with it, and the
    /// sector that comes next.
    pub(super) fn streamed(&self) -> Option<(u64, u64, u64)> {
        let reach = u64::from(self.firmware.segments.adjoining);
        self.stream.map(|stream| (self.cache.get(stream.segment).start, stream.next + reach, stream.next))
    }

    /// A write from sector `first` to `end` is in the buffer: what the read cache makes of that.
    pub(super) fn note_written(&mut self, first: u64, end: u64) {
        let rules = self.firmware.segments;
        if rules.drops_whole {
            // The write ends the reading ahead.
            self.read_ahead_until(self.now);
            self.stream = None;
        }
        self.cache.forget(first, end);
        if rules.keeps_written {
            let given_up = self.cache.keep_written(first, end);
            if self.stream.is_some_and(|stream| Some(stream.segment) == given_up) {
                self.stream = None;
            }
        }
    }
}

/// Whether the read begins inside what has been read ahead and goes on where that stands now.
pub(super) fn continues(streamed: Option<(u64, u64, u64)>, read: &Read) -> bool {
    streamed.is_some_and(|(start, reach, next)| start <= read.first && read.first < reach && read.end > next)
}
