//! A workload on one target: checked, and turned into requests.

use straddle_units::ByteCount;
use straddle_units::io::{Nanos, Operation};

use super::{ROOM, Sync, Workload, WorkloadError};
use crate::bench::random::GlibcRandom;

#[derive(Clone, Debug)]
pub(crate) struct Program {
    pub(crate) operation: Operation,
    pub(crate) size: u64,
    pub(crate) places: Places,
    pub(crate) count: Option<u64>,
    pub(crate) time: Option<Nanos>,
    /// Whether a flush after each write counts as part of it.
    pub(crate) flush_each: bool,
    /// Writes after which to flush, with nothing else outstanding; zero for never.
    pub(crate) fsync_each: u64,
    pub(crate) fsync_last: bool,
    pub(crate) depth: u32,
    /// Requests after the count, which keep the queue full until the last that counts is done.
    pub(crate) tail: u64,
}

#[derive(Clone, Debug)]
pub(crate) enum Places {
    Random { generator: GlibcRandom, blocks: u64, size: u64, first: u64 },
    Sequential { next: u64, stride: u64, left: u64 },
}

impl Places {
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
    /// Checks that every request is inside a target of `capacity` bytes and of whole sectors.
    pub(crate) fn program(&self, capacity: ByteCount, sector: u64) -> Result<Program, WorkloadError> {
        let (count, seconds) = self.limits();
        self.check(sector)?;
        let time = seconds.map(|seconds| {
            Nanos::from_seconds(seconds)
                .filter(|time| *time > Nanos::ZERO)
                .ok_or(WorkloadError::Seconds { seconds })
        });
        let places = self.places(count, capacity.get(), sector)?;
        let parameters = self.pattern.parameters;
        let sync = parameters.sync.unwrap_or_default();
        let operation = match (self.pattern.writes, sync) {
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
            fsync_last: self.pattern.ends_with_fsync,
            depth: self.queue_depth,
            tail: 0,
        })
    }

    fn places(&self, count: Option<u64>, capacity: u64, sector: u64) -> Result<Places, WorkloadError> {
        let size = self.size;
        if let (Some(seed), Some(blocks)) = (self.seed(sector), self.blocks(capacity)) {
            if self.pattern.parameters.blocks == Some(0) {
                return Err(WorkloadError::Zero { what: "blocks" });
            }
            if blocks == 0 {
                let needed = u128::from(size) + u128::from(self.offset.max(ROOM));
                return Err(WorkloadError::DoesNotFit { first: self.start, needed, capacity });
            }
            // Within the capacity, because there is at least one block.
            let first = self.start + self.offset;
            return Ok(Places::Random { generator: GlibcRandom::new(seed), blocks, size, first });
        }
        let (first, stride) = (self.start.saturating_add(self.offset), self.stride());
        let left = capacity.saturating_sub(first).checked_sub(size).map_or(0, |rest| rest / stride + 1);
        let wanted = count.unwrap_or(1);
        if left < wanted {
            let needed = u128::from(wanted - 1) * u128::from(stride) + u128::from(size);
            return Err(WorkloadError::DoesNotFit { first, needed, capacity });
        }
        Ok(Places::Sequential { next: first, stride, left })
    }

    fn check(&self, sector: u64) -> Result<(), WorkloadError> {
        let Self { size, start, offset, queue_depth, .. } = *self;
        let stride = self.stride();
        let (depth, count) = (u64::from(queue_depth), self.count.unwrap_or(1));
        let zeros = [("size", size), ("stride", stride), ("queue depth", depth), ("count", count)];
        if let Some((what, _)) = zeros.into_iter().find(|(_, value)| *value == 0) {
            return Err(WorkloadError::Zero { what });
        }
        let sizes = [("size", size), ("stride", stride), ("start", start), ("offset", offset)];
        match sizes.into_iter().find(|(_, bytes)| !bytes.is_multiple_of(sector)) {
            Some((what, bytes)) => Err(WorkloadError::NotWholeSectors { what, bytes, sector }),
            None => Ok(()),
        }
    }
}
