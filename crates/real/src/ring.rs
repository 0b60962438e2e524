//! Many requests at a time: io_uring.
//!
//! The law of this module: it is the only one of the crate with `unsafe`. The kernel reads and writes the ring's memory while a
//! request is on its way, so the ring owns that memory, nothing reads it meanwhile, and neither is given back before
//! every request has come back.
#![allow(unsafe_code)]

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;

use io_uring::{IoUring, opcode, types};
use rustix::io::Errno;

use crate::memory::Memory;

/// What is asked of the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ask {
    Read,
    Write,
    /// Durable when it completes (`RWF_DSYNC`).
    WriteDurable,
    Flush,
}

/// A place in the ring's memory: which piece, from which byte on, how many.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) piece: usize,
    pub(crate) from: usize,
    pub(crate) length: u32,
}

pub(crate) struct Ring {
    ring: IoUring,
    memory: Vec<Memory>,
    /// Whether the kernel has the memory mapped for good, which spares it that for every request.
    registered: bool,
    on_their_way: usize,
}

/// The one registered file.
const FILE: types::Fixed = types::Fixed(0);

impl Ring {
    /// A ring on `file` for `depth` requests at a time.
    pub(crate) fn new(file: &File, memory: Vec<Memory>, depth: u32) -> io::Result<Self> {
        let entries = depth.next_power_of_two().clamp(1, 32_768);
        // The kernels before 6.1 know less; what they refuse is not needed.
        let ring = IoUring::builder()
            .setup_single_issuer()
            .setup_coop_taskrun()
            .build(entries)
            .or_else(|_| IoUring::new(entries))?;
        ring.submitter().register_files(&[file.as_raw_fd()])?;
        let mut pieces: Vec<libc::iovec> = Vec::new();
        for piece in &memory {
            let bytes = piece.bytes();
            pieces.push(libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() });
        }
        // SAFETY: the memory is the ring's own, does not move (each piece is on the heap), and outlives the ring: fields are
        // dropped in order, and `drop` waits for all requests before that.
        let registered = unsafe { ring.submitter().register_buffers(&pieces) };
        // An ordinary user may lock only so much memory (`ulimit -l`).
        let registered = registered.is_ok();
        Ok(Self { ring, memory, registered, on_their_way: 0 })
    }

    /// Queues a request; the kernel sees it with the next [`wait`](Self::wait).
    pub(crate) fn push(&mut self, ask: Ask, place: Place, offset: u64, id: u64) -> io::Result<()> {
        let entry = if ask == Ask::Flush {
            opcode::Fsync::new(FILE).flags(types::FsyncFlags::DATASYNC).build()
        } else {
            let length = usize::try_from(place.length).map_err(|_| Errno::INVAL)?;
            let bytes = self.memory.get_mut(place.piece).ok_or(Errno::INVAL)?.bytes_mut();
            let part =
                bytes.get_mut(place.from..).and_then(|rest| rest.get_mut(..length)).ok_or(Errno::INVAL)?;
            let index = u16::try_from(place.piece).map_err(|_| Errno::INVAL)?;
            let (start, flags) =
                (part.as_mut_ptr(), if ask == Ask::WriteDurable { libc::RWF_DSYNC } else { 0 });
            match (ask, self.registered) {
                (Ask::Read, true) => {
                    opcode::ReadFixed::new(FILE, start, place.length, index).offset(offset).build()
                }
                (Ask::Read, false) => opcode::Read::new(FILE, start, place.length).offset(offset).build(),
                (_, true) => opcode::WriteFixed::new(FILE, start, place.length, index)
                    .offset(offset)
                    .rw_flags(flags)
                    .build(),
                (_, false) => {
                    opcode::Write::new(FILE, start, place.length).offset(offset).rw_flags(flags).build()
                }
            }
        };
        let entry = entry.user_data(id);
        // SAFETY: the request's memory is a part of the ring's own registered memory, as checked above, which lives until
        // every request has come back.
        while unsafe { self.ring.submission().push(&entry) }.is_err() {
            self.ring.submit()?;
        }
        self.on_their_way += 1;
        Ok(())
    }

    /// The next request that has come back: its id, and the number of bytes or what went wrong. Waits for one; `None` if nothing
    /// is on its way.
    pub(crate) fn wait(&mut self) -> io::Result<Option<(u64, io::Result<u32>)>> {
        loop {
            if let Some(done) = self.ring.completion().next() {
                self.on_their_way -= 1;
                let result = done.result();
                let told = u32::try_from(result).map_err(|_| io::Error::from_raw_os_error(-result));
                return Ok(Some((done.user_data(), told)));
            }
            if self.on_their_way == 0 {
                return Ok(None);
            }
            self.ring.submit_and_wait(1)?;
        }
    }

    /// The ring's memory, while nothing is on its way.
    pub(crate) fn memory(&self) -> Option<&[Memory]> {
        (self.on_their_way == 0).then_some(&self.memory)
    }

    /// Waits until nothing is on its way. `of` gets the id of each request, and what came of it. An error where the
    /// ring itself is broken: the kernel ends its requests when it is closed.
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
        // The kernel takes the ring apart after its process has ended; until then a device would seem to be in use.
        let _ = self.ring.submitter().unregister_files();
        if self.on_their_way > 0 {
            // The kernel may still write there: better lost than given to somebody else.
            std::mem::forget(std::mem::take(&mut self.memory));
        }
    }
}
