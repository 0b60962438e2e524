//! The rings: shared memory for requests and completions, and the descriptors by which the two sides wake each other.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::io::Errno;
use virtio_queue::desc::split::Descriptor;
use virtio_queue::{Error, Queue, QueueOwnedT, QueueT};
use vm_memory::GuestMemoryMmap;

use crate::vhost::connection::VhostError;

/// The longest ring that this device accepts, which is more than any guest uses.
const LONGEST_RING: u16 = 1024;

pub(crate) struct Ring {
    pub(crate) queue: Queue,
    pub(crate) enabled: bool,
    /// The guest signals this after it has added requests. It is never read; wait for its edges.
    pub(crate) kick: Option<OwnedFd>,
    /// Interrupts the guest. A pipe if the guest is User-Mode Linux.
    pub(crate) call: Option<OwnedFd>,
    owes_signal: bool,
}

impl Ring {
    pub(crate) fn new() -> Result<Self, VhostError> {
        let queue = Queue::new(LONGEST_RING)?;
        Ok(Self { queue, enabled: false, kick: None, call: None, owes_signal: false })
    }

    pub(crate) fn stop(&mut self) {
        self.queue.set_ready(false);
        self.kick = None;
        self.owes_signal = false;
    }

    pub(crate) fn kick(&self) -> Option<BorrowedFd<'_>> {
        self.kick.as_ref().filter(|_| self.enabled).map(AsFd::as_fd)
    }

    fn is_live(&self) -> bool {
        self.enabled && self.queue.ready()
    }

    /// `None` if the ring is empty or not in use. A chain that breaks a rule ends where it does.
    pub(crate) fn pop(&mut self, memory: &GuestMemoryMmap) -> Result<Option<(u16, Vec<Descriptor>)>, Error> {
        if !self.is_live() {
            return Ok(None);
        }
        let chain = self.queue.iter(memory)?.next();
        Ok(chain.map(|chain| (chain.head_index(), chain.collect())))
    }

    /// Enables kicks. Returns true if requests are already waiting: take them before waiting for a kick.
    pub(crate) fn wants_kicks(&mut self, memory: &GuestMemoryMmap) -> Result<bool, Error> {
        if !self.is_live() {
            return Ok(false);
        }
        self.queue.enable_notification(memory)
    }

    /// Returns the request to the guest. Requests from before the ring was stopped are dropped.
    pub(crate) fn push(&mut self, memory: &GuestMemoryMmap, head: u16, written: u32) -> Result<(), Error> {
        if !self.queue.ready() {
            return Ok(());
        }
        self.queue.add_used(memory, head, written)?;
        self.owes_signal |= self.queue.needs_notification(memory)?;
        Ok(())
    }

    pub(crate) fn signal(&mut self) -> Result<bool, VhostError> {
        if !std::mem::take(&mut self.owes_signal) {
            return Ok(false);
        }
        let Some(call) = &self.call else { return Ok(false) };
        match rustix::io::write(call, &1_u64.to_le_bytes()) {
            // A full counter or pipe has woken the guest already.
            Ok(_) | Err(Errno::AGAIN) => Ok(true),
            Err(error) => {
                Err(VhostError::Socket { doing: "cannot interrupt the guest", source: error.into() })
            }
        }
    }
}
