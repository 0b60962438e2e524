//! Maps each error to its kind.

use straddle_units::ErrorKind;

use crate::columns::ColumnsError;
use crate::error::{LineError, ParquetError, TableError, TraceError, WriteError};

impl TraceError {
    /// Returns the kind of the failure.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Line { source, .. } => source.kind(),
            Self::Parquet { source, .. } => source.kind(),
            Self::Table { source, .. } => source.kind(),
            Self::Write { source, .. } => source.kind(),
            Self::Read { .. } | Self::NoTimes { .. } => ErrorKind::Failed,
            Self::Depth { .. } => ErrorKind::Usage,
        }
    }
}

impl LineError {
    /// Returns the kind of the failure.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Unknown
            | Self::NotBinary { .. }
            | Self::Piped
            | Self::Cut
            | Self::Magic { .. }
            | Self::NoColumn { .. }
            | Self::NoSuchColumn { .. }
            | Self::TwoColumns { .. }
            | Self::Missing { .. }
            | Self::Field { .. }
            | Self::Long { .. }
            | Self::Volumes { .. }
            | Self::LongName { .. }
            | Self::TooFar { .. }
            | Self::NotText
            | Self::PastEnd { .. }
            | Self::Refused(_) => ErrorKind::Failed,
        }
    }
}

impl ParquetError {
    /// Returns the kind of the failure.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Table(source) => source.kind(),
            #[cfg(feature = "parquet")]
            Self::Invalid(_) => ErrorKind::Failed,
            #[cfg(not(feature = "parquet"))]
            Self::NotBuilt => ErrorKind::Failed,
            Self::Large { .. } | Self::Rows { .. } | Self::Damaged { .. } => ErrorKind::Failed,
        }
    }
}

impl TableError {
    /// Returns the kind of the failure.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::NoColumn { .. } | Self::TwoColumns { .. } | Self::Batch { .. } | Self::Type { .. } => {
                ErrorKind::Failed
            }
        }
    }
}

impl WriteError {
    /// Returns the kind of the failure.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Io(_) | Self::Parquet(_) | Self::Backwards { .. } | Self::Name { .. } => ErrorKind::Failed,
        }
    }
}

impl ColumnsError {
    /// Returns the kind of the failure.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Form { .. } | Self::Quantity { .. } | Self::Unit { .. } | Self::Twice { .. } => {
                ErrorKind::Usage
            }
        }
    }
}
