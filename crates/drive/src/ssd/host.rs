//! The host side: commands, the link, and the path into the buffer.
//!
//! A flush or a discard is not queued, as in ATA: it begins when the commands before it have ended, and those
//! after it begin when it has ended. The link carries one piece at a time, in either direction; a write waits
//! for room in the buffer before its data is sent.

use std::collections::VecDeque;

use straddle_units::io::{Completion, Operation, Request, RequestId, Time};

use crate::drive::MediaEvent;
use crate::interface::Interface;
use crate::ssd::agenda::Lane;
use crate::ssd::buffer::Stage;
use crate::ssd::index::{EntryIndex, Slot, Superblock, Unit};
use crate::ssd::nand::Work;
use crate::ssd::parameters::{Layout, SECTOR_BYTES};
use crate::ssd::{Ssd, narrow};

/// A write crosses the link in pieces of this many bytes, or of one unit if that is larger.
const PIECE_BYTES: u64 = 64 << 10;
/// Pages that one read has in progress, per die.
const READ_PAGES_PER_DIE: u32 = 4;

#[derive(Clone, Copy, Debug)]
struct Command {
    id: RequestId,
    operation: Operation,
    bytes: u64,
    next: u64,
    end: u64,
    /// Pieces on the link, pages being read, or units that must become durable.
    pending: u32,
    /// When the link will have carried what has been read so far.
    link_end: u64,
    /// Whether some of the data came from flash, came from the buffer, or joined data in the buffer.
    flash: bool,
    buffer: bool,
    joined: bool,
}

#[derive(Clone, Copy, Debug)]
struct Piece {
    command: u32,
    start: u64,
    end: u64,
}

#[derive(Clone, Debug)]
pub(super) struct Host {
    interface: Interface,
    command_time: u64,
    pub(super) waiting: VecDeque<Request>,
    commands: Vec<Command>,
    unused: Vec<u32>,
    active: u32,
    exclusive: bool,
    flush: Option<u32>,
    controller_free: u64,
    link_free: u64,
    pieces: VecDeque<Piece>,
    /// Writes that have not sent all of their data, in order.
    writers: VecDeque<u32>,
}

impl Host {
    pub(super) const fn new(interface: Interface, command_time: u64) -> Self {
        Self {
            interface,
            command_time,
            waiting: VecDeque::new(),
            commands: Vec::new(),
            unused: Vec::new(),
            active: 0,
            exclusive: false,
            flush: None,
            controller_free: 0,
            link_free: 0,
            pieces: VecDeque::new(),
            writers: VecDeque::new(),
        }
    }

    pub(super) fn outstanding(&self) -> usize {
        self.waiting.len() + self.active as usize
    }

    pub(super) const fn is_flushing(&self) -> bool {
        self.flush.is_some()
    }

    pub(super) fn is_short_of_room(&self) -> bool {
        !self.writers.is_empty()
    }

    fn send(&mut self, bytes: u64, now: u64) -> u64 {
        self.link_free = self.link_free.max(now).saturating_add(self.interface.transfer(bytes).get());
        self.link_free
    }

    fn begin(&mut self, request: &Request) -> u32 {
        let command = Command {
            id: request.id,
            operation: request.operation,
            bytes: request.length.get(),
            next: request.offset.get(),
            end: request.offset.get() + request.length.get(),
            pending: 0,
            link_end: 0,
            flash: false,
            buffer: false,
            joined: false,
        };
        self.active += 1;
        if let Some(index) = self.unused.pop() {
            self.commands[index as usize] = command;
            return index;
        }
        self.commands.push(command);
        narrow(self.commands.len() as u64 - 1)
    }

    fn command(&mut self, index: u32) -> &mut Command {
        &mut self.commands[index as usize]
    }
}

/// The part of a span that lies in one unit: where it ends, and its first and last sector in the unit.
struct UnitPart {
    unit: Unit,
    end: u64,
    from: u32,
    to: u32,
}

impl UnitPart {
    /// The part of `start..end` that lies in the first unit it touches.
    fn first(layout: &Layout, start: u64, end: u64) -> Self {
        let unit = start >> layout.unit_shift;
        let unit_start = unit << layout.unit_shift;
        let end = end.min(unit_start + layout.unit_bytes());
        let (from, to) = ((start - unit_start) / SECTOR_BYTES, (end - unit_start).div_ceil(SECTOR_BYTES));
        Self { unit: Unit::new(narrow(unit)), end, from: narrow(from), to: narrow(to) }
    }
}

impl Ssd {
    pub(super) fn admit(&mut self) {
        while let Some(&request) = self.host.waiting.front() {
            let exclusive = matches!(request.operation, Operation::Flush | Operation::Discard);
            let depth = if exclusive { 1 } else { self.host.interface.queue_depth.max(1) };
            if self.host.exclusive || self.host.active >= depth {
                return;
            }
            self.host.exclusive = exclusive;
            let index = self.host.begin(&request);
            let read = request.operation == Operation::Read;
            self.host.waiting.pop_front();
            let understood = self.host.controller_free.max(self.now).saturating_add(self.host.command_time);
            self.host.controller_free = understood;
            let interface = &self.host.interface;
            let (lane, overhead) = if read {
                (Lane::ReadReady, interface.read_overhead)
            } else {
                (Lane::WriteReady, interface.write_overhead)
            };
            self.agenda.push(lane, understood.saturating_add(overhead.get()), index);
        }
    }

    pub(super) fn write_ready(&mut self, index: u32) {
        match self.host.command(index).operation {
            Operation::Flush => {
                self.host.flush = Some(index);
                if !self.power_loss_protection {
                    self.destage();
                }
                self.flushed();
            }
            Operation::Discard => self.discard(index),
            _ => {
                self.host.writers.push_back(index);
                self.feed();
                self.destage();
            }
        }
    }

    /// Ends the flush, if the buffer holds nothing that could be lost.
    pub(super) fn flushed(&mut self) {
        if (self.power_loss_protection || self.buffer.used == 0)
            && let Some(index) = self.host.flush.take()
        {
            self.complete(index, self.now);
        }
    }

    pub(super) fn feed(&mut self) {
        let piece = PIECE_BYTES.max(self.layout.unit_bytes());
        while let Some(&index) = self.host.writers.front() {
            let room = self.buffer.room;
            if room == 0 {
                return;
            }
            let command = self.host.command(index);
            let start = command.next;
            let first = start >> self.layout.unit_shift;
            let end = command
                .end
                .min((start / piece + 1) * piece)
                .min((first + u64::from(room)) << self.layout.unit_shift);
            command.next = end;
            command.pending += 1;
            if end == command.end {
                self.host.writers.pop_front();
            }
            let units = ((end - 1) >> self.layout.unit_shift) + 1 - first;
            self.buffer.room -= narrow(units);
            self.host.pieces.push_back(Piece { command: index, start, end });
            let arrival = self.host.send(end - start, self.now);
            self.agenda.push(Lane::Link, arrival, index);
        }
    }

    pub(super) fn arrived(&mut self) {
        let Some(Piece { command: index, start, end }) = self.host.pieces.pop_front() else { return };
        let command = *self.host.command(index);
        let forced = command.operation == Operation::WriteFua && !self.power_loss_protection;
        let (mut at, mut joined, mut waits) = (start, command.joined, 0);
        while at < end {
            let part = UnitPart::first(&self.layout, at, end);
            let (entry, joins) = self.buffer.put(part.unit, part.from, part.to, self.now);
            joined |= joins;
            if forced {
                self.buffer.entry_mut(entry).waiters.push(index);
                self.buffer.hasten(entry);
                waits += 1;
            }
            at = part.end;
        }
        if self.power_loss_protection {
            let (at, offset, length) = (Time::from_nanos(self.now), start, end - start);
            self.note(|| MediaEvent::Storing { at, offset, length });
            self.note(|| MediaEvent::Stored { at, offset, length });
        }
        self.watch_age();
        let command = self.host.command(index);
        command.joined = joined;
        command.pending += waits;
        self.awaited(index);
        self.destage();
        self.feed();
    }

    pub(super) fn awaited(&mut self, index: u32) {
        let command = self.host.command(index);
        command.pending -= 1;
        if command.pending > 0 {
            return;
        }
        if command.operation == Operation::Discard {
            self.discard(index);
        } else if command.next == command.end {
            self.complete(index, self.now);
        }
    }

    fn complete(&mut self, index: u32, at: u64) {
        let at = at.saturating_add(self.host.interface.completion_overhead.get());
        self.agenda.push(Lane::Completion, at, index);
    }

    pub(super) fn finish(&mut self, index: u32, done: &mut Vec<Completion>) {
        let Command { id, operation, bytes, flash, buffer, joined, .. } = *self.host.command(index);
        let counters = &mut self.record.counters;
        match operation {
            Operation::Read => {
                counters.host_reads += 1;
                counters.host_read_bytes += bytes;
                counters.cache_hits += u64::from(buffer && !flash);
            }
            Operation::Write | Operation::WriteFua => {
                counters.host_writes += 1;
                counters.host_write_bytes += bytes;
                counters.merged_writes += u64::from(joined);
            }
            Operation::Flush => counters.host_flushes += 1,
            Operation::Discard => counters.host_discards += 1,
        }
        done.push(Completion { id, at: Time::from_nanos(self.now) });
        self.host.exclusive = false;
        self.host.active -= 1;
        self.host.unused.push(index);
        self.admit();
    }

    pub(super) fn read_on(&mut self, index: u32) {
        let window = (READ_PAGES_PER_DIE * self.layout.dies).max(self.layout.pages_per_group);
        let mut command = *self.host.command(index);
        // Data that needs no flash goes to the host at once; the last page stays open, for the next unit.
        let mut at_once = 0;
        let mut open: Option<PageRead> = None;
        while command.next < command.end && command.pending < window {
            let start = command.next;
            let part = UnitPart::first(&self.layout, start, command.end);
            command.next = part.end;
            let buffered =
                self.buffer.find(part.unit).is_some_and(|entry| self.buffer.knows(entry, part.from, part.to));
            let slot = if buffered { None } else { self.mapping.get(part.unit) };
            command.buffer |= buffered;
            let Some(slot) = slot else {
                if let Some(unit) =
                    self.mapping.unmapped_until(part.unit).filter(|_| !buffered && self.buffer.used == 0)
                {
                    command.next = command.end.min(u64::from(unit.get()) << self.layout.unit_shift);
                }
                at_once += command.next - start;
                continue;
            };
            command.flash = true;
            self.read_unit(index, slot, start, part.end, &mut command.pending, &mut open);
        }
        self.start_page_read(index, open);
        if at_once > 0 {
            command.link_end = self.host.send(at_once, self.now);
        }
        *self.host.command(index) = command;
        if command.pending == 0 {
            self.complete(index, command.link_end);
        }
    }

    /// Reads `start..end`, which is part of the unit in the slot; the last page stays open for the next unit.
    fn read_unit(
        &mut self,
        index: u32,
        slot: Slot,
        start: u64,
        end: u64,
        pending: &mut u32,
        open: &mut Option<PageRead>,
    ) {
        let page_bytes = u64::from(self.layout.page_bytes);
        let (superblock, _) = self.layout.split(slot);
        let codeword = u64::from(self.layout.codeword_bytes);
        let inside = self.layout.unit_bytes() - 1;
        let mut at = start;
        while at < end {
            let page_end = end.min((at / page_bytes + 1) * page_bytes);
            // For a unit with several pages; otherwise the offset in the unit is less than a page.
            let page = self.layout.first_page(slot) + narrow((at & inside) / page_bytes);
            let bytes = narrow(page_end - at);
            let carried = narrow(page_end.next_multiple_of(codeword) - at / codeword * codeword);
            match open.as_mut().filter(|read| (read.superblock, read.page) == (superblock, page)) {
                Some(read) => {
                    read.bytes += bytes;
                    read.carried += carried;
                }
                None => {
                    *pending += 1;
                    let finished = open.replace(PageRead { superblock, page, bytes, carried });
                    self.start_page_read(index, finished);
                }
            }
            at = page_end;
        }
    }

    fn start_page_read(&mut self, command: u32, read: Option<PageRead>) {
        if let Some(PageRead { page, bytes, carried, .. }) = read {
            self.record.counters.media_read_bytes += u64::from(carried);
            let (die, work) = (self.nand.die_of(page), Work::HostRead { command, bytes });
            self.nand.push(die, work, carried, self.now, &mut self.agenda);
        }
    }

    pub(super) fn page_read(&mut self, index: u32, bytes: u32) {
        let link_end = self.host.send(u64::from(bytes), self.now);
        let command = self.host.command(index);
        command.link_end = link_end;
        command.pending -= 1;
        if command.next < command.end {
            self.read_on(index);
        } else if command.pending == 0 {
            self.complete(index, link_end);
        }
    }

    /// Drops the whole units of a discard, once none of them is being read or programmed.
    fn discard(&mut self, index: u32) {
        let Command { bytes, end, .. } = *self.host.command(index);
        let Layout { unit_shift: shift, capacity, .. } = self.layout;
        let first = (end - bytes).div_ceil(self.layout.unit_bytes());
        // The existing part of a last unit that the capacity cuts short counts as a whole one.
        let after = if end == capacity { self.layout.units.into() } else { end >> shift };
        if first < after {
            let (first, after) = (narrow(first), narrow(after));
            if self.await_busy(index, first, after) {
                return;
            }
            self.unmap(first, after);
            let offset = u64::from(first) << shift;
            let length = capacity.min(u64::from(after) << shift) - offset;
            let at = Time::from_nanos(self.now);
            self.note(|| MediaEvent::Discarded { at, offset, length });
        }
        self.complete(index, self.now);
        self.collect_on();
        self.destage();
    }

    fn buffered(&self, first: u32, after: u32) -> Vec<EntryIndex> {
        if after - first <= self.buffer.used {
            (first..after).filter_map(|unit| self.buffer.find(Unit::new(unit))).collect()
        } else {
            let inside = |index: &EntryIndex| (first..after).contains(&self.buffer.entry(*index).unit.get());
            self.buffer.indexes().filter(inside).collect()
        }
    }

    fn await_busy(&mut self, index: u32, first: u32, after: u32) -> bool {
        let mut waits = 0;
        for entry in self.buffered(first, after) {
            if matches!(self.buffer.entry(entry).stage, Stage::Reading | Stage::Storing | Stage::Held) {
                self.buffer.entry_mut(entry).waiters.push(index);
                self.buffer.hasten(entry);
                waits += 1;
            }
        }
        self.host.command(index).pending += waits;
        if waits > 0 {
            self.destage();
        }
        waits > 0
    }

    fn unmap(&mut self, first: u32, after: u32) {
        for entry in self.buffered(first, after) {
            self.buffer.remove(entry, self.now);
        }
        let mut unit = Unit::new(first);
        while unit.get() < after {
            if let Some(next) = self.mapping.unmapped_until(unit) {
                unit = next;
                continue;
            }
            if let Some(slot) = self.mapping.take(unit) {
                self.blocks.invalidate(slot);
            }
            unit = unit.after(1);
        }
    }
}

/// A page from which one or more units are read.
#[derive(Clone, Copy)]
struct PageRead {
    superblock: Superblock,
    page: u32,
    bytes: u32,
    /// Bytes over the channel.
    carried: u32,
}
