//! Many requests at a time: io_uring.
//!
//! The only module of the crate with `unsafe`. The kernel reads and writes the ring's memory while a request is in
//! flight. So the ring owns that memory, nothing else reads it meanwhile, and neither is freed before every request
//! has completed.
#![allow(unsafe_code)]

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::fd::AsRawFd;

use io_uring::{IoUring, opcode, types};
use rustix::io::Errno;
use straddle_units::io::Operation;

use crate::real::memory::Memory;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) piece: usize,
    pub(crate) from: usize,
    pub(crate) length: u32,
}

impl Place {
    fn range(&self) -> Option<Range<usize>> {
        Some(self.from..self.from.checked_add(usize::try_from(self.length).ok()?)?)
    }

    pub(crate) fn bytes<'a>(&self, memory: &'a [Memory]) -> io::Result<&'a [u8]> {
        let bytes =
            memory.get(self.piece).zip(self.range()).and_then(|(piece, range)| piece.bytes().get(range));
        bytes.ok_or_else(|| Errno::INVAL.into())
    }

    pub(crate) fn bytes_mut<'a>(&self, memory: &'a mut [Memory]) -> io::Result<&'a mut [u8]> {
        let piece = memory.get_mut(self.piece).zip(self.range());
        piece.and_then(|(piece, range)| piece.bytes_mut().get_mut(range)).ok_or_else(|| Errno::INVAL.into())
    }
}

pub(crate) struct Ring {
    ring: IoUring,
    memory: Vec<Memory>,
    /// Whether the kernel has the buffers mapped for all requests.
    registered: bool,
    in_flight: usize,
}

const FILE: types::Fixed = types::Fixed(0);

impl Ring {
    pub(crate) fn new(file: &File, depth: u32) -> io::Result<Self> {
        let entries = depth.next_power_of_two().clamp(1, 32_768);
        // Kernels before 6.1 refuse these flags.
        let ring = IoUring::builder()
            .setup_single_issuer()
            .setup_coop_taskrun()
            .build(entries)
            .or_else(|_| IoUring::new(entries))?;
        ring.submitter().register_files(&[file.as_raw_fd()])?;
        Ok(Self { ring, memory: Vec::new(), registered: false, in_flight: 0 })
    }

    /// Gives it the memory of its requests. Once it has some, more is ignored.
    pub(crate) fn give(&mut self, memory: Vec<Memory>) {
        if !self.memory.is_empty() {
            return;
        }
        self.memory = memory;
        let mut pieces: Vec<libc::iovec> = Vec::new();
        for piece in &self.memory {
            let bytes = piece.bytes();
            pieces.push(libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() });
        }
        // SAFETY: the ring owns the memory. It is never replaced, it does not move (each piece is on the
        // heap), and it outlives the ring: fields are dropped in order, and `drop` waits for all requests
        // before that.
        let registered = unsafe { self.ring.submitter().register_buffers(&pieces) };
        // An unprivileged process may lock only a limited amount of memory (`ulimit -l`).
        self.registered = registered.is_ok();
    }

    /// Queues a request. The kernel receives it with the next [`wait`](Self::wait).
    pub(crate) fn push(
        &mut self,
        operation: Operation,
        places: &[Place],
        offset: u64,
        id: u64,
    ) -> io::Result<()> {
        let entry = match (operation, places) {
            (Operation::Flush, _) => opcode::Fsync::new(FILE).flags(types::FsyncFlags::DATASYNC).build(),
            (_, [place]) => {
                let start = place.bytes_mut(&mut self.memory)?.as_mut_ptr();
                let index = u16::try_from(place.piece).map_err(|_| Errno::INVAL)?;
                let flags = if operation == Operation::WriteFua { libc::RWF_DSYNC } else { 0 };
                match (operation, self.registered) {
                    (Operation::Read, true) => {
                        opcode::ReadFixed::new(FILE, start, place.length, index).offset(offset).build()
                    }
                    (Operation::Read, false) => {
                        opcode::Read::new(FILE, start, place.length).offset(offset).build()
                    }
                    (_, true) => opcode::WriteFixed::new(FILE, start, place.length, index)
                        .offset(offset)
                        .rw_flags(flags)
                        .build(),
                    (_, false) => {
                        opcode::Write::new(FILE, start, place.length).offset(offset).rw_flags(flags).build()
                    }
                }
            }
            _ => return Err(Errno::OPNOTSUPP.into()),
        };
        let entry = entry.user_data(id);
        // SAFETY: the request's memory is a part of the ring's own memory, as checked above, which lives
        // until every request has completed.
        while unsafe { self.ring.submission().push(&entry) }.is_err() {
            self.ring.submit()?;
        }
        self.in_flight += 1;
        Ok(())
    }

    /// Returns the id of the next request and the number of bytes or the error; `None` if there is none.
    pub(crate) fn wait(&mut self) -> io::Result<Option<(u64, io::Result<u32>)>> {
        loop {
            if let Some(done) = self.ring.completion().next() {
                self.in_flight -= 1;
                let result = done.result();
                let transferred = u32::try_from(result).map_err(|_| io::Error::from_raw_os_error(-result));
                return Ok(Some((done.user_data(), transferred)));
            }
            if self.in_flight == 0 {
                return Ok(None);
            }
            self.ring.submit_and_wait(1)?;
        }
    }

    /// The ring's memory; `None` while requests are in flight.
    pub(crate) fn memory(&self) -> Option<&[Memory]> {
        (self.in_flight == 0).then_some(&self.memory)
    }

    /// `of` receives the id and result of each request. Fails if the ring itself is broken; the kernel ends its
    /// requests when it is closed.
    pub(crate) fn drain(&mut self, mut of: impl FnMut(u64, io::Result<u32>)) -> io::Result<()> {
        loop {
            match self.wait() {
                Ok(Some((id, done))) => of(id, done),
                Ok(None) => return Ok(()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        let _ = self.drain(|_, _| {});
        // The kernel frees a ring some time after its process ends, and the device would appear in use until then.
        let _ = self.ring.submitter().unregister_files();
        if self.in_flight > 0 {
            // The kernel may still write to this memory.
            std::mem::forget(std::mem::take(&mut self.memory));
        }
    }
}
