//! A disk: the controller's queue and caches over the moving parts.
//!
//! The law of this module: the mechanism does one operation at a time and cannot be interrupted, except that reading ahead
//! stops at once. Every write goes through the write buffer; what differs is when the host is told (when the drive has the
//! data, or when the medium has it). A flush is not queued: earlier commands end first, later ones wait.

mod buffer;
mod firmware;
mod geometry;
mod host;
mod link;
mod mechanism;
mod media_cache;
mod operations;
mod parameters;
mod read_cache;
mod rest;
mod seek;
mod segments;
mod spindle;

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

pub use firmware::{
    CommandTimes, Disconnects, Firmware, History, ReadAheadEnd, ReadOn, SegmentRules, TwiceDisconnected,
};
pub use geometry::{Direction, Geometry, GeometryError, Place, Zone};
pub use mechanism::HeadTimes;
pub use parameters::{DiskParameters, Protection, ReadCacheParameters, RmwPolicy, WriteCacheParameters};
pub use seek::{AverageSeek, SeekCurve, SeekError};
pub use spindle::{Angle, Spindle};

use crate::counters::Counters;
use crate::profile::{Interface, Sectors};
use crate::request::{Completion, MediaEvent, Operation, Request, RequestId};
use crate::time::{Nanos, Time};
use buffer::{Taken, WriteBuffer};
use link::Supply;
use mechanism::Mechanism;
use media_cache::MediaCache;
use read_cache::ReadCache;

/// A modelled disk.
#[derive(Clone, Debug)]
pub struct Disk {
    mechanism: Mechanism,
    geometry: Geometry,
    interface: Interface,
    shift: u32,
    firmware_offset: u64,
    rmw: RmwPolicy,
    protection: Protection,
    write_cache: WriteCacheParameters,
    read_ahead: u64,
    firmware: Firmware,

    now: Time,
    /// When the host last asked for something.
    active: Time,
    /// When the link is free again.
    link_free: Time,
    /// Whether the last command was a write, and where it ended.
    after_write: bool,
    written_until: u64,
    /// When the heads may move for the last write, and be on its track.
    write_moves: Time,
    write_lands: Time,
    /// When the data of the last write that was let in were here.
    arrives: Time,
    /// The data of the last write as they come in, where that is known.
    supply: Option<Supply>,
    /// Commands that were not yet taken: the queue is full, or a flush is under way.
    held: VecDeque<Request>,
    /// Commands that were taken and have not completed.
    taken: u32,
    /// Reads that need the medium.
    reads: Vec<Read>,
    /// None of them was ready before this.
    no_read_before: Time,
    /// Writes on their way into the buffer, in the order of the link: their data cross it, or wait for room.
    incoming: VecDeque<Write>,
    /// When the data of the first of them are here; never if it waits for room.
    arrival: Time,
    /// Writes in the buffer whose host waits for the medium.
    through: Vec<Write>,
    flush: Option<Flush>,
    buffer: WriteBuffer,
    cache: ReadCache,
    stream: Option<Stream>,
    busy: Option<Busy>,
    in_flight: Taken,
    media_cache: Option<MediaCache>,
    /// Looked at again then, though nothing happens before.
    wake: Time,
    done: BinaryHeap<Reverse<(Time, u64, RequestId)>>,
    completions: u64,
    counters: Counters,
    media_events: Option<Vec<MediaEvent>>,
}

/// A read that waits for the medium, in physical sectors.
#[derive(Clone, Copy, Debug)]
struct Read {
    id: RequestId,
    first: u64,
    end: u64,
    bytes: u64,
    arrived: Time,
    /// When data from the cache can go over the link.
    hit: Time,
    /// When the heads can move.
    ready: Time,
    place: Place,
    /// Whether the command before was a write.
    after_write: bool,
}

/// A write on its way, in bytes as the platters count them.
#[derive(Clone, Copy, Debug)]
struct Write {
    id: RequestId,
    start: u64,
    end: u64,
    arrived: Time,
    /// The buffer takes it no earlier.
    enters: Time,
    /// Whether the host waits for the medium.
    durable: bool,
    /// From the end of it all to the host's knowing.
    status: Nanos,
}

#[derive(Clone, Copy, Debug)]
struct Flush {
    id: RequestId,
    /// Its completion is on the way.
    over: bool,
}

/// Reading ahead into a segment: everything before `next` has been read at `at`.
#[derive(Clone, Copy, Debug)]
struct Stream {
    segment: usize,
    next: u64,
    at: Time,
    limit: u64,
}

/// The operation that the mechanism is at.
#[derive(Clone, Copy, Debug)]
struct Busy {
    end: Time,
    work: Work,
}

#[derive(Clone, Copy, Debug)]
enum Work {
    Read { read: Read, cached: u64, passed: u64 },
    Edge { sector: u64 },
    Write,
    Log,
}

impl Disk {
    /// Switches a disk on.
    pub fn new(parameters: &DiskParameters, interface: Interface, sectors: Sectors) -> Self {
        let physical = sectors.physical;
        let DiskParameters {
            spindle,
            geometry,
            seek,
            heads,
            read_cache,
            write_cache,
            rmw,
            protection,
            firmware,
        } = parameters.clone();
        let counters = Counters { revolution: spindle.revolution().get(), ..Counters::default() };
        let media_cache = match protection {
            Protection::MediaCache { bytes, first_sector } => {
                Some(MediaCache::new(first_sector, bytes / physical))
            }
            Protection::None | Protection::NonVolatile => None,
        };
        Self {
            mechanism: Mechanism::new(geometry.clone(), seek, spindle, heads, physical),
            geometry,
            interface,
            shift: physical.trailing_zeros(),
            firmware_offset: sectors.firmware_offset,
            rmw,
            protection,
            write_cache,
            read_ahead: read_cache.read_ahead,
            firmware,
            now: Time::ZERO,
            active: Time::ZERO,
            link_free: Time::ZERO,
            after_write: false,
            written_until: 0,
            write_moves: Time::ZERO,
            write_lands: Time::ZERO,
            arrives: Time::ZERO,
            supply: None,
            held: VecDeque::new(),
            taken: 0,
            reads: Vec::new(),
            no_read_before: Time::ZERO,
            incoming: VecDeque::new(),
            arrival: Time::NEVER,
            through: Vec::new(),
            flush: None,
            buffer: WriteBuffer::new(physical, rmw == RmwPolicy::Deferred, write_cache.segment),
            cache: ReadCache::new(read_cache.segments, read_cache.segment_sectors, firmware.segments),
            stream: None,
            busy: None,
            in_flight: Taken::default(),
            media_cache,
            wake: Time::NEVER,
            done: BinaryHeap::new(),
            completions: 0,
            counters,
            media_events: None,
        }
    }

    pub(crate) fn submit(&mut self, at: Time, request: Request) {
        self.now = at;
        self.active = at;
        if self.flush.is_some() || !self.held.is_empty() || self.taken >= self.interface.queue_depth {
            self.held.push_back(request);
        } else {
            self.take(request);
        }
    }

    pub(crate) fn next_event(&self) -> Option<Time> {
        let done = self.done.peek().map_or(Time::NEVER, |Reverse((at, _, _))| *at);
        let end = self.busy.map_or(self.wake, |busy| busy.end);
        let next = done.min(end).min(self.arrival);
        (next != Time::NEVER).then_some(next)
    }

    pub(crate) fn advance(&mut self, until: Time, done: &mut Vec<Completion>) {
        while let Some(next) = self.next_event().filter(|next| *next <= until) {
            self.now = next;
            if self.busy.is_some_and(|busy| busy.end <= next) {
                self.finish();
                self.start_next();
            } else if self.arrival <= next {
                self.admit();
                self.start_next();
            } else if self.done.peek().is_some_and(|Reverse((at, _, _))| *at <= next) {
                self.complete_next(done);
            } else {
                self.wake = Time::NEVER;
                self.start_next();
            }
        }
        self.now = self.now.max(until);
    }

    /// Tells the host of the next completion, and takes what waited for it.
    fn complete_next(&mut self, done: &mut Vec<Completion>) {
        let Some(Reverse((at, _, id))) = self.done.pop() else { return };
        done.push(Completion { id, at });
        self.taken -= 1;
        let flushed = self.flush.is_some_and(|flush| flush.over && flush.id == id);
        if flushed {
            self.flush = None;
        }
        while self.flush.is_none() && self.taken < self.interface.queue_depth {
            let Some(request) = self.held.pop_front() else { break };
            self.take(request);
        }
        // What a flush left in the buffer, safe elsewhere, is put in place now.
        if flushed || self.flush.is_some() {
            self.start_next();
        }
    }

    /// Every request ends here, once.
    fn complete(&mut self, id: RequestId, at: Time) {
        self.completions += 1;
        self.done.push(Reverse((at.max(self.now), self.completions, id)));
    }

    pub(crate) fn outstanding(&self) -> usize {
        self.taken as usize + self.held.len()
    }

    pub(crate) fn counters(&self) -> &Counters {
        &self.counters
    }

    pub(crate) fn watch_media(&mut self) {
        self.media_events.get_or_insert_default();
    }

    pub(crate) fn take_media_events(&mut self) -> Vec<MediaEvent> {
        self.media_events.as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// Whether the write cache must be emptied now, whatever else there is to do.
    fn pressed(&self) -> bool {
        self.waits_for_room()
            || !self.through.is_empty()
            || self.flushing()
            || self.is_table_full()
            || self.buffer.bytes() / 3 >= self.write_cache.bytes / 4
    }

    /// Whether the table of pending writes is three quarters full.
    fn is_table_full(&self) -> bool {
        self.buffer.entries() * 4 >= self.write_cache.extents * 3
    }

    /// Whether the data of a write are here and the buffer has no room for them.
    fn waits_for_room(&self) -> bool {
        !self.incoming.is_empty() && self.arrival == Time::NEVER
    }

    /// Whether a flush is under way and everything before it has completed.
    fn flushing(&self) -> bool {
        self.taken == 1 && self.flush.is_some_and(|flush| !flush.over)
    }

    fn revolution(&self) -> Nanos {
        self.mechanism.revolution()
    }

    fn is_write_in_flight(&self) -> bool {
        self.busy.is_some_and(|busy| matches!(busy.work, Work::Write | Work::Log))
    }
}

impl Operation {
    /// Whether the host is told only when the medium has the data, cache or not.
    const fn forces_unit_access(self) -> bool {
        matches!(self, Self::WriteFua)
    }
}
