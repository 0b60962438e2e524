//! The kind of each error.

use straddle_units::ErrorKind;

use crate::ExamineError;

impl ExamineError {
    /// Returns the kind of failure.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Open(error) => error.kind(),
            Self::Read(error) => error.kind(),
            Self::Gone(_) => ErrorKind::Failed,
        }
    }
}
