//! Of which kind each error is.

use straddle_units::ErrorKind;

use crate::disk::{GeometryError, SeekError};
use crate::disksim::ImportError;
use crate::profile::ProfileError;
use crate::ssd::FlashError;

impl ProfileError {
    /// What kind of failure it is.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Unknown { .. }
            | Self::Unreadable { .. }
            | Self::Syntax { .. }
            | Self::UnknownOption { .. }
            | Self::Circular { .. }
            | Self::Impossible { .. }
            | Self::Geometry { .. }
            | Self::Flash { .. }
            | Self::Seek { .. } => ErrorKind::Usage,
        }
    }
}

impl ImportError {
    /// What kind of failure it is.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Unreadable { .. }
            | Self::Elsewhere { .. }
            | Self::Syntax { .. }
            | Self::Missing { .. }
            | Self::Value { .. }
            | Self::Geometry { .. }
            | Self::Seek { .. } => ErrorKind::Usage,
        }
    }
}

impl GeometryError {
    /// What kind of failure it is.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Count { .. } | Self::TooSmall { .. } => ErrorKind::Usage,
        }
    }
}

impl SeekError {
    /// What kind of failure it is.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Time { .. } | Self::Falling { .. } | Self::Order { .. } => ErrorKind::Usage,
        }
    }
}

impl FlashError {
    /// What kind of failure it is.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::PowerOfTwo { .. }
            | Self::Count { .. }
            | Self::Quantity { .. }
            | Self::UnitLargerThanSuperblock { .. }
            | Self::SuperblockTooLarge { .. }
            | Self::Capacity { .. }
            | Self::TooLarge { .. }
            | Self::TooLittleSpare { .. } => ErrorKind::Usage,
        }
    }
}
