//! The rings: shared memory through which requests come and completions go.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use virtio_queue::{DescriptorChain, Queue, QueueT};
use vm_memory::{GuestAddress, GuestMemoryMmap};

use crate::connection::VhostError;

/// The longest ring that Virtio allows in this device is more than any guest uses.
pub(crate) const LONGEST_RING: u16 = 1024;

/// A request queue.
pub(crate) struct Ring {
    queue: Queue,
    pub(crate) enabled: bool,
    /// An eventfd, which the guest writes when it has put requests in.
    kick: Option<File>,
    /// Written here when there is something for the guest; a pipe where the guest is User-Mode Linux.
    call: Option<File>,
    /// There are completions that the guest has not been told of.
    pub(crate) owes_signal: bool,
}

/// Where the parts of a ring lie in the guest's memory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Addresses {
    pub(crate) descriptors: u64,
    pub(crate) available: u64,
    pub(crate) used: u64,
}

impl Ring {
    pub(crate) fn new() -> Result<Self, VhostError> {
        let queue = Queue::new(LONGEST_RING).map_err(VhostError::Ring)?;
        Ok(Self { queue, enabled: false, kick: None, call: None, owes_signal: false })
    }

    pub(crate) fn set_size(&mut self, size: u32) -> Result<(), VhostError> {
        let size = u16::try_from(size).unwrap_or(u16::MAX);
        self.queue.try_set_size(size).map_err(VhostError::Ring)
    }

    pub(crate) fn place(&mut self, addresses: Addresses) -> Result<(), VhostError> {
        let Addresses { descriptors, available, used } = addresses;
        self.queue.try_set_desc_table_address(GuestAddress(descriptors)).map_err(VhostError::Ring)?;
        self.queue.try_set_avail_ring_address(GuestAddress(available)).map_err(VhostError::Ring)?;
        self.queue.try_set_used_ring_address(GuestAddress(used)).map_err(VhostError::Ring)
    }

    /// Where the next request will be taken from. The protocol has one number for both halves of the ring.
    pub(crate) fn set_base(&mut self, base: u16) {
        self.queue.set_next_avail(base);
        self.queue.set_next_used(base);
    }

    pub(crate) fn base(&self) -> u16 {
        self.queue.next_avail()
    }

    pub(crate) fn start(&mut self, kick: Option<OwnedFd>) {
        self.kick = kick.map(File::from);
        self.queue.set_ready(true);
    }

    pub(crate) fn stop(&mut self) {
        self.queue.set_ready(false);
        self.kick = None;
        self.owes_signal = false;
    }

    pub(crate) fn set_call(&mut self, call: Option<OwnedFd>) {
        self.call = call.map(File::from);
    }

    pub(crate) fn set_event_index(&mut self, on: bool) {
        self.queue.set_event_idx(on);
    }

    pub(crate) fn kick(&self) -> Option<BorrowedFd<'_>> {
        self.kick.as_ref().filter(|_| self.enabled).map(AsFd::as_fd)
    }

    pub(crate) fn clear_kick(&self) {
        let Some(mut kick) = self.kick.as_ref() else { return };
        // An error means that there was nothing to clear; what is in the ring is looked at in any case.
        let _ = kick.read(&mut [0; 8]);
    }

    /// The next request in the ring; `None` when it is empty, or the ring is not in use.
    pub(crate) fn pop<'a>(
        &mut self,
        memory: &'a GuestMemoryMmap,
    ) -> Option<DescriptorChain<&'a GuestMemoryMmap>> {
        if !(self.enabled && self.queue.ready()) {
            return None;
        }
        self.queue.pop_descriptor_chain(memory)
    }

    /// With requests waiting already this says yes: take them before waiting for a kick.
    pub(crate) fn wants_kicks(&mut self, memory: &GuestMemoryMmap) -> Result<bool, VhostError> {
        if !(self.enabled && self.queue.ready()) {
            return Ok(false);
        }
        self.queue.enable_notification(memory).map_err(VhostError::Ring)
    }

    /// Gives the request back. What came in before the ring was stopped is forgotten.
    pub(crate) fn push(
        &mut self,
        memory: &GuestMemoryMmap,
        head: u16,
        written: u32,
    ) -> Result<(), VhostError> {
        if !self.queue.ready() {
            return Ok(());
        }
        self.queue.add_used(memory, head, written).map_err(VhostError::Ring)?;
        self.owes_signal |= self.queue.needs_notification(memory).map_err(VhostError::Ring)?;
        Ok(())
    }

    /// Interrupts the guest if it is owed an interrupt; says whether it was.
    pub(crate) fn signal(&mut self) -> Result<bool, VhostError> {
        if !std::mem::take(&mut self.owes_signal) {
            return Ok(false);
        }
        let Some(mut call) = self.call.as_ref() else { return Ok(false) };
        match call.write(&1u64.to_le_bytes()) {
            Ok(_) => Ok(true),
            // The counter or the pipe is full: the guest has an interrupt waiting already.
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => Ok(true),
            Err(source) => Err(VhostError::Socket { doing: "interrupting the guest", source }),
        }
    }
}
