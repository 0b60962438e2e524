//! Of which kind each error is.

use straddle_units::ErrorKind;

use crate::connection::VhostError;

impl VhostError {
    /// What kind of failure it is.
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
