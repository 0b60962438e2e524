//! The kinds of failure that all errors share.

use crate::size::ParseSizeError;

/// What kind of failure an error is. Callers and the exit code depend on it, not on the error's text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ErrorKind {
    /// The request cannot be understood, or contradicts itself.
    Usage,
    /// Refused for safety.
    Refused,
    /// The attempt did not succeed.
    Failed,
    /// The user ended it.
    Interrupted,
}

impl ParseSizeError {
    /// Returns the kind of failure.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::NotANumber(_) | Self::UnknownUnit(_) | Self::DecimalUnit(_) | Self::TooLarge(_) => {
                ErrorKind::Usage
            }
        }
    }
}
