//! A medium that records what could not be read.
//!
//! The readers of contents treat what they cannot read as absent. That is right for their search, but wrong
//! as a result: the user must learn that there is something of which nothing is known.

use std::sync::{Mutex, PoisonError};

use straddle_device::{Medium, ReadError};
use straddle_units::{ByteCount, ByteOffset};

/// A medium, and the first of its bytes that the operating system could not read.
pub(crate) struct Watched<'a> {
    medium: &'a dyn Medium,
    first: Mutex<Option<(ByteOffset, String)>>,
}

impl<'a> Watched<'a> {
    pub(crate) fn new(medium: &'a dyn Medium) -> Self {
        Self { medium, first: Mutex::new(None) }
    }

    /// Returns the first byte that could not be read since the last call, and the error.
    pub(crate) fn take(&self) -> Option<(ByteOffset, String)> {
        self.first.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

impl Medium for Watched<'_> {
    fn len(&self) -> ByteCount {
        self.medium.len()
    }

    fn read_at(&self, at: ByteOffset, buf: &mut [u8]) -> Result<(), ReadError> {
        let read = self.medium.read_at(at, buf);
        if let Err(ReadError::Io { at, source }) = &read {
            let mut first = self.first.lock().unwrap_or_else(PoisonError::into_inner);
            if first.as_ref().is_none_or(|(before, _)| at < before) {
                *first = Some((*at, source.to_string()));
            }
        }
        read
    }
}
