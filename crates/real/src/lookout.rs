//! Other processes that open a target while it is written: they are made to wait, where the kernel can do that, or noticed.

use std::fs::File;

use straddle_device::claim::{self, LockError};

use crate::open::{Kind, Opened};
use crate::others::{Others, Seen};

/// How others are kept from losing what they write.
#[derive(Debug)]
pub(crate) enum Lookout {
    /// They wait until the target is given up.
    Kept,
    /// They go on.
    Watched(Box<Others>),
}

/// Whether others may have a file open to read it, while no process can be made to wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Readers {
    Refused,
    Allowed,
}

impl Lookout {
    /// Over a target that is claimed, which others may read with `readers`; the error says by whom it is used.
    pub(crate) fn over(opened: &Opened, mut others: Others, readers: Readers) -> Result<Self, String> {
        let kept = match (opened.kind, readers) {
            (Kind::File, Readers::Refused) => claim::keep(&opened.file),
            (Kind::File, Readers::Allowed) => claim::keep_at_once(&opened.file),
            _ => Ok(false),
        };
        let is_kept = match kept {
            Err(LockError::Opened) if readers == Readers::Refused => {
                return Err(LockError::Opened.to_string());
            }
            kept => kept.unwrap_or(false),
        };
        // Nothing has been read yet of what will be written.
        others.is_alone()?;
        Ok(if is_kept { Self::Kept } else { Self::Watched(Box::new(others)) })
    }

    /// Who has come since the last look.
    pub(crate) fn look(&mut self, file: &File) -> Seen {
        match self {
            Self::Kept if claim::is_kept(file) => Seen::Nobody,
            Self::Kept => Seen::Opened,
            Self::Watched(others) => others.look(),
        }
    }
}
