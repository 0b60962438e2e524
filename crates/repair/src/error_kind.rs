//! The kind of each error.

use crate::apply::{ApplyError, BackupError};
use crate::error::PlanError;
use crate::target::TargetError;
use straddle_device::OpenError;

straddle_units::error_kind! {
    PlanError: Refused;
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
    | Self::NoSuchPartition(_) => Usage,
    Self::NoTable { .. } | Self::Invalid(_) | Self::Read(_) => Failed,
}

straddle_units::error_kind! {
    ApplyError: Refused;
    Self::Plan(error) => error.kind(),
    Self::Backup(error) => error.kind(),
    Self::Read(_)
    | Self::Write { .. }
    | Self::Flush { .. }
    | Self::Differs { .. }
    | Self::OtherTable(_)
    | Self::Kernel(_) => Failed,
}

straddle_units::error_kind!(BackupError: Failed);

straddle_units::error_kind! {
    TargetError: Refused;
    Self::Partition(_) => Usage,
    Self::Open(OpenError::NotRead { .. } | OpenError::Image(_))
    | Self::NotRaw(_)
    | Self::Zoned(_)
    | Self::ReadOnly
    | Self::InUse(_)
    | Self::Replaced => Refused,
    Self::Open(error) => error.kind(),
    Self::Io(_) => Failed,
}
