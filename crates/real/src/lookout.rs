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

impl Lookout {
    /// Over a target that is claimed, and that no other program has open where that shows; the error says by whom it is used.
    pub(crate) fn over(opened: &Opened, mut others: Others) -> Result<Self, String> {
        let is_kept = opened.kind == Kind::File
            && match claim::keep(&opened.file) {
                Err(LockError::Opened) => return Err(LockError::Opened.to_string()),
                kept => kept.unwrap_or(false),
            };
        // Nothing has been read yet of what will be written.
        others.check_alone()?;
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
