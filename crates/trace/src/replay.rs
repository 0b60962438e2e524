//! A trace sent to a modelled drive.

use std::collections::HashMap;
use std::io::BufRead;

use straddle_drive::{Drive, Profile};
use straddle_io::{Completion, Counters, Latency, Nanos, Operation, Request, Time};
use straddle_units::{Boundary, ByteCount, ByteOffset};

use crate::error::{LineError, TraceError};
use crate::reader::{Reader, Record};

/// When a request is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pace {
    /// When the trace says, whatever the drive is at.
    Open,
    /// When the one before is complete: so long after it as the trace says, or at once.
    Closed,
}

/// How a trace is replayed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// When requests are sent; by default closed where the trace tells how long after each other, otherwise open.
    pub pace: Option<Pace>,
    /// Bytes added to every offset: what a partition that begins there does.
    pub shift: u64,
    /// Most requests at the drive at a time; by default 1 in the closed loop and [`OPEN_DEPTH`] in the open one.
    pub depth: Option<u32>,
    /// Whether a request past the drive's end goes to its beginning instead of being an error.
    pub wrap: bool,
}

/// The queue of a host in the open loop, if nothing else is said: that of SATA.
pub const OPEN_DEPTH: u32 = 32;

/// How far a drive is behind a trace that it cannot keep up with, as a share of the trace's time: beyond a burst at its end.
const LAG: f64 = 0.05;

/// Requests that wrap round keep their distance from every boundary up to this.
const KEPT: u64 = 1 << 20;

/// What a replay did.
#[derive(Clone, Debug)]
pub struct Replayed {
    /// When requests were sent.
    pub pace: Pace,
    /// Most requests at the drive at a time.
    pub depth: u32,
    /// Requests, of all kinds.
    pub requests: u64,
    /// Bytes read and written.
    pub bytes: u64,
    /// From the first arrival to the last completion.
    pub elapsed: Nanos,
    /// From the first arrival to the last; what the trace says, and so known in the open loop only.
    pub span: Nanos,
    /// From the last arrival to the last completion, in the open loop.
    pub behind: Nanos,
    /// Reads, from arrival to completion.
    pub reads: Latency,
    /// Writes, from arrival to completion.
    pub writes: Latency,
    /// Flushes, from arrival to completion.
    pub flushes: Latency,
    /// Discards.
    pub discards: u64,
    /// Reads and writes that do not begin and end on boundaries of the drive's true physical sectors.
    pub misaligned: u64,
    /// Requests that went to the beginning instead of past the end.
    pub wrapped: u64,
    /// What happened inside the drive.
    pub counters: Counters,
}

impl Replayed {
    /// The time that reads, writes and flushes took together.
    pub fn busy(&self) -> Nanos {
        self.reads.total() + self.writes.total() + self.flushes.total()
    }

    /// Whether the drive came after: in the open loop requests that arrive faster than they are done wait for ever longer,
    /// and how long is a matter of the trace's length alone. They do where, when the last one arrives, more of them are to
    /// be done than the drive takes at a time, and the drive needs more than a [`LAG`] of the trace's time for that.
    pub fn diverges(&self) -> bool {
        let waiting = self.behind.seconds() * self.rate() > f64::from(self.depth);
        self.pace == Pace::Open && waiting && self.behind.seconds() > self.span.seconds() * LAG
    }

    /// Requests in a second, from the first arrival to the last completion.
    fn rate(&self) -> f64 {
        #[allow(clippy::cast_precision_loss, reason = "to compare with")]
        let requests = self.requests as f64;
        requests / self.elapsed.seconds().max(f64::MIN_POSITIVE)
    }

    /// The share of reads and writes that are misaligned; `None` of none.
    pub fn misaligned_share(&self) -> Option<f64> {
        let all = self.reads.count() + self.writes.count();
        #[allow(clippy::cast_precision_loss, reason = "a figure to print")]
        let share = self.misaligned as f64 / all as f64;
        (all > 0).then_some(share)
    }
}

/// A request that has been done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Finished {
    /// The request.
    pub record: Record,
    /// From its arrival to its completion.
    pub latency: Nanos,
}

/// Replays a trace on a drive of `profile`, fresh from power-on. Every request that is done is shown to `each`.
pub fn replay<R: BufRead>(
    profile: &Profile,
    trace: &mut Reader<R>,
    options: &Options,
    each: &mut dyn FnMut(&Finished),
) -> Result<Replayed, TraceError> {
    let mut run = Run::new(profile, options);
    let mut count = 0_u64;
    while let Some(record) = trace.next_record()? {
        if count == 0 {
            run.begin(&record, trace.name(), options)?;
        }
        run.one(count, record, each).map_err(|error| trace.wrong_at(record.line, error))?;
        count += 1;
    }
    while run.wait(each) {}
    Ok(run.report(count))
}

/// A replay that is going on.
struct Run {
    drive: Drive,
    physical: Option<Boundary>,
    options: Options,
    /// The requests at the drive by their numbers, each with its arrival in the drive's time.
    outstanding: HashMap<u64, (Record, Time)>,
    done: Vec<Completion>,
    /// The last completion.
    free: Time,
    /// The first arrival and the last.
    arrivals: Option<(Time, Time)>,
    replayed: Replayed,
}

impl Run {
    fn new(profile: &Profile, options: &Options) -> Self {
        let (physical, offset) = (profile.sectors.physical, profile.sectors.firmware_offset);
        // The firmware's offset moves the host's addresses up: the boundaries lie so much lower.
        let phase = ByteCount::new(physical - offset.min(physical));
        let replayed = Replayed {
            pace: options.pace.unwrap_or(Pace::Open),
            depth: options.depth.unwrap_or(1),
            requests: 0,
            bytes: 0,
            elapsed: Nanos::ZERO,
            span: Nanos::ZERO,
            behind: Nanos::ZERO,
            reads: Latency::new(),
            writes: Latency::new(),
            flushes: Latency::new(),
            discards: 0,
            misaligned: 0,
            wrapped: 0,
            counters: Counters::default(),
        };
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

    /// Settles what the first request tells of the trace.
    fn begin(&mut self, first: &Record, name: &str, options: &Options) -> Result<(), TraceError> {
        let paced = first.after.is_some();
        let pace = options.pace.unwrap_or(if paced { Pace::Closed } else { Pace::Open });
        let usual = if pace == Pace::Open { OPEN_DEPTH } else { 1 };
        let depth = options.depth.unwrap_or(usual).max(1);
        if paced && pace == Pace::Closed && depth > 1 {
            return Err(TraceError::Depth { name: name.to_owned(), depth });
        }
        (self.replayed.pace, self.replayed.depth) = (pace, depth);
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
            Pace::Closed => self.free + record.after.unwrap_or(Nanos::ZERO),
        };
        let offset = self.placed(&record)?;
        let sent = arrival.max(room).max(self.drive.now());
        // In the open loop a request has arrived even while it waits for room.
        let arrival = if pace == Pace::Open { arrival } else { sent };
        self.arrivals = Some((self.arrivals.map_or(arrival, |(first, _)| first), arrival));
        let request = Request::new(id, record.operation, offset, record.length);
        self.drive.submit(sent, request, &mut self.done).map_err(LineError::Refused)?;
        self.outstanding.insert(id, (record, arrival));
        let mut done = std::mem::take(&mut self.done);
        for completion in done.drain(..) {
            self.note(completion, each);
        }
        self.done = done;
        self.count(&record, offset);
        Ok(())
    }

    /// Waits for a completion; false if nothing is outstanding.
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

    /// The first byte of a request on this drive.
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

    fn report(mut self, requests: u64) -> Replayed {
        self.replayed.requests = requests;
        self.replayed.elapsed = self.free.since(Time::ZERO);
        if let Some((first, last)) = self.arrivals.filter(|_| self.replayed.pace == Pace::Open) {
            self.replayed.span = last.since(first);
            self.replayed.behind = self.free.max(last).since(last);
        }
        self.replayed.counters = *self.drive.counters();
        self.replayed
    }
}
