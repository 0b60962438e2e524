//! The modelled DT01ACA300, measured from outside as H. Wong measured the real one (blog.stuffedcow.net,
//! 2019-09); his figures are reproduced within 2 %.
//!
//! Only the drive's answers are used: reads are submitted and their completions timed. Caches are switched
//! off, as a host does with SET FEATURES; the test looks at neither the profile nor the geometry. All reads
//! are of one physical sector, so that the end of a read, modulo a revolution, is the sector's angle.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
#![allow(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a measurement"
)]

use straddle_drive::{Drive, Profile};
use straddle_units::io::{Completion, Nanos, Operation, Request, Time};
use straddle_units::{ByteCount, ByteOffset};

const SECTOR: u64 = 4096;
/// The rotational speed of the specimen whose figures are in the profile.
const RPM: f64 = 7200.0;
const OUTER: f64 = 464.0;
const INNER: f64 = 216.0;
const TRACKS: f64 = 2_076_586.0;
const SURFACES: u64 = 6;
const SERPENTINE: u64 = 140;
const TRACK_SKEW: f64 = 3.0 / 29.0;
const SURFACE_SKEW: f64 = 0.5;
const MAX_SEEK_MS: (f64, f64) = (20.9, 21.1);

#[track_caller]
fn assert_near(what: &str, found: f64, measured: f64) {
    assert!((found / measured - 1.0).abs() < 0.02, "{what}: {found} on the model, {measured} on the drive");
}

struct Bench {
    drive: Drive,
    done: Vec<Completion>,
    at: Time,
    count: u64,
    /// Nanoseconds per revolution.
    turn: f64,
    sectors: u64,
}

impl Bench {
    fn new(cached: bool) -> Self {
        let off = [("read_cache.segments", 0.0)];
        let profile = Profile::open_with("dt01aca300", if cached { &[] } else { &off }).unwrap();
        let drive = Drive::new(&profile);
        let sectors = drive.claims().capacity / SECTOR;
        let mut bench = Self { drive, done: Vec::new(), at: Time::ZERO, count: 0, turn: 0.0, sectors };
        let start = bench.read(0);
        let end = (0..1000).map(|_| bench.read(0)).last().unwrap();
        bench.turn = end.since(start).get() as f64 / 1000.0;
        bench
    }

    fn read_bytes(&mut self, offset: u64, length: u64) -> Time {
        self.count += 1;
        self.drive
            .submit(
                self.at,
                Request::new(self.count, Operation::Read, ByteOffset::new(offset), ByteCount::new(length)),
                &mut self.done,
            )
            .unwrap();
        self.at = self.drive.next_completion(&mut self.done).unwrap().at;
        self.at
    }

    fn read(&mut self, sector: u64) -> Time {
        self.read_bytes(sector * SECTOR, SECTOR)
    }

    /// The angle at which a sector ends, in revolutions.
    fn angle(&mut self, sector: u64) -> f64 {
        (self.read(sector).get() as f64 / self.turn).fract()
    }

    /// From the end of a sector to the end of the next, in revolutions.
    fn step(&mut self, sector: u64) -> f64 {
        (self.angle(sector + 1) - self.angle(sector)).rem_euclid(1.0)
    }

    /// The first `count` tracks that begin after `sector`: the first sector of each, and the jump before it
    /// in revolutions.
    fn tracks(&mut self, sector: u64, count: usize) -> Vec<(u64, f64)> {
        let plain = self.step(sector).min(self.step(sector + 1));
        let mut found = Vec::new();
        let mut here = sector;
        while found.len() < count {
            let jump = self.step(here) - plain;
            here += 1;
            if jump > 0.02 {
                found.push((here, jump));
            }
        }
        found
    }

    /// Sectors on the track after the one that holds `sector`.
    fn sectors_per_track(&mut self, sector: u64) -> u64 {
        let tracks = self.tracks(sector, 2);
        tracks[1].0 - tracks[0].0
    }

    /// The shortest time, overheads included, to read a sector of the track that begins at `to`, after a read
    /// of sector `from`.
    fn least_access(&mut self, from: u64, to: u64, per_track: u64) -> Nanos {
        (to..to + per_track)
            .map(|sector| {
                let start = self.read(from);
                self.read(sector).since(start)
            })
            .min()
            .unwrap()
    }
}

#[test]
fn the_platters_turn_as_fast_as_measured() {
    let bench = Bench::new(false);
    assert_near("rpm", 60e9 / bench.turn, RPM);
}

#[test]
fn the_outermost_and_the_innermost_tracks_hold_what_was_measured() {
    let mut bench = Bench::new(false);
    let last = bench.sectors - 1;
    assert_near("sectors on the outermost tracks", bench.sectors_per_track(0) as f64, OUTER);
    assert_near("sectors on the innermost tracks", bench.sectors_per_track(last - 1500) as f64, INNER);
}

#[test]
fn the_skew_and_the_length_of_a_serpentine_are_those_measured() {
    let mut bench = Bench::new(false);
    for start in [0, 300_000_000] {
        let tracks = bench.tracks(start, 3 * SERPENTINE as usize);
        let (changes, plain): (Vec<_>, Vec<_>) =
            tracks.iter().enumerate().partition(|(_, (_, jump))| (jump - SURFACE_SKEW).abs() < 0.02);
        for (_, (sector, jump)) in plain {
            assert_near(&format!("the skew before sector {sector}"), *jump, TRACK_SKEW);
        }
        assert!(changes.len() >= 2);
        for pair in changes.windows(2) {
            assert_eq!((pair[1].0 - pair[0].0) as u64, SERPENTINE);
        }
    }
}

/// The first sectors of `count` runs of tracks; a run ends where the surface changes.
fn runs(bench: &mut Bench, count: usize) -> Vec<u64> {
    let tracks = bench.tracks(0, count * SERPENTINE as usize + 10);
    let changes = tracks.iter().filter(|(_, jump)| (jump - SURFACE_SKEW).abs() < 0.02);
    std::iter::once(0).chain(changes.map(|(sector, _)| *sector)).collect()
}

/// From the first track, the same track on every other surface takes the same time: a head switch. The next
/// track on the first surface is a serpentine away and needs no head switch.
#[test]
fn the_surfaces_come_round_after_as_many_as_measured() {
    let mut bench = Bench::new(false);
    let starts = runs(&mut bench, 8);
    let times: Vec<Nanos> = starts[1..=8].iter().map(|start| bench.least_access(10, *start, 464)).collect();
    let same = |time: &Nanos| time.get().abs_diff(times[0].get()) < 20_000;
    let round = times.iter().position(|time| !same(time)).unwrap() as u64 + 1;
    assert_eq!(round, SURFACES, "{times:?}");
}

/// The tracks of the whole disk: at 600 places, the sectors from one place to the next divided by the track
/// size.
#[test]
fn all_surfaces_together_have_as_many_tracks_as_measured() {
    let mut bench = Bench::new(false);
    let places = 600;
    let share = bench.sectors / places;
    let tracks: f64 = (0..places)
        .map(|place| share as f64 / bench.sectors_per_track(place * share + share / 2) as f64)
        .sum();
    assert_near("tracks", tracks, TRACKS);
}

#[test]
fn the_longest_seek_takes_as_long_as_measured() {
    let mut bench = Bench::new(false);
    let last = bench.sectors - 1;
    let far = bench.tracks(last - 3 * 216, 1)[0].0;
    let there = bench.least_access(0, far, 216);
    let back = bench.least_access(far, 0, 464);
    // Time that is not part of the move: the overheads and the sector itself, as measured within a track.
    let still = bench.least_access(0, 0, 464);
    for time in [there, back] {
        let seek = time.saturating_sub(still).millis();
        assert!((MAX_SEEK_MS.0 - 0.05..MAX_SEEK_MS.1 + 0.05).contains(&seek), "{seek} ms");
    }
}

/// The table's last column is calculated from the others: sectors per track, revolutions per second, and the
/// skew.
#[test]
fn the_first_tracks_are_read_as_fast_as_their_density_and_skew_allow() {
    let mut bench = Bench::new(true);
    let start = bench.at;
    let length = 1 << 20;
    for block in 0..512 {
        bench.read_bytes(block * length, length);
    }
    let rate = (512 * length) as f64 / bench.at.since(start).seconds();
    assert_near("bytes a second", rate, OUTER * SECTOR as f64 * (RPM / 60.0) / (1.0 + TRACK_SKEW));
}
