//! Random small disks, as the text of a profile.

use std::fmt::Write;

use proptest::prelude::*;
use straddle_drive::{Drive, Profile};

use super::{SECTOR, Wish};

/// The policies for writing a part of a physical sector, as named in a profile.
pub(crate) const POLICIES: [&str; 6] =
    ["immediate-serial", "immediate-merged", "destage-serial", "destage-merged", "deferred", "adaptive"];

/// What survives a power cut besides the platters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kept {
    Nothing,
    WriteCache,
    MediaCache(u64),
    /// Partial sectors in a log of this many bytes; this replaces the policy.
    Log(u64),
    /// A log of this many bytes, and shingled bands of this many physical sectors.
    Bands(u64, u64),
}

/// A small disk.
#[derive(Clone, Debug)]
pub(crate) struct Shape {
    pub(crate) capacity: u64,
    pub(crate) physical: u64,
    pub(crate) firmware_offset: u64,
    pub(crate) link_mb_s: f64,
    pub(crate) read_overhead_us: u64,
    pub(crate) write_overhead_us: u64,
    pub(crate) completion_overhead_us: u64,
    pub(crate) queue_depth: u32,
    pub(crate) rpm: f64,
    pub(crate) surfaces: u32,
    /// For each zone, tracks on each surface and sectors per track. The last zone gets as many tracks as the
    /// capacity needs.
    pub(crate) zones: Vec<(u64, u64)>,
    pub(crate) width: u32,
    pub(crate) alternating: bool,
    pub(crate) skews: Option<[f64; 3]>,
    pub(crate) seek_ms: [f64; 3],
    pub(crate) head_switch_ms: f64,
    pub(crate) write_settle_ms: f64,
    pub(crate) segments: u32,
    pub(crate) segment_bytes: u64,
    pub(crate) read_ahead_bytes: u64,
    pub(crate) write_cache: bool,
    pub(crate) cache_bytes: u64,
    pub(crate) extents: u32,
    /// Bytes of a segment whose extents share an entry of the table; 0 if extents share none.
    pub(crate) shared_bytes: u64,
    pub(crate) window: u32,
    pub(crate) setup_us: u64,
    pub(crate) idle_ms: u64,
    pub(crate) stays_after_flush: bool,
    pub(crate) policy: &'static str,
    pub(crate) kept: Kept,
    /// Whether the rest of a partial sector may come from the read cache.
    pub(crate) reads_from_cache: bool,
    /// Bytes kept in memory after they have been written.
    pub(crate) kept_written: u64,
}

impl Default for Shape {
    /// A disk for tests of a single effect: 4 MiB on two surfaces at 6000 rpm (10 ms per revolution), one
    /// zone of 50 sectors per track, no cache, and a link that is never a bottleneck.
    fn default() -> Self {
        Self {
            capacity: 4 << 20,
            physical: 4096,
            firmware_offset: 0,
            link_mb_s: 1e6,
            read_overhead_us: 100,
            write_overhead_us: 100,
            completion_overhead_us: 0,
            queue_depth: 32,
            rpm: 6000.0,
            surfaces: 2,
            zones: vec![(1, 50)],
            width: 1,
            alternating: false,
            skews: Some([0.2; 3]),
            seek_ms: [1.0, 1.5, 3.0],
            head_switch_ms: 0.5,
            write_settle_ms: 0.1,
            segments: 0,
            segment_bytes: 0,
            read_ahead_bytes: 0,
            write_cache: false,
            cache_bytes: 1 << 20,
            extents: 64,
            shared_bytes: 0,
            window: 64,
            setup_us: 0,
            idle_ms: 0,
            stays_after_flush: false,
            policy: "deferred",
            kept: Kept::Nothing,
            reads_from_cache: false,
            kept_written: 0,
        }
    }
}

impl Shape {
    /// Physical sectors that the tracks must hold.
    fn needed(&self) -> u64 {
        let area = match self.kept {
            Kept::MediaCache(bytes) | Kept::Log(bytes) | Kept::Bands(bytes, _) => bytes / self.physical,
            Kept::Nothing | Kept::WriteCache => 0,
        };
        (self.capacity + self.firmware_offset).div_ceil(self.physical) + area
    }

    /// The zones, with enough tracks for the capacity.
    pub(crate) fn all_zones(&self) -> Vec<(u64, u64)> {
        let mut zones = self.zones.clone();
        let held: u64 =
            zones.iter().map(|(tracks, sectors)| tracks * sectors * u64::from(self.surfaces)).sum();
        let last = zones.last_mut().expect("a disk has a zone");
        last.0 += self.needed().saturating_sub(held).div_ceil(last.1 * u64::from(self.surfaces));
        zones
    }

    /// The text of its profile.
    pub(crate) fn toml(&self) -> String {
        let mut text = format!(
            "name = \"small\"\ntitle = \"made by a test\"\n\
            [claims]\nmodel = \"TEST\"\ncapacity_bytes = {}\nlogical_sector_bytes = {SECTOR}\nphysical_sector_bytes = {}\n\
            rotational = true\ndiscard_granularity_bytes = {SECTOR}\n\
            [sectors]\nphysical_bytes = {}\nfirmware_offset_bytes = {}\n\
            [interface]\nlink_mb_s = {}\nread_overhead_us = {}\nwrite_overhead_us = {}\ncompletion_overhead_us = {}\n\
            queue_depth = {}\n[spindle]\nrpm = {}\n",
            self.capacity,
            self.physical,
            self.physical,
            self.firmware_offset,
            self.link_mb_s,
            self.read_overhead_us,
            self.write_overhead_us,
            self.completion_overhead_us,
            self.queue_depth,
            self.rpm,
        );
        let zones: Vec<[u64; 2]> =
            self.all_zones().into_iter().map(|(tracks, sectors)| [tracks, sectors]).collect();
        let direction = if self.alternating { "alternating" } else { "forward" };
        let _ = write!(
            text,
            "[geometry]\nsurfaces = {}\nserpentine_tracks = {}\nserpentine_direction = \"{direction}\"\nzones = {zones:?}\n",
            self.surfaces, self.width,
        );
        for (skew, name) in self.skews.into_iter().flatten().zip(["track", "head", "serpentine"]) {
            let _ = writeln!(text, "{name}_skew_revolutions = {skew:?}");
        }
        let [near, middle, far] = self.seek_ms;
        let _ = write!(
            text,
            "[seek]\ntable_ms = [[1, {near}], [8, {middle}], [64, {far}]]\nhead_switch_ms = {}\nwrite_settle_ms = {}\n\
            [read_cache]\nsegments = {}\nsegment_bytes = {}\nread_ahead_bytes = {}\n\
            [write_cache]\nenabled = {}\nbytes = {}\nextents = {}\nsegment_bytes = {}\nwindow = {}\nsetup_us = {}\nidle_ms = {}\n\
            stays_after_flush = {}\n\
            [rmw]\npolicy = \"{}\"\n",
            self.head_switch_ms,
            self.write_settle_ms,
            self.segments,
            self.segment_bytes,
            self.read_ahead_bytes,
            self.write_cache,
            self.cache_bytes,
            self.extents,
            self.shared_bytes,
            self.window,
            self.setup_us,
            self.idle_ms,
            self.stays_after_flush,
            if matches!(self.kept, Kept::Log(_) | Kept::Bands(..)) { "logged" } else { self.policy },
        );
        if self.reads_from_cache || self.kept_written > 0 {
            let _ = writeln!(
                text,
                "reads_from_cache = {}\nkept_written_bytes = {}",
                self.reads_from_cache, self.kept_written
            );
        }
        match self.kept {
            Kept::Nothing => {}
            Kept::WriteCache => text.push_str("non_volatile_cache = true\n"),
            Kept::MediaCache(bytes) => {
                let _ = writeln!(text, "media_cache_bytes = {bytes}");
            }
            Kept::Log(bytes) => {
                let _ = writeln!(text, "log_bytes = {bytes}");
            }
            Kept::Bands(bytes, sectors) => {
                let _ = write!(text, "log_bytes = {bytes}\nband_bytes = {}\n", sectors * self.physical);
            }
        }
        text
    }

    pub(crate) fn profile(&self) -> Profile {
        Profile::parse("small", &self.toml(), &[]).expect("a possible disk")
    }

    pub(crate) fn drive(&self) -> Drive {
        Drive::new(&self.profile())
    }

    /// More events than these requests can cause: a few for each track that a request touches, and a few for
    /// each request.
    pub(crate) fn bound(&self, wishes: &[Wish]) -> u64 {
        let least = self.zones.iter().map(|zone| zone.1).min().unwrap_or(1);
        let tracks = |wish: &Wish| (wish.sectors * SECTOR / self.physical + 2) / least + 2;
        100 + wishes.iter().map(|wish| 16 * tracks(wish)).sum::<u64>()
    }
}

/// Any small disk.
pub(crate) fn shapes() -> impl Strategy<Value = Shape> {
    let sectors = (
        0_u64..2000,
        prop_oneof![Just(512_u64), Just(4096), Just(4096)],
        prop_oneof![Just(0_u64), 0_u64..8],
        prop_oneof![Just(1_u32), Just(2), Just(8), Just(32)],
    );
    let link = (
        prop_oneof![Just(20.0), Just(150.0), Just(600.0), Just(1e6)],
        0_u64..200,
        0_u64..200,
        prop_oneof![Just(0_u64), 0_u64..50],
        prop_oneof![Just(5400.0), Just(7200.0), Just(15_000.0), 3000.0..20_000.0],
    );
    let geometry = (
        1_u32..=3,
        prop::collection::vec((1_u64..12, 6_u64..100), 1..=4),
        1_u32..=5,
        any::<bool>(),
        prop::option::of([0.0..1.0, 0.0..1.0, 0.0..1.0]),
    );
    let seek = ([0.1..1.0, 0.5..2.0, 1.0..5.0], 0.0..1.5, 0.0..0.4);
    let read_cache = (prop_oneof![Just(0_u32), 1_u32..5], 0_u64..40, 0_u64..=100);
    let write_cache = (
        prop::bool::weighted(0.7),
        prop_oneof![4096_u64..40_000, Just(1 << 20)],
        prop_oneof![1_u32..6, Just(64)],
        prop::sample::select(vec![0_u64, 0, 4096, 16_384, 1 << 18]),
        prop_oneof![1_u32..4, Just(64)],
        prop_oneof![Just(0_u64), 0_u64..600],
        prop_oneof![Just(0_u64), 0_u64..20],
        any::<bool>(),
    );
    let kept = prop_oneof![
        3 => Just(Kept::Nothing),
        1 => Just(Kept::WriteCache),
        2 => (0_u64..300_000).prop_map(Kept::MediaCache),
        2 => (4096_u64..300_000).prop_map(Kept::Log),
        2 => (4096_u64..300_000, 1_u64..40).prop_map(|(bytes, sectors)| Kept::Bands(bytes, sectors)),
    ];
    let memory = (any::<bool>(), prop_oneof![2 => Just(0_u64), 1 => 0_u64..300_000]);
    let rmw = (prop::sample::select(&POLICIES[..]), kept, memory);
    (sectors, link, geometry, seek, read_cache, write_cache, rmw).prop_map(assemble)
}

type Sectors = (u64, u64, u64, u32);
type Link = (f64, u64, u64, u64, f64);
type Layout = (u32, Vec<(u64, u64)>, u32, bool, Option<[f64; 3]>);
type Seek = ([f64; 3], f64, f64);
type ReadCache = (u32, u64, u64);
type WriteCache = (bool, u64, u32, u64, u32, u64, u64, bool);

type Rmw = (&'static str, Kept, (bool, u64));

fn assemble(parts: (Sectors, Link, Layout, Seek, ReadCache, WriteCache, Rmw)) -> Shape {
    let (sectors, link, geometry, seek, read_cache, write_cache, (policy, kept, memory)) = parts;
    let physical = sectors.1;
    let segment_bytes = read_cache.1 * 4096;
    Shape {
        capacity: (1 << 20) + sectors.0 * SECTOR,
        physical,
        firmware_offset: sectors.2 * SECTOR % physical,
        queue_depth: sectors.3,
        link_mb_s: link.0,
        read_overhead_us: link.1,
        write_overhead_us: link.2,
        completion_overhead_us: link.3,
        rpm: link.4,
        surfaces: geometry.0,
        zones: geometry.1,
        width: geometry.2,
        alternating: geometry.3,
        skews: geometry.4,
        seek_ms: seek.0,
        head_switch_ms: seek.1,
        write_settle_ms: seek.2,
        segments: read_cache.0,
        segment_bytes,
        read_ahead_bytes: segment_bytes * read_cache.2 / 100,
        write_cache: write_cache.0,
        cache_bytes: write_cache.1,
        extents: write_cache.2,
        shared_bytes: write_cache.3,
        window: write_cache.4,
        setup_us: write_cache.5,
        idle_ms: write_cache.6,
        stays_after_flush: write_cache.7,
        policy,
        kept,
        reads_from_cache: memory.0,
        kept_written: memory.1,
    }
}
