//! What is going to happen, in the order of time.
//!
//! Nearly every kind of event takes a constant time, so events of one kind come to pass in the order in which they were
//! set: each kind has a lane of its own, sorted, and the next event is the earliest head. At the same moment the lanes
//! go in the order of [`Lane`]; that is what makes a run repeatable.

use std::collections::VecDeque;

/// The kinds of events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lane {
    /// The host learns that a command is over.
    Completion,
    /// A program operation is over, on a die.
    Program,
    /// An erase operation is over, on a die.
    Erase,
    /// A channel has carried a page, or a part of it.
    Channel,
    /// A die has a page in its register.
    Sense,
    /// A piece of a write has come over the link.
    Link,
    /// The controller has understood a write, a flush or a discard.
    WriteReady,
    /// The controller has understood a read.
    ReadReady,
    /// Data has been in the buffer for so long that it is written back.
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
/// The last moment, 36 years after power-on; what would come later never comes.
const LATEST: u64 = (u64::MAX >> LANE_BITS) - 1;
/// The key of an empty lane.
const EMPTY: u64 = u64::MAX;

/// Every event to come: a time and a number, which is a command, a die or a channel, by its lane.
#[derive(Clone, Debug)]
pub(super) struct Agenda {
    lanes: [VecDeque<(u64, u32)>; LANES.len()],
    /// The time of each lane's first event, and the lane.
    heads: [u64; LANES.len()],
    /// The least of them.
    next: u64,
}

impl Agenda {
    pub(super) fn new() -> Self {
        Self { lanes: Default::default(), heads: [EMPTY; LANES.len()], next: EMPTY }
    }

    /// Sets an event. Those of the same lane and time come in the order in which they were set.
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

    /// The time and the lane of the next event.
    pub(super) fn next(&self) -> Option<(u64, Lane)> {
        let lane = LANES.get((self.next & ((1 << LANE_BITS) - 1)) as usize)?;
        Some((self.next >> LANE_BITS, *lane))
    }

    /// Takes the first event of the lane.
    pub(super) fn pop(&mut self, lane: Lane) -> Option<u32> {
        let events = &mut self.lanes[lane as usize];
        let event = events.pop_front();
        self.heads[lane as usize] = events.front().map_or(EMPTY, |next| key(lane, next.0));
        self.find_next();
        event.map(|event| event.1)
    }

    /// Forgets the events of the lane.
    pub(super) fn clear(&mut self, lane: Lane) {
        self.lanes[lane as usize].clear();
        self.heads[lane as usize] = EMPTY;
        self.find_next();
    }

    fn find_next(&mut self) {
        self.next = self.heads.iter().fold(EMPTY, |least, &head| least.min(head));
    }
}

/// The time with the lane below it.
const fn key(lane: Lane, at: u64) -> u64 {
    (at << LANE_BITS) | lane as u64
}
