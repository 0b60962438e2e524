//! The events to come, in order of time.
//!
//! Nearly every kind of event takes a constant time, so events of one kind happen in the order in which they were
//! set, and each kind has a sorted lane. Events at the same moment are processed in the order of [`Lane`], which
//! makes a run repeatable.

use std::collections::VecDeque;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lane {
    Completion,
    Program,
    Erase,
    /// A channel has transferred a page, or a part of one.
    Channel,
    Sense,
    /// A piece of a write has crossed the link.
    Link,
    /// The controller has decoded a write, a flush or a discard.
    WriteReady,
    ReadReady,
    /// The oldest data in the buffer may be due for writing back.
    Age,
}

const LANES: [Lane; 9] = [
    Lane::Completion,
    Lane::Program,
    Lane::Erase,
    Lane::Channel,
    Lane::Sense,
    Lane::Link,
    Lane::WriteReady,
    Lane::ReadReady,
    Lane::Age,
];

/// Bits for the lane below the time, so that one comparison orders both.
const LANE_BITS: u32 = 4;
/// The last representable moment, 36 years after power-on; events after it never happen.
const LATEST: u64 = (u64::MAX >> LANE_BITS) - 1;
const EMPTY: u64 = u64::MAX;

/// Each event has a time and the number of a command, a die or a channel, depending on the lane.
#[derive(Clone, Debug)]
pub(super) struct Agenda {
    lanes: [VecDeque<(u64, u32)>; LANES.len()],
    /// The key of each lane's first event: its time, with the lane in the low bits.
    heads: [u64; LANES.len()],
    next: u64,
}

impl Agenda {
    pub(super) fn new() -> Self {
        Self { lanes: Default::default(), heads: [EMPTY; LANES.len()], next: EMPTY }
    }

    pub(super) fn push(&mut self, lane: Lane, at: u64, value: u32) {
        if at > LATEST {
            return;
        }
        let events = &mut self.lanes[lane as usize];
        match events.back() {
            Some(last) if last.0 <= at => {
                events.push_back((at, value));
                return;
            }
            Some(_) => {
                let place = events.partition_point(|event| event.0 <= at);
                events.insert(place, (at, value));
                if place > 0 {
                    return;
                }
            }
            None => events.push_back((at, value)),
        }
        let key = key(lane, at);
        self.heads[lane as usize] = key;
        self.next = self.next.min(key);
    }

    pub(super) fn next(&self) -> Option<(u64, Lane)> {
        let lane = LANES.get((self.next & ((1 << LANE_BITS) - 1)) as usize)?;
        Some((self.next >> LANE_BITS, *lane))
    }

    pub(super) fn pop(&mut self, lane: Lane) -> Option<u32> {
        let events = &mut self.lanes[lane as usize];
        let event = events.pop_front();
        self.heads[lane as usize] = events.front().map_or(EMPTY, |next| key(lane, next.0));
        self.find_next();
        event.map(|event| event.1)
    }

    pub(super) fn clear(&mut self, lane: Lane) {
        self.lanes[lane as usize].clear();
        self.heads[lane as usize] = EMPTY;
        self.find_next();
    }

    fn find_next(&mut self) {
        self.next = self.heads.iter().fold(EMPTY, |least, &head| least.min(head));
    }
}

const fn key(lane: Lane, at: u64) -> u64 {
    (at << LANE_BITS) | lane as u64
}
