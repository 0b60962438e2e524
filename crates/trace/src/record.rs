//! The requests of a trace, and what every format does to them: volumes by number, times from the first request.

use straddle_io::{Nanos, Operation, Time};

use crate::error::LineError;
use crate::format::{Line, When};
use crate::volumes::Volumes;

/// A request of a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record {
    /// The number of its line, or of its record in a binary format, from 1.
    pub line: u64,
    /// The index of its volume in [`Reader::volumes`](crate::Reader::volumes).
    pub volume: usize,
    /// The operation.
    pub operation: Operation,
    /// First byte; zero for a flush.
    pub offset: u64,
    /// Number of bytes; zero for a flush.
    pub length: u64,
    /// When it arrived, counted from the start of the trace. Zero for what is before that, if the order does not
    /// matter.
    pub arrival: Time,
    /// When it arrived, as the trace counts it.
    pub time: Nanos,
    /// How it went on a real drive, if the trace says so.
    pub took: Option<Took>,
}

/// How a request went on a real drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Took {
    /// How long after the completion of the previous request this one arrived.
    pub after: Nanos,
    /// How long it took.
    pub measured: Nanos,
}

/// Whether requests have to be in the order of their times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// One that is earlier than the one before is an error.
    ByTime,
    /// They may come in any order.
    Any,
}

/// Requests that are read at a time: few enough to stay in the processor's first cache.
pub(crate) const BATCH: usize = 256;

/// Whether a request of this length asks for nothing.
#[inline]
pub(crate) fn is_empty(operation: Operation, length: u64) -> bool {
    length == 0 && operation != Operation::Flush
}

/// Takes the requests of a trace, and hands them on in batches.
#[derive(Debug)]
pub(crate) struct Sink {
    pub(crate) batch: Vec<Record>,
    pub(crate) volumes: Volumes,
    pub(crate) order: Order,
    /// Lines that are not requests.
    pub(crate) others: u64,
    /// The first arrival; the others are counted from it.
    origin: Option<Nanos>,
    /// The last arrival. In DiskSim's format: the next arrival.
    arrival: Time,
    after: Nanos,
}

impl Sink {
    pub(crate) fn new(order: Order) -> Self {
        Self {
            batch: Vec::with_capacity(BATCH),
            volumes: Volumes::default(),
            order,
            others: 0,
            origin: None,
            arrival: Time::ZERO,
            after: Nanos::ZERO,
        }
    }

    #[inline]
    pub(crate) fn is_full(&self) -> bool {
        self.batch.len() >= BATCH
    }

    /// Takes the request of a line.
    pub(crate) fn line(&mut self, number: u64, line: &Line<'_>) -> Result<(), LineError> {
        let volume = self.volumes.index(line.volume)?;
        self.request(number, volume, (line.operation, line.offset, line.length), line.when)
    }

    /// Takes a request of the volume with this index. One of no bytes, of any kind but a flush, counts as a line that is
    /// none: no drive gets such a request.
    #[inline]
    pub(crate) fn request(
        &mut self,
        line: u64,
        volume: usize,
        (operation, offset, length): (Operation, u64, u64),
        when: When,
    ) -> Result<(), LineError> {
        let (arrival, time, took) = match when {
            When::At(at) => {
                let origin = match self.origin {
                    Some(origin) => origin,
                    None => *self.origin.insert(at),
                };
                let arrival = Time::from_nanos(at.get().saturating_sub(origin.get()));
                if self.order == Order::ByTime && (at < origin || arrival < self.arrival) {
                    return Err(LineError::Backwards);
                }
                self.arrival = arrival;
                (arrival, at, None)
            }
            When::Took { measured, then } => {
                let (arrival, after) = (self.arrival, self.after);
                (self.arrival, self.after) = (arrival + measured + then, then);
                (arrival, arrival.since(Time::ZERO), Some(Took { after, measured }))
            }
        };
        if is_empty(operation, length) {
            self.others += 1;
            return Ok(());
        }
        self.batch.push(Record { line, volume, operation, offset, length, arrival, time, took });
        Ok(())
    }
}
