//! What a host asks of a drive, and the answer.

use straddle_units::{ByteCount, ByteOffset};

use crate::time::Time;

/// The host's name for a request; the drive gives it back with the completion and reads nothing into it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestId(pub u64);

/// What is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Operation {
    /// Read the span.
    Read,
    /// Write the span; complete when the drive has taken the data, which may be before it is on the medium.
    Write,
    /// Write the span; complete only when the data is durable (force unit access).
    WriteFua,
    /// Complete when everything that was written and completed before is durable. Has no span.
    Flush,
    /// The span's contents are no longer needed (TRIM, UNMAP, Deallocate).
    Discard,
}

impl Operation {
    /// Whether the request carries data to the drive.
    pub const fn is_write(self) -> bool {
        matches!(self, Self::Write | Self::WriteFua)
    }

    /// Whether the request completes only when its data is durable.
    pub const fn forces_unit_access(self) -> bool {
        matches!(self, Self::WriteFua)
    }
}

/// One command to a drive. Offset and length count from logical block 0 and are whole logical sectors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// The host's name for it.
    pub id: RequestId,
    /// What is asked.
    pub operation: Operation,
    /// First byte; zero for a flush.
    pub offset: ByteOffset,
    /// Number of bytes; zero for a flush.
    pub length: ByteCount,
}

impl Request {
    /// A request by plain numbers of bytes.
    pub const fn new(id: u64, operation: Operation, offset: u64, length: u64) -> Self {
        let (offset, length) = (ByteOffset::new(offset), ByteCount::new(length));
        Self { id: RequestId(id), operation, offset, length }
    }

    /// A flush of the volatile cache.
    pub const fn flush(id: u64) -> Self {
        Self::new(id, Operation::Flush, 0, 0)
    }
}

/// The end of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Completion {
    /// Which request.
    pub id: RequestId,
    /// When the host learns of it.
    pub at: Time,
}

/// A request that no drive of this kind would take; nothing has happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// Zero bytes to read, write or discard.
    #[error("the request at byte {offset} asks for no bytes at all")]
    Empty {
        /// First byte asked for.
        offset: u64,
    },
    /// Offset or length is not a multiple of the logical sector.
    #[error("byte {offset}, length {length}: not whole logical sectors of {sector} bytes")]
    NotWholeSectors {
        /// First byte asked for.
        offset: u64,
        /// Number of bytes asked for.
        length: u64,
        /// The logical sector.
        sector: u64,
    },
    /// The span ends after the last byte.
    #[error("byte {offset}, length {length}: past the end at byte {capacity}")]
    PastEnd {
        /// First byte asked for.
        offset: u64,
        /// Number of bytes asked for.
        length: u64,
        /// Size of the drive.
        capacity: u64,
    },
    /// The drive has no such command.
    #[error("the drive does not support discard")]
    NoDiscard,
    /// The request was submitted before an earlier one.
    #[error("submitted at {at}, but the drive is already at {now}")]
    InThePast {
        /// When it was submitted.
        at: Time,
        /// How far the drive's time has come.
        now: Time,
    },
}
