//! The kinds of failure that errors have in common.

use crate::size::ParseSizeError;

/// What kind of failure an error is. Callers, and the exit code, go by it and not by its text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ErrorKind {
    /// What was asked for cannot be understood, or contradicts itself.
    Usage,
    /// Refused for safety.
    Refused,
    /// It was tried and did not succeed.
    Failed,
    /// Ended by the user.
    Interrupted,
}

impl ParseSizeError {
    /// What kind of failure it is.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::NotANumber(_) | Self::UnknownUnit(_) | Self::DecimalUnit(_) | Self::TooLarge(_) => {
                ErrorKind::Usage
            }
        }
    }
}
