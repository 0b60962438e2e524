//! Random drives that could be built, as the text of a profile, and what a probe should find in them.

#![allow(dead_code, reason = "each test file is a crate of its own and uses a part of this")]

use straddle_drive::Profile;
use straddle_measure::bench::{Description, Modelled, Surface, Target, TargetError};
pub(crate) use straddle_units::io::SplitMix64 as Random;
use straddle_units::io::{Completion, Counters, Nanos, Request, Time};
use straddle_units::{Boundary, ByteCount, ByteOffset, Span};

/// Random values of other distributions.
pub(crate) trait Draw {
    /// Returns a whole number from `low` to `high`.
    fn within(&mut self, low: u64, high: u64) -> u64;

    /// Returns a whole number from `low` to `high`, each octave (power of two) equally likely.
    fn scaled(&mut self, low: u64, high: u64) -> u64;

    /// Returns a number from `low` to `high`.
    fn real(&mut self, low: f64, high: f64) -> f64;
}

impl Draw for Random {
    fn within(&mut self, low: u64, high: u64) -> u64 {
        low + self.below(high - low + 1)
    }

    fn scaled(&mut self, low: u64, high: u64) -> u64 {
        let octaves = (high / low).max(1).ilog2() + 1;
        let octave = u32::try_from(self.below(u64::from(octaves))).unwrap();
        let from = low << octave;
        self.within(from, (2 * from - 1).min(high))
    }

    fn real(&mut self, low: f64, high: f64) -> f64 {
        let share = f64::from(u32::try_from(self.below(1 << 20)).unwrap()) / f64::from(1 << 20);
        low + (high - low) * share
    }
}

/// What happens to a modelled drive while it is probed.
pub(crate) trait Trouble {
    /// Before a request is sent.
    fn submit(&mut self) -> Result<(), TargetError> {
        Ok(())
    }

    /// Before spans are prepared.
    fn prepare(&mut self) -> Result<(), TargetError> {
        Ok(())
    }

    /// How late a completion is, if it is.
    fn delay(&mut self, _now: Time) -> Option<Nanos> {
        None
    }
}

/// A modelled drive in trouble, without counters.
pub(crate) struct Troubled<T> {
    pub(crate) drive: Modelled,
    pub(crate) trouble: T,
}

impl<T: Trouble> Target for Troubled<T> {
    fn description(&self) -> &Description {
        self.drive.description()
    }

    fn capacity(&self) -> ByteCount {
        self.drive.capacity()
    }

    fn logical_sector(&self) -> u64 {
        self.drive.logical_sector()
    }

    fn now(&self) -> Time {
        self.drive.now()
    }

    fn submit(&mut self, request: Request) -> Result<(), TargetError> {
        self.trouble.submit()?;
        self.drive.submit(request)
    }

    fn wait(&mut self) -> Result<Completion, TargetError> {
        let done = self.drive.wait()?;
        let Some(late) = self.trouble.delay(self.drive.now()) else { return Ok(done) };
        self.drive.pause(late);
        Ok(Completion { id: done.id, at: self.drive.now() })
    }

    fn pause(&mut self, length: Nanos) {
        self.drive.pause(length);
    }

    fn counters(&self) -> Option<Counters> {
        None
    }
}

impl<T: Trouble> Surface for Troubled<T> {
    fn prepare(&mut self, spans: &[Span]) -> Result<(), TargetError> {
        self.trouble.prepare()?;
        self.drive.prepare(spans)
    }
}

/// Returns what a probe should find: the unit and where it begins.
pub(crate) fn truth(profile: &Profile) -> Boundary {
    let physical = ByteCount::new(profile.sectors.physical);
    let first = Boundary::multiples_of(physical).unwrap();
    Boundary::new(physical, first.to_next(ByteOffset::new(profile.sectors.firmware_offset))).unwrap()
}

/// Returns the drive for a seed.
pub(crate) fn drive(seed: u64) -> (Profile, String) {
    let mut random = Random::new(seed);
    let text = if random.once_in(4) { ssd(&mut random) } else { disk(&mut random) };
    let profile = Profile::parse("random", &text, &[]);
    (profile.unwrap_or_else(|error| panic!("seed {seed}: {error}\n{text}")), text)
}

fn claims(random: &mut Random, capacity: u64, logical: u64, physical: u64, rotational: bool) -> String {
    let claimed =
        if random.once_in(3) { random.one_of(&[512, 4096, 4096, 16_384]) } else { physical.max(logical) };
    let claimed = claimed.max(logical);
    format!(
        "name = \"random\"\ntitle = \"made by a test\"\n[claims]\nmodel = \"TEST\"\ncapacity_bytes = {}\n\
        logical_sector_bytes = {logical}\nphysical_sector_bytes = {claimed}\nrotational = {rotational}\n",
        capacity / 4096 * 4096,
    )
}

fn disk(random: &mut Random) -> String {
    let logical = if random.once_in(8) { 4096 } else { 512 };
    let physical: u64 = random
        .one_of(&[512, 512, 512, 1024, 2048, 4096, 4096, 4096, 4096, 4096, 4096, 4096, 8192, 16_384, 65_536]);
    let physical = physical.max(logical);
    let offset = match random.below(5) {
        0 => logical,
        1 => random.below(physical / logical) * logical,
        _ => 0,
    } & (physical - 1);
    let (surfaces, track) = (random.within(1, 12), random.scaled(256 << 10, 2 << 20) / physical);
    let capacity = (random.scaled(1 << 13, 1 << 18) * surfaces * track * physical).min(16 << 40);
    let mut text = claims(random, capacity, logical, physical, true);
    let track_to_track = random.real(0.3, 2.0);
    let average = random.real(3.0, 13.0).max(5.0 * track_to_track);
    let segment = random.scaled(64 << 10, 2 << 20) / physical * physical;
    let policy = random.one_of(&[
        "immediate-serial",
        "immediate-merged",
        "destage-serial",
        "destage-merged",
        "deferred",
    ]);
    text += &format!(
        "[sectors]\nphysical_bytes = {physical}\nfirmware_offset_bytes = {offset}\n\
        [interface]\nlink_mb_s = {}\nread_overhead_us = {}\nwrite_overhead_us = {}\ncompletion_overhead_us = {}\n\
        queue_depth = {}\n[spindle]\nrpm = {}\n\
        [geometry]\nsurfaces = {}\nouter_sectors_per_track = {track}\ninner_sectors_per_track = {}\nzone_count = {}\n\
        [seek]\ntrack_to_track_ms = {track_to_track}\naverage_ms = {average}\nfull_stroke_ms = {}\nhead_switch_ms = {}\n\
        write_settle_ms = {}\n[read_cache]\nsegments = {}\nsegment_bytes = {segment}\nread_ahead_bytes = {}\n\
        [write_cache]\nenabled = {}\nbytes = {}\nextents = {}\nsegment_bytes = {}\nwindow = {}\nsetup_us = {}\nidle_ms = {}\n\
        [rmw]\npolicy = \"{policy}\"\n",
        random.one_of(&[34, 150, 300, 600, 1200]),
        random.within(20, 250),
        random.within(20, 250),
        random.one_of(&[0, 0, 20, 125]),
        random.one_of(&[1, 32, 32, 128]),
        random.one_of(&[4200.0, 5400.0, 5400.0, 5900.0, 7200.0, 7200.0, 10_000.0, 15_000.0])
            * random.real(0.995, 1.005),
        surfaces,
        (track / 2).max(1),
        random.within(1, 30),
        average * random.real(1.8, 2.2),
        random.real(0.3, 1.5),
        random.real(0.0, 0.4),
        random.one_of(&[0, 1, 8, 16, 32, 64]),
        random.below(segment / physical + 1) * physical,
        !random.once_in(6),
        random.scaled(256 << 10, 64 << 20),
        random.scaled(8, 512),
        random.one_of(&[0, 0, 0, 0, 131_072, 1 << 20, 16 << 20]),
        random.scaled(1, 512),
        random.within(0, 600),
        random.one_of(&[0, 0, 1, 50, 500]),
    );
    match random.below(12) {
        0 => text += "non_volatile_cache = true\n",
        1 | 2 => text += &format!("media_cache_bytes = {}\n", random.scaled(1 << 20, 256 << 20)),
        _ => {}
    }
    text
}

fn ssd(random: &mut Random) -> String {
    let logical = if random.once_in(10) { 4096 } else { 512 };
    let unit: u64 = random.one_of(&[4096, 4096, 4096, 8192, 16_384, 16_384, 32_768, 65_536]);
    let capacity = random.scaled(32 << 30, 256 << 30);
    let mut text = claims(random, capacity, logical, unit, false);
    let dies = random.scaled(4, 64);
    text += &format!(
        "[interface]\nlink_mb_s = {}\nread_overhead_us = {}\nwrite_overhead_us = {}\ncompletion_overhead_us = {}\n\
        queue_depth = {}\n[flash]\nindirection_unit_bytes = {unit}\npage_bytes = {}\npages_per_block = {}\ndies = {dies}\n\
        channels = {}\nread_us = {}\nprogram_us = {}\nerase_us = {}\nchannel_mb_s = {}\nbuffer_bytes = {}\n\
        over_provisioning = {}\ncommand_us = {}\ndestage_after_ms = {}\npower_loss_protection = {}\nstart = \"{}\"\n",
        random.one_of(&[560, 560, 1800, 3500, 7000]),
        random.within(3, 15),
        random.within(3, 15),
        random.within(1, 6),
        random.one_of(&[32, 256, 1024]),
        random.one_of(&[16_384, 32_768, 65_536]),
        random.one_of(&[64, 128, 256]),
        random.within(1, dies.min(16)),
        random.within(30, 130),
        random.within(300, 2500),
        random.within(2000, 7000),
        random.one_of(&[400, 667, 800, 1200]),
        random.scaled(1 << 20, 64 << 20),
        random.real(0.1, 0.3),
        random.real(0.8, 10.0),
        random.one_of(&[5, 100, 1000]),
        random.once_in(2),
        if random.once_in(4) { "empty" } else { "in-order" },
    );
    text
}
