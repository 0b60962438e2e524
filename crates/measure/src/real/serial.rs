//! One request at a time, with pread and pwrite.

use std::fs::File;
use std::io::{self, IoSlice};
use std::os::unix::fs::FileExt;

use rustix::io::{Errno, ReadWriteFlags};

use crate::real::memory::Memory;
use crate::real::ring::{Ask, Place};

pub(crate) struct Serial {
    file: File,
    memory: Vec<Memory>,
}

impl Serial {
    pub(crate) fn new(file: &File) -> io::Result<Self> {
        Ok(Self { file: file.try_clone()?, memory: Vec::new() })
    }

    /// Gives it the memory of its requests.
    pub(crate) fn give(&mut self, memory: Vec<Memory>) {
        self.memory = memory;
    }

    /// Carries out a request and returns the number of bytes.
    pub(crate) fn call(&mut self, ask: Ask, place: Place, offset: u64) -> io::Result<u32> {
        if ask == Ask::Flush {
            return self.file.sync_data().map(|()| 0);
        }
        let length = usize::try_from(place.length).map_err(|_| Errno::INVAL)?;
        let bytes = self.memory.get_mut(place.piece).ok_or(Errno::INVAL)?.bytes_mut();
        let part = bytes.get_mut(place.from..).and_then(|rest| rest.get_mut(..length)).ok_or(Errno::INVAL)?;
        let done = match ask {
            Ask::Read => self.file.read_at(part, offset)?,
            Ask::Write => self.file.write_at(part, offset)?,
            _ => rustix::io::pwritev2(&self.file, &[IoSlice::new(part)], offset, ReadWriteFlags::DSYNC)?,
        };
        u32::try_from(done).map_err(|_| Errno::INVAL.into())
    }

    /// Writes several pieces of memory, one after the other, in one request.
    pub(crate) fn write_joined(&mut self, ask: Ask, places: &[Place], offset: u64) -> io::Result<u32> {
        let mut parts = Vec::with_capacity(places.len());
        for place in places {
            let bytes = self.memory.get(place.piece).ok_or(Errno::INVAL)?.bytes();
            let length = usize::try_from(place.length).map_err(|_| Errno::INVAL)?;
            let part = bytes.get(place.from..).and_then(|rest| rest.get(..length)).ok_or(Errno::INVAL)?;
            parts.push(IoSlice::new(part));
        }
        let flags = if ask == Ask::WriteDurable { ReadWriteFlags::DSYNC } else { ReadWriteFlags::empty() };
        let done = rustix::io::pwritev2(&self.file, &parts, offset, flags)?;
        u32::try_from(done).map_err(|_| Errno::INVAL.into())
    }

    /// Replaces a range of pieces by one.
    pub(crate) fn replace(&mut self, pieces: std::ops::Range<usize>, by: Memory) {
        self.memory.splice(pieces, [by]);
    }

    pub(crate) fn memory(&self) -> &[Memory] {
        &self.memory
    }
}
