//! The [`ErrorKind`] of each error of this crate.

use straddle_units::ErrorKind;

use crate::endpoint::EndpointError;
use crate::server::ServerError;

impl ServerError {
    /// Returns the class of this failure.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Endpoint(error) => error.kind(),
            Self::System(_) | Self::Store(_) => ErrorKind::Failed,
        }
    }
}

impl EndpointError {
    /// Returns the class of this failure.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::InUse(_) | Self::NotASocket(_) | Self::Remote(_) => ErrorKind::Refused,
            Self::Failed { .. } => ErrorKind::Failed,
        }
    }
}
