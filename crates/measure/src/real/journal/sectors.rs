//! Reads and writes a target in its smallest units. The page cache works in whole pages: it returns nothing
//! of a page with one bad sector, and cannot write part of such a page.
//!
//! Invariants: it reports bytes as unreadable only after the drive has been asked for exactly
//! these, more than once.

use std::fs::File;
use std::io;
use std::num::NonZeroU64;
use std::os::unix::fs::FileExt;

use rustix::fs::{Advice, OFlags};
use rustix::io::Errno;

use crate::real::memory::Memory;
use crate::real::open::Opened;

/// The units that are tried, smallest first, in bytes.
const UNITS: [usize; 4] = [512, 1024, 2048, 4096];
/// Attempts to read a unit: errors of drives and cables may be transient.
const TRIES: u32 = 2;

/// A target, and direct access to it, if possible. Both use the one open file: another open could not be
/// distinguished from one by another process.
pub(super) struct Ways<'a> {
    pub(super) opened: &'a Opened,
    /// Whether the file system supports `O_DIRECT`.
    is_direct: bool,
}

impl<'a> Ways<'a> {
    pub(super) fn to(opened: &'a Opened) -> Self {
        let is_direct = past_cache(&opened.file, |_| ()).is_some();
        Self { opened, is_direct }
    }

    /// Reads from the target, not from the page cache: after a failed write, the page stays in the cache as
    /// if it had been written.
    pub(super) fn read(&self, bytes: &mut [u8], at: u64) -> io::Result<()> {
        let file = &self.opened.file;
        let are_units = bytes.len().is_multiple_of(UNITS[3]) && at.is_multiple_of(UNITS[3] as u64);
        if self.is_direct && are_units {
            match past_cache(file, |file| file.read_exact_at(bytes, at)) {
                Some(Err(error)) if Errno::from_io_error(&error) == Some(Errno::INVAL) => {}
                Some(read) => return read,
                None => {}
            }
        }
        // Drops the pages from the cache. Mapped ones stay.
        let _ = rustix::fs::fadvise(file, at, NonZeroU64::new(bytes.len() as u64), Advice::DontNeed);
        file.read_exact_at(bytes, at)
    }

    /// Determines the smallest unit that can be read directly, by trying at byte `at`.
    pub(super) fn sectors(&self, at: u64) -> Sectors<'a> {
        let mut memory = Memory::new(UNITS[3]);
        let mut is_taken = |unit: &usize| {
            let read = |file: &File| file.read_at(&mut memory.bytes_mut()[..*unit], at - at % *unit as u64);
            let refused = |done: io::Result<usize>| {
                done.err().and_then(|error| Errno::from_io_error(&error)) == Some(Errno::INVAL)
            };
            past_cache(&self.opened.file, read).is_some_and(|done| !refused(done))
        };
        let unit = UNITS.into_iter().filter(|_| self.is_direct).find(|unit| is_taken(unit));
        Sectors { opened: self.opened, is_direct: unit.is_some(), unit: unit.unwrap_or(UNITS[0]) }
    }
}

/// Calls `of` with the file, which is in direct mode meanwhile. `None` if the file system does not support
/// that.
fn past_cache<T>(file: &File, of: impl FnOnce(&File) -> T) -> Option<T> {
    let flags = rustix::fs::fcntl_getfl(file).ok()?;
    rustix::fs::fcntl_setfl(file, flags | OFlags::DIRECT).ok()?;
    let done = of(file);
    // These flags were set before, so they are accepted.
    let _ = rustix::fs::fcntl_setfl(file, flags);
    Some(done)
}

/// Access to a target by units, past the page cache if possible.
pub(super) struct Sectors<'a> {
    opened: &'a Opened,
    is_direct: bool,
    unit: usize,
}

impl Sectors<'_> {
    /// Reads `length` bytes from byte `at` on, unit by unit. `of` receives the offset of each unit, and its
    /// bytes or the number of unreadable bytes.
    pub(super) fn read(
        &self,
        at: u64,
        length: usize,
        mut of: impl FnMut(u64, Result<&[u8], usize>),
    ) -> io::Result<()> {
        let end = at + length as u64;
        let mut memory = Memory::new(self.unit);
        let mut start = at - at % self.unit as u64;
        while start < end {
            let (from, to) = (at.max(start), end.min(start + self.unit as u64));
            let part = |at: u64| usize::try_from(at - start).unwrap_or(0);
            match self.unit_at(start, part(to), memory.bytes_mut()) {
                Ok(()) => of(from, Ok(&memory.bytes()[part(from)..part(to)])),
                Err(error) if is_unreadable(&error) => of(from, Err(part(to) - part(from))),
                Err(error) => return Err(error),
            }
            start += self.unit as u64;
        }
        Ok(())
    }

    /// Reads the unit at `at`, of which the target has at least `least` bytes.
    fn unit_at(&self, at: u64, least: usize, bytes: &mut [u8]) -> io::Result<()> {
        let mut tries = TRIES;
        loop {
            tries -= 1;
            match self.by(|file| file.read_at(bytes, at)) {
                Ok(done) if done >= least => return Ok(()),
                Ok(_) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Err(error) if is_unreadable(&error) && tries > 0 => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Writes `bytes` at `at`, if the target still reaches that far. Whole units are written directly, so
    /// that no neighbouring sector is read or written.
    pub(super) fn write(&self, bytes: &[u8], at: u64) -> io::Result<()> {
        let are_units = bytes.len().is_multiple_of(self.unit) && at.is_multiple_of(self.unit as u64);
        if !self.is_direct || !are_units {
            return self.opened.write_inside(bytes, at);
        }
        let mut memory = Memory::new(bytes.len());
        memory.bytes_mut().copy_from_slice(bytes);
        self.by(|_| self.opened.write_inside(memory.bytes(), at))
    }

    fn by<T>(&self, mut of: impl FnMut(&File) -> T) -> T {
        let file = &self.opened.file;
        let done = if self.is_direct { past_cache(file, &mut of) } else { None };
        done.unwrap_or_else(|| of(file))
    }
}

/// Whether the error means that the drive could not read the bytes.
pub(super) fn is_unreadable(error: &io::Error) -> bool {
    matches!(Errno::from_io_error(error), Some(Errno::IO | Errno::ILSEQ | Errno::NODATA))
}
