//! Of which kind each error is.

use straddle_units::ErrorKind;

use crate::experiment::ExperimentError;
use crate::fit::FitError;
use crate::lab::input::InputError;
use crate::lab::{LabError, ReproduceError};

impl ExperimentError {
    /// What kind of failure it is.
    pub fn kind(&self) -> ErrorKind {
        match self {
            // A workload of an experiment is not of the command line.
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
    /// What kind of failure it is.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Drive(error) => error.kind(),
            // The profile that was named is at fault, or a shipped experiment.
            Self::Experiment(error) => match error.kind() {
                ErrorKind::Interrupted => ErrorKind::Interrupted,
                ErrorKind::Usage | ErrorKind::Refused | ErrorKind::Failed => ErrorKind::Failed,
            },
            Self::NoFit { .. } | Self::NoFigures { .. } | Self::Knob { .. } => ErrorKind::Usage,
        }
    }
}

impl InputError {
    /// What kind of failure it is.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Unwritable { .. } => ErrorKind::Failed,
            Self::NotAnInput { .. } => ErrorKind::Usage,
        }
    }
}

impl ReproduceError {
    /// What kind of failure it is.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Input(error) => error.kind(),
            Self::Machine { source, .. } => source.kind(),
        }
    }
}

impl LabError {
    /// What kind of failure it is.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Guest(error) => error.kind(),
            Self::Drive(_) | Self::Io { .. } | Self::Failed(_) => ErrorKind::Failed,
            Self::InUse { .. } => ErrorKind::Refused,
            Self::Interrupted => ErrorKind::Interrupted,
        }
    }
}
