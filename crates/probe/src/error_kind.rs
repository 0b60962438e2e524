//! Of which kind each error is.

use straddle_units::ErrorKind;

use crate::budget::ProbeError;

impl ProbeError {
    /// What kind of failure it is.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Target(error) => error.kind(),
            Self::TooSmall { .. } | Self::Sector(_) => ErrorKind::Usage,
        }
    }
}
