//! Reports of what becomes durable inside a drive, for code that keeps the drive's contents.

use straddle_units::io::Time;

/// A change to what the medium holds, for code that keeps the contents. Spans are byte offsets as the host
/// counts them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MediaEvent {
    /// The drive begins to store the span. The data that its buffer holds now is what will be on the medium
    /// at the matching [`MediaEvent::Stored`].
    Storing {
        /// When the write began.
        at: Time,
        /// First byte.
        offset: u64,
        /// Number of bytes.
        length: u64,
    },
    /// The span is durable, with the data that it had at the matching [`MediaEvent::Storing`].
    Stored {
        /// When the last byte was on the medium.
        at: Time,
        /// First byte.
        offset: u64,
        /// Number of bytes.
        length: u64,
    },
    /// The span was discarded and no longer has contents.
    Discarded {
        /// When it took effect.
        at: Time,
        /// First byte.
        offset: u64,
        /// Number of bytes.
        length: u64,
    },
}
