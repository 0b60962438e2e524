//! A target for tests, without a drive: it has only a time for each request.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io;

use straddle_units::io::{Completion, Counters, Nanos, Operation, Request, Time};
use straddle_units::{Boundary, ByteCount, Coverage, Span};

use crate::bench::target::{Clock, Description, Target, TargetError};

/// The mock's physical sector size in bytes.
const PHYSICAL: u64 = 4096;
/// Nanoseconds per revolution (7200 rpm): the mock counts as a disk, whose writes wear nothing.
const REVOLUTION: u64 = 8_333_333;

/// A target that takes `service` for each request, and `penalty` more for each physical sector that is only
/// partly written. It has no buffer: every write reaches the medium. It works on `channels` requests at a time and records what it is sent.
#[derive(Clone, Debug)]
pub(crate) struct Mock {
    description: Description,
    capacity: u64,
    service: Nanos,
    penalty: Nanos,
    fails_at: Option<usize>,
    now: Time,
    /// When each channel will be free.
    channels: Vec<Time>,
    pending: BinaryHeap<Reverse<(Time, u64)>>,
    counters: Counters,
    log: Vec<(Time, Request)>,
}

impl Mock {
    /// Creates a mock of `capacity` bytes with one channel and no penalty.
    pub(crate) fn new(capacity: u64, service: Nanos) -> Self {
        let description =
            Description { name: "mock".to_owned(), title: "Mock".to_owned(), clock: Clock::Virtual };
        Self {
            description,
            capacity,
            service,
            penalty: Nanos::ZERO,
            fails_at: None,
            now: Time::ZERO,
            channels: vec![Time::ZERO],
            pending: BinaryHeap::new(),
            counters: Counters { revolution: REVOLUTION, ..Counters::default() },
            log: Vec::new(),
        }
    }

    /// Sets a penalty for each partly written physical sector of 4096 bytes.
    #[must_use]
    pub(crate) const fn with_penalty(mut self, penalty: Nanos) -> Self {
        self.penalty = penalty;
        self
    }

    /// Sets the number of requests in service at a time, at least one.
    #[must_use]
    pub(crate) fn with_channels(mut self, channels: usize) -> Self {
        self.channels = vec![Time::ZERO; channels.max(1)];
        self
    }

    /// Makes request number `index`, from 0, fail.
    #[must_use]
    pub(crate) const fn failing_at(mut self, index: usize) -> Self {
        self.fails_at = Some(index);
        self
    }

    /// Returns every request so far, with the time when it was sent.
    pub(crate) fn log(&self) -> &[(Time, Request)] {
        &self.log
    }

    /// The physical sectors that a write touches; none for other requests.
    fn coverage(request: &Request) -> Coverage {
        let boundary = Boundary::multiples_of(ByteCount::new(PHYSICAL));
        let span = Span::new(request.offset, request.length);
        match (boundary, span) {
            (Some(boundary), Some(span)) if request.operation.is_write() => boundary.coverage(span),
            _ => Coverage { touched: 0, partial: 0 },
        }
    }

    fn count(&mut self, request: &Request, sectors: Coverage) {
        let (counters, length) = (&mut self.counters, request.length.get());
        match request.operation {
            Operation::Read => {
                counters.host_reads += 1;
                counters.host_read_bytes += length;
                counters.media_read_bytes += length;
            }
            Operation::Write | Operation::WriteFua => {
                counters.host_writes += 1;
                counters.host_write_bytes += length;
            }
            Operation::Flush => counters.host_flushes += 1,
            Operation::Discard => counters.host_discards += 1,
        }
        counters.media_write_bytes += sectors.touched * PHYSICAL;
        counters.rmw_reads += sectors.partial;
        counters.rmw_read_bytes += sectors.partial * PHYSICAL;
        counters.media_read_bytes += sectors.partial * PHYSICAL;
    }
}

impl Target for Mock {
    fn description(&self) -> &Description {
        &self.description
    }

    fn capacity(&self) -> ByteCount {
        ByteCount::new(self.capacity)
    }

    fn logical_sector(&self) -> u64 {
        512
    }

    fn now(&self) -> Time {
        self.now
    }

    fn submit(&mut self, request: Request) -> Result<(), TargetError> {
        if self.fails_at == Some(self.log.len()) {
            return Err(TargetError::Failed { request, source: io::Error::other("the mock is set to fail") });
        }
        let sectors = Self::coverage(&request);
        self.count(&request, sectors);
        self.log.push((self.now, request));
        let service = (0..sectors.partial).fold(self.service, |sum, _| sum + self.penalty);
        if let Some(free) = self.channels.iter_mut().min() {
            *free = (*free).max(self.now) + service;
            self.pending.push(Reverse((*free, request.id.0)));
        }
        Ok(())
    }

    fn wait(&mut self) -> Result<Completion, TargetError> {
        let Reverse((at, id)) = self.pending.pop().ok_or(TargetError::Idle)?;
        self.now = self.now.max(at);
        Ok(Completion { id: straddle_units::io::RequestId(id), at })
    }

    fn pause(&mut self, length: Nanos) {
        self.now += length;
    }

    fn counters(&self) -> Option<Counters> {
        Some(self.counters)
    }
}
