//! What may go wrong.

use std::fmt;
use std::io;

use straddle_units::{ByteCount, ByteOffset};

/// One of the two disks that a move uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Device {
    /// The disk whose data move.
    Data,
    /// The disk that holds the journal, if it is another one.
    Journal,
}

impl fmt::Display for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Data => "the disk",
            Self::Journal => "the journal's disk",
        })
    }
}

/// Why nothing, or not everything, was moved.
///
/// After [`Read`](Self::Read), [`Write`](Self::Write), [`Flush`](Self::Flush) and [`Changed`](Self::Changed)
/// the journal is intact: open it again to resume or to roll back.
#[derive(Debug, thiserror::Error)]
pub enum RelocateError {
    /// The job contradicts itself or does not fit the disk.
    #[error("the moves are impossible: {0}")]
    Job(String),
    /// The journal does not fit where it is to be.
    #[error("no room for the journal: {0}")]
    Place(String),
    /// The place holds the journal of a move already.
    #[error("there is already a journal of a move, at byte {0}")]
    Occupied(ByteOffset),
    /// The journal was made for a disk of another size.
    #[error(
        "the journal was made for a disk of {size} bytes, but this disk has {} bytes. If it has grown, limit \
        it to the old size until the move is complete: 'truncate -s {size}' for an image, 'losetup \
        --sizelimit {size}' for a disk",
        found.get(),
        size = made.get()
    )]
    OtherSize {
        /// The size that the disk had.
        made: ByteCount,
        /// The size that it has.
        found: ByteCount,
    },
    /// The journal lies elsewhere than it says.
    #[error("the journal belongs to another disk or position: {0}")]
    Foreign(String),
    /// The journal has a format that this version does not know.
    #[error("the journal has format {0}, which this version does not support")]
    Version(u32),
    /// The journal is damaged in a way that no crash explains.
    #[error("the journal, or the data that it describes, is damaged: {0}")]
    Damaged(String),
    /// A sector could not be read.
    #[error("cannot read byte {at} of {device}")]
    Read {
        /// The disk.
        device: Device,
        /// The first byte that could not be read.
        at: ByteOffset,
        /// The cause.
        source: io::Error,
    },
    /// A write failed.
    #[error("cannot write {len} at byte {at} of {device}")]
    Write {
        /// The disk.
        device: Device,
        /// Where the write began.
        at: ByteOffset,
        /// Its length.
        len: ByteCount,
        /// The cause.
        source: io::Error,
    },
    /// A flush failed: what was written before it may be lost.
    #[error("cannot flush {device}")]
    Flush {
        /// The disk.
        device: Device,
        /// The cause.
        source: io::Error,
    },
    /// What was read back is not what was written.
    #[error("{len} bytes at byte {at} differ when read back")]
    Changed {
        /// Where they begin.
        at: ByteOffset,
        /// How many were compared.
        len: ByteCount,
    },
}

straddle_units::error_kind! {
    RelocateError: Refused;
    Self::Job(_) | Self::Place(_) => Usage,
    Self::Read { .. } | Self::Write { .. } | Self::Flush { .. } | Self::Changed { .. } => Failed,
}
