//! File descriptors from the guest, by which the two sides wake each other.
//!
//! Invariants: nothing here waits, whatever the guest does with its own copy of the descriptor. Only eventfds,
//! pipes and Unix sockets (which User-Mode Linux calls pipes) are accepted: anything else may wait for a disk, a
//! network, or a program of the guest's.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::OFlags;
use rustix::io::Errno;
use rustix::net::sockopt::socket_domain;
use rustix::net::{AddressFamily, SendFlags, send};

#[derive(Debug)]
pub(crate) struct Notifier {
    fd: OwnedFd,
    is_socket: bool,
}

impl Notifier {
    /// Takes the descriptor, if it is of a kind that never blocks.
    pub(crate) fn new(fd: OwnedFd) -> io::Result<Self> {
        // No file system can produce these names: the name of a file begins with a slash.
        let name = std::fs::read_link(format!("/proc/self/fd/{}", fd.as_raw_fd()))?;
        let name = name.to_string_lossy();
        if name.starts_with("socket:[") && socket_domain(&fd)? == AddressFamily::UNIX {
            return Ok(Self { fd, is_socket: true });
        }
        if name != "anon_inode:[eventfd]" && !name.starts_with("pipe:[") {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "neither an eventfd nor a pipe"));
        }
        let flags = rustix::fs::fcntl_getfl(&fd)?;
        rustix::fs::fcntl_setfl(&fd, flags | OFlags::NONBLOCK)?;
        Ok(Self { fd, is_socket: false })
    }

    /// Wakes the other side. A full counter or pipe has woken it already.
    pub(crate) fn raise(&self) -> io::Result<()> {
        const NOW: Timespec = Timespec { tv_sec: 0, tv_nsec: 0 };
        let one = 1u64.to_le_bytes();
        let written = if self.is_socket {
            send(&self.fd, &one, SendFlags::DONTWAIT | SendFlags::NOSIGNAL)
        } else {
            // The guest shares the descriptor's flags, and may have cleared O_NONBLOCK.
            let mut room = [PollFd::new(&self.fd, PollFlags::OUT)];
            poll(&mut room, Some(&NOW))?;
            let state = room[0].revents();
            if !state.contains(PollFlags::OUT) {
                let is_full = state.is_empty();
                return if is_full { Ok(()) } else { Err(io::ErrorKind::BrokenPipe.into()) };
            }
            rustix::io::write(&self.fd, &one)
        };
        match written {
            Ok(_) | Err(Errno::AGAIN) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}

impl AsFd for Notifier {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}
