//! The new disk, as a copy writes to it.
//!
//! Invariants: a run of a copy writes only in the places that were listed, and perhaps tested for zeros,
//! before its first write. A write anywhere else fails, and changes nothing.

use std::io;

use straddle_device::ioctl::IoctlError;
use straddle_device::{Medium, ReadError};
use straddle_units::{ByteCount, ByteOffset, Span};

use crate::target::{Disk, Identity};

/// A disk that can be written in some places only.
pub(super) struct Bounded<'d> {
    disk: &'d mut dyn Disk,
    places: Vec<Span>,
}

impl<'d> Bounded<'d> {
    /// Only what lies in `places` can be written.
    pub(super) fn new(disk: &'d mut dyn Disk, places: Vec<Span>) -> Self {
        Self { disk, places }
    }

    fn check(&self, span: Option<Span>) -> io::Result<()> {
        if span.is_some_and(|span| span.gaps(self.places.iter().copied()).is_empty()) {
            return Ok(());
        }
        Err(io::Error::other("this byte is outside the areas that the copy may write, and was not written"))
    }
}

impl Medium for Bounded<'_> {
    fn len(&self) -> ByteCount {
        self.disk.len()
    }

    fn read_at(&self, at: ByteOffset, buf: &mut [u8]) -> Result<(), ReadError> {
        self.disk.read_at(at, buf)
    }
}

impl Disk for Bounded<'_> {
    fn write_at(&mut self, at: ByteOffset, bytes: &[u8]) -> io::Result<()> {
        self.check(Span::new(at, ByteCount::new(bytes.len() as u64)))?;
        self.disk.write_at(at, bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.disk.flush()
    }

    fn reread_table(&self) -> Option<Result<(), IoctlError>> {
        self.disk.reread_table()
    }

    fn identity(&self) -> &Identity {
        self.disk.identity()
    }

    fn drop_cache(&self, span: Span) {
        self.disk.drop_cache(span);
    }

    fn prefetch(&self, span: Span) {
        self.disk.prefetch(span);
    }

    fn holes(&self, span: Span) -> Vec<Span> {
        self.disk.holes(span)
    }

    fn punch(&mut self, span: Span) -> io::Result<()> {
        self.check(Some(span))?;
        self.disk.punch(span)
    }
}
