//! The drive and its clock, to which every transport submits its requests.
//!
//! Invariants: it knows no transport. A job names its owner and the owner's tag for it, and is handed back when the
//! model has completed it and the wall clock has reached that time.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::time::{Duration, Instant};

use crate::media::{MediaError, Payload, Served};
use straddle_units::io::{Completion, Latency, Nanos, Operation, Request, Time};
use straddle_units::{ByteCount, ByteOffset};

/// Longer writes of zeroes are submitted in pieces: what a power cut would undo is kept in memory, and other clients
/// get their turn in between.
const LONGEST_ZEROES: u64 = 4 << 20;
/// The length of the pieces of a discard, which costs less.
const LONGEST_DISCARD: u64 = 128 << 20;
/// Without delay, at most this many events of the drive are processed before clients get their turn.
const MOST_EVENTS: usize = 4096;
/// How often the drive's own activity (emptying its cache) is processed while no request is outstanding.
const IDLE: Nanos = Nanos::new(1_000_000);

/// How the drive's time passes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Pace {
    /// This many times as fast as the wall's time; 1 is a real drive.
    Real(f64),
    /// Without waiting: a completion is sent as soon as it is known; the drive's time moves only with its requests.
    NoDelay,
}

#[derive(Clone, Debug)]
struct Clock {
    start: Instant,
    /// How many times as fast as the wall's.
    speed: f64,
}

#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_precision_loss,
    reason = "never negative, it saturates, and it is exact to the nanosecond for a hundred days"
)]
impl Clock {
    fn now(&self) -> Time {
        Time::from_nanos((self.start.elapsed().as_nanos() as f64 * self.speed) as u64)
    }

    fn wall(&self, time: Nanos) -> Duration {
        Duration::from_nanos((time.get() as f64 / self.speed).ceil() as u64)
    }
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Job {
    pub(crate) owner: u64,
    pub(crate) tag: u64,
    pub(crate) operation: Operation,
    pub(crate) offset: u64,
    pub(crate) length: u64,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Finished {
    pub(crate) job: Job,
    pub(crate) failed: bool,
    /// The time at which, by the model, the client should learn of it.
    due: Time,
}

#[derive(Clone, Copy, Debug)]
struct Rest {
    offset: u64,
    length: u64,
    payload: Payload<'static>,
}

#[derive(Debug)]
pub(crate) struct Engine {
    pub(crate) served: Served,
    clock: Option<Clock>,
    /// Jobs at the drive, by the number of the drive's request, each with what must follow.
    jobs: HashMap<u64, (Job, Option<Rest>)>,
    next: u64,
    /// Jobs of which one piece is done and another must follow.
    unfinished: VecDeque<(Job, Rest)>,
    done: Vec<Completion>,
    /// How much later than the model's time completions were handed to their clients, in the wall's time.
    pub(crate) lateness: Latency,
}

impl Engine {
    pub(crate) fn new(served: Served, pace: Pace) -> Self {
        let clock = match pace {
            Pace::Real(speed) => Some(Clock { start: Instant::now(), speed }),
            Pace::NoDelay => None,
        };
        Self {
            served,
            clock,
            jobs: HashMap::new(),
            next: 0,
            unfinished: VecDeque::new(),
            done: Vec::new(),
            lateness: Latency::new(),
        }
    }

    pub(crate) fn outstanding(&self) -> usize {
        self.jobs.len() + self.unfinished.len()
    }

    fn now(&self) -> Time {
        self.clock.as_ref().map_or(self.served.now(), |clock| clock.now().max(self.served.now()))
    }

    pub(crate) fn submit(&mut self, job: &Job, payload: Payload<'_>) -> Result<(), MediaError> {
        self.submit_from(job, job.offset, job.length, payload)
    }

    /// From `offset` on, as much as may go in one piece.
    fn submit_from(
        &mut self,
        job: &Job,
        offset: u64,
        length: u64,
        payload: Payload<'_>,
    ) -> Result<(), MediaError> {
        let (longest, unit, remains) = match payload {
            Payload::Zeroes => (LONGEST_ZEROES, 1, Payload::Zeroes),
            Payload::KeptZeroes => (LONGEST_ZEROES, 1, Payload::KeptZeroes),
            _ if job.operation == Operation::Discard => {
                (LONGEST_DISCARD, self.served.discard_unit(), Payload::None)
            }
            _ => (u64::MAX, 1, Payload::None),
        };
        let (first, rest) = split(offset, length, longest, unit, remains);
        let request = Request::new(self.next, job.operation, ByteOffset::new(offset), ByteCount::new(first));
        self.served.submit(self.now(), request, payload, &mut self.done)?;
        self.jobs.insert(self.next, (*job, rest));
        self.next += 1;
        Ok(())
    }

    /// Adds the jobs that ended to `finished`. At most one further piece of a split job is begun, so call this again
    /// after the clients have had their turn. An error comes from the store, at a power cut.
    pub(crate) fn advance(&mut self, finished: &mut Vec<Finished>) -> io::Result<()> {
        if let Some((job, rest)) = self.unfinished.pop_front()
            && self.submit_from(&job, rest.offset, rest.length, rest.payload).is_err()
        {
            finished.push(Finished { job, failed: true, due: self.now() });
        }
        if self.clock.is_some() {
            self.served.advance(self.now(), &mut self.done)?;
        } else {
            self.run()?;
        }
        for completion in self.done.drain(..) {
            match self.jobs.remove(&completion.id.0) {
                Some((job, Some(rest))) => self.unfinished.push_back((job, rest)),
                Some((job, None)) => finished.push(Finished { job, failed: false, due: completion.at }),
                None => {}
            }
        }
        Ok(())
    }

    fn run(&mut self) -> io::Result<()> {
        for _ in 0..MOST_EVENTS {
            if self.served.outstanding() == 0 {
                break;
            }
            let Some(next) = self.served.next_event() else { break };
            self.served.advance(next, &mut self.done)?;
        }
        if let Some(cut) = self.served.cut_at().filter(|_| !self.served.is_cut()) {
            self.served.advance(cut, &mut self.done)?;
        }
        Ok(())
    }

    pub(crate) fn sent(&mut self, finished: &[Finished]) {
        let Some(clock) = &self.clock else { return };
        let now = clock.now();
        for Finished { due, .. } in finished {
            let late = clock.wall(now.since(*due)).as_nanos();
            self.lateness.record(Nanos::new(u64::try_from(late).unwrap_or(u64::MAX)));
        }
    }

    /// Returns how long nothing will happen without a new request; `None` for ever.
    pub(crate) fn pause(&self) -> Option<Duration> {
        if !self.unfinished.is_empty() && !self.served.is_cut() {
            return Some(Duration::ZERO);
        }
        let Some(clock) = &self.clock else {
            return (self.served.outstanding() > 0).then_some(Duration::ZERO);
        };
        let next = self.served.next_event()?;
        let now = clock.now();
        let wait = next.since(now);
        let idle = self.served.outstanding() == 0;
        Some(clock.wall(if idle { wait.max(IDLE) } else { wait }))
    }
}

/// Pieces end at multiples of `unit` bytes, because a discard would otherwise skip a unit that lies in two pieces.
fn split(
    offset: u64,
    length: u64,
    longest: u64,
    unit: u64,
    payload: Payload<'static>,
) -> (u64, Option<Rest>) {
    let end = offset.saturating_add(longest);
    let first = (end - end % unit).saturating_sub(offset);
    if length <= longest || first == 0 {
        return (length, None);
    }
    (first, Some(Rest { offset: offset + first, length: length - first, payload }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_are_together_the_whole_and_cut_no_unit() {
        for (offset, length, unit) in
            [(0, 10, 1), (7, 1000, 12), (12, 1200, 12), (5, 100, 200), (0, 100, 100)]
        {
            let (mut at, mut left, mut pieces) = (offset, length, 0);
            loop {
                let (first, rest) = split(at, left, 100, unit, Payload::Zeroes);
                assert!(first > 0 && first <= left, "{offset} {length} {unit}");
                pieces += 1;
                let Some(rest) = rest else { break assert_eq!(first, left) };
                assert_eq!((rest.offset, rest.length), (at + first, left - first));
                assert!(rest.offset.is_multiple_of(unit) && first <= 100);
                (at, left) = (rest.offset, rest.length);
            }
            assert_eq!(pieces > 1, length > 100);
        }
    }
}
