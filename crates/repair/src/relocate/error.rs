//! What may go wrong.

use std::io;

use straddle_units::{ByteCount, ByteOffset};

pub(crate) type Result<T, E = RelocateError> = std::result::Result<T, E>;

/// One of the two disks that a move uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Device {
    /// The disk whose data move.
    #[error("the disk")]
    Data,
    /// The disk that holds the journal, if it is another one.
    #[error("the journal's disk")]
    Journal,
}

/// Why nothing, or not everything, was moved.
///
/// After [`Read`](Self::Read), [`Write`](Self::Write), [`Flush`](Self::Flush) and [`Changed`](Self::Changed)
/// the journal is intact: open it again to resume or to roll back.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages document the variants")]
pub enum RelocateError {
    #[error("the moves are impossible: {0}")]
    Job(String),
    #[error("the journal does not fit: {0}")]
    Place(String),
    #[error("there is already a journal of a move at byte {0}")]
    Occupied(ByteOffset),
    #[error(
        "the journal was made for a disk of {size} bytes, but this disk has {} bytes. If the disk has grown, \
         limit it to the old size until the move is complete, with 'truncate -s {size}' for an image or \
         'losetup --sizelimit {size}' for a disk",
        found.get(),
        size = made.get()
    )]
    OtherSize { made: ByteCount, found: ByteCount },
    #[error("the journal is for another disk or for another location on this disk: {0}")]
    Foreign(String),
    #[error("the journal has format {0}, which this version of straddle does not support")]
    Version(u32),
    /// No crash explains it.
    #[error("the journal or the data that it describes is damaged: {0}")]
    Damaged(String),
    #[error("cannot read byte {at} of {device}")]
    Read { device: Device, at: ByteOffset, source: io::Error },
    #[error("cannot write {len} at byte {at} of {device}")]
    Write { device: Device, at: ByteOffset, len: ByteCount, source: io::Error },
    /// What was written since the last flush may be lost.
    #[error("cannot flush {device}")]
    Flush { device: Device, source: io::Error },
    #[error("the {len} at byte {at} differ when read back")]
    Changed { at: ByteOffset, len: ByteCount },
}

impl RelocateError {
    pub(crate) fn damaged(what: &str) -> Self {
        Self::Damaged(what.to_owned())
    }
}

straddle_units::error_kind! {
    RelocateError: Refused;
    Self::Job(_) | Self::Place(_) => Usage,
    Self::Read { .. } | Self::Write { .. } | Self::Flush { .. } | Self::Changed { .. } => Failed,
}
