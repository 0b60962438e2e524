//! The path of writes into the buffer, in link order.
//!
//! A write enters before its data if the host waits for the medium, or if the arrival time of each sector is known:
//! the heads move meanwhile, and the mechanism waits for the data.

use std::collections::VecDeque;

use straddle_units::io::{Nanos, RequestId, Time};

/// A write on its way into the buffer, in bytes as the platters count them.
#[derive(Clone, Copy, Debug)]
pub(super) struct Write {
    pub(super) id: RequestId,
    pub(super) start: u64,
    pub(super) end: u64,
    pub(super) arrived: Time,
    pub(super) enters: Time,
    /// Whether the host waits for the medium.
    pub(super) durable: bool,
    pub(super) regular: bool,
    /// From the end of the write until the host receives the completion.
    pub(super) status: Nanos,
}

#[derive(Clone, Debug)]
pub(super) struct Intake {
    pub(super) waiting: VecDeque<Write>,
    /// When the first of them can enter; [`Time::NEVER`] if it waits for room.
    pub(super) entry: Time,
    pub(super) arrived: Time,
    /// Writes in the buffer for which the host waits for the medium.
    pub(super) through: Vec<Write>,
    pub(super) intervals: Intervals,
}

impl Intake {
    pub(super) fn new() -> Self {
        let (waiting, through) = (VecDeque::new(), Vec::new());
        Self { waiting, entry: Time::NEVER, arrived: Time::ZERO, through, intervals: Intervals::default() }
    }

    /// The first waiting write, if its time to enter has come; the caller checks for room.
    pub(super) fn first(&mut self, now: Time) -> Option<Write> {
        self.entry = Time::NEVER;
        let write = *self.waiting.front()?;
        if write.enters > now {
            self.entry = write.enters;
            return None;
        }
        Some(write)
    }

    /// Returns when all of the first write's data has arrived, `late` later than expected.
    pub(super) fn enter(&mut self, now: Time, late: Nanos) -> Time {
        if let Some(mut write) = self.waiting.pop_front() {
            write.arrived += late;
            self.arrived = write.arrived.max(now);
            if write.durable {
                self.through.push(write);
            }
        }
        self.arrived
    }

    pub(super) fn waits_for_room(&self) -> bool {
        !self.waiting.is_empty() && self.entry == Time::NEVER
    }

    pub(super) fn waits_since(&self, time: Time) -> bool {
        self.waiting.front().is_some_and(|write| write.arrived < time)
    }

    /// Whether all data has arrived of the writes for which the host waits for the medium.
    pub(super) fn has_arrived(&self, now: Time) -> bool {
        self.through.iter().all(|write| write.arrived <= now)
    }

    pub(super) fn all_arrived(&self) -> Time {
        self.through.iter().map(|write| write.arrived).max().unwrap_or(Time::ZERO)
    }
}

/// What the firmware remembers of the writes so far, in bytes as the platters count them.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Intervals {
    start: u64,
    end: u64,
    /// How far from the one before it began.
    step: u64,
}

impl Intervals {
    /// Returns whether the write is at least the third of a series at equal distances of at most `most` bytes, with
    /// gaps between them: writes without gaps are a stream, which completes its sectors.
    pub(super) fn note(&mut self, start: u64, end: u64, most: u64) -> bool {
        let step = start.wrapping_sub(self.start);
        let regular = step == self.step && step <= most && start > self.end;
        *self = Self { start, end, step };
        regular
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether each write of `length` bytes at these offsets is regular.
    fn regular(starts: &[u64], length: u64) -> Vec<bool> {
        let mut intervals = Intervals::default();
        starts.iter().map(|start| intervals.note(*start, start + length, 100)).collect()
    }

    #[test]
    fn the_third_write_shows_the_interval() {
        assert_eq!(
            regular(&[1000, 1016, 1032, 1048, 1065, 1081], 4),
            [false, false, true, true, false, false]
        );
    }

    #[test]
    fn streams_overwrites_and_distant_writes_are_not_regular() {
        assert_eq!(regular(&[1000, 1004, 1008, 1012], 4), [false; 4]);
        assert_eq!(regular(&[1000, 1000, 1000, 1000], 4), [false; 4]);
        assert_eq!(regular(&[1048, 1032, 1016, 1000], 4), [false; 4]);
        assert_eq!(regular(&[1000, 1101, 1202, 1303], 4), [false; 4]);
        assert_eq!(regular(&[1000, 1100, 1200, 1300], 4), [false, false, true, true]);
    }
}
