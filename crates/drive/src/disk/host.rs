//! The host's side of the disk: taking commands, answering from the caches, telling when a write has been taken.

use crate::disk::{Disk, Flush, Protection, Read, Stream, Write};
use crate::request::{MediaEvent, Operation, Request, RequestId};
use crate::time::Time;

impl Disk {
    /// Takes a command from the link, now.
    pub(super) fn take(&mut self, request: Request) {
        self.taken += 1;
        let start = request.offset.get() + self.firmware_offset;
        let end = start + request.length.get();
        match request.operation {
            Operation::Read => self.take_read(request.id, start, end),
            Operation::Write | Operation::WriteFua => self.take_write(request, start, end),
            Operation::Flush => {
                self.counters.host_flushes += 1;
                self.flush = Some(Flush { id: request.id, over: false });
                self.start_next();
            }
            Operation::Discard => {
                self.counters.host_discards += 1;
                self.buffer.discard(start, end, &self.geometry);
                if let Some(cache) = &mut self.media_cache {
                    cache.retire(start, end);
                }
                if !self.is_write_in_flight() {
                    self.release_durable();
                }
                self.admit();
                if let Some(events) = &mut self.media_events {
                    let (offset, length) = (request.offset.get(), request.length.get());
                    events.push(MediaEvent::Discarded { at: self.now, offset, length });
                }
                self.complete(
                    request.id,
                    self.now + self.interface.write_overhead + self.interface.completion_overhead,
                );
                self.start_next();
            }
        }
    }

    fn take_read(&mut self, id: RequestId, start: u64, end: u64) {
        self.counters.host_reads += 1;
        self.counters.host_read_bytes += end - start;
        let (hit, ready) = self.read_terms();
        let after_write = std::mem::replace(&mut self.after_write, false);
        let (first, last) = (start >> self.shift, (end + (1 << self.shift) - 1) >> self.shift);
        if self.busy.is_none() {
            self.read_ahead_until(self.now);
        }
        if self.in_write_buffer(start, end) || self.in_read_cache(first, last) {
            self.counters.cache_hits += 1;
            self.send(id, hit, end - start);
            return;
        }
        let place = self.mechanism.place(first);
        let (arrived, bytes) = (self.now, end - start);
        self.reads.push(Read { id, first, end: last, bytes, arrived, hit, ready, place, after_write });
        self.start_next();
    }

    fn in_write_buffer(&self, start: u64, end: u64) -> bool {
        (!self.buffer.is_empty() && self.buffer.covers(start, end))
            || (self.is_write_in_flight()
                && self.in_flight.spans.iter().any(|span| span.0 <= start && end <= span.1))
    }

    /// Whether the segments hold the sectors; a hit lets the reading ahead go on behind it.
    pub(super) fn in_read_cache(&mut self, first: u64, end: u64) -> bool {
        if self.cache.is_off() {
            return false;
        }
        let Some(segment) = self.cache.find(first, end) else { return false };
        self.hit(segment, end);
        true
    }

    /// Data goes from the cache to the host from `ready`.
    pub(super) fn send(&mut self, id: RequestId, ready: Time, bytes: u64) {
        let end = ready.max(self.link_free) + self.interface.transfer(bytes);
        self.link_free = end;
        self.complete(id, end + self.read_completion());
    }

    /// Lets the reading ahead come as far as it gets until `until`.
    pub(super) fn read_ahead_until(&mut self, until: Time) {
        let Some(Stream { segment, next, at, limit }) = self.stream else { return };
        let (at, next) = self.mechanism.read_ahead(at, next, limit, until, &mut self.counters);
        self.cache.extend(segment, next);
        self.stream = Some(Stream { segment, next, at, limit });
    }

    fn take_write(&mut self, request: Request, start: u64, end: u64) {
        self.counters.host_writes += 1;
        self.counters.host_write_bytes += end - start;
        let mask = (1_u64 << self.shift) - 1;
        let partial = (start | end) & mask != 0;
        let durable = !self.write_cache.enabled
            || (request.operation.forces_unit_access() && self.protection != Protection::NonVolatile)
            || (partial && self.rmw.is_immediate());
        let write = self.receive(request.id, start, end, durable);
        self.after_write = true;
        self.incoming.push_back(write);
        self.admit();
        if !self.incoming.is_empty() {
            self.buffer.note_waiting(start, end, &self.geometry);
        }
        self.start_next();
    }

    /// Lets writes into the buffer, in their order, as far as their data are here and there is room.
    pub(super) fn admit(&mut self) {
        self.arrival = Time::NEVER;
        while let Some(&write) = self.incoming.front() {
            if write.enters > self.now {
                self.arrival = write.enters;
                return;
            }
            if !self.has_room(&write) {
                return;
            }
            self.incoming.pop_front();
            self.note_written(write.start >> self.shift, (write.end + (1 << self.shift) - 1) >> self.shift);
            if self.buffer.insert(write.start, write.end, self.now, &self.incoming, &self.geometry) {
                self.counters.merged_writes += 1;
            }
            if self.stream.is_some_and(|stream| stream.next < stream.limit) {
                self.read_ahead_until(self.now);
            }
            self.arrives = write.arrived.max(self.now);
            if write.durable {
                self.through.push(write);
            } else {
                self.complete(write.id, self.arrives + write.status);
            }
        }
    }

    fn has_room(&self, write: &Write) -> bool {
        let length = write.end - write.start;
        if self.buffer.is_empty() {
            return true;
        }
        let entries = self.buffer.entries() + usize::from(self.is_write_in_flight());
        let weight = self.buffer.weight();
        (weight == 0 || weight + length <= self.write_cache.bytes)
            && (entries < self.write_cache.extents || !self.buffer.needs_entry(write.start, write.end))
    }
}
