//! Maps each error to its kind.

use straddle_units::ErrorKind;

use crate::experiment::ExperimentError;
use crate::fit::FitError;
use crate::lab::input::InputError;
use crate::lab::{LabError, ReproduceError};

impl ExperimentError {
    /// Returns the kind of the failure.
    pub fn kind(&self) -> ErrorKind {
        match self {
            // A workload of an experiment does not come from the command line, so its errors are not usage
            // errors.
            Self::Run { source, .. } => match source.kind() {
                ErrorKind::Interrupted => ErrorKind::Interrupted,
                ErrorKind::Usage | ErrorKind::Refused | ErrorKind::Failed => ErrorKind::Failed,
            },
            Self::Unknown { .. }
            | Self::Unreadable { .. }
            | Self::Syntax { .. }
            | Self::Impossible { .. }
            | Self::Drive { .. } => ErrorKind::Usage,
        }
    }
}

impl FitError {
    /// Returns the kind of the failure.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Drive(error) => error.kind(),
            // The named profile, or a shipped experiment, is at fault.
            Self::Experiment(error) => match error.kind() {
                ErrorKind::Interrupted => ErrorKind::Interrupted,
                ErrorKind::Usage | ErrorKind::Refused | ErrorKind::Failed => ErrorKind::Failed,
            },
            Self::NoFit { .. } | Self::NoFigures { .. } | Self::Knob { .. } => ErrorKind::Usage,
        }
    }
}

impl InputError {
    /// Returns the kind of the failure.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Unwritable { .. } => ErrorKind::Failed,
            Self::NotAnInput { .. } => ErrorKind::Usage,
        }
    }
}

impl ReproduceError {
    /// Returns the kind of the failure.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Input(error) => error.kind(),
            Self::Machine { source, .. } => source.kind(),
        }
    }
}

impl LabError {
    /// Returns the kind of the failure.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Guest(error) => error.kind(),
            Self::Drive(_) | Self::Io { .. } | Self::Failed(_) => ErrorKind::Failed,
            Self::InUse { .. } => ErrorKind::Refused,
            Self::Interrupted => ErrorKind::Interrupted,
        }
    }
}
