//! A memory card: a controller without memory for a mapping table of units.
//!
//! It maps whole superblocks (*allocation units*), and takes writes to a few of them at a time, the *open*
//! ones. A write to an open one is appended to a new superblock. A write to another one first closes the one
//! that has not been written for longest: the units that the host has not written are copied to the new
//! superblock, and the old one is erased (A. Bergmann, "Optimizing Linux with cheap flash drives", LWN 2011).
//!
//! The card is always full. It does one command at a time, and one step of it after the other; a write
//! completes once it is programmed.

use std::collections::VecDeque;

use straddle_units::io::{Completion, Nanos, Operation, Request, Time};

use crate::drive::{MediaEvent, Record};
use crate::interface::{Interface, transfer_time};
use crate::ssd::narrow;
use crate::ssd::parameters::{Layout, SsdParameters, Timing};

#[derive(Clone, Debug)]
struct Open {
    superblock: u64,
    /// Which of its units are in the new superblock.
    moved: Vec<bool>,
    programmed: u32,
}

#[derive(Clone, Debug)]
pub(crate) struct Card {
    layout: Layout,
    timing: Timing,
    interface: Interface,
    most_open: usize,
    /// The open superblocks; the one written last is last.
    open: Vec<Open>,
    waiting: VecDeque<Request>,
    current: Option<(Request, Time)>,
    pub(crate) record: Record,
}

impl Card {
    pub(crate) fn new(parameters: &SsdParameters, most_open: u32, interface: Interface) -> Self {
        Self {
            layout: parameters.layout,
            timing: parameters.timing,
            interface,
            most_open: most_open as usize,
            open: Vec::new(),
            waiting: VecDeque::new(),
            current: None,
            record: Record::default(),
        }
    }

    pub(crate) fn submit(&mut self, at: Time, request: Request) {
        self.waiting.push_back(request);
        self.start(at);
    }

    pub(crate) fn next_event(&self) -> Option<Time> {
        self.current.map(|(_, end)| end)
    }

    pub(crate) fn advance(&mut self, until: Time, done: &mut Vec<Completion>) {
        while let Some((request, end)) = self.current.filter(|(_, end)| *end <= until) {
            self.current = None;
            self.finish(&request, end);
            done.push(Completion { id: request.id, at: end });
            self.start(end);
        }
    }

    pub(crate) fn outstanding(&self) -> usize {
        self.waiting.len() + usize::from(self.current.is_some())
    }

    fn start(&mut self, at: Time) {
        if self.current.is_some() {
            return;
        }
        let Some(request) = self.waiting.pop_front() else { return };
        let (start, length) = (request.offset.get(), request.length.get());
        let link = self.interface.transfer(length).get();
        let (overhead, work) = match request.operation {
            Operation::Read => (self.interface.read_overhead, link + self.read(start, start + length)),
            Operation::Write | Operation::WriteFua => {
                (self.interface.write_overhead, link + self.write(start, start + length))
            }
            Operation::Flush | Operation::Discard => (self.interface.write_overhead, 0),
        };
        let time = overhead.get() + self.timing.command + work + self.interface.completion_overhead.get();
        self.current = Some((request, at + Nanos::new(time)));
    }

    fn finish(&mut self, request: &Request, at: Time) {
        let (offset, length) = (request.offset.get(), request.length.get());
        let counters = &mut self.record.counters;
        match request.operation {
            Operation::Read => {
                counters.host_reads += 1;
                counters.host_read_bytes += length;
            }
            Operation::Write | Operation::WriteFua => {
                counters.host_writes += 1;
                counters.host_write_bytes += length;
                if let Some(events) = &mut self.record.media_events {
                    events.push(MediaEvent::Storing { at, offset, length });
                    events.push(MediaEvent::Stored { at, offset, length });
                }
            }
            Operation::Flush => counters.host_flushes += 1,
            Operation::Discard => counters.host_discards += 1,
        }
    }

    const fn carry(&self) -> u64 {
        transfer_time(self.layout.unit_bytes(), self.timing.channel_nanos_per_mib).get()
    }

    fn read(&mut self, start: u64, end: u64) -> u64 {
        let units = ((end - 1) >> self.layout.unit_shift) + 1 - (start >> self.layout.unit_shift);
        self.record.counters.media_read_bytes += units << self.layout.unit_shift;
        units * (self.timing.read + self.carry())
    }

    fn write(&mut self, start: u64, end: u64) -> u64 {
        let (mut at, mut time) = (start, 0);
        while at < end {
            let unit = at >> self.layout.unit_shift;
            let next = end.min((unit + 1) << self.layout.unit_shift);
            if next - at
                < self.layout.unit_bytes().min(self.layout.capacity - (unit << self.layout.unit_shift))
            {
                self.record.counters.rmw_reads += 1;
                self.record.counters.rmw_read_bytes += self.layout.unit_bytes();
                time += self.read(at, next);
            }
            time += self.program(unit);
            at = next;
        }
        time
    }

    /// Programs a unit into the new superblock of its own, which is opened first; returns the time.
    fn program(&mut self, unit: u64) -> u64 {
        let slots = u64::from(self.layout.slots);
        let (superblock, place) = (unit / slots, narrow(unit % slots) as usize);
        let found = self.open.iter().position(|open| open.superblock == superblock);
        let mut time = 0;
        let mut open = match found.map(|index| self.open.remove(index)) {
            Some(open) if open.programmed < self.layout.slots => open,
            full => {
                if let Some(full) = full {
                    time += self.close(&full);
                } else if self.open.len() >= self.most_open {
                    let oldest = self.open.remove(0);
                    time += self.close(&oldest);
                }
                Open { superblock, moved: vec![false; self.layout.slots as usize], programmed: 0 }
            }
        };
        open.moved[place] = true;
        open.programmed += 1;
        self.open.push(open);
        self.record.counters.unit_write_bytes += self.layout.unit_bytes();
        self.record.counters.media_write_bytes += self.layout.unit_bytes();
        time + self.carry() + self.timing.program
    }

    /// Copies what the host has not written of an open superblock, and erases the old one; returns the time.
    fn close(&mut self, open: &Open) -> u64 {
        let copied = open.moved.iter().filter(|moved| !**moved).count() as u64;
        let bytes = copied << self.layout.unit_shift;
        let counters = &mut self.record.counters;
        counters.media_read_bytes += bytes;
        counters.gc_write_bytes += bytes;
        counters.media_write_bytes += bytes;
        counters.erases += u64::from(self.layout.dies);
        copied * (self.timing.read + self.timing.program + 2 * self.carry()) + self.timing.erase
    }
}
