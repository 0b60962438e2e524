//! Why an object cannot be read.

use std::io;
use std::time::Duration;

use straddle_units::{ByteCount, ByteOffset, ErrorKind};

/// A failure to read an object.
#[derive(Debug, thiserror::Error)]
#[error("byte {at}: cannot fetch")]
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
pub enum FetchError {
    /// The time for this object is used up.
    #[error("timed out after {} seconds (--time-limit)", limit.as_secs())]
    TimedOut {
        /// The time that it had.
        limit: Duration,
    },
    /// One request took too long.
    #[error("{host} does not answer in time")]
    Slow {
        /// The server.
        host: String,
    },
    /// The bytes allowed for this object are used up.
    #[error("more than {limit} would have to be received: fetch it, and check the file")]
    TooMuch {
        /// How many bytes were allowed.
        limit: ByteCount,
    },
    /// The name of the host has no address.
    #[error("the host {host} is not known")]
    UnknownHost {
        /// The server.
        host: String,
    },
    /// The connection could not be made, or broke.
    #[error("the connection to {host} failed")]
    Connection {
        /// The server.
        host: String,
        /// The error of the operating system or of TLS.
        #[source]
        source: io::Error,
    },
    /// The machine has no certificates of authorities.
    #[error(
        "this machine has no certificates to check {host} with: install ca-certificates, or name a file of them in SSL_CERT_FILE"
    )]
    NoCertificates {
        /// The server.
        host: String,
    },
    /// The answer is not HTTP, or something in it is longer than is read.
    #[error("{host} does not speak HTTP as expected: {what}")]
    Protocol {
        /// The server.
        host: String,
        /// What is wrong, printable.
        what: String,
    },
    /// An error status.
    #[error("{host} answers {status}{}{}", code.as_ref().map_or_else(String::new, |code| format!(" ({code})")), hint.map_or_else(String::new, |hint| format!(": {hint}")))]
    Status {
        /// The server.
        host: String,
        /// The status and its name.
        status: String,
        /// The error's code in a bucket store's XML: letters only.
        code: Option<String>,
        /// What to do.
        hint: Option<&'static str>,
    },
    /// The bucket is in another region than the one configured.
    #[error("the bucket is in the region {region}: set AWS_REGION")]
    Region {
        /// The region: letters, digits and dashes.
        region: String,
    },
    /// Ranges are ignored, so that the object would have to be fetched whole.
    #[error("{host} ignores ranges: the whole object would have to be fetched{}", len.map_or_else(String::new, |len| format!(", {len}")))]
    NoRanges {
        /// The server.
        host: String,
        /// How much would have to be fetched, if known.
        len: Option<ByteCount>,
    },
    /// Another range was sent than was asked for.
    #[error("{host} sends another range than bytes {first} to {last}: {what}")]
    WrongRange {
        /// The server.
        host: String,
        /// The first byte asked for.
        first: u64,
        /// The last byte asked for.
        last: u64,
        /// What it says that it sends, printable.
        what: String,
    },
    /// The contents of an answer are not as long as it says.
    #[error("{host} sends {have} bytes, and said that it sends {want}")]
    WrongLength {
        /// The server.
        host: String,
        /// How many bytes were received.
        have: String,
        /// How many bytes the range has.
        want: u64,
    },
    /// The object is not the one that was opened any more.
    #[error("it changed while it was read ({what}): check it again")]
    Changed {
        /// What differs.
        what: &'static str,
    },
    /// The object has no bytes.
    #[error("is empty (0 bytes)")]
    Empty,
    /// A redirect cannot be followed.
    #[error("{host} redirects {what}")]
    Redirect {
        /// The server.
        host: String,
        /// Where to, and why that is not followed.
        what: String,
    },
    /// The credentials or the settings of a bucket store are not complete.
    #[error("{what}{}", hint.map_or_else(String::new, |hint| format!(" ({hint})")))]
    Store {
        /// What is wrong, printable.
        what: String,
        /// What to do.
        hint: Option<&'static str>,
    },
    /// Credentials for the object could not be fetched.
    #[error("no credentials from {host}{}", hint.map_or_else(String::new, |hint| format!(" ({hint})")))]
    Credentials {
        /// The server that was asked for them.
        host: String,
        /// What to do.
        hint: Option<&'static str>,
        /// Why not.
        #[source]
        source: Box<FetchError>,
    },
}

impl FetchError {
    /// Returns the class of this failure.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::TimedOut { .. }
            | Self::Slow { .. }
            | Self::TooMuch { .. }
            | Self::UnknownHost { .. }
            | Self::Connection { .. }
            | Self::NoCertificates { .. }
            | Self::Protocol { .. }
            | Self::Status { .. }
            | Self::Region { .. }
            | Self::NoRanges { .. }
            | Self::WrongRange { .. }
            | Self::WrongLength { .. }
            | Self::Changed { .. }
            | Self::Empty
            | Self::Redirect { .. }
            | Self::Store { .. }
            | Self::Credentials { .. } => ErrorKind::Failed,
        }
    }

    /// Whether another attempt may succeed.
    pub(crate) fn is_passing(&self) -> bool {
        match self {
            Self::Slow { .. } | Self::WrongLength { .. } => true,
            Self::Connection { source, .. } => !matches!(
                source.kind(),
                // Nobody listens there, or TLS refuses the certificate.
                io::ErrorKind::ConnectionRefused | io::ErrorKind::InvalidData
            ),
            Self::Status { status, .. } => {
                ["408", "429", "500", "502", "503", "504"].iter().any(|passing| status.starts_with(passing))
            }
            _ => false,
        }
    }
}
