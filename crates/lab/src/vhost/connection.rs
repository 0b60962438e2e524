//! A connection: the messages that set the device up, and the requests that then arrive in its rings.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;

use virtio_queue::QueueT;
use vm_memory::{FileOffset, GuestAddress, GuestMemoryMmap, GuestRegionMmap, MmapRegion};

use crate::vhost::config::{CONFIG_BYTES, Offer, feature};
use crate::vhost::message::{self, Message, Progress, Receiver};
use crate::vhost::request::{self, BlockRequest, Status, Taken};
use crate::vhost::ring::Ring;

/// Requests of the protocol, by the names in its specification.
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

    /// Those whose answer is a value.
    pub(super) const WITH_ANSWER: [u32; 5] =
        [GET_FEATURES, GET_PROTOCOL_FEATURES, GET_QUEUE_NUM, GET_CONFIG, GET_VRING_BASE];
}

/// Multiple queues, acknowledged messages, the back channel (never used, but without it User-Mode Linux sets up no
/// interrupt), the configuration space, and the reset.
const PROTOCOL_FEATURES: u64 = 1 << 0 | REPLY_ACK | 1 << 5 | 1 << 9 | 1 << 13;
const REPLY_ACK: u64 = 1 << 3;

const MOST_REGIONS: usize = 8;
const REGION_BYTES: usize = 32;
/// Flag in a ring message's eventfd: there is no descriptor.
const NO_FD: u64 = 1 << 8;

/// Why a connection failed.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages document the variants")]
pub enum VhostError {
    #[error("{doing}")]
    Socket { doing: &'static str, source: io::Error },
    #[error("the guest sent {message}: {reason}")]
    Protocol { message: String, reason: String },
    #[error("the guest set up an invalid virtqueue")]
    Ring(#[from] virtio_queue::Error),
}

straddle_units::error_kind!(VhostError: Failed);

/// The effect of what was received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Received {
    /// Nothing that the owner needs to act on.
    Settled,
    /// A queue was started or stopped: update the wait for [`Connection::kicks`], and call [`Connection::take`].
    QueuesChanged,
    /// The device was reset or a queue stopped. The guest no longer waits for outstanding requests.
    Reset,
    /// The other side has closed the connection.
    Gone,
}

/// A connection to a guest.
pub struct Connection {
    socket: UnixStream,
    offer: Offer,
    config: [u8; CONFIG_BYTES],
    features: u64,
    protocol: u64,
    receiver: Receiver,
    memory: Memory,
    rings: Vec<Ring>,
    /// Kept open, because closing it would tell the guest that the device is gone.
    channel_back: Option<OwnedFd>,
}

impl Connection {
    /// Creates a device, not set up yet, for the guest at the other end of `socket`.
    pub fn new(socket: UnixStream, offer: Offer) -> Result<Self, VhostError> {
        let rings = (0..offer.queues.max(1)).map(|_| Ring::new()).collect::<Result<_, _>>()?;
        let config = offer.config();
        Ok(Self {
            socket,
            offer,
            config,
            features: 0,
            protocol: 0,
            receiver: Receiver::default(),
            memory: Memory::default(),
            rings,
            channel_back: None,
        })
    }

    /// Wait for this to be readable, then call [`Connection::receive`].
    pub fn socket(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// The queues in use, each with a descriptor that becomes readable when [`Connection::take`] has something to do.
    /// It is never read, so wait for its edges (EPOLLET).
    pub fn kicks(&self) -> impl Iterator<Item = (usize, BorrowedFd<'_>)> {
        self.rings.iter().enumerate().filter_map(|(index, ring)| Some((index, ring.kick()?)))
    }

    /// Receives what is available of one message, without waiting, and executes it once it is complete.
    pub fn receive(&mut self) -> Result<Received, VhostError> {
        let failed = |source| VhostError::Socket { doing: "cannot receive a message from the guest", source };
        let mut message = match self.receiver.receive(self.socket.as_fd()).map_err(failed)? {
            Progress::Message(message) => message,
            Progress::Incomplete => return Ok(Received::Settled),
            Progress::Gone => return Ok(Received::Gone),
        };
        let result = self.handle(&mut message);
        let is_answered = result.is_ok() && code::WITH_ANSWER.contains(&message.code);
        if message.needs_reply && self.protocol & REPLY_ACK != 0 && !is_answered {
            self.reply(message.code, &u64::from(result.is_err()).to_le_bytes())?;
        }
        result
    }

    /// Takes the requests out of all rings, in the order of the queues, from each at most as many as fit into it.
    /// Invalid requests are answered here. Returns true if a guest has added more: call again soon, because no kick
    /// will announce them.
    pub fn take(&mut self, requests: &mut Vec<BlockRequest>) -> Result<bool, VhostError> {
        let mut has_more = false;
        for queue in 0..self.rings.len() {
            has_more |= self.take_from(queue, requests)?;
        }
        Ok(has_more)
    }

    fn take_from(&mut self, queue: usize, requests: &mut Vec<BlockRequest>) -> Result<bool, VhostError> {
        let Self { rings, memory, offer, features, .. } = self;
        let (ring, memory) = (&mut rings[queue], &memory.map);
        for _ in 0..=ring.queue.size() {
            let Some((head, chain)) = ring.pop(memory)? else {
                if *features & feature::RING_EVENT_IDX == 0 || !ring.wants_kicks(memory)? {
                    return Ok(false);
                }
                continue;
            };
            match request::take(head, &chain, memory, queue, &offer.serial) {
                Taken::Request(request) => requests.push(request),
                Taken::Answered(written) => ring.push(memory, head, written)?,
            }
        }
        Ok(true)
    }

    /// Copies the data of a write into `into`. Returns false where they lie outside the guest's memory.
    pub fn fetch(&self, request: &BlockRequest, into: &mut Vec<u8>) -> bool {
        request.fetch(&self.memory.map, into).is_some()
    }

    /// Returns a request to the guest, with the data of a read. [`Connection::signal`] then informs it.
    pub fn complete(
        &mut self,
        request: &BlockRequest,
        status: Status,
        data: &[u8],
    ) -> Result<(), VhostError> {
        let written = request.finish(&self.memory.map, status, data);
        Ok(self.rings[request.queue].push(&self.memory.map, request.head, written)?)
    }

    /// Interrupts the guest for completed requests. Returns whether it was interrupted.
    pub fn signal(&mut self) -> Result<bool, VhostError> {
        let mut raised = false;
        for ring in &mut self.rings {
            raised |= ring.signal()?;
        }
        Ok(raised)
    }

    fn handle(&mut self, message: &mut Message) -> Result<Received, VhostError> {
        match message.code {
            code::GET_FEATURES => self.answer(message, self.offer.features())?,
            code::GET_PROTOCOL_FEATURES => self.answer(message, PROTOCOL_FEATURES)?,
            code::GET_QUEUE_NUM => self.answer(message, self.rings.len() as u64)?,
            code::GET_CONFIG => self.answer_config(message)?,
            code::SET_FEATURES => {
                self.features = wanted(message, "SET_FEATURES", self.offer.features())?;
                let event_index = self.features & feature::RING_EVENT_IDX != 0;
                self.rings.iter_mut().for_each(|ring| ring.queue.set_event_idx(event_index));
            }
            code::SET_PROTOCOL_FEATURES => {
                self.protocol = wanted(message, "SET_PROTOCOL_FEATURES", PROTOCOL_FEATURES)?;
            }
            code::SET_OWNER => {}
            // The only writable field of the configuration is the cache mode, which is not offered.
            code::SET_CONFIG => {
                return Err(refused("SET_CONFIG", "nothing in the configuration can be changed"));
            }
            code::SET_BACKEND_REQ_FD => self.channel_back = message.fds.pop(),
            code::SET_MEM_TABLE => self.set_memory(message)?,
            code::RESET_OWNER | code::RESET_DEVICE => {
                self.rings.iter_mut().for_each(Ring::stop);
                return Ok(Received::Reset);
            }
            _ => return self.handle_ring(message),
        }
        Ok(Received::Settled)
    }

    fn handle_ring(&mut self, message: &mut Message) -> Result<Received, VhostError> {
        // With an eventfd, the ring is in the low byte of a 64-bit number, otherwise in a 32-bit index.
        match message.code {
            code::SET_VRING_NUM => {
                let size = u16::try_from(message.u32(4)).unwrap_or(u16::MAX);
                self.ring(message)?.queue.try_set_size(size)?;
            }
            code::SET_VRING_BASE => {
                // One number for both halves of the ring.
                let base = u16::try_from(message.u32(4) & 0xffff).unwrap_or_default();
                let queue = &mut self.ring(message)?.queue;
                queue.set_next_avail(base);
                queue.set_next_used(base);
            }
            code::SET_VRING_ADDR => {
                need(message, "SET_VRING_ADDR", 40)?;
                let [descriptors, used, available] =
                    [8, 16, 24].map(|at| self.memory.guest_address(message.u64(at)));
                let (Some(descriptors), Some(used), Some(available)) = (descriptors, used, available) else {
                    return Err(refused("SET_VRING_ADDR", "the ring is outside the guest's memory"));
                };
                let queue = &mut self.ring(message)?.queue;
                queue.try_set_desc_table_address(descriptors)?;
                queue.try_set_avail_ring_address(available)?;
                queue.try_set_used_ring_address(used)?;
            }
            code::SET_VRING_KICK => {
                let kick = notifier(message, "SET_VRING_KICK")?;
                // Without protocol features no message enables a ring, so it starts enabled.
                let enabled = self.features & feature::PROTOCOL_FEATURES == 0;
                let ring = self.ring(message)?;
                ring.kick = kick;
                ring.queue.set_ready(true);
                ring.enabled |= enabled;
                return Ok(Received::QueuesChanged);
            }
            code::SET_VRING_CALL => {
                let call = notifier(message, "SET_VRING_CALL")?;
                self.ring(message)?.call = call;
            }
            // Of a damaged ring the guest learns by the end of the connection.
            code::SET_VRING_ERR => {}
            code::SET_VRING_ENABLE => {
                self.ring(message)?.enabled = message.u32(4) == 1;
                return Ok(Received::QueuesChanged);
            }
            code::GET_VRING_BASE => {
                let ring = self.ring(message)?;
                let base = ring.queue.next_avail();
                ring.stop();
                let payload = [message.u32(0), base.into()].map(u32::to_le_bytes);
                self.reply(message.code, payload.as_flattened())?;
                return Ok(Received::Reset);
            }
            other => return Err(refused(&format!("message {other}"), "the message was not offered")),
        }
        Ok(Received::Settled)
    }

    fn ring(&mut self, message: &Message) -> Result<&mut Ring, VhostError> {
        need(message, "a ring message", 8)?;
        let index = message.u32(0) & 0xff;
        let ring = self.rings.get_mut(index as usize);
        ring.ok_or_else(|| refused("a ring message", &format!("there is no ring {index}")))
    }

    /// User-Mode Linux always sends room for two regions; only the count in the message matters.
    fn set_memory(&mut self, message: &mut Message) -> Result<(), VhostError> {
        const NAME: &str = "SET_MEM_TABLE";
        let count = usize::try_from(message.u32(0)).unwrap_or(usize::MAX);
        if !(1..=MOST_REGIONS).contains(&count) || message.fds.len() != count {
            let files = message.fds.len();
            return Err(refused(NAME, &format!("the message has {count} regions and {files} files")));
        }
        need(message, NAME, 8 + count * REGION_BYTES)?;
        let region = |index: usize| {
            let at = 8 + index * REGION_BYTES;
            let [guest, length, user, offset] = [0, 8, 16, 24].map(|field| message.u64(at + field));
            Region { user, guest, length, offset }
        };
        let regions = (0..count).map(region).collect();
        let memory = Memory::map(regions, std::mem::take(&mut message.fds));
        self.memory = memory.map_err(|reason| refused(NAME, &reason))?;
        Ok(())
    }

    fn answer_config(&self, message: &Message) -> Result<(), VhostError> {
        const PREFIX: usize = 12;
        need(message, "GET_CONFIG", PREFIX)?;
        let (offset, size) = (message.u32(0), message.u32(4));
        let [offset, size] = [offset, size].map(|number| usize::try_from(number).unwrap_or(usize::MAX));
        if size > message.payload.len() - PREFIX {
            return Err(refused("GET_CONFIG", "the message requests more than its buffers hold"));
        }
        // Drivers request the whole structure that they know; fields past ours are zero.
        let mut payload = message.payload.clone();
        for (index, byte) in payload[PREFIX..PREFIX + size].iter_mut().enumerate() {
            *byte = offset.checked_add(index).and_then(|at| self.config.get(at)).copied().unwrap_or(0);
        }
        self.reply(message.code, &payload)
    }

    fn answer(&self, message: &Message, value: u64) -> Result<(), VhostError> {
        self.reply(message.code, &value.to_le_bytes())
    }

    fn reply(&self, code: u32, payload: &[u8]) -> Result<(), VhostError> {
        let failed = |source| VhostError::Socket { doing: "cannot answer the guest", source };
        message::reply(self.socket.as_fd(), code, payload).map_err(failed)
    }
}

fn notifier(message: &mut Message, name: &str) -> Result<Option<OwnedFd>, VhostError> {
    let fd = if message.u64(0) & NO_FD == 0 { message.fds.pop() } else { None };
    if let Some(fd) = &fd {
        let set = rustix::fs::fcntl_getfl(fd)
            .and_then(|flags| rustix::fs::fcntl_setfl(fd, flags | rustix::fs::OFlags::NONBLOCK));
        set.map_err(|error| refused(name, &format!("the descriptor cannot be used: {error}")))?;
    }
    Ok(fd)
}

/// Returns the feature bits that the guest has chosen, if all of them were offered.
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
        return Err(refused(name, &format!("the message has {has} bytes, but at least {length} are needed")));
    }
    Ok(())
}

fn refused(message: &str, reason: &str) -> VhostError {
    VhostError::Protocol { message: message.to_owned(), reason: reason.to_owned() }
}

#[derive(Clone, Copy, Debug)]
struct Region {
    user: u64,
    guest: u64,
    length: u64,
    offset: u64,
}

#[derive(Default)]
struct Memory {
    map: GuestMemoryMmap,
    regions: Vec<Region>,
}

impl Memory {
    /// Maps the regions, each from its file. On failure returns what is wrong with them.
    fn map(regions: Vec<Region>, files: Vec<OwnedFd>) -> Result<Self, String> {
        let mut mapped = Vec::new();
        for (index, (region, fd)) in regions.iter().zip(files).enumerate() {
            let Region { guest, length, offset, .. } = *region;
            let size = usize::try_from(length).map_err(|_| "a region is too large".to_owned())?;
            let file = File::from(fd);
            // What is past the end of the file would end this process with SIGBUS when it is read.
            let has = file.metadata().map_or(0, |file| file.len());
            if length == 0 || offset.checked_add(length).is_none_or(|end| end > has) {
                return Err(format!(
                    "region {index} cannot be mapped, because {length} bytes from byte {offset} exceed its \
                     file ({has} bytes)"
                ));
            }
            let mapping = MmapRegion::from_file(FileOffset::new(file, offset), size)
                .map_err(|error| format!("region {index} cannot be mapped: {error}"))?;
            let region = GuestRegionMmap::new(mapping, GuestAddress(guest));
            mapped.push(region.ok_or("a region extends past the last address")?);
        }
        let map = GuestMemoryMmap::from_regions(mapped).map_err(|error| error.to_string())?;
        Ok(Self { map, regions })
    }

    fn guest_address(&self, user: u64) -> Option<GuestAddress> {
        let holds = |region: &&Region| user.checked_sub(region.user).is_some_and(|far| far < region.length);
        let region = self.regions.iter().find(holds)?;
        region.guest.checked_add(user - region.user).map(GuestAddress)
    }
}
