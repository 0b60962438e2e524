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
            | Self::NotASector { .. } => ErrorKind::Usage,
            Self::Misaligned { .. }
            | Self::WouldDestroy { .. }
            | Self::WouldReplace { .. }
            | Self::WouldHarm { .. }
            | Self::NotItsTable { .. }
            | Self::TwoOwners { .. }
            | Self::TwoSteps(_)
            | Self::InTheWay(_)
            | Self::Unchangeable(_)
            | Self::Unfinished
            | Self::CannotConvert(_)
            | Self::MovesData(_)
            | Self::Overlap { .. } => ErrorKind::Refused,
            Self::NoTable { .. }
            | Self::TableFull(_)
            | Self::TooBig { .. }
            | Self::Outside { .. }
            | Self::NoSuchPartition(_)
            | Self::CannotGrow { .. }
            | Self::Invalid(_)
            | Self::DiskTooSmall(_)
            | Self::Read(_) => ErrorKind::Failed,
        }
    }
}

impl ApplyError {
    /// Returns the kind of failure.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::OtherDisk(_) | Self::WouldDiffer(_) | Self::WrittenSince { .. } | Self::InUse(_) => {
                ErrorKind::Refused
            }
            Self::Plan(error) => error.kind(),
            Self::Backup(error) => error.kind(),
            Self::Read(_) | Self::Write { .. } | Self::Differs { .. } | Self::Kernel(_) => ErrorKind::Failed,
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

#[cfg(test)]
mod tests {
    use std::error::Error;
    use std::io;

    use straddle_device::ReadError;
    use straddle_units::ByteOffset;

    use super::*;
    use crate::realign::RealignError;
    use crate::{Request, Seed, parse_file};

    /// Every error that has a cause, and at least one without a cause of each type.
    fn samples() -> Vec<Box<dyn Error>> {
        let cause = || io::Error::other("the cause");
        let read = || ReadError::Io { at: ByteOffset::ZERO, source: cause() };
        let toml = parse_file("[", &mut Request::new(Seed(1))).unwrap_err();
        assert!(matches!(toml, PlanError::Toml(_)));
        let stored = || BackupError::Store { path: "undo".into(), source: cause() };
        vec![
            Box::new(toml),
            Box::new(PlanError::Read(read())),
            Box::new(PlanError::Nothing),
            Box::new(ApplyError::Read(read())),
            Box::new(ApplyError::Plan(PlanError::Read(read()))),
            Box::new(ApplyError::Backup(stored())),
            Box::new(ApplyError::Write { what: "the MBR".to_owned(), at: 0, source: cause() }),
            Box::new(ApplyError::InUse("mounted".to_owned())),
            Box::new(stored()),
            Box::new(BackupError::Load { path: "undo".into(), source: cause() }),
            Box::new(BackupError::Damaged { path: "undo".into(), why: "its sum".to_owned() }),
            Box::new(TargetError::Io(cause())),
            Box::new(TargetError::Open(OpenError::Io(cause()))),
            Box::new(TargetError::Replaced),
            Box::new(RealignError::Table(PlanError::Read(read()))),
            Box::new(RealignError::Moves(straddle_relocate::RelocateError::Job("why".to_owned()))),
        ]
    }

    #[test]
    fn no_error_says_what_its_cause_says() {
        for sample in samples() {
            let mut error: &dyn Error = &*sample;
            while let Some(cause) = error.source() {
                let (text, of_cause) = (error.to_string(), cause.to_string());
                assert!(!text.contains(&of_cause), "'{text}' repeats '{of_cause}'");
                error = cause;
            }
        }
    }
}
