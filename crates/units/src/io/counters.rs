//! Counts of requests, and of everything that happens inside a drive.

use schemars::JsonSchema;
use serde::Serialize;

use crate::io::{Nanos, Operation};

/// Counters from inside a drive, since power-on or during a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Counters {
    /// Read commands completed.
    pub host_reads: u64,
    /// Write commands completed, including those with FUA.
    pub host_writes: u64,
    /// Flush commands completed.
    pub host_flushes: u64,
    /// Discard commands completed.
    pub host_discards: u64,
    /// Bytes read by the host.
    pub host_read_bytes: u64,
    /// Bytes written by the host.
    pub host_write_bytes: u64,
    /// Bytes read from platters or flash, including read-ahead and `rmw_read_bytes`.
    pub media_read_bytes: u64,
    /// Bytes written to platters or flash.
    pub media_write_bytes: u64,
    /// Physical sectors (or indirection units) that had to be read because they were only partly written.
    pub rmw_reads: u64,
    /// Bytes read in `rmw_reads`; they are included in `media_read_bytes`.
    pub rmw_read_bytes: u64,
    /// Reads answered from the cache or from a read-ahead in progress.
    pub cache_hits: u64,
    /// Writes that found data for the same addresses in the buffer, and extended or replaced it.
    pub merged_writes: u64,
    /// Writes from the buffer to the medium.
    pub destages: u64,
    /// Arm movements other than to the adjacent track.
    pub seeks: u64,
    /// Nanoseconds spent on the movements counted in `seeks`.
    #[serde(rename = "seek_ns")]
    pub seek_time: u64,
    /// Nanoseconds spent waiting for a sector to rotate under the head.
    #[serde(rename = "rotation_wait_ns")]
    pub rotation_wait: u64,
    /// Nanoseconds per revolution; zero if nothing rotates.
    #[serde(rename = "revolution_ns")]
    pub revolution: u64,
    /// Bytes written to flash to store the host's data, in whole indirection units.
    pub unit_write_bytes: u64,
    /// Bytes moved by garbage collection.
    pub gc_write_bytes: u64,
    /// Flash blocks erased.
    pub erases: u64,
}

impl Counters {
    /// Revolutions spent waiting for a sector; zero if nothing rotates.
    pub fn revolutions_waited(&self) -> f64 {
        if self.revolution == 0 { 0.0 } else { ratio(self.rotation_wait, self.revolution) }
    }

    /// The time spent in seeks.
    pub const fn seek_time(&self) -> Nanos {
        Nanos::new(self.seek_time)
    }

    /// Bytes written to the medium per byte the host wrote; `None` before the first write.
    pub fn write_amplification(&self) -> Option<f64> {
        (self.host_write_bytes > 0).then(|| ratio(self.media_write_bytes, self.host_write_bytes))
    }

    /// How many times as many bytes were programmed as the host's writes need, because of garbage collection.
    pub fn gc_amplification(&self) -> Option<f64> {
        let written = self.unit_write_bytes + self.gc_write_bytes;
        (self.unit_write_bytes > 0).then(|| ratio(written, self.unit_write_bytes))
    }

    /// What was counted since `before` was read. `revolution` is not a total and stays as it is.
    #[must_use]
    pub fn since(&self, before: &Self) -> Self {
        self.each(before, |after, before| after - before)
    }

    /// The sums of two periods. `revolution` is not a total and stays as it is.
    #[must_use]
    pub fn plus(&self, other: &Self) -> Self {
        self.each(other, |one, other| one + other)
    }

    fn each(&self, other: &Self, of: impl Fn(u64, u64) -> u64) -> Self {
        Self {
            host_reads: of(self.host_reads, other.host_reads),
            host_writes: of(self.host_writes, other.host_writes),
            host_flushes: of(self.host_flushes, other.host_flushes),
            host_discards: of(self.host_discards, other.host_discards),
            host_read_bytes: of(self.host_read_bytes, other.host_read_bytes),
            host_write_bytes: of(self.host_write_bytes, other.host_write_bytes),
            media_read_bytes: of(self.media_read_bytes, other.media_read_bytes),
            media_write_bytes: of(self.media_write_bytes, other.media_write_bytes),
            rmw_reads: of(self.rmw_reads, other.rmw_reads),
            rmw_read_bytes: of(self.rmw_read_bytes, other.rmw_read_bytes),
            cache_hits: of(self.cache_hits, other.cache_hits),
            merged_writes: of(self.merged_writes, other.merged_writes),
            destages: of(self.destages, other.destages),
            seeks: of(self.seeks, other.seeks),
            seek_time: of(self.seek_time, other.seek_time),
            rotation_wait: of(self.rotation_wait, other.rotation_wait),
            revolution: self.revolution,
            unit_write_bytes: of(self.unit_write_bytes, other.unit_write_bytes),
            gc_write_bytes: of(self.gc_write_bytes, other.gc_write_bytes),
            erases: of(self.erases, other.erases),
        }
    }
}

/// Requests by kind, with their bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Requests {
    /// The number of reads.
    pub reads: u64,
    /// Bytes read.
    pub read_bytes: u64,
    /// The number of writes, including writes of zeroes.
    pub writes: u64,
    /// Bytes written.
    pub write_bytes: u64,
    /// The number of flushes.
    pub flushes: u64,
    /// The number of discards.
    pub discards: u64,
}

impl Requests {
    /// Counts one more.
    pub const fn add(&mut self, operation: Operation, bytes: u64) {
        match operation {
            Operation::Read => (self.reads, self.read_bytes) = (self.reads + 1, self.read_bytes + bytes),
            Operation::Write | Operation::WriteFua => {
                (self.writes, self.write_bytes) = (self.writes + 1, self.write_bytes + bytes);
            }
            Operation::Flush => self.flushes += 1,
            Operation::Discard => self.discards += 1,
        }
    }

    /// The number of all.
    pub const fn count(&self) -> u64 {
        self.reads + self.writes + self.flushes + self.discards
    }
}

#[allow(clippy::cast_precision_loss, reason = "a figure to print")]
fn ratio(numerator: u64, denominator: u64) -> f64 {
    numerator as f64 / denominator as f64
}
