//! Replays a trace on a modelled drive.

use std::collections::HashMap;

use rayon::prelude::*;
use schemars::JsonSchema;
use serde::Serialize;
use straddle_drive::{Drive, Profile};
use straddle_units::io::{Completion, Counters, Latency, Nanos, Operation, Refusal, Request, Time};
use straddle_units::{Boundary, ByteCount, ByteOffset};

use crate::error::{LineError, TraceError};
use crate::histogram::SECTOR;
use crate::reader::{Numbered, Reader};
use crate::record::Record;

/// When a request is sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Pace {
    /// At its arrival time in the trace, even if the drive is busy (open loop).
    #[default]
    Open,
    /// When the previous request completes (closed loop).
    Closed,
}

/// How a trace is replayed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// When each request is sent.
    pub pace: Pace,
    /// Bytes added to every offset, as by a partition that begins there.
    pub shift: u64,
    /// Most requests in flight. By default 1 in the closed loop and [`OPEN_DEPTH`] in the open one.
    pub depth: Option<u32>,
    /// Whether a request past the end of the drive goes to its beginning instead of being an error.
    pub wrap: bool,
}

/// The default queue depth in the open loop: that of SATA.
pub const OPEN_DEPTH: u32 = 32;

impl Pace {
    const fn usual_depth(self) -> u32 {
        match self {
            Self::Open => OPEN_DEPTH,
            Self::Closed => 1,
        }
    }
}

/// The share of a trace's time that a drive may lag at its end. A burst at the end stays below this.
const LAG: f64 = 0.05;

/// Requests that wrap around keep their distance from boundaries up to this size.
const KEPT: u64 = 1 << 20;

/// The result of a replay.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct Replayed {
    /// When requests were sent.
    pub pace: Pace,
    /// The maximum number of requests outstanding at the drive at a time.
    #[serde(rename = "queue_depth")]
    pub depth: u32,
    /// The number of requests of all kinds.
    pub requests: u64,
    /// The number of bytes read and written.
    pub bytes: u64,
    /// The time from the first arrival to the last completion, in nanoseconds.
    #[serde(rename = "elapsed_ns")]
    pub elapsed: Nanos,
    /// The time from the first arrival to the last, in nanoseconds; 0 in the closed loop, where the trace
    /// does not determine arrivals.
    #[serde(rename = "span_ns")]
    pub span: Nanos,
    /// The time from the last arrival to the last completion, in nanoseconds; 0 in the closed loop.
    #[serde(rename = "behind_ns")]
    pub behind: Nanos,
    /// The latency of reads, from arrival to completion; absent if there are none.
    #[serde(skip_serializing_if = "Latency::is_empty")]
    pub reads: Latency,
    /// The latency of writes, from arrival to completion; absent if there are none.
    #[serde(skip_serializing_if = "Latency::is_empty")]
    pub writes: Latency,
    /// The latency of flushes, from arrival to completion; absent if there are none.
    #[serde(skip_serializing_if = "Latency::is_empty")]
    pub flushes: Latency,
    /// The number of discards.
    pub discards: u64,
    /// The number of discards that were not sent because the drive does not support them.
    #[serde(rename = "ignored_discards")]
    pub ignored: u64,
    /// The number of requests that did not begin and end on 512-byte sector boundaries. Each was sent as a
    /// request for all the sectors that it touches, as a page cache would send it.
    #[serde(rename = "off_sector_requests")]
    pub off_sector: u64,
    /// The number of reads and writes that do not begin and end on boundaries of the drive's true physical
    /// sectors.
    #[serde(rename = "misaligned_requests")]
    pub misaligned: u64,
    /// The number of requests that were moved to the beginning of the drive because they extended past its
    /// end.
    #[serde(rename = "wrapped_requests")]
    pub wrapped: u64,
    /// Counters from inside the drive.
    pub counters: Counters,
}

impl Replayed {
    /// Returns the total time of reads, writes and flushes.
    pub fn busy(&self) -> Nanos {
        self.reads.total() + self.writes.total() + self.flushes.total()
    }

    /// Whether the drive could not keep up, so that the latency depends on the length of the trace alone: in the open
    /// loop, more requests than the queue depth are outstanding at the last arrival, and the drive needs more than
    /// [`LAG`] of the trace's time to finish them.
    pub fn diverges(&self) -> bool {
        let waiting = self.behind.seconds() * self.rate() > f64::from(self.depth);
        self.pace == Pace::Open && waiting && self.behind.seconds() > self.span.seconds() * LAG
    }

    fn rate(&self) -> f64 {
        #[allow(clippy::cast_precision_loss, reason = "to compare with")]
        let requests = self.requests as f64;
        requests / self.elapsed.seconds().max(f64::MIN_POSITIVE)
    }

    fn join(&mut self, other: &Self) {
        self.requests += other.requests;
        self.bytes += other.bytes;
        self.elapsed = self.elapsed.max(other.elapsed);
        self.span = self.span.max(other.span);
        self.behind = self.behind.max(other.behind);
        self.reads.join(&other.reads);
        self.writes.join(&other.writes);
        self.flushes.join(&other.flushes);
        self.discards += other.discards;
        self.ignored += other.ignored;
        self.off_sector += other.off_sector;
        self.misaligned += other.misaligned;
        self.wrapped += other.wrapped;
        self.counters = self.counters.plus(&other.counters);
    }

    /// Returns the share of reads and writes that are misaligned; `None` if there are none.
    pub fn misaligned_share(&self) -> Option<f64> {
        let all = self.reads.count() + self.writes.count();
        #[allow(clippy::cast_precision_loss, reason = "a figure to print")]
        let share = self.misaligned as f64 / all as f64;
        (all > 0).then_some(share)
    }
}

/// A completed request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Finished {
    /// The request.
    pub record: Record,
    /// From its arrival to its completion.
    pub latency: Nanos,
}

/// Replays a trace on a drive of `profile`, fresh from power-on. Calls `each` for every completed request.
pub fn replay(
    profile: &Profile,
    trace: &mut Reader<'_>,
    options: &Options,
    each: &mut dyn FnMut(&Finished),
) -> Result<Replayed, TraceError> {
    let mut run = Replay::new(profile, options);
    while let Some(record) = trace.next_record()? {
        run.take(record, (trace.name(), trace.place()), each)?;
    }
    while run.wait(each) {}
    Ok(run.report())
}

/// The replay of a trace with a drive for each volume.
#[derive(Clone, Debug)]
pub struct Replays {
    /// All volumes together: sums, and the longest times.
    pub total: Replayed,
    /// The volumes by name, in the order in which they occur.
    pub volumes: Vec<(String, Replayed)>,
}

impl Replays {
    /// Whether a drive could not keep up; see [`Replayed::diverges`].
    pub fn diverges(&self) -> bool {
        self.volumes.iter().any(|(_, replayed)| replayed.diverges())
    }
}

/// Requests that are read before the drives get them, so that all drives are busy.
const CHUNK: usize = 1 << 15;

struct Lane {
    run: Replay,
    waiting: Vec<Record>,
    failed: Option<(u64, TraceError)>,
}

/// Replays a trace with a drive of `profile` for each volume, each fresh from power-on. The drives run at the same
/// time, while the next requests are read; the result does not depend on the number of processors.
pub fn replay_volumes(
    profile: &Profile,
    trace: &mut Reader<'_>,
    options: &Options,
) -> Result<Replays, TraceError> {
    let mut lanes: Vec<Lane> = Vec::new();
    let (mut next, mut read) = (Vec::new(), Ok(()));
    loop {
        let (name, place) = (trace.name().to_owned(), trace.place());
        let (more, ()) = rayon::join(
            || {
                while next.len() < CHUNK && trace.next_batch()? {
                    next.extend_from_slice(trace.batch());
                }
                Ok(())
            },
            || lanes.par_iter_mut().for_each(|lane| lane.go((&name, place))),
        );
        // The first request that is wrong, as if they were replayed one after the other.
        let failed = lanes.iter_mut().filter_map(|lane| lane.failed.take()).min_by_key(|(line, _)| *line);
        if let Some((_, error)) = failed {
            return Err(error);
        }
        read?;
        read = more;
        if next.is_empty() && read.is_ok() {
            break;
        }
        for record in next.drain(..) {
            while record.volume >= lanes.len() {
                let run = Replay::new(profile, options);
                lanes.push(Lane { run, waiting: Vec::new(), failed: None });
            }
            lanes[record.volume].waiting.push(record);
        }
    }
    lanes.par_iter_mut().for_each(|lane| while lane.run.wait(&mut |_| {}) {});
    let done = lanes.into_iter().map(|lane| lane.run.report());
    // A volume may be named only in lines without a request.
    let asked = trace.volumes().iter().cloned().zip(done).filter(|(_, replayed)| replayed.requests > 0);
    let volumes: Vec<(String, Replayed)> = asked.collect();
    let mut total = Replay::new(profile, options).report();
    if let Some((_, first)) = volumes.first() {
        (total.pace, total.depth) = (first.pace, first.depth);
    }
    volumes.iter().for_each(|(_, replayed)| total.join(replayed));
    Ok(Replays { total, volumes })
}

impl Lane {
    fn go(&mut self, trace: (&str, Numbered)) {
        for record in std::mem::take(&mut self.waiting) {
            if let Err(error) = self.run.take(record, trace, &mut |_| {}) {
                self.failed = Some((record.line, error));
                return;
            }
        }
    }
}

struct Replay {
    drive: Drive,
    physical: Option<Boundary>,
    options: Options,
    outstanding: HashMap<u64, (Record, Time)>,
    done: Vec<Completion>,
    free: Time,
    arrivals: Option<(Time, Time)>,
    replayed: Replayed,
}

impl Replay {
    fn new(profile: &Profile, options: &Options) -> Self {
        let (physical, offset) = (profile.sectors.physical, profile.sectors.firmware_offset);
        // The firmware adds its offset to the host's addresses, which lowers the boundaries.
        let phase = ByteCount::new(physical - offset.min(physical));
        let pace = options.pace;
        let depth = options.depth.unwrap_or(pace.usual_depth()).max(1);
        let replayed = Replayed { pace, depth, ..Replayed::default() };
        Self {
            drive: Drive::new(profile),
            physical: Boundary::new(ByteCount::new(physical), phase),
            options: *options,
            outstanding: HashMap::new(),
            done: Vec::new(),
            free: Time::ZERO,
            arrivals: None,
            replayed,
        }
    }

    fn take(
        &mut self,
        record: Record,
        (name, place): (&str, Numbered),
        each: &mut dyn FnMut(&Finished),
    ) -> Result<(), TraceError> {
        let line = record.line;
        self.one(self.replayed.requests, record, each).map_err(|source| TraceError::Line {
            name: name.to_owned(),
            place,
            line,
            byte: None,
            source,
        })?;
        self.replayed.requests += 1;
        Ok(())
    }

    fn one(&mut self, id: u64, record: Record, each: &mut dyn FnMut(&Finished)) -> Result<(), LineError> {
        let mut room = Time::ZERO;
        let depth = usize::try_from(self.replayed.depth).unwrap_or(usize::MAX);
        while self.outstanding.len() >= depth && self.wait(each) {
            room = self.free;
        }
        let pace = self.replayed.pace;
        let arrival = match pace {
            Pace::Open => record.arrival,
            Pace::Closed => self.free,
        };
        let record = self.whole(record);
        let offset = self.placed(&record)?;
        let sent = arrival.max(room).max(self.drive.now());
        // In the open loop a request has arrived even while it waits for room in the queue.
        let arrival = if pace == Pace::Open { arrival } else { sent };
        self.arrivals = Some((self.arrivals.map_or(arrival, |(first, _)| first), arrival));
        let request =
            Request::new(id, record.operation, ByteOffset::new(offset), ByteCount::new(record.length));
        match self.drive.submit(sent, request, &mut self.done) {
            Ok(()) => {
                self.outstanding.insert(id, (record, arrival));
            }
            // No host sends one to a drive that has no such command.
            Err(Refusal::NoDiscard) => self.replayed.ignored += 1,
            Err(refusal) => return Err(LineError::Refused(refusal)),
        }
        for completion in std::mem::take(&mut self.done) {
            self.note(completion, each);
        }
        self.count(&record, offset);
        Ok(())
    }

    /// False if nothing is in flight.
    fn wait(&mut self, each: &mut dyn FnMut(&Finished)) -> bool {
        let Some(completion) = self.drive.next_completion(&mut self.done) else { return false };
        self.note(completion, each);
        true
    }

    fn note(&mut self, completion: Completion, each: &mut dyn FnMut(&Finished)) {
        let Some((record, arrival)) = self.outstanding.remove(&completion.id.0) else { return };
        self.free = self.free.max(completion.at);
        let latency = completion.at.since(arrival);
        match record.operation {
            Operation::Read => self.replayed.reads.record(latency),
            Operation::Write | Operation::WriteFua => self.replayed.writes.record(latency),
            Operation::Flush => self.replayed.flushes.record(latency),
            Operation::Discard => {}
        }
        each(&Finished { record, latency });
    }

    fn whole(&mut self, record: Record) -> Record {
        let end =
            record.offset.checked_add(record.length).and_then(|end| end.checked_next_multiple_of(SECTOR));
        let offset = record.offset - record.offset % SECTOR;
        let length = end.map_or(record.length, |end| end - offset);
        if (offset, length) == (record.offset, record.length) || end.is_none() {
            return record;
        }
        self.replayed.off_sector += 1;
        Record { offset, length, ..record }
    }

    fn placed(&mut self, record: &Record) -> Result<u64, LineError> {
        if record.operation == Operation::Flush {
            return Ok(0);
        }
        let capacity = self.drive.claims().capacity;
        let (shifted, length) = (record.offset.checked_add(self.options.shift), record.length);
        if let Some(offset) = shifted
            && offset.checked_add(length).is_some_and(|end| end <= capacity)
        {
            return Ok(offset);
        }
        let offset = shifted.unwrap_or(u64::MAX);
        let past = LineError::PastEnd { offset, length, capacity };
        let (true, Some(room)) = (self.options.wrap, capacity.checked_sub(length)) else { return Err(past) };
        let kept =
            Boundary::multiples_of(ByteCount::new(KEPT)).and_then(|kept| kept.floor(ByteOffset::new(room)));
        let size =
            kept.map(|room| ByteCount::new(room.get())).and_then(Boundary::multiples_of).ok_or(past)?;
        self.replayed.wrapped += 1;
        Ok(size.past(ByteOffset::new(offset)).get())
    }

    fn count(&mut self, record: &Record, offset: u64) {
        match record.operation {
            Operation::Discard => self.replayed.discards += 1,
            Operation::Flush => {}
            Operation::Read | Operation::Write | Operation::WriteFua => {
                self.replayed.bytes += record.length;
                let aligned =
                    |at: u64| self.physical.is_none_or(|physical| physical.is_aligned(ByteOffset::new(at)));
                let whole = aligned(offset) && aligned(offset.saturating_add(record.length));
                self.replayed.misaligned += u64::from(!whole);
            }
        }
    }

    fn report(mut self) -> Replayed {
        self.replayed.elapsed = self.free.since(Time::ZERO);
        if let Some((first, last)) = self.arrivals.filter(|_| self.replayed.pace == Pace::Open) {
            self.replayed.span = last.since(first);
            self.replayed.behind = self.free.max(last).since(last);
        }
        self.replayed.counters = *self.drive.counters();
        self.replayed
    }
}
