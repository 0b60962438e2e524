//! What a drive's firmware does with each command in detail, where that has been measured.
//!
//! The law of this module: everything here is optional. The default is the plain controller that a data sheet lets one
//! assume: one overhead for reads and one for writes.

use straddle_io::Nanos;

/// The firmware's ways.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Firmware {
    /// How long a command takes the controller and the link, in place of the interface's flat times.
    pub times: Option<CommandTimes>,
    /// What the segments of the cache hold, and how far they are filled.
    pub segments: SegmentRules,
    /// Whether the sectors of a read are taken in the order in which they pass under the heads (zero-latency access).
    pub reads_on_arrival: bool,
}

/// A time that depends on the command before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct History {
    /// After a read.
    pub after_read: Nanos,
    /// After a write.
    pub after_write: Nanos,
}

impl History {
    /// The time after a write, or after a read.
    pub const fn after(&self, write: bool) -> Nanos {
        if write { self.after_write } else { self.after_read }
    }
}

/// The times of a command.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CommandTimes {
    /// From the arrival of a read to its data, if the cache has them.
    pub read_hit: History,
    /// From the arrival of a read to the first move, if it has not.
    pub read_miss: History,
    /// From the arrival of a write to the first move, and to taking its data.
    pub write: History,
    /// From there to the first byte of data on the link.
    pub data: Nanos,
    /// From the last byte of a read to the host's knowing.
    pub read_completion: Nanos,
    /// From the last byte of a write to the host's knowing.
    pub write_completion: Nanos,
    /// Nanoseconds per mebibyte on the link for writes; the interface's rate is that of reads.
    pub write_nanos_per_mib: u64,
    /// From the first possible move of a write to its first sector, at least.
    pub write_travel: Nanos,
    /// So many of a write's sectors, or all, are in the buffer before the first is written.
    pub write_begins_with: u32,
    /// The drive lets go of the link while it has nothing to send; `None` if it never does.
    pub disconnects: Option<Disconnects>,
}

/// Letting go of the link and taking it again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Disconnects {
    /// From the command to the free link, for a read.
    pub read: History,
    /// From the last data to the free link, for a write.
    pub write: Nanos,
    /// Taking the link again.
    pub reselect: Nanos,
    /// So many thousandths of a read's sectors are in the buffer when the link is taken.
    pub read_mark: u32,
    /// What it does with a write that follows another on another place.
    pub twice: Option<TwiceDisconnected>,
}

/// A write for which the drive lets go of the link twice: before it takes the data as well as after.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TwiceDisconnected {
    /// From the command to letting go.
    pub command: Nanos,
    /// From there to the first move.
    pub travel: Nanos,
    /// From the command's end to the free link.
    pub first: Nanos,
    /// How long the link is free.
    pub pause: Nanos,
    /// From the last data to the free link, again.
    pub second: Nanos,
    /// Taking the link again for the status.
    pub reselect: Nanos,
}

/// What the segments of the read cache hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SegmentRules {
    /// Whether a read that begins where a segment ends goes on in it.
    pub adjoining: bool,
    /// Whether a hit lets the reading ahead go on.
    pub read_on: ReadOn,
    /// How far is read ahead.
    pub until: ReadAheadEnd,
    /// Whether what was written stays in a segment of its own.
    pub keeps_written: bool,
    /// Whether a write empties every segment that it touches, not only of what it replaces.
    pub drops_whole: bool,
    /// Whether the sectors that pass while the heads wait for the first one wanted are kept.
    pub keeps_passed: bool,
}

impl Default for SegmentRules {
    fn default() -> Self {
        Self {
            adjoining: true,
            read_on: ReadOn::SameStream,
            until: ReadAheadEnd::Count,
            keeps_written: false,
            drops_whole: false,
            keeps_passed: false,
        }
    }
}

/// Whether a hit lets the reading ahead go on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ReadOn {
    /// Only while it is still going on.
    Running,
    /// Also when it has stopped, in the segment that was read last.
    #[default]
    SameStream,
    /// Also when it has stopped, in whichever segment was hit.
    AnySegment,
}

/// How far is read ahead.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ReadAheadEnd {
    /// The number of sectors that the cache's parameters give.
    #[default]
    Count,
    /// As many, but not beyond the end of the track.
    Track,
    /// The end of the track, and of the next one if the segment holds part of the one before: a sequential reader.
    SequentialTracks,
}
