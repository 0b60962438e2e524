//! The arm and the platters: where the heads are, and how long it takes to move them and pass over sectors.

mod measured;

use straddle_units::io::{Counters, Nanos, Time};

use crate::disk::geometry::{Geometry, Position};
use crate::disk::link::Piece;
use crate::disk::parameters::DiskParameters;
use crate::disk::seek::SeekCurve;
use crate::disk::spindle::{Angle, Spindle};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pass {
    Read,
    Write,
}

/// Mechanical times other than the seek curve.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HeadTimes {
    /// From one surface to another of the same cylinder.
    pub head_switch: Nanos,
    /// Extra time after any move before a write may begin, for the head to settle on the track.
    pub write_settle: Nanos,
    /// How much earlier a write may begin where the seek times include more settling than a write needs.
    pub write_lead: Nanos,
}

/// Within this angle, a sector that has just passed counts as still there: times are whole nanoseconds.
const SAME_ANGLE: u32 = 2048;

/// How long the heads stay on their track after a flush.
#[derive(Clone, Copy, Debug, Default)]
struct Stay {
    written: Time,
    until: Time,
}

#[derive(Clone, Debug)]
pub(super) struct Mechanism {
    pub(super) geometry: Geometry,
    seek: SeekCurve,
    /// Without the settling of writes.
    write_seek: SeekCurve,
    spindle: Spindle,
    heads: HeadTimes,
    /// The cylinder and the surface of the track that they are on.
    track: (u32, u32),
    /// The sector that comes next under the heads, and when the one before it had passed.
    next: u64,
    ended: Time,
    /// When the last pass began, after the seek and the rotational wait.
    pub(super) began: Time,
    waited: Nanos,
    stay: Stay,
    /// The parts in which the last pass read, each with the time at which its first sector had been read.
    pub(super) pieces: Vec<Piece>,
    physical: u64,
}

impl Mechanism {
    pub(super) fn new(parameters: &DiskParameters, physical: u64) -> Self {
        let DiskParameters { geometry, seek, write_seek, spindle, heads, .. } = parameters.clone();
        let write_seek = match write_seek {
            Some(curve) => curve.shortened(heads.write_settle),
            None => seek.clone(),
        };
        Self {
            geometry,
            seek,
            write_seek,
            spindle,
            heads,
            track: (0, 0),
            next: u64::MAX,
            ended: Time::ZERO,
            began: Time::ZERO,
            waited: Nanos::ZERO,
            stay: Stay::default(),
            pieces: Vec::new(),
            physical,
        }
    }

    pub(super) fn place(&self, sector: u64) -> Position {
        self.geometry.place(sector)
    }

    pub(super) fn revolution(&self) -> Nanos {
        self.spindle.revolution()
    }

    /// The sector that passes under the heads at `at` without a move or a wait, if one is known.
    pub(super) fn follows(&self, at: Time) -> Option<u64> {
        (at == self.ended && self.next != u64::MAX).then_some(self.next)
    }

    pub(super) const fn last_end(&self) -> u64 {
        self.next
    }

    #[inline]
    pub(super) fn positioning(&self, at: Time, place: &Position, pass: Pass) -> (Nanos, Nanos) {
        let travel = self.travel(at, place, pass);
        (travel, self.wait(at + travel, place))
    }

    #[inline]
    pub(super) fn is_near(&self, place: &Position, reach: u32) -> bool {
        self.track.0.abs_diff(place.cylinder) <= reach
    }

    /// The distance in tracks beyond which no move takes less than `time`.
    pub(super) fn reach(&self, time: Nanos) -> u32 {
        self.seek.reach(time)
    }

    /// Keeps the heads on their track until the index, the angle 0, has passed after the last write.
    pub(super) fn stay_to_index(&mut self) {
        self.stay.until = self.stay.written + self.spindle.until(Angle::default(), self.stay.written);
    }

    #[inline]
    fn travel(&self, at: Time, place: &Position, pass: Pass) -> Nanos {
        let distance = self.track.0.abs_diff(place.cylinder);
        let curve = if pass == Pass::Write { &self.write_seek } else { &self.seek };
        let mut travel = curve.time(distance);
        if self.track.1 != place.surface {
            travel = travel.max(self.heads.head_switch);
        }
        let moves = distance != 0 || self.track.1 != place.surface;
        if moves && pass == Pass::Write {
            travel = (travel + self.heads.write_settle).saturating_sub(self.heads.write_lead);
        }
        if moves { self.stay.until.since(at) + travel } else { travel }
    }

    #[inline]
    fn wait(&self, at: Time, place: &Position) -> Nanos {
        let ahead = place.angle.0.wrapping_sub(self.spindle.angle_at(at).0);
        if ahead > u32::MAX - SAME_ANGLE { Nanos::ZERO } else { self.spindle.turning(Angle(ahead)) }
    }

    /// Moves to `place` and waits for it; returns when the pass can begin.
    fn go(&mut self, at: Time, place: &Position, pass: Pass, counters: &mut Counters) -> Time {
        let (travel, wait) = self.positioning(at, place, pass);
        counters.seeks += u64::from(self.track.0.abs_diff(place.cylinder) > 1);
        counters.seek_time += travel.get();
        counters.rotation_wait += wait.get();
        self.waited = wait;
        self.track = (place.cylinder, place.surface);
        at + travel + wait
    }

    /// Begins no earlier than `at`; returns when the last of the `count` sectors has passed.
    pub(super) fn pass(
        &mut self,
        at: Time,
        first: u64,
        count: u64,
        pass: Pass,
        counters: &mut Counters,
    ) -> Time {
        self.pass_from(self.place(first), at, first, count, pass, counters)
    }

    pub(super) fn pass_from(
        &mut self,
        mut place: Position,
        at: Time,
        first: u64,
        count: u64,
        pass: Pass,
        counters: &mut Counters,
    ) -> Time {
        let (mut at, mut sector, mut left) = (at, first, count);
        while left > 0 {
            if left != count {
                place = self.place(sector);
            }
            let run = left.min(u64::from(place.left));
            let begin = self.go(at, &place, pass, counters);
            if left == count {
                self.began = begin;
            }
            at = begin + self.sectors_time(&place, run);
            left -= run;
            sector += run;
        }
        match pass {
            Pass::Read => counters.media_read_bytes += count * self.physical,
            Pass::Write => {
                counters.media_write_bytes += count * self.physical;
                self.stay.written = at;
            }
        }
        (self.next, self.ended) = (sector, at);
        at
    }

    /// Reads from `next` until `until` or sector `limit`. Returns the next sector, and when it begins to pass.
    pub(super) fn read_ahead(
        &mut self,
        at: Time,
        next: u64,
        limit: u64,
        until: Time,
        counters: &mut Counters,
    ) -> (Time, u64) {
        let (mut at, mut sector) = (at, next);
        while sector < limit && at < until {
            let place = self.place(sector);
            let (travel, wait) = self.positioning(at, &place, Pass::Read);
            let begin = at + travel + wait;
            if begin >= until {
                break;
            }
            let room = (limit - sector).min(u64::from(place.left));
            let run = room.min(self.sectors_within(&place, until.since(begin)));
            if run == 0 {
                break;
            }
            self.go(at, &place, Pass::Read, counters);
            at = begin + self.sectors_time(&place, run);
            sector += run;
        }
        counters.media_read_bytes += (sector - next) * self.physical;
        (self.next, self.ended) = (sector, at);
        (at, sector)
    }

    pub(super) fn passing(&self, next: u64, time: Nanos) -> u64 {
        let place = self.place(next);
        self.sectors_within(&place, time).min(place.left.into())
    }

    /// The time for `count` sectors, at most a track: below 2^20 sectors times 2^32 nanoseconds.
    fn sectors_time(&self, place: &Position, count: u64) -> Nanos {
        Nanos::new(count * self.revolution().get() / u64::from(place.sectors_per_track))
    }

    /// The whole sectors that pass in `time`, or more than a track has.
    fn sectors_within(&self, place: &Position, time: Nanos) -> u64 {
        let time = time.get().min(2 * self.revolution().get());
        time * u64::from(place.sectors_per_track) / self.revolution().get()
    }
}
