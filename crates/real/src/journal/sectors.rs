//! The target by its smallest units: of a page that holds one bad sector, the page cache gives nothing, and takes no part.
//!
//! The law of this module: it says that something cannot be read only after the drive has been asked for just that, and again.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, OpenOptionsExt};

use rustix::fs::OFlags;
use rustix::io::Errno;

use crate::memory::Memory;
use crate::open::Opened;

/// Units that are tried, the smallest first.
const UNITS: [usize; 4] = [512, 1024, 2048, 4096];
/// How often a unit is asked for: drives and cables err for a moment.
const TRIES: u32 = 2;

/// A target, and the way to it past the page cache, where there is one. It is opened before anything is looked out for: who closes it
/// after writing is not told from others.
pub(super) struct Ways<'a> {
    pub(super) opened: &'a Opened,
    direct: Option<File>,
}

impl<'a> Ways<'a> {
    pub(super) fn to(opened: &'a Opened) -> Self {
        // By the open file, whatever is called so now.
        let path = format!("/proc/self/fd/{}", opened.file.as_raw_fd());
        let flags = (OFlags::DIRECT | OFlags::NONBLOCK).bits().cast_signed();
        let direct = OpenOptions::new().read(true).write(true).custom_flags(flags).open(path).ok();
        Self { opened, direct }
    }

    /// What it takes is tried at byte `at`.
    pub(super) fn sectors(&self, at: u64) -> Sectors<'_> {
        let mut memory = Memory::new(UNITS[3]);
        let mut is_taken = |file: &File, unit: usize| {
            let found = file.read_at(&mut memory.bytes_mut()[..unit], at - at % unit as u64);
            found.err().and_then(|error| Errno::from_io_error(&error)) != Some(Errno::INVAL)
        };
        let direct = self.direct.as_ref();
        let unit = direct.and_then(|file| UNITS.into_iter().find(|unit| is_taken(file, *unit)));
        let direct = direct.filter(|_| unit.is_some());
        Sectors { opened: self.opened, direct, unit: unit.unwrap_or(UNITS[0]) }
    }
}

/// A target that is read and written past the page cache, where that can be.
pub(super) struct Sectors<'a> {
    opened: &'a Opened,
    direct: Option<&'a File>,
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
            match self.direct.unwrap_or(&self.opened.file).read_at(bytes, at) {
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
        let Some(direct) = self.direct.filter(|_| are_units) else {
            return self.opened.write_inside(bytes, at);
        };
        let mut memory = Memory::new(bytes.len());
        memory.bytes_mut().copy_from_slice(bytes);
        self.opened.write_inside_by(direct, memory.bytes(), at)
    }
}

/// Whether a drive answered that it cannot give the bytes.
pub(super) fn is_unreadable(error: &io::Error) -> bool {
    matches!(Errno::from_io_error(error), Some(Errno::IO | Errno::ILSEQ | Errno::NODATA))
}
