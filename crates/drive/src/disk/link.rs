//! The link between host and drive: when a command's data and its status go over it.
//!
//! Without measured [`CommandTimes`] these are the flat overheads of the interface.

use crate::disk::firmware::{CommandTimes, Disconnects};
use crate::disk::{Disk, Read, Write};
use crate::profile::transfer_time;
use crate::request::RequestId;
use crate::time::{Nanos, Time};

/// Data that become ready to be sent while others are: `count` sectors, the first at `from`, then one every `each`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Piece {
    pub(super) from: Time,
    pub(super) each: Nanos,
    pub(super) count: u64,
}

/// The data of a write as they come in: sector `first + i` is here at `from` and `i + 1` times `each`.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Supply {
    pub(super) first: u64,
    pub(super) end: u64,
    pub(super) from: Time,
    pub(super) each: Nanos,
    /// None is written before so many are here, or all.
    pub(super) least: u64,
}

impl Supply {
    /// When `sector` may be written; at any time if it is none of these.
    pub(super) fn ready(&self, sector: u64) -> Time {
        if !(self.first..self.end).contains(&sector) {
            return Time::ZERO;
        }
        let here = (sector + 1 - self.first).max(self.least.min(self.end - self.first));
        self.from + Nanos::new(self.each.get() * here)
    }
}

/// When a write's data come and what the drive needs after the last of it.
#[derive(Clone, Copy, Debug)]
pub(super) struct WriteTerms {
    /// The first byte can go over the link.
    data: Time,
    /// The heads can move.
    moves: Time,
    /// From the last byte to the free link.
    freed: Nanos,
    /// From then, or from the last sector on the medium, to the host's knowing.
    status: Nanos,
}

impl Disk {
    /// When a read that arrives now has its data from the cache, and when the heads can move for it otherwise.
    pub(super) fn read_terms(&self) -> (Time, Time) {
        match &self.firmware.times {
            None => (self.now + self.interface.read_overhead, self.now + self.interface.read_overhead),
            Some(times) => {
                let hit = times.read_hit.after(self.after_write) + times.data;
                (self.now + hit, self.now + times.read_miss.after(self.after_write))
            }
        }
    }

    pub(super) fn read_completion(&self) -> Nanos {
        self.firmware.times.map_or(self.interface.completion_overhead, |times| times.read_completion)
    }

    fn write_terms(&self, start: u64) -> WriteTerms {
        let Some(times) = &self.firmware.times else {
            let data = self.now + self.interface.write_overhead;
            return WriteTerms {
                data,
                moves: self.now,
                freed: Nanos::ZERO,
                status: self.interface.completion_overhead,
            };
        };
        let status = times.write_completion;
        let command = self.now + times.write.after(self.after_write);
        let plain = WriteTerms { data: command + times.data, moves: command, freed: Nanos::ZERO, status };
        let Some(disconnects) = times.disconnects.filter(|_| !self.write_cache.enabled) else { return plain };
        match disconnects.twice.filter(|_| self.after_write && start != self.written_until) {
            None => WriteTerms { freed: disconnects.write, status: disconnects.reselect + status, ..plain },
            Some(twice) => {
                let command = self.now + twice.command;
                WriteTerms {
                    data: command + twice.first + twice.pause + disconnects.reselect + times.data,
                    moves: command + twice.travel,
                    freed: twice.second,
                    status: twice.reselect + status,
                }
            }
        }
    }

    /// A write from `start` to `end` that arrives now: when its data are here, and what follows.
    pub(super) fn receive(&mut self, id: RequestId, start: u64, end: u64, durable: bool) -> Write {
        let terms = self.write_terms(start);
        let sent = terms.data.max(self.link_free);
        let arrived = sent + self.write_transfer(end - start);
        self.link_free = arrived;
        self.write_moves = terms.moves;
        if let Some(times) = &self.firmware.times {
            self.write_lands = terms.moves + times.write_travel;
            let each = self.write_transfer(1 << self.shift);
            let (first, end) = (start >> self.shift, ((end - 1) >> self.shift) + 1);
            self.supply =
                Some(Supply { first, end, from: sent, each, least: u64::from(times.write_begins_with) });
        }
        self.written_until = end;
        let arrived = arrived + terms.freed;
        // The heads may move for these while the data come: the mechanism waits for them.
        let early = durable || self.firmware.times.is_some();
        let enters = if early { self.now } else { arrived };
        Write { id, start, end, arrived, enters, durable, status: terms.status }
    }

    /// How long a write's bytes take on the link.
    pub(super) fn write_transfer(&self, bytes: u64) -> Nanos {
        match &self.firmware.times {
            None => self.interface.transfer(bytes),
            Some(times) => transfer_time(bytes, times.write_nanos_per_mib),
        }
    }

    /// When the last byte of a read is with the host. The medium has passed the last sector at `end`; the first `cached`
    /// sectors were there before.
    pub(super) fn read_sent(&self, read: &Read, cached: u64, end: Time) -> Time {
        match &self.firmware.times {
            Some(times) => self.measured_sent(times, read, cached, end),
            None => {
                let last = self.interface.transfer(read.bytes.min(1 << self.shift));
                let began = self.mechanism.began().max(self.link_free).max(read.ready);
                (end + last).max(began + self.interface.transfer(read.bytes))
            }
        }
    }

    fn measured_sent(&self, times: &CommandTimes, read: &Read, cached: u64, end: Time) -> Time {
        let each = self.interface.transfer(1 << self.shift);
        let pieces = self.mechanism.pieces();
        let mut sent = if cached > 0 {
            read.hit + Nanos::new(each.get() * cached)
        } else {
            let held = read.arrived + times.read_miss.after(read.after_write);
            match &times.disconnects {
                None => held + times.data,
                Some(disconnects) => {
                    let freed = held + disconnects.read.after(read.after_write);
                    freed.max(marked(disconnects, read, pieces)) + disconnects.reselect + times.data
                }
            }
        };
        sent = sent.max(self.link_free);
        for piece in pieces {
            // Sectors that come in at a steady rate and go out at another: the slower of the two decides.
            let (count, between) = (piece.count, piece.count.saturating_sub(1));
            let as_they_come = piece.from + Nanos::new(piece.each.get() * between) + each;
            let at_once = sent.max(piece.from) + Nanos::new(each.get() * count);
            sent = at_once.max(as_they_come);
        }
        sent.max(end)
    }
}

/// When so much of the read is in the buffer that the drive takes the link for it.
fn marked(disconnects: &Disconnects, read: &Read, pieces: &[Piece]) -> Time {
    let sectors = (read.end - read.first) * u64::from(disconnects.read_mark) / 1000;
    let mut wanted = sectors.max(1);
    for piece in pieces {
        if wanted <= piece.count {
            return piece.from + Nanos::new(piece.each.get() * (wanted - 1));
        }
        wanted -= piece.count;
    }
    pieces.last().map_or(Time::ZERO, |piece| piece.from)
}
