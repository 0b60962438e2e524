//! The link between host and drive: when a command's data and its status cross it.
//!
//! Without measured [`CommandTimes`] the interface's fixed overheads apply.

use straddle_units::io::{Nanos, RequestId, Time};

use crate::disk::Read;
use crate::disk::firmware::{CommandTimes, Disconnects};
use crate::disk::intake::Write;
use crate::disk::mechanism::Mechanism;
use crate::interface::{Interface, transfer_time};

/// Sectors that become ready to send: the first at `from`, then one every `each`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Piece {
    pub(super) from: Time,
    pub(super) each: Nanos,
    pub(super) count: u64,
}

/// The arrival of a write's data: sector `first + i` has arrived at `from` plus `i + 1` times `each`.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Supply {
    pub(super) first: u64,
    pub(super) end: u64,
    pub(super) from: Time,
    pub(super) each: Nanos,
    /// Sectors that must have arrived before any is written, unless there are fewer in all.
    pub(super) least: u64,
}

impl Supply {
    /// When `sector` may be written; at any time if it is not part of this write.
    pub(super) fn ready(&self, sector: u64) -> Time {
        if !(self.first..self.end).contains(&sector) {
            return Time::ZERO;
        }
        let here = (sector + 1 - self.first).max(self.least.min(self.end - self.first));
        self.from + Nanos::new(self.each.get() * here)
    }
}

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Coming {
    pub(super) moves: Time,
    pub(super) lands: Time,
    pub(super) supply: Option<Supply>,
}

#[derive(Clone, Copy, Debug)]
struct WriteTerms {
    data: Time,
    moves: Time,
    /// From the last byte until the link is free.
    freed: Nanos,
    /// From then, or from the last sector on the medium, until the host receives the completion.
    status: Nanos,
}

#[derive(Clone, Debug)]
pub(super) struct Link {
    interface: Interface,
    times: Option<CommandTimes>,
    /// Whether writes complete before they are on the medium; the link is then kept during a write.
    writes_behind: bool,
    shift: u32,
    free: Time,
    /// Whether the last command was a write; `written_until` is where the last write ended.
    after_write: bool,
    written_until: u64,
    pub(super) coming: Coming,
}

impl Link {
    pub(super) fn new(
        interface: Interface,
        times: Option<CommandTimes>,
        writes_behind: bool,
        shift: u32,
    ) -> Self {
        Self {
            interface,
            times,
            writes_behind,
            shift,
            free: Time::ZERO,
            after_write: false,
            written_until: 0,
            coming: Coming::default(),
        }
    }

    pub(super) const fn is_measured(&self) -> bool {
        self.times.is_some()
    }

    pub(super) fn bare_completion(&self, now: Time) -> Time {
        now + self.interface.write_overhead + self.interface.completion_overhead
    }

    /// When the data of a read can come from the cache, and otherwise when the heads can move.
    pub(super) fn read_terms(&self, now: Time) -> (Time, Time) {
        match &self.times {
            None => (now + self.interface.read_overhead, now + self.interface.read_overhead),
            Some(times) => {
                let hit = times.read_hit.after(self.after_write) + times.data;
                (now + hit, now + times.read_miss.after(self.after_write))
            }
        }
    }

    /// Records that the last command is a read; returns whether the one before was a write.
    pub(super) const fn note_read(&mut self) -> bool {
        std::mem::replace(&mut self.after_write, false)
    }

    fn read_completion(&self) -> Nanos {
        self.times.map_or(self.interface.completion_overhead, |times| times.read_completion)
    }

    fn write_terms(&self, now: Time, start: u64, durable: bool) -> WriteTerms {
        let Some(times) = &self.times else {
            let data = now + self.interface.write_overhead;
            let status = self.interface.completion_overhead;
            return WriteTerms { data, moves: now, freed: Nanos::ZERO, status };
        };
        let status = times.write_completion;
        let command = now + times.write.after(self.after_write);
        let plain = WriteTerms { data: command + times.data, moves: command, freed: Nanos::ZERO, status };
        let Some(disconnects) = times.disconnects.filter(|_| durable || !self.writes_behind) else {
            return plain;
        };
        match disconnects.twice.filter(|_| self.after_write && start != self.written_until) {
            None => WriteTerms { freed: disconnects.write, status: disconnects.reselect + status, ..plain },
            Some(twice) => {
                let command = now + twice.command;
                WriteTerms {
                    data: command + twice.first + twice.pause + disconnects.reselect + times.data,
                    moves: command + twice.travel,
                    freed: twice.second,
                    status: twice.reselect + status,
                }
            }
        }
    }

    pub(super) fn receive(&mut self, now: Time, id: RequestId, start: u64, end: u64, durable: bool) -> Write {
        let terms = self.write_terms(now, start, durable);
        let sent = terms.data.max(self.free);
        let arrived = sent + self.write_transfer(end - start);
        self.free = arrived;
        self.coming.moves = terms.moves;
        if let Some(times) = &self.times {
            self.coming.lands = terms.moves + times.write_travel;
            let each = self.write_transfer(1 << self.shift);
            let (first, end) = (start >> self.shift, ((end - 1) >> self.shift) + 1);
            let least = u64::from(times.write_begins_with);
            self.coming.supply = Some(Supply { first, end, from: sent, each, least });
        }
        (self.after_write, self.written_until) = (true, end);
        let arrived = arrived + terms.freed;
        // For such writes the heads may move while the data arrives; the mechanism waits for the data.
        let early = durable || self.is_measured();
        let enters = if early { now } else { arrived };
        Write { id, start, end, arrived, enters, durable, regular: false, status: terms.status }
    }

    /// How much later than expected the data of the last write comes, which had to wait for room until now.
    pub(super) fn held_back(&mut self, now: Time) -> Nanos {
        let Some(supply) = &mut self.coming.supply else { return Nanos::ZERO };
        let late = now.since(supply.from);
        supply.from += late;
        self.free += late;
        late
    }

    fn write_transfer(&self, bytes: u64) -> Nanos {
        match &self.times {
            None => self.interface.transfer(bytes),
            Some(times) => transfer_time(bytes, times.write_nanos_per_mib),
        }
    }

    /// Sends cached data of a read, from `ready` on; returns when the host receives the completion.
    pub(super) fn send(&mut self, ready: Time, bytes: u64) -> Time {
        self.free = ready.max(self.free) + self.interface.transfer(bytes);
        self.free + self.read_completion()
    }

    /// Sends a read that needed the medium, whose last sector passed under the heads at `end`; the first `cached`
    /// sectors were in the cache. Returns when the host receives the completion.
    pub(super) fn send_passed(&mut self, read: &Read, cached: u64, end: Time, mechanism: &Mechanism) -> Time {
        self.free = match &self.times {
            Some(times) => self.measured_sent(times, read, cached, end, mechanism),
            None => {
                let last = self.interface.transfer(read.bytes.min(1 << self.shift));
                let began = mechanism.began.max(self.free).max(read.ready);
                (end + last).max(began + self.interface.transfer(read.bytes))
            }
        };
        self.free + self.read_completion()
    }

    fn measured_sent(
        &self,
        times: &CommandTimes,
        read: &Read,
        cached: u64,
        end: Time,
        mechanism: &Mechanism,
    ) -> Time {
        let each = self.interface.transfer(1 << self.shift);
        let pieces = &mechanism.pieces;
        let held_back = |disconnects: Disconnects| {
            !disconnects.sends_any_hit && cached < disconnects.wanted(read.end - read.first)
        };
        let mut sent = if cached > 0 && !times.disconnects.is_some_and(held_back) {
            read.hit + Nanos::new(each.get() * cached)
        } else {
            let held = read.arrived + times.read_miss.after(read.after_write);
            let sent = match &times.disconnects {
                None => held + times.data,
                Some(disconnects) => {
                    let freed = held + disconnects.read.after(read.after_write);
                    freed.max(marked(disconnects, read, cached, pieces)) + disconnects.reselect + times.data
                }
            };
            sent + Nanos::new(each.get() * cached)
        };
        sent = sent.max(self.free);
        for piece in pieces {
            // Sectors arrive at one steady rate and leave at another: the slower of the two decides.
            let (count, between) = (piece.count, piece.count.saturating_sub(1));
            let as_they_come = piece.from + Nanos::new(piece.each.get() * between) + each;
            let at_once = sent.max(piece.from) + Nanos::new(each.get() * count);
            sent = at_once.max(as_they_come);
        }
        sent.max(end)
    }
}

fn marked(disconnects: &Disconnects, read: &Read, cached: u64, pieces: &[Piece]) -> Time {
    let mut wanted = disconnects.wanted(read.end - read.first).saturating_sub(cached).max(1);
    for piece in pieces {
        if wanted <= piece.count {
            return piece.from + Nanos::new(piece.each.get() * (wanted - 1));
        }
        wanted -= piece.count;
    }
    pieces.last().map_or(Time::ZERO, |piece| piece.from)
}
