//! The rings: shared memory by which requests arrive and completions are returned, and the descriptors by which the
//! two sides wake each other. Nothing here waits, whatever the guest does with its own copy of a descriptor.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::atomic::Ordering;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::OFlags;
use rustix::io::Errno;
use rustix::net::sockopt::socket_domain;
use rustix::net::{AddressFamily, SendFlags, send};
use virtio_queue::desc::split::Descriptor;
use virtio_queue::{Queue, QueueT};
use vm_memory::{Address, Bytes, GuestAddress, GuestMemoryMmap};

use crate::vhost::chain::{self, Damage};
use crate::vhost::connection::VhostError;

/// The longest ring that this device accepts, which is more than any guest uses.
pub(crate) const LONGEST_RING: u16 = 1024;

/// The bytes of flags and index in `struct virtq_avail`, before the ring.
const AVAILABLE_HEADER: u64 = 4;

pub(crate) struct Ring {
    pub(crate) queue: Queue,
    pub(crate) enabled: bool,
    /// The guest signals this after it has added requests. It is never read; wait for its edges.
    pub(crate) kick: Option<Notifier>,
    /// Interrupts the guest. A pipe if the guest is User-Mode Linux.
    pub(crate) call: Option<Notifier>,
    /// Tells the guest that the ring is broken.
    pub(crate) error: Option<Notifier>,
    /// Whether there are completions that the guest has not been interrupted for.
    owes_signal: bool,
    /// For each head, whether the device has its chain.
    in_use: Vec<bool>,
}

impl Ring {
    pub(crate) fn new() -> Result<Self, VhostError> {
        let queue = Queue::new(LONGEST_RING).map_err(VhostError::Ring)?;
        let in_use = vec![false; LONGEST_RING.into()];
        Ok(Self { queue, enabled: false, kick: None, call: None, error: None, owes_signal: false, in_use })
    }

    pub(crate) fn stop(&mut self) {
        self.queue.set_ready(false);
        self.kick = None;
        self.owes_signal = false;
        self.in_use.fill(false);
    }

    /// Stops the ring for good, and tells the guest that it is broken.
    pub(crate) fn fail(&mut self) {
        self.stop();
        if let Some(error) = self.error.take() {
            // If this fails, the guest learns it from the end of the connection.
            let _ = error.raise();
        }
    }

    pub(crate) fn kick(&self) -> Option<BorrowedFd<'_>> {
        self.kick.as_ref().filter(|_| self.enabled).map(AsFd::as_fd)
    }

    fn is_live(&self) -> bool {
        self.enabled && self.queue.ready()
    }

    /// Returns the head and the descriptors of the next request; `None` if the ring is empty or not in use.
    pub(crate) fn pop(
        &mut self,
        memory: &GuestMemoryMmap,
        indirect: bool,
    ) -> Result<Option<(u16, Vec<Descriptor>)>, Damage> {
        if !self.is_live() {
            return Ok(None);
        }
        let index = self.queue.avail_idx(memory, Ordering::Acquire).map_err(|_| Damage::Outside)?.0;
        let (next, size) = (self.queue.next_avail(), self.queue.size());
        let ahead = index.wrapping_sub(next);
        if ahead > size {
            return Err(Damage::AvailableIndex { ahead, size });
        }
        if ahead == 0 {
            return Ok(None);
        }
        let place = AVAILABLE_HEADER + 2 * u64::from(next % size);
        let address = GuestAddress(self.queue.avail_ring()).checked_add(place).ok_or(Damage::Outside)?;
        let head = memory.load(address, Ordering::Acquire).map(u16::from_le).map_err(|_| Damage::Outside)?;
        if head >= size {
            return Err(Damage::Index { index: head, size: size.into() });
        }
        if std::mem::replace(&mut self.in_use[usize::from(head)], true) {
            return Err(Damage::InUse(head));
        }
        self.queue.set_next_avail(next.wrapping_add(1));
        let table = GuestAddress(self.queue.desc_table());
        Ok(Some((head, chain::follow(memory, table, size, head, indirect)?)))
    }

    /// Enables kicks. Returns true if requests are already waiting: take them before waiting for a kick.
    pub(crate) fn wants_kicks(&mut self, memory: &GuestMemoryMmap) -> Result<bool, Damage> {
        if !self.is_live() {
            return Ok(false);
        }
        self.queue.enable_notification(memory).map_err(|_| Damage::Outside)
    }

    /// Returns the request to the guest. Requests from before the ring was stopped are dropped.
    pub(crate) fn push(&mut self, memory: &GuestMemoryMmap, head: u16, written: u32) -> Result<(), Damage> {
        if !self.queue.ready() {
            return Ok(());
        }
        self.queue.add_used(memory, head, written).map_err(|_| Damage::Outside)?;
        self.in_use[usize::from(head)] = false;
        self.owes_signal |= self.queue.needs_notification(memory).map_err(|_| Damage::Outside)?;
        Ok(())
    }

    /// Interrupts the guest if an interrupt is due. Returns whether it was.
    pub(crate) fn signal(&mut self) -> Result<bool, VhostError> {
        if !std::mem::take(&mut self.owes_signal) {
            return Ok(false);
        }
        let Some(call) = &self.call else { return Ok(false) };
        call.raise().map_err(|source| VhostError::Socket { doing: "interrupting the guest", source })?;
        Ok(true)
    }
}

/// A descriptor of the guest's that never blocks: an eventfd, a pipe or a Unix socket, which User-Mode Linux calls a
/// pipe. Anything else may wait for a disk, a network, or a program of the guest's.
#[derive(Debug)]
pub(crate) struct Notifier {
    fd: OwnedFd,
    is_socket: bool,
}

impl Notifier {
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
