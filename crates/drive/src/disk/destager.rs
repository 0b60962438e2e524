//! Emptying the write buffer: its parameters, the write in progress, and when to look at the buffer again.

use straddle_units::io::Time;

use crate::disk::buffer::{Taken, WriteBuffer};
use crate::disk::parameters::{DiskParameters, Protection, RmwPolicy, WriteCacheParameters};

#[derive(Clone, Debug)]
pub(super) struct Destager {
    pub(super) cache: WriteCacheParameters,
    pub(super) rmw: RmwPolicy,
    pub(super) non_volatile: bool,
    /// The data being written, or written last.
    pub(super) in_flight: Taken,
    pub(super) wake: Time,
}

impl Destager {
    pub(super) fn new(parameters: &DiskParameters) -> Self {
        Self {
            cache: parameters.write_cache,
            rmw: parameters.rmw,
            non_volatile: parameters.protection == Protection::NonVolatile,
            in_flight: Taken::default(),
            wake: Time::NEVER,
        }
    }

    pub(super) fn is_table_full(&self, buffer: &WriteBuffer) -> bool {
        buffer.entries() * 4 >= self.cache.extents * 3
    }

    pub(super) fn is_pressed(&self, buffer: &WriteBuffer) -> bool {
        self.is_table_full(buffer) || buffer.bytes() / 3 >= self.cache.size.get() / 4
    }

    /// Whether the buffer has room; `written` if a write in progress still takes an entry.
    pub(super) fn has_room(&self, buffer: &WriteBuffer, start: u64, end: u64, written: bool) -> bool {
        if buffer.is_empty() {
            // What continues the write in progress shares its entry.
            let continues = self.in_flight.spans.last().is_some_and(|span| span.1 == start);
            return !written || self.cache.extents > 1 || continues;
        }
        let entries = buffer.entries() + usize::from(written);
        let weight = buffer.weight();
        (weight == 0 || weight + (end - start) <= self.cache.size.get())
            && (entries < self.cache.extents || !buffer.needs_entry(start, end))
    }
}
