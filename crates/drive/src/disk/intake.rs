//! The way of writes into the buffer: in the order of the link, each when its data have crossed it and there is room.
//!
//! Where the host waits for the medium, or where it is known of each sector when it comes, a write enters before its data,
//! so that the heads can move meanwhile; the mechanism then waits for the data.

use std::collections::VecDeque;

use straddle_io::{Nanos, RequestId, Time};

/// A write on its way, in bytes as the platters count them.
#[derive(Clone, Copy, Debug)]
pub(super) struct Write {
    pub(super) id: RequestId,
    pub(super) start: u64,
    pub(super) end: u64,
    /// When its data are here.
    pub(super) arrived: Time,
    /// The buffer takes it no earlier.
    pub(super) enters: Time,
    /// Whether the host waits for the medium.
    pub(super) durable: bool,
    /// From the end of it all to the host's knowing.
    pub(super) status: Nanos,
}

#[derive(Clone, Debug)]
pub(super) struct Intake {
    /// Writes that are not in the buffer yet.
    waiting: VecDeque<Write>,
    /// When the first of them can enter; never if it waits for room.
    entry: Time,
    /// When the data of the last write that was let in were here.
    arrived: Time,
    /// Writes in the buffer whose host waits for the medium.
    pub(super) through: Vec<Write>,
}

impl Intake {
    pub(super) fn new() -> Self {
        let (waiting, through) = (VecDeque::new(), Vec::new());
        Self { waiting, entry: Time::NEVER, arrived: Time::ZERO, through }
    }

    pub(super) fn push(&mut self, write: Write) {
        self.waiting.push_back(write);
    }

    /// The first of the writes if it can enter now, should there be room.
    pub(super) fn first(&mut self, now: Time) -> Option<Write> {
        self.entry = Time::NEVER;
        let write = *self.waiting.front()?;
        if write.enters > now {
            self.entry = write.enters;
            return None;
        }
        Some(write)
    }

    /// The first of the writes enters the buffer. Gives when all of its data are here.
    pub(super) fn enter(&mut self, now: Time) -> Time {
        if let Some(write) = self.waiting.pop_front() {
            self.arrived = write.arrived.max(now);
            if write.durable {
                self.through.push(write);
            }
        }
        self.arrived
    }

    /// When the next write can enter; never if none can before there is room.
    pub(super) const fn entry(&self) -> Time {
        self.entry
    }

    /// When the data of the last write that was let in were here.
    pub(super) const fn arrived(&self) -> Time {
        self.arrived
    }

    /// The writes that are not in the buffer yet.
    pub(super) const fn waiting(&self) -> &VecDeque<Write> {
        &self.waiting
    }

    /// Whether the data of a write are here and the buffer has no room for them.
    pub(super) fn waits_for_room(&self) -> bool {
        !self.waiting.is_empty() && self.entry == Time::NEVER
    }

    /// The write that has waited for room since before `time`.
    pub(super) fn waits_since(&self, time: Time) -> bool {
        self.waiting.front().is_some_and(|write| write.arrived < time)
    }

    /// Whether the data of every write whose host waits for the medium are here.
    pub(super) fn has_arrived(&self, now: Time) -> bool {
        self.through.iter().all(|write| write.arrived <= now)
    }

    /// When they are.
    pub(super) fn all_arrived(&self) -> Time {
        self.through.iter().map(|write| write.arrived).max().unwrap_or(Time::ZERO)
    }
}
