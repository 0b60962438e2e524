//! The [`ErrorKind`] of each error of this crate.

use straddle_units::ErrorKind;

use crate::connection::VhostError;

impl VhostError {
    /// Returns the class of this failure.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Socket { .. }
            | Self::Protocol { .. }
            | Self::Ring(_)
            | Self::Broken { .. }
            | Self::MemoryLost => ErrorKind::Failed,
        }
    }
}
