//! The kind of each error.

use straddle_units::ErrorKind;

use crate::{ChangeError, ExamineError, ExceptionError};

impl ExamineError {
    /// Returns the kind of failure.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Open(error) => error.kind(),
            Self::Read(error) => error.kind(),
            #[cfg(feature = "remote")]
            Self::Remote(error) => error.kind(),
            #[cfg(not(feature = "remote"))]
            Self::NotBuilt => ErrorKind::Failed,
            Self::Gone(_) | Self::OutOfReach(_) => ErrorKind::Failed,
        }
    }
}

impl ChangeError {
    /// Returns the kind of failure.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Target(error) => error.kind(),
            Self::Open(error) => error.kind(),
            Self::Read(error) => error.kind(),
            Self::NoBytes(_) => ErrorKind::Failed,
            Self::OwnSectors => ErrorKind::Usage,
            Self::Unrecognised(..) => ErrorKind::Refused,
        }
    }
}

impl ExceptionError {
    /// Returns the kind of failure.
    pub const fn kind(&self) -> ErrorKind {
        ErrorKind::Usage
    }
}
