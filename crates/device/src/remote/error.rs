use std::io;
use std::time::Duration;

use straddle_units::{ByteCount, ByteOffset, ErrorKind};

/// A failure to read an object.
#[derive(Debug, thiserror::Error)]
#[error("cannot fetch byte {at}")]
pub struct RemoteError {
    /// The first byte that could not be fetched.
    pub at: ByteOffset,
    /// Why not.
    #[source]
    pub source: FetchError,
}

impl RemoteError {
    pub(crate) fn new(at: u64, source: FetchError) -> Self {
        Self { at: ByteOffset::new(at), source }
    }

    /// Returns the class of this failure.
    pub fn kind(&self) -> ErrorKind {
        self.source.kind()
    }

    /// Whether the object is known to have no bytes.
    pub fn is_empty(&self) -> bool {
        matches!(self.source, FetchError::Empty)
    }
}

/// Why a range of an object cannot be fetched. No text of a server is in it but single words, and no secret.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages document the variants")]
pub enum FetchError {
    #[error("timed out after {} seconds (--time-limit)", limit.as_secs())]
    TimedOut { limit: Duration },
    #[error("{host} did not respond in time")]
    Slow { host: String },
    #[error("the check would fetch more than {limit}; download the image, then check the downloaded file")]
    TooMuch { limit: ByteCount },
    #[error("unknown host {host}")]
    UnknownHost { host: String },
    #[error("the connection to {host} failed")]
    Connection {
        host: String,
        #[source]
        source: io::Error,
    },
    #[error(
        "this machine has no certificates with which to verify {host}; install ca-certificates, or set \
         SSL_CERT_FILE to a certificate file"
    )]
    NoCertificates { host: String },
    #[error("{host} sent an invalid HTTP response: {what}")]
    Protocol { host: String, what: String },
    #[error("{host} returned {status}{}{}", code.as_ref().map_or_else(String::new, |code| format!(" ({code})")), hint.map_or_else(String::new, |hint| format!(": {hint}")))]
    Status { host: String, status: String, code: Option<String>, hint: Option<&'static str> },
    #[error("the bucket is in another region; set AWS_REGION={region}")]
    Region { region: String },
    #[error("{host} ignores range requests, so straddle would have to download the whole object{}", len.map_or_else(String::new, |len| format!(", {len}")))]
    NoRanges { host: String, len: Option<ByteCount> },
    #[error("{host} sent a range other than bytes {first} to {last}: {what}")]
    WrongRange { host: String, first: u64, last: u64, what: String },
    #[error("{host} sent {have} bytes, but announced {want}")]
    WrongLength { host: String, have: String, want: u64 },
    #[error("the object changed while it was being read ({what}); check it again")]
    Changed { what: &'static str },
    #[error("the object is empty (0 bytes)")]
    Empty,
    #[error("{host} redirects {what}")]
    Redirect { host: String, what: String },
    #[error("{what}{}", hint.map_or_else(String::new, |hint| format!(" ({hint})")))]
    Store { what: String, hint: Option<&'static str> },
    #[error("cannot get credentials from {host}{}", hint.map_or_else(String::new, |hint| format!(" ({hint})")))]
    Credentials {
        host: String,
        hint: Option<&'static str>,
        #[source]
        source: Box<FetchError>,
    },
}

straddle_units::error_kind!(FetchError: Failed);

impl FetchError {
    pub(crate) fn is_passing(&self) -> bool {
        match self {
            Self::Slow { .. } | Self::WrongLength { .. } => true,
            // Nobody listens there, or TLS refuses the certificate.
            Self::Connection { source, .. } => {
                !matches!(source.kind(), io::ErrorKind::ConnectionRefused | io::ErrorKind::InvalidData)
            }
            Self::Status { status, .. } => {
                ["408", "429", "500", "502", "503", "504"].iter().any(|passing| status.starts_with(passing))
            }
            _ => false,
        }
    }
}
