//! What becomes durable inside a drive, for those who keep its contents.

use straddle_io::Time;

/// What happened to data inside the drive, for those who keep the contents; spans are bytes as the host counts them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MediaEvent {
    /// What the buffer holds of this span now is what will be on the medium at the matching [`MediaEvent::Stored`].
    Storing {
        /// When the write began.
        at: Time,
        /// First byte.
        offset: u64,
        /// Number of bytes.
        length: u64,
    },
    /// The span, as it was when it began to be stored, is durable.
    Stored {
        /// When the last byte was on the medium.
        at: Time,
        /// First byte.
        offset: u64,
        /// Number of bytes.
        length: u64,
    },
    /// The span no longer has contents.
    Discarded {
        /// When it took effect.
        at: Time,
        /// First byte.
        offset: u64,
        /// Number of bytes.
        length: u64,
    },
}
