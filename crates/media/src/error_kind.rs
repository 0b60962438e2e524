//! The [`ErrorKind`] of each error of this crate.

use straddle_units::ErrorKind;

use crate::served::MediaError;
use crate::store::StoreError;

impl MediaError {
    /// Returns the class of this failure.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Refused(_) | Self::Off | Self::Payload { .. } | Self::NotKept | Self::Store(_) => {
                ErrorKind::Failed
            }
        }
    }
}

impl StoreError {
    /// Returns the class of this failure.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Unusable { .. } => ErrorKind::Failed,
            Self::NotAFile { .. } | Self::OtherSize { .. } | Self::InUse { .. } => ErrorKind::Refused,
        }
    }
}
