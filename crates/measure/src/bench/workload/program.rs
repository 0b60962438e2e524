//! A workload on one target: checked, and turned into requests.

use straddle_units::ByteCount;
use straddle_units::io::{Nanos, Operation};

use super::{ROOM, Sync, Workload, WorkloadError};
use crate::bench::random::GlibcRandom;

/// A checked workload that is being run.
#[derive(Clone, Debug)]
pub(crate) struct Program {
    pub(crate) operation: Operation,
    pub(crate) size: u64,
    pub(crate) places: Places,
    pub(crate) count: Option<u64>,
    pub(crate) time: Option<Nanos>,
    /// Whether a flush after each write counts as part of it.
    pub(crate) flush_each: bool,
    /// The number of writes after which to flush, with nothing else outstanding; zero for never.
    pub(crate) fsync_each: u64,
    pub(crate) fsync_last: bool,
    pub(crate) depth: u32,
    /// The number of requests past the count, which keep the queue full until the last request that counts is
    /// done.
    pub(crate) tail: u64,
}

/// The offsets at which requests begin.
#[derive(Clone, Debug)]
pub(crate) enum Places {
    Random { generator: GlibcRandom, blocks: u64, size: u64, first: u64 },
    Sequential { next: u64, stride: u64, left: u64 },
}

impl Places {
    /// Returns the places of a checked workload.
    fn of(
        workload: &Workload,
        count: Option<u64>,
        capacity: u64,
        sector: u64,
    ) -> Result<Self, WorkloadError> {
        match (workload.seed(sector), workload.blocks(capacity)) {
            (Some(seed), Some(blocks)) => Self::random(workload, seed, blocks, capacity),
            _ => Self::sequential(workload, count, capacity),
        }
    }

    fn random(workload: &Workload, seed: u32, blocks: u64, capacity: u64) -> Result<Self, WorkloadError> {
        let Workload { size, start, offset, .. } = *workload;
        if workload.pattern.parameters().blocks == Some(0) {
            return Err(WorkloadError::Zero { what: "blocks" });
        }
        if blocks == 0 {
            let needed = u128::from(size) + u128::from(offset.max(ROOM));
            return Err(WorkloadError::DoesNotFit { first: start, needed, capacity });
        }
        // Within the capacity, because there is at least one block.
        Ok(Self::Random { generator: GlibcRandom::new(seed), blocks, size, first: start + offset })
    }

    fn sequential(workload: &Workload, count: Option<u64>, capacity: u64) -> Result<Self, WorkloadError> {
        let (first, stride) = (workload.start.saturating_add(workload.offset), workload.stride());
        let room = capacity.saturating_sub(first);
        let fits = room.checked_sub(workload.size).map_or(0, |rest| rest / stride + 1);
        let wanted = count.unwrap_or(1);
        if fits < wanted {
            let needed = u128::from(wanted - 1) * u128::from(stride) + u128::from(workload.size);
            return Err(WorkloadError::DoesNotFit { first, needed, capacity });
        }
        Ok(Self::Sequential { next: first, stride, left: fits })
    }

    /// Returns the next place; `None` at the end of the target.
    pub(crate) fn next(&mut self) -> Option<u64> {
        match self {
            Self::Random { generator, blocks, size, first } => {
                Some(*first + (u64::from(generator.next()) % *blocks) * *size)
            }
            Self::Sequential { next, stride, left } => {
                *left = left.checked_sub(1)?;
                let place = *next;
                *next = place.saturating_add(*stride);
                Some(place)
            }
        }
    }
}

impl Workload {
    /// Checks the workload for a target of `capacity` bytes: every request is inside the target and of whole
    /// sectors.
    pub(crate) fn program(&self, capacity: ByteCount, sector: u64) -> Result<Program, WorkloadError> {
        let (count, seconds) = self.limits();
        self.check(sector)?;
        let time = seconds.map(|seconds| {
            Nanos::from_seconds(seconds)
                .filter(|time| *time > Nanos::ZERO)
                .ok_or(WorkloadError::Seconds { seconds })
        });
        let places = Places::of(self, count, capacity.get(), sector)?;
        let parameters = self.pattern.parameters();
        let sync = parameters.sync.unwrap_or_default();
        let operation = match (self.pattern.writes(), sync) {
            (false, _) => Operation::Read,
            (true, Sync::Fua) => Operation::WriteFua,
            (true, Sync::None | Sync::Flush) => Operation::Write,
        };
        Ok(Program {
            operation,
            size: self.size,
            places,
            count,
            time: time.transpose()?,
            flush_each: sync == Sync::Flush,
            fsync_each: parameters.fsync_each.unwrap_or(0),
            fsync_last: self.pattern.ends_with_fsync(),
            depth: self.queue_depth,
            tail: 0,
        })
    }

    fn check(&self, sector: u64) -> Result<(), WorkloadError> {
        let Self { size, start, offset, queue_depth, .. } = *self;
        let stride = self.stride();
        let zeros = [("size", size), ("stride", stride), ("queue depth", u64::from(queue_depth))];
        if let Some((what, _)) = zeros.into_iter().find(|(_, value)| *value == 0) {
            return Err(WorkloadError::Zero { what });
        }
        if self.count == Some(0) {
            return Err(WorkloadError::Zero { what: "count" });
        }
        let sizes = [("size", size), ("stride", stride), ("start", start), ("offset", offset)];
        match sizes.into_iter().find(|(_, bytes)| !bytes.is_multiple_of(sector)) {
            Some((what, bytes)) => Err(WorkloadError::NotWholeSectors { what, bytes, sector }),
            None => Ok(()),
        }
    }
}
