//! The command queue: commands taken, commands held back, and completions on their way.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use straddle_units::io::{Completion, Request, RequestId, Time};

#[derive(Clone, Debug, Default)]
pub(super) struct Queue {
    depth: u32,
    /// When the host last submitted a request or received a completion.
    pub(super) active: Time,
    /// Commands not yet taken: the queue is full, or a flush is in progress.
    held: VecDeque<Request>,
    taken: u32,
    flush: Option<Flush>,
    done: BinaryHeap<Reverse<(Time, u64, RequestId)>>,
    completions: u64,
}

#[derive(Clone, Copy, Debug)]
struct Flush {
    id: RequestId,
    over: bool,
}

impl Queue {
    pub(super) fn new(depth: u32) -> Self {
        Self { depth, ..Self::default() }
    }

    /// Accepts a request at `at`; returns it if the drive takes it now, `None` if it is held back.
    pub(super) fn submit(&mut self, at: Time, request: Request) -> Option<Request> {
        self.active = at;
        if self.flush.is_some() || !self.held.is_empty() || self.taken >= self.depth {
            self.held.push_back(request);
            return None;
        }
        self.taken += 1;
        Some(request)
    }

    pub(super) fn take_held(&mut self) -> Option<Request> {
        if self.flush.is_some() || self.taken >= self.depth {
            return None;
        }
        let request = self.held.pop_front()?;
        self.taken += 1;
        Some(request)
    }

    pub(super) fn outstanding(&self) -> usize {
        self.taken as usize + self.held.len()
    }

    pub(super) fn next(&self) -> Time {
        self.done.peek().map_or(Time::NEVER, |Reverse((at, _, _))| *at)
    }

    pub(super) fn complete(&mut self, id: RequestId, at: Time) {
        self.completions += 1;
        self.done.push(Reverse((at, self.completions, id)));
    }

    /// Removes the next completion; the flag tells whether it was that of a flush.
    pub(super) fn pop(&mut self) -> Option<(Completion, bool)> {
        let Reverse((at, _, id)) = self.done.pop()?;
        self.taken -= 1;
        self.active = self.active.max(at);
        let flushed = self.flush.is_some_and(|flush| flush.over && flush.id == id);
        if flushed {
            self.flush = None;
        }
        Some((Completion { id, at }, flushed))
    }

    pub(super) fn begin_flush(&mut self, id: RequestId) {
        self.flush = Some(Flush { id, over: false });
    }

    pub(super) fn end_flush(&mut self) -> Option<RequestId> {
        let flush = self.flush.as_mut()?;
        flush.over = true;
        Some(flush.id)
    }

    pub(super) const fn has_flush(&self) -> bool {
        self.flush.is_some()
    }

    /// Whether a flush is in progress and every command before it has completed.
    pub(super) fn flushing(&self) -> bool {
        self.taken == 1 && self.flush.is_some_and(|flush| !flush.over)
    }
}
