//! The drive and its clock: what every transport hands its requests to.
//!
//! The law of this module: it knows no transport. A job names its owner and what the owner calls it; when the model says that it
//! is done and the wall's clock has come so far, it is handed back.

use std::io;
use std::time::Duration;

use straddle_bench::Latency;
use straddle_drive::{Completion, Nanos, Operation, Request, Time};

use crate::clock::{Clock, Pace};
use crate::served::{Payload, ServeError, Served};

/// A longer write of zeroes goes to the drive in pieces of this size, one after the other: what a power cut would undo is kept
/// in memory.
const LONGEST_ZEROES: u64 = 32 << 20;
/// While nobody waits, the drive's own doings (emptying its cache) are looked after this often.
const IDLE: Nanos = Nanos::new(1_000_000);

/// A request of a transport.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Job {
    /// Which client it is of.
    pub owner: u64,
    /// The client's name for it.
    pub tag: u64,
    /// What is asked.
    pub operation: Operation,
    /// First byte; zero for a flush.
    pub offset: u64,
    /// Number of bytes; zero for a flush.
    pub length: u64,
}

/// A job that is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Finished {
    /// The job.
    pub job: Job,
    /// Whether it failed on the way.
    pub failed: bool,
    /// When the model says that the client should learn of it.
    pub due: Time,
}

/// Zeroes that are still to be written.
#[derive(Clone, Copy, Debug)]
struct Rest {
    offset: u64,
    length: u64,
    payload: Payload<'static>,
}

/// A drive in the wall's time.
#[derive(Debug)]
pub struct Engine {
    served: Served,
    clock: Option<Clock>,
    /// By the number of the drive's request.
    jobs: Vec<Option<(Job, Option<Rest>)>>,
    unused: Vec<usize>,
    done: Vec<Completion>,
    lateness: Latency,
}

impl Engine {
    /// Starts the clock.
    pub fn new(served: Served, pace: Pace) -> Self {
        let clock = match pace {
            Pace::Real(speed) => Some(Clock::new(speed)),
            Pace::NoDelay => None,
        };
        let (jobs, unused, done) = (Vec::new(), Vec::new(), Vec::new());
        Self { served, clock, jobs, unused, done, lateness: Latency::new() }
    }

    /// The drive.
    pub const fn served(&self) -> &Served {
        &self.served
    }

    /// The drive, to cut its power.
    pub const fn served_mut(&mut self) -> &mut Served {
        &mut self.served
    }

    /// How much later than the model said completions were handed to their clients, in the wall's time.
    pub const fn lateness(&self) -> &Latency {
        &self.lateness
    }

    /// Jobs that are not done.
    pub fn outstanding(&self) -> usize {
        self.jobs.len() - self.unused.len()
    }

    fn now(&self) -> Time {
        self.clock.as_ref().map_or(self.served.now(), |clock| clock.now().max(self.served.now()))
    }

    /// Hands a job to the drive.
    pub fn submit(&mut self, job: &Job, payload: Payload<'_>) -> Result<(), ServeError> {
        let (first, rest) = match payload {
            Payload::Zeroes => split(job, Payload::Zeroes),
            Payload::KeptZeroes => split(job, Payload::KeptZeroes),
            _ => (job.length, None),
        };
        let number = self.unused.pop().unwrap_or_else(|| {
            self.jobs.push(None);
            self.jobs.len() - 1
        });
        let request = Request::new(number as u64, job.operation, job.offset, first);
        let now = self.now();
        match self.served.submit(now, request, payload, &mut self.done) {
            Ok(()) => {
                self.jobs[number] = Some((*job, rest));
                Ok(())
            }
            Err(error) => {
                self.unused.push(number);
                Err(error)
            }
        }
    }

    /// Lets everything happen that is due; what is done goes to `finished`. An error is one of the store at a power cut.
    pub fn advance(&mut self, finished: &mut Vec<Finished>) -> io::Result<()> {
        loop {
            match &self.clock {
                Some(_) => {
                    let now = self.now();
                    self.served.advance(now, &mut self.done)?;
                }
                None => self.run()?,
            }
            if !self.hand_back(finished) || self.served.is_cut() {
                return Ok(());
            }
        }
    }

    /// Lets the drive's time go by until nobody waits.
    fn run(&mut self) -> io::Result<()> {
        while self.served.outstanding() > 0 {
            let Some(next) = self.served.next_event() else { break };
            self.served.advance(next, &mut self.done)?;
        }
        if let Some(cut) = self.served.cut_at().filter(|_| !self.served.is_cut()) {
            self.served.advance(cut, &mut self.done)?;
        }
        Ok(())
    }

    /// Hands back what is done; true if some of it goes on.
    fn hand_back(&mut self, finished: &mut Vec<Finished>) -> bool {
        let mut goes_on = false;
        let mut done = std::mem::take(&mut self.done);
        for completion in done.drain(..) {
            let number = usize::try_from(completion.id.0).unwrap_or(usize::MAX);
            let Some((job, rest)) = self.jobs.get_mut(number).and_then(Option::take) else { continue };
            self.unused.push(number);
            let Some(rest) = rest else {
                finished.push(Finished { job, failed: false, due: completion.at });
                continue;
            };
            goes_on = true;
            let next = Job { offset: rest.offset, length: rest.length, ..job };
            if self.submit(&next, rest.payload).is_err() {
                finished.push(Finished { job, failed: true, due: completion.at });
            }
        }
        // What was done meanwhile is in the field; the other vector keeps its memory for the next time.
        done.append(&mut self.done);
        self.done = done;
        goes_on
    }

    /// These have been sent, now.
    pub fn sent(&mut self, finished: &[Finished]) {
        let Some(clock) = &self.clock else { return };
        let now = clock.now();
        for Finished { due, .. } in finished {
            let late = clock.wall(now.since(*due)).as_nanos();
            self.lateness.record(Nanos::new(u64::try_from(late).unwrap_or(u64::MAX)));
        }
    }

    /// How long nothing happens, unless somebody asks for something; `None` for ever.
    pub fn pause(&self) -> Option<Duration> {
        let clock = self.clock.as_ref()?;
        let next = self.served.next_event()?;
        let now = clock.now();
        let wait = next.since(now);
        let idle = self.served.outstanding() == 0;
        Some(clock.wall(if idle { wait.max(IDLE) } else { wait }))
    }
}

/// The length of the first piece of a write of zeroes, and what is left of it.
fn split(job: &Job, payload: Payload<'static>) -> (u64, Option<Rest>) {
    if job.length <= LONGEST_ZEROES {
        return (job.length, None);
    }
    let (offset, length) = (job.offset.saturating_add(LONGEST_ZEROES), job.length - LONGEST_ZEROES);
    (LONGEST_ZEROES, Some(Rest { offset, length, payload }))
}
