//! The log of partial sectors: parts of physical sectors are written to an area of the platters, many in one
//! pass, instead of being read, changed and written in place.
//!
//! A part is in the log until it is in place, overwritten or discarded; a read gets it from there. Parts are put in
//! place while the drive is idle, one sector at a time, so that a read waits for one of them at most. If the log has
//! no room, partial sectors are read and written in place, as if there were no log.
//!
//! With shingled recording no part of a band can be written by itself, because its tracks overlap. Then all sectors
//! go to the log, except those of a stream: what begins a band or follows the last write in place. To put a sector in
//! place, the drive reads its band, with all parts of it in the log, and writes it as a whole; at once, if the log
//! has no room (A. Aghayev and P. Desnoyers, "Skylight", FAST'15: persistent cache, static bands, cleaning while
//! idle). Ending a stream inside a band costs nothing more: how firmware ends one is not known.

use std::collections::VecDeque;

use straddle_units::io::{Nanos, Time};

use crate::disk::buffer::Extent;
use crate::disk::mechanism::Pass;
use crate::disk::media_cache::MediaCache;
use crate::disk::parameters::LogParameters;
use crate::disk::rest::Patience;
use crate::disk::{Busy, Disk, Read, Took, Work};
use crate::drive::MediaEvent;

const BATCH: usize = 64;

#[derive(Clone, Debug)]
pub(super) struct PartialLog {
    pub(super) area: MediaCache,
    idle: Nanos,
    /// Sectors whose parts have been read from the log and are to be put in place, by address.
    moving: VecDeque<u64>,
    band: Option<u64>,
    follows: u64,
}

impl PartialLog {
    pub(super) fn new(parameters: LogParameters) -> Self {
        let LogParameters { first_sector, sectors, idle, band } = parameters;
        let area = MediaCache::new(first_sector, sectors);
        Self { area, idle, moving: VecDeque::new(), band, follows: 0 }
    }
}

/// A read of data of which a part is in the log.
#[derive(Clone, Debug, Default)]
pub(super) struct Fragments {
    /// Runs of sectors in the log: the first, and how many.
    runs: Vec<(u64, u64)>,
    all: bool,
}

impl Disk {
    /// Writes the partial sectors of the extent at `start`, and of those after it. Returns false if there is none, no
    /// log, or no room in it.
    #[cold]
    pub(super) fn log_partial(&mut self, start: u64, patience: Patience) -> bool {
        if self.logs.partial.is_none() {
            return false;
        }
        let mut spans = std::mem::take(&mut self.destager.in_flight.spans);
        spans.clear();
        let (after, _) = self.buffer.around(start >> self.rules.shift);
        for (other, extent) in after.skip_while(|(other, _)| *other < start) {
            if spans.len() >= BATCH {
                break;
            }
            self.partial_spans(other, extent, patience, &mut spans);
            if spans.is_empty() {
                break;
            }
        }
        self.destager.in_flight.spans = spans;
        self.destager.in_flight.missing.clear();
        let count = self.destager.in_flight.spans.len() as u64;
        let Some(log) = self.logs.partial.as_mut().filter(|_| count > 0) else { return false };
        let Some(first) = log.area.append(&self.destager.in_flight.spans, count) else {
            self.destager.in_flight.spans.clear();
            return self.clean_at_once();
        };
        for index in 0..self.destager.in_flight.spans.len() {
            let (start, end) = self.destager.in_flight.spans[index];
            self.buffer.discard(start, end, &self.mechanism.geometry);
        }
        self.announce(|at, offset, length| MediaEvent::Storing { at, offset, length });
        self.record.counters.destages += 1;
        let begin = self.now.max(self.write_begins());
        let end = self.mechanism.pass(begin, first, count, Pass::Write, &mut self.record.counters);
        self.busy = Some(Busy { end, work: Work::Partial });
        true
    }

    fn partial_spans(&self, start: u64, extent: &Extent, patience: Patience, spans: &mut Vec<(u64, u64)>) {
        let Some(next) = self.next_of(start, extent, patience) else { return };
        if let Some(end) = self.band_end(next.from >> self.rules.shift) {
            let (first, after) = self.rules.sectors(next.from, next.end);
            let part = |sector: u64| {
                let (from, until) = (sector << self.rules.shift, (sector + 1) << self.rules.shift);
                (next.from.max(from), next.end.min(until))
            };
            spans.extend((first..after.min(end)).take(BATCH - spans.len()).map(part));
            return;
        }
        for sector in self.buffer.missing(next.from, next.end, &extent.known).into_iter().flatten() {
            let (first, end) = (sector << self.rules.shift, (sector + 1) << self.rules.shift);
            spans.push((next.from.max(first), next.end.min(end)));
        }
    }

    /// The end of the band of a sector that has to go to the log.
    fn band_end(&self, sector: u64) -> Option<u64> {
        let log = self.logs.partial.as_ref()?;
        let into = sector % log.band?;
        (into > 0 && sector != log.follows).then(|| sector - into + log.band.unwrap_or(0))
    }

    #[cold]
    pub(super) fn finish_partial(&mut self) {
        self.announce(|at, offset, length| MediaEvent::Stored { at, offset, length });
        self.forget_written();
        self.destager.in_flight.spans.clear();
        self.release_durable();
        self.admit();
    }

    #[cold]
    pub(super) fn fragments(&self, start: u64, end: u64) -> Option<Fragments> {
        let log = self.logs.partial.as_ref().filter(|log| !log.area.is_empty())?;
        let mut fragments = Fragments::default();
        let mut bytes = 0;
        for (from, until, sector) in log.area.live_within(start, end) {
            bytes += until.min(end) - from.max(start);
            match fragments.runs.last_mut() {
                Some((first, count)) if *first + *count == sector => *count += 1,
                Some((first, count)) if (*first..*first + *count).contains(&sector) => {}
                _ => fragments.runs.push((sector, 1)),
            }
        }
        fragments.all = bytes == end - start;
        (bytes > 0).then_some(fragments)
    }

    #[cold]
    pub(super) fn begin_fragments(&mut self, read: Read, first: u64, mut at: Time, fragments: &Fragments) {
        let counters = &mut self.record.counters;
        if !fragments.all {
            at = self.mechanism.pass(at, first, read.end - first, Pass::Read, counters);
        }
        for &(sector, count) in &fragments.runs {
            at = self.mechanism.pass(at, sector, count, Pass::Read, counters);
        }
        self.memory.reads.end_stream();
        let took = if fragments.all { Took::Logged } else { Took::Both };
        let cached = first - read.first;
        self.busy = Some(Busy { end: at, work: Work::Read { read, cached, passed: 0, took } });
    }

    pub(super) fn has_logged(&self) -> bool {
        self.logs.partial.as_ref().is_some_and(|log| !log.area.is_empty())
    }

    #[cold]
    pub(super) fn clip_read_ahead(&mut self) {
        let (Some(log), Some(stream)) = (&self.logs.partial, self.memory.reads.stream) else { return };
        let from = stream.next << self.rules.shift;
        if let Some((first, ..)) = log.area.live_within(from, stream.limit << self.rules.shift).next() {
            self.memory.reads.clip_stream(first >> self.rules.shift);
        }
    }

    /// Puts a sector in place, or reads the parts of the next ones, if the drive has been idle long enough or the log
    /// is nearly full.
    #[cold]
    pub(super) fn put_in_place(&mut self) {
        if self.busy.is_some() || !self.reads.waiting.is_empty() || !self.has_logged() {
            return;
        }
        let idle = self.logs.partial.as_ref().and_then(|log| self.idle_for(log.idle));
        let Some(log) = &mut self.logs.partial else { return };
        if let Some(from) = idle.filter(|_| !log.area.is_nearly_full()) {
            self.destager.wake = self.destager.wake.min(from);
            return;
        }
        self.clean();
    }

    /// Makes room in the log of a shingled drive; false if the drive is another one or there is nothing to do.
    fn clean_at_once(&mut self) -> bool {
        self.logs.partial.as_ref().is_some_and(|log| log.band.is_some()) && self.clean()
    }

    /// Puts the next sector, or its band, in place, or reads the parts of the next ones.
    fn clean(&mut self) -> bool {
        let Some(log) = &mut self.logs.partial else { return false };
        let shift = self.rules.shift;
        let live = |area: &MediaCache, sector: u64| {
            area.live_within(sector << shift, (sector + 1) << shift).next().is_some()
        };
        let next = loop {
            match log.moving.pop_front() {
                Some(sector) if !live(&log.area, sector) => {}
                next => break next,
            }
        };
        let counters = &mut self.record.counters;
        let begin = self.now + self.destager.cache.setup;
        let (end, work) = match next {
            Some(sector) => {
                let count = log.band.unwrap_or(1);
                let first = sector / count * count;
                let count = count.min(self.mechanism.geometry.sectors() - first);
                let mut read = self.mechanism.pass(begin, first, count, Pass::Read, counters);
                if log.band.is_some() {
                    // The parts of the sector itself have been read with those of its entry.
                    let others = log.area.live_within(first << shift, (first + count) << shift);
                    for (_, _, at) in others.filter(|(from, ..)| from >> shift != sector) {
                        read = self.mechanism.pass(read, at, 1, Pass::Read, counters);
                    }
                }
                counters.rmw_reads += 1;
                counters.rmw_read_bytes += count << shift;
                let end = self.mechanism.pass(read, first, count, Pass::Write, counters);
                (end, Work::PutInPlace { first, count })
            }
            None => {
                let Some((first, count)) = log.area.oldest(|start| log.moving.push_back(start >> shift))
                else {
                    return false;
                };
                log.moving.make_contiguous().sort_unstable();
                let end = self.mechanism.pass(begin, first, count, Pass::Read, counters);
                (end, Work::Fetch)
            }
        };
        self.read_ahead_until(self.now);
        self.memory.reads.end_stream();
        self.busy = Some(Busy { end, work });
        true
    }

    #[cold]
    pub(super) fn finish_in_place(&mut self, first: u64, count: u64) {
        if let Some(log) = &mut self.logs.partial {
            log.area.retire(first << self.rules.shift, (first + count) << self.rules.shift);
        }
    }

    pub(super) const fn written_in_place(&mut self, end: u64) {
        if let Some(log) = &mut self.logs.partial {
            log.follows = end;
        }
    }
}
