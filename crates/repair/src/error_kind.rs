//! The kind of each error.

use straddle_device::OpenError;
use straddle_units::ErrorKind;

use crate::apply::{ApplyError, BackupError};
use crate::error::PlanError;
use crate::target::TargetError;

impl PlanError {
    /// Returns the kind of failure.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Syntax(_)
            | Self::Toml(_)
            | Self::Nothing
            | Self::Contradiction(_)
            | Self::UnknownType { .. }
            | Self::GptOnly { .. }
            | Self::ReservedType { .. }
            | Self::TooManyPrimaries
            | Self::Percents(_)
            | Self::TwoRests
            | Self::Empty(_)
            | Self::Name { .. }
            | Self::NotASector { .. }
            | Self::Outside { .. }
            | Self::NoSuchPartition(_) => ErrorKind::Usage,
            Self::Misaligned { .. }
            | Self::WouldDestroy { .. }
            | Self::WouldReplace { .. }
            | Self::WouldHarm { .. }
            | Self::WouldLose { .. }
            | Self::Occupied { .. }
            | Self::OverPartition { .. }
            | Self::Unlisted { .. }
            | Self::NotItsTable { .. }
            | Self::TwoOwners { .. }
            | Self::TwoSteps(_)
            | Self::InTheWay(_)
            | Self::Unchangeable(_)
            | Self::Unfinished
            | Self::CannotConvert(_)
            | Self::MovesData(_)
            | Self::Overlap { .. }
            | Self::TableFull(_)
            | Self::TooBig { .. }
            | Self::BackupInTheWay { .. }
            | Self::CannotGrow { .. }
            | Self::DiskTooSmall(_) => ErrorKind::Refused,
            Self::NoTable { .. } | Self::Invalid(_) | Self::Read(_) => ErrorKind::Failed,
        }
    }
}

impl ApplyError {
    /// Returns the kind of failure.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::OtherDisk(_)
            | Self::Elsewhere { .. }
            | Self::Outgrown { .. }
            | Self::CutShort(_)
            | Self::WouldDiffer(_)
            | Self::WrittenSince { .. }
            | Self::InUse(_) => ErrorKind::Refused,
            Self::Plan(error) => error.kind(),
            Self::Backup(error) => error.kind(),
            Self::Read(_)
            | Self::Write { .. }
            | Self::Flush { .. }
            | Self::Differs { .. }
            | Self::OtherTable(_)
            | Self::Kernel(_) => ErrorKind::Failed,
        }
    }
}

impl BackupError {
    /// Returns the kind of failure.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Store { .. } | Self::Load { .. } | Self::Damaged { .. } => ErrorKind::Failed,
        }
    }
}

impl TargetError {
    /// Returns the kind of failure. A file that is known not to be a raw image is refused, as writing to it
    /// would destroy its contents.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Partition(_) => ErrorKind::Usage,
            Self::Open(OpenError::NotRead { .. } | OpenError::Image(_))
            | Self::NotRaw(_)
            | Self::Zoned(_)
            | Self::ReadOnly
            | Self::InUse(_)
            | Self::Replaced => ErrorKind::Refused,
            Self::Open(error) => error.kind(),
            Self::Io(_) => ErrorKind::Failed,
        }
    }
}
