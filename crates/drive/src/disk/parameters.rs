//! What a disk is made of, checked.

use straddle_io::Nanos;

use crate::disk::firmware::Firmware;
use crate::disk::geometry::Geometry;
use crate::disk::mechanism::HeadTimes;
use crate::disk::seek::SeekCurve;
use crate::disk::spindle::Spindle;

/// Everything that makes a disk's behaviour.
#[derive(Clone, Debug, PartialEq)]
pub struct DiskParameters {
    /// The turning of the platters.
    pub spindle: Spindle,
    /// Where the sectors are.
    pub geometry: Geometry,
    /// The movement of the arm.
    pub seek: SeekCurve,
    /// Switching heads and settling.
    pub heads: HeadTimes,
    /// What is kept of reads.
    pub read_cache: ReadCacheParameters,
    /// What is kept of writes.
    pub write_cache: WriteCacheParameters,
    /// What happens when a part of a physical sector is written.
    pub rmw: RmwPolicy,
    /// What survives a power cut beside the platters.
    pub protection: Protection,
    /// What is known of the firmware beyond all that.
    pub firmware: Firmware,
}

/// The read cache and the read-ahead.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReadCacheParameters {
    /// Number of segments; zero is no cache.
    pub segments: u32,
    /// Physical sectors that a segment holds.
    pub segment_sectors: u64,
    /// Physical sectors that are read beyond what was asked for, while nothing else is to do.
    pub read_ahead: u64,
}

/// The write cache and the way it is emptied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WriteCacheParameters {
    /// Whether a write is complete before it is on the platters.
    pub enabled: bool,
    /// Bytes it holds.
    pub bytes: u64,
    /// Entries of the firmware's table of pending writes: separate extents, or segments with extents in them.
    pub extents: usize,
    /// Bytes of a segment, a power of two, aligned: the extents in one share an entry. 0 where each has its own.
    pub segment: u64,
    /// How many of them it weighs against each other to choose the next, the shortest positioning time first.
    pub window: usize,
    /// What the firmware needs between two operations on the medium that do not follow each other on the track.
    pub setup: Nanos,
    /// How long the drive must have had nothing to do before it empties a cache that is not under pressure.
    pub idle: Nanos,
}

/// How a drive writes a part of a physical sector.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Deserialize, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum RmwPolicy {
    /// The write is not complete until each partial sector, one after the other, has been read, and written a revolution
    /// later.
    ImmediateSerial,
    /// The write is not complete until all its sectors have been read in one pass and written in the next.
    ImmediateMerged,
    /// As [`RmwPolicy::ImmediateSerial`], but when the cache is emptied.
    DestageSerial,
    /// As [`RmwPolicy::ImmediateMerged`], but when the cache is emptied.
    DestageMerged,
    /// When the cache is emptied, the reads of partial sectors and the writes are operations of their own, chosen by position
    /// among those of all other extents: many share a revolution.
    Deferred,
}

/// What survives a power cut beside the platters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Protection {
    /// Nothing.
    #[default]
    None,
    /// The write cache: it is saved to flash with the energy of the turning platters. A flush has nothing to do.
    NonVolatile,
    /// A reserved area of the platters, to which a flush writes what is pending in one pass, to be put in place later.
    MediaCache {
        /// Bytes that it holds.
        bytes: u64,
        /// Its first physical sector.
        first_sector: u64,
    },
}

impl RmwPolicy {
    /// Whether a write with partial sectors is not complete before it is on the medium.
    pub const fn is_immediate(self) -> bool {
        matches!(self, Self::ImmediateSerial | Self::ImmediateMerged)
    }

    /// Whether each partial sector is read and written before the next is read.
    pub const fn is_serial(self) -> bool {
        matches!(self, Self::ImmediateSerial | Self::DestageSerial)
    }
}
