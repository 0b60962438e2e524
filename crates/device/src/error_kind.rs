//! The [`ErrorKind`] of each error of this crate.

use straddle_units::ErrorKind;

use crate::assume::AssumeError;
use crate::claim::LockError;
use crate::identify::IdentifyError;
use crate::image::{ImageError, UnpackError};
use crate::ioctl::IoctlError;
use crate::medium::ReadError;
use crate::target::OpenError;

impl OpenError {
    /// Returns the class of this failure.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Io(_)
            | Self::NotATarget(_)
            | Self::Directory
            | Self::Empty
            | Self::NoMedium
            | Self::NotRead { .. }
            | Self::Whole { .. }
            | Self::Unpack { .. }
            | Self::Image(_)
            | Self::Allowed { .. }
            | Self::Standby { .. }
            | Self::Power(_)
            | Self::NoSuchDevice(_)
            | Self::BadSysfs { .. } => ErrorKind::Failed,
        }
    }
}

impl ReadError {
    /// Returns the class of this failure.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::PastEnd { .. }
            | Self::Unmapped { .. }
            | Self::Image { .. }
            | Self::Fetch { .. }
            | Self::Io { .. } => ErrorKind::Failed,
        }
    }
}

impl ImageError {
    /// Returns the class of this failure.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Damaged { .. }
            | Self::Unsupported { .. }
            | Self::NotOpened { .. }
            | Self::Open { .. }
            | Self::TooDeep { .. }
            | Self::Other { .. }
            | Self::NotRead(_)
            | Self::Read { .. } => ErrorKind::Failed,
        }
    }
}

impl UnpackError {
    /// Returns the class of this failure.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Damaged { .. } | Self::TooLarge { .. } | Self::Scratch { .. } => ErrorKind::Failed,
        }
    }
}

impl IdentifyError {
    /// Returns the class of this failure.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Short { .. }
            | Self::Blank { .. }
            | Self::Checksum { .. }
            | Self::Kind { .. }
            | Self::LogicalBlock { .. }
            | Self::LbaFormat { .. } => ErrorKind::Failed,
        }
    }
}

impl IoctlError {
    /// Returns the class of this failure.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Unsupported { .. }
            | Self::Os { .. }
            | Self::Sense { .. }
            | Self::Transport { .. }
            | Self::Ata { .. }
            | Self::Nvme { .. }
            | Self::Short { .. } => ErrorKind::Failed,
        }
    }
}

impl LockError {
    /// Returns the class of this failure.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Locked | Self::Opened | Self::Used(_) => ErrorKind::Refused,
            Self::Io(_) => ErrorKind::Failed,
        }
    }
}

impl AssumeError {
    /// Returns the class of this failure.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::UnknownWord(_)
            | Self::Size { .. }
            | Self::Logical(_)
            | Self::Twice(_)
            | Self::Impossible { .. } => ErrorKind::Usage,
        }
    }
}
