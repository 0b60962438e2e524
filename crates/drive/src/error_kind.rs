//! The kind of each error.

use straddle_units::ErrorKind;

use crate::disk::{GeometryError, SeekError};
use crate::disksim::ImportError;
use crate::profile::{ProfileError, StartError};
use crate::ssd::FlashError;

impl ProfileError {
    /// The kind of failure.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Unknown { .. }
            | Self::Unreadable { .. }
            | Self::Syntax { .. }
            | Self::UnknownOption { .. }
            | Self::Circular { .. }
            | Self::NotShipped { .. }
            | Self::Elsewhere { .. }
            | Self::Impossible { .. }
            | Self::Geometry { .. }
            | Self::Flash { .. }
            | Self::Seek { .. } => ErrorKind::Usage,
        }
    }
}

impl StartError {
    /// The kind of failure.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::InsideSector { .. } | Self::PastEnd { .. } => ErrorKind::Usage,
        }
    }
}

impl ImportError {
    /// The kind of failure.
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
    /// The kind of failure.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Count { .. } | Self::TooSmall { .. } => ErrorKind::Usage,
        }
    }
}

impl SeekError {
    /// The kind of failure.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Time { .. } | Self::Falling { .. } | Self::Order { .. } => ErrorKind::Usage,
        }
    }
}

impl FlashError {
    /// The kind of failure.
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
