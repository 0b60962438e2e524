//! The target by its smallest units: of a page that holds one bad sector, the page cache gives nothing, and takes no part.
//!
//! The law of this module: it says that something cannot be read only after the drive has been asked for just that, and again.

use std::fs::File;
use std::io;
use std::num::NonZeroU64;
use std::os::unix::fs::FileExt;

use rustix::fs::{Advice, OFlags};
use rustix::io::Errno;

use crate::memory::Memory;
use crate::open::Opened;

/// Units that are tried, the smallest first.
const UNITS: [usize; 4] = [512, 1024, 2048, 4096];
/// How often a unit is asked for: drives and cables err for a moment.
const TRIES: u32 = 2;

/// A target, and the way to it past the page cache, where there is one. It stays one open file: another one would be an opener, who
/// cannot be distinguished from others.
pub(super) struct Ways<'a> {
    pub(super) opened: &'a Opened,
    /// Whether the file system takes O_DIRECT.
    is_direct: bool,
}

impl<'a> Ways<'a> {
    pub(super) fn to(opened: &'a Opened) -> Self {
        let is_direct = past_cache(&opened.file, |_| ()).is_some();
        Self { opened, is_direct }
    }

    /// Reads what the target holds, and not what a cache has of it: pages whose write has failed stay there as if it had not.
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
        // Pages that are mapped stay.
        let _ = rustix::fs::fadvise(file, at, NonZeroU64::new(bytes.len() as u64), Advice::DontNeed);
        file.read_exact_at(bytes, at)
    }

    /// What it takes is tried at byte `at`.
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

/// Calls `of` with a file whose reads and writes pass the page cache meanwhile; `None` where they cannot.
fn past_cache<T>(file: &File, of: impl FnOnce(&File) -> T) -> Option<T> {
    let flags = rustix::fs::fcntl_getfl(file).ok()?;
    rustix::fs::fcntl_setfl(file, flags | OFlags::DIRECT).ok()?;
    let done = of(file);
    // They were set before.
    let _ = rustix::fs::fcntl_setfl(file, flags);
    Some(done)
}

/// A target that is read and written past the page cache, where that can be.
pub(super) struct Sectors<'a> {
    opened: &'a Opened,
    is_direct: bool,
    unit: usize,
}

impl Sectors<'_> {
    /// Reads `length` bytes from byte `at` on, unit by unit: `of` gets where each begins and what is there, or how much cannot be read.
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

    /// Writes `bytes` at `at`, as far as the target still reaches: only these, where they are whole units.
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

/// Whether a drive answered that it cannot give the bytes.
pub(super) fn is_unreadable(error: &io::Error) -> bool {
    matches!(Errno::from_io_error(error), Some(Errno::IO | Errno::ILSEQ | Errno::NODATA))
}
