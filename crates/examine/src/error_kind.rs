//! Of which kind each error is.

use straddle_units::ErrorKind;

use crate::ExamineError;

impl ExamineError {
    /// What kind of failure it is.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Open(error) => error.kind(),
            Self::Read(error) => error.kind(),
            Self::Gone(_) => ErrorKind::Failed,
        }
    }
}
