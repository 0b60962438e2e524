//! Of which kind each error is.

use straddle_units::ErrorKind;

use crate::endpoint::EndpointError;
use crate::server::ServerError;

impl ServerError {
    /// What kind of failure it is.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Endpoint(error) => error.kind(),
            Self::System(_) | Self::Store(_) => ErrorKind::Failed,
        }
    }
}

impl EndpointError {
    /// What kind of failure it is.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::InUse(_) | Self::NotASocket(_) | Self::Remote(_) => ErrorKind::Refused,
            Self::Failed { .. } => ErrorKind::Failed,
        }
    }
}
