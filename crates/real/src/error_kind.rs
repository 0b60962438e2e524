//! The kind of each error of this crate.

use straddle_units::ErrorKind;

use crate::area::AreaError;
use crate::journal::JournalError;
use crate::open::OpenError;
use crate::session::SessionError;
use crate::target::RealError;

impl OpenError {
    /// Returns the kind of failure.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::InUse { .. } | Self::NotRaw { .. } | Self::NotNamed { .. } | Self::Unfinished { .. } => {
                ErrorKind::Refused
            }
            Self::Unusable { .. }
            | Self::Replaced { .. }
            | Self::NotATarget { .. }
            | Self::NoDirect { .. }
            | Self::Unseen { .. }
            | Self::Empty { .. } => ErrorKind::Failed,
        }
    }
}

impl AreaError {
    /// Returns the kind of failure.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Look { .. } => ErrorKind::Failed,
            Self::NoTable { .. } | Self::Damaged { .. } | Self::Full { .. } | Self::TooSmall { .. } => {
                ErrorKind::Refused
            }
        }
    }
}

impl RealError {
    /// Returns the kind of failure.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Read { .. } | Self::Depth | Self::OnTheirWay | Self::Ring(_) => ErrorKind::Failed,
        }
    }
}

impl SessionError {
    /// Returns the kind of failure.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::InUse { .. } | Self::Unrestored { .. } => ErrorKind::Refused,
            Self::Target(error) => error.kind(),
            Self::Blind { .. }
            | Self::Journals { .. }
            | Self::Uncompared { .. }
            | Self::Unwritten { .. }
            | Self::Journal(_) => ErrorKind::Failed,
        }
    }
}

impl JournalError {
    /// Returns the kind of failure.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Open { source: OpenError::InUse { .. }, .. } => ErrorKind::Refused,
            Self::Open { .. }
            | Self::Io { .. }
            | Self::Name { .. }
            | Self::Damaged { .. }
            | Self::OtherTarget { .. }
            | Self::PutBack { .. }
            | Self::Flush { .. } => ErrorKind::Failed,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::error::Error;
    use std::io;
    use std::path::PathBuf;

    use super::*;

    /// Every error that has a cause.
    fn samples() -> Vec<Box<dyn Error>> {
        let cause = || io::Error::other("the cause");
        let path = || PathBuf::from("/dev/sdb");
        let open = || OpenError::Unusable { path: path(), source: cause() };
        let read = || RealError::Read { path: "/dev/sdb".to_owned(), offset: 0, length: 1, source: cause() };
        let written = || JournalError::Io { path: path(), what: "write", source: cause() };
        vec![
            Box::new(open()),
            Box::new(AreaError::Look { path: path(), source: Box::new(cause()) }),
            Box::new(read()),
            Box::new(RealError::Ring(cause())),
            Box::new(SessionError::Blind { path: path(), what: path(), source: cause() }),
            Box::new(SessionError::Target(read())),
            Box::new(SessionError::Uncompared { journal: path(), source: read() }),
            Box::new(SessionError::Unwritten { journal: path(), source: cause() }),
            Box::new(SessionError::Journal(written())),
            Box::new(written()),
            Box::new(JournalError::Open { path: path(), source: open() }),
            Box::new(JournalError::Flush { path: path(), target: path(), source: cause() }),
            Box::new(JournalError::PutBack {
                path: path(),
                target: path(),
                offset: 0,
                length: 1,
                source: cause(),
            }),
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
