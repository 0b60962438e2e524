//! Maps each error to its kind.

use straddle_units::ErrorKind;

use crate::error::{LineError, TraceError};

impl TraceError {
    /// Returns the kind of the failure.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Line { source, .. } => source.kind(),
            Self::Read { .. } => ErrorKind::Failed,
            Self::Depth { .. } => ErrorKind::Usage,
        }
    }
}

impl LineError {
    /// Returns the kind of the failure.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Unknown
            | Self::NoColumn { .. }
            | Self::TwoColumns { .. }
            | Self::Missing { .. }
            | Self::Field { .. }
            | Self::Long { .. }
            | Self::Volumes { .. }
            | Self::LongName { .. }
            | Self::TooFar { .. }
            | Self::NotText
            | Self::Backwards
            | Self::PastEnd { .. }
            | Self::Refused(_) => ErrorKind::Failed,
        }
    }
}
