//! Numbers of requests.

use schemars::JsonSchema;
use serde::Serialize;

use crate::io::request::Operation;

/// Requests by kind, with their bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Requests {
    /// Reads.
    pub reads: u64,
    /// Bytes read.
    pub read_bytes: u64,
    /// Writes, including those of zeroes.
    pub writes: u64,
    /// Bytes written.
    pub write_bytes: u64,
    /// Flushes.
    pub flushes: u64,
    /// Discards.
    pub discards: u64,
}

impl Requests {
    /// Counts one more.
    pub const fn add(&mut self, operation: Operation, bytes: u64) {
        match operation {
            Operation::Read => {
                self.reads += 1;
                self.read_bytes += bytes;
            }
            Operation::Write | Operation::WriteFua => {
                self.writes += 1;
                self.write_bytes += bytes;
            }
            Operation::Flush => self.flushes += 1,
            Operation::Discard => self.discards += 1,
        }
    }

    /// Returns the number of all.
    pub const fn count(&self) -> u64 {
        self.reads + self.writes + self.flushes + self.discards
    }
}
