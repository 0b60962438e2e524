//! The [`ErrorKind`] of each error of this crate.

use straddle_units::ErrorKind;

use crate::job::GuestError;

impl GuestError {
    /// Returns the class of this failure.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Host { .. }
            | Self::Io { .. }
            | Self::Drive { .. }
            | Self::Contents { .. }
            | Self::Hung { .. }
            | Self::Died { .. } => ErrorKind::Failed,
            Self::Interrupted => ErrorKind::Interrupted,
        }
    }
}
