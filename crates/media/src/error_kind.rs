//! Of which kind each error is.

use straddle_units::ErrorKind;

use crate::served::MediaError;
use crate::store::StoreError;

impl MediaError {
    /// What kind of failure it is.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Refused(_) | Self::Off | Self::Payload { .. } | Self::NotKept | Self::Store(_) => {
                ErrorKind::Failed
            }
        }
    }
}

impl StoreError {
    /// What kind of failure it is.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Unusable { .. } => ErrorKind::Failed,
            Self::NotAFile { .. } | Self::OtherSize { .. } | Self::InUse { .. } => ErrorKind::Refused,
        }
    }
}
