//! A medium that records what could not be read, which readers treat as absent: the user must learn of it.

use std::io;
use std::sync::{Mutex, PoisonError};

use straddle_units::{ByteCount, ByteOffset};

use crate::{Medium, ReadError};

/// A medium, and the first of its bytes that the operating system could not read.
pub struct Watched<'a> {
    medium: &'a dyn Medium,
    first: Mutex<Option<(ByteOffset, io::Error)>>,
}

impl<'a> Watched<'a> {
    /// Watches `medium`.
    pub fn new(medium: &'a dyn Medium) -> Self {
        Self { medium, first: Mutex::new(None) }
    }

    /// Returns the first byte that could not be read since the last call, and the error.
    pub fn take(&self) -> Option<(ByteOffset, io::Error)> {
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
                *first = Some((*at, io::Error::new(source.kind(), source.to_string())));
            }
        }
        read
    }

    fn zeros_from(&self, at: ByteOffset) -> ByteCount {
        self.medium.zeros_from(at)
    }
}
