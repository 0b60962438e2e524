//! The rings: shared memory through which requests come and completions go.

use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::Ordering;

use virtio_queue::desc::split::Descriptor;
use virtio_queue::{Queue, QueueT};
use vm_memory::{Address, Bytes, GuestAddress, GuestMemoryMmap};

use crate::chain::{self, Damage};
use crate::connection::VhostError;
use crate::notifier::Notifier;

/// The longest ring that Virtio allows in this device is more than any guest uses.
pub(crate) const LONGEST_RING: u16 = 1024;

/// `struct virtq_avail`: flags and index, before the ring.
const AVAILABLE_HEADER: u64 = 4;

/// A request queue.
pub(crate) struct Ring {
    queue: Queue,
    pub(crate) enabled: bool,
    /// The guest wakes us by this when it has put requests in. It is never read: whoever waits for it does so by edges.
    kick: Option<Notifier>,
    /// The guest is interrupted by this; a pipe where the guest is User-Mode Linux.
    call: Option<Notifier>,
    /// The guest is told by this that the ring is broken.
    error: Option<Notifier>,
    /// There are completions that the guest has not been told of.
    pub(crate) owes_signal: bool,
    /// The heads of the chains that the device has.
    in_use: Vec<bool>,
}

/// Where the parts of a ring lie in the guest's memory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Addresses {
    pub(crate) descriptors: u64,
    pub(crate) available: u64,
    pub(crate) used: u64,
}

/// A chain of descriptors.
pub(crate) struct Chain {
    pub(crate) head: u16,
    pub(crate) descriptors: Vec<Descriptor>,
}

impl Ring {
    pub(crate) fn new() -> Result<Self, VhostError> {
        let queue = Queue::new(LONGEST_RING).map_err(VhostError::Ring)?;
        let in_use = vec![false; LONGEST_RING.into()];
        Ok(Self { queue, enabled: false, kick: None, call: None, error: None, owes_signal: false, in_use })
    }

    pub(crate) fn set_size(&mut self, size: u32) -> Result<(), VhostError> {
        let size = u16::try_from(size).unwrap_or(u16::MAX);
        self.queue.try_set_size(size).map_err(VhostError::Ring)
    }

    pub(crate) fn size(&self) -> u16 {
        self.queue.size()
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

    pub(crate) fn start(&mut self, kick: Option<Notifier>) {
        self.kick = kick;
        self.queue.set_ready(true);
    }

    pub(crate) fn stop(&mut self) {
        self.queue.set_ready(false);
        self.kick = None;
        self.owes_signal = false;
        self.in_use.fill(false);
    }

    /// Stops it for good, and tells the guest that it has broken it.
    pub(crate) fn fail(&mut self) {
        self.stop();
        if let Some(error) = self.error.take() {
            // A guest that does not hear it learns it from the end of the connection.
            let _ = error.raise();
        }
    }

    pub(crate) fn set_call(&mut self, call: Option<Notifier>) {
        self.call = call;
    }

    pub(crate) fn set_error(&mut self, error: Option<Notifier>) {
        self.error = error;
    }

    pub(crate) fn set_event_index(&mut self, on: bool) {
        self.queue.set_event_idx(on);
    }

    pub(crate) fn kick(&self) -> Option<BorrowedFd<'_>> {
        self.kick.as_ref().filter(|_| self.enabled).map(AsFd::as_fd)
    }

    fn is_live(&self) -> bool {
        self.enabled && self.queue.ready()
    }

    /// The next request in the ring; `None` when it is empty, or the ring is not in use.
    pub(crate) fn pop(&mut self, memory: &GuestMemoryMmap, indirect: bool) -> Result<Option<Chain>, Damage> {
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
        let descriptors = chain::follow(memory, table, size, head, indirect)?;
        Ok(Some(Chain { head, descriptors }))
    }

    /// With requests waiting already this says yes: take them before waiting for a kick.
    pub(crate) fn wants_kicks(&mut self, memory: &GuestMemoryMmap) -> Result<bool, Damage> {
        if !self.is_live() {
            return Ok(false);
        }
        self.queue.enable_notification(memory).map_err(|_| Damage::Outside)
    }

    /// Gives the request back. What came in before the ring was stopped is forgotten.
    pub(crate) fn push(&mut self, memory: &GuestMemoryMmap, head: u16, written: u32) -> Result<(), Damage> {
        if !self.queue.ready() {
            return Ok(());
        }
        self.queue.add_used(memory, head, written).map_err(|_| Damage::Outside)?;
        self.in_use[usize::from(head)] = false;
        self.owes_signal |= self.queue.needs_notification(memory).map_err(|_| Damage::Outside)?;
        Ok(())
    }

    /// Interrupts the guest if it is owed an interrupt; says whether it was.
    pub(crate) fn signal(&mut self) -> Result<bool, VhostError> {
        if !std::mem::take(&mut self.owes_signal) {
            return Ok(false);
        }
        let Some(call) = &self.call else { return Ok(false) };
        call.raise().map_err(|source| VhostError::Socket { doing: "interrupting the guest", source })?;
        Ok(true)
    }
}
