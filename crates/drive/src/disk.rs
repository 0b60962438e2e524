//! A disk: the controller's queue and caches over the moving parts.
//!
//! The mechanism does one operation at a time and cannot be interrupted, except that reading ahead stops at
//! once. Every write goes through the write buffer; the modes differ in when the write completes (when the
//! drive has the data, or when the medium has it). A flush is not queued: earlier commands end first, later
//! ones wait.

mod buffer;
mod destager;
mod firmware;
mod geometry;
mod host;
mod intake;
mod link;
mod mechanism;
mod media_cache;
mod operations;
mod parameters;
mod partial_log;
mod queue;
mod read_cache;
mod rest;
mod seek;
mod spindle;

pub use firmware::{
    CommandTimes, Disconnects, Firmware, History, ReadAheadEnd, ReadOn, SegmentRules, TwiceDisconnected,
};
pub use geometry::{Direction, Geometry, GeometryError, Position, SurfaceOrder, Zone};
pub use mechanism::HeadTimes;
pub use parameters::{
    DiskParameters, LogParameters, Protection, ReadCacheParameters, RmwPolicy, RmwReads, WriteCacheParameters,
};
pub use seek::{AverageSeek, SeekCurve, SeekError};
pub use spindle::{Angle, Spindle};

use straddle_units::ByteCount;
use straddle_units::io::{Completion, Counters, Request, RequestId, Time};

use crate::drive::Record;
use crate::interface::{Interface, Sectors};
use buffer::WriteBuffer;
use destager::Destager;
use intake::Intake;
use link::Link;
use mechanism::Mechanism;
use media_cache::MediaCache;
use partial_log::PartialLog;
use queue::Queue;
use read_cache::{Kept, ReadCache};

/// A modelled disk. Its parameters must come from a checked profile.
#[derive(Clone, Debug)]
pub(crate) struct Disk {
    now: Time,
    rules: Rules,
    link: Link,
    queue: Queue,
    intake: Intake,
    buffer: WriteBuffer,
    destager: Destager,
    logs: Logs,
    memory: Memory,
    reads: Reads,
    mechanism: Mechanism,
    busy: Option<Busy>,
    pub(crate) record: Record,
}

#[derive(Clone, Copy, Debug)]
struct Rules {
    /// Log2 of the physical sector's size, in bytes.
    shift: u32,
    /// Bytes by which the platters' addresses exceed the host's.
    firmware_offset: u64,
    rmw_reads: RmwReads,
    /// Whether writes take their sectors as they pass.
    writes_on_arrival: bool,
}

impl Rules {
    fn sectors(&self, start: u64, end: u64) -> (u64, u64) {
        (start >> self.shift, ((end - 1) >> self.shift) + 1)
    }
}

/// The areas of the medium to which writes go before their place.
#[derive(Clone, Debug)]
struct Logs {
    media: Option<MediaCache>,
    partial: Option<PartialLog>,
}

#[derive(Clone, Debug)]
struct Memory {
    reads: ReadCache,
    /// What was written and is still there.
    written: Kept,
}

#[derive(Clone, Debug)]
struct Reads {
    waiting: Vec<Read>,
    /// No waiting read became ready before this time.
    none_before: Time,
    /// Whether a read takes its sectors in the order in which they pass under the heads.
    on_arrival: bool,
}

/// A read that waits for the medium, in physical sectors.
#[derive(Clone, Copy, Debug)]
struct Read {
    id: RequestId,
    first: u64,
    end: u64,
    bytes: u64,
    arrived: Time,
    /// The earliest time at which data from the cache can go over the link.
    hit: Time,
    /// The earliest time at which the heads can move.
    ready: Time,
    place: Position,
    /// Its first byte, counted from the start of its first sector.
    into: u32,
    after_write: bool,
}

#[derive(Clone, Copy, Debug)]
struct Busy {
    end: Time,
    work: Work,
}

#[derive(Clone, Copy, Debug)]
enum Work {
    Read {
        read: Read,
        cached: u64,
        passed: u64,
        took: Took,
    },
    Edge {
        sector: u64,
    },
    Write,
    Log,
    Partial,
    Fetch,
    /// The read and the write of a sector whose parts are put in place, or of its band.
    PutInPlace {
        first: u64,
        count: u64,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Took {
    /// Sectors in place, to the last of which the heads are near.
    InPlace,
    Both,
    /// Parts from the log alone.
    Logged,
}

impl Disk {
    pub(crate) fn new(parameters: &DiskParameters, interface: Interface, sectors: Sectors) -> Self {
        let physical = sectors.physical;
        let shift = physical.trailing_zeros();
        let DiskParameters { write_cache, rmw, firmware, .. } = *parameters;
        let revolution = parameters.spindle.revolution().get();
        let media_cache = match parameters.protection {
            Protection::MediaCache { bytes, first_sector } => {
                Some(MediaCache::new(first_sector, bytes / physical))
            }
            Protection::None | Protection::NonVolatile => None,
        };
        Self {
            now: Time::ZERO,
            rules: Rules {
                shift,
                firmware_offset: sectors.firmware_offset,
                rmw_reads: parameters.rmw_reads,
                writes_on_arrival: firmware.writes_on_arrival,
            },
            link: Link::new(interface, firmware.times, write_cache.enabled, shift),
            queue: Queue::new(interface.queue_depth),
            intake: Intake::new(),
            buffer: WriteBuffer::new(physical, rmw.into(), write_cache.segment.map_or(0, ByteCount::get)),
            destager: Destager::new(parameters),
            logs: Logs { media: media_cache, partial: parameters.log.map(PartialLog::new) },
            memory: Memory {
                reads: ReadCache::new(parameters.read_cache, firmware.segments),
                written: Kept::new(parameters.rmw_reads.kept_written),
            },
            reads: Reads {
                waiting: Vec::new(),
                none_before: Time::ZERO,
                on_arrival: firmware.reads_on_arrival,
            },
            mechanism: Mechanism::new(parameters, physical),
            busy: None,
            record: Record { counters: Counters { revolution, ..Counters::default() }, media_events: None },
        }
    }

    pub(crate) fn submit(&mut self, at: Time, request: Request) {
        self.now = at;
        if let Some(request) = self.queue.submit(at, request) {
            self.take(request);
        }
    }

    pub(crate) fn next_event(&self) -> Option<Time> {
        let end = self.busy.map_or(self.destager.wake, |busy| busy.end);
        let next = self.queue.next().min(end).min(self.intake.entry);
        (next != Time::NEVER).then_some(next)
    }

    pub(crate) fn advance(&mut self, until: Time, done: &mut Vec<Completion>) {
        while let Some(next) = self.next_event().filter(|next| *next <= until) {
            self.now = next;
            if self.busy.is_some_and(|busy| busy.end <= next) {
                self.finish();
                self.start_next();
            } else if self.intake.entry <= next {
                self.admit();
                self.start_next();
            } else if self.queue.next() <= next {
                self.complete_next(done);
            } else {
                self.destager.wake = Time::NEVER;
                self.start_next();
            }
        }
        self.now = self.now.max(until);
    }

    fn complete_next(&mut self, done: &mut Vec<Completion>) {
        let Some((completion, flushed)) = self.queue.pop() else { return };
        done.push(completion);
        while let Some(request) = self.queue.take_held() {
            self.take(request);
        }
        // A flush may end with data in the buffer that is safe elsewhere and is now put in place. After the
        // last command, the drive begins to be idle.
        if flushed || self.queue.has_flush() || (self.queue.outstanding() == 0 && self.has_work()) {
            self.start_next();
        }
    }

    fn has_work(&self) -> bool {
        !self.buffer.is_empty() || self.has_logged()
    }

    fn complete(&mut self, id: RequestId, at: Time) {
        self.queue.complete(id, at.max(self.now));
    }

    pub(crate) fn outstanding(&self) -> usize {
        self.queue.outstanding()
    }

    fn pressed(&self) -> bool {
        self.intake.waits_for_room()
            || !self.intake.through.is_empty()
            || self.queue.flushing()
            || self.destager.is_pressed(&self.buffer)
    }

    fn is_write_in_flight(&self) -> bool {
        self.busy.is_some_and(|busy| matches!(busy.work, Work::Write | Work::Log | Work::Partial))
    }
}
