//! The medium side of the disk: which operation is next, how long it takes, and what changes when it ends.

use straddle_units::io::{Nanos, Time};

use crate::disk::buffer::{Extent, Step};
use crate::disk::mechanism::Pass;
use crate::disk::rest::{Next, Patience};
use crate::disk::{Busy, Disk, Position, Read, Took, Work};
use crate::drive::MediaEvent;

/// The longest time for which a read or a write that a host waits for may be passed over: 1 s.
const LONGEST_WAIT: Nanos = Nanos::new(1_000_000_000);

#[derive(Clone, Copy, Debug)]
enum Choice {
    Read(usize),
    /// The extent at this start, and the patience with which its partial sectors are treated.
    Extent(u64, Patience),
}

/// The best operation so far, and its cost: the time until it could begin.
#[derive(Clone, Copy, Debug)]
struct Best {
    cost: Nanos,
    choice: Option<Choice>,
    /// No operation further away than this number of tracks is better.
    reach: u32,
}

#[derive(Clone, Copy, Debug)]
struct Again {
    at: Time,
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
    pub(super) fn start_next(&mut self) {
        if self.busy.is_some() {
            return;
        }
        self.destager.wake = Time::NEVER;
        if self.queue.has_flush() && self.settle_flush() {
            return;
        }
        let choice =
            if self.reads.waiting.is_empty() && self.buffer.is_empty() { None } else { self.choose() };
        if let Some(choice) = choice {
            self.read_ahead_until(self.now);
            match choice {
                Choice::Read(index) => self.begin_read(index),
                Choice::Extent(start, patience) => self.begin_extent(start, patience),
            }
        } else if self.logs.partial.is_some() {
            self.put_in_place();
        }
    }

    /// Ends the flush if everything is durable; true while there is nothing else to begin.
    fn settle_flush(&mut self) -> bool {
        if !self.queue.flushing() {
            return false;
        }
        if self.buffer.is_empty() || self.destager.non_volatile || self.log_pending() {
            if self.busy.is_none() {
                self.end_flush();
            }
            return true;
        }
        false
    }

    fn end_flush(&mut self) {
        if let Some(id) = self.queue.end_flush() {
            if self.destager.cache.stays_after_flush {
                self.mechanism.stay_to_index();
            }
            self.complete(id, self.link.bare_completion(self.now));
        }
    }

    /// The operation with the shortest positioning time, unless one has waited too long.
    fn choose(&mut self) -> Option<Choice> {
        if let Some(overdue) = self.overdue() {
            return Some(overdue);
        }
        let mut best = Best::default();
        for (index, read) in self.reads.waiting.iter().enumerate() {
            if self.continues(read) {
                return Some(Choice::Read(index));
            }
            let setup = read.ready.since(self.now);
            self.weigh(&mut best, Choice::Read(index), &read.place, setup, Pass::Read);
        }
        if self.buffer.is_empty() {
            return best.choice;
        }
        let pressed = self.pressed();
        if !pressed && !self.reads.waiting.is_empty() {
            return best.choice;
        }
        if !pressed && let Some(from) = self.idle_for(self.destager.cache.idle) {
            self.destager.wake = from;
            return None;
        }
        self.choose_extent(best)
    }

    /// When the host will have left the drive alone for `time`; never while a command is outstanding.
    pub(super) fn idle_for(&self, time: Nanos) -> Option<Time> {
        if time == Nanos::ZERO {
            return None;
        }
        if self.queue.outstanding() > 0 {
            return Some(Time::NEVER);
        }
        Some(self.queue.active + time).filter(|from| self.now < *from)
    }

    /// A read, a write to the medium, or a write to a full buffer that a host has waited for too long.
    fn overdue(&mut self) -> Option<Choice> {
        // Nothing has waited for longer than the drive is on.
        let too_long_ago = self.now.checked_back(LONGEST_WAIT)?;
        // A bound that is cheap to keep: most of the time no read has to be looked at.
        if self.reads.none_before < too_long_ago {
            if let Some(index) = self.reads.waiting.iter().position(|read| read.ready < too_long_ago) {
                return Some(Choice::Read(index));
            }
            self.reads.none_before =
                self.reads.waiting.iter().map(|read| read.ready).min().unwrap_or(self.now);
        }
        if let Some(write) = self.intake.through.iter().find(|write| write.arrived < too_long_ago)
            && let Some(start) = self.buffer.first_within(write.start, write.end)
        {
            return Some(Choice::Extent(start, self.patience()));
        }
        if self.intake.waits_since(too_long_ago) {
            return self.choose_extent(Best::default());
        }
        None
    }

    /// Whether a read begins in what is read ahead, next to it, or among the sectors that pass before the heads could
    /// move for it.
    fn continues(&self, read: &Read) -> bool {
        let reads = &self.memory.reads;
        let Some(stream) = reads.stream.filter(|stream| read.end > stream.next) else { return false };
        if read.first < reads.get(stream.segment).start {
            return false;
        }
        let Some(ahead) = read.first.checked_sub(stream.next) else { return true };
        if ahead == 0 {
            return reads.rules.adjoining;
        }
        let passing = || self.mechanism.passing(stream.next, read.ready.since(stream.at));
        !self.link.is_measured() && read.first < stream.limit && ahead <= passing()
    }

    #[inline]
    fn weigh(&self, best: &mut Best, choice: Choice, place: &Position, setup: Nanos, pass: Pass) {
        if !self.mechanism.is_near(place, best.reach) {
            return;
        }
        let (travel, wait) = self.mechanism.positioning(self.now + setup, place, pass);
        let cost = setup + travel + wait;
        if cost < best.cost {
            *best = Best { cost, choice: Some(choice), reach: self.mechanism.reach(cost) };
        }
    }

    /// Partial sectors stop waiting for their rest when a host waits for the medium or for room and nothing else can
    /// be written, unless the rest is already on the link.
    fn choose_extent(&mut self, best: Best) -> Option<Choice> {
        let mut patience = self.patience();
        loop {
            let (choice, again) = self.weigh_extents(best, patience);
            if choice.is_some() {
                return choice;
            }
            self.destager.wake = again.at;
            let hurry = match patience {
                Patience::Likely => self.intake.waits_for_room(),
                Patience::Known | Patience::None => self.intake.entry == Time::NEVER,
            };
            match patience.less() {
                Some(less) if hurry && again.rest => patience = less,
                _ => return None,
            }
        }
    }

    fn weigh_extents(&self, mut best: Best, patience: Patience) -> (Option<Choice>, Again) {
        let crowded = !self.intake.through.is_empty()
            || self.queue.has_flush()
            || self.destager.is_table_full(&self.buffer);
        let mut again = Again::default();
        let follows = self.mechanism.follows(self.now).filter(|_| self.has_arrived());
        let from = follows.unwrap_or_else(|| self.mechanism.last_end());
        let (mut after, mut before) = self.buffer.around(from);
        let mut left = self.destager.cache.window;
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
                    // A rest that comes over the link is looked at again when it has arrived.
                    let until = self.expected_until(extent);
                    again.at = if until > self.now { again.at.min(until) } else { again.at };
                    continue;
                };
                let chained = follows == Some(next.from >> self.rules.shift)
                    && self.buffer.step(next.from, next.end, extent) == Step::Write;
                let setup = if chained { Nanos::ZERO } else { self.destager.cache.setup };
                self.weigh(&mut best, Choice::Extent(start, patience), &next.place, setup, Pass::Write);
            }
        }
        (best.choice, again)
    }

    /// Except within a serpentine, tracks are in address order.
    fn may_be_near(&self, extent: &Extent, reach: u32) -> bool {
        self.mechanism.is_near(&extent.place, reach.saturating_add(self.mechanism.geometry.width()))
    }

    fn begin_read(&mut self, index: usize) {
        let mut read = self.reads.waiting.swap_remove(index);
        let continues = self.continues(&read);
        let partial = self.memory.reads.goes_on(&read, continues, self.now);
        self.record.counters.cache_hits += u64::from(partial.is_some());
        let (first, at) = partial.unwrap_or((read.first, self.now.max(read.ready)));
        let start = (read.first << self.rules.shift) + u64::from(read.into);
        // What passes before its first sector is read as well.
        read.first = read.first.min(first);
        if self.logs.partial.is_some() {
            let from = if partial.is_some() { first << self.rules.shift } else { start };
            if let Some(fragments) = self.fragments(from, start + read.bytes) {
                self.begin_fragments(read, first, at, &fragments);
                return;
            }
        }
        let count = read.end - first;
        let end = if self.link.is_measured() {
            self.mechanism.read_pieces(at, first, count, self.reads.on_arrival, &mut self.record.counters)
        } else if partial.is_none() {
            self.mechanism.pass_from(read.place, at, first, count, Pass::Read, &mut self.record.counters)
        } else {
            self.mechanism.pass(at, first, count, Pass::Read, &mut self.record.counters)
        };
        self.memory.reads.end_stream();
        let keeps = self.memory.reads.rules.keeps_passed && partial.is_none();
        let passed = if keeps { self.mechanism.passed_before(first) } else { 0 };
        self.busy = Some(Busy {
            end,
            work: Work::Read { read, cached: first - read.first, passed, took: Took::InPlace },
        });
    }

    fn begin_extent(&mut self, start: u64, patience: Patience) {
        self.memory.reads.end_stream();
        let follows = self.mechanism.follows(self.now);
        let Some(extent) = self.buffer.get(start) else { return };
        let next = self.next_of(start, &extent, patience);
        let Some(next) = next.or_else(|| self.next_of(start, &extent, Patience::None)) else { return };
        if let Step::ReadEdge(sector) = self.buffer.step(next.from, next.end, &extent) {
            let begin = self.now + self.destager.cache.setup;
            let end =
                self.mechanism.pass_from(next.place, begin, sector, 1, Pass::Read, &mut self.record.counters);
            self.count_rmw(1);
            self.busy = Some(Busy { end, work: Work::Edge { sector } });
            return;
        }
        if self.logs.partial.is_some() && self.log_partial(start, patience) {
            return;
        }
        let limit = self.limit(&extent, &next);
        self.buffer.take(start, next.from, limit, &mut self.destager.in_flight, &self.mechanism.geometry);
        let (Some(&(first, _)), Some(&(_, end))) =
            (self.destager.in_flight.spans.first(), self.destager.in_flight.spans.last())
        else {
            return;
        };
        let (first, end) = self.rules.sectors(first, end);
        let chained =
            follows == Some(first) && self.destager.in_flight.missing.is_empty() && self.has_arrived();
        let begin = if chained { self.now } else { self.write_begins() };
        self.record.counters.destages += 1;
        self.announce(|at, offset, length| MediaEvent::Storing { at, offset, length });
        self.written_in_place(end);
        let end = self.write_sectors(begin, first, end);
        self.busy = Some(Busy { end, work: Work::Write });
    }

    /// If the host waits for the medium, the heads also wait for the write's own data, unless the arrival time of
    /// each sector is known.
    pub(super) fn write_begins(&self) -> Time {
        let begin = self.now + self.destager.cache.setup;
        match self.link.coming {
            coming if coming.supply.is_some() => begin.max(coming.moves),
            _ => begin.max(self.intake.all_arrived()),
        }
    }

    fn has_arrived(&self) -> bool {
        self.link.is_measured() || self.intake.has_arrived(self.now)
    }

    fn limit(&self, extent: &Extent, next: &Next) -> u64 {
        let track_end = ((next.from >> self.rules.shift) + u64::from(next.place.left)) << self.rules.shift;
        if next.end < extent.end { track_end.min(next.end) } else { track_end }
    }

    /// Writes the sectors from `first` to `end`, after reading those of which only a part is in flight.
    fn write_sectors(&mut self, begin: Time, first: u64, end: u64) -> Time {
        let missing = std::mem::take(&mut self.destager.in_flight.missing);
        let mut at = begin;
        let mut next = first;
        if self.destager.rmw.is_serial(self.destager.in_flight.regular) {
            for (index, &sector) in missing.iter().enumerate() {
                if sector > next {
                    at = self.mechanism.pass(at, next, sector - next, Pass::Write, &mut self.record.counters);
                }
                at = self.mechanism.pass(at, sector, 1, Pass::Read, &mut self.record.counters);
                next = missing.get(index + 1).copied().unwrap_or(end);
                at = self.mechanism.pass(at, sector, next - sector, Pass::Write, &mut self.record.counters);
            }
        } else {
            for &sector in &missing {
                at = self.mechanism.pass(at, sector, 1, Pass::Read, &mut self.record.counters);
            }
        }
        let coming = &self.link.coming;
        if let (Some(supply), true) = (&coming.supply, next < end) {
            at = self.mechanism.write_supplied(
                at,
                coming.lands,
                self.rules.writes_on_arrival,
                next,
                end - next,
                supply,
                &mut self.record.counters,
            );
        } else if next < end {
            at = self.mechanism.pass(at, next, end - next, Pass::Write, &mut self.record.counters);
        }
        self.count_rmw(missing.len() as u64);
        self.destager.in_flight.missing = missing;
        at
    }

    fn count_rmw(&mut self, sectors: u64) {
        self.record.counters.rmw_reads += sectors;
        self.record.counters.rmw_read_bytes += sectors << self.rules.shift;
    }

    /// Reports the spans in flight as media events, in the host's addresses.
    pub(super) fn announce(&mut self, event: impl Fn(Time, u64, u64) -> MediaEvent) {
        if let Some(events) = &mut self.record.media_events {
            let offset = self.rules.firmware_offset;
            let spans = self.destager.in_flight.spans.iter();
            events.extend(spans.map(|&(start, end)| event(self.now, start - offset, end - start)));
        }
    }

    pub(super) fn finish(&mut self) {
        let Some(Busy { work, .. }) = self.busy.take() else { return };
        match work {
            Work::Read { read, cached, passed, took } => self.finish_read(&read, cached, passed, took),
            Work::Edge { sector } => self.buffer.sector_read(sector, &self.mechanism.geometry),
            Work::Write => {
                self.announce(|at, offset, length| MediaEvent::Stored { at, offset, length });
                self.forget_written();
                self.retire_written();
                self.destager.in_flight.spans.clear();
                self.release_durable();
                self.admit();
            }
            Work::Partial => self.finish_partial(),
            Work::Fetch => {}
            Work::PutInPlace { first, count } => self.finish_in_place(first, count),
            Work::Log => {
                self.announce(|at, offset, length| MediaEvent::Stored { at, offset, length });
                self.destager.in_flight.spans.clear();
            }
        }
    }

    /// Drops what is stale from the read cache: sectors that were read after the data in flight had arrived.
    pub(super) fn forget_written(&mut self) {
        if self.memory.reads.rules.keeps_written {
            return;
        }
        for &(start, end) in &self.destager.in_flight.spans {
            let (first, end) = self.rules.sectors(start, end);
            self.memory.reads.forget(first, end);
        }
    }

    fn retire_written(&mut self) {
        if self.logs.media.is_some() || self.logs.partial.is_some() {
            for index in 0..self.destager.in_flight.spans.len() {
                let (start, end) = self.destager.in_flight.spans[index];
                self.retire(start, end);
            }
        }
        let spans = &self.destager.in_flight.spans;
        if self.rules.rmw_reads.kept_written > 0
            && let (Some((start, _)), Some((_, end))) = (spans.first(), spans.last())
        {
            let (first, end) = self.rules.sectors(*start, *end);
            self.memory.written.keep(first, end);
        }
    }

    /// Marks the copies of a span in the media cache or the log as no longer needed.
    pub(super) fn retire(&mut self, start: u64, end: u64) {
        if let Some(cache) = &mut self.logs.media {
            cache.retire(start, end);
        }
        if let Some(log) = &mut self.logs.partial {
            log.area.retire(start, end);
        }
    }

    fn finish_read(&mut self, read: &Read, cached: u64, passed: u64, took: Took) {
        // Only now: the link was free for other drives while the arm moved and the platter turned.
        let known = self.link.send_passed(read, cached, self.now, &self.mechanism);
        self.complete(read.id, known);
        let (first, end) = (read.first, read.end);
        // Only whole sectors are kept.
        if took == Took::Logged {
            return;
        }
        let Some(segment) = self.memory.reads.remember(first, end) else { return };
        if passed > 0 {
            self.memory.reads.extend_back(segment, passed);
        }
        // With the heads at the log, there is no reading ahead.
        if took == Took::Both {
            return;
        }
        self.memory.reads.begin_stream(segment, end, self.now, &self.mechanism.geometry);
        if self.logs.partial.is_some() {
            self.clip_read_ahead();
        }
        let mut index = 0;
        let held = self.memory.reads.get(segment);
        while index < self.reads.waiting.len() {
            let read = self.reads.waiting[index];
            let held = held.start <= read.first && read.end <= held.end;
            if held && self.in_read_cache(read.first, read.end) {
                self.reads.waiting.swap_remove(index);
                self.record.counters.cache_hits += 1;
                self.send(read.id, read.ready.max(self.now), read.bytes);
            } else {
                index += 1;
            }
        }
    }

    pub(super) fn release_durable(&mut self) {
        let mut index = 0;
        while index < self.intake.through.len() {
            let write = self.intake.through[index];
            if self.buffer.overlaps(write.start, write.end) {
                index += 1;
            } else {
                self.intake.through.swap_remove(index);
                self.complete(write.id, self.now.max(write.arrived) + write.status);
            }
        }
    }

    /// Writes everything not yet safe to the media cache. Returns false if there is none or it does not fit.
    fn log_pending(&mut self) -> bool {
        let Some(cache) = &mut self.logs.media else { return false };
        let sectors = self.buffer.unlogged(&mut self.destager.in_flight.spans);
        if sectors == 0 {
            return true;
        }
        let Some(first) = cache.append(&self.destager.in_flight.spans, sectors) else {
            self.destager.in_flight.spans.clear();
            return false;
        };
        self.buffer.mark_logged();
        self.read_ahead_until(self.now);
        self.memory.reads.end_stream();
        self.announce(|at, offset, length| MediaEvent::Storing { at, offset, length });
        let begin = self.now + self.destager.cache.setup;
        let end = self.mechanism.pass(begin, first, sectors, Pass::Write, &mut self.record.counters);
        self.busy = Some(Busy { end, work: Work::Log });
        true
    }
}
