//! The checked parameters of a disk.

use straddle_units::ByteCount;
use straddle_units::io::Nanos;

use crate::disk::firmware::Firmware;
use crate::disk::geometry::Geometry;
use crate::disk::mechanism::HeadTimes;
use crate::disk::seek::SeekCurve;
use crate::disk::spindle::Spindle;

/// All parameters of a disk's behaviour.
#[derive(Clone, Debug, PartialEq)]
pub struct DiskParameters {
    /// The rotation of the platters.
    pub spindle: Spindle,
    /// Where the sectors are.
    pub geometry: Geometry,
    /// The movement of the arm.
    pub seek: SeekCurve,
    /// The movement of the arm for a write, if it is not that for a read with a longer settling time.
    pub write_seek: Option<SeekCurve>,
    /// Head switching and settling.
    pub heads: HeadTimes,
    /// How read data is cached.
    pub read_cache: ReadCacheParameters,
    /// How written data is cached.
    pub write_cache: WriteCacheParameters,
    /// How a part of a physical sector is written.
    pub rmw: RmwPolicy,
    /// Where the rest of a partial sector may come from besides the platters.
    pub rmw_reads: RmwReads,
    /// The log of partial sectors, with the policy [`RmwPolicy::Logged`].
    pub log: Option<LogParameters>,
    /// What survives a power cut besides the platters.
    pub protection: Protection,
    /// Further measured behaviour of the firmware.
    pub firmware: Firmware,
}

/// The read cache and the read-ahead.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReadCacheParameters {
    /// Number of segments; 0 means no cache.
    pub segments: u32,
    /// Physical sectors that a segment holds.
    pub segment_sectors: u64,
    /// Physical sectors read ahead of the request, while there is nothing else to do.
    pub read_ahead: u64,
}

/// The write cache and how it is emptied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WriteCacheParameters {
    /// Whether a write may complete before it is on the platters.
    pub enabled: bool,
    /// Its size.
    pub size: ByteCount,
    /// Entries of the firmware's table of pending writes: one for each extent, or each segment with extents.
    pub extents: usize,
    /// A segment, an aligned power of two whose extents share one entry; `None` if each extent has its own.
    pub segment: Option<ByteCount>,
    /// How many extents are compared to choose the next, the shortest positioning time first.
    pub window: usize,
    /// The firmware's time between two operations on the medium that do not follow each other on the track.
    pub setup: Nanos,
    /// How long the drive must have been idle before it empties a cache that is not under pressure.
    pub idle: Nanos,
    /// Whether the heads stay on their track after a flush has written, until the index has passed.
    pub stays_after_flush: bool,
}

/// How partly written physical sectors are read and rewritten.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Deserialize, serde::Serialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum RmwPolicy {
    /// Partly written sectors are read and rewritten before the write completes, one after the other.
    ImmediateSerial,
    /// Partly written sectors are read and rewritten before the write completes, all sectors of a write in
    /// one pass.
    ImmediateMerged,
    /// Partly written sectors are read and rewritten when the write cache is destaged, one after the other.
    DestageSerial,
    /// Partly written sectors are read and rewritten when the write cache is destaged, all sectors of a write
    /// in one pass.
    DestageMerged,
    /// Partly written sectors are read and rewritten when the write cache is destaged, each as it passes the
    /// head.
    Deferred,
    /// Like `deferred` for writes at regular intervals within a track, and like `destage-serial` for others.
    Adaptive,
    /// Partly written sectors go to a log when the write cache is destaged, and are later read and rewritten
    /// in place.
    Logged,
}

/// Where the rest of a partial sector may come from besides the platters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RmwReads {
    /// From the read cache, if it holds the sector when the write arrives.
    pub from_read_cache: bool,
    /// Physical sectors kept in memory after they have been written; 0 if the drive forgets them.
    pub kept_written: u64,
}

/// The log of partial sectors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogParameters {
    /// Its first physical sector.
    pub first_sector: u64,
    /// Physical sectors that it holds.
    pub sectors: u64,
    /// How long the drive must have been idle before it puts logged sectors in place.
    pub idle: Nanos,
    /// With shingled recording, the sectors of a band, of which no part can be written by itself.
    pub band: Option<u64>,
}

/// What survives a power cut besides the platters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Protection {
    /// Nothing.
    #[default]
    None,
    /// The write cache: the energy of the turning platters saves it to flash. A flush has nothing to do.
    NonVolatile,
    /// A reserved area of the platters, to which a flush writes all pending data in one pass.
    MediaCache {
        /// Its size in bytes.
        bytes: u64,
        /// Its first physical sector.
        first_sector: u64,
    },
}

impl RmwPolicy {
    const NAMES: [(Self, &str); 7] = [
        (Self::ImmediateSerial, "immediate-serial"),
        (Self::ImmediateMerged, "immediate-merged"),
        (Self::DestageSerial, "destage-serial"),
        (Self::DestageMerged, "destage-merged"),
        (Self::Deferred, "deferred"),
        (Self::Adaptive, "adaptive"),
        (Self::Logged, "logged"),
    ];

    /// The policies that published figures suggest: a drive of unknown firmware may follow any of them.
    pub const PLAUSIBLE: [Self; 6] = [
        Self::Deferred,
        Self::ImmediateMerged,
        Self::ImmediateSerial,
        Self::DestageSerial,
        Self::Adaptive,
        Self::Logged,
    ];

    /// The policy of this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::NAMES.iter().find(|(_, known)| *known == name).map(|(policy, _)| *policy)
    }

    /// Its name in a profile.
    pub fn name(self) -> &'static str {
        Self::NAMES.iter().find(|(policy, _)| *policy == self).map_or("", |(_, name)| name)
    }

    /// Whether a write with partial sectors completes only when it is on the medium.
    pub const fn is_immediate(self) -> bool {
        matches!(self, Self::ImmediateSerial | Self::ImmediateMerged)
    }

    /// Whether each partial sector is read and written before the next is read; `regular` for a write of a series at
    /// regular intervals.
    pub const fn is_serial(self, regular: bool) -> bool {
        match self {
            Self::ImmediateSerial | Self::DestageSerial => true,
            Self::Adaptive => !regular,
            _ => false,
        }
    }
}
