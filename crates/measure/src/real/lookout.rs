//! Handles other processes that open a target while it is written: they have to wait, where the kernel
//! supports that, or are detected.

use std::fs::File;

use straddle_device::claim::{self, LockError};

use crate::real::open::{Kind, Opened};
use crate::real::others::{Others, Seen};

/// How data written by other processes is protected from being lost.
#[derive(Debug)]
pub(crate) enum Lookout {
    /// They wait until the target is released.
    Kept,
    /// They proceed, and are detected.
    Watched(Box<Others>),
}

impl Lookout {
    /// Watches a claimed target. The error names a program that has it open.
    pub(crate) fn over(opened: &Opened, mut others: Others) -> Result<Self, String> {
        let is_kept = opened.kind == Kind::File
            && match claim::keep(&opened.file) {
                Err(LockError::Opened) => return Err(LockError::Opened.to_string()),
                kept => kept.unwrap_or(false),
            };
        // None of the contents to be kept has been read yet.
        others.check_alone()?;
        Ok(if is_kept { Self::Kept } else { Self::Watched(Box::new(others)) })
    }

    /// Looks for processes that came since the previous look.
    pub(crate) fn look(&mut self, file: &File) -> Seen {
        match self {
            Self::Kept if claim::is_kept(file) => Seen::Nobody,
            Self::Kept => Seen::Opened,
            Self::Watched(others) => others.look(),
        }
    }
}
