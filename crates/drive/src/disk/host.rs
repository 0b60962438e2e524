//! The host side of the disk: taking commands, answering from the caches, and completing writes.

use straddle_units::io::{Operation, Request, RequestId, Time};

use crate::disk::buffer::NONE;
use crate::disk::intake::Write;
use crate::disk::parameters::RmwPolicy;
use crate::disk::{Disk, Read, RmwReads};
use crate::drive::MediaEvent;

impl Disk {
    pub(super) fn take(&mut self, request: Request) {
        let start = request.offset.get() + self.rules.firmware_offset;
        let end = start + request.length.get();
        match request.operation {
            Operation::Read => self.take_read(request.id, start, end),
            Operation::Write | Operation::WriteFua => self.take_write(request, start, end),
            Operation::Flush => {
                self.record.counters.host_flushes += 1;
                self.queue.begin_flush(request.id);
                self.start_next();
            }
            Operation::Discard => {
                self.record.counters.host_discards += 1;
                self.buffer.discard(start, end, &self.mechanism.geometry);
                self.retire(start, end);
                if !self.is_write_in_flight() {
                    self.release_durable();
                }
                self.admit();
                if let Some(events) = &mut self.record.media_events {
                    let (offset, length) = (request.offset.get(), request.length.get());
                    events.push(MediaEvent::Discarded { at: self.now, offset, length });
                }
                self.complete(request.id, self.link.bare_completion(self.now));
                self.start_next();
            }
        }
    }

    fn take_read(&mut self, id: RequestId, start: u64, end: u64) {
        self.record.counters.host_reads += 1;
        self.record.counters.host_read_bytes += end - start;
        let (hit, ready) = self.link.read_terms(self.now);
        let after_write = self.link.note_read();
        let (first, last) = self.rules.sectors(start, end);
        if self.busy.is_none() {
            self.read_ahead_until(self.now);
        }
        if self.in_write_buffer(start, end) || self.in_read_cache(first, last) {
            self.record.counters.cache_hits += 1;
            self.send(id, hit, end - start);
            return;
        }
        let place = self.mechanism.place(first);
        let into = u32::try_from(start - (first << self.rules.shift)).unwrap_or(0);
        let (arrived, bytes) = (self.now, end - start);
        self.reads.waiting.push(Read {
            id,
            first,
            end: last,
            bytes,
            arrived,
            hit,
            ready,
            place,
            into,
            after_write,
        });
        self.start_next();
    }

    fn in_write_buffer(&self, start: u64, end: u64) -> bool {
        (!self.buffer.is_empty() && self.buffer.covers(start, end))
            || (self.is_write_in_flight()
                && self.destager.in_flight.spans.iter().any(|span| span.0 <= start && end <= span.1))
    }

    /// Whether the read cache holds the sectors; a hit lets reading ahead continue after them.
    pub(super) fn in_read_cache(&mut self, first: u64, end: u64) -> bool {
        if self.memory.reads.is_off() {
            return false;
        }
        let Some(segment) = self.memory.reads.find(first, end) else { return false };
        let (_, moves) = self.link.read_terms(self.now);
        let (idle, geometry) = (self.busy.is_none(), &self.mechanism.geometry);
        self.memory.reads.hit(segment, end, (self.now, moves), idle, geometry);
        if self.logs.partial.is_some() {
            self.clip_read_ahead();
        }
        true
    }

    pub(super) fn send(&mut self, id: RequestId, ready: Time, bytes: u64) {
        let known = self.link.send(ready, bytes);
        self.complete(id, known);
    }

    pub(super) fn read_ahead_until(&mut self, until: Time) {
        if let Some(stream) = self.memory.reads.stream {
            let counters = &mut self.record.counters;
            let (at, next) = self.mechanism.read_ahead(stream.at, stream.next, stream.limit, until, counters);
            self.memory.reads.stream_to(at, next);
        }
    }

    fn take_write(&mut self, request: Request, start: u64, end: u64) {
        self.record.counters.host_writes += 1;
        self.record.counters.host_write_bytes += end - start;
        let mask = (1_u64 << self.rules.shift) - 1;
        let partial = (start | end) & mask != 0;
        let durable = !self.destager.cache.enabled
            || (request.operation.forces_unit_access() && !self.destager.non_volatile)
            || (partial && self.destager.rmw.is_immediate());
        let write = self.link.receive(self.now, request.id, start, end, durable);
        let regular = self.destager.rmw == RmwPolicy::Adaptive && self.is_regular(start, end);
        self.intake.waiting.push_back(Write { regular, ..write });
        self.admit();
        if !self.intake.waiting.is_empty() {
            self.buffer.note_waiting(start, end, &self.mechanism.geometry);
        }
        self.start_next();
    }

    fn is_regular(&mut self, start: u64, end: u64) -> bool {
        let track = u64::from(self.mechanism.place(start >> self.rules.shift).sectors_per_track);
        self.intake.intervals.note(start, end, track << self.rules.shift)
    }

    pub(super) fn admit(&mut self) {
        while let Some(write) = self.intake.first(self.now) {
            let written = self.is_write_in_flight();
            if !self.destager.has_room(&self.buffer, write.start, write.end, written) {
                return;
            }
            let arrived = self.intake.enter(self.now, self.link.held_back(self.now));
            let memory = self.in_memory(write.start, write.end);
            let (first, end) = self.rules.sectors(write.start, write.end);
            if self.memory.reads.rules.drops_whole {
                // The write ends the reading ahead.
                self.read_ahead_until(self.now);
            }
            self.memory.reads.note_written(first, end);
            let (waiting, geometry) = (&self.intake.waiting, &self.mechanism.geometry);
            if self.buffer.insert(&write, self.now, memory, waiting, geometry) {
                self.record.counters.merged_writes += 1;
            }
            if self.memory.reads.stream.is_some_and(|stream| stream.next < stream.limit) {
                self.read_ahead_until(self.now);
            }
            if !write.durable {
                self.complete(write.id, arrived + write.status);
            }
        }
    }

    /// The partial sectors of a write whose rest is in memory.
    fn in_memory(&mut self, start: u64, end: u64) -> [u64; 2] {
        let RmwReads { from_read_cache, kept_written } = self.rules.rmw_reads;
        let mask = (1_u64 << self.rules.shift) - 1;
        if (!from_read_cache && kept_written == 0) || (start | end) & mask == 0 {
            return [NONE; 2];
        }
        if self.busy.is_none() {
            self.read_ahead_until(self.now);
        }
        let known = |sector: u64| {
            (from_read_cache && self.memory.reads.holds(sector)) || self.memory.written.holds(sector)
        };
        [start >> self.rules.shift, (end - 1) >> self.rules.shift]
            .map(|edge| if known(edge) { edge } else { NONE })
    }
}
