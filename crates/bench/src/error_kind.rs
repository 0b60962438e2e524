//! The [`ErrorKind`] of each error of this crate.

use straddle_units::ErrorKind;

use crate::fio::FioError;
use crate::run::RunError;
use crate::target::TargetError;
use crate::workload::WorkloadError;

impl WorkloadError {
    /// Returns the class of this failure.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Zero { .. }
            | Self::NotWholeSectors { .. }
            | Self::DoesNotFit { .. }
            | Self::Seconds { .. } => ErrorKind::Usage,
        }
    }
}

impl RunError {
    /// Returns the class of this failure.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Workload(error) => error.kind(),
            Self::Target { source, .. } => source.kind(),
            Self::NoOffsets | Self::Offset { .. } => ErrorKind::Usage,
        }
    }
}

impl TargetError {
    /// Returns the class of this failure.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Refused { .. } | Self::Failed { .. } | Self::Stalled { .. } | Self::Idle => {
                ErrorKind::Failed
            }
            Self::Interrupted => ErrorKind::Interrupted,
        }
    }
}

impl FioError {
    /// Returns the class of this failure.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Workload(_) | Self::Name(_) | Self::Fit(_) => ErrorKind::Usage,
            Self::Json(_) | Self::Job { .. } | Self::Empty => ErrorKind::Failed,
        }
    }
}
