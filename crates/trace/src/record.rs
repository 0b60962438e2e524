//! The requests of a trace: volumes by number, times from the first request.

use straddle_units::io::{Nanos, Operation, Time};

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
    /// When it arrived after the first request of the trace, and not before the one before it
    /// ([`Reader::late`](crate::Reader::late)).
    pub arrival: Time,
    /// When it arrived, as the trace says.
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

/// Requests that are read at a time: few enough to stay in the processor's first cache.
pub(crate) const BATCH: usize = 256;

/// Whether a request of this length asks for nothing.
#[inline]
pub(crate) fn is_empty(operation: Operation, length: u64) -> bool {
    length == 0 && operation != Operation::Flush
}

/// Takes the requests of a trace, and hands them on in batches.
#[derive(Debug, Default)]
pub(crate) struct Sink {
    pub(crate) batch: Vec<Record>,
    pub(crate) volumes: Volumes,
    /// Lines that are not requests.
    pub(crate) others: u64,
    /// Requests that are earlier than one before them.
    pub(crate) late: u64,
    /// The first arrival; the others are counted from it.
    origin: Option<Nanos>,
    /// The latest arrival. In DiskSim's format: the next arrival.
    arrival: Time,
    after: Nanos,
}

impl Sink {
    pub(crate) fn new() -> Self {
        Self { batch: Vec::with_capacity(BATCH), ..Self::default() }
    }

    #[inline]
    pub(crate) fn is_full(&self) -> bool {
        self.batch.len() >= BATCH
    }

    pub(crate) fn line(&mut self, number: u64, line: &Line<'_>) -> Result<(), LineError> {
        let volume = self.volumes.index(line.volume)?;
        self.request(number, volume, (line.operation, line.offset, line.length), line.when)
    }

    /// Takes a request of the volume with this index. Without bytes, it is a line without a request, unless it is a flush.
    #[inline]
    pub(crate) fn request(
        &mut self,
        line: u64,
        volume: usize,
        (operation, offset, length): (Operation, u64, u64),
        when: When,
    ) -> Result<(), LineError> {
        if is_empty(operation, length) {
            self.others += 1;
            if matches!(when, When::Took { .. }) {
                // The next request arrives after it.
                self.arrival_of(when);
            }
            return Ok(());
        }
        if offset.checked_add(length).is_none() {
            return Err(LineError::TooFar { offset, length });
        }
        let (arrival, time, took) = self.arrival_of(when);
        self.batch.push(Record { line, volume, operation, offset, length, arrival, time, took });
        Ok(())
    }

    #[inline]
    fn arrival_of(&mut self, when: When) -> (Time, Nanos, Option<Took>) {
        match when {
            When::At(at) => {
                let origin = *self.origin.get_or_insert(at);
                let arrival = Time::from_nanos(at.get().saturating_sub(origin.get()));
                self.late += u64::from(at < origin || arrival < self.arrival);
                self.arrival = self.arrival.max(arrival);
                (self.arrival, at, None)
            }
            When::Took { measured, then } => {
                let (arrival, after) = (self.arrival, self.after);
                (self.arrival, self.after) = (arrival + measured + then, then);
                (arrival, arrival.since(Time::ZERO), Some(Took { after, measured }))
            }
        }
    }
}
