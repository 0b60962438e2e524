//! A connection: the messages that set the device up, and the requests that then come through its rings.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;

use vm_memory::{FileOffset, GuestAddress, GuestMemoryMmap, GuestRegionMmap, MmapRegion};

use crate::config::{CONFIG_BYTES, Offer, feature};
use crate::message::{self, Message};
use crate::request::{self, BlockRequest, Status, Taken};
use crate::ring::{Addresses, Ring};

/// Requests of the protocol, by the names of its specification.
mod code {
    pub(super) const GET_FEATURES: u32 = 1;
    pub(super) const SET_FEATURES: u32 = 2;
    pub(super) const SET_OWNER: u32 = 3;
    pub(super) const RESET_OWNER: u32 = 4;
    pub(super) const SET_MEM_TABLE: u32 = 5;
    pub(super) const SET_VRING_NUM: u32 = 8;
    pub(super) const SET_VRING_ADDR: u32 = 9;
    pub(super) const SET_VRING_BASE: u32 = 10;
    pub(super) const GET_VRING_BASE: u32 = 11;
    pub(super) const SET_VRING_KICK: u32 = 12;
    pub(super) const SET_VRING_CALL: u32 = 13;
    pub(super) const SET_VRING_ERR: u32 = 14;
    pub(super) const GET_PROTOCOL_FEATURES: u32 = 15;
    pub(super) const SET_PROTOCOL_FEATURES: u32 = 16;
    pub(super) const GET_QUEUE_NUM: u32 = 17;
    pub(super) const SET_VRING_ENABLE: u32 = 18;
    pub(super) const SET_BACKEND_REQ_FD: u32 = 21;
    pub(super) const GET_CONFIG: u32 = 24;
    pub(super) const SET_CONFIG: u32 = 25;
    pub(super) const RESET_DEVICE: u32 = 34;
}

/// Protocol features that are offered: several queues, acknowledged messages, the channel back (never used; User-Mode
/// Linux sets up no interrupt without it), the configuration space, and the reset.
const PROTOCOL_FEATURES: u64 = 1 << 0 | REPLY_ACK | 1 << 5 | 1 << 9 | 1 << 13;
const REPLY_ACK: u64 = 1 << 3;

const MOST_REGIONS: usize = 8;
const REGION_BYTES: usize = 32;
/// In the message that brings a ring's eventfd: there is none.
const NO_FD: u64 = 1 << 8;

/// What is wrong with the other side, or with the way to it.
#[derive(Debug, thiserror::Error)]
pub enum VhostError {
    /// The socket or an event descriptor failed.
    #[error("{doing}: {source}")]
    Socket {
        /// What was being done.
        doing: &'static str,
        /// The system's error.
        source: io::Error,
    },
    /// A message that the protocol does not allow.
    #[error("the guest sent {message}: {reason}")]
    Protocol {
        /// Which message.
        message: String,
        /// What is wrong with it.
        reason: String,
    },
    /// A ring that does not make sense, or lies outside the guest's memory.
    #[error("a ring of the guest is damaged: {0}")]
    Ring(#[source] virtio_queue::Error),
}

/// What a message has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Received {
    /// Nothing that the owner must care about.
    Settled,
    /// A queue began or ended to be in use: poll [`Connection::kicks`] anew, and look with [`Connection::take`].
    QueuesChanged,
    /// The device was reset or a queue stopped: requests that are still out are no longer waited for.
    Reset,
    /// The other side is gone.
    Gone,
}

/// A piece of the guest's memory, in the addresses of the process that owns it.
struct Region {
    user: u64,
    guest: u64,
    length: u64,
}

/// A connection to a guest.
pub struct Connection {
    socket: UnixStream,
    offer: Offer,
    config: [u8; CONFIG_BYTES],
    features: u64,
    protocol: u64,
    memory: GuestMemoryMmap,
    regions: Vec<Region>,
    rings: Vec<Ring>,
    /// Kept open: closing it would tell the guest that the device is gone.
    channel_back: Option<OwnedFd>,
}

impl Connection {
    /// A device that has nothing set up yet, for the guest behind `socket`.
    pub fn new(socket: UnixStream, offer: Offer) -> Result<Self, VhostError> {
        let rings = (0..offer.queues.max(1)).map(|_| Ring::new()).collect::<Result<_, _>>()?;
        let config = offer.config();
        Ok(Self {
            socket,
            offer,
            config,
            features: 0,
            protocol: 0,
            memory: GuestMemoryMmap::new(),
            regions: Vec::new(),
            rings,
            channel_back: None,
        })
    }

    /// Readable when [`Connection::receive`] has something to do.
    pub fn socket(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// The queues in use, each with the descriptor that is readable when [`Connection::take`] has something to do.
    pub fn kicks(&self) -> impl Iterator<Item = (usize, BorrowedFd<'_>)> {
        self.rings.iter().enumerate().filter_map(|(index, ring)| Some((index, ring.kick()?)))
    }

    /// Makes the queue's kick unreadable until the next one. Call it before [`Connection::take`], not after.
    pub fn clear_kick(&self, queue: usize) {
        if let Some(ring) = self.rings.get(queue) {
            ring.clear_kick();
        }
    }

    /// Waits for one message and does what it says.
    pub fn receive(&mut self) -> Result<Received, VhostError> {
        let failed = |source| VhostError::Socket { doing: "receiving a message of the guest", source };
        let Some(mut message) = message::receive(self.socket.as_fd()).map_err(failed)? else {
            return Ok(Received::Gone);
        };
        let result = self.handle(&mut message);
        let asks = message.needs_reply && self.protocol & REPLY_ACK != 0;
        // Messages that are questions have been answered already.
        let acknowledges = asks && !matches!(result, Ok((_, true)));
        if acknowledges {
            self.reply(message.code, &u64::from(result.is_err()).to_le_bytes())?;
        }
        result.map(|(received, _)| received)
    }

    /// Takes all requests out of all rings, in the order of the queues. What makes no sense is answered here.
    pub fn take(&mut self, requests: &mut Vec<BlockRequest>) -> Result<(), VhostError> {
        let memory = self.memory.clone();
        for (queue, ring) in self.rings.iter_mut().enumerate() {
            loop {
                while let Some(chain) = ring.pop(&memory) {
                    match request::take(chain, &memory, queue, &self.offer.serial) {
                        Taken::Request(request) => requests.push(request),
                        Taken::Answered { head, written } => ring.push(&memory, head, written)?,
                    }
                }
                if !self.offer.event_index || !ring.wants_kicks(&memory)? {
                    break;
                }
            }
        }
        Ok(())
    }

    /// Copies the data of a write into `into`; false where they lie outside the guest's memory.
    pub fn fetch(&self, request: &BlockRequest, into: &mut Vec<u8>) -> bool {
        request.fetch(&self.memory, into).is_some()
    }

    /// Gives a request back, with the data of a read. The guest learns of it with [`Connection::signal`].
    pub fn complete(
        &mut self,
        request: &BlockRequest,
        status: Status,
        data: &[u8],
    ) -> Result<(), VhostError> {
        let written = request.finish(&self.memory, status, data);
        match self.rings.get_mut(request.queue) {
            Some(ring) => ring.push(&self.memory, request.head, written),
            None => Ok(()),
        }
    }

    /// Interrupts the guest for what has been completed; says whether it was interrupted.
    pub fn signal(&mut self) -> Result<bool, VhostError> {
        let mut raised = false;
        for ring in &mut self.rings {
            raised |= ring.signal()?;
        }
        Ok(raised)
    }

    /// Does what the message says; true where it was a question and has been answered.
    fn handle(&mut self, message: &mut Message) -> Result<(Received, bool), VhostError> {
        let settled = Ok((Received::Settled, false));
        match message.code {
            code::GET_FEATURES => self.answer(message, self.offer.features()),
            code::GET_PROTOCOL_FEATURES => self.answer(message, PROTOCOL_FEATURES),
            code::GET_QUEUE_NUM => self.answer(message, self.rings.len() as u64),
            code::GET_CONFIG => self.answer_config(message),
            code::SET_FEATURES => self.set_features(message),
            code::SET_PROTOCOL_FEATURES => {
                self.protocol = wanted(message, "SET_PROTOCOL_FEATURES", PROTOCOL_FEATURES)?;
                settled
            }
            code::SET_OWNER | code::SET_VRING_ERR => settled,
            // The configuration has one field that could be written, the cache mode, and that is not offered.
            code::SET_CONFIG => Err(refused("SET_CONFIG", "nothing in the configuration can be changed")),
            code::SET_BACKEND_REQ_FD => {
                self.channel_back = message.fds.pop();
                settled
            }
            code::SET_MEM_TABLE => {
                self.set_memory(message)?;
                settled
            }
            code::RESET_OWNER | code::RESET_DEVICE => {
                self.rings.iter_mut().for_each(Ring::stop);
                Ok((Received::Reset, false))
            }
            _ => self.handle_ring(message),
        }
    }

    fn handle_ring(&mut self, message: &mut Message) -> Result<(Received, bool), VhostError> {
        let settled = Ok((Received::Settled, false));
        // The eventfds come with their ring in the low byte of a 64-bit number, all else with a 32-bit index.
        match message.code {
            code::SET_VRING_NUM => self.ring(message)?.set_size(message.u32(4)).and(settled),
            code::SET_VRING_BASE => {
                let base = u16::try_from(message.u32(4) & 0xffff).unwrap_or_default();
                self.ring(message)?.set_base(base);
                settled
            }
            code::SET_VRING_ADDR => {
                need(message, "SET_VRING_ADDR", 40)?;
                let [descriptors, used, available] =
                    [8, 16, 24].map(|at| self.guest_address(message.u64(at)));
                let (Some(descriptors), Some(used), Some(available)) = (descriptors, used, available) else {
                    return Err(refused("SET_VRING_ADDR", "the ring lies outside the guest's memory"));
                };
                self.ring(message)?.place(Addresses { descriptors, available, used }).and(settled)
            }
            code::SET_VRING_KICK => {
                let kick = ring_fd(message);
                // Without protocol features there is no message that enables a ring: it starts enabled.
                let enabled = self.features & feature::PROTOCOL_FEATURES == 0;
                let ring = self.ring(message)?;
                ring.start(kick);
                ring.enabled |= enabled;
                Ok((Received::QueuesChanged, false))
            }
            code::SET_VRING_CALL => {
                let call = ring_fd(message);
                self.ring(message)?.set_call(call);
                settled
            }
            code::SET_VRING_ENABLE => {
                let enabled = message.u32(4) == 1;
                self.ring(message)?.enabled = enabled;
                Ok((Received::QueuesChanged, false))
            }
            code::GET_VRING_BASE => {
                let index = message.u32(0);
                let ring = self.ring(message)?;
                let base = ring.base();
                ring.stop();
                let mut payload = index.to_le_bytes().to_vec();
                payload.extend_from_slice(&u32::from(base).to_le_bytes());
                self.reply(message.code, &payload)?;
                Ok((Received::Reset, true))
            }
            other => Err(refused(&format!("message {other}"), "it was not offered")),
        }
    }

    fn ring(&mut self, message: &Message) -> Result<&mut Ring, VhostError> {
        need(message, "a message about a ring", 8)?;
        let index = message.u32(0) & 0xff;
        let ring = usize::try_from(index).ok().and_then(|index| self.rings.get_mut(index));
        ring.ok_or_else(|| refused("a message about a ring", &format!("there is no ring {index}")))
    }

    fn set_features(&mut self, message: &Message) -> Result<(Received, bool), VhostError> {
        self.features = wanted(message, "SET_FEATURES", self.offer.features())?;
        let event_index = self.features & feature::RING_EVENT_IDX != 0;
        self.rings.iter_mut().for_each(|ring| ring.set_event_index(event_index));
        Ok((Received::Settled, false))
    }

    /// Maps the guest's memory. User-Mode Linux always sends room for two regions: what counts is their number.
    fn set_memory(&mut self, message: &mut Message) -> Result<(), VhostError> {
        const NAME: &str = "SET_MEM_TABLE";
        let count = usize::try_from(message.u32(0)).unwrap_or(usize::MAX);
        if !(1..=MOST_REGIONS).contains(&count) || message.fds.len() != count {
            let files = message.fds.len();
            return Err(refused(NAME, &format!("{count} regions and {files} files")));
        }
        need(message, NAME, 8 + count * REGION_BYTES)?;
        let (mut mapped, mut regions) = (Vec::new(), Vec::new());
        for (index, fd) in std::mem::take(&mut message.fds).into_iter().enumerate() {
            let at = 8 + index * REGION_BYTES;
            let [guest, length, user, start] = [0, 8, 16, 24].map(|field| message.u64(at + field));
            let size = usize::try_from(length).map_err(|_| refused(NAME, "a region is too large"))?;
            let file = File::from(fd);
            let has = file.metadata().map_or(0, |file| file.len());
            // Memory past the file's end could be mapped, and would end this process when touched.
            if length == 0 || start.checked_add(length).is_none_or(|end| end > has) {
                let reason =
                    format!("region {index} cannot be mapped: bytes {start} and {length} more, of {has}");
                return Err(refused(NAME, &reason));
            }
            let file = FileOffset::new(file, start);
            let mapping = MmapRegion::from_file(file, size)
                .map_err(|error| refused(NAME, &format!("region {index} cannot be mapped: {error}")))?;
            let region = GuestRegionMmap::new(mapping, GuestAddress(guest));
            mapped.push(region.ok_or_else(|| refused(NAME, "a region goes past the end of all addresses"))?);
            regions.push(Region { user, guest, length });
        }
        let memory = GuestMemoryMmap::from_regions(mapped);
        self.memory = memory.map_err(|error| refused(NAME, &error.to_string()))?;
        self.regions = regions;
        Ok(())
    }

    fn guest_address(&self, user: u64) -> Option<u64> {
        let region = self
            .regions
            .iter()
            .find(|region| user.checked_sub(region.user).is_some_and(|distance| distance < region.length))?;
        region.guest.checked_add(user - region.user)
    }

    fn answer_config(&self, message: &Message) -> Result<(Received, bool), VhostError> {
        const PREFIX: usize = 12;
        need(message, "GET_CONFIG", PREFIX)?;
        let (offset, size) = (message.u32(0), message.u32(4));
        let [offset, size] = [offset, size].map(|number| usize::try_from(number).unwrap_or(usize::MAX));
        if size > message.payload.len() - PREFIX {
            return Err(refused("GET_CONFIG", "it asks for more than it has room for"));
        }
        // Drivers ask for the whole structure that they know, which may have fields after ours: those are zero.
        let mut payload = message.payload.clone();
        for (index, byte) in payload[PREFIX..PREFIX + size].iter_mut().enumerate() {
            *byte = offset.checked_add(index).and_then(|at| self.config.get(at)).copied().unwrap_or(0);
        }
        self.reply(message.code, &payload)?;
        Ok((Received::Settled, true))
    }

    fn answer(&self, message: &Message, value: u64) -> Result<(Received, bool), VhostError> {
        self.reply(message.code, &value.to_le_bytes())?;
        Ok((Received::Settled, true))
    }

    fn reply(&self, code: u32, payload: &[u8]) -> Result<(), VhostError> {
        let failed = |source| VhostError::Socket { doing: "answering the guest", source };
        message::reply(self.socket.as_fd(), code, payload).map_err(failed)
    }
}

fn ring_fd(message: &mut Message) -> Option<OwnedFd> {
    if message.u64(0) & NO_FD == 0 { message.fds.pop() } else { None }
}

/// The feature bits that the guest has chosen, if all of them were offered.
fn wanted(message: &Message, name: &str, offered: u64) -> Result<u64, VhostError> {
    need(message, name, 8)?;
    let bits = message.u64(0);
    if bits & !offered != 0 {
        return Err(refused(name, &format!("bits {:#x} were not offered", bits & !offered)));
    }
    Ok(bits)
}

fn need(message: &Message, name: &str, length: usize) -> Result<(), VhostError> {
    if message.payload.len() < length {
        let has = message.payload.len();
        return Err(refused(name, &format!("{has} bytes, of at least {length}")));
    }
    Ok(())
}

fn refused(message: &str, reason: &str) -> VhostError {
    VhostError::Protocol { message: message.to_owned(), reason: reason.to_owned() }
}
