//! Passes for which the time of each sector is tracked: for drives whose firmware was measured.

use straddle_units::io::{Counters, Nanos, Time};

use super::{Mechanism, Pass};
use crate::disk::geometry::Position;
use crate::disk::link::{Piece, Supply};

impl Mechanism {
    /// How many sectors directly before `first` passed while the heads waited for the last pass to begin.
    pub(in crate::disk) fn passed_before(&self, first: u64) -> u64 {
        let place = self.place(first);
        self.sectors_within(&place, self.waited).min(u64::from(place.sector))
    }

    /// Records when each sector arrived. With `on_arrival`, reading may begin in the middle of a track's part, which
    /// is complete when its beginning has come round.
    pub(in crate::disk) fn read_pieces(
        &mut self,
        at: Time,
        first: u64,
        count: u64,
        on_arrival: bool,
        counters: &mut Counters,
    ) -> Time {
        self.pieces.clear();
        let (mut at, mut sector, mut left) = (at, first, count);
        while left > 0 {
            let place = self.place(sector);
            let run = left.min(u64::from(place.left));
            let each = self.sectors_time(&place, 1);
            let landed = at + self.travel(at, &place, Pass::Read);
            let skipped = if on_arrival { self.skipped(landed, &place, run) } else { 0 };
            let begin = if skipped == 0 {
                let begin = self.go(at, &place, Pass::Read, counters);
                at = begin + self.sectors_time(&place, run);
                begin
            } else {
                let begin = self.go(at, &self.place(sector + skipped), Pass::Read, counters);
                at = begin + self.revolution();
                begin
            };
            let piece = Piece { from: begin + each, each, count: run };
            // Sectors that arrive out of order can only be sent once the part is complete.
            self.pieces.push(if on_arrival { Piece { from: at, each: Nanos::ZERO, ..piece } } else { piece });
            if left == count {
                self.began = begin;
            }
            left -= run;
            sector += run;
        }
        counters.media_read_bytes += count * self.physical;
        (self.next, self.ended) = (sector, at);
        at
    }

    /// How many sectors of a part have passed when the heads land in its middle; 0 if they land outside.
    fn skipped(&self, landed: Time, place: &Position, run: u64) -> u64 {
        let gone = self.revolution().saturating_sub(self.wait(landed, place));
        let skipped = self.sectors_within(place, gone) + 1;
        if gone < self.revolution() && skipped < run { skipped } else { 0 }
    }

    /// Writes each sector only when its data has arrived, and the first not before `lands`. With `on_arrival`, a
    /// track's part may be begun in its middle if all of its data has arrived.
    #[allow(clippy::too_many_arguments, reason = "the terms of one write")]
    pub(in crate::disk) fn write_supplied(
        &mut self,
        at: Time,
        lands: Time,
        on_arrival: bool,
        first: u64,
        count: u64,
        supply: &Supply,
        counters: &mut Counters,
    ) -> Time {
        let (mut at, mut sector, mut left, mut lands) = (at, first, count, lands);
        while left > 0 {
            let place = self.place(sector);
            let travel = self.travel(at, &place, Pass::Write);
            let part = left.min(u64::from(place.left));
            let landed = (at + travel).max(lands);
            if on_arrival && supply.ready(sector + part - 1) <= landed {
                let skipped = self.skipped(landed, &place, part);
                if skipped > 0 {
                    let held = landed.checked_back(travel).map_or(at, |held| at.max(held));
                    let begin = self.go(held, &self.place(sector + skipped), Pass::Write, counters);
                    self.began = if left == count { begin } else { self.began };
                    at = begin + self.revolution();
                    left -= part;
                    sector += part;
                    lands = Time::ZERO;
                    continue;
                }
            }
            // If the arm reaches the track too early, the platter must turn further.
            let held = lands.max(supply.ready(sector)).checked_back(travel);
            let begin = self.go(held.map_or(at, |held| at.max(held)), &place, Pass::Write, counters);
            let run = self.keeping_up(&place, sector, left.min(u64::from(place.left)), begin, supply);
            if left == count {
                self.began = begin;
            }
            at = begin + self.sectors_time(&place, run);
            left -= run;
            sector += run;
            lands = Time::ZERO;
        }
        counters.media_write_bytes += count * self.physical;
        (self.next, self.ended) = (sector, at);
        at
    }

    /// How many of `run` sectors can be written before the heads reach one whose data has not arrived yet.
    fn keeping_up(&self, place: &Position, sector: u64, run: u64, begin: Time, supply: &Supply) -> u64 {
        let each = self.sectors_time(place, 1);
        if sector < supply.first {
            return run.min(supply.first - sector);
        }
        if supply.each <= each || sector >= supply.end {
            return run;
        }
        let ahead = begin.since(supply.ready(sector)).get();
        run.min(ahead / (supply.each.get() - each.get()) + 1)
    }
}
