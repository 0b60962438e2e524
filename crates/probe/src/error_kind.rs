//! Maps each error to its kind.

use straddle_units::ErrorKind;

use crate::budget::ProbeError;

impl ProbeError {
    /// Returns the kind of the failure.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Target(error) => error.kind(),
            Self::TooSmall { .. } | Self::Sector(_) => ErrorKind::Usage,
        }
    }
}
