//! One request at a time, with pread and pwrite.

use std::fs::File;
use std::io::{self, IoSlice};
use std::os::unix::fs::FileExt;

use rustix::io::{Errno, ReadWriteFlags};
use straddle_units::io::Operation;

use crate::real::memory::Memory;
use crate::real::ring::Place;

pub(crate) struct Serial {
    file: File,
    pub(crate) memory: Vec<Memory>,
}

impl Serial {
    pub(crate) fn new(file: &File) -> io::Result<Self> {
        Ok(Self { file: file.try_clone()?, memory: Vec::new() })
    }

    /// Carries out a request and returns the number of bytes.
    pub(crate) fn call(&mut self, operation: Operation, places: &[Place], offset: u64) -> io::Result<u32> {
        let done = match (operation, places) {
            (Operation::Flush, _) => return self.file.sync_data().map(|()| 0),
            (Operation::Read, [place]) => self.file.read_at(place.bytes_mut(&mut self.memory)?, offset)?,
            (Operation::Write, [place]) => self.file.write_at(place.bytes(&self.memory)?, offset)?,
            _ => {
                let durable = operation == Operation::WriteFua;
                let flags = if durable { ReadWriteFlags::DSYNC } else { ReadWriteFlags::empty() };
                let parts = places.iter().map(|place| place.bytes(&self.memory).map(IoSlice::new));
                rustix::io::pwritev2(&self.file, &parts.collect::<io::Result<Vec<_>>>()?, offset, flags)?
            }
        };
        u32::try_from(done).map_err(|_| Errno::INVAL.into())
    }
}
