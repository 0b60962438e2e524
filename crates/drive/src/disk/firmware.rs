//! What has been measured of the firmware. The default is the plain controller that a data sheet implies: one
//! overhead for reads and one for writes.

use straddle_units::io::Nanos;

/// The measured behaviour of the firmware.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Firmware {
    /// The times of a command in the controller and on the link, instead of the interface's fixed times.
    pub times: Option<CommandTimes>,
    /// What the cache's segments hold, and how far they are filled.
    pub segments: SegmentRules,
    /// Zero-latency access: whether a read takes its sectors in the order in which they pass under the heads.
    pub reads_on_arrival: bool,
    /// Whether a write whose data is all in the buffer takes its sectors in that order as well.
    pub writes_on_arrival: bool,
}

/// A time that depends on the previous command.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct History {
    /// After a read.
    pub after_read: Nanos,
    /// After a write.
    pub after_write: Nanos,
}

impl History {
    pub(crate) const fn after(&self, write: bool) -> Nanos {
        if write { self.after_write } else { self.after_read }
    }
}

/// The times of a command's phases.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CommandTimes {
    /// From the arrival of a read to its data, if the cache has it.
    pub read_hit: History,
    /// From the arrival of a read until the heads can move, if the cache does not have its data.
    pub read_miss: History,
    /// From the arrival of a write until the heads can move, and until the drive takes its data.
    pub write: History,
    /// From the end of those times to the first byte of data on the link.
    pub data: Nanos,
    /// From the last byte of a read until the host receives the completion.
    pub read_completion: Nanos,
    /// From the last byte of a write until the host receives the completion.
    pub write_completion: Nanos,
    /// Nanoseconds per mebibyte on the link for writes; the interface's rate is the one for reads.
    pub write_nanos_per_mib: u64,
    /// The least time from when the heads can move for a write until its first sector.
    pub write_travel: Nanos,
    /// The first sector is not written before this many of the write's sectors, or all, are in the buffer.
    pub write_begins_with: u32,
    /// The times for releasing the link while the drive has nothing to send; `None` if it never releases it.
    pub disconnects: Option<Disconnects>,
}

/// Releasing the link (disconnecting) and taking it again (reselecting).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Disconnects {
    /// From the command until the link is free, for a read.
    pub read: History,
    /// From the last data until the link is free, for a write.
    pub write: Nanos,
    /// The time to take the link again.
    pub reselect: Nanos,
    /// Thousandths of a read's sectors in the buffer when the drive takes the link again.
    pub read_mark: u32,
    /// Whether that is a part of a segment of this many sectors rather than of the read.
    pub read_mark_of: Option<u64>,
    /// Whether the beginning of a read that the cache holds is sent at once, however short it is.
    pub sends_any_hit: bool,
    /// The times of a write that follows a write at another place, if they differ.
    pub twice: Option<TwiceDisconnected>,
}

impl Disconnects {
    /// How many sectors of a read of `count` must be in the buffer before the drive takes the link again.
    pub(super) fn wanted(&self, count: u64) -> u64 {
        let part = self.read_mark_of.unwrap_or(count) * u64::from(self.read_mark) / 1000;
        part.clamp(1, count.max(1))
    }
}

/// A write for which the drive releases the link twice: before it takes the data as well as after.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TwiceDisconnected {
    /// The time of the command, before the drive releases the link.
    pub command: Nanos,
    /// From there until the heads can move.
    pub travel: Nanos,
    /// From the end of the command until the link is free.
    pub first: Nanos,
    /// How long the link stays free.
    pub pause: Nanos,
    /// From the last data until the link is free again.
    pub second: Nanos,
    /// The time to take the link again for the status.
    pub reselect: Nanos,
}

/// What the segments of the read cache hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SegmentRules {
    /// Whether a read that begins where a segment ends continues that segment.
    pub adjoining: bool,
    /// When a hit lets reading ahead continue.
    pub read_on: ReadOn,
    /// Where reading ahead ends.
    pub until: ReadAheadEnd,
    /// Whether written data is kept in a segment of its own.
    pub keeps_written: bool,
    /// Whether a write empties every segment that it touches, rather than only the replaced sectors.
    pub drops_whole: bool,
    /// Whether sectors that pass while the heads wait for the first requested one are kept.
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

/// When a hit lets reading ahead continue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ReadOn {
    /// Only while it is still running.
    Running,
    /// Also after it has stopped, in the segment that was read last.
    #[default]
    SameStream,
    /// Also after it has stopped, in whichever segment was hit.
    AnySegment,
}

/// Where reading ahead ends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ReadAheadEnd {
    /// After the number of sectors in the cache's parameters.
    #[default]
    Count,
    /// After that number, but no later than the end of the track.
    Track,
    /// After that number, but no later than the end of the cylinder.
    Cylinder,
    /// A sequential reader: at the end of the track, or of the next if the segment holds part of the previous one.
    SequentialTracks,
}
