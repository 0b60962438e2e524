//! A host's requests to a drive, and their completions.

use crate::{ByteCount, ByteOffset};

use crate::io::time::Time;

/// The host's tag for a request; the drive returns it with the completion and does not interpret it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestId(pub u64);

/// The kind of command.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Operation {
    /// Read the span.
    Read,
    /// Write the span. Completes when the drive has accepted the data, possibly before it is on the medium.
    Write,
    /// Write the span. Completes only when the data is durable (force unit access).
    WriteFua,
    /// Completes when everything written and completed earlier is durable. Has no span.
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

/// One command to a drive. Offset and length are multiples of the logical sector.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// The host's tag.
    pub id: RequestId,
    /// The kind of command.
    pub operation: Operation,
    /// Offset of the first byte; zero for a flush.
    pub offset: ByteOffset,
    /// Length in bytes; zero for a flush.
    pub length: ByteCount,
}

impl Request {
    /// A request for `length` bytes from `offset` on.
    ///
    /// ```compile_fail,E0308
    /// # use straddle_units::io::{Operation, Request};
    /// # use straddle_units::{ByteCount, ByteOffset};
    /// let (offset, length) = (ByteOffset::new(4096), ByteCount::new(512));
    /// let swapped = Request::new(1, Operation::Write, length, offset);
    /// ```
    pub const fn new(id: u64, operation: Operation, offset: ByteOffset, length: ByteCount) -> Self {
        Self { id: RequestId(id), operation, offset, length }
    }

    /// A flush of the volatile write cache.
    pub const fn flush(id: u64) -> Self {
        Self::new(id, Operation::Flush, ByteOffset::ZERO, ByteCount::ZERO)
    }
}

/// The completion of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Completion {
    /// The request that completed.
    pub id: RequestId,
    /// When the host sees the completion.
    pub at: Time,
}

/// Why a drive rejects a request; nothing has been changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs, reason = "the messages document the variants")]
pub enum Refusal {
    #[error("the request at byte {offset} has a length of 0")]
    Empty { offset: u64 },
    #[error(
        "byte {offset}, length {length}: the request is not aligned to the {sector}-byte logical sectors"
    )]
    NotWholeSectors { offset: u64, length: u64, sector: u64 },
    #[error(
        "byte {offset}, length {length}: the request extends past the end of the drive ({capacity} bytes)"
    )]
    PastEnd { offset: u64, length: u64, capacity: u64 },
    #[error("the drive does not support discard")]
    NoDiscard,
    #[error("the request was submitted at {at}, but the drive's clock is already at {now}")]
    InThePast { at: Time, now: Time },
}
