//! The medium's side of the disk: which operation is next, what it takes, and what is true when it has ended.

use crate::disk::buffer::{Extent, Step};
use crate::disk::mechanism::Pass;
use crate::disk::rest::{Next, Patience};
use crate::disk::segments::continues;
use crate::disk::{Busy, Disk, Place, Protection, Read, Stream, Work};
use crate::request::MediaEvent;
use crate::time::{Nanos, Time};

/// No read or write whose host waits is passed over for longer than this.
const LONGEST_WAIT: Nanos = Nanos::new(1_000_000_000);

/// The operation to begin.
#[derive(Clone, Copy, Debug)]
enum Choice {
    Read(usize),
    /// The extent there, and how patient its partial sectors are.
    Extent(u64, Patience),
}

/// The best operation so far, and how long until it could begin.
#[derive(Clone, Copy, Debug)]
struct Best {
    cost: Nanos,
    choice: Option<Choice>,
    /// Further away than this nothing is better.
    reach: u32,
}

/// What an extent that was passed over waits for.
#[derive(Clone, Copy, Debug)]
struct Again {
    /// Then it is looked at again.
    at: Time,
    /// It is the rest of a sector, of an extent at least.
    rest: bool,
}

impl Default for Again {
    fn default() -> Self {
        Self { at: Time::NEVER, rest: false }
    }
}

impl Default for Best {
    fn default() -> Self {
        Self { cost: Nanos::new(u64::MAX), choice: None, reach: u32::MAX }
    }
}

impl Disk {
    /// Begins the next operation if the mechanism is free and there is one.
    pub(super) fn start_next(&mut self) {
        if self.busy.is_some() {
            return;
        }
        self.wake = Time::NEVER;
        if self.flush.is_some() && self.settle_flush() {
            return;
        }
        if self.reads.is_empty() && self.buffer.is_empty() {
            return;
        }
        if let Some(choice) = self.choose() {
            self.read_ahead_until(self.now);
            match choice {
                Choice::Read(index) => self.begin_read(index),
                Choice::Extent(start, patience) => self.begin_extent(start, patience),
            }
        }
    }

    /// Ends the flush if everything is durable; true while there is nothing else to begin.
    fn settle_flush(&mut self) -> bool {
        if !self.flushing() {
            return false;
        }
        if self.buffer.is_empty() || self.protection == Protection::NonVolatile || self.log_pending() {
            if self.busy.is_none() {
                self.end_flush();
            }
            return true;
        }
        false
    }

    fn end_flush(&mut self) {
        if let Some(flush) = &mut self.flush {
            flush.over = true;
            let id = flush.id;
            self.complete(id, self.now + self.interface.write_overhead + self.interface.completion_overhead);
        }
    }

    /// The operation with the shortest positioning time, unless one has waited too long.
    fn choose(&mut self) -> Option<Choice> {
        let overdue = self.overdue();
        if overdue.is_some() {
            return overdue;
        }
        let mut best = Best::default();
        let stream = self.streamed();
        for (index, read) in self.reads.iter().enumerate() {
            if continues(stream, read) {
                return Some(Choice::Read(index));
            }
            let setup = read.ready.since(self.now);
            self.weigh(&mut best, Choice::Read(index), &read.place, setup, Pass::Read);
        }
        if self.buffer.is_empty() {
            return best.choice;
        }
        let pressed = self.pressed();
        if !pressed && !self.reads.is_empty() {
            return best.choice;
        }
        if !pressed && self.now < self.active + self.write_cache.idle {
            self.wake = self.active + self.write_cache.idle;
            return None;
        }
        self.choose_extent(best)
    }

    /// The operation that a host has waited for too long, be it a read, a write to the medium or one to a full buffer.
    fn overdue(&mut self) -> Option<Choice> {
        let too_long_ago = self.now - LONGEST_WAIT;
        // The bound is at most as late as the oldest read, and cheap to keep: most of the time no read need be looked at.
        if self.no_read_before < too_long_ago {
            if let Some(index) = self.reads.iter().position(|read| read.ready < too_long_ago) {
                return Some(Choice::Read(index));
            }
            self.no_read_before = self.reads.iter().map(|read| read.ready).min().unwrap_or(self.now);
        }
        if let Some(write) = self.through.iter().find(|write| write.arrived < too_long_ago)
            && let Some(start) = self.buffer.first_within(write.start, write.end)
        {
            return Some(Choice::Extent(start, self.patience()));
        }
        if self.incoming.front().is_some_and(|write| write.arrived < too_long_ago) {
            return self.choose_extent(Best::default());
        }
        None
    }

    /// Compares one more operation with the best so far.
    #[inline]
    fn weigh(&self, best: &mut Best, choice: Choice, place: &Place, setup: Nanos, pass: Pass) {
        if !self.mechanism.is_near(place, best.reach) {
            return;
        }
        let (travel, wait) = self.mechanism.positioning(self.now + setup, place, pass);
        let cost = setup + travel + wait;
        if cost < best.cost {
            *best = Best { cost, choice: Some(choice), reach: self.mechanism.reach(cost) };
        }
    }

    /// The best of the extents, or `best`. When a host waits for the medium or for room, and all that is here waits for its
    /// rest, that waits in vain, unless the rest is on the link.
    fn choose_extent(&mut self, best: Best) -> Option<Choice> {
        let mut patience = self.patience();
        loop {
            let (choice, again) = self.weigh_extents(best, patience);
            if choice.is_some() {
                return choice;
            }
            self.wake = again.at;
            let hurry = match patience {
                Patience::Likely => self.waits_for_room(),
                Patience::Known | Patience::None => self.arrival == Time::NEVER,
            };
            match patience.less() {
                Some(less) if hurry && again.rest => patience = less,
                _ => return None,
            }
        }
    }

    /// Weighs the extents, the nearest addresses first.
    fn weigh_extents(&self, mut best: Best, patience: Patience) -> (Option<Choice>, Again) {
        let crowded = !self.through.is_empty() || self.flush.is_some() || self.is_table_full();
        let mut again = Again::default();
        let follows = self.mechanism.follows(self.now).filter(|_| self.has_arrived());
        let from = follows.unwrap_or_else(|| self.mechanism.last_end());
        let (mut after, mut before) = self.buffer.around(from);
        let mut left = self.write_cache.window;
        let (mut forward, mut backward) = (true, true);
        while left > 0 && (forward || backward) {
            for ahead in [true, false] {
                let going = if ahead { &mut forward } else { &mut backward };
                if !*going {
                    continue;
                }
                let next = if ahead { after.next() } else { before.next() };
                let Some((start, extent)) = next.filter(|(_, extent)| self.may_be_near(extent, best.reach))
                else {
                    *going = false;
                    continue;
                };
                left = left.saturating_sub(1);
                if !crowded && let Some(until) = self.waits_for_more(start, extent) {
                    again.at = again.at.min(until);
                    continue;
                }
                let Some(next) = self.next_of(start, extent, patience) else {
                    again.rest = true;
                    // What comes over the link is looked at again when it is here.
                    let until = self.expected_until(extent);
                    again.at = if until > self.now { again.at.min(until) } else { again.at };
                    continue;
                };
                let chained = follows == Some(next.from >> self.shift)
                    && self.buffer.step(next.from, next.end, extent) == Step::Write;
                let setup = if chained { Nanos::ZERO } else { self.write_cache.setup };
                self.weigh(&mut best, Choice::Extent(start, patience), &next.place, setup, Pass::Write);
            }
        }
        (best.choice, again)
    }

    /// Whether an extent or one beyond it may be within `reach`: tracks are in the order of addresses but within a serpentine.
    fn may_be_near(&self, extent: &Extent, reach: u32) -> bool {
        self.mechanism.is_near(&extent.place, reach.saturating_add(self.geometry.width()))
    }

    fn begin_read(&mut self, index: usize) {
        let read = self.reads.swap_remove(index);
        // What is there already need not be read again.
        let partial = self.goes_on(&read);
        self.counters.cache_hits += u64::from(partial.is_some());
        let (first, at) = partial.unwrap_or((read.first, self.now.max(read.ready)));
        let count = read.end - first;
        let end = if self.firmware.times.is_some() {
            self.mechanism.read_pieces(at, first, count, self.firmware.reads_on_arrival, &mut self.counters)
        } else if first == read.first {
            self.mechanism.pass_from(read.place, at, first, count, Pass::Read, &mut self.counters)
        } else {
            self.mechanism.pass(at, first, count, Pass::Read, &mut self.counters)
        };
        self.stream = None;
        let keeps = self.firmware.segments.keeps_passed && partial.is_none();
        let passed = if keeps { self.mechanism.passed_before(first) } else { 0 };
        self.busy = Some(Busy { end, work: Work::Read { read, cached: first - read.first, passed } });
    }

    fn begin_extent(&mut self, start: u64, patience: Patience) {
        self.stream = None;
        let follows = self.mechanism.follows(self.now);
        let Some(extent) = self.buffer.get(start) else { return };
        let next = self.next_of(start, &extent, patience);
        let Some(next) = next.or_else(|| self.next_of(start, &extent, Patience::None)) else { return };
        if let Step::ReadEdge(sector) = self.buffer.step(next.from, next.end, &extent) {
            let begin = self.now + self.write_cache.setup;
            let end = self.mechanism.pass_from(next.place, begin, sector, 1, Pass::Read, &mut self.counters);
            self.count_rmw(1);
            self.busy = Some(Busy { end, work: Work::Edge { sector } });
            return;
        }
        let limit = self.limit(&extent, &next);
        self.buffer.take(start, next.from, limit, &mut self.in_flight, &self.geometry);
        let (Some(&(first, _)), Some(&(_, end))) =
            (self.in_flight.spans.first(), self.in_flight.spans.last())
        else {
            return;
        };
        let (first, end) = (first >> self.shift, ((end - 1) >> self.shift) + 1);
        let chained = follows == Some(first) && self.in_flight.missing.is_empty() && self.has_arrived();
        let begin = if chained { self.now } else { self.write_begins() };
        self.counters.destages += 1;
        self.announce(|at, offset, length| MediaEvent::Storing { at, offset, length });
        let end = self.write_sectors(begin, first, end);
        self.busy = Some(Busy { end, work: Work::Write });
    }

    /// When the heads may move for a write. A host that waits for the medium waits for its own data to come over the link,
    /// too, unless it is known of each sector when it comes.
    fn write_begins(&self) -> Time {
        let begin = self.now + self.write_cache.setup;
        match self.supply {
            Some(_) => begin.max(self.write_moves),
            None => begin.max(self.through.iter().map(|write| write.arrived).max().unwrap_or(Time::ZERO)),
        }
    }

    /// Whether the data of every write whose host waits for the medium are here.
    fn has_arrived(&self) -> bool {
        self.supply.is_some() || self.through.iter().all(|write| write.arrived <= self.now)
    }

    /// How far a write goes in one operation: to the end of the track, less a partial sector that stays behind.
    fn limit(&self, extent: &Extent, next: &Next) -> u64 {
        let track_end = ((next.from >> self.shift) + u64::from(next.place.left)) << self.shift;
        if next.end < extent.end { track_end.min(next.end) } else { track_end }
    }

    /// Writes the sectors from `first` to `end`, reading first those of which only a part is in flight.
    fn write_sectors(&mut self, begin: Time, first: u64, end: u64) -> Time {
        let missing = std::mem::take(&mut self.in_flight.missing);
        let mut at = begin;
        let mut next = first;
        if self.rmw.is_serial() {
            for (index, &sector) in missing.iter().enumerate() {
                if sector > next {
                    at = self.mechanism.pass(at, next, sector - next, Pass::Write, &mut self.counters);
                }
                at = self.mechanism.pass(at, sector, 1, Pass::Read, &mut self.counters);
                next = missing.get(index + 1).copied().unwrap_or(end);
                at = self.mechanism.pass(at, sector, next - sector, Pass::Write, &mut self.counters);
            }
        } else {
            for &sector in &missing {
                at = self.mechanism.pass(at, sector, 1, Pass::Read, &mut self.counters);
            }
        }
        if let (Some(supply), true) = (&self.supply, next < end) {
            let lands = self.write_lands;
            at = self.mechanism.write_supplied(at, lands, next, end - next, supply, &mut self.counters);
        } else if next < end {
            at = self.mechanism.pass(at, next, end - next, Pass::Write, &mut self.counters);
        }
        self.count_rmw(missing.len() as u64);
        self.in_flight.missing = missing;
        at
    }

    fn count_rmw(&mut self, sectors: u64) {
        self.counters.rmw_reads += sectors;
        self.counters.rmw_read_bytes += sectors << self.shift;
    }

    /// Tells who keeps the contents about the spans in flight, in the host's addresses.
    fn announce(&mut self, event: impl Fn(Time, u64, u64) -> MediaEvent) {
        if let Some(events) = &mut self.media_events {
            let offset = self.firmware_offset;
            events.extend(
                self.in_flight.spans.iter().map(|&(start, end)| event(self.now, start - offset, end - start)),
            );
        }
    }

    /// The operation has ended, now.
    pub(super) fn finish(&mut self) {
        let Some(Busy { work, .. }) = self.busy.take() else { return };
        match work {
            Work::Read { read, cached, passed } => self.finish_read(&read, cached, passed),
            Work::Edge { sector } => self.buffer.sector_read(sector, &self.geometry),
            Work::Write => {
                self.announce(|at, offset, length| MediaEvent::Stored { at, offset, length });
                self.forget_written();
                self.retire_written();
                self.in_flight.spans.clear();
                self.release_durable();
                self.admit();
            }
            Work::Log => {
                self.announce(|at, offset, length| MediaEvent::Stored { at, offset, length });
                self.in_flight.spans.clear();
            }
        }
    }

    /// What was read of these sectors since their data came is old now.
    fn forget_written(&mut self) {
        if self.firmware.segments.keeps_written {
            return;
        }
        for &(start, end) in &self.in_flight.spans {
            self.cache.forget(start >> self.shift, ((end - 1) >> self.shift) + 1);
        }
    }

    /// What the media cache has of these is in place now.
    fn retire_written(&mut self) {
        if let Some(cache) = &mut self.media_cache {
            self.in_flight.spans.iter().for_each(|&(start, end)| cache.retire(start, end));
        }
    }

    fn finish_read(&mut self, read: &Read, cached: u64, passed: u64) {
        // Only now is the link taken: while the arm moved and the platter turned it was free for others.
        let sent = self.read_sent(read, cached, self.now);
        self.link_free = sent;
        self.complete(read.id, sent + self.read_completion());
        let (first, end) = (read.first, read.end);
        let Some(segment) = self.cache.remember(first, end) else { return };
        if passed > 0 {
            self.cache.extend_back(segment, passed);
        }
        if self.read_ahead > 0 {
            let limit = self.read_ahead_limit(self.cache.get(segment).start, end);
            self.stream = Some(Stream { segment, next: end, at: self.now, limit });
        }
        let mut index = 0;
        let held = self.cache.get(segment);
        while index < self.reads.len() {
            let read = self.reads[index];
            let held = held.start <= read.first && read.end <= held.end;
            if held && self.in_read_cache(read.first, read.end) {
                self.reads.swap_remove(index);
                self.counters.cache_hits += 1;
                self.send(read.id, read.ready.max(self.now), read.bytes);
            } else {
                index += 1;
            }
        }
    }

    /// Tells the hosts of writes that the medium now has.
    pub(super) fn release_durable(&mut self) {
        let mut index = 0;
        while index < self.through.len() {
            let write = self.through[index];
            if self.buffer.overlaps(write.start, write.end) {
                index += 1;
            } else {
                self.through.swap_remove(index);
                self.complete(write.id, self.now.max(write.arrived) + write.status);
            }
        }
    }

    /// Writes what is not yet safe to the media cache, if it fits; false if it does not, or if there is no such cache.
    fn log_pending(&mut self) -> bool {
        let Some(cache) = &mut self.media_cache else { return false };
        let sectors = self.buffer.unlogged(&mut self.in_flight.spans);
        if sectors == 0 {
            return true;
        }
        let Some(first) = cache.append(&self.in_flight.spans, sectors) else {
            self.in_flight.spans.clear();
            return false;
        };
        self.buffer.mark_logged();
        self.read_ahead_until(self.now);
        self.stream = None;
        self.announce(|at, offset, length| MediaEvent::Storing { at, offset, length });
        let begin = self.now + self.write_cache.setup;
        let end = self.mechanism.pass(begin, first, sectors, Pass::Write, &mut self.counters);
        self.busy = Some(Busy { end, work: Work::Log });
        true
    }
}
