//! Of which kind each error is.

use straddle_units::ErrorKind;

use crate::job::GuestError;

impl GuestError {
    /// What kind of failure it is.
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
